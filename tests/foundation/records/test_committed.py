"""The committed records: each is read by the present classes, and the pages beside them are what they give today."""

from pathlib import Path

import jsonschema
import pytest

from leanformer.experiments.comparison_records import Comparison
from leanformer.experiments.glue import Glue
from leanformer.experiments.judging.estimates import Estimate, paired
from leanformer.experiments.judging.simulation import Simulation
from leanformer.experiments.sweep_records import Sweep
from leanformer.foundation import records
from leanformer.foundation.records.files import read_json
from leanformer.paper.rules import slope
from leanformer.report import glue, page, simulation, sweep

RESULTS = Path(__file__).parents[3] / "results"
FILES = sorted(path for path in RESULTS.rglob("*.json") if "bench" not in path.parts)


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(RESULTS)))
def test_every_committed_record_is_read_and_written_by_its_class(path: Path) -> None:
    found = records.record_class(read_json(path)["kind"])
    record = found.read(path)
    again = record.to_dict()
    assert found.parse(again, "again") == record
    jsonschema.validate(again, found.schema_of_file())


@pytest.mark.parametrize("path", sorted(RESULTS.glob("*/comparison.json")), ids=lambda path: path.parent.name)
def test_pages_of_comparisons_are_what_their_records_give(path: Path) -> None:
    assert page.markdown(Comparison.read(path)) == path.with_name("report.md").read_text(encoding="utf-8")


@pytest.mark.parametrize("path", sorted(RESULTS.rglob("sweep.json")), ids=lambda path: path.parent.name)
def test_pages_of_sweeps_are_what_their_records_give(path: Path) -> None:
    assert sweep.markdown(Sweep.read(path)) == path.with_name("sweep.md").read_text(encoding="utf-8")


def test_the_page_of_glue_is_what_its_record_gives() -> None:
    record = Glue.read(RESULTS / "glue" / "glue.json")
    assert glue.markdown(record) == (RESULTS / "glue" / "glue.md").read_text(encoding="utf-8")


def test_the_error_rates_in_the_documentation_are_those_of_the_record() -> None:
    record = Simulation.read(RESULTS / "judge-simulation" / "simulation.json")
    shown = (RESULTS.parent / "docs" / "findings" / "error_rates.md").read_text(encoding="utf-8")
    assert simulation.markdown(record) in shown
    assert simulation.note(record) in shown
    assert record.within_bounds()


def test_the_best_learning_rates_are_those_of_the_page() -> None:
    cells = Sweep.read(RESULTS / "sweep-completep" / "sweep.json").cells
    best = {}
    for parametrization in ("standard", "completep"):
        for depth in (2, 4, 8, 16):
            here = {
                cell.values["training.lr"]: cell.score.mean
                for cell in cells
                if cell.score
                and (cell.values["depth"], cell.values["training.parametrization"]) == (depth, parametrization)
            }
            best[parametrization, depth] = max((score, rate) for rate, score in here.items())
    assert [best["standard", depth][1] for depth in (2, 4, 8, 16)] == [0.032, 0.008, 0.008, 0.004]
    assert {best["completep", depth][1] for depth in (2, 4, 8, 16)} == {0.008}
    assert best["standard", 16][0] == pytest.approx(70, abs=0.5)
    assert {round(best["completep", depth][0]) for depth in (2, 4, 8, 16)} == {88, 89}


def test_the_default_comparison_was_decided_with_every_set_of_seeds() -> None:
    rows = read_json(RESULTS / "bench" / "decisions.json")["rows"]
    assert len(rows) == 10
    assert {row["outcome"] for row in rows} == {"holds"}
    assert {row["seeds"] for row in rows} == {4, 6, 9}


@pytest.mark.parametrize("steps", [500, 1500])
def test_the_tuned_losses_are_those_of_the_page(steps: int) -> None:
    page = (RESULTS.parent / "docs" / "findings" / "language.md").read_text(encoding="utf-8")
    record = Comparison.read(RESULTS / f"tuned-tinystories-{steps}" / "comparison.json")
    assert record.tuned is not None
    assert record.tuning is not None
    for arm, row in record.arms.items():
        shared, best = row.score, record.tuned.arms[arm].score
        assert shared is not None
        assert best is not None
        assert f"| {shared.mean:.3f} ± {shared.t.half:.3f} | {record.tuning.best[arm]['lr']:g} |" in page
        assert f"| {best.mean:.3f} ± {best.t.half:.3f} |" in page
    for verdict in (record.verdict, record.tuned.verdict):
        for found in verdict.lean.values():
            interval = found.difference.t
            assert interval is not None
            said = f"{found.difference.mean:+.3f} [{interval.low:+.3f}, {interval.high:+.3f}]".replace("-", "−")
            assert said in page


@pytest.mark.parametrize("task", ["sst2", "stsb", "cola", "mrpc", "rte"])
def test_the_fine_tuned_scores_are_those_of_the_page(task: str) -> None:
    page = (RESULTS.parent / "docs" / "findings" / "healed_models.md").read_text(encoding="utf-8")
    record = Comparison.read(RESULTS / f"inherited-minilm-{task}" / "comparison.json")
    scores = [record.arms[arm].score for arm in ("original", "lean", "shallow")]
    cells = [f"{score.mean:.1f} ± {score.t.half:.1f}" for score in scores if score is not None and score.t is not None]
    for against in ("original", "shallow"):
        difference = record.verdict.lean[against].difference
        assert difference.t is not None
        said = f"{difference.mean:+.1f} [{difference.t.low:+.1f}, {difference.t.high:+.1f}]"
        cells.append(said.replace("-", "−"))
    (row,) = (line for line in page.splitlines() if f"inherited-minilm-{task}/report.md" in line)
    assert f"| {' | '.join(cells)} | {record.verdict.outcome} |" in row


def test_the_healed_losses_are_those_of_the_page() -> None:
    page = (RESULTS.parent / "docs" / "findings" / "healed_models.md").read_text(encoding="utf-8")
    record = Comparison.read(RESULTS / "healed-smollm2" / "comparison.json")
    assert len(record.arms) == 9
    for arm, runs in record.runs.items():
        before, after = ([run.evaluations[place].scores["loss"] for run in runs.values()] for place in (0, -1))
        seeds = ", ".join(f"{loss:.3f}" for loss in after)
        cells = (f"{record.arms[arm].params / 1e6:.1f} M", f"{before[0]:.2f}", f"{sum(after) / 2:.3f} ({seeds})")
        assert f"| {' | '.join(cells)} |" in page


@pytest.mark.parametrize("name", ["sweep-farthest-length", "sweep-farthest-dimension"])
def test_the_errors_of_full_and_half_rank_are_those_of_the_page(name: str) -> None:
    page = (RESULTS.parent / "docs" / "findings" / "heads_and_rank.md").read_text(encoding="utf-8")
    rows = {line.split("|")[1].strip(): line for line in page.splitlines() if line.startswith("| ") and "rank" in line}
    difference = next(line for line in page.splitlines() if line.startswith("| difference | 0.0"))
    for cell in Sweep.read(RESULTS / name / "sweep.json").cells:
        assert cell.score is not None
        row = rows["full rank" if cell.values["heads"] == 1 else "half the rank"]
        assert f"| {cell.score.mean:.3f} ± {cell.score.t.half:.3f} |" in row
        if found := cell.difference:
            assert f"| {-found.mean:.3f} [{-found.t.high:.3f}, {-found.t.low:.3f}] |" in difference


def test_the_differences_of_figures_are_those_of_the_page() -> None:
    page = (RESULTS.parent / "docs" / "findings" / "figures.md").read_text(encoding="utf-8")
    record = Sweep.read(RESULTS / "paper" / "grid-fashion-mnist" / "sweep.json")
    cells = {tuple(cell.values[name] for name in ("depth", "heads", "mlp_dim")): cell for cell in record.cells}

    def said(found: Estimate | None) -> str:
        assert found is not None
        assert found.t is not None
        return f"{found.mean:+.2f} [{found.t.low:+.2f}, {found.t.high:+.2f}]".replace("-", "−")

    for depth in (8, 5):
        found = said(slope(record, "heads", {"depth": depth, "mlp_dim": 256}))
        assert found in page.replace(" points [", " [")
    for heads in (4, 6, 8):
        assert said(paired(cells[5, heads, 256].scores, cells[8, 4, 256].scores, 1)) in page
    for sizes in ((8, 4, 64), (5, 4, 64)):
        score = cells[sizes].score
        assert score is not None
        assert f"{score.mean:.2f} %" in page
        assert score.mean == max(cells[sizes[0], 4, mlp].score.mean for mlp in (64, 128, 256, 384, 512))
        found = paired(cells[sizes].scores, cells[8, 4, 256].scores, 1)
        assert found is not None
        assert found.t.low < 0 < found.t.high, "distinguishable from the original at neither"
