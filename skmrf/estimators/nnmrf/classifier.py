"""NNMRFClassifier: a Markov random field with neural potentials for every class."""

import warnings
from copy import copy
from functools import partial

import numpy as np
from sklearn.base import BaseEstimator, ClassifierMixin, clone
from sklearn.callback import CallbackSupportMixin, with_callbacks
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils import assert_all_finite, column_or_1d
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_consistent_length, check_is_fitted, validate_data

from ..._data.categories import as_columns, known_columns
from ..._data.classes import Table, check_classes, check_labels, with_some_entry
from ..._data.mixed import DEGENERATE, categorical_mask, declared_categories, find_columns
from ..._utils.log_weights import check_sample_weight
from ..._utils.parameters import check_choice, check_number
from ..._utils.randomness import check_generator
from ..._utils.warn import warn_caller
from ...energies import NeuralEnergy
from ...learners.initial_mixture import completed
from ...training import NoCheckpoint, PartReports
from .._base import LearnedEstimator, _unchanged_on_error
from .density import NNMRFDensity, correlation
from .gaussian_base import class_shrinkage, pooled_covariance
from .graph import edges_of
from .label_networks import (
    N_MEMBERS,
    check_memory,
    class_log_joint,
    completed_rows,
    learn_labels,
    mean_log_proba,
)

OWN = "rule", "priors", "n_jobs"  # parameters that densities do not take from the classifier


class NNMRFClassifier(CallbackSupportMixin, ClassifierMixin, BaseEstimator):
    r"""Classifier of numbers and categories by Markov random fields with neural potentials.

    Every class has a density :math:`p(x | y)`, a :class:`NNMRFDensity` of its own rows. Covariances
    of the classes are shrunk towards that of all rows about the means of their classes, as far as
    Gaussians of that kind predict rows left out better, so that classes of a few rows have a
    density too.

    ``rule="bayes"`` classifies by these densities, :math:`p(y | x) \propto p(y) p(x | y)`, as the
    paper does. But the best densities need not have the best boundary between them. So by default,
    ``rule="conditional"``, every class has a second set of networks, which are learned for the
    labels by the conditional likelihood

    .. math:: p(y | x) \propto \exp\Bigl(b_y + c \sum_i s_{yi} \tanh n_{yi}(x_i)
        + c \sum_{ij} s_{yij} \tanh n_{yij}(x_i, x_j)\Bigr).

    It is a weighted mean of fifteen such models: of three kinds, five each that leave out another
    fifth of the rows, with the weights of the kinds that make these rows likeliest. Where a row has
    gaps, it is the mean over 100 completions, drawn from the mixtures of the densities. The joint
    distribution is then :math:`p(x) p(y | x)`, where :math:`p(x) = \sum_y p(y) p(x | y)` is by the
    densities with either rule.

    Parameters
    ----------
    graph, learner, node_layers, edge_layers, base
        Of the densities, see :class:`NNMRFDensity`.
    density, categorical_features, categories, optimizer, learning_rate, penalty, alpha
        Likewise.
    batch_size, max_iter, tol, average, early_stopping, validation_fraction
        Likewise.
    n_iter_no_change, max_bytes
        Likewise. ``max_iter`` also bounds the iterations of L-BFGS for networks of labels, of which
        there are at most 100, and ``max_bytes`` the memory of one of the models of labels.
    rule : {"conditional", "bayes"}, default="conditional"
        By what rows are classified. After a fit with "conditional" both can be asked.
    priors : array-like of shape (n_classes,), optional
        Probabilities of the classes, in the order of ``classes_``; by default their shares.
    n_jobs : int, optional
        Classes, and members of the ensemble, learned at once.
    random_state : int, RandomState, Generator or None

    Attributes
    ----------
    classes_ : ndarray
    class_prior_ : ndarray of shape (n_classes,)
    densities_ : list of NNMRFDensity
        One a class, of rows whose numbers are standardised over all classes and whose categories
        are their positions in ``categories_``.
    ensemble_ : LabelEnsemble or None
        Its ``members`` are :class:`~skmrf.energies.NeuralLabels`, with ``weights``; kinds of small
        weight are left out. None with ``rule="bayes"``, and where Ctrl-C came before the first
        member; then rows are classified by Bayes' rule.
    categories_ : list of ndarray
        Of the columns that hold categories.
    n_iter_ : int
        Epochs of the class that took most of them.
    n_features_in_, feature_names_in_

    See Also
    --------
    NNMRFDensity
    sklearn.discriminant_analysis.QuadraticDiscriminantAnalysis : Gaussian classes.

    References
    ----------
    H. Xiong and N. Ruozzi, "General purpose MRF learning with neural network potentials", IJCAI
    2020, section 4.2.

    J. Lafferty, A. McCallum and F. Pereira, "Conditional random fields: probabilistic models for
    segmenting and labeling sequence data", ICML 2001.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from skmrf import NNMRFClassifier
    >>> X, y = load_iris(return_X_y=True)
    >>> model = NNMRFClassifier(max_iter=50, random_state=0).fit(X, y)
    >>> bool(model.score(X, y) > 0.95)
    True
    """

    _doc_link_module = LearnedEstimator._doc_link_module
    _doc_link_template = LearnedEstimator._doc_link_template
    _checkpoint = NoCheckpoint()  # a callback puts another one here during a fit

    def __init__(
        self,
        graph="complete",
        learner="variational",
        *,
        node_layers=(8, 8),
        edge_layers=(8, 8),
        base="gaussian",
        density="mixture",
        categorical_features="from_dtype",
        categories="auto",
        rule="conditional",
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
    ):
        self.graph = graph
        self.learner = learner
        self.node_layers = node_layers
        self.edge_layers = edge_layers
        self.base = base
        self.density = density
        self.categorical_features = categorical_features
        self.categories = categories
        self.rule = rule
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

    @with_callbacks
    def fit(self, X, y, sample_weight=None):
        """Learn a density for every class, and with ``rule="conditional"`` networks of labels.

        Parameters
        ----------
        X : array-like or frame of shape (n_samples, n_features)
            Numbers and categories; nan and None are missing entries.
        y : array-like of shape (n_samples,)
        sample_weight : array-like of shape (n_samples,), optional

        Returns
        -------
        self

        Raises
        ------
        ValueError
            Infinities, text that is not named in ``categorical_features``, a column without an
            entry, priors that are no probabilities of the classes, networks that need more than
            ``max_bytes``.
        """
        with _unchanged_on_error(self):
            vars(self).update(self._learned(X, y, sample_weight))
        return self

    def _learned(self, X, y, sample_weight):
        """Fitted attributes."""
        self._check_rule()
        NNMRFDensity(**self._shared())._check_parameters()
        table = self._table(X, y, sample_weight)
        priors = self._checked_priors(table.shares)
        conditional = self.rule == "conditional"
        n_parts = len(table.classes) + (N_MEMBERS if conditional else 0)
        reports = PartReports(self, X, y, n_parts)
        rng = check_generator(self.random_state)
        rng = reports.begin(rng, *table[:-1], vars(table.columns))
        seeds = rng.integers(2**31, size=len(table.classes) + 1).tolist()
        rng = np.random.default_rng(seeds[-1])
        edges = self._label_edges(table, rng) if conditional else None
        densities = self._densities(table, seeds[:-1], reports)
        ensemble = self._ensemble(table, edges, densities, rng, reports) if conditional else None
        fitted = {
            "classes_": table.classes,
            "class_prior_": priors,
            "densities_": densities,
            "ensemble_": ensemble,
            "categories_": table.columns.categories,
            "n_iter_": max(density.n_iter_ for density in densities),
            "_columns": table.columns,
            "_shares": table.shares,
            "_seed": seeds[-1],
            "_interrupted": reports.interrupted,
        }
        reports.finish(fitted)
        return fitted

    def _table(self, X, y, sample_weight):
        """What is learned from, checked."""
        columns = as_columns(X)
        y = self._labels(X, y)
        validate_data(self, X, skip_check_array=True)
        self.n_features_in_ = len(columns)
        names = list(getattr(self, "feature_names_in_", range(len(columns))))
        mask = categorical_mask(self.categorical_features, X, names)
        declared = declared_categories(X, mask)
        weights = check_sample_weight(sample_weight, len(y))
        if weights is not None:
            counted, weights = weights > 0, weights / weights.max()
            columns, y, weights = [c[counted] for c in columns], y[counted], weights[counted]
        found = find_columns(columns, names, mask, self.categories, weights, declared)
        rows = found.encode(columns)
        classes, labels = np.unique(y, return_inverse=True)
        check_classes(rows, labels, classes, found)
        return Table(rows, labels, classes, weights, found)

    def _labels(self, X, y):
        if y is None:
            raise ValueError(
                f"{type(self).__name__} requires y to be passed, but the target y is None."
            )
        y = column_or_1d(y, warn=True)
        check_labels(y)
        assert_all_finite(y, input_name="y")
        check_classification_targets(y)
        check_consistent_length(X, y)
        return y

    def _check_rule(self):
        check_choice("rule", self.rule, ("conditional", "bayes"))

    def _shared(self):
        """Parameters that densities take from the classifier."""
        return {k: v for k, v in self.get_params(deep=False).items() if k not in OWN}

    def _checked_priors(self, shares):
        if self.priors is None:
            return shares
        try:
            priors = np.asarray(self.priors, dtype=float)
        except (TypeError, ValueError):
            priors = np.zeros(0)
        right = priors.shape == shares.shape and (priors >= 0).all()
        if not right or abs(priors.sum() - 1) > 1e-6:
            raise ValueError(
                f"priors must be {len(shares)} probabilities that sum to 1, one a class; got "
                f"{self.priors!r}."
            )
        return priors / priors.sum()

    def _label_edges(self, table, rng):
        """The graph of networks of labels, if they fit into memory."""
        n, n_states, weights = len(table.rows), table.columns.n_states, table.weights
        weights = np.full(n, 1 / n) if weights is None else weights / weights.sum()
        full = completed(table.rows, n_states, weights, rng)
        edges = edges_of(self.graph, correlation(full, weights), table.columns.names)
        layers = self.node_layers, self.edge_layers
        check_memory(n_states, edges, *layers, len(table.classes), self.max_bytes)
        return edges

    def _networks(self, n_states, edges, rng):
        """Networks of the graph, with first weights."""
        layers = {"node_layers": tuple(self.node_layers), "edge_layers": tuple(self.edge_layers)}
        return NeuralEnergy.random(n_states, edges, **layers, random_state=rng)

    def _ensemble(self, table, edges, densities, rng, reports):
        """Networks of labels; None if Ctrl-C came before the first member."""
        ensemble = None
        if not reports.interrupted:
            try:
                networks = self._networks(table.columns.n_states, edges, rng)
                ensemble = self._members(networks, table, densities, rng, reports)
            except KeyboardInterrupt:
                reports.interrupted = True
        if ensemble is None:
            warn_caller(
                "Interrupted before networks of labels; rows are classified by Bayes' rule.",
                ConvergenceWarning,
            )
        return ensemble

    def _members(self, networks, table, densities, rng, reports):
        gaps = np.isnan(table.rows).any(axis=1)
        logs = class_log_joint(densities, np.log(table.shares), table.rows[gaps])

        def completions(rng):
            full = table.rows.copy()
            full[gaps] = completed_rows(densities, logs, table.rows[gaps], rng)
            return full

        names = "member of the ensemble", "members of the ensemble"
        learn = partial(reports.learn, *names, n_jobs=self.n_jobs)
        given = networks, completions, table.labels, table.weights, rng
        return learn_labels(*given, max_iter=self.max_iter, learn=learn)

    def _densities(self, table, seeds, reports):
        """A fitted density for every class."""
        _, labels, _, weights, columns = table
        rows = with_some_entry(table.rows, labels)
        params = self._shared()
        if not isinstance(self.graph, str):
            params["graph"] = edges_of(self.graph, None, columns.names).tolist()
        params["categorical_features"] = columns.discrete.tolist() or None
        params["categories"] = [np.arange(float(len(c))) for c in columns.categories]
        params |= self._prior(rows[:, columns.numbers], labels, weights)
        tasks = []
        for k, seed in enumerate(seeds):
            here = labels == k
            model = NNMRFDensity(**(params | {"random_state": seed}))
            tasks.append((model, rows[here], None if weights is None else weights[here]))
        names = "density of a class", "densities of classes"
        return reports.learn(*names, _fitted, tasks, n_jobs=self.n_jobs, brief=_fitted_briefly)

    def _prior(self, X, labels, weights):
        """What the covariances of classes are shrunk towards, and how far."""
        weights = np.ones(len(X)) if weights is None else weights
        X, numbers, rng = X.copy(), np.zeros(X.shape[1], int), np.random.default_rng(0)
        for k in range(labels.max() + 1):
            here = labels == k
            X[here] = completed(X[here], numbers, weights[here] / weights[here].sum(), rng)
        pooled = pooled_covariance(X, labels, weights)
        share = class_shrinkage(X, labels, weights, pooled)
        return {"prior_covariance": pooled, "shrinkage": share}

    # Queries ------------------------------------------------------------------------------

    def predict_joint_log_proba(self, X):
        """Log of ``p(x, y)``: densities are in nats and the units of the columns.

        With ``rule="conditional"`` it is that of ``p(x) p(y | x)``, see the class.

        Parameters
        ----------
        X : array-like or frame of shape (n_samples, n_features)
            Missing entries are integrated out: of ``p(y | x)`` by 100 draws a row with
            ``rule="conditional"``, the same ones at every call with the same rows.

        Returns
        -------
        ndarray of shape (n_samples, n_classes)
        """
        rows = self._encoded(X)
        joint = self._joint(rows) - self._columns.log_volume(rows)[:, None]
        if self.rule == "bayes":
            return joint
        return np.logaddexp.reduce(joint, axis=1, keepdims=True) + self._log_proba(rows)

    def score_samples(self, X):
        """Log density of rows, ``log p(x)``, shape (n_samples,), by the densities.

        Parameters
        ----------
        X : array-like or frame of shape (n_samples, n_features)
            Numbers and categories; nan, None or NA where missing.

        Returns
        -------
        ndarray of shape (n_samples,)
            In nats, and the units of the columns.
        """
        rows = self._encoded(X)
        return np.logaddexp.reduce(self._joint(rows), axis=1) - self._columns.log_volume(rows)

    def predict_log_proba(self, X):
        """Log of ``p(y | x)``, shape (n_samples, n_classes).

        Parameters
        ----------
        X : array-like or frame of shape (n_samples, n_features)
            Numbers and categories; nan, None or NA where missing.

        Returns
        -------
        ndarray of shape (n_samples, n_classes)
            In the order of ``classes_``.
        """
        return self._log_proba(self._encoded(X))

    def _encoded(self, X):
        """Rows, numbers standardised over all classes."""
        check_is_fitted(self)
        self._check_rule()
        return self._columns.encode(known_columns(self, X))

    def _joint(self, rows):
        """Log of prior times density, of standardised rows."""
        with np.errstate(divide="ignore"):
            return class_log_joint(self._asked(), np.log(self.class_prior_), rows)

    def _asked(self):
        """The densities, as ``density`` now says."""
        check_choice("density", self.density, ("mixture", "mrf"))
        if all(density.density == self.density for density in self.densities_):
            return self.densities_
        return [copy(density).set_params(density=self.density) for density in self.densities_]

    def _log_proba(self, rows):
        if self.rule == "bayes" or (self.ensemble_ is None and self._interrupted):
            logs = self._joint(rows)
        elif self.ensemble_ is None:
            raise ValueError(
                'Nothing was learned for rule="conditional": fit was with rule="bayes". Fit again, '
                'or set_params(rule="bayes").'
            )
        else:
            rng = np.random.default_rng(self._seed)
            logs = mean_log_proba(self.ensemble_, self.densities_, np.log(self._shares), rows, rng)
            with np.errstate(divide="ignore"):
                logs = logs + np.log(self.class_prior_ / self._shares)
        return logs - np.logaddexp.reduce(logs, axis=1, keepdims=True)

    def predict_proba(self, X):
        """``p(y | x)``, shape (n_samples, n_classes).

        Parameters
        ----------
        X : array-like or frame of shape (n_samples, n_features)
            Numbers and categories; nan, None or NA where missing.

        Returns
        -------
        ndarray of shape (n_samples, n_classes)
            In the order of ``classes_``.
        """
        return np.exp(self.predict_log_proba(X))

    def predict(self, X):
        """The most probable class of every row.

        Parameters
        ----------
        X : array-like or frame of shape (n_samples, n_features)
            Numbers and categories; nan, None or NA where missing.

        Returns
        -------
        ndarray of shape (n_samples,)
        """
        best = np.argmax(self.predict_log_proba(X), axis=1)
        return self.classes_[best]

    def sample(self, n_samples=1, *, y=None, random_state=None):
        """Draw rows.

        Parameters
        ----------
        n_samples : int, default=1
        y : label, or array-like of shape (n_samples,), optional
            Classes of the rows; by default drawn by ``class_prior_``.
        random_state : int, RandomState, Generator or None

        Returns
        -------
        ndarray of shape (n_samples, n_features)
            By the densities of the classes.
        """
        check_is_fitted(self)
        check_number("n_samples", n_samples, low=1, integer=True)
        rng = check_generator(random_state)
        labels = self._drawn_labels(n_samples, y, rng)
        rows, densities = np.empty((n_samples, self.n_features_in_)), self._asked()
        for k in np.unique(labels):
            here = labels == k
            rows[here] = densities[k].sample(int(here.sum()), random_state=rng)
        return self._columns.decode(rows)

    def _drawn_labels(self, n, y, rng):
        if y is None:
            return rng.choice(len(self.classes_), size=n, p=self.class_prior_)
        wanted = np.asarray(y)
        if wanted.shape not in ((), (n,)):
            raise ValueError(
                f"y must be one class, or as many as n_samples={n}; got shape {wanted.shape}."
            )
        wanted = np.broadcast_to(wanted, (n,))
        known = np.isin(wanted, self.classes_)
        if not known.all():
            odd = wanted[~known].tolist()[0]
            raise ValueError(f"y names class {odd!r}; the classes are {self.classes_.tolist()}.")
        return np.searchsorted(self.classes_, wanted)

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = True
        tags.input_tags.categorical = True
        return tags


def _fitted(density, rows, weights):
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message=DEGENERATE)  # columns have no names here
        return density.fit(rows, sample_weight=weights)


def _fitted_briefly(density, rows, weights):
    density = clone(density).set_params(max_iter=1)  # a thread may still be at work on the other
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        return _fitted(density, rows, weights)
