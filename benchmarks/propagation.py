"""Cost of belief propagation and of chained belief propagation, and quality of MAP states.

The first table has nanoseconds per table entry and iteration, compared with vectorised numpy that
stores all tables of one order in one array. The second table has the seconds for 1,000 samples of
31 variables with a prefix tree, compared with Algorithm 1 as printed in the paper, with the same
kernels. There, each sample needs 20 iterations per variable on the whole graph, and sampled
variables are clamped by 0/1 potentials. The table also has the largest difference of the
probabilities of the same states.

``--map-data FOLDER`` computes only a third table: the log10 score of the most probable state that
each method finds for the models of a folder of UAI files (``NAME.uai.gz``, ``NAME.uai.evid.gz`` and
the best known state ``NAME.uai.MAP.gz``), the median over the seeds 0, 1 and 2, and the seconds.

``--zeros-data FOLDER`` computes only a fourth table: for the models of a folder of UAI files that
have zero potentials, the errors of log Z and of marginals, compared with ``NAME.uai.PR.gz`` and
``NAME.uai.MAR.gz``. The errors are medians over the same seeds.
"""

import time
import warnings
from pathlib import Path

import numpy as np
from _common import bars, interleaved, options, save
from threadpoolctl import threadpool_limits

from skmrf._kernels.propagation import Tables, propagate
from skmrf._utils.codes import STATE
from skmrf.datasets import make_ising, make_multimodal_mrf
from skmrf.datasets.random_models import make_random_mrf
from skmrf.energies import FactorGraph
from skmrf.inference import log_partition, map_assignment, marginals
from skmrf.io import read_evidence, read_result, read_uai
from skmrf.samplers.chained_bp import ChainedSampler, ChainSettings
from skmrf.variational import arrangement
from skmrf.variational.belief_propagation import Propagation

ITERATIONS = 20
PRINTED = Propagation("flooding", 0.0, ITERATIONS, 0.0)
DRAWS = 1000
COST = {
    "model": "model",
    "entries": "table entries",
    "flooding": "flooding, ns",
    "sequential": "sequential, ns",
    "numpy": "numpy flooding, ns",
    "ratio": "numpy / skmrf",
}
CHAIN = {
    "instance": "instance",
    "printed": "as printed, s",
    "tree": "prefix tree, s",
    "ratio": "ratio",
    "runs": "runs",
    "distinct": "distinct draws",
    "converged": "converged",
    "difference": "largest difference of q",
}
SEARCHES = ("annealing", "decimation", "local-search")
ESTIMATES = "bethe", "ais", "bp", "gibbs", "block-gibbs"
ZEROS = {"model": "model", "variables": "variables"}
for _method in ESTIMATES:
    _quantity = "log Z" if _method in ("bethe", "ais") else "marginals"
    ZEROS |= {_method: f"{_method}, error of {_quantity}", f"{_method} s": f"{_method}, s"}
MAPS = {"model": "model", "variables": "variables", "known": "best known"}
MAPS |= {key: heading for m in SEARCHES for key, heading in ((m, m), (f"{m} s", "s"))}


# Cost of an iteration ----------------------------------------------------------------------


def models(fast):
    """Yield names and models."""
    yield "grid 50 x 50, binary", make_ising("grid", n_variables=2500, coupling=0.3, field=0.1)
    yield "complete 60, binary", make_ising("complete", n_variables=60, coupling=0.01, field=0.1)
    for order in (3, 5):
        how = {"n_cliques": 1000, "order": order, "scale": 0.3, "random_state": 0}
        yield f"500 binary, 1,000 cliques of {order}", make_random_mrf(500, **how)
    if not fast:
        how = {"n_states": 21, "n_cliques": 106, "scale": 0.3, "random_state": 0}
        yield "53 of 21 states, 106 pairs", make_random_mrf(53, **how)


class NumpyFlooding:
    """Sum-product algorithm in the log domain, with all cliques of one order in one array."""

    def __init__(self, graph):
        self.q = int(graph.n_states[0])
        self.n = graph.n_variables
        self.groups = []
        potentials = graph.log_potentials
        for order in np.unique(graph.layout.orders[graph.layout.orders > 0]):
            which = np.flatnonzero(graph.layout.orders == order)
            members = np.array([graph.cliques[a] for a in which])
            tables = np.array([potentials[a] for a in which])
            self.groups.append((members, tables, np.zeros((*members.shape, self.q))))

    def __call__(self, n_iter):
        """Iterate from uniform messages and return the beliefs of single variables."""
        for _, _, out in self.groups:
            out[:] = 0.0
        totals = np.zeros((self.n, self.q))
        for _ in range(n_iter):
            for members, tables, out in self.groups:
                self._answer(members, tables, out, totals)
            totals = np.zeros((self.n, self.q))
            for members, _, out in self.groups:
                np.add.at(totals, members.ravel(), out.reshape(-1, self.q))
        p = np.exp(totals - totals.max(axis=1, keepdims=True))
        return p / p.sum(axis=1, keepdims=True)

    def _answer(self, members, tables, out, totals):
        order = members.shape[1]
        cavities = totals[members] - out
        cavities -= cavities.max(axis=2, keepdims=True)
        joint = tables
        for k in range(order):
            shape = [len(members)] + [self.q if d == k else 1 for d in range(order)]
            joint = joint + cavities[:, k].reshape(shape)
        joint = np.exp(joint - joint.reshape(len(members), -1).max(1).reshape(-1, *[1] * order))
        for k in range(order):
            axes = tuple(d + 1 for d in range(order) if d != k)
            out[:, k] = np.log(joint.sum(axis=axes)) - cavities[:, k]
            out[:, k] -= out[:, k].max(axis=1, keepdims=True)


def cost(name, energy):
    """Return one row of the first table."""
    graph = energy.factor_graph()
    arranged = arrangement.arrange(graph.layout)
    tables, scope = arranged.tables(graph.flat), arranged.components(0)
    starts = arranged.starts(np.full((1, graph.n_variables), -1, dtype=STATE), 0)
    work, fresh = arranged.work(), np.zeros((0, 0))
    singles, ends = np.zeros((1, int(graph.n_states.sum()))), np.zeros((1, 2))
    slow = NumpyFlooding(graph)

    def run(schedule):
        codes = Propagation(schedule, 0.0).codes(ITERATIONS)._replace(tol=-1.0)
        propagate(arranged.graph, tables, starts, scope, codes, 0, fresh, work, singles, ends)
        return singles[0].copy()

    np.testing.assert_allclose(run("flooding"), slow(ITERATIONS).ravel(), atol=1e-9)
    medians = interleaved(
        {
            "flooding": lambda: run("flooding"),
            "sequential": lambda: run("sequential"),
            "numpy": lambda: slow(ITERATIONS),
        }
    )
    scale = 1e9 / (ITERATIONS * len(tables.potentials))
    row = {"model": name, "entries": len(tables.potentials)}
    row |= {k: scale * seconds for k, seconds in medians.items()}
    return row | {"ratio": row["numpy"] / row["flooding"]}


# Draws -------------------------------------------------------------------------------------


class PrintedAlgorithm:
    """Algorithm 1 as printed: samples share no computation, and tables are not reduced."""

    def __init__(self, graph):
        n, m = graph.n_variables, len(graph.cliques)
        clamps = [(i,) for i in range(n)]
        tables = [*graph.log_potentials, *(np.zeros(2) for _ in range(n))]
        clamped = FactorGraph(graph.n_states, [*graph.cliques, *clamps], tables)
        self.n = n
        self.clamps = m + np.arange(n)
        self.arranged = arrangement.arrange(clamped.layout)
        tables = self.arranged.tables(clamped.flat)
        self.at = len(tables.potentials)
        delta = np.array([0.0, -np.inf, -np.inf, 0.0])
        self.tables = Tables(
            np.concatenate([tables.log_potentials, delta]),
            np.concatenate([tables.potentials, np.exp(delta)]),
        )

    def draw(self, n_samples, rng):
        """Return states and their log-probabilities; samples are computed in batches."""
        arranged = self.arranged
        X = np.full((n_samples, self.n), -1, dtype=STATE)
        starts, scope, work = arranged.starts(X, 0), arranged.components(0), arranged.work()
        clamps = np.zeros((n_samples, len(work.messages)))
        edge = arranged.graph.message_start[arranged.graph.clique_ptr[self.clamps]]
        singles, ends = np.empty((n_samples, 2 * self.n)), np.empty((n_samples, 2))
        codes = PRINTED.codes()._replace(tol=-1.0)
        log_q = np.zeros(n_samples)
        for i in range(self.n):
            for s in range(0, n_samples, 50):
                c = slice(s, s + 50)
                propagate(
                    arranged.graph, self.tables, starts[c], scope, codes, 0, clamps[c].copy(), work,
                    singles[c], ends[c],
                )  # fmt: skip
            p = singles[:, 2 * i + 1]
            one = rng.random(n_samples) < p
            X[:, i], log_q = one, log_q + np.log(np.where(one, p, 1.0 - p))
            starts[:, self.clamps[i]] = np.where(one, self.at + 2, self.at)
            clamps[:, edge[i]] = np.where(one, -np.inf, 0.0)
            clamps[:, edge[i] + 1] = np.where(one, 0.0, -np.inf)
        return X, log_q


def chain(instance, n, n_samples):
    """Return one row of the second table."""
    graph = make_multimodal_mrf(n, random_state=instance)
    printed = PrintedAlgorithm(graph)
    tree = ChainedSampler(graph.layout, ChainSettings("bp", "index", PRINTED), n_samples)
    rng = np.random.default_rng(instance)
    tree.draw(graph.flat, 2, rng), printed.draw(2, rng)
    clock = [time.process_time()]
    draws = tree.draw(graph.flat, n_samples, rng)
    clock.append(time.process_time())
    X, log_q = printed.draw(n_samples, rng)
    clock.append(time.process_time())
    seconds, slow = np.diff(clock).tolist()
    difference = np.abs(np.exp(tree.log_density(graph.flat, X)) - np.exp(log_q)).max()
    return {
        "instance": instance,
        "printed": slow,
        "tree": seconds,
        "ratio": slow / seconds,
        "runs": draws.n_runs,
        "distinct": len(draws.X),
        "converged": draws.converged,
        "difference": f"{difference:.0e}",
    }


# Most probable states -----------------------------------------------------------------------


def search_modes(path, seeds):
    """Return a row with the log10 scores and the seconds of all methods for one UAI file."""
    graph = read_uai(path)
    name = path.name.removesuffix(".uai.gz")
    evidence = read_evidence(path.with_name(f"{name}.uai.evid.gz"))
    known = read_result(path.with_name(f"{name}.uai.MAP.gz"))
    row = {"model": name, "variables": graph.n_variables}
    row["known"] = _log10_score(graph, np.asarray(known.value))
    for method in SEARCHES:
        scores, seconds = [], []
        for seed in seeds:
            began = time.perf_counter()
            how = {"evidence": evidence, "method": method, "random_state": seed}
            scores.append(_log10_score(graph, map_assignment(graph, **how).states))
            seconds.append(time.perf_counter() - began)
        row |= {method: float(np.median(scores)), f"{method} s": float(np.median(seconds))}
    return row


# Zero potentials ----------------------------------------------------------------------------


def query_errors(path, seeds):
    """Return a row with the errors of log Z and of marginals for a UAI file with zero potentials.

    Marginals have root mean square errors.
    """
    graph = read_uai(path)
    name = path.name.removesuffix(".uai.gz")
    if not np.isneginf(graph.flat).any() or not path.with_name(f"{name}.uai.MAR.gz").exists():
        return None
    evidence = read_evidence(path.with_name(f"{name}.uai.evid.gz"))
    log_z = read_result(path.with_name(f"{name}.uai.PR.gz")).value
    single = np.concatenate(read_result(path.with_name(f"{name}.uai.MAR.gz")).value)
    row = {"model": name, "variables": graph.n_variables}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        for method in ESTIMATES:
            found, seconds = [], []
            for seed in seeds:
                began = time.perf_counter()
                how = {"evidence": evidence, "method": method, "random_state": seed}
                if method in ("ais", "bethe"):
                    found.append(abs(log_partition(graph, **how).value - log_z))
                else:
                    error = np.concatenate(marginals(graph, **how).single) - single
                    found.append(np.sqrt(np.mean(error**2)))
                seconds.append(time.perf_counter() - began)
            row |= {method: float(np.median(found)), f"{method} s": float(np.median(seconds))}
    return row


def _log10_score(graph, states):
    return float(graph.log_potential(states[None])[0] / np.log(10.0))


def main(argv=None):
    parser = options(__doc__)
    parser.add_argument("--map-data", type=Path, help="folder of UAI files; only the third table")
    parser.add_argument(
        "--zeros-data", type=Path, help="folder of UAI files; only the fourth table"
    )
    args = parser.parse_args(argv)
    if args.zeros_data is not None:
        seeds = range(1 if args.fast else 3)
        rows = [query_errors(path, seeds) for path in sorted(args.zeros_data.glob("*.uai.gz"))]
        rows = [row for row in rows if row is not None]
        save(args, "propagation_zeros", rows, ZEROS, ["Medians over seeds; wall time."])
        return
    if args.map_data is not None:
        seeds = range(1 if args.fast else 3)
        rows = [search_modes(path, seeds) for path in sorted(args.map_data.glob("*.uai.gz"))]
        save(args, "propagation_map", rows, MAPS, ["Medians over seeds; wall time, one thread."])
        return
    with threadpool_limits(1):
        rows = [cost(name, energy) for name, energy in models(args.fast)]
        note = f"Processor time, one thread, {ITERATIONS} iterations; medians of interleaved runs."
        save(args, "propagation_cost", rows, COST, [note])
        n, n_samples, instances = (16, 100, 3) if args.fast else (31, DRAWS, 10)
        draws = [chain(instance, n, n_samples) for instance in range(instances)]
        median = float(np.median([row["ratio"] for row in draws]))
        save(args, "propagation_chain", draws, CHAIN, [f"Median ratio: {median:.0f}."])
    keys = {"flooding": "skmrf", "numpy": "numpy"}
    xlabel = "nanoseconds a table entry and iteration"
    bars(args, "propagation_cost", rows, keys, lambda row: row["model"], xlabel=xlabel)


if __name__ == "__main__":
    main()
