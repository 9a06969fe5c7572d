"""Files of models: compressed text, tokens, tables of potentials; import of optional packages."""

import codecs
import decimal
import gzip
import os
import re
import zlib
from bisect import bisect_left
from importlib import import_module

import numpy as np

from .._utils.parameters import check_number
from ..energies import FactorGraph
from ..energies.layout import Layout

MAX_BYTES = 2**30
CHUNK = 2**20
MAX_DIGITS = 18
MAX_INTEGER = 10**MAX_DIGITS - 1
BLOCK = 2**16
MAX_SHOWN = 40
IS_SPACE = np.zeros(256, dtype=bool)
IS_SPACE[list(b" \t\n\r\v\f")] = True
IS_DIGIT = np.zeros(256, dtype=bool)
IS_DIGIT[list(b"0123456789")] = True
COMMENT = re.compile(rb"\n[ \t]*+#[^\n]*")
UAI_COMMENT = re.compile(rb"\n[ \t]*+(?:#|c(?=\s|\Z))[^\n]*")
MAX_ORDER = 64  # largest number of dimensions of a numpy array
TINY = np.finfo(float).tiny
MAX_LOG = 2e18
POTENTIAL = "a potential (a finite number of at least 0)"

# Some potentials are outside the range of floats, although their logarithms are not.
DECIMAL = decimal.Context(
    prec=25,
    Emin=decimal.MIN_EMIN,
    Emax=decimal.MAX_EMAX,
    traps=[decimal.InvalidOperation, decimal.Overflow, decimal.Underflow],
)


def read_bytes(path, max_bytes):
    """Return the decompressed content of a file; raise an error if it exceeds ``max_bytes``.

    A byte order mark of UTF-8 at the start is left out.
    """
    check_number("max_bytes", max_bytes, low=1, integer=True)
    path = os.fsdecode(path)
    chunks, size = [], 0
    try:
        with gzip.open(path) if path.endswith(".gz") else open(path, "rb") as file:
            # read(n) allocates n bytes at once, so the chunks are small
            while chunk := file.read(min(CHUNK, max_bytes + 1 - size)):
                chunks.append(chunk)
                size += len(chunk)
                if size > max_bytes:
                    raise ValueError(
                        f"{path}: the file has more than max_bytes = {max_bytes} bytes of text; "
                        "increase max_bytes if you trust the file."
                    )
    except (EOFError, gzip.BadGzipFile, zlib.error) as error:
        raise ValueError(f"{path}: expected a complete gzip file, found: {error}.") from error
    return b"".join(chunks).removeprefix(codecs.BOM_UTF8)


def write_bytes(path, data):
    """Write bytes to a file, compressed if its name ends in ``.gz``."""
    path = os.fsdecode(path)
    with open(path, "wb") as file:
        # without a time stamp, the same data give the same file
        file.write(gzip.compress(data, mtime=0) if path.endswith(".gz") else data)


def require(package, extra):
    """Import and return a package; raise an ImportError with install instructions if it fails."""
    try:
        return import_module(package)
    except ImportError as error:
        raise ImportError(
            f'{package} is not installed ({error}); install it with pip install "skmrf[{extra}]".'
        ) from error


def _blank_comments(text, comment):
    """Replace comment lines by empty lines, so that the line numbers stay the same."""
    if b"#" not in text and b"c" not in text:
        return text
    return comment.sub(b"\n", b"\n" + text)[1:]


def _token_starts(text):
    """Return the offset of each token in the text, followed by the length of the text."""
    space = IS_SPACE[np.frombuffer(text, dtype=np.uint8)]
    first = np.flatnonzero(~space[:1])
    return np.concatenate([first, np.flatnonzero(space[:-1] > space[1:]) + 1, [len(text)]])


class Tokens:
    """Sequence of the whitespace-separated tokens of a file, without comment lines.

    Tokens are numbered from 0. Only their offsets are stored, and numbers are parsed in blocks, so
    that the memory is proportional to the length of the text.

    Parameters
    ----------
    path : str or path-like
        File to read.
    max_bytes : int
        Largest accepted size of the decompressed text, in bytes.
    comment : re.Pattern
        Pattern of a line break and the comment line that follows it. By default, comments are
        lines that start with ``#`` or with the word ``c``.
    """

    def __init__(self, path, max_bytes, comment=UAI_COMMENT):
        self.path = os.fsdecode(path)
        self.text = _blank_comments(read_bytes(path, max_bytes), comment)
        self.start = memoryview(_token_starts(self.text))

    def __len__(self):
        return len(self.start) - 1

    def __getitem__(self, i):
        return self.text[self.start[i] : self.start[i + 1]].rstrip()

    def rindex(self, token):
        """Return the index of the last token that equals ``token``, or -1."""
        i = bisect_left(self.start, self.text.rfind(token))
        return i if i < len(self) and self[i] == token else -1

    def _position(self, i):
        """Return the line of token ``i`` and its position in that line, both counted from 1."""
        if not len(self):
            return 1, 1
        last = min(i, len(self) - 1)
        at = self.start[last]
        first = bisect_left(self.start, self.text.rfind(b"\n", 0, at) + 1)
        return self.text.count(b"\n", 0, at) + 1, min(i, len(self)) - first + 1

    def error(self, i, expected, found=None):
        """Return a ValueError that names token ``i``, its line, and the expected text."""
        if found is None and i >= len(self):
            found = "the end of the file"
        elif found is None:
            token = self[i]
            found = repr(token[:MAX_SHOWN])[1:] + ("..." if len(token) > MAX_SHOWN else "")
        line, place = self._position(i)
        return ValueError(
            f"{self.path}: line {line}, token {place}: expected {expected}, found {found}."
        )

    def check_end(self, i, after):
        """Raise an error if the file does not end before token ``i``."""
        if i < len(self):
            raise self.error(i, f"the end of the file after {after}")

    def are_digits(self):
        """Return a boolean mask of the tokens that consist of digits only."""
        text = np.frombuffer(self.text, dtype=np.uint8)
        return ~np.logical_or.reduceat(~(IS_DIGIT | IS_SPACE)[text], self.start[:-1])

    def count(self, i, what, low=0, min_tokens=1):
        """Read token ``i`` as a count: the number of items that follow it in the file.

        ``what`` is the name of the items in error messages.
        The rest of the file must have at least ``min_tokens`` tokens for each item.
        """
        token = self[i] if i < len(self) else b""
        high = (len(self) - i - 1) // min_tokens
        if token.isdigit() and len(token) <= MAX_DIGITS and low <= int(token) <= high:
            return int(token)
        bound = f"at least {low}"
        if token.isdigit() and int(token[:MAX_DIGITS]) > high:
            bound = f"at most {high}, limited by the number of remaining tokens"
        raise self.error(i, f"the number of {what} (an integer, {bound})")

    def lists(self, first, n, what, low=0):
        """Return the ``n + 1`` token indices at which ``n`` consecutive lists begin and end.

        A list is the number k of its items, followed by the items x_1 ... x_k.
        """
        bounds = [first]
        for _ in range(n):
            bounds.append(bounds[-1] + 1 + self.count(bounds[-1], what, low))
        return np.array(bounds, dtype=np.int64)

    def _blocks(self, first, n):
        """Yield (offset, text) of blocks of at most ``BLOCK`` consecutive tokens."""
        for offset in range(0, n, BLOCK):
            stop = first + min(offset + BLOCK, n)
            yield offset, self.text[self.start[first + offset] : self.start[stop]]

    def integers(self, first, n, what, low=0, high=MAX_INTEGER):
        """Read ``n`` tokens as integers; raise an error if one is not from ``low`` to ``high``."""
        expected = f"{what} (an integer from {low} to {high})"
        out = np.empty(n, dtype=np.int64)
        for offset, text in self._blocks(first, n):
            tokens = text.split()
            if not all(map(bytes.isdigit, tokens)) or max(map(len, tokens)) > MAX_DIGITS:
                is_valid = [t.isdigit() and len(t) <= MAX_DIGITS for t in tokens]
                raise self.error(first + offset + is_valid.index(False), expected)
            out[offset : offset + len(tokens)] = list(map(int, tokens))
        outside = np.flatnonzero((out < low) | (out > high))
        if outside.size:
            raise self.error(first + int(outside[0]), expected)
        return out

    def floats(self, first, n, expected):
        """Read ``n`` tokens as floats; nan and infinities are allowed."""
        out = np.empty(n)
        for offset, text in self._blocks(first, n):
            tokens = text.split()
            try:
                if b"_" in text:  # float() accepts underscores, the formats do not
                    raise ValueError
                out[offset : offset + len(tokens)] = list(map(float, tokens))
            except ValueError:
                bad = next(i for i, token in enumerate(tokens) if not _is_number(token))
                raise self.error(first + offset + bad, expected) from None
        return out


def _is_number(token):
    try:
        float(token)
    except ValueError:
        return False
    return b"_" not in token


# Tables of potentials ------------------------------------------------------------------------


def find_first_repeat(owner, values):
    """Return the index of the first value that occurs earlier in the same group.

    Returns None if no value is repeated. For example, the owner is a clique and the values are its
    variables.
    """
    order = np.lexsort((values, owner))
    is_repeat = (np.diff(owner[order]) == 0) & (np.diff(values[order]) == 0)
    return int(order[1:][is_repeat].min()) if is_repeat.any() else None


def count_entries(n_states, ptr, variables):
    """Return the number of entries of each table, as floats because integers may overflow."""
    sizes = np.ones(len(ptr) - 1)
    has_variables = np.diff(ptr) > 0
    if has_variables.any():
        cardinality = n_states[variables].astype(float)
        sizes[has_variables] = np.multiply.reduceat(cardinality, ptr[:-1][has_variables])
    return sizes


def take_log(flat, tokens, at, is_entry):
    """Replace potentials by log-potentials in place; raise an error if one is invalid.

    ``is_entry`` marks the tokens from number ``at`` on that ``flat`` was read from.
    """
    wrong = ~(flat >= 0)  # also true for nan
    extreme = (flat < TINY) | (flat == np.inf)
    with np.errstate(divide="ignore"):
        np.log(flat, out=flat, where=~wrong)
    if not (wrong | extreme).any():
        return
    place = np.flatnonzero(is_entry) + at
    if wrong.any():
        raise tokens.error(int(place[np.argmax(wrong)]), POTENTIAL)
    for i, token in zip(np.flatnonzero(extreme), place[extreme].tolist(), strict=True):
        text = tokens[token]
        if text != b"0":
            flat[i] = _exact_log(text)
            if not flat[i] < np.inf:
                raise tokens.error(token, POTENTIAL)


def _exact_log(token):
    """Return the logarithm of a decimal number of any size; nan if the number is not finite."""
    try:
        number = DECIMAL.create_decimal(token.decode("ascii"))
        if number.is_zero():
            return -np.inf
        return float(DECIMAL.ln(number))
    except decimal.DecimalException:
        return np.nan


def cover_variables(graph):
    """Return the factor graph with a table of zeros for each variable that is in no clique."""
    absent = np.setdiff1d(np.arange(graph.n_variables), graph.layout.clique_vars).tolist()
    if not absent:
        return graph
    cliques = [*graph.cliques, *((v,) for v in absent)]
    tables = [*graph.log_potentials, *(np.zeros(q) for q in graph.n_states[absent])]
    layout = Layout.build(graph.n_states, cliques)
    return FactorGraph.from_layout(layout, np.concatenate([t.ravel() for t in tables]))


def format_potentials(graph):
    """Return the potentials of a factor graph as strings of decimal numbers."""
    flat = graph.flat
    wrong = ~((np.abs(flat) <= MAX_LOG) | (flat == -np.inf))
    if wrong.any():
        i, layout = int(np.argmax(wrong)), graph.layout
        a = int(np.argmax(layout.table_start + layout.table_size > i))
        raise ValueError(
            f"The table of clique {a} {graph.cliques[a]} has the entry {flat[i]}; log-potentials "
            f"must be -inf or at most {MAX_LOG:g} in absolute value."
        )
    with np.errstate(over="ignore", under="ignore"):
        values = np.exp(flat)
    words = list(map(repr, values.tolist()))
    for i in np.flatnonzero((values < TINY) | (values == np.inf)).tolist():
        word = DECIMAL.exp(decimal.Decimal(float(flat[i])))
        words[i] = "0" if flat[i] == -np.inf else str(word)
    return words
