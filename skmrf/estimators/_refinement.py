"""Maximum likelihood by persistent chains, from a model that pseudo-likelihood has found."""

import warnings
from dataclasses import replace
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from sklearn.exceptions import ConvergenceWarning

from .._utils.log_weights import normalized_weights
from .._utils.warn import warn_caller
from ..exact import expectations
from ..learners import PCD
from ..likelihood import ais
from ..samplers.enumerated_states import mode_bound
from ..training.data_moments import effective_rows
from ..training.held_out import forest_log_likelihoods
from ..training.preconditioning import (
    MatrixPreconditioner,
    PreconditionedSGD,
    make_preconditioner,
)
from ..training.regularization import MIN_GAIN, gain_over_reference, held_out_weights
from ..training.schedules import LinearRate
from ._training import N_ANNEALED, complete_states, run_unless_divergent

N_CHAINS = 512
N_UPDATES = 400
RATE = 0.05  # of the natural gradient; 0.3 diverges on some data sets
MIN_CURVATURE = 5e-4  # smaller ones give long random steps to pairs of rare states
LARGE_STEP, SMALL_STEP = 10.0, 10.0**0.5  # ratios of penalty strengths
N_STEPS = 2  # in each direction, at most
SAFE_STRENGTH = 30.0  # at which a search that starts anew begins, at least
CLEAR_LOSS = 2.0  # standard errors of a loss that refuses a refined model
MIN_BATCH = 2048
N_BATCHES = 20  # at most, per epoch
MAX_WORK = 1e8  # of an update: chains times the table entries that a sweep reads
MAX_BINARY_WORK = 1.2e9  # the same if sweeps use couplings of binary variables
MAX_DEVICE_STATES = 4096  # of all variables; a device keeps ten matrices with as many rows
MAX_EXACT_ENTRIES = 2**24  # of exact inference; about a second
MAX_COMPARED_ROWS = 5000  # of two models after training
MIN_LOSS = 0.2  # nats; larger than the errors of log Z
MAX_ANNEALED = 32  # chains that restart
N_TEMPERATURES = 200  # of the estimate of log Z that compares two models


class Refined(NamedTuple):
    """Model of a fold that persistent chains have learned.

    Attributes
    ----------
    strength : float
        Penalty strength times the number of rows.
    energy : FactorGraph
        Model.
    learner : PCD
        Learner that has refined it.
    row_scores : ndarray of shape (n_held_out,)
        Log-likelihoods of the held-out rows in nats.
    """

    strength: float
    energy: Any
    learner: PCD
    row_scores: np.ndarray


class QuickLogPartition(NamedTuple):
    """Estimates of log Z in nats.

    Attributes
    ----------
    value : float
        log Z.
    upper : float
        Upper limit of log Z.
    near : float
        Log of the sum over states that are similar to those of the reference model. It is less than
        ``value`` if modes far from these states have a part of the probability.
    """

    value: float
    upper: float
    near: float


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
        for early stopping, no tables are tied, and an update takes at most about 50 ms, or 150 ms
        if tables of pairs of binary variables are a matrix of couplings.
    """
    layout = energy.layout
    max_work = MAX_BINARY_WORK if layout.is_binary_pairwise else MAX_WORK
    return (
        parameters.has_default_steps
        and not parameters.early_stopping
        and not layout.is_tied
        and N_CHAINS * layout.n_entries_read <= max_work
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


def short_settings(settings, energy, data):
    """Return the settings of a refinement of the rows of a fold; ``max_iter`` can shorten it.

    The parameters are as in :func:`final_settings`, for a refinement without comparison.
    """
    settings = _preconditioned(settings, energy, data)
    if settings.max_iter is None:
        return settings
    n_updates = min(N_UPDATES, settings.max_iter * -(-len(data.X) // settings.batch_size))
    return replace(settings, rate=LinearRate(RATE, n_updates), max_updates=n_updates)


def final_settings(settings, energy, data, reference, is_refined):
    """Return the settings of the final training, at whose end two models are compared.

    Parameters
    ----------
    settings : Settings
        Settings with the penalty.
    energy : FactorGraph
        Initial model.
    data : Batch
        All training rows.
    reference : FactorGraph
        Reference model, for :func:`keep_start` at the end of training.
    is_refined : bool
        Whether training is a refinement, not maximum pseudo-likelihood. Its schedule allows
        continued training.

    Returns
    -------
    Settings
        Settings of a refinement: preconditioned steps at a rate that falls to zero. Otherwise the
        given settings, but for the comparison.
    """
    finish = partial(keep_start, energy, reference, data, settings.average)
    settings = _preconditioned(settings, energy, data) if is_refined else settings
    return replace(settings, finish=(finish,))


def _preconditioned(settings, energy, data):
    preconditioner = make_preconditioner(energy, data, settings.penalty, MIN_CURVATURE)
    if settings.device is not None:
        preconditioner = MatrixPreconditioner(preconditioner)
    return replace(
        settings,
        optimizer=PreconditionedSGD(preconditioner),
        rate=LinearRate(RATE, N_UPDATES),
        batch_size=max(MIN_BATCH, -(-len(data.X) // N_BATCHES)),
        min_updates=0,
        max_updates=N_UPDATES,
    )


def keep_start(start, reference, data, average, state):
    """Return the final training state, with the first model if its likelihood is clearly higher.

    Pseudo-likelihood does not see states that are far from the rows, and chains need a long time to
    reach them, such as rows with many more ones. So they can get a large probability in training.

    Parameters
    ----------
    start : FactorGraph
        Model at which training started.
    reference : FactorGraph
        Reference model.
    data : Batch
        Training rows.
    average : bool
        Whether the fitted model is the mean of iterates.
    state : LoopState
        State at the end of training.

    Returns
    -------
    LoopState
        The same state, or a state with the first model and without chains; then a warning says so.
    """
    rng = np.random.default_rng(0)
    rows = complete_states(data.take(rng.permutation(len(data.X))[:MAX_COMPARED_ROWS]), rng)
    weights = normalized_weights(rows.log_weights, len(rows.X))
    scores = [
        float(weights @ energy.log_potential(rows.X)) - quick_log_partition(energy, reference).value
        for energy in (state.result(average), start)
    ]
    loss = scores[1] - scores[0]
    if not loss > MIN_LOSS:
        return state
    warn_caller(
        f"Training reached a mean log-likelihood of training rows that is about {loss:.3g} nats "
        "lower than that of the model before training, because states far from the rows became "
        "probable. The fitted model is the one before, which may not have used all rows. Set a "
        "larger alpha.",
        ConvergenceWarning,
    )
    return state.with_other_model(start)


def reference_score(fold):
    """Return the mean log-likelihood of the held-out rows of a fold by its reference model."""
    return held_out_weights([fold]) @ forest_log_likelihoods(fold.reference, fold.test)


def is_certainly_worse(fold, energy):
    """Return whether a model is worse than the reference model of a fold, for any possible log Z.

    The log-likelihoods of the held-out rows are compared. log Z of the model is replaced by a lower
    bound: the log of the sum over states near its modes.
    """
    log_z = mode_bound(energy, np.random.default_rng(0))
    highest = held_out_weights([fold]) @ energy.log_potential(fold.test.X) - log_z
    return highest <= reference_score(fold)


def make_learner(n_annealed=N_ANNEALED):
    """Return the learner of a refinement, given the number of chains that restart.

    With more than two of them, the gradient has conditional probabilities, which have less noise.
    With eight, frequencies of states left a mode of the data set book. With two, conditional
    probabilities left a mode of kdd, which only long annealing finds.
    """
    return PCD(
        n_chains=N_CHAINS, n_sweeps=1, n_annealed=n_annealed,
        rao_blackwell=n_annealed > N_ANNEALED,
    )  # fmt: skip


def make_search(path, tree, parameters, centre):
    """Return the search for the penalty strength of a refinement of a path's chosen model.

    Parameters
    ----------
    path : ChosenPath
        Path of pseudo-likelihood. Its first fold has the rows.
    tree : FactorGraph
        Reference model from which annealing for log Z starts.
    parameters : TrainingParameters
        Parameters of the estimator.
    centre : dict of str to ndarray or None
        Parameters towards which the penalty shrinks, or None for zero.

    Returns
    -------
    StrengthSearch
        Search that has not started.
    """
    fold, fits, learner = path.folds[0], path.fits, make_learner()
    n_rows, parameters = effective_rows(fold.train), parameters_of(parameters, fold.reference)

    def settings_at(strength):
        """Return the settings of a refinement."""
        settings = parameters.settings(
            learner, fold.reference, fold.train, alpha=strength / n_rows, centre=centre,
            interruptible=False,
        )  # fmt: skip
        return replace(settings, complete=False)

    given = fits.energies[path.choice], fits.strengths[path.choice]
    return StrengthSearch(*given, settings_at, fold, tree)


def choose(searches):
    """Refine models of a fold at several penalty strengths, and return the best model.

    Parameters
    ----------
    searches : list of StrengthSearch
        Searches around different reference models. Only the one whose first refined model has the
        highest log-likelihood of the held-out rows continues.

    Returns
    -------
    index : int
        Index of this search.
    refined : Refined or None
        Its best refined model. None if the model of pseudo-likelihood or the reference model is
        clearly better. The log-likelihood of a refined model has the upper limit of log Z, that of
        the others its value. So errors of log Z do not favour refined models.
    is_interrupted : bool
        Whether Ctrl-C ended the choice.
    """
    index = 0
    try:
        for search in searches:
            search.start()
        index = int(np.argmax([search.score for search in searches]))
        searches[index].run()
    except KeyboardInterrupt:
        return index, searches[index].best, True
    return index, searches[index].best, False


class StrengthSearch:
    """Search for the penalty strength of a refinement with the best score of held-out rows.

    Refinement starts at the better one of the model of pseudo-likelihood and the reference model,
    because pseudo-likelihood can find modes far from the rows. The first refined model is refused
    only if it is worse by two standard errors, because the model of pseudo-likelihood does not have
    the frequencies of the columns in the rows.

    Parameters
    ----------
    energy : FactorGraph
        Model of pseudo-likelihood.
    strength : float
        Penalty strength of this model times the number of rows.
    settings : callable
        Function that returns the settings of the training loop for a strength.
    fold : Fold
        Complete training rows, held-out rows and reference model.
    tree : FactorGraph
        Reference model from which annealing for log Z starts.

    Attributes
    ----------
    best : Refined or None
        Best refined model. None if the first model is clearly better.
    """

    def __init__(self, energy, strength, settings, fold, tree):
        self.energy, self.strength, self.settings = energy, strength, settings
        self.fold, self.tree, self.best = fold, tree, None
        self.row_scores = self.reference_scores = None

    def start(self):
        """Find the first model, and refine it at the first strength."""
        rows, reference = self.fold.test, self.fold.reference
        self.reference_scores = forest_log_likelihoods(reference, rows)
        log_z = quick_log_partition(self.energy, self.tree)
        self.row_scores = self.energy.log_potential(rows.X) - log_z.value
        if self._weights @ self.reference_scores >= self.score:
            self.energy, self.row_scores = reference, self.reference_scores
        self._compare(self.strength, -CLEAR_LOSS)

    @property
    def score(self):
        """Mean log-likelihood of a held-out row by the best model, in nats."""
        return float(self._weights @ self.row_scores)

    def run(self):
        """Compare other strengths.

        Weaker penalties follow in large steps while they are clearly better. If the last one was
        neither clearly better nor clearly worse, one in a small step follows. If none is better,
        stronger ones follow in small steps. If the first one is clearly worse than the given model,
        whose Markov chains may not mix, and no stronger one is clearly better, the search starts
        anew at the reference model and at a strong penalty.
        """
        first = self.strength
        if self.best is not None:
            gain = self._follow(first / LARGE_STEP**k for k in range(1, 1 + N_STEPS))
            if -CLEAR_LOSS < gain <= MIN_GAIN:
                self._follow([self.best.strength / SMALL_STEP])
        if self.best is None or self.best.strength == first:
            self._follow(first * SMALL_STEP**k for k in range(1, 1 + N_STEPS))
        if self.best is None:
            self._start_anew(first)

    def _start_anew(self, last):
        """Refine the reference model at decreasing strengths, down to the last one.

        The model is kept only if it is better than that of pseudo-likelihood.
        """
        before = self.row_scores
        self.energy, self.row_scores = self.fold.reference, self.reference_scores
        n_steps = np.log10(max(SAFE_STRENGTH / last, LARGE_STEP)) / np.log10(SMALL_STEP)
        try:
            self._follow(last * SMALL_STEP**k for k in range(int(np.ceil(n_steps)), -1, -1))
        finally:
            if self._weights @ before >= self.score:
                self.best, self.row_scores = None, before

    def _follow(self, strengths):
        """Refine the best model at each strength while it becomes clearly better.

        Returns
        -------
        float
            Gain of the last model over the best one before it, in standard errors.
        """
        gain = 0.0
        for strength in strengths:
            gain = self._compare(strength, MIN_GAIN)
            if gain <= MIN_GAIN:
                break
        return gain

    def _compare(self, strength, least_gain):
        """Refine the best model, and replace it if the gain is larger than the least gain.

        Returns
        -------
        float
            Gain of the mean score of the held-out rows, in standard errors; -inf if the parameters
            do not stay finite.
        """
        before, best, gain = self.row_scores, -np.inf, -np.inf
        for refined in self._repeat(self.energy, strength):
            row_scores = refined.row_scores
            gains, errors = gain_over_reference([before, row_scores], self._weights)
            if gains[1] <= best:
                continue
            best, gain = gains[1], gains[1] / errors[1] if errors[1] > 0.0 else 0.0
            if gain > least_gain:
                self.best, self.energy, self.row_scores = refined, refined.energy, row_scores
        return float(gain)

    def _repeat(self, start, strength):
        """Yield refined models, with more chains that restart while modes far from the rows remain.

        Few chains restart first, because many of them would reduce the probability of rare states
        in the rows.
        """
        n_annealed, is_far = N_ANNEALED, True
        while is_far and n_annealed <= MAX_ANNEALED:
            learner, settings = make_learner(n_annealed), self.settings(strength)
            energy = _refine(start, learner, self.fold.train, settings)
            if energy is None:
                return
            log_z = quick_log_partition(energy, self.tree)
            row_scores = energy.log_potential(self.fold.test.X) - log_z.upper
            yield Refined(strength, energy, learner, row_scores)
            n_annealed, is_far = 4 * n_annealed, log_z.value - log_z.near > MIN_LOSS

    @property
    def _weights(self):
        return held_out_weights([self.fold])


def _refine(energy, learner, data, settings):
    """Return the model after preconditioned steps of PCD, or None if it does not stay finite."""
    return run_unless_divergent(energy, learner, data, short_settings(settings, energy, data))


def quick_log_partition(energy, reference):
    """Return estimates of log Z, by annealing unless exact inference takes a second.

    Parameters
    ----------
    energy : FactorGraph
        Model.
    reference : FactorGraph
        Reference model with the same cliques, from which annealing starts.

    Returns
    -------
    QuickLogPartition
        log Z and its upper limit. They are at least as large as the log of the sum over states near
        modes of the model (see :func:`skmrf.samplers.enumerated_states.mode_bound`), and as the
        estimate of log Z by annealing from a product distribution. States with many more ones than
        the rows are few of the samples of the reference model, even if they have most of the
        probability.
    """
    model = expectations.quick_exact_model(energy)
    if model is not None and model.entries <= MAX_EXACT_ENTRIES:
        value = model.log_partition(energy)
        return QuickLogPartition(value, value, value)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the limit is used, however wide the interval is
        first, other = [
            ais(energy, reference=p0, n_temperatures=N_TEMPERATURES, random_state=0)
            for p0 in (reference, None)
        ]
    bound = max(mode_bound(energy, np.random.default_rng(0)), other.value)
    return QuickLogPartition(max(first.value, bound), max(first.upper, bound), first.value)
