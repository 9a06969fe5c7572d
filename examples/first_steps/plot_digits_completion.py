"""
Density estimation and image completion with DiscreteMRF
========================================================

:class:`~skmrf.DiscreteMRF` learns the joint distribution of the pixels of handwritten digits. The
images are the 8 x 8 digits of scikit-learn, in black and white. A single model then computes the
log-likelihood of new digits, imputes missing pixels, returns the probability of each missing pixel
and draws samples. The example takes about half a minute on one core.
"""

# %%
# Data
# ----
# Each pixel has two categories, ink (1) and paper (0). Two hundred digits are the test set.

import itertools
import warnings

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split

from skmrf import DiscreteMRF
from skmrf.learners import PCD

grey, labels = load_digits(return_X_y=True)
ink = (grey >= 8).astype(int)
train, test, _, test_labels = train_test_split(
    ink, labels, test_size=200, stratify=labels, random_state=0
)

# %%
# Three models
# ------------
# The models differ in the pairs of pixels that interact: no pair, neighbouring pixels (including
# diagonal ones), or all pairs. With neighbours only, exact maximum likelihood is feasible. With all
# 2016 pairs, log Z cannot be computed exactly. Persistent contrastive divergence then estimates the
# gradient with Gibbs chains.

pixels = list(itertools.product(range(8), range(8)))
neighbours = [
    (i, j)
    for i, j in itertools.combinations(range(64), 2)
    if max(abs(pixels[i][0] - pixels[j][0]), abs(pixels[i][1] - pixels[j][1])) == 1
]
categories = [[0, 1]] * 64  # some corner pixels never contain ink in the training set
models = {
    "independent pixels": DiscreteMRF("independent", "exact", categories=categories, alpha=0.01),
    "neighbouring pixels": DiscreteMRF(neighbours, "exact", categories=categories, alpha=0.01),
    "all pairs of pixels": DiscreteMRF(
        "pairwise", PCD(n_chains=128), categories=categories, alpha=0.01, random_state=0
    ),
}
scores = {}
print("Mean log-likelihood of a held-out digit, in nats")
for name, model in models.items():
    scores[name] = model.fit(train).score(test)
    low, high = model.log_partition_interval_
    print(f"{name:20} {scores[name]:7.2f}   (log Z: {model.log_partition_method_}, ", end="")
    print(f"interval of width {high - low:.2f} nats)")

# %%
# Missing pixels
# --------------
# Missing values are ``nan``. ``predict`` imputes the most probable joint state of the missing
# pixels. ``marginals`` returns the probability of ink in each missing pixel. ``sample`` draws
# completions at random. If all pairs interact and half of the pixels are missing, exact inference
# is not feasible. The results are then approximate, by simulated annealing and Gibbs chains, and
# ``sample`` warns.

warnings.filterwarnings("ignore", "Exact sampling needs too much memory")
model = models["all pairs of pixels"]
halves = test.astype(float)
halves[:, 32:] = np.nan
completed = model.predict(halves)
most_frequent = (train.mean(axis=0) > 0.5).astype(int)
wrong = (completed != test)[:, 32:].mean(), (most_frequent != test)[:, 32:].mean()
print(f"Wrong pixels in the lower half: {wrong[0]:.1%} with the joint model,")
print(f"{wrong[1]:.1%} with the most frequent value of each pixel")

# %%
# The image shows test digits, the same digits without their lower half (beige), and the most
# probable completion.

paper = plt.get_cmap("Greys").with_extremes(bad="#f2d9b8")


def tile(*rows):
    """Return one image from rows of 8 x 8 images, with a white margin."""
    padded = [np.pad(row.reshape(-1, 8, 8), ((0, 0), (1, 1), (1, 1))) for row in rows]
    return np.block([list(row) for row in padded])


shown = [int(np.flatnonzero(test_labels == digit)[0]) for digit in range(10)]
digits, halves = test[shown], halves[shown]
figure, axes = plt.subplots(figsize=(5, 3.5), layout="constrained")
some = slice(2, 6)
image = tile(digits[some].astype(float), halves[some], completed[shown][some].astype(float))
axes.imshow(np.ma.masked_invalid(image), cmap=paper)
axes.set_xticks([])
axes.set_yticks([4.5, 14.5, 24.5], ["digit", "upper\nhalf", "completed"], fontsize="x-large")
axes.spines[:].set_visible(False)
axes.tick_params(left=False)

# %%
# Completions and samples
# -----------------------
# The figure shows the first test digit of each class. The last two rows show samples of two models.
# The model of independent pixels reproduces the mean image, but not the dependence between pixels.

erased = np.where(np.random.default_rng(0).random(digits.shape) < 0.25, np.nan, digits)
probability = np.column_stack([p[:, 1] for p in model.marginals(halves)])
rows = {
    "held-out digit": digits,
    "upper half given": halves,
    "most probable\ncompletion": completed[shown],
    "probability\nof ink": probability,
    "random\ncompletion": model.sample(10, given=halves, random_state=0),
    "25 % missing": erased,
    "most probable\ncompletion ": model.predict(erased),
    "samples of\nthe model": model.sample(10, random_state=0),
    "samples, inde-\npendent pixels": models["independent pixels"].sample(10, random_state=0),
}
accent = "#c8781e"
figure, grid = plt.subplots(len(rows), 10, figsize=(8.6, 8), layout="constrained")
for line, (name, images) in zip(grid, rows.items(), strict=True):
    line[0].set_ylabel(name, rotation=0, ha="right", va="center")
    for axes, image in zip(line, images, strict=True):
        axes.imshow(np.ma.masked_invalid(image.reshape(8, 8)), cmap=paper, vmin=0, vmax=1)
        axes.set(xticks=[], yticks=[])
        axes.spines[:].set_color("#bbbbbb")
for axes in grid[2:5].flat:
    axes.axhline(3.5, color=accent, linewidth=1)

path = "digits_completion.png"
figure.savefig(path, dpi=120)
print(f"saved {path}")

# %%
# Log-likelihood
# --------------
# All scores are normalised log-likelihoods, so the models can be compared. A difference of one nat
# is a factor of e in the probability of a digit. More interactions give a better model.

figure, axes = plt.subplots(figsize=(7, 2.2), layout="constrained")
cost = [-score for score in scores.values()]
bars = axes.barh(list(scores), cost, color=["#c9c9c9", "#9a9a9a", accent])
axes.bar_label(bars, fmt="{:.1f}", padding=3)
axes.set_xlabel("negative log-likelihood of a held-out digit, nats (lower is better)")
axes.invert_yaxis()
axes.tick_params(left=False)
axes.spines[["top", "right", "left"]].set_visible(False)
plt.show()
