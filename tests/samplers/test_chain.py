"""Tests of chained belief propagation: its density, its samples and the algorithm of the paper."""

import numpy as np
import pytest
import twins
from montecarlo import check_draws
from numpy.testing import assert_allclose, assert_array_equal
from potentials import PAPER, chain_of, density, frustrated, model
from zoo import HUGE, MODERATE, WITH_ZEROS, ZOO, enumerate_states, layers

from skmrf._utils.codes import STATE
from skmrf.datasets import make_ising
from skmrf.energies import FactorGraph, PairwiseEnergy
from skmrf.exact import tree_decomposition
from skmrf.exact.enumeration import binary_states
from skmrf.likelihood import ais
from skmrf.samplers import chained_bp as module
from skmrf.samplers.chained_bp import ChainedSampler, ChainSettings, Draws
from skmrf.samplers.enumerated_states import EnumeratedStates, mode_bound
from skmrf.variational.belief_propagation import Propagation

each_model = pytest.mark.parametrize("name", ZOO)
TREES = ("chain", "zeros_binary", "tied_binary", "one_state", "disconnected", "isolated")
TREES += ("uniform", "single_variable")
LOOPS = ("cycle", "complete", "zero_one", "orders", "tied", "constant_binary")

SHORT = Propagation(max_iter=30)
N_DRAWS = 20_000


def orders_of(graph, seed):
    """Return orders for chained belief propagation: all named orders and a random order."""
    return ("index", "elimination", np.random.default_rng(seed).permutation(graph.n_variables))


def repeat_by_counts(draws):
    """Repeat the unique states by their counts, so that there is one row per sample."""
    return np.repeat(draws.X, draws.counts, axis=0)


def partly_exact_chain(graph, order, monkeypatch, **settings):
    """Return a chain that uses elimination after some of its variables."""
    for bits in range(1, 25):
        monkeypatch.setattr(module, "EXACT_ENTRIES", 2**bits)
        chain = chain_of(graph, "auto", order, n_samples=1, **settings)
        if 0 < chain.n_chained < graph.n_variables:
            return chain
    raise AssertionError("either all or none of the variables are chained")


# Density ----------------------------------------------------------------------------------


@pytest.mark.parametrize("conditionals", ["bp", "auto", "exact"])
@pytest.mark.parametrize("clip", [0.0, pytest.param(1e-2, marks=pytest.mark.long)])
@each_model
def test_density_sums_to_one(name, clip, conditionals, seed):
    graph = model(name, seed)
    for order in orders_of(graph, seed):
        for how in (PAPER, SHORT):
            q = density(chain_of(graph, conditionals, order, how, clip=clip), graph)
            assert_allclose(q.sum(), 1.0, rtol=0, atol=1e-11)


@pytest.mark.parametrize("schedule", ["flooding", "sequential", "residual"])
@pytest.mark.parametrize("name", [*LOOPS, *WITH_ZEROS, "huge", "frustrated"])
def test_density_with_warm_messages_sums_to_one(name, schedule, seed):
    """Starting messages that only depend on the prefix give a valid density."""
    graph = model(name, seed)
    how = Propagation(schedule, max_iter=7)
    for order in orders_of(graph, seed):
        for clip in (0.0, 1e-2):
            chain = chain_of(graph, "bp", order, how, clip=clip, warm_start=True)
            assert_allclose(density(chain, graph).sum(), 1.0, rtol=0, atol=1e-12)


def test_warm_messages_change_the_density():
    """Warm starts change the density only where messages have not converged."""
    graph = frustrated()
    cold, warm = (density(chain_of(graph, warm_start=warm), graph) for warm in (False, True))
    assert np.abs(cold - warm).sum() > 0.01
    tree = ZOO["chain"](0)
    cold, warm = (density(chain_of(tree, warm_start=warm), tree) for warm in (False, True))
    assert_allclose(cold, warm, rtol=1e-12)


@pytest.mark.parametrize("name", TREES)
def test_density_of_a_tree_is_the_model(name, seed):
    graph = model(name, seed)
    states, p = twins.distribution(graph)
    for order in orders_of(graph, seed):
        for how in (PAPER, Propagation(), Propagation("residual")):
            chain = chain_of(graph, "bp", order, how)
            assert_allclose(density(chain, graph), p, rtol=0, atol=1e-10)
            with np.errstate(divide="ignore"):
                log_q = chain.log_density(graph.flat, states)
            assert_array_equal(log_q == -np.inf, p == 0)


@pytest.mark.parametrize("conditionals", ["auto", "exact"])
@each_model
def test_exact_density_is_the_model(name, conditionals, seed):
    graph = model(name, seed)
    states, log_f = enumerate_states(graph)
    log_p = log_f - twins.log_sum(log_f)
    chain = chain_of(graph, conditionals, "elimination", clip=1e-2)
    assert chain.exact
    assert chain.n_chained == 0
    assert_allclose(chain.log_density(graph.flat, states), log_p, rtol=1e-10, atol=1e-10)


def test_density_on_loops_differs_from_the_model():
    """Negative control: belief propagation on loops is not exact."""
    graph = frustrated()
    p = twins.distribution(graph)[1]
    assert 0.5 * np.abs(density(chain_of(graph), graph) - p).sum() > 0.05


@pytest.mark.parametrize("name", ["grid", "spin_glass", "zeros", "orders", "huge", "frustrated"])
def test_density_with_elimination_of_some_variables(name, seed, monkeypatch):
    """Prefixes come from belief propagation; the remaining variables are exact given them."""
    graph = model(name, seed)
    states, p = twins.distribution(graph)
    for order in orders_of(graph, seed):
        chain = partly_exact_chain(graph, order, monkeypatch)
        assert not chain.exact
        q = density(chain, graph)
        assert_allclose(q.sum(), 1.0, rtol=0, atol=1e-11)
        check_draws(
            repeat_by_counts(chain.draw(graph.flat, 5000, np.random.default_rng(seed))), states, q
        )
        first = states[:, chain.order[: chain.n_chained]]
        beliefs = density(chain_of(graph, "bp", order), graph)
        _, prefix = np.unique(first, axis=0, return_inverse=True)
        by_prefix = [np.bincount(prefix.ravel(), w)[prefix.ravel()] for w in (q, beliefs, p)]
        assert_allclose(by_prefix[0], by_prefix[1], rtol=0, atol=1e-12)
        possible = (by_prefix[2] > 0) & (by_prefix[0] > 0)
        expected = p[possible] / by_prefix[2][possible]
        assert_allclose(q[possible] / by_prefix[0][possible], expected, rtol=0, atol=1e-9)


# Samples ----------------------------------------------------------------------------------


@pytest.mark.parametrize("name", [*LOOPS, *WITH_ZEROS, *HUGE, "chain", "isolated", "frustrated"])
def test_samples_follow_the_density(name, seed):
    graph = model(name, seed)
    states = enumerate_states(graph)[0]
    for k, order in enumerate(orders_of(graph, seed)):
        for clip, warm_start in ((0.0, False), (1e-2, False), (1e-2, True)):
            chain = chain_of(graph, "bp", order, SHORT, clip=clip, warm_start=warm_start)
            draws = chain.draw(graph.flat, N_DRAWS, np.random.default_rng([seed, k]))
            assert isinstance(draws, Draws)
            assert draws.X.dtype == STATE
            assert draws.counts.min() > 0
            assert draws.counts.sum() == N_DRAWS
            assert len(np.unique(draws.X, axis=0)) == len(draws.X)
            found = chain.log_density(graph.flat, draws.X)
            assert_allclose(draws.log_q, found, rtol=1e-12, atol=1e-12)
            check_draws(repeat_by_counts(draws), states, density(chain, graph))


@pytest.mark.parametrize("name", ["zeros", "orders", "uniform", "one_state"])
def test_exact_chain_samples_follow_the_model(name, seed):
    graph = model(name, seed)
    states, p = twins.distribution(graph)
    chain = chain_of(graph, "exact")
    draws = chain.draw(graph.flat, 5000, np.random.default_rng(seed))
    assert (draws.n_runs, draws.converged) == (0, 1.0)
    assert_allclose(draws.log_q, chain.log_density(graph.flat, draws.X), rtol=1e-12, atol=1e-12)
    check_draws(repeat_by_counts(draws), states, p)


def test_sample_check_detects_other_distributions(seed):
    """Negative control: other orders, other messages and the model have other distributions."""
    graph = frustrated()
    states, p = twins.distribution(graph)
    draws = repeat_by_counts(chain_of(graph).draw(graph.flat, N_DRAWS, np.random.default_rng(seed)))
    others = [
        density(chain_of(graph, order=np.arange(6)[::-1]), graph),
        density(chain_of(graph, how=Propagation("flooding", 0.0, 3, 0.0)), graph),
        density(chain_of(graph, clip=0.05), graph),
        p,
    ]
    check_draws(draws, states, density(chain_of(graph), graph))
    for q in others:
        with pytest.raises(AssertionError, match="was drawn"):
            check_draws(draws, states, q)


def test_equal_prefixes_share_runs(seed):
    """There is at most one run per distinct prefix, and components do not affect each other."""
    graph = ZOO["grid"](seed)
    chain = chain_of(graph)
    draws = chain.draw(graph.flat, 300, np.random.default_rng(seed))
    prefixes = {tuple(x[:k].tolist()) for x in draws.X for k in range(9)}
    assert 9 <= draws.n_runs <= len(prefixes)
    pairs = ZOO["disconnected"](seed)
    draws = chain_of(pairs, how=SHORT).draw(pairs.flat, 500, np.random.default_rng(seed))
    assert draws.n_runs <= 1 + 2 + 1 + 3 + 1 + 2
    assert draws.converged == 1.0


def test_converged_is_a_fraction():
    graph = frustrated()
    draws = chain_of(graph).draw(graph.flat, 100, np.random.default_rng(0))
    assert 0.0 < draws.converged < 1.0
    damped = chain_of(graph, how=Propagation(damping=0.5, max_iter=2000))
    assert damped.draw(graph.flat, 100, np.random.default_rng(0)).converged > draws.converged


# Algorithm 1 of the paper -----------------------------------------------------------------


def shift_to_zero_maximum(logs, q):
    """Return log messages with maximum 0, or uniform ones if every state is ruled out."""
    total = sum(logs, np.zeros(q))
    return total - total.max() if total.max() > -np.inf else np.zeros(q)


def flooding_messages(graph, n_iter):
    """Return log messages {(clique, variable): array} after flooding iterations."""
    q = graph.n_states
    log_messages = {(a, i): np.zeros(q[i]) for a, c in enumerate(graph.cliques) for i in c}
    others = {(a, i): [k for k in log_messages if k[1] == i and k[0] != a] for a, i in log_messages}
    for _ in range(n_iter):
        incoming = {
            (a, i): shift_to_zero_maximum([log_messages[k] for k in others[a, i]], q[i])
            for a, i in log_messages
        }
        log_messages = {
            (a, i): shift_to_zero_maximum([clique_message(graph, incoming, a, i)], q[i])
            for a, i in log_messages
        }
    return log_messages


def clique_message(graph, incoming, a, i):
    """Return the message from clique a to variable i."""
    clique, table = graph.cliques[a], graph.log_potentials[a]
    for k, j in enumerate(clique):
        if j != i:
            table = table + incoming[a, j].reshape(
                [-1 if m == k else 1 for m in range(len(clique))]
            )
    k = clique.index(i)
    return np.array([twins.log_sum(np.take(table, s, axis=k)) for s in range(graph.n_states[i])])


class ReferenceChain:
    """Algorithm 1 of the paper: belief propagation from uniform messages for each variable in turn.

    Conditionals are cached by prefix, which only saves time.
    """

    def __init__(self, graph):
        self.graph = graph
        self.known = {}

    def conditional(self, prefix):
        """Return the belief of the next variable given the states of the variables before it."""
        if prefix not in self.known:
            rest = self.graph.condition(dict(enumerate(prefix)))
            log_messages = flooding_messages(rest, 20)
            belief = np.exp(
                shift_to_zero_maximum(
                    [m for (_, i), m in log_messages.items() if i == 0], rest.n_states[0]
                )
            )
            self.known[prefix] = belief / belief.sum()
        return self.known[prefix]

    def density(self, x):
        """Return the probability of sampling x."""
        x = [int(s) for s in x]
        return np.prod([self.conditional(tuple(x[:i]))[s] for i, s in enumerate(x)])


@pytest.mark.long
@pytest.mark.parametrize(
    "name",
    [
        *("cycle", "orders", "tied", "constant_binary"),
        *("chain", "disconnected", "frustrated"),
        *(
            pytest.param(name, marks=pytest.mark.long)
            for name in ("complete", "zero_one", "huge", "huge_binary")
        ),
    ],
)
def test_density_of_the_paper_s_algorithm(name, seed):
    """Check models where 20 iterations do not converge, too, such as "frustrated"."""
    graph = model(name, seed)
    states = enumerate_states(graph)[0]
    twin = ReferenceChain(graph)
    expected = np.array([twin.density(x) for x in states])
    assert_allclose(expected.sum(), 1.0, rtol=0, atol=1e-12)
    assert_allclose(density(chain_of(graph), graph), expected, rtol=1e-9, atol=1e-12)


def test_density_depends_on_iterations_without_convergence():
    """Other numbers of iterations and other schedules give another distribution."""
    graph = frustrated()
    q = density(chain_of(graph), graph)
    for how in (
        Propagation("flooding", 0.0, 19, 0.0),
        Propagation("flooding", 0.0, 21, 0.0),
        Propagation("sequential", 0.0, 20, 0.0),
    ):
        assert np.abs(density(chain_of(graph, how=how), graph) - q).max() > 1e-3


@pytest.mark.parametrize("name", WITH_ZEROS)
def test_density_of_the_paper_s_algorithm_with_zeros(name, seed):
    """Check possible prefixes only; conditionals after impossible prefixes are arbitrary."""
    graph = model(name, seed)
    states, p = twins.distribution(graph)
    twin = ReferenceChain(graph)
    q = density(chain_of(graph), graph)
    for depth in range(graph.n_variables):
        prefixes, which = np.unique(states[:, :depth], axis=0, return_inverse=True)
        which = which.ravel()
        before = np.bincount(which, q)
        for k in np.flatnonzero((np.bincount(which, p) > 0) & (before > 0)):
            after = np.bincount(states[which == k, depth], q[which == k])
            expected = twin.conditional(tuple(prefixes[k].tolist()))
            assert_allclose(after / before[k], expected, rtol=0, atol=1e-9)


# Zero potentials, large numbers, edge cases -----------------------------------------------


def test_impossible_prefixes(seed):
    """States that propagation rules out are never sampled; other states have a finite density."""
    parity = np.where(np.indices((2, 2)).sum(0) % 2 == 0, 0.0, -np.inf)
    odd = np.where(np.indices((2, 2)).sum(0) % 2 == 1, 0.0, -np.inf)
    impossible = FactorGraph([2] * 3, [(0, 1), (1, 2), (2, 0)], [parity, parity, odd])
    for conditionals in ("bp", "auto", "exact"):
        for clip in (0.0, 1e-2):
            chain = chain_of(impossible, conditionals, clip=clip)
            q = density(chain, impossible)
            assert_allclose(q.sum(), 1.0, rtol=0, atol=1e-12)
            draws = chain.draw(impossible.flat, 1000, np.random.default_rng(seed))
            check_draws(repeat_by_counts(draws), enumerate_states(impossible)[0], q)
            assert np.isfinite(draws.log_q).all()


def test_impossible_prefixes_before_elimination(seed, monkeypatch):
    """A clip leads to prefixes without any possible continuation."""
    graph = ZOO["zeros_binary"](seed)
    chain = partly_exact_chain(graph, "index", monkeypatch, clip=0.1)
    states, p = twins.distribution(graph)
    q = density(chain, graph)
    assert q[p == 0].sum() > 0.01
    assert_allclose(q.sum(), 1.0, rtol=0, atol=1e-12)
    draws = chain.draw(graph.flat, N_DRAWS, np.random.default_rng(seed))
    assert_allclose(draws.log_q, chain.log_density(graph.flat, draws.X), rtol=1e-12)
    check_draws(repeat_by_counts(draws), states, q)


def test_clip_gives_all_states_positive_probability(seed):
    graph = ZOO["zeros"](seed)
    p = twins.distribution(graph)[1]
    assert density(chain_of(graph), graph)[p == 0].min() == 0
    q = density(chain_of(graph, clip=1e-2), graph)
    assert q.min() >= (1e-2 / 1.02) ** 5


@pytest.mark.parametrize("conditionals", ["bp", "auto", "exact"])
def test_no_variables_and_no_cliques(conditionals):
    constant = FactorGraph([], [()], [1.5])
    chain = chain_of(constant, conditionals)
    draws = chain.draw(constant.flat, 7, np.random.default_rng(0))
    assert (draws.X.shape, draws.counts.sum(), draws.log_q.max()) == ((1, 0), 7, 0.0)
    assert chain.exact


def test_short_kernel_calls_do_not_change_results(seed, monkeypatch):
    """Splitting runs into short kernel calls gives the same results."""
    graph = frustrated()
    for warm_start in (False, True):
        chain = chain_of(graph, warm_start=warm_start)
        whole = chain.draw(graph.flat, 100, np.random.default_rng(seed))
        with monkeypatch.context() as patch:
            patch.setattr(module, "ENTRIES_PER_CALL", 1)
            pieces = chain.draw(graph.flat, 100, np.random.default_rng(seed))
        for left, right in zip(whole, pieces, strict=True):
            assert_array_equal(left, right)


def test_same_seed_gives_same_samples(seed):
    graph = frustrated()
    chain = chain_of(graph)
    kept = graph.flat.copy()
    first, again = (chain.draw(graph.flat, 500, np.random.default_rng(seed)) for _ in range(2))
    for left, right in zip(first, again, strict=True):
        assert_array_equal(left, right)
    other = chain.draw(graph.flat, 500, np.random.default_rng(seed + 1))
    assert not np.array_equal(first.counts, other.counts)
    assert_array_equal(graph.flat, kept)


def test_variable_orders():
    graph = ZOO["grid"](0)
    assert_array_equal(chain_of(graph, order="index").order, np.arange(9))
    found = chain_of(graph, order="elimination").order
    assert_array_equal(found, tree_decomposition.forecast(graph.layout).order[::-1])
    given = [8, 0, 7, 1, 6, 2, 5, 3, 4]
    assert_array_equal(chain_of(graph, order=given).order, given)
    dense = FactorGraph.from_layout(_complete(150))
    assert sorted(chain_of(dense, order="elimination").order.tolist()) == list(range(150))


def _complete(n):
    return PairwiseEnergy(np.ones((n, n)) - np.eye(n), np.zeros(n)).factor_graph().layout


@pytest.mark.parametrize(
    "order",
    [
        [0, 1, 2],
        [0, 1, 2, 3, 3],
        [1, 2, 3, 4, 5],
        [[0, 1, 2, 3, 4]],
        [[0, 1], [2]],
        ["a"] * 5,
        None,
        [0, 1, 2, 3, 0.5],
    ],
)
def test_invalid_orders_raise(order):
    graph = ZOO["orders"](0)
    with pytest.raises(ValueError) as caught:
        chain_of(graph, order=order)
    assert str(caught.value) == (
        "order must be one of ('elimination', 'index') or name each of the 5 variables once; got "
        f"{order!r}."
    )


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"order": "random"}, r"^order must be one of \['elimination', 'index'\]; got 'random'\."),
        (
            {"conditionals": "gibbs"},
            r"^conditionals must be one of \['auto', 'bp', 'exact'\]; got 'gibbs'\.",
        ),
        ({"clip": -0.1}, r"^clip must be a number >= 0 and <= 0\.5; got -0\.1\."),
        ({"clip": 0.6}, r"^clip must be a number >= 0 and <= 0\.5; got 0\.6\."),
        ({"clip": np.nan}, r"^clip must be a finite number; got nan\."),
    ],
)
def test_invalid_settings_raise(settings, message):
    graph = ZOO["chain"](0)
    with pytest.raises(ValueError, match=message):
        chain_of(graph, **settings)


def test_propagation_settings_are_used():
    with pytest.raises(
        TypeError,
        match=r"propagation must be a skmrf\.variational\.\S+\.Propagation; got 'flood",
    ):
        ChainSettings(propagation="flooding")


def test_auto_is_exact_if_one_elimination_is_cheap():
    """The cost of "auto" does not increase along the order, except from no variable to one."""
    layout = make_ising("grid", n_variables=144, coupling=0.3).factor_graph().layout
    cost = tree_decomposition.forecast(layout).entries
    assert cost <= module.EXACT_ENTRIES < 1000 * cost
    assert ChainedSampler(layout, ChainSettings(), 1000).exact


def test_enumerated_states_of_any_integer_dtype(seed):
    """An enumerated state is left out of the average, whatever its integer dtype."""
    graph = frustrated()
    draws = chain_of(graph).draw(graph.flat, 50, np.random.default_rng(seed))
    weights = EnumeratedStates(draws.X.astype(np.int64)).compute_weights(graph, draws)
    assert (weights.draws == -np.inf).all()


def test_density_of_no_rows():
    graph = ZOO["isolated"](0)
    assert (
        chain_of(graph).log_density(graph.flat, np.zeros((0, graph.n_variables), STATE)).size == 0
    )


@pytest.mark.parametrize("kind", MODERATE)
def test_mode_bound_is_below_log_z(kind, seed):
    graph = ZOO[kind](seed).factor_graph()
    _, log_f = enumerate_states(graph)
    bound = mode_bound(graph, np.random.default_rng(seed))
    assert log_f.max() - 1e-9 <= bound <= np.logaddexp.reduce(log_f) + 1e-9


@pytest.mark.parametrize("n_hidden", [2, 9])
def test_mode_bound_of_a_device(n_hidden, seed):
    """The chains visit nearly all states of a small model."""
    devices = pytest.importorskip("skmrf._jax.devices")
    energy = layers(5, n_hidden, seed, scale=0.7)
    log_f = energy.log_marginal(binary_states(5))
    bound = mode_bound(energy, np.random.default_rng(seed), devices.find_device("jax"))
    assert np.logaddexp.reduce(log_f) - 0.1 <= bound <= np.logaddexp.reduce(log_f) + 1e-4


def test_annealing_sends_equal_arrays_once(monkeypatch, seed):
    """The chains of the schedule and of both directions use the same copy of the weights."""
    devices = pytest.importorskip("skmrf._jax.devices")
    energy, shapes, put = layers(5, 3, seed, scale=0.7), [], devices.jax.device_put

    def record(arrays, *args):
        shapes.extend(map(np.shape, devices.jax.tree.leaves(arrays)))
        return put(arrays, *args)

    monkeypatch.setattr(devices.jax, "device_put", record)
    result = ais(energy, n_chains=16, n_temperatures=300, device="jax", random_state=seed)
    exact = np.logaddexp.reduce(energy.log_marginal(binary_states(5)))
    assert abs(result.value - exact) < 1.0
    assert shapes.count(energy.weights.shape) == 1
    device, (a, b) = devices.find_device("jax"), np.random.default_rng(seed).random((2, 4))
    first, second = (device.put_once(arrays, device) for arrays in ((a, b), (a.copy(), b + 1)))
    assert second[0] is first[0]
    assert_allclose(second[1], b + 1, rtol=1e-6)
    a += 1.0
    assert_allclose(device.put_once((a,), device)[0], a, rtol=1e-6)  # sent again
