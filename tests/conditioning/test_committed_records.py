"""Every committed record of conditioning, also of 0.1, is read with its numbers, drawn, and written anew."""

import json
from pathlib import Path
from typing import Any

import pytest
from matplotlib.figure import Figure
from rich.table import Table

from leanformer.conditioning.heads import HeadsMeasurement
from leanformer.conditioning.measurement import Measurement, Ranks
from leanformer.conditioning.theory import Theory
from leanformer.foundation.records.base import Record
from leanformer.report import measurement as report
from leanformer.report.figures import measurement as figures

RESULTS = Path(__file__).parents[2] / "results"
OLD = Path(__file__).parents[1] / "fixtures" / "v0.1" / "measurement"
KINDS: dict[str, tuple[type[Record], Any, Any]] = {
    "measurement": (Measurement, report.layers, figures.kappa_by_layer),
    "heads": (HeadsMeasurement, report.heads, figures.kappa_by_heads),
    "ranks": (Ranks, report.ranks, figures.rank_by_layer),
    "theory": (Theory, report.theory, figures.theory_against_simulation),
}


def committed() -> dict[str, Path]:
    found = {}
    for path in [*sorted(RESULTS.rglob("*.json")), *OLD.glob("*.json")]:
        written = json.loads(path.read_text(encoding="utf-8"))
        if isinstance(written, dict) and written.get("kind") in KINDS:
            found[str(path.relative_to(RESULTS.parent))] = path
    return found


def test_there_are_some_and_they_can_be_repeated_anywhere() -> None:
    assert len(committed()) >= 11
    for path in (
        RESULTS / f"measure-{name}" / "kappa_by_layer.json" for name in ("minilm", "smollm2", "rxnfp", "iglm")
    ):
        record = Measurement.read(path)
        assert record.command.startswith(f"leanformer measure {record.model} --out results/")
        assert record.model.startswith("runs/pretrained/")
        assert path.with_suffix(".png").is_file()


@pytest.mark.parametrize("path", committed().values(), ids=committed().keys())
def test_it_is_read_drawn_and_written_anew(path: Path, tmp_path: Path) -> None:
    written = json.loads(path.read_text(encoding="utf-8"))
    kind, table, draw = KINDS[written["kind"]]
    record = kind.read(path)
    again = record.to_dict()
    for key, value in written.items():
        if key not in ("machine", "warnings"):  # the machine has a field more, sentences are composed anew
            assert again[key] == value, key
    assert isinstance(table(record), Table)
    assert isinstance(draw(record), Figure)
    record.write(tmp_path / "again.json")
    assert kind.read(tmp_path / "again.json") == record


@pytest.mark.parametrize("kind", [kind for kind, _, _ in KINDS.values()])
def test_a_record_of_another_kind_is_named(kind: type[Record]) -> None:
    with pytest.raises(ValueError, match=f"is a record of kind sweep; needed is the kind {kind.kind}"):
        kind.read(RESULTS / "sweep-farthest" / "sweep.json")
    assert {"kind", "version", "command"} <= set(kind.schema_of_file()["required"])
