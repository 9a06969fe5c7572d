"""Tests of exact inference in published models."""

import gzip
import json
import time

import numpy as np
import pytest
from numpy.testing import assert_allclose

from skmrf import exact
from skmrf._utils.codes import MISSING, STATE
from skmrf.io import read_evidence, read_result, read_uai

LN10 = np.log(10.0)


def evidence_row(graph, evidence):
    row = np.full((1, graph.n_variables), MISSING, dtype=STATE)
    for variable, state in evidence.items():
        row[0, variable] = state
    return row


@pytest.mark.parametrize("name", ["testfast", "alarm", "hoi1", "hoi2", "hoi3", "hoi4"])
def test_libdai(name, data_folder):
    folder = data_folder("libdai")
    expected = json.loads(gzip.decompress((folder / "exact_by_ve.json.gz").read_bytes()))[name]
    graph = read_uai(folder / f"{name}.uai.gz")
    plan = exact.prepare(graph.layout)
    log_z = exact.log_partitions(plan, graph.flat)[0]
    assert_allclose(log_z, expected["logZ"], rtol=0, atol=1e-9)
    mode = exact.maximise(plan, graph.flat)
    assert_allclose(graph.log_potential(mode)[0], expected["log_map"], rtol=0, atol=1e-9)
    singles = exact.single_marginals(plan, graph.flat)[0]
    assert_allclose(singles, np.concatenate(expected["marginals"]), rtol=0, atol=1e-9)


def slow(*names):
    return [pytest.param(name, marks=pytest.mark.slow) for name in names]


@pytest.mark.parametrize(
    "name",
    [
        "Alchemy_11",
        "CSP_12",
        "Grids_11",
        "Grids_13",
        "Pedigree_12",
        "Promedus_11",
        "Promedus_15",
        "Promedus_24",
        "Promedus_33",
        "Segmentation_12",
        "Segmentation_14",
        "Segmentation_16",
        *slow("DBN_11", "DBN_13", "Grids_15", "Grids_17"),
        *slow("ObjectDetection_28", "ObjectDetection_74"),
    ],
)
def test_uai_2014_partition_and_marginals(name, data_folder):
    folder = data_folder("uai2014")
    reference = json.loads((folder / "reference.json").read_text())["PR_MAR"][name]
    path = folder / "PR_MAR" / f"{name}.uai"
    graph = read_uai(f"{path}.gz")
    row = evidence_row(graph, read_evidence(f"{path}.evid.gz"))
    plan = exact.prepare(graph.layout, row[0] != MISSING)
    log_z = exact.log_partitions(plan, graph.flat, row)[0]
    assert_allclose(log_z / LN10, reference["my_log10Z"], rtol=0, atol=1e-5)
    published = read_result(f"{path}.PR.gz").value
    assert_allclose(log_z, published, rtol=1e-5)
    singles = exact.single_marginals(plan, graph.flat, row)[0]
    marginals = read_result(f"{path}.MAR.gz").value
    assert_allclose(singles, np.concatenate(marginals), rtol=0, atol=1e-5)


@pytest.mark.parametrize(
    ("kind", "name"),
    [
        ("PR_MAR", "2bitcomp_5.cnf"),
        ("PR_MAR", "linkage_11"),
        ("PR_MAR", "linkage_16"),
        ("MAP", "Grids_26"),
        ("MAP", "Grids_29"),
        ("MAP", "ImageAlignment_12"),
        ("MAP", "Promedas_69"),
        ("MAP", "wcsp_15"),
    ],
)
def test_uai_2014_too_wide(kind, name, data_folder):
    path = data_folder("uai2014") / kind / f"{name}.uai"
    graph = read_uai(f"{path}.gz")
    row = evidence_row(graph, read_evidence(f"{path}.evid.gz"))
    start = time.perf_counter()
    with pytest.raises(ValueError, match=r"^Exact inference needs .* bytes"):
        exact.prepare(graph.layout, row[0] != MISSING)
    assert time.perf_counter() - start < 10


@pytest.mark.parametrize("name", ["Segmentation_12", "Segmentation_16"])
def test_uai_2014_mode(name, data_folder):
    folder = data_folder("uai2014")
    reference = json.loads((folder / "reference.json").read_text())["MAP"][name]
    path = folder / "MAP" / f"{name}.uai"
    graph = read_uai(f"{path}.gz")
    row = evidence_row(graph, read_evidence(f"{path}.evid.gz"))
    plan = exact.prepare(graph.layout, row[0] != MISSING)
    best = graph.log_potential(exact.maximise(plan, graph.flat, row))[0]
    published = graph.log_potential(read_result(f"{path}.MAP.gz").value[None])[0]
    assert_allclose(best / LN10, reference["exact_log10"], rtol=0, atol=1e-8)
    assert_allclose(published / LN10, reference["map_log10"], rtol=0, atol=1e-8)
    assert best > published
