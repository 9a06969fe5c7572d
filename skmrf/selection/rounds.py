"""Rounds of learning a graph, leaving edges out and letting others in."""

from dataclasses import dataclass
from typing import Any

import numpy as np

from ..energies import LogLinearEnergy
from .assessment import Assessment, assess
from .estimates import Estimation, independent
from .multiple import adjusted
from .nodewise import fit_nodes
from .penalised import sparse_edges
from .screen import screen

MAX_ROUNDS = 20
ROWS_A_PARAMETER = 20
SCREEN_LEVEL = 0.05
MOST_CANDIDATES = 2_000


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

    All of them if asked for, or if they are few and every variable has rows enough for all its
    parameters; else those that tests of independence find at a level of false discoveries, of every
    variable at most as many as it has rows for.
    """
    n = len(rows.n_states)
    pairs = np.column_stack(np.triu_indices(n, 1))
    if criteria.screen is None or not len(pairs):
        return pairs
    per_edge = 1.0
    if criteria.statistic == "table":
        per_edge = float(np.mean(rows.n_states - 1.0) ** 2)
    room = max(1, int(rows.count / (ROWS_A_PARAMETER * per_edge)))
    automatic = criteria.screen == "auto"
    if automatic and n - 1 <= room and len(pairs) * per_edge <= MOST_CANDIDATES:
        return pairs
    level = SCREEN_LEVEL if automatic else criteria.screen
    return screen(rows.X, rows.weights, rows.n_states, level=level, max_degree=room).edges


def _settle(rows, edges, n_candidates, criteria, estimation):
    """Rounds until nothing changes; pairs do not come back to a graph that was there before."""
    rounds, visited, energy = [], set(), None
    re_entry = criteria.re_entry
    while True:
        energy, completed, fits = _estimate(rows, edges, criteria, estimation, energy)
        found = assess(energy, rows, completed, fits, estimation.rng, estimation.n_jobs)
        kept, entering = judge(energy, found, criteria)
        visited.add(edges.tobytes())
        re_entry = re_entry and _merged(edges[kept], entering).tobytes() not in visited
        entering = entering if re_entry else entering[:0]
        changed = len(entering) > 0 or not kept.all()
        rounds.append({"n_edges": len(edges), "left": int((~kept).sum()), "entered": len(entering)})
        if not changed or estimation.stopped or len(rounds) == MAX_ROUNDS:
            return Selection(energy, found, n_candidates, rounds, not changed)
        estimation.path.remove(edges[~kept])
        estimation.path.enter(entering)
        edges = _merged(edges[kept], entering)


def _merged(kept, entering):
    edges = np.concatenate([kept, entering])
    return edges[np.lexsort(edges.T[::-1])]


def _estimate(rows, edges, criteria, estimation, previous):
    """The learned energy, the rows without gaps, and the conditional likelihoods' fits to them."""
    start = independent(rows, edges, criteria.statistic, criteria.unary)
    if not rows.has_missing:
        fits = fit_nodes(rows.X, rows.weights, start.form, n_jobs=estimation.n_jobs)
        return estimation.learn(start.with_theta(fits.theta), rows, warm=True), rows, fits
    if previous is not None:
        start = carried(previous, start)
    energy = estimation.learn(start, rows, warm=previous is not None)
    completed = rows.completed(energy, estimation.rng)
    fits = fit_nodes(completed.X, completed.weights, start.form, n_jobs=estimation.n_jobs)
    return energy, completed, fits


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


def judge(energy, found, criteria):
    """Which edges stay, and which other pairs should enter."""
    edges = energy.form.edges
    if criteria.threshold is None:
        return np.ones(len(edges), dtype=bool), edges[:0]
    if criteria.threshold != "wald":
        return energy.strengths() >= criteria.threshold, edges[:0]
    n = energy.n_variables
    good = np.zeros((n, n), dtype=bool)
    upper = np.triu_indices(n, 1)
    good[upper] = adjusted(found.p, criteria.control) <= criteria.level
    kept = good[edges[:, 0], edges[:, 1]]
    good[edges[:, 0], edges[:, 1]] = False
    return kept, np.argwhere(good)


def _selected_while_learning(rows, edges, criteria, estimation):
    """One run of the loop that removes edges as it goes on."""
    start = independent(rows, edges, criteria.statistic, criteria.unary)
    removal = criteria.threshold, criteria.warmup
    energy = estimation.learn(start, rows, warm=False, removal=removal)
    left = independent(rows, edges[energy.alive], criteria.statistic, criteria.unary)
    final = carried(energy, left)
    completed = rows.completed(final, estimation.rng)
    fits = fit_nodes(completed.X, completed.weights, final.form, n_jobs=estimation.n_jobs)
    found = assess(final, rows, completed, fits, estimation.rng, estimation.n_jobs)
    n_left = len(final.form.edges)
    rounds = [{"n_edges": len(edges), "left": len(edges) - n_left, "entered": 0}]
    return Selection(final, found, len(edges), rounds, True)
