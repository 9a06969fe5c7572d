"""Records of Gibbs chains, plain or tempered: states and log-potentials, sweep by sweep."""

import numbers
from dataclasses import dataclass
from functools import partial

import numpy as np

from .._utils.codes import STATE, check_evidence
from .._utils.parallel import run_blocks
from .._utils.parameters import check_number
from .._utils.randomness import check_generator
from ..energies import DiscreteEnergy
from .gibbs import BLOCK, UPDATES_TO_SEND, Product, blocks_of, spawn_generators, sweep
from .gibbs_queries import check_possible
from .parallel_tempering import Replicas, adapted, check_ladder, parallel_tempering

ADAPT_EVERY = 100


@dataclass(frozen=True)
class ChainTraces:
    """What chains visited after their warm-up.

    Attributes
    ----------
    states : ndarray of shape (n_chains, n_draws, n_variables), dtype int16
        State codes of the visible variables, at inverse temperature 1.
    log_potential : ndarray of shape (n_chains, n_draws)
        log f of these states, latent variables summed out, in nats; not normalised.
    betas : ndarray of shape (n_temperatures,) or None
        Inverse temperatures, rising to 1; None of plain chains.
    swap_rates : ndarray of shape (n_temperatures - 1,) or None
        Mean probability with which neighbours of ``betas`` swapped, over chains and sweeps; nan of
        a pair that never had its turn. None of plain chains.
    round_trips : int or None
        How often a replica came to inverse temperature 1 from there by way of the hottest chain,
        all chains together; None of plain chains.
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
    evidence=None,
    random_state=None,
    n_jobs=None,
):
    r"""Run independent Gibbs chains and record where they go.

    Every chain starts at a state drawn uniformly. A tempered one is the coldest of several chains,
    of :math:`f^\beta` each, that make a sweep and then swap states with their neighbours
    (:func:`skmrf.samplers.parallel_tempering`).

    Parameters
    ----------
    energy : Energy
        Of discrete variables. Latent ones are summed out or drawn along, and not recorded.
    n_chains : int, default=4
    n_sweeps : int, default=1000
        Sweeps after the warm-up.
    n_discarded : int, default=500
        Sweeps of warm-up, which are not recorded.
    thin : int, default=1
        Record the last of every ``thin`` sweeps: ``n_sweeps // thin`` draws a chain.
    betas : int or array-like, optional
        Inverse temperatures that rise to 1, or how many: evenly spaced from 0 and then moved to
        where all neighbours would refuse swaps equally often, after every 100 sweeps of a warm-up
        of their own of ``n_discarded`` sweeps; fewer than 100 leave them as they are. By default
        chains are not tempered.
    evidence : dict of int to int, optional
        State code of every observed visible variable, which stays.
    random_state : int, Generator, RandomState or None
    n_jobs : int, optional
        Blocks of 64 chains run in parallel, by threads, or where a joblib context says if one
        takes about a second; results do not depend on it.

    Returns
    -------
    ChainTraces

    Raises
    ------
    TypeError
        An energy of numbers, or none at all.
    ValueError
        Inverse temperatures that do not rise to 1; fewer sweeps than ``thin``; evidence that names
        a missing variable or state; zero potentials that no chain got around.

    References
    ----------
    S. Syed et al., "Non-reversible parallel tempering", JRSS B (2022).

    Examples
    --------
    >>> from skmrf.datasets import make_ising
    >>> from skmrf.samplers import trace_chains
    >>> energy = make_ising("grid", n_variables=16, coupling=0.6)
    >>> traces = trace_chains(energy, betas=4, n_sweeps=200, random_state=0)
    >>> traces.states.shape, traces.swap_rates.shape
    ((4, 200, 16), (3,))
    """
    _check(energy, n_chains, n_sweeps, n_discarded, thin)
    evidence = check_evidence(evidence, energy.visible_states)
    rng = check_generator(random_state)
    target = energy.condition(evidence) if evidence else energy
    if betas is not None:
        betas = _ladder(target, betas, n_chains, n_discarded, rng)
    schedule = n_discarded, n_sweeps // thin, thin
    tasks = [
        (target, block.stop - block.start, schedule, generator)
        for block, generator in zip(
            blocks_of(n_chains), spawn_generators(rng, n_chains), strict=True
        )
    ]
    run = _plain if betas is None else partial(_tempered, betas)
    n_moves = (n_discarded + n_sweeps) * (1 if betas is None else len(betas))
    long = BLOCK * n_moves * target.sweep_work > UPDATES_TO_SEND
    visited, *swaps = zip(*run_blocks(run, tasks, n_jobs, long=long), strict=True)
    visited = np.concatenate(visited)
    if not target.has_latent:
        check_possible(target, visited[:, -1])
    states = _complete(visited, evidence, len(energy.visible_states))
    rows = states.reshape(-1, states.shape[2])
    log_potential = energy.log_marginal(rows).reshape(states.shape[:2])
    if betas is None:
        return ChainTraces(states, log_potential)
    rates = _mean_chances(swaps[0], [task[1] for task in tasks])
    return ChainTraces(states, log_potential, betas, rates, round(sum(swaps[1])))


def _check(energy, n_chains, n_sweeps, n_discarded, thin):
    if not isinstance(energy, DiscreteEnergy):
        raise TypeError(
            "trace_chains takes an energy of discrete variables, as skmrf.energies has them or "
            f"fitted estimators as energy_; got {type(energy).__name__}."
        )
    check_number("n_chains", n_chains, low=1, integer=True)
    check_number("n_sweeps", n_sweeps, low=1, integer=True)
    check_number("n_discarded", n_discarded, low=0, integer=True)
    check_number("thin", thin, low=1, high=n_sweeps, integer=True)


def _ladder(energy, betas, n_chains, n_discarded, rng):
    """Inverse temperatures as they are given, or evenly spaced and then adapted."""
    if not isinstance(betas, numbers.Integral):
        return check_ladder(betas)
    check_number("betas", betas, low=2, integer=True)
    (generator,) = spawn_generators(rng, 1)
    n_few = blocks_of(n_chains)[0].stop
    replicas, reference = _replicas(energy, np.linspace(0.0, 1.0, betas), n_few, generator)
    for k in range(1, n_discarded + 1):
        replicas, _ = parallel_tempering(energy, reference, replicas, generator)
        if k % ADAPT_EVERY == 0:
            replicas = adapted(replicas)
    return replicas.betas


def _replicas(energy, betas, n_chains, generator):
    reference = Product.uniform(energy.visible_states)
    X = reference.sample(n_chains * len(betas), generator)
    return Replicas.start(betas, X.reshape(len(betas), n_chains, -1), generator), reference


def _plain(energy, n_chains, schedule, generator):
    """States of a block of chains, shape (n_chains, n_draws, n_visible)."""
    n_discarded, n_draws, thin = schedule
    X = Product.uniform(energy.visible_states).sample(n_chains, generator)
    generators = [generator]
    X, _ = sweep(energy, X, generators, n_sweeps=n_discarded)
    visited = np.empty((n_chains, n_draws, X.shape[1]), dtype=STATE)
    for k in range(n_draws):
        X, _ = sweep(energy, X, generators, n_sweeps=thin)
        visited[:, k] = X
    return (visited,)


def _tempered(betas, energy, n_chains, schedule, generator):
    """The same of the coldest chains, chances of swaps of every sweep, and round trips."""
    n_discarded, n_draws, thin = schedule
    replicas, reference = _replicas(energy, betas, n_chains, generator)
    for _ in range(n_discarded):
        replicas, _ = parallel_tempering(energy, reference, replicas, generator)
    visited = np.empty((n_chains, n_draws, replicas.X.shape[2]), dtype=STATE)
    chances, trips = [], 0.0
    for k in range(n_draws * thin):
        replicas, info = parallel_tempering(energy, reference, replicas, generator)
        chances.append(replicas.chances)
        trips += n_chains * info["round_trips"]
        visited[:, k // thin] = replicas.X[-1]
    return visited, np.array(chances), trips


def _mean_chances(chances, n_chains):
    """Over sweeps and chains, of arrays (n_sweeps, n_pairs), one a block of chains."""
    mean = np.average(chances, axis=0, weights=n_chains)
    had_turn = ~np.isnan(mean)
    n_turns = had_turn.sum(axis=0)
    total = np.where(had_turn, mean, 0.0).sum(axis=0)
    return np.divide(total, n_turns, out=np.full(len(total), np.nan), where=n_turns > 0)


def _complete(visited, evidence, n_variables):
    """What was visited among states of all visible variables, those of latent ones left out."""
    if not evidence:
        return visited
    states = np.empty((*visited.shape[:2], n_variables), dtype=STATE)
    free = np.setdiff1d(np.arange(n_variables), list(evidence))
    states[:, :, free] = visited[:, :, : len(free)]
    for variable, state in evidence.items():
        states[:, :, variable] = state
    return states
