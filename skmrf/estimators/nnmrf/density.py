"""Neural-network Markov random field: a density of continuous and categorical columns."""

from sklearn.callback import with_callbacks
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import check_is_fitted

from ..._data.frames import column_names, read_columns
from ..._data.mixed import learn_columns, standardise
from ..._utils.parameters import check_choice, check_generator, check_number_or
from ..._utils.rows import Batch, weighted_rows
from ...energies import NeuralEnergy
from ...learners import BeliefLearner
from ...likelihood.neural import neural_log_partition
from .._base import unchanged_on_error
from .._session import FitSession
from .._training import TrainingParameters, hold_out
from .gaussian_potentials import EXACT, TableDensity, fit_gaussians, impute_gaussians, log_densities
from .initial_energy import (
    MAX_BASE,
    MIN_ROWS_FOR_HOLD_OUT,
    check_layers,
    check_same_model,
    defensive_mixture,
    fixed_parameters,
    initial_energy,
    network_settings,
)
from .scores import impute_rows, observed_log_potential

POTENTIALS = "gaussian", "network"
NETWORK_ATTRIBUTES = "energy_", "_fixed_parameters", "_ladder", "_chains", "_loop_state"


def _has_networks(model):
    return model.potentials == "network"


class NNMRFDensity(TableDensity):
    r"""Markov random field: a density of numeric and categorical columns.

    With ``potentials="gaussian"``, the default, a hidden class variable :math:`k` joins all
    columns. Given the class, transformed numbers are jointly Gaussian, and categories are
    independent:

    .. math:: p(x) = \sum_k \alpha_k \, N(z; \mu_k, C_k) \prod_j \pi_{kj}(s_j)
        \prod_{i} |z_i'(x_i)|

    Each numeric column has a monotone transform :math:`z_i`, learned from the data, with
    logarithmic tails, or with a support that ends at the bounds of the column. A value that
    repeats much more often than others, such as 0, has a point mass. Its state is a category
    :math:`s_j`, and a row with such a value has no :math:`z_i` in the Gaussian. The density is with
    respect to the counting measure for categories, and with respect to Lebesgue measure for numbers
    without a point mass. For a point mass, it is the probability divided by the unit of rounding of
    the column, or by 1 if the column is not rounded. Rounded columns and integers have the density
    of the number before rounding, and draws are rounded.

    With ``potentials="network"``, the potentials are small neural networks:

    .. math:: p(x) = \frac{1}{Z} \exp\Big(\sum_i s_i \tanh n_i(x_i)
        + \sum_{ij} s_{ij} \tanh n_{ij}(x_i, x_j) - \tfrac{1}{2} (x - m)^\top P (x - m)\Big)

    Each column has a network :math:`n_i` with scale :math:`s_i`. Each edge of a graph of the
    columns has a network :math:`n_{ij}` with scale :math:`s_{ij}`. The quadratic term, of the
    numeric columns only, is fixed before training. The networks are learned by maximum likelihood.
    Markov chains, guided by a mixture distribution, estimate the expectations under the model.
    Numeric columns are standardised. Densities are in the units of the columns.

    Parameters
    ----------
    graph : str, networkx.Graph or list of pairs, default="complete"
        Pairs of columns that share a network.

        - "complete": all pairs. It is slow with more than about 60 columns.
        - "tree": the spanning tree with the largest absolute correlations.
        - "knn": each column with the five columns of largest absolute correlation.
        - "grid": the columns are the pixels of a square, row by row. Neighbouring pixels are pairs.
        - "empty": no pairs.
        - A networkx graph or a list of pairs. Nodes are column names or positions.
    learner : {"variational", "grid"} or instance, default="variational"
        Estimator of the gradient of the log-likelihood. "variational" is
        :class:`~skmrf.learners.Variational`. "grid" is :class:`~skmrf.learners.Grid`, the exact
        gradient for at most three continuous columns. An instance of these classes has its own
        parameters.
    potentials : {"gaussian", "network"}, default="gaussian"
        Potentials of the model. "gaussian" are Gaussians and tables of probabilities for each class
        of a hidden variable, learned by expectation-maximisation. It uses only the parameters
        ``n_components``, ``column_types``, ``categories`` and ``random_state``. "network" are
        neural networks. It uses all parameters but ``n_components``.
    n_components : "auto" or int, default="auto"
        Number of classes of the hidden variable. "auto" selects it by held-out rows. The fitted
        model is the average of two such mixtures.
    node_layers : tuple of int, default=(8, 8)
        Number of hidden units (SELU) of each layer in the network of a column.
    edge_layers : tuple of int, default=(8, 8)
        Number of hidden units (SELU) of each layer in the network of a pair of columns.
    base : "gaussian" or float, default="gaussian"
        Quadratic term of the continuous columns. "gaussian" is the quadratic term of a Gaussian: it
        has the covariances of the training rows on the edges of the graph, and no other
        interactions. A float ``a`` in (0, 1e6] means ``-a * sum(x**2)`` for standardised columns.
        The paper uses 0.01.
    prior_covariance : array-like of shape (n_numbers, n_numbers), optional
        Target of the shrinkage of the covariance with ``base="gaussian"``. It has a row for each of
        the ``n_numbers`` continuous columns, in the units of the columns, and must be positive
        definite. By default it is the diagonal of the covariance.
    shrinkage : "auto" or float, default="auto"
        Weight of the target in the shrunk covariance, from 0 to 1. "auto" selects it by five-fold
        cross-validation of the Gaussian log-likelihood. Smaller weights are raised to about 0.01
        times the number of continuous columns divided by the number of rows.
    density : {"mixture", "mrf"}, default="mixture"
        Distribution that is scored and sampled. "mixture" is a mixture that approximates the
        learned model and is normalised exactly. "mrf" is the learned model itself, with an estimate
        of log Z (``log_partition_``). It can be changed after fit with ``set_params``. During fit,
        it is the distribution whose score on held-out rows early stopping uses.
    column_types : "auto", str, list of str, or dict, default="auto"
        Types of the columns: "continuous", "non-negative", "bounded", "integer", "ordinal",
        "categorical" or "boolean". "auto" detects the types. Booleans, text and categorical data
        types have categories. Whole numbers of an array are categorical if there are at most 20
        distinct values, otherwise integers. In frames, they are integers unless there are at most
        two distinct values. A str is the type of all columns, and a list has one type for each
        column. A dict has the types of some columns, by name or index; the other columns are
        detected.
    categories : "auto" or list of lists, default="auto"
        Categories of each categorical column. "auto" uses the categories that the data type of a
        frame's column declares, otherwise those seen during fit.
    optimizer : {"auto", "adam", "sgd", "momentum", "lbfgs"} or instance, default="auto"
        Optimizer of the networks. "auto" is Adam. "lbfgs" needs ``learner="grid"`` and rows without
        missing entries; with the penalties "l1" and "group-l1" it is FISTA. An instance of an
        optimizer of :mod:`skmrf.training` has its own parameters.
    learning_rate : str, float or schedule, default="adaptive"
        Learning rate. With "adaptive" and held-out rows, the rate is halved whenever the gradient
        is only noise. With "adaptive" and no held-out rows, it is halved after 200 updates, and
        training ends after 500. Its first value is 0.03 for Adam and momentum, and 0.1 for SGD.
        "constant" keeps the first rate, "step" halves it every 1000 updates, and "inverse" divides
        it by ``1+t/100`` after t updates. Their first rate is 0.03 for Adam, 0.1 for SGD and 0.02
        for momentum. A float is a constant rate. An instance of a schedule of :mod:`skmrf.training`
        has its own parameters.
    penalty : {"l2", "l1", "group-l1"}, default="l2"
        Penalty on the weights of the networks. Biases and scales of the networks are not penalised.
        With "group-l1" each network is a group.
    alpha : "auto" or float, default="auto"
        Strength of the penalty. ``alpha`` times the penalty is subtracted from the mean
        log-likelihood of a row in nats. "auto" is 1 divided by the number of training rows. With
        "l2" this corresponds to a normal prior of the weights with precision 1.
    batch_size : int, default=100
        Number of rows in a minibatch.
    max_iter : int, optional
        Maximum number of epochs. By default training continues until it converges, with at most
        3000 updates. With the default learning rate and no held-out rows, it ends after about 500
        updates.
    tol : float, default=1e-6
        Tolerance of deterministic solvers. They stop when no entry of the gradient is larger in
        absolute value.
    average : bool, default=True
        Whether to return the weighted mean of the iterates since the last change of the learning
        rate, instead of the last iterate. Later iterates have larger weights. It has no effect with
        the penalties "l1" and "group-l1", or with a deterministic solver.
    early_stopping : bool or "auto", default="auto"
        Whether to hold out rows, to stop when their score no longer improves, and to keep the model
        with the best score. The score is the mean log-likelihood of the distribution that
        ``density`` selects. "auto" holds rows out if there are at least 500, unless the optimizer
        is "lbfgs".
    validation_fraction : float, default=0.1
        Share of the rows that early stopping holds out, above 0 and at most 0.9.
    n_iter_no_change : int, default=5
        Number of epochs without a better score after which early stopping ends training. These
        epochs must also have at least 300 updates.
    max_bytes : float, default=4 * 2**30
        Maximum memory in bytes of the parameters during training. The default is 4 GiB.
    warm_start : bool, default=False
        Whether :meth:`fit` continues training from the previous fit. The graph, the networks'
        layers, the quadratic term and the categories must be the same.
    n_jobs : int, optional
        Has no effect. It exists because all estimators have it.
    random_state : int, RandomState, Generator or None, default=None
        Random numbers of training (initial networks, Markov chains and held-out rows) and of the
        estimate of log Z. An int makes fits reproducible.
    verbose : int, default=0
        Amount of progress messages. 0: none. 1: a line every few seconds with the epoch, the last
        score in ``history_`` and the seconds that remain until ``max_iter``. 2: a line per epoch.

    Attributes
    ----------
    energy_ : NeuralEnergy
        Fitted model with ``potentials="network"``, of standardised numbers and of state codes. The
        state code of a category is its position in ``categories_``.
    mixture_ : Mixture
        Model with ``potentials="gaussian"``: a mixture of transformed numbers and state codes. With
        ``potentials="network"``, a mixture that approximates the model. The Gaussian of the
        quadratic term is one of its components, with weight 0.05.
    edges_ : ndarray of shape (n_edges, 2)
        Pairs of column indices that share a network, the lower index first.
    column_types_ : list of str
        Type of each column.
    categories_ : list of ndarray
        Categories of each categorical column, in the order of the state codes.
    history_ : dict of lists
        Diagnostics of training: one list per quantity, with one entry per epoch.
        ``log_partition_bound`` estimates a lower bound of log Z in nats if the learner has
        ``entropy="joint"``. This estimate is some hundredths too high, because the bound is
        maximised at the same points at which it is computed.
    n_iter_ : int
        Number of epochs.
    converged_ : bool
        Whether training converged.
    log_partition_ : float
        log Z in nats, for standardised columns. It is computed at the first access.
    log_partition_interval_ : tuple of float
        Lower and upper limit of log Z in nats.
    log_partition_method_ : {"exact", "grid", "ais"}
        How log Z was computed: "exact" (possible if all columns are categorical), "grid" (possible
        with at most three continuous columns) or "ais" (annealed importance sampling from the
        mixture).
    n_features_in_ : int
        Number of columns seen during fit.
    feature_names_in_ : ndarray of shape (n_features,)
        Names of the columns seen during fit. It exists only if all names are strings.

    See Also
    --------
    NNMRFBayesClassifier : Classifier with a density for each class.
    sklearn.mixture.GaussianMixture : Density of continuous columns by Gaussian components.
    sklearn.neighbors.KernelDensity : Density of continuous columns by kernels.

    References
    ----------
    H. Xiong and N. Ruozzi, "General purpose MRF learning with neural network potentials", IJCAI
    2020, section 3.

    Examples
    --------
    Rows on a noisy circle, which is far from Gaussian:

    >>> import numpy as np
    >>> from skmrf import NNMRFDensity
    >>> rng = np.random.default_rng(0)
    >>> angle = rng.uniform(0, 2 * np.pi, 200)
    >>> X = np.stack([np.cos(angle), np.sin(angle)], axis=1) + 0.1 * rng.normal(size=(200, 2))
    >>> model = NNMRFDensity(random_state=0).fit(X)
    >>> bool(model.score_samples([[1.0, 0.0]])[0] > model.score_samples([[0.0, 0.0]])[0] + 1)
    True
    """

    _energy_type = NeuralEnergy
    _learner_kind = BeliefLearner

    def __init__(
        self,
        graph="complete",
        learner="variational",
        *,
        potentials="gaussian",
        n_components="auto",
        node_layers=(8, 8),
        edge_layers=(8, 8),
        base="gaussian",
        prior_covariance=None,
        shrinkage="auto",
        density="mixture",
        column_types="auto",
        categories="auto",
        optimizer="auto",
        learning_rate="adaptive",
        penalty="l2",
        alpha="auto",
        batch_size=100,
        max_iter=None,
        tol=1e-6,
        average=True,
        early_stopping="auto",
        validation_fraction=0.1,
        n_iter_no_change=5,
        max_bytes=4 * 2**30,
        warm_start=False,
        n_jobs=None,
        random_state=None,
        verbose=0,
    ):
        self.graph = graph
        self.learner = learner
        self.potentials = potentials
        self.n_components = n_components
        self.node_layers = node_layers
        self.edge_layers = edge_layers
        self.base = base
        self.prior_covariance = prior_covariance
        self.shrinkage = shrinkage
        self.density = density
        self.column_types = column_types
        self.categories = categories
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
        self.verbose = verbose

    @with_callbacks
    def fit(self, X, y=None, sample_weight=None):
        """Learn the neural networks of the density.

        Parameters
        ----------
        X : array-like or frame of shape (n_samples, n_features)
            Training rows of numbers and categories. Missing entries are nan, None or NA. In
            training they are imputed by draws from the mixture, given the observed entries of their
            row.
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
            If ``X`` has infinite values, text in a column whose type is not "categorical", or
            a column without observed entries, or if the graph has nodes that are no columns.
        """
        return self._fit(X, sample_weight)

    @available_if(_has_networks)
    @with_callbacks
    def partial_fit(self, X, y=None, sample_weight=None):
        """Train for one epoch over ``X``, starting from the current parameters.

        The first call fixes the scales and categories of the columns, the graph and the quadratic
        term.

        Parameters
        ----------
        X : array-like or frame of shape (n_samples, n_features)
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
        check_choice("potentials", self.potentials, POTENTIALS)
        with unchanged_on_error(self):
            if self.potentials == "gaussian":
                self._check_learner()
                fitted = fit_gaussians(self, X, sample_weight)
                for name in NETWORK_ATTRIBUTES:
                    vars(self).pop(name, None)
                vars(self).update(fitted)
                return self
            parameters, learner = self._check_parameters(partial), self._check_learner()
            fit = FitSession(self, parameters, X)
            rows = read_columns(self, X, reset=not fit.is_resumed)
            columns = self._columns if fit.is_resumed else self._learn_columns(X, rows)
            data = weighted_rows(Batch(columns.encode(rows)), sample_weight)
            if fit.is_resumed:
                check_same_model(self, self.energy_, self._fixed_parameters, columns.names)
            else:
                columns, data = standardise(columns, data)
                rng = check_generator(self.random_state).spawn(1)[0]  # independent of training
                fit.energy = initial_energy(self, data, columns, rng)
            fit.begin(data, columns)
            data, held_out = hold_out(data, parameters, fit.rng, min_rows=MIN_ROWS_FOR_HOLD_OUT)
            settings = network_settings(self, parameters, learner, fit.energy, data, held_out)
            fixed = fixed_parameters(self)

            def attributes(state):
                fitted = fit.attributes(state)
                return fitted | {
                    "mixture_": defensive_mixture(learner, fitted["energy_"], state),
                    "categories_": columns.categories,
                    "column_types_": columns.types,
                    "_columns": columns,
                    "_fixed_parameters": fixed,
                }

            vars(self).update(attributes(fit.train(learner, data, settings, attributes)))
        return self

    def _check_all_parameters(self):
        """Raise an error if a parameter is invalid, without reading any row."""
        self._check_parameters()
        self._check_learner()

    def _check_parameters(self, partial=False):
        check_choice("density", self.density, ("mixture", "mrf"))
        for name in ("node_layers", "edge_layers"):
            check_layers(name, getattr(self, name))
        check_number_or(("gaussian",), "base", self.base, low=0, high=MAX_BASE, open_low=True)
        check_number_or(("auto",), "alpha", self.alpha, low=0)
        check_number_or(("auto",), "shrinkage", self.shrinkage, low=0, high=1)
        return TrainingParameters.of(self, partial)

    def _learn_columns(self, X, rows):
        given = self.column_types, self.categories
        return learn_columns(X, rows, column_names(self), *given)

    # Queries ------------------------------------------------------------------------------

    def score_samples(self, X):
        """Return the log-density of each row in nats, on the original scale of the columns.

        Parameters
        ----------
        X : array-like or frame of shape (n_samples, n_features)
            Rows of numbers and categories. Missing entries (nan, None or NA) are integrated out:
            exactly with ``density="mixture"``, by importance sampling from the mixture with
            ``density="mrf"``.

        Returns
        -------
        ndarray of shape (n_samples,)
            Log-density of the observed entries of each row.
        """
        codes = self._encode(X)
        if self._is_gaussian:
            return log_densities(self.mixture_, self._columns, codes)
        check_choice("density", self.density, ("mixture", "mrf"))
        if self.density == "mixture":
            logs = self.mixture_.log_density(codes)
        else:
            log_partition = self.log_partition_
            given = self._proposal(), codes, log_partition, self._seed
            logs = observed_log_potential(self.energy_, *given) - log_partition
        return logs - self._columns.log_scale(codes)

    def _proposal(self):
        energy = self.energy_
        return self.mixture_.with_defensive_component(energy.mean, energy.covariance)

    def _compute_log_partition(self):
        if self._is_gaussian:
            return EXACT
        return neural_log_partition(self.energy_, self.mixture_, random_state=self._seed)

    def _impute(self, codes, strategy, rng=None):
        if self._is_gaussian:
            return impute_gaussians(self.mixture_, self._columns, codes, strategy, rng)
        check_choice("density", self.density, ("mixture", "mrf"))
        energy = None if self.density == "mixture" else self.energy_
        mixture = self.mixture_ if energy is None else self._proposal()
        return impute_rows(energy, mixture, codes, strategy, self._seed if rng is None else rng)

    @property
    def edges_(self):
        """Edges of the graph as pairs of column indices, shape (n_edges, 2)."""
        check_is_fitted(self)
        if self._is_gaussian:
            raise AttributeError('edges_ exists only after a fit with potentials="network".')
        return self.energy_.edges
