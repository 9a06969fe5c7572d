"""Where the tables of a factor graph lie in one flat parameter vector."""

from dataclasses import dataclass
from functools import cached_property
from itertools import chain, pairwise
from operator import index

import numpy as np

from .._kernels.tables import incidence
from .._utils.codes import MAX_STATES

MAX_PARAMETERS = 2**31 - 1
INDEX = np.int32
SHOWN = 10  # variables of a clique, in messages


def _clique_name(variables):
    shown = [str(v) for v in variables[:SHOWN]] + ["..."] * (len(variables) > SHOWN)
    return "(" + ", ".join(shown) + ")"


def _check_n_states(n_states):
    """A copy, as whoever changed the numbers later would let kernels out of their arrays."""
    n_states = np.asarray(n_states)
    if n_states.size == 0:
        n_states = n_states.astype(np.int64)
    if n_states.ndim != 1 or not np.issubdtype(n_states.dtype, np.integer):
        raise ValueError("n_states must be a list of positive integers, one a variable.")
    wrong = np.flatnonzero((n_states < 1) | (n_states > MAX_STATES))
    if wrong.size:
        raise ValueError(
            f"Variable {wrong[0]} has {n_states[wrong[0]]} states; 1 to {MAX_STATES} are possible."
        )
    return n_states.astype(np.int64)


def _flatten(cliques):
    """(pointers, variables) of a list of tuples of integers."""
    try:
        lengths = np.fromiter((len(c) for c in cliques), dtype=np.int64, count=len(cliques))
        ptr = np.concatenate([[0], np.cumsum(lengths)])
        members = map(index, chain.from_iterable(cliques))
        return ptr, np.fromiter(members, dtype=np.int64, count=ptr[-1])
    except TypeError:
        a = next(a for a, clique in enumerate(cliques) if not _holds_integers(clique))
        raise ValueError(
            f"Clique {a} is {cliques[a]!r}; a clique is a tuple of variables, which are integers."
        ) from None


def _holds_integers(clique):
    try:
        _ = [index(v) for v in clique]
    except TypeError:
        return False
    return True


def _check_members(ptr, variables, n_variables):
    """Every clique names existing variables, each once."""
    owner = np.repeat(np.arange(len(ptr) - 1), np.diff(ptr))
    outside = np.flatnonzero((variables < 0) | (variables >= n_variables))
    if outside.size:
        a = owner[outside[0]]
        raise ValueError(
            f"Clique {a} {_clique_name(variables[ptr[a] : ptr[a + 1]])} names variable "
            f"{variables[outside[0]]}, but the variables are 0 to {n_variables - 1}."
        )
    order = np.lexsort((variables, owner))
    same = (np.diff(owner[order]) == 0) & (np.diff(variables[order]) == 0)
    if same.any():
        a = owner[order][np.flatnonzero(same)[0]]
        raise ValueError(
            f"Clique {a} {_clique_name(variables[ptr[a] : ptr[a + 1]])} names variable "
            f"{variables[order][np.flatnonzero(same)[0]]} twice; name every variable once."
        )


def _table_geometry(n_states, ptr, variables):
    """Row-major strides of every clique's table (last variable fastest) and its size."""
    cardinality = n_states[variables].astype(float)
    strides = np.ones(len(variables))
    sizes = np.ones(len(ptr) - 1)
    longest = int(np.diff(ptr).max(initial=0))
    for back in range(longest):  # from the fastest position to the slowest
        has = np.diff(ptr) > back
        place = ptr[1:][has] - 1 - back
        strides[place] = sizes[has]
        with np.errstate(over="ignore"):  # inf is refused as too many parameters
            sizes[has] *= cardinality[place]
    return strides, sizes


@dataclass(frozen=True, eq=False)
class Layout:
    """Cliques, and where in the flat parameter vector their tables lie.

    Clique ``a`` has the variables ``clique_vars[clique_ptr[a]:clique_ptr[a + 1]]``; the entry of
    its table for state ``x`` is at ``table_start[a] + sum(x[v] * stride of v in a)``, the last
    variable of the clique fastest. Tied cliques share ``table_start``.

    Build one with :meth:`build`.

    Parameters
    ----------
    n_states : ndarray of int of shape (n_variables,)
    clique_ptr : ndarray of int of shape (n_cliques + 1,)
    clique_vars, strides : ndarray of int of shape (sum of the orders of the cliques,)
    table_start, table_size : ndarray of int of shape (n_cliques,)
    n_parameters : int
        Entries of all tables, tied ones counted once.
    """

    n_states: np.ndarray
    clique_ptr: np.ndarray
    clique_vars: np.ndarray
    strides: np.ndarray
    table_start: np.ndarray
    table_size: np.ndarray
    n_parameters: int

    @classmethod
    def build(cls, n_states, cliques, tie=None):
        """Lay out the tables of ``cliques``.

        Parameters
        ----------
        n_states : array-like of shape (n_variables,)
        cliques : sequence of tuples of variables, or (pointers, variables) arrays
        tie : sequence of sequences of clique numbers, or None
            Every group shares one table; its cliques need tables of one shape.

        Returns
        -------
        Layout

        Raises
        ------
        ValueError
            A clique that names a variable twice or one that does not exist, tables that are too
            large, tied tables of different shapes.
        """
        n_states = _check_n_states(n_states)
        ptr, variables = (
            cliques
            if isinstance(cliques, tuple)
            and len(cliques) == 2
            and all(isinstance(c, np.ndarray) for c in cliques)
            else _flatten(list(cliques))
        )
        _check_members(ptr, variables, len(n_states))
        strides, sizes = _table_geometry(n_states, ptr, variables)
        owner = _tied_owner(tie, ptr, variables, n_states)
        own_size = np.where(owner == np.arange(len(owner)), sizes, 0.0)
        total = own_size.sum()
        if total > MAX_PARAMETERS:
            largest = int(np.argmax(sizes))
            members = variables[ptr[largest] : ptr[largest + 1]]
            raise ValueError(
                f"The tables would hold {total:.3g} numbers, more than the limit of "
                f"{MAX_PARAMETERS}; the largest is that of clique {largest} "
                f"{_clique_name(members)} with {sizes[largest]:.3g}. Use smaller cliques "
                "or merge rare states."
            )
        start = np.concatenate([[0], np.cumsum(own_size)[:-1]])[owner] if len(owner) else own_size
        return cls(
            n_states,
            ptr,
            variables.astype(INDEX),
            strides.astype(INDEX),
            start.astype(np.int64),
            sizes.astype(np.int64),
            int(total),
        )

    @property
    def n_cliques(self):
        """Number of cliques."""
        return len(self.table_start)

    @cached_property
    def cliques(self):
        """The cliques as a tuple of tuples of variables."""
        members = self.clique_vars.tolist()
        ptr = self.clique_ptr.tolist()
        return tuple(tuple(members[p:q]) for p, q in pairwise(ptr))

    @cached_property
    def orders(self):
        """Number of variables of every clique."""
        return np.diff(self.clique_ptr)

    @property
    def structure(self):
        """The arrays that kernels find tables by: ``clique_ptr`` to ``table_start``."""
        return self.clique_ptr, self.clique_vars, self.strides, self.table_start

    @cached_property
    def incidence(self):
        """Cliques of every variable in compressed rows, and its stride in each."""
        return incidence(self.clique_ptr, self.clique_vars, self.strides, len(self.n_states))

    @cached_property
    def is_binary_pairwise(self):
        """Whether variables have at most two states and cliques at most two variables."""
        if self.n_cliques == 0 or (self.n_states > 2).any():
            return False
        return bool(self.orders.max() <= 2)

    @cached_property
    def is_dense(self):
        """Whether a good part of all pairs are cliques, so that matrix products pay."""
        return 16 * np.count_nonzero(self.orders == 2) >= len(self.n_states) ** 2

    @cached_property
    def state_start(self):
        """Where each variable's states begin when those of all variables lie side by side."""
        return np.cumsum(self.n_states) - self.n_states

    def shape(self, a):
        """Shape of the table of clique ``a``."""
        members = self.clique_vars[self.clique_ptr[a] : self.clique_ptr[a + 1]]
        return tuple(self.n_states[members].tolist())

    def split(self, flat):
        """Views of the tables of all cliques in a flat vector."""
        starts, sizes = self.table_start.tolist(), self.table_size.tolist()
        return [
            flat[s : s + k].reshape(self.shape(a))
            for a, (s, k) in enumerate(zip(starts, sizes, strict=True))
        ]

    def tied(self, flat):
        """Sums over cliques that share a table, of numbers laid out in :meth:`untied`."""
        if self.n_parameters == len(flat):
            return flat
        clique = np.repeat(np.arange(self.n_cliques), self.table_size)
        own_start = np.cumsum(self.table_size) - self.table_size
        place = np.arange(len(flat)) + (self.table_start - own_start)[clique]
        return np.bincount(place, weights=flat, minlength=self.n_parameters)

    def untied(self):
        """The same cliques with a table each."""
        start = np.concatenate([[0], np.cumsum(self.table_size)])
        return Layout(
            self.n_states,
            self.clique_ptr,
            self.clique_vars,
            self.strides,
            start[:-1].astype(np.int64),
            self.table_size,
            int(start[-1]),
        )


def _tied_owner(tie, ptr, variables, n_states):
    """For every clique the one that owns its table; checks the groups."""
    owner = np.arange(len(ptr) - 1)
    seen = set()
    for group in tie or ():
        if not _holds_integers(group):
            raise ValueError(
                f"tie must be groups of clique numbers, such as [[0, 1], [2, 3]]; got {tie!r}."
            )
        members = [int(a) for a in group]
        for a in members:
            if not 0 <= a < len(owner):
                raise ValueError(f"tie names clique {a}, but there are {len(owner)} cliques.")
            if a in seen:
                raise ValueError(f"tie names clique {a} twice; a clique has one table.")
            seen.add(a)
        shapes = {tuple(n_states[variables[ptr[a] : ptr[a + 1]]].tolist()) for a in members}
        if len(shapes) > 1:
            raise ValueError(
                f"tie groups the cliques {members}, whose tables have different shapes "
                f"{sorted(shapes)}; only tables of one shape can be shared."
            )
        owner[members] = min(members) if members else 0
    return owner
