"""The pairwise Markov random field of nltcs: learners of skmrf and the estimator of pgmpy.

All methods fit the same model: 16 binary columns with a table for each pair. Its maximum likelihood
is known (from L-BFGS on the exact likelihood). MirrorDescentEstimator of pgmpy matches the
marginals of all pairs on a junction tree; its solution also maximises the likelihood. All
likelihoods are exact. Each fit runs in a process of its own, after a fit to a few rows that
compiles the kernels.
"""

import itertools
import time
import warnings

import numpy as np
from _common import bars, in_child, options, save, timed

from skmrf import DiscreteMRF
from skmrf.datasets import fetch_density_benchmark

MAXIMUM = {"train": -6.0254776, "test": -6.0284086}  # exact maximum likelihood, all 16 columns
LEARNERS = ("exact", "pcd", "cd", "pseudo-likelihood")
ITERATIONS = (100, 400)
COLUMNS = {
    "program": "program",
    "method": "method",
    "n_columns": "columns",
    "n_rows": "rows",
    "seconds": "fit s",
    "train": "train",
    "test": "test",
    "gap": "train, below the best here",
}


def load(n_columns, n_rows, data_home):
    """Return the first rows and columns of the training set, and of the test set."""
    data = fetch_density_benchmark("nltcs", data_home=data_home)
    return data.train[:n_rows, :n_columns].astype(int), data.test[:, :n_columns].astype(int)


def fit_skmrf(learner, train, test):
    """Fit with skmrf and return one row of the table."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        DiscreteMRF(learner=learner, max_iter=2, random_state=0).fit(train[:512]).score(test)
        model = DiscreteMRF(learner=learner, random_state=0)
        _, seconds = timed(model.fit, train)
    return {
        "program": "skmrf",
        "method": learner,
        "seconds": seconds,
        "train": model.score(train),
        "test": model.score(test),
    }


def fit_pgmpy(n_iterations, train, test):
    """Fit with pgmpy and return one row of the table, or None without pgmpy."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            import pandas as pd
            from pgmpy.estimators import MirrorDescentEstimator
            from pgmpy.factors.discrete import DiscreteFactor
            from pgmpy.models import DiscreteMarkovNetwork
    except ImportError:
        return None
    names = [f"v{i}" for i in range(train.shape[1])]
    pairs = list(itertools.combinations(names, 2))
    start = time.perf_counter()
    network = DiscreteMarkovNetwork(pairs)
    network.add_factors(*[DiscreteFactor(pair, [2, 2], np.zeros(4)) for pair in pairs])
    estimator = MirrorDescentEstimator(network, pd.DataFrame(train, columns=names))
    tree = estimator.estimate(pairs, iterations=n_iterations, show_progress=False)
    seconds = time.perf_counter() - start
    (belief,) = tree.clique_beliefs.values()  # all pairs make one clique
    log_p = np.log(belief.values / belief.values.sum())
    order = [names.index(name) for name in belief.variables]
    return {
        "program": "pgmpy",
        "method": f"mirror descent, {n_iterations} iterations",
        "seconds": seconds,
        "train": float(log_p[tuple(train[:, order].T)].mean()),
        "test": float(log_p[tuple(test[:, order].T)].mean()),
    }


def main(argv=None):
    parser = options(__doc__, data=True)
    parser.add_argument("--columns", type=int, default=None)
    parser.add_argument("--rows", type=int, default=None)
    args = parser.parse_args(argv)
    n_columns = args.columns or (8 if args.fast else 16)
    train, test = load(n_columns, args.rows, args.data_home)
    jobs = [(fit_skmrf, learner) for learner in LEARNERS]
    jobs += [(fit_pgmpy, n) for n in (ITERATIONS[:1] if args.fast else ITERATIONS)]
    rows = []
    for function, how in jobs:
        row = in_child(function, how, train, test)
        if row is not None:
            rows.append({**row, "n_columns": n_columns, "n_rows": len(train)})
        best = max(row["train"] for row in rows)
        for row in rows:
            row["gap"] = best - row["train"]
        save(args, "nltcs_exact", rows, COLUMNS, notes(n_columns, len(train)))
    keys = {"seconds": "seconds"}
    label = "{program}: {method}".format_map
    bars(args, "nltcs_exact", rows, keys, label, xlabel="seconds of fit")


def notes(n_columns, n_rows):
    """Return the notes below the table."""
    found = ["Log-likelihoods are means in nats, exact. Wall-clock time, after compilation."]
    if (n_columns, n_rows) == (16, 16181):
        found.append(
            f"Maximum likelihood: train {MAXIMUM['train']:.4f}, test {MAXIMUM['test']:.4f}."
        )
    return found


if __name__ == "__main__":
    main()
