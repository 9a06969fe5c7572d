"""Training of conditional models with hidden units, initialised by logistic regressions."""

from dataclasses import dataclass, replace

import numpy as np

from .._utils.namespaces import is_numpy
from .._utils.rows import dense_rows, sample_weights
from ..training import AdaptiveRate, logistic_start, loop
from ..training.data_moments import effective_rows
from ..training.logistic_start import PenalizedSolver, add_idle_units, positive_eigenvectors
from ..training.reports import SilentReports
from ..training.settings import Settings

MIN_PATIENCE = 2000  # updates without a better score
FIRST_RATES = {"sgd": 0.1, "momentum": 0.01, "adam": 0.001}
TALL = 10_000  # training rows, from which a trial on as many rows precedes training
TALL_RATE = 0.3  # first rate of SGD with as many rows
INPUTS_PER_ROW = 5  # of a minibatch; with more inputs, the larger rate is unstable
WINDOW, COSINE, N_HALVINGS = 1000, 0.0, 3
N_WINDOWS = 9  # the four windows of the schedule are as long as 8.1 first windows
RECENCY = 8.0
EPOCHS = 5, 1000  # limits of the number of epochs if max_iter is None
CONVERGED_SHARE = 0.5  # a smaller share of converged inference raises a warning
MAX_ENTRIES = 2**23  # of the rows of a memory map that are used in memory
WIDE = 4  # inputs per row, above which training uses coordinates in the span of the rows
N_ERRORS = 2.0  # standard errors by which hidden units must improve the held-out loss
TRIAL_ERRORS = 1.0  # the same in a trial


def is_auto(value):
    """Return whether the value of a parameter is "auto"."""
    return isinstance(value, str) and value == "auto"


def is_automatic(parameters):
    """Return whether the strength of the penalty and early stopping are both "auto"."""
    return is_auto(parameters.alpha) and is_auto(parameters.early_stopping)


def rows_in_memory(data):
    """Return random rows of a memory map, or all if they are few; return other rows unchanged."""
    if not data.is_mapped:
        return data
    n_rows = data.X.shape[0]
    size = max(2, MAX_ENTRIES // (data.X.shape[1] + data.Y.shape[1]))
    if n_rows <= size:
        return data.take(slice(None))
    rng = np.random.default_rng(0)  # the same rows in each part of a fit
    return data.take(np.sort(rng.permutation(n_rows)[:size]))


class MappedSolver(PenalizedSolver):
    """Solver of penalised logistic regressions for the rows of a memory map.

    The solver finds the solution for some rows in memory. It starts at this solution to find that
    of all rows, which are read in blocks.

    Parameters
    ----------
    data : Batch
        Training rows: inputs ``X`` and targets ``Y``.
    penalty : {"l2", "l1", "elasticnet", "group-l1"}
        Penalty on the weights.
    light : bool, default=False
        Whether the weight of the strongest input of each output has a weaker penalty.
    """

    def __init__(self, data, penalty, light=False):
        super().__init__(data, penalty)
        rows = rows_in_memory(data)
        self.has_all_rows = rows.X.shape[0] == data.X.shape[0]
        self.first = logistic_start.make_solver(rows, penalty, light)
        self.strongest = self.first.strongest

    def begin_at(self, energy):
        """Set the initial solution to the weights of a model without hidden units."""
        self.first.begin_at(energy)

    def solve(self, alpha):
        """Return the model without hidden units."""
        self.energy = self.first.solve(alpha)
        return self.energy if self.has_all_rows else super().solve(alpha)


def _make_solver(data, penalty, light=False):
    make = MappedSolver if data.is_mapped else logistic_start.make_solver
    return make(data, penalty, light)


def check_same_size(energy, n_hidden):
    """Raise a ValueError unless a learned energy has ``n_hidden`` hidden units."""
    learned = energy.weights.shape[1]
    if learned != n_hidden:
        raise ValueError(
            f"Training cannot continue with {n_hidden} hidden units, because the previous fit "
            f"has {learned}. Start anew with fit and warm_start=False."
        )


def first_energy(data, n_hidden, parameters):
    """Return an energy in which the outputs depend neither on inputs nor on hidden units.

    It raises a ValueError if learning needs more memory than ``max_bytes``.
    """
    n_inputs, n_visible = data.X.shape[1], data.Y.shape[1]
    parameters.check_memory(
        n_visible * n_hidden + n_inputs * (4 * n_visible + n_hidden),  # solver of the start
        "weights",
        "Use fewer n_components or features, or raise max_bytes.",
    )
    return add_idle_units(logistic_start.independent_outputs(data), n_hidden)


@dataclass(frozen=True)
class RowSpan:
    r"""Coordinates of inputs in the linear span of the training rows, or the inputs themselves.

    If there are many more inputs than rows, an update takes much less time in these coordinates.
    SGD with an L2 penalty has the same iterates, because the gradients by the weights of inputs lie
    in the span, and because lengths and angles do not change. Only the initial random weights of
    hidden units have a part outside of the span. This part does not change the training rows, and
    becomes zero.

    The coordinates of an input :math:`x` are :math:`(X X^\top)^{-1/2} X x`. In contrast to those
    of eigenvectors, they have no arbitrary signs, which could change when a fit is resumed.

    Parameters
    ----------
    X : ndarray or sparse matrix of shape (n_rows, n_inputs), optional
        Training rows. By default the inputs themselves are used.
    root : ndarray of shape (n_rows, n_rows), optional
        Inverse square root of the matrix of inner products of the rows.
    """

    X: object = None
    root: np.ndarray | None = None

    @classmethod
    def of(cls, parameters, first, energy, data, held_out):
        """Return the coordinates in which training is quicker and has the same result.

        Parameters
        ----------
        parameters : TrainingParameters
            Parameters of the estimator.
        first : LogisticStart
            Logistic regressions at which training starts.
        energy : ConditionalBipartiteEnergy
            Initial energy.
        data : Batch
            Training rows.
        held_out : Batch or None
            Held-out rows.

        Returns
        -------
        RowSpan
            Coordinates in the span if the inputs are many, also against the time and the memory of
            the matrix of inner products. Otherwise the inputs themselves.
        """
        n_rows, n_inputs = data.X.shape
        n_weights = energy.theta["hidden_inputs"].size
        is_wide = WIDE * n_rows <= n_inputs and WIDE * n_rows**2 <= n_weights
        is_invariant = parameters.has_default_steps and first.strongest is None
        is_invariant = is_invariant and is_numpy(data.X)
        is_mapped = any(rows is not None and rows.is_mapped for rows in (data, held_out))
        if not (is_wide and is_invariant) or is_mapped or parameters.warm_start:
            return cls()  # warm_start keeps the state of training, for later fits to other rows
        X = data.X.astype(float, copy=False)
        values, vectors = positive_eigenvectors(dense_rows(X @ X.T))
        return cls(X, (vectors / np.sqrt(values)) @ vectors.T)

    def rows(self, batch):
        """Return a batch with the coordinates of its inputs; return None for no batch."""
        if self.X is None or batch is None:
            return batch
        return batch._replace(X=dense_rows(batch.X @ self.X.T) @ self.root)

    def project(self, energy):
        """Return an energy of coordinates from an energy of inputs."""
        return self._convert(energy, lambda weights: self.root @ (self.X @ weights))

    def lift(self, energy):
        """Return an energy of inputs from an energy of coordinates."""
        return self._convert(energy, lambda weights: self.X.T @ (self.root @ weights))

    def _convert(self, energy, function):
        if self.X is None:
            return energy
        theta = dict(energy.theta)
        for name in ("visible_inputs", "hidden_inputs"):
            theta[name] = function(theta[name]).astype(theta[name].dtype)
        return energy.with_theta(theta)


@dataclass(frozen=True)
class LogisticStart:
    """Logistic regressions at which training starts, and the strength of their penalty.

    Attributes
    ----------
    alpha : float
        Strength of the penalty of the logistic regressions.
    hidden_alpha : float
        Strength of the penalty in the training of hidden units.
    path : dict of str to ndarray, or None
        "alphas", strengths, and "losses", their held-out log-losses. None if the strength was
        given.
    energy : ConditionalBipartiteEnergy or None
        Logistic regression of each output. None if training continues from an earlier fit.
    strongest : ndarray of int of shape (n_outputs,) or None
        Index of the input of each output whose weight is penalised less. None if the penalty is the
        same for all weights.
    """

    alpha: float
    hidden_alpha: float
    path: dict | None = None
    energy: object = None
    strongest: np.ndarray | None = None

    @classmethod
    def of(cls, alpha, penalty, rows, data, rng):
        """Choose the strength of the penalty, and fit the logistic regressions.

        Parameters
        ----------
        alpha : float or "auto"
            Strength of the penalty. "auto" chooses it by cross-validation, and chooses whether the
            weight of the strongest input of each output is penalised less.
        penalty : {"l2", "l1", "elasticnet", "group-l1"}
            Penalty on the weights.
        rows : Batch
            All rows, for cross-validation.
        data : Batch
            Training rows.
        rng : Generator
            Random numbers that divide the rows into folds.

        Returns
        -------
        LogisticStart
            Strength of the penalty and logistic regressions.
        """
        if not is_auto(alpha):
            solver = _make_solver(data, penalty)
            return cls(float(alpha), float(alpha), None, solver.solve(float(alpha)))
        few = rows_in_memory(rows)
        share = effective_rows(few) / effective_rows(rows)
        found, hidden_alpha = logistic_start.choose_penalty(few, penalty, rng)
        solver = _make_solver(data, penalty, found.light)
        path = {"alphas": share * found.alphas, "losses": found.losses}
        first = solver.solve(share * found.best)
        return cls(share * found.best, share * hidden_alpha, path, first, solver.strongest)

    def strength(self, learner):
        """Return the strength of the penalty in training by a learner."""
        return self.hidden_alpha if learner.has_hidden else self.alpha

    def refit(self, penalty, data):
        """Fit the logistic regressions to other rows, with the same penalty, and return them."""
        light = self.strongest is not None
        solver = _make_solver(data, penalty, light)
        solver.begin_at(self.energy)
        return solver.solve(self.alpha)

    def settings(self, parameters, learner, energy, data, score):
        """Return the settings of the training loop.

        Parameters
        ----------
        parameters : TrainingParameters
            Parameters of the estimator.
        learner : ConditionalLearner
            Estimator of the gradient.
        energy : ConditionalBipartiteEnergy
            Initial energy.
        data : Batch
            Training rows.
        score : callable or None
            Score of held-out rows.

        Returns
        -------
        Settings
            Settings with the penalty of the logistic regressions.
        """
        alpha = self.strength(learner)
        n, batch_size = data.X.shape[0], parameters.batch_size
        least, most = (epochs * -(-n // batch_size) for epochs in EPOCHS)
        max_updates = int(np.clip(Settings.max_updates, least, most))
        settings = parameters.settings(
            learner,
            energy,
            data,
            alpha=alpha,
            default_optimizer="sgd",
            recency=RECENCY,
            patience=max(parameters.n_iter_no_change, -(-MIN_PATIENCE * batch_size // n)),
            max_updates=max_updates,
            converged_share=CONVERGED_SHARE,
            score=score,
        )
        if self.strongest is not None and parameters.penalty == "l2":
            strengths = logistic_start.input_strengths(alpha, self.strongest, data)
            settings.penalty.set_strengths("visible_inputs", strengths)
        if parameters.has_default_rate(settings.optimizer):
            is_tall = n >= TALL and data.X.shape[1] <= INPUTS_PER_ROW * batch_size
            rate = _adaptive_rate(settings.optimizer, max_updates, is_tall)
            settings = replace(settings, rate=rate)
        return settings

    def try_hidden_units(self, session, inference, parameters, data, held_out):
        """Try hidden units on some rows of a tall table; return whether to train them on all rows.

        With held-out rows, at least 10000 training rows and ``max_iter=None``, hidden units are
        first trained on 10000 of these rows, until they are promising or until their held-out score
        no longer improves. If they are promising, training starts at the result of this trial, the
        new energy of the session.

        Parameters
        ----------
        session : FitSession
            Fit, with its initial energy.
        inference : OutputInference
            Inference of the outputs.
        parameters : TrainingParameters
            Parameters of the estimator.
        data : Batch
            Training rows.
        held_out : Batch or None
            Held-out rows.

        Returns
        -------
        bool
            False if hidden units are not promising, or if there are too few rows to compare them.
            True after Ctrl-C; the session is then interrupted.
        """
        if held_out is None:
            return not is_automatic(parameters)
        if parameters.max_iter is not None or data.X.shape[0] < TALL:
            return True
        rng = session.rng.spawn(1)[0]
        data = data.take(np.sort(rng.permutation(data.X.shape[0])[:TALL]))
        trial, learner = Trial(self, inference, held_out), inference.learner
        score = inference.score(held_out)
        settings = self.settings(parameters, learner, session.energy, data, score)
        settings = replace(settings, complete=False, interruptible=False, converged_share=0.0)
        state = loop.start(session.energy, learner, data, settings, rng)
        try:
            with session.parallel():
                state = loop.run(learner, data, settings, state, trial)
        except KeyboardInterrupt:
            session.is_interrupted = True
            return True
        session.energy = state.result()
        return trial.is_promising

    def check_hidden_units(self, inference, fitted, rows, held_out, penalty):
        """Return fitted attributes: of logistic regressions if hidden units do not help.

        Parameters
        ----------
        inference : OutputInference
            Inference of the outputs.
        fitted : dict
            Attributes of the trained estimator.
        rows : Batch
            Rows of the returned logistic regressions.
        held_out : Batch
            Held-out rows.
        penalty : {"l2", "l1", "elasticnet", "group-l1"}
            Penalty on the weights.

        Returns
        -------
        dict
            Attributes of the trained estimator. If hidden units do not help, the energy is that of
            the logistic regressions: all weights of hidden units are zero.
        """
        energy = fitted["energy_"]
        if self.is_better(inference, energy, fitted["_epoch"], held_out):
            return fitted
        logistic = add_idle_units(self.refit(penalty, rows), energy.weights.shape[1])
        return fitted | {"energy_": logistic, "alpha_": self.alpha}

    def is_better(self, inference, trained, epoch, held_out, n_errors=N_ERRORS):
        """Return whether a model with hidden units predicts held-out rows better.

        It is compared with the logistic regressions, and with the same model without hidden units.

        Parameters
        ----------
        inference : OutputInference
            Inference of the outputs.
        trained : ConditionalBipartiteEnergy
            Model with hidden units.
        epoch : int
            Epoch of this model.
        held_out : Batch
            Held-out rows.
        n_errors : float, default=2.0
            Number of standard errors.

        Returns
        -------
        bool
            True if the share of wrong outputs is not larger, the mean log-loss is not larger by
            more than one standard error, and one of the two is smaller by more than ``n_errors``
            standard errors.
            For learners without probabilities, only the share of wrong outputs counts.
        """
        zeros = {k: np.zeros_like(trained.theta[k]) for k in ("weights", "hidden_inputs")}
        idle = trained.with_theta(trained.theta | zeros)
        start = add_idle_units(self.energy, trained.weights.shape[1])
        energies = (trained, start, idle)
        losses, *others = [inference.mean_losses(e, held_out, epoch) for e in energies]
        weights = sample_weights(held_out)
        return all(_is_smaller(losses, other, weights, n_errors) for other in others)


class Trial(SilentReports):
    """Reports of a training of hidden units on some rows, which stop it once they are promising.

    Parameters
    ----------
    first : LogisticStart
        Logistic regressions with which the hidden units are compared.
    inference : OutputInference
        Inference of the outputs.
    held_out : Batch
        Held-out rows.

    Attributes
    ----------
    is_promising : bool
        Whether hidden units have improved the predictions of the held-out rows.
    """

    def __init__(self, first, inference, held_out):
        self.first, self.inference, self.held_out = first, inference, held_out
        self.is_promising = False

    def end(self, state):
        """Return True at the end of an epoch if hidden units are promising."""
        epoch = state.epoch - 1
        if state.best_epoch == epoch:
            self.is_promising = self.first.is_better(
                self.inference, state.best[1], epoch, self.held_out, TRIAL_ERRORS
            )
        return self.is_promising


def _is_smaller(losses, others, weights, n_errors):
    """Return whether the share of wrong outputs or the log-loss is clearly smaller."""
    n = losses.shape[1]
    weights = np.full(n, 1 / n) if weights is None else weights / weights.sum()
    gain, error = logistic_start.mean_and_error(others - losses, weights)
    gain, error = gain[[0, -1]], error[[0, -1]]  # share of wrong outputs, log-loss
    not_worse = gain >= [0.0, -error[1]]
    return bool(not_worse.all() and (gain > n_errors * error).any())


def _adaptive_rate(optimizer, max_updates, is_tall):
    """Return the default learning-rate schedule; all its halvings fit into ``max_updates``."""
    name = type(optimizer).__name__.lower()
    rate = FIRST_RATES.get(name, optimizer.default_rate)
    if is_tall and name == "sgd":
        rate = TALL_RATE
    window = int(np.clip(max_updates // N_WINDOWS, 1, WINDOW))
    return AdaptiveRate(rate, window, COSINE, N_HALVINGS)
