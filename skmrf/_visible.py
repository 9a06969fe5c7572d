"""Queries of a discrete model whose variables are the columns of the data, none of them latent."""

import numpy as np
from sklearn.utils.validation import check_is_fitted

from . import inference
from ._estimator import EnergyEstimator
from ._types import MISSING, STATE
from ._validation import check_generator, check_number


class VisibleEstimator(EnergyEstimator):
    """Scores, completions, marginals and draws of rows.

    A subclass has :meth:`_encode`, :meth:`_encode_given` and :meth:`_decode`, besides what
    :class:`EnergyEstimator` asks for.
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

    @property
    def _graph(self):
        """The model as a factor graph."""
        if "graph" not in self._cache:
            self._cache["graph"] = self.energy_.factor_graph()
        return self._cache["graph"]

    def _row_query(self, query, codes):
        return query(self._graph, codes, max_bytes=self.max_bytes, rng=self._rng())

    def score_samples(self, X):
        """Normalised log-likelihood of the observed entries of every row, in nats.

        Parameters
        ----------
        X : array-like or frame of shape (n_samples, n_features)

        Returns
        -------
        ndarray of shape (n_samples,)
            ``log p(observed entries)``; missing entries are summed out.
        """
        codes = self._encode(X)
        log_z = self._log_partition().value
        return self._row_query(inference.row_log_partitions, codes) - log_z

    def predict(self, X):
        """Rows with their missing entries filled by the joint mode given the observed ones.

        Parameters
        ----------
        X : array-like or frame of shape (n_samples, n_features)

        Returns
        -------
        ndarray of shape (n_samples, n_features)
            Categories, numeric where all columns are; of two-state models, their states.
        """
        codes = self._encode(X)
        return self._decode(self._row_query(inference.row_modes, codes))

    def marginals(self, X):
        """Marginals of every column given the observed entries of each row.

        Parameters
        ----------
        X : array-like or frame of shape (n_samples, n_features)

        Returns
        -------
        list of ndarray of shape (n_samples, n_categories), one a column
            Observed entries have all their mass on their category. Two-state models have two
            categories, the lower state first.
        """
        return self._row_query(inference.row_marginals, self._encode(X))

    def sample(self, n_samples=1, *, given=None, random_state=None):
        """Draw rows.

        Parameters
        ----------
        n_samples : int, default=1
        given : dict, or array-like or frame of one or n_samples rows, optional
            What is observed: ``{column: category}``, or rows with nan or None elsewhere.
        random_state : int, RandomState, Generator or None

        Returns
        -------
        ndarray of shape (n_samples, n_features)
            Independent draws where elimination fits in memory, else states of Gibbs chains.
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
        rng = check_generator(random_state)
        drawn = inference.row_samples(self._graph, codes, rng, max_bytes=self.max_bytes)
        return self._decode(drawn)

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

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = True
        return tags
