"""Tests of compiled tables, draws and Gibbs sweeps against slow twins."""

import numpy as np
import pytest
import twins
from kernel_models import SMALL, TABLES, possible_rows
from numpy.testing import assert_allclose, assert_array_equal
from zoo import WITH_ZEROS, ZOO, enumerate_states, naive_log_potential

from skmrf._kernels.elimination import categorical
from skmrf._kernels.gibbs import sweep_binary, sweep_tables
from skmrf._kernels.tables import add_moments, binary_form, log_potentials
from skmrf._utils.codes import STATE
from skmrf.energies.conditionals import BinaryConditionals

# exp overflows to inf and log takes 0 to -inf on purpose, which compiled code does not mention
pytestmark = [
    pytest.mark.filterwarnings("ignore:overflow encountered in exp:RuntimeWarning"),
    pytest.mark.filterwarnings("ignore:divide by zero encountered in log:RuntimeWarning"),
]


def structure(graph):
    lay = graph.layout
    return lay.clique_ptr, lay.clique_vars, lay.strides, lay.table_start


# Tables -----------------------------------------------------------------------------------


@pytest.mark.parametrize("name", TABLES)
def test_tables(name, seed):
    graph = ZOO[name](seed).factor_graph()
    rng = np.random.default_rng(seed)
    X = rng.integers(graph.n_states, size=(20, graph.n_variables)).astype(STATE)
    out = np.empty(20)
    log_potentials(X.T.copy(), graph.flat, *structure(graph), out)
    assert_allclose(out, naive_log_potential(graph, X), rtol=1e-13, atol=1e-13)
    weights = rng.normal(size=20)
    flat = np.ones(graph.layout.n_parameters)
    add_moments(X.T.copy(), weights, *structure(graph), flat)
    expected = twins.moments(graph, X, weights)["log_potentials"]
    assert_allclose(flat, 1 + expected, rtol=0, atol=1e-12)


@pytest.mark.parametrize("name", ["chain", "grid", "tied_binary", "spin_glass", "constant_binary"])
def test_binary_form(name, seed):
    graph = ZOO[name](seed).factor_graph()
    n = graph.n_variables
    coupling, bias = np.zeros((n, n)), np.zeros(n)
    constant = binary_form(graph.flat, graph.n_states, *structure(graph), coupling, bias)
    states, log_f = enumerate_states(graph)
    quadratic = 0.5 * np.einsum("ri,ij,rj->r", states, coupling, states)
    assert_allclose(constant + states @ bias + quadratic, log_f, rtol=0, atol=1e-12)
    assert_array_equal(coupling, coupling.T)
    assert not np.diagonal(coupling).any()


@pytest.mark.parametrize("name", TABLES)
def test_incidence(name, seed):
    layout = ZOO[name](seed).factor_graph().layout
    ptr, clique, stride = layout.incidence
    for i in range(len(layout.n_states)):
        span = slice(ptr[i], ptr[i + 1])
        found = set(zip(clique[span].tolist(), stride[span].tolist(), strict=True))
        expected = {
            (a, int(np.prod(layout.shape(a)[c.index(i) + 1 :])))
            for a, c in enumerate(layout.cliques)
            if i in c
        }
        assert found == expected
        assert ptr[i + 1] - ptr[i] == len(expected)


# Draws ------------------------------------------------------------------------------------


def test_categorical_inverts_the_distribution():
    p = np.array([0.2, 0.0, 0.5, 0.3, 0.0])
    with np.errstate(divide="ignore"):
        log_p = np.log(p) - 700.0
    for u, state in [(0.0, 0), (0.19, 0), (0.21, 2), (0.69, 2), (0.71, 3), (1 - 2**-53, 3)]:
        assert categorical(log_p.copy(), log_p.max(), u) == state


def test_categorical_never_draws_a_zero():
    log_p = np.array([-np.inf, 0.0, -np.inf])
    for u in (0.0, 0.5, 1 - 2**-53):
        assert categorical(log_p.copy(), 0.0, u) == 1


# Gibbs sweeps -----------------------------------------------------------------------------


def run(energy, X, rng, betas, base, clamped, reverse):
    """One block of chains through the kernel that the energy asks for."""
    conditionals = energy.conditionals()
    sites = np.flatnonzero(np.asarray(energy.n_states) > 1)
    order = sites[::-1].copy() if reverse else sites
    log_p = np.concatenate(base)
    start = np.cumsum(energy.n_states) - energy.n_states
    clamped = np.zeros((0, 0), dtype=bool) if clamped is None else clamped
    X, log_weights = X.astype(STATE), np.zeros(len(X))
    common = (conditionals, log_p, start, np.array(betas), order, X)
    if isinstance(conditionals, BinaryConditionals):
        field = X @ conditionals.coupling + conditionals.bias
        sweep_binary(*common, field, clamped, log_weights, rng)
        expected = X @ conditionals.coupling + conditionals.bias
        assert_allclose(field, expected, rtol=1e-12, atol=1e-11)
    else:
        sweep_tables(*common, clamped, log_weights, rng)
    return X, log_weights


def random_base(energy, rng):
    return [np.log(rng.dirichlet(np.full(q, 2.0))) for q in energy.n_states]


PATHS = {
    "plain": [1.0] * 4,
    "up": [0.0, 0.3, 0.7, 1.0, 1.0],
    "down": [1.0, 0.5, 0.1, 0.0],
    "cold": [0.5, 2.0, 3.0],
}


@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("path", PATHS)
@pytest.mark.parametrize("name", SMALL)
def test_sweeps_take_the_twin_s_steps(name, path, reverse, seed):
    energy = ZOO[name](seed)
    rng = np.random.default_rng([seed, len(path), reverse])
    X = possible_rows(energy, 3, rng)
    base = random_base(energy, rng)
    for masked in (None, rng.random(X.shape) < 0.4):
        how = {"betas": PATHS[path], "base": base, "clamped": masked, "reverse": reverse}
        moved, log_weights = run(energy, X, np.random.default_rng(seed), **how)
        expected, log_expected = twins.gibbs(energy, X, np.random.default_rng(seed), **how)
        assert_array_equal(moved, expected)
        assert_allclose(log_weights, log_expected, rtol=1e-11, atol=1e-11)
        assert (moved.min(), moved.max()) >= (0, 0)
        if masked is not None:
            assert_array_equal(moved[masked], X[masked])


@pytest.mark.parametrize("name", ["isolated", "constant_variables", "one_state", "uniform"])
def test_sweeps_of_degenerate_models(name, seed):
    energy = ZOO[name](seed)
    rng = np.random.default_rng(seed)
    how = {
        "betas": [0.0, 0.5, 1.0],
        "base": random_base(energy, rng),
        "clamped": None,
        "reverse": False,
    }
    X = possible_rows(energy, 4, rng)
    moved, log_weights = run(energy, X, np.random.default_rng(seed), **how)
    expected, log_expected = twins.gibbs(energy, X, np.random.default_rng(seed), **how)
    assert_array_equal(moved, expected)
    assert_allclose(log_weights, log_expected, rtol=1e-12, atol=1e-13)


@pytest.mark.parametrize("name", WITH_ZEROS)
def test_sweeps_leave_zero_potentials(name, seed):
    """From any start; the weight of a start of probability zero is zero, never nan."""
    energy = ZOO[name](seed)
    states, log_f = enumerate_states(energy)
    how = {"base": twins.uniform_base(energy), "clamped": None, "reverse": False}
    _, log_weights = run(energy, states, np.random.default_rng(seed), betas=[0.0, 0.5, 1.0], **how)
    dead = log_weights == -np.inf
    assert_array_equal(dead, log_f == -np.inf)
    assert np.isfinite(log_weights[~dead]).all()
    possible = states[log_f > -np.inf]
    moved, _ = run(energy, possible, np.random.default_rng(seed), betas=[1.0] * 3, **how)
    assert np.isfinite(naive_log_potential(energy, moved)).all()
