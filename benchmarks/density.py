"""Binary density estimation: test log-likelihoods of default estimators on ten data sets.

All estimators are fitted to the training rows with default parameters. A Boltzmann machine also
chooses its number of hidden units (``n_components="auto"``). Log-likelihoods are the lower limits
of their intervals, which use the upper limit of log Z. A second estimate of log Z, with 512 chains
and paths of 10,000 temperatures, checks the interval. The references are independent columns, the
Chow-Liu tree, and mixtures of 10 and 30 Chow-Liu trees by expectation maximisation. Their
pseudo-counts and the number of trees are chosen on the validation rows, which no estimator
sees.

With ``--jobs 8``, eight fits run at the same time, each in its own process. They can share a GPU.
Set ``OMP_NUM_THREADS`` to the number of cores of the processor, divided by the number of jobs.
"""

import json
import os
import warnings
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import joblib
import numpy as np
from _common import in_child, markdown, options, save, timed, write_tables
from scipy.special import logsumexp

from skmrf import RBM, BoltzmannMachine, DiscreteMRF
from skmrf.datasets import fetch_density_benchmark
from skmrf.likelihood import ais

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
PSEUDO_COUNTS = (0.1, 1.0, 10.0)
N_TREES = (10, 30)
MIXTURE_PSEUDO_COUNT = 1.0
MAX_EM = 50
TOLERANCE = 1e-3  # nats per row, of expectation maximisation
LONGER = {"n_temperatures": 10_000, "n_chains": 512}  # the default starts with 1,000 and 128
ESTIMATORS = {
    "BoltzmannMachine": lambda _, device: BoltzmannMachine(
        n_components="auto", states=(0, 1), random_state=0, device=device
    ),
    "RBM": lambda _, device: RBM(random_state=0, device=device),
    "DiscreteMRF": lambda n, _: DiscreteMRF(categories=[[0, 1]] * n, random_state=0),
}
COLUMNS = {
    "name": "data",
    "n_features": "columns",
    "n_rows": "rows",
    "estimator": "estimator",
    "device": "device",
    "low": "test, lower limit",
    "high": "test, upper limit",
    "long_low": "test, lower limit of a longer run",
    "n_hidden": "hidden units",
    "fit_seconds": "fit, s",
    "log_z_seconds": "log Z, s",
    "independent": "independent",
    "chow_liu": "Chow-Liu",
    "mixture": "mixture of trees",
}


# References --------------------------------------------------------------------------------


def fit_tree(X, weights, pseudo):
    """Fit a Chow-Liu tree to weighted binary rows, with a pseudo-count for each pair of states.

    Returns the log-probabilities of single columns, shape (2, n_columns), the edges, shape
    (n_edges, 2), and their log-ratios ``log p(x, y) / p(x) p(y)``, shape (n_edges, 2, 2).
    """
    n = weights.sum()
    both = (X * weights[:, None]).T @ X
    one = np.diag(both)
    i, j = one[:, None], one[None, :]
    pair = (np.array([[n - i - j + both, j - both], [i - both, both]]) + pseudo) / (n + 4 * pseudo)
    single = np.log(np.array([n - one, one]) + 2 * pseudo) - np.log(n + 4 * pseudo)
    log_ratio = np.log(pair) - single[:, None, :, None] - single[None, :, None, :]
    information = (pair * log_ratio).sum(axis=(0, 1))
    edges = np.array(list(_spanning_tree(information)))
    return single, edges, log_ratio[:, :, edges[:, 0], edges[:, 1]].transpose(2, 0, 1)


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


def score_tree(tree, X):
    """Return the log-likelihood of each row under a tree."""
    single, edges, log_ratio = tree
    a, b = X[:, edges[:, 0]], X[:, edges[:, 1]]
    low = log_ratio[:, 0, 0]
    by_a, by_b = log_ratio[:, 1, 0] - low, log_ratio[:, 0, 1] - low
    by_both = log_ratio[:, 1, 1] - log_ratio[:, 1, 0] - log_ratio[:, 0, 1] + low
    pairs = a @ by_a + b @ by_b + (a * b) @ by_both
    return X @ (single[1] - single[0]) + single[0].sum() + low.sum() + pairs


def independent(data, rows):
    """Return the mean log-likelihood of independent columns."""

    def score(pseudo, rows):
        p = (data.train.sum(axis=0) + pseudo) / (len(data.train) + 2 * pseudo)
        return float((rows @ np.log(p) + (1.0 - rows) @ np.log1p(-p)).mean())

    return score(max(PSEUDO_COUNTS, key=lambda pseudo: score(pseudo, data.valid)), rows)


def chow_liu(data, rows):
    """Return the mean log-likelihood of the Chow-Liu tree."""
    X, weights = data.train.astype(float), np.ones(len(data.train))
    trees = [fit_tree(X, weights, pseudo) for pseudo in PSEUDO_COUNTS]
    best = max(trees, key=lambda tree: score_tree(tree, data.valid.astype(float)).mean())
    return float(score_tree(best, rows.astype(float)).mean())


def fit_mixture(X, n_trees, seed=0):
    """Fit a mixture of Chow-Liu trees by expectation maximisation (Meila and Jordan, 2000).

    Equal rows have the same probabilities of the components, so each is computed only once.
    """
    shares = np.random.default_rng(seed).dirichlet(np.full(n_trees, 0.1), size=len(X))
    X, inverse, counts = np.unique(X, axis=0, return_inverse=True, return_counts=True)
    weights = np.zeros((len(X), n_trees))
    np.add.at(weights, inverse.ravel(), shares)  # numpy 2.0 returns a column
    last = -np.inf
    for _ in range(MAX_EM):
        sizes = weights.sum(axis=0) + MIXTURE_PSEUDO_COUNT
        log_sizes = np.log(sizes / sizes.sum())
        trees = [fit_tree(X, w, MIXTURE_PSEUDO_COUNT) for w in weights.T]
        joint = score_mixture((log_sizes, trees), X)
        scores = logsumexp(joint, axis=1)
        weights = counts[:, None] * np.exp(joint - scores[:, None])
        score = np.average(scores, weights=counts)
        if score < last + TOLERANCE:
            break
        last = score
    return log_sizes, trees


def score_mixture(mixture, X):
    """Return the log of each component's weight times its probability of each row."""
    log_sizes, trees = mixture
    return np.column_stack([c + score_tree(t, X) for c, t in zip(log_sizes, trees, strict=True)])


def mixture_of_trees(data, rows):
    """Return the mean log-likelihood of the better one of two mixtures of Chow-Liu trees."""

    def score(mixture, rows):
        return float(logsumexp(score_mixture(mixture, rows.astype(float)), axis=1).mean())

    mixtures = [fit_mixture(data.train.astype(float), n) for n in N_TREES]
    return score(max(mixtures, key=lambda mixture: score(mixture, data.valid)), rows)


REFERENCES = {"independent": independent, "chow_liu": chow_liu, "mixture": mixture_of_trees}


# Fits --------------------------------------------------------------------------------------


def fit_model(name, estimator, data, device, models):
    """Return a fitted default estimator and the seconds of its fit, from a file if it exists."""
    path = None if models is None else models / f"{name}_{estimator}_{device}.joblib"
    if path is not None and path.exists():
        return joblib.load(path)
    model = ESTIMATORS[estimator](data.n_features, device)
    _, seconds = timed(model.fit, data.train)
    if path is not None:
        models.mkdir(parents=True, exist_ok=True)
        joblib.dump((model, seconds), path)
    return model, seconds


def fit_one(name, estimator, data_home, device="cpu", models=None):
    """Fit one default estimator and return its row of the table."""
    data = fetch_density_benchmark(name, data_home=data_home)
    warnings.simplefilter("ignore")
    device = "cpu" if estimator == "DiscreteMRF" else device
    model, fit_seconds = fit_model(name, estimator, data, device, models)
    log_z, log_z_seconds = timed(lambda: model.log_partition_)
    test = model.score(data.test)
    lower, upper = model.log_partition_interval_
    row = {
        "name": name,
        "n_features": data.n_features,
        "n_rows": len(data.train),
        "estimator": estimator,
        "device": device,
        "test": test,
        "low": test + log_z - upper,
        "high": test + log_z - lower,
        "n_hidden": model.energy_.n_variables - data.n_features,
        "fit_seconds": fit_seconds,
        "log_z_seconds": log_z_seconds,
    }
    if model.log_partition_method_ == "exact":
        return row | {"long_low": test}
    options = {"start": data.train[:128], "random_state": 1, "device": device}
    longer, seconds = timed(ais, model.energy_, **LONGER, **options)
    return row | {"long_low": test + log_z - longer.upper, "long_seconds": seconds}


def score_references(name, data_home):
    """Return the log-likelihoods of the references."""
    data = fetch_density_benchmark(name, data_home=data_home)
    return {key: model(data, data.test) for key, model in REFERENCES.items()}


def run_all(names, estimators, args):
    """Yield the row of each data set and estimator. Processes that share a GPU share its memory."""
    if args.jobs > 1:
        os.environ.setdefault("XLA_PYTHON_CLIENT_PREALLOCATE", "false")
    with ThreadPoolExecutor(args.jobs) as pool:
        parts = []
        for name in names:
            known = pool.submit(in_child, score_references, name, args.data_home)
            for estimator in estimators:
                given = name, estimator, args.data_home, args.device, args.models
                parts.append((pool.submit(in_child, fit_one, *given), known))
        for row, known in parts:
            yield row.result() | known.result()


def round_row(row):
    """Return the row with two decimals of log-likelihoods and whole seconds."""
    texts = {key: f"{row[key]:.2f}" for key in ("low", "high", "long_low", *REFERENCES)}
    return row | texts | {key: f"{row[key]:.0f}" for key in ("fit_seconds", "log_z_seconds")}


def main(argv=None):
    parser = options(__doc__, data=True)
    parser.add_argument("--sets", nargs="*", choices=NAMES, default=None)
    parser.add_argument("--estimators", nargs="*", choices=ESTIMATORS, default=list(ESTIMATORS))
    parser.add_argument("--device", default="cpu", help="cpu, gpu, cuda or jax")
    parser.add_argument("--models", type=Path, help="folder of fitted models, which are reused")
    parser.add_argument("--jobs", type=int, default=1, help="number of fits at the same time")
    args = parser.parse_args(argv)
    names = args.sets or (("nltcs",) if args.fast else NAMES)
    rows = []
    for row in run_all(names, args.estimators[-1:] if args.fast else args.estimators, args):
        rows.append(row)
        print(json.dumps(row), flush=True)
        save(args, "density", rows, COLUMNS)
        table = markdown([round_row(row) for row in rows], COLUMNS)
        write_tables(args.results / "defaults.md", {"binary density": table})


if __name__ == "__main__":
    main()
