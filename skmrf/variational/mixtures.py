"""Mixture distributions over continuous and discrete variables."""

from dataclasses import dataclass, fields, replace
from functools import cached_property

import numpy as np
from scipy.special import gammaincinv

from .._kernels._jit import read_only
from .._kernels.gaussians import draw_missing_values, observed_log_densities
from .._utils.log_weights import logsumexp_along

LOG_2PI = np.log(2 * np.pi)
TINY = 1e-300
MAX_BLOCK = 2**22  # log-densities of rows and components at once
FLOOR = 1e-8  # variance that each covariance includes, for columns that are linear functions
ROUNDING = 1e-14  # of proportional covariances, relative to the trace
SCALE_STEP = 1.8  # standard deviations of the integrand of a Student t distribution
MAX_TAILS = 1e-6, 1e-4  # probabilities of larger, and of smaller factors of the covariances


@dataclass(frozen=True)
class Mixture:
    r"""Mixture distribution over continuous and discrete variables.

    Within a component, the continuous variables are Gaussian, and the discrete variables are
    independent of all other variables.

    .. math:: b(x) = \sum_k \alpha_k N(x_c; \mu_k, C_k) \prod_d \pi_{kd}(x_d)

    Numbers are continuous variables.

    Attributes
    ----------
    n_states : ndarray of shape (n_variables,)
        Number of states of each variable, 0 for a number.
    log_weights : ndarray of shape (n_components,)
        Log-probabilities of the components, :math:`\log \alpha_k`, in nats.
    means : ndarray of shape (n_components, n_numbers)
        Means of the numbers.
    covariances : ndarray of shape (n_components, n_numbers, n_numbers)
        Covariances of the numbers.
    tables : ndarray of shape (n_components, n_discrete, n_slots)
        Probabilities of the states of the discrete variables, 0 beyond their last state.
    """

    n_states: np.ndarray
    log_weights: np.ndarray
    means: np.ndarray
    covariances: np.ndarray
    tables: np.ndarray

    def __getstate__(self):
        """Return the fields of the mixture without cached properties, for pickling."""
        return {field.name: getattr(self, field.name) for field in fields(self)}

    def take(self, components):
        """Return some of the components, with their weights."""
        names = "log_weights", "means", "covariances", "tables"
        return replace(self, **{name: getattr(self, name)[components] for name in names})

    @property
    def n_components(self):
        """Return the number of components."""
        return len(self.log_weights)

    @cached_property
    def numbers(self):
        """Return the indices of the continuous variables."""
        return np.flatnonzero(self.n_states == 0)

    @cached_property
    def discrete(self):
        """Return the indices of the discrete variables."""
        return np.flatnonzero(self.n_states > 0)

    @cached_property
    def roots(self):
        """Return the Cholesky factors of the components' covariance matrices."""
        return np.linalg.cholesky(self.covariances)

    @cached_property
    def whitening(self):
        """Return the inverse Cholesky factors of the components' covariance matrices."""
        return np.linalg.inv(self.roots)

    @cached_property
    def shapes(self):
        """Return groups of components with proportional covariances.

        Each group is a tuple of the indices of its components, and the factors of the covariance
        of its first component.
        """
        traces = np.maximum(np.trace(self.covariances, axis1=1, axis2=2), TINY)
        scaled, left, groups = self.covariances / traces[:, None, None], np.arange(len(traces)), []
        while len(left):
            is_near = np.ones(len(left), dtype=bool)
            for part in (slice(1), slice(None)):  # the first row tells most matrices apart
                gaps = np.abs(scaled[left[is_near], part] - scaled[left[0], part])
                is_near[is_near] = gaps.max(axis=(1, 2), initial=0.0) < ROUNDING
            k, left = left[is_near], left[~is_near]
            groups.append((k, traces[k] / traces[k[0]]))
        return groups

    @cached_property
    def _has_zeros(self):
        """Return whether a state of a discrete variable has the probability 0 in a component."""
        n_states = self.n_states[self.discrete]
        return any((self.tables[:, d, :q] == 0).any() for d, q in enumerate(n_states))

    @property
    def log_tables(self):
        """Return the log-probabilities of the states of discrete variables under each component.

        Entries beyond the last state of a variable are -inf.
        """
        with np.errstate(divide="ignore"):
            return np.log(self.tables)

    def marginal(self, variables):
        """Return the marginal distribution of some variables as a mixture.

        ``variables`` contains indices in ascending order.
        """
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
        """Return the log density of each row under each component.

        Parameters
        ----------
        X : ndarray of shape (n_rows, n_variables)
            Rows without missing entries.

        Returns
        -------
        ndarray of shape (n_components, n_rows)
            Log densities, in nats.
        """
        total = np.zeros((self.n_components, len(X)))
        if self.means.shape[1]:
            roots = self.whitening
            shift = roots @ self.means[:, :, None]
            # One product of large matrices is several times faster than one per component.
            maps = np.concatenate([roots, -shift], axis=2).reshape(-1, len(self.numbers) + 1)
            rows = np.concatenate([X[:, self.numbers].T, np.ones((1, len(X)))])
            whitened = (maps @ rows).reshape(*roots.shape[:2], len(X))
            logs = np.log(np.diagonal(roots, axis1=1, axis2=2)).sum(axis=1)
            total -= 0.5 * np.einsum("kir,kir->kr", whitened, whitened)
            total += (logs - 0.5 * LOG_2PI * self.means.shape[1])[:, None]
        log_tables = self.log_tables
        for d, i in enumerate(self.discrete):
            total += log_tables[:, d, X[:, i].astype(np.int64)]
        return total

    def log_density(self, X):
        """Return the log density of each row, with missing entries integrated out.

        Parameters
        ----------
        X : array-like of shape (n_rows, n_variables)
            Rows; nan for missing entries.

        Returns
        -------
        ndarray of shape (n_rows,)
            Log densities, in nats.
        """
        X = np.asarray(X, dtype=float)
        out = np.empty(len(X))
        for rows in self._blocks(len(X)):
            logs = self._row_log_densities(X[rows]) + self.log_weights[:, None]
            out[rows] = logsumexp_along(logs)
        return out

    def component_shares(self, X):
        """Return the probability of each component given each row, shape (n_components, n_rows).

        Rows have nan for missing entries.
        """
        logs = self._row_log_densities(X) + self.log_weights[:, None]
        return np.exp(logs - logsumexp_along(logs, keepdims=True))

    def _blocks(self, n_rows):
        """Return slices of rows, so that arrays with an entry a row and component are small."""
        size = max(MAX_BLOCK // self.n_components, 1)
        return [slice(start, start + size) for start in range(0, n_rows, size)]

    def _row_log_densities(self, X):
        """Return the log density of each row's observed entries under each component."""
        has_missing = np.isnan(X).any(axis=1) | self._has_zeros
        if not has_missing.any():
            return self.component_log_densities(X)
        log_densities = np.empty((self.n_components, len(X)))
        log_densities[:, ~has_missing] = self.component_log_densities(X[~has_missing])
        log_densities[:, has_missing] = self._observed_log_densities(X[has_missing])
        return log_densities

    def _observed_log_densities(self, X):
        """Return the log density of the observed entries of rows under each component."""
        log_densities, numbers = self.table_log_densities(X), self._select_numbers(X)
        pattern, _ = missing_patterns(numbers)
        order = np.argsort(pattern, kind="stable")
        means, covariances = read_only(self.means), read_only(self.covariances)
        observed_log_densities(numbers, pattern, order, means, covariances, log_densities)
        return log_densities

    def table_log_densities(self, X):
        """Return the log-probability of each row's observed states under each component."""
        out, log_tables = np.zeros((self.n_components, len(X))), self.log_tables
        for d, j in enumerate(self.discrete):
            rows = np.flatnonzero(~np.isnan(X[:, j]))
            out[:, rows] += log_tables[:, d, X[rows, j].astype(np.int64)]
        return out

    def with_defensive_component(self, mean, covariance, share=0.1, tables=None):
        """Return the mixture with an additional wide component, which bounds its density below.

        Parameters
        ----------
        mean : array-like of shape (n_numbers,)
            Mean of the new component over the continuous variables.
        covariance : array-like of shape (n_numbers, n_numbers)
            Covariance of the new component.
        share : float, default=0.1
            Probability of the new component.
        tables : ndarray of shape (n_discrete, n_slots), optional
            Probabilities of the states of the discrete variables in the new component. By default
            they are equal.

        Returns
        -------
        Mixture
            Mixture with one more component.
        """
        if tables is None:
            tables = np.zeros(self.tables.shape[1:])
            for d, q in enumerate(self.n_states[self.discrete]):
                tables[d, :q] = 1.0 / q
        return replace(
            self,
            log_weights=np.append(self.log_weights + np.log1p(-share), np.log(share)),
            means=np.concatenate([self.means, np.reshape(mean, (1, -1))]),
            covariances=np.concatenate([self.covariances, np.asarray(covariance)[None]]),
            tables=np.concatenate([self.tables, tables[None]]),
        )

    def sample(self, n, rng):
        """Draw independent samples.

        Parameters
        ----------
        n : int
            Number of samples.
        rng : numpy.random.Generator
            Source of randomness.

        Returns
        -------
        ndarray of shape (n, n_variables)
            Samples in random order.
        """
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
            uniform = rng.random((n, len(self.discrete), 1))
            X[:, self.discrete] = self._sample_states(chosen, uniform)
        return rng.permutation(X)  # so that the index of a row does not reveal its component

    def _sample_states(self, chosen, uniform):
        """Sample the states of all discrete variables under the component chosen for each row."""
        totals = np.cumsum(self.tables, axis=2)
        states = (uniform * totals[chosen][..., -1:] > totals[chosen]).sum(axis=2)
        return np.minimum(states, self.n_states[self.discrete] - 1)

    def impute(self, X, rng, find_logs=None, draw_numbers=None):
        """Impute the missing entries of each row by a random draw given its observed entries.

        Parameters
        ----------
        X : array-like of shape (n_rows, n_variables)
            Rows; nan for missing entries.
        rng : numpy.random.Generator
            Source of randomness.
        find_logs : callable, optional
            Function of rows that returns their log-density under each component.
        draw_numbers : callable, optional
            Function that replaces :meth:`draw_numbers`. Its first argument is the mixture.

        Returns
        -------
        ndarray of shape (n_rows, n_variables)
            Rows without missing entries.
        """
        X, find_logs = np.array(X, dtype=float), find_logs or self._observed_log_densities
        incomplete = np.flatnonzero(np.isnan(X).any(axis=1))
        for block in self._blocks(len(incomplete)):
            rows = incomplete[block]
            X[rows] = self._impute_rows(X[rows], rng, find_logs, draw_numbers)
        return X

    def _impute_rows(self, X, rng, find_logs, draw_numbers):
        noise = rng.gumbel(size=(self.n_components, len(X)))
        if self.n_components > 1:  # log-densities take long
            noise += find_logs(X) + self.log_weights[:, None]
        chosen = np.argmax(noise, axis=0)
        noise = rng.normal(size=(len(X), len(self.numbers)))
        draw = draw_numbers or Mixture.draw_numbers
        X[:, self.numbers] = draw(self, self._select_numbers(X), chosen, noise)
        if len(self.discrete):
            states = self._sample_states(chosen, rng.random((len(X), len(self.discrete), 1)))
            known = X[:, self.discrete]
            X[:, self.discrete] = np.where(np.isnan(known), states, known)
        return X

    def impute_by_components(self, X):
        """Impute the missing entries of each row by the conditional mean of each component.

        Parameters
        ----------
        X : ndarray of shape (n_rows, n_variables)
            Rows; nan for missing entries.

        Returns
        -------
        imputed : ndarray of shape (n_components, n_rows, n_variables)
            Rows with the conditional means of numbers, and the most probable states of discrete
            variables, of each component.
        shares : ndarray of shape (n_components, n_rows)
            Probability of each component, given the observed entries of the row.
        """
        shares = self.component_shares(X)
        imputed = np.repeat(X[None], self.n_components, axis=0)
        numbers, states = self._select_numbers(X), self.tables.argmax(axis=2)
        zeros = np.zeros(numbers.shape)
        for k, rows in enumerate(imputed):
            chosen = np.full(len(X), k)
            rows[:, self.numbers] = self.draw_numbers(numbers.copy(), chosen, zeros)
            discrete = rows[:, self.discrete]
            rows[:, self.discrete] = np.where(np.isnan(discrete), states[k], discrete)
        return imputed, shares

    def impute_marginally(self, X):
        """Impute missing numbers by their means, and discrete variables by their modes.

        Parameters
        ----------
        X : ndarray of shape (n_rows, n_variables)
            Rows; nan for missing entries.

        Returns
        -------
        ndarray of shape (n_rows, n_variables)
            Rows without missing entries. Means and modes are those given the observed entries.
        """
        imputed, shares = self.impute_by_components(X)
        out = np.einsum("kr,krv->rv", shares, imputed)
        out[:, self.discrete] = np.einsum("kr,kds->rds", shares, self.tables).argmax(axis=2)
        return np.where(np.isnan(X), out, X)

    def _select_numbers(self, X):
        return np.ascontiguousarray(X[:, self.numbers])

    def draw_numbers(self, X, chosen, noise):
        """Replace missing numbers by draws with the given component and noise of each row."""
        pattern, _ = missing_patterns(X)
        args = pattern, np.lexsort((pattern, chosen)), chosen, read_only(self.means)
        draw_missing_values(X, *args, self.find_precisions(), noise)
        return X

    def find_precisions(self):
        """Return the precision matrices of the components."""
        return self.whitening.transpose(0, 2, 1) @ self.whitening  # has no negative pivots


def average_mixtures(mixtures, shares=None):
    """Combine several mixtures into one mixture.

    Parameters
    ----------
    mixtures : sequence of Mixture
        Mixtures of the same variables.
    shares : sequence of float, optional
        Weights of the mixtures, with sum 1. By default they are equal.

    Returns
    -------
    Mixture
        Mixture with the components of all mixtures.
    """
    shares = np.full(len(mixtures), 1.0 / len(mixtures)) if shares is None else shares
    weights = [m.log_weights + np.log(s) for m, s in zip(mixtures, shares, strict=True)]
    return replace(
        mixtures[0],
        log_weights=np.concatenate(weights),
        means=np.concatenate([m.means for m in mixtures]),
        covariances=np.concatenate([m.covariances for m in mixtures]),
        tables=np.concatenate([m.tables for m in mixtures]),
    )


def student_mixture(mixture, degrees):
    r"""Return the mixture with Student t distributions, nearly exactly, instead of Gaussians.

    A multivariate Student t distribution is a Gaussian whose covariance is divided by a random
    number :math:`g`, a gamma variable. The integral over :math:`\log g` is a sum over equidistant
    points. The covariances are multiplied by a constant so that they are those of the Gaussians.

    Parameters
    ----------
    mixture : Mixture
        Mixture of Gaussians.
    degrees : float
        Degrees of freedom of the distributions. With ``inf`` they are Gaussian.

    Returns
    -------
    Mixture
        Mixture with a component for each component and each point.
    """
    if np.isinf(degrees):
        return mixture
    factors, log_shares = student_scales(degrees, mixture.means.shape[1])
    copies = average_mixtures([mixture] * len(factors), np.exp(log_shares))
    factors = np.repeat(factors, mixture.n_components)
    return replace(copies, covariances=factors[:, None, None] * copies.covariances)


def student_terms(logs, squares, n_numbers, scales):
    """Return the log-densities of rows under the components of :func:`student_mixture`.

    Parameters
    ----------
    logs : ndarray of shape (n_components, n_rows)
        Joint log-densities of the components and rows of the mixture of Gaussians, in nats.
    squares : ndarray of shape (n_components, n_rows)
        Squared Mahalanobis distances of the rows from the means.
    n_numbers : int or ndarray of shape (n_rows,)
        Number of observed numbers of each row.
    scales : tuple of (ndarray, ndarray)
        Result of :func:`student_scales`.

    Returns
    -------
    ndarray of shape (n_scales, n_components, n_rows)
        Joint log-densities in nats of the components with each factor of their covariances.
    """
    factors, log_shares = (part[:, None, None] for part in scales)
    terms = 0.5 * (1.0 - 1.0 / factors) * squares - 0.5 * np.log(factors) * n_numbers
    return logs + terms + log_shares


def student_log_densities(*args):
    """Return the log-densities of rows in nats, from the arguments of :func:`student_terms`."""
    terms = student_terms(*args)
    return logsumexp_along(terms.reshape(-1, terms.shape[-1]))


def student_scales(degrees, n_numbers):
    """Return factors of Gaussian covariances that give a Student t distribution.

    The logarithms of their weights are also returned. Distributions of more numbers need more
    factors.
    """
    if np.isinf(degrees):
        return np.ones(1), np.zeros(1)
    half, step = 0.5 * degrees, SCALE_STEP * np.sqrt(2.0 / (degrees + n_numbers))
    low, high = np.log(gammaincinv(half, [MAX_TAILS[0], 1.0 - MAX_TAILS[1]]) / half)
    points = np.linspace(low, high, int(np.ceil((high - low) / step)) + 1)
    log_shares = half * (points - np.exp(points))
    log_shares -= np.log(np.exp(log_shares).sum())
    factors = np.exp(-points)
    return factors / (np.exp(log_shares) @ factors), log_shares


def missing_patterns(X):
    """Return the index of the missing-value pattern of each row, and a row with each pattern."""
    packed = np.packbits(~np.isnan(X), axis=1)
    if not packed.shape[1]:
        return np.zeros(len(X), np.int64), X[:1]
    names = np.ascontiguousarray(packed).view(f"V{packed.shape[1]}").ravel()
    _, first, pattern = np.unique(names, return_index=True, return_inverse=True)
    return pattern.astype(np.int64), X[first]
