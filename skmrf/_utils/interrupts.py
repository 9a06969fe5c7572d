"""Delayed keyboard interrupts, and time limits."""

import signal
from contextlib import contextmanager
from contextvars import ContextVar
from threading import current_thread, main_thread
from time import monotonic

_DEADLINE = ContextVar("deadline", default=float("inf"))
SECOND_PRESS_DELAY = 1.0  # seconds; terminals may send one press of Ctrl-C twice


class InterruptLater:
    """Context manager that delays Ctrl-C until the ``with`` block has ended.

    A second Ctrl-C, at least one second after the first one, interrupts immediately. The delay has
    two reasons. An exception while compiled code receives a numpy random generator ends the
    process. An interrupted update leaves some arrays updated and others not. Nothing is changed
    outside of the main thread, or if the program has its own handler for Ctrl-C.
    """

    def __enter__(self):
        """Install the handler that delays Ctrl-C."""
        self.first_press = None
        self.is_active = (
            signal.getsignal(signal.SIGINT) is signal.default_int_handler
            and current_thread() is main_thread()
        )
        if self.is_active:
            signal.signal(signal.SIGINT, self._handle)
        return self

    def __exit__(self, *exception):
        """Restore Python's signal handler, and raise the delayed KeyboardInterrupt."""
        if self.is_active:
            signal.signal(signal.SIGINT, signal.default_int_handler)
            if self.first_press is not None and exception[0] is None:
                raise KeyboardInterrupt

    def _handle(self, number, frame):
        if self.first_press is None:
            self.first_press = monotonic()
        elif monotonic() > self.first_press + SECOND_PRESS_DELAY:
            signal.default_int_handler(number, frame)


@contextmanager
def limit_time(seconds):
    """Limit the wall time of the computations in a ``with`` block, in the current thread.

    Iterative computations read :func:`remaining_time` and stop early. Computations without a
    partial result call :func:`check_time`.

    Parameters
    ----------
    seconds : float or None
        Time limit in seconds; None for no new limit. A limit of an outer block stays valid.
    """
    end = float("inf") if seconds is None else monotonic() + seconds
    token = _DEADLINE.set(min(end, _DEADLINE.get()))
    try:
        yield
    finally:
        _DEADLINE.reset(token)


def remaining_time():
    """Return the seconds until the time limit; infinity without a time limit."""
    return _DEADLINE.get() - monotonic()


def check_time():
    """Raise a TimeoutError if the time limit is exceeded."""
    if remaining_time() < 0:
        raise TimeoutError(
            "The computation did not end within time_limit, and this method has no partial result. "
            "Increase time_limit, or use another method."
        )
