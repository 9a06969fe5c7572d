"""Steps of optimizers, each computed in one loop over the parameters."""

import numpy as np

from ._jit import assume_distinct, kernel
from .label_trees import add_observed_products, add_observed_scores, clear_observed, tree_maxima


@kernel
def adam_step(theta, gradient, mean, square, betas, corrections, rate, epsilon):
    """Overwrite ``gradient`` with the parameters after one step of the Adam optimiser.

    The running means ``mean`` and ``square`` are updated in place. The two ``corrections`` are
    factors of the running mean and of the square root of the running mean square.
    """
    assume_distinct()
    kind = theta.dtype.type
    one, rate, epsilon = kind(1), kind(rate), kind(epsilon)
    b1, b2 = kind(betas[0]), kind(betas[1])
    c1, c2 = kind(corrections[0]), kind(corrections[1])
    for i in range(theta.size):
        g = gradient[i]
        m = b1 * mean[i] + (one - b1) * g
        v = b2 * square[i] + (one - b2) * g * g
        mean[i], square[i] = m, v
        gradient[i] = theta[i] + rate / (np.sqrt(v) * c2 + epsilon) * m * c1


@kernel
def adam_step_sizes(square, rate, correction, epsilon, sizes):
    """Set ``sizes`` to the step size of each parameter in an Adam step.

    ``correction`` is the second of the two corrections of :func:`adam_step`.
    """
    kind = square.dtype.type
    rate, correction, epsilon = kind(rate), kind(correction), kind(epsilon)
    for i in range(square.size):
        sizes[i] = rate / (np.sqrt(square[i]) * correction + epsilon)


@kernel
def subtract_decay(theta, gradient, strength):
    """Subtract ``strength * theta`` from ``gradient``; return the sum of squares of the result.

    Parameters of -inf have no decay.
    """
    assume_distinct()
    zero, strength = gradient.dtype.type(0), gradient.dtype.type(strength)
    total = zero
    for i in range(theta.size):
        x = theta[i]
        g = gradient[i] - strength * (zero if x == -np.inf else x)
        gradient[i] = g
        total += g * g
    return total


@kernel
def gradient_step(theta, gradient, rate):
    """Overwrite ``gradient`` with the new parameters ``theta + rate * gradient``."""
    assume_distinct()
    rate = gradient.dtype.type(rate)
    for i in range(theta.size):
        gradient[i] = theta[i] + rate * gradient[i]


@kernel
def precondition_layers(
    theta, rate, weights, visible_bias, hidden_bias, means, offsets, scale
):  # fmt: skip
    """Overwrite the gradient of two layers of units with the steps of centred and scaled units.

    ``weights``, ``visible_bias`` and ``hidden_bias`` are the gradient. ``means`` and ``offsets``
    are the centres of the visible and of the hidden units, and ``scale`` has a factor for each
    visible unit. The steps of the weights are multiplied by ``rate`` and added to ``theta``, which
    has a row for each visible unit, or one row for all.
    """
    assume_distinct()
    rate, last = weights.dtype.type(rate), theta.shape[0] - 1
    shift = np.zeros_like(hidden_bias)
    for i in range(visible_bias.size):
        row, old, total = weights[i], theta[min(i, last)], weights.dtype.type(0)
        visible, mean, factor = visible_bias[i], means[i], scale[i]
        for j in range(shift.size):
            step = factor * (row[j] - mean * hidden_bias[j] - visible * offsets[j])
            row[j] = old[j] + rate * step
            total += step * offsets[j]
            shift[j] += step * mean
        visible_bias[i] = factor * visible - total
    for j in range(shift.size):
        hidden_bias[j] -= shift[j]


@kernel
def update_running_mean(mean, value, share):
    """Move a running mean towards a new value: ``mean += share * (value - mean)``.

    The mean of values of -inf is -inf.
    """
    assume_distinct()
    share = mean.dtype.type(share)
    for i in range(mean.size):
        moved = mean[i] + share * (value[i] - mean[i])
        mean[i] = value[i] if value[i] == -np.inf else moved


@kernel
def add_and_project(vector, direction, factor, other):
    """Add ``factor * direction`` to ``vector``; return the inner product of the sum and ``other``.

    One thread computes it: BLAS would start several, which wait for each other if other programs
    run.
    """
    product = 0.0
    for i in range(vector.size):
        vector[i] += factor * direction[i]
        product += vector[i] * other[i]
    return product


# Structured support vector machine of chains ------------------------------------------------
#
# Loops over entries compile in half the time of expressions of arrays.


@kernel
def _set_rows(first, last, target, factor, x, y):
    """Set the rows ``first .. last`` of ``target`` to ``factor * x + y``."""
    for i in range(first, last):
        for b in range(target.shape[1]):
            target[i, b] = factor * x[i, b] + y[i, b]


@kernel
def _scale_rows(first, last, target, factor):
    """Multiply the rows ``first .. last`` of ``target`` by a factor."""
    for i in range(first, last):
        for b in range(target.shape[1]):
            target[i, b] *= factor


@kernel
def _find_change(first, last, states, known, nodes, tables, change, table_change):
    """Set the changes to the moments of known minus found labels, minus the dual variables."""
    n = change.shape[1]
    for a in range(n):
        for b in range(n):
            table_change[a, b] = -tables[a, b]
    for i in range(first, last):
        for b in range(n):
            change[i, b] = -nodes[i, b]
        change[i, known[i]] += 1.0
        change[i, states[i]] -= 1.0
        if i > first:
            table_change[known[i - 1], known[i]] += 1.0
            table_change[states[i - 1], states[i]] -= 1.0


@kernel
def _inner_product(first, last, x, y):
    """Return the sum of the products of the rows ``first .. last`` of two arrays."""
    total = 0.0
    for i in range(first, last):
        for b in range(x.shape[1]):
            total += x[i, b] * y[i, b]
    return total


@kernel
def _squared_norm(first, last, features, change, table_change, projected, buffer):
    """Return the squared norm of the statistics of a change. All entries of buffer are zero."""
    ptr, starts, _, pair_ptr, pairs, _, _ = features
    n = change.shape[1]
    add_observed_products(first, last, *features, change, buffer)
    for i in range(first, last):
        for b in range(n):
            projected[i, b] = 0.0
    add_observed_scores(first, last, *features, buffer, projected)
    clear_observed(first, last, ptr, starts, pair_ptr, pairs, n, buffer)
    total = _inner_product(first, last, change, projected)
    total += _inner_product(0, n, table_change, table_change)
    for i in (first, last - 1):
        total += _inner_product(i, i + 1, change, change)
    for b in range(n):
        x = 0.0
        for i in range(first, last):
            x += change[i, b]
        total += x * x
    return total


@kernel
def _add_statistics(first, last, features, change, table_change, theta):
    """Add the statistics of a change to the parameters."""
    coef, intercept, transition, start, end = theta
    add_observed_products(first, last, *features, change, coef)
    n = change.shape[1]
    for b in range(n):
        for i in range(first, last):
            intercept[b] += change[i, b]
        start[b] += change[first, b]
        end[b] += change[last - 1, b]
    _set_rows(0, n, transition[0], 1.0, table_change, transition[0])


@kernel
def frank_wolfe_steps(
    examples, n_steps, alpha, weights, ptr, trees, features, known, free, loss, theta, lag, nodes,
    tables, losses, rows, scratch,
):  # fmt: skip
    """Make a block-coordinate Frank-Wolfe step for each chain of ``examples``.

    ``theta`` and ``lag`` are the weights of features as a vector, the intercept, the transitions,
    and the weights of the first and of the last label, as in ``learners/frank_wolfe.py``. The dual
    variables ``nodes`` and ``tables`` and their ``losses`` are updated, and so are ``theta`` and
    ``lag``. ``rows`` and ``scratch`` are work arrays; the first one of ``scratch`` must be
    zero.
    """
    coef, intercept, transition, start, end = theta
    n = loss.shape[1]
    scores, augmented, change, projected = rows
    buffer, values, best, found, states = scratch
    table_change = np.empty((n, n))
    for e in examples:
        first, last = ptr[e], ptr[e + 1]
        for b in range(n):
            for i in range(first, last):
                scores[i, b] = intercept[b]
            scores[first, b] += start[b]
            scores[last - 1, b] += end[b]
        add_observed_scores(first, last, *features, coef, scores)
        _set_rows(first, last, augmented, 1.0, scores, loss)
        tree_maxima(
            e, e + 1, ptr, *trees, augmented, free, n, transition, values, best, found, states
        )
        _find_change(first, last, states, known, nodes, tables[e], change, table_change)
        new_loss = 0.0
        for i in range(first, last):
            new_loss += loss[i, states[i]]
        slope = _inner_product(first, last, change, scores)
        slope += _inner_product(0, n, table_change, transition[0])
        gain = new_loss - losses[e] - slope
        norm = _squared_norm(first, last, features, change, table_change, projected, buffer)
        curvature = max(weights[e] / alpha * norm, 1e-300)
        size = 0.0 if gain <= 0.0 else min(gain / curvature, 1.0)
        _set_rows(first, last, nodes, size, change, nodes)
        _set_rows(0, n, tables[e], size, table_change, tables[e])
        losses[e] += size * (new_loss - losses[e])
        for factor, part in (
            (size * weights[e] / alpha, theta), (0.5 * n_steps * (n_steps + 1), lag)
        ):  # fmt: skip
            _scale_rows(first, last, change, factor)
            _scale_rows(0, n, table_change, factor)
            _add_statistics(first, last, features, change, table_change, part)
        n_steps += 1
