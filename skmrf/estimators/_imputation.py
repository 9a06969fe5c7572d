"""Models of categorical columns for imputation, and their choice by imputed held-out entries."""

from dataclasses import dataclass, field
from functools import cached_property, partial

import numpy as np
from scipy.special import ndtr, ndtri, softmax

from .._data.categories import CategoryEncoder
from .._utils.codes import MISSING
from ..inference import row_queries
from ..structure.chow_liu import fit_tree
from .discrete_mrf import DiscreteMRF

MIN_ROWS = 50  # with fewer rows, no entries are held out
MAX_ROWS, MAX_COMPARISONS = 2000, 1e8  # of prototypes: rows, and rows squared times columns
HELD_OUT = 0.2  # share of the observed entries
CLEAR_GAIN = 0.05  # accuracy above that of a tree with which no pairwise model is tried
MAX_EXACT_STATES = 2**12  # joint states of a model that is learned without pseudo-likelihood
SMOOTHING = 0.05, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6  # candidates of PrototypeModel.smoothing
PRIOR_ROWS = 1.0  # with independent columns, in the correlations of LatentGaussianModel
N_ITER, N_SWEEPS = 30, 5
MAX_LATENT_COLUMNS = 60
BLOCK_ENTRIES = 2**22  # of the matrices of a block of rows
MIN_VARIANCE, JITTER = 1e-4, 1e-9  # of a truncated normal, of an inverse


@dataclass(frozen=True)
class CodeModel:
    """Base class of models of state codes that impute missing entries.

    A subclass has the method ``probabilities(codes)``. It returns one array of shape (n_rows,
    n_categories) per column, which is used where the entry of the column is missing.

    Attributes
    ----------
    encoder : CategoryEncoder
        Encoder of the columns.
    """

    encoder: CategoryEncoder = field(repr=False)

    @property
    def categories_(self):
        """Categories of each column, in the order of their codes."""
        return self.encoder.categories

    @property
    def _encoder(self):
        return self.encoder

    def _impute(self, codes, strategy, rng=None):
        """Return complete rows: draws, or the most probable category of each entry."""
        if strategy == "sample":
            return self._draw(codes, rng)
        out = codes.copy()
        for j, p in enumerate(self.probabilities(codes)):
            missing = codes[:, j] == MISSING
            out[missing, j] = p[missing].argmax(axis=1)
        return out


@dataclass(frozen=True)
class PrototypeModel(CodeModel):
    r"""Mixture of one component for each training row, its prototype.

    The entry of a component for column j has probability :math:`1 - \lambda` to be the category of
    the prototype, and else is drawn from the frequencies :math:`f_j` of the column. The components
    for which column j is missing are not used to impute column j.

    Attributes
    ----------
    prototypes : ndarray of shape (n_prototypes, n_columns)
        State codes of training rows.
    frequencies : list of ndarray
        Probabilities :math:`f_j` of the categories of each column.
    smoothing : float
        Probability :math:`\lambda`.

    References
    ----------
    J. Aitchison and C. G. G. Aitken, "Multivariate binary discrimination by the kernel method",
    Biometrika 63 (1976).
    """

    prototypes: np.ndarray = field(repr=False)
    frequencies: list = field(repr=False)
    smoothing: float

    def _log_ratios(self, j):
        """Return log(p(s | prototype) / f_j(s)) for each prototype and each state s of column j."""
        f, codes = self.frequencies[j], self.prototypes[:, j]
        out = np.full((len(codes), len(f)), np.log(self.smoothing))
        here = np.flatnonzero(codes != MISSING)
        own = codes[here]
        out[here, own] = np.log(self.smoothing + (1.0 - self.smoothing) / f[own])
        out[codes == MISSING] = 0.0
        return out

    def _add_column(self, logs, codes, j):
        """Add the log-ratios of the observed entries of column j to the prototypes' log weights."""
        here = np.flatnonzero(codes[:, j] != MISSING)
        logs[here] += self._log_ratios(j).T[codes[here, j]]

    def _column_probabilities(self, logs, j):
        """Return the probabilities of the states of column j, given the prototypes' log weights."""
        codes, f = self.prototypes[:, j], self.frequencies[j]
        here = np.flatnonzero(codes != MISSING)
        if not len(here):
            return np.tile(f, (len(logs), 1))
        shares = softmax(logs[:, here], axis=1) @ np.eye(len(f))[codes[here]]
        return self.smoothing * f + (1.0 - self.smoothing) * shares

    def _logs(self, codes):
        logs = np.zeros((len(codes), len(self.prototypes)))
        for j in range(codes.shape[1]):
            self._add_column(logs, codes, j)
        return logs

    def probabilities(self, codes):
        """Return the conditional probabilities of the missing entries, one array per column."""
        parts = [self._block_probabilities(block) for block in _blocks(codes, len(self.prototypes))]
        return [np.concatenate(p) for p in zip(*parts, strict=True)]

    def _block_probabilities(self, codes):
        logs, out = self._logs(codes), []
        for j, f in enumerate(self.frequencies):
            p, missing = np.zeros((len(codes), len(f))), codes[:, j] == MISSING
            p[missing] = self._column_probabilities(logs[missing], j)
            out.append(p)
        return out

    def _draw(self, codes, rng):
        return np.concatenate(
            [self._draw_block(b, rng) for b in _blocks(codes, len(self.prototypes))]
        )

    def _draw_block(self, codes, rng):
        """Draw the missing entries column by column, each given the entries before it."""
        logs, out = self._logs(codes), codes.copy()
        for j in range(codes.shape[1]):
            missing = np.flatnonzero(codes[:, j] == MISSING)
            if len(missing):
                p = self._column_probabilities(logs[missing], j)
                out[missing, j] = _draw_states(p, rng)
                logs[missing] += self._log_ratios(j).T[out[missing, j]]
        return out


@dataclass(frozen=True)
class LatentGaussianModel(CodeModel):
    """Gaussian Markov random field of latent numbers, one for each ordered column.

    The category of a column is the interval that contains its latent number (Gaussian copula). The
    latent numbers of observed entries are approximated by normal distributions that are truncated
    to these intervals, one at a time given all others.

    Attributes
    ----------
    limits : list of ndarray of shape (n_categories + 1,)
        Limits of the intervals of each column, from -inf to inf.
    correlation : ndarray of shape (n_columns, n_columns)
        Correlations of the latent numbers.

    References
    ----------
    Y. Zhao and M. Udell, "Missing value imputation for mixed data via Gaussian copula", KDD 2020.
    """

    limits: list = field(repr=False)
    correlation: np.ndarray

    def probabilities(self, codes):
        """Return the conditional probabilities of the missing entries, one array per column."""
        parts = [self._block_probabilities(b) for b in _blocks(codes, codes.shape[1] ** 2)]
        return [np.concatenate(p) for p in zip(*parts, strict=True)]

    def _block_probabilities(self, codes):
        latent = _Latent(self, codes)
        for _ in range(N_SWEEPS):
            latent.sweep()
        gains = latent.gains()
        means = np.einsum("rij,rj->ri", gains, latent.z)
        explained = np.einsum("rij,ij->ri", gains, self.correlation)
        variances = 1.0 - explained + np.einsum("rij,rj->ri", gains**2, latent.variances)
        scales = np.sqrt(np.maximum(variances, MIN_VARIANCE))
        return [
            np.diff(ndtr((b - means[:, j, None]) / scales[:, j, None]), axis=1)
            for j, b in enumerate(self.limits)
        ]

    def _draw(self, codes, rng):
        blocks = _blocks(codes, codes.shape[1] ** 2)
        return np.concatenate([self._draw_block(b, rng) for b in blocks])

    def _draw_block(self, codes, rng):
        """Draw the latent numbers of the observed entries, and those of the missing ones."""
        latent = _Latent(self, codes)
        for _ in range(2 * N_SWEEPS):
            latent.sweep(rng)
        gains, out = latent.gains(), codes.copy()
        rest = self.correlation - gains @ self.correlation
        values, vectors = np.linalg.eigh(0.5 * (rest + np.swapaxes(rest, 1, 2)))
        noise = np.sqrt(np.maximum(values, 0.0)) * rng.normal(size=codes.shape)
        z = np.einsum("rij,rj->ri", gains, latent.z) + np.einsum("rij,rj->ri", vectors, noise)
        for j, b in enumerate(self.limits):
            missing = codes[:, j] == MISSING
            out[missing, j] = np.searchsorted(b[1:-1], z[missing, j])
        return out


class _Latent:
    """Latent numbers of the observed entries of rows, given a latent Gaussian model.

    Parameters
    ----------
    model : LatentGaussianModel
        Model.
    codes : ndarray of shape (n_rows, n_columns)
        State codes.
    z : ndarray of shape (n_rows, n_columns), optional
        Initial values. By default they are means of the intervals.
    """

    def __init__(self, model, codes, z=None):
        self.model, self.observed = model, codes != MISSING
        self.low, self.high = np.full(codes.shape, -np.inf), np.full(codes.shape, np.inf)
        for j, b in enumerate(model.limits):
            here = self.observed[:, j]
            self.low[here, j], self.high[here, j] = b[codes[here, j]], b[codes[here, j] + 1]
        if z is None:
            z, _ = truncated_moments(self.low, self.high, 0.0, 1.0)
        self.z, self.variances = np.where(self.observed, z, 0.0), np.zeros(codes.shape)
        both = self.observed[:, :, None] & self.observed[:, None, :]
        identity = np.eye(codes.shape[1])
        inner = np.where(both, model.correlation, identity)
        self.precisions = np.linalg.inv(inner + JITTER * identity)

    def sweep(self, rng=None):
        """Update each latent number given the others: by its mean, or by a draw."""
        for j in range(self.z.shape[1]):
            here = np.flatnonzero(self.observed[:, j])
            row = self.precisions[here, j]
            mean = self.z[here, j] - np.einsum("rk,rk->r", row, self.z[here]) / row[:, j]
            scale, low, high = row[:, j] ** -0.5, self.low[here, j], self.high[here, j]
            if rng is None:
                found = truncated_moments(low, high, mean, scale)
                self.z[here, j], self.variances[here, j] = found
            else:
                self.z[here, j] = _draw_truncated(low, high, mean, scale, rng)

    def gains(self):
        """Return each row's matrix from observed numbers to conditional means of all numbers."""
        both = self.observed[:, :, None] & self.observed[:, None, :]
        return self.model.correlation @ np.where(both, self.precisions, 0.0)

    def moments(self):
        """Return the sum of the expected products of latent numbers, given the observed ones."""
        gains, S = self.gains(), self.model.correlation
        z = np.where(self.observed, self.z, np.einsum("rij,rj->ri", gains, self.z))
        return z.T @ z + len(z) * S - gains.sum(axis=0) @ S


def truncated_moments(low, high, mean, scale):
    """Return the mean and the variance of a normal distribution that is truncated to an interval.

    Parameters
    ----------
    low, high : ndarray
        Limits of the interval; they may be infinite.
    mean, scale : float or ndarray
        Mean and standard deviation before truncation.

    Returns
    -------
    mean, variance : ndarray
        Moments after truncation.
    """
    a, b = (low - mean) / scale, (high - mean) / scale
    is_right = a > 0  # there, differences of probabilities near 1 would be inexact
    a, b = np.where(is_right, -b, a), np.where(is_right, -a, b)
    mass = np.maximum(ndtr(b) - ndtr(a), 1e-300)
    at_a, at_b = _normal_density(a) / mass, _normal_density(b) / mass
    centre = np.clip(at_a - at_b, a, b)
    slope = np.where(np.isfinite(a), a, 0.0) * at_a - np.where(np.isfinite(b), b, 0.0) * at_b
    variance = np.clip(1.0 + slope - centre**2, MIN_VARIANCE, 1.0)
    return mean + scale * np.where(is_right, -centre, centre), scale**2 * variance


def _normal_density(x):
    return np.exp(-0.5 * x**2) / np.sqrt(2.0 * np.pi)


def _draw_truncated(low, high, mean, scale, rng):
    a, b = (low - mean) / scale, (high - mean) / scale
    is_right = a > 0
    a, b = np.where(is_right, -b, a), np.where(is_right, -a, b)
    p = ndtr(a) + rng.random(a.shape) * (ndtr(b) - ndtr(a))
    x = np.clip(ndtri(np.maximum(p, 1e-300)), a, b)
    return mean + scale * np.where(is_right, -x, x)


def _draw_states(p, rng):
    """Draw a state from each row of probabilities."""
    below = np.cumsum(p, axis=1)
    return (rng.random((len(p), 1)) * below[:, -1:] > below[:, :-1]).sum(axis=1)


def _blocks(codes, n_entries):
    """Divide rows into blocks with matrices of ``n_entries`` entries per row."""
    size = max(1, BLOCK_ENTRIES // max(n_entries, 1))
    return [codes[s : s + size] for s in range(0, len(codes), size)]


# Learning ----------------------------------------------------------------------------------


def _frequencies(codes, encoder):
    """Return the frequencies of the categories of each column, with half a pseudo-count."""
    counts = [
        np.bincount(c[c != MISSING], minlength=len(known)) + 0.5
        for c, known in zip(codes.T, encoder.categories, strict=True)
    ]
    return [c / c.sum() for c in counts]


def learn_prototypes(encoder, codes, smoothing):
    """Return the mixture with a component for each row."""
    return PrototypeModel(encoder, codes, _frequencies(codes, encoder), smoothing)


def learn_latent_gaussian(encoder, codes):
    """Learn a latent Gaussian model by stochastic expectation maximisation.

    The correlations are means over the second half of the iterations. The result does not depend on
    random numbers of the user.
    """
    limits = []
    for f in _frequencies(codes, encoder):
        limits.append(np.concatenate([[-np.inf], ndtri(np.cumsum(f)[:-1]), [np.inf]]))
    n, d = codes.shape
    model, rng = LatentGaussianModel(encoder, limits, np.eye(d)), np.random.default_rng(0)
    blocks = _blocks(codes, d**2)
    z = [_Latent(model, block).z for block in blocks]
    model = _with_correlation(model, sum(part.T @ part for part in z) + n * np.eye(d))
    mean = np.zeros((d, d))
    for t in range(N_ITER):
        total = PRIOR_ROWS * np.eye(d)
        for b, block in enumerate(blocks):
            latent = _Latent(model, block, z[b])
            latent.sweep(rng)
            z[b] = latent.z
            total += latent.moments()
        model = _with_correlation(model, total)
        mean += model.correlation * (2 * t >= N_ITER)
    return _with_correlation(model, mean)


def _with_correlation(model, moments):
    scale = np.sqrt(np.diag(moments))
    correlation = moments / np.outer(scale, scale)
    return LatentGaussianModel(model.encoder, model.limits, correlation)


# Choice ------------------------------------------------------------------------------------


class ModelChoice:
    """Choice of a model of categorical columns by imputed held-out entries.

    A fifth of the observed entries of at most 2,000 rows is held out. The log-likelihood of these
    entries decides between a mixture of prototypes and a latent Gaussian model. The latter is
    possible if each column has ordered categories, numbers, or two categories. A pairwise model is
    better if it imputes more held-out entries correctly than prototypes, whose smoothing is fitted
    to these entries, or than a latent Gaussian model by more than a standard error.

    Parameters
    ----------
    encoder : CategoryEncoder
        Encoder of the columns.
    codes : ndarray of shape (n_rows, n_columns)
        State codes of the training rows.
    types : list of str
        Types of the columns.

    Attributes
    ----------
    pairwise : DiscreteMRF
        Unfitted model.
    held_out : HeldOut
        Rows with held-out entries.
    is_possible : bool
        Whether there are enough rows and columns for a comparison.
    """

    def __init__(self, encoder, codes, types):
        self.n_states = np.array([len(known) for known in encoder.categories])
        is_small = np.log(self.n_states).sum() <= np.log(MAX_EXACT_STATES)
        self.pairwise = DiscreteMRF(learner="auto" if is_small else "pseudo-likelihood")
        rng = np.random.default_rng(0)
        n_rows = int(min(MAX_ROWS, np.sqrt(MAX_COMPARISONS / codes.shape[1])))
        self.held_out = HeldOut.draw(codes[rng.permutation(len(codes))[:n_rows]], rng)
        is_large = len(codes) >= MIN_ROWS and codes.shape[1] > 1
        self.is_possible = is_large and self.held_out.mask.any()
        if self.is_possible:
            is_ordered = _is_ordered(encoder, types)
            self._learn = _choose_quick_model(encoder, self.held_out, is_ordered)
            self._model = self._learn(self.held_out.rows)

    @cached_property
    def _is_right(self):
        return self.held_out.is_right(self._model._impute(self.held_out.rows, "marginal"))

    def quick_model(self):
        """Return the prototypes or the latent Gaussian model of all rows."""
        return self._learn(self.held_out.truth)

    def is_open(self):
        """Return False if the quick model is 5 percentage points better than a Chow-Liu tree.

        A pairwise model is then not fitted.
        """
        by_tree = _impute_by_tree(self.held_out.rows, self.n_states)
        return self._is_right.mean() < self.held_out.is_right(by_tree).mean() + CLEAR_GAIN

    def is_better(self, fitted):
        """Return whether a fitted pairwise model imputes more held-out entries correctly.

        Parameters
        ----------
        fitted : DiscreteMRF
            Model that was fitted to the rows without the held-out entries.
        """
        imputed = fitted._impute(self.held_out.rows, "mode")
        gains = self.held_out.is_right(imputed) - self._is_right
        min_errors = float(isinstance(self._model, LatentGaussianModel))
        return gains.mean() > min_errors * gains.std() / np.sqrt(len(gains))


@dataclass(frozen=True)
class HeldOut:
    """Rows with held-out entries, which are missing.

    Attributes
    ----------
    rows : ndarray of shape (n_rows, n_columns)
        State codes without the held-out entries.
    truth : ndarray of shape (n_rows, n_columns)
        State codes with them.
    mask : ndarray of bool of shape (n_rows, n_columns)
        Mask of the held-out entries.
    """

    rows: np.ndarray
    truth: np.ndarray
    mask: np.ndarray

    @classmethod
    def draw(cls, codes, rng):
        """Hold out a fifth of the observed entries."""
        mask = (codes != MISSING) & (rng.random(codes.shape) < HELD_OUT)
        return cls(np.where(mask, MISSING, codes).astype(codes.dtype), codes, mask)

    def is_right(self, imputed):
        """Return 1.0 for each held-out entry that is imputed correctly, and 0.0 for others."""
        return (imputed == self.truth)[self.mask].astype(float)

    def log_likelihood(self, model):
        """Return the sum of the log-probabilities of the held-out entries in nats."""
        columns = zip(model.probabilities(self.rows), self.truth.T, self.mask.T, strict=True)
        tiny = np.finfo(float).tiny
        return sum(float(np.log(np.maximum(p[h, x[h]], tiny)).sum()) for p, x, h in columns)


def _choose_quick_model(encoder, held_out, is_ordered):
    """Return a function that learns prototypes, or a latent Gaussian model, from state codes."""
    learners = [partial(learn_prototypes, encoder, smoothing=s) for s in SMOOTHING]
    if is_ordered:
        learners.append(partial(learn_latent_gaussian, encoder))
    scores = [held_out.log_likelihood(learn(held_out.rows)) for learn in learners]
    return learners[int(np.argmax(scores))]


def _is_ordered(encoder, types):
    """Return whether all columns have an order, and are few enough for a latent Gaussian model."""
    known = zip(encoder.categories, types, strict=True)
    has_order = (k.dtype.kind in "biuf" or len(k) <= 2 or t == "ordinal" for k, t in known)
    return len(types) <= MAX_LATENT_COLUMNS and all(has_order)


def _impute_by_tree(rows, n_states):
    """Return rows imputed by a Chow-Liu tree."""
    tables = row_queries.row_marginals(fit_tree(rows, n_states).graph, rows)
    return np.stack([p.argmax(axis=1) for p in tables], axis=1)
