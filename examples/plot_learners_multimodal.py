"""
Learners where there are several modes
======================================

Which learner finds the model when its distribution has modes that are far apart? Rows are noisy
copies of four patterns of ten bits. A Boltzmann machine of ten columns is small enough that its
likelihood and its probabilities are exact, so that what the learners reach can be compared with
the maximum.
"""

# %%
# Rows, learners
# --------------
# All stochastic learners get the same number of updates, 800, which is less than they would take
# until they have converged. ``"cd"`` starts its chains at the rows, where all modes are. Those of
# ``"pcd"`` follow the model, and seldom change the mode. Particles of ``"psmc"`` are weighted and
# drawn anew, so that modes keep their weight.

import warnings

import matplotlib.pyplot as plt
import numpy as np
from sklearn.exceptions import ConvergenceWarning

from skmrf import BoltzmannMachine
from skmrf.plot import MomentsDisplay

warnings.simplefilter("ignore", ConvergenceWarning)  # all get the same, small number of epochs
rng = np.random.default_rng(0)
patterns = rng.integers(2, size=(4, 10))


def draw(n_rows):
    """Copies of the patterns with three bits of a hundred flipped."""
    which = rng.choice(4, size=n_rows, p=[0.4, 0.3, 0.2, 0.1])
    return patterns[which] ^ (rng.random((n_rows, 10)) < 0.03)


train, test = draw(1000), draw(1000)
how = {"states": (0, 1), "alpha": 1e-3, "random_state": 0}
best = BoltzmannMachine("exact", **how).fit(train)
learners = ["cd", "pcd", "parallel-tempering", "psmc"]
models, behind = {}, {}
for name in learners:
    models[name] = BoltzmannMachine(name, max_iter=200, **how).fit(train)
    behind[name] = best.score(test) - models[name].score(test)
    print(f"{name:21} {behind[name]:.3f} nats a row behind exact learning")

# %%
# The picture
# -----------
# Above: how far held-out log-likelihoods are from what exact learning reaches. Below: the
# probabilities of all columns and pairs of columns by the models farthest from it and closest to
# it, against the rows that they were learned from. At the maximum of the likelihood these agree;
# :class:`~skmrf.plot.MomentsDisplay` shows in standard errors what is left.

figure = plt.figure(figsize=(9.6, 8.4), layout="constrained")
top, *lower = figure.subfigures(3, 1, height_ratios=[2, 3, 3])
axes = top.subplots()
bars = axes.barh(learners, [behind[name] for name in learners], color="#56B4E9")
axes.bar_label(bars, fmt="{:.3f}", padding=3)
axes.invert_yaxis()
axes.set_xlabel("held-out log-likelihood, nats a row behind exact learning")
axes.tick_params(left=False)
axes.spines[["top", "right", "left"]].set_visible(False)
worst = max(behind, key=behind.get)
least = min(behind, key=behind.get)
for part, name in zip(lower, (worst, least), strict=True):
    part.suptitle(f'"{name}"', fontsize="medium")
    MomentsDisplay.from_estimator(models[name], train, ax=part.subplots(1, 2))

path = "learners_multimodal.png"
figure.savefig(path, dpi=120)
print(f"saved {path}")
plt.show()
