"""Tests of bounds of log Z without draws."""

import numpy as np
import pytest
from hard_models import hard_model, true_log_z
from numpy.testing import assert_allclose
from zoo import ZOO

from skmrf.energies import PairwiseEnergy
from skmrf.likelihood import log_partition_bounds

TREES = ("chain", "zeros_binary", "tied_binary", "one_state", "disconnected", "isolated")
TREES += ("uniform", "single_variable")


@pytest.mark.parametrize("name", ZOO)
def test_variational_bounds(name, seed):
    """Mean field is below and tree reweighting above, whether they converge or not."""
    energy = ZOO[name](seed)
    log_z = true_log_z(energy)
    slack = 1e-9 * (1 + abs(log_z))
    for options in ({}, {"max_iter": 2}):
        below = log_partition_bounds(energy, method="mean-field", **options)
        above = log_partition_bounds(energy, method="trw", **options)
        assert below.lower == below.value <= log_z + slack
        assert (below.upper, below.upper_is_bound, below.method) == (np.inf, False, "mean-field")
        assert above.lower - slack <= log_z <= above.upper + slack
        assert (above.value, above.upper_is_bound, above.method) == (above.upper, True, "trw")
        assert np.isnan([below.std_error, above.std_error, below.ess, above.ess]).all()
        if not options:
            assert below.converged


@pytest.mark.parametrize("name", ZOO)
def test_bethe(name, seed):
    """No limits, for it may be off to either side; exact on trees."""
    energy = ZOO[name](seed)
    result = log_partition_bounds(energy, method="bethe")
    assert (result.lower, result.upper) == (-np.inf, np.inf)
    assert (result.upper_is_bound, result.method) == (False, "bethe")
    assert np.isnan([result.std_error, result.ess]).all()
    assert np.isfinite(result.value)
    if name in TREES:
        assert result.converged
        assert_allclose(result.value, true_log_z(energy), rtol=1e-12, atol=1e-10)
        above = log_partition_bounds(energy, method="trw")
        assert_allclose(above.value, result.value, rtol=1e-8, atol=1e-8)


def test_bethe_that_has_not_converged_says_so():
    energy = PairwiseEnergy(hard_model().coupling, np.linspace(-1.0, 1.0, 14))
    result = log_partition_bounds(energy, method="bethe", damping=0.0, max_iter=10)
    assert result.converged is False
    assert not log_partition_bounds(energy, method="trw", max_iter=1).converged
    assert not log_partition_bounds(energy, method="mean-field", max_iter=1).converged
