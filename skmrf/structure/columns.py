"""Columns of the graph search, and detection of constant and duplicate columns."""

from dataclasses import dataclass

import numpy as np
from scipy.special import gammaln

from .._utils.codes import MISSING

MAX_COINCIDENCE = 1e-3  # largest probability of equality by chance of a duplicate


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
        first, kept, duplicates, p = {}, [], [], []
        n_pairs = X.shape[1] * (X.shape[1] - 1) / 2
        for j, column in enumerate(X.T):
            codes = relabel_states(column)
            if codes.max() < 1:
                continue
            if same_states and codes.max() > 1:
                codes = column.astype(codes.dtype)
            original = first.setdefault(codes.tobytes(), j)
            chance = 1.0 if original == j else n_pairs * coincidence_probability(codes, weights)
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
