"""Training rows of structure learning: removal of redundant columns, encoding, weights."""

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from scipy.special import gammaln

from .._utils.codes import MISSING
from .._utils.log_weights import check_sample_weight
from .._utils.rows import Batch
from .._utils.warn import warn_caller
from ..samplers import Product, spawn_generators, sweep
from .regression import one_hot
from .screening import count_observed_pairs
from .significance import MIN_CELL_COUNT

MAX_COINCIDENCE = 1e-3  # largest probability of equality by chance of a duplicate
IMPUTATION_SWEEPS = 20


@dataclass(frozen=True, eq=False)
class Columns:
    """Columns that the graph search uses, and duplicate columns that it does not use.

    Two columns are duplicates if their states correspond one to one.

    Attributes
    ----------
    kept : ndarray of int
        Indices of the columns of the search: the first of each set of duplicates.
    duplicates : list of (int, int)
        Pairs of a column of the search and a duplicate of it.
    duplicate_p : list of float
        For each pair, an upper bound on the probability that any two columns are duplicates by
        chance.
    """

    kept: np.ndarray
    duplicates: list
    duplicate_p: list

    @classmethod
    def from_codes(cls, X, weights, same_states=False):
        """Find the constant and duplicate columns in an array of state codes.

        Entries that are not observed have the code MISSING.

        Both columns are kept if they may be equal by chance, as with few rows or rare states. With
        ``same_states``, duplicates of more than two states must have the same codes.
        """
        keyed = []
        for j, column in enumerate(X.T):
            codes = relabel_states(column)
            n_codes = codes.max() + 1
            if same_states and n_codes > 2:
                codes = column.astype(codes.dtype)
            if n_codes > 1:
                keyed.append((j, codes, coincidence_probability))
        return cls.from_keys(keyed, X.shape[1], weights)

    @classmethod
    def from_keys(cls, keyed, n_columns, weights):
        """Find duplicates among columns that are not constant.

        Parameters
        ----------
        keyed : list of (int, ndarray of int, callable)
            For each column that is not constant: its index, an array that is equal for duplicates,
            and a function of the array and the weights that returns the probability that a random
            permutation of the column is a duplicate of it.
        n_columns : int
            Number of columns.
        weights : ndarray of shape (n_rows,)
            Sample weights.
        """
        first, kept, duplicates, p = {}, [], [], []
        n_pairs = n_columns * (n_columns - 1) / 2
        for j, codes, probability in keyed:
            original = first.setdefault((probability, codes.tobytes()), j)
            chance = 1.0 if original == j else n_pairs * probability(codes, weights)
            if chance > MAX_COINCIDENCE:
                kept.append(j)
            else:
                duplicates.append((original, j))
                p.append(chance)
        return cls(np.array(kept, dtype=np.int64), duplicates, p)


def coincidence_probability(codes, weights):
    r"""Return the probability that a random permutation of a column is a duplicate of the column.

    .. math:: \frac{m \prod_s n_s!}{N!}

    where :math:`n_s` rows have state s, N is the number of rows, and m is the number of
    permutations of states with equal counts.

    Parameters
    ----------
    codes : ndarray of int, shape (n_rows,)
        State codes, MISSING where not observed.
    weights : ndarray of shape (n_rows,)
        Sample weights: how often each row counts.
    """
    observed = codes != MISSING
    counts = np.bincount(codes[observed], weights[observed])
    _, n_equal = np.unique(counts, return_counts=True)
    log_ways = gammaln(n_equal + 1.0).sum() + gammaln(counts + 1.0).sum()
    return float(np.exp(log_ways - gammaln(counts.sum() + 1.0)))


def relabel_states(column):
    """Return the column with its states renumbered in the order of their first occurrence."""
    values, first, inverse = np.unique(column, return_index=True, return_inverse=True)
    rank = np.empty(len(values), dtype=np.int32)
    observed = values != MISSING
    order = np.argsort(first[observed])
    rank[np.flatnonzero(observed)[order]] = np.arange(len(order))
    rank[~observed] = MISSING
    return rank[inverse]


def duplicate_table(X, original, duplicate, n_states):
    """Return the table of two duplicate columns: 0 for observed joint states, -inf for others."""
    observed = X[:, original] != MISSING
    table = np.full((n_states[original], n_states[duplicate]), -np.inf)
    table[X[observed, original], X[observed, duplicate]] = 0.0
    return table


class WeightedRows:
    """Base class of encoded training rows with sample weights.

    A subclass has the attributes ``X``, ``weights`` and ``n_states``. Missing entries of ``X`` are
    nan in arrays of floats, and otherwise MISSING.
    """

    @property
    def observed(self):
        """Mask of the observed entries, shape (n_rows, n_variables)."""
        return ~np.isnan(self.X) if self.X.dtype.kind == "f" else self.X != MISSING

    @property
    def count(self):
        """Weighted number of rows: the sum of the weights."""
        return float(self.weights.sum())

    @cached_property
    def has_missing(self):
        """True if any entry is missing."""
        return not bool(self.observed.all())

    @cached_property
    def _observed_pair_counts(self):
        return count_observed_pairs(self.observed, self.weights)

    def count_observed(self, edges):
        """Return, for each edge, the weighted number of rows that observe both variables."""
        if not self.has_missing:
            return np.full(len(edges), self.count)
        return self._observed_pair_counts[edges[:, 0], edges[:, 1]]

    def select_columns(self, columns):
        """Return rows with some of the columns only."""
        X = np.ascontiguousarray(self.X[:, columns])
        return type(self)(X, self.weights, self.n_states[columns])

    def reweight(self, factors):
        """Multiply the row weights by factors; return the rows with positive factors."""
        kept = factors > 0
        return type(self)(self.X[kept], self.weights[kept] * factors[kept], self.n_states)


@dataclass(frozen=True, eq=False)
class Rows(WeightedRows):
    """Training rows as state codes, with sample weights.

    Attributes
    ----------
    X : ndarray of shape (n_rows, n_variables)
        State codes, MISSING where not observed.
    weights : ndarray of shape (n_rows,)
        Positive sample weights; a row of weight 2 counts as two equal rows.
    n_states : ndarray of shape (n_variables,)
        Number of states of each variable.
    """

    X: np.ndarray
    weights: np.ndarray
    n_states: np.ndarray

    @cached_property
    def batch(self):
        """One batch with all rows, for the training loop."""
        equal = (self.weights == self.weights[0]).all()
        return Batch(self.X, None, None if equal else np.log(self.weights))

    def smoothed_frequencies(self, i):
        """Return the state frequencies of variable i, after 0.5 is added to each state count."""
        observed = self.X[:, i] != MISSING
        counts = np.bincount(
            self.X[observed, i], self.weights[observed], minlength=self.n_states[i]
        )
        return (counts + 0.5) / (counts.sum() + 0.5 * len(counts))

    def impute(self, energy, rng):
        """Return the rows with missing entries imputed by Gibbs chains, given the observed ones."""
        if not self.has_missing:
            return self
        observed = self.X != MISSING
        uniform = Product.uniform(self.n_states).sample(len(self.X), rng)
        start = np.where(observed, self.X, uniform)
        generators = spawn_generators(rng, len(start))
        X, _ = sweep(energy, start, generators, n_sweeps=IMPUTATION_SWEEPS, clamped=observed)
        return Rows(X, self.weights, self.n_states)


@dataclass(frozen=True, eq=False)
class TrainingTable:
    """Encoded training rows of all columns, and of the columns that the graph search uses.

    Attributes
    ----------
    categories : list of ndarray
        Categories of each column, empty for numbers.
    all_rows : Rows or MixedRows
        Rows of positive weight, with all columns.
    columns : Columns
        Columns of the search, and their duplicates.
    rows : Rows or MixedRows
        Rows of positive weight, with the columns of the search only.
    types : list of str
        Type of each column.
    encoder : ScoredColumns or None
        Encoder of a table with numeric columns.
    """

    categories: list
    all_rows: Rows
    columns: Columns
    rows: Rows
    types: list
    encoder: Any = None

    @classmethod
    def from_rows(cls, categories, rows, columns, types, encoder=None):
        """Create the table from encoded rows and the columns that the graph search uses."""
        selected = rows.select_columns(columns.kept)
        return cls(categories, rows, columns, selected, types, encoder)


def positive_rows(rows_type, X, n_states, sample_weight):
    """Return the rows of positive sample weight; warn if the weights sum to less than 2.

    Parameters
    ----------
    rows_type : type
        Class of the rows, :class:`Rows` or :class:`~skmrf.structure.mixed.MixedRows`.
    X : ndarray of shape (n_rows, n_columns)
        Encoded rows.
    n_states : list of int
        Number of states of each column.
    sample_weight : array-like of shape (n_rows,) or None
        Number of times that each row counts.
    """
    weights = check_sample_weight(sample_weight, len(X))
    weights = np.ones(len(X)) if weights is None else weights
    if sample_weight is not None and weights.sum() < 2.0:
        warn_caller(
            f"sample_weight sums to {weights.sum():.3g}, and this sum is used as the number of "
            "rows. If the weights are normalised, multiply them by the number of independent rows."
        )
    return rows_type(X, weights, np.array(n_states)).reweight(1.0 * (weights > 0))


def state_codes(states, weights, n_states):
    """Return numeric codes of categories, which have mean 0 and the identity as covariance.

    Parameters
    ----------
    states : ndarray of float of shape (n_rows,)
        State of each row, nan where missing.
    weights : ndarray of shape (n_rows,)
        Weight of each row.
    n_states : int
        Number of states.

    Returns
    -------
    ndarray of shape (n_states, n_occurring - 1)
        Codes of each state. The rows of states that do not occur are zero.
    """
    observed = ~np.isnan(states)
    counts = np.bincount(states[observed].astype(np.int64), weights[observed], minlength=n_states)
    occurs = counts > 0
    root = np.sqrt(counts[occurs] / max(counts.sum(), 1e-300))
    out = np.zeros((n_states, max(len(root) - 1, 0)))
    if len(root) > 1:
        mirror = root.copy()
        mirror[0] += 1.0  # reflection that maps the first unit vector to the root
        reflection = np.eye(len(root)) - np.outer(mirror, mirror) / mirror[0]
        out[occurs] = reflection[:, 1:] / root[:, None]
    return out


@dataclass(frozen=True, eq=False)
class Design:
    """Rows as regressors: a constant, and one column per number or code of a category.

    The regressors of missing entries are zero, which is their mean.

    Attributes
    ----------
    values : ndarray of shape (n_rows, n_columns)
        Regressors. Column 0 is constant.
    start : ndarray of shape (n_variables + 1,)
        First column of each variable. A constant variable has no column.
    states : list of (ndarray of int of shape (n_rows,), or None)
        States of each categorical variable, None for numeric variables.
    codes : list of ndarray of shape (n_states, n_codes)
        Codes of each categorical variable. Those of a numeric variable have the shape (0, 1), or
        (0, 0) if it is constant.
    weights : ndarray of shape (n_rows,)
        Number of times that each row counts.
    """

    values: np.ndarray
    start: np.ndarray
    states: list
    codes: list
    weights: np.ndarray

    @classmethod
    def from_rows(cls, X, weights, n_states, codes=None):
        """Return the design of rows; ``codes`` are those of other rows, if given."""
        sizes = n_states.tolist()
        if codes is None:
            codes = [_find_codes(x, weights, q) for x, q in zip(X.T, sizes, strict=True)]
        blocks, states = [], []
        for x, q, code in zip(X.T, sizes, codes, strict=True):
            known = np.where(np.isnan(x), 0.0, x)
            states.append(known.astype(np.int64) if q else None)
            block = code[states[-1]] if q else known[:, None][:, : code.shape[1]]
            blocks.append(np.where(np.isnan(x)[:, None], 0.0, block))
        start = np.cumsum([1] + [block.shape[1] for block in blocks])
        return cls(np.hstack([np.ones((len(X), 1)), *blocks]), start, states, codes, weights)

    def replace(self, variable, rows, drawn):
        """Replace the values of a variable in some rows by drawn numbers or states, in place."""
        block = slice(self.start[variable], self.start[variable + 1])
        if self.is_number(variable):
            self.values[rows, block] = drawn[:, None][:, : block.stop - block.start]
        else:
            states = drawn.astype(np.int64)
            self.values[rows, block] = self.codes[variable][states]
            self.states[variable][rows] = states

    @property
    def count(self):
        """Weighted number of rows."""
        return float(self.weights.sum())

    @cached_property
    def gram(self):
        """Weighted sums of the products of all regressors, shape (n_columns, n_columns)."""
        return self.values.T @ (self.values * self.weights[:, None])

    def is_number(self, variable):
        """Return True if a variable is numeric."""
        return self.states[variable] is None

    @property
    def sizes(self):
        """Number of regressors of each variable."""
        return np.diff(self.start)

    def columns(self, variables):
        """Return the indices of the constant and of all regressors of some variables."""
        parts = [np.arange(self.start[j], self.start[j + 1]) for j in variables]
        return np.concatenate([[0], *parts]).astype(np.int64)

    def patterns(self, partners):
        """Return the pattern of each row, given by the values of some variables.

        Parameters
        ----------
        partners : iterable of int
            Variables.

        Returns
        -------
        first : ndarray of shape (n_patterns,)
            First row of each pattern. Patterns are in lexicographic order.
        patterns : ndarray of shape (n_rows,)
            Pattern of each row.
        """
        keys, n_keys = np.zeros(len(self.values), dtype=np.int64), 1
        for j in partners:
            values, n_values = self._ranks(j)
            if n_keys * n_values > np.iinfo(np.int64).max:
                keys = np.unique(keys, return_inverse=True)[1]
                n_keys = int(keys.max()) + 1
                if n_keys == len(keys):
                    break
            keys, n_keys = keys * n_values + values, n_keys * n_values
        return np.unique(keys, return_index=True, return_inverse=True)[1:]

    def _ranks(self, variable):
        """Return the rank of each row's value of a variable, and the number of ranks."""
        if not self.is_number(variable):
            return self.states[variable], len(self.codes[variable])
        values, ranks = np.unique(self.values[:, self.start[variable]], return_inverse=True)
        return ranks, len(values)

    @cached_property
    def rarest(self):
        """Count of the rarest observed state of each variable, infinite for numeric variables."""
        counts = [np.inf if s is None else np.bincount(s, self.weights) for s in self.states]
        return np.array([np.min(c, initial=np.inf, where=c > 0) for c in counts])

    def has_rare_cell(self, i, j):
        """Return True for categorical variables with a joint state of small expected count.

        The expected count is that of independent variables. ``j`` can be an array of variables.
        """
        return self.rarest[i] * self.rarest[j] < MIN_CELL_COUNT * self.count

    def indicators(self, variable):
        """Return a regressor for each state of a variable, or its numbers, and their codes."""
        if self.is_number(variable):
            return self.values[:, self.start[variable]][:, None], np.ones((1, 1))
        codes = self.codes[variable]
        return one_hot(self.states[variable], len(codes)), codes


def _find_codes(x, weights, n_states):
    """Return the codes of a categorical variable, or an array of a column for each number."""
    if n_states:
        return state_codes(x, weights, n_states)
    known = x[~np.isnan(x)]
    is_constant = not len(known) or known.min() == known.max()
    return np.ones((0, 0 if is_constant else 1))
