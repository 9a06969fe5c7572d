"""Conversion of columns with two states, and of binary outputs, to codes 0 and 1."""

import numbers
from dataclasses import dataclass

import numpy as np
from scipy.sparse import csr_matrix, issparse
from sklearn.utils import assert_all_finite
from sklearn.utils.multiclass import check_classification_targets, type_of_target

from .._utils.codes import MISSING, STATE
from .._utils.namespaces import is_numpy, namespace
from .._utils.parameters import check_number
from .._utils.rows import dense_rows, is_mapped, row_blocks
from .classes import check_label_types, check_no_missing, is_absent
from .numeric import numeric_rows, to_nan

CACHED_ENTRIES = 2**16  # of rows that are checked and then converted
TWO_STATES_ADVICE = "give two states as numbers, or use DiscreteMRF for other categories."


@dataclass(frozen=True)
class TwoStateEncoder:
    """Encoder that converts numeric columns with two states to the state codes 0 and 1.

    Attributes
    ----------
    names : list
        Names of the columns, for error messages.
    states : pair of float
        The lower and the upper state.
    binarize : float or None
        Threshold above which a number is the upper state. With None, only the two states are valid.
    """

    names: list
    states: tuple
    binarize: float | None

    @property
    def state_names(self):
        """Both states, one array per column."""
        return [self.decode(np.arange(2))] * len(self.names)

    def read(self, estimator, X):
        """Return X as a numeric array, or raise an error if its columns differ from ``fit``."""
        return numeric_rows(estimator, X, reset=False, remedy=TWO_STATES_ADVICE, missing=True)

    def encode(self, X):
        """Return the state codes, shape (n_rows, n_columns); the code of nan is MISSING."""
        return two_state_codes(X, self.states, self.binarize, self.names)

    def encode_row(self, row):
        """Return the state codes of one row, in which None and NA are missing entries.

        The row is an array of dtype object and shape (1, n_columns).
        """
        return self.encode(to_nan(row).astype(float))

    def encode_complete(self, X):
        """Return the int8 state codes of complete rows; sparse rows stay sparse if 0 has code 0.

        Rows that consist of codes of one byte already are not copied. Arrays of JAX stay on their
        device.
        """
        if not is_numpy(X):
            codes = self._encode_on_device(X)
            return self.encode_complete(np.asarray(X)) if codes is None else codes
        if not issparse(X):
            codes = self._codes_of_binary(X)
            if codes is not None:
                return codes
            codes = np.empty(X.shape, dtype=np.int8)
            for rows in row_blocks(X):
                codes[rows] = self.encode(X[rows])
            return codes
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
        if has_zeros:  # in place, in the copy
            codes.eliminate_zeros()
        return codes

    def encode_probabilities(self, X):
        """Return rows of numbers in [0, 1] unchanged, as floats, or int8 codes of binary rows.

        With a threshold, or if any number is outside of [0, 1], this is :meth:`encode_complete`.
        """
        values, is_dense = X.data[:, None] if issparse(X) else X, is_numpy(X) and not issparse(X)
        codes = self._codes_of_binary(X) if is_dense else None
        if codes is not None:
            return codes
        if (
            self.binarize is not None
            or (not is_dense and _all_entries(values, _is_binary))
            or not _all_entries(values, lambda v: (v >= 0) & (v <= 1))
        ):
            return self.encode_complete(X)
        if not is_numpy(X):
            return X
        X = X.astype(np.float32 if X.dtype == np.float32 else np.float64, copy=False)
        return X if issparse(X) else np.ascontiguousarray(X)

    def encode_training(self, X):
        """Return the state codes of training rows, which may have missing entries.

        Rows that consist of codes of one byte already are not copied, and may be in a file. Arrays
        of JAX without missing entries stay on their device, as int8 codes. Other rows are encoded
        by :meth:`encode`.
        """
        if is_numpy(X):
            is_small = X.dtype.kind in "biu" and X.dtype.itemsize == 1 and X.flags.c_contiguous
            codes = self._codes_of_binary(X) if is_small else None
            return self.encode(X) if codes is None else codes
        codes = self._encode_on_device(X)
        return self.encode(np.asarray(X)) if codes is None else codes

    def _encode_on_device(self, X):
        """Return the codes of an array of JAX, where it is; None if some are missing or wrong."""
        xp, (low, high) = namespace(X), self.states
        if self.binarize is not None:
            is_valid = _all_entries(X, xp.isfinite)
            return (self.binarize < X).astype(np.int8) if is_valid else None
        if not _all_entries(X, lambda v: (v == low) | (v == high)):
            return None
        is_ready = self.states == (0.0, 1.0) and X.dtype == np.int8
        return X if is_ready else (high == X).astype(np.int8)

    def _codes_of_binary(self, X):
        """Return dense rows of zeros and ones as int8 codes, or None for other rows and states.

        Rows of one byte per entry in C order are not copied.
        """
        if self.binarize is not None or self.states != (0.0, 1.0) or X.dtype.kind not in "biuf":
            return None
        if X.dtype.itemsize == 1 and X.flags.c_contiguous:
            return X.view(np.int8) if _all_entries(X, _is_binary) else None
        codes = np.empty(X.shape, np.int8)
        for rows in row_blocks(X, CACHED_ENTRIES):
            if not _is_binary(X[rows]).all():
                return None
            codes[rows] = X[rows]
        return codes

    def decode(self, codes):
        """Convert state codes to states; the result has integers if both states are integers.

        No code may be MISSING.
        """
        states = np.array(self.states)
        whole = states.astype(int)
        return (whole if (whole == states).all() else states)[codes]


def _is_binary(values):
    if values.dtype.kind == "b":
        return np.True_
    if values.dtype.kind in "iu" and values.size:  # needs no temporary array
        values = values.view(values.dtype.str.replace("i", "u"))  # negative ones become large
        return values.max() <= 1
    return (values == 0) | (values == 1)


def check_two_states(states):
    """Return the two states as floats; raise a ValueError unless they are increasing and finite."""
    try:
        low, high = states
    except (TypeError, ValueError):
        low = high = None
    numeric = all(isinstance(s, numbers.Real) for s in (low, high))
    if not numeric or not -np.inf < low < high < np.inf:
        raise ValueError(f"states must be two increasing finite numbers; got {states!r}.")
    return float(low), float(high)


def check_threshold(binarize):
    """Return the threshold ``binarize``; raise a ValueError unless it is a number or None."""
    return None if binarize is None else check_number("binarize", binarize)


def two_state_codes(X, states, binarize, names):
    """Return state codes: 0 for the lower state, 1 for the upper state, MISSING for nan.

    Parameters
    ----------
    X : ndarray of numbers of shape (n_rows, n_columns)
        Rows.
    states : pair of float
        The lower and the upper state.
    binarize : float or None
        Threshold above which a number is the upper state. With None, only the two states are valid.
    names : list
        Names of the columns, for error messages.

    Returns
    -------
    ndarray of shape (n_rows, n_columns)
        Codes.

    Raises
    ------
    ValueError
        If a number is infinite, or is not one of the two states and ``binarize`` is None.
    """
    low, high = states
    X = X.astype(float) if X.dtype == object else X  # None becomes nan
    absent = np.isnan(X) if X.dtype.kind == "f" else np.zeros(X.shape, dtype=bool)
    if X.dtype.kind in "iu":
        low, high = (int(s) if s.is_integer() else s for s in states)  # are compared faster
    if binarize is None:
        upper = np.equal(X, high)
        wrong = ~(upper | absent | np.equal(X, low))
    else:
        upper = np.greater(X, binarize)
        wrong = np.isinf(X)
    if wrong.any():
        _raise_invalid_state(X, wrong, states, names)
    codes = upper.astype(STATE, order="C")  # so that sums do not depend on the order of X
    codes[absent] = MISSING
    return codes


def _raise_invalid_state(X, wrong, states, names):
    outside = wrong & ((states[0] > X) | (states[1] < X))
    wrong = outside if outside.any() else wrong  # RBM.fit accepts numbers between the states
    column = int(np.flatnonzero(wrong.any(axis=0))[0])
    value = X[wrong[:, column], column][0].item()
    if np.isinf(value):
        raise ValueError(
            f"Column {names[column]!r} holds infinity; use nan for a missing entry or a finite "
            "number."
        )
    remedy = (
        "Give a threshold as binarize= (numbers above it become the upper state), or data with "
        "these two states only, for example by rounding."
    )
    if states == (0, 1):
        remedy += " RBM.fit also takes numbers from 0 to 1 (sklearn.preprocessing.MinMaxScaler)."
    if np.isin(X, (0, 1)).sum() == (~np.isnan(X)).sum():
        remedy = "All values are 0 or 1: set states=(0, 1)."
    raise ValueError(
        f"Column {names[column]!r} holds {value!r}, but the states are {states[0]:g} and "
        f"{states[1]:g}. {remedy}"
    )


def _all_entries(X, test):
    """Return whether a test holds for all entries; large arrays are tested in blocks of rows."""
    return all(test(X[rows]).all() for rows in row_blocks(X))


@dataclass(frozen=True)
class OutputEncoder:
    """Encoder that converts binary outputs to zeros and ones.

    Attributes
    ----------
    classes : ndarray
        The one or two labels of a single output, or ``[0, 1]`` for several outputs.
    shape : tuple
        Shape of the outputs of a row. It is empty for one-dimensional targets.
    """

    classes: np.ndarray
    shape: tuple

    @classmethod
    def of(cls, y, classes=None):
        """Create an encoder for binary targets; ``classes`` lists the labels of a single output."""
        try:
            y = np.asarray(dense_rows(y))
        except ValueError as error:
            raise ValueError(
                "The rows of y have different numbers of outputs; each row needs a 0 or 1 for each "
                "output. Convert lists of labels with sklearn.preprocessing.MultiLabelBinarizer."
            ) from error
        if y.ndim <= 1:
            return cls(find_labels(y) if classes is None else classes, ())
        if classes is not None and not np.array_equal(classes, [0, 1]):
            raise ValueError(
                f"classes must be [0, 1] if there are several outputs; got {classes.tolist()}."
            )
        return cls(np.array([0, 1]), y.shape[1:])

    @property
    def public_classes(self):
        """Labels of one-dimensional targets, or the index of each output of a table of outputs.

        scikit-learn expects such indices of multi-label classifiers, for example in
        ``cross_val_predict``. A table of one output has the labels ``[[0, 1]]``, because
        scikit-learn interprets ``[0]`` as a single class.
        """
        if self.shape == (1,):
            return self.classes[None]
        return np.arange(*self.shape) if len(self.shape) == 1 else self.classes

    def check_same(self, classes):
        """Raise a ValueError if ``classes`` differs from the labels of the previous fit."""
        if classes is not None and not np.array_equal(classes, self.classes):
            raise ValueError(
                f"classes must be those of the previous fit, {self.classes.tolist()}; got "
                f"{classes.tolist()}."
            )

    def encode(self, y, n_rows, name="y"):
        """Return the targets as zeros and ones, shape (n_rows, n_outputs)."""
        return encode_outputs(y, n_rows, self.classes, self.shape, name)


def check_two_labels(classes):
    """Return the sorted ``classes`` of ``partial_fit``; raise a ValueError unless there are two."""
    labels = np.unique(classes)
    if len(labels) != 2:
        raise ValueError(f"classes must be the two labels of an output; got {labels.tolist()}.")
    return labels


def find_labels(y):
    """Return the one or two labels of a single output; raise a ValueError if it is not binary."""
    check_label_types(y)
    assert_all_finite(y, input_name="y")
    kind = type_of_target(y, input_name="y", raise_unknown=True)
    if kind != "binary":
        raise ValueError(
            f"Only binary classification is supported. The type of the target is {kind}; give a "
            "column of zeros and ones for each label."
        )
    return np.unique(y)


def encode_outputs(y, n_rows, classes, shape, name="y"):
    """Return the targets as zeros and ones, shape (n_rows, n_outputs)."""
    y = np.asarray(dense_rows(y))
    if y.shape != (n_rows, *shape):
        raise ValueError(
            f"{name} must have shape {(n_rows, *shape)}, a row of outputs for each row of inputs; "
            f"got {y.shape}."
        )
    if 0 in shape:
        raise ValueError(f"{name} has no outputs; give at least one column.")
    if not shape:
        check_no_missing(y, name)
    y = y.reshape(n_rows, -1)
    if shape and y.dtype == object:  # NA cannot be compared
        y = np.frompyfunc(lambda value: None if is_absent(value) else value, 1, 1)(y)
    is_ready = bool(shape) and is_mapped(y) and y.dtype.itemsize == 1  # zeros and ones
    codes = y.view(np.int8) if is_ready else np.empty(y.shape, np.int8)
    for rows in row_blocks(y):
        ones = y[rows] == classes[-1]
        is_valid = ones | (y[rows] == classes[0])
        if not is_valid.all():
            row, output = np.argwhere(~is_valid)[0] + (rows.start, 0)
            value = y[row, output]
            value = value.item() if isinstance(value, np.generic) else value
            advice = "" if shape or name != "y" else " Give all labels to partial_fit as classes."
            if shape and isinstance(value, str):
                advice = (
                    " Convert lists of labels with sklearn.preprocessing.MultiLabelBinarizer, and "
                    "columns of two categories with OrdinalEncoder."
                )
            raise ValueError(
                f"Output {output} of row {row} of {name} is {value!r}; outputs must be one of "
                f"{classes.tolist()}.{advice}"
            )
        if not is_ready:
            codes[rows] = ones & (len(classes) > 1)
    return codes


def find_correct(y, predicted, shape):
    """Return which predicted outputs equal the true ones, shape (n_rows, n_outputs).

    Parameters
    ----------
    y : array-like of shape (n_rows, ...)
        True outputs. Labels of a single output may differ from those of ``fit``.
    predicted : ndarray of shape (n_rows, ...)
        Predicted outputs.
    shape : tuple of int
        Shape of the outputs of a row. It is empty for a single output with labels.

    Returns
    -------
    ndarray of bool of shape (n_rows, n_outputs)
        True for correct outputs.

    Raises
    ------
    ValueError
        If the shapes differ, if several outputs have values other than 0 and 1, or if labels are
        missing, are continuous numbers or have another type than the predicted ones.
    """
    n_rows = len(predicted)
    if shape:
        return encode_outputs(y, n_rows, np.array([0, 1]), shape) == predicted.reshape(n_rows, -1)
    y = np.asarray(dense_rows(y))
    if y.shape != predicted.shape:
        raise ValueError(f"y must have shape {predicted.shape}; got {y.shape}.")
    check_label_types(y)
    assert_all_finite(y, input_name="y")
    check_classification_targets(y)
    if isinstance(y[0], str) != isinstance(predicted[0], str):
        raise ValueError(
            f"y holds {y.tolist()[0]!r}, but fit had labels such as {predicted.tolist()[0]!r}; "
            "make them all strings or all numbers."
        )
    return (y == predicted)[:, None]
