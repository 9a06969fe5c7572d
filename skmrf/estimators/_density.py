"""What all estimators of a density share besides learning it: log Z, draws and scores."""

import numpy as np
from sklearn.base import DensityMixin
from sklearn.utils.validation import check_is_fitted

from .._utils.codes import MISSING, STATE
from .._utils.parameters import check_number
from .._utils.randomness import check_generator
from ..likelihood import log_partition_bounds
from ._base import LearnedEstimator


class EnergyEstimator(DensityMixin, LearnedEstimator):
    """Density of rows whose energy is learned.

    A subclass fills in what :class:`LearnedEstimator` asks for, and:

    - :meth:`score_samples`;
    - for queries :meth:`_encode`, :meth:`_encode_given`, :meth:`_decode` and :meth:`_draw`;
    - :meth:`_annealing` where what is here does not suit it.

    Encoded data, called ``codes``, are an array of state codes, MISSING where nothing was
    observed, or a scipy CSR matrix of zeros and ones, in which nothing is missing.
    """

    def _encode(self, X):
        """State codes of rows to ask about, MISSING where nothing was observed."""
        raise NotImplementedError

    def _encode_given(self, row):
        """The same of an object array of shape (1, n_features), None where not observed."""
        raise NotImplementedError

    def _decode(self, codes):
        """The rows that complete state codes stand for."""
        raise NotImplementedError

    def _draw(self, codes, rng):
        """Rows of codes with what is MISSING drawn given the rest."""
        raise NotImplementedError

    def _annealing(self):
        """Options of :func:`skmrf.likelihood.ais`, where log Z is not exact."""
        return {}

    def _log_partition(self):
        check_is_fitted(self)
        if "log_partition" not in self._cache:
            self._cache["log_partition"] = log_partition_bounds(
                self.energy_,
                max_bytes=self.max_bytes,
                random_state=self._seed,
                n_jobs=self.n_jobs,
                **self._annealing(),
            )
        return self._cache["log_partition"]

    @property
    def log_partition_(self):
        """log Z in nats."""
        return self._log_partition().value

    @property
    def log_partition_interval_(self):
        """Lower and upper limit of log Z."""
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
        return self._decode(self._draw(codes, check_generator(random_state)))

    def _given_codes(self, given):
        if given is None:
            return np.full((1, self.n_features_in_), MISSING, dtype=STATE)
        if not isinstance(given, dict):
            return self._encode(given)
        names = self._column_names()
        row = np.full((1, len(names)), None, dtype=object)
        for column, value in given.items():
            if column not in names:
                raise ValueError(f"given names column {column!r}; the columns are {names[:8]}.")
            row[0, names.index(column)] = value
        return self._encode_given(row)

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
