"""Picture of the imports between subpackages, and table of scikit-learn features.

``python doc/generate.py > map.svg``. The picture is drawn from the imports, in the order of the
layers in pyproject.toml. A subpackage that is missing there, or an import against the order, is an
error.
"""

import ast
import sys
import tomllib
from pathlib import Path

PACKAGE = "skmrf"
NOT_PACKAGES = {"__init__", "_version"}
ROW, HEAD, NAME, END = 26, 84, 118, 40  # pixels: heights of row and head, widths of the sides


def layers(root):
    """Return the layers of pyproject.toml, top first, as lists of independent packages."""
    config = tomllib.loads((root / "pyproject.toml").read_text(encoding="utf-8"))
    contracts = config["tool"]["importlinter"]["contracts"]
    (order,) = (c["layers"] for c in contracts if c["type"] == "layers")
    return [
        [name.strip().removeprefix(f"{PACKAGE}.") for name in layer.split("|")] for layer in order
    ]


def packages(root):
    """Return the files of each module and subpackage."""
    found = {}
    for path in sorted((root / PACKAGE).iterdir()):
        if path.is_dir() and (path / "__init__.py").exists():
            found[path.name] = sorted(path.rglob("*.py"))
        elif path.suffix == ".py" and path.stem not in NOT_PACKAGES:
            found[path.stem] = [path]
    return found


def imported_packages(path, root):
    """Return the packages that a file imports, without imports for type checkers."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    package = [PACKAGE, *path.relative_to(root / PACKAGE).parent.parts]
    names = set()
    for node in _run_time_nodes(tree):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            base = package[: len(package) - node.level + 1] if node.level else []
            module = ".".join([*base, *([node.module] if node.module else [])])
            names |= {f"{module}.{alias.name}" for alias in node.names}
    return {name.split(".")[1] for name in names if name.startswith(f"{PACKAGE}.")}


def _run_time_nodes(tree):
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test):
            continue
        yield node
        yield from _run_time_nodes(node)


def imports(root):
    """Return the packages that each package imports, in the order of the layers.

    An import against that order raises a ValueError.
    """
    files, order = packages(root), layers(root)
    listed = [package for layer in order for package in layer]
    if set(listed) != set(files):
        raise ValueError(
            f"The layers in pyproject.toml and {PACKAGE}/ differ in {set(listed) ^ set(files)}; "
            "give every package its layer."
        )
    depth = {package: d for d, layer in enumerate(order) for package in layer}
    graph = {}
    for package in listed:
        found = {r for path in files[package] for r in imported_packages(path, root)} & set(files)
        graph[package] = found - {package}
        wrong = [r for r in graph[package] if depth[r] <= depth[package]]
        if wrong:
            raise ValueError(f"{package} imports {wrong}, which its layer forbids.")
    return graph


def draw_map(root):
    """Return the imports as SVG: one row per package, with a dot for each imported package."""
    graph = imports(root)
    names = list(graph)
    column = {name: NAME + ROW * (i + 0.5) for i, name in enumerate(names)}
    line = {name: HEAD + ROW * (i + 0.5) for i, name in enumerate(names)}
    width, height = NAME + ROW * len(names) + END, HEAD + ROW * len(names)
    out = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" '
        f'height="{height}" font-family="sans-serif" font-size="13">',
        f"<title>Packages of {PACKAGE} and their imports</title>",
        f'<rect width="{width}" height="{height}" fill="#ffffff"/>',
    ]
    for layer in layers(root):
        low = line[layer[-1]] + 0.5 * ROW
        out.append(f'<path d="M8 {low}H{width - 8}" stroke="#dddddd"/>')
    for package in names:
        out += _labels(package, column[package], line[package])
    for package in names:
        for other in sorted(graph[package], key=names.index):
            out.append(
                f'<circle cx="{column[other]}" cy="{line[package]}" r="6" fill="#c8781e">'
                f"<title>{package} imports {other}</title></circle>"
            )
    return "\n".join([*out, "</svg>", ""])


def _labels(name, x, y):
    """Return the labels of a row and a column, and the diagonal square."""
    return [
        f'<path d="M{x} {HEAD}V{y}" stroke="#eeeeee"/>',
        f'<text x="{NAME - 8}" y="{y + 4}" text-anchor="end" font-family="monospace">{name}</text>',
        f'<text transform="translate({x + 4} {HEAD - 6}) rotate(-60)" font-family="monospace" '
        f'font-size="11" fill="#555555">{name}</text>',
        f'<rect x="{x - 8}" y="{y - 8}" width="16" height="16" fill="#d9d9d9"/>',
    ]


def list_capabilities(root):
    """Return a Markdown table of features and estimators, with notes on missing features."""
    sys.path.insert(0, str(root / "tests"))
    try:
        from capabilities import CAPABILITIES, EXCEPTIONS, cases
    finally:
        sys.path.pop(0)
    notes = list(dict.fromkeys(EXCEPTIONS.values()))
    rows = ["| feature | what is tested | estimators |", "|---|---|---|"]
    for feature, function in CAPABILITIES.items():
        missing = {name: why for (name, what), why in EXCEPTIONS.items() if what == feature}
        supported = _describe_supported(list(cases()), missing, notes)
        rows.append(f"| {feature} | {_as_phrase(function)} | {supported} |")
    reasons = [f"{number}. {note}." for number, note in enumerate(notes, start=1)]
    parts = ["\n".join(rows)]
    if reasons:
        parts += ["Reasons why a feature is not supported:", "\n".join(reasons)]
    return "\n\n".join(parts) + "\n"


def _describe_supported(names, missing, notes):
    """Return the estimators that support a feature, with the numbers of notes on the others."""
    if not missing:
        return "all"
    numbers = ", ".join(str(notes.index(why) + 1) for why in dict.fromkeys(missing.values()))
    if 2 * len(missing) > len(names):
        return f"{_join(name for name in names if name not in missing)} ({numbers})"
    return f"all except {_join(missing)} ({numbers})"


def _join(names):
    return ", ".join(f"{{py:class}}`~skmrf.{name}`" for name in names)


def _as_phrase(function):
    """Return the docstring of a function with a lower-case first letter and no full stop."""
    text = function.__doc__.strip().removesuffix(".")
    return text[0].lower() + text[1:]


if __name__ == "__main__":
    sys.stdout.write(draw_map(Path(__file__).parents[1]))
