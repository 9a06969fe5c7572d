"""Model conditioned on evidence, and choice of the inference method."""

from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import numpy as np

from .._utils.codes import MISSING, STATE, check_evidence
from .._utils.interrupts import limit_time, remaining_time
from .._utils.parameters import check_bytes, check_choice, check_generator, check_options
from .._utils.warn import warn_caller
from ..energies import FactorGraph
from ..energies.protocols import factor_graph_of
from ..exact import elimination
from ..likelihood.annealing_paths import has_zeros
from ..likelihood.bounds import exact_fits
from ..samplers import chained_bp
from ..samplers.windows import MAX_VARIABLES

ZERO_PROBABILITY_MESSAGE = (
    "None of {} draws has a positive probability: the evidence is impossible, or the draws "
    'miss the possible states because of zero potentials. Use method="exact", or increase '
    "n_samples or clip."
)


@dataclass
class ConditionedModel:
    """Model with evidence, memory limit and random state, for one call of an inference function.

    Attributes
    ----------
    graph : FactorGraph
        The model, before conditioning.
    evidence : dict of int to int
        State code of every observed variable.
    row : ndarray of shape (n_variables,)
        The evidence as a row of state codes, MISSING where not observed.
    max_bytes : float
        Memory limit of exact inference, in bytes.
    random_state : int, Generator, RandomState or None
        Seed or generator of the methods that draw random numbers.
    until_converged : bool
        Whether chains that estimate marginals continue until convergence or the time limit.
    """

    graph: FactorGraph
    evidence: dict
    row: np.ndarray
    max_bytes: float
    random_state: Any
    until_converged: bool = False

    @classmethod
    def from_energy(cls, energy, evidence, max_bytes, random_state):
        """Check the evidence and return the conditioned model."""
        check_bytes(max_bytes)
        graph = factor_graph_of(energy)
        evidence = check_evidence(evidence, graph.n_states)
        row = np.full(graph.n_variables, -1, dtype=STATE)
        for variable, state in evidence.items():
            row[variable] = state
        return cls(graph, evidence, row, max_bytes, random_state)

    @classmethod
    def of_row(cls, graph, row, rng):
        """Return a model given the observed entries of a row of state codes."""
        return cls(graph, row_evidence(row), row, elimination.DEFAULT_MAX_BYTES, rng)

    @property
    def observed(self):
        """Boolean mask of the observed variables, shape (n_variables,)."""
        return self.row >= 0

    @property
    def has_zeros(self):
        """True if a potential of the model is zero."""
        return has_zeros(self.graph)

    def choose_chains(self, options=()):
        """Return the kind of Gibbs chains that suits the model.

        It is "block-gibbs" for models with zero potentials, which separate the chains of "gibbs",
        unless the options contain one that only "gibbs" has.
        """
        if {"n_records", "device"} & set(options):
            return "gibbs"
        is_small = self.graph.n_variables <= MAX_VARIABLES
        return "block-gibbs" if self.has_zeros and is_small else "gibbs"

    def make_rng(self):
        """Return a random generator for ``random_state``.

        Only methods that draw random numbers call this.
        """
        return check_generator(self.random_state)

    def is_exact_feasible(self, maximised=None):
        """Return whether variable elimination is feasible within the limits of memory and time."""
        return exact_fits(self.graph.layout, self.observed, self.max_bytes, maximised=maximised)

    def prepare_elimination(self, **options):
        """Return the bucket tree, which is the plan of variable elimination given the evidence."""
        return elimination.prepare(
            self.graph.layout, self.observed, max_bytes=self.max_bytes, **options
        )

    def conditional_graph(self):
        """Return the model of the unobserved variables given the evidence."""
        return self.graph.condition(self.evidence)

    def insert_single(self, single):
        """Return marginals of all variables: 1 at the observed states, and the given ones."""
        layout = self.graph.layout
        out = np.zeros(int(layout.n_states.sum()))
        out[np.repeat(~self.observed, layout.n_states)] = single
        observed = np.flatnonzero(self.observed)
        out[layout.state_start[observed] + self.row[observed]] = 1.0
        return out

    def insert_marginals(self, single, flat):
        """Return marginals of all variables and of all cliques, from those given the evidence.

        The cliques have the layout of untied tables.
        """
        untied = self.graph.layout.untied()
        out = np.zeros(untied.n_parameters)
        out[untied.find_entries(self.row, untied.condition(self.row))] = flat
        return self.insert_single(single), out

    def insert_evidence(self, X):
        """Return complete rows: the observed states, and states ``X`` of the other variables."""
        out = np.repeat(self.row[None], len(X), axis=0)
        out[:, ~self.observed] = X
        return out


def row_evidence(row):
    """Return the observed entries of a row of state codes as evidence."""
    return {int(i): int(row[i]) for i in np.flatnonzero(row != MISSING)}


def restrict_order(order, observed):
    """Remove observed variables from a variable order, and renumber the others from 0.

    Conditioning numbers the unobserved variables from 0. A string (the name of an order) is
    returned unchanged.
    """
    if isinstance(order, str):
        return order
    order = chained_bp.check_order(order, len(observed))
    return (np.cumsum(~observed) - 1)[order[~observed[order]]]


def warn_inexact_samples():
    """Warn that samples are states of Gibbs chains, not exact draws."""
    warn_caller(
        "Exact sampling needs too much memory or time. The samples are states of Gibbs chains, "
        "which only approximate the distribution. If memory is the reason, increase max_bytes.",
    )


def call_method(methods, method, model, options, **arguments):
    """Call an inference method after checking its options."""
    check_options(method, methods[method], options)
    return methods[method](model, **arguments, **options)


def answer(methods, method, model, options, fallback=None, **arguments):
    """Return the name of an inference method and its result.

    "auto" uses "exact" if exact inference is feasible, and ends in half of the time limit.
    Otherwise it uses the fallback, by default Gibbs chains. The options are those of the fallback.
    With a time limit and without the option ``n_sweeps``, Gibbs chains that estimate marginals
    continue until convergence or the limit.
    """
    check_choice("method", method, ("auto", *methods))
    if method != "auto":
        return method, call_method(methods, method, model, options, **arguments)
    check_options(method, methods[fallback or "gibbs"], options)
    with limit_time(0.5 * remaining_time()), suppress(TimeoutError):
        if model.is_exact_feasible(arguments.get("maximised")):
            return "exact", call_method(methods, "exact", model, {}, **arguments)
    chosen = fallback or model.choose_chains(options)
    model.until_converged = remaining_time() < np.inf and "n_sweeps" not in options
    if chosen == "block-gibbs":
        with suppress(TimeoutError):
            return chosen, call_method(methods, chosen, model, options, **arguments)
        chosen = "gibbs"
    return chosen, call_method(methods, chosen, model, options, **arguments)
