"""Data folder, size-limited downloads and atomic file writes."""

import http.client
import os
import urllib.request
import uuid
from pathlib import Path

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
