"""Tests of Markov chains on a device of JAX: Gibbs sweeps, log Z, and ladders of models."""

import numpy as np
import pytest
from montecarlo import check_draws, check_mean_weight, random_product
from numpy.testing import assert_allclose, assert_array_equal
from zoo import enumerate_states

from skmrf._utils.phases import States
from skmrf.energies import (
    BipartiteEnergy,
    FactorGraph,
    PairwiseEnergy,
    SemiRestrictedEnergy,
)
from skmrf.inference import sample
from skmrf.learners import PTT
from skmrf.learners.ptt import LadderChains, PaddedLadder
from skmrf.likelihood import ais
from skmrf.samplers import Product, layers, sweep
from skmrf.samplers.gibbs_queries import draw_missing
from skmrf.samplers.ladder import MIN_RATE, Ladder
from skmrf.samplers.layers import make_scan
from skmrf.samplers.parallel_tempering import density_ratios
from skmrf.samplers.smc import Tempering

jax = pytest.importorskip("jax")
from skmrf._jax import in_order, open_device
from skmrf._jax.chains import DeviceChains
from skmrf._jax.in_order import (
    CHAINS_PER_KERNEL,
    PairRule,
    find_pairs,
    kernel_in_order,
    kernel_of_pairs,
    loop_in_order,
    loop_of_pairs,
)

pytestmark = pytest.mark.long
N_CHAINS = 4000


# Markov chains -------------------------------------------------------------------------------


def couplings(rng, n):
    """Return random symmetric couplings."""
    upper = np.triu(rng.normal(0.0, 0.7, (n, n)), 1)
    return upper + upper.T


def strong_pairs(rng):
    """Return couplings and biases of five exclusive variables, and of two equal ones."""
    coupling = np.zeros((7, 7))
    coupling[:5, :5] = -24.0 * (1.0 - np.eye(5))
    coupling[5:, 5:] = 18.0 * (1.0 - np.eye(2))
    order = rng.permutation(7)
    bias = np.repeat([12.0, -9.0], [5, 2]) + rng.normal(0.0, 0.5, 7)
    return coupling[order][:, order], bias[order]


def make_energies():
    """Return small models of all kinds that a device samples."""
    rng = np.random.default_rng(3)
    layers = rng.normal(0.0, 0.8, (5, 3)), rng.normal(size=5), rng.normal(size=3)
    pairs, other = couplings(rng, 5), np.random.default_rng(4)
    coupling, bias = strong_pairs(other)
    wide = other.normal(0.0, 0.8, (7, 3)), bias, other.normal(size=3)
    return {
        "layers": BipartiteEnergy(*layers),
        "pairs": PairwiseEnergy(pairs, rng.normal(size=5), (-1, 1)),
        "coupled layers": SemiRestrictedEnergy(pairs, *layers, states=(-1, 1)),
        "layers of signs": SemiRestrictedEnergy(None, *layers, states=(-1, 1)),
        "graph": FactorGraph([2, 1, 2], [(0,), (0, 2)], [[0.3, -0.2], rng.normal(size=(2, 2))]),
        "strong graph": FactorGraph([2, 1, 2], [(0,), (2, 0)], [[0.3, -0.2], 9.0 * np.eye(2)]),
        "strong coupled layers": SemiRestrictedEnergy(coupling, *wide, states=(0, 1)),
    }


ENERGIES = make_energies()


@pytest.fixture(params=ENERGIES)
def energy(request):
    """Return one of the models."""
    return ENERGIES[request.param]


def visible_distribution(energy):
    """Return the states of the visible variables and their probabilities, by enumeration."""
    states, log_f = enumerate_states(energy)
    p = np.exp(log_f - np.logaddexp.reduce(log_f))
    n_visible = len(energy.visible_states)
    visible, which = np.unique(states[:, :n_visible], axis=0, return_inverse=True)
    return visible, np.bincount(which.ravel(), p)


def exact_log_z(energy):
    """Return log Z by enumeration."""
    return np.logaddexp.reduce(enumerate_states(energy)[1])


def exact_rows(energy, n, rng):
    """Return exact samples of the visible variables."""
    visible, p = visible_distribution(energy)
    return visible[rng.choice(len(p), size=n, p=p)]


def device_chains(rng):
    """Return chains on the default device."""
    return open_device("jax").chains(rng)


def test_sweeps_leave_the_model_invariant(energy):
    rng = np.random.default_rng(0)
    for reverse in (False, True):
        X = exact_rows(energy, N_CHAINS, rng)
        X, log_weights = sweep(energy, X, device_chains(rng), n_sweeps=3, reverse=reverse)
        check_draws(X, *visible_distribution(energy))
        assert not log_weights.any()


def test_sweeps_converge(energy):
    """Chains from one state forget it, so a sweep does not only return its input."""
    rng = np.random.default_rng(1)
    X = np.zeros((N_CHAINS, len(energy.visible_states)), dtype=int)
    X, _ = sweep(energy, X, device_chains(rng), n_sweeps=200)
    check_draws(X, *visible_distribution(energy))


def test_wrong_model_is_noticed():
    """The checks above have the power to see a bias that is three times too large."""
    energy = ENERGIES["pairs"]
    wrong = energy.with_theta({"coupling": energy.coupling, "bias": energy.bias + 0.3})
    rng = np.random.default_rng(0)
    X, _ = sweep(wrong, exact_rows(energy, N_CHAINS, rng), device_chains(rng), n_sweeps=50)
    with pytest.raises(AssertionError):
        check_draws(X, *visible_distribution(energy))


def test_clamped_entries_condition_the_other_entries(energy):
    rng = np.random.default_rng(2)
    visible, p = visible_distribution(energy)
    for at in (0, -1):
        unknown = np.full((N_CHAINS, len(energy.visible_states)), -1)
        unknown[:, at] = 1
        X = draw_missing(energy, unknown, rng, n_sweeps=100, device="jax")
        assert (X[:, at] == 1).all()
        given = np.where(visible[:, at] == 1, p, 0.0)
        check_draws(X, visible, given / given.sum())


@pytest.mark.parametrize("n_temperatures", [30, pytest.param(600, marks=pytest.mark.slow)])
def test_annealing_estimates_log_z(energy, n_temperatures):
    """The interval has log Z, for a path of one piece and for a path of several pieces."""
    options = {"n_temperatures": n_temperatures, "n_chains": 300, "random_state": 0}
    result = ais(energy, device="jax", **options)
    assert result.lower <= exact_log_z(energy) <= result.upper
    assert result.upper - result.lower < 0.6
    other = ais(energy, **options)
    assert abs(result.value - other.value) < 0.3


def test_annealing_with_chains_at_different_temperatures():
    """Paths that differ by chain have the weights of separate paths."""
    energy, rng = ENERGIES["layers"], np.random.default_rng(0)
    reference = Product.uniform(energy.visible_states)
    X = reference.sample(2 * N_CHAINS, rng)
    ends = np.repeat([0.5, 1.0], N_CHAINS)
    betas = np.linspace(0.0, 1.0, 41)[:, None] * ends
    _, log_weights = sweep(energy, X, device_chains(rng), betas=betas, reference=reference)
    raised, log_p0 = energy.raised(visible_distribution(energy)[0]), -5 * np.log(2.0)
    log_z = [np.logaddexp.reduce(raised(end) + (1 - end) * log_p0) for end in (0.5, 1.0)]
    for weights, log_expected in zip(log_weights.reshape(2, -1), log_z, strict=True):
        check_mean_weight(weights, log_expected)


def test_kernel_of_a_gpu_draws_as_the_loop_does():
    """The kernel, interpreted on the CPU, and the loop draw the same states."""
    rng = np.random.default_rng(0)
    for n, n_chains in ((5, 3), (17, CHAINS_PER_KERNEL[0] + 1), (2049, 10)):
        coupling = couplings(rng, n).astype(np.float32)
        V = (rng.random((n, n_chains)) < 0.5).astype(np.float32)
        scale = rng.random(n_chains).astype(np.float32)
        field = (scale * (coupling @ V)).astype(np.float32)
        noise = rng.logistic(size=(n, n_chains)).astype(np.float32)
        arrays = coupling, scale, field, noise, V
        drawn = np.asarray(jax.jit(loop_in_order)(*arrays))
        assert (drawn == np.asarray(kernel_in_order(*arrays, interpret=True))).all()
        for c in range(n_chains):  # from the definition
            v = V[:, c].copy()
            for i in range(n):
                v[i] = scale[c] * (coupling[i] @ v) > noise[i, c]
            assert (drawn[:, c] == v).all()


@pytest.mark.parametrize(("n", "n_chains", "count"), [(2, 3, 1), (17, 20, 17), (60, 9, 33)])
def test_kernel_and_loop_change_pairs(n, n_chains, count, seed):
    """The kernel, interpreted on the CPU, and the loop change pairs as the definition says."""
    rng, is_odd = np.random.default_rng(seed), np.arange(n_chains) % 2 == 1
    coupling, V = 5.0 * couplings(rng, n), rng.random((n, n_chains)) < 0.5
    scale, bias = rng.random(n_chains), rng.normal(size=(n, n_chains))
    noise = np.where(is_odd & (rng.random((n, n_chains)) < 0.1), np.inf, rng.logistic(size=V.shape))
    first = rng.integers(0, n, n)
    last, field = (first + rng.integers(1, n, n)) % n, scale * (coupling @ V) + bias
    arrays = [a.astype(np.float32) for a in (coupling, scale, field, noise)]
    arrays += [first, last, np.array([count]), V.astype(np.float32)]
    found = np.asarray(jax.jit(loop_of_pairs)(*arrays))
    assert_array_equal(found, kernel_of_pairs(*arrays, interpret=True))
    for c in range(n_chains):
        x = V[:, c].astype(float)
        for i, j, limit in zip(first[:count], last[:count], noise[:, c], strict=False):
            new = x.copy()
            new[[i, j]] = 1.0 - x[[i, j]]
            both = scale[c] * 0.5 * (new @ coupling @ new - x @ coupling @ x) + bias[:, c] @ (
                new - x
            )
            if (x[i] == x[j]) == (coupling[i, j] > 0) and both > limit:
                x = new
        assert_array_equal(found[:, c], x)


@pytest.mark.parametrize("most", [2, 16])
@pytest.mark.parametrize("reverse", [False, True])
def test_pairs_of_a_device_are_those_of_the_cpu(most, reverse, seed, monkeypatch):
    monkeypatch.setattr(layers, "PARTNERS", most)
    rng = np.random.default_rng(seed)
    for n in (1, 2, 9, 30):
        coupling, order = 8.0 * couplings(rng, n), rng.permutation(n)[: max(1, n - 2)]
        rule = PairRule(layers.STRONG_COUPLING, most, reverse)
        is_drawn = np.isin(np.arange(n), order)
        *pairs, count = find_pairs(jax.numpy.asarray(coupling), is_drawn, rule)
        assert_array_equal(
            np.column_stack(pairs)[:count], make_scan([coupling], order, reverse=reverse).pairs
        )


@pytest.mark.parametrize("kind", ["pairs", "strong coupled layers"])
def test_reverse_sweeps(kind, seed):
    """Sweeps in both directions give the same joint distribution of the first and last states."""
    energy, rng, moments = ENERGIES[kind], np.random.default_rng(seed), []
    for reverse in (False, True):
        X = exact_rows(energy, 10 * N_CHAINS, rng)
        moved, _ = sweep(energy, X, device_chains(rng), reverse=reverse)
        before, after = (moved, X) if reverse else (X, moved)
        moments.append(np.einsum("ci,cj->ij", before, after) / len(X))
    assert_allclose(*moments, atol=5.0 * np.sqrt(2 * 0.25 / (10 * N_CHAINS)))


def test_kernels_are_lowered_for_a_gpu():
    """JAX lowers the kernels of training and annealing for a GPU, on a computer without one."""
    if in_order.triton is None:
        pytest.skip("This version of JAX has no Triton kernels.")
    chains = DeviceChains(jax.random.key(0))
    for kind in ("pairs", "strong coupled layers"):
        energy = ENERGIES[kind]

        def moved(X, energy=energy):
            return sweep(energy, X, chains)

        X = np.zeros((100, len(energy.visible_states)), dtype=np.float32)
        text = jax.jit(moved).trace(X).lower(lowering_platforms=("cuda",)).as_text()
        assert text.count("triton") >= 2  # for single variables and for pairs


def test_samples_of_inference():
    energy = ENERGIES["pairs"]
    X = sample(energy, N_CHAINS, method="gibbs", n_sweeps=100, device="jax", random_state=0)
    check_draws(X, *visible_distribution(energy))
    given = {"evidence": {1: 0}, "method": "gibbs", "n_sweeps": 100, "random_state": 0}
    X = sample(energy, N_CHAINS, device="jax", **given)
    visible, p = visible_distribution(energy)
    p = np.where(visible[:, 1] == 0, p, 0.0)
    check_draws(X, visible, p / p.sum())


def test_gradients_of_two_phases(energy):
    """Arrays of JAX have the gradient of numpy, for phases with different rows and weights."""
    rng, n = np.random.default_rng(8), len(energy.visible_states)
    phases = [
        States(rng.integers(0, 2, (n_rows, n)), None, log_weights)
        for n_rows, log_weights in ((7, rng.normal(size=7)), (4, None))
    ]
    arrays = jax.tree.map(jax.numpy.asarray, (energy.device_arrays(), energy.theta))
    on_device = energy.with_device_arrays(arrays[0]).with_theta(arrays[1])
    found = on_device.gradient(*jax.tree.map(jax.numpy.asarray, phases))
    for k, v in energy.gradient(*phases).items():
        assert_allclose(found[k], v, atol=1e-5)


def test_same_seed_same_chains(energy):
    X = np.zeros((5, len(energy.visible_states)), dtype=int)
    first, second, third = (
        sweep(energy, X, device_chains(np.random.default_rng(seed)), n_sweeps=5)[0]
        for seed in (0, 0, 1)
    )
    assert (first == second).all()
    assert (first != third).any()


# Ladders of models --------------------------------------------------------------------------


def exact_ladder(kind, n, rng):
    """Return a ladder whose chains have the distributions of its five rungs, which differ."""
    energy = ENERGIES[kind]
    X = np.zeros((n, 5), dtype=np.int16)
    ladder = Ladder.start(random_product([2] * 5, rng), energy, X, rng)
    for k, (beta, scale) in enumerate([(0.5, 1.0), (1.0, 0.3), (1.0, 0.6)]):
        theta = {name: scale * values for name, values in energy.theta.items()}
        ladder = ladder.drop(1) if k == 2 else ladder
        ladder = ladder.insert(len(ladder) - 1, energy.with_theta(theta), beta, X, rng)
    for k in range(len(ladder)):
        visible, p = rung_distribution(ladder, k)
        ladder.states[k] = visible[rng.choice(len(p), size=n, p=p)]
    return ladder


def rung_distribution(ladder, k):
    """Return the visible states and their probabilities under a rung, by enumeration."""
    visible, _ = visible_distribution(ladder.energy)
    log_f = np.asarray(ladder.rungs.log_density(visible)(k), dtype=float)
    return visible, np.exp(log_f - np.logaddexp.reduce(log_f))


def run_on_device(function, ladder, *, capacity=7, seed=0):
    """Return the result of a compiled function of a padded ladder, its path and chains."""
    padded = PaddedLadder.pad(ladder, capacity)
    for values in (*padded.theta.values(), padded.betas):
        values[len(ladder) :] = np.nan  # entries after the last rung have no effect
    path = Tempering(ladder.rungs.reference, ladder.energy)

    def run(padded, key):
        chains = DeviceChains(key)
        with chains.full_precision():
            return function(padded, path, chains)

    result = jax.device_get(jax.jit(run)(padded, jax.random.key(seed)))
    return result.unpad(path) if isinstance(result, PaddedLadder) else result


def check_same_ladders(found, expected):
    assert len(found) == len(expected)
    assert found.rungs.betas == expected.rungs.betas
    assert_array_equal(found.states, expected.states)
    assert_allclose(found.replicas.rejection_rates, expected.replicas.rejection_rates, rtol=1e-6)
    for energy, other in zip(found.rungs.energies, expected.rungs.energies, strict=True):
        for name, values in other.theta.items():
            assert_allclose(energy.theta[name], values, rtol=1e-6)


@pytest.mark.parametrize("kind", ["layers", "coupled layers"])
def test_rungs_of_a_device_keep_their_distributions(kind):
    """Sweeps and swaps of both kinds of pairs leave the distributions of all rungs invariant."""
    ladder = exact_ladder(kind, N_CHAINS, np.random.default_rng(0))

    def advance(padded, path, chains):
        for _ in range(4):
            padded = padded.advance(path, chains)
        return padded

    after = run_on_device(advance, ladder)
    for k in range(len(ladder)):
        assert (after.states[k] != ladder.states[k]).any()
        check_draws(after.states[k], *rung_distribution(ladder, k))
    with pytest.raises(AssertionError, match="was drawn"):
        check_draws(after.states[-1], *rung_distribution(ladder, 1))
    assert (after.replicas.rejection_rates != 0.5).all()
    assert after.replicas.parity == 0


@pytest.mark.parametrize("kind", ["layers", "coupled layers"])
def test_swap_probabilities_of_a_device(kind):
    """Log ratios of densities are those of the host, for pairs with all kinds of temperatures."""
    ladder = exact_ladder(kind, 50, np.random.default_rng(0))
    low = range(len(ladder) - 1)

    def ratios(padded, path, _):
        return [padded.log_ratios(path, k, k + 1) for k in low]

    for k, found in enumerate(run_on_device(ratios, ladder)):
        pair = [k, k + 1]
        assert_allclose(found, density_ratios(ladder.rungs, ladder.states[pair], pair), atol=2e-5)


@pytest.mark.parametrize("kind", ["layers", "coupled layers"])
def test_moves_of_a_ladder_have_full_precision(kind):
    """On a GPU, products of rounded numbers would be log-densities of another model."""
    ladder = exact_ladder(kind, 5, np.random.default_rng(0))
    given = ladder.rungs.reference, ladder.energy, ladder.states[-1]

    def move(padded, key):
        state = LadderChains(None, *given, None, [], ladder=padded)
        return PTT()._move_on_device(state, True, DeviceChains(key))

    moves = str(jax.make_jaxpr(move)(PaddedLadder.pad(ladder, 7), jax.random.key(0)))
    assert moves.count("dot_general[") > 10
    assert moves.count("Precision.HIGHEST, Precision.HIGHEST") == moves.count("dot_general[")


def test_rungs_of_a_device_are_inserted_and_dropped_as_on_the_host():
    rng = np.random.default_rng(0)
    ladder = exact_ladder("layers", 200, rng)
    ladder.replicas.rejection_rates[:] = [0.1, 0.2, 0.3, 0.4]
    last = ladder.energy.with_theta({k: v + 0.1 for k, v in ladder.energy.theta.items()})
    X = ladder.states[1]

    def change(padded, path, chains):
        padded = padded.with_last(last, X).append().insert(2, ladder.energy.theta, 0.25, X)
        return padded.drop(padded.closest(path, chains))

    expected = ladder.with_last(last, X).append(rng).insert(2, ladder.energy, 0.25, X, rng)
    check_same_ladders(run_on_device(change, ladder), expected.drop_closest())
    check_same_ladders(run_on_device(lambda padded, *_: padded, ladder), ladder)


@pytest.mark.parametrize("capacity", [30, 7])
def test_rungs_of_a_device_fill_gaps(capacity):
    """New rungs connect distant models; in full arrays, the closest rungs are dropped first."""
    rng, n = np.random.default_rng(0), 20
    free = BipartiteEnergy(np.zeros((n, 1)), np.zeros(n), np.zeros(1))
    energy = BipartiteEnergy(np.repeat([4.0, -4.0], n // 2)[:, None], np.zeros(n), np.zeros(1))
    X = np.tile(np.arange(n) < n // 2, (300, 1)).astype(np.int16)
    random = rng.integers(0, 2, X.shape)
    ladder = Ladder.start(Product.uniform([2] * n), free, random, rng)
    for k in (1, 2):
        near = free.interpolate(energy, 0.01 * k)
        ladder = ladder.insert(len(ladder) - 1, near, 1.0, random, rng)
    ladder = ladder.with_last(energy, X)

    def fill(padded, path, chains):
        return padded.fill(path, chains, max_inserted=20)

    filled = run_on_device(fill, ladder, capacity=capacity)
    assert ladder.swap_rate(3, 4) < 0.01
    assert min(filled.swap_rate(k, k + 1) for k in range(len(filled) - 1)) > MIN_RATE - 1e-6
    assert len(filled) == 6 if capacity == 7 else len(filled) >= 8
    weights = [float(energy.theta["weights"][0, 0]) for energy in filled.rungs.energies[1:]]
    assert_allclose(weights[-4:], [1.06, 2.04, 3.02, 4.0], rtol=1e-6)


def test_ladders_of_a_device_find_both_modes():
    """Plain chains stay in the mode where they start; chains of a ladder leave it."""
    rng, n = np.random.default_rng(0), 200
    energy = PairwiseEnergy(0.7 * (1 - np.eye(8)), np.full(8, 0.03))
    visible, p = visible_distribution(energy)
    share = p[visible.sum(axis=1) > 4].sum()
    X = np.zeros((n, 8), dtype=np.int16)
    free = energy.with_theta({k: 0.0 * v for k, v in energy.theta.items()})
    ladder = Ladder.start(Product.uniform([2] * 8), free, X, rng)
    for k in range(1, 5):
        ladder = ladder.insert(len(ladder) - 1, free.interpolate(energy, k / 5), 1.0, X, rng)
    ladder = ladder.with_last(energy, X)

    def follow(padded, path, chains):
        def advance(carry, chains):
            count, total, padded = carry
            padded = padded.advance(path, chains)
            up = (padded.states.sum(axis=1) > 4).mean()
            return count + 1, total + up * (count >= 40), padded

        return chains.run_while(lambda carry: carry[0] < 110, advance, (0, 0.0, padded))[1]

    found = run_on_device(follow, ladder) / 70
    assert 0.5 < share < 0.8
    assert abs(found - share) < 5 * np.sqrt(share * (1 - share) / n)
    stuck, _ = sweep(energy, X, device_chains(rng), n_sweeps=100)
    assert (stuck.sum(axis=1) > 4).mean() < share - 0.25
