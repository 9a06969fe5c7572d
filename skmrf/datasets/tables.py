"""Markov random fields with random cliques and random tables."""

from itertools import combinations
from math import comb

import numpy as np

from .._utils.codes import MAX_STATES
from .._utils.parameters import check_number
from ..energies import FactorGraph
from ..energies.layout import Layout
from ._random import draw_clique, generator


def make_random_mrf(
    n_variables,
    *,
    n_states=2,
    n_cliques,
    order=2,
    scale=1.0,
    zero_fraction=0.0,
    random_state=None,
):
    r"""Generate a Markov random field with random cliques and random tables.

    .. math:: \log f(x) = \sum_a \theta_a(x_a), \qquad
              \theta_a(x_a) \sim N(0, \mathrm{scale}^2)

    The cliques are distinct sets of variables. A variable may be in no clique; its distribution
    is then uniform.

    Parameters
    ----------
    n_variables : int
        Number of variables, at least 1.
    n_states : int, tuple (low, high), or list or ndarray of shape (n_variables,), default=2
        Numbers of states. An int is used for all variables. With a tuple, the number of states of
        each variable is uniform on ``low .. high`` (both included). A list or an array gives one
        number per variable.
    n_cliques : int
        Number of cliques, from 1 to the number of distinct cliques that ``order`` allows.
    order : int or tuple (low, high), default=2
        Number of variables in a clique. An int is used for all cliques. With a tuple, the order of
        each clique is uniform on ``low .. high`` (both included), without the orders whose
        cliques have all been drawn already.
    scale : float, default=1.0
        Standard deviation of the log-potentials in nats, at least 0.
    zero_fraction : float in [0, 1], default=0.0
        Probability that an entry of a table is a zero potential (a log-potential of ``-inf``). The
        entries of one random joint state always stay finite, so the partition function is
        positive.
    random_state : int, RandomState instance or None, default=None
        Seed of all random numbers. An int gives the same model at every call. The cliques and the
        finite log-potentials do not depend on ``zero_fraction``.

    Returns
    -------
    FactorGraph
        Model with log-potentials in nats.

    Raises
    ------
    ValueError
        If a parameter is outside its range, or if ``n_cliques`` is larger than the number of
        distinct cliques.

    Examples
    --------
    >>> from skmrf.datasets import make_random_mrf
    >>> graph = make_random_mrf(6, n_states=(2, 4), n_cliques=5, order=(1, 3), random_state=0)
    >>> graph.n_variables, len(graph.cliques)
    (6, 5)
    >>> dense = make_random_mrf(4, n_states=[2, 3, 3, 2], n_cliques=6, random_state=0)
    >>> dense.n_states
    array([2, 3, 3, 2])
    """
    n = int(check_number("n_variables", n_variables, low=1, integer=True))
    count = int(check_number("n_cliques", n_cliques, low=1, integer=True))
    check_number("scale", scale, low=0)
    check_number("zero_fraction", zero_fraction, low=0, high=1)
    low, high = _check_range("order", order, 1, n)
    rng = generator(random_state)
    states = _draw_states(n_states, n, rng)
    layout = Layout.build(states, _draw_cliques(n, low, high, count, rng))
    flat = rng.normal(0.0, scale, size=layout.n_parameters)
    flat[_draw_zeros(layout, zero_fraction, rng)] = -np.inf
    return FactorGraph(states, layout.cliques, flat)


def _check_range(name, value, minimum, maximum):
    """Check an integer or a tuple (low, high), and convert an integer n to ``(n, n)``."""
    if not isinstance(value, tuple):
        value = (value, value)
    if len(value) != 2:
        raise ValueError(f"{name} must be an integer or a tuple (low, high); got {value!r}.")
    low, high = (int(check_number(name, v, low=minimum, high=maximum, integer=True)) for v in value)
    if low > high:
        raise ValueError(f"{name} must be a tuple (low, high) with low <= high; got {value!r}.")
    return low, high


def _draw_states(n_states, n, rng):
    """Return the number of states of each variable: a given list, or random numbers."""
    if not isinstance(n_states, list | np.ndarray):
        low, high = _check_range("n_states", n_states, 1, MAX_STATES)
        return rng.integers(low, high, size=n, endpoint=True)
    if np.shape(n_states) != (n,):
        raise ValueError(
            f"n_states must be an integer, a tuple (low, high) or a list of {n} integers; got "
            f"a {type(n_states).__name__} of shape {np.shape(n_states)}."
        )
    for value in n_states:
        check_number("n_states", value, low=1, high=MAX_STATES, integer=True)
    return np.array(n_states, dtype=np.int64)


def _draw_cliques(n, low, high, count, rng):
    """Draw distinct random cliques.

    The size of each clique is drawn uniformly from the sizes that still have an unused clique.
    """
    n_unused = {k: comb(n, k) for k in range(low, high + 1)}
    if count > sum(n_unused.values()):
        raise ValueError(
            f"n_cliques must be at most {sum(n_unused.values())}, the number of distinct cliques "
            f"of order {low} to {high} among {n} variables; got {count}."
        )
    orders = []
    for _ in range(count):
        available = [k for k in n_unused if n_unused[k]]
        orders.append(available[rng.integers(len(available))])
        n_unused[orders[-1]] -= 1
    subsets = {k: iter(_draw_subsets(n, k, orders.count(k), rng)) for k in n_unused}
    return [next(subsets[k]) for k in orders]


def _draw_subsets(n, order, count, rng):
    """Draw ``count`` distinct subsets of ``order`` variables."""
    population = comb(n, order)
    if population <= 4 * count:
        subsets = list(combinations(range(n), order))
        return [subsets[i] for i in rng.choice(population, size=count, replace=False)]
    drawn = {}  # a dict, because it keeps the order of insertion and a set does not
    while len(drawn) < count:
        drawn[draw_clique(n, order, rng)] = None
    return list(drawn)


def _draw_zeros(layout, fraction, rng):
    """Choose random table entries with zero potential; at least one state stays possible."""
    state = rng.integers(layout.n_states)
    offsets = np.add.reduceat(layout.strides * state[layout.clique_vars], layout.clique_ptr[:-1])
    zero = rng.random(layout.n_parameters) < fraction
    zero[layout.table_start + offsets] = False
    return zero
