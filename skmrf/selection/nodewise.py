"""Regressions of every variable on its neighbours, and tests of edges from them."""

from dataclasses import dataclass
from functools import cached_property, lru_cache, partial
from itertools import pairwise

import numpy as np
from scipy.special import expit, log_softmax

from .._parallel import run_blocks
from ..energies import contrasts, pair_basis

RIDGE = 0.01  # information of the prior of every parameter: half of it times theta^2 is taken off
LEAST_INFORMATION = 0.1  # of a parameter worth testing: its standard error would be above 3
NEGLIGIBLE = 1e-8  # share of the information of a parameter that rounding may leave
NUMBERS_A_CHUNK = 2**23
MAX_NEWTON = 100
MAX_HALVINGS = 40
TOLERANCE = 1e-9  # nats that another step would gain


@dataclass(frozen=True, eq=False)
class NodeFits:
    """Every variable given its neighbours.

    Attributes
    ----------
    form : LogLinearForm
    theta : dict
        Shaped like ``form.zeros()``: of single variables from their own regressions, of edges the
        mean of the regressions of both ends, weighted by their precisions (the leaf of a hub
        knows more of their edge than the hub); zero for edges to a variable of one state.
    covariances : list of ndarray of shape (d, d)
        Of the parameters of every edge: the inverse of the mean precision of both directions,
        whose covariances are in sandwich form,
        :math:`H^{-1} (\\sum_r w_r g_r g_r^T) H^{-1}`. By the inequality of
        Cauchy and Schwarz it is an upper bound of the covariance of the weighted mean, and as
        the two are nearly perfectly correlated it is close to it. The ridge counts in
        both factors as the observations that it stands for, so directions that the data say
        nothing of have a large variance.
    log_likelihood : ndarray of shape (n_variables,)
        Weighted sum of the log-probabilities of a variable given its neighbours, nats.
    n_parameters : ndarray of shape (n_variables,)
    own : list of ndarray
        Parameters of every regression: of the variable, then of its edges in the order of the form.
    """

    form: object
    theta: dict
    covariances: list
    log_likelihood: np.ndarray
    n_parameters: np.ndarray
    own: list

    def wald(self):
        """Wald statistics of the edges and their degrees of freedom, both of shape (n_edges,)."""
        return wald_statistics(self.form, self.theta["pairs"], self.covariances), _free(self.form)


def wald_statistics(form, parameters, covariances):
    """Quadratic forms of the parameters of every edge, with the inverse of their covariance.

    0 for edges to a variable of one state.
    """
    free, lengths = _free(form), np.diff(form.pair_start)
    statistic = np.zeros(len(free))
    for d in np.unique(lengths[free > 0]):
        which = np.flatnonzero((free > 0) & (lengths == d))
        theta = parameters[form.pair_start[which][:, None] + np.arange(d)]
        covariance = np.stack([covariances[e] for e in which])
        statistic[which] = _quadratic(theta, covariance, 0.0)[0]
    return statistic


def fit_nodes(X, weights, form, *, n_jobs=None):
    r"""Fit every variable given its neighbours.

    Maximises, for every variable :math:`i` by itself and by Newton's method,

    .. math:: \sum_r w_r \log p(x_{ri} \mid x_{r, N(i)}; \theta) - 0.005 \lVert \theta \rVert^2,
              \qquad p(x_i \mid x_{N(i)}) \propto \exp \Big( \sum_a u_{ia} k_{ia}(x_i)
              + \sum_{j \in N(i)} \sum_b \theta_{ijb} \, \psi_b(x_i, x_j) \Big).

    The small ridge keeps the parameters finite where the likelihood has no maximum.

    Parameters
    ----------
    X : ndarray of shape (n_rows, n_variables)
        State codes, nothing missing.
    weights : ndarray of shape (n_rows,)
        How often a row counts.
    form : LogLinearForm
    n_jobs : int or None
        Threads over variables.

    Returns
    -------
    NodeFits
    """
    columns = np.ascontiguousarray(X.T)
    nodes = _nodes(form)
    fits = list(run_blocks(_fit, [(node, columns, weights) for node in nodes], n_jobs))
    theta = form.zeros()
    lengths = np.diff(form.pair_start)
    precisions = [np.zeros((d, d)) for d in lengths]
    for node, (own, covariance, _) in zip(nodes, fits, strict=True):
        if form.unary:
            start, stop = form.unary_start[node.variable : node.variable + 2]
            theta["unary"][start:stop] = own[: stop - start]
        for e, part in zip(node.edges, node.parts, strict=True):
            precision = np.linalg.inv(covariance[part, part]) / 2
            theta["pairs"][form.pair_start[e] : form.pair_start[e + 1]] += precision @ own[part]
            precisions[e] += precision
    covariances = [np.linalg.inv(p) if p.any() else p for p in precisions]
    for e, covariance in enumerate(covariances):
        pair = slice(form.pair_start[e], form.pair_start[e + 1])
        theta["pairs"][pair] = covariance @ theta["pairs"][pair]
    return NodeFits(
        form,
        theta,
        covariances,
        np.array([fit[2] for fit in fits]),
        np.array([len(fit[0]) for fit in fits]),
        [fit[0] for fit in fits],
    )


def likelihood_ratio(X, weights, form, which, *, n_jobs=None):
    """Twice the log-likelihood that is lost where an edge is dropped from the regressions.

    Each edge is dropped alone, and the other parameters are fitted again.

    Parameters
    ----------
    X : ndarray of shape (n_rows, n_variables)
        State codes, nothing missing.
    weights : ndarray of shape (n_rows,)
    form : LogLinearForm
    which : array-like of int
        Numbers of the edges.
    n_jobs : int or None

    Returns
    -------
    statistic : ndarray of shape (len(which),)
        Mean of both ends.
    dof : ndarray of shape (len(which),)
    """
    which = np.asarray(which, dtype=np.int64)
    columns = np.ascontiguousarray(X.T)
    asked = np.zeros(len(form.edges), dtype=bool)
    asked[which] = True
    nodes = [node for node in _nodes(form) if asked[node.edges].any()]
    losses = run_blocks(_losses, [(node, columns, weights, asked) for node in nodes], n_jobs)
    statistic = np.zeros(len(form.edges))
    for node, loss in zip(nodes, losses, strict=True):
        statistic[node.edges] += loss  # twice the loss, and half of it from each end
    return statistic[which], _free(form)[which]


def score_tests(fits, X, weights, form, *, n_jobs=None):
    """Score (Rao) tests of every pair that is no edge.

    From each end's regression, with its fitted parameters projected out of the score, and the
    information of the model.

    Parameters
    ----------
    fits : NodeFits
        Of the same rows and form.
    X : ndarray of shape (n_rows, n_variables)
        State codes, nothing missing.
    weights : ndarray of shape (n_rows,)
    form : LogLinearForm
    n_jobs : int or None

    Returns
    -------
    statistic : ndarray of shape (n_variables, n_variables)
        Mean of both directions, symmetric. 0 at edges, on the diagonal and where one variable is a
        function of the neighbours of the other.
    dof : ndarray of shape (n_variables, n_variables)
        0 where there is nothing to test.
    """
    score = _two_state_scores if (form.layout.n_states <= 2).all() else _table_scores
    return _symmetric(form, score(fits, X, weights, form, n_jobs))


# Regressions -------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class _Node:
    """A variable and what it depends on.

    Its logits, less that of state 0, are ``theta @ loadings @ regressors``. The regressors are
    few: a constant, and codes of the partners that all states of the variable share.

    Attributes
    ----------
    variable, n_states : int
    edges, partners : ndarray of shape (n_edges,)
    codes : list of ndarray of shape (n_codes, n_states of the partner)
    pieces : list of ndarray of shape (d, n_states - 1, n_codes)
        Loadings of the variable, if it has parameters, and of every edge.
    """

    variable: int
    n_states: int
    edges: np.ndarray
    partners: np.ndarray
    codes: list
    pieces: list

    @property
    def n_parameters(self):
        """Of the regression."""
        return sum(len(piece) for piece in self.pieces)

    @cached_property
    def parts(self):
        """Where the parameters of every edge lie."""
        ends = np.cumsum([0] + [len(piece) for piece in self.pieces])
        return [slice(a, b) for a, b in pairwise(ends[len(self.pieces) - len(self.edges) :])]

    @cached_property
    def loadings(self):
        """Shape (n_parameters, n_states - 1, n_regressors)."""
        width = sum(piece.shape[2] for piece in self.pieces)
        out = np.zeros((self.n_parameters, self.n_states - 1, width))
        row = column = 0
        for piece in self.pieces:
            d, _, k = piece.shape
            out[row : row + d, :, column : column + k] = piece
            row, column = row + d, column + k
        return out

    def regressors(self, columns, rows):
        """Shape (n_regressors, n_rows)."""
        constant = len(self.pieces) - len(self.edges)
        parts = [np.ones((constant, rows.stop - rows.start))]
        for j, codes in zip(self.partners, self.codes, strict=True):
            parts.append(np.take(codes, columns[j, rows], axis=1))
        return np.concatenate(parts)

    def log_law(self, theta, regressors):
        """Log-probabilities of the states, shape (n_states, n_rows)."""
        k, m = self.loadings.shape[1:]
        logits = np.zeros((k + 1, regressors.shape[1]))
        logits[1:] = np.tensordot(theta, self.loadings, axes=1).reshape(k, m) @ regressors
        return log_softmax(logits, axis=0)

    def without(self, k):
        """The node without its edge number k."""
        keep = np.arange(len(self.edges)) != k
        piece = len(self.pieces) - len(self.edges) + k
        return _Node(
            self.variable,
            self.n_states,
            self.edges[keep],
            self.partners[keep],
            self.codes[:k] + self.codes[k + 1 :],
            self.pieces[:piece] + self.pieces[piece + 1 :],
        )


def _nodes(form):
    """All variables; of one state is none a neighbour, and none has parameters."""
    q = form.layout.n_states
    alive = np.flatnonzero((q[form.edges] > 1).all(axis=1))
    ends = form.edges[alive]
    variables = ends.ravel()
    order = np.argsort(variables, kind="stable")
    start = np.searchsorted(variables[order], np.arange(len(q) + 1))
    nodes = []
    for i, n_states in enumerate(q.tolist()):
        found = order[start[i] : start[i + 1]]
        partners = ends[found // 2, 1 - found % 2]
        coded = [_coded(form.statistic, n_states, int(q[j]), i < j) for j in partners]
        own = [_less_first(contrasts(n_states).T[:, :, None])] if form.unary else []
        pieces = own + [piece for _, piece in coded]
        codes = [code for code, _ in coded]
        nodes.append(_Node(i, n_states, alive[found // 2], partners, codes, pieces))
    return nodes


@lru_cache(maxsize=256)
def _coded(statistic, q_i, q_j, first):
    """Codes of the states of j, and the loadings that make the tables of the pair of them."""
    codes = contrasts(q_j).T if statistic == "table" else np.eye(min(q_i, q_j), q_j)
    return codes, _relative_basis(statistic, q_i, q_j, first) @ codes.T


@lru_cache(maxsize=256)
def _relative_basis(statistic, q_i, q_j, first):
    """Basis tables of a pair, the axis of i before that of j, less their rows of state 0 of i."""
    if first:
        return _less_first(pair_basis(statistic, q_i, q_j))
    return _less_first(pair_basis(statistic, q_j, q_i).transpose(0, 2, 1))


def _less_first(tables):
    return tables[:, 1:] - tables[:, :1]


def _free(form):
    """Degrees of freedom of every edge."""
    q = form.layout.n_states[form.edges]
    return np.where((q > 1).all(axis=1), np.diff(form.pair_start), 0)


class _Regression:
    """A variable given its neighbours, on weighted rows."""

    def __init__(self, node, columns, weights):
        self.node = node
        self.columns = columns
        self.weights = weights
        k, m = node.loadings.shape[1:]
        self.loadings = node.loadings.reshape(node.n_parameters, k * m)
        encode = partial(node.regressors, columns)
        self.rows = _Encoded(encode, len(weights), 2 * m + (k + 1) ** 2)

    def parts(self, theta):
        """Chunks of rows: regressors, weights, log-likelihood, residuals, probabilities."""
        for rows, regressors in self.rows.parts():
            states = self.columns[self.node.variable, rows]
            log_p = self.node.log_law(theta, regressors)
            p = np.exp(log_p[1:])
            observed = np.take_along_axis(log_p, states[None].astype(np.intp), axis=0)[0]
            yield regressors, self.weights[rows], observed, _indicators(states, len(p)) - p, p

    def expand(self, theta):
        """Log-likelihood, and value, gradient and information of the penalised one."""
        log_likelihood, gradient, information = 0.0, -RIDGE * theta, RIDGE * np.eye(len(theta))
        for z, weights, log_p, residual, p in self.parts(theta):
            log_likelihood += weights @ log_p
            gradient += self.loadings @ (weights * residual @ z.T).ravel()
            information += self.of_parameters(_gram(_spread(p, weights), z, z.T))
        return log_likelihood, log_likelihood - RIDGE / 2 * theta @ theta, gradient, information

    def meat(self, theta):
        """Sum of the outer products of the scores of rows, and the information of the ridge."""
        total = RIDGE * np.eye(len(theta))
        for z, weights, _, residual, _ in self.parts(theta):
            total += self.of_parameters(_gram(residual[:, None] * residual * weights, z, z.T))
        return total

    def of_parameters(self, gram):
        """Products of parameters from those of regressors by state."""
        return self.loadings @ gram.reshape(2 * (self.loadings.shape[1],)) @ self.loadings.T

    def maximise(self, theta):
        """The maximiser by damped Newton steps, its log-likelihood and its information."""
        log_likelihood, value, gradient, information = self.expand(theta)
        for _ in range(MAX_NEWTON):
            step = np.linalg.solve(information, gradient)
            gain = gradient @ step / 2
            if gain <= 0:
                break
            slack = 1e-12 * abs(value)
            for _ in range(MAX_HALVINGS):
                trial = self.expand(theta + step)
                if trial[1] >= value - slack:
                    break
                step /= 2
            else:
                break
            theta = theta + step
            log_likelihood, value, gradient, information = trial
            if gain < TOLERANCE:
                break
        return theta, log_likelihood, information


class _Encoded:
    """Codes of rows, made chunk by chunk, and kept where all rows fit at once."""

    def __init__(self, encode, n_rows, numbers_a_row):
        step = max(1, NUMBERS_A_CHUNK // max(numbers_a_row, 1))
        self.encode = encode
        self.chunks = [slice(s, min(s + step, n_rows)) for s in range(0, n_rows, step)]
        self.kept = encode(self.chunks[0]) if len(self.chunks) == 1 else None

    def parts(self):
        """Rows and what encodes them."""
        for rows in self.chunks:
            yield rows, self.encode(rows) if self.kept is None else self.kept


def _indicators(states, k):
    """Which of the states 1 .. k each row is in, shape (k, n_rows)."""
    return (states == np.arange(1, k + 1)[:, None]).astype(float)


def _spread(p, weights):
    """Weighted covariances of the indicators of the states, shape (k, k, n_rows)."""
    out = -p[:, None] * p * weights
    k = np.arange(len(p))
    out[k, k] += p * weights
    return out


def _gram(spread, left, right):
    """Sums over rows of ``spread[a, b] left[c] right[d]``, shape (k, n_left, k, n_right)."""
    k = len(spread)
    out = np.empty((k, len(left), k, right.shape[1]))
    for a in range(k):
        for b in range(a + 1):
            out[a, :, b] = out[b, :, a] = (left * spread[a, b]) @ right
    return out


def _fit(node, columns, weights):
    """Parameters, their sandwich covariance and the log-likelihood."""
    if node.n_states == 1:
        return np.zeros(0), np.zeros((0, 0)), 0.0
    regression = _Regression(node, columns, weights)
    theta, log_likelihood, information = regression.maximise(np.zeros(node.n_parameters))
    inverse = np.linalg.inv(information)
    return theta, inverse @ regression.meat(theta) @ inverse, log_likelihood


def _losses(node, columns, weights, asked):
    """Log-likelihood lost by every edge that is asked for, 0 for the others."""
    theta, full, _ = _Regression(node, columns, weights).maximise(np.zeros(node.n_parameters))
    losses = np.zeros(len(node.edges))
    for k in np.flatnonzero(asked[node.edges]):
        start = np.delete(theta, node.parts[k])
        _, less, _ = _Regression(node.without(k), columns, weights).maximise(start)
        losses[k] = max(full - less, 0.0)
    return losses


# Score tests -------------------------------------------------------------------------------


def _two_state_scores(fits, X, weights, form, n_jobs):
    """Statistics (n, n) and degrees of freedom (n, n) from the regression of the first variable.

    The statistic of a pair is x_j in {-1, 1}, so every sum over rows is a matrix product.
    """
    columns = np.ascontiguousarray(X.T)
    signs = _Encoded(lambda rows: 2.0 * X[rows] - 1.0, len(X), X.shape[1])
    varied = form.layout.n_states > 1

    def direction(node, theta):
        if node.n_states == 1:
            return np.zeros(len(varied)), np.zeros(len(varied), dtype=np.int64)
        loadings = node.loadings[:, 0]
        score, total, cross, information = 0.0, 0.0, 0.0, RIDGE * np.eye(len(theta))
        for rows, s in signs.parts():
            z = node.regressors(columns, rows)
            p = expit(theta @ loadings @ z)
            w = weights[rows]
            scaled = z * (w * p * (1 - p))
            score += (w * (columns[node.variable, rows] - p)) @ s
            total += w @ (p * (1 - p))
            cross += loadings @ (scaled @ s)
            information += loadings @ (scaled @ z.T) @ loadings.T
        left = total - (cross * np.linalg.solve(information, cross)).sum(axis=0)
        tested = varied & (left > LEAST_INFORMATION + NEGLIGIBLE * total)
        return np.where(tested, score**2, 0.0) / np.where(tested, left, 1.0), tested.astype(int)

    return _directions(direction, fits, form, n_jobs)


def _table_scores(fits, X, weights, form, n_jobs):
    """The same for any numbers of states, from sums over the rows of every state of a partner."""
    columns = np.ascontiguousarray(X.T)
    q = form.layout.n_states
    start = np.concatenate([[0], np.cumsum(q)])
    codes = np.arange(start[-1]) - np.repeat(start[:-1], q)
    owner = np.repeat(np.arange(len(q)), q)
    one_hot = _Encoded(lambda r: (X[r][:, owner] == codes).astype(float), len(X), start[-1])

    def direction(node, theta):
        statistic, rank = np.zeros(len(q)), np.zeros(len(q), dtype=np.int64)
        if node.n_states == 1:
            return statistic, rank
        sums = _StateSums(node, len(owner))
        for rows, s in one_hot.parts():
            z = node.regressors(columns, rows)
            sums.add(theta, z, columns[node.variable, rows], weights[rows], s)
        for q_j in np.unique(q[q > 1]).tolist():
            partners = np.flatnonzero(q == q_j)
            entries = start[partners][:, None] + np.arange(q_j)
            basis = _relative_basis(form.statistic, node.n_states, q_j, True)
            statistic[partners], rank[partners] = sums.tests(entries, basis)
        return statistic, rank

    return _directions(direction, fits, form, n_jobs)


class _StateSums:
    """Sums over rows by the states of all other variables, which all score tests are made of."""

    def __init__(self, node, n_columns):
        self.node = node
        p, k, m = node.loadings.shape
        self.loadings = node.loadings.reshape(p, k * m)
        self.score = np.zeros((k, n_columns))
        self.second = np.zeros((k, k, n_columns))
        self.cross = np.zeros((p, k, n_columns))
        self.information = RIDGE * np.eye(p)

    def add(self, theta, z, states, weights, one_hot):
        p = np.exp(self.node.log_law(theta, z)[1:])
        k, km = len(p), self.loadings.shape[1]
        spread = _spread(p, weights)
        self.score += (weights * (_indicators(states, k) - p)) @ one_hot
        self.second += (spread.reshape(k * k, len(states)) @ one_hot).reshape(self.second.shape)
        gram = _gram(spread, z, one_hot).reshape(km, k * one_hot.shape[1])
        self.cross += (self.loadings @ gram).reshape(self.cross.shape)
        gram = _gram(spread, z, z.T).reshape(km, km)
        self.information += self.loadings @ gram @ self.loadings.T

    def tests(self, entries, basis):
        """Statistics and ranks of partners whose states are these columns."""
        score = np.einsum("bac,ajc->jb", basis, self.score[:, entries])
        total = np.einsum(
            "bxc,dyc,xyjc->jbd", basis, basis, self.second[:, :, entries], optimize=True
        )
        cross = np.einsum("bac,pajc->pjb", basis, self.cross[:, :, entries])
        p, n, d = cross.shape
        solved = np.linalg.solve(self.information, cross.reshape(p, n * d)).reshape(cross.shape)
        left = total - np.einsum("pjb,pjd->jbd", cross, solved)
        largest = np.trace(total, axis1=1, axis2=2)
        return _quadratic(score, left, LEAST_INFORMATION + NEGLIGIBLE * largest)


def _directions(direction, fits, form, n_jobs):
    tasks = list(zip(_nodes(form), fits.own, strict=True))
    found = list(run_blocks(direction, tasks, n_jobs))
    return np.stack([f[0] for f in found]), np.stack([f[1] for f in found])


def _symmetric(form, directed):
    """Mean of the statistics of both directions, the larger of their degrees of freedom."""
    statistic, dof = (directed[0] + directed[0].T) / 2, np.maximum(directed[1], directed[1].T)
    for values in (statistic, dof):
        values[form.edges[:, 0], form.edges[:, 1]] = 0
        values[form.edges[:, 1], form.edges[:, 0]] = 0
        np.fill_diagonal(values, 0)
    return statistic, dof


def _quadratic(vectors, matrices, floor):
    """``v^T M^-1 v`` over the eigenvectors of M of eigenvalues above the floor, and their number.

    Parameters
    ----------
    vectors : ndarray of shape (n, d)
    matrices : ndarray of shape (n, d, d)
    floor : float or ndarray of shape (n,)
    """
    values, axes = np.linalg.eigh((matrices + matrices.transpose(0, 2, 1)) / 2)
    along = np.einsum("nde,nd->ne", axes, vectors)
    counts = values > np.reshape(floor, (-1, 1))
    terms = np.where(counts, along**2, 0.0) / np.where(counts, values, 1.0)
    return terms.sum(axis=1), counts.sum(axis=1)
