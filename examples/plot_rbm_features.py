"""
Features of digits by a restricted Boltzmann machine
====================================================

The hidden units of an RBM are features that nobody labelled: each says how strongly a pattern is
present. Here they stand before logistic regression in a pipeline, and a grid search picks the
learner and the number of hidden units. Raw pixels and scikit-learn's ``BernoulliRBM`` are there to
compare with. It takes about half a minute on one core.
"""

# %%
# Three classifiers
# -----------------
# Digits of 8 x 8 pixels, ink or paper, a quarter of them held out. Parameters of the RBM are
# searched like those of any step.

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
features = RBM(max_iter=300, random_state=0)
rival = BernoulliRBM(learning_rate=0.06, batch_size=10, n_iter=50, random_state=0)
searches = {
    "pixels": (make_pipeline(classifier), {"logisticregression__C": [0.1, 1, 10]}),
    "BernoulliRBM": (
        make_pipeline(rival, classifier),
        {"bernoullirbm__n_components": [100, 200]},
    ),
    "RBM": (
        make_pipeline(features, classifier),
        {"rbm__learner": ["cd", "pcd"], "rbm__n_components": [100, 200]},
    ),
}
accuracy = {}
for name, (pipeline, grid) in searches.items():
    search = GridSearchCV(pipeline, grid, cv=2).fit(train, train_labels)
    searches[name] = search
    accuracy[name] = search.score(test, test_labels)
    print(
        f"{name:13} {accuracy[name]:.1%} of the held-out digits right, with {search.best_params_}"
    )

# %%
# What it learned
# ---------------
# A hidden unit that is the same for all digits says nothing: ``hidden_stds_`` tells. Below are the
# weights of the units that vary most.

model = searches["RBM"].best_estimator_[0]
telling = np.argsort(-model.hidden_stds_)[:40]
print(f"{np.mean(model.hidden_stds_ < 0.05):.0%} of the hidden units hardly vary")

# %%
# Digits go up to hidden units and down again: ``inverse_transform`` gives the probability of ink.

shown = test[:10]
again = model.inverse_transform(model.transform(shown))

# %%
# The picture
# -----------

figure = plt.figure(figsize=(9.6, 5.4), layout="constrained")
left, right = figure.subfigures(1, 2, width_ratios=[3, 2])
left.suptitle("weights of 40 hidden units", fontsize="medium")
for axes, weights in zip(left.subplots(5, 8).flat, model.components_[telling], strict=True):
    axes.imshow(weights.reshape(8, 8), cmap="RdBu", vmin=-2, vmax=2)
    axes.set(xticks=[], yticks=[])
above, below = right.subfigures(2, 1)
above.suptitle("digits, and what their features say of them", fontsize="medium")
for axes, image in zip(
    above.subplots(4, 5).flat, [*shown[:5], *again[:5], *shown[5:], *again[5:]], strict=True
):
    axes.imshow(image.reshape(8, 8), cmap="Greys", vmin=0, vmax=1)
    axes.set(xticks=[], yticks=[])
axes = below.subplots()
bars = axes.barh(
    list(accuracy), [100 * a for a in accuracy.values()], color=["#c9c9c9", "#9a9a9a", "#c8781e"]
)
axes.bar_label(bars, fmt="{:.1f}", padding=3)
axes.set_xlabel("held-out digits classified rightly, %")
axes.invert_yaxis()
axes.tick_params(left=False)
axes.set_xlim(0, 110)
axes.spines[["top", "right", "left"]].set_visible(False)

path = "rbm_features.png"
figure.savefig(path, dpi=120)
print(f"saved {path}")
plt.show()
