"""Metropolis chains of numbers and states, with beliefs of the target as a guide."""

from dataclasses import dataclass

import numpy as np

from ..variational.mixtures import Mixture

SCALE = 2.38  # of random walks, by the root of the number of variables (Roberts et al., 1997)
WANTED = 0.3  # share of random walks that are accepted


@dataclass
class Metropolis:
    """Moves of many chains that leave a target as it is.

    Attributes
    ----------
    mixture : Mixture
        About the target: jumps are drawn from it, and steps of random walks are like its
        components.
    size : float
        Of random walks, in units of the components.
    """

    mixture: Mixture
    size: float = 0.0

    def __post_init__(self):
        n = self.mixture.means.shape[1]
        self.size = self.size or SCALE / np.sqrt(max(n, 1))
        shares = np.exp(self.mixture.log_weights)
        within = np.einsum("k,kij->ij", shares / shares.sum(), self.mixture.covariances)
        self.root = np.linalg.cholesky(within) if n else within

    def walk(self, target, X, logs, rng):
        """A random walk: all numbers by a Gaussian step, one variable of states to another state.

        Parameters
        ----------
        target : callable, X -> log of the density, up to a constant
        X : ndarray of shape (n_chains, n_variables)
        logs : ndarray of shape (n_chains,)
            ``target(X)``.
        rng : numpy.random.Generator

        Returns
        -------
        X, logs : new arrays
        rate : float
            Share of chains that moved.
        """
        proposed = self.propose_walk(X, rng)
        new = target(proposed)
        return self.choose(X, logs, proposed, new, new - logs, rng)

    def jump(self, target, X, logs, rng):
        """A move to a draw of the mixture; arguments and results as of :meth:`walk`."""
        proposed = self.propose_jump(X, rng)
        new = target(proposed)
        return self.choose(X, logs, proposed, new, self.jump_gain(X, logs, proposed, new), rng)

    def propose_jump(self, X, rng):
        """Return draws of the mixture, as many as X has rows."""
        return self.mixture.sample(len(X), rng)

    def jump_gain(self, X, logs, proposed, new):
        """Return the log acceptance ratio of jumps."""
        return new - self.mixture.log_density(proposed) - logs + self.mixture.log_density(X)

    def choose(self, X, logs, proposed, new, gain, rng):
        """Return where the chains are after a Metropolis step, and the share that moved.

        Parameters
        ----------
        X, proposed : ndarray of shape (n_chains, n_variables)
        logs, new : ndarray of shape (n_chains,)
            Log-densities of both.
        gain : ndarray of shape (n_chains,)
            Log acceptance ratio.
        rng : numpy.random.Generator

        Returns
        -------
        X, logs : new arrays
        rate : float
        """
        taken = np.log1p(-rng.random(len(X))) < gain
        return (
            np.where(taken[:, None], proposed, X),
            np.where(taken, new, logs),
            float(taken.mean()),
        )

    def adapt(self, rate):
        """Change the size of steps by the share that was accepted."""
        self.size *= np.exp(np.clip(rate - WANTED, -0.3, 0.3))

    def propose_walk(self, X, rng):
        """Return the rows after a step of a random walk."""
        X = X.copy()
        numbers, discrete = self.mixture.numbers, self.mixture.discrete
        if len(numbers):
            X[:, numbers] += self.size * rng.normal(size=(len(X), len(numbers))) @ self.root.T
        if len(discrete):
            rows, chosen = np.arange(len(X)), rng.choice(discrete, size=len(X))
            q = self.mixture.n_states[chosen]
            shift = 1 + np.floor(rng.random(len(X)) * (q - 1))
            X[rows, chosen] = (X[rows, chosen] + shift) % q
        return X
