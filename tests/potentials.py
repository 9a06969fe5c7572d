"""Models for tests of inference, queries with their methods, and results by enumeration."""

import numpy as np
import pytest
import twins
from zoo import ZOO, enumerate_states

from skmrf._utils.results import Assignment, LogPartition, Marginals
from skmrf.energies import NeuralEnergy, PairwiseEnergy
from skmrf.inference import log_partition, map_assignment, marginal_map, marginals, sample
from skmrf.samplers.chained_bp import ChainedSampler, ChainSettings
from skmrf.variational.belief_propagation import Propagation
from skmrf.variational.mixtures import Mixture

COMPLETE = [(0, 1), (0, 2), (1, 2)]

FINE = {"n_points": 41, "n_draws": 2**14}

each_entropy = pytest.mark.parametrize("entropy", ["joint", "bethe"])


def mixture_of(seed, n_states, n_components=2, *, diagonal=False, spread=1.0):
    """Return a random mixture with correlated continuous variables."""
    rng = np.random.default_rng(seed)
    n_states = np.array(n_states)
    m, q = int((n_states == 0).sum()), n_states[n_states > 0]
    roots = rng.normal(0, 0.5, size=(n_components, m, m))
    covariances = roots @ roots.transpose(0, 2, 1) + 0.5 * np.eye(m)
    if diagonal:
        covariances *= np.eye(m)
    tables = np.zeros((n_components, len(q), max(1, *n_states)))
    for d, size in enumerate(q):
        tables[:, d, :size] = rng.dirichlet(np.full(size, 3.0), size=n_components)
    return Mixture(
        n_states,
        np.log(rng.dirichlet(np.full(n_components, 5.0))),
        rng.normal(0, spread, size=(n_components, m)),
        covariances,
        tables,
    )


def base_precision(rng, m, scale=0.3):
    """Return a random positive definite matrix with couplings."""
    A = rng.normal(0, scale, size=(m, m))
    return A @ A.T + scale * np.eye(m)


def neural(seed, n_states, edges, *, scale=1.0):
    """Return a neural energy whose networks are large compared to its Gaussian base."""
    rng = np.random.default_rng(seed)
    m = list(n_states).count(0)
    energy = NeuralEnergy.random(
        n_states,
        edges,
        node_layers=(4, 3),
        edge_layers=(4, 3),
        mean=rng.normal(size=m),
        precision=base_precision(rng, m),
        random_state=rng,
    )
    noise = {k: v + rng.normal(0, 0.4, v.shape) for k, v in energy.theta.items()}
    for v in noise.values():
        v[:, -1] *= scale
    return energy.with_theta(noise)


def smooth(seed, n_states, edges):
    """Return a neural energy with smooth networks of one hidden layer.

    No unit has its kink near the data: half of the units are linear there, the others exponential.
    """
    rng = np.random.default_rng(seed)
    energy = neural(seed, n_states, edges)
    slots, theta = energy.n_slots, {}
    for name, k in (("nodes", 1), ("edges", 2)):
        n = len(energy.theta[name])
        first = rng.uniform(-0.15, 0.15, size=(n, k * slots * 4))
        biases = np.tile([2.0, 2.0, -2.0, -2.0], (n, 1))
        second = rng.normal(0, 1.0, size=(n, 4))
        second[:, :2] = [[0.7, -0.7]]
        last = np.concatenate([rng.normal(0, 0.3, size=(n, 1)), np.ones((n, 1))], axis=1)
        theta[name] = np.concatenate([first, biases, second, last], axis=1)
    return NeuralEnergy(theta, edges, n_states, ((4,), (4,)), energy.mean, energy.precision)


MIXED = [0, 2, 0]


PRODUCTS = ["sum", "max", "mixed"]
DTYPES = [np.float64, np.float32]

each_product = pytest.mark.parametrize("product", PRODUCTS)
each_dtype = pytest.mark.parametrize("dtype", DTYPES)


def layers(rng, n_visible, n_hidden, n_rows=1, *, scale=1.0, field=1.0, dtype=float):
    """Draw the weights and the biases of two layers of units."""
    weights = rng.normal(0.0, scale, size=(n_visible, n_hidden))
    visible = rng.normal(0.0, field, size=(n_rows, n_visible))
    hidden = rng.normal(0.0, field, size=(n_rows, n_hidden))
    return tuple(a.astype(dtype) for a in (weights, visible, hidden))


def log_marginals(weights, visible, hidden):
    """Return all visible states and the log of the sum of f over hidden states."""
    V, _, log_f = twins.layer_table(weights, visible, hidden)
    return V, np.array([twins.log_sum(row) for row in log_f])


def gains(scores, V, state):
    """Return, for each unit, the change of a state's score if this unit is flipped."""
    number = {tuple(v): s for v, s in zip(V.astype(int).tolist(), scores, strict=True)}
    state = np.asarray(state, dtype=int)
    others = state ^ np.eye(len(state), dtype=int)
    moved = np.array([number[tuple(v)] for v in others.tolist()])
    return moved - number[tuple(state.tolist())]


def assert_finite(beliefs, dtype):
    for values in (beliefs.visible, beliefs.hidden):
        assert values.dtype == dtype
        assert np.isfinite(values).all()
    if beliefs.pairs is not None:
        assert beliefs.pairs.dtype == dtype
        assert ((beliefs.pairs >= 0) & (beliefs.pairs <= 1 + 1e-6)).all()


def true_log_z(energy):
    return twins.log_sum(energy.log_potential(enumerate_states(energy)[0]))


def hard_model():
    """Return a spin glass of 14 variables: couplings of 3 nats and random sign on all pairs."""
    rng = np.random.default_rng(0)
    upper = np.triu(rng.choice([-3.0, 3.0], size=(14, 14)), 1)
    return PairwiseEnergy(upper + upper.T, np.zeros(14))


PAPER = Propagation("flooding", damping=0.0, max_iter=20, tol=0.0)


def frustrated(strength=1.5):
    """Return a model of six spins on which belief propagation does not converge."""
    rng = np.random.default_rng(34)
    upper = np.triu(rng.choice([-strength, strength], size=(6, 6)), 1)
    return PairwiseEnergy(upper + upper.T, rng.normal(0.0, 0.3, size=6)).factor_graph()


def model(name, seed):
    return frustrated() if name == "frustrated" else ZOO[name](seed).factor_graph()


def chain_of(graph, conditionals="bp", order="index", how=PAPER, n_samples=1000, **settings):
    settings = ChainSettings(conditionals, order, how, **settings)
    return ChainedSampler(graph.layout, settings, n_samples)


def density(chain, graph):
    """Return the probability with which chained belief propagation draws each joint state."""
    log_q = chain.log_density(graph.flat, enumerate_states(graph)[0])
    assert not np.isnan(log_q).any()
    assert log_q.max() < 1e-11
    return np.minimum(np.exp(log_q), 1.0)


PROPAGATION = ["schedule", "damping", "max_iter", "tol"]
CHAIN = ["conditionals", "order", "clip"]
METHODS = {
    log_partition: {
        "exact": [],
        "ais": [
            "n_chains",
            "n_temperatures",
            "schedule",
            "reference",
            "moves",
            "start",
            "max_width",
            "target_width",
            "n_jobs",
            "device",
        ],
        "bpchain": ["n_samples", *CHAIN, "settings", "max_width"],
        "bethe": PROPAGATION,
        "trw": PROPAGATION,
        "mean-field": ["max_iter", "tol"],
    },
    marginals: {
        "exact": [],
        "gibbs": ["n_chains", "n_sweeps", "n_records", "n_jobs"],
        "block-gibbs": ["n_chains", "n_sweeps", "n_jobs"],
        "bp": PROPAGATION,
        "trw": PROPAGATION,
        "mean-field": ["max_iter", "tol"],
        "bpchain": ["n_samples", *CHAIN],
    },
    map_assignment: {
        "exact": [],
        "local-search": ["n_windows", "n_chains", "n_sweeps", "n_jobs"],
        "annealing": ["n_chains", "n_sweeps", "n_jobs"],
        "decimation": PROPAGATION,
    },
    marginal_map: {"exact": [], "bp": PROPAGATION},
    sample: {
        "exact": [],
        "gibbs": ["n_sweeps", "n_jobs", "device"],
        "block-gibbs": ["n_sweeps", "n_jobs"],
        "bpchain": ["n_steps", *CHAIN],
    },
}

every = pytest.mark.parametrize("name", ZOO)
each_method = pytest.mark.parametrize(
    ("query", "method"), [(q, m) for q, methods in METHODS.items() for m in methods]
)


def ask(query, energy, **how):
    """Call an inference function by name; samples and marginal MAP variables are set."""
    second = {sample: [20], marginal_map: [range(min(2, energy.n_variables))]}.get(query, [])
    return query(energy, *second, **how)


def some_evidence(energy, seed):
    """Return random evidence, all states, and their probabilities and log f given the evidence."""
    rng = np.random.default_rng(seed)
    states, log_f = enumerate_states(energy)
    x = states[rng.choice(np.flatnonzero(log_f > -np.inf))]
    observed = rng.random(energy.n_variables) < 0.4
    evidence = {int(i): int(x[i]) for i in np.flatnonzero(observed)}
    return evidence, *posterior(energy, evidence)


def posterior(energy, evidence):
    states, log_f = enumerate_states(energy)
    log_given = np.where(twins.consistent(states, evidence), log_f, -np.inf)
    return states, np.exp(log_given - twins.log_sum(log_given)), log_given


def same(left, right):
    """Return True if two results of inference are equal in all fields."""
    if isinstance(left, np.ndarray):
        return np.array_equal(left, right)
    if isinstance(left, list):
        return len(left) == len(right) and all(map(same, left, right))
    if isinstance(left, Marginals | Assignment | LogPartition):
        return all(same(v, getattr(right, k)) for k, v in vars(left).items())
    return left == right


def assert_near(found, expected, n_independent):
    """Check that frequencies are within five standard errors of probabilities."""
    sigma = np.sqrt(np.maximum(expected * (1 - expected), 0.0) / n_independent)
    excess = np.abs(found - expected) / (5 * sigma + 5 / n_independent)
    assert excess.max() < 1, f"a marginal is {5 * excess.max():.1f} sigma off"
