"""Plots that compare the probabilities of a model with the frequencies in data."""

from itertools import combinations

import numpy as np
from scipy.sparse import issparse

from .. import inference
from .._utils.codes import MISSING, STATE
from .._utils.log_weights import check_sample_weight
from .._utils.parameters import check_choice, check_generator, check_number
from .._utils.rows import dense_rows
from ..estimators.boltzmann_machine import BoltzmannMachine
from ..estimators.discrete_mrf import DiscreteMRF
from ..estimators.rbm import RBM
from ..exact import tree_decomposition
from ..inference import row_queries
from ._axes import (
    BLACK,
    BLUE,
    GREY,
    VERMILION,
    check_estimator,
    get_panel_axes,
    hide_frame,
    merge_line_style,
)

METHODS = ("auto", "exact", "samples")
MAX_ENTRIES = 2.5e8  # table entries that exact inference may compute, which takes about 10 s
CHUNK = 4096  # rows
COLUMN, IN_CLIQUE, IN_NONE, PAIR = "column", "pair in a clique", "pair in no clique", "pair"
STYLES = {
    PAIR: {"color": BLUE, "marker": "o"},
    IN_CLIQUE: {"color": BLUE, "marker": "o"},
    IN_NONE: {"color": VERMILION, "marker": "^"},
    COLUMN: {"color": BLACK, "marker": "D"},
}


class MomentsDisplay:
    r"""Plot of data frequencies against model probabilities, for columns and pairs of columns.

    A moment is the probability of a state of one column, or of a pair of states of two columns.
    The left panel shows its frequency in the data against its probability under the model. The
    right panel shows the difference in standard errors. For rows sampled from the model, 95 % of
    the differences are between -2 and 2. For the training rows, the differences tend to be
    smaller, because the model was fitted to them. Pairs in no clique test the model, because their
    moments were not fitted.

    Parameters
    ----------
    data : array-like of shape (n_moments,)
        Frequencies in the data, from 0 to 1.
    model : array-like of shape (n_moments,)
        Probabilities under the model, from 0 to 1.
    standard_error : array-like of shape (n_moments,)
        Standard error of each difference, if the model is true.
    kinds : array-like of str of shape (n_moments,)
        Kind of each moment: "column", "pair in a clique" or "pair in no clique". For a model with
        hidden units, the kind of all pairs is "pair".

    Attributes
    ----------
    axes_ : ndarray of Axes of shape (2,)
        Left and right panel.
    figure_ : Figure
        Figure that contains the axes.
    points_ : dict of str to (Line2D, Line2D)
        Points of the left and of the right panel, keyed by kind of moment.
    z_ : ndarray of shape (n_moments,)
        Differences (data minus model) divided by their standard errors.

    Examples
    --------
    >>> import matplotlib
    >>> matplotlib.use("Agg")
    >>> from skmrf import DiscreteMRF
    >>> from skmrf.datasets import make_ising
    >>> from skmrf.inference import sample
    >>> from skmrf.plot import MomentsDisplay
    >>> X = sample(make_ising("chain", n_variables=4, coupling=0.5), 1000, random_state=0)
    >>> display = MomentsDisplay.from_estimator(DiscreteMRF("independent").fit(X), X)
    >>> sorted(set(display.kinds.tolist()))
    ['column', 'pair in no clique']
    >>> bool(abs(display.z_).max() > 5)
    True
    """

    def __init__(self, data, model, standard_error, kinds):
        self.data = data
        self.model = model
        self.standard_error = standard_error
        self.kinds = kinds

    @classmethod
    def from_estimator(
        cls,
        estimator,
        X,
        *,
        sample_weight=None,
        method="auto",
        n_samples=2000,
        n_pairs=2000,
        random_state=None,
        ax=None,
        **kwargs,
    ):
        r"""Compare the probabilities of a fitted model with the frequencies of a data set.

        For a column with two states, only the upper state is plotted; for other columns, all
        states. For a pair of columns, all combinations of these states are plotted. Missing
        values are ignored: a pair is counted in the rows where both columns are observed.

        Parameters
        ----------
        estimator : DiscreteMRF, BoltzmannMachine or RBM
            Fitted model.
        X : array-like or DataFrame of shape (n_samples, n_features)
            Training rows or other rows. An RBM also accepts a sparse matrix, but no probabilities:
            compare their rounded values.
        sample_weight : array-like of shape (n_samples,), optional
            Weights of the rows. For training rows, pass the weights that were passed to ``fit``.
            The effective number of rows with weights w is :math:`(\sum w)^2 / \sum w^2`. By
            default all weights are 1.
        method : {"auto", "exact", "samples"}, default="auto"
            How to compute the probabilities of the model. With "exact", they are computed by
            variable elimination. With "samples", they are estimated from samples of the model, and
            the standard errors include the Monte Carlo error. With "auto", the method is "exact"
            if this takes only seconds, and otherwise "samples". For models with hidden units it is
            always "samples".
        n_samples : int, default=2000
            Number of samples of the model, at least 2, for ``method="samples"``.
        n_pairs : int, default=2000
            Largest number of pairs of columns. If there are more pairs, this number of pairs is
            chosen at random.
        random_state : int, RandomState, Generator or None, default=None
            Seed or generator for the samples and for the choice of pairs. An int gives the same
            plot at every call.
        ax : array-like of two Axes, optional
            Axes to draw in. By default a new figure is made.
        **kwargs
            Properties of the points, passed to matplotlib.

        Returns
        -------
        MomentsDisplay
            Display with the plot.
        """
        check_estimator(cls, estimator, (DiscreteMRF, BoltzmannMachine, RBM))
        check_choice("method", method, METHODS)
        check_number("n_samples", n_samples, low=2, integer=True)
        check_number("n_pairs", n_pairs, low=0, integer=True)
        codes = _encode(estimator, X)
        weights = check_sample_weight(sample_weight, codes.shape[0])
        weights = np.ones(codes.shape[0]) if weights is None else weights
        rng = check_generator(random_state)
        n_states = estimator.energy_.visible_states
        moments = _Moments(n_states, _choose_pairs(len(n_states), n_pairs, rng))
        frequencies, n_rows = moments.compute_frequencies(codes, weights)
        if _use_exact(estimator, method):
            graph = estimator.energy_.factor_graph()
            model, n_draws = moments.compute_probabilities(graph, estimator.max_bytes), np.inf
        else:
            empty = np.full((n_samples, len(n_states)), MISSING, dtype=STATE)
            samples = estimator._draw(empty, rng)
            model, n_draws = moments.compute_frequencies(samples, np.ones(n_samples))[0], n_samples
        error = _compute_standard_errors(frequencies, n_rows, model, n_draws)
        is_observed = n_rows > 0
        kinds = moments.get_kinds(_get_pair_kinds(estimator, moments.pairs))
        display = cls(
            frequencies[is_observed], model[is_observed], error[is_observed], kinds[is_observed]
        )
        return display.plot(ax=ax, **kwargs)

    def plot(self, ax=None, **kwargs):
        """Plot data frequencies, and their standardised differences, against model probabilities.

        Parameters
        ----------
        ax : array-like of two Axes, optional
            Axes to draw in. By default a new figure is made.
        **kwargs
            Properties of the points, passed to matplotlib.

        Returns
        -------
        MomentsDisplay
            The display itself.
        """
        self.axes_ = get_panel_axes(ax, 2, (3.0, 3.0), 2)
        self.figure_ = self.axes_[0].figure
        data, model, kinds = np.asarray(self.data), np.asarray(self.model), np.asarray(self.kinds)
        self.z_ = (data - model) / np.asarray(self.standard_error)
        left, right = self.axes_
        left.plot([0, 1], [0, 1], color=GREY, linewidth=0.8, zorder=0)
        right.axhspan(-2, 2, color=GREY, alpha=0.2, linewidth=0, zorder=0)
        right.axhline(0, color=GREY, linewidth=0.8, zorder=0)
        self.points_ = {}
        for kind, style in STYLES.items():
            of_kind = kinds == kind
            if not of_kind.any():
                continue
            default = {"linestyle": "", "markersize": 4, "alpha": 0.6, "markeredgewidth": 0}
            default |= style | {"rasterized": of_kind.sum() > CHUNK}
            properties = merge_line_style(default, kwargs)
            (first,) = left.plot(model[of_kind], data[of_kind], label=kind, **properties)
            (second,) = right.plot(model[of_kind], self.z_[of_kind], **properties)
            self.points_[kind] = first, second
        left.set(xlabel="probability (model)", ylabel="frequency (data)")
        right.set(xlabel="probability (model)", ylabel="difference (standard errors)")
        left.legend(frameon=False, fontsize="small", handletextpad=0.2, borderpad=0)
        for axes in self.axes_:
            hide_frame(axes)
        return self


class _Moments:
    """Selected states of columns and of pairs of columns, and their probabilities.

    The object stores the selected states, and computes their frequencies and probabilities.
    """

    def __init__(self, n_states, pairs):
        self.start = np.cumsum(n_states) - n_states
        self.n_states = n_states
        self.pairs = pairs
        states = [np.arange(int(q == 2), q) + s for q, s in zip(n_states, self.start, strict=True)]
        self.single = np.concatenate(states)
        first, second = [], []
        for i, j in pairs:
            a, b = np.meshgrid(states[i], states[j], indexing="ij")
            first.append(a.ravel())
            second.append(b.ravel())
        self.first = np.concatenate([*first, np.zeros(0, dtype=int)]).astype(int)
        self.second = np.concatenate([*second, np.zeros(0, dtype=int)]).astype(int)
        self.n_per_pair = np.array([len(a) for a in first], dtype=int)

    def get_kinds(self, pair_kinds):
        """Return the label of each plotted probability: "column", or the label of its pair."""
        kinds = np.repeat(np.array(pair_kinds, dtype=object), self.n_per_pair)
        return np.array([COLUMN] * len(self.single) + kinds.tolist(), dtype=object)

    def compute_frequencies(self, codes, weights):
        """Return the frequencies of states in the data, and effective numbers of observed rows.

        The frequency is nan if the column, or the pair of columns, is observed in no row.
        """
        size = int(self.n_states.sum())
        counts, (total, squared) = np.zeros((size, size)), np.zeros((2, *(len(self.start),) * 2))
        for s in range(0, codes.shape[0], CHUNK):
            part = dense_rows(codes[s : s + CHUNK])
            w = weights[s : s + CHUNK, None]
            observed = part != MISSING
            one_hot = np.zeros((len(part), size))
            rows, columns = np.nonzero(observed)
            one_hot[rows, self.start[columns] + part[observed]] = 1.0
            counts += one_hot.T @ (w * one_hot)
            total += observed.T @ (w * observed)
            squared += observed.T @ (w**2 * observed)
        counts = self._select(counts)
        owner = np.repeat(np.arange(len(self.n_states)), self.n_states)
        total, squared = (self._select(m[np.ix_(owner, owner)]) for m in (total, squared))
        is_observed = total > 0
        nans = np.full(len(counts), np.nan)
        frequencies = np.divide(counts, total, out=nans, where=is_observed)
        n_rows = np.divide(total**2, squared, out=np.zeros(len(counts)), where=is_observed)
        return frequencies, n_rows

    def _select(self, values):
        """Select probabilities of states and state pairs from a matrix over all states.

        The result has shape (n_moments,).
        """
        return np.concatenate([np.diagonal(values)[self.single], values[self.first, self.second]])

    def compute_probabilities(self, graph, max_bytes):
        """Compute the model probabilities of states and state pairs by variable elimination.

        The joint probability of two states is the probability of the first state, multiplied by
        the marginal of the second state given the first state.
        """
        exact = inference.marginals(graph, method="exact", max_bytes=max_bytes)
        single = np.concatenate(exact.single)
        evidence = np.full((len(single), len(self.start)), MISSING, dtype=STATE)
        owner = np.repeat(np.arange(len(self.n_states)), self.n_states)
        states = np.arange(len(single))
        evidence[states, owner] = states - self.start[owner]
        needed = np.intersect1d(self.first, np.flatnonzero(single > 0))
        joint = np.zeros((len(single), len(single)))
        if needed.size:
            conditionals = row_queries.row_marginals(graph, evidence[needed], max_bytes=max_bytes)
            joint[needed] = single[needed, None] * np.concatenate(conditionals, axis=1)
        np.fill_diagonal(joint, single)
        return self._select(joint)


def _encode(estimator, X):
    """Return the state codes of the rows; they are sparse if an RBM is given a sparse X."""
    if issparse(X) and isinstance(estimator, RBM):
        return estimator._codes(X, reset=False)
    return estimator._encode(X)


def _choose_pairs(n_columns, n_pairs, rng):
    """Return all pairs of columns, or ``n_pairs`` random pairs if there are more than that."""
    pairs = np.array(list(combinations(range(n_columns), 2)), dtype=int).reshape(-1, 2)
    if len(pairs) <= n_pairs:
        return pairs
    return pairs[np.sort(rng.choice(len(pairs), size=n_pairs, replace=False))]


def _use_exact(estimator, method):
    """Return True if the probabilities are computed by variable elimination."""
    if estimator.energy_.has_latent:
        if method == "exact":
            raise ValueError(
                'method="exact" needs variable elimination, which is not available for models with '
                'hidden units; use method="samples".'
            )
        return False
    if method != "auto":
        return method == "exact"
    graph = estimator.energy_.factor_graph()
    cost = tree_decomposition.forecast(graph.layout)
    work = cost.entries * int(graph.n_states.sum()) if cost.order is not None else np.inf
    return cost.order is not None and work <= MAX_ENTRIES and cost.bytes <= estimator.max_bytes


def _get_pair_kinds(estimator, pairs):
    if estimator.energy_.has_latent:
        return [PAIR] * len(pairs)
    if isinstance(estimator, BoltzmannMachine):
        return [IN_CLIQUE] * len(pairs)
    in_clique = {pair for c in estimator.cliques_ for pair in combinations(sorted(c), 2)}
    return [IN_CLIQUE if pair in in_clique else IN_NONE for pair in map(tuple, pairs.tolist())]


def _compute_standard_errors(frequencies, n_rows, model, n_draws):
    """Return the standard errors of the differences between frequencies and probabilities.

    Rows and draws are assumed to have the same probability: the probability of the model if it is
    exact, and otherwise the pooled frequency of rows and draws. With n rows, it is clipped to
    between 0.5 / n and 1 - 0.5 / n, so that the standard errors are positive.
    """
    n_rows = np.maximum(n_rows, 1)
    pooled = model
    if np.isfinite(n_draws):
        pooled = (np.nan_to_num(frequencies) * n_rows + model * n_draws) / (n_rows + n_draws)
    pooled = np.clip(pooled, 0.5 / n_rows, 1 - 0.5 / n_rows)
    return np.sqrt(pooled * (1 - pooled) * (1 / n_rows + 1 / n_draws))
