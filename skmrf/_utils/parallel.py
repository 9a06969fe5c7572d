"""Parallel execution with joblib, and in threads of this process."""

import os
from collections import deque
from contextlib import contextmanager, nullcontext
from contextvars import ContextVar, copy_context
from functools import partial
from itertools import pairwise, product, starmap
from math import ceil, log2
from numbers import Integral
from queue import SimpleQueue
from threading import Lock, Thread, local

import numpy as np
from joblib import cpu_count, parallel_config
from sklearn.utils.parallel import Parallel, delayed
from threadpoolctl import ThreadpoolController

from .namespaces import is_numpy

SMALL_PRODUCT = 2e7  # multiplications of a matrix product, about a millisecond of one thread
UNIT = 2**26  # multiplications that are worth a thread, about a millisecond
MIN_SIDE = 192  # of a block of a product, about; BLAS is slow for narrow matrices
MAX_BLOCKS = 64  # of a product, because BLAS is faster for large matrices
GRAM_ROWS = 256, 2048  # fewest and most rows of a block of a Gram matrix
GRAM_UNIT = 2**23  # multiplications of a block, at least; large matrices are added rarely
GRAMS = 32  # Gram matrices that are in memory together

_n_threads = ContextVar("n_threads", default=None)
_thread = local()  # its attribute is_worker exists while a thread makes calls of blocks


@contextmanager
def parallel_jobs(n_jobs):
    """Set the number of jobs of all computations in a context that have no number of their own.

    The threads of :func:`run_blocks` are included. ``joblib.parallel_config`` alone would set one
    thread there, because the processes of joblib's default backend share no memory.

    Parameters
    ----------
    n_jobs : int or None
        Number of jobs, as in joblib. None changes nothing.

    Raises
    ------
    ValueError
        If the number is 0 or not an integer.
    """
    if n_jobs is None:
        yield
        return
    _check_number(n_jobs)
    with _number_of_threads(n_jobs), parallel_config(n_jobs=n_jobs):
        yield


def run_parts(function, parts, n_jobs):
    """Call a function with each tuple of arguments, in parallel on the active joblib backend.

    Results are returned as soon as they are available, in the order of the parts. The backends of
    Ray and multiprocessing return all results at the end.

    Parameters
    ----------
    function : callable
        Function to call.
    parts : iterable of tuple
        Arguments of each call.
    n_jobs : int or None
        Number of jobs, as in joblib.

    Returns
    -------
    iterable
        Result of each call.
    """
    _check_number(n_jobs)
    return _call_all(_parallel(n_jobs), function, parts)


def _check_number(n_jobs):
    """Raise a ValueError unless the number of jobs is None or an integer other than 0."""
    is_number = isinstance(n_jobs, Integral) and not isinstance(n_jobs, bool) and n_jobs != 0
    if n_jobs is not None and not is_number:
        raise ValueError(
            "n_jobs must be None or an integer other than 0, such as -1 for all processors; got "
            f"{n_jobs!r}."
        )


def run_blocks(function, blocks, n_jobs, *, long=False):
    """Call a function with the arguments of each block of a computation, in parallel threads.

    The threads run in the process of the caller even if the active joblib backend is Dask, Ray or
    a process pool, unless the blocks are ``long``. A fit has thousands of steps, and sending the
    blocks of each step to other processes would take longer than the computation.

    Parameters
    ----------
    function : callable
        Function to call; it should release the GIL.
    blocks : list of tuple
        Arguments of each call.
    n_jobs : int or None
        Number of jobs, as in joblib. None takes the number of :func:`parallel_jobs`. Matrix
        products of parallel calls use one thread each.
    long : bool, default=False
        Whether the computation of a block takes longer than sending it to another process.

    Returns
    -------
    iterable
        Result of each call, in the order of the blocks.
    """
    if len(blocks) > 1 and not hasattr(_thread, "is_worker"):
        if long:
            parallel = _parallel(n_jobs, prefer="threads")
            if parallel.n_jobs != 1:
                return _yield_all(parallel, function, blocks)
        else:
            n_threads = _count_threads(n_jobs)
            if n_threads != 1:
                return _run_threads(n_threads, function, blocks)
    return starmap(function, blocks)


def _count_threads(n_jobs):
    """Return the number of threads of ``n_jobs``; negative numbers count from the last core."""
    if n_jobs is None:
        n_jobs = _n_threads.get()
    if n_jobs is None:  # joblib's active configuration says it
        n_jobs = _parallel(None, require="sharedmem").n_jobs
    return n_jobs if n_jobs > 0 else max(cpu_count() + 1 + n_jobs, 1)


def keep_number_of_threads():
    """Return a context in which the number of threads does not change.

    joblib computes the number in about 0.1 ms, and a small model makes an update in a millisecond.
    """
    return _number_of_threads(_count_threads(None))


@contextmanager
def _number_of_threads(n_threads):
    token = _n_threads.set(n_threads)
    try:
        yield
    finally:
        _n_threads.reset(token)


def _run_threads(n_threads, function, blocks):
    """Return the results of all calls, in order, from this thread and threads that are kept.

    Threads of joblib are started anew by each call, which takes several milliseconds. Futures of
    the standard library take about 20 microseconds each, in which all threads wait for Python.
    """
    results, waiting, ended = [None] * len(blocks), deque(enumerate(blocks)), SimpleQueue()
    call = partial(_make_calls, function, waiting, results, [], ended)
    with one_blas_thread:
        try:
            _threads.run(call, min(n_threads, len(blocks)) - 1)
            _thread.is_worker = True
            call()
            error = ended.get()
            if error is not None:
                raise error
        finally:
            vars(_thread).pop("is_worker", None)
            waiting.clear()  # after Ctrl-C
    return results


class _Threads:
    """Threads that are kept between calls, and the queue of their tasks."""

    def __init__(self):
        self.lock, self.tasks, self.n_started = Lock(), SimpleQueue(), 0

    def run(self, function, n_threads):
        """Let threads call a function; start threads if there are too few."""
        with self.lock:
            while self.n_started < n_threads:
                Thread(target=self._serve, name="skmrf", daemon=True).start()
                self.n_started += 1
        for _ in range(n_threads):
            self.tasks.put(partial(copy_context().run, function))

    def _serve(self):
        _thread.is_worker = True
        while True:
            self.tasks.get()()


_threads = _Threads()


def _make_calls(function, waiting, results, done, ended):
    """Call a function with waiting blocks, and write the results.

    After the last call, ``ended`` receives None. Only then the thread that waits for it wakes up,
    because it would delay the others, which also need Python's lock. After an error, ``ended``
    receives the error, and no block waits.
    """
    while waiting:
        try:
            k, block = waiting.popleft()
        except IndexError:  # another thread took the last block
            return
        try:
            results[k] = function(*block)
        except BaseException as error:
            waiting.clear()
            ended.put(error)
        else:
            done.append(k)
            if len(done) == len(results):
                ended.put(None)


def _yield_all(parallel, function, blocks):
    """Yield the results of all calls, in order, from the active joblib backend or its threads."""
    with one_blas_thread:
        yield from _call_all(parallel, function, blocks)


class _OneBlasThread:
    """Context in which matrix products use one thread; contexts of several threads may overlap."""

    def __init__(self):
        self.lock, self.count, self.controller, self.limits = Lock(), 0, None, None

    def __enter__(self):
        with self.lock:
            if self.count == 0:
                self.controller = self.controller or ThreadpoolController()
                self.limits = self.controller.limit(limits=1, user_api="blas")
            self.count += 1

    def __exit__(self, *error):
        with self.lock:
            self.count -= 1
            if self.count == 0:
                self.limits.restore_original_limits()


one_blas_thread = _OneBlasThread()


def _renew_after_fork():
    """Forget the threads and the locks of other threads, which a forked process does not have."""
    _threads.__init__()
    one_blas_thread.lock = Lock()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_renew_after_fork)


def matrix_product(A, B):
    """Return ``A @ B``; if blocks run in threads, these compute square blocks of the product.

    Parameters
    ----------
    A : ndarray, sparse matrix or array of JAX of shape (n_rows, n)
        Left matrix.
    B : ndarray or array of JAX of shape (n, n_columns)
        Right matrix.

    Returns
    -------
    array of shape (n_rows, n_columns)
        Product.
    """
    (n_rows, n), n_columns = A.shape, B.shape[1]
    is_dense = isinstance(A, np.ndarray) and isinstance(B, np.ndarray)
    if not is_dense or n_rows * n * n_columns <= UNIT or not _uses_threads():
        return A @ B
    out = np.empty((n_rows, n_columns), np.result_type(A, B))

    def multiply(rows, columns):
        np.matmul(A[rows], B[:, columns], out=out[rows, columns])

    most = ceil(n_rows / MIN_SIDE) * ceil(n_columns / MIN_SIDE)
    n_blocks = count_units(min(n_rows * n * n_columns / UNIT, most, MAX_BLOCKS))
    n_high = min(count_units((0.5 * n_blocks * n_rows / n_columns) ** 0.5), n_blocks)
    blocks = product(equal_slices(n_rows, n_high), equal_slices(n_columns, n_blocks // n_high))
    list(run_blocks(multiply, list(blocks), None))
    return out


def gram_matrix(*parts, dtype=float):
    """Return the sum of ``X.T @ diag(weights) @ X``; threads multiply blocks of rows.

    The blocks do not depend on the number of threads, so that the result does not.

    Parameters
    ----------
    *parts : tuple of (X, weights)
        Arrays of numpy or of JAX: numbers of shape (n_rows, n_columns), and weights of the rows, of
        any sign, of shape (n_rows,).
    dtype : dtype, default=float
        Data type of the products of arrays of numpy. Their sums are float64. If the weights of a
        block are equal and its numbers are small integers, its products are exact in float32,
        and this type is used.

    Returns
    -------
    array of shape (n_columns, n_columns)
        Gram matrix.
    """
    if not is_numpy(parts[0][0]):
        return sum(X.T @ (X * weights[:, None]) for X, weights in parts)

    def compute(X, weights, rows):
        x, w = X[rows], weights[rows]
        if (w == w[0]).all():  # BLAS computes one half of a symmetric product
            x = x.astype(np.float32 if _has_exact_gram(x) else dtype, copy=False)
            return np.multiply(x.T @ x, w[0], dtype=float)
        x = x.astype(dtype, copy=False)
        return x.T @ (x * w[:, None])

    n_columns = parts[0][0].shape[1]
    n_entries = max(n_columns**2, 1)  # blocks of few columns have many rows
    size = int(np.clip(max(n_entries // 256, GRAM_UNIT // n_entries), *GRAM_ROWS))
    blocks = [(*part, slice(s, s + size)) for part in parts for s in range(0, len(part[0]), size)]
    total = np.zeros((n_columns, n_columns))
    for first in range(0, len(blocks), GRAMS):
        for gram in run_blocks(compute, blocks[first : first + GRAMS], None):
            total += gram
    return total


def _has_exact_gram(x):
    """Return whether ``x.T @ x`` is exact in float32: sums of integers up to 2**24."""
    if x.dtype.kind not in "biu":
        return False
    largest = max(int(x.max(initial=0)), -int(x.min(initial=0)))
    return len(x) * largest**2 <= 2**24


def count_units(n):
    """Return the smallest power of two that is at least ``n`` and at least 1.

    So many units of work can be divided equally among 2, 4, 8 or 16 threads.
    """
    return 2 ** ceil(log2(max(n, 1)))


def equal_slices(n, n_slices):
    """Divide ``range(n)`` into slices of about the same length, at least one."""
    n_slices = max(n_slices, 1)
    ends = [k * n // n_slices for k in range(n_slices + 1)]
    return [slice(*pair) for pair in pairwise(ends)]


def threads_of_products(n_multiplications, *, has_blocks=False):
    """Return a context in which matrix products use one thread if they are small.

    Threads hardly make a small product faster. If other programs use the cores, the threads wait
    for each other, and the product takes many times as long.

    Parameters
    ----------
    n_multiplications : float
        Number of multiplications of a product.
    has_blocks : bool, default=False
        Whether :func:`run_blocks` is called between the products. If it uses threads, all products
        use one thread: after a product, the threads of OpenBLAS keep their cores busy for many
        milliseconds while they wait for the next product.

    Returns
    -------
    context manager
        Context for the products.
    """
    is_small = n_multiplications < SMALL_PRODUCT
    return one_blas_thread if is_small or (has_blocks and _uses_threads()) else nullcontext()


def _uses_threads():
    """Return whether blocks without a number of jobs of their own run in threads."""
    return _count_threads(None) != 1


def _parallel(n_jobs, **options):
    try:
        return Parallel(n_jobs=n_jobs, return_as="generator", **options)
    except ValueError:  # the backend cannot return a generator
        return Parallel(n_jobs=n_jobs, **options)


def _call_all(parallel, function, tasks):
    return parallel(delayed(function)(*task) for task in tasks)
