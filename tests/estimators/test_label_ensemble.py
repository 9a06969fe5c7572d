"""Tests of the ensemble of conditional models of NNMRFClassifier, and of its energies."""

import tracemalloc

import numpy as np
import pandas as pd
import pytest
from nnmrf_models import CASES, LABEL_NETWORKS, ensemble, labelled, rings
from numpy.testing import assert_allclose, assert_array_equal

from skmrf import NNMRFClassifier
from skmrf.energies import NeuralEnergy
from skmrf.energies.neural_labels import NeuralLabels
from skmrf.estimators.nnmrf import label_networks
from skmrf.estimators.nnmrf.label_networks import (
    MEMBER_KINDS,
    N_ARRAYS,
    N_FOLDS,
    N_MEMBERS,
    LabelEnsemble,
    assign_folds,
    combine_members,
    learn_member,
    member_tasks,
    stacking_weights,
    subsample_rows,
)
from skmrf.training.loop import run_with_objective
from skmrf.training.penalties import L2
from skmrf.training.solvers import make_solver

pytestmark = pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")


# The ensemble -----------------------------------------------------------------------------


def test_the_ensemble_is_the_mean_of_its_members(seed):
    first, X, _ = labelled("mixed", seed)
    rng = np.random.default_rng(seed)
    members = [
        first.with_theta({k: v + rng.normal(size=v.shape) for k, v in first.theta.items()})
        for _ in range(4)
    ]
    weights = rng.dirichlet(np.ones(4))
    parts = np.stack([np.exp(member.log_proba(X)) for member in members])
    found = np.exp(LabelEnsemble(members, weights).log_proba(X))
    assert_allclose(found, np.einsum("m,mrl->rl", weights, parts), rtol=1e-12)
    assert np.abs(parts[0] - found).max() > 0.05


def learned(seed, n=200, n_learned=None, **options):
    """Return rows, noisy labels that depend on the first column, and a learned ensemble."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 2))
    y = (X[:, 0] + 0.5 * rng.normal(size=n) > 0).astype(int)
    networks = NeuralEnergy.random([0, 0], [(0, 1)], node_layers=(3,), edge_layers=(3,))
    weights = options.pop("weights", None)
    tasks, left = member_tasks(networks, lambda _: X, y, weights, rng, **options)
    return X, y, combine_members([learn_member(*task) for task in tasks[:n_learned]], left)


def test_members_differ(monkeypatch, seed):
    monkeypatch.setattr(label_networks, "MIN_KIND_WEIGHT", 0.0)
    X, y, ensemble = learned(seed)
    assert len(ensemble.members) == N_MEMBERS
    assert_allclose(ensemble.weights.sum(), 1.0)
    shares = ensemble.weights.reshape(N_FOLDS, len(MEMBER_KINDS))
    assert_allclose(shares, np.tile(shares[0], (N_FOLDS, 1)))  # sorted by fold, then by kind
    logs = np.stack([member.log_proba(X) for member in ensemble.members])
    differences = np.abs(logs[:, None] - logs).max(axis=(2, 3))
    assert differences[~np.eye(N_MEMBERS, dtype=bool)].min() > 0.01
    assert len({round(member.gain, 6) for member in ensemble.members}) == 2
    assert np.mean(ensemble.log_proba(X).argmax(axis=1) == y) > 0.75
    assert all(v.dtype == np.float32 for m in ensemble.members for v in m.theta.values())


def test_stacking_weights_maximise_the_likelihood(seed):
    """One of three kinds is a mixture of the others; weights equal repeated rows."""
    rng = np.random.default_rng(seed)
    logs = np.log(rng.uniform(0.05, 0.95, size=(3, 400)))
    logs[2] = logs[:2].min(axis=0)
    counts = rng.integers(0, 3, 400)
    shares = stacking_weights(logs, counts.astype(float), n_iter=5000)
    assert_allclose(shares.sum(), 1.0)
    assert shares[2] < 0.01

    def likelihood(share):
        return counts @ np.log(share * np.exp(logs[0]) + (1 - share) * np.exp(logs[1]))

    grid = np.linspace(0, 1, 2001)
    assert shares[0] == pytest.approx(grid[np.argmax([likelihood(s) for s in grid])], abs=0.01)
    again = stacking_weights(np.repeat(logs, counts, axis=1), np.ones(counts.sum()), n_iter=5000)
    assert_allclose(again, shares, atol=1e-9)
    assert_allclose(
        stacking_weights(logs - 1e4, np.ones(400)), stacking_weights(logs, np.ones(400)), atol=1e-9
    )
    assert_allclose(stacking_weights(np.empty((3, 0)), np.empty(0)), 1 / 3)


def test_kinds_of_small_weight_are_dropped(monkeypatch, seed):
    """One kind has such a strong penalty that its networks are 0."""
    none = MEMBER_KINDS[0]._replace(strength=1e6)
    monkeypatch.setattr(label_networks, "MEMBER_KINDS", (none, MEMBER_KINDS[2]))
    # Labels are noisy, so the weight of this kind is not 0.
    monkeypatch.setattr(label_networks, "MIN_KIND_WEIGHT", 0.3)
    X, y, ensemble = learned(seed)
    assert len(ensemble.members) == N_FOLDS
    assert_allclose(ensemble.weights, 1 / N_FOLDS)
    assert np.mean(ensemble.log_proba(X).argmax(axis=1) == y) > 0.75


@pytest.mark.parametrize("penalises_change", [True, False])
def test_penalty_of_members(penalises_change, seed):
    """Networks keep their initial values or are 0 under a strong penalty; biases are free."""
    X = np.random.default_rng(seed).normal(size=(30, 2))
    y = np.repeat([0, 1, 1], 10)
    first = NeuralLabels.random(NeuralEnergy.random([0, 0], [(0, 1)]), 2, random_state=seed)
    kind = MEMBER_KINDS[0]._replace(strength=1e5, penalises_change=penalises_change)
    rows = X, y, np.full(30, 1 / 30)
    member, logs = learn_member(first, kind, rows, (X[:7], y[:7]), 100)
    for name in ("nodes", "edges"):
        assert_allclose(member.theta[name], penalises_change * first.theta[name], atol=1e-3)
    assert_array_equal(logs, member.log_proba(X[:7])[:, 0])
    assert np.exp(member.log_proba(X))[:, 1].mean() == pytest.approx(2 / 3, abs=0.01)


def test_number_of_iterations_is_limited(monkeypatch, seed):
    monkeypatch.setattr(label_networks, "N_ITERATIONS", 10)
    X, _, one = learned(seed, 60, max_iter=1)
    _, _, many = learned(seed, 60, max_iter=1000)
    _, _, most = learned(seed, 60)
    assert np.ptp(one.log_proba(X)) < np.ptp(many.log_proba(X))
    assert_array_equal(many.log_proba(X), most.log_proba(X))  # the maximum is 10


def test_folds(seed):
    labels = np.random.default_rng(seed).permutation(np.repeat(np.arange(5), [1, 2, 4, 13, 40]))
    folds = assign_folds(labels, np.random.default_rng(seed))
    assert folds[labels == 0] == -1
    for k, n in ((1, 2), (2, 4), (3, 13), (4, 40)):
        counts = np.bincount(folds[labels == k], minlength=N_FOLDS)
        assert counts.sum() == n
        assert np.ptp(counts) <= 1
    assert (folds != assign_folds(labels, np.random.default_rng(seed + 1))).any()


def subsample_labels(labels, rng):
    return labels[subsample_rows(np.arange(len(labels)), labels, rng)[0]]


def test_subsample_has_rows_of_each_class(monkeypatch, seed):
    rng = np.random.default_rng(seed)
    labels = rng.permutation(np.repeat(np.arange(4), [4000, 900, 30, 7]))
    rows = np.flatnonzero(rng.random(len(labels)) < 0.9)
    counts = np.bincount(labels[rows])
    for most, fewest in ((10_000, 5), (2000, 100), (500, 20)):
        monkeypatch.setattr(label_networks, "MAX_ROWS", most)
        monkeypatch.setattr(label_networks, "MIN_CLASS_ROWS", fewest)
        some, counts_per_row = subsample_rows(rows, labels, rng)
        kept = np.bincount(labels[some], minlength=4)
        assert (np.diff(some) > 0).all()
        assert np.isin(some, rows).all()
        assert len(some) <= min(most + 4 * fewest, len(rows))
        assert (kept >= np.minimum(counts, fewest)).all()
        assert_allclose(np.bincount(labels[some], counts_per_row), counts)
        if most < len(rows):
            assert abs(kept[0] - most * counts[0] / len(rows)) <= 1
            assert (some != subsample_rows(rows, labels, rng)[0]).any()
        else:
            assert_array_equal(some, rows)
            assert_array_equal(counts_per_row, 1)
    assert not subsample_rows(rows[:0], labels, rng)[0].size
    many = np.repeat(np.arange(300), 4)
    assert_array_equal(np.bincount(subsample_labels(many, rng)), 1)  # 500 // 300


def test_a_rare_class_of_many_rows_is_learned(monkeypatch, seed):
    monkeypatch.setattr(label_networks, "MAX_ROWS", 300)
    monkeypatch.setattr(label_networks, "MIN_CLASS_ROWS", 20)
    rng = np.random.default_rng(seed)
    y = np.repeat([0, 1, 2], [1500, 1500, 20])
    X = np.c_[y, rng.normal(size=len(y))] * [3.0, 1.0] + rng.normal(0.0, 0.4, (len(y), 2))
    model = NNMRFClassifier(**LABEL_NETWORKS).fit(X, y)
    assert model.score(X[y == 2], y[y == 2]) > 0.9
    assert model.predict_proba(X)[:, 2].mean() == pytest.approx(20 / len(y), rel=0.3)


def record_tasks(monkeypatch):
    """Record the arguments of all calls of learn_member."""
    seen, original = [], label_networks.learn_member
    monkeypatch.setitem(globals(), "learn_member", lambda *a: seen.append(a) or original(*a))
    return seen


def test_each_kind_leaves_each_row_out_once(monkeypatch, seed):
    seen = record_tasks(monkeypatch)
    weights = np.random.default_rng(seed).choice([1.0, 1e12], size=60)
    X, y, _ = learned(seed, n=60, max_iter=2, weights=weights)
    for k, kind in enumerate(MEMBER_KINDS):
        tasks = seen[k :: len(MEMBER_KINDS)]
        assert {task[1] for task in tasks} == {kind}
        left = np.concatenate([task[3][0] for task in tasks])
        assert_array_equal(np.sort(left, axis=0), np.sort(X, axis=0))
    known = {tuple(x): (k, w) for x, k, w in zip(X.tolist(), y, weights, strict=True)}
    for _, _, (rows, row_labels, drawn), (others, labels), _ in seen:
        assert len(rows) + len(others) == 60
        assert set(map(tuple, rows.tolist())).isdisjoint(map(tuple, others.tolist()))
        expected = np.array([known[tuple(x)] for x in rows.tolist()]).T
        assert_array_equal(row_labels, expected[0])
        assert_allclose(drawn, expected[1] / expected[1].sum())
        assert [known[tuple(x)][0] for x in others.tolist()] == labels.tolist()


def test_members_learn_from_a_subsample(monkeypatch, seed):
    monkeypatch.setattr(label_networks, "MAX_ROWS", 60)
    monkeypatch.setattr(label_networks, "MIN_CLASS_ROWS", 5)
    seen = record_tasks(monkeypatch)
    X, y, ensemble = learned(seed, n=400)
    labels = {tuple(x): k for x, k in zip(X.tolist(), y.tolist(), strict=True)}
    for _, _, (rows, row_labels, weights), (others, _), _ in seen:
        assert len(rows) == len(row_labels) == len(weights)
        for count in (len(rows), len(others)):
            assert 60 - len(np.unique(y)) < count <= 60
        assert weights.sum() == pytest.approx(1.0)
        assert [labels[tuple(x)] for x in rows.tolist()] == row_labels.tolist()
    assert len({tuple(map(tuple, task[2][0].tolist())) for task in seen}) == N_FOLDS
    assert np.mean(ensemble.log_proba(X).argmax(axis=1) == y) > 0.7


def test_left_out_rows_represent_all_rows(monkeypatch, seed):
    monkeypatch.setattr(label_networks, "MAX_ROWS", 60)
    monkeypatch.setattr(label_networks, "MIN_CLASS_ROWS", 5)
    seen, shares = [], label_networks._kind_weights
    monkeypatch.setattr(label_networks, "_kind_weights", lambda *a: seen.append(a[1]) or shares(*a))
    _, y, _ = learned(seed, n=400)
    (left,) = seen
    assert np.concatenate(left).sum() == pytest.approx(len(y))
    assert sum(map(len, left)) < len(y)


def test_members_learned_before_an_interruption(seed):
    """The first fold and two members of the second are complete."""
    X, y, ensemble = learned(seed, n_learned=len(MEMBER_KINDS) + 2)
    assert 2 <= len(ensemble.members) <= len(MEMBER_KINDS) + 2
    assert_allclose(ensemble.weights.sum(), 1.0)
    assert np.mean(ensemble.log_proba(X).argmax(axis=1) == y) > 0.7
    X, y, ensemble = learned(seed, n_learned=2)
    assert_allclose(ensemble.weights, 0.5)  # no complete fold, so weights are equal


# Memory -----------------------------------------------------------------------------------


def test_memory_is_checked_before_densities_are_learned(monkeypatch, seed):
    X, y = rings(60, seed)
    size = sum(v.size for v in ensemble().fit(X, y).ensemble_.members[0].theta.values())
    needed = 8 * N_ARRAYS * size
    assert ensemble(max_bytes=needed).fit(X, y).ensemble_ is not None
    assert ensemble(max_bytes=needed - 1, rule="bayes").fit(X, y).ensemble_ is None
    monkeypatch.setattr(
        NNMRFClassifier, "_learn_densities", lambda *_: pytest.fail("learned already")
    )
    message = rf'Learning {size} .*bytes, more than max_bytes.*sparser graph.*rule="bayes".*raise'
    with pytest.raises(ValueError, match=message):
        ensemble(max_bytes=needed - 1).fit(X, y)
    table = pd.DataFrame(X, columns=["a", "b"]).assign(c=np.resize(list("pqrs"), len(X)))
    message = rf"Learning {2 * (1 + 3 * (4 * 3 + 3 + 3 + 1 + 1) + 3 * (8 * 3 + 3 + 3 + 1 + 1))} "
    with pytest.raises(ValueError, match=message):
        ensemble(max_bytes=40_000, column_types={"c": "categorical"}).fit(table, y)


@pytest.mark.parametrize("kind", MEMBER_KINDS)
def test_members_need_no_more_memory_than_forecast(kind):
    networks = NeuralEnergy.random([0] * 8, [(i, j) for j in range(8) for i in range(j)])
    X, y = np.random.default_rng(0).normal(size=(40, 8)), np.arange(40) % 10
    first = NeuralLabels.random(networks, 10)
    size = sum(v.size for v in first.theta.values())
    rows, left = (X, y, np.full(40, 1 / 40)), (X[:4], y[:4])
    learn_member(first, kind, rows, left, 1)
    tracemalloc.start()
    try:
        learn_member(first, kind, rows, left, 25)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert 4 * N_ARRAYS * size < peak < 8 * N_ARRAYS * size


each_case = pytest.mark.parametrize("case", CASES)


def network(row, layers, inputs):
    """Return the scale times the hyperbolic tangent of a dense network of SELU units."""
    values, at = inputs, 0
    for width in (*layers, 1):
        if at:
            values = 1.0507009873554805 * np.where(
                values > 0, values, 1.6732632423543772 * np.expm1(values)
            )
        size = values.shape[1] * width
        values = values @ row[at : at + size].reshape(-1, width) + row[at + size :][:width]
        at += size + width
    return row[at] * np.tanh(values[:, 0])


def inputs_of(X, n_states, variables):
    """Return the inputs of a network: numbers in the first slot, states one-hot."""
    slots = max(1, *n_states)
    out = np.zeros((len(X), len(variables), slots))
    for k, i in enumerate(variables):
        if n_states[i]:
            out[np.arange(len(X)), k, X[:, i].astype(int)] = 1.0
        else:
            out[:, k, 0] = X[:, i]
    return out.reshape(len(X), -1)


@each_case
def test_probabilities_are_those_of_the_formula(case, seed):
    model, X, _ = labelled(case, seed)
    n_states, edges = CASES[case]
    cliques = {"nodes": [(i,) for i in range(len(n_states))], "edges": edges}
    scores = np.tile(model.theta["labels"], (len(X), 1))
    for kind, layers in (("nodes", (3, 2)), ("edges", (4,))):
        for y in range(3):
            for k, clique in enumerate(cliques[kind]):
                row = model.theta[kind][y * len(cliques[kind]) + k]
                part = network(row, layers, inputs_of(X, n_states, clique))
                scores[:, y] += 2.0 / np.sqrt(len(n_states) + len(edges)) * part
    expected = np.exp(scores)
    expected /= expected.sum(axis=1, keepdims=True)
    found = np.exp(model.log_proba(X))
    assert found.shape == (len(X), 3)
    assert_allclose(found.sum(axis=1), 1.0, rtol=1e-12)
    assert_allclose(found, expected, rtol=1e-9)
    assert np.ptp(found, axis=0).max() > 0.01  # networks change the result


@each_case
def test_gradient_by_differences(case, seed):
    model, X, y = labelled(case, seed)
    weights = np.random.default_rng(seed).exponential(size=len(X))
    value, gradient = model.objective(X, y, weights)
    assert value == pytest.approx(weights @ model.log_proba(X)[np.arange(len(X)), y], rel=1e-12)
    for name, array in model.theta.items():
        expected = np.zeros(array.shape)
        for place in np.ndindex(array.shape):
            ends = []
            for step in (1e-6, -1e-6):
                moved = array.copy()
                moved[place] += step
                ends.append(model.with_theta(model.theta | {name: moved}).objective(X, y, weights))
            expected[place] = (ends[0][0] - ends[1][0]) / 2e-6
        assert_allclose(gradient[name], expected, rtol=1e-5, atol=1e-6)


def test_weights_equal_repeated_rows(seed):
    model, X, y = labelled("mixed", seed)
    counts = np.random.default_rng(seed).integers(0, 4, len(X))
    value, gradient = model.objective(X, y, counts.astype(float))
    again = np.repeat(np.arange(len(X)), counts)
    expected, slopes = model.objective(X[again], y[again], np.ones(len(again)))
    assert value == pytest.approx(expected, rel=1e-10)
    for name, slope in slopes.items():
        assert_allclose(gradient[name], slope, rtol=1e-8, atol=1e-10)


def test_penalised_optimum(seed):
    """SELU units have kinks at which an optimum may lie, so a few slopes are not zero."""
    model, X, y = labelled("mixed", seed, n=60)
    weights = np.random.default_rng(seed).dirichlet(np.ones(len(X)))
    penalty = L2(0.02, model.penalty_groups())
    solver = make_solver(penalty, tol=1e-7)

    def objective(energy):
        return energy.objective(X, y, weights)

    found, state = model, run_with_objective(solver.start(model), objective)
    while not state.is_done:
        found, state = run_with_objective(solver.step(found, state), objective)
    assert state.converged

    def value(energy):
        return energy.objective(X, y, weights)[0] - penalty.value(energy.theta)

    def slope(energy):
        gradient, pull = energy.objective(X, y, weights)[1], penalty.gradient(energy.theta)
        return np.concatenate([(gradient[k] - pull[k]).ravel() for k in gradient])

    assert np.median(np.abs(slope(found))) < 1e-4
    assert np.linalg.norm(slope(found)) < 0.1 * np.linalg.norm(slope(model))
    best, rng = value(found), np.random.default_rng(seed)
    for size in np.repeat([1e-3, 1e-2, 1e-1], 50):
        step = {k: size * rng.normal(size=v.shape) for k, v in found.theta.items()}
        assert value(found.with_theta({k: v + step[k] for k, v in found.theta.items()})) < best
    assert not penalty.gradient(found.theta)["labels"].any()
    shares = np.bincount(y, weights, minlength=3)  # biases are not penalised, so shares match
    assert_allclose(weights @ np.exp(found.log_proba(X)), shares, atol=2e-3)


def test_initial_networks(seed):
    networks = labelled("mixed", seed)[0].networks
    model = NeuralLabels.random(networks, 4, random_state=seed)
    assert model.n_labels == 4
    assert model.gain == pytest.approx(1 / np.sqrt(4 + 3))
    assert_array_equal(model.theta["labels"], 0.0)
    stacks = model.theta["nodes"].reshape(4, 4, -1)
    assert (stacks[0] != stacks[1]).any()
    again = NeuralLabels.random(networks, 4, random_state=seed)
    for name, array in model.theta.items():
        assert_array_equal(again.theta[name], array)
    assert "n_labels=4" in repr(model)
    assert model.log_proba(np.zeros((0, 4))).shape == (0, 4)


@each_case
def test_factors_of_initial_networks(case, seed):
    n_states, edges = CASES[case]
    networks = NeuralEnergy.random(n_states, edges, node_layers=(3, 2), edge_layers=(4,))
    plain = NeuralLabels.random(networks, 2, random_state=seed)
    scaled = NeuralLabels.random(networks, 2, inner=3.0, outer=10.0, random_state=seed)
    slots = max(1, *n_states)
    for kind, n_inputs, first, last in (("nodes", slots, 3, 2), ("edges", 2 * slots, 4, 4)):
        expected = plain.theta[kind].copy()
        expected[:, : (n_inputs + 1) * first] *= 3.0
        expected[:, expected.shape[1] - 2 - last : -2] *= (
            10.0  # weights of the last layer; a bias and a scale follow
        )
        assert_allclose(scaled.theta[kind], expected, rtol=1e-12)
