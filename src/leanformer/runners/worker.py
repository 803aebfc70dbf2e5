"""`python -m leanformer.runners.worker`: folders in, lines of JSON out. What libraries print goes to stderr."""

from __future__ import annotations

import json
import os
import signal
import sys
from pathlib import Path

from leanformer.runners.base import Event, execute


def main() -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # an interrupted parent ends its workers itself
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)
    log_with = sys.argv[1] if len(sys.argv) > 1 else ""

    def report(event: Event) -> None:
        try:
            print(json.dumps(event), file=answers, flush=True)
        except BrokenPipeError:
            os._exit(1)  # nobody is listening any more

    for line in sys.stdin:
        try:
            execute(Path(line.rstrip("\n")), report, log_with)
        except (ValueError, OSError) as error:
            kind = "OSError" if isinstance(error, OSError) else "ValueError"
            report({"event": "stopped", "kind": kind, "text": str(error)})


if __name__ == "__main__":
    main()
