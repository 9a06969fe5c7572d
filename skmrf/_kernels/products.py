"""Matrix products in compiled functions, computed by the BLAS library of numpy or of scipy.

A compiled function releases Python's lock (GIL) once, however many products it computes. numba
itself calls the library of scipy. In the wheels of both packages, that of numpy is newer and takes
14 to 25 % less time.
"""

from ctypes import c_void_p, cast
from functools import cache, partial

import numba
import numpy as np
from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.core.errors import TypingError
from numba.extending import get_cython_function_address, intrinsic
from numba.np.arrayobj import make_array
from threadpoolctl import ThreadpoolController

from ._jit import kernel

NAMES = {"f4": "sgemm", "f8": "dgemm"}
SYMBOLS = "scipy_{}_64_", "{}_64_"  # of libraries whose integers certainly have 64 bits


@cache
def find_product(dtype):
    """Return the address of the BLAS function that multiplies matrices, for :func:`multiply`.

    Parameters
    ----------
    dtype : dtype
        ``numpy.float32`` or ``numpy.float64``.

    Returns
    -------
    int
        Address in the library of numpy. If numpy has another library than OpenBLAS, the address in
        the library of scipy.
    """
    name = NAMES[dtype.str[1:]]
    for library in ThreadpoolController().lib_controllers:
        for symbol in SYMBOLS:
            function = getattr(library.dynlib, symbol.format(name), None)
            if function is not None:
                return cast(function, c_void_p).value
    return get_cython_function_address("scipy.linalg.cython_blas", name)


def _call_blas(_, address, A, B, out):
    kinds = A, B, out
    if not {A.layout, B.layout} <= {"C", "F"} or out.layout != "C":
        raise TypingError("The arrays of a matrix product must be contiguous.")
    if A.dtype != B.dtype or A.dtype != out.dtype:
        raise TypingError("The arrays of a matrix product must have the same data type.")

    def build(context, builder, _signature, values):
        arrays = [
            make_array(x)(context, builder, v) for x, v in zip(kinds, values[1:], strict=True)
        ]
        sizes = [cgutils.unpack_tuple(builder, array.shape) for array in arrays]
        data = [array.data for array in arrays]
        lengths = list(map(partial(_line_length, builder), kinds, sizes))
        orders = [ir.IntType(8)(ord("N" if kind.layout == "C" else "T")) for kind in kinds]
        one, zero = map(context.get_value_type(A.dtype), (1.0, 0.0))
        # BLAS stores matrices by columns, so that it computes out.T = B.T @ A.T. If its integers
        # have 32 bits, it reads the lower half of each number.
        (m, k), (_, n) = sizes[:2]
        given = [orders[1], orders[0], n, m, k, one, data[1], lengths[1], data[0], lengths[0]]
        given += [zero, data[2], lengths[2]]
        given = [x if x.type.is_pointer else cgutils.alloca_once_value(builder, x) for x in given]
        function = ir.FunctionType(ir.VoidType(), [x.type for x in given])
        builder.call(builder.inttoptr(values[0], function.as_pointer()), given)
        return context.get_dummy_value()

    return types.void(address, *kinds), build


def _line_length(builder, kind, size):
    """Return the number of entries of a row, or of a column of a transposed array; at least 1."""
    length = size[1] if kind.layout == "C" else size[0]
    is_empty = builder.icmp_signed("==", length, length.type(0))
    return builder.select(is_empty, length.type(1), length)


if numba.config.DISABLE_JIT:

    def multiply(address, A, B, out):  # noqa: ARG001
        """Write the matrix product ``A @ B`` to the array ``out``."""
        np.matmul(A, B, out=out)
else:
    call_blas = intrinsic(_call_blas)

    @kernel
    def multiply(address, A, B, out):
        """Write the matrix product ``A @ B`` to the contiguous array ``out``.

        All arrays have one dtype. ``A`` and ``B`` are contiguous, or transposed contiguous arrays.
        ``address`` is from :func:`find_product`.
        """
        call_blas(address, A, B, out)
