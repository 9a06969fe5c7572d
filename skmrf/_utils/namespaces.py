"""Arithmetic that is the same for arrays of numpy and JAX, and the numbers in nested objects.

A compiled function takes the numbers of its settings as arguments. It need not be compiled again if
only they change.
"""

from copy import copy

import numpy as np
from scipy.special import expit

N_EQUAL_ROWS = 8  # of a matrix that takes the place of a vector


def namespace(array):
    """Return the module with the functions of an array: ``numpy``, or ``jax.numpy``."""
    return getattr(array, "__array_namespace__", lambda: np)()


def is_numpy(array):
    """Return whether an array is a numpy array, a list or a sparse matrix."""
    return namespace(array) is np


def as_numpy(array):
    """Return an array of JAX as a numpy array, and other things unchanged."""
    return array if is_numpy(array) else np.asarray(array)


def are_same(a, b):
    """Return whether two arrays are the same array of JAX, or equal arrays of numpy."""
    if not (is_numpy(a) and is_numpy(b)):
        return a is b
    return a.dtype == b.dtype and np.array_equal(a, b)


def sigmoid(x):
    """Return ``1 / (1 + exp(-x))``."""
    return expit(x) if is_numpy(x) else 1.0 / (1.0 + namespace(x).exp(-x))


def replace_zeros(log_potentials):
    """Return log-potentials with 0 in place of -inf, the logarithm of a zero potential.

    Arrays of JAX are returned unchanged, because devices take no zero potentials.
    """
    if not is_numpy(log_potentials):
        return log_potentials
    is_zero = log_potentials == -np.inf
    return np.where(is_zero, 0.0, log_potentials) if is_zero.any() else log_potentials


def own_array(array, dtype):
    """Return a contiguous array of numpy that may be overwritten: the same array if possible."""
    flags = array.flags
    is_reusable = array.dtype == dtype and flags.c_contiguous and flags.writeable
    return array if is_reusable else np.array(array, dtype=dtype, order="C")


def difference(new, old):
    """Return the change of log-potentials, ``new - old``; it is 0 where the new ones are -inf."""
    if not is_numpy(new):
        return new - old
    is_zero = new == -np.inf
    if not is_zero.any():
        return new - old
    with np.errstate(invalid="ignore"):
        return np.where(is_zero, 0.0, new - old)


def equal_rows(vector):
    """Return a matrix that takes the place of a vector in :func:`row_product`."""
    return np.broadcast_to(vector, (N_EQUAL_ROWS, len(vector)))


def row_product(rows, matrix):
    """Return one row of ``rows @ matrix``, where all rows are the same.

    For an array of JAX, the whole product is computed. XLA would turn the product with one row into
    a sum over columns. It computes several rows together with other products by the same matrix.
    """
    return rows[0] @ matrix if is_numpy(matrix) else (rows @ matrix)[0]


def without_diagonal(square):
    """Return a square matrix with zeros on its diagonal; an array of numpy is overwritten."""
    if is_numpy(square):
        np.fill_diagonal(square, 0.0)
        return square
    return square * (1.0 - np.eye(len(square), dtype=np.float32))


def extract(thing):
    """Return the numbers and arrays in nested objects, as nested dicts; {} where there are none."""
    if _is_number(thing):
        return thing
    return {k: extract(v) for k, v in _members(thing).items()}


def insert(thing, values):
    """Return a copy of nested objects with the numbers and arrays from :func:`extract` replaced."""
    if _is_number(thing):
        return values
    members = _members(thing)
    if not members:
        return thing
    new = {k: insert(v, values[k]) for k, v in members.items()}
    if isinstance(thing, dict):
        return new
    if isinstance(thing, tuple):
        is_named = "_fields" in vars(type(thing))
        return type(thing)(*new.values()) if is_named else tuple(new.values())
    changed = copy(thing)
    vars(changed).update(new)
    return changed


def without_numbers(thing):
    """Return a copy of nested objects in which 0 replaces all numbers and arrays.

    A compiled function that holds the copy does not keep the arrays in memory.
    """
    return insert(thing, _zeros(extract(thing)))


def _zeros(values):
    return {k: _zeros(v) for k, v in values.items()} if isinstance(values, dict) else 0


def without_values(energy):
    """Return an energy with parameters of the same shapes that are 0 and take no memory.

    A compiled function that holds it does not keep the parameters of a model in memory.
    """
    zeros = {k: np.broadcast_to(np.zeros((), v.dtype), v.shape) for k, v in energy.theta.items()}
    return energy.with_theta(zeros)


def options_of(energy):
    """Return the attributes of an energy that are no arrays, such as the numbers of two states."""
    return tuple((k, v) for k, v in vars(energy).items() if _is_option(v))


def _is_option(value):
    if isinstance(value, tuple):
        return all(map(_is_option, value))
    return value is None or isinstance(value, str | int | float)


def describe(thing):
    """Return the structure of nested objects without their numbers, as a nested tuple."""
    if _is_number(thing):
        return "number"
    members = _members(thing)
    if not members:
        return repr(thing) if thing is None or isinstance(thing, str | bool) else type(thing)
    return type(thing), tuple((k, describe(v)) for k, v in members.items())


def restrict(values, like):
    """Return nested dicts without the entries that ``like`` does not have."""
    return (
        {k: restrict(values[k], v) for k, v in like.items()} if isinstance(like, dict) else values
    )


def total_size(values):
    """Return the number of entries of all arrays in nested dicts."""
    return sum(map(total_size, values.values())) if isinstance(values, dict) else np.size(values)


def _is_number(thing):
    """Return whether an object is a number, or an array of numpy or JAX."""
    is_scalar = isinstance(thing, int | float) and not isinstance(thing, bool)
    return is_scalar or hasattr(thing, "__array_namespace__")


def _members(thing):
    """Return the parts of a dict, a named tuple or an object, by name."""
    if isinstance(thing, dict):
        return thing
    if isinstance(thing, tuple):
        return dict(zip(vars(type(thing)).get("_fields", range(len(thing))), thing, strict=True))
    if thing is None or isinstance(thing, str | bool | list | type):
        return {}
    return vars(thing)
