"""Results in the UAI format."""

import math
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from .._utils.codes import MAX_STATES
from ._files import MAX_BYTES
from ._tokens import Tokens

KINDS = {b"PR": "PR", b"MAR": "MAR", b"MAP": "MAP", b"MPE": "MAP"}
ROUNDING = 1e-6


@dataclass(frozen=True, eq=False)
class Result:
    """What a UAI result file holds.

    Attributes
    ----------
    kind : {"PR", "MAR", "MAP"}
    value : float, list of ndarray, or ndarray
        ``"PR"``: log Z in nats (the file has the decimal logarithm), a float.
        ``"MAR"``: the marginal probabilities of every variable, a list of arrays of shape
        (n_states_i,).
        ``"MAP"``: the state code of every variable, an integer array of shape (n_variables,).
    """

    kind: str
    value: float | list[np.ndarray] | np.ndarray


def read_result(path, *, max_bytes=MAX_BYTES):
    r"""Read a partition function, marginals or a most probable state.

    Parameters
    ----------
    path : str or path-like
        A name that ends in ``.gz`` is unpacked while it is read.
    max_bytes : int
        Bound on the bytes of (unpacked) text.

    Returns
    -------
    Result
        Its ``kind`` and its ``value``. **Units**: a PR file holds log10 Z; ``value`` is that
        times ln 10, so log Z in nats like everything logarithmic in this package.

    Raises
    ------
    ValueError
        The file is malformed or truncated, of another kind, or holds more than ``max_bytes``.
        The message names file, line and token.
    OSError
        The file cannot be opened.

    See Also
    --------
    read_uai : The model; comments are as described there.

    Notes
    -----
    The first token is the kind; MPE is another name of MAP. Then comes one of

    - PR: log10 Z (``-inf`` where Z is 0);
    - MAR: the number of variables, and for each its number of states and their probabilities,
      which may exceed 1 by a rounding of 1e-6;
    - MAP: the number of variables, and the state of each.

    ``-BEGIN-`` precedes every further solution; the last one counts and those before it are not
    looked at. A solution may start with the number of samples if that is 1. (``MAP 1 0`` is one
    variable in state 0.)

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
    """Whether the rest of the file is one list ``k x_1 ... x_k`` with k > 0."""
    left = len(tokens) - first - 1
    return left > 0 and tokens[first] == b"%d" % left
