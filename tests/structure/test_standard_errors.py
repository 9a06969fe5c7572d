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
def test_information_is_the_derivative_of_the_moments(draws, seed, monkeypatch):
    """Compare the information with the derivative of the moments, exact and from Gibbs chains."""
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
        monkeypatch.setattr(information, "MAX_ENUMERATED_STATES", 1)
    found = information.fisher_information(energy, rows, rng)
    # 5 standard errors of a covariance of at least 20,000 nearly independent draws
    atol = 5 * 1.5 / np.sqrt(information.MIN_DRAWS) if draws else 1e-8
    np.testing.assert_allclose(found, np.array(slopes), atol=atol)
    covariances = information.parameter_covariances(energy, rows, rng)
    total = rows.count * np.array(slopes)
    inverse = np.linalg.inv(total + 0.01 * np.eye(len(total)))
    start = energy.form.unary_start[-1] + energy.form.pair_start
    for a, b, c in zip(start[:-1], start[1:], covariances, strict=True):
        np.testing.assert_allclose(
            c, inverse[a:b, a:b], atol=0.15 * inverse[a, a] if draws else 1e-9
        )


def test_sampled_covariance_is_corrected_for_bias(monkeypatch):
    """The factor n / (n - k - 1) corrects the bias of the inverse of a sample covariance."""
    energy, rows, rng = a_fit(0, (2, 2, 2), 500, ((0, 1), (1, 2), (0, 2)))
    parts = [rows.X[:100], rows.X[100:200]]
    monkeypatch.setattr(information, "MAX_ENUMERATED_STATES", 1)
    monkeypatch.setattr(information, "N_CHAINS", 100)
    monkeypatch.setattr(information, "MIN_DRAWS", 200)
    monkeypatch.setattr(information, "_sample_chains", lambda *_: iter(parts))
    T = information.sufficient_statistics(energy.form, rows.X[:200])
    np.testing.assert_allclose(
        information.fisher_information(energy, rows, rng),
        np.cov(T.T, bias=True) * 200 / (200 - 6 - 1),
        atol=1e-12,
    )


def test_model_and_nodewise_standard_errors_agree(seed, monkeypatch):
    """Compare standard errors of the likelihood with those of the conditional likelihoods."""
    X = inference.sample(binary_truth(), 4000, random_state=np.random.default_rng([seed, 4]))
    by_model = learner().fit(X)
    monkeypatch.setattr("skmrf.structure.assessment.MAX_STATISTICS", 3)
    by_nodes = learner().fit(X)
    assert edges_of(by_model) == edges_of(by_nodes) == CHAIN[:3]
    ratio = np.diff(by_nodes.confidence_intervals_) / np.diff(by_model.confidence_intervals_)
    assert (ratio > 0.98).all()  # the conditional standard errors are an upper bound, and close
    assert (ratio < 1.25).all()
    assert (ratio != 1).all()


def test_standard_errors_decrease_with_sample_weights():
    X = chain_rows(0)
    once, four = learner().fit(X), learner().fit(X, sample_weight=np.full(len(X), 4.0))
    ratio = np.diff(once.confidence_intervals_) / np.diff(four.confidence_intervals_)
    np.testing.assert_allclose(ratio, 2.0, rtol=1e-4)
