"""Screening: candidate pairs of the graph search, selected by tests of independence."""

from typing import NamedTuple

import numpy as np
from scipy.stats import chi2

from .._utils.codes import MISSING
from .._utils.rows import blocks_in_memory, count_states, has_missing, pair_frequencies
from .significance import adjust_p_values, chi2_from_f, log_tail

BLOCK_COLUMNS = 256
BLOCK_ENTRIES = 2**20
MAX_EXACT_FLOAT32 = 2**24


class ScreenedPairs(NamedTuple):
    """Pairs of variables for which independence is rejected.

    Attributes
    ----------
    edges : ndarray of shape (n_edges, 2)
        Pairs ``i < j`` in lexicographic order.
    p : ndarray of shape (n_edges,)
        p-values of the tests of these pairs, not adjusted.
    """

    edges: np.ndarray
    p: np.ndarray


class Budget(NamedTuple):
    """Limits for each variable in the screening: number of parameters and number of partners.

    Attributes
    ----------
    free : ndarray of shape (n_variables,)
        Factors whose products are the numbers of parameters of the pairs.
    max_parameters : float
        Maximum number of parameters of a variable. The first partner is always allowed.
    max_partners : int
        Maximum number of partners of a variable.
    """

    free: np.ndarray
    max_parameters: float
    max_partners: int


class PairTests(NamedTuple):
    """Tests of the independence of pairs of variables.

    Attributes
    ----------
    edges : ndarray of shape (n_edges, 2)
        Pairs ``i < j``.
    statistic : ndarray of shape (n_edges,)
        Statistics that have a chi-square distribution if the variables are independent.
    dof : ndarray of shape (n_edges,)
        Degrees of freedom, positive.
    """

    edges: np.ndarray
    statistic: np.ndarray
    dof: np.ndarray


def screen(X, weights, n_states, *, level, budget=None):
    """Return the pairs for which Pearson's chi-square test rejects independence.

    A pair is tested on the rows that observe both variables. States that do not occur in these
    rows do not count in the degrees of freedom.

    Parameters
    ----------
    X : ndarray of shape (n_rows, n_variables)
        State codes, MISSING where not observed.
    weights : ndarray of shape (n_rows,)
        Sample weights: how often each row counts.
    n_states : ndarray of shape (n_variables,)
        Number of states of each variable.
    level : float
        False discovery rate over all pairs, by the procedure of Benjamini and Hochberg.
    budget : Budget, optional
        Limits on the partners of each variable. A variable keeps its partners of smallest p-value
        within the limits, and a pair is returned if both of its variables keep it.

    Returns
    -------
    ScreenedPairs
        Dependent pairs and their p-values.
    """
    tests = PairTests(*_pairs_below_level(X, weights, n_states, level))
    return _select_dependent(tests, X.shape[1], level, budget)


def _select_dependent(tests, n, level, budget):
    """Return the pairs of n variables whose tests reject independence, within the budget."""
    edges, statistic, dof = tests
    p = chi2.sf(statistic, dof)
    rejected = adjust_p_values(p, "fdr", n_tests=n * (n - 1) // 2) <= level
    edges, statistic, dof, p = edges[rejected], statistic[rejected], dof[rejected], p[rejected]
    if budget is not None:
        order = np.lexsort((-statistic, log_tail(statistic, dof)))
        kept = _select_within_budget(edges, order, budget)
        edges, p = edges[kept], p[kept]
    order = np.lexsort(edges.T[::-1])
    return ScreenedPairs(edges[order], p[order])


def count_observed_pairs(is_observed, weights):
    """Return the (n, n) matrix of the weighted numbers of rows that observe both variables."""
    n_rows, n = is_observed.shape
    counts = np.zeros((n, n))
    step = max(1, BLOCK_ENTRIES // (8 * max(n, 1)))
    for start in range(0, n_rows, step):
        observed = is_observed[start : start + step].astype(float)
        counts += observed.T @ (observed * weights[start : start + step, None])
    return counts


def _pairs_below_level(X, weights, n_states, level):
    """Return the pairs with a p-value of at most ``level``, and their test statistics.

    The threshold of Benjamini and Hochberg never exceeds the level, so it rejects no other pair.
    """
    passed = [(np.zeros((0, 2), np.int64), np.zeros(0), np.zeros(0, np.int64))]
    for left, right, tables in pair_tables(X, weights, np.asarray(n_states)):
        statistic, dof = _pearson(tables)
        is_first_visit = (left[:, None] < right) | (left[0] != right[0])
        a, b = np.nonzero(
            is_first_visit & (dof > 0) & (chi2.sf(statistic, np.maximum(dof, 1)) <= level)
        )
        pairs = np.sort(np.column_stack([left[a], right[b]]), axis=1)
        passed.append((pairs, statistic[a, b], dof[a, b]))
    return tuple(np.concatenate(parts) for parts in zip(*passed, strict=True))


def binary_counts(X, weights, n_states):
    """Return the number of rows in which two columns have the code 1, for all pairs of columns.

    Parameters
    ----------
    X : array of numpy or JAX of shape (n_rows, n_variables)
        State codes; MISSING where an entry is missing.
    weights : ndarray of shape (n_rows,)
        Number of times that each row counts.
    n_states : ndarray of int of shape (n_variables,)
        Number of states of each variable.

    Returns
    -------
    ndarray of shape (n_variables, n_variables), or None
        Counts. None unless all variables have two states, no entry is missing and each row counts
        once.
    """
    is_binary = (np.asarray(n_states) == 2).all() and (weights == 1.0).all()
    if not is_binary or not len(X) or has_missing(X):
        return None
    return np.rint(len(X) * pair_frequencies(X))


def pair_tables(X, weights, n_states, max_size=np.inf, joint=None):
    """Yield the contingency tables of all pairs, block by block.

    Variables with one state are in no block. If no entry is missing and the weights are integers,
    only states above 0 are counted, and the counts of state 0 are differences.

    Parameters
    ----------
    X : ndarray of shape (n_rows, n_variables)
        State codes; MISSING where an entry is missing.
    weights : ndarray of shape (n_rows,)
        Number of times that each row counts.
    n_states : ndarray of int of shape (n_variables,)
        Number of states of each variable.
    max_size : float, default=inf
        Maximum number of entries of a table; pairs with larger tables are left out.
    joint : ndarray of shape (n_variables, n_variables), optional
        Result of :func:`binary_counts`, if it is known.

    Yields
    ------
    left, right : ndarray of int of shape (n_left,) and (n_right,)
        Variables of two blocks, which may be the same if they have several variables. All variables
        of a block have equal numbers of states, q and r.
    tables : ndarray of float of shape (n_left, n_right, q, r)
        Weighted counts of the joint states, over the rows that observe both variables.
    """
    blocks = list(_variable_blocks(n_states))
    joint = binary_counts(X, weights, n_states) if joint is None else joint
    dtype = _exact_dtype(weights)
    is_counted = joint is not None or (dtype is np.float32 and not has_missing(X))
    lowest = int(is_counted)  # of the states that are counted
    counts = count_states(X, n_states, weights) if lowest else []
    totals = [np.stack([counts[i] for i in members]) for members, _ in blocks if lowest]
    for k, (left, q) in enumerate(blocks):
        # Blocks are sorted by their numbers of states.
        rights = [(right, r) for right, r in blocks[k:] if q * r <= max_size]
        sums = [0.0] * len(rights)
        if joint is not None:
            sums = [joint[np.ix_(left, right)][:, :, None, None] for right, _ in rights]
        for rows in blocks_in_memory(X) if joint is None else ():
            part, shares = X[rows], weights[rows].astype(dtype)
            for m, (right, r) in enumerate(rights):
                sums[m] = sums[m] + _block_tables(part, shares, (left, right), (q, r), lowest)
        for m, (right, _) in enumerate(rights):
            if len(left) == len(right) == 1:
                if left[0] != right[0]:
                    yield left, right, sums[m]
                continue
            tables = _add_lowest(sums[m], totals[k], totals[k + m]) if lowest else sums[m]
            yield left, right, tables


def _block_tables(X, weights, variables, n_states, lowest):
    """Return the weighted counts of the states of the pairs of two blocks of variables.

    States below ``lowest`` are not counted, except for two blocks of one variable.
    """
    if all(len(v) == 1 for v in variables):
        first, second = (X[:, v[0]] for v in variables)
        return joint_counts(first, second, weights, n_states)[None, None]
    states = [np.arange(lowest, q) for q in n_states]
    sizes = [(len(v), len(s)) for v, s in zip(variables, states, strict=True)]
    counts = np.zeros([n * q for n, q in sizes])
    step = max(1, BLOCK_ENTRIES // sum(counts.shape))
    for start in range(0, len(X), step):
        rows = slice(start, start + step)
        left, right = (
            _one_hot_columns(X[rows], v, s, weights.dtype)
            for v, s in zip(variables, states, strict=True)
        )
        left *= weights[rows, None]
        counts += left.T @ right
    return counts.reshape(*sizes[0], *sizes[1]).transpose(0, 2, 1, 3)


def _add_lowest(tables, left, right):
    """Add the state 0 to tables of the other states, from the counts of single variables."""
    n_left, n_right, q, r = tables.shape
    out = np.empty((n_left, n_right, q + 1, r + 1))
    out[:, :, 1:, 1:] = tables
    out[:, :, 1:, 0] = left[:, None, 1:] - tables.sum(axis=3)
    out[:, :, 0] = right - out[:, :, 1:].sum(axis=2)
    return out


def joint_counts(first, second, weights, shape):
    """Return the contingency table of two columns of state codes."""
    observed = (first != MISSING) & (second != MISSING)
    joint = np.ravel_multi_index((first[observed], second[observed]), shape)
    return np.bincount(joint, weights[observed], np.prod(shape)).reshape(shape)


def _variable_blocks(n_states):
    """Yield blocks of variables with equal numbers of states, and this number."""
    for q in np.unique(n_states[n_states > 1]).tolist():
        members = np.flatnonzero(n_states == q)
        step = max(1, BLOCK_COLUMNS // q)
        for start in range(0, len(members), step):
            yield members[start : start + step], q


def _exact_dtype(weights):
    """Return float32 if it represents all weighted counts exactly, otherwise float64."""
    whole = (weights == np.floor(weights)).all() and weights.sum() <= MAX_EXACT_FLOAT32
    return np.float32 if whole else np.float64


def _one_hot_columns(X, variables, states, dtype):
    """Return a column of zeros and ones for each of the given states of each variable."""
    X, n_columns = X[:, variables], len(variables) * len(states)
    if len(states) == 1:
        return np.equal(X, states[0]).astype(dtype)
    return (X[:, :, None] == states).reshape(len(X), n_columns).astype(dtype)


def _pearson(tables):
    """Return Pearson's chi-square statistics of contingency tables, and degrees of freedom.

    The shape of the tables is (..., q, r).
    """
    rows, columns = tables.sum(axis=-1, keepdims=True), tables.sum(axis=-2, keepdims=True)
    total = np.maximum(rows.sum(axis=-2, keepdims=True), np.finfo(float).tiny)
    expected = rows * columns / total
    square = (tables - expected) ** 2
    statistic = np.divide(square, expected, out=np.zeros_like(square), where=expected > 0)
    free = [np.maximum((counts > 0).sum(axis=(-2, -1)) - 1, 0) for counts in (rows, columns)]
    return statistic.sum(axis=(-2, -1)), free[0] * free[1]


def _select_within_budget(edges, order, budget):
    """Select edges in the given order, as long as both of their variables are within their limits.

    Returns a mask of the edges that both variables keep.
    """
    kept = np.zeros(len(edges), dtype=bool)
    degree, used = np.zeros(len(budget.free), dtype=int), np.zeros(len(budget.free))
    sizes = budget.free[edges].prod(axis=1)
    for e in order:
        ends = edges[e]
        fits = (degree[ends] == 0) | (used[ends] + sizes[e] <= budget.max_parameters)
        fits &= degree[ends] < budget.max_partners
        kept[e] = fits.all()
        degree[ends] += fits
        used[ends] += np.where(fits, sizes[e], 0.0)
    return kept


def dependence_tests(rows):
    """Return tests of the independence of all pairs of variables, as :class:`PairTests`.

    They are F tests of the correlation or of the analysis of variance, and chi-square tests of two
    categorical variables. A pair is tested on the rows that observe both variables.
    """
    design, n = rows.design, len(rows.n_states)
    pairs = np.column_stack(np.triu_indices(n, 1))
    i, j = pairs.T
    counts = np.maximum(rows.count_observed(pairs), 1e-300)
    members = np.repeat(np.eye(n), design.sizes, axis=0)
    covariances = (
        design.gram[1:, 1:] - np.outer(design.gram[0, 1:], design.gram[0, 1:]) / rows.count
    )
    squares = (members.T @ covariances**2 @ members)[i, j] / counts**2
    is_number = rows.n_states == 0
    spread = np.where(is_number, np.diag(members.T @ covariances @ members), 1.0)
    spread[is_number] /= np.maximum(rows.weights @ rows.observed[:, is_number], 1e-300)
    spread = np.maximum(spread, 1e-300)
    explained = np.minimum(squares / (spread[i] * spread[j]), 1.0 - 1e-12)
    dof = design.sizes[i] * design.sizes[j]
    left = counts - dof - 1
    has_number = is_number[i] | is_number[j]
    f = explained / np.maximum(dof, 1) / (1.0 - explained) * np.maximum(left, 0.0)
    statistic = np.where(has_number, chi2_from_f(f, dof, left), counts * squares)
    tested = (dof > 0) & (~has_number | (left > 0))
    return PairTests(pairs[tested], statistic[tested], dof[tested])


ROWS_PER_PARAMETER = 20
SCREEN_LEVEL = 0.05
MAX_PARAMETERS = 2_000
MAX_PARTNERS = 64


def candidate_pairs(rows, setting, free, tests=None):
    """Return the candidate pairs: the pairs of variables that can become edges.

    If the setting is None, all pairs are candidates. If it is a number, the candidates are the
    pairs that tests of independence find at this false discovery rate, and each variable has at
    most as many as there are rows for (20 rows per parameter). If it is "auto", all pairs with few
    parameters are candidates, unless these pairs have many parameters together. Of the other pairs,
    those found at a false discovery rate of 0.05 are candidates, at most the 64 strongest of each
    variable. If nearly all pairs are dependent, edges are among the strongest pairs.

    Parameters
    ----------
    rows : Rows or MixedRows
        Training rows.
    setting : "auto", float or None
        Parameter ``screen`` of the structure learner.
    free : ndarray of shape (n_variables,)
        Factors whose products are the numbers of parameters of the pairs.
    tests : PairTests, optional
        Tests of all pairs. By default they are chi-square tests of the state codes.

    Returns
    -------
    ndarray of shape (n_pairs, 2)
        Pairs of variable indices, the lower index first.
    """
    pairs = np.column_stack(np.triu_indices(len(free), 1))
    if setting is None or not len(pairs):
        return pairs
    if setting != "auto":
        return _dependent_pairs(rows, free, tests, setting, len(free))
    small = _small_pairs(rows.count, free, pairs)
    if len(small) == len(pairs):
        return pairs
    dependent = _dependent_pairs(rows, free, tests, SCREEN_LEVEL, MAX_PARTNERS)
    return union(small, difference(dependent, small))


def _small_pairs(count, free, pairs):
    """Return the pairs with few parameters: each variable can have n - 1 such pairs.

    Each parameter needs 20 rows. No pair is returned if these pairs have more than 2,000
    parameters together.
    """
    n_parameters = free[pairs].prod(axis=1)
    small = (len(free) - 1) * n_parameters <= count / ROWS_PER_PARAMETER
    return pairs[small & (n_parameters[small].sum() <= MAX_PARAMETERS)]


def _dependent_pairs(rows, free, tests, level, max_partners):
    budget = Budget(free, rows.count / ROWS_PER_PARAMETER, max_partners)
    if tests is not None:
        return _select_dependent(tests, len(free), level, budget).edges
    return screen(rows.X, rows.weights, rows.n_states, level=level, budget=budget).edges


def difference(edges, others):
    """Return the edges (rows of ``edges``) that are not in ``others``."""
    excluded = set(map(tuple, others.tolist()))
    kept = [tuple(e) not in excluded for e in edges.tolist()]
    return edges[np.array(kept, dtype=bool)]


def union(edges, others):
    """Return all edges of two arrays, which have no common edge, in lexicographic order."""
    both = np.concatenate([edges, others])
    return both[np.lexsort(both.T[::-1])]
