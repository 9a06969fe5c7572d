"""Reliability of learned graphs: calibrated edge probabilities, and stable edges of real data.

``--parts calibration``: the Erdős-Rényi graphs have couplings from weak to strong, so many edges
are uncertain. All pairs of all data sets are put into bins by their estimated probability. For each
bin, the table has the fraction of pairs that are true edges, with its standard error over the data
sets. `edge_frequency_`, the fraction of bootstraps that found an edge, is shown for comparison with
`edge_probability_`. It measures the stability of an edge, not its probability.

``--parts real``: the house votes of 1984 are the party and 16 votes (yes, no or missing) of 435
members. The spike trains are 15 and 50 neurons in 40,000 time bins. For each graph, the table has
the number of edges, the numbers of edges in at least 90% and in at most 50% of the bootstraps, the
number of edges with a probability below 0.9, and the number of edges of nodewise L1 regression on
the same rows. The figures show the graphs: the width of a line shows the coupling, negative
couplings are dashed, and edges in more bootstraps are darker.
"""

import csv
import gzip
import textwrap
import time
from itertools import pairwise
from pathlib import Path

import networkx as nx
import numpy as np
from _common import markdown, options, save, write_tables

from skmrf import MRFStructureLearner
from skmrf.datasets import make_ising
from skmrf.inference import sample
from skmrf.structure import WaldTests

BINS = np.array([0.0, 0.01, 0.05, 0.2, 0.4, 0.6, 0.8, 0.95, 0.99, 1.0])
CALIBRATION_COLUMNS = {
    "attribute": "attribute",
    "n_rows": "rows",
    "bin": "stated",
    "n_pairs": "pairs",
    "stated": "mean stated",
    "share": "share of edges",
    "std_error": "standard error",
}
REAL_COLUMNS = {
    "data": "data",
    "method": "method",
    "n_rows": "rows",
    "n_columns": "columns",
    "n_edges": "edges",
    "n_negative": "negative",
    "stable": "in 90% of bootstraps",
    "unstable": "in at most half",
    "doubtful": "probability < 0.9",
    "score": "pseudo-log-likelihood",
    "seconds": "fit s",
}


# Random graphs -----------------------------------------------------------------------------


def random_graph(n, rng):
    """Generate a random graph with couplings of size 0.03 to 0.3 (uniform) and random signs."""
    sizes = np.triu(rng.uniform(0.03, 0.3, size=(n, n)), 1)
    return make_ising(
        "erdos-renyi",
        n_variables=n,
        coupling=sizes + sizes.T,
        mixed_signs=True,
        degree=3.0,
        random_state=int(rng.integers(2**31)),
    )


def pairs_of(n_variables, n_rows, n_bootstraps, seed, n_jobs):
    """Return for all pairs of one data set whether they are edges, and their estimates."""
    rng = np.random.default_rng(seed)
    energy = random_graph(n_variables, rng)
    X = sample(energy, n_rows, random_state=seed)
    learner = MRFStructureLearner(
        "pseudo-likelihood", n_bootstraps=n_bootstraps, n_jobs=n_jobs, random_state=seed
    ).fit(X)
    upper = np.triu_indices(n_variables, 1)
    return {
        "truth": energy.coupling[upper] != 0,
        "edge_probability_": learner.edge_probability_[upper],
        "edge_frequency_": learner.edge_frequency_[upper],
    }


def reliability(sets, attribute, n_rows):
    """Return the rows of the table."""
    rows = []
    for low, high in pairwise(BINS):
        stated, hits, counts = [], [], []
        for found in sets:
            p = found[attribute]
            inside = (p >= low) & ((p < high) | (high == 1.0))
            stated.append(p[inside].sum())
            hits.append(found["truth"][inside].sum())
            counts.append(inside.sum())
        total = np.sum(counts)
        if total < 20:
            continue
        share = np.sum(hits) / total
        deviations = np.array(hits) - share * np.array(counts)
        rows.append(
            {
                "attribute": attribute,
                "n_rows": n_rows,
                "bin": f"{low:g} to {high:g}",
                "n_pairs": int(total),
                "stated": float(np.sum(stated) / total),
                "share": float(share),
                "std_error": float(np.sqrt(np.sum(deviations**2)) / total),
            }
        )
    return rows


def draw_reliability(args, rows):
    """Draw ``structure_calibration.png``, if matplotlib is installed."""
    try:
        from matplotlib.figure import Figure
    except ImportError:
        return
    sizes = sorted({row["n_rows"] for row in rows})
    figure = Figure(figsize=(4.2 * len(sizes), 4.2), layout="constrained")
    panels = np.atleast_1d(figure.subplots(1, len(sizes), sharey=True))
    for axes, n_rows in zip(panels, sizes, strict=True):
        axes.plot([0, 1], [0, 1], color="0.7", lw=1)
        for attribute in dict.fromkeys(row["attribute"] for row in rows):
            some = [r for r in rows if r["attribute"] == attribute and r["n_rows"] == n_rows]
            axes.errorbar(
                [r["stated"] for r in some],
                [r["share"] for r in some],
                [2 * r["std_error"] for r in some],
                marker="o",
                ms=4,
                capsize=2,
                label=attribute,
            )
        axes.set(title=f"{n_rows:,} rows", xlabel="stated", xlim=(-0.03, 1.03), ylim=(-0.03, 1.03))
    panels[0].set_ylabel("share of pairs that are edges")
    panels[0].legend(fontsize=8)
    figure.savefig(args.results / "structure_calibration.png", dpi=120)


# Real data ---------------------------------------------------------------------------------


def votes(folder):
    """Return rows of strings, with None for missing votes, and the column names."""
    with gzip.open(folder / "votes" / "house_votes_84.csv.gz", "rt") as file:
        names, *rows = csv.reader(file)
    rows = [[None if c.strip() == "?" else c.strip() for c in row] for row in rows if row]
    return np.array(rows, dtype=object), [name.strip() for name in names]


def spikes(folder, key):
    """Return rows of zeros and ones, and the column names."""
    with np.load(folder / "spikes" / "maxent_toolbox_spikes.npz") as file:
        n = int(file[f"{key}_n"])
        X = np.unpackbits(file[f"{key}_packed"], axis=1)[:, :n]
    return X, [str(i) for i in range(n)]


def judge(data, method, learner, X):
    """Fit a learner; return its row of the table and the learner."""
    start = time.perf_counter()
    learner.fit(X)
    seconds = time.perf_counter() - start
    i, j = learner.edges_.T
    row = {
        "data": data,
        "method": method,
        "n_rows": len(X),
        "n_columns": X.shape[1],
        "n_edges": len(learner.edges_),
        "n_negative": int((learner.coupling_[i, j] < 0).sum()),
        "doubtful": int((learner.edge_probability_[i, j] < 0.9).sum()),
        "score": learner.score(X),
        "seconds": seconds,
    }
    if learner.n_bootstraps:
        share = learner.edge_frequency_[i, j]
        row |= {"stable": int((share >= 0.9).sum()), "unstable": int((share <= 0.5).sum())}
    return row, learner


def draw_graph(axes, learner, names, title):
    """Draw one graph: columns on a circle, next to their neighbours, and names outside of it."""
    graph = learner.graph_
    order = nx.spectral_ordering(graph, weight=None, seed=0)
    angles = 2 * np.pi * (np.arange(len(order)) + 0.5) / len(order)
    circle = np.stack([np.cos(angles), np.sin(angles)], axis=1)
    places = dict(zip(order, circle, strict=True))
    for sign, style in ((1.0, "solid"), (-1.0, "dashed")):
        some = [(u, v) for u, v, s in graph.edges(data="sign") if s == sign]
        nx.draw_networkx_edges(
            graph,
            places,
            some,
            width=[0.5 + 3 * min(abs(graph.edges[e]["weight"]), 1.5) for e in some],
            edge_color=[0.25 + 0.75 * graph.edges[e]["frequency"] for e in some],
            edge_cmap=_blues(),
            edge_vmin=0,
            edge_vmax=1,
            style=style,
            ax=axes,
        )
    nx.draw_networkx_nodes(graph, places, node_size=60, node_color="0.6", ax=axes)
    for node, (x, y) in places.items():
        side = "center" if abs(x) < 0.2 else "left" if x > 0 else "right"
        edge = "center" if abs(y) < 0.8 else "bottom" if y > 0 else "top"
        name = textwrap.fill(names[node], 13 if side == "center" else 18)
        axes.text(1.07 * x, 1.07 * y, name, ha=side, va=edge, fontsize=9)
    axes.set_title(title, fontsize=11)
    axes.set(xlim=(-2, 2), ylim=(-1.4, 1.4), aspect="equal")
    axes.axis("off")


def _blues():
    from matplotlib import colormaps

    return colormaps["Blues"]


def measure_calibration(args):
    """Write the table and the picture of edge probabilities on random graphs."""
    n_bootstraps = 10 if args.n_bootstraps is None else args.n_bootstraps
    n_sets = 8 if args.fast else args.n_sets
    rows = []
    for n_rows in (500, 2000):
        sets = [
            pairs_of(args.n_variables, n_rows, n_bootstraps, seed, args.n_jobs)
            for seed in range(n_sets)
        ]
        for attribute in list(sets[0])[1:]:
            rows += reliability(sets, attribute, n_rows)
    note = f"{n_sets} graphs of {args.n_variables} variables, {n_bootstraps} bootstraps."
    save(args, "structure_calibration", rows, CALIBRATION_COLUMNS, [note])
    tables = {"calibration": markdown(rows, CALIBRATION_COLUMNS)}
    write_tables(args.results / "structure.md", tables)
    draw_reliability(args, rows)


def measure_real(args):
    """Write the table and the picture of the graphs of votes and neurons."""
    folder = Path(args.data_home)
    sets = {"house votes": votes(folder), "15 neurons": spikes(folder, "spikes15")}
    if not args.fast:
        sets["50 neurons"] = spikes(folder, "spikes50")
    n_bootstraps = args.n_bootstraps or (10 if args.fast else 50)
    rows, drawn = [], []
    for data, (X, names) in sets.items():
        holm = WaldTests("holm")
        by_pcd = MRFStructureLearner("pcd", search=holm, random_state=0)
        repeated = MRFStructureLearner(
            search=holm, n_bootstraps=n_bootstraps, n_jobs=args.n_jobs, random_state=0
        )
        nodewise = MRFStructureLearner(search="nodewise", random_state=0)
        rows.append(judge(data, "Holm, PCD", by_pcd, X)[0])
        row, learner = judge(data, f"Holm, {n_bootstraps} bootstraps", repeated, X)
        rows.append(row)
        drawn.append((learner, names, f"{data}: {row['n_edges']} edges"))
        rows.append(judge(data, "nodewise", nodewise, X)[0])
        print(*rows[-3:], sep="\n", flush=True)
    save(args, "structure_real", rows, REAL_COLUMNS)
    write_tables(args.results / "structure.md", {"real data": markdown(rows, REAL_COLUMNS)})
    draw_graphs(args, drawn)


def draw_graphs(args, drawn):
    """Draw ``structure_real.png``, if matplotlib is installed."""
    try:
        from matplotlib.figure import Figure
    except ImportError:
        return
    figure = Figure(figsize=(5.8, 4.4 * len(drawn)), layout="constrained")
    for axes, what in zip(np.atleast_1d(figure.subplots(len(drawn))), drawn, strict=True):
        draw_graph(axes, *what)
    figure.savefig(args.results / "structure_real.png", dpi=110)


PARTS = {"calibration": measure_calibration, "real": measure_real}


def main(argv=None):
    parser = options(__doc__, data=True)
    parser.add_argument("--parts", nargs="*", choices=PARTS, default=list(PARTS))
    parser.add_argument("--n-sets", type=int, default=40)
    parser.add_argument("--n-bootstraps", type=int, help="default: 10, and 50 for real data")
    parser.add_argument("--n-variables", type=int, default=20)
    parser.add_argument("--n-jobs", type=int, default=1)
    args = parser.parse_args(argv)
    for part in args.parts:
        PARTS[part](args)


if __name__ == "__main__":
    main()
