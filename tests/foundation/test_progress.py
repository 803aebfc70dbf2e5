"""Progress: nothing where nobody is watching, bars in a terminal, bars in a notebook."""

import io
import re
from typing import Any

import nbclient
import nbformat
import pytest

from leanformer.foundation import progress
from leanformer.foundation.progress import RunsProgress, working


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def train(shown: bool | None) -> None:
    """What two runs report."""
    with RunsProgress(shown) as bars:
        bars.say("data: [red]of a test")
        bars.planned({"lean": 10}, [("lean", 0), ("lean", 1)])
        bars.hear("lean", 0, {"event": "progress", "step": 4, "loss": 1.5})
        bars.bars.refresh()
        bars.hear("lean", 0, {"event": "done"})
        bars.hear("lean", 1, {"event": "diverged", "text": "the loss became nan"})
    with working("measuring", shown) as step:
        step("layer 1")


def test_where_nobody_is_watching_nothing_is_shown(capsys: pytest.CaptureFixture[str]) -> None:
    train(None)
    assert capsys.readouterr() == ("", "")
    train(False)
    assert capsys.readouterr() == ("", "")


def test_who_asks_is_told_on_standard_error(capsys: pytest.CaptureFixture[str]) -> None:
    train(True)
    shown = capsys.readouterr()
    assert shown.out == ""
    said, first, diverged, last = shown.err.splitlines()
    assert (said, diverged) == ("data: [red]of a test", "the loss became nan")
    assert re.fullmatch(r"lean, seed 0: 1 of 2 runs done, about 0\.0 s left", first), "half of all steps are done"
    assert last == "lean, seed 1: 2 of 2 runs done"


def test_a_terminal_shows_bars(monkeypatch: pytest.MonkeyPatch) -> None:
    screen = Terminal()
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setattr("sys.stdout", Terminal())
    monkeypatch.setattr("sys.stderr", screen)
    train(None)
    for text in ("all runs", "2 runs", "lean, seed 0", "4/10", "loss 1.500", "the loss became nan", "measuring"):
        assert text in screen.getvalue()
    assert "runs done" not in screen.getvalue(), "the bars show it"
    assert progress.is_watched()


def test_the_first_process_speaks_for_all(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setenv("RANK", "1")
    train(True)
    assert capsys.readouterr() == ("", "")


def test_what_stops_can_be_resumed(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(KeyboardInterrupt), RunsProgress(True):
        raise KeyboardInterrupt
    assert capsys.readouterr().err == "stopped; repeat it to resume\n"


CELL = """
from leanformer.foundation import progress
progress.REDRAW_SECONDS = 0
with progress.RunsProgress() as bars:
    bars.say("data: of a test")
    bars.planned({"lean": 10}, [("lean", 0)])
    bars.hear("lean", 0, {"event": "progress", "step": 4, "loss": 1.5})
    drawn = bars._place._handle
    drawn.update = lambda shown: None  # what is there stays, so that this test can see it
with progress.working("measuring <layers>") as step:
    pass
"""


def test_a_notebook_shows_bars_beneath_the_cell() -> None:
    notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(CELL)])
    nbclient.NotebookClient(notebook, timeout=120, kernel_name="python3").execute()
    outputs: list[Any] = notebook.cells[0].outputs
    printed = "".join(output.text for output in outputs if output.output_type == "stream")
    assert printed == "data: of a test\n"
    bars, line = [output.data["text/html"] for output in outputs if output.output_type == "display_data"]
    for text in ("<pre>", "all runs", "lean, seed 0", "4/10", "loss 1.500"):
        assert text in bars
    assert line == "", "a line that is done is gone"
