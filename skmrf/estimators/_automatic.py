"""Automatic choice of learner and penalty strength for models with tables of log-potentials."""

from dataclasses import replace
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from .._data.categories import warn_identifiers
from .._utils.codes import MISSING
from .._utils.rows import has_missing
from .._utils.warn import warn_caller
from ..energies import FactorGraph
from ..exact import expectations
from ..learners import PCD, Exact, PseudoLikelihood
from ..learners.base import GibbsImputer
from ..likelihood import ais, log_partition_bounds
from ..structure import chow_liu
from ..structure.chow_liu import choose_references
from ..training import loop
from ..training.data_moments import effective_rows
from ..training.held_out import log_likelihoods, pseudo_log_likelihoods
from ..training.regularization import (
    MIN_ROWS_TO_SPLIT,
    Fold,
    RegularizationPath,
    choose_path,
    choose_strength,
    fit_path,
    fit_strength,
    gain_over_reference,
    held_out_weights,
    split_into_folds,
)
from . import _refinement

MAX_PAIR_ENTRIES = 6_000_000  # of the tables of all pairs
MAX_EXACT_ENTRIES = 2**17  # of elimination, in all its passes of one gradient; about 5 ms
PASS_ENTRIES = 2**12  # whose time is about the fixed cost of a pass
MAX_PATH_WORK = 1.5e9  # rows times pairs of states in one pass of pseudo-likelihood
PATH_ITERATIONS = 100  # of a fit on the path, at most
PATH_GAIN = 5e-5  # nats per state of a mean column; with a smaller gain, a fit on the path ends
FINAL_GAIN = 1e-5  # nats; the same for the final fit
MAX_CROSS_VALIDATED = 100_000  # parameters
MIN_CHECKED_PARAMETERS = 1_000_000  # with more of them, a fit on the path takes about a minute
N_IMPUTATION_SWEEPS = 20
MAX_COPIES, MAX_IMPUTED_ROWS = 4, 10_000  # of incomplete rows
N_IMPUTATIONS = 2  # rounds of imputing the missing entries and refitting the model


class Plan(NamedTuple):
    """Learner, penalty and initial model of a fit.

    Attributes
    ----------
    learner : Learner
        Learner that estimates the gradient.
    alpha : float
        Strength of the penalty; inf for the reference model itself.
    start : FactorGraph
        Initial model.
    reference : FactorGraph or None
        Model towards which the penalty shrinks. None if ``alpha`` was given.
    path : RegularizationPath or None
        Scores along the path of penalty strengths. None if ``alpha`` was given.
    data : Batch
        Training rows. Missing entries are imputed if the learner needs complete rows.
    interrupted : bool
        Whether Ctrl-C ended the choice of alpha.
    is_refined : bool
        Whether the learner makes preconditioned steps from a model of pseudo-likelihood.
    tree : FactorGraph or None
        Reference model from which annealing for log Z starts; it has edges if there is such a one.
    """

    learner: Any
    alpha: float
    start: FactorGraph
    reference: FactorGraph | None
    path: RegularizationPath | None
    data: Any
    interrupted: bool = False
    is_refined: bool = False
    tree: FactorGraph | None = None

    def centre(self, parameters):
        """Return the parameters towards which the penalty shrinks, or None for zero."""
        return None if self.reference is None else _centre(self.reference, parameters)

    @property
    def is_final(self):
        """True if the model of the plan is kept, without further training."""
        return self.alpha == np.inf or self.interrupted

    @property
    def is_checked(self):
        """True if, after convergence, the first model is kept if it is clearly more likely."""
        is_pseudo = self.path is not None and isinstance(self.learner, PseudoLikelihood)
        return self.is_refined or is_pseudo


def continue_plan(previous, learner, parameters):
    """Return the plan of a fit that continues an earlier fit.

    Parameters
    ----------
    previous : Plan
        Choices of the earlier fit, with the current model and the new rows.
    learner : Learner or None
        Learner that was given; None for "auto".
    parameters : TrainingParameters
        Parameters of the estimator. The alpha may be "auto": the strength of the earlier fit, or
        one divided by the number of rows if the earlier fit kept its reference model.

    Returns
    -------
    Plan
        Learner, penalty and initial model.
    """
    default = PCD() if parameters.is_partial else previous.learner
    plan = previous._replace(
        learner=learner or default or _choose_learner(previous.start, previous.data)
    )
    if not isinstance(parameters.alpha, str):
        return plan._replace(alpha=parameters.alpha, reference=None, path=None)
    if plan.alpha == np.inf:
        plan = plan._replace(alpha=1.0 / effective_rows(plan.data))
    is_refined = learner is None and isinstance(plan.learner, PCD) and not parameters.is_partial
    if is_refined and _refinement.is_possible(plan.start, parameters):
        return plan._replace(is_refined=True)
    return impute_and_refit(plan, parameters)


def plan_fit(energy, data, learner, parameters, names, drop_zero_tables=False):
    """Choose the learner and the penalty strength of a fit where they are "auto".

    Parameters
    ----------
    energy : FactorGraph
        Model of independent columns with all cliques.
    data : Batch
        All training rows.
    learner : Learner or None
        Learner that was given; None for "auto".
    parameters : TrainingParameters
        Parameters of the estimator. The alpha may be "auto".
    names : list
        Names of the columns, for warnings.
    drop_zero_tables : bool, default=False
        Whether the model has only the cliques of the reference model if this model is best.

    Returns
    -------
    Plan
        Learner, penalty and initial model.
    """
    is_auto_alpha = isinstance(parameters.alpha, str)
    warn_identifiers(names, energy.n_states, len(data.X))
    if parameters.is_partial:
        alpha = 1.0 / effective_rows(data) if is_auto_alpha else parameters.alpha
        return Plan(learner or PCD(), alpha, energy, None, None, data)
    if not is_auto_alpha:
        chosen = learner or _choose_learner(energy, data)
        if learner is None and isinstance(chosen, PseudoLikelihood) and has_missing(data.X):
            chosen = PCD()
        return Plan(chosen, parameters.alpha, energy, None, None, data)
    path_learner = _choose_learner(energy, data)
    is_refinable = (
        learner is None
        and isinstance(path_learner, PseudoLikelihood)
        and _refinement.is_possible(energy, parameters)
    )
    plan = _choose_penalty(
        energy, data, learner or path_learner, path_learner, parameters, is_refinable
    )
    if drop_zero_tables and plan.alpha == np.inf:
        small = plan.reference.without_zero_tables()
        return plan._replace(start=small, reference=small, tree=small)
    return plan


def choose_pairs(data, n_states):
    """Choose pairs for ``cliques="auto"``: all, or those with the strongest dependence.

    Parameters
    ----------
    data : Batch
        All training rows.
    n_states : ndarray of int of shape (n_variables,)
        Number of states of each variable.

    Returns
    -------
    ndarray of int of shape (n_pairs, 2)
        All pairs of variables, or the pairs with the largest increase of the likelihood per
        parameter, in lexicographic order. Their tables have at most 6 million entries.
    """
    n, total = len(n_states), n_states.sum()
    if (total**2 - (n_states**2).sum()) // 2 <= MAX_PAIR_ENTRIES:
        return np.column_stack(np.triu_indices(n, 1))
    weights = np.ones(len(data.X)) if data.log_weights is None else np.exp(data.log_weights)
    gain = chow_liu.pair_gains(data.X, n_states, weights)
    i, j = np.nonzero(np.triu(gain > 0.0, 1))
    per_parameter = gain[i, j] / ((n_states[i] - 1) * (n_states[j] - 1))
    order = np.argsort(-per_parameter, kind="stable")
    kept = np.sort(order[np.cumsum(n_states[i[order]] * n_states[j[order]]) <= MAX_PAIR_ENTRIES])
    warn_caller(
        f"{n} columns have {n * (n - 1) // 2} pairs, whose tables would be too large. The model "
        f"has only the {len(kept)} pairs with the strongest dependence (see cliques_). Set "
        "cliques to choose the pairs, or merge rare categories.",
    )
    return np.column_stack([i[kept], j[kept]])


def estimate_log_partition(energy, reference, *, max_bytes, **options):
    """Return log Z: exactly if this is quick, else by annealing from the reference model.

    Parameters
    ----------
    energy : FactorGraph
        Fitted model.
    reference : FactorGraph or None
        Chow-Liu tree with the same cliques. If None, annealing starts from independent variables.
    max_bytes : float
        Maximum memory of exact inference, in bytes.
    **options
        Options of annealed importance sampling.

    Returns
    -------
    LogPartition
        log Z in nats with its limits.
    """
    exact = expectations.quick_exact_model(energy, max_bytes=max_bytes)
    if exact is None and reference is not None and not reference.layout.is_tied:
        return ais(energy, reference=reference, **options)
    return log_partition_bounds(energy, max_bytes=max_bytes, **options)


def _choose_learner(energy, data):
    """Return Exact if a gradient takes a few milliseconds, else PseudoLikelihood."""
    model = expectations.quick_exact_model(energy)
    n_passes = 1
    if has_missing(data.X):
        incomplete = (data.X == MISSING).any(axis=1)
        n_passes += len(np.unique(data.X[incomplete] == MISSING, axis=0))
    if model is not None and (model.entries + PASS_ENTRIES) * n_passes <= MAX_EXACT_ENTRIES:
        return Exact()
    return PseudoLikelihood()


def _choose_penalty(energy, data, learner, path_learner, parameters, is_refinable):
    """Choose the penalty strength by scores of held-out rows along a regularization path.

    The L2 penalty is on the deviation from a reference model: a Chow-Liu tree, the edges of this
    tree that an extended Bayesian information criterion keeps, or a model of independent columns.
    Held-out rows decide between the three. Without missing entries, penalised models decide between
    the best of the three and independent columns. ``random_state`` has no effect.
    """
    rng = np.random.default_rng(0)
    is_likelihood = isinstance(path_learner, Exact)
    is_incomplete = not is_likelihood and has_missing(data.X)
    n_parameters = energy.layout.n_parameters
    splits = split_into_folds(data, rng, one=is_incomplete or n_parameters > MAX_CROSS_VALIDATED)
    rules = choose_references(energy, splits, parameters, with_independent=not is_incomplete)
    is_checked = not (is_likelihood or is_incomplete or is_refinable)
    is_checked = is_checked and n_parameters > MIN_CHECKED_PARAMETERS
    paths = []
    for rule in rules:
        if not (paths and paths[-1].fits.interrupted):
            given = path_learner, rule, splits, parameters, rng
            paths.append(_follow_path(*given, is_checked=is_checked))
    best, (folds, fits, choice) = choose_path(paths)
    refined = None
    if not is_incomplete:
        paths = [path.with_train(splits[0][0]) for path in paths]
    references = [path.folds[0].reference for path in paths]
    with_edges = int(np.argmax([len(p0.without_zero_tables().cliques) for p0 in references]))
    if choice and is_refinable and not fits.interrupted:
        best, refined, is_interrupted = _refine(paths, best, references[with_edges], parameters)
        folds, fits, choice = paths[best]
        fits = fits._replace(interrupted=is_interrupted)
    if choice and not is_likelihood:
        fold = paths[best].folds[0]
        least = max(map(_refinement.reference_score, (paths[0].folds[0], fold)))
        if refined is None:
            choice = _check_likelihood(fits, fold, choice, path_learner, parameters, least)
        elif held_out_weights(folds[:1]) @ refined.row_scores < least:
            refined, choice = None, 0
    if not choice and not is_likelihood:  # pseudo-likelihoods do not choose the reference
        best, folds, fits = 0, paths[0].folds, paths[0].fits._replace(interrupted=fits.interrupted)
    n_rows, weights = effective_rows(data), held_out_weights(folds)
    gains, errors = gain_over_reference(fits.row_scores, weights)
    path = RegularizationPath(
        np.array(fits.strengths) / n_rows,
        gains + float(weights @ fits.row_scores[0]),
        errors,
        "log-likelihood" if is_likelihood else "pseudo-log-likelihood",
    )
    reference = rules[best](data)
    tree = reference if best == with_edges else rules[with_edges](data)
    if refined is not None:
        start = _shift(reference, refined.energy, folds[0].reference)
        alpha, learner = refined.strength / n_rows, refined.learner
        return Plan(learner, alpha, start, reference, path, data, fits.interrupted, True, tree)
    start = _shift(reference, fits.energies[choice], folds[0].reference) if choice else reference
    alpha = fits.strengths[choice] / n_rows
    plan = Plan(learner, alpha, start, reference, path, data, fits.interrupted, tree=tree)
    return impute_and_refit(plan, parameters)


def _follow_path(learner, rule, splits, parameters, rng, *, is_checked):
    """Fit the regularization path around the reference models of a rule, and choose a strength.

    Missing entries are imputed by the reference model, and then by the chosen model. If
    ``is_checked``, the path ends at the first model that is worse than the reference model, even
    with a lower bound of log Z.
    """
    folds = [Fold(train, test, rule(train)) for train, test in splits]
    if isinstance(learner, Exact):
        return choose_strength(_fit_path(learner, folds, parameters), folds)
    is_refused = partial(_refinement.is_certainly_worse, folds[0]) if is_checked else None
    energy, is_incomplete = folds[0].reference, has_missing(folds[0].train.X)
    folds = [_subsample(fold, rng) for fold in folds]
    for _ in range(1 + is_incomplete):
        folds = [_impute_fold(fold, energy, rng) for fold in folds] if is_incomplete else folds
        path = choose_strength(_fit_path(learner, folds, parameters, is_refused), folds)
        if not path.choice or path.fits.interrupted:
            break
        energy = path.fits.energies[path.choice]
    return path


def _refine(paths, best, tree, parameters):
    """Refine the chosen model of each path in its first fold, the best path first.

    Returns
    -------
    index : int
        Index of the path whose refined model is best.
    refined : Refined or None
        Best refinement, or None.
    is_interrupted : bool
        Whether Ctrl-C ended the refinement.
    """
    order = [best, *(k for k, path in enumerate(paths) if k != best and path.choice)]
    searches = []
    for path in (paths[k] for k in order):
        centre = _centre(path.folds[0].reference, parameters)
        searches.append(_refinement.make_search(path, tree, parameters, centre))
    index, refined, is_interrupted = _refinement.choose(searches)
    return order[index], refined, is_interrupted


def _fit_path(learner, folds, parameters, is_refused=None):
    """Fit the regularization path of each fold, and score the held-out rows."""
    fold = folds[0]
    is_likelihood = isinstance(learner, Exact)
    score_rows = log_likelihoods(fold.reference) if is_likelihood else pseudo_log_likelihoods
    settings = _path_settings(parameters, learner, fold.train, fold.reference, 1.0)
    given = learner, folds, settings, score_rows, parameters.penalty
    return fit_path(*given, is_refused=is_refused)


def _centre(reference, parameters):
    """Return the parameters towards which the penalty shrinks, or None for zero."""
    has_centre = parameters.penalty == "l2" and not reference.layout.is_tied
    return reference.theta if has_centre else None


def _path_settings(parameters, learner, data, reference, alpha):
    """Return the settings of a fit on the regularization path: fewer iterations, no warnings."""
    settings = parameters.on_cpu().settings(
        learner,
        reference,
        data,
        alpha=alpha,
        centre=_centre(reference, parameters),
        interruptible=False,
    )
    return replace(
        settings,
        optimizer=None,
        average=False,
        min_gain=PATH_GAIN * float(np.mean(reference.n_states)),
        max_iter=PATH_ITERATIONS,
        complete=False,
    )


def impute_and_refit(plan, parameters):
    """Impute missing entries if the learner is pseudo-likelihood, and return the new plan.

    The method is stochastic expectation maximisation: rows are imputed from the current model, and
    the model is refitted, in turns.

    Parameters
    ----------
    plan : Plan
        Plan whose rows may have missing entries.
    parameters : TrainingParameters
        Parameters of the estimator.

    Returns
    -------
    Plan
        The same plan, or a plan with other rows and another initial model.
    """
    is_complete = plan.reference is None or plan.is_final or not has_missing(plan.data.X)
    if is_complete or not isinstance(plan.learner, PseudoLikelihood):
        return plan
    rng = np.random.default_rng(0)  # the same rows if a fit is resumed from a checkpoint
    energy, learner, rows = plan.start, PseudoLikelihood(), _repeat(plan.data)
    for _ in range(N_IMPUTATIONS):
        data = impute(energy, rows, rng)
        settings = _path_settings(parameters, learner, data, plan.reference, plan.alpha)
        state = loop.start(energy, learner, data, settings, rng)
        energy = loop.run(learner, data, settings, state).result(False)
    return plan._replace(start=energy, data=data)


def _repeat(data):
    """Repeat the rows several times if they are few, so that the imputations are less noisy."""
    n = len(data.X)
    n_copies = int(np.clip(MAX_IMPUTED_ROWS // n, 1, MAX_COPIES))
    logs = np.zeros(n) if data.log_weights is None else data.log_weights
    return data._replace(
        X=np.tile(data.X, (n_copies, 1)), log_weights=np.tile(logs - np.log(n_copies), n_copies)
    )


def _shift(reference, fitted, fitted_reference):
    """Return a reference model plus the deviation of a fitted model from its own reference."""
    (name,) = reference.theta
    return reference.with_theta({name: reference.flat + fitted.flat - fitted_reference.flat})


def _impute_fold(fold, energy, rng):
    """Impute the missing entries of a fold by Gibbs sampling from a model."""
    return fold._replace(train=impute(energy, fold.train, rng), test=impute(energy, fold.test, rng))


def impute(energy, data, rng):
    """Impute the missing entries of rows by Gibbs sampling from a model.

    Parameters
    ----------
    energy : FactorGraph
        Model.
    data : Batch
        Rows; MISSING (-1) where an entry is missing.
    rng : Generator
        Random numbers.

    Returns
    -------
    Batch
        Complete rows.
    """
    if not (data.X == MISSING).any():
        return data
    imputer = GibbsImputer(data, energy.n_states, rng)
    for _ in range(N_IMPUTATION_SWEEPS):
        X = imputer.update(energy, data)
    return data._replace(X=X)


def _subsample(fold, rng):
    """Subsample the training rows of a fold, so that its path of fits takes a few seconds."""
    train, n_states = fold.train, fold.reference.n_states
    n_rows = max(int(MAX_PATH_WORK / n_states.sum() / len(n_states)), MIN_ROWS_TO_SPLIT)
    if len(train.X) <= n_rows:
        return fold._replace(train=train.take(slice(None)))  # reads the rows of a memory map
    return fold._replace(train=train.take(rng.choice(len(train.X), n_rows, replace=False)))


def _check_likelihood(fits, fold, best, learner, parameters, least):
    """Return the index of the first model, from ``best`` to 0, whose score is above ``least``.

    The score is the mean log-likelihood of held-out rows, with the upper limit of log Z. Each
    model is first trained on all rows of the fold, as long as the final model: only then can it
    have the same modes far from the rows. The trained models replace those of ``fits``.
    """
    energies = fits.energies
    settings = _path_settings(parameters, learner, fold.train, fold.reference, 1.0)
    settings = replace(settings, min_gain=FINAL_GAIN, max_iter=parameters.max_iter)
    reference, weights = energies[0], held_out_weights([fold])
    for index in range(best, 0, -1):
        given = learner, fold, energies[index], settings, parameters.penalty, fits.strengths[index]
        energies[index] = energy = fit_strength(*given)
        upper = _refinement.quick_log_partition(energy, reference).upper
        if weights @ energy.log_potential(fold.test.X) - upper > least:
            return index
    return 0
