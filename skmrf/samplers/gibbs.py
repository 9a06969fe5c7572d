"""Gibbs sampling, tempered towards a product distribution, over blocks of chains."""

from typing import NamedTuple

import numpy as np

from .._kernels.gibbs import binary_field, sweep_binary, sweep_tables
from .._utils.codes import STATE
from .._utils.parallel import run_blocks
from .._utils.rows import dense_rows
from ..energies.conditionals import BinaryConditionals, BipartiteConditionals
from .block_gibbs import sweep_layers

BLOCK = 64
CHUNK = 4096  # rows counted at once
UPDATES_A_CALL = 4_000_000
UPDATES_TO_SEND = 20_000_000  # about a second


class Product(NamedTuple):
    """Independent variables: log-probabilities side by side, and where each variable's start.

    Parameters
    ----------
    log_p : ndarray of shape (sum of n_states,)
        Log-probabilities in nats.
    start : ndarray of int of shape (n_variables,)
    """

    log_p: np.ndarray
    start: np.ndarray

    @classmethod
    def uniform(cls, n_states):
        """Every state of a variable equally likely."""
        n_states = np.asarray(n_states)
        return cls(np.repeat(-np.log(n_states), n_states), np.cumsum(n_states) - n_states)

    @classmethod
    def from_counts(cls, X, n_states, weights=None):
        """State frequencies of the rows of X, weighted; each state counted half once more."""
        n_states = np.asarray(n_states)
        start = np.cumsum(n_states) - n_states
        counts = np.full(int(n_states.sum()), 0.5)
        for s in range(0, X.shape[0], CHUNK):
            codes = dense_rows(X[s : s + CHUNK]) + start
            heavy = None
            if weights is not None:
                heavy = np.repeat(weights[s : s + CHUNK], codes.shape[1])
            counts += np.bincount(codes.ravel(), heavy, minlength=len(counts))
        total = np.add.reduceat(counts, start)
        return cls(np.log(counts / np.repeat(total, n_states)), start)

    def log_probability(self, X):
        """Log-probability of every row of state codes."""
        if len(self.log_p) == 2 * len(self.start):  # of two states each
            low, high = self.log_p[0::2], self.log_p[1::2]
            return X @ (high - low) + low.sum()
        return self.log_p[X + self.start].sum(axis=1)

    def sample(self, n_rows, rng):
        """Independent rows of state codes."""
        n_states = np.diff(np.append(self.start, len(self.log_p)))
        if (n_states == 2).all():
            X = rng.random((n_rows, len(n_states))) < np.exp(self.log_p[self.start + 1])
            return X.astype(STATE)
        X = np.empty((n_rows, len(n_states)), dtype=STATE)
        for i, q in enumerate(n_states):
            p = np.exp(self.log_p[self.start[i] : self.start[i] + q])
            X[:, i] = np.minimum(np.searchsorted(np.cumsum(p), rng.random(n_rows)), q - 1)
        return X


def spawn_generators(rng, n_chains):
    """One Generator for every block of chains, drawn from ``rng``.

    Parameters
    ----------
    rng : Generator
    n_chains : int

    Returns
    -------
    list of Generator
    """
    n_blocks = -(-n_chains // BLOCK)
    seeds = np.random.SeedSequence(rng.integers(0, 2**63, size=2).tolist())
    return [np.random.default_rng(s) for s in seeds.spawn(n_blocks)]


def blocks_of(n_chains):
    """The slices of chains that have a generator each.

    Parameters
    ----------
    n_chains : int

    Returns
    -------
    list of slice
        Of 64 chains, the last of what is left.
    """
    return [slice(s, min(s + BLOCK, n_chains)) for s in range(0, n_chains, BLOCK)]


def sweep(
    energy,
    X,
    generators,
    *,
    n_sweeps=1,
    betas=None,
    base=None,
    clamped=None,
    reverse=False,
    n_jobs=None,
):
    """Gibbs sweeps of all chains: site by site in order, or layer by layer in bipartite models.

    Each sweep leaves the target at its inverse temperature invariant: ``base^(1-beta) f^beta``.

    Parameters
    ----------
    energy : Energy
    X : ndarray of shape (n_chains, n_visible), dtype STATE
        Where the chains stand: states of the visible variables, which are all but those of a hidden
        layer. Not changed.
    generators : list of numpy.random.Generator
        One for every block of 64 chains, from :func:`spawn_generators`; the list is updated to
        generators that have advanced.
    n_sweeps : int, default=1
        Sweeps at beta = 1; not used when ``betas`` is given.
    betas : ndarray of shape (n_sweeps + 1,), optional
        Path of inverse temperatures.
    base : Product, optional
        End of the path at beta = 0; uniform by default.
    clamped : ndarray of bool of shape (n_chains, n_visible), optional
        Entries that stay as they are.
    reverse : bool, default=False
        Visit the sites from the last to the first (the reversal of the forward sweep).
    n_jobs : int, optional
        Blocks run in parallel, by threads, or where a joblib context says if one takes about a
        second; results do not depend on it. Layers are matrix products of all chains and do not
        use it.

    Returns
    -------
    X : ndarray, where the chains end
    log_weights : ndarray of shape (n_chains,), annealed importance weights along ``betas``
    """
    betas = np.ones(n_sweeps + 1) if betas is None else np.ascontiguousarray(betas, dtype=float)
    base = Product.uniform(energy.visible_states) if base is None else base
    clamped = np.zeros((0, 0), dtype=bool) if clamped is None else clamped
    X = np.array(X, dtype=STATE, order="C")
    log_weights = np.zeros(len(X))
    if len(X) == 0:
        return X, log_weights
    conditionals = energy.conditionals()
    blocks = blocks_of(len(X))
    if isinstance(conditionals, BipartiteConditionals):
        X = sweep_layers(conditionals, base, betas, X, clamped, log_weights, generators, blocks)
        return X, log_weights
    order = np.flatnonzero(np.asarray(energy.n_states) > 1)
    order = order[::-1].copy() if reverse else order
    run = _binary_block if isinstance(conditionals, BinaryConditionals) else _table_block
    tasks = [
        (conditionals, base, betas, order, X[b], clamped[b], log_weights[b], rng)
        for b, rng in zip(blocks, generators, strict=True)
    ]
    long = BLOCK * (len(betas) - 1) * energy.sweep_work > UPDATES_TO_SEND
    done = list(run_blocks(run, tasks, n_jobs, long=long))
    generators[:] = [rng for _, _, rng in done]
    return np.concatenate([x for x, _, _ in done]), np.concatenate([w for _, w, _ in done])


def _pieces(betas, updates_a_sweep):
    """The path cut so that one kernel call stays short and Ctrl-C is seen."""
    length = max(1, UPDATES_A_CALL // max(updates_a_sweep, 1))
    return [betas[s : s + length + 1] for s in range(0, len(betas) - 1, length)]


def _writeable(array):
    """Process backends hand over read-only memory maps."""
    return array if array.flags.writeable else array.copy()


def _table_block(conditionals, base, betas, order, X, clamped, log_weights, rng):
    X, log_weights = _writeable(X), _writeable(log_weights)
    work = len(X) * len(conditionals.clique_vars)
    for piece in _pieces(betas, work):
        sweep_tables(
            conditionals, base.log_p, base.start, piece, order, X, clamped, log_weights, rng
        )
    return X, log_weights, rng


def _binary_block(conditionals, base, betas, order, X, clamped, log_weights, rng):
    X, log_weights = _writeable(X), _writeable(log_weights)
    field = np.empty(X.shape)
    binary_field(X, conditionals.coupling, conditionals.bias, field)
    for piece in _pieces(betas, X.size * 8):
        sweep_binary(
            conditionals, base.log_p, base.start, piece, order, X, field, clamped, log_weights, rng
        )
    return X, log_weights, rng
