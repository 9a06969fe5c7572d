"""Exact sums over all states of binary models with dense couplings.

All computations are in float64. The states are enumerated in blocks of bounded memory. The sum,
its logarithm and the expected statistics are accumulated relative to the largest term so far.
"""

from dataclasses import dataclass

import numpy as np
from scipy.special import expit, softmax

from .._kernels.layers import softplus_sums_and_means
from .._utils.interrupts import check_time, remaining_time
from .._utils.log_weights import logsumexp
from .._utils.namespaces import is_numpy, namespace
from .._utils.phases import States
from ..energies import BipartiteEnergy

BLOCK = 2**16  # floats in a table, so that it stays in the CPU cache
MAX_TERMS = 2.0**37  # takes minutes
QUICK_TERMS = 2.0**32  # takes seconds
TERMS_PER_SECOND = 2.0**28
FLOAT_BYTES = 8
LAYER_ARRAYS = "weights", "visible_bias", "hidden_bias"
MAX_DEVICE_ENTRIES = 2**27  # float32 numbers of a layer in all states of the other layer


class RunningSum:
    """Accumulator of weighted sums of arrays; the weights are given as logarithms.

    Parameters
    ----------
    *shapes : tuples of int
        Shapes of the arrays to sum.

    Attributes
    ----------
    log_total : float
        Log of the sum of the weights so far.
    """

    def __init__(self, *shapes):
        self.top, self.total = -np.inf, 0.0
        self.sums = [np.zeros(shape) for shape in shapes]

    @property
    def log_total(self):
        """Return the log of the sum of all weights added so far."""
        return float(self.top + np.log(self.total))

    def rescale(self, top):
        """Rescale the sums if the log weight ``top`` is a new maximum; return the maximum."""
        if top > self.top:
            shrink = np.exp(self.top - top)
            self.total *= shrink
            for s in self.sums:
                s *= shrink
            self.top = top
        return self.top

    def means(self):
        """Return the weighted means of the added arrays."""
        return [s / self.total for s in self.sums]


def binary_states(n_bits, first=0, last=None, xp=np):
    """Return all states of ``n_bits`` bits as rows, or only the rows ``first`` to ``last - 1``.

    Parameters
    ----------
    n_bits : int
        Number of bits.
    first : int, default=0
        Index of the first row.
    last : int, optional
        Index after the last row; by default ``2**n_bits``.
    xp : module, default=numpy
        Module with the functions of the arrays: ``numpy`` or ``jax.numpy``.

    Returns
    -------
    ndarray of shape (last - first, n_bits)
        Zeros and ones as floats; the last bit changes fastest.
    """
    codes = xp.arange(first, 2**n_bits if last is None else last)
    return ((codes[:, None] >> np.arange(n_bits - 1, -1, -1)) & 1).astype(float)


def _max_quick_log2_terms():
    """Return the base-2 logarithm of the number of terms of a quick sum in the remaining time."""
    return np.log2(max(1.0, min(QUICK_TERMS, TERMS_PER_SECOND * remaining_time())))


class UnitSum:
    """Base class of sums over the states of units, which have a number of bytes and of terms."""

    @property
    def is_quick(self):
        """Return whether the sum takes a few seconds at most, and less than the remaining time."""
        return self.log2_terms <= _max_quick_log2_terms()

    def fits(self, max_bytes):
        """Return whether the sum fits into ``max_bytes`` and its time limit."""
        return self.bytes <= max_bytes and self.log2_terms <= np.log2(MAX_TERMS)


@dataclass(frozen=True)
class LayerSum(UnitSum):
    r"""Sum over the states of the smaller layer of a :class:`~skmrf.energies.LayeredEnergy`.

    .. math:: \log Z = \log \sum_h \exp\Big(b^\top h + \sum_i \log(1 + e^{c_i + (W h)_i})\Big)

    If the visible layer is smaller, the sum is over :math:`v` with the roles of the layers swapped.
    The states of the last units of the layer are a block, whose product with the weights is
    computed once. The first units add a constant to it.

    Parameters
    ----------
    n_visible : int
        Number of visible units.
    n_hidden : int
        Number of hidden units.
    """

    n_visible: int
    n_hidden: int

    @property
    def layer_sizes(self):
        """Return the number of units of the smaller and of the larger layer."""
        return sorted((self.n_visible, self.n_hidden))

    @property
    def n_block_units(self):
        """Return the number of units whose states are enumerated in one block."""
        small, large = self.layer_sizes
        return min(small, max(4, int(np.log2(BLOCK / max(large, 1)))))

    @property
    def bytes(self):
        """Return the peak memory of the sum, in bytes.

        The memory contains the activations and means of a block, the weights and the states.
        """
        small, large = self.layer_sizes
        block = 2.0**self.n_block_units * (2 * large + 3 * small + 4) + 4.0 * small * large
        return FLOAT_BYTES * block

    @property
    def log2_terms(self):
        """Return the base-2 logarithm of the number of exponentials to compute."""
        small, large = self.layer_sizes
        return small + np.log2(max(large, 1))

    def limit_message(self, max_bytes):
        """Return the error message for a sum that exceeds the memory limit or the size limit."""
        small, large = self.layer_sizes
        return (
            f"Exact inference needs {self.bytes:.4g} bytes and 2^{self.log2_terms:.1f} operations "
            f"for the 2^{small} states of the smaller layer ({small} units; the other layer has "
            f"{large}). The limits are max_bytes={max_bytes:.4g} and 2^{np.log2(MAX_TERMS):.0f} "
            'operations. Use method="ais" for log Z, a sampling learner such as "pcd" or "psmc" '
            "for training, or fewer units."
        )

    def _orient_by_size(self, energy):
        """Return weights and biases in float64, ordered so that the smaller layer comes first."""
        arrays = energy.weights, energy.visible_bias, energy.hidden_bias
        W, c, b = (np.asarray(a, dtype=float) for a in arrays)
        return (W.T, b, c) if self.n_hidden <= self.n_visible else (W, c, b)

    def log_partition(self, energy):
        """Return the log partition function log Z of an energy, in nats."""
        if not is_numpy(energy.weights):
            return logsumexp(_states_on_device(energy)[2])
        return self._sum(energy, moments=False).log_total

    def expected(self, energy):
        """Return the expected sufficient statistics (a dict like ``theta``) and log Z."""
        if not is_numpy(energy.weights):
            return _expected_on_device(energy)
        found = self._sum(energy, moments=True)
        pairs, small, large = found.means()
        moments = (pairs.T, large, small) if self.n_hidden <= self.n_visible else found.means()
        return energy.from_layer_moments(*moments), found.log_total

    def sample(self, energy, n_samples, rng):
        """Draw independent states of both layers of a :class:`~skmrf.energies.BipartiteEnergy`.

        The states of the smaller layer are drawn from their exact distribution. The states of the
        other layer are drawn given them.

        Parameters
        ----------
        energy : BipartiteEnergy
            Model.
        n_samples : int
            Number of samples.
        rng : Generator
            Source of randomness.

        Returns
        -------
        visible, hidden : ndarrays of shapes (n_samples, n_visible) and (n_samples, n_hidden)
            Zeros and ones.
        """
        blocks = _LayerBlocks(*self._orient_by_size(energy), self.n_block_units)
        totals = [logsumexp(blocks.log_weights(outer)) for outer in blocks.outer_states()]
        small = np.empty((n_samples, len(blocks.small_bias)))
        counts = rng.multinomial(n_samples, softmax(totals))
        ends = np.cumsum(counts)
        for block in np.flatnonzero(counts):
            outer = binary_states(blocks.n_slow, block, block + 1)[0]
            shares = softmax(blocks.log_weights(outer))
            drawn = blocks.states[rng.choice(len(shares), counts[block], p=shares)]
            rows = slice(ends[block] - counts[block], ends[block])
            small[rows] = np.hstack([np.tile(outer, (len(drawn), 1)), drawn])
        small = small[rng.permutation(n_samples)]
        means = expit(small @ blocks.weights + blocks.large_bias)
        large = (rng.random(means.shape) < means).astype(float)
        return (large, small) if self.n_hidden <= self.n_visible else (small, large)

    def _sum(self, energy, moments):
        blocks = _LayerBlocks(*self._orient_by_size(energy), self.n_block_units)
        W = blocks.weights
        means = np.empty((len(blocks.states), W.shape[1])) if moments else None
        running = RunningSum(W.shape, len(W), W.shape[1])
        for outer in blocks.outer_states():
            log_weights = blocks.log_weights(outer, means)
            weights = np.exp(log_weights - running.rescale(log_weights.max()))
            running.total += weights.sum()
            if moments:
                _add_block(running.sums, outer, blocks.states, weights, means)
        return running


class _LayerBlocks:
    """All states of the smaller layer, in blocks whose first units have the same states.

    Parameters
    ----------
    weights : ndarray of shape (n_small, n_large)
        Weights between the layers.
    small_bias : ndarray of shape (n_small,)
        Biases of the smaller layer.
    large_bias : ndarray of shape (n_large,)
        Biases of the larger layer.
    n_block_units : int
        Number of last units whose states are a block.
    """

    def __init__(self, weights, small_bias, large_bias, n_block_units):
        self.weights, self.small_bias, self.large_bias = weights, small_bias, large_bias
        self.n_slow = len(weights) - n_block_units
        self.states = binary_states(n_block_units)
        self._activation = np.ascontiguousarray(self.states @ weights[self.n_slow :])
        self._log_prior = self.states @ small_bias[self.n_slow :]

    def outer_states(self):
        """Yield the states of the first units of each block."""
        for code in range(2**self.n_slow):
            check_time()
            yield binary_states(self.n_slow, code, code + 1)[0]

    def log_weights(self, outer, means=None):
        """Return the log marginals of the states of a block, whose first units are ``outer``.

        The means of the larger layer are written to ``means`` if it is given.
        """
        slow, sums = self.n_slow, np.empty(len(self.states))
        means = np.empty((0, self.weights.shape[1])) if means is None else means
        bias = self.large_bias + outer @ self.weights[:slow]
        softplus_sums_and_means(self._activation, bias, sums, means)
        return sums + self._log_prior + outer @ self.small_bias[:slow]


def _states_on_device(energy):
    """Return a model whose first layer is the smaller one, its states and log marginals."""
    W, c, b = energy.weights, energy.visible_bias, energy.hidden_bias
    if 2.0 ** min(W.shape) * max(W.shape) > MAX_DEVICE_ENTRIES:
        raise ValueError(
            f"The sum over 2^{min(W.shape)} states of a layer does not fit on a device of JAX. Use "
            'another learner, such as "pcd", or device="cpu".'
        )
    arrays = (W.T, b, c) if W.shape[1] <= W.shape[0] else (W, c, b)
    turned = BipartiteEnergy.from_theta(dict(zip(LAYER_ARRAYS, arrays, strict=True)))
    states = binary_states(min(W.shape), xp=namespace(W))
    return turned, states, turned.log_marginal(states)


def _expected_on_device(energy):
    """Return the moments and log Z of two layers for arrays of JAX, with all states at once."""
    turned, states, log_weights = _states_on_device(energy)
    found = turned.moments(States(states, None, log_weights))
    pairs, small, large = (found[k] for k in LAYER_ARRAYS)
    is_hidden_small = energy.weights.shape[1] <= energy.weights.shape[0]
    moments = (pairs.T, large, small) if is_hidden_small else (pairs, small, large)
    return energy.from_layer_moments(*moments), logsumexp(log_weights)


def _add_block(sums, outer, states, weights, means):
    """Add a block's weighted statistics to the sums; its first units have the states ``outer``."""
    pairs, small, large = sums
    slow, weighted = len(outer), np.column_stack([weights, states * weights[:, None]])
    found = weighted.T @ means
    large += found[0]
    pairs[:slow] += np.multiply.outer(outer, found[0])
    pairs[slow:] += found[1:]
    small[:slow] += outer * weights.sum()
    small[slow:] += weighted.sum(axis=0)[1:]


@dataclass(frozen=True)
class VisibleSum(UnitSum):
    """Sum over all visible states of a model whose hidden units are independent given them.

    Parameters
    ----------
    n_visible : int
        Number of visible variables with two states.
    n_hidden : int
        Number of hidden units, which are summed out for each visible state.
    """

    BLOCK_STATES = 2**12

    n_visible: int
    n_hidden: int

    @property
    def bytes(self):
        """Return the peak memory of the sum, in bytes."""
        states = min(2.0**self.n_visible, self.BLOCK_STATES)
        n_variables = self.n_visible + self.n_hidden
        return FLOAT_BYTES * (4.0 * states * n_variables + 6.0 * self.n_visible * n_variables)

    @property
    def log2_terms(self):
        """Return the base-2 logarithm of the number of products of states and parameters."""
        n_parameters = self.n_visible * (self.n_visible + self.n_hidden)
        return self.n_visible + np.log2(max(n_parameters, 1))

    def limit_message(self, max_bytes):
        """Return the error message for a sum that exceeds the memory limit or the size limit."""
        return (
            f"Exact inference needs {self.bytes:.4g} bytes and 2^{self.log2_terms:.1f} operations "
            f"for the 2^{self.n_visible} states of the visible variables. The limits are "
            f"max_bytes={max_bytes:.4g} and 2^{np.log2(MAX_TERMS):.0f} operations. Use "
            'method="ais" for log Z, or a sampling learner such as "pcd" for training.'
        )

    def log_partition(self, energy):
        """Return the log partition function log Z of an energy, in nats."""
        return self._sum(energy, moments=False).log_total

    def expected(self, energy):
        """Return the expected sufficient statistics (a dict like ``theta``) and log Z."""
        found = self._sum(energy, moments=True)
        return dict(zip(energy.theta, found.means(), strict=True)), found.log_total

    def _sum(self, energy, moments):
        energy = energy.with_theta({k: v.astype(float) for k, v in energy.theta.items()})
        running, n_states = RunningSum(*(v.shape for v in energy.theta.values())), 2**self.n_visible
        for first in range(0, n_states, self.BLOCK_STATES):
            check_time()
            last = min(first + self.BLOCK_STATES, n_states)
            states = binary_states(self.n_visible, first, last)
            log_weights = energy.log_marginal(states)
            total = np.exp(log_weights - running.rescale(log_weights.max())).sum()
            running.total += total
            if moments:
                expected = energy.moments(States(states, None, log_weights))
                for mean, name in zip(running.sums, energy.theta, strict=True):
                    mean += total * expected[name]
        return running


@dataclass(frozen=True)
class TwoBlockSum:
    r"""Sum over all states of a ``BinaryPairwiseEnergy``, by matrix products of two halves.

    .. math:: \log f(a, b) = f_A(a) + f_B(b) + a^\top J_{AB}\, b

    One matrix product gives the values for many :math:`a` and all :math:`b`. The expected
    statistics are products with the table of probabilities.

    Parameters
    ----------
    n_variables : int
        Number of variables.
    """

    MAX_VARIABLES = 30  # largest number of variables
    SMALL_SIZE = 20  # largest number of variables for which planning an elimination takes longer

    n_variables: int

    @property
    def half_sizes(self):
        """Return the number of variables in the first and in the second half."""
        return self.n_variables - self.n_variables // 2, self.n_variables // 2

    @property
    def n_block_rows(self):
        """Return the number of states of the first half of the variables in one block."""
        first, second = self.half_sizes
        return 2 ** max(0, min(first, int(np.log2(BLOCK)) - second))

    @property
    def bytes(self):
        """Return the peak memory of the sum, in bytes.

        The memory contains the log-potentials, probabilities and states of a block.
        """
        n, (_, second) = self.n_variables, self.half_sizes
        states = (self.n_block_rows + 2.0**second) * 3 * (second + 3)
        return FLOAT_BYTES * (2.0 * self.n_block_rows * 2**second + states + 4 * n * n)

    @property
    def is_small(self):
        """Return whether the sum takes a few milliseconds at most."""
        return self.n_variables <= self.SMALL_SIZE

    @property
    def is_quick(self):
        """Return whether the sum takes about a minute at most, and less than the remaining time."""
        return self.n_variables <= min(self.MAX_VARIABLES, _max_quick_log2_terms())

    def fits(self, max_bytes):
        """Return whether the sum fits into ``max_bytes`` and its time limit."""
        return self.n_variables <= self.MAX_VARIABLES and self.bytes <= max_bytes

    def limit_message(self, max_bytes):
        """Return the error message for a sum that exceeds the memory limit or the size limit."""
        return (
            f"Exact inference needs {self.bytes:.4g} bytes to enumerate the "
            f"2^{self.n_variables} joint states in blocks. The limits are "
            f"max_bytes={max_bytes:.4g} and {self.MAX_VARIABLES} variables. Raise max_bytes or "
            "use an approximate method."
        )

    def log_partition(self, energy):
        """Return the log partition function log Z of an energy, in nats."""
        return self._sum(energy, moments=False).log_total

    def expected(self, energy):
        """Return the expected sufficient statistics (a dict like ``theta``) and log Z.

        The diagonal of the products of variables is zero, as in the couplings.
        """
        found = self._sum(energy, moments=True)
        first, second, cross, mean = found.means()
        pair = np.block([[first, cross], [cross.T, second]])
        np.fill_diagonal(pair, 0.0)
        return energy.from_pair_moments(pair, mean), found.log_total

    def _sum(self, energy, moments):
        first, second = self.half_sizes
        right = _HalfStates(energy, slice(first, None), 0, 2**second)
        J = energy.coupling[:first, first:]
        across = np.column_stack([right.states, np.ones(2**second), right.log_potential])
        shapes = (first, first), (second, second), (first, second), first + second
        running = RunningSum(*shapes)
        for start in range(0, 2**first, self.n_block_rows):
            check_time()
            left = _HalfStates(energy, slice(None, first), start, start + self.n_block_rows)
            ones = np.ones(len(left.states))
            table = np.column_stack([left.states @ J, left.log_potential, ones]) @ across.T
            weights = np.exp(table - running.rescale(table.max()))
            running.total += weights.sum()
            if moments:
                _add_table(running.sums, left.states, right.states, weights)
        return running


class _HalfStates:
    """All states of one half of the variables, and their log-potentials without the other half."""

    def __init__(self, energy, part, first, last):
        J, b = energy.coupling[part, part], energy.bias[part]
        self.states = np.where(binary_states(len(b), first, last) == 0, *energy.states)
        self.log_potential = np.einsum("ij,ij->i", self.states, 0.5 * (self.states @ J) + b)


def _add_table(sums, A, B, weights):
    """Add the weighted statistics of all joint states of the two halves.

    ``weights`` has a row for each state A of the first half, and a column for each state B of the
    second half.
    """
    first, second, cross, mean = sums
    row_sums, column_sums = weights.sum(axis=1), weights.sum(axis=0)
    first += A.T @ (A * row_sums[:, None])
    second += B.T @ (B * column_sums[:, None])
    cross += A.T @ (weights @ B)
    mean += np.concatenate([row_sums @ A, column_sums @ B])
