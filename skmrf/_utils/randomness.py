"""Random number generators."""

import numbers

import numpy as np


def check_generator(random_state):
    """Return a ``numpy.random.Generator`` for any ``random_state`` that scikit-learn accepts."""
    if isinstance(random_state, np.random.Generator):
        return random_state
    seeded = isinstance(random_state, numbers.Integral) and random_state >= 0
    if random_state is None or seeded:
        return np.random.default_rng(random_state)
    if isinstance(random_state, np.random.RandomState):
        return np.random.default_rng(random_state.randint(0, 2**31 - 1, size=4))
    raise ValueError(
        "random_state must be None, an int >= 0, a numpy.random.RandomState or a "
        f"numpy.random.Generator; got {random_state!r}."
    )
