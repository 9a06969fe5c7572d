"""What all estimators that learn an energy share: the way from data to fitted attributes."""

from contextlib import contextmanager, nullcontext

import numpy as np
from joblib import parallel_config
from scipy.sparse import issparse
from sklearn.base import BaseEstimator, DensityMixin
from sklearn.callback import CallbackSupportMixin
from sklearn.utils.validation import check_is_fitted

from . import learning
from ._types import MISSING, STATE, Batch
from ._validation import check_generator, check_number, check_sample_weight
from .learners import LEARNERS, Learner
from .likelihood import log_partition_bounds

COPIES = 6  # arrays of parameters that learning holds at once


class EnergyEstimator(CallbackSupportMixin, DensityMixin, BaseEstimator):
    """Density of rows whose energy is learned by the loop of :mod:`skmrf.learning`.

    A subclass has the parameters ``learner, optimizer, learning_rate, penalty, alpha, batch_size,
    max_iter, tol, average, early_stopping, validation_fraction, n_iter_no_change, max_bytes,
    warm_start, n_jobs, random_state`` and whatever it needs besides, a ``fit`` and a
    ``partial_fit`` (decorated with ``sklearn.callback.with_callbacks``) that call :meth:`_learn`,
    and :meth:`score_samples`. It fills in:

    - :meth:`_encode_training` and :meth:`_initial_energy`, always, and for queries
      :meth:`_encode`, :meth:`_encode_given`, :meth:`_decode` and :meth:`_draw`;
    - :meth:`_learners`, :meth:`_copies`, :meth:`_facts`, :meth:`_held_out_score`,
      :meth:`_attributes`, :meth:`_seen` and :meth:`_annealing` where what is here does not suit it.

    Encoded data, called ``codes``, are an array of state codes, MISSING where nothing was
    observed, or a scipy CSR matrix of zeros and ones, in which nothing is missing.

    Attributes
    ----------
    energy_ : Energy
    history_ : dict of lists
    n_iter_ : int
    converged_ : bool
    """

    _doc_link_module = "skmrf"
    _doc_link_template = (
        "https://skmrf.readthedocs.io/en/stable/api/generated/skmrf.{estimator_name}.html"
    )

    def _encode_training(self, X, resume):
        """Codes of the training rows, and what it takes to decode states (or None).

        Sets ``n_features_in_`` and ``feature_names_in_``, or checks them if ``resume``.
        """
        raise NotImplementedError

    def _initial_energy(self, codes, decoding):
        """The energy that learning starts from."""
        raise NotImplementedError

    def _encode(self, X):
        """State codes of rows to ask about, MISSING where nothing was observed."""
        raise NotImplementedError

    def _encode_given(self, row):
        """The same of an object array of shape (1, n_features), None where not observed."""
        raise NotImplementedError

    def _decode(self, codes):
        """The rows that complete state codes stand for."""
        raise NotImplementedError

    def _draw(self, codes, rng):
        """Rows of codes with what is MISSING drawn given the rest."""
        raise NotImplementedError

    def _seen(self, energy, data, seed):
        """Fitted attributes that say something of the training rows (a Batch)."""
        return {}

    def _annealing(self):
        """Options of :func:`skmrf.likelihood.ais`, where log Z is not exact."""
        return {}

    def _learners(self):
        """Learners that this estimator takes: ``{name: class}``."""
        return LEARNERS

    def _copies(self):
        """How often the entries of an array of theta stand for one parameter, where not once."""
        return {}

    def _facts(self, energy, data):
        """What the training rows say of the gradient and of the maximum.

        Returns
        -------
        resolution : float
            Squared norm of a gradient that is too small to matter; 0 where it is not known.
        n_never : int
            Joint states of cliques that never occur, so that the maximum is at infinity.
        """
        return 0.0, 0

    def _held_out_score(self, energy, held_out):
        """``energy -> float``, a score of the held-out rows (a Batch) for early stopping."""
        raise NotImplementedError

    def _attributes(self, decoding):
        """Fitted attributes besides those that all estimators have."""
        return {}

    def _learn(self, X, sample_weight, *, partial=False):
        """Fit, or one more epoch if ``partial``."""
        with _unchanged_on_error(self):
            vars(self).update(self._learned(X, sample_weight, partial))
        return self

    def _learned(self, X, sample_weight, partial):
        """Fitted attributes."""
        learner = self._check_parameters()
        keep = partial or self.warm_start
        go_on = keep and "energy_" in vars(self)
        codes, decoding = self._encode_training(X, go_on)
        codes, weights = _counted_rows(codes, sample_weight)
        rng = check_generator(self.random_state)
        state = getattr(self, "_loop_state", None) if go_on else None
        energy = self._first_energy(state, go_on, codes, decoding)
        data, held_out = self._split(Batch(codes, None, _logs(weights)), rng, partial)
        max_iter = 1 if partial else self.max_iter
        settings = self._settings(learner, energy, data, held_out, max_iter)
        settings.resolution, n_never = self._facts(energy, data)
        seed = self._seed if state is not None else None
        if state is None:
            state = learning.start(energy, learner, data, settings, rng)
        else:
            state = learning.resume(state, learner, data, settings)
        seed = int(rng.integers(2**63)) if seed is None else seed

        def summary(state):
            fitted = self._summary(state, decoding, seed)
            return fitted | self._seen(fitted["energy_"], data, seed)

        reports = learning.EpochReports(self, X, max_iter, summary)
        with nullcontext() if self.n_jobs is None else parallel_config(n_jobs=self.n_jobs):
            state = learning.run(learner, data, settings, state, reports)
        reports.finish()
        if self.alpha == 0:
            learning.warn_unbounded(n_never)
        return summary(state) | {"_loop_state": state if keep else None}

    def _first_energy(self, state, go_on, codes, decoding):
        """Where learning goes on: from its state, or from a model whose state was not kept."""
        if state is not None:
            return state.energy
        return self.energy_ if go_on else self._initial_energy(codes, decoding)

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
        return self._check_learner()

    def _check_learner(self):
        """The learner, if this estimator takes it; classes from elsewhere are taken on trust."""
        known = self._learners()
        refused = {name: c for name, c in LEARNERS.items() if name not in known}
        learner = self.learner
        by_name = isinstance(learner, str)
        if learner in refused if by_name else type(learner) in refused.values():
            raise ValueError(
                f"{type(self).__name__} cannot take the learner {learner!r}; it takes one of "
                f"{sorted(known)} or an instance of a class behind these names."
            )
        if isinstance(learner, Learner):
            return learner
        if not by_name or learner not in known:
            raise ValueError(
                f"learner must be one of {sorted(known)} or an instance of a class of "
                f"skmrf.learners; got {learner!r}."
            )
        return known[learner]()

    def _check_memory(self, n_parameters, what, remedy):
        """Refuse to learn more parameters than ``max_bytes`` allows."""
        needed = 8.0 * COPIES * n_parameters
        if needed > self.max_bytes:
            raise ValueError(
                f"Learning {n_parameters} {what} needs about {needed:.4g} bytes, more than "
                f"max_bytes={self.max_bytes:.4g}. {remedy}"
            )

    def _column_names(self):
        return list(getattr(self, "feature_names_in_", range(self.n_features_in_)))

    def _split(self, data, rng, partial):
        """Training rows, and held-out rows if early stopping is asked for (of whole fits)."""
        if partial or not self.early_stopping:
            return data, None
        n = data.X.shape[0]
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
        complete = issparse(data.X) or not (data.X == MISSING).any()
        solvable = learner.deterministic and (complete or learner.objective_takes_missing)
        groups, copies = energy.penalty_groups(), self._copies()
        penalty = learning.make_penalty(self.penalty, self.alpha, groups, copies)
        optimizer = learning.make_optimizer(self.optimizer, solvable, penalty, self.penalty)
        return learning.Settings(
            optimizer=optimizer,
            rate=learning.make_rate(self.learning_rate, optimizer),
            penalty=penalty,
            batch_size=self.batch_size,
            max_iter=max_iter,
            tol=self.tol,
            average=bool(self.average) and penalty.smooth,
            score=None if held_out is None else self._held_out_score(energy, held_out),
            patience=self.n_iter_no_change,
            copies=copies,
        )

    def _summary(self, state, decoding, seed):
        """Fitted attributes of a state of the loop."""
        energy = state.result(self.average and self.penalty == "l2")
        return self._fitted(
            energy, decoding, state.history.columns, state.epoch, state.converged, seed
        )

    def _fitted(self, energy, decoding, history, n_iter, converged, seed):
        return {
            "energy_": energy,
            **self._attributes(decoding),
            "history_": history,
            "n_iter_": n_iter,
            "converged_": bool(converged),
            "_seed": seed,
            "_cache": {},
        }

    def _log_partition(self):
        check_is_fitted(self)
        if "log_partition" not in self._cache:
            self._cache["log_partition"] = log_partition_bounds(
                self.energy_,
                max_bytes=self.max_bytes,
                random_state=self._seed,
                n_jobs=self.n_jobs,
                **self._annealing(),
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

    def _rng(self):
        """The same random numbers for every query."""
        return np.random.default_rng(self._seed)

    def sample(self, n_samples=1, *, given=None, random_state=None):
        """Draw rows.

        Parameters
        ----------
        n_samples : int, default=1
        given : dict, or array-like or frame of one or n_samples rows, optional
            What is observed: ``{column: value}``, or rows with nan or None elsewhere.
        random_state : int, RandomState, Generator or None

        Returns
        -------
        ndarray of shape (n_samples, n_features)
            Independent draws where exact inference fits in memory. Else, and of models with hidden
            units, states of Gibbs chains after 1000 sweeps, half of them tempered, which approach
            the distribution as they mix.
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
        return self._decode(self._draw(codes, check_generator(random_state)))

    def _given_codes(self, given):
        if given is None:
            return np.full((1, self.n_features_in_), MISSING, dtype=STATE)
        if not isinstance(given, dict):
            return self._encode(given)
        names = self._column_names()
        row = np.full((1, len(names)), None, dtype=object)
        for column, value in given.items():
            if column not in names:
                raise ValueError(f"given names column {column!r}; the columns are {names[:8]}.")
            row[0, names.index(column)] = value
        return self._encode_given(row)

    def score(self, X, y=None):
        """Mean of :meth:`score_samples`."""
        return float(np.mean(self.score_samples(X)))


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


def _counted_rows(codes, sample_weight):
    """Rows of positive weight, and their weights (or None)."""
    weights = check_sample_weight(sample_weight, codes.shape[0])
    if weights is None:
        return codes, None
    return codes[weights > 0], weights[weights > 0]


def _logs(weights):
    return None if weights is None else np.log(weights)
