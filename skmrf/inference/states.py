"""Modes, marginal modes and samples of a question's model by each method."""

import numpy as np

from .. import messages, samplers
from .._validation import check_number, warn_caller
from .question import NOTHING_POSSIBLE, renumbered

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
        warn_caller(
            f"{lost} of {n_samples} draws have the probability zero; give more n_steps, or take "
            'method="exact".',
        )
    return question.complete(X)


SAMPLES = {"exact": exact_samples, "gibbs": gibbs_samples, "bpchain": bpchain_samples}
