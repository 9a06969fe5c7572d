"""
A graph of votes
================

Which votes of a parliament depend on each other, even when all others and the party are known?
Correlations do not tell: party joins nearly everything. Sixteen votes of the United States House of
Representatives in 1984 and the party of its 435 members; a member who did not vote is a gap.
"""

# %%
# The table
# ---------
# It is read from the folder that the environment variable ``SKMRF_DATA`` names. **Where the file is
# absent, 435 members are drawn** from the pairwise model that was learned of the real table, whose
# couplings are written down here; the graph is then nearly that of the real votes, and what is
# printed says so.

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


def drawn_members():
    """Members of the model, by party and votes."""
    coupling = np.zeros((17, 17))
    coupling[tuple(np.transpose(list(COUPLINGS)))] = list(COUPLINGS.values())
    upper = sample(PairwiseEnergy(coupling + coupling.T, BIASES), 435, random_state=0)
    members = pd.DataFrame(np.where(upper, "y", "n"), columns=NAMES)
    return members.assign(**{"class": np.where(upper[:, 0], "republican", "democrat")})


file = Path(os.environ.get("SKMRF_DATA", ".")) / "votes" / "house_votes_84.csv.gz"
real = file.exists()
votes = pd.read_csv(file, na_values="?") if real else drawn_members()
source = "real votes" if real else "votes drawn from the model of the real ones"
print(
    f"{source}: {len(votes)} members, {votes.isna().to_numpy().mean():.1%} of the entries missing"
)

# %%
# The graph
# ---------
# :class:`~skmrf.MRFStructureLearner` keeps the pairs that are dependent given all other columns, so
# that the probability of any false edge is about 5 % at most. Far fewer are left than correlate.

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
# What a vote says of the party
# -----------------------------
# :class:`~skmrf.DiscreteMRF` learns tables on this graph (it takes the learner itself as
# ``cliques``, too, and then fits it first). A member of whom a single vote is known is a row with
# fifteen gaps, and the party one more.

cliques = [(i,) for i in range(17)] + [tuple(edge) for edge in learner.edges_.tolist()]
model = DiscreteMRF(cliques, "exact", alpha=0.003).fit(votes)
asked = pd.DataFrame(None, index=range(32), columns=votes.columns, dtype=object)
for k, name in enumerate(votes.columns[1:]):
    asked.loc[2 * k, name], asked.loc[2 * k + 1, name] = "n", "y"
republican = model.marginals(asked)[0][:, 1].reshape(16, 2)

# %%
# The picture
# -----------
# Left: an edge is blue where two columns go together (yes with yes, or yes with republican) and red
# where they oppose each other. Right: the probability that a member is a republican, from one vote.

figure, (left, right) = plt.subplots(
    1, 2, figsize=(11.5, 6), layout="constrained", width_ratios=[3, 2]
)
CouplingGraphDisplay.from_estimator(learner, ax=left)
order = np.argsort(np.ptp(republican, axis=1))
names = np.array(votes.columns[1:])[order]
right.hlines(range(16), *republican[order].T, color="0.7", linewidth=2, zorder=0)
for column, answer, colour in ((0, "no", "#D55E00"), (1, "yes", "#0072B2")):
    right.plot(republican[order, column], range(16), "o", color=colour, label=f"voted {answer}")
right.axvline((votes["class"] == "republican").mean(), color="black", linestyle=":", label="share")
right.set_yticks(range(16), names, fontsize="small")
right.set(xlim=(0, 1), xlabel="probability of a republican, given one vote")
right.legend(frameon=False, fontsize="small", loc="lower right")
right.spines[["top", "right"]].set_visible(False)
right.set_title(source, fontsize="medium")

path = "house_votes.png"
figure.savefig(path, dpi=120)
print(f"saved {path}")
plt.show()
