"""Codes of discrete states: data type, code of missing values, validation, and order."""

import numbers
from collections.abc import Mapping

import numpy as np

STATE = np.dtype(np.int16)
MISSING = -1
MAX_STATES = int(np.iinfo(STATE).max)

# Test of the order of codes
MAX_ROWS, MAX_OTHERS = 5000, 50  # rows, and other columns, that are compared
MAX_VALUES, N_BINS = 20, 8  # numbers with more distinct values are divided into bins
RARE = 0.01  # share of rows; rarer values of other columns have less weight
DEGREE, MIN_CODES = 2, 8  # of the polynomial, and codes of a column that is tested
MIN_EXPLAINED = 0.6  # share of the differences between codes that the polynomial explains
N_PERMUTATIONS = 100, 900  # the second ones are drawn only if none of the first ones is as good


def check_states(X, n_states, *, allow_missing=False):
    """Return state codes as a C-ordered array of dtype STATE, shape (n_rows, n_variables).

    A code that is negative, or at least ``n_states`` of its column, raises a ValueError. With
    ``allow_missing``, the code MISSING is accepted.
    """
    X = np.asarray(X)
    n_states = np.asarray(n_states)
    if X.ndim != 2 or X.shape[1] != len(n_states):
        raise ValueError(
            f"States must have shape (n_rows, {len(n_states)}), one column per variable; "
            f"got {X.shape}."
        )
    if not _holds_integers(X):
        raise ValueError(f"States must be integer codes 0 .. n_states - 1; got dtype {X.dtype}.")
    if X.size:
        low, high = X.min(axis=0), X.max(axis=0)
        wrong = np.flatnonzero((low < (MISSING if allow_missing else 0)) | (high >= n_states))
        if wrong.size:
            i = wrong[0]
            codes = f"codes 0 to {n_states[i] - 1}" + f", {MISSING} if missing" * allow_missing
            raise ValueError(
                f"Variable {i} has {n_states[i]} states ({codes}), but codes from {low[i]} to "
                f"{high[i]} were given."
            )
    return np.ascontiguousarray(X, dtype=STATE)


def _holds_integers(X):
    if np.issubdtype(X.dtype, np.floating):
        return bool((np.floor(X) == X).all())
    return np.issubdtype(X.dtype, np.integer) or X.dtype == bool


def check_evidence(evidence, n_states):
    """Return evidence as a dict from variable to state code, or raise a ValueError."""
    evidence = {} if evidence is None else evidence
    if not isinstance(evidence, Mapping):
        raise ValueError(
            "evidence must be a dict from variables to states, or None; got "
            f"{type(evidence).__name__}."
        )
    checked = {}
    for variable, state in evidence.items():
        if not isinstance(variable, numbers.Integral) or not 0 <= variable < len(n_states):
            raise ValueError(
                f"Evidence names variable {variable!r}, but the variables are 0 to "
                f"{len(n_states) - 1}."
            )
        if not isinstance(state, numbers.Integral):
            raise ValueError(
                f"Evidence gives variable {variable} the state {state!r}; its states are integers, "
                f"0 to {n_states[variable] - 1}."
            )
        if not 0 <= state < n_states[variable]:
            raise ValueError(
                f"Evidence gives variable {variable} the state {state!r}, but its states are 0 to "
                f"{n_states[variable] - 1}."
            )
        checked[int(variable)] = int(state)
    return checked


def check_evidence_row(evidence, n_states):
    """Return the evidence as a state code per variable; unobserved variables have MISSING."""
    if evidence is None:
        return np.full(len(n_states), MISSING, dtype=STATE)
    row = np.asarray(evidence)
    if row.shape != (len(n_states),) or not np.issubdtype(row.dtype, np.integer):
        raise ValueError(
            f"evidence must be an array of integers of shape ({len(n_states)},): the state code of "
            f"each observed variable and {MISSING} for all others; got {evidence!r}."
        )
    wrong = np.flatnonzero((row < MISSING) | (row >= n_states))
    if wrong.size:
        i = wrong[0]
        raise ValueError(
            f"Evidence gives variable {i} the state {row[i]}, but its states are 0 to "
            f"{n_states[i] - 1}, and {MISSING} means not observed."
        )
    return row.astype(STATE)


def state_columns(n_states):
    """Return the variable and the state of each column of an array of all states.

    Parameters
    ----------
    n_states : ndarray of int of shape (n_variables,)
        Number of states of each variable.

    Returns
    -------
    owner, state : ndarray of int of shape (n_total_states,)
        Variables and state codes. Each variable has one column per state.
    """
    owner = np.repeat(np.arange(len(n_states)), n_states)
    return owner, np.arange(len(owner)) - (np.cumsum(n_states) - n_states)[owner]


def find_ordered(X, tested):
    """Return which columns of codes have relations to other columns that follow their order.

    The distributions of the other columns given a code are compared between codes. The order of the
    codes of a column matters if a quadratic polynomial of the code explains most differences, and
    if it explains no more for each of 1000 random permutations of the codes. For names of
    categories, all permutations are equally probable, so the order rarely matters by chance.

    Parameters
    ----------
    X : ndarray of shape (n_rows, n_columns)
        Columns of numbers, nan where missing.
    tested : dict of int to ndarray of shape (n_codes,)
        Codes that are compared, in ascending order, by the index of the column.

    Returns
    -------
    list of int
        Indices of the columns whose codes are ordered.
    """
    rng = np.random.default_rng(0)
    rows = np.sort(rng.permutation(len(X))[:MAX_ROWS])
    X = X[rows]
    others = np.unique(np.linspace(0, X.shape[1] - 1, MAX_OTHERS).astype(int))
    parts = [_indicators(X[:, k]) for k in others]
    owners = np.repeat(others, [part.shape[1] for part in parts])
    indicators = np.concatenate(parts, axis=1)
    found = []
    for j, codes in tested.items():
        counts = (X[:, j, None] == codes).sum(axis=0)
        if np.count_nonzero(counts) >= MIN_CODES:
            of_others = indicators[:, owners != j]
            if _is_ordered(X[:, j], codes[counts > 0], of_others, rng):
                found.append(j)
    return found


def _indicators(x):
    """Return scaled and centred indicators of the values of a column, or of bins of its numbers."""
    is_observed = ~np.isnan(x)
    values, inverse = np.unique(x[is_observed], return_inverse=True)
    if len(values) > MAX_VALUES:
        cuts = np.unique(np.quantile(inverse, np.arange(1, N_BINS) / N_BINS))
        inverse = np.searchsorted(cuts, inverse, side="right")
    found = np.zeros((len(x), inverse.max(initial=0) + 1))
    found[is_observed] = np.eye(found.shape[1])[inverse]
    shares = found.sum(axis=0) / max(is_observed.sum(), 1)
    found[is_observed] -= shares
    return found / np.sqrt(np.maximum(shares, RARE))


def _is_ordered(x, codes, indicators, rng):
    """Return whether a polynomial of the codes explains the means of indicators given a code."""
    is_tested = x[:, None] == codes
    used = is_tested.any(axis=1)
    table, is_tested = indicators[used], is_tested[used]
    table = table - table.mean(axis=0)
    counts = is_tested.sum(axis=0)
    sums = is_tested.T.astype(float) @ table / np.sqrt(counts)[:, None]
    products = sums @ sums.T  # the trace is the sum of squares between codes
    between, n_codes = np.trace(products), len(codes)
    within = (table**2).sum() - between
    noise = within / max(len(table) - n_codes, 1)  # of each degree of freedom
    places = 2.0 * (codes - codes[0]) / (codes[-1] - codes[0]) - 1.0

    def explained(orders):
        powers = places[orders][..., None] ** np.arange(DEGREE + 1)
        basis = np.linalg.qr(powers * np.sqrt(counts)[:, None])[0]
        return (basis * (products @ basis)).sum(axis=(-2, -1))

    found = explained(np.arange(n_codes))
    least = MIN_EXPLAINED * (between - (n_codes - 1) * noise)
    if found - DEGREE * noise <= max(least, 0.0):
        return False
    draws = (rng.permuted(np.tile(np.arange(n_codes), (n, 1)), axis=1) for n in N_PERMUTATIONS)
    return all((explained(orders) <= found + 1e-9 * between).all() for orders in draws)
