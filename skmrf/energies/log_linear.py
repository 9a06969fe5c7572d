"""Pairwise log-linear models: tables that are combinations of fixed basis tables."""

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


@lru_cache
def contrasts(n_states):
    """Orthonormal contrasts of the states of a variable, shape (n_states, n_states - 1).

    The columns are orthogonal to each other and to the constant.
    """
    basis = helmert(n_states).T
    basis.setflags(write=False)  # one array for all who ask
    return basis


@lru_cache
def pair_basis(statistic, q_i, q_j):
    """Basis tables of a pair of variables, shape (n_basis, q_i, q_j).

    ``"table"``: products of contrasts, which span all tables whose rows and columns sum to zero.
    ``"agreement"``: the identity.
    """
    if statistic == "agreement":
        basis = np.eye(q_i, q_j)[None]
    else:
        basis = np.einsum("xa,yb->abxy", contrasts(q_i), contrasts(q_j)).reshape(-1, q_i, q_j)
    basis.setflags(write=False)
    return basis


class _Block(NamedTuple):
    """Tables of one shape: where they lie, their parameters, and the basis as flat tables."""

    entries: np.ndarray
    parameters: np.ndarray
    basis: np.ndarray


@dataclass(frozen=True, eq=False)
class LogLinearForm:
    """What the parameters of a :class:`LogLinearEnergy` stand for.

    Attributes
    ----------
    edges : ndarray of shape (n_edges, 2)
        Pairs ``i < j``.
    statistic : {"table", "agreement"}
    unary : bool
        Whether single variables have parameters.
    layout : Layout
        Single variables first, if they have parameters, then edges.
    unary_start, pair_start : ndarray
        Where the parameters of every variable and of every edge begin, and the end.
    """

    edges: np.ndarray
    statistic: str
    unary: bool
    layout: Layout
    unary_start: np.ndarray
    pair_start: np.ndarray

    @classmethod
    def build(cls, n_states, edges, statistic="table", unary=True):
        """Of variables with these numbers of states."""
        q = np.asarray(n_states, dtype=np.int64)
        edges = np.asarray(edges, dtype=np.int64).reshape(-1, 2)
        singles = np.arange(len(q)) if unary else np.arange(0)
        lengths = np.concatenate([np.ones(len(singles), int), np.full(len(edges), 2)])
        ptr = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64)
        layout = Layout.build(q, (ptr, np.concatenate([singles, edges.ravel()])))
        free = np.ones(len(edges), int)
        if statistic == "table":
            free = (q[edges[:, 0]] - 1) * (q[edges[:, 1]] - 1)
        return cls(edges, statistic, unary, layout, _starts(q[singles] - 1), _starts(free))

    @cached_property
    def blocks(self):
        """``{name of an array of theta: blocks of tables of one shape}``."""
        q, first = self.layout.n_states, len(self.unary_start) - 1
        tables = self.layout.table_start
        singles = [
            self._block(tables[:first], self.unary_start, q[:first] == k, contrasts(k).T)
            for k in np.unique(q[:first])
        ]
        shapes = q[self.edges]
        pairs = [
            self._block(
                tables[first:],
                self.pair_start,
                (shapes == shape).all(axis=1),
                pair_basis(self.statistic, *shape).reshape(-1, shape[0] * shape[1]),
            )
            for shape in np.unique(shapes, axis=0).tolist()
        ]
        return {"unary": singles, "pairs": pairs}

    @staticmethod
    def _block(table_start, parameter_start, members, basis):
        entries = table_start[members][:, None] + np.arange(basis.shape[1])
        parameters = parameter_start[:-1][members][:, None] + np.arange(basis.shape[0])
        return _Block(entries, parameters, basis)

    def zeros(self):
        """Parameters of the uniform distribution."""
        return {
            "unary": np.zeros(self.unary_start[-1]),
            "pairs": np.zeros(self.pair_start[-1]),
        }

    def expand(self, theta):
        """The flat tables of parameters."""
        flat = np.zeros(self.layout.n_parameters)
        for name, blocks in self.blocks.items():
            for entries, parameters, basis in blocks:
                flat[entries] = theta[name][parameters] @ basis
        return flat

    def contract(self, flat):
        """Derivatives by parameters from derivatives by flat tables; statistics from moments."""
        theta = self.zeros()
        for name, blocks in self.blocks.items():
            for entries, parameters, basis in blocks:
                theta[name][parameters] = flat[entries] @ basis.T
        return theta

    @cached_property
    def owner(self):
        """The edge of every pair parameter."""
        return np.repeat(np.arange(len(self.edges)), np.diff(self.pair_start))


def _starts(sizes):
    return np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64)


class LogLinearEnergy(TableBackedEnergy):
    r"""Pairwise model whose parameters are free: no two of them give the same distribution.

    .. math:: \log f(x) = \sum_i \sum_a u_{ia} k_{ia}(x_i)
              + \sum_{(i,j) \in E} \sum_b \theta_{ijb} \, \psi_b(x_i, x_j)

    With ``statistic="table"`` the :math:`k_{ia}` are orthonormal contrasts of the states and the
    :math:`\psi_b` their products, so :math:`\lVert \theta_{ij} \rVert` is the Frobenius norm of
    the table of the edge after centring of its rows and columns. With ``"agreement"`` there is one
    statistic an edge, :math:`\psi(x_i, x_j) = 1[x_i = x_j]`. Of variables with two states the two
    are the same, and :math:`\theta` is twice the coupling of states -1 and 1.

    Parameters
    ----------
    form : LogLinearForm
    theta : dict
        ``{"unary": ndarray, "pairs": ndarray}``.
    alive : ndarray of bool of shape (n_edges,), optional
        Edges that learning may move; the gradient of the others is zero.
    """

    def __init__(self, form, theta, alive=None):
        self.form = form
        self.layout = form.layout
        self.theta = theta
        self.alive = np.ones(len(form.edges), dtype=bool) if alive is None else alive

    @property
    def n_states(self):
        """Number of states of every variable."""
        return self.layout.n_states

    @cached_property
    def flat(self):
        return self.form.expand(self.theta)

    @cached_property
    def graph(self):
        """The same distribution as tables."""
        return FactorGraph.from_layout(self.layout, self.flat)

    def with_theta(self, theta):
        return LogLinearEnergy(self.form, theta, self.alive)

    def restricted(self, alive):
        """The energy with the parameters of all edges but those ``alive`` at zero, for good."""
        pairs = np.where(alive[self.form.owner], self.theta["pairs"], 0.0)
        return LogLinearEnergy(self.form, dict(self.theta, pairs=pairs), alive)

    def edge_parameters(self):
        """One array for every edge."""
        starts = self.form.pair_start
        return [self.theta["pairs"][a:b] for a, b in pairwise(starts.tolist())]

    def strengths(self):
        r""":math:`\lVert \theta_{ij} \rVert` of every edge."""
        squares = self.theta["pairs"] ** 2
        return np.sqrt(np.bincount(self.form.owner, squares, minlength=len(self.form.edges)))

    def from_table_moments(self, flat):
        return self.form.contract(flat)

    def gradient(self, positive, negative, batch=None):
        """Return the gradient; that of edges that are not ``alive`` is zero."""
        signed = ((positive, 1.0), (negative, -1.0))
        states = [(phase, sign) for phase, sign in signed if isinstance(phase, States)]
        gradient = self.form.contract(self.table_moments(*states))
        for phase, sign in signed:
            if isinstance(phase, CliqueMoments):
                gradient = {k: g + sign * phase.moments[k] for k, g in gradient.items()}
        return self._restricted(gradient)

    def from_table_gradient(self, gradient):
        """Return the gradient by ``theta`` from the gradient by :attr:`flat`."""
        return self._restricted(self.form.contract(gradient))

    def _restricted(self, gradient):
        gradient["pairs"][~self.alive[self.form.owner]] = 0.0
        return gradient

    def penalty_groups(self):
        return {
            "unary": np.full(self.form.unary_start[-1], -1, dtype=np.int64),
            "pairs": self.form.owner,
        }

    def factor_graph(self):
        return self.graph

    def condition(self, evidence):
        return self.graph.condition(evidence)
