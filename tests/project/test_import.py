"""Tests of importing the package: cost, optional packages and read-only folders."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import skmrf

IMPORT_ALL = """
import pkgutil, importlib, sys
import skmrf
for module in pkgutil.walk_packages(skmrf.__path__, "skmrf."):
    importlib.import_module(module.name)
"""


def run_python(code, *options, folder=None, **environment):
    """Run code in a new interpreter, and return its output and error streams."""
    done = subprocess.run(
        [sys.executable, *options, "-c", code],
        capture_output=True,
        text=True,
        cwd=folder,
        env=os.environ | environment,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout + done.stderr


def test_attributes_of_the_package():
    assert set(skmrf.__all__) <= set(dir(skmrf))
    with pytest.raises(AttributeError, match="'skmrf' has no attribute 'MRF'"):
        skmrf.MRF  # noqa: B018


def test_imports():
    """Importing warns of nothing, compiles nothing, and imports no optional packages."""
    optional = ["matplotlib", "polars", "pgmpy", "arviz", "skops", "dask", "ray", "pooch"]
    packages = sorted(skmrf._PACKAGES)
    code = (
        f"""
import skmrf
print([getattr(skmrf, package).__name__ for package in {packages}])
print([getattr(skmrf, name).__name__ for name in skmrf.__all__[:-1]])
"""
        + IMPORT_ALL
        + """
import gc
from numba.core.dispatcher import Dispatcher
kernels = [x for x in gc.get_objects() if isinstance(x, Dispatcher)]
ours = [x for x in kernels if x.py_func.__module__.startswith("skmrf.")]
print(len(ours) > 50, [x.py_func.__name__ for x in ours if x.signatures])
"""
        + f"print([name for name in {optional} if name in sys.modules])"
    )
    names = [f"skmrf.{package}" for package in packages], skmrf.__all__[:-1]
    assert run_python(code, "-W", "error").splitlines() == [*map(str, names), "True []", "[]"]


def test_read_only_folders(tmp_path, monkeypatch):
    """The package works in read-only folders.

    Files take the place of the cache folders, because the root user can write to any folder.
    """
    copy = tmp_path / "skmrf"
    shutil.copytree(Path(skmrf.__file__).parent, copy, ignore=shutil.ignore_patterns("__pycache__"))
    for folder in [copy, *(p for p in copy.rglob("*") if p.is_dir())]:
        (folder / "__pycache__").touch()
    code = """
import skmrf
graph = skmrf.energies.FactorGraph([2], [(0,)], [[0.0, 1.0]])
print(skmrf.__file__, graph.log_potential([[1]]))
"""
    nowhere = {"HOME": os.devnull, "XDG_CACHE_HOME": os.devnull}
    monkeypatch.delenv("NUMBA_CACHE_DIR", raising=False)
    output = run_python(code, "-W", "ignore", folder=tmp_path, **nowhere)
    assert f"{copy / '__init__.py'} [1.]" in output.splitlines()


@pytest.mark.slow
@pytest.mark.parametrize(("code", "times"), [("import skmrf", 0.5), ("from skmrf import *", 2)])
def test_import_time_relative_to_scikit_learn(tmp_path, code, times):
    """Compare import times of the package and of scikit-learn.

    The time of each module is the minimum of five runs, with compiled bytecode for both packages.
    The package takes a fiftieth of the time of scikit-learn, and all estimators 1.3 to 1.5 times
    that time.
    """
    compiled = {"PYTHONPYCACHEPREFIX": str(tmp_path), "PYTHONDONTWRITEBYTECODE": ""}

    def measure_microseconds(code):
        lines = run_python(code, "-X", "importtime", "-W", "error", **compiled).splitlines()[1:]
        rows = [line.removeprefix("import time:").split("|") for line in lines]
        return {name.strip(): int(itself) for itself, _, name in rows}

    def measure_minimum(code):
        runs = [measure_microseconds(code) for _ in range(6)][1:]
        return sum(min(run.get(name, np.inf) for run in runs) for name in runs[0])

    assert measure_minimum(code) < times * measure_minimum("import sklearn")
