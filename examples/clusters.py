"""
The same line on one machine, on Dask and on Ray
================================================

Bootstraps of a learned graph are independent fits. joblib runs them where it is told to: by
processes of this machine, by workers of a Dask cluster, or by actors of Ray. What is found does not
depend on it, to the last bit.

::

    python clusters.py          # one process, then two
    python clusters.py dask     # then a local cluster of Dask, of two workers
    python clusters.py ray      # then a local Ray of two processors

For a cluster of several machines, give its address to ``Client`` or ``ray.init``; nothing else
changes.
"""

import sys
from contextlib import contextmanager
from time import perf_counter

import numpy as np
from joblib import parallel_config

from skmrf import MRFStructureLearner, inference
from skmrf.datasets import make_ising

# %%
# What is learned
# ---------------
# A grid of 16 variables from 3,000 rows, and how often each edge is found again in rows drawn with
# replacement.

X = inference.sample(make_ising("grid", n_variables=16, coupling=0.3), 3000, random_state=0)
learner = MRFStructureLearner("exact", n_bootstraps=8, random_state=0)


def timed(where):
    """Edge frequencies, found wherever joblib's context says."""
    begun = perf_counter()
    frequency = learner.fit(X).edge_frequency_
    print(f"{where:<14}{perf_counter() - begun:6.1f} s")
    return frequency


# %%
# Where
# -----
# Every backend is a context. Ray has to be told how many actors to start, and to start them again
# if they die; Dask does both by itself.


@contextmanager
def dask():
    """Two worker processes of Dask."""
    from dask.distributed import Client, LocalCluster

    cluster = LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=None)
    with cluster, Client(cluster), parallel_config("dask"):
        yield


@contextmanager
def ray():
    """Two processors of Ray."""
    import ray
    from ray.util.joblib import register_ray

    ray.init(num_cpus=2, include_dashboard=False, object_store_memory=100 * 2**20)
    register_ray()
    restarts = {"max_restarts": 3, "max_task_retries": 3}
    try:
        with parallel_config("ray", n_jobs=2, ray_remote_args=restarts):
            yield
    finally:
        ray.shutdown()


@contextmanager
def processes():
    """Two processes of this machine."""
    with parallel_config("loky", n_jobs=2):
        yield


if __name__ == "__main__":  # workers import this file
    alone = timed("one process")
    clusters = {"dask": dask, "ray": ray}
    for name in ["two processes", *sys.argv[1:]]:
        with clusters.get(name, processes)():
            assert np.array_equal(timed(name), alone)
    print("The numbers agree, bit for bit.")
