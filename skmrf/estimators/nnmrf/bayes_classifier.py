"""Classifier with a Markov random field of each class."""

import warnings

import numpy as np
from scipy.special import log_softmax
from sklearn.base import clone
from sklearn.callback import with_callbacks
from sklearn.exceptions import ConvergenceWarning

from ..._data.categories import merge_copies
from ..._data.classes import (
    Table,
    check_priors,
    check_target,
    find_cells,
    spread_over_cells,
    transform_wide_columns,
)
from ..._data.frames import column_names, read_columns
from ..._data.mixed import DEGENERATE, learn_columns, warn_degenerate
from ..._data.numeric import hide_far_values
from ..._utils.log_weights import check_sample_weight
from ..._utils.parameters import check_flag, check_generator
from ..._utils.warn import warn_caller
from ...training.part_reports import PartReports
from ...training.regularization import gain_over_reference
from ...variational.mixtures import Mixture
from .._base import unchanged_on_error
from .._training import TrainingParameters, check_memory
from .density import NNMRFDensity
from .density_queries import DensityClassifier, class_log_joint, identity_encoder, set_mixture
from .gaussian_base import (
    N_FOLDS,
    ClassGaussians,
    class_tables,
    impute_without_labels,
    label_folds,
    pooled_covariance,
    select_class_gaussians,
    select_class_shrinkage,
)
from .initial_energy import class_rate, plan_training, resolve_edges, shrinkage_target
from .label_members import LabelRows, assign_folds
from .potentials import GaussianPotentials, TrainingPlan
from .scores import impute_class_numbers, impute_unobserved_columns

MAX_COLUMNS = 150  # of a graph that is not complete
CLEAR_GAIN = 3.0  # standard errors
MAX_ENTRIES_OF_TRIALS = 10_000  # of the table; the log loss of few rows has a large error
MAX_COLUMNS_OF_NETWORKS = 60


class NNMRFBayesClassifier(DensityClassifier):
    r"""Classifier with a Markov random field of each class, by Bayes' rule.

    Each class has a density :math:`p(x | y)`: an :class:`NNMRFDensity` of the rows of the class.
    Rows are classified by Bayes' rule, :math:`p(y | x) \propto p(y) p(x | y)`. The potentials of
    the densities are neural networks or Gaussian. By default, held-out rows select one of the two.
    Values of rounded columns, such as counts, are spread over the numbers that are rounded to them.
    The densities also give :math:`p(x) = \sum_y p(y) p(x | y)`, and samples of the classes.

    With Gaussian potentials, each class is a Gaussian of the numbers, and its categories are
    independent. The means, the covariances and the probabilities of the categories are shrunk.
    Cross-validation selects how much, so that the log loss is small. Such a fit is fast, also with
    hundreds of columns.

    With networks, the covariance of a class is shrunk towards the pooled within-class covariance,
    so that classes with few rows have a good density too. The time of a fit grows fast with the
    number of columns. ``fit`` warns if there are more than 60 columns with a complete graph, or
    more than 150 with another graph.

    Parameters
    ----------
    potentials : {"auto", "gaussian", "network"} or NetworkPotentials, default="auto"
        Potentials of the densities.

        - "auto": Gaussian with more than 60 columns, or if networks need too much work (about 56
          columns with two classes, or 39 with four). Otherwise both kinds are learned from four
          fifths of the rows, and the kind with the smaller log loss of the other rows is selected.
          In small tables, up to three different fifths are left out, until the difference is clear.
          Networks have fewer updates in this comparison, and in the last fit unless they are
          clearly better. Networks are also selected if there is a single class.
        - "gaussian": Gaussian, with shrunk means and covariances.
        - "network": :class:`~skmrf.NetworkPotentials` with default parameters. They are better for
          densities, outliers and samples, because the shrinkage of Gaussians is selected for class
          probabilities.
        - An instance of :class:`~skmrf.NetworkPotentials` has its own parameters, which
          ``set_params`` and grid searches name ``potentials__graph``,
          ``potentials__learner__n_components`` etc. With a name, they cannot be set. They apply to
          the density of each class. ``warm_start=True`` raises an error.
    column_types : "auto", str, list of str, or dict, default="auto"
        Types of the columns: "continuous", "non-negative", "bounded", "integer", "ordinal",
        "categorical" or "boolean". "auto" detects the types. Booleans, text and categorical data
        types have categories. Whole numbers of an array are categorical if there are at most 20
        distinct values that look like codes, otherwise integers. These do not look like codes:
        counts, which have few rows with the largest numbers; negative and positive numbers that
        have few rows at both ends; numbers above 9 whose distinct values are more than half of the
        rows; and a scale of at least eight numbers whose order determines most of the relation to
        the other columns. In frames, whole numbers are integers unless there are at most two
        distinct values. A frame whose columns are all integers, or all floats, is treated like an
        array. pandas stores integers with missing entries as floats, so a column of floats with
        missing entries and whole numbers only counts as integers, unless another column of floats
        has whole numbers without missing entries. A str is the type of all columns, and a list has
        one type for each column. A dict has the types of some columns, by name or index; the other
        columns are detected.
    categories : "auto" or list of lists, default="auto"
        Categories of each categorical column. "auto" uses the categories that the data type of a
        frame's column declares, otherwise those seen during fit.
    priors : array-like of shape (n_classes,), optional
        Prior probabilities of the classes, in the order of ``classes_``. They must sum to 1. By
        default they are the (weighted) shares of the classes in the training rows.
    transform_columns : bool, default=True
        Whether numbers with wide tails are transformed before they are standardised, for example to
        their logarithms. Densities and samples are in the units of the columns. With
        ``prior_covariance`` of the potentials, no column is transformed.
    n_jobs : int, optional
        Number of parallel jobs over classes with networks. Results do not depend on it.
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
        Density of each class. Those with networks have the attribute ``energy_``. The rows of the
        densities have continuous columns that are transformed, and then standardised over all
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
    NNMRFClassifier : Discriminative classifier, which is usually more accurate.
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
    >>> from skmrf import NetworkPotentials, NNMRFBayesClassifier
    >>> X, y = load_iris(return_X_y=True)
    >>> model = NNMRFBayesClassifier(NetworkPotentials(max_iter=50), random_state=0).fit(X, y)
    >>> bool(model.score(X, y) > 0.95)
    True
    """

    def __init__(
        self,
        potentials="auto",
        *,
        column_types="auto",
        categories="auto",
        priors=None,
        transform_columns=True,
        n_jobs=None,
        random_state=None,
        verbose=0,
    ):
        self.potentials = potentials
        self.column_types = column_types
        self.categories = categories
        self.priors = priors
        self.transform_columns = transform_columns
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
            column without observed entries, if ``priors`` are not probabilities of the classes, if
            ``potentials`` or one of its parameters is invalid, or if the networks need more than
            its ``max_bytes``, or the covariances of Gaussian potentials more than 4 GiB.
        """
        with unchanged_on_error(self):
            networks = self._check_networks()
            table, cells = self._read_table(X, y, sample_weight, networks)
            priors = check_priors(self.priors, table.shares)
            plan = self._plan(networks, table)
            n_trials = 0 if plan is None else plan.n_trials
            reports = PartReports(self, X, y, (1 + n_trials) * len(table.classes))
            rng = check_generator(self.random_state)
            rng = reports.begin(rng, *table[:-1], vars(table.columns))
            seeds, trial_seeds = rng.integers(2**31, size=(2, len(table.classes))).tolist()
            if n_trials:
                plan = self._select_plan(plan, table, trial_seeds, reports)
            if plan is None:
                names = "density of a class", "densities of classes"
                tasks = _gaussian_tasks(networks, table, self.verbose)
                densities = reports.learn(*names, _set_gaussian, tasks, brief=_set_gaussian)
            else:
                densities = self._learn_densities(plan, table, seeds, reports)
            fitted = {
                "classes_": table.classes,
                "class_prior_": priors,
                "densities_": densities,
                "categories_": table.columns.categories,
                "column_types_": table.columns.types,
                "n_iter_": max(density.n_iter_ for density in densities),
                "_columns": table.columns,
                "_cells": cells,
            }
            reports.finish(fitted)
            vars(self).update(fitted)
        return self

    def _read_table(self, X, y, sample_weight, networks):
        """Return the encoded training rows, and the cell widths of rounded columns."""
        rows = read_columns(self, X, reset=True)
        y = check_target(self, X, y)
        weights = check_sample_weight(sample_weight, len(y))
        if weights is not None:
            is_used, weights = weights > 0, weights / weights.max()
            rows, y, weights = [c[is_used] for c in rows], y[is_used], weights[is_used]
            weights = None if (weights == 1.0).all() else weights
        kept, sums, _ = merge_copies(rows, y, np.ones(len(y)) if weights is None else weights)
        if len(kept) < len(y):
            rows, y, weights = [c[kept] for c in rows], y[kept], sums / sums.max()
        names, types = column_names(self), self.column_types
        columns = learn_columns(
            X, rows, names, types, self.categories, weights, accepts_unseen=True
        )
        classes, labels = np.unique(y, return_inverse=True)
        check_flag("transform_columns", self.transform_columns)
        cells = find_cells(columns, rows)
        rows = spread_over_cells(rows, labels, columns, cells)
        # A given prior covariance has the units of the columns.
        if self.transform_columns and networks.prior_covariance is None:
            columns = transform_wide_columns(columns, rows, labels, weights, cells)
        codes, columns = _hide_far_values(columns.encode(rows), columns, labels, weights)
        _check_classes(codes, labels, classes, columns)
        return Table(codes, labels, classes, weights, columns), cells

    def _check_networks(self):
        """Return the parameters of the networks; raise a ValueError if one is invalid."""
        networks, name = self._networks, type(self).__name__
        networks._check()
        TrainingParameters.of(networks, random_state=self.random_state)
        if networks.warm_start:
            raise ValueError(
                f"{name} cannot continue training, so warm_start of its potentials must be False; "
                f"got {networks.warm_start!r}."
            )
        networks._make_learner(name)
        return networks

    def _learn_densities(self, plan, table, seeds, reports):
        """Return the fitted density of each class with networks."""
        networks = plan.networks
        warn_if_slow(networks.graph, table.rows.shape[1])
        rows = impute_unobserved_columns(table.rows, table.labels)
        shared = _shared_parameters(networks, table._replace(rows=rows))
        columns = _column_parameters(table.columns)
        tasks = []
        for k, seed in enumerate(seeds):
            here = table.labels == k
            rate = class_rate(networks, int(here.sum()), plan.max_updates)
            potentials = clone(networks).set_params(**shared, learning_rate=rate)
            model = NNMRFDensity(potentials, **columns, random_state=seed, verbose=self.verbose)
            weights = None if table.weights is None else table.weights[here]
            tasks.append((model, rows[here], None, weights))
        names = "density of a class", "densities of classes"
        options = {"n_jobs": self.n_jobs, "brief": _fit_density_briefly}
        with warnings.catch_warnings():  # _read_table has warned already, with column names
            warnings.filterwarnings("ignore", message=DEGENERATE)
            return reports.learn(*names, NNMRFDensity.fit, tasks, **options)

    def _plan(self, networks, table):
        """Return the training of networks, with trials if Gaussians are possible, too.

        None if the potentials are Gaussian.
        """
        n_columns = table.rows.shape[1]
        if not isinstance(self.potentials, str) or self.potentials == "network":
            return TrainingPlan(networks)
        if self.potentials == "gaussian" or n_columns > MAX_COLUMNS_OF_NETWORKS:
            return None
        if len(table.classes) == 1:
            return TrainingPlan(networks)
        plan = plan_training(networks, np.bincount(table.labels), n_columns)
        if plan is not None and table.rows.size > MAX_ENTRIES_OF_TRIALS:
            plan = plan._replace(n_trials=1)
        return plan

    def _select_plan(self, plan, table, seeds, reports):
        """Return the training of networks, or None if Gaussians are better for left-out rows.

        Trials end if the difference is clear. Clearly better networks have the longer training.
        """
        rows = _labelled_rows(table)
        folds = assign_folds(table.labels, N_FOLDS, np.random.default_rng(0))
        rows = rows._replace(folds=np.where(folds < plan.n_trials, folds, -1))
        targets, scores, tried = rows.smoothed_targets(), np.zeros((2, len(rows.weights))), []
        for kept, left in label_folds(rows):
            weights = None if table.weights is None else table.weights[kept]
            part = table._replace(rows=table.rows[kept], labels=table.labels[kept], weights=weights)
            tasks = _gaussian_tasks(plan.networks, part, self.verbose)
            gaussians = [_set_gaussian(*task) for task in tasks]
            network = self._learn_densities(plan, part, seeds, reports)
            if reports.interrupted:
                return None
            for score, models in zip(scores, (gaussians, network), strict=True):
                logs = class_log_joint(models, np.log(table.shares), table.rows[left])
                score[left] = (targets[left] * log_softmax(logs, axis=1)).sum(axis=1)
            tried = [*tried, *left.tolist()]
            shares = rows.weights[tried] / rows.weights[tried].sum()
            (_, gain), (_, error) = gain_over_reference(scores[:, tried], shares)
            if gain > CLEAR_GAIN * error:
                return plan.longer or plan
            if gain < -CLEAR_GAIN * error:
                return None
        return plan if gain > 0.0 else None


def _labelled_rows(table):
    """Return the labels and weights of a table, without folds."""
    weights = np.ones(len(table.rows)) if table.weights is None else table.weights
    targets, folds = np.eye(len(table.classes))[table.labels], np.full(len(table.rows), -1)
    return LabelRows(targets, weights / weights.mean(), folds)


def _gaussian_tasks(networks, table, verbose):
    """Return the arguments of :func:`_set_gaussian` for each class."""
    columns, rows = table.columns, _labelled_rows(table)
    _check_covariances(networks, len(columns.continuous), len(table.classes))
    n_states, codes = columns.n_states[columns.discrete], table.rows[:, columns.discrete]
    X = impute_without_labels(table.rows[:, columns.continuous], rows.weights)
    rng = np.random.default_rng(0)
    shrinkage, factor = select_class_gaussians(X, codes, n_states, rows, rng)
    gaussians = ClassGaussians(X, rows, shrinkage)
    tables = class_tables(codes, n_states, rows, factor)
    encoder, parts = identity_encoder(columns), _column_parameters(columns)
    models = [NNMRFDensity(GaussianPotentials(1), **parts, verbose=verbose) for _ in table.classes]
    return [(model, encoder, gaussians, tables, k) for k, model in enumerate(models)]


def _check_covariances(networks, n_numbers, n_classes):
    """Raise a ValueError if the covariances need more memory than ``max_bytes``."""
    n_entries, remedy = n_classes * n_numbers**2, "Select columns."
    check_memory(n_entries, networks.max_bytes, "entries of covariances", remedy)


def _set_gaussian(density, columns, gaussians, tables, k):
    """Set the Gaussian of a class as the distribution of a density; return the density."""
    parts = gaussians.means[k], gaussians.covariance(k), tables[k]
    parts = [part[None] for part in parts]
    return set_mixture(density, columns, Mixture(columns.n_states, np.zeros(1), *parts))


def warn_if_slow(graph, n_columns):
    """Warn if the table has so many columns that a fit is slow.

    Parameters
    ----------
    graph : str, networkx.Graph or list of pairs
        Graph of the networks.
    n_columns : int
        Number of columns of the table.
    """
    is_complete = isinstance(graph, str) and graph == "complete"
    limit = MAX_COLUMNS_OF_NETWORKS if is_complete else MAX_COLUMNS
    if n_columns <= limit:
        return
    networks = f" and {n_columns * (n_columns - 1) // 2:,} networks of pairs" if is_complete else ""
    warn_caller(
        f"NNMRFBayesClassifier with networks is slow with {n_columns} columns{networks}: a fit can "
        f"take many minutes. Select at most {limit} columns, for example with SelectKBest of "
        "scikit-learn, or use potentials='gaussian', which is fast with hundreds of columns."
    )


def _check_classes(rows, labels, classes, columns):
    """Warn if a column is constant, has only two values, or has no observed entry in a class."""
    degenerate = warn_degenerate(rows, columns.continuous, columns.names)
    for k, label in enumerate(classes.tolist()):
        here = rows[labels == k]
        empty = np.flatnonzero(np.isnan(here).all(axis=0)).tolist()
        for j in empty:
            warn_caller(
                f"Column {columns.names[j]!r} has no observed entry in class {label!r}. The "
                "density of the class uses the column's values in all classes instead."
            )
        rest = np.setdiff1d(columns.continuous, degenerate + empty)
        warn_degenerate(here, rest, columns.names, f" in class {label!r}")


def _hide_far_values(codes, columns, labels, weights):
    """Return rows without numbers that are far from all others of their class, and the encoder.

    All numbers of a rare class can be far from those of the other classes.
    """
    near = codes.copy()
    for k in range(labels.max() + 1):
        near[labels == k] = hide_far_values(codes[labels == k], columns.continuous)
    if np.array_equal(near, codes, equal_nan=True):
        return codes, columns
    return columns.standardised(near, weights)


def _column_parameters(columns):
    """Return the parameters of the class densities that describe the encoded columns."""
    return {
        "column_types": np.where(columns.n_states, "categorical", "continuous").tolist(),
        "categories": [np.arange(float(len(c))) for c in columns.categories],
    }


def _shared_parameters(networks, table):
    """Return the parameters of the networks of all classes, computed from all rows.

    Parameters
    ----------
    networks : NetworkPotentials
        Potentials of the classifier.
    table : Table
        Training rows of all classes.

    Returns
    -------
    dict
        Parameters of :class:`NetworkPotentials`.
    """
    columns, parameters = table.columns, {}
    if not isinstance(networks.graph, str):
        parameters["graph"] = resolve_edges(networks.graph, None, columns.names).tolist()
    if networks.base != "gaussian":
        return parameters
    rows = impute_class_numbers(table.rows[:, columns.continuous], table.labels, table.weights)
    labels = table.labels
    weights = np.ones(len(rows)) if table.weights is None else table.weights
    target, shrinkage = shrinkage_target(networks.prior_covariance, columns), networks.shrinkage
    if target is None:
        target = pooled_covariance(rows, labels, weights)
    if shrinkage == "auto":
        shrinkage = select_class_shrinkage(rows, labels, weights, target)
    return parameters | {"prior_covariance": target, "shrinkage": shrinkage}


def _fit_density_briefly(density, rows, y, weights):
    """Fit a copy of the density for one epoch.

    The given density is not changed, because another thread may still train it.
    """
    density = clone(density).set_params(potentials__max_iter=1)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        return density.fit(rows, y, sample_weight=weights)
