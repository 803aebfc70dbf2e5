"""The installed command, run as a user runs it."""

import subprocess
import sys
from pathlib import Path

COMMAND = Path(sys.executable).with_name("leanformer")


def run(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([COMMAND, *arguments], capture_output=True, text=True, check=False)
