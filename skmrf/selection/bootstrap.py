"""The selection repeated on rows drawn with replacement."""

import numpy as np

from .._parallel import run_parts
from ..learning import warn_interrupted
from .estimates import Estimation
from .findings import z_values
from .path import Path
from .rounds import select


def repeated(rows, criteria, estimation, n_bootstraps):
    """Share of the bootstraps with each edge, and a z-value of each pair from all of them.

    A callback that asks to stop ends them, and so does Ctrl-C, with a warning; None if there are
    none before it.

    Both are square, of the columns of ``rows``. Drawing rows adds 1 to the expected square of a
    z-value, so the square returned is the mean of the squares less 1.
    """
    n = len(rows.n_states)
    shares, squares = np.zeros((n, n)), np.zeros((n, n))
    root = np.random.SeedSequence(estimation.rng.integers(0, 2**63, size=2).tolist())
    how = estimation.learner, estimation.schedule
    tasks = ((rows, criteria, *how, seed) for seed in root.spawn(n_bootstraps))
    n_done = 0
    try:
        for edges, values in run_parts(_replicate, tasks, estimation.n_jobs):
            shares[edges[:, 0], edges[:, 1]] += 1.0
            squares += values.astype(float) ** 2
            n_done += 1
            estimation.reports.begin()
            if estimation.reports.end(None):
                break
    except KeyboardInterrupt:
        warn_interrupted(n_done, n_bootstraps, "bootstraps")
        if not n_done:
            return None
    return (shares + shares.T) / n_done, np.sqrt((squares / n_done - 1.0).clip(0.0))


def _replicate(rows, criteria, learner, schedule, seed):
    rng = np.random.default_rng(seed)
    n_drawn = max(1, round(rows.count))
    drawn = rng.multinomial(n_drawn, rows.weights / rows.count)
    sample = rows.take(drawn / rows.weights * (rows.count / n_drawn))
    estimation = Estimation(learner, schedule, rng, Path(), n_jobs=1)
    selection = select(sample, criteria, estimation)
    if estimation.stopped:  # half a selection says nothing
        raise KeyboardInterrupt
    return selection.energy.form.edges, z_values(selection).astype(np.float32)
