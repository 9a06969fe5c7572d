"""Parallel tempering, whose chains swap states between temperatures, and tempered transitions."""

from dataclasses import dataclass, replace
from functools import partial
from typing import NamedTuple

import numpy as np

from .._utils.namespaces import namespace
from .._utils.parameters import check_number
from ..energies import Energy
from .gibbs import Product, blocks_of, spawn_generators, sweep
from .smc import Tempering

NEITHER, HOT, COLD = 0, 1, 2
MEMORY = 0.99  # weight of the old value in the running mean of the rejection rates


class Rungs(NamedTuple):
    r"""Path of distributions: independent variables, models along training, and the last model.

    Position k of the path, an integer, has the unnormalised probability
    :math:`p_0^{1-\beta_k} f_k^{\beta_k}`. Position 0 has :math:`\beta_0 = 0`: independent variables
    with the normalised distribution :math:`p_0`. Nearly all other positions have
    :math:`\beta_k = 1`.

    Parameters
    ----------
    reference : Product
        Distribution :math:`p_0`.
    energies : tuple of Energy
        Models :math:`f_k`, all of the same class and size. The first one has no effect.
    betas : tuple of float
        Inverse temperatures :math:`\beta_k`; the first one is 0 and the last one is 1.
    """

    reference: Product
    energies: tuple[Energy, ...]
    betas: tuple[float, ...]

    def log_density(self, X):
        """Return a function of the position: the log-density of each row of X.

        Parameters
        ----------
        X : ndarray of shape (n_rows, n_visible)
            State codes.

        Returns
        -------
        callable
            Function that takes a position and returns an ndarray of shape (n_rows,): unnormalised
            log-densities in nats, with hidden units summed out.
        """
        return partial(self._log_density, X)

    def _log_density(self, X, position):
        energy, beta = self.energies[int(position)], self.betas[int(position)]
        if beta == 0:
            return self.reference.log_probability(X)
        if beta == 1:
            return energy.log_marginal(X)
        return Tempering(self.reference, energy).log_density(X)(beta)

    def move(self, X, position, generators, n_sweeps):
        """Move states by Gibbs sweeps, or draw new independent states at position 0.

        Parameters
        ----------
        X : ndarray of shape (n_chains, n_visible)
            State codes.
        position : float
            Position of the path.
        generators : list of numpy.random.Generator
            One generator per block of chains.
        n_sweeps : int
            Number of sweeps.

        Returns
        -------
        ndarray of shape (n_chains, n_visible)
            New state codes.
        """
        energy, beta = self.energies[int(position)], self.betas[int(position)]
        if beta == 0:
            blocks = zip(blocks_of(len(X)), generators, strict=True)
            drawn = [self.reference.sample(b.stop - b.start, rng) for b, rng in blocks]
            return np.concatenate(drawn)
        if beta == 1:
            return sweep(energy, X, generators, n_sweeps=n_sweeps)[0]
        return Tempering(self.reference, energy).move(X, beta, generators, n_sweeps)

    def between(self, low):
        """Return the model and the inverse temperature halfway between two neighbours."""
        beta = 0.5 * (self.betas[low] + self.betas[low + 1])
        energy = self.energies[low + 1]
        if beta == 1:
            energy = self.energies[low].interpolate(energy, 0.5)
        return energy, beta


@dataclass
class Replicas:
    """State of parallel tempering: Markov chains at all temperatures.

    Attributes
    ----------
    betas : ndarray of shape (n_temperatures,)
        Inverse temperatures, increasing to 1.
    X : ndarray of shape (n_temperatures, n_chains, n_visible)
        State codes.
    generators : list of lists of numpy.random.Generator
        One list per temperature, with one generator per block of chains.
    last_end : ndarray of shape (n_temperatures, n_chains)
        The end of the temperature ladder that each replica visited last: HOT, COLD or NEITHER.
    rejection_rates : ndarray of shape (n_temperatures - 1,)
        Running mean of the rejection rate of swaps, for each pair of neighbours.
    swap_probabilities : ndarray of shape (n_temperatures - 1,)
        Mean probability of a swap in the last step; nan for pairs that did not try a swap.
    log_ratios : ndarray of shape (n_temperatures - 1, 2, n_chains)
        Log ratios of the densities of the neighbours, higher position minus lower position, of the
        chains at the lower position and at the higher one, before the last swaps; nan for pairs
        that did not try a swap.
    parity : int
        0 if the even pairs try the next swaps, 1 if the odd ones do. They alternate.
    """

    betas: np.ndarray
    X: np.ndarray
    generators: list
    last_end: np.ndarray
    rejection_rates: np.ndarray
    swap_probabilities: np.ndarray
    log_ratios: np.ndarray
    parity: int = 0

    @property
    def chain_axes(self):
        """Axis of the chains, from the end, of each array that has chains."""
        return {"X": -2, "last_end": -1, "log_ratios": -1}

    @classmethod
    def start(cls, betas, X, rng):
        """Create the chains at the inverse temperatures ``betas``, with the states X.

        Parameters
        ----------
        betas : array-like of shape (n_temperatures,)
            Inverse temperatures, increasing to 1.
        X : ndarray of shape (n_temperatures, n_chains, n_visible)
            State codes.
        rng : numpy.random.Generator
            Generator from which the seeds of the chains are drawn.

        Returns
        -------
        Replicas
            Replicas that have not been moved or swapped yet.
        """
        return cls.at(check_ladder(betas), X, rng)

    @classmethod
    def at(cls, positions, X, rng):
        """Create chains at increasing positions of any path of distributions; see :meth:`start`."""
        generators = [spawn_generators(rng, X.shape[1]) for _ in positions]
        last_end = np.full(X.shape[:2], NEITHER)
        n_pairs = len(positions) - 1
        rates, probabilities = np.full(n_pairs, 0.5), np.full(n_pairs, np.nan)
        log_ratios = np.full((n_pairs, 2, X.shape[1]), np.nan)
        return cls(positions, X, generators, last_end, rates, probabilities, log_ratios)


def check_ladder(betas):
    """Check that inverse temperatures increase to 1, and return them as an array.

    Parameters
    ----------
    betas : array-like of shape (n_temperatures,)
        Inverse temperatures.

    Returns
    -------
    ndarray of float of shape (n_temperatures,)
        Inverse temperatures.

    Raises
    ------
    ValueError
        If there are fewer than two, they do not increase, or the last one is not 1.
    """
    try:
        ladder = np.asarray(betas, dtype=float)
    except (TypeError, ValueError):
        ladder = np.zeros(0)
    if ladder.ndim != 1 or len(ladder) < 2 or ladder[-1] != 1.0 or not (np.diff(ladder) > 0).all():
        raise ValueError(
            f"betas must be at least two inverse temperatures that increase to 1; got {betas!r}."
        )
    check_number("betas[0]", float(ladder[0]), low=0)
    return ladder


def parallel_tempering(energy, reference, replicas, rng):
    r"""Run a Gibbs sweep at each temperature, then propose swaps between neighbouring temperatures.

    A swap of the states x at beta and y at beta' is accepted with probability
    :math:`\min(1, p_\beta(y) p_{\beta'}(x) / p_\beta(x) p_{\beta'}(y))`. Each call proposes
    swaps for half of the neighbouring pairs. Even and odd pairs alternate, so that states travel
    along the ladder instead of diffusing.

    Parameters
    ----------
    energy : Energy
        Model of discrete variables.
    reference : Product
        Distribution at beta = 0; the target at beta is ``reference^(1-beta) f^beta``. A uniform
        reference gives plain tempering.
    replicas : Replicas
        Chains at all temperatures. They are not changed, except for their generators.
    rng : numpy.random.Generator
        Source of randomness of the swaps.

    Returns
    -------
    replicas : Replicas
        Chains after the sweeps and swaps.
    info : dict
        ``swap_rate`` is the mean fraction of accepted swaps. ``round_trips`` is the number of round
        trips completed in this step, divided by the number of chains. A replica completes a round
        trip when it returns to beta = 1 after a visit to the hottest chain, having been at beta = 1
        before.

    References
    ----------
    G. Desjardins et al., "Tempered Markov chain Monte Carlo for training of restricted Boltzmann
    machines", AISTATS (2010). S. Syed et al., "Non-reversible parallel tempering", JRSS B (2022).
    """
    return exchange(Tempering(reference, energy), replicas, rng)


def exchange(path, replicas, rng, *, n_sweeps=1):
    """Move the chains at every position of a path, then propose swaps between neighbours.

    Parameters
    ----------
    path : Tempering or Rungs
        Path of distributions, with the methods ``log_density`` and ``move``.
    replicas : Replicas
        Chains at positions of the path. They are not changed, except for their generators.
    rng : numpy.random.Generator
        Source of randomness of the swaps.
    n_sweeps : int, default=1
        Number of sweeps at each position before the swaps.

    Returns
    -------
    replicas : Replicas
        Chains after the sweeps and swaps.
    info : dict
        Diagnostics; see :func:`parallel_tempering`.
    """
    if not isinstance(rng, np.random.Generator):
        return _exchange_on_device(path, replicas, rng, n_sweeps)
    moved = [
        path.move(X, beta, generators, n_sweeps)
        for X, beta, generators in zip(replicas.X, replicas.betas, replicas.generators, strict=True)
    ]
    X, last_end = np.stack(moved), replicas.last_end.copy()
    rejection_rates = replicas.rejection_rates.copy()
    swap_probabilities = np.full(len(rejection_rates), np.nan)
    log_ratios = np.full((len(rejection_rates), 2, X.shape[1]), np.nan)
    accepted = []
    for low in range(replicas.parity, len(X) - 1, 2):
        log_ratios[low] = density_ratios(path, X[low : low + 2], replicas.betas[low : low + 2])
        probability = swap_probability(log_ratios[low])
        swapped = rng.random(X.shape[1]) < probability
        swap_probabilities[low] = probability.mean()
        pair = X[low : low + 2, swapped].copy()
        X[low : low + 2, swapped] = pair[::-1]
        last_end[low : low + 2, swapped] = last_end[low : low + 2, swapped][::-1].copy()
        rejection_rates[low] = MEMORY * rejection_rates[low] + (1.0 - MEMORY) * (
            1.0 - swap_probabilities[low]
        )
        accepted.append(swapped.mean())
    trips = _count_round_trips(last_end)
    info = {"swap_rate": float(np.mean(accepted)) if accepted else 1.0, "round_trips": trips}
    after = replace(
        replicas,
        X=X,
        last_end=last_end,
        rejection_rates=rejection_rates,
        swap_probabilities=swap_probabilities,
        log_ratios=log_ratios,
        parity=1 - replicas.parity,
    )
    return after, info


def _exchange_on_device(path, replicas, chains, n_sweeps):
    """Return the result of :func:`exchange` on a device of JAX, where all chains move together."""
    n_rungs, n_chains, n_visible = replicas.X.shape
    xp, betas = namespace(replicas.X), replicas.betas
    rows = replicas.X.reshape(-1, n_visible)
    positions = xp.repeat(betas, n_chains)
    steps = xp.broadcast_to(positions, (n_sweeps + 1, len(rows)))
    rows, _ = sweep(path.energy, rows, chains, betas=steps, reference=path.reference)
    X, density = rows.reshape(replicas.X.shape), path.log_density(rows)

    def log_density(betas):
        return density(xp.repeat(betas, n_chains)).reshape(n_rungs, n_chains)

    own, higher = log_density(betas), log_density(xp.append(betas[1:], betas[-1]))
    lower = log_density(xp.append(betas[0], betas[:-1]))
    at_low, at_high = (higher - own)[:-1], (own - lower)[1:]
    tried = (xp.arange(n_rungs - 1) % 2 == replicas.parity)[:, None]
    probability = xp.exp(xp.minimum(at_low - at_high, 0.0))
    swapped = (chains.random(probability.shape) < probability) & tried
    none = xp.zeros((1, n_chains), dtype=bool)
    up, down = xp.concat([swapped, none]), xp.concat([none, swapped])
    source = xp.arange(n_rungs)[:, None] + up.astype(int) - down.astype(int)
    rejection_rates = replicas.rejection_rates
    change = (1.0 - MEMORY) * (1.0 - probability.mean(axis=1) - rejection_rates)
    last_end = xp.take_along_axis(replicas.last_end, source, axis=0)
    trips = (last_end[-1] == HOT).mean()
    last_end = last_end.at[0].set(xp.where(last_end[0] == COLD, HOT, last_end[0]))
    after = replace(
        replicas,
        X=xp.take_along_axis(X, source[:, :, None], axis=0),
        last_end=last_end.at[-1].set(COLD),
        rejection_rates=rejection_rates + tried[:, 0] * change,
        swap_probabilities=xp.where(tried[:, 0], probability.mean(axis=1), xp.nan),
        log_ratios=xp.where(tried[:, None], xp.stack([at_low, at_high], axis=1), xp.nan),
        parity=1 - replicas.parity,
    )
    n_tried = xp.maximum(tried.sum(), 1)
    rate = xp.where(tried.any(), swapped.mean(axis=1).sum() / n_tried, 1.0)
    return after, {"swap_rate": rate, "round_trips": trips}


def density_ratios(path, X, positions):
    """Return log ratios of the densities at two positions of a path, for chains at both of them.

    Parameters
    ----------
    path : Tempering or Rungs
        Path of distributions.
    X : ndarray of shape (2, n_chains, n_visible)
        State codes of the chains at the two positions.
    positions : sequence of two floats
        The positions, the lower one first.

    Returns
    -------
    ndarray of shape (2, n_chains)
        Log-density at the higher position minus that at the lower position, in nats. A ratio of
        two zero densities is 0.
    """
    low, high = (float(p) for p in positions)
    with np.errstate(invalid="ignore"):  # -inf minus -inf
        ratios = [at(high) - at(low) for at in map(path.log_density, X)]
    return np.where(np.isnan(ratios), 0.0, ratios)


def swap_probability(log_ratios):
    """Return the probability of a swap of two states, from the result of :func:`density_ratios`.

    It is 0 if a state would get probability zero.
    """
    at_low, at_high = log_ratios
    xp, possible = namespace(log_ratios), (at_low > -np.inf) & (at_high < np.inf)
    with np.errstate(invalid="ignore"):
        return xp.where(possible, xp.exp(xp.minimum(at_low - at_high, 0.0)), 0.0)


def _count_round_trips(last_end):
    """Count each chain's round trips between the lowest and the highest temperature."""
    done = last_end[-1] == HOT
    last_end[0][last_end[0] == COLD] = HOT
    last_end[-1] = COLD
    return float(done.mean())


def adapt_ladder(replicas, is_due=True):
    """Return the chains at new inverse temperatures that make all swap rejection rates equal.

    Parameters
    ----------
    replicas : Replicas
        Replicas with the rejection rates of the sweeps so far.
    is_due : bool, default=True
        Whether the inverse temperatures change.

    Returns
    -------
    Replicas
        The same chains with new ``betas``.
    """
    if is_due is False:
        return replicas
    xp, old = namespace(replicas.betas), replicas.betas
    rates = xp.maximum(replicas.rejection_rates, 1e-3)
    cumulative = xp.append(0.0, xp.cumsum(rates))  # numpy 2.0 has no cumulative_sum
    targets = xp.linspace(0.0, cumulative[-1], len(old))
    betas = xp.append(xp.interp(targets, cumulative, old)[:-1], 1.0)
    return replace(replicas, betas=xp.where(is_due, betas, old))


def tempered_transition(energy, X, generators, rng, betas, reference):
    r"""Make one tempered transition of each chain; it leaves the model's distribution invariant.

    On the way up, the log weight of a chain increases at each temperature by the change of the
    log-density, and a Gibbs sweep follows. On the way down the same steps are made with reversed
    sweeps. The final state is accepted with probability :math:`\min(1, e^w)` for the log weight
    :math:`w`.

    Parameters
    ----------
    energy : Energy
        Model of discrete variables.
    X : ndarray of shape (n_chains, n_visible)
        State codes of the chains.
    generators : list of numpy.random.Generator
        One generator per block of chains, from :func:`skmrf.samplers.spawn_generators`.
    rng : numpy.random.Generator
        Source of randomness of the acceptance.
    betas : ndarray of shape (n_temperatures,)
        Inverse temperatures, decreasing from 1 to that of the hottest distribution.
    reference : Product
        Distribution at beta = 0; the target at beta is ``reference^(1-beta) f^beta``. A uniform
        reference gives plain tempering.

    Returns
    -------
    X : ndarray of shape (n_chains, n_visible)
        Final states of accepted transitions, and the old states of rejected ones.
    accepted : ndarray of bool of shape (n_chains,)
        True for chains whose transition was accepted.

    References
    ----------
    R. M. Neal, "Sampling from multimodal distributions using tempered transitions", Statistics and
    Computing 6 (1996).
    """
    hot, up = sweep(energy, X, generators, betas=betas, reference=reference)
    back = np.append(betas[-1], betas[:0:-1])  # begins with a sweep at the highest temperature
    end, down = sweep(energy, hot, generators, betas=back, reference=reference, reverse=True)
    density, xp = Tempering(reference, energy).log_density(end), namespace(X)
    target = density(1.0)
    last = xp.where(target > -np.inf, density(float(betas[1])), 0.0)  # -inf - -inf would be nan
    log_accept = up + down + target - last
    accepted = xp.log(rng.random(len(X))) < log_accept
    return xp.where(accepted[:, None], end, X), accepted
