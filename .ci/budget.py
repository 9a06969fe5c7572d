"""Pytest plugin with a time budget: ``pytest -p budget --budget 480`` skips later tests."""

import time

import pytest


def pytest_addoption(parser):
    """Add the option ``--budget``."""
    parser.addoption("--budget", type=float, default=float("inf"), help="seconds for all tests")


def pytest_configure(config):
    """Start the clock."""
    config.budget_ends = time.monotonic() + config.getoption("--budget")


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item):
    """Skip a test if the time budget is used up."""
    if time.monotonic() > item.config.budget_ends:
        pytest.skip("the time budget for these tests is used up")
