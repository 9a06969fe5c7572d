"""Initial values, learning rates and description of the hidden units of RBMs."""

from dataclasses import replace
from functools import partial

import numpy as np
from scipy.special import expit
from sklearn.exceptions import ConvergenceWarning

from .._jax import open_device
from .._utils.log_weights import normalized_weights
from .._utils.namespaces import as_numpy, without_values
from .._utils.rows import column_means, dense_rows, is_mapped, sample_weights
from .._utils.warn import warn_caller
from ..energies import BipartiteEnergy, SemiRestrictedEnergy
from ..exact.enumeration import LayerSum
from ..learners import Exact
from ..learners.exact import DeviceExact
from ..structure.chow_liu import fit_pairwise_forest, fit_tree, pair_couplings
from ..training import AdaptiveRate, initial_values, loop
from ..training.data_moments import effective_rows
from ..training.held_out import annealed_log_likelihoods, layered_score
from ..training.penalties import make_penalty
from ..training.preconditioning import LayerPreconditioner, PreconditionedSGD
from ._training import complete_states, rows_of_log_partition
from ._weight_decay import (
    RECENCY,
    choose,
    is_preconditioned,
    preconditioned_settings,
    split_rows,
)

FIRST_RATES = {"adam": 0.006, "sgd": 0.06, "momentum": 0.012, "preconditionedsgd": 0.2}
N_PSEUDO_ROWS = 50.0  # with the means 1/2, because partial_fit can have few rows
WINDOW = 500  # updates; long, because gradients of minibatches are mostly noise
COSINE = 0.0  # the rate falls if the mean gradients of half windows have a smaller cosine
N_HALVINGS = 3
MAX_UPDATES = 10_000  # if max_iter is None
MIN_PATIENCE = 500  # updates; hidden units need time to become different
WEIGHT_SCALE = 0.01  # standard deviation of the initial weights
ACTIVATION_SCALE = 1.5  # initial standard deviation of a hidden unit's log odds, beside couplings
START_SCALE = 5.0  # the same of one hidden unit without couplings
MAX_EXACT_ITERATIONS, MIN_EXACT_ITERATIONS = 100, 5  # with the exact gradient, after training
CHANGE_STRENGTH = 100.0  # times the number of rows, of the penalty on the change by them
MAX_EXACT_TERMS, MAX_EXACT_ROWS = 3e8, 1e7  # of all these iterations together
DEVICE_ROWS = 2**14  # rows whose hidden means a device computes together
DEVICE_WORK = 2**26  # multiplications; the CPU makes fewer in the time of a transfer
MAX_CHANGE = 0.05  # of a hidden mean among rows, if the hidden unit does not depend on the rows
MIN_DEVIATIONS = 6.0  # standard deviations of the sum of squared correlations
MAX_CHECKED_ROWS, MAX_CHECKED_COLUMNS = 10_000, 1000  # that can show a dependence
N_DESCRIBED_ROWS = 1000  # training rows for hidden_means_ and hidden_stds_


def initial_layers(data, n_hidden, init_visible_bias, rng, scale=WEIGHT_SCALE):
    """Return an energy with small random weights, so that the hidden units differ.

    Parameters
    ----------
    data : Batch
        Training rows: state codes, or probabilities as floating-point numbers.
    n_hidden : int
        Number of hidden units.
    init_visible_bias : {"data", "zeros"}
        Initial values of the visible biases: the log odds of the columns, or zeros.
    rng : Generator
        Random numbers of the weights.
    scale : float, default=0.01
        Standard deviation of the weights.

    Returns
    -------
    BipartiteEnergy
        Energy with parameters of dtype float32.
    """
    n_visible = data.X.shape[1]
    weights = rng.normal(0.0, scale, size=(n_visible, n_hidden)).astype(np.float32)
    bias = np.zeros(n_visible)
    if init_visible_bias == "data":
        bias = initial_values.column_log_odds(data.X, data.log_weights)
    return BipartiteEnergy(weights, bias, np.zeros(n_hidden))


def tree_layers(energy, data, device=None):
    r"""Return an energy whose hidden units have the couplings of a Chow-Liu tree.

    A hidden unit with the weights :math:`w` and :math:`\pm w` for two visible units, and the bias
    with which it is 1 with probability 1/2 if both weights cancel, is equivalent to a coupling
    :math:`J` of these units with :math:`|J| = 2 \ln \cosh (w / 2)`. The energy is the tree if there
    is a hidden unit for each edge. Otherwise it has the edges with the largest mutual information.

    Parameters
    ----------
    energy : BipartiteEnergy
        Energy with small random weights. Hidden units without an edge keep them.
    data : Batch
        Training rows: state codes, or probabilities as floating-point numbers.
    device : Device, optional
        Device of JAX that counts the pairs of ones of rows with equal weights.

    Returns
    -------
    BipartiteEnergy
        Energy with parameters of the same dtype.
    """
    device = None if data.log_weights is not None else device
    is_there = device is not None and device.holds(data.X) and data.X.dtype.kind != "f"
    rows = data if is_there else complete_states(data, np.random.default_rng(0))
    n, X = len(energy.visible_bias), dense_rows(rows.X)
    if device is not None and device.keeps(X.size):
        X = device.put(X.astype(np.int8))
    tree = fit_tree(X, [2] * n, weights=sample_weights(rows))
    weights, hidden_bias = energy.weights.copy(), energy.hidden_bias.copy()
    weakest = np.sort(tree.gains)[::-1][weights.shape[1] :].max(initial=-np.inf)
    forest = tree.prune(weakest)
    coupling, bias = pair_couplings(forest)
    for unit, (i, j) in enumerate(forest.cliques[n:]):
        w = 2.0 * np.arccosh(np.exp(0.5 * abs(coupling[i, j])))
        sign = 1.0 if coupling[i, j] > 0 else -1.0
        weights[:, unit] = 0.0
        weights[[i, j], unit] = w, sign * w
        hidden_bias[unit] = -0.5 * (1.0 + sign) * w
        bias[i] += 0.5 * (coupling[i, j] - w)
        bias[j] += 0.5 * (coupling[i, j] - sign * w)
    return BipartiteEnergy(weights, bias.astype(energy.visible_bias.dtype), hidden_bias)


def random_layers(energy, data):
    r"""Return an energy whose hidden units are random functions of the rows.

    If the correlations of the columns are small, as those of indicators of many categories, the
    gradient at small weights is nearly zero and the penalty keeps the weights there. Here the
    log odds of :math:`k` hidden units have the standard deviation :math:`5 k^{-1/4}`, so that the
    standard deviation of the log-potentials of rows does not depend on :math:`k`. Each hidden
    unit is 1 with probability 1/2 at the column means, and the visible biases cancel the mean
    effect of the hidden units.

    Parameters
    ----------
    energy : BipartiteEnergy
        Energy with small random weights.
    data : Batch
        Training rows: state codes, or probabilities as floating-point numbers.

    Returns
    -------
    BipartiteEnergy
        Energy with parameters of the same dtype.
    """
    means = expit(initial_values.column_log_odds(data.X, data.log_weights))
    deviation = START_SCALE / energy.weights.shape[1] ** 0.25
    weights = energy.weights * (deviation / WEIGHT_SCALE / np.sqrt((means * (1.0 - means)).sum()))
    weights = weights.astype(energy.weights.dtype)
    bias = energy.visible_bias - 0.5 * weights.sum(axis=1)
    return BipartiteEnergy(weights, bias, -means @ weights)


def other_starts(device):
    """Return the functions of other initial models than one with small random weights."""
    return partial(tree_layers, device=open_device(device)), random_layers


def initial_coupled_layers(data, n_hidden, states, rng, *, is_coupled=True):
    """Return an energy without couplings, whose hidden units are random functions of the rows.

    Couplings learn faster than hidden units. Hidden units with small weights would only explain the
    correlations that couplings explain, too, and would not become different. Each hidden unit is 1
    with probability 1/2 at the column means.

    Parameters
    ----------
    data : Batch
        Training rows, state codes.
    n_hidden : int
        Number of hidden units.
    states : pair of float
        Values of the visible states with the codes 0 and 1.
    rng : Generator
        Random numbers of the weights.
    is_coupled : bool, default=True
        Whether couplings between visible variables are parameters.

    Returns
    -------
    SemiRestrictedEnergy
        Energy with parameters of dtype float32.
    """
    low, high = states
    log_odds = initial_values.column_log_odds(data.X, data.log_weights)
    means = expit(log_odds)
    scale, coupling = WEIGHT_SCALE, None
    if is_coupled:
        scale = ACTIVATION_SCALE / np.sqrt((means * (1.0 - means)).sum())
        coupling = np.zeros((len(means), len(means)), dtype=np.float32)
    layers = initial_layers(data, n_hidden, "data", rng, scale)
    weights, bias = layers.weights / (high - low), log_odds / (high - low)
    hidden_bias = -(low + (high - low) * means) @ weights
    return SemiRestrictedEnergy(coupling, weights, bias, hidden_bias, states)


def training_settings(parameters, learner, energy, data, held_out, choice):
    """Return the settings of the training loop for a model with hidden units.

    Parameters
    ----------
    parameters : TrainingParameters
        Parameters of the estimator.
    learner : Learner
        Estimator of the gradient.
    energy : BipartiteEnergy or SemiRestrictedEnergy
        Initial model.
    data : Batch
        Training rows.
    held_out : Batch or None
        Rows of early stopping, with states; None without early stopping.
    choice : Choice
        Strength and centre of the weight decay, and learning rate.

    Returns
    -------
    Settings
        Settings with preconditioned steps where the learner and the parameters allow them.
    """
    min_epochs = -(-MIN_PATIENCE * parameters.batch_size // data.X.shape[0])
    settings = parameters.settings(
        learner,
        energy,
        data,
        alpha=choice.alpha,
        centre=choice.centre,
        default_optimizer="adam",  # also for the exact learner
        recency=RECENCY,
        patience=max(parameters.n_iter_no_change, min_epochs),
        max_updates=MAX_UPDATES,
    )
    if held_out is not None:
        settings = replace(settings, score=layered_score(energy, held_out, settings.device))
    finish = ()
    if is_preconditioned(learner, parameters):
        settings = preconditioned_settings(settings, energy, data, choice.rate)
        n_iter = _n_exact_iterations(energy, data, parameters.max_bytes)
        if n_iter:
            alpha = 0.0 if isinstance(parameters.alpha, str) else choice.alpha
            finish = (partial(_maximise_exactly, data, settings, alpha, n_iter),)
    elif parameters.has_default_rate(settings.optimizer):
        as_fit, optimizer = replace(parameters, is_partial=False), settings.optimizer
        if isinstance(energy, BipartiteEnergy) and is_preconditioned(learner, as_fit):
            optimizer = _centred_steps(energy, data, settings.penalty)
        settings = replace(settings, optimizer=optimizer, rate=adaptive_rate(optimizer))
    if isinstance(energy, BipartiteEnergy) and not parameters.is_partial:
        finish = (*finish, partial(_check_dependence, data, settings))
    return replace(settings, finish=finish)


def _centred_steps(energy, data, penalty):
    """Return the optimizer of ``partial_fit``, with centred and scaled gradients."""
    n, curvature = data.X.shape[0], penalty.curvature(energy.theta)["weights"]
    means = column_means(data.X, data.log_weights)
    means = (n * means + 0.5 * N_PSEUDO_ROWS) / (n + N_PSEUDO_ROWS)
    return PreconditionedSGD(LayerPreconditioner(means, np.max(curvature)))


def _n_exact_iterations(energy, data, max_bytes):
    """Return the number of iterations with the exact gradient after training, or 0.

    The iterations take less time than training. There are none if fewer than five are affordable.
    """
    if not isinstance(energy, BipartiteEnergy) or is_mapped(data.X):
        return 0
    layers = LayerSum(*energy.weights.shape)
    n_iter = min(MAX_EXACT_TERMS / 2.0**layers.log2_terms, MAX_EXACT_ROWS / data.X.shape[0])
    if n_iter < MIN_EXACT_ITERATIONS or not layers.fits(max_bytes):
        return 0
    return int(min(n_iter, MAX_EXACT_ITERATIONS))


def _maximise_exactly(data, settings, alpha, n_iter, state):
    """Return the final state of training after iterations of L-BFGS with the exact gradient.

    If the rows have well-separated clusters, Markov chains do not move between them, and the model
    can have wrong probabilities of the clusters. The exact gradient corrects them. A penalty on the
    change of the weights prevents overfitting. The weight decay ``alpha`` is added to it.
    """
    energy, learner = state.result(settings.average), Exact()
    if settings.device is not None and DeviceExact.fits(energy, data, settings.device):
        learner = DeviceExact(settings.device)
    else:
        data = data._replace(X=as_numpy(data.X))
    change = CHANGE_STRENGTH / effective_rows(data)
    centre = energy.theta | {"weights": energy.weights * (change / (alpha + change))}
    groups = energy.penalty_groups()
    penalty = make_penalty("l2", alpha + change, groups, energy.multiplicity, centre)
    given = {"optimizer": None, "max_iter": n_iter, "complete": False, "device": None}
    solver = replace(settings, penalty=penalty, score=None, **given)
    start = loop.start(energy, learner, data, solver, None)
    energy = loop.run(learner, data, solver, start).energy
    if state.best is None:
        return replace(state, energy=energy, averaged={}, n_averaged=0)
    score = settings.score(energy, state)
    return replace(state, best=(score, energy)) if score > state.best[0] else state


def _check_dependence(data, settings, state):
    """Return the final state; warn if columns are dependent, but independent in the model.

    They are independent in the model if no hidden unit depends on the rows. Zero weights are a
    stationary point, so training can end there.

    Parameters
    ----------
    data : Batch
        Training rows.
    settings : Settings
        Settings of the training loop.
    state : LoopState
        State at the end of training.

    Returns
    -------
    LoopState
        Final state, which has not converged if there was a warning.
    """
    rng = np.random.default_rng(0)
    rows = data.take(rng.permutation(data.X.shape[0])[:MAX_CHECKED_ROWS])
    H = _hidden_means(state.result(settings.average), rows.X, settings.device)
    if np.ptp(H, axis=0).max() > MAX_CHANGE:
        return state
    rows = complete_states(rows, rng)
    columns = rng.permutation(rows.X.shape[1])[:MAX_CHECKED_COLUMNS]
    rows = rows._replace(X=dense_rows(rows.X[:, columns]))
    if rows.log_weights is not None:  # the tree takes the sum of weights for the number of rows
        n = effective_rows(rows)
        rows = rows._replace(log_weights=np.log(n * normalized_weights(rows.log_weights, n)))
    if not (fit_pairwise_forest(rows, (0.0, 1.0)).coupling.any() or _are_correlated(rows)):
        return state
    warn_caller(
        "No hidden unit depends on the rows, so the columns are independent in the fitted model, "
        "but they are dependent in the rows. Try a smaller alpha, more n_components, or "
        "optimizer='adam' with alpha=0 and a constant learning rate. If some columns are "
        "indicators of categories, use DiscreteMRF for the categories.",
        ConvergenceWarning,
    )
    return replace(state, converged=False)


def _are_correlated(rows):
    """Return whether the sum of squared correlations is too large for independent columns.

    Each correlation can be small, as those of indicators of many categories. The mean and the
    variance of the sum are those of randomly permuted columns.
    """
    X, weights = rows.X.astype(float), normalized_weights(rows.log_weights, len(rows.X))
    variances = (means := weights @ X) * (1.0 - means)
    is_varied, n = variances > 1e-9, effective_rows(rows)
    Z = (X - means)[:, is_varied] / np.sqrt(variances[is_varied])
    squares = np.triu(n * (Z.T @ (weights[:, None] * Z)) ** 2, 1)
    kurtosis = 1.0 / variances[is_varied] - 6.0
    variance = np.maximum(2.0 + np.multiply.outer(kurtosis, kurtosis) / n, 2.0)
    n_pairs = len(kurtosis) * (len(kurtosis) - 1) / 2
    return squares.sum() - n_pairs > MIN_DEVIATIONS * np.sqrt(np.triu(variance, 1).sum())


def choose_model(energies, data, parameters):
    """Choose one of several models, its weight decay and its learning rate.

    Models are compared by short fits in their order, until one is worse than the best one. The
    comparison of strengths starts at the best strength of the model before, and its centre is kept.

    Parameters
    ----------
    energies : iterable of PairwiseEnergy or SemiRestrictedEnergy
        Initial models.
    data : Batch
        Training rows.
    parameters : TrainingParameters
        Parameters of the estimator. With a number as ``alpha``, only models are compared.

    Returns
    -------
    Choice
        Choice for the best model; for the first one if nothing is compared.
    """
    best = None
    for energy in energies:
        choice = choose(energy, data, parameters, compare_given=True, before=best)
        is_better = best is None or choice.score > best.score
        best = choice if is_better else best
        if choice.is_interrupted:
            return best._replace(is_interrupted=True)
        if choice.score <= -np.inf or not is_better:
            break
    return best


def keep_short_fit(choice, data, parameters, state):
    """Return the final training state, with the model of a short fit if its likelihood is higher.

    If columns exclude each other, such as indicators of categories, steps of training can be too
    large, and training can end at a model with modes far from the rows. A warning then says so. The
    state then has no Markov chains and no ladder. Continued training starts new ones.

    Parameters
    ----------
    choice : Choice
        Choice with a short fit.
    data : Batch
        Training rows.
    parameters : TrainingParameters
        Parameters of the estimator.
    state : LoopState
        State at the end of training.
    """
    reached, rows = state.result(parameters.average), split_rows(data, np.random.default_rng(0))[1]
    rows = complete_states(rows, np.random.default_rng(0))
    weights = normalized_weights(rows.log_weights, len(rows.X))

    def score(energy):
        return weights @ annealed_log_likelihoods(
            energy, rows, rows.X, parameters.device, choice.reference
        )

    # Training has used these rows, the short fit has not. So no overfitting can reduce this score.
    loss = choice.score - score(reached)
    if loss <= 0.0:
        return state
    warn_caller(
        "Training reached a mean log-likelihood of training rows that is at least "
        f"{loss:.3g} nats lower than that of a short fit. The fitted model is the short fit, which "
        "has not used all rows. If some columns are indicators of categories, use DiscreteMRF for "
        "the categories.",
        ConvergenceWarning,
    )
    return state.with_other_model(choice.energy)


def adaptive_rate(optimizer):
    """Return the default learning-rate schedule of an optimizer."""
    name = type(optimizer).__name__.lower()
    first = FIRST_RATES.get(name, FIRST_RATES["adam"])
    return AdaptiveRate(first, WINDOW, COSINE, N_HALVINGS)


def infer_hidden(energy, X, dtype, device):
    """Return the probability that each hidden unit is 1, given each row.

    Parameters
    ----------
    energy : BipartiteEnergy
        Fitted model.
    X : ndarray, sparse matrix or array of JAX of shape (n_rows, n_visible)
        State codes, or probabilities as floating-point numbers.
    dtype : dtype
        Data type of the result.
    device : Device or None
        Device, which computes in float32. None for the CPU.

    Returns
    -------
    ndarray of shape (n_rows, n_hidden)
        Probabilities.
    """
    if device is None:
        return energy.astype(dtype).hidden_means(X)
    form = without_values(energy)
    infer = device.compile(
        lambda theta, V: form.with_theta(theta).hidden_means(V),
        ("hidden means", type(energy)),
        exact=True,
    )
    out = np.empty((X.shape[0], energy.weights.shape[1]), dtype)
    sizes = {"largest": DEVICE_ROWS, "n_entries": sum(energy.weights.shape)}
    device.compute_rows(infer, energy.theta, lambda rows: dense_rows(X[rows]), out, **sizes)
    return out


def _hidden_means(energy, X, device):
    """Return the probability that each hidden unit is 1, from a device if the CPU takes longer."""
    device = device if X.shape[0] * energy.weights.size > DEVICE_WORK else None
    return infer_hidden(energy, X, energy.weights.dtype, device)


def describe_hidden_units(energy, data, seed, device):
    """Return fitted attributes of the hidden units, computed from a random subset of the rows."""
    rng = np.random.default_rng(seed)
    few = rng.permutation(data.X.shape[0])[:N_DESCRIBED_ROWS]
    rows = data.take(few)
    H = _hidden_means(energy, rows.X, device)
    weights = normalized_weights(rows.log_weights, len(H))
    means = weights @ H
    H -= means.astype(H.dtype)
    return {
        "hidden_means_": means,
        "hidden_stds_": np.sqrt(np.einsum("i,ij,ij->j", weights, H, H)),
        **rows_of_log_partition(data, rng),
    }
