"""The command line: thin commands, no logic. Heavy imports wait until a command needs them."""

import os
import sys

from leanformer.cli import models, runs  # noqa: F401  they add their commands to the app
from leanformer.cli.shared import app, messages


def main() -> None:
    """Run the command; a user's mistake is one clear line and exit code 2."""
    for quiet, value in (("TRANSFORMERS_VERBOSITY", "error"), ("HF_HUB_DISABLE_PROGRESS_BARS", "1")):
        os.environ.setdefault(quiet, value)
    try:
        app()
    except (ValueError, OSError) as error:
        if os.environ.get("RANK", "0") == "0":
            messages.print(f"leanformer: {error}", style="red", markup=False, highlight=False, soft_wrap=True)
        sys.exit(2)
    finally:
        if int(os.environ.get("WORLD_SIZE", "1")) > 1:
            from leanformer.machine import disconnect

            disconnect()
