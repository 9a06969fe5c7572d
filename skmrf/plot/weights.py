"""Plots of learned weights: images of hidden units, label transitions and features of a CRF."""

import numpy as np
from scipy import sparse

from .._utils.parameters import check_choice, check_number
from ..estimators.crbm import CRBMStructuredPredictor
from ..estimators.crf import CRF
from ..estimators.rbm import RBM
from ._axes import (
    BLUE,
    VERMILION,
    check_estimator,
    format_count,
    get_panel_axes,
    get_single_axes,
    hide_frame,
)

SORTS = ("norm", "activity")
SCALE_QUANTILE = 0.995  # fraction of the absolute weights inside the colour scale


class FiltersDisplay:
    """Plot of the weights of hidden units as a grid of images.

    A filter is the image of the weights between one hidden unit and all visible units.

    Parameters
    ----------
    filters : array-like of shape (n_filters, height, width)
        Weights in nats, in the order of the plot, row by row.
    units : array-like of shape (n_filters,)
        Index of the hidden unit of each filter.

    Attributes
    ----------
    ax_ : Axes
        Axes of the plot.
    figure_ : Figure
        Figure that contains the axes.
    image_ : AxesImage
        All filters in one image, with nan between the filters.
    colorbar_ : Colorbar
        Colour scale of the weights.

    Examples
    --------
    >>> import matplotlib
    >>> matplotlib.use("Agg")
    >>> import numpy as np
    >>> from skmrf import RBM
    >>> from skmrf.plot import FiltersDisplay
    >>> bars = np.kron(np.eye(3, dtype=int), np.ones(3, dtype=int))
    >>> model = RBM(4, "exact", max_iter=20, random_state=0).fit(bars)
    >>> FiltersDisplay.from_estimator(model, n_filters=2).filters.shape
    (2, 3, 3)
    """

    def __init__(self, filters, units):
        self.filters = filters
        self.units = units

    @classmethod
    def from_estimator(
        cls, estimator, *, image_shape=None, n_filters=64, sort="norm", ax=None, **kwargs
    ):
        """Plot the filters (hidden-unit weights) of a fitted model.

        Parameters
        ----------
        estimator : RBM or CRBMStructuredPredictor
            Fitted model. For a CRBMStructuredPredictor, the weights between hidden units and
            outputs are plotted.
        image_shape : pair of int, optional
            Height and width of a filter in pixels. The default is the shape of the outputs if they
            have two axes, and otherwise a square.
        n_filters : int, default=64
            Largest number of filters to plot.
        sort : {"norm", "activity"}, default="norm"
            Order of the filters. With "norm", filters with a large Euclidean norm come first. With
            "activity" (RBM only), the filters of hidden units that vary most over the training
            rows (``hidden_stds_``) come first.
        ax : Axes, optional
            Axes to draw in. By default a new figure is made.
        **kwargs
            Passed to ``Axes.imshow``.

        Returns
        -------
        FiltersDisplay
            Display with the plot.

        Raises
        ------
        ValueError
            If ``image_shape`` does not fit the number of visible units, if it is not given and this
            number is not a square, or if the model has no hidden units.
        """
        check_estimator(cls, estimator, (RBM, CRBMStructuredPredictor))
        check_number("n_filters", n_filters, low=1, integer=True)
        check_choice("sort", sort, SORTS)
        weights = estimator.energy_.weights.T.astype(float)
        if not len(weights):
            raise ValueError(
                f"{type(estimator).__name__} has no hidden units, so there are no filters to plot; "
                "fit a model with hidden units."
            )
        output_shape = getattr(estimator, "output_shape_", ())
        shape = _check_image_shape(image_shape, weights.shape[1], output_shape)
        units = np.argsort(-_compute_sort_keys(estimator, weights, sort), kind="stable")[:n_filters]
        return cls(weights[units].reshape(-1, *shape), units).plot(ax=ax, **kwargs)

    def plot(self, ax=None, **kwargs):
        """Plot the filters (hidden-unit weights) as a grid of images.

        Parameters
        ----------
        ax : Axes, optional
            Axes to draw in. The colour bar takes part of their space. By default a new figure is
            made.
        **kwargs
            Passed to ``Axes.imshow``.

        Returns
        -------
        FiltersDisplay
            The display itself.
        """
        filters = np.asarray(self.filters, dtype=float)
        self.ax_ = get_single_axes(ax, (5.6, 4.8))
        self.figure_ = self.ax_.figure
        limit = float(np.quantile(np.abs(filters), SCALE_QUANTILE)) or 1.0
        style = {"cmap": "RdBu_r", "vmin": -limit, "vmax": limit, "interpolation": "nearest"}
        self.image_ = self.ax_.imshow(_tile(filters), **(style | kwargs))
        self.colorbar_ = self.figure_.colorbar(
            self.image_, ax=self.ax_, label="weight (nats)", shrink=0.8, extend="both"
        )
        self.ax_.set(xticks=[], yticks=[])
        self.ax_.spines[:].set_visible(False)
        title = f"weights of {format_count(len(filters), 'hidden unit')}"
        self.ax_.set_title(title, fontsize="medium")
        return self


class CRFWeightsDisplay:
    """Plot of the label transitions and of the strongest features of a conditional random field.

    The left panel shows the weight of each pair of neighbouring labels. The right panel shows the
    weights of features with the largest absolute values. Weights of features with different scales
    are comparable only if the features were scaled before the fit. The weights of three successive
    labels of a second-order chain are not plotted.

    Parameters
    ----------
    transitions : array-like of shape (n_labels, n_labels)
        Weights in nats. The row is the label of the first node of an edge, for a chain the earlier
        position; the column is the label of the second node.
    labels : sequence of length n_labels
        Names of the labels.
    features : list of tuple (feature, label, weight)
        Names of features and labels, and their weights in nats, in the order of the plot.

    Attributes
    ----------
    axes_ : ndarray of Axes of shape (2,)
        Axes of the transitions and of the features.
    figure_ : Figure
        Figure that contains the axes.
    image_ : AxesImage
        Transitions as an image.
    colorbar_ : Colorbar
        Colour scale of the transitions.
    bars_ : BarContainer
        Bars of the features.

    Examples
    --------
    >>> import matplotlib
    >>> matplotlib.use("Agg")
    >>> from skmrf import CRF
    >>> from skmrf.plot import CRFWeightsDisplay
    >>> X = [[{"word": "the"}, {"word": "cat"}], [{"word": "a"}, {"word": "dog"}]]
    >>> model = CRF(alpha=0.01).fit(X, [["DET", "NOUN"], ["DET", "NOUN"]])
    >>> display = CRFWeightsDisplay.from_estimator(model, n_features=2)
    >>> display.transitions.shape, len(display.features)
    ((2, 2), 2)
    """

    def __init__(self, transitions, labels, features):
        self.transitions = transitions
        self.labels = labels
        self.features = features

    @classmethod
    def from_estimator(
        cls, estimator, *, n_features=15, feature_names=None, edge_feature=0, ax=None, **kwargs
    ):
        """Plot the label transitions and the strongest features of a fitted model.

        Parameters
        ----------
        estimator : CRF
            Fitted model.
        n_features : int, default=15
            Largest number of pairs of a feature and a label to plot.
        feature_names : sequence of str, optional
            Names of all features, in the order of the columns. By default the names of the
            vocabulary or of the columns, or "feature 0", "feature 1" and so on.
        edge_feature : int, default=0
            Feature of the edges whose transitions are plotted. For ``graph="grid"``, 0 is the edge
            to the right pixel and 1 the edge to the lower pixel.
        ax : sequence of 2 Axes, optional
            Axes to draw in. By default a new figure is made.
        **kwargs
            Passed to ``Axes.imshow``.

        Returns
        -------
        CRFWeightsDisplay
            Display with the plot.

        Raises
        ------
        ValueError
            If the number of names differs from the number of features, or if the edges have no
            feature of this index.
        """
        check_estimator(cls, estimator, (CRF,))
        check_number("n_features", n_features, low=1, integer=True)
        transitions = estimator.energy_.theta["transition"]
        check_number("edge_feature", edge_feature, low=0, high=len(transitions) - 1, integer=True)
        labels = [str(label) for label in estimator.classes_]
        names = _get_feature_names(estimator, feature_names)
        features = _find_strongest(estimator.coef_, names, labels, n_features)
        return cls(transitions[edge_feature], labels, features).plot(ax=ax, **kwargs)

    def plot(self, ax=None, **kwargs):
        """Plot the label transitions and the strongest features.

        Parameters
        ----------
        ax : sequence of 2 Axes, optional
            Axes to draw in. The colour bar takes part of the space of the first. By default a new
            figure is made.
        **kwargs
            Passed to ``Axes.imshow``.

        Returns
        -------
        CRFWeightsDisplay
            The display itself.
        """
        self.axes_ = get_panel_axes(ax, 2, (5.2, 4.6), n_columns=2)
        self.figure_ = self.axes_[0].figure
        self._plot_transitions(self.axes_[0], kwargs)
        self._plot_features(self.axes_[1])
        return self

    def _plot_transitions(self, ax, style):
        transitions = np.asarray(self.transitions, dtype=float)
        limit = float(np.abs(transitions).max()) or 1.0
        style = {"cmap": "RdBu_r", "vmin": -limit, "vmax": limit} | style
        self.image_ = ax.imshow(transitions, **style)
        self.colorbar_ = self.figure_.colorbar(self.image_, ax=ax, label="weight (nats)")
        ticks = np.arange(len(self.labels))
        size = "small" if len(ticks) <= 15 else "xx-small"
        ax.set_xticks(ticks, self.labels, rotation=90, fontsize=size)
        ax.set_yticks(ticks, self.labels, fontsize=size)
        ax.set(xlabel="second label", ylabel="first label")
        ax.set_title("transitions", fontsize="medium")

    def _plot_features(self, ax):
        names = [f"{feature} → {label}" for feature, label, _ in self.features]
        weights = [weight for *_, weight in self.features]
        colours = [VERMILION if weight > 0 else BLUE for weight in weights]
        positions = np.arange(len(names))
        self.bars_ = ax.barh(positions, weights, color=colours)
        ax.set_yticks(positions, names, fontsize="small")
        ax.invert_yaxis()
        ax.axvline(0, color="black", linewidth=0.8)
        ax.set_xlabel("weight (nats)")
        ax.set_title("strongest features", fontsize="medium")
        hide_frame(ax)


def _get_feature_names(estimator, names):
    """Return the names of the features of a CRF; raise a ValueError if their number is wrong."""
    n_features = estimator.n_features_in_
    if names is None and estimator.vectorizer_ is not None:
        names = estimator.vectorizer_.get_feature_names_out()
    if names is None:
        names = getattr(estimator, "feature_names_in_", None)
    if names is None:
        names = [f"feature {j}" for j in range(n_features)]
    if isinstance(names, str) or not np.iterable(names):
        raise ValueError(f"feature_names must be a list of names, one per feature; got {names!r}.")
    if len(names) != n_features:
        raise ValueError(
            f"feature_names has {len(names)} names, but the model has {n_features} features; give "
            "one name per feature."
        )
    return names


def _find_strongest(coef, names, labels, n_features):
    """Return the features with the largest absolute weights, as (feature, label, weight)."""
    coef = sparse.coo_array(coef)
    largest = np.argsort(-np.abs(coef.data), kind="stable")[:n_features]
    return [
        (str(names[j]), labels[k], float(weight))
        for k, j, weight in zip(
            coef.row[largest], coef.col[largest], coef.data[largest], strict=True
        )
    ]


def _compute_sort_keys(estimator, weights, sort):
    """Return a sort key for each filter; filters with larger keys are plotted first."""
    if sort == "norm":
        return np.linalg.norm(weights, axis=1)
    if not isinstance(estimator, RBM):
        raise ValueError(
            'sort="activity" needs hidden_stds_, which only an RBM has; use sort="norm".'
        )
    return estimator.hidden_stds_


def _check_image_shape(image_shape, n_pixels, output_shape):
    """Return the image height and width; raise a ValueError if they do not fit the weights."""
    if image_shape is None:
        side = int(np.sqrt(n_pixels) + 0.5)
        image_shape = output_shape if len(output_shape) == 2 else (side, side)
        if image_shape[0] * image_shape[1] != n_pixels:
            raise ValueError(
                f"image_shape is not given, and {n_pixels} visible units do not form a square; "
                f"give image_shape=(height, width) with height * width = {n_pixels}."
            )
    sides = np.array(image_shape, dtype=object)
    if sides.shape != (2,) or not all(isinstance(n, int | np.integer) and n >= 1 for n in sides):
        raise ValueError(
            f"image_shape must be a pair of integers >= 1, (height, width); got {image_shape!r}."
        )
    height, width = map(int, sides)
    if height * width != n_pixels:
        raise ValueError(
            f"image_shape={tuple(image_shape)} has {height * width} pixels, but there are "
            f"{n_pixels} visible units."
        )
    return height, width


def _tile(filters):
    """Arrange the images of all filters in one grid image, separated by borders of nan."""
    n, height, width = filters.shape
    n_columns = min(n, int(np.ceil(np.sqrt(n * height / width))))
    n_rows = -(-n // n_columns)
    gap = max(1, round(0.08 * max(height, width)))
    out = np.full((n_rows * (height + gap) - gap, n_columns * (width + gap) - gap), np.nan)
    for k, image in enumerate(filters):
        top, left = (k // n_columns) * (height + gap), (k % n_columns) * (width + gap)
        out[top : top + height, left : left + width] = image
    return out
