"""Pairwise log-linear models, whose tables are linear combinations of fixed basis tables."""

from dataclasses import dataclass
from functools import cached_property, lru_cache
from itertools import pairwise
from typing import NamedTuple

import numpy as np
from scipy.linalg import helmert

from .._utils.phases import CliqueMoments, States
from .factor_graph import FactorGraph
from .layout import Layout
from .table_backed import TableBackedEnergy

STATISTICS = ("table", "agreement")
MAX_BASIS_ENTRIES = 64  # of a pair whose basis tables are stored


@lru_cache
def contrasts(n_states):
    """Return orthonormal contrasts of the states of a variable.

    Parameters
    ----------
    n_states : int
        Number of states.

    Returns
    -------
    ndarray of shape (n_states, n_states - 1)
        Contrasts, one per column. The columns are orthogonal to each other and to the constant
        vector. The array is read-only.
    """
    basis = helmert(n_states).T
    basis.setflags(write=False)  # the cache returns the same array to all callers
    return basis


@lru_cache
def pair_basis(statistic, q_i, q_j):
    """Return the basis tables of a pair of variables.

    Parameters
    ----------
    statistic : {"table", "agreement"}
        ``"table"``: products of contrasts, which span all tables whose rows and columns sum to
        zero. ``"agreement"``: the identity matrix.
    q_i : int
        Number of states of the first variable.
    q_j : int
        Number of states of the second variable.

    Returns
    -------
    ndarray of shape (n_basis, q_i, q_j)
        Basis tables. The array is read-only.
    """
    if statistic == "agreement":
        basis = np.eye(q_i, q_j)[None]
    else:
        basis = np.einsum("xa,yb->abxy", contrasts(q_i), contrasts(q_j)).reshape(-1, q_i, q_j)
    basis.setflags(write=False)
    return basis


class _Block(NamedTuple):
    """All tables of one shape: indices of their entries and parameters, and their basis.

    The basis is an array of shape (n_basis, n_entries). The basis of a large pair is the Kronecker
    product of two arrays, the contrasts of both variables.
    """

    entries: np.ndarray
    parameters: np.ndarray
    basis: tuple

    def tables(self, theta):
        """Return the entries of the tables, given a vector of parameters."""
        values = theta[self.parameters]
        if len(self.basis) == 1:
            return values @ self.basis[0]
        left, right = self.basis
        values = values.reshape(-1, len(left), len(right))
        return (left.T @ values @ right).reshape(self.entries.shape)

    def contract(self, flat):
        """Return the transpose of :meth:`tables`, given a vector of entries."""
        tables = flat[self.entries]
        if len(self.basis) == 1:
            return tables @ self.basis[0].T
        left, right = self.basis
        tables = tables.reshape(-1, left.shape[1], right.shape[1])
        return (left @ tables @ right.T).reshape(self.parameters.shape)


@dataclass(frozen=True, eq=False)
class LogLinearForm:
    """Structure of a :class:`LogLinearEnergy`: its edges, statistics and parameter positions.

    Attributes
    ----------
    edges : ndarray of int of shape (n_edges, 2)
        Pairs of variables ``i < j``.
    statistic : {"table", "agreement"}
        Sufficient statistics of an edge; :func:`pair_basis` describes them.
    unary : bool
        Whether single variables have parameters.
    layout : Layout
        Layout of the tables: those of single variables first, if they have parameters, then those
        of edges.
    unary_start : ndarray of int of shape (n_variables + 1,) or (1,)
        Start of each variable's parameters in ``theta["unary"]``, and their end. It is ``[0]`` if
        single variables have no parameters.
    pair_start : ndarray of int of shape (n_edges + 1,)
        Start of each edge's parameters in ``theta["pairs"]``, and their end.
    """

    edges: np.ndarray
    statistic: str
    unary: bool
    layout: Layout
    unary_start: np.ndarray
    pair_start: np.ndarray

    @classmethod
    def build(cls, n_states, edges, statistic="table", unary=True):
        """Create the structure of a pairwise log-linear model.

        Parameters
        ----------
        n_states : array-like of shape (n_variables,)
            Number of states of each variable.
        edges : array-like of shape (n_edges, 2)
            Pairs of variables ``i < j``.
        statistic : {"table", "agreement"}, default="table"
            Sufficient statistics of an edge; :func:`pair_basis` describes them.
        unary : bool, default=True
            Whether single variables have parameters.

        Returns
        -------
        LogLinearForm
            Structure of the model.
        """
        q = np.asarray(n_states, dtype=np.int64)
        edges = np.asarray(edges, dtype=np.int64).reshape(-1, 2)
        singles = np.arange(len(q)) if unary else np.arange(0)
        lengths = np.concatenate([np.ones(len(singles), int), np.full(len(edges), 2)])
        ptr = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64)
        layout = Layout.build(q, (ptr, np.concatenate([singles, edges.ravel()])))
        n_free = np.ones(len(edges), int)
        if statistic == "table":
            n_free = (q[edges[:, 0]] - 1) * (q[edges[:, 1]] - 1)
        return cls(edges, statistic, unary, layout, _offsets(q[singles] - 1), _offsets(n_free))

    @cached_property
    def blocks(self):
        """Return the tables grouped by shape, in a dict with the keys of ``theta``."""
        q, n_unary = self.layout.n_states, len(self.unary_start) - 1
        tables = self.layout.table_start
        singles = [
            self._block(tables[:n_unary], self.unary_start, q[:n_unary] == k, (contrasts(k).T,))
            for k in np.unique(q[:n_unary])
        ]
        shapes = q[self.edges]
        pairs = [
            self._block(
                tables[n_unary:],
                self.pair_start,
                (shapes == shape).all(axis=1),
                self._pair_factors(*shape),
            )
            for shape in np.unique(shapes, axis=0).tolist()
        ]
        return {"unary": singles, "pairs": pairs}

    def _pair_factors(self, q_i, q_j):
        """Return the factors of the basis of a pair of variables, for :class:`_Block`."""
        if self.statistic == "table" and q_i * q_j > MAX_BASIS_ENTRIES:
            return contrasts(q_i).T, contrasts(q_j).T
        return (pair_basis(self.statistic, q_i, q_j).reshape(-1, q_i * q_j),)

    @staticmethod
    def _block(table_start, parameter_start, members, basis):
        n_basis, n_entries = np.prod([factor.shape for factor in basis], axis=0)
        entries = table_start[members][:, None] + np.arange(n_entries)
        parameters = parameter_start[:-1][members][:, None] + np.arange(n_basis)
        return _Block(entries, parameters, basis)

    def zeros(self):
        """Return parameters that are all zero, which give the uniform distribution.

        Returns
        -------
        dict of str to ndarray
            Zeros, by the names "unary" and "pairs".
        """
        return {
            "unary": np.zeros(self.unary_start[-1]),
            "pairs": np.zeros(self.pair_start[-1]),
        }

    def expand(self, theta):
        """Compute the tables of log-potentials from the parameters.

        Parameters
        ----------
        theta : dict of str to ndarray
            Parameters, by the names "unary" and "pairs".

        Returns
        -------
        ndarray of shape (n_entries,)
            All tables of log-potentials, in nats, in one vector.
        """
        flat = np.zeros(self.layout.n_parameters)
        for name, blocks in self.blocks.items():
            for block in blocks:
                flat[block.entries] = block.tables(theta[name])
        return flat

    def contract(self, flat):
        """Convert derivatives by table entries to derivatives by parameters.

        This linear map is the transpose of :meth:`expand`. It also converts clique marginals to
        expected sufficient statistics.

        Parameters
        ----------
        flat : ndarray of shape (n_entries,)
            Derivatives with respect to the entries of all tables, or marginals of all cliques.

        Returns
        -------
        dict of str to ndarray
            Derivatives with respect to the parameters, or expected sufficient statistics. The keys
            are "unary" and "pairs".
        """
        theta = self.zeros()
        for name, blocks in self.blocks.items():
            for block in blocks:
                theta[name][block.parameters] = block.contract(flat)
        return theta

    @cached_property
    def owner(self):
        """Index of the edge to which each pair parameter belongs, shape (n_pair_parameters,)."""
        return np.repeat(np.arange(len(self.edges)), np.diff(self.pair_start))


def _offsets(sizes):
    return np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64)


class LogLinearEnergy(TableBackedEnergy):
    r"""Pairwise log-linear model whose parameters are identifiable.

    .. math:: \log f(x) = \sum_i \sum_a u_{ia} k_{ia}(x_i)
              + \sum_{(i,j) \in E} \sum_b \theta_{ijb} \, \psi_b(x_i, x_j)

    Different parameters give different distributions. With ``statistic="table"`` the
    :math:`k_{ia}` are orthonormal contrasts of the states and the :math:`\psi_b` are their
    products. Then :math:`\lVert \theta_{ij} \rVert` is the Frobenius norm of the table of the edge
    after its rows and columns have been centred. With ``"agreement"`` an edge has one statistic,
    :math:`\psi(x_i, x_j) = 1[x_i = x_j]`. For variables with two states both choices give the same
    model, and :math:`\theta` is twice the coupling of states -1 and 1.

    Parameters
    ----------
    form : LogLinearForm
        Edges, statistics and positions of the parameters.
    theta : dict of str to ndarray
        Parameters: ``{"unary": ndarray, "pairs": ndarray}``.
    alive : ndarray of bool of shape (n_edges,), optional
        Edges whose parameters may be learned. The gradient of the other edges is zero. By default
        all edges may be learned.
    """

    def __init__(self, form, theta, alive=None):
        self.form = form
        self.layout = form.layout
        self.n_states = form.layout.n_states
        self.theta = theta
        self.alive = np.ones(len(form.edges), dtype=bool) if alive is None else alive

    @cached_property
    def flat(self):
        """All log-potentials in nats, shape (n_entries,)."""
        return self.form.expand(self.theta)

    @cached_property
    def graph(self):
        """Factor graph of the same distribution."""
        return FactorGraph.from_layout(self.layout, self.flat)

    def with_theta(self, theta):
        """Return the same energy with other parameters, which are neither checked nor copied."""
        return LogLinearEnergy(self.form, theta, self.alive)

    def restricted(self, alive):
        """Return the energy in which the parameters of some edges are fixed at zero.

        Parameters
        ----------
        alive : ndarray of bool of shape (n_edges,)
            Edges that keep their parameters. The parameters of the other edges become zero, and so
            does their gradient.

        Returns
        -------
        LogLinearEnergy
            The restricted energy.
        """
        pairs = np.where(alive[self.form.owner], self.theta["pairs"], 0.0)
        return LogLinearEnergy(self.form, dict(self.theta, pairs=pairs), alive)

    def edge_parameters(self):
        """Return the parameters of each edge.

        Returns
        -------
        list of ndarray
            One array per edge.
        """
        starts = self.form.pair_start
        return [self.theta["pairs"][a:b] for a, b in pairwise(starts.tolist())]

    def strengths(self):
        r"""Return the norm of the parameters of each edge.

        Returns
        -------
        ndarray of shape (n_edges,)
            :math:`\lVert \theta_{ij} \rVert` in nats.
        """
        squares = self.theta["pairs"] ** 2
        return np.sqrt(np.bincount(self.form.owner, squares, minlength=len(self.form.edges)))

    def from_table_moments(self, flat):
        """Convert clique marginals to expected sufficient statistics."""
        return self.form.contract(flat)

    def gradient(self, positive, negative, batch=None):
        """Return the gradient; it is zero for edges whose parameters are fixed at zero."""
        signed = ((positive, 1.0), (negative, -1.0))
        states = [(phase, sign) for phase, sign in signed if isinstance(phase, States)]
        gradient = self.form.contract(self.table_moments(*states))
        for phase, sign in signed:
            if isinstance(phase, CliqueMoments):
                gradient = {k: g + sign * phase.moments[k] for k, g in gradient.items()}
        return self._zero_fixed_edges(gradient)

    def from_table_gradient(self, gradient):
        """Return the gradient by ``theta``; it is zero for edges that are fixed at zero."""
        return self._zero_fixed_edges(self.form.contract(gradient))

    def _zero_fixed_edges(self, gradient):
        gradient["pairs"][~self.alive[self.form.owner]] = 0.0
        return gradient

    def penalty_groups(self):
        """Return the penalty groups: the parameters of each edge form one group.

        Parameters of single variables have the group number -1 and are not penalised.
        """
        return {
            "unary": np.full(self.form.unary_start[-1], -1, dtype=np.int64),
            "pairs": self.form.owner,
        }

    def factor_graph(self):
        """Return the factor graph of the same distribution."""
        return self.graph

    def condition(self, evidence):
        """Return the factor graph of the unobserved variables given evidence."""
        return self.graph.condition(evidence)
