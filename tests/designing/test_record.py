"""The record of a design: what 0.1 wrote is read, and sentences are composed from facts."""

import json
from pathlib import Path

import pytest

from leanformer.costs.runs import WholeRun
from leanformer.designing.plan import Limits, design
from leanformer.designing.record import DesignRecord, _short

COMMITTED = Path(__file__).parents[2] / "results" / "design-vit-base" / "design.json"


def test_the_committed_record_is_read_and_made_again() -> None:
    """Numbers are those of 0.1; sentences are composed anew, but for those whose facts were not recorded.

    0.1 tried every even number of heads, and did not know of models that are divided among devices.
    """
    written, record = json.loads(COMMITTED.read_text(encoding="utf-8")), DesignRecord.read(COMMITTED)
    assert record.recommended.params == 40_112_872
    assert record.words[0] == written["words"][0]
    assert "Multiply-accumulates (MACs) per sample go from 17.56 to 8.26 G" in record.words[1]
    assert record.words[-2:] == written["words"][-2:]
    plan = design("vit_base_patch16_224", limits=Limits(params=86_567_656 // 2), heads_multiple=2)
    made = plan.record(WholeRun(samples=384_000_000, devices=8)).to_dict()
    made["setting"] = {key: made["setting"][key] for key in written["setting"]}
    for row in (made["original"], made["recommended"], *made["front"]):
        assert row.pop("held")["gathered"] == 0
    for key in ("setting", "original", "recommended", "recommended_peak_bytes", "considered", "points"):
        assert made[key] == written[key], key
    assert [{**row, "run": None} for row in written["front"]] == made["front"]


def test_a_record_is_read_back(tmp_path: Path) -> None:
    record = design("gpt2").record(WholeRun(samples=1_500_000))
    record.write(tmp_path / "design.json")
    assert DesignRecord.read(tmp_path / "design.json") == record
    written = json.loads((tmp_path / "design.json").read_text())
    assert (written["kind"], written["version"]) == ("design", 2)
    assert written["words"] == record.words
    assert record.words[-1].startswith("A run of 1.5 M samples on 1 × a100 at 35 % of peak, recommended: ")


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (dict(kind="sweep"), "is a record of kind sweep; needed is the kind design"),
        (dict(version=99), "was written by a newer leanformer"),
        (dict(setting={"batch": 0}), "damaged: setting: batch must be at least 1"),
        (dict(considered="many"), "damaged: considered"),
        (dict(version=2, refuse=3), "damaged: refuse"),
    ],
)
def test_damaged_records(change: dict, message: str) -> None:
    written = json.loads(COMMITTED.read_text(encoding="utf-8"))
    with pytest.raises(ValueError, match=message):
        DesignRecord.parse({**written, **change}, "a.json")


@pytest.mark.parametrize(
    ("count", "text"),
    [(384_000_000, "384 M"), (1_500_000, "1.5 M"), (2_000_000_000, "2 G"), (1_281_167, "1,281,167"), (7, "7")],
)
def test_counts_as_people_write_them(count: int, text: str) -> None:
    assert _short(count) == text


def test_the_schema_names_every_field() -> None:
    schema = DesignRecord.schema_of_file()
    assert set(schema["properties"]) >= {"kind", "version", "setting", "original", "front", "points", "words", "commit"}
