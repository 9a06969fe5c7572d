"""Conversion of binary outputs to zeros and ones."""

from dataclasses import dataclass

import numpy as np
from sklearn.utils import assert_all_finite
from sklearn.utils.multiclass import type_of_target

from .._utils.rows import dense_rows


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
        y = np.asarray(dense_rows(y))
        if y.ndim <= 1:
            return cls(find_labels(y) if classes is None else classes, ())
        if classes is not None and not np.array_equal(classes, [0, 1]):
            raise ValueError(
                f"classes must be [0, 1] if there are several outputs; got {classes.tolist()}."
            )
        return cls(np.array([0, 1]), y.shape[1:])

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


def check_given(estimator, y):
    """Raise a ValueError if the targets ``y`` are None."""
    if y is None:
        raise ValueError(
            f"{type(estimator).__name__} requires y to be passed, but the target y is None."
        )


def check_two_labels(classes):
    """Return the sorted ``classes`` of ``partial_fit``; raise a ValueError unless there are two."""
    labels = np.unique(classes)
    if len(labels) != 2:
        raise ValueError(f"classes must be the two labels of an output; got {labels.tolist()}.")
    return labels


def find_labels(y):
    """Return the one or two labels of a single output; raise a ValueError if it is not binary."""
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
    y = y.reshape(n_rows, -1)
    ones = y == classes[-1]
    is_valid = ones | (y == classes[0])
    if not is_valid.all():
        row, output = np.argwhere(~is_valid)[0]
        value = y[row, output]
        value = value.item() if isinstance(value, np.generic) else value
        advice = "" if shape or name != "y" else " Give all labels to partial_fit as classes."
        raise ValueError(
            f"Output {output} of row {row} of {name} is {value!r}; outputs must be in "
            f"{classes.tolist()}.{advice}"
        )
    return (ones & (len(classes) > 1)).astype(np.int8)
