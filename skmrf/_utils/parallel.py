"""Work in parallel: what joblib's backend may carry away, and what stays with the caller."""

from itertools import starmap

from sklearn.utils.parallel import Parallel, delayed


def run_parts(function, parts, n_jobs):
    """What ``function`` makes of every part, in order, wherever joblib's backend runs them.

    Results come one by one, unless the backend has them only all at once, as those of Ray and
    multiprocessing do.

    Parameters
    ----------
    function : callable
    parts : iterable of tuple
        Arguments.
    n_jobs : int or None

    Returns
    -------
    iterable
    """
    return _calls(_parallel(n_jobs), function, parts)


def run_blocks(function, blocks, n_jobs, *, long=False):
    """What ``function`` makes of every block of one step, in order, by threads of the caller.

    A joblib context of Dask, Ray or processes carries no block away unless it is ``long``: a fit
    has thousands of steps, and each would wait for messages.

    Parameters
    ----------
    function : callable
        Releases the GIL.
    blocks : list of tuple
        Arguments.
    n_jobs : int or None
    long : bool, default=False
        Whether a block takes longer than to send it.

    Returns
    -------
    iterable
    """
    if len(blocks) > 1:
        where = {"prefer": "threads"} if long else {"require": "sharedmem"}
        parallel = _parallel(n_jobs, **where)
        if parallel.n_jobs != 1:
            return _calls(parallel, function, blocks)
    return starmap(function, blocks)


def _parallel(n_jobs, **where):
    try:
        return Parallel(n_jobs=n_jobs, return_as="generator", **where)
    except ValueError:
        return Parallel(n_jobs=n_jobs, **where)


def _calls(parallel, function, tasks):
    return parallel(delayed(function)(*task) for task in tasks)
