"""README and the pages of the documentation say nothing that does not run."""

import re
from pathlib import Path

import pytest
from learner_names import TABLE_LEARNERS

ROOT = Path(__file__).parents[2]
README = (ROOT / "README.md").read_text(encoding="utf-8")
FOLDERS = ROOT / "doc", ROOT / "doc" / "papers"
PAGES = [ROOT / "README.md", *(page for folder in FOLDERS for page in sorted(folder.glob("*.md")))]
RUN = 'pip install -e ".[plot]" && python examples/plot_digits_completion.py'
TEST = 'pip install -e ".[test]" && pytest -n 2'


def blocks(language, text=README):
    """Code blocks of a language, in order."""
    return re.findall(rf"^```{language}\n(.*?)^```$", text, flags=re.DOTALL | re.MULTILINE)


def test_shell_blocks_are_the_two_commands():
    assert [block.strip() for block in blocks("bash")] == [RUN, TEST]
    assert (ROOT / RUN.split()[-1]).is_file()


def test_first_screen():
    """What it is and the two commands come before anything else."""
    first = README.splitlines()[:25]
    assert RUN in first
    assert TEST in first


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_python_blocks_run(page, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    namespace = {}
    for number, block in enumerate(blocks("python", page.read_text(encoding="utf-8")), start=1):
        exec(compile(block, f"{page.name}, python block {number}", "exec"), namespace)


def test_quick_start_is_there():
    """The five answers that README promises are asked for in its first block of code."""
    first = blocks("python")[0]
    for call in ("score_samples(test)", "predict(", "marginals(", "sample("):
        assert f"model.{call}" in first


def test_table_of_learners():
    rows = re.findall(r'^\| `"([\w-]+)"`.*\| ([\w-]+) \| (.*) \|$', README, flags=re.MULTILINE)
    said = {name: (updates, missing) for name, updates, missing in rows}
    assert said.keys() == TABLE_LEARNERS.keys()
    for name, kind in TABLE_LEARNERS.items():
        updates, missing = said[name]
        assert updates == ("L-BFGS" if kind.deterministic else "stochastic"), name
        exactly = kind.deterministic and kind.objective_takes_missing
        assert ("exactly" in missing) == exactly, name


def test_links_lead_somewhere():
    for target in re.findall(r"\]\((?!http)([^)#]+)\)", README):
        assert (ROOT / target).exists(), target
