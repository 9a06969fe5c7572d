"""Stacks of small dense networks with SELU units: values, and gradients by reverse mode.

A network is a row of parameters: for every layer the weights, stored by the unit they come from,
and the biases of the units they go to; then the output's weights and bias, and its scale ``s``, so
that its value is ``s tanh(net)``. Inputs of a network are one or two variables: a number enters
with its weight, a state chooses its row of weights among ``n_slots`` (it enters one-hot).

A network works on a block of points. Its inputs, units and output are rows of one array, padded
to ``LANES`` points so that loops have no rest to do one by one, and without counts of references,
whose atomic additions took as long as the arithmetic.
"""

import numpy as np

from ._jit import borrowed, inlined, kernel
from .exponential import power

BLOCK = 512  # points at a time, half of them in float64: units stay in the first-level cache
LANES = 64  # points in the registers of an unrolled loop
LINE = 16  # numbers in a line of the cache, or in two of them
LOG2_E = 1.4426950408889634
SELU_SCALE, SELU_BOTTOM = 1.0507009873554805, 1.7580993408473766  # of Klambauer et al. (2017)


@inlined
def _block(numbers):
    """Points at a time."""
    return BLOCK * 4 // numbers.itemsize


@inlined
def _first_of_line(room):
    """The column at which rows begin at lines of the cache: across two, loading takes longer."""
    return -(room.ctypes.data // room.itemsize) % LINE


@inlined
def _constants(dtype):
    return dtype.type(1), dtype.type(SELU_SCALE), dtype.type(SELU_BOTTOM)


@inlined
def _fill(target, number):
    for p in range(target.size):
        target[p] = number


@inlined
def _four(n, i):
    """Rows i .. i + 3 of n; those beyond the last are the last, with a weight of zero."""
    return i, min(i + 1, n - 1), min(i + 2, n - 1), min(i + 3, n - 1)


@inlined
def _four_weights(weights, stride, n, i):
    zero = weights.dtype.type(0)
    wa = weights[i * stride]
    wb = weights[(i + 1) * stride] if i + 1 < n else zero
    wc = weights[(i + 2) * stride] if i + 2 < n else zero
    wd = weights[(i + 3) * stride] if i + 3 < n else zero
    return wa, wb, wc, wd


@inlined
def _sums(sources, targets, spare, weights, biases):
    """Biases and weighted sources.

    A pass takes two targets and four sources, so that rows are read and written less often.
    """
    n, width = len(sources), len(targets)
    for o in range(0, width, 2):
        even = o + 1 < width
        unit, other = targets[o], targets[o + 1] if even else spare
        mine, its = weights[o:], weights[o + 1 :] if even else weights[o:]
        x, y = biases[o], biases[o + 1] if even else biases[o]
        for i in range(0, n, 4):
            ia, ib, ic, id_ = _four(n, i)
            a, b, c, d = sources[ia], sources[ib], sources[ic], sources[id_]
            wa, wb, wc, wd = _four_weights(mine, width, n, i)
            va, vb, vc, vd = _four_weights(its, width, n, i)
            if i == 0:
                for p in range(unit.size):
                    unit[p] = x + wa * a[p] + wb * b[p] + wc * c[p] + wd * d[p]
                    other[p] = y + va * a[p] + vb * b[p] + vc * c[p] + vd * d[p]
            else:
                for p in range(unit.size):
                    unit[p] += wa * a[p] + wb * b[p] + wc * c[p] + wd * d[p]
                    other[p] += va * a[p] + vb * b[p] + vc * c[p] + vd * d[p]


@inlined
def _selu(targets, top, bottom):
    zero = top - top
    low, log2_e = targets.dtype.type(-100), targets.dtype.type(LOG2_E)
    for o in range(len(targets)):
        unit = targets[o]
        for p in range(unit.size):
            x = unit[p]
            e = power(max(min(x, zero) * log2_e, low))
            unit[p] = top * max(x, zero) + (bottom * e - bottom)


@inlined
def _output(target, sources, weights, one):
    """tanh of what the target holds, a bias, and of weighted sources."""
    n, limit, twice = len(sources), weights.dtype.type(60), weights.dtype.type(2 * LOG2_E)
    for i in range(0, n, 4):
        ia, ib, ic, id_ = _four(n, i)
        a, b, c, d = sources[ia], sources[ib], sources[ic], sources[id_]
        wa, wb, wc, wd = _four_weights(weights, 1, n, i)
        for p in range(target.size):
            target[p] += wa * a[p] + wb * b[p] + wc * c[p] + wd * d[p]
    for p in range(target.size):
        net = min(max(target[p] * twice, -limit), limit)
        target[p] = one - (one + one) / (power(net) + one)


@inlined
def _load(inputs, members, begin, m, units):
    """The inputs of a block of points as first rows; returns the number of points with padding."""
    padded = m + -m % LANES
    for e in range(members.size):
        x, target = inputs[members[e], begin : begin + m], units[e]
        for p in range(m):
            target[p] = x[p]
        target[m:padded] = 0
    return padded


@inlined
def _numeric_weights(row, width, n_slots, discrete, members, entering):
    """First weights as those of another layer, after as many biases; states have weights of 0."""
    for e in range(members.size):
        for o in range(width):
            weight = row[e * n_slots * width + o]
            entering[members.size + e * width + o] = 0 if discrete[members[e]] else weight


@inlined
def _add_states(row, width, n_slots, discrete, members, units, targets):
    for e in range(members.size):
        if discrete[members[e]]:
            for o in range(width):
                x, unit, first = units[e], targets[o], e * n_slots * width + o
                for p in range(unit.size):
                    unit[p] += row[first + np.int64(x[p]) * width]


@inlined
def _forward(row, widths, n_slots, discrete, members, entering, units, top, bottom, one):
    """Values of all units after the inputs; the last row but one is tanh(net)."""
    at, before, after = 0, 0, members.size
    for layer in range(widths.size):
        width, fan_in = widths[layer], after - before
        weights = row[at:]
        bias = at + fan_in * width
        if layer == 0:
            weights, bias = entering[fan_in:], members.size * n_slots * width
        targets = units[after : after + width]
        _sums(units[before:after], targets, units[len(units) - 1], weights, row[bias:])
        if layer == 0:
            _add_states(row, width, n_slots, discrete, members, units, targets)
        _selu(targets, top, bottom)
        at, before, after = bias + width, after, after + width
    unit = units[after]
    _fill(unit, row[at + after - before])
    _output(unit, units[before:after], row[at:], one)


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
    block, last = _block(theta), which.shape[1] + widths.sum()
    room = np.zeros((last + 2, block + LINE), theta.dtype)
    entering_room = np.empty(which.shape[1] * (widths[0] + 1), theta.dtype)
    units, entering = borrowed(room)[:, _first_of_line(room) :], borrowed(entering_room)
    rows, inputs, values = borrowed(theta), borrowed(inputs), borrowed(out)
    which, discrete, widths = borrowed(which), borrowed(discrete), borrowed(widths)
    one, top, bottom = _constants(theta.dtype)
    for c in range(len(theta)):
        row, members = rows[c], which[c]
        scale = row[row.size - 1]
        _numeric_weights(row, widths[0], n_slots, discrete, members, entering)
        for begin in range(0, inputs.shape[1], block):
            m = min(block, inputs.shape[1] - begin)
            n = _load(inputs, members, begin, m, units)
            _forward(row, widths, n_slots, discrete, members, entering, units[:, :n], top, bottom,
                     one)  # fmt: skip
            value, target = units[last], values[c, begin : begin + m]
            for p in range(m):
                target[p] = scale * value[p]


@inlined
def _add_output(value, weights, scale, slope, gradient, one):
    """The derivative by the scale, and that of the weighted sum by what enters tanh."""
    by_scale = by_bias = one - one
    for p in range(weights.size):
        by_scale += weights[p] * value[p]
        slope[p] = scale * weights[p] * (one - value[p] * value[p])
        by_bias += slope[p]
    slope[weights.size :] = 0
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


@inlined
def _add_layer(row, at, sources, slopes, below, spare, gradient, top, bottom):
    """Derivatives by the weights of a layer and by the biases of its sources, stored before them.

    ``below`` gets the slopes of the sources. A pass takes two of them and four slopes.
    """
    n, width, zero = len(sources), len(slopes), row.dtype.type(0)
    for i in range(0, n, 2):
        even, k = i + 1 < n, at + i * width
        source, target = sources[i], below[i]
        other, its = sources[i + 1] if even else source, below[i + 1] if even else spare
        _fill(target, zero)
        _fill(its, zero)
        next_k = k + width if even else k
        for o in range(0, width, 4):
            oa, ob, oc, od = _four(width, o)
            a, b, c, d = slopes[oa], slopes[ob], slopes[oc], slopes[od]
            wa, wb, wc, wd = _four_weights(row[k:], 1, width, o)
            va, vb, vc, vd = _four_weights(row[next_k:], 1, width, o)
            ta = tb = tc = td = ua = ub = uc = ud = zero
            for p in range(source.size):
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
                its[p] += va * a[p] + vb * b[p] + vc * c[p] + vd * d[p]
            _add_four(gradient[k:], width, o, ta, tb, tc, td)
            if even:
                _add_four(gradient[next_k:], width, o, ua, ub, uc, ud)
        gradient[at - n + i] += _through_units(source, target, top, bottom)
        if even:
            gradient[at - n + i + 1] += _through_units(other, its, top, bottom)


@inlined
def _through_units(source, slope, top, bottom):
    """Slopes by what enters SELU units from those by their values; returns their sum."""
    zero = top - top
    total = zero
    for p in range(source.size):
        slope[p] *= top if source[p] > zero else source[p] + bottom
        total += slope[p]
    return total


@inlined
def _add_states_gradient(width, n_slots, discrete, members, units, slopes, gradient):
    for e in range(members.size):
        if discrete[members[e]]:
            for o in range(width):
                x, slope, first = units[e], slopes[o], e * n_slots * width + o
                for p in range(slope.size):
                    gradient[first + np.int64(x[p]) * width] += slope[p]


@inlined
def _add_numeric(width, n_slots, discrete, members, entering, gradient):
    for e in range(members.size):
        if not discrete[members[e]]:
            for o in range(width):
                gradient[e * n_slots * width + o] += entering[members.size + e * width + o]


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
    n_layers, k = widths.size, which.shape[1]
    block, last = _block(theta), k + widths.sum()
    room = np.zeros((last + 2, block + LINE), theta.dtype)
    slope_room = np.zeros((3, max(widths.max(), k), block + LINE), theta.dtype)
    entering_room = np.zeros((2, k + k * widths[0]), theta.dtype)
    units = borrowed(room)[:, _first_of_line(room) :]
    slopes = borrowed(slope_room)[:, :, _first_of_line(slope_room) :]
    entering = borrowed(entering_room)
    rows, inputs, gradients = borrowed(theta), borrowed(inputs), borrowed(out)
    which, discrete, widths = borrowed(which), borrowed(discrete), borrowed(widths)
    weights = borrowed(weights)
    one, top, bottom = _constants(theta.dtype)
    for c in range(len(theta)):
        row, members, gradient = rows[c], which[c], gradients[c]
        weight_row = weights[min(c, len(weights) - 1)]
        _numeric_weights(row, widths[0], n_slots, discrete, members, entering[0])
        entering[1] = 0
        for begin in range(0, inputs.shape[1], block):
            m = min(block, inputs.shape[1] - begin)
            n = _load(inputs, members, begin, m, units)
            _forward(row, widths, n_slots, discrete, members, entering[0], units[:, :n], top,
                     bottom, one)  # fmt: skip
            end, after, width, here = row.size - 1, last, 1, 0
            point_weights = weight_row[begin : begin + m]
            _add_output(units[last], point_weights, row[end], slopes[0, 0, :n], gradient, one)
            for layer in range(n_layers, -1, -1):
                fan_in = widths[layer - 1] if layer > 0 else k
                at, before = end - (fan_in + 1) * width, after - fan_in
                sources, below = units[before:after, :n], slopes[1 - here, :fan_in, :n]
                values, derivatives = row, gradient
                if layer == 0:
                    at, values, derivatives = k, entering[0], entering[1]
                _add_layer(values, at, sources, slopes[here, :width, :n], below, slopes[2, 0, :n],
                           derivatives, top, bottom)  # fmt: skip
                if layer > 0:
                    end, after, width, here = at, before, fan_in, 1 - here
            _add_states_gradient(
                width, n_slots, discrete, members, units[:, :n], slopes[here, :width, :n], gradient
            )
        _add_numeric(widths[0], n_slots, discrete, members, entering[1], gradient)
