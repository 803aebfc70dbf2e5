"""Requests to stop: SIGTERM and SIGUSR1 mean "write a checkpoint, then end with an exit code that says: resume me"."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from types import FrameType

EXIT_CODE = 75
"""The exit code of a command that was asked to stop and can be resumed (EX_TEMPFAIL)."""
SIGNALS = tuple(getattr(signal, name) for name in ("SIGTERM", "SIGUSR1") if hasattr(signal, name))


class Stopped(Exception):  # noqa: N818
    """Work ended early, on request, in a state from which the same command resumes."""


@dataclass
class StopRequest:
    """Whether a signal has asked to stop, and which."""

    signal_name: str = ""


@contextmanager
def stop_requests() -> Iterator[StopRequest]:
    """Inside, the signals are noted in place of ending the process; outside of the main thread nothing changes."""
    request = StopRequest()
    if threading.current_thread() is not threading.main_thread():
        yield request
        return
    owner = os.getpid()

    def note(number: int, frame: FrameType | None) -> None:
        if os.getpid() == owner:
            request.signal_name = signal.Signals(number).name
        else:  # a child process that was forked while this handler was in place
            signal.signal(number, signal.SIG_DFL)
            os.kill(os.getpid(), number)

    before = {number: signal.signal(number, note) for number in SIGNALS}
    try:
        yield request
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
