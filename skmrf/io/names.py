"""Models whose variables and states are called something."""

from ..energies import FactorGraph

SHOWN = 8


class NamedFactorGraph(FactorGraph):
    """A factor graph that was read from elsewhere, with what things are called there.

    Everything that takes a :class:`~skmrf.energies.FactorGraph` takes it. What is made of it
    (by ``condition``, ``factor_graph``, ``with_theta``) is a factor graph without names.

    Parameters
    ----------
    graph : FactorGraph
    names : sequence of hashable
        Name of every variable.
    categories : sequence of sequences of hashable
        Names of the states of every variable.

    Attributes
    ----------
    names : list
    categories : list of list
        As :meth:`skmrf.DiscreteMRF.from_energy` takes them.

    Raises
    ------
    ValueError
        Names that are not one a variable, or a state, or not distinct and hashable.

    Examples
    --------
    >>> import numpy as np
    >>> from skmrf.energies import FactorGraph
    >>> from skmrf.io import NamedFactorGraph
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
        """The same without names."""
        return FactorGraph.from_layout(self.layout, self.flat)


def check_names(names, energy, n_variables, default):
    """A name for every variable: those given, those of the energy, or ``default(i)``."""
    if names is None:
        names = (
            energy.names
            if isinstance(energy, NamedFactorGraph)
            else map(default, range(n_variables))
        )
    names = _as_list(names)
    if len(names) != n_variables:
        raise ValueError(f"There are {n_variables} variables, but {len(names)} names are given.")
    _check_distinct("Names", names)
    return names


def check_categories(categories, energy, n_states):
    """Names of all states: those given, those of the energy, or their codes."""
    if categories is None:
        named = isinstance(energy, NamedFactorGraph)
        categories = energy.categories if named else [range(q) for q in n_states]
    categories = [_as_list(states) for states in categories]
    if len(categories) != len(n_states):
        raise ValueError(
            f"There are {len(n_states)} variables, but names for the states of {len(categories)} "
            "are given."
        )
    for i, (states, q) in enumerate(zip(categories, n_states, strict=True)):
        if len(states) != q:
            raise ValueError(
                f"Variable {i} has {q} states, but {len(states)} state names are given."
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
        raise ValueError(f"{what} must be distinct and hashable; got {values[:SHOWN]}.")
