"""Imputation of missing entries: MRFImputer with default parameters against scikit-learn.

A fifth of the entries of a complete table is removed, completely at random or depending on the
first column. Each method is fitted to the incomplete rows, and imputes them. The score of a table
of categories is the fraction of removed entries that are imputed correctly. The score of a table of
numbers is the root mean squared error of removed entries in standard deviations of their column.

KNNImputer receives categories one-hot encoded, and its largest value is the imputed category. The
linear IterativeImputer receives codes, and the nearest code is imputed. The boosted trees of
IterativeImputer are a classifier for categories. Votes that are missing in the data set are never
scored.
"""

import csv
import gzip
import time
import warnings
from pathlib import Path

import numpy as np
from _common import bars, markdown, options, save, write_tables
from sklearn.datasets import load_breast_cancer, load_iris, load_wine
from sklearn.ensemble import HistGradientBoostingClassifier, HistGradientBoostingRegressor
from sklearn.experimental import enable_iterative_imputer  # noqa: F401
from sklearn.impute import IterativeImputer, KNNImputer, SimpleImputer
from sklearn.preprocessing import KBinsDiscretizer, OneHotEncoder

from skmrf import MRFImputer
from skmrf.datasets import fetch_density_benchmark

SHARE = 0.2  # of entries that are removed
METHODS = {
    "mode": "MRFImputer",
    "marginal": 'MRFImputer, "marginal"',
    "simple": "SimpleImputer",
    "knn": "KNNImputer",
    "linear": "IterativeImputer, linear",
    "trees": "IterativeImputer, trees",
}
STRATEGIES = "mode", "marginal"  # of MRFImputer
CATEGORICAL = "breast cancer", "house votes", "mushrooms", "nltcs", "kunitz"
CONTINUOUS = "iris", "wine", "glass"
N_ROWS = 500  # of the large tables
N_SITES = 12  # of the protein family
MECHANISMS = "at random", "by column 1"
COLUMNS = {"data": "data", "mechanism": "removed", **METHODS}


# Tables ------------------------------------------------------------------------------------


def read(name, folder):
    """Return the rows of a table as numbers, with nan for missing entries."""
    if name == "breast cancer":
        quartiles = KBinsDiscretizer(4, encode="ordinal", quantile_method="averaged_inverted_cdf")
        return quartiles.fit_transform(load_breast_cancer().data)
    if name == "house votes":
        with gzip.open(folder / "votes" / "house_votes_84.csv.gz", "rt") as file:
            _, *rows = csv.reader(file)
        codes = {"n": 0.0, "y": 1.0, "democrat": 0.0, "republican": 1.0}
        return np.array([[codes.get(c.strip(), np.nan) for c in row] for row in rows if row])
    if name == "mushrooms":
        with np.load(folder / "density_extra" / "mushrooms.npz") as file:
            bits = np.unpackbits(file["train_packed"], axis=1)[:, : int(file["n_vars"])]
        varied = bits[:, (bits.mean(axis=0) > 0.05) & (bits.mean(axis=0) < 0.95)]
        return varied[:, :30].astype(float)
    if name == "nltcs":
        return fetch_density_benchmark("nltcs", data_home=folder / "density20").train.astype(float)
    if name == "kunitz":
        with np.load(folder / "msa" / "kunitz_PGM.npz") as file:
            sites = file["msa"]
        varied = [
            j for j in range(sites.shape[1]) if np.bincount(sites[:, j]).max() < 0.8 * len(sites)
        ]
        return sites[:, varied[:N_SITES]].astype(float)
    if name == "glass":
        with np.load(folder / "uci" / "nnmrf_glass.npz") as file:
            return file["X"]
    return {"iris": load_iris, "wine": load_wine}[name]().data


def remove(X, mechanism, rng):
    """Return a mask of the entries to remove; they depend on the first column if asked for."""
    if mechanism == "at random":
        return rng.random(X.shape) < SHARE
    low = X[:, :1] <= np.nanmedian(X[:, 0])
    mask = rng.random(X.shape) < np.where(low, 0.5 * SHARE, 1.5 * SHARE)
    mask[:, 0] = False
    return mask


# Methods -----------------------------------------------------------------------------------


def impute_one_hot(imputer, X):
    """Impute one-hot encoded categories; return the category with the largest value."""
    missing = np.isnan(X)
    encoder = OneHotEncoder(sparse_output=False)
    blocks = encoder.fit_transform(np.where(missing, -1.0, X))
    places = np.cumsum([0, *map(len, encoder.categories_)])
    columns = []
    for j, known in enumerate(encoder.categories_):
        block = blocks[:, places[j] : places[j + 1]][:, known >= 0]
        block[missing[:, j]] = np.nan
        columns.append(block)
    filled = imputer.fit_transform(np.hstack(columns))
    out, start = X.copy(), 0
    for j, known in enumerate(encoder.categories_):
        known = known[known >= 0]
        best = known[filled[:, start : start + len(known)].argmax(axis=1)]
        out[missing[:, j], j] = best[missing[:, j]]
        start += len(known)
    return out


def nearest_categories(found, X):
    """Return imputed rows in which each value is the nearest category of its column."""
    out = X.copy()
    for j, column in enumerate(X.T):
        known = np.unique(column[~np.isnan(column)])
        nearest = np.abs(found[:, j, None] - known).argmin(axis=1)
        out[np.isnan(column), j] = known[nearest][np.isnan(column)]
    return out


def impute(method, X, is_categorical):
    """Return rows imputed by a method of scikit-learn."""
    if method == "simple":
        strategy = "most_frequent" if is_categorical else "mean"
        return SimpleImputer(strategy=strategy).fit_transform(X)
    if method == "trees":
        kind = HistGradientBoostingClassifier if is_categorical else HistGradientBoostingRegressor
        start = "most_frequent" if is_categorical else "mean"
        imputer = IterativeImputer(
            kind(max_iter=30, random_state=0), initial_strategy=start, max_iter=3, random_state=0
        )
        return imputer.fit_transform(X)
    if method == "knn" and is_categorical:
        return impute_one_hot(KNNImputer(), X)
    scale = np.nanstd(X, axis=0)
    imputer = KNNImputer() if method == "knn" else IterativeImputer(random_state=0)
    found = imputer.fit_transform(X / scale) * scale
    return nearest_categories(found, X) if is_categorical else found


def score(found, X, mask, is_categorical):
    """Return the score of imputed rows."""
    scored = mask & ~np.isnan(X)
    if is_categorical:
        return float((found == X)[scored].mean())
    error = (found - X) / np.nanstd(X, axis=0)
    return float(np.sqrt((error[scored] ** 2).mean()))


def incomplete_table(name, mechanism, args, seed):
    """Return a table of at most 500 rows, and the mask of the entries to remove."""
    rng = np.random.default_rng(seed)
    X = read(name, Path(args.data_home))
    X = X[rng.permutation(len(X))[: 100 if args.fast else N_ROWS]]
    return X, remove(X, mechanism, rng)


def judge(X, mask, is_categorical, methods=METHODS):
    """Return the score and the seconds of processor time of each method."""
    incomplete, results = np.where(mask, np.nan, X), {}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        start = time.process_time()
        types = "categorical" if is_categorical else "auto"  # kunitz has 21 letters as numbers
        imputer = MRFImputer(column_types=types, random_state=0).fit(incomplete)
        fit_seconds = time.process_time() - start
        for method in methods:
            start = time.process_time()
            if method in STRATEGIES:
                found = imputer.set_params(strategy=method).transform(incomplete)
            else:
                found = impute(method, incomplete, is_categorical)
            seconds = time.process_time() - start + fit_seconds * (method in STRATEGIES)
            results[method] = score(found, X, mask, is_categorical), seconds
    return results


def run(name, mechanism, args):
    """Return one row of scores and one row of seconds."""
    is_categorical = name in CATEGORICAL
    results = [
        judge(*incomplete_table(name, mechanism, args, seed), is_categorical)
        for seed in range(1 if args.fast else args.n_seeds)
    ]
    key = {"data": name, "mechanism": mechanism}
    return tuple(
        key | {method: float(np.mean([r[method][k] for r in results])) for method in METHODS}
        for k in (0, 1)
    )


def compile_kernels():
    """Compile all kernels, so that compilation is not part of the timed fits."""
    warm = np.array([[0.0, 1.0, np.nan], [1.0, 0.0, 1.0], [1.0, np.nan, 0.0]] * 10)
    for strategy in STRATEGIES:
        MRFImputer(strategy=strategy).fit_transform(warm)


def main(argv=None):
    parser = options(__doc__, data=True)
    parser.add_argument("--sets", nargs="*", default=[*CATEGORICAL, *CONTINUOUS])
    parser.add_argument("--n-seeds", type=int, default=3)
    args = parser.parse_args(argv)
    compile_kernels()
    scores, seconds = [], []
    for name in args.sets:
        for mechanism in MECHANISMS:
            found, times = run(name, mechanism, args)
            scores.append(found)
            seconds.append(times)
            print(found, times, flush=True)
        write(args, scores, seconds)


def write(args, scores, seconds):
    """Write the tables and figures of the finished data sets."""
    notes = [f"Means over {1 if args.fast else args.n_seeds} random masks."]
    save(args, "imputation", scores, COLUMNS, notes)
    kinds = {"imputation accuracy": CATEGORICAL, "imputation error": CONTINUOUS}
    tables = {
        title: markdown([row for row in scores if row["data"] in names], COLUMNS)
        for title, names in kinds.items()
    }
    tables["imputation seconds"] = markdown(seconds, COLUMNS)
    write_tables(args.results / "defaults.md", tables)
    bars(
        args, "imputation", [row for row in scores if row["data"] in CATEGORICAL], METHODS,
        "{data}, {mechanism}".format_map, xlabel="accuracy of imputed entries", log=False,
    )  # fmt: skip


if __name__ == "__main__":
    main()
