"""Tests of all public docstrings with numpydoc's validation, and checks that it lacks."""

import inspect
import re

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


@pytest.mark.parametrize("place", PUBLIC)
def test_numpydoc_validation(place):
    errors = [error for error in validate(place)["errors"] if error[0] not in IGNORED]
    assert not errors


@pytest.mark.parametrize("place", PUBLIC)
def test_descriptions_say_something(place):
    assert not poor_descriptions(PUBLIC[place].__doc__)


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
