"""Regularization path: fits of decreasing penalty strength, scored on held-out rows."""

from dataclasses import replace
from time import perf_counter
from typing import Any, NamedTuple

import numpy as np

from .._utils.interrupts import InterruptLater
from .._utils.log_weights import normalized_weights
from .._utils.rows import Batch
from .._utils.warn import warn_caller
from . import loop
from .data_moments import effective_rows
from .penalties import make_penalty

STRENGTHS = (300.0, 100.0, 30.0, 10.0, 3.0, 1.0, 0.3, 0.1)  # alpha times the number of rows
EVALUATIONS = 100  # of the objective, roughly, in all fits on the path of a fold
LONG_PATH = 60.0  # seconds
MIN_GAIN = 0.5  # standard errors of a clear difference between the scores of two models
RESOLUTION = 1e-3  # standard errors of a difference; with a smaller gain, the next fit ends
MIN_ROWS_TO_SPLIT = 2000  # with fewer rows, cross-validation instead of one split
MIN_HELD_OUT, MAX_HELD_OUT = 500, 5000
N_FOLDS = 4  # of the cross-validation
N_ERRORS = 0.5  # standard errors of a gain over the reference model that are subtracted from it


class RegularizationPath(NamedTuple):
    """Regularization path: scores of held-out rows for decreasing penalty strengths.

    Attributes
    ----------
    alphas : ndarray of shape (n_alphas,)
        Strengths in decreasing order. The first one is inf: the reference model itself.
    scores : ndarray of shape (n_alphas,)
        Mean score of a held-out row, in nats.
    std_errors : ndarray of shape (n_alphas,)
        Standard error of the difference between each score and the first score, in nats.
    criterion : str
        Kind of the scores: "log-likelihood" or "pseudo-log-likelihood".
    """

    alphas: np.ndarray
    scores: np.ndarray
    std_errors: np.ndarray
    criterion: str


class Fold(NamedTuple):
    """Fold of a cross-validation: training rows, held-out rows and reference model.

    Attributes
    ----------
    train, test : Batch
        Training rows and held-out rows.
    reference : Energy
        Model towards which the penalty shrinks, learned from the training rows.
    """

    train: Batch
    test: Batch
    reference: Any


class PathFits(NamedTuple):
    """Scores and models along a regularization path.

    Attributes
    ----------
    strengths : list of float
        Penalty strengths times the number of rows; the first one is inf.
    row_scores : list of ndarray of shape (n_held_out,)
        Scores of the held-out rows of all folds, one array per strength.
    energies : list of Energy
        Models of the first fold, one per strength.
    interrupted : bool
        Whether Ctrl-C ended the path.
    """

    strengths: list
    row_scores: list
    energies: list
    interrupted: bool = False


class ChosenPath(NamedTuple):
    """Regularization path with the index of the chosen strength.

    Attributes
    ----------
    folds : list of Fold
        Training rows, held-out rows and reference models.
    fits : PathFits
        Scores and models along the path.
    choice : int
        Index of the chosen strength; 0 for the reference model.
    """

    folds: list
    fits: PathFits
    choice: int

    def with_train(self, train):
        """Return the path with other training rows of its first fold."""
        return self._replace(folds=[self.folds[0]._replace(train=train), *self.folds[1:]])


def split_into_folds(data, rng, *, one):
    """Split rows into training and held-out rows: once, or by cross-validation if they are few.

    Parameters
    ----------
    data : Batch
        All rows.
    rng : Generator
        Source of randomness.
    one : bool
        Whether to split once, however few rows there are.

    Returns
    -------
    list of (Batch, Batch)
        Training rows and held-out rows of each fold.
    """
    n = len(data.X)
    order = rng.permutation(n)
    if n == 1:
        return [(data.take([0]), data.take([0]))]
    if one or n >= MIN_ROWS_TO_SPLIT:
        n_test = min(max(n // 10, MIN_HELD_OUT), n // 4 + 1, MAX_HELD_OUT)
        pick = data.select if data.is_mapped else data.take
        return [(pick(order[n_test:]), data.take(order[:n_test]))]
    parts = np.array_split(order, min(N_FOLDS, n))
    return [(data.take(np.setdiff1d(order, p)), data.take(p)) for p in parts]


def choose_strength(fits, folds):
    """Choose a penalty strength, or the reference model.

    Parameters
    ----------
    fits : PathFits
        Scores along the path.
    folds : list of Fold
        Folds of the path.

    Returns
    -------
    ChosenPath
        Path with the strength whose gain over the reference model is largest, after half the
        standard error of the gain is subtracted. The index is 0 if no such difference is positive.
    """
    gains, errors = gain_over_reference(fits.row_scores, held_out_weights(folds))
    return ChosenPath(folds, fits, int(np.argmax(gains - N_ERRORS * errors)))


def choose_path(paths):
    """Choose the first path, or a later one whose chosen models have clearly better scores.

    The gain must be larger than its standard error.

    Parameters
    ----------
    paths : list of ChosenPath
        Paths around different reference models, for the same held-out rows.

    Returns
    -------
    index : int
        Index of the path.
    path : ChosenPath
        The path. It is marked as interrupted if Ctrl-C ended any path.
    """
    index = 0
    for k, path in enumerate(paths):
        if _is_clearly_better(path, paths[index]):
            index = k
    fits = paths[index].fits._replace(interrupted=any(path.fits.interrupted for path in paths))
    return index, paths[index]._replace(fits=fits)


def _is_clearly_better(path, best):
    row_scores = [p.fits.row_scores[p.choice] for p in (best, path)]
    gains, errors = gain_over_reference(row_scores, held_out_weights(path.folds))
    return gains[1] > errors[1]


def fit_path(
    learner, folds, settings, score_rows, penalty, strengths=STRENGTHS, *, is_patient=False,
    is_refused=None,
):  # fmt: skip
    """Fit a regularization path to each fold, and score its held-out rows.

    The penalty strength decreases. Each fit starts from the model of the previous strength, and
    ends where an iteration changes the objective less than held-out rows could show.

    Parameters
    ----------
    learner : Learner
        Learner that has an objective.
    folds : list of Fold
        Training rows, held-out rows and reference models.
    settings : Settings
        Settings of the training loop, for any penalty.
    score_rows : callable
        Function ``(energy, rows) -> ndarray of shape (n_rows,)``: scores in nats.
    penalty : {"l2", "l1", "group-l1"}
        Penalty. A path of "l2" ends if the mean score is below the best earlier mean by half a
        standard error of the difference, or if two strengths in turn do not exceed the best earlier
        mean by as much. Strong sparse penalties remove all interactions, so their path is complete.
    strengths : sequence of float
        Penalty strengths times the number of rows, in decreasing order.
    is_patient : bool, default=False
        Whether a path of "l2" ends only if the mean score is below the best earlier mean. It is for
        strengths that are so strong that the first models are equal to the reference model.
    is_refused : callable, optional
        Function ``energy -> bool``. If it returns True for a model of the first fold, the path ends
        without this model: models of weaker penalties are expected to be refused, too.

    Returns
    -------
    PathFits
        Scores along the path. The first entry is that of the reference models.
    """
    energies = [fold.reference for fold in folds]
    weights = held_out_weights(folds)
    fits = PathFits([np.inf], [_score_all(score_rows, energies, folds)], [energies[0]])
    try:
        _warn_long_path(learner, folds)
        for strength in strengths:
            energies = [
                fit_strength(learner, fold, energy, settings, penalty, strength)
                for fold, energy in zip(folds, energies, strict=True)
            ]
            if is_refused is not None and is_refused(energies[0]):
                break
            row_scores = _score_all(score_rows, energies, folds)
            with InterruptLater():
                _append(fits, strength, row_scores, energies[0])
            if penalty == "l2" and _is_past_best(fits.row_scores, weights, is_patient):
                break
            _, error = _gain_over_best(fits.row_scores, weights)
            settings = replace(settings, min_gain=max(settings.min_gain, RESOLUTION * error))
    except KeyboardInterrupt:
        return fits._replace(interrupted=True)
    return fits


def _warn_long_path(learner, folds):
    """Warn if the path takes more than a minute, as forecast by one evaluation of the objective."""
    for _ in range(2):  # the first evaluation may compile functions
        seconds = _time_objective(learner, folds[0]) * EVALUATIONS * len(folds)
        if seconds <= LONG_PATH:
            return
    warn_caller(
        f"The choice of alpha takes up to about {seconds / 60.0:.0f} minutes, and the final "
        "fit as long again. Ctrl-C ends the choice and keeps the best model so far. To learn "
        "faster, use fewer columns or rows, merge rare categories, set cliques to fewer pairs, "
        "or set alpha to a number."
    )


def _time_objective(learner, fold):
    """Return the wall time of one evaluation of the objective, in seconds."""
    state = learner.init(fold.reference, fold.train, None)
    start = perf_counter()
    learner.objective(fold.reference, fold.train, state)
    return perf_counter() - start


def _append(fits, strength, row_scores, energy):
    fits.strengths.append(strength)
    fits.row_scores.append(row_scores)
    fits.energies.append(energy)


def _is_past_best(row_scores, weights, is_patient=False):
    """Return whether the path ends: the last model is clearly worse, or the last two no better.

    A model is compared with the best model before it.
    """
    gain, error = _gain_over_best(row_scores, weights)
    if gain > MIN_GAIN * error or len(row_scores) == 2:
        return False
    if is_patient:
        return gain < -MIN_GAIN * error
    gain_before, error_before = _gain_over_best(row_scores[:-1], weights)
    return gain < -MIN_GAIN * error or gain_before <= MIN_GAIN * error_before


def _gain_over_best(row_scores, weights):
    """Return the last model's mean gain over the best model before it, and its standard error."""
    *before, last = row_scores
    best = before[int(np.argmax(np.array(before) @ weights))]
    gains, std_errors = gain_over_reference([best, last], weights)
    return gains[1], std_errors[1]


def fit_strength(learner, fold, energy, settings, penalty, strength):
    """Fit a model to the training rows of a fold.

    Parameters
    ----------
    learner : Learner
        Learner that has an objective.
    fold : Fold
        Training rows and reference model.
    energy : FactorGraph
        Initial model.
    settings : Settings
        Settings of the training loop, for any penalty.
    penalty : {"l2", "l1", "group-l1"}
        Penalty.
    strength : float
        Penalty strength times the number of rows.

    Returns
    -------
    FactorGraph
        Fitted model.
    """
    alpha, reference = strength / effective_rows(fold.train), fold.reference
    settings = replace(settings, penalty=penalty_from(reference, penalty, alpha))
    start = loop.start(energy, learner, fold.train, settings, None)
    return loop.run(learner, fold.train, settings, start).result(False)


def penalty_from(reference, name, alpha):
    """Return a penalty by name; "l2" shrinks the parameters towards a reference model.

    Parameters
    ----------
    reference : FactorGraph or PairwiseEnergy
        Reference model. With tied tables the penalty is on the parameters themselves.
    name : {"l2", "l1", "group-l1"}
        Penalty.
    alpha : float
        Strength, against the mean log-likelihood in nats.

    Returns
    -------
    L2, L1 or GroupL1
        Penalty.
    """
    has_centre = name == "l2" and not reference.factor_graph().layout.is_tied
    centre = reference.theta if has_centre else None
    groups = reference.penalty_groups()
    return make_penalty(name, alpha, groups, reference.multiplicity, centre)


def _score_all(score_rows, energies, folds):
    return np.concatenate([score_rows(e, f.test) for e, f in zip(energies, folds, strict=True)])


def held_out_weights(folds):
    """Return the weights of the held-out rows of all folds, which sum to 1."""
    logs = [f.test.log_weights for f in folds]
    n_rows = [len(f.test.X) for f in folds]
    if logs[0] is None:
        return np.full(sum(n_rows), 1.0 / sum(n_rows))
    return normalized_weights(np.concatenate(logs), sum(n_rows))


def gain_over_reference(row_scores, weights):
    """Return each model's mean gain over the first model, and its standard error.

    Parameters
    ----------
    row_scores : list of ndarray of shape (n_rows,)
        Scores of the same rows by several models.
    weights : ndarray of shape (n_rows,)
        Row weights that sum to 1.

    Returns
    -------
    gains, std_errors : ndarray of shape (n_models,)
        Means and standard errors in nats.
    """
    differences = np.array(row_scores) - row_scores[0]
    gains = differences @ weights
    return gains, np.sqrt((differences - gains[:, None]) ** 2 @ weights**2)
