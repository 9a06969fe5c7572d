"""
Classifier comparison with outlier detection
============================================

This example repeats scikit-learn's comparison of classifiers on three two-dimensional data sets,
with :class:`~skmrf.NNMRFClassifier` and :class:`~skmrf.NNMRFBayesClassifier` in the first columns.
The second has a density for each class. It therefore also returns the log density of a point, which
is low for outliers. The example takes about twenty seconds.
"""

# %%
# Data
# ----
# The data sets are moons, circles, and two classes that are nearly linearly separable. There are
# 200 training rows and 2,000 test rows.

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

from skmrf import NNMRFBayesClassifier, NNMRFClassifier

N, N_TRAIN = 2200, 200
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
# All classifiers have their default parameters.

classifiers = {
    "NNMRFClassifier": NNMRFClassifier(random_state=0),
    "NNMRFBayesClassifier": NNMRFBayesClassifier(random_state=0),
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
    print(f"{name:20} {shares}")

# %%
# Class probabilities and densities
# ---------------------------------
# The figures show three quantities on a grid of points: the probability of the second class, the
# decision boundary (black) and, for ``NNMRFBayesClassifier``, the log density log p(x) with one
# contour line per nat. Far from the training rows, a classifier may be certain of a class. Only the
# density shows that such points are unlikely.

blue, orange, paper = "#3b75af", "#c8781e", "#ffffff"
classes = LinearSegmentedColormap.from_list("classes", [blue, paper, orange])


def probabilities(classifier, points):
    """Return the probability of the second class, or a decision function scaled to [0, 1]."""
    if hasattr(classifier, "predict_proba"):
        return classifier.predict_proba(points)[:, 1]
    return 1 / (1 + np.exp(-3 * classifier.decision_function(points)))


def make_grid(place):
    """Return the coordinates of a grid, its points, and the options of ``imshow``."""
    test = rows[place][1]
    low, high = test.min(axis=0) - 0.4, test.max(axis=0) + 0.4
    x, y = np.meshgrid(*(np.linspace(a, b, 150) for a, b in zip(low, high, strict=True)))
    extent = (low[0], high[0], low[1], high[1])
    points = np.stack([x.ravel(), y.ravel()], axis=1)
    return x, y, points, {"extent": extent, "origin": "lower", "aspect": "auto"}


def draw_rows(axes, place, size=7):
    """Draw the training rows of a data set."""
    train, _, labels, _ = rows[place]
    colours = np.where(labels, orange, blue)
    axes.scatter(*train.T, s=size, c=colours, edgecolors=paper, lw=0.3)
    axes.set(xticks=[], yticks=[])


def draw_classes(axes, place, name):
    """Draw the probability of the second class and the decision boundary."""
    x, y, points, frame = make_grid(place)
    p = probabilities(fitted[place, name], points).reshape(x.shape)
    axes.imshow(p, cmap=classes, vmin=0, vmax=1, alpha=0.6, interpolation="bilinear", **frame)
    axes.contour(x, y, p, [0.5], colors="black", linewidths=0.8)
    draw_rows(axes, place)
    text = f"{accuracy[place, name]:.1%}"
    axes.text(0.97, 0.04, text, transform=axes.transAxes, ha="right", weight="bold")


def draw_density(axes, place, size=7):
    """Draw the log density of NNMRFBayesClassifier."""
    x, y, points, frame = make_grid(place)
    density = fitted[place, "NNMRFBayesClassifier"].score_samples(points).reshape(x.shape)
    top = density.max()
    axes.imshow(density, cmap="Greys", vmin=top - 9, vmax=top + 4, **frame)
    lines = top - 0.5 - np.arange(9)[::-1]
    axes.contour(x, y, density, lines, colors="#555555", linewidths=0.5, linestyles="solid")
    draw_rows(axes, place, size)


figure, axes = plt.subplots(figsize=(5, 3.5), layout="constrained")
draw_density(axes, "moons", size=14)
axes.set_title("NNMRFBayesClassifier, log p(x)")

# %%
# The numbers in the panels are accuracies on the test rows. The last column is the log density of
# ``NNMRFBayesClassifier``.

size = len(sets), len(classifiers) + 1
figure, panels = plt.subplots(*size, figsize=(12.8, 5.4), layout="constrained")
for row, place in zip(panels, sets, strict=True):
    for axes, name in zip(row, classifiers, strict=False):
        draw_classes(axes, place, name)
    draw_density(row[-1], place)
    row[0].set_ylabel(place)
for axes, name in zip(panels[0], [*classifiers, "log p(x)"], strict=True):
    axes.set_title(name, fontsize="medium")

path = "nn_mrf_classifiers.png"
figure.savefig(path, dpi=120)
print(f"saved {path}")
plt.show()
