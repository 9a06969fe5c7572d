"""Plots of the weights of hidden units as images."""

import numpy as np

from .._utils.parameters import check_choice, check_number
from ..estimators.crbm import CRBMStructuredPredictor
from ..estimators.rbm import RBM
from ._axes import check_estimator, format_count, get_single_axes

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
    height, width = image_shape
    if height * width != n_pixels:
        raise ValueError(
            f"image_shape={tuple(image_shape)} has {height * width} pixels, but there are "
            f"{n_pixels} visible units."
        )
    return int(height), int(width)


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
