"""Tests of image data sets and image corruption."""

import re
import tracemalloc
import urllib.error
import urllib.request
from types import SimpleNamespace

import numpy as np
import pytest
from montecarlo import N_SIGMA, TAIL
from scipy.io import savemat
from scipy.stats import chisquare

from skmrf.datasets import (
    _files,
    fetch_caltech101_silhouettes,
    fetch_mnist,
    flip_pixels,
    images,
    occlude,
)

# Synthetic data sets ----------------------------------------------------------------------

DIGITS, OBJECTS = "mnist", "caltech101_silhouettes"
DIGITS_FILE, OBJECTS_FILE = "mnist/mnist.npz", f"{OBJECTS}/{OBJECTS}_28_split1.npz"
NAMES = np.array([f"class {i}" for i in range(101)])


def make_parts(monkeypatch, name, splits, high):
    """Register a small random data set under the name of a real one, and return its parts."""
    rng = np.random.default_rng(0)
    rows = dict(zip(splits, (9, 4, 5), strict=False))
    parts = {s: rng.integers(0, high, size=(n, 784), dtype=np.uint8) for s, n in rows.items()}
    parts |= {f"{s}_labels": rng.integers(1, 10, size=n) for s, n in rows.items()}
    monkeypatch.setitem(images.SETS[name], "rows", rows)
    monkeypatch.setitem(images.SETS[name], "sha256", images.digest(name, parts))
    return parts


@pytest.fixture
def digits(monkeypatch):
    return make_parts(monkeypatch, DIGITS, ("train", "test"), 256)


@pytest.fixture
def objects(monkeypatch):
    parts = make_parts(monkeypatch, OBJECTS, ("train", "valid", "test"), 2)
    return parts | {"class_names": NAMES}


def save_digits(path, parts):
    path.parent.mkdir(parents=True, exist_ok=True)
    arrays = {f"x_{s}": parts[s].reshape(-1, 28, 28) for s in ("train", "test")}
    np.savez(path, **arrays, **{f"y_{s}": parts[f"{s}_labels"] for s in ("train", "test")})


def original_arrays(parts, form):
    """Return the arrays of the original file, with pixels in column-major order."""
    arrays = {"classnames": parts["class_names"]}
    for split, name in (("train", "train"), ("valid", "val"), ("test", "test")):
        columns = np.stack([row.reshape(28, 28).T.ravel() for row in parts[split]])
        packed = np.packbits(columns, axis=1)
        arrays |= {f"{name}_packed": packed} if form == "npz" else {f"{name}_data": columns}
        arrays[f"{name}_labels"] = parts[f"{split}_labels"]
    return arrays


def save_objects(path, parts, form):
    path.parent.mkdir(parents=True, exist_ok=True)
    arrays = original_arrays(parts, form)
    if form == "npz":
        np.savez(path, n_vars=784, **arrays)
        return
    arrays["classnames"] = np.array([str(n) for n in NAMES], dtype=object)[None, :]  # a cell array
    arrays = {k: v if k == "classnames" else v.astype(float) for k, v in arrays.items()}
    savemat(path, arrays, do_compression=True)


def assert_same(bunch, parts):
    for part, values in parts.items():
        np.testing.assert_array_equal(bunch[part], values)
    assert bunch.train.dtype == np.uint8
    assert bunch.train_labels.dtype == np.int64
    assert bunch.image_shape == (28, 28)
    assert "does not redistribute" in bunch.DESCR


@pytest.mark.parametrize("place", [DIGITS_FILE, "mnist.npz"])
def test_digits_offline(digits, place, tmp_path):
    save_digits(tmp_path / place, digits)
    offline = {"data_home": tmp_path, "download_if_missing": False}
    assert_same(fetch_mnist(threshold=None, **offline), digits)
    for threshold in (0, 127, 127.5, 254):
        bunch = fetch_mnist(threshold=threshold, **offline)
        assert bunch.train.dtype == np.uint8
        np.testing.assert_array_equal(bunch.test, digits["test"] > threshold)
    np.testing.assert_array_equal(fetch_mnist(**offline).train, digits["train"] > 127)


@pytest.mark.parametrize("form", ["npz", "mat"])
@pytest.mark.parametrize("folder", [f"{OBJECTS}/", ""])
def test_objects_offline(objects, form, folder, tmp_path):
    save_objects(tmp_path / f"{folder}{OBJECTS}_28_split1.{form}", objects, form)
    assert_same(
        fetch_caltech101_silhouettes(data_home=tmp_path, download_if_missing=False), objects
    )


@pytest.mark.usefixtures("digits")
def test_invalid_parameters():
    for threshold, message in (
        (255, "threshold must be a number >= 0 and <= 254; got 255."),
        (-1, "threshold must be a number >= 0 and <= 254; got -1."),
        ("dark", "threshold must be a finite number; got 'dark'."),
    ):
        with pytest.raises(ValueError, match=f"^{re.escape(message)}$"):
            fetch_mnist(threshold=threshold)
    for fetch in (fetch_mnist, fetch_caltech101_silhouettes):
        with pytest.raises(ValueError, match=r"^data_home must be a path or None; got 3\.$"):
            fetch(data_home=3)


@pytest.mark.parametrize(
    ("fetch", "name", "what"),
    [
        (fetch_mnist, DIGITS, "mnist.npz (arrays x_train, y_train, x_test and y_test"),
        (fetch_caltech101_silhouettes, OBJECTS, images.SILHOUETTES),
    ],
)
def test_missing_data_explain_manual_download(fetch, name, what, tmp_path):
    message = (
        f"Data set '{name}' is not in {tmp_path} and download_if_missing is False. To place the "
        f"data by hand, put {what}"
    )
    with pytest.raises(OSError, match=f"^{re.escape(message)}") as caught:
        fetch(data_home=tmp_path, download_if_missing=False)
    assert str(tmp_path / name) in str(caught.value)
    assert "SKMRF_DATA" in str(caught.value)


@pytest.mark.parametrize("part", ["train", "test", "test_labels"])
def test_detects_one_wrong_entry(digits, objects, part, tmp_path):
    for parts in (digits, objects):
        parts[part] = parts[part].copy()
        parts[part].flat[3] ^= 1
    save_digits(tmp_path / DIGITS_FILE, digits)
    save_objects(tmp_path / OBJECTS_FILE, objects, "npz")
    for fetch, name, parts in (
        (fetch_mnist, DIGITS, digits),
        (fetch_caltech101_silhouettes, OBJECTS, objects),
    ):
        message = (
            f"does not contain the images and labels of '{name}': their sha256 is "
            f"{images.digest(name, parts)}, expected {images.SETS[name]['sha256']}. Delete it and "
            "fetch the data set again, or replace it with an intact copy."
        )
        with pytest.raises(ValueError, match=f"{re.escape(message)}$"):
            fetch(data_home=tmp_path)


def test_detects_wrong_shapes(digits, objects, tmp_path):
    save_digits(tmp_path / DIGITS_FILE, digits | {"test": digits["test"][:-1]})
    with pytest.raises(ValueError, match=r"test has shape \(3, 784\), but .* has shape \(4, 784\)"):
        fetch_mnist(data_home=tmp_path)
    save_digits(tmp_path / DIGITS_FILE, digits | {"train_labels": np.zeros((9, 2))})
    with pytest.raises(
        ValueError,
        match=r"train_labels has shape \(9, 2\), but .* has shape "
        r"\(9,\)",
    ):
        fetch_mnist(data_home=tmp_path)
    save_objects(tmp_path / OBJECTS_FILE, objects | {"class_names": NAMES[1:]}, "npz")
    with pytest.raises(ValueError, match=r"classnames has shape \(100,\), expected \(101,\)"):
        fetch_caltech101_silhouettes(data_home=tmp_path)


@pytest.mark.long
@pytest.mark.usefixtures("digits")
def test_large_arrays_are_not_decompressed(tmp_path):
    """An archive of 400 kB whose arrays have 400 MB is refused without reading them."""
    path = tmp_path / DIGITS_FILE
    path.parent.mkdir(exist_ok=True)
    names = "x_train", "y_train", "x_test", "y_test"
    np.savez_compressed(path, **dict.fromkeys(names, np.zeros(10**8, dtype=np.uint8)))
    tracemalloc.start()
    with pytest.raises(ValueError, match=r"its arrays have 4000005\d\d bytes, expected at most"):
        fetch_mnist(data_home=tmp_path)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 10**7


@pytest.mark.parametrize("damage", ["empty", "garbage", "truncated", "npy", "keys"])
@pytest.mark.parametrize("form", ["npz", "mat"])
def test_detects_damaged_files(digits, objects, damage, form, tmp_path):
    paths = [tmp_path / OBJECTS_FILE.replace("npz", form)]
    save_objects(paths[0], objects, form)
    if form == "npz":
        paths.append(tmp_path / DIGITS_FILE)
        save_digits(paths[1], digits)
    for path, fetch in zip(paths, (fetch_caltech101_silhouettes, fetch_mnist), strict=False):
        content = {"empty": b"", "garbage": b"pixels" * 99, "truncated": path.read_bytes()[:900]}
        if damage == "npy":
            with open(path, "wb") as file:
                np.save(file, objects["train"])
        elif damage == "keys":
            (np.savez if form == "npz" else savemat)(path, **keys_only(form))
        else:
            path.write_bytes(content[damage])
        with pytest.raises(ValueError, match=f"^{re.escape(str(path))} is not a readable file of"):
            fetch(data_home=tmp_path)


def keys_only(form):
    return {"n_vars": 784} if form == "npz" else {"mdict": {"n_vars": 784}}


# Downloads of the synthetic data sets -----------------------------------------------------


def openml_table(parts):
    """Return a result of fetch_openml: floats and strings, training rows first."""
    labels = np.concatenate([parts["train_labels"], parts["test_labels"]])
    return SimpleNamespace(
        data=np.vstack([parts["train"], parts["test"]]).astype(float),
        target=np.array([str(y) for y in labels], dtype=object),
    )


def replace_fetch_openml(monkeypatch, table):
    requests = []

    def fetch_openml(name, **options):
        requests.append((name, options["version"], options["as_frame"]))
        if isinstance(table, Exception):
            raise table
        return table

    monkeypatch.setattr(images, "fetch_openml", fetch_openml)
    return requests


@pytest.fixture
def site(objects, tmp_path, monkeypatch):
    """Replace the file of the public site by a local file, and return its path."""
    path = tmp_path / "site" / "objects.mat"
    save_objects(path, objects, "mat")
    monkeypatch.setattr(images, "SILHOUETTES", path.as_uri())
    return path


def test_downloaded_digits_are_saved(digits, tmp_path, monkeypatch):
    requests = replace_fetch_openml(monkeypatch, openml_table(digits))
    assert_same(fetch_mnist(threshold=None, data_home=tmp_path), digits)
    np.testing.assert_array_equal(fetch_mnist(data_home=tmp_path).test, digits["test"] > 127)
    assert requests == [("mnist_784", 1, False)]
    assert [p.name for p in (tmp_path / "mnist").iterdir()] == ["mnist.npz"]
    assert_same(fetch_mnist(threshold=None, data_home=tmp_path), digits)
    with np.load(tmp_path / "mnist" / "mnist.npz") as archive:
        assert {k: archive[k].shape for k in archive} == {
            "x_train": (9, 28, 28),
            "y_train": (9,),
            "x_test": (4, 28, 28),
            "y_test": (4,),
        }
        assert {archive[k].dtype for k in archive} == {np.dtype(np.uint8)}


def test_downloaded_objects_are_saved(objects, site, tmp_path):
    home = tmp_path / "home"
    assert_same(fetch_caltech101_silhouettes(data_home=home), objects)
    assert [str(p.relative_to(home)) for p in home.rglob("*.*")] == [OBJECTS_FILE]
    site.unlink()
    assert_same(fetch_caltech101_silhouettes(data_home=home), objects)
    with np.load(home / OBJECTS_FILE) as archive:
        for key, values in original_arrays(objects, "npz").items():
            np.testing.assert_array_equal(archive[key], values)
        assert archive["n_vars"] == 784


@pytest.mark.usefixtures("digits")
@pytest.mark.parametrize(
    "failure", [urllib.error.URLError("no route"), TimeoutError("late"), ValueError("not found")]
)
def test_download_failure_of_digits(failure, tmp_path, monkeypatch):
    replace_fetch_openml(monkeypatch, failure)
    message = f"Could not download {images.OPENML} ({failure}). To place the data by hand"
    with pytest.raises(OSError, match=f"^{re.escape(message)}"):
        fetch_mnist(data_home=tmp_path / "home")
    assert not (tmp_path / "home").exists()


def test_download_of_wrong_digits(digits, tmp_path, monkeypatch):
    table = openml_table(digits)
    table.data[2, 300] += 1
    replace_fetch_openml(monkeypatch, table)
    with pytest.raises(ValueError, match=r"/554 does not contain the images .* by hand"):
        fetch_mnist(data_home=tmp_path / "home")
    table.target[0] = "seven"
    with pytest.raises(ValueError, match=r"/554 is not a readable file of .* by hand"):
        fetch_mnist(data_home=tmp_path / "home")
    assert not (tmp_path / "home").exists()


def test_download_failures_of_objects(objects, site, tmp_path, monkeypatch):
    home = tmp_path / "home"
    save_objects(site, objects | {"test": 1 - objects["test"]}, "mat")
    with pytest.raises(ValueError, match=r"objects\.mat does not contain the images .* by hand"):
        fetch_caltech101_silhouettes(data_home=home)
    monkeypatch.setattr(images, "SILHOUETTES_BYTES", 1000)
    with pytest.raises(ValueError, match=r"has more than the expected 1000 bytes\. To place"):
        fetch_caltech101_silhouettes(data_home=home)
    site.unlink()
    with pytest.raises(OSError, match=r"^Could not download file://.*objects\.mat .* by hand"):
        fetch_caltech101_silhouettes(data_home=home)
    assert not home.exists()


@pytest.mark.usefixtures("site")
def test_download_to_unwritable_folder(digits, tmp_path, monkeypatch):
    replace_fetch_openml(monkeypatch, openml_table(digits))
    home = tmp_path / "home"
    home.write_text("a file, not a folder")
    for fetch, name in ((fetch_mnist, DIGITS), (fetch_caltech101_silhouettes, OBJECTS)):
        with pytest.raises(OSError, match=f"^Downloaded '{name}' but could not save it as"):
            fetch(data_home=home)


def test_download_of_objects_uses_original_site_and_timeout(tmp_path, monkeypatch):
    requests = []

    def urlopen(url, timeout):
        requests.append((url, timeout))
        raise TimeoutError("timed out")

    monkeypatch.setattr(urllib.request, "urlopen", urlopen)
    with pytest.raises(OSError, match=r"^Could not download https://people\.cs\..* \(timed out\)"):
        fetch_caltech101_silhouettes(data_home=tmp_path)
    page = "https://people.cs.umass.edu/~marlin/data/caltech101_silhouettes_28_split1.mat"
    assert requests == [(page, _files.TIMEOUT)]
    assert page in fetch_caltech101_silhouettes.__doc__


# Real data sets ---------------------------------------------------------------------------


@pytest.fixture(scope="module")
def real_digits(data_folder):
    home = data_folder("mnist").parent
    return fetch_mnist(data_home=home, download_if_missing=False)


@pytest.fixture(scope="module")
def real_objects(data_folder):
    home = data_folder(OBJECTS).parent
    return fetch_caltech101_silhouettes(data_home=home, download_if_missing=False)


def test_real_digits(real_digits):
    assert real_digits.train.shape == (60000, 784)
    assert real_digits.test.shape == (10000, 784)
    assert real_digits.train.max() == real_digits.test.max() == 1
    assert real_digits.test.dtype == np.uint8
    assert real_digits.train_labels[:5].tolist() == [5, 0, 4, 1, 9]
    counts = [980, 1135, 1032, 1010, 982, 892, 958, 1028, 974, 1009]
    assert np.bincount(real_digits.test_labels).tolist() == counts
    assert "60000 train, 10000 test" in real_digits.DESCR


@pytest.mark.parametrize(("size", "first", "all_images"), [(8, 1.63, 1.79), (12, 4.21, 4.62)])
def test_error_of_occluded_digits_without_restoration(real_digits, size, first, all_images, seed):
    V = real_digits.test
    windows = np.lib.stride_tricks.sliding_window_view
    for n, percent in ((2000, first), (10000, all_images)):
        share = V[:n].mean(axis=0).reshape(28, 28)
        expected = windows(share, (size, size)).sum(axis=(2, 3)).mean() / 784
        assert round(100 * expected, 2) == percent
    rates = (occlude(V, size=size, random_state=seed) != V).mean(axis=1)
    error = rates.std() / np.sqrt(len(rates))
    assert abs(rates.mean() - expected) < N_SIGMA * error < 0.1 * expected


def test_real_objects(real_objects):
    rows = {"train": 4100, "valid": 2264, "test": 2307}
    for split, n in rows.items():
        assert real_objects[split].shape == (n, 784)
        assert set(np.unique(real_objects[split])) == {0, 1}
        assert real_objects[split].dtype == np.uint8
        assert set(real_objects[f"{split}_labels"]) == set(range(1, 102))
        assert real_objects[f"{split}_labels"].shape == (n,)
    assert np.bincount(real_objects.train_labels).max() == 100
    assert real_objects.class_names[[0, 100]].tolist() == ["Airplanes Side 2", "yin yang"]


def test_real_objects_are_upright(real_objects, data_folder):
    folder = data_folder(OBJECTS)
    with np.load(folder / f"{OBJECTS}_28_split1.npz") as file:
        first = np.unpackbits(file["train_packed"][0], count=784)
    assert "reshape(28,28).T to view" in (folder / "README").read_text()
    np.testing.assert_array_equal(real_objects.train[0].reshape(28, 28), first.reshape(28, 28).T)
    names = real_objects.class_names.tolist()

    def shapes(name):
        chosen = real_objects.train_labels == 1 + names.index(name)
        return 1 - real_objects.train[chosen].reshape(-1, 28, 28)

    planes = shapes("Airplanes Side 2")  # wider than high
    assert planes.any(axis=1).sum() > 1.1 * planes.any(axis=2).sum()
    menorahs = shapes("menorah").mean(axis=0)  # arms above, left as right
    assert menorahs[:14].sum() > 1.5 * menorahs[14:].sum()
    assert 0.8 < menorahs[:, :14].sum() / menorahs[:, 14:].sum() < 1.25


# Image corruption --------------------------------------------------------------------------------


DTYPES = [bool, np.uint8, np.int64, np.float32, np.float64]


# flip_pixels ------------------------------------------------------------------------------


@pytest.mark.parametrize("rate", [0.1, 0.2, 0.7])
def test_flip_rate(rate, seed):
    V = (np.random.default_rng(seed).random((400, 50)) < 0.3).astype(np.uint8)
    flipped = flip_pixels(V, rate=rate, random_state=seed) != V
    for part in (flipped[V == 0], flipped[V == 1]):
        assert abs(part.mean() - rate) < N_SIGMA * np.sqrt(rate * (1 - rate) / part.size)
    both_flipped = flipped[:, 1:] & flipped[:, :-1]  # neighbours are independent
    error = np.sqrt(3 * rate**2 * (1 - rate**2) / both_flipped.size)
    assert abs(both_flipped.mean() - rate**2) < N_SIGMA * error


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("shape", [(7,), (3, 5), (2, 3, 4), (0, 4)])
def test_flip_rates_0_and_1(dtype, shape, seed):
    V = np.random.default_rng(seed).integers(0, 2, size=shape).astype(dtype)
    before = V.copy()
    unchanged, inverted = (flip_pixels(V, rate=rate, random_state=seed) for rate in (0, 1))
    assert unchanged.dtype == inverted.dtype == V.dtype
    np.testing.assert_array_equal(unchanged, V)
    np.testing.assert_array_equal(inverted, V == 0)
    assert not np.shares_memory(unchanged, V)
    flip_pixels(V, rate=0.5, random_state=seed)
    np.testing.assert_array_equal(V, before)


def test_corruption_is_reproducible(seed):
    V = np.ones((20, 100), dtype=np.uint8)
    for damage in (
        lambda state: flip_pixels(V, rate=0.5, random_state=state),
        lambda state: occlude(V, size=3, random_state=state),
    ):
        first = damage(seed)
        np.testing.assert_array_equal(damage(seed), first)
        np.testing.assert_array_equal(damage(np.random.RandomState(seed)), first)
        assert (damage(seed + 1) != first).any()
        before = np.random.get_state()[1].copy()  # noqa: NPY002
        assert (damage(None) != first).any()
        np.testing.assert_array_equal(np.random.get_state()[1], before)  # noqa: NPY002


@pytest.mark.parametrize(
    ("V", "rate", "message"),
    [
        ([0, 1, 2], 0.1, "V must contain only 0 and 1; found 2."),
        ([0.0, np.nan], 0.1, "V must contain only 0 and 1; found nan."),
        (["0"], 0.1, "V must contain booleans, integers or floats; got dtype <U1."),
        ([0, 1], 1.1, "rate must be a number >= 0 and <= 1; got 1.1."),
        ([0, 1], -0.1, "rate must be a number >= 0 and <= 1; got -0.1."),
        ([0, 1], None, "rate must be a finite number; got None."),
    ],
)
def test_flip_errors(V, rate, message):
    with pytest.raises(ValueError, match=f"^{re.escape(message)}$"):
        flip_pixels(V, rate=rate)


# occlude ----------------------------------------------------------------------------------


def corners_of(changed, size):
    """Return the upper left corners of the patches; assert that they have the given size."""
    down, across = changed.any(axis=2), changed.any(axis=1)
    assert (changed == down[:, :, None] & across[:, None, :]).all()
    corners = []
    for lines, length in ((down, size[0]), (across, size[1])):
        first = lines.argmax(axis=1)
        place = np.arange(lines.shape[1]) - first[:, None]
        assert (lines == ((place >= 0) & (place < length))).all()
        corners.append(first)
    return corners


@pytest.mark.parametrize(
    ("shape", "size"),
    [((6, 6), 3), ((6, 6), 1), ((5, 8), (2, 4)), ((5, 8), (5, 3)), ((4, 7), (1, 7))],
)
def test_patch_positions_are_uniform(shape, size, seed):
    V = np.ones((20_000, *shape), dtype=np.uint8)
    changed = occlude(V, size=size, random_state=seed) != V
    pair = (size, size) if isinstance(size, int) else size
    top, left = corners_of(changed, pair)
    places = shape[0] - pair[0] + 1, shape[1] - pair[1] + 1
    counts = np.bincount(np.ravel_multi_index((top, left), places), minlength=np.prod(places))
    assert chisquare(counts).pvalue > TAIL
    if len(counts) > 1:
        assert len(np.unique(np.diff(top * shape[1] + left))) > 1  # not the same for all images


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("order", ["C", "F"])
def test_rows_and_images_give_same_result(dtype, order, seed):
    V = np.random.default_rng(seed).integers(0, 2, size=(30, 5, 7)).astype(dtype, order=order)
    before = V.copy()
    stacked = occlude(V, size=(2, 3), value=1, random_state=seed)
    rows = np.asarray(V.reshape(30, 35), order=order)
    flat = occlude(rows, size=(2, 3), value=1, image_shape=(5, 7), random_state=seed)
    assert stacked.dtype == flat.dtype == V.dtype
    assert stacked.shape == V.shape
    np.testing.assert_array_equal(flat, stacked.reshape(30, 35))
    np.testing.assert_array_equal(V, before)
    again = occlude(V, size=(2, 3), value=1, image_shape=(5, 7), random_state=seed)
    np.testing.assert_array_equal(again, stacked)
    square = occlude(np.zeros((4, 49), dtype=dtype), size=7, value=1)
    np.testing.assert_array_equal(square, np.ones((4, 49)))


def test_patch_values():
    whole = {"size": 2}
    assert (occlude(np.zeros((3, 2, 2), dtype=np.int8), value=-1, **whole) == -1).all()
    assert np.isnan(occlude(np.zeros((3, 4), dtype=np.float32), value=np.nan, **whole)).all()
    assert (occlude(np.zeros((3, 4), dtype=np.float32), value=np.float64(0.1), **whole) > 0).all()
    assert occlude(np.zeros((3, 4), dtype=bool), value=True, **whole).all()
    assert occlude(np.zeros((0, 4)), **whole).shape == (0, 4)


OCCLUDE_ERRORS = [
    (
        {"V": np.zeros((2, 12))},
        "V has rows of 12 pixels, which is not a square number; give image_shape=(height, width).",
    ),
    (
        {"V": np.zeros(16)},
        "V must have shape (n, height * width) or (n, height, width); got an array of shape (16,).",
    ),
    ({"V": [["a"]]}, "V must contain booleans, integers or floats; got dtype <U1."),
    (
        {"image_shape": (4, 5)},
        "V must have shape (n, 20) or (n, 4, 5) for image_shape=(4, 5); got an array of shape "
        "(2, 16).",
    ),
    (
        {"V": np.zeros((2, 4, 5)), "image_shape": (5, 4)},
        "V must have shape (n, 20) or (n, 5, 4) for image_shape=(5, 4); got an array of shape "
        "(2, 4, 5).",
    ),
    ({"image_shape": 4}, "image_shape must be a pair (height, width) or None; got 4."),
    ({"image_shape": (4, 4.0)}, "image_shape[1] must be an integer; got 4.0."),
    ({"image_shape": (-4, -4)}, "image_shape[0] must be an integer >= 1; got -4."),
    ({"size": 5}, "The height of size must be an integer >= 1 and <= 4; got 5."),
    ({"size": (2, 0)}, "The width of size must be an integer >= 1 and <= 4; got 0."),
    ({"size": 2.0}, "The height of size must be an integer; got 2.0."),
    ({"size": (1, 2, 3)}, "size must be an integer or a pair (height, width); got (1, 2, 3)."),
    ({"size": None}, "size must be an integer or a pair (height, width); got None."),
    ({"value": "0"}, "value must be a number; got '0'."),
    ({"value": [0, 1]}, "value must be a number; got [0, 1]."),
    ({"value": -1}, "value must be a number that the dtype uint8 of V can represent; got -1."),
    ({"value": 0.5}, "value must be a number that the dtype uint8 of V can represent; got 0.5."),
    ({"value": np.nan}, "value must be a number that the dtype uint8 of V can represent; got nan."),
    (
        {"value": 10**30},
        f"value must be a number that the dtype uint8 of V can represent; got {10**30}.",
    ),
    (
        {"V": np.zeros((2, 16), dtype=bool), "value": 2},
        "value must be a number that the dtype bool of V can represent; got 2.",
    ),
]


@pytest.mark.parametrize(("options", "message"), OCCLUDE_ERRORS)
def test_occlude_errors(options, message):
    options = {"V": np.zeros((2, 16), dtype=np.uint8), "size": 2} | options
    with pytest.raises(ValueError, match=f"^{re.escape(message)}$"):
        occlude(options.pop("V"), **options)
