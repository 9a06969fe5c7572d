"""Tests of inference by ascent of the free energy."""

from dataclasses import replace

import numpy as np
import pytest
from mixture_potentials import COMPLETE, FINE, MIXED, each_entropy, mixture_of, neural, smooth
from numpy.testing import assert_allclose, assert_array_equal

from skmrf.variational.free_energy import Rule, ascend, free_energy, infer


@each_entropy
@pytest.mark.parametrize("diagonal", [False, True])
def test_inference_never_lowers_the_value(diagonal, entropy, seed):
    """Not in one run, and not from step to step as a learner goes on."""
    energy = neural(seed, MIXED, COMPLETE, scale=3.0)
    mixture = mixture_of(seed, MIXED, 3, diagonal=diagonal, spread=2.0)
    rule, tol = Rule(7, entropy, diagonal=diagonal), 1e-4
    start = value = free_energy(energy, mixture, rule)[0]
    step = 0.2
    for _ in range(15):
        found = infer(energy, mixture, rule, max_iter=1, tol=tol, step=step)
        assert found.value >= value - tol
        assert_allclose(found.value, free_energy(energy, found.mixture, rule)[0], atol=1e-10)
        mixture, value, step = found.mixture, found.value, found.step
    assert value > start
    whole = infer(energy, mixture, rule, max_iter=50, tol=tol)
    assert whole.value >= value - 3 * tol
    assert whole.n_iter <= 50


def test_beliefs_stay_proper(seed):
    """Whatever the step and the curvature."""
    rng = np.random.default_rng(seed)
    mixture = mixture_of(seed, [0, 3, 0, 2], 3)
    energy = neural(seed, [0, 3, 0, 2], [(0, 1), (1, 2), (2, 3)])
    _, terms = free_energy(energy, mixture, Rule(5))
    G = rng.normal(0, 30, size=(3, 2, 2))
    wild = terms._replace(
        values=1e4 * terms.values,
        curvatures=G + G.transpose(0, 2, 1),
        slopes=1e3 * terms.slopes,
        gains=1e3 * terms.gains,
    )
    for step in (0.01, 0.5, 1.0):
        for diagonal in (False, True):
            start = replace(mixture, covariances=mixture.covariances * np.eye(2))
            found = ascend(start if diagonal else mixture, wild, step, diagonal)
            assert_allclose(np.exp(found.log_weights).sum(), 1.0)
            assert (np.linalg.eigvalsh(found.covariances) > 0).all()
            assert_allclose(found.tables.sum(axis=2), 1.0)
            assert_array_equal(found.tables[:, 1, 2], 0.0)
            if diagonal:
                assert_array_equal(found.covariances[:, 0, 1], 0.0)


def test_small_steps_go_uphill(seed):
    energy = smooth(seed, MIXED, COMPLETE)
    mixture = mixture_of(seed, MIXED, 2)
    for entropy in ("joint", "bethe"):
        rule = Rule(entropy=entropy, **FINE)
        value, terms = free_energy(energy, mixture, rule)
        moved_value, _ = free_energy(energy, ascend(mixture, terms, 0.02), rule)
        assert moved_value > value
