"""Checks of what users hand in; every message names what was found and what would be accepted."""

import inspect
import numbers
import os
import sys
import warnings
from collections.abc import Mapping

import joblib
import numpy as np
import sklearn

from ._types import MISSING, STATE


def check_states(X, n_states):
    """State codes as a C-ordered array of dtype STATE, shape (n_rows, n_variables).

    Codes below 0 or at least ``n_states`` of their column are refused.
    """
    X = np.asarray(X)
    n_states = np.asarray(n_states)
    if X.ndim != 2 or X.shape[1] != len(n_states):
        raise ValueError(
            f"States must have shape (n_rows, {len(n_states)}), one column a variable; "
            f"got {X.shape}."
        )
    if not _holds_integers(X):
        raise ValueError(f"States are integer codes 0 .. n_states - 1; got dtype {X.dtype}.")
    if X.size:
        low, high = X.min(axis=0), X.max(axis=0)
        wrong = np.flatnonzero((low < 0) | (high >= n_states))
        if wrong.size:
            i = wrong[0]
            raise ValueError(
                f"Variable {i} has {n_states[i]} states (codes 0 to {n_states[i] - 1}), but codes "
                f"from {low[i]} to {high[i]} were given."
            )
    return np.ascontiguousarray(X, dtype=STATE)


def _holds_integers(X):
    if np.issubdtype(X.dtype, np.floating):
        return bool((np.floor(X) == X).all())
    return np.issubdtype(X.dtype, np.integer) or X.dtype == bool


def check_evidence(evidence, n_states):
    """``{variable: state}`` as a dict of ints, checked against the numbers of states."""
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
        if not isinstance(state, numbers.Integral) or not 0 <= state < n_states[variable]:
            raise ValueError(
                f"Evidence gives variable {variable} the state {state!r}, but its states are 0 to "
                f"{n_states[variable] - 1}."
            )
        checked[int(variable)] = int(state)
    return checked


def check_evidence_row(evidence, n_states):
    """State codes of all variables, MISSING where not observed; None observes nothing."""
    if evidence is None:
        return np.full(len(n_states), MISSING, dtype=STATE)
    row = np.asarray(evidence)
    if row.shape != (len(n_states),) or not np.issubdtype(row.dtype, np.integer):
        raise ValueError(
            f"evidence must be an array of integers of shape ({len(n_states)},): the state code of "
            f"every observed variable, {MISSING} elsewhere; got {evidence!r}."
        )
    wrong = np.flatnonzero((row < MISSING) | (row >= n_states))
    if wrong.size:
        i = wrong[0]
        raise ValueError(
            f"Evidence gives variable {i} the state {row[i]}, but its states are 0 to "
            f"{n_states[i] - 1}, and {MISSING} where it is not observed."
        )
    return row.astype(STATE)


def check_choice(name, value, choices):
    """One of the strings in ``choices``."""
    if not isinstance(value, str) or value not in choices:
        raise ValueError(f"{name} must be one of {sorted(choices)}; got {value!r}.")
    return value


def check_auto(name, value):
    """A switch that may be left to the estimator."""
    if value != "auto":
        raise ValueError(f'{name} must be True, False or "auto"; got {value!r}.')
    return value


def check_covariance(name, value, n):
    """A covariance of n numbers as floats."""
    try:
        found = np.asarray(value, dtype=float)
    except (TypeError, ValueError):
        found = np.zeros(0)
    right = found.shape == (n, n) and np.isfinite(found).all() and np.allclose(found, found.T)
    if not right or (n and np.linalg.eigvalsh(found)[0] <= 0):
        raise ValueError(
            f"{name} must be a symmetric positive definite matrix of shape {(n, n)}, one row a "
            f"column of numbers; got {value!r}."
        )
    return found


def check_options(method, function, options, given=()):
    """Options that the function of a method takes by keyword, but for those that are given."""
    known = [
        name
        for name, parameter in inspect.signature(function).parameters.items()
        if parameter.kind is parameter.KEYWORD_ONLY and name not in given
    ]
    for name in options:
        if name not in known:
            raise TypeError(
                f"method={method!r} has no option {name!r}; its options are {known or 'none'}."
            )


def check_number(name, value, *, low=None, high=None, integer=False, open_low=False):
    """A finite number in the range given; booleans are no numbers."""
    kind = numbers.Integral if integer else numbers.Real
    what = "an integer" if integer else "a number"
    if isinstance(value, bool | np.bool_) or not isinstance(value, kind) or not np.isfinite(value):
        raise ValueError(f"{name} must be {what}; got {value!r}.")
    too_low = low is not None and (value <= low if open_low else value < low)
    if too_low or (high is not None and value > high):
        sign = ">" if open_low else ">="
        bounds = [f"{sign} {low}"] * (low is not None) + [f"<= {high}"] * (high is not None)
        raise ValueError(f"{name} must be {what} {' and '.join(bounds)}; got {value!r}.")
    return value


def check_number_or(names, name, value, **bounds):
    """One of some names, among which None may be, or a number in a range."""
    named = value is None or isinstance(value, str)
    if named and value in names:
        return value
    if named or isinstance(value, bool | np.bool_) or not isinstance(value, numbers.Real):
        shown = ", ".join("None" if n is None else f'"{n}"' for n in names)
        raise ValueError(f"{name} must be {shown} or a number; got {value!r}.")
    return check_number(name, value, **bounds)


def check_flag(name, value):
    """Check a parameter that is True or False."""
    if not isinstance(value, bool | np.bool_):
        raise ValueError(f"{name} must be True or False; got {value!r}.")


def check_generator(random_state):
    """A ``numpy.random.Generator`` from whatever scikit-learn takes as ``random_state``."""
    if isinstance(random_state, np.random.Generator):
        return random_state
    seeded = isinstance(random_state, numbers.Integral) and random_state >= 0
    if random_state is None or seeded:
        return np.random.default_rng(random_state)
    if isinstance(random_state, np.random.RandomState):
        return np.random.default_rng(random_state.randint(0, 2**31 - 1, size=4))
    raise ValueError(
        "random_state must be None, an int >= 0, a numpy.random.RandomState or a "
        f"numpy.random.Generator; got {random_state!r}."
    )


def check_sample_weight(sample_weight, n_rows):
    """Weights as floats, or None; negative, infinite or all-zero ones are refused."""
    if sample_weight is None:
        return None
    weights = np.asarray(sample_weight, dtype=float)
    if weights.ndim == 0:
        weights = np.full(n_rows, float(weights))
    if weights.shape != (n_rows,):
        raise ValueError(
            f"sample_weight.shape == {weights.shape}, expected {(n_rows,)}: one weight a row."
        )
    if not np.isfinite(weights).all() or (weights < 0).any():
        bad = np.flatnonzero(~(np.isfinite(weights) & (weights >= 0)))[0]
        raise ValueError(
            f"sample_weight[{bad}] is {weights[bad]}; weights must be finite and not negative."
        )
    if not weights.any():
        raise ValueError("All sample weights are zero; at least one row must count.")
    return weights


def warn_caller(message, category=UserWarning):
    """Warn of the first line outside of this package, scikit-learn and joblib that led here."""
    inside = tuple(os.path.dirname(file) for file in (__file__, sklearn.__file__, joblib.__file__))
    frame, level = sys._getframe(1), 2
    while frame.f_back is not None and frame.f_code.co_filename.startswith(inside):
        frame, level = frame.f_back, level + 1
    warnings.warn(message, category, stacklevel=level)


def check_energy(energy, has="n_states"):
    """Tell an estimator, or anything else, from an energy that has an attribute."""
    if not hasattr(energy, has):
        raise TypeError(
            "energy must be an energy of discrete variables, such as energy_ of a DiscreteMRF; got "
            f"{type(energy).__name__}."
        )


def factor_graph_of(energy):
    """The factor graph of an energy."""
    check_energy(energy, "factor_graph")
    return energy.factor_graph()
