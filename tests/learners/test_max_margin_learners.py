"""Tests of learners of outputs given inputs by margins."""

import numpy as np
import pytest
import twins
from conditional_models import (
    assert_same,
    conditional,
    gradient_of,
    learn,
    log_sums,
    numbers,
    of_states,
    rows_of,
    tables,
)
from numpy.testing import assert_allclose, assert_array_equal

from skmrf._utils.batch import Batch
from skmrf._utils.codes import STATE
from skmrf.energies import ConditionalBipartiteEnergy
from skmrf.learners import LSSVM, MSSVM

LOSS_WEIGHT = (0.5, 1.0, 0.0, 2.0)
MARGIN = 1e-3  # between the best state and the next, at least, where maxima are differentiated


def losses(V, Y, weight):
    """Weighted Hamming losses of all states, a row for every row of Y."""
    return ((V[None] != Y[:, None]) * np.broadcast_to(weight, V.shape[1])).sum(axis=2)


def runner_up(scores):
    """By how much the best is better than the second, row by row."""
    ordered = np.sort(scores, axis=1)
    return ordered[:, -1] - ordered[:, -2]


def local_maxima(V, scores):
    """How many states no change of one output improves, row by row."""
    number = V @ (2.0 ** np.arange(V.shape[1]))
    order = np.argsort(number)
    best = np.ones(scores.shape, dtype=bool)
    for i in range(V.shape[1]):
        other = V.copy()
        other[:, i] = 1 - other[:, i]
        there = order[(other @ (2.0 ** np.arange(V.shape[1]))).astype(int)]
        best &= scores > scores[:, there]
    return best.sum(axis=1)


def hinge(energy, batch, weight):
    """All states, their loss-augmented scores, and the structured hinge of every row."""
    V, _, log_f = tables(energy, batch.X)
    scores = log_sums(log_f)
    augmented = scores + losses(V, batch.Y, weight)
    return V, augmented, augmented.max(axis=1) - of_states(scores, numbers(V, batch.Y))


@pytest.mark.parametrize("weight", [1.0, 0.0, LOSS_WEIGHT])
@pytest.mark.parametrize("n_hidden", [1, 3])
def test_mssvm_descends_the_hinge(n_hidden, weight, seed):
    """Of rows whose loss-augmented maximiser is the only state that no single change improves."""
    energy = conditional(seed, 4, n_hidden, scale=0.7)
    batch = rows_of(energy, 60, seed)
    V, augmented, _ = hinge(energy, batch, weight)
    batch = batch.take((local_maxima(V, augmented) == 1) & (runner_up(augmented) > MARGIN))
    assert len(batch.X) > 20
    V, augmented, values = hinge(energy, batch, weight)
    positive, negative, info = learn(MSSVM(loss_weight=weight), energy, batch)
    assert_array_equal(negative.visible, V[augmented.argmax(axis=1)])
    assert_allclose(info["hinge"], values.mean(), rtol=1e-10, atol=1e-12)
    assert info["inference_converged"] == 1.0
    found = energy.gradient(positive, negative, batch)
    expected = twins.differences(lambda e: -hinge(e, batch, weight)[2].mean(), energy, h=1e-5)
    assert_same(found, expected, rtol=1e-6, atol=1e-8)


def test_mssvm_never_finds_more_than_there_is(seed):
    """Its hinge is a lower bound where coordinate ascent stays at a local maximum."""
    energy = conditional(seed, scale=3.0)
    batch = rows_of(energy, 100, seed)
    _, _, values = hinge(energy, batch, 1.0)
    for schedule in ("sequential", "parallel"):
        _, _, info = learn(MSSVM(schedule), energy, batch)
        assert 0.5 * values.mean() < info["hinge"] <= values.mean() + 1e-10


@pytest.mark.parametrize("schedule", ["sequential", "parallel"])
def test_mssvm_predicts_states_that_no_single_change_improves(schedule, seed):
    energy = conditional(seed, scale=2.0)
    X = rows_of(energy, 40, seed).X
    found = MSSVM(schedule).infer(energy, X, 0)
    V, _, log_f = tables(energy, X)
    scores = log_sums(log_f)
    states = (found.visible > 0).astype(float)
    at = of_states(scores, numbers(V, states))
    assert found.converged.mean() > 0.5
    for i in range(4):
        other = states.copy()
        other[:, i] = 1 - other[:, i]
        gain = of_states(scores, numbers(V, other)) - at
        assert (gain[found.converged] <= 1e-10).all()
        expected = np.where(states[:, i] > 0, -gain, gain)[found.converged]
        assert_allclose(found.visible[found.converged, i], expected, rtol=0, atol=1e-10)


def latent_hinge(energy, batch, weight):
    """With hidden units maximised over: augmented scores of all states of both layers."""
    V, _, log_f = tables(energy, batch.X)
    augmented = log_f + losses(V, batch.Y, weight)[:, :, None]
    shown = of_states(log_f, numbers(V, batch.Y))
    augmented = augmented.reshape(len(shown), -1)
    return V, augmented, shown, augmented.max(axis=1) - shown.max(axis=1)


@pytest.mark.parametrize("weight", [1.0, 0.0, LOSS_WEIGHT])
def test_lssvm_descends_the_latent_hinge(weight, seed):
    """With one hidden unit, where max-product is exact."""
    energy = conditional(seed, 4, 1)
    batch = rows_of(energy, 60, seed)
    _, augmented, shown, _ = latent_hinge(energy, batch, weight)
    batch = batch.take((runner_up(augmented) > MARGIN) & (runner_up(shown) > MARGIN))
    assert len(batch.X) > 30
    V, augmented, shown, _ = latent_hinge(energy, batch, weight)
    positive, negative, _ = learn(LSSVM(loss_weight=weight), energy, batch)
    best = augmented.argmax(axis=1)
    assert_array_equal(negative.visible, V[best // 2])
    assert_array_equal(negative.hidden[:, 0], best % 2)
    assert_array_equal(positive.hidden[:, 0], shown.argmax(axis=1))
    found = energy.gradient(positive, negative, batch)
    expected = twins.differences(
        lambda e: -latent_hinge(e, batch, weight)[3].mean(), energy, h=1e-5
    )
    assert_same(found, expected, rtol=1e-6, atol=1e-8)


def test_lssvm_predicts_the_joint_maximiser(seed):
    energy = conditional(seed, 4, 1, scale=2.0)
    X = rows_of(energy, 50, seed).X
    found = LSSVM().infer(energy, X, 0)
    V, _, log_f = tables(energy, X)
    best = log_f.reshape(50, -1).argmax(axis=1)
    assert_array_equal(found.visible > 0, V[best // 2] > 0)
    assert_array_equal(found.hidden[:, 0] > 0, best % 2 > 0)


@pytest.mark.parametrize("learner", [MSSVM, LSSVM])
def test_outputs_of_no_weight_are_not_pushed(learner):
    """Two outputs, right by a tenth: only the one whose loss counts is pushed on."""
    energy = ConditionalBipartiteEnergy(
        np.zeros((2, 1)), np.zeros((1, 2)), np.zeros((1, 1)), [0.1, 0.1], [0.0]
    )
    batch = Batch(np.ones((5, 1)), np.ones((5, 2), dtype=STATE))
    found = gradient_of(learner(loss_weight=[0.0, 1.0]), energy, batch)
    assert_array_equal(found["visible_bias"], [0.0, 1.0])
    assert_array_equal(found["visible_inputs"], [[0.0, 1.0]])
    found = gradient_of(learner(loss_weight=0.05), energy, batch)
    assert_array_equal(found["visible_bias"], [0.0, 0.0])
