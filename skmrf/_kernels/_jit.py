"""The one decorator of every kernel."""

import numba

FASTMATH = {"reassoc", "contract", "arcp", "nsz"}  # nnan and ninf would break -inf


def _compiler(cache):
    return numba.njit(nogil=True, cache=cache, fastmath=FASTMATH, error_model="numpy")


def kernel(function):
    """Compile lazily, without the GIL, cached on disk where a folder can be written."""
    try:
        return _compiler(cache=True)(function)
    except RuntimeError:  # no writable place for the cache
        return _compiler(cache=False)(function)


def inlined(function):
    """A part of kernels, merged into its callers: passing arrays on costs more than the work."""
    return numba.njit(inline="always", fastmath=FASTMATH, error_model="numpy")(function)
