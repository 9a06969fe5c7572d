"""What importing the package costs, and where it can be done."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import skmrf

EVERYTHING = """
import pkgutil, importlib, sys
import skmrf
for module in pkgutil.walk_packages(skmrf.__path__, "skmrf."):
    importlib.import_module(module.name)
"""


def python(code, *options, folder=None, **environment):
    """What a fresh interpreter in a folder prints, on either stream."""
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


def test_every_public_name_is_there_and_warns_of_nothing():
    code = "import skmrf; print([getattr(skmrf, name).__name__ for name in skmrf.__all__[:-1]])"
    assert python(code, "-W", "error").strip() == str(skmrf.__all__[:-1])
    assert set(skmrf.__all__) <= set(dir(skmrf))
    with pytest.raises(AttributeError, match="'skmrf' has no attribute 'MRF'"):
        skmrf.MRF  # noqa: B018


def test_packages_need_no_import_of_their_own():
    packages = sorted(skmrf._PACKAGES)
    code = f"import skmrf; print([getattr(skmrf, package).__name__ for package in {packages}])"
    assert python(code).strip() == str([f"skmrf.{package}" for package in packages])


def test_importing_compiles_nothing():
    code = (
        EVERYTHING
        + """
import gc
from numba.core.dispatcher import Dispatcher
kernels = [x for x in gc.get_objects() if isinstance(x, Dispatcher)]
ours = [x for x in kernels if x.py_func.__module__.startswith("skmrf.")]
print(len(ours) > 50, [x.py_func.__name__ for x in ours if x.signatures])
"""
    )
    assert python(code).strip() == "True []"


def test_importing_leaves_optional_packages_alone():
    optional = ["matplotlib", "polars", "pgmpy", "arviz", "skops", "dask", "ray", "pooch"]
    code = EVERYTHING + f"print([name for name in {optional} if name in sys.modules])"
    assert python(code).strip() == "[]"


def test_nowhere_to_write(tmp_path, monkeypatch):
    """Root may write anywhere, but not into a file as if it were a folder."""
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
    said = python(code, "-W", "ignore", folder=tmp_path, **nowhere)
    assert said.splitlines()[-1] == f"{copy / '__init__.py'} [1.]"


@pytest.mark.slow
@pytest.mark.parametrize(("code", "times"), [("import skmrf", 0.5), ("from skmrf import *", 2)])
def test_import_time_beside_scikit_learn(tmp_path, code, times):
    """Each module's least of five, both from bytecode: pip writes it for scikit-learn alone.

    The package takes a fiftieth and all its estimators 1.3 to 1.5 times as long.
    """
    compiled = {"PYTHONPYCACHEPREFIX": str(tmp_path), "PYTHONDONTWRITEBYTECODE": ""}

    def microseconds(code):
        lines = python(code, "-X", "importtime", "-W", "error", **compiled).splitlines()[1:]
        rows = [line.removeprefix("import time:").split("|") for line in lines]
        return {name.strip(): int(itself) for itself, _, name in rows}

    def least(code):
        runs = [microseconds(code) for _ in range(6)][1:]
        return sum(min(run.get(name, np.inf) for run in runs) for name in runs[0])

    assert least(code) < times * least("import sklearn")
