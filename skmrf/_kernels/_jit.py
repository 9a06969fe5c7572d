"""Decorators that compile numerical functions (kernels) with numba."""

import sys
from functools import wraps
from threading import Timer, local
from time import monotonic

import numba
from numba.core import cgutils
from numba.extending import intrinsic
from numba.np.arrayobj import make_array

from .._utils.interrupts import InterruptLater

FASTMATH = {"reassoc", "contract", "arcp", "nsz"}  # without nnan and ninf, which would break -inf


def _compiler(cache):
    return numba.njit(nogil=True, cache=cache, fastmath=FASTMATH, error_model="numpy")


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


def inlined(function):
    """Inline a function into the compiled functions that call it.

    Passing arrays to a function would take longer than the arithmetic of the function.
    """
    return numba.njit(inline="always", fastmath=FASTMATH, error_model="numpy")(function)


@inlined
def copy_into(source, target):
    """Copy an array of one dimension.

    It compiles several seconds faster than ``target[:] = source``, which can raise an error with
    both shapes.
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


def _borrowed(_, array):
    def drop_owner(context, builder, _, args):
        view = make_array(array)(context, builder, args[0])
        view.meminfo = cgutils.get_null_value(view.meminfo.type)
        view.parent = cgutils.get_null_value(view.parent.type)
        return view._getvalue()

    return array(array), drop_owner


if numba.config.DISABLE_JIT:

    def borrowed(array):
        """Return the array unchanged, because only compiled code needs a view of it."""
        return array

    def lowest_bit(number):
        """Return the position of the lowest bit that is 1, or 64 if the number is 0."""
        return int(number & -number).bit_length() - 1 if number else 64

    def assume_distinct():
        """Do nothing, because only compiled code makes use of the assumption."""
else:
    #: Return a view of an array without reference counting. If arrays are read from tuples inside
    #: of loops, the atomic reference counting takes several times longer than the arithmetic.
    borrowed = intrinsic(_borrowed)
    #: Tell the compiler that the array arguments of a kernel do not overlap. Otherwise each loop
    #: checks this at run time, which takes longer than short loops.
    assume_distinct = intrinsic(_assume_distinct)
    #: Return the position of the lowest bit that is 1, or 64 if the number is 0.
    lowest_bit = intrinsic(_lowest_bit)
