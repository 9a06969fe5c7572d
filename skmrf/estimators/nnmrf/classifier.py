"""NNMRFClassifier: a Markov random field with neural potentials for every class."""

import warnings
from copy import copy

import numpy as np
from sklearn.base import ClassifierMixin
from sklearn.callback import with_callbacks
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils.validation import check_is_fitted

from ..._data.classes import Table, check_classes, checked_labels, checked_priors, with_some_entry
from ..._data.frames import column_names, read_columns
from ..._data.mixed import DEGENERATE, learn_columns
from ..._utils.log_weights import check_sample_weight
from ..._utils.parameters import check_choice, check_number
from ..._utils.randomness import check_generator
from ..._utils.warn import warn_caller
from ...energies import NeuralEnergy
from ...learners import BeliefLearner
from ...learners.initial_mixture import completed
from ...training.part_reports import PartReports
from .._base import LearnedEstimator, unchanged_on_error
from .class_densities import (
    class_completions,
    class_log_joint,
    density_parameters,
    fit_density_briefly,
    mean_log_proba,
)
from .density import NNMRFDensity
from .graph import edges_of
from .initial_energy import correlation
from .label_networks import (
    N_MEMBERS,
    check_memory,
    combine_members,
    learn_member,
    member_tasks,
)

OWN = "rule", "priors", "n_jobs"  # parameters that densities do not take from the classifier


class NNMRFClassifier(ClassifierMixin, LearnedEstimator):
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
        Its ``members`` are ``NeuralLabels`` energies, with ``weights``; kinds of small
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
        with unchanged_on_error(self):
            self._check_rule()
            self._check_learner()
            NNMRFDensity(**self._shared())._check_all_parameters()
            table = self._read_table(X, y, sample_weight)
            priors = checked_priors(self.priors, table.shares)
            is_conditional = self.rule == "conditional"
            n_members = N_MEMBERS if is_conditional else 0
            reports = PartReports(self, X, y, len(table.classes) + n_members)
            rng = check_generator(self.random_state)
            rng = reports.begin(rng, *table[:-1], vars(table.columns))
            *seeds, seed = rng.integers(2**31, size=len(table.classes) + 1).tolist()
            rng = np.random.default_rng(seed)
            edges = self._label_edges(table, rng) if is_conditional else None
            densities = self._learn_densities(table, seeds, reports)
            ensemble = None
            if is_conditional:
                ensemble = self._learn_ensemble(table, edges, densities, rng, reports)
            fitted = {
                "classes_": table.classes,
                "class_prior_": priors,
                "densities_": densities,
                "ensemble_": ensemble,
                "categories_": table.columns.categories,
                "n_iter_": max(density.n_iter_ for density in densities),
                "_columns": table.columns,
                "_shares": table.shares,
                "_seed": seed,
                "_interrupted": reports.interrupted,
            }
            reports.finish(fitted)
            vars(self).update(fitted)
        return self

    def _read_table(self, X, y, sample_weight):
        """Return the training rows, labels and weights, checked and encoded."""
        rows = read_columns(self, X, reset=True)
        y = checked_labels(self, X, y)
        weights = check_sample_weight(sample_weight, len(y))
        if weights is not None:
            counted, weights = weights > 0, weights / weights.max()
            rows, y, weights = [c[counted] for c in rows], y[counted], weights[counted]
        given = self.categorical_features, self.categories
        columns = learn_columns(X, rows, column_names(self), *given, weights)
        codes = columns.encode(rows)
        classes, labels = np.unique(y, return_inverse=True)
        check_classes(codes, labels, classes, columns)
        return Table(codes, labels, classes, weights, columns)

    def _check_rule(self):
        check_choice("rule", self.rule, ("conditional", "bayes"))

    def _shared(self):
        """Return the parameters that the densities take from the classifier."""
        return {k: v for k, v in self.get_params(deep=False).items() if k not in OWN}

    def _label_edges(self, table, rng):
        """Return the graph of the networks of labels, if they fit into memory."""
        n, n_states, weights = len(table.rows), table.columns.n_states, table.weights
        weights = np.full(n, 1 / n) if weights is None else weights / weights.sum()
        full = completed(table.rows, n_states, weights, rng)
        edges = edges_of(self.graph, correlation(full, weights), table.columns.names)
        layers = self.node_layers, self.edge_layers
        check_memory(n_states, edges, *layers, len(table.classes), self.max_bytes)
        return edges

    def _learn_ensemble(self, table, edges, densities, rng, reports):
        """Return the networks of labels; None if Ctrl-C came before the first member."""
        ensemble = None
        if not reports.interrupted:
            try:
                ensemble = self._learn_members(table, edges, densities, rng, reports)
            except KeyboardInterrupt:
                reports.interrupted = True
        if ensemble is None:
            warn_caller(
                "Interrupted before networks of labels; rows are classified by Bayes' rule.",
                ConvergenceWarning,
            )
        return ensemble

    def _learn_members(self, table, edges, densities, rng, reports):
        networks = NeuralEnergy.random(
            table.columns.n_states,
            edges,
            node_layers=tuple(self.node_layers),
            edge_layers=tuple(self.edge_layers),
            random_state=rng,
        )
        names = "member of the ensemble", "members of the ensemble"
        given = networks, class_completions(table, densities), table.labels, table.weights, rng
        tasks, left = member_tasks(*given, self.max_iter)
        learned = reports.learn(*names, learn_member, tasks, n_jobs=self.n_jobs)
        return combine_members(learned, left)

    def _learn_densities(self, table, seeds, reports):
        """Return a fitted density for every class."""
        rows = with_some_entry(table.rows, table.labels)
        params = self._shared() | density_parameters(self.graph, table._replace(rows=rows))
        tasks = []
        for k, seed in enumerate(seeds):
            here = table.labels == k
            model = NNMRFDensity(**(params | {"random_state": seed}))
            weights = None if table.weights is None else table.weights[here]
            tasks.append((model, rows[here], None, weights))
        names = "density of a class", "densities of classes"
        options = {"n_jobs": self.n_jobs, "brief": fit_density_briefly}
        with warnings.catch_warnings():  # which name columns by their positions
            warnings.filterwarnings("ignore", message=DEGENERATE)
            return reports.learn(*names, NNMRFDensity.fit, tasks, **options)

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
        return self._columns.encode(self._columns.read(self, X))

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
