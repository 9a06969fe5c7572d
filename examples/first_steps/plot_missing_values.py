"""
Imputing missing values in categorical data
===========================================

One fifth of the entries of this categorical table are missing, in the training rows as well as in
the test rows. :class:`~skmrf.DiscreteMRF` learns from the incomplete rows and imputes the most
probable categories. The example compares its accuracy with scikit-learn's ``SimpleImputer`` and
checks the calibration of the predicted probabilities.
"""

# %%
# Data
# ----
# The table is scikit-learn's breast cancer data after discretisation: a diagnosis, three sizes as
# words, and seven measurements of cell nuclei as quartiles from 1 to 4. We remove one fifth of all
# entries at random. ``None`` marks a missing value.

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
observed = np.where(missing, None, table)
train, test, _, truth, _, missing = train_test_split(observed, table, missing, random_state=0)
print(dict(zip(columns, test[0], strict=True)))

# %%
# Training and imputation
# -----------------------
# Every pair of columns has a table of log-potentials. The learner computes expectations over the
# missing entries given the observed ones, so incomplete rows need no preparation. A small penalty
# ``alpha`` keeps the log-potentials of category pairs that never occur finite.

model = DiscreteMRF("pairwise", PCD(n_chains=128), alpha=0.01, random_state=0).fit(train)
imputed = model.predict(test)
frequent = SimpleImputer(strategy="most_frequent", missing_values=None).fit(train).transform(test)

correct = {"most frequent value": frequent == truth, "DiscreteMRF": imputed == truth}
for name, hit in correct.items():
    print(f"{name:20} imputes {hit[missing].mean():.1%} of {missing.sum()} entries correctly")

# %%
# Accuracy by column
# ------------------

accent, plain = "#c8781e", "#9a9a9a"
shares = {
    name: [hit[missing[:, j], j].mean() for j in range(len(columns))]
    for name, hit in correct.items()
}
order = np.argsort(shares["DiscreteMRF"])
low, high = (np.array(share)[order] for share in shares.values())
figure, axes = plt.subplots(figsize=(6, 4.2), layout="constrained")
axes.hlines(range(len(order)), low, high, color="#dddddd", linewidth=4)
axes.plot(low, range(len(order)), "o", markersize=8, color=plain, label="most frequent value")
axes.plot(high, range(len(order)), "o", markersize=8, color=accent, label="DiscreteMRF")
axes.set_yticks(range(len(order)), [columns[j] for j in order])
axes.set(xlabel="missing entries imputed correctly", xlim=(0, 1.02))
axes.xaxis.set_major_formatter("{x:.0%}")
axes.legend(frameon=False, loc="lower right")
axes.spines[["top", "right"]].set_visible(False)

path = "missing_values.png"
figure.savefig(path, dpi=120)

# %%
# Calibration
# -----------
# ``marginals`` returns the probability of every category of every missing entry. If the
# probabilities are calibrated, about 70 % of the categories with a predicted probability of 0.7 are
# the true categories. Error bars are two standard errors.

predicted, is_true = [], []
for j, probabilities in enumerate(model.marginals(test)):
    predicted.append(probabilities[missing[:, j]].ravel())
    is_true.append((truth[missing[:, j], j, None] == model.categories_[j]).ravel())
predicted, is_true = np.concatenate(predicted), np.concatenate(is_true)
group = np.minimum((predicted * 8).astype(int), 7)
count = np.bincount(group)
mean = np.bincount(group, predicted) / count
share = np.bincount(group, is_true) / count
error = 2 * np.sqrt(mean * (1 - mean) / count)

figure, axes = plt.subplots(figsize=(4.6, 4.2), layout="constrained")
axes.plot([0, 1], [0, 1], color="#dddddd", linewidth=3)
axes.errorbar(mean, share, error, fmt="o", color=accent, elinewidth=1)
axes.set(xlabel="predicted probability", ylabel="share of true categories", aspect="equal")
axes.spines[["top", "right"]].set_visible(False)

print(f"saved {path}")
plt.show()
