"""Conversion of discrete models to and from pgmpy."""

from itertools import combinations

import numpy as np

from .._utils.parameters import check_choice
from .._utils.warn import warn_caller
from ..energies import FactorGraph
from ..energies.protocols import factor_graph_of
from ._files import cover_variables, require
from .names import NamedFactorGraph, check_categories, check_names

MIN_LOG, MAX_LOG = -708.0, 709.0  # the exponentials are floats with full precision
KINDS = ("DiscreteMarkovNetwork", "FactorGraph")


def _import_pgmpy():
    require("pgmpy", "interop")
    import pgmpy.factors.discrete
    import pgmpy.models

    return pgmpy


def to_pgmpy(
    energy, *, kind="DiscreteMarkovNetwork", names=None, state_names=None, normalize=False
):
    r"""Convert a discrete model to a pgmpy model.

    Parameters
    ----------
    energy : Energy
        Discrete model: any energy that has a factor graph.
    kind : {"DiscreteMarkovNetwork", "FactorGraph"}, default="DiscreteMarkovNetwork"
        Class of :mod:`pgmpy.models` to return.
    names : sequence of str, optional
        Names of the variables: distinct hashable objects that are true in a boolean context,
        because pgmpy treats 0 and "" as missing names. The default is the names of a
        :class:`~skmrf.io.names.NamedFactorGraph`, each with the prefix "x" if one of them is false,
        and "x0", "x1", ... for other energies.
    state_names : sequence of sequences, optional
        For each variable, the names of its states, such as ``categories_`` of an estimator. The
        default is the state names of a :class:`~skmrf.io.names.NamedFactorGraph`, and 0, 1, ... for
        other energies.
    normalize : bool, default=False
        If True, divide each table by its largest entry. This changes log Z but not the marginals.
        Use it if log Z is above about 709 nats: pgmpy multiplies the potentials directly, which
        then overflows. With False, a warning is given if this may happen.

    Returns
    -------
    pgmpy.models.DiscreteMarkovNetwork or pgmpy.models.FactorGraph
        Model with the variables in the order of ``energy``. It passes the ``check_model`` of pgmpy.

    Raises
    ------
    TypeError
        If ``energy`` has no factor graph, for example because it is an estimator.
    ValueError
        If names or state names do not fit the model, if the model has no variables, or if all
        states have probability zero. Also if the potentials do not fit in floats: after constants
        are moved between tables, the log-potentials of each table must be from -708 to 709 nats.
    ImportError
        If pgmpy is not installed.

    See Also
    --------
    from_pgmpy : Convert a pgmpy model to a factor graph.

    Notes
    -----
    The pgmpy factors contain potentials, which are the exponentials of log-potentials. Tables
    whose potentials are in the range of floats are unchanged. A table outside this range is
    multiplied by a constant, and other tables by its reciprocal, so that log Z stays the same.

    pgmpy merges equal factors and has no constant factors. Therefore cliques with the same
    variables become one factor, constants are moved into other factors, and a variable that is in
    no clique gets a factor of ones.

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
    pgmpy = _import_pgmpy()
    _check_backend(pgmpy.config)
    graph = cover_variables(factor_graph_of(energy))
    names = _make_names(names, energy, graph.n_variables)
    states = check_categories(state_names, energy, graph.n_states)
    cliques, tables, constant = _merge_cliques(graph)
    tables = _shift_into_range(cliques, tables, constant, normalize)
    model = getattr(pgmpy.models, kind)()
    model.add_nodes_from(names)
    for clique, table in zip(cliques, tables, strict=True):
        scope = [names[v] for v in clique]
        labels = {names[v]: states[v] for v in clique}
        factor = pgmpy.factors.discrete.DiscreteFactor(scope, table.shape, np.exp(table), labels)
        if kind == "FactorGraph":
            model.add_node(factor)
            model.add_edges_from([(name, factor) for name in scope])
        else:
            model.add_edges_from(combinations(scope, 2))
        model.add_factors(factor)
    return model


def _make_names(names, energy, n_variables):
    """Return variable names for pgmpy, which must not be 0 or an empty string.

    pgmpy treats such names (names that are false in Python) as missing.
    """
    result = check_names(names, energy, n_variables, lambda i: f"x{i}")
    if names is None and not all(result):  # labels of a libDAI file start at 0
        result = check_names([f"x{name}" for name in result], None, n_variables, str)
    if not result or not all(result):
        shown = f"the names {result[:8]}" if result else "no variables"
        raise ValueError(
            "pgmpy needs at least one variable, and it treats names such as 0 and '' as missing; "
            f"got {shown}. Give other names with the parameter names."
        )
    return result


def _check_backend(config):
    """Raise an error if pgmpy is not set to numpy and float64."""
    if config.get_backend() != "numpy" or str(config.get_dtype()) != "float64":
        raise ValueError(
            f"pgmpy is set to {config.get_backend()} and {config.get_dtype()}, which would round "
            'the potentials; call pgmpy.config.set_backend("numpy").'
        )


def _merge_cliques(graph):
    """Merge the tables of cliques with the same variables; return cliques, tables and a constant.

    The constant is the sum of the tables that have no variables.
    """
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
                f"All products of the potentials of variables {clique} are zero, so no state has a "
                "probability; give at least one state a positive potential."
            )
    return list(cliques.values()), list(tables.values()), constant


def _shift_into_range(cliques, tables, constant, normalize):
    """Shift tables of log-potentials such that their exponentials are in the range of floats.

    If ``normalize`` is true, the largest entry of each table becomes 0. If it is false, the shifts
    sum to ``constant``.
    """
    finite = [table[table > -np.inf] for table in tables]
    top, bottom = (np.array([end(f) for f in finite]) for end in (np.max, np.min))
    low, high = MIN_LOG - bottom, (0.0 if normalize else MAX_LOG) - top
    too_wide = np.flatnonzero(low > high)
    if too_wide.size:
        a = int(too_wide[0])
        raise ValueError(
            f"Log-potentials of clique {cliques[a]} are from {bottom[a]:.6g} to {top[a]:.6g}; "
            "their exponentials, which pgmpy needs, do not fit in the range of floats. Set the "
            "smallest log-potentials to -inf."
        )
    shift = high if normalize else _distribute(low, high, constant)
    if not normalize and not MIN_LOG <= (top + shift).sum() <= MAX_LOG:
        warn_caller(
            "The product of the largest potentials of all factors is outside the range of floats, "
            "so inference with pgmpy may overflow or underflow; normalize=True keeps the "
            "marginals but changes log Z."
        )
    return [table + s for table, s in zip(tables, shift.tolist(), strict=True)]


def _distribute(low, high, total):
    """Return numbers that sum to ``total``, each between its limits in ``low`` and ``high``.

    As few numbers as possible are nonzero.
    """
    shift = np.clip(0.0, low, high)
    rest = total - shift.sum()
    margin = np.abs((high if rest > 0 else low) - shift)
    if abs(rest) > margin.sum():
        raise ValueError(
            "The potentials cannot be rescaled to the range of floats without changing log Z; "
            "normalize=True keeps the marginals but changes log Z."
        )
    before = np.cumsum(margin) - margin
    return shift + np.sign(rest) * np.clip(abs(rest) - before, 0.0, margin)


def from_pgmpy(model):
    r"""Convert a discrete pgmpy model to a factor graph.

    Parameters
    ----------
    model : pgmpy.models.DiscreteMarkovNetwork, FactorGraph or DiscreteBayesianNetwork
        Model to convert. Each conditional probability table of a Bayesian network becomes a clique.

    Returns
    -------
    NamedFactorGraph
        Model with the variables in the order of the nodes of ``model``. ``names`` are the names of
        the nodes and ``categories`` the names of their states. The log-potentials are the natural
        logarithms of the factor values (in nats), ``-inf`` for 0.

    Raises
    ------
    TypeError
        If ``model`` is an object of another class.
    ValueError
        If a variable has no factor or has different states in two factors, if a factor has
        negative, infinite or nan values or only zeros, or if a Bayesian network does not pass the
        ``check_model`` of pgmpy.
    ImportError
        If pgmpy is not installed.

    See Also
    --------
    to_pgmpy : Convert a discrete model to a pgmpy model.
    skmrf.DiscreteMRF.from_energy : Create an estimator from the factor graph.

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
    nodes, factors = _get_nodes_and_factors(model, _import_pgmpy().models)
    states = {}
    for factor in factors:
        for name, q in zip(factor.variables, factor.cardinality, strict=True):
            _add_states(states, name, list(factor.state_names.get(name, range(int(q)))))
    names = [node for node in nodes if node in states]
    number = {name: i for i, name in enumerate(names)}
    graph = FactorGraph(
        [len(states[name]) for name in names],
        [tuple(number[name] for name in factor.variables) for factor in factors],
        [_take_log(factor) for factor in factors],
    )
    return NamedFactorGraph(graph, names, [states[name] for name in names])


def _get_nodes_and_factors(model, models):
    """Return the nodes (variables) and the factors of a pgmpy model.

    In a factor graph of pgmpy, some of these nodes are factors and not variables.
    """
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
        is_factor = hasattr(node, "variables") or model.degree(node) > 0
        is_variable = not (isinstance(model, models.FactorGraph) and is_factor)
        if is_variable and node not in covered:
            raise ValueError(
                f"Variable {node!r} has no factor, so its states are unknown; add a factor of "
                "ones for it."
            )
    return list(model.nodes()), factors


def _add_states(states, name, new):
    """Add a variable's state names; raise an error if another factor has different names."""
    old, codes = states.get(name, new), list(range(len(new)))
    differ = new != old and (codes not in (new, old) or set(new) == set(old))
    if len(old) != len(new) or differ:
        raise ValueError(
            f"Variable {name!r} has the states {old} in one factor and {new} in another; use "
            "the same states in the same order."
        )
    states[name] = new if old == codes else old


def _take_log(factor):
    """Return the log-potentials of a pgmpy factor."""
    values = np.asarray(factor.values, dtype=float)
    wrong = ~((values >= 0) & (values < np.inf))
    if wrong.any():
        raise ValueError(
            f"The factor of {factor.variables} has the value {values[wrong][0]}; potentials must "
            "be finite and at least 0."
        )
    with np.errstate(divide="ignore"):
        return np.log(values)
