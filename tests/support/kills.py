"""A process that is killed in the middle of writing."""

import os
import signal


def die_at_flush(number: int) -> None:
    """Kill this process when something is put onto the disk for the so-manieth time from now on."""
    flush, left = os.fsync, [number]

    def fsync(descriptor: int) -> None:
        left[0] -= 1
        if left[0] < 0:
            os.kill(os.getpid(), signal.SIGKILL)
        flush(descriptor)

    os.fsync = fsync
