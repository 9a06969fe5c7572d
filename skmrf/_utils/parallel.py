"""Parallel execution with joblib."""

from contextlib import contextmanager
from contextvars import ContextVar
from itertools import starmap

from joblib import parallel_config
from sklearn.utils.parallel import Parallel, delayed

_n_threads = ContextVar("n_threads", default=None)


@contextmanager
def parallel_jobs(n_jobs):
    """Set the number of jobs of all computations in a context that have no number of their own.

    The threads of :func:`run_blocks` are included. ``joblib.parallel_config`` alone would set one
    thread there, because the processes of joblib's default backend share no memory.

    Parameters
    ----------
    n_jobs : int or None
        Number of jobs, as in joblib. None changes nothing.
    """
    if n_jobs is None:
        yield
        return
    token = _n_threads.set(n_jobs)
    try:
        with parallel_config(n_jobs=n_jobs):
            yield
    finally:
        _n_threads.reset(token)


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
    return _call_all(_parallel(n_jobs), function, parts)


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
        Number of jobs, as in joblib. None takes the number of :func:`parallel_jobs`.
    long : bool, default=False
        Whether the computation of a block takes longer than sending it to another process.

    Returns
    -------
    iterable
        Result of each call, in the order of the blocks.
    """
    if len(blocks) > 1:
        options = {"prefer": "threads"} if long else {"require": "sharedmem"}
        if n_jobs is None and not long:
            n_jobs = _n_threads.get()
        parallel = _parallel(n_jobs, **options)
        if parallel.n_jobs != 1:
            return _call_all(parallel, function, blocks)
    return starmap(function, blocks)


def _parallel(n_jobs, **options):
    try:
        return Parallel(n_jobs=n_jobs, return_as="generator", **options)
    except ValueError:  # the backend cannot return a generator
        return Parallel(n_jobs=n_jobs, **options)


def _call_all(parallel, function, tasks):
    return parallel(delayed(function)(*task) for task in tasks)
