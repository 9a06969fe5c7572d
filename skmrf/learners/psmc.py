"""Persistent sequential Monte Carlo: particles that go on, and others that start afresh."""

from dataclasses import replace

import numpy as np

from .._utils.log_weights import logsumexp
from .._utils.parameters import check_choice, check_number
from ..samplers import Tempering, spawn_generators
from ..samplers.smc import Interpolation, climb, climb_from_reference, resample
from .particle_options import N_PARTICLES, REFERENCES, check_count, n_particles_of
from .particles import ParticleLearner, Particles
from .smc import climb_info


class PSMC(ParticleLearner):
    r"""Persistent sequential Monte Carlo.

    The particles of a model are brought to the next one along a path of distributions by adaptive
    steps: reweight, resample, move. Each step is the longest that leaves a share ``ess_threshold``
    of effective particles. A part of the particles is replaced by independent variables :math:`p_0`
    before, so that modes which were lost can be found again; ``refresh`` says how these are brought
    to the model:

    - "temper": all particles climb the tempered path :math:`p_0^{1-\beta} f_{\theta}^\beta`, those
      that persist together with the fresh ones.
    - "split": the fresh ones climb the tempered path; those that persist follow the parameters,
      :math:`\theta_\beta = (1-\beta)\theta_{t-1} + \beta\theta_t`. Half the work of "temper", and
      both halves have a valid target at every step.
    - "none": all particles persist and follow the parameters. Modes that were lost stay lost.

    Parameters
    ----------
    n_particles : int, optional
        By default 200; 100 for models with a hidden layer.
    refresh : {"temper", "split", "none"}, default="temper"
    fraction : float, default=0.5
        Share of fresh particles.
    ess_threshold : float, default=0.9
    n_sweeps : int, default=1
        Sweeps after every step of a path.
    reference : {"marginals", "uniform"}, optional
        :math:`p_0`: independent variables with the frequencies of the data, or the paper's uniform
        distribution, which needs more steps. By default "marginals", but "uniform" for models of
        more than 20 hidden units: on the way from the marginals to these, all particles may fall
        into one state (few are ``distinct``) and stay there.

    Notes
    -----
    The paper's Algorithm 4 lets the fresh particles follow the parameters as if they were draws of
    the last model, which biases the gradient; ``benchmarks/psmc_variants.py`` has it.

    With "temper" and "split" the log weights of the fresh particles estimate log Z of every model:
    ``log_partition`` and ``log_partition_error`` in ``history_``, without bias for Z. Particles
    that follow the parameters estimate only by how much log Z has changed; these estimates add up
    all that the particles were wrong about since learning began, and are not reported.

    References
    ----------
    H. Xiong, S. Szedmak, J. Piater, "Towards maximum likelihood: learning undirected graphical
    models using persistent sequential Monte Carlo", ACML (2014), Algorithms 3 and 4.
    """

    def __init__(
        self,
        n_particles=None,
        refresh="temper",
        fraction=0.5,
        ess_threshold=0.9,
        n_sweeps=1,
        reference=None,
    ):
        self.n_particles = n_particles
        self.refresh = refresh
        self.fraction = fraction
        self.ess_threshold = ess_threshold
        self.n_sweeps = n_sweeps
        self.reference = reference

    def check(self):
        check_count(self, "n_sweeps", optional=("n_particles",))
        check_choice("refresh", self.refresh, REFRESH)
        if self.reference is not None:
            check_choice("reference", self.reference, REFERENCES)
        check_number("ess_threshold", self.ess_threshold, low=0, high=0.999, open_low=True)
        check_number("fraction", self.fraction, low=0, high=1, open_low=True)
        n = N_PARTICLES if self.n_particles is None else self.n_particles
        if self.refresh != "none" and not 0 < self._n_fresh(n) < n:
            raise ValueError(
                f"fraction={self.fraction} of n_particles={n} leaves no fresh or no "
                "persistent particle; give more particles."
            )

    def _n_fresh(self, n):
        return round(self.fraction * n)

    def start(self, energy, data, batch, rng):
        reference = data.reference(self.reference, energy, batch)
        first, generators = climb_from_reference(
            reference,
            energy,
            n_particles_of(self, energy),
            rng,
            ess_threshold=self.ess_threshold,
            n_sweeps=self.n_sweeps,
        )
        return Particles(
            data,
            reference,
            energy,
            first.X,
            first.log_weights,
            generators,
            first.log_ratio,
            first.variance,
        )

    def step(self, energy, batch, state, rng):
        positive = state.data(energy, batch)
        state, info = self.move(energy, state, rng)
        return positive, state.phase, state, info

    def move(self, energy, state, rng):
        """Return particles of the new energy, some of them fresh, and diagnostics."""
        return REFRESH[self.refresh](self, energy, state, rng)

    def climb(self, path, X, generators, rng, log_weights=None):
        """Along a path with the parameters of this learner."""
        return climb(
            path,
            X,
            generators,
            rng,
            ess_threshold=self.ess_threshold,
            n_sweeps=self.n_sweeps,
            log_weights=log_weights,
        )

    def follow(self, energy, state, rng, X, log_weights):
        """Bring all particles from the last parameters to the new ones."""
        path = Interpolation(state.energy, energy)
        arrived = self.climb(path, X, state.generators, rng, log_weights)
        arrived.log_ratio += state.log_partition
        arrived.variance += state.variance
        state, info = _arrived(energy, state, arrived)
        return state, {k: v for k, v in info.items() if not k.startswith("log_partition")}

    def old_and_fresh(self, state, rng):
        """Persistent particles chosen by their weights, and fresh ones."""
        n_fresh = self._n_fresh(len(state.X))
        old = state.X[resample(state.log_weights, len(state.X) - n_fresh, rng)]
        return old, state.reference.sample(n_fresh, rng)


def _temper(learner, energy, state, rng):
    old, fresh = learner.old_and_fresh(state, rng)
    path = Tempering(state.reference, energy)
    arrived = learner.climb(path, np.concatenate([old, fresh]), state.generators, rng)
    # Only what comes from fresh particles began as draws of the reference.
    from_fresh = arrived.ancestors >= len(old)
    share = logsumexp(arrived.log_weights[from_fresh])
    arrived.log_ratio += share - np.log(len(fresh) / len(arrived.X))
    n_fresh = np.count_nonzero(from_fresh)
    arrived.variance += (1.0 / n_fresh - 1.0 / len(arrived.X)) if n_fresh else np.inf
    return _arrived(energy, state, arrived)


def _split(learner, energy, state, rng):
    old, fresh = learner.old_and_fresh(state, rng)
    generators = spawn_generators(rng, len(fresh))
    new = learner.climb(Tempering(state.reference, energy), fresh, generators, rng)
    generators = spawn_generators(rng, len(old))
    kept = learner.climb(Interpolation(state.energy, energy), old, generators, rng)
    n = len(old) + len(fresh)
    pooled = replace(
        new,
        X=np.concatenate([kept.X, new.X]),
        log_weights=np.concatenate(
            [kept.log_weights + np.log(len(old) / n), new.log_weights + np.log(len(fresh) / n)]
        ),
        least_ess=min(new.least_ess, kept.least_ess),
    )
    state, info = _arrived(energy, state, pooled)
    info["n_temperatures"] += kept.n_temperatures
    return state, info


def _none(learner, energy, state, rng):
    return learner.follow(energy, state, rng, state.X, state.log_weights)


def _arrived(energy, state, particles):
    state = replace(
        state,
        energy=energy,
        X=particles.X,
        log_weights=particles.log_weights,
        log_partition=particles.log_ratio,
        variance=particles.variance,
    )
    return state, climb_info(particles)


REFRESH = {
    "temper": _temper,
    "split": _split,
    "none": _none,
}
