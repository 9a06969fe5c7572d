"""NNMRFDensity: Markov random fields of numbers and categories with neural potentials."""

import joblib
import numpy as np
from sklearn.base import clone
from sklearn.callback import with_callbacks
from sklearn.utils.validation import check_is_fitted

from ..._data.frames import column_names, read_columns
from ..._data.mixed import learn_columns, warn_degenerate
from ..._utils.batch import Batch
from ..._utils.log_weights import log_mean_exp, normalized_weights
from ..._utils.parameters import check_auto, check_choice, check_number, check_number_or
from ..._utils.randomness import check_generator
from ...energies import NeuralEnergy
from ...learners import BeliefLearner
from ...likelihood.neural import neural_log_partition
from ...training import AdaptiveRate
from .._base import unchanged_on_error
from .._density import EnergyEstimator
from .._rows import hold_out, weighted_rows
from .._session import FitSession
from .._training import TrainingParameters
from .graph import edges_of
from .initial_energy import initial_energy
from .scores import held_out_score

KEPT = "base", "prior_covariance", "shrinkage", "categorical_features", "categories"  # by resuming
FEWEST = 500  # rows of which some are held out
N_CANDIDATES = 100  # draws of a row, of which one is kept by its importance
PRIOR = 1.0  # precision of weights, against the log-likelihood of all rows
TAIL = 0.05  # share of the base in the mixture: beliefs have lighter tails than the model
RATES = {"adam": 0.03, "sgd": 0.1, "momentum": 0.03}
WINDOW, COSINE, N_HALVINGS = 200, 0.0, 3
ANNEALED = AdaptiveRate(window=200, cosine=1.0, n_halvings=1)  # done after 500 updates
RECENCY = 8.0  # of averaged iterates, which improve for as long as learning goes on
PLATEAU = 300  # updates without a better score, at least, before stopping early
MAX_UPDATES = 3000


class NNMRFDensity(EnergyEstimator):
    r"""Density of numbers and categories by a Markov random field with neural potentials.

    .. math:: p(x) = \frac{1}{Z} \exp\Big(\sum_i s_i \tanh n_i(x_i)
        + \sum_{ij} s_{ij} \tanh n_{ij}(x_i, x_j) - \tfrac{1}{2} (x - m)^\top P (x - m)\Big)

    over the edges of a graph of the columns, with a small network :math:`n` for every column and
    every edge. It is learned by maximum likelihood, with Markov chains and mixture beliefs for what
    the model expects. Numbers are standardised inside; densities are in the units of the columns.

    Parameters
    ----------
    graph : str, networkx.Graph or list of pairs, default="complete"
        Which columns share a network: "complete", "tree", "knn", "grid" or "empty". "tree" is the
        spanning tree of greatest correlations, "knn" joins every column with the five of greatest
        correlation, "grid" takes the columns for the pixels of a square. Pairs and nodes name
        columns, or give their positions. Complete graphs of more than some 60 columns are slow.
    learner : {"variational", "grid"} or instance, default="variational"
        :class:`~skmrf.learners.Variational`, or the exact gradient of at most three numbers,
        :class:`~skmrf.learners.Grid`.
    node_layers, edge_layers : tuple of int, default=(8, 8)
        Hidden SELU units of the networks, layer by layer.
    base : "gaussian" or float, default="gaussian"
        The quadratic term: that of the Gaussian with the covariances of the rows, of those that the
        graph joins; or this number times the sum of squares of standardised numbers. The paper's
        is 0.01.
    prior_covariance : array-like of shape (n_numbers, n_numbers), optional
        Towards which the covariance of ``base="gaussian"`` is shrunk, in the units of the columns;
        by default its own diagonal.
    shrinkage : "auto" or float, default="auto"
        How far, from 0 to 1; "auto" as predicts rows left out best. At least a share of about
        0.01 columns / rows.
    density : {"mixture", "mrf"}, default="mixture"
        What is scored and drawn: the beliefs of the learned model, a mixture that is normalised
        exactly, or the model itself, with an estimate of log Z (``log_partition_``).
    categorical_features : "from_dtype", None or array-like, default="from_dtype"
        Columns that hold categories: those of a frame's categorical type, none, or the ones given
        by names, indices or a mask.
    categories : "auto" or list of lists, default="auto"
        Categories of these columns; by default those that a frame's type declares, or else those
        seen in fit.
    optimizer : {"auto", "adam", "sgd", "momentum", "lbfgs"} or instance, default="auto"
        "auto" is Adam. "lbfgs" needs ``learner="grid"``.
    learning_rate : {"adaptive", "constant", "step", "inverse"}, float or schedule
        Default "adaptive": with held-out rows halved when the gradient is only noise, else halved
        at fixed updates.
    penalty : {"l2", "l1", "group-l1"}, default="l2"
        On weights of networks, not on biases and scales. Groups are networks.
    alpha : "auto" or float, default="auto"
        Strength of the penalty, against the mean log-likelihood in nats. "auto" is 1 divided by
        the number of rows: a normal prior of the weights with precision 1.
    batch_size : int, default=100
    max_iter : int, optional
        Epochs. By default at most 3000 updates with held-out rows, else 500.
    tol : float, default=1e-6
        Largest gradient entry at which L-BFGS stops.
    average : bool, default=True
        Average the iterates since the last change of the rate, the late ones more.
    early_stopping : bool or "auto", default="auto"
        Hold out rows, and keep the model of which ``density`` predicts them best. "auto" does so
        from 500 rows on.
    validation_fraction : float, default=0.1
    n_iter_no_change : int, default=5
        Epochs without a better score before stopping, and at least 300 updates.
    max_bytes : float, default=4 GiB
        Bound on the memory of the parameters while learning.
    warm_start : bool, default=False
        Go on from the previous fit.
    n_jobs : int, optional
        Has no influence; for the sake of a common interface.
    random_state : int, RandomState, Generator or None

    Attributes
    ----------
    energy_ : NeuralEnergy
        Of standardised numbers and positions of categories.
    mixture_ : Mixture
        Its beliefs, with the base as a component of weight 0.05 that has the model's tails.
    edges_ : ndarray of shape (n_edges, 2)
    categories_ : list of ndarray
        Of the columns that hold categories.
    history_ : dict of lists
        Diagnostics by epoch, among them ``log_partition_bound``: with ``entropy="joint"`` an
        estimate of a lower bound of log Z, some hundredths too high, as it is maximised at the
        points that it is computed from.
    n_iter_ : int
        Epochs.
    converged_ : bool
    log_partition_, log_partition_interval_, log_partition_method_
        log Z in nats, on standardised numbers: by a grid for up to three numbers, exactly where
        there are only categories, else by annealed importance sampling from the beliefs.
    n_features_in_, feature_names_in_

    See Also
    --------
    NNMRFClassifier
    sklearn.mixture.GaussianMixture, sklearn.neighbors.KernelDensity

    References
    ----------
    H. Xiong and N. Ruozzi, "General purpose MRF learning with neural network potentials", IJCAI
    2020, section 3.

    Examples
    --------
    A ring, which no Gaussian resembles:

    >>> import numpy as np
    >>> from skmrf import NNMRFDensity
    >>> rng = np.random.default_rng(0)
    >>> angle = rng.uniform(0, 2 * np.pi, 500)
    >>> X = np.stack([np.cos(angle), np.sin(angle)], axis=1) + 0.1 * rng.normal(size=(500, 2))
    >>> model = NNMRFDensity(density="mrf", random_state=0).fit(X)
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
        node_layers=(8, 8),
        edge_layers=(8, 8),
        base="gaussian",
        prior_covariance=None,
        shrinkage="auto",
        density="mixture",
        categorical_features="from_dtype",
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
    ):
        self.graph = graph
        self.learner = learner
        self.node_layers = node_layers
        self.edge_layers = edge_layers
        self.base = base
        self.prior_covariance = prior_covariance
        self.shrinkage = shrinkage
        self.density = density
        self.categorical_features = categorical_features
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

    @with_callbacks
    def fit(self, X, y=None, sample_weight=None):
        """Learn the networks.

        Parameters
        ----------
        X : array-like or frame of shape (n_samples, n_features)
            Numbers and categories. Missing entries, nan or None, are drawn from the beliefs given
            the rest of their row while learning.
        y : ignored
        sample_weight : array-like of shape (n_samples,), optional

        Returns
        -------
        self

        Raises
        ------
        ValueError
            Infinities, text that is not named in ``categorical_features``, a column without any
            entry, a graph that names other columns.
        """
        return self._fit(X, sample_weight)

    @with_callbacks
    def partial_fit(self, X, y=None, sample_weight=None):
        """One epoch over ``X``, going on from what was learned so far.

        The first call fixes scales, categories, the graph and the base.

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
            parameters, learner = self._check_parameters(partial), self._check_learner()
            fit = FitSession(self, parameters, X)
            rows = read_columns(self, X, reset=not fit.is_resumed)
            columns = self._columns if fit.is_resumed else self._learn_columns(X, rows)
            data = weighted_rows(Batch(columns.encode(rows)), sample_weight)
            if fit.is_resumed:
                self._check_same_model(columns)
            else:
                columns, data = _standardise(columns, data)
                rng = check_generator(self.random_state).spawn(1)[0]  # not those of training
                fit.energy = initial_energy(self, data, columns, rng)
            fit.begin(data, columns)
            data, held_out = hold_out(data, parameters, fit.rng, fewest=FEWEST)
            settings = self._settings(parameters, learner, fit.energy, data, held_out)
            kept = self._kept_parameters()

            def attributes(state):
                fitted = fit.attributes(state)
                return fitted | {
                    "mixture_": _mixture(learner, fitted["energy_"], state),
                    "categories_": columns.categories,
                    "_columns": columns,
                    "_kept": kept,
                }

            vars(self).update(attributes(fit.train(learner, data, settings, attributes)))
        return self

    def _check_all_parameters(self):
        """Raise an error if a parameter is wrong, before any row is looked at."""
        self._check_parameters()
        self._check_learner()

    def _check_parameters(self, partial=False):
        check_choice("density", self.density, ("mixture", "mrf"))
        for name in ("node_layers", "edge_layers"):
            _check_layers(name, getattr(self, name))
        check_number_or(("gaussian",), "base", self.base, low=0, open_low=True)
        check_number_or(("auto",), "alpha", self.alpha, low=0)
        check_number_or(("auto",), "shrinkage", self.shrinkage, low=0, high=1)
        if not isinstance(self.early_stopping, bool | np.bool_):
            check_auto("early_stopping", self.early_stopping)
        return TrainingParameters.of(self, partial)

    def _learn_columns(self, X, rows):
        given = self.categorical_features, self.categories
        return learn_columns(X, rows, column_names(self), *given)

    def _check_same_model(self, columns):
        """Raise a ValueError if training cannot continue because the model differs."""
        shape = self.energy_.shape
        kept = {"node_layers": shape.nodes, "edge_layers": shape.edges}
        changed = [k for k, layers in kept.items() if tuple(getattr(self, k)) != layers]
        by_rows = isinstance(self.graph, str) and self.graph in ("tree", "knn")
        if by_rows:
            changed += ["graph"] * (self._kept["graph"] != self.graph)
        else:
            edges = edges_of(self.graph, None, columns.names)
            changed += ["graph"] * (not np.array_equal(edges, self.energy_.edges))
        changed += [k for k in KEPT if joblib.hash(getattr(self, k)) != joblib.hash(self._kept[k])]
        if changed:
            raise ValueError(
                f"{changed[0]} differs from that of the fit to go on from; start anew with fit and "
                "warm_start=False."
            )

    def _kept_parameters(self):
        """Return the parameters that later fits can only continue with."""
        kept = {k: getattr(self, k) for k in KEPT}
        return kept | {"graph": self.graph if isinstance(self.graph, str) else None}

    def _settings(self, parameters, learner, energy, data, held_out):
        n = len(data.X)
        updates = -(-n // self.batch_size)
        settings = parameters.settings(
            learner,
            energy,
            data,
            alpha=PRIOR / n if self.alpha == "auto" else self.alpha,
            default_optimizer="adam",
            recency=RECENCY,
            patience=max(self.n_iter_no_change, -(-PLATEAU // updates)),
            min_updates=0,
            max_updates=MAX_UPDATES,
            score=held_out_score(learner, held_out, self.density),
        )
        if parameters.has_default_rate(settings.optimizer):
            settings.rate = _default_rate(settings.optimizer, learner, held_out)
        return settings

    # Queries ------------------------------------------------------------------------------

    def score_samples(self, X):
        """Log density of rows in nats and the units of the columns.

        Parameters
        ----------
        X : array-like or frame of shape (n_samples, n_features)
            Missing entries are integrated out: exactly with ``density="mixture"``, by importance
            sampling from the beliefs with ``density="mrf"``.

        Returns
        -------
        ndarray of shape (n_samples,)
        """
        codes = self._encode(X)
        check_choice("density", self.density, ("mixture", "mrf"))
        if self.density == "mixture":
            logs = self.mixture_.log_density(codes)
        else:
            logs = self._log_model(codes) - self.log_partition_
        return logs - self._columns.log_volume(codes)

    def sample(self, n_samples=1, *, given=None, random_state=None):
        """Draw rows.

        Parameters
        ----------
        n_samples : int, default=1
        given : dict, or array-like or frame of one or n_samples rows, optional
            What is observed: ``{column: value}``, or rows with nan or None elsewhere.
        random_state : int, RandomState, Generator or None

        Returns
        -------
        ndarray of shape (n_samples, n_features)
            Independent draws of the mixture; with ``density="mrf"`` one of 100 such draws each, by
            its importance, which is about a draw of the model where the two are alike.
        """
        return super().sample(n_samples, given=given, random_state=random_state)

    def _log_model(self, codes):
        """Unnormalised log-probability, of rows with missing entries by importance sampling."""
        complete = ~np.isnan(codes).any(axis=1)
        out = np.empty(len(codes))
        out[complete] = self.energy_.log_potential(codes[complete])
        proposal = self._proposal()
        out[np.isnan(codes).all(axis=1)] = self.log_partition_
        for r in np.flatnonzero(~complete & ~np.isnan(codes).all(axis=1)):
            _, logs = _candidates(self.energy_, proposal, codes[r], self._rng())
            seen = proposal.log_density(codes[r : r + 1])[0]
            out[r] = log_mean_exp(logs) + seen
        return out

    def _proposal(self):
        energy = self.energy_
        return self.mixture_.defended(energy.mean, energy.covariance)

    def _compute_log_partition(self):
        return neural_log_partition(self.energy_, self.mixture_, random_state=self._seed)

    def _draw(self, codes, rng):
        check_choice("density", self.density, ("mixture", "mrf"))
        if self.density == "mixture":
            return self.mixture_.fill(codes, rng)
        proposal = self._proposal()
        out = np.empty_like(codes)
        for r, row in enumerate(codes):
            X, logs = _candidates(self.energy_, proposal, row, rng)
            out[r] = X[np.argmax(logs + rng.gumbel(size=len(logs)))]
        return out

    @property
    def edges_(self):
        """Pairs of columns that share a network."""
        check_is_fitted(self)
        return self.energy_.edges

    @property
    def _encoder(self):
        return self._columns

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = True
        tags.input_tags.categorical = True
        return tags


def _check_layers(name, layers):
    """Hidden units of networks: at least one layer, of at least one unit each."""
    if not isinstance(layers, tuple | list) or not layers:
        raise ValueError(
            f"{name} must be a tuple of the units of every hidden layer, at least one; got "
            f"{layers!r}."
        )
    for width in layers:
        check_number(name, width, low=1, integer=True)


def _standardise(columns, data):
    """Return the columns and the rows, with continuous columns on the scale of weighted rows."""
    if data.log_weights is not None:
        weights = normalized_weights(data.log_weights, len(data.X))
        X, columns = columns.standardised(data.X, weights)
        data = data._replace(X=X)
    warn_degenerate(data.X, columns.numbers, columns.names)
    return columns, data


def _default_rate(optimizer, learner, held_out):
    first = RATES.get(type(optimizer).__name__.lower(), 0.03) * learner.pace
    if held_out is None:
        return clone(ANNEALED).set_params(rate=first)
    return AdaptiveRate(first, WINDOW, COSINE, N_HALVINGS)


def _mixture(learner, energy, state):
    beliefs = learner.final_beliefs(energy, state.learner)
    return beliefs.defended(energy.mean, energy.covariance, TAIL)


def _candidates(energy, proposal, row, rng):
    """Draws of what a row misses, and their log importance."""
    X = proposal.fill(np.tile(row, (N_CANDIDATES, 1)), rng)
    return X, energy.log_potential(X) - proposal.log_density(X)
