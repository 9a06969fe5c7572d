"""Values and reverse-mode gradients of many small dense neural networks with SELU units.

A network is a row of parameters. For each layer the row holds the weights, ordered by their source
unit, and the biases of the target units. The last entries of the row are the weights and the bias
of the output unit, and the scale ``s``. The value of a network is ``s tanh(net)``, where ``net`` is
the weighted input of the output unit. The inputs of a network are one or two variables. A
continuous variable is multiplied by its weights. A categorical variable enters one-hot encoded: its
state selects one of ``n_slots`` rows of weights.

A network is evaluated on a block of points. Its inputs, units and output are rows of one array.
The rows are padded to a multiple of ``LANES`` points, so that vectorised loops have no remainder.
Functions that are called for each layer are compiled separately. If everything is inlined into the
two functions that Python calls, their compilation takes twice as long. In the functions of a layer,
arrays have no reference counts, because updating the counts takes as long as the arithmetic.
"""

import numpy as np

from ._jit import borrowed, copy_into, inlined, kernel, subkernel
from .exponential import power_of_two

BLOCK = 512  # float32 points per block (half in float64), so that units stay in the L1 cache
LANES = 64  # points that an unrolled loop keeps in registers
LINE = 16  # numbers in one cache line (float32) or two (float64)
LOG2_E = 1.4426950408889634
SELU_SCALE, SELU_BOTTOM = 1.0507009873554805, 1.7580993408473766  # Klambauer et al. (2017)


@inlined
def _block_size(numbers):
    """Return the number of points in a block; a network is evaluated at one block at a time."""
    return BLOCK * 4 // numbers.itemsize


@inlined
def _aligned_rows(buffer, n_rows, n_columns):
    """Return rows in a flat buffer that has LINE more entries, the first at a cache line.

    Loads that are not aligned with cache lines are slower.
    """
    first = -(buffer.ctypes.data // buffer.itemsize) % LINE
    return buffer[first : first + n_rows * n_columns].reshape(n_rows, n_columns)


@inlined
def _constants(dtype):
    return dtype.type(1), dtype.type(SELU_SCALE), dtype.type(SELU_BOTTOM)


@inlined
def _four_rows(n, i):
    """Return the row indices i to i + 3, each limited to the last row index n - 1."""
    return i, min(i + 1, n - 1), min(i + 2, n - 1), min(i + 3, n - 1)


@inlined
def _four_weights(weights, stride, n, i):
    zero = weights.dtype.type(0)
    wa = weights[i * stride]
    wb = weights[(i + 1) * stride] if i + 1 < n else zero
    wc = weights[(i + 2) * stride] if i + 2 < n else zero
    wd = weights[(i + 3) * stride] if i + 3 < n else zero
    return wa, wb, wc, wd


@subkernel
def _weighted_sums(units, before, after, width, n, weights, biases):
    """Set the units of a layer to their biases plus the weighted sums of the layer below.

    The rows ``before .. after`` of ``units`` are the sources, and ``width`` rows from ``after`` are
    the targets, at ``n`` points. The last row is scratch. A pass handles two targets and four
    sources, so that rows are read and written less often.
    """
    units, weights, biases = borrowed(units), borrowed(weights), borrowed(biases)
    n_sources = after - before
    for o in range(0, width, 2):
        even = o + 1 < width
        unit, other = units[after + o], units[after + o + 1 if even else len(units) - 1]
        unit_weights, other_weights = weights[o:], weights[o + 1 :] if even else weights[o:]
        x, y = biases[o], biases[o + 1] if even else biases[o]
        for i in range(0, n_sources, 4):
            ia, ib, ic, id_ = _four_rows(n_sources, i)
            a, b = units[before + ia], units[before + ib]
            c, d = units[before + ic], units[before + id_]
            wa, wb, wc, wd = _four_weights(unit_weights, width, n_sources, i)
            va, vb, vc, vd = _four_weights(other_weights, width, n_sources, i)
            if i == 0:
                for p in range(n):
                    unit[p] = x + wa * a[p] + wb * b[p] + wc * c[p] + wd * d[p]
                    other[p] = y + va * a[p] + vb * b[p] + vc * c[p] + vd * d[p]
            else:
                for p in range(n):
                    unit[p] += wa * a[p] + wb * b[p] + wc * c[p] + wd * d[p]
                    other[p] += va * a[p] + vb * b[p] + vc * c[p] + vd * d[p]


@subkernel
def _apply_selu(units, first, last, n):
    units = borrowed(units)
    _, top, bottom = _constants(units.dtype)
    zero, low, log2_e = top - top, units.dtype.type(-100), units.dtype.type(LOG2_E)
    for o in range(first, last):
        unit = units[o]
        for p in range(n):
            x = unit[p]
            e = power_of_two(max(min(x, zero) * log2_e, low))
            unit[p] = top * max(x, zero) + (bottom * e - bottom)


@subkernel
def _forward_output(units, before, after, n, weights):
    """Set the output unit, row ``after``, to tanh of its bias plus the weighted sum of its sources.

    The bias follows the weights.
    """
    units, weights = borrowed(units), borrowed(weights)
    target, n_sources, kind = units[after], after - before, units.dtype.type
    one, limit, twice, bias = kind(1), kind(60), kind(2 * LOG2_E), weights[n_sources]
    for p in range(n):
        target[p] = bias
    for i in range(0, n_sources, 4):
        ia, ib, ic, id_ = _four_rows(n_sources, i)
        a, b = units[before + ia], units[before + ib]
        c, d = units[before + ic], units[before + id_]
        wa, wb, wc, wd = _four_weights(weights, 1, n_sources, i)
        for p in range(n):
            target[p] += wa * a[p] + wb * b[p] + wc * c[p] + wd * d[p]
    for p in range(n):
        net = min(max(target[p] * twice, -limit), limit)
        target[p] = one - (one + one) / (power_of_two(net) + one)


@inlined
def _load_inputs(inputs, members, begin, m, units):
    """Copy a network's inputs at one block of points; return the padded block size.

    The first rows of ``units`` receive the inputs.
    """
    padded = m + -m % LANES
    for e in range(members.size):
        x, target = inputs[members[e], begin : begin + m], units[e]
        for p in range(m):
            target[p] = x[p]
        target[m:padded] = 0
    return padded


@inlined
def _copy_continuous_weights(row, width, n_slots, discrete, members, first_weights):
    """Copy the first-layer weights of continuous inputs; categorical inputs get weights of 0.

    The first entries of ``first_weights``, one per input, are the biases of a fictitious layer
    below. The copied weights follow.
    """
    for e in range(members.size):
        for o in range(width):
            weight = row[e * n_slots * width + o]
            first_weights[members.size + e * width + o] = 0 if discrete[members[e]] else weight


@inlined
def _add_categorical_weights(row, width, n_slots, discrete, members, units, n):
    for e in range(members.size):
        if discrete[members[e]]:
            for o in range(width):
                x, unit = units[e], units[members.size + o]
                first = e * n_slots * width + o
                for p in range(n):
                    unit[p] += row[first + np.int64(x[p]) * width]


@inlined
def _forward_units(row, widths, n_slots, discrete, members, first_weights, units, n):
    """Compute the values of all hidden units and of the output unit of one network.

    The second-to-last row of ``units`` receives the output, tanh(net).
    """
    at = before = np.int64(0)  # a literal 0 has another type, for which functions compile again
    after = members.size
    for layer in range(widths.size):
        width, fan_in = widths[layer], after - before
        bias = at + fan_in * width
        if layer == 0:
            bias = members.size * n_slots * width
            weights = first_weights[fan_in:]
            _weighted_sums(units, before, after, width, n, weights, row[bias:])
            _add_categorical_weights(row, width, n_slots, discrete, members, units, n)
        else:
            _weighted_sums(units, before, after, width, n, row[at:], row[bias:])
        _apply_selu(units, after, after + width, n)
        at, before, after = bias + width, after, after + width
    _forward_output(units, before, after, n, row[at:])


@kernel
def network_values(theta, widths, n_slots, inputs, discrete, members_of, out):
    """Compute the value of each network at each point.

    Parameters
    ----------
    theta : ndarray of shape (n_networks, n_parameters)
        Parameters of the networks.
    widths : ndarray of int64 of shape (n_layers,)
        Units of each hidden layer.
    n_slots : int
        Rows of first-layer weights per variable.
    inputs : ndarray of shape (n_inputs, n_points)
        Values of continuous variables and state codes of categorical variables.
    discrete : ndarray of bool of shape (n_inputs,)
        Which of the inputs are categorical.
    members_of : ndarray of int of shape (n_networks, n_variables)
        Inputs of each network.
    out : ndarray of shape (n_networks, n_points)
        Receives the values.
    """
    block, last = _block_size(theta), members_of.shape[1] + widths.sum()
    n_columns = block + LINE  # rows of a power of two would delay loads after stores
    unit_buffer = np.zeros((last + 2) * n_columns + LINE, theta.dtype)
    units = _aligned_rows(unit_buffer, last + 2, n_columns)
    first_weights = np.empty(members_of.shape[1] * (widths[0] + 1), theta.dtype)
    row = np.empty(theta.shape[1], theta.dtype)  # not read-only, so that fewer types are compiled
    for c in range(len(theta)):
        copy_into(theta[c], row)
        members, scale = members_of[c], row[row.size - 1]
        _copy_continuous_weights(row, widths[0], n_slots, discrete, members, first_weights)
        for begin in range(0, inputs.shape[1], block):
            m = min(block, inputs.shape[1] - begin)
            n = _load_inputs(inputs, members, begin, m, units)
            _forward_units(row, widths, n_slots, discrete, members, first_weights, units, n)
            value, target = units[last], out[c, begin : begin + m]
            for p in range(m):
                target[p] = scale * value[p]


@inlined
def _backward_output(value, weights, scale, slope, n, gradient):
    """Compute a network's derivatives by its output scale, output bias and argument of tanh.

    The derivatives with respect to scale and bias are added to ``gradient``. ``slope`` receives the
    derivatives with respect to the argument of tanh at ``n`` points, with 0 for padding.
    """
    one = value.dtype.type(1)
    by_scale = by_bias = one - one
    for p in range(weights.size):
        by_scale += weights[p] * value[p]
        slope[p] = scale * weights[p] * (one - value[p] * value[p])
        by_bias += slope[p]
    slope[weights.size : n] = 0
    gradient[gradient.size - 1] += by_scale
    gradient[gradient.size - 2] += by_bias


@inlined
def _add_four(gradient, n, o, a, b, c, d):
    gradient[o] += a
    if o + 1 < n:
        gradient[o + 1] += b
    if o + 2 < n:
        gradient[o + 2] += c
    if o + 3 < n:
        gradient[o + 3] += d


@subkernel
def _backward_layer(row, at, units, before, fan_in, slopes, width, below, spare, n, gradient):
    """Add the derivatives with respect to a layer's weights and its source units' biases.

    The ``fan_in`` rows of ``units`` from ``before`` are the sources, and the first ``width`` rows
    of ``slopes`` belong to the layer. The biases of the source units are stored before the weights,
    which start at ``at``. ``below`` receives the slopes of the sources. ``spare`` is scratch. A
    pass handles two sources and four slopes.
    """
    row, units, slopes, below = borrowed(row), borrowed(units), borrowed(slopes), borrowed(below)
    spare, gradient, zero = borrowed(spare), borrowed(gradient), row.dtype.type(0)
    for i in range(0, fan_in, 2):
        even, k = i + 1 < fan_in, at + i * width
        source, target = units[before + i], below[i]
        other = units[before + i + 1] if even else source
        other_target = below[i + 1] if even else spare
        for p in range(n):
            target[p] = zero
            other_target[p] = zero
        next_k = k + width if even else k
        for o in range(0, width, 4):
            oa, ob, oc, od = _four_rows(width, o)
            a, b, c, d = slopes[oa], slopes[ob], slopes[oc], slopes[od]
            wa, wb, wc, wd = _four_weights(row[k:], 1, width, o)
            va, vb, vc, vd = _four_weights(row[next_k:], 1, width, o)
            ta = tb = tc = td = ua = ub = uc = ud = zero
            for p in range(n):
                x, y = source[p], other[p]
                ta += a[p] * x
                tb += b[p] * x
                tc += c[p] * x
                td += d[p] * x
                ua += a[p] * y
                ub += b[p] * y
                uc += c[p] * y
                ud += d[p] * y
                target[p] += wa * a[p] + wb * b[p] + wc * c[p] + wd * d[p]
                other_target[p] += va * a[p] + vb * b[p] + vc * c[p] + vd * d[p]
            _add_four(gradient[k:], width, o, ta, tb, tc, td)
            if even:
                _add_four(gradient[next_k:], width, o, ua, ub, uc, ud)
        gradient[at - fan_in + i] += _backward_selu(source, target, n)
        if even:
            gradient[at - fan_in + i + 1] += _backward_selu(other, other_target, n)


@inlined
def _backward_selu(source, slope, n):
    """Multiply ``slope`` by the derivative of SELU in place; return the sum of the products."""
    _, top, bottom = _constants(source.dtype)
    zero = top - top
    total = zero
    for p in range(n):
        slope[p] *= top if source[p] > zero else source[p] + bottom
        total += slope[p]
    return total


@inlined
def _add_categorical_gradient(width, n_slots, discrete, members, units, slopes, n, gradient):
    for e in range(members.size):
        if discrete[members[e]]:
            for o in range(width):
                x, slope, first = units[e], slopes[o], e * n_slots * width + o
                for p in range(n):
                    gradient[first + np.int64(x[p]) * width] += slope[p]


@inlined
def _add_continuous_gradient(width, n_slots, discrete, members, first_weights, gradient):
    for e in range(members.size):
        if not discrete[members[e]]:
            for o in range(width):
                gradient[e * n_slots * width + o] += first_weights[members.size + e * width + o]


@kernel
def network_gradients(theta, widths, n_slots, inputs, discrete, members_of, weights, out):
    """Add the gradient of each network's weighted sum of values to ``out``.

    The sum is over points, and the gradient is with respect to the network's parameters. The first
    six parameters are those of :func:`network_values`.

    Parameters
    ----------
    theta, widths, n_slots, inputs, discrete, members_of
        Networks and their inputs.
    weights : ndarray of shape (1, n_points) or (n_networks, n_points)
        Weights of the points, for all networks or for each network.
    out : ndarray of shape (n_networks, n_parameters)
        The derivatives are added to it.
    """
    n_layers, k = widths.size, members_of.shape[1]
    block, last, widest = _block_size(theta), k + widths.sum(), max(widths.max(), k)
    n_columns = block + LINE  # rows of a power of two would delay loads after stores
    unit_buffer = np.zeros((last + 2) * n_columns + LINE, theta.dtype)
    slope_buffer = np.zeros((2 * widest + 1) * n_columns + LINE, theta.dtype)
    units = _aligned_rows(unit_buffer, last + 2, n_columns)
    slopes = _aligned_rows(slope_buffer, 2 * widest + 1, n_columns)
    first_weights = np.zeros((2, k + k * widths[0]), theta.dtype)
    row = np.empty(theta.shape[1], theta.dtype)  # not read-only, so that fewer types are compiled
    for c in range(len(theta)):
        copy_into(theta[c], row)
        members, gradient = members_of[c], out[c]
        weight_row = weights[min(c, len(weights) - 1)]
        _copy_continuous_weights(row, widths[0], n_slots, discrete, members, first_weights[0])
        first_weights[1] = 0
        for begin in range(0, inputs.shape[1], block):
            m = min(block, inputs.shape[1] - begin)
            n = _load_inputs(inputs, members, begin, m, units)
            _forward_units(row, widths, n_slots, discrete, members, first_weights[0], units, n)
            end, after, below, here, width = row.size - 1, last, widest, np.int64(0), np.int64(1)
            point_weights = weight_row[begin : begin + m]
            _backward_output(units[last], point_weights, row[end], slopes[here], n, gradient)
            for layer in range(n_layers, -1, -1):
                fan_in = widths[layer - 1] if layer > 0 else k
                at, before = end - (fan_in + 1) * width, after - fan_in
                values, derivatives = row, gradient
                if layer == 0:
                    at, values, derivatives = k, first_weights[0], first_weights[1]
                _backward_layer(values, at, units, before, fan_in, slopes[here:], width,
                                slopes[below:], slopes[2 * widest], n, derivatives)  # fmt: skip
                if layer > 0:
                    end, after, width, here, below = at, before, fan_in, below, here
            _add_categorical_gradient(
                width, n_slots, discrete, members, units, slopes[here:], n, gradient
            )
        _add_continuous_gradient(widths[0], n_slots, discrete, members, first_weights[1], gradient)
