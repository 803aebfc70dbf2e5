"""The command line: thin commands, no logic. Heavy imports wait until a command needs them."""

import os
import sys

# Each of these modules adds its commands to the app; --help lists them in this order.
from leanformer.cli import compare, design, measure, sweep, train, glue, generate  # noqa: F401  # isort: skip
from leanformer.cli import report, recipes, models, paper, schema  # noqa: F401  # isort: skip
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
