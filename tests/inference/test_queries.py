"""Tests of inference: shared options, exact results, and rows with missing entries."""

import inspect
import re
import warnings
from functools import partial

import numpy as np
import pytest
import twins
from montecarlo import check_draws
from numpy.testing import assert_allclose, assert_array_equal
from potentials import (
    METHODS,
    ask,
    assert_near,
    each_method,
    every,
    posterior,
    same,
    some_evidence,
)
from zoo import ZOO, enumerate_states

from skmrf import DiscreteMRF, inference
from skmrf._utils.codes import MISSING, STATE
from skmrf.datasets import make_ising
from skmrf.energies import FactorGraph, PairwiseEnergy
from skmrf.exact import elimination
from skmrf.inference import (
    log_partition,
    map_assignment,
    marginal_map,
    marginals,
    row_queries,
    sample,
)
from skmrf.inference.row_queries import row_log_partitions, row_marginals, row_modes, row_samples
from skmrf.likelihood.bounds import exact_entries

QUERIES = (log_partition, marginals, map_assignment, sample)
APPROXIMATE = {
    log_partition: ("ais", {"n_chains": 64, "n_temperatures": 200}),
    marginals: ("gibbs", {"n_chains": 64, "n_sweeps": 100}),
    map_assignment: ("local-search", {"n_chains": 16, "n_sweeps": 100}),
    sample: ("gibbs", {"n_sweeps": 100}),
}
all_queries = pytest.mark.parametrize("query", QUERIES, ids=lambda q: q.__name__)


@all_queries
def test_auto_falls_back_to_approximate_inference(query, seed):
    energy = ZOO["grid"](seed)
    approximate, options = APPROXIMATE[query]
    how = {"max_bytes": 100, "evidence": {0: 1}, "random_state": seed, **options}
    if query is sample:
        message = r"^Exact sampling needs too much memory or time\. The samples are states of Gibbs"
        with pytest.warns(UserWarning, match=message) as caught:
            result = sample(energy, 20, **how)
        assert caught[0].filename == __file__
    else:
        result = ask(query, energy, **how)
        assert result.method == approximate
    assert same(result, ask(query, energy, method=approximate, **how))
    message = r"^Exact inference needs \S+ bytes \(largest table 2\^\d+\.\d entries\), more than "
    with pytest.raises(ValueError, match=message + r"max_bytes=100\."):
        ask(query, energy, method="exact", max_bytes=100)


@all_queries
def test_exact_inference_beyond_memory_raises(query):
    energy = make_ising("complete", n_variables=120, coupling=0.01)
    message = (
        r"^Exact inference needs at least 1\.063e\+37 bytes \(largest table 2\^120\.0 entries\)"
    )
    with pytest.raises(ValueError, match=message):
        ask(query, energy, method="exact")


@all_queries
def test_random_state_makes_results_reproducible(query, seed):
    energy = ZOO["orders"](seed)
    approximate, options = APPROXIMATE[query]
    how = {"method": approximate, "evidence": {3: 2}, **options}
    first = ask(query, energy, random_state=seed, **how)
    assert same(first, ask(query, energy, random_state=seed, **how))
    assert same(first, ask(query, energy, random_state=seed, n_jobs=2, **how))
    generator = np.random.default_rng(seed)
    assert same(first, ask(query, energy, random_state=generator, **how))
    if query is not map_assignment:
        assert not same(first, ask(query, energy, random_state=seed + 1, **how))


def test_random_state_makes_exact_samples_reproducible(seed):
    energy = ZOO["orders"](seed)
    first = sample(energy, 50, random_state=seed)
    assert_array_equal(first, sample(energy, 50, random_state=seed))
    assert_array_equal(first[:20], sample(energy, 20, random_state=seed))
    assert not np.array_equal(first, sample(energy, 50, random_state=seed + 1))


@all_queries
@pytest.mark.parametrize(
    ("evidence", "message"),
    [
        ({5: 0}, "Evidence names variable 5, but the variables are 0 to 4."),
        ({-1: 0}, "Evidence names variable -1, but the variables are 0 to 4."),
        ({"x": 0}, "Evidence names variable 'x', but the variables are 0 to 4."),
        ({0.0: 0}, "Evidence names variable 0.0, but the variables are 0 to 4."),
        ({3: 4}, "Evidence gives variable 3 the state 4, but its states are 0 to 3."),
        ({3: -1}, "Evidence gives variable 3 the state -1, but its states are 0 to 3."),
        ({3: 1.0}, "Evidence gives variable 3 the state 1.0; its states are integers, 0 to 3."),
        ({3: None}, "Evidence gives variable 3 the state None; its states are integers, 0 to 3."),
        ([(3, 1)], "evidence must be a dict from variables to states, or None; got list."),
        ("3", "evidence must be a dict from variables to states, or None; got str."),
    ],
)
def test_invalid_evidence_raises(query, evidence, message):
    with pytest.raises(ValueError) as caught:
        ask(query, ZOO["orders"](0), evidence=evidence)
    assert str(caught.value) == message


@pytest.mark.parametrize("max_bytes", [-1, np.nan])
def test_invalid_max_bytes_raises(max_bytes):
    with pytest.raises(ValueError, match="max_bytes must be a number of bytes, at least 0; got"):
        inference.log_partition(ZOO["orders"](0), max_bytes=max_bytes)
    inference.log_partition(ZOO["orders"](0), max_bytes=np.inf)


@pytest.mark.parametrize("query", METHODS, ids=lambda q: q.__name__)
def test_unknown_method_raises(query):
    with pytest.raises(ValueError) as caught:
        ask(query, ZOO["chain"](0), method="junction tree")
    names = sorted(("auto", *METHODS[query]))
    assert str(caught.value) == f"method must be one of {names}; got 'junction tree'."


@each_method
def test_unknown_option_raises(query, method):
    """Unknown options raise; "auto" accepts only the options of its fallback."""
    with pytest.raises(TypeError) as caught:
        ask(query, ZOO["chain"](0), method=method, n_epochs=3)
    known = METHODS[query][method]
    assert str(caught.value) == (
        f"method={method!r} has no option 'n_epochs'; its options are {known or 'none'}."
    )
    with pytest.raises(TypeError, match="method='auto' has no option 'n_epochs'; its options are "):
        ask(query, ZOO["chain"](0), n_epochs=3)


IMPOSSIBLE = {0: 1, 3: 0}  # impossible in a chain of implications


@pytest.mark.parametrize("query", [marginals, map_assignment, sample], ids=lambda q: q.__name__)
def test_impossible_evidence_raises(query):
    message = re.escape(
        "The evidence of row 0 has probability zero under the model, so conditional "
        "probabilities are undefined. Change the evidence, or replace zero potentials by small "
        "positive ones."
    )
    with pytest.raises(ValueError, match=f"^{message}$"):
        ask(query, ZOO["zeros_binary"](0), evidence=IMPOSSIBLE)


@pytest.mark.parametrize("query", [marginals, sample], ids=lambda q: q.__name__)
def test_impossible_evidence_raises_in_gibbs_chains(query, seed):
    how = {"evidence": IMPOSSIBLE, "random_state": seed, "n_sweeps": 50}
    with pytest.raises(ValueError, match=r"^None of \d+ Gibbs chains found a state of positive"):
        ask(query, ZOO["zeros_binary"](seed), method="gibbs", **how)


@pytest.mark.parametrize("method", ["bp", "trw"])
def test_impossible_evidence_raises_in_belief_propagation(method):
    """Belief propagation raises if its messages prove that the evidence is impossible."""
    refused = pytest.raises(elimination.ImpossibleEvidence, match="evidence of row 0 has prob")
    with refused:
        marginals(ZOO["zeros_binary"](0), evidence=IMPOSSIBLE, method=method)


def test_impossible_evidence_raises_in_decimation():
    with pytest.raises(elimination.ImpossibleEvidence, match="evidence of row 0 has prob"):
        map_assignment(ZOO["zeros_binary"](0), evidence=IMPOSSIBLE, method="decimation")
    for method in ("exact", "bp"):
        with pytest.raises(elimination.ImpossibleEvidence, match="evidence of row 0 has prob"):
            marginal_map(ZOO["zeros_binary"](0), [1, 4], evidence=IMPOSSIBLE, method=method)


@pytest.mark.parametrize("conditionals", ["auto", "bp"])
@pytest.mark.parametrize("query", [marginals, sample], ids=lambda q: q.__name__)
def test_impossible_evidence_raises_in_chained_propagation(query, conditionals, seed):
    how = {"evidence": IMPOSSIBLE, "random_state": seed, "conditionals": conditionals}
    with pytest.raises(ValueError, match=r"^None of \d+ draws has a positive probability"):
        ask(query, ZOO["zeros_binary"](seed), method="bpchain", **how)


@pytest.mark.parametrize("evidence", [{0: 0, 1: 0}, {0: 1, 1: 0, 2: 0}])
def test_impossible_evidence_raises_in_mean_field(evidence):
    """Mean field raises if a table has no possible entry."""
    graph = FactorGraph(
        [2, 2, 2], [(0, 1), (1, 2)], [[[-np.inf, 0], [0, 0]], [[-np.inf, 0], [0, 0]]]
    )
    with pytest.raises(elimination.ImpossibleEvidence):
        marginals(graph, evidence=evidence, method="mean-field")


def test_order_of_draws_with_evidence(seed):
    """An order names all variables of the model; observed variables are left out."""
    graph = ZOO["grid"](0).factor_graph()
    how = {"method": "bpchain", "conditionals": "bp", "random_state": seed}
    evidence = {2: 1, 5: 0}
    conditional = graph.condition(evidence)
    order = np.random.default_rng(seed).permutation(9)
    conditional_order = [
        {0: 0, 1: 1, 3: 2, 4: 3, 6: 4, 7: 5, 8: 6}[i] for i in order if i not in evidence
    ]
    X = sample(graph, 20, evidence=evidence, order=order.tolist(), **how)
    assert_array_equal(
        X[:, [0, 1, 3, 4, 6, 7, 8]], sample(conditional, 20, order=conditional_order, **how)
    )
    value = log_partition(graph, evidence=evidence, order=order, n_samples=50, **how)
    assert value == log_partition(conditional, order=conditional_order, n_samples=50, **how)
    found = marginals(graph, evidence=evidence, order=order, n_samples=50, **how)
    assert_array_equal(
        found.single[8],
        marginals(conditional, order=conditional_order, n_samples=50, **how).single[6],
    )
    for query in (partial(sample, n_samples=3), marginals, log_partition):
        with pytest.raises(ValueError, match="name each of the 9 variables once"):
            query(graph, evidence=evidence, order=conditional_order, **how)


def test_invalid_chain_settings_raise():
    with pytest.raises(
        TypeError, match=r"settings must be a skmrf\.samplers\.chained_bp\.ChainSettings; got 'bp'"
    ):
        log_partition(ZOO["grid"](0), method="bpchain", settings="bp")


@pytest.mark.parametrize("variables", [5, None])
def test_scalar_variables_of_marginal_map_raise(variables):
    with pytest.raises(TypeError, match=f"variables must be a sequence .*; got {variables}"):
        marginal_map(ZOO["grid"](0), variables)


def test_log_partition_of_impossible_evidence(seed):
    graph = ZOO["zeros_binary"](seed)
    assert log_partition(graph, evidence=IMPOSSIBLE).value == -np.inf
    with pytest.warns(UserWarning, match="zero potentials"):
        result = log_partition(graph, evidence=IMPOSSIBLE, method="ais", random_state=seed)
    assert (result.lower, result.upper, result.converged) == (-np.inf, np.inf, False)


@pytest.mark.parametrize("method", ["local-search", "annealing", "decimation"])
def test_mode_of_an_impossible_model_raises(method, seed):
    """Two colours cannot colour a triangle, but each table alone is possible."""
    differ = np.where(np.eye(2), -np.inf, 0.0)
    graph = FactorGraph([2, 2, 2], [(0, 1), (1, 2), (0, 2)], [differ] * 3)
    with pytest.raises(ValueError, match=r"no state of positive|probability zero"):
        map_assignment(graph, method=method, random_state=seed)


@pytest.mark.parametrize("name", ["orders", "zero_one", "constant_variables"])
@all_queries
def test_all_variables_observed(query, name, seed):
    """All methods are exact if all variables are observed."""
    energy = ZOO[name](seed)
    states, p = twins.distribution(energy)
    x = states[np.argmax(p)]
    evidence = dict(enumerate(x.tolist()))
    value = energy.log_potential(x[None])[0]
    for method in METHODS[query]:
        result = ask(query, energy, evidence=evidence, method=method, random_state=seed)
        if query is log_partition:
            limits = [v for v in (result.lower, result.upper) if np.isfinite(v)]
            assert_allclose([result.value, *limits], value, rtol=1e-12)
        elif query is marginals:
            for i, table in enumerate(result.single):
                assert_array_equal(table, np.arange(energy.n_states[i]) == x[i])
            assert all(np.isclose(t.max(), 1.0) for t in result.cliques)
            assert result.converged
        elif query is map_assignment:
            assert_array_equal(result.states, x)
            assert_allclose(result.log_potential, value, rtol=1e-12)
        else:
            assert_array_equal(result, np.repeat(x[None], 20, axis=0))


@all_queries
def test_evidence_of_numpy_integers(query, seed):
    energy = ZOO["orders"](seed)
    how = {"random_state": seed}
    plain = ask(query, energy, evidence={1: 2, 3: 0}, **how)
    scalars = {np.int64(3): np.int16(0), np.int32(1): np.uint8(2)}
    assert same(plain, ask(query, energy, evidence=scalars, **how))


@all_queries
def test_inference_does_not_modify_inputs(query, seed):
    energy = ZOO["zero_one"](seed)
    for array in energy.theta.values():
        array.flags.writeable = False
    evidence = {1: 1}
    options = dict([APPROXIMATE[query]])
    for method in ("auto", *METHODS[query]):
        how = options.get(method, {})
        ask(query, energy, evidence=evidence, random_state=0, method=method, **how)
    assert evidence == {1: 1}


@pytest.mark.parametrize("n_samples", [0, -1, 2.0, True, None])
def test_invalid_number_of_samples_raises(n_samples):
    with pytest.raises(ValueError, match=r"^n_samples must be an integer"):
        sample(ZOO["chain"](0), n_samples)


def test_one_sample(seed):
    assert sample(ZOO["chain"](seed), 1, random_state=seed).shape == (1, 6)
    assert sample(ZOO["chain"](seed), np.int64(1), method="gibbs", n_sweeps=1).shape == (1, 6)


@all_queries
def test_no_variables(query, seed):
    constant = FactorGraph([], [()], [1.5])
    for method in METHODS[query]:
        result = ask(query, constant, method=method, random_state=seed)
        if query is log_partition:
            assert float(result) == 1.5
        elif query is map_assignment:
            assert (result.states.shape, result.log_potential) == ((0,), 1.5)
        elif query is marginals:
            assert result.single == []
            assert_allclose(result.cliques[0], 1.0, rtol=1e-12)
        else:
            assert result.shape == (20, 0)


@all_queries
def test_signatures(query):
    """All parameters except the energy and the number of samples are keyword-only."""
    parameters = inspect.signature(query).parameters
    positional = [p for p in parameters.values() if p.kind == p.POSITIONAL_OR_KEYWORD]
    assert [p.name for p in positional] == ["energy"] + ["n_samples"] * (query is sample)
    defaults = {k: p.default for k, p in parameters.items() if p.kind == p.KEYWORD_ONLY}
    assert defaults == {
        "evidence": None,
        "method": "auto",
        "max_bytes": 4 * 2**30,
        "time_limit": None,
        "random_state": None,
    }


def test_public_names():
    for query in QUERIES:
        assert query.__name__ in inference.__all__
        assert getattr(inference, query.__name__) is query


# Exact inference --------------------------------------------------------------------------


@pytest.mark.parametrize("method", ["auto", "exact"])
@every
def test_log_partition(name, method, seed):
    energy = ZOO[name](seed)
    for evidence in (None, {}, some_evidence(energy, seed)[0]):
        result = log_partition(energy, evidence=evidence, method=method)
        expected = twins.log_sum(posterior(energy, evidence or {})[2])
        assert_allclose(float(result), expected, rtol=1e-13, atol=1e-12)
        assert (result.lower, result.upper) == (result.value, result.value)
        assert (result.std_error, result.method) == (0.0, "exact")
        assert result.converged
        assert result.upper_is_bound


@pytest.mark.parametrize("method", ["auto", "exact"])
@every
def test_marginals(name, method, seed):
    energy = ZOO[name](seed)
    graph = energy.factor_graph()
    for evidence in (None, some_evidence(energy, seed)[0]):
        result = marginals(energy, evidence=evidence, method=method)
        states, p, _ = posterior(energy, evidence or {})
        expected = twins.single_marginals(states, p, energy.n_states)
        assert len(result.single) == energy.n_variables
        for found, table in zip(result.single, expected, strict=True):
            assert_allclose(found, table, rtol=0, atol=1e-11)
        for i, state in (evidence or {}).items():
            assert_array_equal(result.single[i], np.arange(energy.n_states[i]) == state)
        expected = twins.clique_marginals(states, p, graph)
        assert len(result.cliques) == len(graph.cliques)
        for found, table in zip(result.cliques, expected, strict=True):
            assert found.shape == table.shape
            assert_allclose(found, table, rtol=0, atol=1e-11)
        assert (result.method, result.residual, result.converged) == ("exact", 0.0, True)


@pytest.mark.parametrize("method", ["auto", "exact"])
@every
def test_map_assignment(name, method, seed):
    energy = ZOO[name](seed)
    for evidence in (None, some_evidence(energy, seed)[0]):
        result = map_assignment(energy, evidence=evidence, method=method)
        log_given = posterior(energy, evidence or {})[2]
        assert_allclose(result.log_potential, log_given.max(), rtol=1e-13, atol=1e-12)
        assert_allclose(energy.log_potential(result.states[None]), [result.log_potential])
        assert result.states.shape == (energy.n_variables,)
        assert result.states.dtype == STATE
        assert all(result.states[i] == s for i, s in (evidence or {}).items())
        assert result.optimal is True
        assert result.method == "exact"


@pytest.mark.parametrize("method", ["auto", "exact"])
@every
def test_sample(name, method, seed):
    energy = ZOO[name](seed)
    for evidence in (None, some_evidence(energy, seed)[0]):
        X = sample(energy, 5000, evidence=evidence, method=method, random_state=seed)
        assert X.shape == (5000, energy.n_variables)
        assert X.dtype == STATE
        states, p, _ = posterior(energy, evidence or {})
        check_draws(X, states, p)


# Rows with missing entries ----------------------------------------------------------------


def rows_with_missing(graph, n_rows, seed):
    """Return possible rows with missing entries: some complete, some with equal patterns."""
    rng = np.random.default_rng(seed)
    states, log_f = enumerate_states(graph)
    X = states[rng.choice(np.flatnonzero(log_f > -np.inf), size=n_rows)]
    patterns = rng.random((4, graph.n_variables)) < 0.5
    X[patterns[rng.integers(4, size=n_rows)]] = MISSING
    X[:2] = states[np.argmax(log_f)]
    return X


def row_posterior(graph, x):
    return posterior(graph, {i: int(s) for i, s in enumerate(x) if s != MISSING})


@pytest.mark.parametrize("name", ["orders", "zeros", "tied", "constant_variables", "huge", "grid"])
def test_row_results_match_exact_posteriors(name, seed):
    """Results of rows equal the exact results of each row."""
    graph = ZOO[name](seed)
    X = rows_with_missing(graph, 30, seed)
    kept = X.copy()
    rng = np.random.default_rng(seed)
    log_z = row_log_partitions(graph, X)
    singles = row_marginals(graph, X)
    modes = row_modes(graph, X)
    draws = row_samples(graph, X, rng)
    assert_array_equal(X, kept)
    for r, x in enumerate(X):
        states, p, log_given = row_posterior(graph, x)
        assert_allclose(log_z[r], twins.log_sum(log_given), rtol=1e-13, atol=1e-12)
        expected = twins.single_marginals(states, p, graph.n_states)
        for table, expected_table in zip(singles, expected, strict=True):
            assert_allclose(table[r], expected_table, rtol=0, atol=1e-11)
        assert_allclose(graph.log_potential(modes[[r]])[0], log_given.max(), rtol=1e-12, atol=1e-12)
        for imputed in (modes[r], draws[r]):
            assert_array_equal(imputed[x != MISSING], x[x != MISSING])
            assert p[(states == imputed).all(axis=1)] > 0


@pytest.mark.parametrize("max_bytes", [2**32, 1])
@pytest.mark.parametrize("name", ["orders", "zero_one"])
def test_row_samples(name, max_bytes, seed):
    """Samples of equal rows are independent draws of their posterior, exact or by chains."""
    graph = ZOO[name](seed).factor_graph()
    X = np.repeat(rows_with_missing(graph, 3, seed)[2:], 3000, axis=0)
    rng = np.random.default_rng(seed)
    states, p, _ = row_posterior(graph, X[0])
    if max_bytes > 1 or (X[0] != MISSING).all():
        draws = row_samples(graph, X, rng, max_bytes=max_bytes)
    else:
        with pytest.warns(UserWarning, match="^Exact sampling needs too much memory"):
            draws = row_samples(graph, X, rng, max_bytes=max_bytes)
    check_draws(draws, states, p)


@pytest.mark.long
def test_row_results_without_exact_inference(seed):
    """If exact inference does not fit, annealing and chains give approximately equal results."""
    graph = ZOO["orders"](seed)
    X = rows_with_missing(graph, 4, seed)
    how = {"max_bytes": 1, "rng": np.random.default_rng(seed)}
    known = [{i: s for i, s in enumerate(x) if s != MISSING} for x in X.tolist()]
    annealed = (log_partition(graph, evidence=e, method="ais", random_state=seed) for e in known)
    found, error = row_log_partitions(graph, X, **how), max(a.std_error for a in annealed)
    assert_allclose(found, row_log_partitions(graph, X), atol=5 * error + 1e-9)
    for found, expected_table in zip(
        row_marginals(graph, X, **how), row_marginals(graph, X), strict=True
    ):
        assert_near(found, expected_table, 256)
    found, best = (graph.log_potential(row_modes(graph, X, **h)) for h in (how, {}))
    assert_allclose(found, best, rtol=1e-12)
    assert row_marginals(graph, X[:3], max_bytes=1)[0].shape == (3, 2)


def allow_entries(monkeypatch, few):
    """Let elimination visit few table entries in total, also if an estimate takes longer."""
    monkeypatch.setattr(row_queries, "QUICK_ENTRIES", 0)
    monkeypatch.setattr(row_queries, "max_quick_entries", lambda: few)


def quick_and_slow_row(seed):
    """Return a model, two rows, and a number of table entries that is enough for the first row."""
    graph = ZOO["orders"](seed)
    X = np.repeat(rows_with_missing(graph, 1, seed), 2, axis=0)
    X[0, 0] = 0
    X[1] = MISSING
    few = exact_entries(graph.layout, X[0] != MISSING)
    assert few < exact_entries(graph.layout, X[1] != MISSING)
    return graph, X, few


def test_slow_rows_have_approximate_marginals(monkeypatch, seed):
    """Elimination serves the rows with the fewest table entries, until its time is used up."""
    graph, X, few = quick_and_slow_row(seed)
    exact = row_marginals(graph, X)
    allow_entries(monkeypatch, few)
    for found, expected in zip(row_marginals(graph, X, rng=seed), exact, strict=True):
        assert_array_equal(found[0], expected[0])
        assert_near(found[1], expected[1], 256)
    chained = np.concatenate([p[1] for p in row_marginals(graph, X, rng=seed)])
    assert (chained != np.concatenate([p[1] for p in exact])).any()


def test_slow_rows_have_approximate_sums_modes_and_draws(monkeypatch, seed):
    graph, X, few = quick_and_slow_row(seed)
    sums, best = row_log_partitions(graph, X), graph.log_potential(row_modes(graph, X))
    allow_entries(monkeypatch, few)
    found, rng = row_log_partitions(graph, X, rng=seed), np.random.default_rng(seed)
    assert found[0] == sums[0]
    assert 0 < abs(found[1] - sums[1]) < 0.03  # eight standard deviations
    assert_array_equal(row_log_partitions(graph, X, exact=True), sums)
    assert_allclose(graph.log_potential(row_modes(graph, X, rng=rng)), best, rtol=1e-12)
    with pytest.warns(UserWarning, match="^Exact sampling needs too much memory or time"):
        row_samples(graph, X, rng)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        row_samples(graph, np.repeat(X[:1], 50, axis=0), rng)  # by one elimination


def test_errors_name_impossible_rows(seed):
    """Errors name the index among all rows, not among those of the missing pattern."""
    graph = ZOO["zeros_binary"](seed)
    X = np.full((3000, 6), MISSING, dtype=STATE)
    X[::2, 1] = 0
    X[1::2, 2] = 1
    X[2001, 3] = 0
    X[1001, 5] = 1
    message = "^The evidence of row 2001 has probability zero"
    rng = np.random.default_rng(seed)
    for query in (row_marginals, row_modes, lambda graph, X: row_samples(graph, X, rng)):
        with pytest.raises(ValueError, match=message):
            query(graph, X)
    log_z = row_log_partitions(graph, X)
    assert np.flatnonzero(log_z == -np.inf).tolist() == [2001]
    mask = X[2001] != MISSING
    assert mask.tolist() == [False, False, True, True, False, False]
    for query in (row_marginals, lambda graph, X, **how: row_samples(graph, X, rng, **how)):
        with pytest.raises(ValueError, match="evidence of row 0 has probability zero"):
            query(graph, X[[2001]], max_bytes=1)


def test_weighted_draws_that_miss_modes_have_not_converged(seed):
    """Marginals under strong frustrated couplings are accurate or reported as not converged."""
    rng = np.random.default_rng(seed)
    J = np.triu(rng.choice([-2.5, 2.5], size=(10, 10)), 1)
    energy = PairwiseEnergy(J + J.T, 0.3 * rng.normal(size=10))
    how = {"method": "bpchain", "conditionals": "bp", "n_samples": 200, "random_state": seed}
    found, expected = marginals(energy, **how), marginals(energy)
    error = max(np.abs(a - b).max() for a, b in zip(found.single, expected.single, strict=True))
    assert error < 0.03 or not found.converged
    assert error < 5 * found.residual


def test_mean_field_on_an_impossible_model_has_not_converged():
    """Mean field does not converge on an odd cycle of inequalities, which is impossible."""
    table = np.array([[-np.inf, 0.0], [0.0, -np.inf]])
    graph = FactorGraph([2] * 3, [(0, 1), (1, 2), (2, 0)], [table] * 3)
    assert not marginals(graph, method="mean-field").converged


def test_estimator_in_place_of_an_energy_raises():
    model = DiscreteMRF(learner="exact", alpha=0.1).fit([[0, 1], [1, 0], [1, 1]])
    for query in (
        inference.marginals,
        inference.log_partition,
        inference.map_assignment,
        lambda energy: inference.marginal_map(energy, [0]),
        lambda energy: inference.sample(energy, 3),
    ):
        with pytest.raises(TypeError, match="such as energy_ of a DiscreteMRF; got DiscreteMRF"):
            query(model)
