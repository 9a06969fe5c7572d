"""The tokens of a text file, numbers read in bulk, and errors that say where."""

import os
import re
from bisect import bisect_left

import numpy as np

from ._files import read_bytes

MAX_DIGITS = 18
MAX_INTEGER = 10**MAX_DIGITS - 1
BLOCK = 2**16
SHOWN = 40

IS_SPACE = np.zeros(256, dtype=bool)
IS_SPACE[list(b" \t\n\r\v\f")] = True
IS_DIGIT = np.zeros(256, dtype=bool)
IS_DIGIT[list(b"0123456789")] = True
COMMENT = re.compile(rb"\n[ \t]*+#[^\n]*")
UAI_COMMENT = re.compile(rb"\n[ \t]*+(?:#|c(?=\s|\Z))[^\n]*")


def _blank_comments(text, comment):
    """Empty the lines that are comments; no line is lost."""
    if b"#" not in text and b"c" not in text:
        return text
    return comment.sub(b"\n", b"\n" + text)[1:]


def _token_starts(text):
    """Offset of every token, and the length of the text."""
    space = IS_SPACE[np.frombuffer(text, dtype=np.uint8)]
    first = np.flatnonzero(~space[:1])
    return np.concatenate([first, np.flatnonzero(space[:-1] > space[1:]) + 1, [len(text)]])


class Tokens:
    """Tokens of a file, parted by white space; comment lines are left out.

    Tokens are numbered from 0 through the file. Only their offsets are stored; the numbers are
    made from the text in blocks, so memory stays in proportion to the text.

    Parameters
    ----------
    path : str or path-like
    max_bytes : int
        Bound on the (unpacked) text.
    comment : re.Pattern
        A line break and the comment line that follows it: by default, lines that start with ``#``
        or with the word ``c``.
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
        """Number of the last token that equals ``token``, or -1."""
        i = bisect_left(self.start, self.text.rfind(token))
        return i if i < len(self) and self[i] == token else -1

    def _position(self, i):
        """Line of token ``i`` and its place there, from 1; the end follows the last token."""
        if not len(self):
            return 1, 1
        last = min(i, len(self) - 1)
        at = self.start[last]
        first = bisect_left(self.start, self.text.rfind(b"\n", 0, at) + 1)
        return self.text.count(b"\n", 0, at) + 1, min(i, len(self)) - first + 1

    def error(self, i, expected, found=None):
        """A ValueError: where token ``i`` is, what was expected there and what was found."""
        if found is None and i >= len(self):
            found = "the end of the file"
        elif found is None:
            token = self[i]
            found = repr(token[:SHOWN])[1:] + ("..." if len(token) > SHOWN else "")
        line, place = self._position(i)
        return ValueError(
            f"{self.path}: line {line}, token {place}: expected {expected}, found {found}."
        )

    def check_end(self, i, after):
        """Token ``i`` must not be there."""
        if i < len(self):
            raise self.error(i, f"the end of the file after {after}")

    def are_digits(self):
        """Which tokens consist of digits only."""
        text = np.frombuffer(self.text, dtype=np.uint8)
        return ~np.logical_or.reduceat(~(IS_DIGIT | IS_SPACE)[text], self.start[:-1])

    def count(self, i, what, low=0, each=1):
        """How many ``what`` token ``i`` declares; each takes ``each`` tokens at least."""
        token = self[i] if i < len(self) else b""
        left = (len(self) - i - 1) // each
        if token.isdigit() and len(token) <= MAX_DIGITS and low <= int(token) <= left:
            return int(token)
        bound = f"at least {low}"
        if token.isdigit() and int(token[:MAX_DIGITS]) > left:
            follow = "tokens" if each == 1 else f"{each} tokens each"
            bound = f"at most {left}, as many as {follow} follow"
        raise self.error(i, f"the number of {what} (an integer, {bound})")

    def lists(self, first, n, what, low=0):
        """Bounds of ``n`` lists ``k x_1 ... x_k`` one after the other: n + 1 token numbers."""
        bounds = [first]
        for _ in range(n):
            bounds.append(bounds[-1] + 1 + self.count(bounds[-1], what, low))
        return np.array(bounds, dtype=np.int64)

    def _blocks(self, first, n):
        """(offset, text) of consecutive tokens, a bounded number of them at a time."""
        for offset in range(0, n, BLOCK):
            stop = first + min(offset + BLOCK, n)
            yield offset, self.text[self.start[first + offset] : self.start[stop]]

    def integers(self, first, n, what, low=0, high=MAX_INTEGER):
        """``n`` integers from ``low`` to ``high`` as an array."""
        expected = f"{what} (an integer from {low} to {high})"
        out = np.empty(n, dtype=np.int64)
        for offset, text in self._blocks(first, n):
            tokens = text.split()
            if not all(map(bytes.isdigit, tokens)) or max(map(len, tokens)) > MAX_DIGITS:
                good = [t.isdigit() and len(t) <= MAX_DIGITS for t in tokens]
                raise self.error(first + offset + good.index(False), expected)
            out[offset : offset + len(tokens)] = list(map(int, tokens))
        outside = np.flatnonzero((out < low) | (out > high))
        if outside.size:
            raise self.error(first + int(outside[0]), expected)
        return out

    def floats(self, first, n, expected):
        """``n`` numbers as an array; nan and infinities are let through."""
        out = np.empty(n)
        for offset, text in self._blocks(first, n):
            tokens = text.split()
            try:
                if b"_" in text:  # which float() would take
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
