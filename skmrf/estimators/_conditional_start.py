"""Logistic regressions at which the training of conditional models with hidden units starts."""

from dataclasses import dataclass

import numpy as np

from ..training import logistic_start
from ..training.logistic_start import AlphaPath, add_idle_units, fit_logistic
from ._output_odds import mean_losses
from ._rows import sample_weights


@dataclass(frozen=True)
class LogisticStart:
    """Strength of the penalty, and the logistic regressions with this penalty.

    Attributes
    ----------
    alpha : float
        Strength of the penalty.
    path : AlphaPath or None
        Path along which the strength was chosen. None if it was given.
    energy : ConditionalBipartiteEnergy or None
        Logistic regression of each output. None if training does not start there.
    """

    alpha: float
    path: AlphaPath | None = None
    energy: object = None

    @classmethod
    def of(cls, alpha, penalty, data, n_hidden, rng):
        """Choose the strength of the penalty, and fit the logistic regressions.

        Parameters
        ----------
        alpha : float or "auto"
            Strength of the penalty; "auto" chooses it by held-out rows.
        penalty : {"l2", "l1", "group-l1"}
            Penalty on the weights.
        data : Batch
            Training rows.
        n_hidden : int
            Number of hidden units. With 0, the logistic regressions are not fitted.
        rng : Generator
            Random numbers that divide the rows into folds.
        """
        path = None
        if isinstance(alpha, str):
            path = logistic_start.choose_alpha(data, penalty, rng)
            alpha = path.chosen
        return cls(float(alpha), path, fit_logistic(data, alpha, penalty) if n_hidden else None)

    def is_better(self, learner, trained, epoch, held_out, n_jobs):
        """Return whether a model with hidden units predicts held-out rows better.

        Parameters
        ----------
        learner : ConditionalLearner
            Learner whose inference is used.
        trained : ConditionalBipartiteEnergy
            Model with hidden units.
        epoch : int
            Epoch of this model.
        held_out : Batch
            Held-out rows.
        n_jobs : int or None
            Number of threads.

        Returns
        -------
        bool
            True if the share of correct outputs is not smaller, and the mean loss is smaller by
            more than one standard error. The loss is the log-loss, or the share of wrong outputs
            for learners without probabilities.
        """
        start = add_idle_units(self.energy, trained.weights.shape[1])
        losses = [mean_losses(learner, e, held_out, epoch, n_jobs) for e in (start, trained)]
        weights = sample_weights(held_out)
        n = held_out.Y.shape[0]
        weights = np.full(n, 1 / n) if weights is None else weights / weights.sum()
        gain, error = logistic_start.mean_and_error(losses[0] - losses[1], weights)
        return bool(gain[0] >= 0 and gain[-1] > error[-1])
