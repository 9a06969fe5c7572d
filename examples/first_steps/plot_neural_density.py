"""
Bivariate density estimation on few rows
========================================

This example estimates the joint density of two measurements of 178 wines, flavanoids and colour
intensity. It compares :class:`~skmrf.NNMRFDensity` with Gaussian mixtures and kernel density
estimation. The density of ``NNMRFDensity`` is a Gaussian, which is multiplied by one factor for
each column and one factor for the pair of columns. Each factor is computed by a small neural
network. With two columns, the learner ``"grid"`` and log Z are exact up to the resolution of a
grid.
"""

# %%
# Cross-validation
# ----------------
# The score is the mean log density of held-out wines in five folds. Within each fold,
# cross-validation selects the number of Gaussians and the bandwidth of the kernel. ``NNMRFDensity``
# has the same parameters in all folds. No method is clearly better than the others on so few rows.

import warnings

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_wine
from sklearn.exceptions import ConvergenceWarning
from sklearn.mixture import GaussianMixture
from sklearn.model_selection import GridSearchCV, KFold
from sklearn.neighbors import KernelDensity
from sklearn.preprocessing import StandardScaler

from skmrf import NetworkPotentials, NNMRFDensity

warnings.simplefilter("ignore", ConvergenceWarning)  # 150 epochs are enough here
wine = load_wine()
names = ["flavanoids", "color_intensity"]
X = StandardScaler().fit_transform(wine.data[:, [wine.feature_names.index(n) for n in names]])
folds = KFold(5, shuffle=True, random_state=0)  # the rows are sorted by cultivar
models = {
    "Gaussian mixture": GridSearchCV(
        GaussianMixture(random_state=0), {"n_components": [1, 2, 3, 4, 5, 6]}, cv=folds
    ),
    "kernel density": GridSearchCV(
        KernelDensity(), {"bandwidth": np.geomspace(0.1, 0.6, 8)}, cv=folds
    ),
    "NNMRFDensity": NNMRFDensity(NetworkPotentials(learner="grid", max_iter=150), random_state=0),
}
held_out = {name: np.empty(len(X)) for name in models}
for train, test in folds.split(X):
    for name, model in models.items():
        fitted = model.fit(X[train])
        fitted = getattr(fitted, "best_estimator_", fitted)
        held_out[name][test] = fitted.score_samples(X[test])
for name, values in held_out.items():
    print(f"{name:17} {values.mean():.3f} nats per held-out wine")

# %%
# Density of NNMRFDensity
# -----------------------
# The density is learned from all wines. Columns are in units of their standard deviations.

grid = np.linspace(-2.6, 4.2, 120)
points = np.stack(np.meshgrid(grid, grid), axis=-1).reshape(-1, 2)
density = {}
for name, model in models.items():
    fitted = model.fit(X)
    fitted = getattr(fitted, "best_estimator_", fitted)
    density[name] = np.exp(fitted.score_samples(points)).reshape(120, 120)


def draw(axes, name):
    """Draw the density of one method and the wines."""
    levels = np.linspace(0, 0.4, 17)
    filled = axes.contourf(grid, grid, density[name], levels, cmap="Blues", extend="max")
    axes.plot(*X.T, ".", color="black", markersize=2)
    axes.set(xlabel="flavanoids", xlim=(-2.3, 3.6), ylim=(-2, 4))
    return filled


figure, axes = plt.subplots(figsize=(5, 3.6), layout="constrained")
figure.colorbar(draw(axes, "NNMRFDensity"), label="density")
axes.set_ylabel("colour intensity")

# %%
# Comparison of the three methods
# -------------------------------
# The levels of the contours are the same in all panels. The titles contain the mean log densities
# of held-out wines, in nats.

figure, panels = plt.subplots(1, 3, figsize=(9.6, 3.7), layout="constrained", sharey=True)
for axes, name in zip(panels, models, strict=True):
    filled = draw(axes, name)
    axes.set_title(f"{name}: {held_out[name].mean():.2f}", fontsize="medium")
panels[0].set_ylabel("colour intensity")
figure.colorbar(filled, ax=panels, label="density", shrink=0.9)

path = "neural_density.png"
figure.savefig(path, dpi=120)
print(f"saved {path}")
plt.show()
