"""Markov random fields of small and very large potentials."""

import numpy as np

from .._utils.parameters import check_number
from ..energies import FactorGraph
from ._random import draw_clique, generator

MAX_SIZE = 6
LARGE = 10.0, 1000.0


def make_multimodal_mrf(n_variables, *, min_size=1, random_state=None):
    r"""Binary Markov random field, half of whose potentials are hundreds of times the others.

    .. math:: f(x) = \prod_a \phi_a(x_a), \qquad \phi_a(x_a) = v_1 + v_2 v_3

    where every entry of every table has its own :math:`v_1 \sim U(0, 1)`, :math:`v_2` uniform in
    :math:`\{0, 1\}` and :math:`v_3 \sim U(10, 1000)` [1]_. The number of cliques is uniform over
    ``n_variables .. 2 * n_variables`` and the size of each over ``min_size .. 6`` (or
    ``n_variables`` where that is less); its variables are distinct. Two cliques may have the same
    variables, and a variable may be in none.

    Parameters
    ----------
    n_variables : int
    min_size : int, default=1
        Least number of variables of a clique.
    random_state : int, RandomState instance or None, default=None

    Returns
    -------
    FactorGraph
        Of variables with the states 0 and 1; its tables are the :math:`\log \phi_a`.

    Raises
    ------
    ValueError
        A parameter out of its range.

    Notes
    -----
    The distributions have fewer modes than the source's name for them suggests: the products of
    so many potentials favour a few states. Over ``random_state = 0 .. 199`` with 10 variables
    (1,024 states), by enumeration, the perplexity (the exponential of the entropy) has the median
    2.3 and is below 5.3 for nine instances of ten.

    References
    ----------
    .. [1] F. Ding and Y. Xue, "Contrastive divergence learning with chained belief propagation",
       PGM 2020, section 6.

    Examples
    --------
    >>> from skmrf.datasets import make_multimodal_mrf
    >>> graph = make_multimodal_mrf(10, random_state=0)
    >>> graph.n_variables, len(graph.cliques)
    (10, 12)
    """
    n = int(check_number("n_variables", n_variables, low=1, integer=True))
    largest = min(MAX_SIZE, n)
    low = int(check_number("min_size", min_size, low=1, high=largest, integer=True))
    rng = generator(random_state)
    count = rng.integers(n, 2 * n, endpoint=True)
    sizes = rng.integers(low, largest, size=count, endpoint=True)
    cliques = [draw_clique(n, size, rng) for size in sizes]
    return FactorGraph(np.full(n, 2), cliques, np.log(_draw_potentials((2**sizes).sum(), rng)))


def _draw_potentials(count, rng):
    small = 1.0 - rng.random(count)  # in (0, 1], as its logarithm must be finite
    return small + rng.integers(2, size=count) * rng.uniform(*LARGE, size=count)
