"""Columns that edges can be learned between."""

from dataclasses import dataclass

import numpy as np
from scipy.special import gammaln

from .._utils.codes import MISSING

BY_CHANCE = 1e-3  # probability of any coincidence taken for a copy


@dataclass(frozen=True, eq=False)
class Columns:
    """Columns that vary, each once.

    Attributes
    ----------
    kept : ndarray of int
        The first of all columns that say the same, if they vary.
    copies : list of (int, int)
        Pairs (kept column, other column) of which each state of one means a state of the other.
    copied_p : list of float
        The probability that chance alone would make any pair of columns such a pair, at most.
    """

    kept: np.ndarray
    copies: list
    copied_p: list

    @classmethod
    def of(cls, X, weights, same_states=False):
        """The columns of state codes, MISSING where not observed.

        Columns that agree no more than may be chance, those of few rows or of rare states, are
        both kept. With ``same_states`` a column of more than two states is a copy of one of the
        same codes only.
        """
        first, kept, copies, p = {}, [], [], []
        n_pairs = X.shape[1] * (X.shape[1] - 1) / 2
        for j, column in enumerate(X.T):
            codes = relabelled(column)
            if codes.max() < 1:
                continue
            if same_states and codes.max() > 1:
                codes = column.astype(codes.dtype)
            original = first.setdefault(codes.tobytes(), j)
            chance = 1.0 if original == j else n_pairs * coincidence(codes, weights)
            if chance > BY_CHANCE:
                kept.append(j)
            else:
                copies.append((original, j))
                p.append(chance)
        return cls(np.array(kept, dtype=np.int64), copies, p)


def coincidence(codes, weights):
    r"""Probability that a permutation of a column tells the same rows apart as the column.

    .. math:: \frac{m \prod_s n_s!}{N!}

    with :math:`n_s` rows of state s, N in all, and m ways to name states of equal numbers.

    Parameters
    ----------
    codes : ndarray of int, shape (n_rows,)
        MISSING where not observed.
    weights : ndarray of shape (n_rows,)
        How often a row counts.
    """
    seen = codes != MISSING
    counts = np.bincount(codes[seen], weights[seen])
    _, alike = np.unique(counts, return_counts=True)
    ways = gammaln(alike + 1.0).sum() + gammaln(counts + 1.0).sum()
    return float(np.exp(ways - gammaln(counts.sum() + 1.0)))


def relabelled(column):
    """State codes in the order in which they first occur."""
    values, first, place = np.unique(column, return_index=True, return_inverse=True)
    rank = np.empty(len(values), dtype=np.int32)
    seen = values != MISSING
    order = np.argsort(first[seen])
    rank[np.flatnonzero(seen)[order]] = np.arange(len(order))
    rank[~seen] = MISSING
    return rank[place]


def copied_table(X, original, copy, n_states):
    """Log-potentials that allow just the joint states that occur of a column and its copy."""
    shown = X[:, original] != MISSING
    table = np.full((n_states[original], n_states[copy]), -np.inf)
    table[X[shown, original], X[shown, copy]] = 0.0
    return table
