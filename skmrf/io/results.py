"""Reading of inference results in the UAI format."""

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
