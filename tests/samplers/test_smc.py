"""Tests of sequential Monte Carlo along paths: steps, weights, resampling, and block moves."""

import time
import warnings
from copy import deepcopy

import numpy as np
import pytest
import twins
from montecarlo import check_draws, check_mean_weight, law, random_product, visible_states
from numpy.testing import assert_allclose, assert_array_equal
from potentials import true_log_z
from zoo import LAYERED, ZOO, enumerate_states, layers

from skmrf._utils.codes import STATE
from skmrf._utils.log_weights import logsumexp, logsumexp_along, normalized_weights
from skmrf.energies import FactorGraph, PairwiseEnergy
from skmrf.inference import marginals
from skmrf.likelihood import ais
from skmrf.likelihood.annealing_paths import BlockAnnealing
from skmrf.samplers import Product, spawn_generators, sweep, windows
from skmrf.samplers import layers as layers_of_chains
from skmrf.samplers.gibbs import blocks_of
from skmrf.samplers.gibbs_queries import sweep_between
from skmrf.samplers.layers import STRONG_COUPLING, float_of_sweeps, make_scan
from skmrf.samplers.smc import Interpolation, Tempering, equal_log_weights, resample, run_smc

MODELS = {n: ZOO[n] for n in ("chain", "cycle", "orders", "zero_one", "zeros", "zeros_binary")}
MODELS |= {n: LAYERED[n] for n in ("few_hidden", "many_hidden", "single_precision")}
each_model = pytest.mark.parametrize("name", MODELS)
N_RUNS, N_PARTICLES = 100, 128


def path_from_reference(energy, seed, uniform=True):
    """Return a path from a reference, and a function that samples particles at its beginning."""
    rng = np.random.default_rng([seed, 1])
    reference = Product.uniform(energy.visible_states)
    if not uniform:
        reference = random_product(energy.visible_states, rng)
    return Tempering(reference, energy), reference.sample, 0.0


def path_between_models(name, seed):
    """Return a path between two models with common modes, and exact samples of the first."""
    first, last = (MODELS[name](s).tempered(0.5) for s in (seed, seed + 100))
    states = visible_states(first)
    log_f, p = law(first)

    def sample(n, rng):
        return states[rng.choice(len(states), size=n, p=p)]

    return Interpolation(first, last), sample, twins.log_sum(log_f)


def run_many_times(path, sample, n_runs, seed, n=N_PARTICLES, **how):
    rng = np.random.default_rng(seed)
    return [
        run_smc(path, sample(n, rng), spawn_generators(rng, n), rng, **how) for _ in range(n_runs)
    ]


def log_z(energy):
    return twins.log_sum(law(energy)[0])


def ess_fraction(log_weights):
    w = np.exp(log_weights - log_weights.max())
    return w.sum() ** 2 / (w @ w) / len(w)


class RecordingPath:
    """Path that records particles and log-densities."""

    def __init__(self, path):
        self.path, self.seen = path, []

    def log_density(self, X):
        density = self.path.log_density(X)
        self.seen.append((X.copy(), density))
        return density

    def move(self, X, beta, generators, n_sweeps):
        return self.path.move(X, beta, generators, n_sweeps)


# Steps -------------------------------------------------------------------------------------


@pytest.mark.parametrize("ess_threshold", [0.5, 0.9, 0.99])
@each_model
def test_step_lengths(name, ess_threshold, seed):
    """Check the steps: the ESS is close to the threshold after each step but the last one.

    The last step ends at 1, and its ESS can be larger.
    """
    path, sample, _ = path_from_reference(MODELS[name](seed), seed)
    recorded = RecordingPath(path)
    (found,) = run_many_times(recorded, sample, 1, seed, n=300, ess_threshold=ess_threshold)
    betas = found.betas
    assert betas[0] == 0.0
    assert betas[-1] == 1.0
    assert (np.diff(betas) > 0).all()
    assert len(recorded.seen) == found.n_temperatures == len(betas) - 1
    shares, log_ratio = [], 0.0
    for k, (_, density) in enumerate(recorded.seen):
        gain = density(betas[k + 1]) - density(betas[k])
        shares.append(ess_fraction(gain))
        log_ratio += logsumexp(gain) - np.log(len(gain))
    zeros_first = name.startswith("zeros")
    assert min(shares[1:], default=1.0) >= ess_threshold - 1e-6
    assert zeros_first or shares[0] >= ess_threshold - 1e-6
    assert_allclose(found.least_ess, min(shares), rtol=1e-6)
    assert_allclose(found.log_ratio, log_ratio, rtol=1e-6, atol=1e-6)
    for k in range(len(betas) - 2):
        _, density = recorded.seen[k]
        longer = betas[k] + 1.06 * (betas[k + 1] - betas[k])
        too_long = longer >= 1 or ess_fraction(density(longer) - density(betas[k])) < ess_threshold
        assert too_long or shares[k] <= ess_threshold + 0.2 * (1 - ess_threshold)
    assert_allclose(logsumexp(found.log_weights), 0.0, rtol=0, atol=1e-9)
    assert_allclose(ess_fraction(found.log_weights), shares[-1], rtol=1e-6)


def test_constant_path_takes_one_step(seed):
    energy = MODELS["chain"](seed)
    path = Interpolation(energy, energy)
    X = visible_states(energy)
    rng = np.random.default_rng(seed)
    found = run_smc(path, X, spawn_generators(rng, len(X)), rng)
    assert found.betas == (0.0, 1.0)
    assert found.log_ratio == pytest.approx(0.0, abs=1e-12)
    assert_array_equal(found.ancestors, np.arange(len(X)))
    assert_allclose(found.log_weights, equal_log_weights(len(X)), rtol=1e-12)
    assert found.variance == pytest.approx(0.0, abs=1e-12)


def test_initial_weights(seed):
    """Unequal initial weights are resampled if the ESS is too small, and kept otherwise."""
    energy = MODELS["chain"](seed)
    path = Interpolation(energy, energy)
    X = np.repeat(visible_states(energy), 2, axis=0)
    n = len(X)
    rng = np.random.default_rng(seed)
    mild = rng.normal(0.0, 0.1, size=n) + 40.0
    found = run_smc(path, X, spawn_generators(rng, n), rng, log_weights=mild)
    assert_allclose(found.log_weights, mild - logsumexp(mild), rtol=0, atol=1e-12)
    hard = np.where(np.arange(n) < 3, 0.0, -np.inf)
    found = run_smc(path, X, spawn_generators(rng, n), rng, log_weights=hard)
    assert_allclose(found.log_weights, equal_log_weights(n), rtol=0, atol=1e-12)
    assert set(found.ancestors) == {0, 1, 2}
    assert found.log_ratio == pytest.approx(0.0, abs=1e-12)


def test_ancestors_and_moves(seed):
    """Without sweeps the particles are copies of their ancestors."""
    energy = MODELS["zero_one"](seed).tempered(3.0)
    path, sample, _ = path_from_reference(energy, seed)
    rng = np.random.default_rng(seed)
    X = sample(200, rng)
    before = X.copy()
    found = run_smc(path, X, spawn_generators(rng, 200), rng, n_sweeps=0)
    assert found.n_temperatures > 3
    assert_array_equal(found.X, X[found.ancestors])
    assert_array_equal(X, before)
    assert len(np.unique(found.ancestors)) < 150


def test_all_particles_impossible(seed):
    """If all particles have probability zero, the estimate of Z is zero without nan."""
    equal_pair, other = [[0.0, -np.inf], [-np.inf, 0.0]], [[-np.inf, 0.0], [0.0, -np.inf]]
    graph = FactorGraph([2] * 3, [(0, 1), (1, 2), (2, 0)], [equal_pair, equal_pair, other])
    path, sample, _ = path_from_reference(graph, seed)
    (found,) = run_many_times(path, sample, 1, seed)
    assert found.log_ratio == -np.inf
    assert found.variance == np.inf
    assert found.least_ess == 0.0
    assert found.betas[-1] == 1.0
    assert_allclose(found.log_weights, equal_log_weights(N_PARTICLES))


def test_smallest_step_bounds_the_number_of_steps(seed):
    """Steps have a smallest size, so a path of hundreds of nats ends."""
    energy = ZOO["huge"](seed)
    path, sample, _ = path_from_reference(energy, seed)
    (found,) = run_many_times(path, sample, 1, seed, n=64)
    assert found.betas[-1] == 1.0
    assert np.isfinite(found.log_ratio)
    assert np.isfinite(found.log_weights).any()


# Estimates of Z ----------------------------------------------------------------------------


@pytest.mark.parametrize("uniform", [False, pytest.param(True, marks=pytest.mark.long)])
@each_model
@pytest.mark.long
def test_estimate_of_z_is_unbiased(name, uniform, seed):
    energy = MODELS[name](seed)
    path, sample, _ = path_from_reference(energy, seed, uniform)
    found = run_many_times(path, sample, N_RUNS, [seed, uniform])
    ratios = np.array([f.log_ratio for f in found])
    few_possible = name.startswith("zeros")  # few particles are possible at the start
    check_mean_weight(ratios, log_z(energy), largest_error=0.15 if few_possible else 0.05)
    spread = np.mean((np.exp(ratios - log_z(energy)) - 1) ** 2)
    estimated = np.mean([f.variance for f in found])
    assert few_possible or 0.3 * estimated - 1e-4 < spread < 4 * estimated + 1e-4
    assert all(f.betas[-1] == 1.0 for f in found)
    check_final_weights(energy, found)


@pytest.mark.parametrize("name", [n for n in MODELS if not n.startswith("zeros")])
def test_ratios_between_models_are_unbiased(name, seed):
    path, sample, log_z_first = path_between_models(name, seed)
    found = run_many_times(path, sample, N_RUNS, seed)
    ratios = np.array([f.log_ratio for f in found])
    check_mean_weight(ratios, log_z(path.last) - log_z_first)
    check_final_weights(path.last, found)


def check_final_weights(energy, found):
    """Check single marginals of weighted particles, with errors from the spread over runs."""
    states, (_, p) = visible_states(energy), law(energy)
    expected = p @ states
    each = np.array([normalized_weights(f.log_weights, len(f.X)) @ f.X for f in found])
    error = each.std(axis=0, ddof=1) / np.sqrt(len(found)) + 1e-6
    assert (np.abs(each.mean(axis=0) - expected) < 5 * error + 0.01).all()


def test_check_detects_a_wrong_z(seed):
    """Negative control: Z is wrong."""
    energy = MODELS["orders"](seed)
    path, sample, _ = path_from_reference(energy, seed)
    ratios = [f.log_ratio for f in run_many_times(path, sample, N_RUNS, seed)]
    for wrong in (0.1, -0.1):
        with pytest.raises(AssertionError, match="the mean is"):
            check_mean_weight(ratios, log_z(energy) + wrong)


# Resampling --------------------------------------------------------------------------------


class FixedGenerator:
    """Generator that always returns the same number."""

    def __init__(self, value):
        self.value = value

    def random(self):
        return self.value


@pytest.mark.parametrize("n", [1, 7, 300])
@pytest.mark.parametrize("scale", [0.0, 1.0, 20.0])
def test_systematic_resampling(n, scale, seed):
    """Check the counts and the order of systematic resampling.

    Each index occurs n * weight times, rounded down or up, and exactly so on average. The indices
    are in increasing order.
    """
    rng = np.random.default_rng(seed)
    log_weights = rng.normal(0.0, scale, size=40) + 700.0
    log_weights[rng.random(40) < 0.2] = -np.inf
    log_weights[[0, -1]] = -np.inf
    expected = n * normalized_weights(log_weights, 40)
    total = np.zeros(40)
    us = [0.0, 1 - 2**-53, *((np.arange(400) + 0.5) / 400)]
    for k, u in enumerate(us):
        chosen = resample(log_weights, n, FixedGenerator(u))
        assert len(chosen) == n
        assert (np.diff(chosen) >= 0).all()
        counts = np.bincount(chosen, minlength=40)
        assert not counts[log_weights == -np.inf].any()
        assert (np.abs(counts - expected) <= 1 + 1e-9).all()
        total += counts if k > 1 else 0
    assert_allclose(total / 400, expected, rtol=0, atol=1 / 400 + 1e-9)


def test_resampling_with_rounding_errors():
    """Check uniforms next to 1, sums of weights below 1, and zero weights at both ends."""
    for n in (3, 200, 301):
        log_weights = np.random.default_rng(n).normal(size=n)
        log_weights[[0, -1]] = -np.inf
        for u in (0.0, 1 - 2**-53):
            chosen = resample(log_weights, n, FixedGenerator(u))
            assert chosen.min() >= 1
            assert chosen.max() <= n - 2


def test_resampling_with_all_weights_zero():
    assert_array_equal(resample(np.full(4, -np.inf), 4, FixedGenerator(0.5)), np.arange(4))


def test_equal_weights():
    assert_allclose(np.exp(equal_log_weights(8)).sum(), 1.0)
    assert_array_equal(resample(equal_log_weights(8), 8, FixedGenerator(0.3)), np.arange(8))


# Hidden units summed out -------------------------------------------------------------------


def test_summing_out_hidden_units_needs_fewer_steps(seed):
    """Weights of visible units alone vary less than weights of both layers on the same path."""
    steps = np.zeros(3)
    for k in range(3):
        rbm = layers(10, 8, [seed, k], scale=0.8)
        n, m = rbm.weights.shape
        W = np.zeros((n + m, n + m))
        W[:n, n:], W[n:, :n] = rbm.weights, rbm.weights.T
        bias = np.concatenate([rbm.visible_bias, rbm.hidden_bias])
        for kind, energy in enumerate((rbm, rbm.factor_graph(), PairwiseEnergy(W, bias, (0, 1)))):
            path, sample, _ = path_from_reference(energy, seed)
            steps[kind] += sum(
                f.n_temperatures for f in run_many_times(path, sample, 2, seed, n=256)
            )
    assert steps[0] < 0.8 * steps[1]
    assert steps[0] < 0.8 * steps[2]
    assert abs(steps[1] - steps[2]) <= 0.15 * steps[1]


def test_both_forms_estimate_the_same_z(seed):
    rbm = layers(4, 3, seed)
    states, log_f = enumerate_states(rbm)
    assert states.dtype == STATE
    expected = twins.log_sum(log_f)
    for energy in (rbm, rbm.factor_graph()):
        path, sample, _ = path_from_reference(energy, seed)
        ratios = [f.log_ratio for f in run_many_times(path, sample, N_RUNS, seed)]
        n = len(energy.visible_states)
        assert path.reference.log_probability(states[:, :n]) == pytest.approx(-n * np.log(2.0))
        check_mean_weight(ratios, expected)


@pytest.mark.filterwarnings("error")
def test_sums_along_an_axis_equal_single_sums(seed):
    logs = np.random.default_rng(seed).normal(0.0, 400.0, (5, 4))
    logs[:, 0] = -np.inf
    logs[:3, 1] = -np.inf
    logs[0, 2] = np.inf
    expected = [logsumexp(column) for column in logs.T]
    assert_allclose(logsumexp_along(logs), expected, rtol=1e-12)
    assert_allclose(logsumexp_along(logs.T, axis=1, keepdims=True)[:, 0], expected, rtol=1e-12)


# Block moves: windows of variables that are drawn together -----------------------------------


def test_block_moves_cross_zero_potentials(seed, monkeypatch):
    """Single variables cannot leave a state where all variables of a ring of equal pairs agree."""
    monkeypatch.setattr(windows, "LOG2_DRAWN", 2)
    monkeypatch.setitem(ais.__globals__, "MAX_UPDATES", 1e7)
    equal = np.where(np.eye(3, dtype=bool), 0.0, -np.inf)
    cliques = [(i, j) for i in range(6) for j in range(i)] + [(0,)]
    graph = FactorGraph([3] * 6, cliques, [equal] * 15 + [np.array([0.0, 1.0, 2.0])])
    result = ais(graph, random_state=seed)
    log_z = np.log(np.exp([0.0, 1.0, 2.0]).sum())
    assert result.lower <= log_z <= result.upper
    assert abs(result.value - log_z) < 0.5
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        alone = ais(graph, moves="gibbs", random_state=seed)
    assert not alone.lower <= log_z <= alone.upper or alone.upper - alone.lower > 1.0


@pytest.mark.long
@pytest.mark.parametrize("kind", ["strong", "underflow"])
def test_block_moves_with_large_finite_potentials(kind, seed, monkeypatch):
    """Only zero potentials become small numbers on the path, however small others are."""
    monkeypatch.setattr(windows, "LOG2_DRAWN", 3)
    rng = np.random.default_rng(seed)
    n = 8 if kind == "strong" else 4
    cliques = [(i, j) for i in range(n) for j in range(i)]
    tables = [rng.normal(0.0, 30.0 if kind == "strong" else 1.0, (2, 2)) for _ in cliques]
    tables[-1][0, 0] = -np.inf
    if kind == "underflow":
        tables[0][1] -= 1000.0
        cliques, tables = [*cliques, (1,)], [*tables, np.array([0.0, 1000.0])]
    graph = FactorGraph([2] * n, cliques, tables)
    result = ais(graph, random_state=seed)
    assert result.lower - 0.1 <= true_log_z(graph) <= result.upper + 0.1


def test_estimates_before_the_time_limit_are_kept(seed, monkeypatch):
    monkeypatch.setattr(windows, "LOG2_DRAWN", 2)
    graph, estimate, values = ZOO["zeros_binary"](seed), BlockAnnealing.estimate, []

    def stop(path, *how):
        if values:
            raise TimeoutError
        values.append(estimate(path, *how))
        return values[0]

    monkeypatch.setattr(BlockAnnealing, "estimate", stop)
    with pytest.warns(UserWarning, match="found no upper limit"):
        result = ais(graph, random_state=seed)
    assert (result.value, result.upper) == (values[0].value, np.inf)


def test_short_times_shorten_the_start_of_block_moves(seed, monkeypatch):
    """All windows together take longer than the time limit."""
    draw = windows.Windows.draw

    def draw_slowly(*args):
        time.sleep(0.1)
        return draw(*args)

    monkeypatch.setattr(windows.Windows, "draw", draw_slowly)
    how = {"max_bytes": 1.0, "time_limit": 2.0, "random_state": seed}
    assert marginals(ZOO["zeros_binary"](seed), **how).method == "block-gibbs"


def test_chains_of_single_variables_with_zero_potentials_warn(seed, monkeypatch):
    def stop(*_):
        raise TimeoutError

    monkeypatch.setattr(windows.Windows, "draw", stop)
    how = {"max_bytes": 1.0, "time_limit": 2.0, "random_state": seed}
    with pytest.warns(UserWarning, match="Zero potentials separate the states of these chains"):
        assert marginals(ZOO["zeros_binary"](seed), **how).method == "gibbs"


def test_reversed_block_moves(seed, monkeypatch):
    """Pairs of states before and after moves from equilibrium are those of reversed moves."""
    monkeypatch.setattr(windows, "LOG2_DRAWN", 1)
    rng, n = np.random.default_rng(seed), 100_000
    tables = [2.0 * rng.normal(size=(2, 2)) for _ in range(3)]
    path = windows.BlockPath.pair(FactorGraph([2] * 3, [(0, 1), (1, 2), (0, 2)], tables), rng)[0]
    path.plans = path.plans[:1]  # both moves draw the same window
    states = np.array(list(np.ndindex(2, 2, 2)), dtype=np.int16)
    log_f, code, tables = path.log_density(states)(0.7), np.array([4, 2, 1]), []
    p = np.exp(log_f - log_f.max())
    for reverse in (False, True):
        X = states[rng.choice(8, n, p=p / p.sum())]
        Y = path.move(X, 0.7, spawn_generators(rng, n), reverse=reverse)
        pairs = (Y, X) if reverse else (X, Y)
        tables.append(np.bincount(8 * (pairs[0] @ code) + pairs[1] @ code, minlength=64))
    error = np.sqrt(tables[0] + tables[1] + 1.0)
    assert (np.abs(tables[0] - tables[1]) < 5.0 * error).all()


def test_impossible_tables_have_no_block_moves():
    equal = np.where(np.eye(2, dtype=bool), 0.0, -np.inf)
    graph = FactorGraph([2, 2], [(0, 1), (0, 1)], [equal, equal[::-1]])
    with pytest.warns(UserWarning, match="has no estimate of log Z"):
        assert ais(graph).value == -np.inf


def test_models_without_block_moves_raise():
    message = r"^moves=\"block-gibbs\" needs a FactorGraph of at most 5,000 variables"
    with pytest.raises(ValueError, match=message):
        ais(PairwiseEnergy(np.zeros((2, 2)), np.zeros(2)), moves="block-gibbs")
    with pytest.raises(ValueError, match=r"^moves must be one of"):
        ais(ZOO["zeros_binary"](0), moves="windows")


def test_windows_contain_every_variable(seed):
    """A variable with many neighbours is also in some windows."""
    ring = [(i, i % 40 + 1) for i in range(1, 41)]
    cliques = [(0, i) for i in range(1, 41)] + ring
    graph = FactorGraph([2] * 41, cliques, [np.zeros((2, 2))] * len(cliques))
    drawn = windows.Windows(graph, np.random.default_rng(seed))
    plans = [drawn.draw(1) for _ in range(60)]
    assert min(sum(~plan.observed[i] for plan in plans) for i in range(41)) >= 1


def test_variables_outside_of_all_windows_move(seed, monkeypatch):
    """Tables of two entries are too small for variables with three states."""
    monkeypatch.setattr(windows, "LOG2_DRAWN", 1)
    graph, rng = FactorGraph([3, 3], [(0, 1)], [np.zeros((3, 3))]), np.random.default_rng(seed)
    path, generators = windows.BlockPath.pair(graph, rng)[0], spawn_generators(rng, 64)
    start = np.zeros((64, 2), dtype=np.int16)
    for X in (path.record(start, generators)[0], path.settle(start, generators)):
        assert (X != 0).any(axis=0).all()


# Coupled variables: paths between two models, and the precision of fields --------------------


def random_pairs(n, share, rng):
    """Return a model in which a share of the pairs of variables has a coupling, some strong."""
    upper = np.triu(rng.normal(0.0, 3.0, size=(n, n)) * (rng.random((n, n)) < share), 1)
    return PairwiseEnergy(upper + upper.T, rng.normal(size=n), states=(0, 1))


@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("n", [5, 40])
def test_sweeps_between_models_of_pairs(n, reverse, seed):
    """Compare with draws from the weighted average of two models, by the same random numbers."""
    rng, n_chains = np.random.default_rng(seed), 70
    models = random_pairs(n, 0.2, rng), random_pairs(n, 0.9, rng)
    X = (rng.random((n_chains, n)) < 0.5).astype(STATE)
    betas = np.array([0.0, 0.3, 0.8, 1.0])[:: -1 if reverse else 1]
    generators = spawn_generators(rng, n_chains)
    copies = deepcopy(generators)
    moved, log_weights = sweep_between(*models, betas, X, generators, reverse=reverse)
    order = np.arange(n)[:: -1 if reverse else 1]
    pairs = make_scan([model.coupling for model in models], order, reverse=reverse).pairs
    assert len(pairs)
    updates = [np.array([i]) for i in order]
    updates = [*pairs, *updates] if reverse else [*updates, *pairs]
    sizes = (len(pairs), n) if reverse else (n, len(pairs))
    uniforms = [
        twins.binary_uniforms(rng, 3, sizes, len(X[block]))
        for rng, block in zip(copies, blocks_of(n_chains), strict=True)
    ]
    expected, log_expected = X.astype(int), np.zeros(n_chains)
    for before, beta, numbers in zip(betas, betas[1:], np.concatenate(uniforms, 2), strict=False):
        first, last = (model.log_potential(expected) for model in models)
        log_expected += (beta - before) * (last - first)
        mixed = models[0].with_theta(
            {k: (1.0 - beta) * v + beta * models[1].theta[k] for k, v in models[0].theta.items()}
        )
        for sites, u in zip(updates, numbers, strict=True):
            changed = expected.copy()
            changed[:, sites] = 1 - changed[:, sites] if len(sites) == 2 else 1
            others = expected.copy()
            others[:, sites] = others[:, sites] if len(sites) == 2 else 0
            p = 1.0 / (1.0 + np.exp(mixed.log_potential(others) - mixed.log_potential(changed)))
            if len(sites) == 2:
                are_equal = expected[:, sites[0]] == expected[:, sites[1]]
                p[are_equal != (mixed.coupling[tuple(sites)] > 0)] = 0.0
                p *= abs(mixed.coupling[tuple(sites)]) > STRONG_COUPLING
            expected = np.where((u < p)[:, None], changed, others)
    assert_array_equal(moved, expected)
    assert_allclose(log_weights, log_expected, rtol=1e-9, atol=1e-9)


def test_fields_in_single_precision(seed, monkeypatch):
    """Single precision would round these fields, so that a state has the probability 1/2 or 3/4."""
    monkeypatch.setattr(layers_of_chains, "MIN_FLOAT32", 0)
    large = PairwiseEnergy([[0.0, 1e7 + 0.5], [1e7 + 0.5, 0.0]], [20.0, -1e7], states=(0, 1))
    rng = np.random.default_rng(seed)
    X, _ = sweep(large, np.zeros((20_000, 2), STATE), spawn_generators(rng, 20_000), n_sweeps=2)
    p = 1.0 / (1.0 + np.exp(-0.5))
    assert abs(X[:, 1].mean() - p) < 5.0 * np.sqrt(p * (1.0 - p) / len(X))


@pytest.mark.parametrize(
    ("n", "scale", "betas", "expected"),
    [
        (256, 0.1, [1.0, 1.0], np.float32),
        (256, 0.1, [0.3, 0.3, 0.3], np.float32),
        (256, 0.1, [1.0, 0.5, 1.0], float),
        (256, 1e3, [1.0, 1.0], float),
        (256, 0.1, [1e3, 1e3], float),
        (255, 0.1, [1.0, 1.0], float),
    ],
)
def test_data_types_of_fields(n, scale, betas, expected, seed):
    energy = random_pairs(n, 1.0, np.random.default_rng(seed))
    energy = energy.with_theta({k: scale * v for k, v in energy.theta.items()})
    assert float_of_sweeps(energy.conditionals(), np.array(betas), np.arange(n)) == expected


def test_sweeps_in_single_precision(seed, monkeypatch):
    """The states have the probabilities of exact enumeration."""
    monkeypatch.setattr(layers_of_chains, "MIN_FLOAT32", 0)
    energy, rng, n_chains = ZOO["spin_glass"](seed), np.random.default_rng(seed), 20_000
    states, p = twins.distribution(energy)
    X, _ = sweep(energy, states[rng.choice(len(p), n_chains, p=p)], spawn_generators(rng, n_chains))
    check_draws(X, states, p)
