"""Queries of densities of tables, and of classifiers with one density for each class."""

from copy import copy

import numpy as np
from scipy.special import log_softmax
from sklearn.base import clone
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import check_is_fitted

from ..._data.categories import to_floats
from ..._data.classes import cell_points
from ..._data.column_types import hide_unseen, score_unseen
from ..._data.mixed import restore_numbers
from ..._data.transforms import ColumnTransform, TransformedColumns
from ..._utils.parameters import check_choice, check_generator, check_number
from .._base import TableClassifier
from .._density import EnergyEstimator
from .._session import fitted_attributes
from .gaussian_potentials import conditional_marginals
from .potentials import DENSITIES, GaussianPotentials, make_potentials

IDENTITY_SOFTNESS = 1e60  # of a transform without curvature


def identity_encoder(columns):
    """Return an encoder of rows that ``columns`` has encoded already."""
    same = ColumnTransform(softness=IDENTITY_SOFTNESS)
    transforms = dict.fromkeys(columns.continuous.tolist(), same)
    types = np.where(columns.n_states, "categorical", "continuous").tolist()
    categories = [np.arange(float(len(c))) for c in columns.categories]
    return TransformedColumns(list(columns.names), types, transforms, categories)


def set_mixture(model, columns, mixture):
    """Set the fitted attributes of a density with Gaussian potentials; return the density.

    Parameters
    ----------
    model : NNMRFDensity
        Density without fitted attributes.
    columns : TransformedColumns
        Encoder of the rows.
    mixture : Mixture
        Distribution of the encoded rows.

    Returns
    -------
    NNMRFDensity
        The density.
    """
    fitted = fitted_attributes(None, history={"epoch": [1], "n_updates": [1]}, n_iter=1)
    del fitted["energy_"]
    vars(model).update(fitted)
    model.mixture_, model._columns, model._interrupted = mixture, columns, False
    model.categories_, model.column_types_ = columns.categories, columns.types
    model.n_features_in_ = len(columns.names)
    return model


def _check_levels(quantiles):
    """Return probabilities as an array; raise a ValueError unless they are between 0 and 1."""
    levels = np.asarray(quantiles, dtype=float)
    if levels.ndim != 1 or not ((levels > 0) & (levels < 1)).all():
        raise ValueError(
            f"quantiles must be a list of probabilities between 0 and 1; got {quantiles!r}."
        )
    return levels


def _has_gaussians(model):
    """Return True if a model was fitted with Gaussian potentials, or will be by its first fit."""
    if "mixture_" in vars(model):
        return model._is_gaussian
    return isinstance(make_potentials(model.potentials, type(model).__name__), GaussianPotentials)


class TableDensity(EnergyEstimator):
    """Base class of densities of tables, with samples, imputation and conditional marginals.

    A subclass has the parameter ``potentials``, and the fitted attributes ``mixture_`` and
    ``_columns``. With neural networks it also has ``energy_``.
    """

    def sample(self, n_samples=1, *, given=None, random_state=None):
        """Draw samples of the model, also with given values of some columns.

        Parameters
        ----------
        n_samples : int, default=1
            Number of rows to draw.
        given : dict, or array-like or frame of one or n_samples rows, optional
            Observed entries: ``{column: value}``, or rows with nan or None for the entries to draw.
            By default all entries are drawn.
        random_state : int, RandomState, Generator or None, default=None
            Random numbers of the draws. An int makes the result reproducible.

        Returns
        -------
        ndarray of shape (n_samples, n_features)
            With ``potentials="gaussian"`` or ``density="mixture"``, independent draws from the
            mixture. With neural networks and ``density="mrf"``, each row is chosen from 100 draws
            from the mixture by its importance weight. This is approximately a draw from the model
            if the mixture is close to it.
        """
        return super().sample(n_samples, given=given, random_state=random_state)

    def _draw(self, codes, rng):
        return self._impute(codes, "sample", rng)

    def _with_given(self, rows, given):
        """Return drawn rows with the given numbers, which have rounding errors when decoded."""
        if given is None:
            return rows
        is_dict, encoder = isinstance(given, dict), self._columns
        columns = list(self._given_row(given).T) if is_dict else encoder.read(self, given)
        columns = [np.broadcast_to(column, len(rows)) for column in columns]
        return restore_numbers(rows, columns, encoder)

    def predict(self, X):
        """Impute missing entries by the most probable values given the observed entries of a row.

        Parameters
        ----------
        X : array-like or frame of shape (n_samples, n_features)
            Rows of numbers and categories with missing entries (nan, None or NA).

        Returns
        -------
        ndarray or frame of shape (n_samples, n_features)
            Complete rows: conditional medians and the most probable categories or, with
            ``potentials="network"``, the best of the conditional means of the mixture's components.
            With ``potentials="gaussian"``, an observed number of a column with bounds that is far
            outside the training rows has the same effect as a number near the training rows.
            They are a frame with the columns' data types if the training rows were a frame.
        """
        codes = self._impute(self._encode(X), "mode")
        encoder = self._columns
        rows, observed = encoder.decode(codes), encoder.read(self, X)
        return self._to_frame(restore_numbers(rows, observed, encoder), X)

    @available_if(_has_gaussians)
    def marginals(self, X, *, quantiles=(0.05, 0.5, 0.95)):
        """Return the distribution of each entry, given the observed entries of its row.

        Parameters
        ----------
        X : array-like or frame of shape (n_samples, n_features)
            Rows of numbers and categories. Missing entries are nan, None or NA.
        quantiles : array-like of shape (n_quantiles,), default=(0.05, 0.5, 0.95)
            Probabilities of the quantiles of numeric columns, between 0 and 1.

        Returns
        -------
        list of ndarray
            One array per column. For a column with categories, it has the probabilities of
            ``categories_``, shape (n_samples, n_categories). For a numeric column, it has the
            quantiles in the units of the column, shape (n_samples, n_quantiles). The quantiles of
            an observed entry are its value.
        """
        check_is_fitted(self)
        levels = _check_levels(quantiles)
        found = conditional_marginals(self.mixture_, self._columns, self._encode(X), levels)
        columns = self._columns.read(self, X)
        for j in self._columns.transforms:
            x = to_floats(columns[j], self._columns.names[j])
            is_observed = ~np.isnan(x)
            found[j][is_observed] = columns[j][is_observed, None].astype(float)
        return found

    @property
    def _is_gaussian(self):
        return "energy_" not in vars(self)

    @property
    def _encoder(self):
        return self._columns

    def __sklearn_tags__(self):
        """Return the scikit-learn tags of the estimator."""
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = True
        tags.input_tags.categorical = True
        return tags


class DensityClassifier(TableClassifier):
    """Base class of classifiers with one density for each class.

    A subclass has the parameter ``potentials``. Its method ``fit`` sets the attributes that queries
    need: ``classes_``, ``class_prior_``, ``densities_``, the encoding of the columns
    ``_columns`` and the widths of the cells of rounded columns ``_cells``.
    """

    @property
    def _networks(self):
        """Parameters of the networks of all classes."""
        names = type(self).__name__, ("network",), ("auto", "gaussian")
        return make_potentials(self.potentials, *names)

    def predict_joint_log_proba(self, X):
        """Return ``log p(x, y)``, which is ``log p(y) + log p(x | y)``, of each row and class.

        Parameters
        ----------
        X : array-like or frame of shape (n_samples, n_features)
            Rows of numbers and categories. Missing entries (nan, None or NA) are integrated out.
            A category that is not among detected categories has the probability of one training
            row in each class, with a warning.

        Returns
        -------
        ndarray of shape (n_samples, n_classes)
            Log-densities in nats and in the units of the columns. Classes are in the order of
            ``classes_``.
        """
        check_is_fitted(self)
        rows, encoder = self._columns.read(self, X), self._columns
        with np.errstate(divide="ignore"):
            parts = self._current_densities(), np.log(self.class_prior_)
        unseen, rows = score_unseen(encoder, rows), hide_unseen(encoder, rows)
        logs = []
        for columns in cell_points(rows, encoder, self._cells):
            codes = encoder.encode(columns)
            logs.append(class_log_joint(*parts, codes) - encoder.log_scale(codes)[:, None])
        return np.logaddexp.reduce(logs) - np.log(len(logs)) + unseen[:, None]

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
        return np.logaddexp.reduce(self.predict_joint_log_proba(X), axis=1)

    def predict_log_proba(self, X):
        """Return ``log p(y | x)`` of each row and each class.

        Parameters
        ----------
        X : array-like or frame of shape (n_samples, n_features)
            Rows of numbers and categories. nan, None and NA are missing entries. A category that
            was not seen during fit counts as missing, with a warning. It raises a ValueError if
            the type or the categories of its column are given or declared.

        Returns
        -------
        ndarray of shape (n_samples, n_classes)
            Log-probabilities in nats. Classes are in the order of ``classes_``.
        """
        return log_softmax(self.predict_joint_log_proba(X), axis=1)

    def _current_densities(self):
        """Return the densities of the classes, with the current ``density`` of the networks."""
        kind = check_choice("density", self._networks.density, DENSITIES)
        return [_with_density(density, kind) for density in self.densities_]

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
    if model._is_gaussian or model.potentials.density == kind:
        return model
    networks = clone(model.potentials).set_params(density=kind)
    return copy(model).set_params(potentials=networks)


def class_log_joint(densities, log_prior, rows):
    """Return ``log p(x, y)`` of each row and each class, shape (n_rows, n_classes)."""
    if not len(rows):
        return np.empty((0, len(densities)))
    return np.stack([density.score_samples(rows) for density in densities], axis=1) + log_prior
