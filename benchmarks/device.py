"""Time whole fits and annealing on the CPU and on a device of JAX, side by side.

Run ``python benchmarks/device.py``. It needs ``pip install "skmrf[jax]"`` or, for a GPU, ``pip
install "skmrf[cuda]"``. Random binary rows have the size of MNIST, because times do not depend on
the values. The time of an epoch is the difference of fits with many and few epochs, divided by the
difference of the numbers of epochs. A second column has the time of the whole fit per epoch, with
all transfers. Each fit is run once before it is timed, so that no compilation is timed. A third
column has the additional time of this first fit. The device makes more epochs than the CPU, because
it needs a shorter time. One row has a whole fit until convergence. The epochs of RBMs are compared
with a loop of the same kind in plain JAX, without an estimator.

``python benchmarks/device.py --mapped 2000`` instead measures the memory of fits to rows of a
memory map, a file of 2000 MB. It needs Linux.
"""

import tempfile
import threading
import time
import warnings
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from multiprocessing import get_context
from pathlib import Path

import numpy as np
from _common import bars, options, save
from sklearn.exceptions import ConvergenceWarning

from skmrf import RBM, BoltzmannMachine, CRBMStructuredPredictor, DiscreteMRF
from skmrf._jax import open_device
from skmrf.energies import BipartiteEnergy, FactorGraph, PairwiseEnergy
from skmrf.learners import MLEBP, PCD
from skmrf.likelihood import ais
from skmrf.variational.bipartite import propagate

N_ROWS, N_COLUMNS = 10_000, 784
N_REPEATS = 3  # of times on the device
MOST_UPDATES = 1400  # the default rate is zero after 1500


def binary_rows(n_rows=N_ROWS, n_columns=N_COLUMNS):
    """Return random rows whose columns have different means."""
    rng = np.random.default_rng(0)
    return (rng.random((n_rows, n_columns)) < rng.random(n_columns)).astype(np.int16)


def fit_seconds(X, device, max_iter, n_components, batch_size, learner=None):
    """Return the seconds of a whole fit; by default PCD with as many chains as rows in a batch."""
    model = RBM(
        n_components,
        PCD(n_chains=batch_size) if learner is None else learner,
        alpha=0.001,
        batch_size=batch_size,
        max_iter=max_iter,
        device=device,
        random_state=0,
    )
    start = time.perf_counter()
    model.fit(X)
    return time.perf_counter() - start


def time_epochs(fit, n_epochs, device):
    """Return a dict of median seconds on a device.

    ``device`` is the time of one more epoch of a fit, ``device_fit`` that of the fit per epoch, and
    ``device_first`` the additional time of the first fit, which compiles. ``fit(max_iter)`` returns
    the seconds of a fit. Fits on the CPU are slow, and are measured once.
    """
    n_repeats = 1 if device == "cpu" else N_REPEATS
    first = fit(2)
    few = float(np.median([fit(2) for _ in range(n_repeats)]))
    many = float(np.median([fit(2 + n_epochs) for _ in range(n_repeats)]))
    return {
        device: (many - few) / n_epochs,
        f"{device}_fit": many / (2 + n_epochs),
        f"{device}_first": first - few,
    }


def time_plain_loop(X, n_components, batch_size, device):
    """Return the median seconds of an epoch of PCD in plain JAX, without an estimator."""
    import jax
    from jax import numpy as jnp

    def draw(means, key):
        return (jax.random.uniform(key, means.shape) < means).astype(jnp.float32)

    def update(carry, inputs):
        (W, b, c, H), (rows, key) = carry, inputs
        V, (first, second) = data[rows].astype(jnp.float32), jax.random.split(key)
        means = jax.nn.sigmoid(V @ W + c)
        X = draw(jax.nn.sigmoid(H @ W.T + b), first)
        model_means = jax.nn.sigmoid(X @ W + c)
        W = W + rate * (V.T @ means - X.T @ model_means)
        b = b + rate * (V.sum(axis=0) - X.sum(axis=0))
        c = c + rate * (means.sum(axis=0) - model_means.sum(axis=0))
        return (W, b, c, draw(model_means, second)), None

    @jax.jit
    def epoch(carry, batches, key):
        return jax.lax.scan(update, carry, (batches, jax.random.split(key, len(batches))))[0]

    def seconds():
        start = time.perf_counter()
        jax.block_until_ready(epoch(carry, batches, jax.random.key(0)))
        return time.perf_counter() - start

    device, rng, rate = open_device(device), np.random.default_rng(0), 0.01 / batch_size
    shapes = (X.shape[1], n_components), X.shape[1], n_components, (batch_size, n_components)
    carry = tuple(device.put([rng.normal(0.0, 0.01, shape) for shape in shapes]))
    batches = device.put(rng.permutation(len(X)).astype(np.int32).reshape(-1, batch_size))
    data = device.put(X.astype(np.uint8))
    seconds()  # compiles
    return float(np.median([seconds() for _ in range(10 * N_REPEATS)]))


def layer_model(n_hidden=500):
    """Return two layers of the size of MNIST with random parameters."""
    rng = np.random.default_rng(1)
    weights = rng.normal(0.0, 0.05, (N_COLUMNS, n_hidden)).astype(np.float32)
    return BipartiteEnergy(weights, rng.normal(size=N_COLUMNS), -rng.random(n_hidden))


def pair_model(n_variables=200):
    """Return coupled variables with random parameters."""
    rng = np.random.default_rng(2)
    coupling = rng.normal(0.0, 0.05, (n_variables, n_variables))
    return PairwiseEnergy(
        np.triu(coupling, 1) + np.triu(coupling, 1).T, rng.normal(size=n_variables)
    )


def time_annealing(energy, device, n_chains=1000, n_temperatures=1000):
    """Return the seconds of annealing in both directions, after a compilation."""
    options = {"n_chains": n_chains, "schedule": "linear", "random_state": 0, "device": device}
    ais(energy, n_temperatures=500, **options)
    start = time.perf_counter()
    ais(energy, n_temperatures=n_temperatures, **options)
    return time.perf_counter() - start


def pair_seconds(X, device, max_iter):
    """Return the seconds of a fit of a Boltzmann machine without hidden units."""
    model = BoltzmannMachine(
        PCD(n_chains=1000, n_sweeps=1), n_components=0, states=(0, 1), alpha=0.001,
        batch_size=1000, max_iter=max_iter, device=device, random_state=0,
    )  # fmt: skip
    start = time.perf_counter()
    model.fit(X)
    return time.perf_counter() - start


def table_seconds(X, device, max_iter):
    """Return the seconds of a fit of tables of all pairs of columns."""
    model = DiscreteMRF(
        "pairwise", PCD(n_chains=1000, n_sweeps=1), alpha=0.001, batch_size=1000,
        max_iter=max_iter, device=device, random_state=0,
    )  # fmt: skip
    start = time.perf_counter()
    model.fit(X)
    return time.perf_counter() - start


def table_rows(n_rows=N_ROWS, n_columns=100, n_states=10):
    """Return random rows of categories."""
    return np.random.default_rng(4).integers(0, n_states, (n_rows, n_columns))


def table_model(n_variables=100, n_states=10):
    """Return a model of tables of all pairs of variables with random parameters."""
    rng = np.random.default_rng(5)
    cliques = [(i, j) for i in range(n_variables) for j in range(i)]
    tables = rng.normal(0.0, 0.05, (len(cliques), n_states, n_states))
    return FactorGraph([n_states] * n_variables, cliques, list(tables))


def propagation_arrays(n_rows=100, n_visible=1000, n_hidden=500):
    """Return weights and fields of a conditional RBM with random parameters, for some rows."""
    rng = np.random.default_rng(3)
    shapes = (n_visible, n_hidden), (n_rows, n_visible), (n_rows, n_hidden)
    scales = 0.05, 1.0, 1.0
    return [rng.normal(0.0, s, n).astype(np.float32) for s, n in zip(scales, shapes, strict=True)]


def time_propagation(arrays, device):
    """Return the median seconds of 10 iterations of belief propagation, arrays in place."""
    device = open_device(device)
    infer = partial(propagate, max_iter=10, tol=0.0, pairs=True)
    if device is not None:
        infer = device.compile(infer, ("propagation", arrays[0].shape))
        arrays = [device.put(a) for a in arrays]

    def seconds():
        start = time.perf_counter()
        np.asarray(infer(*arrays).n_iter)  # waits for the device
        return time.perf_counter() - start

    seconds()  # compiles
    return float(np.median([seconds() for _ in range(N_REPEATS)]))


def conditional_seconds(X, device, max_iter):
    """Return the seconds of a fit of a conditional RBM: 200 inputs, 584 outputs, 256 units."""
    model = CRBMStructuredPredictor(
        256, MLEBP(n_iter=10), alpha=0.01, batch_size=100, max_iter=max_iter, early_stopping=False,
        device=device, random_state=0,
    )  # fmt: skip
    start = time.perf_counter()
    model.fit(X[:, :200], X[:, 200:])
    return time.perf_counter() - start


def time_learners(X, devices):
    """Yield the rows of learners with particles or exact sums."""
    for learner in ("ptt", "mcmc-mle", "pf-mcmc-mle", "smc", "psmc", "exact"):
        n_components = 10 if learner == "exact" else 500
        row = {"work": f"RBM epoch, 784 x {n_components}, batches of 1000, {learner}"}
        for device in devices:
            fit = partial(
                fit_seconds, X, device, n_components=n_components, batch_size=1000, learner=learner
            )
            row |= time_epochs(fit, 2, device)
        yield row


def time_conditional(X, devices, fast):
    """Yield the rows of conditional RBMs."""
    arrays = propagation_arrays(n_rows=10) if fast else propagation_arrays()
    yield {
        "work": f"10 iterations of belief propagation, 1000 x 500, {len(arrays[1])} rows",
        **{device: time_propagation(arrays, device) for device in devices},
    }
    row = {"work": "CRBM epoch, mle-bp, 200 inputs, 584 x 256, 1,000 rows, batches of 100"}
    for device in devices:
        row |= time_epochs(partial(conditional_seconds, X[:1000], device), 2, device)
    yield row


def time_whole_fits(X, devices):
    """Yield the row of a fit that ends by convergence, with its last exact gradients."""
    row = {"work": "whole fit of an RBM until convergence, 784 x 10, batches and chains of 100"}
    for device in devices:
        fit = partial(fit_seconds, X, device, max_iter=None, n_components=10, batch_size=100)
        n_repeats = 1 if device == "cpu" else N_REPEATS
        first, seconds = fit(), float(np.median([fit() for _ in range(n_repeats)]))
        row |= {device: seconds, f"{device}_first": first - seconds}
    yield row


def time_work(X, devices, fast):
    """Yield a row of the table for each kind of work, with the seconds on each device."""
    sizes = ((500, 100), (500, 1000), (10, 100))
    for n_components, batch_size in sizes[1:] if fast else sizes:
        row = {"work": f"RBM epoch, 784 x {n_components}, batches and chains of {batch_size}"}
        for device, most in devices.items():
            n_epochs = min(most, MOST_UPDATES * batch_size // N_ROWS) - 2
            fit = partial(fit_seconds, X, device, n_components=n_components, batch_size=batch_size)
            row |= time_epochs(fit, n_epochs, device)
            if device != "cpu":
                row["plain"] = time_plain_loop(X, n_components, batch_size, device)
        yield row
    row = {"work": "epoch of 200 coupled variables, batches and chains of 1000"}
    for device, most in devices.items():
        fit = partial(pair_seconds, X[:, :200], device)
        row |= time_epochs(fit, most - 2, device)
    yield row
    row = {"work": "epoch of tables, 100 columns of 10 categories, batches and chains of 1000"}
    for device, most in devices.items():
        fit = partial(table_seconds, table_rows(), device)
        row |= time_epochs(fit, min(most, 4) - 2 if device == "cpu" else most - 2, device)
    yield row
    models = {"784 x 500": layer_model(), "200 coupled variables": pair_model()}
    for what, energy in models.items():
        yield {
            "work": f"annealing both ways, {what}, 1000 chains, 1000 temperatures",
            **{device: time_annealing(energy, device) for device in devices},
        }
    few = {"n_chains": 100, "n_temperatures": 250}
    yield {
        "work": "annealing both ways, tables of 100 variables with 10 states, "
        f"{few['n_chains']} chains, {few['n_temperatures']} temperatures",
        **{device: time_annealing(table_model(), device, **few) for device in devices},
    }
    yield from time_conditional(X, devices, fast)
    if not fast:
        yield from time_whole_fits(X, devices)
        yield from time_learners(X, devices)


def write_rows(path, n_bytes, n_columns=4000):
    """Write rows to a file; few columns are not zero."""
    n_rows = n_bytes // n_columns
    X = np.lib.format.open_memmap(path, mode="w+", dtype=np.uint8, shape=(n_rows, n_columns))
    X[:, :20] = binary_rows(n_rows, 20)
    X.flush()


def own_memory():
    """Return the bytes of this process that are not parts of files."""
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith("RssAnon"):
            return 1024 * int(line.split()[1])
    raise RuntimeError("/proc/self/status has no line RssAnon; this measurement needs Linux.")


def peak_memory(fit):
    """Return the largest increase in bytes of the memory of this process during a call."""
    before, is_over, peak = own_memory(), threading.Event(), [0]

    def watch():
        while not is_over.wait(0.005):
            peak[0] = max(peak[0], own_memory() - before)

    watcher = threading.Thread(target=watch)
    watcher.start()
    try:
        fit()
    finally:
        is_over.set()
        watcher.join()
    return peak[0]


def memory_of_fit(folder, device, in_memory):
    """Return the peak memory of a fit to the rows in a folder, which compiles nothing."""
    warnings.simplefilter("ignore", ConvergenceWarning)
    few, rows = (np.load(Path(folder, name), mmap_mode="r") for name in ("few.npy", "rows.npy"))
    model = RBM(8, alpha=0.01, max_iter=1, device=device, random_state=0)
    model.fit(few)
    return peak_memory(partial(model.fit, np.array(rows) if in_memory else rows))


def measure_mapped(n_bytes, device):
    """Yield the memory of fits to a memory map and, for comparison, to the same array in memory."""
    with tempfile.TemporaryDirectory() as folder:
        write_rows(Path(folder, "few.npy"), 2**23)
        write_rows(Path(folder, "rows.npy"), n_bytes)
        for name in ("cpu", device):
            peaks = []
            for in_memory in (False, True):  # in processes that have freed no memory before
                with ProcessPoolExecutor(1, get_context("spawn")) as pool:
                    peaks.append(pool.submit(memory_of_fit, folder, name, in_memory).result())
            yield {"device": name, "file": n_bytes, "map": peaks[0], "array": peaks[1]}


def main():
    """Time all work on the CPU and on a device, and print a table."""
    parser = options(__doc__)
    parser.add_argument("--device", default="jax", help="jax, gpu or cuda")
    parser.add_argument("--epochs", type=int, default=6, help="epochs of a fit on the CPU")
    parser.add_argument("--device-epochs", type=int, default=140, help="the same on the device")
    parser.add_argument("--mapped", type=int, help="megabytes of a file that is mapped to memory")
    args = parser.parse_args()
    warnings.simplefilter("ignore", ConvergenceWarning)
    warnings.simplefilter("ignore", UserWarning)
    if args.mapped:
        for row in measure_mapped(1_000_000 * args.mapped, args.device):
            print({k: f"{v / 1e6:.0f} MB" if type(v) is int else v for k, v in row.items()})
        return
    devices, rows = {"cpu": args.epochs, args.device: args.device_epochs}, []
    for row in time_work(binary_rows(), devices, args.fast):
        rows.append(row | {"factor": row["cpu"] / row[args.device]})
        print(rows[-1], flush=True)
    columns = {
        "work": "work",
        "cpu": "CPU, s",
        args.device: f"{open_device(args.device)}, s",
        f"{args.device}_fit": "whole fit per epoch, s",
        f"{args.device}_first": "additional time of the first fit, s",
        "plain": "plain JAX loop, s",
        "factor": "factor",
    }
    save(args, "device", rows, columns)
    keys = {"cpu": "CPU", args.device: args.device}
    bars(args, "device", rows, keys, lambda row: row["work"], xlabel="seconds")


if __name__ == "__main__":
    main()
