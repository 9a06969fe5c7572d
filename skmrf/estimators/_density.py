"""Base classes of density estimators: log Z, samples, scores, imputation and marginals."""

import warnings

import numpy as np
from sklearn.base import DensityMixin
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils.validation import check_is_fitted

from .._data.frame_types import frame_index
from .._jax import open_device
from .._utils.codes import MISSING, STATE
from .._utils.parallel import parallel_jobs
from .._utils.parameters import check_generator, check_number, show_list
from .._utils.rows import is_mapped, row_blocks
from .._utils.warn import LogPartitionWarning, warn_caller
from ..energies import DiscreteEnergy
from ..exact import expectations
from ..exact.completion import are_layer_sums_quick
from ..inference import row_queries
from ..likelihood import ais, log_partition_bounds
from ..likelihood.bounds import exact_fits
from ..likelihood.intervals import is_below, raise_to_bound, warn_wide
from ..likelihood.ladder import burn_in, combine, ladder_log_partition
from ..samplers import gibbs_queries
from ..samplers.enumerated_states import mode_bound
from ..samplers.ladder import count_round_trips, draw
from ..samplers.traces import diagnose_chains
from ._base import LearnedEstimator

N_OTHERS = 128  # samples with which the chains of the fit are compared
MAX_MISSED, MAX_R_HAT = 0.1, 1.2
TARGET_WIDTHS = 0.02, 0.5  # nats, smallest and largest


class EnergyEstimator(DensityMixin, LearnedEstimator):
    """Base class of density estimators, with methods for log Z, samples and scores.

    A subclass has the method :meth:`score_samples`, and the attribute ``_encoder`` for queries: an
    object with the methods ``read(estimator, X)``, ``encode(rows)``, ``encode_row(row)`` and
    ``decode(codes)``, such as :class:`~skmrf._data.categories.CategoryEncoder`.

    The variable ``codes`` is an array of encoded rows: state codes, with MISSING (or nan) for
    missing entries.
    """

    @property
    def _device(self):
        """Device of queries: the parameter ``device`` if the estimator has it."""
        return "cpu"

    def _draw(self, codes, rng):
        """Draw the missing entries of encoded rows given the observed entries."""
        options = {"max_bytes": self.max_bytes, "n_jobs": self.n_jobs, "device": self._device}
        return row_queries.latent_samples(self.energy_, codes, rng, **options)

    def _compute_log_partition(self):
        """Return log Z of the model as a :class:`~skmrf._utils.results.LogPartition`.

        Reverse annealing chains start at training rows or at states of the ladder, so that the
        chains cover the modes of the data. If this does not converge, annealing also starts at the
        Chow-Liu forest of the training rows.
        """
        given = {"start": self._reverse_starts(), "target_width": self._target_width()}
        given |= {"random_state": self._seed, "n_jobs": self.n_jobs, "device": self._device}
        forest = vars(self).get("_forest")
        if forest is None:
            return log_partition_bounds(self.energy_, max_bytes=self.max_bytes, **given)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # the second run warns
            found = log_partition_bounds(self.energy_, max_bytes=self.max_bytes, **given)
        if not found.converged:
            other = raise_to_bound(ais(self.energy_, reference=forest, **given), found.lower)
            found = max(found, other, key=lambda z: (z.converged, z.lower - z.upper))
        return found

    def _target_width(self):
        """Return the width of the interval of log Z at which annealing ends, or None.

        It is the standard error of the mean log-likelihood of as many rows as the training rows. A
        narrower interval would hardly improve comparisons of models.
        """
        starts = vars(self).get("_starts")
        if starts is None:
            return None
        with np.errstate(invalid="ignore"):
            error = np.std(self.energy_.log_marginal(starts)) / np.sqrt(self._n_rows)
        return float(np.clip(error, *TARGET_WIDTHS)) if np.isfinite(error) else None

    def _reverse_starts(self):
        """Return the states at which reverse annealing chains start, or None.

        They are states of the ladder's last model, or training rows if there is no ladder. An exact
        log Z needs neither, and the ladder is not computed.
        """
        if not self._has_ladder:
            return vars(self).get("_starts")
        exact = expectations.quick_exact_model(self.energy_, max_bytes=self.max_bytes)
        return self.ladder_.states[-1] if exact is None else None

    def _encode(self, X):
        """Return the rows of ``X`` in the encoding of the fitted model."""
        check_is_fitted(self)
        encoder = self._encoder
        return encoder.encode(encoder.read(self, X))

    def _rng(self):
        """Return a new random generator with the seed of the fit, for reproducible results."""
        return np.random.default_rng(self._seed)

    def _log_partition(self):
        check_is_fitted(self)
        if "log_partition" not in self._cache:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", LogPartitionWarning)  # warn_wide replaces it
                result = self._compute_log_partition()
            if result.method == "ais" and self._has_ladder:
                with self._parallel():
                    estimate = ladder_log_partition(self.ladder_, self._rng())
                result = combine(result, estimate.result)
            if result.method in ("ais", "ladder") and isinstance(self.energy_, DiscreteEnergy):
                result = self._include_modes(result)
            self._cache["log_partition"] = result
            if not result.converged:
                warn_wide(result)
        return self._cache["log_partition"]

    def _include_modes(self, result):
        """Raise log Z to the lower bound of the modes; warn if the interval excludes the bound."""
        bound = mode_bound(self.energy_, self._rng(), open_device(self._device))
        if is_below(result, bound):
            warn_caller(
                f"log Z is at least {bound:.6g}, but its estimate is {result.value:.6g}: the model "
                "has modes far from the training rows, so log-likelihoods are lower than they "
                "seem. Train with a larger alpha, or with more chains or epochs."
            )
        return raise_to_bound(result, bound)

    @property
    def _has_ladder(self):
        return vars(self).get("_ladder") is not None

    def _parallel(self):
        """Return a context in which blocks of Markov chains use ``n_jobs`` threads."""
        return parallel_jobs(self.n_jobs)

    def _draws_exactly(self):
        """Return whether samples without given entries are independent draws."""
        return are_layer_sums_quick(self.energy_, self._given_codes(None), self.max_bytes)

    @property
    def ladder_(self):
        """Ladder of ``learner="ptt"``: models of earlier steps, whose chains swap states.

        The last rung is ``energy_``. The rungs and chains are adapted to it at the first access.
        :meth:`sample` and ``log_partition_`` use the ladder if no exact method is feasible.
        """
        check_is_fitted(self)
        if not self._has_ladder:
            raise AttributeError(
                'ladder_ exists only after a fit with learner="ptt", and not if BoltzmannMachine '
                "has kept a short fit."
            )
        if "ladder" not in self._cache:
            saved = self._ladder
            ladder = saved.with_last(self.energy_, saved.states[-1])
            with self._parallel():
                self._cache["ladder"] = burn_in(ladder, self._rng()).compact()
        return self._cache["ladder"]

    @property
    def equilibrium_(self):
        """Diagnostics of the Markov chains of the fit, a dict computed at the first access.

        The chains are compared with other samples of the fitted model: of ``ladder_``, or of
        annealed chains. They exist for learners with unweighted Markov chains, such as "pcd" and
        "ptt", but not if :class:`BoltzmannMachine` has kept a short fit, because the chains of
        training belong to another model. If the chains differ from the other samples, a warning
        names a remedy.

        - "autocorrelation_time": integrated autocorrelation time of the log-probability, in sweeps.
        - "r_hat": potential scale reduction of chains from both kinds of starts; near 1 if they
          agree.
        - "missed": smallest share of the probability by which both kinds of samples differ.
        - "round_trips": round trips along ``ladder_`` per chain and 1000 sweeps; nan without it.
        """
        check_is_fitted(self)
        if vars(self).get("_chains") is None:
            raise AttributeError(
                "equilibrium_ exists only after a fit by a learner with chains, and not if "
                "BoltzmannMachine has kept a short fit."
            )
        if "equilibrium" not in self._cache:
            with self._parallel():
                self._cache["equilibrium"] = self._diagnose()
            _warn_no_equilibrium(self._cache["equilibrium"], self._has_ladder)
        return self._cache["equilibrium"]

    def _diagnose(self):
        rng, trips = self._rng(), np.nan
        if self._has_ladder:
            others, trips = draw(self.ladder_, N_OTHERS, rng), count_round_trips(self.ladder_, rng)
        else:
            unknown = np.full((N_OTHERS, self._chains.shape[1]), MISSING, dtype=STATE)
            others = gibbs_queries.draw_missing(self.energy_, unknown, rng, device=self._device)
        return diagnose_chains(self.energy_, self._chains, others, rng) | {"round_trips": trips}

    @property
    def log_partition_(self):
        """Logarithm log Z of the partition function in nats, computed at the first access."""
        return self._log_partition().value

    @property
    def log_partition_interval_(self):
        """Lower and upper limit of log Z in nats; both limits are equal if log Z is exact.

        The error of log Z is the same for all rows. Add ``log_partition_ - upper`` or
        ``log_partition_ - lower`` to a log-likelihood of :meth:`score_samples` or :meth:`score` to
        get its lower or upper limit. An estimate of log Z tends to be too low, which makes
        log-likelihoods too high. Report the lower limit together with the score. Reverse chains of
        annealed importance sampling start at the last states of the forward chains, and at up to
        512 training rows or at states of ``ladder_``. The upper limit is the larger one of both.
        The lower limit is at least the log of the sum over states that simulated annealing finds.
        If this sum is larger than the estimate, there is no upper limit, and a warning says so.
        """
        result = self._log_partition()
        return result.lower, result.upper

    @property
    def log_partition_method_(self):
        """Method that computed log Z: "exact", "grid", "ais" or "ladder".

        "ais" is annealed importance sampling, "ladder" is bridge sampling along ``ladder_``.
        """
        return self._log_partition().method

    def sample(self, n_samples=1, *, given=None, random_state=None):
        """Draw samples of the model, also with given values of some columns.

        Parameters
        ----------
        n_samples : int, default=1
            Number of rows to draw.
        given : dict, or array-like or frame of one or n_samples rows, optional
            Observed entries: ``{column: value}``, or rows with nan or None for the entries to draw.
            By default all entries are drawn.
        random_state : int, RandomState, Generator or None, default=None
            Random numbers of the draws. An int makes the result reproducible.

        Returns
        -------
        ndarray or frame of shape (n_samples, n_features)
            A frame if the training rows were a frame, with the data types of its columns.
            Independent samples if exact inference fits in memory and takes at most about a minute.
            For an RBM, this is a sum over the states of the smaller layer. With hidden units, rows
            with at most 10 entries to draw are also exact. Otherwise, the states of Gibbs chains
            after 1000 sweeps. Half of these sweeps are tempered; then the chains of equal rows are
            resampled by their weights. The chains approach the distribution as they mix. After a
            fit with ``learner="ptt"``, samples without ``given`` are then states of the chains of
            ``ladder_``.
        """
        check_is_fitted(self)
        check_number("n_samples", n_samples, low=1, integer=True)
        codes = self._given_codes(given)
        if len(codes) not in (1, n_samples):
            raise ValueError(
                f"given has {len(codes)} rows; give one row, or n_samples={n_samples} rows."
            )
        if len(codes) == 1:
            codes = np.repeat(codes, n_samples, axis=0)
        rng = check_generator(random_state)
        if given is None and self._has_ladder and not self._draws_exactly():
            with self._parallel():
                codes = draw(self.ladder_, n_samples, rng)
        else:
            codes = self._draw(codes, rng)
        rows = self._with_given(self._encoder.decode(codes), given)
        has_index = not isinstance(given, dict) and np.shape(given)[:1] == (n_samples,)
        return self._to_frame(rows, given if has_index else None)

    def _given_codes(self, given):
        if given is not None and not isinstance(given, dict):
            if isinstance(given, str) or np.ndim(given) < 2:
                raise ValueError(
                    "given must be a dict {column: value}, or a two-dimensional table with nan for "
                    f"the entries to draw; got {given!r}."
                )
            return self._encode(given)
        return self._encoder.encode_row(self._given_row(given or {}))

    def _given_row(self, given):
        """Return a row of shape (1, n_features) with the values of a dict, and None elsewhere."""
        names = self._column_names()
        row = np.full((1, len(names)), None, dtype=object)
        for column, value in given.items():
            if column not in names:
                raise ValueError(
                    f"given has {column!r}, which is not a column; the {len(names)} columns are "
                    f"{show_list(names)}."
                )
            if not isinstance(value, tuple) and np.ndim(value):  # a tuple may be a category
                raise ValueError(
                    f"given must have one value for each column; got {value!r} for {column!r}. To "
                    "draw rows with different values, give rows with nan for the entries to draw."
                )
            row[0, names.index(column)] = value
        return row

    def _with_given(self, rows, given):
        """Return drawn rows with the given values; codes of categories already are the values."""
        return rows

    def score(self, X, y=None):
        """Return the mean log-likelihood of the rows: the mean of :meth:`score_samples`.

        Parameters
        ----------
        X : array-like or frame of shape (n_samples, n_features)
            Rows to score.
        y : ignored
            Not used.

        Returns
        -------
        float
            Mean log-likelihood of a row, in nats.
        """
        return float(np.mean(self.score_samples(X)))


def _warn_no_equilibrium(diagnosis, has_ladder):
    """Warn if the chains of a fit differ from other samples of the model."""
    if diagnosis["missed"] <= MAX_MISSED and diagnosis["r_hat"] <= MAX_R_HAT:
        return
    remedy = "a larger alpha" if has_ladder else 'learner="ptt"'
    warn_caller(
        "The Markov chains of the fit do not have the distribution of the fitted model: at least "
        f"{diagnosis['missed']:.0%} of the probability differs, and R-hat is "
        f"{diagnosis['r_hat']:.3g}. Fit with {remedy}.",
        ConvergenceWarning,
    )


GRAPH_QUERIES = {
    "log_partitions": row_queries.row_log_partitions,
    "marginals": row_queries.row_marginals,
    "modes": row_queries.row_modes,
}
LATENT_QUERIES = {
    "log_partitions": row_queries.latent_log_partitions,
    "marginals": row_queries.latent_marginals,
    "modes": row_queries.latent_modes,
}


class VisibleEstimator(EnergyEstimator):
    """Base class of estimators of discrete models whose data can have missing entries."""

    @property
    def _graph(self):
        """The fitted model as a factor graph."""
        if "graph" not in self._cache:
            self._cache["graph"] = self.energy_.factor_graph()
        return self._cache["graph"]

    def _row_query(self, name, codes):
        """Return the result of a query for each row, with the latent variables summed out."""
        if self.energy_.has_latent:
            return LATENT_QUERIES[name](self.energy_.astype(float), codes, rng=self._rng())
        options = {"max_bytes": self.max_bytes, "rng": self._rng()}
        return GRAPH_QUERIES[name](self._graph, codes, **options)

    def _query_blocks(self, query, X):
        """Return the results of a query for all rows; those of a memory map are read in blocks."""
        check_is_fitted(self)
        if not is_mapped(X) or X.ndim != 2:
            return query(X)
        out = np.zeros(0)
        for rows in row_blocks(X):
            part = query(np.array(X[rows]))
            out = out if len(out) else np.empty((len(X), *part.shape[1:]), dtype=part.dtype)
            out[rows] = part
        return out

    def score_samples(self, X):
        """Return the log-likelihood of the observed entries of each row, in nats.

        Parameters
        ----------
        X : array-like or frame of shape (n_samples, n_features)
            Rows to score. Missing entries (nan, also None or NA in categorical columns) are summed
            out.

        Returns
        -------
        ndarray of shape (n_samples,)
            Normalised log-likelihoods ``log p(observed entries)``. With hidden units, rows with
            more than 10 missing entries are estimates of annealed importance sampling, without a
            standard error. A warning says so if they are uncertain.
        """

        def sum_rows(X):
            return self._row_query("log_partitions", self._encode(X))

        log_z = self.log_partition_
        if log_z == -np.inf:
            raise ValueError(
                "log Z is -inf, because no state of positive probability exists or was found. Then "
                "log-likelihoods are undefined. Replace zero potentials by small positive ones."
            )
        return self._query_blocks(sum_rows, X) - log_z

    def predict(self, X):
        """Impute missing entries by their jointly most probable values given the observed entries.

        Parameters
        ----------
        X : array-like or frame of shape (n_samples, n_features)
            Rows with missing entries (nan, also None or NA in categorical columns).

        Returns
        -------
        ndarray or frame of shape (n_samples, n_features)
            Complete rows of categories, or of the two states of a two-state model. They are a frame
            with the columns' data types if the training rows were a frame. The data type of an
            array is numeric if all columns are, and if it does not round large integers.
        """

        def impute_rows(X):
            return self._encoder.decode(self._impute(self._encode(X), "mode"))

        return self._to_frame(self._query_blocks(impute_rows, X), X)

    def marginals(self, X):
        """Return the marginals of each column given the observed entries of each row.

        Parameters
        ----------
        X : array-like or frame of shape (n_samples, n_features)
            Rows with missing entries (nan, also None or NA in categorical columns).

        Returns
        -------
        list of ndarray or frames of shape (n_samples, n_categories)
            Probabilities of the categories, one array per column of ``X``. They are frames, whose
            columns are named by the categories, if the training rows were a frame. An observed
            entry has probability 1 for its category. In two-state models the lower state is the
            first category.
        """
        tables = self._row_query("marginals", self._encode(X))
        frame_type = vars(self).get("_frame_type")
        if frame_type is None:
            return tables
        index, build = frame_index(X), frame_type.build_probabilities
        known = self._encoder.state_names
        return [build(p, c, index) for p, c in zip(tables, known, strict=True)]

    def _impute(self, codes, strategy, rng=None):
        """Return encoded rows whose missing entries are imputed.

        Parameters
        ----------
        codes : ndarray of shape (n_samples, n_features)
            Encoded rows.
        strategy : {"mode", "marginal", "sample"}
            Joint mode, most probable category of each entry, or a random draw.
        rng : Generator, optional
            Random numbers of the draws.

        Returns
        -------
        ndarray of shape (n_samples, n_features)
            Complete rows.
        """
        if strategy == "sample":
            return self._draw(codes, rng)
        if strategy == "mode":
            return self._row_query("modes", codes)
        tables = self._row_query("marginals", codes)
        return np.stack([p.argmax(axis=1) for p in tables], axis=1).astype(codes.dtype)

    def _draws_exactly(self):
        """Return whether samples without given entries are independent draws."""
        if self.energy_.has_latent:
            return super()._draws_exactly()
        return exact_fits(self._graph.layout, max_bytes=self.max_bytes)

    def _draw(self, codes, rng):
        if self.energy_.has_latent:
            return super()._draw(codes, rng)
        options = {"max_bytes": self.max_bytes, "n_jobs": self.n_jobs, "device": self._device}
        return row_queries.row_samples(self._graph, codes, rng, **options)

    def __sklearn_tags__(self):
        """Return the scikit-learn tags of the estimator."""
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = True
        return tags
