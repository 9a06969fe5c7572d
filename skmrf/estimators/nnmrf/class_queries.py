"""Predictions, scores and samples of classifiers with one density for each class."""

from copy import copy

import numpy as np
from sklearn.base import ClassifierMixin, clone
from sklearn.utils.validation import check_is_fitted

from ..._utils.parameters import check_choice, check_generator, check_number
from .._base import LearnedEstimator
from .potentials import DENSITIES, make_potentials


class DensityClassifier(ClassifierMixin, LearnedEstimator):
    """Base class of classifiers with one density for each class.

    A subclass has the parameter ``potentials``. Its method ``fit`` sets the attributes that queries
    need: ``classes_``, ``class_prior_``, ``densities_`` and the encoding of the columns
    ``_columns``.
    """

    @property
    def _networks(self):
        """Parameters of the networks of all classes."""
        return make_potentials(self.potentials, type(self).__name__, ("network",))

    def predict_joint_log_proba(self, X):
        """Return ``log p(x, y)``, which is ``log p(y) + log p(x | y)``, of each row and class.

        Parameters
        ----------
        X : array-like or frame of shape (n_samples, n_features)
            Rows of numbers and categories. Missing entries (nan, None or NA) are integrated out.

        Returns
        -------
        ndarray of shape (n_samples, n_classes)
            Log-densities in nats and in the units of the columns. Classes are in the order of
            ``classes_``.
        """
        rows = self._encode(X)
        return self._log_joint(rows) - self._columns.log_scale(rows)[:, None]

    def score_samples(self, X):
        """Return the log-density ``log p(x)`` of each row under the mixture of class densities.

        Parameters
        ----------
        X : array-like or frame of shape (n_samples, n_features)
            Rows of numbers and categories. Missing entries (nan, None or NA) are integrated out.

        Returns
        -------
        ndarray of shape (n_samples,)
            Log-densities in nats and in the units of the columns.
        """
        rows = self._encode(X)
        return np.logaddexp.reduce(self._log_joint(rows), axis=1) - self._columns.log_scale(rows)

    def predict_log_proba(self, X):
        """Return ``log p(y | x)`` of each row and each class.

        Parameters
        ----------
        X : array-like or frame of shape (n_samples, n_features)
            Rows of numbers and categories. nan, None and NA are missing entries.

        Returns
        -------
        ndarray of shape (n_samples, n_classes)
            Log-probabilities in nats. Classes are in the order of ``classes_``.
        """
        logs = self._log_joint(self._encode(X))
        return logs - np.logaddexp.reduce(logs, axis=1, keepdims=True)

    def _encode(self, X):
        """Return the rows encoded as in ``fit``: standardised numbers and state codes."""
        check_is_fitted(self)
        return self._columns.encode(self._columns.read(self, X))

    def _log_joint(self, rows):
        """Return ``log p(x, y)`` of encoded rows for each class, shape (n_rows, n_classes)."""
        with np.errstate(divide="ignore"):
            return _class_log_joint(self._current_densities(), np.log(self.class_prior_), rows)

    def _current_densities(self):
        """Return the densities of the classes, with the current ``density`` of the networks."""
        kind = check_choice("density", self._networks.density, DENSITIES)
        return [_with_density(density, kind) for density in self.densities_]

    def predict_proba(self, X):
        """Return the probability ``p(y | x)`` of each class for each row.

        Parameters
        ----------
        X : array-like or frame of shape (n_samples, n_features)
            Rows of numbers and categories. nan, None and NA are missing entries.

        Returns
        -------
        ndarray of shape (n_samples, n_classes)
            Probabilities. Classes are in the order of ``classes_``.
        """
        return np.exp(self.predict_log_proba(X))

    def predict(self, X):
        """Return the most probable class of each row.

        Parameters
        ----------
        X : array-like or frame of shape (n_samples, n_features)
            Rows of numbers and categories. nan, None and NA are missing entries.

        Returns
        -------
        ndarray of shape (n_samples,)
            Predicted class labels.
        """
        best = np.argmax(self.predict_log_proba(X), axis=1)
        return self.classes_[best]

    def sample(self, n_samples=1, *, y=None, random_state=None):
        """Draw samples from the densities of the classes.

        Parameters
        ----------
        n_samples : int, default=1
            Number of rows to draw.
        y : label, or array-like of shape (n_samples,), optional
            Class of all rows, or of each row. By default classes are drawn with the probabilities
            ``class_prior_``.
        random_state : int, RandomState, Generator or None, default=None
            Random numbers of the draws. An int makes the result reproducible.

        Returns
        -------
        ndarray or frame of shape (n_samples, n_features)
            Drawn rows, in the units and with the categories of the training rows. They are a frame
            with the columns' data types if the training rows were a frame.
        """
        check_is_fitted(self)
        check_number("n_samples", n_samples, low=1, integer=True)
        rng = check_generator(random_state)
        labels = self._draw_labels(n_samples, y, rng)
        rows, densities = np.empty((n_samples, self.n_features_in_)), self._current_densities()
        for k in np.unique(labels):
            here = labels == k
            rows[here] = densities[k].sample(int(here.sum()), random_state=rng)
        return self._to_frame(self._columns.decode(rows))

    def _draw_labels(self, n, y, rng):
        if y is None:
            return rng.choice(len(self.classes_), size=n, p=self.class_prior_)
        labels = np.asarray(y)
        if labels.shape not in ((), (n,)):
            raise ValueError(
                f"y must be one class, or n_samples={n} classes; got shape {labels.shape}."
            )
        labels = np.broadcast_to(labels, (n,))
        is_known = np.isin(labels, self.classes_)
        if not is_known.all():
            unknown = labels[~is_known].tolist()[0]
            raise ValueError(
                f"y has the class {unknown!r}, which was not seen during fit; the classes are "
                f"{self.classes_.tolist()}."
            )
        return np.searchsorted(self.classes_, labels)


def _with_density(model, kind):
    """Return a fitted model that scores and samples a kind of density; the model is not changed."""
    if model.potentials.density == kind:
        return model
    networks = clone(model.potentials).set_params(density=kind)
    return copy(model).set_params(potentials=networks)


def _class_log_joint(densities, log_prior, rows):
    """Return ``log p(x, y)`` of each row and each class, shape (n_rows, n_classes)."""
    if not len(rows):
        return np.empty((0, len(densities)))
    return np.stack([density.score_samples(rows) for density in densities], axis=1) + log_prior
