"""Modes (MAP and marginal MAP states) and samples: one function for each inference method."""

import numpy as np

from .._utils.interrupts import limit_time, remaining_time
from .._utils.parameters import check_number
from .._utils.warn import warn_caller
from ..exact import elimination, window_search
from ..samplers import chained_bp, gibbs_queries, metropolis
from ..variational import belief_propagation, decimation
from .conditioned import ZERO_PROBABILITY_MESSAGE, restrict_order

MAX_DECIMATION_SECONDS = 10.0
START_PROPAGATION = belief_propagation.Propagation(max_iter=50)


def exact_mode(model):
    """Compute a most probable (MAP) state by max-product variable elimination."""
    return elimination.maximise(model.prepare_elimination(), model.graph.flat, model.row[None])[0]


def annealed_mode(model, *, n_chains=64, n_sweeps=500, n_jobs=None):
    """Search for a most probable (MAP) state by simulated annealing."""
    best, _ = gibbs_queries.anneal(
        model.conditional_graph(),
        model.make_rng(),
        n_chains=n_chains,
        n_sweeps=n_sweeps,
        n_jobs=n_jobs,
    )
    return model.insert_evidence(best[None])[0]


def local_search_mode(model, *, n_windows=100, n_chains=64, n_sweeps=500, n_jobs=None):
    """Search for a most probable (MAP) state by annealing, decimation and local search.

    The local search maximises exactly over random windows, each with most variables.
    """
    check_number("n_windows", n_windows, low=0, integer=True)
    graph = model.conditional_graph()
    rng, time = model.make_rng(), remaining_time()
    with limit_time(0.2 * time if np.isfinite(time) else None):
        best, _ = gibbs_queries.anneal(
            graph, rng, n_chains=n_chains, n_sweeps=n_sweeps, n_jobs=n_jobs
        )
    with limit_time(min(0.2 * time, MAX_DECIMATION_SECONDS)):
        starts = np.stack([best, decimation.decimate(graph, START_PROPAGATION).states])
    if graph.n_variables <= window_search.MAX_VARIABLES:
        best = window_search.WindowSearch(graph, rng, n_windows).improve(starts)
    else:
        best = starts[np.argmax(graph.log_potential(starts))]
    return model.insert_evidence(best[None])[0]


def decimated_mode(model, *, schedule="sequential", damping="auto", max_iter=500, tol=1e-8):
    """Search for a most probable (MAP) state by max-product belief propagation and decimation.

    Decimation repeatedly clamps the variables with the clearest maximum, and continues with
    the others.
    """
    propagation = belief_propagation.Propagation(schedule, damping, max_iter, tol)
    return decimation.decimate(model.graph, propagation, evidence=model.row)[0]


MODES = {
    "exact": exact_mode,
    "local-search": local_search_mode,
    "annealing": annealed_mode,
    "decimation": decimated_mode,
}


def exact_marginal_mode(model, maximised):
    """Compute a marginal MAP state exactly: variable elimination sums first, then maximises."""
    plan = model.prepare_elimination(maximised=maximised)
    states, value = elimination.marginal_map(plan, model.graph.flat, model.row[None])
    return states[0], float(value[0])


def bp_marginal_mode(
    model, maximised, *, schedule="sequential", damping="auto", max_iter=500, tol=1e-8
):
    """Search for a marginal MAP state by mixed-product belief propagation.

    The value of the decoded state is its Bethe approximation by sum-product propagation.
    """
    propagation = belief_propagation.Propagation(schedule, damping, max_iter, tol)
    result = belief_propagation.belief_propagation(
        model.graph, propagation, evidence=model.row, maximised=maximised
    )
    if result.log_partition == -np.inf:
        raise elimination.ImpossibleEvidence(0)
    states = model.row.copy()
    free = np.flatnonzero(maximised & ~model.observed)
    beliefs = np.split(result.single, np.cumsum(model.graph.n_states)[:-1])
    for i in free:
        states[i] = int(np.argmax(beliefs[i]))
    value = belief_propagation.belief_propagation(
        model.graph, propagation, evidence=states
    ).log_partition
    return states, value


MARGINAL_MODES = {"exact": exact_marginal_mode, "bp": bp_marginal_mode}


def exact_samples(model, n_samples):
    """Draw independent samples by variable elimination."""
    graph = model.graph
    return elimination.sample(
        model.prepare_elimination(), graph.flat, n_samples, model.make_rng(), model.row[None]
    )


def gibbs_samples(model, n_samples, *, n_sweeps=1000, n_jobs=None):
    """Draw samples by Gibbs sampling: the last states of ``n_samples`` independent chains."""
    X = gibbs_queries.draw(
        model.conditional_graph(), n_samples, model.make_rng(), n_sweeps=n_sweeps, n_jobs=n_jobs
    )
    return model.insert_evidence(X)


def bpchain_samples(
    model, n_samples, *, n_steps=0, conditionals="auto", order="elimination", clip=0.0
):
    """Draw samples by chained belief propagation, with optional Metropolis-Hastings steps.

    These are independence steps: each proposal is a new draw by chained belief propagation.
    """
    check_number("n_steps", n_steps, low=0, integer=True)
    conditional = model.conditional_graph()
    settings = chained_bp.ChainSettings(
        conditionals, restrict_order(order, model.observed), clip=clip
    )
    chain = chained_bp.Chain(conditional.layout, settings, n_samples * (n_steps + 1))
    X, _ = metropolis.chain_states(chain, conditional, n_samples, n_steps, model.make_rng())
    n_impossible = np.count_nonzero(conditional.log_potential(X) == -np.inf)
    if n_impossible == n_samples:
        raise ValueError(ZERO_PROBABILITY_MESSAGE.format(n_samples))
    if n_impossible:
        warn_caller(
            f"{n_impossible} of {n_samples} draws have probability zero. Increase n_steps, or use "
            'method="exact".',
        )
    return model.insert_evidence(X)


SAMPLES = {"exact": exact_samples, "gibbs": gibbs_samples, "bpchain": bpchain_samples}
