"""Labels by networks learned for them: the model, the ensemble, gaps, the classifier's rules."""

import copy
import functools
import pickle
import tracemalloc

import numpy as np
import pandas as pd
import pytest
from joblib import parallel_config
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.base import clone
from sklearn.discriminant_analysis import QuadraticDiscriminantAnalysis

from skmrf import NNMRFClassifier, _labels
from skmrf._labels import (
    COPIES,
    KINDS,
    N_FILLS,
    N_FOLDS,
    N_MEMBERS,
    LabelEnsemble,
    completed_rows,
    folds_of,
    learn_labels,
    mean_log_proba,
    some_of,
    stacked,
)
from skmrf.energies import NeuralEnergy, NeuralLabels
from skmrf.learning.penalties import L2
from skmrf.learning.solvers import maximise_deterministic

pytestmark = pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
SMALL = {"node_layers": (3,), "edge_layers": (3,), "max_iter": 20, "random_state": 0}
CASES = {
    "numbers": ([0, 0, 0], [(0, 1), (2, 1)]),
    "mixed": ([0, 3, 0, 2], [(0, 1), (2, 0), (1, 3)]),
    "states": ([2, 3, 4], [(0, 1), (2, 1)]),
    "no edges": ([0, 2], []),
}
each_case = pytest.mark.parametrize("case", CASES)


def classes(*args, **parameters):
    return NNMRFClassifier(*args, **SMALL | parameters)


def labelled(case, seed, n=23, n_labels=3):
    """A model far from its start, rows and labels."""
    n_states, edges = CASES[case]
    rng = np.random.default_rng(seed)
    networks = NeuralEnergy.random(
        n_states, edges, node_layers=(3, 2), edge_layers=(4,), random_state=rng
    )
    model = NeuralLabels.random(networks, n_labels, 2.0, random_state=rng)
    theta = {k: v + rng.normal(0, 0.5, v.shape) for k, v in model.theta.items()}
    X = np.stack([rng.normal(size=n) if q == 0 else rng.integers(0, q, n) for q in n_states], 1)
    return model.with_theta(theta), X, rng.integers(0, n_labels, n)


# The model of labels -----------------------------------------------------------------------


def network(row, layers, inputs):
    """Scale times the hyperbolic tangent of a dense network of SELU units."""
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
    """Numbers in the first slot, states one-hot."""
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
    assert np.ptp(found, axis=0).max() > 0.01  # networks matter


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


def test_weights_are_rows_repeated(seed):
    model, X, y = labelled("mixed", seed)
    counts = np.random.default_rng(seed).integers(0, 4, len(X))
    value, gradient = model.objective(X, y, counts.astype(float))
    again = np.repeat(np.arange(len(X)), counts)
    expected, slopes = model.objective(X[again], y[again], np.ones(len(again)))
    assert value == pytest.approx(expected, rel=1e-10)
    for name, slope in slopes.items():
        assert_allclose(gradient[name], slope, rtol=1e-8, atol=1e-10)


def test_the_penalised_optimum(seed):
    """SELU units have kinks, at which an optimum may lie, so a few slopes are not zero."""
    model, X, y = labelled("mixed", seed, n=60)
    weights = np.random.default_rng(seed).dirichlet(np.ones(len(X)))
    penalty = L2(0.02, model.penalty_groups())
    found, converged = maximise_deterministic(
        model,
        lambda energy: energy.objective(X, y, weights),
        penalty,
        max_iter=5000,
        tol=1e-7,
    )
    assert converged

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
    shares = np.bincount(y, weights, minlength=3)  # labels themselves are free, so shares fit
    assert_allclose(weights @ np.exp(found.log_proba(X)), shares, atol=2e-3)


def test_first_networks(seed):
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
def test_factors_of_first_networks(case, seed):
    n_states, edges = CASES[case]
    networks = NeuralEnergy.random(n_states, edges, node_layers=(3, 2), edge_layers=(4,))
    plain = NeuralLabels.random(networks, 2, random_state=seed)
    scaled = NeuralLabels.random(networks, 2, inner=3.0, outer=10.0, random_state=seed)
    slots = max(1, *n_states)
    for kind, n_inputs, first, last in (("nodes", slots, 3, 2), ("edges", 2 * slots, 4, 4)):
        expected = plain.theta[kind].copy()
        expected[:, : (n_inputs + 1) * first] *= 3.0
        expected[:, expected.shape[1] - 2 - last : -2] *= 10.0  # then come a bias and a scale
        assert_allclose(scaled.theta[kind], expected, rtol=1e-12)


# The ensemble ------------------------------------------------------------------------------


def test_the_ensemble_is_the_mean_of_its_members(seed):
    first, X, _ = labelled("mixed", seed)
    rng = np.random.default_rng(seed)
    members = [
        first.with_theta({k: v + rng.normal(size=v.shape) for k, v in first.theta.items()})
        for _ in range(4)
    ]
    weights = rng.dirichlet(np.ones(4))
    each = np.stack([np.exp(member.log_proba(X)) for member in members])
    found = np.exp(LabelEnsemble(members, weights).log_proba(X))
    assert_allclose(found, np.einsum("m,mrl->rl", weights, each), rtol=1e-12)
    assert np.abs(each[0] - found).max() > 0.05


def learned(seed, n=200, **options):
    """An ensemble of rows whose first number tells their labels, but for some noise."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 2))
    y = (X[:, 0] + 0.5 * rng.normal(size=n) > 0).astype(int)
    networks = NeuralEnergy.random([0, 0], [(0, 1)], node_layers=(3,), edge_layers=(3,))
    weights = options.pop("weights", None)
    return X, y, learn_labels(networks, lambda _: X, y, weights, rng, **options)


def test_members_differ(monkeypatch, seed):
    monkeypatch.setattr(_labels, "LEAST_SHARE", 0.0)
    X, y, ensemble = learned(seed)
    assert len(ensemble.members) == N_MEMBERS
    assert_allclose(ensemble.weights.sum(), 1.0)
    shares = ensemble.weights.reshape(N_FOLDS, len(KINDS))
    assert_allclose(shares, np.tile(shares[0], (N_FOLDS, 1)))  # kinds in turn
    logs = np.stack([member.log_proba(X) for member in ensemble.members])
    gaps = np.abs(logs[:, None] - logs).max(axis=(2, 3))
    assert gaps[~np.eye(N_MEMBERS, dtype=bool)].min() > 0.01
    assert len({round(member.gain, 6) for member in ensemble.members}) == 2
    assert np.mean(ensemble.log_proba(X).argmax(axis=1) == y) > 0.75
    assert all(v.dtype == np.float32 for m in ensemble.members for v in m.theta.values())


def test_shares_are_those_of_greatest_likelihood(seed):
    """Of three kinds, one of which others hide; rows that weigh twice are rows that come twice."""
    rng = np.random.default_rng(seed)
    logs = np.log(rng.uniform(0.05, 0.95, size=(3, 400)))
    logs[2] = logs[:2].min(axis=0)
    counts = rng.integers(0, 3, 400)
    shares = stacked(logs, counts.astype(float), n_iter=5000)
    assert_allclose(shares.sum(), 1.0)
    assert shares[2] < 0.01

    def likelihood(share):
        return counts @ np.log(share * np.exp(logs[0]) + (1 - share) * np.exp(logs[1]))

    grid = np.linspace(0, 1, 2001)
    assert shares[0] == pytest.approx(grid[np.argmax([likelihood(s) for s in grid])], abs=0.01)
    again = stacked(np.repeat(logs, counts, axis=1), np.ones(counts.sum()), n_iter=5000)
    assert_allclose(again, shares, atol=1e-9)
    assert_allclose(stacked(logs - 1e4, np.ones(400)), stacked(logs, np.ones(400)), atol=1e-9)
    assert_allclose(stacked(np.empty((3, 0)), np.empty(0)), 1 / 3)


def test_kinds_of_small_shares_are_dropped(monkeypatch, seed):
    """One is pulled to networks that are 0."""
    none = KINDS[0]._replace(strength=1e6)
    monkeypatch.setattr(_labels, "KINDS", (none, KINDS[2]))
    monkeypatch.setattr(_labels, "LEAST_SHARE", 0.3)  # that of none is not 0, as labels are noisy
    X, y, ensemble = learned(seed)
    assert len(ensemble.members) == N_FOLDS
    assert_allclose(ensemble.weights, 1 / N_FOLDS)
    assert np.mean(ensemble.log_proba(X).argmax(axis=1) == y) > 0.75


@pytest.mark.parametrize("to_first", [True, False])
def test_what_pulls_networks(to_first, seed):
    """So strong that networks are the first ones, or 0; labels are free."""
    X = np.random.default_rng(seed).normal(size=(30, 2))
    y = np.repeat([0, 1, 1], 10)
    first = NeuralLabels.random(NeuralEnergy.random([0, 0], [(0, 1)]), 2, random_state=seed)
    kind = KINDS[0]._replace(strength=1e5, to_first=to_first)
    rows = X, y, np.full(30, 1 / 30)
    member, logs = _labels._member(first, kind, rows, (X[:7], y[:7]), 100)
    for name in ("nodes", "edges"):
        assert_allclose(member.theta[name], to_first * first.theta[name], atol=1e-3)
    assert_array_equal(logs, member.log_proba(X[:7])[:, 0])
    assert np.exp(member.log_proba(X))[:, 1].mean() == pytest.approx(2 / 3, abs=0.01)


def test_few_iterations_stay_near_the_start(seed):
    X, _, one = learned(seed, max_iter=1)
    _, _, many = learned(seed, max_iter=1000)
    _, _, most = learned(seed)
    assert np.ptp(one.log_proba(X)) < np.ptp(many.log_proba(X))
    assert_array_equal(many.log_proba(X), most.log_proba(X))  # 100 at most


def test_folds(seed):
    labels = np.random.default_rng(seed).permutation(np.repeat(np.arange(5), [1, 2, 4, 13, 40]))
    folds = folds_of(labels, np.random.default_rng(seed))
    assert folds[labels == 0] == -1
    for k, n in ((1, 2), (2, 4), (3, 13), (4, 40)):
        counts = np.bincount(folds[labels == k], minlength=N_FOLDS)
        assert counts.sum() == n
        assert np.ptp(counts) <= 1
    assert (folds != folds_of(labels, np.random.default_rng(seed + 1))).any()


def labels_of_some(labels, rng):
    return labels[some_of(np.arange(len(labels)), labels, rng)[0]]


def test_a_member_of_many_rows_takes_some_of_every_class(monkeypatch, seed):
    rng = np.random.default_rng(seed)
    labels = rng.permutation(np.repeat(np.arange(4), [4000, 900, 30, 7]))
    rows = np.flatnonzero(rng.random(len(labels)) < 0.9)
    counts = np.bincount(labels[rows])
    for most, fewest in ((10_000, 5), (2000, 100), (500, 20)):
        monkeypatch.setattr(_labels, "MOST_ROWS", most)
        monkeypatch.setattr(_labels, "FEWEST_ROWS", fewest)
        some, each = some_of(rows, labels, rng)
        kept = np.bincount(labels[some], minlength=4)
        assert (np.diff(some) > 0).all()
        assert np.isin(some, rows).all()
        assert len(some) <= min(most + 4 * fewest, len(rows))
        assert (kept >= np.minimum(counts, fewest)).all()
        assert_allclose(np.bincount(labels[some], each), counts)
        if most < len(rows):
            assert abs(kept[0] - most * counts[0] / len(rows)) <= 1
            assert (some != some_of(rows, labels, rng)[0]).any()
        else:
            assert_array_equal(some, rows)
            assert_array_equal(each, 1)
    assert not some_of(rows[:0], labels, rng)[0].size
    many = np.repeat(np.arange(300), 4)
    assert_array_equal(np.bincount(labels_of_some(many, rng)), 1)  # 500 // 300


def test_a_rare_class_of_many_rows_is_learned(monkeypatch, seed):
    monkeypatch.setattr(_labels, "MOST_ROWS", 300)
    monkeypatch.setattr(_labels, "FEWEST_ROWS", 20)
    rng = np.random.default_rng(seed)
    y = np.repeat([0, 1, 2], [3000, 3000, 20])
    X = np.c_[y, rng.normal(size=len(y))] * [3.0, 1.0] + rng.normal(0.0, 0.4, (len(y), 2))
    model = NNMRFClassifier(**SMALL).fit(X, y)
    assert model.score(X[y == 2], y[y == 2]) > 0.9
    assert model.predict_proba(X)[:, 2].mean() == pytest.approx(20 / len(y), rel=0.3)


def asked(monkeypatch):
    """Arguments of every member that is learned from now on."""
    seen, original = [], _labels._member
    monkeypatch.setattr(_labels, "_member", lambda *a: seen.append(a) or original(*a))
    return seen


def test_every_kind_leaves_every_row_out_once(monkeypatch, seed):
    seen = asked(monkeypatch)
    weights = np.random.default_rng(seed).choice([1.0, 1e12], size=60)
    X, y, _ = learned(seed, n=60, max_iter=2, weights=weights)
    for k, kind in enumerate(KINDS):
        tasks = seen[k :: len(KINDS)]
        assert {task[1] for task in tasks} == {kind}
        left = np.concatenate([task[3][0] for task in tasks])
        assert_array_equal(np.sort(left, axis=0), np.sort(X, axis=0))
    known = {tuple(x): (k, w) for x, k, w in zip(X.tolist(), y, weights, strict=True)}
    for _, _, (rows, theirs, drawn), (others, labels), _ in seen:
        assert len(rows) + len(others) == 60
        assert set(map(tuple, rows.tolist())).isdisjoint(map(tuple, others.tolist()))
        expected = np.array([known[tuple(x)] for x in rows.tolist()]).T
        assert_array_equal(theirs, expected[0])
        assert_allclose(drawn, expected[1] / expected[1].sum())
        assert [known[tuple(x)][0] for x in others.tolist()] == labels.tolist()


def test_members_of_many_rows_learn_from_some(monkeypatch, seed):
    monkeypatch.setattr(_labels, "MOST_ROWS", 60)
    monkeypatch.setattr(_labels, "FEWEST_ROWS", 5)
    seen = asked(monkeypatch)
    X, y, ensemble = learned(seed, n=400)
    labels = {tuple(x): k for x, k in zip(X.tolist(), y.tolist(), strict=True)}
    for _, _, (rows, theirs, weights), (others, _), _ in seen:
        assert len(rows) == len(theirs) == len(weights)
        for count in (len(rows), len(others)):
            assert 60 - len(np.unique(y)) < count <= 60
        assert weights.sum() == pytest.approx(1.0)
        assert [labels[tuple(x)] for x in rows.tolist()] == theirs.tolist()
    assert len({tuple(map(tuple, task[2][0].tolist())) for task in seen}) == N_FOLDS
    assert np.mean(ensemble.log_proba(X).argmax(axis=1) == y) > 0.7


def test_rows_left_out_of_members_stand_for_all(monkeypatch, seed):
    monkeypatch.setattr(_labels, "MOST_ROWS", 60)
    monkeypatch.setattr(_labels, "FEWEST_ROWS", 5)
    seen, shares = [], _labels._shares
    monkeypatch.setattr(_labels, "_shares", lambda *a: seen.append(a[1]) or shares(*a))
    _, y, _ = learned(seed, n=400)
    (left,) = seen
    assert np.concatenate(left).sum() == pytest.approx(len(y))
    assert sum(map(len, left)) < len(y)


def test_members_that_were_learned_before_an_end(seed):
    """Those of the first fold and two of the second; shares are by the first."""

    def some(function, tasks):
        return [function(*task) for task in tasks[: len(KINDS) + 2]]

    X, y, ensemble = learned(seed, learn=some)
    assert 2 <= len(ensemble.members) <= len(KINDS) + 2
    assert_allclose(ensemble.weights.sum(), 1.0)
    assert np.mean(ensemble.log_proba(X).argmax(axis=1) == y) > 0.7
    X, y, ensemble = learned(seed, learn=lambda f, tasks: [f(*task) for task in tasks[:2]])
    assert_allclose(ensemble.weights, 0.5)  # there is nothing yet to compare kinds by


# Memory ------------------------------------------------------------------------------------


def test_memory_is_forecast_before_densities_are_learned(monkeypatch, seed):
    X, y = rings(60, seed)
    size = sum(v.size for v in classes().fit(X, y).ensemble_.members[0].theta.values())
    needed = 8 * COPIES * size
    assert classes(max_bytes=needed).fit(X, y).ensemble_ is not None
    assert classes(max_bytes=needed - 1, rule="bayes").fit(X, y).ensemble_ is None
    monkeypatch.setattr(NNMRFClassifier, "_densities", lambda *_: pytest.fail("learned already"))
    message = rf'Learning {size} .*bytes, more than max_bytes.*sparser graph.*rule="bayes".*raise'
    with pytest.raises(ValueError, match=message):
        classes(max_bytes=needed - 1).fit(X, y)
    table = pd.DataFrame(X, columns=["a", "b"]).assign(c=np.resize(list("pqrs"), len(X)))
    message = rf"Learning {2 * (1 + 3 * (4 * 3 + 3 + 3 + 1 + 1) + 3 * (8 * 3 + 3 + 3 + 1 + 1))} "
    with pytest.raises(ValueError, match=message):
        classes(max_bytes=40_000, categorical_features=["c"]).fit(table, y)


@pytest.mark.parametrize("kind", KINDS)
def test_members_take_no_more_memory_than_forecast(kind):
    networks = NeuralEnergy.random([0] * 8, [(i, j) for j in range(8) for i in range(j)])
    X, y = np.random.default_rng(0).normal(size=(40, 8)), np.arange(40) % 10
    first = NeuralLabels.random(networks, 10)
    size = sum(v.size for v in first.theta.values())
    rows, left = (X, y, np.full(40, 1 / 40)), (X[:4], y[:4])
    _labels._member(first, kind, rows, left, 1)
    tracemalloc.start()
    try:
        _labels._member(first, kind, rows, left, 25)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert 4 * COPIES * size < peak < 8 * COPIES * size


# Rows with gaps ----------------------------------------------------------------------------


def rings(n, seed):
    """A ring, and rows inside and outside of it with the same mean and covariance."""
    rng = np.random.default_rng(seed)
    angle = rng.uniform(0, 2 * np.pi, n)
    y = np.resize([0, 1], n)
    radius = np.where(y, 2.0, 2.0 * np.sqrt(2) * rng.integers(0, 2, n))
    X = np.stack([np.cos(angle), np.sin(angle)], axis=1) * radius[:, None]
    return X + 0.3 * rng.normal(size=(n, 2)), y


def crossed(n, seed):
    """Two blobs a class, at opposite corners of a square."""
    rng = np.random.default_rng(seed)
    signs = rng.choice([-1.0, 1.0], size=(n, 2))
    return 1.5 * signs + 0.5 * rng.normal(size=(n, 2)), (signs[:, 0] == signs[:, 1]).astype(int)


def kinds(n, seed):
    """A number beside categories, of which each says something of the label."""
    rng = np.random.default_rng(seed)
    y = rng.permutation(np.resize(["big", "big", "little"], n))
    kind = np.where(y == "big", rng.integers(1, 3, n), rng.integers(0, 2, n))
    X = np.stack([rng.normal(size=n) + (y == "big") + 0.5 * kind, kind], axis=1)
    return X, y


@functools.lru_cache
def fitted(kind, seed):
    """Not to be changed."""
    make, categorical = {"rings": (rings, None), "kinds": (kinds, [1])}[kind]
    X, y = make(150, seed)
    model = classes(categorical_features=categorical, max_iter=40, random_state=seed)
    return model.fit(X, y, sample_weight=np.where(y == y[0], 1.0, 1.5))


def integral(model, rows, axis, volume):
    """Mean and deviation of ``p(y | x)`` over what the rows' second column may be."""
    means, deviations = [], []
    for x in rows[:, 0]:
        line = np.stack([np.full(len(axis), x), axis], axis=1)
        weights = np.exp(model.score_samples(line))
        p = model.predict_proba(line)
        assert weights.sum() * volume > 1e-4
        weights = weights / weights.sum()
        means.append(weights @ p)
        deviations.append(np.sqrt(weights @ (p - means[-1]) ** 2))
    return np.array(means), np.array(deviations)


@pytest.mark.parametrize("kind", ["rings", "kinds"])
def test_gaps_are_integrated_out(kind, seed):
    model = fitted(kind, seed)
    rng = np.random.default_rng(seed)
    make = {"rings": rings, "kinds": kinds}[kind]
    rows = make(40, seed + 1)[0]
    rows[:, 1] = np.nan
    axis = np.linspace(-9, 9, 1201) if kind == "rings" else np.arange(3.0)
    means, deviations = integral(model, rows, axis, axis[1] - axis[0])
    assert deviations.max() > 0.1
    found = model.predict_proba(rows)
    assert_allclose(found.sum(axis=1), 1.0)
    error = deviations / np.sqrt(N_FILLS)
    assert (np.abs(found - means) <= 5 * error + 2e-3).all()
    copies = model.predict_proba(np.repeat(rows, 25, axis=0)).reshape(40, 25, -1)
    assert (np.abs(copies.mean(axis=1) - means) <= error + 2e-3).all()  # of 2,500 draws
    control = np.exp(model.ensemble_.log_proba(model._columns.encode(list(make(40, 9)[0].T))))
    assert np.abs(control[rng.permutation(40)] - means).max() > 5 * error.max()


@pytest.mark.parametrize("density", ["mixture", "mrf"])
def test_completed_rows(density, seed):
    rng = np.random.default_rng(seed)
    y = np.repeat([0, 1], [60, 30])
    X = 8.0 * y[:, None] + rng.normal(size=(90, 2)) - 4.0
    parts = classes(density=density, random_state=seed).fit(X, y).densities_
    rows = np.array([[0.5, np.nan], [np.nan, -0.5], [1.0, 2.0], [np.nan, np.nan]])
    rows = np.repeat(rows, 500, axis=0)
    before = rows.copy()
    for odds, share in ((-np.inf, 0.0), (0.0, 0.5), (np.log(3), 0.75), (np.inf, 1.0)):
        logs = np.tile([[min(0.0, -odds), min(0.0, odds)]], (len(rows), 1))
        full = completed_rows(parts, logs, rows, rng)
        seen = ~np.isnan(rows)
        assert_array_equal(full[seen], rows[seen])
        assert not np.isnan(full).any()
        error = 5 * np.sqrt(share * (1 - share) / 500)
        second = (full[1500:].sum(axis=1) > 2.0 / 3.0).mean()  # between the classes
        assert second == pytest.approx(share, abs=error + 1e-3)
    assert_array_equal(rows, before)


def test_gaps_go_in_parts(monkeypatch, seed):
    model = fitted("rings", seed)
    rows = model._columns.encode(list(rings(7, seed)[0].T))
    rows[[0, 2, 3, 6], 1] = np.nan
    arguments = model.ensemble_, model.densities_, np.log([0.5, 0.5]), rows
    expected = mean_log_proba(*arguments, np.random.default_rng(seed))
    full = ~np.isnan(rows).any(axis=1)
    assert_array_equal(expected[full], model.ensemble_.log_proba(rows[full]))
    monkeypatch.setattr(_labels, "ROWS", 3)
    found = mean_log_proba(*arguments, np.random.default_rng(seed))
    assert_array_equal(found[full], expected[full])
    assert np.abs(np.exp(found) - np.exp(expected)).max() < 5 * 0.5 * np.sqrt(2 / N_FILLS)
    assert_allclose(np.exp(found).sum(axis=1), 1.0)


def test_rows_of_gaps_have_the_shares_of_the_classes(seed):
    """All is missing: the mean of p(y | x) over p(x), which is about the share of y."""
    model = fitted("kinds", seed)
    p = model.predict_proba(np.full((20, 2), np.nan))
    assert_allclose(p.mean(axis=0), model.class_prior_, atol=0.06)


def test_missing_and_unknown_categories(seed):
    X, y = kinds(90, seed)
    table = pd.DataFrame({"size": X[:, 0], "kind": pd.Categorical(X[:, 1].astype(int).astype(str))})
    model = classes().fit(table, y)
    rows = table.iloc[:4].astype(object)
    rows["kind"] = [None, np.nan, pd.NA, None]
    gaps = table.iloc[:4].assign(kind=pd.Categorical([None] * 4, list("012")))
    assert_array_equal(model.predict_proba(rows), model.predict_proba(gaps))
    for rule in ("conditional", "bayes"):
        with pytest.raises(ValueError, match="Column 'kind' has the category 'oak'"):
            model.set_params(rule=rule).predict(rows.assign(kind="oak"))


def test_learning_from_rows_with_gaps(seed):
    X, y = rings(400, seed)
    holes = X.copy()
    holes[np.random.default_rng(seed + 1000).random(400) < 0.3, 0] = np.nan
    model = classes(max_iter=100).fit(holes[:300], y[:300])
    assert model.score(X[300:], y[300:]) > 0.75
    again = classes(max_iter=100).fit(holes[:300], y[:300])
    assert_array_equal(again.predict_proba(holes), model.predict_proba(holes))


# The classifier's rules --------------------------------------------------------------------


def with_gaps(X):
    return np.where((np.arange(len(X)) % 3 == 0)[:, None] & [False, True], np.nan, X)


@pytest.mark.parametrize("kind", ["rings", "kinds"])
def test_joint_probabilities(kind, seed):
    model = copy.deepcopy(fitted(kind, seed))
    X = with_gaps({"rings": rings, "kinds": kinds}[kind](40, seed + 1)[0])
    scores, p = {}, {}
    for rule in ("conditional", "bayes"):
        model.set_params(rule=rule)
        scores[rule], p[rule] = model.score_samples(X), model.predict_proba(X)
        joint = model.predict_joint_log_proba(X)
        assert_allclose(np.logaddexp.reduce(joint, axis=1), scores[rule], rtol=1e-10)
        assert_allclose(np.exp(joint - scores[rule][:, None]), p[rule], rtol=1e-8, atol=1e-12)
        assert_allclose(p[rule].sum(axis=1), 1.0)
        assert_allclose(np.exp(model.predict_log_proba(X)), p[rule])
        assert_array_equal(model.predict(X), model.classes_[p[rule].argmax(axis=1)])
    assert_array_equal(*scores.values())
    assert np.abs(p["conditional"] - p["bayes"]).max() > 0.05


def test_priors_shift_log_odds(seed):
    X, y = rings(60, seed)
    y = np.where(X[:, 0] > 0.5, "c", np.where(y, "a", "b"))
    counted, priors = classes().fit(X, y), np.array([0.2, 0.7, 0.1])
    given = classes(priors=priors).fit(X, y)
    rows = with_gaps(X)
    shift = np.log(priors / counted.class_prior_)
    expected = counted.predict_log_proba(rows) + shift
    expected -= np.logaddexp.reduce(expected, axis=1, keepdims=True)
    assert_allclose(given.predict_log_proba(rows), expected, atol=1e-10)
    never = classes(priors=[0.5, 0.5, 0.0]).fit(X, y)
    assert_array_equal(never.predict_proba(rows)[:, 2], 0.0)
    assert np.isfinite(never.predict_log_proba(rows)[:, :2]).all()


def test_switching_rules(seed):
    X, y = rings(60, seed)
    both, plain = classes().fit(X, y), classes(rule="bayes").fit(X, y)
    assert plain.ensemble_ is None
    both.set_params(rule="bayes")
    assert_array_equal(both.predict_joint_log_proba(X), plain.predict_joint_log_proba(X))
    plain.set_params(rule="conditional")
    for ask in (plain.predict, plain.predict_proba, plain.predict_joint_log_proba):
        with pytest.raises(ValueError, match=r'fit was with rule="bayes"\. Fit again, or set_par'):
            ask(X)
    assert_array_equal(plain.score_samples(X), both.score_samples(X))
    again = plain.fit(X, y).predict_proba(X)
    assert_array_equal(again, both.set_params(rule="conditional").predict_proba(X))


@pytest.mark.parametrize("rule", ["both", None, 1])
def test_bad_rules(rule, seed):
    X, y = rings(20, seed)
    with pytest.raises(ValueError, match=r"rule must be one of \['bayes', 'conditional'\]; got"):
        classes(rule=rule).fit(X, y)
    model = classes().fit(X, y)
    before = model.predict_proba(X)
    model.set_params(rule=rule)
    for ask in (model.predict, model.predict_proba, model.predict_joint_log_proba):
        with pytest.raises(ValueError, match="rule must be one of"):
            ask(X)
    with pytest.raises(ValueError, match="rule must be one of"):
        model.fit(X + 1, y)
    assert_array_equal(model.set_params(rule="conditional").predict_proba(X), before)


# What it learns ----------------------------------------------------------------------------


def test_rings_that_no_gaussian_tells_apart(seed):
    X, y = rings(1400, seed)
    train, test = slice(400), slice(400, None)
    gaussian = QuadraticDiscriminantAnalysis().fit(X[train], y[train])
    assert gaussian.score(X[test], y[test]) < 0.75
    model = classes(node_layers=(8,), edge_layers=(8,), max_iter=100).fit(X[train], y[train])
    assert model.score(X[test], y[test]) > 0.85


def test_crosses_need_edges(seed):
    X, y = crossed(1000, seed)
    train, test = slice(300), slice(300, None)
    model = classes(max_iter=60).fit(X[train], y[train])
    assert model.score(X[test], y[test]) > 0.97
    model = classes("empty", max_iter=60).fit(X[train], y[train])
    assert model.score(X[test], y[test]) < 0.7


def test_labels_without_reason(seed):
    """Rows say nothing of their labels: none is right more often than the share of the majority."""
    X, _ = rings(2300, seed)
    y = (np.random.default_rng(seed + 1000).random(2300) < 0.75).astype(int)
    model = classes(max_iter=100).fit(X[:300], y[:300])
    assert 0.62 < model.score(X[300:], y[300:]) < 0.75 + 5 * np.sqrt(0.75 * 0.25 / 2000)
    logs = model.predict_log_proba(X[300:])[np.arange(2000), y[300:]]
    assert -0.9 < logs.mean() < -0.53  # the entropy of labels is 0.56


@pytest.mark.parametrize("rule", ["conditional", "bayes"])
def test_one_class(rule, seed):
    X, _ = rings(40, seed)
    model = classes(rule=rule).fit(X, np.full(40, "only"))
    rows = with_gaps(X)
    assert_array_equal(model.predict(rows), "only")
    assert_allclose(model.predict_proba(rows), 1.0)
    assert_allclose(model.predict_joint_log_proba(rows)[:, 0], model.score_samples(rows))


def test_many_classes_of_few_rows(seed):
    y = np.repeat(np.arange(20), 3)
    angle = 2 * np.pi * y / 20
    X = np.stack([np.cos(angle), np.sin(angle)], axis=1) * 10
    rng = np.random.default_rng(seed)
    model = classes(max_iter=40).fit(X + 0.3 * rng.normal(size=X.shape), y)
    p = model.predict_proba(X)
    assert p.shape == (60, 20)
    assert_allclose(p.sum(axis=1), 1.0)
    assert model.score(X, y) > 0.8


def test_weights_of_rows_enter_probabilities(seed):
    """Labels are independent of rows: their probability is the share by weight."""
    X, _ = rings(300, seed)
    y = np.resize(["a", "b"], 300)
    model = classes(max_iter=10).fit(X, y, sample_weight=np.where(y == "a", 9.0, 1.0))
    assert_allclose(model.predict_proba(X).mean(axis=0), [0.9, 0.1], atol=0.04)


def test_rows_of_weight_zero_are_absent(seed):
    X, y = rings(60, seed)
    weights = np.random.default_rng(seed).exponential(size=60)
    weights[40:] = 0.0
    X[50:, 0], y[55:] = 1e3, 7
    left = classes().fit(with_gaps(X), y, sample_weight=weights)
    right = classes().fit(with_gaps(X)[:40], y[:40], sample_weight=weights[:40])
    assert left.classes_.tolist() == [0, 1]
    rows = rings(30, seed + 1)[0]
    assert_array_equal(left.predict_proba(rows), right.predict_proba(rows))
    scaled = classes().fit(with_gaps(X)[:40], y[:40], sample_weight=1e3 * weights[:40])
    assert_allclose(scaled.predict_proba(rows), right.predict_proba(rows), atol=0.02)


# Repetition --------------------------------------------------------------------------------


def test_same_seed_same_labels(seed):
    X, y = rings(80, seed)
    X, y = with_gaps(X), np.where(y, "ring", "rest")
    model = classes(random_state=seed).fit(X, y)
    expected = model.predict_proba(X)
    assert_array_equal(model.predict_proba(X), expected)  # gaps are drawn alike at every call
    assert set(model.predict(X)) == {"ring", "rest"}
    for again in (
        pickle.loads(pickle.dumps(model)),
        clone(model).fit(X, y),
        classes(random_state=np.random.default_rng(seed)).fit(X, y),
    ):
        assert_array_equal(again.predict_proba(X), expected)
    with parallel_config("threading", n_jobs=2):
        threads = classes(random_state=seed, n_jobs=2).fit(X, y)
    assert_array_equal(threads.predict_proba(X), expected)
    assert (classes(random_state=seed + 1).fit(X, y).predict_proba(X) != expected).any()
