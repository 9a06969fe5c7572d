"""Tests of UAI files of evidence and results."""

import json
import math

import numpy as np
import pytest
from model_files import DATA, LN10, fails, needs_data, write
from numpy.testing import assert_allclose, assert_array_equal

from skmrf.io import read_evidence, read_result, read_uai

# evidence ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "evidence"),
    [
        ("", {}),
        (" \n\n", {}),
        ("0", {}),
        ("1\n0\n", {}),
        ("# none\n0", {}),
        ("2 7 0 3 1", {7: 0, 3: 1}),
        ("2\n7 0\n3 1\n", {7: 0, 3: 1}),
        ("1 4 2", {4: 2}),
        ("1\n2 7 0 3 1", {7: 0, 3: 1}),
        ("1\n1 4 2", {4: 2}),
        ("2\n0\n1 3 1", {0: 1, 3: 1}),  # two samples would do as well
    ],
)
@pytest.mark.parametrize("name", ["evid", "evid.gz"])
def test_forms_of_evidence(tmp_path, text, evidence, name):
    assert read_evidence(write(tmp_path, text, name)) == evidence


EVIDENCE_ERRORS = {
    "2 7 0 3": "line 1, token 5: expected 2 observed variables with their states, found the end "
    "of the file.",
    "1": "line 1, token 2: expected 1 observed variables with their states, found the end of the "
    "file.",
    "1\n2 7 0 3": "line 2, token 3: expected the end of the file after 1 observed variables with "
    "their states, found '0'.",
    "1\n2 7 0 3 1 5 5": "line 2, token 6: expected the end of the file after 2 observed variables "
    "with their states, found '5'.",
    "0 0": "line 1, token 2: expected the end of the file after 0 observed variables with their "
    "states, found '0'.",
    "2\n1 0 1\n1 0 0": "line 1, token 1: expected evidence of one sample, found 2 samples.",
    "3\n0\n0\n0": "line 1, token 1: expected evidence of one sample, found 3 samples.",
    "2 7 0 7 1": "line 1, token 4: expected a variable that was not named yet, found '7'.",
    "1 -7 0": "line 1, token 2: expected a count, a variable or a state (an integer from 0 to "
    "999999999999999999), found '-7'.",
    "1 7 1.0": "line 1, token 3: expected a count, a variable or a state (an integer from 0 to "
    "999999999999999999), found '1.0'.",
}


@pytest.mark.parametrize(("text", "message"), EVIDENCE_ERRORS.items())
def test_malformed_evidence(tmp_path, text, message):
    fails(read_evidence, write(tmp_path, text), message)


@needs_data
def test_real_evidence_can_be_applied():
    paths = sorted(DATA.glob("uai2014/*/*.evid.gz"))
    assert paths
    observed = 0
    for path in paths:
        graph = read_uai(path.with_name(path.name.replace(".evid", "")))
        evidence = read_evidence(path)
        observed += len(evidence)
        assert graph.condition(evidence).n_variables == graph.n_variables - len(evidence)
    assert observed > 0


# results ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "log10"),
    [
        ("PR\n2.5\n", 2.5),
        ("PR 1", 1.0),
        ("PR\n1\n2.5", 2.5),
        ("PR\n-BEGIN-\n1\n2.5", 2.5),
        ("PR\n1\nabc\n-BEGIN-\n1\n2.5\n-BEGIN-\n1\n-3", -3.0),
        ("PR\n-inf", -math.inf),
    ],
)
def test_partition_functions_are_read_in_nats(tmp_path, text, log10):
    result = read_result(write(tmp_path, text))
    assert result.kind == "PR"
    assert isinstance(result.value, float)
    assert result.value == log10 * LN10


@pytest.mark.parametrize(
    ("text", "marginals"),
    [
        ("MAR\n2 2 0.25 0.75 3 0 1 0", [[0.25, 0.75], [0, 1, 0]]),
        ("MAR\n1\n2 2 0.25 0.75 3 0 1 0", [[0.25, 0.75], [0, 1, 0]]),
        ("MAR\n1 2 0.25 0.75", [[0.25, 0.75]]),
        ("MAR\n1\n1 2 0.25 0.75", [[0.25, 0.75]]),
        ("MAR\n1 1 1", [[1.0]]),
        ("MAR\n1 1 1 1", [[1.0]]),
        ("MAR 0", []),
        ("MAR 1 0", []),
        ("MAR 1 1 .5 -BEGIN- 1 1 1.0000001", [[1.0000001]]),
    ],
)
def test_marginals(tmp_path, text, marginals):
    result = read_result(write(tmp_path, text))
    assert result.kind == "MAR"
    assert [m.tolist() for m in result.value] == marginals


@pytest.mark.parametrize(
    ("text", "states"),
    [
        ("MAP\n3 0 2 1", [0, 2, 1]),
        ("MPE\n3 0 2 1", [0, 2, 1]),
        ("MAP\n1\n3 0 2 1", [0, 2, 1]),
        ("MAP\n1 0", [0]),
        ("MAP\n1 1 0", [0]),
        ("MAP\n0", []),
        ("MAP\n3 0 0 0\n-BEGIN-\n3 0 2 1", [0, 2, 1]),
    ],
)
def test_states(tmp_path, text, states):
    result = read_result(write(tmp_path, text, "r.gz"))
    assert result.kind == "MAP"
    assert np.issubdtype(result.value.dtype, np.integer)
    assert_array_equal(result.value, states)


RESULT_ERRORS = {
    "": "line 1, token 1: expected PR, MAR, MAP or MPE, found the end of the file.",
    "MMAP 1 0 0": "line 1, token 1: expected PR, MAR, MAP or MPE, found 'MMAP'.",
    "PR": "line 1, token 2: expected a solution, found the end of the file.",
    "PR\n2\n-BEGIN-\n": "line 3, token 2: expected a solution, found the end of the file.",
    "PR\nnan": "line 2, token 1: expected log10 Z (a finite number, or -inf), found 'nan'.",
    "PR\nx": "line 2, token 1: expected log10 Z (a finite number, or -inf), found 'x'.",
    "PR\n1\ninf": "line 3, token 1: expected log10 Z (a finite number, or -inf), found 'inf'.",
    "PR\n2\n3": "line 3, token 1: expected the end of the file after log10 Z, found '3'.",
    "MAR\n2 2 0.5 0.5": "line 2, token 5: expected the number of states (an integer, at least "
    "1), found the end of the file.",
    "MAR\n2 2 .5 .5 3 0 1": "line 2, token 5: expected the number of states (an integer, at most "
    "2, as many as tokens follow), found '3'.",
    "MAR\n2 2 .5 .5 0": "line 2, token 5: expected the number of states (an integer, at least "
    "1), found '0'.",
    "MAR\n1\n1 2 .5 .6 .7": "line 3, token 5: expected the end of the file after the marginals "
    "of 1 variables, found '.7'.",
    "MAR\n2 2 .5 .5 1 -1": "line 2, token 6: expected a probability, found '-1'.",
    "MAR\n2 2 .5 .5 1 1.1": "line 2, token 6: expected a probability, found '1.1'.",
    "MAR\n2 2 .5 nan 1 1": "line 2, token 4: expected a probability, found 'nan'.",
    "MAP\n1": "line 2, token 2: expected the number of variables (an integer, at least 0), found "
    "the end of the file.",
    "MAP\n3 0 1": "line 2, token 1: expected the number of variables (an integer, at most 2, as "
    "many as tokens follow), found '3'.",
    "MAP\n3 0 1 0 1": "line 2, token 5: expected the end of the file after the states of 3 "
    "variables, found '1'.",
    "MAP\n2 0 -1": "line 2, token 3: expected a state (an integer from 0 to 32766), found '-1'.",
    "MAP\n2 0 0.5": "line 2, token 3: expected a state (an integer from 0 to 32766), found '0.5'.",
}


@pytest.mark.parametrize(("text", "message"), RESULT_ERRORS.items())
def test_malformed_results(tmp_path, text, message):
    fails(read_result, write(tmp_path, text), message)


@needs_data
def test_real_results_fit_their_models():
    reference = json.loads((DATA / "uai2014" / "reference.json").read_text())
    for path in sorted(DATA.glob("uai2014/*/*.uai.gz")):
        name = path.name.removesuffix(".uai.gz")
        graph = read_uai(path)
        facts = reference[path.parent.name][name]
        assert (graph.n_variables, graph.layout.n_cliques) == (facts["n"], facts["m"])
        for kind in ("PR", "MAR", "MAP"):
            solution = path.with_name(f"{name}.uai.{kind}.gz")
            if not solution.exists():
                continue
            result = read_result(solution)
            assert result.kind == kind
            if kind == "PR":
                assert_allclose(result.value, facts["pr"] * LN10)
            elif kind == "MAR":
                assert_array_equal([len(m) for m in result.value], graph.n_states)
                assert_allclose([m.sum() for m in result.value], 1.0, atol=5e-6)
            else:
                score = graph.log_potential(result.value[None])
                assert_allclose(score, facts["map_log10"] * LN10)
