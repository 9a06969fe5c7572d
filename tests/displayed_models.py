"""Data, displays and their arguments, for the tests of displays."""

import numpy as np
import pandas as pd
from sklearn.datasets import load_digits

from skmrf._utils.results import LogPartition
from skmrf.datasets import make_ising
from skmrf.inference import sample
from skmrf.plot import (
    ChainsDisplay,
    CouplingGraphDisplay,
    CRFWeightsDisplay,
    FiltersDisplay,
    HistoryDisplay,
    LogPartitionDisplay,
    MomentsDisplay,
    RegularizationPathDisplay,
    StructurePathDisplay,
)

NAMES = ["north", "east", "south", "west"]
SINGLE = LogPartition(1.0, 0.1, 0.5, 2.0, True, "ais", True)


def spins(n_rows=400):
    """Return rows of four spins in a ring with one negative coupling."""
    coupling = [0.6, -0.5, 0.4, 0.5]
    energy = make_ising("cycle", n_variables=4, coupling=coupling)
    return sample(energy, n_rows, random_state=0)


def sequences():
    """Return sequences in which label 1 follows label 0 and 0 follows 1, with two features."""
    y = [np.arange(start, start + 6) % 2 for start in (0, 1, 1)]
    return [np.stack([2.0 * v, np.ones(6)], axis=1) for v in y], y


def digits():
    return (load_digits().data[:200] > 7.5).astype(int)


ROWS = {"discrete": lambda: pd.DataFrame(spins(), columns=NAMES), "boltzmann": spins, "rbm": digits}
TAKES = {
    HistoryDisplay: ("discrete", "boltzmann", "rbm", "crbm", "structure", "density", "crf"),
    MomentsDisplay: ("discrete", "boltzmann", "rbm"),
    CouplingGraphDisplay: ("discrete", "boltzmann", "structure"),
    FiltersDisplay: ("rbm", "crbm"),
    CRFWeightsDisplay: ("crf",),
    ChainsDisplay: ("discrete", "boltzmann", "rbm"),
    LogPartitionDisplay: ("discrete", "boltzmann", "rbm", "density"),
    RegularizationPathDisplay: ("discrete",),
    StructurePathDisplay: ("structure",),
}
CHEAP = {
    MomentsDisplay: {"n_samples": 50, "random_state": 0},
    ChainsDisplay: {"n_sweeps": 20, "betas": 3, "random_state": 0},
}


def draw(display, model, name, **how):
    rows = (ROWS[name](),) if display is MomentsDisplay else ()
    return display.from_estimator(model, *rows, **(CHEAP.get(display, {}) | how))
