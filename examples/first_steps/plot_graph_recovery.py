"""
Structure learning: recovering a graph from data
================================================

In this graph, variables 0 and 9 share eight neighbours but have no edge between them. Nevertheless,
the correlation of variables 0 and 9 is larger than the correlation of any two neighbours, so no
threshold on correlations recovers the graph. :class:`~skmrf.MRFStructureLearner` tests whether two
variables are dependent given all other variables, and finds exactly the true edges.
"""

# %%
# Learning the graph
# ------------------
# We draw 5,000 samples from the model and learn the graph from them. Twenty bootstrap samples show
# how stable each edge is.

import matplotlib.pyplot as plt
import networkx as nx
import numpy as np

from skmrf import MRFStructureLearner
from skmrf.datasets import make_non_decay_mrf
from skmrf.inference import sample

energy = make_non_decay_mrf(8, beta=0.6)
print(
    "Drawing 5,000 samples. The first run also compiles functions, in about 20 seconds.", flush=True
)
X = sample(energy, 5000, random_state=4)
print("Learning the graph, and learning it again from 20 bootstrap samples.", flush=True)
learner = MRFStructureLearner("exact", n_bootstraps=20, random_state=0).fit(X)
edges = set(map(tuple, learner.edges_.tolist()))
truth = set(zip(*np.nonzero(np.triu(energy.coupling)), strict=True))
print(f"{len(edges & truth)} of {len(truth)} edges found, {len(edges - truth)} false")

# %%
# The learned graph
# -----------------
# Wide edges have strong couplings. The labels are the shares of bootstrap samples in which the edge
# was found.

graph = learner.graph_
positions = {0: (-1.5, 0), 9: (1.5, 0)} | {k: (0, 4.5 - k) for k in range(1, 9)}
widths = [12 * abs(w) for *_, w in graph.edges(data="weight")]
shares = {(u, v): f"{100 * f:.0f}%" for u, v, f in graph.edges(data="frequency")}
figure, axes = plt.subplots(figsize=(5.6, 4), layout="constrained")
nx.draw_networkx(
    graph, positions, ax=axes, width=widths, node_color="0.9", edge_color="tab:blue", font_size=13
)
nx.draw_networkx_edge_labels(graph, positions, shares, ax=axes, font_size=8, label_pos=0.6)
axes.axis("off")

# %%
# Correlations and couplings
# --------------------------
# Variables 0 and 9 have the largest correlation (left), but their learned coupling is near zero
# (right).

correlation = np.corrcoef(X.T) - np.eye(10)
figure, panels = plt.subplots(1, 2, figsize=(9, 4), layout="constrained")
matrices = {"correlation": correlation, "learned coupling": learner.coupling_}
for axes, (title, matrix) in zip(panels, matrices.items(), strict=True):
    image = axes.imshow(matrix, cmap="RdBu_r", vmin=-0.35, vmax=0.35)
    axes.set(title=title, xticks=range(10), yticks=range(10))
figure.colorbar(image, ax=panels, shrink=0.8)

path = "graph_recovery.png"
figure.savefig(path, dpi=120)

# %%
# Results for single pairs
# ------------------------
# Every pair has a p-value, adjusted for 45 tests, and an edge probability.

for i, j in ((0, 1), (0, 9), (1, 2)):
    print(
        f"({i}, {j}): correlation {correlation[i, j]:.2f}, coupling {learner.coupling_[i, j]:.2f}, "
        f"p = {learner.p_values_[i, j]:.2g}, probability {learner.edge_probability_[i, j]:.3f}"
    )

print(f"saved {path}")
plt.show()
