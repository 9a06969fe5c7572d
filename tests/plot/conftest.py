"""Fitted models for the tests of displays."""

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import pytest
from estimator_models import NAMES, digits, sequences, spins

from skmrf import (
    CRF,
    RBM,
    BoltzmannMachine,
    CRBMStructuredPredictor,
    DiscreteMRF,
    MRFStructureLearner,
    NetworkPotentials,
    NNMRFDensity,
)
from skmrf.structure import RemovalWhileLearning


@pytest.fixture(autouse=True)
def _close_figures():
    plt.close("all")
    yield
    plt.close("all")


@pytest.fixture(scope="session")
def models():
    """Return one fitted estimator of each class that a display accepts."""
    X, ink = spins(), digits()
    return {
        "discrete": DiscreteMRF(learner="psmc", max_iter=8, random_state=0).fit(
            pd.DataFrame(X, columns=NAMES)
        ),
        "boltzmann": BoltzmannMachine("exact", binarize=0.5).fit(X),
        "rbm": RBM(5, "pcd", alpha=0.01, max_iter=3, random_state=0).fit(ink),
        "crbm": CRBMStructuredPredictor(4, "mssvm", alpha=0.01, max_iter=2, random_state=0).fit(
            ink, ink[:, :12].reshape(-1, 3, 4)
        ),
        "crf": CRF(alpha=0.1, max_iter=20).fit(*sequences()),
        "structure": MRFStructureLearner(
            search=RemovalWhileLearning(0.3, 30), max_iter=60, random_state=0
        ).fit(pd.DataFrame(X, columns=NAMES)),
        "density": NNMRFDensity(NetworkPotentials(learner="grid", max_iter=2), random_state=0).fit(
            np.random.default_rng(0).normal(size=(50, 2))
        ),
    }
