"""Ctrl-C when it does no harm."""

import signal
from threading import current_thread, main_thread
from time import monotonic

TWICE = 1.0  # seconds between two that are meant


class InterruptLater:
    """Hold Ctrl-C back until the block is done; a second one, a second later, comes through.

    Compiled code that is handed a random generator of numpy ends the process where an exception
    comes up in the middle of that, and an update that was broken off leaves arrays of which some
    are new. Where Ctrl-C does not raise KeyboardInterrupt as it does in Python by itself, and
    outside of the main thread, nothing is changed.
    """

    def __enter__(self):
        self.first = None
        self.holds = (
            signal.getsignal(signal.SIGINT) is signal.default_int_handler
            and current_thread() is main_thread()
        )
        if self.holds:
            signal.signal(signal.SIGINT, self._hold)
        return self

    def __exit__(self, *exception):
        if self.holds:
            signal.signal(signal.SIGINT, signal.default_int_handler)
            if self.first is not None and exception[0] is None:
                raise KeyboardInterrupt

    def _hold(self, number, frame):
        if self.first is None:
            self.first = monotonic()
        elif monotonic() > self.first + TWICE:
            signal.default_int_handler(number, frame)
