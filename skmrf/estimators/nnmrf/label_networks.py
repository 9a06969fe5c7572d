"""Labels by networks that were learned for them: an ensemble, and rows with gaps."""

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from ..._utils.batch import Batch
from ...energies.neural import n_parameters
from ...energies.neural_labels import NeuralLabels
from ...learners.conditional_likelihood import ConditionalLikelihood
from ...training import loop, penalties
from ...training import state as loop_state
from ...training.settings import Settings


class Kind(NamedTuple):
    """How members begin, and the strength of what pulls them: to 0, or to their first networks."""

    gain: float
    inner: float
    outer: float
    strength: float
    to_first: bool


KINDS = (
    Kind(gain=1.0, inner=1.0, outer=1.0, strength=0.03, to_first=False),
    Kind(gain=3.0, inner=1.0, outer=1.0, strength=0.3, to_first=False),
    Kind(gain=1.0, inner=3.0, outer=10.0, strength=0.1, to_first=True),
)
N_FOLDS = 5
N_MEMBERS = N_FOLDS * len(KINDS)
LEAST_SHARE = 0.01  # of a kind that is kept
N_ITERATIONS = 100  # stops before networks fit every row
MOST_ROWS, FEWEST_ROWS = 20_000, 100  # of a member, and of one of its classes
COPIES = 80  # arrays of parameters that learning holds at once, most of them those of L-BFGS


@dataclass(frozen=True)
class LabelEnsemble:
    """The weighted mean of what several members say of labels.

    Attributes
    ----------
    members : list of NeuralLabels
    weights : ndarray of shape (n_members,)
        Of sum 1.
    """

    members: list
    weights: np.ndarray

    def log_proba(self, X):
        """``log p(y | x)`` of rows without gaps, shape (n_rows, n_labels)."""
        total = -np.inf
        for member, weight in zip(self.members, self.weights, strict=True):
            total = np.logaddexp(total, member.log_proba(X) + np.log(weight))
        return total


def check_memory(n_states, edges, node_layers, edge_layers, n_labels, max_bytes):
    """Refuse members of more parameters than ``max_bytes`` allows."""
    slots = int(max(n_states.max(initial=1), 1))
    n = len(n_states) * n_parameters(1, slots, node_layers)
    n = n_labels * (1 + n + len(edges) * n_parameters(2, slots, edge_layers))
    needed = 8.0 * COPIES * n
    if needed > max_bytes:
        raise ValueError(
            f"Learning {n} parameters of networks of labels needs about {needed:.4g} bytes, more "
            f'than max_bytes={max_bytes:.4g}. Give a sparser graph (such as "tree" or "knn"), '
            'take rule="bayes", or raise max_bytes.'
        )


def member_tasks(networks, completions, labels, weights, rng, max_iter=None):
    """Return the arguments of :func:`learn_member` for the members of every kind.

    Every member leaves out a fold of the rows. A kind has the share in the ensemble at which the
    mixture of kinds gives the rows left out the greatest likelihood (stacking). Members of a kind
    differ in their first networks, in rows, and in what is drawn into gaps.

    Parameters
    ----------
    networks : NeuralEnergy
        The graph and the shape of networks.
    completions : callable, Generator -> ndarray of shape (n_rows, n_variables)
        Rows without gaps; those of a fold are drawn anew.
    labels : ndarray of int, shape (n_rows,)
    weights : ndarray of shape (n_rows,), or None
    rng : Generator
    max_iter : int, optional
        Iterations of a member, at most 100.

    Returns
    -------
    tasks : list of tuple
        Kinds in turn, fold by fold.
    left : list of ndarray
        Weights of the rows that each fold leaves out.

    References
    ----------
    D. H. Wolpert, "Stacked generalization", Neural Networks 5, 1992.

    T. Pearce, F. Leibfried and A. Brintrup, "Uncertainty in neural networks: approximately Bayesian
    ensembling", AISTATS 2020, for the pull to first networks.
    """
    max_iter = N_ITERATIONS if max_iter is None else min(max_iter, N_ITERATIONS)
    weights = np.ones(len(labels)) if weights is None else weights
    folds, tasks, left = folds_of(labels, rng), [], []
    for fold, source in enumerate(rng.spawn(N_FOLDS)):
        X = completions(source)
        (seen, each), (out, of_left) = (
            some_of(np.flatnonzero(here), labels, source) for here in (folds != fold, folds == fold)
        )
        each = each * weights[seen]
        rows = X[seen], labels[seen], each / each.sum()
        for kind in KINDS:
            first = NeuralLabels.random(
                networks, labels.max() + 1, kind.gain, kind.inner, kind.outer, random_state=source
            )
            tasks.append((first, kind, rows, (X[out], labels[out]), max_iter))
        left.append(of_left * weights[out])
    return tasks, left


def combine_members(learned, left):
    """Return the weighted ensemble of members; None if there are none.

    Parameters
    ----------
    learned : list of (NeuralLabels, ndarray)
        Results of :func:`learn_member` of the first tasks.
    left : list of ndarray
        As of :func:`member_tasks`.

    Returns
    -------
    LabelEnsemble or None
    """
    if not learned:
        return None
    members, logs = zip(*learned, strict=True)
    return _mixed(members, _shares(logs, left))


def folds_of(labels, rng):
    """A fold of every row, classes spread over them; -1 for the only row of a class."""
    order = rng.permutation(len(labels))
    order = order[np.argsort(labels[order], kind="stable")]
    folds = np.empty(len(labels), int)
    folds[order] = np.arange(len(labels)) % N_FOLDS
    folds[np.bincount(labels)[labels] == 1] = -1
    return folds


def some_of(rows, labels, rng):
    """All rows, or as many as a member takes, with none of few classes left out.

    Returns
    -------
    rows : ndarray of shape (n_some,)
        In order; of every class about the same share, and at least 100 where there are as many, or
        fewer where there are more than 200 classes.
    each : ndarray of shape (n_some,)
        How many rows each stands for.
    """
    counts = np.bincount(labels[rows])
    share = min(1.0, MOST_ROWS / max(len(rows), 1))
    fewest = min(FEWEST_ROWS, MOST_ROWS // max(np.count_nonzero(counts), 1))
    kept = np.minimum(counts, np.maximum(np.floor(share * counts), max(fewest, 1)))
    order = rng.permutation(rows) if share < 1 else rows
    order = order[np.argsort(labels[order], kind="stable")]
    rank = np.arange(len(order)) - np.repeat(np.cumsum(counts) - counts, counts)
    some = np.sort(order[rank < kept[labels[order]]])
    return some, counts[labels[some]] / kept[labels[some]]


def _shares(logs, weights):
    """Shares of kinds, by the folds for which all kinds have learned."""
    n = len(KINDS)
    whole = [np.stack(logs[m : m + n]) for m in range(0, len(logs) - n + 1, n)]
    if not whole:
        return np.full(n, 1 / n)
    return stacked(np.concatenate(whole, axis=1), np.concatenate(weights[: len(whole)]))


def stacked(logs, weights, n_iter=100):
    """Shares of kinds at which their mixture has the greatest likelihood, by EM from equal ones.

    Parameters
    ----------
    logs : ndarray of shape (n_kinds, n_rows)
        Log-likelihoods of rows.
    weights : ndarray of shape (n_rows,)
    n_iter : int
    """
    shares = np.full(len(logs), 1 / len(logs))
    if not len(weights):
        return shares
    p = np.exp(logs - logs.max(axis=0))
    for _ in range(n_iter):
        beliefs = shares[:, None] * p
        shares = beliefs / beliefs.sum(axis=0) @ weights / weights.sum()
    return shares


def _mixed(members, shares):
    """The ensemble of members, kinds in turn, but for kinds of small shares."""
    kinds = np.arange(len(members)) % len(shares)
    weights = (shares / np.maximum(np.bincount(kinds, minlength=len(shares)), 1))[kinds]
    kept = np.flatnonzero(shares[kinds] >= LEAST_SHARE)
    return LabelEnsemble([members[m] for m in kept], weights[kept] / weights[kept].sum())


def learn_member(first, kind, rows, left, max_iter):
    """Learn one member in few iterations.

    Returns
    -------
    learned : NeuralLabels
    log_likelihood : ndarray of shape (n_left,)
        Log-likelihood of each row that was left out.
    """
    X, labels, weights = rows
    origin = {k: v if kind.to_first else np.zeros_like(v) for k, v in first.theta.items()}
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
