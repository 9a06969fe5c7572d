"""Reading and writing of factor graphs in the libDAI format."""

import numpy as np

from .._utils.codes import MAX_STATES
from ..energies import FactorGraph
from ..energies.layout import Layout
from ..energies.protocols import factor_graph_of
from ._files import (
    COMMENT,
    MAX_BYTES,
    MAX_ORDER,
    Tokens,
    count_entries,
    cover_variables,
    find_first_repeat,
    format_potentials,
    take_log,
    write_bytes,
)
from .names import NamedFactorGraph

MAX_LABEL = 2**53 - 1


def read_fg(path, *, max_bytes=MAX_BYTES):
    r"""Read a factor graph in the libDAI format.

    Parameters
    ----------
    path : str or path-like
        File to read. If its name ends in ``.gz``, the file is decompressed while it is read.
    max_bytes : int, default=2**30
        Largest accepted size of the decompressed text, and also of all tables together (8 bytes
        per entry), in bytes. The second limit is needed because the file omits zeros, so a short
        file can declare large tables.

    Returns
    -------
    NamedFactorGraph
        Model with log-potentials in nats: the natural logarithms of the potentials in the file,
        and ``-inf`` for omitted entries. Its variables are those that occur in factors, sorted by
        label. ``names`` contains the labels.

    Raises
    ------
    ValueError
        If the file is malformed, truncated or larger than ``max_bytes``, or if there is text after
        the last factor. The message gives the file, the line, the position of the token in the
        line (both counted from 1), what was expected and what was found.
    OSError
        If the file cannot be opened.

    See Also
    --------
    write_fg : Write a model in the libDAI format.
    read_uai : Read a model in the UAI format.

    Notes
    -----
    The file consists of tokens separated by white space: the number of factors, and for each
    factor

    - the number of its variables (at most 64; 0 for a constant);
    - their labels, integers from 0 to 9007199254740991, which need not be consecutive;
    - the number of states of each variable (at most 32767), the same in all factors;
    - the number of entries that follow;
    - for each entry, its index and its potential, which is finite and at least 0. The **first**
      variable of the factor changes fastest, unlike in the UAI format.

    Omitted entries are 0. Repeated indices and tables with only zeros raise a ValueError.
    Potentials outside the range of floats, such as ``1e-400``, are read correctly, because only
    their logarithms are stored. Lines that start with ``#`` are comments.

    The variables of a clique are in the reverse order of the file, so that the last variable
    changes fastest.

    Examples
    --------
    >>> import pathlib, tempfile
    >>> from skmrf.io import read_fg
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = pathlib.Path(folder) / "model.fg"
    ...     _ = path.write_text("1\n\n2\n3 7\n2 2\n3\n0 1.0\n1 0.5\n3 1.0\n")
    ...     graph = read_fg(path)
    >>> graph.names, graph.cliques
    ([3, 7], ((1, 0),))
    >>> graph.log_potential([[1, 0], [0, 1]])
    array([-0.69314718,        -inf])
    """
    tokens = Tokens(path, max_bytes, COMMENT)
    heads, orders, counts = _read_heads(tokens)
    file = _NumericTokens(tokens)
    ptr = np.concatenate([[0], np.cumsum(orders)])
    labels, variables, n_states = _read_variables(file, heads, orders)
    sizes = _check_sizes(tokens, heads, count_entries(n_states, ptr, variables), max_bytes)
    owner = np.repeat(np.arange(len(orders)), orders)
    reverse = (ptr[:-1] + ptr[1:] - 1)[owner] - np.arange(len(variables))
    layout = Layout.build(n_states, (ptr, variables[reverse]))
    flat = _read_tables(file, heads + 1 + 2 * orders, counts, sizes)
    flat.flags.writeable = False
    graph = FactorGraph.from_layout(layout, flat)
    return NamedFactorGraph(graph, labels.tolist(), map(range, n_states.tolist()))


def _read_heads(tokens):
    """Return the first token, the number of variables and the number of entries of each factor."""
    n_factors = tokens.count(0, "factors")
    at, heads = 1, []
    for a in range(n_factors):
        order = tokens.count(at, "variables of the factor", min_tokens=2)
        if order > MAX_ORDER:
            raise tokens.error(at, f"at most {MAX_ORDER} variables in a factor")
        n_entries = tokens.count(at + 1 + 2 * order, f"entries of factor {a}", min_tokens=2)
        heads.append((at, order, n_entries))
        at += 2 + 2 * (order + n_entries)
    tokens.check_end(at, f"{n_factors} factors")
    return np.array(heads, dtype=np.int64).reshape(-1, 3).T


class _NumericTokens:
    """Tokens of a file that consists of numbers only."""

    def __init__(self, tokens):
        self.tokens = tokens
        self.floats = tokens.floats(0, len(tokens), "a number")
        self.are_digits = tokens.are_digits()

    def integers(self, places, what, high, low=0):
        """Return the tokens with the indices ``places`` as integers from ``low`` to ``high``.

        ``high`` is a number, or an array with one limit for each token.
        """
        values = self.floats[places]
        wrong = ~self.are_digits[places] | (values < low) | (values > high)
        if wrong.any():
            i = int(np.argmax(wrong))
            limit = int(np.broadcast_to(high, values.shape)[i])
            expected = f"{what} (an integer from {low} to {limit})"
            raise self.tokens.error(int(places[i]), expected)
        return values.astype(np.int64)


def _concatenate_ranges(first, lengths, step=1):
    """Concatenate ranges of integers with the given first values, common step, and lengths."""
    begin = np.cumsum(lengths) - lengths
    return np.repeat(first - step * begin, lengths) + step * np.arange(lengths.sum())


def _read_variables(file, heads, orders):
    """Read the variables of all factors: sorted labels, variables by factor, numbers of states."""
    place = _concatenate_ranges(heads + 1, orders)
    labels = file.integers(place, "a label", MAX_LABEL)
    owner = np.repeat(np.arange(len(orders)), orders)
    repeat = find_first_repeat(owner, labels)
    if repeat is not None:
        raise file.tokens.error(
            int(place[repeat]), "a variable that does not occur earlier in the factor"
        )
    unique_labels, first, variables = np.unique(labels, return_index=True, return_inverse=True)
    place = _concatenate_ranges(heads + 1 + orders, orders)
    declared = file.integers(place, "a number of states", MAX_STATES, low=1)
    n_states = declared[first]
    mismatch = np.flatnonzero(declared != n_states[variables])
    if mismatch.size:
        v = variables[mismatch[0]]
        raise file.tokens.error(
            int(place[mismatch[0]]),
            f"{n_states[v]}, the number of states that variable {unique_labels[v]} has in factor "
            f"{owner[first[v]]}",
        )
    return unique_labels, variables, n_states


def _check_sizes(tokens, heads, sizes, max_bytes):
    """Return the table sizes as integers; raise an error if the tables exceed ``max_bytes``."""
    needed = 8.0 * sizes.sum()
    if needed > max_bytes:
        raise tokens.error(
            int(heads[np.argmax(sizes)]),
            f"tables of at most max_bytes = {max_bytes} bytes in total",
            f"{needed:.4g} bytes (this is the largest table)",
        )
    return sizes.astype(np.int64)


def _read_tables(file, at, counts, sizes):
    """Return the log-potentials of all factors, concatenated.

    The entries of factor a follow the token ``at[a]``.
    """
    tokens = file.tokens
    place = _concatenate_ranges(at + 1, counts, step=2)
    index = file.integers(place, "the index of an entry", np.repeat(sizes - 1, counts))
    owner = np.repeat(np.arange(len(counts)), counts)
    repeat = find_first_repeat(owner, index)
    if repeat is not None:
        raise tokens.error(int(place[repeat]), "an index that does not occur earlier in the factor")
    values = file.floats[place + 1]
    is_value = np.zeros(len(tokens), dtype=bool)
    is_value[place + 1] = True
    take_log(values, tokens, 0, is_value)
    start = np.cumsum(sizes) - sizes
    flat = np.full(int(sizes.sum()), -np.inf)
    flat[start[owner] + index] = values
    if len(sizes):
        is_zero = np.maximum.reduceat(flat, start) == -np.inf
        if is_zero.any():
            a = int(np.argmax(is_zero))
            expected = f"a potential above 0 among the entries of factor {a}"
            raise tokens.error(int(at[a]), expected, "zeros only")
    return flat


def write_fg(energy, path):
    r"""Write a discrete model as a factor graph in the libDAI format.

    Parameters
    ----------
    energy : Energy
        Discrete model: any energy that has a factor graph.
    path : str or path-like
        File to write. If its name ends in ``.gz``, the file is compressed.

    Raises
    ------
    TypeError
        If ``energy`` has no factor graph, for example because it is an estimator.
    ValueError
        If a log-potential is nan, ``+inf`` or above 2e18 in absolute value.

    See Also
    --------
    read_fg : Read a model in the libDAI format; describes the format.
    write_uai : Write a model in the UAI format; describes the precision of the potentials, which
        is the same.

    Notes
    -----
    The labels in the file are 0, 1, ... in the order of the variables; names are not written.
    Zero potentials are omitted. A variable that is in no clique gets a factor of ones, because
    the format lists variables only within factors. Each of several tied cliques gets a table of
    its own.

    Examples
    --------
    >>> import pathlib, tempfile
    >>> import numpy as np
    >>> from skmrf.energies import FactorGraph
    >>> from skmrf.io import write_fg
    >>> graph = FactorGraph([2, 2], [(0, 1)], [[0.0, -np.inf, 0.0, 1.0]])
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = pathlib.Path(folder) / "model.fg"
    ...     write_fg(graph, path)
    ...     print(path.read_text())
    1
    <BLANKLINE>
    2
    1 0
    2 2
    3
    0 1.0
    2 1.0
    3 2.718281828459045
    <BLANKLINE>
    """
    graph = cover_variables(factor_graph_of(energy))
    layout, words = graph.layout, format_potentials(graph)
    starts, sizes = layout.table_start.tolist(), layout.table_size.tolist()
    lines = [str(layout.n_cliques)]
    for a, clique in enumerate(graph.cliques):
        table = words[starts[a] : starts[a] + sizes[a]]
        entries = [f"{i} {word}" for i, word in enumerate(table) if word != "0"]
        states = layout.shape(a)
        lines += ["", str(len(clique)), " ".join(map(str, clique[::-1]))]
        lines += [" ".join(map(str, states[::-1])), str(len(entries)), *entries]
    write_bytes(path, ("\n".join(lines) + "\n").encode("ascii"))
