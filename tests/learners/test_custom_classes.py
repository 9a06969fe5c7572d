"""Tests of a custom energy and a custom learner, which are written as in the guides."""

from typing import Any, NamedTuple

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy.special import expit
from sklearn.base import clone
from sklearn.model_selection import GridSearchCV
from zoo import enumerate_states

from skmrf import (
    CRF,
    RBM,
    BoltzmannMachine,
    CRBMStructuredPredictor,
    DiscreteMRF,
    MRFStructureLearner,
    NetworkPotentials,
    NNMRFBayesClassifier,
    NNMRFDensity,
)
from skmrf.energies import (
    BinaryPairwiseEnergy,
    BipartiteEnergy,
    DiscreteEnergy,
    FactorGraph,
    GibbsEnergy,
    LayeredEnergy,
    PairwiseEnergy,
)
from skmrf.energies.structured_protocols import HiddenLayerEnergy
from skmrf.exact.expectations import exact_model
from skmrf.inference import log_partition, map_assignment, marginals, sample
from skmrf.learners import (
    BP,
    CD,
    PCD,
    SMC,
    Batch,
    CliqueMoments,
    DataPhase,
    Exact,
    Learner,
    States,
    register,
)
from skmrf.learners.registry import LEARNERS, accepted
from skmrf.likelihood import ais
from skmrf.samplers import Product, spawn_generators, sweep, trace_chains
from skmrf.training import fit_energy

pytestmark = pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")


class RestartedState(NamedTuple):
    """State of the learner: positive phase, chains, and number of steps since the restart."""

    data: DataPhase
    X: Any
    generators: list
    age: int


class RestartedGibbs(Learner):
    """Gibbs chains that restart at uniform states every ``restart`` steps."""

    def __init__(self, n_chains=50, restart=10):
        self.n_chains = n_chains
        self.restart = restart

    def init(self, energy, batch, rng):
        """Return the state before the first step."""
        generators = spawn_generators(rng, self.n_chains)
        return RestartedState(DataPhase(energy, batch, rng), None, generators, self.restart)

    def step(self, energy, batch, state, rng):
        """Return both phases, the new state, and diagnostics."""
        X, age = state.X, state.age + 1
        if age >= self.restart:
            X, age = Product.uniform(energy.visible_states).sample(self.n_chains, rng), 0
        generators = list(state.generators)
        X, _ = sweep(energy, X, generators, n_sweeps=2)
        state = RestartedState(state.data, X, generators, age)
        return state.data(energy, batch), States(X), state, {"age": age}


@pytest.fixture
def registered():
    """Register the learner for one test and return its name."""
    register("restarted-gibbs", RestartedGibbs)
    yield "restarted-gibbs"
    del LEARNERS["restarted-gibbs"]


def make_binary_rows(seed):
    rng = np.random.default_rng(seed)
    return ((rng.random((80, 1)) < 0.5) ^ (rng.random((80, 4)) < 0.2)).astype(int)


SUPPORTED = [DiscreteMRF, BoltzmannMachine, RBM, MRFStructureLearner]
UNSUPPORTED = [CRBMStructuredPredictor, CRF, NNMRFDensity, NNMRFBayesClassifier]


def make_estimator(kind, learner):
    if kind in (NNMRFDensity, NNMRFBayesClassifier):
        return kind(NetworkPotentials(learner=learner, max_iter=3), random_state=0)
    options = {"states": (0, 1)} if kind is BoltzmannMachine else {}
    options |= {"n_components": 2} if kind is RBM else {}
    options |= {"alpha": 0.01} if kind in (BoltzmannMachine, RBM) else {}
    return kind(learner=learner, max_iter=3, random_state=0, **options)


@pytest.mark.parametrize("kind", SUPPORTED)
def test_learner_by_instance_and_by_name_are_equal(kind, registered, seed):
    X = make_binary_rows(seed)
    one = make_estimator(kind, RestartedGibbs()).fit(X)
    two = make_estimator(kind, registered).fit(X)
    assert "age" in one.history_
    assert one.score(X) == two.score(X)
    assert clone(one).fit(X).score(X) == one.score(X)


def test_grid_search_over_learner_parameters(seed):
    X = make_binary_rows(seed)
    search = GridSearchCV(
        make_estimator(RBM, RestartedGibbs()), {"learner__n_chains": [10, 20]}, cv=2
    ).fit(X)
    assert search.best_params_["learner__n_chains"] in (10, 20)


@pytest.mark.parametrize("kind", UNSUPPORTED)
@pytest.mark.parametrize("by_name", [True, False])
def test_unsupported_estimators_raise(kind, by_name, registered, seed):
    learner = registered if by_name else RestartedGibbs()
    X = make_binary_rows(seed)
    match = rf"{kind.__name__} cannot take the learner RestartedGibbs\(\): .* Take one of \['"
    with pytest.raises(ValueError, match=match) as error:
        make_estimator(kind, learner).fit(X * 1.0, X[:, 0])
    assert "restarted-gibbs" not in str(error.value)


class HiddenLayerGibbs(RestartedGibbs):
    """Learner for energies with a hidden layer."""

    requires = (HiddenLayerEnergy,)


def test_learner_of_a_boltzmann_machine_must_fit_the_hidden_units(seed):
    """The requirements are those of the energy that the number of hidden units implies."""
    X, model = make_binary_rows(seed), make_estimator(BoltzmannMachine, HiddenLayerGibbs())
    assert np.isfinite(clone(model).set_params(n_components=2).fit(X).score(X))
    for n_components in (0, "auto"):
        with pytest.raises(ValueError, match=r"^BoltzmannMachine cannot take the learner Hidden"):
            model.set_params(n_components=n_components).fit(X)


def test_register_raises_for_other_classes():
    with pytest.raises(TypeError, match=r"learner must be a subclass of skmrf.learners.Learner"):
        register("other", DiscreteMRF)
    with pytest.raises(ValueError, match=r"learner must be one of .*'restarted'"):
        make_estimator(DiscreteMRF, "restarted").fit(make_binary_rows(0))


N = 6


class UniformIsing(DiscreteEnergy):
    """Ising model with one coupling for all pairs and one bias for all variables."""

    def __init__(self, n_variables, coupling, bias):
        self.n_states = np.full(n_variables, 2)
        self.theta = {"coupling": np.array([coupling]), "bias": np.array([bias])}

    def with_theta(self, theta):
        return UniformIsing(self.n_variables, theta["coupling"][0], theta["bias"][0])

    def _statistics(self, X):
        total = (2.0 * np.asarray(X) - 1.0).sum(axis=1)
        return {"coupling": 0.5 * (total**2 - self.n_variables), "bias": total}

    def log_potential(self, X):
        return sum(self.theta[k][0] * v for k, v in self._statistics(X).items())

    def moments(self, phase):
        if isinstance(phase, CliqueMoments):
            return phase.moments
        found = self._statistics(phase.visible)
        return {k: np.array([phase.weights @ v]) for k, v in found.items()}

    def from_table_moments(self, flat):
        single, pair = np.split(flat, [2 * self.n_variables])
        spins = np.array([-1.0, 1.0])
        products = np.multiply.outer(spins, spins).ravel()
        parts = {"coupling": pair.reshape(-1, 4) @ products, "bias": single.reshape(-1, 2) @ spins}
        return {k: np.array([v.sum()]) for k, v in parts.items()}

    def penalty_groups(self):
        return {"coupling": np.array([0]), "bias": np.array([-1])}

    def factor_graph(self):
        spins, n = np.array([-1.0, 1.0]), self.n_variables
        pairs = [(i, j) for i in range(n) for j in range(i + 1, n)]
        single = [self.theta["bias"][0] * spins] * n
        pair = [self.theta["coupling"][0] * np.multiply.outer(spins, spins)] * len(pairs)
        return FactorGraph(self.n_states, [(i,) for i in range(n)] + pairs, single + pair)


def enumerate_distribution(energy):
    """Return all states and their probabilities, by enumeration."""
    X, _ = enumerate_states(energy.factor_graph())
    log_f = energy.log_potential(X)
    return X, np.exp(log_f - np.logaddexp.reduce(log_f)), np.logaddexp.reduce(log_f)


def test_queries():
    energy = UniformIsing(N, 0.2, 0.1)
    X, p, log_z = enumerate_distribution(energy)
    assert log_partition(energy).value == pytest.approx(log_z)
    assert_allclose(marginals(energy).single[0][1], p @ X[:, 0])
    assert_allclose(map_assignment(energy).states, X[np.argmax(p)])
    assert sample(energy, 5, random_state=0).shape == (5, N)
    assert trace_chains(energy, n_sweeps=20, random_state=0).states.shape[2] == N
    found = ais(energy, random_state=0)
    assert found.lower - 0.1 < log_z < found.upper + 0.1
    model = DiscreteMRF.from_energy(energy)
    assert_allclose(np.exp(model.score_samples(X)), p)


QUICK_LEARNERS = "exact", "pcd"


@pytest.mark.parametrize(
    "name",
    [
        name if name in QUICK_LEARNERS else pytest.param(name, marks=pytest.mark.long)
        for name in accepted(UniformIsing)
    ],
)
def test_learners_match_the_moments(name, seed):
    """Check that the learned model has the means and mean products of the rows."""
    rng = np.random.default_rng(seed)
    X, p, _ = enumerate_distribution(UniformIsing(N, 0.15, 0.2))
    rows = X[rng.choice(len(X), size=500, p=p)]
    learned = fit_energy(UniformIsing(N, 0.0, 0.0), name, rows, max_iter=100, random_state=rng)
    states, p, _ = enumerate_distribution(learned)
    for power in (1, 2):
        observed, modelled = rows.sum(axis=1) ** power, states.sum(axis=1) ** power
        bound = 5 * observed.std() / np.sqrt(500)
        assert abs(observed.mean() - p @ modelled) < bound or name == "cd"  # which is biased


def test_learners_of_other_protocols_raise(seed):
    energy = UniformIsing(N, 0.0, 0.0)
    assert "bp" not in accepted(UniformIsing)
    assert {"exact", "pcd", "psmc"} <= accepted(UniformIsing).keys()
    rows = np.zeros((4, N), dtype=int)
    for learner in (BP(), "bp"):
        with pytest.raises(ValueError, match=r"cannot take the learner BP.*TableEnergy.*'exact'"):
            fit_energy(energy, learner, rows, random_state=seed)


@pytest.mark.parametrize(
    ("rows", "match"),
    [
        (np.full((3, N), 2), r"Variable 0 has 2 states \(codes 0 to 1, -1 if missing\)"),
        (np.full((3, N), 0.5), "integer codes"),
        (np.zeros((3, N - 1)), f"one column per variable; got \\(3, {N - 1}\\)"),
    ],
)
def test_rows_that_do_not_fit_the_energy(rows, match):
    with pytest.raises(ValueError, match=match):
        fit_energy(UniformIsing(N, 0.0, 0.0), "pcd", rows)


def test_weights_count_as_repetition(seed):
    """Check that weight 2 is the same as a row twice, and that missing entries are accepted."""
    rows = np.random.default_rng(seed).integers(-1, 2, size=(30, N))
    first = PairwiseEnergy(np.zeros((N, N)), np.zeros(N))
    weights = np.random.default_rng(seed + 1).integers(3, size=30)
    models = [
        fit_energy(first, "exact", rows, sample_weight=weights, alpha=0.1),
        fit_energy(first, "exact", np.repeat(rows, weights, axis=0), alpha=0.1),
    ]
    for k, v in models[0].theta.items():
        assert_allclose(v, models[1].theta[k], atol=1e-4)


class RingIsing(BinaryPairwiseEnergy):
    """Ising model on a ring, with one coupling for all edges and one bias for all variables."""

    def __init__(self, n_variables, theta, states=(-1.0, 1.0)):
        self.n_states, self.states, self.theta = np.full(n_variables, 2), states, theta
        self.ring = np.eye(n_variables, k=1) + np.eye(n_variables, k=n_variables - 1)

    def with_theta(self, theta):
        return RingIsing(self.n_variables, theta, self.states)

    @property
    def coupling(self):
        return self.theta["coupling"][0] * (self.ring + self.ring.T)

    @property
    def bias(self):
        return np.full(self.n_variables, self.theta["bias"][0])

    def log_potential(self, X):
        S = np.array(self.states)[X]
        return 0.5 * ((S @ self.coupling) * S).sum(axis=1) + S @ self.bias

    def moments(self, phase):
        if isinstance(phase, CliqueMoments):
            return phase.moments
        S = np.array(self.states)[phase.visible]
        return self.from_pair_moments(S.T @ (S * phase.weights[:, None]), phase.weights @ S)

    def from_pair_moments(self, pairs, means):
        coupling = np.array([(self.ring * pairs).sum()])
        return {"coupling": coupling, "bias": np.array([means.sum()])}

    def from_table_moments(self, flat):
        single, pair = np.split(flat, [2 * self.n_variables])
        states = np.array(self.states)
        coupling = pair.reshape(-1, 4) @ np.multiply.outer(states, states).ravel()
        bias = single.reshape(-1, 2) @ states
        return {"coupling": np.array([coupling.sum()]), "bias": np.array([bias.sum()])}

    def penalty_groups(self):
        return {"coupling": np.array([0]), "bias": np.array([-1])}

    def factor_graph(self):
        states, (coupling,), (bias,) = np.array(self.states), *self.theta.values()
        single, pair = bias * states, coupling * np.multiply.outer(states, states)
        edges = list(zip(*np.nonzero(self.ring), strict=True))
        cliques = [(i,) for i in range(self.n_variables)] + edges
        return FactorGraph(
            self.n_states, cliques, [single] * self.n_variables + [pair] * len(edges)
        )


class ConvolutionalRBM(LayeredEnergy):
    """RBM whose hidden units share their weights: those of the next unit are shifted by one."""

    def __init__(self, n_hidden, theta):
        n_visible = len(theta["kernel"])
        self.theta, self.n_states = theta, np.full(n_visible + n_hidden, 2)
        self.shift = (np.arange(n_visible)[:, None] - np.arange(n_hidden)) % n_visible

    def with_theta(self, theta):
        return ConvolutionalRBM(self.shift.shape[1], theta)

    @property
    def weights(self):
        return self.theta["kernel"][self.shift]

    @property
    def visible_bias(self):
        return np.full(self.shift.shape[0], self.theta["bias"][0])

    @property
    def hidden_bias(self):
        return np.full(self.shift.shape[1], self.theta["bias"][1])

    def hidden_means(self, V):
        return expit(V @ self.weights + self.hidden_bias)

    def visible_means(self, H):
        return expit(H @ self.weights.T + self.visible_bias)

    def free_energy(self, V):
        hidden = np.logaddexp(0.0, V @ self.weights + self.hidden_bias)
        return -(hidden.sum(axis=1) + V @ self.visible_bias)

    def log_potential(self, X):
        V, H = np.split(np.asarray(X), [len(self.shift)], axis=1)
        return (H * (V @ self.weights + self.hidden_bias)).sum(axis=1) + V @ self.visible_bias

    def moments(self, phase):
        if isinstance(phase, CliqueMoments):
            return phase.moments
        V = phase.visible
        H = self.hidden_means(V) if phase.hidden is None else phase.hidden
        H = H * phase.weights[:, None]
        return self.from_layer_moments(V.T @ H, phase.weights @ V, H.sum(axis=0))

    def from_layer_moments(self, pairs, visible, hidden):
        kernel = np.bincount(self.shift.ravel(), pairs.ravel(), minlength=len(self.shift))
        return {"kernel": kernel, "bias": np.array([visible.sum(), hidden.sum()])}

    def from_table_moments(self, flat):
        single, pair = np.split(flat, [2 * self.n_variables])
        layers = np.split(single[1::2], [len(self.shift)])
        return self.from_layer_moments(pair[3::4].reshape(self.shift.shape), *layers)

    def penalty_groups(self):
        return {"kernel": np.zeros(len(self.shift), dtype=int), "bias": np.full(2, -1)}

    def factor_graph(self):
        n, n_hidden = self.shift.shape
        pairs = [(i, n + j) for i in range(n) for j in range(n_hidden)]
        biases = np.concatenate([self.visible_bias, self.hidden_bias])
        tables = [[0.0, b] for b in biases] + [[[0.0, 0.0], [0.0, w]] for w in self.weights.ravel()]
        return FactorGraph(self.n_states, [(i,) for i in range(len(biases))] + pairs, tables)


def make_rbm(n_hidden):
    theta = {"kernel": np.array([1.0, -0.8, 0.6, 0.3]), "bias": np.array([-0.3, 0.2])}
    return ConvolutionalRBM(n_hidden, theta)


def make_ring(states=(-1.0, 1.0)):
    return RingIsing(5, {"coupling": np.array([0.3]), "bias": np.array([0.2])}, states)


STRUCTURED = {
    "ring": make_ring(),
    "ring of other states": make_ring((0.0, 2.0)),
    "few hidden units": make_rbm(2),
    "many hidden units": make_rbm(5),
}
structured = pytest.mark.parametrize("name", STRUCTURED)


def enumerate_statistics(energy):
    """Return, shaped like theta, the mean and the standard deviation of the statistics."""
    X, p, _ = enumerate_distribution(energy)
    means = {k: np.zeros_like(v) for k, v in energy.theta.items()}
    deviations = {k: np.zeros_like(v) for k, v in energy.theta.items()}
    for name, mean in means.items():
        for k in range(len(mean)):
            unit = {n: np.zeros_like(v) for n, v in energy.theta.items()}
            unit[name][k] = 1.0
            values = energy.with_theta(unit).log_potential(X)
            mean[k] = p @ values
            deviations[name][k] = np.sqrt(p @ (values - mean[k]) ** 2)
    return means, deviations


@structured
def test_exact_sums_of_structured_energies(name):
    energy = STRUCTURED[name]
    _, _, log_z = enumerate_distribution(energy)
    expected, _ = enumerate_statistics(energy)
    for model in (exact_model(energy), exact_model(energy, sparse=True)):
        assert model.log_partition(energy) == pytest.approx(log_z)
    found, value = exact_model(energy).expected(energy)
    assert value == pytest.approx(log_z)
    assert found.keys() == expected.keys()
    for k, v in expected.items():
        assert_allclose(found[k], v, err_msg=k)


ERRORS = {  # of log Z in nats: smallest and largest
    "exact": (-1e-9, 1e-9),
    "ais": (-0.2, 0.2),
    "bpchain": (-0.2, 0.2),
    "trw": (0.0, 1.0),
    "mean-field": (-1.0, 0.0),
}


@structured
@pytest.mark.parametrize("method", ERRORS)
def test_log_partition_of_structured_energies(name, method, seed):
    energy = STRUCTURED[name]
    _, _, log_z = enumerate_distribution(energy)
    low, high = ERRORS[method]
    assert low <= log_partition(energy, method=method, random_state=seed).value - log_z <= high


@structured
def test_paths_of_structured_energies(name):
    """Compare the log marginals along paths of models with enumeration."""
    energy = STRUCTURED[name]
    other = energy.with_theta({k: v[::-1] - 0.5 for k, v in energy.theta.items()})
    X, _, _ = enumerate_distribution(energy)
    V, which = np.unique(X[:, : len(energy.visible_states)], axis=0, return_inverse=True)

    def sum_out(log_f):
        return np.array([np.logaddexp.reduce(log_f[which.ravel() == r]) for r in range(len(V))])

    first, last = energy.log_potential(X), other.log_potential(X)
    log_n_latent = np.log(len(X) / len(V))
    for beta in (0.0, 0.3, 1.0):
        mixed = (1 - beta) * first + beta * last
        assert_allclose(energy.along(other, V)(beta), sum_out(mixed), atol=1e-12)
        if energy.has_latent:
            scaled = sum_out(beta * first) - (1 - beta) * log_n_latent
            assert_allclose(energy.raised(V)(beta), scaled, atol=1e-12)


N_CHAINS = 4000
PHASES = {
    "exact": Exact(),
    "cd": CD(n_sweeps=30, start="random"),
    "pcd": PCD(n_chains=N_CHAINS, n_sweeps=30),
    "smc": SMC(n_particles=N_CHAINS, n_sweeps=5),
}


@structured
@pytest.mark.parametrize("learner", PHASES)
def test_gradients_of_structured_energies(name, learner, seed):
    """Compare the gradient of each learner with enumeration, in standard errors."""
    energy, learner = STRUCTURED[name], PHASES[learner]
    rng = np.random.default_rng(seed)
    rows = Batch(rng.integers(2, size=(N_CHAINS, len(energy.visible_states))).astype(np.int16))
    state = learner.init(energy, rows, rng)
    positive, negative, _, _ = learner.step(energy, rows, state, rng)
    gradient = energy.gradient(positive, negative, rows)
    observed = energy.moments(States(rows.X))
    tempered = energy.tempered(0.5)
    for model, agrees in ((energy, True), (tempered, False)):
        means, deviations = enumerate_statistics(model)
        errors = [
            np.abs(gradient[k] - (observed[k] - means[k])) / (deviations[k] / np.sqrt(N_CHAINS))
            for k in means
        ]
        assert (np.concatenate(errors).max() < 6) == agrees


@structured
@pytest.mark.parametrize("learner", ["exact", pytest.param("pcd", marks=pytest.mark.long)])
def test_learned_structured_energies(name, learner, seed):
    """Check that learning increases the likelihood of the rows to that of the true model."""
    truth, rng = STRUCTURED[name], np.random.default_rng(seed)
    X, p, _ = enumerate_distribution(truth)
    rows = X[rng.choice(len(X), size=500, p=p)][:, : len(truth.visible_states)]
    first = truth.with_theta(
        {k: v + rng.normal(0, 0.01, v.shape) for k, v in truth.tempered(0).theta.items()}
    )
    learned = fit_energy(first, learner, rows, max_iter=150, random_state=rng)

    def score(energy):
        return energy.log_marginal(rows).mean() - enumerate_distribution(energy)[2]

    assert score(first) < score(truth) - 0.02
    assert score(learned) > score(truth) - 0.01


@pytest.mark.parametrize("name", ["ring", "ring of other states"])
def test_exact_likelihood_of_incomplete_rows(name, seed):
    """Compare the likelihood of the observed entries with enumeration and finite differences."""
    energy, rng = STRUCTURED[name], np.random.default_rng(seed)
    rows = Batch(rng.integers(-1, 2, size=(20, energy.n_variables)).astype(np.int16))
    learner = Exact()
    state = learner.init(energy, rows, rng)

    def objective(theta):
        return learner.objective(energy.with_theta(theta), rows, state)

    X, p, _ = enumerate_distribution(energy)
    agrees = ((rows.X[:, None] == X) | (rows.X[:, None] == -1)).all(axis=2)
    value, gradient = objective(energy.theta)
    assert value == pytest.approx(np.log(agrees @ p).mean())
    for k, v in energy.theta.items():
        up, down = (objective(energy.theta | {k: v + step})[0] for step in (1e-5, -1e-5))
        assert gradient[k][0] == pytest.approx((up - down) / 2e-5, abs=1e-7)


class LogisticRegression(GibbsEnergy):
    """Logistic regression of one output on the inputs, without latent variables."""

    has_latent = False
    visible_states = np.array([2])

    def __init__(self, theta):
        self.theta = theta

    def with_theta(self, theta):
        return LogisticRegression(theta)

    def log_potential(self, X):
        return X[:, -1] * (X[:, :-1] @ self.theta["coef"])

    def gradient(self, positive, negative, batch=None):
        change = positive.visible[:, 0] - negative.visible[:, 0]
        return {"coef": positive.weights @ (batch.X * change[:, None])}

    def penalty_groups(self):
        return {"coef": np.zeros(len(self.theta["coef"]), dtype=int)}

    def at(self, batch):
        field = batch.X @ self.theta["coef"]
        biases = {"visible_bias": field[:, None], "hidden_bias": np.zeros((len(field), 0))}
        return BipartiteEnergy.from_theta({"weights": np.zeros((1, 0)), **biases})


def test_contrastive_divergence_of_a_conditional_energy(seed):
    """Check that CD recovers the coefficients of a logistic regression."""
    rng = np.random.default_rng(seed)
    X, coef = rng.normal(size=(2000, 2)), np.array([1.0, -0.5])
    Y = (rng.random((2000, 1)) < expit(X @ coef)[:, None]).astype(int)
    first = LogisticRegression({"coef": np.zeros(2)})
    learned = fit_energy(first, CD(), X, Y, max_iter=60, random_state=rng)
    assert_allclose(learned.theta["coef"], coef, atol=0.3)
