"""Frequencies of the data beside probabilities of the model."""

from itertools import combinations

import numpy as np
from scipy.sparse import issparse

from .. import inference
from .._utils.codes import MISSING, STATE
from .._utils.log_weights import check_sample_weight
from .._utils.parameters import check_choice, check_number
from .._utils.randomness import check_generator
from .._utils.rows import dense_rows
from ..estimators.boltzmann_machine import BoltzmannMachine
from ..estimators.discrete_mrf import DiscreteMRF
from ..estimators.rbm import RBM
from ..exact import tree_decomposition
from ..inference import row_queries
from ._axes import BLACK, BLUE, GREY, VERMILION, check_estimator, line_style, panel_axes, plain

METHODS = ("auto", "exact", "samples")
MAX_ENTRIES = 2.5e8  # of tables, about ten seconds
CHUNK = 4096  # rows at once
COLUMN, IN_CLIQUE, IN_NONE, PAIR = "column", "pair in a clique", "pair in no clique", "pair"
STYLES = {
    PAIR: {"color": BLUE, "marker": "o"},
    IN_CLIQUE: {"color": BLUE, "marker": "o"},
    IN_NONE: {"color": VERMILION, "marker": "^"},
    COLUMN: {"color": BLACK, "marker": "D"},
}


class MomentsDisplay:
    r"""Data and model compared by single columns and by pairs.

    Left: the share of the rows that have a state, or a pair of states, against the probability of
    it. Right: the difference in standard errors, which is what rows that the model had drawn would
    have between -2 and 2 in 95 of 100 cases. Rows that the model was learned from are closer;
    pairs in no clique are what the model had to guess.

    Parameters
    ----------
    data, model : array-like of shape (n_moments,)
        Frequencies and probabilities.
    standard_error : array-like of shape (n_moments,)
        Of their difference, if the model is right.
    kinds : array-like of str of shape (n_moments,)
        What each is of: "column", "pair in a clique", "pair in no clique" or, where the model has
        hidden units, "pair".

    Attributes
    ----------
    axes_ : ndarray of two Axes
    figure_ : Figure
    points_ : dict of str to (Line2D, Line2D)
        By kind, of both panels.
    z_ : ndarray of shape (n_moments,)
        Differences in standard errors.

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
        r"""Compare a model with rows.

        Of columns with two states the upper one is shown, of others all; of pairs all combinations
        of these. Missing entries are left out, so a pair is counted where both were observed.

        Parameters
        ----------
        estimator : DiscreteMRF, BoltzmannMachine or RBM
            Fitted.
        X : array-like or frame of shape (n_samples, n_features)
            The rows it was learned from, or others; of an RBM also a sparse matrix.
        sample_weight : array-like of shape (n_samples,), optional
            How much a row counts; those that the model was learned with, if it was. Rows of weights
            w are worth :math:`(\sum w)^2 / \sum w^2` rows.
        method : {"auto", "exact", "samples"}, default="auto"
            Where probabilities come from: "exact" is elimination; "samples" are draws of the model,
            whose Monte Carlo error is part of the standard errors. "auto" is "exact" where that
            takes seconds, else "samples".
        n_samples : int, default=2000
            Draws.
        n_pairs : int, default=2000
            Of more pairs of columns, so many are chosen at random.
        random_state : int, RandomState, Generator or None
            For draws, and for which pairs.
        ax : array-like of two Axes, optional
        **kwargs
            Of the points.

        Returns
        -------
        MomentsDisplay
        """
        check_estimator(cls, estimator, (DiscreteMRF, BoltzmannMachine, RBM))
        check_choice("method", method, METHODS)
        check_number("n_samples", n_samples, low=2, integer=True)
        check_number("n_pairs", n_pairs, low=0, integer=True)
        codes = _encoded(estimator, X)
        weights = check_sample_weight(
            1.0 if sample_weight is None else sample_weight, codes.shape[0]
        )
        rng = check_generator(random_state)
        n_states = estimator.energy_.visible_states
        places = _Places(n_states, _chosen_pairs(len(n_states), n_pairs, rng))
        shares, n_rows = places.frequencies(codes, weights)
        if _exactly(estimator, method):
            graph = estimator.energy_.factor_graph()
            model, n_draws = places.probabilities(graph, estimator.max_bytes), np.inf
        else:
            empty = np.full((n_samples, len(n_states)), MISSING, dtype=STATE)
            drawn = estimator._draw(empty, rng)
            model, n_draws = places.frequencies(drawn, np.ones(n_samples))[0], n_samples
        error = _standard_errors(shares, n_rows, model, n_draws)
        seen = n_rows > 0
        kinds = places.kinds(_kinds_of_pairs(estimator, places.pairs))
        display = cls(shares[seen], model[seen], error[seen], kinds[seen])
        return display.plot(ax=ax, **kwargs)

    def plot(self, ax=None, **kwargs):
        """Draw.

        Parameters
        ----------
        ax : array-like of two Axes, optional
        **kwargs
            Of the points.

        Returns
        -------
        MomentsDisplay
        """
        self.axes_ = panel_axes(ax, 2, (3.0, 3.0), 2)
        self.figure_ = self.axes_[0].figure
        data, model, kinds = np.asarray(self.data), np.asarray(self.model), np.asarray(self.kinds)
        self.z_ = (data - model) / np.asarray(self.standard_error)
        left, right = self.axes_
        left.plot([0, 1], [0, 1], color=GREY, linewidth=0.8, zorder=0)
        right.axhspan(-2, 2, color=GREY, alpha=0.2, linewidth=0, zorder=0)
        right.axhline(0, color=GREY, linewidth=0.8, zorder=0)
        self.points_ = {}
        for kind, style in STYLES.items():
            of = kinds == kind
            if not of.any():
                continue
            look = {"linestyle": "", "markersize": 4, "alpha": 0.6, "markeredgewidth": 0}
            look = line_style(look | style | {"rasterized": of.sum() > CHUNK}, kwargs)
            (first,) = left.plot(model[of], data[of], label=kind, **look)
            (second,) = right.plot(model[of], self.z_[of], **look)
            self.points_[kind] = first, second
        left.set(xlabel="probability by the model", ylabel="frequency in the data")
        right.set(xlabel="probability by the model", ylabel="difference (standard errors)")
        left.legend(frameon=False, fontsize="small", handletextpad=0.2, borderpad=0)
        for axes in self.axes_:
            plain(axes)
        return self


class _Places:
    """Which states of columns and of pairs of columns are compared.

    Parameters
    ----------
    n_states : ndarray of shape (n_columns,)
    pairs : ndarray of shape (n_pairs, 2)
    """

    def __init__(self, n_states, pairs):
        self.start = np.cumsum(n_states) - n_states
        self.n_states = n_states
        self.pairs = pairs
        shown = [np.arange(int(q == 2), q) + s for q, s in zip(n_states, self.start, strict=True)]
        self.single = np.concatenate(shown)
        first, second = [], []
        for i, j in pairs:
            a, b = np.meshgrid(shown[i], shown[j], indexing="ij")
            first.append(a.ravel())
            second.append(b.ravel())
        self.first = np.concatenate([*first, np.zeros(0, dtype=int)]).astype(int)
        self.second = np.concatenate([*second, np.zeros(0, dtype=int)]).astype(int)
        self.n_a_pair = np.array([len(a) for a in first], dtype=int)

    def kinds(self, of_pairs):
        """Of every moment, from those of the pairs of columns."""
        of_moments = np.repeat(np.array(of_pairs, dtype=object), self.n_a_pair)
        return np.array([COLUMN] * len(self.single) + of_moments.tolist(), dtype=object)

    def frequencies(self, codes, weights):
        """Shares of rows, nan where none shows both entries, and what these rows are worth."""
        size = int(self.n_states.sum())
        counts, (both, squared) = np.zeros((size, size)), np.zeros((2, *(len(self.start),) * 2))
        for s in range(0, codes.shape[0], CHUNK):
            part = dense_rows(codes[s : s + CHUNK])
            w = weights[s : s + CHUNK, None]
            seen = part != MISSING
            one_hot = np.zeros((len(part), size))
            rows, columns = np.nonzero(seen)
            one_hot[rows, self.start[columns] + part[seen]] = 1.0
            counts += one_hot.T @ (w * one_hot)
            both += seen.T @ (w * seen)
            squared += seen.T @ (w**2 * seen)
        found = self._of_moments(counts)
        owner = np.repeat(np.arange(len(self.n_states)), self.n_states)
        total, squares = (self._of_moments(m[np.ix_(owner, owner)]) for m in (both, squared))
        known = total > 0
        shares = np.divide(found, total, out=np.full(len(found), np.nan), where=known)
        return shares, np.divide(total**2, squares, out=np.zeros(len(found)), where=known)

    def _of_moments(self, values):
        """Those of a matrix by states, shape (n_moments,)."""
        return np.concatenate([np.diagonal(values)[self.single], values[self.first, self.second]])

    def probabilities(self, graph, max_bytes):
        """By elimination: of each column, and of all others given each of its states."""
        exact = inference.marginals(graph, method="exact", max_bytes=max_bytes)
        single = np.concatenate(exact.single)
        given = np.full((len(single), len(self.start)), MISSING, dtype=STATE)
        owner = np.repeat(np.arange(len(self.n_states)), self.n_states)
        states = np.arange(len(single))
        given[states, owner] = states - self.start[owner]
        asked = np.intersect1d(self.first, np.flatnonzero(single > 0))
        joint = np.zeros((len(single), len(single)))
        if asked.size:
            found = row_queries.row_marginals(graph, given[asked], max_bytes=max_bytes)
            joint[asked] = single[asked, None] * np.concatenate(found, axis=1)
        np.fill_diagonal(joint, single)
        return self._of_moments(joint)


def _encoded(estimator, X):
    """State codes of rows, sparse if X is and the estimator takes that."""
    if issparse(X) and isinstance(estimator, RBM):
        return estimator._codes(X, reset=False)
    return estimator._encode(X)


def _chosen_pairs(n_columns, n_pairs, rng):
    """All pairs of columns, or as many of them at random."""
    pairs = np.array(list(combinations(range(n_columns), 2)), dtype=int).reshape(-1, 2)
    if len(pairs) <= n_pairs:
        return pairs
    return pairs[np.sort(rng.choice(len(pairs), size=n_pairs, replace=False))]


def _exactly(estimator, method):
    """Whether probabilities come from elimination."""
    if isinstance(estimator, RBM):
        if method == "exact":
            raise ValueError(
                'method="exact" sums out columns one pair at a time, which hidden units do not '
                'allow; of an RBM take method="samples".'
            )
        return False
    if method != "auto":
        return method == "exact"
    graph = estimator.energy_.factor_graph()
    cost = tree_decomposition.forecast(graph.layout)
    work = cost.entries * int(graph.n_states.sum()) if cost.order is not None else np.inf
    return cost.order is not None and work <= MAX_ENTRIES and cost.bytes <= estimator.max_bytes


def _kinds_of_pairs(estimator, pairs):
    if isinstance(estimator, RBM):
        return [PAIR] * len(pairs)
    if isinstance(estimator, BoltzmannMachine):
        return [IN_CLIQUE] * len(pairs)
    together = {pair for c in estimator.cliques_ for pair in combinations(sorted(c), 2)}
    return [IN_CLIQUE if pair in together else IN_NONE for pair in map(tuple, pairs.tolist())]


def _standard_errors(shares, n_rows, model, n_draws):
    """Of the difference of two binomial shares, if rows and draws have one probability.

    That is the model's own if it is exact, else the share among rows and draws together, and at
    least that of half a row.
    """
    n_rows = np.maximum(n_rows, 1)
    pooled = model
    if np.isfinite(n_draws):
        pooled = (np.nan_to_num(shares) * n_rows + model * n_draws) / (n_rows + n_draws)
    pooled = np.clip(pooled, 0.5 / n_rows, 1 - 0.5 / n_rows)
    return np.sqrt(pooled * (1 - pooled) * (1 / n_rows + 1 / n_draws))
