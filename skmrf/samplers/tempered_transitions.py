"""Tempered transitions: a walk to high temperature and back, accepted or refused as a whole."""

import numpy as np

from .gibbs import sweep
from .smc import Tempering


def tempered_transition(energy, X, generators, rng, betas, reference):
    r"""One tempered transition of every chain, which leaves the energy's distribution invariant.

    Up: for each next temperature the weight grows by the change of the log-density, then a sweep.
    Down: the same with reversed sweeps. A walk is accepted with probability
    :math:`\min(1, e^w)` of its weight :math:`w`.

    Parameters
    ----------
    energy : Energy
    X : ndarray of shape (n_chains, n_visible)
    generators : list of Generator, see :func:`skmrf.samplers.sweep`
    rng : numpy.random.Generator
        For acceptance.
    betas : ndarray
        Falling from 1 to the hottest inverse temperature.
    reference : Product
        What is mixed in at ``beta < 1``; uniform for plain tempering.

    Returns
    -------
    X : ndarray, accepted ends and refused starts
    accepted : ndarray of bool of shape (n_chains,)

    References
    ----------
    R. M. Neal, "Sampling from multimodal distributions using tempered transitions", Statistics and
    Computing 6 (1996).
    """
    hot, up = sweep(energy, X, generators, betas=betas, reference=reference)
    back = np.append(betas[-1], betas[:0:-1])  # begins with a sweep at the hottest
    end, down = sweep(energy, hot, generators, betas=back, reference=reference, reverse=True)
    density = Tempering(reference, energy).log_density(end)
    log_accept = up + down + density(1.0) - density(float(betas[1]))
    accepted = np.log(rng.random(len(X))) < log_accept
    return np.where(accepted[:, None], end, X), accepted
