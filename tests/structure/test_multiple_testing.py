"""Tests of the adjustment of p-values for multiple tests."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import false_discovery_control

from skmrf.structure.multiple_tests import adjust_p_values

p_values = st.lists(st.integers(0, 64).map(lambda k: k / 64) | st.floats(0, 1), max_size=12)


def reject_stepwise(p, control, level, m):
    """Return the rejections of the step procedures by their definitions."""
    order, reject = np.argsort(p, kind="stable"), np.zeros(len(p), dtype=bool)
    if control == "holm":
        for k, i in enumerate(order):
            if p[i] * (m - k) > level:
                break
            reject[i] = True
        return reject
    passing = [k for k, i in enumerate(order) if p[i] * (m / (k + 1)) <= level]
    reject[order[: max(passing, default=-1) + 1]] = True
    return reject


@pytest.mark.parametrize("control", ["holm", "fdr"])
@given(p=p_values, level=st.integers(0, 63).map(lambda k: k / 64), more=st.integers(0, 5))
def test_adjustment_matches_the_step_procedure(control, p, level, more):
    p = np.array(p)
    got = adjust_p_values(p, control, n_tests=len(p) + more)
    np.testing.assert_array_equal(got <= level, reject_stepwise(p, control, level, len(p) + more))
    padded = adjust_p_values(np.append(p, np.ones(more)), control)
    np.testing.assert_array_equal(got, padded[: len(p)])
    assert ((got >= p) & (got <= 1)).all()


def test_adjustment_of_known_values():
    p = [0.04, 0.01, 0.03, 0.5]
    np.testing.assert_allclose(adjust_p_values(p, "holm"), [0.09, 0.04, 0.09, 0.5])
    np.testing.assert_allclose(adjust_p_values(p, "fdr"), false_discovery_control(p))
    np.testing.assert_allclose(
        adjust_p_values(p, "fdr", n_tests=8), [0.32 / 3, 0.08, 0.32 / 3, 1.0]
    )


def test_invalid_adjustment_raises():
    with pytest.raises(ValueError, match="n_tests must be at least the number of p-values, 2"):
        adjust_p_values([0.1, 0.2], "holm", n_tests=1)
    with pytest.raises(ValueError, match="control must be one of"):
        adjust_p_values([0.1], "bonferroni")
