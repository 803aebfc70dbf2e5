"""The command line: thin commands, no logic. Heavy imports wait until a command needs them."""

import os
import sys
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from typer.exceptions import Abort, TyperException

# Each of these modules adds its commands to the app; --help lists them in this order.
from leanformer.cli import compare, judge, design, bench, measure, inherit, sweep, train, glue, generate, export  # noqa: F401  # isort: skip
from leanformer.cli import status, explore, report, recipes, models, paper, schema  # noqa: F401  # isort: skip
from leanformer.cli.shared import app, messages
from leanformer.foundation.machine import check_processes, disconnect, is_first_process
from leanformer.foundation.records import NotWritten
from leanformer.foundation.stopping import EXIT_CODE, Stopped

BAD_INPUT, NOT_WRITTEN, INTERRUPTED = 2, 74, 130
"""Exit codes, beside 0 for success, 1 for runs that diverged, and 75 for work that was stopped and can be resumed."""


def main() -> None:
    """Run the command; bad input is one clear line and exit code 2."""
    for quiet, value in (("TRANSFORMERS_VERBOSITY", "error"), ("HF_HUB_DISABLE_PROGRESS_BARS", "1")):
        os.environ.setdefault(quiet, value)
    try:
        check_processes()
        with _lost_places() as lost:
            code = app(standalone_mode=False)
        code = code or (NOT_WRITTEN if lost else 0)
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
    except Stopped as error:
        _complain(str(error))
        code = EXIT_CODE
    except (Abort, KeyboardInterrupt):
        code = INTERRUPTED
    finally:
        disconnect()
    sys.exit(code or 0)


@contextmanager
def _lost_places() -> Iterator[list[str]]:
    """Say in a line each what could not be written where it belongs, and where it is; the list holds these lines."""
    said: list[str] = []
    with warnings.catch_warnings():
        warnings.simplefilter("always", NotWritten)
        others = warnings.showwarning

        def show(message: Warning | str, category: type[Warning], *more: Any, **named: Any) -> None:
            if issubclass(category, NotWritten):
                said.append(str(message))
                _complain(str(message))
            else:
                others(message, category, *more, **named)

        warnings.showwarning = show
        yield said


def _complain(message: str) -> None:
    """One line on stderr. Control characters that names may hold are shown, not sent to the terminal."""
    if _is_speaker():
        line = " ".join(message.split()) or "failed without a message"
        shown = "".join(letter if letter.isprintable() else repr(letter)[1:-1] for letter in line)
        messages.print(f"leanformer: {shown}", style="red", markup=False, highlight=False, soft_wrap=True, emoji=False)


def _is_speaker() -> bool:
    """Whether this process speaks for all. If the environment does not say, it does."""
    try:
        check_processes()
        return is_first_process()
    except ValueError:
        return True
