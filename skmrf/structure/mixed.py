"""Pairwise model of mixed columns: rows, nodewise regressions of a graph, tests of all pairs."""

from dataclasses import dataclass, fields
from functools import cached_property

import numpy as np
from scipy.special import gammaln

from .._utils.codes import MISSING
from .._utils.parallel import run_blocks
from .assessment import Assessment
from .mixed_nodes import assess_neighbours, assess_others, draw, fit_node, is_large
from .penalised import MixedPath
from .regression import N_PAIRS, RIDGE, log_probabilities
from .rows import Columns, Design, WeightedRows, coincidence_probability, relabel_states
from .screening import candidate_pairs, dependence_tests
from .search import GraphModel
from .significance import z_from_chi2

N_IMPUTATIONS = 8
IMPUTATION_SWEEPS = 3
N_MATRICES = 4  # matrices of shape (n_parameters, n_parameters) held at once for a column


@dataclass(frozen=True, eq=False)
class MixedRows(WeightedRows):
    """Training rows of numbers and state codes, with sample weights.

    Attributes
    ----------
    X : ndarray of float of shape (n_rows, n_variables)
        Standardised numbers and state codes, nan where not observed.
    weights : ndarray of shape (n_rows,)
        Positive sample weights; a row of weight 2 counts as two equal rows.
    n_states : ndarray of shape (n_variables,)
        Number of states of each variable, 0 for numeric variables.
    shares : ndarray of shape (n_variables, n_variables), optional
        For imputed rows, the share of the rows that observe both variables of each pair.
    """

    X: np.ndarray
    weights: np.ndarray
    n_states: np.ndarray
    shares: np.ndarray | None = None

    def __getstate__(self):
        """Return the state for pickling, without cached results."""
        return {f.name: getattr(self, f.name) for f in fields(self)}

    @cached_property
    def design(self):
        """Regressors of complete rows."""
        return Design.from_rows(self.X, self.weights, self.n_states)

    @cached_property
    def fitted_nodes(self):
        """Regressions that were fitted to the rows, by variable and neighbours."""
        return {}

    @cached_property
    def known_tests(self):
        """Tests that were computed for these regressions, by variable, neighbours and kind."""
        return {}

    @classmethod
    def from_codes(cls, rows, imputed):
        """Create imputed rows from state codes with missing entries, and imputed state codes."""
        shares = rows._observed_pair_counts / rows.count if rows.has_missing else None
        return cls(imputed.X.astype(float), imputed.weights, imputed.n_states, shares)

    def impute(self, fits, start, rng):
        """Return complete rows, with missing entries drawn from their conditional distributions.

        Parameters
        ----------
        fits : MixedFits or None
            Regressions of all variables. None draws from the observed entries of each column.
        start : MixedRows
            Complete rows, at which Gibbs chains start; not used without ``fits``.
        rng : numpy.random.Generator
            Random generator.

        Returns
        -------
        MixedRows
            Complete rows.
        """
        if not self.has_missing:
            return self
        if fits is None:
            return self._replace_missing([self._draw_observed(j, rng) for j in self._incomplete])
        design = Design.from_rows(start.X, self.weights, self.n_states, fits.form.codes)
        drawn = {j: start.X[~self.observed[:, j], j] for j in self._incomplete}
        varying = [j for j in self._incomplete if design.sizes[j]]
        for _ in range(IMPUTATION_SWEEPS):
            for j in varying:
                rows = np.flatnonzero(~self.observed[:, j])
                drawn[j] = draw(design, fits.nodes[j], rows, rng)
                design.replace(j, rows, drawn[j])
        return self._replace_missing(list(drawn.values()))

    @cached_property
    def _incomplete(self):
        return np.flatnonzero(~self.observed.all(axis=0)).tolist()

    def _draw_observed(self, j, rng):
        known = self.observed[:, j]
        if not known.any():  # possible in a bootstrap sample
            return np.zeros(len(known))
        p = self.weights[known] / self.weights[known].sum()
        return rng.choice(self.X[known, j], size=(~known).sum(), p=p)

    def _replace_missing(self, drawn):
        X = self.X.copy()
        for j, values in zip(self._incomplete, drawn, strict=True):
            X[~self.observed[:, j], j] = values
        shares = self._observed_pair_counts / self.count
        return MixedRows(X, self.weights, self.n_states, shares)


def find_columns(rows):
    """Return the columns of the search: not constant, and no duplicates, as :class:`Columns`.

    Two numeric columns are duplicates if one is a monotone function of the other.
    """
    keyed = []
    for j, (x, q) in enumerate(zip(rows.X.T, rows.n_states.tolist(), strict=True)):
        observed = ~np.isnan(x)
        ranks = np.full(len(x), MISSING, dtype=np.int32)
        ranks[observed] = np.unique(x[observed], return_inverse=True)[1]
        if ranks.max() < 1:
            continue
        if q:
            keyed.append((j, relabel_states(ranks), coincidence_probability))
        else:
            reverse = np.where(observed, ranks.max() - ranks, MISSING).astype(np.int32)
            keyed.append((j, min(ranks, reverse, key=np.ndarray.tobytes), _rank_coincidence))
    return Columns.from_keys(keyed, rows.X.shape[1], rows.weights)


def _rank_coincidence(ranks, weights):
    """Return the probability that a random permutation keeps or reverses the ranks of a column."""
    observed = ranks != MISSING
    counts = np.bincount(ranks[observed], weights[observed])
    return float(2.0 * np.exp(gammaln(counts + 1.0).sum() - gammaln(counts.sum() + 1.0)))


@dataclass(frozen=True, eq=False)
class MixedForm:
    """Graph of mixed variables, and the codes of its categorical variables.

    Attributes
    ----------
    edges : ndarray of int of shape (n_edges, 2)
        Pairs of variables ``i < j``.
    sizes : ndarray of int of shape (n_variables,)
        Number of regressors of each variable. An edge has as many parameters as the product of the
        sizes of its ends.
    codes : list of ndarray of shape (n_states, n_codes)
        Codes of each categorical variable; n_states is 0 for numeric variables.
    """

    edges: np.ndarray
    sizes: np.ndarray
    codes: list

    @property
    def is_number(self):
        """Mask of the numeric variables, shape (n_variables,)."""
        return np.array([len(codes) == 0 for codes in self.codes], dtype=bool)


@dataclass(frozen=True, eq=False)
class MixedFits:
    """Fitted regressions of all variables of a graph on their neighbours.

    Attributes
    ----------
    form : MixedForm
        Graph and codes.
    nodes : list of NodeFit
        Regression of each variable.
    theta : list of ndarray of shape (size_i, size_j)
        Natural parameters of each edge: the mean of the regressions of both ends, weighted by their
        precisions.
    covariances : list of ndarray of shape (size_i * size_j, size_i * size_j)
        Covariance of the parameters of each edge: the inverse of the mean precision of both ends.
        If one end has no covariance, it is that of the other end. If both have none, the array has
        the shape of the interaction and holds the variances of its entries.
    """

    form: MixedForm
    nodes: list
    theta: list
    covariances: list

    @classmethod
    def from_nodes(cls, form, nodes):
        """Combine the regressions of both ends of each edge."""
        theta, covariances = [], []
        for i, j in form.edges.tolist():
            values, covariance = _combine_ends(form, nodes, i, j)
            theta.append(values)
            covariances.append(covariance)
        return cls(form, nodes, theta, covariances)

    @property
    def log_likelihood(self):
        """Sum of the log conditional likelihoods of each variable, in nats."""
        return np.array([node.log_likelihood for node in self.nodes])

    @property
    def n_parameters(self):
        """Number of parameters of each regression, with the variance of numeric variables."""
        sizes = np.array([node.parameters.size for node in self.nodes], dtype=int)
        return sizes + self.form.is_number

    @property
    def predictability(self):
        """Predictability of each variable by its neighbours."""
        return np.array([node.predictability for node in self.nodes])

    def tables(self):
        """Return the interaction of each edge, in units of conditional standard deviations.

        The interaction of two numbers is their partial correlation. The interaction of a number
        and a category has shape (n_states,), and that of two categories has shape
        (n_states_i, n_states_j). They are centred.
        """
        return [self._expand(e, theta[None])[0] for e, theta in enumerate(self.theta)]

    def table_variances(self, covariances):
        """Return the variance of each entry of the interactions, given those of the parameters."""
        out = []
        for e, (theta, covariance) in enumerate(zip(self.theta, covariances, strict=True)):
            if covariance.shape != 2 * (theta.size,):
                out.append(covariance)
                continue
            basis = self._expand(e, np.eye(theta.size).reshape(-1, *theta.shape))
            out.append((basis * np.tensordot(covariance, basis, 1)).sum(axis=0))
        return out

    def strengths(self):
        """Return the norm of the interaction of each edge, shape (n_edges,)."""
        return np.array([np.linalg.norm(table) for table in self.tables()])

    def score(self, rows):
        """Return the pseudo-log-likelihood of complete rows, shape (n_rows,), in nats."""
        design = Design.from_rows(rows.X, rows.weights, rows.n_states, self.form.codes)
        return sum(
            (_log_likelihoods(design, node) for node in self.nodes if node.parameters.shape[1]),
            np.zeros(len(rows.X)),
        )

    def _expand(self, e, theta):
        """Convert natural parameters of an edge, one array per row, to interactions."""
        is_number = self.form.is_number[self.form.edges[e]]
        for axis, variable in enumerate(self.form.edges[e].tolist(), start=1):
            codes = self.form.codes[variable]
            if is_number[axis - 1]:
                theta = theta * np.sqrt(self.nodes[variable].variance)
            else:
                theta = np.moveaxis(np.tensordot(theta, codes, (axis, 1)), -1, axis)
                theta = theta - theta.mean(axis=axis, keepdims=True)
        return theta.squeeze(tuple(1 + k for k in range(2) if is_number[k]))


def _log_likelihoods(design, fit):
    """Return the log conditional probability or density of a variable in each row, in nats."""
    linear = design.values[:, fit.columns] @ fit.parameters
    if design.is_number(fit.variable):
        values = design.values[:, design.start[fit.variable]]
        residuals = values - fit.variance * linear[:, 0]
        return -0.5 * (residuals**2 / fit.variance + np.log(2 * np.pi * fit.variance))
    log_p = log_probabilities(linear, design.codes[fit.variable])
    return log_p[np.arange(len(log_p)), design.states[fit.variable]]


def _combine_ends(form, nodes, i, j):
    """Return the parameters of an edge and their covariance, from the regressions of both ends."""
    shape = form.sizes[i], form.sizes[j]
    order = np.arange(shape[0] * shape[1]).reshape(shape[::-1]).T.ravel()
    ends = _edge_block(form, nodes[i], j), _edge_block(form, nodes[j], i)
    values = ends[0][0][order], ends[1][0]
    covariances = [None if ends[0][1] is None else ends[0][1][np.ix_(order, order)], ends[1][1]]
    known = [end for end in zip(values, covariances, strict=True) if end[1] is not None]
    if not known:
        counts = [
            node.expected[node.partners.index(k)] for node, k in ((nodes[i], j), (nodes[j], i))
        ]
        return np.mean(values, axis=0).reshape(shape), _cell_variances(
            (counts[0].T + counts[1]) / 2
        )
    if len(known) == 1:
        return known[0][0].reshape(shape), known[0][1]
    precisions = [np.linalg.inv(covariance) / 2 for covariance in covariances]
    covariance = np.linalg.inv(precisions[0] + precisions[1])
    mean = covariance @ (precisions[0] @ values[0] + precisions[1] @ values[1])
    return mean.reshape(shape), covariance


def _edge_block(form, node, partner):
    """Return parameters and covariance of one neighbour in the regression of a variable."""
    part = node.partner_slices(form.sizes)[node.partners.index(partner)]
    k = node.parameters.shape[1]
    block = slice(part.start * k, part.stop * k)
    covariance = node.covariance
    return node.parameters[part].ravel(), None if covariance is None else covariance[block, block]


def _cell_variances(expected):
    """Return the variances of a centred table of log counts, given the expected counts."""
    occurs = np.outer(expected.sum(axis=1) > 0, expected.sum(axis=0) > 0)
    variances = np.where(occurs, 1.0 / (expected + RIDGE / expected.size), 0.0)
    left, right = (np.eye(q) - 1.0 / q for q in expected.shape)
    return left**2 @ variances @ right**2


class RegressionTests:
    """Tests of a graph by the regressions of its variables."""

    def assess(self, energy, rows, imputed, fits, estimation):
        """Return tests of the edges."""
        return assess_graph(imputed, fits)

    def assess_pairs(self, rows, edges, n_jobs):
        """Fit the regressions of a graph, and return the tests of all pairs."""
        return assess_graph(rows, fit_graph(rows, edges, n_jobs), others=True)


@dataclass(frozen=True)
class MixedModel(RegressionTests, GraphModel):
    """Settings of a pairwise model of mixed columns.

    Attributes
    ----------
    screen : "auto", None or float
        Candidate pairs: all pairs (None), the pairs that tests of independence find at this
        false discovery rate (float), or a choice by the number of rows ("auto").
    max_bytes : float
        Memory limit of the regression of a variable, in bytes.
    """

    screen: str | float | None = "auto"
    max_bytes: float = 4 * 2**30

    def candidates(self, rows):
        """Return the candidate pairs of the search, shape (n_pairs, 2)."""
        free = np.maximum(rows.design.sizes, 1.0)
        return candidate_pairs(rows, self.screen, free, dependence_tests(rows))

    def fit(self, rows, edges, estimation, previous=None):
        """Fit the regressions of a graph; return them twice, with imputed rows between them."""
        estimation.reports.begin()
        check_memory(rows.design, edges, self.max_bytes)
        imputed = rows.impute(None, None, estimation.rng)
        if previous is not None:
            imputed = rows.impute(previous, imputed, estimation.rng)
        fits = fit_graph(imputed, edges, estimation.n_jobs)
        for _ in range(N_IMPUTATIONS if rows.has_missing else 0):
            imputed = rows.impute(fits, imputed, estimation.rng)
            fits = fit_graph(imputed, edges, estimation.n_jobs)
        estimation.n_iter += 1
        estimation.stopped |= bool(estimation.reports.end(fits))
        return fits, imputed, fits

    def add_score_tests(self, tests, fits, rows, n_jobs):
        """Return the tests of the edges, extended by score tests of all other pairs."""
        return assess_graph(rows, fits, others=True)

    def penalised_path(self, rows, edges, penalty, estimation):
        """Return the penalised estimates of the candidate pairs, as a :class:`MixedPath`."""
        rows = rows.impute(None, None, estimation.rng)
        return MixedPath(rows, edges, penalty, fit_graph)


def check_memory(design, edges, max_bytes):
    """Raise a ValueError if the regression of a variable needs too much memory."""
    ends, added = edges.ravel(), design.sizes[edges[:, ::-1].ravel()]
    n_columns = 1.0 + np.bincount(ends, added, minlength=len(design.sizes))
    largest = np.zeros(len(n_columns))
    np.maximum.at(largest, ends, added)
    n_parameters = n_columns * design.sizes
    n_entries = n_parameters**2
    for j in range(len(n_entries)):
        if is_large(design, j, n_columns[j], largest[j]):
            n_entries[j] = 2 * N_PAIRS * n_parameters[j] + len(design.values) * design.sizes[j]
    needed = 8.0 * N_MATRICES * n_entries.max(initial=0.0)
    n_parameters = n_parameters[n_entries.argmax()] if len(n_entries) else 0.0
    if needed > max_bytes:
        raise ValueError(
            f"The edges of one column have {n_parameters:.0f} parameters, whose estimation "
            f"takes about {needed:.3g} bytes, more than max_bytes={max_bytes:.3g}. Set "
            "screen to a number, merge rare categories, or increase max_bytes."
        )


def fit_graph(rows, edges, n_jobs):
    """Fit the regressions of all variables of a graph to complete rows.

    Regressions that were fitted to the same rows before are not fitted again.

    Parameters
    ----------
    rows : MixedRows
        Rows without missing entries.
    edges : ndarray of shape (n_edges, 2)
        Edges of the graph.
    n_jobs : int or None
        Number of threads over variables.

    Returns
    -------
    MixedFits
        Regressions, and the parameters of the edges.
    """
    design, known = rows.design, rows.fitted_nodes
    partners = [[] for _ in design.sizes]
    for i, j in edges.tolist():
        partners[i].append(j)
        partners[j].append(i)
    keys = [(i, tuple(sorted(found))) for i, found in enumerate(partners)]
    new = [key for key in keys if key not in known]
    design.gram  # noqa: B018  computed once, before the threads need it
    fits = run_blocks(fit_node, [(design, *key) for key in new], n_jobs)
    known.update(zip(new, fits, strict=True))
    form = MixedForm(edges, design.sizes, design.codes)
    return MixedFits.from_nodes(form, [known[key] for key in keys])


def assess_graph(rows, fits, others=False):
    """Return the tests of all edges of a graph, and of all other pairs if ``others``.

    A pair is tested in the regressions of both of its variables. Its statistic is the square of the
    mean of the roots of both. Its p-value is valid if both regressions have all neighbours of their
    variables.

    Parameters
    ----------
    rows : MixedRows
        Complete rows, to which the regressions were fitted.
    fits : MixedFits
        Regressions of all variables.
    others : bool, default=False
        Whether to test pairs without an edge.

    Returns
    -------
    Assessment
        Tests of the pairs. For imputed rows, the statistics are multiplied by the share of the
        rows that observe both variables.
    """
    tests, n = [_node_tests(rows, node, others) for node in fits.nodes], len(fits.nodes)
    statistic, dof = np.array(tests).reshape(n, 2, n).transpose(1, 0, 2)
    statistic, dof = _combine_directions(statistic, dof)
    covariances = fits.covariances
    if rows.shares is not None:
        statistic = statistic * rows.shares
        shares = np.maximum(rows.shares[tuple(fits.form.edges.T)], 1e-12)
        covariances = [c / share for c, share in zip(covariances, shares, strict=True)]
    return Assessment(statistic, dof, covariances)


def _node_tests(rows, node, others):
    """Return statistics and degrees of freedom of the pairs of one variable, shape (2, n).

    Tests of the same regression of the same rows are computed once.
    """
    design, known = rows.design, rows.known_tests
    key = node.variable, node.partners
    if (key, others) not in known:
        tests = np.zeros((2, len(design.sizes)))
        if others:
            tests += assess_others(design, node)
            tests[:, list(node.partners)] = _node_tests(rows, node, False)[:, list(node.partners)]
        elif node.partners:
            tests[:, list(node.partners)] = assess_neighbours(design, node, rows.fitted_nodes)
        known[key, others] = tests
    return known[key, others]


def _combine_directions(statistic, dof):
    """Return symmetric test statistics and degrees of freedom of pairs, shape (n, n).

    Entry (i, j) is the test of variable j in the regression of variable i. The result is the square
    of the mean of the roots of both statistics. If both are the squares of normal variables, the
    root of the result exceeds a critical value above 1 at most as often as the absolute value of
    a normal variable, whatever their correlation. If the degrees of freedom differ, both statistics
    are first replaced by those of one degree of freedom with the same p-values. A pair that has no
    test in one of the regressions has none.
    """
    is_tested = (dof > 0) & (dof.T > 0)
    differs = is_tested & (dof != dof.T)
    statistic = np.where(is_tested, statistic, 0.0)
    statistic[differs] = z_from_chi2(statistic[differs], dof[differs]) ** 2
    dof = np.where(differs, 1.0, np.where(is_tested, dof, 0.0))
    return ((np.sqrt(statistic) + np.sqrt(statistic.T)) / 2) ** 2, dof
