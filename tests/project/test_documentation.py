"""Tests of the documentation: docstrings, README, pages, examples, tables and reference."""

import ast
import contextlib
import importlib
import inspect
import io
import os
import re
import shutil
import subprocess
import sys
import textwrap
import zlib
from pathlib import Path

import numpy as np
import pytest
from zoo import CONDITIONAL_LEARNERS, CONTINUOUS_LEARNERS, GRAPH_LEARNERS, TABLE_LEARNERS

import skmrf
from skmrf.learners.registry import LEARNERS

ROOT = Path(__file__).parents[2]
DOC = ROOT / "doc"
PACKAGES = sorted(skmrf._PACKAGES)
ESTIMATORS = {getattr(skmrf, name) for name in skmrf.__all__ if not name.startswith("_")}
LISTS = TABLE_LEARNERS, CONDITIONAL_LEARNERS, CONTINUOUS_LEARNERS, GRAPH_LEARNERS
WITH_REFERENCES = ESTIMATORS | {kind for learners in LISTS for kind in learners.values()}


def list_public_objects():
    """Return the public classes and functions, keyed by their full names."""
    found = {}
    for module in (skmrf, *(importlib.import_module(f"skmrf.{package}") for package in PACKAGES)):
        for name in getattr(module, "__all__", ()):
            thing = getattr(module, name)
            if inspect.isclass(thing) or inspect.isfunction(thing):
                found[f"{thing.__module__}.{thing.__qualname__}"] = thing
    return found


def list_public_methods():
    """Return the methods of estimators, and other methods that describe their parameters."""
    found = {}
    for place, kind in list_public_objects().items():
        for name, member in iterate_members(kind) if inspect.isclass(kind) else ():
            function = inspect.unwrap(getattr(member, "__func__", member))
            if name.startswith("_") or not inspect.isfunction(function):
                continue
            if kind in ESTIMATORS or "Parameters" in split_sections(function.__doc__):
                found[f"{place}.{name}"] = function
    return found


def iterate_members(kind):
    """Yield the members of a class and of its base classes in this package."""
    for base in kind.__mro__:
        if base.__module__.startswith("skmrf"):
            yield from vars(base).items()


def split_sections(text):
    """Return the sections of a numpydoc docstring by title; the summary has the key None."""
    parts = re.split(r"^(\w[\w ]+)\n-{3,}\n", inspect.cleandoc(text or ""), flags=re.MULTILINE)
    return {None: parts[0].strip()} | dict(zip(parts[1::2], parts[2::2], strict=True))


def find_described_names(section):
    """Return the names that a section of parameters describes."""
    heads = re.findall(r"^(\*{0,2}\w[^:\n]*?)(?: :.*)?$", section, flags=re.MULTILINE)
    return {name.strip().lstrip("*") for head in heads for name in head.split(",")}


def list_parameters(function):
    """Return the names of the parameters of a function or class."""
    try:
        names = inspect.signature(function).parameters
    except ValueError:
        return set()
    return set(names) - {"self", "cls"}


def returns_something(function):
    """Return whether a function has a ``return`` with a value, or yields."""
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


def find_problems(thing):
    """Yield what the docstring of a function or class lacks."""
    sections = split_sections(thing.__doc__)
    if not sections[None].split("\n\n")[0].endswith((".", ":")):
        yield "a summary that is a sentence"
    described = find_described_names(sections.get("Parameters", ""))
    described |= find_described_names(sections.get("Attributes", ""))
    missing = list_parameters(thing) - described
    if missing:
        yield f"the parameters {sorted(missing)}"
    returns = inspect.isfunction(thing) and returns_something(thing)
    if returns and not {"Returns", "Yields"} & sections.keys():
        yield "the return value"


FUNCTIONS, METHODS = list_public_objects(), list_public_methods()


@pytest.mark.parametrize("objects", [FUNCTIONS, METHODS], ids=["objects", "methods"])
def test_docstrings_of_public_objects(objects):
    found = {place: list(find_problems(item)) for place, item in objects.items()}
    assert not {place: problems for place, problems in found.items() if problems}


def test_estimators_and_learners_have_references():
    year = re.compile(r"\b(19|20)\d\d\b")
    sections = {kind.__name__: split_sections(kind.__doc__) for kind in WITH_REFERENCES}
    assert not [name for name, s in sections.items() if not year.search(s.get("References", ""))]


def test_docstring_checks_find_problems():
    """Negative control of the checks of docstrings."""

    def good(a, *b):
        """Return a sum.

        Parameters
        ----------
        a, *b : float

        Returns
        -------
        float
        """
        return a + sum(b)

    def bad(a, b=1):
        """Return a sum

        Parameters
        ----------
        a : float
            And :math:`b`.
        """  # noqa: D400
        return a + b

    def nothing(a):
        """Print a value.

        Parameters
        ----------
        a
        """

        def inner():
            return a

        print(inner())

    assert not list(find_problems(good))
    assert not list(find_problems(nothing))
    assert list(find_problems(bad)) == [
        "a summary that is a sentence",
        "the parameters ['b']",
        "the return value",
    ]


# Links and reference ----------------------------------------------------------------------------


@pytest.fixture
def check_site(monkeypatch):
    """Import the script ``doc/check_site.py`` as a module."""
    if not DOC.is_dir():
        pytest.skip("the documentation is not in this distribution")
    monkeypatch.syspath_prepend(DOC)
    yield importlib.import_module("check_site")
    sys.modules.pop("check_site", None)


def test_link_check_finds_broken_links(check_site, tmp_path, capsys):
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
    assert check_site.broken_links(tmp_path) == [("one.html:2", link) for link in wrong]
    assert check_site.report_links(tmp_path) == len(wrong)
    assert "one.html:2: gone.html" in capsys.readouterr().out
    with pytest.raises(FileNotFoundError, match="no HTML pages"):
        check_site.broken_links(tmp_path / "empty")


def write_inventory(folder, names):
    """Write an inventory as Sphinx does."""
    lines = "".join(f"{name} py:method 1 api/page.html#$ -\n" for name in names)
    header = b"# Sphinx inventory version 2\n# Project: x\n# Version: 1\n# compressed by zlib\n"
    (folder / "objects.inv").write_bytes(header + zlib.compress(lines.encode()))


def list_reference_names(check_site):
    """Return the names of all public classes, methods and properties."""
    names = []
    for place, kind in check_site.public_classes().items():
        names += [place, *(f"{place}.{name}" for name in check_site.public_members(kind))]
    return names


def test_inherited_methods_are_public_members(check_site):
    classes = check_site.public_classes()
    names = check_site.public_members(classes["skmrf.DiscreteMRF"])
    assert {"fit", "predict", "sample", "marginals", "score_samples", "score"} < set(names)
    assert {"get_params", "set_params", "set_callbacks", "get_metadata_routing"} < set(names)
    assert {"count", "index"}.isdisjoint(check_site.public_members(classes["skmrf.learners.Batch"]))


def test_missing_entries_are_found(check_site, tmp_path, capsys):
    names = list_reference_names(check_site)
    write_inventory(tmp_path, names)
    assert check_site.missing_names(tmp_path) == []
    lost = ["skmrf.RBM.score", "skmrf.learners.PCD"]
    write_inventory(tmp_path, set(names) - set(lost))
    assert check_site.report_names(tmp_path) == len(lost)
    printed = capsys.readouterr().out
    assert all(f"{name} is not documented." in printed for name in lost)


# README and pages --------------------------------------------------------------------------------


README = (ROOT / "README.md").read_text(encoding="utf-8")
FOLDERS = DOC, DOC / "papers"
PAGES = [ROOT / "README.md", *(page for folder in FOLDERS for page in sorted(folder.glob("*.md")))]
RUN = 'pip install -e ".[plot]" && python examples/first_steps/plot_graph_recovery.py'
TEST = 'pip install -e ".[test]" && pytest -n 2'


def find_code_blocks(language, text=README):
    """Return the code blocks of a language, in order."""
    return re.findall(rf"^```{language}\n(.*?)^```$", text, flags=re.DOTALL | re.MULTILINE)


def test_shell_blocks_are_the_two_commands():
    assert [block.strip() for block in find_code_blocks("bash")] == [RUN, TEST]
    assert (ROOT / RUN.split()[-1]).is_file()


def test_first_lines_have_commands():
    """The two commands are in the first 55 lines of the README."""
    first = README.splitlines()[:55]
    assert RUN in first
    assert TEST in first


@pytest.fixture
def _restored_learners():
    """Undo the registration of learners, which lasts as long as the process."""
    known = dict(LEARNERS)
    yield
    LEARNERS.clear()
    LEARNERS.update(known)


BLOCK = re.compile(
    r"^```python\n(.*?)^```$(?:\n\n```text\n(.*?)^```$)?", flags=re.DOTALL | re.MULTILINE
)
NUMBER = re.compile(r"-?\d+(?:\.(\d*))?(?:e[+-]\d+)?")


def split_numbers(line):
    """Return the words of a line, its numbers, and the largest number of their decimals."""
    found = list(NUMBER.finditer(line))
    decimals = max((len(match[1] or "") for match in found), default=0)
    return NUMBER.sub("#", line).split(), [float(match[0]) for match in found], decimals


def check_output(printed, expected):
    """Compare lines of output, up to a unit of the last decimal of the numbers in a line."""
    lines, documented = printed.rstrip().splitlines(), expected.rstrip().splitlines()
    assert len(lines) == len(documented), printed
    for line, other in zip(lines, documented, strict=True):
        words, numbers, decimals = split_numbers(line)
        known_words, known_numbers, known_decimals = split_numbers(other)
        step = 10.0 ** -max(decimals, known_decimals)
        tolerance = 1.01 * step if step < 1.0 else 0.0
        assert words == known_words, printed
        assert numbers == pytest.approx(known_numbers, rel=0.0, abs=tolerance), printed


def test_outputs_are_compared():
    check_output("a [0.5  0.44]\n3\n", "a [0.51 0.44]\n3\n")
    for wrong in ("a [0.6 0.44]\n3", "b [0.5 0.44]\n3", "a [0.5 0.44]\n4", "a [0.5 0.44]"):
        with pytest.raises(AssertionError):
            check_output(wrong, "a [0.51 0.44]\n3\n")


@pytest.mark.slow
@pytest.mark.usefixtures("_restored_learners")
@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_python_blocks_run(page, tmp_path, monkeypatch):
    """Run the code of a page; the output of code that prints is in a text block below it."""
    monkeypatch.chdir(tmp_path)
    namespace = {}
    for number, (block, output) in enumerate(BLOCK.findall(page.read_text("utf-8")), start=1):
        with contextlib.redirect_stdout(io.StringIO()) as printed:
            exec(compile(block, f"{page.name}, python block {number}", "exec"), namespace)
        if "print(" in block:
            check_output(printed.getvalue(), output)


def test_quick_start_shows_queries():
    """The first code block of the README has the queries that the README announces."""
    first = find_code_blocks("python")[0]
    for call in ("score_samples(test)", "predict(", "marginals(", "sample("):
        assert f"model.{call}" in first


def test_table_of_learners():
    page = (DOC / "choosing_a_learner.md").read_text(encoding="utf-8")
    table = page.split("## Table of learners")[1].split("\n## ")[0]
    rows = re.findall(r'^\| `"([\w-]+)"`.*\| ([\w-]+) \| (.*) \|$', table, flags=re.MULTILINE)
    documented = {name: (updates, missing) for name, updates, missing in rows}
    assert documented.keys() == TABLE_LEARNERS.keys()
    for name, kind in TABLE_LEARNERS.items():
        updates, missing = documented[name]
        assert updates == ("L-BFGS" if kind.deterministic else "stochastic"), name
        exactly = kind.deterministic and kind.objective_takes_missing
        assert ("exactly" in missing) == exactly, name


def test_table_of_graph_learners():
    page = (DOC / "sequences.md").read_text(encoding="utf-8")
    table = page.split("## Learners")[1].split("\n## ")[0]
    assert set(re.findall(r'^\| `"([\w-]+)"`', table, flags=re.MULTILINE)) == GRAPH_LEARNERS.keys()


def test_table_of_common_parameters():
    page = (DOC / "which_estimator.md").read_text(encoding="utf-8")
    table = page.split("## Common parameters")[1].split("\n## ")[0]
    kinds = {kind.__name__: kind for kind in ESTIMATORS if hasattr(kind, "fit")}
    kinds.pop("SequenceVectorizer")  # a transformer of features
    having = {}
    for name, cell in re.findall(r"^\| `(\w+)` \|.*\| (.*) \|$", table, flags=re.MULTILINE):
        having[name] = set(re.findall(r"`(\w+)`", cell)) - {"learner"}
        if cell.startswith("all"):
            having[name] = kinds.keys() - having[name]
        elif cell.startswith("the estimators with `learner`"):
            having[name] |= having["learner"]
        found = {key for key, kind in kinds.items() if name in inspect.signature(kind).parameters}
        assert having[name] == found, name
    assert len(having) == 6


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_table_of_history():
    page = (DOC / "long_fits.md").read_text(encoding="utf-8")
    table = page.split("## Training history")[1].split("\n## ")[0]
    cells = re.findall(r"^\| (`.*?) \|", table, flags=re.MULTILINE)
    documented = set(re.findall(r'"(\w+)"', " ".join(cells)))
    rows = np.random.default_rng(0).integers(2, size=(60, 4))
    points = np.random.default_rng(0).normal(size=(60, 2))
    short = {"max_iter": 2, "alpha": 0.1, "random_state": 0}
    models = [skmrf.DiscreteMRF("pairwise", learner, **short) for learner in TABLE_LEARNERS]
    fitted = [model.fit(rows) for model in models]
    for learner in ("exact", "pseudo-likelihood"):
        model = skmrf.DiscreteMRF(learner=learner, optimizer="adam", **short)
        fitted.append(model.fit(rows))
    fitted.append(skmrf.DiscreteMRF(learner="pcd", early_stopping=True, **short).fit(rows))
    for learner in CONDITIONAL_LEARNERS:
        model = skmrf.CRBMStructuredPredictor(4, learner, **short)
        fitted.append(model.fit(rows[:, :2], rows[:, 2:]))
    for learner in GRAPH_LEARNERS:
        model = skmrf.CRF(learner=learner, **short)
        fitted.append(model.fit([rows[:, :2], rows[:, 1:3]], [rows[:, 2], rows[:, 3]]))
    for learner in CONTINUOUS_LEARNERS:
        potentials = skmrf.NetworkPotentials(learner=learner, max_iter=100)
        fitted.append(skmrf.NNMRFDensity(potentials, random_state=0).fit(points))
    fitted.append(skmrf.NNMRFDensity(random_state=0).fit(points))
    found = {key for model in fitted for key in model.history_}
    assert found == documented


def test_readme_links_exist():
    for target in re.findall(r"\]\((?!http)([^)#]+)\)", README):
        assert (ROOT / target).exists(), target


# Examples ----------------------------------------------------------------------------------------


EXAMPLES = ROOT / "examples"
OUTPUTS = {
    "applications/plot_crf_chunking.py": "chain                F1 of phrases 0.9",
    "applications/plot_crf_ocr.py": "CRF               wrong letters 11",
    "applications/plot_crf_segmentation.py": "CRF              wrong pixels 5",
    "applications/plot_house_votes.py": "class, physician-fee-freeze",
    "applications/plot_ising_of_spikes.py": "Ising       mean error of the log probability",
    "applications/plot_mixed_table.py": "of all held-out cars are lower: too expensive",
    "applications/plot_multilabel.py": "conditional RBM {'correct segments'",
    "applications/plot_nn_mrf_classifiers.py": "NNMRFBayesClassifier moons",
    "first_steps/plot_digits_completion.py": "log-likelihood of a held-out digit",
    "first_steps/plot_graph_recovery.py": "16 of 16 edges found, 0 false",
    "first_steps/plot_missing_values.py": "entries correctly",
    "first_steps/plot_neural_density.py": "NNMRFDensity      -2.",
    "first_steps/plot_rbm_features.py": "RBM           accuracy 9",
    "methods/plot_belief_propagation.py": "error of marginals",
    "methods/plot_clusters.py": "All results are identical.",
    "methods/plot_parallel_tempering_swaps.py": "tempered chains: 0.7",
    "methods/plot_sandwich_log_z.py": "plain path mean width in nats",
    "papers/plot_learners_multimodal.py": "psmc                  0.0",
    "papers/plot_restored_digits.py": "of the pixels wrong, maximum margin",
    "papers/plot_six_bits.py": "Total variation distance after 100 sweeps: 0.49",
}


def test_all_examples_are_listed():
    found = {path.relative_to(EXAMPLES).as_posix() for path in EXAMPLES.rglob("*.py")}
    assert found == OUTPUTS.keys()


def test_all_sections_have_a_header():
    for section in {name.split("/")[0] for name in OUTPUTS}:
        assert (EXAMPLES / section / "GALLERY_HEADER.rst").is_file()


@pytest.mark.slow
@pytest.mark.parametrize(("name", "output"), OUTPUTS.items())
def test_example(name, output, tmp_path):
    script = shutil.copy(EXAMPLES / name, tmp_path)
    done = subprocess.run(
        [sys.executable, "-W", "error", script],
        env=os.environ | {"MPLBACKEND": "Agg"},
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=600,
    )
    assert done.returncode == 0, done.stderr
    assert output in done.stdout
    picture = tmp_path / done.stdout.rsplit("saved ", 1)[1].strip()
    assert picture.read_bytes().startswith(b"\x89PNG")


# Tables and figures ------------------------------------------------------------------------------


FOLDER = DOC / "results"
needs_results = pytest.mark.skipif(not FOLDER.is_dir(), reason="doc is not in this distribution")


def read_result_list():
    """Yield (dict from file names to table names, commands) for each row of the result list."""
    text = (ROOT / "benchmarks" / "README.md").read_text(encoding="utf-8")
    text = text.split("\n## Tables and figures of the documentation\n")[1].split("\n## ")[0]
    for line in text.splitlines():
        if line.startswith("| `"):
            files, commands = line.strip("| ").split(" | ")
            yield (
                dict(re.findall(r"`([^`]+)`(?: \(([^)]+)\))?", files)),
                re.findall(r"`(python [^`]+)`", commands),
            )


@needs_results
def test_each_result_file_is_listed_once():
    parts = [part for files, _ in read_result_list() for part in files.items()]
    names = [path.name for suffix in ("md", "png") for path in FOLDER.glob(f"*.{suffix}")]
    assert {name for name, _ in parts} == set(names)
    names = [(name, table) for name, tables in parts for table in tables.split(", ")]
    assert len(names) == len(set(names))
    for name in {name for name, tables in parts if tables}:
        found = re.findall(r"^<!-- end of (.+) -->$", (FOLDER / name).read_text("utf-8"), re.M)
        assert sorted(found) == sorted(table for file, table in names if file == name)


@needs_results
def test_commands_are_scripts_that_write_the_files():
    for files, commands in read_result_list():
        (script,) = {re.match(r"python (benchmarks/\w+\.py)", command)[1] for command in commands}
        source = (ROOT / script).read_text(encoding="utf-8")
        for option in re.findall(r"--[\w-]+", " ".join(commands)):
            assert f'"{option}"' in source or option == "--data-home", (script, option)
        for name in files:
            assert name in source or re.match(r"[a-z]+", name)[0] in source, (script, name)


@needs_results
def test_pages_include_existing_files():
    pages = [*DOC.glob("*.md"), *(DOC / "papers").glob("*.md")]
    text = "\n".join(page.read_text(encoding="utf-8") for page in pages)
    used = set(re.findall(r"results/([\w-]+\.(?:md|png))", text))
    assert used <= {path.name for path in FOLDER.iterdir()}
    assert len(used) > 20
    parts = r"results/([\w-]+\.md)\n:start-after: \"(.+)\"\n:end-before: \"(.+)\"\n"
    for name, start, end in re.findall(parts, text):
        assert start in (FOLDER / name).read_text(encoding="utf-8"), (name, start)
        assert end in (FOLDER / name).read_text(encoding="utf-8"), (name, end)


@pytest.fixture
def common(monkeypatch):
    """Import the benchmark module that writes tables."""
    monkeypatch.syspath_prepend(ROOT / "benchmarks")
    yield pytest.importorskip("_common")
    sys.modules.pop("_common", None)


@needs_results
def test_smaller_tables_do_not_replace_larger_ones(common, tmp_path):
    args = common.options("Any.", cells=True).parse_args(["--results", str(tmp_path)])
    assert common.keep_larger_table(args, "a.md", "x", 3).results == tmp_path
    table = f"| a |\n\n{common.computed_from(1200, 5)}"
    common.write_tables(tmp_path / "a.md", {"x": table, "y": "| b |"})
    assert common.keep_larger_table(args, "a.md", "x", 1200).results == tmp_path
    assert common.keep_larger_table(args, "a.md", "y", 1199).results == tmp_path
    assert common.keep_larger_table(args, "a.md", "x", 1199).results == tmp_path / "partial"
    with pytest.raises(SystemExit, match="no cells"):
        common.keep_larger_table(args, "a.md", "x", 0)
    common.write_tables(tmp_path / "a.md", {"y": "| c |", "z": "| d |"})
    found = common.read_tables(tmp_path / "a.md")
    assert list(found.items()) == [("x", table), ("y", "| c |"), ("z", "| d |")]


@needs_results
def test_oldest_versions_are_those_of_pyproject():
    script = ROOT / ".ci" / "oldest.py"
    if not script.exists():
        pytest.skip(".ci is not in this distribution")
    run = subprocess.run([sys.executable, script, "pytest"], capture_output=True, text=True)
    assert run.returncode == 0, run.stderr
    project = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
    lines = run.stdout.split()
    assert len(lines) == 8
    assert all(f'"{line.replace("==", ">=")}"' in project for line in lines)
