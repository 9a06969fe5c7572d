"""Plots of samples: traces of Gibbs chains, and synthetic rows beside real rows."""

import numpy as np
from scipy.stats import rankdata

from .._data.categories import is_number, missing_mask, to_floats
from .._data.column_types import find_position
from .._data.frames import as_columns
from .._utils.parameters import check_generator
from ..estimators.boltzmann_machine import BoltzmannMachine
from ..estimators.discrete_mrf import DiscreteMRF
from ..estimators.nnmrf.density import NNMRFDensity
from ..estimators.rbm import RBM
from ..samplers import trace_chains
from ..samplers.traces import ChainTraces
from ._axes import (
    BLUE,
    COLOURS,
    SKY,
    VERMILION,
    check_estimator,
    format_count,
    get_panel_axes,
    hide_frame,
    merge_line_style,
)

N_PLOTTED = 5  # columns of synthetic rows
MIN_COMPLETE = 3  # rows of a correlation, because that of two rows is always -1 or 1
MAX_TICKS = 10  # named categories on an axis
MAX_LETTERS = 12  # of the name of a category


class ChainsDisplay:
    """Trace plot of Gibbs chains, with the swap rates of tempered chains.

    The first panel shows the log-potential of each chain. If chains mix well, all of them cover
    the same range of values repeatedly. A chain that stays in a range of its own is stuck in a
    mode.
    For tempered chains, a second panel shows how often neighbouring temperatures swap states.

    Parameters
    ----------
    log_potential : array-like of shape (n_chains, n_draws)
        Log-potentials (unnormalised log-probabilities) of the visited states, in nats.
    betas : array-like of shape (n_temperatures,), optional
        Inverse temperatures of tempered chains.
    swap_rates : array-like of shape (n_temperatures - 1,), optional
        Fraction of accepted swaps for each pair of neighbouring temperatures. If given, there is a
        second panel.
    thin : int, default=1
        Number of sweeps from one draw to the next.

    Attributes
    ----------
    axes_ : ndarray of Axes of shape (1,) or (2,)
        Panels of the plot: one, or two for tempered chains.
    figure_ : Figure
        Figure that contains the axes.
    lines_ : list of Line2D
        Traces, one per chain.
    bars_ : BarContainer or None
        Swap rates, each drawn between its two inverse temperatures. None without ``swap_rates``.

    Examples
    --------
    >>> import matplotlib
    >>> matplotlib.use("Agg")
    >>> from skmrf.datasets import make_ising
    >>> from skmrf.plot import ChainsDisplay
    >>> from skmrf.samplers import trace_chains
    >>> energy = make_ising("grid", n_variables=16, coupling=0.6)
    >>> traces = trace_chains(energy, betas=4, n_sweeps=200, random_state=0)
    >>> display = ChainsDisplay.from_traces(traces)
    >>> len(display.axes_), len(display.lines_), len(display.bars_)
    (2, 4, 3)
    """

    def __init__(self, log_potential, *, betas=None, swap_rates=None, thin=1):
        self.log_potential = log_potential
        self.betas = betas
        self.swap_rates = swap_rates
        self.thin = thin

    @classmethod
    def from_traces(cls, traces, *, thin=1, ax=None, **kwargs):
        """Plot the chain traces that :func:`skmrf.samplers.trace_chains` returned.

        Parameters
        ----------
        traces : ChainTraces
            Result of :func:`skmrf.samplers.trace_chains`.
        thin : int, default=1
            Number of sweeps from one draw to the next, the value that was passed to
            :func:`skmrf.samplers.trace_chains`.
        ax : Axes, or array-like of two Axes for tempered chains, optional
            Axes to draw in. By default a new figure is made.
        **kwargs
            Properties of the lines, passed to matplotlib.

        Returns
        -------
        ChainsDisplay
            Display with the plot.
        """
        if not isinstance(traces, ChainTraces):
            raise TypeError(
                "ChainsDisplay.from_traces takes the result of skmrf.samplers.trace_chains; got "
                f"{type(traces).__name__}. For a fitted model, use from_estimator."
            )
        display = cls(
            traces.log_potential, betas=traces.betas, swap_rates=traces.swap_rates, thin=thin
        )
        return display.plot(ax=ax, **kwargs)

    @classmethod
    def from_estimator(
        cls,
        estimator,
        *,
        n_chains=4,
        n_sweeps=1000,
        n_discarded=0,
        thin=1,
        betas=None,
        random_state=None,
        n_jobs=None,
        ax=None,
        **kwargs,
    ):
        """Run Gibbs chains of a fitted model and plot their traces.

        The traces include the first sweeps by default, so the plot shows the burn-in.

        Parameters
        ----------
        estimator : DiscreteMRF, BoltzmannMachine or RBM
            Fitted model.
        n_chains : int, default=4
            Number of independent chains.
        n_sweeps : int, default=1000
            Number of recorded Gibbs sweeps of each chain.
        n_discarded : int, default=0
            Number of warm-up sweeps before the recorded ones, which are not plotted.
        thin : int, default=1
            Record the last of every ``thin`` sweeps.
        betas : int or array-like of shape (n_temperatures,), optional
            Inverse temperatures that increase to 1, or their number. If a number is given, the
            temperatures are adapted during the warm-up, so set ``n_discarded`` to at least a few
            hundred; without a warm-up they stay evenly spaced. By default the chains are not
            tempered.
        random_state : int, Generator, RandomState or None, default=None
            Seed or generator of the random numbers. An int gives the same chains at every call.
        n_jobs : int, optional
            Number of parallel jobs, as in :func:`skmrf.samplers.trace_chains`. The result does not
            depend on it.
        ax : Axes, or array-like of two Axes for tempered chains, optional
            Axes to draw in. By default a new figure is made.
        **kwargs
            Properties of the lines, passed to matplotlib.

        Returns
        -------
        ChainsDisplay
            Display with the plot.
        """
        check_estimator(cls, estimator, (DiscreteMRF, BoltzmannMachine, RBM))
        traces = trace_chains(
            estimator.energy_,
            n_chains=n_chains,
            n_sweeps=n_sweeps,
            n_discarded=n_discarded,
            thin=thin,
            betas=betas,
            random_state=random_state,
            n_jobs=n_jobs,
        )
        return cls.from_traces(traces, thin=thin, ax=ax, **kwargs)

    def plot(self, ax=None, **kwargs):
        """Plot the traces of the chains, and the swap rates if there are any.

        Parameters
        ----------
        ax : Axes, or array-like of two Axes with ``swap_rates``, optional
            Axes to draw in. By default a new figure is made.
        **kwargs
            Properties of the lines, passed to matplotlib.

        Returns
        -------
        ChainsDisplay
            The display itself.
        """
        tempered = self.swap_rates is not None
        self.axes_ = get_panel_axes(ax, 1 + tempered, (6.4, 2.7))
        self.figure_ = self.axes_[0].figure
        self._plot_traces(self.axes_[0], kwargs)
        self.bars_ = self._plot_swap_rates(self.axes_[1]) if tempered else None
        return self

    def _plot_traces(self, axes, kwargs):
        values = np.asarray(self.log_potential)
        sweeps = self.thin * np.arange(1, values.shape[1] + 1)
        few = len(values) <= len(COLOURS)
        self.lines_ = []
        for k, chain in enumerate(values):
            style = {"color": COLOURS[k] if few else BLUE, "alpha": 0.8 if few else 0.3}
            style = merge_line_style({"linewidth": 0.9} | style, kwargs)
            self.lines_ += axes.plot(sweeps, chain, **style)
        axes.set(xlabel="sweep", ylabel="log-potential (nats)")
        axes.set_title(format_count(len(values), "chain"), fontsize="medium")
        axes.margins(x=0)
        hide_frame(axes)

    def _plot_swap_rates(self, axes):
        betas, rates = np.asarray(self.betas, dtype=float), np.asarray(self.swap_rates)
        bars = axes.bar(
            betas[:-1], rates, np.diff(betas), align="edge", color=SKY, edgecolor="white"
        )
        axes.set(
            xlabel="inverse temperature (or position of the rung)",
            ylabel="swap acceptance rate",
            ylim=(0, 1),
            xlim=(betas[0], betas[-1]),
        )
        axes.set_title("swaps of neighbouring temperatures", fontsize="medium")
        hide_frame(axes)
        return bars


class SyntheticRowsDisplay:
    """Plot of real and synthetic rows: marginals, pairs and correlations of columns.

    The diagonal panels show the histograms of the columns. The panels below the diagonal show the
    rows of both tables for each pair of columns. The panels above show the rank correlation of the
    pair in the real rows and in the synthetic rows. It is computed from the rows in which both
    entries are observed. A dash means that the correlation is undefined, because these rows are
    fewer than three, or because a column is constant in them. Text is ranked alphabetically.

    Parameters
    ----------
    real : ndarray of shape (n_rows, n_columns)
        Real rows, with nan for missing entries. Categories are numbers.
    synthetic : ndarray of shape (m_rows, n_columns)
        Synthetic rows.
    names : list of str
        Names of the columns.
    categories : dict of int to list of str, optional
        Names of the categories 0, 1, 2, ... of columns with categories, keyed by the position of
        the column. If a column has many categories, the axes show the names of some of them.

    Attributes
    ----------
    axes_ : ndarray of Axes of shape (n_columns, n_columns)
        Panels.
    figure_ : Figure
        Figure that contains the panels.
    correlations_ : ndarray of shape (2, n_columns, n_columns)
        Rank correlations of the columns in the real rows and in the synthetic rows. Undefined
        correlations are nan.

    Examples
    --------
    >>> import matplotlib
    >>> matplotlib.use("Agg")
    >>> from sklearn.datasets import load_iris
    >>> from skmrf import NNMRFDensity
    >>> from skmrf.plot import SyntheticRowsDisplay
    >>> X = load_iris().data
    >>> model = NNMRFDensity(random_state=0).fit(X)
    >>> display = SyntheticRowsDisplay.from_estimator(model, X, random_state=0)
    >>> display.axes_.shape
    (4, 4)
    """

    def __init__(self, real, synthetic, names, categories=None):
        self.real = np.asarray(real, dtype=float)
        self.synthetic = np.asarray(synthetic, dtype=float)
        self.names = list(names)
        self.categories = {} if categories is None else dict(categories)

    @classmethod
    def from_estimator(cls, estimator, X, *, columns=None, random_state=None, axes=None):
        """Draw as many rows as X has from a fitted estimator, and plot both.

        Parameters
        ----------
        estimator : NNMRFDensity, DiscreteMRF, BoltzmannMachine or RBM
            Fitted estimator with the method ``sample``.
        X : array-like or frame of shape (n_rows, n_features)
            Real rows, with the columns that the estimator was fitted to.
        columns : list of int or str, optional
            Columns to plot, by index or name. By default the first five columns.
        random_state : int, RandomState, Generator or None, default=None
            Random numbers of the draws. An int makes the plot reproducible.
        axes : ndarray of Axes of shape (n_columns, n_columns), optional
            Panels. By default a new figure is made.

        Returns
        -------
        SyntheticRowsDisplay
            Display with its panels.

        Raises
        ------
        ValueError
            If the columns of ``X`` are not those of ``fit``, or if ``columns`` has no column or an
            unknown one.
        """
        check_estimator(cls, estimator, (NNMRFDensity, DiscreteMRF, BoltzmannMachine, RBM))
        estimator._encoder.read(estimator, X)  # checks the columns
        names = estimator._column_names()
        places = _find_positions(columns, names)
        given = as_columns(X)
        drawn = estimator.sample(len(given[0]), random_state=check_generator(random_state))
        drawn, real, synthetic, categories = as_columns(drawn), [], [], {}
        for k, j in enumerate(places):
            x, y, known = _to_numbers(given[j], drawn[j], names[j])
            real.append(x)
            synthetic.append(y)
            if known is not None:
                categories[k] = known
        real, synthetic = np.stack(real, axis=1), np.stack(synthetic, axis=1)
        display = cls(real, synthetic, [str(names[j]) for j in places], categories)
        return display.plot(axes=axes)

    def plot(self, *, axes=None):
        """Plot the real and the synthetic rows.

        Parameters
        ----------
        axes : ndarray of Axes of shape (n_columns, n_columns), optional
            Panels. By default a new figure is made.

        Returns
        -------
        SyntheticRowsDisplay
            The display itself.
        """
        n = len(self.names)
        self.axes_ = get_panel_axes(axes, n * n, (2.0, 2.0), n, "axes").reshape(n, n)
        self.figure_ = self.axes_[0, 0].figure
        tables = self.real, self.synthetic
        self.correlations_ = np.stack([_compute_correlations(table) for table in tables])
        for i, j in np.ndindex(n, n):
            self._plot_panel(self.axes_[i, j], i, j)
        self.axes_[0, 0].legend(fontsize="small")
        return self

    def _plot_panel(self, axes, i, j):
        tables = {"real": (self.real, BLUE), "synthetic": (self.synthetic, VERMILION)}
        if i < j:
            values = self.correlations_[:, i, j]
            shown = ("\u2013" if np.isnan(value) else f"{value:.2f}" for value in values)
            axes.text(0.5, 0.5, "{}\n{}".format(*shown), ha="center", va="center")
            axes.set_axis_off()
            return
        if i == j:
            bins, width = self._compute_bins(i), 0.8 if i in self.categories else None
            for name, (table, color) in tables.items():
                x = table[~np.isnan(table[:, i]), i]
                style = {"color": color, "alpha": 0.5, "rwidth": width, "label": name}
                axes.hist(x, bins, density=len(x) > 0, **style)
            axes.set_title(self.names[i], fontsize="small")
        else:
            for table, color in tables.values():
                axes.plot(table[:, j], table[:, i], ".", color=color, alpha=0.4, markersize=2)
            if i in self.categories:
                _mark_categories(axes.yaxis, self.categories[i], j == 0)
        if j in self.categories:
            _mark_categories(axes.xaxis, self.categories[j], i == len(self.names) - 1)
            axes.tick_params(axis="x", rotation=90)

    def _compute_bins(self, i):
        """Return the edges of the bins of a histogram: one bin a category, or 20 bins."""
        if i in self.categories:
            return np.arange(len(self.categories[i]) + 1) - 0.5
        joined = np.concatenate([self.real[:, i], self.synthetic[:, i]])
        return np.histogram_bin_edges(joined[np.isfinite(joined)], bins=20)


def _find_positions(columns, names):
    """Return the indices of the columns to plot; raise a ValueError if there are none."""
    if columns is None:
        return range(min(N_PLOTTED, len(names)))
    chosen = [] if isinstance(columns, str) or not np.iterable(columns) else list(columns)
    if not chosen:
        raise ValueError(
            f"columns must be a list of columns, each a name or an index; got {columns!r}."
        )
    return [find_position(c, names, "columns") for c in chosen]


def _compute_correlations(table):
    """Return the rank correlation of each pair of columns, over rows that observe both of them."""
    n = table.shape[1]
    correlations = np.full((n, n), np.nan)
    for i, j in np.ndindex(n, n):
        pair = table[:, [i, j]]
        ranks = rankdata(pair[~np.isnan(pair).any(axis=1)], axis=0)
        ranks -= ranks.mean(axis=0) if len(ranks) else 0.0
        size = np.sqrt((ranks**2).sum(axis=0)).prod()
        if len(ranks) >= MIN_COMPLETE and size > 0:
            correlations[i, j] = ranks[:, 0] @ ranks[:, 1] / size
    return correlations


def _mark_categories(axis, names, is_named):
    """Place a tick at each category on an axis, or at some of them; name them if wanted."""
    step = -(-len(names) // MAX_TICKS)
    shown = [n if len(n) <= MAX_LETTERS else f"{n[: MAX_LETTERS - 1]}\u2026" for n in names[::step]]
    axis.set_ticks(range(0, len(names), step), shown if is_named else [""] * len(shown))
    axis.set_tick_params(labelsize="small")
    axis.axes.set(**{f"{axis.axis_name}lim": (-0.5, len(names) - 0.5)})


def _to_numbers(x, y, name):
    """Return two columns as floats, and the sorted names of their categories.

    Categories become their positions among the names. The names are None if all entries are
    numbers.
    """
    is_observed = [~missing_mask(column) for column in (x, y)]
    observed = [column[k] for column, k in zip((x, y), is_observed, strict=True)]
    if all(map(_holds_numbers, observed)):
        return to_floats(x, name), to_floats(y, name), None
    keys = [[str(v) for v in values] for values in observed]
    known = {name: code for code, name in enumerate(sorted(set(keys[0] + keys[1])))}
    codes = [np.full(len(column), np.nan) for column in (x, y)]
    for out, k, key in zip(codes, is_observed, keys, strict=True):
        out[k] = [known[v] for v in key]
    return *codes, list(known)


def _holds_numbers(values):
    kind = values.dtype.kind
    return kind in "biuf" or (kind not in "mM" and all(map(is_number, values.tolist())))
