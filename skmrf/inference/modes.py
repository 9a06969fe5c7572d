"""Most probable joint states, and marginal MAP states, by each method."""

import numpy as np

from ..exact import elimination
from ..samplers import gibbs_queries
from ..variational import belief_propagation, decimation


def exact_mode(question):
    """By elimination with maxima."""
    return elimination.maximise(question.plan(), question.graph.flat, question.row[None])[0]


def annealed_mode(question, *, n_chains=64, n_sweeps=500, n_jobs=None):
    """The best state of simulated annealing."""
    best, _ = gibbs_queries.anneal(
        question.rest(), question.rng(), n_chains=n_chains, n_sweeps=n_sweeps, n_jobs=n_jobs
    )
    return question.complete(best[None])[0]


def decimated_mode(question, *, schedule="sequential", damping="auto", max_iter=500, tol=1e-8):
    """Max-product propagation, the most decided variables clamped again and again."""
    how = belief_propagation.Propagation(schedule, damping, max_iter, tol)
    return decimation.decimate(question.graph, how, evidence=question.row)[0]


MODES = {"exact": exact_mode, "annealing": annealed_mode, "decimation": decimated_mode}


def exact_marginal_mode(question, maximised):
    """By elimination: sums first, then maxima."""
    plan = question.plan(maximised=maximised)
    states, value = elimination.marginal_map(plan, question.graph.flat, question.row[None])
    return states[0], float(value[0])


def bp_marginal_mode(
    question, maximised, *, schedule="sequential", damping="auto", max_iter=500, tol=1e-8
):
    """Mixed-product propagation; the value of what it decodes by sum-product (Bethe)."""
    how = belief_propagation.Propagation(schedule, damping, max_iter, tol)
    found = belief_propagation.belief_propagation(
        question.graph, how, evidence=question.row, maximised=maximised
    )
    if found.log_partition == -np.inf:
        raise elimination.ImpossibleEvidence(0)
    states = question.row.copy()
    wanted = np.flatnonzero(maximised & ~question.observed)
    beliefs = np.split(found.single, np.cumsum(question.graph.n_states)[:-1])
    for i in wanted:
        states[i] = int(np.argmax(beliefs[i]))
    value = belief_propagation.belief_propagation(
        question.graph, how, evidence=states
    ).log_partition
    return states, value


MARGINAL_MODES = {"exact": exact_marginal_mode, "bp": bp_marginal_mode}
