"""Pairwise log-linear model of categorical columns: estimation, tests and penalised path."""

from dataclasses import dataclass, replace

import numpy as np

from ..energies.log_linear import LogLinearEnergy, LogLinearForm, contrasts
from ..learners import PseudoLikelihood
from ..learners.pseudo_likelihood import site_log_likelihood
from ..training import loop, penalties
from ..training.settings import Settings
from .assessment import add_score_tests, assess, assess_nodes
from .mixed import (
    N_IMPUTATIONS,
    N_MATRICES,
    MixedRows,
    RegressionTests,
    assess_graph,
    check_memory,
    fit_graph,
)
from .mixed_nodes import has_sparse_table
from .nodewise import extended_bic, fit_nodes
from .screening import candidate_pairs
from .search import LearnedGraphModel
from .training_settings import PenalisedProblem

MAX_ITER, TOL = 500, 1e-4  # of a penalised estimate


@dataclass(frozen=True)
class PairwiseModel(LearnedGraphModel):
    """Settings of a pairwise log-linear model of categorical columns.

    Attributes
    ----------
    statistic : {"table", "agreement"}
        Parameters of an edge: a table, or one parameter of equal states.
    unary : bool
        Whether single variables have parameters.
    screen : "auto", None or float
        Candidate pairs: all pairs (None), the pairs that tests of independence find at this
        false discovery rate (float), or a choice by the number of rows ("auto").
    max_bytes : float
        Memory limit of the conditional likelihood of a variable, in bytes.
    """

    statistic: str = "table"
    unary: bool = True
    screen: str | float | None = "auto"
    max_bytes: float = 4 * 2**30

    def form(self, n_states, edges):
        """Return the parameterisation of a log-linear model with the given edges."""
        return LogLinearForm.build(n_states, edges, self.statistic, self.unary)

    def free_parameters(self, n_states):
        """Return a factor per variable; an edge has (product of its two factors) parameters.

        The factors are those of the two variables of the edge.
        """
        return n_states - 1.0 if self.statistic == "table" else np.ones(len(n_states))

    def candidates(self, rows):
        """Return the candidate pairs of the search, shape (n_pairs, 2)."""
        return candidate_pairs(rows, self.screen, self.free_parameters(rows.n_states))

    def fit(self, rows, edges, estimation, previous=None):
        """Return initial parameters of a graph, imputed rows, and the regressions of these rows.

        Learning starts at the maximum of the conditional likelihoods, which is near the maximum of
        the likelihood. With missing entries, imputation and the fit of the conditional likelihoods
        are repeated several times.
        """
        energy = self.initial(rows, edges, previous)
        for _ in range(N_IMPUTATIONS if rows.has_missing else 1):
            imputed, fits = self.refit(rows, energy, estimation)
            energy = energy.with_theta(self.start_parameters(energy.form, fits))
        return energy, imputed, fits

    def refit(self, rows, energy, estimation):
        """Return imputed rows and their regressions, given the parameters of a graph."""
        imputed = rows.impute(energy, estimation.rng)
        return imputed, fit_conditionals(imputed, energy, self, estimation.n_jobs)

    def start_parameters(self, form, fits):
        """Return the parameters of the fitted regressions, shaped like ``form.zeros()``."""
        return fits.theta

    def assess(self, energy, rows, imputed, fits, estimation):
        """Return Wald tests of the edges."""
        is_likelihood = not isinstance(estimation.learner, PseudoLikelihood)
        how = {"rng": estimation.rng, "n_jobs": estimation.n_jobs, "is_likelihood": is_likelihood}
        return assess(energy, rows, imputed, fits, **how)

    def add_score_tests(self, tests, fits, rows, n_jobs):
        """Return the tests of the edges, extended by score tests of all other pairs."""
        return add_score_tests(tests, fits, rows, n_jobs)

    def assess_pairs(self, rows, edges, n_jobs):
        """Fit the nodewise regressions of a graph, and return the tests of all pairs."""
        fits = fit_nodes(rows.X, rows.weights, self.form(rows.n_states, edges), n_jobs=n_jobs)
        return add_score_tests(assess_nodes(fits, rows, n_jobs), fits, rows, n_jobs)

    def penalised_path(self, rows, edges, penalty, estimation):
        """Return the penalised estimates of the candidate pairs, as a :class:`PairwisePath`."""
        start = self.independent(rows, edges)
        # a model of all candidates would impute noise as dependence
        rows = rows.impute(start, estimation.rng)
        start = self.independent(rows, edges)
        # an edge is in one term of a likelihood, but in two terms of a pseudo-likelihood
        scale = 1.0 if isinstance(estimation.learner, PseudoLikelihood) else 0.5
        return PairwisePath(rows, start, penalty, scale)

    def initial(self, rows, edges, previous=None):
        """Return a model whose edges have the parameters of a previous model, or zero."""
        energy = self.independent(rows, edges)
        return energy if previous is None else transfer_parameters(previous, energy)

    def independent(self, rows, edges):
        """Return a model without interactions: the parameters of all edges are zero.

        With parameters of single variables, each variable has its smoothed state frequencies in
        the rows.
        """
        form = self.form(rows.n_states, edges)
        theta = form.zeros()
        for i in range(len(rows.n_states) if self.unary else 0):
            log_p = np.log(rows.smoothed_frequencies(i))
            theta["unary"][form.unary_start[i] : form.unary_start[i + 1]] = (
                contrasts(rows.n_states[i]).T @ log_p
            )
        return LogLinearEnergy(form, theta)


class SparseTableModel(RegressionTests, PairwiseModel):
    """Pairwise model of tables in which some pairs of columns have sparse tables.

    Its regressions and tests are those of mixed columns, which need no matrix over the parameters
    of a pair with a sparse table, and whose tests take rare cells into account.
    """

    def refit(self, rows, energy, estimation):
        """Return imputed rows and their regressions, given the parameters of a graph."""
        imputed = MixedRows.from_codes(rows, rows.impute(energy, estimation.rng))
        check_memory(imputed.design, energy.form.edges, self.max_bytes)
        return imputed, fit_graph(imputed, energy.form.edges, estimation.n_jobs)

    def start_parameters(self, form, fits):
        """Return the parameters of the fitted regressions, shaped like ``form.zeros()``."""
        codes, nodes = fits.form.codes, fits.nodes
        unary = [code @ node.parameters[0] for code, node in zip(codes, nodes, strict=True)]
        for node in nodes:
            for j, part in zip(node.partners, node.partner_slices(fits.form.sizes), strict=True):
                means = codes[j].mean(axis=0) @ node.parameters[part]
                unary[node.variable] = unary[node.variable] + codes[node.variable] @ means
        pairs = []
        for (i, j), theta in zip(form.edges.tolist(), fits.theta, strict=True):
            left, right = (
                contrasts(len(codes[i])).T @ codes[i],
                contrasts(len(codes[j])).T @ codes[j],
            )
            pairs.append((left @ theta @ right.T).ravel())
        unary = [contrasts(len(values)).T @ values for values in unary]
        return {"unary": np.concatenate(unary), "pairs": np.concatenate([np.zeros(0), *pairs])}

    def add_score_tests(self, tests, fits, rows, n_jobs):
        """Return the tests of all pairs; the covariances are variances of the entries of tables."""
        tests = assess_graph(rows, fits, others=True)
        return replace(tests, covariances=fits.table_variances(tests.covariances))


def make_table_model(rows, statistic, unary, screen, max_bytes):
    """Return the model of rows of state codes, given the parameters of the structure learner."""
    largest = np.sort(rows.n_states)[-2:]
    is_sparse = len(largest) == 2 and has_sparse_table(np.prod(largest - 1), rows.count)
    # a PairwiseModel does not test columns that identify rows
    is_sparse = is_sparse and largest[1] <= rows.count / 2
    has_tables = statistic == "table" and unary
    model = SparseTableModel if has_tables and is_sparse else PairwiseModel
    return model(statistic, unary, screen, max_bytes)


def fit_conditionals(rows, energy, model, n_jobs):
    """Fit all nodewise regressions; raise a ValueError if they need too much memory."""
    form = energy.form
    sizes = np.diff(form.pair_start).astype(float)
    ends = form.edges.ravel()
    n_parameters = np.bincount(ends, np.repeat(sizes, 2), minlength=energy.n_variables)
    needed = 8.0 * N_MATRICES * n_parameters.max(initial=0.0) ** 2
    if needed > model.max_bytes:
        raise ValueError(
            f"The edges of one column have {n_parameters.max():.0f} parameters, whose covariance "
            f"takes about {needed:.3g} bytes, more than max_bytes={model.max_bytes:.3g}. Set "
            'screen to a number, merge rare categories, use statistic="agreement", or increase '
            "max_bytes."
        )
    return fit_nodes(rows.X, rows.weights, form, n_jobs=n_jobs)


def transfer_parameters(source, target):
    """Copy parameters from ``source`` to ``target``: single variables, and edges that both have."""
    edges = map(tuple, source.form.edges.tolist())
    learned = dict(zip(edges, source.edge_parameters(), strict=True))
    target_edges = map(tuple, target.form.edges.tolist())
    pairs = [
        learned.get(edge, zeros)
        for edge, zeros in zip(target_edges, target.edge_parameters(), strict=True)
    ]
    flat = np.concatenate(pairs) if pairs else np.zeros(0)
    return target.with_theta({"unary": source.theta["unary"], "pairs": flat})


class PairwisePath:
    """Penalised estimates of the candidate pairs, by pseudo-likelihood.

    Parameters
    ----------
    rows : Rows
        Rows without missing entries.
    start : LogLinearEnergy
        Model of independent variables, whose edges are the candidate pairs.
    penalty : {"l1", "group-l1"}
        Penalty on the parameters of edges.
    scale : float, default=1.0
        Strength of the penalty in the objective of the learner, relative to its strength in the
        pseudo-likelihood.
    """

    def __init__(self, rows, start, penalty, scale=1.0):
        self.rows = rows
        self.start = start
        self.penalty = penalty
        self.scale = scale

    def largest_alpha(self):
        """Return the smallest penalty strength at which all edges have zero parameters."""
        learner = PseudoLikelihood()
        state = learner.init(self.start, self.rows.batch, None)
        _, gradient = learner.objective(self.start, self.rows.batch, state)
        pairs, owner = gradient["pairs"], self.start.form.owner
        sizes = np.maximum(np.bincount(owner), 1)
        norms = np.sqrt(np.bincount(owner, pairs**2) / sizes)
        return max(float(np.abs(pairs).max() if self.penalty == "l1" else norms.max()), 1e-12)

    def estimates(self, alphas):
        """Yield the estimate for each penalty strength, with a warm start at the last one."""
        learner = PseudoLikelihood()
        settings = Settings(
            optimizer=None,
            max_iter=MAX_ITER,
            tol=TOL,
            average=False,
            complete=False,
            interruptible=False,
        )
        state = loop.start(self.start, learner, self.rows.batch, settings, None)
        for alpha in alphas:
            settings = replace(settings, penalty=self._make_penalty(alpha))
            state = loop.run(learner, self.rows.batch, settings, state)
            yield state.energy

    def ebic(self, energy, n_jobs):
        """Return the EBIC of the graph of nonzero edges of an estimate."""
        return ebic(self.rows, energy, n_jobs)

    def reweight(self, factors):
        """Return the path of the same candidates for rows whose weights are multiplied."""
        return PairwisePath(self.rows.reweight(factors), self.start, self.penalty, self.scale)

    def score(self, energy):
        """Return the sum over the rows of the pseudo-log-likelihood of an estimate, in nats."""
        return self.rows.weights @ site_log_likelihood(energy.graph, self.rows.X)[0]

    def select(self, alpha):
        """Return the estimation by the learner of the search, as a :class:`PenalisedProblem`."""
        return PenalisedProblem(self.start, self.rows, self._make_penalty(alpha))

    def _make_penalty(self, alpha):
        return penalties.make_penalty(self.penalty, alpha, self.start.penalty_groups())


def ebic(rows, energy, n_jobs=None):
    r"""Return the extended Bayesian information criterion (EBIC) of the graph of nonzero edges.

    .. math:: \sum_i \left( -2 \ell_i + k_i \log N + 2 \gamma d_i \log(n - 1) \right)

    where :math:`\ell_i` is the maximal conditional log-likelihood of variable i given its
    :math:`d_i` neighbours, :math:`k_i` is its number of parameters, N is the number of rows, n is
    the number of variables and :math:`\gamma = 1/2`. For variables of two states it is the
    criterion of the reference. A neighbour of more states also counts once.

    Parameters
    ----------
    rows : Rows
        Rows without missing entries.
    energy : LogLinearEnergy
        Model whose nonzero edges are evaluated.
    n_jobs : int or None
        Number of threads over variables.

    Returns
    -------
    float
        Criterion in nats; smaller is better.

    References
    ----------
    R. Foygel Barber and M. Drton, "High-dimensional Ising model selection with Bayesian information
    criteria", Electronic Journal of Statistics 9 (2015).
    """
    edges = energy.form.edges[energy.strengths() > 0]
    form = LogLinearForm.build(rows.n_states, edges, energy.form.statistic, energy.form.unary)
    fits = fit_nodes(rows.X, rows.weights, form, n_jobs=n_jobs)
    return extended_bic(fits, len(edges), rows.count)
