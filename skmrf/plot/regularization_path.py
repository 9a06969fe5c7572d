"""Plots of held-out scores along a path of penalty strengths."""

import numpy as np

from ..estimators.discrete_mrf import DiscreteMRF
from ._axes import BLUE, GREY, check_estimator, get_single_axes, hide_frame, merge_line_style


class RegularizationPathDisplay:
    """Plot of held-out scores against the penalty strength, for ``alpha="auto"``.

    Parameters
    ----------
    alphas : array-like of shape (n_alphas,)
        Penalty strengths in decreasing order. The first one is inf: the reference model.
    scores : array-like of shape (n_alphas,)
        Mean score of a held-out row, in nats.
    std_errors : array-like of shape (n_alphas,)
        Standard error of the difference between each score and the first score, in nats.
    chosen : float
        Chosen strength; inf for the reference model.
    criterion : str, default="log-likelihood"
        Kind of the scores, for the label of the axis.

    Attributes
    ----------
    ax_ : Axes
        Axes of the plot.
    figure_ : Figure
        Figure that contains the axes.
    line_ : Line2D
        Scores of the finite strengths.
    reference_line_ : Line2D
        Score of the reference model.

    Examples
    --------
    >>> import matplotlib
    >>> matplotlib.use("Agg")
    >>> from skmrf import DiscreteMRF
    >>> from skmrf.datasets import make_ising
    >>> from skmrf.inference import sample
    >>> from skmrf.plot import RegularizationPathDisplay
    >>> X = sample(make_ising("cycle", n_variables=4, coupling=0.5), 1000, random_state=0)
    >>> display = RegularizationPathDisplay.from_estimator(DiscreteMRF().fit(X))
    >>> bool(display.alphas[0] == float("inf"))
    True
    """

    def __init__(self, alphas, scores, std_errors, chosen, criterion="log-likelihood"):
        self.alphas = alphas
        self.scores = scores
        self.std_errors = std_errors
        self.chosen = chosen
        self.criterion = criterion

    @classmethod
    def from_estimator(cls, estimator, *, ax=None, **kwargs):
        """Plot ``regularization_path_`` of a model that was fitted with ``alpha="auto"``.

        Parameters
        ----------
        estimator : DiscreteMRF
            Fitted model.
        ax : Axes, optional
            Axes to draw in. By default a new figure is made.
        **kwargs
            Properties of the line of scores, passed to matplotlib.

        Returns
        -------
        RegularizationPathDisplay
            Display with the plot.

        Raises
        ------
        ValueError
            If the model was not fitted with ``alpha="auto"``.
        """
        check_estimator(cls, estimator, (DiscreteMRF,))
        path = vars(estimator).get("regularization_path_")
        if path is None:
            raise ValueError(
                'The model has no path of penalty strengths. Fit it with alpha="auto", with fit '
                "and not with partial_fit."
            )
        display = cls(path.alphas, path.scores, path.std_errors, estimator.alpha_, path.criterion)
        return display.plot(ax=ax, **kwargs)

    def plot(self, *, ax=None, **kwargs):
        """Plot the held-out scores against the penalty strength.

        Parameters
        ----------
        ax : Axes, optional
            Axes to draw in. By default a new figure is made.
        **kwargs
            Properties of the line of scores, passed to matplotlib.

        Returns
        -------
        RegularizationPathDisplay
            This display.
        """
        self.ax_ = get_single_axes(ax, (5.0, 3.4))
        self.figure_ = self.ax_.figure
        alphas, scores = np.asarray(self.alphas), np.asarray(self.scores)
        style = merge_line_style({"color": BLUE, "marker": "o"}, kwargs)
        (self.line_,) = self.ax_.plot(alphas[1:], scores[1:], label="penalised model", **style)
        errors = np.asarray(self.std_errors)[1:]
        self.ax_.fill_between(
            alphas[1:], scores[1:] - errors, scores[1:] + errors, color=BLUE, alpha=0.2, lw=0
        )
        self.reference_line_ = self.ax_.axhline(
            scores[0], color=GREY, linestyle="--", label="reference model"
        )
        if np.isfinite(self.chosen):
            self.ax_.axvline(self.chosen, color=GREY, linestyle=":", label="chosen alpha")
        self.ax_.set(xscale="log", xlabel="alpha", ylabel=f"{self.criterion} of a row (nats)")
        self.ax_.legend(frameon=False)
        hide_frame(self.ax_)
        return self
