"""Picture of README, and two comparisons: with the training of pgmpy, and with Gaussian mixtures.

``--parts nltcs``: the pairwise Markov random field of nltcs, 16 binary columns with a table for
each pair. All methods fit the same model. Its maximum likelihood is known (from L-BFGS on the exact
likelihood). MirrorDescentEstimator of pgmpy matches the marginals of all pairs on a junction tree;
its solution also maximises the likelihood. All likelihoods are exact. Each fit runs in a process of
its own, after a fit to a few rows that compiles the kernels.

``--parts missing``: density estimation from incomplete rows. A fifth of the training entries is
removed at random. ``NNMRFDensity`` is fitted to the incomplete rows. ``GaussianMixture`` does not
accept missing values: it is fitted after imputation, by column means or by ``IterativeImputer``.
Its number of components (1 to 6) and covariance type minimise the BIC of the imputed training rows.
The score is the mean log density of complete held-out rows, in nats, of columns standardised by the
training rows.

``--parts picture``: handwritten digits, completed and drawn by ``DiscreteMRF``. It writes
``doc/_static/readme.png`` and takes about a minute on one core.
"""

import itertools
import time
import warnings
from pathlib import Path

import numpy as np
from _common import bars, in_child, options, save, timed
from sklearn.datasets import load_digits, load_iris, load_wine
from sklearn.experimental import enable_iterative_imputer  # noqa: F401
from sklearn.impute import IterativeImputer, SimpleImputer
from sklearn.mixture import GaussianMixture
from sklearn.model_selection import train_test_split
from sklearn.preprocessing import StandardScaler

from skmrf import DiscreteMRF, NNMRFDensity
from skmrf.datasets import fetch_density_benchmark
from skmrf.learners import PCD

MAXIMUM = {"train": -6.0254776, "test": -6.0284086}  # exact maximum likelihood, all 16 columns
LEARNERS = ("exact", "pcd", "cd", "pseudo-likelihood")
ITERATIONS = (100, 400)
NLTCS_COLUMNS = {
    "program": "program",
    "method": "method",
    "n_columns": "columns",
    "n_rows": "rows",
    "seconds": "fit s",
    "train": "train",
    "test": "test",
    "gap": "train, below the best here",
}
SETS = {"iris": load_iris, "wine": load_wine}
IMPUTERS = {
    "column means": SimpleImputer,
    "IterativeImputer": lambda: IterativeImputer(random_state=0),
}
LINE, HIDDEN = "#c8781e", "#f2d9b8"  # colours of the picture
PICTURE = Path(__file__).parents[1] / "doc" / "_static" / "readme.png"
COVARIANCES = "full", "tied", "diag", "spherical"
MISSING = 0.2
MISSING_COLUMNS = {
    "name": "data",
    "method": "method",
    "n_splits": "splits",
    "score": "held-out log density",
    "below": "below NNMRFDensity",
    "error": "s.e.",
    "seconds": "fit s",
}


# Training time and pgmpy ------------------------------------------------------------------


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


# Missing values and GaussianMixture -------------------------------------------------------


def read(name, seed):
    """Return incomplete training rows and complete held-out rows, standardised."""
    train, test = train_test_split(SETS[name]().data, random_state=seed)
    scaler = StandardScaler().fit(train)
    removed = np.random.default_rng(seed).random(train.shape) < MISSING
    return np.where(removed, np.nan, scaler.transform(train)), scaler.transform(test)


def best_mixture(X):
    """Return the Gaussian mixture of smallest BIC."""
    fits = [
        GaussianMixture(n, covariance_type=kind, n_init=3, random_state=0).fit(X)
        for n in range(1, 7)
        for kind in COVARIANCES
    ]
    return min(fits, key=lambda model: model.bic(X))


def scores(train, test):
    """Return the held-out log density and the seconds of the fit, keyed by method."""
    start = time.perf_counter()
    model = NNMRFDensity(random_state=0).fit(train)
    found = {"NNMRFDensity": model.score(test)}
    seconds = {"NNMRFDensity": time.perf_counter() - start}
    for name, imputer in IMPUTERS.items():
        start = time.perf_counter()
        method = f"{name}, GaussianMixture"
        found[method] = best_mixture(imputer().fit_transform(train)).score(test)
        seconds[method] = time.perf_counter() - start
    return found, seconds


def compare_training(args):
    """Write the table of the pairwise model of nltcs."""
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
        save(args, "nltcs_exact", rows, NLTCS_COLUMNS, notes(n_columns, len(train)))
    label = "{program}: {method}".format_map
    bars(args, "nltcs_exact", rows, {"seconds": "seconds"}, label, xlabel="seconds of fit")


def notes(n_columns, n_rows):
    """Return the notes below the table."""
    found = ["Log-likelihoods are means in nats, exact. Wall-clock time, after compilation."]
    if (n_columns, n_rows) == (16, 16181):
        found.append(
            f"Maximum likelihood: train {MAXIMUM['train']:.4f}, test {MAXIMUM['test']:.4f}."
        )
    return found


def compare_missing(args):
    """Write the table of densities that are estimated from incomplete rows."""
    n_splits = 2 if args.fast else args.n_splits
    rows = []
    for name in SETS:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            runs = [scores(*read(name, seed)) for seed in range(n_splits)]
        for method in runs[0][0]:
            below = np.array([found["NNMRFDensity"] - found[method] for found, _ in runs])
            row = {
                "name": name,
                "method": method,
                "n_splits": n_splits,
                "score": float(np.mean([found[method] for found, _ in runs])),
                "seconds": float(np.median([seconds[method] for _, seconds in runs])),
            }
            if method != "NNMRFDensity":
                row["below"] = float(below.mean())
                row["error"] = float(below.std(ddof=1) / np.sqrt(n_splits))
            rows.append(row)
    save(args, "readme_figures", rows, MISSING_COLUMNS)


# Picture -----------------------------------------------------------------------------------


def complete_digits():
    """Return the rows of the picture: their labels, and ten images each."""
    grey, labels = load_digits(return_X_y=True)
    train, test, _, classes = train_test_split(
        (grey >= 8).astype(int), labels, test_size=300, stratify=labels, random_state=0
    )
    model = DiscreteMRF(
        "pairwise", PCD(n_chains=128), categories=[[0, 1]] * 64, alpha=0.01, random_state=0
    ).fit(train)
    digits = test[[int(np.flatnonzero(classes == digit)[0]) for digit in range(10)]]
    halves = digits.astype(float)
    halves[:, 32:] = np.nan
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Exact sampling needs too much memory")
        return {
            "held-out digit": digits,
            "given": halves,
            "predict": model.predict(halves),
            "marginals": np.column_stack([p[:, 1] for p in model.marginals(halves)]),
            "sample": model.sample(10, random_state=0),
        }


def draw_picture(_, path=PICTURE):
    """Write the picture of README to a file."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    rows, colours = complete_digits(), plt.get_cmap("Greys").with_extremes(bad=HIDDEN)
    figure, grid = plt.subplots(len(rows), 10, figsize=(7.2, 3.5), layout="constrained")
    for line, (name, pictures) in zip(grid, rows.items(), strict=True):
        line[0].set_ylabel(name, rotation=0, ha="right", va="center")
        for axes, picture in zip(line, pictures, strict=True):
            axes.imshow(np.ma.masked_invalid(picture.reshape(8, 8)), cmap=colours, vmin=0, vmax=1)
            axes.set(xticks=[], yticks=[])
            axes.spines[:].set_color("#bbbbbb")
    for axes in grid[2:4].flat:
        axes.axhline(3.5, color=LINE, linewidth=1)
    figure.savefig(path, dpi=110)
    print(f"saved {path}")


PARTS = {"nltcs": compare_training, "missing": compare_missing, "picture": draw_picture}


def main(argv=None):
    parser = options(__doc__, data=True)
    parser.add_argument("--parts", nargs="*", choices=PARTS, default=list(PARTS))
    parser.add_argument("--columns", type=int, help="columns of nltcs; default: all")
    parser.add_argument("--rows", type=int, help="training rows of nltcs; default: all")
    parser.add_argument("--n-splits", type=int, default=10, help="splits of incomplete rows")
    args = parser.parse_args(argv)
    for part in args.parts:
        PARTS[part](args)


if __name__ == "__main__":
    main()
