"""Every result can be looked at: a short repr, a table in a notebook, a figure, a data frame."""

import io
import json
import sys
from pathlib import Path
from typing import Any

import pytest
from matplotlib.figure import Figure
from rich.console import Console

from leanformer.foundation.records import KINDS, record_class
from leanformer.foundation.records.base import Record
from leanformer.foundation.records.views import VIEWS, view_of
from leanformer.paper.record import Scorecard
from leanformer.report import tables
from leanformer.report.figures.style import save

ROOT = Path(__file__).parents[2]
HOSTILE = "<script>alert(1)</script>[red]&"


def found() -> dict[str, Path]:
    """A committed record of every kind that there is one of."""
    files: dict[str, Path] = {}
    for file in sorted((ROOT / "results").rglob("*.json")):
        written = json.loads(file.read_text())
        if isinstance(written, dict) and written.get("kind") in VIEWS:
            files.setdefault(written["kind"], file)
    files["result"] = next(iter(sorted((ROOT / "tests" / "fixtures" / "v0.1").rglob("result.json"))))
    return files


FOUND = found()


@pytest.fixture(params=sorted(FOUND))
def record(request: pytest.FixtureRequest) -> Record:
    return record_class(request.param).read(FOUND[request.param])


def test_kinds_with_a_view_are_kinds_of_record() -> None:
    assert VIEWS.keys() <= KINDS.keys()
    assert FOUND.keys() >= VIEWS.keys() - {"ranks", "status"}


def test_a_record_is_short_and_says_what_it_is(record: Record) -> None:
    assert len(repr(record)) < 2000
    assert "\n" not in repr(record)
    assert repr(record) == str(record)
    assert repr(record).startswith(f"{type(record).__name__}(")
    assert "command=" not in repr(record)


def test_a_notebook_shows_the_table_and_what_it_says(record: Record) -> None:
    shown, view = record._repr_html_(), view_of(record.kind)
    assert shown is not None
    assert shown.count("<tr") == 1 + len(view.table(record).rows)
    for sentence in view.sentences(record)[:1]:
        assert sentence.split("[")[0].split("'")[0] in shown.replace("&#x27;", "'")


def test_figures_are_those_of_the_report(record: Record) -> None:
    if record.kind == "paper-table":
        with pytest.raises(ValueError, match="this PaperTable has no figure"):
            record.plot()
        return
    drawn = record.plot()
    assert isinstance(drawn, Figure)
    assert drawn.axes[0].has_data()
    with pytest.raises(ValueError, match=rf"this {type(record).__name__} has no figure 'nothing'; it has \w+"):
        record.plot("nothing")


@pytest.mark.parametrize("kind", ["measurement", "heads", "comparison", "result"])
def test_figures_are_drawn_where_every_kappa_is_infinite(kind: str, tmp_path: Path) -> None:
    plain = json.loads(FOUND[kind].read_text())
    singular = record_class(kind).parse(_singular({k: v for k, v in plain.items() if k not in KEPT}), "a test")
    name = "kappa" if kind in ("comparison", "result") else None
    save(singular.plot(name), tmp_path / "figure", [".svg"])
    assert (tmp_path / "figure.svg").stat().st_size > 1000


KEPT = ("kind", "version", "checksum")


def _singular(value: Any, inside: bool = False) -> Any:
    """A record in which all that is said of κ is infinite."""
    if isinstance(value, dict):
        return {
            key: _singular(item, inside or key in ("kappa", "lowest_layer", "highest_layer"))
            for key, item in value.items()
        }
    if isinstance(value, list):
        return [_singular(item, inside) for item in value]
    return "inf" if inside and isinstance(value, float) else value


def test_a_notebook_shows_figures_without_pyplot() -> None:
    drawn: Any = record_class("sweep").read(FOUND["sweep"]).plot()
    assert drawn._repr_png_().startswith(b"\x89PNG")


def test_frames_have_plain_numbers(record: Record) -> None:
    frame = record.to_frame()
    assert len(frame) > 0
    if record.kind == "paper-table":  # texts, as the paper prints them
        assert list(frame.columns) == list(record.to_dict()["head"])
        return
    assert len(frame.select_dtypes("number").columns) >= 2
    assert all(isinstance(name, str) for name in frame.columns)


def test_the_frame_of_a_comparison() -> None:
    record: Any = record_class("comparison").read(FOUND["comparison"])
    frame = record.to_frame().set_index("arm")
    for name, arm in record.arms.items():
        assert frame.loc[name, "score"] == arm.score.mean
        assert (frame.loc[name, "score_low"], frame.loc[name, "score_high"]) == (arm.score.t.low, arm.score.t.high)
        assert frame.loc[name, "depth"] == arm.architecture.depth
        assert frame.loc[name, "seed_0"] == arm.scores["0"]


def test_names_cannot_break_out_of_a_notebook() -> None:
    for kind, field in (("comparison", "name"), ("measurement", "model"), ("sweep", "name"), ("heads", "inputs")):
        record = record_class(kind).read(FOUND[kind])
        shown = record.model_copy(update={field: HOSTILE})._repr_html_()
        assert shown is not None
        assert "<script" not in shown
        assert "&lt;script&gt;alert(1)&lt;/script&gt;[red]&amp;" in shown
    html = tables.html(tables.terminal(HOSTILE, [HOSTILE], [[HOSTILE]]), [HOSTILE])
    assert html.count("&lt;script&gt;") == 4
    assert "<script" not in html


def test_what_has_no_figure_says_so() -> None:
    card = Scorecard.model_construct(summary="nothing", rows=())
    with pytest.raises(ValueError, match="this Scorecard has no figure"):
        card.plot()
    run = record_class("run").model_construct()
    with pytest.raises(ValueError, match="a record of kind run has no table and no figure; those of kind measurement"):
        run.plot()
    assert run._repr_html_() is None


def test_without_pandas_one_line_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pandas", None)
    with pytest.raises(ImportError, match=r"^to_frame needs pandas: pip install pandas$"):
        record_class("sweep").read(FOUND["sweep"]).to_frame()


def test_the_terminal_shows_every_kind(record: Record) -> None:
    shown = io.StringIO()
    Console(file=shown, width=160).print(view_of(record.kind).table(record))
    assert len(shown.getvalue().splitlines()) > 3
