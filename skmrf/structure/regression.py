"""Logistic regression of a variable on its neighbours."""

from dataclasses import dataclass
from functools import cached_property, lru_cache
from itertools import pairwise

import numpy as np
from scipy.optimize import minimize
from scipy.sparse import csr_array

from ..energies.log_linear import contrasts, pair_basis

RIDGE = 0.01  # ridge penalty of RIDGE / 2 * theta^2 on each parameter
CHUNK_ENTRIES = 2**23
MAX_NEWTON = 100
MAX_HALVINGS = 40
TOLERANCE = 1e-9  # predicted gain of a Newton step in nats
MAX_ITER, N_PAIRS = 1_000, 20  # of L-BFGS
MIN_ITERATION_GAIN = 1e-6  # nats per parameter; L-BFGS stops when an iteration gains less
MIN_ROWS_PER_PATTERN = 2  # with fewer rows per pattern, grouping rows saves no time


@dataclass(frozen=True, eq=False)
class Node:
    """Specification of the logistic regression of a variable on its neighbours.

    The logits of states 1, 2, ... relative to state 0 are ``theta @ loadings @ regressors``. The
    regressors are a constant and codes of the neighbours. All states of the variable share them.

    Attributes
    ----------
    variable : int
        Index of the variable.
    n_states : int
        Number of states of the variable.
    edges : ndarray of shape (n_edges,)
        Indices of the edges of the variable.
    partners : ndarray of shape (n_edges,)
        Index of the neighbour at each edge.
    codes : list of ndarray of shape (n_codes, n_states of the neighbour)
        Codes of the states of each neighbour.
    blocks : list of ndarray of shape (d, n_states - 1, n_codes)
        Loadings of the variable's own parameters, if it has any, and of each edge.
    has_tables : bool
        Whether the loadings are products of contrasts of the variable and codes of a neighbour.
    """

    variable: int
    n_states: int
    edges: np.ndarray
    partners: np.ndarray
    codes: list
    blocks: list
    has_tables: bool

    @property
    def n_parameters(self):
        """Number of parameters of the regression."""
        return sum(len(block) for block in self.blocks)

    @cached_property
    def edge_slices(self):
        """Slice of the parameter vector for each edge."""
        ends = np.cumsum([0] + [len(block) for block in self.blocks])
        return [slice(a, b) for a, b in pairwise(ends[len(self.blocks) - len(self.edges) :])]

    @cached_property
    def loadings(self):
        """Map from parameters to logits, shape (n_parameters, n_states - 1, n_regressors)."""
        width = sum(block.shape[2] for block in self.blocks)
        out = np.zeros((self.n_parameters, self.n_states - 1, width))
        row = column = 0
        for block in self.blocks:
            d, _, k = block.shape
            out[row : row + d, :, column : column + k] = block
            row, column = row + d, column + k
        return out

    def regressors(self, states):
        """Return the regressors, shape (n_regressors, n), for given states of the neighbours."""
        constant = len(self.blocks) - len(self.edges)
        parts = [np.ones((constant, states.shape[1]))]
        for codes, column in zip(self.codes, states, strict=True):
            parts.append(np.take(codes, column, axis=1))
        return np.concatenate(parts)

    def log_probabilities(self, theta, regressors):
        """Return the log-probability of each state of the variable, shape (n_states, n_rows)."""
        k, m = self.loadings.shape[1:]
        logits = np.zeros((k + 1, regressors.shape[1]))
        logits[1:] = (theta @ self.flat_loadings).reshape(k, m) @ regressors
        logits -= logits.max(axis=0)
        logits -= np.log(np.exp(logits).sum(axis=0))
        return logits

    def score_terms(self, theta, columns, weights):
        """Return the gradient of the log-probability of each row, and the Fisher information.

        The shapes are (n_parameters, n_rows) and (n_parameters, n_parameters). The information is
        the weighted sum over the rows.
        """
        z, states = self.regressors(columns[self.partners]), columns[self.variable]
        p = np.exp(self.log_probabilities(theta, z)[1:])
        residuals = (states == np.arange(1, self.n_states)[:, None]) - p
        scores = self.flat_loadings @ (residuals[:, None] * z).reshape(-1, len(weights))
        information = weighted_gram(indicator_covariances(p, weights), z, z.T)
        return scores, self.to_parameters(information)

    def to_parameters(self, products):
        """Convert a matrix over pairs (state, regressor) to a matrix over the parameters."""
        if not self.has_tables:
            loadings = self.flat_loadings
            return loadings @ products.reshape(2 * (loadings.shape[1],)) @ loadings.T
        k, m = products.shape[:2]
        own = _relative_contrasts(k + 1)
        left = (own @ products.reshape(k, -1)).reshape(k * m, k, m)
        return np.matmul(own, left).reshape(k * m, k * m)[
            np.ix_(self.table_order, self.table_order)
        ]

    @cached_property
    def table_order(self):
        """Index of the pair (contrast of the variable, regressor) of each parameter of tables."""
        _, k, m = self.loadings.shape
        index = np.arange(k * m).reshape(k, m)
        column = len(self.blocks) - len(self.edges)
        parts = [index[:, :column].ravel()]
        for partner, codes in zip(self.partners, self.codes, strict=True):
            part = index[:, column : column + len(codes)]
            parts.append((part if self.variable < partner else part.T).ravel())
            column += len(codes)
        return np.concatenate(parts)

    @cached_property
    def flat_loadings(self):
        """Loadings of each parameter in one row, for pairs (state, regressor)."""
        _, k, m = self.loadings.shape
        return self.loadings.reshape(self.n_parameters, k * m)

    def drop_edge(self, k):
        """Return the specification of the regression without the k-th edge."""
        keep = np.arange(len(self.edges)) != k
        block = len(self.blocks) - len(self.edges) + k
        return Node(
            self.variable,
            self.n_states,
            self.edges[keep],
            self.partners[keep],
            self.codes[:k] + self.codes[k + 1 :],
            self.blocks[:block] + self.blocks[block + 1 :],
            self.has_tables,
        )


def build_nodes(form):
    """Return the :class:`Node` of each variable, which specifies its regression.

    A variable of one state has no parameters and is no neighbour of other variables.
    """
    q = form.layout.n_states
    edges = np.flatnonzero((q[form.edges] > 1).all(axis=1))
    ends = form.edges[edges]
    variables = ends.ravel()
    order = np.argsort(variables, kind="stable")
    start = np.searchsorted(variables[order], np.arange(len(q) + 1))
    nodes = []
    for i, n_states in enumerate(q.tolist()):
        incident = order[start[i] : start[i + 1]]
        partners = ends[incident // 2, 1 - incident % 2]
        coded = [_encode_pair(form.statistic, n_states, int(q[j]), i < j) for j in partners]
        own = [_relative_contrasts(n_states)[:, :, None]] if form.unary else []
        blocks = own + [block for _, block in coded]
        codes = [code for code, _ in coded]
        has_tables = form.statistic == "table" and n_states > 1
        nodes.append(Node(i, n_states, edges[incident // 2], partners, codes, blocks, has_tables))
    return nodes


@lru_cache(maxsize=256)
def _encode_pair(statistic, q_i, q_j, first):
    """Return codes of a neighbour's states, and the coefficients of the codes in the logits."""
    codes = contrasts(q_j).T if statistic == "table" else np.eye(min(q_i, q_j), q_j)
    return codes, relative_basis(statistic, q_i, q_j, first) @ codes.T


@lru_cache(maxsize=256)
def relative_basis(statistic, q_i, q_j, first):
    """Return the basis tables of a pair (i, j), relative to state 0 of variable i."""
    if first:
        return _subtract_first_row(pair_basis(statistic, q_i, q_j))
    return _subtract_first_row(pair_basis(statistic, q_j, q_i).transpose(0, 2, 1))


def _relative_contrasts(n_states):
    """Return the contrasts of the states 1, 2, ... minus those of state 0, one contrast a row."""
    return _subtract_first_row(contrasts(n_states).T[:, :, None])[:, :, 0]


def _subtract_first_row(tables):
    return tables[:, 1:] - tables[:, :1]


class Patterns:
    """Unique joint states of a variable's neighbours in the rows.

    If few patterns repeat, each row is its own pattern.

    Attributes
    ----------
    inverse : ndarray of shape (n_rows,)
        Index of the pattern of each row.
    first : ndarray of shape (n_patterns,)
        Index of a row with each pattern.
    """

    def __init__(self, node, columns):
        self.node = node
        self.columns = columns
        n = columns.shape[1]
        self.inverse, self.first = np.zeros(n, dtype=np.int64), np.zeros(min(n, 1), dtype=np.int64)
        for j, codes in zip(node.partners, node.codes, strict=True):
            if len(self.first) > n / MIN_ROWS_PER_PATTERN:
                self.inverse = self.first = np.arange(n)
                break
            self._split(columns[j], codes.shape[1])

    def _split(self, column, n_states):
        """Split each pattern of neighbour states by the observed states of one more neighbour."""
        cells = self.inverse * n_states + column
        first = np.full(len(self.first) * n_states, -1)
        first[cells] = np.arange(len(cells))
        occurs = first >= 0
        self.inverse = (np.cumsum(occurs) - 1)[cells]
        self.first = first[occurs]

    def __len__(self):
        """Return the number of unique patterns of neighbour states."""
        return len(self.first)

    def regressors(self, chunk):
        """Return the regressors of a slice of the patterns of neighbour states."""
        return self.node.regressors(self.columns[np.ix_(self.node.partners, self.first[chunk])])

    @property
    def states(self):
        """State of the variable in each row, shape (n_rows,)."""
        return self.columns[self.node.variable].astype(np.int64)

    def counts(self, weights):
        """Return the total row weight of each state of the variable and each neighbour pattern."""
        shape = self.node.n_states, len(self.first)
        cells = self.states * shape[1] + self.inverse
        return np.bincount(cells, weights, minlength=shape[0] * shape[1]).reshape(shape)


class Regression:
    """Logistic regression of a variable on its neighbours, with ridge penalty and row weights."""

    def __init__(self, node, columns, weights):
        self.node = node
        k, m = node.loadings.shape[1:]
        patterns = Patterns(node, columns)
        self.counts = patterns.counts(weights)
        self.patterns = ChunkedCodes(patterns.regressors, len(patterns), 2 * m + (k + 1) ** 2)

    def iter_chunks(self, theta):
        """Yield regressors, log-probabilities and state counts of each chunk of patterns."""
        for chunk, regressors in self.patterns.iter_chunks():
            counts = self.counts[:, chunk]
            log_p = self.node.log_probabilities(theta, regressors)
            yield regressors, log_p, counts, counts.sum(axis=0)

    def log_likelihood(self, theta):
        """Return two values: the log-likelihood, and the log-likelihood minus the ridge penalty."""
        value = sum(np.vdot(counts, log_p) for _, log_p, counts, _ in self.iter_chunks(theta))
        return value, value - RIDGE / 2 * theta @ theta

    def derivatives(self, theta):
        """Return the gradient and the Fisher information of the penalised log-likelihood."""
        gradient, information = -RIDGE * theta, RIDGE * np.eye(len(theta))
        for z, log_p, counts, total in self.iter_chunks(theta):
            p = np.exp(log_p[1:])
            gradient += self.node.flat_loadings @ ((counts[1:] - total * p) @ z.T).ravel()
            covariances = indicator_covariances(p, total)
            information += self.node.to_parameters(weighted_gram(covariances, z, z.T))
        return gradient, information

    def meat(self, theta):
        """Return the middle matrix (meat) of the sandwich covariance.

        The matrix is the sum of outer products of the row scores, plus the ridge.
        """
        outer = RIDGE * np.eye(len(theta))
        for z, log_p, counts, total in self.iter_chunks(theta):
            observed, p = counts[1:], np.exp(log_p[1:])
            products = (total * p - observed)[:, None] * p - p[:, None] * observed
            k = np.arange(len(p))
            products[k, k] += observed
            outer += self.node.to_parameters(weighted_gram(products, z, z.T))
        return outer

    def maximise(self, theta):
        """Maximise the penalised log-likelihood by damped Newton steps, starting at ``theta``.

        Returns parameters, log-likelihood and Fisher information.
        """
        log_likelihood, value = self.log_likelihood(theta)
        for _ in range(MAX_NEWTON):
            gradient, information = self.derivatives(theta)
            step = np.linalg.solve(information, gradient)
            gain = gradient @ step / 2
            ascent = self._halve_step(theta, step, value) if gain > 0 else None
            if ascent is None:
                return theta, log_likelihood, information
            theta, log_likelihood, value = ascent
            if gain < TOLERANCE:
                break
        return theta, log_likelihood, self.derivatives(theta)[1]

    def _halve_step(self, theta, step, value):
        """Halve the Newton step until the objective does not decrease.

        Returns the new parameters, log-likelihood and objective, or None if every step fails.
        """
        slack = 1e-12 * abs(value)
        for _ in range(MAX_HALVINGS):
            log_likelihood, new = self.log_likelihood(theta + step)
            if new >= value - slack:
                return theta + step, log_likelihood, new
            step = step / 2
        return None


class TableRegression:
    """Multinomial regression with many parameters, without a matrix over the parameters.

    The logits are the sum over the neighbours of ``regressors @ codes @ A @ own_codes.T``, where A
    are the parameters of a neighbour. L-BFGS maximises the log-likelihood minus a ridge penalty.

    Parameters
    ----------
    counts : ndarray of shape (n_patterns, n_states)
        Total weight of the rows with each pattern of the neighbours and each state.
    own_codes : ndarray of shape (n_states, k)
        Codes of the states of the variable.
    blocks : list of (ndarray or sparse array, ndarray, float)
        Regressors of shape (n_patterns, r), codes of shape (r, c) and ridge penalty of each
        neighbour. The constant is a block with one regressor.
    """

    def __init__(self, counts, own_codes, blocks):
        self.counts = counts
        self.totals = counts.sum(axis=1, keepdims=True)
        self.own_codes = own_codes
        self.blocks = blocks
        sizes = [codes.shape[1] for _, codes, _ in blocks]
        self.ends = np.cumsum(sizes)[:-1]
        ridges = [ridge for _, _, ridge in blocks]
        self.ridge = np.repeat(ridges, sizes)[:, None]
        self.n_iter = 0

    def log_probabilities(self, parameters):
        """Return the log-probabilities of the states, shape (n_patterns, n_states)."""
        logits = np.zeros(self.counts.shape)
        parts = np.split(parameters, self.ends)
        for (regressors, codes, _), part in zip(self.blocks, parts, strict=True):
            logits += regressors @ (codes @ part @ self.own_codes.T)
        logits -= logits.max(axis=1, keepdims=True)
        return logits - np.log(np.exp(logits).sum(axis=1, keepdims=True))

    def loss(self, parameters):
        """Return the negative objective and its gradient, divided by the number of rows."""
        parameters = parameters.reshape(len(self.ridge), -1)
        log_p, total = self.log_probabilities(parameters), self.totals.sum()
        value = np.vdot(self.counts, log_p) - 0.5 * (self.ridge * parameters**2).sum()
        residuals = (self.counts - self.totals * np.exp(log_p)) @ self.own_codes
        gradient = [codes.T @ (regressors.T @ residuals) for regressors, codes, _ in self.blocks]
        gradient = np.concatenate(gradient) - self.ridge * parameters
        return -value / total, -gradient.ravel() / total

    def maximise(self, start):
        """Return the parameters of shape (n_regressors, k) that maximise the objective."""
        gain = MIN_ITERATION_GAIN * start.size / self.totals.sum()
        options = {"maxiter": MAX_ITER, "maxcor": N_PAIRS, "ftol": gain, "gtol": 0.0}
        found = minimize(self.loss, start.ravel(), jac=True, method="L-BFGS-B", options=options)
        self.n_iter = found.nit
        return found.x.reshape(start.shape)


def log_probabilities(linear, codes):
    """Return log-probabilities, shape (n_rows, n_states); -inf for states that do not occur."""
    logits = linear @ codes.T
    logits[:, ~codes.any(axis=1)] = -np.inf
    logits -= logits.max(axis=1, keepdims=True)
    return logits - np.log(np.exp(logits).sum(axis=1, keepdims=True))


def one_hot(states, n_states):
    """Return a sparse array with a column for each state and a single one in each row."""
    n = len(states)
    return csr_array((np.ones(n), states, np.arange(n + 1)), shape=(n, n_states))


class ChunkedCodes:
    """Numeric codes of rows or of patterns of neighbour states, computed chunk by chunk.

    A single chunk is cached.
    """

    def __init__(self, encode, n, entries_per_row):
        step = max(1, CHUNK_ENTRIES // max(entries_per_row, 1))
        self.encode = encode
        self.chunks = [slice(s, min(s + step, n)) for s in range(0, n, step)]
        self.cached = encode(self.chunks[0]) if len(self.chunks) == 1 else None

    @classmethod
    def from_binary(cls, X):
        """Encode rows of two-state variables as -1 and 1."""
        return cls(lambda rows: 2.0 * X[rows] - 1.0, len(X), X.shape[1])

    def iter_chunks(self):
        """Yield each chunk of rows as a slice, with the numeric codes of the rows."""
        for chunk in self.chunks:
            yield chunk, self.encode(chunk) if self.cached is None else self.cached


def indicator_covariances(p, weights):
    """Return each row's weighted covariance matrix of k state indicators, shape (k, k, n)."""
    out = -p[:, None] * p * weights
    k = np.arange(len(p))
    out[k, k] += p * weights
    return out


def weighted_gram(covariances, left, right):
    """Return the sum over rows of ``covariances[a, b] left[c] right[d]``, indexed by a, c, b, d."""
    k = len(covariances)
    out = np.empty((k, len(left), k, right.shape[1]))
    for a in range(k):
        for b in range(a + 1):
            out[a, :, b] = out[b, :, a] = (left * covariances[a, b]) @ right
    return out
