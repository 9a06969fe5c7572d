"""
Image denoising and inpainting with a conditional RBM
=====================================================

The task is to restore digits in which a patch is occluded or some pixels are flipped. There are 64
binary outputs per row. The paper on belief propagation in conditional RBMs (Ping and Ihler, 2017)
has the same task with larger images. Logistic regression predicts every pixel independently. The
hidden units of :class:`~skmrf.CRBMStructuredPredictor` model the dependence between pixels. The
example takes about a minute.
"""

# %%
# Data
# ----
# The digits have 8 x 8 binary pixels. The inputs ``X`` are damaged images, and the outputs ``V``
# are the original images.

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
    "patch of 3 x 3 pixels occluded": lambda V, seed: occlude(V, size=3, random_state=seed),
    "10 % of the pixels flipped": lambda V, seed: flip_pixels(V, rate=0.1, random_state=seed),
}

# %%
# Learners
# --------
# ``"lr"`` is the model without hidden units, which is a logistic regression of every pixel.
# ``"mle-bp"`` is maximum likelihood with belief propagation, ``"mssvm"`` maximum margin learning.
# Each learner keeps the parameters with the lowest validation error on 10 % of the rows.

learners = {"logistic regression": "lr", "maximum likelihood": "mle-bp", "maximum margin": "mssvm"}
restored = {}
for damage, apply in damages.items():
    X, X_test = apply(train, 0), apply(test, 1)
    restored[damage] = {"damaged": X_test}
    for name, learner in learners.items():
        model = CRBMStructuredPredictor(48, learner, random_state=0).fit(X, train)
        restored[damage][name] = model.predict(X_test)
    for name, found in restored[damage].items():
        print(f"{damage}: {np.mean(found != test):.2%} of the pixels wrong, {name}")

# %%
# Restored images
# ---------------
# The figures show the first digits of the test set: the original images, the damaged images, and
# the results of the three learners. In the first figure, a patch is occluded.


def draw(damage, n=7):
    """Return a figure of the first n digits with their damaged and restored versions."""
    rows = {"original": test, **restored[damage]}
    tiles = [np.pad(V[:n].reshape(n, 8, 8), ((0, 0), (0, 1), (0, 1))) for V in rows.values()]
    figure, axes = plt.subplots(figsize=(6.2, 4), layout="constrained")
    axes.imshow(np.block([[*row] for row in tiles]), cmap="gray_r")
    axes.set(xticks=[], title=damage)
    axes.set_yticks(4 + 9 * np.arange(len(rows)), list(rows))
    return figure


occluded, flipped = restored
path = "restored_digits.png"
draw(occluded).savefig(path, dpi=120)

# %%
# In the second figure, some pixels are flipped.

draw(flipped)

print(f"saved {path}")
plt.show()
