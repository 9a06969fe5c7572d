"""Models in the format of libDAI."""

import numpy as np

from .._utils.codes import MAX_STATES
from ..energies import FactorGraph
from ..energies.checks import factor_graph_of
from ..energies.layout import Layout
from ._files import MAX_BYTES, write_bytes
from ._tables import MAX_ORDER, covering, first_repeat, potentials, table_sizes, take_log
from ._tokens import COMMENT, Tokens
from .names import NamedFactorGraph

MAX_LABEL = 2**53 - 1


def read_fg(path, *, max_bytes=MAX_BYTES):
    r"""Read a factor graph in the format of libDAI.

    Parameters
    ----------
    path : str or path-like
        A name that ends in ``.gz`` is unpacked while it is read.
    max_bytes : int
        Bound on the bytes of (unpacked) text, and on those of the tables, 8 an entry: a file
        leaves out zeros, so a short one can declare large tables.

    Returns
    -------
    NamedFactorGraph
        Log-potentials in nats: natural logarithms of the numbers in the file, ``-inf`` for what
        is left out. The variables are those that occur in factors, by ascending label; ``names``
        has their labels.

    Raises
    ------
    ValueError
        The file is malformed, truncated, or larger than ``max_bytes``, or anything follows the
        last factor. The message names the file, the line and the token in that line, both
        counted from 1, what was expected there and what was found.
    OSError
        The file cannot be opened.

    See Also
    --------
    write_fg : The other direction.
    read_uai : Another format.

    Notes
    -----
    The file is a list of tokens parted by any white space: the number of factors, and for each

    - the number of its variables (at most 64; 0 for a constant);
    - their labels, integers from 0 to 9007199254740991, not necessarily without gaps;
    - the number of states of each (at most 32767), the same in all factors;
    - the number of entries that follow;
    - for each of them its index and its potential, which is finite and at least 0. The **first**
      variable of the factor is fastest, other than in the UAI format.

    Entries that are left out are 0. An index that comes twice is refused, and so is a table of
    zeros only. Potentials beyond the range of floats, such as ``1e-400``, keep their logarithms.
    Lines that start with ``#`` are comments.

    The variables of a clique are in the reverse order of the file, so that the last is fastest.

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
    heads, orders, counts = _factors(tokens)
    file = _Numbers(tokens)
    ptr = np.concatenate([[0], np.cumsum(orders)])
    labels, variables, n_states = _variables(file, heads, orders)
    sizes = _sizes(tokens, heads, table_sizes(n_states, ptr, variables), max_bytes)
    owner = np.repeat(np.arange(len(orders)), orders)
    reverse = (ptr[:-1] + ptr[1:] - 1)[owner] - np.arange(len(variables))
    layout = Layout.build(n_states, (ptr, variables[reverse]))
    flat = _tables(file, heads + 1 + 2 * orders, counts, sizes)
    flat.flags.writeable = False
    graph = FactorGraph.from_layout(layout, flat)
    return NamedFactorGraph(graph, labels.tolist(), map(range, n_states.tolist()))


def _factors(tokens):
    """First token, number of variables and number of entries of every factor."""
    n_factors = tokens.count(0, "factors")
    at, found = 1, []
    for a in range(n_factors):
        order = tokens.count(at, "variables of the factor", each=2)
        if order > MAX_ORDER:
            raise tokens.error(at, f"at most {MAX_ORDER} variables in a factor")
        n_entries = tokens.count(at + 1 + 2 * order, f"entries of factor {a}", each=2)
        found.append((at, order, n_entries))
        at += 2 + 2 * (order + n_entries)
    tokens.check_end(at, f"{n_factors} factors")
    return np.array(found, dtype=np.int64).reshape(-1, 3).T


class _Numbers:
    """All tokens of a file as numbers."""

    def __init__(self, tokens):
        self.tokens = tokens
        self.floats = tokens.floats(0, len(tokens), "a number")
        self.are_digits = tokens.are_digits()

    def integers(self, places, what, high, low=0):
        """The tokens at ``places`` as integers; ``high`` is a number, or one for each."""
        values = self.floats[places]
        wrong = ~self.are_digits[places] | (values < low) | (values > high)
        if wrong.any():
            i = int(np.argmax(wrong))
            limit = int(np.broadcast_to(high, values.shape)[i])
            expected = f"{what} (an integer from {low} to {limit})"
            raise self.tokens.error(int(places[i]), expected)
        return values.astype(np.int64)


def _runs(first, lengths, step=1):
    """``first[a] + step * (0, 1, ..., lengths[a] - 1)`` for all a, one after the other."""
    begin = np.cumsum(lengths) - lengths
    return np.repeat(first - step * begin, lengths) + step * np.arange(lengths.sum())


def _variables(file, heads, orders):
    """Labels in ascending order; the variables of all factors; numbers of states."""
    place = _runs(heads + 1, orders)
    labels = file.integers(place, "a label", MAX_LABEL)
    owner = np.repeat(np.arange(len(orders)), orders)
    again = first_repeat(owner, labels)
    if again is not None:
        raise file.tokens.error(int(place[again]), "a variable that the factor does not have yet")
    known, first, variables = np.unique(labels, return_index=True, return_inverse=True)
    place = _runs(heads + 1 + orders, orders)
    given = file.integers(place, "a number of states", MAX_STATES, low=1)
    n_states = given[first]
    other = np.flatnonzero(given != n_states[variables])
    if other.size:
        v = variables[other[0]]
        raise file.tokens.error(
            int(place[other[0]]),
            f"{n_states[v]}, the number of states that variable {known[v]} has in factor "
            f"{owner[first[v]]}",
        )
    return known, variables, n_states


def _sizes(tokens, heads, sizes, max_bytes):
    """Numbers of entries as integers, if all tables fit."""
    needed = 8.0 * sizes.sum()
    if needed > max_bytes:
        raise tokens.error(
            int(heads[np.argmax(sizes)]),
            f"tables of at most max_bytes = {max_bytes} bytes in all",
            f"{needed:.4g} bytes, and here the largest table",
        )
    return sizes.astype(np.int64)


def _tables(file, at, counts, sizes):
    """Log-potentials of all factors in one array; their entries follow the tokens ``at``."""
    tokens = file.tokens
    place = _runs(at + 1, counts, step=2)
    index = file.integers(place, "the index of an entry", np.repeat(sizes - 1, counts))
    owner = np.repeat(np.arange(len(counts)), counts)
    again = first_repeat(owner, index)
    if again is not None:
        raise tokens.error(int(place[again]), "an entry that the factor does not have yet")
    values = file.floats[place + 1]
    is_value = np.zeros(len(tokens), dtype=bool)
    is_value[place + 1] = True
    take_log(values, tokens, 0, is_value)
    start = np.cumsum(sizes) - sizes
    flat = np.full(int(sizes.sum()), -np.inf)
    flat[start[owner] + index] = values
    if len(sizes):
        zero = np.maximum.reduceat(flat, start) == -np.inf
        if zero.any():
            a = int(np.argmax(zero))
            expected = f"a potential above 0 among the entries of factor {a}"
            raise tokens.error(int(at[a]), expected, "zeros only")
    return flat


def write_fg(energy, path):
    r"""Write a discrete model as a factor graph in the format of libDAI.

    Parameters
    ----------
    energy : Energy
        Any energy with a factor graph.
    path : str or path-like
        A name that ends in ``.gz`` is packed.

    Raises
    ------
    TypeError
        What has no factor graph, such as an estimator.
    ValueError
        A log-potential is nan, ``+inf`` or beyond 2e18 in size.

    See Also
    --------
    read_fg : The other direction; describes the format.
    write_uai : What is said there of digits, and of potentials beyond the range of floats, is so
        here.

    Notes
    -----
    Labels are 0, 1, ... in the order of the variables, whatever they are called. Zero potentials
    are left out. A variable that is in no clique gets a factor of ones, as the format names
    variables in factors only. Tied cliques are written with a table each.

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
    graph = covering(factor_graph_of(energy))
    layout, words = graph.layout, potentials(graph)
    starts, sizes = layout.table_start.tolist(), layout.table_size.tolist()
    lines = [str(layout.n_cliques)]
    for a, clique in enumerate(graph.cliques):
        table = words[starts[a] : starts[a] + sizes[a]]
        entries = [f"{i} {word}" for i, word in enumerate(table) if word != "0"]
        states = layout.shape(a)
        lines += ["", str(len(clique)), " ".join(map(str, clique[::-1]))]
        lines += [" ".join(map(str, states[::-1])), str(len(entries)), *entries]
    write_bytes(path, ("\n".join(lines) + "\n").encode("ascii"))
