"""RBM: restricted Boltzmann machines, a hidden layer of features over binary data."""

import numpy as np
from scipy.sparse import issparse
from sklearn.base import ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.callback import with_callbacks
from sklearn.utils import check_array
from sklearn.utils.validation import check_is_fitted

from .. import samplers
from .._data.binary import OTHER_KINDS, TwoStateEncoder, check_threshold
from .._data.numeric import numeric_rows
from .._utils.batch import Batch
from .._utils.parameters import check_choice, check_number
from .._utils.randomness import check_generator
from .._utils.rows import dense_rows
from ..energies import BipartiteEnergy
from ..likelihood import log_partition_bounds
from ..samplers import gibbs_queries
from ..training import AdaptiveRate, initial_values
from ..training.held_out import layered_score
from ._base import unchanged_on_error
from ._density import EnergyEstimator
from ._rows import hold_out, weighted_rows
from ._session import FitSession
from ._training import TrainingParameters

STATES = (0.0, 1.0)
FIRST_RATES = {"adam": 0.003, "sgd": 0.03, "momentum": 0.006}
WINDOW = 2000  # updates before the rate may change: gradients of minibatches are mostly noise
COSINE = 0.0  # of the mean gradients of half windows, below which the rate falls
N_HALVINGS = 3
PLATEAU = 500  # updates that hidden units may take to differ
RECENCY = 8.0  # of averaged iterates, which improve for as long as learning goes on
SPREAD = 0.01  # of the first weights
N_STARTS = 128  # training rows kept, at which chains of a bound on log Z begin
N_SEEN = 1000  # training rows by which hidden units are judged


class RBM(ClassNamePrefixFeaturesOutMixin, TransformerMixin, EnergyEstimator):
    r"""Restricted Boltzmann machine of binary data, learned by maximum likelihood.

    .. math:: p(v) = \frac{1}{Z} \sum_h \exp(v^\top W h + c^\top v + b^\top h)

    with visible units :math:`v` (the columns) and hidden units :math:`h`, all 0 or 1, no two units
    of a layer coupled.

    Parameters
    ----------
    n_components : int, default=256
        Hidden units.
    learner : str or Learner, default="psmc"
        How the gradient is estimated: "psmc", "smc", "pcd", "cd", "tempered-transitions",
        "parallel-tempering", "mcmc-mle", "pf-mcmc-mle", or "exact" where one layer has some 16
        units at most; an instance of :mod:`skmrf.learners` carries parameters. "pcd" is the
        fastest.
    binarize : float, optional
        Entries above it are 1, others 0. By default the data must hold nothing but 0 and 1.
    init_visible_bias : {"data", "zeros"}, default="data"
        Visible biases start at the log odds of the columns, or at zero, where on sparse images all
        hidden units may saturate and learning end at independent columns.
    optimizer : {"auto", "lbfgs", "adam", "sgd", "momentum"} or instance, default="auto"
        "auto" is Adam. "lbfgs" needs ``learner="exact"``.
    learning_rate : {"adaptive", "constant", "step", "inverse"}, float or schedule
        Default "adaptive": from 0.003 (Adam), halved whenever the gradient is only noise.
    penalty : {"l2", "l1", "group-l1"}, default="l2"
        On the weights; a hidden unit is a group. Those with a kink ("l1", "group-l1") hold weights
        that start near zero there: learn without one first, then go on with ``warm_start``.
    alpha : float, default=0.0
        Strength of the penalty, against the mean log-likelihood in nats.
    batch_size : int, default=100
        Rows an update sees. Both phases are means, whatever the numbers of rows and chains.
    max_iter : int, optional
        Epochs; by default until converged, at least 2000 updates and at most 20000.
    tol : float, default=1e-6
        Largest gradient entry at which L-BFGS stops.
    average : bool, default=True
        Average the iterates since the last change of the rate.
    early_stopping : bool, default=False
        Hold out rows, and stop when their score no longer grows: the mean log-likelihood where a
        layer has at most 12 units, else the mean pseudo-log-likelihood.
    validation_fraction : float, default=0.1
    n_iter_no_change : int, default=5
        Epochs without a better score before stopping early, and at least 500 updates.
    max_bytes : float, default=4 GiB
        Bound on the memory of the parameters while learning, and of exact inference.
    warm_start : bool, default=False
        Go on from the previous fit, chains and optimizer included.
    n_jobs : int, optional
        Has no influence on results; the work is matrix products, which BLAS runs in parallel.
    random_state : int, RandomState, Generator or None

    Attributes
    ----------
    energy_ : BipartiteEnergy
    components_ : ndarray of shape (n_components, n_features)
        :math:`W^\top`.
    intercept_visible_ : ndarray of shape (n_features,)
        :math:`c`.
    intercept_hidden_ : ndarray of shape (n_components,)
        :math:`b`.
    hidden_means_, hidden_stds_ : ndarray of shape (n_components,)
        Mean and standard deviation of ``p(h_j = 1 | v)`` over up to 1000 training rows. A unit of
        small deviation says nothing of the data.
    log_partition_ : float
        log Z in nats; computed when first asked for: exactly where the states of the smaller layer
        can be summed over in seconds (some 20 units), else by annealed importance sampling.
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
    sklearn.neural_network.BernoulliRBM : learns by persistent contrastive divergence and plain
        gradient ascent. Its ``score_samples`` is a pseudo-likelihood; its ``n_iter`` is our
        ``max_iter``.

    References
    ----------
    P. Smolensky, "Information processing in dynamical systems: foundations of harmony theory"
    (1986).

    Examples
    --------
    >>> import numpy as np
    >>> from skmrf import RBM
    >>> X = np.array([[1, 1, 0, 0], [0, 0, 1, 1]] * 50)
    >>> model = RBM(n_components=2, learner="exact", max_iter=500, random_state=0).fit(X)
    >>> model.score(X) > model.score([[1, 0, 1, 0]])
    True
    >>> model.transform(X).shape
    (100, 2)
    """

    _energy_type = BipartiteEnergy

    def __init__(
        self,
        n_components=256,
        learner="psmc",
        *,
        binarize=None,
        init_visible_bias="data",
        optimizer="auto",
        learning_rate="adaptive",
        penalty="l2",
        alpha=0.0,
        batch_size=100,
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
        self.n_components = n_components
        self.learner = learner
        self.binarize = binarize
        self.init_visible_bias = init_visible_bias
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
        """Learn weights and biases.

        Parameters
        ----------
        X : array-like, sparse matrix or frame of shape (n_samples, n_features)
            Zeros and ones, or with ``binarize`` any finite numbers. Sparse rows stay sparse.
        y : ignored
        sample_weight : array-like of shape (n_samples,), optional

        Returns
        -------
        self

        Raises
        ------
        ValueError
            A value other than 0 and 1, without ``binarize``; nan; a learner that needs tables;
            ``learner="exact"`` with two large layers.
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

    def _fit(self, X, sample_weight, partial=False):
        with unchanged_on_error(self):
            check_number("n_components", self.n_components, low=1, integer=True)
            check_choice("init_visible_bias", self.init_visible_bias, ("data", "zeros"))
            check_threshold(self.binarize)
            parameters, learner = TrainingParameters.of(self, partial), self._check_learner()
            fit = FitSession(self, parameters, X)
            if fit.is_resumed:
                self._check_same_size()
            codes = self._codes(X, reset=not fit.is_resumed)
            data = weighted_rows(Batch(codes), sample_weight)
            if not fit.is_resumed:
                fit.energy = self._initial_energy(data, parameters)
            fit.begin(data)
            data, held_out = hold_out(data, parameters, fit.rng)
            epochs_of_plateau = -(-PLATEAU * self.batch_size // data.X.shape[0])
            settings = parameters.settings(
                learner,
                fit.energy,
                data,
                default_optimizer="adam",  # also where the negative phase is exact
                recency=RECENCY,
                patience=max(self.n_iter_no_change, epochs_of_plateau),
                score=_score(fit.energy, held_out),
            )
            if parameters.has_default_rate(settings.optimizer):
                settings.rate = _adaptive_rate(settings.optimizer)

            def attributes(state):
                fitted = fit.attributes(state)
                return fitted | _describe_hidden_units(fitted["energy_"], data, fit.seed)

            vars(self).update(attributes(fit.train(learner, data, settings, attributes)))
        return self

    def _check_same_size(self):
        """Raise a ValueError if training cannot continue because the number of units differs."""
        if self.n_components != self._n_features_out:
            raise ValueError(
                f"n_components={self.n_components} is not that of the fit to go on from, "
                f"{self._n_features_out}; start anew with fit and warm_start=False."
            )

    def _initial_energy(self, data, parameters):
        """Return an energy with small random weights, so that the hidden units differ."""
        n_visible, n_hidden = data.X.shape[1], self.n_components
        parameters.check_memory(
            n_visible * n_hidden, "weights", "Use fewer n_components, or raise max_bytes."
        )
        rng = check_generator(self.random_state)
        weights = rng.normal(0.0, SPREAD, size=(n_visible, n_hidden)).astype(np.float32)
        bias = np.zeros(n_visible)
        if self.init_visible_bias == "data":
            bias = initial_values.log_odds(data.X, data.log_weights)
        return BipartiteEnergy(weights, bias, np.zeros(n_hidden))

    @property
    def components_(self):
        """Weights, shape (n_components, n_features)."""
        check_is_fitted(self)
        return self.energy_.weights.T

    @property
    def intercept_visible_(self):
        """Biases of the visible units, shape (n_features,)."""
        check_is_fitted(self)
        return self.energy_.visible_bias

    @property
    def intercept_hidden_(self):
        """Biases of the hidden units, shape (n_components,)."""
        check_is_fitted(self)
        return self.energy_.hidden_bias

    @property
    def _n_features_out(self):
        return self.energy_.weights.shape[1]

    # Rows ---------------------------------------------------------------------------------

    @property
    def _encoder(self):
        return TwoStateEncoder(self._column_names(), STATES, self.binarize)

    def _codes(self, X, reset):
        """Return zeros and ones, sparse if X is; count and names of columns are set or checked."""
        X = numeric_rows(self, X, reset=reset, remedy=OTHER_KINDS, accept_sparse="csr")
        return self._encoder.encode_complete(X)

    def _draw(self, codes, rng):
        return gibbs_queries.draw_given(self.energy_, codes, rng)

    def _compute_log_partition(self):
        """Return log Z; reverse chains start at training rows, so no mode of these is missed."""
        return log_partition_bounds(
            self.energy_,
            max_bytes=self.max_bytes,
            random_state=self._seed,
            n_jobs=self.n_jobs,
            start=self._starts,
        )

    # Queries ------------------------------------------------------------------------------

    def transform(self, X):
        """Probabilities of the hidden units given rows.

        Parameters
        ----------
        X : array-like, sparse matrix or frame of shape (n_samples, n_features)

        Returns
        -------
        ndarray of shape (n_samples, n_components)
            ``p(h_j = 1 | v)``; float32 where X is, else float64.
        """
        check_is_fitted(self)
        dtype = np.float32 if getattr(X, "dtype", None) == np.float32 else np.float64
        return self.energy_.astype(dtype).hidden_means(self._codes(X, reset=False))

    def inverse_transform(self, X):
        """Probabilities of the visible units given hidden units.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_components)
            States or probabilities of the hidden units.

        Returns
        -------
        ndarray of shape (n_samples, n_features)
            ``p(v_i = 1 | h)``.
        """
        check_is_fitted(self)
        H = check_array(X, dtype=(np.float64, np.float32))
        if H.shape[1] != self._n_features_out:
            raise ValueError(
                f"X has {H.shape[1]} columns, but there are {self._n_features_out} hidden units."
            )
        return self.energy_.astype(H.dtype).visible_means(H)

    def free_energy(self, X):
        r"""Free energy :math:`F(v) = -\log \sum_h f(v, h)` of every row, in nats.

        Parameters
        ----------
        X : array-like, sparse matrix or frame of shape (n_samples, n_features)

        Returns
        -------
        ndarray of shape (n_samples,)
        """
        check_is_fitted(self)
        return self.energy_.astype(np.float64).free_energy(self._codes(X, reset=False))

    def score_samples(self, X):
        r"""Return the log-likelihood :math:`\log p(v) = -F(v) - \log Z` of every row, in nats.

        Parameters
        ----------
        X : array-like, sparse matrix or frame of shape (n_samples, n_features)

        Returns
        -------
        ndarray of shape (n_samples,)
            The same for every call: ``log_partition_`` is estimated once, from the fit's random
            state. Its error is common to all rows, see ``log_partition_interval_``.
        """
        return -self.free_energy(X) - self.log_partition_

    def gibbs(self, X, *, random_state=None):
        """One Gibbs step of both layers from rows: hidden given visible, then visible given hidden.

        Parameters
        ----------
        X : array-like, sparse matrix or frame of shape (n_samples, n_features)
        random_state : int, RandomState, Generator or None

        Returns
        -------
        ndarray of shape (n_samples, n_features)
        """
        check_is_fitted(self)
        codes = self._codes(X, reset=False)
        codes = codes.toarray() if issparse(codes) else codes
        generators = samplers.spawn_generators(check_generator(random_state), len(codes))
        return samplers.sweep(self.energy_, codes, generators)[0].astype(int)

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        tags.transformer_tags.preserves_dtype = ["float64", "float32"]
        return tags


def _adaptive_rate(optimizer):
    name = type(optimizer).__name__.lower()
    first = FIRST_RATES.get(name, FIRST_RATES["adam"])
    return AdaptiveRate(first, WINDOW, COSINE, N_HALVINGS)


def _score(energy, held_out):
    return None if held_out is None else layered_score(energy, held_out)


def _describe_hidden_units(energy, data, seed):
    """Return the attributes that some of the training rows give."""
    few = np.random.default_rng(seed).permutation(data.X.shape[0])[:N_SEEN]
    rows = dense_rows(data.X[few])
    H = energy.hidden_means(rows).astype(float)
    return {
        "hidden_means_": H.mean(axis=0),
        "hidden_stds_": H.std(axis=0),
        "_starts": rows[:N_STARTS],
    }
