"""Base class of learners, the positive phase, and the imputation of missing training entries."""

from abc import ABC, abstractmethod
from copy import copy

import numpy as np
from sklearn.base import BaseEstimator

from .._utils.codes import MISSING, STATE
from .._utils.log_weights import normalized_weights
from .._utils.namespaces import as_numpy, is_numpy, namespace
from .._utils.phases import CliqueMoments, States
from .._utils.rows import dense_rows, has_missing, is_mapped
from ..energies import DiscreteEnergy
from ..samplers import Product, spawn_generators, sweep

REFERENCES = ("uniform", "marginals")  # distributions of DataPhase.reference
MAX_LATENT_FOR_MARGINALS = 20


class Learner(BaseEstimator, ABC):
    """Base class of learners: training algorithms that estimate the log-likelihood gradient.

    The gradient is the expectation of the sufficient statistics under the data (positive phase)
    minus their expectation under the model (negative phase). A learner stores only its parameters,
    so scikit-learn can clone it and tune its parameters as ``learner__...``. Everything that a step
    passes to the next step is in ``state``, which can be pickled.

    Attributes
    ----------
    requires : tuple of protocols
        Protocols (``skmrf.energies.protocols``) that the energy must implement, all of them.
        An estimator accepts the learners whose requirements its energy meets. Estimators of
        conditional models take a :class:`ConditionalLearner`, those of continuous models a
        :class:`BeliefLearner`.
    deterministic : bool
        Whether the learner has an :meth:`objective`, which a deterministic solver can maximise. By
        default, most estimators of models without hidden units use such a solver.
    objective_takes_missing : bool
        Whether :meth:`objective` takes rows with missing entries. If False, the estimator uses
        stochastic steps for such rows, so :meth:`step` must take them.
    pace : float
        Factor, at most 1, by which an estimator multiplies its default initial learning rate.
    family : str
        Family of the learner. Learners of different families can have the same name.
    is_pure : bool
        Whether JAX can compile :meth:`step`, because it changes nothing and its operations do not
        depend on values. The state of such a learner, as :meth:`pad` returns it, is a dataclass
        or None. Its field ``generators``, if it has one, contains random generators. A part of it
        that has Markov chains has the attribute ``chain_axes``: a dict with the axis of the chains
        in each array that has chains, from the end, along which several devices divide the array.
    device_requires : tuple of protocols
        Protocols of energies for which JAX can compile :meth:`step`, besides ``requires``.
    reads_maps : bool
        Whether the fields ``X`` of batches can be :class:`~skmrf._utils.rows.MappedCodes`. If
        False, an estimator copies all rows of a memory map.
    needs_last_model : bool
        Whether :meth:`step` needs the field ``energy`` of its state: the model of the previous
        step. Only learners with ``is_pure`` use it.
    """

    requires = (DiscreteEnergy,)
    deterministic = False
    objective_takes_missing = False
    pace = 1.0
    family = ""
    is_pure = False
    device_requires = ()
    reads_maps = False
    needs_last_model = False

    @abstractmethod
    def init(self, energy, batch, rng):
        """Return the learner's state before the first training step.

        Parameters
        ----------
        energy : Energy
            Initial model.
        batch : Batch
            All training rows.
        rng : numpy.random.Generator
            Source of random numbers.

        Returns
        -------
        object
            State, which :meth:`step` takes. It can be pickled.
        """

    def resume(self, energy, batch, state, rng):
        """Return the learner's state for continued training, on the same rows or on other rows.

        The new state keeps those parts of the old state that do not depend on the rows. By default,
        it keeps nothing: training calls :meth:`init` if this method returns None.

        Parameters
        ----------
        energy : Energy
            Current model.
        batch : Batch
            All training rows.
        state : object
            State of an earlier run. It may come from another learner.
        rng : numpy.random.Generator
            Source of random numbers.

        Returns
        -------
        object or None
            State, which :meth:`step` takes. None if the learner must start anew.
        """

    @abstractmethod
    def step(self, energy, batch, state, rng):
        """Estimate both phases (data and model expectation) of the gradient of the log-likelihood.

        Parameters
        ----------
        energy : Energy
            Current model.
        batch : Batch
            Training rows of this step.
        state : object
            State after the previous step.
        rng : numpy.random.Generator
            Source of random numbers.

        Returns
        -------
        positive, negative : States, CliqueMoments or UnitMoments
            Data-dependent and model-dependent phase. ``UnitMoments`` of
            ``skmrf._utils.phases`` are for conditional models.
        state : object
            State after this step.
        info : dict of str to float
            Diagnostics. ``history_`` stores their mean over an epoch. The fit warns if
            ``inference_converged``, the share of converged inference runs, is low in the last
            epoch.
        """

    def pad(self, state):
        """Return the state whose arrays have fixed shapes, for :meth:`step` on a device of JAX.

        A learner needs this method only if the arrays of its state change their shapes.
        """
        return state

    def unpad(self, state):
        """Return the state from which :meth:`pad` would return this state."""
        return state

    def n_messages(self, energy, n_rows):
        """Return the number of messages in a step, which determines the memory on a device.

        Parameters
        ----------
        energy : Energy
            Model.
        n_rows : int
            Number of rows of the step.

        Returns
        -------
        int
            Number of messages; 0 for learners without belief propagation.
        """
        return 0

    def objective(self, energy, batch, state):
        """Return the objective to maximise for a batch of rows, and its gradient.

        Parameters
        ----------
        energy : Energy
            Model to evaluate.
        batch : Batch
            All training rows.
        state : object
            State of :meth:`init` or :meth:`resume`.

        Returns
        -------
        value : float
            Objective in nats per row.
        gradient : dict of str to ndarray
            Derivatives by the parameters, shaped like ``energy.theta``.
        """
        raise NotImplementedError(
            f"{type(self).__name__} has no deterministic objective. Use a stochastic optimizer, "
            'such as optimizer="sgd".'
        )

    def chains(self, state):
        """Return the last states of the Markov chains of the learner, or None if it has none.

        Parameters
        ----------
        state : object
            State of this learner.

        Returns
        -------
        ndarray of shape (n_chains, n_visible) or None
            State codes, each from the distribution of the last model.
        """
        return

    def ladder(self, state):
        """Return the ladder of models from which chains draw states, or None if there is none.

        Parameters
        ----------
        state : object
            State of this learner.

        Returns
        -------
        Ladder or None
            Ladder of ``skmrf.samplers.ladder``.
        """
        return

    def make_solver(self, energy, batch, settings, rng):
        """Return the learner's own solver of its objective; None for L-BFGS or FISTA.

        A solver has the methods ``start`` and ``step`` of the solvers in
        ``skmrf/training/solvers.py``.

        Parameters
        ----------
        energy : Energy
            Initial model.
        batch : Batch
            All training rows.
        settings : Settings
            Settings of the training loop, with the penalty and the tolerance.
        rng : numpy.random.Generator
            Source of random numbers.

        Returns
        -------
        solver or None
            Solver.
        """
        return


def is_solvable(learner, data):
    """Return True if a deterministic solver can maximise the learner's objective on the rows."""
    if learner is None or not learner.deterministic:
        return False
    return learner.objective_takes_missing or not has_missing(data.shown)


class DataPhase:
    """Positive phase of the gradient: the expectation of the statistics under the training data.

    For a :class:`~skmrf.energies.DiscreteEnergy` without missing entries and latent variables, it
    consists of the moments of all training rows, which are computed once. Otherwise it consists of
    the rows of a batch; the energy averages latent variables out given these rows. Missing entries
    are imputed by Gibbs chains; each row with missing entries has its own chain, which
    persists between steps.

    Parameters
    ----------
    energy : GibbsEnergy
        Initial model.
    batch : Batch
        All training rows.
    rng : numpy.random.Generator
        Source of random numbers for imputation.
    """

    def __init__(self, energy, batch, rng):
        self.imputer = None
        self.moments = None
        if has_missing(batch.shown):
            self.imputer = GibbsImputer(batch, energy.visible_states, rng)
        elif isinstance(energy, DiscreteEnergy) and not energy.has_latent:
            data = batch.in_file_order()
            self.moments = CliqueMoments(energy.row_moments(data.shown, data.log_weights))

    def with_rng(self, rng):
        """Return the same phase, in which another source of random numbers imputes entries."""
        if self.imputer is None:
            return self
        phase, imputer = copy(self), copy(self.imputer)
        phase.imputer, imputer.rng = imputer, rng
        return phase

    def batch_states(self, energy, batch):
        """Return the weighted rows of a batch; missing entries are imputed by one Gibbs sweep.

        Parameters
        ----------
        energy : GibbsEnergy
            Current model, from which missing entries are drawn.
        batch : Batch
            Training rows of this step.

        Returns
        -------
        States
            State codes of the visible variables without missing entries, and the row weights.
        """
        X = np.asarray(batch.shown) if is_mapped(batch.shown) else batch.shown
        if self.imputer is not None:
            X = self.imputer.update(energy, batch)
        return States(X, None, batch.log_weights)

    def __call__(self, energy, batch):
        """Return the positive phase of the gradient for a batch of rows.

        Parameters
        ----------
        energy : GibbsEnergy
            Current model.
        batch : Batch
            Training rows of this step.

        Returns
        -------
        CliqueMoments or States
            Moments of all training rows if they are in closed form, else the rows of the batch.
        """
        return self.moments or self.batch_states(energy, batch)

    def _impute(self, batch):
        if self.imputer is None:
            return batch.shown
        return self.imputer.impute(batch)

    def draw_rows(self, batch, n_rows, rng):
        """Draw training rows with replacement, with probabilities proportional to their weights.

        Parameters
        ----------
        batch : Batch
            All training rows.
        n_rows : int
            Number of rows to draw.
        rng : numpy.random.Generator
            Source of random numbers.

        Returns
        -------
        ndarray of shape (n_rows, n_visible)
            State codes. Missing entries are imputed. Probabilities are replaced by drawn states.
        """
        X = self._impute(batch)
        weights = normalized_weights(batch.log_weights, X.shape[0])
        rows = X[rng.choice(X.shape[0], size=n_rows, p=weights)]
        return draw_states(as_numpy(rows), rng)

    def reference(self, name, energy, batch):
        """Return the reference distribution, from which tempered paths start.

        Parameters
        ----------
        name : {"marginals", "uniform"} or None
            "marginals" is a product of the state frequencies of the training rows, "uniform" the
            uniform distribution. None is "marginals", or "uniform" for models with more than 20
            latent variables. On the path from the marginals to such a model, all particles may end
            in the same state and stay there.
        energy : DiscreteEnergy
            Model at inverse temperature 1.
        batch : Batch
            All training rows.

        Returns
        -------
        Product
            Distribution of independent visible variables.
        """
        n_latent = len(energy.n_states) - len(energy.visible_states)
        if name == "uniform" or (name is None and n_latent > MAX_LATENT_FOR_MARGINALS):
            return Product.uniform(energy.visible_states)
        return self.marginals(energy, batch)

    def marginals(self, energy, batch):
        """Return a model without interactions, with the state frequencies of the training rows.

        Parameters
        ----------
        energy : DiscreteEnergy
            Model with the same visible variables.
        batch : Batch
            All training rows. Missing entries are imputed first.

        Returns
        -------
        Product
            Distribution of independent visible variables.
        """
        batch = batch.in_file_order()
        X = as_numpy(self._impute(batch))
        if X.dtype.kind == "f":
            X = draw_states(X, np.random.default_rng(0))  # only its column means are used
        n = X.shape[0]
        weights = n * normalized_weights(batch.log_weights, n)
        return Product.from_counts(X, energy.visible_states, weights)


def draw_states(X, rng):
    """Return rows as dense states; probabilities that a state is 1 are replaced by drawn states.

    Parameters
    ----------
    X : ndarray or sparse matrix of shape (n_rows, n_columns)
        State codes, or probabilities as floating-point numbers.
    rng : numpy.random.Generator
        Source of random numbers.

    Returns
    -------
    ndarray of shape (n_rows, n_columns)
        State codes.
    """
    X = dense_rows(X)
    return (rng.random(X.shape) < X).astype(STATE) if X.dtype.kind == "f" else X


class GibbsImputer:
    """Gibbs chains that impute the missing entries of the training rows.

    Parameters
    ----------
    batch : Batch
        All training rows. The row numbers ``rows`` of later batches refer to these.
    n_states : ndarray of int of shape (n_visible,)
        Number of states of each visible variable.
    rng : numpy.random.Generator
        Source of random numbers.
    """

    def __init__(self, batch, n_states, rng):
        missing = batch.shown == MISSING
        self.rows = np.flatnonzero(missing.any(axis=1))
        self.X = batch.shown[self.rows].copy()
        self.missing = missing[self.rows]
        self.rng = rng
        for i, q in enumerate(n_states):
            observed = batch.shown[~missing[:, i], i]
            is_missing = self.missing[:, i]
            drawn = Product.from_counts(observed[:, None], [q]).sample(int(is_missing.sum()), rng)
            self.X[is_missing, i] = drawn[:, 0]

    def _find_chains(self, batch):
        """Return the indices of a batch's incomplete rows, and the indices of their chains."""
        row_numbers = np.arange(len(batch.X)) if batch.rows is None else batch.rows
        incomplete = np.flatnonzero(np.isin(row_numbers, self.rows))
        return incomplete, np.searchsorted(self.rows, row_numbers[incomplete])

    def impute(self, batch):
        """Return the rows of a batch, with missing entries replaced by the chains' states."""
        incomplete, chains = self._find_chains(batch)
        X = batch.shown.copy()
        X[incomplete] = self.X[chains]
        return X

    def update(self, energy, batch):
        """Make one Gibbs sweep over the missing entries of a batch; return the imputed rows."""
        if not is_numpy(batch.shown):
            return self._update_on_device(energy, batch)
        incomplete, chains = self._find_chains(batch)
        X = batch.shown.copy()
        if len(incomplete):
            generators = spawn_generators(self.rng, len(incomplete))
            model = energy.at(batch.take(incomplete))
            moved, _ = sweep(model, self.X[chains], generators, clamped=~self.missing[chains])
            self.X[chains] = moved
            X[incomplete] = moved
        return X

    def _update_on_device(self, energy, batch):
        """Return the result of :meth:`update` for arrays of JAX.

        The shapes of the arrays do not depend on the rows, so all rows take part in the sweep. The
        entries of complete rows are clamped.
        """
        xp = namespace(batch.shown)
        chains = xp.minimum(xp.searchsorted(self.rows, batch.rows), len(self.rows) - 1)
        is_incomplete = self.rows[chains] == batch.rows
        X = xp.where(is_incomplete[:, None], self.X[chains], batch.shown)
        clamped = ~(self.missing[chains] & is_incomplete[:, None])
        X, _ = sweep(energy.at(batch), X, self.rng, clamped=clamped)
        chains = xp.where(is_incomplete, chains, len(self.rows))  # complete rows have no chain
        order = xp.arange(len(X))
        last = xp.zeros(len(self.rows) + 1, int).at[chains].max(order)  # a row may occur twice
        chains = xp.where(last[chains] == order, chains, len(self.rows))
        self.X = self.X.at[chains].set(X.astype(self.X.dtype), mode="drop")
        return X
