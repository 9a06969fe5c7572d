"""Weighted random 3-SAT models."""

import numpy as np

from .._utils.parameters import check_number
from ..energies import FactorGraph
from ._random import draw_clique, generator

ORDER = 3
CLAUSES_PER_VARIABLE = 3
SATISFIED_RANGE, FALSIFIED_RANGE = (10.0, 1000.0), (0.1, 1.0)


def make_weighted_3sat(n_variables, *, n_clauses=None, random_state=None):
    r"""Generate a binary Markov random field from random 3-SAT clauses with random weights.

    .. math:: f(x) = \prod_c \phi_c(x_c), \qquad
              \phi_c(x_c) \sim \begin{cases}
                  U(10, 1000) & \text{where } x_c \text{ satisfies clause } c \\
                  U(0.1, 1) & \text{where it does not}
              \end{cases}

    A clause is the disjunction of three distinct variables, each negated with probability 1/2.
    Exactly one of the 8 joint states of its variables falsifies the clause [1]_. All potentials
    are drawn independently. The formula may be unsatisfiable, and clauses may repeat.

    Parameters
    ----------
    n_variables : int
        Number of variables, at least 3.
    n_clauses : int or None, default=None
        Number of clauses, at least 1. None means ``3 * n_variables``.
    random_state : int, RandomState instance or None, default=None
        Seed of the random numbers. An int gives the same model at every call.

    Returns
    -------
    FactorGraph
        Model whose variables have the states 0 (false) and 1 (true). Its tables are
        :math:`\log \phi_c`, in nats, each of shape (2, 2, 2).

    Raises
    ------
    ValueError
        If a parameter is outside its range.

    References
    ----------
    .. [1] F. Ding and Y. Xue, "Contrastive divergence learning with chained belief propagation",
       PGM 2020, section 6.

    Examples
    --------
    >>> import numpy as np
    >>> from skmrf.datasets import make_weighted_3sat
    >>> graph = make_weighted_3sat(10, random_state=0)
    >>> len(graph.cliques), graph.cliques[0]
    (30, (1, 2, 7))
    >>> np.argwhere(graph.log_potentials[0] < 0)  # falsifies "not x1 or x2 or not x7"
    array([[1, 0, 1]])
    """
    n = int(check_number("n_variables", n_variables, low=ORDER, integer=True))
    if n_clauses is None:
        n_clauses = CLAUSES_PER_VARIABLE * n
    count = int(check_number("n_clauses", n_clauses, low=1, integer=True))
    rng = generator(random_state)
    cliques = [draw_clique(n, ORDER, rng) for _ in range(count)]
    return FactorGraph(np.full(n, 2), cliques, np.log(_draw_potentials(count, rng)).ravel())


def _draw_potentials(count, rng):
    """Draw the potentials of each clause, shape (count, 8)."""
    potentials = rng.uniform(*SATISFIED_RANGE, size=(count, 2**ORDER))
    falsifying = rng.integers(2**ORDER, size=count)
    potentials[np.arange(count), falsifying] = rng.uniform(*FALSIFIED_RANGE, size=count)
    return potentials
