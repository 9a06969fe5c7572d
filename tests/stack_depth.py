"""Count the files of the package on the deepest call stack of each fit.

    NUMBA_DISABLE_JIT=1 python tests/stack_depth.py

Without compilation the kernels are on the stack, too. A file that is left and entered again deeper
in the stack counts as a return.
"""

import os
import sys
import warnings
from itertools import groupby
from unittest import mock

import numpy as np

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
from skmrf.estimators import _refinement

ROOT = os.path.dirname(skmrf.__file__) + os.sep
NESTED = "DiscreteMRF of a structure learner", "MRFImputer"  # they fit another estimator
SMALL = {"max_iter": 2, "random_state": 0}
NETWORKS = NetworkPotentials(node_layers=(2,), edge_layers=(2,), max_iter=2)


class Recorder:
    """Files of the package on the deepest stack, and stacks that enter a file twice."""

    def __init__(self):
        self.deepest = []
        self.returns = {}

    def __call__(self, frame, event, _argument):
        if event != "call" or not frame.f_code.co_filename.startswith(ROOT):
            return
        if frame.f_code.co_name in ("__sklearn_tags__", "__init__"):  # called by scikit-learn
            return
        files = []
        while frame is not None:
            name = frame.f_code.co_filename
            if name.startswith(ROOT):
                files.append(name[len(ROOT) :])
            frame = frame.f_back
        files = [name for name, _ in groupby(reversed(files))]
        first = next((k for k, name in enumerate(files) if name.startswith("_kernels")), len(files))
        files = files[: first + 1]  # kernels call each other within compiled code
        if len(set(files)) > len(set(self.deepest)):
            self.deepest = files
        for name in files:
            if files.count(name) > 1:
                self.returns.setdefault(name, files)


def fits():
    """Return a small fit of each estimator, by name."""
    rng = np.random.default_rng(0)
    bits = ((rng.random((20, 1)) < 0.5) ^ (rng.random((20, 3)) < 0.25)).astype(int)
    numbers = rng.normal(size=(20, 2)) + bits[:, :1]
    many = np.repeat(bits, 10, axis=0) ^ (rng.random((200, 3)) < 0.1)
    mixed = np.column_stack([many[:, 0], many[:, :2] + rng.normal(size=(200, 2))])
    incomplete = np.where(rng.random(many.shape) < 0.1, np.nan, many)
    return {
        "DiscreteMRF": lambda: DiscreteMRF(learner="pcd", **SMALL).fit(bits),
        "DiscreteMRF of a structure learner": lambda: DiscreteMRF(
            MRFStructureLearner(**SMALL), "exact", alpha=0.1
        ).fit(many),
        "DiscreteMRF exact": lambda: DiscreteMRF(learner="exact", alpha=0.1).fit(bits),
        "BoltzmannMachine": lambda: BoltzmannMachine(states=(0, 1), **SMALL).fit(bits),
        "BoltzmannMachine with hidden units": lambda: BoltzmannMachine(
            "parallel-tempering", n_components=2, states=(0, 1), **SMALL
        ).fit(bits),
        "RBM": lambda: RBM(2, **SMALL).fit(bits),
        "RBM, ptt": lambda: RBM(2, "ptt", alpha=0.1, **SMALL).fit(bits),
        "RBM, psmc": lambda: RBM(2, "psmc", alpha=0.1, **SMALL).fit(bits),
        "CRBMStructuredPredictor": lambda: CRBMStructuredPredictor(2, **SMALL).fit(numbers, bits),
        "NNMRFDensity": lambda: NNMRFDensity(NETWORKS, random_state=0).fit(numbers),
        "NNMRFDensity, Gaussian": lambda: NNMRFDensity().fit(numbers),
        "NNMRFBayesClassifier": lambda: NNMRFBayesClassifier(NETWORKS, random_state=0).fit(
            numbers, bits[:, 0]
        ),
        "NNMRFClassifier": lambda: NNMRFClassifier(max_iter=2).fit(numbers, bits[:, 0]),
        "CRF": lambda: CRF().fit([numbers] * 3, [bits[:, 0]] * 3),
        "CRF, Frank-Wolfe": lambda: CRF(learner="ssvm", alpha=0.1, max_iter=2).fit(
            [numbers] * 3, [bits[:, 0]] * 3
        ),
        "CRF of a grid": lambda: CRF("grid", "bp", max_iter=2).fit(
            [numbers.reshape(5, 4, 2)] * 3, [bits[:, 0].reshape(5, 4)] * 3
        ),
        "MRFImputer": lambda: fit_imputer(incomplete),
        "MRFStructureLearner": lambda: MRFStructureLearner(**SMALL).fit(many),
        "MRFStructureLearner, missing entries": lambda: MRFStructureLearner(
            search="removal", **SMALL
        ).fit(incomplete),
        "MRFStructureLearner, nodewise with bootstraps": lambda: MRFStructureLearner(
            search="nodewise", n_bootstraps=2, random_state=0
        ).fit(many),
        "MRFStructureLearner, mixed": lambda: MRFStructureLearner(search="nodewise").fit(mixed),
    }


def fit_imputer(X):
    """Fit the default imputer with few chains and updates, which are slow without compilation."""
    with mock.patch.multiple(_refinement, N_CHAINS=16, N_UPDATES=4):
        MRFImputer().fit(X)


def measure(fit):
    """Return the :class:`Recorder` of a fit."""
    recorder = Recorder()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        sys.setprofile(recorder)
        try:
            fit()
        finally:
            sys.setprofile(None)
    return recorder


def main():
    """Print the number of files on the deepest call stack of each estimator's fit."""
    for name, fit in fits().items():
        found = measure(fit)
        print(f"{name}: {len(set(found.deepest))} files")
        print("   ", " > ".join(found.deepest))
        for file, files in sorted(found.returns.items()):
            print(f"    returns to {file}:", " > ".join(files))


if __name__ == "__main__":
    main()
