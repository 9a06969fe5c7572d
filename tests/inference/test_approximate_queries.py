"""Tests of approximate inference by chains, belief propagation and mean field."""

import time
import warnings

import numpy as np
import pytest
import twins
from montecarlo import check_draws, check_means
from numpy.testing import assert_allclose, assert_array_equal
from potentials import ask, assert_near, each_method, every, posterior, same, some_evidence
from zoo import FINITE, MODERATE, ZOO, enumerate_states

from skmrf import DiscreteMRF
from skmrf._utils.codes import MISSING, STATE
from skmrf.datasets import make_ising
from skmrf.energies import FactorGraph, PairwiseEnergy
from skmrf.exact.completion import Completion
from skmrf.inference import (
    log_partition,
    map_assignment,
    marginal_map,
    marginals,
    row_queries,
    sample,
)
from skmrf.inference.row_queries import row_modes
from skmrf.samplers import windows
from skmrf.variational.belief_propagation import Propagation, belief_propagation
from skmrf.variational.mean_field import clique_moments, mean_field
from skmrf.variational.tree_reweighting import tree_reweighted

TREES = ("chain", "zeros_binary", "tied_binary", "one_state", "disconnected", "isolated")
TREES += ("uniform", "single_variable")
ITERATIVE = ("bp", "bethe", "trw", "mean-field")  # may converge in the first call of the kernel
BELIEFS = {"bp": belief_propagation, "trw": tree_reweighted}


# Annealing and Gibbs chains ---------------------------------------------------------------


@pytest.mark.parametrize("name", MODERATE)
def test_log_partition_by_annealing(name, seed):
    energy = ZOO[name](seed)
    evidence, _, _, log_given = some_evidence(energy, seed)
    how = {"evidence": evidence, "random_state": seed, "n_chains": 256, "n_temperatures": 200}
    result = log_partition(energy, method="ais", **how)
    assert abs(float(result) - twins.log_sum(log_given)) < 5 * result.std_error + 1e-6
    assert result.method == "ais"


@pytest.mark.parametrize("name", [n for n in MODERATE if n != "spin_glass"])
def test_marginals_by_gibbs_sampling(name, seed):
    energy = ZOO[name](seed)
    graph = energy.factor_graph()
    evidence, states, p, _ = some_evidence(energy, seed)
    result = marginals(energy, evidence=evidence, method="gibbs", n_sweeps=400, random_state=seed)
    pairs = [
        (result.single, twins.single_marginals(states, p, energy.n_states)),
        (result.cliques, twins.clique_marginals(states, p, graph)),
    ]
    for found, expected in pairs:
        assert len(found) == len(expected)
        for table, expected_table in zip(found, expected, strict=True):
            assert table.shape == expected_table.shape
            assert_allclose(table.sum(), 1.0, rtol=1e-9)
            assert_near(table, expected_table, 256)
    for i, state in evidence.items():
        assert_array_equal(result.single[i], np.arange(energy.n_states[i]) == state)
    assert result.method == "gibbs"
    assert 0 <= result.residual < 0.04
    assert result.converged is (result.residual < 0.01)
    worst = max(np.abs(a - b).max() for a, b in zip(*pairs[0], strict=True))
    assert worst <= 6 * result.residual + 1e-12


def test_gibbs_check_rejects_another_model(seed):
    energy = ZOO["orders"](seed)
    result = marginals(energy.tempered(0.7), method="gibbs", n_sweeps=400, random_state=seed)
    expected = twins.single_marginals(*twins.distribution(energy), energy.n_states)
    found, expected = np.concatenate(result.single), np.concatenate(expected)
    with pytest.raises(AssertionError, match="sigma off"):
        assert_near(found, expected, 2000)


def test_few_gibbs_chains_have_not_converged(seed):
    few = {"n_chains": 8, "n_sweeps": 10, "n_records": 2}
    result = marginals(ZOO["grid"](seed), method="gibbs", random_state=seed, **few)
    assert result.residual > 0.02
    assert result.converged is False


@pytest.mark.parametrize("method", ["annealing", "local-search"])
@pytest.mark.parametrize("name", [*FINITE, "zeros_binary"])
def test_map_assignment_by_search(name, method, seed):
    energy = ZOO[name](seed)
    for evidence in (None, some_evidence(energy, seed)[0]):
        result = map_assignment(energy, evidence=evidence, method=method, random_state=seed)
        log_given = posterior(energy, evidence or {})[2]
        assert_allclose(result.log_potential, log_given.max(), rtol=1e-12, atol=1e-12)
        assert_allclose(energy.log_potential(result.states[None]), [result.log_potential])
        assert all(result.states[i] == s for i, s in (evidence or {}).items())
        assert result.states.dtype == STATE
        assert (result.optimal, result.method) == (False, method)


@pytest.mark.parametrize("name", ["zeros_binary", "grid", "tied_binary"])
def test_block_gibbs_with_small_windows(name, seed, monkeypatch):
    """Variables outside of the windows have exact marginals, too."""
    monkeypatch.setattr(windows, "LOG2_DRAWN", 2)
    energy = ZOO[name](seed)
    evidence, states, p, _ = some_evidence(energy, seed)
    how = {"n_chains": 256, "n_sweeps": 60, "random_state": seed}
    result = marginals(energy, evidence=evidence, method="block-gibbs", **how)
    exact = twins.single_marginals(states, p, energy.n_states)
    for found, expected in zip(result.single, exact, strict=True):
        assert_allclose(found, expected, atol=max(6 * result.residual, 0.02))
    exact = twins.clique_marginals(states, p, energy.factor_graph())
    for found, expected in zip(result.cliques, exact, strict=True):
        assert_allclose(found, expected, atol=max(6 * result.residual, 0.02))


def equal_groups(n_groups, rng):
    """Return a model whose variables are equal in groups of three, and the model of the groups."""
    pairs = [(i, j) for i in range(n_groups) for j in range(i)]
    tables = [rng.normal(0.0, 0.5, (2, 2)) for _ in pairs]
    groups = FactorGraph([2] * n_groups, pairs, tables)
    equal = np.where(np.eye(2, dtype=bool), 0.0, -np.inf)
    cliques = [(3 * i + rng.integers(3), 3 * j + rng.integers(3)) for i, j in pairs]
    same_states = [(3 * i + k, 3 * i + k + 1) for i in range(n_groups) for k in range(2)]
    tables = [*tables, *([equal] * len(same_states))]
    return FactorGraph([2] * (3 * n_groups), cliques + same_states, tables), groups


def test_automatic_chains_cross_zero_potentials(seed):
    """A single variable cannot change while the two others of its group keep their state."""
    energy, groups = equal_groups(6, np.random.default_rng(seed))
    exact = np.repeat(np.array(marginals(groups, method="exact").single), 3, axis=0)
    few = {"max_bytes": 1.0, "random_state": seed}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        result = marginals(energy, n_sweeps=50, **few)
        X = sample(energy, 400, **few)
        assert marginals(groups, n_sweeps=50, **few).method == "gibbs"
        assert marginals(energy, n_records=5, **few).method == "gibbs"
    assert result.method == "block-gibbs"
    assert_allclose(result.single, exact, atol=max(5 * result.residual, 0.02))
    check_means(X, exact[:, 1])
    assert (energy.log_potential(X) > -np.inf).all()


def test_queries_of_estimators_cross_zero_potentials(seed):
    energy, groups = equal_groups(6, np.random.default_rng(seed))
    exact = np.repeat(np.array(marginals(groups, method="exact").single), 3, axis=0)
    model = DiscreteMRF.from_energy(energy).set_params(max_bytes=1.0, random_state=seed)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        X, row = model.sample(400), np.full((1, 18), MISSING)
        found = row_queries.row_marginals(energy, row, max_bytes=1.0, rng=seed)
    check_means(X, exact[:, 1])
    with pytest.raises(AssertionError, match="sigma off"):
        check_means(X, exact[:, 0])
    assert_near(np.concatenate(found), exact, row_queries.FEW_BLOCKS["n_chains"])


def test_averages_before_the_time_limit_are_kept(seed, monkeypatch):
    energy, record, done = ZOO["zeros_binary"](seed), windows.BlockPath.record, []

    def stop(path, *how):
        if len(done) == 2:
            raise TimeoutError
        done.append(record(path, *how))
        return done[-1]

    monkeypatch.setattr(windows.BlockPath, "record", stop)
    how = {"method": "block-gibbs", "n_chains": 64, "random_state": seed}
    assert marginals(energy, **how).n_iter == 2 * 64


def test_automatic_method_ends_in_time(seed):
    """If exact inference does not end in time, the results are those of chains."""
    energy = make_ising("grid", n_variables=100, coupling=0.4, random_state=seed)
    how = {"random_state": seed, "time_limit": 0.0}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        assert marginals(energy, **how).method == "gibbs"
        assert marginals(equal_groups(9, np.random.default_rng(seed))[0], **how).method == "gibbs"
        assert sample(energy, 3, **how).shape == (3, 100)
        groups = equal_groups(9, np.random.default_rng(seed))[0]
        assert not log_partition(groups, max_bytes=1.0, **how).converged
        assert map_assignment(energy, **how).method == "local-search"


def test_local_search_finds_the_mode_of_a_frustrated_grid(seed, monkeypatch):
    """Windows of narrow tables find the mode of a spin glass with 100 variables."""
    monkeypatch.setattr(windows, "LOG2_TABLE", (6, 8))
    energy = make_ising(
        "grid", n_variables=100, coupling=2.0, mixed_signs=True, field=0.5, random_state=seed
    )
    best = map_assignment(energy, method="exact").log_potential
    few = {"n_chains": 8, "n_sweeps": 5, "random_state": seed}
    annealed = map_assignment(energy, method="annealing", **few).log_potential
    found = map_assignment(energy, method="local-search", n_windows=30, **few).log_potential
    assert annealed <= found <= best + 1e-9
    assert best - found <= 0.5 * (best - annealed)


@each_method
def test_time_limit(query, method, seed):
    """A time limit of zero seconds stops every method early, or raises a TimeoutError."""
    energy = make_ising("grid", n_variables=100, coupling=0.4, random_state=seed)
    how = {"method": method, "random_state": seed, "time_limit": 0.0}
    began = time.process_time()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        if method in ("exact", "bpchain", "block-gibbs"):
            with pytest.raises(TimeoutError, match="did not end within time_limit"):
                ask(query, energy, **how)
        else:
            result = ask(query, energy, **how)
            assert method in ITERATIVE or not getattr(result, "converged", False)
    assert time.process_time() - began < 5.0
    with pytest.raises(ValueError, match="time_limit"):
        ask(query, energy, method=method, time_limit=-1.0)


@pytest.mark.parametrize("name", ["chain", "orders", "zero_one", "tied", "zeros_binary"])
def test_sample_by_gibbs_sampling(name, seed):
    energy = ZOO[name](seed)
    evidence, states, p, _ = some_evidence(energy, seed)
    how = {"evidence": evidence, "method": "gibbs", "n_sweeps": 200, "random_state": seed}
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        X = sample(energy, 3000, **how)
    assert X.dtype == STATE
    check_draws(X, states, p)


# Belief propagation, mean field and chains ------------------------------------------------


def check_marginals(result, energy, evidence, expected, atol):
    """Check shapes, observed variables, and agreement with (single, cliques)."""
    graph = energy.factor_graph()
    for found, tables in zip((result.single, result.cliques), expected, strict=True):
        assert len(found) == len(tables)
        for table, expected_table in zip(found, tables, strict=True):
            assert table.shape == np.shape(expected_table)
            assert table.min() >= 0
            assert_allclose(table.sum(), 1.0, rtol=1e-9)
            assert_allclose(table, expected_table, rtol=0, atol=atol)
    for i, state in evidence.items():
        assert_array_equal(result.single[i], np.arange(energy.n_states[i]) == state)
    for clique, table in zip(graph.cliques, result.cliques, strict=True):
        possible = tuple(evidence.get(v, slice(None)) for v in clique)
        assert_allclose(table[possible].sum(), 1.0, rtol=1e-9)


def exact_marginals(energy, states, p):
    return (
        twins.single_marginals(states, p, energy.n_states),
        twins.clique_marginals(states, p, energy.factor_graph()),
    )


@pytest.mark.parametrize("method", ["bp", "trw"])
@pytest.mark.parametrize("name", TREES)
def test_marginals_of_trees(name, method, seed):
    energy = ZOO[name](seed)
    for schedule in ("sequential", "residual", "flooding"):
        for given in (False, True):
            evidence = some_evidence(energy, seed)[0] if given else {}
            states, p, _ = posterior(energy, evidence)
            result = marginals(energy, evidence=evidence, method=method, schedule=schedule)
            check_marginals(result, energy, evidence, exact_marginals(energy, states, p), 1e-8)
            assert result.converged
            assert result.method == method


@pytest.mark.parametrize("method", ["bp", "trw"])
@every
def test_marginals_are_the_beliefs_of_the_conditioned_model(name, method, seed):
    """Marginals given evidence equal the beliefs of the conditioned model."""
    energy = ZOO[name](seed)
    evidence = some_evidence(energy, seed)[0]
    how = {"damping": 0.5, "max_iter": 2000}
    result = marginals(energy, evidence=evidence, method=method, **how)
    graph = energy.factor_graph()
    row = np.full(graph.n_variables, MISSING, dtype=STATE)
    for i, state in evidence.items():
        row[i] = state
    found = BELIEFS[method](graph, Propagation(**how), evidence=row)
    found = getattr(found, "beliefs", found)
    single = np.split(found.single, np.cumsum(graph.n_states))[:-1]
    expected = (single, graph.layout.untied().split(found.cliques))
    check_marginals(result, energy, evidence, expected, 0.0)
    assert result.converged == found.converged == (result.residual <= 1e-8)
    assert result.n_iter == found.n_iter
    if method == "bp" and result.converged:
        conditional = energy.condition(evidence)
        found = belief_propagation(conditional.factor_graph(), Propagation(**how))
        free = [i for i in range(energy.n_variables) if i not in evidence]
        left = np.concatenate([*(result.single[i] for i in free), np.zeros(0)])
        if found.converged and name in ("grid", "cycle", "complete", "zero_one", "tied"):
            assert_allclose(left, found.single, rtol=0, atol=1e-5)


@every
def test_marginals_by_mean_field(name, seed):
    """Mean-field marginals are those of the conditioned model, and cliques are their products."""
    energy = ZOO[name](seed)
    graph = energy.factor_graph()
    for evidence in ({}, some_evidence(energy, seed)[0]):
        result = marginals(energy, evidence=evidence, method="mean-field")
        found = mean_field(energy.condition(evidence).factor_graph())
        free = [i for i in range(energy.n_variables) if i not in evidence]
        left = np.concatenate([*(result.single[i] for i in free), np.zeros(0)])
        assert_array_equal(left, found.single)
        flat = np.concatenate([*result.single, np.zeros(0)])
        untied = graph.layout.untied()
        cliques = untied.split(clique_moments(graph, flat, untied))
        check_marginals(result, energy, evidence, (result.single, cliques), 1e-12)
        for clique, table in zip(graph.cliques, result.cliques, strict=True):
            product = np.ones(())
            for v in clique:
                product = np.multiply.outer(product, result.single[v])
            assert_allclose(table, product, rtol=0, atol=1e-12)
        assert (result.method, result.converged) == ("mean-field", found.converged)
        assert (result.n_iter, result.residual) == (found.n_iter, found.residual)


@pytest.mark.parametrize(
    ("name", "conditionals"),
    [(name, "auto") for name in (*MODERATE, "zeros_binary", "zeros")]
    + [(name, "bp") for name in ("cycle", "zeros")]
    + [pytest.param(name, "bp", marks=pytest.mark.long) for name in ("orders", "tied", "isolated")],
)
def test_marginals_by_chained_propagation(name, conditionals, seed):
    """Weighted draws are within five of the reported standard errors."""
    energy = ZOO[name](seed)
    how = {"conditionals": conditionals, "n_samples": 10_000, "random_state": seed}
    for evidence in ({}, some_evidence(energy, seed)[0]):
        states, p, _ = posterior(energy, evidence)
        result = marginals(energy, evidence=evidence, method="bpchain", **how)
        expected = exact_marginals(energy, states, p)
        check_marginals(result, energy, evidence, expected, 5 * result.residual + 1e-3)
        assert (result.method, result.n_iter) == ("bpchain", 10_000)
        assert 1e-4 - 1e-12 <= result.residual < 0.2
        assert result.converged is (result.residual < 0.01)
        if conditionals == "auto":
            assert result.converged


def test_chained_propagation_check_rejects_another_model(seed):
    energy = ZOO["orders"](seed)
    how = {"n_samples": 10_000, "random_state": seed}
    result = marginals(energy.tempered(0.7), method="bpchain", **how)
    expected = exact_marginals(energy, *twins.distribution(energy))
    with pytest.raises(AssertionError, match="Not equal to tolerance"):
        check_marginals(result, energy, {}, expected, 5 * result.residual + 1e-3)


def test_few_weighted_draws_have_not_converged(seed):
    """Few draws have not converged, even if they all agree."""
    for n_samples in (1, 5, 100):
        result = marginals(
            ZOO["grid"](seed), method="bpchain", n_samples=n_samples, random_state=seed
        )
        assert result.residual >= 1 / n_samples
        assert result.converged is False


@pytest.mark.parametrize("n_samples", [0, -3, 2.5, "many"])
def test_invalid_number_of_weighted_draws_raises(n_samples):
    with pytest.raises(ValueError, match=r"^n_samples must be an integer"):
        marginals(ZOO["chain"](0), method="bpchain", n_samples=n_samples)


@pytest.mark.parametrize("method", ["bp", "trw", "mean-field"])
def test_propagation_reports_that_it_has_not_converged(method, seed):
    result = marginals(ZOO["spin_glass"](seed), method=method, max_iter=1)
    assert result.converged is False
    assert result.residual > 1e-8
    assert result.n_iter == 1


@pytest.mark.parametrize("name", ["chain", "orders", "zero_one", "zeros_binary", "zeros"])
def test_sample_by_chained_propagation(name, seed):
    """Test exact conditionals, and beliefs with Metropolis steps and a clip."""
    energy = ZOO[name](seed)
    evidence, states, p, _ = some_evidence(energy, seed)
    for options in ({}, {"conditionals": "bp", "n_steps": 50, "clip": 1e-2}):
        how = {"evidence": evidence, "method": "bpchain", "random_state": seed, **options}
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            X = sample(energy, 3000, **how)
        assert X.dtype == STATE
        assert X.shape == (3000, energy.n_variables)
        check_draws(X, states, p)


def test_chained_samples_are_biased_without_steps():
    """Negative control: without Metropolis steps, samples of a model with loops are biased."""
    energy = make_ising("complete", n_variables=6, coupling=0.25, field=0.1)
    states, p = twins.distribution(energy)
    how = {"method": "bpchain", "conditionals": "bp", "order": "index", "random_state": 0}
    with pytest.raises(AssertionError, match="was drawn"):
        check_draws(sample(energy, 20_000, **how), states, p)
    check_draws(sample(energy, 20_000, n_steps=50, **how), states, p)


@pytest.mark.parametrize("n_steps", [-1, 1.5, None])
def test_invalid_number_of_steps_raises(n_steps):
    with pytest.raises(ValueError, match=r"^n_steps must be an integer"):
        sample(ZOO["chain"](0), 5, method="bpchain", n_steps=n_steps)


def test_chained_samples_of_probability_zero_warn(seed):
    """Clipped conditionals can draw impossible states, which causes a warning."""
    how = {"method": "bpchain", "conditionals": "bp", "clip": 0.3, "random_state": seed}
    with pytest.warns(UserWarning, match=r"of 200 draws have probability zero") as caught:
        sample(ZOO["zeros_binary"](seed), 200, **how)
    assert caught[0].filename == __file__


@pytest.mark.parametrize("name", [*TREES, "huge"])
def test_map_assignment_by_decimation(name, seed):
    """Decimation finds a mode of trees, and reports consistent results for graphs with loops."""
    energy = ZOO[name](seed)
    for evidence in ({}, some_evidence(energy, seed)[0]):
        result = map_assignment(energy, evidence=evidence, method="decimation")
        assert all(result.states[i] == s for i, s in evidence.items())
        assert result.states.dtype == STATE
        assert_allclose(energy.log_potential(result.states[None]), [result.log_potential])
        assert (result.optimal, result.method) == (False, "decimation")
        if name in TREES:
            log_given = posterior(energy, evidence)[2]
            assert_allclose(result.log_potential, log_given.max(), rtol=1e-12, atol=1e-9)


@pytest.mark.parametrize("name", ["grid", "cycle", "zeros", "orders", "complete"])
def test_decimation_with_loops(name, seed):
    """Decimation finds a possible state in the upper quartile on graphs with loops."""
    energy = ZOO[name](seed)
    log_f = enumerate_states(energy)[1]
    result = map_assignment(energy, method="decimation")
    assert result.log_potential > np.quantile(log_f, 0.75, method="lower")


def marginal_log_sums(energy, variables, evidence):
    """Return the log sum of every joint state of the variables, keyed by state."""
    states, _, log_given = posterior(energy, evidence)
    sums = {}
    for x, value in zip(states[:, variables].tolist(), log_given, strict=True):
        sums.setdefault(tuple(x), []).append(value)
    return {x: twins.log_sum(np.array(values)) for x, values in sums.items()}


@pytest.mark.parametrize("method", ["auto", "exact"])
@every
def test_marginal_map(name, method, seed):
    energy = ZOO[name](seed)
    rng = np.random.default_rng(seed)
    for evidence in ({}, some_evidence(energy, seed)[0]):
        variables = np.flatnonzero(rng.random(energy.n_variables) < 0.5)
        result = marginal_map(energy, variables, evidence=evidence, method=method)
        sums = marginal_log_sums(energy, variables, evidence)
        assert_allclose(result.log_potential, max(sums.values()), rtol=1e-13, atol=1e-12)
        best = sums[tuple(result.states[variables].tolist())]
        assert_allclose(best, result.log_potential, rtol=1e-13, atol=1e-12)
        others = np.setdiff1d(np.arange(energy.n_variables), [*variables, *evidence])
        assert (result.states[others] == MISSING).all()
        assert all(result.states[i] == s for i, s in evidence.items())
        assert (result.optimal, result.method) == (True, "exact")


@pytest.mark.parametrize("name", TREES)
def test_marginal_map_by_propagation(name, seed):
    """On trees the value is exact; if all or no variables are maximised, the state is exact too."""
    energy = ZOO[name](seed)
    rng = np.random.default_rng(seed)
    n = energy.n_variables
    for evidence in ({}, some_evidence(energy, seed)[0]):
        for variables in (np.arange(n), np.arange(0), np.flatnonzero(rng.random(n) < 0.5)):
            result = marginal_map(energy, variables, evidence=evidence, method="bp")
            sums = marginal_log_sums(energy, variables, evidence)
            value = sums[tuple(result.states[variables].tolist())]
            assert_allclose(result.log_potential, value, rtol=1e-12, atol=1e-9)
            if len(variables) in (0, n):
                assert_allclose(value, max(sums.values()), rtol=1e-12, atol=1e-9)
            assert (result.optimal, result.method) == (False, "bp")
            others = np.setdiff1d(np.arange(n), [*variables, *evidence])
            assert (result.states[others] == MISSING).all()


def test_marginal_map_by_propagation_with_summed_leaves(seed):
    """Mixed-product propagation is exact for a maximised chain with a summed leaf per variable."""
    rng = np.random.default_rng(seed)
    cliques = [(i, i + 1) for i in range(3)] + [(i, i + 4) for i in range(4)]
    graph = FactorGraph([3] * 8, cliques, rng.normal(0.0, 1.5, size=7 * 9))
    for evidence in ({}, {5: 2}, {1: 0, 6: 1}):
        result = marginal_map(graph, range(4), evidence=evidence, method="bp")
        sums = marginal_log_sums(graph, list(range(4)), evidence)
        assert_allclose(result.log_potential, max(sums.values()), rtol=1e-12)


def test_marginal_map_falls_back_to_propagation():
    energy = ZOO["grid"](0)
    result = marginal_map(energy, range(3), max_bytes=100, damping=0.5)
    assert result.method == "bp"
    assert same(result, marginal_map(energy, range(3), method="bp", damping=0.5))
    with pytest.raises(ValueError, match=r"^Exact inference needs \S+ bytes"):
        marginal_map(energy, range(3), method="exact", max_bytes=100)


@pytest.mark.parametrize("variables", [[6], [-1], ["x"], [0.0], [True]])
def test_invalid_variables_of_marginal_map_raise(variables):
    with pytest.raises(ValueError) as caught:
        marginal_map(ZOO["chain"](0), variables)
    assert str(caught.value) == (
        f"variables contains {variables[0]!r}, but variable indices are 0 to 5."
    )


@each_method
def test_pairwise_energy_and_factor_graph_agree(query, method, seed):
    """A pairwise energy and its factor graph give equal results, with and without evidence."""
    energy = ZOO["zero_one"](seed)
    assert isinstance(energy, PairwiseEnergy)
    for evidence in ({}, {1: 1, 4: 0}):
        how = {"evidence": evidence, "method": method, "random_state": seed}
        one, two = ask(query, energy, **how), ask(query, energy.factor_graph(), **how)
        if query is sample:
            assert_array_equal(one, two)
        elif query is log_partition:
            assert_allclose(one.value, two.value, rtol=1e-9)
        elif query is marginals:
            for left, right in zip(one.single + one.cliques, two.single + two.cliques, strict=True):
                assert_allclose(left, right, rtol=0, atol=1e-9)
        else:
            assert_array_equal(one.states, two.states)


def test_marginals_warn_if_gibbs_chains_have_not_converged(seed):
    """The two modes have different probabilities, and chains stay in one of them."""
    coupling = np.full((100, 100), 0.05)
    np.fill_diagonal(coupling, 0.0)
    energy = PairwiseEnergy(coupling, np.full(100, 0.01))
    with pytest.warns(UserWarning, match="averages over Gibbs chains"):
        found = marginals(energy, random_state=seed, max_bytes=1e6)
    assert not found.converged


def test_mean_field_rejects_evidence_that_leaves_no_state():
    unequal = np.array([[-np.inf, 0.0], [0.0, -np.inf]])
    graph = FactorGraph([2, 2, 2], [(0, 1), (1, 2)], [unequal, unequal])
    with pytest.raises(ValueError, match="has probability zero"):
        marginals(graph, evidence={0: 0, 2: 1}, method="mean-field")
    loop = FactorGraph([2, 2, 2], [(0, 1), (1, 2), (0, 2)], [unequal] * 3)
    assert not log_partition(loop, method="mean-field").converged


# Rows with missing entries -----------------------------------------------------------------


@pytest.mark.parametrize("seed", range(3))
def test_modes_of_rows_with_many_missing_entries(monkeypatch, seed):
    """The search finds the mode of 25 and of 35 columns; no state of annealing is better."""
    rng = np.random.default_rng(seed)
    coupling = np.triu(rng.normal(0.0, 0.2, (60, 60)), 1)
    graph = PairwiseEnergy(coupling + coupling.T, rng.normal(size=60)).factor_graph()
    X = rng.integers(2, size=(3, 60)).astype(STATE)
    X[0, 10:35] = X[1, :35] = X[2, 25:] = MISSING
    assert not Completion(graph).modes(X)[0].any()
    assert Completion(graph).modes(X, many=True)[0].all()
    with monkeypatch.context() as patch:
        patch.setattr(row_queries.gibbs_queries, "anneal", None)
        patch.setattr(row_queries, "_run_elimination", None)
        modes = row_modes(graph, X, rng=rng)
    assert (modes[X != MISSING] == X[X != MISSING]).all()
    monkeypatch.setattr(Completion, "modes", lambda _, X, **__: (np.zeros(len(X), bool), X))
    monkeypatch.setattr(row_queries, "max_quick_entries", lambda: 0)
    annealed = graph.log_potential(row_modes(graph, X, rng=rng))
    assert (graph.log_potential(modes) >= annealed - 1e-9).all()


def test_slow_elimination_serves_some_rows_of_a_pattern(monkeypatch):
    """Quick elimination does not use up the time of slow elimination."""
    monkeypatch.setattr(row_queries, "max_quick_entries", lambda: 10 * row_queries.QUICK_ENTRIES)
    quick, slow = 0.5 * row_queries.QUICK_ENTRIES, 3.0 * row_queries.QUICK_ENTRIES
    patterns = [(slow, "slow", np.arange(5)), (quick, "quick", np.arange(100)), (np.inf, "", [7])]
    patterns.append((slow + quick, "slower", [8]))
    plan = [(name, list(rows), exact) for name, rows, exact in row_queries._plan_rows(patterns)]
    assert plan[0] == ("quick", list(range(100)), True)
    assert plan[1:3] == [("slow", [0, 1, 2], True), ("slow", [3, 4], False)]
    assert plan[3:] == [("slower", [8], False), ("", [7], False)]
    unlimited = list(row_queries._plan_rows(patterns, is_limited=False))
    assert [exact for *_, exact in unlimited] == [True, True, True, False]
    shared = list(row_queries._plan_rows(patterns[:1], is_shared=True))
    assert [(len(rows), exact) for _, rows, exact in shared] == [(5, True)]
