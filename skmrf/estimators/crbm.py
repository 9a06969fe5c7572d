"""Conditional restricted Boltzmann machines for multi-label classification."""

from dataclasses import replace

import numpy as np
from sklearn.base import ClassifierMixin, MultiOutputMixin, clone
from sklearn.callback import with_callbacks
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import check_is_fitted

from .._data.binary import OutputEncoder, check_two_labels, find_correct
from .._data.classes import check_given
from .._data.numeric import fit_scaler, float_rows, scale_inputs
from .._utils.log_weights import check_sample_weight
from .._utils.parameters import check_number, check_number_or
from .._utils.rows import Batch, sample_weights, weighted_rows
from ..energies import ConditionalBipartiteEnergy
from ..learners import LR, ConditionalLearner
from ..training import loop
from ..training.logistic_start import add_hidden_units, add_idle_units
from ..variational.bipartite import check_weights, unit_probabilities
from ._base import LearnedEstimator, unchanged_on_error
from ._conditional_training import (
    LogisticStart,
    RowSpan,
    check_same_size,
    first_energy,
    is_auto,
)
from ._output_odds import OutputInference, has_probabilities
from ._session import FitSession
from ._training import TrainingParameters, hold_out

MIN_ROWS, MIN_HELD_OUT = 100, 25  # all rows and held-out rows, with early_stopping="auto"


class CRBMStructuredPredictor(ClassifierMixin, MultiOutputMixin, LearnedEstimator):
    r"""Conditional restricted Boltzmann machine that predicts many binary outputs jointly.

    .. math:: p(v | x) \propto \sum_h \exp\big(v^\top W^{vh} h + v^\top (W^{vx} x + b^v)
        + h^\top (W^{hx} x + b^h)\big)

    The outputs :math:`v` and the hidden units :math:`h` are 0 or 1, and :math:`x` are the inputs.
    The hidden units model the dependence between outputs. Without hidden units the model is a
    logistic regression of each output. Training starts at the penalised logistic regressions. If
    hidden units do not improve the predictions of held-out rows, or if there are too few rows to
    hold some out, :meth:`fit` returns the logistic regressions: all weights of hidden units are
    then zero.

    Parameters
    ----------
    n_components : int, default=256
        Number of hidden units.
    learner : str or instance, default="mle-bp"
        Learning algorithm. Outputs are predicted by the inference algorithm that the learner uses.
        An instance of a class of :mod:`skmrf.learners` has its own parameters.

        - "mle-bp" (``MLEBP``) and "mle-mf" (``MLEMF``): maximum likelihood, with marginals by
          belief propagation or mean field.
        - "mssvm" (``MSSVM``) and "lssvm" (``LSSVM``): maximum margin, with hidden units summed out
          or maximised over.
        - "cd" (``CD``) and "cd-percloss" (``CDPercLoss``): Markov chains.
        - "lr" (``LR``): logistic regressions without hidden units.
    optimizer : {"auto", "sgd", "momentum", "adam", "lbfgs"} or instance, default="auto"
        Optimizer of the parameters. "auto" is "lbfgs" for ``learner="lr"``. All other learners do
        not accept "lbfgs", and "auto" is SGD, which led to better predictions than Adam. With the
        penalties "l1" and "group-l1", "lbfgs" is FISTA. An instance of an optimizer of
        :mod:`skmrf.training` has its own parameters.
    learning_rate : str, float or schedule, default="adaptive"
        Learning rate. "adaptive" starts at 0.1 for SGD (0.3 with 10000 or more training rows and at
        most ``5*batch_size`` inputs), 0.01 for momentum or 0.001 for Adam, and halves the rate
        whenever the gradient is only noise. "constant" keeps the first rate, "step" halves it every
        1000 updates, and "inverse" divides it by ``1+t/100`` after t updates. Their first rate is
        0.03 for Adam, 0.1 for SGD and 0.02 for momentum. A float is a constant rate. An instance of
        a schedule of :mod:`skmrf.training` has its own parameters.
    penalty : {"l2", "l1", "elasticnet", "group-l1"}, default="l2"
        Penalty on the weights. Biases are not penalised. "elasticnet" is the mean of "l1" and "l2".
        The groups of "group-l1" are the weights between a hidden unit and all outputs, between a
        hidden unit and all inputs, and between an output and all inputs.
    alpha : float or "auto", default="auto"
        Strength of the penalty. ``alpha`` times the penalty is subtracted from the mean objective
        of a row, which is the log-likelihood in nats for learners by maximum likelihood. 0 means no
        penalty. "auto" chooses the strength by cross-validation of the logistic regressions, or by
        held-out rows if there are many inputs and outputs. The logistic regressions have the
        strength with the smallest log-loss. Hidden units have a weaker penalty, whose log-loss is
        larger by one standard error at most. With "auto" and "l2", the weight between each output
        and its most correlated input is penalised less if this decreases the log-loss.
    batch_size : int, default=20
        Number of rows in a minibatch.
    max_iter : int, optional
        Maximum number of epochs. By default training continues until the held-out score no longer
        improves or until it converges, for at most 20000 updates, or 5 epochs if these have more,
        and at most 1000 epochs. A trial on 10000 rows comes first if there are as many or more.
    tol : float, default=1e-4
        Deterministic solvers stop when no entry of the gradient is larger in absolute value.
    average : bool, default=True
        Whether to return the weighted mean of the iterates since the last change of the learning
        rate, instead of the last iterate. Later iterates have larger weights. It has no effect with
        the penalties "l1" and "group-l1", or with a deterministic solver.
    early_stopping : bool or "auto", default="auto"
        Whether to hold out rows, to stop when their score no longer improves, and to keep the model
        with the best score. Hidden units are kept if, on the held-out rows, the share of wrong
        outputs does not increase, the log-loss does not increase by more than one standard error,
        and one of the two decreases by more than two standard errors. For learners without
        probabilities, only the share of wrong outputs counts. Without held-out rows, hidden units
        are always kept. "auto" holds out at least 25 rows if there are 100 or more, unless the
        optimizer is "lbfgs". With fewer rows and ``alpha="auto"``, hidden units are not trained.
        Validation rows that are given to :meth:`fit` are always used.
    validation_fraction : float, default=0.1
        Share of the rows that early stopping holds out, above 0 and at most 0.9.
    n_iter_no_change : int, default=5
        Number of epochs without a better score after which early stopping ends training. These
        epochs must also have at least 2000 updates.
    max_bytes : float, default=4 * 2**30
        Maximum memory in bytes of the parameters during training. The default is 4 GiB.
    warm_start : bool, default=False
        Whether :meth:`fit` continues training from the previous fit.
    n_jobs : int, optional
        Number of threads over rows. It changes results by rounding errors at most.
    device : {"cpu", "gpu", "cuda", "jax"}, default="cpu"
        Device of training and of predictions: the compiled functions of numba, a GPU, or the
        default device of JAX. See the page "Training on a GPU" of the user guide.
    random_state : int, RandomState, Generator or None, default=None
        Random numbers of training: initial weights, minibatches, Markov chains, held-out rows and
        folds of cross-validation. An int makes fits reproducible.
    verbose : int, default=0
        Amount of progress messages. 0: none. 1: a line every few seconds with the epoch, the last
        score in ``history_`` and the seconds that remain until ``max_iter``. 2: a line per epoch.

    Attributes
    ----------
    energy_ : ConditionalBipartiteEnergy
        Fitted model of inputs that are scaled by ``scaler_``.
    alpha_ : float
        Strength of the penalty of the fitted model.
    alpha_path_ : dict of str to ndarray, or None
        Path of ``alpha="auto"``: "alphas", the strengths, and "losses", their mean held-out
        log-losses of an output in nats, both of shape (n_alphas,). None if ``alpha`` is a number.
    scaler_ : StandardScaler or None
        Scaler of the inputs, which standardises numbers. With hidden units and up to 100 columns,
        zeros and ones are centred and doubled. Otherwise X can stay sparse, without centring.
    classes_ : ndarray of shape (n_classes,), (n_outputs,) or (1, 2)
        The one or two labels if the targets are one-dimensional. For two-dimensional targets, the
        index of each output, as in scikit-learn's multi-label classifiers, or ``[[0, 1]]`` for a
        single column. For targets with more dimensions, ``[0, 1]``. Meta-estimators for binary
        labels, such as ``CalibratedClassifierCV``, need one-dimensional targets.
    output_shape_ : tuple of int
        Shape of the outputs of a row. It is empty if the targets are one-dimensional.
    history_ : dict of lists
        Diagnostics of training: one list per quantity, with one entry per epoch.
        ``inference_converged`` is the share of rows whose inference converged within its maximum
        number of iterations.
    n_iter_ : int
        Number of epochs, or 1 if training converged at its start.
    converged_ : bool
        Whether training converged.
    n_features_in_ : int
        Number of columns seen during fit.
    feature_names_in_ : ndarray of shape (n_features,)
        Names of the columns seen during fit. It exists only if all names are strings.

    See Also
    --------
    sklearn.multioutput.MultiOutputClassifier : One independent classifier per output.
    sklearn.multioutput.ClassifierChain : Classifiers that also use the outputs before them.

    References
    ----------
    W. Ping and A. Ihler, "Belief propagation in conditional RBMs for structured prediction",
    AISTATS 2017, sections 3.2 (the model) and 4 (learning).

    V. Mnih, H. Larochelle and G. E. Hinton, "Conditional restricted Boltzmann machines for
    structured output prediction", UAI 2011.

    Examples
    --------
    Exactly one of two outputs is 1. The inputs are noisy copies of the outputs:

    >>> import numpy as np
    >>> from skmrf import CRBMStructuredPredictor
    >>> rng = np.random.default_rng(0)
    >>> first = rng.integers(2, size=200)
    >>> Y = np.stack([first, 1 - first], axis=1)
    >>> X = np.stack([first, 1 - first], axis=1) ^ (rng.random((200, 2)) < 0.1)
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
        alpha="auto",
        batch_size=20,
        max_iter=None,
        tol=1e-4,
        average=True,
        early_stopping="auto",
        validation_fraction=0.1,
        n_iter_no_change=5,
        max_bytes=4 * 2**30,
        warm_start=False,
        n_jobs=None,
        device="cpu",
        random_state=None,
        verbose=0,
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
        self.device = device
        self.random_state = random_state
        self.verbose = verbose

    @with_callbacks
    def fit(self, X, y, sample_weight=None, *, X_val=None, y_val=None):
        """Learn the weights and the biases.

        Parameters
        ----------
        X : array-like, sparse matrix or frame of shape (n_samples, n_features)
            Training rows of inputs, finite numbers. Sparse rows stay sparse. The rows of a memory
            map are read in blocks.
        y : array-like of shape (n_samples,) or (n_samples, ...)
            Targets. One-dimensional targets have one or two different labels. Targets with more
            dimensions are zeros and ones: several outputs per row, or an image per row.
        sample_weight : array-like of shape (n_samples,), optional
            Non-negative weight of each row. By default all rows have the same weight.
        X_val : array-like, sparse matrix or frame of shape (n_val_samples, n_features), optional
            Validation rows of inputs, to compare models during training. By default some training
            rows are held out, as ``early_stopping`` says.
        y_val : array-like of shape (n_val_samples,) or (n_val_samples, ...), optional
            Targets of the validation rows. It is required if ``X_val`` is given.

        Returns
        -------
        self
            The fitted estimator.

        Raises
        ------
        ValueError
            If a single output has more than two labels, if several outputs have values other than 0
            and 1, if ``X`` or ``y`` has nan, or if the learner is not for conditional models.
        """
        if (X_val is None) != (y_val is None):
            given = "y_val" if X_val is None else "X_val"
            raise ValueError(f"X_val and y_val must be given together; got only {given}.")
        validation = None if X_val is None else (X_val, y_val)
        return self._fit(X, y, sample_weight, validation=validation)

    @with_callbacks
    def partial_fit(self, X, y, classes=None, sample_weight=None):
        """Train for one epoch over ``X`` and ``y``, starting from the current parameters.

        The scales of the input columns and the initial logistic regressions are computed from the
        rows of the first call, and so is the strength of the penalty if ``alpha="auto"``.

        Parameters
        ----------
        X : array-like, sparse matrix or frame of shape (n_samples, n_features)
            Training rows of inputs, as in :meth:`fit`.
        y : array-like of shape (n_samples,) or (n_samples, ...)
            Targets, as in :meth:`fit`.
        classes : array-like of shape (2,), optional
            The two labels of a single output. The first call needs them if its rows may not have
            both labels. Later calls may omit them.
        sample_weight : array-like of shape (n_samples,), optional
            Non-negative weight of each row. By default all rows have the same weight.

        Returns
        -------
        self
            The fitted estimator.
        """
        classes = None if classes is None else check_two_labels(classes)
        return self._fit(X, y, sample_weight, classes=classes, partial=True)

    def _fit(self, X, y, sample_weight, *, classes=None, validation=None, partial=False):
        with unchanged_on_error(self):
            learner = self._check_learner()
            parameters = self._check_parameters(learner, partial)
            session = FitSession(self, parameters, X, y)
            X = self._inputs(X, reset=not session.is_resumed)
            encoder, data = self._encode_outputs(X, y, classes, session.is_resumed)
            data, scaler = self._scale(weighted_rows(data, sample_weight), session, learner)
            n_hidden = self.n_components if learner.has_hidden else 0
            if session.is_resumed:
                check_same_size(self.energy_, n_hidden)
            else:
                session.energy = first_energy(data, n_hidden, parameters)
            session.begin(data, encoder.classes, encoder.shape, scaler)
            rows = data
            if validation is None:
                least = {"min_rows": MIN_ROWS, "min_held_out": MIN_HELD_OUT}
                data, held_out = hold_out(data, parameters, session.rng, **least)
            else:
                held_out = self._encode_validation(*validation, encoder, scaler)
            first = self._start(session, rows, data, n_hidden)
            inference = OutputInference.of(self, learner)
            trained, is_new = learner, learner.has_hidden and not session.is_resumed
            given = session, inference, parameters, data, held_out
            if is_new and not first.try_hidden_units(*given):
                trained, session.energy = LR(), add_idle_units(first.energy, n_hidden)
                parameters = replace(parameters, optimizer="lbfgs", device="cpu")
            span = RowSpan.of(parameters, first, session.energy, data, held_out)
            data, session.energy = span.rows(data), span.project(session.energy)
            score = inference.score(span.rows(held_out))
            settings = first.settings(parameters, trained, session.energy, data, score)

            def attributes(state):
                fitted = session.attributes(state)
                fitted["energy_"] = span.lift(fitted["energy_"])
                check_weights(fitted["energy_"].weights)
                return fitted | {
                    "n_iter_": max(1, fitted["n_iter_"]),
                    "alpha_": first.strength(trained),
                    "alpha_path_": first.path,
                    "_strongest": first.strongest,
                    "classes_": encoder.public_classes,
                    "output_shape_": encoder.shape,
                    "scaler_": scaler,
                    "_epoch": state.best_epoch,
                    "_fitted_learner": clone(learner),
                }

            state = loop.train(session, trained, data, settings, attributes)
            fitted = attributes(state)
            if is_new and held_out is not None:
                fitted = first.check_hidden_units(inference, fitted, rows, held_out, self.penalty)
            vars(self).update(fitted)
        return self

    def _check_parameters(self, learner, partial):
        check_number("n_components", self.n_components, low=1, integer=True)
        check_number_or(("auto",), "alpha", self.alpha, low=0)
        parameters = TrainingParameters.of(self, partial, learner)
        if is_auto(self.optimizer) and learner.deterministic and not partial:
            return replace(parameters, optimizer="lbfgs")
        return parameters

    def _start(self, session, rows, data, n_hidden):
        """Set the energy at which training starts: logistic regressions, and hidden units."""
        if session.is_resumed:
            if not is_auto(self.alpha):
                return LogisticStart(float(self.alpha), float(self.alpha))
            chosen = self.alpha_, self.alpha_, self.alpha_path_, None, self._strongest
            return LogisticStart(*chosen)
        first = LogisticStart.of(self.alpha, self.penalty, rows, data, session.rng)
        session.energy = add_hidden_units(first.energy, data, n_hidden, session.rng.spawn(1)[0])
        return first

    def _encode_outputs(self, X, y, classes, is_resumed):
        """Return the encoder of the outputs, and a batch of all rows with encoded outputs."""
        check_given(self, y)
        if is_resumed:
            labels = np.array([0, 1]) if self.output_shape_ else self.classes_
            encoder = OutputEncoder(labels, self.output_shape_)
            encoder.check_same(classes)
        else:
            encoder = OutputEncoder.of(y, classes)
        return encoder, Batch(X, encoder.encode(y, X.shape[0]))

    def _scale(self, data, session, learner):
        """Return a batch with standardised inputs, and the scaler of the inputs."""
        if session.is_resumed:
            scaler = self.scaler_
        else:
            scaler = fit_scaler(data.X, sample_weights(data), is_centred=learner.has_hidden)
        return data._replace(X=scale_inputs(scaler, data.X)), scaler

    def _encode_validation(self, X, y, encoder, scaler):
        X = self._inputs(X, reset=False)
        codes = encoder.encode(y, X.shape[0], "y_val")
        return Batch(scale_inputs(scaler, X), codes)

    # Queries ------------------------------------------------------------------------------

    def decision_function(self, X):
        """Compute the log odds of each output with the inference algorithm of the learner.

        Parameters
        ----------
        X : array-like, sparse matrix or frame of shape (n_samples, n_features)
            Rows of inputs, finite numbers.

        Returns
        -------
        ndarray of shape (n_samples, ...)
            Log odds of each output in nats. They are positive where 1, or the second label, is
            predicted. Max-margin learners have no probabilities: their values are scores with the
            signs of the predictions.
        """
        check_is_fitted(self)
        X = scale_inputs(self.scaler_, self._inputs(X, reset=False))
        inference = OutputInference.of(self, self._fitted_learner)
        odds = inference.finite_log_odds(self.energy_, X, self._epoch)
        return odds.reshape(-1, *self.output_shape_)

    def predict(self, X):
        """Return the predicted outputs of each row.

        Each output is predicted as its more probable state. With max-margin learners, the outputs
        of a row are predicted jointly, as the joint state with the highest score.

        Parameters
        ----------
        X : array-like, sparse matrix or frame of shape (n_samples, n_features)
            Rows of inputs, finite numbers.

        Returns
        -------
        ndarray of shape (n_samples, ...)
            Zeros and ones, or labels of ``classes_`` if the targets were one-dimensional.
        """
        states = (self.decision_function(X) > 0).astype(int)
        if self.output_shape_:
            return states
        return self.classes_[np.minimum(states, len(self.classes_) - 1)]

    @available_if(has_probabilities)
    def predict_proba(self, X):
        """Return the probabilities of each output.

        This method does not exist if ``learner`` is a max-margin learner.

        Parameters
        ----------
        X : array-like, sparse matrix or frame of shape (n_samples, n_features)
            Rows of inputs, finite numbers.

        Returns
        -------
        ndarray of shape (n_samples, ...) or (n_samples, n_classes)
            ``p(v_i = 1 | x)`` of each output. If the targets were one-dimensional: the probability
            of each label of ``classes_``.
        """
        odds = self.decision_function(X)
        if self.output_shape_:
            return unit_probabilities(odds.reshape(len(odds), -1)).reshape(odds.shape)
        both = np.stack([-odds, odds], axis=1)[:, : len(self.classes_)]
        return unit_probabilities(both) if len(self.classes_) == 2 else np.ones_like(both)

    def score(self, X, y, sample_weight=None):
        """Return the share of correctly predicted outputs.

        Parameters
        ----------
        X : array-like, sparse matrix or frame of shape (n_samples, n_features)
            Rows of inputs, finite numbers.
        y : array-like of shape (n_samples,) or (n_samples, ...)
            True outputs, in the form of the targets of :meth:`fit`. Labels that were not seen
            during fit count as wrong predictions.
        sample_weight : array-like of shape (n_samples,), optional
            Non-negative weight of each row. By default all rows have the same weight.

        Returns
        -------
        float
            Weighted mean over rows of the share of correct outputs, between 0 and 1.
        """
        right = find_correct(y, self.predict(X), self.output_shape_).mean(axis=1)
        weights = check_sample_weight(sample_weight, len(right))
        return float(np.average(right, weights=weights))

    # Rows ---------------------------------------------------------------------------------

    def _inputs(self, X, reset):
        remedy = "encode it (sklearn.preprocessing.OneHotEncoder)."
        return float_rows(self, X, reset=reset, remedy=remedy, accept_sparse="csr")

    def __sklearn_tags__(self):
        """Return the scikit-learn tags of the estimator."""
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        tags.classifier_tags.multi_class = False
        tags.classifier_tags.multi_label = True
        return tags
