"""Evidence for edges: p-values, adjusted for multiple tests, and posterior probabilities."""

import numpy as np
from scipy.special import (
    chdtrc,
    chdtri,
    expit,
    fdtrc,
    gammaln,
    logsumexp,
    ndtri,
    ndtri_exp,
    xlogy,
)

from .._utils.parameters import check_choice

UNDERFLOW = -600.0
MIN_MEAN = 0.1  # mean of a statistic; below it, the data have no information
MIN_CELL_COUNT = 10.0  # expected count; tests take account of the skewness of rarer cells
MAX_CELL_COUNT = 100  # counts above it have no probability if the expected count is small
ROUNDING = 1e-6  # of counts and log-probabilities
MIN_P = 1e-280  # of an F test that is converted to a chi-square statistic
N_TERMS = 8
MIN_SCALE = 1.0  # in standard deviations of the noise; weaker edges look like no edges
LOG_RATIO = 0.5 * np.log(2.0)  # log of the ratio of neighbouring scales
NULL_PRIOR_COUNT = 10.0
EDGE_PRIOR_COUNT = 0.1  # of all edge components together
BINS_PER_LOG_UNIT = 500  # for z-values above 1
MAX_Z = 1e6
MAX_ITER = 5000
TOL = 1e-8


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


def sparse_table_test(regressors, scale, counts, p, n_fitted):
    r"""Return a score test of the dependence of a categorical variable on regressors.

    The statistic is :math:`\sum_{ab} S_{ab}^2 / (E_{ab} + 1)`, where :math:`S_{ab}` is the score of
    regressor a and state b, and :math:`E_{ab}` is an expected count. It is Pearson's statistic
    except for the addition of 1, which limits the effect of rare cells. A scaled chi-square
    distribution with the mean and the variance of the statistic is its null distribution, because
    most cells of a large table are rare.

    Parameters
    ----------
    regressors : ndarray of shape (n_rows, n_regressors)
        Residuals of the regressors, given the regressors of the fitted model.
    scale : ndarray or sparse array of shape (n_rows, n_regressors)
        Factors of the expected counts: indicators of states, or squares of numbers.
    counts : ndarray of shape (n_rows, n_states)
        Indicators of the observed state of each row, multiplied by the weight of the row.
    p : ndarray of shape (n_rows, n_states)
        Fitted probabilities of the states.
    n_fitted : int
        Number of regressors of the fitted model.

    Returns
    -------
    statistic, dof : float
        Chi-square statistic and degrees of freedom; 0 and 0 if nothing can be tested.
    """
    weights = counts.sum(axis=1, keepdims=True)
    total = weights.sum()
    score = regressors.T @ (counts - weights * p)
    squares, expected = regressors**2, scale.T @ (weights * p)
    inverse = 1.0 / (expected + 1.0)
    variance = squares.T @ (weights * p * (1.0 - p)) * (total / max(total - n_fitted, 1.0))
    mean = (inverse * variance).sum()
    if mean < MIN_MEAN or total <= n_fitted:
        return 0.0, 0.0
    own = (1.0 - 2.0 * p) * (squares @ inverse)
    own_variance = (p * own**2).sum(axis=1) - (p * own).sum(axis=1) ** 2
    spread = 2.0 * (inverse**2 * variance * expected).sum() + weights[:, 0] @ own_variance
    dof = 2.0 * mean**2 / spread
    return (inverse * score**2).sum() / mean * dof, dof


def correct_rare_cells(statistic, observed, expected):
    r"""Return the test statistics of contingency tables, corrected for rare cells.

    The distribution of a chi-square statistic has a long tail if cells have small expected counts.
    The statistic of a table of two states and two states is replaced by the square of the normal
    quantile of an exact test: of Fisher's test with the mid-p-value [1]_ if the expected counts are
    products of the margins. Other expected counts :math:`E` give the hypergeometric distribution
    with the mean :math:`E` and the same margins. In larger tables, the contribution of each rare
    cell to Pearson's statistic is limited to that of its exact test.

    Parameters
    ----------
    statistic : ndarray of shape (n,)
        Chi-square statistics.
    observed : ndarray of shape (n, q, r)
        Observed counts.
    expected : ndarray of shape (n, q, r)
        Expected counts if there is no dependence.

    Returns
    -------
    ndarray of shape (n,)
        Chi-square statistics.

    References
    ----------
    .. [1] H. O. Lancaster, "Significance tests in discrete distributions", Journal of the American
       Statistical Association 56, 1961.
    """
    margins = observed.sum(axis=2, keepdims=True), observed.sum(axis=1, keepdims=True)
    rows, columns = (np.broadcast_to(part, observed.shape) for part in margins)
    is_rare = (rows > 0) & (columns > 0) & (expected > 0) & (expected < MIN_CELL_COUNT)
    if observed.shape[1:] == (2, 2):  # the tests of all four cells are the same
        is_rarest = expected == np.where(is_rare, expected, np.inf).min(axis=(1, 2), keepdims=True)
        flat = is_rarest.reshape(-1, 4)
        is_rare = (flat & (flat.cumsum(axis=1) == 1)).reshape(observed.shape)
    t, e, a, b = observed[is_rare], expected[is_rare], rows[is_rare], columns[is_rare]
    exact = np.zeros(observed.shape)
    exact[is_rare] = _exact_statistic(t, e, a, b)
    if observed.shape[1:] == (2, 2):
        return np.where(is_rare.any(axis=(1, 2)), exact.sum(axis=(1, 2)), statistic)
    exact[is_rare] *= np.maximum(1.0 - e / a, 0.0) * np.maximum(1.0 - e / b, 0.0)
    excess = np.zeros(observed.shape)
    excess[is_rare] = np.maximum((t - e) ** 2 / np.maximum(e, MIN_MEAN) - exact[is_rare], 0.0)
    return np.maximum(statistic - excess.sum(axis=(1, 2)), 0.0)


def is_rare_table(observed, expected):
    """Return a mask of the tables with rare cells, in which each state occurs; shape (n,)."""
    occurs = [(observed.sum(axis=axis) > 0).all(axis=1) for axis in (1, 2)]
    return (expected < MIN_CELL_COUNT).any(axis=(1, 2)) & occurs[0] & occurs[1]


def _exact_statistic(observed, expected, a, b):
    """Return the chi-square statistic with the p-value of an exact test of the count of a cell.

    The p-value is the probability of all less probable counts, and half of the probability of all
    equally probable counts (mid-p-value), in the hypergeometric distribution with the margins a and
    b and the given mean.
    """
    largest, total = np.floor(np.minimum(a, b) + ROUNDING), a * b / expected
    counts = np.floor(observed + ROUNDING), np.ceil(observed - ROUNDING)
    count = np.where(observed > expected, counts[0], np.minimum(counts[1], largest))

    def log_p(k):
        first, second = np.maximum(a - k, 0.0), np.maximum(b - k, 0.0)
        rest = np.maximum(total - a - b + k, 0.0)
        value = -sum(gammaln(part + 1.0) for part in (k, first, second, rest))
        return np.where(k <= largest, value, -np.inf)

    at, all_log_p = log_p(count), log_p(np.arange(MAX_CELL_COUNT + 1.0)[:, None])
    is_equal = np.abs(all_log_p - at) <= ROUNDING
    tail = np.where(is_equal | (all_log_p < at), all_log_p - np.log(2.0) * is_equal, -np.inf)
    tail = np.where(count > MAX_CELL_COUNT, at - np.log(2.0), logsumexp(tail, axis=0))
    log_share = np.minimum(tail - logsumexp(all_log_p, axis=0), 0.0)
    return np.maximum(-ndtri_exp(log_share - np.log(2.0)), 0.0) ** 2


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


def chi2_from_f(f, dof, residual_dof):
    """Return the chi-square statistic that has the p-value of an F statistic.

    Parameters
    ----------
    f : array-like
        F statistics, at least 0.
    dof : array-like of int
        Degrees of freedom of the numerator, and of the chi-square statistic. 0 gives 0.
    residual_dof : array-like
        Degrees of freedom of the denominator, positive.

    Returns
    -------
    ndarray
        Statistics. Where the p-value underflows they are likelihood-ratio statistics.
    """
    f, dof, residual_dof = np.broadcast_arrays(f, dof, np.maximum(residual_dof, 1e-300))
    free = np.maximum(dof, 1)
    p = fdtrc(free, residual_dof, f)
    statistic = chdtri(free, np.maximum(p, MIN_P))
    ratio = residual_dof * np.log1p(free * f / residual_dof)
    return np.where(dof > 0, np.where(p < MIN_P, np.maximum(statistic, ratio), statistic), 0.0)


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
LOCAL_FDR = "local-fdr"  # selection by the local false discovery rate


def edge_probabilities(z):
    r"""Return the posterior probability of an edge for each pair of variables.

    This is an empirical Bayes mixture of two groups of pairs. Pairs without an edge have z-values
    of pure noise. Edges have z-values of mean :math:`\mu`, of any size but not near zero:

    .. math:: z \sim \pi_0 N(0, 1) + \sum_k \pi_k \int N(z; \mu, 1)
              \frac{\mu^2}{\sigma_k^2} N(\mu; 0, \sigma_k^2) \, d\mu,

    The edges have a mixture of moment priors [1]_, whose scales :math:`\sigma_k` are a geometric
    grid from 1 to twice the largest ``|z|`` [2]_. EM finds the posterior mode of the weights under
    a Dirichlet prior with pseudo-counts of 10 pairs without an edge and 0.1 pairs with an edge. The
    result is :math:`1 - \mathrm{lfdr}(z)`, where the local false discovery rate [3]_ is the share
    of the first group in the density at :math:`z`. With :math:`v_k = 1 + \sigma_k^2`,

    .. math:: \mathrm{lfdr}(z) = \frac{\pi_0 N(z; 0, 1)}{\pi_0 N(z; 0, 1) + \sum_k \pi_k
              N(z; 0, v_k) (1 + z^2 \sigma_k^2 / v_k) / v_k}.

    The probability never decreases as ``|z|`` grows. Edges weaker than about 0.7 standard
    deviations of the noise cannot be distinguished from no edge, and count as no edge. The moment
    priors assume that edges differ in strength. If all edges have similar z-values, such as 4 to 7,
    smaller z-values get too large probabilities, because the priors have weak edges, too. With few
    pairs the share of edges is hard to estimate. With a few hundred pairs, probabilities below 0.05
    may be too small by a few hundredths. With fewer than a hundred pairs, probabilities below 0.5
    may be too small by a tenth.

    Parameters
    ----------
    z : array-like
        z-values of all pairs, of any shape. Signs are ignored, and absolute values are clipped to
        one million.

    Returns
    -------
    ndarray
        Probabilities, of the same shape as ``z``.

    Raises
    ------
    ValueError
        If a z-value is nan.

    References
    ----------
    .. [1] V. E. Johnson and D. Rossell, "On the use of non-local prior densities in Bayesian
       hypothesis tests", Journal of the Royal Statistical Society B 72, 2010.
    .. [2] M. Stephens, "False discovery rates: a new deal", Biostatistics 18, 2017.
    .. [3] B. Efron, R. Tibshirani, J. D. Storey and V. Tusher, "Empirical Bayes analysis of a
       microarray experiment", Journal of the American Statistical Association 96, 2001.

    Examples
    --------
    >>> from skmrf.structure.significance import edge_probabilities
    >>> edge_probabilities([0.3, -1.0, 0.6, 12.0]).round(2)
    array([0., 0., 0., 1.])
    """
    z = np.asarray(z, dtype=float)
    if np.isnan(z).any():
        raise ValueError("z contains nan. Leave out pairs that have no z-value.")
    size = np.minimum(np.abs(z), MAX_Z)
    if size.size == 0:
        return size
    scales = _scale_grid(size.max())
    log_weights = _log_weights(*_bin_sizes(size), scales)
    return _posterior(size.ravel(), scales, log_weights).reshape(size.shape)


def fill_untested(z, is_tested):
    """Return absolute z-values in which untested pairs have the quantiles of pure noise.

    Parameters
    ----------
    z : ndarray of shape (n_pairs,)
        Absolute z-values.
    is_tested : ndarray of bool of shape (n_pairs,)
        False for pairs without a test.

    Returns
    -------
    ndarray of shape (n_pairs,)
        Absolute z-values.
    """
    out, n = z.copy(), int(np.count_nonzero(~is_tested))
    out[~is_tested] = -ndtri((np.arange(n) + 0.5) / (2.0 * max(n, 1)))
    return out


def z_from_chi2(statistic, dof):
    """Return the ``|z|`` that has the same two-sided p-value as a chi-square statistic.

    Parameters
    ----------
    statistic : array-like
        Chi-square statistics. Negative values, which rounding can cause, count as zero.
    dof : array-like
        Degrees of freedom, broadcast against ``statistic``. Zero degrees of freedom give 0.

    Returns
    -------
    ndarray
        Absolute z-values, of the broadcast shape.

    Raises
    ------
    ValueError
        If a statistic is nan, or degrees of freedom are negative or not finite.
    """
    statistic, dof = np.broadcast_arrays(
        np.asarray(statistic, dtype=float), np.asarray(dof, dtype=float)
    )
    if np.isnan(statistic).any():
        raise ValueError("statistic contains nan. Leave out pairs that have no statistic.")
    if not (np.isfinite(dof) & (dof >= 0)).all():
        wrong = dof[~(np.isfinite(dof) & (dof >= 0))][0]
        raise ValueError(f"dof must be finite and not negative; got {wrong}.")
    z = np.where((dof > 0) & np.isposinf(statistic), np.inf, 0.0)
    tested = (dof > 0) & np.isfinite(statistic) & (statistic > 0)
    log_p = log_tail(statistic[tested], dof[tested])
    z[tested] = np.maximum(-ndtri_exp(log_p - np.log(2.0)), 0.0)
    return z


# The mixture -------------------------------------------------------------------------------


def _scale_grid(largest):
    """Return the scales of effects in the mixture model of z-values, in units of the noise."""
    span = np.log(2 * max(largest, MIN_SCALE) / MIN_SCALE)
    steps = np.arange(1 + np.ceil(span / LOG_RATIO))
    return MIN_SCALE * np.exp(LOG_RATIO * steps)


def _bin_sizes(size):
    """Round absolute z-values to a fine grid; return the unique values and their counts."""
    cells, counts = np.unique(np.rint(BINS_PER_LOG_UNIT * np.arcsinh(size)), return_counts=True)
    return np.sinh(cells / BINS_PER_LOG_UNIT), counts


def _log_ratios(size, scales):
    """Return the log ratio of the densities of ``|z|`` with and without an edge, for each scale."""
    variance = 1 + scales**2
    gain = np.square(size)[:, None] * (scales**2 / variance)
    return 0.5 * gain + np.log1p(gain) - 1.5 * np.log(variance)


def _log_weights(size, counts, scales):
    """Estimate the log mixture weights by EM; the first component is for pairs without an edge."""
    log_ratio = np.hstack([np.zeros((len(size), 1)), _log_ratios(size, scales)])
    ratio = np.exp(log_ratio - log_ratio.max(axis=1, keepdims=True))
    prior = np.r_[NULL_PRIOR_COUNT, np.full(len(scales), EDGE_PRIOR_COUNT / len(scales))]
    weights = prior / prior.sum()
    total = counts.sum() + prior.sum()
    shares, prior = counts / total, prior / total  # all weights add up to 1 without normalisation
    for _ in range(MAX_ITER):
        new = weights * ((shares / (ratio @ weights)) @ ratio) + prior
        change = np.abs(new - weights).max()
        weights = new
        if change < TOL:
            break
    return np.log(weights)


def _posterior(size, scales, log_weights):
    """Return the posterior probability of an edge for each ``|z|``."""
    log_odds = logsumexp(_log_ratios(size, scales) + log_weights[1:], axis=1) - log_weights[0]
    return expit(log_odds)
