"""NNMRFDensity on tables: log-likelihood, synthetic rows, intervals and anomaly detection.

Numbers: 80% of the rows of a table are training rows and 20% are test rows. `NNMRFDensity` is
compared with a Gaussian mixture whose number of full covariances (at most 10) minimises the BIC,
and with independent columns (permuted rows). The likelihood of the Gaussian mixture is unbounded
for rounded columns, so its rows have uniform noise of one unit of rounding: its log-likelihood is
that of the number before rounding, as for `NNMRFDensity`. The column "mixture, raw" is without this
noise. Synthetic rows are compared with all rows by the area under the ROC curve (AUC) of boosted
trees, 0.5 is best. "AUC minus best" is the AUC of `NNMRFDensity` minus the smaller mean AUC of
mixture and independent columns, and "s.e." is its standard error over splits. Coverage is the share
of single test entries inside their 90% interval given the other entries of the row.

Mixed: tables with numbers, counts, truth values and categories. The Gaussian mixture has one-hot
columns, and its draws are rounded like the columns. "Outside" is the share of synthetic rows with a
negative number in a column without negative numbers. "Share" is the largest difference of the share
of a category between synthetic and real rows.

Anomalies: the area under the ROC curve of the log-densities for rows of other classes than the
training rows, compared with IsolationForest and with the Gaussian mixture.
"""

import csv
import gzip
import time
import warnings
from pathlib import Path

import numpy as np
import pandas as pd
from _common import markdown, options, save, write_tables
from sklearn import datasets
from sklearn.ensemble import IsolationForest
from sklearn.metrics import roc_auc_score
from sklearn.mixture import GaussianMixture
from threadpoolctl import threadpool_limits

from skmrf import NNMRFDensity
from skmrf._data.column_types import DISCRETE_TYPES
from skmrf.metrics import classifier_two_sample_test

MAX_ROWS, MAX_COMPONENTS, MAX_COVERED = 5000, 10, 8
BUNDLED = {
    "iris": datasets.load_iris,
    "wine": datasets.load_wine,
    "breast cancer": datasets.load_breast_cancer,
    "diabetes": datasets.load_diabetes,
}
FILES = {  # first and last column of the numbers
    "banknote": (0, 4),
    "glass": (1, 10),
    "leaf": (2, 16),
    "ecoli_protein": (1, 8),
    "seeds": (0, 7),
    "sonar": (0, 60),
    "electrical_grid": (0, 12),
}
COLUMNS = {
    "table": "table",
    "n_rows": "rows",
    "n_columns": "columns",
    "log_likelihood": "log-likelihood",
    "mixture": "mixture",
    "mixture_raw": "mixture, raw",
    "auc": "AUC",
    "auc_mixture": "AUC mixture",
    "auc_independent": "AUC independent",
    "auc_difference": "AUC minus best",
    "auc_error": "s.e.",
    "coverage": "coverage",
    "seconds": "fit s",
    "seconds_mixture": "mixture s",
}
MIXED_COLUMNS = {
    "table": "table",
    "n_rows": "rows",
    "n_numbers": "numbers",
    "n_categories": "columns with categories",
    "auc": "AUC",
    "auc_mixture": "AUC mixture",
    "auc_independent": "AUC independent",
    "auc_difference": "AUC minus best",
    "auc_error": "s.e.",
    "outside": "outside",
    "outside_mixture": "outside, mixture",
    "share": "share",
    "share_mixture": "share, mixture",
    "seconds": "fit s",
    "seconds_mixture": "mixture s",
}
ANOMALIES = {  # the classes of the training rows
    "breast cancer": ["benign"],
    "wine": ["class_0", "class_1"],
    "banknote": ["0"],
    "ecoli_protein": ["cp", "im"],
    "glass": ["1", "2", "3"],
    "seeds": ["Kama", "Rosa"],
    "sonar": ["R"],
}
LABELS = {"banknote": 4, "ecoli_protein": 8, "glass": 10, "seeds": 7, "sonar": 60}
ANOMALY_COLUMNS = {
    "table": "table",
    "n_train": "training rows",
    "n_test": "test rows",
    "auc": "NNMRFDensity",
    "auc_forest": "IsolationForest",
    "auc_mixture": "mixture",
    "seconds": "fit s",
    "seconds_forest": "IsolationForest s",
    "seconds_mixture": "mixture s",
}
PARTS = "numbers", "mixed", "anomalies"


# Tables of numbers -------------------------------------------------------------------------


def load_tables(data_home):
    """Return the tables by name: those of scikit-learn, and those of ``data_home/uci``."""
    tables = {name: load().data for name, load in BUNDLED.items()}
    for name, (first, last) in FILES.items():
        if find_file(data_home, name).exists():
            rows = read_rows(data_home, name)
            tables[name] = np.array([[float(v) for v in row[first:last]] for row in rows])
    return tables


def find_file(data_home, name):
    """Return the path of the file of a table."""
    return Path(data_home or ".") / "uci" / f"{name}.csv.gz"


def read_rows(data_home, name):
    """Return the rows of a file, as lists of str."""
    with gzip.open(find_file(data_home, name), "rt") as file:
        return list(csv.reader(file))[1:]


def add_rounding_noise(X, units, rng):
    """Return the rows with uniform noise of one unit of rounding."""
    return X + units * rng.uniform(-0.5, 0.5, X.shape)


def fit_mixture(X, seed):
    """Return the log-densities of rows and the sampler of the mixture with the best BIC."""
    mean, scale = X.mean(axis=0), X.std(axis=0) + 1e-12
    fits = [
        GaussianMixture(k, random_state=seed).fit((X - mean) / scale)
        for k in range(1, min(MAX_COMPONENTS, len(X) // 10) + 1)
    ]
    best = min(fits, key=lambda fit: fit.bic((X - mean) / scale))

    def score(rows):
        return best.score_samples((rows - mean) / scale) - np.log(scale).sum()

    return score, lambda n: best.sample(n)[0] * scale + mean


def coverage(model, X):
    """Return the share of single entries inside their 90% interval given the other entries."""
    numeric = [j for j, kind in enumerate(model.column_types_) if kind not in DISCRETE_TYPES]
    inside = []
    for j in numeric[:MAX_COVERED]:
        rows = X.copy()
        rows[:, j] = np.nan
        low, _, high = model.marginals(rows)[j].T
        inside.append((low <= X[:, j]) & (X[:, j] <= high))
    return float(np.mean(inside)) if inside else np.nan


def judge(name, X, seed):
    """Return the row of a table for one split."""
    rng = np.random.default_rng(seed)
    X = X[rng.permutation(len(X))[:MAX_ROWS]]
    n_train = int(0.8 * len(X))
    train, test = X[:n_train], X[n_train:]
    start = time.process_time()
    model = NNMRFDensity(random_state=seed).fit(train)
    seconds = time.process_time() - start
    units = np.zeros(X.shape[1])
    for j, transform in model._columns.transforms.items():
        is_rounded = transform.step > 0 or len(transform.spikes) > 0
        units[j] = transform.unit if is_rounded else 0.0
    noisy, noisy_test = (add_rounding_noise(part, units, rng) for part in (train, test))
    start = time.process_time()
    score, sample = fit_mixture(noisy, seed)
    seconds_mixture = time.process_time() - start
    independent = np.stack([rng.permutation(column) for column in X.T], axis=1)
    synthetic = model.sample(n_train, random_state=seed)
    drawn = {"auc": synthetic, "auc_mixture": sample(n_train), "auc_independent": independent}
    return {
        "table": name,
        "n_rows": len(X),
        "n_columns": X.shape[1],
        "log_likelihood": model.score(test),
        "mixture": float(score(noisy_test).mean()),
        "mixture_raw": float(fit_mixture(train, seed)[0](test).mean()),
        **{k: classifier_two_sample_test(X, Y, random_state=seed).auc for k, Y in drawn.items()},
        "coverage": coverage(model, test),
        "seconds": seconds,
        "seconds_mixture": seconds_mixture,
    }


def average(found):
    """Return the means over splits, and the AUC minus that of the best other method."""
    numbers = {k: float(np.mean([r[k] for r in found])) for k in found[0] if k != "table"}
    numbers |= {k: round(v) for k, v in numbers.items() if k.startswith("n_")}
    if "auc_independent" not in numbers:
        return numbers
    best = min("auc_mixture", "auc_independent", key=numbers.get)
    differences = [r["auc"] - r[best] for r in found]
    numbers["auc_difference"] = float(np.mean(differences))
    numbers["auc_error"] = None  # unknown for one split
    if len(found) > 1:
        numbers["auc_error"] = float(np.std(differences, ddof=1) / np.sqrt(len(found)))
    return numbers


def summary(rows):
    """Return the lines below the table: on how many tables each aim is met."""
    n = len(rows)
    wins = sum(r["log_likelihood"] >= r["mixture"] for r in rows)
    raw = sum(r["log_likelihood"] >= r["mixture_raw"] for r in rows)
    near = sum(r["auc"] < 0.6 for r in rows)
    best = sum(r["auc_difference"] <= 0 for r in rows)
    errors = ""
    if None not in [r["auc_error"] for r in rows]:
        worse = sum(r["auc_difference"] > 2 * r["auc_error"] for r in rows)
        errors = f" The difference is more than two standard errors above zero on {worse} of {n}."
    return (
        f"The log-likelihood is at or above that of the mixture on {wins} of {n} tables, and on "
        f"{raw} of {n} without noise. The AUC is below 0.6 on {near} of {n}, and not above the "
        f"smaller AUC of mixture and independent columns on {best} of {n}."
        f"{errors}",
        "Log-likelihoods are nats per test row. Values are means over splits, processor seconds.",
    )


# Mixed tables ------------------------------------------------------------------------------


def load_mixed(data_home):
    """Return frames with columns of several types, by name."""
    cancer = datasets.load_breast_cancer(as_frame=True).frame
    names = "radius", "texture", "smoothness", "concavity", "symmetry", "fractal dimension"
    numbers = cancer[[f"mean {name}" for name in names]]
    size = pd.cut(cancer["worst area"], 3, labels=["small", "middle", "large"])
    diagnosis = cancer["target"].map({0: "malignant", 1: "benign"}).astype("category")
    points = np.rint(100 * cancer["worst concave points"]).astype(int)
    diabetes = datasets.load_diabetes(as_frame=True, scaled=False).frame
    wine = datasets.load_wine(as_frame=True).frame
    tables = {
        "breast cancer, categories": numbers.assign(diagnosis=diagnosis, size=size),
        "breast cancer, count": numbers.assign(
            benign=cancer["target"] == 1, size=size, points=points
        ),
        "diabetes": diabetes.assign(sex=diabetes["sex"].astype(str).astype("category")),
        "wine": wine.assign(target=wine["target"].astype(str).astype("category")),
    }
    for name in ("glass", "ecoli_protein"):
        if not find_file(data_home, name).exists():
            continue
        (first, last), label = FILES[name], LABELS[name]
        rows = read_rows(data_home, name)
        frame = pd.DataFrame([[float(v) for v in row[first:last]] for row in rows])
        frame = frame.add_prefix("x").assign(label=pd.Categorical([row[label] for row in rows]))
        if name == "ecoli_protein":  # x2 and x3 have two values each
            frame = frame.astype({"x2": str, "x3": str}).astype(
                {"x2": "category", "x3": "category"}
            )
        tables[name] = frame
    return tables


def is_category(frame):
    """Return whether each column has categories or truth values."""
    return np.array([dtype.kind in "Ob" for dtype in frame.dtypes])


def one_hot(frame):
    """Return the columns as numbers, with an indicator of each category."""
    parts = frame.astype(dict.fromkeys(frame.columns[is_category(frame)], str))
    return pd.get_dummies(parts, dtype=float)


def count_decimals(x):
    """Return the number of decimals of a column, at most 6."""
    return next(d for d in range(7) if d == 6 or np.allclose(np.round(x, d), x, rtol=1e-9))


def to_frame(Z, coded, frame):
    """Return a frame like ``frame`` of rows in one-hot columns, which are like ``coded``."""
    Z = pd.DataFrame(Z, columns=coded.columns)
    columns = {}
    for name, has_categories in zip(frame.columns, is_category(frame), strict=True):
        if has_categories:
            known = frame[name].unique()
            best = Z[[f"{name}_{value}" for value in known]].to_numpy().argmax(axis=1)
            columns[name] = pd.Series(np.asarray(known)[best]).astype(frame[name].dtype)
        else:
            rounded = np.round(Z[name], count_decimals(frame[name].to_numpy(float)))
            columns[name] = rounded.astype(frame[name].dtype)
    return pd.DataFrame(columns)


def is_outside(synthetic, frame):
    """Return the share of rows with a negative number where ``frame`` has none."""
    kept = frame.columns[~is_category(frame)]
    negative = (synthetic[kept] < 0) & (frame[kept].min() >= 0)
    return float(negative.any(axis=1).mean())


def largest_difference(synthetic, frame):
    """Return the largest difference of the shares of a category."""
    found = [
        (synthetic[c].astype(str) == str(value)).mean()
        - (frame[c].astype(str) == str(value)).mean()
        for c in frame.columns[is_category(frame)]
        for value in frame[c].unique()
    ]
    return float(np.abs(found).max())


def judge_mixed(name, frame, seed):
    """Return the row of a mixed table for one split."""
    rng = np.random.default_rng(seed)
    train = frame.iloc[rng.permutation(len(frame))[: int(0.8 * len(frame))]].reset_index(drop=True)
    start = time.process_time()
    model = NNMRFDensity(random_state=seed).fit(train)
    seconds = time.process_time() - start
    start = time.process_time()
    coded = one_hot(train)
    _, sample = fit_mixture(coded.to_numpy(), seed)
    seconds_mixture = time.process_time() - start
    drawn = {
        "auc": model.sample(len(train), random_state=seed),
        "auc_mixture": to_frame(sample(len(train)), coded, train),
        "auc_independent": train.apply(lambda column: rng.permutation(column)).astype(train.dtypes),
    }
    aucs = {
        k: classifier_two_sample_test(frame, Y, random_state=seed).auc for k, Y in drawn.items()
    }
    n_categories = int(is_category(frame).sum())
    return {
        "table": name,
        "n_rows": len(frame),
        "n_numbers": frame.shape[1] - n_categories,
        "n_categories": n_categories,
        **aucs,
        "outside": is_outside(drawn["auc"], frame),
        "outside_mixture": is_outside(drawn["auc_mixture"], frame),
        "share": largest_difference(drawn["auc"], frame),
        "share_mixture": largest_difference(drawn["auc_mixture"], frame),
        "seconds": seconds,
        "seconds_mixture": seconds_mixture,
    }


def mixed_summary(rows):
    """Return the lines below the table of mixed tables."""
    n = len(rows)
    near, best = sum(r["auc"] < 0.6 for r in rows), sum(r["auc_difference"] <= 0 for r in rows)
    return (
        f"The AUC is below 0.6 on {near} of {n} tables, and not above the smaller AUC of mixture "
        f"and independent columns on {best} of {n}. Values are means over splits, processor "
        "seconds.",
    )


# Anomalies ---------------------------------------------------------------------------------


def load_labelled(data_home):
    """Return the rows and the labels of each table with anomalies."""
    tables, found = load_tables(data_home), {}
    for name in ANOMALIES:
        if name in BUNDLED:
            bunch = BUNDLED[name]()
            found[name] = bunch.data, bunch.target_names[bunch.target].astype(str)
        elif name in tables:
            labels = np.array([row[LABELS[name]] for row in read_rows(data_home, name)])
            found[name] = tables[name], labels
    return found


def judge_anomalies(name, data, seed):
    """Return the row of anomaly detection for one split."""
    X, labels = data
    is_normal, rng = np.isin(labels, ANOMALIES[name]), np.random.default_rng(seed)
    normal = rng.permutation(np.flatnonzero(is_normal))
    train = X[normal[: int(0.7 * len(normal))]]
    left = np.concatenate([normal[int(0.7 * len(normal)) :], np.flatnonzero(~is_normal)])
    row = {"table": name, "n_train": len(train), "n_test": len(left)}
    fits = {
        "": lambda: NNMRFDensity(random_state=seed).fit(train).score_samples,
        "_forest": lambda: IsolationForest(random_state=seed).fit(train).score_samples,
        "_mixture": lambda: fit_mixture(train, seed)[0],
    }
    for end, fit in fits.items():
        start = time.process_time()
        scores = fit()
        row[f"seconds{end}"] = time.process_time() - start
        row[f"auc{end}"] = float(roc_auc_score(is_normal[left], scores(X[left])))
    return row


def anomaly_summary(rows):
    """Return the lines below the table of anomalies."""
    n = len(rows)
    best = [sum(r["auc"] >= r[f"auc_{other}"] for r in rows) for other in ("forest", "mixture")]
    return (
        f"The AUC is at or above that of IsolationForest on {best[0]} of {n} tables, and of the "
        f"mixture on {best[1]} of {n}. Means over splits, processor seconds.",
    )


def run(args, title, load, judge_split, summarise, columns):
    """Compute, print and write one table, unless none of its data sets is chosen."""
    tables, rows = load(args.data_home), []
    n_seeds = args.seeds or (1 if args.fast else 10)
    names = [name for name in args.tables or tables if name in tables]
    if not names:
        return
    for name in names[:2] if args.fast else names:
        found = [judge_split(name, tables[name], seed) for seed in range(n_seeds)]
        rows.append({"table": name} | average(found))
        print(rows[-1], flush=True)
        save(args, title.replace(" ", "_"), rows, columns, summarise(rows))
    text = "\n\n".join([markdown(rows, columns), *summarise(rows)])
    write_tables(args.results / "neural_potentials.md", {title: text})


def main(argv=None):
    parser = options(__doc__, data=True)
    parser.add_argument("--seeds", type=int, default=None, help="splits; default 10, --fast 1")
    parser.add_argument("--tables", nargs="*", default=None, help="names of tables; default all")
    parser.add_argument("--parts", nargs="*", choices=PARTS, default=list(PARTS))
    args = parser.parse_args(argv)
    parts = {
        "numbers": ("tables", load_tables, judge, summary, COLUMNS),
        "mixed": ("tables mixed", load_mixed, judge_mixed, mixed_summary, MIXED_COLUMNS),
        "anomalies": (
            "anomalies",
            load_labelled,
            judge_anomalies,
            anomaly_summary,
            ANOMALY_COLUMNS,
        ),
    }
    with threadpool_limits(1), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for part in args.parts:
            run(args, *parts[part])


if __name__ == "__main__":
    main()
