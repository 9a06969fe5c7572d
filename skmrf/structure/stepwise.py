"""Rounds of learning, backward elimination and forward selection."""

import numpy as np
from sklearn.exceptions import ConvergenceWarning

from .._utils.warn import warn_caller
from .assessment import assess, with_scores
from .base import Selection
from .edge_sets import difference
from .graph_parameters import estimate_parameters

MAX_ROUNDS = 20


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
