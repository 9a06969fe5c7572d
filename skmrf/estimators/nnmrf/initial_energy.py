"""Initial model (networks and quadratic term), and checks before training continues."""

import joblib
import numpy as np

from ..._utils.log_weights import normalized_weights
from ..._utils.parameters import check_covariance, check_number
from ...energies import NeuralEnergy
from ...learners.initial_mixture import impute_normal
from .._training import check_memory
from .gaussian_base import gaussian_base
from .graph import resolve_edges

# Parameters that must not change if training continues.
FIXED_PARAMETERS = "base", "prior_covariance", "shrinkage", "column_types", "categories"
N_COMPONENTS = 5  # of the mixture, assumed in estimates of memory


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
