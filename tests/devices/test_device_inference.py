"""Tests of inference on a device of JAX: Markov chains, log Z, and conditional models."""

import pickle

import numpy as np
import pytest
from montecarlo import check_draws, check_mean_weight, random_product
from numpy.testing import assert_allclose, assert_array_equal
from scipy.sparse import csr_array
from zoo import enumerate_states

from skmrf import CRBMStructuredPredictor
from skmrf._utils.phases import States
from skmrf._utils.rows import Batch
from skmrf.energies import (
    BipartiteEnergy,
    ConditionalBipartiteEnergy,
    FactorGraph,
    PairwiseEnergy,
    SemiRestrictedEnergy,
)
from skmrf.inference import sample
from skmrf.learners import CD, LR, LSSVM, MLEBP, MLEMF, MSSVM, PTT, CDPercLoss
from skmrf.learners.ptt import LadderChains, PaddedLadder
from skmrf.likelihood import ais
from skmrf.samplers import Product, sweep
from skmrf.samplers.gibbs_queries import draw_missing
from skmrf.samplers.ladder import MIN_RATE, Ladder
from skmrf.samplers.parallel_tempering import density_ratios
from skmrf.samplers.smc import Tempering
from skmrf.variational.bipartite import coordinate_ascent, mean_field, propagate

jax = pytest.importorskip("jax")
from skmrf._jax import devices, open_device
from skmrf._jax.chains import DeviceChains
from skmrf._jax.in_order import CHAINS_PER_KERNEL, kernel_in_order, loop_in_order

pytestmark = pytest.mark.long
N_CHAINS = 4000
quiet = pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
N_INPUTS, N_VISIBLE, N_HIDDEN = 4, 6, 3


# Markov chains -------------------------------------------------------------------------------


def couplings(rng, n):
    """Return random symmetric couplings."""
    upper = np.triu(rng.normal(0.0, 0.7, (n, n)), 1)
    return upper + upper.T


def make_energies():
    """Return small models of all kinds that a device samples."""
    rng = np.random.default_rng(3)
    layers = rng.normal(0.0, 0.8, (5, 3)), rng.normal(size=5), rng.normal(size=3)
    pairs = couplings(rng, 5)
    return {
        "layers": BipartiteEnergy(*layers),
        "pairs": PairwiseEnergy(pairs, rng.normal(size=5), (-1, 1)),
        "coupled layers": SemiRestrictedEnergy(pairs, *layers, states=(-1, 1)),
        "layers of signs": SemiRestrictedEnergy(None, *layers, states=(-1, 1)),
        "graph": FactorGraph([2, 1, 2], [(0,), (0, 2)], [[0.3, -0.2], rng.normal(size=(2, 2))]),
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
    unknown = np.full((N_CHAINS, len(energy.visible_states)), -1)
    unknown[:, 0] = 1
    X = draw_missing(energy, unknown, rng, n_sweeps=100, device="jax")
    assert (X[:, 0] == 1).all()
    visible, p = visible_distribution(energy)
    p = np.where(visible[:, 0] == 1, p, 0.0)
    check_draws(X, visible, p / p.sum())


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


# Conditional models --------------------------------------------------------------------------


def make_fields(seed, n_rows=9, scale=1.0):
    """Return float32 weights and fields of two layers for several rows."""
    rng = np.random.default_rng(seed)
    arrays = (
        scale * rng.normal(size=(N_VISIBLE, N_HIDDEN)),
        rng.normal(size=(n_rows, N_VISIBLE)),
        rng.normal(size=(n_rows, N_HIDDEN)),
    )
    return [a.astype(np.float32) for a in arrays]


def make_energy(seed=3):
    rng = np.random.default_rng(seed)
    shapes = (N_VISIBLE, N_HIDDEN), (N_INPUTS, N_VISIBLE), (N_INPUTS, N_HIDDEN)
    arrays = [rng.normal(0.0, 0.7, s).astype(np.float32) for s in shapes]
    return ConditionalBipartiteEnergy(*arrays, rng.normal(size=6), rng.normal(size=3))


def make_rows(n_rows=300, seed=0):
    """Return inputs and outputs: one hidden choice determines all outputs, with noise."""
    rng = np.random.default_rng(seed)
    choice = rng.integers(0, 2, (n_rows, 1))
    Y = np.hstack([choice, 1 - choice, choice])
    return (Y ^ (rng.random(Y.shape) < 0.2)).astype(float), Y


def small_fit(learner="mle-bp", **options):
    """Return an estimator that is fitted quickly on the default device of JAX."""
    given = {"device": "jax", "alpha": 0.01, "max_iter": 15, "early_stopping": False}
    return CRBMStructuredPredictor(4, learner, **given | {"random_state": 0} | options)


# Inference ---------------------------------------------------------------------------------


def check_same_beliefs(found, expected, atol):
    """Check that beliefs are equal to the precision of float32."""
    for name in ("visible", "hidden", "pairs"):
        value = getattr(expected, name)
        if value is not None:
            assert_allclose(getattr(found, name), value, rtol=1e-4, atol=atol)
    for name in ("converged", "n_iter"):
        assert_array_equal(getattr(found, name), getattr(expected, name))


@pytest.mark.parametrize("scale", [1.0, 6.0])
@pytest.mark.parametrize("product", ["sum", "max", "mixed"])
def test_messages_of_belief_propagation(product, scale):
    """The beliefs, their pairs and the number of iterations of each row are those of numba."""
    arrays = make_fields(1, scale=scale)
    options = {"product": product, "pairs": product == "sum", "max_iter": 12}
    found = jax.jit(lambda *a: propagate(*a, **options))(*arrays)
    expected = propagate(*arrays, **options)
    check_same_beliefs(found, expected, 1e-5 * scale)
    if product == "sum":
        assert len(set(expected.n_iter.tolist())) > 1  # rows stop after different iterations
        fewer = propagate(*arrays, **options | {"max_iter": 1})
        assert np.abs(fewer.visible - expected.visible).max() > 1e-3


def test_large_weights_do_not_overflow():
    arrays = make_fields(2, scale=60.0)
    found = jax.jit(lambda *a: propagate(*a, pairs=True))(*arrays)
    for value in found:
        assert np.isfinite(np.asarray(value, float)).all()


def test_mean_field_and_coordinate_ascent():
    arrays = make_fields(4, scale=1.5)
    found = jax.jit(lambda *a: mean_field(*a, pairs=True))(*arrays)
    check_same_beliefs(found, mean_field(*arrays, pairs=True), 1e-5)
    start = arrays[1] > 0
    found = jax.jit(lambda *a: coordinate_ascent(*a, start))(*arrays)
    expected = coordinate_ascent(*arrays, start)
    check_same_beliefs(found, expected, 1e-5)
    assert ((expected.visible > 0) != start).any()


# Gradients ---------------------------------------------------------------------------------


def gradients(learner, energy, batch, n_draws=1):
    """Return the mean gradient of a learner on the CPU and on the device."""
    state = learner.init(energy, batch, np.random.default_rng(0))
    rng, host = np.random.default_rng(1), []
    for _ in range(n_draws):
        positive, negative, _, info = learner.step(energy, batch, state, rng)
        host.append(energy.gradient(positive, negative, batch))
    chains = open_device("jax").chains(np.random.default_rng(2))

    @jax.jit
    def gradient(theta, X, Y, key):
        model, rows = energy.with_theta(theta), Batch(X, Y, epoch=0)
        draws = devices.DeviceChains(key)
        given = None if state is None else type(state)(**vars(state) | {"generators": draws})
        positive, negative, _, found = learner.step(model, rows, given, draws)
        assert found.keys() == info.keys()
        return model.gradient(positive, negative, rows)

    found = [gradient(energy.theta, batch.X, batch.Y, chains.split()) for _ in range(n_draws)]
    drawn = host, found
    return ({k: np.mean([g[k] for g in d], axis=0) for k in energy.theta} for d in drawn)


LEARNERS = [MLEBP(), MLEMF(), MSSVM(), MSSVM(schedule="parallel"), LSSVM()]


@pytest.mark.parametrize("learner", LEARNERS, ids=repr)
def test_deterministic_gradients(learner):
    rng = np.random.default_rng(5)
    X = rng.normal(size=(30, N_INPUTS)).astype(np.float32)
    batch = Batch(X, rng.integers(0, 2, (30, N_VISIBLE)))
    host, found = gradients(learner, make_energy(), batch)
    for k, v in host.items():
        assert_allclose(found[k], v, atol=2e-5)
    assert max(np.abs(v).max() for v in host.values()) > 0.05


@pytest.mark.parametrize("learner", [CD(n_sweeps=2), CDPercLoss(n_sweeps=2)], ids=repr)
def test_sampled_gradients(learner):
    rng = np.random.default_rng(6)
    X = np.repeat(rng.normal(size=(5, N_INPUTS)), 200, axis=0).astype(np.float32)
    batch = Batch(X, np.repeat(rng.integers(0, 2, (5, N_VISIBLE)), 200, axis=0))
    host, found = gradients(learner, make_energy(), batch, n_draws=20)
    for k, v in host.items():
        assert_allclose(found[k], v, atol=0.03)
    assert max(np.abs(v).max() for v in host.values()) > 0.1


# Estimators --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "learner",
    ["mle-bp", "mssvm", LR()],
    ids=str,
)
@quiet
def test_fits_agree_with_the_cpu(learner):
    X, Y = make_rows()
    options = {"optimizer": "sgd", "learning_rate": 0.1}
    host, device = (small_fit(learner, device=d, **options).fit(X, Y) for d in ("cpu", "jax"))
    for k, v in host.energy_.theta.items():
        assert_allclose(device.energy_.theta[k], v, atol=0.05)
        assert type(device.energy_.theta[k]) is np.ndarray
    odds = host.decision_function(X)
    assert_allclose(device.decision_function(X), odds, atol=0.1)
    assert np.abs(odds).max() > 1.0
    assert device.history_.keys() == host.history_.keys()
    assert b"jax" not in pickle.dumps(device.set_params(device="cpu"))


@quiet
def test_predictions_early_stopping_and_sparse_inputs(monkeypatch):
    """Predictions on the device are those of the CPU, in blocks of rows and for sparse rows."""
    X, Y = make_rows()
    model = small_fit("mle-mf", early_stopping=True, max_iter=6).fit(X, Y)
    assert len(model.history_["validation_score"]) == model.n_iter_
    on_device = model.predict_proba(X)
    monkeypatch.setattr("skmrf.estimators._output_odds.N_ROWS", 64)
    assert_allclose(model.predict_proba(X), on_device, rtol=1e-5)
    assert_allclose(model.predict_proba(csr_array(X)), on_device, rtol=1e-5)
    assert_allclose(model.set_params(device="cpu").predict_proba(X), on_device, rtol=1e-4)


@quiet
def test_rows_that_do_not_fit_are_sent_in_blocks(monkeypatch):
    X, Y = make_rows()
    resident = small_fit("mle-mf").fit(X, Y)
    monkeypatch.setattr(devices, "RESIDENT_SHARE", 0.0)
    monkeypatch.setattr("skmrf.training.device.BLOCK_BYTES", 1000)
    monkeypatch.setattr(devices.Device, "free_bytes", 1e9)
    in_blocks = small_fit("mle-mf").fit(X, Y)
    for k, v in resident.energy_.theta.items():  # only the order of the rows differs
        assert_allclose(in_blocks.energy_.theta[k], v, atol=0.05)
    assert np.abs(resident.energy_.weights).max() > 0.5


# Errors ------------------------------------------------------------------------------------


class OwnLearner(MLEBP):
    is_pure = False


@quiet
def test_memory_of_messages(monkeypatch):
    X, Y = make_rows()
    monkeypatch.setattr(devices.Device, "free_bytes", 40_000.0)
    with pytest.raises(MemoryError, match=r"needs about .* bytes of the device, and 4e"):
        small_fit(batch_size=200).fit(X, Y)
    small_fit("mle-mf", batch_size=200, max_iter=1).fit(X, Y)


def test_errors_name_learners_that_run():
    X, Y = make_rows()
    with pytest.raises(ValueError, match=r"does not run on a device.*'mle-bp', 'mle-mf', 'mssvm'"):
        small_fit(OwnLearner()).fit(X, Y)
    with pytest.raises(ValueError, match=r'cannot run a deterministic solver.*optimizer="sgd"'):
        small_fit("lr").fit(X, Y)
    with pytest.raises(ValueError, match="device must be one of"):
        small_fit(device="tpu0").fit(X, Y)


def test_few_rows_have_no_hidden_units_on_a_device():
    X, Y = make_rows()
    models = [CRBMStructuredPredictor(4, device=k, random_state=0) for k in ("jax", "cpu")]
    found, expected = (model.fit(X[:60], Y[:60]).predict_proba(X) for model in models)
    assert not models[0].energy_.weights.any()
    np.testing.assert_allclose(found, expected, atol=2e-6)
