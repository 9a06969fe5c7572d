"""Messages of variable elimination over a bucket tree, for several rows of evidence.

Bucket k eliminates one variable with q states. The sources of a bucket are tables of the model and
messages of child buckets. The table of a bucket is the sum of its sources. The table has
``outer * inner`` entries, and the eliminated variable varies fastest. The table is never stored as
a whole: blocks of ``inner`` entries are summed in a buffer. For entry i of block o, the entry of a
source is at ``start + offsets[outer_at + o] + offsets[inner_at + i]``.
"""

from typing import NamedTuple

import numpy as np

from ._jit import inlined, kernel
from .exponential import LONG_RANGE, exponential


class Tree(NamedTuple):
    """Index arrays of a bucket tree, with its buckets in elimination order.

    The sources of bucket k are ``source_ptr[k]`` to ``source_ptr[k + 1] - 1``.
    """

    variable: np.ndarray
    q: np.ndarray
    outer: np.ndarray
    inner: np.ndarray
    message_start: np.ndarray
    single_start: np.ndarray
    is_root: np.ndarray
    scope_ptr: np.ndarray
    scope_var: np.ndarray
    scope_stride: np.ndarray
    source_ptr: np.ndarray
    source_bucket: np.ndarray  # child bucket, or -1 for a table of the model
    source_clique: np.ndarray
    outer_at: np.ndarray
    inner_at: np.ndarray
    offsets: np.ndarray


@kernel
def block_offsets(cards, strides, out):
    """Write the position of each joint state's entry relative to the first entry of a flat table.

    In the order of the joint states, the last variable varies fastest.
    """
    out[0] = 0
    filled = 1
    for d in range(cards.size - 1, -1, -1):
        for s in range(1, cards[d]):
            for r in range(filled):
                out[s * filled + r] = out[r] + s * strides[d]
        filled *= cards[d]


@kernel
def clamped_starts(X, observed, clique_ptr, clique_vars, strides, table_start, out):
    """Write the index of each clique's first table entry that agrees with each row's evidence."""
    for b in range(X.shape[0]):
        for a in range(table_start.size):
            start = table_start[a]
            for p in range(clique_ptr[a], clique_ptr[a + 1]):
                if observed[clique_vars[p]]:
                    start += X[b, clique_vars[p]] * strides[p]
            out[b, a] = start


@inlined
def fill_block(tree, k, b, o, flat, starts, messages, buffer):
    """Write one block of the table of bucket k: the sum of its tables and its child messages.

    The sum has one value for each entry of block o of the bucket's table. b is the row of evidence.
    """
    inner = tree.inner[k]
    for i in range(inner):
        buffer[i] = 0.0
    for s in range(tree.source_ptr[k], tree.source_ptr[k + 1]):
        at = tree.offsets[tree.outer_at[s] + o]
        inner_at = tree.inner_at[s]
        child = tree.source_bucket[s]
        if child < 0:
            at += starts[b, tree.source_clique[s]]
            for i in range(inner):
                buffer[i] += flat[at + tree.offsets[inner_at + i]]
        else:
            at += tree.message_start[child]
            for i in range(inner):
                buffer[i] += messages[b, at + tree.offsets[inner_at + i]]


@kernel
def pass_upward(tree, part, flat, starts, messages, maximise):
    """Compute upward messages of some buckets, as log-sum-exp or maximum.

    The buckets are ``part[0]`` to ``part[1] - 1``, and their blocks ``part[2]`` to ``part[3] - 1``.
    """
    first, last, first_block, last_block = part
    buffer = np.empty(tree.inner.max())
    for k in range(first, last):
        q = tree.q[k]
        rows = tree.inner[k] // q
        for b in range(messages.shape[0]):
            out = tree.message_start[k] + first_block * rows
            for o in range(first_block, min(last_block, tree.outer[k])):
                fill_block(tree, k, b, o, flat, starts, messages, buffer)
                for r in range(rows):
                    top = buffer[r * q]
                    for s in range(1, q):
                        top = max(top, buffer[r * q + s])
                    if not maximise and top > -np.inf:
                        total = 0.0
                        for s in range(q):
                            total += np.exp(buffer[r * q + s] - top)
                        top += np.log(total)
                    messages[b, out] = top
                    out += 1


@kernel
def pass_downward(
    tree, part, flat, starts, out_starts, messages, weights, singles, moments, scratch
):
    """Compute marginals and downward messages of some buckets, from the last bucket to the first.

    ``part`` is that of :func:`pass_upward`. If it has only some blocks of a bucket, there may be
    only one row, and the calls have the blocks in their order, because ``scratch`` is kept.
    The downward messages, which are marginal probabilities of separators, replace the upward
    messages. ``singles[b]`` receives the marginals of variables. ``moments[0]`` (or ``moments[b]``)
    receives the weighted marginals of cliques at ``out_starts``. Either array may have no columns.
    """
    first, last, first_block, last_block = part
    buffer = np.empty(tree.inner.max())
    for k in range(last - 1, first - 1, -1):
        q = tree.q[k]
        inner = tree.inner[k]
        for b in range(messages.shape[0]):
            down = tree.message_start[k] + first_block * (inner // q)
            if first_block == 0:
                if tree.is_root[k]:
                    messages[b, down] = 1.0
                scratch[: children_size(tree, k)] = 0.0
            for o in range(first_block, min(last_block, tree.outer[k])):
                fill_block(tree, k, b, o, flat, starts, messages, buffer)
                for r in range(inner // q):
                    spread_mass(buffer[r * q : (r + 1) * q], messages[b, down + r])
                down += inner // q
                add_block_beliefs(
                    tree, k, b, o, buffer, out_starts, weights, singles, moments, scratch
                )
            if last_block >= tree.outer[k]:
                update_child_messages(tree, k, b, messages, scratch)


@inlined
def spread_mass(scores, mass):
    """Replace unnormalised log-probabilities by probabilities that sum to ``mass``.

    The sum is computed here and not read from an upward message: a message of more than 1e14 nats
    has no digits left for the log of a sum of equal terms.
    """
    top = scores[0]
    for s in range(1, scores.size):
        top = max(top, scores[s])
    if mass == 0.0 or top == -np.inf:
        scores[:] = 0.0
    else:
        total = 0.0
        for s in range(scores.size):
            scores[s] = np.exp(scores[s] - top)
            total += scores[s]
        scale = mass / total
        for s in range(scores.size):
            scores[s] *= scale


@inlined
def children_size(tree, k):
    """Return the total number of entries in all messages from the child buckets of bucket k."""
    size = 0
    for s in range(tree.source_ptr[k], tree.source_ptr[k + 1]):
        child = tree.source_bucket[s]
        if child >= 0:
            size += tree.outer[child] * tree.inner[child] // tree.q[child]
    return size


@inlined
def add_block_beliefs(tree, k, b, o, belief, out_starts, weights, singles, moments, scratch):
    """Add the probabilities of one block of a bucket's table to the marginals.

    The block contributes to the marginals of the bucket's variable, of its cliques and of the
    separators between the bucket and its child buckets.
    """
    inner = tree.inner[k]
    q = tree.q[k]
    if singles.shape[1] > 0:
        for i in range(inner):
            singles[b, tree.single_start[k] + i % q] += belief[i]
    received = 0
    row = b if moments.shape[0] > 1 else 0
    for s in range(tree.source_ptr[k], tree.source_ptr[k + 1]):
        at = tree.offsets[tree.outer_at[s] + o]
        inner_at = tree.inner_at[s]
        child = tree.source_bucket[s]
        if child >= 0:
            for i in range(inner):
                scratch[received + at + tree.offsets[inner_at + i]] += belief[i]
            received += tree.outer[child] * tree.inner[child] // tree.q[child]
        elif moments.shape[1] > 0:
            at += out_starts[b, tree.source_clique[s]]
            for i in range(inner):
                moments[row, at + tree.offsets[inner_at + i]] += weights[b] * belief[i]


@inlined
def update_child_messages(tree, k, b, messages, scratch):
    """Set the downward message from bucket k to each of its child buckets.

    The downward message has the marginal probability of each state of the separator.
    """
    received = 0
    for s in range(tree.source_ptr[k], tree.source_ptr[k + 1]):
        child = tree.source_bucket[s]
        if child < 0:
            continue
        start = tree.message_start[child]
        size = tree.outer[child] * tree.inner[child] // tree.q[child]
        for r in range(size):
            messages[b, start + r] = scratch[received + r]
        received += size


@kernel
def choose_states(tree, first, flat, starts, messages, rows, X, uniforms):
    """Set variables in each row of X to sampled or to most probable states.

    The variables of the buckets are set in turn, from the last bucket down to ``first``.
    Row r uses the upward messages of batch row ``rows[r]``. If ``uniforms`` has the shape (n_rows,
    n_buckets), each variable is drawn from its conditional distribution. If it has no columns, each
    variable is set to its most probable state.
    """
    widest = 1
    for k in range(tree.q.size):
        widest = max(widest, tree.q[k])
    scores = np.empty(widest)
    draw = uniforms.shape[1] > 0
    for k in range(tree.variable.size - 1, first - 1, -1):
        q = tree.q[k]
        per_block = tree.inner[k] // q
        for r in range(X.shape[0]):
            place = 0
            for p in range(tree.scope_ptr[k], tree.scope_ptr[k + 1]):
                place += X[r, tree.scope_var[p]] * tree.scope_stride[p]
            o = place // per_block
            i = (place % per_block) * q
            b = rows[r]
            for s in range(q):
                scores[s] = 0.0
            for src in range(tree.source_ptr[k], tree.source_ptr[k + 1]):
                at = tree.offsets[tree.outer_at[src] + o]
                child = tree.source_bucket[src]
                for s in range(q):
                    place = at + tree.offsets[tree.inner_at[src] + i + s]
                    if child < 0:
                        scores[s] += flat[starts[b, tree.source_clique[src]] + place]
                    else:
                        scores[s] += messages[b, tree.message_start[child] + place]
            best = 0
            for s in range(1, q):
                if scores[s] > scores[best]:
                    best = s
            if draw:
                best = draw_categorical(scores[:q], scores[best], uniforms[r, k])
            X[r, tree.variable[k]] = best


@inlined
def draw_categorical(scores, top, uniform):
    """Draw a state from its unnormalised log-probabilities with a uniform random number.

    Returns the first state whose cumulative probability exceeds ``uniform``. ``scores`` are
    the unnormalised log-probabilities, and ``top`` is their maximum. ``scores`` is overwritten.
    """
    for s in range(scores.size):
        p = exponential(max(scores[s] - top, -LONG_RANGE))
        scores[s] = p if scores[s] > -np.inf else 0.0
    total = 0.0
    last = 0
    for s in range(scores.size):
        if scores[s] > 0.0:
            last = s
        total += scores[s]
        scores[s] = total
    for s in range(last):
        if scores[s] > uniform * total:
            return s
    return last
