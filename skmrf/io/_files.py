"""Whole files as bytes; ``.gz`` is packed and unpacked, and what is read is bounded."""

import gzip
import os
import zlib

from .._utils.parameters import check_number

MAX_BYTES = 2**30
CHUNK = 2**20


def read_bytes(path, max_bytes):
    """The (unpacked) bytes of a file; more than ``max_bytes`` of them are refused."""
    check_number("max_bytes", max_bytes, low=1, integer=True)
    path = os.fsdecode(path)
    chunks, size = [], 0
    try:
        with gzip.open(path) if path.endswith(".gz") else open(path, "rb") as file:
            # read(n) reserves n bytes at once, so the pieces are small
            while chunk := file.read(min(CHUNK, max_bytes + 1 - size)):
                chunks.append(chunk)
                size += len(chunk)
                if size > max_bytes:
                    raise ValueError(
                        f"{path}: the file holds more than max_bytes = {max_bytes} bytes of text; "
                        "raise max_bytes if it can be trusted."
                    )
    except (EOFError, gzip.BadGzipFile, zlib.error) as error:
        raise ValueError(f"{path}: expected a complete gzip file, found: {error}.") from error
    return b"".join(chunks)


def write_bytes(path, data):
    """Write a file; the same data always give the same file."""
    path = os.fsdecode(path)
    with open(path, "wb") as file:
        file.write(gzip.compress(data, mtime=0) if path.endswith(".gz") else data)
