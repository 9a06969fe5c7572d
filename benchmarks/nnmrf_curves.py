"""Training curves of neural potentials, and data compared with samples: Figures 5 and 6.

Figure 5 of Xiong and Ruozzi (2020) shows the held-out log-likelihood of the beliefs against the
number of updates. It is computed on the original UCI data sets as in ``nnmrf_uci.py``. A fifth of
the rows of each class is held out. A curve is the mean over classes, weighted by their sizes, in
nats and in the units of the data. Training of a class stops when its score no longer increases;
from then on the curve has its best score, which is the score of the returned beliefs. Figure 6 is a
t-SNE embedding of the seeds data and of the same number of samples from each class, with perplexity
30. Random forests are trained to distinguish samples from data; a cross-validated accuracy of 0.5
means that they cannot.
"""

import warnings

import numpy as np
from _common import markdown, options, save, write_tables
from nnmrf_uci import MIN_ROWS, SETS, Split, draw_class, for_densities, read
from sklearn.ensemble import RandomForestClassifier
from sklearn.manifold import TSNE
from sklearn.model_selection import cross_val_score
from sklearn.preprocessing import StandardScaler
from threadpoolctl import threadpool_limits

from skmrf import NetworkPotentials, NNMRFBayesClassifier

PERPLEXITY = 30
N_POINTS = 200  # of a curve
MAX_ITER = None  # epochs; None means the default of the estimator
COLUMNS = {
    "set": "set",
    "updates": "updates, longest class",
    "first": "first",
    "best": "best",
    "at": "at update",
    "telling": "accuracy, samples against data",
}


def fitted(name, data_home, seed):
    """Fit a classifier with a fifth of each class held out; return it, the rows and labels."""
    X, y, binary = read("honest", name, data_home)
    data = for_densities(Split(X, y, X, y), binary)
    networks = NetworkPotentials(early_stopping=True, validation_fraction=0.2, max_iter=MAX_ITER)
    model = NNMRFBayesClassifier(networks, transform_columns=False, random_state=seed)
    with warnings.catch_warnings(), threadpool_limits(1):
        warnings.simplefilter("ignore")
        model.fit(data.X, data.y)
    return model, data.X, data.y


# Figure 5 ----------------------------------------------------------------------------------


def class_curve(density, updates):
    """Return the held-out log-likelihood of a class after the given numbers of updates."""
    history = density.history_
    seen, scores = (np.array(history[k], float) for k in ("n_updates", "validation_score"))
    place = np.searchsorted(seen, updates, side="right") - 1
    out = scores[np.maximum(place, 0)]
    out[updates > seen[-1]] = scores.max()
    return out - np.log(density._columns.scale).sum()


def curve(model):
    """Return numbers of updates, and the mean curve of classes weighted by their sizes."""
    last = max(density.history_["n_updates"][-1] for density in model.densities_)
    updates = np.unique(np.linspace(1, last, N_POINTS).astype(int))
    curves = [class_curve(density, updates) for density in model.densities_]
    return updates, model.class_prior_ @ curves - np.log(model._columns.scale).sum()


def telling(model, X, y, seed):
    """Draw samples of all classes, and measure how well forests separate them from the data."""
    samples = np.concatenate([draw_class(model, k, int((y == k).sum())) for k in model.classes_])
    both = np.concatenate([X, samples])
    forest = RandomForestClassifier(100, random_state=seed)
    scores = cross_val_score(forest, both, np.arange(len(both)) < len(X), cv=5)
    return samples, float(scores.mean())


def draw_curves(args, curves):
    """Draw ``nnmrf_curves.png``."""
    figure = _figure(10, 4 * -(-len(curves) // 4) + 1)
    if figure is None:
        return
    panels = list(figure.subplots(-(-len(curves) // 4), min(4, len(curves)), squeeze=False).flat)
    for axes in panels[len(curves) :]:
        axes.set_axis_off()
    for axes, (name, (updates, scores)) in zip(panels, curves.items(), strict=False):
        axes.plot(updates, scores)
        axes.set_title(name)
        axes.set_xlabel("update")
        low, high = np.quantile(scores, 0.05), scores.max()
        axes.set_ylim(low - 0.1 * (high - low) - 1e-3, high + 0.1 * (high - low) + 1e-3)
    figure.supylabel("held-out log p(x|y), nats")
    figure.savefig(args.results / "nnmrf_curves.png", dpi=120)


def _figure(width, height):
    try:
        from matplotlib.figure import Figure
    except ImportError:
        print("matplotlib is not installed: no PNG", flush=True)
        return None
    return Figure(figsize=(width, height), layout="constrained")


# Figure 6 ----------------------------------------------------------------------------------


def embed(X, samples, seed):
    """Embed data and samples in the plane, standardised by the data."""
    scaler = StandardScaler().fit(X)
    both = scaler.transform(np.concatenate([X, samples]))
    places = TSNE(perplexity=PERPLEXITY, random_state=seed).fit_transform(both)
    return np.split(places, [len(X)])


def draw_embedding(args, name, X, y, samples, seed):
    """Draw ``nnmrf_tsne.png``: data and samples side by side, in one embedding."""
    figure = _figure(10, 5)
    if figure is None:
        return
    parts = dict(zip(("data", "samples"), embed(X, samples, seed), strict=True))
    labels = np.unique(y)
    sorted_labels = {"data": y, "samples": np.repeat(labels, [(y == k).sum() for k in labels])}
    for axes, (what, places) in zip(
        figure.subplots(1, 2, sharex=True, sharey=True), parts.items(), strict=True
    ):
        for k in labels:
            axes.scatter(*places[sorted_labels[what] == k].T, s=12, label=str(k))
        axes.set_title(f"{name}, {what}")
        axes.set_xticks([])
        axes.set_yticks([])
    axes.legend()
    figure.savefig(args.results / "nnmrf_tsne.png", dpi=120)


def main(argv=None):
    parser = options(__doc__, data=True)
    parser.add_argument("--sets", nargs="*", choices=SETS, default=None)
    parser.add_argument("--seed", type=int, default=0)
    args = parser.parse_args(argv)
    rows, curves = [], {}
    for name in args.sets or (("Iris", "Seeds") if args.fast else SETS):
        model, X, y = fitted(name, args.data_home, args.seed)
        updates, scores = curves[name] = curve(model)
        samples, found = telling(model, X, y, args.seed)
        rows.append({
            "set": name, "updates": int(updates[-1]), "first": float(scores[0]),
            "best": float(scores.max()), "at": int(updates[scores.argmax()]), "telling": found,
            "curve": [updates.tolist(), scores.tolist()],
        })  # fmt: skip
        save(args, "nnmrf_curves", rows, COLUMNS, NOTES)
        if name == "Seeds":
            draw_embedding(args, name, X, y, samples, args.seed)
    draw_curves(args, curves)
    write_tables(args.results / "neural_potentials.md", {"curves": markdown(rows, COLUMNS)})


NOTES = (
    "Mean log p(x|y) by the beliefs, of a held-out fifth of each class, in nats and in the units "
    "of the data.",
    f"Classes with fewer than {MIN_ROWS} rows and columns with two values are omitted.",
)

if __name__ == "__main__":
    main()
