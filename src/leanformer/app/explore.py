"""`lf.explore`: the explorer in the browser, or its design view as one file."""

from __future__ import annotations

import itertools
import sys
import threading
import webbrowser
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from typing import Any, get_args

from leanformer.app.pages import page
from leanformer.app.server import Explorer, start_of
from leanformer.foundation.arguments import ArgumentError, check_types, names, writable
from leanformer.foundation.progress import working
from leanformer.foundation.records.files import write_text

EXPORTED = ("vit_base_patch16_224", "bert-base-uncased", "gpt2")
"""Models of an exported page, unless others are named."""
RUNS = "runs"
LARGEST_PORT = 65535


def explore(
    folder: str | Path | None = None,
    *,
    port: int | None = None,
    browser: bool = True,
    export: str | Path | None = None,
    models: str | Iterable[str] | None = None,
    progress: bool | None = None,
) -> Path | None:
    """Open the explorer in the browser: designs, measurements, running and finished studies, and the paper.

    It answers on this machine only, reads this folder only, changes nothing, and runs until it is interrupted.

    >>> lf.explore("runs")

    Args:
        folder: what to show; by default "runs", which need not exist yet.
        port: port of the server; by default 8642, or any free one.
        browser: whether to open the browser.
        export: write the design view as one HTML file to this path instead, and return the path.
        models: whose designs the exported page shows.
        progress: whether to say what is being done; by default where a person is watching.
    """
    check_types(locals())
    if export is not None:
        return _exported(Path(export), names(models) or list(EXPORTED), progress)
    if models is not None:
        raise ArgumentError("{models} goes with {export}: the explorer itself shows every model")
    if folder is not None and not Path(folder).is_dir():
        raise ValueError(f"{folder} is not a folder")
    if port is not None and not 0 <= port <= LARGEST_PORT:
        raise ArgumentError(f"{{port}} must be between 0 and {LARGEST_PORT}, got {port}")
    with Explorer(Path(RUNS if folder is None else folder), port) as explorer:
        print(f"the explorer is at {explorer.url} (stop it with Ctrl-C)", file=sys.stderr, flush=True)
        if browser:
            webbrowser.open(explorer.url)
        with suppress(KeyboardInterrupt):
            _serve(explorer)
    return None


def _serve(explorer: Explorer) -> None:
    """The server has threads of its own: there is nothing to do but wait."""
    threading.Event().wait()


def _exported(path: Path, wanted: list[str], progress: bool | None) -> Path:
    if path.is_dir():
        raise ArgumentError("{export} takes the name of a file, such as design.html, got the folder {path}", path=path)
    writable(path.parent, "export")
    with working("counting", progress) as say:
        known = static(wanted, say)
    write_text(path, page(known))
    return path


def static(wanted: list[str], say: Any = lambda step: None) -> dict[str, Any]:
    """What a page without a server knows: the models with their coefficients in every setting."""
    from leanformer.app.designs import Designs, setting_of
    from leanformer.costs.tracing import Precision
    from leanformer.models.base import Attention

    designs = Designs(None)
    settings = list(itertools.product(get_args(Precision), get_args(Attention), ("false", "true")))
    found: dict[str, Any] = {}
    for name in wanted:
        model, formulas = designs.model(name), {}
        for number, (precision, attention, checkpointing) in enumerate(settings, start=1):
            say(f"{name}: setting {number} of {len(settings)}")
            asked = {"precision": precision, "attention": attention, "checkpointing": checkpointing}
            formulas["|".join(asked.values())] = designs.closed_form(name, setting_of(asked))
        found[name] = {"model": model, "formulas": formulas}
    return start_of("", wanted[0]) | {"names": {"": wanted}, "static": found}
