"""What each method answers to a question about one model and one set of evidence."""

import warnings

import numpy as np

from .. import messages, samplers
from .._types import Marginals, States, normalized_weights
from .._validation import check_number
from ..energies import FactorGraph
from .question import renumbered

# Marginals ---------------------------------------------------------------------------------


def _as_marginals(question, single, flat, *, residual, n_iter, converged, method):
    """Flat arrays cut into variables and cliques."""
    graph = question.graph
    single = np.split(single, np.cumsum(graph.n_states))[:-1]
    cliques = graph.layout.untied().split(flat)
    return Marginals(single, cliques, bool(converged), float(residual), int(n_iter), method)


def _from_states(question, X, log_weights=None):
    """Single and clique frequencies of weighted rows of all variables."""
    n_states = question.graph.n_states
    states, size = (X + np.cumsum(n_states) - n_states).ravel(), int(n_states.sum())
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
    single = messages.single_marginals(plan, graph.flat, question.row[None])[0]
    untied = graph.layout.untied()
    flat, _ = messages.expected_moments(plan, graph.flat, question.row[None], layout=untied)
    return _as_marginals(
        question, single, flat, residual=0.0, n_iter=1, converged=True, method="exact"
    )


def gibbs_marginals(question, *, n_chains=256, n_sweeps=1000, n_records=50, n_jobs=None):
    """Averages over Gibbs chains."""
    X, residual = samplers.averages(
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
        raise messages.ImpossibleEvidence(0)
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
    how = messages.Propagation(schedule, damping, max_iter, tol)
    found = messages.belief_propagation(question.graph, how, evidence=question.row)
    return _believed(question, found, "bp")


def trw_marginals(question, *, schedule="sequential", damping="auto", max_iter=500, tol=1e-8):
    """Beliefs of tree-reweighted propagation."""
    how = messages.Propagation(schedule, damping, max_iter, tol)
    found = messages.tree_reweighted(question.graph, how, evidence=question.row)
    return _believed(question, found.beliefs, "trw")


def mean_field_marginals(question, *, max_iter=1000, tol=1e-9):
    """The product distribution of naive mean field."""
    rest = question.rest()
    if any(not (table > -np.inf).any() for table in rest.log_potentials):
        raise messages.ImpossibleEvidence(0)
    found = messages.mean_field(rest, max_iter=max_iter, tol=tol)
    n_states = question.graph.n_states
    single = np.zeros(int(n_states.sum()))
    free = np.repeat(~question.observed, n_states)
    single[free] = found.single
    seen = np.flatnonzero(question.observed)
    single[(np.cumsum(n_states) - n_states)[seen] + question.row[seen]] = 1.0
    untied = question.graph.layout.untied()
    return _as_marginals(
        question,
        single,
        messages.clique_moments(question.graph, single, untied),
        residual=found.residual,
        n_iter=found.n_iter,
        converged=found.converged,
        method="mean-field",
    )


NOTHING_POSSIBLE = (
    "None of {} draws has a positive probability: the evidence is impossible, or zero potentials "
    'hide what is possible. Take method="exact", or give more n_samples or clip.'
)


def bpchain_marginals(
    question, *, n_samples=4000, conditionals="auto", order="elimination", clip=1e-3
):
    """Draws of chained belief propagation, weighted to the model."""
    check_number("n_samples", n_samples, low=1, integer=True)
    rest = question.rest()
    settings = samplers.ChainSettings(conditionals, renumbered(order, question.observed), clip=clip)
    chain = samplers.Chain(rest.layout, settings, n_samples)
    draws = chain.draw(rest.flat, n_samples, question.rng())
    log_weights = rest.log_potential(draws.X) - draws.log_q + np.log(draws.counts)
    if (log_weights == -np.inf).all():
        raise ValueError(NOTHING_POSSIBLE.format(n_samples))
    X = question.complete(draws.X)
    weights = normalized_weights(log_weights, len(X))
    single, flat = _from_states(question, X, log_weights)
    error = _largest_error(question, X, weights / draws.counts, draws.counts, single)
    return _as_marginals(
        question,
        single,
        flat,
        residual=error,
        n_iter=n_samples,
        converged=error < 0.01,
        method="bpchain",
    )


def _largest_error(question, X, weights, counts, single):
    """Largest standard error of a self-normalised single marginal (delta method).

    At least one over the effective sample size, for where all the weight is on one state.
    """
    n_states = question.graph.n_states
    start = np.cumsum(n_states) - n_states
    square = counts * weights**2
    hit = np.bincount(
        (X + start).ravel(), np.repeat(square, X.shape[1]), minlength=int(n_states.sum())
    )
    variance = hit * (1.0 - 2.0 * single) + square.sum() * single**2
    return float(max(np.sqrt(np.maximum(variance, 0.0).max(initial=0.0)), square.sum()))


MARGINALS = {
    "exact": exact_marginals,
    "gibbs": gibbs_marginals,
    "bp": bp_marginals,
    "trw": trw_marginals,
    "mean-field": mean_field_marginals,
    "bpchain": bpchain_marginals,
}


# Modes -------------------------------------------------------------------------------------


def exact_mode(question):
    """By elimination with maxima."""
    return messages.maximise(question.plan(), question.graph.flat, question.row[None])[0]


def annealed_mode(question, *, n_chains=64, n_sweeps=500, n_jobs=None):
    """The best state of simulated annealing."""
    best, _ = samplers.anneal(
        question.rest(), question.rng(), n_chains=n_chains, n_sweeps=n_sweeps, n_jobs=n_jobs
    )
    return question.complete(best[None])[0]


def decimated_mode(question, *, schedule="sequential", damping="auto", max_iter=500, tol=1e-8):
    """Max-product propagation, the most decided variables clamped again and again."""
    how = messages.Propagation(schedule, damping, max_iter, tol)
    return messages.decimate(question.graph, how, evidence=question.row)[0]


MODES = {"exact": exact_mode, "annealing": annealed_mode, "decimation": decimated_mode}


# Marginal MAP ------------------------------------------------------------------------------


def exact_marginal_mode(question, maximised):
    """By elimination: sums first, then maxima."""
    plan = question.plan(maximised=maximised)
    states, value = messages.marginal_map(plan, question.graph.flat, question.row[None])
    return states[0], float(value[0])


def bp_marginal_mode(
    question, maximised, *, schedule="sequential", damping="auto", max_iter=500, tol=1e-8
):
    """Mixed-product propagation; the value of what it decodes by sum-product (Bethe)."""
    how = messages.Propagation(schedule, damping, max_iter, tol)
    found = messages.belief_propagation(
        question.graph, how, evidence=question.row, maximised=maximised
    )
    if found.log_partition == -np.inf:
        raise messages.ImpossibleEvidence(0)
    states = question.row.copy()
    wanted = np.flatnonzero(maximised & ~question.observed)
    beliefs = np.split(found.single, np.cumsum(question.graph.n_states)[:-1])
    for i in wanted:
        states[i] = int(np.argmax(beliefs[i]))
    value = messages.belief_propagation(question.graph, how, evidence=states).log_partition
    return states, value


MARGINAL_MODES = {"exact": exact_marginal_mode, "bp": bp_marginal_mode}


# Samples -----------------------------------------------------------------------------------


def exact_samples(question, n_samples):
    """Independent draws by elimination."""
    graph = question.graph
    return messages.sample(
        question.plan(), graph.flat, n_samples, question.rng(), question.row[None]
    )


def gibbs_samples(question, n_samples, *, n_sweeps=1000, n_jobs=None):
    """The last states of as many Gibbs chains."""
    X = samplers.draw(question.rest(), n_samples, question.rng(), n_sweeps=n_sweeps, n_jobs=n_jobs)
    return question.complete(X)


def bpchain_samples(
    question, n_samples, *, n_steps=0, conditionals="auto", order="elimination", clip=0.0
):
    """Draws of chained belief propagation, moved on by independence Metropolis steps."""
    check_number("n_steps", n_steps, low=0, integer=True)
    rest = question.rest()
    settings = samplers.ChainSettings(conditionals, renumbered(order, question.observed), clip=clip)
    chain = samplers.Chain(rest.layout, settings, n_samples * (n_steps + 1))
    X, _ = samplers.chain_states(chain, rest, n_samples, n_steps, question.rng())
    lost = np.count_nonzero(rest.log_potential(X) == -np.inf)
    if lost == n_samples:
        raise ValueError(NOTHING_POSSIBLE.format(n_samples))
    if lost:
        warnings.warn(
            f"{lost} of {n_samples} draws have the probability zero; give more n_steps, or take "
            'method="exact".',
            stacklevel=4,
        )
    return question.complete(X)


SAMPLES = {"exact": exact_samples, "gibbs": gibbs_samples, "bpchain": bpchain_samples}
