"""Tests of error messages for invalid arguments of energies."""

import numpy as np
import pytest

from skmrf._utils.codes import check_states
from skmrf.energies import FactorGraph, PairwiseEnergy
from skmrf.energies.layout import Layout


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
            "The table of clique 1 (0, 1) holds nan; log-potentials are finite or -inf.",
        ),
        (
            [2, 2],
            [(0,), (0, 1)],
            [[0, np.inf], np.zeros(4)],
            None,
            "The table of clique 0 (0,) holds inf; log-potentials are finite or -inf.",
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
