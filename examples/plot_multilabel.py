"""
Labels that belong together
===========================

How do I predict several labels of a row that depend on each other? Here the labels are the seven
bars of a pocket calculator's display, to be switched on for a handwritten digit that is hard to
read. Of the 128 patterns only ten are digits. Logistic regression decides about every bar alone, a
classifier chain about one after the other, and the hidden units of a conditional RBM see all of
them at once. It takes about ten seconds.
"""

# %%
# Bars for digits
# ---------------
# Bar *a* is at the top, and the others follow clockwise; *g* is in the middle. The pictures get
# noise of a quarter of the range of their grey levels.

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_digits
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import accuracy_score, hamming_loss
from sklearn.model_selection import train_test_split
from sklearn.multioutput import ClassifierChain, MultiOutputClassifier

from skmrf import CRBMStructuredPredictor

BARS = ["abcdef", "bc", "abdeg", "abcdg", "bcfg", "acdfg", "acdefg", "abc", "abcdefg", "abcdfg"]
patterns = np.array([[bar in bars for bar in "abcdefg"] for bars in BARS]).astype(int)

pixels, digits = load_digits(return_X_y=True)
noise = np.random.default_rng(0).normal(scale=4.0, size=pixels.shape)
X, X_test, Y, Y_test = train_test_split(
    (pixels + noise) / 16, patterns[digits], test_size=0.4, random_state=0
)

# %%
# Three models
# ------------
# A display is right when all bars are. It can be wrong and still be a digit, or show none at all.

alone = LogisticRegression(C=0.1, max_iter=1000)
models = {
    "every bar alone": MultiOutputClassifier(alone),
    "classifier chain": ClassifierChain(alone, order="random", random_state=0),
    "conditional RBM": CRBMStructuredPredictor(32, random_state=0),
}
shown, scores = {}, {}
for name, model in models.items():
    shown[name] = model.fit(X, Y).predict(X_test).astype(int)
    is_digit = (shown[name][:, None] == patterns).all(axis=2).any(axis=1)
    scores[name] = {
        "bars right": 1 - hamming_loss(Y_test, shown[name]),
        "display is a digit": is_digit.mean(),
        "display is right": accuracy_score(Y_test, shown[name]),
    }
    print(name, {k: round(float(v), 3) for k, v in scores[name].items()})

# %%
# What is displayed
# -----------------
# The first digits of the test set as they are seen, and what each model displays for them; wrong
# displays are red.

LINES = {  # of bars, from (0, 0) at the lower left to (1, 2)
    "a": ((0, 2), (1, 2)),
    "b": ((1, 2), (1, 1)),
    "c": ((1, 1), (1, 0)),
    "d": ((1, 0), (0, 0)),
    "e": ((0, 0), (0, 1)),
    "f": ((0, 1), (0, 2)),
    "g": ((0, 1), (1, 1)),
}


def display(ax, pattern, right):
    for (start, stop), on in zip(LINES.values(), pattern, strict=True):
        colour = ("black" if right else "tab:red") if on else "0.93"
        ax.plot(*np.transpose([start, stop]), color=colour, linewidth=4, solid_capstyle="round")
    ax.set(xlim=(-0.6, 1.6), ylim=(-0.3, 2.3), aspect="equal")
    ax.axis("off")


n = 14
figure, axes = plt.subplots(len(models) + 1, n, figsize=(9, 4), layout="constrained")
for ax, picture in zip(axes[0], X_test, strict=False):
    ax.imshow(picture.reshape(8, 8), cmap="gray_r")
    ax.axis("off")
for row, (name, found) in zip(axes[1:], shown.items(), strict=True):
    row[0].set_title(name, loc="left", fontsize="medium")
    for ax, pattern, truth in zip(row, found, Y_test, strict=False):
        display(ax, pattern, (pattern == truth).all())

path = "multilabel.png"
figure.savefig(path, dpi=120)
print(f"saved {path}")
plt.show()

# %%
# In figures
# ----------

figure, ax = plt.subplots(figsize=(6, 2.6), layout="constrained")
for k, (name, values) in enumerate(scores.items()):
    bars = ax.barh(np.arange(3) + 0.26 * k, values.values(), height=0.24, label=name)
    ax.bar_label(bars, fmt="%.2f", padding=2, fontsize="small")
ax.set(xlim=(0, 1.1), xlabel="share in the test set")
ax.set_yticks(np.arange(3) + 0.26, labels=next(iter(scores.values())))
ax.invert_yaxis()
ax.legend(loc="upper left", bbox_to_anchor=(1, 1), frameon=False)
plt.show()
