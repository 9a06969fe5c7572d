"""Tests of models of tables on a device of JAX: chains, log Z, gradients and DiscreteMRF."""

import sys
from functools import partial
from itertools import product

import numpy as np
import pytest
from montecarlo import check_draws, check_mean_weight, random_product
from numpy.testing import assert_allclose, assert_array_equal
from zoo import enumerate_states, long, slow

from skmrf import BoltzmannMachine, DiscreteMRF, learners
from skmrf._utils.codes import MISSING
from skmrf._utils.phases import CliqueMoments, States
from skmrf.energies import FactorGraph
from skmrf.energies.layout import Layout
from skmrf.estimators._refinement import parameters_of
from skmrf.estimators._training import TrainingParameters
from skmrf.inference import sample
from skmrf.learners import CD, PCD, PSMC, PTT, SMC, ParallelTempering
from skmrf.likelihood import ais
from skmrf.likelihood.annealing_paths import AnnealingChains, ModelPath
from skmrf.samplers import Product, gibbs_queries, sweep
from skmrf.training import device as device_module
from skmrf.training.preconditioning import MatrixPreconditioner, TablePreconditioner

jax = pytest.importorskip("jax")
from test_device_chains import device_chains, exact_log_z, exact_rows, visible_distribution
from test_device_training import gradient_of_updates

from skmrf._jax import devices, in_order, open_device
from skmrf._jax.in_order import CHAINS_PER_KERNEL, kernel_states_in_order, loop_states_in_order

N_CHAINS = 4000
quiet = pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")


def test_loops_replace_kernels_that_jax_cannot_compile(monkeypatch):
    arrays = [np.zeros(k, np.float32) for k in ((3, 3), (2,), (3, 2), (3, 2), (3, 2))]
    for triton in (in_order.triton, None):
        monkeypatch.setattr(in_order, "triton", triton)
        draw = partial(in_order.draw_in_order)  # has no trace in JAX's cache
        assert ("pallas_call" in str(jax.make_jaxpr(draw)(*arrays))) == (triton is not None)


def make_graph(n_states, cliques, rng):
    """Return a factor graph with random tables."""
    shapes = [tuple(n_states[v] for v in clique) for clique in cliques]
    return FactorGraph(n_states, cliques, [rng.normal(0.0, 0.7, shape) for shape in shapes])


def make_graphs():
    rng = np.random.default_rng(4)
    pairs = [(0,), (3,), (0, 1), (3, 1), (0, 3), (2,), (1, 2), (1,), (4,), (4, 3)]
    return {
        "states": make_graph([3, 2, 1, 4, 2], pairs, rng),
        "binary": make_graph([2] * 4, [(0,), (2,), (3,), (0, 1), (2, 1), (3, 0), (1,)], rng),
        "no biases": make_graph([3, 1], [(1, 0)], rng),  # as many states as two binary variables
    }


GRAPHS = make_graphs()


@pytest.fixture(params=GRAPHS)
def graph(request):
    """Return one of the models."""
    return GRAPHS[request.param]


def on_device(graph):
    """Return a factor graph whose parameters and positions are arrays of JAX."""
    arrays = jax.tree.map(jax.numpy.asarray, (graph.device_arrays(), graph.theta))
    return graph.with_device_arrays(arrays[0]).with_theta(arrays[1])


# Chains ----------------------------------------------------------------------------------------


def test_sweeps_leave_the_model_invariant(graph, seed):
    rng = np.random.default_rng(seed)
    for reverse in (False, True):
        X = exact_rows(graph, N_CHAINS, rng)
        X, log_weights = sweep(graph, X, device_chains(rng), n_sweeps=3, reverse=reverse)
        check_draws(X, *visible_distribution(graph))
        assert not log_weights.any()


@pytest.mark.long
def test_sweeps_converge(graph, seed):
    """Chains from one state forget it."""
    rng = np.random.default_rng(seed)
    X = np.zeros((N_CHAINS, graph.n_variables), dtype=int)
    X, _ = sweep(graph, X, device_chains(rng), n_sweeps=100)
    check_draws(X, *visible_distribution(graph))


@pytest.mark.long
def test_wrong_model_is_noticed(seed):
    """The checks above have the power to see an error of 0.6 nats in one entry."""
    graph, rng = GRAPHS["states"], np.random.default_rng(seed)
    flat = graph.flat.copy()
    flat[0] += 0.6
    wrong = FactorGraph.from_layout(graph.layout, flat)
    X, _ = sweep(wrong, exact_rows(graph, N_CHAINS, rng), device_chains(rng), n_sweeps=50)
    with pytest.raises(AssertionError):
        check_draws(X, *visible_distribution(graph))


@pytest.mark.long
def test_order_of_the_variables(seed):
    """A forward sweep has the transitions of its definition, not those of a reverse sweep."""
    graph, rng = GRAPHS["states"], np.random.default_rng(seed)
    start = np.zeros((20 * N_CHAINS, graph.n_variables), dtype=int)
    for reverse in (False, True):
        found, _ = sweep(graph, start, device_chains(rng), reverse=reverse)
        states, p = one_sweep(graph, start[0], reverse)
        check_draws(found, states, p)
        with pytest.raises(AssertionError):
            check_draws(found, *one_sweep(graph, start[0], not reverse))


def one_sweep(graph, start, reverse):
    """Return all states and their probabilities after one sweep from a state."""
    states, log_f = enumerate_states(graph)
    numbers = {tuple(s): k for k, s in enumerate(states)}
    p = np.zeros(len(states))
    p[numbers[tuple(start)]] = 1.0
    for i in range(graph.n_variables)[:: -1 if reverse else 1]:
        after = np.zeros_like(p)
        for k in np.flatnonzero(p):
            same = (np.delete(states, i, axis=1) == np.delete(states[k], i)).all(axis=1)
            given = np.where(same, np.exp(log_f), 0.0)
            after += p[k] * given / given.sum()
        p = after
    return states, p


@pytest.mark.long
def test_clamped_entries_condition_the_other_entries(graph, seed):
    rng = np.random.default_rng(seed)
    unknown = np.full((N_CHAINS, graph.n_variables), MISSING)
    unknown[:, 0] = 1
    X = gibbs_queries.draw_missing(graph, unknown, rng, n_sweeps=100, device="jax")
    states, p = visible_distribution(graph)
    p = np.where(states[:, 0] == 1, p, 0.0)
    check_draws(X, states, p / p.sum())


@pytest.mark.long
@pytest.mark.parametrize("n_temperatures", [30, 100])
def test_annealing_estimates_log_z(graph, n_temperatures, seed):
    rng = np.random.default_rng(seed)
    reference = random_product(graph.n_states, rng)
    betas = np.linspace(0.0, 1.0, n_temperatures + 1)
    X = reference.sample(N_CHAINS, rng)
    chains = device_chains(rng)
    X, forward = sweep(graph, X, chains, betas=betas, reference=reference)
    check_mean_weight(forward, exact_log_z(graph))
    X, backward = exact_rows(graph, N_CHAINS, rng), betas[::-1]
    _, log_weights = sweep(graph, X, chains, betas=backward, reference=reference, reverse=True)
    check_mean_weight(log_weights, -exact_log_z(graph))


@pytest.mark.long
def test_chains_at_different_temperatures(seed):
    """Paths that differ by chain have the weights of separate paths."""
    graph, rng = GRAPHS["states"], np.random.default_rng(seed)
    reference = random_product(graph.n_states, rng)
    X = reference.sample(2 * N_CHAINS, rng)
    ends = np.repeat([0.5, 1.0], N_CHAINS)
    betas = np.linspace(0.0, 1.0, 41)[:, None] * ends
    _, log_weights = sweep(graph, X, device_chains(rng), betas=betas, reference=reference)
    states, log_f = enumerate_states(graph)
    log_p0 = reference.log_probability(states)
    for end, weights in zip((0.5, 1.0), log_weights.reshape(2, -1), strict=True):
        check_mean_weight(weights, np.logaddexp.reduce((1 - end) * log_p0 + end * log_f))


@pytest.mark.parametrize(
    ("n_states", "n_chains"),
    [([3, 2, 4], 3), ([5] * 7, CHAINS_PER_KERNEL[0] + 1), ([20] * 110, 5)],
    ids=str,
)
def test_kernel_of_a_gpu_draws_as_the_loop_does(n_states, n_chains, seed):
    """The kernel, interpreted on the CPU, and the loop draw the states of the definition."""
    rng, n_states = np.random.default_rng(seed), np.array(n_states)
    n, first = len(n_states), np.cumsum(n_states) - n_states
    owner = np.repeat(np.arange(n), n_states)
    coupling = rng.normal(size=(len(owner), len(owner)))
    coupling = np.where(np.equal.outer(owner, owner), 0.0, np.round(8 * (coupling + coupling.T)))
    order = rng.permutation(n)[: n - 1]  # one variable is not drawn
    V = np.stack([rng.integers(0, q, n_chains) for q in n_states[order]])
    scores = np.round(64 * rng.gumbel(size=(n_chains, len(owner)))).astype(np.float32)
    scale, coupling = rng.integers(1, 9, n_chains).astype(np.float32), coupling.astype(np.float32)
    arrays = coupling, first[order], n_states[order], scale, scores, V.astype(np.int32)
    drawn = np.asarray(jax.jit(loop_states_in_order)(*arrays))
    kernel = partial(kernel_states_in_order, interpret=True)
    assert_array_equal(drawn, kernel(*map(jax.numpy.asarray, arrays)))
    for c in range(n_chains):
        total = scores[c].copy()
        for k, i in enumerate(order):
            assert drawn[k, c] == total[first[i] :][: n_states[i]].argmax()
            change = coupling[first[i] + drawn[k, c]] - coupling[first[i] + V[k, c]]
            total += scale[c] * change


def test_samples_of_a_product(seed):
    """A compiled function draws independent variables with any numbers of states."""
    rng = np.random.default_rng(seed)
    for n_states in ([3, 1], [2, 4, 1, 3], [2, 2]):
        marginals = random_product(np.array(n_states), rng)
        draws = np.asarray(marginals.sample(N_CHAINS, device_chains(rng)))
        states = np.array(list(product(*map(range, n_states))))
        check_draws(draws, states, np.exp(marginals.log_probability(states)))
        assert marginals.is_binary == (n_states == [2, 2])


# Arrays of JAX -----------------------------------------------------------------------------------


@jax.default_matmul_precision("highest")  # by default, a GPU rounds products
def test_arrays_of_jax_have_the_values_of_numpy(graph, seed):
    rng, found = np.random.default_rng(seed), on_device(graph)
    states = enumerate_states(graph)[0]
    X = states[rng.integers(len(states), size=40)]
    assert_allclose(found.log_potential(jax.numpy.asarray(X)), graph.log_potential(X), atol=1e-5)
    phases = [States(X[:25], None, rng.normal(size=25)), States(X[25:])]
    gradient = found.gradient(*jax.tree.map(jax.numpy.asarray, phases))
    expected = graph.gradient(*phases)["log_potentials"]
    assert_allclose(gradient["log_potentials"], expected, atol=1e-6)
    closed = CliqueMoments(graph.row_moments(X))
    gradient = found.gradient(closed, jax.tree.map(jax.numpy.asarray, phases[1]))
    expected = graph.gradient(closed, phases[1])["log_potentials"]
    assert_allclose(gradient["log_potentials"], expected, atol=1e-6)


def test_couplings_of_binary_tables():
    """Tables of two-state variables have the couplings, biases and constant of the CPU."""
    graph = GRAPHS["binary"]
    for a, b in zip(on_device(graph).conditionals(), graph.conditionals(), strict=True):
        assert_allclose(a, b, atol=1e-5)


@pytest.mark.parametrize("curvature", [0.0, 0.02, "tables"])
@pytest.mark.parametrize("n_states", [[3, 2, 1, 4], [70, 3, 2, 2]], ids=str)
def test_preconditioner_of_a_device(n_states, curvature, seed):
    """Products of matrices give the result of the compiled functions of the CPU."""
    rng = np.random.default_rng(seed)
    layout = Layout.build(n_states, [(0,), (1,), (2,), (0, 1), (3, 1), (2, 0), (0, 3)])
    if curvature == "tables":
        curvature = rng.random(layout.n_cliques).repeat(layout.table_size)
    frequencies = [rng.dirichlet(np.full(q, 2.0)) for q in n_states]
    tables = TablePreconditioner(layout, frequencies, curvature)
    gradient = rng.normal(size=layout.n_parameters)
    with jax.enable_x64(True):
        given = {"log_potentials": jax.numpy.asarray(gradient)}
        found = MatrixPreconditioner(tables).steps(None, given)["log_potentials"]
    expected = tables(gradient)
    assert_allclose(found, expected, atol=1e-9 * np.abs(expected).max())


# Gradients ---------------------------------------------------------------------------------------

RUNS = [
    (PCD(n_chains=900, n_sweeps=20), "states", 0.0),
    (PCD(n_chains=900, n_sweeps=20), "states", 0.3),
    (PCD(n_chains=900, n_sweeps=20, rao_blackwell=True), "binary", 0.0),
]
LONG_RUNS = [
    (PCD(n_chains=900, n_sweeps=20, n_annealed=50, rao_blackwell=True), "states", 0.0),
    (CD(n_sweeps=30), "states", 0.3),
    (learners.TemperedTransitions(n_chains=1500, n_temperatures=3), "states", 0.0),
    (ParallelTempering(n_chains=1200, betas=4), "states", 0.0),
    (learners.ParticleFilteredMCMCMLE(n_particles=9000), "states", 0.0),
    (SMC(n_particles=600), "states", 0.0),
    (PSMC(n_particles=2000), "states", 0.0),
    (PTT(n_chains=2000, swap_every=2), "states", 0.0),
]
SLOW_RUNS = [
    (PCD(n_chains=900, n_sweeps=20), "no biases", 0.3),
    (CD(n_sweeps=25, start="random"), "states", 0.0),
    (PSMC(n_particles=2000, refresh="split"), "binary", 0.0),
]


@pytest.mark.parametrize(
    ("learner", "kind", "missing"),
    [*RUNS, *long(*LONG_RUNS), *slow(*SLOW_RUNS)],
    ids=lambda x: x if isinstance(x, str | float) else type(x).__name__,
)
def test_updates_follow_the_exact_gradient(learner, kind, missing):
    """Compiled updates with a rate near zero move along the gradient of the log-likelihood."""
    graph, rng = GRAPHS[kind], np.random.default_rng(2)
    X = np.stack([rng.integers(0, q, 1000) for q in graph.n_states], axis=1).astype(np.int16)
    if missing:
        known = np.minimum(1, graph.n_states - 1)
        X[::2] = np.where(rng.random((500, graph.n_variables)) < missing, MISSING, known)
    found = gradient_of_updates(graph, learner, X, rng)["log_potentials"]
    expected = exact_gradient(graph, X)
    assert_allclose(found, expected, atol=0.03)
    assert np.abs(expected).max() > 0.2  # the test has power


def exact_gradient(graph, X):
    """Return the gradient of the mean log-likelihood of rows, by enumeration."""
    states, p = visible_distribution(graph)
    total = -graph.row_moments(states, np.log(p))["log_potentials"]
    for row, count in zip(*np.unique(X, axis=0, return_counts=True), strict=True):
        fits = ((states == row) | (row == MISSING)).all(axis=1)
        moments = graph.row_moments(states[fits], np.log(p[fits]))["log_potentials"]
        total += count / len(X) * moments
    return total


# Log Z -------------------------------------------------------------------------------------------


def tree_and_model(rng):
    """Return a chain of variables, and a model with more tables in the same layout."""
    n_states = [3, 2, 4, 3]
    cliques = [(i,) for i in range(4)] + [(0, 1), (2, 1), (2, 3), (3, 0)]
    shapes = [tuple(n_states[v] for v in clique) for clique in cliques]
    tables = [rng.normal(size=shape) for shape in shapes]
    reference = FactorGraph(n_states, cliques, [*tables[:-1], np.zeros(shapes[-1])])
    moved = [t + 0.7 * rng.normal(size=t.shape) for t in tables]
    return reference, FactorGraph(n_states, cliques, moved)


@pytest.mark.long
def test_annealing_from_a_model(seed):
    """Chains of a device follow the path between two models, in both directions."""
    rng = np.random.default_rng(seed)
    reference, energy = tree_and_model(rng)
    path = ModelPath(energy, reference, None, AnnealingChains(N_CHAINS, device=open_device("jax")))
    log_ratio = exact_log_z(energy) - exact_log_z(reference)
    betas, chains = np.linspace(0.0, 1.0, 13), device_chains(rng)
    X, forward = path.anneal(exact_rows(reference, N_CHAINS, rng), betas, chains)
    check_mean_weight(forward, log_ratio)
    X = exact_rows(energy, N_CHAINS, rng)
    X, backward = path.anneal(X, betas[::-1], chains, reverse=True)
    check_mean_weight(backward, -log_ratio)
    slow = np.linspace(0.0, 1.0, 100)
    X, _ = path.anneal(exact_rows(reference, N_CHAINS, rng), slow, chains)
    check_draws(X, *visible_distribution(energy))
    X, _ = path.anneal(exact_rows(energy, N_CHAINS, rng), slow[::-1], chains, reverse=True)
    check_draws(X, *visible_distribution(reference))


@pytest.mark.parametrize("offset", [0.0, 3e4])
def test_log_z_of_tables(offset, seed):
    """Constants of tables, which may be large, are added to log Z in float64."""
    rng = np.random.default_rng(seed)
    reference, energy = (with_offsets(graph, offset) for graph in tree_and_model(rng))
    given = {"n_temperatures": 50, "device": "jax", "random_state": seed}
    for start in (None, Product.uniform(energy.n_states), reference):
        result = ais(energy, reference=start, **given)
        assert result.lower - 0.05 < exact_log_z(energy) < result.upper + 0.05
        assert result.upper - result.lower < 0.5


def with_offsets(graph, offset):
    """Return a graph with a constant in each table, and the effect of a state in two tables."""
    tables = [table + offset * (1 + k) for k, table in enumerate(graph.log_potentials)]
    tables[0] = tables[0] + [2 * offset, 0, 0]
    tables[4] = tables[4] - [[2 * offset], [0], [0]]
    return FactorGraph(graph.n_states, [*graph.cliques, ()], [*tables, np.array(offset + 1.5)])


@quiet
def test_variables_with_one_state():
    for table in (np.zeros((1, 1)), np.full((1, 1), 2.0)):
        graph = FactorGraph([1, 1], [(0, 1)], [table])
        X = sample(graph, 3, method="gibbs", device="jax", n_sweeps=2, random_state=0)
        assert_array_equal(X, np.zeros((3, 2)))
        assert ais(graph, device="jax", random_state=0).value == pytest.approx(table[0, 0])
    X = np.zeros((5, 3))
    assert fit(X).score(X) == pytest.approx(0.0)


def test_models_that_a_device_cannot_sample():
    options = {"method": "gibbs", "device": "jax"}
    triple = FactorGraph([2, 2, 3], [(0, 1, 2)], [np.zeros((2, 2, 3))])
    with pytest.raises(ValueError, match=r'a table of 3 variables. Use device="cpu"'):
        sample(triple, 3, **options)
    for worst, message in ((-np.inf, "without zero potentials"), (1e7, "differ by up to 6.67e")):
        graph = FactorGraph([3], [(0,)], [[0.0, 1.0, worst]])
        with pytest.raises(ValueError, match=message):
            sample(graph, 3, **options)


# DiscreteMRF -------------------------------------------------------------------------------------

SOURCE = np.random.default_rng(0).integers(0, 3, (900, 1))
NOISE = np.random.default_rng(1)
ROWS = np.where(NOISE.random((900, 5)) < 0.6, SOURCE, NOISE.integers(0, 3, (900, 5)))
ROWS[:, 4] = np.minimum(ROWS[:, 4], 1)


def fit(X=ROWS, **options):
    """Return a model that is fitted on the default device of JAX."""
    given = {"learner": "pcd", "alpha": 0.01, "device": "jax", "random_state": 0, "max_iter": 3}
    return DiscreteMRF(**given | options).fit(X)


@pytest.mark.parametrize("learner", [*long("pcd"), *slow("cd", "ptt")])
@quiet
def test_fits_are_as_good_as_on_the_cpu(learner):
    options = {"learner": learner, "max_iter": 60, "optimizer": "adam", "learning_rate": 0.05}
    scores = [fit(device=name, **options).score(ROWS) for name in ("cpu", "jax")]
    best, independent = (
        DiscreteMRF(cliques, "exact", alpha=0.01).fit(ROWS).score(ROWS)
        for cliques in ("pairwise", "independent")
    )
    assert best > independent + 0.3
    assert scores[1] > best - 0.05
    assert abs(scores[0] - scores[1]) < 0.03


@quiet
@pytest.mark.parametrize("estimator", [*slow(DiscreteMRF), *long(BoltzmannMachine)])
def test_queries_of_a_fitted_model(estimator, monkeypatch):
    """Log Z and samples come from chains of the device; parameters are arrays of numpy."""
    used, ais_module = [], sys.modules["skmrf.likelihood.ais"]
    for module in (gibbs_queries, ais_module):
        monkeypatch.setattr(
            module, "open_device", lambda name: used.append(name) or open_device(name)
        )
    monkeypatch.setattr("skmrf.exact.expectations.quick_exact_model", lambda *_, **__: None)
    monkeypatch.setattr("skmrf.inference.row_queries.QUICK_ENTRIES", 0)
    monkeypatch.setattr("skmrf.inference.row_queries.max_quick_entries", lambda: -1)
    X = ROWS if estimator is DiscreteMRF else np.where(ROWS > 0, 1, -1)
    options = {"device": "jax", "max_iter": 20, "random_state": 0}
    options |= {"alpha": 0.001} if estimator is BoltzmannMachine else {}
    model = estimator(learner="pcd", **options).fit(X)
    used.clear()
    assert model.log_partition_method_ == "ais"
    lower, upper = model.log_partition_interval_
    assert lower - 0.05 < exact_log_z(model.energy_) < upper + 0.05
    assert all(type(v) is np.ndarray for v in model.energy_.theta.values())
    assert used == ["jax"]
    with pytest.warns(UserWarning, match="The samples are states of Gibbs chains"):
        draws = model.sample(300, random_state=0)
    assert used == ["jax"] * 2
    drawn, given = ((rows[:, 1:4] == rows[:, :1]).mean() for rows in (draws, X))
    assert drawn == pytest.approx(given, abs=0.08)


@pytest.mark.long
@quiet
def test_refinement_on_a_device(monkeypatch):
    """The defaults train on the device after pseudo-likelihood, and the model is as good."""
    rng = np.random.default_rng(7)
    pairs = [(i, j) for i in range(11) for j in range(i) if rng.random() < 0.4]
    graph = make_graph([3 + i % 2 for i in range(11)], [(i,) for i in range(11)] + pairs, rng)
    X, test = np.split(sample(graph, 3000, method="exact", random_state=0), [1000])
    calls, call = [], device_module.DeviceUpdates._call
    monkeypatch.setattr(
        device_module.DeviceUpdates,
        "_call",
        lambda self, *args: calls.append(1) or call(self, *args),
    )
    scores = []
    for name in ("cpu", "jax"):
        model = DiscreteMRF(device=name, max_iter=100, random_state=0).fit(X)
        assert bool(calls) == (name == "jax")
        scores.append(model.score(test))
    independent = DiscreteMRF("independent").fit(X).score(test)
    assert min(scores) > independent + 1.0
    assert abs(scores[0] - scores[1]) < 0.05


def test_large_refinements_run_on_the_cpu():
    """A device keeps matrices with a row per category of each column."""
    parameters = TrainingParameters.of(DiscreteMRF(device="jax"))
    for n_states, name in (([4096], "jax"), ([4000, 97], "cpu")):
        graph = FactorGraph.from_layout(Layout.build(n_states, [(0,)]))
        assert parameters_of(parameters, graph).device == name


@quiet
def test_solvers_of_the_automatic_choice_run_on_the_cpu():
    """Fits by exact sums give the same model with and without a device."""
    for options in ({"learner": "auto"}, {"learner": "auto", "alpha": "auto"}):
        found, expected = (fit(device=name, max_iter=None, **options) for name in ("jax", "cpu"))
        assert_array_equal(found.energy_.flat, expected.energy_.flat)


@quiet
def test_training_continues_on_another_device():
    X = ROWS.astype(float)
    X[::3, 1] = np.nan
    model = fit(X, warm_start=True)
    model.set_params(device="cpu").fit(X)
    model.set_params(device="jax").fit(X)
    assert model.n_iter_ == 9
    model.partial_fit(X)
    assert model.n_iter_ == 10
    assert np.isfinite(model.energy_.flat).all()


@pytest.mark.long
@quiet
def test_graphs_of_equal_sizes_are_not_confused():
    """A compiled function is used for another graph with the same shapes, with its own tables."""
    compiled = []
    pairs = [(1, 2), (0, 3)]
    models = ([0, 1, 2, 4], [(0, 1), (2, 3)]), ([0, 1, 2, 4], pairs), ([4, 1, 2, 0], pairs)
    for columns, pairs in models:
        X, cliques = ROWS[:, columns], [(i,) for i in range(4)] + pairs
        score = fit(X, learning_rate=0.05, cliques=cliques, max_iter=40).score(X)
        best = DiscreteMRF(cliques, "exact", alpha=0.01).fit(X).score(X)
        independent = DiscreteMRF("independent").fit(X).score(X)
        assert independent + 0.1 < best - 0.02 < score
        compiled.append(list(devices._COMPILED.values()))
    assert compiled[0] == compiled[1]


@quiet
def test_parts_of_an_epoch_compile_once(monkeypatch):
    devices._COMPILED.clear()
    monkeypatch.setattr(device_module, "MAX_CALL", 4)
    fit(ROWS, batch_size=-(-len(ROWS) // 5), max_iter=2)  # five minibatches in two parts
    assert [f.compiled._cache_size() for f in devices._COMPILED.values()] == [1]


@quiet
@pytest.mark.parametrize("missing", [*slow(0.0), *long(0.2)])
def test_columns_with_many_categories(missing):
    """Codes above 255 need more than one byte on the device."""
    rng = np.random.default_rng(0)
    first = np.r_[np.arange(300), rng.integers(200, 300, 1200)]
    X = np.c_[first, np.where(rng.random(1500) < 0.9, first % 2, 1 - first % 2)].astype(float)
    given = np.where(rng.random(1500) < missing, np.nan, X[:, 1])
    options = {"learner": "cd", "alpha": 1e-4, "max_iter": 15, "learning_rate": 0.1}
    options["cliques"] = [(0,), (1,), (0, 1)]
    scores = [fit(np.c_[first, given], device=d, **options).score(X) for d in ("cpu", "jax")]
    assert abs(scores[0] - scores[1]) < 0.02


def test_wrong_models_for_a_device():
    cases = [
        ({"cliques": [(0,), ()]}, r"tables of one or two variables, but clique \(\) has 0"),
        ({"cliques": [(0, 1, 2)]}, r"tables of one or two variables, but clique \(0, 1, 2\) has 3"),
        ({"cliques": [(0, 1), (2, 3)], "tie": [[0, 1]]}, r"cannot train tables that are tied"),
        ({"cliques": [(0, 1), (1, 0)]}, r"clique \(1, 0\) occurs twice"),
        ({"learner": "exact"}, r"Exact\(\) does not run on a device.*'cd', 'mcmc-mle'.*cpu"),
        ({"learner": "pseudo-likelihood"}, r"PseudoLikelihood\(\) does not run on a device"),
        ({"learner": "bpchain-cd"}, r"BPChainCD\(\) does not run on a device"),
        ({"device": "gpus"}, "device must be one of"),
        ({"max_bytes": 2000}, r"about 2352 bytes .* all 14 states .* more than 2000"),
    ]
    for options, message in cases:
        with pytest.raises(ValueError, match=message):
            fit(**options)


def test_memory_of_the_matrix(monkeypatch):
    """The error names the bytes of the matrix over all states."""
    monkeypatch.setattr(devices.Device, "free_bytes", 1e5)  # enough without the matrix
    X = np.arange(300).reshape(-1, 1) % [50, 60]
    with pytest.raises(MemoryError, match=r"needs about \d.* bytes of the device, and 1e\+05 are"):
        fit(X, cliques=[(0,), (1,)])


@pytest.mark.long
@quiet
def test_penalties_and_early_stopping():
    for penalty in ("l1", "group-l1"):
        model = fit(penalty=penalty, alpha=0.5, max_iter=30)
        assert all((t == 0).all() for t in model.log_potentials_[5:])
    assert fit(early_stopping=True, n_iter_no_change=2, max_iter=200).n_iter_ < 200


@pytest.mark.long
def test_chains_of_tables_are_divided_among_devices(run_on_devices):
    """Each device draws its own chains, and the model is that of one device."""
    run_on_devices("""
        from test_device_arrays import *
        from test_device_tables import GRAPHS, ROWS, test_annealing_estimates_log_z
        from skmrf._jax import in_order

        options = dict(alpha=0.01, device="jax", max_iter=6, random_state=0)
        model = DiscreteMRF(learner=PCD(n_chains=300), **options)
        expected, alone = fit_and_record(model, ROWS, n_found=1)
        found, carry = fit_and_record(model, ROWS)
        assert shapes(carry["learner"]["X"]) == [(100, 5)] * 3
        assert_array_equal(carry["learner"]["X"], alone["learner"]["X"])
        assert_allclose(found.energy_.flat, expected.energy_.flat, atol=1e-5)
        assert np.abs(found.energy_.flat[-6:]).max() > 0.05
        test_annealing_estimates_log_z(GRAPHS["states"], 100, 0)
        options = {"device": "jax", "random_state": 0, "method": "gibbs", "n_sweeps": 20}
        states = sample(GRAPHS["states"], 60, **options)
        first = devices.Device(jax.devices()[:1])
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(devices, "find_device", lambda _: first)
            assert_array_equal(sample(GRAPHS["states"], 60, **options), states)
    """)
