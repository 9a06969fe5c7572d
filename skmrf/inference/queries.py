"""The public queries: choose a method, run it, say what the answer is worth."""

import numpy as np

from .. import messages, samplers
from .._types import STATE, Assignment, Marginals, States
from .._validation import check_choice, check_evidence, check_generator, check_number
from ..likelihood import exact_fits, log_partition_bounds
from ..messages.elimination import DEFAULT_MAX_BYTES
from .rows import warn_inexact_samples


def _pattern(energy, evidence):
    """Evidence as a mask and one row of state codes."""
    evidence = check_evidence(evidence, energy.n_states)
    row = np.full((1, energy.n_variables), -1, dtype=STATE)
    for variable, state in evidence.items():
        row[0, variable] = state
    return evidence, row[0] >= 0, row


def _resolve(method, choices, graph, observed, max_bytes):
    """ "auto" is the first choice, exact, where it fits, else the second."""
    check_choice("method", method, ("auto", *choices))
    if method != "auto":
        return method
    return choices[0] if exact_fits(graph.layout, observed, max_bytes) else choices[1]


def _full_rows(row, X):
    """Rows of the unobserved variables put into rows of all variables."""
    out = np.repeat(row, len(X), axis=0)
    out[:, row[0] < 0] = X
    return out


def log_partition(
    energy,
    *,
    evidence=None,
    method="auto",
    max_bytes=DEFAULT_MAX_BYTES,
    random_state=None,
    **options,
):
    r"""Log partition function :math:`\log \sum_x f(x)`, in nats.

    Parameters
    ----------
    energy : Energy
    evidence : dict of int to int, optional
        State code of every observed variable; the sum is over the others.
    method : {"auto", "exact", "ais"}, default="auto"
        "auto" is "exact" where its forecast of memory and time fits, else "ais".
    max_bytes : float, default=4 GiB
        Memory bound of "exact".
    random_state : int, Generator, RandomState or None
    **options
        Of :func:`skmrf.likelihood.ais`.

    Returns
    -------
    LogPartition
        ``float(result)`` is its value.

    Raises
    ------
    ValueError
        "exact" beyond ``max_bytes``, with the number of bytes; impossible evidence names.

    Examples
    --------
    >>> from skmrf.datasets import make_ising
    >>> from skmrf.inference import log_partition
    >>> result = log_partition(make_ising("grid", n_variables=16, coupling=0.3))
    >>> result.method, round(float(result), 4)
    ('exact', 12.227)
    """
    evidence = check_evidence(evidence, energy.n_states)
    conditioned = energy.condition(evidence) if evidence else energy
    return log_partition_bounds(
        conditioned, method=method, max_bytes=max_bytes, random_state=random_state, **options
    )


def marginals(
    energy,
    *,
    evidence=None,
    method="auto",
    max_bytes=DEFAULT_MAX_BYTES,
    random_state=None,
    **options,
):
    """Marginal probabilities of all variables and cliques given evidence.

    Parameters
    ----------
    energy : Energy
    evidence : dict of int to int, optional
    method : {"auto", "exact", "gibbs"}, default="auto"
        "exact" eliminates variables; "gibbs" averages over Gibbs chains.
    max_bytes : float, default=4 GiB
    random_state : int, Generator, RandomState or None
    **options
        Of "gibbs": ``n_chains``, ``n_sweeps``, ``n_records``, ``n_jobs``.

    Returns
    -------
    Marginals
        ``residual`` is 0 when exact, the largest standard error of a single marginal by Gibbs
        sampling.

    Raises
    ------
    ValueError
        "exact" beyond ``max_bytes``; evidence of probability zero.

    Examples
    --------
    >>> from skmrf.energies import FactorGraph
    >>> from skmrf.inference import marginals
    >>> graph = FactorGraph([2, 2], [(0, 1)], [[[1.0, 0.0], [0.0, 1.0]]])
    >>> marginals(graph, evidence={0: 1}).single[1].round(3)
    array([0.269, 0.731])
    """
    graph = energy.factor_graph()
    evidence, observed, row = _pattern(graph, evidence)
    method = _resolve(method, ("exact", "gibbs"), graph, observed, max_bytes)
    untied = graph.layout.untied()
    if method == "exact":
        plan = messages.prepare(graph.layout, observed, max_bytes=max_bytes)
        single = messages.single_marginals(plan, graph.flat, row)[0]
        flat, _ = messages.expected_moments(plan, graph.flat, row, layout=untied)
        residual, converged, n_iter = 0.0, True, 1
    else:
        rng = check_generator(random_state)
        X, residual = samplers.averages(graph.condition(evidence), rng, **options)
        visited = _full_rows(row, X)
        single = _frequencies(visited, graph.n_states)
        flat = type(graph).from_layout(untied).moments(States(visited))["log_potentials"]
        converged, n_iter = bool(residual < 0.01), len(X)
    single = np.split(single, np.cumsum(graph.n_states))[:-1]
    return Marginals(single, untied.split(flat), converged, float(residual), n_iter, method)


def _frequencies(X, n_states):
    """Relative frequencies of the states of every variable, side by side."""
    start = np.cumsum(n_states) - n_states
    return np.bincount((X + start).ravel(), minlength=int(n_states.sum())) / len(X)


def map_assignment(
    energy,
    *,
    evidence=None,
    method="auto",
    max_bytes=DEFAULT_MAX_BYTES,
    random_state=None,
    **options,
):
    """A most probable joint state given evidence.

    Parameters
    ----------
    energy : Energy
    evidence : dict of int to int, optional
    method : {"auto", "exact", "annealing"}, default="auto"
        "exact" eliminates variables by maximisation; "annealing" is simulated annealing, without a
        proof of optimality.
    max_bytes : float, default=4 GiB
    random_state : int, Generator, RandomState or None
    **options
        Of "annealing": ``n_chains``, ``n_sweeps``, ``n_jobs``.

    Returns
    -------
    Assignment

    Examples
    --------
    >>> from skmrf.energies import PairwiseEnergy
    >>> from skmrf.inference import map_assignment
    >>> best = map_assignment(PairwiseEnergy([[0, -1.0], [-1.0, 0]], [0.5, 0.0]))
    >>> best.states.tolist(), best.optimal
    ([1, 0], True)
    """
    graph = energy.factor_graph()
    evidence, observed, row = _pattern(graph, evidence)
    method = _resolve(method, ("exact", "annealing"), graph, observed, max_bytes)
    if method == "exact":
        plan = messages.prepare(graph.layout, observed, max_bytes=max_bytes)
        states = messages.maximise(plan, graph.flat, row)[0]
    else:
        rng = check_generator(random_state)
        best, _ = samplers.anneal(graph.condition(evidence), rng, **options)
        states = _full_rows(row, best[None])[0]
    value = float(graph.log_potential(states[None])[0])
    return Assignment(states, value, method == "exact", method)


def sample(
    energy,
    n_samples,
    *,
    evidence=None,
    method="auto",
    max_bytes=DEFAULT_MAX_BYTES,
    random_state=None,
    **options,
):
    """Draw joint states given evidence.

    Parameters
    ----------
    energy : Energy
    n_samples : int
    evidence : dict of int to int, optional
    method : {"auto", "exact", "gibbs"}, default="auto"
        "exact" draws independent samples by elimination; "gibbs" takes the last states of as many
        independent chains, which only approach the distribution (a warning says so when "auto"
        falls back to it).
    max_bytes : float, default=4 GiB
    random_state : int, Generator, RandomState or None
    **options
        Of "gibbs": ``n_sweeps``, ``n_jobs``.

    Returns
    -------
    ndarray of shape (n_samples, n_variables)
        State codes.

    Examples
    --------
    >>> from skmrf.energies import PairwiseEnergy
    >>> from skmrf.inference import sample
    >>> sample(PairwiseEnergy([[0, 9.0], [9.0, 0]], [9.0, 0.0]), 2, random_state=0)
    array([[1, 1],
           [1, 1]], dtype=int16)
    """
    check_number("n_samples", n_samples, low=1, integer=True)
    graph = energy.factor_graph()
    evidence, observed, row = _pattern(graph, evidence)
    chosen = _resolve(method, ("exact", "gibbs"), graph, observed, max_bytes)
    rng = check_generator(random_state)
    if chosen == "exact":
        plan = messages.prepare(graph.layout, observed, max_bytes=max_bytes)
        return messages.sample(plan, graph.flat, n_samples, rng, row)
    if method == "auto":
        warn_inexact_samples(stacklevel=3)
    return _full_rows(row, samplers.draw(graph.condition(evidence), n_samples, rng, **options))
