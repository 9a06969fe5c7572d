"""What all estimators that are trained share."""

from contextlib import contextmanager

from sklearn.base import BaseEstimator
from sklearn.callback import CallbackSupportMixin

from .._data.frames import column_names
from ..energies import Energy
from ..learners import Learner
from ..learners.registry import make_learner
from ..training import checkpoints


class LearnedEstimator(CallbackSupportMixin, BaseEstimator):
    """Estimator that learns an energy with a learner of :mod:`skmrf.learners`.

    A subclass has a parameter ``learner`` and its own ``fit``, a sequence of the functions and
    objects in the modules beside this one. It overrides no method of this class.
    """

    _checkpoint = checkpoints.NoCheckpoint()  # a callback puts another one here during a fit
    _energy_type = Energy  # of the energies that it learns
    _learner_kind = Learner  # superclass of the learners that it takes
    _doc_link_module = "skmrf"
    _doc_link_template = (
        "https://skmrf.readthedocs.io/en/stable/api/generated/skmrf.{estimator_name}.html"
    )

    def _check_learner(self):
        """Return the learner, if this estimator takes it."""
        return make_learner(
            self.learner, self._energy_type, kind=self._learner_kind, owner=type(self).__name__
        )

    def _column_names(self):
        """Return the names of the columns that the estimator was fitted to, or their positions."""
        return column_names(self)


@contextmanager
def unchanged_on_error(estimator):
    """Restore what a fit has set on the estimator if the fit fails."""
    before = dict(vars(estimator))
    try:
        yield
    except BaseException:
        for name in ("n_features_in_", "feature_names_in_", "structure_"):
            vars(estimator).pop(name, None)
            if name in before:
                vars(estimator)[name] = before[name]
        raise
