"""Exact inference by variable elimination, for a batch of rows of evidence at once.

Everything is in the log domain, so that zero potentials (-inf) and huge ones are safe. All rows of
a batch observe the same variables; :func:`prepare` builds the index arrays for such a pattern.
"""

import numpy as np

from .._kernels.elimination import choose, clamped_starts, downward, upward
from .._utils.codes import MISSING, STATE
from .tree_decomposition import build_tree, forecast

DEFAULT_MAX_BYTES = 4 * 2**30
ENTRIES_A_CALL = 2**23
MESSAGES_A_CHUNK = 2**21
UNIFORMS_A_CALL = 2**20


def prepare(layout, observed=None, *, maximised=None, max_bytes=DEFAULT_MAX_BYTES):
    """The bucket tree of a factor graph's layout, if it fits.

    Parameters
    ----------
    layout : Layout
    observed : ndarray of bool of shape (n_variables,), or None
        Variables that evidence fixes.
    maximised : ndarray of bool of shape (n_variables,), or None
        Variables that :func:`marginal_map` maximises over; observed ones stay fixed. They are
        eliminated last, so such a plan may need far more than one without.
    max_bytes : float
        Bound on the peak memory of one row of evidence.

    Returns
    -------
    BucketTree

    Raises
    ------
    ValueError
        When the forecast is beyond ``max_bytes``; the message has the number of bytes.
    """
    nothing = np.zeros(len(layout.n_states), dtype=bool)
    observed = nothing if observed is None else observed
    maximised = nothing if maximised is None else maximised
    cost = forecast(layout, observed, maximised)
    if cost.order is None or cost.bytes > max_bytes:
        raise ValueError(refusal(cost, max_bytes))
    return build_tree(layout, observed, maximised, cost)


def refusal(cost, max_bytes):
    """Why a forecast is beyond ``max_bytes``."""
    more = "at least " if cost.order is None else ""
    return (
        f"Exact inference needs {more}{cost.bytes:.4g} bytes (largest table 2^"
        f"{cost.log2_largest:.1f} entries), more than max_bytes={max_bytes:.4g}. Raise "
        "max_bytes, observe more variables or use an approximate method."
    )


def _chunks(plan, n_rows):
    """Slices of rows whose messages fit a fixed number of floats."""
    size = int(np.clip(MESSAGES_A_CHUNK // max(plan.n_messages, 1), 1, 1024))
    return [slice(s, min(s + size, n_rows)) for s in range(0, n_rows, size)]


def _bucket_runs(plan, n_rows, cut=0):
    """Runs of buckets, none across ``cut``, so small that Ctrl-C is seen between them."""
    entries = plan.tree.outer * plan.tree.inner * n_rows
    runs, first, total = [], 0, 0
    for k, e in enumerate(entries.tolist()):
        total += e
        if total >= ENTRIES_A_CALL or k + 1 == cut:
            runs.append((first, k + 1))
            first, total = k + 1, 0
    if first < len(entries):
        runs.append((first, len(entries)))
    return runs


def _n_buckets(plan):
    return len(plan.tree.variable)


def _starts(plan, layout, X):
    """Where every clique's table starts given each row's evidence."""
    out = np.empty((len(X), layout.n_cliques), dtype=np.int64)
    clamped_starts(
        X,
        plan.observed,
        layout.clique_ptr,
        layout.clique_vars,
        layout.strides,
        layout.table_start,
        out,
    )
    return out


def _upward(plan, flat, X, n_summed):
    """Upward messages, table starts and the logarithm of every row's total.

    The first n_summed buckets sum over their variables, the others maximise.
    """
    starts = _starts(plan, plan.layout, X)
    messages = np.empty((len(X), plan.n_messages))
    for first, last in _bucket_runs(plan, len(X), n_summed):
        upward(plan.tree, first, last, flat, starts, messages, first >= n_summed)
    roots = plan.tree.message_start[plan.tree.is_root]
    total = messages[:, roots].sum(axis=1) + flat[starts[:, plan.constant_cliques]].sum(axis=1)
    return messages, starts, total


def _no_evidence(layout):
    return np.full((1, len(layout.n_states)), MISSING, dtype=STATE)


def log_partitions(plan, flat, X=None):
    """Log of the sum of ``f`` over the unobserved variables, for each row of evidence.

    Parameters
    ----------
    plan : BucketTree
    flat : ndarray of shape (n_parameters,)
    X : ndarray of shape (n_rows, n_variables), or None
        State codes; only the observed columns are read. None: one row without evidence.

    Returns
    -------
    ndarray of shape (n_rows,), nats; -inf for evidence of probability zero.
    """
    X = _no_evidence(plan.layout) if X is None else X
    totals = [_upward(plan, flat, X[c], _n_buckets(plan))[2] for c in _chunks(plan, len(X))]
    return np.concatenate([*totals, np.zeros(0)])


class ImpossibleEvidence(ValueError):
    """Evidence of probability zero; ``row`` is its number in the batch.

    Parameters
    ----------
    row : int
        The first row whose evidence is.
    """

    def __init__(self, row):
        self.row = int(row)
        super().__init__(
            f"The model gives the evidence of row {row} the probability zero, so nothing can "
            "be said given it; change the evidence, or replace zero potentials by small ones."
        )


def _check_possible(total, first_row):
    wrong = np.flatnonzero(~np.isfinite(total))
    if wrong.size:
        raise ImpossibleEvidence(first_row + wrong[0])


def _downward(plan, flat, X, first_row, weights, singles, moments, out_layout):
    messages, starts, total = _upward(plan, flat, X, _n_buckets(plan))
    _check_possible(total, first_row)
    out_starts = starts if out_layout is plan.layout else _starts(plan, out_layout, X)
    scratch = np.empty(plan.n_scratch)
    for first, last in reversed(_bucket_runs(plan, len(X))):
        downward(
            plan.tree,
            first,
            last,
            flat,
            starts,
            out_starts,
            messages,
            weights,
            singles,
            moments,
            scratch,
        )
    return total, out_starts


def single_marginals(plan, flat, X=None):
    """Marginals of all variables given each row's evidence.

    Parameters
    ----------
    plan : BucketTree
        From :func:`prepare`.
    flat : ndarray of shape (n_parameters,)
        Log-potentials of all tables, side by side.
    X : ndarray of shape (n_rows, n_variables), optional
        State codes, of which those of the plan's observed variables are read; by default one row
        without any.

    Returns
    -------
    ndarray of shape (n_rows, sum of n_states): the variables' distributions side by side; an
    observed variable has all its mass on its state.
    """
    X = _no_evidence(plan.layout) if X is None else X
    n_states = plan.layout.n_states
    singles = np.zeros((len(X), int(n_states.sum())))
    first = plan.layout.state_start
    seen = np.flatnonzero(plan.observed)
    singles[np.arange(len(X))[:, None], first[seen] + X[:, seen]] = 1.0
    for c in _chunks(plan, len(X)):
        ones, nothing = np.ones(len(X[c])), np.zeros((1, 0))
        _downward(plan, flat, X[c], c.start, ones, singles[c], nothing, plan.layout)
    return singles


def expected_moments(plan, flat, X=None, weights=None, *, layout=None):
    """Weighted sum over rows of the clique marginals given each row's evidence.

    Parameters
    ----------
    plan, flat, X
        As in :func:`log_partitions`.
    weights : ndarray of shape (n_rows,), or None
        Ones by default.
    layout : Layout, optional
        Where the result is laid out: the same cliques, possibly untied.

    Returns
    -------
    moments : ndarray of shape (layout.n_parameters,)
    total : ndarray of shape (n_rows,), log partition of every row
    """
    X = _no_evidence(plan.layout) if X is None else X
    layout = plan.layout if layout is None else layout
    weights = np.ones(len(X)) if weights is None else weights
    moments = np.zeros((1, layout.n_parameters))
    totals = []
    for c in _chunks(plan, len(X)):
        nothing = np.zeros((len(X[c]), 0))
        total, starts = _downward(plan, flat, X[c], c.start, weights[c], nothing, moments, layout)
        totals.append(total)
        constant = starts[:, plan.constant_cliques]
        np.add.at(moments[0], constant, np.broadcast_to(weights[c][:, None], constant.shape))
    return moments[0], np.concatenate([*totals, np.zeros(0)])


def _choose(plan, flat, X, n_summed, first, uniforms_of):
    """Rows of X with the variables of buckets first and later chosen, and the rows' totals."""
    X, totals = X.copy(), [np.zeros(0)]
    for c in _chunks(plan, len(X)):
        messages, starts, total = _upward(plan, flat, X[c], n_summed)
        _check_possible(total, c.start)
        rows = np.arange(len(total))
        choose(plan.tree, first, flat, starts, messages, rows, X[c], uniforms_of(len(rows)))
        totals.append(total)
    return X, np.concatenate(totals)


def _no_uniforms(n_rows):
    return np.zeros((n_rows, 0))


def maximise(plan, flat, X=None):
    """A most probable completion of every row, shape (n_rows, n_variables).

    Parameters
    ----------
    plan : BucketTree
        From :func:`prepare`.
    flat : ndarray of shape (n_parameters,)
        Log-potentials of all tables, side by side.
    X : ndarray of shape (n_rows, n_variables), optional
        State codes, of which those of the plan's observed variables are read; by default one row
        without any.

    Returns
    -------
    ndarray of shape (n_rows, n_variables)
        State codes.
    """
    X = _no_evidence(plan.layout) if X is None else X
    return _choose(plan, flat, X, 0, 0, _no_uniforms)[0]


def marginal_map(plan, flat, X=None):
    r"""Most probable states of some variables, the others summed over (marginal MAP).

    .. math:: \max_{x_B} \log \sum_{x_A} f(x_A, x_B, e)

    for each row of evidence :math:`e`: the buckets of :math:`A` sum, then those of :math:`B`
    maximise. With no variable to maximise over it is the log partition, with all of them the
    log-potential of a joint mode.

    Parameters
    ----------
    plan : BucketTree
        From :func:`prepare` with the variables :math:`B` as ``maximised``.
    flat, X
        As in :func:`log_partitions`.

    Returns
    -------
    states : ndarray of shape (n_rows, n_variables)
        State codes: the evidence, the maximisers, and MISSING for what is summed over.
    value : ndarray of shape (n_rows,)
        The maxima, nats; not normalised.

    Raises
    ------
    ImpossibleEvidence
        A row of probability zero.

    References
    ----------
    R. Dechter (1999), Bucket elimination: a unifying framework for reasoning, Artificial
    Intelligence 113; J. D. Park and A. Darwiche (2004), Complexity results and approximation
    strategies for MAP explanations, JAIR 21.
    """
    X = _no_evidence(plan.layout) if X is None else X
    X = np.where(plan.observed, X, MISSING).astype(STATE)
    return _choose(plan, flat, X, plan.n_summed, plan.n_summed, _no_uniforms)


def sample(plan, flat, n_samples, rng, X=None):
    """Independent exact draws of the unobserved variables.

    Parameters
    ----------
    plan, flat
        As in :func:`log_partitions`.
    n_samples : int
        Draws; with ``X`` of several rows it must be their number, one draw for each.
    rng : numpy.random.Generator
    X : ndarray of shape (1 or n_samples, n_variables), or None

    Returns
    -------
    ndarray of shape (n_samples, n_variables) of state codes
    """
    X = _no_evidence(plan.layout) if X is None else X
    n_buckets = _n_buckets(plan)
    if len(X) > 1:
        return _choose(plan, flat, X, n_buckets, 0, lambda n: rng.random((n, n_buckets)))[0]
    messages, starts, total = _upward(plan, flat, X, _n_buckets(plan))
    _check_possible(total, 0)
    drawn = np.repeat(X, n_samples, axis=0)
    shared = np.zeros(n_samples, dtype=np.int64)
    size = max(1, UNIFORMS_A_CALL // max(n_buckets, 1))
    for s in range(0, n_samples, size):
        c = slice(s, min(s + size, n_samples))
        uniforms = rng.random((c.stop - s, n_buckets))
        choose(plan.tree, 0, flat, starts, messages, shared[c], drawn[c], uniforms)
    return drawn
