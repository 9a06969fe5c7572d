"""The call stack of a fit: few files, in one direction."""

import pytest
import stack_depth
from numba import config

MOST_FILES = 8

pytestmark = pytest.mark.skipif(
    not config.DISABLE_JIT, reason="kernels are on the stack only with NUMBA_DISABLE_JIT=1"
)


@pytest.mark.parametrize("name", stack_depth.fits())
def test_a_fit_passes_few_files_in_one_direction(name):
    found = stack_depth.measure(stack_depth.fits()[name])
    assert len(set(found.deepest)) <= MOST_FILES, found.deepest
    assert not found.returns
