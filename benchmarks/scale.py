"""Many rows and many columns: time and memory, and the share of work that threads can divide.

The first model is a default estimator with all pairs, fitted to msnbc (17 columns), repeated to a
million rows. The second model has 500 binary columns and 2,000 pairs. It is fitted to samples of a
random sparse Ising model with the same pairs, and its couplings are compared with the true ones.
"""

import itertools
import time
import warnings
from functools import partial

import numpy as np
from _common import bars, in_child, options, peak_bytes, reset_peak, save, timed
from joblib import cpu_count
from threadpoolctl import threadpool_limits

from skmrf import RBM, DiscreteMRF
from skmrf._utils import parallel
from skmrf.datasets import fetch_density_benchmark, make_ising
from skmrf.energies import BipartiteEnergy
from skmrf.learners import PCD
from skmrf.likelihood import ais
from skmrf.samplers.gibbs_queries import draw
from skmrf.variational.bipartite import propagate

N_EPOCHS = 4  # that are timed together
N_REPEATS = 5  # of these times, which other programs disturb
COLUMNS = {
    "model": "model",
    "n_rows": "rows",
    "n_columns": "columns",
    "n_pairs": "pairs",
    "seconds": "fit s",
    "updates": "updates",
    "converged": "converged",
    "input_mb": "input MB",
    "added_mb": "peak above input, MB",
    "train": "train",
    "correlation": "correlation of couplings",
    "rms_error": "RMS error",
    "expected_error": "expected by sampling",
}


def fit(X, **parameters):
    """Fit a model; return it and the columns of time and memory. The memory of X is excluded."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        DiscreteMRF(max_iter=1, random_state=0, **parameters).fit(X[:512])  # compiles
        before = reset_peak()
        model = DiscreteMRF(random_state=0, **parameters)
        _, seconds = timed(model.fit, X)
    return model, {
        "n_rows": len(X),
        "n_columns": X.shape[1],
        "n_pairs": sum(len(c) == 2 for c in model.cliques_),
        "seconds": seconds,
        "updates": int(model.history_["n_updates"][-1]),
        "converged": model.converged_,
        "input_mb": X.nbytes / 2**20,
        "added_mb": (peak_bytes() - before) / 2**20,
    }


def long_data(n_rows, data_home):
    """Return the row of msnbc, repeated to ``n_rows`` rows."""
    train = fetch_density_benchmark("msnbc", data_home=data_home).train
    X = np.resize(train, (n_rows, train.shape[1]))
    model, row = fit(X)
    return {"model": "msnbc repeated", **row, "train": model.score(train)}


def random_ising(n, n_pairs, rng):
    """Generate an Ising model on random pairs, with couplings weak enough for fast mixing."""
    pairs = np.array(list(itertools.combinations(range(n), 2)))
    pairs = pairs[np.sort(rng.choice(len(pairs), n_pairs, replace=False))]
    coupling, field = rng.normal(0.0, 0.15, n_pairs), rng.normal(0.0, 0.2, n)
    return make_ising(pairs.tolist(), n_variables=n, coupling=coupling, field=field), pairs


def recovered(model, pairs):
    """Return couplings of the states -1 and 1, a quarter of the interaction of each table."""
    tables = dict(zip(model.cliques_, model.log_potentials_, strict=True))
    signs = np.array([[1.0, -1.0], [-1.0, 1.0]])
    return np.array([0.25 * (signs * tables[tuple(pair)]).sum() for pair in pairs.tolist()])


def wide_model(n, n_pairs, n_rows, seed=0):
    """Fit a sparse Ising model to its samples and return one row of the table."""
    rng = np.random.default_rng(seed)
    energy, pairs = random_ising(n, n_pairs, rng)
    X = draw(energy, n_rows, rng, n_sweeps=400)
    cliques = [(i,) for i in range(n)] + [tuple(pair) for pair in pairs.tolist()]
    model, row = fit(X, cliques=cliques, categories=[[0, 1]] * n)
    truth, found = energy.coupling[pairs[:, 0], pairs[:, 1]], recovered(model, pairs)
    return {
        "model": "sparse Ising",
        **row,
        "correlation": float(np.corrcoef(truth, found)[0, 1]),
        "rms_error": float(np.sqrt(np.mean((truth - found) ** 2))),
        "expected_error": _sampling_error(energy, pairs, X),
    }


def _sampling_error(energy, pairs, X):
    """Return the RMS standard error of a coupling by pseudo-likelihood, other parameters known."""
    spins = 2.0 * X - 1.0
    field = spins @ energy.coupling + energy.bias
    slack = 1.0 - np.tanh(field) ** 2  # curvature of log p(s_i | rest) with respect to the field
    i, j = pairs.T
    information = slack[:, i].sum(axis=0) + slack[:, j].sum(axis=0)
    return float(np.sqrt(np.mean(2.0 / information)))


def main(argv=None):
    parser = options(__doc__, data=True)
    parser.add_argument("--long-rows", type=int, default=None)
    parser.add_argument("--threads", action="store_true", help="only the share of parallel work")
    args = parser.parse_args(argv)
    n_rows = args.long_rows or (100_000 if args.fast else 1_000_000)
    wide = (60, 120, 2_000) if args.fast else (500, 2_000, 20_000)
    if args.threads:
        write_thread_table(args)
        return
    rows = [in_child(long_data, n_rows, args.data_home)]
    rows.append(in_child(wide_model, *wide))
    save(args, "scale", rows, COLUMNS, NOTES)
    bars(
        args, "scale", rows, {"seconds": "fit, seconds", "added_mb": "peak above input, MB"},
        lambda row: f"{row['model']}\n{row['n_rows']:,} x {row['n_columns']}", xlabel="",
    )  # fmt: skip


class ParallelWork:
    """Processor time of the units of parallel work.

    In this context, units run one after the other in one thread. Linear algebra also has one
    thread, because other threads would take processor time while they wait.
    """

    def __init__(self):
        self.calls = []

    def __enter__(self):
        self.limits = threadpool_limits(1)
        self.start, self.replaced = time.process_time(), (parallel.starmap, parallel._uses_threads)
        parallel.starmap, parallel._uses_threads = self.run, lambda: True
        return self

    def __exit__(self, *error):
        parallel.starmap, parallel._uses_threads = self.replaced
        self.total = time.process_time() - self.start
        self.limits.restore_original_limits()

    def run(self, function, blocks):
        seconds, results = [], []
        for block in blocks:
            start = time.process_time()
            results.append(function(*block))
            seconds.append(time.process_time() - start)
        if len(seconds) > 1:
            self.calls.append(seconds)
        return results

    def row(self, n_threads=16):
        """Return the share of serial work and the largest gain of threads (Amdahl's law)."""
        units = [s for call in self.calls for s in call]
        serial = self.total - sum(units)
        longest = sum(max(sum(call) / n_threads, max(call)) for call in self.calls)
        bound = self.total / (serial + longest)
        return {
            "total_ms": 1e3 * self.total,
            "serial": serial / self.total,
            "units": len(units) / max(len(self.calls), 1),
            "unit_ms": 1e3 * float(np.mean(units)),
            "bound": bound,
        }


def time_threads(fast):
    """Yield the share of parallel work of four computations, and the gain of all cores."""
    rng, n = np.random.default_rng(0), 2_000 if fast else 10_000
    X = (rng.random((n, 784)) < rng.random(784)).astype(np.int16)
    given = {"alpha": 0.001, "batch_size": 1000, "random_state": 0}

    def rbm(max_iter):
        return RBM(500, PCD(n_chains=1000), max_iter=max_iter, **given).fit(X)

    yield {"work": "RBM, 784 x 500, batches and chains of 1000", **measure_epoch(rbm)}
    columns = (rng.random((2_000, 200)) < 0.5).astype(int)

    def mrf(max_iter):
        return DiscreteMRF("pairwise", PCD(n_chains=2000), max_iter=max_iter, **given).fit(columns)

    yield {"work": "DiscreteMRF, 200 columns, 2000 chains", **measure_epoch(mrf)}
    shapes, scales = ((1000, 500), (1000, 1000), (1000, 500)), (0.05, 1.0, 1.0)
    arrays = [
        rng.normal(0.0, scale, shape).astype(np.float32)
        for scale, shape in zip(scales, shapes, strict=True)
    ]
    messages = partial(propagate, *arrays, max_iter=2 if fast else 10, tol=0.0)
    yield {"work": "belief propagation of a CRBM, 1000 rows, 1000 x 500", **measure(messages)}
    biases = rng.random(784), rng.random(500)
    energy = BipartiteEnergy(rng.normal(0.0, 0.05, (784, 500)).astype(np.float32), *biases)
    few = {"n_chains": 1000, "n_temperatures": 10, "schedule": "linear", "random_state": 0}
    yield {"work": "annealing, 784 x 500, 1000 chains", **measure(partial(ais, energy, **few))}


def measure(run):
    """Return the row of a computation."""
    run()  # compiles
    with ParallelWork() as work:
        run()
    seconds = [wall_seconds(run, n_threads) for n_threads in (1, cpu_count())]
    return work.row() | gain(*seconds)


def measure_epoch(fit):
    """Return the row of an epoch, from fits with one epoch and with several more.

    It is the median of several rows.
    """
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        fit(1)
        rows = [_epoch_row(fit) for _ in range(N_REPEATS)]
        seconds = [
            wall_seconds(partial(fit, 1 + N_EPOCHS), n) - wall_seconds(partial(fit, 1), n)
            for n in (1, cpu_count())
        ]
    return sorted(rows, key=lambda row: row["bound"])[N_REPEATS // 2] | gain(*seconds)


def wall_seconds(run, n_threads):
    """Return the median of the seconds of a computation in threads."""
    with parallel.parallel_jobs(n_threads), threadpool_limits(n_threads):
        return float(np.median([timed(run)[1] for _ in range(N_REPEATS)]))


def gain(one, several):
    """Return the columns of the gain of all cores over one core."""
    return {"cores": cpu_count(), "gain": one / several}


def _epoch_row(fit):
    parts = []
    for max_iter in (1, 1 + N_EPOCHS):
        with ParallelWork() as work:
            fit(max_iter)
        parts.append(work)
    first, all_epochs = parts
    all_epochs.total -= first.total
    all_epochs.calls = all_epochs.calls[len(first.calls) :]
    row = all_epochs.row()
    return row | {"total_ms": row["total_ms"] / N_EPOCHS}


def write_thread_table(args):
    """Print and save the share of serial work of each computation."""
    rows = []
    for row in time_threads(args.fast):
        rows.append(row)
        print(row, flush=True)
    columns = {
        "work": "work",
        "total_ms": "processor time, ms",
        "serial": "serial share",
        "units": "units per call",
        "unit_ms": "unit, ms",
        "bound": "largest gain of 16 threads",
        "cores": "cores",
        "gain": "measured gain of all cores",
    }
    save(args, "threads", rows, columns, THREAD_NOTES)


THREAD_NOTES = (
    "Processor time in one thread. The largest gain is an upper limit by Amdahl's law: serial "
    "work, plus the longest unit of each call or a 16th of its units. The measured gain is the "
    "time with one core divided by that with all cores.",
)
NOTES = (
    "Wall-clock time, after compilation. Peak: resident memory in addition to the loaded input.",
    "Expected error: from the curvature of the pseudo-likelihood if all other parameters are "
    "known.",
)

if __name__ == "__main__":
    main()
