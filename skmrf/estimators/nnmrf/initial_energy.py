"""Initial model (graph, networks and quadratic term), training settings, continued training."""

from dataclasses import replace
from itertools import combinations

import joblib
import numpy as np
from sklearn.base import clone

from ..._utils.log_weights import normalized_weights
from ..._utils.parameters import check_covariance, identity_of, show_list
from ...energies import NeuralEnergy
from ...learners import Variational
from ...learners.initial_mixture import impute_normal
from ...training import AdaptiveRate
from .._training import TrainingParameters, check_memory
from .gaussian_base import MIN_VARIANCE, shrunk_covariance
from .potentials import TrainingPlan
from .scores import held_out_score

# Parameters of the networks and of the estimator that must not change if training continues.
FIXED_PARAMETERS = "base", "prior_covariance", "shrinkage"
FIXED_COLUMN_PARAMETERS = "column_types", "categories"
N_COMPONENTS = 5  # of the mixture, assumed in estimates of memory
MIN_ROWS_FOR_HOLD_OUT = 500  # with early_stopping="auto"
PRIOR_PRECISION = 1.0  # of the normal prior of the weights
N_NEIGHBORS = 5  # with graph="knn"
BASE_WEIGHT = 0.05  # of the base in mixture_, whose other components have lighter tails
FIRST_RATES = {"adam": 0.03, "sgd": 0.1, "momentum": 0.03}
WINDOW, COSINE, N_HALVINGS = 200, 0.0, 3
# It ends training after 500 updates.
RATE_WITHOUT_HELD_OUT = AdaptiveRate(window=200, cosine=1.0, n_halvings=1)
WINDOW_OF_CLASS = 40  # epochs; training on the rows of a class ends after 100 epochs
UPDATES_OF_WINDOW = 2.5  # all updates with RATE_WITHOUT_HELD_OUT, divided by the first window
MAX_WORK = 150_000  # networks times updates, of the trials, and of the last training
MAX_QUICK_WORK = 260_000  # with QUICK_LEARNER: some seconds
MAX_LONG_WORK = 2_000_000  # about half a minute, if early stopping ends training
UPDATE_WORK = 50  # of an update, in addition to the number of networks
MIN_UPDATES, MAX_TRIALS = 80, 3
QUICK_LEARNER = Variational(n_chains=100, n_points=5)
RECENCY = 8.0  # recent iterates have large weights, because iterates keep improving
MIN_PATIENCE = 300  # updates without a better score
MAX_UPDATES = 3000
MAX_CHANGE = 1e-8  # of a covariance in a sweep that has converged


def fixed_parameters(density, networks):
    """Return the parameters that must not change when a later fit continues training.

    Parameters
    ----------
    density : NNMRFDensity
        Estimator with the types and categories of the columns.
    networks : NetworkPotentials
        Parameters of the networks.

    Returns
    -------
    dict
        Values by name. The value of ``graph`` is None if it is not a name.
    """
    kept = {k: getattr(networks, k) for k in FIXED_PARAMETERS}
    kept |= {k: getattr(density, k) for k in FIXED_COLUMN_PARAMETERS}
    return kept | {"graph": networks.graph if isinstance(networks.graph, str) else None}


def check_same_model(networks, energy, before, now, names):
    """Raise a ValueError if a parameter of the model has changed since the previous fit.

    Parameters
    ----------
    networks : NetworkPotentials
        Current parameters of the networks.
    energy : NeuralEnergy
        Model of the previous fit.
    before, now : dict
        Results of :func:`fixed_parameters` in the previous fit and in the current one.
    names : list
        Names of the columns.
    """
    layers_of_fit = {"node_layers": energy.shape.nodes, "edge_layers": energy.shape.edges}
    changed = [k for k, layers in layers_of_fit.items() if tuple(getattr(networks, k)) != layers]
    if now["graph"] in ("tree", "knn"):  # depends on the rows
        changed += ["graph"] * (before["graph"] != now["graph"])
    else:
        edges = resolve_edges(networks.graph, None, names)
        changed += ["graph"] * (not np.array_equal(edges, energy.edges))
    constant = FIXED_PARAMETERS + FIXED_COLUMN_PARAMETERS
    changed += [k for k in constant if joblib.hash(now[k]) != joblib.hash(before[k])]
    if changed:
        raise ValueError(
            f"Training cannot continue, because {changed[0]} differs from its value in the "
            "previous fit. Start anew with fit and warm_start=False."
        )


def resolve_edges(graph, correlation, names):
    """Return the edges of the graph that is given by its name, as an object or as a list.

    Parameters
    ----------
    graph : {"complete", "tree", "grid", "knn", "empty"}, networkx.Graph or list of pairs
        "tree" is the spanning tree with the largest mutual information of Gaussians (Chow and Liu).
        "knn" joins each column with the columns of largest absolute correlation. "grid" uses the
        columns as the pixels of a square. Pairs and nodes are names or indices of columns.
    correlation : ndarray of shape (n_columns, n_columns)
        Correlations of the columns. Only "tree" and "knn" use them.
    names : list
        Names of the columns.

    Returns
    -------
    ndarray of shape (n_edges, 2)
        Sorted pairs of column indices, the lower index first.
    """
    n = len(names)
    if isinstance(graph, str):
        makers = {
            "complete": lambda: combinations(range(n), 2),
            "empty": lambda: (),
            "tree": lambda: _tree_edges(correlation),
            "knn": lambda: _knn_edges(correlation),
            "grid": lambda: _grid_edges(n),
        }
        if graph not in makers:
            raise ValueError(
                f"graph must be one of {sorted(makers)}, a networkx graph or a list of pairs of "
                f"columns; got {graph!r}."
            )
        pairs = makers[graph]()
    else:
        pairs = [_find_pair(pair, names) for pair in _list_pairs(graph)]
        for node in graph.nodes if hasattr(graph, "edges") else ():
            _find_column(node, names)
    return np.array(sorted({tuple(sorted(p)) for p in pairs}), dtype=np.int64).reshape(-1, 2)


def _list_pairs(graph):
    """Return the edges of a networkx graph or a list; raise a ValueError if one is not a pair."""
    pairs = graph.edges() if hasattr(graph, "edges") else graph
    is_wrong_type = isinstance(pairs, str) or not hasattr(pairs, "__iter__")
    pairs = [] if is_wrong_type else list(pairs)
    wrong = [p for p in pairs if isinstance(p, str) or not hasattr(p, "__len__") or len(p) != 2]
    if is_wrong_type or wrong:
        raise ValueError(
            "graph must be a name, a networkx graph or a list of pairs of columns; got "
            f"{wrong[0] if wrong else graph!r}."
        )
    return [tuple(pair) for pair in pairs]


def _find_pair(pair, names):
    indices = [_find_column(column, names) for column in pair]
    if len(set(indices)) != 2:
        raise ValueError(f"Each edge of graph must join two different columns; got {pair!r}.")
    return indices


def _find_column(column, names):
    if not isinstance(column, bool | np.bool_):
        if column in names:
            return names.index(column)
        if isinstance(column, int | np.integer) and 0 <= column < len(names):
            return int(column)
    raise ValueError(
        f"graph has {column!r}, which is not a column; the columns are {show_list(names)}."
    )


def _grid_edges(n):
    import networkx as nx  # imported here because it is slow

    side = round(n**0.5)
    if side * side != n:
        raise ValueError(
            f'graph="grid" needs a square number of columns, but there are {n}. Instead, give '
            "networkx.grid_2d_graph with its nodes relabelled to columns, or a list of pairs."
        )
    graph = nx.convert_node_labels_to_integers(nx.grid_2d_graph(side, side), ordering="sorted")
    return graph.edges


def _tree_edges(correlation):
    import networkx as nx  # imported here because it is slow

    graph = nx.Graph()
    graph.add_nodes_from(range(len(correlation)))
    for i, j in combinations(range(len(correlation)), 2):
        graph.add_edge(i, j, weight=abs(correlation[i, j]))
    return nx.maximum_spanning_edges(graph, data=False)


def _knn_edges(correlation):
    strength = np.abs(correlation) - 2.0 * np.eye(len(correlation))
    k = min(N_NEIGHBORS, len(correlation) - 1)
    return [(i, int(j)) for i, row in enumerate(strength) for j in np.argsort(-row)[:k]]


def correlation(X, weights):
    """Return the weighted correlation matrix of the columns; state codes are used as numbers."""
    centred = X - weights @ X
    covariance = (weights[:, None] * centred).T @ centred
    deviation = np.sqrt(np.maximum(np.diag(covariance), 1e-12))
    return covariance / deviation / deviation[:, None]


def initial_energy(networks, data, columns, rng):
    """Return the initial energy: networks with small random weights, and the quadratic term.

    Parameters
    ----------
    networks : NetworkPotentials
        Graph, layers of the networks and quadratic term.
    data : Batch
        All training rows, encoded.
    columns : Columns
        Encoding of the rows.
    rng : Generator
        Random numbers of the networks and of imputations.

    Returns
    -------
    NeuralEnergy
        Initial energy.
    """
    weights = normalized_weights(data.log_weights, len(data.X))
    X = impute_normal(data.X, columns.n_states, weights, rng)
    edges = resolve_edges(networks.graph, correlation(X, weights), columns.names)
    _check_size(networks, columns.n_states, edges)
    mean, precision = _quadratic_term(networks, X, weights, columns, edges)
    return NeuralEnergy.random(
        columns.n_states,
        edges,
        node_layers=tuple(networks.node_layers),
        edge_layers=tuple(networks.edge_layers),
        mean=mean,
        precision=precision,
        dtype=np.float32,
        random_state=rng,
    )


def _quadratic_term(networks, X, weights, columns, edges):
    """Return the mean and the precision matrix of the energy's quadratic term."""
    numbers = columns.continuous
    if networks.base == "gaussian":
        target = shrinkage_target(networks.prior_covariance, columns)
        return gaussian_base(X, numbers, weights, edges, target, networks.shrinkage)
    return np.zeros(len(numbers)), networks.base * (2.0 * np.eye(len(numbers)))


def gaussian_base(X, numbers, weights, edges, target=None, shrinkage="auto"):
    """Fit a Gaussian with the edges of a graph; return its mean and its precision matrix.

    On the edges of the graph, the covariances of the Gaussian are the shrunk covariances of the
    rows. The precision is zero for pairs without an edge.

    Parameters
    ----------
    X : ndarray of shape (n_rows, n_columns)
        Encoded rows without missing entries.
    numbers : ndarray of int of shape (n_numbers,)
        Indices of the continuous columns.
    weights : ndarray of shape (n_rows,)
        Weights of the rows, with sum 1.
    edges : ndarray of shape (n_edges, 2)
        Pairs of column indices.
    target : ndarray of shape (n_numbers, n_numbers), optional
        Target of the shrinkage. By default it is the diagonal of the covariance.
    shrinkage : "auto" or float, default="auto"
        Weight of the target. "auto" selects it by cross-validation of the log-likelihood.

    Returns
    -------
    mean : ndarray of shape (n_numbers,)
        Mean of the Gaussian.
    precision : ndarray of shape (n_numbers, n_numbers)
        Precision matrix of the Gaussian.
    """
    m, X = len(numbers), X[:, numbers]
    if target is None:
        target = np.diag(weights @ (X - weights @ X) ** 2)
    floor = MIN_VARIANCE * np.eye(m)
    mean, covariance = shrunk_covariance(X, weights, target + floor, shrinkage)
    place = np.full(max(edges.max(initial=0), numbers.max(initial=0)) + 1, -1)
    place[numbers] = np.arange(m)
    among = place[edges]
    return mean, precision_on_graph(covariance + floor, among[(among >= 0).all(axis=1)])


def precision_on_graph(covariance, edges, *, max_iter=100):
    """Return the precision matrix of the Gaussian with given covariances on a graph's edges.

    The precision is zero for pairs without an edge. Each variable is regressed on its neighbours
    in turn (Hastie, Tibshirani and Friedman, The Elements of Statistical Learning, algorithm 17.1).
    Nearly singular covariances may need more than ``max_iter`` sweeps. The covariances on the edges
    are then approximate, but the precision matrix is always positive definite.
    """
    n = len(covariance)
    if len(edges) == n * (n - 1) // 2:
        precision = np.linalg.inv(covariance)
        return 0.5 * (precision + precision.T)
    neighbours = [np.concatenate([edges[edges[:, 0] == i, 1], edges[edges[:, 1] == i, 0]])
                  for i in range(n)]  # fmt: skip
    W = covariance.copy()
    coefficients = [np.zeros(0)] * n
    for _ in range(max_iter):
        before = W.copy()
        for i, near in enumerate(neighbours):
            coefficients[i] = np.linalg.solve(W[np.ix_(near, near)], covariance[near, i])
            others = np.arange(n) != i
            W[others, i] = W[i, others] = W[np.ix_(others, near)] @ coefficients[i]
        if np.abs(W - before).max() < MAX_CHANGE:
            break
    precision = np.zeros((n, n))
    for i, near in enumerate(neighbours):
        rest = covariance[i, i] - W[i, near] @ coefficients[i]
        precision[i, i] = 1.0 / max(rest, 1e-9 * covariance[i, i])
        precision[i, near] = -coefficients[i] * precision[i, i]
    return _make_positive_definite(0.5 * (precision + precision.T))


def _make_positive_definite(precision):
    """Halve the off-diagonal entries of a precision matrix until it is positive definite."""
    diagonal = np.diag(precision)
    size = np.sqrt(np.outer(diagonal, diagonal))
    while len(size) and np.linalg.eigvalsh(precision / size)[0] < 1e-9:
        precision = 0.5 * (precision + np.diag(diagonal))
    return precision


def shrinkage_target(prior_covariance, columns):
    """Convert ``prior_covariance`` to the scale of standardised columns; None stays None."""
    if prior_covariance is None:
        return None
    m = len(columns.continuous)
    target = check_covariance("prior_covariance", prior_covariance, m)
    return target / columns.scale / columns.scale[:, None]


def _check_size(networks, n_states, edges):
    """Raise a ValueError if the networks need more memory than ``max_bytes``."""
    slots = int(max(n_states.max(initial=1), 1))
    nodes = len(n_states) * networks.node_layers[0]
    pairs = len(edges) * 2 * networks.edge_layers[0]
    check_memory(
        slots * (nodes + pairs),
        networks.max_bytes,
        "weights of first layers",
        'Use a sparser graph (such as "tree" or "knn"), or raise max_bytes.',
    )
    check_memory(
        N_COMPONENTS * len(edges) * slots**2,
        networks.max_bytes,
        "potentials of pairs of states",
        "Merge rare categories, use a sparser graph, or raise max_bytes.",
    )


def network_settings(networks, parameters, learner, energy, data, held_out):
    """Return the settings of the training loop.

    Parameters
    ----------
    networks : NetworkPotentials
        Parameters of the networks.
    parameters : TrainingParameters
        Validated parameters of training.
    learner : BeliefLearner
        Estimator of the gradient.
    energy : NeuralEnergy
        Initial energy.
    data : Batch
        Training rows.
    held_out : Batch or None
        Held-out rows.

    Returns
    -------
    Settings
        Settings of the training loop.
    """
    n = len(data.X)
    updates = -(-n // networks.batch_size)
    settings = parameters.settings(
        learner,
        energy,
        data,
        alpha=PRIOR_PRECISION / n if networks.alpha == "auto" else networks.alpha,
        default_optimizer="adam",
        recency=RECENCY,
        patience=max(networks.n_iter_no_change, -(-MIN_PATIENCE // updates)),
        min_updates=0,
        max_updates=MAX_UPDATES,
        score=held_out_score(learner, held_out, networks.density),
    )
    if parameters.has_default_rate(settings.optimizer):
        rate = _default_rate(settings.optimizer, learner, held_out)
        settings = replace(settings, rate=rate)
    return settings


def _default_rate(optimizer, learner, held_out):
    first = FIRST_RATES.get(type(optimizer).__name__.lower(), 0.03) * learner.pace
    if held_out is None:
        return clone(RATE_WITHOUT_HELD_OUT).set_params(rate=first)
    return AdaptiveRate(first, WINDOW, COSINE, N_HALVINGS)


def class_rate(networks, n_rows, max_updates=None):
    """Return the default learning rate of the networks of a class.

    Without held-out rows, the networks of a class with few rows have fewer updates: more updates
    take longer and are not more accurate. A learning rate that is not the default is returned
    unchanged.

    Parameters
    ----------
    networks : NetworkPotentials
        Potentials of the classifier, with valid parameters.
    n_rows : int
        Number of training rows of the class.
    max_updates : int, optional
        Largest number of updates. Training then ends at the end of the next epoch. It is for
        networks that have default parameters, except the learner.

    Returns
    -------
    str, float or schedule
        Parameter ``learning_rate`` of the potentials of the class.
    """
    if max_updates is None and not _ends_early(networks, n_rows):
        return networks.learning_rate
    window = _class_updates(networks, n_rows, max_updates) / UPDATES_OF_WINDOW
    return clone(RATE_WITHOUT_HELD_OUT).set_params(window=max(int(window), 2))


def _ends_early(networks, n_rows):
    """Return whether training on the rows of a class ends after 100 epochs."""
    parameters = TrainingParameters.of(networks, random_state=None)
    is_default = parameters.has_default_steps and networks.max_iter is None
    learner = networks._make_learner("NNMRFBayesClassifier")
    is_default = is_default and identity_of(learner) == identity_of(Variational())
    return is_default and not parameters.stops_early(n_rows, MIN_ROWS_FOR_HOLD_OUT)


def _class_updates(networks, n_rows, max_updates=None):
    """Return the number of updates of training on the rows of a class."""
    batches = -(-n_rows // networks.batch_size)
    window = min(WINDOW_OF_CLASS * batches, RATE_WITHOUT_HELD_OUT.window)
    updates = UPDATES_OF_WINDOW * window
    return updates if max_updates is None else min(updates, max_updates)


def plan_training(networks, counts, n_columns):
    """Limit the training of the default networks of classes.

    The work of an update is the number of networks, plus a constant. Large tables have fewer
    updates, fewer Markov chains and fewer quadrature points. No rows are held out for early
    stopping, because classes with many rows would have up to 3000 updates.

    Parameters
    ----------
    networks : NetworkPotentials
        Networks with default parameters.
    counts : ndarray of int, shape (n_classes,)
        Number of training rows of each class.
    n_columns : int
        Number of columns.

    Returns
    -------
    TrainingPlan or None
        None if the work allows only a few updates. ``longer`` is the default training, unless it
        needs very much work.
    """
    work = UPDATE_WORK + n_columns * (n_columns + 1) // 2
    max_updates = int(MAX_QUICK_WORK // (work * len(counts)))
    if max_updates < MIN_UPDATES:
        return None
    quick = clone(networks).set_params(early_stopping=False)
    updates = sum(_class_updates(networks, n) for n in counts.tolist())
    most = updates if (counts < MIN_ROWS_FOR_HOLD_OUT).all() else MAX_UPDATES * len(counts)
    longer = TrainingPlan(networks) if work * most <= MAX_LONG_WORK else None
    if work * updates > MAX_WORK:
        return TrainingPlan(quick.set_params(learner=clone(QUICK_LEARNER)), max_updates, 1, longer)
    n_trials = min(int(MAX_WORK // (work * updates)), MAX_TRIALS)
    return TrainingPlan(quick, None, n_trials, longer if most > updates else None)


def defensive_mixture(learner, energy, state):
    """Return the mixture of a learned model, with the Gaussian of the quadratic term."""
    beliefs = learner.final_beliefs(energy, state.learner)
    return beliefs.with_defensive_component(energy.mean, energy.covariance, BASE_WEIGHT)
