"""Tests of displays of moments, training history and structure paths, and of AUC intervals."""

from itertools import combinations

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import pytest
from estimator_models import NAMES, TAKES, digits, draw, spins
from matplotlib.colors import to_rgb
from numpy.testing import assert_allclose, assert_array_equal
from scipy.sparse import csr_matrix
from scipy.stats import norm, spearmanr
from zoo import ZOO, enumerate_states

from skmrf import (
    RBM,
    BoltzmannMachine,
    DiscreteMRF,
    GaussianPotentials,
    MRFStructureLearner,
    NNMRFDensity,
)
from skmrf.energies import FactorGraph
from skmrf.metrics.two_sample import _auc_interval
from skmrf.plot import HistoryDisplay, MomentsDisplay, StructurePathDisplay, SyntheticRowsDisplay
from skmrf.structure import Penalized

pytestmark = [
    pytest.mark.filterwarnings("ignore:Learning had not converged"),
    pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning"),
]


def compute_exact_moments(energy):
    """Compute the probabilities of the plotted states, first of columns and then of pairs."""
    states, log_f = enumerate_states(energy)
    p = np.exp(log_f - log_f.max())
    return compute_moments(states, p / p.sum(), energy.n_states)


def compute_moments(codes, weights, n_states):
    """Compute weighted frequencies with loops; missing entries (-1) are ignored."""
    shown = [range(q) if q != 2 else [1] for q in n_states]
    out = []
    for i, q in enumerate(shown):
        there = codes[:, i] >= 0
        total = weights[there].sum()
        out += [weights[there & (codes[:, i] == a)].sum() / total for a in q]
    for i, j in combinations(range(len(shown)), 2):
        there = (codes[:, [i, j]] >= 0).all(axis=1)
        for a in shown[i]:
            for b in shown[j]:
                hit = there & (codes[:, i] == a) & (codes[:, j] == b)
                out.append(weights[hit].sum() / weights[there].sum())
    return np.array(out)


def draw_rows(energy, n_rows, seed):
    states, log_f = enumerate_states(energy)
    p = np.exp(log_f - log_f.max())
    return states[np.random.default_rng(seed).choice(len(states), size=n_rows, p=p / p.sum())]


@pytest.mark.parametrize("name", ["chain", "cycle", "orders", "zeros", "constant_variables"])
def test_moments_match_enumeration(name, seed):
    energy = ZOO[name](seed)
    model, rows = DiscreteMRF.from_energy(energy), draw_rows(energy, 500, seed).astype(float)
    rows[np.random.default_rng(seed).random(rows.shape) < 0.2] = np.nan
    display = MomentsDisplay.from_estimator(model, rows)
    codes = np.where(np.isnan(rows), -1, rows).astype(int)
    assert_allclose(display.model, compute_exact_moments(energy), rtol=0, atol=1e-12)
    assert_allclose(display.data, compute_moments(codes, np.ones(500), energy.n_states), atol=1e-12)
    n_points = 0
    for kind, (left, right) in display.points_.items():
        of = display.kinds == kind
        n_points += of.sum()
        assert_array_equal(left.get_xdata(), display.model[of])
        assert_array_equal(left.get_ydata(), display.data[of])
        assert_array_equal(right.get_xdata(), display.model[of])
        assert_array_equal(right.get_ydata(), display.z_[of])
    assert n_points == len(display.model)


def test_moments_of_weighted_rows(seed):
    """Frequencies with integer weights equal those of repeated rows."""
    energy = ZOO["chain"](seed)
    model, rows = DiscreteMRF.from_energy(energy), draw_rows(energy, 200, seed).astype(float)
    rows[np.random.default_rng(seed).random(rows.shape) < 0.2] = np.nan
    times = np.random.default_rng(seed).integers(3, size=200)
    weighted = MomentsDisplay.from_estimator(model, rows, sample_weight=times)
    repeated = MomentsDisplay.from_estimator(model, np.repeat(rows, times, axis=0))
    assert_allclose(weighted.data, repeated.data, atol=1e-12)
    seen = ~np.isnan(rows[:, 0])
    effective = times[seen].sum() ** 2 / (times[seen] ** 2).sum()
    ratio = (weighted.standard_error / repeated.standard_error)[weighted.kinds == "column"][0]
    assert ratio == pytest.approx(np.sqrt(times[seen].sum() / effective))
    equal = MomentsDisplay.from_estimator(model, rows, sample_weight=np.full(200, 0.5))
    assert_allclose(equal.z_, MomentsDisplay.from_estimator(model, rows).z_)
    with pytest.raises(ValueError, match="sample_weight"):
        MomentsDisplay.from_estimator(model, rows, sample_weight=-times)


@pytest.mark.long
@pytest.mark.parametrize("method", ["exact", "samples"])
def test_differences_are_in_standard_errors(method, seed):
    """The mean square of z is one for rows sampled from the model, and larger for other rows."""
    energy = ZOO["grid"](seed)
    model, how = DiscreteMRF.from_energy(energy), {"method": method, "n_samples": 1000}
    squares = []
    for k in range(20):
        random = np.random.default_rng([seed, k])
        rows = draw_rows(energy, 1000, [seed, k])
        z = MomentsDisplay.from_estimator(model, rows, random_state=random, **how).z_
        plt.close("all")
        squares.append(np.mean(z**2))
    error = np.std(squares, ddof=1) / np.sqrt(20)
    assert error < 0.25
    assert abs(np.mean(squares) - 1) < 5 * error
    others = draw_rows(energy.tempered(0.3), 1000, seed)
    z = MomentsDisplay.from_estimator(model, others, random_state=seed, **how).z_
    assert np.mean(z**2) > np.mean(squares) + 5 * np.std(squares)


def test_moment_kinds(models):
    X = spins()
    chain = DiscreteMRF([("north", "east"), ("east", "south", "west")], "exact")
    chain.fit(pd.DataFrame(X, columns=NAMES))
    kinds = MomentsDisplay.from_estimator(chain, pd.DataFrame(X, columns=NAMES)).kinds.tolist()
    inside, outside = "pair in a clique", "pair in no clique"
    assert kinds == ["column"] * 4 + [inside, outside, outside] + [inside] * 3
    full = draw(MomentsDisplay, models["boltzmann"], "boltzmann")
    assert full.kinds.tolist() == ["column"] * 4 + [inside] * 6
    assert set(draw(MomentsDisplay, models["rbm"], "rbm").kinds) == {"column", "pair"}


@pytest.mark.long
def test_moments_of_an_rbm(seed):
    """Compare with sums over all states; the rows are grey values, which are binarized."""
    ink = digits()[:, 18:26]
    model = RBM(2, "pcd", binarize=7.5, max_iter=200, random_state=seed).fit(8.0 * ink)
    states = (np.arange(256)[:, None] >> np.arange(8)) & 1
    p = np.exp(-model.energy_.astype(float).free_energy(states))
    display = MomentsDisplay.from_estimator(model, 8.0 * ink, n_samples=4000, random_state=seed)
    expected = compute_moments(states, p / p.sum(), [2] * 8)
    assert_allclose(display.data, compute_moments(ink, np.ones(200), [2] * 8))
    error = np.sqrt(expected * (1 - expected) / 4000) + 1e-3
    assert (np.abs(display.model - expected) < 5 * error).all()
    with pytest.raises(ValueError, match='hidden units; use method="samples"'):
        MomentsDisplay.from_estimator(model, 8.0 * ink, method="exact")


def test_moments_of_a_boltzmann_machine_with_hidden_units(seed):
    """Probabilities of visible columns are estimated from samples."""
    X = (spins()[:, :3] > 0).astype(int)
    model = BoltzmannMachine("cd", n_components=2, states=(0, 1), alpha=0.1, max_iter=1)
    model.set_params(random_state=seed).fit(X)
    how = {"n_samples": 500, "random_state": seed}
    display = MomentsDisplay.from_estimator(model, X, **how)
    assert display.kinds.tolist() == ["column"] * 3 + ["pair"] * 3
    samples = model.sample(500, random_state=seed)
    assert_allclose(display.model, compute_moments(samples, np.ones(500), [2] * 3))
    with pytest.raises(ValueError, match='hidden units; use method="samples"'):
        MomentsDisplay.from_estimator(model, X, method="exact")


def test_moments_of_sparse_rows(models):
    ink = digits()
    how = {"n_samples": 20, "n_pairs": 10, "random_state": 0}
    dense, sparse = (
        MomentsDisplay.from_estimator(models["rbm"], X, **how) for X in (ink, csr_matrix(ink))
    )
    assert_array_equal(sparse.data, dense.data)
    assert_array_equal(sparse.z_, dense.z_)


def test_random_choice_of_pairs(seed):
    energy = ZOO["chain"](seed)
    model, rows = DiscreteMRF.from_energy(energy), draw_rows(energy, 100, seed)
    few = MomentsDisplay.from_estimator(model, rows, n_pairs=4, random_state=seed)
    assert len(few.model) == 6 + 4
    assert np.isin(few.model.round(12), compute_exact_moments(energy).round(12)).all()
    none = MomentsDisplay.from_estimator(model, rows, n_pairs=0)
    assert set(none.kinds) == {"column"}


def test_unobserved_pairs_are_omitted():
    energy = ZOO["chain"](0)
    rows = draw_rows(energy, 100, 0).astype(float)
    rows[:50, 0] = rows[50:, 1] = np.nan
    display = MomentsDisplay.from_estimator(DiscreteMRF.from_energy(energy), rows)
    assert len(display.model) == 6 + 14
    assert np.isfinite(display.z_).all()


def test_standard_errors_of_impossible_states():
    """Impossible states have z = 0, and states that only the model has a finite negative z."""
    rows = np.zeros((50, 2), dtype=int)
    graph = FactorGraph([2, 2], [(0,), (1,)], [[0.0, -np.inf], [0.0, 0.0]])
    z = MomentsDisplay.from_estimator(DiscreteMRF.from_energy(graph), rows).z_
    assert z[0] == 0.0
    assert z[1] < -6
    assert np.isfinite(z).all()


@pytest.mark.parametrize(
    ("how", "message"),
    [
        ({"method": "gibbs"}, "method must be one of"),
        ({"n_samples": 1}, "n_samples must be an integer >= 2"),
        ({"n_pairs": -1}, "n_pairs must be an integer >= 0"),
    ],
)
def test_invalid_parameters_of_moments(how, message, models):
    with pytest.raises(ValueError, match=message):
        MomentsDisplay.from_estimator(models["boltzmann"], spins(), **how)


# History and structure paths ---------------------------------------------------------------------


# History ----------------------------------------------------------------------------------


@pytest.mark.parametrize("name", TAKES[HistoryDisplay])
def test_history(name, models):
    history = models[name].history_
    display = HistoryDisplay.from_estimator(models[name], x="n_updates")
    assert 1 <= len(display.columns) <= 6
    for line, column in zip(display.lines_, display.columns, strict=True):
        assert_array_equal(line.get_xdata(), history["n_updates"])
        assert_allclose(line.get_ydata(), history[column])
    assert display.axes_[-1].get_xlabel() == "updates"


def test_history_order_and_error_band(models):
    display = HistoryDisplay.from_estimator(models["discrete"])
    history = models["discrete"].history_
    assert list(display.columns)[:3] == ["log_partition", "gradient_rms", "learning_rate"]
    assert list(display.bands_) == ["log_partition"]
    edge = display.bands_["log_partition"].get_paths()[0].vertices
    at_first = edge[edge[:, 0] == 1][:, 1]
    value, error = history["log_partition"][0], history["log_partition_error"][0]
    assert_allclose([at_first.min(), at_first.max()], [value - 2 * error, value + 2 * error])


def test_history_names(models):
    display = HistoryDisplay.from_estimator(models["crbm"], names=["hinge", "validation_score"])
    assert list(display.columns) == ["hinge", "validation_score"]
    assert display.axes_[1].get_title() == "validation score (accuracy)"
    single = HistoryDisplay.from_estimator(models["crbm"], names="hinge", color="red")
    assert to_rgb(single.lines_[0].get_color()) == to_rgb("red")
    for names in (["hinges"], []):
        with pytest.raises(ValueError, match=r"the keys of history_ are .*hinge"):
            HistoryDisplay.from_estimator(models["crbm"], names=names)


def test_unknown_history_keys_are_last():
    model = DiscreteMRF(learner="exact").fit(spins())
    model.history_["novelty"] = [0.5] * model.n_iter_
    display = HistoryDisplay.from_estimator(model)
    assert list(display.columns) == ["objective", "gradient_max", "novelty"]
    assert display.axes_[2].get_title() == "novelty"


def test_numeric_columns_have_no_path():
    model = MRFStructureLearner().fit(np.random.default_rng(0).normal(size=(50, 3)))
    with pytest.raises(ValueError, match=r"no path_, because a column is numeric\. Use Coupling"):
        StructurePathDisplay.from_estimator(model)


def test_epochs_of_several_runs_are_consecutive():
    model = MRFStructureLearner("exact", random_state=0).fit(spins())
    epochs = np.array(model.history_["epoch"])
    assert (np.diff(epochs) < 0).any()
    drawn = HistoryDisplay.from_estimator(model).lines_[0].get_xdata()
    assert_array_equal(drawn, np.arange(1, len(epochs) + 1))


def test_scales_of_history():
    columns = {"gradient_rms": [1.0, 0.02], "learning_rate": [0.2, 0.1], "residual": [1.0, 0.0]}
    display = HistoryDisplay(columns, [1, 2]).plot()
    assert [axes.get_yscale() for axes in display.axes_] == ["log", "linear", "linear"]


def test_history_with_infinite_values():
    columns = {"bound": [np.inf, np.inf], "score": [np.nan, np.nan], "ess": [2.0, np.inf]}
    display = HistoryDisplay(columns, [1, 2]).plot()
    assert display.axes_[2].get_ylim() == pytest.approx((0.0, 2.2))


def test_model_without_history():
    model = DiscreteMRF.from_energy(ZOO["chain"](0))
    with pytest.raises(ValueError, match=r"history_ has no diagnostics .* fit was not called"):
        HistoryDisplay.from_estimator(model)


def test_reference_model_has_no_history():
    model = DiscreteMRF(cliques="independent").fit(spins())
    for names in (None, ["epoch"]):
        with pytest.raises(ValueError, match=r"history_ has no diagnostics .* alpha_ is inf"):
            HistoryDisplay.from_estimator(model, names=names)


def test_history_of_gaussian_potentials():
    model = NNMRFDensity().fit(np.random.default_rng(0).normal(size=(50, 2)))
    display = HistoryDisplay.from_estimator(model)
    assert display.axes_[0].get_title() == "log-likelihood (nats)"
    assert_allclose(display.lines_[0].get_ydata(), model.history_["log_likelihood"])
    assert_array_equal(display.lines_[0].get_xdata(), np.arange(1, model.n_iter_ + 1))


# Paths ------------------------------------------------------------------------------------


def test_structure_path(models):
    path = models["structure"].path_
    display = StructurePathDisplay.from_estimator(models["structure"], pairs=[("west", "south")])
    assert set(display.lines_) == set(map(tuple, path.edges.tolist()))
    for edge, column in zip(path.edges.tolist(), path.parameters.T, strict=True):
        line = display.lines_[tuple(edge)]
        there = column != 0
        assert_array_equal(line.get_xdata(), path.iteration)
        assert_array_equal(line.get_ydata()[there], column[there])
        assert np.isnan(line.get_ydata()[~there]).all()
    kept = {tuple(e) for e in models["structure"].edges_.tolist()}
    assert {tuple(e) for e in display.edges[display.kept].tolist()} == kept
    assert len(display.removals_) == len(path.edges) - len(kept)
    labels = [t.get_text() for t in display.ax_.get_legend().get_texts()]
    assert labels[0] == "south \u2013 west"
    assert sorted(labels[1:]) == ["edges kept", "edges removed", "removal"]
    widths = {edge: line.get_linewidth() for edge, line in display.lines_.items()}
    assert max(widths, key=widths.get) == (2, 3)


def test_removals_and_returns():
    parameters = [
        [0.5, 0.3, 0.0, 0.2],
        [0.6, 0.2, 0.0, 0.1],
        [0.7, 0.0, 0.4, 0.0],
        [0.8, 0.0, 0.5, 0.0],
        [0.9, 0.6, 0.6, 0.0],
    ]
    edges, kept = [(0, 1), (0, 2), (1, 2), (1, 3)], [True, True, True, False]
    display = StructurePathDisplay(
        np.array(edges), [10, 20, 30, 40, 50], parameters, kept, list("abcd")
    ).plot()
    assert_allclose(display.removals_, [[20, 0.2], [20, 0.1]])
    assert_allclose(display.returns_, [[50, 0.6]])  # the first appearance of (1, 2) is no return
    drawn = {
        line.get_marker(): line.get_xydata()
        for line in display.ax_.lines
        if line.get_linestyle() == "None"
    }
    assert_allclose(drawn["x"], display.removals_)
    assert_allclose(drawn["^"], display.returns_)


def test_kept_edges_with_penalty():
    learner = MRFStructureLearner("exact", search=Penalized("l1", 0.05)).fit(spins()[:, [0, 2, 1]])
    display = StructurePathDisplay.from_estimator(learner)
    kept = display.edges[display.kept].tolist()
    assert 0 < len(kept) < 3
    assert sorted(kept) == learner.edges_.tolist()


def test_removals_after_the_last_record():
    """A path with one record is plotted as a point, and as a removal if the edge was removed."""
    edges = np.array([(0, 1), (0, 2)])
    display = StructurePathDisplay(edges, [7], [[0.5, 0.3]], [True, False], list("abc")).plot()
    assert_allclose(display.removals_, [[7, 0.3]])
    assert display.returns_.shape == (0, 2)
    assert [line.get_marker() for line in display.lines_.values()] == ["o", "o"]


@pytest.mark.parametrize(
    ("pairs", "message"),
    [
        ([("north", "up")], r"pairs contains \('north', 'up'\), but a pair must be two columns"),
        ([(0, 4)], "a pair must be two columns"),
        ([(0, 1, 2)], "a pair must be two columns"),
        ([(0, 0)], "was never in the model"),
        ((0, 1), "pairs contains 0, .* Give a list of pairs, also for a single pair"),
        (3, "pairs must be a list of pairs of columns; got 3"),
    ],
)
def test_invalid_pairs(pairs, message, models):
    with pytest.raises(ValueError, match=message):
        StructurePathDisplay.from_estimator(models["structure"], pairs=pairs)


def test_words_are_no_pairs():
    display = StructurePathDisplay([(0, 1)], [1], [[0.3]], [True], ["a", "b"])
    with pytest.raises(ValueError, match="pairs contains 'ab', but a pair must be two columns"):
        display.plot(pairs=["ab"])


def test_path_without_records():
    learner = MRFStructureLearner("exact").fit(spins()[:, :1])
    with pytest.raises(ValueError, match="path_ has no record"):
        StructurePathDisplay.from_estimator(learner)


# Synthetic rows ----------------------------------------------------------------------------


def test_synthetic_rows():
    """Panels have both tables, and correlations are rank correlations of observed entries."""
    rng = np.random.default_rng(0)
    x = rng.normal(size=60)
    X = pd.DataFrame({"x": x, "y": np.exp(x), "kind": pd.Categorical(np.where(x > 0, "a", "b"))})
    X.loc[3, "y"] = np.nan
    model = NNMRFDensity(GaussianPotentials(2), random_state=0).fit(X)
    display = SyntheticRowsDisplay.from_estimator(model, X, random_state=0)
    assert display.axes_.shape == (3, 3)
    assert len(display.axes_[1, 0].lines) == 2
    assert display.correlations_[0, 0, 1] > 0.98
    assert (
        display.axes_[0, 1].texts[0].get_text().startswith(f"{display.correlations_[0, 0, 1]:.2f}")
    )
    assert_allclose(display.axes_[1, 0].lines[0].get_xdata(), x)
    chosen = SyntheticRowsDisplay.from_estimator(model, X, columns=["kind", "x"], random_state=0)
    assert chosen.names == ["kind", "x"]
    chosen = SyntheticRowsDisplay.from_estimator(model, X, columns=np.array([1, 0]), random_state=0)
    assert chosen.names == list(X.columns[[1, 0]])
    plt.close("all")


def test_correlations_of_synthetic_rows_with_missing_entries(seed):
    """Each pair is ranked over its complete rows."""
    rng = np.random.default_rng(seed)
    table = rng.normal(size=(100, 1)) + 0.3 * rng.normal(size=(100, 3))
    table[rng.random(table.shape) < 0.4] = np.nan
    table[:, 2] = 1.0
    few = np.array([[1.0, 2.0, 0.0], [2.0, 3.0, np.nan], [np.nan, 4.0, np.nan]])
    display = SyntheticRowsDisplay(table, few, list("abc")).plot()
    complete = table[~np.isnan(table).any(axis=1), :2]
    assert display.correlations_[0, 0, 1] == pytest.approx(spearmanr(complete).statistic)
    assert np.isnan(display.correlations_[0, :2, 2]).all()
    assert np.isnan(display.correlations_[1, 0, 1:]).all()
    assert display.axes_[0, 2].texts[0].get_text() == "\u2013\n\u2013"


def test_wrong_arguments_of_synthetic_rows():
    X = pd.DataFrame(np.random.default_rng(0).integers(2, size=(50, 2)), columns=["one", "two"])
    model = DiscreteMRF("independent").fit(X)
    for rows, message in (
        (X[["two", "one"]], "same order as they were in fit"),
        (pd.concat([X, X.add_suffix("b")], axis=1), "unseen at fit time"),
        (X[["one"]], "now missing"),
    ):
        with pytest.raises(ValueError, match=message):
            SyntheticRowsDisplay.from_estimator(model, rows)
    for columns in ("one", 1, []):
        with pytest.raises(ValueError, match="columns must be a list of columns, each a name or"):
            SyntheticRowsDisplay.from_estimator(model, X, columns=columns)
    with pytest.raises(ValueError, match="axes must be an array or list of 4 axes, one per panel"):
        SyntheticRowsDisplay.from_estimator(model, X, axes=plt.subplots(1, 2)[1])
    plt.close("all")


def test_synthetic_rows_name_categories():
    """The left and the bottom panels name categories; missing entries are no category."""
    X = pd.DataFrame(
        {"x": np.resize([0, 1], 60), "kind": np.resize(["a", "b", "l" * 20, None], 60)}
    )
    model = DiscreteMRF("independent").fit(X)
    display = SyntheticRowsDisplay.from_estimator(model, X, random_state=0)
    assert display.categories == {1: ["a", "b", "l" * 20]}
    assert_array_equal(display.real[:, 1], np.resize([0, 1, 2, np.nan], 60))
    shown = ["a", "b", "l" * 11 + "\u2026"]
    assert [t.get_text() for t in display.axes_[1, 0].get_yticklabels()] == shown
    assert [t.get_text() for t in display.axes_[1, 1].get_xticklabels()] == shown
    assert len(display.axes_[1, 1].patches) == 6
    many = SyntheticRowsDisplay([[0.0]], [[1.0]], ["x"], {0: [str(k) for k in range(100)]}).plot()
    assert len(many.axes_[0, 0].get_xticklabels()) == 10
    plt.close("all")


@pytest.mark.parametrize("kind", [DiscreteMRF, RBM])
def test_synthetic_rows_of_discrete_models(kind, seed):
    X = (np.random.default_rng(seed).random((80, 3)) < [0.2, 0.5, 0.8]).astype(int)
    model = kind(learner="pcd", alpha=0.1, max_iter=3, random_state=seed).fit(X)
    display = SyntheticRowsDisplay.from_estimator(model, X, random_state=seed)
    assert_array_equal(display.real, X)
    assert_array_equal(display.synthetic, model.sample(80, random_state=seed))
    with pytest.raises(ValueError, match="columns has 'z', which is not a column"):
        SyntheticRowsDisplay.from_estimator(model, X, columns=["z"])
    with pytest.raises(TypeError, match="SyntheticRowsDisplay takes a fitted estimator of these"):
        SyntheticRowsDisplay.from_estimator(MRFStructureLearner(), X)
    plt.close("all")


def test_interval_of_the_area_under_the_curve_covers(seed):
    """Scores of both samples are normal, so that the area is known; 95% of intervals contain it."""
    rng, n_repeats, area = np.random.default_rng(seed), 400, norm.cdf(1.0 / np.sqrt(2.0))
    found = [_auc_interval(rng.normal(size=60), rng.normal(1.0, size=40)) for _ in range(n_repeats)]
    covered = np.mean([result.lower <= area <= result.upper for result in found])
    assert 0.90 < covered < 0.99
    errors = [result.std_error for result in found]
    assert_allclose(np.mean(errors), np.std([result.auc for result in found]), rtol=0.2)
