"""Inference for rows with missing entries, in batches of rows with the same missing columns."""

from contextlib import contextmanager

import numpy as np
from scipy.special import softmax

from .._utils.codes import MISSING, STATE
from .._utils.interrupts import remaining_time
from .._utils.log_weights import effective_sample_size, log_mean_exp
from .._utils.warn import LogPartitionWarning, warn_caller
from ..exact import elimination
from ..exact.completion import Completion, are_layer_sums_quick, draw_visible
from ..exact.elimination import DEFAULT_MAX_BYTES
from ..exact.enumeration import binary_states
from ..exact.expectations import max_quick_entries
from ..likelihood import ais
from ..likelihood.bounds import exact_entries
from ..samplers import gibbs_queries
from ..samplers.gibbs_queries import ClampedChains
from .conditioned import ConditionedModel, row_evidence, warn_inexact_samples
from .methods import MARGINALS, SAMPLES, quick_gibbs_marginals

MAX_ENUMERATED = 10  # missing entries of a row, with hidden units summed out
ENTRIES_AT_ONCE = 2**22
QUICK_ENTRIES = 2e6  # of an elimination for one row that takes about 0.1 s, as an estimate does
N_CHAINS, N_SWEEPS, N_RECORDS = 64, 400, 50  # of a row with more missing entries
MAX_CHAINS, UPDATES = 1024, 5e6  # updates of all chains of marginals that take about 0.1 s
FEW_BLOCKS = {"n_chains": 64, "n_sweeps": 50}  # the same with block moves
N_TEMPERATURES, ROWS_AT_ONCE = 1000, 64
MIN_SIZE = 3.0  # effective number of chains, below which an estimate is uncertain
PATH = np.minimum(np.linspace(0.0, 2.0, N_SWEEPS + 1), 1.0)
COLDEST = 4.0  # inverse temperature of the search for a mode
ROUNDING = 1e-9  # nats


def _missing_patterns(X, is_selected=None):
    """Yield, for each pattern of missing entries, a mask of observed variables and row indices.

    If ``is_selected`` is given, only rows for which it is True are yielded.
    """
    if is_selected is not None:
        selected = np.flatnonzero(is_selected)
        for observed, rows in _missing_patterns(X[selected]) if len(selected) else ():
            yield observed, selected[rows]
        return
    observed = X != MISSING
    packed = np.packbits(observed, axis=1)
    _, first, inverse = np.unique(packed, axis=0, return_index=True, return_inverse=True)
    inverse = inverse.ravel()  # numpy 2.0 returns a column
    by_pattern = np.argsort(inverse, kind="stable")
    bounds = np.searchsorted(inverse[by_pattern], np.arange(len(first) + 1))
    for p, row in enumerate(first):
        yield observed[row], by_pattern[bounds[p] : bounds[p + 1]]


def _find_costs(graph, X, is_left, max_bytes):
    """Return the cost of elimination, observed variables and rows of all missing patterns.

    The cost is a number of table entries for each row. Only rows for which ``is_left`` is True are
    returned.
    """
    return [
        (exact_entries(graph.layout, observed, max_bytes), observed, rows)
        for observed, rows in _missing_patterns(X, is_left)
    ]


def _plan_rows(patterns, *, is_shared=False, is_limited=True):
    """Yield missing patterns, those of the quickest elimination first.

    A pattern is a mask of observed variables, row indices, and whether elimination is used. Quick
    elimination is always used. If ``is_limited``, slow elimination is used until about a minute is
    over. If ``is_shared``, all rows of a pattern need only one elimination.
    """
    entries_left = max_quick_entries()
    for entries, observed, rows in sorted(patterns, key=lambda pattern: pattern[0]):
        n_exact = len(rows) if entries < np.inf else 0
        if n_exact and is_limited and entries > QUICK_ENTRIES:
            n_needed = 1 if is_shared else len(rows)
            n_used = min(int(max(entries_left, 0.0) // entries), n_needed)
            n_exact = len(rows) * n_used // n_needed
            entries_left -= entries * max(n_used, 1)
        for part, is_exact in ((rows[:n_exact], True), (rows[n_exact:], False)):
            if len(part):
                yield observed, part, is_exact


def _run_elimination(query, graph, observed, X, rows, max_bytes):
    """Run variable elimination for the rows of X that have a given pattern of missing entries.

    Errors give the index of the row in X.
    """
    plan = elimination.prepare(graph.layout, observed, max_bytes=max_bytes)
    with _index_of_error(rows):
        return query(plan, graph.flat, X[rows])


@contextmanager
def _index_of_error(rows):
    """Let an error for impossible evidence give the index of its row."""
    try:
        yield
    except elimination.ImpossibleEvidence as error:
        raise elimination.ImpossibleEvidence(rows[error.row]) from None


def row_log_partitions(graph, X, *, max_bytes=DEFAULT_MAX_BYTES, rng=None, exact=False):
    """Return, for each row, the log of the sum of ``f`` over the states of missing entries.

    The sum is exact where variable elimination fits. If it takes more than about 0.1 s per row, it
    is used until about a minute is over. The sums of the other rows are estimated by annealed
    importance sampling, row by row.

    Parameters
    ----------
    graph : FactorGraph
        Model over all variables.
    X : ndarray of shape (n_rows, n_variables)
        State codes; MISSING (-1) where an entry is missing.
    max_bytes : float, default=4 GiB
        Memory limit of exact inference, in bytes, for each missing pattern.
    rng : int, Generator, RandomState or None, default=None
        Seed or generator of annealed importance sampling.
    exact : bool, default=False
        Whether elimination is used for all rows where it fits, however long it takes.

    Returns
    -------
    ndarray of shape (n_rows,)
        Unnormalised log-probabilities of the observed entries, in nats.
    """
    done, out = Completion(graph).log_partitions(X)
    patterns = _find_costs(graph, X, ~done, max_bytes)
    for observed, rows, is_exact in _plan_rows(patterns, is_limited=not exact):
        if observed.all():
            out[rows] = graph.log_potential(X[rows])
        elif is_exact:
            out[rows] = _run_elimination(
                elimination.log_partitions, graph, observed, X, rows, max_bytes
            )
        else:
            out[rows] = [
                ais(graph.condition(row_evidence(X[r])), random_state=rng).value for r in rows
            ]
    return out


def row_marginals(graph, X, *, max_bytes=DEFAULT_MAX_BYTES, rng=None):
    """Return the marginals of all variables given the observed entries of each row.

    The marginals are exact where variable elimination fits. If it takes more than about 0.1 s per
    row, it is used until about a minute is over. The marginals of the other rows are averages over
    Gibbs chains, row by row.

    Parameters
    ----------
    graph : FactorGraph
        Model over all variables.
    X : ndarray of shape (n_rows, n_variables)
        State codes; MISSING (-1) where an entry is missing.
    max_bytes : float, default=4 GiB
        Memory limit of exact inference, in bytes, for each missing pattern.
    rng : Generator, int or None, default=None
        Seed or generator of the Gibbs chains.

    Returns
    -------
    list of ndarray of shape (n_rows, n_states_i)
        One array of probabilities for each variable.
    """
    rng, completion = np.random.default_rng(rng), Completion(graph)
    done, out = completion.marginals(X)
    for observed, rows, is_exact in _plan_rows(_find_costs(graph, X, ~done, max_bytes)):
        if is_exact:
            out[rows] = _run_elimination(
                elimination.single_marginals, graph, observed, X, rows, max_bytes
            )
        else:
            for r in rows:
                with _index_of_error([r]):
                    out[r] = _gibbs_marginals(graph, X[r], rng)
    return np.split(out, np.cumsum(graph.n_states)[:-1], axis=1)


def _gibbs_marginals(graph, row, rng):
    model = ConditionedModel.of_row(graph, row, rng)
    if model.choose_chains() == "block-gibbs":
        return np.concatenate(MARGINALS["block-gibbs"](model, **FEW_BLOCKS).single)
    return quick_gibbs_marginals(model)


def row_modes(graph, X, *, max_bytes=DEFAULT_MAX_BYTES, rng=None):
    """Impute the missing entries of each row by their joint mode given the observed entries.

    The mode is exact where a search of about 0.1 s finds it, or variable elimination fits. If
    elimination takes more than about 0.1 s per row, it is used until about a minute is over. The
    modes of the other rows are the best states that simulated annealing finds.

    Parameters
    ----------
    graph : FactorGraph
        Model over all variables.
    X : ndarray of shape (n_rows, n_variables)
        State codes; MISSING (-1) where an entry is missing.
    max_bytes : float, default=4 GiB
        Memory limit of exact inference, in bytes, for each missing pattern.
    rng : Generator, int or None, default=None
        Seed or generator of simulated annealing.

    Returns
    -------
    ndarray of shape (n_rows, n_variables)
        Rows of state codes without missing entries.
    """
    rng = np.random.default_rng(rng)

    def anneal(rows, observed):
        out = rows.copy()
        for row in out:
            row[~observed] = gibbs_queries.anneal(graph.condition(row_evidence(row)), rng)[0]
        return out

    completion = Completion(graph)
    done, out = completion.modes(X)
    patterns = _find_costs(graph, X, ~done, max_bytes)
    _search_slow_rows(completion, patterns, X, done, out)
    left = [(entries, observed, rows[~done[rows]]) for entries, observed, rows in patterns]
    return _impute_rows(graph, out, _plan_rows(left), max_bytes, elimination.maximise, anneal)


def _search_slow_rows(completion, patterns, X, done, out):
    """Search the modes of rows whose elimination is slow, those with few missing entries first.

    ``done`` and ``out`` are updated. The search ends when it finds no mode of many rows.
    """
    slow = [rows for entries, _, rows in patterns if entries > QUICK_ENTRIES]
    slow = np.concatenate([np.zeros(0, dtype=int), *slow])
    slow = slow[np.argsort((X[slow] == MISSING).sum(axis=1), kind="stable")]
    for first in range(0, len(slow), ROWS_AT_ONCE):
        part = slow[first : first + ROWS_AT_ONCE]
        done[part], out[part] = completion.modes(X[part], many=True)
        if not done[part].any() or remaining_time() < 0:
            break


def row_samples(graph, X, rng, *, max_bytes=DEFAULT_MAX_BYTES, n_jobs=None, device="cpu"):
    """Impute the missing entries of each row by one random draw given the observed entries.

    The draws are exact where variable elimination fits. If it takes more than about 0.1 s per row,
    it is used until about a minute is over. The draws of the other rows are the last states of
    Gibbs chains, and a warning says so.

    Parameters
    ----------
    graph : FactorGraph
        Model over all variables.
    X : ndarray of shape (n_rows, n_variables)
        State codes; MISSING (-1) where an entry is missing.
    rng : Generator
        Random generator of the draws.
    max_bytes : float, default=4 GiB
        Memory limit of exact inference, in bytes, for each missing pattern.
    n_jobs : int, optional
        Number of threads over blocks of chains. Results do not depend on it.
    device : {"cpu", "gpu", "cuda", "jax"}, default="cpu"
        Device of the chains, as in :func:`skmrf.likelihood.ais`.

    Returns
    -------
    ndarray of shape (n_rows, n_variables)
        Rows of state codes without missing entries.
    """

    def draw_by_elimination(plan, flat, rows):
        shared = rows[:1] if (rows == rows[0]).all() else rows
        return elimination.sample(plan, flat, len(rows), rng, shared)

    def draw_by_gibbs(rows, _):
        warn_inexact_samples()
        model = ConditionedModel.of_row(graph, rows[0], rng)
        if device == "cpu" and (rows == rows[0]).all() and model.choose_chains() != "gibbs":
            return SAMPLES["block-gibbs"](model, len(rows), n_jobs=n_jobs)
        moved = gibbs_queries.draw_missing(graph, rows, rng, n_jobs=n_jobs, device=device)
        gibbs_queries.check_possible(graph, moved)
        return moved

    is_given_once = len(X) > 1 and (X[0] == X).all()  # all rows then share one elimination
    done, out = (np.zeros(len(X), bool), X) if is_given_once else Completion(graph).samples(X, rng)
    plan = _plan_rows(_find_costs(graph, X, ~done, max_bytes), is_shared=is_given_once)
    return _impute_rows(graph, out, plan, max_bytes, draw_by_elimination, draw_by_gibbs)


def _impute_rows(graph, X, plan, max_bytes, impute_exactly, approximate):
    """Impute the missing entries of the rows of a plan: exactly if it says so, or approximately."""
    out = X.copy()
    for observed, rows, is_exact in plan:
        if observed.all():
            continue
        if is_exact:
            out[rows] = _run_elimination(impute_exactly, graph, observed, X, rows, max_bytes)
        else:
            with _index_of_error(rows):
                out[rows] = approximate(X[rows], observed)
    return out


def latent_log_partitions(energy, X, *, rng=None):
    """Return the result of :func:`row_log_partitions` for a model with hidden units.

    Rows with at most 10 missing entries are exact. The others are estimated by annealed importance
    sampling with 64 chains. A warning says so if the weights of few chains dominate an estimate.

    Parameters
    ----------
    energy : HiddenLayerEnergy
        Model with two-state variables.
    X : ndarray of shape (n_rows, n_visible)
        State codes of the visible variables; MISSING where an entry is missing.
    rng : Generator, int or None, default=None
        Seed or generator of annealed importance sampling.

    Returns
    -------
    ndarray of shape (n_rows,)
        Unnormalised log-probabilities of the observed entries, in nats.
    """
    out, rng, sizes = np.empty(len(X)), np.random.default_rng(rng), [np.inf]
    for rows, _, log_f in _enumerate_missing(energy, X):
        out[rows] = np.logaddexp.reduce(log_f, axis=1)
    n_observed = (X != MISSING).sum(axis=1)
    for rows, chains in _start_chains(energy, X, rng):
        _, logs = chains.sweep(np.linspace(0.0, 1.0, N_TEMPERATURES + 1))
        logs = np.split(logs, len(rows))
        out[rows] = [log_mean_exp(w) for w in logs] - n_observed[rows] * np.log(2.0)
        sizes.extend(map(effective_sample_size, logs))
    _warn_few_chains("Log-likelihoods", min(sizes))
    return out


def _warn_few_chains(what, least_size):
    """Warn if the weights of few annealed chains dominate an estimate."""
    if least_size < MIN_SIZE:
        warn_caller(
            f"{what} of rows with more than 10 missing entries are uncertain: as few as "
            f"{least_size:.1f} annealed chains are effective. Impute more entries.",
            LogPartitionWarning,
        )


def latent_samples(energy, X, rng, *, max_bytes=DEFAULT_MAX_BYTES, **options):
    """Draw the missing entries of rows of a model with hidden units, given the other entries.

    For a :class:`~skmrf.energies.BipartiteEnergy`, the draws are exact and independent if sums over
    the smaller layer take a few seconds for all distinct rows. Otherwise they are exact for rows
    with at most 10 missing entries, and states of annealed Gibbs chains for the other rows.

    Parameters
    ----------
    energy : HiddenLayerEnergy
        Model with two-state variables.
    X : ndarray of shape (n_rows, n_visible)
        State codes of the visible variables; MISSING where an entry is missing.
    rng : Generator
        Source of randomness.
    max_bytes : float, default=4 GiB
        Maximum memory of exact draws, in bytes.
    **options
        Options of :func:`~skmrf.samplers.gibbs_queries.draw_missing`.

    Returns
    -------
    ndarray of shape (n_rows, n_visible)
        Complete rows.
    """
    rows, inverse, counts = np.unique(X, axis=0, return_inverse=True, return_counts=True)
    if are_layer_sums_quick(energy, rows, max_bytes):
        return draw_visible(energy, rows, inverse.ravel(), rng)
    out, copies = np.array(X), np.split(np.argsort(inverse.ravel()), np.cumsum(counts)[:-1])
    for part, states, log_f in _enumerate_missing(energy, rows):
        for row, p in zip(part, softmax(log_f, axis=1), strict=True):
            free = rows[row] == MISSING
            out[np.ix_(copies[row], free)] = rng.choice(states, counts[row], p=p)
    is_left = (X == MISSING).sum(axis=1) > MAX_ENUMERATED
    if is_left.any():
        out[is_left] = gibbs_queries.draw_missing(energy, X[is_left], rng, **options)
    return out


def latent_marginals(energy, X, *, rng=None):
    """Return the result of :func:`row_marginals` for a model with hidden units.

    Rows with at most 10 missing entries are exact. The others are averages over 64 Gibbs chains,
    or up to 1024 in small models, with the weights of annealed importance sampling. A warning says
    so if few chains dominate an average.

    Parameters
    ----------
    energy : HiddenLayerEnergy
        Model with two-state variables.
    X : ndarray of shape (n_rows, n_visible)
        State codes of the visible variables; MISSING where an entry is missing.
    rng : Generator, int or None, default=None
        Seed or generator of the Gibbs chains.

    Returns
    -------
    list of ndarray of shape (n_rows, 2)
        One array of probabilities for each visible variable.
    """
    ones, rng, sizes = np.array(X, dtype=float), np.random.default_rng(rng), [np.inf]
    for rows, states, log_f in _enumerate_missing(energy, X):
        p = softmax(log_f, axis=1)
        ones[np.ix_(rows, X[rows[0]] == MISSING)] = p @ states
    n_left = np.count_nonzero((X == MISSING).sum(axis=1) > MAX_ENUMERATED)
    n_updates = max(n_left, 1) * 1.5 * N_SWEEPS * energy.sweep_work  # half of them are recorded
    n_chains = int(np.clip(UPDATES // n_updates, N_CHAINS, MAX_CHAINS))
    for rows, chains in _start_chains(energy, X, rng, n_chains):
        _, logs = chains.sweep(PATH)
        logs = logs.reshape(len(rows), n_chains)
        sizes.extend(map(effective_sample_size, logs))
        weights = softmax(logs, axis=1)[:, :, None]
        total = np.zeros((len(rows), X.shape[1]))
        for _ in range(N_RECORDS):
            chains.sweep(np.ones(N_SWEEPS // (2 * N_RECORDS) + 1))
            total += (weights * chains.X.reshape(len(rows), n_chains, -1)).sum(axis=1)
        ones[rows] = np.minimum(total / N_RECORDS, 1.0)
    _warn_few_chains("Marginals", min(sizes))
    return [np.stack([1.0 - p, p], axis=1) for p in ones.T]


def latent_modes(energy, X, *, rng=None):
    """Return the result of :func:`row_modes` for a model with hidden units, which are summed out.

    Rows with at most 10 missing entries are exact. The others are the best states that simulated
    annealing and changes of single variables find.

    Parameters
    ----------
    energy : HiddenLayerEnergy
        Model with two-state variables.
    X : ndarray of shape (n_rows, n_visible)
        State codes of the visible variables; MISSING where an entry is missing.
    rng : Generator, int or None, default=None
        Seed or generator of simulated annealing.

    Returns
    -------
    ndarray of shape (n_rows, n_visible)
        Rows of state codes without missing entries.
    """
    out, rng = X.copy(), np.random.default_rng(rng)
    for rows, states, log_f in _enumerate_missing(energy, X):
        free = X[rows[0]] == MISSING
        out[np.ix_(rows, free)] = states[log_f.argmax(axis=1)]
    for rows, chains in _start_chains(energy, X, rng):
        chains.sweep(np.concatenate([PATH, np.geomspace(1.0, COLDEST, N_SWEEPS // 2)]))
        values = energy.log_marginal(chains.X).reshape(len(rows), N_CHAINS)
        best = values.argmax(axis=1) + N_CHAINS * np.arange(len(rows))
        out[rows] = _improve(energy, chains.X[best], X[rows] == MISSING)
    return out


def _improve(energy, states, is_free):
    """Change single free entries of each row as long as its log marginal increases."""
    values, has_changed = energy.log_marginal(states), True
    while has_changed:
        has_changed = False
        for i in np.flatnonzero(is_free.any(axis=0)):
            changed = states.copy()
            changed[:, i] = 1 - changed[:, i]
            others = energy.log_marginal(changed)
            better = is_free[:, i] & (others > values + ROUNDING)
            states[better, i], values[better] = changed[better, i], others[better]
            has_changed |= bool(better.any())
    return states


def _enumerate_missing(energy, X):
    """Yield rows with the same few missing entries, all states of these, and log marginals."""
    for observed, rows in _missing_patterns(X):
        n_missing = np.count_nonzero(~observed)
        if n_missing > MAX_ENUMERATED:
            continue
        states = binary_states(n_missing).astype(STATE)
        n_rows = max(1, ENTRIES_AT_ONCE // (len(states) * sum(energy.weights.shape)))
        for first in range(0, len(rows), n_rows):
            part = rows[first : first + n_rows]
            complete = np.repeat(X[part], len(states), axis=0)
            complete[:, ~observed] = np.tile(states, (len(part), 1))
            yield part, states, energy.log_marginal(complete).astype(float).reshape(len(part), -1)


def _start_chains(energy, X, rng, n_chains=N_CHAINS):
    """Yield rows with many missing entries, and Gibbs chains of the missing entries of each."""
    rows = np.flatnonzero((X == MISSING).sum(axis=1) > MAX_ENUMERATED)
    for first in range(0, len(rows), ROWS_AT_ONCE):
        part = rows[first : first + ROWS_AT_ONCE]
        yield part, ClampedChains(energy, np.repeat(X[part], n_chains, axis=0), rng)
