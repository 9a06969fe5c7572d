"""Discrete Markov random fields whose parameters are tables of log-potentials."""

from dataclasses import replace

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.callback import with_callbacks
from sklearn.utils.validation import check_is_fitted

from .._data.categories import CategoryEncoder, check_categories, resolve_categories
from .._data.cliques import check_tie, cliques_from_pairs, resolve_cliques
from .._data.frames import column_names, read_training_columns
from .._utils.rows import Batch, weighted_rows
from ..energies import FactorGraph
from ..energies.dense_tables import check_pairs
from ..energies.layout import Layout
from ..energies.protocols import BinaryPairwiseEnergy, visible_graph_of
from ..training import data_moments, loop
from ..training.device import check_device_learner
from ..training.held_out import held_out_score
from ..training.initial_values import independent_tables
from ._automatic import (
    FINAL_GAIN,
    Plan,
    choose_pairs,
    continue_plan,
    estimate_log_partition,
    plan_fit,
)
from ._base import check_same_parameters, hash_parameters, unchanged_on_error
from ._density import VisibleEstimator
from ._refinement import final_settings, parameters_of
from ._session import FitSession, fitted_attributes
from ._structure import clone_for_categories
from ._training import TrainingParameters, hold_out, rows_of_log_partition

MODEL_PARAMETERS = "cliques", "tie", "categories"  # cannot change while training continues


class DiscreteMRF(VisibleEstimator):
    r"""Discrete Markov random field.

    .. math:: p(x) = \frac{1}{Z} \exp \sum_a \theta_a(x_a)

    Each clique :math:`a` of columns has a table :math:`\theta_a` of log-potentials. Columns contain
    categories of any hashable type. nan, None and NA are missing entries.

    Parameters
    ----------
    cliques : str, list of tuples, networkx graph or structure learner, default="auto"
        Sets of columns that share a table.

        - "auto": all single columns and all pairs of columns. If the tables of all pairs have more
          than 6 million entries in total, only the pairs with the strongest dependence are
          selected, and :meth:`fit` warns.
        - "pairwise": all single columns and all pairs of columns.
        - "independent": all single columns.
        - A list of tuples of column indices or names. Each column that is in no tuple gets a table
          of its own.
        - A networkx graph without loops: its edges and all single columns.
        - An :class:`MRFStructureLearner`: it learns the edges from the same rows. The fitted
          structure learner is ``structure_``.
    learner : str or Learner, default="auto"
        Estimator of the gradient of the log-likelihood. "auto" is "exact" if a gradient takes a few
        milliseconds. Otherwise it is "pseudo-likelihood", or "pcd" if entries are missing and
        ``alpha`` is a number. With the defaults of ``alpha``, ``optimizer``, ``learning_rate``,
        ``penalty`` and ``early_stopping``, "pcd" then refines a model of pseudo-likelihood by 400
        natural gradients in large minibatches, with a rate that falls to zero; the model with the
        higher log-likelihood of held-out rows is kept. Other values: "pcd", "ptt", "cd", "smc",
        "psmc", "tempered-transitions", "parallel-tempering", "mcmc-mle", "pf-mcmc-mle", "exact",
        "pseudo-likelihood", "bpchain-cd", "bp", "bp-cd" or "mean-field". An instance of a class of
        :mod:`skmrf.learners` has its own parameters.
    tie : list of lists of int, optional
        Groups of cliques that share one table. Cliques are given by their positions in ``cliques``.
        By default each clique has its own table.
    categories : "auto" or list of lists, default="auto"
        Categories of each column. "auto" uses the categories seen during fit.
    optimizer : {"auto", "lbfgs", "adam", "sgd", "momentum"} or instance, default="auto"
        Optimizer of the parameters. "auto" is a deterministic solver for deterministic learners:
        L-BFGS, or FISTA with the penalties "l1" and "group-l1". For stochastic learners "auto" is
        Adam, or SGD with "group-l1". "lbfgs" needs a deterministic learner. An instance of an
        optimizer of :mod:`skmrf.training` has its own parameters.
    learning_rate : str, float or schedule, default="adaptive"
        Learning rate of stochastic learners. "adaptive" halves the rate whenever the gradient is
        only noise. "constant" keeps the first rate, "step" halves it every 1000 updates, and
        "inverse" divides it by ``1+t/100`` after t updates. The first rate is 0.03 for Adam, 0.1
        for SGD and 0.02 for momentum. A float is a constant rate. An instance of a schedule of
        :mod:`skmrf.training` has its own parameters.
    penalty : {"l2", "l1", "elasticnet", "group-l1"}, default="l2"
        Penalty on the tables of two or more columns. Tables of single columns are not penalised.
        With "group-l1" each table is a group. "elasticnet" is the mean of "l1" and "l2".
    alpha : float or "auto", default="auto"
        Strength of the penalty. ``alpha`` times the penalty is subtracted from the mean
        log-likelihood of a row in nats. 0 means no penalty.
        "auto" chooses the strength by the scores of held-out rows along a regularization path: fits
        of decreasing strength, by exact maximum likelihood or pseudo-likelihood. The penalty "l2"
        is then half the squared distance from a reference model: a Chow-Liu tree, a part of its
        edges, or independent columns, whichever has the highest likelihood on held-out rows.
        Without missing entries, penalised fits decide between the best of these and independent
        columns. A refinement by "pcd" compares up to eight strengths, also stronger ones.
        If no strength is better than the reference model, ``alpha_`` is inf and the fitted model is
        the reference model. In :meth:`partial_fit` it is 1 divided by the rows of the first call.
    batch_size : int, default=256
        Number of rows in a minibatch of a stochastic learner.
    max_iter : int, optional
        Maximum number of epochs, or of iterations of a deterministic solver. By default training
        continues until it converges, with at least 2000 and at most 20000 updates.
    tol : float, default=1e-6
        Tolerance of deterministic solvers. They stop when no entry of the gradient (difference of a
        clique marginal between data and model) is larger in absolute value. With ``alpha="auto"``
        L-BFGS also stops when an iteration increases the objective by less than 1e-5 nats.
    average : bool, default=True
        Whether to return the mean of the iterates since the last change of the learning rate,
        instead of the last iterate. It has no effect with the penalties "l1" and "group-l1", or
        with a deterministic solver.
    early_stopping : bool, default=False
        Whether to hold out rows and to stop when their score no longer improves. The score is the
        mean log-likelihood if variable elimination is cheap, else the mean pseudo-log-likelihood of
        the held-out rows without missing entries.
    validation_fraction : float, default=0.1
        Share of the rows that early stopping holds out, above 0 and at most 0.9.
    n_iter_no_change : int, default=5
        Number of epochs without a better score after which early stopping ends training.
    max_bytes : float, default=4 * 2**30
        Maximum memory in bytes of the tables during training, of exact inference, and of the
        couplings of all categories on a device (4 GiB).
    warm_start : bool, default=False
        Whether :meth:`fit` continues training from the previous fit, including the Markov chains
        and the state of the optimizer.
    n_jobs : int, optional
        Number of threads over blocks of Markov chains. Results do not depend on it.
    device : {"cpu", "gpu", "cuda", "jax"}, default="cpu"
        Device of Markov chains and of stochastic training: the compiled functions of numba, a GPU,
        or the default device of JAX. Except on the CPU, cliques must have at most two columns and
        no shared tables (``tie``), and the learner must be "auto", "pcd", "ptt", "cd", "smc",
        "psmc", "tempered-transitions", "parallel-tempering", "mcmc-mle" or "pf-mcmc-mle". The
        deterministic solvers of "auto" run on the CPU. See the page "Training on a GPU" of the user
        guide.
    random_state : int, RandomState, Generator or None, default=None
        Random numbers of training and of the estimate of log Z. An int makes fits reproducible.
    verbose : int, default=0
        Amount of progress messages. 0: none. 1: a line every few seconds with the epoch, the last
        score in ``history_`` and the seconds that remain until ``max_iter``. 2: a line per epoch.

    Attributes
    ----------
    energy_ : FactorGraph
        Fitted model. :mod:`skmrf.inference` has functions to query it.
    cliques_ : tuple of tuples of int
        Column indices of each clique.
    log_potentials_ : list of ndarray
        Table of log-potentials of each clique. Axes are in the order of ``cliques_``, states in the
        order of ``categories_``.
    categories_ : list of ndarray
        Categories of each column, in the order of the states.
    learner_ : Learner
        Learner that trained the model.
    alpha_ : float
        Strength of the penalty. It is inf if the model is ``reference_``.
    reference_ : FactorGraph or None
        Reference model of ``alpha="auto"``, learned from all rows. None if ``alpha`` is a number.
    regularization_path_ : RegularizationPath or None
        Scores of held-out rows for ``alpha="auto"``, with the fields ``alphas``, ``scores``,
        ``std_errors`` (of the differences from the first score) and ``criterion``. None if
        ``alpha`` is a number.
    structure_ : MRFStructureLearner
        Fitted structure learner. It exists only if ``cliques`` is a structure learner.
    log_partition_ : float
        log Z in nats. It is computed at the first access.
    log_partition_interval_ : tuple of float
        Lower and upper limit of log Z in nats. They are equal if log Z is exact.
    log_partition_method_ : str
        How log Z was computed: "exact", "ais" (annealed importance sampling) or "ladder".
    history_ : dict of lists
        Diagnostics of training: one list per quantity, with one entry per epoch.
    n_iter_ : int
        Number of epochs.
    converged_ : bool
        Whether training converged.
    n_features_in_ : int
        Number of columns seen during fit.
    feature_names_in_ : ndarray of shape (n_features,)
        Names of the columns seen during fit. It exists only if all names are strings.

    See Also
    --------
    skmrf.inference : Queries of a learned or given model.

    References
    ----------
    D. Koller and N. Friedman, "Probabilistic graphical models: principles and techniques" (2009),
    sections 4.4 (log-linear models) and 20.2 and 20.3 (likelihood, and learning with missing
    entries).

    Examples
    --------
    >>> import numpy as np
    >>> from skmrf import DiscreteMRF
    >>> X = np.array([["red", "hot"]] * 3 + [["blue", "cold"]] * 2 + [["blue", "hot"]])
    >>> model = DiscreteMRF(alpha=0.01).fit(X)
    >>> model.predict(np.array([["blue", None], [None, "hot"]], dtype=object))
    array([['blue', 'cold'],
           ['red', 'hot']], dtype=object)
    """

    _energy_type = FactorGraph

    def __init__(
        self,
        cliques="auto",
        learner="auto",
        *,
        tie=None,
        categories="auto",
        optimizer="auto",
        learning_rate="adaptive",
        penalty="l2",
        alpha="auto",
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
        device="cpu",
        random_state=None,
        verbose=0,
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
        self.device = device
        self.random_state = random_state
        self.verbose = verbose

    @classmethod
    def from_energy(cls, energy, categories=None):
        """Return a fitted estimator with the parameters of a given model.

        Parameters
        ----------
        energy : FactorGraph or PairwiseEnergy
            The model.
        categories : list of array-like, optional
            Categories of each variable, in the order of its states. By default they are the state
            codes 0, 1, ..., or the two states of a PairwiseEnergy.

        Returns
        -------
        DiscreteMRF
            Estimator that answers the queries of a fitted estimator.

        Raises
        ------
        ValueError
            If the model has hidden units, or if the number of categories of a variable is not its
            number of states.
        """
        graph = visible_graph_of(energy)
        names = list(range(graph.n_variables))
        if categories is None:
            pair = energy.states if isinstance(energy, BinaryPairwiseEnergy) else None
            categories = [np.arange(q) if pair is None else np.array(pair) for q in graph.n_states]
        categories = check_categories(categories, names)
        for i, (known, q) in enumerate(zip(categories, graph.n_states, strict=True)):
            if len(known) != q:
                raise ValueError(
                    f"Variable {i} has {q} states, but {len(known)} categories are given; give one "
                    "category per state."
                )
        model, fitted = cls(cliques=list(graph.cliques)), fitted_attributes(graph)
        fitted |= {"categories_": categories, "n_features_in_": graph.n_variables}
        vars(model).update(fitted, _model_parameters=hash_parameters(model, MODEL_PARAMETERS))
        return model

    @with_callbacks
    def fit(self, X, y=None, sample_weight=None):
        """Learn the tables of log-potentials.

        Parameters
        ----------
        X : array-like or frame of shape (n_samples, n_features)
            Training rows of categories. nan, None and NA are missing entries. The rows of a memory
            map of booleans or of integers of one or two bytes are read in blocks.
        y : ignored
            Not used.
        sample_weight : array-like of shape (n_samples,), optional
            Non-negative weight of each row: the number of times that it counts. By default 1.

        Returns
        -------
        self
            The fitted estimator.
        """
        return self._fit(X, sample_weight)

    @with_callbacks
    def partial_fit(self, X, y=None, sample_weight=None):
        """Train for one epoch over ``X``, starting from the current parameters.

        The first call fixes the categories, and also the graph if ``cliques`` is a structure
        learner. Give ``categories`` if the first rows may not contain all of them.

        Parameters
        ----------
        X : array-like or frame of shape (n_samples, n_features)
            Training rows of categories. nan, None and NA are missing entries.
        y : ignored
            Not used.
        sample_weight : array-like of shape (n_samples,), optional
            Non-negative weight of each row: the number of times that it counts. By default 1.

        Returns
        -------
        self
            The fitted estimator.
        """
        return self._fit(X, sample_weight, partial=True)

    def _fit(self, X, sample_weight, partial=False):
        with unchanged_on_error(self):
            learner = self._given_learner()
            parameters = TrainingParameters.of(self, partial, learner)
            is_resumed = parameters.resumes(self)
            if is_resumed:
                check_same_parameters(self, self._model_parameters)
            structure = None if is_resumed else self._structure_learner()
            session = FitSession(self, parameters, X, n_sub_estimators=int(structure is not None))
            if structure is not None:
                with session.sub_estimator("structure", structure):
                    self.structure_ = structure.fit(X, sample_weight=sample_weight)
            in_blocks = learner is None or learner.reads_maps
            columns = read_training_columns(self, X, reset=not is_resumed, in_blocks=in_blocks)
            encoder = self._encoder if is_resumed else self._new_encoder(columns)
            data = weighted_rows(Batch(encoder.encode(columns)), sample_weight)
            if session.is_interrupted and isinstance(self.alpha, str):
                parameters = replace(parameters, alpha=0.0)  # nothing is learned after Ctrl-C
            if is_resumed:
                plan = self._previous_plan(session.energy, data, learner, parameters)
            else:
                layout = self._layout(encoder, structure, data, parameters)
                start = independent_tables(layout, data, self.tie)
                has_choice = isinstance(self.cliques, str) and self.cliques == "auto"
                with session.parallel():
                    plan = plan_fit(start, data, learner, parameters, encoder.names, has_choice)
                session.energy = plan.start
            attributes = self._train(session, plan, parameters, encoder)
            vars(self).update(attributes)
        return self

    def _train(self, session, plan, parameters, encoder):
        """Train the planned model, and return the fitted attributes."""
        if plan.learner.deterministic:
            parameters = parameters.on_cpu()
        elif plan.is_refined:
            parameters = parameters_of(parameters, session.energy)
        session.begin(plan.data, encoder.categories)
        data, held_out = hold_out(plan.data, parameters, session.rng)
        moments = data_moments.complete_moments(session.energy, data)
        settings = parameters.settings(
            plan.learner,
            session.energy,
            data,
            alpha=0.0 if plan.is_final else plan.alpha,
            centre=plan.centre(parameters),
            score=None if held_out is None else held_out_score(session.energy.layout, held_out),
            resolution=data_moments.estimate_resolution(moments, data),
            min_gain=0.0 if plan.reference is None else FINAL_GAIN,
        )
        if plan.is_checked:
            settings = final_settings(settings, session.energy, data, plan.tree, plan.is_refined)
        choices = {
            "categories_": encoder.categories,
            "learner_": plan.learner,
            "alpha_": plan.alpha,
            "reference_": plan.reference,
            "_tree": plan.tree,
            "regularization_path_": plan.path,
            "_model_parameters": hash_parameters(self, MODEL_PARAMETERS),
            **rows_of_log_partition(data, np.random.default_rng(0)),
        }

        def attributes(state):
            return session.attributes(state) | choices

        if plan.is_final:
            return attributes(session.keep(settings, attributes, interrupted=plan.interrupted))
        state = loop.train(session, plan.learner, data, settings, attributes)
        if plan.alpha == 0:
            data_moments.warn_unbounded(data_moments.count_unobserved(moments))
        return attributes(state)

    def _given_learner(self):
        """Return the learner object, or None for "auto"."""
        if isinstance(self.learner, str) and self.learner == "auto":
            return None
        learner = self._check_learner(others=("auto",))
        if self.device != "cpu":
            check_device_learner(learner, self._energy_type)
        return learner

    def _previous_plan(self, energy, data, learner, parameters):
        """Return the plan of continued training: learner, penalty and reference of the last fit."""
        fitted = vars(self)
        previous = Plan(
            fitted.get("learner_"),
            fitted.get("alpha_", np.inf),
            energy,
            fitted.get("reference_"),
            fitted.get("regularization_path_"),
            data,
            tree=fitted.get("_tree"),
        )
        return continue_plan(previous, learner, parameters)

    def _structure_learner(self):
        """Return an unfitted copy of ``cliques`` if it is a structure learner, otherwise None."""
        vars(self).pop("structure_", None)
        if not isinstance(self.cliques, BaseEstimator):
            return None
        return clone_for_categories(self.cliques, self.categories, self.random_state)

    def _new_encoder(self, columns):
        names = column_names(self)
        return CategoryEncoder(names, resolve_categories(self.categories, columns, names))

    def _layout(self, encoder, structure, data, parameters):
        """Return the layout of the tables, for the cliques of ``structure_`` if there is one."""
        n = self.n_features_in_
        n_states = np.array([len(known) for known in encoder.categories])
        if structure is not None:
            flat = cliques_from_pairs(self.structure_.edges_, n)
        elif isinstance(self.cliques, str) and self.cliques == "auto":
            flat = cliques_from_pairs(choose_pairs(data, n_states), n)
        else:
            flat = resolve_cliques(self.cliques, n, vars(self).get("feature_names_in_"))
        check_tie(self.tie, self.cliques)
        layout = Layout.build(n_states, flat, self.tie)
        if self.device != "cpu":
            check_pairs(layout, parameters.max_bytes)
        remedy = "Use fewer or smaller cliques, merge rare categories, or raise max_bytes."
        parameters.check_memory(layout.n_parameters, "log-potentials", remedy)
        return layout

    @property
    def _device(self):
        return self.device

    @property
    def cliques_(self):
        """Cliques, as tuples of column indices."""
        check_is_fitted(self)
        return self.energy_.cliques

    @property
    def log_potentials_(self):
        """Tables of log-potentials, one per clique."""
        check_is_fitted(self)
        return self.energy_.log_potentials

    def _compute_log_partition(self):
        return estimate_log_partition(
            self.energy_,
            vars(self).get("_tree"),
            start=self._reverse_starts(),
            target_width=self._target_width(),
            max_bytes=self.max_bytes,
            random_state=self._seed,
            n_jobs=self.n_jobs,
            device=self.device,
        )

    @property
    def _encoder(self):
        return CategoryEncoder(self._column_names(), self.categories_)

    def __sklearn_tags__(self):
        """Return the scikit-learn tags of the estimator."""
        tags = super().__sklearn_tags__()
        tags.input_tags.categorical = tags.input_tags.string = True
        return tags
