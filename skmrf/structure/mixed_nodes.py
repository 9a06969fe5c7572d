"""Regressions of numeric and categorical variables on their neighbours, and tests of neighbours."""

from dataclasses import dataclass

import numpy as np
from scipy.sparse import hstack

from .regression import RIDGE, TableRegression, log_probabilities, one_hot, weighted_gram
from .significance import (
    chi2_from_f,
    correct_rare_cells,
    quadratic_forms,
    sparse_table_test,
)

LEAST_RIDGE = 1e-8
MIN_VARIANCE = 1e-10  # relative to the variance of a variable; a smaller one is rounding
COLLINEAR = 1e-9  # ridge of a linear regression and smallest eigenvalue, relative to the rows
MAX_NEWTON, MAX_HALVINGS = 50, 30
TOLERANCE = 1e-9  # predicted gain of a Newton step in nats
MAX_PARAMETERS = 1_000  # of a regression with a covariance matrix
MAX_CODES = 64  # of a variable whose regression has a covariance matrix
MAX_PAIR_PARAMETERS = 500  # of an edge or a score test with a covariance matrix
MIN_ROWS_PER_PARAMETER = 50  # of a pair; the table of a pair with fewer rows is sparse
LARGE_EFFECT = 2.0  # deviation of a logit that an edge explains; Wald tests fail above


@dataclass(frozen=True, eq=False)
class NodeFit:
    r"""Fitted regression of a variable on its neighbours.

    The parameters are natural parameters of the conditional distribution. A numeric variable
    :math:`z` with conditional mean :math:`\beta^T x` and variance :math:`\sigma^2` has the
    parameters :math:`\beta / \sigma^2`. A categorical variable has the logits :math:`c_s^T A^T x`,
    where :math:`c_s` is the code of state s, and the parameters A.

    Attributes
    ----------
    variable : int
        Index of the variable.
    partners : tuple of int
        Neighbours, in increasing order.
    columns : ndarray of shape (n_columns,)
        Regressors: the constant and those of the neighbours.
    parameters : ndarray of shape (n_columns, n_components)
        Natural parameters. A numeric variable has one component, a categorical variable one per
        code.
    covariance : ndarray of shape (n_columns * n_components, n_columns * n_components), or None
        Covariance of the parameters, in the order of ``parameters.ravel()``. None for a regression
        with many parameters.
    variance : float
        Conditional variance of a numeric variable; 1 for categorical variables.
    log_likelihood : float
        Weighted sum of the log conditional probabilities or densities in nats.
    predictability : float
        Share of the variance of a numeric variable that its neighbours explain, or normalised
        accuracy of a categorical variable.
    expected : tuple of ndarray of shape (n_neighbour_states, n_states)
        Expected counts of the joint states with each neighbour, if there is no covariance. The
        first axis of a numeric neighbour has the length 1.
    """

    variable: int
    partners: tuple
    columns: np.ndarray
    parameters: np.ndarray
    covariance: np.ndarray
    variance: float
    log_likelihood: float
    predictability: float
    expected: tuple = ()

    def partner_slices(self, sizes):
        """Return the slice of ``parameters`` of each neighbour, given the numbers of regressors."""
        ends = np.cumsum([1] + [sizes[j] for j in self.partners])
        return [slice(a, b) for a, b in zip(ends[:-1].tolist(), ends[1:].tolist(), strict=True)]


def fit_node(design, variable, partners):
    """Fit the regression of a variable on its neighbours; return a :class:`NodeFit`."""
    if design.sizes[variable] == 0:
        empty = np.zeros((len(design.columns(partners)), 0))
        none = np.zeros((0, 0))
        return NodeFit(variable, partners, design.columns(partners), empty, none, 1.0, 0.0, 0.0)
    if design.is_number(variable):
        return _fit_linear(design, variable, partners)
    regression = Multinomial(design, variable, partners)
    largest = design.sizes[list(partners)].max(initial=0)
    if is_large(design, variable, len(regression.columns), largest):
        return _fit_table(regression)
    return regression.fit()


def is_large(design, variable, n_columns, largest):
    """Return True if a regression has no covariance, because it has many parameters.

    It has n_columns regressors, and the neighbour with most of them has ``largest`` ones.
    """
    k = design.sizes[variable]
    has_table = k * largest > MAX_PAIR_PARAMETERS
    is_wide = k >= MAX_CODES or k * n_columns > MAX_PARAMETERS
    return not design.is_number(variable) and (has_table or is_wide)


def has_sparse_table(n_parameters, count):
    """Return True where a pair of variables has too many parameters for a covariance matrix.

    Most cells of its table are rare if there are few rows per parameter.
    """
    return n_parameters > min(MAX_PAIR_PARAMETERS, count / MIN_ROWS_PER_PARAMETER)


def draw(design, fit, rows, rng):
    """Draw a variable from its conditional distribution in some rows of a design."""
    linear = design.values[np.ix_(rows, fit.columns)] @ fit.parameters
    if design.is_number(fit.variable):
        noise = rng.standard_normal(len(linear))
        return fit.variance * linear[:, 0] + np.sqrt(fit.variance) * noise
    log_p = log_probabilities(linear, design.codes[fit.variable])
    return np.argmax(log_p + rng.gumbel(size=log_p.shape), axis=1).astype(float)


def assess_neighbours(design, fit, known):
    """Return tests of the neighbours of a variable: statistics and degrees of freedom.

    A neighbour of a numeric variable has an F test, whose statistic is transformed to a chi-square
    statistic with the same p-value. A neighbour of a categorical variable has a Wald test, or a
    likelihood-ratio test if its effect is large. If its table is sparse, or if the regression has
    no covariance, it has a score test. Tables of two rare states have exact tests.

    Parameters
    ----------
    design : Design
        Rows to which the regression was fitted.
    fit : NodeFit
        Regression.
    known : dict
        Regressions that were fitted to the rows, by variable and neighbours. The regressions
        without the neighbours that have score tests are added.

    Returns
    -------
    statistic : ndarray of shape (n_neighbours,)
        Chi-square statistics.
    dof : ndarray of shape (n_neighbours,)
        Degrees of freedom; 0 if a neighbour cannot be tested.
    """
    k, is_number = fit.parameters.shape[1], design.is_number(fit.variable)
    statistic, dof = np.zeros(len(fit.partners)), np.zeros(len(fit.partners))
    for n, part in enumerate(fit.partner_slices(design.sizes)):
        size = (part.stop - part.start) * k
        if not size:
            continue
        if not is_number and (fit.covariance is None or has_sparse_table(size, design.count)):
            reduced = _without_neighbour(design, fit, n, known)
            (statistic[n],), (dof[n],) = _table_scores(design, reduced, [fit.partners[n]])
            continue
        block = slice(part.start * k, part.stop * k)
        theta, covariance = fit.parameters[part].ravel(), fit.covariance[block, block]
        (value,), _ = quadratic_forms(theta[None], covariance[None], 0.0)
        if is_number:
            left = design.count - len(fit.columns)
            value = chi2_from_f(value / size, size, left) if left > 0 else 0.0
            dof[n] = size if left > 0 else 0
        else:
            if np.sqrt((fit.parameters[part] ** 2).sum() / k) > LARGE_EFFECT:
                value = _likelihood_ratio(design, fit, n)
            dof[n] = size
        if size == 1 and design.has_rare_cell(fit.variable, fit.partners[n]):
            reduced, partner = _without_neighbour(design, fit, n, known), fit.partners[n : n + 1]
            (value,), _ = _correct_tests(
                design, reduced, np.array(partner), np.array([value]), np.ones(1)
            )
        statistic[n] = value
    return statistic, dof


def _without_neighbour(design, fit, n, known):
    """Return the regression without the n-th neighbour, which is fitted if it is not known."""
    key = fit.variable, fit.partners[:n] + fit.partners[n + 1 :]
    if key not in known:
        known[key] = fit_node(design, *key)
    return known[key]


def assess_others(design, fit):
    """Return score tests of all variables that are no neighbours of a variable.

    For numeric variables they are F tests of the additional regressors, transformed to chi-square
    statistics.

    Parameters
    ----------
    design : Design
        Rows to which the regression was fitted.
    fit : NodeFit
        Regression.

    Returns
    -------
    statistic : ndarray of shape (n_variables,)
        Chi-square statistics, 0 for the variable itself and its neighbours.
    dof : ndarray of shape (n_variables,)
        Degrees of freedom; 0 if a variable is not tested.
    """
    n = len(design.sizes)
    statistic, dof = np.zeros(n), np.zeros(n)
    if design.sizes[fit.variable] == 0:
        return statistic, dof
    others = np.setdiff1d(np.flatnonzero(design.sizes), [*fit.partners, fit.variable])
    if not design.is_number(fit.variable):
        n_parameters = design.sizes[others] * design.sizes[fit.variable]
        is_table = has_sparse_table(n_parameters, design.count) | (fit.covariance is None)
        if is_table.any():
            tables = others[is_table]
            statistic[tables], dof[tables] = _table_scores(design, fit, tables.tolist())
        others = others[~is_table]
        if not len(others):
            return statistic, dof
    scores = _linear_scores if design.is_number(fit.variable) else _multinomial_scores
    sizes = design.sizes[others]
    sums = scores(design, fit)
    for size in np.unique(sizes).tolist():
        variables = others[sizes == size]
        entries = design.start[variables][:, None] + np.arange(size)
        statistic[variables], dof[variables] = _correct_tests(
            design, fit, variables, *sums(entries)
        )
    return statistic, dof


# Numeric variables -------------------------------------------------------------------------


def _fit_linear(design, variable, partners):
    """Fit a linear regression, from the sums of products of all rows."""
    columns, own, count = design.columns(partners), design.start[variable], design.count
    gram, cross = design.gram[np.ix_(columns, columns)], design.gram[columns, own]
    inverse = np.linalg.inv(gram + COLLINEAR * count * np.eye(len(columns)))
    beta = inverse @ cross
    total = design.gram[own, own] - design.gram[0, own] ** 2 / count
    left = max(design.gram[own, own] - 2 * beta @ cross + beta @ gram @ beta, MIN_VARIANCE * total)
    variance = left / max(count - len(columns), 1.0)
    log_likelihood = -0.5 * count * (np.log(2 * np.pi * left / count) + 1.0)
    return NodeFit(
        variable,
        partners,
        columns,
        beta[:, None] / variance,
        inverse / variance,
        variance,
        log_likelihood,
        1.0 - left / total,
    )


def _linear_scores(design, fit):
    """Return a function that computes score tests of variables of equal numbers of regressors."""
    columns, own, gram = fit.columns, design.start[fit.variable], design.gram
    inverse = fit.covariance * fit.variance
    beta = fit.variance * fit.parameters[:, 0]
    solved = inverse @ gram[columns]
    residual = gram[own] - beta @ gram[columns]
    free = design.count - len(columns)
    left = fit.variance * max(free, 1.0)

    def test(entries):
        explained = np.einsum("cne,cnf->nef", gram[columns][:, entries], solved[:, entries])
        remaining = gram[entries[:, :, None], entries[:, None, :]] - explained
        gain, rank = quadratic_forms(residual[entries], remaining, COLLINEAR * 10 * design.count)
        rank = np.where(free > rank, rank, 0)
        f = gain / np.maximum(rank, 1) * (free - rank) / np.maximum(left - gain, 1e-12 * left)
        return chi2_from_f(np.where(rank > 0, f, 0.0), rank, free - rank), rank

    return test


# Categorical variables ---------------------------------------------------------------------


class Multinomial:
    """Multinomial logistic regression of a categorical variable, by Newton's method.

    The regressors have a small ridge penalty, as in discrete tables, which keeps the parameters
    finite where the likelihood has no maximum. Rows in which all neighbours have the same values
    have the same pattern, and are one row of the regression, unless ``by_row``.
    """

    def __init__(self, design, variable, partners, *, by_row=False):
        self.design = design
        self.variable = variable
        self.partners = partners
        self.columns = design.columns(partners)
        self.codes = design.codes[variable]
        self.states = states = design.states[variable]
        rows = np.arange(len(states))
        self.first, self.patterns = (rows, rows) if by_row else design.patterns(partners)
        self.values = np.ascontiguousarray(design.values[np.ix_(self.first, self.columns)])
        self.totals = np.bincount(self.patterns, design.weights)
        weighted = self.codes[states] * design.weights[:, None]
        self.sums = one_hot(self.patterns, len(self.first)).T @ weighted
        k = self.codes.shape[1]
        ridge = np.full((len(self.columns), k), RIDGE)
        ridge[0] = LEAST_RIDGE  # of the constant, so that the information is never singular
        self.ridge = ridge

    def start(self):
        """Return the parameters of a variable that does not depend on its neighbours."""
        occurs = self.codes.any(axis=1)
        counts = np.bincount(self.states, self.design.weights, minlength=len(occurs))[occurs]
        parameters = np.zeros(self.ridge.shape)
        # codes and a constant span all functions of the states
        basis = np.column_stack([self.codes[occurs], np.ones(len(counts))])
        parameters[0] = np.linalg.solve(basis, np.log(np.maximum(counts, 0.5)))[:-1]
        return parameters

    def objective(self, parameters):
        """Return the log-probabilities, the log-likelihood, and it minus the ridge penalty.

        The log-probabilities have a row for each pattern.
        """
        log_p = log_probabilities(self.values @ parameters, self.codes)
        value = self.design.weights @ log_p[self.patterns, self.states]
        return log_p, value, value - 0.5 * (self.ridge * parameters**2).sum()

    def derivatives(self, parameters, log_p):
        """Return the gradient and the information matrix of the penalised log-likelihood."""
        residuals, covariances = self.moments(log_p)
        gradient = (self.values.T @ residuals - self.ridge * parameters).ravel()
        products = weighted_gram(covariances, self.values.T, self.values)
        information = products.transpose(1, 0, 3, 2).reshape(2 * (len(gradient),))
        information[np.diag_indices(len(gradient))] += self.ridge.ravel()
        return gradient, information

    def moments(self, log_p):
        """Return weighted residuals of the codes, and their covariances given the regressors.

        The shapes are (n_patterns, k) and (k, k, n_patterns).
        """
        p, codes, k = np.exp(log_p), self.codes, self.codes.shape[1]
        mean = p @ codes
        products = (codes[:, :, None] * codes[:, None, :]).reshape(len(codes), k * k)
        second = (p @ products).reshape(-1, k, k) - mean[:, :, None] * mean[:, None, :]
        totals = self.totals[:, None]
        weighted = (second * totals[:, :, None]).transpose(1, 2, 0)
        return self.sums - totals * mean, np.ascontiguousarray(weighted)

    def maximise(self, parameters):
        """Maximise the penalised log-likelihood by damped Newton steps.

        Returns parameters, log-probabilities, log-likelihood and information.
        """
        log_p, log_likelihood, value = self.objective(parameters)
        for _ in range(MAX_NEWTON):
            gradient, information = self.derivatives(parameters, log_p)
            step = np.linalg.solve(information, gradient)
            if gradient @ step / 2 < TOLERANCE:
                break
            step = step.reshape(parameters.shape)
            for _ in range(MAX_HALVINGS):
                found = self.objective(parameters + step)
                if found[2] >= value - 1e-12 * abs(value):
                    break
                step = step / 2
            parameters = parameters + step
            log_p, log_likelihood, value = found
        return parameters, log_p, log_likelihood, information

    def fit(self):
        """Return the fitted regression as a :class:`NodeFit`."""
        parameters, log_p, log_likelihood, information = self.maximise(self.start())
        covariance = np.linalg.inv(information)
        return self.describe(parameters, log_p, log_likelihood, covariance)

    def describe(self, parameters, log_p, log_likelihood, covariance, expected=()):
        """Return a fitted regression as a :class:`NodeFit`, given its parameters."""
        weights, states = self.design.weights, self.states
        hits = weights @ (log_p.argmax(axis=1)[self.patterns] == states)
        base = np.bincount(states, weights).max()
        gain = max(hits - base, 0.0) / (self.design.count - base)
        return NodeFit(
            self.variable,
            self.partners,
            self.columns,
            parameters,
            covariance,
            1.0,
            log_likelihood,
            gain,
            expected,
        )


def _likelihood_ratio(design, fit, n):
    """Return the likelihood-ratio statistic of the n-th neighbour of a categorical variable."""
    kept = fit.partners[:n] + fit.partners[n + 1 :]
    part = fit.partner_slices(design.sizes)[n]
    start = np.delete(fit.parameters, np.arange(part.start, part.stop), axis=0)
    reduced = Multinomial(design, fit.variable, kept).maximise(start)[2]
    return max(2.0 * (fit.log_likelihood - reduced), 0.0)


def _multinomial_scores(design, fit):
    """Return a function that computes score tests of variables of equal numbers of regressors."""
    regression = Multinomial(design, fit.variable, fit.partners, by_row=True)
    log_p = regression.objective(fit.parameters)[0]
    residuals, covariances = regression.moments(log_p)
    k, values = residuals.shape[1], design.values
    score = values.T @ residuals
    cross = weighted_gram(covariances, regression.values.T, values)
    cross = cross.transpose(1, 0, 3, 2).reshape(len(fit.covariance), -1, k)
    solved = np.einsum("pq,qnk->pnk", fit.covariance, cross)

    def second_moments(entries):
        if entries.shape[1] == 1:
            squares = values[:, entries[:, 0]] ** 2
            return np.moveaxis(covariances.reshape(k * k, -1) @ squares, 0, 1).reshape(-1, k, k)
        sums = [weighted_gram(covariances, values[:, e].T, values[:, e]) for e in entries]
        return np.stack(sums).transpose(0, 2, 1, 4, 3)

    def test(entries):
        n, size = entries.shape[0], entries.shape[1] * k
        total = second_moments(entries).reshape(n, size, size)
        left, right = (m[:, entries].reshape(-1, n, size) for m in (cross, solved))
        remaining = total - np.einsum("pni,pnj->nij", left, right)
        floor = 0.1 + 1e-8 * np.trace(total, axis1=1, axis2=2)
        return quadratic_forms(score[entries].reshape(n, size), remaining, floor)

    return test


# Tables with many parameters ---------------------------------------------------------------


def _fit_table(regression):
    """Fit a :class:`Multinomial` of many parameters, without their covariance."""
    design, partners, first = regression.design, regression.partners, regression.first
    occurs = np.flatnonzero(regression.codes.any(axis=1))
    to_rows = one_hot(regression.patterns, len(first))
    weighted = one_hot(regression.states, len(regression.codes)) * design.weights[:, None]
    counts = (to_rows.T @ weighted).toarray()[:, occurs]
    blocks = [(np.ones((len(first), 1)), np.ones((1, 1)), LEAST_RIDGE)]
    for j in partners:
        indicators, codes = design.indicators(j)
        blocks.append((indicators[first], codes, RIDGE))
    table = TableRegression(counts, regression.codes[occurs], blocks)
    parameters = table.maximise(regression.start())
    log_p, log_likelihood, _ = regression.objective(parameters)
    weighted = np.exp(log_p)[regression.patterns] * design.weights[:, None]
    expected = tuple(abs(design.indicators(j)[0]).T @ weighted for j in partners)
    return regression.describe(parameters, log_p, log_likelihood, None, expected)


def _table_scores(design, fit, variables):
    """Return the score tests of some variables, for tables of many cells.

    The statistics and the degrees of freedom have the shape (n_variables,).
    """
    counts, p = _state_counts(design, fit)
    gram, columns, own = design.gram, fit.columns, design.columns(variables)[1:]
    ridge, ends = COLLINEAR * design.count * np.eye(len(columns)), design.sizes[variables].cumsum()
    slopes = np.linalg.solve(gram[np.ix_(columns, columns)] + ridge, gram[np.ix_(columns, own)])
    tests = []
    for j, end in zip(variables, ends.tolist(), strict=True):
        part = slice(end - design.sizes[j], end)
        left = design.values[:, own[part]] - design.values[:, columns] @ slopes[:, part]
        scale = left**2
        if not design.is_number(j):
            scale, codes = design.indicators(j)
            left = left @ (codes.T * (design.weights @ scale / design.count))
        tests.append(sparse_table_test(left, scale, counts, p, len(columns)))
    return np.array(tests).T


def _state_counts(design, fit):
    """Return the weighted indicators of the states of a variable, and their probabilities."""
    codes = design.codes[fit.variable]
    p = np.exp(log_probabilities(design.values[:, fit.columns] @ fit.parameters, codes))
    counts = one_hot(design.states[fit.variable], len(codes)).toarray() * design.weights[:, None]
    return counts, p


def _correct_tests(design, fit, variables, statistic, dof):
    """Return tests of variables that are no neighbours, corrected for rare cells of tables."""
    rare = np.flatnonzero(design.has_rare_cell(fit.variable, variables))
    if not len(rare):
        return statistic, dof
    statistic, dof = statistic.copy(), dof.copy()
    counts, p = _state_counts(design, fit)
    both = np.hstack([counts, p * design.weights[:, None]])
    n_states = np.array([len(design.codes[j]) for j in variables[rare]])
    for q in np.unique(n_states).tolist():
        chosen = rare[n_states == q]
        indicators = hstack([design.indicators(j)[0] for j in variables[chosen]])
        tables = (indicators.T @ both).reshape(len(chosen), q, 2, -1).transpose(2, 0, 3, 1)
        statistic[chosen] = correct_rare_cells(statistic[chosen], *tables)
        if tables.shape[2:] == (2, 2):
            dof[chosen] = 1
    return statistic, dof
