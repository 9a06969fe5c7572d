"""What all displays share: axes of their own or given ones, colours, and whom they take."""

import numpy as np
from sklearn.utils.validation import check_is_fitted

# Okabe and Ito's colours, which the colour-blind can tell apart.
BLUE, VERMILION, GREEN, ORANGE = "#0072B2", "#D55E00", "#009E73", "#E69F00"
PURPLE, SKY, BLACK, GREY = "#CC79A7", "#56B4E9", "#000000", "#8A8A8A"
COLOURS = (BLUE, VERMILION, GREEN, PURPLE, ORANGE, SKY)


def pyplot():
    """matplotlib.pyplot, imported when it is first needed."""
    try:
        import matplotlib.pyplot as plt
    except ImportError as error:
        raise ImportError(
            'Plots need matplotlib; install it with pip install "skmrf[plot]".'
        ) from error
    return plt


def single_axes(ax, size):
    """The axes given, or those of a new figure of a size in inches."""
    return panel_axes(ax, 1, size)[0]


def panel_axes(ax, n_panels, size, n_columns=1):
    """Axes for every panel: those given, or new ones of a size each.

    Raises
    ------
    ValueError
        Another number of axes than panels.
    """
    if ax is None:
        n_rows = -(-n_panels // n_columns)
        figure = pyplot().figure(
            figsize=(n_columns * size[0], n_rows * size[1]), layout="constrained"
        )
        return np.array(
            [figure.add_subplot(n_rows, n_columns, k + 1) for k in range(n_panels)], dtype=object
        )
    axes = np.array(ax, dtype=object).ravel()
    if len(axes) != n_panels:
        raise ValueError(
            f"ax must be {n_panels} axes, one a panel (an array, or a list of them); got "
            f"{len(axes)}."
        )
    return axes


def plain(axes):
    """No frame but the two axes."""
    axes.spines[["top", "right"]].set_visible(False)


def line_style(default, given):
    """Properties of lines: default ones, but those that were given, by long or short names."""
    from matplotlib import cbook
    from matplotlib.lines import Line2D

    return default | cbook.normalize_kwargs(given, Line2D)


def counted(number, thing):
    """So many of a thing, in words."""
    return f"{number} {thing}" if number == 1 else f"{number} {thing}s"


def check_estimator(display, estimator, accepted):
    """A fitted estimator of one of the classes that a display takes."""
    if not isinstance(estimator, accepted):
        names = ", ".join(kind.__name__ for kind in accepted)
        raise TypeError(
            f"{display.__name__} takes a fitted estimator of these classes: {names}; got "
            f"{type(estimator).__name__}. Of a pipeline or a search, give the model in it."
        )
    check_is_fitted(estimator)


def column_names(estimator):
    """What the columns are called: their names, or their numbers."""
    return [
        str(name)
        for name in getattr(estimator, "feature_names_in_", range(estimator.n_features_in_))
    ]


def pair_numbers(pairs, names):
    """Pairs of columns, by name or by number, as pairs of numbers with the lower one first."""
    found = []
    for pair in pairs:
        numbers = [names.index(c) if c in names else c for c in pair]
        if len(numbers) != 2 or not all(
            isinstance(c, int | np.integer) and 0 <= c < len(names) for c in numbers
        ):
            raise ValueError(
                f"pairs names {pair!r}; a pair is two columns, by name or by number from 0 to "
                f"{len(names) - 1}; the columns are {names[:8]}."
            )
        found.append((min(numbers), max(numbers)))
    return found
