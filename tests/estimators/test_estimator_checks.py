"""Tests of the estimators by scikit-learn's estimator checks, and with scikit-learn's tools."""

import re
import sys
import warnings
from importlib.util import find_spec
from pathlib import Path
from unittest import SkipTest

import numpy as np
import pandas as pd
import pytest
from capabilities import CAPABILITIES, EXCEPTIONS, cases
from sklearn.utils.estimator_checks import estimator_checks_generator

import skmrf
from skmrf import (
    CRF,
    RBM,
    BoltzmannMachine,
    CRBMStructuredPredictor,
    DiscreteMRF,
    MRFImputer,
    MRFStructureLearner,
    NetworkPotentials,
    NNMRFBayesClassifier,
    NNMRFClassifier,
    NNMRFDensity,
)
from skmrf.learners import CD, PCD, CDPercLoss, Variational
from skmrf.structure import Penalized, RemovalWhileLearning, WaldTests

OMITTED_CHECKS = {  # and why they can fail
    "check_sample_weight_equivalence_on_dense_data": (
        "feeds continuous columns, which are no categories, and asks that stochastic fits agree; "
        "test_discrete.py checks the equivalence on categories, test_boltzmann_machine.py and "
        "test_rbm_fit.py on two states, test_crbm_fit.py on outputs, with deterministic learners; "
        "test_nnmrf_fit.py checks the bases of neural potentials, whose networks are learned from "
        "chains, and that rows of weight 0 count as absent"
    ),
    "check_sample_weight_equivalence_on_sparse_data": (
        "asks that stochastic fits agree; test_rbm_fit.py and test_crbm_fit.py check the "
        "equivalence with a deterministic learner, and test_rbm_fit.py and test_crbm_queries.py "
        "that sparse rows give the same fit as dense ones"
    ),
}

EXPECTED_SKIPPED_CHECKS = {
    "check_array_api_input": "scikit-learn skips it unless SCIPY_ARRAY_API=1 is set",
    "check_classifiers_multilabel_output_format_predict_proba": (
        "max-margin learners have no probabilities, so no predict_proba"
    ),
}

SMALL = {"node_layers": (2,), "edge_layers": (2,), "max_iter": 1}
NUMBERS = {"column_types": "continuous"}  # one epoch is too short for rounded numbers
QUADRATURE = Variational(
    2, negative="quadrature", entropy="bethe", covariance="diag", n_points=3, warmup=0
)
QUICK = Variational(1, n_iter=1, warmup=0)
VARIANTS = [  # those that take a few seconds at most
    DiscreteMRF(learner="exact", alpha=0.1),
    DiscreteMRF(learner="cd", alpha=0.1, max_iter=20),
    DiscreteMRF(learner=PCD(n_chains=64), max_iter=20, optimizer="sgd", alpha=0.1),
    DiscreteMRF(learner=CD(n_sweeps=2), alpha=0.1, max_iter=5, early_stopping=True),
    DiscreteMRF(cliques="independent", learner="exact", alpha=0.1, penalty="group-l1"),
    MRFStructureLearner("exact", search=Penalized("l1", 0.01), statistic="agreement", unary=False),
    MRFStructureLearner(column_types="continuous"),
    BoltzmannMachine("pcd", binarize=0.5, alpha=0.01, max_iter=2),
    RBM(2, "pcd", binarize=0.5, alpha=0.01, max_iter=2),
    CRBMStructuredPredictor(learner="lr", optimizer="lbfgs", alpha=0.01),
    CRF(alpha=0.05, max_iter=15),
    MRFImputer(DiscreteMRF("independent", "exact", alpha=0.1)),
]
LONG_VARIANTS = [
    DiscreteMRF(learner="pseudo-likelihood", max_iter=20),
    DiscreteMRF(MRFStructureLearner("pseudo-likelihood"), "exact", alpha=0.1),
    MRFStructureLearner(),
    MRFStructureLearner(search="nodewise", column_types="continuous"),
    MRFStructureLearner("exact"),
    MRFStructureLearner("pseudo-likelihood", search=WaldTests("fdr", level=0.2), screen=0.5),
    MRFStructureLearner("cd", search=RemovalWhileLearning(0.1), n_bootstraps=2, max_iter=5),
    BoltzmannMachine("pcd", binarize=0.5, max_iter=20),
    BoltzmannMachine(binarize=0.5, max_iter=5, states=(0, 1), early_stopping=True),
    RBM(3, "pcd", binarize=0.5, max_iter=5),
    RBM(2, "exact", binarize=0.5, alpha=0.01, max_iter=5),
    RBM(2, CD(n_sweeps=2), binarize=0.5, alpha=0.01, max_iter=5, early_stopping=True),
    CRBMStructuredPredictor(4, alpha=0.01, max_iter=5),
    CRBMStructuredPredictor(4, "mssvm", alpha=0.01, max_iter=5),
    CRBMStructuredPredictor(4, CDPercLoss(n_sweeps=2), alpha=0.01, max_iter=5, early_stopping=True),
    CRF(),
    CRF(learner="ssvm", alpha=0.05, max_iter=10),
    CRF(learner="perceptron", max_iter=10),
    CRF(learner="pseudo-likelihood", penalty="l1", alpha=0.05, max_iter=15),
    NNMRFDensity(),
    NNMRFDensity(NetworkPotentials("empty", QUICK, **SMALL)),
    NNMRFDensity(NetworkPotentials(**SMALL)),
    NNMRFDensity(NetworkPotentials("tree", density="mrf", **SMALL)),
    NNMRFDensity(NetworkPotentials("empty", QUADRATURE, base=0.01, early_stopping=True, **SMALL)),
    NNMRFBayesClassifier(
        NetworkPotentials("empty", QUICK, early_stopping=False, **SMALL), **NUMBERS
    ),
    NNMRFBayesClassifier(NetworkPotentials(max_iter=5)),
    NNMRFClassifier(cv=2),
    MRFImputer(NNMRFDensity(NetworkPotentials(**SMALL))),
    MRFImputer(DiscreteMRF("independent", "exact"), strategy="marginal", add_indicator=True),
]
SLOW_VARIANTS = [
    DiscreteMRF(),  # 2,000 updates a fit
    MRFStructureLearner(search="nodewise"),
    CRBMStructuredPredictor(4, max_iter=20),
    MRFImputer(),  # the default models
    NNMRFBayesClassifier(),
    NNMRFBayesClassifier(NetworkPotentials("tree", **SMALL), **NUMBERS),
    NNMRFBayesClassifier(
        NetworkPotentials("tree", QUADRATURE, base=0.1, early_stopping=False, **SMALL), **NUMBERS
    ),
]
DEVICE_VARIANTS = [
    RBM(2, "pcd", binarize=0.5, alpha=0.01, max_iter=1, device="jax"),
]
SLOW_DEVICE_VARIANTS = [
    BoltzmannMachine(PCD(), binarize=0.5, alpha=0.01, max_iter=1, device="jax"),
    CRBMStructuredPredictor(2, alpha=0.01, max_iter=1, device="jax"),
    DiscreteMRF(learner="pcd", alpha=0.01, max_iter=1, device="jax"),
]
needs_jax = pytest.mark.skipif(find_spec("jax") is None, reason="jax is not installed")
VARIANTS += [
    pytest.param(estimator, marks=[pytest.mark.long, needs_jax]) for estimator in DEVICE_VARIANTS
]
VARIANTS += [
    pytest.param(estimator, marks=[pytest.mark.slow, needs_jax])
    for estimator in SLOW_DEVICE_VARIANTS
]
VARIANTS += [pytest.param(estimator, marks=pytest.mark.long) for estimator in LONG_VARIANTS]
VARIANTS += [pytest.param(estimator, marks=pytest.mark.slow) for estimator in SLOW_VARIANTS]


@pytest.mark.parametrize("estimator", LONG_VARIANTS, ids=repr)
def test_names_of_attributes(estimator):
    """``dir`` reads all attributes, so that it fails if a property raises a ValueError."""
    assert "fit" in dir(estimator)


@pytest.mark.parametrize("estimator", VARIANTS, ids=repr)
def test_check_estimator(estimator):
    failed, skipped, n_checks = {}, set(), 0
    for model, check in estimator_checks_generator(estimator):
        name = check.func.__name__
        if name in OMITTED_CHECKS:
            continue
        n_checks += 1
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                check(model)
        except SkipTest:
            skipped.add(name)
        except Exception as error:
            failed[name] = repr(error)
    assert not failed
    assert skipped <= EXPECTED_SKIPPED_CHECKS.keys()
    assert n_checks > 35


# Whole numbers -----------------------------------------------------------------------------------


def test_large_integers_are_numbers(seed):
    rng = np.random.default_rng(seed)
    frame = pd.DataFrame({"id": 2**60 + rng.permutation(150), "x": rng.normal(size=150)})
    model = NNMRFDensity(random_state=seed).fit(frame)
    assert model.column_types_ == ["integer", "continuous"]
    assert np.isfinite(model.score(frame))


# Tools of scikit-learn, as in the documentation's table ------------------------------------------


DOC = Path(__file__).parents[2] / "doc"
ESTIMATORS = [name for name in skmrf.__all__ if hasattr(getattr(skmrf, name), "fit")]
ESTIMATORS.remove("SequenceVectorizer")  # it takes sequences of dicts, not tables
pytestmark = pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")


@pytest.mark.parametrize("capability", CAPABILITIES)
@pytest.mark.parametrize("name", ESTIMATORS)
def test_everyday_use(name, capability, seed):
    case = cases(seed)[name]
    if (name, capability) not in EXCEPTIONS:
        CAPABILITIES[capability](case)
    elif capability == "set_output":
        assert not hasattr(case.model, "transform")
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
