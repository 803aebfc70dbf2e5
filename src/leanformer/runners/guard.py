"""`python guard.py COMMAND …`: a command that does not outlive the process that asked for it. Standard library only.

It is started as the leader of a session of its own, so that everything the command starts can be ended together.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time

WATCH_SECONDS = 0.5


def main() -> None:
    end_with_parent()
    signal.signal(signal.SIGTERM, lambda *_: None)  # the command gets it too, and may need time to end
    try:
        process = subprocess.Popen(sys.argv[1:], stdin=subprocess.DEVNULL)  # noqa: S603  the user's own command
    except OSError as error:
        print(f"{sys.argv[1]} cannot be started: {error.strerror}", file=sys.stderr)
        sys.exit(127)
    code = process.wait()
    if code < 0:  # ended by a signal: end in the same way
        if -code != signal.SIGKILL:
            signal.signal(-code, signal.SIG_DFL)
        os.kill(os.getpid(), -code)
    sys.exit(code)


def end_with_parent() -> None:
    """From now on, end this process and all of its session once its parent is gone."""
    threading.Thread(target=_watch, args=(os.getppid(),), daemon=True).start()


def _watch(parent: int) -> None:
    while os.getppid() == parent:
        time.sleep(WATCH_SECONDS)
    os.killpg(0, signal.SIGKILL)


if __name__ == "__main__":
    main()
