"""Potentials of densities of tables: Gaussian, or neural networks."""

from typing import Any, NamedTuple

from sklearn.base import BaseEstimator

from ..._utils.parameters import check_choice, check_number, check_number_or
from ...energies import NeuralEnergy
from ...learners import BeliefLearner
from ...learners.registry import make_learner

DENSITIES = "mixture", "mrf"
MAX_BASE = 1e6  # a larger one makes networks vanish in the rounding of the base


class GaussianPotentials(BaseEstimator):
    r"""Gaussian potentials of ``NNMRFDensity``: the density is a Gaussian mixture.

    The potentials of a class of a hidden variable are a Gaussian of the transformed numbers and a
    table of probabilities for each column with categories. Expectation-maximisation learns them.
    Held-out rows select the degrees of freedom of Student t distributions, which are mixtures of
    Gaussians of the same mean for each class. Densities, imputation and draws are exact for this
    mixture.

    Parameters
    ----------
    n_components : "auto" or int, default="auto"
        Number of classes of the hidden variable, at least 1. "auto" selects it by held-out rows.
        The fitted model is the average of two such mixtures. With "auto" and a table of numbers and
        categories, a conditional Gaussian distribution can be added.

    See Also
    --------
    NetworkPotentials : Potentials that are neural networks.
    NNMRFDensity : Estimator that takes an instance as ``potentials``.

    References
    ----------
    A. P. Dempster, N. M. Laird and D. B. Rubin, "Maximum likelihood from incomplete data via the EM
    algorithm", Journal of the Royal Statistical Society B 39 (1977).

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from skmrf import GaussianPotentials, NNMRFDensity
    >>> X = load_iris().data
    >>> model = NNMRFDensity(GaussianPotentials(n_components=3), random_state=0).fit(X)
    >>> bool(model.score(X) > -2)
    True
    """

    def __init__(self, n_components="auto"):
        self.n_components = n_components

    def _check(self):
        """Raise a ValueError unless the parameters are valid."""
        check_number_or(("auto",), "n_components", self.n_components, low=1, integer=True)


class NetworkPotentials(BaseEstimator):
    r"""Neural-network potentials of ``NNMRFDensity`` and ``NNMRFBayesClassifier``.

    Each column has a small network, and so has each pair of columns that a graph joins. The
    networks are learned by maximum likelihood.

    Parameters
    ----------
    graph : str, networkx.Graph or list of pairs, default="complete"
        Pairs of columns that share a network.

        - "complete": all pairs. It is slow with more than about 60 columns.
        - "tree": the spanning tree with the largest absolute correlations.
        - "knn": each column with the five columns of largest absolute correlation.
        - "grid": the columns are the pixels of a square, row by row. Neighbouring pixels are pairs.
        - "empty": no pairs.
        - A networkx graph or a list of pairs. Nodes are column names or positions.

        In ``NNMRFBayesClassifier``, "tree" and "knn" use the rows of each class.
    learner : {"variational", "grid"} or instance, default="variational"
        Estimator of the gradient of the log-likelihood. "variational" is
        :class:`~skmrf.learners.Variational`. "grid" is :class:`~skmrf.learners.Grid`, the exact
        gradient for at most three continuous columns. An instance of these classes has its own
        parameters.
    node_layers : tuple of int, default=(8, 8)
        Number of hidden units (SELU) of each layer in the network of a column.
    edge_layers : tuple of int, default=(8, 8)
        Number of hidden units (SELU) of each layer in the network of a pair of columns.
    base : "gaussian" or float, default="gaussian"
        Quadratic term of the continuous columns. "gaussian" is the quadratic term of a Gaussian: it
        has the covariances of the training rows on the edges of the graph, and no other
        interactions. A float ``a`` in (0, 1e6] means ``-a * sum(x**2)`` for standardised columns.
        The paper uses 0.01.
    prior_covariance : array-like of shape (n_numbers, n_numbers), optional
        Target of the shrinkage of the covariance. It has a row for each of the ``n_numbers``
        continuous columns, in the units of the columns, and must be positive definite. By default
        it is the diagonal of the covariance, and in ``NNMRFBayesClassifier`` the pooled
        within-class covariance. It needs ``base="gaussian"``.
    shrinkage : "auto" or float, default="auto"
        Weight of the target in the shrunk covariance, from 0 to 1. "auto" selects it by five-fold
        cross-validation of the Gaussian log-likelihood, and in ``NNMRFBayesClassifier`` it
        selects one weight for all classes. Smaller weights are raised to about 0.01 times the
        number of continuous columns divided by the number of rows. A float needs
        ``base="gaussian"``.
    density : {"mixture", "mrf"}, default="mixture"
        Distribution that is scored and sampled. "mixture" is a mixture that approximates the
        learned model and is normalised exactly. "mrf" is the learned model itself, with an estimate
        of log Z. During fit, it is the distribution whose score on held-out rows early stopping
        uses. It can be changed after fit: by ``set_params(potentials__density="mrf")`` of an
        estimator whose ``potentials`` is an instance of this class, or else by
        ``set_params(potentials=NetworkPotentials(density="mrf"))``.
    optimizer : {"auto", "adam", "sgd", "momentum", "lbfgs"} or instance, default="auto"
        Optimizer of the networks. "auto" is Adam. "lbfgs" needs ``learner="grid"`` and rows without
        missing entries; with the penalties "l1" and "group-l1" it is FISTA. An instance of an
        optimizer of :mod:`skmrf.training` has its own parameters.
    learning_rate : str, float or schedule, default="adaptive"
        Learning rate. With "adaptive" and held-out rows, the rate is halved whenever the gradient
        is only noise. With "adaptive" and no held-out rows, it is halved after 200 updates, and
        training ends after 500. In ``NNMRFBayesClassifier``, the networks of a class then end after
        100 epochs, if these have fewer updates and the other parameters of training have their
        default values. Its first value is 0.03 for Adam and momentum, and 0.1 for SGD.
        "constant" keeps the first rate, "step" halves it every 1000 updates, and "inverse" divides
        it by ``1+t/100`` after t updates. Their first rate is 0.03 for Adam, 0.1 for SGD and 0.02
        for momentum. A float is a constant rate. An instance of a schedule of :mod:`skmrf.training`
        has its own parameters.
    penalty : {"l2", "l1", "elasticnet", "group-l1"}, default="l2"
        Penalty on the weights of the networks. Biases and scales of the networks are not penalised.
        With "group-l1" each network is a group. "elasticnet" is the mean of "l1" and "l2".
    alpha : "auto" or float, default="auto"
        Strength of the penalty. ``alpha`` times the penalty is subtracted from the mean
        log-likelihood of a row in nats. "auto" is 1 divided by the number of training rows, in
        ``NNMRFBayesClassifier`` by that of the class. With "l2" this corresponds to a normal
        prior of the weights with precision 1.
    batch_size : int, default=100
        Number of rows in a minibatch.
    max_iter : int, optional
        Maximum number of epochs. By default training continues until it converges, with at most
        3000 updates. With the default learning rate and no held-out rows, it ends after about 500
        updates, in ``NNMRFBayesClassifier`` after at most 100 epochs.
    tol : float, default=1e-6
        Tolerance of deterministic solvers. They stop when no entry of the gradient is larger in
        absolute value.
    average : bool, default=True
        Whether to return the weighted mean of the iterates since the last change of the learning
        rate, instead of the last iterate. Later iterates have larger weights. It has no effect with
        the penalties "l1" and "group-l1", or with a deterministic solver.
    early_stopping : bool or "auto", default="auto"
        Whether to hold out rows, to stop when their score no longer improves, and to keep the model
        with the best score. The score is the mean log-likelihood of the distribution that
        ``density`` selects. "auto" holds rows out if there are at least 500, unless the optimizer
        is "lbfgs". ``NNMRFBayesClassifier`` holds out rows of each class.
    validation_fraction : float, default=0.1
        Share of the rows that early stopping holds out, above 0 and at most 0.9.
    n_iter_no_change : int, default=5
        Number of epochs without a better score after which early stopping ends training. These
        epochs must also have at least 300 updates.
    max_bytes : float, default=4 * 2**30
        Maximum memory in bytes of the parameters during training, in
        ``NNMRFBayesClassifier`` of those of one density. The default is 4 GiB.
    warm_start : bool, default=False
        Whether :meth:`~skmrf.NNMRFDensity.fit` continues training from the previous fit. The graph,
        the networks' layers, the quadratic term and the categories must be the same.
        ``NNMRFBayesClassifier`` cannot continue training, and raises an error if it is True.

    See Also
    --------
    GaussianPotentials : Potentials of a mixture of Gaussians, which is faster.
    NNMRFDensity : Density that takes an instance as ``potentials``.
    NNMRFBayesClassifier : Classifier that takes an instance as ``potentials``.

    References
    ----------
    H. Xiong and N. Ruozzi, "General purpose MRF learning with neural network potentials", IJCAI
    2020, section 3.

    Examples
    --------
    A grid search sets the parameters by the prefix ``potentials__``:

    >>> from sklearn.datasets import load_iris
    >>> from sklearn.model_selection import GridSearchCV
    >>> from skmrf import NetworkPotentials, NNMRFDensity
    >>> X = load_iris().data
    >>> model = NNMRFDensity(NetworkPotentials(max_iter=20), random_state=0)
    >>> search = GridSearchCV(model, {"potentials__graph": ["tree", "empty"]}, cv=2).fit(X)
    >>> search.best_params_
    {'potentials__graph': 'tree'}
    """

    _energy_type = NeuralEnergy
    _learner_kind = BeliefLearner

    def __init__(
        self,
        graph="complete",
        learner="variational",
        *,
        node_layers=(8, 8),
        edge_layers=(8, 8),
        base="gaussian",
        prior_covariance=None,
        shrinkage="auto",
        density="mixture",
        optimizer="auto",
        learning_rate="adaptive",
        penalty="l2",
        alpha="auto",
        batch_size=100,
        max_iter=None,
        tol=1e-6,
        average=True,
        early_stopping="auto",
        validation_fraction=0.1,
        n_iter_no_change=5,
        max_bytes=4 * 2**30,
        warm_start=False,
    ):
        self.graph = graph
        self.learner = learner
        self.node_layers = node_layers
        self.edge_layers = edge_layers
        self.base = base
        self.prior_covariance = prior_covariance
        self.shrinkage = shrinkage
        self.density = density
        self.optimizer = optimizer
        self.learning_rate = learning_rate
        self.penalty = penalty
        self.alpha = alpha
        self.batch_size = batch_size
        self.max_iter = max_iter
        self.tol = tol
        self.average = average
        self.early_stopping = early_stopping
        self.validation_fraction = validation_fraction
        self.n_iter_no_change = n_iter_no_change
        self.max_bytes = max_bytes
        self.warm_start = warm_start

    def _check(self):
        """Raise a ValueError unless the parameters of the model are valid.

        The estimator checks the parameters of training.
        """
        check_choice("density", self.density, DENSITIES)
        for name in ("node_layers", "edge_layers"):
            _check_layers(name, getattr(self, name))
        check_number_or(("gaussian",), "base", self.base, low=0, high=MAX_BASE, open_low=True)
        check_number_or(("auto",), "alpha", self.alpha, low=0)
        check_number_or(("auto",), "shrinkage", self.shrinkage, low=0, high=1)
        has_shrinkage = self.prior_covariance is not None or self.shrinkage != "auto"
        if has_shrinkage and self.base != "gaussian":
            raise ValueError(
                "prior_covariance and shrinkage of NetworkPotentials describe the covariance of "
                f'base="gaussian"; got base={self.base!r}. Leave both at their defaults, or set '
                'base="gaussian".'
            )

    def _make_learner(self, owner):
        """Return the learner object, or raise an error that names the estimator ``owner``."""
        return make_learner(self.learner, self._energy_type, kind=self._learner_kind, owner=owner)


class TrainingPlan(NamedTuple):
    """Networks of classes whose training has a limited number of operations.

    Attributes
    ----------
    networks : NetworkPotentials
        Parameters of the networks.
    max_updates : int or None
        Largest number of updates of a class. None: no limit.
    n_trials : int
        Number of trials on different held-out rows.
    longer : TrainingPlan or None
        Training with more updates, for networks that are clearly better than Gaussians.
    """

    networks: NetworkPotentials
    max_updates: int | None = None
    n_trials: int = 0
    longer: Any = None


def _check_layers(name, layers):
    """Raise a ValueError unless there is at least one layer, each with at least one unit."""
    if not isinstance(layers, tuple | list) or not layers:
        raise ValueError(
            f"{name} must be a tuple with the number of units of each hidden layer, at least one "
            f"layer; got {layers!r}."
        )
    for width in layers:
        check_number(name, width, low=1, integer=True)


#: Class of each kind of potentials, keyed by its name.
POTENTIALS = {"gaussian": GaussianPotentials, "network": NetworkPotentials}


def make_potentials(potentials, owner, names=tuple(POTENTIALS), choices=()):
    """Return the potentials of the given name; an instance is returned unchanged.

    Parameters
    ----------
    potentials : str, GaussianPotentials or NetworkPotentials
        Parameter of the estimator. A name is an instance with default parameters.
    owner : str
        Name of the estimator, for error messages.
    names : tuple of str, default=("gaussian", "network")
        Kinds of potentials that the estimator accepts.
    choices : tuple of str, default=()
        Other names that the estimator accepts. They give the parameters of the first kind.

    Returns
    -------
    GaussianPotentials or NetworkPotentials
        Potentials with their parameters.
    """
    classes = [POTENTIALS[name] for name in names]
    if isinstance(potentials, str) and potentials in (*names, *choices):
        return POTENTIALS.get(names[0] if potentials in choices else potentials)()
    if isinstance(potentials, tuple(classes)):
        return potentials
    raise ValueError(
        f"potentials of {owner} must be {' or '.join(map(repr, (*choices, *names)))}, or an "
        f"instance of {' or '.join(c.__name__ for c in classes)}; got {potentials!r}."
    )
