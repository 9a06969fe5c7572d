"""NNMRFClassifier: a Markov random field with neural potentials for every class."""

import numpy as np
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils import column_or_1d
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.parallel import Parallel, delayed
from sklearn.utils.validation import check_consistent_length, check_is_fitted, validate_data

from ._encoding import as_columns
from ._graphs import pooled_covariance
from ._mixed import categorical_mask, encode_rows, find_columns
from ._validation import check_generator, check_number, check_sample_weight
from .nnmrf import NNMRFDensity

OWN = "priors", "n_jobs"  # parameters that densities do not take from the classifier


class NNMRFClassifier(ClassifierMixin, BaseEstimator):
    r"""Classifier of numbers and categories by one Markov random field a class.

    Every class has a density :math:`p(x | y)`, a :class:`NNMRFDensity` of its own rows, and rows
    are classified by :math:`p(y | x) \propto p(y) p(x | y)`. Covariances of the classes are shrunk
    towards that of all rows about the means of their classes, as far as that predicts rows left
    out better, so that classes of a few rows have a density too.

    Parameters
    ----------
    graph, learner, node_layers, edge_layers, base, density, categorical_features, optimizer, \
learning_rate, penalty, alpha, batch_size, max_iter, tol, average, early_stopping, \
validation_fraction, n_iter_no_change, max_bytes
        Of the densities: see :class:`NNMRFDensity`.
    priors : array-like of shape (n_classes,), optional
        Probabilities of the classes, in the order of ``classes_``; by default their shares.
    n_jobs : int, optional
        Classes learned at once.
    random_state : int, RandomState, Generator or None

    Attributes
    ----------
    classes_ : ndarray
    class_prior_ : ndarray of shape (n_classes,)
    densities_ : list of NNMRFDensity
        One a class, of rows whose numbers are standardised over all classes and whose categories
        are their positions in ``categories_``.
    categories_ : list of ndarray
        Of the columns that hold categories.
    n_features_in_, feature_names_in_

    See Also
    --------
    NNMRFDensity
    sklearn.discriminant_analysis.QuadraticDiscriminantAnalysis : Gaussian classes.

    References
    ----------
    H. Xiong and N. Ruozzi, "General purpose MRF learning with neural network potentials", IJCAI
    2020, section 4.2.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from skmrf import NNMRFClassifier
    >>> X, y = load_iris(return_X_y=True)
    >>> model = NNMRFClassifier(max_iter=50, random_state=0).fit(X, y)
    >>> bool(model.score(X, y) > 0.95)
    True
    """

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
        alpha="auto",
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
        """Learn a density for every class.

        Parameters
        ----------
        X : array-like or frame of shape (n_samples, n_features)
            Numbers and categories; nan and None are missing entries.
        y : array-like of shape (n_samples,)
        sample_weight : array-like of shape (n_samples,), optional

        Returns
        -------
        self

        Raises
        ------
        ValueError
            Infinities, text that is not named in ``categorical_features``, a column without any
            entry in one of the classes, priors that are no probabilities of the classes.
        """
        y = self._labels(X, y)
        columns = as_columns(X)
        validate_data(self, X, skip_check_array=True)
        self.n_features_in_ = len(columns)
        names = list(getattr(self, "feature_names_in_", range(len(columns))))
        weights = check_sample_weight(sample_weight, len(y))
        mask = categorical_mask(self.categorical_features, X, names)
        found = find_columns(columns, names, mask, "auto", weights)
        rows = found.encode(columns)
        if weights is not None:
            rows, y, weights = rows[weights > 0], y[weights > 0], weights[weights > 0]
        classes, labels = np.unique(y, return_inverse=True)
        counts = np.bincount(labels, weights=weights)
        priors = self._checked_priors(counts)
        densities = self._densities(rows, labels, weights, found)
        self.classes_, self.class_prior_, self.densities_ = classes, priors, densities
        self.categories_, self._columns = found.categories, found
        return self

    def _labels(self, X, y):
        if y is None:
            raise ValueError(
                f"{type(self).__name__} requires y to be passed, but the target y is None."
            )
        check_classification_targets(y)
        y = column_or_1d(y, warn=True)
        check_consistent_length(X, y)
        return y

    def _checked_priors(self, counts):
        if self.priors is None:
            return counts / counts.sum()
        priors = np.asarray(self.priors, dtype=float)
        if priors.shape != counts.shape or (priors < 0).any() or abs(priors.sum() - 1) > 1e-6:
            raise ValueError(
                f"priors must be {len(counts)} probabilities that sum to 1, one a class; got "
                f"{self.priors!r}."
            )
        return priors

    def _densities(self, rows, labels, weights, columns):
        """A fitted density for every class."""
        params = {k: v for k, v in self.get_params(deep=False).items() if k not in OWN}
        params["categorical_features"] = columns.discrete.tolist() or None
        params["categories"] = [np.arange(float(len(c))) for c in columns.categories]
        params["prior_covariance"] = pooled_covariance(rows[:, columns.numbers], labels, weights)
        seeds = check_generator(self.random_state).integers(2**31, size=labels.max() + 1).tolist()
        tasks = []
        for k, seed in enumerate(seeds):
            here = labels == k
            model = NNMRFDensity(**(params | {"random_state": seed}))
            tasks.append((model, rows[here], None if weights is None else weights[here]))
        return Parallel(n_jobs=self.n_jobs)(delayed(_fitted)(*task) for task in tasks)

    # Queries ------------------------------------------------------------------------------

    def predict_joint_log_proba(self, X):
        """Log of ``p(x, y)``: densities are in nats and the units of the columns.

        Parameters
        ----------
        X : array-like or frame of shape (n_samples, n_features)
            Missing entries are integrated out.

        Returns
        -------
        ndarray of shape (n_samples, n_classes)
        """
        check_is_fitted(self)
        rows = encode_rows(self, self._columns, X)
        logs = np.stack([density.score_samples(rows) for density in self.densities_], axis=1)
        with np.errstate(divide="ignore"):
            return logs + np.log(self.class_prior_) - self._columns.log_volume(rows)[:, None]

    def score_samples(self, X):
        """Log density of rows, ``log p(x)``, shape (n_samples,)."""
        return np.logaddexp.reduce(self.predict_joint_log_proba(X), axis=1)

    def predict_log_proba(self, X):
        """Log of ``p(y | x)``, shape (n_samples, n_classes)."""
        joint = self.predict_joint_log_proba(X)
        return joint - np.logaddexp.reduce(joint, axis=1, keepdims=True)

    def predict_proba(self, X):
        """``p(y | x)``, shape (n_samples, n_classes)."""
        return np.exp(self.predict_log_proba(X))

    def predict(self, X):
        """The most probable class of every row."""
        return self.classes_[np.argmax(self.predict_joint_log_proba(X), axis=1)]

    def sample(self, n_samples=1, *, y=None, random_state=None):
        """Draw rows.

        Parameters
        ----------
        n_samples : int, default=1
        y : label, or array-like of shape (n_samples,), optional
            Classes of the rows; by default drawn by ``class_prior_``.
        random_state : int, RandomState, Generator or None

        Returns
        -------
        ndarray of shape (n_samples, n_features)
        """
        check_is_fitted(self)
        check_number("n_samples", n_samples, low=1, integer=True)
        rng = check_generator(random_state)
        labels = self._drawn_labels(n_samples, y, rng)
        rows = np.empty((n_samples, self.n_features_in_))
        for k in np.unique(labels):
            here = labels == k
            rows[here] = self.densities_[k].sample(int(here.sum()), random_state=rng)
        return self._columns.decode(rows)

    def _drawn_labels(self, n, y, rng):
        if y is None:
            return rng.choice(len(self.classes_), size=n, p=self.class_prior_)
        wanted = np.broadcast_to(np.asarray(y), (n,))
        known = np.isin(wanted, self.classes_)
        if not known.all():
            raise ValueError(
                f"y names class {wanted[~known][0]!r}; the classes are {self.classes_.tolist()}."
            )
        return np.searchsorted(self.classes_, wanted)

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = True
        tags.input_tags.categorical = True
        return tags


def _fitted(density, rows, weights):
    return density.fit(rows, sample_weight=weights)
