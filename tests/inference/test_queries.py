"""Tests of what all queries share: evidence, options, seeds and signatures."""

import inspect
import re
from functools import partial

import numpy as np
import pytest
import twins
from numpy.testing import assert_allclose, assert_array_equal
from query_answers import METHODS, ask, each_method, same
from zoo import ZOO

from skmrf import exact, inference
from skmrf.datasets import make_ising
from skmrf.energies import FactorGraph
from skmrf.inference import log_partition, map_assignment, marginal_map, marginals, sample

QUERIES = (log_partition, marginals, map_assignment, sample)
APPROXIMATE = {
    log_partition: ("ais", {"n_chains": 64, "n_temperatures": 200}),
    marginals: ("gibbs", {"n_chains": 64, "n_sweeps": 100}),
    map_assignment: ("annealing", {"n_chains": 16, "n_sweeps": 100}),
    sample: ("gibbs", {"n_sweeps": 100}),
}

all_queries = pytest.mark.parametrize("query", QUERIES, ids=lambda q: q.__name__)


@all_queries
def test_auto_approximates_what_does_not_fit(query, seed):
    energy = ZOO["grid"](seed)
    approximate, options = APPROXIMATE[query]
    how = {"max_bytes": 100, "evidence": {0: 1}, "random_state": seed, **options}
    if query is sample:
        message = "^Exact sampling does not fit in memory; the samples are states of Gibbs chains"
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
def test_exact_queries_that_do_not_fit_name_the_bytes(query):
    energy = make_ising("complete", n_variables=120, coupling=0.01)
    message = (
        r"^Exact inference needs at least 1\.063e\+37 bytes \(largest table 2\^120\.0 entries\)"
    )
    with pytest.raises(ValueError, match=message):
        ask(query, energy, method="exact")


@all_queries
def test_a_seed_is_an_answer(query, seed):
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


def test_exact_samples_follow_the_seed(seed):
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
        ({3: 1.0}, "Evidence gives variable 3 the state 1.0, but its states are 0 to 3."),
        ({3: None}, "Evidence gives variable 3 the state None, but its states are 0 to 3."),
        ([(3, 1)], "evidence must be a dict from variables to states, or None; got list."),
        ("3", "evidence must be a dict from variables to states, or None; got str."),
    ],
)
def test_evidence_is_checked(query, evidence, message):
    with pytest.raises(ValueError) as caught:
        ask(query, ZOO["orders"](0), evidence=evidence)
    assert str(caught.value) == message


@pytest.mark.parametrize("query", METHODS, ids=lambda q: q.__name__)
def test_methods_are_named(query):
    with pytest.raises(ValueError) as caught:
        ask(query, ZOO["chain"](0), method="junction tree")
    names = sorted(("auto", *METHODS[query]))
    assert str(caught.value) == f"method must be one of {names}; got 'junction tree'."


@each_method
def test_options_are_named(query, method):
    """A typing error, or an option of another method; "auto" has those of its fallback."""
    with pytest.raises(TypeError) as caught:
        ask(query, ZOO["chain"](0), method=method, n_epochs=3)
    known = METHODS[query][method]
    assert str(caught.value) == (
        f"method={method!r} has no option 'n_epochs'; its options are {known or 'none'}."
    )
    assert ask(query, ZOO["chain"](0), method="auto", n_epochs=3) is not None


IMPOSSIBLE = {0: 1, 3: 0}  # in a chain of implications


@pytest.mark.parametrize("query", [marginals, map_assignment, sample], ids=lambda q: q.__name__)
def test_impossible_evidence_is_refused(query):
    message = re.escape(
        "The model gives the evidence of row 0 the probability zero, so nothing can be said given "
        "it; change the evidence, or replace zero potentials by small ones."
    )
    with pytest.raises(ValueError, match=f"^{message}$"):
        ask(query, ZOO["zeros_binary"](0), evidence=IMPOSSIBLE)


@pytest.mark.parametrize("query", [marginals, sample], ids=lambda q: q.__name__)
def test_impossible_evidence_is_refused_by_chains(query, seed):
    how = {"evidence": IMPOSSIBLE, "random_state": seed, "n_sweeps": 50}
    with pytest.raises(ValueError, match=r"^None of \d+ Gibbs chains found a state of positive"):
        ask(query, ZOO["zeros_binary"](seed), method="gibbs", **how)


@pytest.mark.parametrize("method", ["bp", "trw"])
def test_impossible_evidence_is_refused_by_propagation(method):
    """Where the messages prove it."""
    refused = pytest.raises(exact.ImpossibleEvidence, match="the evidence of row 0 the prob")
    with refused:
        marginals(ZOO["zeros_binary"](0), evidence=IMPOSSIBLE, method=method)


def test_impossible_evidence_is_refused_by_decimation():
    with pytest.raises(exact.ImpossibleEvidence, match="the evidence of row 0 the prob"):
        map_assignment(ZOO["zeros_binary"](0), evidence=IMPOSSIBLE, method="decimation")
    for method in ("exact", "bp"):
        with pytest.raises(exact.ImpossibleEvidence, match="the evidence of row 0 the prob"):
            marginal_map(ZOO["zeros_binary"](0), [1, 4], evidence=IMPOSSIBLE, method=method)


@pytest.mark.parametrize("conditionals", ["auto", "bp"])
@pytest.mark.parametrize("query", [marginals, sample], ids=lambda q: q.__name__)
def test_impossible_evidence_is_refused_by_chained_propagation(query, conditionals, seed):
    how = {"evidence": IMPOSSIBLE, "random_state": seed, "conditionals": conditionals}
    with pytest.raises(ValueError, match=r"^None of \d+ draws has a positive probability"):
        ask(query, ZOO["zeros_binary"](seed), method="bpchain", **how)


@pytest.mark.parametrize("evidence", [{0: 0, 1: 0}, {0: 1, 1: 0, 2: 0}])
def test_impossible_evidence_is_refused_by_mean_field(evidence):
    """A table without any mass proves it."""
    graph = FactorGraph(
        [2, 2, 2], [(0, 1), (1, 2)], [[[-np.inf, 0], [0, 0]], [[-np.inf, 0], [0, 0]]]
    )
    with pytest.raises(exact.ImpossibleEvidence):
        marginals(graph, evidence=evidence, method="mean-field")


def test_orders_of_draws_name_the_variables_of_the_model(seed):
    """With evidence, too: what is observed is left out."""
    graph = ZOO["grid"](0).factor_graph()
    how = {"method": "bpchain", "conditionals": "bp", "random_state": seed}
    evidence = {2: 1, 5: 0}
    rest = graph.condition(evidence)
    order = np.random.default_rng(seed).permutation(9)
    inside = [{0: 0, 1: 1, 3: 2, 4: 3, 6: 4, 7: 5, 8: 6}[i] for i in order if i not in evidence]
    X = sample(graph, 20, evidence=evidence, order=order.tolist(), **how)
    assert_array_equal(X[:, [0, 1, 3, 4, 6, 7, 8]], sample(rest, 20, order=inside, **how))
    value = log_partition(graph, evidence=evidence, order=order, n_samples=50, **how)
    assert value == log_partition(rest, order=inside, n_samples=50, **how)
    found = marginals(graph, evidence=evidence, order=order, n_samples=50, **how)
    assert_array_equal(
        found.single[8], marginals(rest, order=inside, n_samples=50, **how).single[6]
    )
    for query in (partial(sample, n_samples=3), marginals, log_partition):
        with pytest.raises(ValueError, match="name each of the 9 variables once"):
            query(graph, evidence=evidence, order=inside, **how)


def test_settings_of_the_chain_are_checked():
    with pytest.raises(
        TypeError, match=r"settings must be a skmrf\.samplers\.ChainSettings; got 'bp'"
    ):
        log_partition(ZOO["grid"](0), method="bpchain", settings="bp")


@pytest.mark.parametrize("variables", [5, None])
def test_variables_of_marginal_map_are_a_sequence(variables):
    with pytest.raises(TypeError, match=f"variables must be a sequence .*; got {variables}"):
        marginal_map(ZOO["grid"](0), variables)


def test_impossible_evidence_has_no_mass(seed):
    graph = ZOO["zeros_binary"](seed)
    assert log_partition(graph, evidence=IMPOSSIBLE).value == -np.inf
    with pytest.warns(UserWarning, match="inf nats wide"):
        result = log_partition(graph, evidence=IMPOSSIBLE, method="ais", random_state=seed)
    assert (result.lower, result.upper, result.converged) == (-np.inf, np.inf, False)
    best = map_assignment(graph, evidence=IMPOSSIBLE, method="annealing", random_state=seed)
    assert (best.log_potential, best.optimal) == (-np.inf, False)


@pytest.mark.parametrize("name", ["orders", "zero_one", "constant_variables"])
@all_queries
def test_everything_observed(query, name, seed):
    """Nothing is left to infer, by any method."""
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
def test_queries_do_not_write(query, seed):
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
def test_number_of_samples_is_checked(n_samples):
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
    """Everything but the energy (and the number of samples) goes by keyword."""
    parameters = inspect.signature(query).parameters
    positional = [p for p in parameters.values() if p.kind == p.POSITIONAL_OR_KEYWORD]
    assert [p.name for p in positional] == ["energy"] + ["n_samples"] * (query is sample)
    defaults = {k: p.default for k, p in parameters.items() if p.kind == p.KEYWORD_ONLY}
    assert defaults == {
        "evidence": None,
        "method": "auto",
        "max_bytes": 4 * 2**30,
        "random_state": None,
    }


def test_public_names():
    for query in QUERIES:
        assert query.__name__ in inference.__all__
        assert getattr(inference, query.__name__) is query
