"""Tests of the estimators by scikit-learn's estimator checks, and with scikit-learn's tools."""

import re
import sys
import warnings
from pathlib import Path

import pytest
from capabilities import CAPABILITIES, EXCEPTIONS, cases
from expected_failed_checks import EXPECTED_FAILED_CHECKS, EXPECTED_SKIPPED_CHECKS
from sklearn.utils.estimator_checks import check_estimator

import skmrf
from skmrf import (
    RBM,
    BoltzmannMachine,
    CRBMStructuredPredictor,
    DiscreteMRF,
    MRFImputer,
    MRFStructureLearner,
    NNMRFClassifier,
    NNMRFDensity,
)
from skmrf.learners import CD, PCD, CDPercLoss, Variational
from skmrf.structure import Penalized, RemovalWhileLearning, WaldTests

SMALL = {"node_layers": (2,), "edge_layers": (2,), "max_iter": 1}
QUADRATURE = Variational(
    2, negative="quadrature", entropy="bethe", covariance="diag", n_points=3, warmup=0
)
VARIANTS = [
    pytest.param(DiscreteMRF(), marks=pytest.mark.slow),  # 2,000 updates a fit
    DiscreteMRF(learner="exact", alpha=0.1),
    DiscreteMRF(learner="cd", alpha=0.1, max_iter=20),
    DiscreteMRF(learner="pseudo-likelihood"),
    DiscreteMRF(learner=PCD(n_chains=64), max_iter=20, optimizer="sgd", alpha=0.1),
    DiscreteMRF(learner=CD(n_sweeps=2), alpha=0.1, max_iter=5, early_stopping=True),
    DiscreteMRF(cliques="independent", learner="exact", alpha=0.1, penalty="group-l1"),
    DiscreteMRF(MRFStructureLearner("pseudo-likelihood"), "exact", alpha=0.1),
    MRFStructureLearner(max_iter=5),
    MRFStructureLearner("exact"),
    MRFStructureLearner("pseudo-likelihood", search=WaldTests("fdr", level=0.2), screen=0.5),
    pytest.param(MRFStructureLearner(search="nodewise"), marks=pytest.mark.slow),
    MRFStructureLearner("cd", search=RemovalWhileLearning(0.1), n_bootstraps=2, max_iter=5),
    MRFStructureLearner("exact", search=Penalized("l1", 0.01), statistic="agreement", unary=False),
    BoltzmannMachine("pcd", binarize=0.5, max_iter=20),
    BoltzmannMachine(binarize=0.5, max_iter=5, states=(0, 1), early_stopping=True),
    RBM(3, "pcd", binarize=0.5, max_iter=5),
    RBM(2, "exact", binarize=0.5, max_iter=5),
    RBM(2, CD(n_sweeps=2), binarize=0.5, max_iter=5, early_stopping=True),
    pytest.param(CRBMStructuredPredictor(4, max_iter=20), marks=pytest.mark.slow),
    CRBMStructuredPredictor(4, alpha=0.01, max_iter=5),
    CRBMStructuredPredictor(4, "mssvm", alpha=0.01, max_iter=5),
    CRBMStructuredPredictor(4, CDPercLoss(n_sweeps=2), alpha=0.01, max_iter=5, early_stopping=True),
    CRBMStructuredPredictor(learner="lr", optimizer="lbfgs", alpha=0.01),
    NNMRFDensity(**SMALL),
    NNMRFDensity("tree", density="mrf", **SMALL),
    NNMRFDensity("empty", QUADRATURE, base=0.01, early_stopping=True, **SMALL),
    NNMRFClassifier("tree", **SMALL),
    pytest.param(MRFImputer(), marks=pytest.mark.slow),  # the default models
    MRFImputer(NNMRFDensity(**SMALL)),
    MRFImputer(DiscreteMRF("independent", "exact"), strategy="marginal", add_indicator=True),
    pytest.param(
        NNMRFClassifier("tree", QUADRATURE, base=0.1, rule="bayes", early_stopping=False, **SMALL),
        marks=pytest.mark.slow,
    ),
]


@pytest.mark.parametrize("estimator", VARIANTS, ids=repr)
def test_check_estimator(estimator):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        results = check_estimator(
            estimator,
            expected_failed_checks=EXPECTED_FAILED_CHECKS,
            on_fail=None,
            on_skip=None,
        )
    failed = {r["check_name"]: repr(r["exception"]) for r in results if r["status"] == "failed"}
    skipped = {r["check_name"] for r in results if r["status"] == "skipped"}
    assert not failed
    assert skipped <= EXPECTED_SKIPPED_CHECKS.keys()
    assert len(results) > 35


# Tools of scikit-learn, as in the documentation's table ------------------------------------------


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
