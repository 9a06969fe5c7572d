"""Draw the picture of README: ``python doc/draw_readme.py`` writes ``doc/_static/readme.png``.

It takes about a minute on one core.
"""

import warnings
from pathlib import Path

import matplotlib

matplotlib.use("Agg")

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split

from skmrf import DiscreteMRF
from skmrf.learners import PCD

ACCENT = "#c8781e"
PAPER = plt.get_cmap("Greys").with_extremes(bad="#f2d9b8")


def images():
    """Return the rows of the picture: their labels, and ten images each."""
    grey, labels = load_digits(return_X_y=True)
    train, test, _, classes = train_test_split(
        (grey >= 8).astype(int), labels, test_size=300, stratify=labels, random_state=0
    )
    model = DiscreteMRF(
        "pairwise", PCD(n_chains=128), categories=[[0, 1]] * 64, alpha=0.01, random_state=0
    ).fit(train)
    digits = test[[int(np.flatnonzero(classes == digit)[0]) for digit in range(10)]]
    halves = digits.astype(float)
    halves[:, 32:] = np.nan
    return {
        "held-out digit": digits,
        "given": halves,
        "predict": model.predict(halves),
        "marginals": np.column_stack([p[:, 1] for p in model.marginals(halves)]),
        "sample": model.sample(10, random_state=0),
    }


def draw(rows, path):
    """Write the picture to a file."""
    figure, grid = plt.subplots(len(rows), 10, figsize=(7.2, 3.5), layout="constrained")
    for line, (name, pictures) in zip(grid, rows.items(), strict=True):
        line[0].set_ylabel(name, rotation=0, ha="right", va="center")
        for axes, picture in zip(line, pictures, strict=True):
            axes.imshow(np.ma.masked_invalid(picture.reshape(8, 8)), cmap=PAPER, vmin=0, vmax=1)
            axes.set(xticks=[], yticks=[])
            axes.spines[:].set_color("#bbbbbb")
    for axes in grid[2:4].flat:
        axes.axhline(3.5, color=ACCENT, linewidth=1)
    figure.savefig(path, dpi=110)


if __name__ == "__main__":
    warnings.filterwarnings("ignore", "Exact sampling needs too much memory")
    target = Path(__file__).parent / "_static" / "readme.png"
    draw(images(), target)
    print(f"saved {target}")
