"""
RBM features for digit classification
=====================================

A restricted Boltzmann machine (RBM) learns features without labels. In this pipeline,
:class:`~skmrf.RBM` transforms images of digits before logistic regression. A grid search selects
the learner. Raw pixels and scikit-learn's ``BernoulliRBM`` are the baselines. The example takes
about half a minute on one core.
"""

# %%
# Three classifiers
# -----------------
# The data are digits of 8 x 8 binary pixels. A quarter of them is the test set. The grid search can
# set the parameters of the RBM, because the RBM is a step of the pipeline.

import warnings

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_digits
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV, train_test_split
from sklearn.neural_network import BernoulliRBM
from sklearn.pipeline import make_pipeline

from skmrf import RBM

warnings.simplefilter("ignore", ConvergenceWarning)  # a fixed number of epochs is enough here
grey, labels = load_digits(return_X_y=True)
ink = (grey > 7.5).astype(float)
train, test, train_labels, test_labels = train_test_split(
    ink, labels, stratify=labels, random_state=0
)

classifier = LogisticRegression(max_iter=1000)
features = RBM(100, alpha=1e-3, batch_size=100, max_iter=200, random_state=0)
baseline = BernoulliRBM(100, learning_rate=0.06, batch_size=10, n_iter=30, random_state=0)
searches = {
    "pixels": (make_pipeline(classifier), {"logisticregression__C": [0.1, 1, 10]}),
    "BernoulliRBM": (
        make_pipeline(baseline, classifier),
        {"logisticregression__C": [1, 10]},
    ),
    "RBM": (
        make_pipeline(features, classifier),
        {"rbm__learner": ["cd", "pcd"]},
    ),
}
accuracy = {}
for name, (pipeline, grid) in searches.items():
    search = GridSearchCV(pipeline, grid, cv=2).fit(train, train_labels)
    searches[name] = search
    accuracy[name] = search.score(test, test_labels)
    print(f"{name:13} accuracy {accuracy[name]:.1%}, best parameters {search.best_params_}")

# %%
# Weights of the hidden units
# ---------------------------
# A hidden unit with nearly the same value for all digits carries no information. ``hidden_stds_``
# is the standard deviation of each hidden unit. The figure shows the weights of the 40 hidden units
# with the largest standard deviations.

model = searches["RBM"].best_estimator_[0]
most_variable = np.argsort(-model.hidden_stds_)[:40]
print(f"{np.mean(model.hidden_stds_ < 0.05):.0%} of the hidden units are nearly constant")

figure, grid = plt.subplots(5, 8, figsize=(7, 4.6), layout="constrained")
for axes, weights in zip(grid.flat, model.components_[most_variable], strict=True):
    axes.imshow(weights.reshape(8, 8), cmap="RdBu", vmin=-2, vmax=2)
    axes.set(xticks=[], yticks=[])

path = "rbm_features.png"
figure.savefig(path, dpi=120)

# %%
# Reconstruction
# --------------
# ``transform`` computes the features, and ``inverse_transform`` converts features back to
# probabilities of ink in each pixel. The first row shows digits, and the second row shows the
# reconstructions of these digits.

digits = test[:8]
reconstructed = model.inverse_transform(model.transform(digits))
figure, grid = plt.subplots(2, 8, figsize=(7, 2), layout="constrained")
for axes, image in zip(grid.flat, [*digits, *reconstructed], strict=True):
    axes.imshow(image.reshape(8, 8), cmap="Greys", vmin=0, vmax=1)
    axes.set(xticks=[], yticks=[])

# %%
# Accuracy
# --------

figure, axes = plt.subplots(figsize=(6, 2.2), layout="constrained")
bars = axes.barh(
    list(accuracy), [100 * a for a in accuracy.values()], color=["#c9c9c9", "#9a9a9a", "#c8781e"]
)
axes.bar_label(bars, fmt="{:.1f}", padding=3)
axes.set_xlabel("accuracy on held-out digits, %")
axes.invert_yaxis()
axes.tick_params(left=False)
axes.set_xlim(0, 110)
axes.spines[["top", "right", "left"]].set_visible(False)

print(f"saved {path}")
plt.show()
