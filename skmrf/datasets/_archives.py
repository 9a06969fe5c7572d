"""Reading of npz archives from untrusted sources, with a limit on their size."""

import zipfile
import zlib

import numpy as np

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
