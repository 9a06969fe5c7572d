"""Tests of the learners and of the inference of conditional random fields, by enumeration."""

import itertools
from types import SimpleNamespace

import numpy as np
import pytest
from estimator_models import sequences
from numpy.testing import assert_allclose
from scipy import sparse
from scipy.optimize import minimize
from scipy.special import logsumexp

from skmrf import CRF, RBM
from skmrf._data.sequences import read_examples
from skmrf._utils.label_graphs import LabelGraphs
from skmrf._utils.phases import GraphMoments
from skmrf._utils.rows import Batch
from skmrf.energies.crf import CRFEnergy, without_labels
from skmrf.energies.structured_protocols import LabelPotentials
from skmrf.exact import label_trees
from skmrf.learners import SSVM, CRFPropagation, GraphLearner, Perceptron, register
from skmrf.learners.crf import CRFLikelihood, CRFPseudoLikelihood
from skmrf.learners.frank_wolfe import BlockFrankWolfe, ChainFrankWolfe
from skmrf.learners.registry import FAMILIES
from skmrf.likelihood import label_graphs
from skmrf.training import loop
from skmrf.training.penalties import L2
from skmrf.training.settings import Settings
from skmrf.variational import label_graphs as propagation

CHAINS = "chain", "second-order chain"
GRAPHS = (*CHAINS, "tree", "given")
N_FEATURES = 2


def random_energy(graph, n_labels, rng, scale=1.0, share_of_zeros=0.0):
    """Return an energy with random weights; some transitions of chains are impossible."""
    n_edge_features = 1 if graph in CHAINS else 2
    energy = CRFEnergy.zeros(N_FEATURES, n_labels, n_edge_features, graph=graph)
    theta = {k: scale * rng.normal(size=v.shape) for k, v in energy.theta.items()}
    if graph in CHAINS:
        theta["transition"][rng.random(theta["transition"].shape) < share_of_zeros] = -np.inf
    return energy.with_theta(theta)


def random_graphs(graph, n_labels, rng, n_examples=2, most_nodes=4, missing=0.3):
    """Return random examples: chains, trees, or graphs with cycles and parallel edges."""
    sizes = rng.integers(1, most_nodes + 1, size=n_examples)
    n = sizes.sum()
    labels = np.where(rng.random(n) < missing, -1, rng.integers(n_labels, size=n))
    chains = LabelGraphs.chains(rng.normal(size=(n, N_FEATURES)), sizes, labels)
    if graph in CHAINS:
        return chains
    edges, edge_ptr = [], [0]
    for start, size in zip(chains.node_ptr, sizes, strict=False):
        if graph == "tree":
            pairs = [(rng.integers(j), j) for j in range(1, size) if rng.random() < 0.8]
            pairs = [p if rng.random() < 0.5 else p[::-1] for p in pairs]
        else:
            pairs = [p for p in itertools.permutations(range(size), 2) if rng.random() < 0.4]
        edges += [(start + i, start + j) for i, j in pairs]
        edge_ptr.append(len(edges))
    return LabelGraphs(
        chains.features, chains.node_ptr, labels, np.array(edges, dtype=np.int64).reshape(-1, 2),
        np.array(edge_ptr), rng.integers(4, size=len(edges)), rng.normal(size=(4, 2)),
    )  # fmt: skip


def enumerate_labels(energy, graphs, example):
    """Return all labellings of an example that agree with its labels, and their log-potentials."""
    one = graphs[[example]]
    states = itertools.product(range(energy.n_labels), repeat=one.n_nodes)
    rows = np.array(list(states))
    rows = rows[((rows == one.labels) | (one.labels < 0)).all(axis=1)]
    copies = one[np.zeros(len(rows), dtype=int)].with_labels(rows.ravel())
    return rows, energy.log_potential(copies)


def check_example(energy, graphs, example, found):
    """Compare log Z, marginals, maximum and best labellings of an example with enumeration."""
    rows, values = enumerate_labels(energy, graphs, example)
    sums, (states, scores), (best, best_scores) = found
    log_z, q = logsumexp(values), energy.n_labels
    assert_allclose(sums.log_z[example], log_z, rtol=1e-9, atol=1e-9)
    if log_z == -np.inf:
        return
    nodes = slice(*graphs.node_ptr[example : example + 2])
    marginals = np.zeros(rows.shape + (q,))
    np.put_along_axis(marginals, rows[..., None], np.exp(values - log_z)[:, None, None], axis=2)
    n = rows.shape[1]
    assert_allclose(
        sums.nodes[nodes].reshape(n, -1, q).sum(axis=1), marginals.sum(axis=0), atol=1e-9
    )
    expected = np.sort(values[values > -np.inf])[::-1][:4]
    assert_allclose(best_scores[example], expected, rtol=1e-9, atol=1e-9)
    assert_allclose(scores[example], expected[0], rtol=1e-9, atol=1e-9)
    labellings = np.vstack([best[example], states[nodes]]) % q
    copies = graphs[np.full(len(labellings), example)].with_labels(labellings.ravel())
    assert_allclose(energy.log_potential(copies), [*expected, expected[0]], rtol=1e-9, atol=1e-9)
    assert len({tuple(labels) for labels in labellings[:-1].tolist()}) == len(expected)


@pytest.mark.parametrize("graph", GRAPHS)
def test_inference_equals_enumeration(graph, seed):
    """125 random examples of each kind, with evidence, zeros and large log-potentials."""
    rng = np.random.default_rng(seed)
    for trial in range(25):
        n_labels, scale = int(rng.integers(1, 4)), (1.0, 5.0, 400.0)[trial % 3]
        if graph in ("tree", "given"):
            scale = min(scale, 5.0)
        energy = random_energy(graph, n_labels, rng, scale, 0.2 * (trial % 5 == 0))
        graphs = random_graphs(graph, n_labels, rng, n_examples=5)
        potentials = energy.potentials(graphs)
        sums = label_graphs.sums(graphs, potentials)
        found = (
            sums,
            label_graphs.maxima(graphs, potentials),
            label_graphs.best(graphs, potentials, 4),
        )
        for example in range(len(graphs)):
            check_example(energy, graphs, example, found)


def sum_in_groups_and_singly(graphs, potentials, weights, monkeypatch):
    """Return the sums of chains in groups and of single chains, and the numbers of the latter."""
    kernel, found, single = label_trees.label_trees.tree_sums, [], []

    def count_single(*arguments):
        single[-1] += np.isnan(arguments[12]).sum()
        kernel(*arguments)

    monkeypatch.setattr(label_trees.label_trees, "tree_sums", count_single)
    for share in (label_trees.MIN_SHARE, np.inf):
        monkeypatch.setattr(label_trees, "MIN_SHARE", share)
        graphs.cache.clear()
        single.append(0)
        found.append(label_trees.sums(graphs, potentials, weights))
    return found, single


@pytest.mark.parametrize(("n_labels", "zeros"), [(2, 0.1), (2, 0.0), (3, 0.1), (4, 0.0), (5, 0.1)])
@pytest.mark.parametrize("graph", CHAINS)
def test_groups_of_chains_equal_single_chains(graph, n_labels, zeros, seed, monkeypatch):
    """150 chains of unequal lengths, with evidence, zeros and sums that underflow."""
    rng = np.random.default_rng(seed)
    energy = random_energy(graph, n_labels, rng, 2.0, zeros)
    graphs = random_graphs(graph, n_labels, rng, n_examples=150, most_nodes=9)
    potentials, weights = energy.potentials(graphs), rng.random(150)
    nodes = potentials.nodes.copy()
    far = rng.random(len(nodes)) < 0.05
    nodes[far] += 700.0 * rng.normal(size=nodes[far].shape)
    potentials = potentials._replace(nodes=nodes)
    found, single = sum_in_groups_and_singly(graphs, potentials, weights, monkeypatch)
    assert single[0] < single[1] == 150
    for name in ("log_z", "nodes", "tables"):
        assert_allclose(*(getattr(sums, name) for sums in found), rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("shift", [0.0, 30.0])
def test_sums_of_long_groups_of_chains_are_normalised(shift, seed, monkeypatch):
    """Without normalisation, the sums of 300 positions would overflow or underflow."""
    rng = np.random.default_rng(seed)
    lengths = rng.integers(300, 401, size=32)
    graphs = LabelGraphs.chains(np.ones((lengths.sum(), 1)), lengths)
    tables = np.full((1, 11, 11), -shift) + shift * np.eye(11) + 0.01 * rng.normal(size=(11, 11))
    nodes = 0.01 * rng.normal(size=(graphs.n_nodes, 11))
    nodes[np.arange(graphs.n_nodes), np.arange(graphs.n_nodes) % 11] += shift
    potentials = LabelPotentials(nodes, tables, None, 11)
    found, single = sum_in_groups_and_singly(graphs, potentials, rng.random(32), monkeypatch)
    assert single == [0, 32]
    for name in ("log_z", "nodes", "tables"):
        assert_allclose(*(getattr(sums, name) for sums in found), rtol=1e-9, atol=1e-12)


def test_groups_of_chains_equal_enumeration(seed):
    """Chains that are computed 16 at a time; 40 of them are compared with enumeration."""
    rng = np.random.default_rng(seed)
    energy = random_energy("chain", 3, rng, 1.0, 0.1)
    graphs = random_graphs("chain", 3, rng, n_examples=40)
    potentials = energy.potentials(graphs)
    found = [f(graphs, potentials) for f in (label_graphs.sums, label_graphs.maxima)]
    for example in range(40):
        check_example(energy, graphs, example, (*found, label_graphs.best(graphs, potentials, 4)))


def test_wrong_marginals_are_found(seed):
    """Negative control of the comparison with enumeration."""
    rng = np.random.default_rng(seed)
    energy, graphs = random_energy("chain", 3, rng), random_graphs("chain", 3, rng, missing=1.0)
    potentials = energy.potentials(graphs)
    wrong = potentials._replace(tables=potentials.tables.transpose(0, 2, 1) + 0.3 * np.eye(3))
    found = [f(graphs, wrong) for f in (label_graphs.sums, label_graphs.maxima)]
    graphs.node_ptr[-1] - graphs.node_ptr[-2] > 1 or pytest.skip("a single node")
    with pytest.raises(AssertionError):
        check_example(energy, graphs, 1, (*found, label_graphs.best(graphs, wrong, 4)))


@pytest.mark.parametrize("graph", GRAPHS)
def test_draws_have_joint_distribution(graph, seed):
    rng = np.random.default_rng(seed)
    energy = random_energy(graph, 2, rng)
    graphs = random_graphs(graph, 2, rng, n_examples=1, most_nodes=3)
    n_draws = 2000
    many = graphs[np.zeros(n_draws, dtype=int)]
    drawn = label_graphs.draws(many, energy.potentials(many), rng) % 2
    rows, values = enumerate_labels(energy, graphs, 0)
    p = np.exp(values - logsumexp(values))
    codes = 2 ** np.arange(rows.shape[1])
    counts = np.bincount(drawn.reshape(n_draws, -1) @ codes, minlength=2 ** rows.shape[1])
    assert (
        np.abs(counts[rows @ codes] / n_draws - p) <= 5 * np.sqrt(p * (1 - p) / n_draws) + 1e-3
    ).all()
    assert counts.sum() == counts[rows @ codes].sum()


def test_long_chain_is_exact():
    """A chain of 100,000 positions, whose log Z is known: all labels are independent."""
    n = 100_000
    graphs = LabelGraphs.chains(np.ones((n, 1)), [n])
    energy = CRFEnergy.zeros(1, 3, graph="chain")
    energy = energy.with_theta(energy.theta | {"intercept": np.log([0.2, 0.3, 0.5])})
    sums = label_graphs.sums(graphs, energy.potentials(graphs))
    assert_allclose(sums.log_z, 0.0, atol=1e-6)
    assert_allclose(sums.nodes[[0, n // 2, -1]], [[0.2, 0.3, 0.5]] * 3, rtol=1e-9)


@pytest.mark.parametrize("n", [1, 32])
def test_underflow_falls_back_to_logs(n):
    """The only possible state has a relative probability below the smallest float."""
    graphs = LabelGraphs.chains(np.tile(np.eye(8), (n, 1)), [8] * n)
    energy = CRFEnergy.zeros(8, 2, graph="chain")
    coef, transition = np.zeros((8, 2)), np.full((1, 2, 2), -np.inf)
    coef[:7, 1], transition[0, 0, 0], transition[0, 1, 1] = 290.0, 0.0, 0.0
    energy = energy.with_theta(energy.theta | {"coef": coef, "transition": transition})
    graphs = graphs.with_labels(np.array(([-1] * 7 + [0]) * n))
    sums = label_trees.sums(graphs, energy.potentials(graphs))
    assert_allclose(sums.log_z, 0.0, atol=1e-9)
    assert_allclose(sums.nodes[:, 0], 1.0)


def test_propagation_is_exact_on_trees(seed):
    rng = np.random.default_rng(seed)
    energy, graphs = random_energy("tree", 3, rng), random_graphs("tree", 3, rng, n_examples=6)
    weights, potentials = rng.random(6), energy.potentials(graphs)
    exact = label_trees.sums(graphs, potentials, weights)
    found = propagation.sums(graphs, potentials, weights, tol=1e-10)
    assert found.converged.all()
    for name in ("log_z", "nodes", "tables"):
        assert_allclose(getattr(found, name), getattr(exact, name), atol=1e-7)


def test_propagation_is_close_to_exact_on_narrow_grids(seed):
    """Marginals differ by less than 0.02, and those of single pixels by more."""
    rng = np.random.default_rng(seed)
    images = [rng.normal(size=(3, 9, N_FEATURES)) for _ in range(5)]
    graphs = read_examples(SimpleNamespace(), images, graph="grid", reset=True).graphs
    potentials = random_energy("grid", 3, rng, scale=0.6).potentials(graphs)
    exact = label_graphs.sums(graphs, potentials, method="exact")
    found = label_graphs.sums(graphs, potentials, method="bp")
    assert found.converged.all()
    assert_allclose(found.nodes, exact.nodes, atol=0.02)
    single = np.exp(potentials.nodes - logsumexp(potentials.nodes, axis=1, keepdims=True))
    assert np.abs(single - exact.nodes).max() > 0.1


def propagate_in_parallel(potentials, graphs, n_iter=500):
    """Return marginals of nodes by belief propagation that updates all messages at once."""
    nodes, edges = np.exp(potentials.nodes), graphs.edges.tolist()
    messages = {(e, side): np.full(3, 1 / 3) for e in range(len(edges)) for side in range(2)}
    for _ in range(n_iter + 1):
        beliefs = nodes.copy()
        for (e, side), message in messages.items():
            beliefs[edges[e][side]] *= message
        new = {}
        for e, side in messages:
            table = np.exp(potentials.tables[graphs.edge_types[e]])
            cavity = beliefs[edges[e][1 - side]] / messages[e, 1 - side]
            new[e, side] = (table if side == 0 else table.T) @ cavity
            new[e, side] /= new[e, side].sum()
        messages = {k: np.sqrt(messages[k] * new[k]) for k in new}  # damped
        messages = {k: v / v.sum() for k, v in messages.items()}
    return beliefs / beliefs.sum(axis=1, keepdims=True)


@pytest.mark.parametrize("kind", ["Potts", "directional"])
def test_propagation_has_the_fixed_point_of_a_second_implementation(kind, seed):
    """The error of strong couplings is that of belief propagation, not that of the kernels."""
    rng = np.random.default_rng(seed)
    images = [rng.normal(size=(4, 5, N_FEATURES))]
    graphs = read_examples(SimpleNamespace(), images, graph="grid", reset=True).graphs
    energy = random_energy("grid", 3, rng)
    same = 1.1 * np.eye(3)
    tables = np.stack([same if kind == "Potts" else 1.5 * np.roll(np.eye(3), 1, axis=1), same])
    energy = energy.with_theta(energy.theta | {"transition": tables})
    potentials = energy.potentials(graphs)
    found = propagation.sums(graphs, potentials, tol=1e-10, max_iter=1000)
    assert found.converged.all()
    assert_allclose(found.nodes, propagate_in_parallel(potentials, graphs), atol=1e-6)
    exact = label_graphs.sums(graphs, potentials, method="exact")
    assert np.abs(found.nodes - exact.nodes).max() > 1e-5


# Gradients ------------------------------------------------------------------------------


class SmoothedPseudoLikelihood(GraphLearner):
    """Pseudo-likelihood of known labels, some of which are wrong with a given probability."""

    deterministic = True

    def __init__(self, smoothing=0.1):
        self.smoothing = smoothing

    def objective(self, energy, batch, state):
        """Return the expected pseudo-log-likelihood of an example, and its gradient."""
        graphs, weights = batch.X, state.node_weights[:, None]
        scores = energy.conditional_scores(graphs)
        log_p = scores - logsumexp(scores, axis=1, keepdims=True)
        targets = np.full(log_p.shape, self.smoothing / log_p.shape[1])
        targets[np.arange(len(targets)), graphs.labels] += 1.0 - self.smoothing
        value = float((weights * targets * log_p).sum())
        residuals = weights * (targets - np.exp(log_p))
        return value, energy.conditional_statistics(residuals, graphs)


def numeric_gradient(function, energy, step=1e-5):
    """Return the gradient of a function of an energy, by central differences."""
    out = {}
    for name, array in energy.theta.items():
        out[name] = np.zeros(array.shape)
        for j in np.ndindex(array.shape):
            ends = []
            for sign in (1, -1):
                moved = array.copy()
                moved[j] += sign * step
                ends.append(function(energy.with_theta(energy.theta | {name: moved})))
            out[name][j] = (ends[0] - ends[1]) / (2 * step)
    return out


@pytest.mark.parametrize("graph", GRAPHS)
@pytest.mark.parametrize(
    ("learner", "missing"),
    [
        (CRFLikelihood(), 0.0),
        (CRFLikelihood(), 0.4),
        (CRFPseudoLikelihood(), 0.0),
        (CRFPropagation(tol=1e-12, max_iter=1000), 0.0),
        (Perceptron(), 0.0),
        (SSVM(), 0.0),
        (SmoothedPseudoLikelihood(), 0.0),
    ],
    ids=["exact", "exact-missing", "pseudo-likelihood", "bp", "perceptron", "ssvm", "own"],
)
def test_gradients_equal_finite_differences(graph, learner, missing, seed):
    rng = np.random.default_rng(seed)
    energy = random_energy(graph, 2, rng, scale=0.5)
    graphs = random_graphs(graph, 2, rng, n_examples=3, missing=missing)
    batch = Batch(graphs, None, rng.normal(size=3))
    state = learner.init(energy, batch, rng)

    def value(other):
        if learner.deterministic:
            return learner.objective(other, batch, state)[0]
        return -learner.step(other, batch, state, rng)[3]["loss"]

    if learner.deterministic:
        gradient = learner.objective(energy, batch, state)[1]
    else:
        positive, negative, *_ = learner.step(energy, batch, state, rng)
        gradient = energy.gradient(positive, negative, batch)
    expected = numeric_gradient(value, energy)
    for name, array in expected.items():
        assert_allclose(gradient[name], array, atol=1e-6, err_msg=name)


def test_own_learner_by_instance_and_by_name():
    """Check that CRF takes a learner of another author, and that other estimators refuse it."""
    X, y = sequences()
    own = CRF(learner=SmoothedPseudoLikelihood(), alpha=0.01).fit(X, y)
    register("smoothed", SmoothedPseudoLikelihood)
    try:
        named = CRF(learner="smoothed", alpha=0.01).fit(X, y)
    finally:
        del FAMILIES["crf"]["smoothed"]
    assert named.score(X, y) == own.score(X, y) > 0.95
    plain = CRF(learner="pseudo-likelihood", alpha=0.01).fit(X, y)
    assert own.predict_marginals(X)[0].max() < plain.predict_marginals(X)[0].max()
    with pytest.raises(ValueError, match=r"^RBM cannot take the learner SmoothedPseudo"):
        RBM(learner=SmoothedPseudoLikelihood()).fit(np.zeros((3, 2)))


@pytest.mark.parametrize("graph", GRAPHS)
def test_pseudo_likelihood_equals_enumeration(graph, seed):
    rng = np.random.default_rng(seed)
    energy, graphs = random_energy(graph, 3, rng), random_graphs(graph, 3, rng, missing=0.0)
    total = 0.0
    for node in range(graphs.n_nodes):
        labels = np.tile(graphs.labels, (3, 1))
        labels[:, node] = range(3)
        values = [
            energy.log_potential(graphs.with_labels(row))[graphs.example_of_node[node]]
            for row in labels
        ]
        total += values[graphs.labels[node]] - logsumexp(values)
    found, _ = CRFPseudoLikelihood().objective(energy, Batch(graphs), None)
    assert_allclose(found, total / len(graphs))


def test_pairs_of_features_and_labels_give_same_gradient(seed):
    """Sparse features, with a weight for each pair of a feature and a label or for some pairs."""
    rng = np.random.default_rng(seed)
    graphs = random_graphs("chain", 3, rng, n_examples=4, missing=0.0)
    X = rng.normal(size=(graphs.n_nodes, 5)) * (rng.random((graphs.n_nodes, 5)) < 0.5)
    dense = LabelGraphs.chains(X, graphs.sizes, graphs.labels)
    rows = LabelGraphs.chains(sparse.csr_matrix(X), graphs.sizes, graphs.labels)
    energy = CRFEnergy.zeros(5, 3, graph="chain")
    energy = energy.with_theta({k: rng.normal(size=v.shape) for k, v in energy.theta.items()})
    pairs = np.arange(0, 16, 3), np.tile(np.arange(3), 5)
    flat = CRFEnergy(energy.theta | {"coef": energy.theta["coef"].ravel()}, pairs)
    found = []
    for model, examples in ((energy, dense), (energy, rows), (flat, rows)):
        batch, learner = Batch(examples), CRFLikelihood()
        found.append(learner.objective(model, batch, learner.init(model, batch, rng)))
    for value, gradient in found[1:]:
        assert_allclose(value, found[0][0])
        for name, array in gradient.items():
            assert_allclose(array.ravel(), found[0][1][name].ravel(), atol=1e-12)


def test_subsets_of_examples(seed):
    """Indexing keeps the features, labels and edges of the chosen examples."""
    rng = np.random.default_rng(seed)
    energy, graphs = random_energy("given", 2, rng), random_graphs("given", 2, rng, n_examples=6)
    log_z = label_graphs.sums(graphs, energy.potentials(graphs)).log_z
    which = rng.integers(6, size=4)
    part = graphs[which]
    assert_allclose(label_graphs.sums(part, energy.potentials(part)).log_z, log_z[which])
    assert without_labels(part).labels.max() == -1


# Frank-Wolfe ----------------------------------------------------------------------------


def primal_objective(learner, energy, batch, alpha):
    """Return the mean hinge loss plus the penalty of all parameters."""
    loss = -learner.objective(energy, batch, learner.init(energy, batch, None))[0]
    return loss + 0.5 * alpha * sum((v**2).sum() for v in energy.theta.values())


def solve_by_quadratic_program(energy, graphs, weights, alpha):
    """Return the smallest primal objective, with one constraint for each labelling."""
    names, sizes = list(energy.theta), [v.size for v in energy.theta.values()]

    def features(one):
        """Return the statistics of labelled examples, one row each."""
        rows = []
        for k in range(len(one)):
            part = one[[k]]
            known = np.eye(energy.n_labels)[part.labels]
            tables = energy.count_edges(part, part.labels, np.ones(1))
            found = energy.statistics(GraphMoments(known, tables), part)
            rows.append(np.concatenate([found[name].ravel() for name in names]))
        return np.array(rows)

    margins, losses, examples = [], [], []
    for k in range(len(graphs)):
        free = without_labels(graphs[[k]])
        rows = np.array(list(itertools.product(range(energy.n_labels), repeat=free.n_nodes)))
        copies = free[np.zeros(len(rows), dtype=int)].with_labels(rows.ravel())
        margins.append(features(graphs[[k]]) - features(copies))
        losses.append((rows != graphs[[k]].labels).sum(axis=1))
        examples += [k] * len(rows)
    margins, losses, n = np.concatenate(margins), np.concatenate(losses), sum(sizes)
    slacks = np.eye(len(graphs))[examples]
    constraint = {
        "type": "ineq",
        "fun": lambda z: margins @ z[:n] + slacks @ z[n:] - losses,
        "jac": lambda _: np.hstack([margins, slacks]),
    }
    start = np.concatenate([np.zeros(n), [losses.max()] * len(graphs)])
    found = minimize(
        lambda z: 0.5 * alpha * z[:n] @ z[:n] + weights @ z[n:],
        start,
        jac=lambda z: np.concatenate([alpha * z[:n], weights]),
        constraints=[constraint],
        method="SLSQP",
        options={"maxiter": 500, "ftol": 1e-12},
    )
    assert found.success
    return found.fun


@pytest.mark.parametrize("graph", ["chain", "given"])
def test_frank_wolfe_equals_quadratic_program(graph, seed):
    """The gap bounds the distance from the optimum, and the gap converges to zero."""
    rng, alpha = np.random.default_rng(seed), 0.3
    energy = random_energy(graph, 2, rng)
    graphs = random_graphs(graph, 2, rng, n_examples=4, missing=0.0)
    weights = rng.dirichlet(np.ones(4))
    batch, learner = Batch(graphs, None, np.log(weights)), SSVM()
    best = solve_by_quadratic_program(energy, graphs, weights, alpha)
    penalty = L2(alpha, energy.penalty_groups())
    settings = Settings(optimizer=None, penalty=penalty, tol=5e-6)
    state = loop.start(energy, learner, batch, settings, rng)
    state = loop.run(learner, batch, settings, state)
    primal, gaps = (np.array(state.history.columns[k]) for k in ("objective", "duality_gap"))
    assert_allclose(-primal[-1], primal_objective(learner, state.energy, batch, alpha), rtol=1e-9)
    assert (gaps >= 0).all()
    assert (-primal - gaps <= best + 1e-7).all()
    assert (-primal >= best - 1e-7).all()
    assert state.converged
    assert gaps[-1] < 0.003 * gaps[0] + 0.01


@pytest.mark.parametrize("kind", ["dense", "sparse", "pairs"])
def test_frank_wolfe_steps_increase_the_dual(kind, seed):
    """Sparse features give the same steps as dense ones, with weights for some pairs too."""
    rng = np.random.default_rng(seed)
    graphs = random_graphs("chain", 3, rng, n_examples=5, missing=0.0)
    X = rng.normal(size=(graphs.n_nodes, 6)) * (rng.random((graphs.n_nodes, 6)) < 0.5)
    features = LabelGraphs.chains(X, graphs.sizes, graphs.labels)
    energy = CRFEnergy.zeros(6, 3, graph="chain")
    losses = SSVM().loss(graphs.labels, 3, 3)
    dense = BlockFrankWolfe(losses, energy, Batch(features), 0.1, 1e-6, rng)
    if kind != "dense":
        features = LabelGraphs.chains(sparse.csr_matrix(X), graphs.sizes, graphs.labels)
    if kind == "pairs":
        pairs = np.arange(0, 19, 3), np.tile(np.arange(3), 6)
        energy = CRFEnergy(energy.theta | {"coef": np.zeros(18)}, pairs)
    other = BlockFrankWolfe(losses, energy, Batch(features), 0.1, 1e-6, rng)
    thetas, values = [], []
    for solver, blocks in ((dense, dense.blocks), (other, other.blocks)):
        theta = {k: np.zeros_like(v) for k, v in energy.theta.items()}
        if solver is dense:
            theta["coef"] = np.zeros((6, 3))
        moments = [GraphMoments(*map(np.zeros_like, block.known)) for block in blocks]
        losses = np.zeros(5)
        for i in [0, 1, 2, 3, 4, 2, 0, 4]:
            change, moments[i], losses[i] = solver._move(blocks[i], theta, moments[i], losses[i])
            for k, v in change.items():
                theta[k][blocks[i].index if k == "coef" else slice(None)] += v
            values.append(solver._dual(theta, losses))
        thetas.append(theta)
    assert (np.diff(values[:8]) >= -1e-12).all()
    assert_allclose(values[8:], values[:8], atol=1e-12)
    for name, array in thetas[1].items():
        assert_allclose(array.ravel(), thetas[0][name].ravel(), atol=1e-12)


def test_ssvm_without_l2_needs_another_optimizer(seed):
    rng = np.random.default_rng(seed)
    energy, graphs = random_energy("chain", 2, rng), random_graphs("chain", 2, rng, missing=0.0)
    with pytest.raises(ValueError, match='needs penalty="l2" and alpha > 0'):
        SSVM().make_solver(energy, Batch(graphs), Settings(), rng)


def test_nodes_without_edges_are_independent(seed):
    """Several nodes, and no edge in any example."""
    rng = np.random.default_rng(seed)
    energy = random_energy("given", 3, rng)
    chains = LabelGraphs.chains(rng.normal(size=(5, N_FEATURES)), [2, 3])
    none = np.zeros((0, 2), dtype=np.int64)
    graphs = LabelGraphs(
        chains.features, chains.node_ptr, chains.labels, none, np.zeros(3, dtype=np.int64),
        none[:, 0], np.zeros((0, 2)),
    )  # fmt: skip
    scores = energy.node_scores(graphs)
    sums = label_graphs.sums(graphs, energy.potentials(graphs))
    assert_allclose(sums.log_z, np.add.reduceat(logsumexp(scores, axis=1), [0, 2]))
    assert_allclose(sums.nodes, np.exp(scores - logsumexp(scores, axis=1, keepdims=True)))


@pytest.mark.long
@pytest.mark.parametrize("kind", ["sparse", "pairs"])
def test_compiled_frank_wolfe_steps_of_chains(kind, seed):
    """Two compiled passes over weighted chains equal those in Python."""
    rng, found = np.random.default_rng(seed), []
    graphs = random_graphs("chain", 3, rng, n_examples=6, missing=0.0)
    X = rng.normal(size=(graphs.n_nodes, 5)) * (rng.random((graphs.n_nodes, 5)) < 0.5)
    graphs = LabelGraphs.chains(sparse.csr_matrix(X), graphs.sizes, graphs.labels)
    energy = CRFEnergy.zeros(5, 3, graph="chain")
    if kind == "pairs":  # the first feature has weights for all labels, the others for one or two
        pairs = np.array([0, 3, 4, 6, 7, 8]), np.array([0, 1, 2, 1, 0, 2, 2, 1])
        energy = CRFEnergy(energy.theta | {"coef": np.zeros(8)}, pairs)
    losses, batch = SSVM().loss(graphs.labels, 3, 3), Batch(graphs, None, rng.normal(size=6))
    orders = [rng.permutation(6) for _ in range(2)]
    for Solver in (BlockFrankWolfe, ChainFrankWolfe):
        solver = Solver(losses, energy, batch, 0.1, 1e-6, rng)
        theta, lag = ({k: np.zeros_like(v) for k, v in energy.theta.items()} for _ in range(2))
        moments, values = solver._zero_moments(), np.zeros(6)
        for n_steps, order in zip((0, 6), orders, strict=True):
            moments = solver._move_all(order, n_steps, theta, lag, moments, values)
        found.append([*theta.values(), *lag.values(), values])
    for one, two in zip(*found, strict=True):
        assert np.abs(one).max() > 0
        assert_allclose(one, two, atol=1e-9)
