"""Binary images on which models of pixels are compared, fetched or read offline."""

import hashlib
import http.client
import io
import math
from importlib.util import find_spec

import numpy as np
from scipy.io import loadmat
from scipy.io.matlab import MatReadError
from sklearn.datasets import fetch_openml
from sklearn.utils import Bunch

from .._utils.parameters import check_number
from ._remote import ENVIRONMENT, data_home_path, download, write_whole
from .density import BROKEN, REPLACE

SHAPE = 28, 28
N_PIXELS = math.prod(SHAPE)
BRIGHTEST = 255
DAMAGED = (*BROKEN, TypeError, AttributeError, NotImplementedError, OSError, MatReadError)
OPENML = "https://www.openml.org/d/554"
SILHOUETTES = "https://people.cs.umass.edu/~marlin/data/caltech101_silhouettes_28_split1.mat"
SILHOUETTES_BYTES = 2**26  # the images as double precision numbers, without compression

SETS = {
    "mnist": {
        "rows": {"train": 60000, "test": 10000},
        "sha256": "c2069063c1105f2bf96266aef1ff68c6e13bdda7a54e37bf19c16f1db24efc83",
        "by_hand": "mnist.npz (arrays x_train, y_train, x_test and y_test, as Keras has it)",
        "about": "MNIST: handwritten digits of 28 x 28 pixels, labels 0 to 9.",
        "source": f"Y. LeCun, C. Cortes and C. Burges; as data set mnist_784 at {OPENML}",
    },
    "caltech101_silhouettes": {
        "rows": {"train": 4100, "valid": 2264, "test": 2307},
        "sha256": "7d51ce6243784697f8b7db94fbb0b612789aab805991d3f0302eb8974080feee",
        "by_hand": SILHOUETTES,
        "about": "Caltech 101 Silhouettes, 28 x 28 pixels, split 1: outlines of objects, filled "
        "(0) on background (1), labels 1 to 101.",
        "source": f"B. Marlin, {SILHOUETTES}",
    },
}
CLASSES = 101


def fetch_mnist(*, threshold=127, data_home=None, download_if_missing=True):
    """Handwritten digits, 60,000 to learn from and 10,000 to test, as binary images.

    Parameters
    ----------
    threshold : float or None, default=127
        Pixels of a grey value above it are 1, the others 0; from 0 to 254. None keeps the grey
        values, 0 to 255.
    data_home : path or None, default=None
        Folder that is searched for ``mnist/mnist.npz`` and ``mnist.npz``. None: the environment
        variable ``SKMRF_DATA``, or ``~/skmrf_data`` where that is not set.
    download_if_missing : bool, default=True
        Download what is not found from OpenML [2]_ and keep it as ``mnist/mnist.npz``; otherwise
        raise OSError.

    Returns
    -------
    Bunch
        - ``train``, ``test``: ndarrays of shape (n_images, 784), dtype uint8, an image a row, in
          C order;
        - ``train_labels``, ``test_labels``: ndarrays of int, the digits;
        - ``image_shape``: (28, 28);
        - ``DESCR``: str, what the data are and their source.

    Raises
    ------
    ValueError
        A threshold out of its range; a file that is damaged or holds other images, judged by a
        sha256 of grey values and labels in both the offline and the downloaded case.
    OSError
        The data are missing and not to be downloaded, or the download failed.

    See Also
    --------
    flip_pixels, occlude : Damage to images.

    Notes
    -----
    The file holds ``x_train``, ``y_train``, ``x_test`` and ``y_test``, the images with three axes.
    Binary images by another rule, such as random ones with the grey values as probabilities, give
    other likelihoods.

    References
    ----------
    .. [1] Y. LeCun, L. Bottou, Y. Bengio and P. Haffner, "Gradient-based learning applied to
       document recognition", Proceedings of the IEEE 86(11), 1998.
    .. [2] https://www.openml.org/d/554

    Examples
    --------
    >>> from skmrf.datasets import fetch_mnist
    >>> digits = fetch_mnist()  # doctest: +SKIP
    >>> digits.train.shape  # doctest: +SKIP
    (60000, 784)
    """
    if threshold is not None:
        check_number("threshold", threshold, low=0, high=BRIGHTEST - 1)
    readers = {"mnist.npz": _read_digits}
    parts = _fetch("mnist", readers, _download_digits, data_home, download_if_missing)
    if threshold is not None:
        for split in SETS["mnist"]["rows"]:
            parts[split] = (parts[split] > threshold).astype(np.uint8)
    return Bunch(**parts, image_shape=SHAPE, DESCR=_describe("mnist"))


def fetch_caltech101_silhouettes(*, data_home=None, download_if_missing=True):
    """Filled outlines of the objects of 101 classes, the usual first split.

    Parameters
    ----------
    data_home : path or None, default=None
        Folder that is searched for ``caltech101_silhouettes_28_split1`` with the ending ``.npz``
        or ``.mat`` (the original file), in ``caltech101_silhouettes/`` and directly. None: the
        environment variable ``SKMRF_DATA``, or ``~/skmrf_data`` where that is not set.
    download_if_missing : bool, default=True
        Download what is not found [2]_ and keep it as
        ``caltech101_silhouettes/caltech101_silhouettes_28_split1.npz``; otherwise raise OSError.

    Returns
    -------
    Bunch
        - ``train``, ``valid``, ``test``: ndarrays of shape (n_images, 784) with 4100, 2264 and
          2307 images, dtype uint8, an image a row: 0 is the object, 1 the background, as in the
          original, but in C order, so that ``row.reshape(28, 28)`` is upright;
        - ``train_labels``, ``valid_labels``, ``test_labels``: ndarrays of int, 1 to 101;
        - ``class_names``: ndarray of 101 str; ``class_names[label - 1]`` is that of a label;
        - ``image_shape``: (28, 28);
        - ``DESCR``: str, what the data are and their source.

    Raises
    ------
    ValueError
        A file that is damaged or holds other images, judged by a sha256 of images and labels in
        both the offline and the downloaded case.
    OSError
        The data are missing and not to be downloaded, or the download failed.

    See Also
    --------
    flip_pixels, occlude : Damage to images.

    Notes
    -----
    The packed file holds ``classnames`` and, for each of train, val and test, ``<part>_labels``
    and ``<part>_packed``, the rows of ``numpy.packbits(images, axis=1)`` with the images column by
    column, as in the original.

    References
    ----------
    .. [1] B. Marlin, K. Swersky, B. Chen and N. de Freitas, "Inductive principles for restricted
       Boltzmann machine learning", AISTATS 2010.
    .. [2] https://people.cs.umass.edu/~marlin/data/caltech101_silhouettes_28_split1.mat

    Examples
    --------
    >>> from skmrf.datasets import fetch_caltech101_silhouettes
    >>> objects = fetch_caltech101_silhouettes()  # doctest: +SKIP
    >>> objects.test.shape  # doctest: +SKIP
    (2307, 784)
    """
    name, stem = "caltech101_silhouettes", "caltech101_silhouettes_28_split1"
    readers = {f"{stem}.npz": _read_packed_silhouettes, f"{stem}.mat": _read_original_silhouettes}
    parts = _fetch(name, readers, _download_silhouettes, data_home, download_if_missing)
    return Bunch(**parts, image_shape=SHAPE, DESCR=_describe(name))


# Both sets ---------------------------------------------------------------------------------


def _fetch(name, readers, get, data_home, download_if_missing):
    """Return images, labels and metadata from the first file found, or by ``get``."""
    home = data_home_path(data_home)
    for folder in (home / name, home):
        for file, read in readers.items():
            if (folder / file).is_file():
                return _read(name, read, (folder / file).read_bytes(), folder / file, REPLACE)
    hint = (
        f"To place the data by hand, put {SETS[name]['by_hand']} into {home / name}; or point "
        f"data_home or the environment variable {ENVIRONMENT} to a folder that holds it."
    )
    if not download_if_missing:
        raise OSError(
            f"Data set {name!r} is not in {home} and download_if_missing is False. {hint}"
        )
    parts, kept = get(hint)
    path = home / name / next(iter(readers))
    try:
        write_whole(path, lambda file: np.savez_compressed(file, **kept))
    except OSError as error:
        raise OSError(
            f"Downloaded {name!r} but could not keep it as {path} ({error}). Point data_home or "
            f"the environment variable {ENVIRONMENT} to a folder that can be written."
        ) from error
    return parts


def _read(name, read, content, origin, remedy):
    """What a file or a download holds, checked."""
    try:
        parts = read(content)
    except DAMAGED as error:
        raise ValueError(
            f"{origin} is not a readable file of the data set {name!r} ({error}). {remedy}"
        ) from error
    return _check(name, parts, origin, remedy)


def _check(name, parts, origin, remedy):
    """The parts, if they have the shapes and the digest of the set; labels become int."""
    for split, n in SETS[name]["rows"].items():
        for part, shape in ((split, (n, N_PIXELS)), (f"{split}_labels", (n,))):
            if parts[part].shape != shape:
                raise ValueError(
                    f"{origin}: {part} has shape {parts[part].shape}, but that of {name!r} is "
                    f"{shape}. {remedy}"
                )
    found = digest(name, parts)
    if found != SETS[name]["sha256"]:
        raise ValueError(
            f"{origin} does not hold the images and labels of {name!r}: their sha256 is {found}, "
            f"expected {SETS[name]['sha256']}. {remedy}"
        )
    labels = {f"{split}_labels": parts[f"{split}_labels"] for split in SETS[name]["rows"]}
    return parts | {part: values.astype(np.int64) for part, values in labels.items()}


def digest(name, parts):
    """Sha256 of the images of every part, one after the other, and then of the labels, as uint8."""
    total = hashlib.sha256()
    for ending in ("", "_labels"):
        for split in SETS[name]["rows"]:
            total.update(np.ascontiguousarray(parts[split + ending], dtype=np.uint8))
    return total.hexdigest()


def _describe(name):
    rows = ", ".join(f"{n} {split}" for split, n in SETS[name]["rows"].items())
    return (
        f"{SETS[name]['about']}\n\nImages: {rows}.\nSource: {SETS[name]['source']}.\n"
        "The terms of those who collected them apply; skmrf does not redistribute the data.\n"
    )


# Digits ------------------------------------------------------------------------------------


def _read_digits(content):
    with np.load(io.BytesIO(content), allow_pickle=False) as archive:
        images = {split: archive[f"x_{split}"] for split in ("train", "test")}
        labels = {f"{split}_labels": archive[f"y_{split}"] for split in ("train", "test")}
    parts = {split: x.reshape(len(x), -1) for split, x in images.items()} | labels
    return {part: values.astype(np.uint8) for part, values in parts.items()}


def _download_digits(hint):
    try:
        table = fetch_openml(
            "mnist_784", version=1, as_frame=False, cache=False, parser=_openml_parser()
        )
    except (OSError, http.client.HTTPException, ValueError) as error:
        raise OSError(f"Could not download {OPENML} ({error}). {hint}") from error
    parts = _read("mnist", _cut_digits, table, OPENML, hint)
    kept = {}
    for split in ("train", "test"):
        kept[f"x_{split}"] = parts[split].reshape(-1, *SHAPE)
        kept[f"y_{split}"] = parts[f"{split}_labels"].astype(np.uint8)
    return parts, kept


def _openml_parser():
    """The faster one where it is installed."""
    return "pandas" if find_spec("pandas") else "liac-arff"


def _cut_digits(table):
    """The parts of OpenML's table, whose first rows are those to learn from."""
    n = SETS["mnist"]["rows"]["train"]
    images, labels = table.data.astype(np.uint8), table.target.astype(np.uint8)
    return {
        "train": images[:n],
        "test": images[n:],
        "train_labels": labels[:n],
        "test_labels": labels[n:],
    }


# Silhouettes -------------------------------------------------------------------------------

ORIGINAL = {"train": "train", "valid": "val", "test": "test"}  # names of the parts


def _read_packed_silhouettes(content):
    with np.load(io.BytesIO(content), allow_pickle=False) as archive:
        images = {
            split: np.unpackbits(archive[f"{name}_packed"], axis=1, count=N_PIXELS)
            for split, name in ORIGINAL.items()
        }
        labels = {split: archive[f"{name}_labels"] for split, name in ORIGINAL.items()}
        return _silhouettes(images, labels, archive["classnames"])


def _read_original_silhouettes(content):
    found = loadmat(io.BytesIO(content))
    images = {split: found[f"{name}_data"] for split, name in ORIGINAL.items()}
    labels = {split: found[f"{name}_labels"] for split, name in ORIGINAL.items()}
    return _silhouettes(images, labels, [cell.item() for cell in found["classnames"].ravel()])


def _silhouettes(images, labels, class_names):
    """The parts, with the images upright."""
    class_names = np.asarray(class_names, dtype=str)
    if class_names.shape != (CLASSES,):
        raise ValueError(f"classnames has shape {class_names.shape}, expected ({CLASSES},)")
    parts = {split: _transpose(x.astype(np.uint8)) for split, x in images.items()}
    parts |= {f"{split}_labels": y.astype(np.uint8).ravel() for split, y in labels.items()}
    return parts | {"class_names": class_names}


def _transpose(rows):
    """Rows of pixels column by column as rows of pixels row by row, and the reverse."""
    return rows.reshape(-1, *SHAPE).swapaxes(1, 2).reshape(-1, N_PIXELS)


def _download_silhouettes(hint):
    content = download(SILHOUETTES, SILHOUETTES_BYTES, hint)
    name = "caltech101_silhouettes"
    parts = _read(name, _read_original_silhouettes, content, SILHOUETTES, hint)
    kept = {"classnames": parts["class_names"], "n_vars": np.int64(N_PIXELS)}
    for split, original in ORIGINAL.items():
        kept[f"{original}_packed"] = np.packbits(_transpose(parts[split]), axis=1)
        kept[f"{original}_labels"] = parts[f"{split}_labels"].astype(np.uint8)
    return parts, kept
