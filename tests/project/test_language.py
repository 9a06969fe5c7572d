"""Tests of the language: docstrings of public names, and standard terms everywhere."""

import ast
import inspect
import re
from pathlib import Path

import pytest
from test_documentation import FUNCTIONS, METHODS

docscrape = pytest.importorskip("numpydoc.docscrape")
validate = pytest.importorskip("numpydoc.validate").validate
IGNORED = {
    "ES01": "a summary is often enough",
    "EX01": "examples are on the pages of the documentation and in the gallery",
    "GL08": "methods may inherit their docstring; ruff requires one where there is none",
    "PR01": "attributes of a NamedTuple are its parameters; see test_documentation.py",
    "RT01": "see test_documentation.py, which reads the code",
    "SA01": "most names have no near relative",
    "SS05": "ruff checks the imperative mood with fewer false positives",
}
SECTIONS = "Parameters", "Attributes", "Returns", "Yields"
EMPTY = re.compile(r"(Likewise|See [^.]*|As above|The same)?\.?")
PUBLIC = FUNCTIONS | METHODS


def poor_descriptions(text):
    """Return the entries of a numpydoc docstring whose description is missing or says nothing."""
    found = docscrape.NumpyDocString(inspect.cleandoc(text or ""))
    return [
        f"{section}: {entry.name or entry.type}"
        for section in SECTIONS
        for entry in found[section]
        if EMPTY.fullmatch(" ".join(entry.desc).strip())
    ]


def test_numpydoc_validation():
    found = {place: validate(place)["errors"] for place in PUBLIC}
    assert not {
        place: kept
        for place, errors in found.items()
        if (kept := [error for error in errors if error[0] not in IGNORED])
    }


def test_descriptions_say_something():
    found = {place: poor_descriptions(PUBLIC[place].__doc__) for place in PUBLIC}
    assert not {place: entries for place, entries in found.items() if entries}


def test_poor_descriptions_are_found():
    text = """
    Return something.

    Parameters
    ----------
    a : int
        Number of chains.
    b : int
        Likewise.
    c, d : int
    e : int
        See `a`.
    f : int
        See `a`. The default is 3.

    Returns
    -------
    float
    """
    found = poor_descriptions(text)
    assert found == ["Parameters: b", "Parameters: c, d", "Parameters: e", "Returns: float"]


# Standard terms ----------------------------------------------------------------------------------


ROOT = Path(__file__).parents[2]
STANDARD = re.compile(r"(duality|spectral|generali[sz]ation)[\s-]gap", re.IGNORECASE)
ALIGNMENT = re.compile(r"\bgaps?\b")  # the standard term for a missing residue in an alignment
# What not to write, and the standard term.
TERMS = {
    r"\bgaps?\b": "missing value",
    r"what is (not there|missing)": "missing values",
    r"what else\b": "samples, synthetic rows",
    r"unlike (all|any) other": "outlier",
    r"what .{1,40} (is|are) worth|how far to trust": "uncertainty, interval",
    r"what the (data|model|rows|training rows) says?\b": "expectation under the data or the model",
    r"numbers as they are|beside categories": "continuous columns, categorical columns",
    r"(is|are|was|were|be|been) (asked|told)\b": "name what is called or passed",
    r"\brooms?\b|\bthe house\b(?! (of|votes))": "module, package",
    r"by what rows": "decision rule",
    r"numbers of the first": "first index, inverse index",
    r"what learning starts from": "initial values",
    r"\b(go|goes|going|gone|went) on\b": "refit, resume, continue training",
    r"\b(got|get|gets) there\b|(come|comes|came) to rest": "converged",
    r"edges leave|pairs enter": "backward elimination, forward selection",
    r"\bsettles?\b|\bsettled\b|memory of (the )?chains": "mixing, burn-in, autocorrelation time",
    r"\blikewise\b": "the description itself",
}


def docstrings(path):
    """Return the docstrings of a Python file with the lines at which they start."""
    documented = ast.Module, ast.ClassDef, ast.FunctionDef
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, documented) and ast.get_docstring(node):
            yield node.body[0].lineno, ast.get_docstring(node, clean=False)


def texts(folder):
    """Return what a user reads: pages, examples and docstrings, by file and line."""
    patterns = {"examples": "**/*.py", "skmrf": "**/*.py"}
    paths = (ROOT / folder).glob(patterns.get(folder, "*.md"))
    if folder != "skmrf":
        for path in paths:
            yield path, 1, path.read_text(encoding="utf-8")
        return
    for path in paths:
        for line, text in docstrings(path):
            yield path, line, ALIGNMENT.sub("", text) if path.name == "alignments.py" else text


def wrong_terms(text):
    """Return the line, the words and the standard term of every term not to use."""
    text = STANDARD.sub(lambda found: "-" * len(found[0]), text)
    return [
        (text.count("\n", 0, found.start()), " ".join(found[0].split()), term)
        for pattern, term in TERMS.items()
        for found in re.finditer(pattern.replace(" ", r"\s+"), text, flags=re.IGNORECASE)
    ]


@pytest.mark.parametrize("folder", [".", "doc", "doc/papers", "examples", "skmrf"])
def test_terms(folder):
    found = [
        f"{path.relative_to(ROOT)}:{line + below}: {words!r}; write: {term}"
        for path, line, text in texts(folder)
        for below, words, term in wrong_terms(text)
    ]
    assert not found, "\n" + "\n".join(found)


def test_wrong_terms_are_found():
    assert not wrong_terms("The duality gap is below 1e-6. Missing values are imputed. On we go.")
    found = wrong_terms("Rows with gaps,\nand what a density\nis worth.")
    assert [(line, words) for line, words, _ in found] == [
        (0, "gaps"),
        (1, "what a density is worth"),
    ]
