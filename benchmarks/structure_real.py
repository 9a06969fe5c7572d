"""Graphs of spike trains and of house votes, with the stability of their edges.

The house votes of 1984 are the party and 16 votes (yes, no or missing) of 435 members. The spike
trains are 15 and 50 neurons in 40,000 time bins. For each graph, the table has the number of edges,
the numbers of edges in at least 90% and in at most 50% of the bootstraps, the number of edges with
a probability below 0.9, and the number of edges of nodewise L1 regression on the same rows. The
figures show the graphs: the width of a line shows the coupling, negative couplings are dashed, and
edges in more bootstraps are darker.
"""

import csv
import gzip
import time
from pathlib import Path

import networkx as nx
import numpy as np
from _common import markdown, options, save, write_tables

from skmrf import MRFStructureLearner

COLUMNS = {
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


def draw(axes, learner, names, title):
    """Draw one graph."""
    graph = nx.relabel_nodes(learner.graph_, dict(enumerate(names)))
    distance = {e: 1.0 / (0.1 + abs(w)) for e, w in nx.get_edge_attributes(graph, "weight").items()}
    nx.set_edge_attributes(graph, distance, "distance")
    places = nx.kamada_kawai_layout(graph, weight="distance") if graph.edges else None
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
    nx.draw_networkx_nodes(graph, places, node_size=90, node_color="0.85", ax=axes)
    nx.draw_networkx_labels(graph, places, font_size=7, ax=axes)
    axes.set_title(title, fontsize=10)
    axes.margins(0.15)
    axes.axis("off")


def _blues():
    from matplotlib import colormaps

    return colormaps["Blues"]


def main(argv=None):
    parser = options(__doc__, data=True)
    parser.add_argument("--n-bootstraps", type=int, default=50)
    parser.add_argument("--n-jobs", type=int, default=1)
    args = parser.parse_args(argv)
    folder = Path(args.data_home)
    sets = {"house votes": votes(folder), "15 neurons": spikes(folder, "spikes15")}
    if not args.fast:
        sets["50 neurons"] = spikes(folder, "spikes50")
    n_bootstraps = 10 if args.fast else args.n_bootstraps
    rows, drawn = [], []
    for data, (X, names) in sets.items():
        default = MRFStructureLearner(random_state=0)
        repeated = MRFStructureLearner(
            "pseudo-likelihood", n_bootstraps=n_bootstraps, n_jobs=args.n_jobs, random_state=0
        )
        nodewise = MRFStructureLearner(search="nodewise", random_state=0)
        rows.append(judge(data, "default", default, X)[0])
        row, learner = judge(data, f"pseudo-likelihood, {n_bootstraps} bootstraps", repeated, X)
        rows.append(row)
        drawn.append((learner, names, f"{data}: {row['n_edges']} edges"))
        rows.append(judge(data, "nodewise", nodewise, X)[0])
        print(*rows[-3:], sep="\n", flush=True)
    save(args, "structure_real", rows, COLUMNS)
    write_tables(args.results / "structure.md", {"real data": markdown(rows, COLUMNS)})
    try:
        from matplotlib.figure import Figure
    except ImportError:
        return
    figure = Figure(figsize=(6.5 * len(drawn), 6.2), layout="constrained")
    for axes, what in zip(np.atleast_1d(figure.subplots(1, len(drawn))), drawn, strict=True):
        draw(axes, *what)
    figure.savefig(args.results / "structure_real.png", dpi=110)


if __name__ == "__main__":
    main()
