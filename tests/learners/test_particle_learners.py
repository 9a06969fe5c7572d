"""Tests of particle learners: at a fixed model against enumeration, and in training."""

import pickle
import sys
import warnings
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import twins
from montecarlo import check_mean_weight
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning
from zoo import TABLE_LEARNERS, ZOO, layers

from skmrf import RBM, BoltzmannMachine, DiscreteMRF
from skmrf._jax import open_device
from skmrf._utils.codes import STATE
from skmrf._utils.log_weights import effective_sample_size, logsumexp, normalized_weights
from skmrf._utils.rows import Batch
from skmrf.energies import BipartiteEnergy, FactorGraph, PairwiseEnergy
from skmrf.estimators import _weight_decay
from skmrf.learners import (
    MCMCMLE,
    PCD,
    PSMC,
    PTT,
    SMC,
    ParallelTempering,
    ParticleFilteredMCMCMLE,
    TemperedTransitions,
    particles,
    pcd,
)
from skmrf.learners.pcd import conditional_moments
from skmrf.samplers.smc import Tempering
from skmrf.training import held_out, loop
from skmrf.training.device import LearnerArrays, _chain_axes
from skmrf.training.optimizers import SGD
from skmrf.training.schedules import ConstantRate
from skmrf.training.settings import Settings

sys.path.append(str(Path(__file__).parents[2] / "benchmarks"))
from boltzmann import BalancedPSMC, LiteralPSMC

D, S, UPDATES = 10, 200, 150
PARTICLE_LEARNERS = (
    "pcd",
    "mcmc-mle",
    "pf-mcmc-mle",
    "tempered-transitions",
    "parallel-tempering",
    "ptt",
    "smc",
    "psmc",
)
SAMPLERS = {
    "psmc-temper": PSMC(S),
    "psmc-split": PSMC(S, "split"),
    "psmc-balance": BalancedPSMC(S),
    "psmc-temper-uniform": PSMC(S, reference="uniform"),
    "smc": SMC(S),
    "pcd": PCD(S, 1),
    "tempered-transitions": TemperedTransitions(S),
    "parallel-tempering": ParallelTempering(S),
    "mcmc-mle": MCMCMLE(S, reset=1),
}
UNBIASED_Z = ("psmc-temper", "psmc-split", "psmc-temper-uniform", "smc")


def make_multimodal_energy(seed):
    """Return ten spins with couplings of variance 2, as in the experiment of the paper."""
    W = np.triu(np.random.default_rng([seed, 7]).normal(0.0, np.sqrt(2.0), size=(D, D)), 1)
    return PairwiseEnergy(W + W.T, np.zeros(D))


def make_bimodal_energy(field):
    """Return ten strongly coupled spins, with most probability on all up and all down."""
    J = np.full((D, D), 0.4) - 0.4 * np.eye(D)
    return PairwiseEnergy(J, np.full(D, field))


def visible_states(energy):
    shape = energy.visible_states
    return np.stack(np.unravel_index(np.arange(np.prod(shape)), shape), axis=1).astype(STATE)


def exact_distribution(energy, beta=1.0, reference=None):
    """Return the log-densities of all states and their probabilities."""
    X = visible_states(energy)
    log_f = (
        energy.log_marginal(X)
        if reference is None
        else Tempering(reference, energy).log_density(X)(beta)
    )
    return log_f, np.exp(log_f - twins.log_sum(log_f))


def draw_exactly(energy, n, rng):
    states, (_, p) = visible_states(energy), exact_distribution(energy)
    return states[rng.choice(len(states), size=n, p=p)]


def make_equilibrium_state(learner, energy, X, rng):
    """Return the initial state of the learner with the particles X."""
    state = learner.init(energy, Batch(draw_exactly(energy, 300, rng)), rng)
    replaced = {
        "X": X,
        "log_partition": twins.log_sum(exact_distribution(energy)[0]),
        "variance": 0.0,
    }
    if state.log_weights is not None:
        replaced["log_weights"] = np.full(len(X), -np.log(len(X)))
    if isinstance(learner, ParallelTempering):
        replicas = state.replicas
        states = visible_states(energy)
        laws = [
            exact_distribution(energy, float(beta), state.reference)[1] for beta in replicas.betas
        ]
        chains = [states[rng.choice(len(states), size=len(X), p=p)] for p in laws]
        chains[-1] = X
        replaced["replicas"] = replace(replicas, X=np.stack(chains))
    return replace(state, **replaced)


def run_updates(learner, energy, state, rng, n_updates=UPDATES):
    """Return the weighted particles and the diagnostics of each update at one model."""
    batch = Batch(draw_exactly(energy, 50, rng))
    particles, infos = [], []
    for _ in range(n_updates):
        _, negative, state, info = learner.step(energy, batch, state, rng)
        weights = normalized_weights(negative.log_weights, len(negative.visible))
        particles.append((negative.visible, weights))
        infos.append(info)
    return particles, infos, state


def pool_frequencies(particles):
    """Return the frequencies of the 2^D states over all updates."""
    bits = 1 << np.arange(D)[::-1]
    total = np.zeros(2**D)
    for X, weights in particles:
        total += np.bincount(X @ bits, weights, minlength=2**D)
    return total / len(particles)


def run_at(name_or_learner, energy, seed, X=None):
    learner = SAMPLERS.get(name_or_learner, name_or_learner)
    rng = np.random.default_rng(seed)
    X = draw_exactly(energy, S, rng) if X is None else X
    state = make_equilibrium_state(learner, energy, X, rng)
    return run_updates(learner, energy, state, rng)


# At a fixed model ------------------------------------------------------------------------


@pytest.mark.long
@pytest.mark.parametrize("name", SAMPLERS)
def test_particles_stay_in_equilibrium(name, seed):
    """The total variation to the model is small, and estimates of Z are unbiased."""
    energy = make_multimodal_energy(seed)
    actual, infos, _ = run_at(name, energy, seed)
    log_f, p = exact_distribution(energy)
    # Local moves hardly change the weights of modes, so they have a larger error.
    local = ("psmc-balance", "pcd", "tempered-transitions", "mcmc-mle")
    bound = 0.1 if name in local else 0.05
    assert 0.5 * np.abs(pool_frequencies(actual) - p).sum() < bound
    if name in UNBIASED_Z:
        log_z = twins.log_sum(log_f)
        values = np.array([info["log_partition"] for info in infos])
        errors = np.array([info["log_partition_error"] for info in infos])
        check_mean_weight(values, log_z)
        assert np.mean(np.abs(values - log_z) < 4 * errors) > 0.95
        assert all(info["least_ess"] >= 0.9 - 1e-9 for info in infos)


def test_fresh_particles_without_weights_are_biased(seed):
    """Negative control: Algorithm 4 of the paper as printed exceeds the bounds above."""
    energy = make_multimodal_energy(seed)
    actual, infos, _ = run_at(LiteralPSMC(S, reference="uniform"), energy, seed)
    assert 0.5 * np.abs(pool_frequencies(actual) - exact_distribution(energy)[1]).sum() > 0.2
    assert np.mean([info["n_temperatures"] for info in infos]) < 4


def share_up(particles, last=75):
    """Return the share of particles with most spins up."""
    return np.mean([w @ (X.sum(axis=1) > D / 2) for X, w in particles[-last:]])


@pytest.mark.long
@pytest.mark.parametrize("refresh", ["none", "temper", "split"])
def test_fresh_particles_correct_the_weights_of_modes(refresh, seed):
    """Without fresh particles, wrong weights of modes persist."""
    energy = make_bimodal_energy(0.02)
    states, (_, p) = visible_states(energy), exact_distribution(energy)
    true = p[states.sum(axis=1) > D / 2].sum()
    up, down = np.ones((10, D), dtype=STATE), np.zeros((S - 10, D), dtype=STATE)
    actual, _, _ = run_at(PSMC(S, refresh), energy, seed, np.concatenate([up, down]))
    assert 0.4 < true < 0.8
    if refresh == "none":
        assert share_up(actual) < 0.5 * true
    else:
        assert abs(share_up(actual) - true) < 0.1


@pytest.mark.parametrize("learner", [PSMC(400, "none"), BalancedPSMC(400)])
def test_errors_of_log_z_accumulate_without_tempering(learner, seed):
    """Along a sequence of models, log Z stays within an error that increases."""
    energies = [make_multimodal_energy(seed).tempered(b) for b in 0.3 + 0.01 * np.arange(30)]
    rng = np.random.default_rng(seed)
    state = make_equilibrium_state(learner, energies[0], draw_exactly(energies[0], 400, rng), rng)
    batch = Batch(draw_exactly(energies[0], 50, rng))
    errors = []
    for energy in energies[1:]:
        _, _, state, info = learner.step(energy, batch, state, rng)
        errors.append(state.variance**0.5)
        log_z = twins.log_sum(exact_distribution(energy)[0])
        assert abs(state.log_partition - log_z) < max(6 * errors[-1], 0.1)
        assert "log_partition" not in info  # because its error accumulates
    assert (np.diff(errors) > 0).all()
    assert errors[-1] < 0.2


@pytest.mark.parametrize("name", ["psmc-temper", "psmc-split", "smc"])
def test_errors_of_log_z_do_not_accumulate_with_tempering(name, seed):
    """A wrong estimate for the last model has no effect on that for the new model."""
    energy, rng = make_multimodal_energy(seed).tempered(0.5), np.random.default_rng(seed)
    learner = clone(SAMPLERS[name]).set_params(reference="uniform")
    far = make_bimodal_energy(0.3)
    state = make_equilibrium_state(learner, far, draw_exactly(far, S, rng), rng)
    state = replace(state, log_partition=1e6)
    _, infos, _ = run_updates(learner, energy, state, rng, 20)
    log_z = twins.log_sum(exact_distribution(energy)[0])
    assert abs(np.mean([info["log_partition"] for info in infos]) - log_z) < 0.15


# Reweighting -----------------------------------------------------------------------------


@pytest.mark.parametrize("layered", [True, False])
def test_mcmc_mle_has_importance_weights(layered, seed):
    """The weights are exp((theta - theta_0) phi), with hidden units summed out."""
    rng = np.random.default_rng(seed)
    make = (lambda k: layers(5, 3, [seed, k], 0.3)) if layered else None
    make = make or (lambda k: ZOO["chain"](seed).tempered(1.0 + 0.1 * k))
    first = make(0)
    batch = Batch(draw_exactly(first, 100, rng))
    learner = MCMCMLE(300, reset=10, ess_threshold=0.0)
    state = learner.init(first, batch, rng)
    X = state.X.copy()
    for k in range(1, 10):
        energy = make(k)
        _, negative, state, info = learner.step(energy, batch, state, rng)
        expected = energy.log_marginal(X) - first.log_marginal(X)
        assert_array_equal(negative.visible, X)
        assert_allclose(negative.log_weights, expected - logsumexp(expected), rtol=0, atol=1e-12)
        assert info["ess"] == pytest.approx(effective_sample_size(expected) / 300)
    learner.step(make(9), batch, state, rng)
    _, _, state, _ = learner.step(make(9), batch, state, rng)
    assert (state.X != X).any()  # the tenth step was a reset
    assert_allclose(state.log_weights, -np.log(300))
    _, _, after, _ = learner.step(make(9), batch, state, rng)
    assert_array_equal(after.X, state.X)  # the next reset is after ten more steps


def test_particle_filter_resamples_at_low_effective_sample_size(seed):
    rng = np.random.default_rng(seed)
    energy = ZOO["chain"](seed)
    learner = ParticleFilteredMCMCMLE(200, ess_threshold=0.9)
    batch = Batch(draw_exactly(energy, 100, rng))
    state = learner.init(energy, batch, rng)
    X = state.X
    *_, state, info = learner.step(energy, batch, state, rng)
    assert info["ess"] == pytest.approx(1.0)
    assert_array_equal(state.X, X)
    *_, state, info = learner.step(energy.tempered(3.0), batch, state, rng)
    assert info["ess"] < 0.9
    assert (state.X != X).any()
    assert_allclose(state.log_weights, -np.log(200))


# Resuming --------------------------------------------------------------------------------


@pytest.mark.parametrize("layered", [True, False])
@pytest.mark.parametrize("name", PARTICLE_LEARNERS)
def test_states_resume_bit_for_bit(name, layered, seed):
    rng = np.random.default_rng(seed)
    energies = [
        layers(6, 4, [seed, k]) if layered else make_multimodal_energy([seed, k]).tempered(0.3)
        for k in range(6)
    ]
    batch = Batch(draw_exactly(energies[0], 80, rng))
    learner = TABLE_LEARNERS[name]()
    state = learner.init(energies[0], batch, rng)
    for energy in energies[:3]:
        _, _, state, _ = learner.step(energy, batch, state, rng)
    saved = pickle.dumps((state, rng))
    results = []
    for copy, from_rng in ((state, rng), pickle.loads(saved)):
        for energy in energies[3:]:
            _, negative, copy, info = learner.step(energy, batch, copy, from_rng)
        results.append((negative, info))
    (one, info), (two, other) = results
    assert_array_equal(one.visible, two.visible)
    assert info == pytest.approx(other, rel=1e-9)
    if one.log_weights is not None:
        assert_array_equal(one.log_weights, two.log_weights)


@pytest.mark.parametrize("name", PARTICLE_LEARNERS)
def test_resume_keeps_particles_for_other_rows(name, seed):
    """A state of another learner is replaced by a new one."""
    rng = np.random.default_rng(seed)
    energy = layers(6, 4, seed)
    learner = TABLE_LEARNERS[name]()
    state = learner.init(energy, Batch(draw_exactly(energy, 80, rng)), rng)
    other = learner.resume(energy, Batch(draw_exactly(energy, 20, rng)), state, rng)
    assert_array_equal(other.X, state.X)
    assert other.data is not state.data
    fresh = learner.resume(energy, Batch(draw_exactly(energy, 20, rng)), "of another", rng)
    assert fresh.X.shape == state.X.shape


# Training --------------------------------------------------------------------------------


def make_problem(kind, seed):
    """Return an estimator and rows for it."""
    rng = np.random.default_rng([seed, 5])
    if kind == "rbm":
        X = draw_exactly(layers(5, 2, [seed, 1], 1.2), 400, rng)
        return RBM(2, max_iter=100, batch_size=400, learning_rate=0.05, alpha=0.01), X
    if kind == "boltzmann":
        X = draw_exactly(ZOO["zero_one"](seed), 400, rng)
        make = BoltzmannMachine(states=(0, 1), max_iter=100, batch_size=400, alpha=0.01)
        return make.set_params(learning_rate=0.1), X
    X = draw_exactly(ZOO["tied"](seed), 400, rng)
    cliques = [(0, 1), (1, 2), (2, 3), (3, 4), (4, 0)]
    return DiscreteMRF(cliques, max_iter=100, batch_size=400, learning_rate=0.1, alpha=0.01), X


def fit_clone(model, X, learner, seed):
    model = clone(model).set_params(learner=learner, random_state=seed)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        return model.fit(X)


@pytest.mark.long
@pytest.mark.parametrize(
    "kind", ["rbm", *(pytest.param(k, marks=pytest.mark.long) for k in ("boltzmann", "discrete"))]
)
def test_log_likelihood_is_close_to_exact_learning(kind, seed):
    """The comparison is with the same number of updates by exact gradients."""
    model, X = make_problem(kind, seed)
    best = fit_clone(model, X, "exact", seed).score(X)
    for name in PARTICLE_LEARNERS:
        actual = fit_clone(model, X, name, seed)
        tolerance = 0.1 if name == "pf-mcmc-mle" else 0.05  # which rarely moves its particles
        assert best - tolerance < actual.score(X) < best + 0.05, name
        assert actual.n_iter_ == 100
        assert all(np.isfinite(v).all() for v in actual.energy_.theta.values()), name


@pytest.mark.parametrize("name", PARTICLE_LEARNERS)
def test_n_jobs_has_no_effect_on_results(name, seed):
    for kind in ("rbm", "discrete"):
        model, X = make_problem(kind, seed)
        model.set_params(max_iter=3)
        thetas = []
        for n_jobs in (1, 2):
            actual = fit_clone(model.set_params(n_jobs=n_jobs), X, name, seed)
            thetas.append(actual.energy_.theta)
        for key, values in thetas[0].items():
            assert_array_equal(values, thetas[1][key])


# Invalid parameters ----------------------------------------------------------------------


@pytest.mark.parametrize(
    ("learner", "message"),
    [
        (PSMC(n_particles=0), "n_particles must be an integer >= 1; got 0"),
        (PSMC(n_sweeps=0), "n_sweeps must be an integer >= 1; got 0"),
        (PSMC(refresh="some"), "refresh must be one of"),
        (PSMC(reference="data"), "reference must be one of"),
        (PSMC(ess_threshold=0.0), "ess_threshold must be a number > 0 and <= 0.999; got 0.0"),
        (PSMC(ess_threshold=1.0), "ess_threshold must be a number > 0 and <= 0.999; got 1.0"),
        (PSMC(fraction=0.0), "fraction must be a number > 0 and <= 1; got 0.0"),
        (PSMC(fraction=1.5), "fraction must be a number > 0 and <= 1; got 1.5"),
        (PSMC(n_particles=1), "fraction=0.5 of n_particles=1 leaves no fresh or no"),
        (PSMC(fraction=1.0), "fraction=1.0 of n_particles=100 leaves no fresh or no"),
        (PSMC(fraction=0.004), "fraction=0.004 of n_particles=100 leaves no fresh or no"),
        (PSMC(200, fraction=0.999), "fraction=0.999 of n_particles=200 leaves no fresh or no"),
        (SMC(n_particles=2.5), "n_particles must be an integer; got 2.5"),
        (SMC(ess_threshold=-1), "ess_threshold must be a number > 0 and <= 0.999; got -1"),
        (SMC(n_sweeps=0), "n_sweeps must be an integer >= 1; got 0"),
        (SMC(reference=1), "reference must be one of"),
        (MCMCMLE(n_particles=-1), "n_particles must be an integer >= 1; got -1"),
        (MCMCMLE(reset=0), "reset must be an integer >= 1; got 0"),
        (MCMCMLE(ess_threshold=2), "ess_threshold must be a number >= 0 and <= 1; got 2"),
        (MCMCMLE(n_sweeps=True), "n_sweeps must be an integer; got True"),
        (
            ParticleFilteredMCMCMLE(ess_threshold="x"),
            "ess_threshold must be a finite number; got 'x'",
        ),
        (ParticleFilteredMCMCMLE(reference="x"), "reference must be one of"),
        (TemperedTransitions(n_chains=0), "n_chains must be an integer >= 1; got 0"),
        (TemperedTransitions(n_temperatures=0), "n_temperatures must be an integer >= 1; got 0"),
        (TemperedTransitions(hottest=1.1), "hottest must be a number >= 0 and <= 1; got 1.1"),
        (TemperedTransitions(reference="x"), "reference must be one of"),
        (ParallelTempering(n_chains=0), "n_chains must be an integer >= 1; got 0"),
        (ParallelTempering(adapt="no"), "adapt must be True or False; got 'no'"),
        (ParallelTempering(betas=1), "betas must be an integer >= 2; got 1"),
        (ParallelTempering(betas=-1), "betas must be an integer >= 2; got -1"),
        (ParallelTempering(betas="a"), "inverse temperatures that increase to 1; got 'a'"),
        (ParallelTempering(betas=[0.5, 0.9]), "inverse temperatures that increase to 1"),
        (ParallelTempering(reference="x"), "reference must be one of"),
        (PCD(n_chains=1.5), "n_chains must be an integer; got 1.5"),
    ],
)
def test_invalid_parameters_raise(learner, message):
    energy = layers(4, 2, 0)
    with pytest.raises(ValueError, match=message):
        learner.init(energy, Batch(np.zeros((3, 4), dtype=STATE)), np.random.default_rng(0))


def model_with_far_mode(kind, n=24):
    """Return a model most of whose probability is near states of ones, far from the zeros."""
    if kind == "layers":  # the hidden unit is then 1
        return BipartiteEnergy(np.full((n, 1), 5.0), np.full(n, -2.5), np.array([3.0 - 2.5 * n]))
    cliques = [(i, j) for i in range(n) for j in range(i)]
    return FactorGraph([3] * n, cliques, [np.diag([0.25, 0.3, 0.0])] * len(cliques))


@pytest.mark.parametrize("device", ["cpu", "jax"])
@pytest.mark.parametrize("kind", ["layers", "tables"])
def test_restarted_chains_find_modes_far_from_the_rows(kind, device, seed):
    """In every tenth step, annealed chains replace some of the chains, also their hidden units."""
    if device != "cpu":
        pytest.importorskip("jax")
    energy, rng = model_with_far_mode(kind), np.random.default_rng(seed)
    data = Batch(np.zeros((100, 24), dtype=np.int16))
    settings = Settings(
        optimizer=SGD(), rate=ConstantRate(1e-9), batch_size=100, average=False, complete=False,
        device=open_device(device),
    )  # fmt: skip
    for n_annealed, n_steps in ((0, 12), (6, 9), (6, 12)):
        learner = PCD(n_chains=64, n_annealed=n_annealed, n_sweeps=1)
        state = replace(loop.start(energy, learner, data, settings, rng), step=1)
        state = loop.run(learner, data, replace(settings, max_iter=n_steps), state)
        is_far = (np.asarray(state.learner.X) == 1).mean(axis=1) > 0.5
        assert is_far.any() == (n_annealed > 0 and n_steps > 9)
        assert not is_far[6:].any()


def enumerated(kind, rng):
    """Return a small random model, all its states and their probabilities."""
    if kind == "pairs":
        coupling = np.triu(rng.normal(size=(4, 4)), 1)
        states = [(-1, 1), (0, 1)][rng.integers(2)]
        energy = PairwiseEnergy(coupling + coupling.T, rng.normal(-1.0, 1.0, 4), states)
    else:
        n_states = {"tables": [2, 3, 1, 3], "tied": [3, 3, 3]}.get(kind, [2, 2, 2, 2])
        cliques = [(i,) for i in range(len(n_states))] + [(0, 1), (0, 2), (1, 2)]
        cliques += [(0, 3, 1), ()] if kind == "tables" else []
        tables = [rng.normal(size=[n_states[v] for v in clique]) for clique in cliques]
        tie = [[3, 4, 5]] if kind == "tied" else None
        tables[4:6] = [tables[3], tables[3]] if tie else tables[4:6]
        energy = FactorGraph(n_states, cliques, tables, tie=tie)
    X = np.array(list(np.ndindex(*energy.n_states)), dtype=STATE)
    log_f = energy.log_potential(X)
    return energy, X, np.exp(log_f - logsumexp(log_f))


@pytest.mark.parametrize("kind", ["tables", "tied", "binary", "pairs"])
def test_conditional_moments_have_the_expectation_of_the_model_and_less_variance(kind, seed):
    energy, X, p = enumerated(kind, np.random.default_rng(seed))
    expected = energy.row_moments(X, np.log(p))
    by_state = [conditional_moments(energy, x[None]).moments for x in X]
    frequencies = [energy.row_moments(x[None]) for x in X]
    all_variances = []
    for key, value in expected.items():
        found, counts = ([m[key] for m in moments] for moments in (by_state, frequencies))
        assert_allclose(np.tensordot(p, found, 1), value, atol=1e-6)
        variances = [np.tensordot(p, (np.array(m) - value) ** 2, 1) for m in (found, counts)]
        assert (variances[0] <= variances[1] + 1e-6).all()
        all_variances.append([v.sum() for v in variances])
        mean = conditional_moments(energy, X[::2]).moments[key]
        assert_allclose(mean, np.mean(found[::2], axis=0), atol=1e-6)
    smaller, larger = np.sum(all_variances, axis=0)
    assert smaller < 0.8 * larger


def test_rao_blackwell_replaces_the_states_of_the_chains(seed):
    energy, X, _ = enumerated("binary", np.random.default_rng(seed))
    learner, batch = PCD(n_chains=20, rao_blackwell=True), Batch(X)
    rng = np.random.default_rng(seed)
    _, negative, state, _ = learner.step(energy, batch, learner.init(energy, batch, rng), rng)
    for key, value in conditional_moments(energy, state.X).moments.items():
        assert_allclose(negative.moments[key], value)
    with pytest.raises(ValueError, match="without hidden units; got a BipartiteEnergy"):
        learner.init(layers(3, 2, rng), batch, rng)


def test_pcd_of_boltzmann_machines_restarts_chains(monkeypatch, seed):
    """By name it restarts two chains of a model without hidden units. An instance is unchanged."""
    restarts, restart = [], pcd._restart_chains
    monkeypatch.setattr(
        pcd, "_restart_chains", lambda *given: restarts.append(1) or restart(*given)
    )
    X = np.random.default_rng(seed).choice([-1, 1], (60, 4))
    for learner, n_hidden in (("pcd", 0), (PCD(), 0), ("pcd", 2)):
        restarts.clear()
        given = {"alpha": 0.1, "max_iter": 30, "random_state": 0}
        BoltzmannMachine(learner, n_components=n_hidden, **given).fit(X)
        assert bool(restarts) == (learner == "pcd" and n_hidden == 0)


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize("is_copied", [False, True])
def test_strengths_of_boltzmann_machines_are_scored_from_a_forest(monkeypatch, is_copied, seed):
    """Chains of the scores start at a forest if columns depend on each other."""
    references, score = [], _weight_decay.annealed_log_likelihoods

    def record(model, rows, start, device, reference):
        references.append(reference)
        return score(model, rows, start, device, reference)

    monkeypatch.setattr(_weight_decay, "annealed_log_likelihoods", record)
    monkeypatch.setattr(held_out, "N_TEMPERATURES", (100, 200))
    monkeypatch.setattr(held_out, "N_REFERENCE_TEMPERATURES", (50, 100))
    X = np.random.default_rng(seed).choice([0, 1], (200, 22))
    X[:, 1] = X[:, 0] if is_copied else X[:, 1]
    BoltzmannMachine(states=(0, 1), max_iter=10, random_state=0).fit(X)
    assert references
    for reference in references:
        assert (reference is not None) == is_copied
        assert not is_copied or reference.coupling[0, 1] > 1


@pytest.mark.parametrize("shape", [(0, 3), (50, 7), (2, 40_000)])
def test_flip_rate_is_the_share_of_changed_states(shape, seed):
    before, after = np.random.default_rng(seed).integers(0, 3, (2, *shape), dtype=np.int8)
    expected = (before != after).mean() if before.size else 0.0
    assert particles.flip_rate(before, after.astype(STATE)) == expected
    assert particles.flip_rate(before, (before + 1).T.copy().T) == float(before.size > 0)


def test_restarts_keep_distinct_annealed_states(monkeypatch):
    """The chains of equal annealed states keep their states, except the first of them."""
    jax = pytest.importorskip("jax")
    modes = jax.numpy.array([[1, 1], [1, 1], [2, 0]])
    path = {id(pcd.ANNEALING_BETAS): (modes, None)}
    monkeypatch.setattr(pcd, "sweep", lambda *_, betas: path[id(betas)])
    graph = FactorGraph([3, 3], [(0, 1)], [np.eye(3)])
    chains = open_device("jax").chains(np.random.default_rng(0))
    X, hidden = pcd._restart_chains(graph, 3, (jax.numpy.zeros((4, 2), int), None), chains)
    assert_array_equal(X, [[1, 1], [0, 0], [2, 0], [0, 0]])
    assert hidden is None


@pytest.mark.parametrize(
    ("learner", "part", "axes"),
    [
        (PCD(n_chains=8), None, {"X": 0, "hidden_states": 0}),
        (SMC(n_particles=8), None, {"X": 0, "log_weights": 0}),
        (PTT(n_chains=8), "ladder", {"X": 1}),
        (ParallelTempering(n_chains=8), "replicas", {"X": 1, "last_end": 1, "log_ratios": 2}),
    ],
    ids=lambda part: type(part).__name__,
)
def test_axes_of_chains(learner, part, axes):
    """Several devices divide the arrays of chains, but not other arrays of the same length."""
    energy = BipartiteEnergy(np.zeros((4, 3), np.float32), np.zeros(4), np.zeros(3))
    batch = Batch(np.zeros((20, 4), dtype=STATE))
    state = learner.pad(learner.init(energy, batch, np.random.default_rng(0)))
    arrays = LearnerArrays(learner, state).extract(state)
    assert arrays["reference"]["log_p"].shape == (8,)
    found = _chain_axes(state, arrays, 8)
    assert found["X"] == 0
    assert "log_p" not in found["reference"]
    found = found if part is None else found[part]
    assert {k: axis for k, axis in found.items() if isinstance(axis, int)} == axes
