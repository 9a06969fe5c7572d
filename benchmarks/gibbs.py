"""Gibbs sampling: nanoseconds per variable update of skmrf, vectorised numpy and pgmpy.

All samplers make systematic scans of the same model. skmrf has a kernel for tables of any order, a
kernel for tables of pairs, which are a matrix over the states of all variables, and a kernel for
binary pairwise models. It chooses one of them; this benchmark runs all that apply. The numpy
implementation updates one variable of all chains at once. pgmpy runs one chain. Before that, it
tabulates the conditional distribution of each variable for all joint states of the others, so it is
limited to small models; this set-up time is a separate column. The last columns compare the
marginals of single variables.

A second table has models of 200 coupled units in equilibrium, with and without hidden units.
"""

import functools
import io
import itertools
import time
import warnings
from contextlib import redirect_stderr

import numpy as np
from _common import bars, calls_in, interleaved, options, save, timed
from threadpoolctl import threadpool_limits

from skmrf.datasets import make_ising
from skmrf.energies import FactorGraph, SemiRestrictedEnergy
from skmrf.energies.conditionals import BinaryConditionals, TableConditionals
from skmrf.energies.dense_tables import state_conditionals
from skmrf.inference import marginals
from skmrf.samplers import Product, spawn_generators, sweep

N_CHAINS = 512
MAX_ENTRIES = 2**19  # of pgmpy's tables of conditionals
EXACT_STATES = 2**16
N_COUPLED_CHAINS, SWEEPS_PER_CALL = 1000, 50
COLUMNS = {
    "model": "model",
    "cliques": "cliques a variable",
    "skmrf_tables": "skmrf tables, ns",
    "skmrf_matrix": "skmrf matrix, ns",
    "skmrf_binary": "skmrf binary, ns",
    "numpy_tables": "numpy tables, ns",
    "numpy_binary": "numpy binary, ns",
    "pgmpy": "pgmpy, ns",
    "pgmpy_setup": "pgmpy set-up, s",
    "gap": "largest difference of marginals",
    "gap_in_errors": "in standard errors",
}

COUPLED_COLUMNS = {
    "model": "model",
    "flips": "share of units that change",
    "nanoseconds": "ns a unit and chain",
    "hidden": "hidden products, ns",
    "fields": "first product, ns",
}


# Models ------------------------------------------------------------------------------------


def grid(side, rng):
    """Generate an Ising model on a square grid, with couplings of both signs."""
    n = side * side
    seed, field = int(rng.integers(2**31)), rng.normal(0.0, 0.2, n)
    return make_ising(
        "grid", n_variables=n, coupling=0.3, field=field, mixed_signs=True, random_state=seed
    ).factor_graph()


def random_pairs(n, q, n_pairs, rng, scale=0.3):
    """Generate a model with normal log-potentials on all variables and on random (or all) pairs."""
    pairs = list(itertools.combinations(range(n), 2))
    if n_pairs is not None:
        pairs = [pairs[k] for k in np.sort(rng.choice(len(pairs), n_pairs, replace=False))]
    cliques = [(i,) for i in range(n)] + pairs
    tables = [rng.normal(0.0, scale, [q] * len(c)) for c in cliques]
    return FactorGraph([q] * n, cliques, tables)


def models(fast):
    """Yield the names and the models of the benchmark."""
    rng = np.random.default_rng(0)
    yield "3 x 3 grid", grid(3, rng)
    if not fast:
        yield "4 x 4 grid", grid(4, rng)
        yield "10 x 10 grid", grid(10, rng)
        yield "20 x 20 grid", grid(20, rng)
    yield "complete, 16 binary", random_pairs(16, 2, None, rng, 0.1)
    yield "53 of 21 states, 106 pairs", random_pairs(53, 21, 106, rng)
    if not fast:
        yield "500 binary, 2000 pairs", random_pairs(500, 2, 2000, rng)
        yield "complete, 60 of 5 states", random_pairs(60, 5, None, rng, 0.1)
        yield "complete, 100 of 10 states", random_pairs(100, 10, None, rng, 0.1)


# Samplers: functions of n_sweeps that continue from the current state and return it ------------


class TableGraph(FactorGraph):
    """Factor graph that always uses the kernel for tables."""

    def conditionals(self):
        lay = self.layout
        structure = (lay.clique_ptr, lay.clique_vars, lay.strides, lay.table_start)
        return TableConditionals(self.flat, self.n_states, *structure, *lay.incidence)


class MatrixGraph(TableGraph):
    """Factor graph that always uses the kernel for a matrix over the states of all variables."""

    def conditionals(self):
        return self.matrix

    @functools.cached_property
    def matrix(self):
        return state_conditionals(super().conditionals())


def skmrf_sampler(energy, X, rng):
    generators = spawn_generators(rng, len(X))

    def run(n_sweeps):
        nonlocal X
        X, _ = sweep(energy, X, generators, n_sweeps=n_sweeps)
        return X

    return run


def numpy_binary(graph, X, rng):
    """Return a sampler that computes the logits of all chains by a matrix-vector product."""
    coupling, bias, _ = graph.conditionals()
    X = X.astype(float)

    def run(n_sweeps):
        for _ in range(n_sweeps):
            uniforms = rng.random(X.T.shape)
            for i, u in enumerate(uniforms):
                X[:, i] = u * (1.0 + np.exp(-(X @ coupling[i] + bias[i]))) < 1.0
        return X.astype(int)

    return run


def numpy_tables(graph, X, rng):
    """Return a sampler that looks up the scores of all chains by one indexing of the tables."""
    lay, flat = graph.layout, graph.flat
    ptr, clique, stride = (np.asarray(a, dtype=np.int64) for a in lay.incidence)
    X = X.astype(np.int64)
    steps = np.zeros((lay.n_cliques, graph.n_variables), dtype=np.int64)
    for i in range(graph.n_variables):
        steps[clique[ptr[i] : ptr[i + 1]], i] = stride[ptr[i] : ptr[i + 1]]
    entry = X @ steps.T + lay.table_start
    mine = [slice(ptr[i], ptr[i + 1]) for i in range(graph.n_variables)]

    def update(i, u):
        a, step, q = clique[mine[i]], stride[mine[i]], int(graph.n_states[i])
        rest = entry[:, a] - X[:, i, None] * step
        scores = flat[rest[:, :, None] + step[:, None] * np.arange(q)].sum(axis=1)
        p = np.exp(scores - scores.max(axis=1, keepdims=True)).cumsum(axis=1)
        X[:, i] = (p <= (u * p[:, -1])[:, None]).sum(axis=1)
        entry[:, a] = rest + X[:, i, None] * step

    def run(n_sweeps):
        for _ in range(n_sweeps):
            for i, u in enumerate(rng.random(X.T.shape)):
                update(i, u)
        return X

    return run


def pgmpy_sampler(graph, seed):
    """Return a sampler that returns all states of a chain of pgmpy, or None without pgmpy."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            from pgmpy.factors.discrete import DiscreteFactor
            from pgmpy.models import DiscreteMarkovNetwork
            from pgmpy.sampling import GibbsSampling
    except ImportError:
        return None
    names = [f"v{i}" for i in range(graph.n_variables)]
    network = DiscreteMarkovNetwork()
    network.add_nodes_from(names)
    network.add_edges_from([[names[v] for v in c] for c in graph.cliques if len(c) == 2])
    for clique, table in zip(graph.cliques, graph.log_potentials, strict=True):
        network.add_factors(DiscreteFactor([names[v] for v in clique], table.shape, np.exp(table)))
    np.random.seed(seed)  # noqa: NPY002 - pgmpy draws from the global generator
    sampler = GibbsSampling(network)
    return lambda n_sweeps: sampler.sample(size=n_sweeps + 1)[names].to_numpy()[1:]


# Measurement -------------------------------------------------------------------------------


def chain_means(run, n_records):
    """Return the frequency of x_i = 1 in each chain, over records two sweeps apart."""
    run(50)
    return np.mean([run(2) == 1 for _ in range(n_records)], axis=0)


def estimate(means):
    """Return marginals and their standard errors from means of independent chains or batches."""
    return means.mean(axis=0), means.std(axis=0, ddof=1) / np.sqrt(len(means))


def largest_gap(found):
    """Return the largest difference of marginals of two samplers, also in standard errors."""
    gap, in_errors = 0.0, 0.0
    for (p, p_error), (r, r_error) in itertools.combinations(found, 2):
        difference = np.abs(p - r)
        gap = max(gap, float(difference.max()))
        in_errors = max(in_errors, float((difference / np.hypot(p_error, r_error)).max()))
    return {"gap": gap, "gap_in_errors": in_errors}


def measure(name, graph, fast):
    """Return one row of the table: nanoseconds per update, and differences of marginals."""
    rng = np.random.default_rng(1)
    X = Product.uniform(graph.n_states).sample(N_CHAINS, rng)
    arrays = graph.n_states, graph.cliques, graph.flat
    runs = {
        "skmrf_tables": skmrf_sampler(TableGraph(*arrays), X, rng),
        "skmrf_matrix": skmrf_sampler(MatrixGraph(*arrays), X, rng),
        "numpy_tables": numpy_tables(graph, X, rng),
    }
    if isinstance(graph.conditionals(), BinaryConditionals):
        runs["skmrf_binary"] = skmrf_sampler(graph, X, rng)
        runs["numpy_binary"] = numpy_binary(graph, X, rng)
    n = graph.n_variables
    seconds = 0.01 if fast else 0.1
    sweeps = {k: calls_in(lambda run=run: run(1), seconds) for k, run in runs.items()}
    calls = {k: lambda k=k: runs[k](sweeps[k]) for k in runs}
    medians = interleaved(calls, 3 if fast else 9)
    row = {k: 1e9 * s / (sweeps[k] * n * N_CHAINS) for k, s in medians.items()}
    n_records = 20 if fast else 50
    found = [estimate(chain_means(run, n_records)) for run in runs.values()]
    row.update(model=name, cliques=len(graph.layout.clique_vars) / n)
    if np.prod(graph.n_states.astype(float)) <= EXACT_STATES:
        single = marginals(graph, method="exact").single
        found.append((np.array([p[1] for p in single]), np.zeros(n)))
        if n * 2.0 ** (n - 1) <= MAX_ENTRIES and not (fast and n > 9):
            row.update(measure_pgmpy(graph, found, 500 if fast else 4000))
    return {**row, **largest_gap(found)}


def measure_pgmpy(graph, found, n_sweeps, n_batches=20):
    """Return set-up time and time per update, and append the marginals of a chain to ``found``."""
    with redirect_stderr(io.StringIO()):  # the progress bars cannot be switched off
        sampler, setup = timed(pgmpy_sampler, graph, 0)
        if sampler is None:
            return {}
        start = time.process_time()
        X = sampler(n_sweeps)
        seconds = time.process_time() - start
    found.append(estimate(np.array([b.mean(axis=0) for b in np.array_split(X == 1, n_batches)])))
    return {"pgmpy": 1e9 * seconds / (n_sweeps * graph.n_variables), "pgmpy_setup": setup}


# Coupled units in equilibrium ---------------------------------------------------------------


def coupled_models(fast):
    """Yield names and energies of random models of coupled units."""
    n, rng = 20 if fast else 200, np.random.default_rng(0)
    upper = np.triu(rng.normal(0.0, 1.5 / np.sqrt(n), (n, n)), 1)
    coupling, bias = upper + upper.T, rng.normal(-2.5, 1.0, n)
    for n_hidden, dtype in ((0, np.float32), (0, np.float64), (128, np.float32)):
        weights, hidden_bias = rng.normal(0.0, 0.03, (n, n_hidden)), np.zeros(n_hidden)
        arrays = (a.astype(dtype) for a in (coupling, weights, bias, hidden_bias))
        name = f"{n} units, {n_hidden} hidden units, {np.dtype(dtype)}"
        yield name, SemiRestrictedEnergy(*arrays)


def measure_coupled(name, energy, fast):
    """Return one row of the second table: nanoseconds per unit and chain, and their parts."""
    rng, n = np.random.default_rng(1), energy.weights.shape[0]
    X = Product.uniform(energy.visible_states).sample(N_COUPLED_CHAINS, rng)
    run = skmrf_sampler(energy, X, rng)
    before = run(10 if fast else 100).copy()
    flips = np.mean(run(1) != before)
    n_sweeps = 2 if fast else SWEEPS_PER_CALL
    V, (coupling, weights, *_) = before.astype(energy.weights.dtype), energy.conditionals()
    calls = {"nanoseconds": lambda: run(n_sweeps), "fields": lambda: V @ coupling}
    if weights.size:
        calls["hidden"] = lambda: [(V @ weights) @ weights.T for _ in range(n_sweeps)]
    medians = interleaved(calls, 3 if fast else 9)
    row = {k: 1e9 * s / (n_sweeps * n * N_COUPLED_CHAINS) for k, s in medians.items()}
    return {"model": name, "flips": flips, **row}


def main(argv=None):
    args = options(__doc__).parse_args(argv)
    rows = []
    for name, graph in models(args.fast):
        with threadpool_limits(1):
            rows.append(measure(name, graph, args.fast))
        save(args, "gibbs", rows, COLUMNS, NOTES)
    with threadpool_limits(1):
        coupled = [measure_coupled(*m, args.fast) for m in coupled_models(args.fast)]
    save(args, "gibbs_coupled", coupled, COUPLED_COLUMNS, COUPLED_NOTES)
    keys = {k: h.removesuffix(", ns") for k, h in COLUMNS.items() if h.endswith(", ns")}
    xlabel = "nanoseconds per variable update"
    bars(args, "gibbs", rows, keys, lambda row: row["model"], xlabel=xlabel)


NOTES = (
    f"Processor time, one thread, {N_CHAINS} chains (pgmpy: one); medians of interleaved runs.",
    "The differences of P(x_i = 1) are those between any two methods, including exact inference.",
)

COUPLED_NOTES = (
    f"Processor time, one thread, {N_COUPLED_CHAINS:,} chains, {SWEEPS_PER_CALL} sweeps a call; "
    "medians of interleaved runs.",
    "The last two columns are parts of the time: products with the weights of hidden units, and "
    "the product with the couplings at the start of a call.",
)

if __name__ == "__main__":
    main()
