"""Exact sums over all states of dense energies of two-state variables, in float64.

States are enumerated in blocks of bounded memory; the sum, its logarithm and the expected
statistics are carried along, relative to the largest term so far.
"""

from dataclasses import dataclass

import numpy as np

from .._kernels.sums import unit_terms

BLOCK = 2**16  # numbers in a table, so that it stays in cache
MOST_TERMS = 2.0**37  # minutes
QUICK_TERMS = 2.0**32  # seconds
FLOAT_BYTES = 8


class RunningSum:
    """Sums of exp(log weight) times arrays, of terms that come block by block.

    Attributes
    ----------
    log_total : float
        Log of the sum of weights so far.
    """

    def __init__(self, *shapes):
        self.top, self.total = -np.inf, 0.0
        self.sums = [np.zeros(shape) for shape in shapes]

    @property
    def log_total(self):
        return float(self.top + np.log(self.total))

    def rise(self, top):
        """Count relative to the largest log weight, which a block may raise; it is returned."""
        if top > self.top:
            shrink = np.exp(self.top - top)
            self.total *= shrink
            for s in self.sums:
                s *= shrink
            self.top = top
        return self.top

    def means(self):
        """The arrays' means."""
        return [s / self.total for s in self.sums]


def binary_states(n_bits, first=0, last=None):
    """Rows ``first .. last - 1`` of all states of bits, the last bit fastest: 0 and 1 as floats."""
    codes = np.arange(first, 2**n_bits if last is None else last)
    return ((codes[:, None] >> np.arange(n_bits - 1, -1, -1)) & 1).astype(float)


@dataclass(frozen=True)
class LayerSum:
    r"""Sum over the states of the smaller layer of a :class:`~skmrf.energies.BipartiteEnergy`.

    .. math:: \log Z = \log \sum_h \exp\Big(b^\top h + \sum_i \log(1 + e^{c_i + (W h)_i})\Big)

    or over :math:`v` with the layers' roles swapped. The states of the last units of the layer are
    a block, whose product with the weights is computed once; the first units add a constant to it.

    Parameters
    ----------
    n_visible, n_hidden : int
    """

    n_visible: int
    n_hidden: int

    @property
    def units(self):
        """Units of the smaller layer and of the larger one."""
        return sorted((self.n_visible, self.n_hidden))

    @property
    def fast(self):
        """Units whose states make up a block."""
        small, large = self.units
        return min(small, max(4, int(np.log2(BLOCK / max(large, 1)))))

    @property
    def bytes(self):
        """Peak memory: activations and means of a block, their weights, the states."""
        small, large = self.units
        block = 2.0**self.fast * (2 * large + 3 * small + 4) + 4.0 * small * large
        return FLOAT_BYTES * block

    @property
    def log2_terms(self):
        """Log2 of the number of exponentials."""
        small, large = self.units
        return small + np.log2(max(large, 1))

    @property
    def quick(self):
        """Whether it takes some seconds at most."""
        return self.log2_terms <= np.log2(QUICK_TERMS)

    def fits(self, max_bytes):
        """Whether memory and time are bearable."""
        return self.bytes <= max_bytes and self.log2_terms <= np.log2(MOST_TERMS)

    def refusal(self, max_bytes):
        """Why it does not fit, and what does."""
        small, large = self.units
        return (
            f"Exact inference needs {self.bytes:.4g} bytes and 2^{self.log2_terms:.1f} operations "
            f"for the 2^{small} states of the smaller layer ({small} units, the other has {large})"
            f"; allowed are max_bytes={max_bytes:.4g} and 2^{np.log2(MOST_TERMS):.0f} operations. "
            'Take method="ais" for log Z, a learner by chains such as "pcd" or "psmc" for learning,'
            " or fewer units."
        )

    def _oriented(self, energy):
        """Weights (small, large), bias of the small and of the large layer, in float64."""
        W, c, b = (
            energy.theta[k].astype(float) for k in ("weights", "visible_bias", "hidden_bias")
        )
        return (W.T, b, c) if self.n_hidden <= self.n_visible else (W, c, b)

    def log_partition(self, energy):
        """Log Z in nats."""
        return self._sum(energy, moments=False).log_total

    def expected(self, energy):
        """Expected statistics ``{"weights": E[v h'], ...}`` and log Z, all in float64."""
        found = self._sum(energy, moments=True)
        pairs, small, large = found.means()
        if self.n_hidden <= self.n_visible:
            moments = {"weights": pairs.T, "visible_bias": large, "hidden_bias": small}
        else:
            moments = {"weights": pairs, "visible_bias": small, "hidden_bias": large}
        return moments, found.log_total

    def _sum(self, energy, moments):
        W, small_bias, large_bias = self._oriented(energy)
        slow = len(W) - self.fast
        states = binary_states(self.fast)
        activation = np.ascontiguousarray(states @ W[slow:])
        log_prior = states @ small_bias[slow:]
        sums = np.empty(len(states))
        means = np.empty_like(activation) if moments else np.empty((0, W.shape[1]))
        running = RunningSum(W.shape, len(W), W.shape[1])
        for (outer,) in _rows(slow):
            unit_terms(activation, large_bias + outer @ W[:slow], sums, means)
            log_weights = sums + log_prior + outer @ small_bias[:slow]
            weights = np.exp(log_weights - running.rise(log_weights.max()))
            running.total += weights.sum()
            if moments:
                _add_block(running.sums, outer, states, weights, means)
        return running


def _rows(n_bits):
    """All states of bits, one row at a time."""
    for code in range(2**n_bits):
        yield binary_states(n_bits, code, code + 1)


def _add_block(sums, outer, states, weights, means):
    """Add the weighted statistics of a block, whose first units are in the states ``outer``."""
    pairs, small, large = sums
    slow, weighted = len(outer), np.column_stack([weights, states * weights[:, None]])
    found = weighted.T @ means
    large += found[0]
    pairs[:slow] += np.multiply.outer(outer, found[0])
    pairs[slow:] += found[1:]
    small[:slow] += outer * weights.sum()
    small[slow:] += weighted.sum(axis=0)[1:]


@dataclass(frozen=True)
class TwoBlockSum:
    r"""Sum over the states of two halves of the variables of a ``PairwiseEnergy``.

    .. math:: \log f(a, b) = f_A(a) + f_B(b) + a^\top J_{AB}\, b

    by one product of matrices for many :math:`a` and all :math:`b`; expected statistics are
    products with the table of probabilities.

    Parameters
    ----------
    n_variables : int
    """

    MOST = 30  # variables
    FEW = 20  # up to which it takes less than planning another way

    n_variables: int

    @property
    def halves(self):
        """Variables of the first and of the second half."""
        return self.n_variables - self.n_variables // 2, self.n_variables // 2

    @property
    def rows(self):
        """States of the first half in a block."""
        first, second = self.halves
        return 2 ** max(0, min(first, int(np.log2(BLOCK)) - second))

    @property
    def bytes(self):
        """Peak memory: log-potentials and probabilities of a block, the states."""
        n, (_, second) = self.n_variables, self.halves
        states = (self.rows + 2.0**second) * 3 * (second + 3)
        return FLOAT_BYTES * (2.0 * self.rows * 2**second + states + 4 * n * n)

    @property
    def few(self):
        """Whether it takes some milliseconds at most."""
        return self.n_variables <= self.FEW

    @property
    def quick(self):
        """Whether it takes about a minute at most."""
        return self.n_variables <= self.MOST

    def fits(self, max_bytes):
        """Whether memory and time are bearable."""
        return self.quick and self.bytes <= max_bytes

    def refusal(self, max_bytes):
        """Why it does not fit, and what does."""
        return (
            f"Exact inference needs {self.bytes:.4g} bytes for the 2^{self.n_variables} joint "
            f"states in blocks, more than max_bytes={max_bytes:.4g} (and at most "
            f"{self.MOST} variables). Raise max_bytes or use an approximate method."
        )

    def log_partition(self, energy):
        """Log Z in nats."""
        return self._sum(energy, moments=False).log_total

    def expected(self, energy):
        """Expected statistics ``{"coupling": E[s s'], "bias": E[s]}`` and log Z.

        The diagonal of ``coupling`` is zero, as that of the parameters.
        """
        found = self._sum(energy, moments=True)
        first, second, cross, mean = found.means()
        pair = np.block([[first, cross], [cross.T, second]])
        np.fill_diagonal(pair, 0.0)
        return {"coupling": pair, "bias": mean}, found.log_total

    def _sum(self, energy, moments):
        first, second = self.halves
        right = _Half(energy, slice(first, None), 0, 2**second)
        J = energy.coupling[:first, first:]
        across = np.column_stack([right.states, np.ones(2**second), right.log_potential])
        shapes = (first, first), (second, second), (first, second), first + second
        running = RunningSum(*shapes)
        for start in range(0, 2**first, self.rows):
            left = _Half(energy, slice(None, first), start, start + self.rows)
            ones = np.ones(len(left.states))
            table = np.column_stack([left.states @ J, left.log_potential, ones]) @ across.T
            weights = np.exp(table - running.rise(table.max()))
            running.total += weights.sum()
            if moments:
                _add_table(running.sums, left.states, right.states, weights)
        return running


class _Half:
    """Some states of a half of the variables, and their log f within the half."""

    def __init__(self, energy, part, first, last):
        J, b = energy.coupling[part, part], energy.bias[part]
        self.states = energy.decode(binary_states(len(b), first, last))
        self.log_potential = np.einsum("ij,ij->i", self.states, 0.5 * (self.states @ J) + b)


def _add_table(sums, A, B, weights):
    """Add the statistics of states A and B, whose weights are the rows and columns of a table."""
    first, second, cross, mean = sums
    of_a, of_b = weights.sum(axis=1), weights.sum(axis=0)
    first += A.T @ (A * of_a[:, None])
    second += B.T @ (B * of_b[:, None])
    cross += A.T @ (weights @ B)
    mean += np.concatenate([of_a @ A, of_b @ B])
