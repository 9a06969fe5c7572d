"""What all estimators of a density share besides learning it: log Z, draws and scores."""

import warnings

import numpy as np
from sklearn.base import DensityMixin
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils.validation import check_is_fitted

from .._utils.parameters import check_number
from .._utils.randomness import check_generator
from .._utils.warn import warn_caller
from ._base import LearnedEstimator

WIDE = r"The interval of log Z .* nats wide"  # of warnings


class EnergyEstimator(DensityMixin, LearnedEstimator):
    """Density of rows whose energy is learned.

    A subclass has :meth:`score_samples` and three things that queries need:

    - ``_encoder``, a value with ``read(estimator, X)``, ``encode(rows)``, ``encode_row(row)`` and
      ``decode(codes)``, such as :class:`~skmrf._data.categories.CategoryEncoder`;
    - :meth:`_draw`;
    - :meth:`_compute_log_partition`.

    Encoded rows, called ``codes``, are an array of state codes, with MISSING (or nan) for missing
    entries.
    """

    def _draw(self, codes, rng):
        """Return rows of codes with missing entries drawn given the others."""
        raise NotImplementedError

    def _compute_log_partition(self):
        """Return the :class:`~skmrf._utils.results.LogPartition` of ``energy_``."""
        raise NotImplementedError

    def _encode(self, X):
        """Return the codes of rows to query the model with."""
        check_is_fitted(self)
        encoder = self._encoder
        return encoder.encode(encoder.read(self, X))

    def _rng(self):
        """Return the same random numbers for every query."""
        return np.random.default_rng(self._seed)

    def _log_partition(self):
        check_is_fitted(self)
        if "log_partition" not in self._cache:
            with warnings.catch_warnings():
                warnings.filterwarnings("ignore", message=WIDE)  # the estimator says what to do
                result = self._compute_log_partition()
            self._cache["log_partition"] = result
            if not result.converged:
                _warn_wide(result)
        return self._cache["log_partition"]

    @property
    def log_partition_(self):
        """log Z in nats, which ``score_samples`` subtracts."""
        return self._log_partition().value

    @property
    def log_partition_interval_(self):
        """Lower and upper limit of log Z in nats; equal where log Z is exact.

        The error of log Z is the same for all rows. ``log_partition_ - upper`` and
        ``log_partition_ - lower``, added to a log-likelihood of :meth:`score_samples` or
        :meth:`score`, give its lower and upper limit. An estimate of log Z tends to be too low,
        which makes log-likelihoods too high, so report the lower limit beside the score.
        """
        result = self._log_partition()
        return result.lower, result.upper

    @property
    def log_partition_method_(self):
        """How log Z was found: "exact", "grid" or "ais"."""
        return self._log_partition().method

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
            Independent draws where exact inference fits in memory. Else, and of models with hidden
            units, states of Gibbs chains after 1000 sweeps, half of them tempered, which approach
            the distribution as they mix.
        """
        check_is_fitted(self)
        check_number("n_samples", n_samples, low=1, integer=True)
        codes = self._given_codes(given)
        if len(codes) not in (1, n_samples):
            raise ValueError(
                f"given has {len(codes)} rows; give one, or as many as n_samples={n_samples}."
            )
        if len(codes) == 1:
            codes = np.repeat(codes, n_samples, axis=0)
        return self._encoder.decode(self._draw(codes, check_generator(random_state)))

    def _given_codes(self, given):
        if given is not None and not isinstance(given, dict):
            if isinstance(given, str) or np.ndim(given) == 0:
                raise ValueError(
                    "given must be a dict {column: value} or rows with nan elsewhere; "
                    f"got {given!r}."
                )
            return self._encode(given)
        names = self._column_names()
        row = np.full((1, len(names)), None, dtype=object)
        for column, value in (given or {}).items():
            if column not in names:
                raise ValueError(f"given names column {column!r}; the columns are {names[:8]}.")
            row[0, names.index(column)] = value
        return self._encoder.encode_row(row)

    def score(self, X, y=None):
        """Mean of :meth:`score_samples`.

        Parameters
        ----------
        X : array-like or frame of shape (n_samples, n_features)
        y : ignored

        Returns
        -------
        float
            In nats.
        """
        return float(np.mean(self.score_samples(X)))


def _warn_wide(result):
    """Warn that log Z has not converged."""
    warn_caller(
        f"log Z has not converged: its interval, [{result.lower:.4g}, {result.upper:.4g}], is "
        f"{result.upper - result.lower:.3g} nats wide, and log-likelihoods have that uncertainty. "
        "Estimate log Z of energy_ with more n_temperatures or n_chains: with "
        "skmrf.likelihood.ais, or for neural potentials with "
        "skmrf.likelihood.neural.neural_log_partition.",
        ConvergenceWarning,
    )
