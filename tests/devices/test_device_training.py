"""Tests of training on a device of JAX: gradients, estimators, memory, and errors."""

import pickle
import subprocess
import sys
from dataclasses import replace
from functools import partial
from itertools import product

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy.sparse import csr_array
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning
from zoo import enumerate_states, long, slow

from skmrf import RBM, BoltzmannMachine
from skmrf._utils.codes import MISSING
from skmrf._utils.namespaces import describe, extract, insert, restrict
from skmrf._utils.results import LatestArray
from skmrf._utils.rows import Batch
from skmrf.energies import BipartiteEnergy, PairwiseEnergy, SemiRestrictedEnergy
from skmrf.estimators._weight_decay import STRENGTHS
from skmrf.learners import (
    CD,
    MCMCMLE,
    PCD,
    PSMC,
    PTT,
    SMC,
    Exact,
    ParallelTempering,
    ParticleFilteredMCMCMLE,
    TemperedTransitions,
)
from skmrf.likelihood.ladder import ladder_log_partition
from skmrf.training import ScoreMonitor, device, loop
from skmrf.training.optimizers import SGD, Adam, Momentum
from skmrf.training.penalties import L1, L2, ElasticNet, GroupL1
from skmrf.training.preconditioning import (
    CoupledLayerPreconditioner,
    LayerPreconditioner,
    PairPreconditioner,
    PreconditionedSGD,
)
from skmrf.training.schedules import AdaptiveRate, ConstantRate, InverseRate, LinearRate, StepRate
from skmrf.training.settings import Settings

jnp = pytest.importorskip("jax.numpy")
import skmrf._jax
from skmrf._jax import chains, devices, open_device

NOISE = np.random.default_rng(1).random((300, 6)) < 0.15
ROWS = np.random.default_rng(0).integers(0, 2, (300, 1)) ^ NOISE.astype(int)
quiet = pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
FITS = {
    "rbm": partial(RBM, 3),
    "pairs": partial(BoltzmannMachine, n_components=0, states=(0, 1)),
    "coupled layers": partial(BoltzmannMachine, n_components=2, states=(0, 1)),
}


def small_fit(kind="rbm", **options):
    """Return an estimator that is fitted quickly on the default device of JAX."""
    given = {"learner": "pcd", "device": "jax", "alpha": 0.01, "batch_size": 100, "max_iter": 4}
    return FITS[kind](**given | {"random_state": 0} | options)


def make_energies():
    """Return small models of all kinds that a device trains."""
    rng = np.random.default_rng(5)
    upper = np.triu(rng.normal(0.0, 0.5, (5, 5)), 1).astype(np.float32)
    layers = rng.normal(0, 0.5, (5, 3)).astype(np.float32), rng.normal(size=5), rng.normal(size=3)
    return {
        "layers": BipartiteEnergy(*layers),
        "pairs": PairwiseEnergy(upper + upper.T, rng.normal(size=5).astype(np.float32), (-1, 1)),
        "coupled layers": SemiRestrictedEnergy(upper + upper.T, *layers, states=(-1, 1)),
        "layers of signs": SemiRestrictedEnergy(None, *layers, states=(-1, 1)),
    }


ENERGIES = make_energies()


# Arithmetic that numpy and JAX share -------------------------------------------------------


def random_like(theta, seed):
    """Return random arrays with the shapes of theta; square ones are symmetric."""
    rng = np.random.default_rng(seed)
    arrays = {k: rng.normal(size=v.shape) for k, v in theta.items()}
    if "coupling" in arrays:
        arrays["coupling"] = arrays["coupling"] + arrays["coupling"].T
        np.fill_diagonal(arrays["coupling"], 0.0)
    return arrays


def preconditioned(kind):
    """Return the preconditioned optimizer of a kind of model."""
    means = np.random.default_rng(0).random(5)
    preconditioners = {
        "layers": lambda: LayerPreconditioner(means, 0.1),
        "pairs": lambda: PairPreconditioner(means, (-1.0, 1.0), 0.1),
        "coupled layers": lambda: CoupledLayerPreconditioner(means, (-1.0, 1.0), (0.1, 0.2)),
    }
    return PreconditionedSGD(preconditioners[kind]())


@pytest.mark.parametrize("kind", ["layers", "pairs", "coupled layers"])
@pytest.mark.parametrize("make", [SGD, Momentum, Adam, None], ids=str)
def test_pure_steps_of_optimizers(kind, make):
    """A step of JAX arrays is a step of numpy arrays, for several steps."""
    optimizer = preconditioned(kind) if make is None else make()
    theta = {k: v.astype(float) for k, v in ENERGIES[kind].theta.items()}
    pure_theta, state = theta, optimizer.init(theta)
    pure_state = optimizer.init(theta)
    for t in range(4):
        gradient = random_like(theta, t)
        on_device = {k: jnp.asarray(v) for k, v in gradient.items()}
        pure_theta, pure_sizes, pure_state = optimizer.pure_step(
            {k: jnp.asarray(v) for k, v in pure_theta.items()}, on_device, 0.1, pure_state
        )
        theta, sizes, state = optimizer.step(theta, gradient, 0.1, state)
        for k, v in theta.items():
            assert_allclose(pure_theta[k], v, rtol=2e-5, atol=2e-5)
            assert_allclose(pure_sizes[k], sizes[k], rtol=2e-5)


@pytest.mark.parametrize(
    "rate",
    [
        ConstantRate(0.2),
        StepRate(0.2, 0.5, 3),
        InverseRate(10.0, 2.0),
        LinearRate(0.3, 9),
        AdaptiveRate(0.3, window=5, cosine=0.3, n_halvings=2),
    ],
    ids=lambda rate: type(rate).__name__,
)
@pytest.mark.parametrize("resolution", [0.0, 0.05])
def test_pure_schedules(rate, resolution):
    """A schedule has the same rates, stages and end for arrays of JAX and of numpy."""
    theta, state = ENERGIES["layers"].theta, rate.init()
    pure = rate.pure_state(state, theta)
    rng, seen = np.random.default_rng(0), []
    for t in range(40):
        assert float(rate.value(pure)) == pytest.approx(rate.value(state), rel=1e-6)
        drift = 2.0 if 12 <= t < 20 else 0.0  # the gradient is not noise in these updates
        gradient = {k: 0.1 * rng.normal(size=v.shape) + drift for k, v in theta.items()}
        on_device = {k: jnp.asarray(v) for k, v in gradient.items()}
        pure, *pure_flags = rate.pure_observe(on_device, pure, resolution)
        state, *flags = rate.observe(gradient, state, resolution)
        assert [bool(f) for f in pure_flags] == flags
        seen.append(tuple(flags))
    if isinstance(rate, AdaptiveRate | LinearRate):
        assert {(True, False), (False, False)} <= set(seen)


@pytest.mark.parametrize("kind", ["layers", "pairs"])
@pytest.mark.parametrize("penalty", [L1, L2, ElasticNet, GroupL1])
def test_penalties_of_jax_arrays(penalty, kind):
    energy = ENERGIES[kind]
    rule = penalty(0.3, energy.penalty_groups())
    on_device = {k: jnp.asarray(v) for k, v in energy.theta.items()}
    different = {k: np.cos(v) ** 8 for k, v in energy.theta.items()}
    for sizes in (different, dict.fromkeys(different, 0.5)):
        new, expected = rule.prox(on_device, sizes), rule.prox(energy.theta, sizes)
        for k, v in expected.items():
            assert_allclose(new[k], v, rtol=4e-6)
            assert new[k].dtype == v.dtype == energy.theta[k].dtype
    if rule.smooth:
        gradient, expected = rule.gradient(on_device), rule.gradient(energy.theta)
        for k, v in expected.items():
            assert_allclose(gradient[k], v, rtol=1e-6)


def test_numbers_of_nested_objects():
    rule = PreconditionedSGD(LayerPreconditioner(np.array([0.2, 0.5]), 0.1))
    parts = {"optimizer": rule, "rates": (1, 2.5), "name": "x", "none": None}
    values = extract(parts)
    assert values["rates"] == {0: 1, 1: 2.5}
    assert values["name"] == values["none"] == {}
    doubled = {0: 2, 1: 5.0}
    new = insert(parts, values | {"rates": doubled})
    assert new["rates"] == (2, 5.0)
    assert parts["rates"] == (1, 2.5)
    assert new["optimizer"] is not rule
    assert_allclose(new["optimizer"].preconditioner.scale, rule.preconditioner.scale)
    assert describe(new) == describe(parts)
    assert describe(parts | {"name": "y"}) != describe(parts)
    assert restrict(values | {"more": 1}, values).keys() == values.keys()


# Gradients ---------------------------------------------------------------------------------


def exact_moments(energy, visible=None):
    """Return the expected statistics of a model, or given rows, by enumeration."""
    states, log_f = enumerate_states(energy)
    n = len(energy.visible_states)
    derivatives = differentiate(energy, states)
    total = dict.fromkeys(energy.theta, 0.0)
    rows = np.full((1, n), MISSING) if visible is None else visible
    for row in rows:
        fits = ((states[:, :n] == row) | (row == MISSING)).all(axis=1)
        p = np.where(fits, np.exp(log_f - log_f.max()), 0.0)
        p /= p.sum()
        for k, v in derivatives.items():
            total[k] = total[k] + v @ p / len(rows)
    return total


def differentiate(energy, states):
    """Return the derivatives of ``log f`` of all states by theta, by central differences."""
    out = {}
    for name, values in energy.theta.items():
        out[name] = np.zeros((*values.shape, len(states)))
        for index in np.ndindex(values.shape):
            if name == "coupling" and index[0] >= index[1]:
                continue
            ends = []
            for step in (1.0, -1.0):
                moved = {k: v.astype(float) for k, v in energy.theta.items()}
                moved[name][index] += step
                if name == "coupling":
                    moved[name][index[::-1]] += step
                ends.append(energy.with_theta(moved).log_potential(states))
            out[name][index] = 0.5 * (ends[0] - ends[1])
            if name == "coupling":
                out[name][index[::-1]] = out[name][index]
    return out


LONG_RUNS = [  # test_gradients_on_several_devices has more runs
    *product([PCD(n_chains=900, n_sweeps=20)], ENERGIES),
    (CD(n_sweeps=30), "coupled layers"),
    (TemperedTransitions(n_chains=1500, n_temperatures=3), "layers"),
    (ParallelTempering(n_chains=1200, betas=4), "layers of signs"),
    (MCMCMLE(n_particles=3000, reset=2), "coupled layers"),
    (ParticleFilteredMCMCMLE(n_particles=9000), "layers"),
    (PSMC(n_particles=9000, refresh="none"), "pairs"),
    (PTT(n_chains=2000, swap_every=2), "layers"),
    (SMC(n_particles=500), "layers of signs", 0.3),
]
SLOW_RUNS = [
    (TemperedTransitions(n_chains=1500, n_temperatures=3), "pairs"),
    (ParallelTempering(n_chains=1200, betas=4), "pairs"),
    (PSMC(n_particles=2000), "layers of signs"),
    (PSMC(n_particles=2000, refresh="split"), "coupled layers"),
    (CD(n_sweeps=30), "pairs", 0.3),
]


@pytest.mark.parametrize(
    ("learner", "kind", "missing"),
    [
        (Exact(), "layers", 0.0),
        (PCD(n_chains=900, n_sweeps=20, rao_blackwell=True), "pairs", 0.3),
        *long(*((*run, 0.0)[:3] for run in LONG_RUNS)),
        *slow(*((*run, 0.0)[:3] for run in SLOW_RUNS)),
    ],
    ids=lambda x: x if isinstance(x, str | float) else type(x).__name__,
)
def test_updates_follow_the_exact_gradient(learner, kind, missing):
    """Compiled updates with a rate near zero move along the gradient of the log-likelihood."""
    energy, rng = ENERGIES[kind], np.random.default_rng(2)
    X = rng.integers(0, 2, (1000, 5)).astype(np.int16)
    if missing:  # in rows that differ from the others
        X[::2] = np.where(rng.random((500, 5)) < missing, MISSING, 1)
    found = gradient_of_updates(energy, learner, X, rng)
    up, down = exact_moments(energy, X), exact_moments(energy)
    for k in energy.theta:
        assert_allclose(found[k], up[k] - down[k], atol=0.06)
    assert max(np.abs(up[k] - down[k]).max() for k in up) > 0.2  # the test has power


def gradient_of_updates(energy, learner, X, rng):
    """Return the mean gradient of ten compiled updates. The chains have forgotten their start."""
    settings = Settings(
        optimizer=SGD(), rate=ConstantRate(1e-9), batch_size=1000, max_iter=10, average=False,
        device=open_device("jax"), complete=False,
    )  # fmt: skip
    state = loop.start(energy, learner, Batch(X), settings, rng)
    state = loop.run(learner, Batch(X), settings, state)
    after = loop.run(learner, Batch(X), replace(settings, rate=ConstantRate(1e-3)), state).energy
    return {k: (after.theta[k].astype(float) - v) / (10 * 1e-3) for k, v in energy.theta.items()}


# Estimators --------------------------------------------------------------------------------


def exact_score(model, X):
    """Return the mean log-likelihood of rows, by enumeration."""
    energy = model.energy_.astype(float) if model.energy_.has_latent else model.energy_
    log_z = np.logaddexp.reduce(enumerate_states(energy)[1])
    return energy.log_marginal(X).mean() - log_z


@pytest.mark.parametrize(
    ("learner", "kind"),
    [
        *long(*product(["pcd"], FITS)),
        *slow(("tempered-transitions", "coupled layers"), ("parallel-tempering", "rbm")),
        *slow(("ptt", "coupled layers")),
    ],
)
@quiet
def test_fits_are_as_good_as_on_the_cpu(learner, kind):
    options = {"learner": learner, "max_iter": 80, "optimizer": "adam", "learning_rate": 0.05}
    models = [small_fit(kind, device=name, **options).fit(ROWS) for name in ("cpu", "jax")]
    scores = [exact_score(model, ROWS) for model in models]
    independent = ROWS.mean(axis=0)
    entropy = -(independent * np.log(independent) + (1 - independent) * np.log(1 - independent))
    assert scores[1] > -entropy.sum() + 0.5
    assert abs(scores[0] - scores[1]) < 0.12
    rates = [m.history_["flip_rate"][-50:] for m in models if learner in ("pcd", "ptt")]
    assert not rates or abs(np.mean(rates[0]) - np.mean(rates[1])) < 0.06


@pytest.mark.parametrize(
    "kind",
    ["rbm", *long("pairs", "coupled layers")],
)
@quiet
def test_queries_of_a_fitted_model(kind):
    model = small_fit(kind, max_iter=40).fit(ROWS)
    assert model.sample(7, random_state=0).shape == (7, 6)
    assert np.isfinite(model.score_samples(ROWS)).all()
    assert model.log_partition_method_ == "exact"
    assert model.history_["n_updates"] == list(range(3, 121, 3))
    assert set(model.history_) >= {"gradient_rms", "learning_rate", "epoch"}
    for values in model.energy_.theta.values():
        assert type(values) is np.ndarray
    again = clone(model).fit(ROWS)
    for k, v in model.energy_.theta.items():
        assert (again.energy_.theta[k] == v).all()
    other = clone(model).set_params(random_state=1).fit(ROWS)
    assert any((other.energy_.theta[k] != v).any() for k, v in model.energy_.theta.items())


@pytest.mark.long
@quiet
def test_choice_of_alpha_uses_the_device():
    model = RBM(2, device="jax", max_iter=20, batch_size=100, random_state=0).fit(ROWS)
    assert model.alpha_ in {s / len(ROWS) for s in STRENGTHS}


@pytest.mark.long
@quiet
def test_pickles_load_without_jax():
    model = small_fit().fit(ROWS)
    code = (
        "import pickle, sys; sys.modules['jax'] = None\n"
        "model = pickle.loads(sys.stdin.buffer.read())\n"
        "print(float(model.set_params(device='cpu').score([[1, 1, 1, 1, 1, 1]])))\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], input=pickle.dumps(model), capture_output=True, check=False
    )
    assert done.returncode == 0, done.stderr.decode()
    assert float(done.stdout) == pytest.approx(model.score([[1] * 6]))


@quiet
def test_training_continues():
    """A warm start continues with the chains of the previous fit and counts its epochs."""
    model = small_fit(warm_start=True, max_iter=3).fit(ROWS)
    chains = model._loop_state.learner.hidden_states.copy()
    model.fit(ROWS)
    assert model.n_iter_ == 6
    assert model.history_["n_updates"][-1] == 18
    assert (model._loop_state.learner.hidden_states != chains).any()
    model.partial_fit(ROWS)
    assert model.n_iter_ == 7


LADDER = PTT(n_chains=60, swap_every=2, target_swap_rate=0.85, max_rungs=4)


@quiet
def test_ladder_of_a_fit(monkeypatch):
    """A fit on a device keeps a ladder of numpy arrays, from which a fit on the CPU continues."""
    model = small_fit("pairs", learner=LADDER, warm_start=True, max_iter=40).fit(ROWS)
    assert model.history_["n_rungs"][0] == 3
    assert model.history_["n_rungs"][-1] == 4
    saved = model._loop_state.learner.ladder
    assert all(type(v) is np.ndarray for e in saved.rungs.energies for v in e.theta.values())
    assert b"jax" not in pickle.dumps(saved)
    estimate = ladder_log_partition(model.ladder_, 0).result
    assert abs(estimate.value - model.log_partition_) < 5 * estimate.std_error
    assert model.equilibrium_["missed"] < 0.2
    for name, n_iter in (("jax", 80), ("cpu", 120)):
        model.set_params(device=name).fit(ROWS)
        assert model.n_iter_ == n_iter
        assert model._loop_state.learner.age == 3 * n_iter
    assert model.partial_fit(ROWS).n_iter_ == 121

    def interrupted(self, *args):
        epochs.append(self.epoch_number)
        if len(epochs) == 4:
            raise KeyboardInterrupt
        return call(self, *args)

    epochs, call = [], device.DeviceUpdates._call
    monkeypatch.setattr(device, "CALL_SECONDS", 0.0)
    monkeypatch.setattr(device.DeviceUpdates, "_call", interrupted)
    with pytest.warns(ConvergenceWarning, match="Interrupted"):
        model = small_fit("pairs", learner=LADDER, max_iter=40).fit(ROWS)
    assert model.n_iter_ == epochs[-1] == 3
    assert len(model._ladder) == 4
    assert model.sample(5, random_state=0).shape == (5, 6)


@quiet
def test_callbacks_see_each_epoch():
    monitor = ScoreMonitor(ROWS)
    model = small_fit(max_iter=5).set_callbacks(monitor).fit(ROWS)
    assert len(monitor.scores) == 5
    assert len(set(monitor.scores)) == 5
    assert monitor.scores[-1] == pytest.approx(model.score(ROWS), abs=1e-6)


@pytest.mark.long
@quiet
def test_early_stopping():
    model = small_fit(early_stopping=True, n_iter_no_change=2, max_iter=30).fit(ROWS)
    scores = model.history_["validation_score"]
    assert len(scores) == model.n_iter_
    assert np.isfinite(scores).all()


@pytest.mark.long
@quiet
def test_weights_sparse_rows_and_probabilities():
    weights = np.where(ROWS[:, 0] == 1, 1.0, 0.0)
    model = small_fit(max_iter=60).fit(ROWS, sample_weight=weights)
    assert model.sample(200, random_state=0)[:, 0].mean() > 0.95
    dense, sparse = small_fit().fit(ROWS), small_fit().fit(csr_array(ROWS.astype(float)))
    assert_allclose(sparse.components_, dense.components_, rtol=1e-4, atol=1e-5)
    soft = small_fit(max_iter=60).fit(np.clip(ROWS, 0.1, 0.9))
    assert np.isfinite(soft.score(ROWS))


@pytest.mark.long
@quiet
def test_penalties_shrink_the_weights():
    """The penalty l2 makes weights small, l1 and group-l1 make them exactly zero."""
    options = {"max_iter": 60, "optimizer": "sgd", "learning_rate": 0.2}
    free = small_fit(alpha=0.0, **options).fit(ROWS).components_
    shrunk = small_fit(alpha=1.0, **options).fit(ROWS).components_
    assert np.abs(shrunk).max() < 0.2 * np.abs(free).max()
    assert shrunk.all()
    for name in ("l1", "group-l1"):
        assert not small_fit(alpha=1.0, penalty=name, **options).fit(ROWS).components_.any()


@pytest.mark.long
@quiet
def test_rows_that_do_not_fit_are_sent_in_blocks(monkeypatch):
    """Blocks of rows give the model of resident rows, except for random numbers of the chains."""
    resident = small_fit(max_iter=100).fit(ROWS)
    monkeypatch.setattr(devices.Device, "free_bytes", 100_000.0)
    monkeypatch.setattr(devices, "RESIDENT_SHARE", 0.01)
    monkeypatch.setattr(device, "BLOCK_BYTES", 1300)  # two batches of bytes
    X = ROWS[np.argsort(ROWS.sum(axis=1))]  # the first rows have few ones
    for rows in (X, csr_array(X.astype(float)), np.clip(X, 0.01, 0.99)):
        in_blocks = small_fit(max_iter=100).fit(rows)
        assert exact_score(in_blocks, ROWS) == pytest.approx(exact_score(resident, ROWS), abs=0.1)
        for name in ("learning_rate", "n_updates"):
            assert_allclose(in_blocks.history_[name], resident.history_[name], rtol=1e-5)


def count_compiled(functions):
    """Return how often JAX has compiled each function: updates, or inference of outputs."""
    return [getattr(f, "compiled", f)._cache_size() for f in functions]


@quiet
def test_a_repeated_fit_compiles_nothing():
    small_fit(alpha=0.02).fit(ROWS)
    sizes = count_compiled(functions := list(devices._COMPILED.values()))
    small_fit(alpha=0.03, random_state=5).fit(ROWS[::-1])
    assert list(devices._COMPILED.values()) == functions
    assert count_compiled(functions) == sizes


# Errors ------------------------------------------------------------------------------------


def test_unknown_device():
    with pytest.raises(ValueError, match="device must be one of"):
        small_fit(device="tpu0").fit(ROWS)


def test_no_gpu():
    if any(d.platform == "gpu" for d in devices.jax.devices()):
        pytest.skip("this machine has a GPU")
    with pytest.raises(ValueError, match=r'device="cuda" needs a GPU.*skmrf\[cuda\]'):
        small_fit(device="cuda").fit(ROWS)


def test_without_jax(monkeypatch):
    monkeypatch.delitem(sys.modules, "skmrf._jax.devices")
    monkeypatch.delattr(skmrf._jax, "devices")
    monkeypatch.setitem(sys.modules, "jax", None)
    with pytest.raises(ImportError, match=r'pip install "skmrf\[jax\]"'):
        small_fit().fit(ROWS)
    with pytest.raises(ImportError, match=r'pip install "skmrf\[cuda\]"'):
        small_fit(device="gpu").fit(ROWS)


@quiet
def test_learners_that_do_not_run_on_a_device(monkeypatch):
    class HostPCD(PCD):
        is_pure = False

    with pytest.raises(ValueError, match=r"does not run on a device.*'psmc', 'ptt', 'smc'.*cpu"):
        small_fit(learner=HostPCD()).fit(ROWS)
    with pytest.raises(ValueError, match=r"Exact\(\) does not run on a device"):
        small_fit("pairs", learner="exact", optimizer="sgd").fit(ROWS)
    monkeypatch.setattr("skmrf.exact.enumeration.MAX_DEVICE_ENTRIES", 8)
    with pytest.raises(ValueError, match=r"2\^3 states of a layer does not fit"):
        small_fit(learner="exact").fit(ROWS)


@pytest.mark.long
@quiet
def test_diagnostics_of_the_last_update():
    """A diagnostic of kind Latest has its last value in an epoch, and others have their mean."""
    model = small_fit(learner="exact", max_iter=3, alpha=0.0).fit(ROWS)
    assert model.history_["log_likelihood"][-1] == pytest.approx(model.score(ROWS), abs=0.1)
    smc = small_fit(learner="smc", max_iter=3).fit(ROWS)
    assert smc.history_["log_partition"][-1] == pytest.approx(smc.log_partition_, abs=0.5)
    assert 0 < smc.history_["distinct"][-1] <= 1


@pytest.mark.parametrize(
    ("n", "last", "n_most", "n_done"), [(3, 99, 2, 2), (12, 0, 2, 1), (3, 1, 3, 2)]
)
def test_kinds_of_diagnostics(n, last, n_most, n_done):
    """A call of at most ``n_most`` epochs ends after the epoch ``last``."""

    def count(carry, constants, *_):
        n = carry["n"] + 1
        is_done = constants["epoch"] >= constants["last"]
        latest = LatestArray({"n": n}, lambda arrays: 2 * arrays["n"])
        kinds = {"mean": n, "latest": latest, "is_done": is_done}
        return {"n": n}, kinds

    run = open_device("jax").compile_updates(count, ("test_kinds_of_diagnostics",))
    constants = {"epoch": np.int32(0), "last": np.int32(last)}
    words, batches = np.zeros((3, 2), np.uint32), np.zeros((3, n, 2), np.int32)
    carry, read = run({"n": jnp.zeros(())}, constants, words, {"X": ROWS}, batches, n_most)
    rows = read()
    assert (carry["n"], len(rows)) == (n * n_done, n_done)
    for k, (means, others) in enumerate(rows):
        assert means == {"mean": n * k + (n + 1) / 2, "is_done": float(k >= last)}
        assert others == {"latest": 2 * n * (k + 1)}


def test_deterministic_solvers_are_refused():
    with pytest.raises(ValueError, match=r'cannot run a deterministic solver.*device="cpu"'):
        small_fit(learner="exact", optimizer="lbfgs").fit(ROWS)


def test_too_little_memory(monkeypatch):
    monkeypatch.setattr(devices.Device, "free_bytes", 1000.0)
    with pytest.raises(MemoryError, match=r"needs about .* bytes of the device, and 1000 are"):
        small_fit().fit(ROWS)


def test_memory_error_of_jax_names_the_bytes():
    memory_errors = open_device("jax").memory_errors("This", 5e9)
    with pytest.raises(MemoryError, match="needs about 5e"), memory_errors:
        raise devices.jax.errors.JaxRuntimeError("RESOURCE_EXHAUSTED: Out of memory")


def test_only_options_that_xla_knows_are_used(monkeypatch):
    assert chains._known_options() == chains.OPTIONS
    monkeypatch.setattr(chains, "OPTIONS", {"xla_without_such_option": True})
    assert chains._known_options.__wrapped__() is None


@quiet
def test_large_gradients_are_no_divergence(monkeypatch):
    """The history has all epochs if squares of the gradient exceed the range of float32."""
    monkeypatch.setattr(device, "CALL_SECONDS", np.inf)
    rate = LinearRate(1e-28, 100_000)
    model = small_fit(max_iter=12, alpha=1e25, optimizer="sgd", learning_rate=rate).fit(ROWS)
    assert model.history_["gradient_rms"][-1] == np.inf
    assert_array_equal(model.history_["n_updates"], 3 * np.arange(1, 13))


def test_divergence_and_unconverged_fits_are_reported():
    with pytest.raises(ValueError, match="Learning diverged"):
        small_fit(learning_rate=StepRate(0.01, 1e20, 1), optimizer="sgd", max_iter=20).fit(ROWS)
    with pytest.warns(ConvergenceWarning, match="had not converged"):
        small_fit(max_iter=1).fit(ROWS)
