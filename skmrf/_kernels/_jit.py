"""The decorators of every kernel."""

import numba
from numba.core import cgutils
from numba.extending import intrinsic
from numba.np.arrayobj import make_array

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


def _borrowed(_, array):
    def without_owner(context, builder, _, args):
        view = make_array(array)(context, builder, args[0])
        view.meminfo = cgutils.get_null_value(view.meminfo.type)
        view.parent = cgutils.get_null_value(view.parent.type)
        return view._getvalue()

    return array(array), without_owner


if numba.config.DISABLE_JIT:

    def borrowed(array):
        """The array itself."""
        return array
else:
    #: A view of an argument that counts no references. Where arrays are taken out of tuples, within
    #: branches of loops, atomic counting takes several times longer than the arithmetic.
    borrowed = intrinsic(_borrowed)
