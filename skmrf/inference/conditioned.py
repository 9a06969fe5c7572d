"""A question about one model and one set of evidence, and how a method is asked it."""

from dataclasses import dataclass
from typing import Any

import numpy as np

from .._utils.codes import STATE, check_evidence
from .._utils.parameters import check_choice, check_options
from .._utils.randomness import check_generator
from ..energies import FactorGraph
from ..energies.checks import factor_graph_of
from ..exact import elimination
from ..likelihood.bounds import exact_fits
from ..samplers import chained_bp

NOTHING_POSSIBLE = (
    "None of {} draws has a positive probability: the evidence is impossible, or zero potentials "
    'hide what is possible. Take method="exact", or give more n_samples or clip.'
)


@dataclass
class Question:
    """A model and what is known of its variables.

    Attributes
    ----------
    graph : FactorGraph
    evidence : dict
    row : ndarray of shape (n_variables,)
        State codes, MISSING where not observed.
    max_bytes : float
    random_state : int, Generator, RandomState or None
    """

    graph: FactorGraph
    evidence: dict
    row: np.ndarray
    max_bytes: float
    random_state: Any

    @classmethod
    def about(cls, energy, evidence, max_bytes, random_state):
        """Check the evidence."""
        graph = factor_graph_of(energy)
        evidence = check_evidence(evidence, graph.n_states)
        row = np.full(graph.n_variables, -1, dtype=STATE)
        for variable, state in evidence.items():
            row[variable] = state
        return cls(graph, evidence, row, max_bytes, random_state)

    @property
    def observed(self):
        """Mask of the variables that are known."""
        return self.row >= 0

    def resolve(self, method, methods, fallback):
        """ "auto" is "exact" where it fits, else the fallback."""
        check_choice("method", method, ("auto", *methods))
        if method != "auto":
            return method
        return "exact" if self.fits() else fallback

    def rng(self):
        """A Generator, so that only methods that draw look at the random state."""
        return check_generator(self.random_state)

    def fits(self, **how):
        """Whether elimination fits."""
        return exact_fits(self.graph.layout, self.observed, self.max_bytes, **how)

    def plan(self, **how):
        """The bucket tree."""
        return elimination.prepare(
            self.graph.layout, self.observed, max_bytes=self.max_bytes, **how
        )

    def rest(self):
        """The model of the variables that are not known."""
        return self.graph.condition(self.evidence)

    def complete(self, X):
        """Rows of the unknown variables put into rows of all variables."""
        out = np.repeat(self.row[None], len(X), axis=0)
        out[:, ~self.observed] = X
        return out


def renumbered(order, observed):
    """An order of all variables as one of those not observed, as conditioning numbers them.

    Names of orders stay as they are.
    """
    if isinstance(order, str):
        return order
    order = chained_bp.check_order(order, len(observed))
    return (np.cumsum(~observed) - 1)[order[~observed[order]]]


def ask(methods, method, question, options, **given):
    """Call a method; an option that it does not have is named with those it has."""
    check_options(method, methods[method], options)
    return methods[method](question, **given, **options)
