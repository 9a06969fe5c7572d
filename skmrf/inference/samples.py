"""Samples of joint states: one function for each inference method."""

import numpy as np

from .._utils.parameters import check_number
from .._utils.warn import warn_caller
from ..exact import elimination
from ..samplers import chained_bp, gibbs_queries, independence_metropolis
from .conditioned import ZERO_PROBABILITY_MESSAGE, restrict_order


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
    X, _ = independence_metropolis.chain_states(
        chain, conditional, n_samples, n_steps, model.make_rng()
    )
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
