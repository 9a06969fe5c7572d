"""Image data sets: MNIST and Caltech 101 Silhouettes."""

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
from ._files import (
    ARCHIVE_ERRORS,
    ENVIRONMENT,
    HEADER_BYTES,
    data_home_path,
    download,
    open_archive,
    write_whole,
)
from .density import REPLACE_HINT

SHAPE = 28, 28
N_PIXELS = math.prod(SHAPE)
MAX_GREY = 255
READ_ERRORS = (
    *ARCHIVE_ERRORS,
    TypeError,
    AttributeError,
    NotImplementedError,
    OSError,
    MatReadError,
)
OPENML = "https://www.openml.org/d/554"
SILHOUETTES = "https://people.cs.umass.edu/~marlin/data/caltech101_silhouettes_28_split1.mat"
SILHOUETTES_BYTES = 2**26  # enough for uncompressed images of double precision numbers

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
N_CLASSES = 101


def fetch_mnist(*, threshold=127, data_home=None, download_if_missing=True):
    """Load the MNIST handwritten digits as binary images.

    There are 60,000 training images and 10,000 test images of 28 x 28 pixels [1]_.

    Parameters
    ----------
    threshold : float or None, default=127
        Pixels with a grey value above the threshold become 1, all others 0. A number from 0 to
        254. With None, the images keep their grey values from 0 to 255.
    data_home : str, path-like or None, default=None
        Folder that is searched for ``mnist/mnist.npz`` and ``mnist.npz``. None means the
        environment variable ``SKMRF_DATA``, or ``~/skmrf_data`` if it is not set.
    download_if_missing : bool, default=True
        If True and no file is found, download the data from OpenML [2]_ and save them as
        ``mnist/mnist.npz``. If False, raise an OSError.

    Returns
    -------
    Bunch
        Dictionary-like object with the attributes

        - ``train``, ``test``: ndarrays of shape (n_images, 784), dtype uint8, one image per row,
          pixels in C order;
        - ``train_labels``, ``test_labels``: ndarrays of int of shape (n_images,), the digits;
        - ``image_shape``: (28, 28), height and width of the images;
        - ``DESCR``: str, description of the data and their source.

    Raises
    ------
    ValueError
        If ``threshold`` is outside its range, or if a file is damaged or contains other images. A
        sha256 digest of grey values and labels is checked, both for local files and after a
        download.
    OSError
        If the data are missing and ``download_if_missing`` is False, or if the download failed.

    See Also
    --------
    flip_pixels : Flip each pixel independently.
    occlude : Overwrite a rectangular patch of each image.

    Notes
    -----
    The file contains ``x_train``, ``y_train``, ``x_test`` and ``y_test``. The arrays of images
    have shape (n_images, 28, 28). Likelihoods depend on how the images are made binary. For
    example, they are not comparable with likelihoods of random binary images whose pixels are 1
    with a probability proportional to the grey value.

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
        check_number("threshold", threshold, low=0, high=MAX_GREY - 1)
    readers = {"mnist.npz": _read_digits}
    parts = _fetch("mnist", readers, _download_digits, data_home, download_if_missing)
    if threshold is not None:
        for split in SETS["mnist"]["rows"]:
            parts[split] = (parts[split] > threshold).astype(np.uint8)
    return Bunch(**parts, image_shape=SHAPE, DESCR=_describe("mnist"))


def fetch_caltech101_silhouettes(*, data_home=None, download_if_missing=True):
    """Load the Caltech 101 Silhouettes: binary images of the outlines of objects.

    The images have 28 x 28 pixels and 101 classes. The train, validation and test sets are the
    first split of the original data [1]_.

    Parameters
    ----------
    data_home : str, path-like or None, default=None
        Folder with the data sets. Both this folder and its subfolder ``caltech101_silhouettes``
        are searched for ``caltech101_silhouettes_28_split1.npz`` and for the original file
        ``caltech101_silhouettes_28_split1.mat``. None means the environment variable
        ``SKMRF_DATA``, or ``~/skmrf_data`` if it is not set.
    download_if_missing : bool, default=True
        If True and no file is found, download the original file [2]_ and save the data as
        ``caltech101_silhouettes/caltech101_silhouettes_28_split1.npz``. If False, raise an
        OSError.

    Returns
    -------
    Bunch
        Dictionary-like object with the attributes

        - ``train``, ``valid``, ``test``: ndarrays of shape (n_images, 784), dtype uint8, with
          4100, 2264 and 2307 images, one image per row. As in the original, 0 is the object and 1
          the background. Unlike the original, the pixels are in C order, so
          ``row.reshape(28, 28)`` is upright;
        - ``train_labels``, ``valid_labels``, ``test_labels``: ndarrays of int of shape
          (n_images,), classes from 1 to 101;
        - ``class_names``: ndarray of str of shape (101,); the name of class ``label`` is
          ``class_names[label - 1]``;
        - ``image_shape``: (28, 28), height and width of the images;
        - ``DESCR``: str, description of the data and their source.

    Raises
    ------
    ValueError
        If a file is damaged or contains other images. A sha256 digest of images and labels is
        checked, both for local files and after a download.
    OSError
        If the data are missing and ``download_if_missing`` is False, or if the download failed.

    See Also
    --------
    flip_pixels : Flip each pixel independently.
    occlude : Overwrite a rectangular patch of each image.

    Notes
    -----
    The ``.npz`` file contains ``classnames`` and, for each split (train, val and test),
    ``<split>_labels`` and ``<split>_packed``. The packed array is
    ``numpy.packbits(images, axis=1)`` of the images in column-major pixel order, as in the
    original.

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


# Shared code -------------------------------------------------------------------------------


def _fetch(name, readers, download_parts, data_home, download_if_missing):
    """Load an image data set from the data folder, or download and save it."""
    home = data_home_path(data_home)
    for folder in (home / name, home):
        for file, read in readers.items():
            if (folder / file).is_file():
                return _read(name, read, (folder / file).read_bytes(), folder / file, REPLACE_HINT)
    hint = (
        f"To place the data by hand, put {SETS[name]['by_hand']} into {home / name}; or point "
        f"data_home or the environment variable {ENVIRONMENT} to a folder that contains it."
    )
    if not download_if_missing:
        raise OSError(
            f"Data set {name!r} is not in {home} and download_if_missing is False. {hint}"
        )
    parts, arrays = download_parts(hint)
    path = home / name / next(iter(readers))
    try:
        write_whole(path, lambda file: np.savez_compressed(file, **arrays))
    except OSError as error:
        raise OSError(
            f"Downloaded {name!r} but could not save it as {path} ({error}). Point data_home or "
            f"the environment variable {ENVIRONMENT} to a writable folder."
        ) from error
    return parts


def _read(name, read, content, origin, remedy):
    """Parse and check the content of a data file; error messages call it ``origin``."""
    try:
        parts = read(content)
    except READ_ERRORS as error:
        raise ValueError(
            f"{origin} is not a readable file of the data set {name!r} ({error}). {remedy}"
        ) from error
    return _check(name, parts, origin, remedy)


def _check(name, parts, origin, remedy):
    """Check the shapes and the digest of an image data set, and convert its labels to int64."""
    for split, n in SETS[name]["rows"].items():
        for part, shape in ((split, (n, N_PIXELS)), (f"{split}_labels", (n,))):
            if parts[part].shape != shape:
                raise ValueError(
                    f"{origin}: {part} has shape {parts[part].shape}, but {name!r} has shape "
                    f"{shape}. {remedy}"
                )
    sha256 = digest(name, parts)
    if sha256 != SETS[name]["sha256"]:
        raise ValueError(
            f"{origin} does not contain the images and labels of {name!r}: their sha256 is "
            f"{sha256}, expected {SETS[name]['sha256']}. {remedy}"
        )
    labels = {f"{split}_labels": parts[f"{split}_labels"] for split in SETS[name]["rows"]}
    return parts | {part: values.astype(np.int64) for part, values in labels.items()}


def digest(name, parts):
    """Return the SHA-256 digest of all images and labels of a data set."""
    total = hashlib.sha256()
    for ending in ("", "_labels"):
        for split in SETS[name]["rows"]:
            total.update(np.ascontiguousarray(parts[split + ending], dtype=np.uint8))
    return total.hexdigest()


def _max_bytes(name):
    """Return the largest accepted size of a data set's archive in bytes."""
    return 8 * (N_PIXELS + 1) * sum(SETS[name]["rows"].values()) + HEADER_BYTES


def _describe(name):
    rows = ", ".join(f"{n} {split}" for split, n in SETS[name]["rows"].items())
    return (
        f"{SETS[name]['about']}\n\nImages: {rows}.\nSource: {SETS[name]['source']}.\n"
        "The terms of those who collected them apply; skmrf does not redistribute the data.\n"
    )


# MNIST -------------------------------------------------------------------------------------


def _read_digits(content):
    with open_archive(io.BytesIO(content), _max_bytes("mnist")) as archive:
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
    parts = _read("mnist", _split_digits, table, OPENML, hint)
    arrays = {}
    for split in ("train", "test"):
        arrays[f"x_{split}"] = parts[split].reshape(-1, *SHAPE)
        arrays[f"y_{split}"] = parts[f"{split}_labels"].astype(np.uint8)
    return parts, arrays


def _openml_parser():
    # pandas parses faster, but is an optional dependency
    return "pandas" if find_spec("pandas") else "liac-arff"


def _split_digits(table):
    """Split OpenML's MNIST table: training rows come first, test rows follow."""
    n = SETS["mnist"]["rows"]["train"]
    images, labels = table.data.astype(np.uint8), table.target.astype(np.uint8)
    return {
        "train": images[:n],
        "test": images[n:],
        "train_labels": labels[:n],
        "test_labels": labels[n:],
    }


# Caltech 101 Silhouettes -------------------------------------------------------------------

SPLIT_NAMES = {"train": "train", "valid": "val", "test": "test"}  # our names: names in the files


def _read_packed_silhouettes(content):
    with open_archive(io.BytesIO(content), _max_bytes("caltech101_silhouettes")) as archive:
        images = {
            split: np.unpackbits(archive[f"{name}_packed"], axis=1, count=N_PIXELS)
            for split, name in SPLIT_NAMES.items()
        }
        labels = {split: archive[f"{name}_labels"] for split, name in SPLIT_NAMES.items()}
        return _arrange_silhouettes(images, labels, archive["classnames"])


def _read_original_silhouettes(content):
    arrays = loadmat(io.BytesIO(content))
    images = {split: arrays[f"{name}_data"] for split, name in SPLIT_NAMES.items()}
    labels = {split: arrays[f"{name}_labels"] for split, name in SPLIT_NAMES.items()}
    class_names = [cell.item() for cell in arrays["classnames"].ravel()]
    return _arrange_silhouettes(images, labels, class_names)


def _arrange_silhouettes(images, labels, class_names):
    """Return the images (in row-major order), labels and class names as one dict."""
    class_names = np.asarray(class_names, dtype=str)
    if class_names.shape != (N_CLASSES,):
        raise ValueError(f"classnames has shape {class_names.shape}, expected ({N_CLASSES},)")
    parts = {split: _transpose(x.astype(np.uint8)) for split, x in images.items()}
    parts |= {f"{split}_labels": y.astype(np.uint8).ravel() for split, y in labels.items()}
    return parts | {"class_names": class_names}


def _transpose(rows):
    """Convert the pixels of each image from column-major to row-major order, or back."""
    return rows.reshape(-1, *SHAPE).swapaxes(1, 2).reshape(-1, N_PIXELS)


def _download_silhouettes(hint):
    content = download(SILHOUETTES, SILHOUETTES_BYTES, hint)
    name = "caltech101_silhouettes"
    parts = _read(name, _read_original_silhouettes, content, SILHOUETTES, hint)
    arrays = {"classnames": parts["class_names"], "n_vars": np.int64(N_PIXELS)}
    for split, original in SPLIT_NAMES.items():
        arrays[f"{original}_packed"] = np.packbits(_transpose(parts[split]), axis=1)
        arrays[f"{original}_labels"] = parts[f"{split}_labels"].astype(np.uint8)
    return parts, arrays
