"""
Parallel and distributed bootstraps with joblib, Dask and Ray
=============================================================

Bootstrap fits of :class:`~skmrf.MRFStructureLearner` are independent of each other. joblib runs
them in processes of one machine, on a Dask cluster or on Ray. The results are identical for every
backend, to the last bit.

::

    python plot_clusters.py          # one process, then two processes
    python plot_clusters.py dask     # also a local Dask cluster with two workers
    python plot_clusters.py ray      # also a local Ray instance with two workers

For a cluster of several machines, pass its address to ``Client`` or ``ray.init``. The rest of the
code stays the same.
"""

import sys
from contextlib import contextmanager, nullcontext
from time import perf_counter

import matplotlib.pyplot as plt
import networkx as nx
import numpy as np
from joblib import parallel_config

from skmrf import MRFStructureLearner, inference
from skmrf.datasets import make_ising

# %%
# Data and estimator
# ------------------
# The data are 1,000 samples of an Ising model on a 3 x 3 grid. ``n_bootstraps=16`` fits the graph
# on 16 bootstrap samples and stores in ``edge_frequency_`` how often each edge is found.

energy = make_ising("grid", n_variables=9, coupling=0.3)
X = inference.sample(energy, 1000, random_state=0)
learner = MRFStructureLearner("exact", n_bootstraps=16, random_state=0)

# %%
# Backends
# --------
# Each backend is a context manager. Ray needs the number of processes in ``n_jobs``, and options
# that restart failed workers. Dask restarts failed workers by itself.


@contextmanager
def dask():
    """Run joblib on a local Dask cluster with two workers."""
    from dask.distributed import Client, LocalCluster

    cluster = LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=None)
    with cluster, Client(cluster), parallel_config("dask"):
        yield


@contextmanager
def ray():
    """Run joblib on a local Ray instance with two workers."""
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


backends = {
    "one process": nullcontext,
    "two processes": lambda: parallel_config("loky", n_jobs=2),
    "dask": dask,
    "ray": ray,
}

# %%
# Results
# -------
# The script fits the same estimator with every selected backend and compares the results. The
# times depend on the machine.

names = ["one process", "two processes", *(name for name in sys.argv[1:] if name in backends)]
frequencies = {}
if __name__ == "__main__":  # worker processes import this file
    for name in names:
        with backends[name]():
            start = perf_counter()
            frequencies[name] = learner.fit(X).edge_frequency_
            print(f"{name:<14}{perf_counter() - start:6.1f} s")
        assert np.array_equal(frequencies[name], frequencies["one process"])
    print("All results are identical.")

# %%
# The figure shows the edges that were found in more than 20 % of the bootstrap samples. Wide and
# dark edges were found in many bootstrap samples. Solid edges are in the true graph, and dashed
# edges are not.

if __name__ == "__main__":
    frequency = frequencies["one process"]
    positions = {i: (i % 3, -(i // 3)) for i in range(9)}
    truth = set(zip(*np.nonzero(np.triu(energy.coupling)), strict=True))
    figure, axes = plt.subplots(figsize=(5, 4), layout="constrained")
    for i, j in zip(*np.nonzero(np.triu(frequency) > 0.2), strict=True):
        share = frequency[i, j]
        nx.draw_networkx_edges(
            nx.Graph([(i, j)]),
            positions,
            ax=axes,
            width=6 * share,
            edge_color=[plt.get_cmap("Blues")(0.2 + 0.7 * share)],
            style="solid" if (i, j) in truth else "dashed",
        )
    nodes = nx.empty_graph(9)
    nx.draw_networkx_nodes(nodes, positions, ax=axes, node_size=700, node_color="0.92")
    nx.draw_networkx_labels(nodes, positions, ax=axes, font_size=14)
    axes.set_title("edges by bootstrap frequency")
    axes.axis("off")

    path = "clusters.png"
    figure.savefig(path, dpi=120)
    print(f"saved {path}")
    plt.show()
