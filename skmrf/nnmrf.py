"""NNMRFDensity: Markov random fields of numbers and categories with neural-network potentials."""

import numpy as np
from sklearn.callback import with_callbacks
from sklearn.utils.validation import check_is_fitted, validate_data

from ._encoding import as_columns
from ._estimator import EnergyEstimator
from ._graphs import edges_of, precision_on_graph, shrunk_covariance
from ._mixed import categorical_mask, find_columns, warn_degenerate
from ._types import Batch, logsumexp, normalized_weights
from ._validation import check_choice, check_generator, check_number
from .energies import NeuralEnergy
from .learners import CONTINUOUS_LEARNERS
from .learners.clusters import normal_beliefs
from .learning import AdaptiveRate
from .likelihood import neural_log_partition
from .messages.free_energy import Rule, infer

LEAST_VARIANCE = 1e-4  # of the base along any number, in units of the data
FEWEST = 50  # rows of which some are held out
N_CANDIDATES = 100  # draws of a row, of which one is kept by its importance
RATES = {"adam": 0.03, "sgd": 0.1, "momentum": 0.03}
WINDOW, COSINE, N_HALVINGS = 200, 0.0, 3
RECENCY = 8.0
PLATEAU = 300  # updates without a better score, at least, before stopping early
MAX_UPDATES = 3000


class NNMRFDensity(EnergyEstimator):
    def __init__(
        self,
        graph="complete",
        learner="variational",
        *,
        node_layers=(8, 8),
        edge_layers=(8, 8),
        base="gaussian",
        prior_covariance=None,
        density="mixture",
        categorical_features="from_dtype",
        categories="auto",
        optimizer="auto",
        learning_rate="adaptive",
        penalty="l2",
        alpha=0.0,
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
        return self._learn(X, sample_weight)

    @with_callbacks
    def partial_fit(self, X, y=None, sample_weight=None):
        return self._learn(X, sample_weight, partial=True)

    # Queries ------------------------------------------------------------------------------

    def score_samples(self, X):
        codes = self._encode(X)
        if self.density == "mixture":
            logs = self.mixture_.log_density(codes)
        else:
            logs = self._log_model(codes) - self.log_partition_
        return logs - self._columns.log_volume(codes)

    def _log_model(self, codes):
        """Unnormalised log-probability, of rows with missing entries by importance sampling."""
        complete = ~np.isnan(codes).any(axis=1)
        out = np.empty(len(codes))
        out[complete] = self.energy_.log_potential(codes[complete])
        rng, proposal = self._rng(), self._proposal()
        for r in np.flatnonzero(~complete):
            _, logs = _candidates(self.energy_, proposal, codes[r], rng)
            seen = proposal.log_density(codes[r : r + 1])[0]
            out[r] = logsumexp(logs) - np.log(len(logs)) + seen
        return out

    def _proposal(self):
        energy = self.energy_
        return self.mixture_.defended(energy.mean, energy.covariance)

    def _log_partition(self):
        check_is_fitted(self)
        if "log_partition" not in self._cache:
            self._cache["log_partition"] = neural_log_partition(
                self.energy_, self.mixture_, random_state=self._seed
            )
        return self._cache["log_partition"]

    def _draw(self, codes, rng):
        if self.density == "mixture":
            return self.mixture_.fill(codes, rng)
        proposal = self._proposal()
        out = np.empty_like(codes)
        for r, row in enumerate(codes):
            X, logs = _candidates(self.energy_, proposal, row, rng)
            out[r] = X[np.argmax(logs + rng.gumbel(size=len(logs)))]
        return out

    # What LearnedEstimator asks for -------------------------------------------------------

    def _learners(self):
        return CONTINUOUS_LEARNERS

    def _check_parameters(self):
        check_choice("density", self.density, ("mixture", "mrf"))
        for name in ("node_layers", "edge_layers"):
            layers = getattr(self, name)
            if not len(layers):
                raise ValueError(f"{name} must name the units of at least one hidden layer.")
            for width in layers:
                check_number(name, width, low=1, integer=True)
        if self.base != "gaussian":
            check_number("base", self.base, low=0, open_low=True)
        if not isinstance(self.early_stopping, (bool, np.bool_)):
            check_choice("early_stopping", self.early_stopping, ("auto",))
        return super()._check_parameters()

    def _encode_training(self, X, y, resume):
        columns = as_columns(X)
        validate_data(self, X, reset=not resume, skip_check_array=True)
        self.n_features_in_ = len(columns)
        if resume:
            found = self._columns
        else:
            names = self._column_names()
            mask = categorical_mask(self.categorical_features, X, names)
            found = find_columns(columns, names, mask, self.categories)
        return Batch(found.encode(columns)), found

    def _prepare(self, data, decoding, resume):
        if not resume:
            warn_degenerate(data.X, decoding.numbers, decoding.names)
        return data, decoding

    def _initial_energy(self, data, decoding):
        n = data.X.shape[1]
        weights = normalized_weights(data.log_weights, len(data.X))
        X = np.where(np.isnan(data.X), 0.0, data.X)
        numbers = decoding.numbers
        edges = edges_of(self.graph, _correlation(X, weights), decoding.names)
        slots = int(max(decoding.n_states.max(initial=1), 1))
        self._check_memory(
            n * slots * self.node_layers[0] + len(edges) * 2 * slots * self.edge_layers[0],
            "first weights of networks",
            'Give a sparser graph (such as "tree" or "knn"), or raise max_bytes.',
        )
        mean, precision = self._base(X[:, numbers], weights, edges, decoding)
        rng = check_generator(self.random_state).spawn(1)[0]  # not the numbers that learning draws
        return NeuralEnergy.random(
            decoding.n_states,
            edges,
            node_layers=tuple(self.node_layers),
            edge_layers=tuple(self.edge_layers),
            mean=mean,
            precision=precision,
            dtype=np.float32,
            random_state=rng,
        )

    def _base(self, X, weights, edges, columns):
        """Mean and precision of the quadratic term."""
        m = X.shape[1]
        if self.base != "gaussian":
            return np.zeros(m), 2.0 * self.base * np.eye(m)
        target = np.diag((weights @ (X - weights @ X) ** 2))
        if self.prior_covariance is not None:
            scale = columns.scale
            target = np.asarray(self.prior_covariance) / scale / scale[:, None]
        target = target + LEAST_VARIANCE * np.eye(m)
        mean, covariance = shrunk_covariance(X, weights, target)
        covariance = covariance + LEAST_VARIANCE * np.eye(m)
        place = np.full(len(columns.names), -1)
        place[columns.numbers] = np.arange(m)
        among = place[edges]
        among = among[(among >= 0).all(axis=1)]
        return mean, precision_on_graph(covariance, among)

    def _split(self, data, rng, partial):
        few = len(data.X) < FEWEST
        if self.early_stopping == "auto" and (few or self.optimizer == "lbfgs"):
            return data, None
        return super()._split(data, rng, partial)

    def _settings(self, learner, energy, data, held_out, max_iter):
        settings = super()._settings(learner, energy, data, held_out, max_iter)
        updates = -(-len(data.X) // self.batch_size)
        settings.recency = RECENCY
        settings.patience = max(self.n_iter_no_change, -(-PLATEAU // updates))
        settings.max_updates = MAX_UPDATES
        if self.learning_rate == "adaptive" and settings.optimizer is not None:
            name = type(settings.optimizer).__name__.lower()
            settings.rate = AdaptiveRate(RATES.get(name, 0.01), WINDOW, COSINE, N_HALVINGS)
        return settings

    _auto_optimizer = "adam"

    def _held_out_score(self, energy, held_out):
        weights = normalized_weights(held_out.log_weights, len(held_out.X))

        base = normal_beliefs(energy)

        def score(energy, state):
            beliefs = state.learner.mixture if state.learner.inferred else base
            return float(weights @ beliefs.log_density(held_out.X))

        return score

    def _summary(self, state, decoding, seed):
        fitted = super()._summary(state, decoding, seed)
        rule = getattr(self._check_learner(), "rule", None) or Rule()
        found = infer(fitted["energy_"], state.learner.mixture, rule)
        return fitted | {"mixture_": found.mixture}

    def _attributes(self, decoding):
        return {"_columns": decoding, "categories_": decoding.categories}

    # Rows ---------------------------------------------------------------------------------

    def _encode(self, X):
        check_is_fitted(self)
        columns = as_columns(X)
        validate_data(self, X, reset=False, skip_check_array=True)
        if len(columns) != self.n_features_in_:
            raise ValueError(
                f"X has {len(columns)} features, but {type(self).__name__} is expecting "
                f"{self.n_features_in_} features as input."
            )
        return self._columns.encode(columns)

    def _encode_given(self, row):
        return self._columns.encode(list(row.T))

    def _decode(self, codes):
        return self._columns.decode(codes)

    def _given_codes(self, given):
        if given is None:
            return np.full((1, self.n_features_in_), np.nan)
        return super()._given_codes(given)

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = True
        tags.input_tags.categorical = True
        return tags


def _correlation(X, weights):
    """Of columns; states count as numbers."""
    centred = X - weights @ X
    covariance = (weights[:, None] * centred).T @ centred
    deviation = np.sqrt(np.maximum(np.diag(covariance), 1e-12))
    return covariance / deviation / deviation[:, None]


def _candidates(energy, proposal, row, rng):
    """Draws of what a row misses, and their log importance."""
    X = proposal.fill(np.tile(row, (N_CANDIDATES, 1)), rng)
    return X, energy.log_potential(X) - proposal.log_density(X)
