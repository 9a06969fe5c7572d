"""Positions of the tables of a factor graph in one flat parameter vector."""

from dataclasses import dataclass, fields
from functools import cached_property
from itertools import chain, pairwise
from operator import index

import numpy as np

from .._kernels._jit import read_only
from .._kernels.tables import incidence
from .._utils.codes import MAX_STATES, MISSING

MAX_PARAMETERS = 2**31 - 1
INDEX = np.int32
MAX_SHOWN = 10  # variables of a clique in an error message


def _format_clique(variables):
    shown = [str(v) for v in variables[:MAX_SHOWN]] + ["..."] * (len(variables) > MAX_SHOWN)
    return "(" + ", ".join(shown) + ")"


def _check_n_states(n_states):
    """Check the numbers of states of the variables, and return a copy."""
    # A copy, because kernels would index out of bounds if the caller changed the array later.
    n_states = np.asarray(n_states)
    if n_states.size == 0:
        n_states = n_states.astype(np.int64)
    if n_states.ndim != 1 or not np.issubdtype(n_states.dtype, np.integer):
        raise ValueError(
            "n_states must be a list of positive integers, one per variable; got "
            f"{n_states.tolist()!r:.60}."
        )
    wrong = np.flatnonzero((n_states < 1) | (n_states > MAX_STATES))
    if wrong.size:
        raise ValueError(
            f"Variable {wrong[0]} has {n_states[wrong[0]]} states; a variable must have 1 to "
            f"{MAX_STATES} states."
        )
    return n_states.astype(np.int64)


def _flatten(cliques):
    """Concatenate the variables of all cliques; return the start of each clique and the array."""
    try:
        lengths = np.fromiter((len(c) for c in cliques), dtype=np.int64, count=len(cliques))
        ptr = np.concatenate([[0], np.cumsum(lengths)])
        members = map(index, chain.from_iterable(cliques))
        return ptr, np.fromiter(members, dtype=np.int64, count=ptr[-1])
    except TypeError:
        a = next(a for a, clique in enumerate(cliques) if not _holds_integers(clique))
        raise ValueError(
            f"Clique {a} is {cliques[a]!r}; a clique must be a tuple of variables (integers)."
        ) from None


def _holds_integers(clique):
    try:
        _ = [index(v) for v in clique]
    except TypeError:
        return False
    return True


def _check_members(ptr, variables, n_variables):
    """Raise a ValueError if a clique has a variable that does not exist or a variable twice."""
    owner = np.repeat(np.arange(len(ptr) - 1), np.diff(ptr))
    outside = np.flatnonzero((variables < 0) | (variables >= n_variables))
    if outside.size:
        a = owner[outside[0]]
        raise ValueError(
            f"Clique {a} {_format_clique(variables[ptr[a] : ptr[a + 1]])} names variable "
            f"{variables[outside[0]]}, but the variables are 0 to {n_variables - 1}."
        )
    order = np.lexsort((variables, owner))
    same = (np.diff(owner[order]) == 0) & (np.diff(variables[order]) == 0)
    if same.any():
        a = owner[order][np.flatnonzero(same)[0]]
        raise ValueError(
            f"Clique {a} {_format_clique(variables[ptr[a] : ptr[a + 1]])} names variable "
            f"{variables[order][np.flatnonzero(same)[0]]} twice; name every variable once."
        )


def _table_geometry(n_states, ptr, variables):
    """Return the strides (in C order) and the number of entries of each clique's table."""
    cardinality = n_states[variables].astype(float)
    strides = np.ones(len(variables))
    sizes = np.ones(len(ptr) - 1)
    longest = int(np.diff(ptr).max(initial=0))
    for back in range(longest):  # from the fastest position to the slowest
        is_longer = np.diff(ptr) > back
        position = ptr[1:][is_longer] - 1 - back
        strides[position] = sizes[is_longer]
        with np.errstate(over="ignore"):  # the caller rejects inf as too many parameters
            sizes[is_longer] *= cardinality[position]
    return strides, sizes


@dataclass(frozen=True, eq=False)
class Layout:
    """Cliques, and the positions of their tables in the flat parameter vector.

    Clique ``a`` has the variables ``clique_vars[clique_ptr[a]:clique_ptr[a + 1]]``. The entry of
    its table for state ``x`` is at ``table_start[a] + sum(x[v] * stride of v in a)``. The last
    variable of a clique varies fastest (C order). Tied cliques have the same ``table_start``.

    Use :meth:`build` to create a layout.

    Parameters
    ----------
    n_states : ndarray of int of shape (n_variables,)
        Number of states of each variable.
    clique_ptr : ndarray of int of shape (n_cliques + 1,)
        Start of each clique in ``clique_vars`` and ``strides``, and the end of the last one.
    clique_vars : ndarray of int of shape (sum of the orders of the cliques,)
        Variables of all cliques, one clique after the other.
    strides : ndarray of int of shape (sum of the orders of the cliques,)
        Stride of each of these variables in the table of its clique.
    table_start : ndarray of int of shape (n_cliques,)
        Position of the first entry of each clique's table in the flat vector.
    table_size : ndarray of int of shape (n_cliques,)
        Number of entries of each clique's table.
    n_parameters : int
        Number of entries of all tables, with each tied table counted once.
    """

    n_states: np.ndarray
    clique_ptr: np.ndarray
    clique_vars: np.ndarray
    strides: np.ndarray
    table_start: np.ndarray
    table_size: np.ndarray
    n_parameters: int

    def __post_init__(self):
        """Make the arrays read-only, because kernels are compiled again for writeable ones."""
        for name, value in vars(self).items():
            if isinstance(value, np.ndarray):
                object.__setattr__(self, name, read_only(value))

    def __getstate__(self):
        """Return the fields without cached properties, for pickling."""
        return {field.name: getattr(self, field.name) for field in fields(self)}

    def __setstate__(self, state):
        """Restore the fields; arrays are writeable after unpickling."""
        vars(self).update(state)
        self.__post_init__()

    @classmethod
    def build(cls, n_states, cliques, tie=None):
        """Create the layout that places the tables of ``cliques`` in one flat vector.

        Parameters
        ----------
        n_states : array-like of shape (n_variables,)
            Number of states of each variable.
        cliques : sequence of tuples of int, or pair of ndarrays
            Variables of each clique, or the arrays ``(clique_ptr, clique_vars)``.
        tie : sequence of sequences of int or None, default=None
            Groups of cliques, by number. The cliques of a group share one table, so their tables
            must have the same shape. None: every clique has its own table.

        Returns
        -------
        Layout
            Layout of the tables in the order of the cliques.

        Raises
        ------
        ValueError
            If a clique contains a variable that does not exist or contains a variable twice, if
            the tables are too large, or if tied tables have different shapes.
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
        owner = _find_table_owners(tie, ptr, variables, n_states)
        own_size = np.where(owner == np.arange(len(owner)), sizes, 0.0)
        total = own_size.sum()
        if total > MAX_PARAMETERS:
            largest = int(np.argmax(sizes))
            members = variables[ptr[largest] : ptr[largest + 1]]
            raise ValueError(
                f"The tables would hold {total:.3g} numbers, more than the limit of "
                f"{MAX_PARAMETERS}; the largest table is the one of clique {largest} "
                f"{_format_clique(members)} with {sizes[largest]:.3g} numbers. Use smaller "
                "cliques or merge rare states."
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
        """Variables of each clique, a tuple of tuples of int."""
        members = self.clique_vars.tolist()
        ptr = self.clique_ptr.tolist()
        return tuple(tuple(members[p:q]) for p, q in pairwise(ptr))

    @cached_property
    def orders(self):
        """Number of variables of each clique, shape (n_cliques,)."""
        return np.diff(self.clique_ptr)

    @property
    def structure(self):
        """Index arrays of the cliques: ``(clique_ptr, clique_vars, strides, table_start)``."""
        return self.clique_ptr, self.clique_vars, self.strides, self.table_start

    @cached_property
    def incidence(self):
        """Index arrays of each variable's cliques: ``(var_ptr, var_clique, var_stride)``."""
        return incidence(self.clique_ptr, self.clique_vars, self.strides, len(self.n_states))

    @cached_property
    def index_arrays(self):
        """Read-only ``n_states``, and the arrays of ``structure`` and of ``incidence``."""
        return self.n_states, *self.structure, *map(read_only, self.incidence)

    @cached_property
    def is_tied(self):
        """True if two cliques share a table."""
        return len(np.unique(self.table_start)) < self.n_cliques

    @cached_property
    def is_pairwise(self):
        """True if there are cliques, and all have at most two variables."""
        return self.n_cliques > 0 and bool(self.orders.max() <= 2)

    @cached_property
    def is_binary_pairwise(self):
        """True if all variables have at most two states and all cliques at most two variables."""
        return self.is_pairwise and not (self.n_states > 2).any()

    @cached_property
    def n_entries_read(self):
        """Number of table entries that a Gibbs sweep of all variables reads."""
        return int(self.n_states[self.clique_vars].sum())

    @cached_property
    def table_work(self):
        """Cost of a Gibbs sweep of one chain with the tables; the unit is a draw of a variable."""
        # 20 ns per variable (50 with more than two states), 3 ns per clique that contains it, and
        # 1 ns per entry, measured.
        n_draws = len(self.n_states) + 1.5 * np.count_nonzero(self.n_states > 2)
        return n_draws + (3.0 * len(self.clique_vars) + self.n_entries_read) / 20

    @cached_property
    def is_dense(self):
        """True if so many pairs have a table that matrix products are faster than loops."""
        return has_many_pairs(np.count_nonzero(self.orders == 2), len(self.n_states))

    @cached_property
    def state_start(self):
        """Index of each variable's first state in an array of all states of all variables."""
        return np.cumsum(self.n_states) - self.n_states

    def shape(self, a):
        """Return the shape of the table of a clique.

        Parameters
        ----------
        a : int
            Number of the clique.

        Returns
        -------
        tuple of int
            Number of states of each variable of the clique.
        """
        members = self.clique_vars[self.clique_ptr[a] : self.clique_ptr[a + 1]]
        return tuple(self.n_states[members].tolist())

    def split(self, flat):
        """Return the table of each clique, as a view of a flat vector.

        Parameters
        ----------
        flat : ndarray of shape (n_parameters,)
            All tables, one after the other.

        Returns
        -------
        list of ndarray
            Table of each clique.
        """
        starts, sizes = self.table_start.tolist(), self.table_size.tolist()
        return [
            flat[s : s + k].reshape(self.shape(a))
            for a, (s, k) in enumerate(zip(starts, sizes, strict=True))
        ]

    def condition(self, states):
        """Return the layout of the same cliques without the observed variables.

        Parameters
        ----------
        states : ndarray of int of shape (n_variables,)
            State codes; MISSING for unobserved variables.

        Returns
        -------
        Layout
            Layout of the unobserved variables, in their order.
        """
        is_free = states == MISSING
        is_kept = is_free[self.clique_vars]
        ptr = np.concatenate([[0], np.cumsum(is_kept)])[self.clique_ptr]
        members = (np.cumsum(is_free) - 1)[self.clique_vars[is_kept]]
        return Layout.build(self.n_states[is_free], (ptr, members))

    def find_entries(self, states, conditioned):
        """Return the positions of the table entries of :meth:`condition` in this layout.

        Parameters
        ----------
        states : ndarray of int of shape (n_variables,)
            State codes; MISSING for unobserved variables.
        conditioned : Layout
            Result of :meth:`condition` for these states.

        Returns
        -------
        ndarray of int of shape (conditioned.n_parameters,)
            Positions in the flat vector.
        """
        given = states[self.clique_vars]
        steps = np.concatenate(
            [[0], np.cumsum(np.where(given == MISSING, 0, given) * self.strides)]
        )
        first = self.table_start + steps[self.clique_ptr[1:]] - steps[self.clique_ptr[:-1]]
        old_strides, new_strides = self.strides[given == MISSING], conditioned.strides
        n_states, ptr = conditioned.n_states[conditioned.clique_vars], conditioned.clique_ptr
        clique = np.repeat(np.arange(self.n_cliques), conditioned.table_size)
        within = np.arange(conditioned.n_parameters) - conditioned.table_start[clique]
        entries = first[clique]
        for k in range(conditioned.orders.max(initial=0)):  # variables at position k of the cliques
            has_variable = conditioned.orders[clique] > k
            place = ptr[clique[has_variable]] + k
            state = within[has_variable] // new_strides[place] % n_states[place]
            entries[has_variable] += state * old_strides[place]
        return entries

    def tied(self, flat):
        """Sum values over the cliques that share a table.

        Parameters
        ----------
        flat : ndarray of shape (n_untied_entries,)
            Values in the layout that :meth:`untied` returns.

        Returns
        -------
        ndarray of shape (n_parameters,)
            Sums in this layout.
        """
        if self.n_parameters == len(flat):
            return flat
        clique = np.repeat(np.arange(self.n_cliques), self.table_size)
        own_start = np.cumsum(self.table_size) - self.table_size
        entry = np.arange(len(flat)) + (self.table_start - own_start)[clique]
        return np.bincount(entry, weights=flat, minlength=self.n_parameters)

    def untied(self):
        """Return the layout in which each clique has its own table.

        Returns
        -------
        Layout
            Layout of the same cliques without ties.
        """
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


def _find_table_owners(tie, ptr, variables, n_states):
    """Validate groups of tied cliques, and return for each clique the first clique of its group."""
    owner = np.arange(len(ptr) - 1)
    tied_cliques = set()
    groups = () if tie is None else tie
    for group in groups if hasattr(groups, "__iter__") else (tie,):
        if not _holds_integers(group):
            raise ValueError(
                f"tie must be groups of clique numbers, such as [[0, 1], [2, 3]]; got {tie!r}."
            )
        members = [int(a) for a in group]
        for a in members:
            if not 0 <= a < len(owner):
                raise ValueError(f"tie has clique {a}, but the cliques are 0 to {len(owner) - 1}.")
            if a in tied_cliques:
                raise ValueError(f"tie has clique {a} twice; a clique can be in one group only.")
            tied_cliques.add(a)
        shapes = {tuple(n_states[variables[ptr[a] : ptr[a + 1]]].tolist()) for a in members}
        if len(shapes) > 1:
            raise ValueError(
                f"tie puts the cliques {members} in one group, but their tables have the shapes "
                f"{sorted(shapes)}; only cliques with tables of the same shape can be tied."
            )
        owner[members] = min(members) if members else 0
    return owner


def has_many_pairs(n_pairs, n_variables):
    """Return True if matrix products are faster than loops over pairs of variables."""
    return 16 * n_pairs >= n_variables**2
