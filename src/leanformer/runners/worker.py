"""`python -m leanformer.runners.worker`: folders in, lines of JSON out. What libraries print goes to stderr."""

from __future__ import annotations

import json
import os
import sys
import threading
import time
from pathlib import Path

WATCH_SECONDS = 0.5


def main() -> None:
    threading.Thread(target=_end_with_parent, args=(os.getppid(),), daemon=True).start()
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)
    log_with = sys.argv[1] if len(sys.argv) > 1 else ""

    from leanformer.foundation.stopping import EXIT_CODE, Stopped
    from leanformer.runners.base import Event, execute

    def report(event: Event) -> None:
        try:
            print(json.dumps(event), file=answers, flush=True)
        except BrokenPipeError:
            os._exit(1)  # nobody is listening any more

    for line in sys.stdin:
        try:
            execute(Path(line.rstrip("\n")), report, log_with)
        except (ValueError, OSError, Stopped) as error:
            kind = next(kind.__name__ for kind in (Stopped, OSError, ValueError) if isinstance(error, kind))
            report({"event": "stopped", "kind": kind, "text": str(error)})
            if isinstance(error, Stopped):
                sys.exit(EXIT_CODE)


def _end_with_parent(parent: int) -> None:
    """A worker whose parent was killed ends at once; what it trained since its last checkpoint is trained again."""
    while os.getppid() == parent:
        time.sleep(WATCH_SECONDS)
    os._exit(1)


if __name__ == "__main__":
    main()
