"""
Edges that correlations do not show
===================================

Variables 0 and 9 are both joined to the eight variables between them, and to nothing else. Through
eight paths of two edges they come to be more correlated than neighbours are, so no threshold on
correlations finds this graph. :class:`~skmrf.MRFStructureLearner` asks of every pair whether it is
dependent given all other variables.
"""

import matplotlib.pyplot as plt
import networkx as nx
import numpy as np

from skmrf import MRFStructureLearner
from skmrf.datasets import make_non_decay_mrf
from skmrf.inference import sample

energy = make_non_decay_mrf(8, beta=0.6)
X = sample(energy, 5000, random_state=4)
learner = MRFStructureLearner("exact", n_bootstraps=20, random_state=0).fit(X)
edges = set(map(tuple, learner.edges_.tolist()))
truth = set(zip(*np.nonzero(np.triu(energy.coupling)), strict=True))
print(f"{len(edges & truth)} of {len(truth)} edges found, {len(edges - truth)} false")

# %%
# The picture
# -----------
# Left: the correlations, largest between 0 and 9. Middle: the couplings that were learned. Right:
# the graph, wide where the coupling is strong; the numbers are the shares of 20 bootstraps that
# found the edge.

figure, (left, middle, right) = plt.subplots(1, 3, figsize=(12, 4), layout="constrained")
correlation = np.corrcoef(X.T) - np.eye(10)
for axes, matrix, title in (
    (left, correlation, "correlation"),
    (middle, learner.coupling_, "coupling"),
):
    image = axes.imshow(matrix, cmap="RdBu_r", vmin=-0.35, vmax=0.35)
    axes.set(title=title, xticks=range(10), yticks=range(10))
figure.colorbar(image, ax=middle, shrink=0.8)
graph = learner.graph_
places = {0: (-1.5, 0), 9: (1.5, 0)} | {k: (0, 4.5 - k) for k in range(1, 9)}
widths = [12 * abs(w) for *_, w in graph.edges(data="weight")]
shares = {(u, v): f"{100 * f:.0f}%" for u, v, f in graph.edges(data="frequency")}
nx.draw_networkx(graph, places, ax=right, width=widths, node_color="0.9", edge_color="tab:blue")
nx.draw_networkx_edge_labels(graph, places, shares, ax=right, font_size=7, label_pos=0.65)
right.set_title("learned graph")
right.axis("off")

path = "graph_recovery.png"
figure.savefig(path, dpi=120)

# %%
# Single pairs
# ------------
# Every pair has a p-value, adjusted for the 45 tests, and a probability:

for i, j in ((0, 1), (0, 9), (1, 2)):
    print(
        f"({i}, {j}): correlation {correlation[i, j]:.2f}, coupling {learner.coupling_[i, j]:.2f}, "
        f"p = {learner.p_values_[i, j]:.2g}, probability {learner.edge_probability_[i, j]:.3f}"
    )

print(f"saved {path}")
plt.show()
