"""Members of a classifier: convex models, class densities, and the exponents of members."""

from typing import NamedTuple

import numpy as np
from scipy.optimize import minimize
from scipy.special import log_softmax, softmax

from ...training.logistic_start import principal_components

ALPHAS = 100.0, 20.0, 5.0, 1.0, 0.2, 0.05, 0.01
PATH_TOL, FINAL_TOL = 1e-4, 1e-6  # nats per row, of the gradient of scaled parameters
MIN_SLOPE = 1e-4  # of the variance of a label given the features, in the scale of parameters
MAX_ROTATED = 1000  # with more rows and features, principal axes take too long
LARGE_INCREASE = 1.01  # of the held-out loss, which ends the path of penalties at once
POOLINGS = 1.0, 5.0, 20.0, 100.0, np.inf  # rows that the pooled covariance counts for
RIDGES = np.array([0.001, 0.01, 0.03, 0.1, 0.3, 1.0])
DOFS = 5.0, 50.0
INVERSE_TEMPERATURES = 1.0, 0.7, 0.5, 0.35, 0.25
MAX_CLASS_WORK = 1.2e7  # of n_classes * n_features**3, for covariances of single classes
FEW_ROWS, SMOOTHING_POWER = 8, 4  # number of held-out rows whose labels are smoothed by half
MIN_VARIANCE = 1e-6  # relative to that of all rows, which is about 1


class LabelRows(NamedTuple):
    """Encoded training rows, labels and weights, from which the members are learned.

    Attributes
    ----------
    targets : ndarray of shape (n_rows, n_classes)
        One-hot labels.
    weights : ndarray of shape (n_rows,)
        Weight of each row.
    folds : ndarray of int, shape (n_rows,)
        Number of the fold that leaves out each row. No fold leaves out rows with -1.
    """

    targets: np.ndarray
    weights: np.ndarray
    folds: np.ndarray

    @property
    def n_folds(self):
        """Number of folds."""
        return int(self.folds.max(initial=0)) + 1

    def log_shares(self):
        """Return the log of the shares of the classes, with half a row added to each."""
        counts = self.weights @ self.targets + 0.5
        return np.log(counts / counts.sum())

    def held_out_weights(self):
        """Return the weight of each row, which is 0 if no fold leaves it out."""
        return np.where(self.folds >= 0, self.weights, 0.0)

    def smoothed_targets(self):
        """Return a mixture of the one-hot labels and the shares of the classes.

        If few rows are held out, a member may predict all of them correctly by chance. The shares
        have half of the weight with 8 held-out rows, and less than a percent with more than 26.
        Weighted rows count by their effective number.
        """
        weights = self.held_out_weights()
        weights = weights / (weights.max(initial=0.0) or 1.0)  # so that squares do not overflow
        n_effective = weights.sum() ** 2 / ((weights**2).sum() or 1.0)
        share = 1 / (1 + (n_effective / FEW_ROWS) ** SMOOTHING_POWER)
        return (1 - share) * self.targets + share * np.exp(self.log_shares())

    def held_out_loss(self, logs):
        """Return the mean log loss in nats, with smoothed labels, of the rows that are left out."""
        weights = self.held_out_weights()
        losses = -(self.smoothed_targets() * logs).sum(axis=1)
        return float(weights @ losses / (weights.sum() or 1.0))

    def select(self, rows):
        """Return the given rows. If a fold would leave out all of them, it leaves out none."""
        folds = self.folds[rows]
        folds = np.where((folds == folds[:1]).all(), -1, folds)
        return LabelRows(self.targets[rows], self.weights[rows], folds)


def assign_folds(labels, n_folds, rng, groups=None):
    """Return the number of the cross-validation fold of each row, stratified by class.

    The numbers start at 0. The rows of a group are in the same fold. By default each row is a
    group. No fold leaves out all rows of a class: groups with such a class have -1.

    Parameters
    ----------
    labels : ndarray of int, shape (n_rows,)
        Number of the class of each row.
    n_folds : int
        Number of folds.
    rng : Generator
        Random numbers.
    groups : ndarray of int, shape (n_rows,), optional
        Number of the group of each row. The numbers start at 0.

    Returns
    -------
    ndarray of int, shape (n_rows,)
        Numbers of the folds.
    """
    groups = np.arange(len(labels)) if groups is None else groups
    _, first = np.unique(groups, return_index=True)
    order = rng.permutation(len(first))
    order = order[np.argsort(labels[first[order]], kind="stable")]
    folds = np.empty(len(first), int)
    folds[order] = np.arange(len(first)) % n_folds
    for k in np.unique(labels):
        members = np.unique(groups[labels == k])
        if np.ptp(folds[members]) == 0:
            folds[members] = -1
    return folds[groups]


# Convex members --------------------------------------------------------------------------------


def softmax_objective(flat, F, rows, alpha):
    """Return the penalised log loss of multinomial logistic regression, and its gradient.

    Parameters
    ----------
    flat : ndarray of shape ((n_features + 1) * n_classes,)
        Coefficients. The last row has the biases, which are not penalised.
    F : ndarray of shape (n_rows, n_features)
        Features.
    rows : LabelRows
        Labels and weights.
    alpha : float
        Strength of the L2 penalty, for all rows together.

    Returns
    -------
    value : float
        Objective in nats per row.
    gradient : ndarray
        Gradient, shaped like ``flat``.
    """
    B = flat.reshape(F.shape[1] + 1, -1)
    targets, total = rows.targets.T, rows.weights.sum()
    logs = B[:-1].T @ F.T + B[-1][:, None]  # sums over the first axis are several times faster
    logs -= logs.max(axis=0)
    p = np.exp(logs)
    sums = p.sum(axis=0)
    logs -= np.log(sums)
    p /= sums
    loss = -(rows.weights * (targets * logs).sum(axis=0)).sum()
    p -= targets
    p *= rows.weights
    gradient = np.vstack([(p @ F).T + alpha * B[:-1], p.sum(axis=1)])
    return (loss + 0.5 * alpha * (B[:-1] ** 2).sum()) / total, gradient.ravel() / total


class SoftmaxSolver:
    """Solver of L2-penalised multinomial logistic regressions, by L-BFGS.

    Features are rotated to their principal axes, and each parameter is rescaled, so that the
    Hessian matrix is near the identity matrix. With many rows and features, the rotation takes too
    long, and parameters are only rescaled.

    Parameters
    ----------
    F : ndarray of shape (n_rows, n_features)
        Features.
    rows : LabelRows
        Labels and weights.

    Attributes
    ----------
    converged : bool
        Whether no entry of the gradient is larger than 1e-4 nats per row at the last solution.
    """

    def __init__(self, F, rows):
        self.rows, self.converged = rows, False
        weights = rows.weights / rows.weights.sum()
        self.mean, self.axes = weights @ F, None
        self.Z = F - self.mean
        if 0 < min(F.shape) <= MAX_ROTATED:
            centred = np.sqrt(weights)[:, None] * self.Z
            self.variances, self.axes = principal_components(centred)
            self.Z = self.Z @ self.axes
        else:
            self.variances = weights @ self.Z**2
        self.solution = np.zeros((len(self.variances) + 1, rows.targets.shape[1]))
        self.solution[-1] = rows.log_shares()

    @property
    def coef(self):
        """Coefficients of the last solution, shape (n_features + 1, n_classes)."""
        coef = self.solution[:-1] if self.axes is None else self.axes @ self.solution[:-1]
        return np.vstack([coef, self.solution[-1] - self.mean @ coef])

    def begin_at(self, coef):
        """Set the initial solution to coefficients of shape (n_features + 1, n_classes)."""
        self.solution[:-1] = coef[:-1] if self.axes is None else self.axes.T @ coef[:-1]
        self.solution[-1] = coef[-1] + self.mean @ coef[:-1]

    def solve(self, alpha, max_iter, tol=PATH_TOL):
        """Minimise :func:`softmax_objective`, starting at the last solution.

        Parameters
        ----------
        alpha : float
            Strength of the penalty, for all rows together.
        max_iter : int
            Maximum number of iterations.
        tol : float, default=1e-4
            Largest entry of the gradient at convergence, in nats per row.

        Returns
        -------
        ndarray of shape (n_features + 1, n_classes)
            Coefficients. The last row has the biases.
        """
        total = self.rows.weights.sum()
        p = softmax(self.Z @ self.solution[:-1] + self.solution[-1], axis=1)
        slopes = self.rows.weights @ (p * (1 - p)) / total + MIN_SLOPE
        curvatures = np.append(self.variances, 1.0)[:, None] * slopes
        curvatures[:-1] += alpha / total
        scale = curvatures**-0.5

        def objective(u):
            flat = scale.ravel() * u
            value, gradient = softmax_objective(flat, self.Z, self.rows, alpha)
            return value, scale.ravel() * gradient

        options = {"maxiter": max_iter, "gtol": tol, "ftol": tol**2, "maxcor": 20}
        first = (self.solution / scale).ravel()
        found = minimize(objective, first, jac=True, method="L-BFGS-B", options=options)
        self.solution = scale * found.x.reshape(scale.shape)
        self.converged = bool(np.abs(found.jac).max() <= PATH_TOL)
        return self.coef


class ConvexMember:
    """Log-linear model of the labels given features.

    Attributes
    ----------
    coef : ndarray of shape (n_features + 1, n_classes)
        Coefficients. The last row has the biases.
    alpha : float
        Strength of the penalty that cross-validation has selected.
    held_out : ndarray of shape (n_rows, n_classes)
        Log-probabilities of training rows by models that were learned without their folds.
    converged : bool
        Whether the coefficients have converged.
    n_iter : int
        Number of epochs, which is 0.
    """

    n_iter = 0

    def __init__(self, coef, alpha, held_out, converged):
        self.coef, self.alpha, self.held_out = coef, alpha, held_out
        self.converged = converged

    def log_proba(self, F):
        """Return ``log p(y | x)`` of each row, shape (n_rows, n_classes)."""
        return log_softmax(F @ self.coef[:-1] + self.coef[-1], axis=-1)


def learn_convex(F, parts, rows, alphas, max_iter):
    """Learn a log-linear model; cross-validation selects its penalty on a decreasing path.

    Parameters
    ----------
    F : ndarray of shape (n_rows, n_features)
        Features.
    parts : list of ndarray of shape (n_rows, n_features)
        Features of all rows for each fold.
    rows : LabelRows
        Labels, weights and folds.
    alphas : sequence of float
        Strengths of the penalty, for all rows together. The path ends when the held-out loss
        increases by more than a percent, or twice.
    max_iter : int
        Maximum number of iterations of L-BFGS for each strength.

    Returns
    -------
    ConvexMember
        Model of all rows.
    """
    folds = []
    for k, features in enumerate(parts):
        kept, left = np.flatnonzero(rows.folds != k), np.flatnonzero(rows.folds == k)
        folds.append((SoftmaxSolver(features[kept], rows.select(kept)), left, features[left]))
    best, losses = None, []
    for alpha in sorted(alphas, reverse=True):
        logs, coefs = np.zeros(rows.targets.shape), []
        for solver, left, others in folds:
            coefs.append(solver.solve(alpha, max_iter))
            logs[left] = log_softmax(others @ coefs[-1][:-1] + coefs[-1][-1], axis=-1)
        losses.append(rows.held_out_loss(logs))
        if best is None or losses[-1] < min(losses[:-1]):
            has_same = parts and all(part is parts[0] for part in parts)
            best = alpha, logs, np.mean(coefs, axis=0) if has_same else None
        elif losses[-1] > LARGE_INCREASE * min(losses) or losses[-2] > min(losses):
            break
    alpha, logs, first = best
    solver = SoftmaxSolver(F, rows)
    if first is not None:
        solver.begin_at(first)
    coef = solver.solve(alpha, max_iter, FINAL_TOL)
    return ConvexMember(coef, alpha, logs, solver.converged)


# Members with a density of each class ----------------------------------------------------------


class ClassDensities:
    """Student t density of each class, with its mean and a shrunk covariance.

    Parameters
    ----------
    F : ndarray of shape (n_rows, n_features)
        Features.
    rows : LabelRows
        Labels and weights.
    pooling : float
        Number of rows that the pooled covariance counts for in the covariance of each class. If it
        is infinite, all classes have the pooled covariance.
    """

    def __init__(self, F, rows, pooling):
        weights = rows.weights * rows.targets.T
        counts = weights.sum(axis=1)
        self.log_shares = rows.log_shares()
        self.means = weights @ F / np.maximum(counts, 1e-12)[:, None]
        centred = F - rows.targets @ self.means
        pooled = centred.T @ (rows.weights[:, None] * centred) / counts.sum()
        self.level = max(np.trace(pooled) / max(F.shape[1], 1), MIN_VARIANCE)
        covariances = pooled[None]
        if np.isfinite(pooling):
            parts = [(centred[w > 0], w[w > 0]) for w in weights]
            scatter = np.stack([(Z.T * w) @ Z for Z, w in parts])
            covariances = (scatter + pooling * pooled) / (counts + pooling)[:, None, None]
        self.variances, self.axes = np.linalg.eigh(covariances)

    def log_proba(self, F, ridges, dofs):
        """Return ``log p(y | x)`` by Bayes' rule.

        Parameters
        ----------
        F : ndarray of shape (n_rows, n_features)
            Features.
        ridges : ndarray of shape (n_ridges,)
            Shares of the isotropic covariance in each covariance.
        dofs : sequence of float
            Degrees of freedom of the Student t densities.

        Returns
        -------
        ndarray of shape (n_dofs, n_ridges, n_rows, n_classes)
            Log-probabilities.
        """
        logs = np.empty((len(dofs), len(ridges), len(F), len(self.means)))
        for k, mean in enumerate(self.means):
            j = min(k, len(self.variances) - 1)
            if j == k:  # the first class, or each class has its own covariance
                rotated = F @ self.axes[j]
            variances = np.maximum(self.variances[j], 0)
            variances = (1 - ridges[:, None]) * variances + ridges[:, None] * self.level
            distances = (rotated - mean @ self.axes[j]) ** 2 @ (1 / variances).T
            log_volumes = 0.5 * np.log(variances).sum(axis=1)[:, None]
            for i, dof in enumerate(dofs):
                half = 0.5 * (dof + F.shape[1])
                logs[i, :, :, k] = -half * np.log1p(distances.T / dof) - log_volumes
        return log_softmax(logs + self.log_shares, axis=-1)


class QuadraticMember:
    """Bayes' rule with a Student t density of each class (regularised discriminant analysis).

    Attributes
    ----------
    densities : ClassDensities
        Densities of the classes.
    ridge, dof : float
        Share of the isotropic covariance, and degrees of freedom.
    inverse_temperature : float
        Factor of the log-probabilities, before they are normalised.
    held_out : ndarray of shape (n_rows, n_classes)
        Log-probabilities of training rows by densities that were learned without their folds.
    converged : bool
        True, because the densities have a closed form.
    n_iter : int
        Number of epochs, which is 0.
    """

    converged, n_iter = True, 0

    def __init__(self, densities, ridge, dof, inverse_temperature, held_out):
        self.densities, self.ridge, self.dof = densities, ridge, dof
        self.inverse_temperature, self.held_out = inverse_temperature, held_out

    def log_proba(self, F):
        """Return ``log p(y | x)`` of each row, shape (n_rows, n_classes)."""
        logs = self.densities.log_proba(F, np.array([self.ridge]), [self.dof])[0, 0]
        return log_softmax(self.inverse_temperature * logs, axis=-1)


def learn_quadratic(F, parts, rows):
    """Learn a density of each class; cross-validation selects how covariances are shrunk.

    The covariance of a class is shrunk towards the pooled covariance, and both towards an isotropic
    one. The selected values have the smallest held-out loss of tempered probabilities. All classes
    have the pooled covariance if covariances of single classes would take too long.

    Parameters
    ----------
    F : ndarray of shape (n_rows, n_features)
        Features.
    parts : list of ndarray of shape (n_rows, n_features)
        Features of all rows for each fold.
    rows : LabelRows
        Labels, weights and folds.

    Returns
    -------
    QuadraticMember
        Densities of all rows.

    References
    ----------
    J. H. Friedman, "Regularized discriminant analysis", Journal of the American Statistical
    Association 84, 1989.
    """
    work = rows.targets.shape[1] * float(F.shape[1]) ** 3
    found = np.inf, None
    for pooling in POOLINGS if work <= MAX_CLASS_WORK else POOLINGS[-1:]:
        logs = held_out_densities(parts, rows, pooling)
        for place in np.ndindex(len(DOFS), len(RIDGES)):
            for beta in INVERSE_TEMPERATURES:
                tempered = log_softmax(beta * logs[place], axis=-1)
                loss = rows.held_out_loss(tempered)
                if loss < found[0]:
                    found = loss, (pooling, place, beta, tempered)
    pooling, (i, j), beta, logs = found[1]
    densities = ClassDensities(F, rows, pooling)
    return QuadraticMember(densities, RIDGES[j], DOFS[i], beta, logs)


def held_out_densities(parts, rows, pooling):
    """Return the log-probabilities of each row by class densities without its fold.

    ``parts`` has the features of all rows for each fold. The result has shape (n_dofs, n_ridges,
    n_rows, n_classes).
    """
    logs = np.zeros((len(DOFS), len(RIDGES), *rows.targets.shape))
    for k, F in enumerate(parts):
        kept, left = np.flatnonzero(rows.folds != k), np.flatnonzero(rows.folds == k)
        densities = ClassDensities(F[kept], rows.select(kept), pooling)
        logs[:, :, left] = densities.log_proba(F[left], RIDGES, DOFS)
    return logs


# Exponents of members --------------------------------------------------------------------------


def learn_exponents(logs, rows, shrinkage):
    """Learn exponents of the members: ``p(y | x)`` is proportional to ``prod_m p_m(y | x)**w_m``.

    The exponents are not negative. They maximise the likelihood of the smoothed labels of held-out
    rows, with an L2 penalty on their differences from equal shares. Their sum is an inverse
    temperature.

    Parameters
    ----------
    logs : ndarray of shape (n_members, n_rows, n_classes)
        Held-out log-probabilities of the members.
    rows : LabelRows
        Labels and weights.
    shrinkage : float
        Strength of the penalty, for all rows together.

    Returns
    -------
    ndarray of shape (n_members,)
        Exponents.
    """
    kept = rows.folds >= 0
    logs, targets = logs[:, kept], rows.smoothed_targets()[kept]
    weights = rows.weights[kept]
    equal = 1 / len(logs)

    def objective(exponents):
        mixed = log_softmax(np.tensordot(exponents, logs, 1), axis=-1)
        residuals = weights[:, None] * (targets - np.exp(mixed))
        slopes = shrinkage * (exponents - equal) - np.tensordot(logs, residuals, 2)
        value = -weights @ (targets * mixed).sum(axis=1)
        return value + 0.5 * shrinkage * ((exponents - equal) ** 2).sum(), slopes

    first = np.full(len(logs), equal)
    return minimize(objective, first, jac=True, bounds=[(0, None)] * len(logs)).x
