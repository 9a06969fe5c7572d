"""Block Gibbs sampling of two layers of units: one, then the other, all chains at once."""

import numpy as np

from .._kernels.layers import draw_units, softplus_sums, unit_means
from .._utils.codes import STATE
from ..energies.conditionals import bias_rows, bias_sums


class _Noise:
    """Uniform numbers for a layer, each block of chains from its own generator."""

    def __init__(self, generators, blocks, n_units, dtype):
        self.generators = generators
        self.blocks = blocks
        self.array = np.empty((blocks[-1].stop, n_units), dtype=dtype)

    def draw(self):
        for block, rng in zip(self.blocks, self.generators, strict=True):
            rng.random(out=self.array[block], dtype=self.array.dtype)
        return self.array


def sweep_layers(conditionals, base, betas, X, clamped, log_weights, generators, blocks):
    r"""Sweeps hidden | visible, visible | hidden along a path, as matrix products of all chains.

    The target at beta, hidden units summed out, is

    .. math:: p_0(v)^{1-\beta} e^{\beta c^\top v}
        \prod_j \frac{1 + e^{\beta (b_j + (v^\top W)_j)}}{2^{1-\beta}}

    which is the base ``p_0`` at 0 and ``exp(-F(v))`` at 1. A sweep is reversible.

    Parameters
    ----------
    conditionals : BipartiteConditionals
    base : Product
    betas : ndarray of shape (n_sweeps + 1,)
    X : ndarray of shape (n_chains, n_visible)
    clamped : ndarray of bool, of the shape of X or empty
    log_weights : ndarray of shape (n_chains,)
        Grows in place.
    generators, blocks : lists, one generator for every slice of chains

    Returns
    -------
    ndarray of shape (n_chains, n_visible), dtype STATE
    """
    weights, *biases = conditionals
    visible_bias, hidden_bias = (bias_rows(b, len(X)) for b in biases)
    n_visible, n_hidden = weights.shape
    dtype = weights.dtype
    odds = (base.log_p[base.start + 1] - base.log_p[base.start]).astype(dtype)
    constant = base.log_p[base.start].sum() - n_hidden * np.log(2.0)
    no_shift = np.zeros(n_hidden, dtype=dtype)
    hidden_noise = _Noise(generators, blocks, n_hidden, dtype)
    visible_noise = _Noise(generators, blocks, n_visible, dtype)
    V = X.astype(dtype)
    H = np.empty((len(V), n_hidden), dtype=dtype)
    start = V.copy() if clamped.size else None
    for before, beta in zip(betas[:-1].tolist(), betas[1:].tolist(), strict=True):
        np.matmul(V, weights, out=H)
        if beta != before:
            linear = bias_sums(V, visible_bias - odds) - constant
            log_weights += (beta - before) * linear
            log_weights += _softplus(H, hidden_bias, beta) - _softplus(H, hidden_bias, before)
        draw_units(H, hidden_bias, beta, no_shift, hidden_noise.draw(), H)
        np.matmul(H, weights.T, out=V)
        draw_units(V, visible_bias, beta, (dtype.type(1 - beta)) * odds, visible_noise.draw(), V)
        if start is not None:
            np.copyto(V, start, where=clamped)
    return V.astype(STATE)


def alternate(energy, H, generators, blocks, n_sweeps):
    """Sweeps visible | hidden, hidden | visible of all chains from hidden states.

    Parameters
    ----------
    energy : BipartiteEnergy
    H : ndarray of shape (n_chains, n_hidden), dtype of the weights
    generators, blocks : lists, one generator for every slice of chains
    n_sweeps : int

    Returns
    -------
    V : ndarray of shape (n_chains, n_visible), dtype STATE
    means : ndarray of shape (n_chains, n_hidden)
        Of the hidden units given ``V``.
    H : ndarray of shape (n_chains, n_hidden), drawn from these
    """
    weights, *biases = energy.conditionals()
    visible_bias, hidden_bias = (bias_rows(b, len(H)) for b in biases)
    n_visible, n_hidden = weights.shape
    hidden_noise = _Noise(generators, blocks, n_hidden, weights.dtype)
    visible_noise = _Noise(generators, blocks, n_visible, weights.dtype)
    no_shift = np.zeros(n_visible, dtype=weights.dtype)
    V = np.empty((len(H), n_visible), dtype=weights.dtype)
    means = np.empty((len(H), n_hidden), dtype=weights.dtype)
    for _ in range(n_sweeps):
        np.matmul(H, weights.T, out=V)
        draw_units(V, visible_bias, 1.0, no_shift, visible_noise.draw(), V)
        np.matmul(V, weights, out=means)
        unit_means(means, hidden_bias, means)
        H = (hidden_noise.draw() < means).astype(weights.dtype)
    return V.astype(STATE), means, H


def _softplus(activation, bias, scale):
    out = np.empty(len(activation))
    softplus_sums(activation, bias, scale, out)
    return out
