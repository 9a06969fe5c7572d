"""Callbacks that score the model after each epoch: score monitor and early stopping."""

import numpy as np


class ScoreMonitor:
    """Callback that records a score of given rows after each epoch.

    Parameters
    ----------
    X : array-like of shape (n_rows, n_features), optional
        Rows to score. By default the training rows.
    scoring : callable, optional
        Function ``scoring(estimator, X) -> float``, or ``scoring(estimator, X, y)`` for models that
        have targets. By default ``estimator.score``.
    y : array-like of shape (n_rows,) or (n_rows, n_outputs), optional
        Targets of the rows ``X``. By default None, for models without targets.

    Attributes
    ----------
    scores : list of float
        Score after each epoch of the last fit.
    """

    def __init__(self, X=None, scoring=None, *, y=None):
        self.X = X
        self.y = y
        self.scoring = scoring
        self.scores = []

    def setup(self, estimator, context):
        """Clear the list of scores before a fit."""
        self.scores = []

    def teardown(self, estimator, context):
        """Do nothing after a fit."""

    def on_fit_task_begin(self, estimator, context):
        """Do nothing when an epoch begins, because the model is scored when the epoch ends."""

    def on_fit_task_end(self, estimator, context, *, X=None, y=None, fitted_estimator=None):
        """Score the model at the end of an epoch; return True if training must stop."""
        is_epoch = context.max_subtasks == 0
        if fitted_estimator is None or not is_epoch:
            return False
        rows, targets = (X, y) if self.X is None else (self.X, self.y)
        rows = (rows,) if targets is None else (rows, targets)
        scoring = type(fitted_estimator).score if self.scoring is None else self.scoring
        self.scores.append(float(scoring(fitted_estimator, *rows)))
        return self.should_stop()

    def should_stop(self):
        """Return False, because a score monitor never stops a fit."""
        return False


class EarlyStopping(ScoreMonitor):
    """Callback that stops a fit when the score of held-out rows no longer improves.

    Parameters
    ----------
    X : array-like of shape (n_rows, n_features), optional
        Held-out rows. By default the training rows.
    scoring : callable, optional
        Function ``scoring(estimator, X) -> float``, or ``scoring(estimator, X, y)`` for models that
        have targets. By default ``estimator.score``.
    patience : int, default=5
        Number of epochs without an improvement after which the fit stops.
    min_delta : float, default=1e-4
        Smallest increase of the score that counts as an improvement.
    y : array-like of shape (n_rows,) or (n_rows, n_outputs), optional
        Targets of the rows ``X``. By default None, for models without targets.

    Attributes
    ----------
    scores : list of float
        Score after each epoch of the last fit.
    """

    def __init__(self, X=None, scoring=None, patience=5, min_delta=1e-4, *, y=None):
        super().__init__(X, scoring, y=y)
        self.patience = patience
        self.min_delta = min_delta

    def should_stop(self):
        """Return True if the score has not improved in the last ``patience`` epochs."""
        if len(self.scores) <= self.patience:
            return False
        best = np.max(self.scores[: -self.patience])
        return bool(np.max(self.scores[-self.patience :]) < best + self.min_delta)
