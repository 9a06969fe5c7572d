"""Log-likelihoods, imputation and marginals of discrete models without latent variables."""

from ..inference import row_queries
from ..likelihood import log_partition_bounds
from ._density import EnergyEstimator


class VisibleEstimator(EnergyEstimator):
    """Base class of estimators of discrete models without latent variables."""

    @property
    def _graph(self):
        """The fitted model as a factor graph."""
        if "graph" not in self._cache:
            self._cache["graph"] = self.energy_.factor_graph()
        return self._cache["graph"]

    def _row_query(self, query, codes):
        return query(self._graph, codes, max_bytes=self.max_bytes, rng=self._rng())

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
            Normalised log-likelihoods ``log p(observed entries)``.
        """
        codes = self._encode(X)
        return self._row_query(row_queries.row_log_partitions, codes) - self.log_partition_

    def predict(self, X):
        """Impute missing entries by their jointly most probable values given the observed entries.

        Parameters
        ----------
        X : array-like or frame of shape (n_samples, n_features)
            Rows with missing entries (nan, also None or NA in categorical columns).

        Returns
        -------
        ndarray of shape (n_samples, n_features)
            Complete rows of categories, or of the two states of a two-state model. The data type is
            numeric if all columns are.
        """
        codes = self._encode(X)
        return self._encoder.decode(self._row_query(row_queries.row_modes, codes))

    def marginals(self, X):
        """Return the marginals of each column given the observed entries of each row.

        Parameters
        ----------
        X : array-like or frame of shape (n_samples, n_features)
            Rows with missing entries (nan, also None or NA in categorical columns).

        Returns
        -------
        list of ndarray of shape (n_samples, n_categories)
            Probabilities of the categories, one array per column. An observed entry has probability
            1 for its category. In two-state models the lower state is the first category.
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
        """Return the scikit-learn tags of the estimator."""
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = True
        return tags
