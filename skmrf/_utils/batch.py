"""Rows that one gradient step sees."""

from typing import NamedTuple

import numpy as np


class Batch(NamedTuple):
    """Rows that one gradient step sees.

    Attributes
    ----------
    X : ndarray of shape (n_rows, n_variables)
        State codes, MISSING where not observed; of a conditional model the inputs, any numbers.
    Y : ndarray of shape (n_rows, n_variables) or None
        State codes of the targets of a conditional model.
    log_weights : ndarray of shape (n_rows,) or None
        Log sample weights; None means equal weights.
    rows : ndarray of shape (n_rows,) or None
        Row numbers in the training data, so that what a learner keeps for a row persists.
    epoch, step : int
        For schedules.
    """

    X: np.ndarray
    Y: np.ndarray | None = None
    log_weights: np.ndarray | None = None
    rows: np.ndarray | None = None
    epoch: int = 0
    step: int = 0

    @property
    def shown(self):
        """What the model is of: the targets of a conditional model, else the rows."""
        return self.X if self.Y is None else self.Y

    def take(self, which):
        """The batch of some rows, given by an index or a mask."""
        parts = (self.X, self.Y, self.log_weights, self.rows)
        return Batch(*(None if p is None else p[which] for p in parts), self.epoch, self.step)
