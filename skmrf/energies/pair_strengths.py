"""How strongly the variables of a factor graph are coupled, pair by pair."""

from itertools import combinations

import numpy as np


def pair_strengths(graph):
    r"""Couplings and strengths of the pairs of variables that share a clique.

    A clique of more than two variables gives every pair the mean of its table over the others.

    Parameters
    ----------
    graph : FactorGraph

    Returns
    -------
    pairs : list of (int, int)
        The lower variable first.
    couplings : list of float
        Of two states :math:`J` in :math:`\pm 1` coding, a quarter of
        :math:`\log f_{00} f_{11} / f_{01} f_{10}`; infinite where zero potentials exclude equal
        or unequal states, nan where zeros of a larger clique leave it open.
    strengths : list of float
        Norm of the table of log-potentials less its parts of rows and columns, in nats; states that
        are impossible by themselves are left out; infinite where other states are impossible
        together.
    """
    tables = _pair_tables(graph)
    return list(tables), *_couplings_and_strengths(list(tables.values()))


def _pair_tables(graph):
    """``{(i, j): table}``, i < j; nan where zeros of a larger table leave it open."""
    tables = {}
    for clique, table in zip(graph.cliques, graph.log_potentials, strict=True):
        for axes in combinations(range(len(clique)), 2):
            others = tuple(k for k in range(len(clique)) if k not in axes)
            part = table.mean(axis=others) if others else table
            if others and not np.isfinite(table).all():
                part = np.full_like(part, np.nan)
            i, j = (clique[k] for k in axes)
            pair, part = ((i, j), part) if i < j else ((j, i), part.T)
            tables[pair] = tables[pair] + part if pair in tables else part
    return tables


def _couplings_and_strengths(tables):
    couplings, strengths = np.empty(len(tables)), np.empty(len(tables))
    by_shape = {}
    for k, table in enumerate(tables):
        by_shape.setdefault(table.shape, []).append(k)
    for members in by_shape.values():
        stack = np.stack([tables[k] for k in members])
        finite = np.isfinite(stack).all(axis=(1, 2))
        numbers = np.array(members)
        couplings[numbers[finite]], strengths[numbers[finite]] = _centred(stack[finite])
        for k in numbers[~finite].tolist():
            couplings[k], strengths[k] = _with_zeros(tables[k])
    return couplings.tolist(), strengths.tolist()


def _centred(stack):
    """J and strength of finite tables."""
    rows, columns = stack.mean(axis=2, keepdims=True), stack.mean(axis=1, keepdims=True)
    centred = stack - rows - columns + rows.mean(axis=1, keepdims=True)
    return centred[:, 0, 0], np.linalg.norm(centred, axis=(1, 2))


def _with_zeros(table):
    """J and strength of one table; states that are impossible by themselves are left out."""
    possible = table > -np.inf
    if np.isnan(table).any() or not possible.any():
        return np.nan, np.inf
    if (possible == np.outer(possible.any(axis=1), possible.any(axis=0))).all():
        part = table[np.ix_(possible.any(axis=1), possible.any(axis=0))]
        coupling, strength = (float(x[0]) for x in _centred(part[None]))
        return coupling if part.shape == (2, 2) else 0.0, strength
    agree = -np.inf if not (possible[0, 0] and possible[-1, -1]) else np.inf
    return agree, np.inf
