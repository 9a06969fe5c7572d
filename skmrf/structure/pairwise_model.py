"""Settings of a pairwise model: edge parameters, candidate pairs and memory limit."""

from dataclasses import dataclass

import numpy as np

from ..energies.log_linear import LogLinearEnergy, LogLinearForm, contrasts


@dataclass(frozen=True)
class PairwiseModel:
    """Settings of a pairwise log-linear model.

    Attributes
    ----------
    statistic : {"table", "agreement"}
        Parameters of an edge: a table, or one parameter of equal states.
    unary : bool
        Whether single variables have parameters.
    screen : "auto", None or float
        Candidate pairs: all pairs (None), the pairs that tests of independence find at this
        false discovery rate (float), or a choice by the number of rows ("auto").
    max_bytes : float
        Memory limit of the conditional likelihood of a variable, in bytes.
    """

    statistic: str = "table"
    unary: bool = True
    screen: str | float | None = "auto"
    max_bytes: float = 4 * 2**30

    def form(self, n_states, edges):
        """Return the parameterisation of a log-linear model with the given edges."""
        return LogLinearForm.build(n_states, edges, self.statistic, self.unary)

    def free_parameters(self, n_states):
        """Return a factor per variable; an edge has (product of its two factors) parameters.

        The factors are those of the two variables of the edge.
        """
        return n_states - 1.0 if self.statistic == "table" else np.ones(len(n_states))

    def independent(self, rows, edges):
        """Return a model without interactions: the parameters of all edges are zero.

        With parameters of single variables, each variable has its smoothed state frequencies in
        the rows.
        """
        form = self.form(rows.n_states, edges)
        theta = form.zeros()
        for i in range(len(rows.n_states) if self.unary else 0):
            log_p = np.log(rows.smoothed_frequencies(i))
            theta["unary"][form.unary_start[i] : form.unary_start[i + 1]] = (
                contrasts(rows.n_states[i]).T @ log_p
            )
        return LogLinearEnergy(form, theta)
