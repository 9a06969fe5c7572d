"""Slow reference implementations in plain Python, from the definitions."""

from itertools import pairwise, product

import numpy as np
from zoo import enumerate_states, naive_log_potential

from skmrf._kernels.gibbs import GROUP
from skmrf._kernels.layers import BLOCK, N_STREAMS, STEP
from skmrf.energies import PairwiseEnergy
from skmrf.energies.conditionals import (
    BinaryConditionals,
    StateConditionals,
    TableConditionals,
)
from skmrf.samplers.layers import PARTNERS, STRONG_COUPLING, random_seeds
from skmrf.variational.bipartite import UnitBeliefs


def log_sum(log_f):
    """Return the log of the sum of exponentials, which is -inf for an empty sum."""
    top = np.max(log_f, initial=-np.inf)
    return top if top == -np.inf else top + np.log(np.sum(np.exp(log_f - top)))


def distribution(energy):
    """Return all joint states and their probabilities."""
    states, log_f = enumerate_states(energy)
    return states, np.exp(log_f - log_sum(log_f))


def moments(energy, X, weights):
    """Return the expected statistics under weighted rows, shaped like ``theta``."""
    if isinstance(energy, PairwiseEnergy):
        S = np.array([[energy.states[int(code)] for code in x] for x in X])
        S = S.reshape(len(X), energy.n_variables)
        pair = sum(
            (w * np.outer(s, s) for w, s in zip(weights, S, strict=True)), 0.0 * np.eye(S.shape[1])
        )
        np.fill_diagonal(pair, 0.0)
        return {"coupling": pair, "bias": weights @ S}
    flat = np.zeros(energy.layout.n_parameters)
    for clique, table in zip(energy.cliques, energy.layout.split(flat), strict=True):
        for x, w in zip(X, weights, strict=True):
            table[tuple(x[list(clique)])] += w
    return {"log_potentials": flat}


def visible_law(energy, beta=1.0, log_reference=None):
    """Return all visible states and their log-densities at an inverse temperature beta.

    Each term is multiplied by ``m ** (beta - 1)``, where m is the number of latent states.
    """
    joint, log_f = enumerate_states(energy)
    n = len(energy.visible_states)
    V, which = np.unique(joint[:, :n], axis=0, return_inverse=True)
    m = len(joint) / len(V)
    scores = beta * log_f if beta else np.zeros(len(log_f))
    log_p = np.array([log_sum(scores[which.ravel() == k]) for k in range(len(V))])
    log_p -= (1 - beta) * np.log(m)
    return V, log_p if log_reference is None else log_p + (1 - beta) * log_reference(V)


def single_marginals(states, p, n_states):
    """Return the distribution of each variable."""
    return [
        np.array([p[states[:, i] == s].sum() for s in range(q)]) for i, q in enumerate(n_states)
    ]


def clique_marginals(states, p, energy):
    """Return the distribution of each clique of a factor graph, shaped like its table."""
    out = [np.zeros([energy.n_states[v] for v in c]) for c in energy.cliques]
    for clique, table in zip(energy.cliques, out, strict=True):
        for x, w in zip(states, p, strict=True):
            table[tuple(x[list(clique)])] += w
    return out


def consistent(states, evidence):
    """Return a mask of the states that agree with the evidence."""
    return np.array([all(x[v] == s for v, s in evidence.items()) for x in states], dtype=bool)


# Gibbs sampling ----------------------------------------------------------------------------


def conditional(energy, x, i, beta=1.0, reference=None):
    """Return the distribution of a variable given all others, at an inverse temperature beta."""
    rows = np.repeat(np.asarray(x)[None], energy.n_states[i], axis=0)
    rows[:, i] = np.arange(energy.n_states[i])
    scores = np.zeros(len(rows)) if beta == 0 else beta * naive_log_potential(energy, rows)
    if beta != 1:
        scores += (1 - beta) * (uniform_reference(energy) if reference is None else reference)[i]
    if scores.max() == -np.inf:
        return np.full(len(rows), 1 / len(rows))
    p = np.exp(scores - scores.max())
    return p / p.sum()


def strong_pairs(energy, reverse=False):
    """Return the pairs of two-state variables that change together in a sweep.

    Their coupling is above 4 nats, and one of them is among the 16 strongest partners of the
    other.
    """
    sites = [k for k in range(len(energy.visible_states)) if energy.visible_states[k] == 2]
    found = set()
    for i in sites:
        strength = {j: abs(coupling_of(energy, (i, j))) for j in sites if j != i}
        partners = sorted(strength, key=strength.get, reverse=True)[:PARTNERS]
        found |= {(min(i, j), max(i, j)) for j in partners if strength[j] > STRONG_COUPLING}
    return sorted(found, reverse=reverse)


def coupling_of(energy, pair):
    """Return the second difference of the log-potential by two variables; the others are 0."""
    x = np.zeros((4, len(energy.n_states)), dtype=int)
    x[1:3, pair[0]] = x[2:, pair[1]] = 1
    return np.array([1.0, -1.0, 1.0, -1.0]) @ naive_log_potential(energy, x)


def flip_probability(energy, x, pair, beta=1.0, reference=None):
    """Return the probability that both two-state variables of a pair change, given all others.

    They change only if they are equal and the coupling is positive, or different and negative.
    """
    if (x[pair[0]] == x[pair[1]]) != (coupling_of(energy, pair) > 0):
        return 0.0
    rows = np.repeat(np.asarray(x)[None], 2, axis=0)
    rows[1, list(pair)] = 1 - rows[1, list(pair)]
    scores = np.zeros(2) if beta == 0 else beta * naive_log_potential(energy, rows)
    reference = uniform_reference(energy) if reference is None else reference
    scores += (1 - beta) * sum(reference[i][rows[:, i]] for i in pair)
    return 1.0 / (1.0 + np.exp(scores[0] - scores[1]))


def uniform_reference(energy):
    """Return the log-probabilities of a uniform reference distribution, by variable."""
    return [np.full(q, -np.log(q)) for q in energy.n_states]


def gibbs(
    energy, X, rng, *, betas=(1.0, 1.0), reference=None, clamped=None, reverse=False,
    use_tables=False,
):  # fmt: skip
    """Run systematic-scan Gibbs sweeps, chain by chain, and return X and the log-weights.

    Each update uses one uniform number, except for variables with one state. As in the kernels,
    large uniform numbers give the last state, but for two states in couplings or tables small ones
    give state 1. The kernels of models of pairs draw their random numbers in another order. With
    ``use_tables``, the random numbers are those of the kernel of tables.
    """
    reference = uniform_reference(energy) if reference is None else reference
    X, log_weights = np.array(X), np.zeros(len(X))
    sites = [i for i in range(energy.n_variables) if energy.n_states[i] > 1]
    sites = sites[::-1] if reverse else sites
    kind, numbers = TableConditionals if use_tables else type(energy.conditionals()), None
    pairs = strong_pairs(energy, reverse) if kind is BinaryConditionals else []
    updates = [*pairs, *sites] if reverse else [*sites, *pairs]
    if kind is BinaryConditionals:
        sizes = [len(pairs), len(sites)] if reverse else [len(sites), len(pairs)]
        numbers = binary_uniforms(rng, len(betas) - 1, sizes, len(X))
    elif kind is StateConditionals:
        numbers = state_uniforms(rng, len(betas) - 1, len(sites), len(X))
    for c, x in enumerate(X):
        for t, (before, beta) in enumerate(pairwise(betas)):
            if beta != before:
                log_f = naive_log_potential(energy, x[None])[0]
                log_reference = sum(reference[i][s] for i, s in enumerate(x))
                log_weights[c] += (beta - before) * (log_f - log_reference)
            for k, i in enumerate(updates):
                if clamped is not None and clamped[c, list(i) if isinstance(i, tuple) else i].any():
                    continue
                u = rng.random() if numbers is None else numbers[t, k, c]
                if isinstance(i, tuple):
                    flip = u < flip_probability(energy, x, i, beta, reference)
                    x[list(i)] ^= int(flip)
                    continue
                p = conditional(energy, x, i, beta, reference)
                is_two = len(p) == 2 and kind is not StateConditionals
                x[i] = int(u < p[1]) if is_two else _draw(p, u)
    return X, log_weights


def binary_uniforms(rng, n_sweeps, sizes, n_chains, dtype=np.float64):
    """Return the uniform numbers of binary sweeps, shape (n_sweeps, n_updates, n_chains).

    ``sizes`` has the numbers of updates of the two parts of a sweep. The numbers have 52 bits, or
    31 bits for models in single precision.
    """
    seeds = random_seeds([rng], n_sweeps)[:, 0]
    out = np.empty((n_sweeps, sum(sizes), n_chains))
    starts = [k + f for k, n in zip((0, sizes[0]), sizes, strict=True) for f in range(0, n, GROUP)]
    for t in range(n_sweeps):
        streams = mix(seeds[t, :, None] + STEP * np.arange(1, N_STREAMS + 1, dtype=np.uint64))
        for first, last in pairwise([*starts, sum(sizes)]):
            part = out[t, first:last]
            if dtype == np.float64:
                part.flat = ((random_words(streams, part.size) >> np.uint64(12)) + 0.5) / 2.0**52
            else:
                words = random_words(streams, -(-part.size // 2)).view(np.uint32)[: part.size]
                part.flat = ((words & np.uint32(2**31 - 1)) + 0.5) / 2.0**31
    return out


def state_uniforms(rng, n_sweeps, n_sites, n_chains):
    """Return the uniform numbers of sweeps with a matrix over all states, in one block of chains.

    The shape is (n_sweeps, n_sites, n_chains).
    """
    seeds, out = random_seeds([rng], n_sweeps)[:, 0], []
    for seed in seeds:
        streams = mix(seed[:, None] + STEP * np.arange(1, N_STREAMS + 1, dtype=np.uint64))
        words = random_words(streams, -(-n_sites // GROUP) * GROUP * BLOCK) >> np.uint64(12)
        out.append(words.reshape(-1, BLOCK)[:n_sites, :n_chains] / 2.0**52)
    return np.array(out)


def mix(words):
    """Return the random numbers of splitmix64 for these states."""
    for factor, shift in ((0xBF58476D1CE4E5B9, 30), (0x94D049BB133111EB, 27)):
        words = (words ^ (words >> np.uint64(shift))) * np.uint64(factor)
    return words ^ (words >> np.uint64(31))


def random_words(states, size):
    """Return random integers of parallel generators of the kind xoshiro256++, changing states."""
    words = []
    while len(words) < size:
        a, b, c, d = states.copy()
        words.extend(_rotate(a + d, 23) + a)
        c, d = c ^ a, d ^ b
        states[:] = a ^ d, b ^ c, c ^ (b << np.uint64(17)), _rotate(d, 45)
    return np.array(words[:size], dtype=np.uint64)


def _rotate(word, n):
    return (word << np.uint64(n)) | (word >> np.uint64(64 - n))


def _draw(p, u):
    return min(int(np.searchsorted(np.cumsum(p), u, side="right")), len(p) - 1)


def site_kernel(energy, states, i, beta=1.0, reference=None):
    """Return the transition matrix of the update of one variable, over all joint states."""
    number = {tuple(x): k for k, x in enumerate(states.tolist())}
    K = np.zeros((len(states), len(states)))
    for k, x in enumerate(states):
        for s, p in enumerate(conditional(energy, x, i, beta, reference)):
            there = x.copy()
            there[i] = s
            K[k, number[tuple(there.tolist())]] += p
    return K


def pair_kernel(energy, states, pair, beta=1.0, reference=None):
    """Return the transition matrix of the update of a pair, over all joint states."""
    number = {tuple(x): k for k, x in enumerate(states.tolist())}
    K = np.eye(len(states))
    for k, x in enumerate(states):
        p, there = flip_probability(energy, x, pair, beta, reference), x.copy()
        there[list(pair)] = 1 - there[list(pair)]
        K[k, k] -= p
        K[k, number[tuple(there.tolist())]] += p
    return K


# Gradients ---------------------------------------------------------------------------------


def differences(function, energy, h=1e-4):
    """Return the derivatives of a function of an energy by its parameters (finite differences)."""
    out = {name: np.zeros(array.shape) for name, array in energy.theta.items()}
    for name, array in energy.theta.items():
        for entry in np.ndindex(array.shape):
            sides = []
            for step in (h, -h):
                theta = {k: a.copy() for k, a in energy.theta.items()}
                theta[name][entry] += step
                sides.append(function(energy.with_theta(theta)))
            out[name][entry] = (sides[0] - sides[1]) / (2 * h)
    return out


# Two layers --------------------------------------------------------------------------------


def binary_states(n):
    """Return all states of n units in {0, 1}, shape (2 ** n, n)."""
    return np.array(list(np.ndindex((2,) * n)), dtype=float).reshape(2**n, n)


def layer_table(weights, visible, hidden):
    """Return all states of both layers, and log f of each pair, one row per visible state."""
    V, H = (binary_states(n) for n in np.shape(weights))
    return V, H, V @ weights @ H.T + (V @ visible)[:, None] + H @ hidden


def layer_messages(weights, visible, hidden, n_iter, *, product="sum", absent=False):
    """Return the log odds of both layers and the pair beliefs of one row, with log messages.

    Pair beliefs are the probabilities that both units are 1. If ``absent``, the visible unit is 0.
    """
    weights, visible, hidden = (np.asarray(a, dtype=float) for a in (weights, visible, hidden))

    def send(cavity):
        both = np.maximum if product == "max" else np.logaddexp
        return both(0.0, cavity + weights) - both(0.0, cavity)

    to_hidden, odds = np.zeros(weights.shape), hidden
    for _ in range(n_iter):
        to_visible = send(odds - to_hidden)
        shown = visible + to_visible.sum(axis=1)
        if product == "mixed":
            to_hidden = weights * (shown > 0)[:, None]
        else:
            to_hidden = send(shown[:, None] - to_visible)
        odds = hidden + to_hidden.sum(axis=0)
    a, c = shown[:, None] - to_visible, odds - to_hidden
    both = a + c + weights
    total = np.logaddexp(np.logaddexp(0.0, both), np.logaddexp(a, c))
    return shown, odds, np.exp((c if absent else both) - total)


# Mean field --------------------------------------------------------------------------------


def mean_field_sweep(graph, singles):
    """Update all variables in index order; singles is a list of arrays, changed in place."""
    for i, q in enumerate(graph.n_states):
        zero, field = np.zeros(q), np.zeros(q)
        for clique, table in zip(graph.cliques, graph.log_potentials, strict=True):
            for x in np.ndindex(table.shape) if i in clique else ():
                s = x[clique.index(i)]
                others = [singles[v][t] for v, t in zip(clique, x, strict=True) if v != i]
                if table[x] == -np.inf:
                    zero[s] += np.prod(others)
                else:
                    field[s] += np.prod(others) * table[x]
        allowed = zero <= zero.min() * (1 + 1e-12)
        p = np.where(allowed, np.exp(field - field[allowed].max()), 0.0)
        singles[i] = p / p.sum()


def product_bound(graph, singles):
    """Return a product distribution's probability of zero potentials, and its bound on log Z."""
    states, log_f = enumerate_states(graph)
    p = np.array([np.prod([singles[i][s] for i, s in enumerate(x)]) for x in states])
    marginals = clique_marginals(states, p, graph)
    tables = zip(marginals, graph.log_potentials, strict=True)
    zero = sum((m[t == -np.inf].sum() for m, t in tables), 0.0)
    return zero, p[p > 0] @ (log_f - np.log(np.where(p > 0, p, 1.0)))[p > 0]


# Belief propagation ------------------------------------------------------------------------


def flooding(graph, n_iter, *, total=log_sum, damping=0.0, counting=None):
    """Return log messages {(clique, variable): array} after n_iter iterations of flooding."""
    rho = np.ones(len(graph.cliques)) if counting is None else counting
    told = {(a, i): np.zeros(graph.n_states[i]) for a, c in enumerate(graph.cliques) for i in c}
    for _ in range(n_iter):
        scores = [clique_scores(graph, told, rho, a) for a in range(len(rho))]
        new = {}
        for a, i in told:
            k, old = graph.cliques[a].index(i), told[a, i]
            sums = [total(np.take(scores[a], s, axis=k)) for s in range(graph.n_states[i])]
            new[a, i] = _answer(np.array(sums), cavity(told, rho, a, i), old)
            if len(graph.cliques[a]) > 1 and damping:
                both = (old > -np.inf) & (new[a, i] > -np.inf)
                new[a, i][both] += damping * (old - new[a, i])[both]
        told = new
    return told


def _answer(sums, heard, old):
    """Return log messages: marginals of the sender without the messages from the receiver."""
    free = (heard > -np.inf) & (sums > -np.inf)
    out = np.where(heard > -np.inf, -np.inf, 0.0)
    out[free] = sums[free] - heard[free]
    return np.where(old == -np.inf, -np.inf, out)


def cavity(told, rho, a, i):
    """Return the log message from variable i to clique a, reweighted by rho."""
    own = np.where(told[a, i] == -np.inf, 0.0, told[a, i])
    others = [rho[b] * told[b, j] for b, j in told if j == i and b != a]
    return sum(others, (rho[a] - 1) * own)


def clique_scores(graph, told, rho, a):
    """Return the log belief of a clique, not normalised."""
    clique, out = graph.cliques[a], graph.log_potentials[a] / rho[a]
    for k, i in enumerate(clique):
        shape = [-1 if j == k else 1 for j in range(len(clique))]
        out = out + cavity(told, rho, a, i).reshape(shape)
    return out


def beliefs(graph, told, counting=None):
    """Return the beliefs of variables and cliques and the Bethe (reweighted) log Z."""
    rho = np.ones(len(graph.cliques)) if counting is None else counting
    n = graph.n_variables
    fields = [
        sum((rho[a] * told[a, j] for a, j in told if j == i), np.zeros(graph.n_states[i]))
        for i in range(n)
    ]
    scores = [clique_scores(graph, told, rho, a) for a in range(len(rho))]
    value = sum(log_sum(f) for f in fields)
    for a, clique in enumerate(graph.cliques):
        value += rho[a] * (log_sum(scores[a]) - sum(log_sum(fields[i]) for i in clique))
    return [np.exp(f - log_sum(f)) for f in fields], [np.exp(s - log_sum(s)) for s in scores], value


def enumerate_structured_sequences(n_variables):
    """List all binary sequences with three ones in each window of five, in lexicographic order.

    Windows start at every second position. The list grows by one window at a time.
    """
    rows = np.array([x for x in product((0, 1), repeat=5) if sum(x) == 3])
    ends = np.array(list(product((0, 1), repeat=2)))
    while rows.shape[1] < n_variables:
        longer = np.hstack([np.repeat(rows, 4, axis=0), np.tile(ends, (len(rows), 1))])
        rows = longer[longer[:, -5:].sum(axis=1) == 3]
    return rows


def sigmoid(logits):
    """Return the probability of state 1."""
    return 1 / (1 + np.exp(-logits))


def logit(p):
    """Return the log odds."""
    return np.log(p) - np.log(1 - p)


def messages(weights, received, belief):
    """Return the messages ``M[i, j]`` from units j to units i, equations (13) and (14).

    ``received[j, i]`` are the messages from units i to units j.
    """
    one = (1 - received).T * belief
    zero = received.T * (1 - belief)
    return sigmoid(np.log((np.exp(weights) * one + zero) / (one + zero)))


def max_messages(weights, received, belief):
    """Return the messages of :func:`messages` with maxima instead of sums."""
    one = (1 - received).T * belief
    zero = received.T * (1 - belief)
    ratio = np.maximum(np.exp(weights) * one, zero) / np.maximum(one, zero)
    return sigmoid(np.log(ratio))


def hard_messages(weights, _, belief):
    """Return the messages from units that are in their more probable state, equation (15)."""
    return sigmoid(weights * (belief > 0.5))


TO_VISIBLE = {"sum": messages, "max": max_messages, "mixed": messages}
TO_HIDDEN = {"sum": messages, "max": max_messages, "mixed": hard_messages}


def propagate_matrices(
    weights, visible_field, hidden_field, *, product="sum", max_iter=100, tol=1e-3
):
    """Run belief propagation between two layers by Algorithm 1 of Ping and Ihler.

    This is a readable form of :func:`skmrf.variational.bipartite.propagate` for one row. Messages
    are probabilities ``M``, which round to 1 if a logit exceeds 36 (17 in float32). So weights must
    be small.

    Parameters
    ----------
    weights : ndarray of shape (n_visible, n_hidden)
        Weights.
    visible_field : ndarray of shape (n_visible,)
        Biases of the visible units.
    hidden_field : ndarray of shape (n_hidden,)
        Biases of the hidden units.
    product : {"sum", "max", "mixed"}
        Kind of messages.
    max_iter : int
        Maximum number of iterations.
    tol : float
        Largest change of a belief at which the iterations stop.

    Returns
    -------
    UnitBeliefs
        Beliefs of one row.

    References
    ----------
    W. Ping and A. Ihler, "Belief propagation in conditional RBMs for structured prediction",
    AISTATS 2017. Section 5 and Appendix B, with (13) to (18) corrected: ``1 - M`` is multiplied by
    the belief in state 1.
    """
    half = weights.dtype.type(0.5)
    to_visible = np.full_like(weights, half)
    to_hidden = np.full_like(weights.T, half)
    visible, hidden = visible_field, hidden_field
    n_iter, change = 0, np.inf
    while n_iter < max_iter and change > tol:
        before = sigmoid(visible)
        to_visible = TO_VISIBLE[product](weights, to_hidden, sigmoid(hidden))
        visible = visible_field + logit(to_visible).sum(axis=1)  # (16)
        to_hidden = TO_HIDDEN[product](weights.T, to_visible, sigmoid(visible))
        hidden = hidden_field + logit(to_hidden).sum(axis=1)  # (17)
        change = np.abs(sigmoid(visible) - before).max() if n_iter else 1.0
        n_iter += 1
    pairs = pair_beliefs(weights, to_visible, to_hidden, visible, hidden)
    converged, n_iter = np.array([change <= tol]), np.array([n_iter])
    return UnitBeliefs(visible[None], hidden[None], pairs, converged, n_iter)


def pair_beliefs(weights, to_visible, to_hidden, visible, hidden):
    """Return the probabilities that a visible and a hidden unit are both 1, equation (18)."""
    v, h = sigmoid(visible), sigmoid(hidden)
    to_hidden = to_hidden.T
    both = np.exp(weights) * np.outer(v, h) * (1 - to_visible) * (1 - to_hidden)
    only_hidden = np.outer(1 - v, h) * to_visible * (1 - to_hidden)
    only_visible = np.outer(v, 1 - h) * (1 - to_visible) * to_hidden
    neither = np.outer(1 - v, 1 - h) * to_visible * to_hidden
    return both / (both + only_hidden + only_visible + neither)
