"""CRBMStructuredPredictor: many binary outputs given inputs, tied together by hidden units."""

import numpy as np
from sklearn.base import ClassifierMixin, MultiOutputMixin, clone
from sklearn.callback import with_callbacks
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import check_is_fitted

from .._data.numeric import numeric_rows
from .._data.scaling import scaled, scaler_of
from .._data.targets import OutputEncoder, two_labels
from .._utils.batch import Batch
from .._utils.log_weights import check_sample_weight
from .._utils.parameters import check_auto, check_number
from .._utils.randomness import check_generator
from .._utils.rows import dense_rows
from ..energies import ConditionalBipartiteEnergy
from ..learners import ConditionalLearner
from ..training import AdaptiveRate, initial_values
from ..training.settings import Settings
from ..variational.bipartite import check_weights, unit_probabilities
from ._base import LearnedEstimator, unchanged_on_error
from ._output_odds import log_odds, output_score
from ._rows import hold_out, sample_weights, weighted_rows
from ._session import FitSession
from ._training import TrainingParameters

FEWEST = 200  # rows of which some are held out
PLATEAU = 2000  # updates without a better score, at least, before stopping early
RATES = {"sgd": 0.1, "momentum": 0.01, "adam": 0.001}
WINDOW, COSINE, N_HALVINGS = 1000, 0.0, 3
WINDOWS = 9  # first windows that fit into the updates; the four of the schedule take 8.1
RECENCY = 8.0
EPOCHS = 50, 1000  # at least and at most, where max_iter is not given
CONVERGED_SHARE = 0.5  # of inference; less is warned about


def _probabilistic(estimator):
    """Whether the outputs' beliefs are probabilities: not of max-margin learners."""
    learner = vars(estimator).get("_asked_by") or estimator._check_learner()
    if not learner.probabilistic:
        raise AttributeError(
            f"Models learned by {type(learner).__name__} have no probabilities; use "
            "decision_function."
        )
    return True


class CRBMStructuredPredictor(ClassifierMixin, MultiOutputMixin, LearnedEstimator):
    r"""Conditional restricted Boltzmann machine that predicts many binary outputs together.

    .. math:: p(v | x) \propto \sum_h \exp\big(v^\top W^{vh} h + v^\top W^{vx} x
        + h^\top W^{hx} x + v^\top b^v + h^\top b^h\big)

    for outputs :math:`v` and hidden units :math:`h` in {0, 1}. Without hidden units it is a
    logistic regression of every output; these tie the outputs together.

    Parameters
    ----------
    n_components : int, default=256
        Hidden units.
    learner : str or instance, default="mle-bp"
        How to learn, "mle-bp", "mle-mf", "mssvm", "lssvm", "cd", "cd-percloss", "lr" or an instance
        of a class of :mod:`skmrf.learners`: by likelihood with belief propagation or mean field
        for marginals (``MLEBP``, ``MLEMF``), by margin with hidden units summed out or maximised
        over (``MSSVM``, ``LSSVM``), by chains (``CD``, ``CDPercLoss``), or without hidden units
        (``LR``). Outputs are predicted by the inference that the learner uses.
    optimizer : {"auto", "sgd", "momentum", "adam", "lbfgs"} or instance, default="auto"
        "auto" is plain gradient ascent, of which the models predicted new rows better than of Adam.
        "lbfgs" needs ``learner="lr"``.
    learning_rate : {"adaptive", "constant", "step", "inverse"}, float or schedule
        Default "adaptive": from 0.1, halved whenever the gradient is only noise.
    penalty : {"l2", "l1", "group-l1"}, default="l2"
        On weights, not biases. Groups are the weights of a hidden unit to outputs, those of it to
        inputs, and those of an output to inputs.
    alpha : float, default=0.0
        Strength of the penalty, against the mean log-likelihood in nats.
    batch_size : int, default=20
    max_iter : int, optional
        Epochs; by default until the held-out score no longer grows, or until converged, and at most
        20000 updates, but at least 50 epochs and at most 1000.
    tol : float, default=1e-6
        Largest gradient entry at which L-BFGS stops.
    average : bool, default=True
        Average the iterates since the last change of the rate, the late ones more.
    early_stopping : bool or "auto", default="auto"
        Hold out rows, and keep the model that predicts them best. "auto" does so from 200 rows on.
        Rows given to :meth:`fit` for validation are used in any case.
    validation_fraction : float, default=0.1
    n_iter_no_change : int, default=5
        Epochs without a better score before stopping, and at least 2000 updates.
    max_bytes : float, default=4 GiB
        Bound on the memory of the parameters while learning.
    warm_start : bool, default=False
        Go on from the previous fit.
    n_jobs : int, optional
        Threads over rows in belief propagation. Has no influence on results.
    random_state : int, RandomState, Generator or None

    Attributes
    ----------
    energy_ : ConditionalBipartiteEnergy
        Of inputs as ``scaler_`` gives them.
    scaler_ : StandardScaler or None
        Columns of other numbers than 0 and 1 are standardised, sparse ones only divided by their
        root mean square; None where there are none.
    classes_ : ndarray
        The two labels of a single output; ``[0, 1]`` of several.
    output_shape_ : tuple
        Shape of the outputs of a row; empty for one-dimensional targets.
    history_ : dict of lists
        Diagnostics by epoch; ``inference_converged`` is the share of rows whose inference ended
        before its limit of iterations.
    n_iter_ : int
        Epochs.
    converged_ : bool
    n_features_in_, feature_names_in_

    See Also
    --------
    sklearn.multioutput.MultiOutputClassifier, sklearn.multioutput.ClassifierChain

    References
    ----------
    W. Ping and A. Ihler, "Belief propagation in conditional RBMs for structured prediction",
    AISTATS 2017, sections 3.2 (the model) and 4 (learning).

    V. Mnih, H. Larochelle and G. E. Hinton, "Conditional restricted Boltzmann machines for
    structured output prediction", UAI 2011.

    Examples
    --------
    Two outputs of which exactly one is 1, which inputs do not tell:

    >>> import numpy as np
    >>> from skmrf import CRBMStructuredPredictor
    >>> rng = np.random.default_rng(0)
    >>> first = rng.integers(2, size=500)
    >>> Y = np.stack([first, 1 - first], axis=1)
    >>> X = np.stack([first, 1 - first], axis=1) ^ (rng.random((500, 2)) < 0.1)
    >>> model = CRBMStructuredPredictor(n_components=4, random_state=0).fit(X, Y)
    >>> model.predict([[1, 0], [0, 1]])
    array([[1, 0],
           [0, 1]])
    """

    _energy_type = ConditionalBipartiteEnergy
    _learner_kind = ConditionalLearner

    def __init__(
        self,
        n_components=256,
        learner="mle-bp",
        *,
        optimizer="auto",
        learning_rate="adaptive",
        penalty="l2",
        alpha=0.0,
        batch_size=20,
        max_iter=None,
        tol=1e-6,
        average=True,
        early_stopping="auto",
        validation_fraction=0.1,
        n_iter_no_change=5,
        max_bytes=4 * 2**30,
        warm_start=False,
        n_jobs=None,
        random_state=None,
    ):
        self.n_components = n_components
        self.learner = learner
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
        self.n_jobs = n_jobs
        self.random_state = random_state

    @with_callbacks
    def fit(self, X, y, sample_weight=None, *, X_val=None, y_val=None):
        """Learn weights and biases.

        Parameters
        ----------
        X : array-like, sparse matrix or frame of shape (n_samples, n_features)
            Inputs. Sparse ones stay sparse.
        y : array-like of shape (n_samples,) or (n_samples, ...)
            One label of two a row; or zeros and ones, several a row or an image of them.
        sample_weight : array-like of shape (n_samples,), optional
        X_val, y_val : optional
            Rows on which models are compared while learning, instead of some that are held out.

        Returns
        -------
        self

        Raises
        ------
        ValueError
            More than two labels; several outputs of a row other than 0 and 1; nan; a learner of
            another kind.
        """
        if (X_val is None) != (y_val is None):
            raise ValueError("X_val and y_val must be given together.")
        validation = None if X_val is None else (X_val, y_val)
        return self._fit(X, y, sample_weight, validation=validation)

    @with_callbacks
    def partial_fit(self, X, y, classes=None, sample_weight=None):
        """Train for one epoch over the rows, continuing from what was learned so far.

        The first rows determine how columns of inputs are standardised.

        Parameters
        ----------
        X, y, sample_weight
            As in :meth:`fit`.
        classes : array-like of shape (2,), optional
            The labels of a single output, where the first rows may not show both. Later calls may
            leave them out.

        Returns
        -------
        self
        """
        classes = None if classes is None else two_labels(classes)
        return self._fit(X, y, sample_weight, classes=classes, partial=True)

    def _fit(self, X, y, sample_weight, *, classes=None, validation=None, partial=False):
        with unchanged_on_error(self):
            parameters, learner = self._check_parameters(partial), self._check_learner()
            fit = FitSession(self, parameters, X, y)
            X = self._inputs(X, reset=not fit.is_resumed)
            encoder, data = self._encode_outputs(X, y, classes, fit.is_resumed)
            data, scaler = self._scale(weighted_rows(data, sample_weight), fit.is_resumed)
            n_hidden = self.n_components if learner.has_hidden else 0
            if fit.is_resumed:
                self._check_same_size(n_hidden)
            else:
                fit.energy = self._initial_energy(data, n_hidden, parameters)
            fit.begin(data, encoder.classes, encoder.shape, scaler)
            if validation is None:
                data, held_out = hold_out(data, parameters, fit.rng, fewest=FEWEST)
            else:
                held_out = self._encode_validation(*validation, encoder, scaler)
            settings = self._settings(parameters, learner, fit.energy, data, held_out)

            def attributes(state):
                fitted = fit.attributes(state)
                check_weights(fitted["energy_"].weights)
                return fitted | {
                    "classes_": encoder.classes,
                    "output_shape_": encoder.shape,
                    "scaler_": scaler,
                    "_epoch": _best_epoch(state),
                    "_asked_by": clone(learner),
                }

            vars(self).update(attributes(fit.train(learner, data, settings, attributes)))
        return self

    def _check_parameters(self, partial):
        check_number("n_components", self.n_components, low=1, integer=True)
        if not isinstance(self.early_stopping, bool | np.bool_):
            check_auto("early_stopping", self.early_stopping)
        return TrainingParameters.of(self, partial)

    def _encode_outputs(self, X, y, classes, is_resumed):
        """Return the encoding of the outputs and the batch of all rows."""
        if y is None:
            raise ValueError(
                f"{type(self).__name__} requires y to be passed, but the target y is None."
            )
        if is_resumed:
            encoder = OutputEncoder(self.classes_, self.output_shape_)
            encoder.check_same(classes)
        else:
            encoder = OutputEncoder.of(y, classes)
        return encoder, Batch(X, encoder.encode(y, X.shape[0]))

    def _scale(self, data, is_resumed):
        """Return the rows with scaled inputs, and the scaler."""
        scaler = self.scaler_ if is_resumed else scaler_of(data.X, sample_weights(data))
        return data._replace(X=scaled(scaler, data.X)), scaler

    def _check_same_size(self, n_hidden):
        """Raise a ValueError if training cannot continue because the number of units differs."""
        learned = self.energy_.weights.shape[1]
        if learned != n_hidden:
            raise ValueError(
                f"The fit to go on from has {learned} hidden units, not {n_hidden}; start anew "
                "with fit and warm_start=False."
            )

    def _initial_energy(self, data, n_hidden, parameters):
        """Return small random weights, so that hidden units differ, and biases of the outputs."""
        n_inputs, n_visible = data.X.shape[1], data.Y.shape[1]
        parameters.check_memory(
            n_visible * n_hidden + n_inputs * (n_visible + n_hidden),
            "weights",
            "Use fewer n_components or features, or raise max_bytes.",
        )
        rng = check_generator(self.random_state).spawn(1)[0]  # not the numbers that learning draws
        theta = {
            "weights": _first_weights(rng, (n_visible, n_hidden), max(n_visible, n_hidden)),
            "visible_inputs": np.broadcast_to(np.float32(0), (n_inputs, n_visible)),
            "hidden_inputs": _first_weights(rng, (n_inputs, n_hidden), n_inputs),
            "visible_bias": initial_values.log_odds(data.Y, data.log_weights),
            "hidden_bias": np.zeros(n_hidden),
        }
        return ConditionalBipartiteEnergy(**theta)

    def _encode_validation(self, X, y, encoder, scaler):
        X = self._inputs(X, reset=False)
        codes = encoder.encode(y, X.shape[0], "y_val")
        return Batch(scaled(scaler, X), codes)

    def _settings(self, parameters, learner, energy, data, held_out):
        n = data.X.shape[0]
        least, most = (epochs * -(-n // self.batch_size) for epochs in EPOCHS)
        max_updates = int(np.clip(Settings.max_updates, least, most))
        settings = parameters.settings(
            learner,
            energy,
            data,
            default_optimizer="sgd",
            recency=RECENCY,
            patience=max(self.n_iter_no_change, -(-PLATEAU * self.batch_size // n)),
            max_updates=max_updates,
            converged_share=CONVERGED_SHARE,
            score=output_score(learner, held_out, self.n_jobs),
        )
        if parameters.has_default_rate(settings.optimizer):
            settings.rate = _adaptive_rate(settings.optimizer, max_updates)
        return settings

    # Queries ------------------------------------------------------------------------------

    def decision_function(self, X):
        """Log odds of the outputs, by the inference that the learner uses.

        Parameters
        ----------
        X : array-like, sparse matrix or frame of shape (n_samples, n_features)

        Returns
        -------
        ndarray of shape (n_samples, ...)
            Positive where 1 is predicted.
        """
        check_is_fitted(self)
        X = scaled(self.scaler_, self._inputs(X, reset=False))
        with np.errstate(over="ignore", invalid="ignore"):
            energy = _in_double(self.energy_)
            odds = log_odds(self._asked_by, energy, X, self._epoch, self.n_jobs)
        wrong = np.flatnonzero(~np.isfinite(odds).all(axis=1))
        if wrong.size:
            raise ValueError(f"Row {wrong[0]} of X holds numbers too large for the weights.")
        return odds.reshape(-1, *self.output_shape_)

    def predict(self, X):
        """The more probable state of every output, or the best joint state of max-margin learners.

        Parameters
        ----------
        X : array-like, sparse matrix or frame of shape (n_samples, n_features)

        Returns
        -------
        ndarray of shape (n_samples, ...)
        """
        states = (self.decision_function(X) > 0).astype(int)
        if self.output_shape_:
            return states
        return self.classes_[np.minimum(states, len(self.classes_) - 1)]

    @available_if(_probabilistic)
    def predict_proba(self, X):
        """Probabilities of the outputs.

        Parameters
        ----------
        X : array-like, sparse matrix or frame of shape (n_samples, n_features)

        Returns
        -------
        ndarray of shape (n_samples, ...) or (n_samples, 2)
            ``p(v_i = 1 | x)``; for one-dimensional targets a column for each of ``classes_``.
        """
        odds = self.decision_function(X)
        if self.output_shape_:
            return unit_probabilities(odds.reshape(len(odds), -1)).reshape(odds.shape)
        both = np.stack([-odds, odds], axis=1)[:, : len(self.classes_)]
        return unit_probabilities(both) if len(self.classes_) == 2 else np.ones_like(both)

    def score(self, X, y, sample_weight=None):
        """Share of right outputs, mean over rows and outputs.

        Parameters
        ----------
        X : array-like, sparse matrix or frame of shape (n_samples, n_features)
        y : array-like of the shape of targets
        sample_weight : array-like of shape (n_samples,), optional

        Returns
        -------
        float
        """
        predicted, y = self.predict(X), np.asarray(dense_rows(y))
        if y.shape != predicted.shape:
            raise ValueError(f"y must have shape {predicted.shape}; got {y.shape}.")
        right = (predicted == y).reshape(len(y), -1).mean(axis=1)
        weights = check_sample_weight(sample_weight, len(y))
        return float(np.average(right, weights=weights))

    # Rows ---------------------------------------------------------------------------------

    def _inputs(self, X, reset):
        return numeric_rows(
            self,
            X,
            reset=reset,
            remedy="encode it (sklearn.preprocessing.OneHotEncoder).",
            accept_sparse="csr",
            dtype=(np.float64, np.float32),
        )

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        tags.classifier_tags.multi_class = False
        tags.classifier_tags.multi_label = True
        return tags


def _first_weights(rng, shape, n_terms):
    """Random ones; sums of so many of them are of order one."""
    return rng.normal(0.0, 1.0 / np.sqrt(max(n_terms, 1)), size=shape).astype(np.float32)


def _in_double(energy):
    """So that what a row is told depends on the other rows by rounding only."""
    return energy.with_theta({k: v.astype(float) for k, v in energy.theta.items()})


def _adaptive_rate(optimizer, max_updates):
    """Return the default schedule; its last halving fits into the updates that are allowed."""
    rate = RATES.get(type(optimizer).__name__.lower(), optimizer.default_rate)
    window = int(np.clip(max_updates // WINDOWS, 1, WINDOW))
    return AdaptiveRate(rate, window, COSINE, N_HALVINGS)


def _best_epoch(state):
    """Return the epoch of the state's result: the best by held-out score, or the last one."""
    if state.best is None:
        return max(state.epoch - 1, 0)
    scores = state.history.columns["validation_score"]
    return state.began + int(np.argmax(scores[state.began :]))
