"""
Chained belief propagation on a multimodal distribution
=======================================================

This example reproduces Figure 1 of the paper on chained belief propagation (Ding and Xue, 2020).
The distribution of six bits has four modes, and any two modes differ in at least two bits. Gibbs
sampling rarely moves between the modes. Beliefs are the marginals that belief propagation computes.
Independent sampling from the beliefs ignores the dependence between bits. Chained belief
propagation draws samples from the correct distribution.
"""

# %%
# Distribution
# ------------
# Two states have probability 0.4 each, two states have probability 0.097 each, and the 60 other
# states have probability 0.0001 each. The factor graph has a single clique of six variables.

import matplotlib.pyplot as plt
import numpy as np

from skmrf.energies import FactorGraph
from skmrf.inference import log_partition, marginals, sample
from skmrf.samplers import spawn_generators, sweep

modes = np.array([[0, 0, 0, 0, 0, 0], [0, 0, 1, 1, 0, 0], [1, 1, 0, 0, 1, 1], [1, 1, 1, 1, 1, 1]])
p = np.full([2] * 6, 0.0001)
p[tuple(modes.T)] = 0.4, 0.097, 0.097, 0.4
graph = FactorGraph([2] * 6, [range(6)], [np.log(p)])
print(f"The table sums to {np.exp(float(log_partition(graph))):.6f}")

# %%
# Gibbs sampling
# --------------
# A Gibbs chain changes one bit at a time. To leave a mode it must pass through a state with
# probability 0.0001. We run a chain of 2,000 sweeps from state 000000. We also compute the exact
# distribution of the state of such a chain after each sweep.

rng = np.random.default_rng(3)
x = np.zeros((1, 6), dtype=np.int16)
generators = spawn_generators(rng, 1)
trace = []
for _ in range(2000):
    x, _ = sweep(graph, x, generators)
    trace.append(x[0].sum())

conditionals = [p / p.sum(axis=bit, keepdims=True) for bit in range(6)]
distribution = np.zeros([2] * 6)
distribution[tuple(modes[0])] = 1.0
distance = []
for _ in range(5000):
    for bit in range(6):
        distribution = distribution.sum(axis=bit, keepdims=True) * conditionals[bit]
    distance.append(0.5 * np.abs(distribution - p).sum())
print(f"Total variation distance after 100 sweeps: {distance[99]:.2f}, ", end="")
print(f"after 1,000 sweeps: {distance[999]:.2f}")

# %%
# Belief propagation
# ------------------
# A single clique is a tree, so belief propagation is exact: each bit is 0 or 1 with probability
# 0.5. Independent sampling of each bit from its belief is therefore uniform over the 64 states.
# Chained belief propagation draws the first bit from its belief, runs belief propagation again
# given this bit, draws the second bit, and so on.

beliefs = marginals(graph, method="bp").single
print("Probability of a 1 in each bit:", np.round([b[1] for b in beliefs], 3))
product = np.ones(())
for b in beliefs:
    product = np.multiply.outer(product, b)
chained = sample(graph, 2000, method="bpchain", conditionals="bp", random_state=0)

# %%
# Samples by state
# ----------------
# The figure compares 2,000 samples of each method with the true distribution. Error bars are two
# standard errors.

chains = np.zeros((2000, 6), dtype=np.int16)
chains, _ = sweep(graph, chains, spawn_generators(rng, len(chains)), n_sweeps=100)
independent = np.column_stack([rng.choice(2, size=2000, p=b) for b in beliefs])


def compute_shares(X):
    """Return the shares of the four modes and of all other states."""
    found = [np.all(mode == X, axis=1).mean() for mode in modes]
    return np.array([*found, 1.0 - sum(found)])


accent, plain, light = "#c8781e", "#6d6d6d", "#c4c4c4"
names = ["".join(map(str, mode)) for mode in modes]
methods = {
    "Gibbs, 100 sweeps": (chains, plain),
    "independent beliefs": (independent, light),
    "chained BP": (chained, accent),
}
figure, axes = plt.subplots(figsize=(5.6, 4), layout="constrained")
place = np.arange(5)
for k, (name, (X, color)) in enumerate(methods.items()):
    share = compute_shares(X)
    error = 2 * np.sqrt(share * (1 - share) / len(X))
    at = place + 0.27 * (k - 1)
    axes.bar(at, share, 0.25, color=color, label=name)
    axes.errorbar(at, share, error, fmt="none", ecolor="black", elinewidth=0.8)
truth = [*p[tuple(modes.T)], 60 * 0.0001]
axes.hlines(truth, place - 0.45, place + 0.45, color="black", linewidth=1.2, label="true")
axes.set_xticks(place, [*names, "others"], fontfamily="monospace")
axes.set_ylabel("share of samples")
axes.legend(frameon=False, loc="upper center")
axes.spines[["top", "right"]].set_visible(False)

path = "six_bits.png"
figure.savefig(path, dpi=120)

# %%
# Traces
# ------
# The vertical axis is the number of ones in the state. The Gibbs chain stays in a mode for hundreds
# of sweeps. Samples of chained belief propagation are independent.

figure, panels = plt.subplots(1, 2, figsize=(9, 3), layout="constrained", sharey=True)
jitter = chained.sum(axis=1) + rng.uniform(-0.3, 0.3, size=2000)
panels[0].plot(np.arange(1, 2001), trace, color=plain, linewidth=0.8)
panels[0].set(title="Gibbs chain", xlabel="sweep")
panels[1].plot(np.arange(1, 2001), jitter, ".", color=accent, markersize=1.5)
panels[1].set(title="chained BP", xlabel="sample")
for axes in panels:
    axes.set(yticks=[0, 2, 4, 6], yticklabels=names, ylim=(-0.7, 6.7), xlim=(0, 2000))
    axes.tick_params(axis="y", labelfontfamily="monospace", length=0)
    axes.spines[["top", "right"]].set_visible(False)

# %%
# Total variation distance
# ------------------------
# The figure shows the exact distance from the true distribution. For chained belief propagation
# this distance is zero, because its conditional distributions are exact on trees. On graphs with
# loops, the conditional distributions are approximate: see
# :ref:`sphx_glr_gallery_methods_plot_belief_propagation.py`.

figure, axes = plt.subplots(figsize=(6, 3.6), layout="constrained")
sweeps = np.arange(1, len(distance) + 1)
axes.plot(sweeps, distance, color=plain, linewidth=2, label="Gibbs chains from 000000")
far = 0.5 * np.abs(product - p).sum()
axes.axhline(far, color=light, linewidth=2, label="independent beliefs")
axes.axhline(0.0, color=accent, linewidth=2, label="chained BP")
axes.set(xscale="log", xlim=(1, len(distance)), ylim=(-0.03, 1.0), xlabel="Gibbs sweeps")
axes.set_ylabel("total variation distance")
axes.legend(frameon=False, loc=(0.03, 0.15))
axes.spines[["top", "right"]].set_visible(False)

print(f"saved {path}")
plt.show()

# %%
# Limitations
# -----------
# Contrastive divergence starts its chains at the data. If the model is correct, the data are
# samples of it, so chains of any length remain samples of it, and the expected gradient is zero.
# The figures therefore do not show a problem of contrastive divergence. They show a problem of
# chains that start in a single mode, or that cover too few modes after training.
