"""Mixtures and energies with closed forms, for the tests of free energies."""

import numpy as np
import pytest

from skmrf.energies import NeuralEnergy
from skmrf.variational.mixtures import Mixture

COMPLETE = [(0, 1), (0, 2), (1, 2)]

FINE = {"n_points": 41, "n_draws": 2**14}

each_entropy = pytest.mark.parametrize("entropy", ["joint", "bethe"])


def mixture_of(seed, n_states, n_components=2, *, diagonal=False, spread=1.0):
    """Return a random mixture with correlated continuous variables."""
    rng = np.random.default_rng(seed)
    n_states = np.array(n_states)
    m, q = int((n_states == 0).sum()), n_states[n_states > 0]
    roots = rng.normal(0, 0.5, size=(n_components, m, m))
    covariances = roots @ roots.transpose(0, 2, 1) + 0.5 * np.eye(m)
    if diagonal:
        covariances *= np.eye(m)
    tables = np.zeros((n_components, len(q), max(1, *n_states)))
    for d, size in enumerate(q):
        tables[:, d, :size] = rng.dirichlet(np.full(size, 3.0), size=n_components)
    return Mixture(
        n_states,
        np.log(rng.dirichlet(np.full(n_components, 5.0))),
        rng.normal(0, spread, size=(n_components, m)),
        covariances,
        tables,
    )


def base_precision(rng, m, scale=0.3):
    """Return a random positive definite matrix with couplings."""
    A = rng.normal(0, scale, size=(m, m))
    return A @ A.T + scale * np.eye(m)


def neural(seed, n_states, edges, *, scale=1.0):
    """Return an energy whose networks are large compared to the base."""
    rng = np.random.default_rng(seed)
    m = list(n_states).count(0)
    energy = NeuralEnergy.random(
        n_states,
        edges,
        node_layers=(4, 3),
        edge_layers=(4, 3),
        mean=rng.normal(size=m),
        precision=base_precision(rng, m),
        random_state=rng,
    )
    noise = {k: v + rng.normal(0, 0.4, v.shape) for k, v in energy.theta.items()}
    for v in noise.values():
        v[:, -1] *= scale
    return energy.with_theta(noise)


def smooth(seed, n_states, edges):
    """Return an energy with smooth networks of one layer.

    No unit has its kink near the data: half of the units are linear there, the others exponential.
    """
    rng = np.random.default_rng(seed)
    energy = neural(seed, n_states, edges)
    slots, theta = energy.n_slots, {}
    for name, k in (("nodes", 1), ("edges", 2)):
        n = len(energy.theta[name])
        first = rng.uniform(-0.15, 0.15, size=(n, k * slots * 4))
        biases = np.tile([2.0, 2.0, -2.0, -2.0], (n, 1))
        second = rng.normal(0, 1.0, size=(n, 4))
        second[:, :2] = [[0.7, -0.7]]
        last = np.concatenate([rng.normal(0, 0.3, size=(n, 1)), np.ones((n, 1))], axis=1)
        theta[name] = np.concatenate([first, biases, second, last], axis=1)
    return NeuralEnergy(theta, edges, n_states, ((4,), (4,)), energy.mean, energy.precision)


MIXED = [0, 2, 0]
