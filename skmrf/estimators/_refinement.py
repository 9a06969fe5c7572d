"""Maximum likelihood by persistent chains, from a model that pseudo-likelihood has found."""

import warnings
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from ..exact import expectations
from ..learners import PCD
from ..likelihood import ais
from ..samplers.enumerated_states import mode_bound
from ..training.preconditioning import (
    MatrixPreconditioner,
    PreconditionedSGD,
    make_preconditioner,
)
from ..training.regularization import MIN_GAIN, gain_over_reference, held_out_weights
from ..training.schedules import LinearRate
from ._training import run_unless_divergent

N_CHAINS = 512
N_ANNEALED = 2  # of the chains; more of them bias the model away from probable states
N_UPDATES = 400
RATE = 0.05  # of the natural gradient; 0.3 diverges on some data sets
MIN_CURVATURE = 5e-4  # smaller ones give long random steps to pairs of rare states
STRENGTH_RATIO = 10.0  # between two penalty strengths
MAX_STRENGTHS = 3
MIN_BATCH = 2048
N_BATCHES = 20  # at most, per epoch
MAX_WORK = 1e8  # of an update: chains times the table entries that a sweep reads
MAX_DEVICE_STATES = 4096  # of all variables; a device keeps ten matrices with as many rows
MAX_EXACT_ENTRIES = 2**24  # of exact inference; about a second
N_TEMPERATURES = 200  # of the estimate of log Z that compares two models


class Refined(NamedTuple):
    """Model of a fold that persistent chains have learned.

    Attributes
    ----------
    strength : float
        Penalty strength times the number of rows.
    energy : FactorGraph
        Model.
    row_scores : ndarray of shape (n_held_out,)
        Log-likelihoods of the held-out rows, in nats.
    """

    strength: float
    energy: Any
    row_scores: np.ndarray


def is_possible(energy, parameters):
    """Return whether persistent chains may refine a model of pseudo-likelihood.

    Parameters
    ----------
    energy : FactorGraph
        Model.
    parameters : TrainingParameters
        Parameters of the estimator. If one of them chooses the optimizer, it is not replaced.

    Returns
    -------
    bool
        True if the penalty is "l2", the optimizer "auto", the rate "adaptive", no rows are held out
        for early stopping, no tables are tied, and an update takes at most about 50 ms.
    """
    layout = energy.layout
    return (
        parameters.has_default_steps
        and not parameters.early_stopping
        and not layout.is_tied
        and N_CHAINS * layout.n_entries_read <= MAX_WORK
    )


def parameters_of(parameters, energy):
    """Return the parameters of a refinement, on the CPU if a device needs too much memory.

    Parameters
    ----------
    parameters : TrainingParameters
        Parameters of the estimator.
    energy : FactorGraph
        Model.

    Returns
    -------
    TrainingParameters
        The same parameters, with ``device="cpu"`` if the variables have more than 4096 states.
    """
    return parameters.on_cpu() if energy.n_states.sum() > MAX_DEVICE_STATES else parameters


def settings_of(settings, energy, data, *, is_short=False):
    """Return the settings of a refinement: preconditioned steps at a rate that falls to zero.

    Parameters
    ----------
    settings : Settings
        Settings with the penalty.
    energy : FactorGraph
        Initial model.
    data : Batch
        All training rows.
    is_short : bool, default=False
        Whether ``max_iter`` makes the schedule shorter. In the final fit it does not, so that
        training can continue.

    Returns
    -------
    Settings
        Settings of stochastic training.
    """
    n_rows = len(data.X)
    batch_size = max(MIN_BATCH, -(-n_rows // N_BATCHES))
    n_updates = N_UPDATES
    if is_short and settings.max_iter is not None:
        n_updates = min(n_updates, settings.max_iter * -(-n_rows // batch_size))
    preconditioner = make_preconditioner(energy, data, settings.penalty, MIN_CURVATURE)
    if settings.device is not None:
        preconditioner = MatrixPreconditioner(preconditioner)
    return replace(
        settings,
        optimizer=PreconditionedSGD(preconditioner),
        rate=LinearRate(RATE, n_updates),
        batch_size=batch_size,
        min_updates=0,
        max_updates=n_updates,
    )


def make_learner():
    """Return the learner of a refinement."""
    return PCD(n_chains=N_CHAINS, n_sweeps=1, n_annealed=N_ANNEALED)


def decreasing_strengths(strength):
    """Return the penalty strengths at which a model is refined, from the strength of its path."""
    return [strength / STRENGTH_RATIO**k for k in range(MAX_STRENGTHS)]


def choose(start, strengths, settings, fold):
    """Refine the model of a fold at decreasing penalty strengths, and return the best model.

    Parameters
    ----------
    start : FactorGraph
        Model of pseudo-likelihood.
    strengths : list of float
        Penalty strengths times the number of rows, from :func:`decreasing_strengths`.
    settings : list of Settings
        Settings of the training loop for each strength.
    fold : Fold
        Complete training rows, held-out rows and reference model.

    Returns
    -------
    Refined or None
        Model with the highest log-likelihood of the held-out rows. None if the model of
        pseudo-likelihood or the reference model is as good. The log-likelihood of a refined model
        has the upper limit of log Z, that of the others its value. So errors of log Z do not favour
        refined models.
    is_interrupted : bool
        Whether Ctrl-C ended the choice.
    """
    weights = held_out_weights([fold])
    exact = fold.reference.without_zero_tables()
    log_z = expectations.exact_model(exact).log_partition(exact)
    rows = fold.test.X
    first = start.log_potential(rows) - quick_log_partition(start, fold.reference)[0]
    rivals = [fold.reference.log_potential(rows) - log_z, first]
    best, energy = None, start
    try:
        for strength, settings_of_strength in zip(strengths, settings, strict=True):
            energy = _refine(energy, fold.train, settings_of_strength)
            if energy is None:
                break
            rows = _score_rows(energy, fold)
            known = best.row_scores if best else max(rivals, key=lambda r: float(weights @ r))
            gains, errors = gain_over_reference([known, rows], weights)
            if gains[1] <= MIN_GAIN * errors[1]:
                break
            best = Refined(strength, energy, rows)
    except KeyboardInterrupt:
        return best, True
    return best, False


def _refine(energy, data, settings):
    """Return the model after preconditioned steps of PCD, or None if it does not stay finite."""
    learner, settings = make_learner(), settings_of(settings, energy, data, is_short=True)
    return run_unless_divergent(energy, learner, data, settings)


def _score_rows(energy, fold):
    _, upper = quick_log_partition(energy, fold.reference)
    return energy.log_potential(fold.test.X) - upper


def quick_log_partition(energy, reference):
    """Return log Z and its upper limit, by annealing unless exact inference takes a second.

    Parameters
    ----------
    energy : FactorGraph
        Model.
    reference : FactorGraph
        Reference model with the same cliques, from which annealing starts.

    Returns
    -------
    value, upper : float
        log Z and its upper limit, in nats. They are at least as large as the log of the sum over
        states near modes of the model (see :func:`skmrf.samplers.enumerated_states.mode_bound`).
    """
    model = expectations.quick_exact_model(energy)
    if model is not None and model.entries <= MAX_EXACT_ENTRIES:
        value = model.log_partition(energy)
        return value, value
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the limit is used, however wide the interval is
        result = ais(energy, reference=reference, n_temperatures=N_TEMPERATURES, random_state=0)
    bound = mode_bound(energy, np.random.default_rng(0))
    return max(result.value, bound), max(result.upper, bound)
