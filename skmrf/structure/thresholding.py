"""Edges by the size of their parameters."""

from .._utils.parameters import check_number
from .search import Search


class Thresholding(Search):
    r"""Backward elimination of edges with small parameters.

    In each round the parameters of all edges are learned, and edges with
    :math:`\lVert \theta_{ij} \rVert` below the threshold leave. The search ends when none leaves.

    Parameters
    ----------
    threshold : float, default=0.25
        Smallest norm of the centred table of an edge, at least 0. If both columns have two
        categories, it is twice the absolute coupling of states -1 and 1, and
        :math:`\lvert \log \beta / (1 - \beta) \rvert` of Liu and Page (2013).
    control : {"holm", "fdr"}, default="holm"
        Adjustment of ``p_values_`` for multiple tests. The edges do not depend on it.
    """

    def __init__(self, threshold=0.25, control="holm"):
        self.threshold = threshold
        self.control = control

    def check(self):
        super().check()
        check_number("threshold", self.threshold, low=0)

    def keep(self, energy, assessment):
        return energy.strengths() >= self.threshold
