"""Regressions of every variable on its neighbours, and tests of edges from them."""

from dataclasses import dataclass

import numpy as np

from .._utils.parallel import run_blocks
from .chi2_tail import quadratic_forms
from .regression import Regression, nodes_of


@dataclass(frozen=True, eq=False)
class NodeFits:
    """Every variable given its neighbours.

    Attributes
    ----------
    form : LogLinearForm
    theta : dict
        Shaped like ``form.zeros()``: of single variables from their own regressions, of edges the
        mean of the regressions of both ends, weighted by their precisions (the leaf of a hub
        knows more of their edge than the hub); zero for edges to a variable of one state.
    covariances : list of ndarray of shape (d, d)
        Of the parameters of every edge: the inverse of the mean precision of both directions,
        whose covariances are in sandwich form,
        :math:`H^{-1} (\\sum_r w_r g_r g_r^T) H^{-1}`. By the inequality of
        Cauchy and Schwarz it is an upper bound of the covariance of the weighted mean, and as
        the two are nearly perfectly correlated it is close to it. The ridge counts in
        both factors as the observations that it stands for, so directions that the data say
        nothing of have a large variance.
    log_likelihood : ndarray of shape (n_variables,)
        Weighted sum of the log-probabilities of a variable given its neighbours, nats.
    n_parameters : ndarray of shape (n_variables,)
    own : list of ndarray
        Parameters of every regression: of the variable, then of its edges in the order of the form.
    """

    form: object
    theta: dict
    covariances: list
    log_likelihood: np.ndarray
    n_parameters: np.ndarray
    own: list

    def wald(self):
        """Wald statistics of the edges and their degrees of freedom, both of shape (n_edges,)."""
        return wald_statistics(self.form, self.theta["pairs"], self.covariances), _free(self.form)


def wald_statistics(form, parameters, covariances):
    """Quadratic forms of the parameters of every edge, with the inverse of their covariance.

    0 for edges to a variable of one state.
    """
    free, lengths = _free(form), np.diff(form.pair_start)
    statistic = np.zeros(len(free))
    for d in np.unique(lengths[free > 0]):
        which = np.flatnonzero((free > 0) & (lengths == d))
        theta = parameters[form.pair_start[which][:, None] + np.arange(d)]
        covariance = np.stack([covariances[e] for e in which])
        statistic[which] = quadratic_forms(theta, covariance, 0.0)[0]
    return statistic


def fit_nodes(X, weights, form, *, n_jobs=None):
    r"""Fit every variable given its neighbours.

    Maximises, for every variable :math:`i` by itself and by Newton's method,

    .. math:: \sum_r w_r \log p(x_{ri} \mid x_{r, N(i)}; \theta) - 0.005 \lVert \theta \rVert^2,
              \qquad p(x_i \mid x_{N(i)}) \propto \exp \Big( \sum_a u_{ia} k_{ia}(x_i)
              + \sum_{j \in N(i)} \sum_b \theta_{ijb} \, \psi_b(x_i, x_j) \Big).

    The small ridge keeps the parameters finite where the likelihood has no maximum.

    Parameters
    ----------
    X : ndarray of shape (n_rows, n_variables)
        State codes, nothing missing.
    weights : ndarray of shape (n_rows,)
        How often a row counts.
    form : LogLinearForm
    n_jobs : int or None
        Threads over variables.

    Returns
    -------
    NodeFits
    """
    columns = np.ascontiguousarray(X.T)
    nodes = nodes_of(form)
    fits = list(run_blocks(_fit, [(node, columns, weights) for node in nodes], n_jobs))
    theta = form.zeros()
    lengths = np.diff(form.pair_start)
    precisions = [np.zeros((d, d)) for d in lengths]
    for node, (own, covariance, _) in zip(nodes, fits, strict=True):
        if form.unary:
            start, stop = form.unary_start[node.variable : node.variable + 2]
            theta["unary"][start:stop] = own[: stop - start]
        for e, part in zip(node.edges, node.parts, strict=True):
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


def likelihood_ratio(fits, X, weights, which, *, n_jobs=None):
    """Twice the log-likelihood that is lost where an edge is dropped from the regressions.

    Each edge is dropped alone, and the other parameters are fitted again.

    Parameters
    ----------
    fits : NodeFits
    X : ndarray of shape (n_rows, n_variables)
        State codes of the rows fitted to.
    weights : ndarray of shape (n_rows,)
    which : array-like of int
        Numbers of the edges.
    n_jobs : int or None

    Returns
    -------
    statistic : ndarray of shape (len(which),)
        Mean of both ends.
    dof : ndarray of shape (len(which),)
    """
    form, which = fits.form, np.asarray(which, dtype=np.int64)
    columns = np.ascontiguousarray(X.T)
    asked = np.zeros(len(form.edges), dtype=bool)
    asked[which] = True
    nodes = [node for node in nodes_of(form) if asked[node.edges].any()]
    tasks = [
        (node, columns, weights, asked, fits.own[node.variable], fits.log_likelihood[node.variable])
        for node in nodes
    ]
    statistic = np.zeros(len(form.edges))
    for node, loss in zip(nodes, run_blocks(_losses, tasks, n_jobs), strict=True):
        statistic[node.edges] += loss  # twice the loss, and half of it from each end
    return statistic[which], _free(form)[which]


def _fit(node, columns, weights):
    """Parameters, their sandwich covariance and the log-likelihood."""
    if node.n_states == 1:
        return np.zeros(0), np.zeros((0, 0)), 0.0
    regression = Regression(node, columns, weights)
    theta, log_likelihood, information = regression.maximise(np.zeros(node.n_parameters))
    inverse = np.linalg.inv(information)
    return theta, inverse @ regression.meat(theta) @ inverse, log_likelihood


def _losses(node, columns, weights, asked, theta, log_likelihood):
    """Log-likelihood lost by every edge that is asked for, 0 for the others."""
    losses = np.zeros(len(node.edges))
    for k in np.flatnonzero(asked[node.edges]):
        start = np.delete(theta, node.parts[k])
        _, less, _ = Regression(node.without(k), columns, weights).maximise(start)
        losses[k] = max(log_likelihood - less, 0.0)
    return losses


def _free(form):
    """Degrees of freedom of every edge."""
    q = form.layout.n_states[form.edges]
    return np.where((q > 1).all(axis=1), np.diff(form.pair_start), 0)
