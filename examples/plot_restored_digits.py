"""
Digits restored by a conditional RBM
====================================

A patch of every digit is hidden, or some of its pixels are flipped, and the digit is to be
restored: 64 outputs a row. Logistic regression decides about every pixel alone. A conditional
restricted Boltzmann machine has hidden units that tie the pixels together, so that what it restores
is a whole stroke or none. It takes some ten seconds.
"""

# %%
# Damage
# ------
# Digits of 8 x 8 pixels, ink or paper. ``X`` is what is seen, ``V`` what was there.

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split

from skmrf import CRBMStructuredPredictor
from skmrf.datasets import flip_pixels, occlude

grey, _ = load_digits(return_X_y=True)
ink = (grey > 7.5).astype(int)
train, test = train_test_split(ink, test_size=0.3, random_state=0)
damages = {
    "a patch of 3 x 3 hidden": lambda V, seed: occlude(V, size=3, random_state=seed),
    "a tenth of the pixels flipped": lambda V, seed: flip_pixels(V, rate=0.1, random_state=seed),
}

# %%
# Learning
# --------
# ``"lr"`` is the model without hidden units, logistic regression of every pixel. ``"mle-bp"``
# learns by likelihood with belief propagation, ``"mssvm"`` by margin. All hold out a tenth of the
# rows and keep the model that restores those best.

learners = {"logistic regression": "lr", "likelihood": "mle-bp", "margin": "mssvm"}
restored = {}
for damage, apply in damages.items():
    X, X_test = apply(train, 0), apply(test, 1)
    restored[damage] = {"seen": X_test}
    for name, learner in learners.items():
        model = CRBMStructuredPredictor(48, learner, random_state=0).fit(X, train)
        restored[damage][name] = model.predict(X_test)
    for name, found in restored[damage].items():
        print(f"{damage}: {np.mean(found != test):.2%} of the pixels wrong, {name}")

# %%
# What comes out
# --------------
# The first digits of the test set: as they were, as they are seen, and as they are restored.

n = 12
figure, panels = plt.subplots(2, 1, figsize=(8, 7), layout="constrained")
for axes, (damage, found) in zip(panels, restored.items(), strict=True):
    rows = {"was there": test, **found}
    tiles = [np.pad(V[:n].reshape(n, 8, 8), ((0, 0), (0, 1), (0, 1))) for V in rows.values()]
    axes.imshow(np.block([[*row] for row in tiles]), cmap="gray_r")
    axes.set_title(damage)
    axes.set_xticks([])
    axes.set_yticks(4 + 9 * np.arange(len(rows)), list(rows))

path = "restored_digits.png"
figure.savefig(path, dpi=120)
print(f"saved {path}")
plt.show()
