"""
Parallel tempering and mixing of Gibbs chains
=============================================

An Ising model on an 8 x 8 lattice with attractive couplings has two modes: nearly all spins up and
nearly all spins down. Plain Gibbs chains stay for a long time in the mode in which they start.
Parallel tempering runs chains at several temperatures and swaps their states, so that the chains
visit both modes. Exact marginals are available here for comparison.
"""

# %%
# Gibbs sampling and parallel tempering
# -------------------------------------
# :func:`~skmrf.samplers.trace_chains` records the states and log-potentials of chains. With
# parallel tempering, each recorded chain is the coldest of ten chains, which have inverse
# temperatures from 0 to 1. Chains at neighbouring temperatures swap their states.

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

print(f"share of spins up, exact: {exact:.3f}")
for name, traces in (("plain", plain), ("tempered", tempered)):
    up = traces.states.mean(axis=(1, 2))
    print(f"{name:8} chains: {up.mean():.3f}, each chain {up.round(2).tolist()}")

# %%
# The figure shows the share of spins that are up, which differs between the two modes. The
# log-potential is not suitable for this plot, because its distribution is nearly the same in both
# modes. To check mixing, trace a quantity that differs between modes.


def draw(axes, traces, title):
    """Draw the share of spins that are up in three chains."""
    axes.plot(traces.states.mean(axis=2)[:3].T, linewidth=0.8)
    axes.axhline(exact, color="black", linestyle="--", linewidth=1, label="exact mean")
    axes.set(xlim=(0, 1000), ylim=(0, 1), xlabel="sweep", ylabel="share of spins up", title=title)
    axes.spines[["top", "right"]].set_visible(False)


figure, axes = plt.subplots(figsize=(5, 3.5), layout="constrained")
draw(axes, plain, "three plain Gibbs chains")
axes.legend(frameon=True, loc="center right")

# %%

figure, axes = plt.subplots(figsize=(5, 3.5), layout="constrained")
draw(axes, tempered, "three chains with parallel tempering")

path = "parallel_tempering_swaps.png"
figure.savefig(path, dpi=120)

# %%
# Temperatures
# ------------
# Swaps are rare where the distribution changes quickly with the temperature. With ``betas=10``, the
# inverse temperatures are adapted during burn-in until all neighbouring chains swap about equally
# often. A round trip is the path of a state from the coldest chain to the hottest and back. Many
# round trips mean good mixing.

print(f"round trips, evenly spaced: {even.round_trips}, adapted: {tempered.round_trips}")
print(f"lowest swap rates: {even.swap_rates.min():.2f} and {tempered.swap_rates.min():.2f}")

figure, panels = plt.subplots(1, 2, figsize=(9.6, 3.4), layout="constrained")
ChainsDisplay.from_traces(tempered, ax=panels)
panels[0].set_title("log-potentials, parallel tempering", fontsize="medium")
panels[1].stairs(even.swap_rates, evenly, color="#D55E00", label="evenly spaced")
panels[1].set_title("swap rates of neighbouring chains", fontsize="medium")
panels[1].legend(
    [panels[1].containers[0], panels[1].patches[-1]],
    ["adapted", "evenly spaced"],
    frameon=False,
    fontsize="small",
    loc="upper left",
)

print(f"saved {path}")
plt.show()
