"""Tests of intervals of log Z by annealing: coverage, width, and difficult models."""

import sys
import warnings
from functools import cache

import numpy as np
import pytest
import twins
from numpy.testing import assert_allclose
from potentials import hard_model, true_log_z
from zoo import MODERATE, WITH_ZEROS, ZOO, layers, random_tables

from skmrf._utils.codes import MISSING, STATE
from skmrf._utils.results import LogPartition
from skmrf._utils.warn import LogPartitionWarning
from skmrf.energies import BipartiteEnergy, FactorGraph, PairwiseEnergy, SemiRestrictedEnergy
from skmrf.exact import enumeration
from skmrf.inference import log_partition, row_queries
from skmrf.inference.row_queries import latent_log_partitions
from skmrf.likelihood import ais, log_partition_bounds, raise_bound
from skmrf.likelihood.annealing_paths import AnnealingChains, ModelPath
from skmrf.likelihood.bounds import exact_fits, exact_log_partition
from skmrf.likelihood.intervals import _lower_margin, is_below, raise_to_bound
from skmrf.samplers import windows

FAST = {"n_temperatures": 200, "n_chains": 64}
KINDS = ("glass", "frustrated", "ferromagnet", "tables", "zeros")


def random_model(kind, rng):
    """Return a small model that can be enumerated, and its coupling strength in nats."""
    if kind in ("tables", "zeros"):
        scale = rng.uniform(0.1, 2.0)
        cliques = [(i, j) for j in range(5) for i in range(j)]
        tables = random_tables([3] * 5, cliques, rng, scale)
        for table in tables if kind == "zeros" else ():
            table[rng.integers(1, 3), rng.integers(1, 3)] = -np.inf
        return FactorGraph([3] * 5, cliques, tables), scale
    scale = rng.uniform(0.1, 1.5 if kind == "glass" else 0.6)
    sign = {"glass": rng.normal(size=(8, 8)), "frustrated": -1.0, "ferromagnet": 1.0}[kind]
    upper = np.triu(np.broadcast_to(scale * sign, (8, 8)), 1)
    return PairwiseEnergy(upper + upper.T, rng.normal(0.0, 0.3, size=8)), scale


def intervals(seed, n_models=250, **options):
    """Return (true log Z, estimate, strength, energy) of random models of all kinds."""
    found = []
    for k in range(n_models):
        rng = np.random.default_rng([seed, k])
        energy, scale = random_model(KINDS[k % len(KINDS)], rng)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)
            result = ais(energy, random_state=rng, **{"moves": "gibbs"} | options)
        found.append((true_log_z(energy), result, scale, energy))
    return found


@cache
def fast_intervals(seed):
    """Return intervals of 25 models."""
    return intervals(seed, 25, **FAST)


def check_coverage(found):
    """Check that 93% of the intervals contain log Z and are narrow at moderate couplings."""
    held = [r.lower <= log_z <= r.upper for log_z, r, *_ in found]
    assert np.mean(held) >= 0.93, f"{np.sum(held)} of {len(held)} intervals hold log Z"
    low = np.mean([r.lower <= log_z for log_z, r, *_ in found])
    high = np.mean([log_z <= r.upper for log_z, r, *_ in found])
    assert min(low, high) >= 0.95, f"{low:.3f} lower and {high:.3f} upper limits are right"
    assert np.median([r.upper - r.lower for _, r, scale, _ in found if scale < 0.5]) < 0.2
    assert np.median([r.upper - r.lower for _, r, *_ in found]) < 1.0


@pytest.mark.slow
def test_intervals_hold_log_z(seed):
    check_coverage(intervals(seed, **FAST))


@pytest.mark.slow
def test_intervals_hold_log_z_by_default(seed):
    check_coverage(intervals(seed))


@pytest.mark.long
def test_coverage_check_detects_a_wrong_log_z(seed):
    """Negative control: log Z of tables that are 1% larger."""
    found = [(true_log_z(e.tempered(1.01)), *others, e) for _, *others, e in fast_intervals(seed)]
    with pytest.raises(AssertionError, match="of 25 intervals hold"):
        check_coverage(found)


@pytest.mark.long
def test_coverage_of_block_moves(seed, monkeypatch):
    """Intervals contain log Z if each window leaves out some variables."""
    monkeypatch.setattr(windows, "LOG2_DRAWN", 4)
    monkeypatch.setattr(sys.modules[__name__], "KINDS", ("tables", "zeros"))
    found = intervals(seed, 30, moves="block-gibbs", n_temperatures=120, n_chains=64)
    assert max(r.std_error for _, r, *_ in found) > 1e-3
    check_coverage(found)


@pytest.mark.long
def test_standard_errors_are_calibrated(seed):
    """The errors of forward estimates are about as large as their standard errors."""
    found = fast_intervals(seed)
    z = [(r.value - log_z) / r.std_error for log_z, r, scale, _ in found if scale < 1.0]
    assert 0.3 < np.sqrt(np.mean(np.square(z))) < 1.5


def test_more_temperatures_and_chains_narrow_the_interval(seed):
    energy = ZOO["spin_glass"](seed)
    widths = []
    for n_temperatures, n_chains in ((50, 64), (1000, 64), (1000, 1024)):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)
            result = ais(
                energy, n_temperatures=n_temperatures, n_chains=n_chains, random_state=seed
            )
        widths.append(result.upper - result.lower)
    assert widths[0] > widths[1] > widths[2]


def test_hard_model_has_a_wide_interval_and_warns(seed):
    energy = hard_model()
    with pytest.warns(UserWarning, match="is .* nats wide") as caught:
        result = ais(energy, n_temperatures=3, n_chains=32, random_state=seed)
    assert not result.converged
    width = result.upper - result.lower
    assert width > 1.0
    assert str(caught[0].message) == (
        "The interval of log Z by annealed importance sampling, "
        f"[{result.lower:.4g}, {result.upper:.4g}], is {width:.3g} nats wide, more than "
        "max_width=1.0. Increase n_temperatures or n_chains."
    )
    assert result.lower <= true_log_z(energy)
    assert result.ess < 10
    assert result.value - result.lower >= np.log(40.0) - 1e-9


def test_default_path_is_extended_until_the_interval_is_narrow(seed):
    energy = hard_model()
    result = ais(energy, random_state=seed)
    assert result.converged
    assert result.upper - result.lower <= 1.0
    assert result.lower - 0.5 <= true_log_z(energy) <= result.upper + 0.5


def test_max_width_defines_convergence(seed):
    energy = ZOO["spin_glass"](seed)
    result = ais(energy, n_temperatures=100, max_width=100.0, random_state=seed)
    assert result.converged
    with pytest.warns(UserWarning, match="more than max_width=1e-06"):
        again = ais(energy, n_temperatures=100, max_width=1e-6, random_state=seed)
    assert not again.converged
    assert (again.value, again.lower, again.upper) == (result.value, result.lower, result.upper)


# Result attributes ------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["chain", "orders", "spin_glass", "zeros"])
def test_result_attributes(name, seed):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        result = ais(ZOO[name](seed), moves="gibbs", random_state=seed, **FAST)
    assert isinstance(result, LogPartition)
    for field in ("value", "std_error", "lower", "upper", "ess"):
        assert type(getattr(result, field)) is float
        assert np.isfinite(getattr(result, field))
    assert result.lower < result.value < result.upper
    assert result.value - result.lower >= 0.5 * result.std_error or name == "zeros"
    assert result.std_error > 0
    assert 1 <= result.ess <= FAST["n_chains"] * (1 + 1e-9)
    assert result.upper_is_bound is False
    assert result.converged is (result.upper - result.lower <= 1.0)
    assert result.method == "ais"
    assert float(result) == result.value


@pytest.mark.parametrize("name", [*MODERATE, *WITH_ZEROS])
def test_interval_of_each_small_model(name, seed):
    energy = ZOO[name](seed)
    log_z = true_log_z(energy)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        result = ais(energy, n_temperatures=300, random_state=seed)
    assert abs(result.value - log_z) < 5 * result.std_error + 1e-6
    assert result.upper - result.lower < 1.5


@pytest.mark.parametrize("name", ["huge", "huge_binary"])
def test_huge_log_potentials(name, seed):
    energy = ZOO[name](seed)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        result = ais(energy, random_state=seed)
    assert abs(result.value - true_log_z(energy)) < 2.0
    assert np.isfinite([result.lower, result.upper, result.std_error]).all()


# Edge cases -------------------------------------------------------------------------------


@pytest.mark.parametrize("method", ["exact", "ais", "bpchain", "trw"])
def test_models_without_randomness(method):
    constant = FactorGraph([], [(), ()], [2.0, 0.5])
    result = log_partition_bounds(constant, method=method)
    assert_allclose([result.value, result.lower, result.upper], 2.5, rtol=1e-14)
    one_state = ZOO["one_state"](0)
    result = log_partition_bounds(one_state, method=method, random_state=0)
    expected = true_log_z(one_state)
    assert_allclose([result.value, result.lower, result.upper], expected, rtol=0, atol=1e-6)
    assert result.converged


def test_uniform_models(seed):
    result = ais(FactorGraph([2, 3], [], []), random_state=seed)
    assert_allclose(result.value, np.log(6), atol=0.01)
    assert result.upper - result.lower < 0.02


def test_model_without_possible_states_has_an_infinite_interval(seed):
    equal, other = [[0.0, -np.inf], [-np.inf, 0.0]], [[-np.inf, 0.0], [0.0, -np.inf]]
    graph = FactorGraph([2] * 3, [(0, 1), (1, 2), (2, 0)], [equal, equal, other])
    with pytest.warns(UserWarning, match="zero potentials"):
        result = ais(graph, random_state=seed)
    assert (result.value, result.lower, result.upper) == (-np.inf, -np.inf, np.inf)
    assert (result.std_error, result.ess, result.converged) == (np.inf, 0.0, False)
    exact = exact_log_partition(graph)
    assert (exact.value, exact.lower, exact.upper) == (-np.inf, -np.inf, -np.inf)


def test_lower_limit_includes_impossible_samples_that_are_not_drawn(seed):
    """The reference gives an impossible state a small probability, and no chain starts there."""
    graph = FactorGraph([3], [(0,)], [[0.0, 1.0, -np.inf]])
    log_z = np.log(1.0 + np.e)
    results = [ais(graph, moves="gibbs", random_state=seed + k) for k in range(5)]
    assert max(result.value for result in results) > log_z + 3e-4
    assert all(log_z - 0.1 < result.lower < log_z < result.upper for result in results)


def test_zero_potentials_do_not_raise_the_upper_limit(seed):
    """The tables allow 15 of 16 states of each pair, but far fewer joint states are possible."""
    graph = ZOO["zeros_binary"](seed)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        how = {"n_chains": 1024, "n_temperatures": 200, "moves": "gibbs"}
        result = ais(graph, random_state=seed, **how)
    log_z = true_log_z(graph)
    assert log_z - 0.3 < result.lower < log_z + 0.05
    assert log_z - 0.05 < result.upper < log_z + 0.4


@pytest.mark.long
def test_few_chains_with_possible_starts(seed):
    """Only one of 256 states is possible, so no chain or only a few start there."""
    table = np.full([2] * 8, -np.inf)
    table.flat[5] = 1.5
    graph = FactorGraph([2] * 8, [range(8)], [table])
    held = 0
    for k in range(20):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)
            result = ais(
                graph, n_chains=64, n_temperatures=2, moves="gibbs", random_state=20 * seed + k
            )
        assert not np.isnan([result.value, result.lower, result.upper, result.std_error]).any()
        held += result.lower <= 1.5 <= result.upper
    assert held >= 16


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"n_chains": 1}, "n_chains must be an integer >= 2; got 1."),
        ({"n_chains": 2.5}, "n_chains must be an integer; got 2.5."),
        ({"n_temperatures": 0}, "n_temperatures must be an integer >= 1; got 0."),
        ({"max_width": -1}, "max_width must be a number >= 0; got -1."),
        ({"max_width": np.nan}, "max_width must be a finite number; got nan."),
        (
            {"random_state": "seed"},
            "random_state must be None, an int >= 0, a numpy.random.RandomState or a "
            "numpy.random.Generator; got 'seed'.",
        ),
    ],
)
def test_options_are_checked(options, message):
    with pytest.raises(ValueError) as caught:
        ais(ZOO["chain"](0), **options)
    assert str(caught.value) == message


# Reproducibility --------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["orders", "spin_glass"])
def test_same_seed_gives_same_estimate(name, seed):
    energy = ZOO[name](seed)
    first = ais(energy, random_state=seed, **FAST)
    assert ais(energy, random_state=seed, **FAST) == first
    assert ais(energy, random_state=seed, n_jobs=2, **FAST) == first
    assert ais(energy, random_state=np.random.default_rng(seed), **FAST) == first
    assert ais(energy, random_state=seed + 1, **FAST) != first
    state = np.random.RandomState(seed)
    assert ais(energy, random_state=state, **FAST) != ais(energy, random_state=state, **FAST)


def test_global_random_state_is_not_used(seed):
    np.random.seed(0)  # noqa: NPY002
    before = np.random.get_state()[1].copy()  # noqa: NPY002
    ais(ZOO["chain"](seed), random_state=seed, **FAST)
    ais(ZOO["chain"](seed), **FAST)
    assert (np.random.get_state()[1] == before).all()  # noqa: NPY002


# Methods ----------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ZOO)
def test_exact_method(name, seed):
    energy = ZOO[name](seed)
    for method in ("exact", "auto"):
        result = log_partition_bounds(energy, method=method)
        assert_allclose(result.value, true_log_z(energy), rtol=1e-13, atol=1e-12)
        assert (result.lower, result.upper) == (result.value, result.value)
        assert (result.std_error, result.method, result.ess) == (0.0, "exact", np.inf)
        assert result.converged is True
        assert result.upper_is_bound is True


def test_auto_uses_ais_for_large_models(seed):
    energy = ZOO["spin_glass"](seed)
    layout = energy.factor_graph().layout
    assert exact_fits(layout)
    assert not exact_fits(layout, max_bytes=1000)
    result = log_partition_bounds(energy, max_bytes=1000, random_state=seed, **FAST)
    assert result.method == "ais"
    assert result == ais(energy, random_state=seed, **FAST)
    with pytest.raises(ValueError, match=r"^Exact inference needs \S+ bytes .* max_bytes=1000\b"):
        log_partition_bounds(energy, method="exact", max_bytes=1000)


def test_unknown_method_raises():
    with pytest.raises(ValueError) as caught:
        log_partition_bounds(ZOO["chain"](0), method="bp")
    names = sorted(["auto", "exact", "ais", "bpchain", "bethe", "trw", "mean-field"])
    assert str(caught.value) == f"method must be one of {names}; got 'bp'."


@pytest.mark.parametrize(
    ("method", "options"),
    [
        ("exact", "none"),
        (
            "ais",
            "['n_chains', 'n_temperatures', 'schedule', 'reference', 'moves', 'start', "
            "'max_width', 'target_width', 'n_jobs', 'device']",
        ),
        (
            "bpchain",
            "['n_samples', 'conditionals', 'order', 'clip', 'settings', 'max_width']",
        ),
        ("bethe", "['schedule', 'damping', 'max_iter', 'tol']"),
        ("trw", "['schedule', 'damping', 'max_iter', 'tol']"),
        ("mean-field", "['max_iter', 'tol']"),
    ],
)
def test_unknown_option_raises(method, options):
    with pytest.raises(TypeError) as caught:
        log_partition_bounds(ZOO["chain"](0), method=method, beta=1.0)
    message = f"method={method!r} has no option 'beta'; its options are {options}."
    assert str(caught.value) == message


# Margins ------------------------------------------------------------------------------------


def test_margin_standard_error_and_ess():
    rng = np.random.default_rng(0)
    margin, error, ess = _lower_margin(np.full(50, -700.0), rng)
    assert (margin, error) == (0.0, 0.0)
    assert_allclose(ess, 50)
    margin, error, ess = _lower_margin(np.append(np.zeros(1), np.full(99, -np.inf)), rng)
    assert_allclose([margin, error, ess], [np.log(40.0), 1.0, 1.0], rtol=1e-12)
    for n in (200, 1000):
        log_weights = rng.normal(0.0, 0.5, size=n)
        margin, error, ess = _lower_margin(log_weights, rng)
        weights = np.exp(log_weights)
        assert_allclose(error, weights.std(ddof=1) / weights.mean() / np.sqrt(n), rtol=1e-10)
        assert_allclose(margin, 2.58 * error, rtol=0.15)
        assert_allclose(ess, weights.sum() ** 2 / (weights**2).sum(), rtol=1e-12)


def tree_and_model(rng, scale):
    """Return a chain of six ternary variables, and a model that adds weaker couplings to it."""
    cliques = [(i, j) for j in range(6) for i in range(j)]
    chain = [2.0 * rng.normal(size=(3, 3)) * (j == i + 1) for i, j in cliques]
    tables = [c + scale * rng.normal(size=(3, 3)) for c in chain]
    reference = FactorGraph([3] * 6, cliques, chain)
    return reference, FactorGraph([3] * 6, cliques, tables)


@pytest.mark.long
def test_annealing_from_a_tree(seed):
    """Mean weights are unbiased in both directions, and a wrong log Z is detected."""
    z_scores = []
    for k in range(20):
        rng = np.random.default_rng([seed, k])
        reference, energy = tree_and_model(rng, 1.0)
        path = ModelPath(energy, reference, None, AnnealingChains(100))
        assert_allclose(path._at(0.25).flat, 0.75 * reference.flat + 0.25 * energy.flat)
        X = path.draw_reference(rng)[0]
        expected = energy.log_potential(X) - reference.log_potential(X)
        assert_allclose(path._log_ratio()(X), expected, atol=1e-9)
        result = path.estimate(10, 1.0, rng)
        log_z = exact_log_partition(energy).value
        assert result.lower <= result.value <= result.upper
        z_scores.append((result.value - log_z) / result.std_error)
    assert abs(np.mean(z_scores)) * np.sqrt(20) < 5
    assert abs(np.mean(z_scores) + 3) * np.sqrt(20) > 5  # log Z too large by three errors


def test_annealing_from_a_tree_needs_few_temperatures(seed):
    """The path from a tree with strong couplings is more accurate than that from a product."""
    rng = np.random.default_rng(seed)
    reference, energy = tree_and_model(rng, 0.1)
    log_z = exact_log_partition(energy).value
    how = {"n_temperatures": 20, "random_state": seed}
    result, product = (ais(energy, reference=given, **how) for given in (reference, None))
    assert abs(result.value - log_z) < 5 * result.std_error
    assert result.converged
    assert result.upper - result.lower < min(0.15, product.upper - product.lower)


def test_the_path_starts_at_exact_samples(seed):
    """If the model is its own reference, all weights are equal and log Z is exact."""
    reference, _ = tree_and_model(np.random.default_rng(seed), 0.0)
    result = ais(reference, reference=reference, n_temperatures=2, random_state=seed)
    assert_allclose([result.lower, result.upper], exact_log_partition(reference).value)


def test_reference_with_other_cliques_raises():
    reference = FactorGraph([2, 2], [(0,), (1,)], [np.zeros(2), np.zeros(2)])
    energy = FactorGraph([2, 2], [(0, 1)], [np.zeros((2, 2))])
    with pytest.raises(ValueError, match="the same cliques in the same order"):
        ais(energy, reference=reference)


# RAISE -------------------------------------------------------------------------------------


def small_model(name, seed):
    return layers(5, 2, seed) if name == "layers" else ZOO[name](seed)


def all_rows(energy):
    """Return all visible states, and their exact log-likelihoods."""
    V, log_f = twins.visible_law(energy)
    return V.astype(int), log_f - twins.log_sum(log_f)


@pytest.mark.parametrize("name", ["spin_glass", "layers", "orders"])
def test_raise_is_an_unbiased_density_of_the_annealed_sampler(name, seed):
    """Summed over all states, the estimates are 1 on average, even with few temperatures."""
    energy = small_model(name, seed)
    V, log_p = all_rows(energy)
    bounds = [
        raise_bound(energy, V, n_chains=4, n_temperatures=6, random_state=k) for k in range(60)
    ]
    totals = np.exp(bounds).sum(axis=1)
    assert abs(np.mean(totals) - 1.0) < 5.0 * np.std(totals) / np.sqrt(len(totals)) + 1e-12
    p = np.exp(log_p)
    assert np.mean(bounds @ p) < p @ log_p  # the entropy of the model is the best score


@pytest.mark.parametrize("name", ["spin_glass", "layers", "orders"])
def test_long_reverse_annealing_gives_log_likelihoods(name, seed):
    """The mean score of the model is too low by at most 0.1 nats, within its Monte Carlo error."""
    energy = small_model(name, seed)
    V, log_p = all_rows(energy)
    how = {"n_temperatures": 500 if name == "spin_glass" else 125}
    bounds = [raise_bound(energy, V, random_state=8 * seed + k, **how) for k in range(8)]
    p = np.exp(log_p)
    differences = bounds @ p - p @ log_p
    error = np.std(differences, ddof=1) / np.sqrt(len(differences))
    assert error < 0.1
    assert -0.1 - 5.0 * error < np.mean(differences) < 5.0 * error


def test_raise_of_a_hard_model_is_low(seed):
    """Annealing that is too short gives a low bound on rows of the model, not a high one."""
    energy = hard_model()
    V, log_p = all_rows(energy)
    p = np.exp(log_p)
    rows = np.random.default_rng(seed).choice(len(V), size=200, p=p)
    bounds = raise_bound(energy, V[rows], n_temperatures=5, random_state=seed)
    assert bounds.mean() < log_p[rows].mean() - 1.0


def test_raise_of_impossible_rows(seed):
    """A zero potential that no single change of a variable avoids."""
    equal = [[0.0, -np.inf], [-np.inf, 0.0]]
    energy = FactorGraph([2, 2], [(0, 1)], [equal])
    bounds = raise_bound(energy, [[0, 1], [1, 1]], n_temperatures=200, random_state=seed)
    assert bounds[0] == -np.inf
    assert -5.0 < bounds[1] < np.log(0.5) + 0.1


def test_raise_of_wrong_rows():
    energy = ZOO["spin_glass"](0)
    with pytest.raises(ValueError, match="codes"):
        raise_bound(energy, np.full((1, energy.n_variables), 7))
    assert raise_bound(energy, np.zeros((0, energy.n_variables), dtype=int)).shape == (0,)


@pytest.mark.parametrize(
    ("upper", "bound", "raised", "refutes"),
    [
        (2.0, 0.5, (1.0, 0.5, 2.0), False),  # value, lower and upper limit
        (2.0, 1.5, (1.5, 1.5, 2.0), False),
        (2.0, 2.5, (2.5, 2.5, np.inf), True),
        (np.inf, 0.5, (1.0, 0.5, np.inf), False),
        (np.inf, 1.5, (1.5, 1.5, np.inf), True),
    ],
)
def test_lower_bounds_of_modes_raise_an_estimate(upper, bound, raised, refutes):
    """A bound inside the interval raises its lower part; a bound above it refutes the interval."""
    result = LogPartition(1.0, 0.1, 0.2, upper, False, "ais", upper < np.inf, 50.0)
    found = raise_to_bound(result, bound)
    assert (found.value, found.lower, found.upper) == raised
    assert found.converged == (found.upper < np.inf)
    assert is_below(result, bound) == refutes


def enumerated_models(rng):
    """Return a model for each kind of enumeration; each kind takes more than a second."""
    coupling = np.triu(rng.normal(0.0, 0.1, (30, 30)), 1)
    coupling += coupling.T
    weights = rng.normal(0.0, 0.1, (22, 200))
    bias = np.zeros(30)
    return [
        PairwiseEnergy(coupling, bias),
        BipartiteEnergy(weights, bias[:22], np.zeros(200)),
        SemiRestrictedEnergy(coupling[:24, :24], weights[:4, :24].T, bias[:24], bias[:4]),
    ]


@pytest.mark.parametrize("kind", range(3))
def test_automatic_method_ends_in_time(kind, seed, monkeypatch):
    """If enumeration does not end in half of the time, annealing has the result."""
    energy = enumerated_models(np.random.default_rng(seed))[kind]
    how = {"n_chains": 8, "n_temperatures": 10, "random_state": seed, "time_limit": 0.3}
    monkeypatch.setattr(enumeration, "check_time", lambda: pytest.fail("too slow"))
    assert log_partition(energy, **how).method == "ais"
    monkeypatch.undo()
    monkeypatch.setattr(enumeration, "TERMS_PER_SECOND", np.inf)  # a wrong forecast
    assert log_partition(energy, **how).method == "ais"


def test_estimates_of_few_effective_chains_warn(seed, monkeypatch):
    """Weights of a spin glass separate chains that are annealed quickly; small weights do not."""
    monkeypatch.setattr(row_queries, "N_TEMPERATURES", 2)
    rng = np.random.default_rng(seed)
    weights, rows = rng.normal(size=(30, 30)), np.full((2, 30), MISSING)
    glass, weak = (BipartiteEnergy(c * weights, np.zeros(30), np.zeros(30)) for c in (60.0, 0.01))
    with pytest.warns(LogPartitionWarning, match="more than 10 missing entries are uncertain"):
        latent_log_partitions(glass, rows, rng=seed)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        latent_log_partitions(weak, rows, rng=seed)
        latent_log_partitions(glass, np.zeros((2, 30), dtype=STATE), rng=seed)  # exact


def test_estimates_are_at_least_the_potential_of_a_state():
    """Short paths miss the state that has almost all of the probability."""
    table = np.zeros((2,) * 10)
    table[(1,) * 10] = 50.0
    graph, start = FactorGraph([2] * 10, [tuple(range(10))], [table]), np.ones((1, 10), dtype=int)
    with pytest.warns(UserWarning, match="wide, more than max_width"):
        result = ais(graph, n_temperatures=5, n_chains=16, start=start, random_state=0)
    assert result.lower == result.value == 50.0
    assert result.upper >= 50.0
