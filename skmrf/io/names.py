"""Factor graphs with names of variables and states."""

from .._utils.parameters import show_list
from ..energies import FactorGraph

MAX_SHOWN = 8


class NamedFactorGraph(FactorGraph):
    """Factor graph with names of variables and states.

    It can be used wherever a :class:`~skmrf.energies.FactorGraph` is accepted. The methods
    ``condition``, ``factor_graph`` and ``with_theta`` return a factor graph without names.

    Parameters
    ----------
    graph : FactorGraph
        Model without names.
    names : sequence of hashable
        Distinct names, one per variable.
    categories : sequence of sequences of hashable
        For each variable, the distinct names of its states.

    Attributes
    ----------
    names : list of length n_variables
        Names of the variables.
    categories : list of lists
        Names of the states of each variable. :meth:`skmrf.DiscreteMRF.from_energy` accepts this
        list.

    Raises
    ------
    ValueError
        If ``names`` does not have one entry per variable, if ``categories`` does not have one
        entry per state, or if names are not distinct and hashable.

    Examples
    --------
    >>> import numpy as np
    >>> from skmrf.energies import FactorGraph
    >>> from skmrf.io.names import NamedFactorGraph
    >>> graph = FactorGraph([2], [(0,)], [np.log([0.25, 0.75])])
    >>> NamedFactorGraph(graph, ["rain"], [["no", "yes"]]).categories
    [['no', 'yes']]
    """

    def __init__(self, graph, names, categories):
        self.layout, self.n_states = graph.layout, graph.n_states
        self.theta = graph.theta
        self.names = check_names(names, None, graph.n_variables, int)
        self.categories = check_categories(categories, None, graph.n_states)

    def factor_graph(self):
        """Return the factor graph without names."""
        return FactorGraph.from_layout(self.layout, self.flat)


def check_names(names, energy, n_variables, default):
    """Return the given variable names, or default names if ``names`` is None.

    The default names are the names in the energy or, if it has none, ``default(i)`` for variable i.
    """
    if names is None:
        names = (
            energy.names
            if isinstance(energy, NamedFactorGraph)
            else map(default, range(n_variables))
        )
    names = _as_list(names)
    if len(names) != n_variables:
        raise ValueError(
            f"There are {n_variables} variables, but {len(names)} names were given; give one name "
            "per variable."
        )
    _check_distinct("Names", names)
    return names


def check_categories(categories, energy, n_states):
    """Return the given state names, or default names if ``categories`` is None.

    The default names are the names in the energy or, if it has none, the state codes.
    """
    if categories is None:
        named = isinstance(energy, NamedFactorGraph)
        categories = energy.categories if named else [range(q) for q in n_states]
    categories = [_as_list(states) for states in categories]
    if len(categories) != len(n_states):
        raise ValueError(
            f"There are {len(n_states)} variables, but state names were given for "
            f"{len(categories)}; give a list of state names per variable."
        )
    for i, (states, q) in enumerate(zip(categories, n_states, strict=True)):
        if len(states) != q:
            raise ValueError(
                f"Variable {i} has {q} states, but {len(states)} state names were given; give one "
                "name per state."
            )
        _check_distinct(f"The state names of variable {i}", states)
    return categories


def _as_list(values):
    return values.tolist() if hasattr(values, "tolist") else list(values)


def _check_distinct(what, values):
    try:
        distinct = len(set(values)) == len(values)
    except TypeError:
        distinct = False
    if not distinct:
        raise ValueError(
            f"{what} must be distinct and hashable, such as strings; got "
            f"{show_list(values, MAX_SHOWN)}."
        )
