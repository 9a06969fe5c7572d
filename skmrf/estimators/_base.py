"""What all estimators that learn by the loop share: the way from data to fitted attributes."""

from contextlib import contextmanager, nullcontext
from functools import partial as partial_of

import numpy as np
from joblib import parallel_config
from sklearn.base import BaseEstimator
from sklearn.callback import CallbackSupportMixin

from .. import training
from .._utils.log_weights import check_sample_weight
from .._utils.parameters import check_flag, check_number
from .._utils.randomness import check_generator
from ..energies import Energy
from ..learners import Learner
from ..learners.base import has_missing
from ..learners.registry import make_learner

COPIES = 6  # arrays of parameters that learning holds at once


class LearnedEstimator(CallbackSupportMixin, BaseEstimator):
    """An estimator whose energy is learned by the loop of :mod:`skmrf.training`.

    A subclass has the parameters ``learner, optimizer, learning_rate, penalty, alpha, batch_size,
    max_iter, tol, average, early_stopping, validation_fraction, n_iter_no_change, max_bytes,
    warm_start, n_jobs, random_state`` and whatever it needs besides, a ``fit`` and a
    ``partial_fit`` (decorated with ``sklearn.callback.with_callbacks``) that call :meth:`_learn`.
    It fills in:

    - :meth:`_encode_training` and :meth:`_initial_energy`, always;
    - :meth:`_firsts`, :meth:`_prepare`, :meth:`_encode_validation`, :meth:`_facts`,
      :meth:`_held_out_score`, :meth:`_attributes` and
      :meth:`_seen` where what is here does not suit it.

    Attributes
    ----------
    energy_ : Energy
    history_ : dict of lists
    n_iter_ : int
    converged_ : bool
    """

    _checkpoint = training.NoCheckpoint()  # a callback puts another one here during a fit
    _energy_type = Energy  # of the energies that it learns
    _learner_kind = Learner  # what its learners must be besides
    _auto_optimizer = "auto"  # what optimizer="auto" stands for, of those that the loop knows
    _doc_link_module = "skmrf"
    _doc_link_template = (
        "https://skmrf.readthedocs.io/en/stable/api/generated/skmrf.{estimator_name}.html"
    )

    def _encode_training(self, X, y, resume):
        """The training rows as a :class:`Batch`, and what it takes to decode states (or None).

        The batch has neither weights nor row numbers; its ``Y`` are the encoded targets of a
        conditional model, else None. Sets ``n_features_in_`` and ``feature_names_in_``, or checks
        them if ``resume``.
        """
        raise NotImplementedError

    def _firsts(self):
        """Estimators to fit to the rows before all else, by the attributes that they become."""
        return {}

    def _prepare(self, data, decoding, resume):
        """The training rows that count, and ``decoding``, after what is done to them by weight."""
        return data, decoding

    def _encode_validation(self, X, y, decoding):
        """Held-out rows of a conditional model as a :class:`Batch`."""
        raise NotImplementedError

    def _initial_energy(self, data, decoding):
        """The energy that learning starts from; ``data`` are all training rows (a Batch)."""
        raise NotImplementedError

    def _seen(self, energy, data, seed):
        """Fitted attributes that say something of the training rows (a Batch)."""
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
        """``(energy, state) -> float``, a score of the held-out rows for early stopping.

        ``state`` is the :class:`~skmrf.training.LoopState` after an epoch.
        """
        raise NotImplementedError

    def _attributes(self, decoding):
        """Fitted attributes besides those that all estimators have."""
        return {}

    def _learn(self, X, sample_weight, *, y=None, partial=False, validation=None):
        """Fit, or one more epoch if ``partial``.

        ``y`` are the targets of a conditional model, ``validation`` a pair (X, y) of held-out rows.
        """
        with _unchanged_on_error(self):
            vars(self).update(self._learned(X, y, sample_weight, partial, validation))
        return self

    def _learned(self, X, y, sample_weight, partial, validation):
        """Fitted attributes."""
        learner = self._check_parameters()
        keep = partial or self.warm_start
        go_on = keep and "energy_" in vars(self)
        max_iter = 1 if partial else self.max_iter
        firsts = {} if go_on else self._firsts()
        reports = training.EpochReports(self, X, y, max_iter, len(firsts))
        for name, first in firsts.items():
            vars(self)[name] = reports.fit(name.strip("_"), first, sample_weight)
        data, decoding = self._encode_training(X, y, go_on)
        data, decoding = self._prepare(_counted_rows(data, sample_weight), decoding, go_on)
        kept = getattr(self, "_loop_state", None) if go_on else None
        energy = self._first_energy(kept, go_on, data, decoding)
        cut_short = any(getattr(first, "_interrupted", False) for first in firsts.values())
        checkpoint = training.NoCheckpoint() if partial or cut_short else self._checkpoint
        rng = check_generator(self.random_state)
        went_on_from = (energy.theta, 0 if kept is None else kept.epoch) if go_on else None
        form = training.form_of(energy)
        rng = checkpoint.begin(rng, self, form, data, decoding, went_on_from)
        if validation is None:
            data, held_out = self._split(data, rng, partial)
        else:
            held_out = self._encode_validation(*validation, decoding)
        settings = self._settings(learner, energy, data, held_out, max_iter)
        settings.resolution, n_never = self._facts(energy, data)
        settings.complete = not partial
        start = partial_of(self._started, kept, energy, learner, data, settings, rng)
        state, seed = checkpoint.first(start)
        first = [state]
        # parameters that learning leaves behind are not to be kept
        del energy, kept, went_on_from, start, state

        def summary(state):
            fitted = self._summary(state, decoding, seed)
            return fitted | self._seen(fitted["energy_"], data, seed)

        reports.summary, reports.checkpoint = summary, checkpoint
        state = self._run(checkpoint, learner, data, settings, first, reports)
        reports.finish((lambda: summary(state)) if state.epoch > state.began else None)
        if self.alpha == 0:
            training.warn_unbounded(n_never)
        kept = state if keep else None
        return summary(state) | {"_loop_state": kept, "_interrupted": state.interrupted}

    def _first_energy(self, state, go_on, data, decoding):
        """Where learning goes on: from its state, or from a model whose state was not kept."""
        if state is not None:
            return state.energy
        return self.energy_ if go_on else self._initial_energy(data, decoding)

    def _started(self, kept, energy, learner, data, settings, rng):
        """The state of the loop to begin with, and the seed of queries."""
        if kept is not None:
            return training.resume(kept, learner, data, settings), self._seed
        state = training.start(energy, learner, data, settings, rng)
        return state, int(rng.integers(2**63))

    def _run(self, checkpoint, learner, data, settings, first, reports):
        """The last state of the loop; ``first`` is a list of the first one, which is taken out."""
        if checkpoint.ended:
            return first.pop()
        began = first[0].began
        with nullcontext() if self.n_jobs is None else parallel_config(n_jobs=self.n_jobs):
            state = training.run(learner, data, settings, first.pop(), reports, began)
        if not state.interrupted:
            checkpoint.write(state, ended=True)
        return state

    def _check_parameters(self):
        """Check what needs no data; return the learner."""
        check_flag("average", self.average)
        check_flag("warm_start", self.warm_start)
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
        """The learner, if this estimator takes it."""
        return make_learner(
            self.learner, self._energy_type, kind=self._learner_kind, owner=type(self).__name__
        )

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
        return tuple(data.take(p) for p in parts)

    def _settings(self, learner, energy, data, held_out, max_iter):
        missing = has_missing(data.shown)
        solvable = learner.deterministic and (learner.objective_takes_missing or not missing)
        groups, copies = energy.penalty_groups(), energy.multiplicity
        penalty = training.make_penalty(self.penalty, self._strength(data), groups, copies)
        name = self._auto_optimizer if self.optimizer == "auto" else self.optimizer
        optimizer = training.make_optimizer(name, solvable, penalty, self.penalty)
        return training.Settings(
            optimizer=optimizer,
            rate=training.make_rate(self.learning_rate, optimizer),
            penalty=penalty,
            batch_size=self.batch_size,
            max_iter=max_iter,
            tol=self.tol,
            average=bool(self.average) and penalty.smooth,
            score=None if held_out is None else self._held_out_score(energy, held_out),
            patience=self.n_iter_no_change,
            multiplicity=copies,
        )

    def _strength(self, data):
        """Strength of the penalty."""
        return self.alpha

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

    def _rng(self):
        """The same random numbers for every query."""
        return np.random.default_rng(self._seed)


@contextmanager
def unchanged_on_error(estimator):
    """Restore what a fit has set on the estimator if the fit fails."""
    before = dict(vars(estimator))
    try:
        yield
    except BaseException:
        for name in ("n_features_in_", "feature_names_in_", "structure_"):
            vars(estimator).pop(name, None)
            if name in before:
                vars(estimator)[name] = before[name]
        raise


_unchanged_on_error = unchanged_on_error


def _counted_rows(data, sample_weight):
    """Rows of positive weight, with their weights."""
    weights = check_sample_weight(sample_weight, data.X.shape[0])
    if weights is None:
        return data
    counted = weights > 0
    return data.take(counted)._replace(log_weights=np.log(weights[counted]))
