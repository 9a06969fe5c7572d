"""Estimators with default parameters against simple baselines.

A row of the table compares a default estimator with the best of its baselines. The score is the
mean log-likelihood of test rows in nats (DiscreteMRF, against independent columns and a Chow-Liu
tree, both with smoothed probabilities), the lower limit of this mean (RBM with 128 hidden units,
against the same), a measure of multi-label classification (CRBMStructuredPredictor,
against one logistic regression per label), F1 of the edges of generated graphs
(MRFStructureLearner, against L1-penalised logistic regressions with the same limit of 5% for any
false edge), or the fraction of imputed entries that are right and the error of imputed numbers
(MRFImputer, against KNNImputer and IterativeImputer).

Tables with at most 500 rows have random splits (two thirds are training rows) or random masks; the
mean difference and its standard error are over these, over generated graphs, or else over test
rows. A baseline wins if it is better by more than two standard errors. The log-likelihood of
DiscreteMRF is an estimate unless log Z is exact; another table has the width of its interval.
"""

import time
import warnings
from pathlib import Path

import imputation
import multilabel
import numpy as np
import structure
import structure_grid
from _common import markdown, options, save, write_tables
from sklearn.datasets import load_breast_cancer
from sklearn.preprocessing import KBinsDiscretizer

from skmrf import RBM, DiscreteMRF
from skmrf.datasets import fetch_density_benchmark
from skmrf.structure.chow_liu import fit_tree

DENSITY = "nltcs", "msnbc", "kdd", "plants", "baudio", "jester", "dna", "accidents", "book", "bbc"
SPLIT = "breast cancer", "spikes", "kunitz"
BASELINES = "independent columns", "Chow-Liu tree"
N_HIDDEN = 128
GRAPH_SIZE, GRAPH_ROWS = 50, (500, 2_000)
N_SPLITS = 20
MAX_ROWS = 500  # of the tables with random splits
COLUMNS = {
    "estimator": "estimator",
    "data": "data",
    "measure": "score",
    "score": "default",
    "baseline": "best baseline",
    "baseline_score": "its score",
    "gain": "gain",
    "error": "s.e.",
    "seconds": "fit s",
}
DENSITY_COLUMNS = {
    "data": "data",
    "rows": "training rows",
    "columns": "columns",
    "score": "DiscreteMRF()",
    "width": "width of log Z",
    "independent": "independent columns",
    "tree": "Chow-Liu tree",
    "gain": "gain over the better one",
    "error": "its standard error",
    "learner": "learner",
    "seconds": "seconds",
}


def comparison(estimator, data, measure, score, rivals, seconds, *, smaller_is_better=False):
    """Return a row of the table.

    Parameters
    ----------
    estimator, data, measure : str
        Entries of the row.
    score : ndarray of shape (n_scores,)
        Scores of the default estimator, one per test row, split, mask or graph.
    rivals : dict of str to ndarray of shape (n_scores,)
        Scores of the baselines.
    seconds : float
        Mean time of a fit.
    smaller_is_better : bool, default=False
        Whether the score is a loss.

    Returns
    -------
    dict
        Row; a positive gain means that the default is better.
    """
    sign = -1.0 if smaller_is_better else 1.0
    best = max(rivals, key=lambda name: sign * rivals[name].mean())
    gains = sign * (score - rivals[best])
    row = {
        "estimator": estimator,
        "data": data,
        "measure": measure,
        "score": float(score.mean()),
        "baseline": best,
        "baseline_score": float(rivals[best].mean()),
        "gain": float(gains.mean()),
        "error": float(gains.std(ddof=1) / np.sqrt(len(gains))),
        "seconds": float(seconds),
    }
    print(row, flush=True)
    return row


def is_baseline_better(row):
    """Return whether the baseline is better by more than two standard errors."""
    return row["gain"] < -2.0 * row["error"]


# DiscreteMRF -------------------------------------------------------------------------------


def read_table(name, folder):
    """Return the rows of a table of categories."""
    if name == "breast cancer":
        quartiles = KBinsDiscretizer(4, encode="ordinal", quantile_method="averaged_inverted_cdf")
        return quartiles.fit_transform(load_breast_cancer().data).astype(int)
    if name == "kunitz":
        return np.load(folder / "msa" / "kunitz_PGM.npz")["msa"][:, :20].astype(int)
    data = np.load(folder / "spikes" / "maxent_toolbox_spikes.npz")
    return np.unpackbits(data["spikes50_packed"], axis=1)[:, : int(data["spikes50_n"])].astype(int)


def splits(name, folder, n_splits):
    """Yield (training rows, test rows)."""
    if name in DENSITY:
        sets = fetch_density_benchmark(name, data_home=folder / "density20")
        yield sets.train, sets.test
        return
    rows = read_table(name, folder)
    for seed in range(n_splits):
        order = np.random.default_rng(seed).permutation(len(rows))[:MAX_ROWS]
        cut = 2 * len(order) // 3
        yield rows[order[:cut]], rows[order[cut:]]


def compare(train, test):
    """Return the scores of the test rows by each model, and facts about the default fit."""
    both = np.vstack([train, test])
    categories = [np.unique(column) for column in both.T]
    start = time.perf_counter()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = DiscreteMRF(categories=categories, random_state=0).fit(train)
        seconds = time.perf_counter() - start
        scores = model.score_samples(test)
    low, high = model.log_partition_interval_
    codes = [
        np.column_stack([np.searchsorted(c, x) for c, x in zip(categories, rows.T, strict=True)])
        for rows in (train, test)
    ]
    tree = fit_tree(codes[0], [len(c) for c in categories])
    baselines = [graph.log_potential(codes[1]) for graph in (tree.prune(np.inf), tree.graph)]
    kind = type(model.learner_).__name__
    return [scores, *baselines], {"seconds": seconds, "width": high - low, "learner": kind}


def density_rows(args):
    """Return the rows of DiscreteMRF, and rows with details."""
    DiscreteMRF().fit(np.random.default_rng(0).integers(2, size=(50, 30)))  # compiles the kernels
    names = ("nltcs",) if args.fast else args.sets or [*DENSITY, *SPLIT]
    rows, details = [], []
    for name in names:
        found, facts = [], []
        for train, test in splits(name, Path(args.data_home), args.n_splits):
            scores, fact = compare(train, test)
            found.append(scores)
            facts.append(fact)
        means = np.array([[s.mean() for s in scores] for scores in found])
        ours, *rivals = means.T if len(found) > 1 else found[0]
        seconds = np.mean([f["seconds"] for f in facts])
        rivals = dict(zip(BASELINES, rivals, strict=True))
        row = comparison("DiscreteMRF", name, "log-likelihood", ours, rivals, seconds)
        rows.append(row)
        details.append(
            {
                "data": name,
                "rows": len(train),
                "columns": train.shape[1],
                "score": row["score"],
                "width": max(f["width"] for f in facts),
                "independent": float(means[:, 1].mean()),
                "tree": float(means[:, 2].mean()),
                "gain": row["gain"],
                "error": row["error"],
                "learner": facts[0]["learner"],
                "seconds": row["seconds"],
            }
        )
        write_tables(args.results / "defaults.md", {"density": markdown(details, DENSITY_COLUMNS)})
    return rows


def rbm_rows(args):
    """Return the rows of RBM on the binary sets: log-likelihoods with the upper limit of log Z."""
    rows = []
    for name in ("nltcs",) if args.fast else args.sets or DENSITY:
        ((train, test),) = splits(name, Path(args.data_home), 1)
        tree = fit_tree(train, [2] * train.shape[1])
        start = time.perf_counter()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            model = RBM(16 if args.fast else N_HIDDEN, random_state=0).fit(train)
            seconds = time.perf_counter() - start
            scores = model.score_samples(test) + model.log_partition_
        rivals = [graph.log_potential(test) for graph in (tree.prune(np.inf), tree.graph)]
        rows.append(
            comparison(
                "RBM", name, "log-likelihood", scores - model.log_partition_interval_[1],
                dict(zip(BASELINES, rivals, strict=True)), seconds,
            )
        )  # fmt: skip
        write_tables(args.results / "defaults.md", {"defaults rbm": markdown(rows, COLUMNS)})
    return rows


# Other estimators --------------------------------------------------------------------------


def conditional_rows(args):
    """Return the rows of CRBMStructuredPredictor."""
    rows = []
    for name in ("emotions",) if args.fast else args.sets or multilabel.NAMES:
        data = multilabel.read(name, args.data_home)
        expected, fits, seconds = multilabel.measure_defaults(data, 1 if args.fast else 2)
        rows += [
            comparison(
                "CRBMStructuredPredictor", name, measure, np.mean(found, axis=0),
                {"logistic regression": expected[measure]}, seconds,
                smaller_is_better=multilabel.SMALLER_IS_BETTER[measure],
            )
            for measure, found in fits.items()
        ]  # fmt: skip
    return rows


def f1(result, truth):
    """Return F1 of found edges."""
    right = len(truth) - result["missing"]
    return 2.0 * right / max(2 * right + result["missing"] + result["false"], 1)


def structure_rows(args):
    """Return the rows of MRFStructureLearner."""
    size, graphs = (10, ["grid"]) if args.fast else (GRAPH_SIZE, args.sets or structure_grid.GRAPHS)
    structure.compile_kernels()
    rows = []
    for graph in graphs:
        for n_rows in GRAPH_ROWS:
            scores = {"default": [], "L1, 5% level": []}
            methods = dict(zip(scores, (structure.ours, structure.l1_family_wise), strict=True))
            seconds = []
            for seed in range(args.n_splits):
                X, truth = structure_grid.problem(graph, size, n_rows, seed)
                for name, method in methods.items():
                    result = structure.judged(method, X, truth)
                    scores[name].append(f1(result, truth))
                    seconds += [result["seconds"]] * (name == "default")
            arrays = {name: np.array(values) for name, values in scores.items()}
            data = f"{graph}, {size} columns, {n_rows} rows"
            ours = arrays.pop("default")
            rows.append(
                comparison("MRFStructureLearner", data, "F1", ours, arrays, np.mean(seconds))
            )
    return rows


def imputation_rows(args):
    """Return the rows of MRFImputer."""
    imputation.compile_kernels()
    names = (
        ("iris",) if args.fast else args.sets or (*imputation.CATEGORICAL, *imputation.CONTINUOUS)
    )
    rivals = {name: imputation.METHODS[name] for name in ("knn", "linear", "trees")}
    rows = []
    for name in names:
        is_categorical = name in imputation.CATEGORICAL
        for mechanism in imputation.MECHANISMS:
            results = [
                imputation.judge(
                    *imputation.incomplete_table(name, mechanism, args, seed),
                    is_categorical, ("mode", *rivals),
                )
                for seed in range(args.n_splits)
            ]  # fmt: skip
            score = {k: np.array([r[k][0] for r in results]) for k in ("mode", *rivals)}
            rows.append(
                comparison(
                    "MRFImputer", f"{name}, {mechanism}", "accuracy" if is_categorical else "error",
                    score["mode"], {label: score[k] for k, label in rivals.items()},
                    np.mean([r["mode"][1] for r in results]), smaller_is_better=not is_categorical,
                )
            )  # fmt: skip
    return rows


PARTS = {
    "density": density_rows,
    "rbm": rbm_rows,
    "conditional": conditional_rows,
    "structure": structure_rows,
    "imputation": imputation_rows,
}


def main(argv=None):
    parser = options(__doc__, data=True)
    parser.add_argument("--parts", nargs="*", choices=PARTS, default=list(PARTS))
    parser.add_argument("--sets", nargs="*", help="data sets or graphs of the part; default: all")
    parser.add_argument("--n-splits", type=int, default=N_SPLITS)
    args = parser.parse_args(argv)
    if args.fast:
        args.n_splits = 2
    for part in args.parts:
        rows = PARTS[part](args)
        save(args, f"defaults_{part}", rows, COLUMNS)
        write_tables(args.results / "defaults.md", {f"defaults {part}": markdown(rows, COLUMNS)})


if __name__ == "__main__":
    main()
