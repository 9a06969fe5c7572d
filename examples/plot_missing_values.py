"""
Filling missing values of a categorical table
=============================================

A table with words, numbers and truth values, a fifth of its entries missing, in training as in use.
:class:`~skmrf.DiscreteMRF` learns from the incomplete rows as they are and fills each gap with what
is most probable given the rest of its row. It says how sure it is, and the picture checks whether
that is true.
"""

# %%
# The table
# ---------
# Scikit-learn's breast cancer data, made coarse: a diagnosis, three sizes in words, and seven
# measurements of cell nuclei as quarters from 1 to 4. A fifth of all entries is then removed at
# random; ``None`` stands for a missing one.

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_breast_cancer
from sklearn.impute import SimpleImputer
from sklearn.model_selection import train_test_split

from skmrf import DiscreteMRF
from skmrf.learners import PCD

cancer = load_breast_cancer()
columns = ["malignant"] + [name.removeprefix("mean ") for name in cancer.feature_names[:10]]
words = {"radius", "perimeter", "area"}

table = np.empty((len(cancer.target), len(columns)), dtype=object)
table[:, 0] = cancer.target == 0
for j, name in enumerate(columns[1:], start=1):
    values = cancer.data[:, j - 1]
    names = ["small", "medium", "large"] if name in words else [1, 2, 3, 4]
    edges = np.quantile(values, np.arange(1, len(names)) / len(names))
    table[:, j] = np.array(names, dtype=object)[np.searchsorted(edges, values)]

missing = np.random.default_rng(0).random(table.shape) < 0.2
seen = np.where(missing, None, table)
train, test, _, truth, _, holes = train_test_split(seen, table, missing, random_state=0)
print(dict(zip(columns, test[0], strict=True)))

# %%
# Learning and filling
# --------------------
# All pairs of columns share a table of log-potentials. Rows need not be complete: the learner
# averages over what is missing, given what is there. A little ``alpha`` keeps the tables finite
# where a pair of categories never occurs together.

model = DiscreteMRF("pairwise", PCD(n_chains=128), alpha=0.01, random_state=0).fit(train)
filled = model.predict(test)
frequent = SimpleImputer(strategy="most_frequent", missing_values=None).fit(train).transform(test)

hits = {"most frequent value": frequent == truth, "DiscreteMRF": filled == truth}
for name, hit in hits.items():
    print(f"{name:20} fills {hit[holes].mean():.1%} of {holes.sum()} missing entries rightly")

# %%
# How sure is it?
# ---------------
# ``marginals`` gives a probability to every category of every missing entry. If they can be
# trusted, then of all categories that were given about 0.7, about 70 % are the true one.

stated, true = [], []
for j, probabilities in enumerate(model.marginals(test)):
    stated.append(probabilities[holes[:, j]].ravel())
    true.append((truth[holes[:, j], j, None] == model.categories_[j]).ravel())
stated, true = np.concatenate(stated), np.concatenate(true)
group = np.minimum((stated * 8).astype(int), 7)
count = np.bincount(group)
claimed = np.bincount(group, stated) / count
observed = np.bincount(group, true) / count

# %%
# The picture
# -----------

accent, plain = "#c8781e", "#9a9a9a"
figure, (left, right) = plt.subplots(
    1, 2, figsize=(9.6, 4.4), layout="constrained", width_ratios=[1.35, 1]
)
shares = {
    name: [hit[holes[:, j], j].mean() for j in range(len(columns))] for name, hit in hits.items()
}
order = np.argsort(shares["DiscreteMRF"])
low, high = (np.array(share)[order] for share in shares.values())
left.hlines(range(len(order)), low, high, color="#dddddd", linewidth=3)
left.plot(low, range(len(order)), "o", color=plain, label="most frequent value")
left.plot(high, range(len(order)), "o", color=accent, label="DiscreteMRF")
left.set_yticks(range(len(order)), [columns[j] for j in order])
left.set(xlabel="missing entries filled rightly", xlim=(0, 1.02))
left.xaxis.set_major_formatter("{x:.0%}")
left.legend(frameon=False, loc="lower right")

spread = np.sqrt(claimed * (1 - claimed) / count)
right.plot([0, 1], [0, 1], color="#dddddd", linewidth=3)
right.errorbar(claimed, observed, 2 * spread, fmt="o", color=accent, elinewidth=1)
right.set(xlabel="probability that the model states", ylabel="share that is true", aspect="equal")
for axes in (left, right):
    axes.spines[["top", "right"]].set_visible(False)

path = "missing_values.png"
figure.savefig(path, dpi=120)
print(f"saved {path}")
plt.show()
