"""MRFStructureLearner: which columns are joined by an edge, given all others."""

from copy import deepcopy
from dataclasses import replace
from functools import partial as partial_of

import numpy as np
from sklearn.callback import with_callbacks
from sklearn.utils import Bunch
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import check_is_fitted

from .. import structure, training
from .._data.categories import encode, known_columns, shared_categories, training_columns
from .._utils.batch import Batch
from .._utils.codes import MISSING
from .._utils.log_weights import check_sample_weight
from .._utils.parameters import check_choice, check_flag, check_number, check_number_or
from .._utils.randomness import check_generator
from .._utils.warn import warn_caller
from ..energies import FactorGraph
from ..learners import PCD, PseudoLikelihood
from ..learners.pseudo_likelihood import site_log_likelihood
from ._base import LearnedEstimator

FEW_SWEEPS = 2  # a step, as learning begins near the optimum
CHOICES = {
    "method": ("cd", "nodewise"),
    "statistic": ("table", "agreement"),
    "control": ("holm", "fdr"),
}


def _removes_while_learning(estimator):
    """Whether edges are removed while learning goes on, which rows may arrive for."""
    return estimator.warmup is not None


class MRFStructureLearner(LearnedEstimator):
    r"""Graph of a pairwise Markov random field, learned from data.

    Two columns are joined by an edge unless they are independent given all other columns. The
    model is

    .. math:: p(x) = \frac{1}{Z} \exp\Big( \sum_i u_i(x_i)
              + \sum_{(i,j) \in E} \theta_{ij}(x_i, x_j) \Big)

    and :math:`E` is found in rounds. Candidates are all pairs, or, where these are many for the
    rows, pairs that tests of independence find. In a round the parameters of all edges are learned
    by ``learner``, and edges whose :math:`\theta_{ij}` may be zero leave. When none leaves, pairs
    that score tests find missing enter. The rounds end when nothing changes.

    With a number as ``threshold`` and ``warmup=0`` it is the algorithm of [1]_, which removes an
    edge for good when its parameter comes near zero while learning goes on; its threshold is far
    below the sampling error, so that what it finds is a matter of luck.

    Parameters
    ----------
    learner : str or Learner, default="pcd"
        How the gradient of the likelihood is estimated, as in :class:`DiscreteMRF`; "pcd" is
        ``PCD(n_steps=2)`` here, as learning begins near the optimum.
    method : {"cd", "nodewise"}, default="cd"
        ``"nodewise"``: the pseudo-likelihood of every column given the others in place of the
        likelihood (``learner`` is not used), with ``penalty="group-l1"`` unless another is given:
        neighbourhood selection [2]_, the two directions of an edge sharing their parameters.
    statistic : {"table", "agreement"}, default="table"
        Parameters of an edge: a table, or one for :math:`1[x_i = x_j]` as in [1]_, which is meant
        for columns of the same categories. Of columns with two categories the two are the same.
    unary : bool, default=True
        Whether single columns have parameters; [1]_ has none.
    screen : {"auto"}, float or None, default="auto"
        Which pairs are candidates: None takes all, a number those that are dependent by
        chi-square tests with that level of false discoveries [3]_, of every column at most as many
        as there are rows for (20 a parameter). "auto" takes all pairs of which a column's rows
        would bear as many as there are columns, if these have no more than 2,000 parameters; of the
        rest it takes 0.05, and of every column the 64 strongest at most.
    threshold : "wald" or float, default="wald"
        ``"wald"``: an edge stays if its parameters differ from zero by a Wald test. A number: if
        :math:`\lVert \theta_{ij} \rVert`, the norm of the centred table, is at least that; of
        columns with two categories this is :math:`\lvert \log \beta / (1 - \beta) \rvert`
        of [1]_, twice the coupling of states -1 and 1.
    control : {"holm", "fdr"}, default="holm"
        What ``level`` bounds: the probability of any false edge (Holm), or the expected share of
        false ones among those found (Benjamini and Hochberg).
    level : float, default=0.05
    warmup : int, optional
        With a number as threshold: updates after which edges are removed while learning goes on.
        By default they are removed when learning is over, and the rest is learned again.
    re_entry : bool, default=True
        Whether score tests bring pairs back, with ``threshold="wald"``.
    penalty : {"l1", "group-l1"}, optional
        Select the edges that are not zero under a penalty, instead of by ``threshold``; their
        parameters are then learned again without it. Gaps are drawn from independent columns for
        it, so that weak edges are missed rather than noise taken for edges.
    alpha : {"ebic", "cv"} or float, default="ebic"
        Strength of the penalty against the mean log-likelihood (or pseudo-log-likelihood) in nats,
        or how it is chosen along a path of 20: by the extended Bayesian information criterion [4]_,
        with finer steps about the best, or by 5-fold cross-validated pseudo-likelihood, which
        leaves many false edges.
    n_bootstraps : int, default=0
        Times that the whole selection is repeated on rows drawn with replacement.
    categories : "auto" or list of lists, default="auto"
        Categories of every column; "auto" takes those seen in fit.
    optimizer : {"auto", "lbfgs", "adam", "sgd", "momentum"} or instance, default="auto"
        "auto" is L-BFGS (FISTA under a penalty) for deterministic learners, SGD where edges are
        removed while learning goes on, else Adam.
    learning_rate : {"adaptive", "constant", "step", "inverse"}, float or schedule
        Of stochastic learners, default="adaptive": halved whenever the gradient is only noise.
    batch_size : int, optional
        Rows a stochastic update sees; by default all, or as many as have 262,144 entries.
    max_iter : int, optional
        Epochs of every round; by default until converged.
    tol : float, default=1e-6
        Largest gradient entry (mismatch of a moment) at which L-BFGS stops.
    max_bytes : float, default=4 GiB
        Bound on the memory of a column's conditional likelihood and of the pairs' tables.
    n_jobs : int, optional
        Processes over bootstraps, threads over columns and blocks of chains.
    random_state : int, RandomState, Generator or None

    Attributes
    ----------
    edges_ : ndarray of shape (n_edges, 2)
        Indices of columns, the lower first.
    coupling_ : ndarray of shape (n_features, n_features), or list of ndarray
        Of columns with two categories, and of "agreement": J of states -1 and 1, half the
        parameter of agreement; 0 where there is no edge, and infinite where a column repeats
        another one. Else the centred table of every edge.
    confidence_intervals_ : ndarray of shape (n_edges, 2), or list of ndarray of shape (2, ...)
        95% limits, edge by edge, of ``coupling_``; those of one edge, were the graph known.
    strength_ : ndarray of shape (n_features, n_features)
        :math:`\lVert \theta_{ij} \rVert`.
    p_values_ : ndarray of shape (n_features, n_features)
        Of all pairs, adjusted for multiple tests by ``control``: of edges that they are not
        needed, of other pairs that they are not missing.
    edge_probability_ : ndarray of shape (n_features, n_features)
        Posterior probability that a pair is an edge, by a model of two groups of the tests of all
        pairs [5]_, [6]_: those without an edge, and edges strong enough to be seen. Edges weaker
        than about 0.7 standard errors count as none.
    edge_frequency_ : ndarray of shape (n_features, n_features)
        Share of the bootstraps that found the edge. Only with bootstraps.
    graph_ : networkx.Graph
        Nodes are columns, by name where they have one; edges have ``weight`` (coupling, or
        strength), ``strength``, ``p_value``, ``probability``, of couplings ``sign``, and with
        bootstraps ``frequency``.
    path_ : Bunch
        ``edges`` (n_paths, 2), ``iteration`` (n_records,), ``parameters`` (n_records, n_paths) by
        update (norms of tables), and ``removed``: the update at which an edge left, or -1.
    rounds_ : list of dict
        Edges at the beginning of every round, how many left and how many entered.
    n_candidates_ : int
        Pairs that learning began with.
    alpha_ : float
        Strength of the penalty, where there is one.
    energy_ : FactorGraph
        The model with its parameters, for :mod:`skmrf.inference`.
    categories_ : list of ndarray
    history_ : dict of lists
        Diagnostics, one entry an epoch.
    n_iter_ : int
        Epochs of all rounds.
    converged_ : bool
        Whether the last round had converged and changed nothing.
    n_features_in_, feature_names_in_

    See Also
    --------
    DiscreteMRF : takes a structure learner as ``cliques``.

    References
    ----------
    .. [1] J. Liu and D. Page, "Structure learning of undirected graphical models with contrastive
       divergence", ICML 2013 workshop on structured learning.
    .. [2] P. Ravikumar, M. J. Wainwright, J. D. Lafferty, "High-dimensional Ising model selection
       using l1-regularized logistic regression", Annals of Statistics 38 (2010).
    .. [3] Y. Benjamini and Y. Hochberg, "Controlling the false discovery rate", Journal of the
       Royal Statistical Society B 57 (1995).
    .. [4] R. Foygel Barber and M. Drton, "High-dimensional Ising model selection with Bayesian
       information criteria", Electronic Journal of Statistics 9 (2015).
    .. [5] M. Stephens, "False discovery rates: a new deal", Biostatistics 18 (2017).
    .. [6] V. E. Johnson and D. Rossell, "On the use of non-local prior densities in Bayesian
       hypothesis tests", JRSS B 72 (2010).

    Examples
    --------
    >>> from skmrf import MRFStructureLearner
    >>> from skmrf.datasets import make_ising
    >>> from skmrf.inference import sample
    >>> chain = make_ising("chain", n_variables=5, coupling=0.5)
    >>> X = sample(chain, 2000, random_state=0)
    >>> MRFStructureLearner(random_state=0).fit(X).edges_
    array([[0, 1],
           [1, 2],
           [2, 3],
           [3, 4]])
    """

    _energy_type = FactorGraph

    def __init__(
        self,
        learner="pcd",
        *,
        method="cd",
        statistic="table",
        unary=True,
        screen="auto",
        threshold="wald",
        control="holm",
        level=0.05,
        warmup=None,
        re_entry=True,
        penalty=None,
        alpha="ebic",
        n_bootstraps=0,
        categories="auto",
        optimizer="auto",
        learning_rate="adaptive",
        batch_size=None,
        max_iter=None,
        tol=1e-6,
        max_bytes=4 * 2**30,
        n_jobs=None,
        random_state=None,
    ):
        self.learner = learner
        self.method = method
        self.statistic = statistic
        self.unary = unary
        self.screen = screen
        self.threshold = threshold
        self.control = control
        self.level = level
        self.warmup = warmup
        self.re_entry = re_entry
        self.penalty = penalty
        self.alpha = alpha
        self.n_bootstraps = n_bootstraps
        self.categories = categories
        self.optimizer = optimizer
        self.learning_rate = learning_rate
        self.batch_size = batch_size
        self.max_iter = max_iter
        self.tol = tol
        self.max_bytes = max_bytes
        self.n_jobs = n_jobs
        self.random_state = random_state

    @with_callbacks
    def fit(self, X, y=None, sample_weight=None):
        """Learn the graph.

        Parameters
        ----------
        X : array-like or frame of shape (n_samples, n_features)
            Categories; nan, None or NA where missing (at random: gaps are filled by draws from the
            model, and pairs count as often as both were observed). Constant columns have no edges;
            a column that repeats another one has an edge to it and to no other, unless that may
            be chance, as where rows are few or states rare.
        y : ignored
        sample_weight : array-like of shape (n_samples,), optional
            How often a row counts: a weight of 2 is the row twice, so the weights should sum to
            the number of independent observations.

        Returns
        -------
        self

        Raises
        ------
        ValueError
            Real numbers that are no categories, a column without an observed entry, parameters out
            of their range, a number of parameters of a column that does not fit into
            ``max_bytes``.
        """
        return self._learn(X, sample_weight)

    @available_if(_removes_while_learning)
    @with_callbacks
    def partial_fit(self, X, y=None, sample_weight=None):
        """One epoch over ``X`` of learning that removes edges, going on from those before.

        Only with a number as ``threshold`` and ``warmup``. The first call, also after a ``fit``,
        begins anew and fixes the categories and the candidates; tests are those of the rows of the
        last call, and there are no bootstraps. A column that repeats another one is like any other.

        Parameters
        ----------
        X, y, sample_weight
            As in :meth:`fit`.

        Returns
        -------
        self
        """
        return self._learn(X, sample_weight, partial=True)

    def score(self, X, y=None):
        """Mean pseudo-log-likelihood of the rows without missing entries, in nats.

        Parameters
        ----------
        X : array-like or frame of shape (n_samples, n_features)
        y : ignored

        Returns
        -------
        float
            Mean over rows of the sum over columns of log p(column given all others).
        """
        check_is_fitted(self)
        codes = encode(known_columns(self, X), self.categories_, self._column_names())
        complete = (codes != MISSING).all(axis=1)
        if not complete.any():
            raise ValueError(
                "score needs a row without missing entries; every row has some. Fill them with "
                "DiscreteMRF.predict."
            )
        return float(np.mean(site_log_likelihood(self.energy_, codes[complete])[0]))

    def _learned(self, X, y, sample_weight, partial, validation):
        learner = self._check_parameters()
        before = getattr(self, "_online", None) if partial else None
        data, categories = self._encode_training(X, y, resume=before is not None)
        estimation = deepcopy(before)
        columns = None
        if partial:  # what a column shows may change with the rows
            varied = np.flatnonzero([len(c) > 1 for c in categories])
            columns = structure.Columns(varied, [], [])
        everything, rows, columns = self._rows(data, categories, sample_weight, columns)
        reports = training.EpochReports(self, X, y, 1 if partial else None)
        checkpoint = training.NoCheckpoint() if partial else self._checkpoint
        if estimation is None:
            rng = check_generator(self.random_state)
            rng = checkpoint.begin(rng, self, everything.X, everything.weights, categories)
            estimation = structure.Estimation(
                learner, self._schedule(), rng, structure.Path(), n_jobs=self.n_jobs
            )
        criteria = self._criteria()
        search = partial_of(self._search, rows, criteria, estimation, reports, partial)
        bootstraps, (chosen, estimation) = checkpoint.first(search)
        interrupted = estimation.interrupted
        if bootstraps is not None and not checkpoint.ended:
            self._repeat(bootstraps, rows, criteria, estimation, reports, checkpoint)
            interrupted = bootstraps.interrupted
        if not interrupted and not checkpoint.ended:
            checkpoint.write(bootstraps, ended=True)
        frequencies = bootstraps and bootstraps.frequencies()
        fitted = self._results(chosen, frequencies, columns, everything, categories, estimation)
        reports.finish(lambda: fitted)
        for name in ("alpha_", "edge_frequency_"):  # not every fit has them
            vars(self).pop(name, None)
        online = estimation if partial else None
        return fitted | {"_online": online, "_interrupted": interrupted}

    def _search(self, rows, criteria, estimation, reports, partial):
        """Bootstraps before the first, if there are to be any, and the graph."""
        estimation.reports = reports
        find = structure.select_more if partial else structure.select
        chosen = find(rows, criteria, estimation)
        estimation.reports = None  # it holds the rows
        bootstraps = None
        if self.n_bootstraps and not estimation.stopped and not partial:
            bootstraps = structure.Bootstraps.none(len(rows.n_states), estimation.rng)
        return bootstraps, (chosen, estimation)

    def _repeat(self, bootstraps, rows, criteria, estimation, reports, checkpoint):
        """Make the bootstraps that are not done yet."""
        checkpoint.write(bootstraps)
        reports.checkpoint = checkpoint
        here = replace(estimation, reports=reports, n_jobs=self.n_jobs)
        structure.repeated(rows, criteria, here, self.n_bootstraps, bootstraps)

    def _schedule(self):
        return structure.Schedule(
            self.optimizer, self.learning_rate, self.batch_size, self.max_iter, self.tol
        )

    def _check_parameters(self):
        """Check what needs no data; return the learner."""
        for name, choices in CHOICES.items():
            check_choice(name, getattr(self, name), choices)
        for name in ("unary", "re_entry"):
            check_flag(name, getattr(self, name))
        check_number_or(("auto", None), "screen", self.screen, low=0, high=1, open_low=True)
        check_number("level", self.level, low=0, high=1, open_low=True)
        check_number("n_bootstraps", self.n_bootstraps, low=0, integer=True)
        check_number("tol", self.tol, low=0)
        check_number("max_bytes", self.max_bytes, low=0, open_low=True)
        for name in ("batch_size", "max_iter"):
            if getattr(self, name) is not None:
                check_number(name, getattr(self, name), low=1, integer=True)
        self._check_selection()
        learner = self._check_learner()
        if self.method == "nodewise":
            return PseudoLikelihood()
        return PCD(n_steps=FEW_SWEEPS) if self.learner == "pcd" else learner

    def _check_selection(self):
        check_number_or(("wald",), "threshold", self.threshold, low=0)
        if self.warmup is not None:
            check_number("warmup", self.warmup, low=0, integer=True)
            if self.threshold == "wald" or self._penalty() is not None:
                raise ValueError(
                    "warmup is for edges that are removed while learning goes on, which takes a "
                    'number as threshold, method="cd" and no penalty; with others use warmup=None.'
                )
        if self.penalty is not None:
            check_choice("penalty", self.penalty, ("l1", "group-l1"))
        check_number_or(("ebic", "cv"), "alpha", self.alpha, low=0, open_low=True)

    def _penalty(self):
        return self.penalty or ("group-l1" if self.method == "nodewise" else None)

    def _criteria(self):
        penalty = self._penalty()
        return structure.Criteria(
            statistic=self.statistic,
            unary=bool(self.unary),
            screen=self.screen,
            threshold=None if penalty else self.threshold,
            control=self.control,
            level=self.level,
            warmup=self.warmup,
            re_entry=bool(self.re_entry) and penalty is None and self.threshold == "wald",
            penalty=penalty and (penalty, self.alpha),
            max_bytes=self.max_bytes,
        )

    def _encode_training(self, X, y, resume):
        """State codes and categories; counts and names of columns are recorded."""
        columns, categories, names = training_columns(self, X, resume)
        if not resume and self.statistic == "agreement" and max(map(len, categories)) > 2:
            categories = shared_categories(categories)
        return Batch(encode(columns, categories, names)), categories

    def _rows(self, data, categories, sample_weight, columns=None):
        """All rows that count, and those of the columns that edges can be learned between."""
        weights = check_sample_weight(sample_weight, len(data.X))
        weights = np.ones(len(data.X)) if weights is None else weights
        if sample_weight is not None and weights.sum() < 2.0:
            warn_caller(
                f"sample_weight sums to {weights.sum():.3g}, as if there were no more rows. A "
                "weight is how often a row counts; multiply them by the number of independent rows."
            )
        n_states = np.array([len(c) for c in categories])
        everything = structure.Rows(data.X, weights, n_states).take(1.0 * (weights > 0))
        if columns is None:
            same_states = self.statistic == "agreement"
            columns = structure.Columns.of(everything.X, everything.weights, same_states)
        kept = columns.kept
        rows = structure.Rows(
            np.ascontiguousarray(everything.X[:, kept]), everything.weights, n_states[kept]
        )
        return everything, rows, columns

    def _results(self, chosen, frequencies, columns, everything, categories, estimation):
        """Fitted attributes."""
        found = structure.FittedGraph(chosen, columns, everything, self.control)
        fitted = {
            "edges_": found.edges,
            "coupling_": found.coupling(),
            "confidence_intervals_": found.intervals(),
            "strength_": found.strength,
            "p_values_": found.p_values(),
            "edge_probability_": found.probabilities(),
            "path_": Bunch(**estimation.path.summary(columns.kept)),
            "rounds_": chosen.rounds,
            "n_candidates_": chosen.n_candidates,
            "energy_": found.model(),
            "categories_": categories,
            "history_": estimation.history,
            "n_iter_": estimation.n_iter,
            "converged_": estimation.converged and chosen.settled,
        }
        if frequencies is not None:
            fitted["edge_frequency_"] = found.frequencies(frequencies)
        if estimation.alpha is not None:
            fitted["alpha_"] = estimation.alpha
        return fitted

    @property
    def graph_(self):
        """The edges as a networkx graph, made anew whenever it is asked for."""
        check_is_fitted(self)
        by_number = not isinstance(self.coupling_, list)
        by_edge = {
            "weight": self.coupling_ if by_number else self.strength_,
            "strength": self.strength_,
            "p_value": self.p_values_,
            "probability": self.edge_probability_,
        }
        if by_number:
            by_edge["sign"] = np.sign(self.coupling_)
        if hasattr(self, "edge_frequency_"):
            by_edge["frequency"] = self.edge_frequency_
        return structure.network(self._column_names(), self.edges_, by_edge)

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.input_tags.categorical = True
        tags.input_tags.string = True
        tags.input_tags.allow_nan = True
        return tags
