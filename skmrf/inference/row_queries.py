"""Queries about many partly observed rows at once: one elimination for every missing pattern."""

import numpy as np

from .._utils.codes import MISSING
from .._utils.warn import warn_caller
from ..exact import elimination
from ..exact.elimination import DEFAULT_MAX_BYTES
from ..likelihood import ais
from ..likelihood.bounds import exact_fits
from ..samplers import gibbs_queries


def _patterns(X):
    """(observed mask, numbers of the rows that observe just that) for every pattern of X."""
    seen = X != MISSING
    packed = np.packbits(seen, axis=1)
    _, first, which = np.unique(packed, axis=0, return_index=True, return_inverse=True)
    which = which.ravel()  # numpy 2.0 gives a column
    by_pattern = np.argsort(which, kind="stable")
    bounds = np.searchsorted(which[by_pattern], np.arange(len(first) + 1))
    for p, row in enumerate(first):
        yield seen[row], by_pattern[bounds[p] : bounds[p + 1]]


def _fits(graph, observed, max_bytes):
    return observed.all() or exact_fits(graph.layout, observed, max_bytes)


def _exactly(query, graph, observed, X, rows, max_bytes):
    """An exact query about some rows of X; an error has the row's number in X."""
    plan = elimination.prepare(graph.layout, observed, max_bytes=max_bytes)
    try:
        return query(plan, graph.flat, X[rows])
    except elimination.ImpossibleEvidence as error:
        raise elimination.ImpossibleEvidence(rows[error.row]) from None


def _evidence(row):
    return {int(i): int(row[i]) for i in np.flatnonzero(row != MISSING)}


def row_log_partitions(graph, X, *, max_bytes=DEFAULT_MAX_BYTES, rng=None):
    """Log of the sum of ``f`` over the missing entries of every row, in nats.

    Exact where elimination fits, else annealed importance sampling row by row.

    Parameters
    ----------
    graph : FactorGraph
    X : ndarray of shape (n_rows, n_variables)
        State codes, MISSING where not observed.
    max_bytes : float
    rng : numpy.random.Generator, for annealing

    Returns
    -------
    ndarray of shape (n_rows,)
    """
    out = np.empty(len(X))
    for observed, rows in _patterns(X):
        if observed.all():
            out[rows] = graph.log_potential(X[rows])
        elif _fits(graph, observed, max_bytes):
            out[rows] = _exactly(elimination.log_partitions, graph, observed, X, rows, max_bytes)
        else:
            out[rows] = [
                ais(graph.condition(_evidence(X[r])), random_state=rng).value for r in rows
            ]
    return out


def row_marginals(graph, X, *, max_bytes=DEFAULT_MAX_BYTES, rng=None):
    """Marginals of all variables given the observed entries of every row.

    Parameters
    ----------
    graph : FactorGraph
    X : ndarray of shape (n_rows, n_variables)
        State codes; -1 where an entry is missing.
    max_bytes : float, default=4 GiB
        Elimination beyond it is not tried.
    rng : Generator, int or None
        Of the chains, where elimination does not fit.

    Returns
    -------
    list of ndarray of shape (n_rows, n_states_i), one a variable
    """
    rng = np.random.default_rng(rng)
    out = np.empty((len(X), int(graph.n_states.sum())))
    for observed, rows in _patterns(X):
        if _fits(graph, observed, max_bytes):
            out[rows] = _exactly(elimination.single_marginals, graph, observed, X, rows, max_bytes)
        else:
            for r in rows:
                out[r] = _gibbs_marginals(graph, X[r], rng)
    return np.split(out, np.cumsum(graph.n_states)[:-1], axis=1)


def _gibbs_marginals(graph, row, rng):
    visited, _ = gibbs_queries.averages(graph.condition(_evidence(row)), rng)
    full = np.repeat(row[None], len(visited), axis=0)
    full[:, row == MISSING] = visited
    return np.bincount(
        (full + graph.layout.state_start).ravel(), minlength=int(graph.n_states.sum())
    ) / len(full)


def row_modes(graph, X, *, max_bytes=DEFAULT_MAX_BYTES, rng=None):
    """Rows with their missing entries filled by a joint mode given the observed ones.

    Exact where elimination fits, else the best that simulated annealing finds.

    Parameters
    ----------
    graph : FactorGraph
    X : ndarray of shape (n_rows, n_variables)
        State codes; -1 where an entry is missing.
    max_bytes : float, default=4 GiB
        Elimination beyond it is not tried.
    rng : Generator, int or None
        Of annealing.

    Returns
    -------
    ndarray of shape (n_rows, n_variables)
    """

    rng = np.random.default_rng(rng)

    def anneal(rows, observed):
        out = rows.copy()
        for row in out:
            row[~observed] = gibbs_queries.anneal(graph.condition(_evidence(row)), rng)[0]
        return out

    return _filled(graph, X, max_bytes, elimination.maximise, anneal)


def row_samples(graph, X, rng, *, max_bytes=DEFAULT_MAX_BYTES):
    """One draw of the missing entries of every row given the observed ones.

    Exact where elimination fits, else the last state of a Gibbs chain, with a warning.

    Parameters
    ----------
    graph : FactorGraph
    X : ndarray of shape (n_rows, n_variables)
        State codes; -1 where an entry is missing.
    rng : Generator
    max_bytes : float, default=4 GiB
        Elimination beyond it is not tried.

    Returns
    -------
    ndarray of shape (n_rows, n_variables)
    """

    def by_elimination(plan, flat, rows):
        shared = rows[:1] if (rows == rows[0]).all() else rows
        return elimination.sample(plan, flat, len(rows), rng, shared)

    def gibbs(rows, _):
        warn_inexact_samples()
        moved = gibbs_queries.draw_given(graph, rows, rng)
        gibbs_queries.check_possible(graph, moved)
        return moved

    return _filled(graph, X, max_bytes, by_elimination, gibbs)


def _filled(graph, X, max_bytes, by_elimination, approximate):
    """Complete the rows of every missing pattern by one of two functions."""
    out = X.copy()
    for observed, rows in _patterns(X):
        if observed.all():
            continue
        if _fits(graph, observed, max_bytes):
            out[rows] = _exactly(by_elimination, graph, observed, X, rows, max_bytes)
        else:
            out[rows] = approximate(X[rows], observed)
    return out


def warn_inexact_samples():
    """Say that samples are states of Gibbs chains."""
    warn_caller(
        "Exact sampling does not fit in memory; the samples are states of Gibbs chains, which only "
        "approach the distribution.",
    )
