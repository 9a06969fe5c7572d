"""Tests of the estimators with scikit-learn's tools, as in the documentation's table."""

import re
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
    import generate

    lines = generate.list_capabilities(DOC.parent).splitlines()
    rows = [line.strip("| ").split(" | ") for line in lines if line.startswith("| ")][1:]
    assert [feature for feature, *_ in rows] == list(CAPABILITIES)
    for feature, _, estimators in rows:
        names = set(re.findall(r"skmrf\.(\w+)", estimators))
        supported = set(ESTIMATORS) - names if estimators.startswith("all") else names
        assert supported == {name for name in ESTIMATORS if (name, feature) not in EXCEPTIONS}
    sys.modules.pop("generate", None)
