"""Binary outputs of rows as zeros and ones."""

from dataclasses import dataclass

import numpy as np
from sklearn.utils import assert_all_finite
from sklearn.utils.multiclass import type_of_target

from .._utils.rows import dense_rows


@dataclass(frozen=True)
class OutputEncoder:
    """Encoding of binary outputs as zeros and ones.

    Attributes
    ----------
    classes : ndarray
        The one or two labels of a single output; ``[0, 1]`` of several.
    shape : tuple
        Shape of the outputs of a row; empty for one-dimensional targets.
    """

    classes: np.ndarray
    shape: tuple

    @classmethod
    def of(cls, y, classes=None):
        """Return the encoding of targets, with these labels if ``classes`` is given."""
        y = np.asarray(dense_rows(y))
        if y.ndim <= 1:
            return cls(labels_of(y) if classes is None else classes, ())
        if classes is not None and not np.array_equal(classes, [0, 1]):
            raise ValueError(f"Several outputs have classes [0, 1]; got {classes.tolist()}.")
        return cls(np.array([0, 1]), y.shape[1:])

    def check_same(self, classes):
        """Raise a ValueError if training continues with other labels than before."""
        if classes is not None and not np.array_equal(classes, self.classes):
            raise ValueError(
                f"classes must be those of the fit to go on from, {self.classes.tolist()}; got "
                f"{classes.tolist()}."
            )

    def encode(self, y, n_rows, name="y"):
        """Return the codes of targets, shape (n_rows, n_outputs)."""
        return output_codes(y, n_rows, self.classes, self.shape, name)


def two_labels(classes):
    """Labels that ``partial_fit`` is told of."""
    labels = np.unique(classes)
    if len(labels) != 2:
        raise ValueError(f"classes must be the two labels of an output; got {labels.tolist()}.")
    return labels


def labels_of(y):
    """The one or two labels of a single output."""
    assert_all_finite(y, input_name="y")
    kind = type_of_target(y, input_name="y", raise_unknown=True)
    if kind != "binary":
        raise ValueError(
            f"Only binary classification is supported. The type of the target is {kind}; give a "
            "column of zeros and ones for every label."
        )
    return np.unique(y)


def output_codes(y, n_rows, classes, shape, name="y"):
    """Targets as zeros and ones, shape (n_rows, n_outputs)."""
    y = np.asarray(dense_rows(y))
    if y.shape != (n_rows, *shape):
        raise ValueError(
            f"{name} must have shape {(n_rows, *shape)}, a row of outputs for every row of inputs; "
            f"got {y.shape}."
        )
    if 0 in shape:
        raise ValueError(f"{name} has no outputs; give at least one column.")
    y = y.reshape(n_rows, -1)
    ones = y == classes[-1]
    known = ones | (y == classes[0])
    if not known.all():
        row, output = np.argwhere(~known)[0]
        found = y[row, output]
        found = found.item() if isinstance(found, np.generic) else found
        advice = "" if shape or name != "y" else " Give partial_fit all labels as classes."
        raise ValueError(
            f"Output {output} of row {row} of {name} is {found!r}; outputs must be in "
            f"{classes.tolist()}.{advice}"
        )
    return (ones & (len(classes) > 1)).astype(np.int8)
