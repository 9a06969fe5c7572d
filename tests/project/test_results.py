"""The list of the documentation's tables and pictures is complete."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
FOLDER = ROOT / "doc" / "results"
pytestmark = pytest.mark.skipif(not FOLDER.is_dir(), reason="doc is not in this distribution")


def listed():
    """Rows of the table in README.md as (file names, command)."""
    text = (FOLDER / "README.md").read_text(encoding="utf-8")
    for line in text.splitlines():
        if line.startswith("| `"):
            files, command = line.strip("| ").split(" | ")
            yield re.findall(r"`([^`]+)`", files), re.search(r"`([^`]+)`", command)[1]


def test_every_file_is_listed_once():
    names = [name for files, _ in listed() for name in files]
    kept = [path.name for suffix in ("md", "png") for path in FOLDER.glob(f"*.{suffix}")]
    assert sorted(names) == sorted(set(kept) - {"README.md"})


def test_commands_are_scripts_that_write_the_files():
    for files, command in listed():
        script = re.match(r"python (benchmarks/\w+\.py)", command)[1]
        source = (ROOT / script).read_text(encoding="utf-8")
        for option in re.findall(r"--[\w-]+", command):
            assert f'"{option}"' in source or option == "--data-home", (script, option)
        for name in files:
            assert re.match(r"[a-z]+", name)[0] in source, (script, name)


def test_pages_include_existing_files():
    pages = [*(ROOT / "doc").glob("*.md"), *(ROOT / "doc" / "papers").glob("*.md")]
    text = "\n".join(page.read_text(encoding="utf-8") for page in pages)
    used = set(re.findall(r"results/([\w-]+\.(?:md|png))", text))
    assert used <= {path.name for path in FOLDER.iterdir()}
    assert len(used) > 40


@pytest.fixture
def common(monkeypatch):
    """The module of the benchmarks that writes tables."""
    monkeypatch.syspath_prepend(ROOT / "benchmarks")
    yield pytest.importorskip("_common")
    sys.modules.pop("_common", None)


def test_smaller_tables_do_not_replace_larger_ones(common, tmp_path):
    args = common.options("Any.", cells=True).parse_args(["--results", str(tmp_path)])
    assert common.keep_larger_table(args, "a.md", 3).results == tmp_path
    (tmp_path / "a.md").write_text(f"| a |\n\n{common.computed_from(1200, 5)}\n")
    assert common.keep_larger_table(args, "a.md", 1200).results == tmp_path
    assert common.keep_larger_table(args, "a.md", 1199).results == tmp_path / "partial"
    with pytest.raises(SystemExit, match="no cells"):
        common.keep_larger_table(args, "a.md", 0)


def test_oldest_versions_are_those_of_pyproject():
    script = ROOT / ".ci" / "oldest.py"
    if not script.exists():
        pytest.skip(".ci is not in this distribution")
    run = subprocess.run([sys.executable, script, "pytest"], capture_output=True, text=True)
    assert run.returncode == 0, run.stderr
    project = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
    lines = run.stdout.split()
    assert len(lines) == 7
    assert all(f'"{line.replace("==", ">=")}"' in project for line in lines)
