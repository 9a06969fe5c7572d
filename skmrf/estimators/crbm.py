"""CRBMStructuredPredictor: many binary outputs given inputs, tied together by hidden units."""

from contextlib import nullcontext

import numpy as np
from joblib import parallel_config
from sklearn.base import ClassifierMixin, MultiOutputMixin, clone
from sklearn.callback import with_callbacks
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import check_is_fitted

from .. import training
from .._data.numeric import numeric_rows
from .._data.scaling import scaled, scaler_of
from .._data.targets import labels_of, output_codes, two_labels
from .._utils.batch import Batch
from .._utils.log_weights import check_sample_weight
from .._utils.parameters import check_auto, check_number
from .._utils.randomness import check_generator
from .._utils.rows import dense_rows
from ..energies import ConditionalBipartiteEnergy
from ..learners import ConditionalLearner
from ..training import AdaptiveRate
from ..variational.bipartite import check_weights, unit_probabilities
from ._base import LearnedEstimator

ROWS = 1024  # asked about at once
FEWEST = 200  # rows of which some are held out
PLATEAU = 2000  # updates without a better score, at least, before stopping early
RATES = {"sgd": 0.1, "momentum": 0.01, "adam": 0.001}
WINDOW, COSINE, N_HALVINGS = 1000, 0.0, 3
WINDOWS = 9  # first windows that fit into the updates; the four of the schedule take 8.1
TIE = 1e-6  # what a nat of log-loss counts against the share of right outputs
RECENCY = 8.0
EPOCHS = 50, 1000  # at least and at most, where max_iter is not given
CONVERGED_SHARE = 0.5  # of inference; less is warned about


def _probabilistic(estimator):
    """Whether the outputs' beliefs are probabilities: not of max-margin learners."""
    learner = getattr(estimator, "_asked_by", None) or estimator._check_learner()
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
    _auto_optimizer = "sgd"

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
        return self._learn(X, sample_weight, y=y, validation=validation)

    @with_callbacks
    def partial_fit(self, X, y, classes=None, sample_weight=None):
        """One epoch over the rows, going on from what was learned so far.

        Parameters
        ----------
        X, y, sample_weight
            As in :meth:`fit`.
        classes : array-like of shape (2,), optional
            The labels of a single output, where the first rows may not show both. Later calls may
            leave them out.

        Columns of inputs are standardised as the first rows say, for good.

        Returns
        -------
        self
        """
        self._expected = None if classes is None else two_labels(classes)
        try:
            return self._learn(X, sample_weight, y=y, partial=True)
        finally:
            del self._expected

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
            odds = self._log_odds(self._asked_by, _in_double(self.energy_), X, self._epoch)
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

    # What LearnedEstimator asks for -------------------------------------------------------

    def _check_parameters(self):
        check_number("n_components", self.n_components, low=1, integer=True)
        if not isinstance(self.early_stopping, bool | np.bool_):
            check_auto("early_stopping", self.early_stopping)
        return super()._check_parameters()

    def _encode_training(self, X, y, resume):
        X = self._inputs(X, reset=not resume)
        if y is None:
            raise ValueError(
                f"{type(self).__name__} requires y to be passed, but the target y is None."
            )
        codes, classes, shape = self._outputs(y, X.shape[0], resume)
        if resume:
            self._check_hidden()
        return Batch(X, codes), (classes, shape)

    def _prepare(self, data, decoding, resume):
        """Inputs as the scaler gives them."""
        scaler = self.scaler_ if resume else scaler_of(data.X, _weights_of(data))
        return data._replace(X=scaled(scaler, data.X)), (*decoding, scaler)

    def _check_hidden(self):
        learned, wanted = self.energy_.weights.shape[1], self._n_hidden()
        if learned != wanted:
            raise ValueError(
                f"The fit to go on from has {learned} hidden units, not {wanted}; start anew with "
                "fit and warm_start=False."
            )

    def _n_hidden(self):
        return self.n_components if self._check_learner().has_hidden else 0

    def _encode_validation(self, X, y, decoding):
        classes, shape, scaler = decoding
        X = self._inputs(X, reset=False)
        codes = output_codes(y, X.shape[0], classes, shape, "y_val")
        return Batch(scaled(scaler, X), codes)

    def _attributes(self, decoding):
        classes, shape, scaler = decoding
        return {"classes_": classes, "output_shape_": shape, "scaler_": scaler}

    def _initial_energy(self, data, decoding):
        """Small random weights, so that the hidden units differ; biases of independent outputs."""
        n_inputs = data.X.shape[1]
        n_visible = data.Y.shape[1]
        n_hidden = self._n_hidden()
        self._check_memory(
            n_visible * n_hidden + n_inputs * (n_visible + n_hidden),
            "weights",
            "Use fewer n_components or features, or raise max_bytes.",
        )
        rng = check_generator(self.random_state).spawn(1)[0]  # not the numbers that learning draws
        theta = {
            "weights": _first_weights(rng, (n_visible, n_hidden), max(n_visible, n_hidden)),
            "visible_inputs": np.broadcast_to(np.float32(0), (n_inputs, n_visible)),
            "hidden_inputs": _first_weights(rng, (n_inputs, n_hidden), n_inputs),
            "visible_bias": training.log_odds(data.Y, data.log_weights),
            "hidden_bias": np.zeros(n_hidden),
        }
        return ConditionalBipartiteEnergy(**theta)

    def _split(self, data, rng, partial):
        few = data.X.shape[0] < FEWEST
        if self.early_stopping == "auto" and (few or self.optimizer == "lbfgs"):
            return data, None
        return super()._split(data, rng, partial)

    def _settings(self, learner, energy, data, held_out, max_iter):
        settings = super()._settings(learner, energy, data, held_out, max_iter)
        n = data.X.shape[0]
        settings.recency = RECENCY
        settings.patience = max(self.n_iter_no_change, -(-PLATEAU * self.batch_size // n))
        least, most = (epochs * -(-n // self.batch_size) for epochs in EPOCHS)
        settings.max_updates = int(np.clip(settings.max_updates, least, most))
        settings.converged_share = CONVERGED_SHARE
        if self.learning_rate == "adaptive" and settings.optimizer is not None:
            settings.rate = _adaptive(settings.optimizer, settings.max_updates)
        return settings

    def _held_out_score(self, energy, held_out):
        """Share of right outputs; between equal ones the log-loss decides, where there is one."""
        weights, learner = _weights_of(held_out), self._check_learner()
        probabilistic = learner.probabilistic

        def score(energy, state):
            odds = self._log_odds(learner, energy, held_out.X, state.epoch - 1)
            right = ((odds > 0) == (held_out.Y > 0)).mean(axis=1)
            share = float(np.average(right, weights=weights))
            if not probabilistic:
                return share
            losses = np.logaddexp(0.0, np.where(held_out.Y > 0, -odds, odds)).mean(axis=1)
            return share - TIE * round(float(np.average(losses, weights=weights)), 2)

        return score

    def _summary(self, state, decoding, seed):
        epoch = max(state.epoch - 1, 0)
        if state.best is not None:
            scores = state.history.columns["validation_score"]
            epoch = state.began + int(np.argmax(scores[state.began :]))
        fitted = super()._summary(state, decoding, seed)
        check_weights(fitted["energy_"].weights)
        return fitted | {"_epoch": epoch, "_asked_by": clone(self._check_learner())}

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

    def _outputs(self, y, n_rows, resume):
        """State codes of targets, labels and shape of the outputs of a row."""
        y = np.asarray(dense_rows(y))
        given = getattr(self, "_expected", None)
        if resume:
            classes, shape = self.classes_, self.output_shape_
            if given is not None and not np.array_equal(given, classes):
                raise ValueError(
                    f"classes must be those of the fit to go on from, {classes.tolist()}; got "
                    f"{given.tolist()}."
                )
        elif y.ndim > 1:
            classes, shape = np.array([0, 1]), y.shape[1:]
            if given is not None and not np.array_equal(given, classes):
                raise ValueError(f"Several outputs have classes [0, 1]; got {given.tolist()}.")
        else:
            classes, shape = labels_of(y) if given is None else given, ()
        return output_codes(y, n_rows, classes, shape), classes, shape

    def _log_odds(self, learner, energy, X, epoch):
        """Log odds of outputs, some rows at a time."""
        out = np.empty((X.shape[0], energy.weights.shape[0]), dtype=energy.weights.dtype)
        with nullcontext() if self.n_jobs is None else parallel_config(n_jobs=self.n_jobs):
            for s in range(0, X.shape[0], ROWS):
                out[s : s + ROWS] = learner.infer(energy, X[s : s + ROWS], epoch).visible
        return out

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


def _adaptive(optimizer, max_updates):
    """The default schedule; its last halving fits into the updates that are allowed."""
    rate = RATES.get(type(optimizer).__name__.lower(), getattr(optimizer, "default_rate", 0.1))
    window = int(np.clip(max_updates // WINDOWS, 1, WINDOW))
    return AdaptiveRate(rate, window, COSINE, N_HALVINGS)


def _weights_of(data):
    """Sample weights of rows, or None."""
    return None if data.log_weights is None else np.exp(data.log_weights)
