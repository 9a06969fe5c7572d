"""The table of learners, read off the classes."""

import inspect

from skmrf.energies import FactorGraph
from skmrf.learners import accepted


def table():
    """Markdown: name, class, what it is, how it updates, what it does with missing entries."""
    rows = [
        "| `learner=` | class | what it is | updates | missing entries |",
        "|---|---|---|---|---|",
    ]
    for name, kind in accepted(FactorGraph).items():
        summary = inspect.getdoc(kind).split("\n\n")[0].replace("\n", " ").rstrip(".")
        updates = "deterministic (L-BFGS)" if kind.deterministic else "stochastic"
        exactly = kind.deterministic and kind.objective_takes_missing
        missing = "summed out exactly" if exactly else "filled by Gibbs chains"
        link = f"{{py:class}}`~skmrf.learners.{kind.__name__}`"
        rows.append(f'| `"{name}"` | {link} | {summary} | {updates} | {missing} |')
    return "\n".join([*rows, ""])
