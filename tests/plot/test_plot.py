"""Displays: the numbers that are drawn, the axes they are drawn into, and whom they take."""

import subprocess
import sys
from itertools import combinations

import matplotlib.pyplot as plt
import networkx as nx
import numpy as np
import pandas as pd
import pytest
from matplotlib.colors import to_rgb
from matplotlib.figure import Figure
from numpy.testing import assert_allclose, assert_array_equal
from scipy.sparse import csr_matrix
from sklearn.datasets import load_digits
from sklearn.exceptions import NotFittedError
from sklearn.linear_model import LogisticRegression
from zoo import ZOO, enumerate_states

from skmrf import (
    RBM,
    BoltzmannMachine,
    CRBMStructuredPredictor,
    DiscreteMRF,
    MRFStructureLearner,
    NNMRFDensity,
)
from skmrf._types import LogPartition
from skmrf.datasets import make_ising
from skmrf.energies import FactorGraph
from skmrf.inference import log_partition, sample
from skmrf.io import to_networkx
from skmrf.plot import (
    ChainsDisplay,
    CouplingGraphDisplay,
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

NAMES = ["north", "east", "south", "west"]
SINGLE = LogPartition(1.0, 0.1, 0.5, 2.0, True, "ais", True)


@pytest.fixture(autouse=True)
def _no_figure_is_left():
    plt.close("all")
    yield
    plt.close("all")


def spins(n_rows=400):
    """Rows of four spins in a ring, one pair of which repels."""
    coupling = [0.6, -0.5, 0.4, 0.5]
    energy = make_ising("cycle", n_variables=4, coupling=coupling)
    return sample(energy, n_rows, random_state=0)


def digits():
    return (load_digits().data[:200] > 7.5).astype(int)


@pytest.fixture(scope="module")
def models():
    """A fitted estimator of every kind."""
    X, ink = spins(), digits()
    return {
        "discrete": DiscreteMRF(learner="psmc", max_iter=8, random_state=0).fit(
            pd.DataFrame(X, columns=NAMES)
        ),
        "boltzmann": BoltzmannMachine("exact", binarize=0.5).fit(X),
        "rbm": RBM(5, "pcd", max_iter=3, random_state=0).fit(ink),
        "crbm": CRBMStructuredPredictor(4, "mssvm", max_iter=2, random_state=0).fit(
            ink, ink[:, :12].reshape(-1, 3, 4)
        ),
        "structure": MRFStructureLearner(threshold=0.3, warmup=30, max_iter=60, random_state=0).fit(
            pd.DataFrame(X, columns=NAMES)
        ),
        "density": NNMRFDensity(learner="grid", max_iter=2, random_state=0).fit(
            np.random.default_rng(0).normal(size=(50, 2))
        ),
    }


# What all displays have in common -----------------------------------------------------------

ROWS = {"discrete": lambda: pd.DataFrame(spins(), columns=NAMES), "boltzmann": spins, "rbm": digits}
TAKES = {
    HistoryDisplay: ("discrete", "boltzmann", "rbm", "crbm", "structure", "density"),
    MomentsDisplay: ("discrete", "boltzmann", "rbm"),
    CouplingGraphDisplay: ("discrete", "boltzmann", "structure"),
    FiltersDisplay: ("rbm", "crbm"),
    ChainsDisplay: ("discrete", "boltzmann", "rbm"),
    LogPartitionDisplay: ("discrete", "boltzmann", "rbm", "density"),
    StructurePathDisplay: ("structure",),
}
CHEAP = {
    MomentsDisplay: {"n_samples": 50, "random_state": 0},
    ChainsDisplay: {"n_sweeps": 20, "betas": 3, "random_state": 0},
}
N_PANELS = {MomentsDisplay: 2, ChainsDisplay: 2}
CASES = [(display, name) for display, names in TAKES.items() for name in names]
WRONG = [(d, n) for d in TAKES for n in TAKES[HistoryDisplay] if n not in TAKES[d]]


def draw(display, model, name, **how):
    rows = (ROWS[name](),) if display is MomentsDisplay else ()
    return display.from_estimator(model, *rows, **(CHEAP.get(display, {}) | how))


def axes_of(display):
    return np.ravel(display.axes_ if hasattr(display, "axes_") else [display.ax_])


@pytest.mark.parametrize(("kind", "name"), CASES)
def test_given_axes_are_used(kind, name, models):
    """They are, whoever made them, and pyplot learns of no figure."""
    first = draw(kind, models[name], name)
    n = N_PANELS.get(kind, len(axes_of(first)))
    assert len(plt.get_fignums()) == 1
    assert first.figure_ is plt.figure(plt.get_fignums()[0])
    plt.close("all")
    axes = Figure().subplots(1, n, squeeze=False)[0]
    second = draw(kind, models[name], name, ax=axes[0] if n == 1 else list(axes))
    assert isinstance(second, kind)
    assert all(a is b for a, b in zip(axes_of(second), axes, strict=True))
    assert second.figure_ is axes[0].figure
    assert all(a.has_data() for a in axes)
    third = Figure().subplots(1, n, squeeze=False)[0]
    assert second.plot(ax=third) is second
    assert all(a is b for a, b in zip(axes_of(second), third, strict=True))
    assert not plt.get_fignums()


@pytest.mark.parametrize("kind", TAKES)
def test_another_number_of_axes_is_refused(kind, models):
    name = TAKES[kind][0]
    axes = Figure().subplots(1, 9)
    with pytest.raises(ValueError, match=r"ax must be \d axes, one a panel .*; got 9"):
        draw(kind, models[name], name, ax=axes)


@pytest.mark.parametrize(("kind", "name"), CASES)
def test_what_is_not_fitted_is_refused(kind, name, models):
    with pytest.raises(NotFittedError):
        draw(kind, type(models[name])(), name)


@pytest.mark.parametrize(("kind", "name"), WRONG)
def test_other_estimators_are_refused(kind, name, models):
    rows = (spins(),) if kind is MomentsDisplay else ()
    with pytest.raises(
        TypeError, match=f"{kind.__name__} takes .* got {type(models[name]).__name__}"
    ):
        kind.from_estimator(models[name], *rows)


@pytest.mark.parametrize("kind", TAKES)
def test_the_error_says_who_is_taken(kind):
    rows = (spins(),) if kind is MomentsDisplay else ()
    with pytest.raises(TypeError, match=r"of these classes: \w+.*; got LogisticRegression"):
        kind.from_estimator(LogisticRegression(), *rows)


def test_lines_take_short_names_of_properties(models):
    """As matplotlib does; the long name of the default gives way."""
    for kind, name, short, long in (
        (HistoryDisplay, "discrete", {"lw": 3.0, "c": "red"}, ("linewidth", 3.0)),
        (ChainsDisplay, "rbm", {"lw": 3.0}, ("linewidth", 3.0)),
        (MomentsDisplay, "rbm", {"ms": 5.0}, ("markersize", 5.0)),
        (StructurePathDisplay, "structure", {"lw": 3.0}, ("linewidth", 3.0)),
    ):
        display = draw(kind, models[name], name, **short)
        lines = [line for axes in axes_of(display) for line in axes.lines]
        assert any(getattr(line, f"get_{long[0]}")() == long[1] for line in lines), kind
    display = LogPartitionDisplay.from_results({"a": SINGLE}, lw=3.0)
    assert [line.get_linewidth() for line in display.intervals_] == [3.0, 3.0]


def test_refused_parameters_leave_no_figure(models):
    with pytest.raises(ValueError, match="a pair is two columns"):
        StructurePathDisplay.from_estimator(models["structure"], pairs=[(0, 9)])
    with pytest.raises(ValueError, match="layout must be one of"):
        CouplingGraphDisplay.from_estimator(models["boltzmann"], layout="round")
    assert not plt.get_fignums()


def test_importing_imports_no_matplotlib():
    code = "import sys, skmrf.plot; assert 'matplotlib' not in sys.modules"
    subprocess.run([sys.executable, "-c", code], check=True)


def test_without_matplotlib_the_extra_is_named():
    code = (
        "import sys; sys.modules['matplotlib'] = None\n"
        "from skmrf.plot import FiltersDisplay\n"
        "FiltersDisplay([[[0.0]]], [0]).plot()\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert 'ImportError: Plots need matplotlib; install it with pip install "skmrf[plot]"' in (
        done.stderr
    )


# History -----------------------------------------------------------------------------------


@pytest.mark.parametrize("name", TAKES[HistoryDisplay])
def test_history(name, models):
    history = models[name].history_
    display = HistoryDisplay.from_estimator(models[name], x="n_updates")
    assert 1 <= len(display.columns) <= 6
    for line, column in zip(display.lines_, display.columns, strict=True):
        assert_array_equal(line.get_xdata(), history["n_updates"])
        assert_allclose(line.get_ydata(), history[column])
    assert display.axes_[-1].get_xlabel() == "updates"


def test_scores_come_first_and_log_z_has_its_error(models):
    display = HistoryDisplay.from_estimator(models["discrete"])
    history = models["discrete"].history_
    assert list(display.columns)[:3] == ["log_partition", "gradient_rms", "learning_rate"]
    assert list(display.bands_) == ["log_partition"]
    edge = display.bands_["log_partition"].get_paths()[0].vertices
    at_first = edge[edge[:, 0] == 1][:, 1]
    value, error = history["log_partition"][0], history["log_partition_error"][0]
    assert_allclose([at_first.min(), at_first.max()], [value - 2 * error, value + 2 * error])


def test_names_of_history(models):
    display = HistoryDisplay.from_estimator(models["crbm"], names=["hinge", "validation_score"])
    assert list(display.columns) == ["hinge", "validation_score"]
    assert display.axes_[1].get_title() == "validation score (accuracy)"
    single = HistoryDisplay.from_estimator(models["crbm"], names="hinge", color="red")
    assert to_rgb(single.lines_[0].get_color()) == to_rgb("red")
    for names in (["hinges"], []):
        with pytest.raises(ValueError, match=r"the columns of history_ are .*hinge"):
            HistoryDisplay.from_estimator(models["crbm"], names=names)


def test_unknown_columns_are_shown_last():
    model = DiscreteMRF(learner="exact").fit(spins())
    model.history_["novelty"] = [0.5] * model.n_iter_
    display = HistoryDisplay.from_estimator(model)
    assert list(display.columns) == ["objective", "gradient_max", "novelty"]
    assert display.axes_[2].get_title() == "novelty"


def test_epochs_of_runs_are_counted_on():
    model = MRFStructureLearner("exact", random_state=0).fit(spins())
    epochs = np.array(model.history_["epoch"])
    assert (np.diff(epochs) < 0).any()
    drawn = HistoryDisplay.from_estimator(model).lines_[0].get_xdata()
    assert_array_equal(drawn, np.arange(1, len(epochs) + 1))


def test_scales_of_history():
    columns = {"gradient_rms": [1.0, 0.02], "learning_rate": [0.2, 0.1], "residual": [1.0, 0.0]}
    display = HistoryDisplay(columns, [1, 2]).plot()
    assert [axes.get_yscale() for axes in display.axes_] == ["log", "linear", "linear"]


def test_history_that_is_not_finite():
    columns = {"bound": [np.inf, np.inf], "score": [np.nan, np.nan], "ess": [2.0, np.inf]}
    display = HistoryDisplay(columns, [1, 2]).plot()
    assert display.axes_[2].get_ylim() == pytest.approx((0.0, 2.2))


def test_a_model_without_history_is_refused():
    model = DiscreteMRF.from_energy(ZOO["chain"](0))
    with pytest.raises(ValueError, match="history_ is empty"):
        HistoryDisplay.from_estimator(model)


# Moments -----------------------------------------------------------------------------------


def exact_moments(energy):
    """Probabilities of the states that are shown, column by column and then pair by pair."""
    states, log_f = enumerate_states(energy)
    p = np.exp(log_f - log_f.max())
    return moments(states, p / p.sum(), energy.n_states)


def moments(codes, weights, n_states):
    """Weighted shares, by loops; missing entries (-1) are left out."""
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


def rows_of(energy, n_rows, seed):
    states, log_f = enumerate_states(energy)
    p = np.exp(log_f - log_f.max())
    return states[np.random.default_rng(seed).choice(len(states), size=n_rows, p=p / p.sum())]


@pytest.mark.parametrize("name", ["chain", "cycle", "orders", "zeros", "constant_variables"])
def test_moments_are_those_of_enumeration(name, seed):
    energy = ZOO[name](seed)
    model, rows = DiscreteMRF.from_energy(energy), rows_of(energy, 500, seed).astype(float)
    rows[np.random.default_rng(seed).random(rows.shape) < 0.2] = np.nan
    display = MomentsDisplay.from_estimator(model, rows)
    codes = np.where(np.isnan(rows), -1, rows).astype(int)
    assert_allclose(display.model, exact_moments(energy), rtol=0, atol=1e-12)
    assert_allclose(display.data, moments(codes, np.ones(500), energy.n_states), atol=1e-12)
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
    """A row of weight two is two rows for shares; one of weight zero is none."""
    energy = ZOO["chain"](seed)
    model, rows = DiscreteMRF.from_energy(energy), rows_of(energy, 200, seed).astype(float)
    rows[np.random.default_rng(seed).random(rows.shape) < 0.2] = np.nan
    times = np.random.default_rng(seed).integers(3, size=200)
    weighted = MomentsDisplay.from_estimator(model, rows, sample_weight=times)
    repeated = MomentsDisplay.from_estimator(model, np.repeat(rows, times, axis=0))
    assert_allclose(weighted.data, repeated.data, atol=1e-12)
    seen = ~np.isnan(rows[:, 0])
    worth = times[seen].sum() ** 2 / (times[seen] ** 2).sum()
    ratio = (weighted.standard_error / repeated.standard_error)[weighted.kinds == "column"][0]
    assert ratio == pytest.approx(np.sqrt(times[seen].sum() / worth))
    equal = MomentsDisplay.from_estimator(model, rows, sample_weight=np.full(200, 0.5))
    assert_allclose(equal.z_, MomentsDisplay.from_estimator(model, rows).z_)
    with pytest.raises(ValueError, match="sample_weight"):
        MomentsDisplay.from_estimator(model, rows, sample_weight=-times)


@pytest.mark.parametrize("method", ["exact", "samples"])
def test_differences_are_in_standard_errors(method, seed):
    """Of rows that the model drew, the mean square of z is one, half of it from draws."""
    energy = ZOO["grid"](seed)
    model, how = DiscreteMRF.from_energy(energy), {"method": method, "n_samples": 1000}
    squares = []
    for k in range(60):
        random = np.random.default_rng([seed, k])
        rows = rows_of(energy, 1000, [seed, k])
        z = MomentsDisplay.from_estimator(model, rows, random_state=random, **how).z_
        plt.close("all")
        squares.append(np.mean(z**2))
    error = np.std(squares, ddof=1) / np.sqrt(60)
    assert error < 0.15
    assert abs(np.mean(squares) - 1) < 5 * error
    others = rows_of(energy.tempered(0.3), 1000, seed)
    z = MomentsDisplay.from_estimator(model, others, random_state=seed, **how).z_
    assert np.mean(z**2) > np.mean(squares) + 5 * np.std(squares)


def test_kinds_of_moments(models):
    X = spins()
    chain = DiscreteMRF([("north", "east"), ("east", "south", "west")], "exact")
    chain.fit(pd.DataFrame(X, columns=NAMES))
    kinds = MomentsDisplay.from_estimator(chain, pd.DataFrame(X, columns=NAMES)).kinds.tolist()
    inside, outside = "pair in a clique", "pair in no clique"
    assert kinds == ["column"] * 4 + [inside, outside, outside] + [inside] * 3
    full = draw(MomentsDisplay, models["boltzmann"], "boltzmann")
    assert full.kinds.tolist() == ["column"] * 4 + [inside] * 6
    assert set(draw(MomentsDisplay, models["rbm"], "rbm").kinds) == {"column", "pair"}


def test_moments_of_an_rbm(seed):
    """Against the sum over all states; the rows are grey, the draws are not."""
    ink = digits()[:, 18:26]
    model = RBM(2, "pcd", binarize=7.5, max_iter=200, random_state=seed).fit(8.0 * ink)
    states = (np.arange(256)[:, None] >> np.arange(8)) & 1
    p = np.exp(-model.energy_.astype(float).free_energy(states))
    display = MomentsDisplay.from_estimator(model, 8.0 * ink, n_samples=4000, random_state=seed)
    expected = moments(states, p / p.sum(), [2] * 8)
    assert_allclose(display.data, moments(ink, np.ones(200), [2] * 8))
    error = np.sqrt(expected * (1 - expected) / 4000) + 1e-3
    assert (np.abs(display.model - expected) < 5 * error).all()
    with pytest.raises(ValueError, match='of an RBM take method="samples"'):
        MomentsDisplay.from_estimator(model, 8.0 * ink, method="exact")


def test_moments_of_sparse_rows(models):
    ink = digits()
    how = {"n_samples": 20, "n_pairs": 10, "random_state": 0}
    dense, sparse = (
        MomentsDisplay.from_estimator(models["rbm"], X, **how) for X in (ink, csr_matrix(ink))
    )
    assert_array_equal(sparse.data, dense.data)
    assert_array_equal(sparse.z_, dense.z_)


def test_few_pairs_are_chosen(seed):
    energy = ZOO["chain"](seed)
    model, rows = DiscreteMRF.from_energy(energy), rows_of(energy, 100, seed)
    few = MomentsDisplay.from_estimator(model, rows, n_pairs=4, random_state=seed)
    assert len(few.model) == 6 + 4
    assert np.isin(few.model.round(12), exact_moments(energy).round(12)).all()
    none = MomentsDisplay.from_estimator(model, rows, n_pairs=0)
    assert set(none.kinds) == {"column"}


def test_pairs_that_no_row_shows_are_left_out():
    energy = ZOO["chain"](0)
    rows = rows_of(energy, 100, 0).astype(float)
    rows[:50, 0] = rows[50:, 1] = np.nan
    display = MomentsDisplay.from_estimator(DiscreteMRF.from_energy(energy), rows)
    assert len(display.model) == 6 + 14
    assert np.isfinite(display.z_).all()


def test_never_and_always_have_an_error():
    """A state that neither has differs by nothing; one that only the model has, by something."""
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
def test_bad_parameters_of_moments(how, message, models):
    with pytest.raises(ValueError, match=message):
        MomentsDisplay.from_estimator(models["boltzmann"], spins(), **how)


# Graphs ------------------------------------------------------------------------------------


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


# Filters -----------------------------------------------------------------------------------


def test_filters_of_an_rbm(models):
    model = models["rbm"]
    display = FiltersDisplay.from_estimator(model, n_filters=3)
    order = np.argsort(-np.linalg.norm(model.components_, axis=1))[:3]
    assert_array_equal(display.units, order)
    mosaic = display.image_.get_array().filled(np.nan)
    assert mosaic.shape == (17, 17)
    assert np.isnan(mosaic[8]).all()
    assert np.isnan(mosaic[:, 8]).all()
    assert np.isnan(mosaic[9:, 9:]).all()
    corners = mosaic[:8, :8], mosaic[:8, 9:], mosaic[9:, :8]
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


def test_a_mosaic_has_no_empty_columns():
    assert FiltersDisplay(np.ones((2, 16, 1)), [0, 1]).plot().image_.get_array().shape == (16, 3)


def test_shapes_of_filters_are_checked(models):
    with pytest.raises(ValueError, match=r"image_shape=\(8, 7\) has 56 pixels, but there are 64"):
        FiltersDisplay.from_estimator(models["rbm"], image_shape=(8, 7))
    narrow = RBM(2, "pcd", max_iter=1, random_state=0).fit(digits()[:, :6])
    with pytest.raises(ValueError, match="6 visible units make no square"):
        FiltersDisplay.from_estimator(narrow)
    blind = CRBMStructuredPredictor(learner="lr", max_iter=1).fit(digits(), digits()[:, :4])
    with pytest.raises(ValueError, match="has no hidden units"):
        FiltersDisplay.from_estimator(blind)
    with pytest.raises(ValueError, match="n_filters must be an integer >= 1"):
        FiltersDisplay.from_estimator(models["rbm"], n_filters=0)


# Chains ------------------------------------------------------------------------------------


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


def test_only_traces_are_taken(models):
    with pytest.raises(TypeError, match=r"takes what skmrf.samplers.trace_chains returns; got RBM"):
        ChainsDisplay.from_traces(models["rbm"])


# Log Z -------------------------------------------------------------------------------------


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


def test_limits_that_there_are_not():
    results = {"a": LogPartition(1.0, 0.1, -np.inf, np.inf, False, "bethe", True)}
    display = LogPartitionDisplay.from_results(results)
    ends = [line.get_xdata()[0] for line in display.intervals_]
    assert_allclose(ends, display.ax_.get_xlim())
    assert [line.get_marker() for line in display.intervals_] == ["<", ">"]
    legend = {t.get_text() for t in display.ax_.get_legend().get_texts()}
    assert legend == {"no limit", "value"}


def test_minus_infinity_is_no_point_on_the_axis():
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
def test_results_are_checked(results, models):
    with pytest.raises(TypeError, match="results must be a dict from names to"):
        LogPartitionDisplay.from_results(results)
    with pytest.raises(TypeError, match=r"estimators must be a dict from names to .* got list"):
        LogPartitionDisplay.from_estimators([models["rbm"]])


# Paths -------------------------------------------------------------------------------------


def test_path_of_a_learner(models):
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
    assert_allclose(display.returns_, [[50, 0.6]])  # the one that began late did not return
    drawn = {
        line.get_marker(): line.get_xydata()
        for line in display.ax_.lines
        if line.get_linestyle() == "None"
    }
    assert_allclose(drawn["x"], display.removals_)
    assert_allclose(drawn["^"], display.returns_)


def test_edges_that_a_penalty_left_are_kept():
    learner = MRFStructureLearner("exact", penalty="l1", alpha=0.05).fit(spins()[:, [0, 2, 1]])
    display = StructurePathDisplay.from_estimator(learner)
    kept = display.edges[display.kept].tolist()
    assert 0 < len(kept) < 3
    assert sorted(kept) == learner.edges_.tolist()


def test_removals_after_the_last_record():
    """Of one record, as a fit of one pair has: it is a point, and a cross if the edge went."""
    edges = np.array([(0, 1), (0, 2)])
    display = StructurePathDisplay(edges, [7], [[0.5, 0.3]], [True, False], list("abc")).plot()
    assert_allclose(display.removals_, [[7, 0.3]])
    assert display.returns_.shape == (0, 2)
    assert [line.get_marker() for line in display.lines_.values()] == ["o", "o"]


@pytest.mark.parametrize(
    ("pairs", "message"),
    [
        ([("north", "up")], r"pairs names \('north', 'up'\); a pair is two columns"),
        ([(0, 4)], "a pair is two columns"),
        ([(0, 1, 2)], "a pair is two columns"),
        ([(0, 0)], "was never in the model"),
    ],
)
def test_wrong_pairs_are_refused(pairs, message, models):
    with pytest.raises(ValueError, match=message):
        StructurePathDisplay.from_estimator(models["structure"], pairs=pairs)


def test_a_path_without_records_is_refused():
    learner = MRFStructureLearner("exact").fit(spins()[:, :1])
    with pytest.raises(ValueError, match="path_ has no record"):
        StructurePathDisplay.from_estimator(learner)


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
