"""Contacts of a protein from an alignment of its family, by a Potts model of all pairs of columns.

The alignment has 13,600 sequences of the Kunitz domain (PF00014) and 53 columns with 20 amino acids
and the gap. The model is fitted by pseudo-likelihood with an l2 penalty on the tables of pairs and
with sequence weights. The score of a pair of columns is the Frobenius norm of its table, after its
rows and columns are centred and the gap is removed, with the average product correction. Pairs
that are more than four columns apart are ranked by this score. Precision is the fraction of the
top pairs whose distance in the structure is at most 8 Angstrom.

The penalty was not chosen with these contacts. ``alpha = 0.02`` is the default of plmDCA: 0.01
times the squared norm of the tables, relative to the mean over the effective sequences (Ekeberg et
al., 2013). The similarity threshold of 80 % and the removal of the gap are defaults of plmDCA too.
Other penalties are shown for comparison. The benchmark also shows mutual information, the score
that comes with the data (its method is not documented), the graph of MRFStructureLearner with
default parameters, which is not a ranking, and the precision of random pairs.

The part "generative" trains Potts models on 80% of the different sequences. It compares the
connected frequencies of pairs of letters (frequency minus product of the single frequencies) of
10,000 sampled states with those of the alignment by Pearson's correlation, and gives the weighted
mean log-likelihood of the other sequences per column. The log-likelihood uses the upper limit of
log Z, so it does not overestimate the model. For comparison: adabmDCA ends training at a
correlation of 0.95 with the training sequences (Muntoni et al., 2021; Rosset et al., 2025).
"""

import os
import time
from pathlib import Path

import numpy as np
from _common import markdown, options, save, timed, write_tables

from skmrf import DiscreteMRF, MRFStructureLearner
from skmrf.datasets import average_product_correction, similarity_weights
from skmrf.samplers import spawn_generators, sweep
from skmrf.structure import WaldTests

GAP = 0
FAR = 4
CONTACT = 8.0
IDENTITY = 0.8
ALPHA = 0.02
OTHER_ALPHAS = 0.002, 0.2
TOL = 1e-3
MAX_ITER = 300
TOPS = "top_fifth", "top_half", "top_all", "top_double"
OURS, SOURCE, GRAPH = "Potts", "source", "graph, Holm, PCD"
COLUMNS = {
    "method": "method",
    "alpha": "alpha",
    "weights": "weights",
    "gap": "gap symbol in norm",
    "apc": "APC",
    "top_fifth": "top L/5",
    "top_half": "top L/2",
    "top_all": "top L",
    "top_double": "top 2L",
    "edges": "edges far apart",
    "right": "contacts among them",
    "iterations": "iterations",
    "seconds": "fit s",
}
GENERATIVE_COLUMNS = {
    "method": "method",
    "alpha": "alpha",
    "learner": "learner",
    "train": "correlation, training sequences",
    "test": "correlation, other sequences",
    "score": "nats per column, other sequences",
    "width": "width of log Z per column",
    "seconds": "fit s",
}
MODELS = {
    "DiscreteMRF()": {},
    "pseudo-likelihood, alpha = 0.02": {"learner": "pseudo-likelihood", "alpha": ALPHA},
    "independent columns": {"cliques": "independent", "learner": "exact", "alpha": 0.001},
}
N_CHAINS, N_RECORDS, N_BETWEEN = 2000, 5, 20  # chains, and states of each that are 20 sweeps apart


def read(data_home, step):
    """Read an alignment: every ``step``-th sequence, distances of pairs and published scores."""
    home = Path(data_home or os.environ.get("SKMRF_DATA", "."))
    with np.load(home / "msa" / "PF00014_ArDCA.npz") as file:
        X, struct = file["msa"][::step], file["struct"].astype(float)
    i, j = struct[:, :2].astype(int).T - 1
    return X, square(i, j, struct[:, 3], X.shape[1]), square(i, j, struct[:, 2], X.shape[1])


def square(i, j, values, n):
    """Convert the values of all pairs of columns to a symmetric matrix."""
    out = np.zeros((n, n))
    out[i, j] = out[j, i] = values
    return out


# Scores of pairs ---------------------------------------------------------------------------


def potts(X, weights, alpha):
    """Fit a Potts model; return the model and the processor seconds of the fit."""
    model = DiscreteMRF(
        learner="pseudo-likelihood", penalty="l2", alpha=alpha, tol=TOL, max_iter=MAX_ITER
    )
    start = time.process_time()
    model.fit(X, sample_weight=weights)
    return model, time.process_time() - start


def norms(model, with_gap=False):
    """Return the Frobenius norms of the centred tables of all pairs."""
    out = np.zeros((model.n_features_in_,) * 2)
    for clique, table in zip(model.cliques_, model.log_potentials_, strict=True):
        if len(clique) == 2:
            keep = [with_gap | (model.categories_[i] != GAP) for i in clique]
            out[clique] = out[clique[::-1]] = np.linalg.norm(centred(table)[np.ix_(*keep)])
    return out


def centred(table):
    """Return the centred table: all rows and columns sum to zero."""
    return table - table.mean(axis=0) - table.mean(axis=1, keepdims=True) + table.mean()


def mutual_information(X, weights):
    """Return the mutual information of all pairs of columns in nats, with the gap as a letter."""
    n, n_letters = X.shape[1], int(X.max()) + 1
    shown = (X[:, :, None] == np.arange(n_letters)).reshape(len(X), -1).astype(float)
    joint = (shown.T * (weights / weights.sum())) @ shown
    single = np.diag(joint)
    with np.errstate(divide="ignore", invalid="ignore"):
        terms = np.nan_to_num(joint * np.log(joint / np.outer(single, single)))
    return terms.reshape(n, n_letters, n, n_letters).sum(axis=(1, 3))


# Precision ---------------------------------------------------------------------------------


def ranked(score):
    """Rank the pairs that are far apart in the sequence; return arrays of i and of j."""
    i, j = np.triu_indices(len(score), FAR + 1)
    order = np.argsort(-score[i, j], kind="stable")
    return i[order], j[order]


def precision(score, distance):
    """Return the fraction of contacts among the first k pairs, for every k."""
    right = distance[ranked(score)] < CONTACT
    return np.cumsum(right) / np.arange(1, len(right) + 1)


def row(method, score, distance, **facts):
    """Return one row of the results table: the precision of ranked pairs."""
    found, n = precision(score, distance), len(score)
    tops = zip(TOPS, (n // 5, n // 2, n, 2 * n), strict=True)
    return {"method": method} | facts | {k: float(found[m - 1]) for k, m in tops}


def chance(distance):
    """Return the share of contacts among all pairs: the precision of a random ranking."""
    share = float((distance[np.triu_indices(len(distance), FAR + 1)] < CONTACT).mean())
    return {"method": "random"} | dict.fromkeys(TOPS, share)


def potts_rows(X, weights, alpha, distance, *, ablation=False):
    """Fit one Potts model; return its rows of the table and its standard score."""
    model, seconds = potts(X, weights, alpha)
    facts = {
        "alpha": alpha,
        "weights": weights is not None,
        "iterations": model.n_iter_,
        "seconds": seconds,
    }
    score = average_product_correction(norms(model))
    rows = [row(OURS, score, distance, gap=False, apc=True, **facts)]
    print(rows[0], flush=True)
    if ablation:
        with_gap = average_product_correction(norms(model, with_gap=True))
        rows += [
            row(OURS, with_gap, distance, gap=True, apc=True, **facts),
            row(OURS, norms(model), distance, gap=False, apc=False, **facts),
        ]
    return rows, score


def graph_row(X, weights, distance):
    """Return the row of the graph of a structure learner."""
    start = time.process_time()
    search = WaldTests("holm")
    learner = MRFStructureLearner("pcd", search=search, column_types="categorical", random_state=0)
    learner.fit(X, sample_weight=weights)
    i, j = learner.edges_.T
    near = distance[i, j][j - i > FAR] < CONTACT
    return {
        "method": GRAPH,
        "weights": weights is not None,
        "edges": len(near),
        "right": int(near.sum()),
        "iterations": learner.n_iter_,
        "seconds": time.process_time() - start,
    }


# Generative models -------------------------------------------------------------------------


def connected_frequencies(X, weights=None):
    """Return the frequency of each pair of letters minus the product of the single frequencies."""
    n, n_letters = X.shape[1], 21
    weights = np.ones(len(X)) if weights is None else weights
    shown = (X[:, :, None] == np.arange(n_letters)).reshape(len(X), -1).astype(np.float32)
    share = (weights / weights.sum()).astype(np.float32)
    single = share @ shown
    joint = (shown.T * share) @ shown - np.outer(single, single)
    i, j = np.triu_indices(n, 1)
    return joint.reshape(n, n_letters, n, n_letters)[i, :, j, :].ravel()


def draw(model, n_chains):
    """Return states of Markov chains of a model, several of each chain."""
    rng = np.random.default_rng(0)
    X, states = model.sample(n_chains, random_state=0), []
    for _ in range(N_RECORDS):
        X, _ = sweep(model.energy_, X, spawn_generators(rng, n_chains), n_sweeps=N_BETWEEN)
        states.append(X.copy())
    return np.concatenate(states)


def generative_rows(X, is_fast):
    """Fit models to 80% of the different sequences; return a row of the table for each."""
    X = np.unique(X, axis=0)
    weights = similarity_weights(X, identity=IDENTITY)
    order = np.random.default_rng(0).permutation(len(X))
    train, test = order[: len(X) * 4 // 5], order[len(X) * 4 // 5 :]
    known = {
        k: connected_frequencies(X[p], weights[p]) for k, p in (("train", train), ("test", test))
    }
    rows = []
    for name, parameters in list(MODELS.items())[-1 if is_fast else 0 :]:
        model = DiscreteMRF(categories=[list(range(21))] * X.shape[1], random_state=0, **parameters)
        start = time.process_time()
        model.fit(X[train], sample_weight=weights[train])
        row = {"method": name, "seconds": time.process_time() - start, "alpha": model.alpha_}
        low, high = (z / X.shape[1] for z in model.log_partition_interval_)
        log_f = weights[test] @ model.energy_.log_potential(X[test]) / weights[test].sum()
        row |= {
            "learner": str(model.learner_),
            "score": log_f / X.shape[1] - high,
            "width": high - low,
        }
        drawn = connected_frequencies(draw(model, 100 if is_fast else N_CHAINS))
        rows.append(row | {k: float(np.corrcoef(drawn, v)[0, 1]) for k, v in known.items()})
        print(rows[-1], flush=True)
    same = float(np.corrcoef(known["train"], known["test"])[0, 1])
    return [*rows, {"method": "training sequences", "train": 1.0, "test": same}]


# Figure ------------------------------------------------------------------------------------


def picture(args, scores, distance):
    """Draw ``contacts.png``: a contact map with the first L pairs, and precision by rank."""
    try:
        from matplotlib.figure import Figure
    except ImportError:
        print("matplotlib is not installed: no PNG", flush=True)
        return
    figure = Figure(figsize=(11, 5.2), layout="constrained")
    plan, curves = figure.subplots(1, 2)
    draw_map(plan, scores, distance)
    draw_curves(curves, scores, distance)
    figure.savefig(args.results / "contacts.png", dpi=120)


def draw_map(axes, scores, distance):
    """Draw the contact map: contacts in grey, our first L pairs above the diagonal.

    The first L pairs of the published score are below the diagonal.
    """
    n = len(distance)
    near = np.argwhere((distance < CONTACT) & ~np.eye(n, dtype=bool))
    axes.scatter(near[:, 1], near[:, 0], s=22, marker="s", color="0.82", label="contact")
    for name, swap in ((OURS, False), (SOURCE, True)):
        i, j = (k[:n] for k in ranked(scores[name]))
        right = distance[i, j] < CONTACT
        for chosen, colour, label in ((right, "tab:blue", "right"), (~right, "tab:red", "wrong")):
            x, y = (i[chosen], j[chosen]) if swap else (j[chosen], i[chosen])
            axes.scatter(x, y, s=9, color=colour, label=None if swap else label)
    axes.axline((0, 0), (1, 1), color="0.5", linewidth=0.5)
    axes.set(
        xlim=(-1, n), ylim=(n, -1), aspect="equal", xlabel="column", ylabel="column",
        title=f"First {n} pairs: {OURS} above the diagonal, {SOURCE} below",
    )  # fmt: skip
    axes.legend(loc="upper center", bbox_to_anchor=(0.5, -0.1), ncols=3, frameon=False)


def draw_curves(axes, scores, distance):
    """Draw precision against the number of pairs."""
    n = len(distance)
    for name, score in scores.items():
        axes.plot(np.arange(1, 2 * n + 1), precision(score, distance)[: 2 * n], label=name)
    axes.axhline(chance(distance)["top_all"], color="0.6", linestyle=":", label="random")
    axes.axvline(n, color="0.8", linewidth=0.8)
    axes.set(xlabel="pairs, the best first", ylabel="share of contacts", ylim=(0, 1.03))
    axes.legend()


def main(argv=None):
    parser = options(__doc__, data=True)
    parts = ["contacts", "generative"]
    parser.add_argument("--parts", nargs="*", choices=parts, default=parts)
    args = parser.parse_args(argv)
    X, distance, source = read(args.data_home, 5 if args.fast else 1)
    if "generative" in args.parts:
        rows = generative_rows(X, args.fast)
        save(args, "generative", rows, GENERATIVE_COLUMNS)
        table = markdown(rows, GENERATIVE_COLUMNS)
        write_tables(args.results / "structure.md", {"generative": table})
    if "contacts" in args.parts:
        run_contacts(args, X, distance, source)


def run_contacts(args, X, distance, source):
    """Fit the models of the contact table, and write the table and the figure."""
    weights, seconds = timed(similarity_weights, X, identity=IDENTITY)
    notes = [f"{len(X):,} sequences, {weights.sum():,.0f} effective (weights in {seconds:.1f} s)"]
    rows, score = potts_rows(X, weights, ALPHA, distance, ablation=True)
    rows += potts_rows(X, None, ALPHA, distance)[0]
    for alpha in OTHER_ALPHAS:
        rows += potts_rows(X, weights, alpha, distance)[0]
    information = mutual_information(X, weights)
    corrected = average_product_correction(np.maximum(information, 0.0))
    rows += [
        row("mutual information", corrected, distance, weights=True, gap=True, apc=True),
        row("mutual information", information, distance, weights=True, gap=True, apc=False),
        row(SOURCE, source, distance),
        graph_row(X, weights, distance),
        graph_row(X, None, distance),
        chance(distance),
    ]
    save(args, "contacts", rows, COLUMNS, notes)
    write_tables(args.results / "structure.md", {"contacts": markdown(rows, COLUMNS)})
    picture(args, {OURS: score, SOURCE: source, "mutual information": corrected}, distance)


if __name__ == "__main__":
    main()
