"""Block-coordinate Frank-Wolfe solver of structured support vector machines."""

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from .._kernels.ascent import frank_wolfe_steps
from .._utils.codes import MISSING
from .._utils.log_weights import normalized_weights
from .._utils.phases import GraphMoments
from ..energies.crf import without_labels
from ..energies.structured_protocols import LabelPotentials
from ..likelihood import label_graphs

N_EXAMPLES = 200  # chains per call of the kernel
PARAMETERS = "intercept", "transition", "start", "end"
RELATIVE_GAP = 500.0  # duality gap at convergence, as a multiple of tol times the loss at zero


@dataclass(frozen=True)
class FrankWolfeState:
    """State of the solver after a pass over the examples.

    Attributes
    ----------
    value : float
        Objective minus penalty, at the averaged parameters.
    duality_gap : float
        Upper bound of the distance of ``value`` from its maximum.
    is_done, converged : bool
        Whether the duality gap is small enough.
    theta : dict of str to ndarray
        Current parameters.
    lag : dict of str to ndarray
        Weighted sum of the steps, from which the averaged parameters are computed.
    moments : list of GraphMoments, or GraphMoments
        Known labels minus the mixture of predicted labels of each example (dual variables). For
        chains, the moments of all nodes and the tables of all examples.
    losses : ndarray of shape (n_examples,)
        Loss of this mixture of each example.
    n_steps : int
        Number of steps.
    """

    value: float
    duality_gap: float
    is_done: bool
    converged: bool
    theta: dict
    lag: dict
    moments: Any
    losses: np.ndarray
    n_steps: int = 0

    @property
    def diagnostics(self):
        """Diagnostics of the last iteration, which ``history_`` stores."""
        return {"objective": self.value, "duality_gap": self.duality_gap}

    @property
    def averaged(self):
        """Mean of the iterates, whose weights are proportional to the number of the step."""
        if not self.n_steps:
            return self.theta
        total = _total_weight(self.n_steps)
        return {k: v - self.lag[k] / total for k, v in self.theta.items()}


def _total_weight(n_steps):
    return 0.5 * n_steps * (n_steps + 1)


class _Block(NamedTuple):
    """Example with its part of the model, its labels, and the loss of each label."""

    energy: Any
    graphs: Any
    index: Any
    known: GraphMoments
    loss: np.ndarray
    weight: float


class BlockFrankWolfe:
    r"""Block-coordinate Frank-Wolfe algorithm for a structured support vector machine.

    The primal problem is to minimise

    .. math:: \frac{\alpha}{2} \lVert w \rVert^2 + \sum_i \omega_i \max_{\hat y}
        \big[ \Delta(\hat y, y_i) - w^\top (\phi(x_i, y_i) - \phi(x_i, \hat y)) \big]

    A dual variable of each example is a mixture of labellings. A step finds the labelling with the
    largest sum of loss and log-potential for one example, and moves the mixture towards it; the
    length of the step maximises the dual objective. The sum of the primal and the dual objective
    bounds the distance from the optimum. The parameters are averaged over the steps.

    Parameters
    ----------
    losses : ndarray of shape (n_nodes, n_states)
        Loss of each state of each node.
    energy : LabelGraphEnergy
        Initial model. Training starts at zero parameters.
    batch : Batch
        Examples without missing labels.
    alpha : float
        Strength of the penalty, above 0.
    tol : float
        The solver has converged if the duality gap is at most ``500 * tol`` times the objective at
        zero parameters.
    rng : numpy.random.Generator
        Source of random numbers, for the order of the examples.

    References
    ----------
    S. Lacoste-Julien, M. Jaggi, M. Schmidt and P. Pletscher, "Block-coordinate Frank-Wolfe
    optimization for structural SVMs", ICML 2013: algorithm 4, with weighted averages.
    """

    def __init__(self, losses, energy, batch, alpha, tol, rng):
        self.alpha, self.rng = alpha, rng
        self.weights = normalized_weights(batch.log_weights, len(batch.X))
        most = np.add.reduceat(losses.max(axis=1), batch.X.node_ptr[:-1])
        self.max_gap = RELATIVE_GAP * tol * float(self.weights @ most)
        self._prepare(losses, energy, batch)

    def _prepare(self, losses, energy, batch):
        parts = np.split(losses, batch.X.node_ptr[1:-1])
        self.blocks = [
            _make_block(loss, energy, batch.X[[i]], weight)
            for i, (loss, weight) in enumerate(zip(parts, self.weights.tolist(), strict=True))
        ]

    def start(self, energy):
        """Return the state of the solver at zero parameters."""
        theta = {k: np.zeros_like(v) for k, v in energy.theta.items()}
        lag = {k: np.zeros_like(v) for k, v in theta.items()}
        value, _ = yield energy.with_theta(theta)
        losses, moments = np.zeros(len(self.weights)), self._zero_moments()
        is_done = -value <= self.max_gap
        return FrankWolfeState(value, -value, is_done, is_done, theta, lag, moments, losses)

    def _zero_moments(self):
        return [GraphMoments(*map(np.zeros_like, block.known)) for block in self.blocks]

    def step(self, energy, state):
        """Return the model with averaged parameters, and the state, after one more pass."""
        theta, lag = ({k: v.copy() for k, v in part.items()} for part in (state.theta, state.lag))
        order, losses = self.rng.permutation(len(self.weights)), state.losses.copy()
        moments = self._move_all(order, state.n_steps, theta, lag, state.moments, losses)
        n_steps = state.n_steps + len(order)
        new = FrankWolfeState(0.0, 0.0, False, False, theta, lag, moments, losses, n_steps)
        averaged = energy.with_theta(new.averaged)
        value, _ = yield averaged
        value -= 0.5 * self.alpha * _squared_norm(averaged.theta)
        gap = max(-self._dual(theta, losses) - value, 0.0)
        is_done = gap <= self.max_gap
        ends = {"value": value, "duality_gap": gap, "is_done": is_done, "converged": is_done}
        return averaged, FrankWolfeState(**(vars(new) | ends))

    def _move_all(self, order, n_steps, theta, lag, moments, losses):
        """Make a step for each example; return the new dual variables, and change the arrays."""
        moments = list(moments)
        for i in order.tolist():
            block = self.blocks[i]
            change, moments[i], losses[i] = self._move(block, theta, moments[i], losses[i])
            weight, n_steps = _total_weight(n_steps), n_steps + 1
            for k, v in change.items():
                where = block.index if k == "coef" else slice(None)
                theta[k][where] += v
                lag[k][where] += weight * v
        return moments

    def _dual(self, theta, losses):
        """Return the dual objective, a lower bound of the primal objective."""
        return float(self.weights @ losses) - 0.5 * self.alpha * _squared_norm(theta)

    def _move(self, block, theta, moments, loss):
        """Return the change of the parameters of a block, and its new dual variable and loss."""
        local = {k: v[block.index] if k == "coef" else v for k, v in theta.items()}
        corner, corner_loss = _find_corner(block, block.energy.with_theta(local))
        change = GraphMoments(*(new - old for new, old in zip(corner, moments, strict=True)))
        statistics = block.energy.statistics(change, block.graphs)
        direction = {k: block.weight / self.alpha * v for k, v in statistics.items()}
        slope = sum(float(np.vdot(v, local[k])) for k, v in direction.items())
        gain = block.weight * (corner_loss - loss) - self.alpha * slope
        curvature = self.alpha * _squared_norm(direction)
        size = 0.0 if gain <= 0.0 else min(gain / max(curvature, 1e-300), 1.0)
        moved = GraphMoments(*(m + size * c for m, c in zip(moments, change, strict=True)))
        step = {k: size * v for k, v in direction.items()}
        return step, moved, loss + size * (corner_loss - loss)


class ChainFrankWolfe(BlockFrankWolfe):
    """Block-coordinate Frank-Wolfe algorithm for chains, with compiled passes over the examples.

    The parameters are those of :class:`BlockFrankWolfe`.
    """

    def _prepare(self, losses, energy, batch):
        graphs, q = batch.X, energy.n_labels
        trees, longest = graphs.trees, int(graphs.sizes.max())
        self.graphs, self.losses = graphs, losses.astype(float)
        self.features = graphs.occurrences(energy.pairs, q)
        self.trees = trees.order, trees.parent, trees.kind
        self.free = np.full(graphs.n_nodes, MISSING)
        self.rows = tuple(np.empty((graphs.n_nodes, q)) for _ in range(4))
        self.scratch = (
            np.zeros(energy.theta["coef"].size), np.empty((graphs.n_nodes, q)),
            np.empty((longest, q), dtype=np.int64), np.empty(len(graphs)),
            np.empty(graphs.n_nodes, dtype=np.int64),
        )  # fmt: skip

    def _zero_moments(self):
        n, q = self.losses.shape
        return GraphMoments(np.zeros((n, q)), np.zeros((len(self.weights), q, q)))

    def _move_all(self, order, n_steps, theta, lag, moments, losses):
        moments = GraphMoments(*(part.copy() for part in moments))
        arrays = tuple(
            (part["coef"].reshape(-1), *(part[k] for k in PARAMETERS)) for part in (theta, lag)
        )
        for first in range(0, len(order), N_EXAMPLES):
            frank_wolfe_steps(
                order[first : first + N_EXAMPLES], n_steps + first, self.alpha, self.weights,
                self.graphs.node_ptr, self.trees, self.features, self.graphs.labels, self.free,
                self.losses, *arrays, *moments, losses, self.rows, self.scratch,
            )  # fmt: skip
        return moments


def _squared_norm(arrays):
    return sum(float(np.vdot(v, v)) for v in arrays.values())


def _make_block(loss, energy, graphs, weight):
    local, graphs, index = energy.restrict(graphs)
    known = _indicators(local, graphs, local.states_of(graphs), loss.shape[1])
    return _Block(local, without_labels(graphs), index, known, loss, weight)


def _indicators(energy, graphs, states, n_states):
    """Return the moments of one labelling of an example."""
    nodes = np.zeros((len(states), n_states))
    nodes[np.arange(len(states)), states] = 1.0
    return GraphMoments(nodes, energy.count_edges(graphs, states, np.ones(1)))


def _find_corner(block, energy):
    """Return the moments of the known labels minus those of the worst labelling, and its loss."""
    potentials = energy.potentials(block.graphs)
    augmented = LabelPotentials(potentials.nodes + block.loss, *potentials[1:])
    states, _ = label_graphs.maxima(block.graphs, augmented)
    found = _indicators(energy, block.graphs, states, block.loss.shape[1])
    moments = GraphMoments(*(a - b for a, b in zip(block.known, found, strict=True)))
    return moments, float(block.loss[np.arange(len(states)), states].sum())
