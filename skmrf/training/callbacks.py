"""Callbacks that score models after every epoch.

They score models with and without targets; scikit-learn's own monitor needs y.
"""

import numpy as np


class ScoreMonitor:
    """Record ``estimator.score`` of chosen rows after every epoch.

    Parameters
    ----------
    X : array-like, optional
        Rows to score; the training rows by default.
    scoring : callable, optional
        ``scoring(estimator, X) -> float`` instead of ``estimator.score``; ``scoring(estimator, X,
        y)`` of models that have targets.
    y : array-like, optional
        Targets of the rows ``X``.

    Attributes
    ----------
    scores : list of float
        One score an epoch of the last fit.
    """

    def __init__(self, X=None, scoring=None, *, y=None):
        self.X = X
        self.y = y
        self.scoring = scoring
        self.scores = []

    def setup(self, estimator, context):
        """Clear the scores before a fit."""
        self.scores = []

    def teardown(self, estimator, context):
        """Do nothing after a fit."""

    def on_fit_task_begin(self, estimator, context):
        """Do nothing when an epoch begins."""

    def on_fit_task_end(self, estimator, context, *, X=None, y=None, fitted_estimator=None):
        """Score the model at the end of an epoch; return whether to stop."""
        is_epoch = context.max_subtasks == 0
        if fitted_estimator is None or not is_epoch:
            return False
        rows, targets = (X, y) if self.X is None else (self.X, self.y)
        rows = (rows,) if targets is None else (rows, targets)
        scoring = type(fitted_estimator).score if self.scoring is None else self.scoring
        self.scores.append(float(scoring(fitted_estimator, *rows)))
        return self.should_stop()

    def should_stop(self):
        """Return whether to stop; a monitor never does."""
        return False


class EarlyStopping(ScoreMonitor):
    """Stop a fit when the score of held-out rows stops improving.

    Parameters
    ----------
    X : array-like, optional
        Held-out rows; the training rows by default.
    scoring, y
        As in :class:`ScoreMonitor`.
    patience : int, default=5
        Number of epochs without an improvement after which the fit stops.
    min_delta : float, default=1e-4
        Smallest increase that counts as an improvement.
    """

    def __init__(self, X=None, scoring=None, patience=5, min_delta=1e-4, *, y=None):
        super().__init__(X, scoring, y=y)
        self.patience = patience
        self.min_delta = min_delta

    def should_stop(self):
        """Return whether the last ``patience`` scores are no better than the best before them."""
        if len(self.scores) <= self.patience:
            return False
        before = np.max(self.scores[: -self.patience])
        return bool(np.max(self.scores[-self.patience :]) < before + self.min_delta)
