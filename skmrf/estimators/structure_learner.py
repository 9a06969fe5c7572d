"""Structure learning of pairwise Markov random fields."""

from copy import deepcopy

from sklearn.callback import CallbackSupportMixin, with_callbacks
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import check_is_fitted

from .._data.frames import column_names
from .._utils.parallel import run_parts
from .._utils.parameters import (
    check_choice,
    check_flag,
    check_generator,
    check_number,
    check_number_or,
)
from ..structure.fitted_graph import build_network, edge_attributes
from ..structure.path import Path
from ..structure.search import Estimation, select_on_sample
from ..structure.training_settings import LoopParameters
from ..training import checkpoints
from ..training.part_reports import Bootstraps
from ..training.reports import EpochReports
from ._base import LearnedEstimator, NestedEstimator, unchanged_on_error
from ._structure import (
    collect_results,
    encode_part,
    encode_table,
    make_model,
    make_search,
    make_search_learner,
    score_rows,
)

STATISTICS = ("table", "agreement")
OPTIONAL_ATTRIBUTES = ("alpha_", "edge_frequency_", "energy_", "path_")  # of some fits only


def _takes_partial_fit(estimator):
    """Return True if the search strategy supports ``partial_fit``."""
    return make_search(estimator.search).takes_partial_fit


class MRFStructureLearner(CallbackSupportMixin, NestedEstimator):
    r"""Structure learner of pairwise Markov random fields.

    Two columns are joined by an edge unless they are independent given all other columns. The
    model is

    .. math:: p(x) = \frac{1}{Z} \exp\Big( \sum_i u_i(x_i)
              + \sum_{(i,j) \in E} \theta_{ij}(x_i, x_j) \Big)

    Tables with numeric columns have a mixed graphical model [6]_, [7]_. Each numeric column is
    transformed monotonically. Given the other columns it has a linear mean and a constant variance,
    and a categorical column has a multinomial logistic distribution. If all columns are numeric,
    this is a Gaussian graphical model. Its parameters are estimated by regressions of each column
    on its neighbours, and an edge is tested in the regressions of both of its columns. With a few
    hundred rows or fewer, ``search="nodewise"`` or ``WaldTests("fdr")`` find more edges.

    A search strategy decides which edges are in :math:`E`. The default strategy has rounds of
    backward elimination and forward selection. It starts with all pairs as edges. If there are too
    many pairs for the number of rows, it starts with the pairs that tests of independence select.
    In each round ``learner`` learns the parameters of all edges, and Wald tests remove the edges
    whose :math:`\theta_{ij}` may be zero. If no edge is removed, score tests add pairs
    without an edge. The search ends when a round changes nothing.

    Parameters
    ----------
    learner : str or Learner, default="auto"
        Estimator of the gradient of the likelihood, as in :class:`DiscreteMRF`, such as "exact",
        "pcd" or "pseudo-likelihood", or an instance of a class of :mod:`skmrf.learners`. "auto" is
        "pseudo-likelihood" for the searches "tests" and "nodewise", else "pcd". Here "pcd" is
        ``PCD(n_sweeps=2)``. Two sweeps per step are enough, because learning starts near the
        optimum. Tables with numeric columns need "auto" or "pseudo-likelihood".
    search : str or search strategy, default="tests"
        Strategy that decides which pairs are edges. An instance of a class of
        :mod:`skmrf.structure` has its own parameters, which a grid search names ``search__level``
        etc. Tables with numeric columns need "tests", "l1", "group-l1" or "nodewise". A name
        selects an instance with default parameters:

        - "tests", :class:`~skmrf.structure.WaldTests`: Wald tests remove edges and score tests add
          edges, until nothing changes.
        - "thresholding", :class:`~skmrf.structure.Thresholding`: edges with small parameters are
          removed after learning.
        - "removal", :class:`~skmrf.structure.RemovalWhileLearning`: edges with small parameters are
          removed while learning, as in [1]_.
        - "l1" and "group-l1", :class:`~skmrf.structure.Penalized`: the edges are the pairs whose
          parameters are not zero with this penalty.
        - "nodewise", :class:`~skmrf.structure.Nodewise`: as "group-l1", but with the
          pseudo-likelihood instead of the likelihood [2]_.
    statistic : {"table", "agreement"}, default="table"
        Parameters of an edge. "table" is a table with an entry for each pair of categories.
        "agreement" is a single parameter of :math:`1[x_i = x_j]` as in [1]_, for columns with the
        same categories. If all columns have two categories, both give the same model.
    unary : bool, default=True
        Whether single columns have parameters :math:`u_i`. The model of [1]_ has none.
    screen : {"auto"}, float or None, default="auto"
        Pairs that are candidates for edges.

        - None: all pairs.
        - A float, above 0 and at most 1: the pairs that chi-square tests find dependent at this
          false discovery rate [3]_. The number of candidates of a column is limited, so that there
          are 20 rows per parameter.
        - "auto": all pairs with so few parameters that the rows are enough for all pairs of a
          column, if these pairs have at most 2,000 parameters in total. Other pairs are candidates
          if chi-square tests find them dependent at a false discovery rate of 0.05. Each column has
          at most its 64 strongest such pairs.
    n_bootstraps : int, default=0
        Number of bootstraps: repetitions of the whole search on rows drawn with replacement.
    column_types : "auto", str, list of str, or dict, default="auto"
        Types of the columns: "categorical", "boolean", "ordinal", "integer", "continuous",
        "non-negative" or "bounded". One type for all columns, a list with a type for each column,
        or a dict by name or index. "auto" detects the types: text is categorical, and numbers are
        categorical if they have at most 20 distinct values. If they are not whole numbers, they
        must also have at most two distinct values, or at most the square root of the number of
        rows. If other columns are numeric, ordinal columns are treated as numeric.
    categories : "auto" or list of lists, default="auto"
        Categories of each column with categories. "auto" uses the categories seen during fit. A
        list makes all columns categorical if ``column_types="auto"``.
    optimizer : {"auto", "lbfgs", "adam", "sgd", "momentum"} or instance, default="auto"
        Optimizer of the parameters. "auto" is SGD if edges are removed while learning. Otherwise it
        is Adam for stochastic learners, and L-BFGS (FISTA with a penalty) for deterministic ones.
    learning_rate : str, float or schedule, default="adaptive"
        Learning rate of stochastic learners. "adaptive" halves the rate whenever the gradient is
        only noise. "constant" keeps the first rate, "step" halves it every 1000 updates, and
        "inverse" divides it by ``1+t/100`` after t updates. The first rate is 0.03 for Adam, 0.1
        for SGD and 0.02 for momentum. With "adaptive", it is 0.01 if learning starts near the
        optimum. A float is a constant rate. An instance of a schedule of :mod:`skmrf.training` has
        its own parameters.
    batch_size : int, optional
        Number of rows in a minibatch of a stochastic learner. By default a minibatch has all rows,
        but at most 262,144 entries.
    max_iter : int, optional
        Maximum number of epochs of each round. By default learning continues until it converges.
    tol : float, default=1e-6
        Tolerance of deterministic solvers. They stop when no entry of the gradient (difference of a
        moment between data and model) is larger in absolute value.
    max_bytes : float, default=4 * 2**30
        Maximum memory in bytes of the conditional likelihood of a column. The default is 4 GiB.
    n_jobs : int, optional
        Number of processes over bootstraps, and of threads over columns and over blocks of Markov
        chains. Results do not depend on it.
    random_state : int, RandomState, Generator or None, default=None
        Random numbers of Markov chains, imputations, folds and bootstraps. An int makes fits
        reproducible.
    verbose : int, default=0
        Amount of progress messages. 0: none. 1: a line every few seconds with the epoch or
        bootstrap, and the last score in ``history_``. 2: a line per epoch or bootstrap.

    Attributes
    ----------
    edges_ : ndarray of shape (n_edges, 2)
        Pairs of column indices, the lower index first.
    coupling_ : ndarray of shape (n_features, n_features), or list of ndarray
        If all columns have two categories, or with ``statistic="agreement"``: a matrix of couplings
        for the states -1 and 1, which are half the parameters of agreement. A coupling is 0 if
        there is no edge, and infinite if a column repeats another one. If all columns are numeric:
        a matrix of partial correlations. Otherwise: a list with an array for each edge. Two
        categorical columns have their centred table, two numeric columns their partial correlation,
        and a numeric and a categorical column a centred array of shape (n_categories,): the change
        of the log-density per conditional standard deviation of the numeric column.
    confidence_intervals_ : ndarray of shape (n_edges, 2), or list of ndarray of shape (2, ...)
        Lower and upper limits of the 95% confidence intervals of the coupling or the table of each
        edge. They assume that the graph is known.
    strength_ : ndarray of shape (n_features, n_features)
        Norm :math:`\lVert \theta_{ij} \rVert` of the parameters of a pair, 0 if there is no edge.
    p_values_ : ndarray of shape (n_features, n_features)
        p-values of all pairs, adjusted for multiple tests by the ``control`` of the search, or by
        "fdr" if it is "local-fdr". The null hypothesis of an edge is that its parameters are zero.
        The null hypothesis of another pair is that adding it as an edge does not improve the model.
    edge_probability_ : ndarray of shape (n_features, n_features)
        Posterior probability that a pair is an edge. A mixture of two groups, edges and other
        pairs, is fitted to the test statistics of all pairs [4]_, [5]_. Edges weaker than about 0.7
        standard errors count as no edge.
    predictability_ : ndarray of shape (n_features,)
        How well each column is predicted by its neighbours in the training rows [8]_, from 0 to 1.
        Numeric columns: share of the variance that the neighbours explain. Categorical columns:
        normalised accuracy :math:`(A - A_0) / (1 - A_0)`, where :math:`A` is the accuracy of the
        prediction by the neighbours, and :math:`A_0` the share of the most frequent category.
    edge_frequency_ : ndarray of shape (n_features, n_features)
        Share of the bootstraps in which a pair is an edge. It exists only if ``n_bootstraps`` is
        positive.
    graph_ : networkx.Graph
        Graph of the columns. Nodes are column names, or indices if there are no names. Edges have
        the attributes ``weight`` (coupling, or strength if couplings are tables), ``strength``,
        ``p_value`` and ``probability``, also ``sign`` if couplings are numbers, and ``frequency``
        with bootstraps.
    path_ : Bunch
        Parameters of the edges during learning. ``edges``, shape (n_paths, 2), has pairs of column
        indices. ``iteration``, shape (n_records,), has numbers of updates. ``parameters``, shape
        (n_records, n_paths), has the parameters, or the norms of tables. ``removed``, shape
        (n_paths,), has the update at which an edge was removed, or -1. Only for categorical tables.
    rounds_ : list of dict
        Number of edges at the beginning of each round, and numbers of removed and added edges.
    n_candidates_ : int
        Number of candidate pairs at the beginning of learning.
    alpha_ : float
        Strength of the penalty. It exists only with a penalised search.
    energy_ : FactorGraph
        Fitted model of all columns. :mod:`skmrf.inference` has functions to query it. It exists
        only if no column is numeric.
    column_types_ : list of str
        Type of each column.
    categories_ : list of ndarray
        Categories of each column, empty for numeric columns.
    history_ : dict of lists
        Diagnostics of training: one list per quantity, with one entry per epoch. Empty if a column
        is numeric.
    n_iter_ : int
        Number of epochs of all rounds, or number of rounds if a column is numeric.
    converged_ : bool
        Whether the last round converged and changed nothing.
    n_features_in_ : int
        Number of columns.
    feature_names_in_ : ndarray of shape (n_features,)
        Names of the columns, if they are all strings.

    See Also
    --------
    DiscreteMRF : Estimator that takes a structure learner as ``cliques``.
    skmrf.structure : Search strategies.

    References
    ----------
    .. [1] J. Liu and D. Page, "Structure learning of undirected graphical models with contrastive
       divergence", ICML 2013 workshop on structured learning.
    .. [2] P. Ravikumar, M. J. Wainwright, J. D. Lafferty, "High-dimensional Ising model selection
       using l1-regularized logistic regression", Annals of Statistics 38 (2010).
    .. [3] Y. Benjamini and Y. Hochberg, "Controlling the false discovery rate", Journal of the
       Royal Statistical Society B 57 (1995).
    .. [4] Stephens, M., "False discovery rates: a new deal", Biostatistics 18 (2017).
    .. [5] V. E. Johnson and D. Rossell, "On the use of non-local prior densities in Bayesian
       hypothesis tests", JRSS B 72 (2010).
    .. [6] J. D. Lee and T. J. Hastie, "Learning the structure of mixed graphical models", Journal
       of Computational and Graphical Statistics 24 (2015).
    .. [7] J. M. B. Haslbeck and L. J. Waldorp, "mgm: estimating time-varying mixed graphical models
       in high-dimensional data", Journal of Statistical Software 93 (2020).
    .. [8] J. M. B. Haslbeck and L. J. Waldorp, "How well do network models predict observations? On
       the importance of predictability in network models", Behavior Research Methods 50 (2018).

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
    >>> len(MRFStructureLearner(search="nodewise", random_state=0).fit(X).edges_)
    4
    """

    _checkpoint = checkpoints.NoCheckpoint()  # a callback replaces it during a fit
    _doc_link_module = LearnedEstimator._doc_link_module
    _doc_link_template = LearnedEstimator._doc_link_template

    def __init__(
        self,
        learner="auto",
        *,
        search="tests",
        statistic="table",
        unary=True,
        screen="auto",
        n_bootstraps=0,
        column_types="auto",
        categories="auto",
        optimizer="auto",
        learning_rate="adaptive",
        batch_size=None,
        max_iter=None,
        tol=1e-6,
        max_bytes=4 * 2**30,
        n_jobs=None,
        random_state=None,
        verbose=0,
    ):
        self.learner = learner
        self.search = search
        self.statistic = statistic
        self.unary = unary
        self.screen = screen
        self.n_bootstraps = n_bootstraps
        self.column_types = column_types
        self.categories = categories
        self.optimizer = optimizer
        self.learning_rate = learning_rate
        self.batch_size = batch_size
        self.max_iter = max_iter
        self.tol = tol
        self.max_bytes = max_bytes
        self.n_jobs = n_jobs
        self.random_state = random_state
        self.verbose = verbose

    @with_callbacks
    def fit(self, X, y=None, sample_weight=None):
        """Learn the edges of the graph.

        Parameters
        ----------
        X : array-like or frame of shape (n_samples, n_features)
            Training rows of categories and numbers. nan, None and NA are missing entries. They are
            assumed to be missing at random and are imputed by samples of the model. The sample size
            of a pair is the number of rows in which both columns are observed. Constant columns
            have no edges. A column that repeats another column, or is a monotone function of a
            numeric column, has an edge to this column only, unless the repetition may be chance, as
            with few rows or rare categories.
        y : ignored
            Not used.
        sample_weight : array-like of shape (n_samples,), optional
            Number of times that each row counts. A row with weight 2 is the same as two equal rows.
            The weights should sum to the number of independent observations.

        Returns
        -------
        self
            The fitted estimator.

        Raises
        ------
        ValueError
            If a column has no observed entry or infinite entries, if it has more categories than
            half of the rows and another column is numeric, if a parameter is out of its range or
            does not support numeric columns, or if the parameters of a column need more than
            ``max_bytes``.
        """
        with unchanged_on_error(self):
            self._set_attributes(self._learn(X, sample_weight))
        return self

    @available_if(_takes_partial_fit)
    @with_callbacks
    def partial_fit(self, X, y=None, sample_weight=None):
        """Train for one epoch over ``X`` and remove edges, starting from the previous call.

        This method exists only if ``search`` is "removal" or a
        :class:`~skmrf.structure.RemovalWhileLearning`. The first call, also after :meth:`fit`,
        starts anew and fixes the categories and the candidate edges. Tests use the rows of the
        last call only. There are no bootstrap repetitions. Columns that repeat
        another column get no special treatment.

        Parameters
        ----------
        X : array-like or frame of shape (n_samples, n_features)
            Training rows of categories. nan, None and NA are missing entries.
        y : ignored
            Not used.
        sample_weight : array-like of shape (n_samples,), optional
            Number of times that each row counts, as in :meth:`fit`.

        Returns
        -------
        self
            The fitted estimator.
        """
        with unchanged_on_error(self):
            self._set_attributes(self._learn_epoch(X, sample_weight))
        return self

    def score(self, X, y=None):
        """Return the mean pseudo-log-likelihood in nats; rows with missing entries are left out.

        Parameters
        ----------
        X : array-like or frame of shape (n_samples, n_features)
            Rows of numbers, and of categories that were seen during fit. Rows with a missing entry
            (nan, None or NA) are not scored.
        y : ignored
            Not used.

        Returns
        -------
        float
            Mean over rows of the sum over columns of log p(column given all others). The densities
            of numeric columns are those of the transformed columns.
        """
        check_is_fitted(self)
        return score_rows(self, X)

    @property
    def graph_(self):
        """Learned graph as a new networkx graph, with the attributes of each edge."""
        check_is_fitted(self)
        return build_network(column_names(self), self.edges_, edge_attributes(vars(self)))

    def __sklearn_tags__(self):
        """Return the scikit-learn tags of the estimator."""
        tags = super().__sklearn_tags__()
        tags.input_tags.categorical = True
        tags.input_tags.string = True
        tags.input_tags.allow_nan = True
        return tags

    # Learning ------------------------------------------------------------------------------

    def _learn(self, X, sample_weight):
        """Run the search for the graph, and return the fitted attributes."""
        search, learner = self._check_parameters()
        table = encode_table(self, X, sample_weight, search)
        model = make_model(self, table)
        reports = EpochReports(self, X, None, None)
        checkpoint, everything = self._checkpoint, table.all_rows
        rng = check_generator(self.random_state)
        rng = checkpoint.begin(rng, self, everything.X, everything.weights, table.categories)
        estimation = self._estimation(learner, rng)
        resumed = checkpoint.take_saved()
        if resumed is None:
            resumed = self._select(search, table.rows, model, estimation, reports)
        bootstraps, (selection, estimation) = resumed
        checkpoint.set_fixed(resumed[1])
        interrupted = estimation.interrupted
        if bootstraps is not None and not checkpoint.ended:
            self._run_bootstraps(bootstraps, search, table.rows, model, estimation, reports)
            interrupted = bootstraps.interrupted
        if not interrupted and not checkpoint.ended:
            checkpoint.write(bootstraps, ended=True)
        fitted = collect_results(selection, search, table, estimation, bootstraps)
        reports.finish(lambda: fitted)
        return fitted | {"_partial_estimation": None, "_interrupted": interrupted}

    def _learn_epoch(self, X, sample_weight):
        """Train for one more epoch, and return the fitted attributes."""
        search, learner = self._check_parameters()
        previous = vars(self).get("_partial_estimation")
        table = encode_part(self, X, sample_weight, search, previous is not None)
        reports = EpochReports(self, X, None, 1)
        estimation = deepcopy(previous)
        if estimation is None:
            estimation = self._estimation(learner, check_generator(self.random_state))
        estimation.reports = reports
        selection = search.select_more(table.rows, make_model(self, table), estimation)
        estimation.reports = None  # it holds the rows
        fitted = collect_results(selection, search, table, estimation, None)
        reports.finish(lambda: fitted)
        interrupted = estimation.interrupted
        return fitted | {"_partial_estimation": estimation, "_interrupted": interrupted}

    def _select(self, search, rows, model, estimation, reports):
        """Run the graph search once; return initial bootstrap counts, the graph and the state."""
        estimation.reports = reports
        selection = search.select(rows, model, estimation)
        estimation.reports = None  # it holds the rows
        bootstraps = None
        if self.n_bootstraps and not estimation.stopped:
            bootstraps = Bootstraps.start(len(rows.n_states), estimation.rng)
        return bootstraps, (selection, estimation)

    def _run_bootstraps(self, bootstraps, search, rows, model, estimation, reports):
        """Run the remaining repetitions of the search; callbacks or Ctrl-C can end them early."""
        self._checkpoint.write(bootstraps)
        reports.checkpoint = self._checkpoint
        arguments = rows, model, search, estimation.learner, estimation.parameters
        tasks = bootstraps.tasks(self.n_bootstraps, *arguments)
        try:
            for edges in run_parts(select_on_sample, tasks, self.n_jobs):
                bootstraps.add(edges)
                reports.begin()
                if reports.end(bootstraps):
                    break
        except KeyboardInterrupt:
            bootstraps.interrupt(self.n_bootstraps)

    def _set_attributes(self, fitted):
        for name in OPTIONAL_ATTRIBUTES:
            vars(self).pop(name, None)
        vars(self).update(fitted)

    # Parameters ----------------------------------------------------------------------------

    def _check_parameters(self):
        """Raise a ValueError for invalid parameters; return the search strategy and the learner."""
        check_choice("statistic", self.statistic, STATISTICS)
        check_flag("unary", self.unary)
        check_number_or(("auto", None), "screen", self.screen, low=0, high=1, open_low=True)
        check_number("n_bootstraps", self.n_bootstraps, low=0, integer=True)
        check_number("tol", self.tol, low=0)
        check_number("max_bytes", self.max_bytes, low=0, open_low=True)
        for name in ("batch_size", "max_iter"):
            if getattr(self, name) is not None:
                check_number(name, getattr(self, name), low=1, integer=True)
        search = make_search(self.search)
        search.check()
        return search, make_search_learner(self.learner, search, owner=type(self).__name__)

    def _estimation(self, learner, rng):
        parameters = LoopParameters(
            self.optimizer, self.learning_rate, self.batch_size, self.max_iter, self.tol
        )
        return Estimation(learner, parameters, rng, Path(), n_jobs=self.n_jobs)
