"""Tests of delayed keyboard interrupts."""

import signal
import subprocess
import sys
import threading
import time

import numpy as np
import pytest

from skmrf._kernels.ordering import adjacency_bits, greedy_order
from skmrf._kernels.tables import incidence
from skmrf._utils import interrupts
from skmrf._utils.interrupts import InterruptLater
from skmrf.energies import PairwiseEnergy
from skmrf.inference import map_assignment

FITS = """
import signal, sys, warnings
import numpy as np
from skmrf import DiscreteMRF

warnings.simplefilter("ignore")
rng = np.random.default_rng(int(sys.argv[1]))
X = rng.integers(2, size=(200, 12))
settings = {"alpha": 0.0, "max_iter": 400, "optimizer": "sgd", "average": False, "random_state": 0}
DiscreteMRF(learner="pcd", **settings | {"max_iter": 2}).fit(X)
signal.signal(signal.SIGALRM, lambda *_: signal.raise_signal(signal.SIGINT))
for _ in range(40):
    signal.setitimer(signal.ITIMER_REAL, rng.uniform(0.01, 0.06))
    model = DiscreteMRF(learner="pcd", **settings).fit(X)
    signal.setitimer(signal.ITIMER_REAL, 0)
    assert model.n_iter_ == len(model.history_.get("gradient_rms", []))
    assert np.isfinite(model.score_samples(X[:3])).all()
print("whole")
"""


def press():
    signal.raise_signal(signal.SIGINT)


@pytest.fixture(autouse=True)
def handler():
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
    signal.signal(signal.SIGINT, before)


def run_nested_blocks(done, times):
    """Press Ctrl-C at the start of a nested block."""
    with InterruptLater():
        with InterruptLater():
            for _ in range(times):
                press()
            done.append("inner")
        done.append("outer")


@pytest.mark.parametrize("times", [1, 2])
def test_interrupt_waits_for_the_outermost_block(times):
    """Check Ctrl-C pressed once, and twice at the same moment as some terminals do."""
    done = []
    with pytest.raises(KeyboardInterrupt):
        run_nested_blocks(done, times)
    assert done == ["inner", "outer"]


def test_second_interrupt_is_immediate(monkeypatch):
    monkeypatch.setattr(interrupts, "SECOND_PRESS_DELAY", -1.0)
    done = []
    with pytest.raises(KeyboardInterrupt):
        run_nested_blocks(done, 2)
    assert done == []


def test_errors_take_precedence():
    def fails():
        with InterruptLater():
            press()
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        fails()


def test_custom_handlers_are_kept():
    heard = []

    def mine(number, _frame):
        heard.append(number)

    signal.signal(signal.SIGINT, mine)
    with InterruptLater():
        press()
        assert heard == [signal.SIGINT]
    assert signal.signal(signal.SIGINT, signal.default_int_handler) is mine


def test_other_threads_are_unaffected():
    kept = []

    def work():
        with InterruptLater() as later:
            kept.append(later.is_active)

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert kept == [False]


@pytest.mark.skipif(not hasattr(signal, "setitimer"), reason="needs a timer of POSIX")
def test_interrupted_fit_is_consistent(seed):
    """Check an interrupted fit, which without the delay crashes or is inconsistent."""
    run = [sys.executable, "-c", FITS, str(seed)]
    found = subprocess.run(run, capture_output=True, text=True, timeout=300)
    assert (found.returncode, found.stdout) == (0, "whole\n"), found.stderr[-2000:]


@pytest.mark.skipif(not hasattr(signal, "setitimer"), reason="needs a timer of POSIX")
def test_interrupted_kernels_raise_keyboard_interrupt():
    """Functions that return arrays of compiled code raise nothing but KeyboardInterrupt."""
    cliques = (np.array([0, 2, 4]), np.array([0, 1, 1, 2]))
    free, log_states, rank = np.ones(3, dtype=bool), np.zeros(3), np.arange(3.0)
    raised = set()

    def call_for(seconds):
        end = time.monotonic() + seconds
        is_first = True
        while is_first or time.monotonic() < end:
            is_first = False
            incidence(*cliques, np.array([1, 1, 1, 1]), 3)
            bits = adjacency_bits(*cliques, free, 3)
            greedy_order(bits, free, log_states, np.ones(3), rank, 1.0)

    call_for(0.0)  # compile
    before = signal.signal(signal.SIGALRM, signal.default_int_handler)
    for k in range(300):
        try:
            signal.setitimer(signal.ITIMER_REAL, 1e-3 + 1e-6 * k)
            call_for(60.0)
        except BaseException as error:
            raised.add(type(error))
    signal.signal(signal.SIGALRM, before)
    assert raised == {KeyboardInterrupt}


@pytest.mark.skipif(not hasattr(signal, "setitimer"), reason="needs a timer of POSIX")
@pytest.mark.parametrize("kind", ["binary", "tables"])
def test_long_annealing_is_interrupted_soon(kind):
    """Ctrl-C during 200,000 sweeps takes effect within 0.2 seconds of processor time."""
    energy = PairwiseEnergy(np.ones((50, 50)) - np.eye(50), np.zeros(50))
    energy = energy if kind == "binary" else energy.factor_graph()
    pressed = []

    def interrupt(*_):
        pressed.append(time.process_time())
        signal.raise_signal(signal.SIGINT)

    map_assignment(energy, method="annealing", n_sweeps=1)  # compile
    before = signal.signal(signal.SIGVTALRM, interrupt)
    signal.setitimer(signal.ITIMER_VIRTUAL, 0.3)
    with pytest.raises(KeyboardInterrupt):
        map_assignment(energy, method="annealing", n_sweeps=200_000)
    assert time.process_time() - pressed[0] < 0.2
    signal.signal(signal.SIGVTALRM, before)
