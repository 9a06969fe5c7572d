"""Exact inference by variable elimination, for a batch of rows of evidence.

All computations are in the log domain, so zero potentials (-inf) and very large potentials cause
no overflow. All rows of a batch observe the same variables. :func:`prepare` builds the index
arrays for this set of observed variables.
"""

import numpy as np

from .._kernels._jit import read_only
from .._kernels.elimination import choose_states, clamped_starts, pass_downward, pass_upward
from .._utils.codes import MISSING, STATE
from .._utils.interrupts import check_time
from .tree_decomposition import build_tree, forecast

DEFAULT_MAX_BYTES = 4 * 2**30
ENTRIES_PER_CALL = 2**23
ALL_BLOCKS = 2**62
MESSAGES_PER_CHUNK = 2**21
UNIFORMS_PER_CALL = 2**20


def prepare(layout, observed=None, *, maximised=None, max_bytes=DEFAULT_MAX_BYTES):
    """Build the bucket tree of a factor graph, if it fits into memory.

    Parameters
    ----------
    layout : Layout
        Variables, cliques and tables of the factor graph.
    observed : ndarray of bool of shape (n_variables,), or None
        True for variables whose state is given by the evidence. None: no variable is observed.
    maximised : ndarray of bool of shape (n_variables,), or None
        True for variables that :func:`marginal_map` maximises over; observed ones stay fixed. They
        are eliminated last, which can need far more memory. None: no variable is maximised.
    max_bytes : float, default=4 GiB
        Upper limit of the peak memory for one row of evidence, in bytes.

    Returns
    -------
    BucketTree
        Index arrays that the other functions of this module take as ``plan``.

    Raises
    ------
    ValueError
        If the forecast of the memory exceeds ``max_bytes``. The message contains the forecast.
    """
    none = np.zeros(len(layout.n_states), dtype=bool)
    observed = none if observed is None else observed
    maximised = none if maximised is None else maximised
    cost = forecast(layout, observed, maximised)
    if cost.order is None or cost.bytes > max_bytes:
        raise ValueError(memory_message(cost, max_bytes))
    return build_tree(layout, observed, maximised, cost)


def memory_message(cost, max_bytes):
    """Return the error message for an elimination that needs more than ``max_bytes``."""
    more = "at least " if cost.order is None else ""
    return (
        f"Exact inference needs {more}{cost.bytes:.4g} bytes (largest table 2^"
        f"{cost.log2_largest:.1f} entries), more than max_bytes={max_bytes:.4g}. Raise "
        "max_bytes, observe more variables or use an approximate method."
    )


def _row_chunks(plan, n_rows):
    """Return slices of rows whose elimination messages have a limited size."""
    size = int(np.clip(MESSAGES_PER_CHUNK // max(plan.n_messages, 1), 1, 1024))
    return [slice(s, min(s + size, n_rows)) for s in range(0, n_rows, size)]


def _bucket_runs(plan, n_rows, cut=0):
    """Split the computation into short calls of a kernel, so that Ctrl-C takes effect soon.

    Each call has a slice of the rows and the tuple (first bucket, last bucket, first block, last
    block). No call contains buckets from both sides of ``cut``. A bucket with large tables is split
    by rows and by blocks.
    """
    outer, inner = plan.tree.outer.tolist(), plan.tree.inner.tolist()
    everything = slice(0, n_rows)
    runs, first, total = [], 0, 0
    for k in range(len(outer)):
        entries = outer[k] * inner[k] * n_rows
        if total and total + entries > 2 * ENTRIES_PER_CALL:
            runs.append((everything, (first, k, 0, ALL_BLOCKS)))
            first, total = k, 0
        total += entries
        if entries > 2 * ENTRIES_PER_CALL:
            runs += _split_bucket(k, n_rows, outer[k], inner[k])
            first, total = k + 1, 0
        elif total >= ENTRIES_PER_CALL or k + 1 == cut:
            runs.append((everything, (first, k + 1, 0, ALL_BLOCKS)))
            first, total = k + 1, 0
    if first < len(outer):
        runs.append((everything, (first, len(outer), 0, ALL_BLOCKS)))
    return runs


def _split_bucket(k, n_rows, outer, inner):
    """Split the computation of bucket k by rows, and the blocks of a row into short ranges."""
    size = max(1, ENTRIES_PER_CALL // inner)
    ranges = [(o, min(o + size, outer)) for o in range(0, outer, size)]
    return [(slice(b, b + 1), (k, k + 1, *blocks)) for b in range(n_rows) for blocks in ranges]


def _n_buckets(plan):
    return len(plan.tree.variable)


def _table_starts(plan, layout, X):
    """Return the index of each clique's first table entry that agrees with a row's evidence."""
    out = np.empty((len(X), layout.n_cliques), dtype=np.int64)
    X = read_only(np.ascontiguousarray(X))
    clamped_starts(X, plan.observed, *map(read_only, layout.structure), out)
    return out


def _upward(plan, flat, X, n_summed):
    """Compute the upward messages, and each row's log of the sum or maximum over all states.

    Returns the messages, the index of each clique's first table entry, and the log totals (sums or
    maxima over all states). The first ``n_summed`` buckets sum over their variables, the other
    buckets maximise.
    """
    starts, flat = _table_starts(plan, plan.layout, X), read_only(flat)
    messages = np.empty((len(X), plan.n_messages))
    for rows, part in _bucket_runs(plan, len(X), n_summed):
        check_time()
        pass_upward(plan.tree, part, flat, starts[rows], messages[rows], part[0] >= n_summed)
    roots = plan.tree.message_start[plan.tree.is_root]
    total = messages[:, roots].sum(axis=1) + flat[starts[:, plan.constant_cliques]].sum(axis=1)
    return messages, starts, total


def _no_evidence(layout):
    return np.full((1, len(layout.n_states)), MISSING, dtype=STATE)


def log_partitions(plan, flat, X=None):
    """Return, for each row, the log partition function given the evidence of the row.

    Parameters
    ----------
    plan : BucketTree
        From :func:`prepare`.
    flat : ndarray of shape (n_parameters,)
        Log-potentials of all tables, concatenated.
    X : ndarray of shape (n_rows, n_variables), or None
        State codes. Only the columns of observed variables are read. None: one row without
        evidence.

    Returns
    -------
    ndarray of shape (n_rows,)
        Log of the sum of ``f`` over the unobserved variables, in nats; -inf for evidence of
        probability zero.
    """
    X = _no_evidence(plan.layout) if X is None else X
    totals = [_upward(plan, flat, X[c], _n_buckets(plan))[2] for c in _row_chunks(plan, len(X))]
    return np.concatenate([*totals, np.zeros(0)])


class ImpossibleEvidence(ValueError):
    """Error for evidence of probability zero.

    Parameters
    ----------
    row : int
        Index of the first row of the batch whose evidence has probability zero.
    """

    def __init__(self, row):
        self.row = int(row)
        super().__init__(
            f"The evidence of row {row} has probability zero under the model, so conditional "
            "probabilities are undefined. Change the evidence, or replace zero potentials by "
            "small positive ones."
        )


def _check_possible(total, first_row):
    wrong = np.flatnonzero(~np.isfinite(total))
    if wrong.size:
        raise ImpossibleEvidence(first_row + wrong[0])


def _downward(plan, flat, X, first_row, weights, singles, moments, out_layout):
    messages, starts, total = _upward(plan, flat, X, _n_buckets(plan))
    _check_possible(total, first_row)
    upward = messages, starts
    return total, _pass_down(plan, flat, X, upward, weights, singles, moments, out_layout)


def _pass_down(plan, flat, X, upward, weights, singles, moments, out_layout):
    """Add the marginals of rows to ``singles`` and ``moments``; the upward messages are lost.

    Returns the index of each clique's first entry in ``moments``.
    """
    messages, starts = upward
    out_starts = starts if out_layout is plan.layout else _table_starts(plan, out_layout, X)
    scratch, flat = np.empty(plan.n_scratch), read_only(flat)
    # from the last bucket to the first one, but the blocks of a bucket in their order
    runs = sorted(_bucket_runs(plan, len(X)), key=lambda run: (-run[1][0], run[0].start))
    for rows, part in runs:
        check_time()
        pass_downward(
            plan.tree,
            part,
            flat,
            starts[rows],
            out_starts[rows],
            messages[rows],
            weights[rows],
            singles[rows],
            moments,
            scratch,
        )
    return out_starts


def _add_constants(plan, starts, weights, moments):
    """Add the marginals of cliques whose variables are all observed."""
    constant = starts[:, plan.constant_cliques]
    np.add.at(moments[0], constant, np.broadcast_to(weights[:, None], constant.shape))


def single_marginals(plan, flat, X=None):
    """Return, for each row, the marginals of all variables given the evidence of the row.

    Parameters
    ----------
    plan : BucketTree
        From :func:`prepare`.
    flat : ndarray of shape (n_parameters,)
        Log-potentials of all tables, concatenated.
    X : ndarray of shape (n_rows, n_variables), or None
        State codes. Only the columns of observed variables are read. None: one row without
        evidence.

    Returns
    -------
    ndarray of shape (n_rows, sum of n_states)
        Distributions of the variables, concatenated along each row. The distribution of an observed
        variable is 1 at its state and 0 elsewhere.
    """
    X = _no_evidence(plan.layout) if X is None else X
    singles = _observed_singles(plan, X)
    for c in _row_chunks(plan, len(X)):
        ones, no_moments = np.ones(len(X[c])), np.zeros((1, 0))
        _downward(plan, flat, X[c], c.start, ones, singles[c], no_moments, plan.layout)
    return singles


def all_marginals(plan, flat, X, *, layout):
    """Return the marginals of all variables for each row, and the sum of the clique marginals.

    The results are those of :func:`single_marginals` and :func:`expected_moments`, from one pass.
    ``layout`` has the cliques of the layout of ``plan``, possibly with untied tables.
    """
    singles, moments = _observed_singles(plan, X), np.zeros((1, layout.n_parameters))
    for c in _row_chunks(plan, len(X)):
        ones = np.ones(len(X[c]))
        _, starts = _downward(plan, flat, X[c], c.start, ones, singles[c], moments, layout)
        _add_constants(plan, starts, ones, moments)
    return singles, moments[0]


def _observed_singles(plan, X):
    """Return the distributions of the observed variables of each row, zeros for the others."""
    singles = np.zeros((len(X), int(plan.layout.n_states.sum())))
    seen = np.flatnonzero(plan.observed)
    singles[np.arange(len(X))[:, None], plan.layout.state_start[seen] + X[:, seen]] = 1.0
    return singles


def expected_moments(plan, flat, X=None, weights=None):
    """Return the weighted sum over rows of the clique marginals given each row's evidence.

    Parameters
    ----------
    plan : BucketTree
        From :func:`prepare`.
    flat : ndarray of shape (n_parameters,)
        Log-potentials of all tables, concatenated.
    X : ndarray of shape (n_rows, n_variables), or None
        State codes. Only the columns of observed variables are read. None: one row without
        evidence.
    weights : ndarray of shape (n_rows,), or None
        Weights of the rows. None: every weight is 1.

    Returns
    -------
    moments : ndarray of shape (n_parameters,)
        Weighted sums of the clique marginals.
    total : ndarray of shape (n_rows,)
        Log partition function given the evidence of each row, in nats.
    """
    X = _no_evidence(plan.layout) if X is None else X
    weights = np.ones(len(X)) if weights is None else weights
    moments = np.zeros((1, plan.layout.n_parameters))
    totals = []
    for c in _row_chunks(plan, len(X)):
        no_singles = np.zeros((len(X[c]), 0))
        total, starts = _downward(
            plan, flat, X[c], c.start, weights[c], no_singles, moments, plan.layout
        )
        totals.append(total)
        _add_constants(plan, starts, weights[c], moments)
    return moments[0], np.concatenate([*totals, np.zeros(0)])


def _complete_rows(plan, flat, X, n_summed, first, uniforms_of):
    """Set unobserved variables of each row of X to sampled or maximising states.

    The variables of bucket ``first`` and of all later buckets are set. Returns the completed rows
    and the log totals of the rows.
    """
    X, totals, flat = X.copy(), [np.zeros(0)], read_only(flat)
    for c in _row_chunks(plan, len(X)):
        messages, starts, total = _upward(plan, flat, X[c], n_summed)
        _check_possible(total, c.start)
        rows = np.arange(len(total))
        choose_states(plan.tree, first, flat, starts, messages, rows, X[c], uniforms_of(len(rows)))
        totals.append(total)
    return X, np.concatenate(totals)


def _no_uniforms(n_rows):
    return np.zeros((n_rows, 0))


def maximise(plan, flat, X=None):
    """Return, for each row, a most probable joint state given the evidence of the row.

    Parameters
    ----------
    plan : BucketTree
        From :func:`prepare`.
    flat : ndarray of shape (n_parameters,)
        Log-potentials of all tables, concatenated.
    X : ndarray of shape (n_rows, n_variables), or None
        State codes. Only the columns of observed variables are read. None: one row without
        evidence.

    Returns
    -------
    ndarray of shape (n_rows, n_variables)
        State codes.
    """
    X = _no_evidence(plan.layout) if X is None else X
    return _complete_rows(plan, flat, X, 0, 0, _no_uniforms)[0]


def marginal_map(plan, flat, X=None):
    r"""Return the joint mode of some variables with all others summed out (marginal MAP).

    .. math:: \max_{x_B} \log \sum_{x_A} f(x_A, x_B, e)

    This is computed for each row of evidence :math:`e`: the buckets of :math:`A` sum, then the
    buckets of :math:`B` maximise. If :math:`B` is empty the value is the log partition function. If
    :math:`B` contains all unobserved variables it is the log-potential of a joint mode.

    Parameters
    ----------
    plan : BucketTree
        From :func:`prepare` with the variables :math:`B` as ``maximised``.
    flat : ndarray of shape (n_parameters,)
        Log-potentials of all tables, concatenated.
    X : ndarray of shape (n_rows, n_variables), or None
        State codes. Only the columns of observed variables are read. None: one row without
        evidence.

    Returns
    -------
    states : ndarray of shape (n_rows, n_variables)
        State codes: the evidence, the maximising states of :math:`B`, and MISSING for the variables
        :math:`A`.
    value : ndarray of shape (n_rows,)
        The maxima, in nats; not normalised.

    Raises
    ------
    ImpossibleEvidence
        If the evidence of a row has probability zero.

    References
    ----------
    R. Dechter (1999), Bucket elimination: a unifying framework for reasoning, Artificial
    Intelligence 113; J. D. Park and A. Darwiche (2004), Complexity results and approximation
    strategies for MAP explanations, JAIR 21.
    """
    X = _no_evidence(plan.layout) if X is None else X
    X = np.where(plan.observed, X, MISSING).astype(STATE)
    return _complete_rows(plan, flat, X, plan.n_summed, plan.n_summed, _no_uniforms)


def sample(plan, flat, n_samples, rng, X=None):
    """Draw independent exact samples of the unobserved variables.

    Parameters
    ----------
    plan : BucketTree
        From :func:`prepare`.
    flat : ndarray of shape (n_parameters,)
        Log-potentials of all tables, concatenated.
    n_samples : int
        Number of samples. If ``X`` has several rows it must equal their number, and one sample is
        drawn for each row.
    rng : numpy.random.Generator
        Source of randomness.
    X : ndarray of shape (1 or n_samples, n_variables), or None
        State codes. Only the columns of observed variables are read. None: one row without
        evidence.

    Returns
    -------
    ndarray of shape (n_samples, n_variables)
        State codes.
    """
    X = _no_evidence(plan.layout) if X is None else X
    n_buckets = _n_buckets(plan)
    if len(X) > 1:
        return _complete_rows(plan, flat, X, n_buckets, 0, lambda n: rng.random((n, n_buckets)))[0]
    messages, starts, total = _upward(plan, flat, X, _n_buckets(plan))
    _check_possible(total, 0)
    flat = read_only(flat)
    drawn = np.repeat(X, n_samples, axis=0)
    shared = np.zeros(n_samples, dtype=np.int64)
    size = max(1, UNIFORMS_PER_CALL // max(n_buckets, 1))
    for s in range(0, n_samples, size):
        c = slice(s, min(s + size, n_samples))
        uniforms = rng.random((c.stop - s, n_buckets))
        choose_states(plan.tree, 0, flat, starts, messages, shared[c], drawn[c], uniforms)
    return drawn


def sample_with_marginals(plan, flat, rng, X, layout):
    """Draw one exact sample for each row, and compute the marginals of the rows.

    Parameters
    ----------
    plan : BucketTree
        From :func:`prepare`.
    flat : ndarray of shape (n_parameters,)
        Log-potentials of all tables, concatenated.
    rng : numpy.random.Generator
        Source of randomness.
    X : ndarray of shape (n_rows, n_variables)
        State codes. Only the columns of observed variables are read.
    layout : Layout
        Layout of the clique marginals. It has the same cliques as the layout of ``plan``, possibly
        with untied tables.

    Returns
    -------
    drawn : ndarray of shape (n_rows, n_variables)
        State codes.
    singles : ndarray of shape (n_rows, sum of n_states)
        Distributions of the variables, as :func:`single_marginals` returns them.
    moments : ndarray of shape (layout.n_parameters,)
        Sum of the clique marginals over rows.
    """
    drawn, n_buckets = X.copy(), _n_buckets(plan)
    singles, moments = _observed_singles(plan, X), np.zeros((1, layout.n_parameters))
    for c in _row_chunks(plan, len(X)):
        messages, starts, total = _upward(plan, flat, X[c], n_buckets)
        _check_possible(total, c.start)
        n_rows = len(total)
        rows, uniforms = np.arange(n_rows), rng.random((n_rows, n_buckets))
        choose_states(plan.tree, 0, read_only(flat), starts, messages, rows, drawn[c], uniforms)
        upward, ones = (messages, starts), np.ones(n_rows)
        starts = _pass_down(plan, flat, X[c], upward, ones, singles[c], moments, layout)
        _add_constants(plan, starts, ones, moments)
    return drawn, singles, moments[0]
