"""Reading and writing of models, evidence and results in the UAI format."""

import math
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from .._utils.codes import MAX_STATES
from ..energies import FactorGraph
from ..energies.layout import Layout
from ..energies.protocols import factor_graph_of
from ._files import (
    MAX_BYTES,
    MAX_ORDER,
    POTENTIAL,
    Tokens,
    count_entries,
    find_first_repeat,
    format_potentials,
    take_log,
    write_bytes,
)

KINDS = {b"PR": "PR", b"MAR": "MAR", b"MAP": "MAP", b"MPE": "MAP"}
ROUNDING = 1e-6


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


def read_evidence(path, *, max_bytes=MAX_BYTES):
    r"""Read the observed variables and their states from an evidence file in the UAI format.

    Parameters
    ----------
    path : str or path-like
        File to read. If its name ends in ``.gz``, the file is decompressed while it is read.
    max_bytes : int, default=2**30
        Largest accepted size of the decompressed text, in bytes.

    Returns
    -------
    dict of int to int
        State code of each observed variable, in the order of the file. Whether a model has these
        variables and states is checked when the evidence is used.

    Raises
    ------
    ValueError
        If the file is malformed or truncated, if a variable occurs twice, or if the file has more
        than one sample or more than ``max_bytes`` bytes. The message gives the file, the line and
        the token.
    OSError
        If the file cannot be opened.

    See Also
    --------
    read_uai : Read a model; describes the syntax of comments, which is the same.

    Notes
    -----
    Three forms of the file are in use. Line breaks have no meaning.

    - ``k v1 s1 ... vk sk``: the number of observed variables, then each variable with its state;
    - ``1 k v1 s1 ... vk sk``: the same, after the number of samples, which must be 1;
    - ``0`` or an empty file: no variable is observed.

    The first form has an odd number of tokens and the second an even number. A file with several
    samples that is also valid in the first form is read in the first form.

    Examples
    --------
    >>> import pathlib, tempfile
    >>> from skmrf.io import read_evidence
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = pathlib.Path(folder) / "model.uai.evid"
    ...     _ = path.write_text("1\n2 7 0 3 1\n")
    ...     read_evidence(path)
    {7: 0, 3: 1}
    """
    tokens = Tokens(path, max_bytes)
    numbers = tokens.integers(0, len(tokens), "a count, a variable or a state").tolist()
    if not numbers:
        return {}
    first = _find_first_pair(tokens, numbers)
    evidence = {}
    for i in range(first, len(numbers), 2):
        if numbers[i] in evidence:
            raise tokens.error(i, "a variable that does not occur earlier in the evidence")
        evidence[numbers[i]] = numbers[i + 1]
    return evidence


def _find_first_pair(tokens, numbers):
    """Return the token index of the first (variable, state) pair of an evidence file.

    Raises an error if the number of pairs is not the declared number.
    """
    first = 2 if len(numbers) % 2 == 0 and numbers[0] == 1 else 1
    n_observed = numbers[first - 1]
    end = first + 2 * n_observed
    if end != len(numbers) and _has_several_samples(numbers):
        raise tokens.error(0, "evidence of one sample", f"{numbers[0]} samples")
    what = f"{n_observed} observed variables with their states"
    if end > len(numbers):
        raise tokens.error(len(numbers), what)
    tokens.check_end(end, what)
    return first


def _has_several_samples(numbers):
    """Return True if an evidence file declares several samples and contains exactly as many."""
    n_samples, i = numbers[0], 1
    while n_samples and i < len(numbers):
        i += 1 + 2 * numbers[i]
        n_samples -= 1
    return numbers[0] > 1 and n_samples == 0 and i == len(numbers)


@dataclass(frozen=True, eq=False)
class Result:
    """Content of a UAI result file.

    Attributes
    ----------
    kind : {"PR", "MAR", "MAP"}
        Kind of the result: partition function, marginals or most probable state.
    value : float, list of ndarray, or ndarray
        For ``"PR"``, log Z in nats (the file has the decimal logarithm), a float.
        For ``"MAR"``, the marginal probabilities of each variable, a list of arrays of shape
        (n_states_i,).
        For ``"MAP"``, the state code of each variable, an integer array of shape (n_variables,).
    """

    kind: str
    value: float | list[np.ndarray] | np.ndarray


def read_result(path, *, max_bytes=MAX_BYTES):
    r"""Read a partition function, marginals or a most probable state in the UAI format.

    Parameters
    ----------
    path : str or path-like
        File to read. If its name ends in ``.gz``, the file is decompressed while it is read.
    max_bytes : int, default=2**30
        Largest accepted size of the decompressed text, in bytes.

    Returns
    -------
    Result
        Object with the attributes ``kind`` and ``value``. **Units**: a PR file contains log10 Z.
        It is converted to the natural logarithm, so ``value`` is log Z in nats, like all
        log-probabilities in this package.

    Raises
    ------
    ValueError
        If the file is malformed or truncated, of another kind, or larger than ``max_bytes``. The
        message gives the file, the line and the token.
    OSError
        If the file cannot be opened.

    See Also
    --------
    read_uai : Read a model; describes the syntax of comments, which is the same.

    Notes
    -----
    The first token is the kind: PR, MAR, MAP or MPE, which is another name of MAP. The following
    tokens depend on the kind:

    - PR: log10 Z (``-inf`` if Z is 0);
    - MAR: the number of variables, then for each variable its number of states and their
      probabilities, which may exceed 1 by a rounding error of up to 1e-6;
    - MAP: the number of variables, then the state of each variable.

    If the file has several solutions, ``-BEGIN-`` precedes each one after the first. Only the last
    solution is read. A solution may start with the number of samples, which must be 1.
    (``MAP 1 0`` is one variable in state 0.)

    Examples
    --------
    >>> import pathlib, tempfile
    >>> from skmrf.io import read_result
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = pathlib.Path(folder) / "model.uai.PR"
    ...     _ = path.write_text("PR\n2.0\n")
    ...     result = read_result(path)
    >>> print(result.kind, round(result.value, 6))  # log(100)
    PR 4.60517
    """
    tokens = Tokens(path, max_bytes)
    kind = KINDS.get(tokens[0]) if len(tokens) else None
    if kind is None:
        raise tokens.error(0, "PR, MAR, MAP or MPE")
    first = max(tokens.rindex(b"-BEGIN-"), 0) + 1
    if first == len(tokens):
        raise tokens.error(first, "a solution")
    read = {"PR": _read_log_partition, "MAR": _read_marginals, "MAP": _read_states}[kind]
    return Result(kind, read(tokens, first))


def _read_log_partition(tokens, first):
    if tokens[first] == b"1" and first + 2 == len(tokens):
        first += 1
    expected = "log10 Z (a finite number, or -inf)"
    value = float(tokens.floats(first, 1, expected)[0])
    if not value < np.inf:
        raise tokens.error(first, expected)
    tokens.check_end(first + 1, "log10 Z")
    return value * math.log(10.0)


def _read_marginals(tokens, first):
    if tokens[first] == b"1" and not _is_one_list(tokens, first + 1):
        first += 1
    n_variables = tokens.count(first, "variables")
    first += 1
    bounds = tokens.lists(first, n_variables, "states", low=1) - first
    n_numbers = int(bounds[-1])
    tokens.check_end(first + n_numbers, f"the marginals of {n_variables} variables")
    expected = "a probability"
    numbers = tokens.floats(first, n_numbers, expected)
    wrong = ~((numbers >= 0) & (numbers <= 1 + ROUNDING))
    wrong[bounds[:-1]] = False
    if wrong.any():
        raise tokens.error(first + int(np.argmax(wrong)), expected)
    return [numbers[p + 1 : q] for p, q in pairwise(bounds.tolist())]


def _read_states(tokens, first):
    if tokens[first] == b"1" and first + 2 != len(tokens):
        first += 1
    n_variables = tokens.count(first, "variables")
    states = tokens.integers(first + 1, n_variables, "a state", 0, MAX_STATES - 1)
    tokens.check_end(first + 1 + n_variables, f"the states of {n_variables} variables")
    return states


def _is_one_list(tokens, first):
    """Return True if the rest of a result file is a single list ``k x_1 ... x_k`` with k > 0."""
    n_left = len(tokens) - first - 1
    return n_left > 0 and tokens[first] == b"%d" % n_left
