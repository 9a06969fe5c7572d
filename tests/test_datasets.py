"""Generators and fetchers: what they return, what they refuse, and that they repeat."""

import os
import re
import urllib.request
from pathlib import Path

import networkx as nx
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from skmrf.datasets import _remote, density, fetch_density_benchmark, make_ising, make_random_mrf

KINDS = {
    "chain": 12,
    "cycle": 12,
    "grid": 12,
    "torus": 12,
    "star": 12,
    "complete": 12,
    "tree": 12,
    "erdos-renyi": 12,
    "regular": 12,
    "power-law": 12,
}
RANDOM_KINDS = ["tree", "erdos-renyi", "regular", "power-law"]


def edges_of(energy):
    i, j = np.nonzero(np.triu(energy.coupling))
    return set(zip(i.tolist(), j.tolist(), strict=True))


def graph_of(energy):
    graph = nx.Graph()
    graph.add_nodes_from(range(energy.n_variables))
    graph.add_edges_from(edges_of(energy))
    return graph


# make_ising --------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", KINDS)
def test_ising_shapes_and_symmetry(kind):
    energy = make_ising(kind, n_variables=12, coupling=0.3, field=-0.2, random_state=0)
    assert energy.coupling.shape == (12, 12)
    assert energy.states == (-1, 1)
    np.testing.assert_array_equal(energy.coupling, energy.coupling.T)
    assert not np.diagonal(energy.coupling).any()
    assert set(np.unique(energy.coupling)) <= {0.0, 0.3}
    np.testing.assert_array_equal(energy.bias, np.full(12, -0.2))


@pytest.mark.parametrize(
    ("kind", "graph"),
    [
        ("chain", nx.path_graph(12)),
        ("cycle", nx.cycle_graph(12)),
        ("star", nx.star_graph(11)),
        ("complete", nx.complete_graph(12)),
        ("grid", nx.grid_2d_graph(3, 4)),
        ("torus", nx.grid_2d_graph(3, 4, periodic=True)),
    ],
)
def test_ising_edges_are_those_of_networkx(kind, graph):
    if kind in ("grid", "torus"):
        graph = nx.relabel_nodes(graph, {(r, c): 4 * r + c for r, c in graph})
    energy = make_ising(kind, n_variables=12, coupling=1.0)
    assert edges_of(energy) == {tuple(sorted(edge)) for edge in graph.edges}


@pytest.mark.parametrize("seed", range(3))
def test_ising_random_graphs_are_of_their_kind(seed):
    def build(kind, n, **options):
        return graph_of(make_ising(kind, n_variables=n, coupling=1.0, random_state=seed, **options))

    assert nx.is_tree(build("tree", 20))
    assert {d for _, d in build("regular", 20, degree=3).degree} == {3}
    assert build("power-law", 50, degree=6).number_of_edges() == 3 * (50 - 3)
    # 400 * 6 / 2 = 1200 edges expected, standard deviation below sqrt(1200)
    edges = build("erdos-renyi", 400, degree=6.0).number_of_edges()
    assert abs(edges - 1200) < 5 * np.sqrt(1200)
    assert build("erdos-renyi", 6, degree=5).number_of_edges() == 15
    assert build("erdos-renyi", 6, degree=0).number_of_edges() == 0


@pytest.mark.parametrize("kind", KINDS)
def test_ising_repeats_for_an_int(kind):
    def build(seed):
        return make_ising(
            kind, n_variables=12, coupling=0.5, mixed_signs=True, random_state=seed
        ).coupling

    np.testing.assert_array_equal(build(7), build(7))
    np.testing.assert_array_equal(build(np.random.RandomState(7)), build(7))
    assert any((build(seed) != build(7)).any() for seed in range(8, 11))


@pytest.mark.parametrize("kind", RANDOM_KINDS)
def test_ising_signs_do_not_change_the_graph(kind):
    plain, mixed = (
        make_ising(kind, n_variables=30, coupling=2.0, mixed_signs=signs, random_state=3)
        for signs in (False, True)
    )
    np.testing.assert_array_equal(np.abs(mixed.coupling), plain.coupling)
    assert edges_of(make_ising(kind, n_variables=30, coupling=2.0, random_state=4)) != edges_of(
        plain
    )


def test_ising_signs_are_fair():
    energy = make_ising("complete", n_variables=60, coupling=1.0, mixed_signs=True, random_state=0)
    signs = energy.coupling[np.triu_indices(60, 1)]
    assert set(signs) == {-1.0, 1.0}
    assert abs(signs.sum()) < 5 * np.sqrt(len(signs))


@pytest.mark.parametrize("random_state", [0, None])
def test_generators_leave_the_global_state_alone(random_state):
    before = np.random.get_state()[1].copy()  # noqa: NPY002
    make_ising("tree", n_variables=9, coupling=1.0, mixed_signs=True, random_state=random_state)
    make_random_mrf(9, n_cliques=5, random_state=random_state)
    np.testing.assert_array_equal(np.random.get_state()[1], before)  # noqa: NPY002


def test_ising_without_a_seed_differs():
    first, second = (make_ising("tree", n_variables=40, coupling=1.0) for _ in range(2))
    assert edges_of(first) != edges_of(second)


def test_ising_couplings_of_edges_and_matrix():
    values = np.array([1.0, 2.0, 3.0, 4.0])  # sorted edges: (0,1) (0,2) (1,3) (2,3)
    energy = make_ising("grid", n_variables=4, coupling=values, field=[0, 1, 2, 3])
    assert [energy.coupling[e] for e in [(0, 1), (0, 2), (1, 3), (2, 3)]] == values.tolist()
    np.testing.assert_array_equal(energy.bias, [0, 1, 2, 3])
    full = np.arange(16.0).reshape(4, 4)
    full = full + full.T
    masked = make_ising("grid", n_variables=4, coupling=full).coupling
    np.testing.assert_array_equal(masked, np.where(energy.coupling != 0, full, 0.0))


def test_ising_given_edges_keep_their_order():
    energy = make_ising([(3, 1), (0, 2)], n_variables=5, coupling=[1.0, -2.0])
    assert edges_of(energy) == {(1, 3), (0, 2)}
    assert energy.coupling[1, 3] == 1.0
    assert energy.coupling[2, 0] == -2.0
    as_array = make_ising(np.array([(3, 1), (0, 2)]), n_variables=5, coupling=[1.0, -2.0])
    np.testing.assert_array_equal(as_array.coupling, energy.coupling)


def test_ising_given_graph():
    graph = nx.Graph([("a", "b"), ("b", "c")])
    energy = make_ising(graph, n_variables=3, coupling=[1.0, 2.0])
    assert energy.coupling[0, 1] == 1.0
    assert energy.coupling[1, 2] == 2.0
    shuffled = nx.Graph([(2, 0), (0, 1)])  # nodes 0 .. n - 1 keep their numbers
    assert edges_of(make_ising(shuffled, n_variables=3, coupling=1.0)) == {(0, 2), (0, 1)}


def test_ising_smallest():
    for kind in ("chain", "star", "complete", "tree"):
        assert make_ising(kind, n_variables=1, coupling=1.0).coupling.tolist() == [[0.0]]
    assert not edges_of(make_ising([], n_variables=3, coupling=1.0))
    assert make_ising("erdos-renyi", n_variables=1, coupling=1.0, degree=0).n_variables == 1


@given(n=st.integers(4, 120), kind=st.sampled_from(["grid", "torus"]))
@settings(deadline=None, max_examples=30)
def test_ising_grids_take_the_most_square_factorisation(n, kind):
    least = 2 if kind == "grid" else 3
    rows = max((a for a in range(1, n) if n % a == 0 and a * a <= n), default=1)
    if rows < least:
        with pytest.raises(ValueError, match=f"kind='{kind}' needs n_variables = rows"):
            make_ising(kind, n_variables=n, coupling=1.0)
        return
    graph = graph_of(make_ising(kind, n_variables=n, coupling=1.0))
    expected = nx.grid_2d_graph(rows, n // rows, periodic=kind == "torus")
    expected = nx.relabel_nodes(expected, {(r, c): r * (n // rows) + c for r, c in expected})
    assert nx.utils.graphs_equal(graph, expected)


ISING_ERRORS = [
    (
        {"kind": "ring"},
        "kind must be one of ['chain', 'cycle', 'grid', 'torus', 'star', 'complete', 'tree', "
        "'erdos-renyi', 'regular', 'power-law'], a networkx graph or a list of edges; got 'ring'.",
    ),
    ({"n_variables": 0}, "n_variables must be an integer >= 1 and <= 16384; got 0."),
    ({"n_variables": 4.0}, "n_variables must be an integer; got 4.0."),
    ({"n_variables": 10**6}, "n_variables must be an integer >= 1 and <= 16384; got 1000000."),
    ({"kind": "cycle", "n_variables": 2}, "kind='cycle' needs n_variables >= 3; got 2."),
    (
        {"kind": "grid", "n_variables": 7},
        "kind='grid' needs n_variables = rows * columns with at least 2 of each; got 7. The "
        "nearest are 6 (2 x 3) and 8 (2 x 4).",
    ),
    (
        {"kind": "torus", "n_variables": 4},
        "kind='torus' needs n_variables = rows * columns with at least 3 of each; got 4. The "
        "nearest are 9 (3 x 3).",
    ),
    (
        {"kind": "regular", "n_variables": 5, "degree": 3},
        "kind='regular' needs an integer degree with n_variables * degree even; got degree=3.0 "
        "and n_variables=5.",
    ),
    (
        {"kind": "regular", "n_variables": 4},
        "kind='regular' with n_variables=4 needs a degree from 0 to 3; got degree=4.0.",
    ),
    (
        {"kind": "power-law", "degree": 3},
        "kind='power-law' needs an even integer degree; got degree=3.0.",
    ),
    ({"kind": "erdos-renyi", "degree": np.nan}, "degree must be a number; got nan."),
    (
        {"coupling": [1.0, 2.0]},
        "coupling must be a number, 5 numbers (one an edge) or a matrix of shape (6, 6); got an "
        "array of shape (2,).",
    ),
    ({"coupling": np.inf}, "coupling must be finite; it holds inf."),
    (
        {"coupling": "strong"},
        "coupling must be a number, 5 numbers (one an edge) or a matrix of shape (6, 6); got str.",
    ),
    (
        {"coupling": np.triu(np.ones((6, 6)))},
        "coupling must be symmetric on the edges; coupling[0, 1] is 1.0 and coupling[1, 0] is 0.0.",
    ),
    (
        {"field": np.zeros(5)},
        "field must be a number or 6 numbers (one a variable); got an array of shape (5,).",
    ),
    ({"field": [0, 0, np.nan, 0, 0, 0]}, "field must be finite; it holds nan."),
    (
        {"kind": [(0, 1), (2, 6)]},
        "kind holds the edge (2, 6), but the variables are 0 to 5.",
    ),
    (
        {"kind": [(0, 1), (2, 2)]},
        "kind holds the edge (2, 2), which joins a variable to itself; edges join two variables.",
    ),
    (
        {"kind": [(0, 1), (2, 3), (1, 0)]},
        "kind holds the edge (0, 1) more than once; give every pair of variables once.",
    ),
    (
        {"kind": nx.path_graph(4)},
        "kind is a graph of 4 nodes, but n_variables is 6; give n_variables=4 or a graph of 6 "
        "nodes.",
    ),
    (
        {"kind": nx.DiGraph([(0, 1)])},
        "kind must be an undirected graph; use graph.to_undirected().",
    ),
    (
        {"kind": 3},
        "kind must be the name of a graph, a networkx graph or a list of edges, each a pair of "
        "integers; got 3.",
    ),
    (
        {"kind": [(0, 1), (2,)]},
        "kind must be the name of a graph, a networkx graph or a list of edges, each a pair of "
        "integers; got [(0, 1), (2,)].",
    ),
    (
        {"kind": [(0.5, 1)]},
        "kind must be the name of a graph, a networkx graph or a list of edges, each a pair of "
        "integers; got [(0.5, 1)].",
    ),
]


@pytest.mark.parametrize(("options", "message"), ISING_ERRORS)
def test_ising_errors(options, message):
    options = {"kind": "chain", "n_variables": 6, "coupling": 1.0} | options
    with pytest.raises(ValueError, match=f"^{re.escape(message)}$"):
        make_ising(options.pop("kind"), **options)


# make_random_mrf ---------------------------------------------------------------------------


def test_random_mrf_shapes():
    graph = make_random_mrf(8, n_states=3, n_cliques=10, order=3, random_state=0)
    np.testing.assert_array_equal(graph.n_states, np.full(8, 3))
    assert len(set(graph.cliques)) == 10
    assert all(len(c) == 3 and list(c) == sorted(set(c)) for c in graph.cliques)
    assert all(t.shape == (3, 3, 3) for t in graph.log_potentials)


def test_random_mrf_rule_of_n_states():
    drawn = make_random_mrf(200, n_states=(2, 4), n_cliques=1, random_state=0).n_states
    assert set(drawn.tolist()) == {2, 3, 4}
    for given_states in ([2, 4], np.array([2, 4])):
        graph = make_random_mrf(2, n_states=given_states, n_cliques=1, random_state=0)
        np.testing.assert_array_equal(graph.n_states, [2, 4])


def test_random_mrf_orders():
    graph = make_random_mrf(20, n_cliques=60, order=(1, 3), random_state=0)
    assert {len(c) for c in graph.cliques} == {1, 2, 3}
    everything = make_random_mrf(4, n_cliques=14, order=(1, 3), random_state=0)
    assert len(set(everything.cliques)) == 14  # 4 + 6 + 4: all there are


def test_random_mrf_repeats():
    def build(seed):
        return make_random_mrf(
            9, n_states=(2, 3), n_cliques=12, order=(1, 3), zero_fraction=0.2, random_state=seed
        )

    assert build(5).cliques == build(5).cliques
    np.testing.assert_array_equal(build(5).flat, build(5).flat)
    assert build(5).cliques != build(6).cliques


def test_random_mrf_scale():
    flat = make_random_mrf(60, n_cliques=1700, scale=2.0, random_state=0).flat
    assert abs(flat.mean()) < 5 * 2.0 / np.sqrt(len(flat))
    assert abs(flat.std() / 2.0 - 1) < 5 / np.sqrt(2 * len(flat))
    assert not make_random_mrf(4, n_cliques=3, scale=0.0, random_state=0).flat.any()


@pytest.mark.parametrize("fraction", [0.3, 1.0])
@pytest.mark.parametrize("seed", range(5))
def test_random_mrf_zeros_leave_a_state(fraction, seed):
    options = {"n_states": (2, 3), "n_cliques": 12, "order": (1, 3), "random_state": seed}
    graph = make_random_mrf(6, zero_fraction=fraction, **options)
    finite = np.isfinite(graph.flat)
    states = np.indices(graph.n_states).reshape(6, -1).T
    positive = np.isfinite(graph.log_potential(states)).sum()
    assert positive >= 1
    if fraction == 1.0:
        assert positive == np.prod(np.delete(graph.n_states, np.unique(sum(graph.cliques, ()))))
        assert finite.sum() == 12
    whole = make_random_mrf(6, **options)
    np.testing.assert_array_equal(graph.flat[finite], whole.flat[finite])
    assert graph.cliques == whole.cliques


def test_random_mrf_fraction_of_zeros():
    graph = make_random_mrf(40, n_states=4, n_cliques=300, zero_fraction=0.25, random_state=0)
    n = len(graph.flat)
    expected, spread = 0.25 * (n - 300), np.sqrt(n * 0.25 * 0.75)
    assert abs(np.isinf(graph.flat).sum() - expected) < 5 * spread


MRF_ERRORS = [
    ({"n_variables": 0}, "n_variables must be an integer >= 1; got 0."),
    ({"n_cliques": 0}, "n_cliques must be an integer >= 1; got 0."),
    (
        {"n_cliques": 11},
        "n_cliques must be at most 10, the number of distinct cliques of order 2 to 2 among 5 "
        "variables; got 11.",
    ),
    ({"order": 6}, "order must be an integer >= 1 and <= 5; got 6."),
    ({"order": (3, 2)}, "order must be a tuple (low, high) with low <= high; got (3, 2)."),
    ({"order": (1, 2, 3)}, "order must be an integer or a tuple (low, high); got (1, 2, 3)."),
    ({"n_states": 0}, "n_states must be an integer >= 1 and <= 32767; got 0."),
    (
        {"n_states": [2, 3]},
        "n_states must be an integer, a tuple (low, high) or a list of 5 integers; got a list of "
        "shape (2,).",
    ),
    (
        {"n_states": [2, 3, 0, 2, 2]},
        "n_states must be an integer >= 1 and <= 32767; got 0.",
    ),
    ({"scale": -1.0}, "scale must be a number >= 0; got -1.0."),
    ({"zero_fraction": 1.5}, "zero_fraction must be a number >= 0 and <= 1; got 1.5."),
]


@pytest.mark.parametrize(("options", "message"), MRF_ERRORS)
def test_random_mrf_errors(options, message):
    with pytest.raises(ValueError, match=f"^{re.escape(message)}$"):
        make_random_mrf(**({"n_variables": 5, "n_cliques": 3} | options))


def test_random_mrf_refuses_tables_before_memory():
    with pytest.raises(ValueError, match="more than the limit"):
        make_random_mrf(40, n_states=1000, n_cliques=1, order=12, random_state=0)


# fetch_density_benchmark: a made-up set ----------------------------------------------------

NAME = "nltcs"


def text_of(part):
    return "".join(",".join(map(str, row)) + "\n" for row in part.tolist()).encode()


def pack(path, parts, **changes):
    packed = {f"{s}_packed": np.packbits(part, axis=1) for s, part in parts.items()}
    path.parent.mkdir(parents=True, exist_ok=True)
    np.savez_compressed(path, **({"n_vars": parts["train"].shape[1]} | packed | changes))


@pytest.fixture
def parts(monkeypatch):
    """A small set under the name of a real one, known to the registry."""
    rng = np.random.default_rng(0)
    rows = {"train": 20, "valid": 5, "test": 7}
    made = {s: rng.integers(0, 2, size=(n, 11), dtype=np.uint8) for s, n in rows.items()}
    info = {"n_features": 11, "rows": rows, "sha256": density.digest(made)}
    known = density.registry()["sets"]
    monkeypatch.setitem(known, NAME, known[NAME] | info)
    return made


@pytest.fixture
def site(parts, tmp_path, monkeypatch):
    """A folder in the place of the public site."""
    folder = tmp_path / "site"
    folder.mkdir()
    for split, part in parts.items():
        (folder / f"{NAME}.{split}.data").write_bytes(text_of(part))
    monkeypatch.setitem(density.registry(), "url", folder.as_uri() + "/{name}.{split}.data")
    return folder


def assert_same(bunch, parts):
    for split, part in parts.items():
        np.testing.assert_array_equal(bunch[split], part)
        assert bunch[split].dtype == np.uint8
    assert bunch.n_features == 11
    assert bunch.name == NAME


@pytest.mark.parametrize("place", ["density20/nltcs.npz", "nltcs.npz"])
def test_fetch_offline(parts, tmp_path, place):
    pack(tmp_path / place, parts)
    bunch = fetch_density_benchmark(NAME, data_home=tmp_path, download_if_missing=False)
    assert_same(bunch, parts)
    assert "Licence: none is stated" in bunch.DESCR
    assert "UCLA-StarAI/Density-Estimation-Datasets" in bunch.DESCR


def test_fetch_reads_the_environment(parts, tmp_path, monkeypatch):
    pack(tmp_path / "nltcs.npz", parts)
    monkeypatch.setenv("SKMRF_DATA", str(tmp_path))
    assert_same(fetch_density_benchmark(NAME), parts)
    monkeypatch.delenv("SKMRF_DATA")
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("USERPROFILE", str(tmp_path))
    assert _remote.data_home_path() == tmp_path / "skmrf_data"


@pytest.mark.parametrize("ends", ["\n", "\r\n", "none at the end"])
def test_fetch_offline_from_text(parts, tmp_path, ends):
    for split, part in parts.items():
        text = text_of(part)
        text = text[:-1] if ends.startswith("none") else text.replace(b"\n", ends.encode())
        (tmp_path / f"{NAME}.{split}.data").write_bytes(text)
    bunch = fetch_density_benchmark(NAME, data_home=tmp_path, download_if_missing=False)
    assert_same(bunch, parts)


def test_fetch_unknown_name():
    with pytest.raises(ValueError, match=r"^name must be one of \['nltcs', .*'bbc'\]; got 'adult'"):
        fetch_density_benchmark("adult")
    with pytest.raises(ValueError, match=r"^data_home must be a path or None; got 3\.$"):
        fetch_density_benchmark(NAME, data_home=3)


@pytest.mark.usefixtures("parts")
def test_fetch_missing_says_how_to_place_it(tmp_path):
    message = (
        f"Data set 'nltcs' is not in {tmp_path} and download_if_missing is False. To place the "
        "data by hand, put nltcs.npz, or the text files https://"
    )
    with pytest.raises(OSError, match=f"^{re.escape(message)}") as caught:
        fetch_density_benchmark(NAME, data_home=tmp_path, download_if_missing=False)
    assert str(tmp_path / "density20") in str(caught.value)
    assert "SKMRF_DATA" in str(caught.value)


def test_fetch_detects_one_wrong_bit(parts, tmp_path):
    wrong = {s: p.copy() for s, p in parts.items()}
    wrong["valid"][2, 3] ^= 1
    path = tmp_path / "nltcs.npz"
    pack(path, wrong)
    message = (
        f"{path} does not hold the rows of 'nltcs': their sha256 is {density.digest(wrong)}, "
        f"expected {density.digest(parts)}. Delete it and fetch the data set again, or put a "
        "sound copy there."
    )
    with pytest.raises(ValueError, match=f"^{re.escape(message)}$"):
        fetch_density_benchmark(NAME, data_home=tmp_path)


def test_fetch_detects_wrong_shapes(parts, tmp_path):
    pack(tmp_path / "nltcs.npz", parts | {"test": parts["test"][:-1]})
    with pytest.raises(ValueError, match=r"test has shape \(6, 11\), but .* is \(7, 11\)"):
        fetch_density_benchmark(NAME, data_home=tmp_path)
    pack(tmp_path / "nltcs.npz", parts, n_vars=10**12)
    with pytest.raises(ValueError, match="n_vars is 1000000000000, expected 11"):
        fetch_density_benchmark(NAME, data_home=tmp_path)


@pytest.mark.parametrize("damage", ["empty", "garbage", "truncated", "flipped", "npy", "keys"])
def test_fetch_detects_damaged_archives(parts, tmp_path, damage):
    path = tmp_path / "nltcs.npz"
    pack(path, parts)
    whole = path.read_bytes()
    if damage == "npy":
        with open(path, "wb") as file:
            np.save(file, parts["train"])
    elif damage == "keys":
        np.savez(path, n_vars=11)
    else:
        middle = whole.index(b"train_packed.npy") + 60
        flipped = whole[:middle] + bytes([whole[middle] ^ 255]) + whole[middle + 1 :]
        content = {"empty": b"", "garbage": b"rows", "truncated": whole[:200], "flipped": flipped}
        path.write_bytes(content[damage])
    with pytest.raises(ValueError, match=f"^{re.escape(str(path))} is not a readable packed data"):
        fetch_density_benchmark(NAME, data_home=tmp_path)


@pytest.mark.parametrize(
    "text", [b"0,1,2\n", b"0 1 0 1 0 1 0 1 0 1 0\n" * 20, b"<html>not here</html>", b""]
)
def test_fetch_detects_text_that_is_no_table(parts, tmp_path, text):
    for split, part in parts.items():
        (tmp_path / f"{NAME}.{split}.data").write_bytes(text_of(part))
    path = tmp_path / f"{NAME}.train.data"
    path.write_bytes(text)
    message = f"{path} does not consist of rows of 11 comma-separated 0 or 1"
    with pytest.raises(ValueError, match=f"^{re.escape(message)}"):
        fetch_density_benchmark(NAME, data_home=tmp_path)


def test_download_keeps_a_packed_copy(parts, site, tmp_path):
    home = tmp_path / "home"
    assert_same(fetch_density_benchmark(NAME, data_home=home), parts)
    assert [p.name for p in (home / "density20").iterdir()] == ["nltcs.npz"]
    for file in site.iterdir():
        file.unlink()
    assert_same(fetch_density_benchmark(NAME, data_home=home), parts)


def test_download_that_fails(site, tmp_path):
    (site / "nltcs.valid.data").unlink()
    home = tmp_path / "home"
    with pytest.raises(OSError, match=r"^Could not download file://.*valid\.data .* by hand"):
        fetch_density_benchmark(NAME, data_home=home)
    assert not home.exists()


def test_download_of_other_rows(parts, site, tmp_path):
    (site / "nltcs.test.data").write_bytes(text_of(1 - parts["test"]))
    home = tmp_path / "home"
    with pytest.raises(ValueError, match=r"does not hold the rows of 'nltcs': .* by hand"):
        fetch_density_benchmark(NAME, data_home=home)
    assert not home.exists()


def test_download_is_bounded(parts, site, tmp_path):
    (site / "nltcs.test.data").write_bytes(text_of(parts["test"]) * 3)
    with pytest.raises(ValueError, match=r"holds more than the 161 bytes expected\. To place"):
        fetch_density_benchmark(NAME, data_home=tmp_path / "home")


@pytest.mark.usefixtures("site")
def test_download_to_where_nothing_can_be_written(tmp_path):
    home = tmp_path / "home"
    home.write_text("a file, not a folder")
    with pytest.raises(OSError, match=r"^Downloaded 'nltcs' but could not keep it as"):
        fetch_density_benchmark(NAME, data_home=home)


def test_a_write_that_fails_leaves_nothing(tmp_path):
    def fail(file):
        file.write(b"half")
        raise RuntimeError("stopped")

    path = tmp_path / "set.npz"
    path.write_bytes(b"old")
    with pytest.raises(RuntimeError, match="stopped"):
        _remote.write_whole(path, fail)
    assert [p.name for p in tmp_path.iterdir()] == ["set.npz"]
    assert path.read_bytes() == b"old"


def test_download_asks_the_public_site_with_a_timeout(monkeypatch, tmp_path):
    asked = []

    def urlopen(url, timeout):
        asked.append((url, timeout))
        raise TimeoutError("timed out")

    monkeypatch.setattr(urllib.request, "urlopen", urlopen)
    with pytest.raises(OSError, match=r"^Could not download https://raw\..* \(timed out\)"):
        fetch_density_benchmark("dna", data_home=tmp_path)
    assert asked == [
        (
            "https://raw.githubusercontent.com/UCLA-StarAI/Density-Estimation-Datasets/"
            "37d53c1a8ba488d0a39e8c64bd3387577080b143/datasets/dna/dna.train.data",
            _remote.TIMEOUT,
        )
    ]


# fetch_density_benchmark: the real sets ----------------------------------------------------

DEFAULT_DATA = Path(__file__).resolve().parents[2] / "shared" / "data"
DATA = Path(os.environ.get("SKMRF_TEST_DATA") or DEFAULT_DATA)
README = re.compile(
    r"(\w+)\.npz: train/valid/test (\d+)/(\d+)/(\d+) x (\d+) binary, density ([.\d]+)"
)
needs_data = pytest.mark.skipif(
    not (DATA / "density20").is_dir(), reason="no copy of the density sets; set SKMRF_TEST_DATA"
)


@needs_data
@pytest.mark.parametrize("name", list(density.registry()["sets"]))
def test_fetch_real_sets(name):
    rows = {m[1]: m for m in README.finditer((DATA / "density20" / "README").read_text())}[name]
    bunch = fetch_density_benchmark(name, data_home=DATA, download_if_missing=False)
    shapes = [bunch[s].shape for s in density.SPLITS]
    assert shapes == [(int(rows[k]), int(rows[5])) for k in (2, 3, 4)]
    assert bunch.n_features == int(rows[5])
    ones, size = (sum(f(bunch[s]) for s in density.SPLITS) for f in (np.sum, np.size))
    assert max(bunch[s].max() for s in density.SPLITS) == 1
    assert abs(ones / size - float(rows[6])) < 0.01
    documented = " ".join(str(s) for s in [name, bunch.n_features, *(x[0] for x in shapes)])
    assert documented in " ".join(fetch_density_benchmark.__doc__.split())


@needs_data
def test_download_of_a_real_set(tmp_path, monkeypatch):
    bunch = fetch_density_benchmark("dna", data_home=DATA, download_if_missing=False)
    for split in density.SPLITS:
        (tmp_path / f"dna.{split}.data").write_bytes(text_of(bunch[split]))
    url = tmp_path.as_uri() + "/{name}.{split}.data"
    monkeypatch.setitem(density.registry(), "url", url)
    fetched = fetch_density_benchmark("dna", data_home=tmp_path / "home")
    np.testing.assert_array_equal(fetched.test, bunch.test)
