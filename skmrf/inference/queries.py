"""Public inference functions: log partition function, marginals, MAP states and samples."""

import numbers
from collections.abc import Iterable

import numpy as np

from .._jax import DEVICES
from .._utils.codes import check_evidence
from .._utils.interrupts import limit_time, remaining_time
from .._utils.parameters import check_bytes, check_choice, check_number
from .._utils.results import Assignment
from .._utils.warn import warn_caller
from ..energies.protocols import check_energy
from ..exact.elimination import DEFAULT_MAX_BYTES
from ..likelihood import log_partition_bounds
from .conditioned import ConditionedModel, answer, restrict_order, warn_inexact_samples
from .methods import MARGINAL_MODES, MARGINALS, MODES, SAMPLES


def log_partition(
    energy,
    *,
    evidence=None,
    method="auto",
    max_bytes=DEFAULT_MAX_BYTES,
    time_limit=None,
    random_state=None,
    **options,
):
    r"""Return the log partition function :math:`\log \sum_x f(x)` in nats.

    Parameters
    ----------
    energy : Energy
        Model with unnormalised density :math:`f(x)`.
    evidence : dict of int to int, optional
        State code of every observed variable, keyed by variable index. The sum is over the
        unobserved variables. By default no variable is observed.
    method : {"auto", "exact", "ais", "bpchain", "bethe", "trw", "mean-field"}, default="auto"
        Inference method:

        - "exact": enumeration or variable elimination.
        - "ais": annealed importance sampling.
        - "bpchain": importance sampling from chained belief propagation.
        - "bethe": Bethe approximation by belief propagation.
        - "trw": tree-reweighted upper bound.
        - "mean-field": lower bound of naive mean field.
        - "auto": "exact" if its forecast memory and time are small enough, else "ais".
    max_bytes : float, default=4 GiB
        Memory limit of "exact", in bytes.
    time_limit : float, optional
        Limit of the wall time in seconds. By default there is no limit. "ais" and the iterative
        methods stop early: the result then has ``converged=False``. "exact" and "bpchain" raise a
        TimeoutError. "auto" uses "exact" for at most half of the time.
    random_state : int, Generator, RandomState or None, default=None
        Seed or generator of the methods that draw random numbers. Other methods ignore it.
    **options
        Options of the method, listed in :func:`skmrf.likelihood.log_partition_bounds`.

    Returns
    -------
    LogPartition
        Value with its standard error and limits, in nats. ``float(result)`` is the value.

    Raises
    ------
    ValueError
        If "exact" needs more than ``max_bytes`` bytes (the message states how many), or the
        evidence names a variable or a state that does not exist.

    Examples
    --------
    >>> from skmrf.datasets import make_ising
    >>> from skmrf.inference import log_partition
    >>> result = log_partition(make_ising("grid", n_variables=16, coupling=0.3))
    >>> result.method, round(float(result), 4)
    ('exact', 12.227)
    """
    check_energy(energy)
    check_bytes(max_bytes)
    evidence = check_evidence(evidence, energy.n_states)
    conditioned = energy.condition(evidence) if evidence else energy
    if "order" in options:
        observed = np.isin(np.arange(len(energy.n_states)), list(evidence))
        options["order"] = restrict_order(options["order"], observed)
    with limit_time(check_time_limit(time_limit)):
        return log_partition_bounds(
            conditioned, method=method, max_bytes=max_bytes, random_state=random_state, **options
        )


def marginals(
    energy,
    *,
    evidence=None,
    method="auto",
    max_bytes=DEFAULT_MAX_BYTES,
    time_limit=None,
    random_state=None,
    **options,
):
    """Return the marginal probabilities of all variables and cliques given evidence.

    Parameters
    ----------
    energy : Energy
        Model with unnormalised density :math:`f(x)`.
    evidence : dict of int to int, optional
        State code of every observed variable, keyed by variable index. By default no variable is
        observed.
    method : {"auto", "exact", "gibbs", "block-gibbs", "bp", "trw", "mean-field", "bpchain"}, \
default="auto"
        Inference method:

        - "exact": variable elimination.
        - "gibbs": averages over Gibbs chains.
        - "block-gibbs": averages over Gibbs chains that draw most variables together, by exact
          elimination given the others. In each draw, these variables contribute their exact
          conditional probabilities. The model has at most 5,000 variables.
        - "bp": sum-product belief propagation.
        - "trw": tree-reweighted belief propagation.
        - "mean-field": the best product distribution.
        - "bpchain": weighted draws of chained belief propagation.
        - "auto": "exact" if its forecast memory and time are small enough. Else "block-gibbs" if
          potentials are zero, because zeros separate the chains of "gibbs"; else "gibbs".
    max_bytes : float, default=4 GiB
        Memory limit of "exact", in bytes.
    time_limit : float, optional
        Limit of the wall time in seconds. By default there is no limit. "gibbs" and the iterative
        methods stop early: the result then has ``converged=False``. "exact" and "bpchain" raise a
        TimeoutError, and so does "block-gibbs" before its first average. "auto" uses "exact" for at
        most half of the time, and then Gibbs chains, which continue until the standard errors are
        below 0.01, or until the limit if that is earlier, unless ``n_sweeps`` is given.
    random_state : int, Generator, RandomState or None, default=None
        Seed or generator of the methods that draw random numbers. Other methods ignore it.
    **options
        Options of the method:

        - "gibbs": ``n_chains``, ``n_sweeps``, ``n_records``, ``n_jobs``.
        - "block-gibbs": ``n_chains``, ``n_sweeps``, ``n_jobs``.
        - "bp" and "trw": ``schedule`` ("sequential", "residual" or "flooding"), ``damping``,
          ``max_iter``, ``tol``.
        - "mean-field": ``max_iter``, ``tol``.
        - "bpchain": ``n_samples``, ``conditionals``, ``order``, ``clip``.

    Returns
    -------
    Marginals
        Probabilities of each variable and each clique. ``residual`` is 0 for "exact", the largest
        standard error of a single marginal for Gibbs chains, the size of the last change for the
        iterative methods, and for "bpchain" the larger of that standard error and one over the
        effective sample size. Neither ``residual`` nor ``converged`` accounts for modes that no
        draw or chain has visited. "auto" warns if Gibbs chains have not converged.

    Raises
    ------
    ValueError
        If "exact" needs more than ``max_bytes`` bytes, or the evidence has probability zero.

    Examples
    --------
    >>> from skmrf.energies import FactorGraph
    >>> from skmrf.inference import marginals
    >>> graph = FactorGraph([2, 2], [(0, 1)], [[[1.0, 0.0], [0.0, 1.0]]])
    >>> marginals(graph, evidence={0: 1}).single[1].round(3)
    array([0.269, 0.731])
    """
    model = ConditionedModel.from_energy(energy, evidence, max_bytes, random_state)
    with limit_time(check_time_limit(time_limit)):
        _, result = answer(MARGINALS, method, model, options)
    if method == "auto" and result.method == "gibbs" and model.has_zeros:
        warn_caller(
            "The results are averages over Gibbs chains of single variables. Zero potentials "
            "separate the states of these chains, so the results are unreliable, also where the "
            "standard errors are small. Increase time_limit or max_bytes, or use "
            'method="block-gibbs" for a model of at most 5,000 variables.'
        )
    elif method == "auto" and not result.converged:
        limit = "" if time_limit is None else "time_limit, "
        warn_caller(
            "Exact marginals need too much memory or time. The results are averages over Gibbs "
            f"chains, with standard errors up to {result.residual:.2g}, and larger errors if the "
            f"chains have missed states of high probability. Increase {limit}max_bytes, n_chains "
            "or n_sweeps.",
        )
    return result


def check_time_limit(time_limit):
    """Check a time limit in seconds, and return it."""
    if time_limit is not None:
        check_number("time_limit", time_limit, low=0)
    return time_limit


def map_assignment(
    energy,
    *,
    evidence=None,
    method="auto",
    max_bytes=DEFAULT_MAX_BYTES,
    time_limit=None,
    random_state=None,
    **options,
):
    """Return a most probable joint state (MAP state) given evidence.

    Parameters
    ----------
    energy : Energy
        Model with unnormalised density :math:`f(x)`.
    evidence : dict of int to int, optional
        State code of every observed variable, keyed by variable index. By default no variable is
        observed.
    method : {"auto", "exact", "local-search", "annealing", "decimation"}, default="auto"
        Inference method. Only "exact" proves that the state is optimal.

        - "exact": max-product variable elimination.
        - "local-search": starts at the states of "annealing" and "decimation". Each move maximises
          exactly over a random set of most variables, given the others. If several moves find
          nothing better, a random draw disturbs the state.
        - "annealing": simulated annealing.
        - "decimation": max-product belief propagation that repeatedly clamps the variables with
          the clearest maximum and continues with the others.
        - "auto": "exact" if its forecast memory and time are small enough, else
          "local-search".
    max_bytes : float, default=4 GiB
        Memory limit of "exact", in bytes.
    time_limit : float, optional
        Limit of the wall time in seconds. By default there is no limit. "exact" raises a
        TimeoutError, and the other methods return the best state found so far. "auto" uses "exact"
        for at most half of the time.
    random_state : int, Generator, RandomState or None, default=None
        Seed or generator of the methods that draw random numbers. Other methods ignore it.
    **options
        Options of the method:

        - "local-search": ``n_windows`` (number of moves), ``n_chains``, ``n_sweeps``, ``n_jobs``.
        - "annealing": ``n_chains``, ``n_sweeps``, ``n_jobs``.
        - "decimation": ``schedule``, ``damping``, ``max_iter``, ``tol``.

    Returns
    -------
    Assignment
        State codes of all variables and their unnormalised log-probability in nats.

    Raises
    ------
    ValueError
        If the evidence has probability zero, or if the method finds only states of probability
        zero.

    Examples
    --------
    >>> from skmrf.energies import PairwiseEnergy
    >>> from skmrf.inference import map_assignment
    >>> best = map_assignment(PairwiseEnergy([[0, -1.0], [-1.0, 0]], [0.5, 0.0]))
    >>> best.states.tolist(), best.optimal
    ([1, 0], True)
    """
    model = ConditionedModel.from_energy(energy, evidence, max_bytes, random_state)
    with limit_time(check_time_limit(time_limit)):
        chosen, states = answer(MODES, method, model, options, "local-search")
    value = float(model.graph.log_potential(states[None])[0])
    _check_is_possible(value, chosen)
    return Assignment(states, value, chosen == "exact", chosen)


def marginal_map(
    energy,
    variables,
    *,
    evidence=None,
    method="auto",
    max_bytes=DEFAULT_MAX_BYTES,
    time_limit=None,
    random_state=None,
    **options,
):
    r"""Return the most probable joint state of some variables, with all others summed out.

    .. math:: \max_{x_B} \log \sum_{x_A} f(x_A, x_B)

    Parameters
    ----------
    energy : Energy
        Model with unnormalised density :math:`f(x)`.
    variables : sequence of int
        Indices of the variables :math:`B` to maximise over.
    evidence : dict of int to int, optional
        State code of every observed variable, keyed by variable index. By default no variable is
        observed.
    method : {"auto", "exact", "bp"}, default="auto"
        Inference method:

        - "exact": variable elimination, the summed variables first.
        - "bp": mixed-product belief propagation.
        - "auto": "exact" if its forecast memory and time are small enough, else "bp".
    max_bytes : float, default=4 GiB
        Memory limit of "exact", in bytes.
    time_limit : float, optional
        Limit of the wall time in seconds. By default there is no limit. "exact" raises a
        TimeoutError, and "bp" stops early. "auto" uses "exact" for at most half of the time.
    random_state : int, Generator, RandomState or None, default=None
        Ignored, because these methods draw no random numbers.
    **options
        Options of "bp": ``schedule``, ``damping``, ``max_iter``, ``tol``.

    Returns
    -------
    Assignment
        State codes, MISSING (-1) for the variables that are summed out. ``log_potential`` is the
        log of the sum in nats; with "bp" it is its Bethe approximation.

    Raises
    ------
    ValueError
        If the evidence has probability zero, or if "bp" finds a state of probability zero.

    Examples
    --------
    >>> from skmrf.energies import FactorGraph
    >>> from skmrf.inference import marginal_map
    >>> graph = FactorGraph([2, 2], [(0, 1)], [[[2.0, 0.0], [1.5, 1.5]]])
    >>> best = marginal_map(graph, [0])
    >>> best.states.tolist(), round(best.log_potential, 4)
    ([1, -1], 2.1931)
    """
    model = ConditionedModel.from_energy(energy, evidence, max_bytes, random_state)
    maximised = _variable_mask(variables, model.graph.n_variables)
    with limit_time(check_time_limit(time_limit)):
        chosen, (states, value) = answer(
            MARGINAL_MODES, method, model, options, "bp", maximised=maximised
        )
    _check_is_possible(value, chosen)
    return Assignment(states, value, chosen == "exact", chosen)


def _check_is_possible(log_potential, method):
    """Raise an error if a method found no state of positive probability."""
    if log_potential == -np.inf:
        raise ValueError(
            f'method="{method}" found no state of positive probability: the evidence is '
            'impossible, or zero potentials are hard to satisfy. Use method="exact", or replace '
            "zero potentials by small positive ones."
        )


def _variable_mask(variables, n):
    """Return a mask of shape (n,) that is True for the given variables."""
    mask = np.zeros(n, dtype=bool)
    if not isinstance(variables, Iterable):
        raise TypeError(f"variables must be a sequence of variable indices; got {variables!r}.")
    for v in variables:
        is_index = isinstance(v, numbers.Integral) and not isinstance(v, bool)
        if not is_index or not 0 <= v < n:
            raise ValueError(f"variables contains {v!r}, but variable indices are 0 to {n - 1}.")
        mask[v] = True
    return mask


def sample(
    energy,
    n_samples,
    *,
    evidence=None,
    method="auto",
    max_bytes=DEFAULT_MAX_BYTES,
    time_limit=None,
    random_state=None,
    **options,
):
    """Draw joint states given evidence.

    Parameters
    ----------
    energy : Energy
        Model with unnormalised density :math:`f(x)`.
    n_samples : int
        Number of samples, at least 1.
    evidence : dict of int to int, optional
        State code of every observed variable, keyed by variable index. By default no variable is
        observed.
    method : {"auto", "exact", "gibbs", "block-gibbs", "bpchain"}, default="auto"
        Sampling method:

        - "exact": independent samples by variable elimination.
        - "gibbs": the last states of ``n_samples`` independent Gibbs chains, which only
          approximate the distribution. A warning says so when "auto" uses them.
        - "block-gibbs": the same with chains that draw most variables together, by exact
          elimination given the others. The model has at most 5,000 variables.
        - "bpchain": draws by chained belief propagation. ``n_steps`` steps of independence
          Metropolis-Hastings bring the draws closer to the distribution.
        - "auto": "exact" if its forecast memory and time are small enough. Else "block-gibbs" if
          potentials are zero, because zeros separate the chains of "gibbs"; else "gibbs".
    max_bytes : float, default=4 GiB
        Memory limit of "exact", in bytes.
    time_limit : float, optional
        Limit of the wall time in seconds. By default there is no limit. Gibbs chains stop early and
        warn, because they may not have converged. "exact" and "bpchain" raise a TimeoutError, and
        so does "block-gibbs" before its chains have states. "auto" uses "exact" for at most half of
        the time, and then Gibbs chains.
    random_state : int, Generator, RandomState or None, default=None
        Seed or generator of the samples.
    **options
        Options of the method:

        - "block-gibbs": ``n_sweeps``, ``n_jobs``.
        - "gibbs": ``n_sweeps``, ``n_jobs``, ``device``. A ``device`` of JAX ("gpu", "cuda" or
          "jax") takes models of two-state variables that interact in pairs, and models of tables of
          at most two variables without zero potentials.
        - "bpchain": ``n_steps``, ``conditionals``, ``order``, ``clip``.

    Returns
    -------
    ndarray of shape (n_samples, n_variables)
        State codes; observed variables have the states of the evidence.

    Examples
    --------
    >>> from skmrf.energies import PairwiseEnergy
    >>> from skmrf.inference import sample
    >>> sample(PairwiseEnergy([[0, 9.0], [9.0, 0]], [9.0, 0.0]), 2, random_state=0)
    array([[1, 1],
           [1, 1]], dtype=int16)
    """
    check_number("n_samples", n_samples, low=1, integer=True)
    check_choice("device", options.get("device", "cpu"), DEVICES)  # also if it is not used
    model = ConditionedModel.from_energy(energy, evidence, max_bytes, random_state)
    with limit_time(check_time_limit(time_limit)):
        chosen, X = answer(SAMPLES, method, model, options, n_samples=n_samples)
        if method == "auto" and chosen != "exact":
            warn_inexact_samples()
        if remaining_time() < 0:
            warn_caller(
                f"The chains stopped after time_limit={time_limit} seconds, and may not have "
                "converged. Increase time_limit, or draw fewer samples."
            )
        return X
