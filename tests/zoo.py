"""Small models on which the tests of all energies run, names of learners, and files of models.

``ZOO`` maps names to factories. ``ZOO[name](seed)`` is an energy, the same one for the same seed.
It has at most 1024 joint states, so that they can be enumerated. ``GOOD`` and ``GOOD_FG`` are valid
files, and ``MODELS`` the paths of those in the test data.
"""

import gzip
import math
import os
from itertools import combinations, pairwise, product
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st

from skmrf._utils.codes import STATE
from skmrf.energies import (
    BipartiteEnergy,
    ConditionalBipartiteEnergy,
    FactorGraph,
    NeuralEnergy,
    PairwiseEnergy,
    SemiRestrictedEnergy,
)
from skmrf.energies.crf import CRFEnergy
from skmrf.learners import BeliefLearner, ConditionalLearner
from skmrf.learners.crf import GraphLearner
from skmrf.learners.registry import accepted

TABLE_LEARNERS = accepted(FactorGraph)
LAYERED_LEARNERS = accepted(BipartiteEnergy)
COUPLED_LEARNERS = accepted(SemiRestrictedEnergy)
CONDITIONAL_LEARNERS = accepted(ConditionalBipartiteEnergy, ConditionalLearner)
CONTINUOUS_LEARNERS = accepted(NeuralEnergy, BeliefLearner)
GRAPH_LEARNERS = accepted(CRFEnergy, GraphLearner)

VARIATIONAL = ["bp", "bp-cd", "bpchain-cd", "mean-field"]
TABLE_MODELS = ["chain", "cycle", "grid", "complete", "orders", "tied", "constant_binary"]


def long(*cases):
    """Return cases of a parametrised test, marked as long; a tuple has several arguments."""
    return _marked(pytest.mark.long, cases)


def slow(*cases):
    """Return cases of a parametrised test, marked as slow; a tuple has several arguments."""
    return _marked(pytest.mark.slow, cases)


def _marked(mark, cases):
    cases = [case if isinstance(case, tuple) else (case,) for case in cases]
    return [pytest.param(*case, marks=mark) for case in cases]


def naive_log_potential(energy, X):
    """Return ``log f`` of each row, computed from the definition, as a sum of all its terms."""
    X = np.asarray(X)
    if isinstance(energy, PairwiseEnergy):
        return _pair_terms(energy.coupling, _values(energy, X)) + _values(energy, X) @ energy.bias
    if isinstance(energy, BipartiteEnergy):
        W, c, b = (np.asarray(a, dtype=float) for a in energy.theta.values())
        v, h = X[:, : len(c)], X[:, len(c) :]
        return _cross_terms(W, v, h) + v @ c + h @ b
    if isinstance(energy, SemiRestrictedEnergy):
        return _semi_restricted(energy, X)
    total = np.zeros(len(X))
    for clique, table in zip(energy.cliques, energy.log_potentials, strict=True):
        total = total + table[tuple(X[:, list(clique)].T)]
    return total


def _values(energy, codes):
    return np.asarray(energy.states, dtype=float)[codes.astype(int)]


def _pair_terms(J, s):
    pairs = combinations(range(s.shape[1]), 2)
    return sum((J[i, j] * s[:, i] * s[:, j] for i, j in pairs), np.zeros(len(s)))


def _cross_terms(W, v, h):
    pairs = product(range(v.shape[1]), range(h.shape[1]))
    return sum((W[i, j] * v[:, i] * h[:, j] for i, j in pairs), np.zeros(len(v)))


def _semi_restricted(energy, X):
    W, b, c = (
        np.asarray(energy.theta[k], dtype=float) for k in ("weights", "visible_bias", "hidden_bias")
    )
    J = np.asarray(energy.theta.get("coupling", np.zeros((len(b), len(b)))), dtype=float)
    s, h = _values(energy, X[:, : len(b)]), X[:, len(b) :]
    return _pair_terms(J, s) + _cross_terms(W, s, h) + s @ b + h @ c


def enumerate_states(energy):
    """Return all joint states, the last variable varying fastest, and their ``log f``."""
    states = np.array(list(product(*(range(q) for q in energy.n_states))), dtype=STATE)
    states = states.reshape(-1, energy.n_variables)
    return states, naive_log_potential(energy, states)


def model_rows(energy, n_rows, rng):
    """Return exact samples of a model, drawn by enumeration of its states."""
    states, log_f = enumerate_states(energy)
    p = np.exp(log_f - log_f.max())
    return states[rng.choice(len(states), size=n_rows, p=p / p.sum())]


def possible_rows(energy, n_rows, rng):
    """Draw joint states of positive probability uniformly."""
    states, log_f = enumerate_states(energy)
    return states[rng.choice(np.flatnonzero(log_f > -np.inf), size=n_rows)]


def brute(model, row):
    """Return, by enumeration, log p of observed entries, and probabilities of complete rows."""
    states, log_f = enumerate_states(model.energy_)
    values = np.column_stack([c[s] for c, s in zip(model.categories_, states.T, strict=True)])
    agrees = np.all(np.isnan(row) | (values == row), axis=1)
    log_p = log_f - np.logaddexp.reduce(log_f)
    total = np.logaddexp.reduce(log_p[agrees])
    return total, np.exp(log_p[agrees] - total), values[agrees]


def random_tables(n_states, cliques, rng, scale=1.0):
    """Return normally distributed log-potentials for each clique."""
    return [rng.normal(0.0, scale, size=[n_states[v] for v in c]) for c in cliques]


def _graph(n_states, cliques, seed, scale=1.0):
    rng = np.random.default_rng(seed)
    return FactorGraph(n_states, cliques, random_tables(n_states, cliques, rng, scale))


def _singles(n):
    return [(i,) for i in range(n)]


def chain(seed):
    return _graph([2] * 6, _singles(6) + list(pairwise(range(6))), seed)


def cycle(seed):
    return _graph([3] * 5, [*pairwise(range(5)), (4, 0)], seed)


def grid(seed):
    across = [(i, i + 1) for i in range(9) if i % 3 < 2]
    down = [(i, i + 3) for i in range(6)]
    return _graph([2] * 9, _singles(9) + across + down, seed)


def complete(seed):
    return _graph([2, 3, 2, 3, 2], _singles(5) + list(combinations(range(5), 2)), seed)


def spin_glass(seed):
    """Return a dense, frustrated, strongly coupled model with states -1 and 1."""
    return _pairwise_energy(8, 1.0, (-1, 1), seed)


def zero_one(seed):
    """Return a dense model with states 0 and 1."""
    return _pairwise_energy(6, 0.7, (0, 1), seed)


def _pairwise_energy(n, scale, states, seed):
    rng = np.random.default_rng(seed)
    upper = np.triu(rng.normal(0.0, scale, size=(n, n)), 1)
    return PairwiseEnergy(upper + upper.T, rng.normal(0.0, scale, size=n), states)


def orders(seed):
    """Return tables of order 0 to 4, with unordered variables and repeated cliques."""
    cliques = [(), (3,), (0, 2), (2, 0), (4, 1), (3, 0, 1), (4, 2, 1, 3), (3,), ()]
    return _graph([2, 3, 2, 4, 3], cliques, seed)


def zeros(seed):
    """Return a graph with random zero potentials (-inf) and at least one possible state."""
    n_states = [2, 3, 2, 3, 2]
    cliques = [(0, 1), (1, 2), (2, 3), (3, 4), (4, 0), (1, 3), (2,)]
    rng = np.random.default_rng(seed)
    planted = rng.integers(n_states)
    tables = random_tables(n_states, cliques, rng)
    for clique, table in zip(cliques, tables, strict=True):
        possible = table[tuple(planted[list(clique)])]
        table[rng.random(table.shape) < 0.15] = -np.inf
        table[tuple(planted[list(clique)])] = possible
    return FactorGraph(n_states, cliques, tables)


def zeros_binary(seed):
    """Return a binary chain in which each pair excludes (1, 0), so 7 of 64 states are left."""
    cliques = _singles(6) + list(pairwise(range(6)))
    tables = random_tables([2] * 6, cliques, np.random.default_rng(seed))
    for table in tables[6:]:
        table[1, 0] = -np.inf
    return FactorGraph([2] * 6, cliques, tables)


def tied(seed):
    """Return a graph in which all singles share a table, and all pairs but the last one."""
    rng = np.random.default_rng(seed)
    single, pair, last = rng.normal(size=3), rng.normal(size=(3, 3)), rng.normal(size=(3, 3))
    cliques = _singles(5) + [(0, 1), (1, 2), (3, 2), (4, 0), (3, 4)]
    tie = [range(5), range(5, 9)]
    return FactorGraph([3] * 5, cliques, [single] * 5 + [pair] * 4 + [last], tie=tie)


def tied_binary(seed):
    """Return a binary chain whose pairs share one asymmetric table."""
    rng = np.random.default_rng(seed)
    single, pair = rng.normal(size=2), rng.normal(size=(2, 2))
    cliques = _singles(6) + list(pairwise(range(6)))
    return FactorGraph([2] * 6, cliques, [single] * 6 + [pair] * 5, tie=[range(6), range(6, 11)])


def constant_variables(seed):
    """Return a graph in which variables 0 and 3 have one state only."""
    return _graph([1, 2, 3, 1, 2], [(0,), (0, 1), (1, 2), (2, 3, 4), (0, 3), (4, 1)], seed)


def constant_binary(seed):
    """Return a pairwise graph of binary variables; the first and last have one state only."""
    return _graph([1, 2, 2, 2, 1], _singles(5) + list(combinations(range(5), 2)), seed)


def one_state(seed):
    """Return a graph whose variables all have one state."""
    return _graph([1, 1], [(0,), (0, 1), ()], seed)


def disconnected(seed):
    """Return a graph with three connected components."""
    return _graph([2, 2, 3, 3, 2, 2], [(0, 1), (0,), (2, 3), (4, 5), (5,)], seed)


def isolated(seed):
    """Return a graph in which variables 1 and 3 are in no clique."""
    return _graph([2, 3, 2, 2], [(0, 2), (0,)], seed)


def uniform(seed):
    """Return a graph without cliques."""
    return _graph([2, 3], [], seed)


def single_variable(seed):
    return _graph([4], [(0,)], seed)


def huge(seed):
    """Return a graph with log-potentials of about 300 nats, which must not overflow."""
    cliques = _singles(5) + [(0, 1), (1, 2), (2, 3), (3, 4), (4, 0)]
    return _graph([2, 2, 3, 2, 2], cliques, seed, scale=300.0)


def huge_binary(seed):
    cliques = _singles(6) + list(combinations(range(6), 2))
    return _graph([2] * 6, cliques, seed, scale=300.0)


def layers(n_visible, n_hidden, seed, scale=1.0, dtype=float):
    """Return two layers of units with normally distributed weights and biases."""
    rng = np.random.default_rng(seed)
    shapes = [(n_visible, n_hidden), n_visible, n_hidden]
    return BipartiteEnergy(*(rng.normal(0.0, scale, size=s).astype(dtype) for s in shapes))


def few_hidden(seed):
    return layers(5, 2, seed)


def many_hidden(seed):
    return layers(3, 6, seed, scale=1.5)


def one_hidden(seed):
    return layers(4, 1, seed)


def no_hidden(seed):
    """Return independent visible units."""
    return layers(3, 0, seed)


def single_precision(seed):
    return layers(4, 4, seed, dtype=np.float32)


def coupled_layers(n_visible, n_hidden, seed, states=(0, 1), scale=1.0, dtype=float):
    """Return coupled visible variables and hidden units with normally distributed parameters."""
    rng, layer = np.random.default_rng([seed, 1]), layers(n_visible, n_hidden, seed, scale)
    upper = np.triu(rng.normal(0.0, scale, size=(n_visible, n_visible)), 1)
    theta = {"coupling": upper + upper.T, **layer.theta}
    return SemiRestrictedEnergy(**{k: v.astype(dtype) for k, v in theta.items()}, states=states)


def coupled_zero_one(seed):
    return coupled_layers(3, 3, seed)


def coupled_signs(seed):
    return coupled_layers(4, 2, seed, (-1, 1), 0.7)


def coupled_single_precision(seed):
    return coupled_layers(3, 2, seed, (-0.5, 1), dtype=np.float32)


def coupled_no_hidden(seed):
    return coupled_layers(3, 0, seed)


def uncoupled_signs(seed):
    """Return a model whose couplings are no parameters."""
    theta = {**coupled_layers(4, 3, seed, (-1, 1), 0.7).theta, "coupling": None}
    return SemiRestrictedEnergy(**theta, states=(-1, 1))


# Chains, particles and data are states of the visible variables only.
COUPLED = {
    factory.__name__: factory
    for factory in (
        coupled_zero_one,
        coupled_signs,
        coupled_single_precision,
        coupled_no_hidden,
        uncoupled_signs,
    )
}
LAYERED = {
    factory.__name__: factory
    for factory in (few_hidden, many_hidden, one_hidden, no_hidden, single_precision)
}
HIDDEN = {**LAYERED, **COUPLED}

ZOO = {
    factory.__name__: factory
    for factory in (
        chain,
        cycle,
        grid,
        complete,
        spin_glass,
        zero_one,
        orders,
        zeros,
        zeros_binary,
        tied,
        tied_binary,
        constant_variables,
        constant_binary,
        one_state,
        disconnected,
        isolated,
        uniform,
        single_variable,
        huge,
        huge_binary,
    )
}
WITH_ZEROS = ("zeros", "zeros_binary")
HUGE = ("huge", "huge_binary")
SMALL = ("tied", "orders", "spin_glass", "zero_one", *WITH_ZEROS, "tied_binary")
SMALL += ("constant_binary", "huge")  # for the tests of compiled loops
TABLES = (*SMALL, "constant_variables", "isolated", "huge_binary")
FINITE = tuple(name for name in ZOO if name not in WITH_ZEROS)
MODERATE = tuple(name for name in FINITE if name not in HUGE)  # chains mix, weights have a variance


@st.composite
def small_graphs(draw):
    """Draw a factor graph of at most 4 variables with a few entries of -inf."""
    n_states = draw(st.lists(st.integers(1, 3), min_size=1, max_size=4))
    members = st.lists(st.sampled_from(range(len(n_states))), unique=True, max_size=3)
    cliques = draw(st.lists(members.map(tuple), max_size=5))
    rng = np.random.default_rng(draw(st.integers(0, 2**32)))
    tables = random_tables(n_states, cliques, rng, draw(st.sampled_from([0.1, 1.0, 30.0])))
    if draw(st.booleans()):
        for table in tables:
            drop = np.asarray(rng.random(table.shape) < 0.3)
            drop.flat[0] = False  # keeps the state of all zeros possible
            table[drop] = -np.inf
    return FactorGraph(n_states, cliques, tables)


# Valid and invalid files -----------------------------------------------------------------------

DATA = Path(os.environ.get("SKMRF_TEST_DATA", Path(__file__).parents[2] / "shared" / "data"))
MODELS = sorted([*DATA.glob("uai2014/*/*.uai.gz"), *DATA.glob("libdai/*.uai.gz")])
needs_data = pytest.mark.skipif(not MODELS, reason="SKMRF_TEST_DATA has no UAI files")

GOOD = """MARKOV
3
2 1 3
3
1 0
0
2 2 0

2
 0.5 1e-3

1
 7

6
 1 2 3
 0 5 6
"""
GOOD_FG = """# made by hand
3

1
1000
2
2
1 1e-3
0 0.5

0


1
0 7

# labels have gaps, and the first variable is fastest
2
7 3
3 2
5
0 1
3 2
1 3
2 5
5 6
"""
LN10 = math.log(10.0)

in_one_folder = settings(
    deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture], derandomize=True
)


def write(folder, text, name="file"):
    path = folder / name
    data = text if isinstance(text, bytes) else text.encode()
    path.write_bytes(gzip.compress(data) if name.endswith(".gz") else data)
    return path


def fails(read, path, message):
    """Check that reading a file raises a ValueError with the path and the given message."""
    with pytest.raises(ValueError) as caught:
        read(path)
    assert str(caught.value) == f"{path}: {message}"


@st.composite
def graphs(draw):
    n_states = draw(st.lists(st.integers(1, 4), max_size=5))
    members = st.permutations(range(len(n_states)))
    cliques, tables = [], []
    for _ in range(draw(st.integers(0, 6))):
        clique = tuple(draw(members)[: draw(st.integers(0, 3))])
        size = math.prod(n_states[v] for v in clique)
        usual = st.floats(-50.0, 50.0)
        value = st.one_of(usual, st.floats(-2e18, 2e18), st.just(-math.inf))
        table = draw(st.lists(value, min_size=size, max_size=size))
        table[draw(st.integers(0, size - 1))] = draw(usual)
        cliques.append(clique)
        tables.append(table)
    return FactorGraph(n_states, cliques, tables)
