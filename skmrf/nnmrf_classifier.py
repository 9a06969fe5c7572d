"""NNMRFClassifier: one Markov random field a class, and Bayes' rule."""

import numpy as np
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.parallel import Parallel, delayed
from sklearn.utils.validation import check_is_fitted, validate_data

from ._encoding import as_columns
from ._graphs import shrunk_covariance
from ._mixed import categorical_mask, find_columns
from ._types import logsumexp
from ._validation import check_generator, check_sample_weight
from .nnmrf import LEAST_VARIANCE, NNMRFDensity


class NNMRFClassifier(ClassifierMixin, BaseEstimator):
    def __init__(
        self,
        graph="complete",
        learner="variational",
        *,
        node_layers=(8, 8),
        edge_layers=(8, 8),
        base="gaussian",
        density="mixture",
        categorical_features="from_dtype",
        priors=None,
        optimizer="auto",
        learning_rate="adaptive",
        penalty="l2",
        alpha=0.0,
        batch_size=100,
        max_iter=None,
        tol=1e-6,
        average=True,
        early_stopping="auto",
        validation_fraction=0.1,
        n_iter_no_change=5,
        max_bytes=4 * 2**30,
        n_jobs=None,
        random_state=None,
    ):
        self.graph = graph
        self.learner = learner
        self.node_layers = node_layers
        self.edge_layers = edge_layers
        self.base = base
        self.density = density
        self.categorical_features = categorical_features
        self.priors = priors
        self.optimizer = optimizer
        self.learning_rate = learning_rate
        self.penalty = penalty
        self.alpha = alpha
        self.batch_size = batch_size
        self.max_iter = max_iter
        self.tol = tol
        self.average = average
        self.early_stopping = early_stopping
        self.validation_fraction = validation_fraction
        self.n_iter_no_change = n_iter_no_change
        self.max_bytes = max_bytes
        self.n_jobs = n_jobs
        self.random_state = random_state

    def fit(self, X, y, sample_weight=None):
        columns = as_columns(X)
        X, y = validate_data(self, X, y, skip_check_array=True)
        self.n_features_in_ = len(columns)
        y = np.asarray(y)
        check_classification_targets(y)
        names = list(getattr(self, "feature_names_in_", range(len(columns))))
        mask = categorical_mask(self.categorical_features, X, names)
        found = find_columns(columns, names, mask, "auto")
        codes = found.encode(columns)
        self.classes_, labels = np.unique(y, return_inverse=True)
        seeds = check_generator(self.random_state).integers(2**31, size=len(self.classes_))
        params = self.get_params(deep=False)
        params = {k: v for k, v in params.items() if k not in ("priors", "n_jobs")}
        Z = codes[:, found.numbers]
        pooled = self._pooled(Z, labels) 
        raw = np.array([c for c in codes.T]).T
        raw[:, found.numbers] = Z
        models = []
        for k in range(len(self.classes_)):
            p = dict(params, categorical_features=found.discrete.tolist() or None,
                     categories=[np.arange(len(c), dtype=float) for c in found.categories],
                     prior_covariance=pooled, random_state=int(seeds[k]))
            models.append((NNMRFDensity(**p), raw[labels == k]))
        self.densities_ = Parallel(n_jobs=self.n_jobs)(delayed(_fit)(m, rows) for m, rows in models)
        self._columns = found
        counts = np.bincount(labels)
        self.class_prior_ = counts / counts.sum() if self.priors is None else np.asarray(self.priors)
        return self

    def _pooled(self, Z, labels):
        Z = np.where(np.isnan(Z), 0, Z)
        R = Z.copy()
        for k in np.unique(labels):
            R[labels == k] -= Z[labels == k].mean(0)
        w = np.full(len(R), 1 / len(R))
        t = np.diag(R.var(0)) + LEAST_VARIANCE * np.eye(R.shape[1])
        return shrunk_covariance(R, w, t)[1]

    def _codes(self, X):
        return self._columns.encode(as_columns(X))

    def predict_joint_log_proba(self, X):
        check_is_fitted(self)
        codes = self._codes(X)
        logs = np.stack([m.score_samples(codes) for m in self.densities_], 1) - self._columns.log_volume(codes)[:, None]
        return logs + np.log(self.class_prior_)

    def score_samples(self, X):
        return np.logaddexp.reduce(self.predict_joint_log_proba(X), axis=1)

    def predict_log_proba(self, X):
        j = self.predict_joint_log_proba(X)
        return j - np.logaddexp.reduce(j, axis=1)[:, None]

    def predict_proba(self, X):
        return np.exp(self.predict_log_proba(X))

    def predict(self, X):
        return self.classes_[self.predict_joint_log_proba(X).argmax(1)]


def _fit(model, rows):
    return model.fit(rows)
