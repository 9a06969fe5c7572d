"""DiscreteMRF: discrete Markov random fields with tables of log-potentials."""

import numpy as np
from sklearn.base import BaseEstimator, clone
from sklearn.callback import with_callbacks
from sklearn.utils.validation import check_is_fitted

from .._data.categories import CategoryEncoder, given_categories, resolve_categories
from .._data.cliques import resolve_cliques
from .._data.frames import column_names, read_columns
from .._utils.batch import Batch
from ..energies import FactorGraph
from ..energies.checks import factor_graph_of
from ..energies.layout import Layout
from ..energies.protocols import BinaryPairwiseEnergy
from ..training import data_moments, initial_values
from ..training.held_out import held_out_score
from ._base import unchanged_on_error
from ._queries import VisibleEstimator
from ._rows import hold_out, weighted_rows
from ._session import FitSession, fitted_attributes
from ._training import TrainingParameters


class DiscreteMRF(VisibleEstimator):
    r"""Discrete Markov random field learned from data.

    .. math:: p(x) = \frac{1}{Z} \exp \sum_a \theta_a(x_a)

    with a table :math:`\theta_a` of log-potentials for every clique of columns. Columns hold
    categories of any hashable kind; nan, None and NA are missing entries.

    Parameters
    ----------
    cliques : str, list of tuples, networkx graph or structure learner, default="pairwise"
        Which columns share a table: "pairwise", all pairs; "independent", none; a list names them,
        columns by index or name, and columns that it leaves out get a table of their own. A graph
        means its edges and all single columns. A :class:`MRFStructureLearner` finds the edges from
        the same rows, as ``structure_``.
    learner : str or Learner, default="pcd"
        How the gradient is estimated: "pcd", "cd", "tempered-transitions", "parallel-tempering",
        "mcmc-mle", "pf-mcmc-mle", "smc", "psmc", "exact", "pseudo-likelihood", "bpchain-cd", "bp",
        "bp-cd" or "mean-field"; an instance of :mod:`skmrf.learners` carries parameters.
    tie : list of lists of int, optional
        Groups of cliques (by their place in ``cliques``) that share one table.
    categories : "auto" or list of lists, default="auto"
        Categories of every column; "auto" takes those seen in fit.
    optimizer : {"auto", "lbfgs", "adam", "sgd", "momentum"} or instance, default="auto"
        "auto" is L-BFGS (FISTA for penalties with a kink) for deterministic learners, else Adam,
        or plain SGD with "group-l1".
    learning_rate : {"adaptive", "constant", "step", "inverse"}, float or schedule
        Of stochastic learners, default="adaptive": halved whenever the gradient is only noise.
    penalty : {"l2", "l1", "group-l1"}, default="l2"
        On the tables of two columns and more.
    alpha : float, default=0.0
        Strength of the penalty, against the mean log-likelihood in nats.
    batch_size : int, default=256
        Rows a stochastic update sees.
    max_iter : int, optional
        Epochs; by default until converged, at least 2000 updates and at most 20000.
    tol : float, default=1e-6
        Largest gradient entry (mismatch of a clique marginal) at which L-BFGS stops.
    average : bool, default=True
        Average the iterates since the last change of the rate (never under "l1" or "group-l1").
    early_stopping : bool, default=False
        Hold out rows, and stop when their score no longer grows: the mean log-likelihood where
        elimination is cheap, else the mean pseudo-log-likelihood of complete rows.
    validation_fraction : float, default=0.1
    n_iter_no_change : int, default=5
        Epochs without a better score before stopping early.
    max_bytes : float, default=4 GiB
        Bound on the memory of the tables while learning, and of exact inference.
    warm_start : bool, default=False
        Go on from the previous fit, chains and optimizer included.
    n_jobs : int, optional
        Threads over blocks of chains; results do not depend on it.
    random_state : int, RandomState, Generator or None

    Attributes
    ----------
    energy_ : FactorGraph
    cliques_ : tuple of tuples of int
    log_potentials_ : list of ndarray
        A table for every clique, axes as in ``cliques_``, states as in ``categories_``.
    categories_ : list of ndarray
    structure_ : MRFStructureLearner
        Fitted to the rows, where ``cliques`` is a structure learner.
    log_partition_ : float
        log Z in nats; computed when first asked for.
    log_partition_interval_ : tuple of float
        Lower and upper limit; equal when exact.
    log_partition_method_ : str
    history_ : dict of lists
        Diagnostics, one entry an epoch.
    n_iter_ : int
        Epochs.
    converged_ : bool
    n_features_in_, feature_names_in_

    See Also
    --------
    skmrf.inference : queries of a model, learned or given.

    References
    ----------
    D. Koller and N. Friedman, "Probabilistic graphical models: principles and techniques" (2009),
    sections 4.4 (log-linear models) and 20.2 and 20.3 (their likelihood, and learning with gaps).

    Examples
    --------
    >>> import numpy as np
    >>> from skmrf import DiscreteMRF
    >>> X = np.array([["red", "hot"]] * 3 + [["blue", "cold"]] * 2 + [["blue", "hot"]])
    >>> model = DiscreteMRF(learner="exact", alpha=0.01).fit(X)
    >>> model.predict(np.array([["blue", None], [None, "hot"]], dtype=object))
    array([['blue', 'cold'],
           ['red', 'hot']], dtype=object)
    """

    _energy_type = FactorGraph

    def __init__(
        self,
        cliques="pairwise",
        learner="pcd",
        *,
        tie=None,
        categories="auto",
        optimizer="auto",
        learning_rate="adaptive",
        penalty="l2",
        alpha=0.0,
        batch_size=256,
        max_iter=None,
        tol=1e-6,
        average=True,
        early_stopping=False,
        validation_fraction=0.1,
        n_iter_no_change=5,
        max_bytes=4 * 2**30,
        warm_start=False,
        n_jobs=None,
        random_state=None,
    ):
        self.cliques = cliques
        self.learner = learner
        self.tie = tie
        self.categories = categories
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
        self.warm_start = warm_start
        self.n_jobs = n_jobs
        self.random_state = random_state

    @classmethod
    def from_energy(cls, energy, categories=None):
        """A fitted estimator of a model that was not learned here.

        Parameters
        ----------
        energy : FactorGraph or PairwiseEnergy
        categories : list of array-like, optional
            What the states of every variable are called: by default the codes 0, 1, ..., or the
            two states of a PairwiseEnergy.

        Returns
        -------
        DiscreteMRF

        Raises
        ------
        ValueError
            Another number of categories than a variable has states.
        """
        graph = factor_graph_of(energy)
        names = list(range(graph.n_variables))
        if categories is None:
            pair = energy.states if isinstance(energy, BinaryPairwiseEnergy) else None
            categories = [np.arange(q) if pair is None else np.array(pair) for q in graph.n_states]
        categories = given_categories(categories, names)
        for i, (known, q) in enumerate(zip(categories, graph.n_states, strict=True)):
            if len(known) != q:
                raise ValueError(
                    f"Variable {i} has {q} states, but {len(known)} categories are given."
                )
        model = cls(cliques=list(graph.cliques))
        model.n_features_in_ = graph.n_variables
        vars(model).update(fitted_attributes(graph) | {"categories_": categories})
        return model

    @with_callbacks
    def fit(self, X, y=None, sample_weight=None):
        """Learn the tables.

        Parameters
        ----------
        X : array-like or frame of shape (n_samples, n_features)
            Categories; nan, None or NA where missing.
        y : ignored
        sample_weight : array-like of shape (n_samples,), optional

        Returns
        -------
        self
        """
        return self._fit(X, sample_weight)

    @with_callbacks
    def partial_fit(self, X, y=None, sample_weight=None):
        """One epoch over ``X``, going on from what was learned so far.

        The first call fixes the categories, and the graph where a structure learner finds it: pass
        ``categories=`` if it may not see all of them.

        Parameters
        ----------
        X, y, sample_weight
            As in :meth:`fit`.

        Returns
        -------
        self
        """
        return self._fit(X, sample_weight, partial=True)

    def _fit(self, X, sample_weight, partial=False):
        with unchanged_on_error(self):
            parameters, learner = TrainingParameters.of(self, partial), self._check_learner()
            is_resumed = parameters.resumes(self)
            structure = None if is_resumed else self._structure_learner()
            fit = FitSession(self, parameters, X, n_sub_estimators=int(structure is not None))
            if structure is not None:
                self.structure_ = fit.fit_sub_estimator("structure", structure, sample_weight)
            columns = read_columns(self, X, reset=not is_resumed)
            encoder = self._encoder if is_resumed else self._new_encoder(columns)
            data = weighted_rows(Batch(encoder.encode(columns)), sample_weight)
            if not is_resumed:
                layout = self._layout(encoder, structure)
                self._check_size(layout, parameters)
                fit.energy = _independent_columns(layout, data, self.tie)
            fit.begin(data, encoder.categories)
            data, held_out = hold_out(data, parameters, fit.rng)
            moments = data_moments.complete_moments(fit.energy, data)
            settings = parameters.settings(
                learner,
                fit.energy,
                data,
                score=_score(fit.energy, held_out),
                resolution=data_moments.resolution(moments, data),
            )

            def attributes(state):
                return fit.attributes(state) | {"categories_": encoder.categories}

            state = fit.train(learner, data, settings, attributes)
            if self.alpha == 0:
                data_moments.warn_unbounded(data_moments.count_never(moments))
            vars(self).update(attributes(state))
        return self

    def _structure_learner(self):
        """Return an unfitted structure learner of the same categories, or None without one."""
        vars(self).pop("structure_", None)
        if not isinstance(self.cliques, BaseEstimator):
            return None
        structure = clone(self.cliques)
        if structure.get_params(deep=False).get("random_state") is None:
            structure.set_params(random_state=self.random_state)
        if not isinstance(self.categories, str):
            structure.set_params(categories=self.categories)
        return structure

    def _new_encoder(self, columns):
        names = column_names(self)
        return CategoryEncoder(names, resolve_categories(self.categories, columns, names))

    def _layout(self, encoder, structure):
        """Return the layout of the tables: those of a fitted structure learner where there is one.

        Parameters
        ----------
        encoder : CategoryEncoder
        structure : MRFStructureLearner or None
        """
        n = self.n_features_in_
        cliques = self.cliques if structure is None else _with_singles(self.structure_, n)
        names = vars(self).get("feature_names_in_")
        n_states = [len(known) for known in encoder.categories]
        return Layout.build(n_states, resolve_cliques(cliques, n, names), self.tie)

    @staticmethod
    def _check_size(layout, parameters):
        parameters.check_memory(
            layout.n_parameters,
            "log-potentials",
            "Use fewer or smaller cliques, merge rare categories, or raise max_bytes.",
        )

    @property
    def cliques_(self):
        """Cliques as tuples of column indices."""
        check_is_fitted(self)
        return self.energy_.cliques

    @property
    def log_potentials_(self):
        """Tables of log-potentials, one a clique."""
        check_is_fitted(self)
        return self.energy_.log_potentials

    @property
    def _encoder(self):
        return CategoryEncoder(self._column_names(), self.categories_)

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.input_tags.categorical = True
        tags.input_tags.string = True
        return tags


def _independent_columns(layout, data, tie):
    """Return the energy with independent columns, as far as single tables reach."""
    start = initial_values.independent_start(layout, data.X, tie, data.log_weights)
    return FactorGraph.from_layout(layout, start)


def _score(energy, held_out):
    return None if held_out is None else held_out_score(energy.layout, held_out)


def _with_singles(structure, n_features):
    """All single columns, and the edges of a fitted structure learner."""
    return [(i,) for i in range(n_features)] + [tuple(e) for e in structure.edges_.tolist()]
