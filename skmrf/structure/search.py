"""Base classes of search strategies and models, and search in rounds of learning and selection."""

from abc import ABC, abstractmethod
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.exceptions import ConvergenceWarning

from .._utils.parallel import parallel_jobs
from .._utils.parameters import check_choice
from .._utils.warn import warn_caller
from ..learners import PCD, Learner
from ..training import data_moments, loop, penalties
from ..training.reports import SilentReports
from .fitted_graph import Selection
from .path import Path, Recorder, count_changes
from .regression import RIDGE
from .rows import Rows
from .screening import difference
from .significance import CONTROLS
from .training_settings import LoopParameters, PenalisedProblem, adapt_learner

PCD_SWEEPS = 2  # sweeps per update; few suffice, as learning starts near the optimum
MAX_ROUNDS = 20
MIN_EPOCH_GAIN = 1e-4  # nats of all rows per parameter; with a smaller gain, learning ends


class GraphModel(ABC):
    """Base class of models whose edges a search strategy selects.

    A model defines the parameters of an edge, and how they are estimated and tested. Search
    strategies use these methods only, so that they can be used with each kind of columns.
    """

    @abstractmethod
    def candidates(self, rows):
        """Return the candidate pairs of the search, shape (n_pairs, 2), the lower index first."""

    @abstractmethod
    def fit(self, rows, edges, estimation, previous=None):
        """Fit the regressions of all variables on their neighbours in a graph.

        Parameters
        ----------
        rows : Rows or MixedRows
            Training rows.
        edges : ndarray of shape (n_edges, 2)
            Edges of the graph.
        estimation : Estimation
            Random generator of imputations, and number of threads.
        previous : LogLinearEnergy or MixedFits, optional
            Parameters of another graph, which are initial values.

        Returns
        -------
        energy : LogLinearEnergy or MixedFits
            Model with the parameters of the regressions.
        imputed : Rows or MixedRows
            Rows with imputed missing entries.
        fits : NodeFits or MixedFits
            Regressions that were fitted to ``imputed``.
        """

    @abstractmethod
    def assess(self, energy, rows, imputed, fits, estimation):
        """Return tests of the edges, given its parameters and the results of :meth:`fit`."""

    @abstractmethod
    def add_score_tests(self, tests, fits, rows, n_jobs):
        """Return the tests of the edges, extended by score tests of all other pairs."""

    @abstractmethod
    def assess_pairs(self, rows, edges, n_jobs):
        """Fit the regressions of a graph to rows, and return the tests of all pairs."""

    @abstractmethod
    def penalised_path(self, rows, edges, penalty, estimation):
        """Return an object that computes penalised estimates of the candidate pairs."""


class LearnedGraphModel(GraphModel):
    """Base class of models whose parameters the training loop learns.

    The parameters of the regressions are the initial values. In other models they are final.
    """

    @abstractmethod
    def initial(self, rows, edges, previous=None):
        """Return a model whose edges have the parameters of a previous model, or zero."""

    @abstractmethod
    def refit(self, rows, energy, estimation):
        """Return imputed rows and regressions, given learned parameters."""


class Search(BaseEstimator):
    """Base class of search strategies: a strategy selects which pairs of variables are edges.

    A strategy stores parameters only. It can be cloned, and a grid search can set its parameters
    as ``search__...``. By default :meth:`select` learns and selects in rounds. The first round has
    the candidate pairs, or the edges with nonzero parameters in a penalised estimate, see
    :meth:`penalise`. The edges of later rounds are given by :meth:`keep` and :meth:`revise`. A
    strategy with a :meth:`restriction` removes edges during learning, instead of in rounds.

    Attributes
    ----------
    control : str
        Rule of multiple tests, one of ``controls``.
    takes_partial_fit : bool
        Whether :meth:`select_more` can continue a selection with more rows.
    takes_numbers : bool
        Whether the strategy supports tables with numeric columns.
    keeps_by_all_tests : bool
        Whether :meth:`keep` needs the tests of all pairs.
    """

    control, controls = "holm", tuple(CONTROLS)
    keeps_by_all_tests = False
    takes_partial_fit = False
    takes_numbers = False

    def check(self):
        """Raise a ValueError unless the parameters are valid."""
        check_choice("control", self.control, self.controls)

    @property
    def adjustment(self):
        """Adjustment of p-values, "holm" or "fdr"."""
        return self.control

    def default_learner(self):
        """Return the learner that ``learner="auto"`` selects."""
        return PCD(n_sweeps=PCD_SWEEPS)

    def check_learner(self, learner):
        """Raise a ValueError unless the strategy supports the learner."""

    def select(self, rows, model, estimation):
        """Select a graph; return it with its parameters and tests.

        Parameters
        ----------
        rows : Rows or MixedRows
            Training rows; every variable has at least two states.
        model : GraphModel
            Parameterisation of the edges, and limits on candidates and memory.
        estimation : Estimation
            Learner, settings and state of the training loop.

        Returns
        -------
        Selection
            Selected edges with their parameters and tests.
        """
        restriction = self.restriction(estimation)
        edges = model.candidates(rows)
        if restriction is not None:
            energy = model.initial(rows, edges)
            energy = estimation.learn(energy, rows, restriction=restriction)
            return _select_remaining(rows, energy, model, estimation)
        n_candidates = len(edges)
        if n_candidates:
            edges = _nonzero_edges(rows, edges, model, self, estimation)
        return select_in_rounds(rows, edges, model, self, estimation, n_candidates=n_candidates)

    def select_more(self, rows, model, estimation):
        """Continue the search by one epoch of learning, and return the selected graph.

        The first epoch starts with all candidate pairs.

        Parameters
        ----------
        rows : Rows
            Training rows; every variable has at least two states.
        model : LearnedGraphModel
            Parameterisation of the edges, and limits on candidates and memory.
        estimation : Estimation
            Learner, settings and state of the training loop.

        Returns
        -------
        Selection
            Selected edges with their parameters and tests.

        Raises
        ------
        NotImplementedError
            If the strategy cannot continue a selection, see ``takes_partial_fit``.
        """
        restriction = self.restriction(estimation)
        if restriction is None:
            raise NotImplementedError(
                f"The search strategy {type(self).__name__} does not support partial_fit. Use fit."
            )
        is_resumed = estimation.state is not None
        edges = np.zeros((0, 2), int) if is_resumed else model.candidates(rows)
        energy = model.initial(rows, edges)
        if is_resumed or len(edges):
            energy = estimation.learn_epoch(energy, rows, restriction)
        return _select_remaining(rows, energy, model, estimation)

    def restriction(self, estimation):
        """Return the rule that removes edges between updates; None for a search in rounds.

        A rule requires a ``LearnedGraphModel``.

        Parameters
        ----------
        estimation : Estimation
            Its path records the removals.

        Returns
        -------
        EdgeRemoval or None
            Rule of removal.
        """

    def penalise(self, rows, edges, model, estimation):
        """Return a penalised estimation of the candidate pairs; None for a search without penalty.

        Parameters
        ----------
        rows : Rows or MixedRows
            Training rows; every variable has at least two states.
        edges : ndarray of shape (n_edges, 2)
            Candidate pairs, at least one.
        model : GraphModel
            Parameterisation of the edges, and limits on candidates and memory.
        estimation : Estimation
            Random generator and number of threads. Its ``alpha`` is set to the strength of the
            penalty.

        Returns
        -------
        PenalisedProblem, ndarray of bool of shape (n_edges,) or None
            Problem that the learner of the search must solve, or the mask of the edges with
            nonzero parameters.
        """

    def keep(self, energy, assessment):
        """Return a mask of the edges to keep after a round of learning.

        Parameters
        ----------
        energy : LogLinearEnergy
            Model with the learned parameters of the edges.
        assessment : Assessment
            Tests of the edges.

        Returns
        -------
        ndarray of bool of shape (n_edges,)
            True for the edges to keep.
        """
        return np.ones(len(energy.form.edges), dtype=bool)

    def revise(self, rows, edges, assessment, model, entered, n_jobs):
        """Return the edges of the next round of the search.

        This method is called after a round in which :meth:`keep` removed no edge.

        Parameters
        ----------
        rows : Rows or MixedRows
            Training rows without missing entries.
        edges : ndarray of shape (n_edges, 2)
            Edges of the current round.
        assessment : Assessment
            Tests of all pairs.
        model : GraphModel
            Parameterisation of the edges.
        entered : set of (int, int)
            Pairs that were added in earlier rounds. The pairs that are added now are inserted.
        n_jobs : int or None
            Number of threads over variables.

        Returns
        -------
        ndarray of shape (n_edges, 2)
            Edges of the next round.
        """
        return edges


@dataclass
class Estimation:
    """Learner, training settings and training progress of structure learning.

    Attributes
    ----------
    learner : Learner
        Estimator of the gradient.
    parameters : LoopParameters
        Parameters of the training loop.
    rng : numpy.random.Generator
        Random generator of all draws.
    path : Path
        Record of the parameters of all edges.
    reports : object with the methods of :class:`~skmrf.training.reports.SilentReports`
        Receives progress and can stop the training.
    n_jobs : int or None
        Number of threads.
    history : dict of lists
        Diagnostics of all runs so far, one entry per epoch.
    n_iter : int
        Number of epochs of all runs so far.
    converged : bool
        Whether the last run converged.
    stopped : bool
        Whether a callback or Ctrl-C has stopped the training.
    interrupted : bool
        Whether Ctrl-C has interrupted a run.
    alpha : float or None
        Strength of the selected penalty; None without a penalty.
    state : LoopState or None
        State of the training loop after the last run.
    restriction : EdgeRemoval or None
        Edge removal that later epochs continue; None before the first epoch.
    """

    learner: Learner
    parameters: LoopParameters
    rng: np.random.Generator
    path: Path
    reports: Any = field(default_factory=SilentReports)
    n_jobs: int | None = None
    history: dict = field(default_factory=dict)
    n_iter: int = 0
    converged: bool = True
    stopped: bool = False
    interrupted: bool = False
    alpha: float | None = None
    state: Any = None
    restriction: Any = None

    def learn(self, energy, rows: Rows, *, warm=False, penalty=None, restriction=None):
        """Learn the parameters of a given graph.

        Parameters
        ----------
        energy : LogLinearEnergy
            Initial values.
        rows : Rows
            Training rows.
        warm : bool
            Whether the initial values are near the optimum.
        penalty : optional
            Penalty of the parameters. The default is the ridge of the conditional likelihoods,
            which keeps parameters finite where the likelihood has no maximum. With a restriction
            the default is no penalty.
        restriction : EdgeRemoval, optional
            Removes edges between updates.

        Returns
        -------
        LogLinearEnergy
            Model with the learned parameters.
        """
        if not len(energy.form.edges):
            return energy
        learner = adapt_learner(self.learner)
        if penalty is None:
            penalty = self._default_penalty(energy, rows, restriction)
        options = {"warm": warm, "restriction": restriction}
        settings = self.parameters.settings(learner, rows, penalty, **options)
        moments = data_moments.complete_moments(energy.graph, rows.batch)
        resolution = data_moments.estimate_resolution(moments, rows.batch)
        min_gain = MIN_EPOCH_GAIN * sum(part.size for part in energy.theta.values()) / rows.count
        settings = replace(settings, resolution=resolution, min_gain=min_gain)
        self.path.begin()
        state = loop.start(energy, learner, rows.batch, settings, self.rng)
        return self._run(learner, rows, settings, state)

    def learn_epoch(self, energy, rows: Rows, restriction):
        """Learn the parameters for one more epoch, and remove edges between updates.

        Only the first epoch uses ``energy``, the initial values, and ``restriction``. Later epochs
        resume from the stored state, also with other rows.
        """
        first = self.state is None
        self.restriction = restriction if first else self.restriction
        learner, parameters = adapt_learner(self.learner), replace(self.parameters, max_iter=1)
        settings = parameters.settings(
            learner, rows, penalties.NoPenalty(), restriction=self.restriction
        )
        if first:
            state = loop.start(energy, learner, rows.batch, settings, self.rng)
        else:
            state = loop.resume(self.state, learner, rows.batch, settings)
        return self._run(learner, rows, settings, state)

    @staticmethod
    def _default_penalty(energy, rows, restriction):
        if restriction is not None:
            return penalties.NoPenalty()
        return penalties.L2(RIDGE / rows.count, energy.penalty_groups())

    def _run(self, learner, rows, settings, state):
        recorder = Recorder(self.path, self.reports)
        first_epoch = state.epoch
        with parallel_jobs(self.n_jobs):
            state = loop.run(learner, rows.batch, settings, state, recorder)
        self.n_iter += state.epoch - first_epoch
        self.converged = bool(state.converged)
        self.interrupted |= state.interrupted
        self.stopped |= recorder.stopped or state.interrupted
        for name, column in state.history.columns.items():
            self.history.setdefault(name, []).extend(column[first_epoch:])
        self.state = state
        return state.result().restricted(state.energy.alive)


def select_on_sample(rows, model, search, learner, parameters, seed):
    """Draw rows with replacement, and return the edges that a search selects on them.

    Raises
    ------
    KeyboardInterrupt
        If Ctrl-C interrupted the search.
    """
    rng = np.random.default_rng(seed)
    n_drawn = max(1, round(rows.count))
    drawn = rng.multinomial(n_drawn, rows.weights / rows.count)
    sample = rows.reweight(drawn / rows.weights * (rows.count / n_drawn))
    estimation = Estimation(learner, parameters, rng, Path(), n_jobs=1)
    selection = search.select(sample, model, estimation)
    if estimation.stopped:
        raise KeyboardInterrupt
    return selection.energy.form.edges


def _nonzero_edges(rows, edges, model, search, estimation):
    """Return the candidate pairs with nonzero parameters in the penalised estimate of a search."""
    kept = search.penalise(rows, edges, model, estimation)
    if kept is None:
        return edges
    if isinstance(kept, PenalisedProblem):
        kept = estimation.learn(kept.energy, kept.rows, penalty=kept.penalty).strengths() > 0
    estimation.path.remove(edges[~kept])
    return edges[kept]


def _select_remaining(rows, energy, model, estimation):
    """Return the remaining edges as a :class:`Selection`, with their parameters and tests."""
    edges = energy.form.edges
    remaining = edges[energy.alive]
    final = model.initial(rows, remaining, energy)
    imputed, fits = model.refit(rows, final, estimation)
    tests = model.assess(final, rows, imputed, fits, estimation)
    tests = model.add_score_tests(tests, fits, imputed, estimation.n_jobs)
    return Selection(final, tests, len(edges), [count_changes(edges, remaining)], True)


def select_in_rounds(rows, edges, model, search, estimation, *, n_candidates):
    """Repeat rounds of learning and edge selection until a round does not change the edges.

    A round learns the parameters of all edges and removes the edges that ``search.keep`` rejects.
    If it rejects none, ``search.revise`` returns the edges of the next round.
    """
    rounds, energy, entered = [], None, set()
    while True:
        energy, imputed, fits = model.fit(rows, edges, estimation, energy)
        if isinstance(model, LearnedGraphModel):
            energy = estimation.learn(energy, rows, warm=True)
            if rows.has_missing:
                imputed, fits = model.refit(rows, energy, estimation)
        tests, n_jobs = model.assess(energy, rows, imputed, fits, estimation), estimation.n_jobs
        if search.keeps_by_all_tests:
            tests = model.add_score_tests(tests, fits, imputed, n_jobs)
        after = edges[kept := search.keep(energy, tests)]
        last = estimation.stopped or len(rounds) + 1 == MAX_ROUNDS
        if kept.all() or last:
            if not search.keeps_by_all_tests:
                tests = model.add_score_tests(tests, fits, imputed, n_jobs)
            if kept.all() and not estimation.stopped:
                after = search.revise(imputed, edges, tests, model, entered, n_jobs)
        unchanged = np.array_equal(after, edges) and not estimation.stopped
        rounds.append(count_changes(edges, edges if last else after))
        if last and not unchanged:
            _warn_unconverged(len(rounds), len(difference(edges, after)), estimation.stopped)
        if last or unchanged:
            return Selection(energy, tests, n_candidates, rounds, unchanged)
        estimation.path.remove(difference(edges, after))
        estimation.path.enter(difference(after, edges))
        edges = after


def _warn_unconverged(n_rounds, n_rejected, was_stopped):
    cause, remedy = f"The search reached its limit of {n_rounds} rounds", "Leave out these edges"
    if was_stopped:
        cause = f"A callback or Ctrl-C stopped the search in round {n_rounds}"
        remedy = "Leave out these edges, or fit again without the interruption"
    warn_caller(
        f"{cause}, before it converged. {n_rejected} of the selected edges do not meet the "
        f"criterion of the search strategy, such as a small p-value (p_values_). {remedy}.",
        ConvergenceWarning,
    )
