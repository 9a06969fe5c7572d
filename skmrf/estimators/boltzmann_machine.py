"""Boltzmann machines: binary variables with pairwise couplings."""

from dataclasses import replace
from functools import partial

import numpy as np
from sklearn.callback import with_callbacks
from sklearn.utils.validation import check_is_fitted

from .._data.binary import TWO_STATES_ADVICE, TwoStateEncoder, check_threshold, check_two_states
from .._data.numeric import numeric_rows
from .._utils.codes import STATE
from .._utils.parameters import check_auto, check_generator, check_number
from .._utils.rows import Batch, weighted_rows
from ..energies import PairwiseEnergy, SemiRestrictedEnergy
from ..learners.registry import make_learner
from ..training import data_moments, initial_values, loop
from ..training.held_out import held_out_score
from ._base import unchanged_on_error
from ._density import VisibleEstimator
from ._hidden_layer import choose_model, initial_coupled_layers, keep_short_fit, training_settings
from ._session import FitSession
from ._training import TrainingParameters, hold_out, make_pcd, rows_of_log_partition
from ._weight_decay import choose, is_preconditioned, preconditioned_settings

SIZES = (0, 32, 128, 512)  # numbers of hidden units that n_components="auto" compares
WIDE, WIDE_SIZES = 256, (0, 128, 512)  # the same with more columns, without couplings
ROWS_PER_UNIT, UNITS_PER_COLUMN = 10, 4  # at least, and at most


class BoltzmannMachine(VisibleEstimator):
    r"""Boltzmann machine (Ising model) with optional hidden units.

    .. math:: p(s) = \frac{1}{Z} \sum_h \exp\Big( \sum_{i<j} J_{ij} s_i s_j + \sum_i b_i s_i
        + \sum_{ij} s_i W_{ij} h_j + \sum_j c_j h_j \Big)

    Every column is a variable :math:`s_i` with two states and a bias :math:`b_i`. Every pair of
    columns has a coupling :math:`J_{ij}`. By default there are no hidden units. The log-likelihood
    of complete rows is then concave. At its maximum without a penalty, the model has the same means
    and pair moments as the data. Hidden units :math:`h_j`, which are 0 or 1, also represent
    interactions of more than two columns. They are coupled to the columns, not to each other
    (semi-restricted Boltzmann machine). Missing entries are nan. In training, the data-dependent
    expectation of a row is the expectation given its observed entries.

    Parameters
    ----------
    learner : str or Learner, default="pcd"
        Estimator of the gradient of the log-likelihood: "pcd", "ptt", "psmc", "smc", "cd",
        "tempered-transitions", "parallel-tempering", "mcmc-mle", "pf-mcmc-mle" or "exact". "exact"
        needs at most about twenty columns. Without hidden units, two chains of "pcd" restart at
        states of simulated annealing every 10 steps, which finds modes far from the rows. An
        instance of a class of :mod:`skmrf.learners` has its own parameters.
    n_components : int or "auto", default=0
        Number of hidden units. "auto" compares 0, 32, 128 and 512 by short fits with "pcd", until
        one has a lower log-likelihood of held-out rows than the one before. Numbers above a tenth
        of the number of rows, or above four times the number of columns, are not compared. "auto"
        takes about as long as two fits with the largest number. With more than 256 columns, it
        compares 0, 128 and 512, and models with hidden units have no couplings between columns.
        With fewer than 320 rows, with other penalties than "l2" and in :meth:`partial_fit`, "auto"
        is 0.
    states : pair of numbers, default=(-1, 1)
        The two values of :math:`s_i`, the lower one first.
    binarize : float, optional
        Threshold. Entries above it become the upper state, all other entries the lower state. By
        default there is no threshold, and the data must contain only the two states and nan.
    optimizer : {"auto", "lbfgs", "adam", "sgd", "momentum"} or instance, default="auto"
        Optimizer of the parameters. "auto" is a deterministic solver for deterministic learners:
        L-BFGS, or FISTA with the penalties "l1" and "group-l1". With "pcd" or "ptt", the penalty
        "l2" and ``learning_rate="adaptive"``, "auto" is stochastic natural gradient ascent (of
        independent columns) with 1000 updates, whose rate falls from 0.05 to zero. With hidden
        units, gradients are centred, and there are 1500 to 24,000 updates with a first rate of 0.2
        or 0.05, chosen like ``alpha``, or 0.1. For other stochastic learners "auto" is Adam, or SGD
        with "group-l1". "lbfgs" needs a deterministic learner. An instance of an optimizer of
        :mod:`skmrf.training` has its own parameters.
    learning_rate : str, float or schedule, default="adaptive"
        Learning rate of stochastic learners. "adaptive" halves the rate whenever the gradient is
        only noise. "constant" keeps the first rate, "step" halves it every 1000 updates, and
        "inverse" divides it by ``1+t/100`` after t updates. The first rate is 0.03 for Adam, 0.1
        for SGD and 0.02 for momentum. A float is a constant rate. An instance of a schedule of
        :mod:`skmrf.training` has its own parameters.
    penalty : {"l2", "l1", "elasticnet", "group-l1"}, default="l2"
        Penalty on the couplings of ``states`` and on the weights of hidden units. Biases are not
        penalised. "elasticnet" is the mean of "l1" and "l2". With "group-l1" each coupling and the
        weights of each hidden unit are a group.
        With ``alpha="auto"``, "l2" is half the squared distance of the couplings from zero, or from
        the couplings of a Chow-Liu forest: a tree of highest likelihood, without the edges that an
        extended Bayesian information criterion rejects. The centre with the higher log-likelihood
        of held-out rows is taken. Biases then have a hundredth of the penalty.
    alpha : float or "auto", default="auto"
        Strength of the penalty. ``alpha`` times the penalty is subtracted from the mean
        log-likelihood of a row in nats. 0 means no penalty. Each pair of columns counts once.
        "auto" compares short fits with "pcd": the best one has the highest log-likelihood of
        held-out rows. ``alpha`` times the number of rows is first 10, or 3 with hidden units beside
        couplings. Weaker strengths (3, 1, 0.3, 0.1) follow while they are better. If none is, the
        stronger ones (30, 100, 300, 1000, 3000) follow while they are better. Without hidden units,
        only stronger ones follow if the Chow-Liu forest itself is better than the first models. If
        it remains better, strengths from 3000 on follow. Without couplings there are only 3, 10 and
        30. Complete rows of at most 20 columns, without hidden units, are compared by exact maximum
        likelihood instead of "pcd", with up to 10,000 rows by five-fold cross-validation. With
        fewer than 50 rows, other penalties than "l2" and in :meth:`partial_fit`, nothing is
        compared: the first strength is taken. The first call of :meth:`partial_fit` counts as at
        least 1000 rows.
        Without hidden units, :meth:`fit` keeps the best short fit, with a warning, if training ends
        at a model with a lower log-likelihood of the held-out rows.
    batch_size : int, default=256
        Number of rows in a minibatch of a stochastic learner.
    max_iter : int, optional
        Maximum number of epochs, or of iterations of a deterministic solver. By default training
        continues until it converges, with at least 2000 and at most 20000 updates.
    tol : float, default=1e-6
        Tolerance of deterministic solvers. They stop when no entry of the gradient (difference of a
        moment between data and model) is larger in absolute value.
    average : bool, default=True
        Whether to return the mean of the iterates since the last change of the learning rate,
        instead of the last iterate. It has no effect with the penalties "l1" and "group-l1", or
        with a deterministic solver.
    early_stopping : bool, default=False
        Whether to hold out rows and to stop when their score no longer improves. The score is the
        mean log-likelihood if variable elimination is cheap, else the mean pseudo-log-likelihood of
        the held-out rows without missing entries.
    validation_fraction : float, default=0.1
        Share of the rows that early stopping holds out, above 0 and at most 0.9.
    n_iter_no_change : int, default=5
        Number of epochs without a better score after which early stopping ends training.
    max_bytes : float, default=4 * 2**30
        Maximum memory in bytes of the parameters during training, and of exact inference. The
        default is 4 GiB.
    warm_start : bool, default=False
        Whether :meth:`fit` continues training from the previous fit, including the Markov chains
        and the state of the optimizer.
    n_jobs : int, optional
        Number of threads over Markov chains. It changes results by rounding errors at most.
    device : {"cpu", "gpu", "cuda", "jax"}, default="cpu"
        Device of training, of sampling and of the estimate of log Z: the compiled functions of
        numba, a GPU, or the default device of JAX. All learners by sampling run on it.
        See the page "Training on a GPU" of the user guide.
    random_state : int, RandomState, Generator or None, default=None
        Random numbers of training (Markov chains and held-out rows) and of the estimate of log Z.
        An int makes fits reproducible.
    verbose : int, default=0
        Amount of progress messages. 0: none. 1: a line every few seconds with the epoch, the last
        score in ``history_`` and the seconds that remain until ``max_iter``. 2: a line per epoch.

    Attributes
    ----------
    energy_ : PairwiseEnergy or SemiRestrictedEnergy
        Fitted model with the states of the parameter ``states``. It is a
        :class:`~skmrf.energies.SemiRestrictedEnergy` if there are hidden units.
    coupling_ : ndarray of shape (n_features, n_features)
        Couplings :math:`J` of the same distribution with the states -1 and 1, whatever ``states``
        is. The matrix is symmetric with a zero diagonal. For states 0 and 1 it is a quarter of
        ``energy_.coupling``.
    bias_ : ndarray of shape (n_features,)
        Biases :math:`b` of ``energy_``, for the states of the parameter ``states``.
    n_components_ : int
        Number of hidden units.
    components_ : ndarray of shape (n_components, n_features)
        Weights :math:`W` of the hidden units, for the states of the parameter ``states``.
    intercept_hidden_ : ndarray of shape (n_components,)
        Biases :math:`c` of the hidden units.
    alpha_ : float
        Strength of the penalty.
    log_partition_ : float
        log Z in nats. It is computed at the first access.
    log_partition_interval_ : tuple of float
        Lower and upper limit of log Z in nats. They are equal if log Z is exact.
    log_partition_method_ : str
        How log Z was computed: "exact", "ais" (annealed importance sampling) or "ladder" (bridge
        sampling along ``ladder_``).
    history_ : dict of lists
        Diagnostics of training: one list per quantity, with one entry per epoch.
    n_iter_ : int
        Number of epochs.
    converged_ : bool
        Whether training converged.
    n_features_in_ : int
        Number of columns seen during fit.
    feature_names_in_ : ndarray of shape (n_features,)
        Names of the columns seen during fit. It exists only if all names are strings.

    See Also
    --------
    DiscreteMRF : Markov random fields with cliques of any columns and any number of categories.

    References
    ----------
    D. H. Ackley, G. E. Hinton, T. J. Sejnowski, "A learning algorithm for Boltzmann machines",
    Cognitive Science 9 (1985).

    S. Osindero, G. E. Hinton, "Modeling image patches with a directed hierarchy of Markov random
    fields", NIPS (2007): couplings beside hidden units.

    Examples
    --------
    >>> import numpy as np
    >>> from skmrf import BoltzmannMachine
    >>> X = np.array([[1, 1, -1]] * 8 + [[-1, -1, 1]] * 8 + [[1, -1, 1], [-1, 1, -1]])
    >>> model = BoltzmannMachine(alpha=0.1, random_state=0).fit(X)
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
        learner="pcd",
        *,
        n_components=0,
        states=(-1, 1),
        binarize=None,
        optimizer="auto",
        learning_rate="adaptive",
        penalty="l2",
        alpha="auto",
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
        device="cpu",
        random_state=None,
        verbose=0,
    ):
        self.learner = learner
        self.n_components = n_components
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
        self.device = device
        self.random_state = random_state
        self.verbose = verbose

    @with_callbacks
    def fit(self, X, y=None, sample_weight=None):
        """Learn the couplings, the biases and the weights of hidden units.

        Parameters
        ----------
        X : array-like or frame of shape (n_samples, n_features)
            Training rows with the two states, or with any finite numbers if ``binarize`` is given.
            nan marks a missing entry.
        y : ignored
            Not used.
        sample_weight : array-like of shape (n_samples,), optional
            Non-negative weight of each row: the number of times that it counts. By default 1.

        Returns
        -------
        self
            The fitted estimator.

        Raises
        ------
        ValueError
            If ``X`` has a value that is none of the two states and ``binarize`` is None, if ``X``
            has an infinite value, or if the learner needs tables of log-potentials.
        """
        return self._fit(X, sample_weight)

    @with_callbacks
    def partial_fit(self, X, y=None, sample_weight=None):
        """Train for one epoch over ``X``, starting from the current parameters.

        Parameters
        ----------
        X : array-like or frame of shape (n_samples, n_features)
            Training rows, as in :meth:`fit`. nan marks a missing entry.
        y : ignored
            Not used.
        sample_weight : array-like of shape (n_samples,), optional
            Non-negative weight of each row: the number of times that it counts. By default 1.

        Returns
        -------
        self
            The fitted estimator.
        """
        return self._fit(X, sample_weight, partial=True)

    @property
    def coupling_(self):
        """Couplings when the variables take the values -1 and 1, shape (n_features, n_features)."""
        check_is_fitted(self)
        low, high = self.energy_.states
        return (0.5 * (high - low)) ** 2 * self.energy_.coupling

    @property
    def bias_(self):
        """Biases when the variables take the values in ``states``, shape (n_features,)."""
        check_is_fitted(self)
        return self.energy_.theta["visible_bias" if self.energy_.has_latent else "bias"]

    @property
    def n_components_(self):
        """Number of hidden units."""
        check_is_fitted(self)
        return self.energy_.n_variables - self.n_features_in_

    @property
    def components_(self):
        """Weights of the hidden units for the values in ``states``, (n_components, n_features)."""
        check_is_fitted(self)
        energy = self.energy_
        return energy.weights.T if energy.has_latent else np.zeros((0, energy.n_variables))

    @property
    def intercept_hidden_(self):
        """Biases of the hidden units, shape (n_components,)."""
        check_is_fitted(self)
        return self.energy_.hidden_bias if self.energy_.has_latent else np.zeros(0)

    def _fit(self, X, sample_weight, partial=False):
        with unchanged_on_error(self):
            self._check_n_components()
            states = check_two_states(self.states)
            check_threshold(self.binarize)
            learner = self._check_learner()
            parameters = TrainingParameters.of(self, partial, learner)
            session = FitSession(self, parameters, X)
            if session.is_resumed:
                self._check_same_model(states)
            encoder, codes = self._encode_training(
                X, states, reset=not session.is_resumed, keeps=learner.is_pure
            )
            data = weighted_rows(Batch(codes), sample_weight)
            with session.parallel():
                if session.is_resumed:
                    known = vars(self).get("alpha_"), None, vars(self).get("_centre")
                    choice = choose(session.energy, data, parameters, known)
                else:
                    choice = self._choose(data, states, parameters)
            session.energy = choice.energy if choice.is_interrupted else choice.start
            session.begin(data, encoder.states)
            if isinstance(self.learner, str) and self.learner == "pcd":
                learner = make_pcd(session.energy)
            data, held_out = hold_out(data, parameters, session.rng)
            energy, resolution, n_never = session.energy, 0.0, 0
            is_noise_compared = not (energy.has_latent or is_preconditioned(learner, parameters))
            if choice.alpha == 0 or is_noise_compared:
                resolution, n_never = data_moments.summarise_pairs(energy, data)
            given = parameters, learner, energy, data, held_out, choice
            settings = self._settings(*given, resolution)
            del energy, given  # training frees the initial model

            def attributes(state):
                forest = vars(self).get("_forest") if session.is_resumed else choice.reference
                chosen = {"alpha_": choice.alpha, "_centre": choice.centre, "_forest": forest}
                fitted = session.attributes(state) | chosen
                rows = rows_of_log_partition(data, np.random.default_rng(session.seed))
                return fitted | rows | {"energy_": _symmetric(fitted["energy_"])}

            if choice.is_interrupted:
                state = session.keep(settings, attributes, interrupted=True)
            else:
                state = loop.train(session, learner, data, settings, attributes)
            data_moments.warn_unbounded(n_never if choice.alpha == 0 else 0)
            vars(self).update(attributes(state))
        return self

    def _check_learner(self):
        """Return the learner; raise an error unless it can train each model that fit compares."""
        both = PairwiseEnergy, SemiRestrictedEnergy
        for energy_type in {0: both[:1], "auto": both}.get(self.n_components, both[1:]):
            learner = make_learner(self.learner, energy_type, owner="BoltzmannMachine")
        return learner

    def _check_n_components(self):
        if isinstance(self.n_components, str):
            check_auto("n_components", self.n_components, "an integer >= 0")
        else:
            check_number("n_components", self.n_components, low=0, integer=True)

    def _choose(self, data, states, parameters):
        """Choose the initial model, the weight decay and the learning rate."""
        sizes = [self.n_components]
        if isinstance(self.n_components, str):
            limit = min(data.X.shape[0] // ROWS_PER_UNIT, UNITS_PER_COLUMN * data.X.shape[1])
            known = SIZES if data.X.shape[1] <= WIDE else WIDE_SIZES
            sizes = [m for m in known if m <= (0 if parameters.is_partial else limit)]
        self._check_size(parameters, sizes[0])
        energies = (self._initial_energy(m, data, states) for m in sizes)
        if len(sizes) > 1:
            return choose_model(energies, data, parameters)
        return choose(next(energies), data, parameters)

    def _initial_energy(self, n_components, data, states):
        if n_components == 0:
            return initial_values.independent_columns(data, states)
        is_coupled = not isinstance(self.n_components, str) or data.X.shape[1] <= WIDE
        rng = check_generator(self.random_state)
        return initial_coupled_layers(data, n_components, states, rng, is_coupled=is_coupled)

    def _settings(self, parameters, learner, energy, data, held_out, choice, resolution):
        """Return the settings of the training loop."""
        if energy.has_latent:
            return training_settings(parameters, learner, energy, data, held_out, choice)
        settings = parameters.settings(
            learner,
            energy,
            data,
            alpha=choice.alpha,
            centre=choice.centre,
            score=_score(energy, held_out),
            resolution=resolution,
        )
        if is_preconditioned(learner, parameters):
            settings = preconditioned_settings(settings, energy, data, choice.rate)
            if choice.score > -np.inf and held_out is None:
                finish = partial(keep_short_fit, choice, data, parameters)
                settings = replace(settings, finish=(finish,))
        return settings

    @property
    def _device(self):
        return self.device

    def _check_same_model(self, states):
        """Raise a ValueError unless the previous fit has the same states and hidden units."""
        n_hidden = len(self.intercept_hidden_)
        if self.n_components not in ("auto", n_hidden):
            raise ValueError(
                f"Training cannot continue with n_components={self.n_components}, because the "
                f"previous fit has {n_hidden} hidden units. Start anew with fit and "
                "warm_start=False."
            )
        if states != self.energy_.states:
            raise ValueError(
                f"Training cannot continue with states={self.states!r}, because the previous fit "
                f"has the states {self.energy_.states}. Start anew with fit and warm_start=False."
            )

    def _encode_training(self, X, states, reset, keeps):
        """Return the encoder of the two states, and the training rows as state codes.

        With ``keeps``, rows of codes of one byte and arrays of JAX stay where they are.
        """
        options = {"missing": True, "on_device": keeps and self.device != "cpu"}
        rows = numeric_rows(self, X, reset=reset, remedy=TWO_STATES_ADVICE, **options)
        encoder = TwoStateEncoder(self._column_names(), states, self.binarize)
        return encoder, encoder.encode_training(rows) if keeps else encoder.encode(rows)

    def _check_size(self, parameters, n_components):
        n, what = self.n_features_in_, "couplings and biases"
        remedy = "Use fewer columns, or raise max_bytes."
        if n_components:
            what, remedy = "couplings, weights and biases", f"Use fewer n_components. {remedy}"
        parameters.check_memory(n * (n + 1 + n_components), what, remedy)

    @property
    def _encoder(self):
        return TwoStateEncoder(self._column_names(), self.energy_.states, self.binarize)


def _score(energy, held_out):
    if held_out is None:
        return None
    # The score reads the rows in each epoch, by functions that are compiled for this data type.
    held_out = held_out._replace(X=np.asarray(held_out.X, dtype=STATE))
    n = energy.n_variables
    coupled = PairwiseEnergy(np.ones((n, n)) - np.eye(n), np.zeros(n), energy.states)
    return held_out_score(coupled.factor_graph().layout, held_out)


def _symmetric(energy):
    """Return the energy with exactly symmetric couplings, without rounding errors."""
    theta = dict(energy.theta)
    if "coupling" in theta:
        theta["coupling"] = 0.5 * (energy.coupling + energy.coupling.T)
    return energy.with_theta(theta)
