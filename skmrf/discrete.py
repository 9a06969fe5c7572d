"""DiscreteMRF: discrete Markov random fields with tables of log-potentials."""

from contextlib import contextmanager, nullcontext

import numpy as np
from joblib import parallel_config
from sklearn.base import BaseEstimator, DensityMixin
from sklearn.callback import CallbackSupportMixin, with_callbacks
from sklearn.utils.validation import check_is_fitted, validate_data

from . import inference, learning
from ._cliques import resolve_cliques
from ._encoding import (
    as_columns,
    decode,
    encode,
    find_categories,
    given_categories,
)
from ._types import MISSING, STATE, Batch
from ._validation import check_generator, check_number, check_sample_weight
from .energies import FactorGraph, Layout, PairwiseEnergy
from .learners import LEARNERS, Learner
from .likelihood import log_partition_bounds

COPIES = 6  # arrays of parameters that learning holds at once


class DiscreteMRF(CallbackSupportMixin, DensityMixin, BaseEstimator):
    r"""Discrete Markov random field learned from data.

    .. math:: p(x) = \frac{1}{Z} \exp \sum_a \theta_a(x_a)

    with a table :math:`\theta_a` of log-potentials for every clique of columns. Columns hold
    categories of any hashable kind; nan, None and NA are missing entries.

    Parameters
    ----------
    cliques : {"pairwise", "independent"}, list of tuples, or networkx graph, default="pairwise"
        Which columns share a table; columns by index or name. A graph means its edges and all
        single columns. Columns that a list leaves out get a table of their own.
    learner : str or Learner, default="pcd"
        How the gradient is estimated: "pcd", "cd", "exact", "pseudo-likelihood", "bpchain-cd",
        "bp", "bp-cd" or "mean-field"; an instance of :mod:`skmrf.learners` carries parameters.
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

    _doc_link_module = "skmrf"
    _doc_link_template = (
        "https://skmrf.readthedocs.io/en/stable/api/generated/skmrf.{estimator_name}.html"
    )

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
        """
        graph = energy.factor_graph()
        names = list(range(graph.n_variables))
        if categories is None:
            pair = energy.states if isinstance(energy, PairwiseEnergy) else None
            categories = [np.arange(q) if pair is None else np.array(pair) for q in graph.n_states]
        categories = given_categories(categories, names)
        for i, (known, q) in enumerate(zip(categories, graph.n_states, strict=True)):
            if len(known) != q:
                raise ValueError(
                    f"Variable {i} has {q} states, but {len(known)} categories are given."
                )
        model = cls(cliques=list(graph.cliques))
        model.n_features_in_ = graph.n_variables
        vars(model).update(model._fitted(graph, categories, {}, 0, True, seed=0))
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
        return self._learn(X, sample_weight, self.max_iter, self.warm_start, self.warm_start)

    @with_callbacks
    def partial_fit(self, X, y=None, sample_weight=None):
        """One epoch over ``X``, going on from what was learned so far.

        The first call fixes the categories: pass ``categories=`` if it may not see all of them.

        Parameters
        ----------
        X, y, sample_weight
            As in :meth:`fit`.

        Returns
        -------
        self
        """
        return self._learn(X, sample_weight, 1, resume=True, keep=True)

    def _learn(self, X, sample_weight, max_iter, resume, keep):
        with _unchanged_on_error(self):
            vars(self).update(self._learned(X, sample_weight, max_iter, resume, keep))
        return self

    def _learned(self, X, sample_weight, max_iter, resume, keep):
        """Fitted attributes."""
        learner = self._check_parameters()
        resume = resume and getattr(self, "_loop_state", None) is not None
        codes, categories = self._encode_training(X, resume)
        weights = check_sample_weight(sample_weight, len(codes))
        if weights is not None:
            codes, weights = codes[weights > 0], weights[weights > 0]
        rng = check_generator(self.random_state)
        energy = self._loop_state.energy if resume else self._initial_energy(codes, categories)
        data, held_out = self._split(Batch(codes, None, _logs(weights)), rng)
        moments = learning.complete_moments(energy, data)
        settings = self._settings(learner, energy, data, held_out, max_iter)
        settings.resolution = learning.resolution(moments, data)
        if resume:
            state = learning.resume(self._loop_state, learner, data)
        else:
            state = learning.start(energy, learner, data, settings, rng)
        seed = int(rng.integers(2**63))
        reports = learning.EpochReports(
            self, X, max_iter, lambda s: self._summary(s, categories, seed)
        )
        context = nullcontext() if self.n_jobs is None else parallel_config(n_jobs=self.n_jobs)
        with context:
            state = learning.run(learner, data, settings, state, reports)
        reports.finish()
        if self.alpha == 0:
            learning.warn_unbounded(moments)
        return dict(self._summary(state, categories, seed), _loop_state=state if keep else None)

    def _check_parameters(self):
        """Check what needs no data; return the learner."""
        check_number("tol", self.tol, low=0)
        check_number("batch_size", self.batch_size, low=1, integer=True)
        check_number("max_bytes", self.max_bytes, low=0, open_low=True)
        check_number("n_iter_no_change", self.n_iter_no_change, low=1, integer=True)
        check_number(
            "validation_fraction", self.validation_fraction, low=0, high=0.9, open_low=True
        )
        if self.max_iter is not None:
            check_number("max_iter", self.max_iter, low=1, integer=True)
        if isinstance(self.learner, Learner):
            return self.learner
        if not isinstance(self.learner, str) or self.learner not in LEARNERS:
            raise ValueError(
                f"learner must be one of {sorted(LEARNERS)} or an instance of a class of "
                f"skmrf.learners; got {self.learner!r}."
            )
        return LEARNERS[self.learner]()

    def _encode_training(self, X, resume):
        """State codes and categories; counts and names of columns are recorded or checked."""
        columns = as_columns(X)
        validate_data(self, X, reset=not resume, skip_check_array=True)
        self.n_features_in_ = len(columns)
        names = self._column_names()
        if resume:
            categories = self.categories_
        elif isinstance(self.categories, str) and self.categories == "auto":
            categories = find_categories(columns, names)
        else:
            categories = given_categories(self.categories, names)
        return encode(columns, categories, names), categories

    def _column_names(self):
        return list(getattr(self, "feature_names_in_", range(self.n_features_in_)))

    def _initial_energy(self, codes, categories):
        """Independent columns, as far as single tables reach."""
        names = getattr(self, "feature_names_in_", None)
        cliques = resolve_cliques(self.cliques, codes.shape[1], names)
        layout = Layout.build([len(c) for c in categories], cliques, self.tie)
        needed = 8.0 * COPIES * layout.n_parameters
        if needed > self.max_bytes:
            raise ValueError(
                f"Learning {layout.n_parameters} log-potentials needs about {needed:.4g} bytes, "
                f"more than max_bytes={self.max_bytes:.4g}. Use fewer or smaller cliques, merge "
                "rare categories, or raise max_bytes."
            )
        return FactorGraph.from_layout(layout, learning.independent_start(layout, codes, self.tie))

    def _split(self, data, rng):
        """Training rows, and held-out rows if early stopping is asked for."""
        if not self.early_stopping:
            return data, None
        n = len(data.X)
        n_held_out = max(1, round(self.validation_fraction * n))
        if n_held_out >= n:
            raise ValueError(
                f"early_stopping holds out rows, so it needs at least 2; got n_samples = {n}."
            )
        order = rng.permutation(n)
        parts = order[n_held_out:], order[:n_held_out]
        logs = data.log_weights
        return tuple(Batch(data.X[p], None, None if logs is None else logs[p]) for p in parts)

    def _settings(self, learner, energy, data, held_out, max_iter):
        complete = not (data.X == MISSING).any()
        solvable = learner.deterministic and (complete or learner.objective_takes_missing)
        penalty = learning.make_penalty(self.penalty, self.alpha, energy.penalty_groups())
        optimizer = learning.make_optimizer(self.optimizer, solvable, penalty, self.penalty)
        return learning.Settings(
            optimizer=optimizer,
            rate=learning.make_rate(self.learning_rate, optimizer),
            penalty=penalty,
            batch_size=self.batch_size,
            max_iter=max_iter,
            tol=self.tol,
            average=bool(self.average) and penalty.smooth,
            score=None if held_out is None else learning.held_out_score(energy.layout, held_out),
            patience=self.n_iter_no_change,
        )

    def _summary(self, state, categories, seed):
        """Fitted attributes of a state of the loop."""
        energy = state.result(self.average and self.penalty == "l2")
        return self._fitted(
            energy, categories, state.history.columns, state.epoch, state.converged, seed
        )

    @staticmethod
    def _fitted(energy, categories, history, n_iter, converged, seed):
        return {
            "energy_": energy,
            "categories_": categories,
            "history_": history,
            "n_iter_": n_iter,
            "converged_": bool(converged),
            "_seed": seed,
            "_cache": {},
        }

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

    def _log_partition(self):
        check_is_fitted(self)
        if "log_partition" not in self._cache:
            self._cache["log_partition"] = log_partition_bounds(
                self.energy_, max_bytes=self.max_bytes, random_state=self._seed, n_jobs=self.n_jobs
            )
        return self._cache["log_partition"]

    @property
    def log_partition_(self):
        """log Z in nats."""
        return self._log_partition().value

    @property
    def log_partition_interval_(self):
        """Lower and upper limit of log Z."""
        result = self._log_partition()
        return result.lower, result.upper

    @property
    def log_partition_method_(self):
        """How log Z was found: "exact" or "ais"."""
        return self._log_partition().method

    def _encode(self, X):
        check_is_fitted(self)
        columns = as_columns(X)
        validate_data(self, X, reset=False, skip_check_array=True)
        if len(columns) != self.n_features_in_:
            raise ValueError(
                f"X has {len(columns)} features, but {type(self).__name__} is expecting "
                f"{self.n_features_in_} features as input."
            )
        return encode(columns, self.categories_, self._column_names())

    def _rng(self):
        return np.random.default_rng(self._seed)

    def score_samples(self, X):
        """Normalised log-likelihood of the observed entries of every row, in nats.

        Parameters
        ----------
        X : array-like or frame of shape (n_samples, n_features)

        Returns
        -------
        ndarray of shape (n_samples,)
            ``log p(observed entries)``; missing entries are summed out.
        """
        codes = self._encode(X)
        log_z = self._log_partition().value
        return self._row_query(inference.row_log_partitions, codes) - log_z

    def _row_query(self, query, codes):
        return query(self.energy_, codes, max_bytes=self.max_bytes, rng=self._rng())

    def score(self, X, y=None):
        """Mean of :meth:`score_samples`."""
        return float(np.mean(self.score_samples(X)))

    def predict(self, X):
        """Rows with their missing entries filled by the joint mode given the observed ones.

        Returns
        -------
        ndarray of shape (n_samples, n_features)
            Categories; numeric where all columns are.
        """
        codes = self._encode(X)
        return decode(self._row_query(inference.row_modes, codes), self.categories_)

    def marginals(self, X):
        """Marginals of every column given the observed entries of each row.

        Returns
        -------
        list of ndarray of shape (n_samples, n_categories), one a column
            Observed entries have all their mass on their category.
        """
        return self._row_query(inference.row_marginals, self._encode(X))

    def sample(self, n_samples=1, *, given=None, random_state=None):
        """Draw rows.

        Parameters
        ----------
        n_samples : int, default=1
        given : dict, or array-like or frame of one or n_samples rows, optional
            What is observed: ``{column: category}``, or rows with nan or None elsewhere.
        random_state : int, RandomState, Generator or None

        Returns
        -------
        ndarray of shape (n_samples, n_features)
            Independent draws where elimination fits in memory, else states of Gibbs chains.
        """
        check_is_fitted(self)
        check_number("n_samples", n_samples, low=1, integer=True)
        codes = self._given_codes(given)
        if len(codes) not in (1, n_samples):
            raise ValueError(
                f"given has {len(codes)} rows; give one, or as many as n_samples={n_samples}."
            )
        if len(codes) == 1:
            codes = np.repeat(codes, n_samples, axis=0)
        rng = check_generator(random_state)
        drawn = inference.row_samples(self.energy_, codes, rng, max_bytes=self.max_bytes)
        return decode(drawn, self.categories_)

    def _given_codes(self, given):
        if given is None:
            return np.full((1, self.n_features_in_), MISSING, dtype=STATE)
        if not isinstance(given, dict):
            return self._encode(given)
        names = self._column_names()
        row = np.full((1, len(names)), None, dtype=object)
        for column, category in given.items():
            if column not in names:
                raise ValueError(f"given names column {column!r}; the columns are {names[:8]}.")
            row[0, names.index(column)] = category
        return encode(list(row.T), self.categories_, names)

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.input_tags.categorical = True
        tags.input_tags.string = True
        tags.input_tags.allow_nan = True
        return tags


@contextmanager
def _unchanged_on_error(estimator):
    """A fit that fails leaves the estimator as it was."""
    before = dict(vars(estimator))
    try:
        yield
    except BaseException:
        for name in ("n_features_in_", "feature_names_in_"):
            vars(estimator).pop(name, None)
            if name in before:
                vars(estimator)[name] = before[name]
        raise


def _logs(weights):
    return None if weights is None else np.log(weights)
