"""Reading and writing of models in the UAI format."""

import numpy as np

from .._utils.codes import MAX_STATES
from ..energies import FactorGraph
from ..energies.layout import Layout
from ..energies.protocols import factor_graph_of
from ._files import MAX_BYTES, write_bytes
from ._tables import (
    MAX_ORDER,
    POTENTIAL,
    count_entries,
    find_first_repeat,
    format_potentials,
    take_log,
)
from ._tokens import Tokens


def read_uai(path, *, max_bytes=MAX_BYTES):
    r"""Read a Markov or a Bayesian network in the UAI format.

    Parameters
    ----------
    path : str or path-like
        File to read. If its name ends in ``.gz``, the file is decompressed while it is read.
    max_bytes : int, default=2**30
        Largest accepted size of the decompressed text, in bytes. This also limits the memory: the
        worst case is a file of one-digit numbers, with a peak of about 25 bytes per byte of text.

    Returns
    -------
    FactorGraph
        Model with log-potentials in nats: the natural logarithms of the potentials in the file,
        ``-inf`` for 0.

    Raises
    ------
    ValueError
        If the file is malformed, truncated or larger than ``max_bytes``, or if there is text after
        the last table. The message gives the file, the line, the position of the token in the line
        (both counted from 1), what was expected and what was found. Declared sizes are compared
        with the number of tokens before memory is allocated.
    OSError
        If the file cannot be opened.

    See Also
    --------
    write_uai : Write a model in the UAI format.
    read_evidence : Read an evidence file.
    read_result : Read a result file.

    Notes
    -----
    The file consists of tokens separated by white space:

    - ``MARKOV`` or ``BAYES``;
    - the number of variables, then the number of states of each variable (at most 32767);
    - the number of cliques, then for each clique the number of its variables (at most 64; 0 for
      a constant) and the variables, numbered from 0;
    - for each clique, the number of entries of its table, then the potentials. They are finite
      and at least 0. The last variable of the clique changes fastest.

    In a Bayesian network, each clique is a conditional probability table, with the child as last
    variable. The distribution is again the product of the tables. Whether the probabilities sum to
    one is not checked. A table with only zeros raises a ValueError, because all states would have
    probability zero. Potentials outside the range of floats, such as ``1e-400``, are read
    correctly, because only their logarithms are stored.

    Lines that start with ``#``, or with the word ``c``, are comments.

    Examples
    --------
    >>> import pathlib, tempfile
    >>> from skmrf.io import read_uai
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = pathlib.Path(folder) / "coins.uai"
    ...     _ = path.write_text("MARKOV\n2\n2 2\n1\n2 0 1\n\n4\n 1 0.5 0.5 1\n")
    ...     graph = read_uai(path)
    >>> graph
    FactorGraph(n_variables=2, n_cliques=1, n_parameters=4)
    >>> graph.log_potential([[0, 1]])
    array([-0.69314718])
    """
    tokens = Tokens(path, max_bytes)
    if not len(tokens) or tokens[0] not in (b"MARKOV", b"BAYES"):
        raise tokens.error(0, "MARKOV or BAYES")
    n_variables = tokens.count(1, "variables")
    n_states = tokens.integers(2, n_variables, "a number of states", 1, MAX_STATES)
    cliques, end = _read_cliques(tokens, 2 + n_variables, n_variables)
    flat = _read_tables(tokens, end, count_entries(n_states, *cliques))
    flat.flags.writeable = False
    return FactorGraph.from_layout(Layout.build(n_states, cliques), flat)


def _read_cliques(tokens, at, n_variables):
    """Read the cliques of a UAI model, which start at token ``at``.

    Returns ((pointers, variables), index of the next token).
    """
    n_cliques = tokens.count(at, "cliques")
    first = at + 1
    bounds = tokens.lists(first, n_cliques, "variables of the clique")
    ptr, end = bounds - first - np.arange(n_cliques + 1), int(bounds[-1])
    large = np.flatnonzero(np.diff(ptr) > MAX_ORDER)
    if large.size:
        raise tokens.error(int(bounds[large[0]]), f"at most {MAX_ORDER} variables in a clique")
    place = np.delete(np.arange(first, end), bounds[:-1] - first)
    variables = tokens.integers(first, end - first, "a variable")[place - first]
    unknown = np.flatnonzero(variables >= n_variables)
    if unknown.size:
        raise tokens.error(
            int(place[unknown[0]]), f"one of the {n_variables} variables, numbered from 0"
        )
    owner = np.repeat(np.arange(n_cliques), np.diff(ptr))
    repeat = find_first_repeat(owner, variables)
    if repeat is not None:
        raise tokens.error(
            int(place[repeat]), "a variable that does not occur earlier in the clique"
        )
    return (ptr, variables), end


def _read_tables(tokens, at, sizes):
    """Read the log-potentials of all cliques of a UAI model; the tables start at token ``at``."""
    heads = _find_table_heads(tokens, at, sizes)
    is_entry = np.ones(len(tokens) - at, dtype=bool)
    is_entry[heads - at] = False
    flat = tokens.floats(at, len(is_entry), POTENTIAL)[is_entry]
    take_log(flat, tokens, at, is_entry)
    if len(heads):
        best = np.maximum.reduceat(flat, heads - at - np.arange(len(heads)))
        if (best == -np.inf).any():
            a = int(np.argmax(best == -np.inf))
            expected = f"a potential above 0 in the table of clique {a}"
            raise tokens.error(int(heads[a]), expected, "zeros only")
    return flat


def _find_table_heads(tokens, at, sizes):
    """Return the indices of the tokens that declare the sizes of the tables in a UAI file.

    Raises an error if the file is too short or too long.
    """
    starts = at + np.cumsum(np.append(0.0, sizes + 1.0))
    present = np.count_nonzero(starts[:-1] < len(tokens))
    heads = starts[:present].astype(np.int64)
    for a, (head, size) in enumerate(zip(heads.tolist(), sizes.tolist(), strict=False)):
        token = tokens[head]
        if not token.isdigit() or float(token) != size:
            raise tokens.error(head, f"{size:.17g}, the number of entries of clique {a}")
    if starts[-1] > len(tokens):
        a = max(present - 1, 0)
        if present and starts[present] > len(tokens):
            expected = f"{sizes[a]:.17g} potentials of clique {a}"
        else:
            expected = f"the number of entries of clique {present}"
        raise tokens.error(len(tokens), expected)
    tokens.check_end(int(starts[-1]), f"the tables of {len(sizes)} cliques")
    return heads


def write_uai(energy, path):
    r"""Write a discrete model as a Markov network in the UAI format.

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
    read_uai : Read a model in the UAI format; describes the format.

    Notes
    -----
    The file contains potentials, which are the exponentials of the log-potentials, with all
    digits of a float. The log-potentials are read back with an error of at most 5e-16, or, for
    large values, of the last bit. A zero potential is written as ``0``. Potentials outside the
    range of floats (log-potentials below -708.39 or above 709.78) are written in decimal form,
    for example ``1.9700711140170470E+434``. :func:`read_uai` reads them correctly, but other
    programs may read them as 0 or infinity.

    Each of several tied cliques gets a table of its own.

    Examples
    --------
    >>> import pathlib, tempfile
    >>> import numpy as np
    >>> from skmrf.energies import FactorGraph
    >>> from skmrf.io import write_uai
    >>> graph = FactorGraph([2, 2], [(0,), (1, 0)], [[0.0, -np.inf], [0.0, 0.0, 1.0, 0.0]])
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = pathlib.Path(folder) / "model.uai"
    ...     write_uai(graph, path)
    ...     print(path.read_text())
    MARKOV
    2
    2 2
    2
    1 0
    2 1 0
    <BLANKLINE>
    2
    1.0 0
    <BLANKLINE>
    4
    1.0 1.0 2.718281828459045 1.0
    <BLANKLINE>
    """
    graph = factor_graph_of(energy)
    layout, words = graph.layout, format_potentials(graph)
    lines = ["MARKOV", str(graph.n_variables), " ".join(map(str, graph.n_states.tolist()))]
    lines.append(str(layout.n_cliques))
    lines += [" ".join(map(str, (len(clique), *clique))) for clique in graph.cliques]
    for start, size in zip(layout.table_start.tolist(), layout.table_size.tolist(), strict=True):
        lines += ["", str(size), " ".join(words[start : start + size])]
    write_bytes(path, ("\n".join(lines) + "\n").encode("ascii"))
