"""`python -m leanformer.runners.function_child`: calls one function that another process carried over.

Standard input holds a line of JSON, with the other process's `sys.path` and the arguments, and then the function,
pickled. It comes from the process that started this one, through a file without a name. A descriptor tells that process
how it went: "." once the function has arrived, or why it cannot be read.
"""

from __future__ import annotations

import json
import os
import pickle
import sys

from leanformer.runners.guard import end_with_parent


def main() -> None:
    end_with_parent()
    answer = int(sys.argv[1])
    handed = json.loads(sys.stdin.buffer.readline())
    sys.path[:] = handed["path"]
    try:
        call = pickle.load(sys.stdin.buffer)  # noqa: S301  from our own parent, see above
    except Exception as error:
        os.write(answer, f"{type(error).__name__}: {' '.join(str(error).split())[:1000]}".encode())
        sys.exit(1)
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    os.write(answer, b".")
    os.close(answer)
    call(*handed["arguments"])


if __name__ == "__main__":
    main()
