"""Parameter validation, random generators, texts of errors, and the identity of an estimator."""

import inspect
import math
import numbers

import numpy as np


def check_choice(name, value, choices):
    """Return the value if it is one of ``choices``, or raise a ValueError."""
    if not isinstance(value, str) or value not in choices:
        raise ValueError(f"{name} must be one of {sorted(choices)}; got {value!r}.")
    return value


def check_auto(name, value, others="True, False"):
    """Return the value if it is "auto", or raise a ValueError."""
    if not isinstance(value, str) or value != "auto":
        raise ValueError(f'{name} must be {others} or "auto"; got {value!r}.')
    return value


def check_covariance(name, value, n):
    """Return a covariance matrix of n columns as floats, or raise a ValueError if it is invalid."""
    try:
        cov = np.asarray(value, dtype=float)
    except (TypeError, ValueError):
        cov = np.zeros(0)
    is_valid = cov.shape == (n, n) and np.isfinite(cov).all() and np.allclose(cov, cov.T)
    if not is_valid or (n and np.linalg.eigvalsh(cov)[0] <= 0):
        raise ValueError(
            f"{name} must be a symmetric positive definite matrix of shape {(n, n)}, one row per "
            f"continuous column; got {value!r}."
        )
    return cov


def check_options(method, function, options, given=()):
    """Raise a TypeError if an option is not a keyword-only parameter of a function."""
    allowed = [
        name
        for name, parameter in inspect.signature(function).parameters.items()
        if parameter.kind is parameter.KEYWORD_ONLY and name not in given
    ]
    for name in options:
        if name not in allowed:
            raise TypeError(
                f"method={method!r} has no option {name!r}; its options are {allowed or 'none'}."
            )


def check_number(
    name, value, *, low=None, high=None, integer=False, open_low=False, open_high=False
):
    """Return the value if it is a finite number in the given range, or raise a ValueError."""
    number_type = numbers.Integral if integer else numbers.Real
    what = "an integer" if integer else "a number"
    if (
        isinstance(value, bool | np.bool_)
        or not isinstance(value, number_type)
        or not _is_finite(value)
    ):
        raise ValueError(f"{name} must be {what if integer else 'a finite number'}; got {value!r}.")
    too_low = low is not None and (value <= low if open_low else value < low)
    too_high = high is not None and (value >= high if open_high else value > high)
    if too_low or too_high:
        signs = ">" if open_low else ">=", "<" if open_high else "<="
        limits = zip(signs, (low, high), strict=True)
        bounds = [f"{sign} {limit}" for sign, limit in limits if limit is not None]
        raise ValueError(f"{name} must be {what} {' and '.join(bounds)}; got {value!r}.")
    return value


def _is_finite(value):
    """Return whether a number is finite as a float; integers above the float range are not."""
    try:
        return math.isfinite(value)
    except OverflowError:
        return False


def check_bytes(max_bytes):
    """Raise a ValueError unless a limit of memory is at least 0; inf means no limit."""
    is_number = isinstance(max_bytes, numbers.Real) and not isinstance(max_bytes, bool | np.bool_)
    if not (is_number and max_bytes >= 0):
        raise ValueError(f"max_bytes must be a number of bytes, at least 0; got {max_bytes!r}.")


def check_number_or(names, name, value, **bounds):
    """Return the value if it is one of ``names`` or a number in a range, or raise a ValueError."""
    is_name = value is None or isinstance(value, str)
    if is_name and value in names:
        return value
    if is_name or isinstance(value, bool | np.bool_) or not isinstance(value, numbers.Real):
        shown = ", ".join("None" if n is None else f'"{n}"' for n in names)
        raise ValueError(f"{name} must be {shown} or a number; got {value!r}.")
    return check_number(name, value, **bounds)


def show_list(values, max_shown=8):
    """Return a list as text; a list of more than ``max_shown`` values is cut and ends in "..."."""
    shown = [repr(v) for v in values[:max_shown]] + ["..."] * (len(values) > max_shown)
    return f"[{', '.join(shown)}]"


def check_flag(name, value):
    """Raise a ValueError unless the value is True or False."""
    if not isinstance(value, bool | np.bool_):
        raise ValueError(f"{name} must be True or False; got {value!r}.")


def identity_of(estimator):
    """Return the class name and the parameters of an object; equal objects give equal results."""
    if not hasattr(estimator, "get_params"):
        return type(estimator).__name__
    return type(estimator).__name__, repr(sorted(estimator.get_params().items()))


def check_counts(estimator, *names, optional=()):
    """Raise a ValueError unless each parameter is a positive integer (or None, if optional)."""
    for name in (*names, *optional):
        value = getattr(estimator, name)
        if value is not None or name not in optional:
            check_number(name, value, low=1, integer=True)


def check_generator(random_state):
    """Return a ``numpy.random.Generator`` for any ``random_state`` that scikit-learn accepts."""
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
