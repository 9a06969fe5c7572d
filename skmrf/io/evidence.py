"""Evidence in the UAI format."""

from ._files import MAX_BYTES
from ._tokens import Tokens


def read_evidence(path, *, max_bytes=MAX_BYTES):
    r"""Read which variables were observed, and in which states.

    Parameters
    ----------
    path : str or path-like
        A name that ends in ``.gz`` is unpacked while it is read.
    max_bytes : int
        Bound on the bytes of (unpacked) text.

    Returns
    -------
    dict of int to int
        State code of every observed variable, in the order of the file. That they exist in a
        model is checked where the evidence is used.

    Raises
    ------
    ValueError
        The file is malformed or truncated, names a variable twice, holds more than one sample
        or more than ``max_bytes``. The message names file, line and token.
    OSError
        The file cannot be opened.

    See Also
    --------
    read_uai : The model; comments are as described there.

    Notes
    -----
    Three forms are in use, and line breaks tell nothing about which it is:

    - ``k v1 s1 ... vk sk``, the number of observed variables, and each with its state;
    - the same after the number of samples, which must be 1;
    - ``0``, or nothing at all: nothing was observed.

    The first has an odd number of tokens and the second an even one. A file of several samples
    that can as well be read in the first form is read so.

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
    first = _first_pair(tokens, numbers)
    evidence = {}
    for i in range(first, len(numbers), 2):
        if numbers[i] in evidence:
            raise tokens.error(i, "a variable that was not named yet")
        evidence[numbers[i]] = numbers[i + 1]
    return evidence


def _first_pair(tokens, numbers):
    """Number of the first token of the pairs, which then fill the file."""
    first = 2 if len(numbers) % 2 == 0 and numbers[0] == 1 else 1
    n_observed = numbers[first - 1]
    end = first + 2 * n_observed
    if end != len(numbers) and _is_many_samples(numbers):
        raise tokens.error(0, "evidence of one sample", f"{numbers[0]} samples")
    what = f"{n_observed} observed variables with their states"
    if end > len(numbers):
        raise tokens.error(len(numbers), what)
    tokens.check_end(end, what)
    return first


def _is_many_samples(numbers):
    """Whether the file is a number of samples above 1, and that many samples."""
    n_samples, i = numbers[0], 1
    while n_samples and i < len(numbers):
        i += 1 + 2 * numbers[i]
        n_samples -= 1
    return numbers[0] > 1 and n_samples == 0 and i == len(numbers)
