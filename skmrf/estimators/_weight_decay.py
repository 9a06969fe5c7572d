"""Weight decay and learning rate of Boltzmann machines, chosen by held-out log-likelihoods."""

from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from .._utils.codes import MISSING
from .._utils.log_weights import normalized_weights
from .._utils.namespaces import as_numpy, is_numpy
from .._utils.rows import column_means, count_rows, is_mapped, sample_weights
from ..energies import PairwiseEnergy, SemiRestrictedEnergy
from ..exact.expectations import exact_model
from ..learners import PCD, PTT, Exact
from ..learners.base import has_missing
from ..structure.chow_liu import fit_pairwise_forest
from ..training.data_moments import effective_rows
from ..training.held_out import annealed_log_likelihoods, forest_log_likelihoods
from ..training.initial_values import independent_columns
from ..training.preconditioning import (
    CoupledLayerPreconditioner,
    LayerPreconditioner,
    PairPreconditioner,
    PreconditionedSGD,
)
from ..training.regularization import Fold, choose_path, choose_strength, fit_path
from ..training.schedules import LinearRate
from ._training import complete_states, make_pcd, random_states, run_unless_divergent

STRENGTHS = (30.0, 10.0, 3.0, 1.0, 0.3, 0.1)  # alpha times the number of rows, of hidden weights
COUPLED_STRENGTHS = (3000.0, 1000.0, 300.0, 100.0, *STRENGTHS)  # with couplings
MIN_GAIN = 2.0  # standard errors of a clear difference
FIRST_STRENGTH, FIRST_COUPLED_STRENGTH = 10.0, 3.0  # the latter with couplings and hidden units
STRENGTH_OF_STARTS = 3.0  # a stronger penalty could hide the differences of initial models
LAYER_RATES, PAIR_RATES = (0.2, 0.05), (0.05,)  # of the preconditioned gradient
SAFE_LAYER_RATE = 0.1  # if no rates are compared
RECENCY = 8.0  # recent iterates have large weights in the average, because iterates keep improving
MIN_ROWS, MIN_TEST_ROWS = 50, 10  # with fewer rows, strengths are not compared
MIN_PARTIAL_ROWS = 1000.0  # assumed in partial_fit, whose first call can have few of all rows
MAX_HELD_OUT, MAX_TRAIN = 2000, 50_000  # rows of the comparison
PAIR_UPDATES, MIN_LAYER_UPDATES, UPDATES_PER_ROW = 1000, 1500, 2
MAX_LAYER_UPDATES, UPDATES_TIMES_WEIGHTS = (6000, 12_000), 3e8
ROWS_PER_UPDATE = 5  # for the largest number of updates between these two
MAX_COUPLED_UPDATES, COUPLED_UPDATES_TIMES_WEIGHTS = 24_000, 1e9  # couplings and hidden units
SHORT, MAX_SHORT_UPDATES = 3, 4000  # a fit that compares strengths has a third of the updates
MAX_EXACT = 20  # columns without hidden units, for which an exact gradient takes a few milliseconds
PATH_ITERATIONS, PATH_GAIN = 100, 1e-5  # of their fits at most; nats, at which a fit ends
MAX_CROSS_VALIDATED = 10_000  # rows of the comparison by exact gradients; with more, one split


class Choice(NamedTuple):
    """Chosen strength of the weight decay and learning rate, and the model of the best short fit.

    Attributes
    ----------
    alpha : float
        Strength against the mean log-likelihood of a row.
    rate : float
        Initial learning rate.
    energy : BipartiteEnergy, PairwiseEnergy or SemiRestrictedEnergy
        Model of the best short fit, or the initial model if nothing was compared.
    is_interrupted : bool
        Whether Ctrl-C ended the choice.
    score : float
        Mean log-likelihood of held-out rows in nats, -inf if nothing was compared.
    start : BipartiteEnergy, PairwiseEnergy or SemiRestrictedEnergy, optional
        Initial model for all rows.
    centre : dict of str to ndarray, optional
        Parameters towards which the penalty shrinks, by default zero.
    reference : PairwiseEnergy, optional
        Chow-Liu forest at which annealing for ``score`` starts, without hidden units.
    """

    alpha: float
    rate: float
    energy: Any
    is_interrupted: bool = False
    score: float = -np.inf
    start: Any = None
    centre: dict | None = None
    reference: PairwiseEnergy | None = None


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
    """Return the number of updates: more for many rows, and fewer for large models."""
    if isinstance(energy, PairwiseEnergy):
        return PAIR_UPDATES
    n_weights = sum(v.size for v in energy.theta.values() if v.ndim == 2)
    largest = np.clip(n_rows / ROWS_PER_UPDATE, *MAX_LAYER_UPDATES)
    work = UPDATES_TIMES_WEIGHTS
    if isinstance(energy, SemiRestrictedEnergy):
        largest, work = MAX_COUPLED_UPDATES, COUPLED_UPDATES_TIMES_WEIGHTS
    n_updates = min(work / n_weights, UPDATES_PER_ROW * n_rows)
    return int(np.clip(n_updates, MIN_LAYER_UPDATES, largest))


def _preconditioner(energy, data, penalty):
    """Return the preconditioner of a model, for the means of the columns."""
    curvature = {k: np.max(v) for k, v in penalty.curvature(energy.theta).items()}
    if isinstance(energy, PairwiseEnergy):
        return PairPreconditioner(_means(data), energy.states, curvature["coupling"])
    if isinstance(energy, SemiRestrictedEnergy) and not energy.is_coupled:
        return LayerPreconditioner(_means(data), curvature["weights"], energy.states)
    if isinstance(energy, SemiRestrictedEnergy):
        curvatures = curvature["coupling"], curvature["weights"]
        return CoupledLayerPreconditioner(_means(data), energy.states, curvatures)
    return LayerPreconditioner(column_means(data.X, data.log_weights), curvature["weights"])


def _means(data):
    """Return the weighted means of the observed codes of each column."""
    weights = sample_weights(data)
    total = data.X.shape[0] if weights is None else weights.sum()
    missing, ones = (count_rows(data.X, code, weights) for code in (MISSING, 1))
    return ones / np.where(missing < total, total - missing, 1.0)


def choose(energy, data, parameters, known=None, *, compare_given=False, before=None, starts=()):
    """Choose the strength and the centre of the weight decay, and the learning rate.

    With ``alpha="auto"``, short fits by PCD are compared: first two rates at the first strength,
    then, with couplings, shrinkage towards a Chow-Liu forest instead of zero. Weaker strengths
    follow while they are better. If none is, stronger ones follow. With couplings, the strongest
    penalty is chosen if the forest has no edge, unless the best candidate is clearly better than
    independent columns. Without couplings, fits with all updates compare the rates again if the
    larger one is better by less than two standard errors. Longer fits need smaller rates.

    Parameters
    ----------
    energy : BipartiteEnergy, PairwiseEnergy or SemiRestrictedEnergy
        Initial model.
    data : Batch
        Training rows.
    parameters : TrainingParameters
        Parameters of the estimator.
    known : tuple of (float or None, float or None, dict or None), optional
        Strength, rate and centre of the earlier fit, if training continues.
    compare_given : bool, default=False
        Whether the rates are also compared if ``alpha`` is a number, to get a score.
    before : Choice, optional
        Choice for a model with fewer hidden units. With couplings, the comparison starts at its
        strength, and its centre is kept.
    starts : sequence of callables, optional
        Functions ``(energy, rows) -> energy`` of other initial models, which are compared first.

    Returns
    -------
    Choice
        Best candidate. Nothing is compared with fewer than 50 rows or 10 complete held-out rows,
        with a penalty other than "l2", in ``partial_fit``, and if training continues.
    """
    n_rows, least = data.X.shape[0], MIN_PARTIAL_ROWS if parameters.is_partial else 0.0
    n_effective = max(effective_rows(data), least)
    known_alpha, known_rate, known_centre = known or (None, None, None)
    rates = PAIR_RATES if isinstance(energy, PairwiseEnergy) else LAYER_RATES
    alpha, rate = parameters.alpha, known_rate or min(rates[0], SAFE_LAYER_RATE)
    strength, strengths = _candidates(energy)
    if isinstance(alpha, str):
        alpha = strength / n_effective if known_alpha is None else known_alpha
    elif compare_given:
        strengths = (alpha * n_effective,)
    else:
        return Choice(alpha, rate, energy, start=energy)
    first = Choice(alpha, rate, energy, start=energy, centre=known_centre)
    is_given = known is not None or parameters.is_partial or parameters.penalty != "l2"
    if is_given or n_rows < MIN_ROWS:
        return first
    rng = np.random.default_rng(0)
    train, test = split_rows(data, rng)
    test = complete_states(test, rng)
    if len(test.X) < MIN_TEST_ROWS:
        return first
    if _is_exactly_compared(energy, data, strengths):
        return _choose_exactly(first, strengths, data, parameters)
    given = (train, test, n_effective), replace(parameters, optimizer="auto")
    comparison = _Comparison(first, strengths, *given)
    best = comparison.run(rates, before if _has_couplings(energy) else None, starts)
    if best.centre is None and comparison.reference is None:
        return best
    around = _around_forest(energy, data)
    start, centre = (best.start, None) if best.centre is None else around
    reference = None if comparison.reference is None else around[0]
    return best._replace(start=start, centre=centre, reference=reference)


def _is_exactly_compared(energy, data, strengths):
    """Return whether exact gradients compare the strengths."""
    return (
        len(strengths) > 1
        and isinstance(energy, PairwiseEnergy)
        and energy.n_variables <= MAX_EXACT
        and not has_missing(data.X)
    )


def _choose_exactly(first, strengths, data, parameters):
    """Choose the strength and the centre by maximum-likelihood fits to folds of the rows."""
    learner, states = Exact(), first.start.states
    data = data._replace(X=as_numpy(data.X))
    splits = _folds(data, np.random.default_rng(0))
    given = {"alpha": 0.0, "interruptible": False}
    settings = parameters.on_cpu().settings(learner, first.start, data, **given)
    settings = replace(settings, complete=False, max_iter=PATH_ITERATIONS, min_gain=PATH_GAIN)
    rules, paths = [independent_columns], []
    if fit_pairwise_forest(data, states).coupling.any():
        rules = [fit_pairwise_forest, *rules]
    for rule in rules:
        folds = [Fold(train, test, rule(train, states)) for train, test in splits]
        given = learner, folds, settings, _log_likelihoods, parameters.penalty, strengths
        paths.append(choose_strength(fit_path(*given, is_patient=True), folds))
        if paths[-1].fits.interrupted:
            break
    best, (_, fits, choice) = choose_path(paths)
    test, model = splits[0][1], fits.energies[choice]
    weights = normalized_weights(test.log_weights, len(test.X))
    start = rules[best](data, states)
    return first._replace(
        alpha=fits.strengths[max(choice, 1)] / effective_rows(data),
        energy=model,
        is_interrupted=fits.interrupted,
        score=float(weights @ _log_likelihoods(model, test)),
        start=start,
        centre=start.theta,
    )


def _log_likelihoods(energy, rows):
    return energy.log_marginal(rows.X) - exact_model(energy).log_partition(energy)


def _folds(data, rng):
    """Return splits into training and held-out rows: the first one, or five with few rows."""
    n_rows = data.X.shape[0]
    if n_rows >= MAX_CROSS_VALIDATED:
        return [split_rows(data, rng)]
    order, n_test = rng.permutation(n_rows), n_rows // 5
    parts = np.split(order, n_test * np.arange(1, 5))
    return [(data.take(np.setdiff1d(order, part)), data.take(part)) for part in parts]


def split_rows(data, rng):
    """Return the training rows and the held-out rows of the comparison."""
    n_rows = data.X.shape[0]
    order = rng.permutation(n_rows)
    n_test = min(n_rows // 5, MAX_HELD_OUT)
    pick = data.take if is_mapped(data.X) else data.select  # few rows are faster in memory
    return pick(order[n_test : n_test + MAX_TRAIN]), data.take(order[:n_test])


def _has_couplings(energy):
    """Return whether couplings of visible variables are parameters of the energy."""
    return "coupling" in energy.theta


def _candidates(energy):
    """Return the first strength and all strengths to compare, times the number of rows."""
    if not _has_couplings(energy):
        return FIRST_STRENGTH, STRENGTHS
    is_pairwise = isinstance(energy, PairwiseEnergy)
    return FIRST_STRENGTH if is_pairwise else FIRST_COUPLED_STRENGTH, COUPLED_STRENGTHS


def _around_forest(energy, data):
    """Return the initial model with the parameters of a Chow-Liu forest, and the penalty's centre.

    The centre is None if the forest has no edge. At most 50,000 rows of a memory map or of a device
    are used.
    """
    if is_mapped(data.X) or not is_numpy(data.X):
        order = np.random.default_rng(0).permutation(data.X.shape[0])
        data = data.take(np.sort(order[:MAX_TRAIN]))
    forest = fit_pairwise_forest(data, energy.states)
    if not forest.coupling.any():
        return energy, None
    bias = "visible_bias" if energy.has_latent else "bias"
    given = {"coupling": forest.coupling, bias: forest.bias}
    given = {k: v.astype(energy.theta[k].dtype) for k, v in given.items()}
    start = energy.with_theta(energy.theta | given)
    hidden = {"weights": np.zeros_like(energy.theta["weights"])} if energy.has_latent else {}
    return start, start.theta | hidden


class _Comparison:
    """Comparison of short fits by the log-likelihood of held-out rows.

    Parameters
    ----------
    first : Choice
        Initial model, first strength and rate.
    strengths : tuple of float
        All strengths times the number of rows, in decreasing order.
    rows : tuple of (Batch, Batch, float)
        Training rows, held-out rows and the number of all rows.
    parameters : TrainingParameters
        Parameters of the estimator.

    Attributes
    ----------
    best : Choice
        Best candidate so far.
    reference : PairwiseEnergy or None
        Chow-Liu forest of the training rows, unless it has no edge or there are hidden units.
    """

    def __init__(self, first, strengths, rows, parameters):
        self.first = self.best = first
        self.strengths, self.parameters = strengths, parameters
        self.train, self.test, self.n_effective = rows
        self.row_scores = None  # of the best candidate
        self.modes = random_states(self.train, np.random.default_rng(0))
        rule = _around_forest if _has_couplings(first.start) else (lambda energy, _: (energy, None))
        forest, centre = self.around_forest = rule(first.start, self.train)
        self.reference = None if centre is None or forest.has_latent else forest

    def run(self, rates, before, starts):
        """Return the best candidate; Ctrl-C ends the comparison."""
        start, centre, at = self.best.start, None, self._index(self.best.alpha)
        around_forest = self.around_forest if len(self.strengths) > 1 else (start, None)
        if before is not None:
            at = self._index(before.alpha)
            if before.centre is not None and before.centre["coupling"].any():
                start, centre = around_forest
        if starts:
            at = self._index(STRENGTH_OF_STARTS / self.n_effective)
        try:
            self._improve(start, centre, at, rates[0])
            for other in starts:
                self._improve(other(self.first.start, self.train), None, at, rates[0])
            start = self.best.start if starts else start
            unclear = [r for r in rates[1:] if self._improve(start, centre, at, r) is None]
            if before is None and around_forest[1] is not None:
                self._improve(*around_forest, at, self.best.rate)
            self._search_from(at, rates[0])
            for rate in unclear:
                self._compare_whole_fits(rate)
            if around_forest[1] is None and not self._is_better_than_independent():
                self.best, self.row_scores = self.first, None
                self._improve(self.first.start, None, 0, rates[0])
        except KeyboardInterrupt:
            return self.best._replace(is_interrupted=True)
        return self.best

    def _is_better_than_independent(self):
        """Return whether the best candidate is clearly better than independent columns."""
        is_compared = _has_couplings(self.first.start) and len(self.strengths) > 1
        if self.row_scores is None or not is_compared:
            return True
        independent = independent_columns(self.train, self.first.start.states)
        gain, error = self._mean(self.row_scores - forest_log_likelihoods(independent, self.test))
        return gain > MIN_GAIN * error

    def _mean(self, scores):
        """Return the mean of scores of the held-out rows, and its standard error."""
        weights = normalized_weights(self.test.log_weights, len(scores))
        mean = float(weights @ scores)
        return mean, np.sqrt(weights**2 @ (scores - mean) ** 2)

    def _index(self, alpha):
        """Return the index of the strength that is nearest to ``alpha``."""
        return int(np.argmin(np.abs(np.array(self.strengths) - alpha * self.n_effective)))

    def _search_from(self, at, rate):
        """Compare strengths around an index, or only stronger ones if the forest is better."""
        is_compared = self.reference is not None and len(self.strengths) > 1
        scores = forest_log_likelihoods(self.reference, self.test) if is_compared else None
        self._search(at, (-1,) if self._is_not_better(scores) else (1, -1))
        if self._is_not_better(scores):
            self._keep(self.reference, scores, *self.around_forest, 0, rate)
            self._search(-1, (1,))

    def _is_not_better(self, scores):
        """Return whether the best candidate is not better than a model with these row scores."""
        if scores is None or self.row_scores is None:
            return scores is not None
        return self._mean(self.row_scores - scores)[0] <= 0.0

    def _search(self, at, steps):
        """Compare strengths while they are better; an index larger by one is a weaker strength."""
        start, centre, rate = self.best.start, self.best.centre, self.best.rate
        for step in steps:
            k = at + step
            while 0 <= k < len(self.strengths) and self._improve(start, centre, k, rate):
                k += step
            if k != at + step:
                break

    def _improve(self, start, centre, at, rate):
        """Fit a candidate; return whether it is the best one so far, or None if this is unclear."""
        model, row_scores = self._evaluate(start, centre, at, rate)
        if model is None:
            return False
        if self.row_scores is not None:
            loss, error = self._mean(self.row_scores - row_scores)
            if loss >= 0.0:
                return None if loss < MIN_GAIN * error else False
        self._keep(model, row_scores, start, centre, at, rate)
        return True

    def _keep(self, model, row_scores, start, centre, at, rate):
        """Make a candidate the best one."""
        self.row_scores, score = row_scores, self._mean(row_scores)[0]
        alpha = self.strengths[at] / self.n_effective
        self.best = Choice(alpha, rate, model, score=score, start=start, centre=centre)

    def _compare_whole_fits(self, rate):
        """Choose a smaller rate if fits with all updates have a higher score with it."""
        if _has_couplings(self.best.start):
            return  # all updates of a model with couplings take too long
        given = self.best.start, self.best.centre, self._index(self.best.alpha)
        _, scores = self._evaluate(*given, self.best.rate, is_short=False)
        _, others = self._evaluate(*given, rate, is_short=False)
        if others is not None and (scores is None or self._mean(others - scores)[0] > 0.0):
            self.best = self.best._replace(rate=rate)

    def _evaluate(self, start, centre, at, rate, *, is_short=True):
        """Return the model of a candidate and its scores of the held-out rows, or twice None."""
        alpha = self.strengths[at] / effective_rows(self.train)
        model = _fit(start, self.train, self.parameters, alpha, rate, centre, is_short)
        if model is None:
            return None, None
        how = self.test, self.modes, self.parameters.device
        row_scores = annealed_log_likelihoods(model, *how, self.reference)
        return (model, row_scores) if np.isfinite(row_scores).all() else (None, None)


def _fit(energy, data, parameters, alpha, rate, centre, is_short):
    """Return the model of a fit, or None if its parameters do not stay finite."""
    learner = make_pcd(energy)
    settings = parameters.settings(
        learner, energy, data, alpha=alpha, centre=centre, default_optimizer="adam",
        interruptible=False,
    )  # fmt: skip
    settings = replace(settings, complete=False)
    settings = preconditioned_settings(settings, energy, data, rate, is_short=is_short)
    return run_unless_divergent(energy, learner, data, settings)
