"""Calibration of edge probabilities: a reliability curve on random graphs.

The Erdős-Rényi graphs have couplings from weak to strong, so many edges are uncertain. All pairs of
all data sets are put into bins by their estimated probability. For each bin, the table has the
fraction of pairs that are true edges, with its standard error over the data sets.
`edge_frequency_`, the fraction of bootstraps that found an edge, is shown for comparison with
`edge_probability_`. It measures the stability of an edge, not its probability.
"""

from itertools import pairwise

import numpy as np
from _common import markdown, options, save, write_tables

from skmrf import MRFStructureLearner
from skmrf.datasets import make_ising
from skmrf.inference import sample

BINS = np.array([0.0, 0.01, 0.05, 0.2, 0.4, 0.6, 0.8, 0.95, 0.99, 1.0])
COLUMNS = {
    "attribute": "attribute",
    "n_rows": "rows",
    "bin": "stated",
    "n_pairs": "pairs",
    "stated": "mean stated",
    "share": "share of edges",
    "std_error": "standard error",
}


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


def draw(args, rows):
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


def main(argv=None):
    parser = options(__doc__)
    parser.add_argument("--n-sets", type=int, default=40)
    parser.add_argument("--n-bootstraps", type=int, default=10)
    parser.add_argument("--n-variables", type=int, default=20)
    parser.add_argument("--n-jobs", type=int, default=1)
    args = parser.parse_args(argv)
    n_sets = 8 if args.fast else args.n_sets
    rows = []
    for n_rows in (500, 2000):
        sets = [
            pairs_of(args.n_variables, n_rows, args.n_bootstraps, seed, args.n_jobs)
            for seed in range(n_sets)
        ]
        for attribute in list(sets[0])[1:]:
            rows += reliability(sets, attribute, n_rows)
    note = f"{n_sets} graphs of {args.n_variables} variables, {args.n_bootstraps} bootstraps."
    save(args, "structure_calibration", rows, COLUMNS, [note])
    write_tables(args.results / "structure.md", {"calibration": markdown(rows, COLUMNS)})
    draw(args, rows)


if __name__ == "__main__":
    main()
