"""Eight UCI data sets: accuracy and log densities, Tables 1 and 2 of Xiong and Ruozzi (2020).

There are two protocols. The protocol "paper" uses the matrices of the code of the paper. They have
two or three classes of equal size, filled up with copies of rows before the split. In Electricity,
the sign of one column is the label. Other methods use raw features, with the settings of the paper
and of its notebook. Log densities are joint, log p(x, y). The protocol "honest" uses the original
data sets with all classes, without that column and without columns that are functions of others.
All methods use features standardised by the training set. Log densities are conditional, log
p(x|y). Both protocols use random stratified splits with four fifths of the rows for training. All
densities are in the units of the data. A cell is a protocol, a data set and a split. Its results
are saved in a JSON file in the folder ``--cells`` and are not computed again, so the tables can be
completed in several runs. ``--classifier`` computes only the accuracy of NNMRFClassifier, without
cells, in about ten minutes.
"""

import csv
import gzip
import json
import time
import warnings
from functools import cache, partial
from itertools import product
from typing import NamedTuple

import numpy as np
from _common import (
    bars,
    computed_from,
    describe_machine,
    keep_larger_table,
    markdown,
    options,
    save,
    write_tables,
)
from joblib import Parallel, delayed
from scipy.spatial.distance import cdist
from scipy.special import logsumexp
from scipy.stats import multivariate_normal, rankdata
from sklearn.ensemble import HistGradientBoostingClassifier, RandomForestClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.mixture import GaussianMixture
from sklearn.model_selection import KFold, StratifiedShuffleSplit
from sklearn.naive_bayes import GaussianNB
from sklearn.neighbors import KernelDensity, KNeighborsClassifier
from sklearn.neural_network import MLPClassifier
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC
from sklearn.tree import DecisionTreeClassifier
from threadpoolctl import threadpool_limits

from skmrf import NetworkPotentials, NNMRFBayesClassifier, NNMRFClassifier
from skmrf.datasets._files import data_home_path
from skmrf.learners import Variational

SETS = "Iris", "Seeds", "Sonar", "Banknote", "Leaf", "Glass", "Electricity", "Protein"
FILES = {  # of the original sets: file, label, columns left out, columns of two values
    "Iris": ("iris", "class", (), ()),
    "Seeds": ("seeds", "class", (), ()),
    "Sonar": ("sonar", "class", (), ()),
    "Banknote": ("banknote", "class", (), ()),
    "Leaf": ("leaf", "species", ("specimen",), ()),
    "Glass": ("glass", "type", ("id",), ()),
    "Electricity": ("electrical_grid", "stabf", ("stab", "p1"), ()),
    "Protein": ("ecoli_protein", "class", ("seq",), ("lip", "chg")),
}
OURS, BAYES, SETTING = "NNMRF", "NNMRF, Bayes' rule", "NNMRF, paper's setting"
PARTS = "rivals", OURS, SETTING
PAPER_METHODS = OURS, "SVC", "GaussianNB", "LogisticRegression", "tree", "forest", "kNN", "MLP"
PAPER_ACCURACY = {
    "Iris": ".9667 .9633 .9500 .9767 .9166 .9600 .9533 .9833",
    "Seeds": ".9778 .9048 .8881 .9238 .9119 .9142 .9071 .9381",
    "Sonar": ".7789 .6889 .6711 .7333 .6977 .7844 .7778 .7822",
    "Banknote": "1.000 1.000 .8423 .9905 .9819 .9914 .9967 1.000",
    "Leaf": ".7935 .6382 .5985 .6044 .6926 .7661 .7058 .8074",
    "Glass": ".7895 .7429 .6057 .6657 .7142 .8085 .7628 .7429",
    "Electricity": "1.000 .8921 .9748 .8831 .9993 .9993 .7734 .9731",
    "Protein": ".9837 .9793 .7345 .9431 .9379 .9568 .9689 .9586",
}
PAPER_DENSITY = {  # NN-MRF, GNB, MVN
    "Iris": "4.235 -2.353 -1.102",
    "Seeds": "5.632 -1.859 5.160",
    "Sonar": "188.037 61.911 124.132",
    "Banknote": "-4.357 -10.891 -9.159",
    "Leaf": "21.019 15.240 27.175",
    "Glass": "8.941 .190 6.801",
    "Electricity": "-3.783 -11.042 -4.169",
    "Protein": "14.587 6.424 12.907",
}
MIXTURE, MRF = "mixture", "MRF"
RIDGE = 1e-6  # added to the variances of standardised columns if a covariance is singular
SHRINKAGES = 0.001, 0.003, 0.01, 0.03, 0.1, 0.3, 0.6  # QDA's reg_param
BANDWIDTHS = np.geomspace(0.03, 3.0, 25)
MIN_ROWS = 5  # smallest number of training rows of a class, for densities
MAX_ITER = None  # epochs of our estimators; None means their default


class Split(NamedTuple):
    """Training and test set."""

    X: np.ndarray
    y: np.ndarray
    X_test: np.ndarray
    y_test: np.ndarray

    def scaled(self):
        """Standardise both sets by the training set; return them and the log of the scales."""
        scaler = StandardScaler().fit(self.X)
        parts = scaler.transform(self.X), self.y, scaler.transform(self.X_test), self.y_test
        return Split(*parts), float(np.log(scaler.scale_).sum())

    def of_classes(self, classes):
        """Select the rows of the given classes."""
        here, there = np.isin(self.y, classes), np.isin(self.y_test, classes)
        return Split(self.X[here], self.y[here], self.X_test[there], self.y_test[there])

    def without(self, columns):
        """Remove the given columns."""
        X, X_test = (np.delete(x, columns, axis=1) for x in (self.X, self.X_test))
        return Split(X, self.y, X_test, self.y_test)


# Data --------------------------------------------------------------------------------------


def read_original(name, data_home):
    """Return columns, labels, and the indices of columns with two values."""
    file, label, dropped, binary = FILES[name]
    with gzip.open(data_home / "uci" / f"{file}.csv.gz", "rt") as lines:
        header, *rows = csv.reader(lines)
    table = dict(zip(header, zip(*rows, strict=True), strict=True))
    y = np.array(table.pop(label))
    columns = {k: np.array(v, dtype=float) for k, v in table.items() if k not in dropped}
    return np.stack(list(columns.values()), axis=1), y, [list(columns).index(k) for k in binary]


def read(protocol, name, data_home):
    """Return columns, labels, and the indices of columns that our model treats as categorical."""
    data_home = data_home_path(data_home)
    if protocol == "honest":
        return read_original(name, data_home)
    with np.load(data_home / "uci" / f"nnmrf_{name.lower()}.npz") as file:
        return file["X"].astype(float), file["y"], []


def split_rows(X, y, seed):
    """Split at random and stratified; a class with one row is only in the training set."""
    _, labels, counts = np.unique(y, return_inverse=True, return_counts=True)
    several = np.flatnonzero(counts[labels] > 1)
    splitter = StratifiedShuffleSplit(1, test_size=0.2, random_state=seed)
    _, test = next(splitter.split(several, labels[several]))
    test = several[test]
    train = np.setdiff1d(np.arange(len(y)), test)
    return Split(X[train], y[train], X[test], y[test])


# Classifiers -------------------------------------------------------------------------------


def classifiers(protocol, n, seed):
    """Return the classifiers with which NNMRFClassifier is compared."""
    paper = protocol == "paper"
    layers = 3 * n, 5 * n, 3 * n
    models = {
        "SVC": SVC(C=2.0, tol=1e-7 if paper else 1e-3),
        "GaussianNB": GaussianNB(),
        "LogisticRegression": LogisticRegression(max_iter=100 if paper else 1000),
        "tree": DecisionTreeClassifier(random_state=seed),
        "forest": RandomForestClassifier(150, max_depth=5 if paper else None, random_state=seed),
        "kNN": KNeighborsClassifier(
            10, weights="distance" if paper else "uniform", leaf_size=50, algorithm="auto"
        ),
        "MLP": MLPClassifier(layers, max_iter=500, random_state=seed),
    }
    if not paper:
        models["HistGradientBoosting"] = HistGradientBoostingClassifier(random_state=seed)
    return models


def column_types(categorical):
    """Return the parameter ``column_types``, given the indices of the categorical columns."""
    return dict.fromkeys(categorical, "categorical") if categorical else "continuous"


def ours(method, seed, categorical):
    """Return an estimator of this package, with default parameters or those of the paper."""
    common = {"column_types": column_types(categorical), "random_state": seed}
    if method == OURS:
        return NNMRFClassifier(**common)
    if method == BAYES:
        # With optimizer="auto" the networks of classes with few rows have fewer updates.
        return NNMRFBayesClassifier(
            NetworkPotentials(optimizer="adam", max_iter=MAX_ITER),
            transform_columns=False,
            **common,
        )
    learner = Variational(
        5, negative="quadrature", entropy="bethe", covariance="diag", pool=20, n_iter=100
    )
    networks = NetworkPotentials(
        learner=learner, base=0.01, node_layers=(3, 4, 4, 3), edge_layers=(4, 5, 5, 4),
        max_iter=MAX_ITER,
    )  # fmt: skip
    return NNMRFBayesClassifier(networks, transform_columns=False, **common)


@cache
def compile_kernels():
    """Compile all kernels, so that compilation is not part of the timed fits."""
    rng = np.random.default_rng(0)
    model = NNMRFBayesClassifier(NetworkPotentials(max_iter=3), random_state=0)
    model.fit(rng.normal(size=(40, 2)), np.arange(40) % 2)


def mask_unknown(X, X_test, columns):
    """Replace categories of test rows that are not in the training rows by missing values."""
    X_test = X_test.copy()
    for j in columns:
        X_test[~np.isin(X_test[:, j], X[:, j]), j] = np.nan
    return X_test


def draw_class(model, label, n):
    """Draw samples from the density of a class, in the units of the data."""
    density = model.densities_[np.searchsorted(model.classes_, label)]
    return model._columns.decode(density.sample(n))


# Densities ---------------------------------------------------------------------------------


def naive(data):
    """Return log p(x|y) of the test rows by GaussianNB."""
    model = GaussianNB().fit(data.X, data.y)
    return own_class(model.predict_joint_log_proba(data.X_test), model.class_prior_, model, data)


def own_class(joint, prior, model, data):
    """Return log p(x|y) of the test rows for their labels."""
    places = np.searchsorted(model.classes_, data.y_test)
    return joint[np.arange(len(places)), places] - np.log(prior[places])


def by_class(make, data):
    """Return log p(x|y) of the test rows, with one model per class made by ``make``."""
    out = np.empty(len(data.y_test))
    for label in np.unique(data.y_test):
        there = data.y_test == label
        out[there] = make(data.X[data.y == label])(data.X_test[there])
    return out


def gaussian(X, shrinkage=0.0):
    """Fit a Gaussian with covariance shrunk towards the identity, by RIDGE if it is singular."""
    n = X.shape[1]
    covariance = np.atleast_2d(np.cov(X.T, bias=True)) if len(X) > 1 else np.zeros((n, n))
    if shrinkage == 0.0 and np.linalg.eigvalsh(covariance)[0] < RIDGE:
        covariance = covariance + RIDGE * np.eye(n)
    covariance = (1.0 - shrinkage) * covariance + shrinkage * np.eye(n)
    density = multivariate_normal(X.mean(axis=0), covariance)
    return lambda T: np.atleast_1d(density.logpdf(T))


def quadratic(data):
    """Return log p(x|y) by QuadraticDiscriminantAnalysis, with cross-validated reg_param."""
    folds = list(KFold(3, shuffle=True, random_state=0).split(data.X))
    parts = [
        Split(data.X[a], data.y[a], data.X[b], data.y[b]).of_classes(np.unique(data.y[a]))
        for a, b in folds
    ]
    scores = [
        np.mean([by_class(partial(gaussian, shrinkage=r), part).mean() for part in parts])
        for r in SHRINKAGES
    ]
    return by_class(partial(gaussian, shrinkage=SHRINKAGES[np.argmax(scores)]), data)


def mixture(X):
    """Fit a Gaussian mixture with full covariances; BIC selects one to five components."""
    sizes = range(1, max(1, min(5, len(X) // 2)) + 1)
    models = [GaussianMixture(k, random_state=0).fit(X) for k in sizes]
    return min(models, key=lambda model: model.bic(X)).score_samples


def kernel(X):
    """Fit a kernel density with the bandwidth of the best leave-one-out likelihood."""
    D = cdist(X, X, "sqeuclidean")
    np.fill_diagonal(D, np.inf)
    n = X.shape[1]
    scores = [logsumexp(-0.5 * D / h**2, axis=1).mean() - n * np.log(h) for h in BANDWIDTHS]
    return KernelDensity(bandwidth=BANDWIDTHS[np.argmax(scores)]).fit(X).score_samples


DENSITIES = {
    "GaussianNB": naive,
    "Gaussian": partial(by_class, gaussian),
    "QDA": quadratic,
    "GaussianMixture": partial(by_class, mixture),
    "KernelDensity": partial(by_class, kernel),
}


def degenerate(data):
    """Count the columns that are constant in the training rows of a class, over all classes."""
    return sum(int((np.ptp(data.X[data.y == k], axis=0) == 0).sum()) for k in np.unique(data.y))


def summary(logs):
    return {"mean": float(logs.mean()), "median": float(np.median(logs))}


def for_densities(data, binary):
    """Remove small classes, and columns with two values, because they have no density."""
    classes, counts = np.unique(data.y, return_counts=True)
    return data.without(binary).of_classes(classes[counts >= MIN_ROWS])


# Cells -------------------------------------------------------------------------------------


def rivals(protocol, data, binary, seed):
    """Return accuracies and log densities of all other methods."""
    scaled, volume = data.scaled()
    found = scaled if protocol == "honest" else data
    accuracy = {
        name: float(model.fit(found.X, found.y).score(found.X_test, found.y_test))
        for name, model in classifiers(protocol, data.X.shape[1], seed).items()
    }
    if protocol == "paper":
        log_prior = _log_prior(data)
        logs = {"GaussianNB": naive(data), "Gaussian": DENSITIES["Gaussian"](scaled) - volume}
        return {
            "accuracy": accuracy,
            "density": {k: summary(v + log_prior) for k, v in logs.items()},
        }
    scaled, volume = for_densities(data, binary).scaled()
    density = {k: summary(function(scaled) - volume) for k, function in DENSITIES.items()}
    return {
        "accuracy": accuracy,
        "density": density,
        "n_scored": len(scaled.y_test),
        "degenerate": degenerate(scaled),
    }


def _log_prior(data):
    """Return log p(y) of the test rows by the class frequencies of the training set."""
    classes, counts = np.unique(data.y, return_counts=True)
    return np.log(counts / counts.sum())[np.searchsorted(classes, data.y_test)]


def own(method, protocol, data, binary, seed):
    """Return accuracies, log densities and processor seconds of NNMRFClassifier."""
    compile_kernels()
    found = data.scaled()[0] if protocol == "honest" else data
    model = ours(method, seed, binary)
    start = time.process_time()
    model.fit(found.X, found.y)
    seconds = time.process_time() - start
    X_test = mask_unknown(found.X, found.X_test, binary)
    result = {
        "accuracy": {method: float(model.score(X_test, found.y_test))},
        "train": float(model.score(found.X, found.y)),
        "seconds": seconds,
    }
    if method == OURS:
        model = ours(BAYES, seed, binary).fit(found.X, found.y)
        result["accuracy"][BAYES] = float(model.score(X_test, found.y_test))
    if protocol == "paper":
        logs, width = own_densities(model, data)
        log_prior = _log_prior(data)
    else:
        kept = for_densities(data, binary)
        scaled, volume = kept.scaled()
        if kept.X.shape != data.X.shape:
            kind = BAYES if method == OURS else method
            model = ours(kind, seed, []).fit(scaled.X, scaled.y)
        logs, width = own_densities(model, scaled)
        log_prior = -volume  # the density is conditional
    result["density"] = {f"{method} {k}": summary(v + log_prior) for k, v in logs.items()}
    return result | {"width": width}


def own_densities(model, data):
    """Return log p(x|y) by the beliefs and by the model, and the widest interval of log Z."""
    logs = {}
    for name in (MIXTURE, MRF):
        model.set_params(potentials__density=name.lower())
        joint = model.predict_joint_log_proba(data.X_test)
        logs[name] = own_class(joint, model.class_prior_, model, data)
    intervals = [density._log_partition() for density in model.densities_]
    return logs, float(max(z.upper - z.lower for z in intervals))


def run_cell(args, protocol, name, seed):
    """Compute the results of a split, except parts that are already in its file."""
    path = args.cells / "nnmrf_uci" / f"{protocol}-{name}-{seed}.json"
    path.parent.mkdir(parents=True, exist_ok=True)
    cell = json.loads(path.read_text()) if path.exists() else {}
    cell |= {"protocol": protocol, "set": name, "split": seed, "machine": describe_machine()}
    X, y, binary = read(protocol, name, args.data_home)
    data = split_rows(X, y, seed)
    for part in args.parts:
        if part in cell and part not in args.redo:
            continue
        compute = rivals if part == "rivals" else partial(own, part)
        with warnings.catch_warnings(), threadpool_limits(1):
            warnings.simplefilter("ignore")
            cell[part] = compute(protocol, data, binary, seed)
        path.write_text(json.dumps(cell) + "\n")
        print(protocol, name, seed, part, cell[part], flush=True)


def collected(args, protocol):
    """Read all saved cells of a protocol, keyed by data set."""
    folder = args.cells / "nnmrf_uci"
    cells = [json.loads(p.read_text()) for p in sorted(folder.glob(f"{protocol}-*.json"))]
    return {name: found for name in SETS if (found := [c for c in cells if c["set"] == name])}


def count_results(args, cells):
    """Return the number of results (parts of cells), and of missing requested results."""
    there = {
        (name, cell["split"], part)
        for name, found in cells.items()
        for cell in found
        for part in PARTS
        if part in cell
    }
    requested = set(product(args.sets, range(args.splits), args.parts))
    return len(there), len(requested - there)


# Tables ------------------------------------------------------------------------------------


def values(cells, kind):
    """Return a dict of arrays: the results of each method in all splits."""
    found = {}
    for cell in cells:
        for part in cell.values():
            for method, value in part.get(kind, {}).items() if isinstance(part, dict) else ():
                value = value["mean"] if isinstance(value, dict) else value
                found.setdefault(method, []).append(value)
    return {method: np.array(v) for method, v in found.items()}


def mean_of(cells, part, key):
    """Return the mean over splits of a value of a part, or None if it has no such value."""
    found = [cell[part][key] for cell in cells if key in cell.get(part, {})]
    return float(np.mean(found)) if found else None


def with_error(numbers, digits):
    """Format the mean and its standard error."""
    error = np.std(numbers, ddof=1) / np.sqrt(len(numbers)) if len(numbers) > 1 else np.nan
    return f"{numbers.mean():.{digits}f}" + f" ± {error:.{digits}f}" * bool(np.isfinite(error))


def n_splits(results):
    """Return the number of splits, as text if some methods have fewer than others."""
    fewest, most = min(map(len, results)), max(map(len, results))
    return most if fewest == most else f"{fewest} to {most}"


def row_of(name, cells, kind, digits, paper):
    """Return a data set's row of the table: mean and standard error of each method."""
    found = values(cells, kind)
    row = {"set": name, "splits": n_splits(found.values())}
    for method, numbers in found.items():
        n = len(numbers)
        row[method] = float(numbers.mean())
        row[f"{method} se"] = float(np.std(numbers, ddof=1) / np.sqrt(n)) if n > 1 else None
        row[f"{method} text"] = with_error(numbers, digits)
        if method in paper:
            row[f"{method} paper"] = paper[method]
            row[f"{method} text"] += f" ({paper[method]:.{digits}f})"
    for method in (OURS, SETTING):
        row[f"{method} seconds"] = mean_of(cells, method, "seconds")
        row[f"{method} width"] = mean_of(cells, method, "width")
        row[f"{method} train"] = mean_of(cells, method, "train")
    row["n_scored"] = mean_of(cells, "rivals", "n_scored")
    row["degenerate"] = mean_of(cells, "rivals", "degenerate")
    return row


def methods_in(rows, order):
    """Return the methods that at least one row has, in the given order."""
    return [method for method in order if any(method in row for row in rows)]


def min_unrounded(figure):
    """Return the smallest number that rounds to a printed number."""
    return float(figure) - 0.5 * 10.0 ** -len(figure.partition(".")[2])


def accuracy_rows(cells, protocol):
    """Return the rows of accuracies, one per data set, and a row of mean ranks."""
    rows = []
    for name, found in cells.items():
        printed = map(float, PAPER_ACCURACY[name].split())
        paper = dict(zip(PAPER_METHODS, printed, strict=True)) if protocol == "paper" else {}
        rows.append(row_of(name, found, "accuracy", 4, paper))
    methods = methods_in(rows, ACCURACY_ORDER)
    compared = [m for m in methods if m not in (BAYES, SETTING)]
    for row in rows:
        others = {m: row[m] for m in compared if m in row}
        best = max(others, key=others.get)
        row["best"] = best
        row["under best"] = others[best] - row[OURS] if OURS in row else None
        if protocol == "paper" and row.get(f"{OURS} se") is not None:
            least = min_unrounded(PAPER_ACCURACY[row["set"]].split()[0])
            row["reached"] = "yes" if row[OURS] + row[f"{OURS} se"] >= least else "no"
    whole = [row for row in rows if all(m in row for m in compared)]
    if whole:
        ranks = [rankdata([-row[m] for m in compared]) for row in whole]
        rows.append({"set": f"mean rank, {len(whole)} sets"})
        for method, rank in zip(compared, np.mean(ranks, axis=0), strict=True):
            rows[-1] |= {f"{method} text": f"{rank:.2f}", f"{method} rank": float(rank)}
    columns = {"set": "set", "splits": "splits"}
    columns |= {f"{m} text": m for m in methods}
    columns |= {"best": "best", "under best": "best minus NNMRF"}
    columns |= {"reached": "within a s.e. of the paper"} if protocol == "paper" else {}
    return rows, columns | {f"{OURS} train": "NNMRF, train", f"{OURS} seconds": "fit s"}


def density_rows(cells, protocol):
    """Return the rows of log densities, one per data set."""
    rows = []
    for name, found in cells.items():
        printed = map(float, PAPER_DENSITY[name].split())
        names = f"{OURS} {MIXTURE}", "GaussianNB", "Gaussian"
        paper = dict(zip(names, printed, strict=True)) if protocol == "paper" else {}
        rows.append(row_of(name, found, "density", 3, paper))
    methods = methods_in(rows, DENSITY_ORDER)
    for row in rows:
        own = row.get(f"{OURS} {MIXTURE}")
        above = [m for m in methods if own is not None and not m.startswith(OURS) and row[m] > own]
        row["above"] = ", ".join(above)
    columns = {"set": "set", "splits": "splits"}
    columns |= {f"{m} text": m for m in methods}
    columns |= {f"{OURS} width": "width of log Z", "above": "methods above NNMRF mixture"}
    if protocol == "honest":
        columns |= {"degenerate": "constant columns", "n_scored": "test rows"}
    return rows, columns


ACCURACY_ORDER = OURS, BAYES, SETTING, *PAPER_METHODS[1:], "HistGradientBoosting"
DENSITY_ORDER = (*(f"{m} {k}" for m in (OURS, SETTING) for k in (MIXTURE, MRF)), *DENSITIES)
SPLITS_NOTE = (
    "Values are means ± standard errors over random splits. Four fifths of the rows are training "
    "rows."
)
PAPER_NOTE = " Values of the paper are in brackets."
NOTES = {
    "nnmrf_accuracy": (
        SPLITS_NOTE,
        "All methods use the same scaler, which is fitted to the training rows. Leaf has 30 "
        "species. Glass has no column id. Electricity has neither the column stab, whose sign is "
        "the label, nor p1, which is -(p2 + p3 + p4). On Protein, NNMRF treats the columns lip and "
        "chg as categorical, and categories that are not in the training rows as missing. Splits "
        "are stratified by class.",
        "NNMRF is NNMRFClassifier with default parameters, which is a discriminative model. "
        '"Bayes\' rule" is NNMRFBayesClassifier with NetworkPotentials(optimizer="adam"), which '
        "classifies by densities, as in the paper. Mean ranks are ranks among NNMRF and the other "
        "methods, without NNMRF, Bayes' rule.",
        "As in the paper, SVC has C=2, the forest has 150 trees, kNN has 10 neighbours, and MLP "
        "has layers of 3n, 5n and 3n units. Other parameters are the defaults of scikit-learn.",
    ),
    "nnmrf_density": (
        SPLITS_NOTE,
        "Values are mean log densities log p(x|y) of test rows given their class, in nats and in "
        f"the units of the data. Classes with fewer than {MIN_ROWS} training rows are omitted, and "
        "so are the columns lip and chg of Protein, for all methods.",
        "Each method fits one density for each class. Gaussian: full covariance by maximum "
        f"likelihood; if it is singular, {RIDGE:g} is added to the standardised variances. QDA: "
        "reg_param is selected by 3-fold cross-validation of the log density. GaussianMixture: BIC "
        "selects 1 to 5 components. KernelDensity: the bandwidth maximises the leave-one-out "
        "likelihood.",
        '"Constant columns" is the number of columns that are constant in the training rows of a '
        "class, summed over classes. Densities of such columns are unbounded, so the values depend "
        'on the lower limit of the standard deviations in each method. "Width of log Z" is the '
        "width of the interval of log Z by annealed importance sampling, for the class with the "
        "widest interval.",
    ),
    "nnmrf_accuracy_paper": (
        SPLITS_NOTE + PAPER_NOTE,
        "The data are the data matrices of the paper: copies of the same row are in the training "
        "and in the test rows, and a column of Electricity contains the label. The other methods "
        "use the original columns, with the settings of the paper and of its notebook.",
    ),
    "nnmrf_density_paper": (
        SPLITS_NOTE + PAPER_NOTE,
        "Values are mean joint log densities log p(x, y) of test rows, in nats and in the units of "
        "the data. The paper's values for NN-MRF use the Bethe value in place of log Z. The Bethe "
        "value is not a bound of log Z.",
        "Gaussian has a full covariance for each class (MVN in the paper). If the covariance is "
        f"singular, {RIDGE:g} is added to the standardised variances, as on Electricity, where p1 "
        "is -(p2 + p3 + p4).",
    ),
}


def write(args, name, rows, columns, xlabel, counts):
    """Write one table as JSON, Markdown and PNG."""
    table = name.replace("nnmrf", "uci").replace("_", " ")
    args = keep_larger_table(args, "neural_potentials.md", table, counts[0])
    notes = [*NOTES[name], computed_from(*counts)]
    save(args, name, rows, columns, notes)
    text = "\n\n".join([markdown(rows, columns), *notes])
    write_tables(args.results / "neural_potentials.md", {table: text})
    order = ACCURACY_ORDER if "accuracy" in name else DENSITY_ORDER
    sets = [row for row in rows if row["set"] in SETS]
    keys = {m: m for m in methods_in(sets, order)}
    if "density" in name:  # data sets differ in scale
        sets = [relative(row, keys) for row in sets]
    bars(args, name, sets, keys, lambda row: row["set"], xlabel=xlabel, log=False)


def classifier_row(args, name):
    """Return the accuracies of NNMRFClassifier on one data set, in both protocols."""
    row, seconds = {"set": name, "splits": args.splits}, []
    for protocol in ("honest", "paper"):
        X, y, categorical = read(protocol, name, args.data_home)
        found = []
        for seed in range(args.splits):
            data = split_rows(X, y, seed)
            data = data.scaled()[0] if protocol == "honest" else data
            start = time.process_time()
            model = ours(OURS, seed, categorical).fit(data.X, data.y)
            seconds.append(time.process_time() - start)
            X_test = mask_unknown(data.X, data.X_test, categorical)
            found.append(model.score(X_test, data.y_test))
        row[protocol] = with_error(np.array(found), 4)
        row[f"{protocol} rows"] = len(data.y_test)
    return row | {"printed": float(PAPER_ACCURACY[name].split()[0]), "seconds": np.mean(seconds)}


CLASSIFIER_COLUMNS = {
    "set": "set",
    "splits": "splits",
    "honest": "original data",
    "honest rows": "test rows",
    "paper": "data of the paper",
    "printed": "paper, NN-MRF",
    "paper rows": "test rows of the paper",
    "seconds": "fit s",
}


def write_classifier(args):
    """Write the table of the accuracies of NNMRFClassifier."""
    rows = []
    with warnings.catch_warnings(), threadpool_limits(1):
        warnings.simplefilter("ignore")
        for name in args.sets:
            rows.append(classifier_row(args, name))
            print(rows[-1], flush=True)
    save(args, "nnmrf_classifier", rows, CLASSIFIER_COLUMNS, (SPLITS_NOTE,))
    text = "\n\n".join([markdown(rows, CLASSIFIER_COLUMNS), SPLITS_NOTE])
    write_tables(args.results / "neural_potentials.md", {"uci classifier": text})


SETTING_COLUMNS = {
    "set": "set",
    "splits": "splits",
    **{f"accuracy {m}": f"accuracy, {m}" for m in (SETTING, BAYES)},
    **{f"{m} {k}": f"{m} {k}" for m in (SETTING, OURS) for k in (MIXTURE, MRF)},
    "seconds": "fit s, paper's setting",
}
SETTING_NOTE = (
    "Means over splits for which both settings are computed, with the data matrices of the paper. "
    "Log densities are log p(x, y) of test rows in nats and in the units of the data."
)


def setting_rows(cells):
    """Return the rows that compare the setting of the paper with the default setting."""
    rows = []
    for name, found in cells.items():
        both = [cell for cell in found if SETTING in cell and OURS in cell]
        if both:
            accuracy, density = values(both, "accuracy"), values(both, "density")
            row = {"set": name, "splits": len(both)}
            row |= {f"accuracy {m}": float(accuracy[m].mean()) for m in (SETTING, BAYES)}
            row |= {m: float(density[m].mean()) for m in SETTING_COLUMNS if m in density}
            rows.append(row | {"seconds": mean_of(both, SETTING, "seconds")})
    return rows


def write_setting(args, cells):
    """Write the table of the setting of the paper, if it is computed for any split."""
    rows = setting_rows(cells)
    if rows:
        save(args, "nnmrf_setting", rows, SETTING_COLUMNS, (SETTING_NOTE,))
        text = "\n\n".join([markdown(rows, SETTING_COLUMNS), SETTING_NOTE])
        write_tables(args.results / "neural_potentials.md", {"uci setting": text})


def relative(row, methods):
    """Return the log densities minus the log density of a Gaussian, clipped to 30 nats."""
    found = {m: float(np.clip(row[m] - row["Gaussian"], -30, 30)) for m in methods if m in row}
    return {"set": row["set"]} | found


def main(argv=None):
    parser = options(__doc__, data=True, cells=True)
    parser.add_argument("--protocol", choices=("honest", "paper", "both"), default="both")
    parser.add_argument("--sets", nargs="*", choices=SETS, default=list(SETS))
    parser.add_argument("--splits", type=int, default=None, help="default 30, with --fast 5")
    parser.add_argument("--parts", nargs="*", choices=PARTS, default=list(PARTS[:2]))
    parser.add_argument(
        "--redo", nargs="*", choices=PARTS, default=[], help="parts to compute again"
    )
    parser.add_argument("--jobs", type=int, default=1, help="number of parallel cells")
    parser.add_argument(
        "--table-only", action="store_true", help="make tables from saved cells only"
    )
    parser.add_argument(
        "--classifier", action="store_true", help="only accuracies of NNMRFClassifier"
    )
    args = parser.parse_args(argv)
    args.splits = args.splits or (5 if args.fast else 30)
    if args.classifier:
        write_classifier(args)
        return
    protocols = ("honest", "paper") if args.protocol == "both" else (args.protocol,)
    if not args.table_only:
        Parallel(args.jobs)(
            delayed(run_cell)(args, protocol, name, seed)
            for seed in range(args.splits)
            for protocol in protocols
            for name in args.sets
        )
    for protocol in protocols:
        cells = collected(args, protocol)
        counts = count_results(args, cells)
        if protocol == "paper":
            write_setting(args, cells)
        end = "_paper" * (protocol == "paper")
        write(args, f"nnmrf_accuracy{end}", *accuracy_rows(cells, protocol), "accuracy", counts)
        label = "log density above the Gaussian's, nats, at most 30"
        write(args, f"nnmrf_density{end}", *density_rows(cells, protocol), label, counts)


if __name__ == "__main__":
    main()
