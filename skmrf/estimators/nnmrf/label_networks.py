"""Members of a discriminative classifier: their kinds, and networks trained by Adam."""

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from scipy.special import log_softmax

from ..._utils.parallel import one_blas_thread
from ...training import Adam
from .label_features import FoldFeatures, PrincipalAxes, RadialFeatures, SelectedFeatures
from .label_members import learn_convex, learn_quadratic

SELU_SCALE, SELU_SHIFT = 1.0507009873554805, 1.7580993408473766
ADAM = Adam()
RATE_FACTOR, N_RATES = 0.25, 2  # the learning rate falls once
MAX_LOSS_RATIO = 1.3  # a larger held-out loss, relative to the best, is divergence
BLOCK_SIZE = 4096  # rows that are predicted together, to bound memory
NETWORKS = "relu", "selu", "tanh"
MAX_AXES = 300  # of the covariances of classes
MAX_SPLINES = 300  # features of a network


class Kind(NamedTuple):
    """Kind of a member.

    Attributes
    ----------
    potential : str
        One of "linear", "spline", "quadratic", "radial", "relu", "selu" and "tanh".
    width : float or None
        Width of the radial functions. Other potentials have None.
    columns : {"all", "relevant"}
        Columns on which the member depends.
    """

    potential: str
    width: float | None = None
    columns: str = "all"


def feature_set(potential, n_splines):
    """Return the name of the set of features on which a member depends.

    Hidden units with the activation function "relu" receive splines, because they learn thresholds
    of single columns from few rows then. If there were more than 300 such features, training would
    take long, so they receive normal scores.
    """
    if potential == "relu" and n_splines <= MAX_SPLINES:
        return "spline"
    return potential if potential in ("linear", "spline") else "normal"


def activate(z, activation):
    """Return the activations of hidden units."""
    if activation == "tanh":
        return np.tanh(z)
    if activation == "relu":
        return np.maximum(z, 0)
    shift = z.dtype.type(SELU_SHIFT)
    return np.where(z > 0, z.dtype.type(SELU_SCALE) * z, shift * np.expm1(np.minimum(z, 0)))


def activation_slopes(h, activation):
    """Return the derivatives of :func:`activate`, given the activations."""
    if activation == "tanh":
        return 1 - h * h
    if activation == "relu":
        return h > 0
    scale, shift = h.dtype.type(SELU_SCALE), h.dtype.type(SELU_SHIFT)
    return np.where(h > 0, scale, h + shift)


@dataclass
class Networks:
    """Networks with one hidden layer, of the same shape.

    Attributes
    ----------
    theta : list of ndarray
        Weights of shapes (n_networks, n_features, n_units) and (n_networks, n_units, n_classes),
        each followed by its biases.
    activation : {"relu", "selu", "tanh"}
        Activation function of the hidden units.
    """

    theta: list
    activation: str

    @classmethod
    def random(cls, n_features, n_units, log_shares, activation, rng):
        """Return random networks, which predict about the shares of the classes.

        ``log_shares`` has the log of the shares for each network, shape (n_networks, n_classes).
        """
        n_networks, n_classes = log_shares.shape
        theta = [
            rng.normal(size=(n_networks, n_features, n_units)) / np.sqrt(max(n_features, 1)),
            np.zeros((n_networks, 1, n_units)),
            0.1 * rng.normal(size=(n_networks, n_units, n_classes)) / np.sqrt(n_units),
            log_shares[:, None],
        ]
        return cls([a.astype(np.float32) for a in theta], activation)

    @property
    def named_theta(self):
        """Parameters, keyed by their positions in ``theta``."""
        return dict(enumerate(self.theta))

    def log_proba(self, F, network=slice(None)):
        """Return ``log p(y | x)`` of each row under some networks.

        The result has shape (n_networks, n_rows, n_classes), or (n_rows, n_classes) if ``network``
        is an int.
        """
        W, b, V, c = (a[network] for a in self.theta)
        return log_softmax(activate(F @ W + b, self.activation) @ V + c, axis=-1)

    def gradient(self, F, targets, weights):
        """Return the gradient of the weighted log loss of each network.

        Parameters
        ----------
        F : ndarray of shape (n_rows, n_features) or (n_networks, n_rows, n_features)
            Features.
        targets : ndarray of shape (n_rows, n_classes)
            One-hot labels.
        weights : ndarray of shape (n_networks, n_rows)
            Weights of the rows.

        Returns
        -------
        list of ndarray
            Gradient, shaped like ``theta``.
        """
        W, b, V, c = self.theta
        h = activate(F @ W + b, self.activation)
        scores = h @ V + c
        scores -= scores.max(axis=-1, keepdims=True)
        p = np.exp(scores, out=scores)
        p /= p.sum(axis=-1, keepdims=True)
        p -= targets
        p *= weights[..., None]
        back = p @ V.transpose(0, 2, 1)
        back *= activation_slopes(h, self.activation)
        return [
            F.swapaxes(-1, -2) @ back,
            back.sum(axis=1, keepdims=True),
            h.transpose(0, 2, 1) @ p,
            p.sum(axis=1, keepdims=True),
        ]


@dataclass(frozen=True)
class NetworkSettings:
    """Settings of the training of networks; see the parameters of the classifier."""

    activation: str
    n_units: int
    learning_rate: float
    weight_decay: float
    batch_size: int
    max_iter: int
    n_iter_no_change: int


class NetworkMember:
    """Networks that were learned without one fold each; their mean score is the prediction.

    Attributes
    ----------
    networks : Networks
        Networks.
    held_out : ndarray of shape (n_rows, n_classes)
        Log-probabilities of training rows by networks that were learned without their folds.
    n_iter : int
        Number of epochs.
    converged : bool
        Whether training ended before the maximum number of epochs.
    """

    def __init__(self, networks, held_out, n_iter, converged):
        self.networks, self.held_out, self.n_iter = networks, held_out, n_iter
        self.converged = converged

    def log_proba(self, F):
        """Return ``log p(y | x)`` of each row, shape (n_rows, n_classes)."""
        F = F.astype(np.float32)
        blocks = [F[..., s : s + BLOCK_SIZE, :] for s in range(0, F.shape[-2], BLOCK_SIZE)] or [F]
        means = [self.networks.log_proba(block).mean(axis=0) for block in blocks]
        return log_softmax(np.concatenate(means).astype(float), axis=-1)


def held_out_logs(networks, F, rows):
    """Return the log-probabilities of each row by the network of the fold that leaves it out."""
    logs = np.zeros(rows.targets.shape)
    for k in range(rows.n_folds):
        left = np.flatnonzero(rows.folds == k)
        logs[left] = networks.log_proba(F[left] if F.ndim == 2 else F[k, left], k)
    return logs


def learn_networks(F, rows, settings, seed):
    """Learn one network for each fold, by Adam, and stop early by the rows that are left out.

    When the held-out loss has not improved for ``n_iter_no_change`` epochs, training continues once
    from the best networks with a smaller learning rate.

    Parameters
    ----------
    F : ndarray of shape (n_rows, n_features) or (n_folds, n_rows, n_features)
        Features.
    rows : LabelRows
        Labels, weights and folds.
    settings : NetworkSettings
        Settings.
    seed : int
        Seed of initial values and minibatches.

    Returns
    -------
    NetworkMember
        Networks with the best held-out loss.
    """
    rng, F = np.random.default_rng(seed), F.astype(np.float32)
    n, total = F.shape[-2], rows.weights.sum()
    weights = rows.weights * (rows.folds != np.arange(rows.n_folds)[:, None])
    shares = np.stack([rows._replace(weights=w).log_shares() for w in weights])
    networks = Networks.random(F.shape[-1], settings.n_units, shares, settings.activation, rng)
    weights = (weights * n / total).astype(np.float32)
    data = F, rows.targets.astype(np.float32), weights
    decay = min(settings.weight_decay / total, 1.0)
    rate, state = settings.learning_rate, ADAM.init(networks.named_theta)
    best, n_rates, since, converged = (np.inf, None, None), 1, 0, False
    for n_epochs in range(1, settings.max_iter + 1):  # noqa: B007
        state = train_epoch(networks, state, data, settings.batch_size, rate, decay, rng)
        logs = held_out_logs(networks, F, rows)
        loss = rows.held_out_loss(logs)
        since += 1
        if loss < best[0] - 1e-5:
            best, since = (loss, [a.copy() for a in networks.theta], logs), 0
        elif since >= settings.n_iter_no_change or not loss < MAX_LOSS_RATIO * best[0] + 1e-3:
            if n_rates == N_RATES or best[1] is None:
                converged = True
                break
            n_rates, since = n_rates + 1, 0
            networks.theta = [a.copy() for a in best[1]]
            rate, state = RATE_FACTOR * rate, ADAM.init(networks.named_theta)
    theta = networks.theta if best[1] is None else best[1]
    logs = held_out_logs(networks, F, rows) if best[2] is None else best[2]
    return NetworkMember(Networks(theta, settings.activation), logs, n_epochs, converged)


def train_epoch(networks, state, data, batch_size, rate, decay, rng):
    """Update the networks with each minibatch of an epoch, and return the new state of Adam.

    Weight decay is decoupled from the gradient, and not applied to biases.
    """
    F, targets, weights = data
    order = rng.permutation(F.shape[-2])
    n_batches = -(-len(order) // batch_size)
    for b in range(n_batches):
        batch = order[b::n_batches]
        share = weights[:, batch] / len(batch)
        gradient = dict(enumerate(networks.gradient(F[..., batch, :], targets[batch], share)))
        for weight in networks.theta[::2]:
            weight *= 1 - rate * decay
        # The optimizer ascends, so the rate is negative.
        theta, _, state = ADAM.step(networks.named_theta, gradient, -rate, state)
        networks.theta = list(theta.values())
    return state


def learn_mapping(kind, F, kept, centers):
    """Return the features of a member that is not a network, learned from rows.

    Radial functions have rows as centres. More than 300 features of quadratic potentials are
    projected on their 300 principal axes.
    """
    mapping = None
    if kind.potential == "radial":
        mapping = RadialFeatures(centers[:, kept], kind.width)
    elif kind.potential == "quadratic" and F[:, kept].shape[1] > MAX_AXES:
        mapping = PrincipalAxes(F[:, kept], MAX_AXES)
    return SelectedFeatures(kept, mapping)


def features_of_folds(kind, F, rows, kept, centers):
    """Return the features of a member that is not a network, and its features for each fold.

    The parameters are those of :func:`learn_member`. Relevant features and principal axes of a fold
    depend on the rows that it keeps. If they were learned from all rows, they would contain the
    rows that are left out, but not new rows.
    """
    everything = slice(None)
    mapping = learn_mapping(kind, F, everything if kept is None else kept[-1], centers)
    if kept is None and not isinstance(mapping.mapping, PrincipalAxes):
        return mapping, [mapping.transform(F)] * rows.n_folds
    parts = []
    for k in range(rows.n_folds):
        own = everything if kept is None else kept[k]
        parts.append(learn_mapping(kind, F[rows.folds != k], own, centers).transform(F))
    return mapping, parts


def learn_member(kind, F, rows, kept, given, settings, seed):
    """Learn a member.

    Parameters
    ----------
    kind : Kind
        Kind of potentials.
    F : ndarray of shape (n_rows, n_features)
        Features of the set of the member.
    rows : LabelRows
        Labels, weights and folds.
    kept : list of ndarray of int, or None
        Positions of relevant features, for each fold and for all rows. None for all features.
    given : ndarray or None
        Centres of radial functions, or for networks the rows on which members are compared.
    settings : NetworkSettings, or tuple
        Settings of networks, or strengths of the penalty and number of iterations.
    seed : int or None
        Seed of networks.

    Returns
    -------
    mapping : SelectedFeatures, FoldFeatures or None
        Features of the member. Networks of all columns have None.
    member : ConvexMember, QuadraticMember or NetworkMember
        Learned member. ``held_out`` has the rows on which members are compared.
    """
    with one_blas_thread:  # threads slow down small matrix products
        if kind.potential in NETWORKS:
            mapping = None if kept is None else FoldFeatures(kept[:-1])
            F = F if mapping is None else mapping.transform(F)
            member = learn_networks(F, rows, settings, seed)
            member.held_out = member.held_out[given]
            return mapping, member
        mapping, parts = features_of_folds(kind, F, rows, kept, given)
        F = mapping.transform(F)
        if kind.potential == "quadratic":
            return mapping, learn_quadratic(F, parts, rows)
        return mapping, learn_convex(F, parts, rows, *settings)
