"""Nodewise regressions (each variable on its neighbours) and tests of edges based on them."""

from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from .._utils.codes import MISSING
from .._utils.parallel import run_blocks
from .regression import CHUNK_ENTRIES, RIDGE, Regression, build_nodes
from .significance import MIN_CELL_COUNT, correct_rare_cells, quadratic_forms

GAMMA = 0.5  # parameter of the extended Bayesian information criterion


@dataclass(frozen=True, eq=False)
class NodeFits:
    r"""Fitted nodewise regressions: each variable is regressed on its neighbours.

    Attributes
    ----------
    form : LogLinearForm
        Parameterisation of the graph.
    theta : dict
        Parameters, shaped like ``form.zeros()``. Those of single variables are from their own
        regressions. Those of an edge are the mean of the regressions of both ends, weighted by
        their precisions, as the two ends can differ in precision (a hub and its leaf). They are
        zero for edges to a variable of one state.
    covariances : list of ndarray of shape (d, d)
        Covariance of the parameters of each edge: the inverse of the mean precision of both
        directions. The covariance of a direction is in sandwich form,
        :math:`H^{-1} (\sum_r w_r g_r g_r^T) H^{-1}`. By the Cauchy-Schwarz inequality the result
        is an upper bound of the covariance of the weighted mean. The bound is tight, as the two
        directions are nearly perfectly correlated. The ridge is part of both factors, like
        additional observations, so directions without information in the data have a large
        variance.
    log_likelihood : ndarray of shape (n_variables,)
        Weighted sum of the log-probabilities of each variable given its neighbours, in nats.
    n_parameters : ndarray of shape (n_variables,)
        Number of parameters of each regression.
    node_parameters : list of ndarray
        Parameters of each regression: of the variable, then of its edges in the order of the
        form.
    """

    form: object
    theta: dict
    covariances: list
    log_likelihood: np.ndarray
    n_parameters: np.ndarray
    node_parameters: list

    def wald(self):
        """Return the Wald statistic and degrees of freedom of each edge, both shaped (n_edges,)."""
        return wald_statistics(
            self.form, self.theta["pairs"], self.covariances
        ), _degrees_of_freedom(self.form)


def wald_statistics(form, parameters, covariances):
    """Return the Wald statistic of each edge; 0 if a variable of the edge has only one state."""
    free, lengths = _degrees_of_freedom(form), np.diff(form.pair_start)
    statistic = np.zeros(len(free))
    for d in np.unique(lengths[free > 0]):
        edges = np.flatnonzero((free > 0) & (lengths == d))
        theta = parameters[form.pair_start[edges][:, None] + np.arange(d)]
        covariance = np.stack([covariances[e] for e in edges])
        statistic[edges] = quadratic_forms(theta, covariance, 0.0)[0]
    return statistic


def fit_nodes(X, weights, form, *, n_jobs=None):
    r"""Fit the regression of each variable on its neighbours.

    For each variable :math:`i`, Newton's method maximises

    .. math:: \sum_r w_r \log p(x_{ri} \mid x_{r, N(i)}; \theta) - 0.005 \lVert \theta \rVert^2,
              \qquad p(x_i \mid x_{N(i)}) \propto \exp \Big( \sum_a u_{ia} k_{ia}(x_i)
              + \sum_{j \in N(i)} \sum_b \theta_{ijb} \, \psi_b(x_i, x_j) \Big).

    The small ridge keeps the parameters finite where the likelihood has no maximum.

    Parameters
    ----------
    X : ndarray of shape (n_rows, n_variables)
        State codes without missing entries.
    weights : ndarray of shape (n_rows,)
        Sample weights: how often each row counts.
    form : LogLinearForm
        Parameterisation of the graph.
    n_jobs : int or None
        Number of threads over variables.

    Returns
    -------
    NodeFits
        Parameters, covariances and log-likelihoods.
    """
    columns = np.ascontiguousarray(X.T)
    nodes = build_nodes(form)
    fits = list(run_blocks(_fit_node, [(node, columns, weights) for node in nodes], n_jobs))
    theta = form.zeros()
    lengths = np.diff(form.pair_start)
    precisions = [np.zeros((d, d)) for d in lengths]
    for node, (own, covariance, _) in zip(nodes, fits, strict=True):
        if form.unary:
            start, stop = form.unary_start[node.variable : node.variable + 2]
            theta["unary"][start:stop] = own[: stop - start]
        for e, part in zip(node.edges, node.edge_slices, strict=True):
            precision = np.linalg.inv(covariance[part, part]) / 2
            theta["pairs"][form.pair_start[e] : form.pair_start[e + 1]] += precision @ own[part]
            precisions[e] += precision
    covariances = [np.linalg.inv(p) if p.any() else p for p in precisions]
    for e, covariance in enumerate(covariances):
        pair = slice(form.pair_start[e], form.pair_start[e + 1])
        theta["pairs"][pair] = covariance @ theta["pairs"][pair]
    return NodeFits(
        form,
        theta,
        covariances,
        np.array([fit[2] for fit in fits]),
        np.array([len(fit[0]) for fit in fits]),
        [fit[0] for fit in fits],
    )


def extended_bic(fits, n_edges, count):
    """Return the extended Bayesian information criterion of fitted nodewise regressions.

    Parameters
    ----------
    fits : NodeFits or MixedFits
        Regressions of all variables on their neighbours.
    n_edges : int
        Number of edges.
    count : float
        Weighted number of rows.

    Returns
    -------
    float
        Criterion in nats; smaller is better. :func:`skmrf.structure.pairwise.ebic` has the formula.
    """
    cost = fits.n_parameters.sum() * np.log(count)
    cost += 4.0 * GAMMA * n_edges * np.log(max(len(fits.n_parameters) - 1, 1))
    return float(cost - 2.0 * np.sum(fits.log_likelihood))


def normalized_accuracy(energy, X, weights):
    r"""Return how well each variable is predicted by its neighbours, shape (n_variables,).

    The measure is the normalised accuracy :math:`(A - A_0) / (1 - A_0)`. The accuracy :math:`A` is
    the share of the rows in which the most probable state given the neighbours occurs, and
    :math:`A_0` is the share of the most frequent state. Rows in which the variable or a neighbour
    is missing are left out.

    Parameters
    ----------
    energy : LogLinearEnergy
        Model of the variables.
    X : ndarray of shape (n_rows, n_variables)
        State codes, MISSING where not observed.
    weights : ndarray of shape (n_rows,)
        Number of times that each row counts.
    """
    out, graph = np.zeros(X.shape[1]), energy.graph
    tables = dict(zip(graph.cliques, graph.log_potentials, strict=True))
    partners = [[] for _ in out]
    for i, j in energy.form.edges.tolist():
        partners[i].append(j)
        partners[j].append(i)
    for i, neighbours in enumerate(partners):
        rows = (X[:, [i, *neighbours]] != MISSING).all(axis=1)
        if not neighbours or not rows.any():
            continue
        states, counted = X[rows], weights[rows]
        logits = np.zeros((int(energy.n_states[i]), len(states)))
        if (i,) in tables:
            logits += tables[i,][:, None]
        for j in neighbours:
            table = tables[i, j] if i < j else tables[j, i].T
            logits += np.take(table, states[:, j], axis=1)
        hits = counted @ (logits.argmax(axis=0) == states[:, i])
        base = np.bincount(states[:, i], counted).max()
        out[i] = max(hits - base, 0.0) / max(counted.sum() - base, 1e-300)
    return out


def likelihood_ratio(fits, X, weights, edges, *, n_jobs=None):
    """Return the likelihood-ratio statistics of the given edges, from nodewise regressions.

    The statistic is twice the log-likelihood that is lost without the edge. Each edge is dropped
    alone, and the other parameters are refitted.

    Parameters
    ----------
    fits : NodeFits
        Fitted regressions.
    X : ndarray of shape (n_rows, n_variables)
        State codes of the training rows of ``fits``.
    weights : ndarray of shape (n_rows,)
        Sample weights of these rows.
    edges : array-like of int
        Indices of the edges to test.
    n_jobs : int or None
        Number of threads over variables.

    Returns
    -------
    statistic : ndarray of shape (len(edges),)
        Mean of the statistics of both ends.
    dof : ndarray of shape (len(edges),)
        Degrees of freedom.
    """
    return _sum_over_ends(_likelihood_losses, fits, X, weights, edges, n_jobs)


def exact_tests(fits, X, weights, edges, *, n_jobs=None):
    """Return exact tests of edges of two-state variables, from nodewise regressions.

    The statistic is that of :func:`~skmrf.structure.significance.correct_rare_cells` in the
    regressions without the edge. If no cell is rare in these regressions, it is the
    likelihood-ratio statistic. Parameters and returns are those of :func:`likelihood_ratio`.
    """
    return _sum_over_ends(_exact_halves, fits, X, weights, edges, n_jobs)


def _sum_over_ends(test, fits, X, weights, edges, n_jobs):
    """Return the sums of the results of a test for both ends of some edges, and the dof."""
    form, edges = fits.form, np.asarray(edges, dtype=np.int64)
    columns = np.ascontiguousarray(X.T)
    is_tested = np.zeros(len(form.edges), dtype=bool)
    is_tested[edges] = True
    nodes = [node for node in build_nodes(form) if is_tested[node.edges].any()]
    tasks = [
        (
            node,
            columns,
            weights,
            is_tested,
            fits.node_parameters[node.variable],
            fits.log_likelihood[node.variable],
        )
        for node in nodes
    ]
    statistic = np.zeros(len(form.edges))
    for node, part in zip(nodes, run_blocks(test, tasks, n_jobs), strict=True):
        statistic[node.edges] += part
    return statistic[edges], _degrees_of_freedom(form)[edges]


def _fit_node(node, columns, weights):
    """Fit a variable's regression; return parameters, covariance and log-likelihood.

    The covariance is estimated by the sandwich formula.
    """
    if node.n_states == 1:
        return np.zeros(0), np.zeros((0, 0)), 0.0
    regression = Regression(node, columns, weights)
    theta, log_likelihood, information = regression.maximise(np.zeros(node.n_parameters))
    inverse = np.linalg.inv(information)
    return theta, inverse @ regression.meat(theta) @ inverse, log_likelihood


def _likelihood_losses(node, columns, weights, is_tested, theta, log_likelihood):
    """Return the log-likelihood lost when one tested edge is dropped; 0 for untested edges."""
    losses = np.zeros(len(node.edges))  # half of the statistic of one end
    for k in np.flatnonzero(is_tested[node.edges]):
        start = np.delete(theta, node.edge_slices[k])
        _, reduced, _ = Regression(node.drop_edge(k), columns, weights).maximise(start)
        losses[k] = max(log_likelihood - reduced, 0.0)
    return losses


def _exact_halves(node, columns, weights, is_tested, theta, log_likelihood):
    """Return half of the statistic of the exact test of each tested edge; 0 for other edges."""
    halves, tested = np.zeros(len(node.edges)), np.flatnonzero(is_tested[node.edges])
    observed, expected = np.empty((2, len(tested), 2, 2))
    for n, k in enumerate(tested):
        reduced, start = node.drop_edge(k), np.delete(theta, node.edge_slices[k])
        start, without, _ = Regression(reduced, columns, weights).maximise(start)
        halves[k] = max(log_likelihood - without, 0.0)
        z = reduced.regressors(columns[reduced.partners])
        counts = weights[:, None] * (columns[node.partners[k]][:, None] == [0, 1])
        observed[n] = (columns[node.variable] == [[0], [1]]) @ counts
        expected[n] = np.exp(reduced.log_probabilities(start, z)) @ counts
    halves[tested] = correct_rare_cells(2.0 * halves[tested], observed, expected) / 2.0
    return halves


def _degrees_of_freedom(form):
    """Return the degrees of freedom of each edge; 0 if one of its variables has only one state."""
    q = form.layout.n_states[form.edges]
    return np.where((q > 1).all(axis=1), np.diff(form.pair_start), 0)


def pseudo_likelihood_covariances(energy, rows):
    r"""Return, for each edge, the covariance matrix of its maximum pseudo-likelihood parameters.

    It is in sandwich form, :math:`H^{-1} (\sum_r w_r g_r g_r^T) H^{-1}`. The gradient :math:`g_r`
    is the sum over all variables of the gradients of :math:`\log p(x_{ri} \mid x_{r, N(i)})`, and
    :math:`H` is the sum over rows and variables of the weighted information. The rows must have no
    missing entries. The ridge of the nodewise regressions is added to both factors.
    """
    form, weights, edges = energy.form, rows.weights, energy.edge_parameters()
    if not len(form.edges):
        return []
    unary = energy.theta.get("unary", np.zeros(0))
    first, size = len(unary), len(unary) + int(form.pair_start[-1])
    columns = np.ascontiguousarray(rows.X.T)
    information, outer = RIDGE * np.eye(size), RIDGE * np.eye(size)
    nodes = [node for node in build_nodes(form) if node.n_states > 1]
    step = max(1, CHUNK_ENTRIES // size)
    for start in range(0, len(weights), step):
        chunk = slice(start, start + step)
        scores = np.zeros((size, len(weights[chunk])))
        for node in nodes:
            places = [np.arange(*(first + form.pair_start[e : e + 2])) for e in node.edges]
            if form.unary:
                places.insert(0, np.arange(*form.unary_start[node.variable : node.variable + 2]))
            places = np.concatenate([np.zeros(0, dtype=int), *places])
            own = unary[places[places < first]]
            theta = np.concatenate([own, *(edges[e] for e in node.edges)])
            gradients, added = node.score_terms(theta, columns[:, chunk], weights[chunk])
            scores[places] += gradients
            information[np.ix_(places, places)] += added
        outer += (scores * weights[chunk]) @ scores.T
    inverse = np.linalg.inv(information)
    covariance = inverse @ outer @ inverse
    bounds = first + form.pair_start
    return [covariance[a:b, a:b] for a, b in pairwise(bounds.tolist())]


def find_empty_cells(form, rows):
    """Return a mask of the edges for which at least one joint state never occurs in the rows."""
    q = form.layout.n_states
    out = np.zeros(len(form.edges), dtype=bool)
    for e, (i, j) in enumerate(form.edges.tolist()):
        joint = rows.X[:, i].astype(np.int64) * q[j] + rows.X[:, j]
        out[e] = (np.bincount(joint, minlength=q[i] * q[j]) == 0).any()
    return out


def find_rare_cells(form, rows):
    """Return a mask of the edges of two-state variables with a joint state of small expected count.

    The expected count is that of independent variables.
    """
    if not form.unary:
        return np.zeros(len(form.edges), dtype=bool)
    counts = [np.bincount(column, rows.weights) for column in rows.X.T]
    rarest = np.array([c.min() if len(c) == 2 else np.inf for c in counts])
    return rarest[form.edges].prod(axis=1) < MIN_CELL_COUNT * rows.count
