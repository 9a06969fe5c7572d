"""Energies that are sums of tables of log-potentials, one table per clique."""

from abc import abstractmethod
from functools import cached_property

import numpy as np

from .._kernels._jit import read_only
from .._kernels.tables import add_binary_moments, add_moments, binary_form, log_potentials
from .._utils.codes import check_states
from .._utils.log_weights import normalized_weights
from .._utils.parallel import gram_matrix, run_blocks
from .._utils.phases import CliqueMoments, States
from .conditionals import BinaryConditionals, TableConditionals
from .dense_tables import state_conditionals
from .layout import Layout
from .protocols import DiscreteEnergy

NAME = "log_potentials"
ENTRIES_PER_UNIT = 2**19  # rows times cliques that are worth a thread, about a millisecond
CHUNK = 4096  # rows per block, so that the positions of their entries stay in the CPU cache
MAX_DENSE_VARIABLES = 1024  # up to here a full coupling matrix is cheap, however sparse it is
COUPLING_LIMIT = 1e6  # differences of larger log-potentials would round away smaller ones
MIN_LOG_ODDS = -80.0  # whose exponential float32 can hold
MAX_STATES = 4096  # of all variables, whose matrix has 128 MB


class TableBackedEnergy(DiscreteEnergy):
    """Discrete energy that is a sum of tables of log-potentials, one per clique.

    A subclass defines the tables with ``layout`` and :attr:`flat`. Its parameters may differ from
    the entries of the tables.

    Attributes
    ----------
    layout : Layout
        Position of each clique's table in ``flat``.
    """

    layout: Layout

    @property
    @abstractmethod
    def flat(self):
        """All log-potentials in nats, ndarray of shape (n_entries,)."""

    @abstractmethod
    def from_table_gradient(self, gradient):
        """Convert the gradient by the table entries :attr:`flat` to the gradient by ``theta``.

        Parameters
        ----------
        gradient : ndarray of shape (n_entries,)
            Derivatives with respect to the entries of all tables.

        Returns
        -------
        dict of str to ndarray
            Derivatives with respect to the parameters, shaped like ``theta``.
        """

    def binary_gradient(self, coupling, bias):
        """Convert derivatives by couplings and biases to derivatives by the table entries ``flat``.

        Parameters
        ----------
        coupling : ndarray of shape (n_variables, n_variables)
            Derivatives with respect to the couplings of the codes 0 and 1.
        bias : ndarray of shape (n_variables,)
            Derivatives with respect to the biases of the codes 0 and 1.

        Returns
        -------
        ndarray of shape (n_entries,)
            Derivatives with respect to the log-potentials.
        """
        gram = coupling.copy()
        np.fill_diagonal(gram, bias)
        layout = self.layout
        out = np.zeros(layout.n_parameters)
        add_binary_moments(gram, 0.0, layout.n_states, *layout.structure, out)
        return out

    def conditional_moments(self, X):
        """Estimate the expected statistics of a pairwise model of binary variables from samples.

        The joint state of two variables is replaced by the mean of its expectations given all
        variables but one of the two, and a state by the mean of itself and of its expectation.

        Parameters
        ----------
        X : ndarray of shape (n_rows, n_variables)
            State codes of samples of the model.

        Returns
        -------
        dict of str to ndarray
            Estimates, shaped like ``theta``. Probabilities have the precision of float32, because
            their exponentials are then six times as fast.
        """
        coupling, bias, _ = self._binary
        fields = np.maximum(X.astype(float) @ coupling + bias, MIN_LOG_ODDS)
        X, p = X.astype(np.float32), 1.0 / (1.0 + np.exp(-fields.astype(np.float32)))
        joint = X.T @ p / len(X)
        joint = 0.5 * (joint + joint.T)
        np.fill_diagonal(joint, 0.5 * (X.mean(axis=0, dtype=float) + p.mean(axis=0, dtype=float)))
        out = np.zeros(self.layout.n_parameters)
        add_binary_moments(joint, 1.0, self.layout.n_states, *self.layout.structure, out)
        return self.from_table_moments(out)

    @cached_property
    def _binary(self):
        """Return couplings and biases of the model, or None if its tables are needed or faster."""
        layout, n_states = self.layout, self.layout.n_states
        if not layout.is_binary_pairwise or not (
            layout.is_dense or len(n_states) <= MAX_DENSE_VARIABLES
        ):
            return None
        if not (np.abs(self.flat) <= COUPLING_LIMIT).all():
            return None
        n = len(n_states)
        coupling, bias = np.zeros((n, n)), np.zeros(n)
        constant = binary_form(read_only(self.flat), n_states, *layout.structure, coupling, bias)
        bias[n_states == 1] = -COUPLING_LIMIT  # these variables are always 0
        return BinaryConditionals(coupling, bias, constant)

    def log_potential(self, X):
        """Return ``log f`` in nats of each row of state codes."""
        layout = self.layout
        X = check_states(X, layout.n_states)
        out = np.empty(len(X))
        if self._binary is None or not layout.is_dense:
            for rows in _row_chunks(len(X)):
                columns = np.ascontiguousarray(X[rows].T)
                log_potentials(columns, read_only(self.flat), *layout.structure, out[rows])
            return out
        coupling, bias, constant = self._binary
        for rows in _row_chunks(len(X)):
            x = X[rows].astype(float)
            out[rows] = constant + np.einsum("ij,ij->i", x, 0.5 * (x @ coupling) + bias)
        return out

    @property
    def sweep_work(self):
        """Cost of a Gibbs sweep of one chain; the unit is one draw of a variable."""
        if self._binary is not None:
            return float(self.n_variables)
        return self._matrix_work if self._has_matrix else self.layout.table_work

    @property
    def _matrix_work(self):
        """Cost of a Gibbs sweep with a matrix over all states."""
        # 10 ns per variable, and 0.3 ns for each variable and state, measured.
        n_states = float(self.layout.n_states.sum())
        return self.n_variables * (10.0 + 0.3 * n_states) / 20.0

    @cached_property
    def _has_matrix(self):
        """Return whether chains move with a matrix over all states, because it is faster."""
        layout = self.layout
        if not layout.is_pairwise or layout.n_states.sum() > MAX_STATES or not layout.n_states.size:
            return False
        is_moderate = bool((np.abs(self.flat) <= COUPLING_LIMIT).all())
        return is_moderate and self._matrix_work < layout.table_work

    def conditionals(self):
        """Return the arrays for Gibbs sampling: couplings and biases, a matrix, or tables."""
        if self._binary is not None:
            return self._binary
        return self._states if self._has_matrix else self.table_conditionals()

    @cached_property
    def _states(self):
        return state_conditionals(self.table_conditionals())

    def table_conditionals(self):
        """Return the tables and their index arrays for Gibbs sampling."""
        return TableConditionals(read_only(self.flat), *self.layout.index_arrays)

    def moments(self, phase):
        """Return the expected sufficient statistics of a phase (data or model).

        The arrays have the names and shapes of ``theta``.
        """
        if isinstance(phase, CliqueMoments):
            return phase.moments
        return self.row_moments(phase.visible, phase.log_weights)

    def row_moments(self, X, log_weights=None):
        """Return the means of the sufficient statistics of many rows, in a dict like ``theta``."""
        rows = States(X, None, log_weights)
        return self.from_table_moments(self.table_moments((rows, 1.0)))

    def table_moments(self, *signed_phases):
        """Return the sum of the clique marginals of several phases, each multiplied by a sign.

        Parameters
        ----------
        *signed_phases : tuple of (phase, float)
            Phases with their signs. A phase is ``States``, or ``CliqueMoments`` that hold the
            clique marginals.

        Returns
        -------
        ndarray of shape (n_entries,)
            Signed sum of clique marginals.
        """
        total, states = split_phases(signed_phases)
        is_new = isinstance(total, np.ndarray) and total.dtype == float
        out = total if is_new else total + np.zeros(self.layout.n_parameters)
        if self.layout.is_binary_pairwise and self.layout.is_dense:
            self._add_gram(states, out)
        else:
            for X, weights in states:
                for rows in _row_chunks(len(X)):
                    columns = read_only(np.ascontiguousarray(X[rows].T))
                    self._add_counts(columns, weights[rows], out)
        return out

    def _add_counts(self, columns, weights, out):
        """Add the weighted counts of table entries to ``out``; threads divide the cliques.

        Cliques that share a table add to the same entries, so that one thread counts them all.
        """
        ptr, variables, strides, starts = self.layout.structure
        is_tied = self.layout.is_tied
        size = len(starts) if is_tied else max(ENTRIES_PER_UNIT // max(len(weights), 1), 1)

        def add(first):
            ptrs, first_entries = ptr[first : first + size + 1], starts[first : first + size]
            add_moments(columns, weights, ptrs, variables, strides, first_entries, out)

        list(run_blocks(add, [(first,) for first in range(0, len(starts), max(size, 1))], None))

    def _add_gram(self, states, out):
        """Add the weighted clique frequencies of binary rows to ``out``, by matrix products."""
        if not states:
            return
        n_states = self.layout.n_states
        gram = gram_matrix(*states)
        total = sum(float(weights.sum()) for _, weights in states)
        add_binary_moments(gram, total, n_states, *self.layout.structure, out)


class TableEnergy(TableBackedEnergy):
    """Energy whose parameters are tables of log-potentials in one flat vector.

    ``theta`` contains a single array, :attr:`flat`.
    """

    def from_table_moments(self, flat):
        """Return the clique marginals as expected statistics, in a dict like ``theta``."""
        (name,) = self.theta
        return {name: flat}

    def from_table_gradient(self, gradient):
        """Return the derivatives by the table entries in a dict like ``theta``."""
        return self.from_table_moments(gradient)


def _row_chunks(n_rows):
    return [slice(s, s + CHUNK) for s in range(0, n_rows, CHUNK)]


def split_phases(signed_phases):
    """Return the sum of the clique marginals that are given, and the states with signed weights.

    Parameters
    ----------
    signed_phases : sequence of (phase, float)
        Phases with their signs, as in :meth:`TableBackedEnergy.table_moments`.

    Returns
    -------
    total : ndarray of shape (n_entries,), or 0.0 if no clique marginals are given
        Signed sum of clique marginals.
    states : list of (array, array)
        State codes of shape (n_rows, n_variables) and weights of shape (n_rows,).
    """
    total, states = 0.0, []
    for phase, sign in signed_phases:
        if isinstance(phase, States):
            weights = sign * normalized_weights(phase.log_weights, len(phase.visible))
            states.append((phase.visible, weights))
        else:
            total = total + sign * phase.moments[NAME]
    return total, states
