"""Numbers to the codes of two states."""

import numbers
from dataclasses import dataclass

import numpy as np
from scipy.sparse import csr_matrix, issparse

from .._utils.codes import MISSING, STATE
from .._utils.parameters import check_number
from .numeric import numeric_rows

OTHER_KINDS = "give two states as numbers, or take DiscreteMRF, which learns from any categories."


@dataclass(frozen=True)
class TwoStateEncoder:
    """Encoding of numbers as codes of two states.

    Attributes
    ----------
    names : list
        Names of the columns, for errors.
    states : pair of float
        The lower and the upper state.
    binarize : float or None
        Numbers above it are the upper state; None takes nothing but the two states.
    """

    names: list
    states: tuple
    binarize: float | None

    def read(self, estimator, X):
        """Return rows to query a fitted estimator with, as an array of numbers."""
        return numeric_rows(estimator, X, reset=False, remedy=OTHER_KINDS, missing=True)

    def encode(self, X):
        """Return state codes of shape (n_rows, n_columns), MISSING for nan."""
        return two_state_codes(X, self.states, self.binarize, self.names)

    def encode_row(self, row):
        """Return the state codes of an object array of shape (1, n_columns); None is missing."""
        return self.encode(row.astype(float))

    def encode_complete(self, X):
        """Return the codes of complete rows as int8, sparse if X is and the lower state is 0."""
        if not issparse(X):
            return self.encode(X).astype(np.int8)
        if self.binarize is not None and self.binarize < 0:
            return self.encode_complete(X.toarray())
        if not X.has_canonical_format:
            X = X.copy()
            X.sum_duplicates()
        names = np.array(self.names, dtype=object)[X.indices]
        stored = two_state_codes(X.data[None, :], self.states, self.binarize, names)[0]
        has_zeros = not stored.all()
        codes = csr_matrix(
            (stored.astype(np.int8), X.indices, X.indptr), shape=X.shape, copy=has_zeros
        )
        if has_zeros:  # removed in place, so not from the caller's arrays
            codes.eliminate_zeros()
        return codes

    def decode(self, codes):
        """Return the states of complete codes, as integers if both states are."""
        states = np.array(self.states)
        whole = states.astype(int)
        return (whole if (whole == states).all() else states)[codes]


def check_two_states(states):
    """The two states as floats; two increasing finite numbers."""
    try:
        low, high = states
    except (TypeError, ValueError):
        low = high = None
    numeric = all(isinstance(s, numbers.Real) for s in (low, high))
    if not numeric or not -np.inf < low < high < np.inf:
        raise ValueError(f"states must be two increasing finite numbers; got {states!r}.")
    return float(low), float(high)


def check_threshold(binarize):
    """The threshold of ``binarize``, or None."""
    return None if binarize is None else check_number("binarize", binarize)


def two_state_codes(X, states, binarize, names):
    """State codes of numbers: 0 for the lower and 1 for the upper state, MISSING for nan.

    Parameters
    ----------
    X : ndarray of numbers of shape (n_rows, n_columns)
    states : pair of float
    binarize : float or None
        Above it is the upper state; None takes nothing but the two states.
    names : list
        Of the columns, for errors.

    Raises
    ------
    ValueError
        Other numbers where ``binarize`` is None; infinity.
    """
    low, high = states
    X = X.astype(float) if X.dtype == object else X  # None becomes nan
    absent = np.isnan(X)
    if binarize is None:
        upper = np.equal(X, high)
        wrong = ~(upper | absent | np.equal(X, low))
    else:
        upper = np.greater(X, binarize)
        wrong = np.isinf(X)
    if wrong.any():
        _refuse(X, wrong, states, names)
    codes = upper.astype(STATE, order="C")  # sums then have one order
    codes[absent] = MISSING
    return codes


def _refuse(X, wrong, states, names):
    column = int(np.flatnonzero(wrong.any(axis=0))[0])
    value = X[wrong[:, column], column][0].item()
    if np.isinf(value):
        raise ValueError(
            f"Column {names[column]!r} holds infinity; use nan for a missing entry or a finite "
            "number."
        )
    raise ValueError(
        f"Column {names[column]!r} holds {value!r}, but the states are {states[0]:g} and "
        f"{states[1]:g}. Give a threshold as binarize= (above it is the upper state), or data "
        "of these states only."
    )
