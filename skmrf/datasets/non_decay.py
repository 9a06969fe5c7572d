"""Ising models whose correlations do not decay with distance."""

import numpy as np

from .._utils.parameters import check_number
from ..energies import PairwiseEnergy


def make_non_decay_mrf(n_middle, *, beta):
    r"""Generate an Ising model whose most correlated pair of variables is not an edge.

    .. math:: \log f(s) = J \sum_{k=1}^{D} (s_0 s_k + s_k s_{D+1}),
              \qquad J = \tfrac{1}{2} \log \frac{\beta}{1 - \beta}

    The end variables 0 and D + 1 are not neighbours, but each is a neighbour of all D middle
    variables. There are therefore D paths of two edges between them. If D is large enough, the two
    end variables are more correlated than neighbours are: correlations do not decay with distance
    [1]_. Methods that select the pairs with the largest correlations cannot find this graph. With
    :math:`t = 2 \beta - 1`,

    .. math:: E[s_0 s_{D+1}] = \tanh(D \operatorname{artanh} t^2), \qquad
              E[s_0 s_1] = \tanh(\operatorname{artanh} t + \operatorname{artanh}(t r)), \qquad
              r = \tanh((D - 1) \operatorname{artanh} t^2).

    Parameters
    ----------
    n_middle : int
        Number D of middle variables, at least 1. The end variables are more correlated than
        neighbours if D is at least 12, 7, 4 or 3 for ``beta`` = 0.55, 0.6, 0.7 or 0.8.
    beta : float
        Probability that the two ends of an edge are equal if there were no other edge, strictly
        between 0 and 1. Below 1/2 the couplings are negative. The correlation of the end variables
        is the same for ``beta`` and for 1 - ``beta``.

    Returns
    -------
    PairwiseEnergy
        Ising model with D + 2 variables, ``states=(-1, 1)`` and 2 D edges.

    Raises
    ------
    ValueError
        If ``n_middle`` is below 1, or if ``beta`` is not strictly between 0 and 1.

    References
    ----------
    .. [1] J. Liu and D. Page, "Structure learning of undirected graphical models with contrastive
       divergence", ICML 2013 workshop on structured learning, sections 1 and 5.

    Examples
    --------
    >>> from skmrf.datasets import make_non_decay_mrf
    >>> energy = make_non_decay_mrf(8, beta=0.6)
    >>> energy.coupling[0, 1].round(4), energy.coupling[0, 9]
    (np.float64(0.2027), np.float64(0.0))
    """
    n = int(check_number("n_middle", n_middle, low=1, integer=True))
    if check_number("beta", beta, low=0, high=1) in (0, 1):
        raise ValueError(f"beta must be strictly between 0 and 1; got {beta!r}.")
    coupling = np.zeros((n + 2, n + 2))
    coupling[[0, -1], 1:-1] = 0.5 * (np.log(beta) - np.log1p(-beta))
    return PairwiseEnergy(coupling + coupling.T, np.zeros(n + 2), states=(-1, 1))
