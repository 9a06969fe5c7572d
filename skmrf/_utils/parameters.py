"""Validation of parameters."""

import inspect
import numbers

import numpy as np


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
