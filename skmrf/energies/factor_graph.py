"""Discrete Markov random field given by tables of log-potentials."""

import numpy as np

from .._kernels.tables import add_binary_moments
from .._utils.codes import check_evidence
from .layout import Layout
from .protocols import TableEnergy
from .table_backed import NAME, TableBackedEnergy

LARGEST = 1e306  # of a sum of log-potentials


class FactorGraph(TableBackedEnergy, TableEnergy):
    r"""Factor graph of log-potential tables.

    .. math:: \log f(x) = \sum_a \theta_a(x_a)

    where clique :math:`a` has the variables :math:`x_a` and the table :math:`\theta_a`, one
    entry a joint state, the last variable of the clique fastest.

    Parameters
    ----------
    n_states : array-like of shape (n_variables,)
        Number of states of every variable; states are the codes ``0 .. n_states[i] - 1``.
    cliques : sequence of tuples of int
        Variables of every clique; any order, the empty clique (a constant) included.
    log_potentials : sequence of array-like, or ndarray of shape (n_parameters,)
        A table for every clique, shaped by the numbers of states of its variables (or flat).
        ``-inf`` is a zero potential. An array holds all tables, one after the other, tied ones
        once.
    tie : sequence of sequences of int, or None
        Groups of cliques that share one table.

    Attributes
    ----------
    theta : dict
        ``{"log_potentials": ndarray of shape (n_parameters,)}``.
    layout : Layout
        Where each table lies in that array.

    Raises
    ------
    ValueError
        A clique that names a missing variable or one twice, a table of the wrong size, nan or
        ``+inf`` in a table, a table of zero potentials only.

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
            flat = self._gather(log_potentials)
        self._check_values(flat)
        flat.flags.writeable = False
        self.theta = {NAME: flat}

    @classmethod
    def from_layout(cls, layout, flat=None):
        """The energy of ``layout`` with the flat parameters given (zeros: uniform), unchecked."""
        energy = cls.__new__(cls)
        energy.layout, energy.n_states = layout, layout.n_states
        energy.theta = {NAME: np.zeros(layout.n_parameters) if flat is None else flat}
        return energy

    def _check_flat(self, flat):
        if len(flat) != self.layout.n_parameters:
            raise ValueError(
                f"log_potentials has {len(flat)} numbers, but the cliques need "
                f"{self.layout.n_parameters}."
            )
        return np.array(flat, dtype=float)

    def _gather(self, tables):
        layout = self.layout
        if len(tables) != layout.n_cliques:
            raise ValueError(
                f"There are {layout.n_cliques} cliques but {len(tables)} tables; give one each."
            )
        flat = np.full(layout.n_parameters, np.nan)
        for a, table in enumerate(tables):
            table = np.asarray(table, dtype=float)
            shape = layout.shape(a)
            if table.shape != shape and (table.size != layout.table_size[a] or table.ndim != 1):
                raise ValueError(
                    f"The table of clique {a} {layout.cliques[a]} has shape {table.shape}, but "
                    f"its variables have {shape} states."
                )
            start = layout.table_start[a]
            place = flat[start : start + table.size]
            given = table.ravel()
            if not np.isnan(place).all() and not np.array_equal(place, given):
                raise ValueError(
                    f"Clique {a} {layout.cliques[a]} is tied but its table differs from that of "
                    "its group; give one table to all of them."
                )
            place[:] = given
        return flat

    def _check_values(self, flat):
        layout = self.layout
        wrong = np.isnan(flat) | (flat == np.inf)
        if wrong.any():
            a = self._clique_of(np.flatnonzero(wrong)[0])
            raise ValueError(
                f"The table of clique {a} {layout.cliques[a]} holds "
                f"{flat[np.flatnonzero(wrong)[0]]}; log-potentials are finite or -inf."
            )
        largest = np.abs(flat[flat > -np.inf]).max(initial=0.0)
        limit = LARGEST / max(layout.n_cliques, 1)
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

    def _clique_of(self, entry):
        starts, sizes = self.layout.table_start, self.layout.table_size
        return int(np.flatnonzero((starts <= entry) & (entry < starts + sizes))[0])

    def __repr__(self):
        return (
            f"FactorGraph(n_variables={len(self.n_states)}, n_cliques={self.layout.n_cliques}, "
            f"n_parameters={self.layout.n_parameters})"
        )

    @property
    def flat(self):
        """All log-potentials in one vector."""
        return self.theta[NAME]

    @property
    def cliques(self):
        """The cliques, tuples of variables."""
        return self.layout.cliques

    @property
    def log_potentials(self):
        """The table of every clique, a list of arrays."""
        return self.layout.split(self.flat)

    def with_theta(self, theta):
        return FactorGraph.from_layout(self.layout, theta[NAME])

    def factor_graph(self):
        return self

    def gradient(self, positive, negative, batch=None):
        return {NAME: self.table_moments((positive, 1.0), (negative, -1.0))}

    def binary_gradient(self, coupling, bias):
        """Chain rule: derivatives by coupling and bias of the coupling form to those by tables."""
        gram = coupling.copy()
        np.fill_diagonal(gram, bias)
        out = np.zeros(self.layout.n_parameters)
        add_binary_moments(gram, 0.0, self.n_states, *self.layout.structure, out)
        return out

    def penalty_groups(self):
        lay = self.layout
        groups = np.full(lay.n_parameters, -1, dtype=np.int32)
        interacting = np.flatnonzero(lay.orders >= 2)
        starts, first = np.unique(lay.table_start[interacting], return_index=True)
        sizes = lay.table_size[interacting][first]
        entries = np.repeat(starts - np.cumsum(sizes) + sizes, sizes) + np.arange(sizes.sum())
        groups[entries] = np.repeat(np.arange(len(starts), dtype=np.int32), sizes)
        return {NAME: groups}

    def condition(self, evidence):
        """The factor graph of the unobserved variables, in their order, given evidence.

        Parameters
        ----------
        evidence : dict of int to int
            State code of every observed variable.

        Returns
        -------
        FactorGraph
            Tables are sliced, so cliques shrink; what is wholly observed becomes a constant.
        """
        evidence = check_evidence(evidence, self.n_states)
        keep = np.array([i for i in range(len(self.n_states)) if i not in evidence], dtype=int)
        rename = {int(old): new for new, old in enumerate(keep)}
        cliques, tables = [], []
        for clique, table in zip(self.cliques, self.log_potentials, strict=True):
            tables.append(table[tuple(evidence.get(v, slice(None)) for v in clique)])
            cliques.append(tuple(rename[v] for v in clique if v not in evidence))
        layout = Layout.build(self.n_states[keep], cliques)
        flat = np.concatenate([t.ravel() for t in tables]) if tables else np.zeros(0)
        return FactorGraph.from_layout(layout, flat)
