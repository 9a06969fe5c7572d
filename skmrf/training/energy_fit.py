"""Training of a single energy without an estimator."""

from sklearn.utils import check_array, check_consistent_length

from .._utils.codes import check_states
from .._utils.parameters import check_generator, check_number
from .._utils.rows import Batch, weighted_rows
from ..energies import ContinuousEnergy, GibbsEnergy
from ..learners.base import is_solvable
from ..learners.registry import make_learner
from .data_moments import check_possible_rows
from .loop import run, start
from .optimizers import make_optimizer
from .penalties import make_penalty
from .schedules import make_rate
from .settings import Settings


def fit_energy(
    energy,
    learner,
    X,
    Y=None,
    *,
    sample_weight=None,
    optimizer="auto",
    learning_rate="adaptive",
    penalty="l2",
    alpha=0.0,
    batch_size=256,
    max_iter=None,
    tol=1e-6,
    random_state=None,
):
    r"""Train the parameters of an energy (model), and return the trained energy.

    The class of the energy can be one of :mod:`skmrf.energies` or your own class. The trained
    parameters maximise the mean log-likelihood of the rows minus ``alpha`` times the penalty.

    Parameters
    ----------
    energy : Energy
        Energy with the initial parameters. It is not modified.
    learner : str or Learner
        Estimator of the gradient: a registered name, or an instance of a learner whose ``requires``
        the energy meets.
    X : array-like of shape (n_rows, n_variables)
        Training rows: state codes from 0 of the visible variables, with -1 for missing entries, or
        numbers for a :class:`~skmrf.energies.ContinuousEnergy`. With ``Y``, inputs of a conditional
        energy, which may be any numbers.
    Y : array-like of shape (n_rows, n_visible), optional
        State codes of the outputs of a conditional energy.
    sample_weight : array-like of shape (n_rows,), optional
        Non-negative weight of each row. By default all rows have the same weight.
    optimizer : {"auto", "adam", "sgd", "momentum", "lbfgs"} or instance, default="auto"
        Optimizer. "auto" is L-BFGS if the learner has a deterministic objective on these rows,
        otherwise Adam.
    learning_rate : str, float or schedule, default="adaptive"
        Learning rate of stochastic steps: "adaptive", "constant", "step", "inverse", a number, or
        an instance of a schedule of :mod:`skmrf.training`.
    penalty : {"l2", "l1", "elasticnet", "group-l1"}, default="l2"
        Penalty of the parameters whose group in ``energy.penalty_groups()`` is not -1.
    alpha : float, default=0.0
        Strength of the penalty, at least 0.
    batch_size : int, default=256
        Number of rows in a minibatch of stochastic steps.
    max_iter : int, optional
        Maximum number of epochs, or of iterations of L-BFGS. By default training continues until it
        converges.
    tol : float, default=1e-6
        L-BFGS stops when no entry of the gradient is larger in absolute value.
    random_state : int, RandomState, Generator or None, default=None
        Random numbers of the learner and of the minibatches.

    Returns
    -------
    Energy
        Energy with the trained parameters. For stochastic steps with a smooth penalty, they are the
        mean of the iterates since the last change of the learning rate.

    Raises
    ------
    ValueError
        If the energy does not meet the requirements of the learner, if a code is not a state of its
        variable, if a row has probability zero under a model with zero potentials, or if a
        parameter is no longer finite.

    Examples
    --------
    >>> import numpy as np
    >>> from skmrf.energies import PairwiseEnergy
    >>> from skmrf.training import fit_energy
    >>> first = PairwiseEnergy(np.zeros((2, 2)), np.zeros(2))
    >>> energy = fit_energy(first, "exact", [[0, 0], [0, 1], [1, 0], [1, 1], [1, 1], [0, 0]])
    >>> energy.theta["coupling"].round(3)
    array([[0.   , 0.347],
           [0.347, 0.   ]])
    """
    learner = make_learner(learner, type(energy), owner="This energy")
    data = weighted_rows(_read_rows(energy, X, Y), sample_weight)
    check_possible_rows(energy, data)
    groups = energy.penalty_groups()
    terms = make_penalty(penalty, alpha, groups, energy.multiplicity)
    if max_iter is not None:
        check_number("max_iter", max_iter, low=1, integer=True)
    optimizer = make_optimizer(optimizer, is_solvable(learner, data), terms, penalty)
    settings = Settings(
        optimizer=optimizer,
        rate=make_rate(learning_rate, optimizer),
        penalty=terms,
        batch_size=check_number("batch_size", batch_size, low=1, integer=True),
        max_iter=max_iter,
        tol=check_number("tol", tol, low=0),
        average=terms.smooth,
        multiplicity=energy.multiplicity,
    )
    state = start(energy, learner, data, settings, check_generator(random_state))
    return run(learner, data, settings, state).result()


def _read_rows(energy, X, Y):
    """Return training rows for an energy as a batch; raise a ValueError if they do not fit it."""
    if isinstance(energy, ContinuousEnergy):
        return Batch(check_array(X, dtype=float))
    if not isinstance(energy, GibbsEnergy):
        raise ValueError(
            f"fit_energy needs a GibbsEnergy or a ContinuousEnergy; {type(energy).__name__} is "
            "neither."
        )
    if Y is None:
        return Batch(check_states(X, energy.visible_states, allow_missing=True))
    Y = check_states(Y, energy.visible_states, allow_missing=True)
    X = check_array(X)
    check_consistent_length(X, Y)
    return Batch(X, Y)
