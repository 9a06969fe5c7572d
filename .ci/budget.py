"""``pytest -p budget --budget 480``: tests that would begin later are skipped, and counted."""

import time

import pytest


def pytest_addoption(parser):
    """Add the option."""
    parser.addoption("--budget", type=float, default=float("inf"), help="seconds for all tests")


def pytest_configure(config):
    """Start the clock."""
    config.budget_ends = time.monotonic() + config.getoption("--budget")


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item):
    """Skip what would begin too late."""
    if time.monotonic() > item.config.budget_ends:
        pytest.skip("the time for these tests was spent")
