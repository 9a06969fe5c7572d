"""Tests that run all benchmarks at small sizes."""

import csv
import gzip
import importlib
import json
import sys
from functools import partial
from itertools import product
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose
from sklearn.discriminant_analysis import QuadraticDiscriminantAnalysis

from skmrf import inference
from skmrf._utils.phases import States
from skmrf.energies import NeuralEnergy

FOLDER = Path(__file__).parents[2] / "benchmarks"
SCRIPTS = sorted(path.stem for path in FOLDER.glob("*.py"))
pytestmark = pytest.mark.skipif(not SCRIPTS, reason="benchmarks are not in this distribution")


@pytest.fixture
def load(monkeypatch):
    """Import a benchmark by name."""
    monkeypatch.syspath_prepend(FOLDER)
    yield importlib.import_module
    for name in SCRIPTS:
        sys.modules.pop(name, None)


@pytest.mark.parametrize("name", SCRIPTS)
def test_scripts_have_docstrings(load, name):
    assert load(name).__doc__


@pytest.mark.long
def test_samplers_agree(load, seed):
    gibbs = load("gibbs")
    graph = gibbs.random_pairs(4, 2, None, np.random.default_rng(seed))
    rng = np.random.default_rng(seed)
    X = gibbs.Product.uniform(graph.n_states).sample(gibbs.N_CHAINS, rng)
    runs = [
        gibbs.skmrf_sampler(graph, X, rng),
        gibbs.skmrf_sampler(gibbs.TableGraph(graph.n_states, graph.cliques, graph.flat), X, rng),
        gibbs.numpy_binary(graph, X, rng),
        gibbs.numpy_tables(graph, X, rng),
    ]
    found = [gibbs.estimate(gibbs.chain_means(run, 20)) for run in runs]
    single = gibbs.marginals(graph, method="exact").single
    found.append((np.array([p[1] for p in single]), np.zeros(4)))
    assert gibbs.largest_gap(found)["gap_in_errors"] < 5
    found[0] = (found[0][0] + 0.1, found[0][1])  # negative control
    assert gibbs.largest_gap(found)["gap_in_errors"] > 5


@pytest.mark.parametrize("q", [2, 3])
def test_gradient_steps_use_same_statistics(load, q, seed):
    step = load("gradient_step")
    graph = step.random_pairs(4, q, None, np.random.default_rng(seed))
    X = step.Product.uniform(graph.n_states).sample(64, np.random.default_rng(seed))
    expected = graph.moments(States(X))["log_potentials"]
    assert_allclose(step._table_moments(graph.layout, X), expected, atol=1e-12)
    if q == 2:
        assert_allclose(step._gram_moments(graph.layout, X), expected, atol=1e-12)
    runs = step.skmrf_steps(graph, np.resize(X, (512, 4))), step.numpy_steps(graph, X)
    for run in runs:
        run()


def test_clock_counts_the_outermost_call(load):
    step = load("gradient_step")
    places = SimpleNamespace(inner=lambda: sum(range(10**5)))
    places.outer = lambda: places.inner()
    before = places.outer
    with step.clock(((places, "outer"), (places, "inner"))) as inside:
        start = step.time.process_time()
        places.outer()
        assert inside[0] <= step.time.process_time() - start
    assert places.outer is before


def test_density_references_are_distributions(load, seed):
    density = load("density")
    rng = np.random.default_rng(seed)
    states = np.array(list(product((0, 1), repeat=4)))
    rows = np.repeat(rng.integers(0, 2, (50, 2)), 2, axis=1) ^ (rng.random((50, 4)) < 0.1)
    data = SimpleNamespace(train=rows, valid=rows[:20], test=states, n_features=4)
    for model in density.REFERENCES.values():
        log_p = [model(data, state[None]) for state in states]
        assert_allclose(np.exp(log_p).sum(), 1.0, rtol=1e-12)
    assert density.chow_liu(data, rows) > density.independent(data, rows) + 0.1


def test_mixture_of_trees_finds_two_classes(load, seed):
    """Copies within a class and opposites in the other class: no single tree fits both."""
    density = load("density")
    rng = np.random.default_rng(seed)
    first, label = rng.integers(0, 2, (400, 1)), rng.integers(0, 2, (400, 1))
    rows = np.hstack([first, label, first ^ label, first ^ label])
    data = SimpleNamespace(train=rows, valid=rows, test=rows, n_features=4)
    assert density.mixture_of_trees(data, rows) > density.chow_liu(data, rows) + 0.3


def test_density_limits_contain_the_estimate(load, monkeypatch, seed):
    density = load("density")
    rows = np.random.default_rng(seed).integers(0, 2, (300, 4)).astype(np.uint8)
    data = SimpleNamespace(train=rows, valid=rows[:50], test=rows[50:90], n_features=4)
    monkeypatch.setattr(density, "fetch_density_benchmark", lambda *_, **__: data)
    row = density.fit_one("anything", "DiscreteMRF", None)
    assert row["low"] - 1e-9 <= row["test"] <= row["high"] + 1e-9
    assert row["n_hidden"] == 0
    assert set(row) | density.REFERENCES.keys() >= set(density.COLUMNS)


def test_nltcs_rows(load, seed):
    nltcs = load("readme_figures")
    X = np.random.default_rng(seed).integers(0, 2, (600, 3))
    found = {how: nltcs.fit_skmrf(how, X, X) for how in ("exact", "pseudo-likelihood")}
    assert found["pseudo-likelihood"]["train"] <= found["exact"]["train"] + 0.005  # alpha differs
    peer = nltcs.fit_pgmpy(50, X, X)
    assert peer is None or abs(peer["train"] - found["exact"]["train"]) < 0.01


@pytest.mark.slow
def test_learners_rows(load, tmp_path):
    script = load("learners")
    known = ["exact", "pcd", "bp-cd"]
    script.main(["--fast", "--results", str(tmp_path), "--learners", *known])
    rows = [json.loads(row) for row in (tmp_path / "learners.jsonl").read_text().splitlines()]
    assert len(rows) == len(known) * len(script.MODELS) * 2
    for row in rows:
        assert len(row["gaps"]) == 2
        if row["learner"] == "exact":
            assert row["converged"]
            assert 0 < row["gaps"][-1] < 0.1  # estimation error with 2,000 rows
    lost = script.gaps_of(rows, "weak grid", "bp-cd") - script.gaps_of(rows, "weak grid", "exact")
    assert (lost > 0.05).all()
    assert '`"pcd"`' in (tmp_path / "defaults.md").read_text()
    assert (tmp_path / "learners.png").stat().st_size > 5000


def test_scale_recovers_couplings(load, seed):
    row = load("scale").wide_model(6, 6, 2000, seed)
    assert row["correlation"] > 0.5
    assert 0.3 < row["rms_error"] / row["expected_error"] < 3.0


def test_saved_records(load, tmp_path):
    common = load("_common")
    args = SimpleNamespace(fast=True, results=tmp_path)
    rows = [{"model": "a", "x": 1.5}, {"model": "b", "x": None}]
    common.save(args, "gibbs", rows, {"model": "model", "x": "ns"}, ["A note."])
    common.bars(args, "gibbs", rows, {"x": "x"}, lambda row: row["model"], xlabel="ns")
    assert json.loads((tmp_path / "gibbs.json").read_text())["rows"] == rows
    assert "| a     | 1.5000 |" in common.markdown(rows, {"model": "model", "x": "ns"})


@pytest.mark.parametrize("task", [pytest.param("3-SAT", marks=pytest.mark.long), "sequences"])
@pytest.mark.long
def test_chained_bp_rows(load, task, seed, tmp_path):
    chained = load("chained_bp")
    names = ["exact", "BPChain", "BPChain corrected"]
    rows = chained.run_problem(task, 7, seed, 0.5, names)
    assert [row["setting"] for row in rows].count("paper") == 3
    best = next(r for r in rows if (r["setting"], r["learner"]) == ("best", "exact"))
    assert all(row["log_likelihood"] < best["log_likelihood"] + 0.5 for row in rows)
    lines = chained.summary(rows)
    keys = chained.SCORES["sequences" if task == "sequences" else "models"]
    tables = chained.task_tables(lines, keys)
    for key, label in keys.items():
        assert all(np.isfinite(line[key]) for line in lines)
        chained.draw(tmp_path / f"{key}.png", lines, key, label)
        assert (tmp_path / f"{key}.png").stat().st_size > 1000
    assert "| 7 |" in tables


@pytest.mark.long
def test_printed_algorithm_has_same_distribution(load, seed):
    propagation = load("propagation")
    row = propagation.chain(seed, 8, 20)
    assert float(row["difference"]) < 1e-9
    name, energy = next(propagation.models(True))
    row = propagation.cost(name, energy)  # compares the beliefs with numpy's
    assert row["flooding"] > 0


@pytest.mark.slow
def test_boltzmann_rows(load, tmp_path):
    boltzmann = load("boltzmann")
    boltzmann.main(["--fast", "--results", str(tmp_path)])
    rows = json.loads((tmp_path / "boltzmann.json").read_text())["rows"]
    assert len(rows) == len(boltzmann.SCHEMES) * len(boltzmann.LEARNERS)
    assert all(row["gap"] == 0.0 for row in rows if row["learner"] == "exact")
    literal, temper = (
        [row["error"] for row in rows if row["learner"] == name]
        for name in ("PSMC literal", "PSMC")
    )
    assert literal[1] > temper[1]  # new particles are not samples of the model
    names = "persistent_smc.md", "boltzmann_table1.png", "boltzmann_temperatures.png"
    assert all((tmp_path / name).stat().st_size > 500 for name in names)


def test_boltzmann_exact_sums(load, seed):
    boltzmann = load("boltzmann")
    X, energy = boltzmann.problem(seed)
    space = boltzmann.StateSpace(boltzmann.N_UNITS, X)
    log_z = float(inference.log_partition(energy, method="exact"))
    assert_allclose(space.log_likelihood(energy), energy.log_potential(X).mean() - log_z)
    p = np.exp(space.log_p(energy)[0])
    assert space.error(energy, States(space.codes, None, np.log(p))) < 1e-12


@pytest.mark.long
def test_rbm_rows(load, seed, monkeypatch, tmp_path):
    rbm = load("rbm")
    monkeypatch.setattr(rbm, "RBM", partial(rbm.RBM, alpha=0.01, max_iter=3))
    rng = np.random.default_rng(seed)
    images = {k: 255 * rng.integers(0, 2, (n, 4, 4)) for k, n in (("x_train", 600), ("x_test", 50))}
    np.savez(tmp_path / "mnist.npz", **images)
    tiny = ["--fast", "--seconds", "0.02", "--seconds-large", "0.02"]
    rbm.main([*tiny, "--data", str(tmp_path / "mnist.npz"), "--results", str(tmp_path)])
    rows = json.loads((tmp_path / "rbm.json").read_text())["rows"]
    equal = [row for row in rows if row["experiment"] == "equal 10"]
    assert [row["learner"] for row in equal] == [*rbm.LEARNERS, *rbm.PEERS]
    assert all(-16 < row["test"] < 0 for row in equal)
    large = [row for row in rows if row["experiment"] == "equal 500"]
    assert all(row["test_low"] <= row["test"] <= row["test_high"] for row in large)
    assert {row["experiment"] for row in rows} >= {"paper zeros", "paper data"}
    names = "rbm_equal.png", "rbm_paper.png", "rbm_temperatures.png", "persistent_smc.md"
    assert all((tmp_path / name).stat().st_size > 500 for name in names)


def test_rbm_without_images(load, tmp_path):
    with pytest.raises(SystemExit, match="No MNIST"):
        load("rbm").main(["--data", str(tmp_path / "absent.npz")])


@pytest.fixture
def structured(load, monkeypatch, seed):
    """Load the benchmark of structured prediction, with small random images."""
    script = load("structured")
    rng = np.random.default_rng(seed)
    V = (rng.random((160, 1)) < 0.5) ^ (rng.random((160, 16)) < 0.1)
    parts = np.split(V.astype(np.uint8), [100, 130])
    monkeypatch.setattr(script, "images", lambda *_: parts)
    tasks = {
        "noisy 10%": script.TASKS["noisy 10%"],
        "occluded 8x8": ("mnist", script.occlude, {"size": 2}),
    }
    monkeypatch.setattr(script, "TASKS", tasks)
    return script


@pytest.mark.long
def test_interrupted_cells_are_resumed(structured, monkeypatch, tmp_path):
    def cells(folder, *more):
        places = ["--results", str(folder), "--cells", str(folder)]
        places += ["--checkpoints", str(folder / "checkpoints")]
        setting = ["--tasks", "noisy 10%", "--learners", "MLE-BP", "LR"]
        one = ["--rates", "0.1", "--batches", "20", "--epochs", "6", "--patience", "5"]
        structured.main([*places, *setting, *one, *more])
        return [{**c, "seconds": None} for c in structured.collected(SimpleNamespace(cells=folder))]

    whole = cells(tmp_path / "whole")
    dump, left = structured.joblib.dump, iter(range(8))

    def interrupted(*args):
        dump(*args)
        if next(left) == 3:
            raise KeyboardInterrupt

    monkeypatch.setattr(structured.joblib, "dump", interrupted)
    with pytest.raises(KeyboardInterrupt):
        cells(tmp_path / "parts")
    monkeypatch.setattr(structured.joblib, "dump", dump)
    assert cells(tmp_path / "parts") == whole
    assert len(whole) == 2
    assert not list((tmp_path / "parts" / "checkpoints").iterdir())


@pytest.mark.slow
def test_structured_tables(structured, tmp_path):
    places = ["--results", str(tmp_path), "--cells", str(tmp_path)]
    places += ["--checkpoints", str(tmp_path / "checkpoints")]
    tried = ["--rates", "0.1", "0.01", "--batches", "20", "--epochs", "4", "--seeds", "0", "1"]
    structured.main([*places, *tried, "--tune-images", "50", "--n-train", "100"])
    rows = json.loads((tmp_path / "structured.json").read_text())["rows"]
    assert len(rows) == 2 * 2 * len(structured.LEARNERS)
    for row in rows:
        assert row["n_seeds"] == (2 if row["n_train"] == 100 else 1)
        assert 0 <= row["all"] <= 100
        assert row["rate"] in (0.1, 0.01)
        assert (row["paper_all"] is None) == (row["learner"] not in structured.PAPER_LEARNERS)
    assert (tmp_path / "structured_curves.png").stat().st_size > 5000


@pytest.mark.slow
def test_layer_messages_rows(load, tmp_path):
    load("layers").main(["--fast", "--parts", "messages", "--results", str(tmp_path)])
    rows = json.loads((tmp_path / "layer_messages.json").read_text())["rows"]
    assert sum("ratio" in row for row in rows) == 4
    assert all(row["seconds"] > 0 for row in rows)


@pytest.mark.slow
def test_multilabel_rows(load, seed, tmp_path):
    multilabel = load("multilabel")
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(260, 5))
    Y = (X[:, :3] > 0).astype(int)
    Y[:, 2] = 0  # constant
    parts = {"X_train": X[:220], "Y_train": Y[:220], "X_test": X[220:], "Y_test": Y[220:]}
    (tmp_path / "multilabel").mkdir()
    np.savez(tmp_path / "multilabel" / "yeast.npz", **parts)
    places = ["--data-home", str(tmp_path), "--results", str(tmp_path)]
    multilabel.main(["--fast", "--sets", "yeast", *places])
    rows = json.loads((tmp_path / "multilabel.json").read_text())["rows"]
    assert len(rows) == 2 + len(multilabel.LEARNERS)
    assert all(0 <= row["hamming"] < 0.25 for row in rows)
    probable = {row["method"] for row in rows if row.get("log_loss") is not None}
    assert {"mssvm", "lssvm"}.isdisjoint(probable)
    assert "mle-bp" in probable


def test_gain_of_the_defaults_is_positive_if_they_are_better(load, seed):
    defaults = load("defaults")
    rng = np.random.default_rng(seed)
    score, rivals = rng.normal(3.0, 0.1, 50), {"a": rng.normal(2.0, 0.1, 50), "b": np.zeros(50)}
    row = defaults.comparison("E", "d", "accuracy", score, rivals, 1.0)
    assert row["baseline"] == "a"
    assert row["gain"] == pytest.approx(1.0, abs=0.2)
    assert not defaults.is_baseline_better(row)
    row = defaults.comparison("E", "d", "loss", score, rivals, 1.0, smaller_is_better=True)
    assert row["baseline"] == "b"
    assert row["gain"] == pytest.approx(-3.0, abs=0.2)
    assert defaults.is_baseline_better(row)


@pytest.fixture
def uci(load, monkeypatch, seed, tmp_path):
    """Load the UCI benchmark with a small random data set, and return it with its options."""
    script = load("nnmrf_uci")
    rng = np.random.default_rng(seed)
    y = np.repeat(["a", "b", "c"], [40, 30, 3])
    X = rng.normal(size=(73, 3)) + 2.0 * (y == "b")[:, None]
    two = np.arange(73) % 2
    (tmp_path / "uci").mkdir()
    with gzip.open(tmp_path / "uci" / "ecoli_protein.csv.gz", "wt") as file:
        rows = csv.writer(file)
        rows.writerow(["seq", "mcg", "lip", "gvh", "chg", "alm1", "class"])
        columns = range(73), X[:, 0], two, X[:, 1], two, X[:, 2], y
        rows.writerows(zip(*columns, strict=True))
    np.savez(tmp_path / "uci" / "nnmrf_protein.npz", X=X[:70], y=np.repeat([0, 1], [40, 30]))
    monkeypatch.setattr(script, "MAX_ITER", 3)
    return script, ["--results", str(tmp_path), "--data-home", str(tmp_path)]


def test_uci_accuracy_of_the_classifier(uci, tmp_path):
    script, places = uci
    script.main(["--classifier", "--sets", "Protein", "--splits", "2", *places])
    (row,) = json.loads((tmp_path / "nnmrf_classifier.json").read_text())["rows"]
    assert float(row["honest"].split()[0]) > 0.6
    assert row["printed"] == 0.9837
    texts = sys.modules["_common"].read_tables(tmp_path / "neural_potentials.md")
    assert "Protein" in texts["uci classifier"]


def test_difference_of_areas_under_the_curve(load):
    tables = load("tables")
    splits = [(0.6, 0.5, 0.9), (0.7, 0.5, 0.4)]
    keys = "auc", "auc_mixture", "auc_independent"
    found = tables.average([dict(zip(keys, split, strict=True)) for split in splits])
    assert found["auc_difference"] == pytest.approx(0.15)
    assert found["auc_error"] == pytest.approx(0.05)
    others = {"log_likelihood": -1.0, "mixture": -2.0, "mixture_raw": -2.0}
    assert "above zero on 1 of 1." in tables.summary([found | others])[0]
    assert "above zero on 0 of 1." in tables.summary([found | others | {"auc_error": 0.1}])[0]
    single = tables.average([dict(zip(keys, splits[0], strict=True))])
    assert single["auc_error"] is None
    assert "standard errors" not in tables.summary([single | others])[0]


def test_tables_without_files(load, tmp_path):
    """Tables of scikit-learn need no files, and a part without a chosen table writes nothing."""
    tables = load("tables")
    mixed = tables.load_mixed(tmp_path)
    assert len(mixed) == 4
    assert set(tables.load_labelled(tmp_path)) == {"breast cancer", "wine"}
    for frame in mixed.values():
        coded = tables.one_hot(frame)
        found = tables.to_frame(coded.to_numpy(), coded, frame)
        pd.testing.assert_frame_equal(found, frame, atol=1e-6)  # at most six decimals
        assert tables.is_outside(frame, frame) == tables.largest_difference(frame, frame) == 0.0
    options = ["--fast", "--parts", "anomalies", "--tables", "iris", "--results", str(tmp_path)]
    tables.main(options)
    assert not list(tmp_path.iterdir())


@pytest.mark.slow
def test_uci_tables(uci, tmp_path):
    script, places = uci
    script.main([*places, "--cells", str(tmp_path), "--sets", "Protein", "--splits", "2"])
    names = [f"nnmrf_{kind}{end}" for kind in ("accuracy", "density") for end in ("", "_paper")]
    tables = {name: json.loads((tmp_path / f"{name}.json").read_text())["rows"] for name in names}
    honest, ranks = tables["nnmrf_accuracy"]
    methods = {script.OURS, *script.classifiers("honest", 3, 0)}
    assert len(methods) == 9
    assert all(0.5 < honest[method] <= 1 for method in methods)
    assert_allclose(sum(ranks[f"{method} rank"] for method in methods), 9 * 10 / 2)
    assert "(0.9837)" in tables["nnmrf_accuracy_paper"][0][f"{script.OURS} text"]
    density = tables["nnmrf_density"][0]
    assert density["n_scored"] == 14  # none of the class of three rows
    assert {*script.DENSITIES, "NNMRF mixture", "NNMRF MRF"} <= set(density)
    assert all((tmp_path / f"{name}.png").stat().st_size > 300 for name in names)
    texts = sys.modules["_common"].read_tables(tmp_path / "neural_potentials.md")
    assert set(texts) == {name.replace("nnmrf", "uci").replace("_", " ") for name in names}
    assert all(len(text) > 300 for text in texts.values())


@pytest.mark.long
def test_uci_cells_are_not_computed_again(uci, monkeypatch, tmp_path):
    script, places = uci
    setting = [*places, "--cells", str(tmp_path), "--sets", "Protein", "--splits", "1"]
    setting += ["--protocol", "paper"]
    script.main([*setting, "--parts", "rivals"])
    path = tmp_path / "nnmrf_uci" / "paper-Protein-0.json"
    first = json.loads(path.read_text())
    monkeypatch.setattr(script, "rivals", None)
    script.main([*setting, "--parts", "rivals", script.SETTING])
    second = json.loads(path.read_text())
    assert second["rivals"] == first["rivals"]
    assert set(second) - set(first) == {script.SETTING}


def test_densities_of_the_uci_benchmark(load, seed):
    uci = load("nnmrf_uci")
    rng = np.random.default_rng(seed)
    y = rng.integers(0, 2, 80)
    X = rng.normal(size=(80, 2)) @ np.array([[1.0, 0.5], [0.0, 0.7]]) + y[:, None]
    data = uci.Split(X, y, X, y)
    peer = QuadraticDiscriminantAnalysis(reg_param=0.1).fit(X, y)
    logs = [uci.gaussian(X[y == k], shrinkage=0.1)(X) + np.log((y == k).mean()) for k in (0, 1)]
    assert_allclose(logs[1] - logs[0], peer.decision_function(X), rtol=1e-6)
    grid = np.stack(np.meshgrid(*[np.linspace(-8, 9, 100)] * 2), axis=-1).reshape(-1, 2)
    for method in uci.DENSITIES.values():
        at = uci.Split(X, y, grid, np.ones(len(grid), int))
        assert_allclose(np.exp(method(at)).sum() * (17 / 99) ** 2, 1.0, rtol=0.01)
    scaled, volume = data.scaled()
    assert_allclose(uci.naive(scaled) - volume, uci.naive(data), rtol=1e-6)


@pytest.mark.slow
def test_trivariate_rows(load, monkeypatch, tmp_path):
    script = load("nnmrf_trivariate")
    tiny = {"N_TRAIN": 300, "N_TEST": 2000, "INFERENCE": 3, "GRID_POINTS": 15, "EXACT_ITER": 5}
    for name, value in (tiny | {"CELLS": 20, "COARSE": 2}).items():
        monkeypatch.setattr(script, name, value)
    make = script.NetworkPotentials
    monkeypatch.setattr(script, "NetworkPotentials", lambda **k: make(**({"max_iter": 5} | k)))
    script.main(["--fast", "--results", str(tmp_path)])
    rows = json.loads((tmp_path / "nnmrf_trivariate.json").read_text())["rows"]
    assert len(rows) == 2 + 3 * 3 + 2
    assert rows[1]["kl"] < 0.1 < rows[0]["kl"]
    assert all(row["kl"] > 0 for row in rows)
    assert all((row.get("kl_bethe") is None) == (row["pool"] is None) for row in rows)
    assert (tmp_path / "nnmrf_trivariate.png").stat().st_size > 5000


def test_times_of_chains(load, tmp_path):
    load("crf").main(["--fast", "--tasks", "sums of chains", "--results", str(tmp_path)])
    table = (tmp_path / "labels.md").read_text()
    assert "| 2 " in table
    assert "| 3 " in table
    assert not (tmp_path / "crf.json").exists()


@pytest.mark.long
def test_marginals_of_grids_are_compared(load):
    propagation, contraction = load("crf").contraction_rows("grid Potts", n_images=2)
    assert propagation["converged"] == contraction["converged"] == 1.0
    assert float(contraction["mean"]) < float(propagation["mean"]) / 1000
    assert float(contraction["largest"]) <= 1e-3 < float(propagation["largest"])
    assert float(contraction["log_z"]) <= 1e-3 < float(propagation["log_z"])


def test_connected_frequencies(load, seed):
    rng = np.random.default_rng(seed)
    X, weights = rng.integers(0, 21, (40, 3)), rng.random(40)
    found = load("contacts").connected_frequencies(X, weights).reshape(3, 21, 21)
    for (i, j), table in zip([(0, 1), (0, 2), (1, 2)], found, strict=True):
        a, b = X[5, i], X[5, j]
        first, second = X[:, i] == a, X[:, j] == b
        p, q, both = (np.average(v, weights=weights) for v in (first, second, first & second))
        assert_allclose(table[a, b], both - p * q, atol=1e-6)


@pytest.mark.parametrize("variance", [1.0, 50.0])
def test_trivariate_partition_function(load, variance, seed):
    script = load("nnmrf_trivariate")
    covariance = variance * np.array([[1.0, 0.6, 0.2], [0.6, 1.0, 0.1], [0.2, 0.1, 1.0]])
    energy = NeuralEnergy.random(
        [0, 0, 0], [(0, 1)], precision=np.linalg.inv(covariance), random_state=seed
    )
    for theta in energy.theta.values():
        theta[:, -1] = 0.0  # the scales
    expected = 0.5 * np.linalg.slogdet(2 * np.pi * covariance)[1]
    assert_allclose(script.log_partition(energy), expected, atol=0.01)


@pytest.mark.long
def test_nnmrf_curves_rows(uci, load, monkeypatch, tmp_path):
    curves = load("nnmrf_curves")
    monkeypatch.setattr(curves, "MAX_ITER", 3)
    monkeypatch.setattr(curves, "PERPLEXITY", 5)
    _, places = uci
    curves.main([*places, "--sets", "Protein"])
    (row,) = json.loads((tmp_path / "nnmrf_curves.json").read_text())["rows"]
    assert row["curve"][0][-1] == row["updates"]
    assert 0.2 < row["telling"] <= 1
    assert (tmp_path / "nnmrf_curves.png").stat().st_size > 3000
    rng = np.random.default_rng(0)
    args = SimpleNamespace(results=tmp_path)
    y = np.repeat([0, 1], 10)
    curves.draw_embedding(args, "any", rng.normal(size=(20, 2)), y, rng.normal(size=(20, 2)), 0)
    assert (tmp_path / "nnmrf_tsne.png").stat().st_size > 3000


@pytest.mark.slow
def test_nnmrf_mnist_rows(load, monkeypatch, seed, tmp_path):
    mnist = load("nnmrf_mnist")
    assert_allclose(mnist.averages().sum(axis=1), 1.0)
    assert_allclose(mnist.smaller(np.full((1, 784), 255)), 1.0)
    rng = np.random.default_rng(seed)
    y = np.arange(300) % 10
    X = np.clip(25 * y[:, None] + rng.normal(0, 60, (300, 784)), 0, 255)
    found = SimpleNamespace(train=X, test=X[:50], train_labels=y, test_labels=y[:50])
    monkeypatch.setattr(mnist, "fetch_mnist", lambda **_: found)
    monkeypatch.setattr(mnist, "MAX_ITER", 10)
    monkeypatch.setattr(mnist, "SMALL", 4)
    mnist.main(["--fast", "--results", str(tmp_path)])
    rows = json.loads((tmp_path / "nnmrf_mnist.json").read_text())["rows"]
    assert [row["method"] for row in rows] == [*mnist.METHODS, mnist.BAYES] * 2
    assert all(row["accuracy"] > 30 for row in rows)
    assert (tmp_path / "nnmrf_mnist.png").stat().st_size > 1000


@pytest.mark.slow
def test_network_kernels_rows(load, tmp_path):
    script = load("network_kernels")
    for kind, layers in product(("nodes", "edges"), script.SHAPES):
        functions = script.passes(kind, *script.problem(kind, 6, layers, np.float64, 250))
        for what in ("value", "gradient"):
            expected = functions[what, "kernel"]()
            assert_allclose(functions[what, "numpy"](), expected, atol=1e-12)
        assert_allclose(functions["gradient", "blocks"](), expected, atol=1e-12)
    script.main(["--fast", "--results", str(tmp_path)])
    rows = json.loads((tmp_path / "network_kernels.json").read_text())["rows"]
    assert len(rows) == 2 * 2 * 2 * 2 + 1
    assert 0 < rows[-1]["share"] < 1


def test_imputation(load, seed):
    """Removed entries are scored, observed ones stay, and removal depends on the first column."""
    script = load("imputation")
    rng = np.random.default_rng(seed)
    X = np.repeat(rng.integers(3, size=(400, 1)), 4, axis=1) * 2.0
    mask = script.remove(X, "by column 1", rng)
    low = X[:, 0] <= np.median(X[:, 0])
    assert not mask[:, 0].any()
    assert mask[low, 1:].mean() < 0.15 < 0.25 < mask[~low, 1:].mean()
    incomplete = np.where(mask, np.nan, X)
    for method in ("simple", "knn", "linear"):
        found = script.impute(method, incomplete, True)
        assert (found[~mask] == X[~mask]).all()
        assert (script.score(found, X, mask, True) > 0.95) == (method != "simple")
    assert script.score(np.where(mask, -1.0, X), X, mask, True) == 0.0
    assert script.score(X, X, mask, False) == 0.0
