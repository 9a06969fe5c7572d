"""Windows: sets with most variables of a model, which are drawn or maximised together.

Elimination draws or maximises the variables of a window exactly, given the states of all others.
"""

from contextlib import suppress
from functools import partial

import numpy as np
from scipy.special import logsumexp

from .._kernels.ordering import adjacency_bits, write_window
from .._utils.codes import STATE
from .._utils.interrupts import check_time, limit_time, remaining_time
from .._utils.parallel import run_blocks
from ..energies import FactorGraph
from ..energies.layout import Layout
from ..energies.table_backed import NAME
from ..exact.elimination import (
    ImpossibleEvidence,
    log_partitions,
    maximise,
    sample,
    sample_with_marginals,
)
from ..exact.tree_decomposition import Forecast, build_tree
from ..variational.belief_propagation import Propagation, belief_propagation
from .gibbs import Product, spawn_generators, split_chains, sweep
from .gibbs_queries import check_possible, sweep_in_time
from .smc import run_smc

MAX_VARIABLES = 5000  # the adjacency matrix and the planning of windows are quadratic
LOG2_TABLE = (12, 18)  # largest tables of the first and of the later windows of a search
PATIENCE = 10  # windows without a better state, before the search moves to another state
LOWEST_BETA = 0.05
TOLERANCE = 1e-9
N_WINDOWS, LOG2_DRAWN = 32, 10  # windows of Gibbs moves, and their largest tables
TRUST = 0.9  # weight of approximate marginals in the first model of a path, besides uniform ones
PENALTY = 30.0  # nats of a zero potential at the end of a path
N_PARTICLES, N_BURN_IN = 64, 20
START_BETAS = np.minimum(np.linspace(0.0, 2.0, 201), 1.0)  # inverse temperatures of first sweeps
COOLING = np.linspace(0.2, 1.0, 11)  # and of the block moves after them
FEWEST_WINDOWS, WINDOW_TIME = 4, 0.25  # in a short time, and their share of the remaining time
START_TIME = 0.4  # largest share of the remaining time, of these sweeps and of these moves
QUICK = Propagation(max_iter=100)
FREE = -1e6  # noise of a variable that a window must contain


class Windows:
    """Random windows of a factor graph.

    A window contains as many variables as elimination allows with tables of a limited size, so it
    contains most variables of a grid and all variables of a tree. Each window contains one of the
    variables that the fewest windows before contained.

    Parameters
    ----------
    graph : FactorGraph
        Model.
    rng : numpy.random.Generator
        Source of randomness.
    """

    def __init__(self, graph, rng):
        self.layout, self.rng = graph.layout, rng
        n = graph.n_variables
        everything = np.ones(n, dtype=bool)
        self.bits = adjacency_bits(self.layout.clique_ptr, self.layout.clique_vars, everything, n)
        self.log_states = np.log(self.layout.n_states.astype(float))
        self.n_contained = np.zeros(n, dtype=int)

    def draw(self, log2_table):
        """Return the elimination plan of a random window with tables of ``2**log2_table`` entries.

        The variables outside of the window are observed.
        """
        check_time()
        n = len(self.n_contained)
        is_free, order = np.ones(n, dtype=bool), np.empty(n, dtype=np.int64)
        limit, noise = log2_table * np.log(2.0), self.rng.random(n)
        if n:
            rare = np.flatnonzero(self.n_contained == self.n_contained.min())
            noise[self.rng.choice(rare)] = FREE
        count = write_window(self.bits.copy(), is_free, self.log_states, noise, limit, order)
        self.n_contained += is_free
        cost = Forecast(0.0, 0.0, 0.0, order[:count])
        return build_tree(self.layout, ~is_free, np.zeros(n, dtype=bool), cost)


class WindowSearch:
    """Local search for a joint mode of a factor graph.

    A move maximises exactly over a random window, given the states of all other variables. If ten
    moves find no better state, the search draws the states of a window at a random temperature, and
    continues from there.

    Parameters
    ----------
    graph : FactorGraph
        Model.
    rng : numpy.random.Generator
        Source of randomness.
    n_windows : int
        Number of moves.
    """

    def __init__(self, graph, rng, n_windows):
        self.graph, self.rng, self.n_windows = graph, rng, n_windows
        self.windows = Windows(graph, rng)

    def improve(self, starts):
        """Return the best state that the search finds.

        Parameters
        ----------
        starts : ndarray of shape (n_starts, n_variables)
            State codes at which the search starts.

        Returns
        -------
        ndarray of shape (n_variables,)
            State codes. The log-potential is at least the largest of ``starts``.
        """
        queue = starts[np.argsort(self._values(starts))]
        best = x = queue[-1:]
        queue, n_failed = queue[:-1], 0
        top = current = self._values(x)[0]
        for k in range(self.n_windows):
            if remaining_time() < 0:
                break
            try:
                plan = self.windows.draw(LOG2_TABLE[k >= PATIENCE])
                if n_failed >= PATIENCE:
                    x = queue[-1:] if len(queue) else self._disturb(plan, best)
                    queue, n_failed, current = queue[:-1], 0, -np.inf
                x = maximise(plan, self.graph.flat, x)
            except ImpossibleEvidence:  # the clamped variables have probability zero
                n_failed += 1
                continue
            except TimeoutError:
                break
            value = self._values(x)[0]
            n_failed = 0 if value > current + TOLERANCE else n_failed + 1
            current = value
            if value > top + TOLERANCE:
                best, top = x, value
            if len(plan.forecast.order) == self.graph.n_variables:  # the state is optimal
                break
        return best[0]

    def _values(self, X):
        return self.graph.log_potential(X)

    def _disturb(self, plan, x):
        """Draw the states of a window at a random temperature, given the other variables."""
        beta = np.exp(self.rng.uniform(np.log(LOWEST_BETA), 0.0))
        return sample(plan, beta * self.graph.flat, 1, self.rng, x)


class BlockPath:
    r"""Path :math:`f_0^{1-\beta} f_1^\beta` from a tractable model to a model, with block moves.

    In :math:`f_0`, the variables outside of a window are independent of all others: each table is
    replaced by its mean over them, and their probabilities are approximate marginals. So
    elimination computes the partition function of :math:`f_0` and draws from it. In :math:`f_1`,
    zero potentials of the model are small positive numbers, which chains can cross. A move draws a
    random window of variables together, and then each variable.

    Parameters
    ----------
    graph : FactorGraph
        Model with the potential :math:`f`. It has a table for each variable.
    plans : list of BucketTree
        Elimination plans of the windows.
    start : int
        Index of the window of :math:`f_0`.
    product : Product
        Approximate marginals of the variables, all positive.
    n_jobs : int, optional
        Number of threads over blocks of 64 chains. The result does not depend on it.

    Attributes
    ----------
    log_z : float
        Log partition function of :math:`f_0`, in nats.
    work : float
        Number of table entries that a move of one chain visits.

    References
    ----------
    B. Bidyuk, R. Dechter, "Cutset sampling for Bayesian networks", JAIR 28 (2007).
    """

    def __init__(self, graph, plans, start, product, n_jobs=None):
        self.graph, self.plans, self.plan = graph, plans, plans[start]
        self.product, self.n_jobs = product, n_jobs
        entries = [float(plan.tree.outer @ plan.tree.inner) for plan in plans]
        self.work = float(np.mean(entries)) + graph.sweep_work
        self.outside = np.repeat(self.plan.observed, graph.n_states)
        self.first = self._average_tables()
        with np.errstate(invalid="ignore"):
            slope = np.where(graph.flat == -np.inf, -PENALTY, graph.flat - self.first)
        self.slope = np.where(self.first > -np.inf, slope, 0.0)
        x = np.zeros((1, graph.n_variables), dtype=STATE)
        outside = (product.log_p * self.outside)[product.start].sum()
        self.log_z = float(log_partitions(self.plan, self.first, x)[0] - outside)

    @classmethod
    def one(cls, graph, rng, n_jobs=None):
        """Return a path to a model; the parameters are those of :meth:`pair`."""
        return cls._paths(graph, rng, n_jobs, 1)[0]

    @classmethod
    def pair(cls, graph, rng, n_jobs=None):
        """Return two paths to a model, whose tractable models belong to different windows.

        Parameters
        ----------
        graph : FactorGraph
            Model.
        rng : numpy.random.Generator
            Source of randomness of the windows.
        n_jobs : int, optional
            Number of threads.

        Returns
        -------
        tuple of two BlockPath
            Paths with the same windows.
        """
        return cls._paths(graph, rng, n_jobs, 2)

    @classmethod
    def _paths(cls, graph, rng, n_jobs, n_paths):
        """Return paths with the same windows. A time limit can make the windows fewer."""
        n_states, product = graph.n_states, _approximate_marginals(graph)
        cliques = [*graph.cliques, *((i,) for i in range(len(n_states)))]
        tables = [*graph.log_potentials, *(np.zeros(q) for q in n_states)]
        layout = Layout.build(n_states, cliques)
        flat = np.concatenate([np.zeros(0), *(table.ravel() for table in tables)])
        graph = FactorGraph.from_layout(layout, flat)
        windows, plans, end = Windows(graph, rng), [], (1.0 - WINDOW_TIME) * remaining_time()
        while len(plans) < N_WINDOWS and (len(plans) < FEWEST_WINDOWS or remaining_time() >= end):
            plans.append(windows.draw(LOG2_DRAWN))
        plans.sort(key=lambda plan: np.count_nonzero(plan.observed))
        return tuple(cls(graph, plans, k, product, n_jobs) for k in range(n_paths))

    def _average_tables(self):
        """Return the tables of the tractable model, concatenated."""
        is_outside, tables = self.plan.observed, [np.zeros(0)]
        log_p = np.split(self.product.log_p, self.product.start[1:])
        for clique, table in zip(self.graph.cliques, self.graph.log_potentials, strict=True):
            axes = tuple(k for k, v in enumerate(clique) if is_outside[v])
            mean = table
            for k in axes:
                others = [j for j in range(table.ndim) if j != k]
                mean = mean + np.expand_dims(log_p[clique[k]], others)
            if axes:
                mean = np.broadcast_to(logsumexp(mean, axis=axes, keepdims=True), table.shape)
            tables.append(mean.ravel())
        flat = np.concatenate(tables)
        flat[len(flat) - len(self.outside) :] += self.product.log_p * self.outside
        return flat

    def draw(self, n_chains, rng):
        """Draw independent states from the tractable model."""
        X = self.product.sample(n_chains, rng)
        return sample(self.plan, self.first, n_chains, rng, X)

    def log_ratio(self, X):
        """Return the log of :math:`f_1 / f_0` for each row of state codes, in nats."""
        return self._at(self.slope).log_potential(X)

    def is_possible(self, X):
        """Return for each row of state codes whether it has a positive probability."""
        return self.graph.log_potential(X) > -np.inf

    def log_density(self, X):
        """Return a function of beta: the log-density of each row of X at position beta."""
        start, ratio = self._at(self.first).log_potential(X), self.log_ratio(X)
        return lambda beta: start + beta * ratio

    def move(self, X, beta, generators, n_sweeps=1, *, reverse=False):
        """Move states by block moves at position ``beta``; ``reverse`` reverses each move."""
        energy = self._at(self.first + beta * self.slope)
        for _ in range(n_sweeps):
            if reverse:
                X = sweep(energy, X, generators, reverse=True, n_jobs=self.n_jobs)[0]
            X = self._draw_window(energy.flat, X, generators)
            if not reverse:
                X = sweep(energy, X, generators, n_jobs=self.n_jobs)[0]
        return X

    def start_chains(self, n_chains, rng):
        """Return possible states of chains that approach the model, and their generators.

        The states come from Gibbs sweeps at decreasing temperatures, or from sequential Monte Carlo
        along the path if all these states are impossible. Block moves follow, again at decreasing
        temperatures. A time limit can shorten the sweeps and the moves.

        Parameters
        ----------
        n_chains : int
            Number of chains.
        rng : numpy.random.Generator
            Source of randomness.

        Returns
        -------
        X : ndarray of shape (n_chains, n_variables)
            State codes.
        generators : list of numpy.random.Generator
            One generator for each block of chains.

        Raises
        ------
        ValueError
            If no chain ends at a state of positive probability.
        """
        generators = spawn_generators(rng, n_chains)
        X = Product.uniform(self.graph.n_states).sample(n_chains, rng)
        with limit_time(START_TIME * remaining_time()):
            X = sweep_in_time(self.graph, X, generators, START_BETAS, self.n_jobs)
        X = X[self.is_possible(X)]
        if not len(X):
            X = self._find_states(rng)
        X = X[np.arange(n_chains) % len(X)]
        with suppress(TimeoutError), limit_time(START_TIME * remaining_time()):
            for beta in COOLING:
                X = self._draw_window(beta * self.graph.flat, X, generators)
            for _ in range(N_BURN_IN):
                X = self.settle(X, generators)
        return X, generators

    def _find_states(self, rng):
        """Return possible states at the end of sequential Monte Carlo along the path."""
        X, generators = self.draw(N_PARTICLES, rng), spawn_generators(rng, N_PARTICLES)
        X = run_smc(self, X, generators, rng).X
        is_possible = self.is_possible(X)
        if not is_possible.any():
            check_possible(self.graph, X)
        return X[is_possible]

    def settle(self, X, generators):
        """Move possible states by a block move of the model."""
        X = self._draw_window(self.graph.flat, X, generators)
        return sweep(self.graph, X, generators, n_jobs=self.n_jobs)[0]

    def record(self, X, generators):
        """Move possible states by a block move of the model, and return marginals of the move.

        Parameters
        ----------
        X : ndarray of shape (n_chains, n_variables)
            State codes with positive probability.
        generators : list of numpy.random.Generator
            One generator per block of chains.

        Returns
        -------
        X : ndarray of shape (n_chains, n_variables)
            State codes after the move.
        singles : ndarray of shape (n_chains, sum of n_states)
            Marginals of the variables of the window given all others; 1 at the states of the
            variables outside of the window.
        cliques : ndarray of shape (n_parameters,)
            Sum over chains of such marginals of the cliques of ``graph``.
        """
        draw = partial(sample_with_marginals, layout=self.graph.layout)
        parts = self._run_window(draw, self.graph.flat, X, generators)
        drawn, singles, cliques = zip(*parts, strict=True)
        X = sweep(self.graph, np.concatenate(drawn), generators, n_jobs=self.n_jobs)[0]
        return X, np.concatenate(singles), sum(cliques)

    def _draw_window(self, flat, X, generators):
        return np.concatenate(list(self._run_window(_sample_rows, flat, X, generators)))

    def _run_window(self, function, flat, X, generators):
        """Return the results of a function of a random window, for each block of chains."""
        plan = self.plans[generators[0].integers(len(self.plans))]
        blocks = [(plan, flat, rngs[0], X[c]) for c, rngs in split_chains(len(X), generators, 1)]
        return run_blocks(function, blocks, self.n_jobs)

    def _at(self, flat):
        return self.graph.with_theta({NAME: flat})


def _sample_rows(plan, flat, rng, X):
    return sample(plan, flat, len(X), rng, X)


def _approximate_marginals(graph):
    """Return beliefs of belief propagation, mixed with uniform distributions."""
    beliefs = belief_propagation(graph, QUICK).single
    uniform = Product.uniform(graph.n_states)
    if not np.isfinite(beliefs).all():
        return uniform
    p = TRUST * beliefs + (1.0 - TRUST) * np.exp(uniform.log_p)
    return Product(
        np.log(p / np.repeat(np.add.reduceat(p, uniform.start), graph.n_states)), uniform.start
    )
