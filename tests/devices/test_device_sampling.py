"""Tests of Markov chains on a device of JAX: distributions, log Z and the kernel of GPUs."""

import numpy as np
import pytest
from montecarlo import check_draws, check_mean_weight
from zoo import enumerate_states

from skmrf.energies import BipartiteEnergy, FactorGraph, PairwiseEnergy, SemiRestrictedEnergy
from skmrf.inference import sample
from skmrf.likelihood import ais
from skmrf.samplers import Product, sweep
from skmrf.samplers.gibbs_queries import draw_missing

jax = pytest.importorskip("jax")
from skmrf._jax import open_device
from skmrf._jax.chains import CHAINS_A_KERNEL, kernel_in_order, loop_in_order

N_CHAINS = 4000


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


QUICK = ("coupled layers", "graph")


@pytest.fixture(
    params=[pytest.param(k, marks=() if k in QUICK else pytest.mark.long) for k in ENERGIES]
)
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


@pytest.mark.parametrize("n_temperatures", [30, pytest.param(600, marks=pytest.mark.long)])
def test_annealing_estimates_log_z(energy, n_temperatures):
    """The interval has log Z, for a path of one piece and for a path of several pieces."""
    options = {"n_temperatures": n_temperatures, "n_chains": 300, "random_state": 0}
    result = ais(energy, device="jax", **options)
    assert result.lower <= exact_log_z(energy) <= result.upper
    assert result.upper - result.lower < 0.6
    other = ais(energy, **options)
    assert abs(result.value - other.value) < 0.3


@pytest.mark.long
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


@pytest.mark.long
def test_kernel_of_a_gpu_draws_as_the_loop_does():
    """The kernel, interpreted on the CPU, and the loop draw the same states."""
    rng = np.random.default_rng(0)
    for n, n_chains in ((5, 3), (17, CHAINS_A_KERNEL + 1)):
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


@pytest.mark.long
def test_samples_of_inference():
    energy = ENERGIES["pairs"]
    X = sample(energy, N_CHAINS, method="gibbs", n_sweeps=100, device="jax", random_state=0)
    check_draws(X, *visible_distribution(energy))
    given = {"evidence": {1: 0}, "method": "gibbs", "n_sweeps": 100, "random_state": 0}
    X = sample(energy, N_CHAINS, device="jax", **given)
    visible, p = visible_distribution(energy)
    p = np.where(visible[:, 1] == 0, p, 0.0)
    check_draws(X, visible, p / p.sum())


def test_models_of_tables_are_refused():
    energy = FactorGraph([3, 2], [(0, 1)], [np.zeros((3, 2))])
    with pytest.raises(ValueError, match=r'other tables. Use device="cpu"'):
        sample(energy, 3, method="gibbs", device="jax")


def test_same_seed_same_chains(energy):
    X = np.zeros((5, len(energy.visible_states)), dtype=int)
    first, second, third = (
        sweep(energy, X, device_chains(np.random.default_rng(seed)), n_sweeps=5)[0]
        for seed in (0, 0, 1)
    )
    assert (first == second).all()
    assert (first != third).any()
