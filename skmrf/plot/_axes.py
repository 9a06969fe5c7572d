"""Axes, colours and input checks shared by all displays."""

import numpy as np
from sklearn.utils.validation import check_is_fitted

from .._utils.parameters import show_list

# The palette of Okabe and Ito, which colour-blind readers can distinguish.
BLUE, VERMILION, GREEN, ORANGE = "#0072B2", "#D55E00", "#009E73", "#E69F00"
PURPLE, SKY, BLACK, GREY = "#CC79A7", "#56B4E9", "#000000", "#8A8A8A"
COLOURS = (BLUE, VERMILION, GREEN, PURPLE, ORANGE, SKY)


def import_pyplot():
    """Import and return ``matplotlib.pyplot``."""
    try:
        import matplotlib.pyplot as plt
    except ImportError as error:
        raise ImportError(
            'Plots need matplotlib; install it with pip install "skmrf[plot]".'
        ) from error
    return plt


def get_single_axes(ax, size):
    """Return the given axes, or the axes of a new figure of a given size in inches."""
    return get_panel_axes(ax, 1, size)[0]


def get_panel_axes(ax, n_panels, size, n_columns=1, name="ax"):
    """Return the axes of all panels: the given axes, or new ones of a given size in inches.

    ``name`` is the name of the parameter ``ax`` in error messages.
    """
    if ax is None:
        n_rows = -(-n_panels // n_columns)
        figure = import_pyplot().figure(
            figsize=(n_columns * size[0], n_rows * size[1]), layout="constrained"
        )
        return np.array(
            [figure.add_subplot(n_rows, n_columns, k + 1) for k in range(n_panels)], dtype=object
        )
    axes = np.array(ax, dtype=object).ravel()
    if len(axes) != n_panels:
        raise ValueError(
            f"{name} must be an array or list of {n_panels} axes, one per panel; got {len(axes)}."
        )
    return axes


def hide_frame(axes):
    """Hide the top and right borders of the axes."""
    axes.spines[["top", "right"]].set_visible(False)


def merge_line_style(default, kwargs):
    """Merge matplotlib line properties: ``kwargs`` override defaults, also by their short names."""
    from matplotlib import cbook
    from matplotlib.lines import Line2D

    return default | cbook.normalize_kwargs(kwargs, Line2D)


def format_count(number, noun):
    """Return a number and a noun, for example "1 edge" or "2 edges"."""
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


def check_estimator(display, estimator, accepted):
    """Raise an error if the estimator is not fitted or its class is not accepted."""
    if not isinstance(estimator, accepted):
        names = ", ".join(kind.__name__ for kind in accepted)
        raise TypeError(
            f"{display.__name__} takes a fitted estimator of these classes: {names}; got "
            f"{type(estimator).__name__}. For a pipeline or a search, pass the estimator inside it."
        )
    check_is_fitted(estimator)


def get_column_names(estimator):
    """Return the names of the columns, or their indices if they have no names."""
    return [
        str(name)
        for name in getattr(estimator, "feature_names_in_", range(estimator.n_features_in_))
    ]


def get_pair_indices(pairs, names):
    """Convert pairs of column names or indices to pairs of indices, the lower index first."""
    if isinstance(pairs, str) or not np.iterable(pairs):
        raise ValueError(f"pairs must be a list of pairs of columns; got {pairs!r}.")
    result = []
    for pair in pairs:
        is_pair = not isinstance(pair, str) and np.iterable(pair)
        indices = [names.index(c) if c in names else c for c in pair] if is_pair else []
        if len(indices) != 2 or not all(
            isinstance(c, int | np.integer) and 0 <= c < len(names) for c in indices
        ):
            raise ValueError(
                f"pairs contains {pair!r}, but a pair must be two columns, given by name or by "
                f"index from 0 to {len(names) - 1}. The columns are {show_list(names)}. Give a "
                "list of pairs, also for a single pair."
            )
        result.append((min(indices), max(indices)))
    return result
