"""Predictions, probabilities and fitted weights of a conditional random field."""

from functools import partial

import numpy as np
from scipy import sparse
from sklearn.utils.validation import check_is_fitted

from .._data.sequences import as_list, flatten_labels, has_dicts, read_examples
from .._utils.log_weights import check_sample_weight
from .._utils.parallel import parallel_jobs
from .._utils.parameters import check_generator, check_number
from .._utils.warn import warn_caller
from ..likelihood import label_graphs
from ._crf_training import (
    allowed_transitions,
    check_edge_features,
    constrain,
    encode_labels,
    log_likelihoods,
)


class CRFQueries:
    """Fitted weights and query methods of a conditional random field."""

    # Fitted parameters --------------------------------------------------------------------

    @property
    def coef_(self):
        """Weights of features, ndarray or sparse matrix of shape (n_labels, n_features)."""
        energy = self._fitted_energy("coef_")
        coef = energy.theta["coef"]
        if energy.pairs is None:
            return coef.T
        ptr, labels = energy.pairs
        shape = len(ptr) - 1, energy.n_labels
        return sparse.csr_matrix((coef, labels, ptr), shape=shape).T.tocsr()

    @property
    def intercept_(self):
        """Intercept of each label, ndarray of shape (n_labels,)."""
        return self._fitted_energy("intercept_").theta["intercept"]

    @property
    def transition_(self):
        """Weights of pairs of labels, shape (n_labels, n_labels).

        If edges have features, the shape is (n_edge_features, n_labels, n_labels).
        """
        transition = self._fitted_energy("transition_").theta["transition"]
        return transition[0] if len(transition) == 1 else transition

    def _fitted_energy(self, name):
        if "energy_" not in vars(self):
            raise AttributeError(f"CRF has no attribute {name!r} before fit.")
        return self.energy_

    # Queries ------------------------------------------------------------------------------

    def _examples(self, X, sequence_ids):
        check_is_fitted(self)
        X, is_table = as_list(X), False
        if has_dicts(X):
            if self.vectorizer_ is None:
                raise ValueError(
                    "X holds dicts of features, but fit was given arrays of numbers. Give arrays, "
                    "or fit the model to dicts."
                )
            is_table = isinstance(X[0], dict)
            X = self.vectorizer_.transform([[x] for x in X] if is_table else X)
        examples = read_examples(self, X, sequence_ids, graph=self.graph, reset=False)
        is_table |= examples.form.kind == "rows"
        if is_table and self._has_sequences and len(examples.graphs) > 1:
            warn_caller(
                "Each row of X is a sequence of length one, but fit was given longer sequences. If "
                "X is one sequence, give [X]. If it has several sequences, give sequence_ids."
            )
        return examples._replace(graphs=check_edge_features(self.energy_, examples.graphs))

    def _condition(self, X, sequence_ids, allowed, given):
        """Return examples, their known labels and their log-potentials with constraints."""
        examples = self._examples(X, sequence_ids)
        graphs = examples.graphs
        if given is not None:
            labels = flatten_labels(given, examples, "given")
            graphs = graphs.with_labels(encode_labels(self._codes, labels))
        with parallel_jobs(self.n_jobs):
            potentials = self.energy_.potentials(graphs)
        if allowed is not None:
            pairs, first = allowed_transitions(allowed, self.classes_)
            potentials = constrain(potentials, graphs, pairs, first)
        return examples.form, graphs, potentials

    def _check_possible(self, graphs, log_potentials):
        impossible = np.flatnonzero(log_potentials == -np.inf)
        if impossible.size:
            message = (
                f"Example {impossible[0]} has no labels that satisfy the constraints; check "
                "allowed and given."
            )
            if graphs.trees is None:
                message += (
                    " In a graph with cycles, the sums over labels also underflow if weights are "
                    "very large; then increase alpha."
                )
            raise ValueError(message)

    def _sums(self, graphs, potentials, **options):
        options |= {"method": self.learner_.inference, **self.learner_.solver_options()}
        with parallel_jobs(self.n_jobs):
            sums = label_graphs.sums(graphs, potentials, **options)
        if not sums.converged.all():
            warn_caller(
                f"Belief propagation did not converge for {(~sums.converged).sum()} of "
                f"{len(graphs)} examples, so their probabilities have an unknown error. Increase "
                "max_iter or damping of the learner skmrf.learners.CRFPropagation."
            )
        self._check_possible(graphs, sums.log_z)
        return sums

    def _shapes(self, form):
        return form.shapes if self.graph == "grid" else None

    def _labels(self, states):
        return self.classes_[states % len(self.classes_)]

    def predict(self, X, *, sequence_ids=None, allowed=None, given=None):
        """Return the most probable labels of each example, jointly.

        Parameters
        ----------
        X : list, array-like, sparse matrix or frame
            Examples, as in :meth:`fit`.
        sequence_ids : array-like of shape (n_rows,), optional
            Sequence of each row, if X is a table.
        allowed : "iob2" or iterable of (label, label), optional
            Pairs of successive labels that are allowed. By default all pairs.
        given : list of array-like, optional
            Labels that are known, in the shape of the positions, and None elsewhere.

        Returns
        -------
        list of ndarray, or ndarray of shape (n_rows,)
            Labels of each example, or of each row of a table.
        """
        form, graphs, potentials = self._condition(X, sequence_ids, allowed, given)
        with parallel_jobs(self.n_jobs):
            states, scores = label_graphs.maxima(graphs, potentials)
        self._check_possible(graphs, scores)
        return form.restore(self._labels(states), graphs.node_ptr)

    def predict_marginals(self, X, *, sequence_ids=None, allowed=None, given=None):
        """Return the probability of each label at each position.

        For a grid that is too large for exact inference, sums over whole rows are approximated by
        matrix product states. Their error is estimated from the values of log Z that the rows
        above and below each row give. If two of these values differ by more than 0.005 nats, or if
        there are more than 12 labels, loopy belief propagation is used instead.

        Parameters
        ----------
        X : list, array-like, sparse matrix or frame
            Examples, as in :meth:`fit`.
        sequence_ids : array-like of shape (n_rows,), optional
            Sequence of each row, if X is a table.
        allowed : "iob2" or iterable of (label, label), optional
            Pairs of successive labels that are allowed. By default all pairs.
        given : list of array-like, optional
            Labels that are known, in the shape of the positions, and None elsewhere.

        Returns
        -------
        list of ndarray of shape (length, n_labels), or ndarray of shape (n_rows, n_labels)
            Marginals of each example, or of each row of a table.
        """
        form, graphs, potentials = self._condition(X, sequence_ids, allowed, given)
        nodes = self._sums(graphs, potentials, shapes=self._shapes(form)).nodes
        nodes = nodes.reshape(len(nodes), -1, len(self.classes_)).sum(axis=1)
        return form.restore(nodes, graphs.node_ptr)

    def predict_proba(self, X, *, sequence_ids=None):
        """Return the probability of each label at each position, as :meth:`predict_marginals`.

        Parameters
        ----------
        X : list, array-like, sparse matrix or frame
            Examples, as in :meth:`fit`.
        sequence_ids : array-like of shape (n_rows,), optional
            Sequence of each row, if X is a table.

        Returns
        -------
        list of ndarray of shape (length, n_labels), or ndarray of shape (n_rows, n_labels)
            Marginals of each example, or of each row of a table.
        """
        return self.predict_marginals(X, sequence_ids=sequence_ids)

    def predict_best(self, X, k=5, *, sequence_ids=None, allowed=None, given=None):
        """Return the k most probable labellings of each example, with their probabilities.

        Parameters
        ----------
        X : list, array-like, sparse matrix or frame
            Examples without cycles, as in :meth:`fit`.
        k : int, default=5
            Number of labellings.
        sequence_ids : array-like of shape (n_rows,), optional
            Sequence of each row, if X is a table.
        allowed : "iob2" or iterable of (label, label), optional
            Pairs of successive labels that are allowed. By default all pairs.
        given : list of array-like, optional
            Labels that are known, in the shape of the positions, and None elsewhere.

        Returns
        -------
        labels : list of ndarray of shape (n_labellings, length)
            Labellings of each example, the most probable first. There are fewer than k if fewer are
            possible.
        probabilities : list of ndarray of shape (n_labellings,)
            Probability of each labelling.
        """
        check_number("k", k, low=1, integer=True)
        form, graphs, potentials = self._condition(X, sequence_ids, allowed, given)
        states, scores = label_graphs.best(graphs, potentials, k)
        log_z = self._sums(graphs, potentials, shapes=self._shapes(form)).log_z
        pairs = zip(scores, log_z, strict=True)
        return [self._labels(s) for s in states], [np.exp(s - z) for s, z in pairs]

    def sample(self, X, n_samples=1, *, sequence_ids=None, random_state=None):
        """Draw labels of each example from their joint distribution.

        Parameters
        ----------
        X : list, array-like, sparse matrix or frame
            Examples without cycles, as in :meth:`fit`.
        n_samples : int, default=1
            Number of draws for each example.
        sequence_ids : array-like of shape (n_rows,), optional
            Sequence of each row, if X is a table.
        random_state : int, RandomState, Generator or None, default=None
            Random numbers.

        Returns
        -------
        list of ndarray of shape (n_samples, length)
            Labels of each example.
        """
        check_number("n_samples", n_samples, low=1, integer=True)
        _, graphs, potentials = self._condition(X, sequence_ids, None, None)
        rng = check_generator(random_state)
        draws = [label_graphs.draws(graphs, potentials, rng) for _ in range(n_samples)]
        return np.split(self._labels(np.stack(draws)), graphs.node_ptr[1:-1], axis=1)

    def log_likelihood(self, X, y, *, sequence_ids=None):
        """Return the log-probability of the labels of each example.

        Sums over labels are computed as in :meth:`predict_marginals`.

        Parameters
        ----------
        X : list, array-like, sparse matrix or frame
            Examples, as in :meth:`fit`.
        y : list of array-like, or array-like of shape (n_rows,)
            Labels, as in :meth:`fit`. Missing labels are summed out.
        sequence_ids : array-like of shape (n_rows,), optional
            Sequence of each row, if X is a table.

        Returns
        -------
        ndarray of shape (n_examples,)
            Log-probabilities in nats.
        """
        examples = self._examples(X, sequence_ids)
        labels = encode_labels(self._codes, flatten_labels(y, examples))
        graphs = examples.graphs.with_labels(labels)
        infer = partial(self._sums, shapes=self._shapes(examples.form))
        with parallel_jobs(self.n_jobs):
            return log_likelihoods(self.energy_, graphs, infer)

    def score(self, X, y, sample_weight=None, *, sequence_ids=None):
        """Return the share of correctly predicted labels.

        Parameters
        ----------
        X : list, array-like, sparse matrix or frame
            Examples, as in :meth:`fit`.
        y : list of array-like, or array-like of shape (n_rows,)
            True labels. Missing labels do not count. Labels that were not seen during fit count as
            errors.
        sample_weight : array-like of shape (n_examples,), optional
            Non-negative weight of each example. By default all examples have the same weight.
        sequence_ids : array-like of shape (n_rows,), optional
            Sequence of each row, if X is a table.

        Returns
        -------
        float
            Weighted share of correct labels, between 0 and 1.
        """
        examples = self._examples(X, sequence_ids)
        graphs = examples.graphs
        codes = self._codes.encode(flatten_labels(y, examples))
        with parallel_jobs(self.n_jobs):
            states, _ = label_graphs.maxima(graphs, self.energy_.potentials(graphs))
        weights = check_sample_weight(sample_weight, len(graphs))
        weights = np.ones(len(graphs)) if weights is None else weights
        weights = np.where(codes == -1, 0.0, np.repeat(weights, graphs.sizes))
        if not weights.any():
            raise ValueError("y has no known labels; score needs at least one.")
        return float(np.average(states % len(self.classes_) == codes, weights=weights))
