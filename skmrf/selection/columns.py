"""Columns that edges can be learned between."""

from dataclasses import dataclass

import numpy as np

from .._types import MISSING


@dataclass(frozen=True, eq=False)
class Columns:
    """Columns that vary, each once.

    Attributes
    ----------
    kept : ndarray of int
        The first of all columns that say the same, if they vary.
    copies : list of (int, int)
        Pairs (kept column, other column) of which each state of one means a state of the other.
    """

    kept: np.ndarray
    copies: list

    @classmethod
    def of(cls, X, same_states=False):
        """The columns of state codes, MISSING where not observed.

        With ``same_states`` a column of more than two states is a copy of one of the same codes
        only.
        """
        first, kept, copies = {}, [], []
        for j, column in enumerate(X.T):
            codes = relabelled(column)
            if codes.max() < 1:
                continue
            if same_states and codes.max() > 1:
                codes = column.astype(codes.dtype)
            original = first.setdefault(codes.tobytes(), j)
            if original == j:
                kept.append(j)
            else:
                copies.append((original, j))
        return cls(np.array(kept, dtype=np.int64), copies)


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
