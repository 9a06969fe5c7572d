"""Base class of the estimators that learn an energy."""

from contextlib import contextmanager

import numpy as np
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.callback import CallbackSupportMixin

from .._data.frame_types import frame_index
from .._data.frames import column_names
from ..energies import Energy
from ..learners import Learner
from ..learners.registry import make_learner
from ..training import checkpoints

RUN_PARAMETERS = "n_jobs", "verbose", "random_state"  # of sub-estimators; models can have others


class NestedEstimator(BaseEstimator):
    """Base class of estimators with parameters that may be strings or objects with parameters."""

    def set_params(self, **params):
        """Set parameters of this estimator.

        Parameters
        ----------
        **params
            Values of parameters. A name such as ``learner__n_chains`` is a parameter of the object
            ``learner``.

        Returns
        -------
        self
            This estimator.

        Raises
        ------
        ValueError
            If there is no parameter of this name, or if a name such as ``learner__n_chains`` is
            given while ``learner`` has no parameters, such as a string or None.
        """
        for name in params:
            part, _, option = name.partition("__")
            value = params.get(part, vars(self).get(part, self))
            if option and not hasattr(value, "set_params"):
                raise ValueError(
                    f"{name} needs an object {part} with parameters, but {part} is {value!r}. "
                    f"First set {part} to an instance of its class."
                )
        return super().set_params(**params)


class LearnedEstimator(CallbackSupportMixin, NestedEstimator):
    """Base class of estimators that learn an energy with a learner of :mod:`skmrf.learners`.

    A subclass has its own method ``fit``. It overrides no method of this class. Only an estimator
    with the parameter ``learner`` uses :meth:`_check_learner`, ``_energy_type`` and
    ``_learner_kind``.
    """

    _checkpoint = checkpoints.NoCheckpoint()  # a callback replaces it during a fit
    _energy_type = Energy  # class of the energy that the estimator learns
    _learner_kind = Learner  # base class of the learners that the estimator accepts
    _doc_link_module = "skmrf"
    _doc_link_template = (
        "https://skmrf.readthedocs.io/en/stable/api/generated/skmrf.{estimator_name}.html"
    )

    def _check_learner(self, others=()):
        """Return the learner object; raise an error if this estimator cannot use it.

        The error message also lists ``others``, names that the estimator itself accepts.
        """
        return make_learner(
            self.learner, self._energy_type, kind=self._learner_kind, owner=type(self).__name__,
            others=others,
        )  # fmt: skip

    def _column_names(self):
        """Return the column names seen during fit, or 0, 1, 2, ... if there are no names."""
        return column_names(self)

    def _to_frame(self, values, X=None):
        """Return rows as a frame with the data types of ``fit``, if it was given a frame.

        Otherwise the rows are returned unchanged. ``X`` is the table that has the index of the
        rows, if they have one.
        """
        frame_type = vars(self).get("_frame_type")
        return values if frame_type is None else frame_type.build(values, frame_index(X))


class TableClassifier(ClassifierMixin, LearnedEstimator):
    """Base class of classifiers of mixed tables, which have the method ``predict_log_proba``."""

    def predict_proba(self, X):
        """Return the probability ``p(y | x)`` of each class for each row.

        Parameters
        ----------
        X : array-like or frame of shape (n_samples, n_features)
            Rows of numbers and categories. nan, None and NA are missing entries.
            :meth:`predict_log_proba` describes categories that were not seen during fit.

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
            :meth:`predict_log_proba` describes categories that were not seen during fit.

        Returns
        -------
        ndarray of shape (n_samples,)
            Predicted class labels.
        """
        best = np.argmax(self.predict_log_proba(X), axis=1)
        return self.classes_[best]

    def __sklearn_tags__(self):
        """Return the scikit-learn tags of the estimator."""
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = True
        tags.input_tags.categorical = True
        return tags


@contextmanager
def unchanged_on_error(estimator):
    """Restore column names, their number and ``structure_`` if the estimator's ``fit`` fails."""
    before = dict(vars(estimator))
    try:
        yield
    except BaseException:
        for name in ("n_features_in_", "feature_names_in_", "_frame_type", "structure_"):
            vars(estimator).pop(name, None)
            if name in before:
                vars(estimator)[name] = before[name]
        raise


def hash_parameters(estimator, names):
    """Return a dict with a hash of each of the named parameters, for later comparisons."""
    return {name: _hash_parameter(getattr(estimator, name)) for name in names}


def _hash_parameter(value):
    if isinstance(value, BaseEstimator):
        given = value.get_params(deep=False).items()
        value = type(value).__name__, {k: v for k, v in given if k not in RUN_PARAMETERS}
    return checkpoints.hash_value(value)


def check_same_parameters(estimator, hashes):
    """Raise a ValueError if a parameter has changed since :func:`hash_parameters`."""
    for name, now in hash_parameters(estimator, hashes).items():
        if now != hashes[name]:
            raise ValueError(
                f"Training cannot continue with another value of {name} than in the previous fit. "
                "Start anew with fit and warm_start=False."
            )
