"""Joint samples by each method."""

import numpy as np

from .._utils.parameters import check_number
from .._utils.warn import warn_caller
from ..exact import elimination
from ..samplers import chained_bp, gibbs_queries, independence_metropolis
from .conditioned import NOTHING_POSSIBLE, renumbered


def exact_samples(question, n_samples):
    """Independent draws by elimination."""
    graph = question.graph
    return elimination.sample(
        question.plan(), graph.flat, n_samples, question.rng(), question.row[None]
    )


def gibbs_samples(question, n_samples, *, n_sweeps=1000, n_jobs=None):
    """The last states of as many Gibbs chains."""
    X = gibbs_queries.draw(
        question.rest(), n_samples, question.rng(), n_sweeps=n_sweeps, n_jobs=n_jobs
    )
    return question.complete(X)


def bpchain_samples(
    question, n_samples, *, n_steps=0, conditionals="auto", order="elimination", clip=0.0
):
    """Draws of chained belief propagation, moved on by independence Metropolis steps."""
    check_number("n_steps", n_steps, low=0, integer=True)
    rest = question.rest()
    settings = chained_bp.ChainSettings(
        conditionals, renumbered(order, question.observed), clip=clip
    )
    chain = chained_bp.Chain(rest.layout, settings, n_samples * (n_steps + 1))
    X, _ = independence_metropolis.chain_states(chain, rest, n_samples, n_steps, question.rng())
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
