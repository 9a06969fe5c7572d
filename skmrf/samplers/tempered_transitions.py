"""Tempered transitions: Metropolis proposals by annealing to a high temperature and back."""

import numpy as np

from .._utils.namespaces import namespace
from .gibbs import sweep
from .smc import Tempering


def tempered_transition(energy, X, generators, rng, betas, reference):
    r"""Make one tempered transition of each chain; it leaves the model's distribution invariant.

    On the way up, the log weight of a chain increases at each temperature by the change of the
    log-density, and a Gibbs sweep follows. On the way down the same steps are made with reversed
    sweeps. The final state is accepted with probability :math:`\min(1, e^w)` for the log weight
    :math:`w`.

    Parameters
    ----------
    energy : Energy
        Model of discrete variables.
    X : ndarray of shape (n_chains, n_visible)
        State codes of the chains.
    generators : list of numpy.random.Generator
        One generator per block of chains, from :func:`skmrf.samplers.spawn_generators`.
    rng : numpy.random.Generator
        Source of randomness of the acceptance.
    betas : ndarray of shape (n_temperatures,)
        Inverse temperatures, decreasing from 1 to that of the hottest distribution.
    reference : Product
        Distribution at beta = 0; the target at beta is ``reference^(1-beta) f^beta``. A uniform
        reference gives plain tempering.

    Returns
    -------
    X : ndarray of shape (n_chains, n_visible)
        Final states of accepted transitions, and the old states of rejected ones.
    accepted : ndarray of bool of shape (n_chains,)
        True for chains whose transition was accepted.

    References
    ----------
    R. M. Neal, "Sampling from multimodal distributions using tempered transitions", Statistics and
    Computing 6 (1996).
    """
    hot, up = sweep(energy, X, generators, betas=betas, reference=reference)
    back = np.append(betas[-1], betas[:0:-1])  # begins with a sweep at the highest temperature
    end, down = sweep(energy, hot, generators, betas=back, reference=reference, reverse=True)
    density = Tempering(reference, energy).log_density(end)
    log_accept = up + down + density(1.0) - density(float(betas[1]))
    xp = namespace(X)
    accepted = xp.log(rng.random(len(X))) < log_accept
    return xp.where(accepted[:, None], end, X), accepted
