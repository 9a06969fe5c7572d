"""Random Markov random fields given by tables."""

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
    r"""Markov random field with random cliques and random tables.

    .. math:: \log f(x) = \sum_a \theta_a(x_a), \qquad
              \theta_a(x_a) \sim N(0, \mathrm{scale}^2)

    The cliques are distinct sets of variables, so a variable may be in none of them (and is then
    uniform).

    Parameters
    ----------
    n_variables : int
    n_states : int, tuple (low, high), or list or ndarray of shape (n_variables,), default=2
        Number of states of the variables: an int for all of them, a *tuple* for draws uniform
        over ``low .. high`` (both included), a list or an array for one number a variable.
    n_cliques : int
        At most the number of distinct sets of variables of the orders asked for.
    order : int or tuple (low, high), default=2
        Number of variables of a clique: an int for all cliques, a tuple for draws uniform over
        ``low .. high`` (both included; orders of which every set is taken are left out).
    scale : float, default=1.0
        Standard deviation of the log-potentials, in nats.
    zero_fraction : float in [0, 1], default=0.0
        Probability that an entry of a table is a zero potential (``-inf``). One random joint
        state is planted: its entries stay finite, so the partition function is positive.
    random_state : int, RandomState instance or None, default=None
        Draws everything. The cliques and the finite log-potentials do not depend on
        ``zero_fraction``.

    Returns
    -------
    FactorGraph

    Raises
    ------
    ValueError
        A parameter out of its range, or more cliques than there are distinct ones.

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
    low, high = _range("order", order, 1, n)
    rng = generator(random_state)
    states = _draw_states(n_states, n, rng)
    layout = Layout.build(states, _draw_cliques(n, low, high, count, rng))
    flat = rng.normal(0.0, scale, size=layout.n_parameters)
    flat[_zeros(layout, zero_fraction, rng)] = -np.inf
    return FactorGraph(states, layout.cliques, flat)


def _range(name, value, least, most):
    """``(low, high)`` from an int or a tuple."""
    if not isinstance(value, tuple):
        value = (value, value)
    if len(value) != 2:
        raise ValueError(f"{name} must be an integer or a tuple (low, high); got {value!r}.")
    low, high = (int(check_number(name, v, low=least, high=most, integer=True)) for v in value)
    if low > high:
        raise ValueError(f"{name} must be a tuple (low, high) with low <= high; got {value!r}.")
    return low, high


def _draw_states(n_states, n, rng):
    """Number of states of every variable."""
    if not isinstance(n_states, list | np.ndarray):
        low, high = _range("n_states", n_states, 1, MAX_STATES)
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
    """Distinct sorted tuples of variables, the orders uniform over those that still have any."""
    left = {k: comb(n, k) for k in range(low, high + 1)}
    if count > sum(left.values()):
        raise ValueError(
            f"n_cliques must be at most {sum(left.values())}, the number of distinct cliques of "
            f"order {low} to {high} among {n} variables; got {count}."
        )
    orders = []
    for _ in range(count):
        open_orders = [k for k in left if left[k]]
        orders.append(open_orders[rng.integers(len(open_orders))])
        left[orders[-1]] -= 1
    drawn = {k: iter(_draw_subsets(n, k, orders.count(k), rng)) for k in left}
    return [next(drawn[k]) for k in orders]


def _draw_subsets(n, order, count, rng):
    """``count`` distinct subsets of that order, in random order."""
    population = comb(n, order)
    if population <= 4 * count:
        every = list(combinations(range(n), order))
        return [every[i] for i in rng.choice(population, size=count, replace=False)]
    found = {}  # a dict keeps the order of the draws
    while len(found) < count:
        found[draw_clique(n, order, rng)] = None
    return list(found)


def _zeros(layout, fraction, rng):
    """Which entries are zero potentials; none that a planted random state uses."""
    planted = rng.integers(layout.n_states)
    offsets = np.add.reduceat(layout.strides * planted[layout.clique_vars], layout.clique_ptr[:-1])
    zero = rng.random(layout.n_parameters) < fraction
    zero[layout.table_start + offsets] = False
    return zero
