"""Recorded states and log-potentials of Gibbs chains, with or without parallel tempering."""

import numbers
from dataclasses import dataclass
from functools import partial

import numpy as np

from .._utils.codes import STATE, check_evidence
from .._utils.parallel import run_blocks
from .._utils.parameters import check_generator, check_number
from ..energies import DiscreteEnergy
from .gibbs import BLOCK, UPDATES_TO_SEND, Product, blocks_of, spawn_generators, sweep
from .gibbs_queries import check_possible
from .ladder import Ladder
from .parallel_tempering import Replicas, adapt_ladder, check_ladder, exchange, parallel_tempering
from .smc import Tempering

SWEEPS_PER_ADAPTATION = 100
N_COMPARED = 128  # chains from each kind of start
N_DIAGNOSED = 200  # Gibbs sweeps
NOISE = 1.63  # 99% quantile of the scaled Kolmogorov-Smirnov statistic


@dataclass(frozen=True)
class ChainTraces:
    """Recorded states of Gibbs chains after their burn-in.

    Attributes
    ----------
    states : ndarray of shape (n_chains, n_draws, n_variables), dtype int16
        State codes of the visible variables, at inverse temperature 1.
    log_potential : ndarray of shape (n_chains, n_draws)
        log f of these states with latent variables summed out, in nats; not normalised.
    betas : ndarray of shape (n_temperatures,) or None
        Inverse temperatures, increasing to 1; None for chains without tempering. With a ladder,
        positions of its rungs, evenly spaced from 0 to 1.
    swap_rates : ndarray of shape (n_temperatures - 1,) or None
        Mean probability of a swap between neighbours of ``betas``, over chains and sweeps; nan for
        a pair that never tried a swap. None for chains without tempering.
    round_trips : int or None
        Number of times that a replica returned to inverse temperature 1, or to the last rung, after
        a visit to the hottest chain or the first rung, summed over all chains. None for chains
        without tempering.
    """

    states: np.ndarray
    log_potential: np.ndarray
    betas: np.ndarray | None = None
    swap_rates: np.ndarray | None = None
    round_trips: int | None = None


def trace_chains(
    energy,
    *,
    n_chains=4,
    n_sweeps=1000,
    n_discarded=500,
    thin=1,
    betas=None,
    ladder=None,
    evidence=None,
    random_state=None,
    n_jobs=None,
):
    r"""Run independent Gibbs chains and record their states.

    Every chain starts at a state drawn uniformly. With tempering, each recorded chain is the
    coldest of several chains with the targets :math:`f^\beta`. These make a sweep and then swap
    states with their neighbours (parallel tempering). With a ladder, the other chains have models
    of earlier training steps as their targets (parallel trajectory tempering), and all chains start
    at states of the ladder.

    Parameters
    ----------
    energy : Energy
        Model of discrete variables. Latent variables are summed out or sampled along with the
        others, and not recorded.
    n_chains : int, default=4
        Number of independent chains.
    n_sweeps : int, default=1000
        Number of sweeps after the warm-up.
    n_discarded : int, default=500
        Number of sweeps of the warm-up, which are not recorded.
    thin : int, default=1
        Record the last of every ``thin`` sweeps, which gives ``n_sweeps // thin`` draws per chain.
    betas : int or array-like of shape (n_temperatures,), optional
        Inverse temperatures that increase to 1, or their number. If a number is given, they are
        first evenly spaced from 0 to 1. Then they are adapted in a separate warm-up of
        ``n_discarded`` sweeps: after every 100 sweeps they are moved so that swaps between all
        neighbours are rejected equally often. With fewer than 100 sweeps they are not adapted. By
        default chains are not tempered.
    ladder : Ladder, optional
        Attribute ``ladder_`` of the estimator that was fitted with ``learner="ptt"`` and has the
        model ``energy``. It has at least ``n_chains`` chains. It excludes ``betas`` and
        ``evidence``.
    evidence : dict of int to int, optional
        State code of each observed visible variable; these variables are not sampled. By default no
        variable is observed.
    random_state : int, Generator, RandomState or None
        Seed or generator. Pass an int for reproducible results.
    n_jobs : int, optional
        Number of blocks of 64 chains that run in parallel. They run in threads, or in the workers
        of an active joblib context if one takes about a second. Results do not depend on it.

    Returns
    -------
    ChainTraces
        States and log-potentials of all chains, and the swap statistics of tempered ones.

    Raises
    ------
    TypeError
        If ``energy`` is not an energy of discrete variables, or ``ladder`` is not a ladder.
    ValueError
        If the ladder has another model or too few chains, or is given with ``betas`` or
        ``evidence``, if inverse temperatures do not increase to 1, if there are fewer sweeps than
        ``thin``, if the evidence contains a variable or state that does not exist, or if all chains
        are in states of probability zero.

    References
    ----------
    Syed, S., et al., "Non-reversible parallel tempering", JRSS B (2022).

    Examples
    --------
    >>> from skmrf.datasets import make_ising
    >>> from skmrf.samplers import trace_chains
    >>> energy = make_ising("grid", n_variables=16, coupling=0.6)
    >>> traces = trace_chains(energy, betas=4, n_sweeps=200, random_state=0)
    >>> traces.states.shape, traces.swap_rates.shape
    ((4, 200, 16), (3,))
    """
    _check_arguments(energy, n_chains, n_sweeps, n_discarded, thin)
    if ladder is not None:
        _check_rungs(ladder, energy, n_chains, betas, evidence)
        betas = np.linspace(0.0, 1.0, len(ladder))
    evidence = check_evidence(evidence, energy.visible_states)
    rng = check_generator(random_state)
    target = energy.condition(evidence) if evidence else energy
    if betas is not None and ladder is None:
        betas = _choose_betas(target, betas, n_chains, n_discarded, rng)
    schedule = n_discarded, n_sweeps // thin, thin
    tasks = [
        (target, block.stop - block.start, schedule, generator)
        for block, generator in zip(
            blocks_of(n_chains), spawn_generators(rng, n_chains), strict=True
        )
    ]
    run = _run_plain_chains if betas is None else partial(_run_tempered_chains, betas)
    if ladder is not None:
        run = partial(_run_ladder, ladder)
    n_moves = (n_discarded + n_sweeps) * (1 if betas is None else len(betas))
    long = BLOCK * n_moves * target.sweep_work > UPDATES_TO_SEND
    visited, *swaps = zip(*run_blocks(run, tasks, n_jobs, long=long), strict=True)
    visited = np.concatenate(visited)
    if not target.has_latent:
        check_possible(target, visited[:, -1])
    states = _insert_evidence(visited, evidence, len(energy.visible_states))
    rows = states.reshape(-1, states.shape[2])
    log_potential = energy.log_marginal(rows).reshape(states.shape[:2])
    if betas is None:
        return ChainTraces(states, log_potential)
    rates = _average_swap_probabilities(swaps[0], [task[1] for task in tasks])
    return ChainTraces(states, log_potential, betas, rates, round(sum(swaps[1])))


def _check_arguments(energy, n_chains, n_sweeps, n_discarded, thin):
    if not isinstance(energy, DiscreteEnergy):
        raise TypeError(
            "trace_chains takes an energy of discrete variables: one of skmrf.energies, or the "
            f"attribute energy_ of a fitted estimator. Got {type(energy).__name__}."
        )
    check_number("n_chains", n_chains, low=1, integer=True)
    check_number("n_sweeps", n_sweeps, low=1, integer=True)
    check_number("n_discarded", n_discarded, low=0, integer=True)
    check_number("thin", thin, low=1, high=n_sweeps, integer=True)


def _check_rungs(ladder, energy, n_chains, betas, evidence):
    if not isinstance(ladder, Ladder):
        raise TypeError(
            'ladder must be the attribute ladder_ of an estimator fitted with learner="ptt"; got '
            f"{type(ladder).__name__}."
        )
    if betas is not None or evidence:
        raise ValueError("ladder excludes betas and evidence; give ladder alone, or leave it out.")
    theta, last = energy.theta, ladder.energy.theta
    if theta.keys() != last.keys() or any(not np.array_equal(theta[k], last[k]) for k in theta):
        raise ValueError(
            "The last rung of ladder has another model than energy; give energy_ and ladder_ of "
            "the same estimator."
        )
    if n_chains > ladder.states.shape[1]:
        raise ValueError(
            f"n_chains={n_chains} is more than the {ladder.states.shape[1]} chains of the ladder; "
            "give a smaller n_chains."
        )


def _choose_betas(energy, betas, n_chains, n_discarded, rng):
    """Return the given inverse temperatures, or adapt the given number of inverse temperatures."""
    if not isinstance(betas, numbers.Integral):
        return check_ladder(betas)
    check_number("betas", betas, low=2, integer=True)
    (generator,) = spawn_generators(rng, 1)
    n_few = blocks_of(n_chains)[0].stop
    replicas, reference = _start_replicas(energy, np.linspace(0.0, 1.0, betas), n_few, generator)
    for k in range(1, n_discarded + 1):
        replicas, _ = parallel_tempering(energy, reference, replicas, generator)
        if k % SWEEPS_PER_ADAPTATION == 0:
            replicas = adapt_ladder(replicas)
    return replicas.betas


def _start_replicas(energy, betas, n_chains, generator):
    reference = Product.uniform(energy.visible_states)
    X = reference.sample(n_chains * len(betas), generator)
    return Replicas.start(betas, X.reshape(len(betas), n_chains, -1), generator), reference


def _run_plain_chains(energy, n_chains, schedule, generator):
    """Run a block of Gibbs chains, and return states of shape (n_chains, n_draws, n_visible)."""
    n_discarded, n_draws, thin = schedule
    X = Product.uniform(energy.visible_states).sample(n_chains, generator)
    generators = [generator]
    X, _ = sweep(energy, X, generators, n_sweeps=n_discarded)
    visited = np.empty((n_chains, n_draws, X.shape[1]), dtype=STATE)
    for k in range(n_draws):
        X, _ = sweep(energy, X, generators, n_sweeps=thin)
        visited[:, k] = X
    return (visited,)


def _run_tempered_chains(betas, energy, n_chains, schedule, generator):
    """Run parallel tempering; return states at beta = 1, swap probabilities and round trips."""
    replicas, reference = _start_replicas(energy, betas, n_chains, generator)
    return _record_swapped(Tempering(reference, energy), replicas, schedule, generator)


def _run_ladder(ladder, _, n_chains, schedule, generator):
    """Run chains along a ladder; return states of the last rung, swap probabilities and trips."""
    ladder = ladder.restart(generator, n_chains)
    return _record_swapped(ladder.rungs, ladder.replicas, schedule, generator)


def _record_swapped(path, replicas, schedule, generator):
    n_discarded, n_draws, thin = schedule
    for _ in range(n_discarded):
        replicas, _ = exchange(path, replicas, generator)
    n_chains = replicas.X.shape[1]
    visited = np.empty((n_chains, n_draws, replicas.X.shape[2]), dtype=STATE)
    swap_probabilities, trips = [], 0.0
    for k in range(n_draws * thin):
        replicas, info = exchange(path, replicas, generator)
        swap_probabilities.append(replicas.swap_probabilities)
        trips += n_chains * info["round_trips"]
        visited[:, k // thin] = replicas.X[-1]
    return visited, np.array(swap_probabilities), trips


def _average_swap_probabilities(swap_probabilities, n_chains):
    """Average the swap probabilities of each pair of temperatures over sweeps and blocks."""
    mean = np.average(swap_probabilities, axis=0, weights=n_chains)
    has_value = ~np.isnan(mean)
    n_values = has_value.sum(axis=0)
    total = np.where(has_value, mean, 0.0).sum(axis=0)
    return np.divide(total, n_values, out=np.full(len(total), np.nan), where=n_values > 0)


def _insert_evidence(visited, evidence, n_variables):
    """Add the observed states (evidence) to the recorded states of the other variables."""
    if not evidence:
        return visited
    states = np.empty((*visited.shape[:2], n_variables), dtype=STATE)
    free = np.setdiff1d(np.arange(n_variables), list(evidence))
    states[:, :, free] = visited[:, :, : len(free)]
    for variable, state in evidence.items():
        states[:, :, variable] = state
    return states


def diagnose_chains(energy, chains, others, rng):
    """Compare Markov chains of a training with other samples of the fitted model.

    Parameters
    ----------
    energy : DiscreteEnergy
        Fitted model.
    chains : ndarray of shape (n_chains, n_visible)
        Last states of the chains of the training.
    others : ndarray of shape (n_others, n_visible)
        Samples of the model from other starts: of a ladder or of annealed chains.
    rng : numpy.random.Generator
        Source of randomness.

    Returns
    -------
    dict of str to float
        Diagnostics of the log-probability of the states. The first two are computed from 200 Gibbs
        sweeps of all chains.

        - "autocorrelation_time": integrated autocorrelation time of Gibbs sweeps, in sweeps.
        - "r_hat": nested R-hat (potential scale reduction) of Gibbs chains from both kinds of
          starts. It is near 1 if both groups of chains have the same mean.
        - "missed": smallest share of probability that differs between the states of ``chains`` and
          of ``others``: their Kolmogorov-Smirnov distance minus its 99% quantile for equal
          distributions.

    References
    ----------
    C. Margossian et al., "Nested R-hat: assessing the convergence of Markov chain Monte Carlo when
    running many short chains", Bayesian Analysis (2024).
    """
    groups = [rng.permutation(np.asarray(X, dtype=STATE))[:N_COMPARED] for X in (chains, others)]
    missed = _distance(*(energy.log_marginal(X) for X in groups))
    X = np.concatenate(groups)
    generators, values = spawn_generators(rng, len(X)), np.empty((N_DIAGNOSED, len(X)))
    for k in range(N_DIAGNOSED):
        X, _ = sweep(energy, X, generators)
        values[k] = energy.log_marginal(X)
    return {
        "autocorrelation_time": _autocorrelation_time(values),
        "r_hat": _scale_reduction(values, len(groups[0])),
        "missed": missed,
    }


def _distance(a, b):
    """Return the Kolmogorov-Smirnov distance of two samples minus its noise, at least 0."""
    points = np.concatenate([a, b])
    shares = [np.searchsorted(np.sort(x), points, side="right") / len(x) for x in (a, b)]
    noise = NOISE * np.sqrt(1.0 / len(a) + 1.0 / len(b))
    return float(max(np.abs(shares[0] - shares[1]).max() - noise, 0.0))


def _autocorrelation_time(values):
    """Return the integrated autocorrelation time of chains, up to a correlation of 0.05."""
    centred = values - values.mean()
    n, variance, time = len(values), float((centred**2).mean()), 1.0
    for lag in range(1, n // 2):
        correlation = float((centred[lag:] * centred[:-lag]).mean()) / max(variance, 1e-300)
        if correlation <= 0.05:
            break
        time += 2.0 * correlation
    return time


def _scale_reduction(values, n_first):
    """Return nested R-hat of two groups of chains; the first n_first chains are one group."""
    groups = values[:, :n_first], values[:, n_first:]
    within = np.mean([group.var() for group in groups])
    between = np.var([group.mean() for group in groups], ddof=1)
    if within == 0:
        return 1.0 if between == 0 else np.inf
    return float(np.sqrt(1.0 + between / within))
