"""Tests of saved fitted estimators (skops, pickle, joblib), and of rows in memory maps."""

import importlib
import pickle
import subprocess
import sys
import tracemalloc
import warnings
from copy import deepcopy
from itertools import pairwise
from pathlib import Path

import joblib
import networkx as nx
import numpy as np
import pandas as pd
import pytest
from estimator_models import SMALL as FEW_BYTES
from estimator_models import assert_same as assert_same_model
from estimator_models import bits, classes, every, quick, rings
from joblib import parallel_config
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.base import clone
from sklearn.datasets import load_iris
from sklearn.exceptions import ConvergenceWarning
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer
from zoo import COUPLED, HIDDEN, ZOO

from skmrf import (
    CRF,
    RBM,
    BoltzmannMachine,
    CRBMStructuredPredictor,
    DiscreteMRF,
    MRFStructureLearner,
    NetworkPotentials,
    NNMRFBayesClassifier,
    NNMRFClassifier,
    NNMRFDensity,
)
from skmrf._utils import rows as rows_module
from skmrf.energies import FactorGraph
from skmrf.estimators import _automatic
from skmrf.io.names import NamedFactorGraph
from skmrf.io.trusted_types import EXCLUDED_MODULES, TRUSTED_TYPES
from skmrf.learners import PCD
from skmrf.learners.registry import accepted
from skmrf.structure import RemovalWhileLearning
from skmrf.training import Checkpoint, EarlyStopping
from skmrf.training.optimizers import OPTIMIZERS

pytestmark = pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")

rng = np.random.default_rng(0)
BITS = ((rng.random((60, 1)) < 0.5) ^ (rng.random((60, 4)) < 0.2)).astype(int)
INCOMPLETE = np.where(rng.random(BITS.shape) < 0.1, np.nan, BITS)
NUMBERS = rng.normal(size=(60, 3)) + 2.0 * BITS[:, :1]
BOTH = np.column_stack([NUMBERS, BITS[:, 3]])
WORDS = np.where(BITS == 1, "yes", "né").astype(object)
WORDS[:5, 0] = None
TOKENS = [[{"word": word, "n": 1.5} for word in row] for row in WORDS[5:]]
MIXED = np.empty((60, 4), dtype=object)
for column, kinds in enumerate([("a", 1), (1, 2.5), (True, False), (("t", 0), ("t", 1))]):
    MIXED[:, column] = [kinds[code] for code in BITS[:, column]]
FRAME = pd.DataFrame(MIXED, columns=["Größe", "b", "c", "d"])

WEAK = {"alpha": 0.1, "max_iter": 2, "random_state": 0}
STATE = WEAK | {"warm_start": True}
SMALL = {"node_layers": (3,), "edge_layers": (3,), "max_iter": 2}
NETWORKS = NetworkPotentials(**SMALL)


def accepted_learners(kind):
    """Return the names of the learners that an estimator, or its potentials, accept."""
    return list(accepted(kind._energy_type, kind._learner_kind))


CASES = {
    **{
        f"DiscreteMRF {n}": (DiscreteMRF(learner=n, **STATE), INCOMPLETE)
        for n in accepted_learners(DiscreteMRF)
    },
    **{f"RBM {n}": (RBM(3, n, **STATE), BITS) for n in accepted_learners(RBM)},
    **{
        f"BoltzmannMachine {n}": (BoltzmannMachine(n, states=(0, 1), **STATE), BITS)
        for n in accepted_learners(BoltzmannMachine)
    },
    **{
        f"CRBM {n}": (CRBMStructuredPredictor(3, n, **STATE), NUMBERS, BITS[:, :2])
        for n in accepted_learners(CRBMStructuredPredictor)
    },
    **{f"CRF {n}": (CRF(learner=n, **WEAK), NUMBERS, BITS[:, 0]) for n in accepted_learners(CRF)},
    "CRF of words": (CRF(**WEAK), TOKENS, WORDS[5:].tolist()),
    **{
        f"NNMRFDensity {n}": (
            NNMRFDensity(NetworkPotentials(learner=n, warm_start=True, **SMALL), random_state=0),
            NUMBERS[:, :2],
        )
        for n in accepted_learners(NetworkPotentials)
    },
    **{
        f"optimizer {n}": (
            DiscreteMRF(optimizer=n, learning_rate="step", penalty="group-l1", **STATE),
            BITS,
        )
        for n in OPTIMIZERS
        if n != "adam"
    },
    **{
        f"rate {rate}": (DiscreteMRF(learning_rate=rate, early_stopping=True, **STATE), BITS)
        for rate in ("adaptive", "constant", "inverse", 0.1)
    },
    "penalty l1": (DiscreteMRF(learner="exact", penalty="l1", **STATE), BITS),
    "instance": (DiscreteMRF(learner=PCD(n_chains=20), **WEAK), BITS),
    "callback": (DiscreteMRF(**WEAK).set_callbacks(EarlyStopping()), BITS),
    "generator": (DiscreteMRF(**STATE | {"random_state": np.random.default_rng(1)}), BITS),
    "random state": (DiscreteMRF(**STATE | {"random_state": np.random.RandomState(1)}), BITS),
    "words": (DiscreteMRF(**WEAK), WORDS),
    "mixed": (DiscreteMRF(learner="exact", **WEAK), MIXED),
    "frame": (DiscreteMRF([("Größe", "b", "c"), ("d",)], "exact", **WEAK), FRAME),
    "tied": (DiscreteMRF([(0, 1), (1, 2), (2, 3)], "exact", tie=[[0, 1]], **WEAK), BITS),
    "structure": (MRFStructureLearner("exact"), BITS),
    "structure of words": (MRFStructureLearner(max_iter=5, random_state=0), WORDS[5:]),
    "structure of mixed columns": (MRFStructureLearner(n_bootstraps=2, random_state=0), BOTH),
    "bootstraps": (MRFStructureLearner("exact", n_bootstraps=2, random_state=0), BITS),
    "DiscreteMRF structure": (DiscreteMRF(MRFStructureLearner("exact"), "exact", **WEAK), BITS),
    "mixed numbers": (
        NNMRFDensity(NETWORKS, column_types={1: "categorical"}, random_state=0),
        BOTH[:, 2:],
    ),
    "NNMRFBayesClassifier": (
        NNMRFBayesClassifier(NETWORKS, random_state=0),
        NUMBERS,
        WORDS[:, 1].astype(str),
    ),
    "NNMRFClassifier": (NNMRFClassifier(max_iter=3, random_state=0), NUMBERS, BITS[:, 0]),
    "pipeline": (make_pipeline(FunctionTransformer(np.abs), RBM(3, "cd", **WEAK)), BITS),
    "grid search": (
        GridSearchCV(DiscreteMRF(learner=PCD(n_chains=10), **WEAK), {"alpha": [0.1, 1.0]}, cv=2),
        BITS,
    ),
    "search of classifiers": (
        GridSearchCV(
            NNMRFBayesClassifier(NETWORKS, random_state=0), {"potentials__max_iter": [1]}, cv=2
        ),
        NUMBERS,
        BITS[:, 0],
    ),
}
FIRST = {type(case[0]): name for name, case in reversed(CASES.items())}.values()  # of each class
each_case = pytest.mark.parametrize("name", CASES)


def fitted(name):
    """Return a fitted estimator; log Z is computed first, so that it is saved."""
    estimator, *data = CASES[name]
    model = deepcopy(estimator).fit(*data)
    if hasattr(model, "log_partition_"):
        assert np.isfinite(model.log_partition_)
    return model


def query_results(model, name):
    """Return the results of all queries of an estimator, and samples."""
    X = CASES[name][1][:20]
    found = {}
    for query in ("score_samples", "predict", "predict_proba", "transform", "marginals"):
        if hasattr(model, query):
            value = getattr(model, query)(X)
            found[query] = value if isinstance(value, list) else np.asarray(value)
    if isinstance(model, CRF):
        found["sample"] = model.sample(X, 5, random_state=1)
    elif hasattr(model, "sample"):
        found["sample"] = model.sample(5, random_state=1)
    if isinstance(model, MRFStructureLearner):
        found["score"] = np.asarray(model.score(X))
        found["edges"] = np.array(sorted(map(repr, model.graph_.edges(data=True))))
    assert found
    return found


def assert_same(one, two):
    assert one.keys() == two.keys()
    for query, value in one.items():
        pairs = (
            zip(value, two[query], strict=True)
            if isinstance(value, list)
            else [(value, two[query])]
        )
        for before, after in pairs:
            assert_array_equal(before, after, err_msg=query)


def parameters_after_one_more_epoch(model, name):
    """Return the parameters after one more call of partial_fit."""
    return dict(model.partial_fit(*CASES[name][1:]).energy_.theta)


@pytest.fixture(scope="module")
def models():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        return {name: fitted(name) for name in CASES}


# --- skops -------------------------------------------------------------------------------------


@each_case
def test_skops_round_trip(models, name):
    skops = pytest.importorskip("skops.io")
    model = models[name]
    data = skops.dumps(model)
    types = skops.get_untrusted_types(data=data)
    assert any(kind.startswith("skmrf.") for kind in types)
    assert set(types) <= set(TRUSTED_TYPES)
    loaded = skops.loads(data, trusted=TRUSTED_TYPES)
    assert_same(query_results(loaded, name), query_results(model, name))
    if getattr(model, "warm_start", False):
        assert_same(
            parameters_after_one_more_epoch(loaded, name),
            parameters_after_one_more_epoch(deepcopy(model), name),
        )


def types_within(value, seen):
    """Return the classes of this package in an object."""
    if id(value) in seen:
        return set()
    seen[id(value)] = value
    kind = type(value)
    parts = list(value) if isinstance(value, list | tuple | set) else []
    if isinstance(value, dict):
        parts = [*value, *value.values()]
    elif isinstance(value, np.ndarray) and value.dtype == object:
        parts = value.ravel().tolist()
    elif hasattr(value, "__dict__") and not isinstance(value, type):
        parts += vars(value).values()
    own = {f"{kind.__module__}.{kind.__qualname__}"} if kind.__module__[:6] == "skmrf." else set()
    return own.union(*(types_within(part, seen) for part in parts))


def test_trusted_types_are_complete(models):
    found = types_within(models, {})
    assert {"skmrf.training.state.LoopState", "skmrf.energies.layout.Layout"} <= found
    assert len(found) > 50
    assert found <= set(TRUSTED_TYPES)


def test_trusted_types():
    assert len(set(TRUSTED_TYPES)) == len(TRUSTED_TYPES)
    for name in TRUSTED_TYPES:
        module, _, kind = name.rpartition(".")
        assert isinstance(getattr(importlib.import_module(module), kind), type), name
    for module in EXCLUDED_MODULES:
        importlib.import_module(f"skmrf.{module}")
        assert not any(name.startswith(f"skmrf.{module}") for name in TRUSTED_TYPES)


def test_checkpoints_are_not_trusted(tmp_path):
    """Checkpoints unpickle any file that they are given."""
    skops = pytest.importorskip("skops.io")
    model = DiscreteMRF(**WEAK).set_callbacks(Checkpoint(tmp_path / "fit")).fit(BITS)
    with pytest.raises(TypeError, match="Checkpoint"):
        skops.loads(skops.dumps(model), trusted=TRUSTED_TYPES)


def test_trusted_types_are_imported_lazily():
    code = "import skmrf, sys; print({'skmrf.io.trusted_types', 'skops'} & set(sys.modules))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "set()"


def test_named_models_can_be_saved():
    skops = pytest.importorskip("skops.io")
    graph = FactorGraph([2, 3], [(0, 1)], [np.arange(6.0)])
    named = NamedFactorGraph(graph, ["a", "b"], [["x", "y"], [1, 2.5, "z"]])
    model = DiscreteMRF.from_energy(named, named.categories)
    loaded = skops.loads(skops.dumps(model), trusted=TRUSTED_TYPES)
    rows = [["x", 2.5], ["y", None]]
    assert_array_equal(loaded.score_samples(rows), model.score_samples(rows))
    assert loaded.predict(rows).tolist() == [["x", 2.5], ["y", "z"]]


@pytest.mark.parametrize("name", ["spin_glass", *COUPLED, "tied_binary"])
def test_saved_energies_have_no_arrays_of_chains(name, seed):
    energy = (ZOO | HIDDEN)[name](seed)
    before = len(pickle.dumps(energy))
    arrays = energy.conditionals()
    assert len(pickle.dumps(energy)) == before
    again = pickle.loads(pickle.dumps(energy)).conditionals()
    for key, value in arrays._asdict().items():
        assert_array_equal(getattr(again, key), value)


def test_structure_learner_can_be_saved_after_graph_access(models):
    skops = pytest.importorskip("skops.io")
    learner = models["structure"]
    assert len(learner.graph_.edges) == len(learner.edges_) > 0
    loaded = skops.loads(skops.dumps(learner), trusted=TRUSTED_TYPES)
    assert nx.utils.graphs_equal(loaded.graph_, learner.graph_)


# --- pickle and joblib -------------------------------------------------------------------------

ASK = """
import pickle, sys
sys.path[:0] = {folders!r}
from test_persistence import query_results
with open("models.pickle", "rb") as file:
    models = pickle.load(file)
with open("answers.pickle", "wb") as file:
    pickle.dump({{name: query_results(model, name) for name, model in models.items()}}, file)
"""


@pytest.mark.long
def test_same_results_in_another_process(models, tmp_path):
    models = {name: models[name] for name in FIRST}
    (tmp_path / "models.pickle").write_bytes(pickle.dumps(models))
    code = ASK.format(folders=[str(folder) for folder in Path(__file__).parents[:2]])
    subprocess.run([sys.executable, "-W", "ignore", "-c", code], check=True, cwd=tmp_path)
    found = pickle.loads((tmp_path / "answers.pickle").read_bytes())
    assert found.keys() == models.keys()
    for name, model in models.items():
        assert_same(found[name], query_results(model, name))


@pytest.mark.parametrize(
    "name",  # kernels are compiled again for read-only arrays
    [n if n in FIRST else pytest.param(n, marks=pytest.mark.slow) for n in CASES],
)
def test_memory_maps_support_queries_and_partial_fit(models, name, tmp_path):
    joblib.dump(models[name], tmp_path / "model.joblib")
    mapped = joblib.load(tmp_path / "model.joblib", mmap_mode="r")
    assert_same(query_results(mapped, name), query_results(models[name], name))
    if hasattr(mapped, "energy_"):
        assert not any(array.flags.writeable for array in mapped.energy_.theta.values())
    if hasattr(mapped, "partial_fit"):
        before = (tmp_path / "model.joblib").read_bytes()
        assert_same(
            parameters_after_one_more_epoch(mapped, name),
            parameters_after_one_more_epoch(deepcopy(models[name]), name),
        )
        assert (tmp_path / "model.joblib").read_bytes() == before


def test_structure_search_resumes_after_skops():
    skops = pytest.importorskip("skops.io")
    search = RemovalWhileLearning(0.1, 2)
    model = MRFStructureLearner(search=search, random_state=0).partial_fit(BITS)
    loaded = skops.loads(skops.dumps(model), trusted=TRUSTED_TYPES)
    for one in (model, loaded):
        one.partial_fit(BITS)
    assert_array_equal(loaded.coupling_, model.coupling_)
    for name, values in model.path_.items():
        assert_array_equal(loaded.path_[name], values)


# Memory maps -------------------------------------------------------------------------------


def write_rows(path, X):
    """Write rows to a file, and return a memory map of it."""
    np.save(path, X)
    return np.load(path, mmap_mode="r")


def chain_rows(n_rows, n_columns, n_states, rng):
    """Return rows of a Markov chain of columns of order 2."""
    X = rng.integers(0, n_states, (n_rows, n_columns))
    for i in range(2, n_columns):
        for k in (1, 2):
            X[:, i] = np.where(rng.random(n_rows) < 0.4, X[:, i - k], X[:, i])
    return X


@pytest.mark.parametrize(
    ("states", "dtype", "options", "weighted"),
    [
        ((0, 1, 2), np.uint8, {}, True),
        ((1, 2, 3), np.uint16, {"learner": "pcd", "early_stopping": True}, True),
        ((-500, 7, 3000), np.int16, {"learner": "cd", "alpha": 0.01}, False),
        ((False, True), bool, {"learner": "pseudo-likelihood", "optimizer": "adam"}, False),
        ((0, 40_000), np.uint16, {"learner": "pseudo-likelihood", "alpha": 0.01}, True),
        ((0, 1, 2), np.int8, {"learner": "exact", "cliques": [(0, 1, 2)], "alpha": 0.01}, True),
        ((0, 1, 2), np.uint8, {"learner": "ptt", "alpha": 0.01}, False),
        ((0, 1), np.uint8, {"learner": "bp", "alpha": 0.01}, False),
        ((0, 1), np.uint8, {"device": "jax", "learner": "pcd", "alpha": 0.01}, False),
    ],
    ids=str,
)
def test_rows_of_a_memory_map(states, dtype, options, weighted, tmp_path, seed, monkeypatch):
    """A memory map that is read in blocks gives the model and the results of an array."""
    if "device" in options:
        pytest.importorskip("jax")
    monkeypatch.setattr(rows_module, "BLOCK_ENTRIES", 1000)
    monkeypatch.setattr("skmrf._data.frames.LARGE_BLOCK", 1000)
    monkeypatch.setattr(_automatic, "MAX_EXACT_ENTRIES", 1)
    rng = np.random.default_rng(seed)
    X = np.array(states)[chain_rows(2400, 6, len(states), rng)].astype(dtype)
    rows = write_rows(tmp_path / "X.npy", X)
    weights = np.r_[np.zeros(20), rng.uniform(0.5, 1.5, len(X) - 20)] if weighted else None
    expected = DiscreteMRF(max_iter=3, random_state=0).set_params(**options)
    found = clone(expected).fit(rows, sample_weight=weights)
    expected.fit(X, sample_weight=weights)
    assert [c.tolist() for c in found.categories_] == [c.tolist() for c in expected.categories_]
    assert_allclose(found.alpha_, expected.alpha_)
    assert_allclose(found.energy_.flat, expected.energy_.flat, rtol=1e-5, atol=1e-6)
    assert_allclose(found.score_samples(rows), expected.score_samples(X), rtol=1e-5)
    np.testing.assert_array_equal(found.predict(rows), X)


@pytest.mark.parametrize("max_distinct", [10, 1000])
def test_distinct_rows_of_a_memory_map(max_distinct, tmp_path, monkeypatch):
    """Rows of a memory map are replaced by distinct rows only if there are few."""
    monkeypatch.setattr(rows_module, "BLOCK_ENTRIES", 100)
    monkeypatch.setattr(rows_module, "MAX_DISTINCT", max_distinct)
    X = chain_rows(1000, 4, 2, np.random.default_rng(0)).astype(np.int8)
    batch = rows_module.Batch(write_rows(tmp_path / "X.npy", X)).select(np.arange(999, -1, -1))
    found, weights = rows_module.unique_rows(batch)
    assert len(found) == (1000 if max_distinct == 10 else 16)
    expected = rows_module.unique_rows(rows_module.Batch(X))
    found = rows_module.unique_rows(rows_module.Batch(np.array(found[:]), None, np.log(weights)))
    for a, b in zip(found, expected, strict=True):
        assert_allclose(a, b)


@pytest.mark.parametrize("learner", ["auto", "exact"])
def test_one_row_of_a_memory_map(learner, tmp_path):
    X = np.array([[0, 1, 2], [1, 1, 0]], dtype=np.int16)
    rows, weights = write_rows(tmp_path / "X.npy", X), [0.0, 1.0]
    model = DiscreteMRF(learner=learner, random_state=0)
    expected = clone(model).fit(X, sample_weight=weights).energy_.flat
    assert_allclose(model.fit(rows, sample_weight=weights).energy_.flat, expected, atol=1e-6)


def test_categories_of_a_memory_map(tmp_path):
    """Unknown values of a memory map are errors, and given categories have their order."""
    rng = np.random.default_rng(0)
    X = np.stack([rng.integers(q, size=300) for q in (3, 3, 2)], axis=1).astype(np.uint8)
    rows = write_rows(tmp_path / "X.npy", X)
    categories = [[2, 0, 1], [3, 1, 0, 2], [0, 1]]
    model = DiscreteMRF(learner="exact", alpha=0.1, categories=categories)
    expected = clone(model).fit(X).energy_.flat
    assert_allclose(model.fit(rows).energy_.flat, expected, atol=1e-6)
    X[200, 1] = 7
    wrong = write_rows(tmp_path / "wrong.npy", X)
    for fit in (clone(model).fit, model.set_params(warm_start=True).fit, model.partial_fit):
        with pytest.raises(ValueError, match="Column 1 has the category 7"):
            fit(wrong)
    with pytest.raises(ValueError, match="Column 1 has the category 7"):
        model.score_samples(wrong)


@pytest.mark.long
@pytest.mark.parametrize(
    ("options", "n_columns", "block"),
    [
        ({"learner": "pseudo-likelihood", "max_iter": 2}, 100, 2**16),
        ({"learner": "exact", "alpha": 0.01}, 30, 2**14),
        ({"learner": "pcd", "alpha": 0.01, "max_iter": 1, "batch_size": 5000}, 30, 2**14),
    ],
    ids=str,
)
def test_memory_of_a_memory_map(options, n_columns, block, tmp_path, monkeypatch):
    """A fit and queries copy only small parts of the rows of a memory map."""
    for name in ("_utils.rows.BLOCK_ENTRIES", "_utils.rows.MAX_DISTINCT",
                 "_data.frames.LARGE_BLOCK", "structure.screening.BLOCK_ENTRIES",
                 "learners.pseudo_likelihood.CHUNK_SIZE"):  # fmt: skip
        monkeypatch.setattr(f"skmrf.{name}", block)
    monkeypatch.setattr(_automatic, "MAX_PATH_WORK", 1e7)
    monkeypatch.setattr(_automatic, "MAX_EXACT_ENTRIES", 1)
    X = chain_rows(100_000, n_columns, 2, np.random.default_rng(0)).astype(np.uint8)
    rows = write_rows(tmp_path / "X.npy", X)
    model = DiscreteMRF([*pairwise(range(n_columns)), (0, 2)], random_state=0, **options)
    model.fit(np.array(rows[:4000])).score(rows[:4000])  # compiles
    tracemalloc.start()
    model.fit(rows)
    if "alpha" in options:  # queries do not depend on the learner
        model.score(rows)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < rows.nbytes


# Resuming ---------------------------------------------------------------------------------


@every
def test_resumes_bit_for_bit(learner, tmp_path):
    X = bits()
    whole = quick(6, learner, 4).fit(X)
    half = quick(6, learner, 2, warm_start=True).fit(X)
    half = pickle.loads(pickle.dumps(half)).fit(X)
    assert_same_model(whole, half)
    assert half.n_iter_ == whole.n_iter_ == 4
    whole = quick(6, learner, 4, optimizer="adam").fit(X)
    parts = quick(6, learner, optimizer="adam").partial_fit(X).partial_fit(X)
    joblib.dump(parts, tmp_path / "model.joblib")
    parts = joblib.load(tmp_path / "model.joblib").partial_fit(X).partial_fit(X)
    assert_same_model(whole, parts)
    assert whole.history_.keys() == parts.history_.keys()
    assert parts.score(X) == whole.score(X)


@pytest.mark.long
def test_resumed_fits_have_the_same_log_z():
    X = bits()
    whole = quick(12, max_iter=2, max_bytes=FEW_BYTES, optimizer="adam").fit(X)
    parts = quick(12, max_bytes=FEW_BYTES, optimizer="adam").partial_fit(X).partial_fit(X)
    assert whole.log_partition_method_ == "ais"
    assert_array_equal(whole.score_samples(X), parts.score_samples(X))


def test_copies_of_classifiers():
    X, y = load_iris(return_X_y=True)
    model = classes("tree").fit(X, y)
    again = pickle.loads(pickle.dumps(model))
    assert_array_equal(again.predict_proba(X), model.predict_proba(X))
    assert_array_equal(clone(model).fit(X, y).predict_proba(X), model.predict_proba(X))
    assert not hasattr(clone(model), "classes_")
    density, classifier = NNMRFDensity().get_params(), NNMRFBayesClassifier().get_params()
    shared = density.keys() & classifier.keys() - {"potentials"}
    assert {name: density[name] for name in shared} == {name: classifier[name] for name in shared}


@pytest.mark.long
def test_same_seed_same_predictions_of_classes(seed):
    X, y = rings(80, seed)
    X, y = X.copy(), np.where(y, "ring", "rest")
    X[::3, 1] = np.nan
    model = classes(random_state=seed).fit(X, y)
    expected = model.predict_proba(X)
    assert_array_equal(model.predict_proba(X), expected)
    assert set(model.predict(X)) == {"ring", "rest"}
    for again in (
        pickle.loads(pickle.dumps(model)),
        clone(model).fit(X, y),
        classes(random_state=np.random.default_rng(seed)).fit(X, y),
    ):
        assert_array_equal(again.predict_proba(X), expected)
    with parallel_config("threading", n_jobs=2):
        threads = classes(random_state=seed, n_jobs=2).fit(X, y)
    assert_array_equal(threads.predict_proba(X), expected)
    assert (classes(random_state=seed + 1).fit(X, y).predict_proba(X) != expected).any()
