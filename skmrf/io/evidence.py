"""Reading of evidence files in the UAI format."""

from ._files import MAX_BYTES
from ._tokens import Tokens


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
