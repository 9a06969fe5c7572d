"""Edges of larger graphs: F1, false edges and seconds by graph, variables, rows and method.

The models are Ising models on four kinds of graphs, with positive couplings and with mixed signs,
and disjoint copies of the example of Liu and Page (2013), where the most correlated pair is not an
edge. Rows are drawn exactly if variable elimination needs at most 256 MB, and otherwise by 300
sweeps of one chain per row. The results on a problem are saved in a JSON file in the folder
``--cells`` and are not computed again, so the tables can be completed in several runs. A method
that takes longer than ``--time-limit`` is stopped. It is then skipped for the same kind of graph
with at least as many variables and rows. Tables compare all methods on the problems that all of
them have solved.

The part "mixed" has 20 columns: continuous, skewed, counts, ordinal and categorical. The rows are
drawn by Gibbs chains from a pairwise model of Gaussian and categorical variables, and some Gaussian
variables are then transformed. The part "Gaussian" has 20 continuous columns. There the method
"tests, graph known" tests each pair of columns once, with Holm's control, in regressions on the
neighbours in the true graph. The other methods see the same rows: L1 regressions and the graphical
lasso of scikit-learn on indicators of categories, and ``MRFStructureLearner`` on binned columns.
"""

import json
import signal
import time
import warnings
from functools import partial
from itertools import product

import numpy as np
from _common import (
    computed_from,
    describe_machine,
    keep_larger_table,
    markdown,
    options,
    peak_bytes,
    reset_peak,
    save,
    write_tables,
)
from sklearn.linear_model import LassoLarsIC, LogisticRegression
from structure import (
    ENERGY,
    LEAST_CORRELATION,
    as_set,
    dependent_pairs,
    graphical_lasso,
    l1_by_ebic,
    l1_family_wise,
    ours,
    pairs_of,
)

from skmrf import MRFStructureLearner
from skmrf.datasets import make_ising
from skmrf.inference import sample
from skmrf.structure import WaldTests
from skmrf.structure.mixed import MixedRows, assess_graph, fit_graph
from skmrf.structure.significance import adjust_p_values

MODELS = {  # with stronger couplings, variables with many neighbours would not mix
    "erdos-renyi": {"coupling": 0.3, "degree": 4},
    "grid": {"coupling": 0.3},
    "power-law": {"coupling": 0.2, "degree": 4},
    "regular": {"coupling": 0.3, "degree": 3},
}
NON_DECAY = "non-decay"
GRAPHS = [f"{kind}{signs}" for signs in ("", ", mixed") for kind in MODELS] + [NON_DECAY]
SIZES = 10, 50, 100, 200, 500
ROWS = 500, 2_000, 10_000, 50_000
SWEEPS, ELIMINATION_BYTES = 300, 2**28
LEARNER = "pseudo-likelihood"
BASE = "Holm, PCD"  # method with which the others are compared
METHODS = {
    BASE: partial(ours, learner="pcd", search=WaldTests("holm")),
    "Holm, pseudo-likelihood": partial(ours, learner=LEARNER, search=WaldTests("holm")),
    "FDR, pseudo-likelihood": partial(ours, learner=LEARNER, search=WaldTests("fdr")),
    "node-wise, EBIC": partial(ours, search="nodewise"),
    "chi-square, Holm": dependent_pairs,
    "scikit-learn L1, level 5%": l1_family_wise,
    "scikit-learn L1, EBIC": l1_by_ebic,
    "GraphicalLassoCV, partial r > 0.05": partial(graphical_lasso, least=LEAST_CORRELATION),
}
LARGEST = {"GraphicalLassoCV, partial r > 0.05": 100}
CRITERIA = {
    "any false edge: 5%": (
        BASE,
        "Holm, pseudo-likelihood",
        "chi-square, Holm",
        "scikit-learn L1, level 5%",
    ),
    "false discoveries: 5%": ("FDR, pseudo-likelihood",),
    "EBIC": ("node-wise, EBIC", "scikit-learn L1, EBIC"),
}
PAIRS = {  # ours and L1 by the same criterion
    "any false edge: 5%": (BASE, "scikit-learn L1, level 5%"),
    "EBIC": ("node-wise, EBIC", "scikit-learn L1, EBIC"),
}
GAINS = {
    "criterion": "criterion",
    "ours": "ours",
    "graphs": "graphs",
    "rows": "rows",
    "problems": "problems",
    "f1": "F1",
    "other": "F1 of L1",
    "gain": "difference",
    "gain_error": "s.e.",
    "better": "better",
    "worse": "worse",
}
COLUMNS = {
    "n": "n",
    "n_rows": "rows",
    "method": "method",
    "problems": "problems",
    "f1": "F1",
    "f1_error": "s.e.",
    "false": "false edges",
    "missing": "missing edges",
    "seconds": "s a fit",
    "gain": "F1 of PCD with Holm less this",
    "gain_error": "s.e.",
    "over": "stopped",
}


class TimeLimitExceeded(Exception):
    """Exception raised at the end of the time limit."""


# Problems ----------------------------------------------------------------------------------


def problem(graph, n, n_rows, seed):
    """Return rows and the set of edges."""
    if graph == NON_DECAY:
        return non_decay(n, n_rows, seed)
    kind, *signs = graph.split(", ")
    energy = make_ising(
        kind, n_variables=n, **MODELS[kind], mixed_signs=bool(signs), random_state=seed
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        X = sample(energy, n_rows, max_bytes=ELIMINATION_BYTES, n_sweeps=SWEEPS, random_state=seed)
    return X, as_set(pairs_of(energy.coupling))


def non_decay(n, n_rows, seed):
    """Return rows and edges of several independent copies of the example of Liu and Page."""
    size = ENERGY.n_variables
    X = sample(ENERGY, n_rows * (n // size), method="exact", random_state=seed)
    copies = size * np.arange(n // size)[:, None, None]
    edges = (pairs_of(ENERGY.coupling) + copies).reshape(-1, 2)
    return X.reshape(n_rows, n), as_set(edges)


def stop(*_):
    """Raise at the end of the time limit (signal handler)."""
    raise TimeLimitExceeded


def judged(method, X, truth, limit):
    """Run a method; return its scores, or the limit if it took longer in processor seconds."""
    before = reset_peak()
    signal.signal(signal.SIGPROF, stop)
    start = time.process_time()
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            signal.setitimer(signal.ITIMER_PROF, limit)
            found = as_set(method(X, truth))
        except TimeLimitExceeded:
            return {"over": limit}
        finally:
            signal.setitimer(signal.ITIMER_PROF, 0)
    seconds = time.process_time() - start
    return {
        "f1": 2 * len(found & truth) / max(len(found) + len(truth), 1),
        "false": len(found - truth),
        "missing": len(truth - found),
        "seconds": seconds,
        "mb": round((peak_bytes() - before) / 2**20),
        "warnings": sorted({str(w.message)[:200] for w in caught}),
    }


# Cells -------------------------------------------------------------------------------------


def read_cells(folder):
    """Read all saved results, keyed by (graph, n, rows, seed)."""
    cells = {}
    for path in sorted(folder.glob("*.json")):
        graph, *numbers = path.stem.rsplit("-", 3)
        cells[graph.replace("_", ", "), *map(int, numbers)] = json.loads(path.read_text())
    return cells


def write_cell(folder, key, cell):
    """Write the file of one problem."""
    graph, *numbers = key
    name = "-".join([graph.replace(", ", "_"), *map(str, numbers)])
    (folder / f"{name}.json").write_text(json.dumps(cell) + "\n")


def known_too_slow(cells, key, method, limit):
    """Return whether the method exceeded at least this limit on a problem of at most this size."""
    graph, n, n_rows, _ = key
    return any(
        other[0] == graph
        and other[1] <= n
        and other[2] <= n_rows
        and cell.get(method, {}).get("over", 0) >= limit
        for other, cell in cells.items()
    )


def run_cell(folder, cells, key, args):
    """Compute the missing results of a problem."""
    _, n, _, _ = key
    cell = cells.setdefault(key, {})
    lacking = [
        name
        for name in args.methods
        if n <= LARGEST.get(name, n)
        and cell.get(name, {}).get("over", 0) < args.time_limit
        and "f1" not in cell.get(name, {})
    ]
    slow = [name for name in lacking if known_too_slow(cells, key, name, args.time_limit)]
    cell |= {name: {"over": args.time_limit} for name in slow}
    wanted = [name for name in lacking if name not in slow]
    X, truth = problem(*key) if wanted else (None, None)
    for name in wanted:
        cell[name] = judged(METHODS[name], X, truth, args.time_limit)
        print(*key, name, cell[name], flush=True)
        write_cell(folder, key, {**cell, "machine": describe_machine()})
    if slow:
        write_cell(folder, key, {**cell, "machine": describe_machine()})


def run(folder, args):
    """Run all problems, starting with few variables, few rows and the first seed."""
    cells = read_cells(folder)
    X, truth = problem("grid", 10, 200, 0)
    for name in args.methods:
        judged(METHODS[name], X, truth, args.time_limit)  # compiles
    for seed, n, n_rows, graph in product(args.seeds, args.sizes, args.rows, args.graphs):
        run_cell(folder, cells, (graph, n, n_rows, seed), args)


# Tables ------------------------------------------------------------------------------------


def mean_and_error(values, seeds):
    """Return the mean and its standard error over seeds, None for a single seed."""
    values, seeds = np.array(values, dtype=float), np.array(seeds)
    means = [values[seeds == seed].mean() for seed in np.unique(seeds)]
    error = np.std(means, ddof=1) / np.sqrt(len(means)) if len(means) > 1 else None
    return float(values.mean()), None if error is None else float(error)


def compared(cells, n, n_rows):
    """Return the table rows of one size, for problems that all unstopped methods solved."""
    here = {k: c for k, c in cells.items() if k[1:3] == (n, n_rows)}
    met = [name for name in METHODS if any(name in c for c in here.values())]
    over = {name: max(c.get(name, {}).get("over", 0) for c in here.values()) for name in met}
    whole = [name for name in met if not over[name]]
    common = {k: c for k, c in here.items() if all(name in c for name in whole)}
    for name in met:
        row = {"n": n, "n_rows": n_rows, "method": name, "problems": len(common)}
        if name not in whole:
            yield {**row, "problems": 0, "over": f"{over[name]:g} s"}
        elif common:
            yield row | _scores(common, name, BASE in whole)


def _scores(cells, name, has_base):
    seeds = [key[3] for key in cells]
    row = {}
    for key in ("f1", "false", "missing", "seconds"):
        values = [cell[name][key] for cell in cells.values()]
        row[key], row[f"{key}_error"] = mean_and_error(values, seeds)
    if has_base and name != BASE:
        gains = [cell[BASE]["f1"] - cell[name]["f1"] for cell in cells.values()]
        row["gain"], row["gain_error"] = mean_and_error(gains, seeds)
    return row


def table(cells):
    """Return the rows of all sizes."""
    sizes = sorted({key[1:3] for key in cells})
    return [row for size in sizes for row in compared(cells, *size)]


def wide(rows, key, digits):
    """Format a table in Markdown: a row per size, a column per method."""
    names = [name for name in METHODS if any(row["method"] == name for row in rows)]
    lines = {}
    for row in rows:
        line = lines.setdefault((row["n"], row["n_rows"]), {"n": row["n"], "rows": row["n_rows"]})
        line["problems"] = max(row["problems"], line.get("problems", 0))
        error = row.get(f"{key}_error")
        spread = "" if error is None else f" ± {error:.{digits}f}"
        line[row["method"]] = f"> {row['over']}" if "over" in row else f"{row[key]:.{digits}f}"
        line[row["method"]] += "" if "over" in row else spread
    heads = ("n", "rows", "problems", *names)
    return markdown(list(lines.values()), {head: head for head in heads})


def over_sizes(rows):
    """Return means over the sizes that all methods with a criterion have."""
    names = [name for group in CRITERIA.values() for name in group]
    sizes = {}
    for row in rows:
        if row["method"] in names and "f1" in row:
            sizes.setdefault((row["n"], row["n_rows"]), {})[row["method"]] = row
    whole = [size for size in sizes.values() if len(size) == len(names)]
    for criterion, group in CRITERIA.items() if whole else ():
        for name in group:
            means = {
                key: float(np.mean([size[name][key] for size in whole]))
                for key in ("f1", "false", "missing")
            }
            yield {"criterion": criterion, "method": name, "sizes": len(whole), **means}


def gains(cells):
    """Compare our method with L1 by the same criterion, on each problem."""
    graphs = {"all": set(GRAPHS), NON_DECAY: {NON_DECAY}}
    sizes = {"all": (0, np.inf), "500": (0, 500), "2,000 and more": (2_000, np.inf)}
    for criterion, (kind, names), (label, (low, high)) in product(
        PAIRS, graphs.items(), sizes.items()
    ):
        here = [c for k, c in cells.items() if k[0] in names and low <= k[2] <= high]
        row = {"criterion": criterion, "graphs": kind, "rows": label}
        yield row | _gain(here, *PAIRS[criterion])


def _gain(cells, own, other):
    both = [[cell.get(name, {}).get("f1", np.nan) for name in (own, other)] for cell in cells]
    f1 = np.array([pair for pair in both if not np.isnan(pair).any()]).reshape(-1, 2)
    gain = f1[:, 0] - f1[:, 1]
    row = {"ours": own, "problems": len(f1)}
    if len(f1) > 1:
        row |= dict(zip(("f1", "other"), f1.mean(axis=0).tolist(), strict=True))
        row |= {"gain": float(gain.mean()), "gain_error": float(gain.std(ddof=1) / len(f1) ** 0.5)}
        row |= {"better": int((gain > 0).sum()), "worse": int((gain < 0).sum())}
    return row


def with_ratios(rows):
    """Return the rows of sizes that the base method has, with seconds relative to it."""
    base = {(r["n"], r["n_rows"]): r.get("seconds") for r in rows if r["method"] == BASE}
    for row in rows:
        unit = base.get((row["n"], row["n_rows"]))
        if unit:
            yield row if "over" in row else {**row, "ratio": row["seconds"] / unit}


def count_results(args, cells):
    """Return the number of results, and of missing requested results."""
    there = {(key, name) for key, cell in cells.items() for name in METHODS if name in cell}
    requested = {
        ((graph, n, n_rows, seed), name)
        for graph, n, n_rows, seed, name in product(
            args.graphs, args.sizes, args.rows, args.seeds, args.methods
        )
        if n <= LARGEST.get(name, n)
    }
    return len(there), len(requested - there)


def save_tables(args, cells, source):
    """Print and write all tables, and write the JSON file."""
    rows = table(cells)
    special = table({k: c for k, c in cells.items() if k[0] == NON_DECAY})
    notes = ["Standard errors are those of means over seeds.", source]
    save(args, "structure_grid", rows, COLUMNS, notes)
    shown = {
        "f1": (rows, "f1", 3),
        "non-decay": (special, "f1", 3),
        "non-decay false": (special, "false", 1),
        "false": (rows, "false", 1),
        "missing": (rows, "missing", 1),
        "seconds": (rows, "seconds", 2),
        "ratios": (list(with_ratios(rows)), "ratio", 2),
    }
    heads = {key: COLUMNS.get(key, key) for key in ("criterion", "method", "sizes")}
    heads |= {key: COLUMNS[key] for key in ("f1", "false", "missing")}
    texts = {name: wide(*how) for name, how in shown.items()}
    texts["f1"] += f"\n\n{source}"
    texts |= {"gains": markdown(list(gains(cells)), GAINS)}
    texts |= {"criteria": markdown(list(over_sizes(rows)), heads)}
    texts |= {"non-decay criteria": markdown(list(over_sizes(special)), heads)}
    tables = {f"grid {name}": text for name, text in texts.items()}
    write_tables(args.results / "structure.md", tables)
    for name, text in texts.items():
        print(f"\n{name}", text, sep="\n", flush=True)


# Mixed columns -----------------------------------------------------------------------------

N_MIXED, N_CATEGORICAL, DEGREE = 20, 8, 3
EFFECT, CROSS_EFFECT, TABLE_EFFECT = 0.25, 0.5, 0.8  # of two numbers, of both kinds, of categories
N_BINS, N_STRENGTHS = 4, 8
KINDS = ["continuous"] * 4 + ["skewed"] * 3 + ["integer"] * 3 + ["ordinal"] * 2
MIXED_ROWS = {"mixed": (200, 500, 2_000), "Gaussian": (100, 200, 500, 2_000)}
GRAPH_KNOWN = "tests, graph known"
MIXED_COLUMNS = {
    "data": "columns",
    "n_rows": "rows",
    "method": "method",
    "problems": "graphs",
    "f1": "F1",
    "f1_error": "s.e.",
    "false": "false edges",
    "missing": "missing edges",
    "agreement": "F1 with our tests",
    "seconds": "s a fit",
}


def random_edges(n, rng):
    """Return the edges of a random graph in which each variable has at most DEGREE neighbours."""
    edges, degree = [], np.zeros(n, dtype=int)
    pairs = np.column_stack(np.triu_indices(n, 1))
    for i, j in rng.permutation(pairs).tolist():
        if max(degree[i], degree[j]) < DEGREE:
            edges.append((i, j))
            degree[[i, j]] += 1
    return sorted(edges)


def draw_mixed(n_states, edges, n_rows, rng):
    """Return rows of a pairwise model of Gaussian variables (0 states) and categorical variables.

    A Gaussian variable has the conditional variance 1. Each row is the end of a Gibbs chain.
    """
    weights = [[] for _ in n_states]
    for i, j in edges:
        signs = rng.permutation([-1.0, 1.0])[0]
        shape = [max(n_states[v], 1) for v in (i, j)]
        if shape == [1, 1]:
            table = np.full((1, 1), EFFECT * signs)
        elif 1 in shape:
            table = CROSS_EFFECT * rng.permutation(np.linspace(-1, 1, max(shape))).reshape(shape)
        else:
            table = TABLE_EFFECT * rng.permutation(np.eye(*shape))
        weights[i].append((j, table))
        weights[j].append((i, table.T))
    features = [np.eye(q)[rng.integers(q, size=n_rows)] if q else np.zeros((n_rows, 1))
                for q in n_states]  # fmt: skip
    for _ in range(SWEEPS // 3):
        for v, q in enumerate(n_states):
            terms = [features[j] @ table.T for j, table in weights[v]]
            field = sum(terms, np.zeros((n_rows, max(q, 1))))
            if q:
                features[v] = np.eye(q)[np.argmax(field + rng.gumbel(size=field.shape), axis=1)]
            else:
                features[v] = field + rng.standard_normal(field.shape)
    return np.column_stack([x.argmax(axis=1) if x.shape[1] > 1 else x for x in features])


def mixed_problem(data, n_rows, seed):
    """Return rows, types of the columns, and the set of edges."""
    rng = np.random.default_rng([seed, n_rows])
    n_states, kinds = np.zeros(N_MIXED, dtype=int), np.full(N_MIXED, "continuous", dtype=object)
    if data == "mixed":
        order = rng.permutation(N_MIXED)
        n_states[order[:N_CATEGORICAL]] = rng.integers(2, 5, size=N_CATEGORICAL)
        kinds[order] = ["categorical"] * N_CATEGORICAL + KINDS
    edges = random_edges(N_MIXED, rng)
    X = draw_mixed(n_states.tolist(), edges, n_rows, rng)
    for j, kind in enumerate(kinds):
        if kind == "skewed":
            X[:, j] = np.exp(X[:, j])
        elif kind == "integer":
            X[:, j] = np.floor(np.exp(0.7 * X[:, j] + 2.0))
        elif kind == "ordinal":
            X[:, j] = np.searchsorted(np.quantile(X[:, j], (0.1, 0.3, 0.6, 0.8)), X[:, j])
    types = np.where(kinds == "skewed", "continuous", kinds).tolist()
    return X, types, as_set(edges)


def ours_mixed(X, types, **parameters):
    """Return the edges of MRFStructureLearner with given types of columns."""
    return MRFStructureLearner(column_types=types, random_state=0, **parameters).fit(X).edges_


def known_graph(X, _, truth):
    """Return the pairs that tests in regressions on the true neighbours find."""
    rows = MixedRows(
        (X - X.mean(axis=0)) / X.std(axis=0), np.ones(len(X)), np.zeros(X.shape[1], int)
    )
    tests = assess_graph(rows, fit_graph(rows, np.array(sorted(truth)), None), others=True)
    pairs = np.column_stack(np.triu_indices(X.shape[1], 1))
    return pairs[adjust_p_values(tests.p, "holm") <= WaldTests().level]


def ours_binned(X, types):
    """Return the edges of MRFStructureLearner after numeric columns are binned."""
    X = X.copy()
    for j in np.flatnonzero(np.array(types) != "categorical"):
        limits = np.quantile(X[:, j], np.arange(1, N_BINS) / N_BINS)
        X[:, j] = np.searchsorted(np.unique(limits), X[:, j], side="right")
    return MRFStructureLearner("pseudo-likelihood", random_state=0).fit(X.astype(int)).edges_


def indicators(X, types):
    """Return standardised numbers and indicators of all categories but one, and their columns."""
    blocks, owner = [], []
    for j, kind in enumerate(types):
        block = X[:, [j]]
        if kind == "categorical":
            block = 1.0 * (block == np.unique(block)[1:])
        blocks.append((block - block.mean(axis=0)) / block.std(axis=0))
        owner += [j] * block.shape[1]
    return np.hstack(blocks), np.array(owner)


def lasso_of_indicators(X, types, least=0.0):
    """Return pairs of columns whose indicators have an edge in the graphical lasso."""
    Z, owner = indicators(X, types)
    pairs = np.sort(owner[graphical_lasso(Z, None, least)], axis=1)
    return np.unique(pairs[pairs[:, 0] < pairs[:, 1]], axis=0)


def l1_of_indicators(X, types):
    """Return pairs that L1 regressions of both columns select, with penalties of least BIC."""
    Z, owner = indicators(X, types)
    chosen = np.zeros((len(types), len(types)), dtype=bool)
    for i, kind in enumerate(types):
        inputs = owner != i
        if kind == "categorical":
            found = [best_logistic(Z[:, inputs], X[:, i] == v) for v in np.unique(X[:, i])]
            selected = np.any(found, axis=0)
        else:
            selected = LassoLarsIC("bic").fit(Z[:, inputs], Z[:, owner == i][:, 0]).coef_ != 0
        chosen[i, owner[inputs][selected]] = True
    return pairs_of(chosen & chosen.T)


def best_logistic(Z, y):
    """Return the regressors of the L1-penalised logistic regression with the smallest BIC."""
    largest = np.abs(Z.T @ (y - y.mean())).max()
    best, least = np.zeros(Z.shape[1], dtype=bool), np.inf
    for C in np.geomspace(1.0, 30.0, N_STRENGTHS) / largest:
        model = LogisticRegression(C=C, l1_ratio=1.0, solver="liblinear", random_state=0).fit(Z, y)
        log_p = -np.logaddexp(0.0, -np.where(y, 1, -1) * model.decision_function(Z)).sum()
        criterion = (model.coef_ != 0).sum() * np.log(len(y)) - 2.0 * log_p
        if criterion < least:
            best, least = model.coef_[0] != 0, criterion
    return best


MIXED_METHODS = {
    "tests": ours_mixed,
    "tests, Holm": partial(ours_mixed, search=WaldTests("holm")),
    "tests, FDR": partial(ours_mixed, search=WaldTests("fdr")),
    "nodewise, EBIC": partial(ours_mixed, search="nodewise"),
    "tests, binned columns": ours_binned,
    "scikit-learn L1, BIC": l1_of_indicators,
    "GraphicalLassoCV": lasso_of_indicators,
    "GraphicalLassoCV, partial r > 0.05": partial(lasso_of_indicators, least=LEAST_CORRELATION),
}


def run_mixed(args):
    """Run all methods on mixed and on Gaussian columns, print each row, and write the table."""
    rows, n_graphs = [], 2 if args.fast else 10
    for data, sizes in MIXED_ROWS.items():
        for n_rows in sizes[:1] if args.fast else sizes:
            found = {}
            for seed in range(n_graphs):
                X, types, truth = mixed_problem(data, n_rows, seed)
                base = None
                methods = dict(MIXED_METHODS)
                if data == "Gaussian":
                    methods[GRAPH_KNOWN] = partial(known_graph, truth=truth)
                for name, method in methods.items():
                    edges, score = judged_mixed(method, X, types, truth, base)
                    base = edges if base is None else base
                    found.setdefault(name, []).append(score)
            for name, scores in found.items():
                rows.append({"data": data, "n_rows": n_rows, "method": name} | mean_scores(scores))
                print(markdown(rows[-1:], MIXED_COLUMNS).splitlines()[-1], flush=True)
    save(args, "structure_mixed", rows, MIXED_COLUMNS)
    write_tables(args.results / "structure.md", {"mixed": markdown(rows, MIXED_COLUMNS)})


def judged_mixed(method, X, types, truth, base):
    """Run a method; return its edges and its scores, also relative to the edges of ``base``."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        start = time.process_time()
        edges = as_set(method(X, types))
        seconds = time.process_time() - start
    reference = edges if base is None else base
    return edges, {
        "f1": 2 * len(edges & truth) / max(len(edges) + len(truth), 1),
        "false": len(edges - truth),
        "missing": len(truth - edges),
        "agreement": 2 * len(edges & reference) / max(len(edges) + len(reference), 1),
        "seconds": seconds,
    }


def mean_scores(scores):
    """Return the means over graphs, and the standard error of F1."""
    row = {key: float(np.mean([s[key] for s in scores])) for key in scores[0]}
    f1 = [s["f1"] for s in scores]
    return row | {
        "problems": len(scores),
        "f1_error": float(np.std(f1, ddof=1) / np.sqrt(len(f1))),
    }


def main(argv=None):
    parser = options(__doc__, cells=True)
    parser.add_argument(
        "--parts", nargs="*", choices=("grid", "mixed"), default=["grid"], help="default: grid"
    )
    parser.add_argument("--graphs", nargs="*", choices=GRAPHS, default=GRAPHS)
    parser.add_argument("--sizes", nargs="*", type=int, help="variables; default: 10 to 500")
    parser.add_argument("--rows", nargs="*", type=int, help="default: 500 to 50,000")
    parser.add_argument("--seeds", nargs="*", type=int, default=[0, 1, 2])
    parser.add_argument("--methods", nargs="*", choices=METHODS, default=list(METHODS))
    parser.add_argument(
        "--time-limit", type=float, default=600.0, help="processor seconds of a fit"
    )
    parser.add_argument(
        "--table-only", action="store_true", help="make tables from saved results only"
    )
    args = parser.parse_args(argv)
    if "mixed" in args.parts:
        run_mixed(args)
    if "grid" not in args.parts:
        return
    args.sizes = args.sizes or ((10,) if args.fast else SIZES)
    args.rows = args.rows or (ROWS[:2] if args.fast else ROWS)
    folder = args.cells / "structure_grid"
    folder.mkdir(parents=True, exist_ok=True)
    if not args.table_only:
        run(folder, args)
    cells = read_cells(folder)
    counts = count_results(args, cells)
    args = keep_larger_table(args, "structure.md", "grid f1", counts[0])
    save_tables(args, cells, computed_from(*counts))


if __name__ == "__main__":
    main()
