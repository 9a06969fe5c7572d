"""Ensemble of conditional models of the class labels given the columns."""

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from ..._utils.rows import Batch
from ...energies.neural import n_parameters
from ...energies.neural_labels import NeuralLabels
from ...learners.conditional_likelihood import ConditionalLikelihood
from ...training import loop, penalties
from ...training import state as loop_state
from ...training.settings import Settings


class MemberKind(NamedTuple):
    """Settings of one kind of ensemble members: scale of the initial weights, and penalty.

    Attributes
    ----------
    gain : float
        Gain of the networks.
    inner : float
        Factor of the initial weights of the first layer.
    outer : float
        Factor of the initial weights of the last layer.
    strength : float
        Strength of the L2 penalty, for all rows together.
    penalises_change : bool
        Whether the penalty is on the change from the initial values, instead of the weights.
    """

    gain: float
    inner: float
    outer: float
    strength: float
    penalises_change: bool


MEMBER_KINDS = (
    MemberKind(gain=1.0, inner=1.0, outer=1.0, strength=0.03, penalises_change=False),
    MemberKind(gain=3.0, inner=1.0, outer=1.0, strength=0.3, penalises_change=False),
    MemberKind(gain=1.0, inner=3.0, outer=10.0, strength=0.1, penalises_change=True),
)
N_FOLDS = 5
N_MEMBERS = N_FOLDS * len(MEMBER_KINDS)
MIN_KIND_WEIGHT = 0.01  # kinds with smaller weights are dropped
N_ITERATIONS = 100  # stops before overfitting
MAX_ROWS = 20_000  # training rows of a member
MIN_CLASS_ROWS = 100  # training rows of a class in a member
N_ARRAYS = 80  # arrays of the size of the parameters in memory, most of them of L-BFGS


@dataclass(frozen=True)
class LabelEnsemble:
    """Weighted mean of conditional models of the class labels given the columns.

    Attributes
    ----------
    members : list of NeuralLabels
        Models.
    weights : ndarray of shape (n_members,)
        Weight of each model. The weights sum to 1.
    """

    members: list
    weights: np.ndarray

    def log_proba(self, X):
        """Return ``log p(y | x)`` of each row and each label.

        Parameters
        ----------
        X : ndarray of shape (n_rows, n_variables)
            Encoded rows without missing entries.

        Returns
        -------
        ndarray of shape (n_rows, n_labels)
            Log-probabilities in nats.
        """
        total = -np.inf
        for member, weight in zip(self.members, self.weights, strict=True):
            total = np.logaddexp(total, member.log_proba(X) + np.log(weight))
        return total


def check_memory(n_states, edges, node_layers, edge_layers, n_labels, max_bytes):
    """Raise a ValueError if learning one ensemble member needs more than ``max_bytes``."""
    slots = int(max(n_states.max(initial=1), 1))
    n = len(n_states) * n_parameters(1, slots, node_layers)
    n = n_labels * (1 + n + len(edges) * n_parameters(2, slots, edge_layers))
    needed = 8.0 * N_ARRAYS * n
    if needed > max_bytes:
        raise ValueError(
            f"Learning {n} parameters of the ensemble's networks needs about {needed:.4g} bytes, "
            f'more than max_bytes={max_bytes:.4g}. Use a sparser graph (such as "tree" or "knn"), '
            'use rule="bayes", or raise max_bytes.'
        )


def member_tasks(networks, completions, labels, weights, rng, max_iter=None):
    """Return the arguments of :func:`learn_member` for each ensemble member.

    There is one member for each pair of a kind and a fold. It is learned without the rows of the
    fold. The weights of the kinds maximise the likelihood of the rows left out (stacking). Members
    of the same kind differ in their initial networks, their rows, and their imputed entries.

    Parameters
    ----------
    networks : NeuralEnergy
        Graph and layers of the networks.
    completions : callable
        ``Generator -> ndarray of shape (n_rows, n_variables)``. It returns the rows with missing
        entries imputed. It is called once for each fold.
    labels : ndarray of int, shape (n_rows,)
        Code of the label of each row.
    weights : ndarray of shape (n_rows,), or None
        Weight of each row.
    rng : Generator
        Random numbers of folds, imputations and initial values.
    max_iter : int, optional
        Maximum number of iterations of a member. It is at most 100.

    Returns
    -------
    tasks : list of tuple
        Arguments, sorted by fold, then by kind.
    left : list of ndarray
        Weights of the rows that each fold leaves out.

    References
    ----------
    D. H. Wolpert, "Stacked generalization", Neural Networks 5, 1992.

    T. Pearce, F. Leibfried and A. Brintrup, "Uncertainty in neural networks: approximately Bayesian
    ensembling", AISTATS 2020, for the penalty on the change from the initial networks.
    """
    max_iter = N_ITERATIONS if max_iter is None else min(max_iter, N_ITERATIONS)
    weights = np.ones(len(labels)) if weights is None else weights
    folds, tasks, left = assign_folds(labels, rng), [], []
    for fold, source in enumerate(rng.spawn(N_FOLDS)):
        X = completions(source)
        (kept, kept_counts), (left_out, left_out_counts) = (
            subsample_rows(np.flatnonzero(here), labels, source)
            for here in (folds != fold, folds == fold)
        )
        row_weights = kept_counts * weights[kept]
        rows = X[kept], labels[kept], row_weights / row_weights.sum()
        for kind in MEMBER_KINDS:
            first = NeuralLabels.random(
                networks, labels.max() + 1, kind.gain, kind.inner, kind.outer, random_state=source
            )
            tasks.append((first, kind, rows, (X[left_out], labels[left_out]), max_iter))
        left.append(left_out_counts * weights[left_out])
    return tasks, left


def combine_members(learned, left):
    """Compute the stacking weights of the learned members, and return the ensemble.

    Parameters
    ----------
    learned : list of (NeuralLabels, ndarray)
        Results of :func:`learn_member`, in the order of the tasks. The last ones may be missing.
    left : list of ndarray
        Weights of the rows that each fold leaves out, from :func:`member_tasks`.

    Returns
    -------
    LabelEnsemble or None
        None if there are no members.
    """
    if not learned:
        return None
    members, logs = zip(*learned, strict=True)
    return _build_ensemble(members, _kind_weights(logs, left))


def assign_folds(labels, rng):
    """Return the number of the cross-validation fold of each row, stratified by class.

    The numbers start at 0. A row that is alone in its class has -1: no fold leaves it out.
    """
    order = rng.permutation(len(labels))
    order = order[np.argsort(labels[order], kind="stable")]
    folds = np.empty(len(labels), int)
    folds[order] = np.arange(len(labels)) % N_FOLDS
    folds[np.bincount(labels)[labels] == 1] = -1
    return folds


def subsample_rows(rows, labels, rng):
    """Return a random subsample, stratified by class; return all rows if there are few.

    Parameters
    ----------
    rows : ndarray of int
        Indices of rows.
    labels : ndarray of int
        Labels of all rows.
    rng : Generator
        Random numbers of the subsample.

    Returns
    -------
    rows : ndarray of shape (n_selected,)
        Sorted indices. Each class has about the same share of its rows, and at least 100 rows if it
        has so many, or fewer if there are more than 200 classes.
    weights : ndarray of shape (n_selected,)
        Number of original rows that each selected row represents.
    """
    counts = np.bincount(labels[rows])
    share = min(1.0, MAX_ROWS / max(len(rows), 1))
    min_rows = min(MIN_CLASS_ROWS, MAX_ROWS // max(np.count_nonzero(counts), 1))
    kept = np.minimum(counts, np.maximum(np.floor(share * counts), max(min_rows, 1)))
    order = rng.permutation(rows) if share < 1 else rows
    order = order[np.argsort(labels[order], kind="stable")]
    rank = np.arange(len(order)) - np.repeat(np.cumsum(counts) - counts, counts)
    selected = np.sort(order[rank < kept[labels[order]]])
    return selected, counts[labels[selected]] / kept[labels[selected]]


def _kind_weights(logs, weights):
    """Compute the stacking weight of each kind of members, from completely learned folds."""
    n = len(MEMBER_KINDS)
    complete_folds = [np.stack(logs[m : m + n]) for m in range(0, len(logs) - n + 1, n)]
    if not complete_folds:
        return np.full(n, 1 / n)
    return stacking_weights(
        np.concatenate(complete_folds, axis=1), np.concatenate(weights[: len(complete_folds)])
    )


def stacking_weights(logs, weights, n_iter=100):
    """Compute, by EM, the weights of the kinds of members that maximise the likelihood.

    Parameters
    ----------
    logs : ndarray of shape (n_kinds, n_rows)
        Log-likelihood of each row under each kind, in nats.
    weights : ndarray of shape (n_rows,)
        Weight of each row.
    n_iter : int, default=100
        Number of EM iterations. They start from equal weights.

    Returns
    -------
    ndarray of shape (n_kinds,)
        Weights that sum to 1.
    """
    shares = np.full(len(logs), 1 / len(logs))
    if not len(weights):
        return shares
    p = np.exp(logs - logs.max(axis=0))
    for _ in range(n_iter):
        beliefs = shares[:, None] * p
        shares = beliefs / beliefs.sum(axis=0) @ weights / weights.sum()
    return shares


def _build_ensemble(members, shares):
    """Return the ensemble; members of types with a small weight are left out."""
    kinds = np.arange(len(members)) % len(shares)
    weights = (shares / np.maximum(np.bincount(kinds, minlength=len(shares)), 1))[kinds]
    kept = np.flatnonzero(shares[kinds] >= MIN_KIND_WEIGHT)
    return LabelEnsemble([members[m] for m in kept], weights[kept] / weights[kept].sum())


def learn_member(first, kind, rows, left, max_iter):
    """Learn one ensemble member, with a limited number of iterations.

    Parameters
    ----------
    first : NeuralLabels
        Initial model.
    kind : MemberKind
        Kind of the member.
    rows : tuple of ndarray
        Encoded training rows, their labels and their weights.
    left : tuple of ndarray
        Encoded rows that are left out, and their labels.
    max_iter : int
        Maximum number of iterations of L-BFGS.

    Returns
    -------
    learned : NeuralLabels
        Learned model.
    log_likelihood : ndarray of shape (n_left,)
        Log-likelihood in nats of the label of each row that was left out.
    """
    X, labels, weights = rows
    origin = {k: v if kind.penalises_change else np.zeros_like(v) for k, v in first.theta.items()}
    learner, data = ConditionalLikelihood(origin, weights), Batch(X, labels)
    settings = Settings(
        optimizer=None,
        penalty=penalties.L2(kind.strength / len(X), first.penalty_groups()),
        max_iter=max_iter,
        average=False,
        complete=False,
        interruptible=False,
    )
    differences = first.with_theta({k: v - origin[k] for k, v in first.theta.items()})
    state = loop_state.start(differences, learner, data, settings, None)
    learned = learner.shifted(loop.run(learner, data, settings, state).energy)
    X, labels = left
    return learned, learned.log_proba(X)[np.arange(len(X)), labels]
