"""Tests of energies with hidden units: values, moments and gradients against enumeration."""

import numpy as np
import pytest
import twins
from numpy.testing import assert_allclose, assert_array_equal
from scipy.sparse import csr_matrix
from zoo import HIDDEN, LAYERED, enumerate_states, layers, naive_log_potential

from skmrf._utils.codes import STATE
from skmrf._utils.phases import CliqueMoments, States
from skmrf.energies import BipartiteEnergy, FactorGraph
from skmrf.energies.bipartite import CHUNK
from skmrf.likelihood import log_partition_bounds
from skmrf.samplers import spawn_generators, sweep
from skmrf.samplers.gibbs import move_from_hidden

every = pytest.mark.parametrize("name", LAYERED)
every_hidden = pytest.mark.parametrize("name", HIDDEN)


def tolerance(energy):
    """Return a tolerance for sums of about ten terms."""
    single = energy.weights.dtype == np.float32
    return {"rtol": 2e-6, "atol": 4e-6} if single else {"rtol": 1e-13, "atol": 1e-12}


def split(energy, X):
    n = len(energy.visible_bias)
    return X[:, :n], X[:, n:]


def visible_states(energy):
    return twins.visible_law(energy)[0]


def posterior(energy, v):
    """Return all hidden states and their probabilities given one visible state."""
    X, log_f = enumerate_states(energy)
    V, H = split(energy, X)
    agree = (v == V).all(axis=1)
    return H[agree], np.exp(log_f[agree] - twins.log_sum(log_f[agree]))


def normalise(log_weights):
    return np.exp(log_weights - twins.log_sum(log_weights))


def draw_rows(energy, n_rows, seed):
    rng = np.random.default_rng(seed)
    n = len(energy.visible_bias)
    return rng.integers(0, 2, size=(n_rows, n)).astype(STATE), rng.normal(0.0, 2.0, size=n_rows)


BETAS = (0.0, 0.2, 0.5, 0.9, 1.0)


# Values -----------------------------------------------------------------------------------


@every_hidden
def test_log_potential(name, seed):
    energy = HIDDEN[name](seed)
    X, log_f = enumerate_states(energy)
    found = energy.log_potential(X)
    assert found.dtype == float
    assert_allclose(found, log_f, **tolerance(energy))


@every_hidden
def test_free_energy(name, seed):
    energy = HIDDEN[name](seed)
    V, log_p = twins.visible_law(energy)
    assert_allclose(energy.log_marginal(V), log_p, **tolerance(energy))
    assert_array_equal(energy.free_energy(V), -energy.log_marginal(V))
    assert energy.free_energy(V).dtype == float
    assert energy.free_energy(V[:0]).shape == (0,)


@every
def test_conditional_means(name, seed):
    energy = LAYERED[name](seed)
    joint, log_f = enumerate_states(energy)
    V, H = split(energy, joint)
    for given, other, means in ((V, H, energy.hidden_means), (H, V, energy.visible_means)):
        for x in np.unique(given, axis=0):
            agree = (given == x).all(axis=1)
            expected = normalise(log_f[agree]) @ other[agree]
            assert_allclose(means(x[None])[0], expected, **tolerance(energy))


@every_hidden
def test_scaled_log_marginal_of_powers(name, seed):
    """Check the scaled log marginal of f ** beta against a sum over hidden states."""
    energy = HIDDEN[name](seed)
    V = visible_states(energy)
    raised = energy.raised(V)
    for beta in BETAS:
        _, expected = twins.visible_law(energy, beta)
        assert_allclose(raised(beta), expected, **tolerance(energy))
    assert_allclose(raised(0.0), 0.0, rtol=0, atol=1e-6)
    assert_allclose(raised(1.0), energy.log_marginal(V), **tolerance(energy))


@every_hidden
def test_log_marginal_along_a_path(name, seed):
    energy, other = HIDDEN[name](seed), HIDDEN[name](seed + 100)
    V = visible_states(energy)
    along = energy.along(other, V)
    for beta in BETAS:
        mixed = energy.interpolate(other, beta)
        _, expected = twins.visible_law(mixed)
        assert mixed.weights.dtype == energy.weights.dtype
        assert_allclose(along(beta), expected, **tolerance(energy))
        assert_allclose(mixed.log_marginal(V), expected, **tolerance(energy))


@every_hidden
def test_tempered(name, seed):
    energy = HIDDEN[name](seed)
    X, log_f = enumerate_states(energy)
    for beta in BETAS:
        half = energy.tempered(beta)
        assert half.weights.dtype == energy.weights.dtype
        assert_allclose(half.log_potential(X), beta * log_f, **tolerance(energy))


def test_visible_states_and_latent_units():
    energy = layers(5, 2, 0)
    assert energy.n_states.tolist() == [2] * 7
    assert energy.visible_states.tolist() == [2] * 5
    assert energy.n_variables == 7
    assert energy.has_latent
    assert not layers(3, 0, 0).has_latent
    assert repr(energy) == "BipartiteEnergy(n_visible=5, n_hidden=2)"


# Other forms ------------------------------------------------------------------------------


@every_hidden
def test_factor_graph_is_the_same_distribution(name, seed):
    energy = HIDDEN[name](seed)
    X, log_f = enumerate_states(energy)
    graph = energy.factor_graph()
    assert isinstance(graph, FactorGraph)
    assert_allclose(naive_log_potential(graph, X), log_f, **tolerance(energy))


def test_factor_graph_drops_zero_weights():
    graph = BipartiteEnergy([[0.0, 2.0], [0.0, 0.0]], [1.0, 0.0], [0.0, 3.0]).factor_graph()
    assert graph.cliques == ((0,), (1,), (2,), (3,), (0, 3))
    assert_array_equal(graph.log_potentials[4], [[0, 0], [0, 2]])


@every_hidden
def test_condition(name, seed):
    """Condition on units of both layers."""
    energy = HIDDEN[name](seed)
    X, log_f = enumerate_states(energy)
    rng = np.random.default_rng(seed)
    for share in (0.0, 0.3, 0.7):
        observed = rng.random(energy.n_variables) < share
        evidence = {int(i): int(rng.integers(2)) for i in np.flatnonzero(observed)}
        rest = energy.condition(evidence)
        kept = twins.consistent(X, evidence)
        assert_array_equal(rest.n_states, energy.n_states[~observed])
        value = rest.log_potential(X[kept][:, ~observed])
        assert_allclose(value, log_f[kept], **tolerance(energy))


@pytest.mark.parametrize(
    ("evidence", "message"),
    [
        ({7: 0}, "Evidence names variable 7, but the variables are 0 to 6."),
        ({0: 2}, "Evidence gives variable 0 the state 2, but its states are 0 to 1."),
    ],
)
def test_condition_rejects_invalid_evidence(evidence, message):
    with pytest.raises(ValueError) as caught:
        layers(5, 2, 0).condition(evidence)
    assert str(caught.value) == message


def test_complete_draws_the_hidden_units(seed):
    energy = layers(3, 2, seed)
    v = np.array([1, 0, 1], dtype=STATE)
    X = energy.complete(np.repeat(v[None], 20_000, axis=0), np.random.default_rng(seed))
    assert X.dtype == STATE
    assert_array_equal(X[:, :3], np.repeat(v[None], 20_000, axis=0))
    H, p = posterior(energy, v)
    found = np.array([(X[:, 3:] == h).all(axis=1).mean() for h in H])
    assert (np.abs(found - p) < 5 * np.sqrt(p * (1 - p) / 20_000) + 1e-4).all()


# Numbers ----------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("size", [200.0, 1e4])
def test_large_weights_do_not_overflow(dtype, size, seed):
    """Check that large weights give no nan and the same log-densities as log-sum-exp."""
    rng = np.random.default_rng(seed)
    signs = [rng.choice([-size, size], size=s) for s in ((5, 4), 5, 4)]
    energy = BipartiteEnergy(*(s.astype(dtype) for s in signs))
    V, log_p = twins.visible_law(energy)
    assert_allclose(energy.log_marginal(V), log_p, rtol=1e-6, atol=1e-6 * size)
    means = (
        energy.hidden_means(V),
        energy.visible_means(split(energy, enumerate_states(energy)[0])[1]),
    )
    for values in means:
        assert ((values >= 0) & (values <= 1)).all()
    other = energy.with_theta({k: -v for k, v in energy.theta.items()})
    for beta in BETAS:
        assert np.isfinite(energy.raised(V)(beta)).all()
        assert np.isfinite(energy.along(other, V)(beta)).all()
    model = States(V, None, energy.log_marginal(V))
    gradient = energy.gradient(States(V), model)
    assert all(np.isfinite(g).all() for g in gradient.values())


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_dtype_is_that_of_the_weights(dtype, seed):
    energy = layers(4, 3, seed, dtype=dtype)
    V = visible_states(energy)
    assert {v.dtype for v in energy.theta.values()} == {np.dtype(dtype)}
    assert energy.hidden_means(V).dtype == dtype
    assert energy.visible_means(V[:, :3]).dtype == dtype
    moments = energy.moments(States(V, None, np.zeros(len(V))))
    assert {v.dtype for v in moments.values()} == {np.dtype(dtype)}
    gradient = energy.gradient(States(V), States(V[:3]))
    assert {v.dtype for v in gradient.values()} == {np.dtype(dtype)}
    assert BipartiteEnergy([[1, 2]], [0], [0, 0]).weights.dtype == np.float64
    mixed = BipartiteEnergy(energy.weights, np.zeros(4), np.zeros(3))
    assert mixed.hidden_bias.dtype == dtype


def test_astype(seed):
    energy = layers(4, 3, seed)
    single = energy.astype(np.float32)
    V = visible_states(energy)
    assert single.weights.dtype == np.float32
    assert_allclose(single.log_marginal(V), energy.log_marginal(V), rtol=1e-5, atol=1e-5)
    assert energy.astype(np.float64).weights is energy.weights


def test_rows_of_any_memory_layout(seed):
    energy = layers(5, 3, seed)
    V, _ = draw_rows(energy, 40, seed)
    expected = energy.free_energy(V)
    padded = np.zeros((80, 10), dtype=V.dtype)
    padded[::2, ::2] = V
    frozen = V.copy()
    frozen.flags.writeable = False
    for X in (V.tolist(), V.astype(bool), V.astype(float), np.asfortranarray(V), padded[::2, ::2]):
        assert_allclose(energy.free_energy(X), expected, rtol=1e-13)
    assert_allclose(energy.free_energy(frozen), expected, rtol=1e-13)


def energy_with_row_biases(energy, n_rows, rng):
    """Return an energy whose biases differ by row, and a separate energy for each row."""
    theta = dict(energy.theta)
    for name in ("visible_bias", "hidden_bias"):
        shape = n_rows, len(theta[name])
        theta[name] = rng.normal(0.0, 1.0, size=shape).astype(energy.weights.dtype)
    biases = zip(theta["visible_bias"], theta["hidden_bias"], strict=True)
    return energy.with_theta(theta), [BipartiteEnergy(energy.weights, *b) for b in biases]


@every
def test_row_biases(name, seed):
    """Check that each row has the value that the energy with its biases gives."""
    rng = np.random.default_rng(seed)
    first, last = LAYERED[name](seed), LAYERED[name](seed + 100)
    n_rows = 40
    (own, each), (other, others) = (energy_with_row_biases(e, n_rows, rng) for e in (first, last))
    V, _ = draw_rows(first, n_rows, seed)
    X = rng.integers(0, 2, size=(n_rows, first.n_variables)).astype(STATE)
    H = split(first, X)[1]
    found = {
        "free energy": own.free_energy(V),
        "hidden": own.hidden_means(V),
        "visible": own.visible_means(H),
        "potential": own.log_potential(X),
        "raised": own.raised(V)(0.3),
        "along": own.along(other, V)(0.3),
    }
    for i, (e, o) in enumerate(zip(each, others, strict=True)):
        expected = {
            "free energy": e.free_energy(V[i : i + 1]),
            "hidden": e.hidden_means(V[i : i + 1]),
            "visible": e.visible_means(H[i : i + 1]),
            "potential": e.log_potential(X[i : i + 1]),
            "raised": e.raised(V[i : i + 1])(0.3),
            "along": e.along(o, V[i : i + 1])(0.3),
        }
        for what, value in expected.items():
            assert_allclose(found[what][i], value[0], err_msg=what, **tolerance(first))


def test_row_biases_in_several_chunks(seed):
    energy = layers(4, 3, seed)
    n_rows = CHUNK + 5
    own, each = energy_with_row_biases(energy, n_rows, np.random.default_rng(seed))
    V, _ = draw_rows(energy, n_rows, seed)
    for i in (0, CHUNK - 1, CHUNK, n_rows - 1):
        expected = each[i].free_energy(V[i : i + 1])[0]
        assert_allclose(own.free_energy(V)[i], expected, rtol=1e-13)


def test_gibbs_chains_with_row_biases(seed):
    """Check that each chain equals a chain of a model in which all chains have its biases."""
    energy = layers(4, 3, seed)
    n_chains = 600  # more than a unit of work
    own, each = energy_with_row_biases(energy, n_chains, np.random.default_rng(seed))
    V, _ = draw_rows(energy, n_chains, seed)
    H = own.hidden_means(V)

    def generators():
        return spawn_generators(np.random.default_rng(seed), n_chains)

    def moved(model):
        X, log_weights = sweep(model, V, generators(), betas=np.linspace(0.0, 1.0, 6))
        drawn = move_from_hidden(model, H, generators(), 3)
        return X, log_weights, *drawn

    found = moved(own)
    for i in (0, 1, n_chains - 1):
        for a, b in zip(found, moved(each[i]), strict=True):
            assert_allclose(a[i], b[i], rtol=1e-12, atol=1e-12)


def test_states_of_many_chains(seed):
    """Chains that several threads move equal those that are moved alone."""
    energy, n_chains, size = layers(4, 3, seed), 1100, 512  # a multiple of the blocks of 64 chains
    H = (np.random.default_rng(seed).random((n_chains, 3)) < 0.5).astype(float)
    whole, parts = (spawn_generators(np.random.default_rng(seed), n_chains) for _ in range(2))
    found = move_from_hidden(energy, H, whole, 3)
    for first in range(0, n_chains, size):
        chains = slice(first, first + size)
        generators = parts[first // 64 : (first + size) // 64]
        alone = move_from_hidden(energy, H[chains], generators, 3)
        for values, expected in zip(found, alone, strict=True):
            assert_allclose(values[chains], expected, rtol=1e-12)


def test_wrong_number_of_bias_rows_raises(seed):
    energy = layers(4, 3, seed)
    own, _ = energy_with_row_biases(energy, 6, np.random.default_rng(seed))
    V, _ = draw_rows(energy, 9, seed)
    for call in (own.hidden_means, own.free_energy, lambda V: sweep(own, V, [None])):
        with pytest.raises(ValueError, match="biases have 6 rows, but the states have 9 rows"):
            call(V)


def test_inputs_are_not_modified(seed):
    for factory in LAYERED.values():
        energy = factory(seed)
        V, log_weights = draw_rows(energy, 10, seed)
        H = np.ones((10, len(energy.hidden_bias)), dtype=energy.weights.dtype)
        X = V.astype(energy.weights.dtype)
        arrays = *energy.theta.values(), V, X, H, log_weights
        before = [array.copy() for array in arrays]
        for rows in (V, X):
            energy.free_energy(rows)
            energy.hidden_means(rows)
            energy.moments(States(rows, H, log_weights))
            energy.gradient(States(rows, H, log_weights), States(rows, None, log_weights))
            energy.along(energy.tempered(0.5), rows)(0.5)
            energy.raised(rows)(0.5)
        energy.visible_means(H)
        for array, expected in zip(arrays, before, strict=True):
            assert_array_equal(array, expected)


def test_arguments_are_copied():
    weights = np.ones((2, 2))
    energy = BipartiteEnergy(weights, np.zeros(2), np.zeros(2))
    weights[:] = 9
    assert_array_equal(energy.weights, np.ones((2, 2)))


def test_penalty_groups_are_hidden_units():
    groups = layers(3, 2, 0).penalty_groups()
    assert_array_equal(groups["weights"], [[0, 1]] * 3)
    assert (groups["visible_bias"] == -1).all()
    assert (groups["hidden_bias"] == -1).all()


SHAPES = (
    "weights must have shape (n_visible, n_hidden), visible_bias (n_visible,) and hidden_bias "
    "(n_hidden,)"
)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((np.zeros((2, 3)), np.zeros(3), np.zeros(2)), f"{SHAPES}; got (2, 3), (3,) and (2,)."),
        ((np.zeros(2), np.zeros(2), np.zeros(1)), f"{SHAPES}; got (2,), (2,) and (1,)."),
        ((np.zeros((1, 1)), 0.0, [0.0]), f"{SHAPES}; got (1, 1), () and (1,)."),
        (
            ([[np.inf]], [0.0], [0.0]),
            "weights and biases must be finite; for states of probability zero use a FactorGraph.",
        ),
        (
            ([[0.0]], [0.0], [np.nan]),
            "weights and biases must be finite; for states of probability zero use a FactorGraph.",
        ),
    ],
)
def test_invalid_arguments_raise(arguments, message):
    with pytest.raises(ValueError) as caught:
        BipartiteEnergy(*arguments)
    assert str(caught.value) == message


@pytest.mark.slow(seconds=25)
def test_ais_intervals_contain_log_z(seed):
    """Check the intervals of 30 models small enough for the exact log Z."""
    rng = np.random.default_rng(seed)
    inside, widths = 0, []
    for scale in np.geomspace(0.05, 3.0, 30):
        n_visible, n_hidden = int(rng.integers(10, 101)), int(rng.integers(4, 13))
        energy = BipartiteEnergy(
            rng.normal(0.0, scale, size=(n_visible, n_hidden)),
            rng.normal(size=n_visible),
            rng.normal(size=n_hidden),
        )
        exact = log_partition_bounds(energy, method="exact").value
        result = log_partition_bounds(energy, method="ais", random_state=rng)
        inside += result.lower <= exact <= result.upper
        widths.append(result.upper - result.lower)
    assert inside >= 28
    assert np.median(widths) < 0.1


# Moments and gradients ---------------------------------------------------------------------------


def statistics(energy, V, H, weights):
    """Return the weighted sufficient statistics of states, computed with plain loops."""
    out = {k: np.zeros(a.shape) for k, a in energy.theta.items()}
    values = np.array(getattr(energy, "states", (0, 1)), dtype=float)
    for v, h, w in zip(values[V], H, weights, strict=True):
        if "coupling" in out:
            out["coupling"] += w * (np.outer(v, v) - np.diag(v * v))
        out["weights"] += w * np.outer(v, h)
        out["visible_bias"] += w * np.asarray(v, dtype=float)
        out["hidden_bias"] += w * np.asarray(h, dtype=float)
    return out


def average_over_hidden(energy, V, weights):
    """Return the statistics of visible rows, averaged over the hidden states given each row."""
    total = {k: np.zeros(a.shape) for k, a in energy.theta.items()}
    for v, w in zip(V, weights, strict=True):
        H, p = posterior(energy, v)
        part = statistics(energy, np.repeat(v[None], len(H), axis=0), H, w * p)
        total = {k: total[k] + part[k] for k in total}
    return total


def assert_same(left, right, **within):
    assert left.keys() == right.keys()
    for key in left:
        assert left[key].shape == right[key].shape
        assert_allclose(left[key], right[key], err_msg=key, **within)


@every_hidden
def test_moments_average_the_hidden_units(name, seed):
    energy = HIDDEN[name](seed)
    V, log_weights = draw_rows(energy, 12, seed)
    expected = average_over_hidden(energy, V, np.full(12, 1 / 12))
    assert_same(energy.moments(States(V)), expected, **tolerance(energy))
    expected = average_over_hidden(energy, V, normalise(log_weights))
    found = energy.moments(States(V, None, log_weights + 500.0))
    assert_same(found, expected, **tolerance(energy))
    assert_same(energy.moments(CliqueMoments(expected)), expected, rtol=0, atol=0)


@every_hidden
def test_moments_with_hidden_states(name, seed):
    energy = HIDDEN[name](seed)
    V, log_weights = draw_rows(energy, 12, seed)
    H = np.random.default_rng(seed).integers(0, 2, size=(12, len(energy.hidden_bias)))
    expected = statistics(energy, V, H, normalise(log_weights))
    assert_same(energy.moments(States(V, H, log_weights)), expected, **tolerance(energy))


@every_hidden
@pytest.mark.parametrize("numbers", [(3, 40), (40, 3), (CHUNK + 7, 5)])
def test_each_phase_is_normalised(name, numbers, seed):
    """Check phases with different numbers of rows and total weights, with and without chunks."""
    energy = HIDDEN[name](seed)
    (V, up), (Y, down) = (draw_rows(energy, n, seed + n) for n in numbers)
    positive, negative = States(V, None, up + 300.0), States(Y, None, down - 300.0)
    first, second = energy.moments(positive), energy.moments(negative)
    expected = {k: first[k] - second[k] for k in first}
    within = {**tolerance(energy), "rtol": 0}
    assert_same(energy.gradient(positive, negative), expected, **within)
    assert_same(energy.gradient(CliqueMoments(first), negative), expected, **within)
    assert_same(energy.gradient(positive, CliqueMoments(second)), expected, **within)
    small = min((V, up), (Y, down), key=lambda rows: len(rows[0]))
    twin = average_over_hidden(energy, small[0], normalise(small[1]))
    assert_same(energy.moments(States(small[0], None, small[1])), twin, **tolerance(energy))


@every_hidden
def test_moments_of_several_chunks(name, seed):
    energy = HIDDEN[name](seed)
    V, log_weights = draw_rows(energy, 2 * CHUNK + 5, seed)
    states, which = np.unique(V, axis=0, return_inverse=True)
    weights = np.bincount(which.ravel(), normalise(log_weights))
    found = energy.moments(States(V, None, log_weights))
    assert_same(found, average_over_hidden(energy, states, weights), rtol=0, atol=1e-5)
    each = energy.free_energy(states)[which.ravel()]
    assert_allclose(energy.free_energy(V), each, **tolerance(energy))


@every_hidden
def test_sparse_rows(name, seed):
    """Check that CSR rows give the results of dense rows, for each dtype."""
    energy = HIDDEN[name](seed)
    V, log_weights = draw_rows(energy, CHUNK + 40, seed)
    for dtype in (np.float64, np.float32, STATE, np.uint8):
        rows = csr_matrix(V.astype(dtype))
        assert_array_equal(energy.free_energy(rows), energy.free_energy(V))
        assert_array_equal(energy.hidden_means(rows), energy.hidden_means(V))
        phase = States(rows, None, log_weights)
        both = [energy.moments(p) for p in (phase, States(V, None, log_weights))]
        assert_same(*both, rtol=0, atol=1e-7)
        few, other = States(rows[:30], None, log_weights[:30]), States(V[:7])
        dense = energy.gradient(States(V[:30], None, log_weights[:30]), other)
        assert_same(energy.gradient(few, other), dense, rtol=0, atol=1e-7)


@every_hidden
def test_rows_of_weight_zero_are_ignored(name, seed):
    energy = HIDDEN[name](seed)
    V, _ = draw_rows(energy, 5, seed)
    for phase in (States(V, None, np.full(5, -np.inf)), States(V[:0])):
        assert not any(m.any() for m in energy.moments(phase).values())
    weightless = States(V, None, np.array([0.0, -np.inf, -np.inf, 0.0, -np.inf]))
    assert_same(energy.moments(weightless), energy.moments(States(V[[0, 3]])), rtol=0, atol=1e-6)


@pytest.mark.parametrize("name", [n for n in HIDDEN if "single_precision" not in n])
def test_gradient_matches_finite_differences(name, seed):
    energy = HIDDEN[name](seed)
    V, log_weights = draw_rows(energy, 10, seed)
    states = visible_states(energy)

    def log_likelihood(model):
        total = twins.log_sum(twins.visible_law(model)[1])
        return normalise(log_weights) @ model.log_marginal(V) - total

    model = States(states, None, energy.log_marginal(states))
    gradient = energy.gradient(States(V, None, log_weights), model)
    for key, values in gradient.items():
        for entry in np.ndindex(values.shape):
            if key == "coupling" and entry[0] >= entry[1]:
                continue
            sides = []
            for step in (1e-4, -1e-4):
                theta = {k: a.copy() for k, a in energy.theta.items()}
                theta[key][entry] += step
                if key == "coupling":
                    theta[key][entry[::-1]] += step
                sides.append(log_likelihood(energy.with_theta(theta)))
            expected = (sides[0] - sides[1]) / 2e-4
            assert_allclose(values[entry], expected, rtol=0, atol=1e-7)


def test_gradient_vanishes_at_the_model(seed):
    energy = layers(4, 3, seed)
    V = visible_states(energy)
    model = States(V, None, energy.log_marginal(V))
    for values in energy.gradient(model, model).values():
        assert_allclose(values, 0.0, rtol=0, atol=1e-15)


@pytest.mark.parametrize("shape", [(7, 8), (8, 7), (16, 8)])
def test_gradient_of_arrays_of_jax(shape, seed):
    jax = pytest.importorskip("jax")
    energy, rng = layers(*shape, seed).astype(np.float32), np.random.default_rng(seed)
    phases = [States(rng.integers(0, 2, (n, shape[0])), None, None) for n in (5, 3)]
    given = jax.tree.map(jax.numpy.asarray, (energy.theta, *phases))
    found = energy.with_theta(given[0]).gradient(*given[1:])
    for key, values in energy.gradient(*phases).items():
        assert_allclose(found[key], values, atol=1e-5)
