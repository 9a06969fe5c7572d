"""Tests of displays of coupling graphs."""

import networkx as nx
import numpy as np
import pytest
from displayed_models import NAMES, spins
from numpy.testing import assert_allclose, assert_array_equal

from skmrf import DiscreteMRF, MRFStructureLearner
from skmrf.datasets import make_ising
from skmrf.energies import FactorGraph
from skmrf.io import to_networkx
from skmrf.plot import CouplingGraphDisplay

pytestmark = [
    pytest.mark.filterwarnings("ignore:Learning had not converged"),
    pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning"),
]


def test_couplings_of_a_known_model():
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


def test_edges_drawn_are_the_strongest(models):
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
    """Norms of centred tables; those of a larger clique are averaged over the others."""
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


def test_strengths_are_those_of_the_structure_learner():
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
def test_zero_potentials_are_infinitely_strong(q):
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


def test_a_constant_column_takes_no_signs_away():
    X, model = spins(), DiscreteMRF("pairwise", "exact")
    without = CouplingGraphDisplay.from_estimator(model.fit(X))
    display = CouplingGraphDisplay.from_estimator(model.fit(np.column_stack([X, np.zeros(400)])))
    assert display.signed
    assert_allclose(display.weights[:4, :4], without.weights, rtol=0, atol=0.01)
    assert display.weights.min() < -0.1
    assert not display.weights[4].any()


def test_columns_that_repeat_each_other_are_drawn():
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


def test_layouts_of_graphs_in_parts():
    """Parts keep apart, and columns next to each other are closer than others."""
    weights = nx.to_numpy_array(nx.disjoint_union(nx.cycle_graph(5), nx.path_graph(4)))
    places = CouplingGraphDisplay(weights, list("abcdefghi"), False).plot().positions_
    P = np.array([places[i] for i in range(9)])
    apart = np.linalg.norm(P[:, None] - P[None], axis=2)
    assert apart[:5, 5:].min() > apart[weights > 0].max()
    assert (apart + np.eye(9) > 0.1).all()


@pytest.mark.parametrize("joined", [0, 6])
def test_many_columns_without_an_edge_are_left_out(joined):
    weights = np.zeros((300, 300))
    weights[:joined, :joined] = nx.to_numpy_array(nx.cycle_graph(joined))
    names = [f"column {i}" for i in range(300)]
    display = CouplingGraphDisplay(weights, names, True).plot()
    assert sorted(display.graph_) == list(range(joined))
    assert len(display.nodes_.get_offsets()) == len(display.ax_.texts) == joined
    left_out = f"{joined} edges; {300 - joined} columns without one are left out"
    assert display.ax_.get_title() == left_out
    display.figure_.canvas.draw()
    everywhere = {i: (i, i % 7) for i in range(300)}
    assert len(CouplingGraphDisplay(weights, names, True).plot(layout=everywhere).graph_) == 300


def test_names_of_columns(models):
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
def test_bad_parameters_of_graphs(how, message, models):
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
def test_graphs_are_those_of_networkx(name):
    graph = FactorGraph(*GRAPHS[name])
    display = CouplingGraphDisplay.from_estimator(DiscreteMRF.from_energy(graph))
    edges = to_networkx(graph).edges
    shown = {(i, j) for i, j in np.argwhere(np.triu(display.weights)).tolist()}
    assert shown == set(edges) != set()
    for i, j in shown:
        kind = "weight" if display.signed else "strength"
        assert display.weights[i, j] == pytest.approx(edges[i, j][kind])
