"""Tests of displays: shared options, graphs, filters, chains and log Z."""

import sys
from itertools import combinations

import matplotlib.pyplot as plt
import networkx as nx
import numpy as np
import pytest
from estimator_models import NAMES, SINGLE, TAKES, digits, draw, spins
from matplotlib.figure import Figure
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.exceptions import NotFittedError
from sklearn.linear_model import LogisticRegression

from skmrf import CRF, RBM, CRBMStructuredPredictor, DiscreteMRF, MRFStructureLearner
from skmrf._utils.results import LogPartition
from skmrf.datasets import make_ising
from skmrf.energies import FactorGraph
from skmrf.inference import log_partition
from skmrf.io import to_networkx
from skmrf.plot import (
    ChainsDisplay,
    CouplingGraphDisplay,
    CRFWeightsDisplay,
    FiltersDisplay,
    HistoryDisplay,
    LogPartitionDisplay,
    MomentsDisplay,
    StructurePathDisplay,
)
from skmrf.samplers import trace_chains

pytestmark = [
    pytest.mark.filterwarnings("ignore:Learning had not converged"),
    pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning"),
]
N_PANELS = {MomentsDisplay: 2, ChainsDisplay: 2, CRFWeightsDisplay: 2}
CASES = [(display, name) for display, names in TAKES.items() for name in names]
WRONG = [(d, n) for d in TAKES for n in TAKES[HistoryDisplay] if n not in TAKES[d]]


def get_axes(display):
    return np.ravel(display.axes_ if hasattr(display, "axes_") else [display.ax_])


@pytest.mark.parametrize(("kind", "name"), CASES)
@pytest.mark.long
def test_given_axes_are_used(kind, name, models):
    """Given axes are used, and pyplot registers no new figure for them."""
    first = draw(kind, models[name], name)
    n = N_PANELS.get(kind, len(get_axes(first)))
    assert len(plt.get_fignums()) == 1
    assert first.figure_ is plt.figure(plt.get_fignums()[0])
    plt.close("all")
    axes = Figure().subplots(1, n, squeeze=False)[0]
    second = draw(kind, models[name], name, ax=axes[0] if n == 1 else list(axes))
    assert isinstance(second, kind)
    assert all(a is b for a, b in zip(get_axes(second), axes, strict=True))
    assert second.figure_ is axes[0].figure
    assert all(a.has_data() for a in axes)
    third = Figure().subplots(1, n, squeeze=False)[0]
    assert second.plot(ax=third) is second
    assert all(a is b for a, b in zip(get_axes(second), third, strict=True))
    assert not plt.get_fignums()


@pytest.mark.parametrize("kind", TAKES)
def test_wrong_number_of_axes(kind, models):
    name = TAKES[kind][0]
    axes = Figure().subplots(1, 9)
    with pytest.raises(
        ValueError,
        match=r"ax must be an array or list of \d axes, one per panel; "
        r"got 9",
    ):
        draw(kind, models[name], name, ax=axes)


@pytest.mark.parametrize(("kind", "name"), CASES)
def test_unfitted_estimators(kind, name, models):
    with pytest.raises(NotFittedError):
        draw(kind, type(models[name])(), name)


@pytest.mark.parametrize(("kind", "name"), WRONG)
def test_unsupported_estimators(kind, name, models):
    rows = (spins(),) if kind is MomentsDisplay else ()
    with pytest.raises(
        TypeError, match=f"{kind.__name__} takes .* got {type(models[name]).__name__}"
    ):
        kind.from_estimator(models[name], *rows)


@pytest.mark.parametrize("kind", TAKES)
def test_error_lists_supported_estimators(kind):
    rows = (spins(),) if kind is MomentsDisplay else ()
    with pytest.raises(TypeError, match=r"of these classes: \w+.*; got LogisticRegression"):
        kind.from_estimator(LogisticRegression(), *rows)


def test_abbreviated_line_properties(models):
    """Abbreviated line properties override the defaults, as in matplotlib."""
    for kind, name, short, long in (
        (HistoryDisplay, "discrete", {"lw": 3.0, "c": "red"}, ("linewidth", 3.0)),
        (ChainsDisplay, "rbm", {"lw": 3.0}, ("linewidth", 3.0)),
        (MomentsDisplay, "rbm", {"ms": 5.0}, ("markersize", 5.0)),
        (StructurePathDisplay, "structure", {"lw": 3.0}, ("linewidth", 3.0)),
    ):
        display = draw(kind, models[name], name, **short)
        lines = [line for axes in get_axes(display) for line in axes.lines]
        assert any(getattr(line, f"get_{long[0]}")() == long[1] for line in lines), kind
    display = LogPartitionDisplay.from_results({"a": SINGLE}, lw=3.0)
    assert [line.get_linewidth() for line in display.intervals_] == [3.0, 3.0]


def test_invalid_parameters_create_no_figure(models):
    with pytest.raises(ValueError, match="a pair must be two columns"):
        StructurePathDisplay.from_estimator(models["structure"], pairs=[(0, 9)])
    with pytest.raises(ValueError, match="layout must be one of"):
        CouplingGraphDisplay.from_estimator(models["boltzmann"], layout="round")
    assert not plt.get_fignums()


def test_missing_matplotlib_error(monkeypatch):
    for name in [name for name in sys.modules if name.partition(".")[0] == "matplotlib"]:
        monkeypatch.setitem(sys.modules, name, None)
    with pytest.raises(ImportError) as caught:
        FiltersDisplay([[[0.0]]], [0]).plot()
    expected = 'Plots need matplotlib; install it with pip install "skmrf[plot]"'
    assert str(caught.value).startswith(expected)


# Coupling graphs ---------------------------------------------------------------------------------


def test_coupling_graph_of_ising_model():
    J = np.zeros((5, 5))
    J[0, 1] = J[1, 0] = 0.8
    J[1, 3] = J[3, 1] = -0.4
    J[2, 3] = J[3, 2] = 0.1
    energy = make_ising([(0, 1), (1, 3), (2, 3)], n_variables=5, coupling=J)
    display = CouplingGraphDisplay.from_estimator(DiscreteMRF.from_energy(energy))
    assert_allclose(display.weights, J, rtol=0, atol=1e-12)
    assert list(display.graph_.edges) == [(0, 1), (1, 3), (2, 3)]
    widths, colours = display.lines_.get_linewidths(), display.lines_.get_colors()
    assert_allclose(widths / widths[0], [1.0, 0.5, 0.125], rtol=1e-6)
    assert_array_equal(colours[0], colours[2])
    assert (colours[0] != colours[1]).any()
    for (i, j), segment in zip(display.graph_.edges, display.lines_.get_segments(), strict=True):
        assert_allclose(segment, [display.positions_[i], display.positions_[j]])
    assert_allclose(display.nodes_.get_offsets(), [display.positions_[i] for i in range(5)])
    assert display.positions_[4][1] < min(display.positions_[i][1] for i in range(4))
    assert {t.get_text() for t in display.ax_.texts} == set("01234")


def test_strongest_edges_are_plotted(models):
    model = models["boltzmann"]
    J = np.abs(np.triu(model.coupling_))
    display = CouplingGraphDisplay.from_estimator(model, n_strongest=4)
    assert set(display.graph_.edges) == {(0, 1), (1, 2), (2, 3), (0, 3)}
    assert display.ax_.get_title() == "4 strongest of 6 edges"
    level = np.sort(J[np.triu_indices(4, 1)])[-2]
    display.plot(threshold=level)
    (edge,) = display.graph_.edges
    assert J[edge] == J.max()
    assert display.plot(threshold=99.0).graph_.number_of_edges() == 0


def test_strengths_of_tables():
    """Strengths are norms of centred tables; larger tables are averaged over other columns."""
    rng = np.random.default_rng(0)
    pair, triple = rng.normal(size=(3, 2)), rng.normal(size=(2, 3, 4))
    graph = FactorGraph([2, 3, 4], [(1, 0), (0, 1, 2)], [pair, triple])
    display = CouplingGraphDisplay.from_estimator(DiscreteMRF.from_energy(graph))
    tables = {
        (0, 1): pair.T + triple.sum(axis=2) / 4,
        (0, 2): triple.sum(axis=1) / 3,
        (1, 2): triple.sum(axis=0) / 2,
    }
    for (i, j), table in tables.items():
        left = np.eye(len(table)) - 1 / len(table)
        right = np.eye(table.shape[1]) - 1 / table.shape[1]
        expected = np.linalg.norm(left @ table @ right)
        assert_allclose(display.weights[i, j], expected)
        assert display.weights[j, i] == display.weights[i, j]
    assert not display.signed
    assert len(np.unique(display.lines_.get_colors(), axis=0)) == 1


def test_strengths_match_structure_learner():
    rng = np.random.default_rng(0)
    first = rng.integers(3, size=2000)
    X = np.stack([first, (first + (rng.random(2000) < 0.3)) % 3, rng.integers(3, size=2000)], 1)
    learner = MRFStructureLearner("exact").fit(X)
    display = CouplingGraphDisplay.from_estimator(learner)
    assert list(display.graph_.edges) == [(0, 1)]
    assert_allclose(display.weights[0, 1], learner.strength_[0, 1])
    tables = CouplingGraphDisplay.from_estimator(DiscreteMRF.from_energy(learner.energy_))
    assert_allclose(tables.weights[0, 1], learner.strength_[0, 1])


@pytest.mark.parametrize("q", [2, 3])
def test_zero_potentials_have_infinite_strength(q):
    equal = np.where(np.eye(q) == 1, 0.0, -np.inf)
    graph = FactorGraph([q] * 3, [(0, 1), (1, 2)], [equal, np.eye(q)])
    display = CouplingGraphDisplay.from_estimator(DiscreteMRF.from_energy(graph))
    assert display.weights[0, 1] == np.inf
    widths = display.lines_.get_linewidths()
    assert widths[0] == widths[1]
    dashes = display.lines_.get_linestyles()
    assert dashes[0][1] is not None
    assert dashes[1][1] is None


def test_infinite_couplings_have_no_width_in_the_legend():
    graph = FactorGraph([2, 2], [(0, 1)], [np.where(np.eye(2) == 1, 0.0, -np.inf)])
    display = CouplingGraphDisplay.from_estimator(DiscreteMRF.from_energy(graph))
    legend = [t.get_text() for t in display.ax_.get_legend().get_texts()]
    assert legend == ["attract (coupling > 0)", "|coupling| infinite"]
    assert display.ax_.get_title() == "1 edge"


def test_signs_with_constant_column():
    X, model = spins(), DiscreteMRF("pairwise", "exact", alpha=0)
    without = CouplingGraphDisplay.from_estimator(model.fit(X))
    display = CouplingGraphDisplay.from_estimator(model.fit(np.column_stack([X, np.zeros(400)])))
    assert display.signed
    assert_allclose(display.weights[:4, :4], without.weights, rtol=0, atol=0.01)
    assert display.weights.min() < -0.1
    assert not display.weights[4].any()


def test_identical_columns_are_plotted():
    X = spins()
    learner = MRFStructureLearner("exact").fit(np.column_stack([X, X[:, 0]]))
    display = CouplingGraphDisplay.from_estimator(learner)
    assert display.graph_.edges[0, 4]["weight"] == np.inf
    assert all(np.isfinite(p).all() for p in display.positions_.values())


def test_layouts(models):
    model = models["boltzmann"]
    first, again = (CouplingGraphDisplay.from_estimator(model).positions_ for _ in range(2))
    assert first == again
    places = {i: (i, i**2) for i in range(4)}
    assert CouplingGraphDisplay.from_estimator(model, layout=places).positions_ == places
    circle = CouplingGraphDisplay.from_estimator(model, layout="circular").positions_
    assert_allclose([np.hypot(*p) for p in circle.values()], 1.0)
    with pytest.raises(ValueError, match=r"layout has no position for the columns \[2, 3\]"):
        CouplingGraphDisplay.from_estimator(model, layout={0: (0, 0), 1: (1, 1)})
    with pytest.raises(ValueError, match="layout must be one of"):
        CouplingGraphDisplay.from_estimator(model, layout="round")


def test_layout_of_disconnected_graph():
    """Components are separated, and neighbours are closer than columns of other components."""
    weights = nx.to_numpy_array(nx.disjoint_union(nx.cycle_graph(5), nx.path_graph(4)))
    places = CouplingGraphDisplay(weights, list("abcdefghi"), False).plot().positions_
    P = np.array([places[i] for i in range(9)])
    apart = np.linalg.norm(P[:, None] - P[None], axis=2)
    assert apart[:5, 5:].min() > apart[weights > 0].max()
    assert (apart + np.eye(9) > 0.1).all()


@pytest.mark.parametrize("joined", [0, 6])
def test_many_isolated_columns_are_omitted(joined):
    weights = np.zeros((300, 300))
    weights[:joined, :joined] = nx.to_numpy_array(nx.cycle_graph(joined))
    names = [f"column {i}" for i in range(300)]
    display = CouplingGraphDisplay(weights, names, True).plot()
    assert sorted(display.graph_) == list(range(joined))
    assert len(display.nodes_.get_offsets()) == len(display.ax_.texts) == joined
    left_out = f"{joined} edges; {300 - joined} columns without edges omitted"
    assert display.ax_.get_title() == left_out
    display.figure_.canvas.draw()
    everywhere = {i: (i, i % 7) for i in range(300)}
    assert len(CouplingGraphDisplay(weights, names, True).plot(layout=everywhere).graph_) == 300


@pytest.mark.parametrize(("joined", "isolated"), [(0, 9), (0, 20), (6, 20)])
def test_names_of_isolated_columns_do_not_overlap(joined, isolated):
    n = joined + isolated
    weights = np.zeros((n, n))
    weights[:joined, :joined] = nx.to_numpy_array(nx.cycle_graph(joined))
    names = [f"a very long column number {i}" for i in range(n)]
    display = CouplingGraphDisplay(weights, names, True).plot()
    display.figure_.draw_without_rendering()
    boxes = [text.get_tightbbox() for text in display.ax_.texts[joined:]]
    assert len(boxes) == isolated
    assert not any(a.overlaps(b) for a, b in combinations(boxes, 2))


def test_column_names(models):
    for name in ("discrete", "structure"):
        display = CouplingGraphDisplay.from_estimator(models[name])
        assert [t.get_text() for t in display.ax_.texts] == NAMES


@pytest.mark.parametrize(
    ("how", "message"),
    [
        ({"threshold": -1.0}, "threshold must be a number >= 0"),
        ({"n_strongest": 0}, "n_strongest must be an integer >= 1"),
    ],
)
def test_invalid_parameters_of_graphs(how, message, models):
    with pytest.raises(ValueError, match=message):
        CouplingGraphDisplay.from_estimator(models["boltzmann"], **how)


PARITY = np.where(np.indices((2, 2, 2)).sum(axis=0) % 2, -np.inf, 0.0)
GRAPHS = {
    "an impossible state": ([3, 2], [(0, 1)], [[[1.0, 0.0], [0.0, 0.5], [-np.inf, -np.inf]]]),
    "one zero": ([2, 2], [(0, 1)], [[[0.0, 1.0], [-np.inf, 0.0]]]),
    "parity": ([2, 2, 2], [(0, 1, 2)], [PARITY]),
    "chain": ([2, 3, 2], [(0, 1), (1, 2)], [np.eye(2, 3), np.eye(3, 2)]),
}


@pytest.mark.parametrize("name", GRAPHS)
def test_graph_matches_to_networkx(name):
    graph = FactorGraph(*GRAPHS[name])
    display = CouplingGraphDisplay.from_estimator(DiscreteMRF.from_energy(graph))
    edges = to_networkx(graph).edges
    shown = {(i, j) for i, j in np.argwhere(np.triu(display.weights)).tolist()}
    assert shown == set(edges) != set()
    for i, j in shown:
        kind = "weight" if display.signed else "strength"
        assert display.weights[i, j] == pytest.approx(edges[i, j][kind])


# Filters -----------------------------------------------------------------------------------------


def test_filters_of_an_rbm(models):
    model = models["rbm"]
    display = FiltersDisplay.from_estimator(model, n_filters=3)
    order = np.argsort(-np.linalg.norm(model.components_, axis=1))[:3]
    assert_array_equal(display.units, order)
    image = display.image_.get_array().filled(np.nan)
    assert image.shape == (17, 17)
    assert np.isnan(image[8]).all()
    assert np.isnan(image[:, 8]).all()
    assert np.isnan(image[9:, 9:]).all()
    corners = image[:8, :8], image[:8, 9:], image[9:, :8]
    for part, unit in zip(corners, order, strict=True):
        assert_allclose(part, model.components_[unit].reshape(8, 8))
    low, high = display.image_.get_clim()
    assert low == -high
    assert high == pytest.approx(np.quantile(np.abs(model.components_[order]), 0.995))


def test_filters_by_activity(models):
    model = models["rbm"]
    display = FiltersDisplay.from_estimator(model, sort="activity", image_shape=(4, 16))
    assert_array_equal(display.units, np.argsort(-model.hidden_stds_))
    assert display.filters.shape == (5, 4, 16)
    with pytest.raises(ValueError, match="only an RBM has"):
        FiltersDisplay.from_estimator(models["crbm"], sort="activity")


def test_filters_of_outputs(models):
    display = FiltersDisplay.from_estimator(models["crbm"])
    assert display.filters.shape == (4, 3, 4)
    weights = models["crbm"].energy_.weights.T[display.units].reshape(4, 3, 4)
    assert_allclose(display.filters, weights)
    assert (np.diff(np.linalg.norm(display.filters, axis=(1, 2))) <= 0).all()


def test_filter_grid_has_no_empty_columns():
    assert FiltersDisplay(np.ones((2, 16, 1)), [0, 1]).plot().image_.get_array().shape == (16, 3)


def test_invalid_filter_shapes(models):
    with pytest.raises(ValueError, match=r"image_shape=\(8, 7\) has 56 pixels, but there are 64"):
        FiltersDisplay.from_estimator(models["rbm"], image_shape=(8, 7))
    for shape in (8, (64.0, 1), (-8, -8), (8, 8, 1), ((8, 1), 8), "88"):
        with pytest.raises(ValueError, match="image_shape must be a pair of integers >= 1"):
            FiltersDisplay.from_estimator(models["rbm"], image_shape=shape)
    narrow = RBM(2, "pcd", max_iter=1, random_state=0).fit(digits()[:, :6])
    with pytest.raises(ValueError, match="6 visible units do not form a square"):
        FiltersDisplay.from_estimator(narrow)
    blind = CRBMStructuredPredictor(learner="lr", max_iter=1).fit(digits(), digits()[:, :4])
    with pytest.raises(ValueError, match="has no hidden units"):
        FiltersDisplay.from_estimator(blind)
    with pytest.raises(ValueError, match="n_filters must be an integer >= 1"):
        FiltersDisplay.from_estimator(models["rbm"], n_filters=0)


# Chains and intervals of log Z -------------------------------------------------------------------


# Chains -----------------------------------------------------------------------------------


def test_chains(models):
    how = {"n_chains": 3, "n_sweeps": 20, "n_discarded": 5, "thin": 2, "random_state": 1}
    traces = trace_chains(models["boltzmann"].energy_, **how)
    display = ChainsDisplay.from_estimator(models["boltzmann"], **how)
    assert len(display.axes_) == 1
    assert display.bars_ is None
    for line, values in zip(display.lines_, traces.log_potential, strict=True):
        assert_array_equal(line.get_ydata(), values)
        assert_array_equal(line.get_xdata(), np.arange(2, 21, 2))
    assert len({line.get_color() for line in display.lines_}) == 3


def test_swap_rates_of_chains(models):
    betas = [0.0, 0.25, 1.0]
    traces = trace_chains(models["rbm"].energy_, betas=betas, n_sweeps=10, random_state=0)
    display = ChainsDisplay.from_traces(traces)
    bars = [(bar.get_x(), bar.get_width(), bar.get_height()) for bar in display.bars_]
    assert_allclose(bars, [(0.0, 0.25, traces.swap_rates[0]), (0.25, 0.75, traces.swap_rates[1])])


def test_from_traces_rejects_estimators(models):
    with pytest.raises(
        TypeError,
        match=r"takes the result of skmrf.samplers.trace_chains; got "
        r"RBM",
    ):
        ChainsDisplay.from_traces(models["rbm"])


# Log Z ------------------------------------------------------------------------------------


def test_intervals_of_log_z():
    results = {
        "proved": LogPartition(1.0, 0.1, 0.5, 2.0, True, "ais", True),
        "estimated": LogPartition(1.2, 0.1, 0.7, 1.5, False, "ais", True),
        "exact": LogPartition(1.1, 0.0, 1.1, 1.1, True, "exact", True),
    }
    display = LogPartitionDisplay.from_results(results)
    drawn = [line.get_xdata().tolist() for line in display.intervals_]
    assert drawn == [[0.5, 1.0], [2.0, 1.0], [0.7, 1.2], [1.5, 1.2]]
    assert [set(line.get_ydata()) for line in display.intervals_] == [{0}, {0}, {1}, {1}]
    assert [float(line.get_xdata()[0]) for line in display.values_] == [1.0, 1.2, 1.1]
    solid = [line.get_linestyle() == "-" for line in display.intervals_]
    assert solid == [True, True, True, False]
    assert [t.get_text() for t in display.ax_.get_yticklabels()] == list(results)
    legend = {t.get_text() for t in display.ax_.get_legend().get_texts()}
    assert legend == {"limit: a bound", "limit: an estimate", "value", "exact"}
    proved = LogPartitionDisplay.from_results({"proved": results["proved"]})
    legend = {t.get_text() for t in proved.ax_.get_legend().get_texts()}
    assert legend == {"limit: a bound", "value"}


def test_infinite_limits():
    results = {"a": LogPartition(1.0, 0.1, -np.inf, np.inf, False, "bethe", True)}
    display = LogPartitionDisplay.from_results(results)
    ends = [line.get_xdata()[0] for line in display.intervals_]
    assert_allclose(ends, display.ax_.get_xlim())
    assert [line.get_marker() for line in display.intervals_] == ["<", ">"]
    display.figure_.draw_without_rendering()
    arrow = display.ax_.bbox.x0 - display.intervals_[0].get_markersize() * display.figure_.dpi / 72
    assert display.ax_.get_yticklabels()[0].get_window_extent().x1 < arrow
    legend = {t.get_text() for t in display.ax_.get_legend().get_texts()}
    assert legend == {"no limit", "value"}


def test_minus_infinity_is_plotted_as_arrow():
    nothing = LogPartition(-np.inf, 0.0, -np.inf, -np.inf, True, "exact", True)
    display = LogPartitionDisplay.from_results({"a": nothing})
    assert display.values_[0].get_marker() == "<"
    (text,) = display.ax_.get_legend().get_texts()
    assert text.get_text() == "exact: minus infinity"


def test_log_z_of_estimators(models):
    chosen = {"first": models["boltzmann"], "second": models["rbm"]}
    display = LogPartitionDisplay.from_estimators(chosen)
    drawn = [float(line.get_xdata()[0]) for line in display.values_]
    assert_allclose(drawn, [m.log_partition_ for m in chosen.values()])
    found = log_partition(models["boltzmann"].energy_)
    assert display.results["first"].value == pytest.approx(found.value)


@pytest.mark.parametrize("results", [{"a": 1.0}, {}, SINGLE, [SINGLE]])
def test_invalid_results(results, models):
    with pytest.raises(TypeError, match="results must be a dict from names to"):
        LogPartitionDisplay.from_results(results)
    with pytest.raises(TypeError, match=r"estimators must be a dict from names to .* got list"):
        LogPartitionDisplay.from_estimators([models["rbm"]])


# Weights of a CRF --------------------------------------------------------------------------------


def test_crf_weights_are_those_of_the_model(models):
    model = models["crf"]
    display = CRFWeightsDisplay.from_estimator(model, n_features=3)
    assert_array_equal(display.transitions, model.transition_)
    assert_array_equal(display.image_.get_array(), model.transition_)
    assert display.transitions[0, 1] > display.transitions[0, 0]  # the labels alternate
    weights = [weight for *_, weight in display.features]
    assert_allclose(np.abs(weights), np.sort(np.abs(model.coef_), axis=None)[::-1][:3])
    for feature, label, weight in display.features:
        assert model.coef_[int(label), int(feature.removeprefix("feature "))] == weight
    assert_allclose([bar.get_width() for bar in display.bars_], weights)
    named = CRFWeightsDisplay.from_estimator(model, n_features=1, feature_names=["up", "one"])
    assert named.features[0][0] == "up"


@pytest.mark.long
def test_crf_weights_of_dicts_use_the_vocabulary():
    X = [[{"word": w} for w in words.split()] for words in ("the cat", "the dog", "the fox runs")]
    y = [["DET", "NOUN"], ["DET", "NOUN"], ["DET", "NOUN", "VERB"]]
    for feature_labels in ("all", "observed"):  # dense and sparse coefficients
        model = CRF(alpha=0.01, feature_labels=feature_labels).fit(X, y)
        display = CRFWeightsDisplay.from_estimator(model, n_features=50)
        the = [
            label
            for name, label, weight in display.features
            if name == "word[0]=the" and weight > 0
        ]
        assert the == ["DET"], feature_labels


def test_crf_weights_of_the_edges_of_a_grid():
    """Rows of equal labels: edges to the right connect equal labels, edges below do not."""
    labels = np.broadcast_to(np.arange(6)[:, None] % 2, (6, 6))
    X = [np.random.default_rng(0).normal(size=(6, 6, 1))] * 3
    model = CRF("grid", "pseudo-likelihood", alpha=0.1).fit(X, [labels] * 3)
    right, below = (
        CRFWeightsDisplay.from_estimator(model, edge_feature=k).transitions for k in (0, 1)
    )
    assert np.trace(right) > np.trace(right[::-1])
    assert np.trace(below) < np.trace(below[::-1])
    with pytest.raises(ValueError, match="edge_feature must be an integer >= 0 and <= 1; got 2"):
        CRFWeightsDisplay.from_estimator(model, edge_feature=2)


def test_crf_weights_with_wrong_names(models):
    with pytest.raises(ValueError, match=r"feature_names has 1 names, .* has 2 features"):
        CRFWeightsDisplay.from_estimator(models["crf"], feature_names=["one"])
    for wrong in ("up", 2):
        with pytest.raises(ValueError, match="feature_names must be a list of names"):
            CRFWeightsDisplay.from_estimator(models["crf"], feature_names=wrong)
    assert not plt.get_fignums()
