"""Matrix products in compiled functions, computed by numpy's BLAS library.

A compiled function releases Python's lock (GIL) only once, however many products it computes. numba
itself calls the BLAS library of scipy, which took 14 to 25 % longer.
"""

from ctypes import c_void_p, cast
from functools import cache, partial

import numba
import numpy as np
from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic
from numba.np.arrayobj import make_array
from threadpoolctl import ThreadpoolController

from ._jit import kernel

SYMBOLS = "scipy_cblas_{}gemm64_", "cblas_{}gemm64_"  # with dimensions of 64 bits
ROW_MAJOR, AS_IT_IS, TRANSPOSED = 101, 111, 112  # constants of CBLAS
LETTERS = {"f4": "s", "f8": "d"}


@cache
def find_product(dtype):
    """Return the address of the function of numpy's BLAS library that multiplies matrices.

    Parameters
    ----------
    dtype : dtype
        ``numpy.float32`` or ``numpy.float64``.

    Returns
    -------
    int
        Argument of :func:`multiply`; 0 if numpy uses a library whose functions are not known.
    """
    libraries = [] if numba.config.DISABLE_JIT else ThreadpoolController().lib_controllers
    for name in SYMBOLS:
        for library in libraries:
            function = getattr(library.dynlib, name.format(LETTERS[dtype.str[1:]]), None)
            if function is not None:
                return cast(function, c_void_p).value
    return 0


def _call_blas(_, address, A, B, out):
    arrays = A, B, out
    assert [array.layout in "CF" for array in arrays] == [True] * 3, (
        "rows or columns are contiguous"
    )
    assert out.layout == "C"

    def build(context, builder, signature, values):
        kinds, code = signature.args[1:], ir.IntType(32)
        a, b, c = map(partial(_read, context, builder), kinds, values[1:])
        (m, k), n = cgutils.unpack_tuple(builder, a.shape), builder.extract_value(b.shape, 1)
        real = context.get_value_type(kinds[0].dtype)
        orders = [code(AS_IT_IS if kind.layout == "C" else TRANSPOSED) for kind in kinds[:2]]
        given = [code(ROW_MAJOR), *orders, m, n, k, real(1.0)]
        for kind, array, scale in zip(kinds, (a, b, c), ([], [real(0.0)], []), strict=True):
            size = builder.extract_value(array.shape, 1 if kind.layout == "C" else 0)
            is_empty = builder.icmp_signed("==", size, size.type(0))
            given += [array.data, builder.select(is_empty, size.type(1), size), *scale]
        function = ir.FunctionType(ir.VoidType(), [x.type for x in given])
        builder.call(builder.inttoptr(values[0], function.as_pointer()), given)
        return context.get_dummy_value()

    return types.void(address, *arrays), build


def _read(context, builder, kind, value):
    return make_array(kind)(context, builder, value)


if numba.config.DISABLE_JIT:

    def call_blas(address, A, B, out):
        """Do nothing, because :func:`find_product` returns no address."""
else:
    #: Write the product of two matrices to an array, by the function at an address.
    call_blas = intrinsic(_call_blas)


@kernel
def multiply(address, A, B, out):
    """Write the matrix product ``A @ B`` to the contiguous array ``out``.

    All arrays have one dtype. ``A`` and ``B`` are contiguous, or transposed contiguous arrays.
    ``address`` is from :func:`find_product`.
    """
    if address == 0:
        np.dot(A, B, out)
    else:
        call_blas(address, A, B, out)
