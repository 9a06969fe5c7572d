"""Tests of grids of labels, conditional Gaussian distributions and mixtures."""

from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.covariance import LedoitWolf
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import LogisticRegression

from skmrf._data.sequences import read_examples
from skmrf.energies.structured_protocols import LabelPotentials
from skmrf.likelihood import label_graphs
from skmrf.variational import expectation_maximization, grids, mixture_selection
from skmrf.variational import label_graphs as propagation
from skmrf.variational.conditional_gaussians import (
    ConditionalGaussian,
    Shrinkage,
    add_conditional_gaussian,
    choose_columns,
    find_share,
    fit_log_linear,
    shrink_covariance,
    shrink_eigenvalues,
)
from skmrf.variational.expectation_maximization import (
    MixtureRows,
    Prior,
    fit_mixture,
    make_mixture,
    start_mixture,
)
from skmrf.variational.mixture_selection import MixtureSelection, learn_mixture
from skmrf.variational.quadrature import joint_log_densities


def random_grids(shape, rng, tables=None):
    """Return the graph of an image, and potentials with random nodes.

    By default, three labels attract each other differently in rows and in columns.
    """
    if tables is None:
        tables = np.stack([np.roll(np.eye(3), 1, axis=1), np.eye(3)])
    n_labels = tables.shape[-1]
    tables = np.broadcast_to(tables, (2, n_labels, n_labels)).copy()
    images = [rng.normal(size=(*shape, n_labels))]
    graphs = read_examples(SimpleNamespace(), images, graph="grid", reset=True).graphs
    return graphs, LabelPotentials(graphs.features.copy(), tables, None, n_labels)


@pytest.mark.parametrize("n_labels", [2, 3, 5])
def test_contracted_grids_are_exact(seed, n_labels):
    """Marginals and log Z are those of elimination, where belief propagation has large errors."""
    rng = np.random.default_rng(seed)
    graphs, potentials = random_grids((7, 12), rng, 0.3 * rng.normal(size=(2, n_labels, n_labels)))
    potentials.tables[:] += 1.5 * np.eye(n_labels)
    exact = label_graphs.sums(graphs, potentials, method="exact")
    found = propagation.sums(graphs, potentials, np.array([0.5]), shapes=[(7, 12)])
    loopy = propagation.sums(graphs, potentials)
    assert found.converged.all()
    assert found.tables is None
    assert_allclose(found.nodes, 0.5 * exact.nodes, atol=0.005)
    assert_allclose(found.log_z, exact.log_z, atol=1e-2)
    errors = [np.abs(x - exact.nodes).max() for x in (2.0 * found.nodes, loopy.nodes)]
    assert errors[0] < errors[1] / 10


@pytest.mark.parametrize("shape", [(2, 9), (5, 9), (9, 5), (2, 2), (1, 6), (6, 1), (1, 1)])
def test_contracted_grids_with_known_labels(shape, seed):
    """Grids with few rows or columns are contracted without loss."""
    rng = np.random.default_rng(seed)
    graphs, potentials = random_grids(shape, rng)
    labels = np.where(rng.random(graphs.n_nodes) < 0.2, rng.integers(3, size=graphs.n_nodes), -1)
    graphs = graphs.with_labels(labels)
    exact = label_graphs.sums(graphs, potentials, method="exact")
    found = propagation.sums(graphs, potentials, shapes=[shape], tol=1e-10)
    assert_allclose(found.nodes, exact.nodes, atol=1e-7)
    assert_allclose(found.log_z, exact.log_z, atol=1e-6)


def impossible_neighbours(rng):
    """Forbid equal labels of neighbours."""
    return random_grids((8, 9), rng, np.where(np.eye(3) > 0, -np.inf, 0.0))


def two_modes(rng):
    """Let nearly all nodes have the same label, which can be any of three."""
    graphs, potentials = random_grids((8, 9), rng, 2.5 * np.eye(3))
    return graphs, potentials._replace(nodes=0.02 * potentials.nodes)


def two_strong_modes(rng):
    """Let all nodes have the same label. The nodes alone prefer different labels."""
    graphs, potentials = random_grids((8, 9), rng, 8.0 * np.eye(3))
    return graphs, potentials._replace(nodes=potentials.nodes - potentials.nodes.mean(axis=0))


def contradicting_borders(rng):
    """Give label 0 to the first row and label 2 to the last; the border between is anywhere."""
    graphs, potentials = random_grids((8, 9), rng, 3.0 * np.eye(3))
    nodes = 0.01 * potentials.nodes
    nodes[:9, 0] += 40.0
    nodes[-9:, 2] += 40.0
    return graphs, potentials._replace(nodes=nodes)


def frustrated_signs(rng):
    """Let neighbours in a row attract each other, and neighbours in a column repel each other."""
    graphs, potentials = random_grids((8, 9), rng, 2.0 * np.stack([np.eye(3), -np.eye(3)]))
    return graphs, potentials._replace(nodes=0.1 * potentials.nodes)


def large_log_potentials(rng):
    graphs, potentials = random_grids((7, 9), rng, 20.0 * rng.normal(size=(2, 3, 3)))
    return graphs, potentials._replace(nodes=20.0 * potentials.nodes)


HARD = (
    impossible_neighbours, two_modes, two_strong_modes, contradicting_borders, frustrated_signs,
    large_log_potentials,
)  # fmt: skip


@pytest.mark.parametrize("draw", HARD)
def test_contracted_grids_of_hard_models(draw, seed):
    graphs, potentials = draw(np.random.default_rng(seed))
    shape = graphs.n_nodes // 9, 9
    exact = label_graphs.sums(graphs, potentials, method="exact")
    found = propagation.sums(graphs, potentials, shapes=[shape])
    assert_allclose(found.nodes, exact.nodes, atol=0.01)
    assert_allclose(found.log_z, exact.log_z, atol=0.02)


def test_contraction_that_fails(seed):
    """Sums that underflow are noticed, and belief propagation is used."""
    graphs, potentials = random_grids((7, 9), np.random.default_rng(seed), 200.0 * np.eye(3))
    potentials = potentials._replace(nodes=200.0 * potentials.nodes)
    with np.errstate(all="raise"):
        found = [propagation.sums(graphs, potentials, shapes=s) for s in (None, [(7, 9)])]
    assert_array_equal(found[0].nodes, found[1].nodes)
    assert_array_equal(found[0].log_z, found[1].log_z)
    assert_array_equal(found[0].converged, found[1].converged)


def test_truncation_of_grids_is_noticed(seed):
    """Log Z of neighbouring rows differs if the bond dimension is too small."""
    graphs, potentials = random_grids(
        (12, 13), np.random.default_rng(seed), np.log1p(3**0.5) * np.eye(3)
    )
    nodes = np.exp(0.001 * potentials.nodes).reshape(1, 12, 13, 3)
    messages = np.full((1, len(graphs.edges), 2, 3), 1 / 3)
    log_z = [grids.contract(nodes, np.exp(potentials.tables), messages, s)[0] for s in (2, 8)]
    assert [bool(grids.is_reliable(x, 0.005)[0]) for x in log_z] == [False, True]
    assert np.ptp(log_z[1]) < np.ptp(log_z[0]) / 20


def test_reliable_contractions():
    log_z = np.array(
        [[9, 9.004, 9.008], [9, 9, 9.006], [-np.inf] * 3, [9, 9, -np.inf], [np.nan, 9, 9]]
    )
    assert grids.is_reliable(log_z, 0.005).tolist() == [True, False, False, False, False]
    assert grids.is_reliable(log_z[:, :1], 0.005).tolist() == [True, True, False, True, False]


@pytest.mark.parametrize(("bonds", "used"), [((8, 16), [8]), ((2, 8), [2, 8]), ((1, 2), [1, 2])])
def test_bonds_are_increased_until_rows_agree(bonds, used, seed, monkeypatch):
    """Belief propagation is used if log Z of neighbouring rows differs with the largest bonds."""
    rng, sizes, contract = np.random.default_rng(seed), [], grids.contract
    graphs, potentials = random_grids((8, 13), rng, np.log1p(3**0.5) * np.eye(3))
    potentials = potentials._replace(nodes=0.1 * potentials.nodes)
    monkeypatch.setattr(grids, "BOND_DIMENSIONS", bonds)
    monkeypatch.setattr(grids, "contract", lambda *x: sizes.append(x[-1]) or contract(*x))
    found = propagation.sums(graphs, potentials, shapes=[(8, 13)])
    assert sizes == used
    if bonds == (1, 2):
        assert_array_equal(found.nodes, propagation.sums(graphs, potentials).nodes)
    else:
        exact = label_graphs.sums(graphs, potentials, method="exact")
        assert_allclose(found.nodes, exact.nodes, atol=1e-3)


def test_messages_reduce_the_errors_of_grids(seed, monkeypatch):
    """The errors are smaller than with messages that are the same for all labels."""
    graphs, potentials = random_grids((8, 20), np.random.default_rng(seed))
    potentials.tables[:] *= 1.5
    exact, errors = label_graphs.sums(graphs, potentials, method="exact"), []
    monkeypatch.setattr(grids, "BOND_DIMENSIONS", (4,))
    monkeypatch.setattr(grids, "LARGEST_STEP", np.inf)
    for smallest in (grids.SMALLEST_MESSAGE, 1.0):
        monkeypatch.setattr(grids, "SMALLEST_MESSAGE", smallest)
        found = propagation.sums(graphs, potentials, shapes=[(8, 20)])
        errors.append(np.abs(found.nodes - exact.nodes).mean())
    assert errors[0] < 0.8 * errors[1]


def test_marginals_that_underflow(seed, monkeypatch):
    """Belief propagation is used for grids that have finite log Z, but nan as a marginal."""
    graphs, potentials = random_grids((4, 5), np.random.default_rng(seed))
    contract = grids.contract

    def contract_in_part(*arrays):
        log_z, beliefs = contract(*arrays)
        beliefs[0, 1, 2] = np.nan
        return log_z, beliefs

    monkeypatch.setattr(grids, "contract", contract_in_part)
    found = propagation.sums(graphs, potentials, shapes=[(4, 5)])
    assert_array_equal(found.nodes, propagation.sums(graphs, potentials).nodes)


def test_contracted_grids_of_several_shapes(seed):
    """Each grid has the result that it has alone. The last one has a node without a label."""
    rng, shapes = np.random.default_rng(seed), [(9, 8), (8, 11), (9, 8), (10, 9)]
    images = [rng.normal(size=(*shape, 3)) for shape in shapes]
    graphs = read_examples(SimpleNamespace(), images, graph="grid", reset=True).graphs
    potentials = LabelPotentials(graphs.features.copy(), rng.normal(size=(2, 3, 3)), None, 3)
    potentials.nodes[-1] = -np.inf
    with np.errstate(all="raise"):
        found = propagation.sums(graphs, potentials, shapes=shapes)
    assert_array_equal(found.log_z == -np.inf, [False, False, False, True])
    for k, shape in enumerate(shapes[:3]):
        nodes = slice(*graphs.node_ptr[k : k + 2])
        part = potentials._replace(nodes=potentials.nodes[nodes].copy())
        single = propagation.sums(graphs[[k]], part, shapes=[shape])
        assert_allclose(found.nodes[nodes], single.nodes, atol=1e-9)
        assert_allclose(found.log_z[k], single.log_z[0], rtol=1e-9)


def test_blocks_of_grids_do_not_change_marginals(seed, monkeypatch):
    rng, shapes = np.random.default_rng(seed), [(9, 8)] * 3
    images = [rng.normal(size=(9, 8, 3)) for _ in shapes]
    graphs = read_examples(SimpleNamespace(), images, graph="grid", reset=True).graphs
    potentials = LabelPotentials(graphs.features.copy(), rng.normal(size=(2, 3, 3)), None, 3)
    found = []
    for n_bytes in (grids.BLOCK_BYTES, 1.0):
        monkeypatch.setattr(grids, "BLOCK_BYTES", n_bytes)
        found.append(propagation.sums(graphs, potentials, shapes=shapes).nodes)
    assert_allclose(*found, atol=1e-9)


def test_bond_dimensions():
    assert grids.bond_dimensions((100, 100), 3) == (8, 16)
    assert grids.bond_dimensions((100, 100), 7) == (4, 8)
    assert grids.bond_dimensions((100, 100), 12) == (4,)
    assert grids.bond_dimensions((100, 100), 13) == ()
    assert grids.bond_dimensions((1000, 1000), 3) == (4,)
    assert grids.bond_dimensions((10_000, 10_000), 2) == ()


# Conditional Gaussian distributions ------------------------------------------------------------


def linear_rows(seed, n_rows, n_numbers=5, missing=0.0):
    """Return rows in which each of three categories depends on a function of the numbers.

    The last category depends on nothing.
    """
    rng = np.random.default_rng(seed)
    numbers = rng.normal(size=(n_rows, n_numbers))
    slopes = 1.5 * np.random.default_rng(99).normal(size=(3, n_numbers, 3))
    noise = rng.gumbel(size=(3, n_rows, 3))
    states = np.append((numbers @ slopes + noise).argmax(axis=2), rng.integers(2, size=(1, n_rows)))
    X = np.column_stack([numbers, states.reshape(4, -1).T])
    X[rng.random(X.shape) < missing] = np.nan
    n_states = np.repeat([0, 3, 2], [n_numbers, 3, 1])
    return MixtureRows(X, n_states, np.ones(n_rows), np.zeros(n_numbers))


def test_log_odds_of_categories_are_linear(seed):
    """The log-odds have the coefficients of linear discriminant analysis."""
    rows = linear_rows(seed, 400)
    learner = ConditionalGaussian(rows, [0, 1])
    mixture = learner.fit(Shrinkage(log_linear=10.0, interaction=3.0))
    assert mixture.n_components == 9
    effects = np.linalg.solve(mixture.covariances[0], mixture.means.T)
    constants = mixture.log_weights - 0.5 * (effects * mixture.means.T).sum(axis=0)
    logits = rows.numbers @ effects + constants
    for state, other in ((0, 1), (2, 0)):
        given = np.flatnonzero(rows.X[:, 6] == 1)
        logs = [rows.X[given].copy(), rows.X[given].copy()]
        for X, value in zip(logs, (state, other), strict=True):
            X[:, 5], X[:, 7:] = value, np.nan
        found = mixture.log_density(logs[0]) - mixture.log_density(logs[1])
        expected = logits[given, 3 * state + 1] - logits[given, 3 * other + 1]
        assert_allclose(found, expected, atol=1e-8)


def test_configurations_of_two_columns_have_the_frequencies_of_the_rows(seed):
    """A model with all pairs of two columns has no restriction."""
    rows = linear_rows(seed, 300, 1)
    mixture = ConditionalGaussian(rows, [0, 1]).fit(Shrinkage(pair=1e-9))
    cells = rows.X[:, 1:3].astype(int) @ [3, 1]
    assert_allclose(np.exp(mixture.log_weights), np.bincount(cells, minlength=9) / 300, atol=1e-3)


def test_conditional_gaussians_sum_to_one(seed):
    rows = linear_rows(seed, 60, 1)
    mixture = ConditionalGaussian(rows, [2, 0]).fit(Shrinkage())
    numbers, states = np.linspace(-9.0, 9.0, 1001), np.indices((3, 3, 3, 2)).reshape(4, -1).T
    X = np.column_stack([np.repeat(numbers, 54), np.tile(states, (1001, 1))])
    densities = np.exp(mixture.log_density(X)).reshape(1001, 54)
    assert (densities > 0).all()
    assert densities.sum() * 0.018 == pytest.approx(1.0, abs=1e-6)
    X[:, 0] = np.nan
    sums = np.exp(mixture.log_density(X)).reshape(1001, 54)
    assert_allclose(sums, np.tile(densities.sum(axis=0) * 0.018, (1001, 1)), rtol=1e-5)
    marginal = replace(mixture, tables=np.maximum(mixture.tables, 1e-300))  # without zeros
    X[::2, 0], X[:, 2] = 0.5, np.nan
    assert_allclose(mixture.log_density(X[:999]), marginal.log_density(X[:999]), rtol=1e-9)


def test_log_linear_model(seed):
    """The model has the pair margins of the counts, and no interaction of three variables."""
    counts = np.random.default_rng(seed).gamma(2.0, 50.0, size=(2, 3, 2))
    found = fit_log_linear(counts, 1e-9)
    for axis in range(3):
        expected = counts.sum(axis=axis) / counts.sum()
        assert_allclose(found.sum(axis=axis), expected, rtol=0.02)
    ratios = np.diff(np.diff(np.log(found), axis=0), axis=2)
    assert_allclose(ratios, np.repeat(ratios[:, :1], 3, axis=1), atol=1e-8)
    independent = fit_log_linear(counts, 1e12)
    assert_allclose(independent[0] / independent[1], independent[0, 0, 0] / independent[1, 0, 0])


def test_columns_of_configurations(seed, monkeypatch):
    rows = linear_rows(seed, 600)
    assert sorted(choose_columns(rows)[:3]) == [0, 1, 2]
    monkeypatch.setattr("skmrf.variational.conditional_gaussians.MAX_CONFIGURATIONS", 9)
    assert len(choose_columns(rows)) == 2


def test_weights_of_conditional_gaussians(seed):
    """A weight of two has the effect of a repeated row."""
    rows = linear_rows(seed, 300)
    weights = np.where(np.arange(300) < 150, 2.0, 1.0)
    shrinkage = Shrinkage(interaction=3.0, log_linear=10.0)
    repeated = rows.take(np.repeat(np.arange(300), weights.astype(int)))
    weighted = replace(rows, weights=weights)
    found, expected = (ConditionalGaussian(r, [0, 1]).fit(shrinkage) for r in (weighted, repeated))
    for name in ("means", "covariances", "log_weights"):
        assert_allclose(getattr(found, name), getattr(expected, name), atol=1e-10)
    assert_allclose(found.tables, expected.tables, atol=1e-3)
    unweighted = ConditionalGaussian(rows, [0, 1]).fit(shrinkage)
    assert not np.allclose(found.means, unweighted.means, atol=1e-3)


def test_share_maximises_the_likelihood(seed):
    rng = np.random.default_rng(seed)
    differences, weights = rng.normal(size=200), rng.random(200)
    shares = np.linspace(0.001, 0.999, 999)
    logs = np.log1p(shares[:, None] * np.expm1(differences)) @ weights
    logs += 2.0 * np.log(shares * (1.0 - shares))
    assert find_share(differences, weights) == pytest.approx(shares[logs.argmax()], abs=0.01)


def test_share_of_similar_distributions(seed):
    """The likelihood is nearly flat, but its maximum is far from equal shares."""
    differences = 0.01 * (np.random.default_rng(seed).normal(size=5000) - 1.0)
    share = find_share(differences, np.ones(5000))
    slope = (np.expm1(differences) / (1.0 + share * np.expm1(differences))).sum()
    assert slope + 2.0 / share - 2.0 / (1.0 - share) == pytest.approx(0.0, abs=1e-3)


@pytest.mark.parametrize(("difference", "share"), [(800.0, 1.0), (-np.inf, 0.0), (np.nan, 0.5)])
def test_share_of_separated_distributions(difference, share, seed):
    weights = np.random.default_rng(seed).random(50)
    expected = (share * weights.sum() + 2.0) / (weights.sum() + 4.0)
    assert find_share(np.full(50, difference), weights) == pytest.approx(expected, abs=1e-9)


def test_log_linear_model_of_sparse_counts(seed):
    """All pair margins are exact, although most configurations have no rows."""
    rng = np.random.default_rng(seed)
    shares = rng.dirichlet(np.full(250, 0.05))
    counts = rng.multinomial(1000, shares).reshape(5, 5, 5, 2).astype(float)
    found = fit_log_linear(counts, 1.0)
    first = [counts.sum(axis=axis) + 0.5 for axis in ((1, 2, 3), (0, 2, 3))]
    independent = np.outer(*(s / s.sum() for s in first))
    expected = (counts.sum(axis=(2, 3)) + independent) / (counts.sum() + 1.0)
    assert_allclose(found.sum(axis=(2, 3)), expected, atol=1e-4)


@pytest.mark.parametrize("missing", [pytest.param(0.0, marks=pytest.mark.long), 0.15])
def test_categories_that_depend_on_linear_functions(missing, seed, monkeypatch):
    """New rows have a higher density, and predictions are those of a logistic regression."""
    train, new, given = linear_rows(seed, 300, 4, missing), linear_rows(seed + 500, 1000, 4), []

    def add(*args):
        given.append(args[0])
        return add_conditional_gaussian(*args)

    monkeypatch.setattr(mixture_selection, "add_conditional_gaussian", add)
    found = learn_mixture(train, "auto", np.random.default_rng(0))[0]
    gain = found.log_density(new.X) - given[0].log_density(new.X)
    assert gain.mean() > 0.1
    complete, X = linear_rows(seed, 300, 4), new.X.copy()
    X[:, 4] = np.nan
    predicted = (found.component_shares(X).T @ found.tables[:, 0, :]).argmax(axis=1)
    regression = LogisticRegression().fit(complete.numbers, complete.X[:, 4])
    accuracy = regression.score(new.numbers, new.X[:, 4])
    assert (predicted == new.X[:, 4]).mean() > accuracy - 0.05


@pytest.mark.parametrize("has_states", [True, False])
def test_tables_are_learned_once_if_only_numbers_are_missing(has_states, seed, monkeypatch):
    """The tables of configurations depend on the states, which the imputations do not change."""
    rows, calls, make = linear_rows(seed, 120, 3), [], ConditionalGaussian._make_tables
    rng, folds = np.random.default_rng(seed), [(np.arange(80), np.arange(80, 120))]
    start = learn_mixture(rows, 1, np.random.default_rng(0))[0]
    X = rows.X.copy()
    X[::10, 0] = np.nan
    X[::10, 3] = X[::10, 3] if has_states else np.nan
    monkeypatch.setattr(ConditionalGaussian, "_make_tables", lambda s: calls.append(s) or make(s))
    logs = start.log_density(rows.X[80:])
    found = add_conditional_gaussian(start, replace(rows, X=X), folds, logs, rng)
    assert np.isfinite(found.log_density(X)).all()
    assert len(calls) == (2 if has_states else 8)


def test_latent_classes_need_no_conditional_gaussian(seed):
    """Classes with different covariances are selected, and the added distribution is left out."""
    rng = np.random.default_rng(seed)
    kind = rng.integers(2, size=(600, 1))
    numbers = rng.normal(size=(600, 3)) * np.where(kind, [0.1, 1.0, 3.0], [1.0, 0.1, 3.0]) + kind
    states = np.where(rng.random((600, 1)) < 0.8, kind, rng.integers(3, size=(600, 1)))
    rows = MixtureRows(np.c_[numbers, states], np.array([0, 0, 0, 3]), np.ones(600), np.zeros(3))
    found = learn_mixture(rows, "auto", np.random.default_rng(0))[0]
    assert not (found.tables == 0).any()
    added = ConditionalGaussian(rows, [0]).fit(Shrinkage())
    assert (added.tables == 0).any()
    assert (found.log_density(rows.X) - added.log_density(rows.X)).mean() > 0.5


def class_rows(seed, n, d=8):
    """Return binary rows of two latent classes, and the class of each row."""
    rng = np.random.default_rng(seed)
    kind = (rng.random(n) < 0.2).astype(int)
    X = rng.random((n, d)) < 1.0 / (1.0 + np.exp(2.5 - 1.5 * kind))[:, None]
    return MixtureRows(X.astype(float), np.full(d, 2), np.ones(n), np.zeros(0)), kind


def test_latent_classes_of_binary_rows(seed):
    """The likelihood is that of expectation-maximisation from the true classes."""
    for k in range(4):
        rows, kind = class_rows(4 * seed + k, 1000)
        moments = np.zeros((2, 0)), np.zeros((2, 0, 0))
        resp, prior = np.eye(2)[:, kind], Prior(2.0, 0.0)
        counts = resp.sum(axis=1)
        start = make_mixture(rows, rows.indicators(), resp, counts, *moments, prior)
        expected = fit_mixture(rows, start, prior, 500, 1e-7)[1][-1]
        found, _, converged = learn_mixture(rows, 2, np.random.default_rng(seed))
        assert converged
        assert found.log_density(rows.X).mean() > expected - 0.003


def test_distinct_rows_have_the_same_mixture(seed):
    """Distinct rows with weights have the same scores and mixture as all rows."""
    rows, prior = class_rows(seed, 400, 4)[0], Prior(2.0, 0.0)
    rows.X[np.random.default_rng(seed).random(rows.X.shape) < 0.1] = np.nan
    start = start_mixture(rows, 3, prior, np.random.default_rng(seed))
    merged = rows.merge()
    assert len(merged.X) <= 3**4
    (mixture, scores), (other, expected) = (
        fit_mixture(given, start, prior, 10, -np.inf) for given in (merged, rows)
    )
    assert_allclose(scores, expected)
    assert_allclose(mixture.tables, other.tables)
    logs = joint_log_densities(mixture, rows, rows.patterns)[0]
    assert_allclose(joint_log_densities(mixture, rows, rows.patterns, rows.indicators())[0], logs)


def test_blocks_of_rows_do_not_change_a_mixture(seed, monkeypatch):
    rng, prior = np.random.default_rng(seed), Prior(2.0, 0.1)
    X = np.c_[rng.normal(size=(300, 4)), rng.integers(3, size=(300, 2))]
    X[rng.random(X.shape) < 0.2] = np.nan
    rows = MixtureRows(X, np.array([0] * 4 + [3] * 2), rng.random(300), np.zeros(4))
    start = start_mixture(rows, 3, prior, rng)
    mixture, scores = fit_mixture(rows, start, prior, 10, -np.inf)
    monkeypatch.setattr(expectation_maximization, "MAX_BLOCK", 200)
    assert len(rows.blocks(3)) == 18
    other, expected = fit_mixture(rows, start, prior, 10, -np.inf)
    assert_allclose(scores, expected)
    assert_allclose(mixture.covariances, other.covariances)
    assert_allclose(mixture.tables, other.tables)


def test_warnings_of_mixtures(seed, monkeypatch):
    rows = class_rows(seed, 10)[0]
    with pytest.warns(UserWarning, match="of the n_components=500 classes"):
        assert learn_mixture(rows, 500, np.random.default_rng(0))[2]
    monkeypatch.setattr(mixture_selection, "MAX_ITERATIONS", 1)
    with pytest.warns(ConvergenceWarning, match="did not converge in 1 iterations"):
        assert not learn_mixture(class_rows(seed, 500)[0], 2, np.random.default_rng(0))[2]


def test_many_missing_patterns_give_both_distributions_the_same_rows(seed, monkeypatch):
    """Held-out log-densities of both distributions are those of the observed entries."""
    rng, given = np.random.default_rng(seed), []
    kind = rng.integers(3, size=300)
    numbers = rng.normal(size=(300, 9)) * np.array([0.3, 1.0, 2.0])[kind][:, None] + kind[:, None]
    X = np.c_[numbers, rng.integers(2, size=300)]
    X[:, :9][rng.random((300, 9)) < 0.3] = np.nan

    def add(mixture, *others):
        given.append(others)
        return mixture

    monkeypatch.setattr(mixture_selection, "add_conditional_gaussian", add)
    rows = MixtureRows(X, np.array([0] * 9 + [2]), np.ones(300), np.zeros(9))
    mixture = learn_mixture(rows, "auto", np.random.default_rng(0))[0]
    (used, folds, logs, _), *_ = given
    own = np.concatenate([mixture.log_density(used.X[out]) for _, out in folds])
    assert used is rows
    assert len(own) == len(logs)
    assert abs(own.mean() - logs.mean()) < 1.0


# Tables with few rows ---------------------------------------------------------------------


def test_eigenvalues_are_shrunk_before_the_average_with_the_diagonal(seed):
    sample = np.cov(np.random.default_rng(seed).normal(size=(14, 12)).T, bias=True)
    diagonal = np.diag(np.diag(sample))
    assert_allclose(shrink_covariance(sample, 13, 1.0), diagonal)
    expected = 0.7 * shrink_eigenvalues(sample, 13) + 0.3 * diagonal
    assert_allclose(shrink_covariance(sample, 13, 0.3), expected)


@pytest.mark.parametrize(("n", "expected"), [(14, False), (36, True)])
def test_eigenvalues_are_only_shrunk_if_folds_have_more_rows_than_numbers(n, expected, seed):
    rng = np.random.default_rng(seed)
    rows = MixtureRows(rng.normal(size=(n, 12)), np.zeros(12, dtype=int), np.ones(n), np.zeros(12))
    prior = MixtureSelection(rows, rng).select(1)[1]
    assert prior.shrinks_eigenvalues == expected


def nested_scores(kind, p, n_rows, seed):
    """Return the mean log-densities of new rows, for the first rows of a table.

    The second result is that of the covariance of Ledoit and Wolf of standardised numbers.
    """
    rng, places = np.random.default_rng([seed, p]), np.arange(p)
    loadings = rng.normal(size=(p, 2))
    covariance = {
        "independent": np.eye(p),
        "factors": loadings @ loadings.T + np.eye(p),
        "chain": 0.8 ** np.abs(places[:, None] - places),
    }[kind]
    X = rng.normal(size=(max(n_rows) + 1000, p)) @ np.linalg.cholesky(covariance).T
    found, peers = [], []
    for n in n_rows:
        rows = MixtureRows(X[:n], np.zeros(p, dtype=int), np.ones(n), np.zeros(p))
        mixture = learn_mixture(rows, "auto", np.random.default_rng(seed))[0]
        found.append(mixture.log_density(X[-1000:]).mean())
        scale = X[:n].std(axis=0)
        score = LedoitWolf().fit(X[:n] / scale).score(X[-1000:] / scale)
        peers.append(score - np.log(scale).sum())
    return found, peers


@pytest.mark.parametrize(
    ("kind", "p", "n_tables"),
    [
        pytest.param("factors", 12, 4, marks=pytest.mark.long),
        pytest.param("chain", 12, 4, marks=pytest.mark.slow),
        pytest.param("independent", 20, 4, marks=pytest.mark.long),
        pytest.param("chain", 6, 10, marks=pytest.mark.slow),
    ],
)
def test_more_rows_do_not_hurt(kind, p, n_tables, seed):
    """The score of new rows increases with the rows, also at the number of columns and twice it.

    The mean difference of the tables may be negative by four standard errors. The mean score is at
    most 0.06 nats a column below that of the covariance of Ledoit and Wolf.
    """
    n_rows = [p, p + p // 6, 2 * p, 2 * p + 1]
    seeds = range(n_tables * seed, n_tables * (seed + 1))
    tables = [nested_scores(kind, p, n_rows, k) for k in seeds]
    scores, peers = np.array(tables).transpose(1, 0, 2)
    gains = np.diff(scores, axis=1)
    assert (gains.mean(axis=0) > -4.0 * gains.std(axis=0, ddof=1) / np.sqrt(len(gains))).all()
    assert (scores.mean(axis=0) > peers.mean(axis=0) - 0.06 * p).all()
