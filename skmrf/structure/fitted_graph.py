"""Fitted attributes of a structure learner, indexed by the columns of the data."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.stats import norm

from .._utils.codes import MISSING
from ..energies import FactorGraph
from ..energies.log_linear import pair_basis
from .assessment import Assessment
from .nodewise import normalized_accuracy
from .rows import duplicate_table
from .significance import adjust_p_values

Z_975 = norm.ppf(0.975)


@dataclass(frozen=True, eq=False)
class Selection:
    """Graph that a search strategy selected, its parameters, and tests of its pairs.

    Attributes
    ----------
    energy : LogLinearEnergy or MixedFits
        Model whose edges are the selected edges.
    assessment : Assessment
        Tests of all pairs.
    n_candidates : int
        Number of candidate pairs of the first round.
    rounds : list of dict
        For each round, the number of edges at its start ("n_edges"), and the number of edges
        that were removed ("left") and added ("entered").
    converged : bool
        Whether the last round changed nothing.
    """

    energy: Any
    assessment: Assessment
    n_candidates: int
    rounds: list
    converged: bool


class FittedGraph:
    """Selected graph, whose nodes are all columns of the data.

    Parameters
    ----------
    selection : Selection
        Selected graph of the variables ``columns.kept``.
    columns : Columns
        Columns of the search, and their duplicates.
    rows : Rows
        Training rows with all columns.
    control : {"holm", "fdr"}
        Adjustment of p-values for multiple tests.

    Attributes
    ----------
    edges : ndarray of shape (n_edges, 2)
        Edges of the selection, and pairs of duplicate columns, in lexicographic order.
    """

    has_energy = True  # the attribute energy_ is a model of all columns

    def __init__(self, selection, columns, rows, control):
        self.selection = selection
        self.energy = selection.energy
        self.columns = columns
        self.rows = rows
        self.control = control
        duplicates = np.array(columns.duplicates, dtype=np.int64).reshape(-1, 2)
        edges = np.concatenate([columns.kept[self.energy.form.edges], duplicates])
        self.order = np.lexsort(edges.T[::-1])
        self.edges = edges[self.order]
        self.n_duplicates = len(duplicates)

    @property
    def has_scalar_couplings(self):
        """True if each edge has a single parameter, which is called its coupling."""
        return self.energy.form.statistic == "agreement" or bool((self.rows.n_states <= 2).all())

    @property
    def strength(self):
        """Symmetric (n_columns, n_columns) matrix with the norm of each edge's parameters."""
        return self._edge_matrix(self.energy.strengths(), np.inf)

    def attributes(self, bootstraps):
        """Return a dict of the fitted attributes that describe the selected graph.

        ``bootstraps`` may be None.
        """
        fitted = {
            "edges_": self.edges,
            "coupling_": self.coupling(),
            "confidence_intervals_": self.intervals(),
            "strength_": self.strength,
            "p_values_": self.p_values(),
            "edge_probability_": self.probabilities(),
            "predictability_": self.predictability(),
        }
        if self.has_energy:
            fitted["energy_"] = self.model()
        if bootstraps is not None and bootstraps.n_done:
            fitted["edge_frequency_"] = self.frequencies(bootstraps.frequencies())
        return fitted

    def coupling(self):
        """Return the matrix of couplings, or a list with the centred table of each edge."""
        if self.has_scalar_couplings:
            out = self._edge_matrix(0.5 * self.energy.theta["pairs"], np.inf)
            for (i, j), sign in zip(self.columns.duplicates, self._duplicate_signs(), strict=True):
                out[i, j] = out[j, i] = sign * np.inf
            return out
        tables = [np.tensordot(theta, basis, 1) for theta, basis in self._parameters_and_bases()]
        return self._sort_edges([*tables, *self._duplicate_tables()])

    def intervals(self):
        """Return lower and upper 95% confidence limits of each edge's coupling or table entries."""
        covariances = self.selection.assessment.covariances
        if self.has_scalar_couplings:
            return self._coupling_intervals(covariances)
        limits = []
        for (theta, basis), c in zip(self._parameters_and_bases(), covariances, strict=True):
            middle = np.tensordot(theta, basis, 1)
            variance = c  # of the entries, unless it is the covariance of the parameters
            if c.shape != middle.shape:
                variance = (basis * np.tensordot(c, basis, 1)).sum(axis=0)
            half = Z_975 * np.sqrt(variance.clip(0.0))
            limits.append(np.stack([middle - half, middle + half]))
        return self._sort_edges([*limits, *(np.stack([t, t]) for t in self._duplicate_tables())])

    def p_values(self):
        """Return the p-values of all pairs of columns, adjusted for multiple tests."""
        n = len(self.columns.kept)
        out = np.ones((n, n))
        upper = np.triu_indices(n, 1)
        out[upper] = adjust_p_values(self.selection.assessment.p, self.control)
        return self._pair_matrix(np.minimum(out, out.T), 1.0, self.columns.duplicate_p)

    def probabilities(self):
        """Return, for each pair of columns, the posterior probability that it is an edge."""
        n = len(self.columns.kept)
        out = np.zeros((n, n))
        out[np.triu_indices(n, 1)] = self.selection.assessment.edge_probabilities
        return self._pair_matrix(out + out.T, 0.0, 1.0)

    def frequencies(self, kept):
        """Return the bootstrap frequency of each pair of columns; duplicates have frequency 1."""
        return self._pair_matrix(kept, 0.0, 1.0)

    def predictability(self):
        """Return the normalised accuracy of each column given its neighbours, 1 for duplicates."""
        out = np.zeros(len(self.rows.n_states))
        X = self.rows.X[:, self.columns.kept]
        out[self.columns.kept] = normalized_accuracy(self.energy, X, self.rows.weights)
        return self._set_duplicates(out)

    def _set_duplicates(self, values):
        """Set the values of columns that have a duplicate, and of the duplicates, to 1."""
        values[np.array(self.columns.duplicates, dtype=np.int64).ravel()] = 1.0
        return values

    def model(self):
        """Return the model of all columns as a :class:`FactorGraph`."""
        tables = {(int(k),): np.zeros(q) for k, q in enumerate(self.rows.n_states)}
        graph, kept = self.energy.graph, self.columns.kept
        for clique, table in zip(graph.cliques, graph.log_potentials, strict=True):
            tables[tuple(kept[list(clique)].tolist())] = table
        for pair, table in zip(self.columns.duplicates, self._duplicate_tables(), strict=True):
            tables[pair] = table
        constant = set(range(len(self.rows.n_states))) - set(kept.tolist())
        for k in constant - {j for _, j in self.columns.duplicates}:
            tables[(k,)] = np.log(self.rows.smoothed_frequencies(k))
        return FactorGraph(self.rows.n_states, list(tables), list(tables.values()))

    def _edge_matrix(self, learned, duplicates):
        """Return a symmetric matrix over all columns: one number per edge, zero for other pairs."""
        out = np.zeros((len(self.rows.n_states), len(self.rows.n_states)))
        values = np.concatenate([learned, np.full(self.n_duplicates, duplicates)])[self.order]
        out[self.edges[:, 0], self.edges[:, 1]] = values
        return out + out.T

    def _pair_matrix(self, matrix, diagonal, duplicates):
        """Extend a matrix over the kept columns to a matrix over all columns of the data.

        The other entries are ``diagonal``, except those between duplicates.
        """
        n, kept = len(self.rows.n_states), self.columns.kept
        out = np.full((n, n), diagonal)
        out[np.ix_(kept, kept)] = matrix
        np.fill_diagonal(out, diagonal)
        values = np.broadcast_to(duplicates, self.n_duplicates)
        for (i, j), value in zip(self.columns.duplicates, values, strict=True):
            out[i, j] = out[j, i] = value
        return out

    def _sort_edges(self, values):
        """Sort the values of selected edges and duplicate pairs like the attribute ``edges``."""
        return [values[k] for k in self.order]

    def _duplicate_signs(self):
        """Return, for each pair of binary duplicates, 1 for equal and -1 for opposite states."""
        signs = []
        for i, j in self.columns.duplicates:
            row = np.flatnonzero(self.rows.X[:, i] >= 0)[0]
            signs.append(1.0 if self.rows.X[row, i] == self.rows.X[row, j] else -1.0)
        return np.array(signs)

    def _duplicate_tables(self):
        return [
            duplicate_table(self.rows.X, i, j, self.rows.n_states)
            for i, j in self.columns.duplicates
        ]

    def _parameters_and_bases(self):
        """Yield, for each selected edge, its parameters and one basis table per parameter."""
        form = self.energy.form
        q = form.layout.n_states
        for theta, (i, j) in zip(self.energy.edge_parameters(), form.edges.tolist(), strict=True):
            yield theta, pair_basis(form.statistic, q[i], q[j])

    def _coupling_intervals(self, covariances):
        half = Z_975 * np.sqrt(np.array([c[0, 0] for c in covariances]))
        both = 0.5 * (self.energy.theta["pairs"][:, None] + half[:, None] * [-1.0, 1.0])
        of_duplicates = np.repeat(self._duplicate_signs()[:, None] * np.inf, 2, axis=1)
        return np.concatenate([both.reshape(-1, 2), of_duplicates.reshape(-1, 2)])[self.order]


class MixedGraph(FittedGraph):
    """Selected graph of mixed columns, whose nodes are all columns of the data.

    The parameters are those of :class:`FittedGraph`, with rows of the type
    :class:`~skmrf.structure.mixed.MixedRows`.
    """

    has_energy = False

    @property
    def has_scalar_couplings(self):
        """True if all columns are numeric, so that each edge has a partial correlation."""
        return bool((self.rows.n_states == 0).all())

    @property
    def strength(self):
        """Symmetric (n_columns, n_columns) matrix with the norm of each edge's interaction."""
        norms = [np.linalg.norm(table) for table in self._duplicate_tables()]
        return self._edge_matrix(self.energy.strengths(), norms)

    def coupling(self):
        """Return the matrix of partial correlations, or a list with an array for each edge."""
        tables = [*self.energy.tables(), *self._duplicate_tables()]
        if self.has_scalar_couplings:
            values = np.clip([float(table) for table in tables], -1.0, 1.0)
            n_edges = len(tables) - self.n_duplicates
            return self._edge_matrix(values[:n_edges], values[n_edges:])
        return self._sort_edges(tables)

    def intervals(self):
        """Return lower and upper 95% confidence limits of the interaction of each edge.

        Those of partial correlations are from Fisher's transform.
        """
        limits = []
        degree = np.bincount(self.energy.form.edges.ravel(), minlength=len(self.columns.kept))
        counts = self.rows.count_observed(self.columns.kept[self.energy.form.edges])
        covariances = self.selection.assessment.covariances
        tables, variances = self.energy.tables(), self.energy.table_variances(covariances)
        for e, (i, j) in enumerate(self.energy.form.edges.tolist()):
            if np.ndim(tables[e]) == 0:
                free = max(counts[e] - max(degree[i], degree[j]) - 2.0, 1.0)
                z = np.arctanh(np.clip(tables[e], -1.0 + 1e-15, 1.0 - 1e-15))
                limits.append(np.tanh(z + Z_975 / np.sqrt(free) * np.array([-1.0, 1.0])))
            else:
                half = Z_975 * np.sqrt(variances[e].clip(0.0))
                limits.append(np.stack([tables[e] - half, tables[e] + half]))
        limits = self._sort_edges([*limits, *(np.stack([t, t]) for t in self._duplicate_tables())])
        return np.array(limits).reshape(-1, 2) if self.has_scalar_couplings else limits

    def predictability(self):
        """Return the predictability of each column by its neighbours, 1 for duplicates."""
        out = np.zeros(len(self.rows.n_states))
        out[self.columns.kept] = self.energy.predictability
        return self._set_duplicates(out)

    def _duplicate_tables(self):
        """Return a correlation of 1 or -1 for numeric duplicates, and tables for the others."""
        tables = []
        for i, j in self.columns.duplicates:
            if self.rows.n_states[i]:
                states = np.where(self.rows.observed, self.rows.X, MISSING).astype(np.int64)
                tables.append(duplicate_table(states, i, j, self.rows.n_states))
            else:
                known = self.rows.observed[:, i]
                x, y = self.rows.X[known, i], self.rows.X[known, j]
                tables.append(np.sign(y[x.argmax()] - y[x.argmin()]))
        return tables


def edge_attributes(fitted):
    """Return the edge attributes of the networkx graph, given a dict of the fitted attributes."""
    coupling, strength = fitted["coupling_"], fitted["strength_"]
    has_scalar_couplings = not isinstance(coupling, list)
    attributes = {
        "weight": coupling if has_scalar_couplings else strength,
        "strength": strength,
        "p_value": fitted["p_values_"],
        "probability": fitted["edge_probability_"],
    }
    if has_scalar_couplings:
        attributes["sign"] = np.sign(coupling)
    elif "energy_" not in fitted:
        attributes["sign"] = np.array([_find_sign(table) for table in coupling])
    if "edge_frequency_" in fitted:
        attributes["frequency"] = fitted["edge_frequency_"]
    return attributes


def _find_sign(table):
    """Return the sign of an interaction with a single parameter, and 0 for other interactions."""
    if np.ndim(table) == 0:
        return float(np.sign(table))
    return float(np.sign(table.flat[-1])) if set(table.shape) == {2} else 0.0


def build_network(names, edges, attributes):
    """Return a networkx graph with columns as nodes.

    Parameters
    ----------
    names : list
        Names of the nodes.
    edges : ndarray of shape (n_edges, 2)
        Pairs of node indices.
    attributes : dict of str to ndarray
        Edge attributes by name: arrays over the edges, or square matrices over the nodes.

    Returns
    -------
    networkx.Graph
        Graph with the edge attributes.
    """
    import networkx as nx  # slow import, as long as that of the rest of the package

    graph = nx.Graph()
    graph.add_nodes_from(names)
    for k, (i, j) in enumerate(edges.tolist()):
        values = {
            name: (v[i, j] if np.ndim(v) == 2 else v[k]).item() for name, v in attributes.items()
        }
        graph.add_edge(names[i], names[j], **values)
    return graph
