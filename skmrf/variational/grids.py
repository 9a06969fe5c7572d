"""Sums over the labels of grids: contraction of rows with boundary matrix product states."""

import numpy as np

BOND_DIMENSIONS = 4, 8, 16
MAX_WORK = 1.5e6  # of a node: number of labels to the power of 4, times the bond dimension cubed
MAX_BYTES = 2**31  # of the matrix product states of a grid
BLOCK_BYTES = 2**26  # of those of grids that are contracted at a time
SMALL_STEP = 2e-4  # between the values of log Z of neighbouring rows, in nats
LARGEST_STEP = 0.005  # the same, for the largest bond dimension
SMALLEST_VALUE = 1e-14  # singular values, relative to the largest one
SMALLEST_MESSAGE = 0.1  # smaller messages are replaced by it


def bond_dimensions(shape, n_labels):
    """Return the bond dimensions to try for a grid, the smaller one first.

    Parameters
    ----------
    shape : (int, int)
        Height and width of the grid.
    n_labels : int
        Number of labels.

    Returns
    -------
    tuple of int
        At most two numbers; none if a contraction would need too much time or memory.
    """
    return tuple(
        size
        for size in BOND_DIMENSIONS
        if n_labels**4 * size**3 <= MAX_WORK and _bytes(shape, n_labels, size) <= MAX_BYTES
    )[-2:]


def block_size(shape, n_labels, size):
    """Return the number of grids to contract at a time.

    Parameters
    ----------
    shape : (int, int)
        Height and width of the grids.
    n_labels : int
        Number of labels.
    size : int
        Bond dimension.

    Returns
    -------
    int
        At least 1.
    """
    return max(int(BLOCK_BYTES / _bytes(shape, n_labels, size)), 1)


def _bytes(shape, n_labels, size):
    """Return the bytes of the matrix product states from above and from below."""
    return 16 * np.prod(shape) * n_labels * size**2


def contract(nodes, tables, messages, size):
    """Return log Z and the marginals of the nodes of grids of equal shape.

    The sum over the labels of all rows above a row is a function of the labels of this row. It is
    represented as a product of matrices, one for each node of the row (a matrix product state).
    Each matrix depends on the label of its node. After each row, the sizes of the matrices are
    reduced by a singular value decomposition. The rows below a row are summed in the same way. The
    time is proportional to the number of nodes.

    Nodes are first multiplied by messages, and tables are divided by them. This does not change the
    model. With messages of belief propagation, less is lost. Messages below 0.1 are replaced by
    0.1, because smaller ones can cause the loss of modes of the model. Such a loss can be the same
    from above and from below, so that log Z does not show it.

    Parameters
    ----------
    nodes : ndarray of shape (n_grids, height, width, n_labels)
        Exponentials of the log-potentials of nodes.
    tables : (ndarray of shape (n_labels, n_labels), ndarray of shape (n_labels, n_labels))
        Exponentials of the log-potentials of edges to the right, and of edges downwards.
    messages : ndarray of shape (n_grids, n_edges, 2, n_labels)
        Messages of each edge to its first and to its second node. Edges to the right come first.
    size : int
        Bond dimension: largest number of singular values.

    Returns
    -------
    log_z : ndarray of shape (n_grids, height)
        Estimates of log Z in nats, by the rows above and below each row. They differ by the errors
        of the truncation.
    beliefs : ndarray of shape (n_grids, height, width, n_labels)
        Marginals of nodes; nan where they underflow.

    References
    ----------
    F. Verstraete, V. Murg and J. I. Cirac, "Matrix product states, projected entangled pair states,
    and variational renormalization group methods for quantum spin systems", Advances in Physics 57
    (2008), section 5.
    """
    n, height, width, q = nodes.shape
    roots, across, down, log_scale = _balance(nodes, tables, messages)
    both = (  # the second half of the grids is upside down
        np.concatenate([roots, roots[:, ::-1]]),
        np.concatenate([across, across[:, ::-1]]),
        np.concatenate([down, down[:, ::-1].swapaxes(-1, -2)]),
    )
    states, scales = _sweep(*both, size)
    log_z, beliefs = log_scale[:, None] + scales[:n] + scales[n:, ::-1], np.empty(nodes.shape)
    step = block_size((n, width), q, size)
    for r in range(0, height, step):
        rows = range(r, min(r + step, height))
        upper = [[core[:n] for core in states[r]] for r in rows]
        lower = [[core[n:] for core in states[height - 1 - r]] for r in rows]
        tables = across[:, r : r + step].swapaxes(0, 1).reshape(-1, width - 1, q, q)
        found, totals = _sum_rows(_stack(upper), _stack(lower), tables)
        beliefs[:, r : r + step] = found.reshape(len(rows), n, width, q).swapaxes(0, 1)
        log_z[:, r : r + step] += totals.reshape(len(rows), n).T
    return log_z, beliefs


def _stack(rows):
    """Return for each column the cores of all rows, padded with zeros to bonds of equal size."""
    out = []
    for cores in zip(*rows, strict=True):
        bonds = np.max([core.shape[2:] for core in cores], axis=0)
        column = np.zeros((len(cores), *cores[0].shape[:2], *bonds))
        for r, core in enumerate(cores):
            column[r, :, :, : core.shape[2], : core.shape[3]] = core
        out.append(column.reshape(-1, *column.shape[2:]))
    return out


def is_reliable(log_z, largest_step):
    """Return whether log Z of each grid is finite and nearly the same for all rows.

    Parameters
    ----------
    log_z : ndarray of shape (n_grids, height)
        Estimates of :func:`contract`.
    largest_step : float
        Largest difference of neighbouring rows in nats.

    Returns
    -------
    ndarray of bool of shape (n_grids,)
        True for grids whose marginals can be used.
    """
    with np.errstate(invalid="ignore"):
        steps = np.abs(np.diff(log_z, axis=1)).max(axis=1, initial=0.0)
    return np.isfinite(log_z).all(axis=1) & (steps <= largest_step)


# Messages -----------------------------------------------------------------------------------


def _balance(nodes, tables, messages):
    """Multiply nodes by messages, and divide tables by them.

    Returns the square roots of the new nodes; the tables of edges to the right, shape (n_grids,
    height, width - 1, n_labels, n_labels); the tables of edges downwards, multiplied by the square
    roots of both nodes; and the logs of the factors that were left out, shape (n_grids,).
    """
    n, height, width, q = nodes.shape
    n_right = height * (width - 1)
    with np.errstate(divide="ignore"):
        logs, (right, below) = np.log(nodes), np.log(tables)
    messages = np.log(np.maximum(messages, SMALLEST_MESSAGE))
    to_right = messages[:, :n_right].reshape(n, height, width - 1, 2, q)
    to_below = messages[:, n_right:].reshape(n, height - 1, width, 2, q)
    logs[:, :, :-1] += to_right[..., 0, :]
    logs[:, :, 1:] += to_right[..., 1, :]
    logs[:, :-1] += to_below[..., 0, :]
    logs[:, 1:] += to_below[..., 1, :]
    logs, log_scale = _divide_by_maxima(logs, 1)
    logs = logs / 2
    across = right - to_right[..., 0, :, None] - to_right[..., 1, None, :]
    down = below - to_below[..., 0, :, None] - to_below[..., 1, None, :]
    down = down + logs[:, :-1, :, :, None] + logs[:, 1:, :, None, :]
    across, log_across = _divide_by_maxima(across, 2)
    down, log_down = _divide_by_maxima(down, 2)
    log_scale = log_scale + log_across + log_down
    return np.exp(logs), np.exp(across), np.exp(down), log_scale


def _divide_by_maxima(logs, n_axes):
    """Subtract the maxima over the last axes; return the differences, and the sums of maxima."""
    top = logs.max(axis=tuple(range(-n_axes, 0)), keepdims=True)
    top[top == -np.inf] = 0.0
    return logs - top, top.reshape(len(logs), -1).sum(axis=1)


# Rows ---------------------------------------------------------------------------------------
#
# A core has shape (n_grids, n_labels, left bond, right bond): labels come before bonds, because
# most products are over bonds.


def _sweep(roots, across, down, size):
    """Return the cores of the states from above for each row, and the logs of their scales."""
    n, height, width, _ = roots.shape
    states, log_scales = [[roots[:, 0, c, :, None, None] for c in range(width)]], [np.zeros(n)]
    for r in range(height - 1):
        factors = _left_factors(states[r], across[:, r], down[:, r])
        arrays = states[r], factors, across[:, r], down[:, r]
        cores, log_scale = _compress(*arrays, size)
        states.append(cores)
        log_scales.append(log_scales[r] + log_scale)
    return states, np.array(log_scales).T


def _left_factors(cores, across, down):
    """Return for each node a factor F of the sums over all nodes to its left in the next row.

    The inner products of the columns of F are those of the sums. The columns are pairs of a label
    and a left bond of the node; the shape is (n_grids, n_labels, n_rows, bond).
    """
    n, q = len(across), across.shape[-1]
    factors = [np.ones((n, q, 1, 1))]
    for c, core in enumerate(cores[:-1]):
        products = np.einsum("nxar,nxy->nayxr", factors[c] @ core, down[:, c])
        products = products.reshape(n, products.shape[1] * q, -1)
        if products.shape[1] > products.shape[2]:
            products = np.linalg.qr(products, mode="r")
        products = products.reshape(n, products.shape[1], q, -1).swapaxes(1, 2)
        factors.append(_apply(across[:, c].swapaxes(1, 2), products)[0])
    return factors


def _compress(cores, factors, across, down, size):
    """Return the cores of the next row with truncated bonds, and the log of their scale."""
    n, q = len(across), across.shape[-1]
    out, rest, norms = [], np.ones((n, q, 1, 1)), []
    for c in range(len(cores) - 1, 0, -1):
        products = np.einsum("nxlk,nxy->nxlyk", cores[c] @ rest, down[:, c])
        bond, kept = products.shape[2], products.shape[4]
        products = products.reshape(n, q * bond, q * kept)
        factor = factors[c].swapaxes(1, 2).reshape(n, -1, q * bond)
        _, values, vectors = np.linalg.svd(factor @ products, full_matrices=False)
        is_large = (values > SMALLEST_VALUE * values[:, :1]).any(axis=0)
        vectors = vectors[:, : min(max(int(is_large.sum()), 1), size)]
        out.append(vectors.reshape(n, -1, q, kept).swapaxes(1, 2))
        rest = (products @ vectors.swapaxes(1, 2)).reshape(n, q, bond, -1)
        rest, norm = _apply(across[:, c - 1], rest)
        norms.append(norm)
    first = np.einsum("nxlk,nxy->nylk", cores[0] @ rest, down[:, 0])
    return [first, *out[::-1]], _logs(np.array(norms)).sum(axis=0)


def _sum_rows(upper, lower, across):
    """Return the marginals of the nodes of rows, and the logs of the sums over their labels.

    ``upper`` and ``lower`` have the cores of the states from above and from below, each for all
    rows. The shape of ``across`` is (n_rows, width - 1, n_labels, n_labels).
    """
    width, (n, q, *_) = len(upper), upper[0].shape
    start = np.ones((n, q, 1, 1))
    lefts, norms = [start], []
    for c in range(width - 1):
        found = upper[c].swapaxes(2, 3) @ lefts[c] @ lower[c]
        found, norm = _apply(across[:, c].swapaxes(1, 2), found)
        lefts.append(found)
        norms.append(norm)
    beliefs, rest = np.empty((n, width, q)), start
    for c in range(width - 1, -1, -1):
        found = upper[c] @ rest @ lower[c].swapaxes(2, 3)
        beliefs[:, c] = np.maximum(np.einsum("nxlm,nxlm->nx", found, lefts[c]), 0.0)
        if c > 0:
            rest, _ = _apply(across[:, c - 1], found)
    totals = beliefs.sum(axis=2, keepdims=True)
    log_z = _logs(np.array([*norms, totals[:, -1, 0]])).sum(axis=0)
    with np.errstate(invalid="ignore"):
        return beliefs / totals, log_z


def _apply(tables, x):
    """Multiply the axis of labels by tables; return the products over their norm, and the norm."""
    products = tables @ x.reshape(*x.shape[:2], -1)
    norms = np.sqrt(np.square(products).sum(axis=(1, 2)))
    divisors = np.where(norms > 0.0, norms, 1.0)[:, None, None]
    return (products / divisors).reshape(x.shape), norms


def _logs(x):
    """Return logs, and -inf for 0."""
    with np.errstate(divide="ignore"):
        return np.log(x)
