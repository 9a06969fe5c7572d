"""One numpy Generator from what scikit-learn calls a random_state."""

import numpy as np
from sklearn.utils import check_random_state

SEEDS = 2**31


def generator(random_state):
    """A Generator: a fresh one for None (never numpy's global state), else seeded from it."""
    if random_state is None:
        return np.random.default_rng()
    words = check_random_state(random_state).randint(SEEDS, size=4)
    return np.random.default_rng(words)


def integer_seed(rng):
    """An int to seed what takes no Generator."""
    return int(rng.integers(SEEDS))


def draw_clique(n_variables, size, rng):
    """A set of variables, uniform over those of that size, as a sorted tuple."""
    return tuple(sorted(rng.choice(n_variables, size, replace=False, shuffle=False).tolist()))
