"""Rounds of learning a graph, leaving edges out and letting others in."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.exceptions import ConvergenceWarning

from .._utils.warn import warn_caller
from ..energies.log_linear import LogLinearEnergy, LogLinearForm
from .assessment import Assessment, assess, assess_nodes, with_scores
from .estimation import Estimation, independent
from .multiple_tests import adjusted
from .nodewise import fit_nodes
from .penalised import sparse_edges
from .screening import Budget, screen

MAX_ROUNDS = 20
ROWS_A_PARAMETER = 20
SCREEN_LEVEL = 0.05
MOST_CANDIDATES = 2_000
MOST_PARTNERS = 64
COMPLETIONS = 8
MATRICES = 4  # of the size of a column's parameters squared


@dataclass(frozen=True)
class Criteria:
    """What makes an edge.

    Attributes
    ----------
    statistic : {"table", "agreement"}
    unary : bool
        Whether single variables have parameters.
    screen : "auto", None or float
        Level of false discoveries.
    threshold : "wald", float or None
        None leaves it to the penalty.
    control : {"holm", "fdr"}
    level : float
    warmup : int or None
        Updates before edges are removed while learning goes on; None: not before it is over.
    re_entry : bool
        With "wald".
    penalty : (name, alpha) or None
        A penalty that makes edges zero; alpha may be a criterion.
    max_bytes : float
    """

    statistic: str
    unary: bool
    screen: Any
    threshold: Any
    control: str
    level: float
    warmup: int | None
    re_entry: bool
    penalty: tuple | None
    max_bytes: float


@dataclass(frozen=True, eq=False)
class Selection:
    """A graph with its parameters.

    Attributes
    ----------
    energy : LogLinearEnergy
        Of the selected edges.
    assessment : Assessment
    n_candidates : int
        Pairs that learning began with.
    rounds : list of dict
        Edges that were there, that left and that entered.
    settled : bool
        Whether the last round changed nothing.
    """

    energy: LogLinearEnergy
    assessment: Assessment
    n_candidates: int
    rounds: list
    settled: bool


def select(rows, criteria, estimation: Estimation):
    """The graph and its parameters.

    Parameters
    ----------
    rows : Rows
        Of variables with at least two states.
    criteria : Criteria
    estimation : Estimation
    """
    edges = candidates(rows, criteria)
    n_candidates = len(edges)
    if criteria.warmup is not None:
        return _selected_while_learning(rows, edges, criteria, estimation)
    if criteria.penalty is not None:
        edges = sparse_edges(rows, edges, criteria, estimation)
    return _settle(rows, edges, n_candidates, criteria, estimation)


def candidates(rows, criteria):
    """Pairs that learning begins with.

    All of them if asked for. By default those of so few parameters that a column has rows enough
    for as many with all others, if these pairs are not many. Of the rest those that tests of
    independence find at a level of false discoveries, of every column at most as many as it has
    rows for, and unless a level is given 64: where nearly all pairs are dependent, edges are among
    the strongest.
    """
    n = len(rows.n_states)
    pairs = np.column_stack(np.triu_indices(n, 1))
    if criteria.screen is None or not len(pairs):
        return pairs
    free = rows.n_states - 1.0 if criteria.statistic == "table" else np.ones(n)
    room = rows.count / ROWS_A_PARAMETER
    automatic = criteria.screen == "auto"
    light = np.zeros((0, 2), dtype=np.int64)
    if automatic:
        sizes = free[pairs].prod(axis=1)
        light = pairs[(n - 1) * sizes <= room]
        if free[light].prod(axis=1).sum() > MOST_CANDIDATES:
            light = light[:0]
    if len(light) == len(pairs):
        return pairs
    level = SCREEN_LEVEL if automatic else criteria.screen
    budget = Budget(free, room, MOST_PARTNERS if automatic else n)
    found = screen(rows.X, rows.weights, rows.n_states, level=level, budget=budget).edges
    return _merged(light, _without(found, light))


def _settle(rows, edges, n_candidates, criteria, estimation):
    """Rounds until no edge leaves and none enters."""
    rounds, energy, entered = [], None, set()
    while True:
        energy, completed, fits = _estimate(rows, edges, criteria, estimation, energy)
        found = assess(energy, rows, completed, fits, estimation.rng, estimation.n_jobs)
        kept = _kept(energy, found, criteria)
        after = edges[kept]
        last = estimation.stopped or len(rounds) + 1 == MAX_ROUNDS
        if kept.all() or last:
            found = with_scores(found, fits, completed, estimation.n_jobs)
            if criteria.re_entry and not last:
                after = _search(completed, edges, found, criteria, entered, estimation.n_jobs)
        same = np.array_equal(after, edges)
        rounds.append(_account(edges, edges if last else after))
        if last and not same:
            warn_caller(
                f"The selection was ended after {len(rounds)} rounds, before it had settled; "
                f"{len(_without(edges, after))} of its edges are not significant (see p_values_).",
                ConvergenceWarning,
            )
        if last or same:
            return Selection(energy, found, n_candidates, rounds, same)
        estimation.path.remove(_without(edges, after))
        estimation.path.enter(_without(after, edges))
        edges = after


def _account(before, after):
    """What happened in a round."""
    return {
        "n_edges": len(before),
        "left": len(_without(before, after)),
        "entered": len(_without(after, before)),
    }


def _without(edges, others):
    """The edges that are not among others."""
    known = set(map(tuple, others.tolist()))
    kept = [tuple(e) not in known for e in edges.tolist()]
    return edges[np.array(kept, dtype=bool)]


def _search(rows, edges, found, criteria, entered, n_jobs):
    """The graph after pairs that are missing have entered and edges that were needless have left.

    By the conditional likelihoods. In a step a pair enters if none with either of its ends is more
    significant, and never twice, so that the search ends.
    """
    while True:
        good = _significant(found, criteria)
        kept = good[edges[:, 0], edges[:, 1]]
        good[edges[:, 0], edges[:, 1]] = False
        good[tuple(np.array(sorted(entered), dtype=np.int64).reshape(-1, 2).T)] = False
        entering = _foremost(np.where(good, found.log_p, np.inf))
        if kept.all() and not len(entering):
            return edges
        entered.update(map(tuple, entering.tolist()))
        edges = _merged(edges[kept], entering)
        form = LogLinearForm.build(rows.n_states, edges, criteria.statistic, criteria.unary)
        fits = fit_nodes(rows.X, rows.weights, form, n_jobs=n_jobs)
        found = with_scores(assess_nodes(fits, rows, n_jobs), fits, rows, n_jobs)


def _foremost(log_p):
    """Pairs ``i < j`` that have the smallest entry of both of their rows."""
    both = np.minimum(log_p, log_p.T)
    best = both.min(axis=0, initial=np.inf)
    first = np.isfinite(both) & (both <= best) & (both <= best[:, None])
    return np.argwhere(np.triu(first, 1))


def _merged(kept, entering):
    edges = np.concatenate([kept, entering])
    return edges[np.lexsort(edges.T[::-1])]


def _estimate(rows, edges, criteria, estimation, previous):
    """The learned energy, the rows without gaps, and the conditional likelihoods' fits to them.

    Learning begins at the maximum of the conditional likelihoods, which is near that of the
    likelihood; where entries are missing, after some rounds of drawing them and fitting again.
    """
    energy = independent(rows, edges, criteria.statistic, criteria.unary)
    if previous is not None:
        energy = carried(previous, energy)
    for _ in range(COMPLETIONS if rows.has_missing else 1):
        completed = rows.completed(energy, estimation.rng)
        fits = _fitted(completed, energy, criteria, estimation)
        energy = energy.with_theta(fits.theta)
    energy = estimation.learn(energy, rows, warm=True)
    if rows.has_missing:
        completed = rows.completed(energy, estimation.rng)
        fits = _fitted(completed, energy, criteria, estimation)
    return energy, completed, fits


def _fitted(rows, energy, criteria, estimation):
    """The conditional likelihoods' fits, if there is memory for them."""
    form = energy.form
    sizes = np.diff(form.pair_start).astype(float)
    ends = form.edges.ravel()
    each = np.bincount(ends, np.repeat(sizes, 2), minlength=energy.n_variables)
    needed = 8.0 * MATRICES * each.max(initial=0.0) ** 2
    if needed > criteria.max_bytes:
        raise ValueError(
            f"The edges of one column have {each.max():.0f} parameters, whose covariance takes "
            f"about {needed:.3g} bytes, more than max_bytes={criteria.max_bytes:.3g}. Give a level "
            'as screen, merge rare categories, use statistic="agreement", or raise max_bytes.'
        )
    return fit_nodes(rows.X, rows.weights, energy.form, n_jobs=estimation.n_jobs)


def carried(energy, other):
    """``other`` with the parameters that ``energy`` has of the same variables and edges."""
    known = dict(zip(map(tuple, energy.form.edges.tolist()), energy.edge_parameters(), strict=True))
    pairs = [
        known.get(edge, zeros)
        for edge, zeros in zip(
            map(tuple, other.form.edges.tolist()), other.edge_parameters(), strict=True
        )
    ]
    flat = np.concatenate(pairs) if pairs else np.zeros(0)
    return other.with_theta({"unary": energy.theta["unary"], "pairs": flat})


def _kept(energy, found, criteria):
    """Which edges stay."""
    edges = energy.form.edges
    if criteria.threshold is None:
        return np.ones(len(edges), dtype=bool)
    if criteria.threshold != "wald":
        return energy.strengths() >= criteria.threshold
    return _significant(found, criteria)[edges[:, 0], edges[:, 1]]


def _significant(found, criteria):
    """Pairs ``i < j`` whose tests reject."""
    n = len(found.statistic)
    good = np.zeros((n, n), dtype=bool)
    good[np.triu_indices(n, 1)] = adjusted(found.p, criteria.control) <= criteria.level
    return good


def _selected_while_learning(rows, edges, criteria, estimation):
    """One run of the loop that removes edges as it goes on."""
    start = independent(rows, edges, criteria.statistic, criteria.unary)
    energy = estimation.learn(start, rows, warm=False, removal=_removal(criteria))
    return _surviving(rows, energy, criteria, estimation)


def select_more(rows, criteria, estimation):
    """One more epoch of learning that removes edges; the first begins with all candidates."""
    edges = candidates(rows, criteria) if estimation.state is None else np.zeros((0, 2), int)
    start = independent(rows, edges, criteria.statistic, criteria.unary)
    energy = start
    if estimation.state is not None or len(edges):
        energy = estimation.go_on(start, rows, _removal(criteria))
    return _surviving(rows, energy, criteria, estimation)


def _removal(criteria):
    return criteria.threshold, criteria.warmup


def _surviving(rows, energy, criteria, estimation):
    """The edges that were not removed, with their parameters and tests."""
    edges = energy.form.edges
    left = independent(rows, edges[energy.alive], criteria.statistic, criteria.unary)
    final = carried(energy, left)
    completed = rows.completed(final, estimation.rng)
    fits = _fitted(completed, final, criteria, estimation)
    found = assess(final, rows, completed, fits, estimation.rng, estimation.n_jobs)
    found = with_scores(found, fits, completed, estimation.n_jobs)
    return Selection(final, found, len(edges), [_account(edges, left.form.edges)], True)
