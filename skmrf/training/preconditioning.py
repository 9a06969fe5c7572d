"""Preconditioner of deterministic training: an approximate inverse Hessian of tables."""

import numpy as np

from .._kernels.tables import precondition_tables
from .._utils.codes import MISSING
from .._utils.log_weights import normalized_weights
from ..energies import TableEnergy

MIN_CURVATURE = 1e-9  # where neither the data nor the penalty determine an entry


class TablePreconditioner:
    r"""Approximate inverse Hessian of the log-likelihood of tables of log-potentials.

    It is the inverse Hessian of a model of independent variables with the frequencies of the data.
    Tables of two variables are centred: their log-potentials are
    :math:`\sum_{st} \theta_{ij}(s, t) (1[x_i = s] - p_i(s)) (1[x_j = t] - p_j(t))`, whose Hessian
    is nearly diagonal. Its entries are :math:`p_i(s) (1 - p_i(s)) p_j(t) (1 - p_j(t))`, and they
    count twice, because a pseudo-likelihood contains each pair twice. The second derivatives of
    the penalty are added to the diagonal.

    Parameters
    ----------
    layout : Layout
        Cliques of the model.
    frequencies : list of ndarray
        Probabilities of the states of each variable, all greater than 0.
    curvature : float or ndarray of shape (n_parameters,)
        Second derivatives of the penalty.
    """

    def __init__(self, layout, frequencies, curvature):
        self.layout = layout
        self.frequencies = np.concatenate(frequencies)
        self.state_start = np.append(layout.state_start, layout.n_states.sum())
        self.curvature = np.broadcast_to(curvature, layout.n_parameters) + MIN_CURVATURE
        self.owner = np.full(len(layout.n_states), -1)
        alone = np.flatnonzero(layout.orders == 1)[::-1]
        self.owner[layout.clique_vars[layout.clique_ptr[alone]]] = alone
        self.owner[layout.n_states == 1] = -1  # the variance of a constant is zero

    def __call__(self, gradient):
        """Return the approximate inverse Hessian times a vector of shape (n_parameters,)."""
        out = np.zeros(self.layout.n_parameters)
        precondition_tables(
            gradient, self.frequencies, self.state_start, self.owner, self.curvature,
            *self.layout.structure, out,
        )  # fmt: skip
        return out


def make_preconditioner(energy, data, penalty):
    """Return the preconditioner of a model, or None if the model has none.

    Parameters
    ----------
    energy : Energy
        Model to train.
    data : Batch
        All training rows.
    penalty : penalty of :mod:`skmrf.training`
        Penalty.

    Returns
    -------
    TablePreconditioner or None
        Preconditioner. None unless the parameters are tables, of which no two are tied, and the
        penalty is smooth.
    """
    if not isinstance(energy, TableEnergy) or energy.layout.is_tied or not penalty.smooth:
        return None
    weights = normalized_weights(data.log_weights, len(data.X))
    pairs = zip(data.X.T, energy.layout.n_states.tolist(), strict=True)
    frequencies = [_frequencies(x, q, weights, len(data.X)) for x, q in pairs]
    (curvature,) = penalty.curvature(energy.theta).values()
    return TablePreconditioner(energy.layout, frequencies, curvature)


def _frequencies(column, n_states, weights, n_rows):
    """Return the state frequencies of a column, smoothed by one pseudo-count."""
    observed = column != MISSING
    p = np.bincount(column[observed], weights[observed], minlength=n_states)
    return (n_rows * p + 1.0 / n_states) / (n_rows * p.sum() + 1.0)
