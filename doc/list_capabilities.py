"""The table of what estimators can do beside scikit-learn's tools, read off the tests."""

import sys


def table(root):
    """Markdown: estimators down, capabilities across, notes on what there is not."""
    sys.path.insert(0, str(root / "tests"))
    try:
        from capabilities import CAPABILITIES, EXCEPTIONS, cases
    finally:
        sys.path.pop(0)
    notes = list(dict.fromkeys(EXCEPTIONS.values()))
    rows = [
        "| estimator | " + " | ".join(CAPABILITIES) + " |",
        "|---" * (1 + len(CAPABILITIES)) + "|",
    ]
    for name in cases():
        marks = [_mark(EXCEPTIONS.get((name, what)), notes) for what in CAPABILITIES]
        rows.append(f"| {{py:class}}`~skmrf.{name}` | " + " | ".join(marks) + " |")
    meanings = [f"- **{name}**: {_said(what)}" for name, what in CAPABILITIES.items()]
    reasons = [f"{number}. {note}." for number, note in enumerate(notes, start=1)]
    parts = ["\n".join(rows), "What is tested:", "\n".join(meanings)]
    if reasons:
        parts += ["What there is not, and why:", "\n".join(reasons)]
    return "\n\n".join(parts) + "\n"


def _mark(reason, notes):
    """A tick, or the number of the note that says why not."""
    return "✓" if reason is None else f"({notes.index(reason) + 1})"


def _said(function):
    """The docstring as the rest of a sentence."""
    text = function.__doc__.strip()
    return text[0].lower() + text[1:]
