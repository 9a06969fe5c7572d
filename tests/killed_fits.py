"""Callback that ends a fit with an error, for the tests of checkpoints."""

import numpy as np

from skmrf import (
    DiscreteMRF,
    MRFStructureLearner,
    NetworkPotentials,
    NNMRFBayesClassifier,
    NNMRFClassifier,
)


class Killed(BaseException):
    """Error that ends a fit; no code of the package catches it."""


class Killer:
    """Callback that ends a fit with an error after some epochs."""

    def __init__(self, n_epochs, error=Killed):
        self.n_epochs = n_epochs
        self.error = error

    def setup(self, estimator, context):
        self.left = self.n_epochs

    def teardown(self, estimator, context):
        pass

    def on_fit_task_begin(self, estimator, context):
        pass

    def on_fit_task_end(self, estimator, context):
        self.left -= 1
        if not self.left:
            raise self.error

    def fail(self, *_, **__):
        raise self.error


def table(seed, n_rows=120):
    rng = np.random.default_rng(seed)
    X = rng.integers(2, size=(n_rows, 5))
    X[:, 1] ^= X[:, 0] & rng.integers(2, size=n_rows)
    return X


X = table(0)
HOLES = np.where(np.random.default_rng(1).random(X.shape) < 0.1, np.nan, X)
SMALL = {"max_iter": 6, "batch_size": 40, "random_state": 0}


def table_model(cliques="pairwise", **options):
    """Return a DiscreteMRF with few epochs, by default of PCD without a penalty."""
    return DiscreteMRF(cliques, **{"learner": "pcd", "alpha": 0.0} | SMALL | options)


NUMBERS = np.random.default_rng(0).normal(size=(60, 2))
LABELS = (NUMBERS[:, 0] + 0.5 * np.random.default_rng(2).normal(size=60) > 0).astype(int)

GRAPHS = [
    (MRFStructureLearner("exact", n_bootstraps=4, random_state=0), (X,)),
    (MRFStructureLearner("pcd", n_bootstraps=4, max_iter=5, random_state=0), (HOLES[:, :3],)),
]
CLASSES = [
    NNMRFBayesClassifier(
        NetworkPotentials(node_layers=(3,), edge_layers=(3,), max_iter=3), random_state=0
    ),
    NNMRFClassifier(max_iter=3, random_state=0),
]
