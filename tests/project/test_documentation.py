"""Docstrings say what a reader of the reference needs; links of built pages are checked rightly."""

import ast
import importlib
import inspect
import re
import sys
import textwrap
from pathlib import Path

import pytest
from learner_names import CONDITIONAL_LEARNERS, CONTINUOUS_LEARNERS, TABLE_LEARNERS

import skmrf

DOC = Path(__file__).parents[2] / "doc"
ROOMS = sorted(skmrf._PACKAGES)
ESTIMATORS = {getattr(skmrf, name) for name in skmrf.__all__ if not name.startswith("_")}
LISTS = TABLE_LEARNERS, CONDITIONAL_LEARNERS, CONTINUOUS_LEARNERS
SOURCED = ESTIMATORS | {kind for known in LISTS for kind in known.values()}


def public():
    """Everything that an ``__all__`` names and that has a docstring of its own."""
    found = {}
    for module in (skmrf, *(importlib.import_module(f"skmrf.{room}") for room in ROOMS)):
        for name in module.__all__:
            thing = getattr(module, name)
            if inspect.isclass(thing) or inspect.isfunction(thing):
                found[f"{thing.__module__}.{thing.__qualname__}"] = thing
    return found


def methods():
    """Methods of estimators, and of other classes those that describe their parameters."""
    found = {}
    for place, kind in public().items():
        for name, member in own(kind) if inspect.isclass(kind) else ():
            function = inspect.unwrap(getattr(member, "__func__", member))
            if name.startswith("_") or not inspect.isfunction(function):
                continue
            if kind in ESTIMATORS or "Parameters" in sections(function.__doc__):
                found[f"{place}.{name}"] = function
    return found


def own(kind):
    """Members of a class, and those that it has from other classes of this package."""
    for base in kind.__mro__:
        if base.__module__.startswith("skmrf"):
            yield from vars(base).items()


def sections(text):
    """Titles of a numpydoc docstring and what stands below them; the summary under None."""
    parts = re.split(r"^(\w[\w ]+)\n-{3,}\n", inspect.cleandoc(text or ""), flags=re.MULTILINE)
    return {None: parts[0].strip()} | dict(zip(parts[1::2], parts[2::2], strict=True))


def described(section):
    """Names that a section of parameters describes."""
    heads = re.findall(r"^(\*{0,2}\w[^:\n]*?)(?: :.*)?$", section, flags=re.MULTILINE)
    return {name.strip().lstrip("*") for head in heads for name in head.split(",")}


def parameters(function):
    """Names of the parameters of a function or class."""
    try:
        known = inspect.signature(function).parameters
    except ValueError:
        return set()
    return set(known) - {"self", "cls"}


def returns_something(function):
    """Whether a function has a ``return`` with a value, or yields."""
    tree = ast.parse(textwrap.dedent(inspect.getsource(function))).body[0]
    inner = (ast.FunctionDef, ast.Lambda, ast.ClassDef)
    todo, found = list(tree.body), False
    while todo:
        node = todo.pop()
        if isinstance(node, inner):
            continue
        found |= isinstance(node, ast.Return) and node.value is not None
        found |= isinstance(node, ast.Yield | ast.YieldFrom)
        todo += ast.iter_child_nodes(node)
    return found


def complaints(thing):
    """What the docstring of a function or class lacks."""
    found = sections(thing.__doc__)
    if not found[None].split("\n\n")[0].endswith((".", ":")):
        yield "a summary that is a sentence"
    said = described(found.get("Parameters", "")) | described(found.get("Attributes", ""))
    missing = parameters(thing) - said
    if missing:
        yield f"the parameters {sorted(missing)}"
    returns = inspect.isfunction(thing) and returns_something(thing)
    if returns and not {"Returns", "Yields"} & found.keys():
        yield "what it returns"


FUNCTIONS, METHODS = public(), methods()


@pytest.mark.parametrize("place", FUNCTIONS)
def test_public_names(place):
    assert not list(complaints(FUNCTIONS[place]))


@pytest.mark.parametrize("place", METHODS)
def test_public_methods(place):
    assert not list(complaints(METHODS[place]))


@pytest.mark.parametrize("kind", sorted(SOURCED, key=lambda kind: kind.__name__))
def test_sources_of_estimators_and_learners(kind):
    years = re.findall(r"\b(19|20)\d\d\b", sections(kind.__doc__).get("References", ""))
    assert years


def test_the_checks_find_what_is_missing():
    """The negative control."""

    def good(a, *b):
        """A sum.

        Parameters
        ----------
        a, *b : float

        Returns
        -------
        float
        """
        return a + sum(b)

    def bad(a, b=1):
        """A sum

        Parameters
        ----------
        a : float
            And :math:`b`.
        """
        return a + b

    def nothing(a):
        """Prints.

        Parameters
        ----------
        a
        """

        def inner():
            return a

        print(inner())

    assert not list(complaints(good))
    assert not list(complaints(nothing))
    assert list(complaints(bad)) == [
        "a summary that is a sentence",
        "the parameters ['b']",
        "what it returns",
    ]


# Links ---------------------------------------------------------------------------------------


@pytest.mark.skipif(not DOC.is_dir(), reason="the documentation is not in this distribution")
def test_links_that_do_not_resolve(monkeypatch, tmp_path, capsys):
    monkeypatch.syspath_prepend(DOC)
    check_links = importlib.import_module("check_links")
    monkeypatch.delitem(sys.modules, "check_links")
    (tmp_path / "sub").mkdir()
    (tmp_path / "a.png").write_bytes(b"")
    (tmp_path / "sub" / "index.html").write_text('<h1 id="here">x</h1><a href="../one.html#a b">')
    page = (
        '<a href="sub/"></a><a href="sub/#here"></a><a href="#mine"></a><i id="mine"></i>'
        '<a href="https://absent.invalid/x"></a><a href="mailto:x@y"></a><img src="a.png">\n'
        '<a href="gone.html"></a><a href="sub/index.html#there"></a><img src="b.png">'
        '<img srcset="a.png 1x, c.png 2x"><a href="#yours"></a>'
    )
    (tmp_path / "one.html").write_text(page + '<p id="a b">')
    wrong = ["gone.html", "sub/index.html#there", "b.png", "c.png", "#yours"]
    assert check_links.broken(tmp_path) == [("one.html:2", link) for link in wrong]
    assert check_links.main(tmp_path) == len(wrong)
    assert "one.html:2: gone.html" in capsys.readouterr().out
    with pytest.raises(FileNotFoundError, match="no HTML pages"):
        check_links.broken(tmp_path / "empty")
