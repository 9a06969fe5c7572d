"""Binary sequences under overlapping hard constraints."""

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
MAX_ENUMERATED = 51  # 337,062 sequences, 138 MB


def make_structured_sequences(n_variables, *, n_samples, random_state=None):
    r"""Draw binary sequences whose every window of five holds three ones and two zeros.

    .. math:: p(x) = \frac{1}{M} \prod_{j = 0, 2, \ldots, n - 5}
              \mathbb{1} \Big[ \sum_{k=0}^{4} x_{j + k} = 3 \Big]

    with :math:`n` variables and :math:`M` satisfying sequences [1]_. The draws are independent
    and uniform over these, by elimination rather than by the ancestral draws of the source's
    code, which are not uniform.

    Parameters
    ----------
    n_variables : int
        Length of the sequences, odd and at least 5.
    n_samples : int
    random_state : int, RandomState instance or None, default=None

    Returns
    -------
    X : ndarray of shape (n_samples, n_variables), dtype int64
        One sequence a row.
    cliques : list of tuples of int
        The windows ``(j, j + 1, j + 2, j + 3, j + 4)``, ``(n_variables - 3) // 2`` of them.

    Raises
    ------
    ValueError
        A parameter out of its range, an even ``n_variables``.

    See Also
    --------
    enumerate_structured_sequences : All satisfying sequences.

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
    cliques = _windows(n)
    graph = FactorGraph(np.full(n, 2), cliques, [_table()] * len(cliques))
    X = sample(graph, n_samples, method="exact", random_state=generator(random_state))
    return X.astype(np.int64), cliques


def enumerate_structured_sequences(n_variables):
    """Binary sequences whose every window of five holds three ones and two zeros.

    The windows are those of :func:`make_structured_sequences` [1]_. Sequences are extended from
    window to window, so the cost grows with their number and not with ``2 ** n_variables``.

    Parameters
    ----------
    n_variables : int
        Length of the sequences, odd and from 5 to 51.

    Returns
    -------
    ndarray of shape (n_sequences, n_variables), dtype int64
        All satisfying sequences in lexicographic order; there are 10, 16, 26, 41, 64, 100, ...
        of the lengths 5, 7, 9, 11, 13, 15, ...

    Raises
    ------
    ValueError
        A length out of its range or even.

    References
    ----------
    .. [1] F. Ding and Y. Xue, "Contrastive divergence learning with chained belief propagation",
       PGM 2020, section 6.

    Examples
    --------
    >>> from skmrf.datasets import enumerate_structured_sequences
    >>> enumerate_structured_sequences(7)[:3]
    array([[0, 0, 1, 1, 1, 0, 0],
           [0, 1, 0, 1, 1, 0, 1],
           [0, 1, 0, 1, 1, 1, 0]])
    """
    n = _check_length(n_variables)
    if n > MAX_ENUMERATED:
        raise ValueError(
            f"n_variables must be at most {MAX_ENUMERATED} to list all sequences; got {n}. "
            "make_structured_sequences draws from longer ones."
        )
    rows = _binary(WINDOW)
    rows = rows[rows.sum(axis=1) == ONES]
    while rows.shape[1] < n:
        rows = _extend(rows)
    return rows.astype(np.int64)


def _extend(rows):
    """All rows with one window more, in the order of the rows."""
    ends = _binary(STEP)
    longer = np.hstack([np.repeat(rows, len(ends), axis=0), np.tile(ends, (len(rows), 1))])
    return longer[longer[:, -WINDOW:].sum(axis=1) == ONES]


def _check_length(n_variables):
    n = int(check_number("n_variables", n_variables, low=WINDOW, integer=True))
    if n % 2 == 0:
        raise ValueError(
            f"n_variables must be odd, as windows of {WINDOW} begin at every other variable; got "
            f"{n}. The nearest are {n - 1} and {n + 1}."
        )
    return n


def _windows(n):
    return [tuple(range(j, j + WINDOW)) for j in range(0, n - WINDOW + 1, STEP)]


def _table():
    """Log-potentials of a window, -inf where it has too many or too few ones."""
    return np.where(_binary(WINDOW).sum(axis=1) == ONES, 0.0, -np.inf)


def _binary(length):
    """All binary tuples of that length in lexicographic order."""
    return np.array(list(product((0, 1), repeat=length)), dtype=STATE)
