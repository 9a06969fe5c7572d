"""Parameters of the training loop, held-out rows, and rows at which Markov chains start."""

from dataclasses import dataclass, fields, replace
from typing import Any

import numpy as np

from .._jax import open_device
from .._utils.namespaces import as_numpy
from .._utils.parameters import check_auto, check_flag, check_number
from .._utils.rows import drop_incomplete_rows
from ..energies import PairwiseEnergy
from ..learners import PCD
from ..learners.base import draw_states, is_solvable
from ..training import loop, optimizers, penalties, schedules
from ..training.settings import Settings
from ..training.state import DivergenceError

N_STARTS = 512  # rows at which reverse annealing chains of log Z start
N_ANNEALED = 2  # chains; more of them bias the model away from probable states
N_ARRAYS = 6  # arrays of the size of the parameters that training keeps in memory


@dataclass(frozen=True)
class TrainingParameters:
    """Validated parameters of an estimator that control training.

    The fields have the names of the parameters of the estimators.

    Attributes
    ----------
    is_partial : bool
        Whether the parameters are for one call of ``partial_fit``: one epoch that continues
        training, without early stopping.
    has_converged : bool
        Whether the last fit of the estimator converged. The learning rate of ``partial_fit`` then
        remains small.
    """

    optimizer: Any
    learning_rate: Any
    penalty: str
    alpha: Any
    batch_size: int
    max_iter: int | None
    tol: float
    average: bool
    early_stopping: bool | str
    validation_fraction: float
    n_iter_no_change: int
    max_bytes: float
    warm_start: bool
    random_state: Any
    n_jobs: int | None = None
    device: str = "cpu"
    is_partial: bool = False
    has_converged: bool = False

    @classmethod
    def of(cls, owner, partial=False, learner=None, **others):
        """Return the training parameters of an estimator, after validation.

        Parameters
        ----------
        owner : BaseEstimator
            Estimator, or another object that has the parameters.
        partial : bool, default=False
            Whether the parameters are for one call of ``partial_fit``.
        learner : Learner, optional
            Learner of the estimator. The optimizer "lbfgs" needs a deterministic one.
        **others
            Parameters that ``owner`` does not have.

        Returns
        -------
        TrainingParameters
            Validated parameters.
        """
        names = {field.name for field in fields(cls)}
        given = owner.get_params(deep=False).items()
        parameters = cls(**{name: value for name, value in given if name in names}, **others)
        parameters._check()
        solvable = learner is None or learner.deterministic
        optimizers.check_optimizer(parameters.optimizer, solvable)
        schedules.make_rate(parameters.learning_rate)
        if not partial:
            return parameters
        has_converged = vars(owner).get("converged_", False)
        given = {"early_stopping": False, "warm_start": True, "has_converged": has_converged}
        return replace(parameters, max_iter=1, is_partial=True, **given)

    def _check(self):
        if not isinstance(self.early_stopping, bool | np.bool_):
            check_auto("early_stopping", self.early_stopping)
        if isinstance(self.alpha, str):
            check_auto("alpha", self.alpha, "a number")
        open_device(self.device)
        check_flag("average", self.average)
        check_flag("warm_start", self.warm_start)
        check_number("tol", self.tol, low=0)
        check_number("batch_size", self.batch_size, low=1, integer=True)
        check_number("max_bytes", self.max_bytes, low=0, open_low=True)
        check_number("n_iter_no_change", self.n_iter_no_change, low=1, integer=True)
        check_number(
            "validation_fraction", self.validation_fraction, low=0, high=0.9, open_low=True
        )
        if self.max_iter is not None:
            check_number("max_iter", self.max_iter, low=1, integer=True)

    def on_cpu(self):
        """Return the same parameters for training on the CPU."""
        return replace(self, device="cpu")

    def resumes(self, estimator):
        """Return True if training continues from an earlier fit of the same estimator."""
        return self.warm_start and "energy_" in vars(estimator)

    def stops_early(self, n_rows, min_rows):
        """Return True if rows are held out for early stopping.

        With ``early_stopping="auto"``, rows are held out if there are at least ``min_rows`` rows
        and the optimizer is not L-BFGS.
        """
        if isinstance(self.early_stopping, str):
            return n_rows >= min_rows and self.optimizer != "lbfgs"
        return bool(self.early_stopping)

    def check_memory(self, n_parameters, what, remedy):
        """Raise a ValueError if learning ``n_parameters`` needs more memory than ``max_bytes``."""
        check_memory(n_parameters, self.max_bytes, what, remedy)

    def settings(
        self,
        learner,
        energy,
        data,
        *,
        alpha=None,
        centre=None,
        default_optimizer="auto",
        patience=None,
        **options,
    ):
        """Return the settings of the training loop.

        Parameters
        ----------
        learner : Learner
            Estimator of the gradient.
        energy : Energy
            Initial energy.
        data : Batch
            Training rows.
        alpha : float, optional
            Strength of the penalty. By default it is the parameter ``alpha`` of the estimator.
        centre : dict of str to ndarray, optional
            Parameters towards which the penalty "l2" shrinks, shaped like theta. By
            default zero.
        default_optimizer : str, default="auto"
            Optimizer that ``optimizer="auto"`` selects.
        patience : int, optional
            Number of epochs without a better score before stopping. By default it is
            ``n_iter_no_change``.
        **options
            Other fields of :class:`~skmrf.training.settings.Settings`.

        Returns
        -------
        Settings
            Settings of the training loop.
        """
        penalty = penalties.make_penalty(
            self.penalty,
            self.alpha if alpha is None else alpha,
            energy.penalty_groups(),
            energy.multiplicity,
            centre,
        )
        is_auto = isinstance(self.optimizer, str) and self.optimizer == "auto"
        name = default_optimizer if is_auto else self.optimizer
        solvable = is_solvable(learner, data)
        optimizer = optimizers.make_optimizer(name, solvable, penalty, self.penalty)
        device = open_device(self.device)
        if device is not None and optimizer is None:
            raise ValueError(
                f"device={self.device!r} cannot run a deterministic solver, which the learner "
                f'{learner!r} uses. Use optimizer="sgd", another learner, or device="cpu".'
            )
        return Settings(
            optimizer=optimizer,
            rate=schedules.make_rate(self.learning_rate, optimizer),
            penalty=penalty,
            batch_size=self.batch_size,
            max_iter=self.max_iter,
            tol=self.tol,
            average=bool(self.average) and penalty.smooth,
            patience=self.n_iter_no_change if patience is None else patience,
            is_last_stage=self.has_converged,
            complete=not self.is_partial,
            multiplicity=energy.multiplicity,
            device=device,
            **options,
        )

    @property
    def has_default_steps(self):
        """True if optimizer, learning rate and penalty have their default values."""
        is_auto = isinstance(self.optimizer, str) and self.optimizer == "auto"
        is_adaptive = isinstance(self.learning_rate, str) and self.learning_rate == "adaptive"
        return is_auto and is_adaptive and self.penalty == "l2"

    def has_default_rate(self, optimizer):
        """Return True if training uses the estimator's default learning-rate schedule.

        A deterministic solver, such as L-BFGS, has no schedule.
        """
        is_default = isinstance(self.learning_rate, str) and self.learning_rate == "adaptive"
        return is_default and optimizer is not None


def make_pcd(energy):
    """Return the learner "pcd"; for pairwise models, with chains from simulated annealing.

    Other chains start at rows, and do not find modes of pairwise models that are far from the rows.

    Parameters
    ----------
    energy : BipartiteEnergy, PairwiseEnergy or SemiRestrictedEnergy
        Initial model.

    Returns
    -------
    PCD
        Learner.
    """
    return PCD(n_annealed=N_ANNEALED if isinstance(energy, PairwiseEnergy) else 0)


def run_unless_divergent(energy, learner, data, settings):
    """Return the trained energy of a fit with the seed 0, or None if it does not stay finite."""
    state = loop.start(energy, learner, data, settings, np.random.default_rng(0))
    try:
        return loop.run(learner, data, settings, state).result()
    except DivergenceError:
        return None


def check_memory(n_parameters, max_bytes, what, remedy):
    """Raise a ValueError if learning ``n_parameters`` needs more memory than ``max_bytes``."""
    needed = 8.0 * N_ARRAYS * n_parameters
    if needed > max_bytes:
        raise ValueError(
            f"Learning {n_parameters} {what} needs about {needed:.4g} bytes, more than "
            f"max_bytes={max_bytes:.4g}. {remedy}"
        )


def hold_out(data, parameters, rng, *, min_rows=1, min_held_out=1):
    """Split the rows into training rows and held-out rows for early stopping.

    Parameters
    ----------
    data : Batch
        All rows.
    parameters : TrainingParameters
        Parameters of the estimator.
    rng : Generator
        Random numbers that select the held-out rows.
    min_rows : int, default=1
        Smallest number of rows with which ``early_stopping="auto"`` holds rows out.
    min_held_out : int, default=1
        Smallest number of rows that ``early_stopping="auto"`` holds out.

    Returns
    -------
    data : Batch
        Training rows.
    held_out : Batch or None
        Held-out rows. None without early stopping.
    """
    n = data.X.shape[0]
    if not parameters.stops_early(n, min_rows):
        return data, None
    least = min_held_out if parameters.early_stopping == "auto" else 1
    n_held_out = max(least, round(parameters.validation_fraction * n))
    if n_held_out >= n:
        raise ValueError(
            "early_stopping holds out a share of validation_fraction="
            f"{parameters.validation_fraction:g} of the rows, and no row is left for training; got "
            f"n_samples = {n}. Use more rows, a smaller validation_fraction, or "
            "early_stopping=False."
        )
    order = rng.permutation(n)
    rows, left = order[n_held_out:], order[:n_held_out]
    if data.Y is None or not data.is_mapped:
        return data.select(rows), data.take(left)
    return data.select(rows), data.select(np.sort(left))  # files are read faster in their order


def complete_states(rows, rng):
    """Return the rows without missing entries, with states drawn from probabilities.

    Parameters
    ----------
    rows : Batch
        Rows of state codes, or of probabilities as floating-point numbers.
    rng : Generator
        Random numbers of the drawn states.

    Returns
    -------
    Batch
        Complete rows of state codes.
    """
    rows = rows._replace(X=draw_states(as_numpy(rows.X), rng))
    return drop_incomplete_rows(rows)


def random_states(data, rng):
    """Return states of random complete rows, at which reverse annealing chains start.

    Parameters
    ----------
    data : Batch
        Rows of state codes, or of probabilities as floating-point numbers.
    rng : Generator
        Random numbers that select the rows.

    Returns
    -------
    ndarray of shape (n_rows, n_columns) or None
        At most 512 rows; None if all of them have missing entries.
    """
    few = rng.permutation(data.X.shape[0])[:N_STARTS]
    states = complete_states(data.take(few), rng).X
    return states if len(states) else None


def rows_of_log_partition(data, rng):
    """Return fitted attributes for the estimate of log Z.

    They are rows at which reverse annealing chains start, and the number of training rows.
    """
    return {"_starts": random_states(data, rng), "_n_rows": data.X.shape[0]}
