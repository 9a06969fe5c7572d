"""One call of fit or partial_fit."""

from contextlib import nullcontext

from joblib import parallel_config

from .._utils.randomness import check_generator
from ..training import checkpoints, loop
from ..training import state as loop_state
from ..training.reports import EpochReports


class FitSession:
    """One call of fit or partial_fit of an estimator.

    It holds what such a call has besides rows and parameters: the callbacks, the checkpoint, the
    random numbers, and the energy at which training starts.

    Parameters
    ----------
    estimator : estimator that scikit-learn's callbacks can be set of
    parameters : TrainingParameters
    X, y : array-like
        What the estimator is fitted to.
    n_sub_estimators : int, default=0
        Number of estimators that are fitted before training.

    Attributes
    ----------
    is_resumed : bool
        Whether training continues from an earlier fit.
    energy : Energy or None
        Where training starts. It is known from the beginning if ``is_resumed``, else the estimator
        sets it. :meth:`train` releases it, so that initial values take no memory in training.
    rng : Generator
        Random numbers of training, from :meth:`begin` on.
    seed : int
        Seed of the queries of the fitted model, from :meth:`train` on.
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
        self._estimator = estimator
        self._reports = EpochReports(estimator, X, y, parameters.max_iter, n_sub_estimators)
        self._checkpoint = estimator._checkpoint  # set up by the callbacks
        if parameters.is_partial:
            self._checkpoint = checkpoints.NoCheckpoint()

    def fit_sub_estimator(self, name, sub_estimator, sample_weight):
        """Fit an estimator to the same rows before training, and return it.

        After Ctrl-C in its fit nothing is written to the checkpoint.
        """
        fitted = self._reports.fit(name, sub_estimator, sample_weight)
        if vars(fitted).get("_interrupted", False):
            self._checkpoint = checkpoints.NoCheckpoint()
        return fitted

    def begin(self, data, *encoding):
        """Set the random numbers of training: those of a checkpoint that is continued, or new ones.

        Parameters
        ----------
        data : Batch
            All training rows.
        *encoding
            How the rows were encoded. Together with the parameters, the rows and the initial
            energy it identifies the fit that a checkpoint belongs to.
        """
        epoch = 0 if self._previous is None else self._previous.epoch
        resumed_from = (self.energy.theta, epoch) if self.is_resumed else None
        form = checkpoints.form_of(self.energy)
        rng = check_generator(self.parameters.random_state)
        given = form, data, encoding, resumed_from
        self.rng = self._checkpoint.begin(rng, self._estimator, *given)

    def train(self, learner, data, settings, attributes):
        """Train, and return the last state of the loop.

        Parameters
        ----------
        learner : Learner
        data : Batch
            The training rows.
        settings : Settings
        attributes : callable
            ``state -> dict``, the fitted attributes of a state of the loop, for callbacks.

        Returns
        -------
        LoopState
        """
        reports = self._reports
        reports.summary, reports.checkpoint = attributes, self._checkpoint
        state = self._run(learner, data, settings)
        is_trained = state.epoch > state.began
        reports.finish((lambda: attributes(state)) if is_trained else None)
        return state

    def _run(self, learner, data, settings):
        """Run the loop from the first state, which no caller of the loop refers to."""
        checkpoint, n_jobs = self._checkpoint, self.parameters.n_jobs
        self._set_first_state(learner, data, settings)
        if checkpoint.ended:
            return self._release_first_state()
        began = self._first_state.began
        with nullcontext() if n_jobs is None else parallel_config(n_jobs=n_jobs):
            state = loop.run(
                learner, data, settings, self._release_first_state(), self._reports, began
            )
        if not state.interrupted:
            checkpoint.write(state, ended=True)
        return state

    def _set_first_state(self, learner, data, settings):
        """Start or resume training, and release the initial energy."""
        resumed = self._checkpoint.resumed()
        if resumed is not None:
            self._first_state, self.seed = resumed
        elif self._previous is not None:
            self._first_state = loop_state.resume(self._previous, learner, data, settings)
            self.seed = self._previous_seed
        else:
            self._first_state = loop_state.start(self.energy, learner, data, settings, self.rng)
            self.seed = int(self.rng.integers(2**63))
        self._checkpoint.keep(self.seed)
        self.energy = self._previous = None

    def _release_first_state(self):
        state, self._first_state = self._first_state, None
        return state

    def attributes(self, state):
        """Return the fitted attributes that all estimators have, of a state of the loop."""
        parameters = self.parameters
        energy = state.result(parameters.average and parameters.penalty == "l2")
        return fitted_attributes(
            energy,
            seed=self.seed,
            history=state.history.columns,
            n_iter=state.epoch,
            converged=state.converged,
        ) | {
            "_loop_state": state if parameters.warm_start else None,
            "_interrupted": state.interrupted,
        }


def fitted_attributes(energy, *, seed=0, history=None, n_iter=0, converged=True):
    """Return the fitted attributes that all estimators have.

    Parameters
    ----------
    energy : Energy
    seed : int
        Of the random numbers of queries.
    history : dict of lists, optional
    n_iter : int
        Epochs.
    converged : bool

    Returns
    -------
    dict
    """
    return {
        "energy_": energy,
        "history_": {} if history is None else history,
        "n_iter_": n_iter,
        "converged_": bool(converged),
        "_seed": seed,
        "_cache": {},
    }
