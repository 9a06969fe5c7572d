"""Weights of hidden units as images."""

import numpy as np

from .._utils.parameters import check_choice, check_number
from ..estimators.crbm import CRBMStructuredPredictor
from ..estimators.rbm import RBM
from ._axes import check_estimator, counted, single_axes

SORTS = ("norm", "activity")
SHOWN = 0.995  # of the weights are within the colour scale


class FiltersDisplay:
    """Weights between every hidden unit and the visible ones, as a mosaic of images.

    Parameters
    ----------
    filters : array-like of shape (n_filters, height, width)
        In the order in which they are shown, row by row.
    units : array-like of shape (n_filters,)
        Number of the hidden unit of each.

    Attributes
    ----------
    ax_ : Axes
    figure_ : Figure
    image_ : AxesImage
        The mosaic, nan between the filters.
    colorbar_ : Colorbar

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
        """Draw the filters of a model.

        Parameters
        ----------
        estimator : RBM or CRBMStructuredPredictor
            Fitted. Of the latter, the weights between hidden units and outputs.
        image_shape : pair of int, optional
            Height and width; by default the shape of the outputs where they have two axes, else a
            square.
        n_filters : int, default=64
            At most.
        sort : {"norm", "activity"}, default="norm"
            Which come first: those of large weights (Euclidean norm), or of an RBM those whose
            units vary most over the training rows (``hidden_stds_``).
        ax : Axes, optional
        **kwargs
            Of ``Axes.imshow``.

        Returns
        -------
        FiltersDisplay

        Raises
        ------
        ValueError
            An ``image_shape`` of another number of pixels, or none where no square fits; a model
            without hidden units.
        """
        check_estimator(cls, estimator, (RBM, CRBMStructuredPredictor))
        check_number("n_filters", n_filters, low=1, integer=True)
        check_choice("sort", sort, SORTS)
        weights = estimator.energy_.weights.T.astype(float)
        if not len(weights):
            raise ValueError(
                f"{type(estimator).__name__} has no hidden units, so there are no filters to show."
            )
        shape = _image_shape(image_shape, weights.shape[1], getattr(estimator, "output_shape_", ()))
        first = np.argsort(-_keys(estimator, weights, sort), kind="stable")[:n_filters]
        return cls(weights[first].reshape(-1, *shape), first).plot(ax=ax, **kwargs)

    def plot(self, ax=None, **kwargs):
        """Draw.

        Parameters
        ----------
        ax : Axes, optional
            The scale takes part of its space.
        **kwargs
            Of ``Axes.imshow``.

        Returns
        -------
        FiltersDisplay
        """
        filters = np.asarray(self.filters, dtype=float)
        self.ax_ = single_axes(ax, (5.6, 4.8))
        self.figure_ = self.ax_.figure
        limit = float(np.quantile(np.abs(filters), SHOWN)) or 1.0
        style = {"cmap": "RdBu_r", "vmin": -limit, "vmax": limit, "interpolation": "nearest"}
        self.image_ = self.ax_.imshow(_mosaic(filters), **(style | kwargs))
        self.colorbar_ = self.figure_.colorbar(
            self.image_, ax=self.ax_, label="weight (nats)", shrink=0.8, extend="both"
        )
        self.ax_.set(xticks=[], yticks=[])
        self.ax_.spines[:].set_visible(False)
        title = f"weights of {counted(len(filters), 'hidden unit')}"
        self.ax_.set_title(title, fontsize="medium")
        return self


def _keys(estimator, weights, sort):
    """By which filters are sorted, the largest first."""
    if sort == "norm":
        return np.linalg.norm(weights, axis=1)
    if not isinstance(estimator, RBM):
        raise ValueError(
            'sort="activity" needs hidden_stds_, which only an RBM has; use sort="norm".'
        )
    return estimator.hidden_stds_


def _image_shape(given, n_pixels, known):
    if given is None:
        side = int(np.sqrt(n_pixels) + 0.5)
        given = known if len(known) == 2 else (side, side)
        if given[0] * given[1] != n_pixels:
            raise ValueError(
                f"image_shape is not given, and {n_pixels} visible units make no square; give "
                f"image_shape=(height, width) of product {n_pixels}."
            )
    height, width = given
    if height * width != n_pixels:
        raise ValueError(
            f"image_shape={tuple(given)} has {height * width} pixels, but there are {n_pixels} "
            "visible units."
        )
    return int(height), int(width)


def _mosaic(filters):
    """Filters row by row, nan between them."""
    n, height, width = filters.shape
    n_columns = min(n, int(np.ceil(np.sqrt(n * height / width))))
    n_rows = -(-n // n_columns)
    gap = max(1, round(0.08 * max(height, width)))
    out = np.full((n_rows * (height + gap) - gap, n_columns * (width + gap) - gap), np.nan)
    for k, image in enumerate(filters):
        top, left = (k // n_columns) * (height + gap), (k % n_columns) * (width + gap)
        out[top : top + height, left : left + width] = image
    return out
