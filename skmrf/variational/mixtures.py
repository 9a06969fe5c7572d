"""Mixtures of independent or Gaussian components: beliefs of numbers and states."""

from dataclasses import dataclass, fields, replace
from functools import cached_property

import numpy as np

from .._kernels.gaussians import fill_numbers, seen_log_densities

LOG_2PI = np.log(2 * np.pi)
TINY = 1e-300


@dataclass(frozen=True)
class Mixture:
    r"""A mixture whose components are Gaussian over numbers and independent over states.

    .. math:: b(x) = \sum_k \alpha_k N(x_c; \mu_k, C_k) \prod_d \pi_{kd}(x_d)

    Attributes
    ----------
    n_states : ndarray of shape (n_variables,)
        Number of states of every variable, 0 for a number.
    log_weights : ndarray of shape (n_components,)
    means : ndarray of shape (n_components, n_numbers)
    covariances : ndarray of shape (n_components, n_numbers, n_numbers)
    tables : ndarray of shape (n_components, n_discrete, n_slots)
        Probabilities of the states of the other variables, 0 beyond their last state.
    """

    n_states: np.ndarray
    log_weights: np.ndarray
    means: np.ndarray
    covariances: np.ndarray
    tables: np.ndarray

    def __getstate__(self):
        """Without what was derived from the fields, which a use would leave in a pickle."""
        return {field.name: getattr(self, field.name) for field in fields(self)}

    @property
    def n_components(self):
        """Number of components."""
        return len(self.log_weights)

    @cached_property
    def numbers(self):
        """Which variables are numbers."""
        return np.flatnonzero(self.n_states == 0)

    @cached_property
    def discrete(self):
        """Which variables have states."""
        return np.flatnonzero(self.n_states > 0)

    @cached_property
    def roots(self):
        """Cholesky factors of the covariances."""
        return np.linalg.cholesky(self.covariances)

    @cached_property
    def whitening(self):
        """Inverses of the Cholesky factors."""
        return np.linalg.inv(self.roots)

    @property
    def log_tables(self):
        """Logarithms of the tables, -inf beyond the last state."""
        with np.errstate(divide="ignore"):
            return np.log(self.tables)

    def marginal(self, variables):
        """The mixture of some of the variables, given in ascending order."""
        keep = np.isin(np.arange(len(self.n_states)), variables)
        c, d = np.flatnonzero(keep[self.numbers]), np.flatnonzero(keep[self.discrete])
        return replace(
            self,
            n_states=self.n_states[keep],
            means=self.means[:, c],
            covariances=self.covariances[:, c[:, None], c],
            tables=self.tables[:, d],
        )

    def component_log_densities(self, X):
        """Log density of rows without missing entries under every component.

        Returns
        -------
        ndarray of shape (n_components, n_rows)
        """
        total = np.zeros((self.n_components, len(X)))
        if self.means.shape[1]:
            roots = self.whitening
            shift = (roots @ self.means[:, :, None])[:, :, 0]
            whitened = roots @ X[:, self.numbers].T - shift[:, :, None]
            logs = np.log(np.diagonal(roots, axis1=1, axis2=2)).sum(axis=1)
            total -= 0.5 * np.einsum("kir,kir->kr", whitened, whitened)
            total += (logs - 0.5 * LOG_2PI * self.means.shape[1])[:, None]
        log_tables = self.log_tables
        for d, i in enumerate(self.discrete):
            total += log_tables[:, d, X[:, i].astype(np.int64)]
        return total

    def log_density(self, X):
        """Log density of every row; entries that are nan are integrated out."""
        parts = self._parts(np.asarray(X, dtype=float))
        return logsumexp(parts + self.log_weights[:, None], axis=0)

    def _parts(self, X):
        """Log density of what rows have under every component, shape (n_components, n_rows)."""
        gaps = np.isnan(X).any(axis=1)
        if not gaps.any():
            return self.component_log_densities(X)
        parts = np.empty((self.n_components, len(X)))
        parts[:, ~gaps] = self.component_log_densities(X[~gaps])
        parts[:, gaps] = self._seen_parts(X[gaps])
        return parts

    def _seen_parts(self, X):
        parts, numbers = np.zeros((self.n_components, len(X))), self._numbers_of(X)
        pattern = _patterns(numbers)
        order = np.argsort(pattern, kind="stable")
        seen_log_densities(numbers, pattern, order, self.means, self.covariances, parts)
        log_tables = self.log_tables
        for d, i in enumerate(self.discrete):
            rows = np.flatnonzero(~np.isnan(X[:, i]))
            parts[:, rows] += log_tables[:, d, X[rows, i].astype(np.int64)]
        return parts

    def defended(self, mean, covariance, share=0.1):
        """With one more component, so that densities of draws are nowhere too small.

        Over numbers it is the Gaussian given, over states it is uniform.
        """
        tables = np.zeros((1, *self.tables.shape[1:]))
        for d, q in enumerate(self.n_states[self.discrete]):
            tables[0, d, :q] = 1.0 / q
        return replace(
            self,
            log_weights=np.append(self.log_weights + np.log1p(-share), np.log(share)),
            means=np.concatenate([self.means, np.reshape(mean, (1, -1))]),
            covariances=np.concatenate([self.covariances, np.asarray(covariance)[None]]),
            tables=np.concatenate([self.tables, tables]),
        )

    def sample(self, n, rng):
        """Independent draws, shape (n, n_variables)."""
        shares = np.exp(self.log_weights)
        counts = rng.multinomial(n, shares / shares.sum())
        chosen = np.repeat(np.arange(self.n_components), counts)
        X = np.empty((n, len(self.n_states)))
        if len(self.numbers):
            noise = rng.normal(size=(n, self.means.shape[1]))
            ends = np.cumsum(counts)
            for k in np.flatnonzero(counts):
                rows = slice(ends[k] - counts[k], ends[k])
                noise[rows] = noise[rows] @ self.roots[k].T
            X[:, self.numbers] = self.means[chosen] + noise
        if len(self.discrete):
            X[:, self.discrete] = self._states(chosen, rng.random((n, len(self.discrete), 1)))
        return rng.permutation(X)  # or a row would say which component it is of

    def _states(self, chosen, uniform):
        """States of all discrete variables under the component chosen for every row."""
        totals = np.cumsum(self.tables, axis=2)
        states = (uniform * totals[chosen][..., -1:] > totals[chosen]).sum(axis=2)
        return np.minimum(states, self.n_states[self.discrete] - 1)

    def fill(self, X, rng):
        """Rows with what is nan drawn given the rest."""
        X = np.array(X, dtype=float)
        gaps = np.isnan(X).any(axis=1)
        if gaps.any():
            X[gaps] = self._filled(X[gaps], rng)
        return X

    def _filled(self, X, rng):
        logs = self._seen_parts(X) + self.log_weights[:, None]
        chosen = np.argmax(logs + rng.gumbel(size=logs.shape), axis=0)
        X[:, self.numbers] = self._filled_numbers(self._numbers_of(X), chosen, rng)
        if len(self.discrete):
            states = self._states(chosen, rng.random((len(X), len(self.discrete), 1)))
            X[:, self.discrete] = np.where(
                np.isnan(X[:, self.discrete]), states, X[:, self.discrete]
            )
        return X

    def _numbers_of(self, X):
        return np.ascontiguousarray(X[:, self.numbers])

    def _filled_numbers(self, X, chosen, rng):
        pattern, noise = _patterns(X), rng.normal(size=X.shape)
        roots = self.whitening
        precisions = roots.transpose(0, 2, 1) @ roots  # no pivot below zero by rounding
        order = np.lexsort((pattern, chosen))
        fill_numbers(X, pattern, order, chosen, self.means, precisions, noise)
        return X


def logsumexp(logs, axis=0, keepdims=False):
    """Log of sums of exponentials along an axis, where not all are -inf."""
    top = logs.max(axis=axis, keepdims=True)
    total = np.log(np.exp(logs - top).sum(axis=axis, keepdims=True)) + top
    return total if keepdims else total.squeeze(axis)


def average(mixtures):
    """The mixture of mixtures, each with the same weight."""
    first = mixtures[0]
    return replace(
        first,
        log_weights=np.concatenate([m.log_weights for m in mixtures]) - np.log(len(mixtures)),
        means=np.concatenate([m.means for m in mixtures]),
        covariances=np.concatenate([m.covariances for m in mixtures]),
        tables=np.concatenate([m.tables for m in mixtures]),
    )


def _patterns(X):
    """Numbers of the sets of entries that rows have, shape (n_rows,)."""
    packed = np.packbits(~np.isnan(X), axis=1)
    if not packed.shape[1]:
        return np.zeros(len(X), np.int64)
    names = np.ascontiguousarray(packed).view(f"V{packed.shape[1]}").ravel()
    return np.unique(names, return_inverse=True)[1].astype(np.int64)
