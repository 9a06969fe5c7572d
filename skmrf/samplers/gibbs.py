"""Gibbs sampling of single variables or of whole layers, in blocks of chains."""

from dataclasses import dataclass, field

import numpy as np

from .._kernels._jit import read_only
from .._kernels.gibbs import sweep_coupled
from .._kernels.layers import BLOCK, sweep_from_hidden
from .._kernels.tables import sweep_tables
from .._utils.codes import STATE
from .._utils.interrupts import InterruptLater
from .._utils.namespaces import is_numpy, namespace
from .._utils.parallel import run_blocks
from .._utils.rows import dense_rows
from ..energies.conditionals import (
    BipartiteConditionals,
    StateConditionals,
    TableConditionals,
)
from .layers import (
    align_couplings,
    bipartite_arrays,
    float_of_sweeps,
    is_one_call,
    make_scan,
    random_seeds,
    reference_odds,
    single_calls,
    split_path,
    sweep_coupled_layers,
    sweep_layers,
    sweep_on_device,
    sweep_tables_of_pairs,
)

UPDATES_PER_UNIT = 50_000  # draws of a part of the chains that is worth a thread, about a ms
MAX_BLOCKS_PER_UNIT = 8
N_UNITS = 16  # of short blocks; more threads would wait for Python's lock
UPDATES_OF_SHORT_BLOCK = 4 * UPDATES_PER_UNIT
CHUNK = 4096  # rows counted at once
UPDATES_TO_SEND = 20_000_000  # takes about a second
ANNEALING_BETAS = np.minimum(np.linspace(0.0, 1.25, 201), 1.0)  # inverse temperatures of annealing


@dataclass(frozen=True, eq=False)
class Product:
    """Distribution of independent discrete variables.

    Parameters
    ----------
    log_p : ndarray of shape (sum of n_states,)
        Log-probabilities of the states of all variables, concatenated, in nats.
    start : ndarray of int of shape (n_variables,)
        Index in ``log_p`` of the first state of each variable.

    Attributes
    ----------
    is_binary : bool
        True if each variable has two states.
    """

    log_p: np.ndarray
    start: np.ndarray
    is_binary: bool = field(init=False)

    def __post_init__(self):
        """Set ``is_binary``, which a compiled function of JAX cannot compute from its arrays."""
        first = np.arange(0, len(self.log_p), 2)
        is_binary = len(self.log_p) == 2 * len(first) and np.array_equal(self.start, first)
        object.__setattr__(self, "is_binary", bool(is_binary))

    @classmethod
    def uniform(cls, n_states):
        """Return the uniform distribution over all states.

        Parameters
        ----------
        n_states : array-like of int of shape (n_variables,)
            Number of states of each variable.

        Returns
        -------
        Product
            All states of a variable have the same probability.
        """
        n_states = np.asarray(n_states)
        return cls(np.repeat(-np.log(n_states), n_states), np.cumsum(n_states) - n_states)

    @classmethod
    def from_counts(cls, X, n_states, weights=None):
        """Return a product distribution with the state frequencies of the rows, which are smoothed.

        Half a count is added to each state, so that no probability is zero.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n_rows, n_variables)
            State codes, without missing values.
        n_states : array-like of int of shape (n_variables,)
            Number of states of each variable.
        weights : ndarray of shape (n_rows,), optional
            Weights of the rows; by default all are 1.

        Returns
        -------
        Product
            Smoothed state frequencies.
        """
        n_states = np.asarray(n_states)
        start = np.cumsum(n_states) - n_states
        counts = np.full(int(n_states.sum()), 0.5)
        for s in range(0, X.shape[0], CHUNK):
            codes = dense_rows(X[s : s + CHUNK]) + start
            repeated_weights = None
            if weights is not None:
                repeated_weights = np.repeat(weights[s : s + CHUNK], codes.shape[1])
            counts += np.bincount(codes.ravel(), repeated_weights, minlength=len(counts))
        total = np.add.reduceat(counts, start)
        return cls(np.log(counts / np.repeat(total, n_states)), start)

    def log_probability(self, X):
        """Return the log-probability of each row of states, in nats.

        Parameters
        ----------
        X : ndarray of shape (n_rows, n_variables)
            State codes.

        Returns
        -------
        ndarray of shape (n_rows,)
            Log-probabilities.
        """
        if self.is_binary:
            low, high = self.log_p[0::2], self.log_p[1::2]
            return X @ (high - low) + low.sum()
        return self.log_p[X + self.start].sum(axis=1)

    def sample(self, n_rows, rng):
        """Draw independent rows of states.

        Parameters
        ----------
        n_rows : int
            Number of samples.
        rng : numpy.random.Generator, or DeviceChains
            Source of randomness. With ``DeviceChains``, the result is an array of JAX.

        Returns
        -------
        ndarray of shape (n_rows, n_variables)
            State codes.
        """
        if self.is_binary:
            p = namespace(self.log_p).exp(self.log_p[1::2])
            return (rng.random((n_rows, len(p))) < p).astype(STATE)
        if not isinstance(rng, np.random.Generator):
            return self._sample_on_device(n_rows, rng)
        n_states = np.diff(np.append(self.start, len(self.log_p)))
        X = np.empty((n_rows, len(n_states)), dtype=STATE)
        for i, q in enumerate(n_states):
            p = np.exp(self.log_p[self.start[i] : self.start[i] + q])
            X[:, i] = np.minimum(np.searchsorted(np.cumsum(p), rng.random(n_rows)), q - 1)
        return X

    def _sample_on_device(self, n_rows, chains):
        """Return the result of :meth:`sample` as an array of JAX, by the Gumbel-max method."""
        uniform = chains.random((n_rows, len(self.log_p)))
        xp, state = namespace(uniform), np.arange(len(self.log_p))
        start = xp.asarray(self.start)
        owner = xp.searchsorted(start, state, side="right") - 1
        noisy = self.log_p - xp.log(-xp.log(uniform))
        lowest = xp.full((n_rows, len(start)), -np.inf)
        is_best = noisy == lowest.at[:, owner].max(noisy)[:, owner]
        codes = xp.where(is_best, state - start[owner], 0)
        return xp.zeros(lowest.shape, STATE).at[:, owner].max(codes.astype(STATE))


def spawn_generators(rng, n_chains, device=None):
    """Return a list with one random generator for each block of 64 chains.

    Parameters
    ----------
    rng : numpy.random.Generator, or DeviceChains
        Generator from which the seeds are drawn; chains of a device are returned as they are.
    n_chains : int
        Number of chains.
    device : Device, optional
        Device of JAX on which the chains move.

    Returns
    -------
    list of numpy.random.Generator, or DeviceChains
        One generator per block; the last block can have fewer than 64 chains. With a device, its
        chains.
    """
    if device is not None:
        return device.chains(rng)
    if not isinstance(rng, np.random.Generator):
        return rng
    n_blocks = -(-n_chains // BLOCK)
    seeds = np.random.SeedSequence(rng.integers(0, 2**63, size=2).tolist())
    return [np.random.default_rng(s) for s in seeds.spawn(n_blocks)]


def blocks_of(n_chains):
    """Return slices that divide chains into blocks of 64; a block has one random generator.

    Parameters
    ----------
    n_chains : int
        Number of chains.

    Returns
    -------
    list of slice
        Slices of 64 chains; the last one has the remaining chains.
    """
    return [slice(s, min(s + BLOCK, n_chains)) for s in range(0, n_chains, BLOCK)]


def sweep(
    energy,
    X,
    generators,
    *,
    n_sweeps=1,
    betas=None,
    reference=None,
    clamped=None,
    reverse=False,
    n_jobs=None,
):
    """Run Gibbs sweeps of all chains.

    A sweep updates the variables one after the other, or layer by layer in bipartite models. If all
    variables have two states and interact in pairs, pairs with a strong coupling (above 4 nats for
    states 0 and 1) can also change together. Each sweep leaves the target at its inverse
    temperature, ``reference^(1-beta) f^beta``, invariant.

    Parameters
    ----------
    energy : Energy
        Model of discrete variables.
    X : ndarray of int of shape (n_chains, n_visible)
        State codes of the visible variables at which the chains start. The visible variables are
        all variables except those of a hidden layer. The array is not changed.
    generators : list of numpy.random.Generator, or DeviceChains
        One generator for each block of 64 chains, from :func:`spawn_generators`. The list is
        updated in place: afterwards it contains the advanced generators. With the ``DeviceChains``
        of a device of JAX, the chains move there, and ``X`` may be an array of JAX.
    n_sweeps : int, default=1
        Number of sweeps at beta = 1. Ignored if ``betas`` is given.
    betas : ndarray of shape (n_sweeps + 1,), optional
        Path of inverse temperatures: the first one is the start of the path, and one sweep is made
        at each of the others.
    reference : Product, optional
        Distribution at beta = 0; uniform by default.
    clamped : ndarray of bool of shape (n_chains, n_visible), optional
        True for entries that keep their state. By default no entry is clamped.
    reverse : bool, default=False
        Visit the variables from the last to the first. This is the reversal of the forward sweep.
    n_jobs : int, optional
        Number of blocks of chains that run in parallel. They run in threads, or in the workers of
        an active joblib context if one takes about a second. Results do not depend on it.

    Returns
    -------
    X : ndarray of int of shape (n_chains, n_visible)
        State codes at which the chains end.
    log_weights : ndarray of shape (n_chains,)
        Log weights of annealed importance sampling along ``betas``, in nats.
    """
    betas = np.ones(n_sweeps + 1) if betas is None else betas
    betas = np.ascontiguousarray(betas, dtype=float) if is_numpy(betas) else betas
    reference = Product.uniform(energy.visible_states) if reference is None else reference
    clamped = np.zeros((0, 0), dtype=bool) if clamped is None else clamped
    X = np.array(X, dtype=STATE, order="C") if is_numpy(X) else X
    _check_chains(energy, X, clamped, generators)
    log_weights = np.zeros(len(X))
    if len(X) == 0:
        return X, log_weights
    conditionals = energy.conditionals()
    if not isinstance(generators, list):
        return sweep_on_device(
            conditionals, reference, betas, X, clamped, generators, reverse=reverse
        )
    clamped = read_only(np.ascontiguousarray(clamped))
    updates = np.flatnonzero(np.asarray(energy.visible_states) > 1)
    updates = updates[::-1].copy() if reverse else updates
    run, n_blocks = _sweep_function(conditionals), 1
    if run is not _sweep_tables:
        n_blocks = blocks_per_unit(energy, len(X), len(betas) - 1)
    if run is sweep_coupled_layers:
        dtype = float_of_sweeps(conditionals, betas, updates)
        conditionals, reference = align_couplings(conditionals, dtype), reference_odds(reference)
        updates = make_scan([conditionals.coupling], updates, reverse=reverse)
    parts = split_chains(len(X), generators, n_blocks)
    if run is sweep_coupled_layers and is_one_call(conditionals, betas, n_blocks * BLOCK):
        given = conditionals, reference, betas, updates, X, clamped, log_weights
        list(run_blocks(sweep_coupled, single_calls(*given, parts), n_jobs))
        return X, log_weights
    tasks = []
    for chains, rngs in parts:
        arrays = X[chains], clamped[chains], log_weights[chains]
        given = _conditionals_of(conditionals, chains), reference
        tasks.append((run, given, betas, updates, *arrays, rngs))
    long = n_blocks * BLOCK * (len(betas) - 1) * energy.sweep_work > UPDATES_TO_SEND
    done = list(run_blocks(_sweep_block, tasks, n_jobs, long=long))
    generators[:] = [rng for *_, rngs in done for rng in rngs]
    for (*_, x, _, w, _), (moved, increased, _) in zip(tasks, done, strict=True):
        if moved is not x:  # another process moved a copy of the chains
            x[:], w[:] = moved, increased
    return X, log_weights


def _check_chains(energy, X, clamped, generators):
    """Raise a ValueError for arrays of wrong shapes, which compiled functions do not check."""
    n = len(energy.visible_states)
    if X.ndim != 2 or X.shape[1] != n:
        raise ValueError(f"X must have shape (n_chains, {n}); got {tuple(X.shape)}.")
    if clamped.size and clamped.shape != X.shape:
        raise ValueError(f"clamped must have the shape of X, {X.shape}; got {clamped.shape}.")
    n_blocks = -(-len(X) // BLOCK)
    if isinstance(generators, list) and len(generators) < n_blocks:
        raise ValueError(
            f"{len(X)} chains need {n_blocks} generators, one for each {BLOCK} chains; got "
            f"{len(generators)}. Use skmrf.samplers.spawn_generators."
        )


def annealed_states(energy, n_chains, rng, *, betas=ANNEALING_BETAS, n_jobs=None, device=None):
    """Return the distinct final states of annealed Gibbs chains; omit states of probability zero.

    Parameters
    ----------
    energy : DiscreteEnergy
        Model.
    n_chains : int
        Number of chains.
    rng : Generator
        Source of randomness.
    betas : ndarray, optional
        Inverse temperatures. By default they increase from 0 to 1, and stay at 1 for some sweeps.
    n_jobs : int, optional
        Number of threads over blocks of chains. Results do not depend on it.
    device : Device, optional
        Device of JAX on which the chains move.

    Returns
    -------
    ndarray of shape (n_states, n_visible)
        State codes of the visible variables, one row per distinct state.
    """
    X = Product.uniform(energy.visible_states).sample(n_chains, rng)
    generators = spawn_generators(rng, n_chains, device)
    X, _ = sweep(energy, X, generators, betas=betas, n_jobs=n_jobs)
    X = np.unique(X, axis=0)
    return X[energy.log_marginal(X) > -np.inf]


def blocks_per_unit(energy, n_chains, n_sweeps):
    """Return the number of blocks of chains that are moved together, by matrix products.

    They take at least about a millisecond. If a block takes less than about four milliseconds, up
    to 8,192 chains are at most 16 units. The number does not depend on the number of threads, so
    that results do not.

    Parameters
    ----------
    energy : Energy
        Model.
    n_chains : int
        Number of chains.
    n_sweeps : int
        Number of sweeps.

    Returns
    -------
    int
        Number of blocks, from 1 to 8.
    """
    updates = max(BLOCK * n_sweeps * energy.sweep_work, 1.0)
    n_blocks = UPDATES_PER_UNIT / updates
    if updates < UPDATES_OF_SHORT_BLOCK:
        n_blocks = max(n_blocks, n_chains / (BLOCK * N_UNITS))
    return int(np.clip(np.ceil(n_blocks), 1, MAX_BLOCKS_PER_UNIT))


def split_chains(n_chains, generators, n_blocks):
    """Return the chains and the generators of each unit of parallel work.

    Parameters
    ----------
    n_chains : int
        Number of chains.
    generators : list of numpy.random.Generator
        One generator per block of chains.
    n_blocks : int
        Number of blocks of a unit.

    Returns
    -------
    list of (slice, list of numpy.random.Generator)
        Chains and generators of each unit.
    """
    firsts = range(0, -(-n_chains // BLOCK), n_blocks)
    return [
        (slice(k * BLOCK, (k + n_blocks) * BLOCK), generators[k : k + n_blocks]) for k in firsts
    ]


def _conditionals_of(conditionals, chains):
    """Return the conditionals of a part of the chains, whose biases may differ."""
    if not isinstance(conditionals, BipartiteConditionals):
        return conditionals
    weights, *biases = conditionals
    biases = (b if len(b) == 1 else b[chains] for b in biases)
    return BipartiteConditionals(weights, *biases)


def _sweep_function(conditionals):
    """Return the function that sweeps a part of the chains."""
    if isinstance(conditionals, BipartiteConditionals):
        return sweep_layers
    if isinstance(conditionals, StateConditionals):
        return sweep_tables_of_pairs
    return _sweep_tables if isinstance(conditionals, TableConditionals) else sweep_coupled_layers


def _sweep_tables(conditionals, reference, betas, order, X, clamped, log_weights, rngs):
    (rng,) = rngs
    for piece in split_path(betas, len(X) * len(conditionals.clique_vars), len(betas)):
        with InterruptLater():  # a kernel that uses a generator must not be interrupted
            sweep_tables(
                conditionals,
                reference.log_p,
                reference.start,
                piece,
                order,
                X,
                clamped,
                log_weights,
                rng,
            )


def _sweep_block(run, given, betas, order, X, clamped, log_weights, rngs):
    """Return the states, log weights and generators of a part of the chains after its sweeps."""
    if not X.flags.writeable:  # joblib passed read-only memory maps
        X, log_weights = X.copy(), log_weights.copy()
    run(*given, betas, order, X, clamped, log_weights, rngs)
    return X, log_weights, rngs


def move_from_hidden(energy, H, generators, n_sweeps):
    """Run Gibbs sweeps of a bipartite model, starting from states of the hidden units.

    Parts of the chains run in parallel threads. Results do not depend on the number of threads.

    Parameters
    ----------
    energy : LayeredEnergy
        Model. Its biases are the same for all chains, or have one row for each chain.
    H : ndarray of shape (n_chains, n_hidden), dtype of the weights
        Hidden states at which the chains start.
    generators : list of numpy.random.Generator, or DeviceChains
        One generator per block of chains, or chains on a device of JAX.
    n_sweeps : int
        Number of sweeps.

    Returns
    -------
    X, means, H : arrays
        Visible states of the last sweep, the means of the hidden units given these states, and
        hidden states that are sampled with these means.
    """
    if not isinstance(generators, list):
        return generators.alternate(energy.conditionals(), H, n_sweeps)
    conditionals, n_chains = energy.conditionals(), len(H)
    n_visible, n_hidden = conditionals.weights.shape
    if H.shape != (n_chains, n_hidden):
        raise ValueError(f"H must have shape (n_chains, {n_hidden}); got {H.shape}.")
    H = H.astype(conditionals.weights.dtype, copy=False)
    results = np.empty((n_chains, n_visible), STATE), *(np.empty_like(H) for _ in range(2))
    if n_chains == 0:
        return results
    seeds = random_seeds(generators, 2 * n_sweeps)
    arrays = seeds, read_only(np.ascontiguousarray(H))
    given = *bipartite_arrays(conditionals, n_chains), *arrays, *results
    size = BLOCK * blocks_per_unit(energy, n_chains, n_sweeps)
    units = [(*given, s, min(s + size, n_chains)) for s in range(0, n_chains, size)]
    list(run_blocks(sweep_from_hidden, units, None))
    return results
