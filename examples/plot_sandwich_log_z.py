"""
Log Z between two estimates
===========================

The log-likelihood of a restricted Boltzmann machine needs log Z, a sum over all states. Annealed
importance sampling estimates it from two sides: chains that walk from independent pixels to the
model give values that tend to be too low, chains that walk back give values that tend to be too
high. Here one layer is small, so that the exact value is known, and both ends can be judged by it.
It takes about half a minute on one core.
"""

# %%
# A model of digits
# -----------------
# Sixteen hidden units: log Z is a sum over their 65536 states.

import warnings

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_digits
from sklearn.exceptions import ConvergenceWarning

from skmrf import RBM
from skmrf.energies import BipartiteEnergy
from skmrf.likelihood import ais, log_partition_bounds
from skmrf.samplers import Product

warnings.simplefilter("ignore", ConvergenceWarning)  # 500 epochs are enough here
ink = (load_digits().data > 7.5).astype(int)
model = RBM(16, "pcd", max_iter=500, random_state=0).fit(ink)
exact = model.log_partition_
print(f"log Z = {exact:.2f} ({model.log_partition_method_})")

# %%
# Longer paths bring the ends together
# ------------------------------------
# ``lower`` and ``upper`` of every estimate, over ten seeds, relative to the exact value. The plain
# path begins at uniform pixels and has evenly spaced temperatures. The default path begins near the
# pixels' own marginals, and its temperatures are dense where the distribution changes fast.

N_SEEDS = 10
lengths = [10, 30, 100, 300, 1000]
uniform = Product.uniform([2] * ink.shape[1])
paths = {
    "plain path": {"schedule": "linear", "reference": uniform},
    "default path": {},
}


def distances(n_temperatures, seed, options):
    """Lower end, forward estimate and upper end, less the exact value."""
    found = ais(
        model.energy_, n_temperatures=n_temperatures, max_width=50, random_state=seed, **options
    )
    return found.lower - exact, found.value - exact, found.upper - exact


ends = {
    name: np.array([[distances(n, seed, options) for seed in range(N_SEEDS)] for n in lengths])
    for name, options in paths.items()
}
for name, found in ends.items():
    width = (found[..., 2] - found[..., 0]).mean(axis=1)
    print(name, "mean width in nats:", dict(zip(lengths, width.round(2).tolist(), strict=True)))

# %%
# One end alone misleads
# ----------------------
# A log Z that is too low makes every log-likelihood too high. The forward end alone does not tell
# how much: on a short plain path it is off by nats, in favour of the model.
#
# Worse is a part of the model that chains never see. Here a seventeenth hidden unit memorises one
# scan whose colours are inverted, so strongly that it has most of the probability. No forward
# chain comes near it. Where the chains back begin at the ends of the forward ones, as they must if
# nothing else is known, they agree: the interval is narrow, and wrong. Begun at rows that the model
# was made for, most of them that scan, they make it wide, and it holds the truth.

scan = 1 - ink[0]
memory, depth = 12.0 * (2 * scan - 1), 2.0 - model.score_samples([scan])[0]
spoiled = BipartiteEnergy(
    np.column_stack([model.components_.T, memory]),
    model.intercept_visible_,
    np.append(model.intercept_hidden_, depth - memory @ scan),
)
truth = log_partition_bounds(spoiled, method="exact").value
remembered = 1.0 - np.exp(exact - truth)  # where the seventeenth unit is 1
n_scans = round(128 * remembered)
rows = np.concatenate([np.repeat([scan], n_scans, axis=0), ink[1:][: 128 - n_scans]])
starts = {"ends of the\nforward chains": None, "rows, most of them\nthe scan": rows}
intervals = {
    name: ais(spoiled, n_temperatures=1000, start=start, max_width=50, random_state=0)
    for name, start in starts.items()
}
print(f"The scan and what is close to it have {remembered:.0%} of the probability")
for name, found in intervals.items():
    low, high, where = found.lower - truth, found.upper - truth, name.replace("\n", " ")
    print(f"Reverse chains from {where}: [{low:+.2f}, {high:+.2f}] less the exact log Z")

# %%
# The picture
# -----------
# ``RBM`` starts the reverse chains at training rows. Its ``score_samples`` subtracts the forward
# estimate, ``log_partition_``; ``log_partition_interval_`` holds both ends.

colours = {"plain path": "#8a8a8a", "default path": "#c8781e"}
figure, (left, right) = plt.subplots(
    1, 2, figsize=(9.6, 4.2), layout="constrained", width_ratios=[3, 2]
)
for name, found in ends.items():
    centre = found.mean(axis=1)
    left.fill_between(lengths, centre[:, 0], centre[:, 2], color=colours[name], alpha=0.2)
    left.plot(lengths, centre[:, 0], color=colours[name], marker="v", label=f"{name}: lower end")
    left.plot(lengths, centre[:, 2], color=colours[name], marker="^", label=f"{name}: upper end")
    for k, n in enumerate(lengths):
        left.plot([n] * N_SEEDS, found[k, :, 1], ".", color=colours[name], markersize=3)
left.set_xscale("log")
left.set_xlabel("temperatures (dots: forward estimates of ten seeds)")
left.set_ylabel("log Z less its exact value, nats")
left.legend(frameon=False)
for place, found in enumerate(intervals.values()):
    low, high = found.lower - truth, found.upper - truth
    right.plot([place, place], [low, high], color="#c8781e", linewidth=6, solid_capstyle="butt")
    right.plot(place, found.value - truth, "o", color="black", label="forward estimate")
right.legend(*[part[:1] for part in right.get_legend_handles_labels()], frameon=False)
right.set_xticks(range(len(intervals)), intervals)
right.set_xlim(-0.5, 1.5)
right.set_xlabel("where reverse chains begin")
right.set_title("a model with one memorised scan", fontsize="medium")
for axes in (left, right):
    axes.axhline(0.0, color="black", linewidth=0.8)
    axes.spines[["top", "right"]].set_visible(False)

path = "sandwich_log_z.png"
figure.savefig(path, dpi=120)
print(f"saved {path}")
plt.show()
