"""Conditional random fields for labels of sequences, images and graphs."""

from sklearn.base import clone
from sklearn.callback import with_callbacks
from sklearn.utils import ClassifierTags

from .._data.classes import LabelCodes, check_given
from .._data.numeric import FeatureScaling
from .._data.sequences import as_list, flatten_labels, has_dicts, read_examples
from .._data.vectorizer import SequenceVectorizer
from .._utils.log_weights import check_sample_weight, normalized_weights
from .._utils.parameters import check_choice, check_number_or
from ..energies.crf import CRFEnergy
from ..learners.crf import GraphLearner
from ..learners.registry import make_learner
from ..likelihood import label_graphs
from ..training import loop
from ._base import LearnedEstimator, unchanged_on_error
from ._crf_queries import CRFQueries
from ._crf_training import (
    check_edge_features,
    choose_alpha,
    default_alpha,
    encode_labels,
    held_out_score,
    initial_energy,
    keep_known,
    make_settings,
)
from ._session import FitSession
from ._training import TrainingParameters, hold_out

GRAPHS = "chain", "second-order chain", "tree", "grid", "given"


class CRF(CRFQueries, LearnedEstimator):
    r"""Conditional random field: joint prediction of the labels of sequences, images or graphs.

    .. math:: p(y | x) \propto \exp\Big(\sum_i (x_i^\top W + b)_{y_i}
        + \sum_{ij} (z_{ij}^\top T)_{y_i y_j}\Big)

    Each position i of an example has features :math:`x_i` and a label :math:`y_i`. The second sum
    is over the neighbours in a graph, for sequences over successive positions. The features
    :math:`z_{ij}` of an edge are 1 by default. Chains also have weights of the first and of the
    last label. On a table without ``sequence_ids``, each row is a sequence of length one, and the
    model is a multinomial logistic regression.

    The scale of the features does not matter: training standardises dense features, and maps
    features with two values to 0 and 1. Sparse features with zeros are divided by the root mean
    square of their nonzero values. Features of edges are centred only if a column of them is
    constant, or if indicators among them sum to 1. The fitted weights are those of the given
    features.

    Parameters
    ----------
    graph : {"chain", "second-order chain", "tree", "grid", "given"}, default="chain"
        Graph of the positions of an example.

        - "chain": successive positions are neighbours.
        - "second-order chain": three successive labels interact. The time of a fit is proportional
          to the fourth power of the number of labels.
        - "grid": pixels of an image and their right and lower neighbours. The transitions of both
          directions have different weights.
        - "tree" and "given": each example has its own edges. "tree" accepts no cycles.
    learner : str or instance, default="auto"
        Learning algorithm. An instance of a class of :mod:`skmrf.learners` has its own parameters.

        - "exact": maximum likelihood with exact inference.
        - "bp": maximum likelihood with loopy belief propagation, for graphs with cycles.
        - "pseudo-likelihood": product of the probabilities of each label given its neighbours.
        - "ssvm": structured support vector machine.
        - "perceptron": averaged structured perceptron.
        - "auto": "exact", or "bp" for graphs with cycles that are not small.
    optimizer : {"auto", "lbfgs", "sgd", "momentum", "adam"} or instance, default="auto"
        Optimizer of the parameters. "auto" is "lbfgs", or "sgd" for the perceptron. With a penalty
        other than "l2", "lbfgs" is FISTA. The solver of the structured support vector machine is
        block-coordinate Frank-Wolfe in the place of L-BFGS; without the penalty "l2" or with
        missing labels, "auto" is "adam".
    learning_rate : str, float or schedule, default="adaptive"
        Learning rate of optimizers other than "lbfgs". "adaptive" halves the rate whenever the
        gradient is only noise; the perceptron uses 1. "constant", "step" and "inverse" are other
        schedules. A float is a constant rate.
    penalty : {"l2", "l1", "elasticnet", "group-l1"}, default="l2"
        Penalty on all parameters but the intercept. The parameters are those of scaled features.
        The solver of "ssvm" also penalises the intercept. "elasticnet" is the mean of "l1" and
        "l2". "group-l1" has one group of all parameters.
    alpha : float or "auto", default="auto"
        Strength of the penalty, which is subtracted from the mean log-likelihood of an example in
        nats. The penalty "l2" is ``alpha / 2`` times the sum of squares. "auto" chooses the
        strength by the log-likelihood of held-out examples. Fewer than 50 examples without cycles
        are divided for a cross-validation, and fewer than 5 chains are cut into parts. With fewer
        than 30 labels, the strength is at least 2 divided by the number of examples. Learners
        without likelihood, a single tree, and fits to fewer than 10 graphs with cycles use 2
        divided by the number of examples. The perceptron has no penalty by default.
    feature_labels : {"auto", "all", "observed"}, default="auto"
        Pairs of a feature and a label that have a weight: all pairs, or those that occur in the
        training examples. "auto" is "observed" for sparse features with more than a million pairs.
        Dense features always have all pairs.
    batch_size : int, default=20
        Number of examples in a minibatch of optimizers other than "lbfgs".
    max_iter : int, optional
        Maximum number of epochs, or of iterations of "lbfgs". By default training continues until
        it converges; the perceptron stops after 20 epochs.
    tol : float, default=1e-4
        Tolerance of "lbfgs". It stops if no entry of the gradient is larger in absolute value, or
        if the objective increases by less than ``1000 tol**2`` in three successive iterations, and
        no entry is larger than ``2 tol`` times the mean number of positions of an example (at least
        10). The solver of "ssvm" stops if the duality gap is at most ``500 tol`` times the loss at
        zero parameters.
    average : bool, default=True
        Whether to return the mean of the iterates since the last change of the learning rate. It
        has no effect with "lbfgs".
    early_stopping : bool, default=False
        Whether to hold out examples, and to stop when their score no longer improves.
    validation_fraction : float, default=0.1
        Share of the examples that early stopping holds out, above 0 and at most 0.9.
    n_iter_no_change : int, default=5
        Number of epochs without a better score after which early stopping ends training.
    max_bytes : float, default=4 * 2**30
        Maximum memory in bytes of the parameters during training. The default is 4 GiB.
    warm_start : bool, default=False
        Whether :meth:`fit` continues training from the previous fit, with its scales of the
        features. The solver of "ssvm" starts at zero.
    n_jobs : int, optional
        Number of threads that compute chunks of examples: 50,000 positions of chains and trees, or
        5,000 positions of graphs with cycles. It has no effect on the results.
    random_state : int, RandomState, Generator or None, default=None
        Random numbers of minibatches and of held-out examples. An int makes fits reproducible.
    verbose : int, default=0
        Amount of progress messages. 0: none. 1: a line every few seconds. 2: a line per epoch.

    Attributes
    ----------
    classes_ : ndarray of shape (n_labels,)
        Labels, sorted if possible.
    energy_ : CRFEnergy
        Fitted model.
    alpha_ : float
        Strength of the penalty. None if the model was read from a file.
    alpha_path_ : dict of str to ndarray, or None
        Path of ``alpha="auto"``: "alphas", the strengths, and "log_likelihoods", the held-out
        log-likelihoods of an example in nats. None if the strength was not chosen by held-out
        examples.
    learner_ : GraphLearner
        Learner that was used.
    vectorizer_ : SequenceVectorizer or None
        Vocabulary of features. None unless the features are dicts. A model that was read from a
        file has another vectorizer.
    history_ : dict of lists
        Diagnostics of training: one list per quantity, with one entry per epoch.
    n_iter_ : int
        Number of epochs or iterations.
    converged_ : bool
        Whether training converged.
    n_features_in_ : int
        Number of features of a position.
    feature_names_in_ : ndarray of shape (n_features,)
        Names of the columns seen during fit. It exists only if all names are strings.

    See Also
    --------
    skmrf.SequenceVectorizer : Features from windows and conjunctions.
    skmrf.metrics.sequence_scores : Accuracy and F1 of spans.
    skmrf.CRBMStructuredPredictor : Many binary outputs in a fixed order.

    References
    ----------
    J. Lafferty, A. McCallum and F. Pereira, "Conditional random fields: probabilistic models for
    segmenting and labeling sequence data", ICML 2001.

    Examples
    --------
    >>> from skmrf import CRF
    >>> X = [[{"word": "a"}, {"word": "cat"}], [{"word": "the"}, {"word": "dog"}, {"word": "ran"}]]
    >>> y = [["DET", "NOUN"], ["DET", "NOUN", "VERB"]]
    >>> model = CRF(alpha=0.01).fit(X, y)
    >>> model.predict([[{"word": "the"}, {"word": "cat"}, {"word": "ran"}]])
    [array(['DET', 'NOUN', 'VERB'], dtype='<U4')]
    """

    _energy_type = CRFEnergy
    _learner_kind = GraphLearner

    def __init__(
        self,
        graph="chain",
        learner="auto",
        *,
        optimizer="auto",
        learning_rate="adaptive",
        penalty="l2",
        alpha="auto",
        feature_labels="auto",
        batch_size=20,
        max_iter=None,
        tol=1e-4,
        average=True,
        early_stopping=False,
        validation_fraction=0.1,
        n_iter_no_change=5,
        max_bytes=4 * 2**30,
        warm_start=False,
        n_jobs=None,
        random_state=None,
        verbose=0,
    ):
        self.graph = graph
        self.learner = learner
        self.optimizer = optimizer
        self.learning_rate = learning_rate
        self.penalty = penalty
        self.alpha = alpha
        self.feature_labels = feature_labels
        self.batch_size = batch_size
        self.max_iter = max_iter
        self.tol = tol
        self.average = average
        self.early_stopping = early_stopping
        self.validation_fraction = validation_fraction
        self.n_iter_no_change = n_iter_no_change
        self.max_bytes = max_bytes
        self.warm_start = warm_start
        self.n_jobs = n_jobs
        self.random_state = random_state
        self.verbose = verbose

    @with_callbacks
    def fit(self, X, y, sample_weight=None, *, sequence_ids=None):
        """Learn the weights of features and transitions.

        Parameters
        ----------
        X : list, array-like, sparse matrix or frame
            Examples. For chains: a list of arrays or CSR matrices of shape (length, n_features), a
            list of lists of dicts, or a table of rows. A Series of sequences is a list. For grids:
            a list of arrays of shape (height, width, n_features). For trees and given graphs: a
            list of tuples ``(node_features, edges)`` or ``(node_features, edges, edge_features)``.
        y : list of array-like, or array-like of shape (n_rows,)
            Labels of each example, of any hashable type, in the shape of its positions. None, nan
            and pd.NA are missing labels, which are summed out.
        sample_weight : array-like of shape (n_examples,), optional
            Non-negative weight of each example. By default all examples have the same weight.
        sequence_ids : array-like of shape (n_rows,), optional
            Sequence of each row, if X is a table. By default each row is a sequence of length one.

        Returns
        -------
        self
            The fitted estimator.

        Raises
        ------
        ValueError
            If an example has labels or features of the wrong shape, is empty, or has an edge to a
            node that does not exist. The message names the example.
        """
        with unchanged_on_error(self):
            parameters = self._check_parameters()
            check_given(self, y)
            session = FitSession(self, parameters, X, y)
            vectorizer, X = self._vectorize(as_list(X), session.is_resumed)
            examples = read_examples(
                self, X, sequence_ids, graph=self.graph, reset=not session.is_resumed
            )
            labels = flatten_labels(y, examples)
            codes = self._codes if session.is_resumed else LabelCodes.of(labels)
            weights = check_sample_weight(sample_weight, len(examples.graphs))
            graphs = examples.graphs.with_labels(encode_labels(codes, labels))
            if session.is_resumed:
                graphs = check_edge_features(session.energy, graphs)
            data = keep_known(graphs, weights)
            learner = self._choose_learner(data.X, len(codes.classes))
            if not session.is_resumed:
                session.energy = self._initial_energy(data.X, codes, parameters)
            scaling, data = self._scale(session, data)
            session.begin(data, codes.classes)
            data, held_out = hold_out(data, parameters, session.rng)
            with session.parallel():
                alpha, path = self._choose_alpha(session, learner, data, parameters)
            score = None if held_out is None else held_out_score(learner, held_out)
            settings = make_settings(parameters, learner, session.energy, data, alpha, score)

            def attributes(state):
                found = session.attributes(state)
                return found | {
                    "energy_": scaling.fold(found["energy_"]),
                    "alpha_": alpha,
                    "alpha_path_": path,
                    "classes_": codes.classes,
                    "learner_": clone(learner),
                    "vectorizer_": vectorizer,
                    "_codes": codes,
                    "_has_sequences": bool(graphs.node_ptr[-1] > len(graphs)),
                    "_scaling": scaling,
                }

            state = loop.train(session, learner, data, settings, attributes)
            vars(self).update(attributes(state))
        return self

    def _check_parameters(self):
        check_choice("graph", self.graph, GRAPHS)
        check_choice("feature_labels", self.feature_labels, ("auto", "all", "observed"))
        check_number_or(("auto",), "alpha", self.alpha, low=0)
        return TrainingParameters.of(self)

    def _vectorize(self, X, is_resumed):
        """Return the vocabulary of dicts of features, and the features as numbers."""
        if not has_dicts(X):
            return None, X
        X = [[x] for x in X] if isinstance(X[0], dict) else X
        if is_resumed:
            return self.vectorizer_, self.vectorizer_.transform(X)
        vectorizer = SequenceVectorizer()
        return vectorizer, vectorizer.fit_transform(X)

    def _choose_learner(self, graphs, n_labels):
        name = self.learner
        if isinstance(name, str) and name == "auto":
            name = "exact" if label_graphs.is_tractable(graphs, n_labels) else "bp"
        if self.graph == "tree" and graphs.trees is None:
            raise ValueError('graph="tree" needs graphs without cycles; use graph="given".')
        return make_learner(
            name, self._energy_type, kind=self._learner_kind, owner="CRF", others=("auto",)
        )

    def _initial_energy(self, graphs, codes, parameters):
        energy = initial_energy(graphs, len(codes.classes), self.graph, self.feature_labels)
        n_parameters = sum(v.size for v in energy.theta.values())
        remedy = 'Use fewer features, feature_labels="observed", or raise max_bytes.'
        parameters.check_memory(n_parameters, "weights", remedy)
        return energy

    def _scale(self, session, data):
        """Return the scaling of the features, and the examples with scaled features."""
        scaling = self._scaling if session.is_resumed else None
        if scaling is None:
            scaling = FeatureScaling.of(data.X, normalized_weights(data.log_weights, len(data.X)))
        if session.is_resumed and session.previous is None:
            session.energy = scaling.unfold(session.energy)
        return scaling, data._replace(X=scaling.apply(data.X))

    def _choose_alpha(self, session, learner, data, parameters):
        """Return the strength of the penalty and its path; set the energy to start at."""
        if not isinstance(self.alpha, str):
            return float(self.alpha), None
        if session.is_resumed and self.alpha_ is not None:
            return self.alpha_, self.alpha_path_
        if not learner.has_margin:
            return 0.0, None
        is_solved = learner.deterministic and self.optimizer in ("auto", "lbfgs")
        if not (is_solved and learner.has_probabilities):
            return default_alpha(len(data.X)), None
        rng = session.rng.spawn(1)[0]
        chosen = choose_alpha(learner, session.energy, data, parameters, rng)
        alpha, path, session.energy, session.is_interrupted = chosen
        return alpha, path

    def __sklearn_tags__(self):
        """Return the scikit-learn tags of the estimator."""
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        tags.target_tags.required = True
        tags.classifier_tags = ClassifierTags()
        return tags
