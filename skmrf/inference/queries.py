"""The public queries: choose a method, run it, and return its result with an accuracy."""

import numbers
from collections.abc import Iterable

import numpy as np

from .._utils.codes import check_evidence
from .._utils.parameters import check_choice, check_number
from .._utils.results import Assignment
from ..energies.checks import check_energy
from ..exact.elimination import DEFAULT_MAX_BYTES
from ..likelihood import log_partition_bounds
from .conditioned import Question, ask, renumbered
from .marginals import MARGINALS
from .modes import MARGINAL_MODES, MODES
from .row_queries import warn_inexact_samples
from .samples import SAMPLES


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
    method : str, default="auto"
        "exact"; "ais", annealed importance sampling; "bpchain", importance sampling from chained
        belief propagation; "bethe", its approximation by belief propagation; "trw", the
        tree-reweighted upper bound; "mean-field", a lower bound. "auto" is "exact" where its
        forecast of memory and time fits, else "ais".
    max_bytes : float, default=4 GiB
        Memory bound of "exact".
    random_state : int, Generator, RandomState or None
    **options
        Of the method, see :func:`skmrf.likelihood.log_partition_bounds`.

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
    check_energy(energy)
    evidence = check_evidence(evidence, energy.n_states)
    conditioned = energy.condition(evidence) if evidence else energy
    if "order" in options:
        observed = np.isin(np.arange(len(energy.n_states)), list(evidence))
        options["order"] = renumbered(options["order"], observed)
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
    method : str, default="auto"
        "exact" eliminates variables; "gibbs" averages over Gibbs chains; "bp" is sum-product belief
        propagation, "trw" its tree-reweighted form; "mean-field" the best product distribution;
        "bpchain" weighted draws of chained belief propagation. "auto" is "exact" where it fits,
        else "gibbs".
    max_bytes : float, default=4 GiB
    random_state : int, Generator, RandomState or None
    **options
        Of "gibbs": ``n_chains``, ``n_sweeps``, ``n_records``, ``n_jobs``; of "bp" and "trw":
        ``schedule`` ("sequential", "residual", "flooding"), ``damping``, ``max_iter``, ``tol``; of
        "mean-field": ``max_iter``, ``tol``; of "bpchain": ``n_samples``, ``conditionals``,
        ``order``, ``clip``.

    Returns
    -------
    Marginals
        ``residual`` is 0 when exact, the largest standard error of a single marginal where it is
        averaged over draws, and else how far the last iteration moved. Neither the error nor
        ``converged`` knows of modes that no draw or chain has visited.

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
    question = Question.about(energy, evidence, max_bytes, random_state)
    chosen = question.resolve(method, MARGINALS, "gibbs")
    return ask(MARGINALS, chosen, question, _relevant(options, method, chosen))


def _relevant(options, method, chosen):
    """Options that were meant for the fallback of "auto" do not concern "exact"."""
    return {} if method == "auto" and chosen == "exact" else options


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
    method : {"auto", "exact", "annealing", "decimation"}, default="auto"
        "exact" eliminates variables by maximisation. Without a proof of optimality: "annealing" is
        simulated annealing; "decimation" is max-product belief propagation that clamps the most
        decided variables and goes on with the others. "auto" is "exact" where it fits, else
        "annealing".
    max_bytes : float, default=4 GiB
    random_state : int, Generator, RandomState or None
    **options
        Of "annealing": ``n_chains``, ``n_sweeps``, ``n_jobs``; of "decimation": ``schedule``,
        ``damping``, ``max_iter``, ``tol``.

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
    question = Question.about(energy, evidence, max_bytes, random_state)
    chosen = question.resolve(method, MODES, "annealing")
    states = ask(MODES, chosen, question, _relevant(options, method, chosen))
    value = float(question.graph.log_potential(states[None])[0])
    return Assignment(states, value, chosen == "exact", chosen)


def marginal_map(
    energy,
    variables,
    *,
    evidence=None,
    method="auto",
    max_bytes=DEFAULT_MAX_BYTES,
    random_state=None,
    **options,
):
    r"""The most probable joint state of some variables, the others summed out.

    .. math:: \max_{x_B} \log \sum_{x_A} f(x_A, x_B)

    Parameters
    ----------
    energy : Energy
    variables : sequence of int
        The variables :math:`B`.
    evidence : dict of int to int, optional
    method : {"auto", "exact", "bp"}, default="auto"
        "exact" eliminates the other variables first; "bp" is mixed-product belief propagation.
        "auto" is "exact" where that fits in ``max_bytes``, else "bp".
    max_bytes : float, default=4 GiB
    random_state : int, Generator, RandomState or None
        Not used by these methods.
    **options
        Of "bp": ``schedule``, ``damping``, ``max_iter``, ``tol``.

    Returns
    -------
    Assignment
        ``states`` has MISSING (-1) for what is summed out; ``log_potential`` is the log of the sum,
        by "bp" its Bethe approximation.

    Examples
    --------
    >>> from skmrf.energies import FactorGraph
    >>> from skmrf.inference import marginal_map
    >>> graph = FactorGraph([2, 2], [(0, 1)], [[[2.0, 0.0], [1.5, 1.5]]])
    >>> best = marginal_map(graph, [0])
    >>> best.states.tolist(), round(best.log_potential, 4)
    ([1, -1], 2.1931)
    """
    question = Question.about(energy, evidence, max_bytes, random_state)
    maximised = _mask(variables, question.graph.n_variables)
    check_choice("method", method, ("auto", *MARGINAL_MODES))
    chosen = method
    if method == "auto":
        chosen = "exact" if question.fits(maximised=maximised) else "bp"
    options = _relevant(options, method, chosen)
    states, value = ask(MARGINAL_MODES, chosen, question, options, maximised=maximised)
    return Assignment(states, value, chosen == "exact", chosen)


def _mask(variables, n):
    """Which variables are named."""
    mask = np.zeros(n, dtype=bool)
    if not isinstance(variables, Iterable):
        raise TypeError(f"variables must be a sequence of variables; got {variables!r}.")
    for v in variables:
        if not isinstance(v, numbers.Integral) or not 0 <= v < n:
            raise ValueError(f"variables names {v!r}, but the variables are 0 to {n - 1}.")
        mask[v] = True
    return mask


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
    method : {"auto", "exact", "gibbs", "bpchain"}, default="auto"
        "exact" draws independent samples by elimination; "gibbs" takes the last states of as many
        independent chains, which only approach the distribution (a warning says so when "auto"
        falls back to it); "bpchain" draws by chained belief propagation, and ``n_steps`` steps of
        independence Metropolis-Hastings bring the draws closer to the distribution.
    max_bytes : float, default=4 GiB
    random_state : int, Generator, RandomState or None
    **options
        Of "gibbs": ``n_sweeps``, ``n_jobs``; of "bpchain": ``n_steps``, ``conditionals``,
        ``order``, ``clip``.

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
    question = Question.about(energy, evidence, max_bytes, random_state)
    chosen = question.resolve(method, SAMPLES, "gibbs")
    if method == "auto" and chosen != "exact":
        warn_inexact_samples()
    options = _relevant(options, method, chosen)
    return ask(SAMPLES, chosen, question, options, n_samples=n_samples)
