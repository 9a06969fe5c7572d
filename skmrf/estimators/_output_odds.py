"""Log odds of the outputs of conditional models, and the score of held-out rows."""

from dataclasses import dataclass
from typing import Any

import numpy as np

from .._jax import open_device
from .._utils.namespaces import without_values
from .._utils.parallel import parallel_jobs
from .._utils.parameters import identity_of
from .._utils.rows import dense_rows, sample_weights
from ..learners import ConditionalLearner
from ..training.logistic_start import log_losses

N_ROWS = 1024  # rows per call of inference
DEVICE_MESSAGES = 2**26  # messages that a device computes together
LOG_LOSS_WEIGHT = 1e-6  # per nat; small, so that it only decides between equal shares


def has_probabilities(estimator):
    """Return True if the learner predicts probabilities, or raise an AttributeError."""
    learner = vars(estimator).get("_fitted_learner") or estimator._check_learner()
    if not learner.probabilistic:
        raise AttributeError(
            f"Models learned by {type(learner).__name__} have no probabilities. Use "
            "decision_function instead."
        )
    return True


@dataclass(frozen=True)
class OutputInference:
    """Inference of the outputs of conditional models, by the algorithm of a learner.

    Parameters
    ----------
    learner : ConditionalLearner
        Learner whose inference is used.
    n_jobs : int, optional
        Number of threads.
    device : Device, optional
        Device of JAX. By default the compiled functions of numba compute.
    """

    learner: ConditionalLearner
    n_jobs: int | None = None
    device: Any = None

    @classmethod
    def of(cls, estimator, learner):
        """Return the inference of a learner with the threads and the device of an estimator."""
        device = open_device(estimator.device) if learner.is_pure else None
        return cls(learner, estimator.n_jobs, device)

    def log_odds(self, energy, X, epoch):
        """Compute the log odds of each output.

        Parameters
        ----------
        energy : ConditionalBipartiteEnergy
            Model.
        X : ndarray or sparse matrix of shape (n_rows, n_inputs)
            Scaled inputs.
        epoch : int
            Epoch of the model. Some learners change their inference by epoch.

        Returns
        -------
        ndarray of shape (n_rows, n_outputs)
            Log odds in nats.
        """
        out = np.empty((X.shape[0], energy.weights.shape[0]), dtype=energy.weights.dtype)
        if self.device is not None and len(out):
            self._fill_on_device(energy, X, epoch, out)
            return out
        with parallel_jobs(self.n_jobs):
            for s in range(0, X.shape[0], N_ROWS):
                out[s : s + N_ROWS] = self.learner.infer(energy, X[s : s + N_ROWS], epoch).visible
        return out

    def _fill_on_device(self, energy, X, epoch, out):
        """Compute the log odds in blocks of rows of the same size, which a device compiles once."""
        learner, form = self.learner, without_values(energy)
        shapes = tuple((k, v.shape) for k, v in energy.theta.items())
        infer = self.device.compile(
            lambda theta, X, epoch: learner.infer(form.with_theta(theta), X, epoch).visible,
            (type(energy), type(learner), identity_of(learner), shapes),
        )
        largest = min(N_ROWS, max(1, DEVICE_MESSAGES // max(energy.weights.size, 1)))
        self.device.compute_rows(
            lambda theta, X: infer(theta, X, np.int32(epoch)),
            energy.theta,
            lambda rows: dense_rows(X[rows]).astype(np.float32),
            out,
            largest=largest,
            n_entries=energy.weights.size + X.shape[1],
        )

    def finite_log_odds(self, energy, X, epoch):
        """Return the log odds of each output; raise a ValueError if any is not finite.

        Without a device they are computed in float64, so the other rows of ``X`` change the odds of
        a row only by rounding errors.
        """
        with np.errstate(over="ignore", invalid="ignore"):
            energy = energy.with_theta({k: v.astype(float) for k, v in energy.theta.items()})
            odds = self.log_odds(energy, X, epoch)
        wrong = np.flatnonzero(~np.isfinite(odds).all(axis=1))
        if wrong.size:
            raise ValueError(
                f"Row {wrong[0]} of X holds numbers that are too large: the log odds of its "
                "outputs overflow. Correct or remove this row."
            )
        return odds

    def score(self, held_out):
        """Return a function that scores held-out rows for early stopping.

        The score is the share of correctly predicted outputs. If two models have the same share and
        the learner predicts probabilities, the model with the lower log-loss has the higher score.

        Parameters
        ----------
        held_out : Batch or None
            Held-out rows.

        Returns
        -------
        callable or None
            ``(energy, state) -> float``. None without held-out rows.
        """
        if held_out is None:
            return None
        weights = sample_weights(held_out)

        def score(energy, state):
            losses = self.mean_losses(energy, held_out, state.epoch - 1)
            wrong, *log_loss = np.average(losses, axis=1, weights=weights).tolist()
            return 1.0 - wrong - sum(LOG_LOSS_WEIGHT * round(loss, 2) for loss in log_loss)

        return score

    def mean_losses(self, energy, held_out, epoch):
        """Return the share of wrong outputs and the mean log-loss of each row.

        Parameters
        ----------
        energy : ConditionalBipartiteEnergy
            Model.
        held_out : Batch
            Held-out rows.
        epoch : int
            Epoch of the model.

        Returns
        -------
        ndarray of shape (n_losses, n_rows)
            Share of wrong outputs, and then the mean log-loss in nats if the learner predicts
            probabilities.
        """
        if not held_out.is_mapped:
            return self._losses(energy, held_out, epoch)
        blocks = (held_out.take(rows) for rows in held_out.blocks())
        return np.concatenate([self._losses(energy, block, epoch) for block in blocks], axis=1)

    def _losses(self, energy, held_out, epoch):
        odds, Y = self.log_odds(energy, held_out.X, epoch), held_out.Y > 0
        losses = [(odds > 0) != Y]
        if self.learner.probabilistic:
            losses.append(log_losses(odds, Y))
        return np.array([loss.mean(axis=1) for loss in losses])
