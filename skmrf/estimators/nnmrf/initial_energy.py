"""Initial model (networks and quadratic term), training settings and checks of parameters."""

import joblib
import numpy as np
from sklearn.base import clone

from ..._utils.log_weights import normalized_weights
from ..._utils.parameters import check_covariance, check_number
from ...energies import NeuralEnergy
from ...learners.initial_mixture import impute_normal
from ...training import AdaptiveRate
from .._training import check_memory
from .gaussian_base import gaussian_base
from .graph import resolve_edges
from .scores import held_out_score

# Parameters that must not change if training continues.
FIXED_PARAMETERS = "base", "prior_covariance", "shrinkage", "column_types", "categories"
N_COMPONENTS = 5  # of the mixture, assumed in estimates of memory
MIN_ROWS_FOR_HOLD_OUT = 500  # with early_stopping="auto"
PRIOR_PRECISION = 1.0  # of the normal prior of the weights
BASE_WEIGHT = 0.05  # of the base in mixture_, whose other components have lighter tails
FIRST_RATES = {"adam": 0.03, "sgd": 0.1, "momentum": 0.03}
WINDOW, COSINE, N_HALVINGS = 200, 0.0, 3
# It ends training after 500 updates.
RATE_WITHOUT_HELD_OUT = AdaptiveRate(window=200, cosine=1.0, n_halvings=1)
RECENCY = 8.0  # recent iterates have large weights, because iterates keep improving
MIN_PATIENCE = 300  # updates without a better score
MAX_UPDATES = 3000
MAX_BASE = 1e6  # a larger one makes networks vanish in the rounding of the base


def check_layers(name, layers):
    """Raise a ValueError unless there is at least one layer, each with at least one unit."""
    if not isinstance(layers, tuple | list) or not layers:
        raise ValueError(
            f"{name} must be a tuple with the number of units of each hidden layer, at least one "
            f"layer; got {layers!r}."
        )
    for width in layers:
        check_number(name, width, low=1, integer=True)


def fixed_parameters(density):
    """Return the parameters that must not change when a later fit continues training."""
    kept = {k: getattr(density, k) for k in FIXED_PARAMETERS}
    return kept | {"graph": density.graph if isinstance(density.graph, str) else None}


def check_same_model(density, energy, fixed, names):
    """Raise a ValueError if a parameter of the model has changed since the previous fit.

    Parameters
    ----------
    density : NNMRFDensity
        Estimator with its current parameters.
    energy : NeuralEnergy
        Model of the previous fit.
    fixed : dict
        Result of :func:`fixed_parameters` in the previous fit.
    names : list
        Names of the columns.
    """
    layers_of_fit = {"node_layers": energy.shape.nodes, "edge_layers": energy.shape.edges}
    changed = [k for k, layers in layers_of_fit.items() if tuple(getattr(density, k)) != layers]
    depends_on_rows = isinstance(density.graph, str) and density.graph in ("tree", "knn")
    if depends_on_rows:
        changed += ["graph"] * (fixed["graph"] != density.graph)
    else:
        edges = resolve_edges(density.graph, None, names)
        changed += ["graph"] * (not np.array_equal(edges, energy.edges))
    changed += [
        k for k in FIXED_PARAMETERS if joblib.hash(getattr(density, k)) != joblib.hash(fixed[k])
    ]
    if changed:
        raise ValueError(
            f"Training cannot continue, because {changed[0]} differs from its value in the "
            "previous fit. Start anew with fit and warm_start=False."
        )


def correlation(X, weights):
    """Return the weighted correlation matrix of the columns; state codes are used as numbers."""
    centred = X - weights @ X
    covariance = (weights[:, None] * centred).T @ centred
    deviation = np.sqrt(np.maximum(np.diag(covariance), 1e-12))
    return covariance / deviation / deviation[:, None]


def initial_energy(density, data, columns, rng):
    """Return the initial energy: networks with small random weights, and the quadratic term.

    Parameters
    ----------
    density : NNMRFDensity
        Estimator with the graph, the layers of the networks and the quadratic term.
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
    edges = resolve_edges(density.graph, correlation(X, weights), columns.names)
    _check_size(density, columns.n_states, edges)
    mean, precision = _quadratic_term(density, X, weights, columns, edges)
    return NeuralEnergy.random(
        columns.n_states,
        edges,
        node_layers=tuple(density.node_layers),
        edge_layers=tuple(density.edge_layers),
        mean=mean,
        precision=precision,
        dtype=np.float32,
        random_state=rng,
    )


def _quadratic_term(density, X, weights, columns, edges):
    """Return the mean and the precision matrix of the energy's quadratic term."""
    numbers = columns.continuous
    if density.base == "gaussian":
        target = _shrinkage_target(density.prior_covariance, columns)
        return gaussian_base(X, numbers, weights, edges, target, density.shrinkage)
    return np.zeros(len(numbers)), density.base * (2.0 * np.eye(len(numbers)))


def _shrinkage_target(prior_covariance, columns):
    """Convert ``prior_covariance`` to the scale of standardised columns; None stays None."""
    if prior_covariance is None:
        return None
    m = len(columns.continuous)
    target = check_covariance("prior_covariance", prior_covariance, m)
    return target / columns.scale / columns.scale[:, None]


def _check_size(density, n_states, edges):
    """Raise a ValueError if the networks need more memory than ``max_bytes``."""
    slots = int(max(n_states.max(initial=1), 1))
    nodes = len(n_states) * density.node_layers[0]
    pairs = len(edges) * 2 * density.edge_layers[0]
    check_memory(
        slots * (nodes + pairs),
        density.max_bytes,
        "weights of first layers",
        'Use a sparser graph (such as "tree" or "knn"), or raise max_bytes.',
    )
    check_memory(
        N_COMPONENTS * len(edges) * slots**2,
        density.max_bytes,
        "potentials of pairs of states",
        "Merge rare categories, use a sparser graph, or raise max_bytes.",
    )


def network_settings(density, parameters, learner, energy, data, held_out):
    """Return the settings of the training loop.

    Parameters
    ----------
    density : NNMRFDensity
        Estimator with its parameters.
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
    updates = -(-n // density.batch_size)
    settings = parameters.settings(
        learner,
        energy,
        data,
        alpha=PRIOR_PRECISION / n if density.alpha == "auto" else density.alpha,
        default_optimizer="adam",
        recency=RECENCY,
        patience=max(density.n_iter_no_change, -(-MIN_PATIENCE // updates)),
        min_updates=0,
        max_updates=MAX_UPDATES,
        score=held_out_score(learner, held_out, density.density),
    )
    if parameters.has_default_rate(settings.optimizer):
        settings.rate = _default_rate(settings.optimizer, learner, held_out)
    return settings


def _default_rate(optimizer, learner, held_out):
    first = FIRST_RATES.get(type(optimizer).__name__.lower(), 0.03) * learner.pace
    if held_out is None:
        return clone(RATE_WITHOUT_HELD_OUT).set_params(rate=first)
    return AdaptiveRate(first, WINDOW, COSINE, N_HALVINGS)


def defensive_mixture(learner, energy, state):
    """Return the mixture of a learned model, with the Gaussian of the quadratic term."""
    beliefs = learner.final_beliefs(energy, state.learner)
    return beliefs.with_defensive_component(energy.mean, energy.covariance, BASE_WEIGHT)
