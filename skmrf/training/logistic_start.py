"""Logistic regressions of each output, at which the training of conditional models starts."""

from typing import NamedTuple

import numpy as np
from scipy.linalg import eigh
from scipy.optimize import minimize
from scipy.sparse import issparse
from scipy.special import expit

from .._utils.log_weights import normalized_weights
from .._utils.parallel import threads_of_products
from .._utils.rows import dense_rows
from ..energies import ConditionalBipartiteEnergy
from ..learners import LR
from . import initial_values, loop
from .data_moments import effective_rows
from .penalties import make_penalty
from .settings import Settings

PATH_STRENGTHS = 300.0, 100.0, 30.0, 10.0, 3.0, 1.0, 0.3, 0.1, 0.03, 0.01  # alpha times n_rows
MAX_ALPHA = 3.0  # gradient ascent with the default rates diverges above about 20
PATH_ITER = 20  # iterations of the solver at each alpha
MAX_ITER = 200
TOL = 1e-4  # nats; more exact fits do not predict better
N_FOLDS = 5
MEDIUM, LARGE, HUGE = 1e7, 1e8, 2e9  # rows times inputs times outputs: fewer folds, then rows
HELD_OUT_SHARE = 0.2  # if there is one fold
LIGHT_STRENGTH = 0.1  # times number of rows: penalty on the strongest input of each output
N_PAIRS = 5  # of L-BFGS
RELATIVE_GAIN = {np.float64: 1e-6, np.float32: 1e-5}  # smaller gains end the solver
MIN_VARIANCE = 1e-10  # relative to the largest variance of a principal component
MAX_COMPONENTS = 2000  # with more inputs and rows, principal components take too long
MAX_DENSE = 2e6  # entries of sparse inputs that are made dense


class PenaltyPath(NamedTuple):
    """Held-out log-losses of logistic regressions along a path of penalties.

    Attributes
    ----------
    light : bool
        Whether the weight of the strongest input of each output has a weaker penalty.
    alphas : ndarray of shape (n_alphas,)
        Strengths of the penalty in decreasing order.
    losses : ndarray of shape (n_alphas,)
        Mean held-out log-losses of an output in nats.
    similar : ndarray of bool of shape (n_alphas,)
        Whether the log-loss is within one standard error of the smallest log-loss.
    """

    light: bool
    alphas: np.ndarray
    losses: np.ndarray
    similar: np.ndarray

    @property
    def best(self):
        """Strength with the smallest log-loss."""
        return float(self.alphas[np.argmin(self.losses)])

    @property
    def weakest(self):
        """Weakest penalty whose log-loss is within one standard error of the smallest."""
        return float(self.alphas[np.flatnonzero(self.similar)[-1]])


def choose_penalty(data, penalty, rng):
    """Choose the penalty of logistic regressions by held-out log-loss.

    With the penalty "l2", two paths of strengths are compared: the same penalty for all weights,
    and a weaker penalty on the weight of the strongest input of each output. If all outputs are
    constant, the strength is one divided by the number of rows.

    Parameters
    ----------
    data : Batch
        Training rows: inputs ``X`` and targets ``Y``.
    penalty : {"l2", "l1", "group-l1"}
        Penalty on the weights.
    rng : Generator
        Random numbers that divide the rows into folds.

    Returns
    -------
    path : PenaltyPath
        Path with the smallest log-loss.
    hidden_alpha : float
        Strength of the penalty in the training of hidden units: the weakest penalty of the path
        whose log-loss is within one standard error of the smallest. It is at most one divided by
        the number of rows if the strongest penalty of the path has the smallest log-loss.
    """
    n, work = data.X.shape[0], amount_of_work(data)
    order = rng.permutation(n)
    if work > HUGE:
        order = order[: max(2, int(n * HUGE / work))]
    folds = _divide(data, order, 1 if work > LARGE else 3 if work > MEDIUM else N_FOLDS)
    strengths = np.array(PATH_STRENGTHS[1::2] if work > LARGE else PATH_STRENGTHS)
    if (data.Y[:1] == data.Y).all():
        strengths = np.ones(1)  # constant outputs do not determine the strength
    size = effective_rows(data)
    paths = [_follow_path(folds, penalty, strengths / size)]
    if _has_components(data.X, penalty) and len(strengths) > 1:
        paths.append(_follow_path(folds, penalty, strengths / size, light=True))
    path = min(paths, key=lambda path: path.losses.min())
    if path.best == path.alphas[0]:  # the path does not show which penalty suits hidden units
        return path, min(path.weakest, 1.0 / size)
    return path, path.weakest


def _follow_path(folds, penalty, alphas, light=False):
    """Fit logistic regressions with decreasing penalties; return their held-out log-losses.

    Each fit starts at the previous one. The path ends when the log-loss increases by more than one
    standard error.
    """
    solvers = [make_solver(train, penalty, light) for train, _ in folds]
    weights = _row_weights([held_out for _, held_out in folds])
    losses = []
    alphas = np.unique(np.minimum(alphas, MAX_ALPHA))[::-1]
    for alpha in alphas.tolist():
        models = [solver.solve(alpha, PATH_ITER) for solver in solvers]
        losses.append(_losses(models, folds))
        similar = _is_within_error(losses, weights)
        if not similar[-1]:
            break
    return PenaltyPath(light, alphas[: len(losses)], np.array(losses) @ weights, similar)


def _divide(data, order, n_folds):
    """Split rows into folds; return pairs (training rows, held-out rows)."""
    n_folds = min(n_folds, len(order))
    if n_folds < 2:
        n_held_out = max(1, round(HELD_OUT_SHARE * len(order)))
        parts = [order[:n_held_out], order[n_held_out:]][: len(order)]
        return [(data.take(parts[-1]), data.take(parts[0]))]
    parts = np.array_split(order, n_folds)
    return [
        (data.take(np.concatenate(parts[:k] + parts[k + 1 :])), data.take(parts[k]))
        for k in range(n_folds)
    ]


def _row_weights(batches):
    """Return the weights of all rows of some batches, shape (n_rows,); their sum is one."""
    if batches[0].log_weights is None:
        return normalized_weights(None, sum(batch.X.shape[0] for batch in batches))
    log_weights = np.concatenate([batch.log_weights for batch in batches])
    return normalized_weights(log_weights, len(log_weights))


def _losses(models, folds):
    """Return the mean log-loss of the outputs of each held-out row, shape (n_rows,)."""
    return np.concatenate(
        [
            log_losses(model.fields(held_out.X)[0], held_out.Y > 0).mean(axis=1)
            for model, (_, held_out) in zip(models, folds, strict=True)
        ]
    )


def log_losses(odds, Y):
    """Return the log-loss of each output in nats.

    Parameters
    ----------
    odds : ndarray of shape (n_rows, n_outputs)
        Predicted log odds.
    Y : ndarray of bool of shape (n_rows, n_outputs)
        Outputs.

    Returns
    -------
    ndarray of shape (n_rows, n_outputs)
        Log-losses.
    """
    return np.logaddexp(0.0, np.where(Y, -odds, odds))


def _is_within_error(losses, weights):
    """Return whether each mean loss is within one standard error of the smallest mean loss."""
    losses = np.array(losses)
    best = losses[int(np.argmin(losses @ weights))]
    excess, error = mean_and_error(losses - best, weights)
    return excess <= error


def mean_and_error(values, weights):
    """Return weighted means over the last axis of an array, and their standard errors.

    Parameters
    ----------
    values : ndarray of shape (..., n_rows)
        Values of each row.
    weights : ndarray of shape (n_rows,)
        Weights of the rows, which sum to one.

    Returns
    -------
    mean, error : ndarray of shape (...)
        Means and standard errors.
    """
    mean = values @ weights
    return mean, np.sqrt(((values - mean[..., None]) ** 2) @ weights**2)


class LogisticSolver:
    """Solver of L2-penalised logistic regressions, one for each output.

    The inputs are rotated to their principal components, whose covariance matrix is diagonal. Each
    parameter is also rescaled. L-BFGS then converges in few iterations. Half a row with mean inputs
    is added for each state of each output, so that the intercepts of constant outputs are finite.

    Parameters
    ----------
    data : Batch
        Training rows: inputs ``X`` and targets ``Y``.
    light : bool, default=False
        Whether the weight of the strongest input of each output has a weaker penalty.
    """

    def __init__(self, data, light=False):
        n, work = data.X.shape[0], amount_of_work(data)
        self.dtype = np.float32 if work > LARGE else np.float64
        self.weights = normalized_weights(data.log_weights, n)
        X = np.asarray(dense_rows(data.X), dtype=float)
        self.mean = self.weights @ X
        self.light, self.strongest = light, None
        if light:
            self.strongest = find_strongest_inputs(X, data.Y, self.weights)
            self.single = X[:, self.strongest].astype(self.dtype)
        X = np.sqrt(self.weights)[:, None] * (X - self.mean)
        self.variances, self.components = principal_components(X)
        Z = (X @ self.components) / np.sqrt(self.weights)[:, None]
        self.Z, self.Y = Z.astype(self.dtype), data.Y.astype(self.dtype)
        self.n = effective_rows(data)
        self.pseudo = 1.0 / self.n
        self.solution = np.zeros((len(self.variances) + 1 + light, data.Y.shape[1]))
        self.solution[-1] = initial_values.log_odds(data.Y, data.log_weights)

    def begin_at(self, energy):
        """Set the initial solution to the weights of a model without hidden units."""
        inputs = energy.theta["visible_inputs"].astype(float)
        self.solution[: len(self.variances)] = self.components.T @ inputs
        self.solution[-1] = energy.theta["visible_bias"] + self.mean @ inputs
        if self.light:  # split weights between the components and the strongest inputs
            self.solution[-2] = inputs[self.strongest, np.arange(inputs.shape[1])]
            alone = np.zeros_like(inputs)
            alone[self.strongest, np.arange(inputs.shape[1])] = self.solution[-2]
            self.solution[: len(self.variances)] -= self.components.T @ alone
            self.solution[-1] -= (self.mean[:, None] * alone).sum(axis=0)

    def solve(self, alpha, max_iter=MAX_ITER):
        """Maximise the penalised log-likelihood, starting at the previous solution.

        Parameters
        ----------
        alpha : float
            Strength of the penalty, against the mean log-likelihood of a row in nats.
        max_iter : int, default=200
            Maximum number of iterations.

        Returns
        -------
        ConditionalBipartiteEnergy
            Model without hidden units.
        """
        P = expit(self._odds(self.solution))
        slopes = self.weights @ (P * (1 - P)) + TOL
        strengths = self._strengths(alpha)
        variances = np.append(self.variances, np.ones(len(strengths) - len(self.variances)))
        scale = (variances[:, None] * slopes + strengths[:, None]) ** -0.5

        def objective(u):
            solution = scale * u.reshape(scale.shape)
            value, gradient = self._objective(solution)
            value += 0.5 * float(strengths @ np.sum(solution**2, axis=1))
            gradient += strengths[:, None] * solution
            return value, (scale * gradient).ravel()

        gain = RELATIVE_GAIN[self.dtype]
        options = {"maxiter": max_iter, "gtol": TOL, "ftol": gain, "maxcor": N_PAIRS}
        first = (self.solution / scale).ravel()
        with threads_of_products(self.Z.size * scale.shape[1]):
            found = minimize(objective, first, jac=True, method="L-BFGS-B", options=options)
        self.solution = scale * found.x.reshape(scale.shape)
        return self._energy()

    def _strengths(self, alpha):
        """Return the strength of the penalty of each row of the solution."""
        strengths = np.full(len(self.solution), alpha)
        strengths[-1] = 0.0
        if self.light:
            strengths[-2] = light_strength(alpha, self.n)
        return strengths

    def _odds(self, solution):
        odds = self.Z @ solution[: len(self.variances)].astype(self.dtype)
        if self.light:
            odds += self.single * solution[-2].astype(self.dtype)
        odds += solution[-1].astype(self.dtype)
        return odds

    def _objective(self, solution):
        """Return the mean loss of a row without the penalty, and its gradient."""
        odds, Y, bias = self._odds(solution), self.Y, solution[-1]
        losses = np.logaddexp(0, odds)
        losses -= Y * odds
        value = float(self.weights @ losses.sum(axis=1, dtype=float))
        value += self.pseudo * float(np.sum(np.logaddexp(0.0, bias) - 0.5 * bias))
        residuals = (expit(odds) - Y) * self.weights.astype(self.dtype)[:, None]
        gradient = np.empty_like(solution)
        gradient[: len(self.variances)] = self.Z.T @ residuals
        if self.light:
            gradient[-2] = np.einsum("ij,ij->j", self.single, residuals)
        gradient[-1] = residuals.sum(axis=0, dtype=float) + self.pseudo * (expit(bias) - 0.5)
        return value, gradient

    def _energy(self):
        inputs = self.components @ self.solution[: len(self.variances)]
        bias, n_inputs = self.solution[-1] - self.mean @ inputs, len(inputs)
        if self.light:
            inputs[self.strongest, np.arange(len(bias))] += self.solution[-2]
        hidden = np.zeros((len(bias), 0), np.float32), np.zeros((n_inputs, 0)), np.zeros(0)
        return ConditionalBipartiteEnergy(hidden[0], inputs, hidden[1], bias, hidden[2])


def light_strength(alpha, n_rows):
    """Return the strength of the penalty on the weight of the strongest input of an output."""
    return min(alpha, LIGHT_STRENGTH / n_rows)


def input_strengths(alpha, strongest, data):
    """Return the strength of the penalty on the weight of each input and output.

    The solver divides the weight of the strongest input into two, which have the strengths
    ``alpha`` and :func:`light_strength`. The result has the equal strength of their sum.

    Parameters
    ----------
    alpha : float
        Strength of the penalty on all other weights.
    strongest : ndarray of int of shape (n_outputs,)
        Index of the strongest input of each output.
    data : Batch
        Training rows.

    Returns
    -------
    ndarray of shape (n_inputs, n_outputs)
        Strengths.
    """
    light = light_strength(alpha, effective_rows(data))
    strengths = np.full((data.X.shape[1], len(strongest)), alpha)
    strengths[strongest, np.arange(len(strongest))] = alpha * light / (alpha + light)
    return strengths


def find_strongest_inputs(X, Y, weights):
    """Return the index of the input with the largest absolute correlation with each output."""
    deviations = X - weights @ X
    spread = np.sqrt(weights @ deviations**2)
    covariances = np.abs((weights[:, None] * deviations).T @ Y)
    return np.argmax(covariances / np.where(spread > 0, spread, np.inf)[:, None], axis=0)


def principal_components(X):
    """Return the variances and the directions of the principal components of weighted rows."""
    n, d = X.shape
    variances, vectors = positive_eigenvectors(X.T @ X if d <= n else X @ X.T)
    return variances, vectors if d <= n else X.T @ (vectors / np.sqrt(variances))


def positive_eigenvectors(products):
    """Return the eigenvalues of a symmetric matrix above rounding errors, and eigenvectors."""
    values, vectors = eigh(products)
    kept = values > MIN_VARIANCE * max(float(values[-1]), 1e-300)
    return values[kept], vectors[:, kept]


class PenalizedSolver:
    """Solver of penalised logistic regressions by the deterministic solvers of training.

    Parameters
    ----------
    data : Batch
        Training rows: inputs ``X`` and targets ``Y``.
    penalty : {"l2", "l1", "group-l1"}
        Penalty on the weights.
    """

    def __init__(self, data, penalty):
        self.data = data
        self.strongest = None
        self.penalty = penalty
        self.energy = independent_outputs(data)

    def begin_at(self, energy):
        """Set the initial solution to the weights of a model without hidden units."""
        self.energy = energy

    def solve(self, alpha, max_iter=MAX_ITER):
        """Return the model without hidden units; the solver starts at the previous solution."""
        energy, learner = self.energy, LR()
        groups = energy.penalty_groups()
        penalty = make_penalty(self.penalty, alpha, groups, energy.multiplicity)
        if self.strongest is not None:
            strengths = input_strengths(alpha, self.strongest, self.data)
            penalty.set_strengths("visible_inputs", strengths)
        settings = Settings(
            optimizer=None,
            penalty=penalty,
            max_iter=max_iter,
            tol=TOL,
            complete=False,
            interruptible=False,
            multiplicity=energy.multiplicity,
        )
        first = loop.start(energy, learner, self.data, settings, None)
        self.energy = loop.run(learner, self.data, settings, first).energy
        return self.energy


def make_solver(data, penalty, light=False):
    """Return a solver of logistic regressions that suits the penalty and the number of inputs."""
    if _has_components(data.X, penalty):
        return LogisticSolver(data, light)
    return PenalizedSolver(data, penalty)


def _has_components(X, penalty):
    """Return whether principal components of the inputs speed the solver up."""
    return penalty == "l2" and min(X.shape) <= MAX_COMPONENTS and _fits_densely(X)


def _fits_densely(X):
    return not issparse(X) or X.shape[0] * X.shape[1] <= MAX_DENSE


def amount_of_work(data):
    """Return the number of rows times inputs times outputs."""
    return data.X.shape[0] * data.X.shape[1] * data.Y.shape[1]


def independent_outputs(data):
    """Return an energy without hidden units, in which outputs do not depend on inputs."""
    rng = np.random.default_rng(0)  # not used, because there are no hidden units
    return ConditionalBipartiteEnergy(**initial_values.conditional_layers(data, 0, rng))


def add_hidden_units(energy, data, n_hidden, rng):
    """Return an energy with hidden units that has almost the same distribution of the outputs.

    The hidden units are pairs with equal weights of inputs and opposite weights of outputs, so that
    their effects on the log odds of outputs cancel.

    Parameters
    ----------
    energy : ConditionalBipartiteEnergy
        Model without hidden units.
    data : Batch
        Training rows.
    n_hidden : int
        Number of hidden units.
    rng : Generator
        Random numbers of the weights.

    Returns
    -------
    ConditionalBipartiteEnergy
        Model with random weights of hidden units.
    """
    theta, half = initial_values.conditional_layers(data, n_hidden, rng), n_hidden // 2
    theta["weights"][:, half : 2 * half] = -theta["weights"][:, :half]
    theta["weights"][:, 2 * half :] = 0.0
    theta["hidden_inputs"][:, half : 2 * half] = theta["hidden_inputs"][:, :half]
    theta |= {name: energy.theta[name] for name in ("visible_inputs", "visible_bias")}
    return ConditionalBipartiteEnergy(**theta)


def add_idle_units(energy, n_hidden):
    """Return the energy with hidden units whose weights are all zero."""
    n_inputs, n_visible = energy.theta["visible_inputs"].shape
    zeros = {
        "weights": np.zeros((n_visible, n_hidden), np.float32),
        "hidden_inputs": np.zeros((n_inputs, n_hidden)),
        "hidden_bias": np.zeros(n_hidden),
    }
    return ConditionalBipartiteEnergy(**(energy.theta | zeros))
