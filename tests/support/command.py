"""The command line: `run` starts the installed command as a user does; `call` runs it inside this process, quickly."""

import contextlib
import io
import subprocess
import sys
from pathlib import Path
from unittest import mock

COMMAND = Path(sys.executable).with_name("leanformer")


def run(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([COMMAND, *arguments], capture_output=True, text=True, check=False)


def call(*arguments: str) -> subprocess.CompletedProcess[str]:
    """What `run` gives, without a process of its own: exit code, standard output and standard error."""
    from leanformer import cli

    written, said, code = io.StringIO(), io.StringIO(), 0
    with (
        mock.patch.object(sys, "argv", [str(COMMAND), *arguments]),
        mock.patch.dict("os.environ"),
        contextlib.redirect_stdout(written),
        contextlib.redirect_stderr(said),
    ):
        try:
            cli.main()
        except SystemExit as leaving:
            code = leaving.code if isinstance(leaving.code, int) else int(leaving.code is not None)
    return subprocess.CompletedProcess([str(COMMAND), *arguments], code, written.getvalue(), said.getvalue())
