"""Log partition function by importance sampling from chained belief propagation."""

from dataclasses import replace

import numpy as np

from .._utils.parameters import check_generator, check_number
from .._utils.results import LogPartition
from .._utils.warn import warn_caller
from ..energies.protocols import check_energy
from ..samplers import spawn_generators, sweep
from ..samplers.chained_bp import ChainedSampler, ChainSettings
from ..samplers.enumerated_states import EnumeratedStates
from ..samplers.gibbs import annealed_states
from ..samplers.smc import resample
from .intervals import TRUSTED_ESS, interval, zero_probability_result

N_BURN_IN = 20


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
    r"""Estimate the log partition function by importance sampling from chained belief propagation.

    Chained belief propagation samples :math:`x` with a known probability :math:`q(x)`. For any set
    :math:`A` of states that does not depend on the samples, the estimate

    .. math:: \hat Z = \sum_{x \in A} f(x) + \frac{1}{K} \sum_{k : x_k \notin A}
              \frac{f(x_k)}{q(x_k)}

    is unbiased if :math:`q` is positive wherever the model is. :math:`A` contains the last states
    of annealed Gibbs chains. It finds modes that :math:`q` misses, and it adds no error to the
    estimate. The estimate in the reverse direction averages :math:`q / f` over the samples,
    resampled by their weights and then moved by Gibbs sweeps.

    Parameters
    ----------
    energy : Energy
        Model of discrete variables that has a factor graph.
    n_samples : int, default=1000
        Number of samples :math:`K`; at least 2.
    conditionals : {"auto", "bp", "exact"}, default="auto"
        Source of the conditional distributions: "bp" uses belief propagation, "exact" uses variable
        elimination, "auto" changes from belief propagation to elimination as soon as this is cheap.
    order : {"elimination", "index"} or array-like of shape (n_variables,), default="elimination"
        Order in which the variables are sampled: a reversed elimination order, the order of the
        columns, or a list of all variables in sampling order.
    clip : float in [0, 0.5], default=1e-3
        Lower limit of the probabilities of a conditional, before they are normalised.
    settings : ChainSettings, optional
        All settings of the chain. If given, ``conditionals``, ``order`` and ``clip`` are ignored.
    max_width : float, default=1.0
        Largest width of the interval, in nats, that counts as converged. A wider interval raises a
        warning and sets ``converged`` to False.
    random_state : int, Generator, RandomState or None
        Seed or generator. Pass an int for reproducible results.

    Returns
    -------
    LogPartition
        ``ess`` is :math:`K / E_p[p / q]`, estimated from the samples and :math:`A`. It is small if
        :math:`q` rarely samples a state that the model favours, and 0 if it cannot sample it. A
        value below 10 raises a warning, too. With exact conditionals all weights equal :math:`Z`
        and the value is exact.

    References
    ----------
    F. Ding and Y. Xue, "Contrastive divergence learning with chained belief propagation", PGM
    (2020), for the chain; the paper does not use its density.
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
    chain = ChainedSampler(graph.layout, settings, n_samples)
    draws = chain.draw(graph.flat, 1 if chain.exact else n_samples, rng)
    if chain.exact:
        value = float(graph.log_potential(draws.X)[0] - draws.log_q[0])
        return LogPartition(value, 0.0, value, value, True, "bpchain", True)
    result = _estimate(graph, chain, draws, max_width, rng)
    if not result.converged:
        warn_caller(
            f"The interval of log Z by chained belief propagation is [{result.lower:.4g}, "
            f"{result.upper:.4g}] with an effective sample size of {result.ess:.1f} of {n_samples} "
            f"({100 * draws.converged:.0f}% of the propagations converged). The samples may "
            'miss states of high probability. Increase n_samples or clip, or use method="ais".',
        )
    return result


def _estimate(graph, chain, draws, max_width, rng):
    """Return log Z and its interval, estimated from samples of chained belief propagation."""
    enumerated = EnumeratedStates(annealed_states(graph, draws.counts.sum(), rng))
    weights = enumerated.compute_weights(graph, draws)
    forward = weights.estimates()
    if (forward == -np.inf).all():
        return zero_probability_result("bpchain")
    every = np.repeat(graph.log_potential(draws.X) - draws.log_q, draws.counts)
    found, n_possible = enumerated.X, np.count_nonzero(every > -np.inf)
    if n_possible:
        found = np.repeat(draws.X, draws.counts, axis=0)[resample(every, len(every), rng)]
    found, _ = sweep(graph, found, spawn_generators(rng, len(found)), n_sweeps=N_BURN_IN)
    backward = chain.log_density(graph.flat, found) - graph.log_potential(found)
    result = interval(forward, backward, max_width, rng, "bpchain", n_possible=n_possible)
    log_q = chain.log_density(graph.flat, enumerated.X)
    ess = min(weights.effective_size(log_q, result.value), result.ess)
    upper = max(result.upper, result.value + result.std_error)
    converged = upper - result.lower <= max_width and ess >= TRUSTED_ESS
    return replace(result, upper=float(upper), ess=ess, converged=bool(converged))
