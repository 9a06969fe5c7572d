"""Decorators that compile numerical functions (kernels) with numba, and vectors of numbers."""

import sys
from functools import wraps
from threading import Timer, local
from time import monotonic

import numba
import numpy as np
from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic, models, register_model
from numba.np.arrayobj import make_array

from .._utils.interrupts import InterruptLater

FASTMATH = {"reassoc", "contract", "arcp", "nsz"}  # without nnan and ninf, which would break -inf


def _compiler(**options):
    return numba.njit(nogil=True, fastmath=FASTMATH, error_model="numpy", **options)


class CompilationMessage(local):
    """Message that is printed once, as soon as compilations have taken a few seconds.

    Attributes
    ----------
    seconds : float
        Time spent in compilations of the current thread.
    depth : int
        Number of unfinished compilations; a compilation also compiles the functions it calls.
    """

    SECONDS = 3.0
    is_printed = False

    def __init__(self):
        self.seconds, self.depth = 0.0, 0

    def compile(self, compile_function, signature):
        """Compile a function for a signature, with delayed Ctrl-C, and count the time.

        An exception in the finalizers that run during a compilation would end the process.
        """
        timer = Timer(max(0.0, self.SECONDS - self.seconds), self.show)
        timer.daemon = True
        is_outer = self.depth == 0
        if is_outer and not CompilationMessage.is_printed:
            timer.start()
        began, self.depth = monotonic(), self.depth + 1
        try:
            with InterruptLater():
                return compile_function(signature)
        finally:
            timer.cancel()
            self.depth -= 1
            self.seconds += is_outer * (monotonic() - began)

    @classmethod
    def show(cls):
        """Print the message, unless it has been printed before."""
        if cls.is_printed:
            return
        cls.is_printed = True
        print(
            "skmrf compiles functions at their first use, which can take a minute. The compiled "
            "functions are stored on disk.",
            file=sys.stderr,
            flush=True,
        )


MESSAGE = CompilationMessage()


def _report_compilations(compile_function):
    """Return a function that compiles a signature and reports long compilations."""

    @wraps(compile_function)
    def compile_and_report(signature):
        return MESSAGE.compile(compile_function, signature)

    return compile_and_report


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
        compiled.compile = _report_compilations(compiled.compile)
    return compiled


def subkernel(function):
    """Compile a function that only kernels call, as a part of the machine code of each of them.

    A :func:`kernel` that kernels call is also compiled on its own, with other rounding errors. The
    process that compiles it would use this code, and processes that load kernels would not.
    """
    return _compiler(forceinline=True)(function)


def inlined(function):
    """Inline a function into the compiled functions that call it.

    Passing arrays to a function would take longer than the arithmetic of the function.
    """
    return numba.njit(inline="always", fastmath=FASTMATH, error_model="numpy")(function)


@inlined
def copy_into(source, target):
    """Copy an array of one dimension.

    It compiles several seconds faster than ``target[:] = source``, but does not check the size of
    ``source``.
    """
    for k in range(target.size):
        target[k] = source[k]


def read_only(array):
    """Return a read-only view of an array.

    A kernel is compiled once for an argument that is always read-only, but twice for an argument
    that only sometimes is, such as a memory map.
    """
    if not array.flags.writeable:
        return array
    view = array.view()
    view.flags.writeable = False
    return view


def aligned_zeros(n_rows, n_columns, dtype):
    """Return zeros whose rows start at multiples of 64 bytes, which makes vectorised loops faster.

    The number of columns is rounded up to a multiple of 16.
    """
    return _align(np.zeros, n_rows, n_columns, dtype)


def aligned_empty(n_rows, n_columns, dtype):
    """Return an array like that of :func:`aligned_zeros`, with any values."""
    return _align(np.empty, n_rows, n_columns, dtype)


def _align(allocate, n_rows, n_columns, dtype):
    shape = n_rows, -(-n_columns // 16) * 16
    memory = allocate(64 + shape[0] * shape[1] * dtype.itemsize, dtype=np.uint8)
    start = -memory.ctypes.data % 64
    return memory[start : len(memory) - 64 + start].view(dtype).reshape(shape)


def _lowest_bit(_, number):
    def count_trailing_zeros(_context, builder, _signature, args):
        return builder.cttz(args[0], cgutils.false_bit)

    return number(number), count_trailing_zeros


def _assume_distinct(_):
    def mark_arguments(context, builder, _signature, _args):
        for argument in builder.function.args:
            if argument.type.is_pointer:
                argument.add_attribute("noalias")
        return context.get_dummy_value()

    return numba.types.none(), mark_arguments


def _without_owner(context, builder, kind, value):
    """Return a value without the owners of the memory of its arrays; tuples are searched."""
    if isinstance(kind, types.BaseTuple):
        for k, part in enumerate(kind):
            entry = _without_owner(context, builder, part, builder.extract_value(value, k))
            value = builder.insert_value(value, entry, k)
        return value
    if not isinstance(kind, types.Array):
        return value
    view = make_array(kind)(context, builder, value)
    view.meminfo = cgutils.get_null_value(view.meminfo.type)
    view.parent = cgutils.get_null_value(view.parent.type)
    return view._getvalue()


def _borrowed(_, arrays):
    def drop_owners(context, builder, _, values):
        return _without_owner(context, builder, arrays, values[0])

    return arrays(arrays), drop_owners


# Vectors of four numbers --------------------------------------------------------------------
#
# Compiled loops over short rows check for overlapping arrays and have remainders, which take
# longer than the arithmetic. Kernels that compute in registers have neither.

LANES = 4
N_LANES = 4 * LANES  # entries of a row of four vectors
CONTRACT = ("contract", "nsz")  # a product and a sum become one operation
VECTOR_IR = ir.VectorType(ir.DoubleType(), LANES)


class _Vector(types.Type):
    """Type of four float64 numbers in a register."""

    def __init__(self):
        super().__init__(name="Vector")


@register_model(_Vector)
class _VectorModel(models.PrimitiveModel):
    """Representation of a vector in LLVM."""

    def __init__(self, manager, kind):
        super().__init__(manager, kind, VECTOR_IR)


VECTOR = _Vector()


def _shuffle(builder, x, y, order):
    mask = ir.Constant(ir.VectorType(ir.IntType(32), LANES), order)
    return builder.shuffle_vector(x, y, mask)


def _address(context, builder, array, value, index):
    """Return the address of an entry of an array, given its index in the flat array."""
    assert array.layout == "C", "only the entries of contiguous arrays have an index"
    assert array.dtype == types.float64
    start = make_array(array)(context, builder, value).data
    return builder.bitcast(builder.gep(start, [index]), VECTOR_IR.as_pointer())


def _load(_, array, index):  # noqa: ARG001
    def build(context, builder, signature, values):
        return builder.load(_address(context, builder, signature.args[0], *values), align=8)

    return VECTOR(array, types.intp), build


def _store(_, array, index, x):  # noqa: ARG001
    def build(context, builder, signature, values):
        address = _address(context, builder, signature.args[0], *values[:2])
        builder.store(values[2], address, align=8)
        return context.get_dummy_value()

    return types.void(array, types.intp, VECTOR), build


def _spread(_, x):  # noqa: ARG001
    def build(context, builder, signature, values):  # noqa: ARG001
        blank = ir.Constant(VECTOR_IR, ir.Undefined)
        x = builder.insert_element(blank, values[0], ir.Constant(ir.IntType(32), 0))
        return _shuffle(builder, x, blank, [0] * LANES)

    return VECTOR(types.float64), build


def _multiply_add(_, x, y, z):  # noqa: ARG001
    def build(context, builder, signature, values):  # noqa: ARG001
        x, y, z = values
        return builder.fadd(builder.fmul(x, y, flags=CONTRACT), z, flags=CONTRACT)

    return VECTOR(VECTOR, VECTOR, VECTOR), build


def _larger(_, x, y):  # noqa: ARG001
    def build(context, builder, signature, values):  # noqa: ARG001
        return builder.select(builder.fcmp_ordered(">", *values), *values)

    return VECTOR(VECTOR, VECTOR), build


def _transpose(_, a, b, c, d):  # noqa: ARG001
    def build(context, builder, signature, values):
        a, b, c, d = values
        pairs = [
            (_shuffle(builder, a, b, order), _shuffle(builder, c, d, order))
            for order in ([0, 4, 2, 6], [1, 5, 3, 7])
        ]
        rows = [
            _shuffle(builder, *pair, order)
            for order in ([0, 1, 4, 5], [2, 3, 6, 7])
            for pair in pairs
        ]
        return context.make_tuple(builder, signature.return_type, rows)

    return types.UniTuple(VECTOR, LANES)(VECTOR, VECTOR, VECTOR, VECTOR), build


if numba.config.DISABLE_JIT:

    def borrowed(arrays):
        """Return the array or the tuple of arrays unchanged; only compiled code needs a view."""
        return arrays

    def lowest_bit(number):
        """Return the position of the lowest bit that is 1, or 64 if the number is 0."""
        return int(number & -number).bit_length() - 1 if number else 64

    def assume_distinct():
        """Do nothing, because only compiled code makes use of the assumption."""

    def load(array, index):
        """Return four entries of a contiguous array, given the index in the flat array."""
        return array.reshape(-1)[index : index + LANES].copy()

    def store(array, index, x):
        """Write a vector to a contiguous array, given the index in the flat array."""
        array.reshape(-1)[index : index + LANES] = x

    def spread(x):
        """Return a vector of four equal numbers."""
        return np.full(LANES, x)

    def multiply_add(x, y, z):
        """Return ``x * y + z``."""
        return x * y + z

    def larger(x, y):
        """Return the elementwise maximum of two vectors."""
        return np.where(x > y, x, y)

    def transpose(a, b, c, d):
        """Return the columns of the matrix that has the rows a, b, c and d."""
        return tuple(np.stack([a, b, c, d], axis=1))
else:
    #: Return a view of an array, or of each array in a tuple, without reference counting. If arrays
    #: are read from tuples inside of loops, atomic reference counting takes several times longer
    #: than the arithmetic. Only arguments of a function that is not inlined may be borrowed: its
    #: caller keeps their memory, but the memory of a local array is freed after its last use.
    borrowed = intrinsic(_borrowed)
    #: Tell the compiler that the array arguments of a kernel do not overlap. Otherwise each loop
    #: checks this at run time, which takes longer than short loops.
    assume_distinct = intrinsic(_assume_distinct)
    #: Return the position of the lowest bit that is 1, or 64 if the number is 0.
    lowest_bit = intrinsic(_lowest_bit)
    #: Return four entries of a contiguous array, given the index in the flat array.
    load = intrinsic(_load)
    #: Write a vector to a contiguous array, given the index in the flat array.
    store = intrinsic(_store)
    #: Return a vector of four equal numbers.
    spread = intrinsic(_spread)
    #: Return ``x * y + z`` for vectors.
    multiply_add = intrinsic(_multiply_add)
    #: Return the elementwise maximum of two vectors.
    larger = intrinsic(_larger)
    #: Return the columns of the matrix that has the rows a, b, c and d.
    transpose = intrinsic(_transpose)


@inlined
def load_row(array, k):
    """Return a row of four vectors of a contiguous array, given its index in the flat array."""
    a, b = load(array, k), load(array, k + LANES)
    return a, b, load(array, k + 2 * LANES), load(array, k + 3 * LANES)


@inlined
def store_row(array, k, a, b, c, d):
    """Write a row of four vectors to a contiguous array, given its index in the flat array."""
    store(array, k, a)
    store(array, k + LANES, b)
    store(array, k + 2 * LANES, c)
    store(array, k + 3 * LANES, d)


@inlined
def multiply_row(x, y, k):
    """Return the elementwise product of two rows with the same index."""
    zero = spread(0.0)
    a, b, c, d = load_row(x, k)
    e, f, g, h = load_row(y, k)
    a, b = multiply_add(a, e, zero), multiply_add(b, f, zero)
    return a, b, multiply_add(c, g, zero), multiply_add(d, h, zero)
