"""Tests of conditional models on a device of JAX: inference, gradients, and estimators."""

import pickle

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy.sparse import csr_array

from skmrf import CRBMStructuredPredictor
from skmrf._utils.rows import Batch
from skmrf.energies import ConditionalBipartiteEnergy
from skmrf.learners import CD, LR, LSSVM, MLEBP, MLEMF, MSSVM, CDPercLoss
from skmrf.variational.bipartite import coordinate_ascent, mean_field, propagate

jax = pytest.importorskip("jax")
from skmrf._jax import devices, open_device

pytestmark = pytest.mark.long
quiet = pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
N_INPUTS, N_VISIBLE, N_HIDDEN = 4, 6, 3


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
