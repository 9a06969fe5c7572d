"""The pairwise model that is learned: its parameters, candidate pairs and memory."""

from dataclasses import dataclass

import numpy as np

from ..energies.log_linear import LogLinearEnergy, LogLinearForm, contrasts


@dataclass(frozen=True)
class PairwiseModel:
    """Pairwise log-linear model of given statistics.

    Attributes
    ----------
    statistic : {"table", "agreement"}
        Parameters of an edge.
    unary : bool
        Whether single variables have parameters.
    screen : "auto", None or float
        Which pairs are candidates: all, or the level of false discoveries of the tests that find
        them.
    max_bytes : float
        Bound on the memory of the conditional likelihood of a variable.
    """

    statistic: str = "table"
    unary: bool = True
    screen: str | float | None = "auto"
    max_bytes: float = 4 * 2**30

    def form(self, n_states, edges):
        """Return the parameterisation of a graph."""
        return LogLinearForm.build(n_states, edges, self.statistic, self.unary)

    def free_parameters(self, n_states):
        """Return one factor for each variable; an edge has the product of two as parameters."""
        return n_states - 1.0 if self.statistic == "table" else np.ones(len(n_states))

    def independent(self, rows, edges):
        """Return the energy of independent variables; the parameters of all edges are zero."""
        form = self.form(rows.n_states, edges)
        theta = form.zeros()
        for i in range(len(rows.n_states) if self.unary else 0):
            log_p = np.log(rows.frequencies(i))
            theta["unary"][form.unary_start[i] : form.unary_start[i + 1]] = (
                contrasts(rows.n_states[i]).T @ log_p
            )
        return LogLinearEnergy(form, theta)
