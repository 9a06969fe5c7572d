"""Samples of models with known edges, for the tests of MRFStructureLearner.

The edges are so strong that they are always found, and with ``STRICT`` the probability of any false
edge is 1e-6. So tests can require the exact graph.
"""

from itertools import product

import numpy as np
import pytest

from skmrf import MRFStructureLearner, inference
from skmrf._utils.codes import STATE
from skmrf.datasets import make_ising
from skmrf.energies import PairwiseEnergy
from skmrf.energies.log_linear import LogLinearEnergy, LogLinearForm
from skmrf.structure import WaldTests
from skmrf.structure.rows import Rows

STRICT = 1e-6
RARE = 1e-5  # failure probability of a test of replicates
CHAIN = [[0, 1], [1, 2], [2, 3], [3, 4]]
slow = pytest.mark.slow


def strict(level=STRICT, **parameters):
    """Return Wald tests of a strict level."""
    return WaldTests(level=level, **parameters)


def learner(name="exact", **parameters):
    return MRFStructureLearner(name, **({"search": strict(), "random_state": 0} | parameters))


def chain_rows(seed, n_rows=1500, n_variables=5, coupling=0.5, field=0.0):
    model = make_ising("chain", n_variables=n_variables, coupling=coupling, field=field)
    return inference.sample(model, n_rows, random_state=seed + 500).astype(int)


def three_state_rows(seed, n_rows=1500):
    """Return rows in which columns 0 and 1 often agree, and columns 2 and 3, too."""
    rng = np.random.default_rng(seed + 700)
    X = rng.integers(0, 3, size=(n_rows, 4))
    for i, j in [(0, 1), (2, 3)]:
        same = rng.random(n_rows) < 0.5
        X[same, j] = X[same, i]
    return X


def holes(X, share, *seed):
    """Return rows with entries missing completely at random."""
    X = X.astype(float)
    X[np.random.default_rng([77, *seed]).random(X.shape) < share] = np.nan
    return X


def edges_of(model):
    return model.edges_.tolist()


def same_fit(a, b, atol=0.0):
    assert edges_of(a) == edges_of(b)
    for x, y in zip(a.energy_.log_potentials, b.energy_.log_potentials, strict=True):
        np.testing.assert_allclose(x, y, atol=atol)
    for name in ("strength_", "p_values_", "edge_probability_"):
        np.testing.assert_allclose(getattr(a, name), getattr(b, name), atol=atol, rtol=1e-4)


def binary_truth():
    return PairwiseEnergy(*chain_couplings(), (-1, 1))


def chain_couplings():
    J = np.zeros((4, 4))
    for i, value in enumerate((0.5, -0.4, 0.6)):
        J[i, i + 1] = J[i + 1, i] = value
    return J, np.array([0.3, -0.2, 0.0, 0.4])


def a_fit(seed, n_states=(2, 3, 2, 3), n_rows=4000, edges=((0, 1), (1, 2), (2, 3), (0, 2))):
    """Return a fitted log-linear energy and its rows."""
    rng = np.random.default_rng([seed, 3])
    form = LogLinearForm.build(n_states, edges)
    theta = {k: rng.normal(0, 0.4, size=v.shape) for k, v in form.zeros().items()}
    energy = LogLinearEnergy(form, theta)
    X = inference.sample(energy, n_rows, random_state=rng)
    return energy, Rows(X.astype(STATE), np.ones(n_rows), np.array(n_states)), rng


def joint_law(energy):
    X = np.array(list(product(*map(range, energy.n_states))), dtype=STATE)
    log_f = energy.log_potential(X)
    return X, np.exp(log_f - np.logaddexp.reduce(log_f))
