"""Random number generators, integer seeds and random cliques."""

import numpy as np
from sklearn.utils import check_random_state

N_SEEDS = 2**31


def generator(random_state):
    """Return a numpy Generator seeded from ``random_state``.

    None gives a Generator with fresh entropy from the operating system. The global random state
    of numpy is never used.
    """
    if random_state is None:
        return np.random.default_rng()
    words = check_random_state(random_state).randint(N_SEEDS, size=4)
    return np.random.default_rng(words)


def integer_seed(rng):
    """Draw an integer seed from a numpy Generator, for functions that accept only integer seeds."""
    return int(rng.integers(N_SEEDS))


def draw_clique(n_variables, size, rng):
    """Draw ``size`` distinct variables uniformly at random, and return them as a sorted tuple."""
    return tuple(sorted(rng.choice(n_variables, size, replace=False, shuffle=False).tolist()))
