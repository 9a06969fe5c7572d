"""
Completing handwritten digits
=============================

A Markov random field learns the distribution of whole images: here of the 8 x 8 digits that come
with scikit-learn, black and white. One model then answers four kinds of questions that it was not
trained for in particular: how probable is a new digit, what is missing in a digit of which only the
upper half is known, how sure is each missing pixel, and what do other plausible completions look
like. It takes about 20 seconds on one core.
"""

# %%
# The data
# --------
# A pixel is ink or paper. Three hundred digits are held out: no model sees them before it is
# judged.

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
    ink, labels, test_size=300, stratify=labels, random_state=0
)

# %%
# Three models
# ------------
# They differ in which pixels share a table of log-potentials: none, neighbours (diagonal ones
# included), or all pairs. Neighbours are few enough for exact maximum likelihood. With all 2016
# pairs the partition function is out of reach, and persistent contrastive divergence follows its
# gradient by Gibbs chains instead.

pixels = list(itertools.product(range(8), range(8)))
neighbours = [
    (i, j)
    for i, j in itertools.combinations(range(64), 2)
    if max(abs(pixels[i][0] - pixels[j][0]), abs(pixels[i][1] - pixels[j][1])) == 1
]
both = [[0, 1]] * 64  # some corner pixels never see ink in the training digits
models = {
    "independent pixels": DiscreteMRF("independent", "exact", categories=both, alpha=0.01),
    "neighbouring pixels": DiscreteMRF(neighbours, "exact", categories=both, alpha=0.01),
    "all pairs of pixels": DiscreteMRF(
        "pairwise", PCD(n_chains=128), categories=both, alpha=0.01, random_state=0
    ),
}
scores = {}
print("Mean log-likelihood of a held-out digit, in nats")
for name, model in models.items():
    scores[name] = model.fit(train).score(test)
    low, high = model.log_partition_interval_
    print(f"{name:20} {scores[name]:7.2f}   (log Z: {model.log_partition_method_}, ", end="")
    print(f"known to {high - low:.2f} nats)")

# %%
# The scores are normalised, so they compare: each nat is a factor of e in the probability of a
# digit. The wider the reach of the tables, the better.
# Missing pixels
# --------------
# ``nan`` marks what is missing, the lower half or any other pixels. ``predict`` fills in their most
# probable joint state, ``marginals`` says how probable ink is in each, and ``sample`` draws
# completions. With all pairs and half of the pixels missing these answers are not exact: they come
# from annealing and Gibbs chains. The samples warn of that; here it is known.

warnings.filterwarnings("ignore", "Exact sampling does not fit")
model = models["all pairs of pixels"]
halves = test.astype(float)
halves[:, 32:] = np.nan
completed = model.predict(halves)
most_frequent = (train.mean(axis=0) > 0.5).astype(int)
wrong = (completed != test)[:, 32:].mean(), (most_frequent != test)[:, 32:].mean()
print(f"Pixels of the lower half that are wrong: {wrong[0]:.1%} when completed jointly,")
print(f"{wrong[1]:.1%} when each pixel is given its most frequent value")

shown = [int(np.flatnonzero(test_labels == digit)[0]) for digit in range(10)]
digits, halves = test[shown], halves[shown]
erased = np.where(np.random.default_rng(0).random(digits.shape) < 0.25, np.nan, digits)
probability = np.column_stack([p[:, 1] for p in model.marginals(halves)])

# %%
# The picture
# -----------
# The digits are the first held-out one of each class. Compare the last two rows: independent pixels
# know where ink is common, but not which pixels go together.

rows = {
    "held-out digit": digits,
    "upper half given": halves,
    "most probable\ncompletion": completed[shown],
    "probability\nof ink": probability,
    "a completion\nat random": model.sample(10, given=halves, random_state=0),
    "a quarter erased": erased,
    "most probable\ncompletion ": model.predict(erased),
    "samples of\nthe model": model.sample(10, random_state=0),
    "samples of inde-\npendent pixels": models["independent pixels"].sample(10, random_state=0),
}
accent = "#c8781e"
paper = plt.get_cmap("Greys").with_extremes(bad="#f2d9b8")
figure = plt.figure(figsize=(8.6, 9.6), layout="constrained")
upper, lower = figure.subfigures(2, 1, height_ratios=[8.4, 1.6])
grid = upper.subplots(len(rows), 10)
for line, (name, images) in zip(grid, rows.items(), strict=True):
    line[0].set_ylabel(name, rotation=0, ha="right", va="center")
    for axes, image in zip(line, images, strict=True):
        axes.imshow(np.ma.masked_invalid(image.reshape(8, 8)), cmap=paper, vmin=0, vmax=1)
        axes.set(xticks=[], yticks=[])
        axes.spines[:].set_color("#bbbbbb")
for axes in grid[2:5].flat:
    axes.axhline(3.5, color=accent, linewidth=1)

axes = lower.subplots()
cost = [-score for score in scores.values()]
bars = axes.barh(list(scores), cost, color=["#c9c9c9", "#9a9a9a", accent])
axes.bar_label(bars, fmt="{:.1f}", padding=3)
axes.set_xlabel("nats that a held-out digit costs, $-\\log p$ (less is better)")
axes.invert_yaxis()
axes.tick_params(left=False)
axes.spines[["top", "right", "left"]].set_visible(False)

path = "digits_completion.png"
figure.savefig(path, dpi=120)
print(f"saved {path}")
plt.show()
