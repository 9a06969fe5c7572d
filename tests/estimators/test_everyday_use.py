"""Tests of the estimators with scikit-learn's tools, as in the documentation's table."""

import sys
from pathlib import Path

import pytest
from capabilities import CAPABILITIES, EXCEPTIONS, cases

import skmrf

DOC = Path(__file__).parents[2] / "doc"
ESTIMATORS = [name for name in skmrf.__all__ if isinstance(getattr(skmrf, name), type)]

pytestmark = pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")


@pytest.mark.parametrize("capability", CAPABILITIES)
@pytest.mark.parametrize("name", ESTIMATORS)
def test_everyday_use(name, capability, seed):
    case = cases(seed)[name]
    if (name, capability) not in EXCEPTIONS:
        CAPABILITIES[capability](case)
    elif capability == "set_output":
        assert not hasattr(case.fitted(), "transform")
    else:
        with pytest.raises((AttributeError, TypeError)):
            CAPABILITIES[capability](case)


def test_exceptions_refer_to_existing_names():
    for name, capability in EXCEPTIONS:
        assert name in ESTIMATORS
        assert capability in CAPABILITIES


@pytest.mark.skipif(not DOC.is_dir(), reason="the documentation is not in this distribution")
def test_capability_table_of_the_documentation(monkeypatch):
    monkeypatch.syspath_prepend(DOC)
    import list_capabilities

    lines = list_capabilities.table(DOC.parent).splitlines()
    rows = [line for line in lines if line.startswith("| {py:class}")]
    assert len(rows) == len(ESTIMATORS)
    marks = [cell.strip() for row in rows for cell in row.strip("|").split("|")[1:]]
    assert marks.count("✓") == len(ESTIMATORS) * len(CAPABILITIES) - len(EXCEPTIONS)
    sys.modules.pop("list_capabilities", None)
