"""Learners of conditional random fields: likelihood, pseudo-likelihood, margin, perceptron."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.special import logsumexp

from .._utils.codes import MISSING
from .._utils.log_weights import normalized_weights
from .._utils.parameters import check_number
from .._utils.phases import GraphMoments
from ..energies.crf import CRFEnergy, without_labels
from ..energies.structured_protocols import LabelGraphEnergy, LabelPotentials
from ..likelihood import label_graphs
from .base import Learner
from .frank_wolfe import BlockFrankWolfe, ChainFrankWolfe


class GraphLearner(Learner):
    """Base class of learners of labels of sequences, trees and graphs, for ``CRF``.

    ``batch.X`` has the graphs of the examples, which are passed to the methods of the energy. Its
    attribute ``labels`` has the label of each node, an int from 0, or -1 if it is missing. The
    state of the learner is an ``Observed``: its ``node_weights`` are the weights of the
    nodes.

    Attributes
    ----------
    inference : {"exact", "bp"}
        Inference method of predictions.
    has_probabilities : bool
        Whether the model has meaningful probabilities.
    has_margin : bool
        Whether the scale of the parameters matters. It does not for the perceptron.
    needs_l2 : bool
        Whether the deterministic solver needs the penalty "l2" with a positive strength.
    """

    requires = (LabelGraphEnergy,)
    family = "crf"
    inference = "exact"
    has_probabilities = True
    has_margin = True
    needs_l2 = False

    def init(self, energy, batch, rng):
        """Check the parameters, and return the known labels and their statistics."""
        self.check()
        return observe(energy, batch)

    def check(self):
        """Raise a ValueError if a parameter is invalid."""

    def solver_options(self):
        """Return the options of the inference method, a dict."""
        return {}

    def step(self, energy, batch, state, rng):
        """Raise a NotImplementedError, because this learner makes no stochastic steps."""
        raise NotImplementedError(
            f'The learner {self!r} has no stochastic steps. Use optimizer="lbfgs" or "auto".'
        )


@dataclass
class Observed:
    """Known labels of examples, as weighted counts.

    Attributes
    ----------
    graphs : LabelGraphs
        Examples.
    weights : ndarray of shape (n_examples,)
        Weights of the examples, whose sum is 1.
    node_weights : ndarray of shape (n_nodes,)
        Weight of the example of each node.
    states : ndarray of int of shape (n_nodes,) or None
        States of the nodes. None if labels are missing.
    tables : ndarray of shape (n_tables, n_states, n_states) or None
        Weighted counts of the pairs of states of edges. None if labels are missing.
    """

    graphs: Any
    weights: np.ndarray
    node_weights: np.ndarray
    states: np.ndarray | None = None
    tables: np.ndarray | None = None


def observe(energy, batch):
    """Return the known labels of a batch of examples as an :class:`Observed`."""
    graphs = batch.X
    weights = normalized_weights(batch.log_weights, len(graphs))
    node_weights = np.repeat(weights, graphs.sizes)
    if not graphs.is_labelled:
        return Observed(graphs, weights, node_weights)
    states = energy.states_of(graphs)
    tables = energy.count_edges(graphs, states, weights)
    return Observed(graphs, weights, node_weights, states, tables)


def _with_states(energy, observed, states):
    """Return the labels of the examples, with missing labels replaced by the given states."""
    graphs = observed.graphs
    tables = energy.count_edges(graphs, states, observed.weights)
    return Observed(graphs, observed.weights, observed.node_weights, states, tables)


def _indicators(observed, n_states):
    """Return the counts of the states of nodes and edges, as moments, for known states."""
    nodes = np.zeros((len(observed.node_weights), n_states))
    nodes[np.arange(len(nodes)), observed.states] = observed.node_weights
    return GraphMoments(nodes, observed.tables)


def _score(observed, potentials):
    """Return the weighted sum of the log-potentials of the known states."""
    nodes = potentials.nodes[np.arange(len(observed.states)), observed.states]
    is_used = observed.tables > 0
    tables = potentials.tables[is_used] @ observed.tables[is_used]
    return float(observed.node_weights @ nodes + tables)


class CRFLikelihood(GraphLearner):
    r"""Conditional likelihood of the labels of a conditional random field, by exact inference.

    The objective is the weighted mean over examples of

    .. math:: \log p(y | x) = \log f(y | x) - \log \sum_{y'} f(y' | x)

    Chains and trees need one pass forwards and one backwards. Other graphs need variable
    elimination, which is possible if they are small or narrow. Missing labels are summed out.

    References
    ----------
    J. Lafferty, A. McCallum and F. Pereira, "Conditional random fields: probabilistic models for
    segmenting and labeling sequence data", ICML 2001.
    """

    deterministic = True
    objective_takes_missing = True

    def _phases(self, energy, observed):
        """Return the value of the objective, both phases, and the share of converged examples."""
        graphs = observed.graphs
        potentials = energy.potentials(graphs)
        free = self._sums(without_labels(graphs), potentials, observed)
        negative = GraphMoments(free.nodes, free.tables)
        if observed.states is not None:
            value = _score(observed, potentials)
            positive = _indicators(observed, potentials.nodes.shape[1])
        else:
            clamped = self._sums(graphs, potentials, observed)
            value = float(observed.weights @ clamped.log_z)
            positive = GraphMoments(clamped.nodes, clamped.tables)
        value -= float(observed.weights @ free.log_z)
        return value, positive, negative, float(free.converged.mean())

    def _sums(self, graphs, potentials, observed):
        options = self.solver_options()
        return label_graphs.sums(
            graphs, potentials, observed.weights, method=self.inference, **options
        )

    def step(self, energy, batch, state, rng):
        """Return both phases (data and model expectation) of the gradient of the likelihood."""
        value, positive, negative, share = self._phases(energy, observe(energy, batch))
        info = {"inference_converged": share, "log_likelihood": value}
        return positive, negative, state, info

    def objective(self, energy, batch, state):
        """Return the mean log-likelihood of the labels of an example in nats, and its gradient."""
        if state.states is None:
            value, positive, negative, _ = self._phases(energy, state)
            return value, energy.gradient(positive, negative, batch)
        potentials = energy.potentials(state.graphs)
        free = self._sums(without_labels(state.graphs), potentials, state)
        residuals = np.negative(free.nodes, out=free.nodes)  # no second array of all nodes
        residuals[np.arange(len(residuals)), state.states] += state.node_weights
        moments = GraphMoments(residuals, state.tables - free.tables)
        value = _score(state, potentials) - float(state.weights @ free.log_z)
        return value, energy.statistics(moments, state.graphs)


class CRFPropagation(CRFLikelihood):
    r"""Conditional likelihood of a conditional random field by loopy belief propagation.

    The Bethe approximation takes the place of :math:`\log Z`, and the beliefs of nodes and edges
    take the place of marginals. Both are exact on trees.

    Parameters
    ----------
    max_iter : int, default=100
        Maximum number of iterations. An iteration updates all messages forwards and backwards.
    tol : float, default=1e-6
        Propagation has converged when no entry of a message changes by more than this.
    damping : float, default=0.0
        Weight of the old message in the new one, at least 0 and less than 1.

    References
    ----------
    S. V. N. Vishwanathan, N. N. Schraudolph, M. W. Schmidt and K. P. Murphy, "Accelerated training
    of conditional random fields with stochastic gradient methods", ICML 2006.
    """

    inference = "bp"

    def __init__(self, max_iter=100, tol=1e-6, damping=0.0):
        self.max_iter = max_iter
        self.tol = tol
        self.damping = damping

    def check(self):
        """Raise a ValueError if a parameter is invalid."""
        check_number("max_iter", self.max_iter, low=1, integer=True)
        check_number("tol", self.tol, low=0)
        check_number("damping", self.damping, low=0, high=0.99)

    def solver_options(self):
        """Return the options of belief propagation."""
        return {"max_iter": self.max_iter, "tol": self.tol, "damping": self.damping}


class CRFPseudoLikelihood(GraphLearner):
    r"""Pseudo-likelihood of the labels of a conditional random field.

    The objective is the weighted mean over examples of :math:`\sum_i \log p(y_i | y_{-i}, x)`. It
    needs no sums over joint labels. All labels must be known.

    References
    ----------
    J. Besag, "Statistical analysis of non-lattice data", The Statistician 24 (1975).
    """

    deterministic = True
    inference = "auto"

    def init(self, energy, batch, rng):
        """Return the known labels; raise a ValueError if a label is missing."""
        if not batch.X.is_labelled:
            node = int(np.flatnonzero(batch.X.labels == MISSING)[0])
            example = int(batch.X.example_of_node[node])
            raise ValueError(
                f"The label of position {node - batch.X.node_ptr[example]} of example {example} is "
                'missing; learner="pseudo-likelihood" needs all labels. Use learner="exact".'
            )
        return super().init(energy, batch, rng)

    def _residuals(self, energy, batch):
        graphs, rows = batch.X, np.arange(batch.X.n_nodes)
        weights = np.repeat(normalized_weights(batch.log_weights, len(graphs)), graphs.sizes)
        scores = energy.conditional_scores(graphs)
        log_p = scores - logsumexp(scores, axis=1, keepdims=True)
        residuals = -np.exp(log_p)
        residuals[rows, graphs.labels] += 1.0
        return float(weights @ log_p[rows, graphs.labels]), residuals * weights[:, None]

    def objective(self, energy, batch, state):
        """Return the mean pseudo-log-likelihood of an example in nats, and its gradient."""
        value, residuals = self._residuals(energy, batch)
        return value, energy.conditional_statistics(residuals, batch.X)


class Perceptron(GraphLearner):
    r"""Averaged structured perceptron of a conditional random field.

    Each step adds the statistics of the known labels, and subtracts those of the most probable
    labels :math:`\hat y`. It is a subgradient step of the loss
    :math:`\max_{\hat y} \log f(\hat y | x) - \log f(y | x)`. The fitted model is the mean of all
    iterates. Missing labels are replaced by the most probable ones given the known labels.

    References
    ----------
    M. Collins, "Discriminative training methods for hidden Markov models: theory and experiments
    with perceptron algorithms", EMNLP 2002.
    """

    inference = "auto"
    has_probabilities = False
    has_margin = False

    def loss(self, labels, n_states, n_labels):
        """Return the loss of each state of each node: zero, because there is no margin."""
        return 0.0

    def step(self, energy, batch, state, rng):
        """Return the statistics of the known and of the most probable labels."""
        loss, positive, negative = self._phases(energy, observe(energy, batch))
        return positive, negative, state, {"loss": loss}

    def _phases(self, energy, observed):
        """Return the mean loss, and the moments of the known and of the predicted labels."""
        graphs, potentials = observed.graphs, energy.potentials(observed.graphs)
        if observed.states is None:
            states, _ = label_graphs.maxima(graphs, potentials)
            observed = _with_states(energy, observed, states)
        n_states = potentials.nodes.shape[1]
        loss = self.loss(graphs.labels, n_states, energy.n_labels)
        augmented = LabelPotentials(potentials.nodes + loss, *potentials[1:])
        best, scores = label_graphs.maxima(without_labels(graphs), augmented)
        predicted = _with_states(energy, observed, best)
        hinge = float(observed.weights @ scores) - _score(observed, potentials)
        return hinge, *(_indicators(o, n_states) for o in (observed, predicted))


class SSVM(Perceptron):
    r"""Structured support vector machine of a conditional random field.

    The learner minimises the mean over examples of the hinge loss

    .. math:: \max_{\hat y} \big[ \Delta(\hat y, y) + \log f(\hat y | x) \big] - \log f(y | x)

    plus the penalty. The Hamming loss :math:`\Delta` is ``loss_weight`` times the number of wrong
    labels. With the penalty "l2" and known labels, the solver is block-coordinate Frank-Wolfe. It
    starts at zero and also penalises the intercept. It stops if the duality gap, the entry
    "duality_gap" of ``history_``, is small. The duality gap bounds the distance from the optimum if
    the most probable labels are exact. Other optimizers make stochastic subgradient steps.

    Parameters
    ----------
    loss_weight : float, default=1.0
        Loss of a wrong label, at least 0.

    References
    ----------
    S. Lacoste-Julien, M. Jaggi, M. Schmidt and P. Pletscher, "Block-coordinate Frank-Wolfe
    optimization for structural SVMs", ICML 2013.

    I. Tsochantaridis, T. Joachims, T. Hofmann and Y. Altun, "Large margin methods for structured
    and interdependent output variables", JMLR 6 (2005).
    """

    deterministic = True
    needs_l2 = True
    has_margin = True

    def __init__(self, loss_weight=1.0):
        self.loss_weight = loss_weight

    def check(self):
        """Raise a ValueError if a parameter is invalid."""
        check_number("loss_weight", self.loss_weight, low=0)

    def loss(self, labels, n_states, n_labels):
        """Return the loss of each state of each node, ndarray of shape (n_nodes, n_states)."""
        is_wrong = labels[:, None] != np.arange(n_states) % n_labels
        return self.loss_weight * (is_wrong & (labels[:, None] != MISSING))

    def objective(self, energy, batch, state):
        """Return minus the mean hinge loss of an example, and a subgradient."""
        loss, positive, negative = self._phases(energy, state)
        return -loss, energy.gradient(positive, negative, batch)

    def make_solver(self, energy, batch, settings, rng):
        """Return the block-coordinate Frank-Wolfe solver."""
        alpha = settings.penalty.alpha
        if not (settings.penalty.smooth and alpha > 0):
            raise ValueError(
                'The solver of learner="ssvm" needs penalty="l2" and alpha > 0. Otherwise use '
                'optimizer="adam" or "auto".'
            )
        n_states = energy.n_labels ** (1 + energy.is_second_order)
        losses = self.loss(batch.X.labels, n_states, energy.n_labels)
        is_crf = isinstance(energy, CRFEnergy) and not energy.is_second_order
        solver = ChainFrankWolfe if is_crf and "start" in energy.theta else BlockFrankWolfe
        return solver(losses, energy, batch, alpha, settings.tol, rng)
