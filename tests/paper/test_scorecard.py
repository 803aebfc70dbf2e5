"""The scorecard: every count that a recount of the paper has established, to the last digit."""

import json
from pathlib import Path

import pytest
from filelock import FileLock

from leanformer.models.published import LEAN_MODELS, ROWS, PrintedCount
from leanformer.paper.memory import add_memory, lean_shares
from leanformer.paper.record import Scorecard, ScorecardRow
from leanformer.paper.scorecard import paper, scorecard
from leanformer.report.scorecard import markdown, sentences

COMMITTED = Path(__file__).parents[2] / "results" / "paper-scorecard.md"


@pytest.fixture(scope="module")
def record(tmp_path_factory: pytest.TempPathFactory) -> Scorecard:
    """Counted once, also where several processes run the tests."""
    file = tmp_path_factory.getbasetemp().parent / "recounted-scorecard.json"
    with FileLock(f"{file}.lock"):
        if not file.exists():
            scorecard().write(file)
        return Scorecard.read(file)


@pytest.fixture
def recounts(record: Scorecard) -> tuple[ScorecardRow, ...]:
    return record.rows


COUNTS = {
    # (model, variant): parameters by the reading that explains the row, and what the row's status must be
    ("ViT-B", "original"): (86_567_656, "matches"),
    ("ViT-B", "lean"): (40_112_872, "matches"),
    ("DeiT-B", "original"): (86_567_656, "matches"),
    ("DeiT-B", "lean"): (40_112_872, "matches"),
    ("XCiT-M", "original"): (84_395_752, "matches"),
    ("XCiT-M", "lean"): (59_002_600, "matches"),
    ("TNT-B", "original"): (65_428_680, "matches"),
    ("TNT-B", "lean"): (30_897_800, "matches under another reading than printed"),
    ("VOLO-d3", "original"): (86_325_072, "matches under another reading than printed"),
    ("VOLO-d3", "lean"): (47_454_032, "matches"),
    ("DaViT-B", "original"): (87_954_408, "matches"),
    ("DaViT-B", "lean"): (62_653_416, "unexplained"),
    ("ViT-L", "original"): (203_556_840, "matches under another reading than printed"),
    ("ViT-L", "lean"): (98_597_864, "matches"),
    ("DeiT-L", "original"): (203_556_840, "matches under another reading than printed"),
    ("DeiT-L", "lean"): (98_597_864, "matches"),
    ("XCiT-L", "original"): (189_096_136, "matches"),
    ("XCiT-L", "lean"): (103_792_744, "matches"),
    ("VOLO-d4", "original"): (192_961_520, "matches under another reading than printed"),
    ("VOLO-d4", "lean"): (105_556_976, "matches under another reading than printed"),
    ("DaViT-L", "original"): (196_811_752, "matches"),
    ("DaViT-L", "lean"): (139_985_896, "matches"),
    ("Crammed BERT", "original"): (119_589_889, "matches"),
    ("Crammed BERT", "lean"): (84_182_017, "matches"),
    ("Crammed BERT", "control"): (84_182_017, "not printed"),
    ("GPT-2, TinyStories", "original"): (89_160_785, "matches"),
    ("GPT-2, TinyStories", "lean"): (64_150_609, "matches"),
    ("GPT-2, TinyStories", "control"): (64_085_073, "not printed"),
}
AS_PRINTED = {
    ("TNT-B", "lean"): 44_015_240,
    ("VOLO-d3", "original"): 103_119_696,
    ("VOLO-d4", "lean"): 85_489_136,
    ("ViT-L", "original"): 304_326_632,
}
ARENA = {  # counts of (2, 2), (1, 4), (1, 6), (1, 8)
    "ListOps": (209_802, 192_906, 209_482, 226_058),
    "text": (370_562, 353_666, 370_242, 386_818),
    "retrieval": (395_138, 378_242, 394_818, 411_394),
    "image": (174_986, 158_090, 174_666, 191_242),
    "Pathfinder": (173_954, 157_058, 173_634, 190_210),
}


def test_every_row_of_the_tables(recounts: tuple[ScorecardRow, ...]) -> None:
    found = {(r.model, r.variant): (r.params, r.status) for r in recounts if r.table not in ("Tab. 3", "Fig. 3")}
    assert found == COUNTS


def test_counts_exactly_as_printed(recounts: tuple[ScorecardRow, ...]) -> None:
    found = {(r.model, r.variant): r.params_as_printed for r in recounts}
    assert {key: found[key] for key in AS_PRINTED} == AS_PRINTED


@pytest.mark.parametrize("task", ARENA)
def test_the_long_range_arena_grid(recounts: tuple[ScorecardRow, ...], task: str) -> None:
    rows = [r for r in recounts if r.model == f"Nyströmformer, {task}"]
    grid = {(r.printed.depth, r.printed.heads): r.params_as_printed for r in rows}
    assert tuple(grid[key] for key in ((2, 2), (1, 4), (1, 6), (1, 8))) == ARENA[task]
    assert (1, 2) in grid  # the depth-only control


def test_where_the_arenas_printed_counts_come_from(recounts: tuple[ScorecardRow, ...]) -> None:
    statuses = {
        (r.model.removeprefix("Nyströmformer, "), r.variant): r.status
        for r in recounts
        if r.table == "Tab. 3" and r.variant != "control"
    }
    other = "matches under another reading than printed"
    assert statuses == {
        ("ListOps", "original"): "not printed",
        ("ListOps", "lean"): "matches",
        ("text", "original"): "unexplained",
        ("text", "lean"): "not printed",
        **{(task, variant): other for task in ("retrieval", "image", "Pathfinder") for variant in ("original", "lean")},
    }


def test_the_range_of_figure_3_is_not_explained(recounts: tuple[ScorecardRow, ...]) -> None:
    assert [(r.params, r.status) for r in recounts if r.table == "Fig. 3"] == [
        (61_364_968, "unexplained"),
        (67_662_568, "unexplained"),
    ]


def test_readings_in_words(recounts: tuple[ScorecardRow, ...]) -> None:
    words = {(r.model, r.variant): r.reading for r in recounts}
    assert words["ViT-B", "lean"] == "fixed, head_dim 64"
    assert words["TNT-B", "lean"] == "split, head_dim 40; MLP 1280, printed 2560"
    assert words["ViT-L", "original"] == "layers 16, printed 24"
    assert words["Crammed BERT", "lean"] == "split, head_dim 32"


@pytest.mark.parametrize(
    ("digits", "unit", "params", "agrees"),
    [
        ("86.6", "M", 86_567_656, True),
        ("86", "M", 86_325_072, True),
        ("119", "M", 119_589_889, True),  # cut off
        ("120", "M", 119_589_889, True),  # rounded
        ("62.0", "M", 62_653_416, False),
        ("371.2", "k", 370_562, False),
        ("192.9", "k", 192_906, True),
    ],
)
def test_printed_digits(digits: str, unit: str, params: int, agrees: bool) -> None:
    assert PrintedCount(digits, unit).agrees(params) is agrees  # type: ignore[arg-type]


def test_memory(record: Scorecard) -> None:
    """Most rows fit one reading; ViT-L's originals, XCiT-M's and VOLO-d3's do not."""
    statuses = {(row.model, row.variant): row.memory.status for row in record.rows if row.memory}
    assert len(statuses) == 22
    assert sum(status == "within 10 %" for status in statuses.values()) == 15
    assert statuses["VOLO-d3", "original"] == statuses["VOLO-d3", "lean"] == "more than 10 % off"
    assert statuses["XCiT-L", "original"] == statuses["DaViT-L", "lean"] == "within 10 %"
    shares = lean_shares(record.rows)
    assert shares["DaViT-L"] == (pytest.approx(186.4 / 238.4), pytest.approx(0.80, abs=0.01))
    words = sentences(record)[1]
    assert words.startswith("15 of 22 printed memory figures are within 10 %")
    assert "8 bytes per parameter" in words
    language = [row for row in record.rows if row.table == "Tab. 1"]
    assert add_memory(language) == language


def test_the_committed_table_is_todays(record: Scorecard) -> None:
    assert markdown(record) + "\n" == COMMITTED.read_text(encoding="utf-8")


def test_the_record_is_written_and_read_back(record: Scorecard, tmp_path: Path) -> None:
    record.write(tmp_path / "scorecard.json")
    written = json.loads((tmp_path / "scorecard.json").read_text(encoding="utf-8"))
    assert (written["kind"], written["version"]) == ("scorecard", 5)
    assert written["summary"].startswith("20 of 36 printed counts match as printed, 12 under another reading")
    row = next(row for row in written["rows"] if (row["model"], row["variant"]) == ("ViT-B", "lean"))
    assert row["printed"] == {
        "depth": 7,
        "heads": 16,
        "mlp_dim": 1536,
        "params": "40.1 M",
        "top1": 80.4,
        "top5": 94.9,
        "memory_gb": 101.6,
    }
    assert row["memory"].keys() == {"printed_gb", "counted_gb", "constant_gb", "ratio", "status"}
    assert row["memory"]["counted_gb"] == round(row["memory"]["counted_gb"], 1)
    again = Scorecard.read(tmp_path / "scorecard.json")
    assert markdown(again) == markdown(record)
    assert again.rows[0].architecture == record.rows[0].architecture
    Scorecard.schema_of_file()
    damaged = {**written, "rows": [{**written["rows"][0], "status": "perhaps"}]}
    with pytest.raises(ValueError, match=r"x is damaged: rows\.0\.status: .*got 'perhaps'"):
        Scorecard.parse(damaged, "x")


def test_one_table_without_memory() -> None:
    steps: list[str] = []
    found = scorecard([row for row in ROWS if row.table == "Tab. 2"], memory=False, progress=steps.append)
    assert [row.params for row in found.rows] == [89_160_785, 64_150_609, 64_085_073]
    assert steps == ["counting GPT-2, TinyStories"] * 3
    assert sentences(found) == [found.summary]
    assert markdown(found).splitlines()[0].endswith("| status |")


def test_every_lean_row_has_a_name() -> None:
    lean = [row for row in ROWS if row.variant == "lean" and row.table != "Fig. 3"]
    assert len(LEAN_MODELS) == len(lean) == 18


def test_rows_that_a_record_lacks_are_counted_again(tmp_path: Path) -> None:
    record = paper(results=COMMITTED.parent)
    kept = [row for row in record.rows if row.table != "Tab. 2"]
    record.changed(rows=tuple(kept)).write(tmp_path / "paper" / "scorecard.json")
    with pytest.raises(ValueError, match="the recorded scorecard lacks GPT-2, TinyStories: count its rows again"):
        paper(results=tmp_path)
    found = paper(results=tmp_path, table="Tab. 2", recount=True, memory=False)
    assert [row.params for row in found.rows] == [89_160_785, 64_150_609, 64_085_073]
    assert found.command == record.command, "most rows are those of the record"
