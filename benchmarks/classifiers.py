"""Classification of tables: NNMRFClassifier, boosted trees, logistic regression and an SVM.

All methods have default parameters and the same random stratified splits, with four fifths of the
rows for training. LogisticRegression and SVC receive standardised columns, one-hot categories, and
indicators of missing values. HistGradientBoostingClassifier receives the table as it is. The log
loss and the Brier score are means over test rows of probabilities that are predicted for all
classes. Fit times are processor seconds with one thread, after a first fit that is not timed.

Each set and split is a cell. Its results are saved in a JSON file in the folder ``--cells`` and are
not computed again.
"""

import csv
import gzip
import json
import time
import warnings
from functools import partial

import numpy as np
import pandas as pd
from _common import computed_from, markdown, options, save, write_tables
from joblib import Parallel, delayed
from scipy.stats import rankdata
from sklearn.compose import make_column_selector, make_column_transformer
from sklearn.datasets import (
    load_breast_cancer,
    load_digits,
    load_iris,
    load_wine,
    make_classification,
    make_moons,
)
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.impute import SimpleImputer
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import StratifiedShuffleSplit
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler
from sklearn.svm import SVC
from threadpoolctl import threadpool_limits

from skmrf import NNMRFClassifier
from skmrf.datasets._files import data_home_path

OURS, TREES = "NNMRFClassifier", "HistGradientBoosting"
LINEAR, VECTORS = "LogisticRegression", "SVC"
METHODS = OURS, TREES, LINEAR, VECTORS
SCORES = {"accuracy": 1, "log loss": -1, "Brier": -1}  # sign of the better direction
SHORTEST = 0.1  # seconds of a fit that are counted at least in the ratio of fit times
LONGEST_RATIO = 20  # of the fit time to that of boosted trees
N_BINS = 10  # of the reliability plot
FILES = {  # of the original UCI sets: file, label, columns left out
    "banknote": ("banknote", "class", ()),
    "ecoli": ("ecoli_protein", "class", ("seq",)),
    "electrical grid": ("electrical_grid", "stabf", ("stab", "p1")),
    "glass": ("glass", "type", ("id",)),
    "leaf": ("leaf", "species", ("specimen",)),
    "seeds": ("seeds", "class", ()),
    "sonar": ("sonar", "class", ()),
}
LOADED = {
    "breast cancer": load_breast_cancer,
    "digits": load_digits,
    "iris": load_iris,
    "wine": load_wine,
}


# Data --------------------------------------------------------------------------------------


def read_uci(name, data_home):
    """Return the columns and labels of a data set in the folder ``uci``."""
    file, label, dropped = FILES[name]
    with gzip.open(data_home_path(data_home) / "uci" / f"{file}.csv.gz", "rt") as lines:
        header, *rows = csv.reader(lines)
    table = dict(zip(header, zip(*rows, strict=True), strict=True))
    y = np.array(table.pop(label))
    return pd.DataFrame({k: np.array(v, float) for k, v in table.items() if k not in dropped}), y


def read_votes(data_home):
    """Return votes with missing entries, and parties."""
    table = pd.read_csv(data_home_path(data_home) / "votes" / "house_votes_84.csv.gz", dtype=str)
    table = table.apply(lambda column: column.str.strip()).replace({"?": None, "": None})
    y = table.pop(next(c for c in table if table[c].isin(["democrat", "republican"]).all()))
    return table.astype("category"), y.to_numpy()


def make_mixed(seed=0):
    """Return rows with continuous and categorical columns and missing values, and labels."""
    rng = np.random.default_rng(seed)
    n = 1500
    X = rng.normal(size=(n, 4))
    codes = rng.integers(0, [3, 5, 12], size=(n, 3))
    effects = [rng.normal(size=k) for k in (3, 5, 12)]
    logit = sum(effect[code] for effect, code in zip(effects, codes.T, strict=True))
    logit += 1.5 * np.where(codes[:, 0] == 1, -X[:, 0], X[:, 0]) + np.sin(2 * X[:, 1])
    y = np.where(rng.random(n) < 1 / (1 + np.exp(-logit)), "yes", "no")
    table = pd.DataFrame(X, columns=list("abcd"))
    table["a"] = np.exp(table["a"])  # heavy tail
    for j, name in enumerate(("p", "q", "r")):
        table[name] = pd.Categorical.from_codes(codes[:, j], [f"{name}{k}" for k in range(12)])
    table["p"] = table["p"].cat.remove_unused_categories()
    table["q"] = table["q"].cat.remove_unused_categories()
    return table.mask(rng.random(table.shape) < 0.1), y


def make_parity(seed=0):
    """Return six columns, and labels that are the noisy parity of the signs of the first two."""
    rng = np.random.default_rng(seed)
    X = rng.uniform(-1, 1, size=(800, 6))
    return X, (X[:, 0] * X[:, 1] > 0) ^ (rng.random(800) < 0.1)


GENERATED = {
    "generated, redundant": partial(
        make_classification, 1000, 40, n_informative=6, n_redundant=24, random_state=0
    ),
    "generated, 60 rows": partial(make_classification, 60, 10, n_informative=4, random_state=1),
    "generated, 25 classes": partial(
        make_classification, 2000, 16, n_informative=10, n_classes=25, n_clusters_per_class=1,
        class_sep=2.0, random_state=2,
    ),
    "generated, 5 % positive": partial(
        make_classification, 2000, 15, n_informative=6, weights=[0.95], flip_y=0.02, random_state=3
    ),
    "moons": partial(make_moons, 500, noise=0.3, random_state=4),
    "parity": make_parity,
    "300 columns, 6 relevant": partial(
        make_classification, 1000, 300, n_informative=6, n_redundant=0, random_state=5
    ),
    "mixed, missing": make_mixed,
}  # fmt: skip
SETS = *LOADED, *FILES, "votes", *GENERATED


def read(name, data_home):
    """Return the frame and the labels of a data set."""
    if name in FILES:
        return read_uci(name, data_home)
    if name == "votes":
        return read_votes(data_home)
    X, y = LOADED[name](return_X_y=True) if name in LOADED else GENERATED[name]()
    return X if isinstance(X, pd.DataFrame) else pd.DataFrame(X).add_prefix("x"), y


def split_rows(X, y, seed):
    """Split at random and stratified; a class with one row is only in the training set."""
    _, labels, counts = np.unique(y, return_inverse=True, return_counts=True)
    several = np.flatnonzero(counts[labels] > 1)
    splitter = StratifiedShuffleSplit(1, test_size=0.2, random_state=seed)
    test = several[next(splitter.split(several, labels[several]))[1]]
    train = np.setdiff1d(np.arange(len(y)), test)
    return X.iloc[train], y[train], X.iloc[test], y[test]


# Classifiers -------------------------------------------------------------------------------


def with_encoding(classifier):
    """Return a pipeline of the usual encoding of a table and a classifier."""
    numbers = make_pipeline(SimpleImputer(add_indicator=True), StandardScaler())
    encode = make_column_transformer(
        (numbers, make_column_selector(dtype_include="number")),
        (OneHotEncoder(handle_unknown="ignore"), make_column_selector(dtype_include="category")),
    )
    return make_pipeline(encode, classifier)


def make(method, seed):
    """Return an estimator with default parameters."""
    if method == LINEAR:
        return with_encoding(LogisticRegression(max_iter=5000))
    if method == VECTORS:  # CalibratedClassifierCV does not accept classes with few rows
        return with_encoding(SVC(probability=True, random_state=seed))
    return (
        HistGradientBoostingClassifier(random_state=seed)
        if method == TREES
        else NNMRFClassifier(random_state=seed)
    )


def score(model, X, y):
    """Return the scores of the predicted probabilities, and the bins of the reliability plot."""
    P = model.predict_proba(X)
    is_class = y[:, None] == model.classes_
    likelihood = np.maximum(P[is_class], 1e-15)
    bins = np.minimum((P * N_BINS).astype(int), N_BINS - 1).ravel()
    sums = (np.bincount(bins, v, N_BINS) for v in (np.ones(P.size), P.ravel(), is_class.ravel()))
    return {
        "accuracy": float(np.mean(model.classes_[P.argmax(axis=1)] == y)),
        "log loss": float(-np.log(likelihood).mean()),
        "Brier": float(((P - is_class) ** 2).sum(axis=1).mean()),
        "bins": [v.tolist() for v in sums],
    }


def evaluate(method, data, seed):
    """Return scores and processor seconds of a method in one split."""
    X, y, X_test, y_test = data
    model = make(method, seed)
    start = time.process_time()
    model.fit(X, y)
    seconds = time.process_time() - start
    return score(model, X_test, y_test) | {"seconds": seconds}


def run_cell(args, name, seed):
    """Compute the results of a split, except those that are already in its file."""
    path = args.cells / "classifiers" / f"{name}-{seed}.json"
    path.parent.mkdir(parents=True, exist_ok=True)
    cell = json.loads(path.read_text()) if path.exists() else {}
    cell |= {"set": name, "split": seed}
    data = split_rows(*read(name, args.data_home), seed)
    for method in METHODS:
        if method in cell and method not in args.redo:
            continue
        with warnings.catch_warnings(), threadpool_limits(1):
            warnings.simplefilter("ignore")
            cell[method] = evaluate(method, data, seed)
        path.write_text(json.dumps(cell) + "\n")


# Tables ------------------------------------------------------------------------------------


def collect(args):
    """Return the saved cells with all methods, keyed by data set."""
    cells = [json.loads(p.read_text()) for p in sorted((args.cells / "classifiers").glob("*.json"))]
    whole = [cell for cell in cells if all(m in cell for m in METHODS)]
    kept = {name: [c for c in whole if c["set"] == name] for name in args.sets}
    return {name: found for name, found in kept.items() if found}


def mean_of(cells, method, key):
    return float(np.mean([cell[method][key] for cell in cells]))


def score_row(name, cells, key, digits):
    """Return a data set's row of the table of a score: means, standard errors and mean ranks."""
    row = {"set": name, "splits": len(cells)}
    values = np.array([[cell[m][key] for m in METHODS] for cell in cells])
    ranks = np.mean([rankdata(-SCORES[key] * np.round(v, 12)) for v in values], axis=0)
    errors = (
        values.std(axis=0, ddof=1) / np.sqrt(len(cells))
        if len(cells) > 1
        else [np.nan] * len(METHODS)
    )
    for method, value, error, rank in zip(METHODS, values.mean(axis=0), errors, ranks, strict=True):
        row[method], row[f"{method} rank"] = float(value), float(rank)
        row[f"{method} text"] = f"{value:.{digits}f} ± {error:.{digits}f} ({rank:.2f})"
    return row


def score_rows(cells, key):
    """Return the rows of the table of a score, with mean ranks over sets in the last row."""
    rows = [score_row(name, found, key, 3) for name, found in cells.items()]
    last = {"set": f"mean rank, {len(rows)} sets"}
    for method in METHODS:
        rank = float(np.mean([row[f"{method} rank"] for row in rows]))
        last |= {f"{method} rank": rank, f"{method} text": f"{rank:.2f}"}
    return [*rows, last], {"set": "set", "splits": "splits"} | {f"{m} text": m for m in METHODS}


def time_rows(cells):
    """Return the rows of fit times, and the largest ratio in the last row."""
    rows = []
    for name, found in cells.items():
        row = {"set": name} | {m: mean_of(found, m, "seconds") for m in METHODS}
        row["ratio"] = row[OURS] / max(row[TREES], SHORTEST)
        rows.append(row)
    last = {"set": "largest ratio", "ratio": max(row["ratio"] for row in rows)}
    columns = {"set": "set", **{m: f"{m}, s" for m in METHODS}, "ratio": "ratio"}
    return [*rows, last], columns


def draw_reliability(args, cells):
    """Draw the observed frequency of a class against its predicted probability, over all sets."""
    try:
        from matplotlib.figure import Figure
    except ImportError:
        print("matplotlib is not installed: no PNG", flush=True)
        return
    figure = Figure(figsize=(5, 5), layout="constrained")
    axes = figure.subplots()
    axes.plot([0, 1], [0, 1], color="0.7", label="calibrated")
    for method in METHODS:
        bins = np.sum([c[method]["bins"] for found in cells.values() for c in found], axis=0)
        counts, predicted, observed = bins[:, bins[0] > 0]
        axes.plot(predicted / counts, observed / counts, "o-", label=method)
    axes.set(xlabel="predicted probability of a class", ylabel="observed frequency")
    axes.legend()
    figure.savefig(args.results / "classifiers_reliability.png", dpi=120)


NOTE = (
    "Values are means ± standard errors over random splits, and in brackets the mean rank of the "
    "method among the four. Equal values share their mean rank."
)
TIME_NOTE = (
    "Processor seconds of a fit with one thread. The ratio is the time of NNMRFClassifier divided "
    f"by that of HistGradientBoosting, which counts at least {SHORTEST:g} s."
)


def write(args, cells):
    """Write the tables and the figures."""
    tables = {}
    done = computed_from(len(METHODS) * sum(map(len, cells.values())))
    for key in SCORES:
        rows, columns = score_rows(cells, key)
        save(args, f"classifiers_{key.replace(' ', '_')}", rows, columns, [NOTE, done])
        tables[f"classifiers {key}"] = "\n\n".join([markdown(rows, columns), NOTE, done])
    rows, columns = time_rows(cells)
    save(args, "classifiers_seconds", rows, columns, [TIME_NOTE, done])
    tables["classifiers seconds"] = "\n\n".join([markdown(rows, columns), TIME_NOTE, done])
    write_tables(args.results / "labels.md", tables)
    draw_reliability(args, cells)


def main(argv=None):
    parser = options(__doc__, data=True, cells=True)
    parser.add_argument("--sets", nargs="*", choices=SETS, default=list(SETS))
    parser.add_argument("--splits", type=int, default=None, help="default 10, with --fast 2")
    parser.add_argument(
        "--redo", nargs="*", choices=METHODS, default=[], help="methods to compute again"
    )
    parser.add_argument("--jobs", type=int, default=1, help="number of parallel cells")
    args = parser.parse_args(argv)
    splits = range(args.splits or (2 if args.fast else 10))
    Parallel(args.jobs)(
        delayed(run_cell)(args, name, seed) for name in args.sets for seed in splits
    )
    write(args, collect(args))


if __name__ == "__main__":
    main()
