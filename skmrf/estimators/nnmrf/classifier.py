"""Discriminative Markov random field: a classifier of mixed tables with missing values."""

import numpy as np
from scipy.special import log_softmax
from sklearn.callback import with_callbacks
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils import compute_sample_weight
from sklearn.utils.validation import check_is_fitted

from ..._data.categories import merge_copies
from ..._data.classes import check_target
from ..._data.frames import column_names, read_columns
from ..._utils.log_weights import check_sample_weight
from ..._utils.parameters import check_choice, check_flag, check_generator, check_number
from ..._utils.warn import warn_caller
from ...training.part_reports import PartReports
from .._base import TableClassifier, unchanged_on_error
from .label_features import learn_features
from .label_members import (
    ALPHAS,
    LabelRows,
    assign_folds,
    learn_exponents,
)
from .label_networks import NETWORKS, Kind, NetworkSettings, feature_set, learn_member
from .label_screening import Screening

POTENTIALS = "linear", "spline", "quadratic", "radial", "relu", "selu", "tanh"
N_FOLDS, N_FOLDS_LARGE, LARGE = 5, 3, 5000  # with cv="auto"
MIN_ROWS_PER_KNOT = 5


class NNMRFClassifier(TableClassifier):
    r"""Discriminative Markov random field: a classifier of mixed tables with missing values.

    The model is a conditional Markov random field of the label given the columns. It combines
    several members, each with its own kind of potentials:

    .. math:: p(y | x) \propto \prod_m p_m(y | x)^{w_m},

    .. math:: p_m(y | x) \propto \exp\Bigl(b_{my} + \sum_i f_{myi}(x_i) + g_{my}(x)\Bigr).

    A member has either potentials :math:`f_{myi}` of single columns or a potential :math:`g_{my}`
    of all columns. The potentials of columns are linear, or piecewise linear splines. The potential
    of all columns is the log density of a Student t distribution, or a network with one hidden
    layer. Its hidden units are either radial basis functions with training rows as centres, or
    units that are learned. The potentials of all columns depend on normal scores of columns with
    wide tails. Categories are one-hot encoded. All categories with a single row have one indicator,
    and so have all but the 999 most frequent ones. Missing values have an indicator, and otherwise
    the mean of the column.

    Members with linear, spline and radial potentials are convex problems. Cross-validation selects
    their L2 penalty. It also selects how the covariances of Student t distributions are shrunk. The
    networks with learned units are trained by Adam, one network for each fold, and are stopped
    early by the rows that the folds leave out. If tests find that few columns are relevant, further
    members depend on these columns only. The exponents :math:`w_m \ge 0` maximise the
    likelihood of the rows that are left out. They also calibrate the probabilities. If fewer than
    about 20 rows are left out, their labels are smoothed by the shares of the classes.

    Equal rows are copies if the values of a numeric column are so fine that equal values are
    unlikely by chance. Copies with the same label are treated as one row with the sum of their
    weights, and copies with different labels are in the same fold.

    Parameters
    ----------
    potentials : sequence of str, optional
        Kinds of potentials. There is one member for each kind, and for each width of "radial". By
        default, these are all kinds except "selu".

        - "linear": linear functions of the columns, as in logistic regression.
        - "spline": piecewise linear functions of the columns.
        - "quadratic": log density of each class, as in regularised discriminant analysis. More than
          300 features are projected on their 300 principal axes.
        - "radial": network of radial basis functions of all columns.
        - "relu", "selu", "tanh": network of all columns with this activation function. The inputs
          of "relu" are piecewise linear functions of the columns, if there are at most 300 with
          the indicators of categories.
    n_knots : int, default=12
        Maximum number of intervals of the spline of a column, at least 1. Knots are quantiles. An
        interval has at least five rows. There can be more intervals if there are few distinct
        values: A column with at most 20 distinct values, and at least five rows for each on
        average, has a knot at each value. So has a column of whole numbers with at most 64 distinct
        values, and at least 20 rows for each on average.
    n_centers : int, default=250
        Maximum number of radial basis functions, at least 1.
    widths : sequence of float, default=(0.8, 1.4)
        Widths of the radial basis functions, above 0. They are relative to the root mean square of
        the standardised columns.
    alphas : sequence of float, optional
        Strengths of the L2 penalty of convex members, above 0, from which cross-validation selects.
        ``alpha / 2`` times the sum of squares is added to the log loss of all rows. By default
        there are seven strengths from 0.01 to 100.
    n_units : int, default=64
        Number of hidden units of each network, at least 1.
    learning_rate : float, default=0.01
        First learning rate of Adam, above 0. It is divided by 4 once.
    weight_decay : float, default=300.0
        Weight decay of networks, at least 0. The number is divided by the total weight of the rows,
        and is at most 1 then. Its product with the learning rate is the relative decrease of the
        weights in each update.
    batch_size : int, default=256
        Number of rows in a minibatch, at least 1.
    max_iter : int, default=1000
        Maximum number of epochs of the networks, and of iterations of L-BFGS, at least 1. Members
        that need more end with a ConvergenceWarning.
    n_iter_no_change : int, default=10
        Number of epochs without a smaller held-out loss after which the learning rate is divided by
        4, and training ends the next time. It is at least 1.
    cv : "auto" or int, default="auto"
        Number of folds, at least 2. "auto" is 5, and 3 with more than 5000 rows.
    max_convex_rows : int, default=3000
        Maximum number of training rows of linear, spline, quadratic and radial members, at least 2.
        A random subset is used if there are more rows.
    select_columns : bool, default=True
        Whether members that depend only on relevant columns are added, one for each other member.
        Columns are relevant if tests find that the label depends on them, alone or together with
        another column. The members are added if there are at least five columns, and at most half
        of them are relevant.
    shrinkage : float, default=10.0
        Strength of the shrinkage of the exponents of the members towards equal exponents, at least
        0. ``shrinkage / 2`` times the sum of squared differences is added to the log loss of the
        held-out rows.
    column_types : "auto", str, list of str, or dict, default="auto"
        Types of the columns: "continuous", "non-negative", "bounded", "integer", "ordinal",
        "categorical" or "boolean". "auto" detects the types. Booleans, text and categorical data
        types have categories. Columns of numbers are treated as numbers. A str is the type of all
        columns, and a list has one type for each column. A dict has the types of some columns, by
        name or index; the other columns are detected.
    categories : "auto" or list of lists, default="auto"
        Categories of each categorical column. "auto" uses the categories that the data type of a
        frame's column declares, otherwise those seen during fit.
    class_weight : dict, "balanced" or None, default=None
        Weights of the classes. They multiply the sample weights. A dict has a weight for each
        class. "balanced" makes the products of both weights have the same sum in each class. None
        means weights of 1.
    n_jobs : int, optional
        Number of parallel jobs over members. Results do not depend on it.
    random_state : int, RandomState, Generator or None, default=None
        Random numbers of folds, centres, initial networks and minibatches. An int makes fits
        reproducible.
    verbose : int, default=0
        Amount of progress messages. 0: none. 1: a line every few seconds with the number of fitted
        members and the seconds that remain. 2: a line per member.

    Attributes
    ----------
    classes_ : ndarray of shape (n_classes,)
        Class labels, sorted.
    members_ : list of ConvexMember, QuadraticMember or NetworkMember
        Members. ``held_out`` has the log-probabilities of training rows by models that were learned
        without their folds.
    kinds_ : list of tuple
        Kind of potentials of each member, width or None, and "all" or "relevant" columns.
    relevant_columns_ : ndarray of int
        Numbers of the relevant columns by all tested rows, at most 50. It is empty if no members
        were added.
    exponents_ : ndarray of shape (n_members,)
        Exponents of the members.
    column_types_ : list of str
        Type of each column.
    categories_ : list of ndarray
        Categories of each column that has categories.
    n_iter_ : int
        Largest number of epochs of a network, at least 1.
    n_features_in_ : int
        Number of columns seen during fit.
    feature_names_in_ : ndarray of shape (n_features,)
        Names of the columns seen during fit. It exists only if all names are strings.

    See Also
    --------
    NNMRFBayesClassifier : Classifier with a density of each class, which can draw samples.
    sklearn.ensemble.HistGradientBoostingClassifier : Boosted trees.

    References
    ----------
    Wolpert, D. H., "Stacked generalization", Neural Networks 5, 1992.

    J. H. Friedman, "Regularized discriminant analysis", Journal of the American Statistical
    Association 84, 1989.

    A. Krogh and J. Vedelsby, "Neural network ensembles, cross validation, and active learning",
    NIPS 1994.

    J. Lafferty, A. McCallum and F. Pereira, "Conditional random fields: probabilistic models for
    segmenting and labeling sequence data", ICML 2001.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from skmrf import NNMRFClassifier
    >>> X, y = load_iris(return_X_y=True)
    >>> model = NNMRFClassifier(random_state=0).fit(X, y)
    >>> bool(model.score(X, y) > 0.95)
    True
    """

    def __init__(
        self,
        potentials=("linear", "spline", "quadratic", "radial", "relu", "tanh"),
        *,
        n_knots=12,
        n_centers=250,
        widths=(0.8, 1.4),
        alphas=None,
        n_units=64,
        learning_rate=0.01,
        weight_decay=300.0,
        batch_size=256,
        max_iter=1000,
        n_iter_no_change=10,
        cv="auto",
        max_convex_rows=3000,
        select_columns=True,
        shrinkage=10.0,
        column_types="auto",
        categories="auto",
        class_weight=None,
        n_jobs=None,
        random_state=None,
        verbose=0,
    ):
        self.potentials = potentials
        self.n_knots = n_knots
        self.n_centers = n_centers
        self.widths = widths
        self.alphas = alphas
        self.n_units = n_units
        self.learning_rate = learning_rate
        self.weight_decay = weight_decay
        self.batch_size = batch_size
        self.max_iter = max_iter
        self.n_iter_no_change = n_iter_no_change
        self.cv = cv
        self.max_convex_rows = max_convex_rows
        self.select_columns = select_columns
        self.shrinkage = shrinkage
        self.column_types = column_types
        self.categories = categories
        self.class_weight = class_weight
        self.n_jobs = n_jobs
        self.random_state = random_state
        self.verbose = verbose

    @with_callbacks
    def fit(self, X, y, sample_weight=None):
        """Train the member models, and the exponents that weight them.

        Parameters
        ----------
        X : array-like or frame of shape (n_samples, n_features)
            Rows of numbers and categories. nan, None and NA are missing entries.
        y : array-like of shape (n_samples,)
            Class labels.
        sample_weight : array-like of shape (n_samples,), optional
            Weight of each row. By default all rows have weight 1.

        Returns
        -------
        NNMRFClassifier
            The fitted estimator itself.

        Raises
        ------
        ValueError
            If ``X`` has infinite values, or text in a column that has no categories, or if a
            parameter is invalid.
        """
        with unchanged_on_error(self):
            kinds = self._check_parameters()
            columns, y, weights, groups = self._read_rows(X, y, sample_weight)
            rng = check_generator(self.random_state)
            n_knots = min(self.n_knots, max(len(y) // MIN_ROWS_PER_KNOT, 1))
            names, known = column_names(self), (self.column_types, self.categories)
            features, types, categories = learn_features(
                X, columns, names, *known, weights, n_knots
            )
            classes, labels = np.unique(y, return_inverse=True)
            targets = np.eye(len(classes))[labels]
            screening = self._screen(features, columns, targets, weights)
            if screening is not None:
                kinds += [kind._replace(columns="relevant") for kind in kinds]
            reports = PartReports(self, X, y, len(kinds))
            rng = reports.begin(rng, *columns, y, weights)
            folds = assign_folds(labels, self._n_folds(len(y)), rng, groups)
            rows = LabelRows(targets, weights, folds)
            relevant = _relevant_features(features, screening, folds)
            found = features.transform(columns)
            sets = _feature_sets(kinds, found, relevant)
            tasks, subset = self._member_tasks(kinds, sets, found, relevant, rows, rng)
            learned = reports.learn("member", "members", learn_member, tasks, n_jobs=self.n_jobs)
            if not learned:
                raise KeyboardInterrupt
            maps, members = zip(*learned, strict=True)
            held_out = np.stack([member.held_out for member in members])
            fitted = {
                "classes_": classes,
                "members_": list(members),
                "kinds_": kinds[: len(members)],
                "exponents_": learn_exponents(held_out, rows.select(subset), self.shrinkage),
                "relevant_columns_": np.empty(0, int) if screening is None else screening.selected,
                "column_types_": types,
                "categories_": categories,
                "n_iter_": max(1, *(member.n_iter for member in members)),
                "_features": features,
                "_feature_sets": sets[: len(members)],
                "_mappings": maps,
            }
            reports.finish(fitted)
            vars(self).update(fitted)
        _warn_unconverged(self)
        return self

    def _check_parameters(self):
        """Check the parameters, and return the kinds of the members."""
        for name in ("n_knots", "n_centers", "n_units", "batch_size", "max_iter"):
            check_number(name, getattr(self, name), low=1, integer=True)
        check_number("n_iter_no_change", self.n_iter_no_change, low=1, integer=True)
        check_number("max_convex_rows", self.max_convex_rows, low=2, integer=True)
        check_number("learning_rate", self.learning_rate, low=0, open_low=True)
        check_number("weight_decay", self.weight_decay, low=0)
        check_number("shrinkage", self.shrinkage, low=0)
        check_flag("select_columns", self.select_columns)
        if not isinstance(self.cv, str) or self.cv != "auto":
            check_number("cv", self.cv, low=2, integer=True)
        for name in ("widths", "alphas"):
            given = getattr(self, name)
            for value in check_not_empty(name, given) if given is not None else ():
                check_number(f"each of {name}", value, low=0, open_low=True)
        choices = f" of {list(POTENTIALS)}"
        potentials = check_not_empty("potentials", self.potentials, choices)
        for potential in potentials:
            check_choice("each of potentials", potential, POTENTIALS)
        widths = {"radial": self.widths}
        return [Kind(p, width) for p in potentials for width in widths.get(p, (None,))]

    def _n_folds(self, n):
        """Return the number of folds for ``n`` rows."""
        if self.cv == "auto":
            return N_FOLDS if n <= LARGE else N_FOLDS_LARGE
        return self.cv

    def _read_rows(self, X, y, sample_weight):
        """Return the columns, labels, weights and groups of the rows with a positive weight.

        Copies of a row with the same label are one row with the sum of their weights. Copies with
        other labels are in the same group.
        """
        columns = read_columns(self, X, reset=True)
        y = check_target(self, X, y)
        weights = self._row_weights(y, sample_weight)
        is_used = weights > 0
        columns, y, weights = [column[is_used] for column in columns], y[is_used], weights[is_used]
        rows, weights, groups = merge_copies(columns, y, weights)
        return [column[rows] for column in columns], y[rows], weights, groups

    def _row_weights(self, y, sample_weight):
        """Return the products of the weights of rows and of their classes."""
        weights = check_sample_weight(sample_weight, len(y))
        weights = np.ones(len(y)) if weights is None else weights
        if self.class_weight != "balanced":
            return weights * compute_sample_weight(self.class_weight, y)
        _, codes = np.unique(y, return_inverse=True)
        totals = np.bincount(codes, weights)
        shares = np.count_nonzero(totals) * totals / weights.sum()
        return weights / np.where(shares > 0.0, shares, 1.0)[codes]

    def _screen(self, features, columns, targets, weights):
        """Return the screening of the columns, or None if no members are added."""
        if not self.select_columns:
            return None
        is_nominal = [column.is_nominal for column in features.columns]
        screening = Screening(features.to_numbers(columns), is_nominal, targets, weights)
        return screening if len(screening.selected) else None

    def _member_tasks(self, kinds, sets, features, relevant, rows, rng):
        """Return the arguments of :func:`learn_member`, and the rows that compare the members."""
        n = len(rows.weights)
        subset = np.arange(n)
        if n > self.max_convex_rows:
            subset = np.sort(rng.choice(n, self.max_convex_rows, replace=False))
        alphas = ALPHAS if self.alphas is None else self.alphas
        params = self.get_params()
        settings = {k: params[k] for k in NetworkSettings.__dataclass_fields__ if k in params}
        tasks = []
        for kind, name in zip(kinds, sets, strict=True):
            F, kept = features[name], relevant[name] if kind.columns == "relevant" else None
            if kind.potential in NETWORKS:
                chosen = NetworkSettings(kind.potential, **settings)
                tasks.append((kind, F, rows, kept, subset, chosen, int(rng.integers(2**31))))
                continue
            centers = None
            if kind.potential == "radial":
                centers = F[rng.permutation(n)[: self.n_centers]]
            chosen, few = (alphas, self.max_iter), rows.select(subset)
            tasks.append((kind, F[subset], few, kept, centers, chosen, None))
        return tasks, subset

    def predict_log_proba(self, X):
        """Return ``log p(y | x)`` of each row and each class.

        Parameters
        ----------
        X : array-like or frame of shape (n_samples, n_features)
            Rows of numbers and categories. nan, None and NA are missing entries. Categories that
            were not seen during fit are treated as rare, or as missing if none was rare.

        Returns
        -------
        ndarray of shape (n_samples, n_classes)
            Log-probabilities in nats. Classes are in the order of ``classes_``.
        """
        logs = self._member_log_proba(X)
        return log_softmax(np.tensordot(self.exponents_, logs, 1), axis=-1)

    def _member_log_proba(self, X):
        """Return the log-probabilities of each member, shape (n_members, n_rows, n_classes)."""
        check_is_fitted(self)
        features = self._features.transform(read_columns(self, X, reset=False))
        logs = []
        parts = self._feature_sets, self._mappings, self.members_
        for name, mapping, member in zip(*parts, strict=True):
            F = features[name]
            logs.append(member.log_proba(F if mapping is None else mapping.transform(F)))
        return np.stack(logs)


def _warn_unconverged(classifier):
    """Warn if ``max_iter`` ended the training of members of a fitted classifier."""
    pairs = zip(classifier.kinds_, classifier.members_, strict=True)
    names = sorted({kind.potential for kind, member in pairs if not member.converged})
    if names:
        warn_caller(
            f"Members with the potentials {', '.join(names)} had not converged after "
            f"max_iter={classifier.max_iter} epochs or iterations. Increase max_iter, or accept "
            "the model as it is.",
            ConvergenceWarning,
        )


def _feature_sets(kinds, features, relevant):
    """Return the name of the set of features of each member."""
    counts = {"all": features["spline"].shape[1]}
    if relevant is not None:
        counts["relevant"] = max(map(len, relevant["spline"]))
    return [feature_set(kind.potential, counts[kind.columns]) for kind in kinds]


def _relevant_features(features, screening, folds):
    """Return the positions of relevant features in each set, for each fold and all rows."""
    if screening is None:
        return None
    parts = [*screening.of_folds(folds), screening.selected]
    return {
        name: [np.flatnonzero(np.isin(owners, part)) for part in parts]
        for name, owners in features.owners().items()
    }


def check_not_empty(name, values, choices=""):
    """Return the values as a list, or raise a ValueError if they are no sequence or empty."""
    if isinstance(values, str) or not hasattr(values, "__len__") or not len(values):
        raise ValueError(
            f"{name} must be a sequence with at least one entry{choices}; got {values!r}."
        )
    return list(values)
