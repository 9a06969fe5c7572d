"""How probable every edge is, from the strength of the evidence for all of them."""

import numpy as np
from scipy.special import expit, logsumexp, ndtri_exp

from .chi2_tail import log_tail

SMALLEST_SCALE = 1.0  # standard deviations of the noise; weaker edges would only compete with none
LOG_RATIO = 0.5 * np.log(2.0)  # of neighbours on the grid
NULL_COUNT = 10.0
OTHER_COUNT = 0.1  # of all groups of edges together
CELLS = 500  # to every factor e of z-values above 1
LARGEST = 1e6
MAX_ITER = 5000
TOL = 1e-8


def edge_probabilities(z):
    r"""Posterior probability that an edge is there, for all pairs of variables together.

    Empirical Bayes for two groups of pairs: those that are no edges, and edges, whose z-values
    would be :math:`\mu`, were there no noise, of any size but not near zero:

    .. math:: z \sim \pi_0 N(0, 1) + \sum_k \pi_k \int N(z; \mu, 1)
              \frac{\mu^2}{\sigma_k^2} N(\mu; 0, \sigma_k^2) \, d\mu,

    a mixture of moment priors [1]_ of which the :math:`\sigma_k` are a geometric grid from 1 to
    twice the largest ``|z|`` [2]_. The weights are the mode of their posterior by EM, under a
    Dirichlet prior worth 10 pairs that are no edges and a tenth of a pair that is. The result is
    :math:`1 - \mathrm{lfdr}(z)`, where the local false-discovery rate [3]_ is the share of the
    first group in the density at :math:`z`; with :math:`v_k = 1 + \sigma_k^2`,

    .. math:: \mathrm{lfdr}(z) = \frac{\pi_0 N(z; 0, 1)}{\pi_0 N(z; 0, 1) + \sum_k \pi_k
              N(z; 0, v_k) (1 + z^2 \sigma_k^2 / v_k) / v_k}.

    It never falls as ``|z|`` grows. Edges weaker than about 0.7 standard deviations of the noise
    cannot be told from none, and count as none. Of a few hundred pairs, probabilities below 0.05
    may be a few hundredths too small, and of fewer than a hundred those below one half a tenth: a
    few pairs are not enough to tell how many edges there are.

    Parameters
    ----------
    z : array-like
        z-values of any shape; their signs do not matter, and absolute values are cut at a million.

    Returns
    -------
    ndarray of the shape of ``z``

    Raises
    ------
    ValueError
        A z-value that is nan.

    References
    ----------
    .. [1] V. E. Johnson and D. Rossell, "On the use of non-local prior densities in Bayesian
       hypothesis tests", Journal of the Royal Statistical Society B 72, 2010.
    .. [2] M. Stephens, "False discovery rates: a new deal", Biostatistics 18, 2017.
    .. [3] B. Efron, R. Tibshirani, J. D. Storey and V. Tusher, "Empirical Bayes analysis of a
       microarray experiment", Journal of the American Statistical Association 96, 2001.

    Examples
    --------
    >>> from skmrf.structure.edge_probability import edge_probabilities
    >>> edge_probabilities([0.3, -1.0, 0.6, 12.0]).round(2)
    array([0., 0., 0., 1.])
    """
    z = np.asarray(z, dtype=float)
    if np.isnan(z).any():
        raise ValueError("z holds nan; leave out pairs that have no z-value.")
    size = np.minimum(np.abs(z), LARGEST)
    if size.size == 0:
        return size
    scales = _grid(size.max())
    log_weights = _log_weights(*_binned(size), scales)
    return _posterior(size.ravel(), scales, log_weights).reshape(size.shape)


def z_of(statistic, dof):
    """The ``|z|`` whose two-sided p-value is that of a chi-square statistic.

    Parameters
    ----------
    statistic : array-like
        What rounding has brought below zero counts as zero.
    dof : array-like
        Degrees of freedom, broadcast against ``statistic``; none give 0.

    Returns
    -------
    ndarray

    Raises
    ------
    ValueError
        A statistic that is nan, degrees of freedom that are negative or not finite.
    """
    statistic, dof = np.broadcast_arrays(
        np.asarray(statistic, dtype=float), np.asarray(dof, dtype=float)
    )
    if np.isnan(statistic).any():
        raise ValueError("statistic holds nan; leave out pairs that have no statistic.")
    if not (np.isfinite(dof) & (dof >= 0)).all():
        raise ValueError("dof must be finite and not negative.")
    z = np.where((dof > 0) & np.isposinf(statistic), np.inf, 0.0)
    tested = (dof > 0) & np.isfinite(statistic) & (statistic > 0)
    log_p = log_tail(statistic[tested], dof[tested])
    z[tested] = np.maximum(-ndtri_exp(log_p - np.log(2.0)), 0.0)
    return z


# The mixture -------------------------------------------------------------------------------


def _grid(largest):
    """Standard deviations of the edges' groups, in those of the noise."""
    span = np.log(2 * max(largest, SMALLEST_SCALE) / SMALLEST_SCALE)
    steps = np.arange(1 + np.ceil(span / LOG_RATIO))
    return SMALLEST_SCALE * np.exp(LOG_RATIO * steps)


def _binned(size):
    """Distinct sizes up to a fine resolution, and how often each is there."""
    cells, counts = np.unique(np.rint(CELLS * np.arcsinh(size)), return_counts=True)
    return np.sinh(cells / CELLS), counts


def _log_ratios(size, scales):
    """log of the density at z of edges, by scale, less that of no edge, (n_sizes, n_scales)."""
    variance = 1 + scales**2
    gain = np.square(size)[:, None] * (scales**2 / variance)
    return 0.5 * gain + np.log1p(gain) - 1.5 * np.log(variance)


def _log_weights(size, counts, scales):
    """Logarithms of the weights, that of the null group first."""
    log_ratio = np.hstack([np.zeros((len(size), 1)), _log_ratios(size, scales)])
    ratio = np.exp(log_ratio - log_ratio.max(axis=1, keepdims=True))
    prior = np.r_[NULL_COUNT, np.full(len(scales), OTHER_COUNT / len(scales))]
    weights = prior / prior.sum()
    for _ in range(MAX_ITER):
        shares = counts / (ratio @ weights)
        new = weights * (shares @ ratio) + prior
        new /= new.sum()
        change = np.abs(new - weights).max()
        weights = new
        if change < TOL:
            break
    return np.log(weights)


def _posterior(size, scales, log_weights):
    """Probability of all groups but the null."""
    log_odds = logsumexp(_log_ratios(size, scales) + log_weights[1:], axis=1) - log_weights[0]
    return expit(log_odds)
