"""Stacks of small dense networks with SELU units: values, and gradients by reverse mode.

A network is a row of parameters: for every layer the weights, stored by the unit they come from,
and the biases of the units they go to; then the output's weights and bias, and its scale ``s``, so
that its value is ``s tanh(net)``. Inputs of a network are one or two variables: a number enters
with its weight, a state chooses its row of weights among ``n_slots`` (it enters one-hot).
"""

import numpy as np

from ._jit import inlined, kernel
from .exponential import exponentials

BLOCK = 128  # points at a time: the units of a block stay in the first-level cache
SELU_SCALE, SELU_BOTTOM = 1.0507009873554805, 1.7580993408473766  # of Klambauer et al. (2017)


@inlined
def _selu(x, low, bits, top, bottom):
    for p in range(x.size):
        low[p] = min(x[p], x.dtype.type(0))
    exponentials(low, bits)
    for p in range(x.size):
        x[p] = top * max(x[p], x.dtype.type(0)) + bottom * (low[p] - x.dtype.type(1))


@inlined
def _tanh(x, bits):
    for p in range(x.size):
        x[p] = min(max(x[p] + x[p], x.dtype.type(-40)), x.dtype.type(40))
    exponentials(x, bits)
    for p in range(x.size):
        x[p] = x.dtype.type(1) - x.dtype.type(2) / (x[p] + x.dtype.type(1))


@inlined
def _add_weighted(target, sources, weights):
    """Add weighted rows, four at a time so that the target is read and written less often."""
    n = len(sources)
    for i in range(0, n - 3, 4):
        a, b, c, d = sources[i], sources[i + 1], sources[i + 2], sources[i + 3]
        wa, wb, wc, wd = weights[i], weights[i + 1], weights[i + 2], weights[i + 3]
        for p in range(target.size):
            target[p] += wa * a[p] + wb * b[p] + wc * c[p] + wd * d[p]
    for i in range(n - n % 4, n):
        a, wa = sources[i], weights[i]
        for p in range(target.size):
            target[p] += wa * a[p]


@inlined
def _forward(row, widths, n_slots, inputs, discrete, members, begin, m, units, low, bits, one):
    """Values of all units of a block of points; the last row of ``units`` is tanh(net)."""
    top, bottom = one * SELU_SCALE, one * SELU_BOTTOM
    width = widths[0]
    bias = members.size * n_slots * width
    for o in range(width):
        unit = units[o, :m]
        unit[:] = row[bias + o]
        for e in range(members.size):
            x = inputs[members[e], begin : begin + m]
            first = e * n_slots * width + o
            if discrete[members[e]]:
                for p in range(m):
                    unit[p] += row[first + np.int64(x[p]) * width]
            else:
                weight = row[first]
                for p in range(m):
                    unit[p] += weight * x[p]
        _selu(unit, low[:m], bits[:m], top, bottom)
    at, before, after = bias + width, 0, width
    for layer in range(1, widths.size + 1):
        width = widths[layer] if layer < widths.size else 1
        fan_in = widths[layer - 1]
        for o in range(width):
            unit = units[after + o, :m]
            unit[:] = row[at + fan_in * width + o]
            _add_weighted(unit, units[before : before + fan_in, :m], row[at + o :: width])
            if layer < widths.size:
                _selu(unit, low[:m], bits[:m], top, bottom)
            else:
                _tanh(unit, bits[:m])
        at += (fan_in + 1) * width
        before, after = after, after + width


@kernel
def network_values(theta, widths, n_slots, inputs, discrete, which, out):
    """Values of all networks at their points.

    Parameters
    ----------
    theta : ndarray of shape (n_networks, n_parameters)
    widths : ndarray of int64, units of every hidden layer
    n_slots : int
        Rows of first weights of a variable.
    inputs : ndarray of shape (n_inputs, n_points)
        Numbers, or states as numbers.
    discrete : ndarray of bool, shape (n_inputs,)
        Which of the inputs are states.
    which : ndarray of shape (n_networks, n_variables)
        The inputs of every network.
    out : ndarray of shape (n_networks, n_points)
    """
    n_units = widths.sum()
    units = np.empty((n_units + 1, BLOCK), theta.dtype)
    low, bits = np.empty(BLOCK, theta.dtype), np.empty(BLOCK, np.int32)
    one = np.ones(1, theta.dtype)[0]
    n_points = inputs.shape[1]
    for c in range(len(theta)):
        row, members = theta[c], which[c]
        scale = row[row.size - 1]
        for begin in range(0, n_points, BLOCK):
            m = min(BLOCK, n_points - begin)
            _forward(row, widths, n_slots, inputs, discrete, members, begin, m, units, low, bits,
                     one)  # fmt: skip
            value, target = units[n_units, :m], out[c, begin : begin + m]
            for p in range(m):
                target[p] = scale * value[p]


@inlined
def _add_output(value, weights, scale, slope, gradient):
    """The derivative by the scale, and that of the weighted sum by what enters tanh."""
    last, total = gradient.size - 1, value.dtype.type(0)
    for p in range(value.size):
        total += weights[p] * value[p]
        slope[p] = scale * weights[p] * (value.dtype.type(1) - value[p] * value[p])
    gradient[last] += total


@inlined
def _add_layer(row, at, sources, slopes, below, gradient, top, bottom):
    """Derivatives by weights and biases of a layer; ``below`` gets the slopes of its sources."""
    fan_in, width = len(sources), len(slopes)
    for o in range(width):
        gradient[at + fan_in * width + o] += slopes[o].sum()
    for i in range(fan_in):
        source, target = sources[i], below[i]
        target[:] = 0
        for o in range(width):
            slope, weight = slopes[o], row[at + i * width + o]
            total = weight - weight
            for p in range(source.size):
                total += slope[p] * source[p]
                target[p] += weight * slope[p]
            gradient[at + i * width + o] += total
        for p in range(source.size):
            target[p] *= top if source[p] > 0 else source[p] + bottom


@inlined
def _add_first_layer(n_slots, inputs, discrete, members, begin, slopes, gradient):
    """Derivatives by the first weights and biases."""
    width, m = slopes.shape
    bias = members.size * n_slots * width
    for o in range(width):
        slope = slopes[o]
        gradient[bias + o] += slope.sum()
        for e in range(members.size):
            x = inputs[members[e], begin : begin + m]
            first = e * n_slots * width + o
            if discrete[members[e]]:
                for p in range(m):
                    gradient[first + np.int64(x[p]) * width] += slope[p]
            else:
                total = slope.dtype.type(0)
                for p in range(m):
                    total += slope[p] * x[p]
                gradient[first] += total


@kernel
def network_gradients(theta, widths, n_slots, inputs, discrete, which, weights, out):
    """Add to ``out`` the derivatives of the weighted sum of every network's values.

    Parameters
    ----------
    theta, widths, n_slots, inputs, discrete, which
        As in :func:`network_values`.
    weights : ndarray of shape (1, n_points) or (n_networks, n_points)
    out : ndarray of shape (n_networks, n_parameters)
    """
    n_units, n_layers = widths.sum(), widths.size
    widest = max(widths.max(), 1)
    units = np.empty((n_units + 1, BLOCK), theta.dtype)
    slopes = np.empty((2, widest, BLOCK), theta.dtype)
    low, bits = np.empty(BLOCK, theta.dtype), np.empty(BLOCK, np.int32)
    one = np.ones(1, theta.dtype)[0]
    top, bottom = one * SELU_SCALE, one * SELU_BOTTOM
    n_points = inputs.shape[1]
    for c in range(len(theta)):
        row, members, gradient = theta[c], which[c], out[c]
        last = row.size - 1
        scale = row[last]
        weight_row = weights[min(c, len(weights) - 1)]
        for begin in range(0, n_points, BLOCK):
            m = min(BLOCK, n_points - begin)
            _forward(row, widths, n_slots, inputs, discrete, members, begin, m, units, low, bits,
                     one)  # fmt: skip
            value, given = units[n_units, :m], weight_row[begin : begin + m]
            _add_output(value, given, scale, slopes[0, 0, :m], gradient)
            end, after, width, here = last, n_units, 1, 0
            for layer in range(n_layers, 0, -1):
                fan_in = widths[layer - 1]
                at, before = end - (fan_in + 1) * width, after - fan_in
                sources, below = units[before:after, :m], slopes[1 - here, :fan_in, :m]
                _add_layer(row, at, sources, slopes[here, :width, :m], below, gradient, top, bottom)
                end, after, width, here = at, before, fan_in, 1 - here
            _add_first_layer(
                n_slots, inputs, discrete, members, begin, slopes[here, :width, :m], gradient
            )
