"""Reading and writing of plain and compressed files, and import of optional packages."""

import gzip
import os
import zlib
from importlib import import_module

from .._utils.parameters import check_number

MAX_BYTES = 2**30
CHUNK = 2**20


def read_bytes(path, max_bytes):
    """Return the decompressed content of a file; raise an error if it exceeds ``max_bytes``."""
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
    return b"".join(chunks)


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
