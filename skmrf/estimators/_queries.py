"""Queries of a discrete model whose variables are the columns of the data, none of them latent."""

from ..inference import row_queries
from ..likelihood import log_partition_bounds
from ._density import EnergyEstimator


class VisibleEstimator(EnergyEstimator):
    """Scores, completions, marginals and draws of rows."""

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
        return self._row_query(row_queries.row_log_partitions, codes) - self.log_partition_

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
        return self._encoder.decode(self._row_query(row_queries.row_modes, codes))

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
        return self._row_query(row_queries.row_marginals, self._encode(X))

    def _compute_log_partition(self):
        return log_partition_bounds(
            self.energy_,
            max_bytes=self.max_bytes,
            random_state=self._seed,
            n_jobs=self.n_jobs,
        )

    def _draw(self, codes, rng):
        return row_queries.row_samples(self._graph, codes, rng, max_bytes=self.max_bytes)

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = True
        return tags
