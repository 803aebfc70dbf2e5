"""The command line: thin commands, no logic. Heavy imports wait until a command needs them."""

import os
import sys

from leanformer.cli import compare, design, generate, glue, measure, models, paper, recipes, report, sweep, train  # noqa: F401  each adds its commands to the app
from leanformer.cli.shared import app, messages
from leanformer.machine import disconnect, is_first_process


def main() -> None:
    """Run the command; a user's mistake is one clear line and exit code 2."""
    for quiet, value in (("TRANSFORMERS_VERBOSITY", "error"), ("HF_HUB_DISABLE_PROGRESS_BARS", "1")):
        os.environ.setdefault(quiet, value)
    try:
        app()
    except (ValueError, OSError) as error:
        if is_first_process():
            messages.print(f"leanformer: {error}", style="red", markup=False, highlight=False, soft_wrap=True)
        sys.exit(2)
    finally:
        disconnect()
