"""Tests of the ends of annealing runs, of comparisons of estimates, and of sums over modes."""

import time
from math import comb
from typing import NamedTuple

import numpy as np
import pytest
from numpy.testing import assert_allclose
from zoo import ZOO, enumerate_states

from skmrf._utils.interrupts import limit_time
from skmrf._utils.results import LogPartition
from skmrf._utils.rows import Batch
from skmrf.datasets import make_ising
from skmrf.energies import BipartiteEnergy, FactorGraph, PairwiseEnergy
from skmrf.inference import log_partition, sample
from skmrf.likelihood import ais, log_partition_bounds
from skmrf.likelihood.ais import (
    AnnealingChains,
    _estimate_with_longer_paths,
    _other_length,
)
from skmrf.likelihood.annealing_paths import (
    Phase,
    ProductPath,
    estimate_phases,
)
from skmrf.samplers import Product
from skmrf.training.held_out import annealed_log_likelihoods


class _ScriptedPath(NamedTuple):
    """Annealing path whose runs have given effective shares of the chains, values and widths.

    Each run appends its number of temperatures and its number of chains to ``runs``.
    """

    shares: list
    runs: list
    zeros: bool = False
    values: tuple = (0.0,) * 5
    widths: tuple = (18.0,) * 5
    energy: PairwiseEnergy = PairwiseEnergy(np.zeros((2, 2)), np.zeros(2))
    n_chains: int = 100
    first_temperatures: int = 1000
    work: float = 2.0

    def has_zero_potentials(self):
        return self.zeros

    def with_chains(self, n_chains):
        return self._replace(n_chains=n_chains)

    def estimate(self, n_temperatures, max_width, rng):
        k = len(self.runs)
        self.runs.append((n_temperatures, self.n_chains))
        value, half, ess = self.values[k], 0.5 * self.widths[k], self.n_chains * self.shares[k]
        converged = self.widths[k] <= max_width
        return LogPartition(value, 1.0, value - half, value + half, False, "ais", converged, ess)


class _OtherPath(NamedTuple):
    """Path from another reference distribution, whose runs have given results or agree.

    Each result is a value, half of a width and an effective sample size. Each run appends its
    number of temperatures to ``runs``.
    """

    results: list
    runs: list
    n_chains: int = 100
    first_temperatures: int = 1000

    def with_chains(self, n_chains):
        return self._replace(n_chains=n_chains)

    def estimate(self, n_temperatures, max_width, rng):
        value, half, ess = self.results[len(self.runs)] if self.results else (0.0, 1e3, 50.0)
        self.runs.append(n_temperatures)
        return LogPartition(value, 1.0, value - half, value + half, False, "ais", False, ess)


def run_scripted(path, target_width=0.5, other=None, upper_of_sum=np.inf):
    """Return the result, and the numbers of temperatures and of chains of the runs."""
    paths, widths = (path, other or _OtherPath([], [])), (1.0, target_width)
    both = LogPartition(5.1, 1.0, 5.0, upper_of_sum, False, "ais", False)
    functions = _estimate_with_longer_paths.__globals__
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(functions, "estimate_phases", lambda *_: both)
        result = _estimate_with_longer_paths(paths, widths, np.random.default_rng(0), 1000)
    return result, path.runs


@pytest.mark.parametrize(
    ("shares", "zeros", "n_runs"),
    [
        ([0.15, 0.155, 0.16, 0.17, 0.17], True, 2),
        ([0.01, 0.01, 0.09, 0.09, 0.09], True, 2),
        ([0.15, 0.155, 0.16, 0.17, 0.17], False, 5),
        ([0.15, 0.2, 0.3, 0.45, 0.48], True, 5),
    ],
)
def test_path_gets_longer_while_the_ess_grows(shares, zeros, n_runs):
    _, runs = run_scripted(_ScriptedPath(shares, [], zeros))
    assert runs == [(n, 100) for n in (250, 1000, 4000, 16_000, 64_000)[:n_runs]]


def test_chains_are_added_once_the_path_is_long_enough():
    """Runs end at the target width; without it, half of the width that counts as converged."""
    path = _ScriptedPath([0.3, 0.4, 0.6, 0.6, 0.6], [], widths=(2.0, 0.8, 0.4, 0.25, 0.1))
    result, runs = run_scripted(path, 0.1)
    assert runs == [(250, 100), (1000, 100), (4000, 100), (4000, 400), (4000, 1600)]
    assert_allclose(result.upper - result.lower, 0.1)
    result, runs = run_scripted(path._replace(runs=[], widths=(2.0, 0.9, 0.18, 0.1, 0.1)), 0.1)
    assert runs[2:] == [(4000, 100), (4000, 323)]  # (0.18 / 0.1)^2 times as many
    result, runs = run_scripted(path._replace(runs=[]))
    assert runs == [(250, 100), (1000, 100), (4000, 100)]


def test_chains_are_not_added_while_two_runs_disagree():
    values, widths = (0.0, 20.0, 21.0, 21.0), (18.0, 18.0, 18.0, 0.1)
    _, runs = run_scripted(_ScriptedPath([0.9] * 4, [], values=values, widths=widths))
    assert runs == [(250, 100), (1000, 100), (4000, 100), (4000, 400)]


@pytest.mark.parametrize(
    ("values", "share", "upper"),
    [
        ((0.0, 20.0, 21.0, 22.0, 22.5), 0.2, 31.5),  # the last changes are small
        ((0.0, 20.0, 40.0, 60.0, 80.0), 0.2, np.inf),
        ((0.0, -20.0, -40.0, -60.0, -80.0), 0.2, np.inf),
        ((0.0, 0.0, 0.0, 0.0, 0.0), 0.02, np.inf),
        ((0.0, 10.0, 20.0, 30.0, 40.0), 0.2, np.inf),  # the last two intervals overlap
    ],
)
def test_estimates_that_change_with_the_length_have_no_upper_limit(values, share, upper):
    result, _ = run_scripted(_ScriptedPath([share] * 5, [], False, values))
    assert result.upper == upper
    assert not result.converged


@pytest.mark.parametrize(
    ("shares", "last", "width", "n_chains", "upper"),
    [
        ((0.9, 0.9), 0.3, 0.4, 100, 0.5),
        ((0.9, 0.9), 0.8, 0.9, 100, 1.25),  # wider than 1 nat
        ((0.9, 0.9), 4.0, 5.0, 100, 6.5),  # standard errors of 1 nat
        ((0.9, 0.9), 0.6, 0.4, 100, np.inf),  # no overlap
        ((0.9, 0.4), 0.3, 0.4, 100, np.inf),
        ((0.4, 0.9), 0.3, 0.4, 100, np.inf),
        ((0.6, 0.6), 0.3, 0.4, 4, np.inf),  # effective sample size of 2.4
    ],
)
def test_intervals_that_overlap_are_joined(monkeypatch, shares, last, width, n_chains, upper):
    monkeypatch.setitem(_estimate_with_longer_paths.__globals__, "MAX_UPDATES", 0.0)
    path = _ScriptedPath(shares, [], False, (0.0, last), (width,) * 2, n_chains=n_chains)
    result, _ = run_scripted(path)
    assert (result.value, result.upper, result.converged) == (last, upper, upper < 1.0)
    assert result.lower == (last if upper == np.inf else 0.0) - width / 2
    assert result.std_error == (1.0 if upper == np.inf else max(1.0, last / 2))


@pytest.mark.parametrize(
    ("others", "n_runs", "lower", "upper"),
    [
        ([(0.3, 0.4, 50.0)], 2, -0.2, 0.2),  # the value 0 is in the other interval
        ([(0.5, 0.4, 50.0), (0.1, 0.2, 90.0)], 3, -0.2, 0.2),  # an overlap, then agreement
        ([(0.5, 0.4, 50.0)] * 4, 5, -0.2, 0.9),  # the interval contains both
        ([(0.5, 0.8, 50.0)] * 4, 2, -0.2, 0.2),
        ([(5.0, 0.4, 50.0)] * 4, 5, 4.6, np.inf),  # the other chains found more probability
        ([(-5.0, 0.4, 50.0)] * 4, 5, -0.2, np.inf),  # the other chains missed a part
        ([(0.0, 9.0, 2.5)] * 4, 5, -0.2, np.inf),  # the other chains have too few samples
    ],
)
def test_two_references_must_agree(others, n_runs, lower, upper):
    path = _ScriptedPath([0.9] * 5, [], widths=(0.4,) * 5)
    result, runs = run_scripted(path, other=_OtherPath(others, other_runs := []))
    assert runs == [(n, 100) for n in (250, 1000, 4000, 16_000, 64_000)[:n_runs]]
    assert other_runs == [n for n, _ in runs[1:]]
    assert_allclose((result.lower, result.upper), (lower, upper))
    assert result.converged == (upper == 0.2)


@pytest.mark.parametrize(
    ("upper", "n_runs", "last"),
    [(5.2, 3, 5.2), (9.0, 5, 9.0), (4.0, 5, np.inf)],  # narrow, wide, below the other estimate
)
def test_two_references_that_disagree_twice_divide_the_states(upper, n_runs, last):
    path, other = _ScriptedPath([0.9] * 5, [], widths=(0.4,) * 5), [(5.0, 0.4, 50.0)] * 4
    result, runs = run_scripted(path, other=_OtherPath(other, []), upper_of_sum=upper)
    assert (len(runs), result.upper, result.converged) == (n_runs, last, False)


@pytest.mark.parametrize(
    ("n", "first", "length"),
    [(1000, 1000, 1000), (10, 1000, 10), (20, 100, 200), (400, 100, 1600), (1600, 100, 6400)],
)
def test_length_of_the_path_from_the_other_reference(n, first, length):
    path = _ScriptedPath([], [], first_temperatures=first)
    assert _other_length(path, _OtherPath([], []), n) == length


def test_references_that_disagree_need_a_limit_for_a_path_four_times_as_long(monkeypatch):
    """The next path is four times as long, also if twice as many chains would meet the target."""
    path = _ScriptedPath([0.9] * 5, [], widths=(0.4,) * 5)
    work = 2.0 * 1000 * path.n_chains * path.energy.sweep_work
    for limit, n_runs in ((5.1, 3), (4.9, 2)):
        monkeypatch.setitem(_estimate_with_longer_paths.__globals__, "MAX_UPDATES", limit * work)
        others = _OtherPath([(5.0, 0.4, 50.0)] * 4, [])
        result, runs = run_scripted(path._replace(runs=[]), other=others)
        assert len(runs) == n_runs
        assert result.upper == np.inf


def test_two_first_chains_become_enough_for_both_references(seed):
    energy, log_z = two_modes(0.01)
    result = ais(energy, n_chains=2, random_state=seed)
    assert result.converged
    assert result.ess >= 10
    assert result.lower - 0.1 < log_z < result.upper + 0.1


@pytest.mark.parametrize("n_rows", [0, 1])
def test_impossible_states_leave_an_upper_limit(n_rows, seed):
    """Nearly all states of the uniform distribution are impossible."""
    table = np.r_[0.0, 1.0, np.full(8, -np.inf)]
    energy = FactorGraph([10] * 10, [(i,) for i in range(10)], [table] * 10)
    start = np.zeros((n_rows, 10), dtype=int) if n_rows else None
    result = ais(energy, start=start, random_state=seed)
    log_z = 10 * np.logaddexp(0.0, 1.0)
    assert result.converged
    assert result.lower - 0.1 < log_z < result.upper + 0.1


def test_reference_model_with_zero_potentials(seed):
    """Independent variables draw few of the possible states, which are increasing sequences."""
    tables = [np.where(np.tri(3, k=-1), -np.inf, 0.0)] * 9
    weak = 0.5 * np.random.default_rng(seed).normal(size=(3, 3))
    cliques = [*((i, i + 1) for i in range(9)), (0, 9)]
    energy = FactorGraph([3] * 10, cliques, [*tables, weak])
    reference = FactorGraph([3] * 10, cliques, [*tables, np.zeros((3, 3))])
    result = ais(energy, reference=reference, random_state=seed)
    log_z = log_partition_bounds(energy, method="exact").value
    assert result.converged
    assert result.lower - 0.1 < log_z < result.upper + 0.1


class _PathOfReference(NamedTuple):
    """Annealing path that has only its reference distribution and the length of its first run."""

    reference: object
    first_temperatures: int = 1000


def record_run(monkeypatch, energy, **options):
    """Return the two reference distributions and the length of the first run, which is not run."""
    runs, names = [], ais.__globals__

    def record(paths, _widths, _rng, n_first):
        runs.append(([path.reference for path in paths], n_first))
        return LogPartition(99.0, 0.0, 99.0, 99.0, False, "ais", True, 100.0)

    monkeypatch.setitem(
        names, "_make_path", lambda _, reference, *_args: _PathOfReference(reference)
    )
    monkeypatch.setitem(names, "_estimate_with_longer_paths", record)
    ais(energy, random_state=0, **options)
    return runs[0]


def first_marginals(reference):
    """Return the probability of the second state of each variable with two states."""
    return np.exp(reference.log_p[1::2])


def test_choice_of_the_two_references(monkeypatch):
    """They are the marginals of the start or of the model, and those of the model or uniform."""
    energy = PairwiseEnergy(np.zeros((4, 4)), np.array([-2.0, -1.0, 1.0, 2.0]))
    exact, uniform = 1.0 / (1.0 + np.exp([4.0, 2.0, -2.0, -4.0])), np.full(4, 0.5)
    start = np.tile([1, 0, 1, 0], (99, 1))
    rows = np.array([0.995, 0.005, 0.995, 0.005])
    given = Product.from_counts(1 - start, energy.visible_states)
    for options, expected in (
        ({}, (exact, uniform)),
        ({"start": start}, (rows, exact)),
        ({"reference": given}, (1.0 - rows, exact)),
        ({"reference": given, "start": start}, (1.0 - rows, exact)),
    ):
        references, _ = record_run(monkeypatch, energy, **options)
        found = [first_marginals(reference) for reference in references]
        assert_allclose(found, expected, atol=0.05)
        assert np.abs(found[0] - found[1]).max() > 0.1


def test_choice_of_the_two_references_with_zero_potentials(monkeypatch):
    table = np.array([[0.0, 1.0], [1.0, -np.inf]])
    energy = FactorGraph([2, 2], [(0, 1)], [table])
    for options in ({"moves": "gibbs"}, {"moves": "gibbs", "start": np.zeros((1, 2), dtype=int)}):
        (first, second), _ = record_run(monkeypatch, energy, **options)
        for reference in (first, second):
            assert_allclose(first_marginals(reference), np.e / (1.0 + 2.0 * np.e), atol=0.06)
        assert (first.log_p != second.log_p).any()  # other chains
    reference = FactorGraph([2, 2], [(0, 1)], [2.0 * table])
    (first, second), _ = record_run(monkeypatch, energy, reference=reference)
    assert first is reference
    assert_allclose(second.flat, table.ravel())


def test_reference_has_the_marginals_of_many_chains(monkeypatch):
    """The marginals of two chains would have standard errors of 0.35."""
    energy = PairwiseEnergy(np.zeros((50, 50)), np.zeros(50))
    (first, _), _ = record_run(monkeypatch, energy, n_chains=2)
    assert 0.01 < np.sqrt(np.mean((first_marginals(first) - 0.5) ** 2)) < 0.02


@pytest.mark.parametrize(("device", "sizes"), [(None, [1024]), ("any", [300] * 4)])
def test_chains_of_a_reference_on_a_device(monkeypatch, device, sizes):
    """A device moves at least 1024 chains, as many at a time as in other runs."""
    found = []

    def record(_, X, *__, **___):
        found.append(len(X))
        return X, None

    monkeypatch.setitem(AnnealingChains.fit_reference.__globals__, "sweep", record)
    monkeypatch.setattr(AnnealingChains, "spawn", lambda *_: None)
    energy = PairwiseEnergy(np.zeros((50, 50)), np.zeros(50))
    chains = AnnealingChains(300, device=device)
    reference = chains.fit_reference(energy, np.random.default_rng(0))
    assert found == sizes
    assert np.abs(first_marginals(reference) - 0.5).max() < 0.08


def forest_and_model(states, rng, n=10):
    """Return a forest with strong couplings, and a model with further weak couplings."""
    coupling = np.zeros((n, n))
    for i in range(1, n):
        coupling[i, rng.integers(i)] = rng.normal(0.0, 8.0) / (states[1] - states[0]) ** 2
    weak = np.triu(rng.normal(0.0, 0.1, (n, n)), 1)
    forest = PairwiseEnergy(coupling + coupling.T, rng.normal(size=n), states)
    coupling = forest.coupling + weak + weak.T
    return forest, forest.with_theta({"coupling": coupling, "bias": forest.bias})


@pytest.mark.parametrize("device", ["cpu", "jax"])
@pytest.mark.parametrize("states", [(-1, 1), (0, 1)])
def test_path_from_a_pairwise_forest(states, device, seed):
    if device == "jax":
        pytest.importorskip("jax")
    forest, energy = forest_and_model(states, np.random.default_rng(seed))
    exact = log_partition_bounds(energy, method="exact").value
    how = {"n_temperatures": 50, "random_state": seed, "device": device}
    result = ais(energy, reference=forest, **how)
    assert abs(result.value - exact) < max(5 * result.std_error, 1e-4)
    assert result.upper - result.lower < 0.5
    itself = ais(forest, reference=forest, **how)
    exact = log_partition_bounds(forest, method="exact").value
    assert_allclose([itself.lower, itself.upper], exact, atol=1e-4)


def test_scores_with_chains_of_rare_states(seed):
    """Rare states that imply each other are found from a forest, and missed from a product."""
    rng, n = np.random.default_rng(seed), 20
    coupling, weak = np.zeros((n, n)), np.triu(rng.normal(0.0, 0.1, (n, n)), 1)
    later = np.delete(np.arange(1, n), 9)  # two chains of ten variables
    coupling[later - 1, later] = 13.0
    forest = PairwiseEnergy(coupling + coupling.T, np.full(n, -12.0), (0, 1))
    energy = PairwiseEnergy(forest.coupling + weak + weak.T, forest.bias, (0, 1))
    X = (rng.random((50, n)) < 0.01).astype(int)
    exact = energy.log_potential(X) - log_partition_bounds(energy, method="exact").value
    scores = [annealed_log_likelihoods(energy, Batch(X), X, "cpu", p) for p in (forest, None)]
    assert_allclose(scores[0], exact, atol=0.1)
    assert np.abs(scores[1] - exact).max() > 1.0


def test_pairwise_reference_with_other_states_raises():
    forest, energy = (forest_and_model(s, np.random.default_rng(0))[0] for s in [(0, 1), (-1, 1)])
    with pytest.raises(ValueError, match="same number of variables and the same states"):
        ais(energy, reference=forest)


@pytest.mark.parametrize("n_rows", [0, 3])
def test_first_runs_take_most_of_the_time_limit(monkeypatch, n_rows):
    """The model takes 50 ms to move the chains by a sweep."""
    energy, limit = PairwiseEnergy(np.zeros((3, 3)), np.zeros(3)), 150.0
    timed = AnnealingChains(1024, sweep_seconds=0.05 / 1024)
    monkeypatch.setattr(AnnealingChains, "with_time", lambda *_: timed)
    names = AnnealingChains.affordable_sweeps.__globals__
    monkeypatch.setitem(names, "remaining_time", lambda: limit)
    start = np.zeros((n_rows, 3), dtype=int) if n_rows else None
    _, n_first = record_run(monkeypatch, energy, n_chains=1024, start=start)
    n_directions = 3  # forward, and two sets of reverse chains
    n_sweeps = 2.25 * n_directions * n_first + 3 * 2 * min(100, n_first)
    assert 0.6 * limit < 0.05 * n_sweeps < limit


def test_annealing_of_a_large_model_ends_in_time(seed):
    """A search of states and a short path take part of the time; a state limits log Z."""
    how = {"method": "ais", "random_state": seed}
    energy = make_ising("grid", n_variables=900, coupling=0.9)
    log_partition(make_ising("grid", n_variables=16, coupling=0.9), time_limit=1.0, **how)
    began = time.process_time()
    with pytest.warns(UserWarning, match="time limit is too short"):
        result = log_partition(energy, time_limit=0.5, **how)
    assert time.process_time() - began < 1.5
    best = energy.log_potential(np.ones((1, 900), dtype=int))[0]
    assert 0.8 * best < result.lower <= result.value
    assert result.upper == np.inf


@pytest.mark.parametrize("n_temperatures", [None, 200])
def test_limits_contain_rare_states_that_no_chain_draws(n_temperatures, seed):
    """The reference has rare states with almost no probability in the model."""
    rng = np.random.default_rng(seed)
    for n_states in (2, 4):
        table = 200.0 * rng.normal(size=n_states)
        how = {"n_temperatures": n_temperatures, "random_state": seed}
        result = ais(FactorGraph([n_states], [(0,)], [table]), **how)
        log_z = np.logaddexp.reduce(table)
        assert result.lower - 1e-9 <= log_z <= result.upper + 1e-9
        assert result.upper - result.lower < 0.05


def test_one_run_with_a_given_reference_makes_no_other_reference(monkeypatch):
    monkeypatch.setattr(AnnealingChains, "fit_reference", None)
    energy, _ = two_modes(0.01)
    uniform = Product.uniform(energy.visible_states)
    assert ais(energy, reference=uniform, n_temperatures=10, random_state=0).upper < np.inf


def two_modes(strength=0.1, field=0.0375):
    """Return a model whose 40 variables have one of two common states, and its log Z."""
    n = 40
    spin_sum = 2 * np.arange(n + 1) - n
    log_f = 0.5 * strength * (spin_sum**2 - n) + field * spin_sum
    log_counts = np.log([float(comb(n, k)) for k in range(n + 1)])
    energy = PairwiseEnergy(strength * (1.0 - np.eye(n)), np.full(n, field))
    return energy, np.logaddexp.reduce(log_f + log_counts)


def anneal_from_small_states(monkeypatch, energy, seed):
    """Return log Z from a path that starts at states with few ones, and from this path alone."""
    monkeypatch.setitem(_estimate_with_longer_paths.__globals__, "MAX_UPDATES", 1e8)
    start = (np.random.default_rng(seed).random((128, energy.n_variables)) < 0.02).astype(int)
    near = Product.from_counts(start, energy.visible_states)
    how = {"start": start, "random_state": seed}
    single = ais(energy, reference=near, n_temperatures=1000, **how)
    with pytest.warns(UserWarning, match="ended at different modes"):
        return ais(energy, **how), single


def test_a_mode_that_one_reference_misses(monkeypatch, seed):
    """Chains from states of the smaller mode find only this mode. The second path finds both."""
    energy, log_z = two_modes()
    result, single = anneal_from_small_states(monkeypatch, energy, seed)
    assert single.upper < log_z - 2.0
    assert single.converged
    assert result.lower - 0.1 < log_z < result.upper + 0.1
    assert result.upper - result.lower < 0.5
    assert not result.converged


def separated_modes(n=40, share=0.5):
    """Return a model of n coupled variables whose states have few ones or few zeros, and log Z.

    About ``share`` of the probability belongs to the states with few zeros.
    """
    k, strength = np.arange(n + 1), 8.0 / n
    bias = np.log(share / (1.0 - share)) / n - 0.5 * strength * (n - 1)
    log_f = 0.5 * strength * k * (k - 1) + bias * k + np.log([float(comb(n, i)) for i in k])
    energy = PairwiseEnergy(strength * (1.0 - np.eye(n)), np.full(n, bias), states=(0, 1))
    return energy, np.logaddexp.reduce(log_f)


@pytest.mark.parametrize("share", [0.1, 0.5, 0.9])
def test_two_paths_that_end_at_different_modes(share, seed):
    energy, log_z = separated_modes(share=share)
    rng, chains = np.random.default_rng(seed), AnnealingChains(128)
    rows = (rng.random((128, 40)) < 0.02).astype(int)
    starts = [Product.from_counts(X, energy.visible_states) for X in (rows, 1 - rows)]
    paths = [ProductPath(energy, start, None, chains) for start in starts]
    single = [path.estimate(1000, 1.0, rng) for path in paths]
    lost = np.log([1.0 - share, share])
    assert_allclose([result.value - log_z for result in single], lost, atol=0.1)
    result = estimate_phases(paths, (1000, 1000), 1.0, rng)
    assert result.lower - 0.05 < log_z < result.upper + 0.05
    assert result.upper - result.lower < 0.2
    assert not result.converged


def test_modes_that_two_paths_miss(seed):
    """Both paths end at one of four modes with equal probabilities, so the sum lacks log 2."""
    n = 40
    patterns = np.ones((2, n))
    patterns[1, n // 2 :] = -1.0
    coupling = 3.5 / n * patterns.T @ patterns
    np.fill_diagonal(coupling, 0.0)
    energy, rng = PairwiseEnergy(coupling, np.zeros(n)), np.random.default_rng(seed)
    p = np.where(patterns > 0, 0.97, 0.03)
    starts = [Product(np.log([1.0 - q, q]).T.ravel(), 2 * np.arange(n)) for q in p]
    paths = [ProductPath(energy, start, None, AnnealingChains(128)) for start in starts]
    result = estimate_phases(paths, (1000, 1000), 1.0, rng)
    ones = np.arange(n // 2 + 1)
    log_counts = np.log([float(comb(n // 2, k)) for k in ones])
    spins = 2.0 * ones - n // 2
    log_f = 3.5 / n * (spins[:, None] ** 2 + spins**2 - n) + log_counts[:, None] + log_counts
    assert_allclose(result.value, np.logaddexp.reduce(log_f, axis=None) - np.log(2.0), atol=0.1)
    assert not result.converged


@pytest.mark.parametrize("index", [0, 1])
def test_sum_over_a_part_of_the_states(index, seed):
    energy, rng = ZOO["spin_glass"](seed), np.random.default_rng(seed)
    states, log_f = enumerate_states(energy)
    products = tuple(Product.from_counts(states[k], energy.visible_states) for k in ([0], [-1]))
    phase = Phase(products, index)
    uniform = Product.uniform(energy.visible_states)
    path = ProductPath(energy, uniform, states, AnnealingChains(256))
    result = path.estimate(1000, 1.0, rng, phase)
    exact = np.logaddexp.reduce(log_f[phase.contains(states)])
    assert result.lower - 0.1 < exact < result.upper + 0.1


def test_both_references_confirm_a_model_with_two_modes(seed):
    energy, log_z = two_modes(0.05)
    result = ais(energy, random_state=seed)
    assert result.lower - 0.1 < log_z < result.upper + 0.1
    assert result.converged


def model_with_a_cold_mode():
    """Return a model with a mode that annealing to beta = 1 misses, and its log Z.

    A hidden unit is 1 if many more visible units are 1 than is common at beta = 1.
    """
    n, field, weight, bias = 150, 0.6, 3.0, -375.0
    energy = BipartiteEnergy(np.full((n, 1), weight), np.full(n, field), np.full(1, bias))
    parts = n * np.logaddexp(0.0, field), bias + n * np.logaddexp(0.0, field + weight)
    return energy, np.logaddexp(*parts)


def test_modes_of_simulated_annealing_raise_the_upper_limit(monkeypatch, seed):
    energy, log_z = model_with_a_cold_mode()
    with (
        limit_time(2.0),
        pytest.warns(UserWarning, match="nnealed importance sampling"),
    ):
        found = ais(energy, random_state=seed)
    assert found.upper > log_z > found.lower
    assert not found.converged
    monkeypatch.setattr(AnnealingChains, "find_modes", lambda *_: None)
    with limit_time(2.0):
        assert ais(energy, random_state=seed).upper < log_z - 5.0


def test_search_of_modes_returns_the_best_states(seed):
    rng = np.random.default_rng(seed)
    coupling = np.triu(rng.normal(size=(10, 10)), 1)
    energy = PairwiseEnergy(coupling + coupling.T, rng.normal(size=10))
    found = energy.log_potential(AnnealingChains(128).find_modes(energy, rng))
    assert_allclose(found[0], enumerate_states(energy)[1].max())
    assert (np.diff(found) <= 0).all()
    unequal = np.array([[-np.inf, 0.0], [0.0, -np.inf]])
    impossible = FactorGraph([2, 2, 2], [(0, 1), (1, 2), (0, 2)], [unequal] * 3)
    assert AnnealingChains(128).find_modes(impossible, rng) is None


# Devices -----------------------------------------------------------------------------------


def draw_and_anneal(n_chains, seed=0):
    """Return samples and an estimate of log Z of a small model, from chains on a device of JAX."""
    energy = BipartiteEnergy(np.eye(3, 2), np.zeros(3), np.zeros(2))
    options = {"random_state": seed, "device": "jax"}
    X = sample(energy, n_chains, method="gibbs", n_sweeps=5, **options)
    return X, ais(energy, n_chains=n_chains, n_temperatures=20, **options)


def test_few_numbers_of_chains_are_compiled(seed):
    """Numbers of chains with the same next power of two use the same functions."""
    loop = pytest.importorskip("skmrf._jax.chains").LAYERS.compiled_loop
    draw_and_anneal(128)
    n_compiled = loop._cache_size()
    exact = 2 * np.log(3 + np.e) + np.log(2)
    for n_chains in (65, 100):
        X, result = draw_and_anneal(n_chains, seed)
        assert X.shape == (n_chains, 5)
        assert abs(result.value - exact) < 0.5
        assert result.ess <= n_chains
    assert loop._cache_size() == n_compiled


def test_too_little_memory_for_chains(monkeypatch):
    devices = pytest.importorskip("skmrf._jax.devices")
    monkeypatch.setattr(devices.Device, "free_bytes", 1000.0)
    with pytest.raises(MemoryError, match=r"Sampling needs about .* of the device, and 1000 are"):
        draw_and_anneal(100)
