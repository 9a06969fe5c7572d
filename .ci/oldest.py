"""Print the oldest versions that pyproject.toml allows, as requirements of pip.

``python .ci/oldest.py [NAME ...]`` prints a line ``name==version`` for every run-time dependency
and for every named package of the extra "test". ``python .ci/oldest.py --is-oldest-python`` prints
nothing; its exit status is 0 if this is the oldest Python that pyproject.toml allows, 1 if not.
"""

import re
import sys
import tomllib
from pathlib import Path


def oldest(requirement):
    """Return ``name==version`` for the requirement ``name>=version``."""
    found = re.fullmatch(r"([\w.-]+)>=([\w.]+)", requirement)
    if found is None:
        raise SystemExit(f"pyproject.toml: {requirement!r} should have the form name>=version.")
    return f"{found[1]}=={found[2]}"


def lines(project, names):
    """Return the requirements of the run-time dependencies and of named packages for tests."""
    extra = {re.match(r"[\w.-]+", r)[0]: r for r in project["optional-dependencies"]["test"]}
    unknown = [name for name in names if name not in extra]
    if unknown:
        raise SystemExit(f"pyproject.toml: the extra 'test' does not list {', '.join(unknown)}.")
    return [oldest(r) for r in [*project["dependencies"], *(extra[name] for name in names)]]


def is_oldest_python(project):
    """Return whether this is the oldest Python that the project allows."""
    major, minor = map(int, project["requires-python"].removeprefix(">=").split("."))
    return sys.version_info[:2] == (major, minor)


def main(arguments):
    """Print the requirements, or exit with the answer on the version of Python."""
    text = (Path(__file__).parents[1] / "pyproject.toml").read_text(encoding="utf-8")
    project = tomllib.loads(text)["project"]
    if arguments == ["--is-oldest-python"]:
        raise SystemExit(not is_oldest_python(project))
    print("\n".join(lines(project, arguments)))


if __name__ == "__main__":
    main(sys.argv[1:])
