"""Graph search that removes edges with small parameters."""

from .._utils.parameters import check_number
from .search import Search


class Thresholding(Search):
    r"""Backward elimination of edges with small parameters.

    Each round learns the parameters of all edges and removes edges with
    :math:`\lVert \theta_{ij} \rVert` below the threshold. The search ends when a round removes no
    edge.

    Parameters
    ----------
    threshold : float, default=0.25
        Smallest norm of the centred table of an edge that is kept, at least 0. If both columns have
        two categories, the norm is twice the absolute coupling of states -1 and 1, and equals
        :math:`\lvert \log \beta / (1 - \beta) \rvert` of Liu and Page (2013).
    control : {"holm", "fdr"}, default="holm"
        Adjustment of ``p_values_`` for multiple tests: family-wise error rate ("holm") or false
        discovery rate ("fdr"). The edges do not depend on it.
    """

    def __init__(self, threshold=0.25, control="holm"):
        self.threshold = threshold
        self.control = control

    def check(self):
        """Raise a ValueError unless the parameters are valid."""
        super().check()
        check_number("threshold", self.threshold, low=0)

    def keep(self, energy, assessment):
        """Return a mask of the edges whose parameter norm is at least the threshold.

        Parameters
        ----------
        energy : LogLinearEnergy
            Model with the learned parameters of the edges.
        assessment : Assessment
            Tests of the edges (not used).

        Returns
        -------
        ndarray of bool of shape (n_edges,)
            True for the edges to keep.
        """
        return energy.strengths() >= self.threshold
