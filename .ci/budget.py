"""Pytest plugin with a time budget: ``pytest -p budget --budget 30`` limits the slow tests.

A slow test is skipped if the slow tests of its process have taken longer than the budget.
"""

import time

import pytest


def pytest_addoption(parser):
    """Add the option ``--budget``."""
    parser.addoption("--budget", type=float, default=float("inf"), help="seconds for slow tests")


def pytest_configure(config):
    """Start with the whole budget."""
    config.seconds_left = config.getoption("--budget")


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
    """Skip a slow test if the budget is used up."""
    if item.get_closest_marker("slow") and item.config.seconds_left <= 0:
        pytest.skip("the time budget for slow tests is used up")
