"""Tests of standard errors of MRFStructureLearner."""

import numpy as np
import pytest
from structure_rows import CHAIN, a_fit, binary_truth, chain_rows, edges_of, joint_law, learner

from skmrf import inference
from skmrf._utils.phases import States
from skmrf.structure import information

pytestmark = pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")


def mean_statistics(energy):
    X, p = joint_law(energy)
    moments = energy.moments(States(X, None, np.log(p)))
    return np.concatenate([moments["unary"], moments["pairs"]])


@pytest.mark.parametrize("draws", [False, True])
def test_information_is_the_slope_of_the_moments(draws, seed, monkeypatch):
    """By enumeration, and from Gibbs chains."""
    energy, rows, rng = a_fit(seed)
    slopes, h = [], 1e-5
    for name, values in energy.theta.items():
        for k in range(len(values)):
            ends = []
            for step in (h, -h):
                moved = values.copy()
                moved[k] += step
                ends.append(mean_statistics(energy.with_theta(dict(energy.theta, **{name: moved}))))
            slopes.append((ends[0] - ends[1]) / (2 * h))
    if draws:
        monkeypatch.setattr(information, "ENUMERABLE", 1)
    found = information.information(energy, rows, rng)
    # a covariance of 20,000 draws and more, hardly dependent: 5 sigma of numbers at most 1
    atol = 5 * 1.5 / np.sqrt(information.FEWEST_DRAWS) if draws else 1e-8
    np.testing.assert_allclose(found, np.array(slopes), atol=atol)
    covariances = information.parameter_covariances(energy, rows, rng)
    known = rows.count * np.array(slopes)
    inverse = np.linalg.inv(known + 0.01 * np.eye(len(known)))
    start = energy.form.unary_start[-1] + energy.form.pair_start
    for a, b, c in zip(start[:-1], start[1:], covariances, strict=True):
        np.testing.assert_allclose(
            c, inverse[a:b, a:b], atol=0.15 * inverse[a, a] if draws else 1e-9
        )


def test_covariance_of_draws_is_widened_for_their_number(monkeypatch):
    """By n / (n - k - 1), as the mean of the inverse of a covariance of n draws is too large."""
    energy, rows, rng = a_fit(0, (2, 2, 2), 500, ((0, 1), (1, 2), (0, 2)))
    parts = [rows.X[:100], rows.X[100:200]]
    monkeypatch.setattr(information, "ENUMERABLE", 1)
    monkeypatch.setattr(information, "CHAINS", 100)
    monkeypatch.setattr(information, "FEWEST_DRAWS", 200)
    monkeypatch.setattr(information, "_draws", lambda *_: iter(parts))
    T = information.statistics(energy.form, rows.X[:200])
    np.testing.assert_allclose(
        information.information(energy, rows, rng),
        np.cov(T.T, bias=True) * 200 / (200 - 6 - 1),
        atol=1e-12,
    )


def test_both_routes_to_standard_errors_agree(seed, monkeypatch):
    """Those of the likelihood and of each variable's own conditional likelihood."""
    X = inference.sample(binary_truth(), 4000, random_state=np.random.default_rng([seed, 4]))
    by_model = learner().fit(X)
    monkeypatch.setattr("skmrf.structure.assessment.MOST_STATISTICS", 3)
    by_nodes = learner().fit(X)
    assert edges_of(by_model) == edges_of(by_nodes) == CHAIN[:3]
    ratio = np.diff(by_nodes.confidence_intervals_) / np.diff(by_model.confidence_intervals_)
    assert (ratio > 0.98).all()  # the conditional ones are an upper bound, and nearly as good
    assert (ratio < 1.25).all()
    assert (ratio != 1).all()


def test_weights_count_as_rows_in_standard_errors():
    X = chain_rows(0)
    once, four = learner().fit(X), learner().fit(X, sample_weight=np.full(len(X), 4.0))
    ratio = np.diff(once.confidence_intervals_) / np.diff(four.confidence_intervals_)
    np.testing.assert_allclose(ratio, 2.0, rtol=1e-4)
