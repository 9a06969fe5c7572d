"""Couplings and interaction strengths of the pairs of variables of a factor graph."""

from itertools import combinations

import numpy as np


def pair_strengths(graph):
    r"""Return the couplings and interaction strengths of all pairs that share a clique.

    A coupling is the signed parameter of two variables with two states. An interaction strength is
    a norm that is at least 0 and exists for any numbers of states. Both are computed from the table
    of the pair, which is the sum of the tables of its cliques. A clique of more than two variables
    contributes the mean of its table over the other variables.

    Parameters
    ----------
    graph : FactorGraph
        Factor graph with tables of log-potentials.

    Returns
    -------
    pairs : list of (int, int)
        Pairs of variables, the lower variable first.
    couplings : list of float
        For two variables with two states, the coupling :math:`J` in :math:`\pm 1` coding, in nats.
        It is a quarter of :math:`\log f_{00} f_{11} / f_{01} f_{10}`. It is infinite if zero
        potentials exclude equal states or unequal states, and nan if a larger clique has zero
        potentials, because then the coupling is not determined.
    strengths : list of float
        Frobenius norm of the table of log-potentials after its row and column effects have been
        subtracted, in nats. States of probability zero are left out. The strength is infinite if
        two states are possible separately but not together.
    """
    tables = _pair_tables(graph)
    return list(tables), *_couplings_and_strengths(list(tables.values()))


def _pair_tables(graph):
    """Return ``{(i, j): table}``, i < j; a table is nan if a larger clique has zero potentials."""
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
        indices = np.array(members)
        couplings[indices[finite]], strengths[indices[finite]] = _measure_finite(stack[finite])
        for k in indices[~finite].tolist():
            couplings[k], strengths[k] = _measure_with_zeros(tables[k])
    return couplings.tolist(), strengths.tolist()


def _measure_finite(stack):
    """Return the couplings and interaction strengths of finite pair tables of one shape."""
    rows, columns = stack.mean(axis=2, keepdims=True), stack.mean(axis=1, keepdims=True)
    centred = stack - rows - columns + rows.mean(axis=1, keepdims=True)
    return centred[:, 0, 0], np.linalg.norm(centred, axis=(1, 2))


def _measure_with_zeros(table):
    """Return the coupling and interaction strength of a pair table with impossible states."""
    possible = table > -np.inf
    if np.isnan(table).any() or not possible.any():
        return np.nan, np.inf
    if (possible == np.outer(possible.any(axis=1), possible.any(axis=0))).all():
        part = table[np.ix_(possible.any(axis=1), possible.any(axis=0))]
        coupling, strength = (float(x[0]) for x in _measure_finite(part[None]))
        return coupling if part.shape == (2, 2) else 0.0, strength
    agree = -np.inf if not (possible[0, 0] and possible[-1, -1]) else np.inf
    return agree, np.inf
