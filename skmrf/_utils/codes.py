"""Codes of discrete states: data type, code of missing values, and validation."""

import numbers
from collections.abc import Mapping

import numpy as np

STATE = np.dtype(np.int16)
MISSING = -1
MAX_STATES = int(np.iinfo(STATE).max)


def check_states(X, n_states, *, allow_missing=False):
    """Return state codes as a C-ordered array of dtype STATE, shape (n_rows, n_variables).

    A code that is negative, or at least ``n_states`` of its column, raises a ValueError. With
    ``allow_missing``, the code MISSING is accepted.
    """
    X = np.asarray(X)
    n_states = np.asarray(n_states)
    if X.ndim != 2 or X.shape[1] != len(n_states):
        raise ValueError(
            f"States must have shape (n_rows, {len(n_states)}), one column per variable; "
            f"got {X.shape}."
        )
    if not _holds_integers(X):
        raise ValueError(f"States must be integer codes 0 .. n_states - 1; got dtype {X.dtype}.")
    if X.size:
        low, high = X.min(axis=0), X.max(axis=0)
        wrong = np.flatnonzero((low < (MISSING if allow_missing else 0)) | (high >= n_states))
        if wrong.size:
            i = wrong[0]
            codes = f"codes 0 to {n_states[i] - 1}" + f", {MISSING} if missing" * allow_missing
            raise ValueError(
                f"Variable {i} has {n_states[i]} states ({codes}), but codes from {low[i]} to "
                f"{high[i]} were given."
            )
    return np.ascontiguousarray(X, dtype=STATE)


def _holds_integers(X):
    if np.issubdtype(X.dtype, np.floating):
        return bool((np.floor(X) == X).all())
    return np.issubdtype(X.dtype, np.integer) or X.dtype == bool


def check_evidence(evidence, n_states):
    """Return evidence as a dict from variable to state code, or raise a ValueError."""
    evidence = {} if evidence is None else evidence
    if not isinstance(evidence, Mapping):
        raise ValueError(
            "evidence must be a dict from variables to states, or None; got "
            f"{type(evidence).__name__}."
        )
    checked = {}
    for variable, state in evidence.items():
        if not isinstance(variable, numbers.Integral) or not 0 <= variable < len(n_states):
            raise ValueError(
                f"Evidence names variable {variable!r}, but the variables are 0 to "
                f"{len(n_states) - 1}."
            )
        if not isinstance(state, numbers.Integral):
            raise ValueError(
                f"Evidence gives variable {variable} the state {state!r}; its states are integers, "
                f"0 to {n_states[variable] - 1}."
            )
        if not 0 <= state < n_states[variable]:
            raise ValueError(
                f"Evidence gives variable {variable} the state {state!r}, but its states are 0 to "
                f"{n_states[variable] - 1}."
            )
        checked[int(variable)] = int(state)
    return checked


def check_evidence_row(evidence, n_states):
    """Return the evidence as a state code per variable; unobserved variables have MISSING."""
    if evidence is None:
        return np.full(len(n_states), MISSING, dtype=STATE)
    row = np.asarray(evidence)
    if row.shape != (len(n_states),) or not np.issubdtype(row.dtype, np.integer):
        raise ValueError(
            f"evidence must be an array of integers of shape ({len(n_states)},): the state code of "
            f"each observed variable and {MISSING} for all others; got {evidence!r}."
        )
    wrong = np.flatnonzero((row < MISSING) | (row >= n_states))
    if wrong.size:
        i = wrong[0]
        raise ValueError(
            f"Evidence gives variable {i} the state {row[i]}, but its states are 0 to "
            f"{n_states[i] - 1}, and {MISSING} means not observed."
        )
    return row.astype(STATE)


def state_columns(n_states):
    """Return the variable and the state of each column of an array of all states.

    Parameters
    ----------
    n_states : ndarray of int of shape (n_variables,)
        Number of states of each variable.

    Returns
    -------
    owner, state : ndarray of int of shape (n_total_states,)
        Variables and state codes. Each variable has one column per state.
    """
    owner = np.repeat(np.arange(len(n_states)), n_states)
    return owner, np.arange(len(owner)) - (np.cumsum(n_states) - n_states)[owner]
