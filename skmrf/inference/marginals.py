"""Marginals of a question's model by each method."""

import numpy as np

from .._utils.log_weights import log_mean_exp, normalized_weights
from .._utils.parameters import check_number
from .._utils.phases import States
from .._utils.results import Marginals
from ..energies import FactorGraph
from ..exact import elimination
from ..likelihood.intervals import TRUSTED_ESS
from ..samplers import chained_bp, enumerated_states, gibbs_queries
from ..variational import belief_propagation, mean_field, tree_reweighting
from .conditioned import NOTHING_POSSIBLE, renumbered


def _as_marginals(question, single, flat, *, residual, n_iter, converged, method):
    """Flat arrays cut into variables and cliques."""
    graph = question.graph
    single = np.split(single, np.cumsum(graph.n_states))[:-1]
    cliques = graph.layout.untied().split(flat)
    return Marginals(single, cliques, bool(converged), float(residual), int(n_iter), method)


def _from_states(question, X, log_weights=None):
    """Single and clique frequencies of weighted rows of all variables."""
    n_states = question.graph.n_states
    states, size = (X + question.graph.layout.state_start).ravel(), int(n_states.sum())
    if log_weights is None:
        single = np.bincount(states, minlength=size) / len(X)
    else:
        weights = np.repeat(normalized_weights(log_weights, len(X)), X.shape[1])
        single = np.bincount(states, weights, minlength=size)
        owner = np.repeat(np.arange(len(n_states)), n_states)
        single = single / np.bincount(owner, single)[owner]  # weights sum to one up to rounding
    untied = FactorGraph.from_layout(question.graph.layout.untied())
    flat = untied.moments(States(X, None, log_weights))["log_potentials"]
    return single, np.maximum(flat, 0.0)  # a difference of sums may be rounded below zero


def exact_marginals(question):
    """By elimination."""
    graph, plan = question.graph, question.plan()
    single = elimination.single_marginals(plan, graph.flat, question.row[None])[0]
    untied = graph.layout.untied()
    flat, _ = elimination.expected_moments(plan, graph.flat, question.row[None], layout=untied)
    return _as_marginals(
        question, single, flat, residual=0.0, n_iter=1, converged=True, method="exact"
    )


def gibbs_marginals(question, *, n_chains=256, n_sweeps=1000, n_records=50, n_jobs=None):
    """Averages over Gibbs chains."""
    X, residual = gibbs_queries.averages(
        question.rest(),
        question.rng(),
        n_chains=n_chains,
        n_sweeps=n_sweeps,
        n_records=n_records,
        n_jobs=n_jobs,
    )
    X = question.complete(X)
    return _as_marginals(
        question,
        *_from_states(question, X),
        residual=residual,
        n_iter=len(X),
        converged=residual < 0.01,
        method="gibbs",
    )


def _believed(question, found, method):
    if found.log_partition == -np.inf:
        raise elimination.ImpossibleEvidence(0)
    return _as_marginals(
        question,
        found.single,
        found.cliques,
        residual=found.residual,
        n_iter=found.n_iter,
        converged=found.converged,
        method=method,
    )


def bp_marginals(question, *, schedule="sequential", damping="auto", max_iter=500, tol=1e-8):
    """Beliefs of sum-product belief propagation."""
    how = belief_propagation.Propagation(schedule, damping, max_iter, tol)
    found = belief_propagation.belief_propagation(question.graph, how, evidence=question.row)
    return _believed(question, found, "bp")


def trw_marginals(question, *, schedule="sequential", damping="auto", max_iter=500, tol=1e-8):
    """Beliefs of tree-reweighted propagation."""
    how = belief_propagation.Propagation(schedule, damping, max_iter, tol)
    found = tree_reweighting.tree_reweighted(question.graph, how, evidence=question.row)
    return _believed(question, found.beliefs, "trw")


def mean_field_marginals(question, *, max_iter=1000, tol=1e-9):
    """The product distribution of naive mean field."""
    rest = question.rest()
    if any(not (table > -np.inf).any() for table in rest.log_potentials):
        raise elimination.ImpossibleEvidence(0)
    found = mean_field.mean_field(rest, max_iter=max_iter, tol=tol)
    n_states = question.graph.n_states
    single = np.zeros(int(n_states.sum()))
    free = np.repeat(~question.observed, n_states)
    single[free] = found.single
    seen = np.flatnonzero(question.observed)
    single[question.graph.layout.state_start[seen] + question.row[seen]] = 1.0
    untied = question.graph.layout.untied()
    return _as_marginals(
        question,
        single,
        mean_field.clique_moments(question.graph, single, untied),
        residual=found.residual,
        n_iter=found.n_iter,
        converged=found.converged and found.lower_bound > -np.inf,
        method="mean-field",
    )


def bpchain_marginals(
    question, *, n_samples=4000, conditionals="auto", order="elimination", clip=1e-3
):
    """Draws of chained belief propagation, weighted to the model."""
    check_number("n_samples", n_samples, low=1, integer=True)
    rest = question.rest()
    settings = chained_bp.ChainSettings(
        conditionals, renumbered(order, question.observed), clip=clip
    )
    chain = chained_bp.Chain(rest.layout, settings, n_samples)
    rng = question.rng()
    draws = chain.draw(rest.flat, n_samples, rng)
    known = enumerated_states.KnownStates(
        draws.X[:0] if chain.exact else enumerated_states.annealed_states(rest, n_samples, rng)
    )
    weights = known.weigh(rest, draws)
    log_z = log_mean_exp(weights.estimates())
    if log_z == -np.inf:
        raise ValueError(NOTHING_POSSIBLE.format(n_samples))
    averaged = weights.draws + np.log(draws.counts / n_samples)
    X = question.complete(np.concatenate([known.X, draws.X]))
    single, flat = _from_states(question, X, np.concatenate([weights.known, averaged]))
    error = _largest_error(question, X[len(known.X) :], averaged - log_z, draws.counts, single)
    ess = weights.effective_size(chain.log_density(rest.flat, known.X), log_z)
    return _as_marginals(
        question,
        single,
        flat,
        residual=max(error, 1.0 / max(ess, 1.0)),
        n_iter=n_samples,
        converged=error < 0.01 and ess >= TRUSTED_ESS,
        method="bpchain",
    )


def _largest_error(question, X, log_shares, counts, single):
    """Largest standard error of a self-normalised single marginal (delta method).

    Only draws have an error, not the states that are summed over.
    """
    square = np.exp(2.0 * log_shares) / counts
    states = (X + question.graph.layout.state_start).ravel()
    hit = np.bincount(states, np.repeat(square, X.shape[1]), minlength=len(single))
    variance = hit * (1.0 - 2.0 * single) + square.sum() * single**2
    return float(np.sqrt(np.maximum(variance, 0.0).max(initial=0.0)))


MARGINALS = {
    "exact": exact_marginals,
    "gibbs": gibbs_marginals,
    "bp": bp_marginals,
    "trw": trw_marginals,
    "mean-field": mean_field_marginals,
    "bpchain": bpchain_marginals,
}
