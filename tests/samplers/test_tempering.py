"""Tests of block Gibbs, tempered transitions and parallel tempering by transition matrices."""

from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest
from montecarlo import (
    check_counts,
    check_invariant,
    densities,
    frequencies,
    law,
    random_product,
    sweep_matrix,
    tempered_matrix,
    visible_states,
)
from numpy.testing import assert_allclose, assert_array_equal
from zoo import COUPLED, HIDDEN, LAYERED, coupled_layers, layers, random_tables

from skmrf import inference
from skmrf._utils.codes import MISSING, STATE
from skmrf._utils.warn import LogPartitionWarning
from skmrf.energies import BipartiteEnergy, FactorGraph, PairwiseEnergy
from skmrf.inference import row_queries
from skmrf.inference.row_queries import latent_marginals, latent_samples
from skmrf.likelihood import ais
from skmrf.samplers import Product, spawn_generators, sweep
from skmrf.samplers.parallel_tempering import (
    Replicas,
    adapt_ladder,
    check_ladder,
    exchange,
    parallel_tempering,
    tempered_transition,
)
from skmrf.samplers.smc import Tempering

N_CHAINS = 4000  # per state
MANY = 10_000


def tables(seed):
    """Return a factor graph of pairs of variables with two and three states."""
    rng = np.random.default_rng([seed, 1])
    cliques = [(0,), (1,), (0, 1)]
    return FactorGraph([2, 3], cliques, random_tables([2, 3], cliques, rng, 2.0))


def couplings(seed):
    """Return three spins with strong couplings, so that the order of the sites matters."""
    rng = np.random.default_rng([seed, 2])
    upper = np.triu(rng.choice([-1.5, 1.5], size=(3, 3)), 1)
    return PairwiseEnergy(upper + upper.T, rng.normal(0.0, 0.5, size=3))


def two_layers(seed):
    return layers(3, 2, seed, scale=2.0)


def two_layers_single(seed):
    return layers(3, 2, seed, scale=2.0, dtype=np.float32)


SMALL = {f.__name__: f for f in (tables, couplings, two_layers, two_layers_single)}
each_model = pytest.mark.parametrize("name", SMALL)
LADDER = np.array([1.0, 0.6, 0.2])


def random_base(energy, seed):
    return random_product(energy.visible_states, np.random.default_rng([seed, 3]))


# Block Gibbs -------------------------------------------------------------------------------


@pytest.mark.parametrize("beta", [1.0, 0.4, 0.0])
@pytest.mark.parametrize("name", [n for n in HIDDEN if n != "many_hidden"])
def test_block_gibbs_transition_matrix(name, beta, seed):
    """Check the transition matrix of a sweep against chains and against the path.

    The matrix leaves the target invariant, and a sweep in the reverse order is its reversal: itself
    without couplings. The target is the density of the path.
    """
    energy = HIDDEN[name](seed)
    reference = random_base(energy, seed)
    states = visible_states(energy)
    K = sweep_matrix(energy, beta, reference)
    reverse = sweep_matrix(energy, beta, reference, reverse=True)
    log_f, p = law(energy, beta, reference)
    check_invariant(p, K)
    assert_allclose(p[:, None] * K, (p[:, None] * reverse).T, rtol=0, atol=1e-14)
    if name in LAYERED:
        assert_array_equal(K, reverse)
    single = energy.weights.dtype == np.float32
    found = densities(energy, reference, [beta])[0]
    assert_allclose(found, log_f, rtol=0, atol=1e-5 if single else 1e-12)
    for matrix, is_reverse in ((K, False), (reverse, True))[: 1 + (name in COUPLED)]:

        def move(X, is_reverse=is_reverse):
            generators = spawn_generators(np.random.default_rng(seed), len(X))
            how = {"betas": np.array([beta, beta]), "reference": reference, "reverse": is_reverse}
            return sweep(energy, X, generators, **how)[0]

        check_counts(frequencies(move, states, N_CHAINS), matrix)


def test_order_of_coupled_variables_matters(seed):
    """Negative control: chains in the reverse order do not have the matrix of the forward sweep."""
    energy = coupled_layers(3, 2, seed, (-1, 1), 1.5)

    def move(X):
        generators = spawn_generators(np.random.default_rng(seed), len(X))
        return sweep(energy, X, generators, reverse=True)[0]

    counts = frequencies(move, visible_states(energy), 5 * N_CHAINS)
    check_counts(counts, sweep_matrix(energy, reverse=True))
    with pytest.raises(AssertionError, match="was drawn"):
        check_counts(counts, sweep_matrix(energy))


def test_coupled_chains_do_not_depend_on_n_jobs(seed):
    energy = coupled_layers(6, 4, seed, dtype=np.float32)
    X = Product.uniform([2] * 6).sample(700, np.random.default_rng(seed))  # two tasks
    results = []
    for n_jobs in (None, 1, 2):
        generators = spawn_generators(np.random.default_rng(seed), len(X))
        path = {"betas": np.linspace(0.0, 1.0, 6), "n_jobs": n_jobs}
        results.append((*sweep(energy, X, generators, **path), sweep(energy, X, generators)[0]))
    for other in results[1:]:
        for left, right in zip(results[0], other, strict=True):
            assert_array_equal(left, right)
    part, _ = sweep(energy, X[:64], spawn_generators(np.random.default_rng(seed), 64))
    whole, _ = sweep(energy, X, spawn_generators(np.random.default_rng(seed), len(X)))
    assert_array_equal(part, whole[:64])
    assert not np.array_equal(whole[:64], whole[64:128])


def test_check_detects_a_wrong_temperature(seed):
    """Negative control: the temperature is wrong."""
    energy = two_layers(seed)
    reference = Product.uniform([2] * 3)

    def move(X):
        generators = spawn_generators(np.random.default_rng(seed), len(X))
        return sweep(energy, X, generators, betas=np.array([0.5, 0.5]), reference=reference)[0]

    counts = frequencies(move, visible_states(energy), N_CHAINS)
    check_counts(counts, sweep_matrix(energy, 0.5, reference))
    for beta, wrong in ((1.0, reference), (0.1, reference), (0.5, random_base(energy, seed))):
        with pytest.raises(AssertionError, match="was drawn"):
            check_counts(counts, sweep_matrix(energy, beta, wrong))


@pytest.mark.parametrize("name", HIDDEN)
def test_annealed_weights_of_layers(name, seed):
    """The weight of a path of one step is the change of the start's density."""
    energy = HIDDEN[name](seed)
    reference = random_base(energy, seed)
    states = visible_states(energy)
    generators = spawn_generators(np.random.default_rng(seed), len(states))
    betas = np.array([0.2, 0.7])
    _, found = sweep(energy, states, generators, betas=betas, reference=reference)
    before, after = (law(energy, beta, reference)[0] for beta in betas)
    single = energy.weights.dtype == np.float32
    assert_allclose(found, after - before, rtol=0, atol=1e-5 if single else 1e-12)


@pytest.mark.parametrize("name", ["few_hidden", "single_precision", *COUPLED])
def test_clamped_layers(name, seed):
    """Clamped units keep their state, and the others follow the conditional distribution."""
    energy = HIDDEN[name](seed)
    states, (_, p) = visible_states(energy), law(energy)
    mask = np.arange(states.shape[1]) < 2
    rng = np.random.default_rng(seed)
    start = states[rng.choice(len(states), p=p)]
    agree = (states[:, mask] == start[mask]).all(axis=1)
    given = np.where(agree, p, 0.0) / p[agree].sum()
    X = states[rng.choice(len(states), size=MANY, p=given)]
    clamped = np.broadcast_to(mask, X.shape)
    generators = spawn_generators(rng, len(X))
    X, _ = sweep(energy, X, generators, n_sweeps=5, clamped=clamped)
    counts = np.array([(s == X).all(axis=1).sum() for s in states])
    check_counts(counts, given)


def test_blocks_are_independent(seed):
    energy = two_layers(seed)
    X = Product.uniform([2] * 3).sample(150, np.random.default_rng(seed))
    moved = []
    for n in (150, 64):
        generators = spawn_generators(np.random.default_rng(seed), n)
        moved.append(sweep(energy, X[:n], generators, n_sweeps=5)[0])
    assert_array_equal(moved[0][:64], moved[1])
    assert moved[0].dtype == STATE


# Tempered transitions ----------------------------------------------------------------------


def transition(energy, reference, seed, betas=LADDER):
    def move(X):
        rng = np.random.default_rng(seed)
        return tempered_transition(energy, X, spawn_generators(rng, len(X)), rng, betas, reference)[
            0
        ]

    return move


@pytest.mark.parametrize("uniform", [True, False])
@each_model
def test_tempered_transitions(name, uniform, seed):
    """Check the transition matrix, summed over all trajectories, against chains.

    The matrix is reversible, and it leaves the target invariant.
    """
    energy = SMALL[name](seed)
    reference = Product.uniform(energy.visible_states) if uniform else random_base(energy, seed)
    _, p = law(energy)
    T = tempered_matrix(energy, LADDER, reference)
    check_invariant(p, T, 1e-10)
    assert_allclose(p[:, None] * T, (p[:, None] * T).T, rtol=0, atol=1e-10)
    counts = frequencies(transition(energy, reference, seed), visible_states(energy), MANY)
    check_counts(counts, T)


@pytest.mark.parametrize("betas", [[1.0, 0.5], [1.0, 0.9, 0.8, 0.0]])
def test_tempered_transitions_on_other_ladders(betas, seed):
    energy = tables(seed)
    reference = random_base(energy, seed)
    T = tempered_matrix(energy, np.array(betas), reference)
    check_invariant(law(energy)[1], T, 1e-10)
    move = transition(energy, reference, seed, np.array(betas))
    check_counts(frequencies(move, visible_states(energy), MANY), T)


def asymmetric():
    """Return two variables whose states mostly differ, so that the order of the sites matters."""
    singles, pair = [[2.3, 1.1], [-0.7, -3.1, -9.0]], [[-3.8, 3.3, -9.0], [3.6, -7.7, -9.0]]
    return FactorGraph([2, 3], [(0,), (1,), (0, 1)], [*singles, pair])


@pytest.mark.long
def test_check_detects_sweeps_that_are_not_reversed(seed, monkeypatch):
    """Negative control: without reversed sweeps on the way down the target is not invariant."""
    energy = asymmetric()
    reference = Product.uniform([2, 3])
    betas = np.array([1.0, 0.3])
    _, p = law(energy)
    right, wrong = (tempered_matrix(energy, betas, reference, reverse) for reverse in (True, False))
    check_invariant(p, right, 1e-10)

    def forward(*args, **how):
        return sweep(*args, **how | {"reverse": False})

    states = visible_states(energy)
    rng = np.random.default_rng(seed)
    X = states[rng.choice(len(states), size=200_000, p=p)]
    check_distribution(transition(energy, reference, seed, betas)(X), states, p)
    monkeypatch.setattr("skmrf.samplers.parallel_tempering.sweep", forward)
    moved = transition(energy, reference, seed, betas)(X)
    check_distribution(moved, states, p @ wrong)
    with pytest.raises(AssertionError, match="was drawn"):
        check_distribution(moved, states, p)


def check_distribution(X, states, p):
    check_counts(np.array([(s == X).all(axis=1).sum() for s in states]), p)


def test_rejected_transitions_keep_the_state(seed):
    energy = couplings(seed)
    reference = Product.uniform([2] * 3)
    rng = np.random.default_rng(seed)
    X = reference.sample(500, rng)
    before = X.copy()
    args = (spawn_generators(rng, 500), rng, np.array([1.0, 0.05]), reference)
    Y, accepted = tempered_transition(energy, X, *args)
    assert_array_equal(X, before)
    assert_array_equal(Y[~accepted], X[~accepted])
    assert 0 < accepted.mean() < 1
    assert (Y[accepted] != X[accepted]).any()


@pytest.mark.parametrize("n", [2, 4])
def test_transitions_into_zero_potentials_are_rejected(n, seed):
    """All variables must be equal. A sweep of four variables can end at potential zero."""
    equal = [[0.0, -np.inf], [-np.inf, 0.5]]
    energy = FactorGraph([2] * n, [(i, (i + 1) % n) for i in range(n)], [equal] * n)
    reference = Product.uniform([2] * n)
    X = np.zeros((300, n), dtype=STATE)
    rng = np.random.default_rng(seed)
    for betas in ([1.0, 0.5], [1.0, 0.5, 0.0]):
        args = (spawn_generators(rng, 300), rng, np.array(betas), reference)
        with np.errstate(invalid="raise"):
            Y, _ = tempered_transition(energy, X, *args)
        assert (Y[:, :1] == Y).all()
    assert Y.any()  # the path includes beta = 0, where every state is possible


# Parallel tempering ------------------------------------------------------------------------


def swap_matrix(log_hot, log_cold):
    """Return the swap matrix of two chains on the product space; the hot state comes first."""
    S = len(log_hot)
    M = np.zeros((S * S, S * S))
    for x, y in np.ndindex(S, S):
        gain = log_hot[y] + log_cold[x] - log_hot[x] - log_cold[y]
        M[x * S + y, y * S + x] += min(1.0, np.exp(gain))
        M[x * S + y, x * S + y] += 1.0 - min(1.0, np.exp(gain))
    return M


def start(betas, X, seed):
    return Replicas.start(betas, X, np.random.default_rng(seed))


def all_pairs(states):
    """Return all pairs of states, as chains at two temperatures."""
    S = len(states)
    return np.stack([np.repeat(states, S, axis=0), np.tile(states, (S, 1))])


@each_model
def test_swap_matrix(name, seed):
    """The swap matrix leaves the product of both targets invariant, and chains follow it."""
    energy = SMALL[name](seed)
    reference = random_base(energy, seed)
    states, betas = visible_states(energy), [0.3, 1.0]
    logs, laws = zip(*(law(energy, beta, reference) for beta in betas), strict=True)
    M = swap_matrix(*logs)
    check_invariant(np.outer(*laws).ravel(), M)
    X = np.repeat(all_pairs(states), 1000, axis=1)
    replicas = start(betas, X, seed)
    path, rng = Tempering(reference, energy), np.random.default_rng(seed)
    after, info = exchange(path, replicas, rng, n_sweeps=0)
    swapped = np.arange(len(M)) // len(states) + len(states) * (np.arange(len(M)) % len(states))
    off = swapped != np.arange(len(M))
    moved = (after.X[1] == X[0]).all(axis=1).reshape(len(M), -1).sum(axis=1)[off]
    stayed = (after.X[1] == X[1]).all(axis=1).reshape(len(M), -1).sum(axis=1)[off]
    chance = M[np.arange(len(M)), swapped][off]
    check_counts(np.stack([moved, stayed], axis=1), np.stack([chance, 1 - chance], axis=1))
    same = ((after.X[0] == X[1]) | (after.X[0] == X[0])).all()
    assert same
    assert 0 < info["swap_rate"] <= 1


@each_model
def test_parallel_tempering_leaves_the_product_invariant(name, seed):
    """Check sweeps and swaps at three temperatures for both parities, and the swap rate."""
    energy = SMALL[name](seed)
    reference = random_base(energy, seed)
    states, betas = visible_states(energy), [0.0, 0.5, 1.0]
    logs, laws = zip(*(law(energy, beta, reference) for beta in betas), strict=True)
    rng = np.random.default_rng(seed)
    X = np.stack([states[rng.choice(len(states), size=MANY, p=p)] for p in laws])
    replicas = start(betas, X, seed)
    rates = []
    for _ in range(2):
        replicas, info = parallel_tempering(energy, reference, replicas, rng)
        rates.append(info["swap_rate"])
    S = len(states)
    index = np.array([[(row == states).all(axis=1).argmax() for row in x] for x in replicas.X])
    for low in (0, 1):
        joint = np.bincount(index[low] * S + index[low + 1], minlength=S * S)
        check_counts(joint, np.outer(laws[low], laws[low + 1]).ravel())
        M = swap_matrix(logs[low], logs[low + 1])
        p = np.outer(laws[low], laws[low + 1])
        refused = p.ravel() @ np.diag(M) - np.trace(p)  # equal states always swap
        expected = 1.0 - refused
        error = np.sqrt(expected * (1 - expected) / MANY) + 1e-6
        assert abs(rates[low] - expected) < 5 * error
        first = 0.99 * 0.5 + 0.01 * (1 - expected)
        assert abs(replicas.rejection_rates[low] - first) < 0.05 * error + 1e-7


def test_even_and_odd_pairs_take_turns(seed):
    """If all states are equally likely, every swap is made."""
    energy = FactorGraph([2] * 8, [], [])
    reference = Product.uniform([2] * 8)
    X = np.repeat(np.arange(5)[:, None, None], 8, axis=2).astype(STATE) % 2
    X[:, 0] = np.eye(5, 8)
    replicas = start([0.0, 0.25, 0.5, 0.75, 1.0], X, seed)
    order = list(range(5))
    for low in ([0, 2], [1, 3], [0, 2]):
        rng = np.random.default_rng(seed)
        replicas, info = exchange(Tempering(reference, energy), replicas, rng, n_sweeps=0)
        for k in low:
            order[k], order[k + 1] = order[k + 1], order[k]
        assert replicas.X[:, 0].argmax(axis=1).tolist() == order
        assert info["swap_rate"] == 1.0


@pytest.mark.parametrize("n", [2, 3, 4, 5])
def test_round_trips(n, seed):
    """If every swap is made, replicas move up and down the ladder; labels count the trips."""
    energy = FactorGraph([2] * 4, [], [])
    reference = Product.uniform([2] * 4)
    replicas = start(np.linspace(0, 1, n), np.zeros((n, 6, 4), dtype=STATE), seed)
    order, seen = list(range(n)), {}
    for step in range(40):
        replicas, info = parallel_tempering(
            energy, reference, replicas, np.random.default_rng(step)
        )
        for low in range(step % 2, n - 1, 2):
            order[low], order[low + 1] = order[low + 1], order[low]
        expected = float(seen.get(order[-1]) == "was cold, then hot")
        assert info["round_trips"] == expected
        if seen.get(order[0]) == "cold":
            seen[order[0]] = "was cold, then hot"
        seen[order[-1]] = "cold"
    assert info["swap_rate"] == 1.0


def test_replicas_are_not_changed(seed):
    energy = tables(seed)
    reference = Product.uniform(energy.visible_states)
    rng = np.random.default_rng(seed)
    replicas = start([0.2, 0.6, 1.0], np.stack([reference.sample(50, rng) for _ in range(3)]), seed)
    kept = [a.copy() for a in (replicas.X, replicas.last_end, replicas.rejection_rates)]
    for _ in range(3):
        parallel_tempering(energy, reference, replicas, rng)
    for before, after in zip(
        kept, (replicas.X, replicas.last_end, replicas.rejection_rates), strict=True
    ):
        assert_array_equal(before, after)


# Ladders -----------------------------------------------------------------------------------


def exact_rejection_rates(energy, reference, betas):
    out = []
    for hot, cold in pairwise(betas):
        (log_hot, p), (log_cold, q) = (law(energy, float(b), reference) for b in (hot, cold))
        gain = (log_cold - log_hot)[:, None] - (log_cold - log_hot)[None]
        out.append(1.0 - np.sum(np.outer(p, q) * np.exp(np.minimum(gain, 0.0))))
    return np.array(out)


@pytest.mark.parametrize("low", [0.0, 0.1])
@each_model
def test_adapted_ladder_equalises_rejection_rates(name, low, seed):
    """Start from a poor ladder with exact rejection rates."""
    energy = SMALL[name](seed)
    reference = Product.uniform(energy.visible_states)
    betas = np.array([low, low + 0.01, low + 0.02, low + 0.03, 1.0])
    replicas = start(betas, np.zeros((5, 1, len(energy.visible_states)), dtype=STATE), seed)
    refused = exact_rejection_rates(energy, reference, betas)
    assert refused.max() > 5 * refused.min()
    for _ in range(30):
        replicas = replace(
            replicas, rejection_rates=exact_rejection_rates(energy, reference, replicas.betas)
        )
        replicas = adapt_ladder(replicas)
        assert replicas.betas[0] == low
        assert replicas.betas[-1] == 1.0
        assert (np.diff(replicas.betas) > 0).all()
    refused = exact_rejection_rates(energy, reference, replicas.betas)
    assert refused.max() < 1.05 * refused.min()
    assert_array_equal(betas[1:4], low + np.array([0.01, 0.02, 0.03]))


def test_ladder_without_rejections_is_unchanged(seed):
    replicas = start([0.0, 0.1, 1.0], np.zeros((3, 1, 2), dtype=STATE), seed)
    replicas = replace(replicas, rejection_rates=np.zeros(2))
    assert_allclose(adapt_ladder(replicas).betas, [0.0, 0.1, 1.0], rtol=1e-12)


@pytest.mark.long
def test_rejection_rates_converge(seed):
    """The running rejection rates converge to the exact ones."""
    energy = couplings(seed)
    reference = Product.uniform([2] * 3)
    rng = np.random.default_rng(seed)
    betas = [0.0, 0.4, 1.0]
    X = np.stack([reference.sample(64, rng) for _ in betas])
    replicas = start(betas, X, seed)
    reached = []
    for step in range(2000):
        replicas, _ = parallel_tempering(energy, reference, replicas, rng)
        if step >= 600 and step % 200 == 0:
            reached.append(replicas.rejection_rates)
    expected = exact_rejection_rates(energy, reference, betas)
    assert_allclose(np.mean(reached, axis=0), expected, rtol=0, atol=0.02)


@pytest.mark.parametrize(
    "betas",
    [[1.0], [], [0.5, 0.9], [0.0, 0.5, 0.5, 1.0], [1.0, 0.5], [0.9, 0.1, 1.0], [[0.0, 1.0]]]
    + [[0.0, np.nan, 1.0], [0.0, 1.0, np.nan], [0.0, 1.5, 1.0]],
)
def test_invalid_ladders_raise(betas):
    with pytest.raises(ValueError, match="betas must be at least two inverse temperatures"):
        check_ladder(betas)


@pytest.mark.parametrize("first", [-0.5, np.nan, -np.inf])
def test_ladders_with_invalid_ends_raise(first):
    with pytest.raises(ValueError, match="betas"):
        check_ladder([first, 0.5, 1.0])


def test_valid_ladders():
    assert_array_equal(check_ladder((0, 0.5, 1)), [0.0, 0.5, 1.0])


# Rows with many missing entries -----------------------------------------------------------


def test_weights_of_annealed_chains_separate_modes(seed, monkeypatch):
    """Chains end in one of two modes; their weights give these modes the right probabilities."""
    rng = np.random.default_rng(seed)
    weights = 1.5 + 0.1 * rng.normal(size=(12, 5))
    energy = BipartiteEnergy(weights, 0.2 - weights.sum(axis=1) / 2, -weights.sum(axis=0) / 2)
    visible, p = visible_states(energy), law(energy)[1]
    unknown = np.full((2000, 12), MISSING, dtype=STATE)
    monkeypatch.setattr(row_queries, "are_layer_sums_quick", lambda *_: False)
    drawn = latent_samples(energy, unknown, rng)
    share = p[visible.sum(axis=1) > 6].sum()
    error = (0.25 / len(drawn)) ** 0.5
    assert abs((drawn.sum(axis=1) > 6).mean() - share) < 5 * 2 * error
    found = np.array([q[0, 1] for q in latent_marginals(energy, unknown[:1], rng=rng)])
    np.testing.assert_allclose(found, p @ visible, atol=0.08)
    assert share > 0.75


def test_few_effective_chains_of_marginals_warn(seed, monkeypatch):
    monkeypatch.setattr(row_queries, "PATH", np.array([0.0, 1.0]))
    rng = np.random.default_rng(seed)
    glass = BipartiteEnergy(60.0 * rng.normal(size=(30, 30)), np.zeros(30), np.zeros(30))
    with pytest.warns(LogPartitionWarning, match="Marginals of rows with more than 10 missing"):
        latent_marginals(glass, np.full((1, 30), MISSING), rng=rng)


# Devices of JAX ---------------------------------------------------------------------------


def test_unlikely_states_are_not_drawn_on_a_device(monkeypatch):
    """A uniform number of JAX is 0 with probability 2**-23, far above that of unlikely states."""
    jax = pytest.importorskip("jax")
    from skmrf._jax import chains

    monkeypatch.setattr(
        jax.random, "uniform", lambda _, shape, dtype: jax.numpy.zeros(shape, dtype)
    )
    means = jax.numpy.array([1e-30, 1e-8, 1e-7, 1.0], np.float32)
    assert_array_equal(chains._bernoulli(means, None), [0.0, 0.0, 1.0, 1.0])


@pytest.mark.parametrize("size", [1e3, 9e4])
def test_log_weights_of_large_potentials_are_precise_on_a_device(size, seed):
    pytest.importorskip("jax")
    energy = PairwiseEnergy(np.zeros((2, 2)), [size, 0.0], states=(0, 1))
    options = {"n_temperatures": 300, "n_chains": 50, "random_state": seed}
    result = ais(energy, device="jax", **options)
    assert abs(result.value - size - np.log(2.0)) < 0.005
    assert result.converged


@pytest.mark.parametrize("kind", ["pairs", "layers", "tables"])
def test_interval_contains_the_rounding_error_of_a_device(kind, seed):
    """float32 rounds each bias down by 0.004, and would round a sum term by term by 2 nats."""
    pytest.importorskip("jax")
    n, bias = 50, 2.0**16 + 0.99 * 2.0**-8
    energy, exact = PairwiseEnergy(np.zeros((n, n)), np.full(n, bias), states=(0, 1)), n * bias
    if kind == "layers":
        energy, exact = BipartiteEnergy(np.zeros((n, 1)), energy.bias, [0.0]), exact + np.log(2.0)
    elif kind == "tables":
        energy = FactorGraph([2] * n, [(i,) for i in range(n)], np.tile([0.0, bias], (n, 1)))
    result = ais(energy, n_temperatures=20, device="jax", random_state=seed)
    assert 0.15 < abs(result.value - exact) < 0.4
    assert result.lower < exact < result.upper < result.lower + 1.0


@pytest.mark.parametrize(
    "make",
    [
        lambda a: PairwiseEnergy(np.zeros((2, 2)), [a, 0.0], states=(0, 1)),
        lambda a: PairwiseEnergy(np.array([[0.0, a], [a, 0.0]]), np.zeros(2), states=(0, 1)),
        lambda a: BipartiteEnergy(np.full((2, 2), a), np.zeros(2), np.zeros(2)),
        lambda a: FactorGraph([2, 2], [(0, 1)], [np.array([[0.0, a], [a, 0.0]])]),
    ],
)
def test_log_potentials_that_are_too_large_for_a_device(make):
    pytest.importorskip("jax")
    with pytest.raises(ValueError, match="takes at most 1e\\+05"):
        ais(make(3e5), device="jax", random_state=0)


def test_unknown_device_of_samples():
    energy = PairwiseEnergy(np.zeros((2, 2)), np.zeros(2))
    with pytest.raises(ValueError, match="device must be one of"):
        inference.sample(energy, 3, device="cud")
