"""
Neurons that fire together
==========================

Do pairs of neurons explain how many of a group fire at once? If neurons were independent, many of
them would hardly ever fire in the same time bin. The Ising model has the same rates and the same
pair correlations as the data, and nothing else: where it predicts the rest, there is no need for
more than pairs.
"""

# %%
# Spike trains
# ------------
# Fifteen neurons in 40,000 time bins, from the ``maxent_toolbox`` repository, are taken from the
# folder that the environment variable ``SKMRF_DATA`` names. **Where that file is absent, the rows
# are simulated** by an Ising model with random couplings. Pairs then explain everything, by
# construction; what is printed and the legend of the picture say which rows they are.

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
# Both are learned from every second bin, exactly: 2 ** 15 states are summed over.

ising = BoltzmannMachine("exact", states=(0, 1), alpha=1e-5).fit(train)
independent = DiscreteMRF("independent", "exact").fit(train)
for name, model in (("independent", independent), ("Ising", ising)):
    print(f"{name:11} {model.score(test):.3f} nats a held-out bin")

# %%
# What was not fitted
# -------------------
# The number of neurons that fire at once, and how often each pattern occurs, in the held-out bins.

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
    print(
        f"{name:11} log probability of a frequent pattern off by {np.abs(ratio[name]).mean():.2f}"
    )

# %%
# The picture
# -----------
# Left and middle: dots on the line are right. Right: the 30 strongest couplings.

figure, axes = plt.subplots(1, 3, figsize=(11.5, 4.2), layout="constrained")
left, middle, right = axes
colours = {"independent": "#E69F00", "Ising": "#0072B2"}
shown = seen > 0
left.plot(np.flatnonzero(shown), seen[shown] / len(test), "ko", label=f"data, {source}")
for name, style in (("independent", "--"), ("Ising", "-")):
    left.plot(at_once[name], style, color=colours[name], label=name)
    middle.plot(
        counts[often] / len(test), p[name][often], ".", color=colours[name], alpha=0.6, label=name
    )
left.set(yscale="log", ylim=(0.1 / len(test), 1.0))
left.set(xlabel="neurons that fire in a bin", ylabel="share of bins", xticks=range(0, N + 1, 3))
middle.plot([4e-4, 1], [4e-4, 1], color="black", linewidth=0.8)
middle.set(xscale="log", yscale="log", xlim=(4e-4, 1), ylim=(2e-5, 1))
middle.set(xlabel="frequency of a pattern", ylabel="probability by the model")
for place in (left, middle):
    place.legend(frameon=False, fontsize="small")
    place.spines[["top", "right"]].set_visible(False)
CouplingGraphDisplay.from_estimator(ising, n_strongest=30, layout="circular", ax=right)
right.set_aspect("equal")

path = "ising_of_spikes.png"
figure.savefig(path, dpi=120)
print(f"saved {path}")
plt.show()
