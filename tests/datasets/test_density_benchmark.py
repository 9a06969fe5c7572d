"""Tests of the density estimation benchmark."""

import os
import re
import urllib.request
from pathlib import Path

import numpy as np
import pytest

from skmrf.datasets import _files, density, fetch_density_benchmark

# Synthetic data set -----------------------------------------------------------------------

NAME = "nltcs"


def format_rows(part):
    return "".join(",".join(map(str, row)) + "\n" for row in part.tolist()).encode()


def pack(path, parts, **changes):
    packed = {f"{s}_packed": np.packbits(part, axis=1) for s, part in parts.items()}
    path.parent.mkdir(parents=True, exist_ok=True)
    np.savez_compressed(path, **({"n_vars": parts["train"].shape[1]} | packed | changes))


@pytest.fixture
def parts(monkeypatch):
    """Register a small data set under the name of a real one, and return its splits."""
    rng = np.random.default_rng(0)
    rows = {"train": 20, "valid": 5, "test": 7}
    parts = {s: rng.integers(0, 2, size=(n, 11), dtype=np.uint8) for s, n in rows.items()}
    info = {"n_features": 11, "rows": rows, "sha256": density.digest(parts)}
    data_sets = density.registry()["sets"]
    monkeypatch.setitem(data_sets, NAME, data_sets[NAME] | info)
    return parts


@pytest.fixture
def site(parts, tmp_path, monkeypatch):
    """Replace the public site by a local folder, and return the folder."""
    folder = tmp_path / "site"
    folder.mkdir()
    for split, part in parts.items():
        (folder / f"{NAME}.{split}.data").write_bytes(format_rows(part))
    monkeypatch.setitem(density.registry(), "url", folder.as_uri() + "/{name}.{split}.data")
    return folder


def assert_same(bunch, parts):
    for split, part in parts.items():
        np.testing.assert_array_equal(bunch[split], part)
        assert bunch[split].dtype == np.uint8
    assert bunch.n_features == 11
    assert bunch.name == NAME


@pytest.mark.parametrize("place", ["density20/nltcs.npz", "nltcs.npz"])
def test_fetch_offline(parts, tmp_path, place):
    pack(tmp_path / place, parts)
    bunch = fetch_density_benchmark(NAME, data_home=tmp_path, download_if_missing=False)
    assert_same(bunch, parts)
    assert "Licence: none is stated" in bunch.DESCR
    assert "UCLA-StarAI/Density-Estimation-Datasets" in bunch.DESCR


def test_fetch_uses_environment_variables(parts, tmp_path, monkeypatch):
    pack(tmp_path / "nltcs.npz", parts)
    monkeypatch.setenv("SKMRF_DATA", str(tmp_path))
    assert_same(fetch_density_benchmark(NAME), parts)
    monkeypatch.delenv("SKMRF_DATA")
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("USERPROFILE", str(tmp_path))
    assert _files.data_home_path() == tmp_path / "skmrf_data"


@pytest.mark.parametrize("ends", ["\n", "\r\n", "none at the end"])
def test_fetch_offline_from_text(parts, tmp_path, ends):
    for split, part in parts.items():
        text = format_rows(part)
        text = text[:-1] if ends.startswith("none") else text.replace(b"\n", ends.encode())
        (tmp_path / f"{NAME}.{split}.data").write_bytes(text)
    bunch = fetch_density_benchmark(NAME, data_home=tmp_path, download_if_missing=False)
    assert_same(bunch, parts)


def test_fetch_unknown_name():
    with pytest.raises(ValueError, match=r"^name must be one of \['nltcs', .*'bbc'\]; got 'adult'"):
        fetch_density_benchmark("adult")
    with pytest.raises(ValueError, match=r"^data_home must be a path or None; got 3\.$"):
        fetch_density_benchmark(NAME, data_home=3)


@pytest.mark.usefixtures("parts")
def test_fetch_missing_data_explains_manual_download(tmp_path):
    message = (
        f"Data set 'nltcs' is not in {tmp_path} and download_if_missing is False. To place the "
        "data by hand, put nltcs.npz, or the text files https://"
    )
    with pytest.raises(OSError, match=f"^{re.escape(message)}") as caught:
        fetch_density_benchmark(NAME, data_home=tmp_path, download_if_missing=False)
    assert str(tmp_path / "density20") in str(caught.value)
    assert "SKMRF_DATA" in str(caught.value)


def test_fetch_detects_one_wrong_bit(parts, tmp_path):
    wrong = {s: p.copy() for s, p in parts.items()}
    wrong["valid"][2, 3] ^= 1
    path = tmp_path / "nltcs.npz"
    pack(path, wrong)
    message = (
        f"{path} does not contain the rows of 'nltcs': their sha256 is {density.digest(wrong)}, "
        f"expected {density.digest(parts)}. Delete it and fetch the data set again, or replace it "
        f"with an intact copy."
    )
    with pytest.raises(ValueError, match=f"^{re.escape(message)}$"):
        fetch_density_benchmark(NAME, data_home=tmp_path)


def test_fetch_detects_wrong_shapes(parts, tmp_path):
    pack(tmp_path / "nltcs.npz", parts | {"test": parts["test"][:-1]})
    with pytest.raises(
        ValueError,
        match=r"test has shape \(6, 11\), but 'nltcs' has shape \(7, "
        r"11\)",
    ):
        fetch_density_benchmark(NAME, data_home=tmp_path)
    pack(tmp_path / "nltcs.npz", parts, n_vars=10**12)
    with pytest.raises(ValueError, match="n_vars is 1000000000000, expected 11"):
        fetch_density_benchmark(NAME, data_home=tmp_path)


@pytest.mark.parametrize("damage", ["empty", "garbage", "truncated", "flipped", "npy", "keys"])
def test_fetch_detects_damaged_archives(parts, tmp_path, damage):
    path = tmp_path / "nltcs.npz"
    pack(path, parts)
    whole = path.read_bytes()
    if damage == "npy":
        with open(path, "wb") as file:
            np.save(file, parts["train"])
    elif damage == "keys":
        np.savez(path, n_vars=11)
    else:
        middle = whole.index(b"train_packed.npy") + 60
        flipped = whole[:middle] + bytes([whole[middle] ^ 255]) + whole[middle + 1 :]
        content = {"empty": b"", "garbage": b"rows", "truncated": whole[:200], "flipped": flipped}
        path.write_bytes(content[damage])
    with pytest.raises(ValueError, match=f"^{re.escape(str(path))} is not a readable packed data"):
        fetch_density_benchmark(NAME, data_home=tmp_path)


@pytest.mark.parametrize(
    "text", [b"0,1,2\n", b"0 1 0 1 0 1 0 1 0 1 0\n" * 20, b"<html>not here</html>", b""]
)
def test_fetch_detects_malformed_text(parts, tmp_path, text):
    for split, part in parts.items():
        (tmp_path / f"{NAME}.{split}.data").write_bytes(format_rows(part))
    path = tmp_path / f"{NAME}.train.data"
    path.write_bytes(text)
    message = f"{path} is not a file of the data set 'nltcs': each row must have 11 comma-separated"
    with pytest.raises(ValueError, match=f"^{re.escape(message)}"):
        fetch_density_benchmark(NAME, data_home=tmp_path)


def test_download_saves_packed_copy(parts, site, tmp_path):
    home = tmp_path / "home"
    assert_same(fetch_density_benchmark(NAME, data_home=home), parts)
    assert [p.name for p in (home / "density20").iterdir()] == ["nltcs.npz"]
    for file in site.iterdir():
        file.unlink()
    assert_same(fetch_density_benchmark(NAME, data_home=home), parts)


def test_download_failure(site, tmp_path):
    (site / "nltcs.valid.data").unlink()
    home = tmp_path / "home"
    with pytest.raises(OSError, match=r"^Could not download file://.*valid\.data .* by hand"):
        fetch_density_benchmark(NAME, data_home=home)
    assert not home.exists()


def test_download_of_wrong_rows(parts, site, tmp_path):
    (site / "nltcs.test.data").write_bytes(format_rows(1 - parts["test"]))
    home = tmp_path / "home"
    with pytest.raises(ValueError, match=r"does not contain the rows of 'nltcs': .* by hand"):
        fetch_density_benchmark(NAME, data_home=home)
    assert not home.exists()


def test_download_size_is_limited(parts, site, tmp_path):
    (site / "nltcs.test.data").write_bytes(format_rows(parts["test"]) * 3)
    with pytest.raises(ValueError, match=r"has more than the expected 161 bytes\. To place"):
        fetch_density_benchmark(NAME, data_home=tmp_path / "home")


@pytest.mark.usefixtures("site")
def test_download_to_unwritable_folder(tmp_path):
    home = tmp_path / "home"
    home.write_text("a file, not a folder")
    with pytest.raises(OSError, match=r"^Downloaded 'nltcs' but could not save it as"):
        fetch_density_benchmark(NAME, data_home=home)


def test_failed_write_leaves_old_file(tmp_path):
    def fail(file):
        file.write(b"half")
        raise RuntimeError("stopped")

    path = tmp_path / "set.npz"
    path.write_bytes(b"old")
    with pytest.raises(RuntimeError, match="stopped"):
        _files.write_whole(path, fail)
    assert [p.name for p in tmp_path.iterdir()] == ["set.npz"]
    assert path.read_bytes() == b"old"


def test_download_uses_public_site_and_timeout(monkeypatch, tmp_path):
    requests = []

    def urlopen(url, timeout):
        requests.append((url, timeout))
        raise TimeoutError("timed out")

    monkeypatch.setattr(urllib.request, "urlopen", urlopen)
    with pytest.raises(OSError, match=r"^Could not download https://raw\..* \(timed out\)"):
        fetch_density_benchmark("dna", data_home=tmp_path)
    assert requests == [
        (
            "https://raw.githubusercontent.com/UCLA-StarAI/Density-Estimation-Datasets/"
            "37d53c1a8ba488d0a39e8c64bd3387577080b143/datasets/dna/dna.train.data",
            _files.TIMEOUT,
        )
    ]


# Real data sets ---------------------------------------------------------------------------

DEFAULT_DATA = Path(__file__).resolve().parents[3] / "shared" / "data"
DATA = Path(os.environ.get("SKMRF_TEST_DATA") or DEFAULT_DATA)
README = re.compile(
    r"(\w+)\.npz: train/valid/test (\d+)/(\d+)/(\d+) x (\d+) binary, density ([.\d]+)"
)
needs_data = pytest.mark.skipif(
    not (DATA / "density20").is_dir(), reason="no copy of the density sets; set SKMRF_TEST_DATA"
)


@needs_data
@pytest.mark.parametrize("name", list(density.registry()["sets"]))
def test_fetch_real_data_sets(name):
    rows = {m[1]: m for m in README.finditer((DATA / "density20" / "README").read_text())}[name]
    bunch = fetch_density_benchmark(name, data_home=DATA, download_if_missing=False)
    shapes = [bunch[s].shape for s in density.SPLITS]
    assert shapes == [(int(rows[k]), int(rows[5])) for k in (2, 3, 4)]
    assert bunch.n_features == int(rows[5])
    ones, size = (sum(f(bunch[s]) for s in density.SPLITS) for f in (np.sum, np.size))
    assert max(bunch[s].max() for s in density.SPLITS) == 1
    assert abs(ones / size - float(rows[6])) < 0.01
    documented = " ".join(str(s) for s in [name, bunch.n_features, *(x[0] for x in shapes)])
    assert documented in " ".join(fetch_density_benchmark.__doc__.split())


@needs_data
def test_download_of_real_data_set(tmp_path, monkeypatch):
    bunch = fetch_density_benchmark("dna", data_home=DATA, download_if_missing=False)
    for split in density.SPLITS:
        (tmp_path / f"dna.{split}.data").write_bytes(format_rows(bunch[split]))
    url = tmp_path.as_uri() + "/{name}.{split}.data"
    monkeypatch.setitem(density.registry(), "url", url)
    fetched = fetch_density_benchmark("dna", data_home=tmp_path / "home")
    np.testing.assert_array_equal(fetched.test, bunch.test)
