"""Callbacks, checkpoint, random numbers and initial energy of one fit or partial_fit."""

from contextlib import contextmanager

import numpy as np
from sklearn.exceptions import ConvergenceWarning

from .._utils.parallel import parallel_jobs
from .._utils.parameters import check_generator
from .._utils.warn import warn_caller
from ..training import checkpoints
from ..training.data_moments import check_possible_rows
from ..training.reports import EpochReports
from ..training.state import untrained


class FitSession:
    """Callbacks, checkpoint, random numbers and initial energy of one ``fit`` or ``partial_fit``.

    An object of this class exists during one call only. The training loop,
    :func:`skmrf.training.loop.train`, reads and sets its attributes.

    Parameters
    ----------
    estimator : LearnedEstimator
        Estimator that is fitted.
    parameters : TrainingParameters
        Parameters of the estimator.
    X, y : array-like
        Training rows and targets.
    n_sub_estimators : int, default=0
        Number of estimators that are fitted before training.

    Attributes
    ----------
    is_resumed : bool
        Whether training continues from an earlier fit.
    is_interrupted : bool
        Whether Ctrl-C stopped the fit of a sub-estimator, so that the model is not trained.
    is_ended : bool
        Whether the checkpoint belongs to a fit that has ended.
    energy : Energy or None
        Initial energy. If ``is_resumed``, it is that of the earlier fit; otherwise the estimator
        sets it. :meth:`release_energy` sets it to None.
    previous : LoopState or None
        Final state of the earlier fit, if training continues from it.
    state : LoopState or None
        First state of this fit, until training begins.
    reports : EpochReports
        Reports of epochs to callbacks.
    rng : Generator
        Random numbers of training. :meth:`begin` sets it.
    seed : int or None
        Seed of the queries of the fitted model, once training has begun.
    rows_hash : str or None
        Hash of the training rows, if ``warm_start`` is True. None in ``partial_fit``.
    """

    def __init__(self, estimator, parameters, X, y=None, *, n_sub_estimators=0):
        self.parameters = parameters
        self.is_resumed = parameters.resumes(estimator)
        self.energy = self.previous = self.state = self.seed = self.rows_hash = None
        if self.is_resumed:
            fitted = vars(estimator)
            self.previous = fitted.get("_loop_state")
            self.energy = fitted["energy_"] if self.previous is None else self.previous.energy
        self._estimator, self._learner = estimator, None
        self.reports = EpochReports(estimator, X, y, parameters.max_iter, n_sub_estimators)
        self._checkpoint = estimator._checkpoint  # set by the callbacks
        self.is_interrupted = False
        if parameters.is_partial:
            self._checkpoint = checkpoints.NoCheckpoint()

    @contextmanager
    def sub_estimator(self, name, sub_estimator):
        """Report the fit of a sub-estimator in this context to the callbacks.

        If Ctrl-C stops the fit of the sub-estimator, nothing is written to the checkpoint, and
        training keeps the initial values.
        """
        with self.reports.sub_estimator(name, sub_estimator):
            yield
        if vars(sub_estimator).get("_interrupted", False):
            self.is_interrupted = True
            self._checkpoint = checkpoints.NoCheckpoint()

    def begin(self, data, *encoding):
        """Set the random generator of training: a new one, or the saved one of a checkpoint.

        It also identifies the rows, so that a later fit can compare its rows with them. Rows of
        probability zero under the model of an earlier fit raise a ValueError.

        Parameters
        ----------
        data : Batch
            All training rows.
        *encoding
            Encoding of the rows. A checkpoint belongs to this fit if it has the same encoding,
            parameters, rows and initial energy.
        """
        epoch = 0 if self.previous is None else self.previous.epoch
        resumed_from = (self.energy.theta, epoch) if self.is_resumed else None
        if self.is_resumed:
            check_possible_rows(self.energy, data)
        form = checkpoints.describe_energy(self.energy)
        if self.parameters.warm_start and not self.parameters.is_partial:
            self.rows_hash = checkpoints.hash_value(data)
        rng = check_generator(self.parameters.random_state)
        self.rng = self._checkpoint.begin(rng, self._estimator, form, data, encoding, resumed_from)

    def begin_training(self, learner, attributes):
        """Begin training; set the first state if it is that of a checkpoint.

        Parameters
        ----------
        learner : Learner
            Estimator of the gradient.
        attributes : callable
            ``state -> dict``. It returns the fitted attributes for a state of the loop, for
            callbacks.
        """
        self._learner = learner
        self.reports.summary, self.reports.checkpoint = attributes, self._checkpoint
        saved = self._checkpoint.take_saved()
        if saved is not None:
            self.state, self.seed = saved
        elif self.previous is not None:
            self.seed = vars(self._estimator)["_seed"]
        if self.is_interrupted:
            warn_caller(
                "Interrupted before the parameters were learned; the model has their initial "
                "values. Call fit again to learn them.",
                ConvergenceWarning,
            )

    @property
    def is_ended(self):
        """True if the checkpoint belongs to a fit that has ended."""
        return self._checkpoint.ended

    def release_energy(self):
        """Set the seed of queries, and keep no reference to the initial energy."""
        if self.seed is None:
            self.seed = int(self.rng.integers(2**63))
        self._checkpoint.set_fixed(self.seed)
        self.energy = self.previous = None

    def release_state(self):
        """Return the first state, and keep no reference to it, to save memory."""
        state, self.state = self.state, None
        return state

    def end_training(self, state):
        """Write the checkpoint of the final state, and report the end of the fit.

        Parameters
        ----------
        state : LoopState
            Final state.
        """
        if not (self.is_interrupted or self.is_ended or state.interrupted):
            self._checkpoint.write(state, ended=True)
        is_trained = state.epoch > state.start_epoch
        self.reports.finish((lambda: self.reports.summary(state)) if is_trained else None)

    def keep(self, settings, attributes, *, interrupted=False):
        """Return the final state of a fit without training, and report one epoch without updates.

        Parameters
        ----------
        settings : Settings
            Settings of the training loop.
        attributes : callable
            ``state -> dict``, as in :meth:`begin_training`.
        interrupted : bool, default=False
            Whether Ctrl-C ended the preparation of the training.

        Returns
        -------
        LoopState
            Final state.
        """
        state = untrained(self.energy, settings, self.rng, interrupted=interrupted)
        if interrupted:
            warn_caller(
                "Interrupted while alpha was chosen; the model is the best one so far. Call fit "
                "again with warm_start=False to compare all strengths.",
                ConvergenceWarning,
            )
        self.energy = self.previous = None
        self.seed = int(self.rng.integers(2**63))
        reports = self.reports
        reports.summary = attributes
        reports.begin()
        reports.end(state)
        reports.finish(lambda: attributes(state))
        return state

    def parallel(self):
        """Return a context in which blocks of Markov chains use ``n_jobs`` threads."""
        return parallel_jobs(self.parameters.n_jobs)

    def attributes(self, state):
        """Return the fitted attributes that all estimators have, from a state of training."""
        parameters = self.parameters
        energy = state.result(parameters.average and parameters.penalty == "l2")
        return fitted_attributes(
            energy,
            seed=self.seed,
            history=state.history.columns,
            n_iter=state.epoch,
            converged=state.converged,
        ) | {
            "_ladder": _compact_ladder(self._learner, state.learner, energy),
            "_chains": _compact_chains(self._learner, state.learner),
            "_loop_state": state if parameters.warm_start else None,
            "_interrupted": state.interrupted,
        }


def _compact_ladder(learner, learner_state, energy):
    """Return the ladder of a learner up to the fitted model, or None if it has none."""
    ladder = None if learner_state is None else learner.ladder(learner_state)
    if ladder is None:
        return None
    return ladder.with_last(energy, ladder.states[-1]).compact()


def _compact_chains(learner, learner_state):
    """Return the last states of the Markov chains of a learner, or None if it has none."""
    X = None if learner_state is None else learner.chains(learner_state)
    return None if X is None else X.astype(np.min_scalar_type(int(max(X.max(initial=0), 1))))


def fitted_attributes(energy, *, seed=0, history=None, n_iter=0, converged=True):
    """Return the fitted attributes that all estimators have, such as ``n_iter_``.

    Parameters
    ----------
    energy : Energy
        Fitted model.
    seed : int, default=0
        Seed of queries.
    history : dict of lists, optional
        Diagnostics of training.
    n_iter : int, default=0
        Number of epochs.
    converged : bool, default=True
        Whether training converged.

    Returns
    -------
    dict
        Attributes by name.
    """
    return {
        "energy_": energy,
        "history_": {} if history is None else history,
        "n_iter_": n_iter,
        "converged_": bool(converged),
        "_seed": seed,
        "_cache": {},
    }
