"""Boltzmann machines: two-state variables with pairwise couplings."""

import numpy as np
from sklearn.callback import with_callbacks
from sklearn.utils.validation import check_is_fitted

from .._data.binary import OTHER_KINDS, TwoStateEncoder, check_threshold, check_two_states
from .._data.numeric import numeric_rows
from .._utils.batch import Batch
from ..energies import PairwiseEnergy
from ..training import data_moments, initial_values
from ..training.held_out import held_out_score
from ._base import unchanged_on_error
from ._queries import VisibleEstimator
from ._rows import hold_out, weighted_rows
from ._session import FitSession
from ._training import TrainingParameters


class BoltzmannMachine(VisibleEstimator):
    r"""Fully visible Boltzmann machine (Ising model) learned from data.

    .. math:: p(s) = \frac{1}{Z} \exp\Big( \sum_{i<j} J_{ij} s_i s_j + \sum_i b_i s_i \Big)

    Every column is a variable :math:`s_i` with two states, and all pairs of columns are coupled.
    Its likelihood is concave: without a penalty the maximum matches the means and pair moments of
    the data. nan marks a missing entry; learning then takes the expectation given the others.

    Parameters
    ----------
    learner : str or Learner, default="psmc"
        How the gradient is estimated: "psmc", "smc", "pcd", "cd", "tempered-transitions",
        "parallel-tempering", "mcmc-mle", "pf-mcmc-mle" or, for some twenty columns at most,
        "exact"; an instance of :mod:`skmrf.learners` carries parameters.
    states : pair of numbers, default=(-1, 1)
        The two values that :math:`s_i` takes, the lower first.
    binarize : float, optional
        Entries above it are the upper state, others the lower one. By default the data must hold
        nothing but the two states.
    optimizer : {"auto", "lbfgs", "adam", "sgd", "momentum"} or instance, default="auto"
        "auto" is L-BFGS (FISTA for penalties with a kink) for deterministic learners, else Adam,
        or plain SGD with "group-l1".
    learning_rate : {"adaptive", "constant", "step", "inverse"}, float or schedule
        Of stochastic learners, default="adaptive": halved whenever the gradient is only noise.
    penalty : {"l2", "l1", "group-l1"}, default="l2"
        On the couplings, as parameters of ``states``.
    alpha : float, default=0.0
        Strength of the penalty, against the mean log-likelihood in nats. Every pair counts once.
    batch_size : int, default=256
        Rows a stochastic update sees.
    max_iter : int, optional
        Epochs; by default until converged, at least 2000 updates and at most 20000.
    tol : float, default=1e-6
        Largest gradient entry (mismatch of a moment) at which L-BFGS stops.
    average : bool, default=True
        Average the iterates since the last change of the rate (never under "l1" or "group-l1").
    early_stopping : bool, default=False
        Hold out rows, and stop when their score no longer grows: the mean log-likelihood where
        elimination is cheap, else the mean pseudo-log-likelihood of complete rows.
    validation_fraction : float, default=0.1
    n_iter_no_change : int, default=5
        Epochs without a better score before stopping early.
    max_bytes : float, default=4 GiB
        Bound on the memory of the parameters while learning, and of exact inference.
    warm_start : bool, default=False
        Go on from the previous fit, chains and optimizer included.
    n_jobs : int, optional
        Threads over blocks of chains; results do not depend on it.
    random_state : int, RandomState, Generator or None

    Attributes
    ----------
    energy_ : PairwiseEnergy
        The model in the states asked for.
    coupling_ : ndarray of shape (n_features, n_features)
        :math:`J` of the same distribution over states -1 and 1, whatever ``states`` is; symmetric,
        with a zero diagonal. For states 0 and 1 it is a quarter of ``energy_.coupling``.
    bias_ : ndarray of shape (n_features,)
        :math:`b` in the states asked for.
    log_partition_ : float
        log Z in nats; computed when first asked for.
    log_partition_interval_ : tuple of float
        Lower and upper limit; equal when exact.
    log_partition_method_ : str
    history_ : dict of lists
        Diagnostics, one entry an epoch.
    n_iter_ : int
        Epochs.
    converged_ : bool
    n_features_in_, feature_names_in_

    See Also
    --------
    DiscreteMRF : cliques of any columns, and categories of any number.

    References
    ----------
    D. H. Ackley, G. E. Hinton, T. J. Sejnowski, "A learning algorithm for Boltzmann machines",
    Cognitive Science 9 (1985).

    Examples
    --------
    >>> import numpy as np
    >>> from skmrf import BoltzmannMachine
    >>> X = np.array([[1, 1, -1]] * 8 + [[-1, -1, 1]] * 8 + [[1, -1, 1], [-1, 1, -1]])
    >>> model = BoltzmannMachine("pcd", alpha=0.1, random_state=0).fit(X)
    >>> model.predict([[1, np.nan, np.nan]])
    array([[ 1,  1, -1]])
    >>> np.sign(model.coupling_)
    array([[ 0.,  1., -1.],
           [ 1.,  0., -1.],
           [-1., -1.,  0.]])
    """

    _energy_type = PairwiseEnergy

    def __init__(
        self,
        learner="psmc",
        *,
        states=(-1, 1),
        binarize=None,
        optimizer="auto",
        learning_rate="adaptive",
        penalty="l2",
        alpha=0.0,
        batch_size=256,
        max_iter=None,
        tol=1e-6,
        average=True,
        early_stopping=False,
        validation_fraction=0.1,
        n_iter_no_change=5,
        max_bytes=4 * 2**30,
        warm_start=False,
        n_jobs=None,
        random_state=None,
    ):
        self.learner = learner
        self.states = states
        self.binarize = binarize
        self.optimizer = optimizer
        self.learning_rate = learning_rate
        self.penalty = penalty
        self.alpha = alpha
        self.batch_size = batch_size
        self.max_iter = max_iter
        self.tol = tol
        self.average = average
        self.early_stopping = early_stopping
        self.validation_fraction = validation_fraction
        self.n_iter_no_change = n_iter_no_change
        self.max_bytes = max_bytes
        self.warm_start = warm_start
        self.n_jobs = n_jobs
        self.random_state = random_state

    @with_callbacks
    def fit(self, X, y=None, sample_weight=None):
        """Learn couplings and biases.

        Parameters
        ----------
        X : array-like or frame of shape (n_samples, n_features)
            The two states, or with ``binarize`` any finite numbers; nan where missing.
        y : ignored
        sample_weight : array-like of shape (n_samples,), optional

        Returns
        -------
        self

        Raises
        ------
        ValueError
            A value that is none of the two states, without ``binarize``; infinity; a learner that
            needs tables of log-potentials.
        """
        return self._fit(X, sample_weight)

    @with_callbacks
    def partial_fit(self, X, y=None, sample_weight=None):
        """One epoch over ``X``, going on from what was learned so far.

        Parameters
        ----------
        X, y, sample_weight
            As in :meth:`fit`.

        Returns
        -------
        self
        """
        return self._fit(X, sample_weight, partial=True)

    @property
    def coupling_(self):
        """Couplings of states -1 and 1."""
        check_is_fitted(self)
        low, high = self.energy_.states
        return (0.5 * (high - low)) ** 2 * self.energy_.coupling

    @property
    def bias_(self):
        """Biases of the states asked for."""
        check_is_fitted(self)
        return self.energy_.bias

    def _fit(self, X, sample_weight, partial=False):
        with unchanged_on_error(self):
            states = check_two_states(self.states)
            check_threshold(self.binarize)
            parameters, learner = TrainingParameters.of(self, partial), self._check_learner()
            fit = FitSession(self, parameters, X)
            if fit.is_resumed:
                self._check_same_states(states)
            encoder, codes = self._encode_training(X, states, reset=not fit.is_resumed)
            data = weighted_rows(Batch(codes), sample_weight)
            if not fit.is_resumed:
                self._check_size(parameters)
                fit.energy = _independent_columns(data, states)
            fit.begin(data, encoder.states)
            data, held_out = hold_out(data, parameters, fit.rng)
            resolution, n_never = data_moments.pair_facts(fit.energy, data)
            settings = parameters.settings(
                learner,
                fit.energy,
                data,
                score=_score(fit.energy, held_out),
                resolution=resolution,
            )

            def attributes(state):
                fitted = fit.attributes(state)
                return fitted | {"energy_": _symmetric(fitted["energy_"])}

            state = fit.train(learner, data, settings, attributes)
            if self.alpha == 0:
                data_moments.warn_unbounded(n_never)
            vars(self).update(attributes(state))
        return self

    def _check_same_states(self, states):
        """Raise a ValueError if training cannot continue because the states have changed."""
        if states != self.energy_.states:
            raise ValueError(
                f"states={self.states!r} are not those of the fit to go on from, "
                f"{self.energy_.states}; start anew with fit and warm_start=False."
            )

    def _encode_training(self, X, states, reset):
        """Return the encoder and the codes of training rows."""
        rows = numeric_rows(self, X, reset=reset, remedy=OTHER_KINDS, missing=True)
        encoder = TwoStateEncoder(self._column_names(), states, self.binarize)
        return encoder, encoder.encode(rows)

    def _check_size(self, parameters):
        n = self.n_features_in_
        remedy = "Use fewer columns, or raise max_bytes."
        parameters.check_memory(n * (n + 1), "couplings and biases", remedy)

    @property
    def _encoder(self):
        return TwoStateEncoder(self._column_names(), self.energy_.states, self.binarize)


def _independent_columns(data, states):
    n, (low, high) = data.X.shape[1], states
    odds = initial_values.log_odds(data.X, data.log_weights)
    return PairwiseEnergy(np.zeros((n, n)), odds / (high - low), states)


def _score(energy, held_out):
    if held_out is None:
        return None
    n = energy.n_variables
    coupled = PairwiseEnergy(np.ones((n, n)) - np.eye(n), np.zeros(n), energy.states)
    return held_out_score(coupled.factor_graph().layout, held_out)


def _symmetric(energy):
    """Remove the rounding of the moments, which leaves couplings symmetric but for last digits."""
    coupling = 0.5 * (energy.coupling + energy.coupling.T)
    return PairwiseEnergy(coupling, energy.bias, energy.states)
