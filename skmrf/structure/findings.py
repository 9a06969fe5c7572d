"""What was selected, by the columns of the data."""

import numpy as np
from scipy.stats import norm

from ..energies import FactorGraph
from ..energies.log_linear import pair_basis
from .columns import copied_table
from .edge_probability import edge_probabilities, z_of
from .multiple_tests import adjusted

INTERVAL = norm.ppf(0.975)


class Findings:
    """The fitted attributes of a selection.

    Parameters
    ----------
    selection : Selection
        Among ``columns.kept``.
    columns : Columns
    rows : Rows
        Of all columns.
    control : {"holm", "fdr"}
    """

    def __init__(self, selection, columns, rows, control):
        self.selection = selection
        self.energy = selection.energy
        self.columns = columns
        self.rows = rows
        self.control = control
        copies = np.array(columns.copies, dtype=np.int64).reshape(-1, 2)
        edges = np.concatenate([columns.kept[self.energy.form.edges], copies])
        self.order = np.lexsort(edges.T[::-1])
        self.edges = edges[self.order]
        self.n_copies = len(copies)

    @property
    def by_number(self):
        """Whether every edge has one number, a coupling."""
        return self.energy.form.statistic == "agreement" or bool((self.rows.n_states <= 2).all())

    def _square(self, learned, copies, dtype=float):
        """A symmetric matrix of numbers of edges, zero elsewhere."""
        out = np.zeros((len(self.rows.n_states), len(self.rows.n_states)), dtype=dtype)
        values = np.concatenate([learned, np.full(self.n_copies, copies)])[self.order]
        out[self.edges[:, 0], self.edges[:, 1]] = values
        return out + out.T

    def _spread(self, matrix, diagonal, copies):
        """A matrix of all pairs of kept columns as one of all columns; copies have no others."""
        n, kept = len(self.rows.n_states), self.columns.kept
        out = np.full((n, n), diagonal)
        out[np.ix_(kept, kept)] = matrix
        np.fill_diagonal(out, diagonal)
        values = np.broadcast_to(copies, self.n_copies)
        for (i, j), value in zip(self.columns.copies, values, strict=True):
            out[i, j] = out[j, i] = value
        return out

    @property
    def strength(self):
        """Norms of the parameters."""
        return self._square(self.energy.strengths(), np.inf)

    def _copied_signs(self):
        """Whether copies of two states agree or disagree."""
        signs = []
        for i, j in self.columns.copies:
            row = np.flatnonzero(self.rows.X[:, i] >= 0)[0]
            signs.append(1.0 if self.rows.X[row, i] == self.rows.X[row, j] else -1.0)
        return np.array(signs)

    def coupling(self):
        """A matrix of couplings, or the centred table of every edge."""
        if self.by_number:
            out = self._square(0.5 * self.energy.theta["pairs"], np.inf)
            for (i, j), sign in zip(self.columns.copies, self._copied_signs(), strict=True):
                out[i, j] = out[j, i] = sign * np.inf
            return out
        return self._sorted(
            [np.tensordot(theta, basis, 1) for theta, basis in self._with_bases()],
            self._copied_tables(),
        )

    def _sorted(self, learned, copies):
        values = [*learned, *copies]
        return [values[k] for k in self.order]

    def _copied_tables(self):
        return [copied_table(self.rows.X, i, j, self.rows.n_states) for i, j in self.columns.copies]

    def _with_bases(self):
        form = self.energy.form
        q = form.layout.n_states
        for theta, (i, j) in zip(self.energy.edge_parameters(), form.edges.tolist(), strict=True):
            yield theta, pair_basis(form.statistic, q[i], q[j])

    def intervals(self):
        """95% limits of the couplings or tables of edges."""
        covariances = self.selection.assessment.covariances
        if self.by_number:
            half = INTERVAL * np.sqrt(np.array([c[0, 0] for c in covariances]))
            both = 0.5 * (self.energy.theta["pairs"][:, None] + half[:, None] * [-1.0, 1.0])
            copied = np.repeat(self._copied_signs()[:, None] * np.inf, 2, axis=1)
            return np.concatenate([both.reshape(-1, 2), copied.reshape(-1, 2)])[self.order]
        limits = []
        for (theta, basis), c in zip(self._with_bases(), covariances, strict=True):
            variance = np.einsum("bxy,bc,cxy->xy", basis, c, basis)
            half = INTERVAL * np.sqrt(variance.clip(0.0))
            middle = np.tensordot(theta, basis, 1)
            limits.append(np.stack([middle - half, middle + half]))
        return self._sorted(limits, [np.stack([t, t]) for t in self._copied_tables()])

    def p_values(self):
        """Of all pairs, adjusted for multiple tests."""
        n = len(self.columns.kept)
        out = np.ones((n, n))
        upper = np.triu_indices(n, 1)
        out[upper] = adjusted(self.selection.assessment.p, self.control)
        return self._spread(np.minimum(out, out.T), 1.0, self.columns.copied_p)

    def probabilities(self):
        """Posterior probability of every pair, by the tests of all."""
        n = len(self.columns.kept)
        out = np.zeros((n, n))
        upper = np.triu_indices(n, 1)
        assessment = self.selection.assessment
        out[upper] = edge_probabilities(z_of(assessment.statistic, assessment.dof)[upper])
        return self._spread(out + out.T, 0.0, 1.0)

    def frequencies(self, kept):
        """Of all pairs of columns, from those of the columns that were kept."""
        return self._spread(kept, 0.0, 1.0)

    def model(self):
        """All columns as one :class:`FactorGraph`."""
        tables = {(int(k),): np.zeros(q) for k, q in enumerate(self.rows.n_states)}
        graph, kept = self.energy.graph, self.columns.kept
        for clique, table in zip(graph.cliques, graph.log_potentials, strict=True):
            tables[tuple(kept[list(clique)].tolist())] = table
        for pair, table in zip(self.columns.copies, self._copied_tables(), strict=True):
            tables[pair] = table
        apart = set(range(len(self.rows.n_states))) - set(kept.tolist())
        for k in apart - {j for _, j in self.columns.copies}:
            tables[(k,)] = np.log(self.rows.frequencies(k))
        return FactorGraph(self.rows.n_states, list(tables), list(tables.values()))


def network(names, edges, attributes):
    """A networkx graph of columns; ``attributes`` are arrays over the edges, or square ones."""
    import networkx as nx  # takes as long as the rest of the package

    graph = nx.Graph()
    graph.add_nodes_from(names)
    for k, (i, j) in enumerate(edges.tolist()):
        values = {
            name: (v[i, j] if np.ndim(v) == 2 else v[k]).item() for name, v in attributes.items()
        }
        graph.add_edge(names[i], names[j], **values)
    return graph
