"""
Conditional dependence graph of voting records
==============================================

The data are sixteen votes of the 435 members of the United States House of Representatives in 1984,
and the party of each member. Most pairs of votes are correlated, because both depend on the party.
:class:`~skmrf.MRFStructureLearner` finds the pairs that are dependent given all other votes and the
party. A member who did not vote has a missing value.
"""

# %%
# Data
# ----
# The environment variable ``SKMRF_DATA`` names the folder of the real data. **If the file is not
# there, the example uses simulated votes** of 435 members. The simulated votes are drawn from a
# pairwise model that was fitted to the real votes, so the graph is nearly the same. The output and
# the figures say whether the votes are real or simulated.

import os
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd

from skmrf import DiscreteMRF, MRFStructureLearner
from skmrf.energies import PairwiseEnergy
from skmrf.inference import sample
from skmrf.plot import CouplingGraphDisplay

NAMES = [
    "class", "handicapped-infants", "water-project-cost-sharing",
    "adoption-of-the-budget-resolution", "physician-fee-freeze", "el-salvador-aid",
    "religious-groups-in-schools", "anti-satellite-test-ban", "aid-to-nicaraguan-contras",
    "mx-missile", "immigration", "synfuels-corporation-cutback", "education-spending",
    "superfund-right-to-sue", "crime", "duty-free-exports",
    "export-administration-act-south-africa",
]  # fmt: skip
COUPLINGS = {
    (0, 3): -0.68, (0, 4): 1.44, (0, 11): -0.5, (1, 6): -0.31, (1, 12): -0.36, (2, 11): 0.25,
    (2, 13): 0.29, (3, 8): 0.56, (3, 12): -0.3, (3, 16): 0.53, (4, 12): 0.64, (4, 15): -0.58,
    (5, 6): 0.7, (5, 8): -1.1, (5, 9): -0.9, (5, 13): 0.62, (5, 14): 0.71, (6, 15): -0.35,
    (7, 8): 0.6, (7, 9): 0.49, (7, 16): 0.79, (12, 13): 0.4, (12, 14): 0.59,
}  # fmt: skip
BIASES = [
    -0.62, -0.12, 0.06, -0.31, 0.07, 0.02, 0.47, -0.48, 0.42, -0.05, 0.01, -0.48, -0.46, 0.12, 0.59,
    -0.25, 1.35,
]  # fmt: skip


def simulate_members():
    """Return a table of simulated members with their party and votes."""
    coupling = np.zeros((17, 17))
    coupling[tuple(np.transpose(list(COUPLINGS)))] = list(COUPLINGS.values())
    upper = sample(PairwiseEnergy(coupling + coupling.T, BIASES), 435, random_state=0)
    members = pd.DataFrame(np.where(upper, "y", "n"), columns=NAMES)
    return members.assign(**{"class": np.where(upper[:, 0], "republican", "democrat")})


file = Path(os.environ.get("SKMRF_DATA", ".")) / "votes" / "house_votes_84.csv.gz"
real = file.exists()
votes = pd.read_csv(file, na_values="?") if real else simulate_members()
source = "real votes" if real else "simulated votes"
print(
    f"{source}: {len(votes)} members, {votes.isna().to_numpy().mean():.1%} of the entries missing"
)

# %%
# Structure learning
# ------------------
# By default, an edge is selected if Holm's method rejects independence given the other columns at a
# level of 5 %, or if its probability of being no edge is at most 5 %. The graph has far fewer edges
# than there are correlated pairs of columns.

learner = MRFStructureLearner("pseudo-likelihood", random_state=0).fit(votes)
codes = votes.apply(lambda column: column.astype("category").cat.codes.where(column.notna()))
correlation = codes.corr().to_numpy()
pairs = np.triu_indices(17, 1)
n_correlated = np.count_nonzero(np.abs(correlation[pairs]) > 0.2)
print(f"{n_correlated} of {len(pairs[0])} pairs are correlated by more than 0.2")
print(f"{len(learner.edges_)} edges; the strongest:")
strongest = sorted(learner.edges_.tolist(), key=lambda e: -abs(learner.coupling_[tuple(e)]))[:5]
for i, j in strongest:
    print(f"  {learner.coupling_[i, j]:+.2f} {votes.columns[i]}, {votes.columns[j]}")

# %%
# The learned graph
# -----------------
# Blue edges join columns that agree (yes with yes, or yes with republican). Orange edges join
# columns that oppose each other.

figure, axes = plt.subplots(figsize=(7.5, 5.5), layout="constrained")
CouplingGraphDisplay.from_estimator(learner, ax=axes)
axes.set_title(source, fontsize="medium")

path = "house_votes.png"
figure.savefig(path, dpi=120)

# %%
# Predicting the party from a single vote
# ---------------------------------------
# :class:`~skmrf.DiscreteMRF` learns the joint distribution on this graph. (``DiscreteMRF`` also
# accepts an unfitted structure learner as ``cliques`` and fits the structure learner first.) To
# predict the party from a single vote, we make a row in which the party and the fifteen other votes
# are missing.

cliques = [(i,) for i in range(17)] + [tuple(edge) for edge in learner.edges_.tolist()]
model = DiscreteMRF(cliques, "exact", alpha=0.003).fit(votes)
single = pd.DataFrame(None, index=range(32), columns=votes.columns, dtype=object)
for k, name in enumerate(votes.columns[1:]):
    single.loc[2 * k, name], single.loc[2 * k + 1, name] = "n", "y"
republican = model.marginals(single)[0].to_numpy()[:, 1].reshape(16, 2)

# %%
# The figure shows, for each vote, the probability that the member is a republican if the vote is
# yes and if it is no. Votes are sorted by the difference of these two probabilities. The dotted
# line is the share of republicans.

# sphinx_gallery_thumbnail_number = 2

figure, axes = plt.subplots(figsize=(6, 4.2), layout="constrained")
order = np.argsort(np.ptp(republican, axis=1))
names = np.array(votes.columns[1:])[order]
axes.hlines(range(16), *republican[order].T, color="0.7", linewidth=2, zorder=0)
for column, answer, colour in ((0, "no", "#D55E00"), (1, "yes", "#0072B2")):
    axes.plot(republican[order, column], range(16), "o", color=colour, label=f"voted {answer}")
axes.axvline((votes["class"] == "republican").mean(), color="black", linestyle=":", label="share")
axes.set_yticks(range(16), names, fontsize="small")
axes.set(xlim=(0, 1), xlabel="probability of a republican, given one vote")
axes.legend(frameon=False, fontsize="small", loc="lower right")
axes.spines[["top", "right"]].set_visible(False)

print(f"saved {path}")
plt.show()
