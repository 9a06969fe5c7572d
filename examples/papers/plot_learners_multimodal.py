"""
Persistent sequential Monte Carlo on multimodal data
====================================================

This example compares four stochastic learners of a Boltzmann machine on data with several modes, as
the paper on persistent sequential Monte Carlo does (Xiong, Szedmak and Piater, 2014). The rows are
noisy copies of four patterns of ten bits. Ten columns are few enough for exact maximum likelihood,
which is the reference.
"""

# %%
# Data and learners
# -----------------
# All stochastic learners make 800 updates, fewer than they need to converge. ``"cd"`` starts its
# chains at the training rows, which contain all modes. The chains of ``"pcd"`` continue from update
# to update and rarely change their mode. ``"parallel-tempering"`` swaps states between chains at
# different temperatures. ``"psmc"`` reweights and resamples its samples (particles), so the share
# of samples in each mode remains correct.

import warnings

import matplotlib.pyplot as plt
import numpy as np
from sklearn.exceptions import ConvergenceWarning

from skmrf import BoltzmannMachine
from skmrf.plot import MomentsDisplay

warnings.simplefilter("ignore", ConvergenceWarning)  # the small number of epochs is intended
rng = np.random.default_rng(0)
patterns = rng.integers(2, size=(4, 10))


def draw(n_rows):
    """Draw copies of the patterns in which 3 % of the bits are flipped."""
    which = rng.choice(4, size=n_rows, p=[0.4, 0.3, 0.2, 0.1])
    return patterns[which] ^ (rng.random((n_rows, 10)) < 0.03)


train, test = draw(1000), draw(1000)
options = {"states": (0, 1), "alpha": 1e-3, "random_state": 0}
best = BoltzmannMachine("exact", **options).fit(train)
learners = ["cd", "pcd", "parallel-tempering", "psmc"]
models, difference = {}, {}
for name in learners:
    models[name] = BoltzmannMachine(name, max_iter=200, **options).fit(train)
    difference[name] = best.score(test) - models[name].score(test)
    print(f"{name:21} {difference[name]:.3f} nats per row below exact learning")

# %%
# Held-out log-likelihood
# -----------------------

figure, axes = plt.subplots(figsize=(5.6, 3.6), layout="constrained")
bars = axes.barh(learners, [difference[name] for name in learners], color="#56B4E9")
axes.bar_label(bars, fmt="{:.3f}", padding=3)
axes.set_yticks(range(4), ["CD", "PCD", "parallel\ntempering", "PSMC"], fontsize="large")
axes.invert_yaxis()
axes.set_xlabel("log-likelihood below exact learning, nats per row")
axes.tick_params(left=False)
axes.margins(x=0.15)
axes.spines[["top", "right", "left"]].set_visible(False)

path = "learners_multimodal.png"
figure.savefig(path, dpi=120)

# %%
# Moments
# -------
# At the maximum of the likelihood, the probabilities of single columns and of pairs are equal under
# the model and the data. :class:`~skmrf.plot.MomentsDisplay` shows the differences of these
# probabilities in standard errors. The figure shows two learners: those with the largest and with
# the smallest difference in log-likelihood from exact learning.

worst = max(difference, key=difference.get)
closest = min(difference, key=difference.get)
figure = plt.figure(figsize=(9.6, 7), layout="constrained")
for part, name in zip(figure.subfigures(2, 1), (worst, closest), strict=True):
    part.suptitle(f'"{name}"', fontsize="medium")
    MomentsDisplay.from_estimator(models[name], train, ax=part.subplots(1, 2))

print(f"saved {path}")
plt.show()
