"""Numbers to the codes of two states."""

import numbers

import numpy as np

from .._utils.codes import MISSING, STATE
from .._utils.parameters import check_number

OTHER_KINDS = "give two states as numbers, or take DiscreteMRF, which learns from any categories."


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
