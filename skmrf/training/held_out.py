"""Scores of models on held-out rows, for early stopping and to choose parameters."""

import warnings

import numpy as np

from .._utils.codes import MISSING
from .._utils.log_weights import normalized_weights
from .._utils.namespaces import namespace, options_of, without_values
from .._utils.rows import dense_rows, has_missing
from ..energies import LayeredEnergy
from ..energies.bipartite import sum_softplus
from ..energies.conditionals import as_matrix
from ..exact.expectations import exact_model, quick_exact_model
from ..exact.tree_decomposition import forecast
from ..inference import row_queries
from ..learners.exact import DeviceExact, likelihood_on_device
from ..learners.pseudo_likelihood import site_log_likelihood
from ..likelihood import ais, log_partition_bounds

MAX_TABLE_ENTRIES = 2**20  # of elimination, for an exact log-likelihood
MAX_LAYER_SIZE = 12  # for an exact log-likelihood, which takes less time than annealing
N_SITES = 16  # of each row, for a pseudo-likelihood
NARROW = 0.5  # nats; width of an interval of log Z whose middle is accurate enough
N_TEMPERATURES, MIN_CHAINS, MAX_CHAINS = (1000, 4000), 64, 256
N_REFERENCE_TEMPERATURES = 250, 1000  # from a reference model, which is nearer to the model
N_DEVICE_CHAINS = 128  # the default of ais, so that a device compiles nothing for a later log Z
MAX_WORK = 1e8  # draws of the first run in one direction, if more than MIN_CHAINS are moved
NO_COMPLETE_ROW = (
    "This model is too large to score held-out rows with missing entries, but each held-out row "
    "has a missing entry. Set early_stopping=False."
)


def held_out_score(layout, held_out):
    """Return a function that scores a model with tables of log-potentials on held-out rows.

    The score is the mean log-likelihood if exact elimination is cheap, else the mean
    pseudo-log-likelihood of the complete rows.

    Parameters
    ----------
    layout : Layout
        Layout of the tables of the model.
    held_out : Batch
        Held-out rows and their weights.

    Returns
    -------
    callable
        Function ``(energy, state) -> float``, in nats. It ignores the state of the loop.

    Raises
    ------
    ValueError
        If elimination is not cheap and no held-out row is complete.
    """
    weights = normalized_weights(held_out.log_weights, len(held_out.X))
    cost = forecast(layout)
    if cost.order is not None and cost.entries <= MAX_TABLE_ENTRIES:

        def score(energy, _):
            rows = row_queries.row_log_partitions(energy.factor_graph(), held_out.X, exact=True)
            return float(weights @ rows) - log_partition_bounds(energy, method="exact").value

        return score
    complete = (held_out.X != MISSING).all(axis=1)
    if not complete.any():
        raise ValueError(NO_COMPLETE_ROW)
    share = weights[complete] / weights[complete].sum()
    return lambda energy, _: float(share @ site_log_likelihood(energy, held_out.X[complete])[0])


def log_likelihoods(energy):
    """Return a function that computes the log-likelihoods of rows by exact inference.

    Parameters
    ----------
    energy : FactorGraph
        Model with the same cliques as the models to score.

    Returns
    -------
    callable
        Function ``(energy, rows) -> ndarray of shape (n_rows,)``, in nats. The rows are a Batch.
    """
    model = exact_model(energy)

    def score_rows(energy, rows):
        sums = row_queries.row_log_partitions(energy, rows.X, exact=True)
        return sums - model.log_partition(energy)

    return score_rows


def forest_log_likelihoods(energy, rows):
    """Return the log-likelihood of each row under a model whose nonzero tables form a forest.

    Parameters
    ----------
    energy : FactorGraph or PairwiseEnergy
        Model, such as a Chow-Liu forest with zeros for all other pairs.
    rows : Batch
        Complete rows.

    Returns
    -------
    ndarray of shape (n_rows,)
        Log-likelihoods in nats, with the exact log Z.
    """
    forest = energy.factor_graph().without_zero_tables()
    return forest.log_potential(rows.X) - exact_model(forest).log_partition(forest)


def pseudo_log_likelihoods(energy, rows):
    """Return the pseudo-log-likelihood of each row of a batch in nats, shape (n_rows,)."""
    return site_log_likelihood(energy, rows.X)[0]


def layered_score(energy, held_out, device=None):
    """Return a function that scores a model with hidden units on held-out rows.

    The score is the mean log-likelihood if the exact log Z is cheap, as it is with a layer of at
    most 12 units in a two-layer model. Else it is an estimate of the mean pseudo-log-likelihood
    from 16 randomly chosen variables of each row. Rows with missing entries are ignored.

    Parameters
    ----------
    energy : HiddenLayerEnergy
        Energy with the same numbers of units as the energies to score.
    held_out : Batch
        Held-out rows and their weights.
    device : Device, optional
        Device of JAX that computes the scores in float64, unless it is a processor.

    Returns
    -------
    callable
        Function ``(energy, state) -> float``, in nats. It ignores the state of the loop.
    """
    if has_missing(held_out.X):
        held_out = held_out.take((held_out.X != MISSING).all(axis=1))
        if not len(held_out.X):
            raise ValueError(NO_COMPLETE_ROW)
    weights = normalized_weights(held_out.log_weights, held_out.X.shape[0])
    device = None if device is not None and device.is_processor else device
    n_visible, n_hidden = energy.weights.shape
    if _n_summed(energy) <= MAX_LAYER_SIZE:
        is_layered = isinstance(energy, LayeredEnergy)
        if device is not None and is_layered and DeviceExact.fits(energy, held_out, device):
            likelihood = likelihood_on_device(energy, held_out, device)
            return lambda energy, _: likelihood.value(energy.theta)

        def score(energy, _):
            rows = float(weights @ energy.log_marginal(held_out.X))
            return rows - log_partition_bounds(energy, method="exact").value

        return score
    X = dense_rows(held_out.X)
    # fixed, so that a resumed fit has the scores of an uninterrupted one
    sites = np.random.default_rng(0).integers(n_visible, size=(N_SITES, len(X)))
    if device is None or not device.keeps(8.0 * X.size):
        return lambda energy, _: float(weights @ _pseudo_log_likelihoods(energy, X, sites))
    form = without_values(energy)

    def terms(theta, rows):
        V, chosen = rows[:, :n_visible], rows[:, n_visible:].T
        return _pseudo_log_likelihoods(form.with_theta(theta), V, chosen)

    identity = "pseudo-log-likelihood", type(energy), options_of(energy), n_visible, n_hidden
    rows = np.hstack([X, sites.T]).astype(np.int32)
    score = device.weighted_sum(terms, lambda _: 0.0, identity, rows, weights)
    return lambda energy, _: score.value(energy.theta)


def _n_summed(energy):
    """Return the number of units whose states an exact log Z of a model with two states sums."""
    n_visible = len(energy.visible_states)
    if not isinstance(energy, LayeredEnergy):
        return n_visible
    return min(n_visible, len(energy.n_states) - n_visible)


def annealed_log_likelihoods(energy, rows, start, device, reference=None):
    """Return the log-likelihood of each row, with the exact log Z or a quick estimate.

    The estimate is the middle of the interval of log Z. If the interval is wide, a second run has
    four times as many temperatures. If it is still wide, the upper limit is used. Reverse chains
    that begin at ``start`` raise this limit if annealing misses the data's modes.

    Parameters
    ----------
    energy : BipartiteEnergy, PairwiseEnergy or SemiRestrictedEnergy
        Model.
    rows : Batch
        Complete rows.
    start : ndarray of shape (n_starts, n_variables)
        Rows from which reverse chains start.
    device : str
        Device of the chains.
    reference : PairwiseEnergy, optional
        Forest from which chains start. Chains from independent columns can miss rare states that
        imply each other.

    Returns
    -------
    ndarray of shape (n_rows,)
        Log-likelihoods in nats.
    """
    exact = quick_exact_model(energy) if _n_summed(energy) <= MAX_LAYER_SIZE else None
    if exact is not None:
        return energy.log_marginal(rows.X) - exact.log_partition(energy)
    n_affordable = MAX_WORK / (N_TEMPERATURES[0] * energy.sweep_work)
    n_chains = int(np.clip(n_affordable, MIN_CHAINS, MAX_CHAINS))
    n_chains = n_chains if device == "cpu" else N_DEVICE_CHAINS
    how = {"n_chains": n_chains, "start": start, "random_state": 0, "device": device}
    lengths = N_TEMPERATURES if reference is None else N_REFERENCE_TEMPERATURES
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # an estimate is used, however wide the interval is
        for n_temperatures in lengths:
            log_z = ais(energy, n_temperatures=n_temperatures, reference=reference, **how)
            if log_z.upper - log_z.lower <= NARROW:
                return energy.log_marginal(rows.X) - 0.5 * (log_z.lower + log_z.upper)
    return energy.log_marginal(rows.X) - log_z.upper


def _pseudo_log_likelihoods(energy, X, sites):
    """Return an estimate of the pseudo-log-likelihood of each row, for arrays of numpy or JAX.

    A variable changes the inputs of the hidden units by a row of the weights. So the inputs are
    computed only once.

    Parameters
    ----------
    energy : HiddenLayerEnergy
        Model.
    X : array of int of shape (n_rows, n_visible)
        Codes 0 and 1.
    sites : array of int of shape (n_sites, n_rows)
        Variables of each row, which are chosen at random.

    Returns
    -------
    array of shape (n_rows,)
        Estimates in nats.
    """
    how, xp, rows = energy.conditionals(), namespace(energy.weights), np.arange(len(X))
    V = X.astype(how.weights.dtype)
    activation, bias = V @ how.weights, as_matrix(how.hidden_bias)
    odds = xp.broadcast_to(as_matrix(how.visible_bias), V.shape)
    odds = odds + V @ how.coupling if hasattr(how, "coupling") else odds
    sums, total = sum_softplus(activation, bias, 1.0), 0.0
    for chosen in sites:
        change = 1.0 - 2.0 * V[rows, chosen]
        moved = activation + change[:, None] * how.weights[chosen]
        gain = change * odds[rows, chosen] + sum_softplus(moved, bias, 1.0) - sums
        total = total - xp.logaddexp(0.0, gain)
    return total * (V.shape[1] / len(sites))
