"""Tests of ``doc/check_api.py``, which finds public methods without an entry in the reference."""

import importlib
import sys
import zlib
from pathlib import Path

import pytest

DOC = Path(__file__).parents[2] / "doc"
pytestmark = pytest.mark.skipif(
    not DOC.is_dir(), reason="the documentation is not in this distribution"
)


@pytest.fixture
def check_api(monkeypatch):
    """Import the script as a module."""
    monkeypatch.syspath_prepend(DOC)
    yield importlib.import_module("check_api")
    sys.modules.pop("check_api", None)


def write_inventory(folder, names):
    """Write an inventory as Sphinx does."""
    lines = "".join(f"{name} py:method 1 api/page.html#$ -\n" for name in names)
    header = b"# Sphinx inventory version 2\n# Project: x\n# Version: 1\n# compressed by zlib\n"
    (folder / "objects.inv").write_bytes(header + zlib.compress(lines.encode()))


def all_names(check_api):
    """Return the names of all public classes, methods and properties."""
    names = []
    for place, kind in check_api.public_classes().items():
        names += [place, *(f"{place}.{name}" for name in check_api.public_members(kind))]
    return names


def test_inherited_methods_are_public_members(check_api):
    classes = check_api.public_classes()
    names = check_api.public_members(classes["skmrf.DiscreteMRF"])
    assert {"fit", "predict", "sample", "marginals", "score_samples", "score"} < set(names)
    assert {"get_params", "set_params", "set_callbacks", "get_metadata_routing"} < set(names)
    assert {"count", "index"}.isdisjoint(check_api.public_members(classes["skmrf.learners.Batch"]))


def test_missing_entries_are_found(check_api, tmp_path, capsys):
    names = all_names(check_api)
    write_inventory(tmp_path, names)
    assert check_api.missing_names(tmp_path) == []
    lost = ["skmrf.RBM.score", "skmrf.learners.PCD"]
    write_inventory(tmp_path, set(names) - set(lost))
    assert check_api.main(tmp_path) == len(lost)
    printed = capsys.readouterr().out
    assert all(f"{name} is not documented." in printed for name in lost)
