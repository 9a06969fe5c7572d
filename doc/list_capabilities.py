"""Table of the scikit-learn features that each estimator supports, read from the tests."""

import sys


def table(root):
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
