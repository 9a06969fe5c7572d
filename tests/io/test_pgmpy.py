"""Tests of conversion to and from pgmpy."""

import math
import warnings

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal

from skmrf import DiscreteMRF, io
from skmrf.energies import FactorGraph, PairwiseEnergy
from skmrf.inference import log_partition, marginals
from skmrf.io.names import NamedFactorGraph

CHEAP = 2e8  # bytes of elimination
KINDS = ["DiscreteMarkovNetwork", "FactorGraph"]


@st.composite
def graphs(draw, largest=30.0):
    """Draw factor graphs with zero potentials, constants and cliques of the same variables."""
    n_states = draw(st.lists(st.integers(1, 4), min_size=1, max_size=5))
    members = st.permutations(range(len(n_states)))
    cliques, tables = [], []
    for _ in range(draw(st.integers(0, 6))):
        clique = tuple(draw(members)[: draw(st.integers(0, 3))])
        size = math.prod(n_states[v] for v in clique)
        usual = st.floats(-largest, largest)
        value = st.one_of(usual, st.just(-math.inf))
        table = draw(st.lists(value, min_size=size, max_size=size))
        table[draw(st.integers(0, size - 1))] = draw(usual)
        cliques.append(clique)
        tables.append(table)
    return FactorGraph(n_states, cliques, tables)


def all_states(graph):
    return np.array(list(np.ndindex(*graph.n_states.tolist())))


def random_states(graph, n_rows, seed=0):
    rng = np.random.default_rng(seed)
    return (rng.random((n_rows, graph.n_variables)) * graph.n_states).astype(int)


def assert_same_model(one, other, rows, atol=1e-10):
    assert_array_equal(one.n_states, other.n_states)
    expected = other.log_potential(rows)
    scale = np.abs(expected[np.isfinite(expected)]).max(initial=1.0)
    assert_allclose(one.log_potential(rows), expected, rtol=0, atol=atol * max(scale / 1e4, 1.0))


@given(graph=graphs(), kind=st.sampled_from(KINDS))
def test_pgmpy_round_trip(graph, kind):
    pytest.importorskip("pgmpy")
    try:
        model = io.to_pgmpy(graph, kind=kind)
    except ValueError as error:
        assert "no state has a probability" in str(error)  # noqa: PT017
        assert (graph.log_potential(all_states(graph)) == -np.inf).all()
        return
    assert model.check_model()
    again = io.from_pgmpy(model)
    assert again.names == [f"x{i}" for i in range(graph.n_variables)]
    assert_same_model(again, graph, all_states(graph))
    assert len(set(map(frozenset, again.cliques))) == len(again.cliques)


def convert_through_all_formats(graph, folder, kind):
    """Convert a factor graph to pgmpy, back, to a UAI file, and back."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "The product of the largest potentials")
        model = io.to_pgmpy(graph, kind=kind)
    assert model.check_model()
    io.write_uai(io.from_pgmpy(model), folder / "again.uai.gz")
    return io.read_uai(folder / "again.uai.gz")


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(
    "name",
    [
        pytest.param("uai2014/PR_MAR/Promedus_15", marks=pytest.mark.long),
        "uai2014/PR_MAR/Promedus_24",
        pytest.param("uai2014/PR_MAR/Pedigree_12", marks=pytest.mark.long),
        "libdai/alarm",
        "libdai/hoi2",
        "libdai/testfast",
    ],
)
def test_real_models_keep_log_z_and_marginals(tmp_path, data_folder, name, kind):
    pytest.importorskip("pgmpy")
    check_real_model(data_folder(name.split("/")[0]).parent / f"{name}.uai.gz", tmp_path, kind)


@pytest.mark.slow(seconds=25)
@pytest.mark.parametrize("kind", KINDS)
def test_all_real_models_keep_log_z_and_marginals(tmp_path, data_folder, kind):
    pytest.importorskip("pgmpy")
    paths = sorted(data_folder("uai2014").glob("*/*.uai.gz"))
    exact = [check_real_model(path, tmp_path, kind) for path in paths]
    assert len(exact) == 28
    assert sum(exact) >= 15


LARGE = ["DBN_11", "Grids_15", "Grids_17", "ObjectDetection_28"]


@pytest.mark.slow
@pytest.mark.parametrize("name", LARGE)
def test_large_models_keep_log_z_and_marginals(tmp_path, data_folder, name):
    pytest.importorskip("pgmpy")
    path = data_folder("uai2014") / "PR_MAR" / f"{name}.uai.gz"
    for kind in KINDS:
        assert check_real_model(path, tmp_path, kind, max_bytes=1e9)


def check_real_model(path, folder, kind, max_bytes=CHEAP):
    """Check a model after conversion, and return whether exact inference was possible."""
    graph = io.read_uai(path)
    file = path.with_name(path.name.replace(".uai", ".uai.evid"))
    evidence = io.read_evidence(file) if file.exists() else {}
    again = convert_through_all_formats(graph, folder, kind)
    assert_same_model(again, graph, random_states(graph, 100))
    if len({frozenset(clique) for clique in graph.cliques}) == graph.layout.n_cliques:
        m = graph.layout.n_cliques
        assert again.cliques[:m] == graph.cliques
        assert_allclose(again.flat[: len(graph.flat)], graph.flat, rtol=1e-14, atol=1e-14)
    try:
        values = [
            log_partition(g, method="exact", evidence=evidence, max_bytes=max_bytes).value
            for g in (graph, again)
        ]
    except ValueError as error:
        assert "Exact inference needs" in str(error)  # noqa: PT017
        return False
    assert_allclose(values[1], values[0], rtol=0, atol=1e-10)
    one, two = (marginals(g, method="exact", evidence=evidence) for g in (graph, again))
    for mine, theirs in zip(one.single, two.single, strict=True):
        assert_allclose(theirs, mine, rtol=0, atol=1e-10)
    return True


@pytest.mark.parametrize("kind", KINDS)
def test_inference_matches_pgmpy(seed, kind):
    """Compare marginals with variable elimination of pgmpy, which also checks the axis order."""
    pytest.importorskip("pgmpy")
    from pgmpy.inference import VariableElimination

    rng = np.random.default_rng(seed)
    n_states = [2, 3, 1, 4, 2]
    cliques = [(3, 1), (0, 2, 4), (1, 4), (4, 1), (), (0,)]
    tables = [rng.normal(size=[n_states[v] for v in clique]) for clique in cliques]
    tables[0][2, 1] = -np.inf
    graph = FactorGraph(n_states, cliques, tables)
    called = [[f"{v}_{s}" for s in rng.permutation(q)] for v, q in enumerate(n_states)]
    model = io.to_pgmpy(graph, kind=kind, names=list("vwxyz"), state_names=called)
    assert_allclose(np.log(model.get_partition_function()), float(log_partition(graph)), rtol=1e-12)
    # inference of pgmpy fails for its factor graphs, because factors are nodes without states
    reference = VariableElimination(model if kind == KINDS[0] else model.to_markov_model())
    for evidence in ({}, {1: 2}):
        ours = marginals(graph, evidence=evidence, method="exact").single
        for v in set(range(5)) - set(evidence):
            for order in ("greedy", None):
                answer = reference.query(
                    ["vwxyz"[v]],
                    evidence={"vwxyz"[i]: called[i][s] for i, s in evidence.items()},
                    elimination_order=order,
                    show_progress=False,
                )
                answer.normalize()
                theirs = [answer.get_value(**{"vwxyz"[v]: state}) for state in called[v]]
                assert_allclose(theirs, ours[v], atol=1e-12)


def test_inference_matches_pgmpy_for_alarm(data_folder):
    pytest.importorskip("pgmpy")
    from pgmpy.inference import VariableElimination

    graph = io.read_uai(data_folder("libdai") / "alarm.uai.gz")
    reference = VariableElimination(io.to_pgmpy(graph))
    ours = marginals(graph, method="exact", evidence={3: 0}).single
    for v in range(4, graph.n_variables, 3):
        answer = reference.query([f"x{v}"], evidence={"x3": 0}, show_progress=False)
        assert_allclose(answer.values / answer.values.sum(), ours[v], atol=1e-10)


def test_pgmpy_bayesian_networks():
    pytest.importorskip("pgmpy")
    from pgmpy.factors.discrete import TabularCPD
    from pgmpy.inference import VariableElimination
    from pgmpy.models import DiscreteBayesianNetwork

    network = DiscreteBayesianNetwork([("rain", "wet"), ("sprinkler", "wet")])
    names = {"rain": ["no", "yes"], "sprinkler": ["off", "low", "high"], "wet": ["dry", "wet"]}
    network.add_cpds(
        TabularCPD("rain", 2, [[0.7], [0.3]], state_names=names),
        TabularCPD("sprinkler", 3, [[0.5], [0.3], [0.2]], state_names=names),
        TabularCPD(
            "wet",
            2,
            [[1.0, 0.6, 0.1, 0.2, 0.05, 0.01], [0.0, 0.4, 0.9, 0.8, 0.95, 0.99]],
            evidence=["rain", "sprinkler"],
            evidence_card=[2, 3],
            state_names=names,
        ),
    )
    graph = io.from_pgmpy(network)
    assert dict(zip(graph.names, graph.categories, strict=True)) == names
    assert abs(float(log_partition(graph))) < 1e-12
    model = DiscreteMRF.from_energy(graph, graph.categories)
    wet = graph.names.index("wet")
    row = np.array([["wet" if v == wet else None for v in range(3)]], dtype=object)
    ours = model.marginals(row)
    for v, name in enumerate(graph.names):
        if v != wet:
            answer = VariableElimination(network).query(
                [name], evidence={"wet": "wet"}, show_progress=False
            )
            theirs = [answer.get_value(**{name: state}) for state in names[name]]
            assert_allclose(ours[v][0], theirs, atol=1e-12)
    network.remove_cpds("rain")
    with pytest.raises(ValueError, match="rain"):
        io.from_pgmpy(network)


def test_pgmpy_round_trip_of_names_and_states():
    pytest.importorskip("pgmpy")
    graph = FactorGraph([2, 1, 3], [(2, 0)], [np.arange(6.0)])
    names, states = ["Größe", ("a", 1), 7], [[False, True], ["only"], ["x", None, 2.5]]
    for kind in KINDS:
        again = io.from_pgmpy(io.to_pgmpy(graph, kind=kind, names=names, state_names=states))
        assert again.names == names
        assert again.categories == [[False, True], [0], ["x", None, 2.5]] or (
            again.categories == states
        )
        third = io.from_pgmpy(io.to_pgmpy(again))  # names of the energy are the default
        assert third.names == names
        assert third.categories == again.categories
        assert_same_model(third, graph, all_states(graph))
    model = DiscreteMRF("pairwise", "exact", alpha=0.1).fit([["a", 1], ["b", 2], ["a", 2]])
    again = io.from_pgmpy(io.to_pgmpy(model.energy_, state_names=model.categories_))
    assert again.categories == [["a", "b"], [1, 2]]
    rows = [["b", 2], ["a", 1]]
    estimator = DiscreteMRF.from_energy(again, again.categories)
    assert_allclose(estimator.score_samples(rows), model.score_samples(rows), atol=1e-12)


def test_file_labels_as_pgmpy_names(tmp_path):
    """Labels start at 0, which pgmpy treats as a missing name."""
    pytest.importorskip("pgmpy")
    graph = FactorGraph([2, 3], [(0, 1)], [np.arange(6.0)])
    io.write_fg(graph, tmp_path / "model.fg")
    again = io.from_pgmpy(io.to_pgmpy(io.read_fg(tmp_path / "model.fg")))
    assert again.names == ["x0", "x1"]
    assert_same_model(again, graph, all_states(graph))
    alike = NamedFactorGraph(graph, [0, "0"], map(range, graph.n_states))
    with pytest.raises(ValueError, match=r"Names must be distinct and .*; got .'x0', 'x0'"):
        io.to_pgmpy(alike)


def test_pgmpy_round_trip_of_pairwise_energy():
    pytest.importorskip("pgmpy")
    energy = PairwiseEnergy([[0, 0.5], [0.5, 0]], [0.1, -0.2])
    again = io.from_pgmpy(io.to_pgmpy(energy))
    assert_same_model(again, energy.factor_graph(), all_states(again))


def test_pgmpy_potentials_outside_float_range():
    """Constants that are moved between factors keep log Z."""
    pytest.importorskip("pgmpy")
    tables = [[800.0, 750.0], [-1400.0, -60.0], [0.0, 1.0], [-300.0, -np.inf], [-99.5]]
    cliques = [(0,), (1,), (2,), (3,), ()]
    graph = FactorGraph([2, 2, 2, 2], cliques, tables)
    again = io.from_pgmpy(io.to_pgmpy(graph))
    assert_same_model(again, graph, all_states(graph), atol=1e-11)
    assert_allclose(float(log_partition(again)), float(log_partition(graph)), rtol=0, atol=1e-10)

    large = FactorGraph([2, 2], [(0,), (1,)], [[700.0, 0.0], [600.0, 0.0]])
    with pytest.warns(UserWarning, match="normalize=True keeps the marginals"):
        model = io.to_pgmpy(large)
    assert_same_model(io.from_pgmpy(model), large, all_states(large))
    normalized = io.from_pgmpy(io.to_pgmpy(large, normalize=True))
    assert [t.max() for t in normalized.log_potentials] == [0.0, 0.0]
    assert_allclose(marginals(normalized).single, marginals(large).single, atol=1e-14)

    for table, constant in (([900.0, 0.0], -50.0), ([700.0, 0.0], 30.0), ([0.0, -700.0], -30.0)):
        with pytest.raises(ValueError, match="cannot be rescaled to the range of floats"):
            io.to_pgmpy(FactorGraph([2], [(0,), ()], [table, [constant]]))
    with pytest.raises(ValueError, match=r"clique \(1,\) are from -1500 to 1;"):
        io.to_pgmpy(FactorGraph([2, 2], [(0,), (1,)], [[0.0, 1.0], [1.0, -1500.0]]))
    with pytest.raises(ValueError, match=r"clique \(0,\) are from -710 to 0;"):
        io.to_pgmpy(FactorGraph([2], [(0,)], [[0.0, -710.0]]), normalize=True)


def test_factor_graphs_converted_by_pgmpy():
    """The conversion of pgmpy has strings instead of factors as nodes."""
    pytest.importorskip("pgmpy")
    graph = FactorGraph([2, 3], [(1, 0), (0,)], [np.arange(6.0), [0.0, 1.0]])
    converted = io.to_pgmpy(graph).to_factor_graph()
    assert "phi_x0" in converted.nodes()
    again = io.from_pgmpy(converted)
    assert again.names == ["x0", "x1"]
    assert_same_model(again, graph, all_states(graph))
    assert_same_model(
        io.from_pgmpy(io.to_pgmpy(graph, kind="FactorGraph").copy()), graph, all_states(graph)
    )


def pgmpy_network(*factors, nodes="ab"):
    from pgmpy.factors.discrete import DiscreteFactor
    from pgmpy.models import DiscreteMarkovNetwork

    network = DiscreteMarkovNetwork()
    network.add_nodes_from(nodes)
    network.add_factors(*(DiscreteFactor(*factor) for factor in factors))
    return network


def test_from_pgmpy_errors():
    pytest.importorskip("pgmpy")
    from pgmpy.models import FactorGraph as TheirFactorGraph

    with pytest.raises(TypeError, match=r"DiscreteBayesianNetwork of pgmpy.models; got list"):
        io.from_pgmpy([])
    with pytest.raises(ValueError, match="Variable 'b' has no factor"):
        io.from_pgmpy(pgmpy_network((["a"], [2], [1, 2])))
    lonely = TheirFactorGraph()
    lonely.add_nodes_from(["a"])
    with pytest.raises(ValueError, match="Variable 'a' has no factor"):
        io.from_pgmpy(lonely)
    for value in (-1.0, np.nan, np.inf):
        with pytest.raises(
            ValueError, match=r"\['a'\] has the value (-1.0|nan|inf); potentials must be finite"
        ):
            io.from_pgmpy(pgmpy_network((["a"], [2], [1, value]), nodes="a"))
    with pytest.raises(ValueError, match="All potentials of clique 0"):
        io.from_pgmpy(pgmpy_network((["a"], [2], [0, 0]), nodes="a"))
    with pytest.raises(
        ValueError, match=r"'a' has the states \[0, 1\] in one factor and \[0, 1, 2\]"
    ):
        io.from_pgmpy(pgmpy_network((["a"], [2], [1, 1]), (["a"], [3], [1, 1, 1]), nodes="a"))
    states = {"a": ["x", "y"]}, {"a": ["y", "x"]}
    with pytest.raises(ValueError, match=r"'a' has the states \['x', 'y'\] in one factor and"):
        io.from_pgmpy(
            pgmpy_network(
                (["a"], [2], [1, 2], states[0]), (["a"], [2], [1, 2], states[1]), nodes="a"
            )
        )
    with pytest.raises(ValueError, match=r"states \[1, 0\] in one factor and \[0, 1\] in another"):
        io.from_pgmpy(
            pgmpy_network((["a"], [2], [1, 2], {"a": [1, 0]}), (["a"], [2], [1, 2]), nodes="a")
        )
    half = [(["a"], [2], [1, 2], states[0]), (["a"], [2], [3, 4])]
    for order in (half, half[::-1]):  # factors without state names agree with any
        graph = io.from_pgmpy(pgmpy_network(*order, nodes="a"))
        assert graph.categories == [["x", "y"]]


def test_to_pgmpy_errors():
    pytest.importorskip("pgmpy")
    graph = FactorGraph([2, 2], [(0, 1)], [np.zeros(4)])
    wrong = {
        "kind must be one of": {"kind": "MarkovNetwork"},
        "There are 2 variables, but 1 names": {"names": ["a"]},
        "Names must be distinct and hashable": {"names": ["a", "a"]},
        "Names must be distinct and hashable, such as strings; got": {"names": [["a"], ["b"]]},
        "names such as 0 and '' as missing; got the names": {"names": [0, 1]},
        "state names were given for 1": {"state_names": [["a", "b"]]},
        "Variable 1 has 2 states, but 3 state names": {"state_names": [[0, 1], [0, 1, 2]]},
        "The state names of variable 0 must be distinct": {"state_names": [[0, 0], [0, 1]]},
    }
    for message, options in wrong.items():
        with pytest.raises(ValueError, match=message):
            io.to_pgmpy(graph, **options)
    with pytest.raises(ValueError, match=r"at least one variable, .* got no variables"):
        io.to_pgmpy(FactorGraph([], [()], [[1.0]]))
    impossible = FactorGraph([2], [(0,), (0,)], [[0.0, -np.inf], [-np.inf, 0.0]])
    for evidence, clique in (({}, r"\(0,\)"), ({0: 1}, r"\(\)")):
        both = FactorGraph([2, 2], [(0,), (0,), (1,)], [*impossible.log_potentials, [0.0, 1.0]])
        with pytest.raises(ValueError, match=f"variables {clique} are zero, so no state"):
            io.to_pgmpy(both.condition(evidence))


def test_estimators_are_rejected(tmp_path):
    pytest.importorskip("pgmpy")
    model = DiscreteMRF("independent", "exact", alpha=0.1).fit([[0], [1]])
    for write in (
        io.to_pgmpy,
        io.to_networkx,
        lambda model: io.write_uai(model, tmp_path / "model.uai"),
        lambda model: io.write_fg(model, tmp_path / "model.fg"),
    ):
        with pytest.raises(TypeError, match="such as energy_ of a DiscreteMRF; got DiscreteMRF"):
            write(model)
    assert not list(tmp_path.iterdir())


def test_invalid_names():
    graph = FactorGraph([2, 3], [(0, 1)], [np.arange(6.0)])
    right = [[0, 1], ["a", "b", "c"]]
    for names, categories, message in (
        (["a"], right, "There are 2 variables, but 1 names"),
        (["a", "a"], right, "Names must be distinct and hashable"),
        (["a", "b"], right[:1], "state names were given for 1"),
        (["a", "b"], right[::-1], "Variable 0 has 2 states, but 3 state names"),
        (["a", "b"], [[0, 0], right[1]], "The state names of variable 0 must be distinct"),
    ):
        with pytest.raises(ValueError, match=message):
            NamedFactorGraph(graph, names, categories)


def test_pgmpy_single_precision_is_rejected():
    pgmpy = pytest.importorskip("pgmpy")
    pgmpy.config.set_dtype("float32")
    try:
        with pytest.raises(ValueError, match="set to numpy and float32, which would round"):
            io.to_pgmpy(FactorGraph([2], [(0,)], [[0.0, 1.0]]))
    finally:
        pgmpy.config.set_backend("numpy")
