"""Models in the UAI format."""

import numpy as np

from .._utils.codes import MAX_STATES
from ..energies import FactorGraph
from ..energies.checks import factor_graph_of
from ..energies.layout import Layout
from ._files import MAX_BYTES, write_bytes
from ._tables import MAX_ORDER, POTENTIAL, first_repeat, potentials, table_sizes, take_log
from ._tokens import Tokens


def read_uai(path, *, max_bytes=MAX_BYTES):
    r"""Read a Markov or a Bayesian network in the UAI format.

    Parameters
    ----------
    path : str or path-like
        A name that ends in ``.gz`` is unpacked while it is read.
    max_bytes : int
        Bound on the bytes of (unpacked) text. Memory is bounded with it: at the worst, one-digit
        numbers only, it peaks near 25 bytes a byte of text.

    Returns
    -------
    FactorGraph
        Log-potentials in nats: natural logarithms of the numbers in the file, ``-inf`` for 0.

    Raises
    ------
    ValueError
        The file is malformed, truncated, or longer than ``max_bytes``, or anything follows the
        last table. The message names the file, the line and the token in that line, both
        counted from 1, what was expected there and what was found. Whatever a file declares is
        compared with the tokens present before memory is taken for it.
    OSError
        The file cannot be opened.

    See Also
    --------
    write_uai : The other direction.
    read_evidence, read_result : What comes along with such a model.

    Notes
    -----
    The file is a list of tokens parted by any white space:

    - ``MARKOV`` or ``BAYES``;
    - the number of variables, and the number of states of each (at most 32767);
    - the number of cliques, and for each the number of its variables (at most 64; 0 for a
      constant) and the variables, numbered from 0;
    - for each clique the number of entries of its table, and the potentials: finite, at least
      0, the last variable of the clique fastest.

    In a Bayesian network a clique is a conditional probability table with the child last. The
    distribution is the same product of tables; that the columns sum to one is not checked. A
    table of zeros only is refused: no state would have a probability. Potentials beyond the
    range of floats, such as ``1e-400``, keep their logarithms.

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
    flat = _read_tables(tokens, end, table_sizes(n_states, *cliques))
    flat.flags.writeable = False
    return FactorGraph.from_layout(Layout.build(n_states, cliques), flat)


def _read_cliques(tokens, at, n_variables):
    """((pointers, variables), the token after them); the number of cliques is token ``at``."""
    n_cliques = tokens.count(at, "cliques")
    first = at + 1
    bounds = tokens.lists(first, n_cliques, "variables of the clique")
    ptr, end = bounds - first - np.arange(n_cliques + 1), int(bounds[-1])
    large = np.flatnonzero(np.diff(ptr) > MAX_ORDER)
    if large.size:
        raise tokens.error(int(bounds[large[0]]), f"at most {MAX_ORDER} variables in a clique")
    place = np.delete(np.arange(first, end), bounds[:-1] - first)
    variables = tokens.integers(first, end - first, "a variable")[place - first]
    missing = np.flatnonzero(variables >= n_variables)
    if missing.size:
        raise tokens.error(
            int(place[missing[0]]), f"one of the {n_variables} variables, numbered from 0"
        )
    owner = np.repeat(np.arange(n_cliques), np.diff(ptr))
    again = first_repeat(owner, variables)
    if again is not None:
        raise tokens.error(int(place[again]), "a variable that the clique does not have yet")
    return (ptr, variables), end


def _read_tables(tokens, at, sizes):
    """Log-potentials of all cliques in one array; the first table starts with token ``at``."""
    heads = _table_heads(tokens, at, sizes)
    entries = np.ones(len(tokens) - at, dtype=bool)
    entries[heads - at] = False
    flat = tokens.floats(at, len(entries), POTENTIAL)[entries]
    take_log(flat, tokens, at, entries)
    if len(heads):
        best = np.maximum.reduceat(flat, heads - at - np.arange(len(heads)))
        if (best == -np.inf).any():
            a = int(np.argmax(best == -np.inf))
            expected = f"a potential above 0 in the table of clique {a}"
            raise tokens.error(int(heads[a]), expected, "zeros only")
    return flat


def _table_heads(tokens, at, sizes):
    """Tokens that declare the sizes of the tables; all tables are there, and nothing else."""
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
    read_uai : The other direction; describes the format.

    Notes
    -----
    The numbers are potentials, exponentials of the log-potentials, with as many digits as a
    float has: the log-potentials are read back to within 5e-16, or the last bit where they are
    large. A zero potential is written as ``0``. Potentials beyond the range of floats (a
    log-potential below -708.39 or above 709.78) are written out, as ``1.9700711140170470E+434``;
    :func:`read_uai` reads them back, but other programs may take them for 0 or infinity.

    Tied cliques are written with a table each.

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
    layout, words = graph.layout, potentials(graph)
    lines = ["MARKOV", str(graph.n_variables), " ".join(map(str, graph.n_states.tolist()))]
    lines.append(str(layout.n_cliques))
    lines += [" ".join(map(str, (len(clique), *clique))) for clique in graph.cliques]
    for start, size in zip(layout.table_start.tolist(), layout.table_size.tolist(), strict=True):
        lines += ["", str(size), " ".join(words[start : start + size])]
    write_bytes(path, ("\n".join(lines) + "\n").encode("ascii"))
