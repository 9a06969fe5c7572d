"""Training and constraints of conditional random fields."""

from collections.abc import Hashable, Iterable, Mapping
from dataclasses import replace
from functools import partial
from typing import NamedTuple

import numpy as np
from scipy.sparse import issparse

from .._utils.codes import MISSING
from .._utils.label_graphs import observed_pairs
from .._utils.log_weights import normalized_weights
from .._utils.rows import Batch
from ..energies.crf import CRFEnergy, without_labels
from ..likelihood import label_graphs
from ..training import loop
from ..training.logistic_start import mean_and_error
from ..training.schedules import ConstantRate

N_DENSE = 10**6  # largest number of weights for which each feature has a weight for each label
MIN_EXAMPLES = 50  # with fewer examples, alpha is chosen by cross-validation
MIN_CYCLIC = 10  # with fewer examples with cycles, alpha is the default strength
N_FOLDS, HELD_OUT = 5, 0.15
MIN_LABELS = 30  # with fewer labels, alpha is not smaller than the default strength
FACTOR, MAX_TRIALS, N_TRIAL_ITER = 3.0, 6, 30
N_PERCEPTRON_EPOCHS = 20
# A Newton step gains g**2 / (2 c) for the gradient g and the curvature c, here 1 / 2000.
GAIN_OF_STEP = 1000.0
N_SMALL_GAINS, MAX_GRADIENT = 3, 2.0  # one small gain can occur far from the optimum
MIN_POSITIONS = 10


def initial_energy(graphs, n_labels, graph, feature_labels):
    """Return an energy with zero parameters for the training examples.

    Parameters
    ----------
    graphs : LabelGraphs
        Training examples.
    n_labels : int
        Number of labels.
    graph : str
        Kind of graph.
    feature_labels : {"auto", "all", "observed"}
        Pairs of a feature and a label that have a weight.

    Returns
    -------
    CRFEnergy
        Energy.
    """
    n_features, pairs = graphs.features.shape[1], None
    is_large = n_features * n_labels > N_DENSE
    is_sparse = issparse(graphs.features)
    if is_sparse and (feature_labels == "observed" or (feature_labels == "auto" and is_large)):
        pairs = observed_pairs(graphs, n_labels)
    n_edge_features = graphs.edge_features.shape[1]
    if graph == "chain" and graphs.sizes.max() == 1:
        graph = "given"  # weights of the first and last label would equal the intercept
    return CRFEnergy.zeros(n_features, n_labels, n_edge_features, graph=graph, pairs=pairs)


def make_settings(parameters, learner, energy, data, alpha, score=None):
    """Return the settings of the training loop.

    Parameters
    ----------
    parameters : TrainingParameters
        Parameters of the estimator.
    learner : GraphLearner
        Estimator of the gradient.
    energy : CRFEnergy
        Initial energy.
    data : Batch
        Training examples.
    alpha : float
        Strength of the penalty.
    score : callable, optional
        Score of held-out examples.

    Returns
    -------
    Settings
        Settings.
    """
    settings = parameters.settings(
        learner,
        energy,
        data,
        alpha=alpha,
        score=score,
        default_optimizer=_default_optimizer(learner, parameters.penalty, alpha),
        min_gain=GAIN_OF_STEP * parameters.tol**2,
        n_small_gains=N_SMALL_GAINS,
        max_gradient=MAX_GRADIENT * parameters.tol * max(MIN_POSITIONS, data.X.sizes.mean()),
    )
    if not learner.has_margin and settings.optimizer is not None:
        if parameters.has_default_rate(settings.optimizer):
            settings = replace(settings, rate=ConstantRate(1.0))
        if settings.max_iter is None:
            settings = replace(settings, max_iter=N_PERCEPTRON_EPOCHS, complete=False)
    return settings


def _default_optimizer(learner, penalty, alpha):
    """Return the optimizer that "auto" selects."""
    if not learner.has_margin:
        return "sgd"
    is_l2 = penalty == "l2" and alpha > 0
    return "auto" if is_l2 or not learner.needs_l2 else "adam"


def default_alpha(n_examples):
    """Return the strength of the penalty without a choice by held-out examples."""
    return 2.0 / n_examples


class _Fold(NamedTuple):
    """Training examples and held-out examples of a fold.

    Attributes
    ----------
    train, held_out : Batch
        Training examples and held-out examples.
    weights : ndarray of shape (n_held_out,)
        Weights of the held-out examples.
    """

    train: Batch
    held_out: Batch
    weights: np.ndarray


def _divide(data, rng):
    """Return the folds of a cross-validation, or one fold if there are many examples.

    Held-out labels that the training examples of a fold do not have are missing. There are no folds
    for one example, or for few examples with cycles, whose fits take long.
    """
    n, has_cycles = len(data.X), data.X.trees is None
    if n < (MIN_CYCLIC if has_cycles else 2):
        return []
    order, weights = rng.permutation(n), normalized_weights(data.log_weights, n)
    parts = [order[: max(1, round(HELD_OUT * n))]]
    if n < MIN_EXAMPLES and not has_cycles:
        parts = np.array_split(order, min(N_FOLDS, n))
    folds = []
    for part in map(np.sort, parts):
        train, held_out = data.take(np.setdiff1d(order, part)), data.take(part)
        labels = held_out.X.labels
        labels = np.where(np.isin(labels, train.X.labels), labels, MISSING)
        held_out = held_out._replace(X=held_out.X.with_labels(labels))
        folds.append(_Fold(train, held_out, weights[part]))
    return folds


def _cut(data):
    """Return the examples. Chains are cut into parts if they are too few for the folds."""
    n = len(data.X)
    if n >= N_FOLDS or data.X.edges is not None:
        return data
    graphs, counts = data.X.cut(-(-N_FOLDS // n))
    logs = data.log_weights
    return _keep_labelled(Batch(graphs, None, None if logs is None else np.repeat(logs, counts)))


def choose_alpha(learner, energy, data, parameters, rng):
    """Choose the strength of the penalty by the log-likelihood of held-out examples.

    Strengths that differ by a factor of three are compared, starting at two divided by the number
    of examples. Each fit starts at the parameters of the fit before it. In a cross-validation,
    another strength is chosen if it increases the log-likelihood by more than one standard error.
    With few labels, only larger strengths are compared.

    Parameters
    ----------
    learner : GraphLearner
        Learner with a deterministic objective.
    energy : CRFEnergy
        Initial energy.
    data : Batch
        Training examples. Up to 49 are divided into folds if they have no cycles, and up to 4
        chains are cut into parts.
    parameters : TrainingParameters
        Parameters of the estimator.
    rng : numpy.random.Generator
        Random numbers that select the held-out examples.

    Returns
    -------
    alpha : float
        Strength of the penalty.
    path : dict of str to ndarray, or None
        Strengths, and their held-out log-likelihoods of an example in nats. None if there are
        too few examples to choose the strength.
    energy : CRFEnergy
        Energy at which the fit to all examples can start.
    interrupted : bool
        Whether Ctrl-C stopped the choice.
    """
    first, parts = default_alpha(len(data.X)), _cut(data)
    folds, scale = _divide(parts, rng), len(parts.X) / len(data.X)
    if not folds:
        return first, None, energy, False
    parameters = replace(parameters, max_iter=N_TRIAL_ITER, average=False)
    weights = np.concatenate([fold.weights for fold in folds])
    weights /= weights.sum()
    n_errors = 1.0 if len(folds) > 1 else 0.0
    trials, energies, best, step = {}, [energy] * len(folds), 0, 1
    best_energy, is_interrupted = energy, False
    while len(trials) < MAX_TRIALS and not is_interrupted:
        exponent = best + step if trials else 0
        alpha = first * FACTOR**exponent / scale
        energies, scores, is_interrupted = _fit_folds(
            learner, energies, folds, parameters, alpha, rng
        )
        if len(scores) < len(weights):
            break
        trials[exponent] = scores
        gain, error = mean_and_error(scores - trials[best], weights)
        if exponent == 0 or gain > n_errors * error:
            best, best_energy = exponent, energies[0]
        elif len(trials) > 2 or np.count_nonzero(data.X.labels >= 0) < MIN_LABELS:
            break
        else:
            step = -1
    exponents = sorted(trials)
    path = {
        "alphas": first * FACTOR ** np.array(exponents, dtype=float),
        "log_likelihoods": np.array([scale * (trials[k] @ weights) for k in exponents]),
    }
    return first * FACTOR**best, path, best_energy, is_interrupted


def _fit_folds(learner, energies, folds, parameters, alpha, rng):
    """Fit a model to each fold.

    Returns
    -------
    energies : list of CRFEnergy
        Fitted models.
    scores : ndarray of shape (n_held_out,)
        Log-likelihoods of the held-out examples of these models in nats.
    interrupted : bool
        Whether Ctrl-C stopped a fit. Later folds are then not fitted.
    """
    infer = partial(label_graphs.sums, method=learner.inference, **learner.solver_options())
    fitted, scores = [], []
    for energy, fold in zip(energies, folds, strict=True):
        settings = make_settings(parameters, learner, energy, fold.train, alpha)
        settings = replace(settings, complete=False)
        state = loop.start(energy, learner, fold.train, settings, rng)
        state = loop.run(learner, fold.train, settings, state)
        fitted.append(state.energy)
        scores.append(log_likelihoods(state.energy, fold.held_out.X, infer))
        if state.interrupted:
            break
    return fitted, np.concatenate(scores), state.interrupted


def held_out_score(learner, held_out):
    """Return a function that scores an energy by held-out examples.

    Parameters
    ----------
    learner : GraphLearner
        Learner. The score is the mean log-likelihood of an example in nats, or the share of correct
        labels if the learner has no probabilities.
    held_out : Batch
        Held-out examples.

    Returns
    -------
    callable
        Function ``(energy, state) -> float``.
    """
    infer = partial(label_graphs.sums, method=learner.inference, **learner.solver_options())
    weights = np.ones(len(held_out.X))
    if held_out.log_weights is not None:
        weights = np.exp(held_out.log_weights - held_out.log_weights.max())

    def score(energy, state):  # noqa: ARG001
        graphs = held_out.X
        if learner.has_probabilities:
            return float(np.average(log_likelihoods(energy, graphs, infer), weights=weights))
        states, _ = label_graphs.maxima(without_labels(graphs), energy.potentials(graphs))
        is_known = graphs.labels >= 0
        is_right = states % energy.n_labels == graphs.labels
        return float(
            np.average(is_right[is_known], weights=np.repeat(weights, graphs.sizes)[is_known])
        )

    return score


def log_likelihoods(energy, graphs, infer):
    """Return the log-probability of the known labels of each example, in nats.

    Parameters
    ----------
    energy : CRFEnergy
        Model.
    graphs : LabelGraphs
        Examples with labels.
    infer : callable
        Function ``(graphs, potentials) -> LabelSums``.

    Returns
    -------
    ndarray of shape (n_examples,)
        Log-probabilities in nats.
    """
    potentials = energy.potentials(graphs)
    log_z = infer(without_labels(graphs), potentials).log_z
    if graphs.is_labelled:
        return energy.log_potential(graphs) - log_z
    return infer(graphs, potentials).log_z - log_z


def keep_known(graphs, sample_weight):
    """Return the examples that have a known label and a positive weight, as a batch.

    Parameters
    ----------
    graphs : LabelGraphs
        Training examples.
    sample_weight : ndarray of shape (n_examples,) or None
        Weight of each example.

    Returns
    -------
    Batch
        Examples and their log weights.
    """
    log_weights = None
    if sample_weight is not None:
        with np.errstate(divide="ignore"):
            log_weights = np.log(sample_weight)
    data = _keep_labelled(Batch(graphs, None, log_weights))
    if sample_weight is not None:
        data = data.take(data.log_weights > -np.inf)
    if not len(data.X):
        raise ValueError(
            "No example has both a known label and a positive weight; at least one is needed."
        )
    return data


def _keep_labelled(data):
    """Return the examples that have a known label."""
    graphs = data.X
    is_known = np.bincount(graphs.example_of_node, graphs.labels >= 0, minlength=len(graphs))
    return data.take(is_known > 0)


def check_edge_features(energy, graphs):
    """Return examples whose edges have as many features as those of fit, or raise a ValueError.

    Parameters
    ----------
    energy : CRFEnergy
        Fitted model.
    graphs : LabelGraphs
        Examples.

    Returns
    -------
    LabelGraphs
        Examples.
    """
    n, n_found = len(energy.theta["transition"]), graphs.edge_features.shape[1]
    if graphs.edges is None or n == n_found:
        return graphs
    if len(graphs.edges):
        raise ValueError(f"The edges of X have {n_found} features, but those of fit have {n}.")
    return replace(graphs, edge_features=np.zeros((1, n)))


def encode_labels(codes, labels):
    """Return the codes of labels, with -1 for missing labels.

    Parameters
    ----------
    codes : LabelCodes
        Codes of the labels.
    labels : list
        Labels.

    Returns
    -------
    ndarray of int of shape (n_labels,)
        Codes.

    Raises
    ------
    ValueError
        If a label was not seen during fit.
    """
    found = codes.encode(labels)
    if (found < -1).any():
        label = labels[int(np.flatnonzero(found < -1)[0])]
        raise ValueError(
            f"y or given has the label {label!r}, which was not seen during fit. Use a label in "
            "classes_, or None for a missing label."
        )
    return found


# Constraints ------------------------------------------------------------------------------


def allowed_transitions(allowed, classes):
    """Return which labels can follow each other, and which labels can be the first.

    Parameters
    ----------
    allowed : "iob2" or iterable of (label, label)
        Pairs of a label and the next label that are allowed. "iob2": a label ``I-x`` follows only
        ``B-x`` or ``I-x``, and is never the first label.
    classes : ndarray of shape (n_labels,)
        Labels.

    Returns
    -------
    pairs : ndarray of bool of shape (n_labels, n_labels)
        Whether the label of the column can follow the label of the row.
    first : ndarray of bool of shape (n_labels,)
        Whether a label can be the first.
    """
    labels = classes.tolist()
    if isinstance(allowed, str):
        if allowed != "iob2":
            raise ValueError(
                f'allowed must be "iob2" or a list of pairs of labels; got {allowed!r}.'
            )
        texts = [str(label) for label in labels]
        inside = np.array([text.startswith("I-") for text in texts])
        pairs = np.array([[_can_follow(a, b) for b in texts] for a in texts])
        return pairs, ~inside
    codes = {label: code for code, label in enumerate(labels)}
    pairs = np.zeros((len(labels), len(labels)), dtype=bool)
    for pair in _list_pairs(allowed):
        for label in pair:
            if label not in codes:
                raise ValueError(f"allowed holds the label {label!r}, which is not in classes_.")
        pairs[codes[pair[0]], codes[pair[1]]] = True
    return pairs, np.ones(len(labels), dtype=bool)


def _list_pairs(allowed):
    """Return pairs of labels as tuples, or raise a ValueError."""
    if not isinstance(allowed, Iterable) or isinstance(allowed, Mapping):
        raise ValueError(f'allowed must be "iob2" or a list of pairs of labels; got {allowed!r}.')
    pairs = []
    for pair in allowed:
        is_pair = isinstance(pair, list | tuple | np.ndarray) and len(pair) == 2
        if not (is_pair and all(isinstance(label, Hashable) for label in pair)):
            raise ValueError(
                f"allowed holds {pair!r}; each entry must be a pair of a label and the next label."
            )
        pairs.append(tuple(pair))
    return pairs


def _can_follow(before, after):
    return not after.startswith("I-") or (before[:2] in ("B-", "I-") and before[2:] == after[2:])


def constrain(potentials, graphs, pairs, first):
    """Return log-potentials that are ``-inf`` for transitions that are not allowed.

    Parameters
    ----------
    potentials : LabelPotentials
        Log-potentials.
    graphs : LabelGraphs
        Examples.
    pairs : ndarray of bool of shape (n_labels, n_labels)
        Whether the label of the column can follow the label of the row.
    first : ndarray of bool of shape (n_labels,)
        Whether a label can be the first.

    Returns
    -------
    LabelPotentials
        Log-potentials in nats.
    """
    nodes, tables = potentials.nodes.copy(), potentials.tables
    n, q = len(nodes), potentials.n_labels
    starts = graphs.node_ptr[:-1]
    if nodes.shape[1] == q:
        tables = np.where(pairs, tables, -np.inf)
        nodes[starts] = np.where(first, nodes[starts], -np.inf)
    else:
        by_pair = nodes.reshape(n, q, q)
        firsts = np.where(first, by_pair[starts], -np.inf)
        by_pair[:, ~pairs] = -np.inf
        by_pair[starts] = firsts
    return potentials._replace(nodes=nodes, tables=tables)
