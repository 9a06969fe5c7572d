"""The regression of a variable on its neighbours."""

from dataclasses import dataclass
from functools import cached_property, lru_cache
from itertools import pairwise

import numpy as np
from scipy.special import log_softmax

from ..energies.log_linear import contrasts, pair_basis

RIDGE = 0.01  # information of the prior of every parameter: half of it times theta^2 is taken off
NUMBERS_A_CHUNK = 2**23
MAX_NEWTON = 100
MAX_HALVINGS = 40
TOLERANCE = 1e-9  # nats that another step would gain
REPEATED = 2  # rows a pattern, so that patterns are worth it


@dataclass(frozen=True, eq=False)
class Node:
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

    def regressors(self, states):
        """Shape (n_regressors, n), of states of the partners of shape (n_edges, n)."""
        constant = len(self.pieces) - len(self.edges)
        parts = [np.ones((constant, states.shape[1]))]
        for codes, column in zip(self.codes, states, strict=True):
            parts.append(np.take(codes, column, axis=1))
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
        return Node(
            self.variable,
            self.n_states,
            self.edges[keep],
            self.partners[keep],
            self.codes[:k] + self.codes[k + 1 :],
            self.pieces[:piece] + self.pieces[piece + 1 :],
        )


def nodes_of(form):
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
        nodes.append(Node(i, n_states, alive[found // 2], partners, codes, pieces))
    return nodes


@lru_cache(maxsize=256)
def _coded(statistic, q_i, q_j, first):
    """Codes of the states of j, and the loadings that make the tables of the pair of them."""
    codes = contrasts(q_j).T if statistic == "table" else np.eye(min(q_i, q_j), q_j)
    return codes, relative_basis(statistic, q_i, q_j, first) @ codes.T


@lru_cache(maxsize=256)
def relative_basis(statistic, q_i, q_j, first):
    """Basis tables of a pair, the axis of i before that of j, less their rows of state 0 of i."""
    if first:
        return _less_first(pair_basis(statistic, q_i, q_j))
    return _less_first(pair_basis(statistic, q_j, q_i).transpose(0, 2, 1))


def _less_first(tables):
    return tables[:, 1:] - tables[:, :1]


class Patterns:
    """Rows by the states of the partners of a variable, on which alone its law depends.

    Where these hardly repeat, every row is a pattern of its own.

    Attributes
    ----------
    which : ndarray of shape (n_rows,)
        Pattern of every row.
    first : ndarray of shape (n_patterns,)
        A row of every pattern.
    """

    def __init__(self, node, columns):
        self.node = node
        self.columns = columns
        n = columns.shape[1]
        self.which, self.first = np.zeros(n, dtype=np.int64), np.zeros(min(n, 1), dtype=np.int64)
        for j, codes in zip(node.partners, node.codes, strict=True):
            if len(self.first) > n / REPEATED:
                self.which = self.first = np.arange(n)
                break
            self._split(columns[j], codes.shape[1])

    def _split(self, column, n_states):
        """Patterns that tell the states of one more partner apart."""
        cells = self.which * n_states + column
        first = np.full(len(self.first) * n_states, -1)
        first[cells] = np.arange(len(cells))
        seen = first >= 0
        self.which = (np.cumsum(seen) - 1)[cells]
        self.first = first[seen]

    def __len__(self):
        return len(self.first)

    def regressors(self, some):
        """Of a slice of the patterns."""
        return self.node.regressors(self.columns[np.ix_(self.node.partners, self.first[some])])

    @property
    def states(self):
        """Of the variable, shape (n_rows,)."""
        return self.columns[self.node.variable].astype(np.int64)

    def counts(self, weights):
        """Weights of the rows of every pattern by the state of the variable."""
        shape = self.node.n_states, len(self.first)
        cells = self.states * shape[1] + self.which
        return np.bincount(cells, weights, minlength=shape[0] * shape[1]).reshape(shape)


class Regression:
    """A variable given its neighbours, on weighted rows."""

    def __init__(self, node, columns, weights):
        self.node = node
        k, m = node.loadings.shape[1:]
        self.loadings = node.loadings.reshape(node.n_parameters, k * m)
        patterns = Patterns(node, columns)
        self.counts = patterns.counts(weights)
        self.patterns = Encoded(patterns.regressors, len(patterns), 2 * m + (k + 1) ** 2)

    def parts(self, theta):
        """Chunks of patterns: regressors, log-probabilities of states, counts, and all of them."""
        for some, regressors in self.patterns.parts():
            counts = self.counts[:, some]
            yield regressors, self.node.log_law(theta, regressors), counts, counts.sum(axis=0)

    def value(self, theta):
        """The log-likelihood, and what the ridge leaves of it."""
        found = sum(np.vdot(counts, log_p) for _, log_p, counts, _ in self.parts(theta))
        return found, found - RIDGE / 2 * theta @ theta

    def derivatives(self, theta):
        """Gradient and information of the penalised log-likelihood."""
        gradient, information = -RIDGE * theta, RIDGE * np.eye(len(theta))
        for z, log_p, counts, total in self.parts(theta):
            p = np.exp(log_p[1:])
            gradient += self.loadings @ ((counts[1:] - total * p) @ z.T).ravel()
            information += self.of_parameters(gram(spread(p, total), z, z.T))
        return gradient, information

    def meat(self, theta):
        """Sum of the outer products of the scores of rows, and the information of the ridge."""
        outer = RIDGE * np.eye(len(theta))
        for z, log_p, counts, total in self.parts(theta):
            observed, p = counts[1:], np.exp(log_p[1:])
            products = (total * p - observed)[:, None] * p - p[:, None] * observed
            k = np.arange(len(p))
            products[k, k] += observed
            outer += self.of_parameters(gram(products, z, z.T))
        return outer

    def of_parameters(self, products):
        """Products of parameters from those of regressors by state."""
        return self.loadings @ products.reshape(2 * (self.loadings.shape[1],)) @ self.loadings.T

    def maximise(self, theta):
        """The maximiser by damped Newton steps, its log-likelihood and its information."""
        log_likelihood, value = self.value(theta)
        for _ in range(MAX_NEWTON):
            gradient, information = self.derivatives(theta)
            step = np.linalg.solve(information, gradient)
            gain = gradient @ step / 2
            found = self._ascended(theta, step, value) if gain > 0 else None
            if found is None:
                return theta, log_likelihood, information
            theta, log_likelihood, value = found
            if gain < TOLERANCE:
                break
        return theta, log_likelihood, self.derivatives(theta)[1]

    def _ascended(self, theta, step, value):
        """Where the step, half of it, or half of that and so on ends no lower; None if nowhere."""
        slack = 1e-12 * abs(value)
        for _ in range(MAX_HALVINGS):
            log_likelihood, new = self.value(theta + step)
            if new >= value - slack:
                return theta + step, log_likelihood, new
            step = step / 2
        return None


class Encoded:
    """Codes of rows or patterns, made chunk by chunk, and kept where all fit at once."""

    def __init__(self, encode, n, numbers_each):
        step = max(1, NUMBERS_A_CHUNK // max(numbers_each, 1))
        self.encode = encode
        self.chunks = [slice(s, min(s + step, n)) for s in range(0, n, step)]
        self.kept = encode(self.chunks[0]) if len(self.chunks) == 1 else None

    @classmethod
    def signs(cls, X):
        """Codes -1 and 1 of variables with two states, from X of shape (n_rows, n_variables)."""
        return cls(lambda rows: 2.0 * X[rows] - 1.0, len(X), X.shape[1])

    def parts(self):
        """Slices and what encodes them."""
        for some in self.chunks:
            yield some, self.encode(some) if self.kept is None else self.kept


def spread(p, weights):
    """Weighted covariances of the indicators of the states, shape (k, k, n)."""
    out = -p[:, None] * p * weights
    k = np.arange(len(p))
    out[k, k] += p * weights
    return out


def gram(covariances, left, right):
    """Sums of ``covariances[a, b] left[c] right[d]``, shape (k, n_left, k, n_right)."""
    k = len(covariances)
    out = np.empty((k, len(left), k, right.shape[1]))
    for a in range(k):
        for b in range(a + 1):
            out[a, :, b] = out[b, :, a] = (left * covariances[a, b]) @ right
    return out
