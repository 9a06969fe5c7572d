"""Restricted Boltzmann machines for binary data."""

import numpy as np
from sklearn.base import ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.callback import with_callbacks
from sklearn.utils import check_array
from sklearn.utils.validation import check_is_fitted

from .._data.binary import TWO_STATES_ADVICE, TwoStateEncoder, check_threshold
from .._data.numeric import numeric_rows
from .._jax import open_device
from .._utils.parameters import check_choice, check_generator, check_number
from .._utils.rows import Batch, dense_rows, weighted_rows
from ..energies import BipartiteEnergy
from ..learners.base import draw_states
from ..samplers import spawn_generators, sweep
from ..training import loop
from . import _hidden_layer as hidden_layer
from ._base import unchanged_on_error
from ._density import EnergyEstimator
from ._session import FitSession
from ._training import TrainingParameters, hold_out
from ._weight_decay import choose

STATES = (0.0, 1.0)


class RBM(ClassNamePrefixFeaturesOutMixin, TransformerMixin, EnergyEstimator):
    r"""Restricted Boltzmann machine for binary data, learned by maximum likelihood.

    .. math:: p(v) = \frac{1}{Z} \sum_h \exp(v^\top W h + c^\top v + b^\top h)

    The visible units :math:`v` are the columns of the data. The hidden units :math:`h` are latent
    features. All units are 0 or 1. Units of the same layer are not coupled.

    Parameters
    ----------
    n_components : int, default=256
        Number of hidden units.
    learner : str or Learner, default="pcd"
        Estimator of the gradient of the log-likelihood: "pcd", "ptt", "psmc", "smc", "cd",
        "tempered-transitions", "parallel-tempering", "mcmc-mle", "pf-mcmc-mle" or "exact". "pcd" is
        the fastest. With "pcd" or "ptt", a small layer (up to about 16 units) and a default
        optimizer, training ends with up to 100 iterations by the exact gradient. "exact" needs a
        layer with at most about 16 units. An instance of a class of :mod:`skmrf.learners` has its
        own parameters.
    binarize : float, optional
        Threshold. Entries above it become 1, all other entries 0. By default there is no threshold.
        The rows of :meth:`fit`, :meth:`partial_fit` and :meth:`transform` then contain numbers
        from 0 to 1, which are probabilities that a visible unit is 1. All other methods need zeros
        and ones.
    init_visible_bias : {"data", "zeros"}, default="data"
        Initial values of the visible biases: the log odds of the columns, or zeros. With zeros, all
        hidden units may saturate on sparse images. The model of independent columns is then
        learned.
    optimizer : {"auto", "lbfgs", "adam", "sgd", "momentum"} or instance, default="auto"
        Optimizer of the parameters. With "pcd" or "ptt", the penalty "l2" and
        ``learning_rate="adaptive"``, "auto" is gradient ascent with centred units, scaled by
        visible variances. Otherwise it is Adam. "lbfgs" needs ``learner="exact"``; with the
        penalties "l1" and "group-l1" it is FISTA. An instance has its own parameters.
    learning_rate : str, float or schedule, default="adaptive"
        Learning rate. With the optimizer "auto" and "pcd" or "ptt", "adaptive" falls to zero in
        1500 (few rows or large models) to 12,000 updates (many rows). Otherwise it starts at 0.006
        for Adam, 0.06 for SGD, 0.012 for momentum, or 0.2 for "auto" with "pcd" or "ptt" in
        :meth:`partial_fit`, and is halved whenever the gradient is only noise. "constant" keeps the
        first rate, "step" halves it every 1000 updates, and "inverse" divides it by ``1+t/100``
        after t updates. Their first rate is 0.03 for Adam, 0.1 for SGD and 0.02 for momentum. A
        float is a constant rate. An instance of a schedule of :mod:`skmrf.training` has its own
        parameters. After a fit that converged, "adaptive" stays at its last, smallest rate in
        :meth:`partial_fit`.
    penalty : {"l2", "l1", "elasticnet", "group-l1"}, default="l2"
        Penalty on the weights. Biases are not penalised. "elasticnet" is the mean of "l1" and "l2".
        With "group-l1" the weights of a hidden unit are a group. All but "l2" keep weights at zero
        that start near zero: first learn without a penalty, then continue with
        ``warm_start=True``.
    alpha : float or "auto", default="auto"
        Strength of the penalty. ``alpha`` times the penalty is subtracted from the mean
        log-likelihood of a row in nats. 0 means no penalty. "auto" compares short fits with "pcd":
        the best one has the highest log-likelihood of held-out rows. With 3 divided by the number
        of rows, it compares initial weights, unless ``init_visible_bias="zeros"``: small random
        weights, hidden units that have the couplings of a Chow-Liu tree, and larger random weights.
        With the best ones, it compares two learning rates. Then weaker strengths (1, 0.3, 0.1)
        follow while they are better, else stronger ones (10, 30). If the larger rate was not
        clearly better, whole fits compare both. With fewer than 50 rows, other penalties than "l2"
        and in :meth:`partial_fit`, "auto" is 10 divided by the number of rows, and initial weights
        are small and random. The first call of :meth:`partial_fit` counts as at least 1000 rows.
    batch_size : int, default=500
        Number of rows in a minibatch. The scale of the gradient does not depend on it.
    max_iter : int, optional
        Maximum number of epochs, or of iterations of a deterministic solver. By default training
        ends when the learning rate is zero, or with Adam after 2000 to 10000 updates when it has
        converged. ``fit`` warns if it did not converge.
    tol : float, default=1e-6
        Tolerance of deterministic solvers. They stop when no entry of the gradient is larger in
        absolute value.
    average : bool, default=True
        Whether to return the weighted mean of the iterates since the last change of the learning
        rate, instead of the last iterate. Later iterates have larger weights. It has no effect with
        the penalties "l1" and "group-l1", or with a deterministic solver.
    early_stopping : bool, default=False
        Whether to hold out rows and to stop when their score no longer improves. The score is the
        mean log-likelihood if a layer has at most 12 units, else the mean pseudo-log-likelihood.
    validation_fraction : float, default=0.1
        Share of the rows that early stopping holds out, above 0 and at most 0.9.
    n_iter_no_change : int, default=5
        Number of epochs without a better score after which early stopping ends training. These
        epochs must also have at least 500 updates.
    max_bytes : float, default=4 * 2**30
        Maximum memory in bytes of the parameters during training, and of exact inference. The
        default is 4 GiB.
    warm_start : bool, default=False
        Whether :meth:`fit` continues training from the previous fit, including the Markov chains
        and the state of the optimizer.
    n_jobs : int, optional
        Number of threads over chains and rows. It changes results by rounding errors at most.
    device : {"cpu", "gpu", "cuda", "jax"}, default="cpu"
        Device of training, :meth:`transform`, sampling and the estimate of log Z: the compiled
        functions of numba, a GPU, or the default device of JAX. All learners by sampling run on
        it. See the page "Training on a GPU" of the user guide.
    random_state : int, RandomState, Generator or None, default=None
        Random numbers of training (initial weights, Markov chains and held-out rows) and of the
        estimate of log Z. An int makes fits reproducible.
    verbose : int, default=0
        Progress messages. 0: none. 1: a line with epoch, score and time every few seconds. 2: a
        line per epoch.

    Attributes
    ----------
    energy_ : BipartiteEnergy
        Fitted model.
    components_ : ndarray of shape (n_components, n_features)
        Weights :math:`W^\top`.
    intercept_visible_ : ndarray of shape (n_features,)
        Visible biases :math:`c`.
    intercept_hidden_ : ndarray of shape (n_components,)
        Hidden biases :math:`b`.
    hidden_means_ : ndarray of shape (n_components,)
        Weighted mean of ``p(h_j = 1 | v)`` over at most 1000 training rows.
    hidden_stds_ : ndarray of shape (n_components,)
        Standard deviation of ``p(h_j = 1 | v)`` over the same rows. A hidden unit with a small
        standard deviation has almost the same value for all rows.
    alpha_ : float
        Strength of the penalty.
    learning_rate_ : float
        Initial learning rate of ``optimizer="auto"`` with "pcd" or "ptt".
    log_partition_ : float
        log Z in nats. It is computed at the first access: exactly if the smaller layer has at most
        about 20 units, so that a sum over its states takes seconds, else by annealed importance
        sampling.
    log_partition_interval_ : tuple of float
        Lower and upper limit of log Z in nats. They are equal if log Z is exact.
    log_partition_method_ : str
        How log Z was computed: "exact", "ais" (annealed importance sampling) or "ladder".
    history_ : dict of lists
        Diagnostics of training: one list per quantity, with one entry per epoch.
    n_iter_ : int
        Number of epochs.
    converged_ : bool
        Whether training converged. False, with a warning, if no hidden unit depends on the rows,
        but the columns are dependent.
    n_features_in_ : int
        Number of columns seen during fit.
    feature_names_in_ : ndarray of shape (n_features,)
        Names of the columns seen during fit. It exists only if all names are strings.

    See Also
    --------
    sklearn.neural_network.BernoulliRBM : Restricted Boltzmann machine that is learned by persistent
        contrastive divergence and plain gradient ascent. Its ``score_samples`` is a
        pseudo-log-likelihood. Its parameter ``n_iter`` is ``max_iter`` here.

    References
    ----------
    Melchior, J., Fischer, A., and Wiskott, L., "How to center deep Boltzmann machines", JMLR 17
    (2016).

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
        learner="pcd",
        *,
        binarize=None,
        init_visible_bias="data",
        optimizer="auto",
        learning_rate="adaptive",
        penalty="l2",
        alpha="auto",
        batch_size=500,
        max_iter=None,
        tol=1e-6,
        average=True,
        early_stopping=False,
        validation_fraction=0.1,
        n_iter_no_change=5,
        max_bytes=4 * 2**30,
        warm_start=False,
        n_jobs=None,
        device="cpu",
        random_state=None,
        verbose=0,
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
        self.device = device
        self.random_state = random_state
        self.verbose = verbose

    @with_callbacks
    def fit(self, X, y=None, sample_weight=None):
        """Learn the weights and the biases.

        Parameters
        ----------
        X : array-like, sparse matrix or frame of shape (n_samples, n_features)
            Training rows of numbers from 0 to 1, or of any finite numbers if ``binarize`` is given.
            The data-dependent expectation uses numbers between 0 and 1 as the means of the visible
            units. Sparse rows stay sparse.
        y : ignored
            Not used.
        sample_weight : array-like of shape (n_samples,), optional
            Non-negative weight of each row. By default all rows have the same weight.

        Returns
        -------
        self
            The fitted estimator.

        Raises
        ------
        ValueError
            If ``X`` has nan, if ``X`` has values outside of [0, 1] and ``binarize`` is None, if the
            learner needs tables of log-potentials, or if both layers are too large for
            ``learner="exact"``.
        """
        return self._fit(X, sample_weight)

    @with_callbacks
    def partial_fit(self, X, y=None, sample_weight=None):
        """Train for one epoch over ``X``, starting from the current parameters.

        Parameters
        ----------
        X : array-like, sparse matrix or frame of shape (n_samples, n_features)
            Training rows, as in :meth:`fit`.
        y : ignored
            Not used.
        sample_weight : array-like of shape (n_samples,), optional
            Non-negative weight of each row. By default all rows have the same weight.

        Returns
        -------
        self
            The fitted estimator.
        """
        return self._fit(X, sample_weight, partial=True)

    def _fit(self, X, sample_weight, partial=False):
        with unchanged_on_error(self):
            check_number("n_components", self.n_components, low=1, integer=True)
            check_choice("init_visible_bias", self.init_visible_bias, ("data", "zeros"))
            check_threshold(self.binarize)
            learner = self._check_learner()
            parameters = TrainingParameters.of(self, partial, learner)
            session = FitSession(self, parameters, X)
            if session.is_resumed:
                self._check_same_size()
            codes = self._codes(X, reset=not session.is_resumed, probabilities=True)
            data = weighted_rows(Batch(codes), sample_weight)
            known = [vars(self).get(name) for name in ("alpha_", "learning_rate_")] + [None]
            with session.parallel():
                if session.is_resumed:
                    choice = choose(session.energy, data, parameters, known)
                else:
                    session.energy, choice = self._choose(data, parameters)
            session.energy = choice.energy if choice.is_interrupted else session.energy
            session.begin(data)
            data, held_out = hold_out(data, parameters, session.rng)
            if held_out is not None:  # a score needs states
                held_out = held_out._replace(X=draw_states(held_out.X, session.rng))
            settings = hidden_layer.training_settings(
                parameters, learner, session.energy, data, held_out, choice
            )

            def attributes(state):
                chosen = {"alpha_": choice.alpha, "learning_rate_": choice.rate}
                fitted = session.attributes(state) | chosen
                return fitted | hidden_layer.describe_hidden_units(
                    fitted["energy_"], data, session.seed, settings.device
                )

            if choice.is_interrupted:
                state = session.keep(settings, attributes, interrupted=True)
            else:
                state = loop.train(session, learner, data, settings, attributes)
            vars(self).update(attributes(state))
        return self

    def _check_same_size(self):
        """Raise a ValueError unless the previous fit has the same number of hidden units."""
        if self.n_components != self._n_features_out:
            raise ValueError(
                f"Training cannot continue with n_components={self.n_components}, because the "
                f"previous fit has {self._n_features_out} hidden units. Start anew with fit and "
                "warm_start=False."
            )

    def _initial_energy(self, data, parameters):
        n_weights = data.X.shape[1] * self.n_components
        parameters.check_memory(n_weights, "weights", "Use fewer n_components, or raise max_bytes.")
        rng = check_generator(self.random_state)
        return hidden_layer.initial_layers(data, self.n_components, self.init_visible_bias, rng)

    def _choose(self, data, parameters):
        """Return the initial model, and the strength of its weight decay and its learning rate.

        Small random weights are compared with the couplings of a Chow-Liu tree of the rows that the
        comparison does not hold out, and with larger random weights.
        """
        energy = self._initial_energy(data, parameters)
        starts = hidden_layer.other_starts(self.device)
        starts = () if self.init_visible_bias == "zeros" else starts
        choice = choose(energy, data, parameters, starts=starts)
        return choice.start, choice

    @property
    def components_(self):
        """Weights of the hidden units, shape (n_components, n_features)."""
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

    @property
    def _encoder(self):
        return TwoStateEncoder(self._column_names(), STATES, self.binarize)

    def _codes(self, X, reset, probabilities=False):
        """Record or check the columns of X; return zeros and ones, sparse if X is sparse.

        With ``probabilities``, numbers from 0 to 1 are valid and are returned as floats.
        """
        options = {"accept_sparse": "csr", "on_device": probabilities and self.device != "cpu"}
        X = numeric_rows(self, X, reset=reset, remedy=TWO_STATES_ADVICE, **options)
        encoder = self._encoder
        return encoder.encode_probabilities(X) if probabilities else encoder.encode_complete(X)

    @property
    def _device(self):
        return self.device

    def transform(self, X):
        """Return the probability that each hidden unit is 1, given each row.

        Parameters
        ----------
        X : array-like, sparse matrix or frame of shape (n_samples, n_features)
            Rows of numbers from 0 to 1, or of any finite numbers if ``binarize`` is given.

        Returns
        -------
        ndarray of shape (n_samples, n_components)
            ``p(h_j = 1 | v)`` of each row. The data type is float32 if ``X`` is float32, else
            float64.
        """
        check_is_fitted(self)
        dtype = np.float32 if getattr(X, "dtype", None) == np.float32 else np.float64
        codes = self._codes(X, reset=False, probabilities=True)
        return hidden_layer.infer_hidden(self.energy_, codes, dtype, open_device(self.device))

    def inverse_transform(self, X):
        """Return the probability that each visible unit is 1, given the hidden units.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_components)
            States or probabilities of the hidden units.

        Returns
        -------
        ndarray of shape (n_samples, n_features)
            ``p(v_i = 1 | h)`` of each row.
        """
        check_is_fitted(self)
        H = check_array(X, dtype=(np.float64, np.float32))
        if H.shape[1] != self._n_features_out:
            n = self._n_features_out
            raise ValueError(f"X must have {n} columns (hidden units); got {H.shape[1]} columns.")
        return self.energy_.astype(H.dtype).visible_means(H)

    def free_energy(self, X):
        r"""Return the free energy of each row in nats.

        The free energy is :math:`F(v) = -\log \sum_h f(v, h)`, where :math:`f` is the unnormalised
        probability.

        Parameters
        ----------
        X : array-like, sparse matrix or frame of shape (n_samples, n_features)
            Rows of zeros and ones, or of any finite numbers if ``binarize`` is given.

        Returns
        -------
        ndarray of shape (n_samples,)
            Free energy of each row.
        """
        check_is_fitted(self)
        return self.energy_.astype(np.float64).free_energy(self._codes(X, reset=False))

    def score_samples(self, X):
        r"""Return the log-likelihood of each row in nats.

        The log-likelihood is :math:`\log p(v) = -F(v) - \log Z`. The error of an estimated log Z is
        the same for all rows. The limits of log Z are in ``log_partition_interval_``.

        Parameters
        ----------
        X : array-like, sparse matrix or frame of shape (n_samples, n_features)
            Rows of zeros and ones, or of any finite numbers if ``binarize`` is given.

        Returns
        -------
        ndarray of shape (n_samples,)
            Log-likelihood of each row. All calls use the same ``log_partition_``, which is
            estimated once with the random state of the fit.
        """
        return -self.free_energy(X) - self.log_partition_

    def gibbs(self, X, *, random_state=None):
        """Run one Gibbs step: sample hidden given visible units, then visible given hidden units.

        Parameters
        ----------
        X : array-like, sparse matrix or frame of shape (n_samples, n_features)
            Rows of zeros and ones, or of any finite numbers if ``binarize`` is given.
        random_state : int, RandomState, Generator or None, default=None
            Random numbers of the step. An int makes the result reproducible.

        Returns
        -------
        ndarray of shape (n_samples, n_features)
            States of the visible units after the step, zeros and ones.
        """
        check_is_fitted(self)
        codes = dense_rows(self._codes(X, reset=False))
        generators = spawn_generators(check_generator(random_state), len(codes))
        return sweep(self.energy_, codes, generators)[0].astype(int)

    def __sklearn_tags__(self):
        """Return the scikit-learn tags of the estimator."""
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        tags.transformer_tags.preserves_dtype = ["float64", "float32"]
        return tags
