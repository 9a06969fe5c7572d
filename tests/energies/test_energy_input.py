"""Tests of the input of energies, and of log-linear energies."""

from itertools import product

import numpy as np
import pytest
from montecarlo import check_means

from skmrf import DiscreteMRF, inference
from skmrf._utils.codes import STATE, check_states
from skmrf._utils.phases import CliqueMoments, States
from skmrf.energies import FactorGraph, PairwiseEnergy
from skmrf.energies.layout import Layout
from skmrf.energies.log_linear import LogLinearEnergy, LogLinearForm, contrasts, pair_basis
from skmrf.training import fit_energy


@pytest.mark.parametrize(
    ("n_states", "cliques", "tables", "tie", "message"),
    [
        (
            [2, 2],
            [(0,), (0, 2)],
            [np.zeros(2), np.zeros(4)],
            None,
            "Clique 1 (0, 2) names variable 2, but the variables are 0 to 1.",
        ),
        (
            [2, 2],
            [(-1,)],
            [np.zeros(2)],
            None,
            "Clique 0 (-1) names variable -1, but the variables are 0 to 1.",
        ),
        (
            [2, 2],
            [(0,), (1, 0, 1)],
            [np.zeros(2), np.zeros(8)],
            None,
            "Clique 1 (1, 0, 1) names variable 1 twice; name every variable once.",
        ),
        (
            [2, 3],
            [(0, 1)],
            [np.zeros((3, 2))],
            None,
            "The table of clique 0 (0, 1) has shape (3, 2), but its variables have (2, 3) states.",
        ),
        (
            [2, 3],
            [(0,), (0, 1)],
            [np.zeros(2), np.zeros(5)],
            None,
            "The table of clique 1 (0, 1) has shape (5,), but its variables have (2, 3) states.",
        ),
        (
            [2, 3],
            [(0, 1)],
            np.zeros(5),
            None,
            "log_potentials has 5 numbers, but the tables of the cliques have 6 entries in total; "
            "give one number per entry.",
        ),
        (
            [2, 2],
            [(0,), (1,)],
            [np.zeros(2)],
            None,
            "There are 2 cliques but 1 tables in log_potentials; give one table per clique.",
        ),
        (
            [2, 2],
            [(0,), (0, 1)],
            [np.zeros(2), [[0, 0], [np.nan, 0]]],
            None,
            "The table of clique 1 (0, 1) holds nan; log-potentials must be finite or -inf.",
        ),
        (
            [2, 2],
            [(0,), (0, 1)],
            [[0, np.inf], np.zeros(4)],
            None,
            "The table of clique 0 (0,) holds inf; log-potentials must be finite or -inf.",
        ),
        (
            [2, 2],
            [(0,), (0, 1)],
            [["0", "1"], np.zeros(4)],
            None,
            "The table of clique 0 (0,) holds values of type <U1; log-potentials must be real "
            "numbers, in nats.",
        ),
        (
            [2],
            [(0,)],
            np.array([0.0, 1j]),
            None,
            "log_potentials holds values of type complex128; log-potentials must be real numbers, "
            "in nats.",
        ),
        (
            [2, 2],
            [(0,), (1,)],
            [np.zeros(2), [-np.inf, -np.inf]],
            None,
            "All potentials of clique 1 (1,) are zero (-inf), so no state has a probability; give "
            "at least one a finite log-potential.",
        ),
        (
            [2, 3, 2],
            [(0,), (1,), (2,)],
            [np.zeros(2), np.zeros(3), np.zeros(2)],
            [[0, 1]],
            "tie puts the cliques [0, 1] in one group, but their tables have the shapes [(2,), "
            "(3,)]; only cliques with tables of the same shape can be tied.",
        ),
        (
            [2, 2],
            [(0,), (1,)],
            [np.zeros(2), np.ones(2)],
            [[0, 1]],
            "Clique 1 (1,) is tied, but its table differs from the table of its group. Give the "
            "same table to all cliques of a group.",
        ),
        ([2], [(0,)], [np.zeros(2)], [[0, 1]], "tie has clique 1, but the cliques are 0 to 0."),
        (
            [2],
            [(0,)],
            [np.zeros(2)],
            [[0], [0]],
            "tie has clique 0 twice; a clique can be in one group only.",
        ),
        (
            [2] * 40,
            [(3,), range(40)],
            [np.zeros(2), np.zeros(2)],
            None,
            "The tables would hold 1.1e+12 numbers, more than the limit of 2147483647; the largest "
            "table is the one of clique 1 (0, 1, 2, 3, 4, 5, 6, 7, 8, 9, ...) with 1.1e+12 "
            "numbers. Use smaller cliques or merge rare states.",
        ),
        (
            [[2]],
            [],
            [],
            None,
            "n_states must be a list of positive integers, one per variable; got [[2]].",
        ),
        (
            [2.5],
            [],
            [],
            None,
            "n_states must be a list of positive integers, one per variable; got [2.5].",
        ),
        ([2, 0], [], [], None, "Variable 1 has 0 states; a variable must have 1 to 32767 states."),
        (
            [2, 32768],
            [],
            [],
            None,
            "Variable 1 has 32768 states; a variable must have 1 to 32767 states.",
        ),
        (
            [2, 2],
            [(0,), (0, 1.5)],
            [],
            None,
            "Clique 1 is (0, 1.5); a clique must be a tuple of variables (integers).",
        ),
        (
            [2, 2],
            [(0,), 1],
            [],
            None,
            "Clique 1 is 1; a clique must be a tuple of variables (integers).",
        ),
        (
            [2, 2],
            ["01"],
            [],
            None,
            "Clique 0 is '01'; a clique must be a tuple of variables (integers).",
        ),
    ],
)
def test_factor_graph_rejects_invalid_arguments(n_states, cliques, tables, tie, message):
    with pytest.raises(ValueError) as caught:
        FactorGraph(n_states, cliques, tables, tie=tie)
    assert str(caught.value) == message


def test_pairwise_parameters_whose_sums_overflow_raise():
    PairwiseEnergy(np.zeros((2, 2), np.float32), np.zeros(2, np.float32), states=(0, 1e30))
    PairwiseEnergy(np.zeros((2, 2)), np.zeros(2), states=(0, 1e200))
    coupling = np.array([[0.0, 1e308], [1e308, 0.0]])
    with pytest.raises(ValueError, match="exceed the largest floating-point number"):
        PairwiseEnergy(coupling, np.zeros(2))
    with pytest.raises(ValueError, match="exceed the largest floating-point number"):
        PairwiseEnergy(np.zeros((2, 2)), np.full(2, 1e308))
    PairwiseEnergy(1e-3 * coupling, np.zeros(2))


def test_infinite_table_size_raises():
    with pytest.raises(ValueError, match="more than the limit of 2147483647"):
        Layout.build([2] * 1200, [range(1200)])


NOT_FINITE = "coupling and bias must be finite; for states of probability zero use a FactorGraph."


@pytest.mark.parametrize(
    ("coupling", "bias", "states", "message"),
    [
        (
            np.zeros((2, 3)),
            [0, 0],
            (0, 1),
            "coupling must have shape (n, n), and bias must have shape (n,); got (2, 3) and (2,).",
        ),
        (
            np.zeros((2, 2)),
            [0],
            (0, 1),
            "coupling must have shape (n, n), and bias must have shape (n,); got (2, 2) and (1,).",
        ),
        (
            [[0, 1], [2, 0]],
            [0, 0],
            (0, 1),
            "coupling must be symmetric, but coupling[0, 1] is 1.0 and coupling[1, 0] is 2.0; use "
            "(J + J.T) / 2.",
        ),
        (
            np.eye(2),
            [0, 0],
            (0, 1),
            "coupling must have a zero diagonal, but coupling[0, 0] is 1.0; use bias for terms of "
            "single variables.",
        ),
        (np.zeros((2, 2)), [0, np.nan], (0, 1), NOT_FINITE),
        (np.zeros((1, 1)), [-np.inf], (0, 1), NOT_FINITE),
        (
            np.zeros((1, 1)),
            [0],
            (1, 1),
            "states must be two increasing finite numbers; got (1.0, 1.0).",
        ),
        (
            np.zeros((1, 1)),
            [0],
            (-np.inf, 1),
            "states must be two increasing finite numbers; got (-inf, 1.0).",
        ),
        (
            np.zeros((1, 1)),
            [0],
            (0, 1, 2),
            "states must be two increasing finite numbers; got (0.0, 1.0, 2.0).",
        ),
    ],
)
def test_pairwise_energy_rejects_invalid_arguments(coupling, bias, states, message):
    with pytest.raises(ValueError) as caught:
        PairwiseEnergy(coupling, bias, states)
    assert str(caught.value) == message


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_couplings_can_have_rounding_errors(dtype):
    coupling = np.array([[0, 0.3], [0.3, 0]], dtype=dtype)
    coupling[0, 1] = np.nextafter(coupling[0, 1], dtype(1))
    energy = PairwiseEnergy(coupling, np.zeros(2, dtype=dtype))
    assert energy.coupling.dtype == dtype
    np.testing.assert_array_equal(energy.coupling, energy.coupling.T)
    np.testing.assert_allclose(energy.coupling, coupling, rtol=1e-6)
    with pytest.raises(ValueError, match="coupling must be symmetric"):
        PairwiseEnergy(coupling * (1 + np.triu(np.full((2, 2), 1e-5))), np.zeros(2))


@pytest.mark.parametrize(
    ("X", "message"),
    [
        (np.zeros(2), "States must have shape (n_rows, 2), one column per variable; got (2,)."),
        (
            np.zeros((1, 3)),
            "States must have shape (n_rows, 2), one column per variable; got (1, 3).",
        ),
        ([[0.5, 0]], "States must be integer codes 0 .. n_states - 1; got dtype float64."),
        ([[np.nan, 0]], "States must be integer codes 0 .. n_states - 1; got dtype float64."),
        ([["0", "1"]], "States must be integer codes 0 .. n_states - 1; got dtype <U1."),
        ([[0, 3]], "Variable 1 has 3 states (codes 0 to 2), but codes from 3 to 3 were given."),
        (
            [[0, 0], [-1, 2]],
            "Variable 0 has 2 states (codes 0 to 1), but codes from -1 to 0 were given.",
        ),
        (
            [[0, 65536]],
            "Variable 1 has 3 states (codes 0 to 2), but codes from 65536 to 65536 were given.",
        ),
    ],
)
def test_invalid_states_raise(X, message):
    with pytest.raises(ValueError) as caught:
        check_states(X, [2, 3])
    assert str(caught.value) == message
    with pytest.raises(ValueError):
        FactorGraph([2, 3], [(0, 1)], [np.zeros((2, 3))]).log_potential(X)


# Log-linear energies -----------------------------------------------------------------------------


MIXED = (2, 3, 2, 4, 1)
EDGES = [(0, 1), (1, 2), (0, 3), (1, 3), (2, 4)]
FORMS = [("table", True), ("table", False), ("agreement", True), ("agreement", False)]
forms = pytest.mark.parametrize(("statistic", "unary"), FORMS)


def random_energy(seed, statistic, unary=True, n_states=MIXED, edges=EDGES):
    rng = np.random.default_rng(seed)
    form = LogLinearForm.build(n_states, edges, statistic, unary)
    theta = {k: rng.normal(size=v.shape) for k, v in form.zeros().items()}
    return LogLinearEnergy(form, theta)


def joint_states(n_states):
    return np.array(list(product(*map(range, n_states))), dtype=STATE).reshape(-1, len(n_states))


def enumerate_distribution(energy):
    """Return all joint states and their probabilities."""
    X = joint_states(energy.n_states)
    log_f = energy.log_potential(X)
    return X, np.exp(log_f - np.logaddexp.reduce(log_f))


def naive_log_potential(energy, x):
    """Return log f of a row, computed from the definition."""
    form, q = energy.form, energy.n_states
    total = 0.0
    for i in range(len(q) if form.unary else 0):
        own = energy.theta["unary"][form.unary_start[i] : form.unary_start[i + 1]]
        total += contrasts(q[i])[x[i]] @ own
    for (i, j), theta in zip(form.edges.tolist(), energy.edge_parameters(), strict=True):
        if form.statistic == "agreement":
            total += theta[0] * (x[i] == x[j])
        else:
            table = theta.reshape(q[i] - 1, q[j] - 1)
            total += contrasts(q[i])[x[i]] @ table @ contrasts(q[j])[x[j]]
    return total


@pytest.mark.parametrize("q", [1, 2, 3, 5])
def test_contrasts_are_orthonormal(q):
    basis = contrasts(q)
    assert basis.shape == (q, q - 1)
    np.testing.assert_allclose(basis.T @ basis, np.eye(q - 1), atol=1e-14)
    np.testing.assert_allclose(basis.sum(axis=0), 0.0, atol=1e-14)
    with pytest.raises(ValueError, match="read-only"):
        basis[...] = 1.0


@pytest.mark.parametrize(("q", "r"), [(2, 2), (3, 2), (2, 4), (1, 3)])
def test_basis_of_a_pair(q, r):
    basis = pair_basis("table", q, r)
    flat = basis.reshape(len(basis), q * r)
    assert len(basis) == (q - 1) * (r - 1)
    np.testing.assert_allclose(flat @ flat.T, np.eye(len(flat)), atol=1e-14)
    np.testing.assert_allclose(basis.sum(axis=1), 0.0, atol=1e-14)
    np.testing.assert_allclose(basis.sum(axis=2), 0.0, atol=1e-14)
    np.testing.assert_array_equal(pair_basis("agreement", q, r), np.eye(q, r)[None])


@forms
def test_log_potential_is_its_definition(statistic, unary, seed):
    energy = random_energy(seed, statistic, unary)
    X = joint_states(MIXED)
    expected = [naive_log_potential(energy, x) for x in X]
    np.testing.assert_allclose(energy.log_potential(X), expected, atol=1e-12)
    np.testing.assert_allclose(energy.factor_graph().log_potential(X), expected, atol=1e-12)


@forms
@pytest.mark.parametrize("edges", [EDGES, []])
def test_contract_is_the_adjoint_of_expand(statistic, unary, edges, seed):
    energy = random_energy(seed, statistic, unary, edges=edges)
    flat = np.random.default_rng(seed + 1000).normal(size=energy.form.layout.n_parameters)
    back = energy.form.contract(flat)
    assert {k: v.shape for k, v in back.items()} == {k: v.shape for k, v in energy.theta.items()}
    along = sum(back[k] @ energy.theta[k] for k in back)
    assert along == pytest.approx(flat @ energy.form.expand(energy.theta), abs=1e-10)


def test_expand_then_contract_is_the_identity(seed):
    energy = random_energy(seed, "table")
    back = energy.form.contract(energy.form.expand(energy.theta))
    for name, values in energy.theta.items():
        np.testing.assert_allclose(back[name], values, atol=1e-12)
    tables = energy.graph.log_potentials[len(MIXED) :]
    norms = [np.linalg.norm(table) for table in tables]
    np.testing.assert_allclose(energy.strengths(), norms, atol=1e-12)
    squares = [theta @ theta for theta in energy.edge_parameters()]
    np.testing.assert_allclose(energy.strengths() ** 2, squares, atol=1e-12)


def test_parameters_are_identifiable(seed):
    """Check that parameters are identifiable: the covariance of the statistics has full rank."""
    for statistic, n_states in (("table", (2, 3, 3)), ("agreement", (3, 3, 3))):
        energy = random_energy(seed, statistic, True, n_states, [(0, 1), (0, 2), (1, 2)])
        X, p = enumerate_distribution(energy)
        T = np.array([np.concatenate(list(moments_of(energy, x[None]).values())) for x in X])
        centred = T - p @ T
        assert np.linalg.eigvalsh(centred.T @ (p[:, None] * centred)).min() > 1e-6


def moments_of(energy, X, log_weights=None):
    return energy.moments(States(X, None, log_weights))


@pytest.mark.parametrize("statistic", ["table", "agreement"])
def test_theta_is_twice_the_coupling(statistic, seed):
    """Check, for two states, that theta is 2 J for both statistics."""
    n, edges = 4, [(0, 1), (1, 2), (0, 3)]
    energy = random_energy(seed, statistic, True, (2,) * n, edges)
    J = np.zeros((n, n))
    for (i, j), theta in zip(edges, energy.theta["pairs"], strict=True):
        J[i, j] = J[j, i] = theta / 2
    b = energy.theta["unary"] * (contrasts(2)[1, 0] - contrasts(2)[0, 0]) / 2
    ising = PairwiseEnergy(J, b, (-1, 1))
    X, p = enumerate_distribution(energy)
    log_f = ising.log_potential(X)
    np.testing.assert_allclose(p, np.exp(log_f - np.logaddexp.reduce(log_f)), atol=1e-14)
    np.testing.assert_allclose(energy.strengths(), np.abs(energy.theta["pairs"]), atol=1e-15)


@forms
def test_gradient_by_finite_differences(statistic, unary, seed):
    """Check the gradient of the mean log-likelihood of weighted rows."""
    energy = random_energy(seed, statistic, unary)
    rng = np.random.default_rng(seed + 1000)
    rows = rng.integers(0, MIXED, size=(7, len(MIXED))).astype(STATE)
    log_w = rng.normal(size=7)
    w = np.exp(log_w) / np.exp(log_w).sum()
    X, p = enumerate_distribution(energy)
    gradient = energy.gradient(States(rows, None, log_w), States(X, None, np.log(p)))

    def value(theta):
        moved = energy.with_theta(theta)
        return w @ moved.log_potential(rows) - np.logaddexp.reduce(moved.log_potential(X))

    h = 1e-5
    for name, values in energy.theta.items():
        for k in range(len(values)):
            shift = dict(energy.theta)
            ends = []
            for step in (h, -h):
                shift[name] = values.copy()
                shift[name][k] += step
                ends.append(value(shift))
            slope = (ends[0] - ends[1]) / (2 * h)
            assert gradient[name][k] == pytest.approx(slope, abs=1e-8)


@forms
def test_moments_are_means_of_the_statistics(statistic, unary, seed):
    energy = random_energy(seed, statistic, unary)
    X, p = enumerate_distribution(energy)
    of_states = moments_of(energy, X, np.log(p))
    beliefs = inference.marginals(energy.graph, method="exact").cliques
    flat = np.concatenate([b.ravel() for b in beliefs])
    of_beliefs = energy.from_table_moments(flat)
    one_row = [moments_of(energy, x[None]) for x in X]
    for name in energy.theta:
        expected = p @ np.array([row[name] for row in one_row])
        np.testing.assert_allclose(of_states[name], expected, atol=1e-12)
        np.testing.assert_allclose(of_beliefs[name], expected, atol=1e-10)
    both = energy.gradient(States(X, None, np.log(p)), CliqueMoments(of_beliefs))
    for values in both.values():
        np.testing.assert_allclose(values, 0.0, atol=1e-10)


def test_moments_of_draws(seed):
    energy = random_energy(seed, "table", n_states=(2, 3, 2), edges=[(0, 1), (1, 2)])
    X, p = enumerate_distribution(energy)
    drawn = inference.sample(energy, 20_000, random_state=seed)
    exact = np.array([p @ (x == X).all(axis=1) for x in X])
    check_means((drawn[:, None] == X).all(axis=2), exact)
    close = energy.gradient(States(drawn), States(X, None, np.log(p)))
    assert max(np.abs(v).max() for v in close.values()) < 5 / np.sqrt(20_000)


@forms
def test_restricted(statistic, unary, seed):
    energy = random_energy(seed, statistic, unary)
    alive = np.array([True, False, True, False, True])
    left = energy.restricted(alive)
    assert energy.alive.all()
    np.testing.assert_array_equal(left.alive, alive)
    np.testing.assert_array_equal(left.strengths()[~alive], 0.0)
    np.testing.assert_array_equal(left.strengths()[alive], energy.strengths()[alive])
    np.testing.assert_array_equal(left.theta["unary"], energy.theta["unary"])
    fewer = [e for e, keep in zip(EDGES, alive, strict=True) if keep]
    twin = LogLinearForm.build(MIXED, fewer, statistic, unary)
    pairs = [t for t, keep in zip(energy.edge_parameters(), alive, strict=True) if keep]
    same = LogLinearEnergy(twin, {"unary": energy.theta["unary"], "pairs": np.concatenate(pairs)})
    X, p = enumerate_distribution(left)
    np.testing.assert_allclose(enumerate_distribution(same)[1], p, atol=1e-14)
    rows = X[:5]
    gradient = left.gradient(States(rows), States(X, None, np.log(p)))
    full = energy.with_theta(left.theta).gradient(States(rows), States(X, None, np.log(p)))
    owner = left.form.owner
    np.testing.assert_array_equal(gradient["pairs"][~alive[owner]], 0.0)
    np.testing.assert_allclose(gradient["pairs"][alive[owner]], full["pairs"][alive[owner]])
    np.testing.assert_allclose(gradient["unary"], full["unary"])
    assert np.abs(full["pairs"][~alive[owner]]).max() > 1e-3
    np.testing.assert_array_equal(left.with_theta(energy.theta).alive, alive)


@forms
def test_penalty_groups_are_edges(statistic, unary, seed):
    energy = random_energy(seed, statistic, unary)
    groups = energy.penalty_groups()
    np.testing.assert_array_equal(groups["unary"], np.full(len(energy.theta["unary"]), -1))
    sizes = [len(t) for t in energy.edge_parameters()]
    np.testing.assert_array_equal(groups["pairs"], np.repeat(np.arange(len(EDGES)), sizes))
    expected = [1] * 5 if statistic == "agreement" else [2, 2, 3, 6, 0]
    assert sizes == expected


@pytest.mark.parametrize("unary", [True, False])
def test_without_edges(unary, seed):
    energy = random_energy(seed, "table", unary, (2, 3), [])
    assert energy.edge_parameters() == []
    assert energy.strengths().shape == (0,)
    assert energy.form.edges.shape == (0, 2)
    X, p = enumerate_distribution(energy)
    first = np.bincount(X[:, 0], p)
    second = np.bincount(X[:, 1], p)
    np.testing.assert_allclose(p, np.outer(first, second).ravel(), atol=1e-14)
    if not unary:
        np.testing.assert_allclose(p, 1 / 6)
    assert energy.restricted(np.zeros(0, bool)).alive.shape == (0,)


def test_queries_go_through_tables(seed):
    energy = random_energy(seed, "table")
    X, p = enumerate_distribution(energy)
    assert isinstance(energy.factor_graph(), FactorGraph)
    found = inference.marginals(energy, method="exact").single
    for i, q in enumerate(MIXED):
        np.testing.assert_allclose(found[i], np.bincount(X[:, i], p, minlength=q), atol=1e-12)
    log_f = energy.log_potential(X)
    total = inference.log_partition(energy, method="exact").value
    assert total == pytest.approx(np.logaddexp.reduce(log_f), abs=1e-10)
    given = inference.log_partition(energy, evidence={1: 2}, method="exact").value
    assert given == pytest.approx(np.logaddexp.reduce(log_f[X[:, 1] == 2]), abs=1e-10)


NOT_BOTH = FactorGraph([2, 2, 2], [(0, 1), (2,)], [[[0.0, 0.0], [0.0, -np.inf]], [0.0, 0.0]])


@pytest.mark.parametrize("learner", ["exact", "pseudo-likelihood", "pcd"])
def test_rows_of_probability_zero(learner, seed):
    """Training cannot make them possible. A missing entry can have a possible state."""
    X = np.random.default_rng(seed).integers(2, size=(40, 3)) * [1, 0, 1]
    X[[7, 9], :2] = 1
    model = DiscreteMRF.from_energy(NOT_BOTH)
    model.set_params(warm_start=True, learner=learner, max_iter=2, random_state=0)
    for row, rows in (7, X), (9, np.where(np.arange(40)[:, None] == 7, [1, -1, 0], X)):
        message = rf"Row {row} has probability zero .* clique \(0, 1\) has a zero potential"
        with pytest.raises(ValueError, match=message):
            fit_energy(NOT_BOTH, learner, rows, max_iter=2)
        with pytest.raises(ValueError, match=message):
            model.fit(np.where(rows < 0, np.nan, rows))
    assert model.log_potentials_[0][1, 1] == -np.inf


def test_incomplete_rows_of_probability_zero():
    """No state of the missing entry is possible."""
    never = FactorGraph([2, 2], [(0, 1)], [[[0.0, 0.0], [-np.inf, -np.inf]]])
    with pytest.raises(ValueError, match=r"Row 1 has .* for the states \[1, None\]"):
        fit_energy(never, "pcd", [[0, -1], [1, -1], [0, 1]], max_iter=2)
