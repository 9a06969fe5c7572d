"""Removal of weak edges while learning goes on."""


class EdgeRemoval:
    r"""Removes for good every edge with :math:`\lVert \theta_{ij} \rVert` below a threshold.

    Parameters
    ----------
    threshold : float
    warmup : int
        Updates before the first removal.
    path : Path
        Is told of removals.

    References
    ----------
    J. Liu and D. Page, "Structure learning of undirected graphical models with contrastive
    divergence", ICML 2013 workshop on structured learning, Algorithm 1.
    """

    def __init__(self, threshold, warmup, path):
        self.threshold = threshold
        self.warmup = warmup
        self.path = path
        self.n_updates = 0

    def update(self, energy, positive, negative, info):
        """The energy without the edges that have become weak."""
        self.n_updates += 1
        if self.n_updates <= self.warmup:
            return energy
        weak = energy.alive & (energy.strengths() < self.threshold)
        if not weak.any():
            return energy if energy.alive.all() else energy.restricted(energy.alive)
        self.path.remove(energy.form.edges[weak], self.n_updates)
        return energy.restricted(energy.alive & ~weak)
