"""Tests of compiled kernels against plain Python: tables, sweeps, layers, densities, Adam."""

import time
from copy import deepcopy
from itertools import product

import numpy as np
import pytest
import twins
from numpy.testing import assert_allclose, assert_array_equal
from zoo import SMALL, TABLES, WITH_ZEROS, ZOO, enumerate_states, naive_log_potential, possible_rows

from skmrf._kernels._jit import CompilationMessage, borrowed, kernel, read_only
from skmrf._kernels.ascent import adam_step, adam_step_sizes
from skmrf._kernels.elimination import draw_categorical
from skmrf._kernels.exponential import (
    LOWEST,
    exponential_or_zero,
    exponentials,
    logarithms,
    power_of_two,
)
from skmrf._kernels.gaussians import draw_missing_values, find_regressions, observed_log_densities
from skmrf._kernels.gibbs import sweep_binary
from skmrf._kernels.layers import (
    N_STREAMS,
    draw_layer,
    fill_words,
    logistic_noise,
    softplus_sums,
    start_streams,
    unit_means,
)
from skmrf._kernels.tables import add_moments, binary_form, log_potentials, sweep_tables
from skmrf._utils.codes import STATE
from skmrf.energies.conditionals import BinaryConditionals, StateConditionals
from skmrf.samplers import Product
from skmrf.samplers.gibbs import blocks_of
from skmrf.samplers.layers import make_scan, random_seeds, reference_odds, sweep_tables_of_pairs

# exp may overflow to inf, log(0) is -inf, and random integers overflow on purpose; only uncompiled
# kernels warn of it
pytestmark = [
    pytest.mark.filterwarnings("ignore:overflow encountered in exp:RuntimeWarning"),
    pytest.mark.filterwarnings("ignore:divide by zero encountered in log:RuntimeWarning"),
    pytest.mark.filterwarnings("ignore:overflow encountered in scalar:RuntimeWarning"),
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
    add_moments(read_only(X.T.copy()), weights, *structure(graph), flat)
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
        assert draw_categorical(log_p.copy(), log_p.max(), u) == state


def test_categorical_never_draws_probability_zero():
    log_p = np.array([-np.inf, 0.0, -np.inf])
    for u in (0.0, 0.5, 1 - 2**-53):
        assert draw_categorical(log_p.copy(), 0.0, u) == 1
    for u in (1e-300, 0.5, 1 - 2**-53):
        assert draw_categorical(np.array([0.0, -1e6, -np.inf]), 0.0, u) == 0
        assert draw_categorical(np.array([-1e6, -1e308, 0.0]), 0.0, u) == 2


def test_borrowed_tuples_have_equal_entries():
    @kernel
    def add_up(arrays, out):
        (x, (y, n)), z = borrowed(arrays), borrowed(out)
        z[0] = x[0] + y[0] + n

    out = np.zeros(1)
    add_up((np.array([1.0]), (np.array([20.0]), 300)), out)
    assert out[0] == 321.0


# Gibbs sweeps -----------------------------------------------------------------------------


def run(energy, X, rng, betas, reference, clamped, reverse, use_tables=False):
    """Run a block of chains with the kernel of an energy, or with the kernel of tables."""
    conditionals = energy.table_conditionals() if use_tables else energy.conditionals()
    sites = np.flatnonzero(np.asarray(energy.n_states) > 1)
    order = sites[::-1].copy() if reverse else sites
    log_p, start = np.concatenate(reference), np.cumsum(energy.n_states) - energy.n_states
    clamped = read_only(np.zeros((0, 0), dtype=bool) if clamped is None else clamped)
    betas, log_weights = np.array(betas), np.zeros(len(X))
    if isinstance(conditionals, BinaryConditionals):
        odds, constant, _ = reference_odds(Product(log_p, start))
        coupling, bias, offset = conditionals
        V, clamped = X.T.astype(float, order="C"), read_only(clamped.T.copy())
        field = V.T @ coupling + bias
        seeds = random_seeds([rng], len(betas) - 1)
        scan = make_scan([coupling], order, reverse=reverse)
        arrays = scan, np.zeros((0, 0)), clamped, seeds, field, V, log_weights
        sweep_binary(*map(read_only, (coupling, bias, odds)), betas, *arrays)
        assert_allclose(field, V.T @ coupling + bias, rtol=1e-12, atol=1e-11)
        log_weights += (betas[-1] - betas[0]) * (offset + constant)
        return V.T.astype(STATE), log_weights
    X = X.astype(STATE)
    if isinstance(conditionals, StateConditionals):
        given = betas, order, X, clamped, log_weights, [rng]
        sweep_tables_of_pairs(conditionals, Product(log_p, start), *given)
        return X, log_weights
    sweep_tables(conditionals, log_p, start, betas, order, X, clamped, log_weights, rng)
    return X, log_weights


def random_reference(energy, rng):
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
def test_sweeps_match_plain_python(name, path, reverse, seed):
    energy = ZOO[name](seed)
    rng = np.random.default_rng([seed, len(path), reverse])
    X = possible_rows(energy, 3, rng)
    reference, masks = random_reference(energy, rng), (None, rng.random(X.shape) < 0.4)
    has_matrix = isinstance(energy.conditionals(), StateConditionals)
    for masked, use_tables in product(masks, {False, has_matrix}):
        how = {"betas": PATHS[path], "reference": reference, "clamped": masked, "reverse": reverse}
        how["use_tables"] = use_tables
        moved, log_weights = run(energy, X, np.random.default_rng(seed), **how)
        expected, log_expected = twins.gibbs(energy, X, np.random.default_rng(seed), **how)
        assert_array_equal(moved, expected)
        assert_allclose(log_weights, log_expected, rtol=1e-11, atol=1e-11)
        if masked is not None:
            assert_array_equal(moved[masked], X[masked])


@pytest.mark.parametrize("name", ["isolated", "constant_variables", "one_state", "uniform"])
def test_sweeps_of_degenerate_models(name, seed):
    energy = ZOO[name](seed)
    rng = np.random.default_rng(seed)
    how = {
        "betas": [0.0, 0.5, 1.0],
        "reference": random_reference(energy, rng),
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
    """Check that chains leave impossible states, whose weight is zero and not nan."""
    energy = ZOO[name](seed)
    states, log_f = enumerate_states(energy)
    how = {"reference": twins.uniform_reference(energy), "clamped": None, "reverse": False}
    _, log_weights = run(energy, states, np.random.default_rng(seed), betas=[0.0, 0.5, 1.0], **how)
    dead = log_weights == -np.inf
    assert_array_equal(dead, log_f == -np.inf)
    assert np.isfinite(log_weights[~dead]).all()
    possible = states[log_f > -np.inf]
    moved, _ = run(energy, possible, np.random.default_rng(seed), betas=[1.0] * 3, **how)
    assert np.isfinite(naive_log_potential(energy, moved)).all()


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize(("n", "n_chains"), [(1, 1), (16, 64), (33, 65), (36, 110)])
def test_groups_of_binary_variables(n, n_chains, dtype, seed):
    """Check groups and blocks, with hidden units, clamped entries and a constant variable."""
    rng = np.random.default_rng(seed)
    upper = np.triu(rng.normal(0.0, 0.4, size=(n + 1, n + 1)), 1).astype(dtype)
    coupling, bias, odds = upper + upper.T, *rng.normal(size=(2, n + 1)).astype(dtype)
    order = rng.permutation(n)
    V = (rng.random((n + 1, n_chains)) < 0.5).astype(dtype)
    V[n] = 0.0
    clamped, from_hidden = rng.random(V.shape) < 0.1, rng.normal(size=V.shape).astype(dtype)
    expected, betas, log_weights = V.copy(), np.array([0.3, 0.6, 1.0]), np.zeros(n_chains)
    field, log_expected = V.T @ coupling + bias, np.zeros(n_chains)
    sizes = [block.stop - block.start for block in blocks_of(n_chains)]
    generators = [np.random.default_rng([seed, b]) for b in range(len(sizes))]
    rows = [
        twins.binary_uniforms(deepcopy(generator), 2, (n, 0), size, dtype)
        for generator, size in zip(generators, sizes, strict=True)
    ]
    arrays = read_only(clamped), random_seeds(generators, 2), field, V, log_weights
    given = map(read_only, (coupling, bias, odds))
    scan = make_scan([coupling], order, reverse=False)
    sweep_binary(*given, betas, scan, from_hidden, *arrays)
    for before, beta, numbers in zip(betas, betas[1:], np.concatenate(rows, axis=2), strict=False):
        pairs = 0.5 * np.einsum("ic,ij,jc->c", expected, coupling, expected)
        log_expected += (beta - before) * (pairs + (bias - odds) @ expected)
        for i, u in zip(order, numbers, strict=True):
            logit = beta * (coupling[i] @ expected + bias[i] + from_hidden[i])
            new = u < 1.0 / (1.0 + np.exp(-logit - (1.0 - beta) * odds[i]))
            expected[i] = np.where(clamped[i], expected[i], new)
    error = 1e-12 if dtype == np.float64 else 1e-4
    same = np.equal(V, expected).all(axis=0)  # Rounding can change a state in single precision.
    assert same.all() if dtype == np.float64 else same.mean() > 0.95
    assert_allclose(field, V.T @ coupling + bias, rtol=0, atol=error)
    assert_allclose(log_weights[same], log_expected[same], rtol=error, atol=error)


# Random numbers of kernels -----------------------------------------------------------------------


@kernel
def random_words(states, words):
    fill_words(states, words)


@kernel
def initial_states(seeds, states):
    start_streams(seeds, states)


def test_random_words_equal_published_numbers():
    """Check xoshiro256++ and splitmix64 against the numbers of their reference implementations."""
    states = np.repeat(np.arange(1, 5, dtype=np.uint64)[:, None], N_STREAMS, axis=1)
    words = np.empty(4 * N_STREAMS, dtype=np.uint64)
    random_words(states, words)
    expected = [41943041, 58720359, 3588806011781223, 3591011842654386]
    assert_array_equal(words.reshape(4, -1), np.repeat(np.array(expected)[:, None], N_STREAMS, 1))
    initial_states(np.full(4, 1234567, dtype=np.uint64), states)
    for row in states:
        assert row[:3].tolist() == [6457827717110365317, 3203168211198807973, 9817491932198370423]


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_logistic_noise(dtype, seed):
    states = np.random.default_rng(seed).integers(2**63, size=(4, N_STREAMS)).astype(np.uint64)
    noise, bits = np.empty(100_000, dtype), np.empty(100_000, np.int32)
    logistic_noise(states, np.empty(100_000, np.uint64), noise, bits)
    x = np.array([-9.0, -4.0, -1.0, 0.0, 2.0, 6.0])
    p = 1.0 / (1.0 + np.exp(-x))

    def largest_error(values):
        return np.max(np.abs((values[:, None] < x).mean(axis=0) - p) / np.sqrt(p * (1 - p) / 1e5))

    assert largest_error(noise) < 5.0
    assert largest_error(1.05 * noise) > 5.0
    products = np.mean(np.tanh(noise[:-1]) * np.tanh(noise[1:]))
    assert abs(products) < 5.0 * np.mean(np.tanh(noise) ** 2) / np.sqrt(1e5)


# Layers of units ---------------------------------------------------------------------------------


@kernel
def exp_in_place(x):
    exponentials(x)


@kernel
def power_in_place(x):
    for i in range(x.size):
        x[i] = power_of_two(x[i])


def apply(in_place, x):
    out = x.copy()
    in_place(out)
    return out


def exp_of(x):
    return apply(exp_in_place, x)


EXP_LIMITS = {np.float32: (87, 3e-7), np.float64: (708, 1e-15)}  # of arguments and errors
each_exp = pytest.mark.parametrize("dtype", EXP_LIMITS)


@each_exp
def test_exponentials(dtype):
    """Check the relative error near zero, where polynomials meet, and over the whole range."""
    limit, within = EXP_LIMITS[dtype]
    near = np.concatenate([np.linspace(-1, 1, 40_001), np.log(2) * np.arange(-125, 126) / 2])
    x = np.append(near, np.linspace(-limit, limit, 400_001)).astype(dtype)
    found, expected = exp_of(x), np.exp(x.astype(np.longdouble))
    assert found.dtype == dtype
    assert np.abs(found / expected - 1).max() < within
    assert exp_of(np.zeros(1, dtype))[0] == 1.0


@each_exp
def test_exponentials_are_clipped(dtype):
    limit, within = EXP_LIMITS[dtype]
    x = np.array([limit, limit + 0.5, 800, 3e38, np.inf], dtype)
    assert_allclose(exp_of(x), np.exp(float(limit)), rtol=within)
    assert_allclose(exp_of(-x), np.exp(-float(limit)), rtol=within)
    assert exp_of(np.zeros(0, dtype)).shape == (0,)
    assert np.isnan(exp_of(np.full(70, np.nan, dtype))).all()


@kernel
def exp_or_zero_in_place(x):
    for i in range(x.size):
        x[i] = exponential_or_zero(x[i])


def test_exponentials_or_zero():
    x = np.append(np.linspace(-1, 1, 40_001), np.linspace(LOWEST + 1e-9, 708, 400_001))
    found, expected = apply(exp_or_zero_in_place, x), np.exp(x.astype(np.longdouble))
    assert (np.abs(found / expected - 1) <= 1e-15 + 2e-16 * np.abs(x)).all()
    x = np.array([0.0, LOWEST - 1e-9, -708.4, -709.0, -1e300, -np.inf, np.nan])
    assert_array_equal(apply(exp_or_zero_in_place, x), [1.0] + 6 * [0.0])


@each_exp
def test_powers_of_two(dtype):
    limit = {np.float32: 126, np.float64: 1022}[dtype]
    whole = np.arange(-limit, limit + 1, dtype=dtype)
    assert_array_equal(apply(power_in_place, whole), np.exp2(whole))
    y = np.concatenate([whole[1:] - dtype(0.5), np.linspace(-1, 1, 40_001), whole[1:-1] / 3])
    y = y.astype(dtype)
    found, expected = apply(power_in_place, y), np.exp2(y.astype(np.longdouble))
    assert found.dtype == dtype
    assert np.abs(found / expected - 1).max() < EXP_LIMITS[dtype][1]
    assert np.isnan(apply(power_in_place, np.full(70, np.nan, dtype))).all()


@kernel
def log_in_place(x):
    logarithms(x, np.empty(x.size, np.int32))


def log_of(x):
    out = x.copy()
    log_in_place(out)
    return out


def test_logarithms_in_single_precision():
    """Check the absolute error near 1, where the result is 0, and the relative error elsewhere."""
    near = np.append(np.linspace(0.5, 2.0, 200_001), 2.0 ** np.arange(-125, 127) * np.sqrt(0.5))
    ends = [np.finfo(np.float32).tiny, np.finfo(np.float32).max]
    x = np.concatenate([near, np.exp(np.linspace(-87, 88, 200_001)), ends]).astype(np.float32)
    found, expected = log_of(x), np.log(x.astype(float))
    assert found.dtype == np.float32
    assert (np.abs(found - expected) <= 2e-7 * np.maximum(1.0, np.abs(expected))).all()
    assert_array_equal(log_of(np.ones(1, np.float32)), 0.0)
    assert log_of(np.zeros(0, np.float32)).shape == (0,)


def test_logarithms_invert_exponentials():
    x = np.linspace(-80, 80, 100_001).astype(np.float32)
    assert_allclose(log_of(exp_of(x)), x, rtol=3e-7, atol=6e-7)


def test_logarithms_in_double_precision(seed):
    rng = np.random.default_rng(seed)
    powers = 2.0 ** np.arange(-1021, 1023)
    around = [powers, powers * np.sqrt(0.5), powers * np.nextafter(np.sqrt(0.5), 0)]
    near = 1 + rng.uniform(-1, 1, size=100_000) * 10.0 ** rng.uniform(-15, -0.4, size=100_000)
    ends = [np.finfo(float).tiny, np.finfo(float).max, 1.0]
    far = np.exp(np.clip(rng.normal(0.0, 200.0, size=1000), -700.0, 700.0))
    x = np.concatenate([far, near, *around, ends])
    assert_allclose(log_of(x), np.log(x), rtol=1e-15)


rows_of_biases = pytest.mark.parametrize("n_biases", [1, 7])


def layer_inputs(dtype, seed, n_biases, scale=3.0):
    """Return activations of 7 chains and biases of 70 units, more than one group of factors."""
    rng = np.random.default_rng(seed)
    activation = rng.normal(0.0, scale, size=(7, 70)).astype(dtype)
    return activation, read_only(rng.normal(0.0, scale, (n_biases, 70)).astype(dtype)), rng


@rows_of_biases
@pytest.mark.parametrize("scale", [3.0, 300.0])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_unit_means(dtype, scale, n_biases, seed):
    activation, bias, _ = layer_inputs(dtype, seed, n_biases, scale)
    logit = activation.astype(float) + bias
    out = np.empty_like(activation)
    unit_means(activation, bias, out)
    assert ((out >= 0) & (out <= 1)).all()
    expected = 0.5 * (1 + np.tanh(0.5 * logit))
    assert_allclose(out, expected, rtol=0, atol=1e-12 if dtype == np.float64 else 1e-5)
    expected = out.copy()
    unit_means(activation, bias, activation)
    assert_array_equal(activation, expected)


@rows_of_biases
@pytest.mark.parametrize("beta", [0.0, 0.3, 1.0])
@pytest.mark.parametrize("scale", [3.0, 300.0])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_softplus_sums(dtype, scale, beta, n_biases, seed):
    activation, bias, _ = layer_inputs(dtype, seed, n_biases, scale)
    before = activation.copy()
    out = np.empty(7)
    softplus_sums(activation, bias, beta, out)
    logit = beta * (activation.astype(float) + bias)
    expected = np.logaddexp(0.0, logit).sum(axis=1)
    assert_allclose(out, expected, rtol=1e-14 if dtype == np.float64 else 2e-6, atol=1e-11)
    assert_array_equal(activation, before)


def test_softplus_sums_of_no_units():
    out = np.full(3, 9.0)
    softplus_sums(np.zeros((3, 0)), read_only(np.zeros((1, 0))), 1.0, out)
    assert_array_equal(out, 0.0)


def noise_of(seeds, shape, dtype):
    """Return the logistic noise of chains that share a random generator."""
    states, noise = np.empty((4, N_STREAMS), np.uint64), np.empty(shape, dtype)
    initial_states(seeds, states)
    for row in noise:
        logistic_noise(states, np.empty(100, np.uint64), row, np.empty(row.size, np.int32))
    return noise


@rows_of_biases
@pytest.mark.parametrize("scale", [1.0, 100.0])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_draw_layer(dtype, scale, n_biases, seed):
    """Check that units are 1 where the logit exceeds the noise, except for rounding."""
    activation, bias, rng = layer_inputs(dtype, seed, n_biases, scale)
    activation[:, :2] = -1000.0, 1000.0
    shift = rng.normal(0.0, scale, size=70).astype(dtype)
    seeds = rng.integers(2**64, size=(1, 4), dtype=np.uint64)
    logit = 0.7 * (activation.astype(float) + bias) + shift
    noise = noise_of(seeds[0], activation.shape, dtype)
    draw_layer(activation, bias, 0.7, shift, seeds)
    clear = np.abs(noise - logit) > 1e-4
    assert clear.mean() > 0.9
    assert_array_equal(activation[clear], (logit > noise)[clear])
    assert set(np.unique(activation)) == {0.0, 1.0}


def test_blocks_of_chains_have_their_own_generators(seed):
    seeds = np.random.default_rng(seed).integers(2**64, size=(2, 4), dtype=np.uint64)
    arrays = read_only(np.zeros((1, 50))), 1.0, np.zeros(50)
    both, second = np.zeros((100, 50)), np.zeros((36, 50))
    draw_layer(both, *arrays, seeds)
    draw_layer(second, *arrays, seeds[1:])
    assert_array_equal(both[64:], second)
    assert (both[:36] != second).mean() > 0.4


# Gaussian densities ------------------------------------------------------------------------------


def rows_and_components(seed, n=4, n_rows=30, n_components=3):
    """Return rows with missing values, one empty and one complete, and their patterns."""
    rng = np.random.default_rng(seed)
    A = rng.normal(size=(n_components, n, n))
    X = rng.normal(size=(n_rows, n))
    X[rng.random(X.shape) < 0.4] = np.nan
    X[0], X[1] = np.nan, 1.0
    pattern = np.isnan(X) @ 2 ** np.arange(n)
    parts = rng.normal(size=(n_components, n)), A @ A.transpose(0, 2, 1) + np.eye(n)
    return X, pattern, *map(read_only, parts), rng


def test_log_densities_with_missing_values(seed):
    X, pattern, means, covariances, rng = rows_and_components(seed)
    found = (before := np.where(rng.random((3, len(X))) < 0.2, -np.inf, 0.5)).copy()
    observed_log_densities(X, pattern, np.argsort(pattern), means, covariances, found)
    for r, row in enumerate(X):
        o = ~np.isnan(row)
        for k in range(3):
            d, C = row[o] - means[k, o], 2 * np.pi * covariances[k][np.ix_(o, o)]
            quadratic = 2 * np.pi * d @ np.linalg.solve(C, d)
            expected = before[k, r] - 0.5 * (quadratic + np.linalg.slogdet(C)[1])
            assert_allclose(found[k, r], expected, rtol=1e-11, atol=1e-11)


@pytest.mark.parametrize("one_pattern", [False, True])
def test_draws_of_missing_values(one_pattern, seed):
    X, pattern, means, covariances, rng = rows_and_components(seed)
    if one_pattern:
        X, pattern = rng.normal(size=X.shape) + [np.nan, 0, 0, 0], np.ones_like(pattern)
    chosen, filled, variances = rng.integers(3, size=len(X)), X.copy(), np.zeros(X.shape)
    noise, coefficients = rng.normal(size=X.shape), np.zeros((len(X), 4, 4))
    order, precisions = np.lexsort((pattern, chosen)), np.linalg.inv(covariances)
    draw_missing_values(filled, pattern, order, chosen, means, precisions, noise)
    find_regressions(X, chosen, precisions, coefficients, variances)
    for r, row in enumerate(X):
        m, P, mean = np.isnan(row), precisions[chosen[r]], means[chosen[r]]
        shift = np.linalg.solve(P[np.ix_(m, m)], P[np.ix_(m, ~m)] @ (row[~m] - mean[~m]))
        root = np.linalg.inv(np.linalg.cholesky(P[np.ix_(m, m)])).T
        assert_allclose(filled[r, m], mean[m] - shift + root @ noise[r, m], rtol=1e-9, atol=1e-9)
        assert_array_equal(filled[r, ~m], row[~m])
        steps = np.linalg.inv(np.eye(4) - np.tril(coefficients[r], -1))[np.ix_(m, m)]
        assert_allclose(steps * variances[r, m] @ steps.T, root @ root.T, rtol=1e-9, atol=1e-9)


# Adam --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_adam_steps(dtype, seed):
    """Check the steps against Algorithm 1 of Kingma and Ba (2015)."""
    rng = np.random.default_rng(seed)
    theta = rng.normal(size=20).astype(dtype)
    mean, square = np.zeros(20, dtype), np.zeros(20, dtype)
    expected, m, v = theta.astype(float), np.zeros(20), np.zeros(20)
    b1, b2, rate, epsilon = 0.9, 0.999, 0.01, 1e-8
    for t in range(1, 30):
        g = rng.normal(size=20).astype(dtype)
        m, v = b1 * m + (1 - b1) * g, b2 * v + (1 - b2) * g.astype(float) ** 2
        m_hat, v_hat = m / (1 - b1**t), v / (1 - b2**t)
        expected = expected + rate * m_hat / (np.sqrt(v_hat) + epsilon)
        corrections = 1 / (1 - b1**t), 1 / np.sqrt(1 - b2**t)
        out, sizes = g.copy(), np.empty(20, dtype)
        adam_step(theta, out, mean, square, (b1, b2), corrections, rate, epsilon)
        adam_step_sizes(square, rate, corrections[1], epsilon, sizes)
        within = {"rtol": 1e-12} if dtype == np.float64 else {"rtol": 2e-4}
        assert_allclose(sizes, rate / (np.sqrt(v_hat) + epsilon), **within)
        assert_allclose(mean, m, rtol=within["rtol"], atol=1e-6 if dtype == np.float32 else 0)
        assert_allclose(square, v, **within)
        assert_allclose(out, expected, rtol=0, atol=1e-12 if dtype == np.float64 else 1e-5)
        theta = out


@pytest.mark.long
def test_long_compilations_print_one_message(capfd, monkeypatch):
    """The message is printed during the compilation, and only once."""
    monkeypatch.setattr(CompilationMessage, "SECONDS", 0.4)
    monkeypatch.setattr(CompilationMessage, "is_printed", False)
    message = CompilationMessage()
    assert message.compile(lambda s: s, "fast") == "fast"
    assert capfd.readouterr().err == ""

    def compile_slowly(_):
        time.sleep(1.0)
        return capfd.readouterr().err

    assert "compiles functions at their first use" in message.compile(compile_slowly, None)
    assert message.compile(compile_slowly, None) == ""
    assert message.depth == 0
    assert message.seconds > 1.9
