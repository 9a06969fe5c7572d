"""The binary data sets on which density estimators are compared, fetched or read offline."""

import hashlib
import json
import zipfile
import zlib
from functools import cache
from importlib import resources

import numpy as np
from sklearn.utils import Bunch

from ._remote import ENVIRONMENT, data_home_path, download, write_whole

FOLDER = "density20"
SPLITS = ("train", "valid", "test")
REPLACE = "Delete it and fetch the data set again, or put a sound copy there."
BROKEN = (ValueError, KeyError, EOFError, zipfile.BadZipFile, zlib.error)


def fetch_density_benchmark(name, *, data_home=None, download_if_missing=True):
    """Binary data set of the density estimation benchmark, in its usual three parts.

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
        One of those names.
    data_home : path or None, default=None
        Folder that is searched for ``density20/<name>.npz`` and ``<name>.npz``, or beside either
        the three text files ``<name>.{train,valid,test}.data``. None: the environment variable
        ``SKMRF_DATA``, or ``~/skmrf_data`` where that is not set.
    download_if_missing : bool, default=True
        Download what is not found [3]_ and keep it as ``density20/<name>.npz``; otherwise
        raise OSError.

    Returns
    -------
    Bunch
        - ``train``, ``valid``, ``test``: ndarrays of shape (n_rows, n_features), dtype uint8,
          entries 0 and 1;
        - ``n_features``: int;
        - ``name``: str;
        - ``DESCR``: str, what the data are, their source and their licence.

    Raises
    ------
    ValueError
        An unknown name; a file that is damaged or holds other rows, judged by a sha256 of the
        rows in both the offline and the downloaded case.
    OSError
        The data are missing and not to be downloaded, or the download failed.

    Notes
    -----
    The packed files hold ``n_vars`` and, for every part, ``<part>_packed``, the rows of
    ``numpy.packbits(part, axis=1)``. The digest is the sha256 of these bytes of train, valid and
    test, one after the other, so it does not depend on the archive or on line ends.

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
    known = registry()["sets"]
    if not isinstance(name, str) or name not in known:
        raise ValueError(f"name must be one of {list(known)}; got {name!r}.")
    home = data_home_path(data_home)
    parts = _find(name, home)
    if parts is None and not download_if_missing:
        raise OSError(
            f"Data set {name!r} is not in {home} and download_if_missing is False. "
            f"{_hint(name, home)}"
        )
    if parts is None:
        parts = _download(name, home)
    return Bunch(**parts, n_features=known[name]["n_features"], name=name, DESCR=_describe(name))


@cache
def registry():
    """Source, shapes and digests: ``density20.json`` as a dict."""
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
        f"the environment variable {ENVIRONMENT} to a folder that holds them."
    )


# Offline -----------------------------------------------------------------------------------


def _find(name, home):
    """The parts from the first place that has them, else None."""
    for folder in (home / FOLDER, home):
        packed = folder / f"{name}.npz"
        if packed.is_file():
            return _check(name, _read_packed(name, packed), packed, REPLACE)
        texts = {s: folder / f"{name}.{s}.data" for s in SPLITS}
        if all(path.is_file() for path in texts.values()):
            parts = {s: _parse(name, p.read_bytes(), p, REPLACE) for s, p in texts.items()}
            return _check(name, parts, folder / f"{name}.*.data", REPLACE)
    return None


def _read_packed(name, path):
    try:
        with np.load(path, allow_pickle=False) as archive:
            n, expected = int(archive["n_vars"]), registry()["sets"][name]["n_features"]
            if n != expected:
                raise ValueError(f"n_vars is {n}, expected {expected}")
            packed = {s: archive[f"{s}_packed"] for s in SPLITS}
        return {s: np.unpackbits(rows, axis=1, count=n) for s, rows in packed.items()}
    except (*BROKEN, TypeError, AttributeError) as error:
        raise ValueError(
            f"{path} is not a readable packed data set ({error}). {REPLACE}"
        ) from error


# Download ----------------------------------------------------------------------------------


def _download(name, home):
    """Fetch the text files, check them and keep them packed under ``home``."""
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
            f"Downloaded {name!r} but could not keep it as {path} ({error}). Point data_home or "
            f"the environment variable {ENVIRONMENT} to a folder that can be written."
        ) from error
    return parts


def _parse(name, text, origin, remedy):
    """Rows of comma-separated 0 and 1 as a uint8 array of shape (n_rows, n_features)."""
    n = registry()["sets"][name]["n_features"]
    text = text.replace(b"\r\n", b"\n")
    text += b"" if text.endswith(b"\n") else b"\n"
    characters = np.frombuffer(text, dtype=np.uint8)
    if characters.size % (2 * n) == 0:
        rows = characters.reshape(-1, 2 * n)
        bits, marks = rows[:, ::2] - np.uint8(ord("0")), rows[:, 1::2]
        if (bits <= 1).all() and (marks == list(b"," * (n - 1) + b"\n")).all():
            return np.ascontiguousarray(bits)
    raise ValueError(
        f"{origin} does not consist of rows of {n} comma-separated 0 or 1, as the data set "
        f"{name!r} does. {remedy}"
    )


# Check -------------------------------------------------------------------------------------


def digest(parts):
    """Sha256 of the packed rows of train, valid and test, one after the other."""
    total = hashlib.sha256()
    for split in SPLITS:
        total.update(np.packbits(parts[split], axis=1).tobytes())
    return total.hexdigest()


def _check(name, parts, origin, remedy):
    """The parts, if they have the shapes and the digest of the registry."""
    info = registry()["sets"][name]
    for split in SPLITS:
        shape = (info["rows"][split], info["n_features"])
        if parts[split].shape != shape:
            raise ValueError(
                f"{origin}: {split} has shape {parts[split].shape}, but that of {name!r} is "
                f"{shape}. {remedy}"
            )
    found = digest(parts)
    if found != info["sha256"]:
        raise ValueError(
            f"{origin} does not hold the rows of {name!r}: their sha256 is {found}, expected "
            f"{info['sha256']}. {remedy}"
        )
    return parts
