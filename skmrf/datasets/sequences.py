"""Binary sequences with overlapping hard constraints."""

from itertools import product

import numpy as np

from .._utils.codes import STATE
from .._utils.parameters import check_number
from ..energies import FactorGraph
from ..inference import sample
from ._random import generator

WINDOW = 5
ONES = 3
STEP = 2


def make_structured_sequences(n_variables, *, n_samples, random_state=None):
    r"""Draw binary sequences with three ones in each window of five.

    Windows start at every second position.

    .. math:: p(x) = \frac{1}{M} \prod_{j = 0, 2, \ldots, n - 5}
              \mathbb{1} \Big[ \sum_{k=0}^{4} x_{j + k} = 3 \Big]

    Here :math:`n` is the number of variables, and :math:`M` is the number of sequences that
    satisfy all constraints [1]_. The samples are independent and uniform over these sequences.
    They are drawn exactly, by variable elimination. (The ancestral sampling in the published code
    of [1]_ is not uniform.)

    Parameters
    ----------
    n_variables : int
        Length of the sequences, odd and at least 5.
    n_samples : int
        Number of sequences to draw, at least 1.
    random_state : int, RandomState instance or None, default=None
        Seed of the random numbers. An int gives the same samples at every call.

    Returns
    -------
    X : ndarray of shape (n_samples, n_variables), dtype int64
        Sampled sequences, one per row.
    cliques : list of tuples of int
        The ``(n_variables - 3) // 2`` windows ``(j, j + 1, j + 2, j + 3, j + 4)``, with
        ``j = 0, 2, 4, ...``.

    Raises
    ------
    ValueError
        If a parameter is outside its range, or if ``n_variables`` is even.

    References
    ----------
    .. [1] F. Ding and Y. Xue, "Contrastive divergence learning with chained belief propagation",
       PGM 2020, section 6.

    Examples
    --------
    >>> from skmrf.datasets import make_structured_sequences
    >>> X, cliques = make_structured_sequences(7, n_samples=100, random_state=0)
    >>> X.shape
    (100, 7)
    >>> cliques
    [(0, 1, 2, 3, 4), (2, 3, 4, 5, 6)]
    >>> {row[2:].sum().item() for row in X}
    {3}
    """
    n = _check_length(n_variables)
    check_number("n_samples", n_samples, low=1, integer=True)
    cliques = _list_windows(n)
    graph = FactorGraph(np.full(n, 2), cliques, [_make_table()] * len(cliques))
    X = sample(graph, n_samples, method="exact", random_state=generator(random_state))
    return X.astype(np.int64), cliques


def _check_length(n_variables):
    n = int(check_number("n_variables", n_variables, low=WINDOW, integer=True))
    if n % 2 == 0:
        raise ValueError(
            f"n_variables must be odd, because windows of {WINDOW} start at every second "
            f"variable; got {n}. The nearest valid numbers are {n - 1} and {n + 1}."
        )
    return n


def _list_windows(n):
    return [tuple(range(j, j + WINDOW)) for j in range(0, n - WINDOW + 1, STEP)]


def _make_table():
    """Return the table of a window of five variables: 0 if three are one, otherwise -inf."""
    return np.where(_list_binary(WINDOW).sum(axis=1) == ONES, 0.0, -np.inf)


def _list_binary(length):
    """List all binary tuples of the given length in lexicographic order."""
    return np.array(list(product((0, 1), repeat=length)), dtype=STATE)
