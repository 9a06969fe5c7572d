"""Tests of arrays on devices of JAX: memory maps, rows of JAX, hidden units, several devices."""

import gc
import tracemalloc
import weakref
from contextlib import ExitStack
from functools import partial
from itertools import product

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.base import clone
from zoo import long, slow

from skmrf import CRF, RBM, BoltzmannMachine, CRBMStructuredPredictor, DiscreteMRF
from skmrf._utils import rows as rows_module
from skmrf._utils.rows import has_missing
from skmrf.energies import BipartiteEnergy
from skmrf.inference import sample
from skmrf.learners import PCD
from skmrf.likelihood import ais
from skmrf.training import device as device_module
from skmrf.training.device import DeviceUpdates

jax = pytest.importorskip("jax")
from skmrf._jax import devices

ROWS = np.random.default_rng(0).integers(0, 2, (300, 1)) ^ (
    np.random.default_rng(1).random((300, 6)) < 0.15
)
pytestmark = pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")

MODELS = {
    "rbm": partial(RBM, 3),
    "pairs": partial(BoltzmannMachine, n_components=0),
    "coupled layers": partial(BoltzmannMachine, n_components=2),
}
RTOL = {"rbm": 1e-6, "pairs": 1e-6, "coupled layers": 2e-5}


def small_fit(kind="rbm", **options):
    """Return an estimator that is fitted quickly on the default device of JAX."""
    given = {"device": "jax", "alpha": 0.01, "batch_size": 100, "max_iter": 3, "random_state": 0}
    if kind != "rbm":
        given["states"] = 0, 1
    return MODELS[kind](**given | options)


def check_same_models(found, expected, rtol=1e-6):
    """Check that the parameters of two fitted estimators are equal, and not only zeros."""
    for k, v in expected.energy_.theta.items():
        assert type(found.energy_.theta[k]) is np.ndarray
        assert_allclose(found.energy_.theta[k], v, rtol=rtol, atol=rtol)
        assert v.ndim == 1 or np.abs(v).max() > 0.01


def test_rows_in_several_blocks(monkeypatch):
    """Sums and checks of many rows, which are computed in blocks, include all blocks."""
    for name in ("BLOCK_ENTRIES", "LARGE_ENTRIES"):
        monkeypatch.setattr(rows_module, name, 4 * ROWS.shape[1])
    log_weights = np.random.default_rng(2).normal(size=len(ROWS))
    expected = np.average(ROWS, axis=0, weights=np.exp(log_weights))
    assert_allclose(rows_module.column_means(ROWS, log_weights), expected)
    assert_allclose(rows_module.column_means(ROWS), ROWS.mean(axis=0))
    assert_allclose(rows_module.column_means(0.5 * ROWS), 0.5 * ROWS.mean(axis=0))
    wrong = ROWS.copy()
    wrong[-1, 4] = -1
    assert has_missing(wrong)
    assert not has_missing(ROWS)
    with pytest.raises(ValueError, match="Column 4 holds"):
        RBM(2, alpha=0.01, max_iter=1).fit(wrong)
    infinite = np.where(wrong < 0, np.inf, ROWS)
    with pytest.raises(ValueError, match=r"Column 4 .*infinity"):
        RBM(2, alpha=0.01, max_iter=1).fit(infinite)


@pytest.mark.parametrize("in_blocks", [*long(False), True])
def test_missing_entries(in_blocks, monkeypatch):
    """The imputed entries of a row keep their place, also if rows are sent in blocks."""
    if in_blocks:
        monkeypatch.setattr(devices, "RESIDENT_SHARE", 0.0)
        monkeypatch.setattr(device_module, "BLOCK_BYTES", 6 * 64)  # of one batch
    rng = np.random.default_rng(3)
    X = rng.integers(0, 2, (640, 6)).astype(float)
    X[:, 5] = X[:, 0]
    X[rng.random(640) < 0.6, 5] = np.nan
    options = {"n_components": 0, "alpha": 0.001, "batch_size": 64, "states": (0, 1)}
    model = BoltzmannMachine(
        "pcd", device="jax", max_iter=40, optimizer="adam", learning_rate=0.05, random_state=0,
        **options,
    ).fit(X)  # fmt: skip
    model.set_params(device="cpu", warm_start=True, max_iter=1).fit(X)  # with the same chains
    imputed = model.predict(np.where(np.arange(6) < 5, X, np.nan))
    assert (imputed[:, 5] == X[:, 0]).all()
    assert model.coupling_[0, 5] > 0.8
    assert np.abs(model.coupling_[1:5, 5]).max() < 0.2


# Memory maps -------------------------------------------------------------------------------


def write_rows(path, X):
    """Write rows to a file, and return a memory map of it."""
    np.save(path, X)
    return np.load(path, mmap_mode="r")


@pytest.mark.parametrize("device", ["jax", "cpu"])
@pytest.mark.parametrize(
    ("kind", "dtype"),
    [("rbm", np.uint8), *long(*product(["rbm"], [bool, np.int64, np.float32])),
     *long(("pairs", np.uint8), ("coupled layers", bool))],
)  # fmt: skip
def test_rows_of_a_memory_map(tmp_path, device, kind, dtype):
    """A memory map gives the model of an array, with held-out rows and with weights."""
    X = (np.clip(ROWS, 0.1, 0.9) if dtype is np.float32 else ROWS).astype(dtype)
    rows, weights = write_rows(tmp_path / "X.npy", X), np.linspace(0.5, 1.5, len(X))
    X = X if dtype is np.float32 else X.astype(int)
    for early_stopping, w in settings_of_fits(weights, kind, is_main=dtype is np.uint8):
        model = small_fit(kind, device=device, early_stopping=early_stopping)
        expected = clone(model).fit(X, sample_weight=w)
        check_same_models(clone(model).fit(rows, sample_weight=w), expected, RTOL[kind])


def settings_of_fits(weights, kind, *, is_main):
    """Return pairs of early stopping and weights; only the main type of rows has several."""
    pairs = [(True, weights), (False, None), (False, weights), (True, None)]
    return pairs[: (4 if kind == "rbm" else 2) if is_main else 1]


def record_sizes(monkeypatch):
    """Return a list to which each transfer to a device appends its number of bytes."""
    put, sizes = devices.Device.put, []

    def record(self, arrays, axes=None):
        sizes.append(sum(getattr(a, "nbytes", 0) for a in jax.tree.leaves(arrays)))
        return put(self, arrays, axes)

    monkeypatch.setattr(devices.Device, "put", record)
    return sizes


@pytest.mark.parametrize(
    "options",
    [{}, *long({"early_stopping": True}, {"kind": "pairs", "learner": PCD(64, n_sweeps=1)})],
    ids=str,
)
@pytest.mark.parametrize("device", ["jax", "cpu"])
def test_memory_of_a_memory_map(tmp_path, device, options, monkeypatch):
    """A fit copies only small parts of the rows of a memory map, on the host and on the device."""
    monkeypatch.setattr("skmrf.training.device.MAPPED_BYTES", 2**20)
    n_rows, n_columns = (200_000, 100) if "kind" in options else (40_000, 500)
    X = np.zeros((n_rows, n_columns), dtype=np.uint8)
    X[:, :6] = np.resize(ROWS, (n_rows, 6))
    n_bytes, rows = X.nbytes, write_rows(tmp_path / "X.npy", X)
    del X
    options = {"batch_size": 2000, "max_iter": 1, "validation_fraction": 0.01} | options
    model = small_fit(device=device, **options).fit(rows[:4000])  # compiles
    sizes = record_sizes(monkeypatch)
    tracemalloc.start()
    model.fit(rows)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 0.5 * n_bytes
    assert max(np.abs(v).max() for v in model.energy_.theta.values() if v.ndim == 2) > 0.01
    if device == "jax":
        assert max(sizes) < 0.1 * n_bytes
        assert sum(sizes) > 0.9 * n_bytes  # all rows were read


# Arrays of JAX as rows -----------------------------------------------------------------------


@pytest.mark.parametrize(
    ("kind", "model"),
    [
        ("codes", "rbm"),
        *long(*((kind, "rbm") for kind in ("probabilities", "floats", "threshold"))),
        *long(("signs", "pairs"), ("threshold", "coupled layers")),
        *slow(("codes", "pairs"), ("codes", "coupled layers")),
    ],
)
def test_rows_of_jax(kind, model):
    """An array of JAX gives the model of an array of numpy, with held-out rows and weights."""
    others = {"threshold": 2.0 * ROWS - 0.3, "probabilities": np.clip(ROWS, 0.1, 0.9)}
    X = {"signs": 2 * ROWS - 1}.get(kind, others.get(kind, ROWS))
    X = X.astype({"codes": np.uint8, "signs": np.int8}.get(kind, np.float32))
    options = {"binarize": 0.5} if kind == "threshold" else {}
    options |= {"states": (-1, 1)} if kind == "signs" else {}
    weights = np.linspace(0.5, 1.5, len(X))
    weights[:5] = 0.0
    for early_stopping, w in settings_of_fits(weights, model, is_main=kind == "codes"):
        estimator = small_fit(model, early_stopping=early_stopping, **options)
        expected = clone(estimator).fit(X, sample_weight=w)
        found = clone(estimator).fit(jax.numpy.asarray(X), sample_weight=w)
        check_same_models(found, expected, RTOL[model])
        if early_stopping and w is not None:
            found.partial_fit(jax.numpy.asarray(X))
            check_same_models(found, expected.partial_fit(X), RTOL[model])


@pytest.mark.parametrize(
    ("kind", "dtype"),
    [("rbm", np.int8), ("rbm", np.float32), ("pairs", np.int8), ("coupled layers", np.int8)],
)
def test_rows_of_jax_stay_where_they_are(monkeypatch, kind, dtype):
    """Training reads the memory of the given array; no copy of all rows is sent or fetched."""
    X = np.tile(ROWS, (50, 1)).astype(dtype)
    X = jax.numpy.asarray(np.clip(X, 0.1, 0.9) if dtype is np.float32 else X)
    sizes, used, call = record_sizes(monkeypatch), [], DeviceUpdates._call

    def record(self, *args):
        used.append(self.rows["X"].unsafe_buffer_pointer())
        return call(self, *args)

    monkeypatch.setattr(DeviceUpdates, "_call", record)
    monkeypatch.setattr(devices.Device, "free_bytes", 40_000.0)  # too little for a copy
    small_fit(kind, learner=PCD(n_chains=100), max_iter=1).fit(X)
    assert set(used) == {X.unsafe_buffer_pointer()}
    assert len(sizes) > 1
    assert max(size for size in sizes if size != X.nbytes) < 0.1 * X.nbytes


def test_folds_of_similar_sizes_compile_once(monkeypatch):
    """Numbers of rows that need as many minibatches use the same functions, and fit only them."""
    devices._COMPILED.clear()
    fits = [small_fit().fit(ROWS[:n]) for n in (250, 251, 299)]
    functions = [getattr(f, "compiled", f) for f in devices._COMPILED.values()]
    assert max(f._cache_size() for f in functions) == 1
    absent = np.where(np.random.default_rng(3).random((251, 6)) < 0.1, np.nan, ROWS[:251])
    incomplete = small_fit("pairs").fit(absent)
    monkeypatch.setattr(device_module, "_pad_rows", lambda X, _: X)
    check_same_models(fits[1], small_fit().fit(ROWS[:251]))
    check_same_models(incomplete, small_fit("pairs").fit(absent))


@pytest.mark.parametrize("kind", ["rbm", *long("pairs")])
def test_choice_of_alpha_for_rows_of_jax(kind):
    models = [small_fit(kind, alpha="auto", max_iter=5).fit(X) for X in (ROWS, jnp_rows())]
    check_same_models(*models)
    assert models[0].alpha_ == models[1].alpha_


def jnp_rows():
    """Return rows of bytes, for which a device runs the same functions as for rows of numpy."""
    return jax.numpy.asarray(ROWS.astype(np.uint8))


def test_wrong_rows_of_jax():
    """The errors are those of arrays of numpy."""
    for wrong, message in (
        (np.full((60, 3), 2.0), "Column 0 holds 2.0, but the states are 0 and 1"),
        (np.where(ROWS, np.nan, 0.0), "holds NaN, but RBM needs complete rows"),
        (np.where(ROWS, np.inf, 0.0), "holds infinity"),
        (np.zeros(3), "Expected 2D array, got 1D array"),
        (np.zeros((0, 3)), "0 sample"),
    ):
        with pytest.raises(ValueError, match=message):
            small_fit().fit(jax.numpy.asarray(wrong))
    for value, message in ((2.0, "Column 0 holds 2.0"), (np.inf, "holds infinity")):
        with pytest.raises(ValueError, match=message):
            small_fit("pairs").fit(jax.numpy.full((60, 3), value))
    model = small_fit().fit(jnp_rows())
    with pytest.raises(ValueError, match="X has 3 features"):
        model.transform(jax.numpy.zeros((2, 3)))


def test_missing_entries_of_jax():
    missing = np.where(np.random.default_rng(3).random(ROWS.shape) < 0.1, np.nan, ROWS)
    models = [small_fit("pairs").fit(f(missing)) for f in (np.asarray, jax.numpy.asarray)]
    check_same_models(*models)


@pytest.mark.long
def test_rows_of_jax_in_other_estimators():
    X = np.random.default_rng(2).normal(size=(300, 3)).astype(np.float32)
    Y, labels = ROWS.astype(np.int32), ROWS[:, 0].astype(np.int32)

    def outputs(convert):
        rows, targets = convert(X), convert(Y)
        given = {"max_iter": 2, "random_state": 0}
        pairs = BoltzmannMachine(states=(0, 1), alpha=0.01, device="jax", **given).fit(targets)
        conditional = CRBMStructuredPredictor(2, alpha=0.1, device="jax", **given)
        chains = CRF(max_iter=2, random_state=0).fit([rows, rows], [convert(labels)] * 2)
        return (
            pairs.coupling_,
            pairs.score_samples(targets),
            conditional.fit(rows, targets).predict_proba(rows),
            chains.predict([rows])[0],
            CRF(max_iter=2, random_state=0)
            .fit(rows.reshape(100, 3, 3), labels.reshape(100, 3))
            .predict(rows),
        )

    for found, expected in zip(outputs(jax.numpy.asarray), outputs(np.asarray), strict=True):
        assert_allclose(found, expected, rtol=1e-6)


@pytest.mark.parametrize("dtype", ["bfloat16", "float8_e5m2", "int4", "int32", "bool"])
def test_rows_of_other_data_types(dtype):
    """Data types that numpy does not have are converted, and others give the same models."""
    X = jnp_rows().astype(dtype)
    models = [
        RBM(2, alpha=0.01, max_iter=3, batch_size=100, device="jax", random_state=0),
        BoltzmannMachine(states=(0, 1), alpha=0.01, max_iter=3, device="jax", random_state=0),
        CRBMStructuredPredictor(2, alpha=0.1, max_iter=2, device="jax", random_state=0),
        DiscreteMRF(alpha=0.1, max_iter=5, random_state=0),
    ]
    for model in models:
        given, expected = [X], [ROWS.astype(np.int8)]
        if isinstance(model, CRBMStructuredPredictor):
            given, expected = [X, X[:, :2]], [ROWS.astype(float), ROWS[:, :2].astype(int)]
        found, model = clone(model).fit(*given), model.fit(*expected)
        for k, v in model.energy_.theta.items():
            assert_allclose(found.energy_.theta[k], v, atol=1e-6)
        method = "predict_proba" if len(given) == 2 else "score_samples"
        assert_allclose(getattr(found, method)(X), getattr(model, method)(expected[0]), atol=1e-6)
        if isinstance(model, RBM):
            assert_allclose(found.transform(X), model.transform(expected[0]), atol=1e-6)
        if isinstance(model, DiscreteMRF):
            drawn = found.sample(2, random_state=0)[0].dtype
            assert drawn.isbuiltin == 1
            assert (drawn.kind == "f") == ("float" in dtype)
    found, expected = (
        clone(models[0]).fit(ROWS, sample_weight=ones(len(X), dtype=t)).components_
        for ones, t in ((jax.numpy.ones, dtype), (np.ones, float))
    )
    assert_array_equal(found, expected)


@pytest.mark.parametrize("dtype", ["bfloat16", "int4", "int32", "float32"])
def test_parameters_of_jax(dtype):
    """Constructors convert arrays of JAX, and parameters of JAX in an energy raise an error."""
    weights = jax.numpy.asarray([[1.0, -2.0], [2.0, 0.0], [3.0, 1.0]]).astype(dtype)
    arrays = weights, weights[:, 0], weights[0]
    energy = BipartiteEnergy(*arrays)
    expected = BipartiteEnergy(*(np.asarray(a).astype(energy.weights.dtype) for a in arrays))
    options = {"n_chains": 20, "n_temperatures": 10, "random_state": 0, "device": "jax"}
    assert ais(energy, **options).value == ais(expected, **options).value
    options = {"method": "gibbs", "n_sweeps": 5, "random_state": 0, "device": "jax"}
    assert_array_equal(sample(energy, 9, **options), sample(expected, 9, **options))
    wrong = energy.with_theta(dict(zip(energy.theta, arrays, strict=True)))
    for use in (partial(ais, wrong), partial(sample, wrong, 9)):
        with pytest.raises(TypeError, match=r"'weights'.*got an array of jax.numpy.*numpy.asarray"):
            use(device="jax")


def test_compiled_functions_keep_neither_chains_nor_rows(monkeypatch):
    arrays, begin = [], DeviceUpdates.__init__

    def record(self, update, learner, data, settings, state):
        arrays.extend(map(weakref.ref, (data.X, state.learner.X)))
        begin(self, update, learner, data, settings, state)

    monkeypatch.setattr(DeviceUpdates, "__init__", record)
    small_fit(learner=PCD(n_chains=77), max_iter=2).fit(ROWS)
    gc.collect()
    assert [reference() for reference in arrays] == [None, None]


@pytest.mark.parametrize("name", ["cd", "outputs", "annealing", *long("smc", "coupled layers")])
def test_settings_of_the_user(name):
    """Results do not depend on settings of JAX that the user has changed."""
    conditional = CRBMStructuredPredictor(2, "cd", alpha=0.1, max_iter=2, device="jax")
    options = {"n_chains": 20, "n_temperatures": 10, "random_state": 0, "device": "jax"}
    energy = BipartiteEnergy(np.ones((3, 2)), np.zeros(3), np.zeros(2))
    compute = {
        "cd": lambda: small_fit(learner="cd").fit(ROWS).transform(ROWS),
        "smc": lambda: small_fit(learner="smc").fit(ROWS).components_,
        "coupled layers": lambda: small_fit(name).fit(ROWS).coupling_,
        "outputs": lambda: (
            conditional.set_params(random_state=0).fit(ROWS, ROWS).predict_proba(ROWS)
        ),
        "annealing": lambda: ais(energy, **options).value,
    }[name]
    expected = compute()
    with ExitStack() as stack:
        for setting, value in devices.SETTINGS:
            other = {"standard": "strict", "allow": "raise", "threefry2x32": "rbg"}
            stack.enter_context(setting(other.get(value, True)))
        found = compute()
    assert_array_equal(found, expected)
    assert found.dtype == expected.dtype if name != "annealing" else type(found) is float


# Several devices -----------------------------------------------------------------------------


def fit_and_record(model, *data, n_found=3):
    """Fit a model on the first devices; return it and the arrays of training on the devices."""
    carries, call = [], DeviceUpdates._call

    def record(self, *args):
        result = call(self, *args)
        carries.append(self.carry)
        return result

    with pytest.MonkeyPatch.context() as patch:
        found = devices.Device(jax.devices()[:n_found])
        patch.setattr(devices, "find_device", lambda _: found)
        patch.setattr(DeviceUpdates, "_call", record)
        model = clone(model).fit(*data)
    assert model.n_iter_ == model.max_iter
    return model, carries[-1]


def shapes(array):
    """Return the shapes of the parts of an array on all devices."""
    return [shard.data.shape for shard in array.addressable_shards]


@pytest.mark.long
def test_chains_are_divided_among_devices(run_on_devices):
    """Chains are divided equally among as many devices as possible, and nothing else changes."""
    run_on_devices("""
        import jax
        from test_device_arrays import *

        assert len(jax.devices()) == 3
        devices._COMPILED.clear()
        for n_chains, n_used in ((500, 2), (501, 3), (499, 1)):
            model = small_fit(learner=PCD(n_chains=n_chains), max_iter=6)
            expected, _ = fit_and_record(model, ROWS, n_found=1)
            found, carry = fit_and_record(model, ROWS)
            check_same_models(found, expected, rtol=1e-4)
            states = carry["learner"]
            assert shapes(states["X"]) == [(n_chains // n_used, 6)] * n_used
            assert shapes(states["hidden_states"]) == [(n_chains // n_used, 3)] * n_used
            assert shapes(carry["theta"]["weights"]) == [(6, 3)] * n_used
            functions = list(devices._COMPILED.values())
            fit_and_record(model, ROWS)
            assert list(devices._COMPILED.values()) == functions
        assert [f.compiled._cache_size() for f in functions] == [1] * 5
    """)


@pytest.mark.long
def test_chains_of_couplings_are_divided_among_devices(run_on_devices):
    """Variables that are drawn one after the other have the states of one device."""
    run_on_devices("""
        from test_device_arrays import *

        options = dict(alpha=0.01, device="jax", states=(0, 1), max_iter=6, random_state=0)
        for n_components in (0, 2):
            model = BoltzmannMachine(PCD(n_chains=300), n_components=n_components, **options)
            expected, alone = fit_and_record(model, ROWS, n_found=1)
            found, carry = fit_and_record(model, ROWS)
            assert shapes(carry["learner"]["X"]) == [(100, 6)] * 3
            assert_array_equal(carry["learner"]["X"], alone["learner"]["X"])
            for k, v in expected.energy_.theta.items():
                assert_allclose(found.energy_.theta[k], v, atol=1e-5)
            assert np.abs(found.coupling_).max() > 0.1
    """)


def test_mesh_of_the_user():
    """A mesh that the user has set changes nothing, whatever the name of its axis."""
    options = {"alpha": 0.01, "device": "jax", "states": (0, 1), "max_iter": 3, "random_state": 0}
    model = BoltzmannMachine(PCD(n_chains=30), **options)
    expected = clone(model).fit(ROWS)
    with jax.set_mesh(jax.make_mesh((1,), ("chains",))):
        found = clone(model).fit(ROWS)
    assert_array_equal(found.coupling_, expected.coupling_)


@pytest.mark.long
def test_queries_with_a_mesh_of_the_user(run_on_devices):
    """Queries on one device give the same results if the user has set a mesh of several devices."""
    run_on_devices("""
        from test_device_arrays import *

        X, Y = np.random.default_rng(0).normal(size=(90, 4)), ROWS[:90, :4].astype(int)
        options = dict(alpha=0.01, max_iter=2, device="jax", random_state=0)
        model = RBM(3, **options).fit(ROWS)
        predictor = CRBMStructuredPredictor(2, "mle-bp", **options).fit(X, Y)
        queries = [
            lambda: model.transform(ROWS),
            lambda: model.transform(jax.numpy.asarray(ROWS)),
            lambda: model.sample(10, random_state=0),
            lambda: clone(model).fit(ROWS).log_partition_,
            lambda: predictor.predict_proba(X),
        ]
        expected = [query() for query in queries]
        with jax.set_mesh(jax.make_mesh((3,), ("rows",))):
            found = [query() for query in queries]
        for default in (jax.devices()[1], "cpu"):
            with jax.default_device(default):
                is_one = default != "cpu"
                assert devices.find_device("jax").devices == jax.devices()[is_one : 3 - is_one]
        for a, b in zip(found, expected, strict=True):
            assert_allclose(a, b, atol=1e-5)
    """)


@pytest.mark.long
def test_rows_of_conditional_models_are_divided_among_devices(run_on_devices):
    run_on_devices("""
        from test_device_arrays import *

        X, Y = np.random.default_rng(0).normal(size=(300, 4)), ROWS[:, :4].astype(int)
        options = dict(alpha=0.01, max_iter=5, device="jax", batch_size=99, random_state=0)
        for learner in ("mle-bp", "cd"):
            model = CRBMStructuredPredictor(2, learner, learning_rate=0.05, **options)
            expected, _ = fit_and_record(model, X, Y, n_found=1)
            found, carry = fit_and_record(model, X, Y)
            assert shapes(carry["theta"]["weights"]) == [(4, 2)] * 3
            assert_allclose(found.predict_proba(X), expected.predict_proba(X), atol=1e-5)
    """)


@pytest.mark.long
def test_kernel_of_a_gpu_on_several_devices(run_on_devices):
    """Each device draws its own chains, by the kernel (interpreted) as by the loop."""
    run_on_devices("""
        from functools import partial
        from skmrf._jax import in_order, open_device
        from test_device_arrays import *

        rng = np.random.default_rng(0)
        upper = np.triu(rng.normal(size=(7, 7)), 1)
        columns = [rng.normal(size=(7, 60)), rng.logistic(size=(7, 60)), rng.random((7, 60)) < 0.5]
        arrays = upper + upper.T, rng.random(60), *columns
        arrays = [a.astype(np.float32) for a in arrays]
        expected = jax.jit(in_order.loop_in_order)(*arrays)
        device = open_device("jax").spread(60)
        given = [device.put(a, axis) for a, axis in zip(arrays, (None, 0, 1, 1, 1), strict=True)]
        kernel = partial(in_order.kernel_in_order, interpret=True)
        for function in (in_order.loop_in_order, kernel):
            with pytest.MonkeyPatch.context() as patch, device.context():
                patch.setattr(in_order, "_draw_chains", function)
                compiled = jax.jit(lambda *a: in_order.draw_in_order(*a)).lower(*given).compile()
                found = compiled(*given)
            assert shapes(found) == [(7, 20)] * 3
            assert_array_equal(found, expected)
            assert "all-gather" not in compiled.as_text()
    """)


@pytest.mark.long
@pytest.mark.parametrize(
    "runs",
    [
        "(PCD(900, 20), 'layers', 0.0), "
        "(PTT(1500), 'layers', 0.0), (ParallelTempering(1500, betas=4), 'layers', 0.0)",
        "(PCD(900, 20), 'coupled layers', 0.3), (SMC(n_particles=600), 'pairs', 0.0), "
        "(ParallelTempering(1500, betas=4), 'coupled layers', 0.0)",
    ],
)
def test_gradients_on_several_devices(runs, run_on_devices):
    run_on_devices(f"""
        from test_device_training import *

        for run in [{runs}]:
            test_updates_follow_the_exact_gradient(*run)
    """)


@pytest.mark.long
@pytest.mark.parametrize("kinds", [["layers"], ["strong coupled layers"]], ids=str)
def test_annealing_and_samples_on_several_devices(kinds, run_on_devices):
    """Log Z and samples are those of one device, and a path of several pieces compiles twice."""
    run_on_devices(f"""
        from test_device_chains import *
        from test_device_arrays import partial, product, shapes
        from skmrf._jax import chains, devices

        ends, patch = [], pytest.MonkeyPatch()
        def record(function, *args):
            result = function(*args)
            ends.append(shapes(result[0]))
            return result

        first, options = devices.Device(jax.devices()[:1]), {{"device": "jax", "random_state": 0}}
        owners = [chains.path_with_pairs(4.0, 16, reverse) for reverse in (False, True)]
        owners += [chains.LAYERS, chains.IN_ORDER]
        for kind in {kinds}:
            energy = ENERGIES[kind]
            function = chains.LAYERS if kind == "layers" else owners[0]
            used = function.compiled_scan, function.compiled_loop
            sizes = [f._cache_size() for f in used]
            for owner, name in product(owners, ("scan", "loop")):
                compiled = getattr(owner, f"compiled_{{name}}")
                patch.setattr(owner, f"compiled_{{name}}", partial(record, compiled))
            test_annealing_estimates_log_z(energy, 600)
            assert [f._cache_size() for f in used] == [n + 1 for n in sizes]
            test_sweeps_leave_the_model_invariant(energy)
            test_clamped_entries_condition_the_other_entries(energy)
            run = partial(ais, energy, n_chains=30, n_temperatures=20, **options)
            draw = partial(sample, energy, 60, method="gibbs", n_sweeps=20, **options)
            value = run().value
            assert ends.pop() == [(16, len(energy.visible_states))] * 3  # a power of two
            states = draw()
            assert ends.pop() == [(32, states.shape[1])] * 3
            patch.setattr(devices, "find_device", lambda _: first)
            assert run().value == pytest.approx(value, abs=1e-4)
            assert_array_equal(draw(), states)
            patch.undo()
            assert ends.pop() == [(64, states.shape[1])]
    """)
