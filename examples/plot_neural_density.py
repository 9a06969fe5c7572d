"""
A density of two measurements
=============================

How are two measurements distributed, when it is no bell and there are few rows? Flavanoids and
colour of 178 wines, by Gaussian mixtures, by a kernel density estimate, and by
:class:`~skmrf.NNMRFDensity`: a small network for each column and one for the pair, on a Gaussian
base. With two columns its learner ``"grid"`` and its log Z are exact up to the grid.
"""

# %%
# Held-out wines
# --------------
# Each model by its mean log density of wines that it has not seen, in five folds. The number of
# Gaussians and the width of the kernel are chosen within each fold by cross-validation; the
# networks are taken as they are. None of the three is clearly ahead on so few rows.

import warnings

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_wine
from sklearn.exceptions import ConvergenceWarning
from sklearn.mixture import GaussianMixture
from sklearn.model_selection import GridSearchCV, KFold
from sklearn.neighbors import KernelDensity
from sklearn.preprocessing import StandardScaler

from skmrf import NNMRFDensity

warnings.simplefilter("ignore", ConvergenceWarning)  # 150 epochs are enough here
wine = load_wine()
names = ["flavanoids", "color_intensity"]
X = StandardScaler().fit_transform(wine.data[:, [wine.feature_names.index(n) for n in names]])
folds = KFold(5, shuffle=True, random_state=0)  # the rows are in the order of the cultivars
models = {
    "Gaussian mixture": GridSearchCV(
        GaussianMixture(random_state=0), {"n_components": [1, 2, 3, 4, 5, 6]}, cv=folds
    ),
    "kernel density": GridSearchCV(
        KernelDensity(), {"bandwidth": np.geomspace(0.1, 0.6, 8)}, cv=folds
    ),
    "NNMRFDensity": NNMRFDensity(learner="grid", max_iter=150, random_state=0),
}
held_out = {name: np.empty(len(X)) for name in models}
for train, test in folds.split(X):
    for name, model in models.items():
        fitted = model.fit(X[train])
        fitted = getattr(fitted, "best_estimator_", fitted)
        held_out[name][test] = fitted.score_samples(X[test])
for name, values in held_out.items():
    print(f"{name:17} {values.mean():.3f} nats a held-out wine")

# %%
# The picture
# -----------
# Densities learned from all wines, of standardised columns, with the same levels everywhere. The
# titles have the mean log densities of held-out wines, in nats.

grid = np.linspace(-2.6, 4.2, 120)
places = np.stack(np.meshgrid(grid, grid), axis=-1)
figure, axes = plt.subplots(1, 3, figsize=(9.6, 3.7), layout="constrained", sharey=True)
for place, (name, model) in zip(axes, models.items(), strict=True):
    fitted = model.fit(X)
    fitted = getattr(fitted, "best_estimator_", fitted)
    density = np.exp(fitted.score_samples(places.reshape(-1, 2))).reshape(120, 120)
    filled = place.contourf(
        grid, grid, density, np.linspace(0, 0.4, 17), cmap="Blues", extend="max"
    )
    place.plot(*X.T, ".", color="black", markersize=2)
    place.set_title(f"{name}: {held_out[name].mean():.2f}", fontsize="medium")
    place.set(xlabel="flavanoids (standard deviations)", xlim=(-2.3, 3.6), ylim=(-2, 4))
axes[0].set_ylabel("colour intensity (standard deviations)")
figure.colorbar(filled, ax=axes, label="density", shrink=0.9)

path = "neural_density.png"
figure.savefig(path, dpi=120)
print(f"saved {path}")
plt.show()
