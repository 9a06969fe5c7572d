"""Models for the tests of compiled loops."""

import numpy as np
from zoo import enumerate_states

SMALL = ("tied", "orders", "spin_glass", "zero_one", "zeros", "zeros_binary", "tied_binary")
SMALL += ("constant_binary", "huge")
TABLES = (*SMALL, "constant_variables", "isolated", "huge_binary")


def possible_rows(energy, n_rows, rng):
    states, log_f = enumerate_states(energy)
    return states[rng.choice(np.flatnonzero(log_f > -np.inf), size=n_rows)]
