"""Adjustment of p-values for multiple tests."""

import numpy as np

from .._utils.parameters import check_choice


def adjust_p_values(p, control, n_tests=None):
    """Adjust p-values for multiple tests.

    Rejecting each hypothesis whose adjusted p-value is at most the level is the step procedure of
    Holm, or of Benjamini and Hochberg.

    Parameters
    ----------
    p : array-like of shape (n_p,)
        p-values.
    control : {"holm", "fdr"}
        Error rate to control. "holm" controls the family-wise error rate under any dependence of
        the tests. "fdr" controls the false discovery rate for tests that are independent or
        positively dependent.
    n_tests : int, optional
        Total number of tests, if it is larger than the number of p-values. Tests without a
        p-value count as p = 1. The default is the number of p-values.

    Returns
    -------
    ndarray of shape (n_p,)
        Adjusted p-values, at most 1.

    References
    ----------
    S. Holm, "A simple sequentially rejective multiple test procedure", Scandinavian Journal of
    Statistics 6 (1979). Y. Benjamini and Y. Hochberg, "Controlling the false discovery rate",
    Journal of the Royal Statistical Society B 57 (1995).
    """
    check_choice("control", control, CONTROLS)
    p = np.asarray(p, dtype=float)
    m = len(p) if n_tests is None else n_tests
    if m < len(p):
        raise ValueError(f"n_tests must be at least the number of p-values, {len(p)}; got {m}.")
    order = np.argsort(p)
    out = np.empty(len(p))
    out[order] = np.minimum(CONTROLS[control](p[order], m), 1.0)
    return out


def _holm(p, m):
    return np.maximum.accumulate(p * (m - np.arange(len(p))))


def _benjamini_hochberg(p, m):
    return np.minimum.accumulate((p * (m / np.arange(1, len(p) + 1)))[::-1])[::-1]


CONTROLS = {"holm": _holm, "fdr": _benjamini_hochberg}
