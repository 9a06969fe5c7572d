"""Chi-square statistics, their log p-values, and the adjustment of p-values for multiple tests."""

import numpy as np
from scipy.special import chdtrc, gammaln, xlogy

from .._utils.parameters import check_choice

UNDERFLOW = -600.0
N_TERMS = 8


def quadratic_forms(vectors, matrices, floor):
    """Return the quadratic form ``v^T M^-1 v`` of each vector, and its degrees of freedom.

    The inverse is taken over the eigenvectors with eigenvalues above the floor. Their number is the
    degrees of freedom.

    Parameters
    ----------
    vectors : ndarray of shape (n, d)
        Vectors v.
    matrices : ndarray of shape (n, d, d)
        Symmetric matrices M.
    floor : float or ndarray of shape (n,)
        Eigenvalues at most this large are ignored.
    """
    values, axes = np.linalg.eigh((matrices + matrices.transpose(0, 2, 1)) / 2)
    along = np.einsum("nde,nd->ne", axes, vectors)
    counts = values > np.reshape(floor, (-1, 1))
    terms = np.where(counts, along**2, 0.0) / np.where(counts, values, 1.0)
    return terms.sum(axis=1), counts.sum(axis=1)


def log_tail(statistic, dof):
    """Return log P(chi-square > statistic), accurate even where P itself rounds to zero."""
    with np.errstate(divide="ignore"):
        log_p = np.log(chdtrc(dof, statistic))
    far = log_p < UNDERFLOW
    log_p[far] = _log_far_tail(statistic[far], dof[far])
    return log_p


def _log_far_tail(statistic, dof):
    """Return log P(chi-square > statistic) far in the tail, by Legendre's continued fraction."""
    a, x = dof / 2, statistic / 2
    fraction = np.zeros_like(x)
    for n in range(N_TERMS, 0, -1):
        fraction = n * (n - a) / (x + 2 * n + 1 - a - fraction)
    return xlogy(a, x) - x - gammaln(a) - np.log(x + 1 - a - fraction)


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
