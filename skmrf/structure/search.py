"""The contract of search strategies, and rounds of learning and selection."""

from dataclasses import dataclass

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.exceptions import ConvergenceWarning

from .._utils.parameters import check_choice
from .._utils.warn import warn_caller
from ..energies.log_linear import LogLinearEnergy
from ..learners import PCD
from .assessment import Assessment, assess, with_scores
from .candidates import candidate_pairs, difference
from .multiple_tests import CONTROLS
from .nodewise import fit_nodes

FEW_SWEEPS = 2  # a step, as learning begins near the optimum
MAX_ROUNDS = 20
COMPLETIONS = 8
MATRICES = 4  # of the size of a column's parameters squared


@dataclass(frozen=True, eq=False)
class Selection:
    """A selected graph with its parameters and tests.

    Attributes
    ----------
    energy : LogLinearEnergy
        Its edges are the selected ones.
    assessment : Assessment
        Tests of all pairs.
    n_candidates : int
        Number of pairs that learning began with.
    rounds : list of dict
        Number of edges at the beginning of each round, and how many left and entered.
    converged : bool
        Whether the last round changed nothing.
    """

    energy: LogLinearEnergy
    assessment: Assessment
    n_candidates: int
    rounds: list
    converged: bool


class Search(BaseEstimator):
    """Strategy that decides which pairs of variables are edges.

    A strategy holds parameters only, so it clones and its parameters can be searched as
    ``search__...``. By default :meth:`select` learns and selects in rounds: :meth:`first_edges`,
    :meth:`keep` and :meth:`revise` state which edges are in a round. A strategy that does not work
    in rounds overrides :meth:`select`.

    Attributes
    ----------
    control : {"holm", "fdr"}
        Adjustment of p-values for multiple tests.
    takes_partial_fit : bool
        Whether :meth:`select_more` continues a selection with more rows.
    """

    control = "holm"
    takes_partial_fit = False

    def check(self):
        """Raise a ValueError unless the parameters are valid."""
        check_choice("control", self.control, CONTROLS)

    def default_learner(self):
        """Return the learner of ``learner="auto"``."""
        return PCD(n_sweeps=FEW_SWEEPS)

    def check_learner(self, learner):
        """Raise a ValueError unless the strategy takes the learner."""

    def select(self, rows, model, estimation):
        """Return the selected graph.

        Parameters
        ----------
        rows : Rows
            Their variables have at least two states.
        model : PairwiseModel
        estimation : Estimation

        Returns
        -------
        Selection
        """
        edges, n_candidates = self.first_edges(rows, model, estimation)
        return select_in_rounds(rows, edges, model, self, estimation, n_candidates=n_candidates)

    def first_edges(self, rows, model, estimation):
        """Return the edges of the first round, and the number of candidates.

        Parameters
        ----------
        rows : Rows
        model : PairwiseModel
        estimation : Estimation

        Returns
        -------
        edges : ndarray of shape (n_edges, 2)
        n_candidates : int
        """
        edges = candidate_pairs(rows, model)
        return edges, len(edges)

    def select_more(self, rows, model, estimation):
        """Return the graph after one more epoch of learning; parameters as in :meth:`select`."""
        raise NotImplementedError(f"{type(self).__name__} cannot continue a selection.")

    def keep(self, energy, assessment):
        """Return which edges stay after a round of learning.

        Parameters
        ----------
        energy : LogLinearEnergy
            The learned parameters.
        assessment : Assessment
            Tests of the edges.

        Returns
        -------
        ndarray of bool of shape (n_edges,)
        """
        return np.ones(len(energy.form.edges), dtype=bool)

    def revise(self, rows, edges, assessment, model, entered, n_jobs):
        """Return the edges of the next round, once no edge has left.

        Parameters
        ----------
        rows : Rows
            Nothing is missing.
        edges : ndarray of shape (n_edges, 2)
        assessment : Assessment
            Tests of all pairs.
        model : PairwiseModel
        entered : set of (int, int)
            Pairs that have entered before; those that enter now are added.
        n_jobs : int or None

        Returns
        -------
        ndarray of shape (n_edges, 2)
        """
        return edges


def select_in_rounds(rows, edges, model, search, estimation, *, n_candidates):
    """Learn and select until a round changes nothing.

    A round learns the parameters of all edges and leaves out those that ``search.keep`` does not
    keep. When it keeps all of them, ``search.revise`` states the edges of the next round.

    Parameters
    ----------
    rows : Rows
    edges : ndarray of shape (n_edges, 2)
        Edges of the first round.
    model : PairwiseModel
    search : Search
    estimation : Estimation
    n_candidates : int
        Number of pairs that the search began with.

    Returns
    -------
    Selection
    """
    rounds, energy, entered = [], None, set()
    while True:
        energy, completed, fits = estimate_parameters(rows, edges, model, estimation, energy)
        tests = assess(energy, rows, completed, fits, estimation.rng, estimation.n_jobs)
        kept = search.keep(energy, tests)
        after = edges[kept]
        last = estimation.stopped or len(rounds) + 1 == MAX_ROUNDS
        if kept.all() or last:
            tests = with_scores(tests, fits, completed, estimation.n_jobs)
            if not last:
                after = search.revise(completed, edges, tests, model, entered, estimation.n_jobs)
        unchanged = np.array_equal(after, edges)
        rounds.append(count_changes(edges, edges if last else after))
        if last and not unchanged:
            _warn_unconverged(len(rounds), len(difference(edges, after)))
        if last or unchanged:
            return Selection(energy, tests, n_candidates, rounds, unchanged)
        estimation.path.remove(difference(edges, after))
        estimation.path.enter(difference(after, edges))
        edges = after


def count_changes(before, after):
    """Return the number of edges of a round, and how many left and entered."""
    return {
        "n_edges": len(before),
        "left": len(difference(before, after)),
        "entered": len(difference(after, before)),
    }


def _warn_unconverged(n_rounds, n_doubtful):
    warn_caller(
        f"The selection was ended after {n_rounds} rounds, before it had converged; {n_doubtful} "
        "of its edges are not significant (see p_values_).",
        ConvergenceWarning,
    )


def estimate_parameters(rows, edges, model, estimation, previous=None):
    """Learn the parameters of a graph.

    Learning begins at the maximum of the conditional likelihoods, which is near that of the
    likelihood. Missing entries are sampled and the conditional likelihoods fitted several times
    first.

    Parameters
    ----------
    rows : Rows
    edges : ndarray of shape (n_edges, 2)
    model : PairwiseModel
    estimation : Estimation
    previous : LogLinearEnergy, optional
        Energy of another graph to take initial parameters from.

    Returns
    -------
    energy : LogLinearEnergy
    completed : Rows
        The rows with missing entries imputed.
    fits : NodeFits
        Conditional likelihoods fitted to ``completed``.
    """
    energy = model.independent(rows, edges)
    if previous is not None:
        energy = transfer_parameters(previous, energy)
    for _ in range(COMPLETIONS if rows.has_missing else 1):
        completed = rows.completed(energy, estimation.rng)
        fits = fit_conditionals(completed, energy, model, estimation.n_jobs)
        energy = energy.with_theta(fits.theta)
    energy = estimation.learn(energy, rows, warm=True)
    if rows.has_missing:
        completed = rows.completed(energy, estimation.rng)
        fits = fit_conditionals(completed, energy, model, estimation.n_jobs)
    return energy, completed, fits


def fit_conditionals(rows, energy, model, n_jobs):
    """Return the fitted conditional likelihoods of a graph.

    Raises
    ------
    ValueError
        The parameters of one variable need more memory than ``model.max_bytes``.
    """
    form = energy.form
    sizes = np.diff(form.pair_start).astype(float)
    ends = form.edges.ravel()
    each = np.bincount(ends, np.repeat(sizes, 2), minlength=energy.n_variables)
    needed = 8.0 * MATRICES * each.max(initial=0.0) ** 2
    if needed > model.max_bytes:
        raise ValueError(
            f"The edges of one column have {each.max():.0f} parameters, whose covariance takes "
            f"about {needed:.3g} bytes, more than max_bytes={model.max_bytes:.3g}. Give a level "
            'as screen, merge rare categories, use statistic="agreement", or raise max_bytes.'
        )
    return fit_nodes(rows.X, rows.weights, form, n_jobs=n_jobs)


def transfer_parameters(source, target):
    """Return ``target`` with the parameters of ``source`` where both have the same edge."""
    edges = map(tuple, source.form.edges.tolist())
    known = dict(zip(edges, source.edge_parameters(), strict=True))
    others = map(tuple, target.form.edges.tolist())
    pairs = [
        known.get(edge, zeros) for edge, zeros in zip(others, target.edge_parameters(), strict=True)
    ]
    flat = np.concatenate(pairs) if pairs else np.zeros(0)
    return target.with_theta({"unary": source.theta["unary"], "pairs": flat})
