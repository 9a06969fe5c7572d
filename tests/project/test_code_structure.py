"""Tests of the code structure: public names, sizes, call stacks and reproducible results."""

import ast
import importlib
import re
import statistics
from pathlib import Path

import fingerprint
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
    private = [name for name in names if name.rpartition(".")[2].startswith("_")]
    assert private == ["skmrf.__version__"]


def test_functions_and_modules_are_short():
    sizes = count_function_lines()
    assert statistics.median(sizes.values()) <= 6
    assert not {name: size for name, size in sizes.items() if size > 60}
    lines = {path.name: len(path.read_text(encoding="utf-8").splitlines()) for path in SOURCES}
    assert not {name: n for name, n in lines.items() if n > 500}
    tests = {p.name: len(p.read_text().splitlines()) for p in (ROOT / "tests").rglob("*.py")}
    assert not {name: n for name, n in tests.items() if n > 600}


def test_root_has_two_modules():
    assert {path.name for path in (ROOT / "skmrf").glob("*.py")} == {"__init__.py", "_version.py"}


@pytest.mark.skipif(
    not config.DISABLE_JIT, reason="kernels are on the stack only with NUMBA_DISABLE_JIT=1"
)
@pytest.mark.parametrize("name", stack_depth.fits())
def test_a_fit_passes_few_files_in_one_direction(name):
    found = stack_depth.measure(stack_depth.fits()[name])
    assert len(set(found.deepest)) <= MOST_FILES, found.deepest
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
    ["BoltzmannMachine", "CRBMStructuredPredictor", "DiscreteMRF", "NNMRFDensity", "RBM"],
)
def test_documented_learners_match_accepted_learners(name):
    """The description of ``learner`` lists exactly the accepted learners."""
    kind = getattr(skmrf, name)
    learners = accepted(kind._energy_type, kind._learner_kind)
    text = re.search(r"^    learner : .*?(?=^    \w+ : )", kind.__doc__, re.MULTILINE | re.DOTALL)
    documented = set(re.findall(r'"([\w-]+)"', text[0]))
    assert documented - {"auto"} == set(learners)
