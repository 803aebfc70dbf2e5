"""`leanformer judge`: files in, table, page and JSON out; bad input is one line."""

import json
from pathlib import Path

import pytest

from support.command import call

TABLE = "arm,seed,score\n" + "".join(
    f"original,{seed},{90 + seed / 10}\nlean,{seed},{90.05 + seed / 9}\n" for seed in range(5)
)


def test_a_table_of_scores_becomes_a_verdict_and_a_page(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "scores.csv").write_text(TABLE, encoding="utf-8")
    found = call("judge", "scores.csv", "--margin", "0.5", "--unit", "%", "--json", "--out", "out")
    record = json.loads(found.stdout)
    assert record["verdict"]["outcome"] == "holds"
    assert set(record["arms"]) == {"original", "lean"}
    page = (tmp_path / "out" / "report.html").read_text(encoding="utf-8")
    assert "Lean holds against original" in page
    assert (tmp_path / "out" / "figures" / "differences.png").is_file()
    again = call("report", "out", "--json")
    assert json.loads(again.stdout)["verdict"] == record["verdict"]


def test_bad_input_is_one_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "scores.csv").write_text(TABLE, encoding="utf-8")
    for arguments, message in (
        (["scores.csv"], "judge needs --margin"),
        ([], "judge needs a file or a folder of scores"),
        (["scores.csv", "--margin", "nan"], "the margin must be a number of at least 0, got nan"),
        (["other.csv", "--margin", "1"], "there is no file other.csv"),
    ):
        found = call("judge", *arguments)
        assert found.returncode == 2
        assert message in found.stderr
        assert found.stderr.count("\n") == 1


def test_the_simulation_prints_its_table(tmp_path: Path) -> None:
    found = call("judge", "--simulate", "--sequences", "400", "--out", str(tmp_path))
    assert "planned looks, up to 30" in found.stdout
    assert "All promised rates are at most 2.5 %" in found.stdout
    assert json.loads((tmp_path / "simulation.json").read_text(encoding="utf-8"))["sequences"] == 400
