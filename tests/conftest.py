"""Fixtures of all tests: seed, data, and models and figures of displays. Budget of slow tests."""

import gc
import json
import os
import subprocess
import sys
import textwrap
import time
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path

import pytest
from hypothesis import settings

for library in ("OPENBLAS", "OMP", "MKL"):  # before numpy: two processes share two cores
    os.environ.setdefault(f"{library}_NUM_THREADS", "1")
# JAX compiles faster with these options. An option that it does not know ends the process, so the
# last ones are set only for versions that know them.
FAST = ["--xla_backend_optimization_level=0"]
if find_spec("jaxlib") and version("jaxlib").startswith(("0.7.", "0.8.", "0.9.", "0.10.")):
    FAST += ["--xla_cpu_use_fusion_emitters=false", "--xla_llvm_disable_expensive_passes=true"]
    FAST.append("--xla_cpu_parallel_codegen_split_count=1")
os.environ.setdefault("XLA_FLAGS", " ".join(FAST))

DATA = Path(os.environ.get("SKMRF_TEST_DATA", Path(__file__).parents[2] / "shared" / "data"))

settings.register_profile("skmrf", deadline=None, derandomize=True, max_examples=50)
settings.load_profile("skmrf")


@pytest.fixture
def seed():
    """Seed of the random tests; every value of SKMRF_TEST_SEED must pass."""
    return int(os.environ.get("SKMRF_TEST_SEED", "0"))


@pytest.fixture(scope="session")
def data_folder():
    """Return a function that gives the path of a test data folder, or skips the test."""

    def find(name):
        folder = DATA / name
        if not folder.is_dir():
            pytest.skip(f"{folder} is absent; set SKMRF_TEST_DATA")
        return folder

    return find


@pytest.fixture(autouse=True)
def _close_figures():
    yield
    if "matplotlib.pyplot" in sys.modules:
        sys.modules["matplotlib.pyplot"].close("all")


@pytest.fixture(scope="session")
def models():
    """Return one fitted estimator of each class that a display accepts."""
    from estimator_models import displayed_models

    return displayed_models()


# Several devices of JAX: one process for all tests -------------------------------------------

SERVER = """
import json, sys, traceback
answers, sys.stdout = sys.stdout, sys.stderr
for line in sys.stdin:
    error = ""
    try:
        exec(json.loads(line), {"__name__": "code"})
    except BaseException:
        error = traceback.format_exc()
    print(json.dumps(error), file=answers, flush=True)
"""


@pytest.fixture(scope="session")
def run_on_devices():
    """Return a function that runs code in a process in which JAX finds three devices."""
    flags = f"{os.environ['XLA_FLAGS']} --xla_force_host_platform_device_count=3"
    folders = os.pathsep.join([str(Path(__file__).parent / "devices"), *sys.path])
    process = subprocess.Popen(
        [sys.executable, "-W", "ignore", "-c", SERVER],
        env=os.environ | {"XLA_FLAGS": flags, "PYTHONPATH": folders},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )

    def run(code):
        process.stdin.write(json.dumps(textwrap.dedent(code)) + "\n")
        process.stdin.flush()
        answer = process.stdout.readline()
        assert answer, f"The process ended with status {process.wait()}."
        error = json.loads(answer)
        assert not error, error

    yield run
    process.communicate()  # ends its input


# Budget: a slow test is skipped if the slow tests of its process would take longer ------------


def pytest_addoption(parser):
    """Add the option ``--budget``."""
    parser.addoption("--budget", type=float, default=float("inf"), help="seconds for slow tests")


def pytest_configure(config):
    """Start with the whole budget, and give each of several processes a row of tests."""
    config.seconds_left = config.getoption("--budget")
    if config.getoption("dist", None) == "load":  # neighbours share what a process has compiled
        config.option.dist = "worksteal"


def pytest_collection_finish():
    """Collect garbage rarely, and never search the modules, which takes a tenth of the time."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(50_000, 20, 50)


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_protocol(item):
    """Subtract the seconds of a slow test from the budget."""
    start = time.monotonic()
    result = yield
    if item.get_closest_marker("slow"):
        item.config.seconds_left -= time.monotonic() - start
    return result


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item):
    """Skip a slow test if the rest of the budget is less than the seconds of its mark."""
    mark = item.get_closest_marker("slow")
    if mark and item.config.seconds_left <= mark.kwargs.get("seconds", 0):
        pytest.skip("the time budget for slow tests is used up")
