"""Two-layer models: Gibbs sampling, annealing and belief propagation against matrix products.

Part "sampling" times sweeps, annealing steps and epochs. A sweep of a chain is two matrix-vector
products. All chains are updated together, so the smallest possible time is that of two matrix
products. An epoch of persistent contrastive divergence is compared with scikit-learn's
``BernoulliRBM`` on the same rows in the same precision.

Part "messages" runs ten iterations of belief propagation on random weights, in float32 and float64,
with the kernel of :func:`skmrf.variational.bipartite.propagate` and with the equations of Ping and
Ihler (2017) in numpy. Each is called several times in a row, so that its data are in the cache. The
kernel keeps the exponentials of the weights while the weights do not change; "new weights" is the
ratio if each call has new weights. Two messages need one division. An iteration reads and writes an
array of messages and reads an array of weights, so it moves 12 bytes (float32) or 24 bytes
(float64) for two messages. The limit is the time that a kernel needs just to move these bytes. The
last rows compare two threads with one, and show the fraction of a training epoch in kernels and in
matrix products.
"""

import cProfile
import pstats
import sys
import time
import warnings
from functools import partial
from pathlib import Path

import numpy as np
from _common import bars, calls_in, interleaved, markdown, options, save, write_tables
from sklearn.neural_network import BernoulliRBM
from threadpoolctl import threadpool_limits

from skmrf import RBM, CRBMStructuredPredictor
from skmrf.energies import BipartiteEnergy
from skmrf.learners import PCD
from skmrf.samplers import Product, spawn_generators, sweep
from skmrf.variational.bipartite import propagate

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))
from twins import propagate_matrices

N_CHAINS = 100
SAMPLING = {
    "model": "model",
    "dtype": "precision",
    "product": "products, ms",
    "gibbs": "Gibbs sweep, ms",
    "anneal": "annealing step, ms",
    "gibbs_ratio": "products / sweep",
    "anneal_ratio": "products / step",
    "epoch": "PCD epoch, s",
    "scikit": "BernoulliRBM epoch, s",
    "epoch_ratio": "skmrf / scikit-learn",
}
NOTES = (
    f"Processor time, one thread, {N_CHAINS} chains; medians of interleaved runs. Epochs are "
    f"complete fits of 10,000 rows in batches of 100, including all other work of fit.",
)
N_ITER = 10
TURN = 0.05  # seconds of consecutive calls of one function
CASES = ((784, 256, 1), (784, 256, 100), (1000, 500, 1), (1000, 500, 100), (10_000, 2_000, 1))
FAST = ((784, 256, 1), (100, 50, 20))
MESSAGES = {
    "what": "what",
    "size": "visible x hidden",
    "rows": "rows",
    "dtype": "dtype",
    "seconds": "s a row",
    "ns": "ns a message",
    "matrix_seconds": "matrix form, s a row",
    "ratio": "matrix form / kernel",
    "ratio_new": "new weights",
    "ratio_double": "matrix form in float64 / kernel",
    "limit": "time to move bytes / time",
}


# Sampling --------------------------------------------------------------------------------


def energy_of(n_visible, n_hidden, dtype):
    """Generate an energy with small random weights."""
    rng = np.random.default_rng(0)
    weights = rng.normal(0.0, 0.1, size=(n_visible, n_hidden)).astype(dtype)
    return BipartiteEnergy(weights, rng.normal(size=n_visible), rng.normal(size=n_hidden))


def sampling(energy, n_steps):
    """Return functions that make ``n_steps`` pairs of products, sweeps and annealing steps."""
    rng = np.random.default_rng(1)
    X = Product.uniform(energy.visible_states).sample(N_CHAINS, rng)
    generators = spawn_generators(rng, N_CHAINS)
    V = X.astype(energy.weights.dtype)
    H = V @ energy.weights

    def products():
        for _ in range(n_steps):
            np.matmul(V, energy.weights, out=H)
            np.matmul(H, energy.weights.T)

    return {
        "product": products,
        "gibbs": lambda: sweep(energy, X, generators, n_sweeps=n_steps),
        "anneal": lambda: sweep(energy, X, generators, betas=np.linspace(0.0, 1.0, n_steps + 1)),
    }


def learning(n_visible, n_hidden, n_rows, dtype):
    """Return functions that train for one epoch on random rows."""
    X = (np.random.default_rng(2).random((n_rows, n_visible)) < 0.2).astype(dtype)
    ours = RBM(n_hidden, PCD(N_CHAINS), alpha=0.0, batch_size=N_CHAINS, max_iter=1, random_state=0)
    theirs = BernoulliRBM(n_hidden, batch_size=N_CHAINS, n_iter=1, random_state=0)
    return {"epoch": lambda: ours.fit(X), "scikit": lambda: theirs.fit(X)}


def measure(n_visible, n_hidden, dtype, fast):
    """Return one row of the table."""
    n_steps = 20 if fast else 200
    repeats = 3 if fast else 5
    seconds = interleaved(sampling(energy_of(n_visible, n_hidden, dtype), n_steps), repeats)
    row = {"model": f"{n_visible} x {n_hidden}", "dtype": np.dtype(dtype).name}
    row |= {k: 1e3 * s / n_steps for k, s in seconds.items()}
    row["gibbs_ratio"] = row["product"] / row["gibbs"]
    row["anneal_ratio"] = row["product"] / row["anneal"]
    if dtype == np.float32:
        row |= interleaved(learning(n_visible, n_hidden, 1000 if fast else 10_000, dtype), repeats)
        row["epoch_ratio"] = row["epoch"] / row["scikit"]
    return row


def run_sampling(args):
    """Write the table of sweeps, annealing steps and epochs."""
    sizes = [(64, 32)] if args.fast else [(784, 10), (784, 100), (784, 500), (2000, 1000)]
    rows = []
    with threadpool_limits(1), warnings.catch_warnings():
        warnings.simplefilter("ignore")  # one epoch does not converge
        for n_visible, n_hidden in sizes:
            for dtype in (np.float32, np.float64):
                rows.append(measure(n_visible, n_hidden, dtype, args.fast))
                save(args, "layers", rows, SAMPLING, NOTES)
    keys = {"product": "matrix products", "gibbs": "Gibbs sweep", "anneal": "annealing step"}
    label = "{model}, {dtype}".format_map
    bars(args, "layers", rows, keys, label, xlabel="milliseconds for 100 chains")


# Messages --------------------------------------------------------------------------------


def problem(n_visible, n_hidden, n_rows, dtype):
    """Draw the random weights and fields of two layers."""
    rng = np.random.default_rng(0)
    shapes = (n_visible, n_hidden), (n_rows, n_visible), (n_rows, n_hidden)
    scales = 0.1, 1.0, 1.0
    return [rng.normal(0, s, size).astype(dtype) for s, size in zip(scales, shapes, strict=True)]


def by_kernel(weights, visible, hidden, n_jobs=None):
    """Run ten iterations for all rows with the kernel."""
    return propagate(weights, visible, hidden, max_iter=N_ITER, tol=-1.0, n_jobs=n_jobs)


def by_matrices(weights, visible, hidden):
    """Run ten iterations for the first row with matrix products."""
    return propagate_matrices(weights, visible[0], hidden[0], max_iter=N_ITER, tol=-1.0)


def time_per_call(functions, repeats):
    """Return the processor seconds per call of each function; they take turns of many calls."""
    calls = {name: calls_in(function, TURN) for name, function in functions.items()}

    def turn(name):
        for _ in range(calls[name]):
            functions[name]()

    turns = {name: partial(turn, name) for name in functions}
    return {name: s / calls[name] for name, s in interleaved(turns, repeats).items()}


def bandwidth_seconds(n_visible, n_hidden, dtype):
    """Return the seconds to read and write arrays of the same size as in an iteration."""
    first, second = np.ones((2, n_visible * n_hidden), dtype)
    function = lambda: np.multiply(first, second, out=first)  # noqa: E731
    return interleaved({"copy": function}, repeats=21)["copy"]


def speed(n_visible, n_hidden, n_rows, dtype, repeats):
    """Return one row that compares both implementations."""
    data = problem(n_visible, n_hidden, n_rows, dtype)
    double = [a.astype(np.float64) for a in data]
    other = -data[0], *data[1:]
    functions = {
        "kernel": lambda: by_kernel(*data),
        "new": lambda: (by_kernel(*other), by_kernel(*data)),
    }
    if n_visible <= 1000:
        functions["matrix"] = lambda: by_matrices(*data)
        functions["double"] = lambda: by_matrices(*double)
    found = time_per_call(functions, repeats)
    seconds = found["kernel"] / n_rows
    moved = N_ITER * bandwidth_seconds(n_visible, n_hidden, dtype)
    row = {
        "what": "kernel",
        "size": f"{n_visible} x {n_hidden}",
        "rows": n_rows,
        "dtype": np.dtype(dtype).name,
        "seconds": seconds,
        "ns": 1e9 * seconds / (2 * N_ITER * n_visible * n_hidden),
        "limit": moved / seconds,
    }
    if "matrix" in found:
        row["matrix_seconds"] = found["matrix"]
        row["ratio"] = found["matrix"] / seconds
        row["ratio_new"] = found["matrix"] / (found["new"] / (2 * n_rows))
        row["ratio_double"] = found["double"] / seconds
    return row


def threads(n_visible, n_hidden, n_rows):
    """Return one row that compares the wall time of two threads and of one."""
    data = problem(n_visible, n_hidden, n_rows, np.float32)
    taken = {1: [], 2: []}
    for n_jobs in (1, 2) * 9:
        start = time.perf_counter()
        by_kernel(*data, n_jobs=n_jobs)
        taken[n_jobs].append(time.perf_counter() - start)
    one, two = (min(taken[n][1:]) for n in (1, 2))
    return {
        "what": f"two threads: {one / two:.2f} times one",
        "size": f"{n_visible} x {n_hidden}",
        "rows": n_rows,
        "dtype": "float32",
        "seconds": two / n_rows,
    }


def epoch_share(n_rows, n_outputs, n_hidden, repeats):
    """Return the share of an epoch's time that is spent in kernels and matrix products.

    The profiler measures their time. The total time is measured without the profiler, because the
    profiler takes time itself.
    """
    rng = np.random.default_rng(0)
    Y = (rng.random((n_rows, n_outputs)) < 0.3).astype(np.float32)
    X = np.abs(Y - (rng.random(Y.shape) < 0.1)).astype(np.float32)
    model = CRBMStructuredPredictor(n_hidden, max_iter=3, early_stopping=False, random_state=0)
    own, total = [], []
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model.fit(X[:50], Y[:50])
        for _ in range(repeats):
            start = time.process_time()
            model.fit(X, Y)
            total.append(time.process_time() - start)
            profile = cProfile.Profile(time.process_time)
            profile.runcall(model.fit, X, Y)
            own.append(seconds_in_products(profile))
    return {
        "what": f"learning: {min(own) / min(total):.0%} in kernels and matrix products",
        "size": f"{n_outputs} x {n_hidden}",
        "rows": n_rows,
        "dtype": "float32",
        "seconds": min(total) / 3 / n_rows,
    }


def seconds_in_products(profile):
    """Return the seconds that a profile attributes to kernels and matrix products."""
    products = {"gradient", "fields", "_hidden_fields", "hidden_means"}
    return sum(
        v[2]
        for (path, _, name), v in pstats.Stats(profile).stats.items()
        if "_kernels" in path or ("skmrf" in path and name in products)
    )


def run_messages(args):
    """Write the table of belief propagation."""
    rows = []
    with threadpool_limits(1):
        for n_visible, n_hidden, n_rows in FAST if args.fast else CASES:
            for dtype in (np.float32, np.float64):
                rows.append(speed(n_visible, n_hidden, n_rows, dtype, 3 if args.fast else 7))
        rows.append(threads(784, 256, 64 if args.fast else 1000))
        rows.append(epoch_share(*((200, 784, 256, 1) if args.fast else (4000, 784, 256, 3))))
    save(args, "layer_messages", rows, MESSAGES)
    write_tables(args.results / "conditional_rbm.md", {"layer messages": markdown(rows, MESSAGES)})
    bars(
        args, "layer_messages", [r for r in rows if "ratio" in r],
        {"matrix_seconds": "matrix form", "seconds": "kernel"},
        lambda row: f"{row['size']}, {row['rows']} rows, {row['dtype']}",
        xlabel="seconds a row, ten iterations",
    )  # fmt: skip


PARTS = {"sampling": run_sampling, "messages": run_messages}


def main(argv=None):
    parser = options(__doc__)
    parser.add_argument("--parts", nargs="*", choices=PARTS, default=list(PARTS))
    args = parser.parse_args(argv)
    for part in args.parts:
        PARTS[part](args)


if __name__ == "__main__":
    main()
