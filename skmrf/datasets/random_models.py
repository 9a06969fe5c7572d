"""Random models, and structured sequences drawn from a random model."""

from itertools import combinations, product
from math import comb

import numpy as np
from sklearn.utils import check_random_state

from .._utils.codes import MAX_STATES, STATE
from .._utils.parameters import check_number
from ..energies import FactorGraph, PairwiseEnergy
from ..energies.layout import Layout
from ..inference import sample

N_SEEDS = 2**31


def generator(random_state):
    """Return a numpy Generator seeded from ``random_state``.

    None gives a Generator with fresh entropy from the operating system. The global random state
    of numpy is never used.
    """
    if random_state is None:
        return np.random.default_rng()
    words = check_random_state(random_state).randint(N_SEEDS, size=4)
    return np.random.default_rng(words)


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
    >>> from skmrf.datasets.random_models import make_random_mrf
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
    """Draw distinct random cliques with numbers of variables between ``low`` and ``high``.

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
        drawn[_draw_clique(n, order, rng)] = None
    return list(drawn)


def _draw_zeros(layout, fraction, rng):
    """Draw which table entries get potential zero; at least one joint state stays possible."""
    state = rng.integers(layout.n_states)
    offsets = np.add.reduceat(layout.strides * state[layout.clique_vars], layout.clique_ptr[:-1])
    zero = rng.random(layout.n_parameters) < fraction
    zero[layout.table_start + offsets] = False
    return zero


MAX_SIZE = 6
LARGE_RANGE = 10.0, 1000.0


def make_multimodal_mrf(n_variables, *, min_size=1, random_state=None):
    r"""Generate a random binary Markov random field with both small and very large potentials.

    .. math:: f(x) = \prod_a \phi_a(x_a), \qquad \phi_a(x_a) = v_1 + v_2 v_3

    For each entry of each table, :math:`v_1 \sim U(0, 1)`, :math:`v_2` is uniform on
    :math:`\{0, 1\}`, and :math:`v_3 \sim U(10, 1000)`, all independent [1]_. About half of the
    potentials are therefore hundreds of times larger than the others. The number of cliques is
    uniform on ``n_variables .. 2 * n_variables``. The size of each clique is uniform on
    ``min_size .. min(6, n_variables)``, and its variables are distinct. Two cliques may have the
    same variables. A variable may be in no clique.

    Parameters
    ----------
    n_variables : int
        Number of variables, at least 1.
    min_size : int, default=1
        Smallest number of variables in a clique, from 1 to ``min(6, n_variables)``.
    random_state : int, RandomState instance or None, default=None
        Seed of the random numbers. An int gives the same model at every call.

    Returns
    -------
    FactorGraph
        Model whose variables have the states 0 and 1. Its tables are :math:`\log \phi_a`, in
        nats.

    Raises
    ------
    ValueError
        If a parameter is outside its range.

    Notes
    -----
    The name "multimodal" comes from the source [1]_, but the distributions have few modes,
    because the product of so many potentials favours a few states. The perplexity (exponential of
    the entropy) of the models with 10 variables (1,024 states) and ``random_state = 0 .. 199`` was
    computed by enumeration: its median is 2.3, and nine of ten models are below 5.3.

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
    cliques = [_draw_clique(n, size, rng) for size in sizes]
    return FactorGraph(np.full(n, 2), cliques, np.log(_draw_modes((2**sizes).sum(), rng)))


def _draw_modes(count, rng):
    small = 1.0 - rng.random(count)  # in (0, 1], because the logarithm must be finite
    return small + rng.integers(2, size=count) * rng.uniform(*LARGE_RANGE, size=count)


def make_non_decay_mrf(n_middle, *, beta):
    r"""Generate an Ising model whose most correlated pair of variables is not an edge.

    .. math:: \log f(s) = J \sum_{k=1}^{D} (s_0 s_k + s_k s_{D+1}),
              \qquad J = \tfrac{1}{2} \log \frac{\beta}{1 - \beta}

    The end variables 0 and D + 1 are not neighbours, but each is a neighbour of all D middle
    variables. There are therefore D paths of two edges between them. If D is large enough, the two
    end variables are more correlated than neighbours are: correlations do not decay with distance
    [1]_. Methods that select the pairs with the largest correlations cannot find this graph. With
    :math:`t = 2 \beta - 1`,

    .. math:: E[s_0 s_{D+1}] = \tanh(D \operatorname{artanh} t^2),

    .. math:: E[s_0 s_1] = \tanh(\operatorname{artanh} t + \operatorname{artanh}(t r)),

    .. math:: r = \tanh((D - 1) \operatorname{artanh} t^2).

    Parameters
    ----------
    n_middle : int
        Number D of middle variables, at least 1. The end variables are more correlated than
        neighbours if D is at least 12, 7, 4 or 3 for ``beta`` = 0.55, 0.6, 0.7 or 0.8.
    beta : float
        Probability that the two ends of an edge are equal if there were no other edge, strictly
        between 0 and 1. Below 1/2 the couplings are negative. The correlation of the end variables
        is the same for ``beta`` and for 1 - ``beta``.

    Returns
    -------
    PairwiseEnergy
        Ising model with D + 2 variables, ``states=(-1, 1)`` and 2 D edges.

    Raises
    ------
    ValueError
        If ``n_middle`` is below 1, or if ``beta`` is not strictly between 0 and 1.

    References
    ----------
    .. [1] J. Liu and D. Page, "Structure learning of undirected graphical models with contrastive
       divergence", ICML 2013 workshop on structured learning, sections 1 and 5.

    Examples
    --------
    >>> from skmrf.datasets import make_non_decay_mrf
    >>> energy = make_non_decay_mrf(8, beta=0.6)
    >>> energy.coupling[0, 1].round(4), energy.coupling[0, 9]
    (np.float64(0.2027), np.float64(0.0))
    """
    n = int(check_number("n_middle", n_middle, low=1, integer=True))
    if check_number("beta", beta, low=0, high=1) in (0, 1):
        raise ValueError(f"beta must be strictly between 0 and 1; got {beta!r}.")
    coupling = np.zeros((n + 2, n + 2))
    coupling[[0, -1], 1:-1] = 0.5 * (np.log(beta) - np.log1p(-beta))
    return PairwiseEnergy(coupling + coupling.T, np.zeros(n + 2), states=(-1, 1))


ORDER = 3
CLAUSES_PER_VARIABLE = 3
SATISFIED_RANGE, FALSIFIED_RANGE = (10.0, 1000.0), (0.1, 1.0)


def make_weighted_3sat(n_variables, *, n_clauses=None, random_state=None):
    r"""Generate a binary Markov random field from random 3-SAT clauses with random weights.

    .. math:: f(x) = \prod_c \phi_c(x_c)

    .. math:: \phi_c(x_c) \sim \begin{cases}
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
    cliques = [_draw_clique(n, ORDER, rng) for _ in range(count)]
    return FactorGraph(np.full(n, 2), cliques, np.log(_draw_literals(count, rng)).ravel())


def _draw_literals(count, rng):
    """Draw the potentials of random weighted clauses of three literals, shape (count, 8)."""
    potentials = rng.uniform(*SATISFIED_RANGE, size=(count, 2**ORDER))
    falsifying = rng.integers(2**ORDER, size=count)
    potentials[np.arange(count), falsifying] = rng.uniform(*FALSIFIED_RANGE, size=count)
    return potentials


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


def _draw_clique(n_variables, size, rng):
    """Draw ``size`` distinct variables uniformly at random, and return them as a sorted tuple."""
    return tuple(sorted(rng.choice(n_variables, size, replace=False, shuffle=False).tolist()))
