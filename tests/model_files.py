"""Valid and invalid model files, for the tests of reading and writing."""

import gzip
import math
import os
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st

from skmrf.energies import FactorGraph

DATA = Path(os.environ.get("SKMRF_TEST_DATA", Path(__file__).parents[2] / "shared" / "data"))
MODELS = sorted([*DATA.glob("uai2014/*/*.uai.gz"), *DATA.glob("libdai/*.uai.gz")])
needs_data = pytest.mark.skipif(not MODELS, reason="SKMRF_TEST_DATA has no UAI files")

GOOD = """MARKOV
3
2 1 3
3
1 0
0
2 2 0

2
 0.5 1e-3

1
 7

6
 1 2 3
 0 5 6
"""
GOOD_FG = """# made by hand
3

1
1000
2
2
1 1e-3
0 0.5

0


1
0 7

# labels have gaps, and the first variable is fastest
2
7 3
3 2
5
0 1
3 2
1 3
2 5
5 6
"""
LN10 = math.log(10.0)

in_one_folder = settings(
    deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture], derandomize=True
)


def write(folder, text, name="file"):
    path = folder / name
    data = text if isinstance(text, bytes) else text.encode()
    path.write_bytes(gzip.compress(data) if name.endswith(".gz") else data)
    return path


def fails(read, path, message):
    """Check that reading a file raises a ValueError with the path and the given message."""
    with pytest.raises(ValueError) as caught:
        read(path)
    assert str(caught.value) == f"{path}: {message}"


@st.composite
def graphs(draw):
    n_states = draw(st.lists(st.integers(1, 4), max_size=5))
    members = st.permutations(range(len(n_states)))
    cliques, tables = [], []
    for _ in range(draw(st.integers(0, 6))):
        clique = tuple(draw(members)[: draw(st.integers(0, 3))])
        size = math.prod(n_states[v] for v in clique)
        usual = st.floats(-50.0, 50.0)
        value = st.one_of(usual, st.floats(-2e18, 2e18), st.just(-math.inf))
        table = draw(st.lists(value, min_size=size, max_size=size))
        table[draw(st.integers(0, size - 1))] = draw(usual)
        cliques.append(clique)
        tables.append(table)
    return FactorGraph(n_states, cliques, tables)
