"""
Four modes of six bits
======================

Why does a Gibbs chain miss what chained belief propagation draws, and why do independent draws from
beliefs? The smallest table that shows both, from the paper on chained belief propagation (Ding and
Xue, 2020, Figure 1): six bits that are nearly always in one of four states, of which no two differ
in one bit only.
"""

# %%
# The table
# ---------
# Two states have a probability of 0.4, two of 0.097, and the 60 others of 0.0001 each. It is one
# clique of six variables.

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
# A Gibbs chain
# -------------
# It changes one bit at a time. To leave a mode it has to step on a state of probability 0.0001, and
# from there to go on rather than back. A chain that starts in 000000 is followed for 2,000 sweeps.
# The law of all such chains is exact: an update of a bit sums it out and multiplies by its
# probability given the others.

rng = np.random.default_rng(3)
x = np.zeros((1, 6), dtype=np.int16)
generators = spawn_generators(rng, 1)
walk = []
for _ in range(2000):
    x, _ = sweep(graph, x, generators)
    walk.append(x[0].sum())

conditionals = [p / p.sum(axis=bit, keepdims=True) for bit in range(6)]
law = np.zeros([2] * 6)
law[tuple(modes[0])] = 1.0
distance = []
for _ in range(5000):
    for bit in range(6):
        law = law.sum(axis=bit, keepdims=True) * conditionals[bit]
    distance.append(0.5 * np.abs(law - p).sum())
print(f"Total variation distance after 100 sweeps: {distance[99]:.2f}, ", end="")
print(f"after 1,000 sweeps: {distance[999]:.2f}")

# %%
# Beliefs
# -------
# One clique is a tree, so belief propagation is exact: every bit is 0 or 1 with probability one
# half. Draws of each bit by its own belief know nothing of the modes: they are uniform over the 64
# states. Chained belief propagation draws the first bit from its belief, propagates again with that
# bit given, draws the second, and so on. It asks for what the modes have in common, six times.

beliefs = marginals(graph, method="bp").single
print("Probability of a 1 in each bit:", np.round([b[1] for b in beliefs], 3))
alone = np.ones(())
for b in beliefs:
    alone = np.multiply.outer(alone, b)
chained = sample(graph, 2000, method="bpchain", conditionals="bp", random_state=0)

# %%
# The picture
# -----------
# On the left, one Gibbs chain and as many independent draws; the height is the number of ones. In
# the middle, 2,000 draws of each kind. On the right, the exact distance from the table; there the
# curve of chained belief propagation is zero, as its conditionals are exact on every tree. On
# graphs with loops they are not: see :ref:`sphx_glr_gallery_plot_belief_propagation.py`.

chains = np.zeros((2000, 6), dtype=np.int16)
chains, _ = sweep(graph, chains, spawn_generators(rng, len(chains)), n_sweeps=100)
product = np.column_stack([rng.choice(2, size=2000, p=b) for b in beliefs])


def shares(X):
    """Of the four modes and of all other states."""
    found = [np.all(mode == X, axis=1).mean() for mode in modes]
    return np.array([*found, 1.0 - sum(found)])


accent, plain, light = "#c8781e", "#6d6d6d", "#c4c4c4"
names = ["".join(map(str, mode)) for mode in modes]
figure = plt.figure(figsize=(11.5, 4.2), layout="constrained")
left, middle, right = figure.subfigures(1, 3, width_ratios=[1, 1.1, 0.9])

above, below = left.subplots(2, 1, sharex=True)
above.plot(np.arange(1, 2001), walk, color=plain, linewidth=0.8)
above.set_title("a Gibbs chain, sweep by sweep", fontsize="medium", loc="left")
jitter = chained.sum(axis=1) + rng.uniform(-0.3, 0.3, size=2000)
below.plot(np.arange(1, 2001), jitter, ".", color=accent, markersize=1.5)
below.set_title("chained BP, draw by draw", fontsize="medium", loc="left")
below.set_xlabel("sweep or draw")
for axes in (above, below):
    axes.set(yticks=[0, 2, 4, 6], yticklabels=names, ylim=(-0.7, 6.7), xlim=(0, 2000))
    axes.tick_params(axis="y", labelfontfamily="monospace", length=0)

axes = middle.subplots()
kinds = {
    "100 Gibbs sweeps from 000000": (chains, plain),
    "bits by their own beliefs": (product, light),
    "chained belief propagation": (chained, accent),
}
place = np.arange(5)
for k, (name, (X, color)) in enumerate(kinds.items()):
    share = shares(X)
    spread = 2 * np.sqrt(share * (1 - share) / len(X))
    at = place + 0.27 * (k - 1)
    axes.bar(at, share, 0.25, color=color, label=name)
    axes.errorbar(at, share, spread, fmt="none", ecolor="black", elinewidth=0.8)
truth = [*p[tuple(modes.T)], 60 * 0.0001]
axes.hlines(truth, place - 0.45, place + 0.45, color="black", linewidth=1.2, label="the table")
axes.set_xticks(place, [*names, "others"], fontfamily="monospace", fontsize="small")
axes.set_ylabel("share of 2,000 draws")
axes.legend(frameon=False, loc="upper center", fontsize="small")

axes = right.subplots()
sweeps = np.arange(1, len(distance) + 1)
axes.plot(sweeps, distance, color=plain)
axes.axhline(0.5 * np.abs(alone - p).sum(), color=light, linewidth=2)
axes.axhline(0.0, color=accent, linewidth=2)
axes.set(xscale="log", xlim=(1, len(distance)), ylim=(-0.03, 1.0), xlabel="Gibbs sweeps")
axes.set_ylabel("total variation distance from the table")
axes.text(1.3, 0.88, "bits by their own beliefs", color="#8f8f8f")
axes.text(1.3, 0.63, "Gibbs chains from 000000", color=plain)
axes.text(1.3, 0.03, "chained belief propagation", color=accent)
for axes in figure.axes:
    axes.spines[["top", "right"]].set_visible(False)

path = "six_bits.png"
figure.savefig(path, dpi=120)
print(f"saved {path}")
plt.show()

# %%
# What it does not show
# ---------------------
# Contrastive divergence starts its chains at the data. Where the model is right, the data are
# draws of it already, so chains of any length stay draws of it, and the gradient is zero in the
# mean. The picture argues only against chains that start in one mode, or that learning has left in
# too few of them.
