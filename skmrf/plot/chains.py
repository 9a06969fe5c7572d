"""Traces of Gibbs chains."""

import numpy as np

from ..estimators.boltzmann_machine import BoltzmannMachine
from ..estimators.discrete_mrf import DiscreteMRF
from ..estimators.rbm import RBM
from ..samplers import trace_chains
from ..samplers.traces import ChainTraces
from ._axes import BLUE, COLOURS, SKY, check_estimator, counted, line_style, panel_axes, plain


class ChainsDisplay:
    """Log-potentials that chains visit, and how often tempered ones swap.

    Chains that mix cover the same range, all of them, and come back to every level. Chains that
    stay at levels of their own are stuck in modes.

    Parameters
    ----------
    log_potential : array-like of shape (n_chains, n_draws)
        In nats.
    betas : array-like of shape (n_temperatures,), optional
        Inverse temperatures of tempered chains.
    swap_rates : array-like of shape (n_temperatures - 1,), optional
        Of neighbours. With these there is a second panel.
    thin : int, default=1
        Sweeps from one draw to the next.

    Attributes
    ----------
    axes_ : ndarray of Axes
        One panel, or two of tempered chains.
    figure_ : Figure
    lines_ : list of Line2D, one a chain
    bars_ : BarContainer or None
        Swap rates, each between its two inverse temperatures.

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
        """Draw what :func:`skmrf.samplers.trace_chains` returned.

        Parameters
        ----------
        traces : ChainTraces
        thin : int, default=1
            As it was recorded with.
        ax : Axes, or array-like of two of them for tempered chains, optional
        **kwargs
            Of the lines.

        Returns
        -------
        ChainsDisplay
        """
        if not isinstance(traces, ChainTraces):
            raise TypeError(
                "ChainsDisplay.from_traces takes what skmrf.samplers.trace_chains returns; got "
                f"{type(traces).__name__}. Of a fitted model, use from_estimator."
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
        """Run chains of a model and draw them, by default from their start.

        Parameters
        ----------
        estimator : DiscreteMRF, BoltzmannMachine or RBM
            Fitted.
        n_chains, n_sweeps, n_discarded, thin, betas, random_state, n_jobs
            See :func:`skmrf.samplers.trace_chains`. With a number of ``betas``, give at least a few
            hundred ``n_discarded``: without a warm-up they stay evenly spaced.
        ax : Axes, or array-like of two of them for tempered chains, optional
        **kwargs
            Of the lines.

        Returns
        -------
        ChainsDisplay
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
        """Draw.

        Parameters
        ----------
        ax : Axes, or array-like of two of them with ``swap_rates``, optional
        **kwargs
            Of the lines.

        Returns
        -------
        ChainsDisplay
        """
        tempered = self.swap_rates is not None
        self.axes_ = panel_axes(ax, 1 + tempered, (6.4, 2.7))
        self.figure_ = self.axes_[0].figure
        self._traces(self.axes_[0], kwargs)
        self.bars_ = self._swaps(self.axes_[1]) if tempered else None
        return self

    def _traces(self, axes, kwargs):
        values = np.asarray(self.log_potential)
        sweeps = self.thin * np.arange(1, values.shape[1] + 1)
        few = len(values) <= len(COLOURS)
        self.lines_ = []
        for k, chain in enumerate(values):
            style = {"color": COLOURS[k] if few else BLUE, "alpha": 0.8 if few else 0.3}
            style = line_style({"linewidth": 0.9} | style, kwargs)
            self.lines_ += axes.plot(sweeps, chain, **style)
        axes.set(xlabel="sweep", ylabel="log-potential (nats)")
        axes.set_title(counted(len(values), "chain"), fontsize="medium")
        axes.margins(x=0)
        plain(axes)

    def _swaps(self, axes):
        betas, rates = np.asarray(self.betas, dtype=float), np.asarray(self.swap_rates)
        bars = axes.bar(
            betas[:-1], rates, np.diff(betas), align="edge", color=SKY, edgecolor="white"
        )
        axes.set(
            xlabel="inverse temperature",
            ylabel="swaps accepted (share)",
            ylim=(0, 1),
            xlim=(betas[0], betas[-1]),
        )
        axes.set_title("neighbours that swap", fontsize="medium")
        plain(axes)
        return bars
