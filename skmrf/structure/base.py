"""The contract of search strategies."""

from abc import ABC, abstractmethod
from dataclasses import dataclass

import numpy as np
from sklearn.base import BaseEstimator

from .._utils.parameters import check_choice
from ..energies.log_linear import LogLinearEnergy
from ..learners import PCD
from .assessment import Assessment
from .multiple_tests import CONTROLS

FEW_SWEEPS = 2  # a step, as learning begins near the optimum


@dataclass(frozen=True, eq=False)
class Selection:
    """A selected graph with its parameters and tests.

    Attributes
    ----------
    energy : LogLinearEnergy
        Its edges are the selected ones.
    assessment : Assessment
        Tests of all pairs.
    n_candidates : int
        Number of pairs that learning began with.
    rounds : list of dict
        Number of edges at the beginning of each round, and how many left and entered.
    converged : bool
        Whether the last round changed nothing.
    """

    energy: LogLinearEnergy
    assessment: Assessment
    n_candidates: int
    rounds: list
    converged: bool


class Search(BaseEstimator, ABC):
    """Strategy that decides which pairs of variables are edges.

    A strategy holds parameters only, so it clones and its parameters can be searched as
    ``search__...``. A subclass implements :meth:`select`. One that selects in rounds
    (:func:`~skmrf.structure.stepwise.select_in_rounds`) states by :meth:`keep` and :meth:`revise`
    which edges a round leaves.

    Attributes
    ----------
    control : {"holm", "fdr"}
        Adjustment of p-values for multiple tests.
    takes_partial_fit : bool
        Whether :meth:`select_more` continues a selection with more rows.
    """

    control = "holm"
    takes_partial_fit = False

    def check(self):
        """Raise a ValueError unless the parameters are valid."""
        check_choice("control", self.control, CONTROLS)

    def default_learner(self):
        """Return the learner of ``learner="auto"``."""
        return PCD(n_sweeps=FEW_SWEEPS)

    def check_learner(self, learner):
        """Raise a ValueError unless the strategy takes the learner."""

    @abstractmethod
    def select(self, rows, model, estimation):
        """Return the selected graph.

        Parameters
        ----------
        rows : Rows
            Their variables have at least two states.
        model : PairwiseModel
        estimation : Estimation

        Returns
        -------
        Selection
        """

    def select_more(self, rows, model, estimation):
        """Return the graph after one more epoch of learning; parameters as in :meth:`select`."""
        raise NotImplementedError(f"{type(self).__name__} cannot continue a selection.")

    def keep(self, energy, assessment):
        """Return which edges stay after a round of learning.

        Parameters
        ----------
        energy : LogLinearEnergy
            The learned parameters.
        assessment : Assessment
            Tests of the edges.

        Returns
        -------
        ndarray of bool of shape (n_edges,)
        """
        return np.ones(len(energy.form.edges), dtype=bool)

    def revise(self, rows, edges, assessment, model, entered, n_jobs):
        """Return the edges of the next round, once no edge has left.

        Parameters
        ----------
        rows : Rows
            Nothing is missing.
        edges : ndarray of shape (n_edges, 2)
        assessment : Assessment
            Tests of all pairs.
        model : PairwiseModel
        entered : set of (int, int)
            Pairs that have entered before; those that enter now are added.
        n_jobs : int or None

        Returns
        -------
        ndarray of shape (n_edges, 2)
        """
        return edges
