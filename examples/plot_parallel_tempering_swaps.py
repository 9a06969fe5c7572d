"""
Stuck chains, and how swaps free them
=====================================

Do these Gibbs chains show the whole distribution, or the mode that each happened to start near? A
lattice of 8 x 8 spins that agree with their neighbours has two modes, all up and all down, and a
weak field favours up. The exact answer is known here, so that chains can be judged by it.
"""

# %%
# Plain and tempered chains
# -------------------------
# :func:`~skmrf.samplers.trace_chains` records where chains go. Tempered ones are each the coldest
# of ten, at inverse temperatures from 0 to 1, that swap states with their neighbours.

import matplotlib.pyplot as plt
import numpy as np

from skmrf.datasets import make_ising
from skmrf.inference import marginals
from skmrf.plot import ChainsDisplay
from skmrf.samplers import trace_chains

energy = make_ising("grid", n_variables=64, coupling=0.7, field=0.01)
exact = np.mean([p[1] for p in marginals(energy, method="exact").single])
plain = trace_chains(energy, n_chains=4, n_sweeps=1000, random_state=0)
evenly = np.linspace(0.0, 1.0, 10)
even = trace_chains(energy, n_chains=4, n_sweeps=1000, betas=evenly, random_state=0)
tempered = trace_chains(energy, n_chains=4, n_sweeps=1000, betas=10, random_state=0)

print(f"share of spins that are up: exactly {exact:.3f}")
for name, traces in (("plain", plain), ("tempered", tempered)):
    up = traces.states.mean(axis=(1, 2))
    print(f"{name:8} chains: {up.mean():.3f}, one by one {up.round(2).tolist()}")

# %%
# Where to put the temperatures
# -----------------------------
# Swaps are rare where the distribution changes fast. With ``betas=10`` the inverse temperatures
# move, during the warm-up, to where all neighbours swap about equally often. A round trip is a
# state's way from the coldest chain to the hottest and back, which is what brings news.

print(f"round trips, evenly spaced: {even.round_trips}, adapted: {tempered.round_trips}")
print(f"rarest swaps: {even.swap_rates.min():.2f} and {tempered.swap_rates.min():.2f}")

# %%
# The picture
# -----------
# Above, three chains of each kind. Log-potentials of both modes overlap, so in the traces of
# :class:`~skmrf.plot.ChainsDisplay` chains in different modes look alike; the share of spins that
# are up tells them apart. It is good to trace something that differs between modes.

figure, axes = plt.subplots(2, 2, figsize=(9.6, 5.6), layout="constrained")
for place, traces, title in (
    (axes[0, 0], plain, "plain chains: each stays where it is"),
    (axes[0, 1], tempered, "tempered chains: all see both modes"),
):
    runs = traces.states.mean(axis=2)
    place.plot(runs[:3].T, linewidth=0.6)
    place.axhline(exact, color="black", linestyle="--", linewidth=1, label="exact mean")
    place.set(xlim=(0, 1000), ylim=(0, 1), xlabel="sweep", ylabel="share of spins up")
    place.set_title(title, fontsize="medium")
    place.legend(frameon=True, loc="center right", fontsize="small")
    place.spines[["top", "right"]].set_visible(False)
ChainsDisplay.from_traces(tempered, ax=axes[1])
axes[1, 0].set_title("tempered chains: log-potentials", fontsize="medium")
axes[1, 1].stairs(even.swap_rates, evenly, color="#D55E00", label="evenly spaced")
axes[1, 1].set_title("how often neighbours swap", fontsize="medium")
axes[1, 1].legend(
    [axes[1, 1].containers[0], axes[1, 1].patches[-1]],
    ["adapted", "evenly spaced"],
    frameon=False,
    fontsize="small",
    loc="lower left",
)

path = "parallel_tempering_swaps.png"
figure.savefig(path, dpi=120)
print(f"saved {path}")
plt.show()
