"""The command line: thin commands, no logic. Heavy imports wait until a command needs them."""

import os
import sys

from typer.exceptions import Abort, TyperException

# Each of these modules adds its commands to the app; --help lists them in this order.
from leanformer.cli import compare, design, measure, sweep, train, glue, generate  # noqa: F401  # isort: skip
from leanformer.cli import report, recipes, models, paper, schema  # noqa: F401  # isort: skip
from leanformer.cli.shared import app, messages
from leanformer.foundation.machine import disconnect, is_first_process

BAD_INPUT, INTERRUPTED = 2, 130
"""Exit codes, beside 0 for success and 1 for runs that diverged."""


def main() -> None:
    """Run the command; bad input is one clear line and exit code 2."""
    for quiet, value in (("TRANSFORMERS_VERBOSITY", "error"), ("HF_HUB_DISABLE_PROGRESS_BARS", "1")):
        os.environ.setdefault(quiet, value)
    try:
        code = app(standalone_mode=False)
    except TyperException as error:
        context = getattr(error, "ctx", None)
        if context is not None and type(error).__name__ == "NoArgsIsHelpError":
            print(context.get_help())
        else:
            where = context.command_path if context is not None else "leanformer"
            _complain(f"{error.format_message().rstrip('.')}; try {where} --help")
        code = BAD_INPUT
    except (ValueError, OSError) as error:
        _complain(str(error))
        code = BAD_INPUT
    except (Abort, KeyboardInterrupt):
        code = INTERRUPTED
    finally:
        disconnect()
    sys.exit(code or 0)


def _complain(message: str) -> None:
    if is_first_process():
        messages.print(f"leanformer: {message}", style="red", markup=False, highlight=False, soft_wrap=True)
