"""Labels by networks that were learned for them: an ensemble, and rows with gaps."""

from copy import copy
from dataclasses import dataclass
from itertools import starmap

import numpy as np

from .energies import NeuralLabels
from .energies.neural import n_parameters
from .learning.penalties import L2
from .learning.solvers import maximise_deterministic

GAINS, STRENGTHS = (1.0, 3.0), (0.03, 0.3)  # of networks and penalties of members in turn
N_MEMBERS = 6
N_ITERATIONS = 100  # stops before networks fit every row
MOST_ROWS = 20_000  # of a member
COPIES = 80  # arrays of parameters that learning holds at once, most of them those of L-BFGS
N_FILLS = 100  # completions of a row with gaps
ROWS = 1024  # with gaps, at a time


@dataclass(frozen=True)
class LabelEnsemble:
    """The mean of what several members say of labels.

    Attributes
    ----------
    members : list of NeuralLabels
    """

    members: list

    def log_proba(self, X):
        """``log p(y | x)`` of rows without gaps, shape (n_rows, n_labels)."""
        total = self.members[0].log_proba(X)
        for member in self.members[1:]:
            np.logaddexp(total, member.log_proba(X), out=total)
        return total - np.log(len(self.members))


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


def learn_labels(networks, completions, labels, weights, rng, *, max_iter=None, learn=starmap):
    """Learn every member by the conditional likelihood of labels, weighted at random.

    Members differ in their first networks, in gain and penalty, in weights of the rows, which are
    exponentially distributed (the Bayesian bootstrap), and in what is drawn into gaps. Of very many
    rows each has a random part.

    Parameters
    ----------
    networks : NeuralEnergy
        The graph and the shape of networks.
    completions : callable, Generator -> ndarray of shape (n_rows, n_variables)
        Rows without gaps; those of a member are drawn anew.
    labels : ndarray of int, shape (n_rows,)
    weights : ndarray of shape (n_rows,), or None
    rng : Generator
    max_iter : int, optional
        Iterations of a member, at most 100.
    learn : callable, (function, list of tuples) -> iterable
        The function of every tuple of arguments.

    Returns
    -------
    LabelEnsemble

    References
    ----------
    D. B. Rubin, "The Bayesian bootstrap", Annals of Statistics 9, 1981.
    """
    max_iter = N_ITERATIONS if max_iter is None else min(max_iter, N_ITERATIONS)
    weights = np.ones(len(labels)) if weights is None else weights
    tasks = []
    for k, source in enumerate(rng.spawn(N_MEMBERS)):
        first = NeuralLabels.random(
            networks, labels.max() + 1, GAINS[k % len(GAINS)], random_state=source
        )
        rows, theirs = _bootstrapped(weights, source)
        strength = STRENGTHS[k % len(STRENGTHS)]
        tasks.append((first, completions(source)[rows], labels[rows], theirs, strength, max_iter))
    return LabelEnsemble(list(learn(_member, tasks)))


def _bootstrapped(weights, rng):
    """Rows of a member and their weights, of sum 1."""
    rows = np.arange(len(weights))
    if len(rows) > MOST_ROWS:
        rows = np.sort(rng.choice(len(rows), MOST_ROWS, replace=False))
    drawn = weights[rows] * rng.exponential(size=len(rows))
    return rows, drawn / drawn.sum()


def _member(first, X, labels, weights, strength, max_iter):
    """Networks of greatest penalised likelihood, as far as few iterations reach it."""

    def objective(energy):
        theta = {k: v.astype(np.float32) for k, v in energy.theta.items()}
        return energy.with_theta(theta).objective(X, labels, weights)

    learned, _ = maximise_deterministic(
        first,
        objective,
        L2(strength / len(X), first.penalty_groups()),
        max_iter=max_iter,
        tol=1e-6,
        on_iteration=lambda *_: False,
    )
    return learned.with_theta({k: v.astype(np.float32) for k, v in learned.theta.items()})


# Rows with gaps ----------------------------------------------------------------------------


def class_log_joint(densities, log_prior, rows):
    """Log of prior times density of every class, shape (n_rows, n_classes)."""
    if not len(rows):
        return np.empty((0, len(densities)))
    return np.stack([density.score_samples(rows) for density in densities], axis=1) + log_prior


def completed_rows(densities, log_joint, rows, rng):
    """Rows with what is missing drawn given the rest: a class by Bayes' rule, then by its beliefs.

    Draws of the model itself, ``density="mrf"``, would cost a hundred times as much.

    Parameters
    ----------
    densities : list of NNMRFDensity
    log_joint : ndarray of shape (n_rows, n_classes)
        Of the rows, see :func:`class_log_joint`.
    rows : ndarray of shape (n_rows, n_columns)
    rng : Generator
    """
    out = rows.copy()
    drawn = np.argmax(log_joint + rng.gumbel(size=log_joint.shape), axis=1)
    for y in np.unique(drawn):
        here = drawn == y
        beliefs = copy(densities[y]).set_params(density="mixture")
        full = beliefs.sample(int(here.sum()), given=rows[here], random_state=rng)
        out[here] = np.where(np.isnan(rows[here]), full, rows[here])
    return out


def mean_log_proba(ensemble, densities, log_prior, rows, rng):
    """``log p(y | x)``, of rows with gaps the mean over completions, shape (n_rows, n_classes)."""
    gaps = np.isnan(rows).any(axis=1)
    out = np.empty((len(rows), len(densities)))
    out[~gaps] = ensemble.log_proba(rows[~gaps])
    places = np.flatnonzero(gaps)
    for s in range(0, len(places), ROWS):
        here = places[s : s + ROWS]
        joint = class_log_joint(densities, log_prior, rows[here])
        copies = (np.repeat(v, N_FILLS, axis=0) for v in (joint, rows[here]))
        logs = ensemble.log_proba(completed_rows(densities, *copies, rng))
        means = np.logaddexp.reduce(logs.reshape(len(here), N_FILLS, -1), axis=1)
        out[here] = means - np.log(N_FILLS)
    return out
