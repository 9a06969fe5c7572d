"""Decorators that compile numerical functions (kernels) with numba."""

from functools import wraps

import numba
from numba.core import cgutils
from numba.extending import intrinsic
from numba.np.arrayobj import make_array

from .._utils.interrupts import InterruptLater

FASTMATH = {"reassoc", "contract", "arcp", "nsz"}  # without nnan and ninf, which would break -inf


def _compiler(cache):
    return numba.njit(nogil=True, cache=cache, fastmath=FASTMATH, error_model="numpy")


def _delay_interrupts(function):
    """Return a function that delays Ctrl-C until it returns.

    An exception in the finalizers that run during a compilation ends the process.
    """

    @wraps(function)
    def delayed(*args):
        with InterruptLater():
            return function(*args)

    return delayed


def kernel(function):
    """Compile a function at its first call, and cache the machine code on disk.

    The compiled function releases the global interpreter lock (GIL). A function that Python code
    calls returns numbers or nothing, and writes arrays to its arguments. If it returned an array,
    numba would run Python code to make it, and Ctrl-C in that moment would raise a SystemError or
    a RuntimeError instead of a KeyboardInterrupt.
    """
    try:
        compiled = _compiler(cache=True)(function)
    except RuntimeError:  # no folder for the cache is writable
        compiled = _compiler(cache=False)(function)
    if not numba.config.DISABLE_JIT:
        compiled.compile = _delay_interrupts(compiled.compile)
    return compiled


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
        """Return the array unchanged; used if compilation is disabled."""
        return array
else:
    #: Return a view of an array without reference counting. If arrays are read from tuples inside
    #: of loops, the atomic reference counting takes several times longer than the arithmetic.
    borrowed = intrinsic(_borrowed)
