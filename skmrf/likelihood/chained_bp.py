"""Importance sampling from chained belief propagation."""

from dataclasses import replace

import numpy as np

from .._utils.parameters import check_number
from .._utils.randomness import check_generator
from .._utils.results import LogPartition
from .._utils.warn import warn_caller
from ..energies.checks import check_energy
from ..samplers import spawn_generators, sweep
from ..samplers.chained_bp import Chain, ChainSettings
from ..samplers.enumerated_states import KnownStates, annealed_states
from ..samplers.smc import resample
from .intervals import TRUSTED_ESS, interval, lost

SETTLE = 20


def bpchain(
    energy,
    *,
    n_samples=1000,
    conditionals="auto",
    order="elimination",
    clip=1e-3,
    settings=None,
    max_width=1.0,
    random_state=None,
):
    r"""Log partition function by importance sampling from chained belief propagation.

    The chain draws :math:`x` with a known probability :math:`q(x)`, so for any set :math:`A` of
    states that does not depend on the draws

    .. math:: \hat Z = \sum_{x \in A} f(x) + \frac{1}{K} \sum_{k : x_k \notin A}
              \frac{f(x_k)}{q(x_k)}

    is unbiased where :math:`q` covers the model. :math:`A` are the states in which annealed Gibbs
    chains end: it finds modes that the chain misses, and adds nothing to the error. In the other
    direction :math:`q / f` is averaged over draws resampled by their weights and moved on by Gibbs
    sweeps.

    Parameters
    ----------
    energy : Energy
    n_samples : int, default=1000
    conditionals, order, clip
        See ``ChainSettings``.
    settings : ChainSettings, optional
        Everything about the chain, instead of these three.
    max_width : float, default=1.0
        Nats; a wider interval is warned about and ``converged`` is False.
    random_state : int, Generator, RandomState or None

    Returns
    -------
    LogPartition
        ``ess`` is :math:`K / E_p[p / q]` as the draws and :math:`A` show it: small where the chain
        hardly draws a state that the model favours, 0 where it cannot draw it; below 10 is warned
        about, too. With exact conditionals all weights are Z and the value is exact.

    References
    ----------
    F. Ding and Y. Xue, "Contrastive divergence learning with chained belief propagation", PGM
    (2020), for the chain; its density is not used there.
    """
    check_energy(energy)
    check_number("n_samples", n_samples, low=2, integer=True)
    check_number("max_width", max_width, low=0)
    rng = check_generator(random_state)
    graph = energy.factor_graph()
    if settings is None:
        settings = ChainSettings(conditionals, order, clip=clip)
    elif not isinstance(settings, ChainSettings):
        raise TypeError(
            f"settings must be a skmrf.samplers.chained_bp.ChainSettings; got {settings!r}."
        )
    chain = Chain(graph.layout, settings, n_samples)
    draws = chain.draw(graph.flat, 1 if chain.exact else n_samples, rng)
    if chain.exact:
        value = float(graph.log_potential(draws.X)[0] - draws.log_q[0])
        return LogPartition(value, 0.0, value, value, True, "bpchain", True)
    result = _estimate(graph, chain, draws, max_width, rng)
    if not result.converged:
        warn_caller(
            f"The interval of log Z by chained belief propagation is [{result.lower:.4g}, "
            f"{result.upper:.4g}], its effective sample size {result.ess:.1f} of {n_samples} "
            f"({100 * draws.converged:.0f}% of the propagations converged): the chain misses a "
            'part of the model. Give more n_samples or clip, or take method="ais".',
        )
    return result


def _estimate(graph, chain, draws, max_width, rng):
    """The interval from draws of the chain."""
    known = KnownStates(annealed_states(graph, draws.counts.sum(), rng))
    weights = known.weigh(graph, draws)
    forward = weights.estimates()
    if (forward == -np.inf).all():
        return lost("bpchain")
    every = np.repeat(graph.log_potential(draws.X) - draws.log_q, draws.counts)
    found = known.X
    if (every > -np.inf).any():
        found = np.repeat(draws.X, draws.counts, axis=0)[resample(every, len(every), rng)]
    found, _ = sweep(graph, found, spawn_generators(rng, len(found)), n_sweeps=SETTLE)
    backward = chain.log_density(graph.flat, found) - graph.log_potential(found)
    result = interval(forward, backward, max_width, rng, "bpchain")
    log_q = chain.log_density(graph.flat, known.X)
    ess = min(weights.effective_size(log_q, result.value), result.ess)
    upper = max(result.upper, result.value + result.std_error)
    converged = upper - result.lower <= max_width and ess >= TRUSTED_ESS
    return replace(result, upper=float(upper), ess=ess, converged=bool(converged))
