"""Classifier with a neural-network Markov random field of each class."""

import warnings

import numpy as np
from sklearn.base import clone
from sklearn.callback import with_callbacks
from sklearn.exceptions import ConvergenceWarning

from ..._data.classes import (
    Table,
    check_classes,
    check_priors,
    check_target,
    impute_unobserved_columns,
)
from ..._data.frames import column_names, read_columns
from ..._data.mixed import DEGENERATE, learn_columns
from ..._utils.log_weights import check_sample_weight
from ..._utils.parameters import check_generator
from ...energies import NeuralEnergy
from ...learners import BeliefLearner
from ...learners.initial_mixture import impute_normal
from ...training.part_reports import PartReports
from .._base import unchanged_on_error
from .class_queries import DensityClassifier
from .density import NNMRFDensity
from .gaussian_base import pooled_covariance, select_class_shrinkage
from .graph import resolve_edges

CLASSIFIER_PARAMETERS = "priors", "n_jobs"  # the densities have the other parameters


class NNMRFBayesClassifier(DensityClassifier):
    r"""Classifier with a neural-network Markov random field of each class, by Bayes' rule.

    Each class has a density :math:`p(x | y)`: an :class:`NNMRFDensity` of the rows of the class.
    Rows are classified by Bayes' rule, :math:`p(y | x) \propto p(y) p(x | y)`. The covariance of a
    class is shrunk towards the pooled within-class covariance. The strength of the shrinkage is
    selected by cross-validation, so that classes with few rows have a good density too. The
    densities also give :math:`p(x) = \sum_y p(y) p(x | y)`, and samples of the classes.

    Parameters
    ----------
    graph : str, networkx.Graph or list of pairs, default="complete"
        Pairs of columns that share a network.

        - "complete": all pairs. It is slow with more than about 60 columns.
        - "tree": the spanning tree with the largest absolute correlations.
        - "knn": each column with the five columns of largest absolute correlation.
        - "grid": the columns are the pixels of a square, row by row. Neighbouring pixels are pairs.
        - "empty": no pairs.
        - A networkx graph or a list of pairs. Nodes are column names or positions.

        "tree" and "knn" use the rows of each class.
    learner : {"variational", "grid"} or instance, default="variational"
        Estimator of the gradient of the log-likelihood of the densities. "variational" is
        :class:`~skmrf.learners.Variational`. "grid" is :class:`~skmrf.learners.Grid`, the exact
        gradient for at most three continuous columns. An instance of these classes has its own
        parameters.
    node_layers : tuple of int, default=(8, 8)
        Number of hidden units (SELU) of each layer in the network of a column.
    edge_layers : tuple of int, default=(8, 8)
        Number of hidden units (SELU) of each layer in the network of a pair of columns.
    base : "gaussian" or float, default="gaussian"
        Quadratic term of the continuous columns in the densities. "gaussian" is the quadratic term
        of a Gaussian: it has the shrunk covariances of the class on the edges of the graph, and no
        other interactions. A positive float ``a`` means ``-a * sum(x**2)`` for standardised
        columns. The paper uses 0.01.
    density : {"mixture", "mrf"}, default="mixture"
        Distribution that represents each class. "mixture" is a mixture that approximates the
        learned model and is normalised exactly. "mrf" is the learned model itself, with an estimate
        of log Z. It can be changed after fit with ``set_params``. During fit, it is the
        distribution whose score on held-out rows early stopping uses.
    column_types : "auto", str, list of str, or dict, default="auto"
        Types of the columns: "continuous", "non-negative", "bounded", "integer", "ordinal",
        "categorical" or "boolean". "auto" detects the types. Booleans, text and categorical data
        types have categories. Whole numbers of an array are categorical if there are at most 20
        distinct values, otherwise integers. In frames, they are integers unless there are at most
        two distinct values. A str is the type of all columns, and a list has one type for each
        column. A dict has the types of some columns, by name or index; the other columns are
        detected.
    categories : "auto" or list of lists, default="auto"
        Categories of each categorical column. "auto" uses the categories that the data type of a
        frame's column declares, otherwise those seen during fit.
    priors : array-like of shape (n_classes,), optional
        Prior probabilities of the classes, in the order of ``classes_``. They must sum to 1. By
        default they are the (weighted) shares of the classes in the training rows.
    optimizer : {"auto", "adam", "sgd", "momentum", "lbfgs"} or instance, default="auto"
        Optimizer of the densities. "auto" is Adam. "lbfgs" needs ``learner="grid"`` and rows
        without missing entries; with the penalties "l1" and "group-l1" it is FISTA. An instance of
        an optimizer of :mod:`skmrf.training` has its own parameters.
    learning_rate : str, float or schedule, default="adaptive"
        Learning rate of the densities. With "adaptive" and held-out rows, the rate is halved
        whenever the gradient is only noise. With "adaptive" and no held-out rows, it is halved
        after 200 updates, and training ends after 500. Its first value is 0.03 for Adam and
        momentum, and 0.1 for SGD. "constant" keeps the first rate, "step" halves it every 1000
        updates, and "inverse" divides it by ``1+t/100`` after t updates. Their first rate is 0.03
        for Adam, 0.1 for SGD and 0.02 for momentum. A float is a constant rate. An instance of a
        schedule of :mod:`skmrf.training` has its own parameters.
    penalty : {"l2", "l1", "group-l1"}, default="l2"
        Penalty on the weights of the networks of the densities. Biases and scales of the networks
        are not penalised. With "group-l1" each network is a group.
    alpha : "auto" or float, default="auto"
        Strength of the penalty of the densities. ``alpha`` times the penalty is subtracted from the
        mean log-likelihood of a row in nats. "auto" is 1 divided by the number of training rows of
        the class. With "l2" this corresponds to a normal prior of the weights with precision 1.
    batch_size : int, default=100
        Number of rows in a minibatch, for the densities.
    max_iter : int, optional
        Maximum number of epochs of each density. By default a density has at most 3000 updates.
        With the default learning rate and no held-out rows, it has about 500.
    tol : float, default=1e-6
        Tolerance of deterministic solvers for the densities. They stop when no entry of the
        gradient is larger in absolute value.
    average : bool, default=True
        Whether each density has the weighted mean of the iterates since the last change of the
        learning rate, instead of the last iterate. Later iterates have larger weights. It has no
        effect with the penalties "l1" and "group-l1", or with a deterministic solver.
    early_stopping : bool or "auto", default="auto"
        Whether to hold out rows of each class, to stop when their score no longer improves, and to
        keep the density with the best score. The score is the mean log-likelihood of the
        distribution that ``density`` selects. "auto" holds rows out in classes with at least 500
        rows, unless the optimizer is "lbfgs".
    validation_fraction : float, default=0.1
        Share of the rows of a class that early stopping holds out, above 0 and at most 0.9.
    n_iter_no_change : int, default=5
        Number of epochs without a better score after which early stopping ends the training of a
        density. These epochs must also have at least 300 updates.
    max_bytes : float, default=4 * 2**30
        Maximum memory in bytes of the parameters of one density during training. The default is 4
        GiB.
    n_jobs : int, optional
        Number of parallel jobs over classes. Results do not depend on it.
    random_state : int, RandomState, Generator or None, default=None
        Random numbers of training: initial networks, Markov chains and held-out rows. An int makes
        fits reproducible.
    verbose : int, default=0
        Amount of progress messages. 0: none. 1: a line every few seconds with the number of fitted
        parts (classes) and the seconds that remain. 2: a line per part.

    Attributes
    ----------
    classes_ : ndarray of shape (n_classes,)
        Class labels, sorted.
    class_prior_ : ndarray of shape (n_classes,)
        Prior probability of each class.
    densities_ : list of NNMRFDensity
        Density of each class. Its rows have continuous columns that are standardised over all
        classes. Categories are replaced by their positions in ``categories_``.
    column_types_ : list of str
        Type of each column.
    categories_ : list of ndarray
        Categories of each categorical column.
    n_iter_ : int
        Largest number of epochs of a density.
    n_features_in_ : int
        Number of columns seen during fit.
    feature_names_in_ : ndarray of shape (n_features,)
        Names of the columns seen during fit. It exists only if all names are strings.

    See Also
    --------
    NNMRFClassifier : Discriminative classifier, which is faster and usually more accurate.
    NNMRFDensity : Density of continuous and categorical columns.
    sklearn.discriminant_analysis.QuadraticDiscriminantAnalysis : Classifier with a Gaussian density
        for each class.

    References
    ----------
    H. Xiong and N. Ruozzi, "General purpose MRF learning with neural network potentials", IJCAI
    2020, section 4.2.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from skmrf import NNMRFBayesClassifier
    >>> X, y = load_iris(return_X_y=True)
    >>> model = NNMRFBayesClassifier(max_iter=50, random_state=0).fit(X, y)
    >>> bool(model.score(X, y) > 0.95)
    True
    """

    _energy_type = NeuralEnergy
    _learner_kind = BeliefLearner

    def __init__(
        self,
        graph="complete",
        learner="variational",
        *,
        node_layers=(8, 8),
        edge_layers=(8, 8),
        base="gaussian",
        density="mixture",
        column_types="auto",
        categories="auto",
        priors=None,
        optimizer="auto",
        learning_rate="adaptive",
        penalty="l2",
        alpha="auto",
        batch_size=100,
        max_iter=None,
        tol=1e-6,
        average=True,
        early_stopping="auto",
        validation_fraction=0.1,
        n_iter_no_change=5,
        max_bytes=4 * 2**30,
        n_jobs=None,
        random_state=None,
        verbose=0,
    ):
        self.graph = graph
        self.learner = learner
        self.node_layers = node_layers
        self.edge_layers = edge_layers
        self.base = base
        self.density = density
        self.column_types = column_types
        self.categories = categories
        self.priors = priors
        self.optimizer = optimizer
        self.learning_rate = learning_rate
        self.penalty = penalty
        self.alpha = alpha
        self.batch_size = batch_size
        self.max_iter = max_iter
        self.tol = tol
        self.average = average
        self.early_stopping = early_stopping
        self.validation_fraction = validation_fraction
        self.n_iter_no_change = n_iter_no_change
        self.max_bytes = max_bytes
        self.n_jobs = n_jobs
        self.random_state = random_state
        self.verbose = verbose

    @with_callbacks
    def fit(self, X, y, sample_weight=None):
        """Learn a density of each class.

        Parameters
        ----------
        X : array-like or frame of shape (n_samples, n_features)
            Training rows of numbers and categories. nan, None and NA are missing entries.
        y : array-like of shape (n_samples,)
            Class label of each row.
        sample_weight : array-like of shape (n_samples,), optional
            Non-negative weight of each row. By default all rows have the same weight.

        Returns
        -------
        self
            The fitted estimator.

        Raises
        ------
        ValueError
            If ``X`` has infinite values, text in a column whose type is not "categorical", or a
            column without observed entries, if ``priors`` are not probabilities of the classes, or
            if the networks need more than ``max_bytes``.
        """
        with unchanged_on_error(self):
            self._check_learner()
            NNMRFDensity(**self._shared_parameters())._check_all_parameters()
            table = self._read_table(X, y, sample_weight)
            priors = check_priors(self.priors, table.shares)
            reports = PartReports(self, X, y, len(table.classes))
            rng = check_generator(self.random_state)
            rng = reports.begin(rng, *table[:-1], vars(table.columns))
            seeds = rng.integers(2**31, size=len(table.classes)).tolist()
            densities = self._learn_densities(table, seeds, reports)
            fitted = {
                "classes_": table.classes,
                "class_prior_": priors,
                "densities_": densities,
                "categories_": table.columns.categories,
                "column_types_": table.columns.types,
                "n_iter_": max(density.n_iter_ for density in densities),
                "_columns": table.columns,
            }
            reports.finish(fitted)
            vars(self).update(fitted)
        return self

    def _read_table(self, X, y, sample_weight):
        """Return the encoded training rows, labels and weights."""
        rows = read_columns(self, X, reset=True)
        y = check_target(self, X, y)
        weights = check_sample_weight(sample_weight, len(y))
        if weights is not None:
            is_used, weights = weights > 0, weights / weights.max()
            rows, y, weights = [c[is_used] for c in rows], y[is_used], weights[is_used]
        given = self.column_types, self.categories
        columns = learn_columns(X, rows, column_names(self), *given, weights)
        codes = columns.encode(rows)
        classes, labels = np.unique(y, return_inverse=True)
        check_classes(codes, labels, classes, columns)
        return Table(codes, labels, classes, weights, columns)

    def _shared_parameters(self):
        """Return the parameters that the classifier and its class densities have in common."""
        params = self.get_params(deep=False)
        return {k: v for k, v in params.items() if k not in CLASSIFIER_PARAMETERS}

    def _learn_densities(self, table, seeds, reports):
        """Return the fitted density of each class."""
        rows = impute_unobserved_columns(table.rows, table.labels)
        common = _density_parameters(self.graph, table._replace(rows=rows))
        params = self._shared_parameters() | common
        tasks = []
        for k, seed in enumerate(seeds):
            here = table.labels == k
            model = NNMRFDensity(**(params | {"random_state": seed}))
            weights = None if table.weights is None else table.weights[here]
            tasks.append((model, rows[here], None, weights))
        names = "density of a class", "densities of classes"
        options = {"n_jobs": self.n_jobs, "brief": _fit_density_briefly}
        with warnings.catch_warnings():  # _read_table has warned already, with column names
            warnings.filterwarnings("ignore", message=DEGENERATE)
            return reports.learn(*names, NNMRFDensity.fit, tasks, **options)

    def __sklearn_tags__(self):
        """Return the scikit-learn tags of the estimator."""
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = True
        tags.input_tags.categorical = True
        return tags


def _density_parameters(graph, table):
    """Return the common parameters of the class densities, computed from all rows.

    Parameters
    ----------
    graph : {"complete", "tree", "grid", "knn", "empty"}, networkx.Graph or list of pairs
        Parameter of the classifier.
    table : Table
        Training rows of all classes.

    Returns
    -------
    dict
        Parameters of :class:`NNMRFDensity`.
    """
    columns = table.columns
    rows = table.rows[:, columns.continuous]
    parameters = {
        "potentials": "network",
        "column_types": np.where(columns.n_states, "categorical", "continuous").tolist(),
        "categories": [np.arange(float(len(c))) for c in columns.categories],
    }
    if not isinstance(graph, str):
        parameters["graph"] = resolve_edges(graph, None, columns.names).tolist()
    return parameters | _common_covariance(rows, table.labels, table.weights)


def _common_covariance(X, labels, weights):
    """Return the pooled within-class covariance, and the weight of shrinkage towards it."""
    weights = np.ones(len(X)) if weights is None else weights
    X, numbers, rng = X.copy(), np.zeros(X.shape[1], int), np.random.default_rng(0)
    for k in range(labels.max() + 1):
        here = labels == k
        X[here] = impute_normal(X[here], numbers, weights[here] / weights[here].sum(), rng)
    pooled = pooled_covariance(X, labels, weights)
    share = select_class_shrinkage(X, labels, weights, pooled)
    return {"prior_covariance": pooled, "shrinkage": share}


def _fit_density_briefly(density, rows, y, weights):
    """Fit a copy of the density for one epoch.

    The given density is not changed, because another thread may still train it.
    """
    density = clone(density).set_params(max_iter=1)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        return density.fit(rows, y, sample_weight=weights)
