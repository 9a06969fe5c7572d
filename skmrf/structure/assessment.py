"""Chi-square tests of all pairs of variables, after the parameters of a graph are learned."""

from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise, product

import numpy as np
from scipy.special import expit

from .._utils.codes import STATE
from .._utils.log_weights import normalized_weights
from .._utils.parallel import run_blocks
from .._utils.warn import warn_caller
from ..energies.log_linear import contrasts, pair_basis
from ..samplers import spawn_generators, sweep
from .nodewise import (
    exact_tests,
    find_empty_cells,
    find_rare_cells,
    likelihood_ratio,
    pseudo_likelihood_covariances,
    wald_statistics,
)
from .regression import (
    RIDGE,
    ChunkedCodes,
    Patterns,
    build_nodes,
    indicator_covariances,
    relative_basis,
    weighted_gram,
)
from .significance import (
    correct_rare_cells,
    edge_probabilities,
    fill_untested,
    is_rare_table,
    log_tail,
    quadratic_forms,
    z_from_chi2,
)

MAX_STATISTICS = 2_000
MAX_ENUMERATED_STATES = 2**14
MIN_DRAWS, DRAWS_PER_STATISTIC = 20_000, 10
N_CHAINS, BURN_IN, THINNING = 1_024, 100, 5

MAX_MULTIPLICATIONS = 1e12  # of all score tests
MAX_UNTESTED_SHARE = 0.25  # of the variables; above it, no pair is tested


@dataclass(frozen=True, eq=False)
class Assessment:
    """Chi-square tests of all pairs of variables: Wald tests of edges, score tests of non-edges.

    Attributes
    ----------
    statistic : ndarray of shape (n_variables, n_variables)
        Symmetric matrix of test statistics; 0 where nothing was tested.
    dof : ndarray of shape (n_variables, n_variables)
        Symmetric matrix of degrees of freedom; 0 where nothing was tested.
    covariances : list of ndarray of shape (d, d)
        Covariance of the parameters of each edge.
    """

    statistic: np.ndarray
    dof: np.ndarray
    covariances: list

    @property
    def log_p(self):
        """Symmetric matrix of the log p-values of all pairs; 0 (p-value 1) for untested pairs."""
        out = np.zeros(self.statistic.shape)
        tested = self.dof > 0
        out[tested] = log_tail(self.statistic[tested], self.dof[tested])
        return out

    @property
    def p(self):
        """P-values of all pairs of variables ``i < j``, in the order of ``numpy.triu_indices``."""
        return np.exp(self.log_p[np.triu_indices(len(self.statistic), 1)])

    @cached_property
    def edge_probabilities(self):
        """Posterior probabilities of edges, of all pairs as in :attr:`p`; 0 for untested pairs."""
        upper = np.triu_indices(len(self.statistic), 1)
        statistic, dof = self.statistic[upper], self.dof[upper]
        z = fill_untested(z_from_chi2(statistic, dof), dof > 0)
        return np.where(dof > 0, edge_probabilities(z), 0.0)


def assess(energy, rows, imputed, fits, rng, n_jobs=None, *, is_likelihood=True):
    """Return Wald tests of the edges of a model that was fitted to the rows.

    Standard errors of maximum likelihood are from the covariance of the sufficient statistics under
    the model. Those of pseudo-likelihood are in sandwich form. With more than 2,000 statistics,
    standard errors are from the regressions of each variable on its neighbours.

    Parameters
    ----------
    energy : LogLinearEnergy
        Estimate.
    rows : Rows
        Training rows, with missing entries.
    imputed : Rows
        The same rows with imputed entries.
    fits : NodeFits
        Nodewise regressions of the same graph on ``imputed``.
    rng : numpy.random.Generator
        Random generator of the chains for the covariance.
    n_jobs : int or None
        Number of threads over variables.
    is_likelihood : bool, default=True
        Whether the estimate maximises the likelihood instead of the pseudo-likelihood.

    Returns
    -------
    Assessment
        Tests of the edges; other pairs are not tested.
    """
    covariances = fits.covariances
    if sum(v.size for v in energy.theta.values()) <= MAX_STATISTICS:
        covariances = (
            parameter_covariances(energy, imputed, rng)
            if is_likelihood
            else pseudo_likelihood_covariances(energy, imputed)
        )
    scale = rows.count / np.maximum(rows.count_observed(energy.form.edges), 1.0)
    covariances = [c * s for c, s in zip(covariances, scale, strict=True)]
    values = wald_statistics(energy.form, energy.theta["pairs"], covariances)
    observed_share = rows.count_observed(energy.form.edges) / rows.count
    return _assess_edges(fits, values, covariances, imputed, observed_share, n_jobs)


def assess_nodes(fits, rows, n_jobs=None):
    """Return Wald tests of the edges, computed from nodewise regressions (``fits``) of the rows."""
    values, _ = fits.wald()
    return _assess_edges(fits, values, fits.covariances, rows, np.ones(len(values)), n_jobs)


def _assess_edges(fits, values, covariances, rows, observed_share, n_jobs):
    """Return a Wald or likelihood-ratio test of each edge, given the Wald statistics.

    Wald tests fail for edges with a joint state that never occurs. These edges get the
    likelihood-ratio test of the conditional likelihoods. Edges of two-state variables with a small
    expected count get an exact test.
    """
    form = fits.form
    is_rare = find_rare_cells(form, rows)
    is_empty = find_empty_cells(form, rows) & ~is_rare
    for mask, test in ((is_empty, likelihood_ratio), (is_rare, exact_tests)):
        if mask.any():
            edges = np.flatnonzero(mask)
            found, _ = test(fits, rows.X, rows.weights, edges, n_jobs=n_jobs)
            values[edges] = found * observed_share[edges]
    n = len(form.layout.n_states)
    i, j = form.edges.T
    statistic, dof = np.zeros((n, n)), np.zeros((n, n), dtype=int)
    statistic[i, j] = statistic[j, i] = values
    dof[i, j] = dof[j, i] = _degrees_of_freedom(form, rows)
    return Assessment(statistic, dof, covariances)


def _degrees_of_freedom(form, rows):
    """Return the degrees of freedom of each edge's test, without states that never occur."""
    if form.statistic == "agreement":
        return np.ones(len(form.edges), dtype=int)
    free = np.array([len(np.unique(column)) - 1 for column in rows.X.T])
    return free[form.edges[:, 0]] * free[form.edges[:, 1]]


def add_score_tests(assessment, fits, rows, n_jobs=None):
    """Return the tests of the edges, extended by score tests of all other pairs.

    Variables whose tests would take too long are left out.
    """
    if len(assessment.statistic) < 2:
        return assessment
    tested = _select_testable_variables(fits.form, len(rows.X))
    if not tested.any():
        return assessment
    statistic, dof = score_tests(fits, rows.X, rows.weights, fits.form, tested, n_jobs=n_jobs)
    return Assessment(
        assessment.statistic + statistic, assessment.dof + dof, assessment.covariances
    )


def _select_testable_variables(form, n_rows):
    """Return a mask of the variables whose pairs get score tests.

    To save time, the variables with the most states are left out.
    """
    q = form.layout.n_states
    free = q - 1.0 if form.statistic == "table" else np.ones(len(q))
    needed = n_rows * (free**2).sum() ** 2
    min_states, tested = int(q.max()) + 1, np.ones(len(q), dtype=bool)
    while n_rows * (free[tested] ** 2).sum() ** 2 > MAX_MULTIPLICATIONS:
        min_states = int(q[tested].max())
        tested = q < min_states
    if (~tested).mean() > MAX_UNTESTED_SHARE:
        min_states, tested = 2, np.zeros(len(q), dtype=bool)
    if not tested.all():
        warn_caller(
            f"Score tests skip columns with {min_states} or more categories, to avoid about "
            f"{needed:.2g} multiplications. Such a column gets no new edge, and its pairs without "
            "an edge have the p-value 1. Merge rare categories, drop columns that identify the "
            'rows, or use statistic="agreement".'
        )
    return tested


def sufficient_statistics(form, X):
    """Return the sufficient statistics of each row; single variables come first, then edges."""
    q = form.layout.n_states
    columns = [contrasts(q[i])[X[:, i]] for i in range(len(form.unary_start) - 1)]
    for i, j in form.edges.tolist():
        columns.append(pair_basis(form.statistic, q[i], q[j])[:, X[:, i], X[:, j]].T)
    return np.hstack(columns)


def fisher_information(energy, rows, rng):
    """Return the Fisher information of one row: the covariance of the sufficient statistics.

    It is a sum over all joint states if these are few. Otherwise it is estimated from Gibbs chains
    that start at the rows.
    """
    if np.prod(energy.n_states.astype(float)) <= MAX_ENUMERATED_STATES:
        X = np.array(list(product(*map(range, energy.n_states))), dtype=STATE)
        p = normalized_weights(energy.log_potential(X), len(X))
        return _covariance([(sufficient_statistics(energy.form, X), p)])
    n_statistics = sum(v.size for v in energy.theta.values())
    n_parts = -(-max(MIN_DRAWS, DRAWS_PER_STATISTIC * n_statistics) // N_CHAINS)
    n_draws = n_parts * N_CHAINS
    equal = np.full(N_CHAINS, 1.0 / N_CHAINS)
    parts = (
        (sufficient_statistics(energy.form, X), equal)
        for X in _sample_chains(energy, rows, n_parts, rng)
    )
    # corrects the bias of the inverse of a sample covariance
    return _covariance(parts) * (n_draws / (n_draws - n_statistics - 1))


def _sample_chains(energy, rows, n_parts, rng):
    """Run Gibbs chains, and yield the states of all chains every few sweeps after the burn-in."""
    p = rows.weights / rows.count
    X = rows.X[rng.choice(len(rows.X), size=N_CHAINS, p=p)]
    generators = spawn_generators(rng, N_CHAINS)
    X, _ = sweep(energy, X, generators, n_sweeps=BURN_IN)
    for _ in range(n_parts):
        X, _ = sweep(energy, X, generators, n_sweeps=THINNING)
        yield X


def _covariance(parts):
    """Return the covariance matrix of statistics, given in batches with a weight for each row."""
    shift, mean, second, n_parts = None, 0.0, 0.0, 0
    for T, weights in parts:
        shift = (
            weights @ T if shift is None else shift
        )  # close to the mean, to reduce rounding errors
        centred = T - shift
        mean = mean + weights @ centred
        second = second + centred.T @ (weights[:, None] * centred)
        n_parts += 1
    return second / n_parts - np.outer(mean, mean) / n_parts**2


def parameter_covariances(energy, rows, rng):
    """Return, for each edge, the covariance matrix of its maximum likelihood parameters.

    The rows must have no missing entries. The ridge of the nodewise regressions is added to the
    information, so directions with little information have a large but finite variance.
    """
    if not len(energy.form.edges):
        return []
    total = rows.count * fisher_information(energy, rows, rng)
    inverse = np.linalg.inv(total + RIDGE * np.eye(len(total)))
    first = energy.form.unary_start[-1]
    bounds = first + energy.form.pair_start
    return [inverse[a:b, a:b] for a, b in pairwise(bounds.tolist())]


MIN_INFORMATION = 0.1  # with less information, the standard error of a parameter is above 3
MAX_PARAMETERS = 500  # of a pair whose covariance matrix is inverted
ROUNDING_SHARE = 1e-8  # information below this share of its total may be rounding


def score_tests(fits, X, weights, form, tested, *, n_jobs=None):
    """Return score (Rao) tests of all pairs of tested variables, except edges.

    The score is that of the nodewise regressions, with their fitted parameters projected out. Its
    variance is the Fisher information of the model.

    Parameters
    ----------
    fits : NodeFits
        Nodewise regressions of the same rows and form.
    X : ndarray of shape (n_rows, n_variables)
        State codes without missing entries.
    weights : ndarray of shape (n_rows,)
        Sample weights: how often each row counts.
    form : LogLinearForm
        Parameterisation of the graph.
    tested : ndarray of bool, shape (n_variables,)
        Mask of the variables to test.
    n_jobs : int or None
        Number of threads over variables.

    Returns
    -------
    statistic : ndarray of shape (n_variables, n_variables)
        Mean of the statistics of both directions, symmetric. 0 at edges, on the diagonal, and
        where one variable is a function of the neighbours of the other.
    dof : ndarray of shape (n_variables, n_variables)
        Degrees of freedom; 0 where nothing is tested.
    """
    score = _two_state_scores if (form.layout.n_states <= 2).all() else _table_scores
    tested = tested & (form.layout.n_states > 1)
    return _symmetrise(form, score(fits, X, weights, form, tested, n_jobs))


def _two_state_scores(fits, X, weights, form, tested, n_jobs):
    """Return score statistics and degrees of freedom of all pairs of two-state variables.

    Row i is from the regression of variable i. The states of the other variable are coded as -1
    and 1, so each sum over rows is a matrix product.
    """
    columns = np.ascontiguousarray(X.T)
    signs = ChunkedCodes.from_binary(X)
    totals = columns @ weights

    def test_node(node, theta):
        if not tested[node.variable]:
            return np.zeros(len(tested)), np.zeros(len(tested), dtype=np.int64)
        loadings = node.loadings[:, 0]
        sums, ones, total, cross = 0.0, 0.0, 0.0, 0.0
        information = RIDGE * np.eye(len(theta))
        for rows, s in signs.iter_chunks():
            z = node.regressors(columns[node.partners, rows])
            p = expit(theta @ loadings @ z)
            w = weights[rows]
            scaled = z * (w * p * (1 - p))
            states = w * np.stack([columns[node.variable, rows], p])
            sums, ones = sums + states @ s, ones + states.sum(axis=1)
            total += w @ (p * (1 - p))
            cross += loadings @ (scaled @ s)
            information += loadings @ (scaled @ z.T) @ loadings.T
        remaining = total - (cross * np.linalg.solve(information, cross)).sum(axis=0)
        testable = tested & (remaining > MIN_INFORMATION + ROUNDING_SHARE * total)
        statistic = np.where(testable, (sums[0] - sums[1]) ** 2, 0.0)
        statistic /= np.where(testable, remaining, 1.0)
        if form.unary:
            both = (sums + ones[:, None]) / 2
            observed, expected = _two_state_tables(both, ones[:, None], totals, weights.sum())
            statistic = correct_rare_cells(statistic, observed, expected)
            testable |= tested & is_rare_table(observed, expected)
        return np.where(testable, statistic, 0.0), testable.astype(int)

    return _test_all_nodes(test_node, fits, form, n_jobs)


def _two_state_tables(both, left, right, total):
    """Return tables of counts, from those of state 1 of both variables and of each of them."""
    left, right = np.broadcast_arrays(left, right)
    tables = [total - left - right + both, right - both, left - both, both]
    return np.stack(tables, axis=-1).reshape(*both.shape, 2, 2)


def _table_scores(fits, X, weights, form, tested, n_jobs):
    """Return score statistics and degrees of freedom of all pairs; any numbers of states."""
    columns = np.ascontiguousarray(X.T)
    q = form.layout.n_states
    start = np.concatenate([[0], np.cumsum(np.where(tested, q, 0))])
    has_tables = form.statistic == "table" and form.unary

    def test_node(node, theta):
        statistic, rank = np.zeros(len(q)), np.zeros(len(q), dtype=np.int64)
        if not tested[node.variable]:
            return statistic, rank
        sums = _StateSums(node, theta, Patterns(node, columns), weights, start)
        is_neighbour = np.zeros(len(q), bool)
        is_neighbour[[node.variable, *node.partners]] = True
        for q_j in np.unique(q[tested & ~is_neighbour]).tolist():
            partners = np.flatnonzero(tested & (q == q_j) & ~is_neighbour)
            entries = start[partners][:, None] + np.arange(q_j)
            if has_tables and (node.n_states - 1) * (q_j - 1) > MAX_PARAMETERS:
                statistic[partners], rank[partners] = sums.large_tests(entries)
                continue
            basis = relative_basis(form.statistic, node.n_states, q_j, True)
            statistic[partners], rank[partners] = sums.tests(entries, basis)
            if has_tables:
                tables = sums.tables(entries)
                statistic[partners] = correct_rare_cells(statistic[partners], *tables)
                if node.n_states == q_j == 2:
                    rank[partners] |= is_rare_table(*tables)
        return statistic, rank

    return _test_all_nodes(test_node, fits, form, n_jobs)


class _StateSums:
    """Sums over rows for the score tests of one variable with each state of each other variable."""

    def __init__(self, node, theta, patterns, weights, start):
        p, k, m = node.loadings.shape
        n_columns = start[-1]
        loadings = node.loadings.reshape(p, k * m)
        state_weights = _state_weights(patterns.states, k + 1, patterns.columns, weights, start)
        self.observed, self.second = state_weights, np.zeros((k * k, n_columns))
        self.expected = np.zeros((k + 1, n_columns))
        cross = np.zeros((k * m, k * n_columns))
        information = np.zeros((k * m, k * m))
        counts, order = patterns.counts(weights).sum(axis=0), np.argsort(patterns.inverse)
        ends = np.searchsorted(patterns.inverse[order], np.arange(len(patterns) + 1))
        encoded = ChunkedCodes(patterns.regressors, len(patterns), n_columns + 2 * m + (k + 1) ** 2)
        for chunk, z in encoded.iter_chunks():
            rows = order[ends[chunk.start] : ends[chunk.stop]]
            groups = patterns.inverse[rows] - chunk.start
            columns = (column[rows] for column in patterns.columns)
            state_weights = _state_weights(groups, z.shape[1], columns, weights[rows], start)
            probabilities = np.exp(node.log_probabilities(theta, z))
            covariances = indicator_covariances(probabilities[1:], 1.0)
            self.expected += probabilities @ state_weights
            self.second += covariances.reshape(k * k, -1) @ state_weights
            cross += weighted_gram(covariances, z, state_weights).reshape(cross.shape)
            information += weighted_gram(covariances * counts[chunk], z, z.T).reshape(
                information.shape
            )
        self.score = (self.observed - self.expected)[1:]
        self.second = self.second.reshape(k, k, n_columns)
        self.cross = (loadings @ cross).reshape(p, k, n_columns)
        self.information = RIDGE * np.eye(p) + loadings @ information @ loadings.T

    def tables(self, entries):
        """Return the observed and the expected tables with several other variables."""
        return [table[:, entries].transpose(1, 0, 2) for table in (self.observed, self.expected)]

    def tests(self, entries, basis):
        """Return score statistics and degrees of freedom of pairs with several other variables."""
        score = np.tensordot(self.score[:, entries], basis, axes=((0, 2), (1, 2)))
        cross = np.tensordot(self.cross[:, :, entries], basis, axes=((1, 3), (1, 2)))
        p, n, d = cross.shape
        solved = np.linalg.solve(self.information, cross.reshape(p, n * d)).reshape(cross.shape)
        explained = np.matmul(cross.transpose(1, 2, 0), solved.transpose(1, 0, 2))
        second = self.second[:, :, entries].transpose(3, 0, 1, 2)  # one matrix product per state
        half = np.matmul(basis.transpose(2, 0, 1), second.reshape(*second.shape[:2], -1))
        half = half.reshape(len(half), d, -1, n)
        total = np.tensordot(half, basis, axes=((0, 2), (2, 1))).transpose(1, 0, 2)
        remaining = total - explained
        largest = np.trace(total, axis1=1, axis2=2)
        return quadratic_forms(score, remaining, MIN_INFORMATION + ROUNDING_SHARE * largest)

    def large_tests(self, entries):
        """Return conservative statistics of pairs with many parameters, and degrees of freedom.

        Without neighbours, the statistic is Pearson's. With neighbours, it is at most the score
        statistic, because the variance includes the part that fitted parameters explain.
        """
        k, (n, q_j) = len(self.score), entries.shape
        score = self.score[:, entries].transpose(1, 2, 0).reshape(-1, k)
        second = self.second[:, :, entries].transpose(2, 3, 0, 1).reshape(-1, k, k)
        floor = MIN_INFORMATION + ROUNDING_SHARE * np.trace(second, axis1=1, axis2=2)
        statistic, dof = quadratic_forms(score, second, floor)
        statistic, dof = (part.reshape(n, q_j).sum(axis=1) for part in (statistic, dof))
        return np.where(dof > k, statistic, 0.0), np.maximum(dof - k, 0)


def _state_weights(groups, n_groups, columns, weights, start):
    """Return, for each group of rows, the total weight of each state of each variable."""
    out = np.empty((n_groups, start[-1]))
    for column, (a, b) in zip(columns, pairwise(start.tolist()), strict=True):
        if a == b:
            continue
        cells = groups * (b - a) + column
        counts = np.bincount(cells, weights, minlength=n_groups * (b - a))
        out[:, a:b] = counts.reshape(n_groups, b - a)
    return out


def _test_all_nodes(test_node, fits, form, n_jobs):
    tasks = list(zip(build_nodes(form), fits.node_parameters, strict=True))
    results = list(run_blocks(test_node, tasks, n_jobs))
    return np.stack([r[0] for r in results]), np.stack([r[1] for r in results])


def _symmetrise(form, directed):
    """Average the score statistics of both directions of each pair; use the larger dof."""
    statistic, dof = (directed[0] + directed[0].T) / 2, np.maximum(directed[1], directed[1].T)
    for values in (statistic, dof):
        values[form.edges[:, 0], form.edges[:, 1]] = 0
        values[form.edges[:, 1], form.edges[:, 0]] = 0
        np.fill_diagonal(values, 0)
    return statistic, dof
