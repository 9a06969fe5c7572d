"""Discrete models to and from pgmpy."""

from itertools import combinations

import numpy as np

from .._utils.parameters import check_choice
from .._utils.warn import warn_caller
from ..energies import FactorGraph
from ..energies.checks import factor_graph_of
from ._optional import require
from ._tables import covering
from .names import NamedFactorGraph, check_categories, check_names

LOWEST, HIGHEST = -708.0, 709.0  # logarithms of floats with all their digits
KINDS = ("DiscreteMarkovNetwork", "FactorGraph")


def _pgmpy():
    require("pgmpy", "interop")
    import pgmpy.factors.discrete
    import pgmpy.models

    return pgmpy


def to_pgmpy(
    energy, *, kind="DiscreteMarkovNetwork", names=None, state_names=None, normalize=False
):
    r"""A discrete model as one of pgmpy.

    Parameters
    ----------
    energy : Energy
        Any energy with a factor graph.
    kind : {"DiscreteMarkovNetwork", "FactorGraph"}
        Class of :mod:`pgmpy.models`.
    names : sequence of str, optional
        Name of every variable: any distinct hashable objects that are not false, as pgmpy takes 0
        and "" for no name. By default those of a :class:`NamedFactorGraph`, with an "x" before
        each if one of them is false, else "x0", "x1", ...
    state_names : sequence of sequences, optional
        Names of the states of every variable, such as ``categories_`` of an estimator. By default
        those of a :class:`NamedFactorGraph`, else 0, 1, ...
    normalize : bool, default=False
        Divide every table by its largest entry. Marginals are the same, log Z is not. pgmpy
        multiplies potentials as they are, which overflows where log Z is beyond about 709 nats;
        there is a warning of that.

    Returns
    -------
    pgmpy.models.DiscreteMarkovNetwork or pgmpy.models.FactorGraph
        Variables in the order of ``energy``; pgmpy's ``check_model`` holds.

    Raises
    ------
    TypeError
        What has no factor graph, such as an estimator.
    ValueError
        Names or state names that do not fit. Log-potentials of which the exponentials do not fit
        in floats, -708 to 709 nats a table after constants are moved from one to another. A model
        without variables, or in which no state has a probability.
    ImportError
        pgmpy is not installed.

    See Also
    --------
    from_pgmpy : The other direction.

    Notes
    -----
    The factors hold potentials, exponentials of log-potentials. Where these are in the range of
    floats they are not changed; where a table is not, it is multiplied by a constant, and others
    by the reciprocal, so log Z is the same.

    pgmpy takes equal factors for one and knows no constants. Hence cliques of the same variables
    become one factor, constants go into other factors, and a variable in no clique gets a factor
    of ones.

    Examples
    --------
    >>> import numpy as np
    >>> from skmrf.energies import FactorGraph
    >>> from skmrf.io import to_pgmpy
    >>> graph = FactorGraph([2, 2], [(0, 1)], [np.log([[1.0, 2.0], [3.0, 4.0]])])
    >>> model = to_pgmpy(graph, names=["rain", "wet"])
    >>> print(round(model.get_partition_function(), 6))
    10.0
    """
    check_choice("kind", kind, KINDS)
    pgmpy = _pgmpy()
    _check_backend(pgmpy.config)
    graph = covering(factor_graph_of(energy))
    names = _true_names(names, energy, graph.n_variables)
    states = check_categories(state_names, energy, graph.n_states)
    cliques, tables, constant = _merged(graph)
    tables = _in_range(cliques, tables, constant, normalize)
    model = getattr(pgmpy.models, kind)()
    model.add_nodes_from(names)
    for clique, table in zip(cliques, tables, strict=True):
        scope = [names[v] for v in clique]
        called = {names[v]: states[v] for v in clique}
        factor = pgmpy.factors.discrete.DiscreteFactor(scope, table.shape, np.exp(table), called)
        if kind == "FactorGraph":
            model.add_node(factor)
            model.add_edges_from([(name, factor) for name in scope])
        else:
            model.add_edges_from(combinations(scope, 2))
        model.add_factors(factor)
    return model


def _true_names(names, energy, n_variables):
    """Names of the variables, none of which pgmpy takes for no name."""
    found = check_names(names, energy, n_variables, lambda i: f"x{i}")
    if names is None and not all(found):  # labels of a file begin with 0
        found = check_names([f"x{name}" for name in found], None, n_variables, str)
    if not found or not all(found):
        shown = f"the names {found[:8]}" if found else "no variables"
        raise ValueError(
            f"pgmpy needs at least one variable, and takes names that are false for no name; got "
            f"{shown}."
        )
    return found


def _check_backend(config):
    """pgmpy has to keep numbers as they are."""
    if config.get_backend() != "numpy" or str(config.get_dtype()) != "float64":
        raise ValueError(
            f"pgmpy is set to {config.get_backend()} and {config.get_dtype()}, which would round "
            'potentials; call pgmpy.config.set_backend("numpy").'
        )


def _merged(graph):
    """Cliques of different variables, their tables, and the sum of the constants."""
    cliques, tables, constant = {}, {}, 0.0
    for clique, table in zip(graph.cliques, graph.log_potentials, strict=True):
        members = frozenset(clique)
        if not clique:
            constant += float(table)
        elif members in cliques:
            order = [clique.index(v) for v in cliques[members]]
            tables[members] = tables[members] + np.transpose(table, order)
        else:
            cliques[members], tables[members] = clique, table
    for clique, table in [*((cliques[m], tables[m]) for m in cliques), ((), np.array(constant))]:
        if not (table > -np.inf).any():
            raise ValueError(
                f"All potentials of the variables {clique} are zero, so no state has a probability."
            )
    return list(cliques.values()), list(tables.values()), constant


def _in_range(cliques, tables, constant, normalize):
    """Log-potentials that floats hold the exponentials of, ``constant`` spread among them."""
    finite = [table[table > -np.inf] for table in tables]
    top, bottom = (np.array([end(f) for f in finite]) for end in (np.max, np.min))
    low, high = LOWEST - bottom, (0.0 if normalize else HIGHEST) - top
    wide = np.flatnonzero(low > high)
    if wide.size:
        a = int(wide[0])
        raise ValueError(
            f"Log-potentials of clique {cliques[a]} are from {bottom[a]:.6g} to {top[a]:.6g}; "
            "their exponentials, which pgmpy takes, do not fit in the range of floats."
        )
    shift = high if normalize else _spread(low, high, constant)
    if not normalize and not LOWEST <= (top + shift).sum() <= HIGHEST:
        warn_caller(
            "The product of the largest potentials of all factors is beyond the range of floats, "
            "and so may be what pgmpy infers by multiplying them; normalize=True keeps marginals, "
            "though not log Z."
        )
    return [table + s for table, s in zip(tables, shift.tolist(), strict=True)]


def _spread(low, high, total):
    """Numbers within bounds that sum to ``total``, 0 where that can be."""
    shift = np.clip(0.0, low, high)
    rest = total - shift.sum()
    margin = np.abs((high if rest > 0 else low) - shift)
    if abs(rest) > margin.sum():
        raise ValueError(
            "The product of all potentials does not fit in as many floats as there are factors; "
            "normalize=True keeps marginals, though not log Z."
        )
    before = np.cumsum(margin) - margin
    return shift + np.sign(rest) * np.clip(abs(rest) - before, 0.0, margin)


def from_pgmpy(model):
    r"""A factor graph from a discrete model of pgmpy.

    Parameters
    ----------
    model : pgmpy.models.DiscreteMarkovNetwork, FactorGraph or DiscreteBayesianNetwork
        Of a Bayesian network, every conditional probability table is a clique.

    Returns
    -------
    NamedFactorGraph
        Variables in the order of the nodes of ``model``, with its ``names``, and the names of
        their states as ``categories``. Log-potentials are logarithms of the factors, ``-inf``
        for 0.

    Raises
    ------
    TypeError
        Any other object.
    ValueError
        A variable without a factor, or with other states in one factor than in another; a factor
        with negative, infinite or nan values, or of zeros only; a Bayesian network that pgmpy's
        ``check_model`` refuses.
    ImportError
        pgmpy is not installed.

    See Also
    --------
    to_pgmpy : The other direction.
    skmrf.DiscreteMRF.from_energy : An estimator of the model.

    Examples
    --------
    >>> from pgmpy.factors.discrete import DiscreteFactor
    >>> from pgmpy.models import DiscreteMarkovNetwork
    >>> from skmrf import DiscreteMRF
    >>> from skmrf.io import from_pgmpy
    >>> network = DiscreteMarkovNetwork([("rain", "wet")])
    >>> states = {"rain": ["no", "yes"], "wet": ["no", "yes"]}
    >>> factor = DiscreteFactor(["rain", "wet"], [2, 2], [8, 2, 1, 9], states)
    >>> network.add_factors(factor)
    >>> graph = from_pgmpy(network)
    >>> graph.names
    ['rain', 'wet']
    >>> DiscreteMRF.from_energy(graph, graph.categories).predict([["yes", None]])
    array([['yes', 'yes']], dtype=object)
    """
    nodes, factors = _parts(model, _pgmpy().models)
    states = {}
    for factor in factors:
        for name, q in zip(factor.variables, factor.cardinality, strict=True):
            _add_states(states, name, list(factor.state_names.get(name, range(int(q)))))
    names = [node for node in nodes if node in states]
    number = {name: i for i, name in enumerate(names)}
    graph = FactorGraph(
        [len(states[name]) for name in names],
        [tuple(number[name] for name in factor.variables) for factor in factors],
        [_log(factor) for factor in factors],
    )
    return NamedFactorGraph(graph, names, [states[name] for name in names])


def _parts(model, models):
    """Nodes and factors; the nodes of a factor graph may stand for factors too."""
    if isinstance(model, models.DiscreteBayesianNetwork):
        model.check_model()
        return list(model.nodes()), [cpd.to_factor() for cpd in model.get_cpds()]
    if not isinstance(model, models.DiscreteMarkovNetwork | models.FactorGraph):
        raise TypeError(
            "model must be a DiscreteMarkovNetwork, a FactorGraph or a DiscreteBayesianNetwork of "
            f"pgmpy.models; got {type(model).__name__}."
        )
    factors = list(model.get_factors())
    covered = {name for factor in factors for name in factor.variables}
    for node in model.nodes():
        stands_for_factor = hasattr(node, "variables") or model.degree(node) > 0
        is_variable = not (isinstance(model, models.FactorGraph) and stands_for_factor)
        if is_variable and node not in covered:
            raise ValueError(
                f"Variable {node!r} has no factor, so nobody knows its states; give it a factor of "
                "ones."
            )
    return list(model.nodes()), factors


def _add_states(states, name, given):
    """Note what the states of a variable are called; factors have to agree."""
    known, plain = states.get(name, given), list(range(len(given)))
    other = given != known and (plain not in (given, known) or set(given) == set(known))
    if len(known) != len(given) or other:
        raise ValueError(
            f"Variable {name!r} has the states {known} in one factor and {given} in another; use "
            "the same, in the same order."
        )
    states[name] = given if known == plain else known


def _log(factor):
    """Log-potentials of a factor."""
    values = np.asarray(factor.values, dtype=float)
    wrong = ~((values >= 0) & (values < np.inf))
    if wrong.any():
        raise ValueError(
            f"The factor of {factor.variables} holds {values[wrong][0]}; potentials are finite "
            "and at least 0."
        )
    with np.errstate(divide="ignore"):
        return np.log(values)
