"""Chi-square statistics and their log p-values."""

import numpy as np
from scipy.special import chdtrc, gammaln, xlogy

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
