"""Structure learning: the example of Liu and Page (2013) with many methods.

Variables 0 and 9 have no edge, but are more correlated than variables with an edge. The first part
draws Figure 3 of the paper: the parameters of three pairs during training, as beta = 1 / (1 +
exp(-theta)), with samples and with exact moments and gradients. The second part runs all methods on
``--n-sets`` data sets of 5,000 rows, and counts how often they find exactly the 16 edges. The
results on a data set are saved in a JSON file in the folder ``--cells`` and are not computed again,
so the table can be completed in several runs. Intervals are Wilson intervals of 95%.
"""

import json
import time
import warnings
from functools import partial
from itertools import product

import numpy as np
from _common import computed_from, keep_larger_table, markdown, options, save, write_tables
from scipy.stats import binomtest, chi2, norm
from sklearn.covariance import GraphicalLassoCV
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import log_loss

from skmrf import MRFStructureLearner
from skmrf.datasets import make_non_decay_mrf
from skmrf.inference import sample
from skmrf.learners import PCD
from skmrf.structure import RemovalWhileLearning, Thresholding, WaldTests
from skmrf.structure.significance import adjust_p_values

N_MIDDLE, BETA, N_ROWS = 8, 0.6, 5_000
ENERGY = make_non_decay_mrf(N_MIDDLE, beta=BETA)
ENDS = 0, N_MIDDLE + 1
SHOWN = {(0, 1): "C0", ENDS: "C3", (1, 2): "C2"}
PAPER = {
    "statistic": "agreement",
    "unary": False,
    "search": RemovalWhileLearning(np.log(0.501 / 0.499)),
    "max_iter": 1000,
    "screen": None,
}
LEVEL, GAMMA = 0.05, 0.5
N_STRENGTHS, WIDEST, PATIENCE = 16, 100.0, 3
LEAST_CORRELATION = 0.05

# Other methods -----------------------------------------------------------------------------


def pairs_of(matrix):
    """Return the pairs ``i < j`` for which a square matrix is not zero."""
    return np.argwhere(np.triu(matrix, 1))


def correlations(X):
    """Return absolute correlations, which are 0 for constant columns."""
    centred = X - X.mean(axis=0)
    centred /= np.maximum(np.linalg.norm(centred, axis=0), np.finfo(float).tiny)
    return np.abs(centred.T @ centred)


def dependent_pairs(X, _truth):
    """Return pairs that chi-square tests find dependent, at a level of 5% with Holm's method."""
    i, j = np.triu_indices(X.shape[1], 1)
    found = adjust_p_values(chi2.sf(len(X) * correlations(X)[i, j] ** 2, 1), "holm") <= LEVEL
    return np.column_stack([i[found], j[found]])


def strongest_pairs(X, truth):
    """Return the pairs with the largest correlations, as many as there are true edges."""
    i, j = np.triu_indices(X.shape[1], 1)
    found = np.argsort(-correlations(X)[i, j])[: len(truth)]
    return np.column_stack([i[found], j[found]])


def strengths(X):
    """Return increasing values of C for L1 regression; the first gives no neighbours."""
    S = 2.0 * X - 1.0
    gradient = S.T @ (X - X.mean(axis=0))
    np.fill_diagonal(gradient, 0.0)
    return np.geomspace(1.0, WIDEST, N_STRENGTHS) / np.abs(gradient).max()


def neighbours(X, i, C):
    """Return the columns that an L1-penalised logistic regression of column i selects."""
    others = 2.0 * np.delete(X, i, axis=1) - 1.0
    model = LogisticRegression(C=C, l1_ratio=1.0, solver="liblinear", max_iter=1000, random_state=0)
    return np.insert(model.fit(others, X[:, i]).coef_[0] != 0, i, False)


def neighbourhoods(X, i):
    """Return the columns that L1-penalised regressions of column i select, for each C."""
    for C in strengths(X):
        yield neighbours(X, i, C)


def ebic(X, i, chosen):
    """Return the extended BIC of an unpenalised logistic regression."""
    n_rows, n = X.shape
    p = np.full(n_rows, X[:, i].mean())
    if chosen.any():
        model = LogisticRegression(C=np.inf, solver="newton-cholesky")
        p = model.fit(2.0 * X[:, chosen] - 1.0, X[:, i]).predict_proba(2.0 * X[:, chosen] - 1.0)
    cost = chosen.sum() * (np.log(n_rows) + 2.0 * GAMMA * np.log(n - 1))
    return cost + 2.0 * log_loss(X[:, i], p, normalize=False)


def best_neighbourhood(X, i):
    """Return the neighbourhood with the smallest EBIC; stop after three without improvement."""
    best, least, since = None, np.inf, 0
    for chosen in neighbourhoods(X, i):
        value = ebic(X, i, chosen)
        if value < least:
            best, least, since = chosen, value, 0
        elif (since := since + 1) == PATIENCE:
            break
    return best


def l1_by_ebic(X, _truth):
    """Return edges that both ends select by L1 regression with the penalty chosen by EBIC."""
    chosen = np.array([best_neighbourhood(X, i) for i in range(X.shape[1])])
    return pairs_of(chosen & chosen.T)


def l1_family_wise(X, _truth):
    """Return edges of L1 regression with the penalty of Meinshausen and Buehlmann (2006) for 5%.

    It is the smallest penalty with which two components of the graph are joined with a probability
    of at most 5%. The score of an independent column is normal with variance p (1 - p) / rows.
    """
    n_rows, n = X.shape
    quantile = norm.isf(LEVEL / (2.0 * n**2))
    C = 1.0 / (X.std(axis=0) * np.sqrt(n_rows) * quantile)
    chosen = np.array([neighbours(X, i, C[i]) for i in range(n)])
    return pairs_of(chosen & chosen.T)


def l1_paths(X):
    """Return the edges that both ends select, for each C."""
    chosen = np.array([list(neighbourhoods(X, i)) for i in range(X.shape[1])])
    return [pairs_of(found & found.T) for found in chosen.transpose(1, 0, 2)]


def l1_by_oracle(X, truth):
    """Return edges of L1 regression with the C, common to all columns, of fewest wrong edges."""
    return min(l1_paths(X), key=lambda found: len(as_set(found) ^ truth))


def graphical_lasso(X, _truth, least=0.0):
    """Return pairs with a partial correlation above ``least`` in a sparse precision matrix."""
    precision = GraphicalLassoCV().fit(X).precision_
    scale = np.sqrt(np.diag(precision))
    return pairs_of(np.abs(precision / np.outer(scale, scale)) > least)


# Ours --------------------------------------------------------------------------------------


def ours(X, _truth, **parameters):
    """Return the edges of MRFStructureLearner."""
    return MRFStructureLearner(**parameters, random_state=0).fit(X).edges_


def paper_setting(n_chains, rate):
    """Return the parameters of the algorithm of the paper."""
    learner = PCD(n_chains=n_chains, n_sweeps=1)
    return {**PAPER, "learner": learner, "learning_rate": rate}


METHODS = {
    "default": ours,
    "default, exact learner": partial(ours, learner="exact"),
    "Holm, PCD": partial(ours, learner="pcd", search=WaldTests("holm")),
    "Holm, exact learner": partial(ours, learner="exact", search=WaldTests("holm")),
    "FDR, PCD": partial(ours, learner="pcd", search=WaldTests("fdr")),
    "threshold 0.25": partial(ours, search=Thresholding(0.25)),
    **{
        f"paper's, {n_chains} chains, rate {rate:g}": partial(ours, **paper_setting(n_chains, rate))
        for n_chains, rate in product((500, 5_000), (0.1, 0.06))
    },
    "node-wise, EBIC": partial(ours, search="nodewise"),
    "chi-square, Holm": dependent_pairs,
    "16 strongest pairs (oracle)": strongest_pairs,
    "scikit-learn L1, level 5%": l1_family_wise,
    "scikit-learn L1, EBIC": l1_by_ebic,
    "scikit-learn L1, best C (oracle)": l1_by_oracle,
    "GraphicalLassoCV": graphical_lasso,
    "GraphicalLassoCV, partial r > 0.05": partial(graphical_lasso, least=LEAST_CORRELATION),
}

# Recovery ----------------------------------------------------------------------------------

COLUMNS = {
    "method": "method",
    "n_sets": "data sets",
    "recovered": "recovered",
    "interval": "95%",
    "false": "false edges",
    "false_error": "s.e.",
    "missing": "missing edges",
    "missing_error": "s.e.",
    "ends": "(0, 9) found",
    "seconds": "s a fit",
}


def as_set(edges):
    """Return pairs as a set of tuples."""
    return set(map(tuple, np.asarray(edges).tolist()))


def judged(method, X, truth):
    """Run a method and return its false and missing edges and its processor seconds."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        start = time.process_time()
        found = as_set(method(X, truth))
        seconds = time.process_time() - start
    return {
        "false": len(found - truth),
        "missing": len(truth - found),
        "ends": ENDS in found,
        "seconds": seconds,
        "warnings": sorted({str(w.message)[:200] for w in caught}),
    }


def run_set(folder, seed, names):
    """Return all results on a data set, computed now or read from its file."""
    path = folder / f"{seed}.json"
    cell = json.loads(path.read_text()) if path.exists() else {}
    lacking = [name for name in names if name not in cell]
    if lacking:
        X = sample(ENERGY, N_ROWS, method="exact", random_state=seed)
        truth = as_set(pairs_of(ENERGY.coupling))
    for name in lacking:
        cell[name] = judged(METHODS[name], X, truth)
        print(seed, name, cell[name], flush=True)
        path.write_text(json.dumps(cell) + "\n")
    return cell


def compile_kernels():
    """Compile all kernels, so that compilation is not part of the timed fits."""
    X = sample(ENERGY, 200, method="exact", random_state=0)
    truth = as_set(pairs_of(ENERGY.coupling))
    for method in METHODS.values():
        judged(method, X, truth)


def summary(name, results):
    """Return the row of a method: fractions and means over data sets."""
    exact = [r["false"] + r["missing"] == 0 for r in results]
    low, high = binomtest(sum(exact), len(exact)).proportion_ci(method="wilson")
    row = {"method": name, "n_sets": len(results), "recovered": float(np.mean(exact))}
    row |= {"low": float(low), "high": float(high), "interval": f"{low:.2f} to {high:.2f}"}
    for key in ("false", "missing"):
        values = [r[key] for r in results]
        row[key] = float(np.mean(values))
        row[f"{key}_error"] = float(np.std(values) / np.sqrt(max(len(values) - 1, 1)))
    row["ends"] = float(np.mean([r["ends"] for r in results]))
    row["seconds"] = float(np.mean([r["seconds"] for r in results]))
    return row


def recovery(args):
    """Write the table of all methods."""
    folder = args.cells / "structure"
    folder.mkdir(parents=True, exist_ok=True)
    names = [] if args.table_only else args.methods
    if names:
        compile_kernels()
    cells = [run_set(folder, seed, names) for seed in range(args.n_sets)]
    found = {name: [cell[name] for cell in cells if name in cell] for name in METHODS}
    rows = [summary(name, results) for name, results in found.items() if results]
    n_missing = sum(name not in cell for cell in cells for name in args.methods)
    n_results = sum(map(len, found.values()))
    args = keep_larger_table(args, "structure.md", "recovery", n_results)
    source = computed_from(n_results, n_missing)
    save(
        args, "structure_recovery", rows, COLUMNS, ["Seconds are measured with one thread.", source]
    )
    text = f"{markdown(rows, COLUMNS)}\n\n{source}"
    write_tables(args.results / "structure.md", {"recovery": text})


# Figure 3 ----------------------------------------------------------------------------------

PATH_COLUMNS = {
    "name": "",
    "crossing": "(0, 1) leads from update",
    "apart": "(1, 2) removed at",
    "ends": "(0, 9) removed at",
    "right": "correct pairs of 45",
}
PUBLISHED = {"name": "paper", "crossing": 30, "apart": 2, "ends": 388, "right": 45}


def exact_moments(rate):
    """Fit by the algorithm of the paper without noise: exact gradient, all states as rows."""
    states = np.array(list(product((0, 1), repeat=ENERGY.n_variables)), dtype=np.int16)
    p = np.exp(ENERGY.log_potential(states))
    model = MRFStructureLearner("exact", **PAPER, learning_rate=rate)
    return model.fit(states, sample_weight=N_ROWS * p / p.sum())


def by_chains(seed):
    """Fit by the algorithm of the paper to a data set."""
    X = sample(ENERGY, N_ROWS, method="exact", random_state=seed)
    return MRFStructureLearner(**paper_setting(500, 0.1), random_state=seed).fit(X)


def beta_path(model, edge):
    """Return beta of an edge at each update, and the update of its removal or None."""
    path = model.path_
    k = np.flatnonzero((path.edges == edge).all(axis=1))[0]
    removed = int(path.removed[k])
    return 1.0 / (1.0 + np.exp(-path.parameters[:, k])), None if removed < 0 else removed


def events(name, model):
    """Return the row of the table with the updates of the main events."""
    (first, _), (ends, gone), (_, apart) = (beta_path(model, edge) for edge in SHOWN)
    leads = np.flatnonzero(ends > first)
    crossing = int(model.path_.iteration[leads[-1]]) + 1 if len(leads) else 0
    wrong = as_set(model.edges_) ^ as_set(pairs_of(ENERGY.coupling))
    n = ENERGY.n_variables
    right = n * (n - 1) // 2 - len(wrong)
    return {"name": name, "crossing": crossing, "apart": apart, "ends": gone, "right": right}


def draw_model(axes, model):
    """Draw the paths of three pairs, with a cross at each removal."""
    for edge, colour in SHOWN.items():
        beta, removed = beta_path(model, edge)
        label = f"{edge}, removed at {removed}" if removed else f"{edge}, stays"
        axes.plot(model.path_.iteration, beta, colour, label=label)
        if removed:
            axes.plot(removed, 0.5, "x", color=colour, markersize=9, markeredgewidth=2, zorder=3)


def draw_paths(path, noisy, exact):
    """Draw ``structure_paths.png``: data sets on the left, exact moments on the right."""
    try:
        from matplotlib.figure import Figure
    except ImportError:
        print("matplotlib is not installed: no PNG", flush=True)
        return
    figure = Figure(figsize=(12, 4.5), layout="constrained")
    left, right = figure.subplots(1, 2, sharey=True)
    for model in noisy[1:]:
        left.plot(model.path_.iteration, beta_path(model, ENDS)[0], "0.8", linewidth=0.7)
    draw_model(left, noisy[0])
    draw_model(right, exact)
    left.plot([], [], "0.8", label=f"{ENDS} of {len(noisy) - 1} other data sets")
    left.set_title("5,000 rows, 500 chains, rate 0.1")
    right.set_title("exact moments and gradient, rate 0.15")
    left.set_ylabel("beta")
    for axes in (left, right):
        axes.axhline(BETA, color="k", linewidth=0.5, linestyle=":")
        axes.set_xscale("log")
        axes.set_xlabel("update")
        axes.legend()
    figure.savefig(path, dpi=120)


def figure_3(args):
    """Make Figure 3: write the table and draw the paths of the edge parameters."""
    noisy = [by_chains(seed) for seed in range(3 if args.fast else 10)]
    exact = {rate: exact_moments(rate) for rate in (0.15, 0.1)}
    rows = [PUBLISHED]
    rows += [events(f"exact moments, rate {rate:g}", model) for rate, model in exact.items()]
    rows += [events(f"500 chains, data set {seed}", model) for seed, model in enumerate(noisy)]
    save(args, "structure_paths", rows, PATH_COLUMNS)
    tables = {"paths": markdown(rows, PATH_COLUMNS)}
    write_tables(args.results / "structure.md", tables)
    draw_paths(args.results / "structure_paths.png", noisy, exact[0.15])


def main(argv=None):
    parser = options(__doc__, cells=True)
    parser.add_argument("--n-sets", type=int, help="data sets; default: 40, 8 with --fast")
    parser.add_argument("--methods", nargs="*", choices=METHODS, default=list(METHODS))
    parser.add_argument(
        "--table-only", action="store_true", help="make tables from saved results only"
    )
    args = parser.parse_args(argv)
    args.n_sets = args.n_sets or (8 if args.fast else 40)
    if not args.table_only:
        figure_3(args)
    recovery(args)


if __name__ == "__main__":
    main()
