"""Parallel tempering: chains at several temperatures that swap states with their neighbours."""

from dataclasses import dataclass, replace

import numpy as np

from .._utils.parameters import check_number
from .gibbs import spawn_generators
from .smc import Tempering

NEITHER, HOT, COLD = 0, 1, 2
MEMORY = 0.99  # of the running mean of refusals


@dataclass
class Replicas:
    """Chains at every temperature.

    Attributes
    ----------
    betas : ndarray of shape (n_temperatures,)
        Rising to 1.
    X : ndarray of shape (n_temperatures, n_chains, n_visible)
    generators : list of lists of Generator, one list a temperature
    visited : ndarray of shape (n_temperatures, n_chains)
        Which end of the ladder each replica has seen last.
    refusals : ndarray of shape (n_temperatures - 1,)
        Running share of refused swaps of every pair of neighbours.
    chances : ndarray of shape (n_temperatures - 1,)
        Mean probability of a swap in the last step; nan of pairs whose turn it was not.
    parity : int
        Which pairs swap next: even and odd ones take turns.
    """

    betas: np.ndarray
    X: np.ndarray
    generators: list
    visited: np.ndarray
    refusals: np.ndarray
    chances: np.ndarray
    parity: int = 0

    @classmethod
    def start(cls, betas, X, rng):
        """Chains at ``betas``, from states (n_temperatures, n_chains, n_visible)."""
        betas = check_ladder(betas)
        generators = [spawn_generators(rng, X.shape[1]) for _ in betas]
        visited = np.full(X.shape[:2], NEITHER)
        n_pairs = len(betas) - 1
        return cls(betas, X, generators, visited, np.full(n_pairs, 0.5), np.full(n_pairs, np.nan))


def check_ladder(betas):
    """Inverse temperatures that rise to 1.

    Parameters
    ----------
    betas : array-like of shape (n_temperatures,)

    Returns
    -------
    ndarray of float

    Raises
    ------
    ValueError
        Fewer than two, not rising, or not ending at 1.
    """
    betas = np.asarray(betas, dtype=float)
    if betas.ndim != 1 or len(betas) < 2 or betas[-1] != 1.0 or not (np.diff(betas) > 0).all():
        raise ValueError(
            f"betas must rise to 1 and be at least two inverse temperatures; got {betas!r}."
        )
    check_number("betas[0]", float(betas[0]), low=0)
    return betas


def parallel_tempering(energy, reference, replicas, rng, *, n_sweeps=1):
    r"""Sweeps at every temperature, then swaps of half of the neighbours.

    A swap of the states x at beta and y at beta' is made with probability
    :math:`\min(1, p_\beta(y) p_{\beta'}(x) / p_\beta(x) p_{\beta'}(y))`. Even and odd pairs take
    turns, so that states travel along the ladder instead of diffusing.

    Parameters
    ----------
    energy : Energy
    reference : Product
        What is mixed in at ``beta < 1``; uniform for plain tempering.
    replicas : Replicas
    rng : numpy.random.Generator
        For the swaps.
    n_sweeps : int, default=1

    Returns
    -------
    replicas : Replicas
    info : dict
        ``swap_rate``: mean share of accepted swaps; ``round_trips``: replicas that came to beta = 1
        after a visit to the hottest chain and left from here before, as a share of the chains.

    References
    ----------
    G. Desjardins et al., "Tempered Markov chain Monte Carlo for training of restricted Boltzmann
    machines", AISTATS (2010). S. Syed et al., "Non-reversible parallel tempering", JRSS B (2022).
    """
    path = Tempering(reference, energy)
    moved = [
        path.move(X, beta, generators, n_sweeps)
        for X, beta, generators in zip(replicas.X, replicas.betas, replicas.generators, strict=True)
    ]
    X, visited = np.stack(moved), replicas.visited.copy()
    refusals = replicas.refusals.copy()
    chances = np.full(len(refusals), np.nan)
    accepted = []
    for low in range(replicas.parity, len(X) - 1, 2):
        swapped, chances[low] = _swaps(path, X, replicas.betas, low, rng)
        pair = X[low : low + 2, swapped].copy()
        X[low : low + 2, swapped] = pair[::-1]
        visited[low : low + 2, swapped] = visited[low : low + 2, swapped][::-1].copy()
        refusals[low] = MEMORY * refusals[low] + (1.0 - MEMORY) * (1.0 - chances[low])
        accepted.append(swapped.mean())
    trips = _mark_ends(visited)
    info = {"swap_rate": float(np.mean(accepted)) if accepted else 1.0, "round_trips": trips}
    after = replace(
        replicas,
        X=X,
        visited=visited,
        refusals=refusals,
        chances=chances,
        parity=1 - replicas.parity,
    )
    return after, info


def _swaps(path, X, betas, low, rng):
    """Which chains swap between two temperatures, and the mean probability of it."""
    cold, hot = float(betas[low + 1]), float(betas[low])
    at_hot, at_cold = path.log_density(X[low]), path.log_density(X[low + 1])
    gain = at_hot(cold) - at_hot(hot) + at_cold(hot) - at_cold(cold)
    probability = np.exp(np.minimum(gain, 0.0))
    return rng.random(X.shape[1]) < probability, float(probability.mean())


def _mark_ends(visited):
    """Note who is at an end of the ladder; the share of chains that complete a round trip."""
    done = visited[-1] == HOT
    visited[0][visited[0] == COLD] = HOT
    visited[-1] = COLD
    return float(done.mean())


def adapted(replicas):
    """The same chains at inverse temperatures at which all swaps would be refused equally often.

    Parameters
    ----------
    replicas : Replicas
        With the refusals of the sweeps so far.

    Returns
    -------
    Replicas
    """
    refused = np.maximum(replicas.refusals, 1e-3)
    reached = np.append(0.0, np.cumsum(refused))
    wanted = np.linspace(0.0, reached[-1], len(replicas.betas))
    betas = np.interp(wanted, reached, replicas.betas)
    betas[-1] = 1.0
    return replace(replicas, betas=betas)
