"""NNMRFClassifier: a Markov random field with neural potentials for every class."""

import warnings

import numpy as np
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils import assert_all_finite, column_or_1d
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.parallel import Parallel, delayed
from sklearn.utils.validation import check_consistent_length, check_is_fitted, validate_data

from ._encoding import as_columns, known_columns
from ._gaussians import class_shrinkage, pooled_covariance
from ._graphs import edges_of
from ._learned import _unchanged_on_error
from ._mixed import DEGENERATE, categorical_mask, find_columns, warn_degenerate
from ._validation import check_generator, check_number, check_sample_weight
from .learners import completed
from .nnmrf import NNMRFDensity

OWN = "priors", "n_jobs"  # parameters that densities do not take from the classifier


class NNMRFClassifier(ClassifierMixin, BaseEstimator):
    r"""Classifier of numbers and categories by one Markov random field a class.

    Every class has a density :math:`p(x | y)`, a :class:`NNMRFDensity` of its own rows, and rows
    are classified by :math:`p(y | x) \propto p(y) p(x | y)`. Covariances of the classes are shrunk
    towards that of all rows about the means of their classes, as far as Gaussians of that kind
    predict rows left out better, so that classes of a few rows have a density too.

    Parameters
    ----------
    graph, learner, node_layers, edge_layers, base
        Of the densities, see :class:`NNMRFDensity`.
    density, categorical_features, optimizer, learning_rate, penalty, alpha
        Likewise.
    batch_size, max_iter, tol, average, early_stopping, validation_fraction
        Likewise.
    n_iter_no_change, max_bytes
        Likewise.
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
    n_iter_ : int
        Epochs of the class that took most of them.
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
        with _unchanged_on_error(self):
            vars(self).update(self._learned(X, y, sample_weight))
        return self

    def _learned(self, X, y, sample_weight):
        """Fitted attributes."""
        y = self._labels(X, y)
        columns = as_columns(X)
        validate_data(self, X, skip_check_array=True)
        self.n_features_in_ = len(columns)
        names = list(getattr(self, "feature_names_in_", range(len(columns))))
        mask = categorical_mask(self.categorical_features, X, names)
        weights = check_sample_weight(sample_weight, len(y))
        if weights is not None:
            counted = weights > 0
            columns, y, weights = [c[counted] for c in columns], y[counted], weights[counted]
        found = find_columns(columns, names, mask, "auto", weights)
        rows = found.encode(columns)
        classes, labels = np.unique(y, return_inverse=True)
        priors = self._checked_priors(np.bincount(labels, weights=weights))
        _check_classes(rows, labels, classes, found)
        densities = self._densities(rows, labels, weights, found)
        return {
            "classes_": classes,
            "class_prior_": priors,
            "densities_": densities,
            "categories_": found.categories,
            "n_iter_": max(density.n_iter_ for density in densities),
            "_columns": found,
        }

    def _labels(self, X, y):
        if y is None:
            raise ValueError(
                f"{type(self).__name__} requires y to be passed, but the target y is None."
            )
        y = column_or_1d(y, warn=True)
        assert_all_finite(y, input_name="y")
        check_classification_targets(y)
        check_consistent_length(X, y)
        return y

    def _checked_priors(self, counts):
        if self.priors is None:
            return counts / counts.sum()
        try:
            priors = np.asarray(self.priors, dtype=float)
        except (TypeError, ValueError):
            priors = np.zeros(0)
        right = priors.shape == counts.shape and (priors >= 0).all()
        if not right or abs(priors.sum() - 1) > 1e-6:
            raise ValueError(
                f"priors must be {len(counts)} probabilities that sum to 1, one a class; got "
                f"{self.priors!r}."
            )
        return priors / priors.sum()

    def _densities(self, rows, labels, weights, columns):
        """A fitted density for every class."""
        params = {k: v for k, v in self.get_params(deep=False).items() if k not in OWN}
        if not isinstance(self.graph, str):
            params["graph"] = edges_of(self.graph, None, columns.names).tolist()
        params["categorical_features"] = columns.discrete.tolist() or None
        params["categories"] = [np.arange(float(len(c))) for c in columns.categories]
        params |= self._prior(rows[:, columns.numbers], labels, weights)
        seeds = check_generator(self.random_state).integers(2**31, size=labels.max() + 1).tolist()
        tasks = []
        for k, seed in enumerate(seeds):
            here = labels == k
            model = NNMRFDensity(**(params | {"random_state": seed}))
            tasks.append((model, rows[here], None if weights is None else weights[here]))
        return Parallel(n_jobs=self.n_jobs)(delayed(_fitted)(*task) for task in tasks)

    def _prior(self, X, labels, weights):
        """What the covariances of classes are shrunk towards, and how far."""
        weights = np.ones(len(X)) if weights is None else weights
        X, numbers, rng = X.copy(), np.zeros(X.shape[1], int), np.random.default_rng(0)
        for k in range(labels.max() + 1):
            here = labels == k
            X[here] = completed(X[here], numbers, weights[here] / weights[here].sum(), rng)
        pooled = pooled_covariance(X, labels, weights)
        share = class_shrinkage(X, labels, weights, pooled)
        return {"prior_covariance": pooled, "shrinkage": share}

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
        rows = self._columns.encode(known_columns(self, X))
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
        check_is_fitted(self)
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
        wanted = np.asarray(y)
        if wanted.shape not in ((), (n,)):
            raise ValueError(
                f"y must be one class, or as many as n_samples={n}; got shape {wanted.shape}."
            )
        wanted = np.broadcast_to(wanted, (n,))
        known = np.isin(wanted, self.classes_)
        if not known.all():
            odd = wanted[~known].tolist()[0]
            raise ValueError(f"y names class {odd!r}; the classes are {self.classes_.tolist()}.")
        return np.searchsorted(self.classes_, wanted)

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = True
        tags.input_tags.categorical = True
        return tags


def _check_classes(rows, labels, classes, columns):
    """Refuse columns that a class has no entry of; warn of those without a density in it."""
    everywhere = warn_degenerate(rows, columns.numbers, columns.names)
    for k, label in enumerate(classes.tolist()):
        here = rows[labels == k]
        empty = np.flatnonzero(np.isnan(here).all(axis=0))
        if len(empty):
            raise ValueError(
                f"Column {columns.names[empty[0]]!r} has no observed entry in class {label!r}; "
                "drop the column, or fill in what is missing (sklearn.impute)."
            )
        rest = np.setdiff1d(columns.numbers, everywhere)
        warn_degenerate(here, rest, columns.names, f" in class {label!r}")


def _fitted(density, rows, weights):
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message=DEGENERATE)  # columns have no names here
        return density.fit(rows, sample_weight=weights)
