"""
Multi-label classification with a conditional RBM
=================================================

This example predicts seven dependent labels. The labels are the segments of a seven-segment
display, and the input is a noisy image of a handwritten digit. Only ten of the 128 label patterns
are digits. :class:`~skmrf.CRBMStructuredPredictor` models the dependence between labels with hidden
units. The baselines are an independent logistic regression for every segment and a classifier
chain. The example takes about ten seconds.
"""

# %%
# Data
# ----
# Segment *a* is at the top, segments *b* to *f* follow clockwise, and *g* is in the middle. We add
# Gaussian noise to the images, with a standard deviation of a quarter of the range of the grey
# levels.

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_digits
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import accuracy_score, hamming_loss
from sklearn.model_selection import train_test_split
from sklearn.multioutput import ClassifierChain, MultiOutputClassifier

from skmrf import CRBMStructuredPredictor

SEGMENTS = ["abcdef", "bc", "abdeg", "abcdg", "bcfg", "acdfg", "acdefg", "abc", "abcdefg", "abcdfg"]
patterns = np.array([[name in names for name in "abcdefg"] for names in SEGMENTS]).astype(int)

pixels, digits = load_digits(return_X_y=True)
noise = np.random.default_rng(0).normal(scale=4.0, size=pixels.shape)
X, X_test, Y, Y_test = train_test_split(
    (pixels + noise) / 16, patterns[digits], test_size=0.4, random_state=0
)

# %%
# Three models
# ------------
# We compute the share of correct segments, the share of displays that show any digit, and the share
# of displays in which all segments are correct.

alone = LogisticRegression(C=0.1, max_iter=1000)
models = {
    "independent": MultiOutputClassifier(alone),
    "classifier chain": ClassifierChain(alone, order="random", random_state=0),
    "conditional RBM": CRBMStructuredPredictor(32, random_state=0),
}
shown, scores = {}, {}
for name, model in models.items():
    shown[name] = model.fit(X, Y).predict(X_test).astype(int)
    is_digit = (shown[name][:, None] == patterns).all(axis=2).any(axis=1)
    scores[name] = {
        "correct segments": 1 - hamming_loss(Y_test, shown[name]),
        "valid digits": is_digit.mean(),
        "correct displays": accuracy_score(Y_test, shown[name]),
    }
    print(name, {k: round(float(v), 3) for k, v in scores[name].items()})

# %%
# Predicted displays
# ------------------
# The first row shows images of the test set. The other rows show the predictions of each model.
# Displays with an error are red.

LINES = {  # end points of the segments, from (0, 0) at the lower left to (1, 2)
    "a": ((0, 2), (1, 2)),
    "b": ((1, 2), (1, 1)),
    "c": ((1, 1), (1, 0)),
    "d": ((1, 0), (0, 0)),
    "e": ((0, 0), (0, 1)),
    "f": ((0, 1), (0, 2)),
    "g": ((0, 1), (1, 1)),
}


def display(ax, pattern, is_correct):
    """Draw a seven-segment display."""
    for (start, stop), on in zip(LINES.values(), pattern, strict=True):
        colour = ("black" if is_correct else "tab:red") if on else "0.93"
        ax.plot(*np.transpose([start, stop]), color=colour, linewidth=4, solid_capstyle="round")
    ax.set(xlim=(-0.6, 1.6), ylim=(-0.3, 2.3), aspect="equal")
    ax.axis("off")


n = 9
figure, axes = plt.subplots(len(models) + 1, n, figsize=(6, 4), layout="constrained")
for ax, picture in zip(axes[0], X_test, strict=False):
    ax.imshow(picture.reshape(8, 8), cmap="gray_r")
    ax.axis("off")
for row, (name, found) in zip(axes[1:], shown.items(), strict=True):
    row[0].set_title(name, loc="left")
    for ax, pattern, truth in zip(row, found, Y_test, strict=False):
        display(ax, pattern, (pattern == truth).all())

path = "multilabel.png"
figure.savefig(path, dpi=120)

# %%
# Scores
# ------

figure, ax = plt.subplots(figsize=(7, 2.6), layout="constrained")
for k, (name, values) in enumerate(scores.items()):
    bars = ax.barh(np.arange(3) + 0.26 * k, values.values(), height=0.24, label=name)
    ax.bar_label(bars, fmt="%.2f", padding=2, fontsize="small")
ax.set(xlim=(0, 1.1), xlabel="share in the test set")
ax.set_yticks(np.arange(3) + 0.26, labels=next(iter(scores.values())))
ax.invert_yaxis()
ax.legend(loc="upper left", bbox_to_anchor=(1, 1), frameon=False)
ax.spines[["top", "right"]].set_visible(False)

print(f"saved {path}")
plt.show()
