"""
Image segmentation with a grid CRF
==================================

Each pixel of an image belongs to one of three regions, and its two features are noisy measurements.
Neighbouring pixels often belong to the same region. A conditional random field on a grid,
``CRF(graph="grid")``, learns from segmented images how the features and the neighbours predict the
region. The baseline is a logistic regression that predicts each pixel separately. The example takes
about twenty seconds.
"""

# %%
# Images
# ------
# Three smooth random functions define the regions: each pixel belongs to the largest function. The
# features of a pixel are a point of a triangle, one corner for each region, with Gaussian noise.

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.colors import ListedColormap
from scipy.ndimage import gaussian_filter
from sklearn.linear_model import LogisticRegression

from skmrf import CRF

CORNERS = np.array([[1.0, 0.0], [-0.5, 0.87], [-0.5, -0.87]])


def make_images(n_images, size, rng):
    """Return noisy images of shape (size, size, 2), and the region of each pixel."""
    functions = gaussian_filter(rng.normal(size=(n_images, size, size, 3)), (0, 3, 3, 0))
    y = functions.argmax(axis=-1)
    return list(CORNERS[y] + rng.normal(size=(*y.shape, 2))), list(y)


rng = np.random.default_rng(0)
X, y = make_images(20, 24, rng)
X_test, y_test = make_images(4, 64, rng)

# %%
# Two models
# ----------
# The graphs have cycles, so exact inference is too slow, and the CRF uses loopy belief propagation.
# The labels with the largest marginal probabilities minimise the expected number of wrong pixels.
# The most probable joint labelling, which ``predict`` returns, can have more wrong pixels.

model = CRF("grid", alpha=0.01).fit(X, y)
marginals = model.predict_marginals(X_test)
regions = {
    "each pixel alone": [
        separate.reshape(64, 64)
        for separate in np.split(
            LogisticRegression()
            .fit(np.concatenate(X).reshape(-1, 2), np.concatenate(y).ravel())
            .predict(np.concatenate(X_test).reshape(-1, 2)),
            4,
        )
    ],
    "CRF": [model.classes_[p.argmax(axis=-1)] for p in marginals],
    "true regions": y_test,
}
joint = model.predict(X_test)
for name, found in [*regions.items(), ("joint labelling", joint)]:
    error = np.mean(np.array(found) != np.array(y_test))
    print(f"{name:16} wrong pixels {error:.1%}")

# %%
# Weights of neighbours
# ---------------------
# ``transition_`` has one table for neighbours in a row and one for neighbours in a column. Equal
# regions have the largest weights.

print(np.round(model.transition_, 2))

# %%
# Segmentation of a test image
# ----------------------------

colours = ListedColormap(["#0072B2", "#E69F00", "#F5F5F5"])
figure, grid = plt.subplots(2, 2, figsize=(6, 6.3), layout="constrained")
first, *others = grid.flat
shades = np.clip(0.5 + 0.25 * X_test[0] @ np.array([[1.0, -0.5, -0.5], [0.0, 0.87, -0.87]]), 0, 1)
first.imshow(shades)
first.set_title("noisy features")
for axes, (name, found) in zip(others, regions.items(), strict=True):
    error = np.mean(found[0] != y_test[0])
    axes.imshow(found[0], cmap=colours, vmin=0, vmax=2)
    axes.set_title(name if name == "true regions" else f"{name}: {error:.0%} wrong")
for axes in grid.flat:
    axes.set(xticks=[], yticks=[])

path = "crf_segmentation.png"
figure.savefig(path, dpi=120)
print(f"saved {path}")
plt.show()
