"""Density estimation: test log-likelihood of a pairwise Markov random field on ten data sets.

Each data set is fitted with the default estimator and with two strengths of the L2 penalty. The
strength is chosen on the validation set. All columns are declared binary, because some columns are
constant in the training set. A normalised log-likelihood needs log Z, whose interval is given in
nats. The references are independent columns and the Chow-Liu tree, with pseudo-counts chosen on
the validation set.
"""

import json
import warnings
from pathlib import Path

import numpy as np
from _common import bars, in_child, options, peak_bytes, save, timed

from skmrf import DiscreteMRF
from skmrf.datasets import fetch_density_benchmark

NAMES = (
    "nltcs",
    "msnbc",
    "kdd",
    "plants",
    "baudio",
    "jester",
    "accidents",
    "dna",
    "book",
    "bbc",
)
FAST = ("nltcs", "dna", "plants", "jester")
ALPHAS = (0.0, 1e-4, 1e-3)
WIDE, WIDE_ALPHAS = 500, (0.0, 1e-3, 1e-2)  # from 500 columns there are more parameters than rows
PSEUDO_COUNTS = (0.1, 1.0, 10.0)
COLUMNS = {
    "name": "data",
    "n_features": "columns",
    "n_rows": "rows",
    "alpha": "alpha",
    "chosen": "chosen",
    "valid": "valid",
    "test": "test",
    "low": "test, low",
    "high": "test, high",
    "log_z_method": "log Z",
    "converged": "converged",
    "updates": "updates",
    "fit_seconds": "fit s",
    "log_z_seconds": "log Z s",
    "peak_mb": "peak MB",
    "independent": "indep.",
    "chow_liu": "Chow-Liu",
}


# References --------------------------------------------------------------------------------


def independent(train, test, pseudo):
    """Return the mean log-likelihood of independent columns."""
    p = (train.sum(axis=0) + pseudo) / (len(train) + 2 * pseudo)
    return float((np.log(p) @ test.T + np.log1p(-p) @ (1.0 - test.T)).mean())


def chow_liu(train, test, pseudo):
    """Return the mean log-likelihood of the Chow-Liu tree."""
    n, d = train.shape
    both = train.T.astype(float) @ train
    one = np.diag(both)
    i, j = one[:, None], one[None, :]
    counts = np.array([[n - i - j + both, j - both], [i - both, both]])
    pair = (counts + pseudo) / (n + 4 * pseudo)
    single = np.array([n - one + 2 * pseudo, one + 2 * pseudo]) / (n + 4 * pseudo)
    log_ratio = np.log(pair) - np.log(single)[:, None, :, None] - np.log(single)[None, :, None, :]
    information = (pair * log_ratio).sum(axis=(0, 1))
    total = np.log(single)[test, np.arange(d)].sum(axis=1)
    for i, j in _spanning_tree(information):
        total += log_ratio[test[:, i], test[:, j], i, j]
    return float(total.mean())


def _spanning_tree(weights):
    """Return the edges of a maximum spanning tree (Prim's algorithm)."""
    best, nearest = weights[0].copy(), np.zeros(len(weights), dtype=int)
    best[0] = -np.inf
    for _ in range(len(weights) - 1):
        j = int(np.argmax(best))
        yield int(nearest[j]), j
        best[j] = -np.inf
        closer = (weights[j] > best) & (best > -np.inf)
        best[closer], nearest[closer] = weights[j][closer], j


def reference(model, data):
    """Return the test score of ``model`` with the best pseudo-count on the validation set."""
    pseudo = max(PSEUDO_COUNTS, key=lambda p: model(data.train, data.valid, p))
    return model(data.train, data.test, pseudo)


# Fits --------------------------------------------------------------------------------------


def fit_one(name, alpha, data_home, max_iter=None):
    """Fit one model and return its row of the table."""
    data = fetch_density_benchmark(name, data_home=data_home)
    binary = [[0, 1]] * data.n_features  # some columns are constant in the training set
    model = DiscreteMRF(alpha=alpha, categories=binary, max_iter=max_iter, random_state=0)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        _, fit_seconds = timed(model.fit, data.train)
        log_z, log_z_seconds = timed(lambda: model.log_partition_)
        valid, test = model.score(data.valid), model.score(data.test)
    lower, upper = model.log_partition_interval_
    history = model.history_
    return {
        "name": name,
        "n_features": data.n_features,
        "n_rows": len(data.train),
        "alpha": alpha,
        "valid": valid,
        "test": test,
        "low": test + log_z - upper,
        "high": test + log_z - lower,
        "log_z_method": model.log_partition_method_,
        "converged": model.converged_,
        "updates": int(history["n_updates"][-1]) if "n_updates" in history else None,
        "epochs": model.n_iter_,
        "fit_seconds": fit_seconds,
        "log_z_seconds": log_z_seconds,
        "peak_mb": round(peak_bytes() / 2**20),
        "warnings": sorted({str(w.message) for w in caught}),
    }


def run_set(name, alphas, data_home, max_iter=None):
    """Fit a data set with all penalties; return rows, with a mark for the best validation."""
    data = fetch_density_benchmark(name, data_home=data_home)
    known = {"independent": reference(independent, data), "chow_liu": reference(chow_liu, data)}
    rows = []
    for alpha in alphas or (WIDE_ALPHAS if data.n_features >= WIDE else ALPHAS):
        rows.append({**in_child(fit_one, name, alpha, data_home, max_iter), **known})
        print(json.dumps(rows[-1]), flush=True)
    best = max(rows, key=lambda row: row["valid"])
    return [{**row, "chosen": "yes" if row is best else ""} for row in rows]


def main(argv=None):
    parser = options(__doc__, data=True)
    parser.add_argument("--sets", nargs="*", choices=NAMES, default=None)
    parser.add_argument("--alphas", nargs="*", type=float, default=None)
    parser.add_argument("--max-iter", type=int, default=None, help="epochs; default: converge")
    args = parser.parse_args(argv)
    rows = []
    for name in args.sets or (FAST if args.fast else NAMES):
        rows += run_set(name, args.alphas, args.data_home, args.max_iter)
        save(args, Path(__file__).stem, rows, COLUMNS)
    shown = [{**row, "gain": row["test"] - row["independent"]} for row in rows if row["chosen"]]
    for row in shown:
        row["tree_gain"] = row["chow_liu"] - row["independent"]
    keys = {"gain": "pairwise MRF", "tree_gain": "Chow-Liu tree"}
    bars(
        args, "density", shown, keys, lambda row: row["name"],
        xlabel="mean test log-likelihood above that of independent columns, nats", log=False,
    )  # fmt: skip


if __name__ == "__main__":
    main()
