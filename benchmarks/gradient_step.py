"""One gradient step of persistent contrastive divergence: skmrf and vectorised numpy.

A step is one Gibbs sweep of 512 chains, the difference between the sufficient statistics of data
and chains, and an update of all parameters by Adam. Both implementations compute the statistics of
the data once before. The step of skmrf is a step of ``DiscreteMRF.fit``, including the other work
of the training loop: the gradient test of the adaptive rate, averaging and diagnostics. The share
is the fraction of its time in compiled kernels, without matrix products.
"""

import time
import warnings
from contextlib import contextmanager

import numpy as np
from _common import bars, calls_in, interleaved, options, save
from gibbs import N_CHAINS, numpy_binary, numpy_tables, random_pairs
from threadpoolctl import threadpool_limits

from skmrf._utils.rows import Batch
from skmrf.energies import FactorGraph, table_backed
from skmrf.energies.conditionals import BinaryConditionals
from skmrf.learners import PCD
from skmrf.samplers import Product, layers
from skmrf.samplers import gibbs as sampler
from skmrf.training import loop
from skmrf.training.settings import Settings

BATCH = 256
STEPS_PER_CALL = 8
COMPILED = (
    (sampler, "sweep_tables"),
    (layers, "sweep_coupled"),
    (table_backed, "add_moments"),
    (table_backed, "binary_form"),
    (FactorGraph, "_add_gram"),
)
COLUMNS = {
    "model": "model",
    "n_parameters": "parameters",
    "milliseconds": "step, ms",
    "numpy_milliseconds": "numpy step, ms",
    "ratio": "numpy / skmrf",
    "per_update": "skmrf, ns a variable update",
    "per_parameter": "skmrf, ns a parameter",
    "share": "share in compiled kernels",
}


def models(fast):
    """Yield names and models; training starts from their parameters."""
    rng = np.random.default_rng(0)
    yield "complete, 16 binary", random_pairs(16, 2, None, rng, 0.1)
    yield "complete, 64 binary", random_pairs(64, 2, None, rng, 0.05)
    yield "53 of 21 states, 106 pairs", random_pairs(53, 21, 106, rng)
    if not fast:
        yield "complete, 200 binary", random_pairs(200, 2, None, rng, 0.02)
        yield "500 binary, 2000 pairs", random_pairs(500, 2, 2000, rng, 0.1)
        yield "complete, 500 binary", random_pairs(500, 2, None, rng, 0.01)
        yield "complete, 53 of 21 states", random_pairs(53, 21, None, rng, 0.05)


def skmrf_steps(graph, X):
    """Return a function that makes STEPS_PER_CALL steps from the current state."""
    data = Batch(X)
    learner = PCD(n_chains=N_CHAINS, n_sweeps=1)
    settings = Settings(batch_size=BATCH, max_iter=1)
    state = loop.start(graph, learner, data, settings, np.random.default_rng(0))

    def run():
        nonlocal state
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # a few steps do not converge
            state = loop.run(learner, data, settings, state)

    return run


class NumpyAdam:
    """Adam on the flat parameters."""

    def __init__(self, n):
        self.mean, self.square, self.t = np.zeros(n), np.zeros(n), 0

    def step(self, flat, gradient, rate=0.03):
        self.t += 1
        self.mean += 0.1 * (gradient - self.mean)
        self.square += 0.001 * (gradient**2 - self.square)
        scale = np.sqrt(self.square / (1.0 - 0.999**self.t)) + 1e-8
        return flat + rate / (1.0 - 0.9**self.t) * self.mean / scale


def numpy_steps(graph, X):
    """Return a function that makes STEPS_PER_CALL steps with numpy from the current state."""
    make = numpy_binary if isinstance(graph.conditionals(), BinaryConditionals) else numpy_tables
    moments = _gram_moments if make is numpy_binary else _table_moments
    layout, adam = graph.layout, NumpyAdam(len(graph.flat))
    positive = moments(layout, X)
    flat, chains, rng = graph.flat, X[:N_CHAINS], np.random.default_rng(0)

    def run():
        nonlocal flat, chains
        for _ in range(STEPS_PER_CALL):
            chains = make(FactorGraph.from_layout(layout, flat), chains, rng)(1)
            flat = adam.step(flat, positive - moments(layout, chains))

    return run


def _gram_moments(layout, X):
    """Return clique marginals of binary variables and pairs, variables first."""
    n = len(layout.n_states)
    i, j = layout.clique_vars[n:].reshape(-1, 2).T
    gram = X.T.astype(float) @ X / len(X)
    one = np.diagonal(gram)
    both, one_i, one_j = gram[i, j], one[i], one[j]
    pairs = np.stack([1.0 - one_i - one_j + both, one_j - both, one_i - both, both], axis=1)
    return np.concatenate([np.stack([1.0 - one, one], axis=1).ravel(), pairs.ravel()])


def _table_moments(layout, X):
    """Return clique marginals by counting table entries."""
    entries = np.repeat(layout.table_start[None], len(X), axis=0)
    owner = np.repeat(np.arange(layout.n_cliques), layout.orders)
    steps = X[:, layout.clique_vars].astype(np.int64) * layout.strides
    entries += np.add.reduceat(steps, np.searchsorted(owner, np.arange(layout.n_cliques)), axis=1)
    return np.bincount(entries.ravel(), minlength=layout.n_parameters) / len(X)


@contextmanager
def clock(places):
    """Measure the seconds that the functions at ``places`` take, in a list of one float."""
    total, depth = [0.0], [0]

    def add_clock(function):
        def call(*args, **kwargs):
            depth[0] += 1
            start = time.process_time()
            try:
                return function(*args, **kwargs)
            finally:
                depth[0] -= 1
                total[0] += (time.process_time() - start) * (depth[0] == 0)

        return call

    originals = [getattr(owner, name) for owner, name in places]
    try:
        for (owner, name), original in zip(places, originals, strict=True):
            setattr(owner, name, add_clock(original))
        yield total
    finally:
        for (owner, name), original in zip(places, originals, strict=True):
            setattr(owner, name, original)


def measure(name, graph, fast):
    """Return one row of the table."""
    X = Product.uniform(graph.n_states).sample(STEPS_PER_CALL * BATCH, np.random.default_rng(1))
    runs = {"skmrf": skmrf_steps(graph, X), "numpy": numpy_steps(graph, X)}
    seconds = 0.05 if fast else 0.3
    calls = {k: calls_in(run, seconds) for k, run in runs.items()}
    batches = {k: lambda k=k: [runs[k]() for _ in range(calls[k])] for k in runs}
    medians = interleaved(batches, 3 if fast else 7)
    step = {k: s / (calls[k] * STEPS_PER_CALL) for k, s in medians.items()}
    with clock(COMPILED) as inside:
        start = time.process_time()
        batches["skmrf"]()
        share = inside[0] / (time.process_time() - start)
    return {
        "model": name,
        "n_parameters": len(graph.flat),
        "milliseconds": 1e3 * step["skmrf"],
        "numpy_milliseconds": 1e3 * step["numpy"],
        "ratio": step["numpy"] / step["skmrf"],
        "per_update": 1e9 * step["skmrf"] / (N_CHAINS * graph.n_variables),
        "per_parameter": 1e9 * step["skmrf"] / len(graph.flat),
        "share": share,
    }


def main(argv=None):
    args = options(__doc__).parse_args(argv)
    rows = []
    for name, graph in models(args.fast):
        with threadpool_limits(1):
            rows.append(measure(name, graph, args.fast))
        save(args, "gradient_step", rows, COLUMNS, NOTES)
    keys = {"milliseconds": "skmrf", "numpy_milliseconds": "numpy"}
    xlabel = "milliseconds a gradient step"
    bars(args, "gradient_step", rows, keys, lambda row: row["model"], xlabel=xlabel)


NOTES = (f"Processor time, one thread, {N_CHAINS} chains; medians of interleaved runs.",)

if __name__ == "__main__":
    main()
