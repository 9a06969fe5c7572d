"""Weight decay and learning rate of Boltzmann machines, chosen by held-out log-likelihoods."""

import warnings
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from .._utils.codes import MISSING
from .._utils.log_weights import normalized_weights
from ..energies import PairwiseEnergy, SemiRestrictedEnergy
from ..learners import PCD, PTT
from ..likelihood import ais
from ..training import loop
from ..training import state as loop_state
from ..training.data_moments import effective_rows
from ..training.preconditioning import (
    CoupledLayerPreconditioner,
    LayerPreconditioner,
    PairPreconditioner,
    PreconditionedSGD,
)
from ..training.schedules import LinearRate
from ._rows import complete_states, random_states

STRENGTHS = (10.0, 3.0, 30.0)  # alpha times the number of rows; the first one is the default
COUPLED_STRENGTHS = (3.0, 1.0, 10.0)  # the same for coupled variables and hidden units
WEAKER_STRENGTHS = (0.3, 0.1)  # of coupled variables, compared while the last one is the best
LAYER_RATES, PAIR_RATES = (0.2, 0.05), (0.05,)  # of the preconditioned gradient
SAFE_LAYER_RATE = 0.1  # if no rates are compared
RECENCY = 8.0  # recent iterates have large weights in the average, because iterates keep improving
MIN_ROWS, MIN_TEST_ROWS = 50, 10  # with fewer rows, strengths are not compared
MAX_HELD_OUT, MAX_TRAIN = 2000, 50_000  # rows of the comparison
PAIR_UPDATES, MIN_LAYER_UPDATES, UPDATES_PER_ROW = 1000, 1500, 2
MAX_LAYER_UPDATES, UPDATES_TIMES_WEIGHTS = 6000, 3e8
MAX_COUPLED_UPDATES, COUPLED_UPDATES_TIMES_WEIGHTS = 24_000, 1e9  # couplings and hidden units
SHORT, MAX_SHORT_UPDATES = 3, 4000  # a fit that compares strengths has a third of the updates
N_TEMPERATURES, N_CHAINS = 1000, 64


class Choice(NamedTuple):
    """Chosen strength of the weight decay and learning rate, and a model of a short fit with both.

    Attributes
    ----------
    alpha : float
        Strength against the mean log-likelihood of a row.
    rate : float
        Initial learning rate.
    energy : BipartiteEnergy, PairwiseEnergy or SemiRestrictedEnergy
        Model of a short fit with both, or the initial model if nothing was compared.
    is_interrupted : bool
        Whether Ctrl-C ended the choice.
    score : float
        Mean log-likelihood of held-out rows in nats, -inf if nothing was compared.
    """

    alpha: float
    rate: float
    energy: Any
    is_interrupted: bool = False
    score: float = -np.inf


def is_preconditioned(learner, parameters):
    """Return whether training makes preconditioned steps: with PCD or PTT and default parameters.

    Parameters
    ----------
    learner : Learner
        Estimator of the gradient.
    parameters : TrainingParameters
        Parameters of the estimator. If one of them chooses the optimizer, it is not replaced.

    Returns
    -------
    bool
        True if the optimizer and its rate can be replaced.
    """
    return (
        isinstance(learner, PCD | PTT)
        and parameters.has_default_steps
        and not parameters.is_partial
    )


def preconditioned_settings(settings, energy, data, rate, *, is_short=False):
    """Return settings with centred, scaled gradients and a rate that falls to zero.

    Parameters
    ----------
    settings : Settings
        Settings with the penalty and the size of minibatches.
    energy : BipartiteEnergy, PairwiseEnergy or SemiRestrictedEnergy
        Initial model.
    data : Batch
        Training rows.
    rate : float
        Initial learning rate.
    is_short : bool, default=False
        Whether the fit only compares candidates.

    Returns
    -------
    Settings
        Settings of stochastic training. The schedule does not depend on ``max_iter``, so that
        training can continue. A short fit has a third of the updates, at most 4000. Minibatches
        are so large that an epoch has at most all updates.
    """
    n_updates = _n_updates(energy, data.X.shape[0])
    if is_short:
        if settings.max_iter is not None:
            n_batches = -(-data.X.shape[0] // settings.batch_size)
            n_updates = min(n_updates, settings.max_iter * n_batches)
        n_updates = max(min(n_updates // SHORT, MAX_SHORT_UPDATES), 1)
    return replace(
        settings,
        optimizer=PreconditionedSGD(_preconditioner(energy, data, settings.penalty)),
        rate=LinearRate(rate, n_updates),
        batch_size=max(settings.batch_size, -(-data.X.shape[0] // n_updates)),
        recency=RECENCY,
        max_iter=None if is_short else settings.max_iter,
        min_updates=0,
        max_updates=n_updates,
    )


def _n_updates(energy, n_rows):
    """Return the number of updates: fewer for few rows and for large models."""
    if isinstance(energy, PairwiseEnergy):
        return PAIR_UPDATES
    n_weights = sum(v.size for v in energy.theta.values() if v.ndim == 2)
    largest, work = MAX_LAYER_UPDATES, UPDATES_TIMES_WEIGHTS
    if isinstance(energy, SemiRestrictedEnergy):
        largest, work = MAX_COUPLED_UPDATES, COUPLED_UPDATES_TIMES_WEIGHTS
    n_updates = min(work / n_weights, UPDATES_PER_ROW * n_rows)
    return int(np.clip(n_updates, MIN_LAYER_UPDATES, largest))


def _preconditioner(energy, data, penalty):
    """Return the preconditioner of a model, for the means of the columns."""
    weights = normalized_weights(data.log_weights, data.X.shape[0])
    curvature = {k: np.max(v) for k, v in penalty.curvature(energy.theta).items()}
    if isinstance(energy, PairwiseEnergy):
        return PairPreconditioner(_means(data.X, weights), energy.states, curvature["coupling"])
    if isinstance(energy, SemiRestrictedEnergy) and not energy.is_coupled:
        return LayerPreconditioner(_means(data.X, weights), curvature["weights"], energy.states)
    if isinstance(energy, SemiRestrictedEnergy):
        curvatures = curvature["coupling"], curvature["weights"]
        return CoupledLayerPreconditioner(_means(data.X, weights), energy.states, curvatures)
    return LayerPreconditioner(np.asarray(weights @ data.X).ravel(), curvature["weights"])


def _means(X, weights):
    """Return the weighted means of the observed codes of each column."""
    observed, ones = weights @ (X != MISSING), weights @ (X == 1)
    return ones / np.where(observed > 0, observed, 1.0)


def choose_model(energies, data, parameters):
    """Choose one of several models, the strength of its weight decay and its learning rate.

    Models are compared by short fits in their order, until one is worse than the best one.

    Parameters
    ----------
    energies : iterable of PairwiseEnergy or SemiRestrictedEnergy
        Initial models.
    data : Batch
        Training rows.
    parameters : TrainingParameters
        Parameters of the estimator. With a number as ``alpha``, only models are compared.

    Returns
    -------
    start : PairwiseEnergy or SemiRestrictedEnergy
        Initial model of the best candidate; the first one if nothing is compared.
    choice : Choice
        Its strength and rate.
    """
    best = None
    for energy in energies:
        choice = choose(energy, data, parameters, compare_given=True)
        if best is None or choice.score > best[1].score:
            best = energy, choice
        if choice.is_interrupted:
            return best[0], best[1]._replace(is_interrupted=True)
        if choice.score <= -np.inf or best[0] is not energy:
            break
    return best


def choose(energy, data, parameters, known=None, *, compare_given=False):
    """Choose the strength of the weight decay and the learning rate.

    With ``alpha="auto"``, short fits by PCD are compared: first two rates at the first strength,
    then the other strengths at the best rate.

    Parameters
    ----------
    energy : BipartiteEnergy, PairwiseEnergy or SemiRestrictedEnergy
        Initial model.
    data : Batch
        Training rows.
    parameters : TrainingParameters
        Parameters of the estimator.
    known : tuple of (float or None, float or None), optional
        Strength and rate of the earlier fit, if training continues.
    compare_given : bool, default=False
        Whether the rates are also compared if ``alpha`` is a number, to get a score.

    Returns
    -------
    Choice
        Best candidate. Nothing is compared with fewer than 50 rows or 10 complete held-out rows,
        with a penalty other than "l2", in ``partial_fit``, and if training continues.
    """
    n_rows, n_effective = data.X.shape[0], effective_rows(data)
    known_alpha, known_rate = known or (None, None)
    rates = PAIR_RATES if isinstance(energy, PairwiseEnergy) else LAYER_RATES
    alpha, rate = parameters.alpha, known_rate or min(rates[0], SAFE_LAYER_RATE)
    is_coupled = isinstance(energy, SemiRestrictedEnergy) and energy.is_coupled
    strengths, weaker = (COUPLED_STRENGTHS, WEAKER_STRENGTHS) if is_coupled else (STRENGTHS, ())
    if isinstance(alpha, str):
        alpha = strengths[0] / n_effective if known_alpha is None else known_alpha
    elif compare_given:
        strengths, weaker = (alpha * n_effective,), ()
    else:
        return Choice(alpha, rate, energy)
    first = Choice(alpha, rate, energy)
    is_given = known is not None or parameters.is_partial or parameters.penalty != "l2"
    if is_given or n_rows < MIN_ROWS:
        return first
    rng = np.random.default_rng(0)
    train, test = split_rows(data, rng)
    test = complete_states(test, rng)
    if len(test.X) < MIN_TEST_ROWS:
        return first
    given = replace(parameters, optimizer="auto")
    return _compare(first, n_effective, (strengths, weaker), rates, train, test, given)


def split_rows(data, rng):
    """Return the training rows and the held-out rows of the comparison."""
    n_rows = data.X.shape[0]
    order = rng.permutation(n_rows)
    n_test = min(n_rows // 5, MAX_HELD_OUT)
    return data.take(order[n_test : n_test + MAX_TRAIN]), data.take(order[:n_test])


def _compare(best, n_effective, candidates, rates, train, test, parameters):
    """Return the best candidate of short fits; Ctrl-C ends the comparison.

    ``candidates`` are the strengths to compare, and weaker ones. A weaker strength follows if the
    weakest one so far is the best.
    """
    strengths, weaker = candidates
    start, n_train = best.energy, effective_rows(train)
    modes = random_states(train, np.random.default_rng(0))
    weakest = min(strengths)
    try:
        for strength in (*strengths, *weaker):
            if strength in weaker and best.alpha > 1.001 * weakest / n_effective:
                break
            weakest = min(strength, weakest)
            for rate in rates if strength == strengths[0] else (best.rate,):
                model = _fit(start, train, parameters, strength / n_train, rate)
                score = -np.inf
                if model is not None:
                    score = _score(model, test, modes, parameters.device)
                if score > best.score:
                    best = Choice(strength / n_effective, rate, model, score=score)
    except KeyboardInterrupt:
        return best._replace(is_interrupted=True)
    return best


def _fit(energy, data, parameters, alpha, rate):
    """Return the model of a short fit, or None if its parameters do not stay finite."""
    learner = PCD()
    settings = parameters.settings(
        learner, energy, data, alpha=alpha, default_optimizer="adam", interruptible=False
    )  # fmt: skip
    settings = replace(settings, complete=False)
    settings = preconditioned_settings(settings, energy, data, rate, is_short=True)
    state = loop_state.start(energy, learner, data, settings, np.random.default_rng(0))
    try:
        return loop.run(learner, data, settings, state).result()
    except ValueError:  # the other rate may be small enough
        return None


def _score(energy, rows, start, device):
    """Return the mean log-likelihood of rows, with the upper limit of a quick log Z.

    Reverse chains that begin at ``start`` raise the limit if annealing misses the data's modes.
    """
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the limit is used, however wide the interval is
        log_z = ais(
            energy,
            n_temperatures=N_TEMPERATURES,
            n_chains=N_CHAINS,
            start=start,
            random_state=0,
            device=device,
        )
    weights = normalized_weights(rows.log_weights, rows.X.shape[0])
    return float(weights @ energy.log_marginal(rows.X)) - log_z.upper
