"""Tables of potentials in files: logarithms of what is read, decimal numbers of what is written."""

import decimal

import numpy as np

from ..energies import FactorGraph
from ..energies.layout import Layout

MAX_ORDER = 64  # what an array can have dimensions
TINY = np.finfo(float).tiny
MAX_LOG = 2e18
POTENTIAL = "a potential (a finite number of at least 0)"

# for the potentials that a float cannot hold, and their logarithms it can
DECIMAL = decimal.Context(
    prec=25,
    Emin=decimal.MIN_EMIN,
    Emax=decimal.MAX_EMAX,
    traps=[decimal.InvalidOperation, decimal.Overflow, decimal.Underflow],
)


def first_repeat(owner, variables):
    """Place of the first variable that its clique has already, or None."""
    order = np.lexsort((variables, owner))
    twice = (np.diff(owner[order]) == 0) & (np.diff(variables[order]) == 0)
    return int(order[1:][twice].min()) if twice.any() else None


def table_sizes(n_states, ptr, variables):
    """Numbers of entries as floats: they may be beyond any integer."""
    sizes = np.ones(len(ptr) - 1)
    filled = np.diff(ptr) > 0
    if filled.any():
        cardinality = n_states[variables].astype(float)
        sizes[filled] = np.multiply.reduceat(cardinality, ptr[:-1][filled])
    return sizes


def take_log(flat, tokens, at, entries):
    """Logarithms in place; ``entries`` marks the tokens after ``at`` that ``flat`` came from."""
    wrong = ~(flat >= 0)  # nan too
    extreme = (flat < TINY) | (flat == np.inf)
    with np.errstate(divide="ignore"):
        np.log(flat, out=flat, where=~wrong)
    if not (wrong | extreme).any():
        return
    place = np.flatnonzero(entries) + at
    if wrong.any():
        raise tokens.error(int(place[np.argmax(wrong)]), POTENTIAL)
    for i, token in zip(np.flatnonzero(extreme), place[extreme].tolist(), strict=True):
        text = tokens[token]
        if text != b"0":
            flat[i] = _exact_log(text)
            if not flat[i] < np.inf:
                raise tokens.error(token, POTENTIAL)


def _exact_log(token):
    """Natural logarithm of a decimal number of any size; nan where that is no finite number."""
    try:
        number = DECIMAL.create_decimal(token.decode("ascii"))
        if number.is_zero():
            return -np.inf
        return float(DECIMAL.ln(number))
    except decimal.DecimalException:
        return np.nan


def covering(graph):
    """The factor graph, with a table of zeros for every variable that is in no clique."""
    absent = np.setdiff1d(np.arange(graph.n_variables), graph.layout.clique_vars).tolist()
    if not absent:
        return graph
    cliques = [*graph.cliques, *((v,) for v in absent)]
    tables = [*graph.log_potentials, *(np.zeros(q) for q in graph.n_states[absent])]
    layout = Layout.build(graph.n_states, cliques)
    return FactorGraph.from_layout(layout, np.concatenate([t.ravel() for t in tables]))


def potentials(graph):
    """The potentials as decimal numbers."""
    flat = graph.flat
    wrong = ~((np.abs(flat) <= MAX_LOG) | (flat == -np.inf))
    if wrong.any():
        i, layout = int(np.argmax(wrong)), graph.layout
        a = int(np.argmax(layout.table_start + layout.table_size > i))
        raise ValueError(
            f"The table of clique {a} {graph.cliques[a]} holds {flat[i]}; log-potentials are "
            f"-inf or at most {MAX_LOG:g} in size."
        )
    with np.errstate(over="ignore", under="ignore"):
        values = np.exp(flat)
    words = list(map(repr, values.tolist()))
    for i in np.flatnonzero((values < TINY) | (values == np.inf)).tolist():
        word = DECIMAL.exp(decimal.Decimal(float(flat[i])))
        words[i] = "0" if flat[i] == -np.inf else str(word)
    return words
