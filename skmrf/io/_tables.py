"""Conversion between potentials in files and log-potentials."""

import decimal

import numpy as np

from ..energies import FactorGraph
from ..energies.layout import Layout

MAX_ORDER = 64  # largest number of dimensions of a numpy array
TINY = np.finfo(float).tiny
MAX_LOG = 2e18
POTENTIAL = "a potential (a finite number of at least 0)"

# Some potentials are outside the range of floats, although their logarithms are not.
DECIMAL = decimal.Context(
    prec=25,
    Emin=decimal.MIN_EMIN,
    Emax=decimal.MAX_EMAX,
    traps=[decimal.InvalidOperation, decimal.Overflow, decimal.Underflow],
)


def find_first_repeat(owner, values):
    """Return the index of the first value that occurs earlier in the same group.

    Returns None if no value is repeated. For example, the owner is a clique and the values are its
    variables.
    """
    order = np.lexsort((values, owner))
    is_repeat = (np.diff(owner[order]) == 0) & (np.diff(values[order]) == 0)
    return int(order[1:][is_repeat].min()) if is_repeat.any() else None


def count_entries(n_states, ptr, variables):
    """Return the number of entries of each table, as floats because integers may overflow."""
    sizes = np.ones(len(ptr) - 1)
    has_variables = np.diff(ptr) > 0
    if has_variables.any():
        cardinality = n_states[variables].astype(float)
        sizes[has_variables] = np.multiply.reduceat(cardinality, ptr[:-1][has_variables])
    return sizes


def take_log(flat, tokens, at, is_entry):
    """Replace potentials by log-potentials in place; raise an error if one is invalid.

    ``is_entry`` marks the tokens from number ``at`` on that ``flat`` was read from.
    """
    wrong = ~(flat >= 0)  # also true for nan
    extreme = (flat < TINY) | (flat == np.inf)
    with np.errstate(divide="ignore"):
        np.log(flat, out=flat, where=~wrong)
    if not (wrong | extreme).any():
        return
    place = np.flatnonzero(is_entry) + at
    if wrong.any():
        raise tokens.error(int(place[np.argmax(wrong)]), POTENTIAL)
    for i, token in zip(np.flatnonzero(extreme), place[extreme].tolist(), strict=True):
        text = tokens[token]
        if text != b"0":
            flat[i] = _exact_log(text)
            if not flat[i] < np.inf:
                raise tokens.error(token, POTENTIAL)


def _exact_log(token):
    """Return the logarithm of a decimal number of any size; nan if the number is not finite."""
    try:
        number = DECIMAL.create_decimal(token.decode("ascii"))
        if number.is_zero():
            return -np.inf
        return float(DECIMAL.ln(number))
    except decimal.DecimalException:
        return np.nan


def cover_variables(graph):
    """Return the factor graph with a table of zeros for each variable that is in no clique."""
    absent = np.setdiff1d(np.arange(graph.n_variables), graph.layout.clique_vars).tolist()
    if not absent:
        return graph
    cliques = [*graph.cliques, *((v,) for v in absent)]
    tables = [*graph.log_potentials, *(np.zeros(q) for q in graph.n_states[absent])]
    layout = Layout.build(graph.n_states, cliques)
    return FactorGraph.from_layout(layout, np.concatenate([t.ravel() for t in tables]))


def format_potentials(graph):
    """Return the potentials of a factor graph as strings of decimal numbers."""
    flat = graph.flat
    wrong = ~((np.abs(flat) <= MAX_LOG) | (flat == -np.inf))
    if wrong.any():
        i, layout = int(np.argmax(wrong)), graph.layout
        a = int(np.argmax(layout.table_start + layout.table_size > i))
        raise ValueError(
            f"The table of clique {a} {graph.cliques[a]} has the entry {flat[i]}; log-potentials "
            f"must be -inf or at most {MAX_LOG:g} in absolute value."
        )
    with np.errstate(over="ignore", under="ignore"):
        values = np.exp(flat)
    words = list(map(repr, values.tolist()))
    for i in np.flatnonzero((values < TINY) | (values == np.inf)).tolist():
        word = DECIMAL.exp(decimal.Decimal(float(flat[i])))
        words[i] = "0" if flat[i] == -np.inf else str(word)
    return words
