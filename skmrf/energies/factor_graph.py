"""Discrete Markov random field given by tables of log-potentials, and strengths of its pairs."""

from itertools import combinations

import numpy as np

from .._utils.codes import MISSING, check_evidence
from . import dense_tables
from .layout import Layout
from .table_backed import NAME, TableEnergy, split_phases

SMALL_TABLE = 100  # entries; slices of larger tables are copied in less time
MAX_LOG_POTENTIAL_SUM = 1e306  # below the largest float, so that sums do not overflow


class FactorGraph(TableEnergy):
    r"""Factor graph of tables of log-potentials.

    .. math:: \log f(x) = \sum_a \theta_a(x_a)

    where :math:`x_a` are the variables of clique :math:`a` and :math:`\theta_a` is its table. A
    table has one entry per joint state, in C order: the last variable of the clique varies
    fastest.

    Parameters
    ----------
    n_states : array-like of shape (n_variables,)
        Number of states of each variable. The states of variable i are the codes
        ``0 .. n_states[i] - 1``.
    cliques : sequence of tuples of int
        Variables of each clique. A clique may have any number of variables; the empty clique is a
        constant.
    log_potentials : sequence of array-like, or ndarray of shape (n_parameters,)
        Log-potentials in nats. A sequence holds one table per clique. The shape of a table is the
        numbers of states of its variables; a flat table is accepted, too. An array holds all
        tables, one after the other, with each tied table once. ``-inf`` is a zero potential.
    tie : sequence of sequences of int or None, default=None
        Groups of cliques that share one table. None: every clique has its own table.

    Attributes
    ----------
    theta : dict
        ``{"log_potentials": ndarray of shape (n_parameters,)}``, all tables in one vector.
    layout : Layout
        Position of each table in this vector.
    n_states : ndarray of int of shape (n_variables,)
        Number of states of each variable.

    Raises
    ------
    ValueError
        If a clique contains a variable that does not exist or contains a variable twice, if a
        table has the wrong size, if a table contains nan or ``+inf``, or if all potentials of a
        table are zero.

    Examples
    --------
    >>> import numpy as np
    >>> from skmrf.energies import FactorGraph
    >>> graph = FactorGraph([2, 3], [(0,), (0, 1)], [np.zeros(2), np.arange(6.0).reshape(2, 3)])
    >>> graph.log_potential(np.array([[1, 2]]))
    array([5.])
    """

    def __init__(self, n_states, cliques, log_potentials, *, tie=None):
        self.layout = Layout.build(n_states, list(cliques), tie)
        self.n_states = self.layout.n_states
        if (
            isinstance(log_potentials, np.ndarray)
            and log_potentials.ndim == 1
            and (log_potentials.dtype != object)
        ):
            flat = self._check_flat(log_potentials)
        else:
            flat = self._concatenate_tables(log_potentials)
        self._check_values(flat)
        flat.flags.writeable = False
        self.theta = {NAME: flat}

    @classmethod
    def from_layout(cls, layout, flat=None):
        """Create a factor graph from a layout and a flat vector of log-potentials.

        Parameters
        ----------
        layout : Layout
            Cliques and the positions of their tables.
        flat : ndarray of shape (n_parameters,), optional
            All log-potentials in nats, neither checked nor copied. By default they are zeros,
            which is the uniform distribution.

        Returns
        -------
        FactorGraph
            Factor graph with these log-potentials.
        """
        energy = cls.__new__(cls)
        energy.layout, energy.n_states = layout, layout.n_states
        energy.theta = {NAME: np.zeros(layout.n_parameters) if flat is None else flat}
        return energy

    def _check_flat(self, flat):
        if len(flat) != self.layout.n_parameters:
            raise ValueError(
                f"log_potentials has {len(flat)} numbers, but the tables of the cliques "
                f"have {self.layout.n_parameters} entries in total; give one number per entry."
            )
        return np.array(_real_numbers(flat, "log_potentials"), dtype=float)

    def _concatenate_tables(self, tables):
        layout = self.layout
        if len(tables) != layout.n_cliques:
            raise ValueError(
                f"There are {layout.n_cliques} cliques but {len(tables)} tables in log_potentials; "
                "give one table per clique."
            )
        flat = np.full(layout.n_parameters, np.nan)
        for a, table in enumerate(tables):
            name = f"The table of clique {a} {layout.cliques[a]}"
            table, shape = _real_numbers(table, name), layout.shape(a)
            if table.shape != shape and (table.size != layout.table_size[a] or table.ndim != 1):
                raise ValueError(
                    f"{name} has shape {table.shape}, but its variables have {shape} states."
                )
            start = layout.table_start[a]
            entries = flat[start : start + table.size]
            new_entries = table.ravel()
            if not np.isnan(entries).all() and not np.array_equal(entries, new_entries):
                raise ValueError(
                    f"Clique {a} {layout.cliques[a]} is tied, but its table differs from the "
                    "table of its group. Give the same table to all cliques of a group."
                )
            entries[:] = new_entries
        return flat

    def _check_values(self, flat):
        layout = self.layout
        wrong = np.isnan(flat) | (flat == np.inf)
        if wrong.any():
            a = self._find_clique(np.flatnonzero(wrong)[0])
            raise ValueError(
                f"The table of clique {a} {layout.cliques[a]} holds "
                f"{flat[np.flatnonzero(wrong)[0]]}; log-potentials must be finite or -inf."
            )
        largest = np.abs(flat[flat > -np.inf]).max(initial=0.0)
        limit = MAX_LOG_POTENTIAL_SUM / max(layout.n_cliques, 1)
        if largest > limit:
            raise ValueError(
                f"Log-potentials reach {largest:.3g} in magnitude, so that sums over "
                f"{layout.n_cliques} cliques may overflow; keep them below {limit:.3g}."
            )
        if np.isinf(flat).any():
            for a, table in enumerate(layout.split(flat)):
                if (table == -np.inf).all():
                    raise ValueError(
                        f"All potentials of clique {a} {layout.cliques[a]} are zero (-inf), so "
                        "no state has a probability; give at least one a finite log-potential."
                    )

    def _find_clique(self, entry):
        starts, sizes = self.layout.table_start, self.layout.table_size
        return int(np.flatnonzero((starts <= entry) & (entry < starts + sizes))[0])

    def __repr__(self):
        """Return a summary with the numbers of variables, cliques and parameters."""
        return (
            f"FactorGraph(n_variables={len(self.n_states)}, n_cliques={self.layout.n_cliques}, "
            f"n_parameters={self.layout.n_parameters})"
        )

    @property
    def flat(self):
        """All log-potentials in nats, shape (n_parameters,)."""
        return self.theta[NAME]

    @property
    def cliques(self):
        """Variables of each clique, a tuple of tuples of int."""
        return self.layout.cliques

    @property
    def log_potentials(self):
        """Table of log-potentials of each clique in nats, a list of ndarrays."""
        return self.layout.split(self.flat)

    def with_theta(self, theta):
        """Return the same energy with other parameters, which are neither checked nor copied."""
        return FactorGraph.from_layout(self.layout, theta[NAME])

    def device_arrays(self):
        """Return the positions of the tables in a matrix over all states."""
        return dense_tables.find_positions(self.layout)

    def with_device_arrays(self, arrays):
        """Return the same model for arrays of JAX, with the result of :meth:`device_arrays`."""
        return MatrixFactorGraph(self.layout, self.theta, arrays)

    def n_device_entries(self, n_rows):
        """Return the number of entries of couplings of all states and of indicators of rows."""
        n_states = int(self.n_states.sum())
        return (3 * n_states + 4 * n_rows) * n_states

    def factor_graph(self):
        """Return this factor graph."""
        return self

    def gradient(self, positive, negative, batch=None):
        """Return the gradient of the log-likelihood from the clique marginals of both phases."""
        return {NAME: self.table_moments((positive, 1.0), (negative, -1.0))}

    def penalty_groups(self):
        """Return the penalty groups: each table of two or more variables is one group.

        Tables of one variable have the group number -1 and are not penalised.
        """
        lay = self.layout
        groups = np.full(lay.n_parameters, -1, dtype=np.int32)
        interacting = np.flatnonzero(lay.orders >= 2)
        starts, first = np.unique(lay.table_start[interacting], return_index=True)
        sizes = lay.table_size[interacting][first]
        entries = np.repeat(starts - np.cumsum(sizes) + sizes, sizes) + np.arange(sizes.sum())
        groups[entries] = np.repeat(np.arange(len(starts), dtype=np.int32), sizes)
        return {NAME: groups}

    def without_zero_tables(self):
        """Return the same distribution without the tables whose log-potentials are all zero.

        Returns
        -------
        FactorGraph
            Factor graph of the same variables. Each variable has at least one table.
        """
        lay = self.layout
        n_nonzero = np.append(np.cumsum(self.flat != 0), 0)  # position -1 is before the first entry
        last = lay.table_start + lay.table_size - 1
        keep = (n_nonzero[last] > n_nonzero[lay.table_start - 1]) | (lay.orders < 2)
        kept = np.flatnonzero(keep)
        cliques = [lay.cliques[a] for a in kept]
        flat, starts, ends = self.flat, lay.table_start, lay.table_start + lay.table_size
        parts = [flat[starts[a] : ends[a]] for a in kept]
        new = Layout.build(lay.n_states, cliques)
        return FactorGraph.from_layout(new, np.concatenate(parts) if parts else np.zeros(0))

    def condition(self, evidence):
        """Return the factor graph of the unobserved variables given evidence.

        Parameters
        ----------
        evidence : dict of int to int
            State code of each observed variable.

        Returns
        -------
        FactorGraph
            Distribution of the unobserved variables, in their order, up to normalisation. Each
            table is sliced at the observed states. A clique whose variables are all observed
            becomes a constant.
        """
        states = np.full(len(self.n_states), MISSING)
        for i, state in check_evidence(evidence, self.n_states).items():
            states[i] = state
        layout = self.layout.condition(states)
        if self.layout.n_parameters <= SMALL_TABLE * self.layout.n_cliques:
            flat = self.flat[self.layout.find_entries(states, layout)]
        else:
            at = [slice(None) if state == MISSING else state for state in states.tolist()]
            pairs = zip(self.cliques, self.log_potentials, strict=True)
            flat = np.concatenate([table[tuple(at[v] for v in c)].ravel() for c, table in pairs])
        return FactorGraph.from_layout(layout, flat)


class MatrixFactorGraph(FactorGraph):
    """Factor graph of arrays of JAX, which computes with a matrix over all states.

    Parameters
    ----------
    layout : Layout
        Cliques of one or two variables.
    theta : dict of str to array
        All log-potentials, as in :class:`FactorGraph`.
    positions : dict of str to array
        Result of :func:`~skmrf.energies.dense_tables.find_positions`.
    """

    def __init__(self, layout, theta, positions):
        self.layout, self.n_states = layout, layout.n_states
        self.theta, self.positions = theta, positions

    def with_theta(self, theta):
        """Return the same energy with other parameters, which are neither checked nor copied."""
        return MatrixFactorGraph(self.layout, theta, self.positions)

    def log_potential(self, X):
        """Return ``log f`` in nats of each row of state codes."""
        return dense_tables.log_potentials(self.flat, X, self.n_states, self.positions["matrix"])

    def conditionals(self):
        """Return the arrays for Gibbs sampling."""
        return dense_tables.conditionals_of_flat(self.flat, self.n_states, self.positions["matrix"])

    def table_moments(self, *signed_phases):
        """Return the sum of the clique marginals of several phases, each multiplied by a sign."""
        total, states = split_phases(signed_phases)
        if not states:
            return total
        entries = self.positions["entries"]
        return total + dense_tables.table_frequencies(states, self.n_states, entries)

    def conditional_moments(self, X):
        """Estimate the expected statistics from samples and their conditional probabilities."""
        positions = self.positions["matrix"], self.positions["entries"]
        return {NAME: dense_tables.conditional_frequencies(self.flat, X, self.n_states, *positions)}


def _real_numbers(values, name):
    """Return an array of floats; raise a ValueError for texts, dates and complex numbers."""
    values = np.asarray(values)
    if values.dtype.kind not in "biufO":
        raise ValueError(
            f"{name} holds values of type {values.dtype}; log-potentials must be real numbers, in "
            "nats."
        )
    return values.astype(float, copy=False)


def pair_strengths(graph):
    r"""Return the couplings and interaction strengths of all pairs that share a clique.

    A coupling is the signed parameter of two variables with two states. An interaction strength is
    a norm that is at least 0 and exists for any numbers of states. Both are computed from the table
    of the pair, which is the sum of the tables of its cliques. A clique of more than two variables
    contributes the mean of its table over the other variables.

    Parameters
    ----------
    graph : FactorGraph
        Factor graph with tables of log-potentials.

    Returns
    -------
    pairs : list of (int, int)
        Pairs of variables, the lower variable first.
    couplings : list of float
        For two variables with two states, the coupling :math:`J` in :math:`\pm 1` coding, in nats.
        It is a quarter of :math:`\log f_{00} f_{11} / f_{01} f_{10}`. It is infinite if zero
        potentials exclude equal states or unequal states, and nan if a larger clique has zero
        potentials, because then the coupling is not determined.
    strengths : list of float
        Frobenius norm of the table of log-potentials after its row and column effects have been
        subtracted, in nats. States of probability zero are left out. The strength is infinite if
        two states are possible separately but not together.
    """
    tables = _pair_tables(graph)
    return list(tables), *_couplings_and_strengths(list(tables.values()))


def _pair_tables(graph):
    """Return ``{(i, j): table}``, i < j; a table is nan if a larger clique has zero potentials."""
    tables = {}
    for clique, table in zip(graph.cliques, graph.log_potentials, strict=True):
        for axes in combinations(range(len(clique)), 2):
            others = tuple(k for k in range(len(clique)) if k not in axes)
            part = table.mean(axis=others) if others else table
            if others and not np.isfinite(table).all():
                part = np.full_like(part, np.nan)
            i, j = (clique[k] for k in axes)
            pair, part = ((i, j), part) if i < j else ((j, i), part.T)
            tables[pair] = tables[pair] + part if pair in tables else part
    return tables


def _couplings_and_strengths(tables):
    couplings, strengths = np.empty(len(tables)), np.empty(len(tables))
    by_shape = {}
    for k, table in enumerate(tables):
        by_shape.setdefault(table.shape, []).append(k)
    for members in by_shape.values():
        stack = np.stack([tables[k] for k in members])
        finite = np.isfinite(stack).all(axis=(1, 2))
        indices = np.array(members)
        couplings[indices[finite]], strengths[indices[finite]] = _measure_finite(stack[finite])
        for k in indices[~finite].tolist():
            couplings[k], strengths[k] = _measure_with_zeros(tables[k])
    return couplings.tolist(), strengths.tolist()


def _measure_finite(stack):
    """Return the couplings and interaction strengths of finite pair tables of one shape."""
    rows, columns = stack.mean(axis=2, keepdims=True), stack.mean(axis=1, keepdims=True)
    centred = stack - rows - columns + rows.mean(axis=1, keepdims=True)
    return centred[:, 0, 0], np.linalg.norm(centred, axis=(1, 2))


def _measure_with_zeros(table):
    """Return the coupling and interaction strength of a pair table with impossible states."""
    possible = table > -np.inf
    if np.isnan(table).any() or not possible.any():
        return np.nan, np.inf
    if (possible == np.outer(possible.any(axis=1), possible.any(axis=0))).all():
        part = table[np.ix_(possible.any(axis=1), possible.any(axis=0))]
        coupling, strength = (float(x[0]) for x in _measure_finite(part[None]))
        return coupling if part.shape == (2, 2) else 0.0, strength
    agree = -np.inf if not (possible[0, 0] and possible[-1, -1]) else np.inf
    return agree, np.inf
