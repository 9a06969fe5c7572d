"""Tests of threads, Dask and Ray through joblib: equal results, and data sent."""

import functools
import os
import pickle
import signal
import threading
import time
from contextlib import contextmanager, suppress

import numpy as np
import pytest
import threadpoolctl
from joblib import parallel_config
from scipy.sparse import csr_array
from sklearn.base import clone
from sklearn.callback import ProgressBar
from sklearn.model_selection import GridSearchCV

from skmrf import (
    CRF,
    RBM,
    BoltzmannMachine,
    CRBMStructuredPredictor,
    DiscreteMRF,
    MRFStructureLearner,
    NetworkPotentials,
    NNMRFBayesClassifier,
    inference,
    likelihood,
)
from skmrf._utils import parallel
from skmrf._utils.phases import States
from skmrf.datasets import make_ising
from skmrf.energies import FactorGraph, table_backed
from skmrf.energies.layout import Layout
from skmrf.estimators import structure_learner
from skmrf.learners import PCD
from skmrf.samplers import gibbs
from skmrf.training import logistic_start, part_reports

pytestmark = [
    pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning"),
    pytest.mark.filterwarnings("ignore:The interval of log Z"),
]
CHAIN = make_ising("chain", n_variables=6, coupling=0.5)
X = inference.sample(CHAIN, 400, random_state=0)
RNG = np.random.default_rng(0)
NUMBERS = RNG.normal(size=(90, 3)) + X[:90, :3]
LABELS = X[:90, 0] + X[:90, 1]
FEW_CHAINS = PCD(n_chains=600)  # two units of work, so that every step could be sent


def grid_search():
    """Return the held-out log-likelihood of each fold and parameter."""
    model = DiscreteMRF(learner=FEW_CHAINS, max_iter=40, random_state=0)
    search = GridSearchCV(model, {"alpha": [0.0, 0.1]}, cv=2).fit(X)
    splits = [search.cv_results_[f"split{k}_test_score"] for k in range(2)]
    return [*splits, search.best_estimator_.score_samples(X)]


def bootstraps():
    """Return the selection frequencies of bootstraps."""
    model = MRFStructureLearner("exact", n_bootstraps=4, random_state=0).fit(X)
    return [model.edge_frequency_, model.coupling_]


def classes():
    """Return class probabilities and densities."""
    networks = NetworkPotentials(node_layers=(3,), edge_layers=(3,), max_iter=3)
    model = NNMRFBayesClassifier(networks, random_state=0).fit(NUMBERS, LABELS)
    return [model.predict_proba(NUMBERS), model.score_samples(NUMBERS)]


def chains():
    """Return log-weights of annealed importance sampling."""
    energy = make_ising("grid", n_variables=16, coupling=0.6)
    found = likelihood.ais(energy, n_chains=192, n_temperatures=300, random_state=0, n_jobs=2)
    return [np.array([found.value, found.std_error, found.lower, found.upper])]


JOBS = {"grid search": grid_search, "bootstraps": bootstraps, "classes": classes, "chains": chains}
MOST_TASKS = {"grid search": 4, "bootstraps": 4, "classes": 3, "chains": 0}


def check_same(job, expected):
    for found, known in zip(JOBS[job](), expected, strict=True):
        np.testing.assert_array_equal(found, known, err_msg=job)


@pytest.fixture(scope="module")
def single_process_results():
    """Return the results of all jobs on one process."""
    return {job: function() for job, function in JOBS.items()}


# Dask --------------------------------------------------------------------------------------


@contextmanager
def dask_client():
    """Yield a client of two worker processes."""
    distributed = pytest.importorskip("distributed")
    with (
        distributed.LocalCluster(
            n_workers=2, threads_per_worker=1, processes=True, dashboard_address=None
        ) as cluster,
        distributed.Client(cluster) as client,
    ):
        yield client


def n_executed(client):
    """Return the number of tasks that workers have executed."""
    return sum(client.run(lambda dask_worker: dask_worker.state.executed_count).values())


@pytest.mark.long
def test_dask(single_process_results, monkeypatch, capsys):
    """Run all checks on one cluster, because starting one takes seconds."""
    with dask_client() as client, parallel_config("dask"):
        for job, most in MOST_TASKS.items():
            before = n_executed(client)
            check_same(job, single_process_results[job])
            sent = n_executed(client) - before
            assert min(most, 1) <= sent <= most, f"{job}: {sent} tasks"
        monkeypatch.setattr(gibbs, "UPDATES_TO_SEND", 0)
        before = n_executed(client)
        check_same("chains", single_process_results["chains"])
        assert n_executed(client) > before, "long blocks of chains are sent"
        check_progress(capsys)


@pytest.mark.slow
def test_dask_killed_worker():
    """Check that bootstraps of a killed worker run again on another worker."""
    with dask_client() as client, parallel_config("dask"):
        check_killed_worker(client)


def check_killed_worker(client):
    model = MRFStructureLearner("exact", n_bootstraps=16, random_state=0)
    with parallel_config("sequential"):
        expected = model.fit(X).edge_frequency_
    pids = set(client.run(os.getpid).values())
    killed = []

    def kill():
        while not all(client.processing().values()):
            time.sleep(0.01)
        killed.append(min(pids))
        os.kill(killed[0], signal.SIGKILL)

    thread = threading.Thread(target=kill, daemon=True)
    thread.start()
    found = model.fit(X).edge_frequency_
    thread.join(60)
    assert killed, "no worker was killed"
    np.testing.assert_array_equal(found, expected)
    client.wait_for_workers(2)
    assert killed[0] not in client.run(os.getpid).values()


# Ray ---------------------------------------------------------------------------------------


@contextmanager
def local_ray():
    """Start Ray with two processors and register its joblib backend."""
    ray = pytest.importorskip("ray")
    from ray.util.joblib import register_ray

    ray.init(
        num_cpus=2,
        include_dashboard=False,
        object_store_memory=100 * 2**20,
        log_to_driver=False,
        logging_level="error",
    )
    try:
        register_ray()
        yield
    finally:
        ray.shutdown()


@pytest.mark.slow
def test_ray(single_process_results):
    with local_ray(), parallel_config("ray", n_jobs=2):
        for job in JOBS:
            check_same(job, single_process_results[job])


@pytest.mark.slow
def test_ray_killed_actor():
    """Check that bootstraps fail if an actor is killed, unless Ray restarts actors."""
    ray = pytest.importorskip("ray")
    with local_ray():
        check_killed_actor(ray)


def check_killed_actor(ray):
    model = MRFStructureLearner("exact", n_bootstraps=16, random_state=0)
    with parallel_config("sequential"):
        expected = model.fit(X).edge_frequency_
    restarts = {"max_restarts": 3, "max_task_retries": 3}
    with parallel_config("ray", n_jobs=2, ray_remote_args=restarts), kill_one_actor() as killed:
        found = model.fit(X).edge_frequency_
    assert killed
    np.testing.assert_array_equal(found, expected)
    with (
        parallel_config("ray", n_jobs=2),
        kill_one_actor(),
        pytest.raises(ray.exceptions.ActorDiedError),
    ):
        model.fit(X)


@contextmanager
def kill_one_actor():
    """Kill the first Ray process that runs a task; yield a list that receives its id."""
    psutil = pytest.importorskip("psutil")
    killed, over = [], threading.Event()

    def kill():
        while not killed and not over.wait(0.005):
            for process in psutil.Process().children(recursive=True):
                with suppress(psutil.Error):
                    if process.cmdline()[:1] == ["ray::PoolActor.run_batch"]:
                        process.kill()
                        killed.append(process.pid)
                        return

    thread = threading.Thread(target=kill, daemon=True)
    thread.start()
    try:
        yield killed
    finally:
        over.set()
        thread.join()


# Callbacks ---------------------------------------------------------------------------------


def check_progress(capsys):
    """Check that a progress bar of each estimator is shown."""
    networks = NetworkPotentials(node_layers=(3,), edge_layers=(3,), max_iter=2)
    model = NNMRFBayesClassifier(networks, random_state=0, n_jobs=2)
    model.set_callbacks(ProgressBar()).fit(NUMBERS, LABELS)
    shown = capsys.readouterr().out
    assert "NNMRFBayesClassifier" in shown
    assert "NNMRFDensity" in shown
    inner = DiscreteMRF(learner="pcd", max_iter=3, random_state=0)
    search = GridSearchCV(inner, {"alpha": [0.0, 0.1]}, cv=2, n_jobs=2)
    search.set_callbacks(ProgressBar()).fit(X)
    shown = capsys.readouterr().out
    assert "GridSearchCV" in shown
    assert "DiscreteMRF" in shown


@pytest.mark.long
def test_progress_of_processes(capsys):
    with parallel_config("loky"):
        check_progress(capsys)


# What is sent ------------------------------------------------------------------------------


@pytest.fixture
def sent(monkeypatch):
    """Run all tasks in this process and return their sizes in bytes."""
    sizes = []

    def run_parts(function, parts, _n_jobs):
        for part in parts:
            sizes.append(len(pickle.dumps((function, part))))
            yield function(*part)

    for module in (structure_learner, part_reports):
        monkeypatch.setattr(module, "run_parts", run_parts)
    return sizes


def test_task_size_of_a_bootstrap(sent):
    rows = RNG.integers(3, size=(4000, 5))
    model = MRFStructureLearner("exact", n_bootstraps=2, random_state=0)
    model.set_callbacks(ProgressBar())
    for _ in range(2):  # the second finds what the first has left
        model.fit(rows, sample_weight=RNG.integers(1, 4, size=4000))
    codes = 2 * rows.size + 8 * len(rows)  # and weights
    assert len(sent) == 4
    assert max(sent) < 1.5 * codes + 4000


def test_task_size_of_a_class(sent):
    labels = np.arange(3000) % 3
    rows = RNG.normal(size=(3000, 5)) + labels[:, None]
    networks = NetworkPotentials(node_layers=(3,), edge_layers=(3,), max_iter=1)
    model = NNMRFBayesClassifier(networks, random_state=0).set_callbacks(ProgressBar())
    for _ in range(2):
        model.fit(rows, labels)
    assert len(sent) == 6
    assert max(sent) < rows.nbytes / 3 + 4000


def test_search_with_a_fitted_estimator():
    model = DiscreteMRF(learner=FEW_CHAINS, alpha=0.0, max_iter=200, random_state=0)
    before = len(pickle.dumps(clone(model)))
    assert len(pickle.dumps(clone(model.fit(X)))) == before


# Threads ------------------------------------------------------------------------------------


def thread_of(_):
    time.sleep(0.02)
    return threading.get_ident()


def test_blocks_use_the_threads_of_the_context():
    blocks = [(k,) for k in range(8)]
    assert len(set(parallel.run_blocks(thread_of, blocks, None))) == 1
    with parallel.parallel_jobs(2):
        assert len(set(parallel.run_blocks(thread_of, blocks, None))) == 2
        assert len(set(parallel.run_blocks(thread_of, blocks, 1))) == 1
        with parallel.parallel_jobs(None):
            assert len(set(parallel.run_blocks(thread_of, blocks, None))) == 2
    assert len(set(parallel.run_blocks(thread_of, blocks, None))) == 1


def test_threads_are_started_when_they_are_needed():
    before = threading.active_count()
    list(parallel.run_blocks(thread_of, [(0,), (1,)], 5000))
    assert threading.active_count() <= before + 1


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")
def test_forked_processes_start_their_own_threads():
    """Another thread may run blocks, and hold locks, at the time of a fork."""
    blocks, is_over = [(k,) for k in range(4)], threading.Event()

    def repeat():
        while not is_over.is_set():
            list(parallel.run_blocks(abs, blocks, 2))

    other = threading.Thread(target=repeat)
    other.start()
    try:
        for _ in range(5):
            child = os.fork()
            if child == 0:
                signal.alarm(20)  # ends a child that hangs
                os._exit(list(parallel.run_blocks(abs, blocks, 2)) != [0, 1, 2, 3])
            assert os.waitpid(child, 0)[1] == 0
    finally:
        is_over.set()
        other.join()


@functools.cache
def blas_libraries():
    """Return the BLAS libraries of this process; the search for them takes a tenth of a second."""
    return threadpoolctl.ThreadpoolController().select(user_api="blas")


def count_blas_threads():
    return max(library["num_threads"] for library in blas_libraries().info())


def test_blocks_limit_blas_and_run_inner_blocks_in_their_thread():
    def look(k):
        inner = set(parallel.run_blocks(thread_of, [(0,), (1,)], 2))
        return k, count_blas_threads(), inner == {threading.get_ident()}

    with threadpoolctl.threadpool_limits(2, "blas"):
        found = list(parallel.run_blocks(look, [(k,) for k in range(6)], 2))
        assert count_blas_threads() == 2
    assert found == [(k, 1, True) for k in range(6)]


def test_small_products_of_a_fit_use_one_thread():
    found, rows = [], np.random.default_rng(0).integers(0, 2, size=(30, 4))

    class Recording(PCD):
        def step(self, energy, batch, state, rng):
            found.append(count_blas_threads())
            return super().step(energy, batch, state, rng)

    with threadpoolctl.threadpool_limits(2, "blas"):
        with parallel.threads_of_products(parallel.SMALL_PRODUCT):
            assert count_blas_threads() == 2
        RBM(2, Recording(), alpha=0.1, max_iter=2, random_state=0).fit(rows)
        assert count_blas_threads() == 2
    assert set(found) == {1}


def test_threads_of_blocks_and_of_products_do_not_compete():
    """All products of a fit in threads use one thread of BLAS, also large ones."""
    counts = {}

    class Recording(PCD):
        def step(self, energy, batch, state, rng):
            counts.setdefault(n_jobs, set()).add(count_blas_threads())
            return super().step(energy, batch, state, rng)

    rows = np.random.default_rng(0).integers(0, 2, size=(400, 300))
    with threadpoolctl.threadpool_limits(2, "blas"):
        for n_jobs in (None, 2):
            RBM(
                300, Recording(n_chains=64), alpha=0.1, batch_size=400, max_iter=1, n_jobs=n_jobs,
                random_state=0,
            ).fit(rows)  # fmt: skip
    assert counts == {None: {2}, 2: {1}}


@pytest.mark.parametrize("shape", [(50, 30, 70), (700, 1, 3), (3, 400, 1), (0, 5, 4)])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_products_in_blocks(shape, dtype, monkeypatch):
    monkeypatch.setattr(parallel, "UNIT", 200)
    monkeypatch.setattr(parallel, "MIN_SIDE", 2)
    rng, (n, n_rows, n_columns) = np.random.default_rng(1), shape
    A, B = rng.normal(size=(n, n_rows)).astype(dtype), rng.normal(size=(n, n_columns)).astype(dtype)
    close = {"atol": 3e-5 if dtype == np.float32 else 1e-13, "rtol": 0.0}
    with parallel.parallel_jobs(2):
        found = parallel.matrix_product(A.T, B)
        np.testing.assert_allclose(parallel.matrix_product(csr_array(A.T), B), found, **close)
    assert found.dtype == dtype
    np.testing.assert_allclose(found, A.T @ B, **close)


@pytest.mark.parametrize("shape", [(1700, 5), (3, 4), (0, 3), (5, 0)])
@pytest.mark.parametrize("dtype", [np.int16, np.uint8, bool, np.float32])
@pytest.mark.parametrize("weight", [None, -0.37])
def test_gram_matrices_in_blocks(shape, dtype, weight, monkeypatch):
    monkeypatch.setattr(parallel, "GRAMS", 2)
    rng = np.random.default_rng(3)
    X = rng.integers(0, 3, (shape[1], 2 * shape[0])).astype(dtype).T[::2]  # not contiguous
    weights = rng.normal(size=len(X)) if weight is None else np.full(len(X), weight)
    alone = parallel.gram_matrix((X, weights))
    with parallel.parallel_jobs(2):
        assert np.array_equal(parallel.gram_matrix((X, weights)), alone)
    X = X.astype(float)
    np.testing.assert_allclose(alone, (X.T * weights) @ X, atol=1e-10)


@pytest.mark.parametrize("largest", [200, 256, 257, 5001, 32767])
def test_gram_matrices_of_integers_are_exact(largest):
    """Sums above 2**24 are not exact in float32."""
    X = np.random.default_rng(4).integers(-largest, largest + 1, (700, 5)).astype(np.int16)
    X[:, 0] = largest - 1  # its squares add up to the largest sum, and many are odd
    found = parallel.gram_matrix((X, np.ones(len(X))), (X, np.full(len(X), -3.0)))
    X = X.astype(np.int64)
    assert np.array_equal(found, -2 * (X.T @ X))


@pytest.mark.parametrize("is_tied", [False, True])
def test_counts_of_tables_in_threads(is_tied, monkeypatch):
    """Threads count the states of different cliques, unless these share a table."""
    n_states = np.full(40, 3)
    cliques = tuple((i, i + 1) for i in range(39))
    layout = Layout.build(n_states, cliques, [list(range(39))] if is_tied else None)
    energy = FactorGraph.from_layout(layout, np.zeros(layout.n_parameters))
    rows = np.random.default_rng(2).integers(0, n_states, size=(9000, 40)).astype(np.int16)
    moments, n_blocks = energy.moments(States(rows)), []

    def run_blocks(function, blocks, n_jobs):
        n_blocks.append(len(blocks))
        return parallel.run_blocks(function, blocks, n_jobs)

    monkeypatch.setattr(table_backed, "ENTRIES_PER_UNIT", 1)
    monkeypatch.setattr(table_backed, "run_blocks", run_blocks)
    with parallel.parallel_jobs(8):
        found = energy.moments(States(rows))
    assert n_blocks == 3 * [1 if is_tied else 39]
    for k, v in moments.items():
        assert np.array_equal(found[k], v)
        assert v.sum() == pytest.approx(len(cliques))


def test_small_products_of_the_logistic_start_use_one_thread(monkeypatch):
    found, objective = [], logistic_start.LogisticSolver._objective
    rows = np.random.default_rng(0).integers(0, 2, size=(40, 3))

    def recording(self, solution):
        found.append(count_blas_threads())
        return objective(self, solution)

    monkeypatch.setattr(logistic_start.LogisticSolver, "_objective", recording)
    with threadpoolctl.threadpool_limits(2, "blas"):
        CRBMStructuredPredictor(learner="lr", random_state=0).fit(rows + 0.5, rows)
    assert set(found) == {1}


def test_errors_of_blocks_are_raised():
    with pytest.raises(ZeroDivisionError):
        list(parallel.run_blocks(lambda k: 1 / k, [(1,), (0,)], 2))
    assert list(parallel.run_blocks(abs, [(-1,), (2,)], 2)) == [1, 2]


def test_blocks_run_in_this_thread_and_others():
    """Check the order of results, one level of threads, and the end of waiting blocks."""
    both = threading.Barrier(2)

    def nested(k):
        if k < 2:
            both.wait(60)  # so that two threads run
        inner = parallel.run_blocks(lambda _: threading.get_ident(), [(0,), (1,)], 2)
        return k, set(inner) == {threading.get_ident()}, threading.get_ident()

    found = parallel.run_blocks(nested, [(k,) for k in range(9)], 2)
    numbers, is_flat, threads = zip(*found, strict=True)
    assert numbers == tuple(range(9))
    assert all(is_flat)
    assert len(set(threads)) == 2
    assert threading.get_ident() in threads
    calls = []

    def fail(k):
        calls.append(k)
        both.wait(60)
        raise ValueError(k)

    with pytest.raises(ValueError, match=r"0|1"):
        list(parallel.run_blocks(fail, [(k,) for k in range(9)], 2))
    assert sorted(calls) == [0, 1]


@pytest.mark.parametrize("kind", [BoltzmannMachine, DiscreteMRF])
def test_n_jobs_of_a_fit_is_the_number_of_threads(kind, monkeypatch, seed):
    """Check that blocks of chains run in threads with joblib's default backend of processes."""
    n_jobs, run_threads = [], parallel._run_threads

    def record(n_threads, *task):
        n_jobs.append(n_threads)
        return run_threads(n_threads, *task)

    monkeypatch.setattr(parallel, "_run_threads", record)
    given = {"learner": FEW_CHAINS, "alpha": 0.1, "max_iter": 3, "random_state": seed}
    if kind is BoltzmannMachine:
        given["states"] = (0, 1)
    alone = kind(**given).fit(X)
    assert n_jobs == []
    threads = kind(**given, n_jobs=2).fit(X)
    assert set(n_jobs) == {2}
    for name, value in alone.energy_.theta.items():
        assert np.array_equal(threads.energy_.theta[name], value)


@pytest.mark.parametrize("n_jobs", [0, 1.5, "2", True])
def test_invalid_numbers_of_jobs(n_jobs):
    X = np.random.default_rng(0).integers(2, size=(20, 3))
    with pytest.raises(ValueError, match="n_jobs must be None or an integer other than 0"):
        DiscreteMRF(n_jobs=n_jobs).fit(X)
    with pytest.raises(ValueError, match="n_jobs must be None or an integer other than 0"):
        CRF(n_jobs=n_jobs).fit([X], [X[:, 0]])
    with pytest.raises(ValueError, match="n_jobs must be None or an integer other than 0"):
        NNMRFBayesClassifier(n_jobs=n_jobs).fit(X + 0.5, X[:, 0])
