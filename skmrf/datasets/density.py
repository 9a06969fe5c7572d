"""Binary data sets of the density estimation benchmark."""

import hashlib
import json
from functools import cache
from importlib import resources

import numpy as np
from sklearn.utils import Bunch

from ._files import (
    ARCHIVE_ERRORS,
    ENVIRONMENT,
    HEADER_BYTES,
    data_home_path,
    download,
    open_archive,
    write_whole,
)

FOLDER = "density20"
SPLITS = ("train", "valid", "test")
REPLACE_HINT = "Delete it and fetch the data set again, or replace it with an intact copy."


def fetch_density_benchmark(name, *, data_home=None, download_if_missing=True):
    """Load a binary data set of the standard benchmark for density estimation.

    The rows are split into train, validation and test sets as in the literature [1]_ [2]_. The
    table lists the numbers of columns and rows:

    ========= ========== ======= ======= =======
    name      n_features   train   valid    test
    ========= ========== ======= ======= =======
    nltcs             16   16181    2157    3236
    msnbc             17  291326   38843   58265
    kdd               64  180092   19907   34955
    plants            69   17412    2321    3482
    baudio           100   15000    2000    3000
    jester           100    9000    1000    4116
    accidents        111   12758    1700    2551
    dna              180    1600     400    1186
    book             500    8700    1159    1739
    bbc             1058    1670     225     330
    ========= ========== ======= ======= =======

    Parameters
    ----------
    name : str
        Name of the data set, one of the names in the table.
    data_home : str, path-like or None, default=None
        Folder with the data sets. Both this folder and its subfolder ``density20`` are searched
        for ``<name>.npz`` and for the three text files ``<name>.{train,valid,test}.data``. None
        means the environment variable ``SKMRF_DATA``, or ``~/skmrf_data`` if it is not set.
    download_if_missing : bool, default=True
        If True, download a data set that is not in the folder from [3]_ and save it as
        ``density20/<name>.npz``. If False, raise an OSError.

    Returns
    -------
    Bunch
        Dictionary-like object with the attributes

        - ``train``, ``valid``, ``test``: ndarrays of shape (n_rows, n_features), dtype uint8,
          with entries 0 and 1;
        - ``n_features``: int, number of columns;
        - ``name``: str, name of the data set;
        - ``DESCR``: str, description of the data, their source and their licence.

    Raises
    ------
    ValueError
        If ``name`` is unknown, or if a file is damaged or contains other rows. A sha256 digest of
        the rows is checked, both for local files and after a download.
    OSError
        If the data are missing and ``download_if_missing`` is False, or if the download failed.

    Notes
    -----
    The ``.npz`` files contain ``n_vars``, the number of columns, and ``<split>_packed`` for each
    split: the result of ``numpy.packbits(rows, axis=1)``. The digest is the sha256 of these packed
    bytes of train, valid and test, concatenated. It therefore does not depend on the archive
    format or on line endings.

    References
    ----------
    .. [1] D. Lowd and J. Davis, "Learning Markov network structure with decision trees", ICDM
       2010.
    .. [2] J. Van Haaren and J. Davis, "Markov network structure learning: a randomized feature
       generation approach", AAAI 2012.
    .. [3] https://github.com/UCLA-StarAI/Density-Estimation-Datasets

    Examples
    --------
    >>> from skmrf.datasets import fetch_density_benchmark
    >>> nltcs = fetch_density_benchmark("nltcs")  # doctest: +SKIP
    >>> nltcs.train.shape  # doctest: +SKIP
    (16181, 16)
    """
    data_sets = registry()["sets"]
    if not isinstance(name, str) or name not in data_sets:
        raise ValueError(f"name must be one of {list(data_sets)}; got {name!r}.")
    home = data_home_path(data_home)
    parts = _find(name, home)
    if parts is None and not download_if_missing:
        raise OSError(
            f"Data set {name!r} is not in {home} and download_if_missing is False. "
            f"{_hint(name, home)}"
        )
    if parts is None:
        parts = _download(name, home)
    n_features = data_sets[name]["n_features"]
    return Bunch(**parts, n_features=n_features, name=name, DESCR=_describe(name))


@cache
def registry():
    """Return source, shapes and digests of all data sets of the benchmark, from a JSON file."""
    return json.loads(resources.files(__package__).joinpath("density20.json").read_text("utf-8"))


def _url(name, split):
    return registry()["url"].format(name=name, split=split)


def _describe(name):
    info, source = registry()["sets"][name], registry()
    rows = ", ".join(f"{info['rows'][s]} {s}" for s in SPLITS)
    return (
        f"{name}: {info['about']}\n\n"
        f"{info['n_features']} binary variables; rows: {rows}.\n"
        f"Prepared for density estimation by {source['prepared_by']}.\n"
        f"Source: {source['repository']} at commit {source['commit']}.\n"
        f"Licence: {source['licence']}\n"
    )


def _hint(name, home):
    return (
        f"To place the data by hand, put {name}.npz, or the text files "
        f"{', '.join(_url(name, s) for s in SPLITS)}, into {home / FOLDER}; or point data_home or "
        f"the environment variable {ENVIRONMENT} to a folder that contains them."
    )


# Local files -------------------------------------------------------------------------------


def _find(name, home):
    """Load a data set from the first folder that contains it; return None if no folder does."""
    for folder in (home / FOLDER, home):
        packed = folder / f"{name}.npz"
        if packed.is_file():
            return _check(name, _read_packed(name, packed), packed, REPLACE_HINT)
        texts = {s: folder / f"{name}.{s}.data" for s in SPLITS}
        if all(path.is_file() for path in texts.values()):
            parts = {s: _parse(name, p.read_bytes(), p, REPLACE_HINT) for s, p in texts.items()}
            return _check(name, parts, folder / f"{name}.*.data", REPLACE_HINT)
    return None


def _read_packed(name, path):
    rows, expected = registry()["sets"][name]["rows"], registry()["sets"][name]["n_features"]
    try:
        with open_archive(path, sum(rows.values()) * expected + HEADER_BYTES) as archive:
            n = int(archive["n_vars"])
            if n != expected:
                raise ValueError(f"n_vars is {n}, expected {expected}")
            packed = {s: archive[f"{s}_packed"] for s in SPLITS}
        return {s: np.unpackbits(rows, axis=1, count=n) for s, rows in packed.items()}
    except (*ARCHIVE_ERRORS, TypeError, AttributeError) as error:
        raise ValueError(
            f"{path} is not a readable packed data set ({error}). {REPLACE_HINT}"
        ) from error


# Download ----------------------------------------------------------------------------------


def _download(name, home):
    """Download and check a data set, save it as a packed archive in ``home``, and return it."""
    hint, parts = _hint(name, home), {}
    for split, rows in registry()["sets"][name]["rows"].items():
        url = _url(name, split)
        width = 2 * registry()["sets"][name]["n_features"] + 1  # "\r\n" at most
        parts[split] = _parse(name, download(url, rows * width, hint), url, hint)
    _check(name, parts, _url(name, "*"), hint)
    packed = {f"{s}_packed": np.packbits(part, axis=1) for s, part in parts.items()}
    n_vars = np.int64(parts["train"].shape[1])
    path = home / FOLDER / f"{name}.npz"
    try:
        write_whole(path, lambda file: np.savez_compressed(file, n_vars=n_vars, **packed))
    except OSError as error:
        raise OSError(
            f"Downloaded {name!r} but could not save it as {path} ({error}). Point data_home or "
            f"the environment variable {ENVIRONMENT} to a writable folder."
        ) from error
    return parts


def _parse(name, text, origin, remedy):
    """Parse lines of comma-separated zeros and ones; return an array (n_rows, n_features)."""
    n = registry()["sets"][name]["n_features"]
    text = text.replace(b"\r\n", b"\n")
    text += b"" if text.endswith(b"\n") else b"\n"
    characters = np.frombuffer(text, dtype=np.uint8)
    if characters.size % (2 * n) == 0:
        rows = characters.reshape(-1, 2 * n)
        bits, separators = rows[:, ::2] - np.uint8(ord("0")), rows[:, 1::2]
        if (bits <= 1).all() and (separators == list(b"," * (n - 1) + b"\n")).all():
            return np.ascontiguousarray(bits)
    raise ValueError(
        f"{origin} is not a file of the data set {name!r}: each row must have {n} "
        f"comma-separated entries 0 or 1. {remedy}"
    )


# Validation --------------------------------------------------------------------------------


def digest(parts):
    """Return the SHA-256 digest of the training, validation and test rows of a data set."""
    total = hashlib.sha256()
    for split in SPLITS:
        total.update(np.packbits(parts[split], axis=1).tobytes())
    return total.hexdigest()


def _check(name, parts, origin, remedy):
    """Check shapes and digest of the three parts of a data set against their published values.

    Returns the three splits.
    """
    info = registry()["sets"][name]
    for split in SPLITS:
        shape = (info["rows"][split], info["n_features"])
        if parts[split].shape != shape:
            raise ValueError(
                f"{origin}: {split} has shape {parts[split].shape}, but {name!r} has shape "
                f"{shape}. {remedy}"
            )
    sha256 = digest(parts)
    if sha256 != info["sha256"]:
        raise ValueError(
            f"{origin} does not contain the rows of {name!r}: their sha256 is {sha256}, expected "
            f"{info['sha256']}. {remedy}"
        )
    return parts
