"""DiscreteMRF with default parameters against independent columns and a Chow-Liu tree.

Each model is fitted to the training rows, and the score is the mean log-likelihood of the test
rows in nats. Both baselines have one pseudo-count. Small tables have random splits instead: two
thirds of the rows are training rows. A baseline wins if the mean difference exceeds two standard
errors. The log-likelihood of DiscreteMRF is an estimate unless log Z is exact; the table has the
width of its interval.
"""

import time
import warnings
from pathlib import Path

import numpy as np
from _common import markdown, options, save, write_tables
from sklearn.datasets import load_breast_cancer
from sklearn.preprocessing import KBinsDiscretizer

from skmrf import DiscreteMRF
from skmrf.datasets import fetch_density_benchmark
from skmrf.structure.chow_liu import fit_tree

DENSITY = "nltcs", "msnbc", "kdd", "plants", "baudio", "jester", "dna", "accidents", "book", "bbc"
SPLIT = "breast cancer", "spikes", "kunitz"
N_SPLITS = 20
MAX_ROWS = 500  # of the tables with random splits
COLUMNS = {
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


def run(name, folder, n_splits):
    """Return the row of a data set."""
    found, facts = [], []
    for train, test in splits(name, folder, n_splits):
        scores, fact = compare(train, test)
        found.append(scores)
        facts.append(fact)
    means = np.array([[s.mean() for s in scores] for scores in found])
    better = 1 + int(np.argmax(means[:, 1:].mean(axis=0)))
    if len(found) > 1:
        differences = means[:, 0] - means[:, better]
    else:
        differences = found[0][0] - found[0][better]
    score, independent, tree = means.mean(axis=0)
    return {
        "data": name,
        "rows": len(train),
        "columns": train.shape[1],
        "score": score,
        "width": max(f["width"] for f in facts),
        "independent": independent,
        "tree": tree,
        "gain": differences.mean(),
        "error": differences.std() / np.sqrt(len(differences)),
        "learner": facts[0]["learner"],
        "seconds": float(np.mean([f["seconds"] for f in facts])),
    }


def main(argv=None):
    parser = options(__doc__, data=True)
    parser.add_argument("--sets", nargs="*", default=[*DENSITY, *SPLIT])
    args = parser.parse_args(argv)
    DiscreteMRF().fit(np.random.default_rng(0).integers(2, size=(50, 30)))  # compiles the kernels
    names, n_splits = (("nltcs",), 2) if args.fast else (args.sets, N_SPLITS)
    rows = []
    for name in names:
        rows.append(run(name, Path(args.data_home), n_splits))
        save(args, "defaults", rows, COLUMNS)
        write_tables(args.results / "defaults.md", {"defaults": markdown(rows, COLUMNS)})


if __name__ == "__main__":
    main()
