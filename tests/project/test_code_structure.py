"""Tests of the structure of the code: public names, sizes, call stacks, reproducible numbers."""

import ast
import importlib
import os
import re
import statistics
import subprocess
import sys
from pathlib import Path

import fingerprint
import pytest

import skmrf
from skmrf.learners import accepted

ROOT = Path(__file__).parents[2]
SOURCES = sorted((ROOT / "skmrf").rglob("*.py"))
MOST_FILES = 8  # on the deepest stack of a fit
LOG_LINEAR_FILES = 10  # a structure learner's energy is made of tables, two files further down


def functions():
    """Return the number of lines of the body of every function, without its docstring."""
    found = {}
    for path in SOURCES:
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.FunctionDef):
                body = node.body[1:] if ast.get_docstring(node) else node.body
                size = body[-1].end_lineno - body[0].lineno + 1 if body else 0
                found[f"{path.relative_to(ROOT)}:{node.lineno} {node.name}"] = size
    return found


def test_public_names_are_few():
    packages = ["skmrf", *(f"skmrf.{name}" for name in sorted(skmrf._PACKAGES))]
    names = [
        f"{package}.{name}"
        for package in packages
        for name in getattr(importlib.import_module(package), "__all__", ())
    ]
    assert len(names) <= 120
    private = [name for name in names if name.rpartition(".")[2].startswith("_")]
    assert private == ["skmrf.__version__"]


def test_functions_and_modules_are_short():
    sizes = functions()
    assert statistics.median(sizes.values()) <= 6
    assert not {name: size for name, size in sizes.items() if size > 60}
    lines = {path.name: len(path.read_text(encoding="utf-8").splitlines()) for path in SOURCES}
    assert not {name: n for name, n in lines.items() if n > 500}
    tests = {p.name: len(p.read_text().splitlines()) for p in (ROOT / "tests").rglob("*.py")}
    assert not {name: n for name, n in tests.items() if n > 600}


def test_the_root_holds_two_modules():
    assert {path.name for path in (ROOT / "skmrf").glob("*.py")} == {"__init__.py", "_version.py"}


@pytest.mark.slow
def test_call_stacks_are_flat():
    done = subprocess.run(
        [sys.executable, str(ROOT / "tests" / "stack_depth.py")],
        capture_output=True,
        text=True,
        env={**os.environ, "NUMBA_DISABLE_JIT": "1"},
        check=True,
    )
    depths = dict(re.findall(r"^(\w[\w ]*): (\d+) files$", done.stdout, re.MULTILINE))
    assert len(depths) == 8
    for name, depth in depths.items():
        most = LOG_LINEAR_FILES if name == "MRFStructureLearner" else MOST_FILES
        assert int(depth) <= most, done.stdout


def test_fits_are_reproducible():
    """Two recordings are equal; a changed number is found."""
    first = fingerprint.record(("conditional",))
    assert not fingerprint.differences(first, fingerprint.record(("conditional",)))
    assert not [name for name, found in first.items() if "error" in found]
    name, quantities = next(iter(first.items()))
    changed = {k: [v[0] * (1 + 1e-10) + 1e-10, *v[1:]] for k, v in quantities.items()}
    assert fingerprint.differences(first, first | {name: changed})


@pytest.mark.parametrize(
    "name",
    ["BoltzmannMachine", "CRBMStructuredPredictor", "DiscreteMRF", "NNMRFDensity", "RBM"],
)
def test_documented_learners_are_those_that_fit(name):
    """The description of ``learner`` names every accepted learner, and no other one."""
    kind = getattr(skmrf, name)
    taken = accepted(kind._energy_type, kind._learner_kind)
    text = re.search(r"^    learner : .*?(?=^    \w+ : )", kind.__doc__, re.MULTILINE | re.DOTALL)
    named = set(re.findall(r'"([\w-]+)"', text[0]))
    assert named == set(taken)
