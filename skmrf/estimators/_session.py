"""Callbacks, checkpoint, random numbers and initial energy of one fit or partial_fit."""

from contextlib import contextmanager

import numpy as np
from sklearn.exceptions import ConvergenceWarning

from .._utils.parallel import parallel_jobs
from .._utils.parameters import check_generator
from .._utils.warn import warn_caller
from ..training import checkpoints, loop
from ..training import state as loop_state
from ..training.reports import EpochReports


class FitSession:
    """Callbacks, checkpoint, random numbers and initial energy of one ``fit`` or ``partial_fit``.

    An object of this class exists during one call only. It runs the training loop.

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
    energy : Energy or None
        Initial energy. If ``is_resumed``, it is that of the earlier fit; otherwise the estimator
        sets it. :meth:`train` releases it to save memory.
    rng : Generator
        Random numbers of training. :meth:`begin` sets it.
    seed : int
        Seed of the queries of the fitted model. :meth:`train` sets it.
    """

    def __init__(self, estimator, parameters, X, y=None, *, n_sub_estimators=0):
        self.parameters = parameters
        self.is_resumed = parameters.resumes(estimator)
        self.energy = self._previous = self._previous_seed = None
        if self.is_resumed:
            fitted = vars(estimator)
            self._previous, self._previous_seed = fitted.get("_loop_state"), fitted["_seed"]
            previous = self._previous
            self.energy = fitted["energy_"] if previous is None else previous.energy
        self._estimator, self._learner = estimator, None
        self._reports = EpochReports(estimator, X, y, parameters.max_iter, n_sub_estimators)
        self._checkpoint = estimator._checkpoint  # set by the callbacks
        self.is_interrupted = False  # Ctrl-C stopped the fit of a sub-estimator
        if parameters.is_partial:
            self._checkpoint = checkpoints.NoCheckpoint()

    @contextmanager
    def sub_estimator(self, name, sub_estimator):
        """Report the fit of a sub-estimator in this context to the callbacks.

        If Ctrl-C stops the fit of the sub-estimator, nothing is written to the checkpoint, and
        :meth:`train` keeps the initial values.
        """
        with self._reports.sub_estimator(name, sub_estimator):
            yield
        if vars(sub_estimator).get("_interrupted", False):
            self.is_interrupted = True
            self._checkpoint = checkpoints.NoCheckpoint()

    def begin(self, data, *encoding):
        """Set the random generator of training: a new one, or the saved one of a checkpoint.

        Parameters
        ----------
        data : Batch
            All training rows.
        *encoding
            Encoding of the rows. A checkpoint belongs to this fit if it has the same encoding,
            parameters, rows and initial energy.
        """
        epoch = 0 if self._previous is None else self._previous.epoch
        resumed_from = (self.energy.theta, epoch) if self.is_resumed else None
        form = checkpoints.describe_energy(self.energy)
        rng = check_generator(self.parameters.random_state)
        given = form, data, encoding, resumed_from
        self.rng = self._checkpoint.begin(rng, self._estimator, *given)

    def train(self, learner, data, settings, attributes):
        """Train the model: run the training loop, and return its final state.

        Parameters
        ----------
        learner : Learner
            Estimator of the gradient.
        data : Batch
            Training rows.
        settings : Settings
            Settings of the training loop.
        attributes : callable
            ``state -> dict``. It returns the fitted attributes for a state of the loop, for
            callbacks.

        Returns
        -------
        LoopState
            Final state.
        """
        self._learner, reports = learner, self._reports
        reports.summary, reports.checkpoint = attributes, self._checkpoint
        state = self._run(learner, data, settings)
        is_trained = state.epoch > state.start_epoch
        reports.finish((lambda: attributes(state)) if is_trained else None)
        return state

    def keep(self, settings, attributes, *, interrupted=False):
        """Return the final state of a fit without training, and report one epoch without updates.

        Parameters
        ----------
        settings : Settings
            Settings of the training loop.
        attributes : callable
            ``state -> dict``, as in :meth:`train`.
        interrupted : bool, default=False
            Whether Ctrl-C ended the preparation of the training.

        Returns
        -------
        LoopState
            Final state.
        """
        state = loop_state.untrained(self.energy, settings, self.rng, interrupted=interrupted)
        if interrupted:
            warn_caller(
                "Interrupted while alpha was chosen; the model is the best one so far. Call fit "
                "again with warm_start=False to compare all strengths.",
                ConvergenceWarning,
            )
        self.energy = self._previous = None
        self.seed = int(self.rng.integers(2**63))
        reports = self._reports
        reports.summary = attributes
        reports.begin()
        reports.end(state)
        reports.finish(lambda: attributes(state))
        return state

    def parallel(self):
        """Return a context in which blocks of Markov chains use ``n_jobs`` threads."""
        return parallel_jobs(self.parameters.n_jobs)

    def keep_interrupted(self, learner, data, settings, attributes):
        """Return the state of :meth:`keep` after Ctrl-C, with the parameters of :meth:`train`."""
        return self.keep(settings, attributes, interrupted=True)

    def _run(self, learner, data, settings):
        """Run the training loop; keep no reference to its first state, to save memory."""
        checkpoint = self._checkpoint
        self._set_first_state(learner, data, settings)
        if self.is_interrupted:
            warn_caller(
                "Interrupted before the parameters were learned; the model has their initial "
                "values. Call fit again to learn them.",
                ConvergenceWarning,
            )
            return loop_state.recover(self._release_first_state(), settings)
        if checkpoint.ended:
            return self._release_first_state()
        start_epoch = self._first_state.start_epoch
        with self.parallel():
            state = loop.run(
                learner, data, settings, self._release_first_state(), self._reports, start_epoch
            )
        if not state.interrupted:
            checkpoint.write(state, ended=True)
        return state

    def _set_first_state(self, learner, data, settings):
        """Set the first state of the training loop, and release the initial energy."""
        resumed = self._checkpoint.take_saved()
        if resumed is not None:
            self._first_state, self.seed = resumed
        elif self._previous is not None:
            self._first_state = loop_state.resume(self._previous, learner, data, settings)
            self.seed = self._previous_seed
        else:
            self._first_state = loop_state.start(self.energy, learner, data, settings, self.rng)
            self.seed = int(self.rng.integers(2**63))
        self._checkpoint.set_fixed(self.seed)
        self.energy = self._previous = None

    def _release_first_state(self):
        state, self._first_state = self._first_state, None
        return state

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
    ladder = None if learner is None else learner.ladder(learner_state)
    if ladder is None:
        return None
    return ladder.with_last(energy, ladder.states[-1]).compact()


def _compact_chains(learner, learner_state):
    """Return the last states of the Markov chains of a learner, or None if it has none."""
    X = None if learner is None else learner.chains(learner_state)
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
