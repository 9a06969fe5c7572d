"""
Log partition function by annealed importance sampling
======================================================

The log-likelihood of a restricted Boltzmann machine requires log Z, a sum over all states. Annealed
importance sampling (AIS) estimates it with two kinds of chains. Forward chains run from independent
pixels to the model, and their estimate tends to be too low. Reverse chains run from the model to
independent pixels, and their estimate tends to be too high. The hidden layer of this model is small
enough for the exact value. The example takes about half a minute on one core.
"""

# %%
# Model
# -----
# The RBM has sixteen hidden units, so log Z is a sum over their 65536 states.

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
# Number of temperatures
# ----------------------
# We compute the interval (``lower`` and ``upper``) for ten seeds and five numbers of temperatures,
# relative to the exact value. We compare two annealing paths. The plain path starts at uniformly
# distributed pixels and has evenly spaced inverse temperatures. The default path starts at
# independent pixels near the marginals of the data, and has more temperatures where the
# distribution changes quickly.

N_SEEDS = 10
lengths = [10, 30, 100, 300, 1000]
uniform = Product.uniform([2] * ink.shape[1])
paths = {
    "plain path": {"schedule": "linear", "reference": uniform},
    "default path": {},
}


def distances(n_temperatures, seed, options):
    """Return lower end, forward estimate and upper end, minus the exact value."""
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
# The first figure shows the mean interval (shaded), its ends (triangles) and the forward estimates
# of the ten seeds (dots). More temperatures make the interval narrower.

colours = {"plain path": "#8a8a8a", "default path": "#c8781e"}
figure, axes = plt.subplots(figsize=(5.6, 4), layout="constrained")
for name, found in ends.items():
    centre = found.mean(axis=1)
    axes.fill_between(lengths, centre[:, 0], centre[:, 2], color=colours[name], alpha=0.2)
    axes.plot(lengths, centre[:, 0], color=colours[name], marker="v", label=f"{name}: lower end")
    axes.plot(lengths, centre[:, 2], color=colours[name], marker="^", label=f"{name}: upper end")
    for k, n in enumerate(lengths):
        axes.plot([n] * N_SEEDS, found[k, :, 1], ".", color=colours[name], markersize=3)
axes.axhline(0.0, color="black", linewidth=0.8)
axes.set(xscale="log", xlabel="number of temperatures", ylabel="log Z minus exact log Z, nats")
axes.legend(frameon=False)
axes.spines[["top", "right"]].set_visible(False)

path = "sandwich_log_z.png"
figure.savefig(path, dpi=120)

# %%
# Failure of the interval: a mode that no chain visits
# ----------------------------------------------------
# A log Z that is too low makes every log-likelihood too high. The forward estimate alone does not
# show this error. With ten temperatures on the plain path, which starts at uniformly distributed
# pixels, the forward estimate is one to two nats too low.
#
# The interval can also be wrong. We add a hidden unit that memorises one image with inverted
# colours, so that most of the probability is near this image. No forward chain reaches this image.
# If the reverse chains start at the final states of the forward chains, the interval is narrow and
# wrong. If the reverse chains start at samples of the model, the interval is wide and contains the
# exact value: most of these samples are near the inverted image. ``RBM`` starts a second set of
# reverse chains at training rows. Its ``score_samples`` subtracts the forward estimate,
# ``log_partition_``. Its attribute ``log_partition_interval_`` has both limits of the interval.

image = 1 - ink[0]
weights, depth = 12.0 * (2 * image - 1), 2.0 - model.score_samples([image])[0]
extended = BipartiteEnergy(
    np.column_stack([model.components_.T, weights]),
    model.intercept_visible_,
    np.append(model.intercept_hidden_, depth - weights @ image),
)
truth = log_partition_bounds(extended, method="exact").value
share = 1.0 - np.exp(exact - truth)  # probability that the seventeenth unit is 1
n_copies = round(128 * share)
rows = np.concatenate([np.repeat([image], n_copies, axis=0), ink[1:][: 128 - n_copies]])
starts = {"ends of forward\nchains": None, "rows, mostly\nthe image": rows}
intervals = {
    name: ais(extended, n_temperatures=1000, start=start, max_width=60, random_state=0)
    for name, start in starts.items()
}
print(f"Probability of the image and its neighbourhood: {share:.0%}")
for name, found in intervals.items():
    low, high, where = found.lower - truth, found.upper - truth, name.replace("\n", " ")
    print(f"Reverse chains from {where}: [{low:+.2f}, {high:+.2f}] relative to the exact log Z")

# %%

figure, axes = plt.subplots(figsize=(5, 4), layout="constrained")
for place, found in enumerate(intervals.values()):
    low, high = found.lower - truth, found.upper - truth
    axes.plot([place, place], [low, high], color="#c8781e", linewidth=6, solid_capstyle="butt")
    axes.plot(place, found.value - truth, "o", color="black", label="forward estimate")
axes.legend(*[part[:1] for part in axes.get_legend_handles_labels()], frameon=False)
axes.axhline(0.0, color="black", linewidth=0.8)
axes.set_xticks(range(len(intervals)), intervals)
axes.set(xlim=(-0.5, 1.5), xlabel="start of the reverse chains")
axes.set_ylabel("log Z minus exact log Z, nats")
axes.spines[["top", "right"]].set_visible(False)

print(f"saved {path}")
plt.show()
