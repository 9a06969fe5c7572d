"""Tests of the code structure: public names, sizes, call stacks, reproducibility and imports."""

import ast
import importlib
import os
import re
import shutil
import statistics
import subprocess
import sys
from collections import Counter
from pathlib import Path

import fingerprint
import numpy as np
import pytest
import stack_depth
from numba import config

import skmrf
from skmrf.learners.registry import accepted

ROOT = Path(__file__).parents[2]
MOST_FILES = 8  # on the call stack of a fit
SOURCES = sorted((ROOT / "skmrf").rglob("*.py"))


def count_function_lines():
    """Return the number of lines of the body of each function, without its docstring."""
    sizes = {}
    for path in SOURCES:
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.FunctionDef):
                body = node.body[1:] if ast.get_docstring(node) else node.body
                size = body[-1].end_lineno - body[0].lineno + 1 if body else 0
                sizes[f"{path.relative_to(ROOT)}:{node.lineno} {node.name}"] = size
    return sizes


def test_number_of_public_names():
    packages = ["skmrf", *(f"skmrf.{name}" for name in sorted(skmrf._PACKAGES))]
    names = [
        f"{package}.{name}"
        for package in packages
        for name in getattr(importlib.import_module(package), "__all__", ())
    ]
    assert len(names) <= 120
    assert not [name for name in names if name.rpartition(".")[2].startswith("_")]


def test_functions_and_modules_are_short():
    sizes = count_function_lines()
    assert statistics.median(sizes.values()) <= 6
    assert not {name: size for name, size in sizes.items() if size > 60}
    assert not find_long_files(SOURCES, 500)
    assert not find_long_files((ROOT / "tests").rglob("*.py"), 600)


def find_long_files(paths, most):
    """Return the number of lines of each file that has more than ``most`` lines."""
    lines = {str(path): len(path.read_text(encoding="utf-8").splitlines()) for path in paths}
    return {name: n for name, n in lines.items() if n > most}


def test_root_has_two_modules():
    assert {path.name for path in (ROOT / "skmrf").glob("*.py")} == {"__init__.py", "_version.py"}


def roots_of(node):
    """Return the names of the variables whose memory an expression of arrays refers to."""
    if isinstance(node, ast.Tuple):
        return set().union(*map(roots_of, node.elts))
    while isinstance(node, ast.Subscript | ast.Attribute):
        node = node.value
    return {node.id}


def borrowed_arrays(node):
    """Return the names of the variables in the calls of ``borrowed`` in a part of a function."""
    calls = [call for call in ast.walk(node) if isinstance(call, ast.Call)]
    names = [roots_of(call.args[0]) for call in calls if ast.unparse(call.func) == "borrowed"]
    return set().union(*names)


def names_of_views(target, value):
    """Return the names that an assignment sets to a result of ``borrowed``."""
    if isinstance(target, ast.Tuple) and isinstance(value, ast.Tuple):
        pairs = zip(target.elts, value.elts, strict=True)
        return [name for pair in pairs for name in names_of_views(*pair)]
    if isinstance(value, ast.Call) and ast.unparse(value.func) == "borrowed":
        return [node.id for node in ast.walk(target) if isinstance(node, ast.Name)]
    return []


def replaced_names(function):
    """Return the names that a function sets to something else than a result of ``borrowed``."""
    steps = list(ast.walk(function))
    names = [node for node in steps if isinstance(node, ast.Name)]
    stores = Counter(node.id for node in names if isinstance(node.ctx, ast.Store))
    for step in steps:
        for target in step.targets if isinstance(step, ast.Assign) else ():
            stores.subtract(names_of_views(target, step.value))
    return {name for name, count in stores.items() if count > 0}


@pytest.mark.parametrize(
    "step",
    [
        "x = np.empty(9)",
        "x, z = np.empty(9), borrowed(y)",
        "x: object = np.empty(9)",
        "for x in z: pass",
    ],
)
def test_replaced_names(step):
    function = ast.parse(f"def f(x, y, z):\n {step}\n x = borrowed(x)").body[0]
    assert replaced_names(function) == {"x"}


def test_borrowed_arrays_are_arguments():
    """A caller keeps the arguments of a compiled function, but a local array may be freed."""
    found = []
    for path in (ROOT / "skmrf" / "_kernels").glob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if not isinstance(node, ast.FunctionDef) or not borrowed_arrays(node):
                continue
            given = {argument.arg for argument in node.args.args}
            assert "inlined" not in map(ast.unparse, node.decorator_list), node.name
            assert borrowed_arrays(node) <= given - replaced_names(node), node.name
            found.append(node.name)
    assert len(found) > 10


USE_LOCAL_ARRAYS = """
import numpy as np
from skmrf._kernels.networks import network_gradients, network_values
from skmrf.energies import FactorGraph, PairwiseEnergy
from skmrf.inference import marginals, sample
n_points, widths, rng = 700, np.array([60, 50]), np.random.default_rng(0)
theta = rng.normal(size=(2, 60 * 2 + 60 + 60 * 50 + 50 + 50 + 2))
data = 1, rng.normal(size=(3, n_points)), np.zeros(3, bool), np.array([[0, 1], [2, 1]])
network_values(theta, widths, *data, np.empty((2, n_points)))
network_gradients(theta, widths, *data, np.ones((1, n_points)), np.zeros_like(theta))
pairs = [(i, i + 1) for i in range(799)] + [(0, 799)]
graph = FactorGraph([2] * 800, pairs, rng.normal(size=(800, 2, 2)))
for schedule in "residual", "flooding":
    marginals(graph, method="bp", schedule=schedule, max_iter=3)
coupling = np.triu(rng.normal(size=(300, 300)), 1)
sample(PairwiseEnergy(coupling + coupling.T, np.zeros(300)), 50, method="gibbs", n_sweeps=2)
"""


@pytest.mark.long
def test_freed_memory_is_not_used():
    """Kernels run if glibc returns the memory of freed arrays to the system at once."""
    run_python(USE_LOCAL_ARRAYS, "-W", "ignore")  # compiles, which would be slow below
    run_python(USE_LOCAL_ARRAYS, "-W", "ignore", MALLOC_MMAP_THRESHOLD_="2048")


@pytest.mark.skipif(
    not config.DISABLE_JIT, reason="kernels are on the stack only with NUMBA_DISABLE_JIT=1"
)
@pytest.mark.parametrize("name", stack_depth.fits())
def test_a_fit_passes_few_files_in_one_direction(name):
    found = stack_depth.measure(stack_depth.fits()[name])
    assert len(set(found.deepest)) <= MOST_FILES + (name in stack_depth.NESTED), found.deepest
    assert not found.returns


def test_fits_are_reproducible():
    """Two recordings are equal, and a changed number is detected."""
    first = fingerprint.record(("conditional",))
    assert not fingerprint.differences(first, fingerprint.record(("conditional",)))
    assert not [name for name, quantities in first.items() if "error" in quantities]
    name, quantities = next(iter(first.items()))
    changed = {k: [v[0] * (1 + 1e-10) + 1e-10, *v[1:]] for k, v in quantities.items()}
    assert fingerprint.differences(first, first | {name: changed})


@pytest.mark.parametrize(
    "name",
    [
        "BoltzmannMachine",
        "CRBMStructuredPredictor",
        "CRF",
        "DiscreteMRF",
        "NetworkPotentials",
        "RBM",
    ],
)
def test_documented_learners_match_accepted_learners(name):
    """The description of ``learner`` lists exactly the accepted learners."""
    kind = getattr(skmrf, name)
    learners = accepted(kind._energy_type, kind._learner_kind)
    text = re.search(r"^    learner : .*?(?=^    \w+ : )", kind.__doc__, re.MULTILINE | re.DOTALL)
    documented = set(re.findall(r'"([\w-]+)"', text[0]))
    assert documented - {"auto"} == set(learners)


IMPORT_ALL = """
import pkgutil, importlib, sys
import skmrf
for module in pkgutil.walk_packages(skmrf.__path__, "skmrf."):
    if not module.name.startswith("skmrf._jax."):  # needs JAX, which is optional
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


@pytest.mark.long
def test_imports():
    """Importing warns of nothing, compiles nothing, and imports no optional packages."""
    optional = ["matplotlib", "polars", "pgmpy", "arviz", "skops", "dask", "ray", "pooch", "jax"]
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


@pytest.mark.long
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
