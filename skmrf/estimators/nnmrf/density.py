"""Neural-network Markov random field: a density of continuous and categorical columns."""

from sklearn.callback import with_callbacks
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import check_is_fitted

from ..._data.column_types import score_unseen
from ..._data.frames import column_names, read_columns
from ..._data.mixed import learn_columns, standardise
from ..._data.supports import score_grids, score_outside
from ..._utils.log_weights import check_sample_weight
from ..._utils.parameters import check_choice, check_generator
from ..._utils.rows import Batch, weighted_rows
from ...likelihood.neural import neural_log_partition
from ...training import loop
from .._base import unchanged_on_error
from .._session import FitSession
from .._training import TrainingParameters, hold_out
from .density_queries import TableDensity
from .gaussian_potentials import EXACT, fit_gaussians, log_densities
from .initial_energy import (
    MIN_ROWS_FOR_HOLD_OUT,
    check_same_model,
    defensive_mixture,
    fixed_parameters,
    initial_energy,
    network_settings,
)
from .potentials import DENSITIES, NetworkPotentials, make_potentials
from .scores import impute_gaussians, impute_rows, observed_log_potential

NETWORK_ATTRIBUTES = "energy_", "_fixed_parameters", "_ladder", "_chains", "_loop_state"


def _has_networks(model):
    """Return True if ``partial_fit`` can train a model: its potentials are networks."""
    return isinstance(model._make_potentials(), NetworkPotentials)


class NNMRFDensity(TableDensity):
    r"""Markov random field: a density of numeric and categorical columns.

    With ``potentials="gaussian"``, the default, a hidden class variable :math:`k` joins all
    columns. Given the class, transformed numbers are jointly Gaussian, and categories are
    independent:

    .. math:: p(x) = \sum_k \alpha_k \, N(z; \mu_k, C_k) \prod_j \pi_{kj}(s_j)
        \prod_{i} |z_i'(x_i)|

    In tables with numbers and categories, some of the classes can be the combinations of the
    categories of some columns (a conditional Gaussian distribution). These classes have one
    covariance :math:`C`, and the effects of the categories on the means :math:`\mu_k` are additive,
    with shrunk interactions. The log-odds of the categories are then linear functions of :math:`z`.

    If held-out rows have heavy tails, each Gaussian is replaced by a nearly exact Student t
    distribution with :math:`\nu` degrees of freedom. It is a mixture of Gaussians, and its mean and
    covariance are those of the Gaussian:

    .. math:: \sum_m w_m \, N(z; \mu_k, c_m C_k), \qquad c_m \propto e^{-u_m}, \qquad
        w_m \propto \exp\big(\tfrac{\nu}{2} (u_m - e^{u_m})\big), \qquad \sum_m w_m c_m = 1

    The points :math:`u_m` are equidistant. Their number, about 5 to 30, increases with the number
    of columns and with the weight of the tails. If a row has missing numbers, the marginals of
    the Gaussians are used. Densities, conditional distributions and draws are those of this
    mixture. The log-likelihood of held-out rows selects :math:`\nu`, from 3 to 200, or Gaussians.
    If :math:`\nu` is small, means and covariances are also learned for such tails.

    Each numeric column has a monotone transform :math:`z_i`, learned from the data, with
    logarithmic tails, or with a support that ends at the bounds of the column. If several columns
    without bounds have heavy tails, these transforms are linear if held-out rows are then more
    likely, which is the case if extreme values of several columns are in the same rows. Bounds of
    given types end the support. Beyond detected bounds, new rows have a small probability: that of
    one training row, or the density decreases quickly. A value that repeats much more often than
    others, such as 0, has a point mass. Its state is a category :math:`s_j`, and a row with such a
    value has no :math:`z_i` in the Gaussian. The density is with respect to the counting measure
    for categories, and with respect to Lebesgue measure for numbers without a point mass. For a
    point mass, it is the probability divided by the unit of the column, or by 1 if the column is
    not rounded. The unit of whole or decimal numbers is their greatest common divisor. Rounded
    numbers and integers have the mean density of their cell, the interval of the numbers that are
    rounded to them. It is the probability of the cell divided by its width, so the densities of
    integers sum to one. Equidistant numbers, such as 0.5, 1.5 and 2.5 or rounded percentages of k
    out of 84, are rounded to their distance, and their density is the probability divided by the
    unit. Numbers between them have at most the probability of one training row. In tables with
    several rounded columns, this probability is a product of conditional probabilities given the
    rounded numbers before, which are treated as numbers with normal errors. Draws and quantiles of
    rounded numbers have these probabilities. If a column has no negative numbers, draws and
    quantiles below 0 are 0.

    With ``potentials="network"``, the potentials are small neural networks:

    .. math:: p(x) = \frac{1}{Z} \exp\Big(\sum_i s_i \tanh n_i(x_i)
        + \sum_{ij} s_{ij} \tanh n_{ij}(x_i, x_j) - q(x)\Big)

    Each column has a network :math:`n_i` with scale :math:`s_i`. Each edge of a graph of the
    columns has a network :math:`n_{ij}` with scale :math:`s_{ij}`. The quadratic term
    :math:`q(x) = \tfrac{1}{2} (x - m)^\top P (x - m)`, of the numeric columns only, is fixed before
    training. The networks are learned by maximum likelihood. Markov chains, guided by a mixture
    distribution, estimate the expectations under the model. Numeric columns are standardised.
    Densities are in the units of the columns.

    Parameters
    ----------
    potentials : {"gaussian", "network"} or instance, default="gaussian"
        Potentials of the model. A name selects an instance with default parameters. An instance has
        its own parameters, which ``set_params`` and grid searches name
        ``potentials__n_components``, ``potentials__graph``, ``potentials__learner__n_components``
        etc. With a name, they cannot be set.

        - "gaussian", :class:`~skmrf.GaussianPotentials`: Gaussians and tables of probabilities for
          each class of a hidden variable, learned by expectation-maximisation.
        - "network", :class:`~skmrf.NetworkPotentials`: neural networks.
    column_types : "auto", str, list of str, or dict, default="auto"
        Types of the columns: "continuous", "non-negative", "bounded", "integer", "ordinal",
        "categorical" or "boolean". "auto" detects the types. Booleans, text and categorical data
        types have categories. Whole numbers of an array are categorical if there are at most 20
        distinct values that look like codes, otherwise integers. These do not look like codes:
        counts, which have few rows with the largest numbers; negative and positive numbers that
        have few rows at both ends; numbers above 9 whose distinct values are more than half of the
        rows; and a scale of at least eight numbers whose order determines most of the relation to
        the other columns. In frames, whole numbers are integers unless there are at most two
        distinct values. A frame whose columns are all integers, or all floats, is treated like an
        array. pandas stores integers with missing entries as floats, so a column of floats with
        missing entries and whole numbers only counts as integers, unless another column of floats
        has whole numbers without missing entries. A str is the type of all columns, and a list has
        one type for each column. A dict has the types of some columns, by name or index; the other
        columns are detected.
    categories : "auto" or list of lists, default="auto"
        Categories of each categorical column. "auto" uses the categories that the data type of a
        frame's column declares, otherwise those seen during fit.
    random_state : int, RandomState, Generator or None, default=None
        Random numbers of training (initial values, held-out rows and Markov chains) and of the
        estimate of log Z. An int makes fits reproducible.
    verbose : int, default=0
        Amount of progress messages. 0: none. 1: a line every few seconds with the epoch, the last
        score in ``history_`` and the seconds that remain until ``max_iter``. 2: a line per epoch.
        With ``potentials="gaussian"``, the mixture is one step.

    Attributes
    ----------
    energy_ : NeuralEnergy
        Fitted model with ``potentials="network"``, of standardised numbers and of state codes. The
        state code of a category is its position in ``categories_``.
    mixture_ : Mixture
        Model with ``potentials="gaussian"``: a mixture of transformed numbers and state codes. Each
        scale of a Student t distribution is a component of its own, and the model is often the
        average of two mixtures. Therefore ``mixture_.n_components`` can be a multiple of the number
        of classes that "auto" selects. With
        ``potentials="network"``, a mixture that approximates the model. The Gaussian of the
        quadratic term is one of its components, with weight 0.05.
    edges_ : ndarray of shape (n_edges, 2)
        Pairs of column indices that share a network, the lower index first.
    column_types_ : list of str
        Type of each column.
    categories_ : list of ndarray
        Categories of each categorical column, in the order of the state codes.
    history_ : dict of lists
        Diagnostics of training: one list per quantity, with one entry per epoch. With
        ``potentials="gaussian"``, they belong to the last of the averaged mixtures. If draws impute
        rare patterns of missing entries, they belong to its last imputation.
        ``log_partition_bound`` estimates a lower bound of log Z in nats if the learner has
        ``entropy="joint"``. This estimate is some hundredths too high, because the bound is
        maximised at the same points at which it is computed.
    n_iter_ : int
        Number of epochs, or of iterations in ``history_`` with ``potentials="gaussian"``.
    converged_ : bool
        Whether training converged. With ``potentials="gaussian"``, whether
        expectation-maximisation of all averaged mixtures converged.
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

    S. L. Lauritzen and N. Wermuth, "Graphical models for associations between variables, some of
    which are qualitative and some quantitative", Annals of Statistics 17 (1989).

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

    def __init__(
        self,
        potentials="gaussian",
        *,
        column_types="auto",
        categories="auto",
        random_state=None,
        verbose=0,
    ):
        self.potentials = potentials
        self.column_types = column_types
        self.categories = categories
        self.random_state = random_state
        self.verbose = verbose

    @with_callbacks
    def fit(self, X, y=None, sample_weight=None):
        """Learn the potentials of the density.

        Parameters
        ----------
        X : array-like or frame of shape (n_samples, n_features)
            Training rows of numbers and categories. Missing entries are nan, None or NA. They are
            integrated out with ``potentials="gaussian"``. With networks they are imputed by draws
            from the mixture, given the observed entries of their row.
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
            a column without observed entries, if the graph has nodes that are no columns, or if
            ``potentials`` or one of its parameters is invalid.
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
        potentials = self._make_potentials()
        potentials._check()
        with unchanged_on_error(self):
            if isinstance(potentials, NetworkPotentials):
                vars(self).update(self._learn_networks(potentials, X, sample_weight, partial))
                return self
            fitted = fit_gaussians(self, potentials.n_components, X, sample_weight)
            for name in NETWORK_ATTRIBUTES:
                vars(self).pop(name, None)
            vars(self).update(fitted)
        return self

    def _learn_networks(self, networks, X, sample_weight, partial):
        """Train the networks, and return the fitted attributes."""
        parameters = TrainingParameters.of(networks, partial, random_state=self.random_state)
        learner = networks._make_learner(type(self).__name__)
        session = FitSession(self, parameters, X)
        rows = read_columns(self, X, reset=not session.is_resumed)
        weights = check_sample_weight(sample_weight, len(rows[0]))
        if weights is not None:
            rows, weights = [column[weights > 0] for column in rows], weights[weights > 0]
        columns = self._columns if session.is_resumed else self._learn_columns(X, rows)
        data = weighted_rows(Batch(columns.encode(rows)), weights)
        fixed = fixed_parameters(self, networks)
        if session.is_resumed:
            before = self._fixed_parameters
            check_same_model(networks, self.energy_, before, fixed, columns.names)
        else:
            columns, data = standardise(columns, data)
            rng = check_generator(self.random_state).spawn(1)[0]  # independent of training
            session.energy = initial_energy(networks, data, columns, rng)
        session.begin(data, columns)
        data, held_out = hold_out(data, parameters, session.rng, min_rows=MIN_ROWS_FOR_HOLD_OUT)
        settings = network_settings(networks, parameters, learner, session.energy, data, held_out)

        def attributes(state):
            fitted = session.attributes(state)
            return fitted | {
                "mixture_": defensive_mixture(learner, fitted["energy_"], state),
                "categories_": columns.categories,
                "column_types_": columns.types,
                "_columns": columns,
                "_fixed_parameters": fixed,
            }

        return attributes(loop.train(session, learner, data, settings, attributes))

    def _make_potentials(self):
        """Return the object with the parameters of the potentials."""
        return make_potentials(self.potentials, type(self).__name__)

    def _learn_columns(self, X, rows):
        names = column_names(self)
        return learn_columns(X, rows, names, self.column_types, self.categories)

    # Queries ------------------------------------------------------------------------------

    def score_samples(self, X):
        """Return the log-density of each row in nats, on the original scale of the columns.

        Parameters
        ----------
        X : array-like or frame of shape (n_samples, n_features)
            Rows of numbers and categories. Missing entries (nan, None or NA) are integrated out:
            by importance sampling from the mixture with ``density="mrf"`` of networks, otherwise
            exactly, except that coarsely rounded columns are integrated out approximately.
            Categories that were not seen during fit raise a ValueError. A whole number has the
            probability of one training row, with a warning, if the categories are detected and the
            smallest or the largest of them is rare.

        Returns
        -------
        ndarray of shape (n_samples,)
            Log-density of the observed entries of each row.
        """
        codes = self._encode(X)
        rows = self._columns.read(self, X)
        unseen = score_unseen(self._columns, rows)
        if self._is_gaussian:
            outside = score_outside(self._columns, rows) + score_grids(self._columns, rows)
            return log_densities(self.mixture_, self._columns, codes) + outside + unseen
        if self._find_density_kind() == "mixture":
            logs = self.mixture_.log_density(codes)
        else:
            log_partition = self.log_partition_
            proposal, seed = self._proposal(), self._seed
            logs = observed_log_potential(self.energy_, proposal, codes, log_partition, seed)
            logs -= log_partition
        return logs - self._columns.log_scale(codes) + unseen

    def _find_density_kind(self):
        """Return the distribution of a model with networks that is scored: "mixture" or "mrf"."""
        networks = self._make_potentials()
        if not isinstance(networks, NetworkPotentials):
            raise ValueError(
                "The model was fitted with network potentials, but potentials is now "
                f"{self.potentials!r}. Call fit again, or set potentials to NetworkPotentials(...)."
            )
        return check_choice("density", networks.density, DENSITIES)

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
        energy = None if self._find_density_kind() == "mixture" else self.energy_
        mixture = self.mixture_ if energy is None else self._proposal()
        return impute_rows(energy, mixture, codes, strategy, self._seed if rng is None else rng)

    @property
    def edges_(self):
        """Edges of the graph as pairs of column indices, shape (n_edges, 2)."""
        check_is_fitted(self)
        if self._is_gaussian:
            raise AttributeError('edges_ exists only after a fit with potentials="network".')
        return self.energy_.edges
