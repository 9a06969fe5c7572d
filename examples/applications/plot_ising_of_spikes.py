"""
Ising model of neural spike trains
==================================

The Ising model is the maximum entropy model with the firing rates and the pairwise correlations of
the data. If this model also predicts how many neurons fire at the same time, interactions of more
than two neurons are not needed. :class:`~skmrf.BoltzmannMachine` fits the Ising model by exact
maximum likelihood. A model of independent neurons is the baseline.
"""

# %%
# Data
# ----
# The data are the spikes of fifteen neurons in 40,000 time bins, from the ``maxent_toolbox``
# repository. The environment variable ``SKMRF_DATA`` names the folder of the data. **If the file is
# not there, the example uses simulated rows** from an Ising model with random couplings. An Ising
# model is then the correct model of the rows. The output and the legend say whether the data are
# real or simulated.

import os
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np

from skmrf import BoltzmannMachine, DiscreteMRF
from skmrf.datasets import make_ising
from skmrf.inference import sample
from skmrf.plot import CouplingGraphDisplay

N = 15
file = Path(os.environ.get("SKMRF_DATA", ".")) / "spikes" / "maxent_toolbox_spikes.npz"
if file.exists():
    with np.load(file) as arrays:
        rows = np.unpackbits(arrays["spikes15_packed"], axis=1)[:, :N]
    source = "recorded neurons"
else:
    couplings = np.random.default_rng(0).normal(0.05, 0.15, size=N * (N - 1) // 2)
    truth = make_ising("complete", n_variables=N, coupling=couplings, field=-0.5)
    rows = sample(truth, 40_000, random_state=0).astype(np.uint8)
    source = "simulated neurons"
train, test = rows[::2], rows[1::2]
print(f"{source}: {len(rows)} bins, a neuron fires in {rows.mean():.1%} of them")

# %%
# Two models
# ----------
# Every second time bin is a training row. The log-likelihood is computed exactly, by a sum over all
# 32,768 states.

ising = BoltzmannMachine("exact", states=(0, 1), alpha=1e-5).fit(train)
independent = DiscreteMRF("independent", "exact").fit(train)
for name, model in (("independent", independent), ("Ising", ising)):
    print(f"{name:11} {model.score(test):.3f} nats per held-out bin")

# %%
# Predictions beyond pairs
# ------------------------
# We compare the models with two statistics of the held-out bins that were not fitted: the number of
# neurons that fire at the same time, and the frequency of each pattern of firing neurons.

states = (np.arange(2**N)[:, None] >> np.arange(N)) & 1
number = states.sum(axis=1)
p = {"Ising": np.exp(ising.score_samples(states))}
p["independent"] = np.exp(independent.score_samples(states))
code = test @ (1 << np.arange(N))
counts = np.bincount(code, minlength=2**N)
at_once = {name: np.bincount(number, weights) for name, weights in p.items()}
seen = np.bincount(test.sum(axis=1), minlength=N + 1)
often = np.flatnonzero(counts >= 10)
ratio = {name: np.log(weights[often] * len(test) / counts[often]) for name, weights in p.items()}
for name in ("independent", "Ising"):
    error = np.abs(ratio[name]).mean()
    print(f"{name:11} mean error of the log probability of a frequent pattern {error:.2f}")

# %%
# The first figure shows the distribution of the number of neurons that fire in a bin.

colours = {"independent": "#E69F00", "Ising": "#0072B2"}
figure, axes = plt.subplots(figsize=(5, 3.6), layout="constrained")
shown = seen > 0
axes.plot(np.flatnonzero(shown), seen[shown] / len(test), "ko", label=f"data, {source}")
for name, style in (("independent", "--"), ("Ising", "-")):
    axes.plot(at_once[name], style, color=colours[name], linewidth=2, label=name)
axes.set(yscale="log", ylim=(0.1 / len(test), 1.0))
axes.set(xlabel="neurons that fire in a bin", ylabel="share of bins", xticks=range(0, N + 1, 3))
axes.legend(frameon=False)
axes.spines[["top", "right"]].set_visible(False)

path = "ising_of_spikes.png"
figure.savefig(path, dpi=120)

# %%
# The second figure compares the frequency of each frequent pattern with its probability under both
# models. For a correct model the points are on the line.

figure, axes = plt.subplots(figsize=(5, 4), layout="constrained")
for name in ("independent", "Ising"):
    frequency = counts[often] / len(test)
    axes.plot(frequency, p[name][often], ".", color=colours[name], alpha=0.6, label=name)
axes.plot([4e-4, 1], [4e-4, 1], color="black", linewidth=0.8)
axes.set(xscale="log", yscale="log", xlim=(4e-4, 1), ylim=(2e-5, 1))
axes.set(xlabel="frequency of a pattern", ylabel="probability under the model")
axes.legend(frameon=False)
axes.spines[["top", "right"]].set_visible(False)

# %%
# Couplings
# ---------
# The graph shows the 30 strongest couplings.

figure, axes = plt.subplots(figsize=(5, 5), layout="constrained")
CouplingGraphDisplay.from_estimator(ising, n_strongest=30, layout="circular", ax=axes)
axes.set_aspect("equal")

print(f"saved {path}")
plt.show()
