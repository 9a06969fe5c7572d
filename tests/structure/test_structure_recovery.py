"""Tests of recovered graphs, of error rates, and of probabilities of edges."""

import time
from itertools import combinations, product

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy.stats import binom, chi2, norm
from structure_rows import (
    CHAIN,
    RARE,
    binary_truth,
    chain_couplings,
    chain_rows,
    edges_of,
    holes,
    learner,
    slow,
    strict,
)
from zoo import random_tables

from skmrf import MRFStructureLearner, inference
from skmrf._utils.codes import STATE
from skmrf.datasets import make_ising, make_non_decay_mrf
from skmrf.energies import FactorGraph
from skmrf.structure import (
    RemovalWhileLearning,
    WaldTests,
    fitted_graph,
    removal,
    search,
    significance,
)
from skmrf.structure.significance import edge_probabilities, z_from_chi2

pytestmark = pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")


# The paper --------------------------------------------------------------------------------

D, BETA = 8, 0.6
TRUE = sorted([0, i] for i in range(1, 9)) + sorted([i, 9] for i in range(1, 9))
MIDDLE = list(combinations(range(1, 9), 2))
RATES = [  # rate, crossing, removal of (0, 9), removal of pairs of middle nodes
    (0.04, 90, 1028, 1),
    (0.06, 60, 685, 1),
    (0.08, 45, 513, 1),
    (0.1, 50, 592, 418),
    (0.15, 34, 394, 278),
    (0.2, 25, 295, 208),
    (0.3, 17, 196, 139),
    (0.5, 11, 117, 83),
    (1.0, 6, 57, 41),
]


def population():
    """Return all joint states of the paper's example and their expected counts in 5,000 rows."""
    model = make_non_decay_mrf(D, beta=BETA)
    states = np.array(list(product((0, 1), repeat=D + 2)), dtype=STATE)
    log_f = model.log_potential(states)
    return states, 5_000 * np.exp(log_f - np.logaddexp.reduce(log_f))


def paper_algorithm(rate, max_iter, **parameters):
    return MRFStructureLearner(
        "exact",
        statistic="agreement",
        unary=False,
        search=RemovalWhileLearning(np.log(0.501 / 0.499)),
        learning_rate=rate,
        max_iter=max_iter,
        screen=None,
        **parameters,
    )


@pytest.mark.parametrize(
    ("rate", "crossing", "removal", "middle"),
    [pytest.param(*r, marks=[] if r[0] in (0.1, 0.15, 1.0) else pytest.mark.slow) for r in RATES],
)
def test_counterexample_of_the_paper(rate, crossing, removal, middle):
    """Pair (0, 9) is first stronger than an edge, then decays; with population moments."""
    states, counts = population()
    model = paper_algorithm(rate, 1000 if rate == 0.15 else removal + 3)
    model.fit(states, sample_weight=counts)
    path = model.path_
    column = {tuple(e): k for k, e in enumerate(path.edges.tolist())}
    ahead = path.parameters[:, column[0, 9]] > path.parameters[:, column[0, 1]]
    assert path.iteration[np.argmin(ahead)] == crossing
    assert ahead[: crossing - 1].all()
    assert path.removed[column[0, 9]] == removal
    assert {path.removed[column[e]] for e in MIDDLE} == {middle}
    assert {path.removed[column[tuple(e)]] for e in TRUE} == {-1}
    assert sorted(edges_of(model)) == sorted(TRUE)
    assert model.n_iter_ == len(path.iteration) == (1000 if rate == 0.15 else removal + 3)
    after = path.parameters[removal - 1 :, column[0, 9]]
    np.testing.assert_array_equal(after, 0.0)
    assert path.parameters[removal - 2, column[0, 9]] >= np.log(0.501 / 0.499)
    assert (model.confidence_intervals_[:, 0] > 0).all()
    if rate == 0.15:
        couplings = model.coupling_[tuple(np.array(TRUE).T)]
        np.testing.assert_allclose(couplings, np.log(0.6 / 0.4) / 2, atol=1e-5)


def test_paper_algorithm_fails_with_a_small_learning_rate():
    """The first update at rate 0.03 moves only pair (0, 9) above the threshold."""
    states, counts = population()
    model = paper_algorithm(0.03, 40).fit(states, sample_weight=counts)
    assert edges_of(model) == [[0, 9]]
    assert sorted(model.path_.removed) == [-1] + [1] * 44


def test_wald_recovers_the_graph_of_the_paper_from_population_moments():
    states, counts = population()
    model = learner().fit(states, sample_weight=counts)
    assert sorted(edges_of(model)) == sorted(TRUE)
    np.testing.assert_allclose(
        model.coupling_[tuple(np.array(TRUE).T)], np.log(0.6 / 0.4) / 2, atol=1e-4
    )


@pytest.mark.parametrize("name", ["exact", "pseudo-likelihood"])
def test_wald_recovers_the_graph_of_the_paper(name, seed):
    """Edges are 11 standard errors from zero, and false edges have probability 1e-5."""
    for k in range(3):
        rows = inference.sample(
            make_non_decay_mrf(D, beta=BETA), 5000, random_state=np.random.default_rng([seed, k])
        )
        model = learner(name, search=strict(1e-5)).fit(rows)
        assert sorted(edges_of(model)) == sorted(TRUE)
        assert model.converged_
        assert model.edge_probability_[tuple(np.array(TRUE).T)].min() > 0.99


@pytest.mark.slow
def test_default_recovers_the_graph_of_the_paper(seed):
    """In 40 data sets, all edges are found, and false edges are as rare as the level 0.05."""
    missed = 0
    for k in range(40):
        rows = inference.sample(
            make_non_decay_mrf(D, beta=BETA), 5000, random_state=np.random.default_rng([seed, k])
        )
        found = MRFStructureLearner(random_state=k).fit(rows)
        assert {tuple(e) for e in TRUE} <= {tuple(e) for e in edges_of(found)}
        missed += sorted(edges_of(found)) != sorted(TRUE)
    assert missed <= binom.isf(RARE, 40, 0.05)


# Error rates ------------------------------------------------------------------------------


def count_sets_with_false_edges(seed, n_sets, **parameters):
    """Return the number of data sets of independent columns with a false edge."""
    wrong = 0
    for k in range(n_sets):
        X = np.random.default_rng([seed, k]).integers(0, 2, size=(300, 6))
        wrong += len(learner("pseudo-likelihood", search=strict(**parameters)).fit(X).edges_) > 0
    return wrong


@pytest.mark.long
@pytest.mark.parametrize(
    ("n_sets", "level"), [(25, 0.1), pytest.param(600, 0.05, marks=pytest.mark.slow)]
)
@pytest.mark.parametrize("control", ["holm", "fdr", "local-fdr"])
def test_false_edges_of_independent_columns(n_sets, level, control, seed):
    """Independent columns have false edges at most as often as the level, for all controls."""
    wrong = count_sets_with_false_edges(seed, n_sets, level=level, control=control)
    assert wrong <= binom.isf(RARE, n_sets, level + 0.01 * (control == "local-fdr"))


def intervals_of(name, seed):
    """Return confidence intervals of the strong edges of a grid, shape (n_edges, 2)."""
    model = make_ising("grid", n_variables=9, coupling=0.7)
    X = inference.sample(model, 1500, random_state=seed)
    return np.array(learner(name).fit(X).confidence_intervals_)


def test_intervals_of_pseudo_likelihood_are_wider(seed):
    """Intervals by pseudo-likelihood are wider than exact ones if the couplings are strong."""
    widths = {k: np.diff(intervals_of(k, seed)).mean() for k in ("pseudo-likelihood", "exact")}
    assert widths["pseudo-likelihood"] > 1.02 * widths["exact"]


def test_learning_ends_close_to_the_optimum(seed, monkeypatch):
    """The error of the estimates is small compared with their confidence intervals."""
    found = intervals_of("exact", seed)
    monkeypatch.setattr(search, "MIN_EPOCH_GAIN", 0.0)
    expected = intervals_of("exact", seed)
    error = np.abs(found.mean(axis=1) - expected.mean(axis=1)).max()
    assert error < 0.03 * np.diff(expected).mean()


@pytest.mark.long
def test_local_false_discovery_rate_finds_more_edges(seed):
    """In wide tables of few rows, it finds more edges than Holm's method, and few false ones."""
    missing, n_false, n_found = {"holm": 0, "local-fdr": 0}, 0, 0
    for k in range(4):
        X = chain_rows(1000 * (seed + 1) + k, 250, 40, coupling=0.25)
        for control in missing:
            found = learner("pseudo-likelihood", search=WaldTests(control)).fit(X).edges_
            is_true = np.diff(found, axis=1).ravel() == 1
            missing[control] += 39 - int(is_true.sum())
        n_false, n_found = n_false + int((~is_true).sum()), n_found + len(found)
    assert missing["local-fdr"] < missing["holm"]
    assert n_false <= binom.isf(RARE, n_found, 0.05)


class KeptByEdgesOnly(WaldTests):
    keeps_by_all_tests = False


@pytest.mark.long
def test_tests_of_all_pairs_decide_which_edges_are_kept(seed):
    """Fewer edges are found if the rate is estimated without the tests of the other pairs."""
    n_edges = dict.fromkeys((WaldTests, KeptByEdgesOnly), 0)
    for k in range(3):
        X = chain_rows(1000 * (seed + 1) + k, 200, 60, coupling=0.3)
        for kind in n_edges:
            n_edges[kind] += len(learner("pseudo-likelihood", search=kind()).fit(X).edges_)
    assert n_edges[WaldTests] > n_edges[KeptByEdgesOnly]


def test_false_edges_without_adjustment(seed, monkeypatch):
    """Negative control: without adjustment, false edges exceed the level."""
    monkeypatch.setattr(removal, "adjust_p_values", lambda p, _: p)
    assert count_sets_with_false_edges(seed, 25, level=0.1) > binom.isf(RARE, 25, 0.1)


@pytest.mark.parametrize("n_sets", [10, pytest.param(300, marks=pytest.mark.slow)])
def test_false_discovery_rate(n_sets, seed):
    """The mean share of false edges is at most the level, and Holm selects fewer of them."""
    level = 0.2
    shares, n_false = [], {"fdr": 0, "holm": 0}
    for k in range(n_sets):
        X = chain_rows(1000 * (seed + 1) + k, 400, 6)
        for control in n_false:
            search = strict(level, control=control)
            found = learner("pseudo-likelihood", search=search).fit(X)
            false = int((np.diff(found.edges_, axis=1) != 1).sum())
            n_false[control] += false
            if control == "fdr":
                shares.append(false / max(len(found.edges_), 1))
    error = max(np.std(shares), 0.05) / np.sqrt(n_sets)
    assert np.mean(shares) <= level + 5 * error
    assert n_false["fdr"] >= n_false["holm"]
    assert n_false["fdr"] > 0 or n_sets < 100


def hub_rows(rng, n_rows=100):
    """Return rows of four hubs, each with four neighbours, of partial correlation 0.4 or -0.4."""
    precision = np.eye(20)
    hubs = np.repeat(np.arange(4), 4)
    precision[hubs, np.arange(4, 20)] = 0.4 * rng.choice([-1, 1], 16)
    covariance = np.linalg.inv(precision + np.triu(precision, 1).T)
    return rng.multivariate_normal(np.zeros(20), covariance, n_rows)


def test_few_gaussian_rows_are_enough_for_hubs(seed):
    """Tests in the regressions of both columns find nearly all edges, and few false ones."""
    n_sets, n_found, n_false = 8, 0, 0
    truth = {(j // 4 - 1, j) for j in range(4, 20)}
    for k in range(n_sets):
        X = hub_rows(np.random.default_rng([seed, k]))
        edges = {tuple(e) for e in MRFStructureLearner().fit(X).edges_.tolist()}
        n_found += len(edges & truth)
        n_false += len(edges - truth)
    assert n_found > 0.82 * 16 * n_sets
    assert n_false <= 6


def check_calibration(z):
    """Check that z of shape (n_sets, n_numbers) has mean square one and 95% coverage."""
    squares = np.mean(np.square(z), axis=1)
    error = squares.std(ddof=1) / np.sqrt(len(squares))
    assert abs(squares.mean() - 1) < 5 * error + 0.03, squares.mean()
    covered = (np.abs(z) < 1.959964).sum(axis=0)
    n = len(z)
    assert (covered >= binom.ppf(RARE / z.shape[1], n, 0.945)).all(), covered
    assert (covered <= binom.isf(RARE / z.shape[1], n, 0.955)).all(), covered


@pytest.mark.long
@pytest.mark.parametrize(
    ("n_sets", "missing"),
    [(30, 0.0), pytest.param(500, 0.0, marks=slow), pytest.param(100, 0.2, marks=slow)],
)
def test_confidence_intervals_of_couplings(n_sets, missing, seed, monkeypatch):
    """Confidence intervals of couplings cover 95%, and p-values of absent edges are valid."""
    monkeypatch.setattr(fitted_graph, "adjust_p_values", lambda p, _: p)
    truth, where = chain_couplings()[0], (np.array([0, 1, 2]), np.array([1, 2, 3]))
    z, p = [], []
    for k in range(n_sets):
        X = inference.sample(
            binary_truth(),
            3000 if missing else 1000,
            random_state=np.random.default_rng([seed, 1, k]),
        )
        X = holes(X, missing, seed, k) if missing else X
        model = learner(random_state=k).fit(X)
        assert edges_of(model) == CHAIN[:3]
        half = np.diff(model.confidence_intervals_, axis=1)[:, 0] / 2
        middle = model.confidence_intervals_.mean(axis=1)
        np.testing.assert_allclose(middle, model.coupling_[where])
        z.append(1.959964 * (middle - truth[where]) / half)
        p.extend(model.p_values_[[0, 0, 1], [2, 3, 3]])
    check_calibration(np.array(z))
    if not missing:
        # slightly conservative: the statistics are means of two different statistics
        for level in (0.01, 0.05, 0.1, 0.2):
            rejected = (np.reshape(p, (-1, 3)) <= level).sum(axis=0)
            assert (rejected <= binom.isf(RARE, n_sets, level)).all(), (level, rejected)
            assert (rejected >= binom.ppf(RARE, n_sets, 0.7 * level)).all(), (level, rejected)


@pytest.mark.parametrize("n_sets", [15, pytest.param(300, marks=slow)])
def test_confidence_intervals_of_tables(n_sets, seed):
    """Confidence intervals of the entries of centred tables of three states cover 95%."""
    rng = np.random.default_rng(5)
    tables = random_tables([3] * 3, [(0,), (1,), (2,), (0, 1), (1, 2)], rng)
    truth = [t - t.mean(0) - t.mean(1, keepdims=True) + t.mean() for t in tables[3:]]
    model = FactorGraph([3] * 3, [(0,), (1,), (2,), (0, 1), (1, 2)], tables)
    z = []
    for k in range(n_sets):
        X = inference.sample(model, 2000, random_state=np.random.default_rng([seed, 2, k]))
        found = learner().fit(X)
        assert edges_of(found) == CHAIN[:2]
        numbers = []
        for table, limits, true in zip(
            found.coupling_, found.confidence_intervals_, truth, strict=True
        ):
            np.testing.assert_allclose(limits.mean(axis=0), table, atol=1e-12)
            np.testing.assert_allclose(table.sum(axis=0), 0.0, atol=1e-12)
            np.testing.assert_allclose(table.sum(axis=1), 0.0, atol=1e-12)
            numbers.append((1.959964 * (table - true) / (limits[1] - table)).ravel())
        np.testing.assert_allclose(
            found.strength_[[0, 1], [1, 2]], [np.linalg.norm(t) for t in found.coupling_]
        )
        z.append(np.concatenate(numbers))
    check_calibration(np.array(z))


# Probabilities of edges --------------------------------------------------------------------------


BINS = np.array([0.0, 0.02, 0.05, 0.1, 0.2, 0.4, 0.6, 0.8, 0.9, 0.98, 1.0 + 1e-12])
FAILURE = 1e-6  # failure probability with the true probabilities, by Bernstein's inequality
ALLOWANCE = 0.5  # in log odds, for the error of the estimated weights
NOTICEABLE = 0.7  # standard deviations of the noise; weaker edges count as no edges
STRENGTHS = {
    "normal": lambda rng, n: rng.normal(scale=3.0, size=n),
    "weak": lambda rng, n: rng.normal(scale=1.5, size=n),
    "laplace": lambda rng, n: rng.laplace(scale=3.0, size=n),
    "heavy": lambda rng, n: 3.0 * rng.standard_t(3, size=n),
    "no weak ones": lambda rng, n: rng.uniform(1.0, 6.0, n) * rng.choice([-1.0, 1.0], n),
    "two scales": lambda rng, n: rng.normal(scale=np.where(rng.random(n) < 0.5, 2.0, 8.0)),
}


def check_probabilities(p, edge, allowance=0.0):
    """Check that the share of noticeable edges in each bin of p matches the mean of p.

    With the true probabilities and no allowance, the check fails with probability at most FAILURE.
    """
    at = np.digitize(p, BINS) - 1
    n_bins = len(BINS) - 1
    expected, variance, found = (np.bincount(at, w, n_bins) for w in (p, p * (1 - p), edge))
    log = np.log(2 * n_bins / FAILURE)
    bound = log / 3 + np.sqrt(log**2 / 9 + 2 * variance * log)
    excess = np.abs(found - expected) - bound - allowance * variance
    assert (excess <= 0).all(), f"{found} edges where {expected} were expected"


def sample_two_groups(rng, strength, n, share):
    edge = rng.random(n) < share
    effect = np.where(edge, STRENGTHS[strength](rng, n), 0.0)
    return effect + rng.normal(size=n), np.abs(effect) > NOTICEABLE


def true_probabilities(z, share, scale):
    """Return the true posterior probabilities if effects are normal."""
    null, edges = (1 - share) * norm.pdf(z), share * norm.pdf(z, scale=np.hypot(1, scale))
    gain = scale**2 / (1 + scale**2)  # effects given z are N(gain z, gain)
    ends = [norm.cdf((end - gain * z) / np.sqrt(gain)) for end in (-NOTICEABLE, NOTICEABLE)]
    return edges / (null + edges) * (1 - ends[1] + ends[0])


# Calibration ------------------------------------------------------------------------------


@pytest.mark.parametrize("share", [0.1, 0.3])
@pytest.mark.parametrize("strength", STRENGTHS)
def test_probabilities_are_calibrated(strength, share, seed):
    z, edge = sample_two_groups(np.random.default_rng(seed), strength, 60_000, share)
    check_probabilities(edge_probabilities(z), edge, ALLOWANCE)


@pytest.mark.parametrize("share", [0.1, 0.3])
def test_calibration_check_rejects_wrong_probabilities(share, seed):
    z, edge = sample_two_groups(np.random.default_rng(seed), "normal", 60_000, share)
    p = true_probabilities(z, share, 3.0)
    check_probabilities(p, edge)
    too_large, too_small, overconfident = np.sqrt(p), p**2, p**2 / (p**2 + (1 - p) ** 2)
    for wrong in (too_large, too_small, overconfident):
        with pytest.raises(AssertionError):
            check_probabilities(wrong, edge, ALLOWANCE)


def test_probabilities_are_near_the_true_ones(seed):
    z, _ = sample_two_groups(np.random.default_rng(seed), "normal", 100_000, 0.2)
    assert_allclose(edge_probabilities(z), true_probabilities(z, 0.2, 3.0), atol=0.06)


@pytest.mark.parametrize("strength", ["normal", "no weak ones"])
def test_few_pairs_are_calibrated(strength, seed):
    """The smallest of few probabilities may be too small by a few hundredths."""
    rng = np.random.default_rng(seed)
    found = [sample_two_groups(rng, strength, 200, 0.2) for _ in range(40)]
    p = np.concatenate([edge_probabilities(z) for z, _ in found])
    edge = np.concatenate([edge for _, edge in found])
    check_probabilities(p[p > 0.05], edge[p > 0.05], ALLOWANCE)
    assert abs(edge[p < 0.05].mean() - p[p < 0.05].mean()) < 0.05


# Pure noise -------------------------------------------------------------------------------


@pytest.mark.parametrize("n", [3, 45, 1000, 50_000])
def test_noise_has_small_probabilities(n, seed):
    rng = np.random.default_rng(seed)
    p = [edge_probabilities(rng.normal(size=n)) for _ in range(max(1, 2000 // n))]
    assert np.mean(p) < 0.05
    assert np.quantile(p, 0.95) < 0.15


def test_noise_of_larger_variance_is_taken_for_edges(seed):
    z = 3.0 * np.random.default_rng(seed).normal(size=2000)
    assert edge_probabilities(z).mean() > 0.3


def test_null_quantiles_have_small_probabilities():
    z = norm.ppf((np.arange(1000) + 0.5) / 1000)
    assert edge_probabilities(z).max() < 0.05


# Shape and range --------------------------------------------------------------------------


def test_probability_is_monotone_and_even(seed):
    rng = np.random.default_rng(seed)
    z = np.concatenate([rng.normal(size=500), rng.normal(scale=6.0, size=100)])
    size = np.linspace(0.0, 1e3, 40_001)
    p = edge_probabilities(np.concatenate([z, size]))
    assert (np.diff(p[len(z) :]) >= -1e-12).all()
    assert_array_equal(edge_probabilities(-z), edge_probabilities(z))


def test_order_is_irrelevant_and_shape_is_kept(seed):
    rng = np.random.default_rng(seed)
    z = rng.normal(scale=3.0, size=(12, 5))
    p = edge_probabilities(z)
    assert p.shape == (12, 5)
    assert_allclose(edge_probabilities(z.T), p.T, rtol=1e-12)
    assert edge_probabilities(4.0).shape == ()
    assert edge_probabilities([]).shape == (0,)


def test_huge_values():
    z = np.array([0.1, -0.4, 1.2, 1e3, -1e3, 1e6, 1e300, np.inf])
    p = edge_probabilities(np.concatenate([z, np.zeros(200)]))[: len(z)]
    assert np.isfinite(p).all()
    assert (p[:3] < 0.2).all()
    assert (p[3:] == 1.0).all()


def test_tiny_inputs():
    assert edge_probabilities([0.0]) < 0.05
    assert (edge_probabilities([0.0, 0.0, 0.0]) < 0.05).all()
    p = edge_probabilities([0.2, -0.7, 20.0])
    assert (p[:2] < 0.1).all()
    assert p[2] > 0.999
    assert (edge_probabilities([15.0, 20.0, 25.0]) > 0.999).all()


def test_more_strong_pairs_increase_other_probabilities():
    rest, doubtful = np.zeros(50), 2.5
    few = edge_probabilities(np.r_[doubtful, rest, [8.0] * 2])[0]
    many = edge_probabilities(np.r_[doubtful, rest, np.linspace(2, 8, 30)])[0]
    assert many > few + 0.2


def test_bin_width_does_not_change_probabilities(seed, monkeypatch):
    z, _ = sample_two_groups(np.random.default_rng(seed), "laplace", 3000, 0.2)
    expected = edge_probabilities(z)
    monkeypatch.setattr(significance, "BINS_PER_LOG_UNIT", 1e7)
    assert_allclose(edge_probabilities(z), expected, atol=2e-4)


def test_many_pairs_are_fast(seed):
    z, _ = sample_two_groups(np.random.default_rng(seed), "heavy", 125_000, 0.1)
    seconds = []
    for _ in range(3):
        start = time.process_time()
        edge_probabilities(z)
        seconds.append(time.process_time() - start)
    assert min(seconds) < 1.0


@pytest.mark.parametrize("z", [[0.0, np.nan], np.nan])
def test_nan_raises(z):
    with pytest.raises(ValueError, match="nan"):
        edge_probabilities(z)


# z-values of statistics -------------------------------------------------------------------


@pytest.mark.parametrize("dof", [1, 2, 4, 9, 100, 400])
def test_z_matches_scipy(dof):
    statistic = chi2.isf(np.logspace(-0.05, -250, 300), dof)
    assert_allclose(z_from_chi2(statistic, dof), norm.isf(chi2.sf(statistic, dof) / 2), rtol=1e-9)


def test_z_with_one_degree_of_freedom_is_the_square_root():
    z = np.concatenate([np.linspace(0, 60, 200), [1e3, 1e6, 1e100]])
    assert_allclose(z_from_chi2(z**2, 1), z, rtol=1e-9, atol=1e-12)


def test_z_with_two_degrees_of_freedom_is_exponential():
    statistic = np.logspace(-2, 5, 100)
    assert_allclose(norm.logsf(z_from_chi2(statistic, 2)) + np.log(2), -statistic / 2, rtol=1e-9)


@pytest.mark.parametrize("dof", [1, 3, 16, 400, 1e5])
def test_far_tail_matches_scipy_tail(dof, monkeypatch):
    statistic = chi2.isf(np.logspace(-150, -260, 20), dof)
    expected = z_from_chi2(statistic, dof)
    monkeypatch.setattr(significance, "UNDERFLOW", 0.0)
    assert_allclose(z_from_chi2(statistic, dof), expected, rtol=1e-12)


@pytest.mark.parametrize("dof", [1, 3, 400, 1e5])
def test_z_is_monotone_in_the_statistic(dof):
    z = z_from_chi2(np.concatenate([np.linspace(0, 3 * dof, 1000), np.logspace(7, 300, 100)]), dof)
    assert (np.diff(z) >= 0).all()
    assert np.isfinite(z).all()


def test_z_of_zero_and_infinity():
    assert_array_equal(
        z_from_chi2([0.0, 5.0, -1e-13, np.inf, np.inf], [3, 0, 1, 2, 0]), [0, 0, 0, np.inf, 0]
    )
    assert z_from_chi2(4.0, 1).shape == ()
    assert z_from_chi2(np.ones((3, 1)), np.arange(4)).shape == (3, 4)


def test_z_of_null_statistics_is_half_normal(seed):
    z = z_from_chi2(np.random.default_rng(seed).chisquare(5, size=4000), 5)
    assert abs((z**2).mean() - 1) < 5 * np.sqrt(2 / 4000)


@pytest.mark.parametrize(
    ("statistic", "dof", "match"),
    [(np.nan, 1, "nan"), (1.0, -1, "dof"), (1.0, np.nan, "dof"), (1.0, np.inf, "dof")],
)
def test_invalid_statistics_raise(statistic, dof, match):
    with pytest.raises(ValueError, match=match):
        z_from_chi2(statistic, dof)
