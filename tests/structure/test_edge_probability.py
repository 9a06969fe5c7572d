"""Tests of posterior edge probabilities and of z-values of chi-square statistics."""

import time

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy.stats import chi2, norm

from skmrf.structure import edge_probability, p_values
from skmrf.structure.edge_probability import edge_probabilities, z_from_chi2

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


def check_calibration(p, edge, allowance=0.0):
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
    check_calibration(edge_probabilities(z), edge, ALLOWANCE)


@pytest.mark.parametrize("share", [0.1, 0.3])
def test_calibration_check_rejects_wrong_probabilities(share, seed):
    z, edge = sample_two_groups(np.random.default_rng(seed), "normal", 60_000, share)
    p = true_probabilities(z, share, 3.0)
    check_calibration(p, edge)
    too_large, too_small, overconfident = np.sqrt(p), p**2, p**2 / (p**2 + (1 - p) ** 2)
    for wrong in (too_large, too_small, overconfident):
        with pytest.raises(AssertionError):
            check_calibration(wrong, edge, ALLOWANCE)


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
    check_calibration(p[p > 0.05], edge[p > 0.05], ALLOWANCE)
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
    monkeypatch.setattr(edge_probability, "BINS_PER_LOG_UNIT", 1e7)
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
    monkeypatch.setattr(p_values, "UNDERFLOW", 0.0)
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
