"""Data folder, size-limited downloads, atomic file writes, and untrusted npz archives."""

import http.client
import os
import urllib.request
import uuid
import zipfile
import zlib
from pathlib import Path

import numpy as np

ENVIRONMENT = "SKMRF_DATA"
DEFAULT_HOME = "~/skmrf_data"
TIMEOUT = 60.0  # seconds


def data_home_path(data_home=None):
    """Return the folder in which data sets are stored.

    None means the environment variable ``SKMRF_DATA``, or ``~/skmrf_data`` if it is not set.
    """
    if data_home is None:
        data_home = os.environ.get(ENVIRONMENT) or DEFAULT_HOME
    try:
        return Path(data_home).expanduser()
    except TypeError:
        raise ValueError(f"data_home must be a path or None; got {data_home!r}.") from None


def download(url, max_bytes, hint):
    """Download at most ``max_bytes`` bytes from ``url``; error messages end with ``hint``."""
    try:
        with urllib.request.urlopen(url, timeout=TIMEOUT) as response:
            content = response.read(max_bytes + 1)
    except (OSError, http.client.HTTPException) as error:
        raise OSError(f"Could not download {url} ({error}). {hint}") from error
    if len(content) > max_bytes:
        raise ValueError(f"{url} has more than the expected {max_bytes} bytes. {hint}")
    return content


def write_whole(path, write):
    """Write a file so that ``path`` never holds an incomplete file.

    ``write(file)`` writes the content to a temporary file, which is then moved to ``path`` in one
    step.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(f".{path.name}.{uuid.uuid4().hex}")
    try:
        with open(temporary, "xb") as file:
            write(file)
        os.replace(temporary, path)
    finally:
        temporary.unlink(missing_ok=True)


ARCHIVE_ERRORS = (ValueError, KeyError, EOFError, zipfile.BadZipFile, zlib.error)
HEADER_BYTES = 2**16  # enough for the headers and the small arrays of an archive


def open_archive(file, max_bytes):
    """Open an npz archive, or raise a ValueError if its arrays are larger than ``max_bytes``.

    A compressed archive can be a thousand times smaller than its arrays, so the sizes in its
    directory are compared with ``max_bytes`` before anything is decompressed.

    Parameters
    ----------
    file : path-like or binary file
        Archive to open.
    max_bytes : int
        Largest total size of the arrays, without compression.

    Returns
    -------
    numpy.lib.npyio.NpzFile
        Context manager and mapping from names to arrays.

    Raises
    ------
    ValueError
        The arrays are larger.
    zipfile.BadZipFile
        The file is not an archive.
    """
    with zipfile.ZipFile(file) as archive:
        size = sum(member.file_size for member in archive.infolist())
    if size > max_bytes:
        raise ValueError(f"its arrays have {size} bytes, expected at most {max_bytes}")
    return np.load(file, allow_pickle=False)
