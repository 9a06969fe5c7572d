"""Log-likelihoods, imputation and marginals of discrete models."""

import numpy as np

from .._data.frame_types import frame_index
from ..inference import row_queries
from ..likelihood import log_partition_bounds
from ..likelihood.bounds import exact_fits
from ..samplers import gibbs_queries
from ._density import EnergyEstimator


class VisibleEstimator(EnergyEstimator):
    """Base class of estimators of discrete models whose data can have missing entries."""

    @property
    def _graph(self):
        """The fitted model as a factor graph."""
        if "graph" not in self._cache:
            self._cache["graph"] = self.energy_.factor_graph()
        return self._cache["graph"]

    def _row_query(self, name, codes):
        """Return the result of a function of ``row_queries``, the latent variables summed out."""
        has_latent = self.energy_.has_latent
        model = self.energy_.astype(float) if has_latent else self._graph
        query = getattr(row_queries, ("latent_" if has_latent else "row_") + name)
        return query(model, codes, max_bytes=self.max_bytes, rng=self._rng())

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
        return self._row_query("log_partitions", codes) - self.log_partition_

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
            array is numeric if all columns are.
        """
        codes = self._impute(self._encode(X), "mode")
        return self._to_frame(self._encoder.decode(codes), X)

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

    def _compute_log_partition(self):
        return log_partition_bounds(
            self.energy_,
            max_bytes=self.max_bytes,
            random_state=self._seed,
            n_jobs=self.n_jobs,
        )

    def _draws_exactly(self):
        """Return whether samples without given entries are independent draws."""
        if self.energy_.has_latent:
            return False
        return exact_fits(self._graph.layout, max_bytes=self.max_bytes)

    def _draw(self, codes, rng):
        if self.energy_.has_latent:
            return gibbs_queries.draw_missing(self.energy_, codes, rng, n_jobs=self.n_jobs)
        return row_queries.row_samples(self._graph, codes, rng, max_bytes=self.max_bytes)

    def __sklearn_tags__(self):
        """Return the scikit-learn tags of the estimator."""
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = True
        return tags
