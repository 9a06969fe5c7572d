"""Tests of Metropolis steps: guided proposals and proposals of chained belief propagation."""

from dataclasses import replace
from itertools import combinations

import numpy as np
import pytest
import twins
from montecarlo import N_SIGMA, check_counts, check_draws, check_invariant, check_means, frequencies
from numpy.testing import assert_allclose, assert_array_equal
from potentials import chain_of, density, model
from zoo import ZOO, enumerate_states

from skmrf._utils.codes import STATE
from skmrf.energies import FactorGraph, NeuralEnergy
from skmrf.likelihood.neural import grid
from skmrf.samplers.metropolis import TARGET_ACCEPTANCE, Metropolis, chain_states, metropolis
from skmrf.variational.belief_propagation import Propagation
from skmrf.variational.mixtures import Mixture

N_ROWS = 20_000
KINDS = {"numbers": [0, 0], "mixed": [0, 3, 0, 2], "states": [2, 3, 2], "a state": [0, 1]}
each_kind = pytest.mark.parametrize("kind", KINDS)
each_move = pytest.mark.parametrize("move", ["random_walk_step", "independence_step"])


def neural(seed, n_states, scale=0.7):
    """Return a random energy with strong networks."""
    rng = np.random.default_rng(seed)
    n, m = len(n_states), n_states.count(0)
    A = rng.normal(0, 0.5, size=(m, m))
    energy = NeuralEnergy.random(
        n_states,
        [(i, j) for i in range(n) for j in range(i)],
        node_layers=(4,),
        edge_layers=(4,),
        precision=A @ A.T + 0.5 * np.eye(m),
        random_state=rng,
    )
    theta = {k: v + rng.normal(0, 0.5, v.shape) for k, v in energy.theta.items()}
    for v in theta.values():
        v[:, -1] = scale
    return energy.with_theta(theta)


def mixture_of(seed, n_states):
    """Return a mixture of two distant components, so that errors in the component are visible."""
    rng = np.random.default_rng(seed)
    n_states = np.array(n_states)
    m, q = int((n_states == 0).sum()), n_states[n_states > 0]
    roots = rng.normal(0, 0.4, size=(2, m, m))
    tables = np.zeros((2, len(q), max(1, *n_states)))
    for d, size in enumerate(q):
        p = np.exp(1.5 * np.arange(size))
        tables[0, d, :size], tables[1, d, :size] = p / p.sum(), p[::-1] / p.sum()
    return Mixture(
        n_states,
        np.log([0.3, 0.7]),
        rng.normal(0, 0.3, size=(2, m)) + np.array([[-1.0], [1.0]]),
        roots @ roots.transpose(0, 2, 1) + 0.7 * np.eye(m),
        tables,
    )


def energy_and_moves(seed, kind):
    return neural(seed, KINDS[kind]), Metropolis(mixture_of(seed, KINDS[kind]))


# Transition matrices -----------------------------------------------------------------------


def all_states(n_states):
    return np.array(list(np.ndindex(*n_states)), dtype=STATE)


def state_probabilities(mixture, states):
    """Return the probabilities of states from the definition."""
    total = np.zeros(len(states))
    for k, share in enumerate(np.exp(mixture.log_weights)):
        parts = [mixture.tables[k, d, s] for d, s in enumerate(states.T)]
        total += share * np.prod(parts, axis=0)
    return total


def random_walk_proposals(n_states, states):
    """Return the proposal matrix: one variable changes to another state, if it has one."""
    K = np.zeros((len(states), len(states)))
    for a, x in enumerate(states):
        for b, y in enumerate(states):
            changed = np.flatnonzero(x != y)
            if len(changed) == 1:
                K[a, b] = 1 / len(n_states) / (n_states[changed[0]] - 1)
    return K + np.diag(1 - K.sum(axis=1))


def acceptance_matrix(Q, p):
    """Return the transition matrix of proposals Q with the Metropolis-Hastings rule."""
    ratio = (p[None, :] * Q.T) / np.where(Q > 0, p[:, None] * Q, 1.0)
    K = Q * np.minimum(1.0, ratio)
    return K + np.diag(1 - K.sum(axis=1))


def transition_matrices(energy, mixture):
    """Return the states, their probabilities and the transition matrices of both moves."""
    states = all_states(energy.n_states)
    p = np.exp(energy.log_potential(states))
    p /= p.sum()
    jump = np.tile(state_probabilities(mixture, states), (len(states), 1))
    walk = random_walk_proposals(energy.n_states, states)
    return (
        states,
        p,
        {
            "random_walk_step": acceptance_matrix(walk, p),
            "independence_step": acceptance_matrix(jump, p),
        },
    )


@each_move
@pytest.mark.parametrize("n_states", [[2, 3, 2], [4, 1], [3], [2]], ids=str)
def test_transition_matrices_of_discrete_models(move, n_states, seed):
    """Transitions follow the exact matrix, which is reversible with respect to the model."""
    energy, mixture = neural(seed, n_states, 2.0), mixture_of(seed, n_states)
    states, p, K = transition_matrices(energy, mixture)
    check_invariant(p, K[move])
    assert_allclose(p[:, None] * K[move], (p[:, None] * K[move]).T, atol=1e-15)
    moves, rng = Metropolis(mixture), np.random.default_rng(seed)

    def moved(X):
        """Chains in no order."""
        order = rng.permutation(len(X))
        start = X[order].astype(float)
        logs = energy.log_potential(start)
        out = np.empty(X.shape, STATE)
        out[order] = getattr(moves, move)(energy.log_potential, start, logs, rng)[0]
        return out

    check_counts(frequencies(moved, states, 4000), K[move])


@pytest.mark.parametrize("move", ["random_walk_step", "independence_step"])
def test_chains_are_exchangeable(move, seed):
    """Transitions do not depend on the position of a chain in the array."""
    energy, mixture = neural(seed, [2, 3, 2], 2.0), mixture_of(seed, [2, 3, 2])
    states, _, K = transition_matrices(energy, mixture)
    moves, rng = Metropolis(mixture), np.random.default_rng(seed)

    def moved(X):
        logs = energy.log_potential(X)
        return getattr(moves, move)(energy.log_potential, X.astype(float), logs, rng)[0]

    check_counts(frequencies(lambda X: moved(X).astype(STATE), states, 4000), K[move])


# Acceptance --------------------------------------------------------------------------------


class RecordingTarget:
    """Target that records the rows at which it is evaluated."""

    def __init__(self, target):
        self.target, self.rows = target, []

    def __call__(self, X):
        self.rows.append(X.copy())
        return self.target(X)


def log_ratios(energy, mixture, X, moved, move):
    """Return Metropolis-Hastings log ratios, with densities of one row at a time."""
    gain = energy.log_potential(moved) - energy.log_potential(X)
    if move == "random_walk_step":
        return gain
    pairs = zip(X, moved, strict=True)
    parts = [[float(mixture.log_density(row[None])[0]) for row in pair] for pair in pairs]
    return gain + np.array([before - after for before, after in parts])


@each_kind
@each_move
def test_acceptance_rates(move, kind, seed):
    """Positive log ratios are always accepted, others at the expected rate."""
    energy, moves = energy_and_moves(seed, kind)
    rng = np.random.default_rng(seed)
    X = moves.mixture.sample(1200, rng)
    logs, target = energy.log_potential(X), RecordingTarget(energy.log_potential)
    Y, new, rate = getattr(moves, move)(target, X, logs, rng)
    (proposed,) = target.rows
    gain = log_ratios(energy, moves.mixture, X, proposed, move)
    taken = new != logs
    assert_array_equal(Y, np.where(taken[:, None], proposed, X))
    assert_allclose(new, energy.log_potential(Y), rtol=1e-12, atol=1e-12)
    changed = energy.log_potential(proposed) != logs
    assert taken[(gain > 1e-9) & changed].all()
    assert_allclose(rate, taken.mean(), atol=(~changed).mean() + 1e-12)
    order = np.argsort(gain[changed])
    p = np.exp(np.minimum(gain[changed][order], 0.0))
    for part in np.array_split(np.arange(len(p)), 5):
        error = np.sqrt((p[part] * (1 - p[part])).sum())
        off = taken[changed][order][part].sum() - p[part].sum()
        assert abs(off) <= N_SIGMA * error + 1 + 1e-6 * len(part)


@each_kind
def test_moves_of_probability_one_and_zero(kind, seed):
    """All moves to equal densities are accepted, and none to density zero."""
    _, moves = energy_and_moves(seed, kind)
    rng = np.random.default_rng(seed)
    X = moves.mixture.sample(50, rng)
    for target, rate in ((lambda X: np.zeros(len(X)), 1.0), (lambda X: np.full(len(X), -1e9), 0.0)):
        Y, logs, found = moves.random_walk_step(target, X, np.zeros(50), rng)
        assert found == rate
        assert_array_equal(logs, target(X) if rate else 0.0)
        if not rate:
            assert_array_equal(Y, X)
    low = moves.independence_step(lambda X: np.full(len(X), -1e9), X, np.zeros(50), rng)
    assert_array_equal(low[0], X)
    assert low[2] == 0.0


@each_kind
def test_proposals_from_the_target_are_always_accepted(kind, seed):
    """The beliefs equal the target up to a constant."""
    _, moves = energy_and_moves(seed, kind)
    rng = np.random.default_rng(seed)
    X = moves.mixture.sample(500, rng)

    def target(X):
        return moves.mixture.log_density(X) + 3.0

    assert moves.independence_step(target, X, target(X), rng)[2] == 1.0


@each_kind
@each_move
def test_inputs_are_not_written_to(move, kind, seed):
    energy, moves = energy_and_moves(seed, kind)
    rng = np.random.default_rng(seed)
    X = moves.mixture.sample(100, rng)
    logs = energy.log_potential(X)
    before = X.copy(), logs.copy()
    X.flags.writeable = logs.flags.writeable = False
    Y, new, _ = getattr(moves, move)(energy.log_potential, X, logs, rng)
    assert_array_equal(X, before[0])
    assert_array_equal(logs, before[1])
    assert not np.shares_memory(X, Y)
    assert not np.shares_memory(logs, new)


@each_move
def test_one_chain(move, seed):
    energy, moves = energy_and_moves(seed, "mixed")
    rng = np.random.default_rng(seed)
    X = moves.mixture.sample(1, rng)
    for _ in range(20):
        X, logs, rate = getattr(moves, move)(energy.log_potential, X, energy.log_potential(X), rng)
        assert X.shape == (1, 4)
        assert rate in (0.0, 1.0)
        assert_allclose(logs, energy.log_potential(X))


# Invariance --------------------------------------------------------------------------------

MODEL = [0, 3, 0]


def exact_draws(energy, n, rng):
    """Return exact samples by rejection; networks are bounded by the sum of their scales."""
    bound = sum(np.abs(v[:, -1]).sum() for v in energy.theta.values())
    roots, parts, found = np.linalg.cholesky(energy.covariance), [], 0
    while found < n:
        X = np.empty((100_000, energy.n_variables))
        X[:, energy.numbers] = energy.mean + rng.normal(size=(len(X), len(roots))) @ roots.T
        for i in np.flatnonzero(energy.n_states):
            X[:, i] = rng.integers(0, energy.n_states[i], len(X))
        networks = energy.log_potential(X) - energy.base(X)
        assert (networks <= bound).all()
        parts.append(X[np.log1p(-rng.random(len(X))) < networks - bound])
        found += len(parts[-1])
    return np.concatenate(parts)[:n]


def statistics(X):
    """Return moments and products of continuous variables, discrete variables, and both."""
    x, y = X[:, 0], X[:, 2]
    states = X[:, 1][:, None] == np.arange(3)
    return np.column_stack(
        [x, y, x > 0, x**2, y**2, x * y, states, states * np.tanh(x)[:, None], np.cos(2 * y)]
    )


def check_moments_unchanged(before, after):
    """Check that the means of moved rows have not changed, in all rows and in either half.

    Rows are independent, so differences of the same row have the smallest error.
    """
    halves = np.split(np.arange(len(before)), 2)
    for rows in (slice(None), *halves):
        change = statistics(after[rows]) - statistics(before[rows])
        error = change.std(axis=0, ddof=1) / np.sqrt(len(change))
        assert (error < 0.05).all()
        z = change.mean(axis=0) / error
        assert (np.abs(z) < N_SIGMA).all(), f"means have changed by {np.abs(z).max():.1f} sigma"


def after(moves, move, target, X, rng, n=4):
    start, logs = X, target(X)
    for _ in range(n):
        X, logs, _ = getattr(moves, move)(target, X, logs, rng)
    moved = (start != X).any(axis=1)
    assert moved.mean() > 0.3
    return X


def model_and_samples(seed):
    energy = neural(seed, MODEL)
    return energy, exact_draws(energy, N_ROWS, np.random.default_rng(seed))


def test_exact_samples_against_a_grid(seed):
    """Check the samples that other tests use, by sums over a grid."""
    energy, X = model_and_samples(seed)
    points, log_weights = grid(energy, 201)
    p = np.exp(log_weights + energy.log_potential(points))
    expected = p @ statistics(points) / p.sum()
    error = statistics(X).std(axis=0, ddof=1) / np.sqrt(len(X))
    assert (np.abs(statistics(X).mean(axis=0) - expected) < N_SIGMA * error + 2e-3).all()


@pytest.mark.parametrize("move", ["random_walk_step", "independence_step"])
def test_steps_leave_the_model_invariant(move, seed):
    energy, X = model_and_samples(seed)
    rng = np.random.default_rng(seed + 100)
    moves = Metropolis(mixture_of(seed, MODEL))
    check_moments_unchanged(X, after(moves, move, energy.log_potential, X, rng))


class Uncorrected(Metropolis):
    """Wrong move: independence steps accepted as if the proposals were symmetric."""

    def independence_step(self, target, X, logs, rng):
        density = self.mixture.log_density
        start = logs + density(X)
        Y, _, rate = super().independence_step(lambda Z: target(Z) + density(Z), X, start, rng)
        return Y, target(Y), rate


class Drifting(Metropolis):
    """Wrong move: steps that are longer in one direction."""

    def propose_random_walk(self, X, rng):
        Y = super().propose_random_walk(X, rng)
        Y[:, self.mixture.numbers] += 0.5
        return Y


class Squared(Metropolis):
    """Wrong move: acceptance by the square root of the ratio."""

    def random_walk_step(self, target, X, logs, rng):
        Y, _, rate = super().random_walk_step(lambda Z: 0.5 * target(Z), X, 0.5 * logs, rng)
        return Y, target(Y), rate


@pytest.mark.parametrize(
    ("wrong", "move"),
    [
        (Uncorrected, "independence_step"),
        (Drifting, "random_walk_step"),
        (Squared, "random_walk_step"),
    ],
)
def test_check_detects_wrong_moves(wrong, move, seed):
    energy, X = model_and_samples(seed)
    rng = np.random.default_rng(seed + 100)
    moves = wrong(mixture_of(seed, MODEL))
    Y = after(moves, move, energy.log_potential, X, rng)
    with pytest.raises(AssertionError, match="means have changed"):
        check_moments_unchanged(X, Y)


@pytest.mark.parametrize("move", ["independence_step"])
def test_chains_find_the_probabilities_of_modes(move, seed):
    """The beliefs have the modes of the target, but wrong probabilities of them."""
    n_states, rng = np.zeros(1, int), np.random.default_rng(seed)
    beliefs = Mixture(
        n_states,
        np.log([0.5, 0.5]),
        np.array([[-9.0], [9.0]]),
        np.ones((2, 1, 1)),
        np.zeros((2, 0, 1)),
    )
    target = replace(beliefs, log_weights=np.log([0.1, 0.9])).log_density
    moves, X = Metropolis(beliefs), beliefs.sample(2000, rng)
    logs = target(X)
    for _ in range(60):
        X, logs, _ = getattr(moves, move)(target, X, logs, rng)
    check_means(X > 0, np.array([0.9]))


# Steps -------------------------------------------------------------------------------------


def flat(X):
    return np.zeros(len(X))


@pytest.mark.parametrize("size", [0.0, 0.4])
def test_step_covariance_is_the_mean_of_components(size, seed):
    """The covariance of steps does not include the distance of the components' means."""
    mixture = mixture_of(seed, [0, 2, 0])
    moves, rng = Metropolis(mixture, size), np.random.default_rng(seed)
    X = mixture.sample(N_ROWS, rng)
    steps = (moves.random_walk_step(flat, X, flat(X), rng)[0] - X)[:, [0, 2]]
    scale = size or 2.38 / np.sqrt(2)
    expected = scale**2 * np.einsum("k,kij->ij", [0.3, 0.7], mixture.covariances)
    variances = np.diag(expected)
    assert (np.abs(steps.mean(axis=0)) < N_SIGMA * np.sqrt(variances / N_ROWS)).all()
    error = np.sqrt((np.outer(variances, variances) + expected**2) / N_ROWS)
    assert (np.abs(steps.T @ steps / N_ROWS - expected) < N_SIGMA * error).all()


def test_one_discrete_variable_changes_per_step(seed):
    mixture = mixture_of(seed, [0, 3, 1, 4])
    rng = np.random.default_rng(seed)
    X = mixture.sample(6000, rng)
    Y = Metropolis(mixture).random_walk_step(flat, X, flat(X), rng)[0]
    changed = (X != Y)[:, 1:]
    assert (changed.sum(axis=1) <= 1).all()
    assert not changed[:, 1].any()
    which = np.column_stack([changed[:, 0], changed[:, 2], ~changed.any(axis=1)])
    check_means(which, np.full(3, 1 / 3))
    for i, q in ((1, 3), (3, 4)):
        assert np.isin(Y[:, i], np.arange(q)).all()
        shift = (Y[:, i] - X[:, i])[X[:, i] != Y[:, i]] % q
        check_means(shift[:, None] == np.arange(1, q), np.full(q - 1, 1 / (q - 1)))


def test_step_size_follows_the_acceptance_rate(seed):
    moves = Metropolis(mixture_of(seed, [0, 0]))
    for rate, change in (
        (TARGET_ACCEPTANCE, 0),
        (TARGET_ACCEPTANCE + 0.1, 1),
        (1.0, 1),
        (TARGET_ACCEPTANCE - 0.1, -1),
        (0.0, -1),
    ):
        before = moves.size
        moves.adapt(rate)
        assert np.sign(moves.size - before) == change
        assert 0.7 < moves.size / before < 1.4


@pytest.mark.parametrize("first", [1e-3, 1.0, 100.0])
def test_step_size_converges(first, seed):
    """The acceptance rate reaches its target from step sizes that are too small or too large."""
    energy, mixture = neural(seed, [0, 0]), mixture_of(seed, [0, 0])
    moves, rng = Metropolis(mixture, first), np.random.default_rng(seed)
    X, rates = mixture.sample(500, rng), []
    logs = energy.log_potential(X)
    for _ in range(100):
        X, logs, rate = moves.random_walk_step(energy.log_potential, X, logs, rng)
        moves.adapt(rate)
        rates.append(rate)
    assert abs(np.mean(rates[-30:]) - TARGET_ACCEPTANCE) < 0.05


@each_move
def test_same_seed_gives_same_moves(move, seed):
    energy, moves = energy_and_moves(seed, "mixed")
    X = moves.mixture.sample(30, np.random.default_rng(seed))
    logs = energy.log_potential(X)
    first, again, other = (
        getattr(moves, move)(energy.log_potential, X, logs, np.random.default_rng(k))[0]
        for k in (seed, seed, seed + 1)
    )
    assert_array_equal(first, again)
    assert (first != other).any()


# Proposals of chained belief propagation ---------------------------------------------------------


class FixedGenerator:
    """Generator that returns given uniform numbers."""

    def __init__(self, u):
        self.u = u

    def random(self, n):
        assert n == len(self.u)
        return self.u


def acceptance_probability(log_weights):
    """Return the probability that state i accepts proposal j, by bisection of the uniforms."""
    n = len(log_weights)
    here, there = (k.ravel() for k in np.indices((n, n)))
    low, high = np.zeros(n * n), np.ones(n * n)  # bounds of the largest accepted 1 - u

    def accepts(v):
        X, weights, taken = metropolis(
            here[:, None],
            log_weights[here],
            there[:, None],
            log_weights[there],
            FixedGenerator(np.minimum(1.0 - v, 1.0 - 2**-53)),
        )
        moved = np.where(taken, there, here)
        assert_array_equal(X[:, 0], moved)
        assert_array_equal(weights, log_weights[moved])
        return taken

    for _ in range(60):
        middle = 0.5 * (low + high)
        taken = accepts(middle)
        low, high = np.where(taken, middle, low), np.where(taken, high, middle)
    return np.where(low > 1 - 1e-14, 1.0, low).reshape(n, n)


@pytest.mark.parametrize("name", ["orders", "zero_one", "zeros", "zeros_binary", "frustrated"])
def test_metropolis_leaves_the_model_invariant(name, seed):
    graph = model(name, seed)
    log_f = np.sort(enumerate_states(graph)[1])
    log_f = np.concatenate([log_f[:30], log_f[-30:]])  # the least and most probable states
    p = np.exp(log_f - twins.log_sum(log_f))
    q = np.random.default_rng(seed).dirichlet(np.ones(len(p)))
    taken = acceptance_probability(log_f - np.log(q))
    with np.errstate(divide="ignore", invalid="ignore"):
        expected = np.minimum(1.0, p / q / (p / q)[:, None])
    expected[p == 0] = 1.0
    assert_allclose(taken, expected, rtol=0, atol=1e-13)
    K = q * taken
    K[np.diag_indices(len(p))] += 1.0 - K.sum(axis=1)
    assert K.min() > -1e-12
    assert_allclose(p @ K, p, rtol=0, atol=1e-12)
    assert_allclose(p[:, None] * K, (p[:, None] * K).T, rtol=0, atol=1e-13)  # reversible
    wrong = q * acceptance_probability(0.9 * log_f - np.log(q))
    wrong[np.diag_indices(len(p))] += 1.0 - wrong.sum(axis=1)
    assert np.abs(p @ wrong - p).max() > 1e-6


@pytest.mark.parametrize("name", ["frustrated", "orders", "zeros"])
def test_metropolis_chains_approach_the_model(name, seed):
    """Proposals are far from the model: one undamped iteration with a clip. Steps correct them."""
    graph = model(name, seed)
    states, p = twins.distribution(graph)
    chain = chain_of(graph, how=Propagation("flooding", 0.0, 1, 0.0), clip=0.05)
    rng = np.random.default_rng(seed)
    q = density(chain, graph)
    assert np.max(p / q) < 200
    X, rate = chain_states(chain, graph, 4000, 0, rng)
    assert rate == 1.0
    check_draws(X, states, q)
    with pytest.raises(AssertionError, match="was drawn"):
        check_draws(X, states, p)
    X, rate = chain_states(chain, graph, 4000, int(15 * np.max(p / q)), rng)
    assert 0.0 < rate < 1.0
    assert X.dtype == STATE
    check_draws(X, states, p)


def test_metropolis_accepts_all_exact_proposals(seed):
    graph = ZOO["orders"](seed)
    states, p = twins.distribution(graph)
    chain = chain_of(graph, "exact")
    X, rate = chain_states(chain, graph, 3000, 2, np.random.default_rng(seed))
    assert rate > 1 - 1e-9
    check_draws(X, states, p)


def test_metropolis_chains_are_independent(seed):
    """Samples are grouped by prefix, so they are distributed to the chains at random."""
    graph = FactorGraph([2, 2], [(0,), (1,)], [[0.0, 0.0], [0.0, 0.0]])
    X, _ = chain_states(chain_of(graph), graph, 20_000, 1, np.random.default_rng(seed))
    for i, j in combinations(range(2), 2):
        assert abs(np.corrcoef(X[:, i], X[:, j])[0, 1]) < 0.04
    assert abs(np.corrcoef(X[1:, 0], X[:-1, 0])[0, 1]) < 0.04
