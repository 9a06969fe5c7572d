"""Decorators that compile numerical functions (kernels) with numba."""

import numba
from numba.core import cgutils
from numba.extending import intrinsic
from numba.np.arrayobj import make_array

FASTMATH = {"reassoc", "contract", "arcp", "nsz"}  # without nnan and ninf, which would break -inf


def _compiler(cache):
    return numba.njit(nogil=True, cache=cache, fastmath=FASTMATH, error_model="numpy")


def kernel(function):
    """Compile a function at its first call, and cache the machine code on disk.

    The compiled function releases the global interpreter lock (GIL).
    """
    try:
        return _compiler(cache=True)(function)
    except RuntimeError:  # no folder for the cache is writable
        return _compiler(cache=False)(function)


def inlined(function):
    """Inline a function into the compiled functions that call it.

    Passing arrays to a function would take longer than the arithmetic of the function.
    """
    return numba.njit(inline="always", fastmath=FASTMATH, error_model="numpy")(function)


def _borrowed(_, array):
    def drop_owner(context, builder, _, args):
        view = make_array(array)(context, builder, args[0])
        view.meminfo = cgutils.get_null_value(view.meminfo.type)
        view.parent = cgutils.get_null_value(view.parent.type)
        return view._getvalue()

    return array(array), drop_owner


if numba.config.DISABLE_JIT:

    def borrowed(array):
        """Return the array unchanged; without compilation, no special view of it is needed."""
        return array
else:
    #: Return a view of an array without reference counting. If arrays are read from tuples inside
    #: of loops, the atomic reference counting takes several times longer than the arithmetic.
    borrowed = intrinsic(_borrowed)
