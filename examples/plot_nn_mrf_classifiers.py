"""
Neural Markov random fields beside other classifiers
====================================================

scikit-learn's picture of classifiers on three sets in the plane, with
:class:`~skmrf.NNMRFClassifier` in the first column. It has networks that are learned for the
labels, and beside them a density of every class. So it has an answer that the others lack: how
probable the point itself is, whatever its class. It takes some twenty seconds.
"""

# %%
# Data
# ----
# Moons, circles and two classes that a line nearly divides. Four hundred rows are
# learned from, and two thousand others tell the accuracies apart.

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.colors import LinearSegmentedColormap
from sklearn.base import clone
from sklearn.datasets import make_circles, make_classification, make_moons
from sklearn.discriminant_analysis import QuadraticDiscriminantAnalysis
from sklearn.ensemble import RandomForestClassifier
from sklearn.model_selection import train_test_split
from sklearn.naive_bayes import GaussianNB
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC

from skmrf import NNMRFClassifier

N, N_TRAIN = 2400, 400
linear, side = make_classification(
    N, n_features=2, n_redundant=0, n_clusters_per_class=1, flip_y=0, random_state=1
)
linear += 2 * np.random.default_rng(2).uniform(size=linear.shape)
sets = {
    "moons": make_moons(N, noise=0.3, random_state=0),
    "circles": make_circles(N, noise=0.2, factor=0.5, random_state=1),
    "linear": (linear, side),
}

# %%
# Classifiers
# -----------
# All have their default parameters.

classifiers = {
    "NNMRFClassifier": NNMRFClassifier(random_state=0),
    "naive Bayes": GaussianNB(),
    "QDA": QuadraticDiscriminantAnalysis(),
    "SVC, RBF": make_pipeline(StandardScaler(), SVC()),
    "nearest neighbours": make_pipeline(StandardScaler(), KNeighborsClassifier()),
    "random forest": RandomForestClassifier(random_state=0),
}
fitted, accuracy, rows = {}, {}, {}
for place, (X, y) in sets.items():
    rows[place] = train, test, labels, truth = train_test_split(
        X, y, train_size=N_TRAIN, stratify=y, random_state=0
    )
    for name, classifier in classifiers.items():
        fitted[place, name] = clone(classifier).fit(train, labels)
        accuracy[place, name] = fitted[place, name].score(test, truth)
for name in classifiers:
    shares = ", ".join(f"{place} {accuracy[place, name]:.1%}" for place in sets)
    print(f"{name:18} {shares}")

# %%
# The picture
# -----------
# How sure a classifier is of its class, with the rows that it has seen and its accuracy on others.
# In the last column is log p(x) of NNMRFClassifier, with a line every nat. Far from all rows a
# classifier may be certain of a class; that nothing is to be expected there only a density knows.

blue, orange, paper = "#3b75af", "#c8781e", "#ffffff"
classes = LinearSegmentedColormap.from_list("classes", [blue, paper, orange])


def surface(found, points):
    """Probability of the second class, or a decision function squeezed between 0 and 1."""
    if hasattr(found, "predict_proba"):
        return found.predict_proba(points)[:, 1]
    return 1 / (1 + np.exp(-3 * found.decision_function(points)))


size = len(sets), len(classifiers) + 1
figure, panels = plt.subplots(*size, figsize=(14, 6.4), layout="constrained")
for row, (place, (train, test, labels, _)) in zip(panels, rows.items(), strict=True):
    low, high = test.min(axis=0) - 0.4, test.max(axis=0) + 0.4
    x, y = np.meshgrid(*(np.linspace(a, b, 150) for a, b in zip(low, high, strict=True)))
    points = np.stack([x.ravel(), y.ravel()], axis=1)
    frame = {"extent": (low[0], high[0], low[1], high[1]), "origin": "lower", "aspect": "auto"}
    for axes, name in zip(row, classifiers, strict=False):
        p = surface(fitted[place, name], points).reshape(x.shape)
        axes.imshow(p, cmap=classes, vmin=0, vmax=1, alpha=0.6, interpolation="bilinear", **frame)
        axes.contour(x, y, p, [0.5], colors="black", linewidths=0.8)
        text = f"{accuracy[place, name]:.1%}"
        axes.text(0.97, 0.04, text, transform=axes.transAxes, ha="right", weight="bold")
    density = fitted[place, "NNMRFClassifier"].score_samples(points).reshape(x.shape)
    top = density.max()
    row[-1].imshow(density, cmap="Greys", vmin=top - 9, vmax=top + 4, **frame)
    lines = top - 0.5 - np.arange(9)[::-1]
    row[-1].contour(x, y, density, lines, colors="#555555", linewidths=0.5, linestyles="solid")
    for axes in row:
        axes.scatter(*train.T, s=7, c=np.where(labels, orange, blue), edgecolors=paper, lw=0.3)
        axes.set(xticks=[], yticks=[], xlim=(low[0], high[0]), ylim=(low[1], high[1]))
for axes, name in zip(panels[0], [*classifiers, "NNMRFClassifier, log p(x)"], strict=True):
    axes.set_title(name, fontsize="medium")
for axes, place in zip(panels[:, 0], sets, strict=True):
    axes.set_ylabel(place)

path = "nn_mrf_classifiers.png"
figure.savefig(path, dpi=120)
print(f"saved {path}")
plt.show()
