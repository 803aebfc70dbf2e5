"""The claims: complete, judged by records alone, and the same page every time."""

import itertools
import json
import math
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import typer
from markupsafe import escape

from leanformer.architecture import Architecture
from leanformer.cli.shared import app
from leanformer.experiments import recipes
from leanformer.experiments.comparison_records import Comparison
from leanformer.experiments.judging.estimates import estimate
from leanformer.experiments.sweep_records import Sweep
from leanformer.foundation.records.circumstances import circumstances, fields_of
from leanformer.models import families
from leanformer.paper.claims import STATED, judged
from leanformer.paper.claims.trained_images import COMPARED
from leanformer.paper.claims.vision import with_mlps_of, with_more_heads
from leanformer.paper.counts import CountsRow, TokenCounts
from leanformer.paper.evidence import Evidence
from leanformer.paper.record import CLAIM_STATUSES, LEANER, QUALITY, Scorecard
from leanformer.paper.rules import NO_RECORD, Finding, all_of, decided, gain, slope_of, worst_of
from leanformer.paper.scorecard import paper
from leanformer.report import claims as page
from leanformer.report.figures.claim import draw

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "findings" / "scorecard.md"


@pytest.fixture(scope="module")
def record() -> Scorecard:
    return paper(results=ROOT / "results")


def test_every_figure_and_table_of_both_papers_has_a_claim() -> None:
    stated = [claim for claims in STATED.values() for claim in claims]
    assert len(stated) >= 90
    assert len({claim.id for claim in stated}) == len(stated)
    places = " ".join(claim.where for claim in STATED[LEANER])
    for wanted in (*(f"Figure {n}" for n in range(1, 10)), *(f"Table {n}" for n in range(1, 7))):
        assert re.search(rf"{wanted}(?!\d)", places) or wanted in ("Figure 6", "Figure 7"), wanted
    assert "Figures 6 and 7" in places
    assert "Figure 1" in " ".join(claim.where for claim in STATED[QUALITY])


def test_claims_about_image_models_take_all_committed_comparisons_of_them() -> None:
    """None is left out because of what it says."""
    committed = (Comparison.read(path) for path in sorted((ROOT / "results").glob("*/comparison.json")))
    images = {record.name for record in committed if (record.task or {}).get("kind") == "image-classes"}
    assert images == {"digits", "fashion-mnist"}
    found = [path.parent.name for path in (ROOT / "results").glob("*/comparison.json")]
    assert {name for name in found if any(image in name for image in images)} == set(COMPARED)


def test_the_commands_of_claims_exist() -> None:
    commands = typer.main.get_command(app).commands
    for claim in (claim for claims in STATED.values() for claim in claims):
        for typed in re.split(r"; |, then ", claim.test):
            words = typed.replace("torchrun --nproc-per-node 8 -m ", "").split()
            if words[0] == "python":
                assert words[1:3] == ["-m", "benchmarks"]
                assert (ROOT / "benchmarks" / f"{words[3]}.py").is_file()
                continue
            assert words[0] == "leanformer", typed
            assert words[1] in commands, typed
            if words[1] in ("compare", "sweep"):
                assert words[2] in recipes.names(), typed


def test_without_records_nothing_is_decided_but_what_can_be_computed(tmp_path: Path) -> None:
    found = judged(Evidence(tmp_path))
    computed = {"observation-head-dim", "mlps-wider", "table-1-average"}
    assert {claim.id for claim in found if claim.status in ("holds", "does not hold here")} == computed
    assert all(claim.result == NO_RECORD for claim in found if claim.status == "cannot tell")
    (tmp_path / "theory").mkdir()
    (tmp_path / "theory" / "theory.json").write_text("{}")
    with pytest.raises(ValueError, match=r"theory\.json is damaged"):
        judged(Evidence(tmp_path))


def test_what_committed_records_say(record: Scorecard) -> None:
    """Each is computed; these are what a reader of the records expects."""
    status = {claim.id: claim.status for claim in record.claims}
    for holds in (
        "theorem-edge",
        "lemma-rank",
        "head-alone",
        "figure-2-trained-images",
        "abstract-accuracy",
        "table-2-loss",
    ):
        assert status[holds] == "holds", holds
    for holds in ("qq-construction", "qq-half-rank", "qq-more-heads", "qq-parameters", "qq-depth-helps"):
        assert status[holds] == "holds", holds
    for holds in ("qq-bound-respected", "qq-random-features", "qq-depth-construction", "qq-perfect-stays"):
        assert status[holds] == "holds", holds
    for fails in ("figure-2-prediction", "section-3-3-towards-1", "table-3-listops-share", "figure-3-params"):
        assert status[fails] == "does not hold here", fails
    assert status["table-2-heads"] != "holds"
    for other in ("figure-2-shape", "mlps-conditioned", "depth-and-heads", "table-4-as-printed", "eq-3"):
        assert status[other] == "holds under another reading", other
    assert status["params-vit-l"] == status["qq-bound-exponential"] == "holds under another reading"
    assert status["qq-positions"] == "cannot tell", "with positions added, full rank does not learn the task either"
    assert status["accuracy-vit-b"] == "not testable here"
    for claim in record.claims:
        assert claim.status in CLAIM_STATUSES
        assert claim.rule
        assert claim.test
        for name in claim.records:
            assert (ROOT / "results" / name).is_file(), claim.id
    hours = next(claim.at_scale for claim in record.claims if claim.id == "accuracy-vit-b")
    assert hours is not None
    assert re.search(r"30\d A100-hours per seed.*ImageNet-1k", hours)


def test_parameters_of_other_mlps_and_heads_are_those_of_the_built_models(record: Scorecard) -> None:
    rows = {(row.model, row.variant): row for row in record.rows if row.table in ("Tab. 4", "Tab. 5")}
    for model in sorted({model for model, _ in rows}):
        original, lean = rows[model, "original"], rows[model, "lean"]
        wide = lean.architecture.resized(mlp_dim=[stage.mlp_dim for stage in original.architecture.stages])
        assert with_mlps_of(lean, original) == params_of(wide), model
    vit = rows["ViT-B", "original"]
    for heads in (12, 14, 18):
        assert with_more_heads(vit, heads) == params_of(vit.architecture.resized(heads=heads, keep="head_dim"))


def params_of(design: Architecture) -> int:
    return sum(weights.numel() for weights in families.build(design, device="meta").parameters())


@pytest.mark.parametrize(("device", "status"), [("cpu", "cannot tell"), ("cuda", "does not hold here")])
def test_only_a_gpu_refutes_that_heads_run_in_parallel(device: str, status: str, tmp_path: Path) -> None:
    found = json.loads((ROOT / "results" / "bench" / "heads.json").read_text())
    (tmp_path / "bench").mkdir()
    (tmp_path / "bench" / "heads.json").write_text(json.dumps({**found, "device": device}))
    claims = {claim.id: claim for claim in judged(Evidence(tmp_path))}
    assert claims["observation-parallel-fused"].status == status


def test_judging_builds_no_model() -> None:
    """Which would take longer than all else: what is counted is in the records."""
    program = (
        f"import sys; from leanformer.paper.scorecard import paper; paper(results={str(ROOT / 'results')!r})\n"
        "print([name for name in ('timm', 'transformers') if name in sys.modules])"
    )
    shown = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert shown.stdout == "[]\n"


def test_the_page_in_the_documents_is_todays(record: Scorecard) -> None:
    assert page.markdown(record) == PAGE.read_text(encoding="utf-8")
    assert page.markdown(paper(results=ROOT / "results")) == page.markdown(record)


def test_the_committed_record_has_todays_claims(record: Scorecard) -> None:
    """The explorer shows it for the folder of results."""
    committed = Scorecard.read(ROOT / "results" / "paper" / "scorecard.json")
    assert {claim.id: claim for claim in committed.claims} == {claim.id: claim for claim in record.claims}
    assert [claim.id for claim in committed.claims] == [claim.id for claim in record.claims]
    assert committed.figures == record.figures


def test_the_figures_of_the_paper_are_on_the_page_beside_their_claims(record: Scorecard) -> None:
    assert [figure.number for figure in record.figures] == sorted(figure.number for figure in record.figures)
    assert {figure.number for figure in record.figures} >= {2, 3, 4, 5, 6, 7, 8}
    text = page.html(record)
    _, _, after = text.partition('<article id="figure-3-deep">')
    own, _, _ = after.partition("</article>")
    titles = [figure.title for figure in record.figures if figure.number == 3]
    assert len(titles) == 2
    assert all(f"Figure 3: {escape(title)}</a>" in own for title in titles)
    named = next(claim for claim in record.claims if claim.id == "memory-falls")
    assert named.places == {"Figure 6", "Figure 7"}
    assert paper(results=ROOT / "results", table="Fig. 8").figures == tuple(f for f in record.figures if f.number == 8)
    assert paper(results=ROOT / "results", table="Tab. 4").figures == ()


def test_drawings_of_claims_name_the_limit_and_the_ends(record: Scorecard) -> None:
    found = {claim.id: re.findall(r"<text[^>]*>([^<]*)</text>", draw(claim)) for claim in record.claims}
    assert found["figure-3-deep"] == ["at least 0", "1.07"], "the low end has no place beside the limit"
    assert found["accuracy-vit-b"] == [], "no number"
    for claim in record.claims:
        assert bool(found[claim.id]) == any(math.isfinite(part.value) for part in claim.judged), claim.id


def test_the_page_is_self_contained_and_escaped(record: Scorecard, tmp_path: Path) -> None:
    first = record.claims[0].model_copy(update={"result": "<script>x</script> | a `b`", "value": math.nan})
    changed = record.changed(claims=(first, *record.claims[1:]))
    text = page.html(changed)
    assert "<script" not in text
    assert "&lt;script&gt;" in text
    assert not re.search(r'(src="(?!data:)|href="(?!#))|@import|https?://(?!www\.w3)', text)
    assert text.count("<article") == text.count("<svg") == len(record.claims)
    assert text.count('src="data:image/svg+xml;base64,') == text.count("<figure id=") == len(record.figures)
    assert set(re.findall(r'href="#([^"]+)"', text)) <= set(re.findall(r'id="([^"]+)"', text))
    several = next(claim for claim in record.claims if len(claim.parts) > 2)
    strange = several.parts[0].model_copy(update={"name": "<b>&", "low": -1.0, "high": 2.0})
    drawn = draw(several.model_copy(update={"parts": (strange, *several.parts[1:])}))
    assert drawn.count("<circle") == len(several.parts)
    assert "<b>" not in drawn
    assert "&lt;b&gt;&amp;: " in drawn
    assert "<script" not in page.markdown(changed)
    assert [file.name for file in page.write(record, tmp_path)] == ["scorecard.md", "scorecard.html"]
    assert (tmp_path / "scorecard.html").read_text(encoding="utf-8") == page.html(record)


def test_rules() -> None:
    assert [decided(True), decided(False), decided(False, False)] == ["holds", "does not hold here", "cannot tell"]
    cases = {(1.0, 1.1, 1.2): "holds", (-1.0, -1.1, -1.2): "does not hold here", (-9.0, 0.0, 9.0): "cannot tell"}
    for values, status in cases.items():
        assert gain(estimate(values), 0.1, "%", ()).status == status
    assert gain(estimate((-0.01, 0.0, 0.01)), 0.5, "%", ()).status == "does not hold here", (
        "no gain as large as the margin"
    )
    assert gain(estimate((1.0,)), 0.5, "%", ()).status == "cannot tell"
    assert slope_of([0, 1, 2], [1, 3, 5]) == pytest.approx(2)
    holds, fails = Finding("holds", "a"), Finding("does not hold here", "b", 1.0, (0.0, 2.0))
    both = all_of(lambda _: holds, lambda _: fails)(Evidence(None))
    assert (both.status, both.result, both.interval) == ("does not hold here", "a; b", (0.0, 2.0))
    assert both.parts == (), "only numbers with a name are parts"
    named = worst_of([holds.called("first"), fails.called("second")])
    assert named.result == "first: a; second: b"
    assert [(part.name, part.value, part.low, part.high) for part in named.parts] == [("second", 1.0, 0.0, 2.0)]


def test_the_number_that_is_shown_is_the_one_that_decides(record: Scorecard, tmp_path: Path) -> None:
    """Where a claim holds, its numbers and their intervals meet the limits; where it does not, one of them does not."""
    worlds = [record.claims]
    for name, effect in {
        "heads": lambda depth, heads, mlp_dim: 80 + heads + 0.1 * depth,
        "mlps": lambda depth, heads, mlp_dim: 80 + mlp_dim / 64 + 0.1 * depth,
    }.items():
        grid_in(tmp_path / name, effect)
        worlds.append(judged(Evidence(tmp_path / name)))
    with_limits = set()
    for claim in itertools.chain.from_iterable(worlds):
        for part in claim.judged:
            if part.limit is None:
                continue
            with_limits.add(claim.id)
            low, high = part.ends
            met = part.limit.met_by(low if part.limit.side == "at least" else high)
            assert met or part.status != "holds", (claim.id, part)
            assert not met or part.status != "does not hold here", (claim.id, part)
    assert len(with_limits) > 55
    without = {claim.id for claim in record.claims if claim.value is not None and claim.limit is None}
    assert all(name.endswith("-share") for name in without), "only printed percentages are compared by rounding"
    text = draw(next(claim for claim in record.claims if claim.id == "theorem-edge"))
    assert "asked for is at most 5" in text


def test_a_table_alone_and_folders_that_are_not_there(record: Scorecard, tmp_path: Path) -> None:
    found = paper(results=ROOT / "results", table="Tab. 2", memory=False)
    assert {row.table for row in found.rows} == {"Tab. 2"}
    assert {claim.where.split(",")[0] for claim in found.claims} == {"Table 2"}
    assert all(row.memory is None for row in found.rows)
    whole = {claim.id: claim for claim in record.claims}
    without = paper(results=ROOT / "results", memory=False)
    assert {claim.id: claim for claim in without.claims} == whole, "what is not shown is judged by all the same"
    assert paper(results=ROOT / "results", table="Figure 7").claims == tuple(
        claim
        for claim in record.claims
        if (claim.where.startswith("Table 5") and "Figure 7" in claim.where) or claim.id == "memory-falls"
    )
    for wrong in ("Tab. 7", "Fig. 0", "Figure", "3"):
        with pytest.raises(ValueError, match=f'there is no table or figure "{wrong}"; there are "Tab. 1" to "Tab. 6"'):
            paper(results=ROOT / "results", table=wrong)
    with pytest.raises(ValueError, match="nowhere is not a folder of results"):
        paper(results=tmp_path / "nowhere")


def grid_in(folder: Path, effect: Callable[[int, int, int], float]) -> dict[str, str]:
    """Statuses of the claims about images, from a grid in which accuracy follows a known function of the sizes."""
    like = Sweep.read(ROOT / "results" / "sweep-fashion-mnist" / "sweep.json")
    axes: dict[str, list[Any]] = {"heads": [1, 2, 4, 6, 8], "depth": [4, 5, 8], "mlp_dim": [64, 128, 256, 384, 512]}
    cells = []
    for heads, depth, mlp_dim in itertools.product(*axes.values()):
        scores = {str(seed): effect(depth, heads, mlp_dim) + 0.01 * seed for seed in range(3)}
        change = {
            "values": {"heads": heads, "depth": depth, "mlp_dim": mlp_dim, "training.lr": 0.002},
            "scores": scores,
            "score": estimate(list(scores.values())),
            "params": depth * (heads + mlp_dim // 16),
        }
        cells.append(like.cells[0].model_copy(update=change))
    record = like.changed(axes={**axes, "training.lr": [0.002]}, cells=cells)
    record.write(folder / "paper" / "grid-fashion-mnist" / "sweep.json")
    return {claim.id: claim.status for claim in judged(Evidence(folder))}


def test_claims_about_figures_follow_what_the_grid_shows(tmp_path: Path) -> None:
    """Worlds in which depth gives little and heads or the MLP give much, and one in which only depth does."""
    heads = grid_in(tmp_path / "heads", lambda depth, heads, mlp_dim: 80 + heads + 0.1 * depth)
    mlps = grid_in(tmp_path / "mlps", lambda depth, heads, mlp_dim: 80 + mlp_dim / 64 + 0.1 * depth)
    deep = grid_in(tmp_path / "deep", lambda depth, heads, mlp_dim: 80 + depth)
    yes, no, open_ = "holds", "does not hold here", "cannot tell"
    expected = {
        "figure-3-deep": (yes, open_, open_),
        "figure-3-shallow": (yes, open_, open_),
        "figure-3-wide": (yes, open_, open_),
        "figure-3-all": (yes, no, no),
        "figure-3-caption": (no, no, no),
        "figure-4-weaker": (yes, no, open_),
        "figure-4-slight": (open_, yes, open_),
        "figure-4-compensation": (yes, no, yes),
        "figure-5-mlp": (yes, no, yes),
        "figure-5-heads": (yes, no, open_),
        "abstract-heads": (yes, open_, open_),
        "figure-5-all": (yes, no, no),
    }
    found = {name: (heads[name], mlps[name], deep[name]) for name in expected}
    assert found == expected


def points_in(folder: Path, error: Callable[[dict[str, Any], int], float]) -> dict[str, str]:
    """Statuses of the counterpoint's claims, from sweeps in which the error follows a known function."""
    for name in ("sweep-farthest", "sweep-farthest-deep", "sweep-farthest-length", "sweep-farthest-dimension"):
        like = Sweep.read(ROOT / "results" / name / "sweep.json")
        cells = []
        for cell in like.cells:
            values = {**cell.values, "deep": name.endswith("deep")}
            scores = {str(seed): error(values, seed) for seed in range(3)}
            cells.append(cell.model_copy(update={"scores": scores, "score": estimate(list(scores.values()))}))
        like.changed(cells=cells).write(folder / name / "sweep.json")
    return {claim.id: claim.status for claim in judged(Evidence(folder))}


def test_claims_of_the_counterpoint_follow_the_sweeps_seed_by_seed(tmp_path: Path) -> None:
    """A world as the paper describes it, one in which rank is nothing, and one of noise."""

    def as_stated(values: dict[str, Any], seed: int) -> float:
        heads, points, dim = values["heads"], values.get("task.points", 16), values.get("task.dim+width", 16)
        rank = 0.0 if heads == 1 else 0.3 + 0.01 * heads + 0.001 * (points + dim) - 0.01 * values.get("groups", 1)
        return 0.02 + rank - (0.1 if values["deep"] and heads > 1 else 0.0) + 0.0001 * seed

    def noise(values: dict[str, Any], seed: int) -> float:
        numbers = [int(value) for value in values.values() if not isinstance(value, str)]
        return float(np.random.default_rng([*numbers, seed]).uniform(0.1, 1.0))

    stated = points_in(tmp_path / "stated", as_stated)
    alike = points_in(tmp_path / "alike", lambda values, seed: 0.02 + 0.0001 * seed)
    noisy = points_in(tmp_path / "noisy", noise)
    by_interval = ("groups", "depth-helps", "depth-not-enough", "length", "dimension")
    for name in (*by_interval, "more-heads", "half-rank", "parameters"):
        assert stated[f"qq-{name}"] == "holds", name
        assert alike[f"qq-{name}"] != "holds", name
    assert {name: noisy[f"qq-{name}"] for name in by_interval} == dict.fromkeys(by_interval, "cannot tell")
    assert noisy["qq-more-heads"] != "holds"
    assert alike["qq-half-rank"] == alike["qq-parameters"] == "does not hold here"


def test_printed_accuracies_beside_token_counts(tmp_path: Path) -> None:
    """It holds if both printed accuracies are above the interval, and does not if one is below it."""
    rows = [
        CountsRow(
            task=task,
            source="here",
            length=9,
            train=9,
            held_out=9,
            usual=10.0,
            linear=low + 1,
            low=low,
            high=low + 2,
            printed={"original": 30.0, "lean": 31.0},
        )
        for task, low in (("ListOps", 20.0), ("text", 28.5), ("image", 40.0))
    ]
    TokenCounts(rows=tuple(rows), **fields_of(circumstances())).write(tmp_path / "paper" / "counts.json")
    found = {claim.id: claim for claim in judged(Evidence(tmp_path))}
    statuses = [found[f"counts-{name}"].status for name in ("listops", "text", "image", "pathfinder")]
    assert statuses == ["holds", "cannot tell", "does not hold here", "cannot tell"]
    assert all(found[f"counts-{name}"].extension for name in ("listops", "pathfinder"))
    assert "21.0 % [20.0, 22.0]; printed are 30.0 % (original)" in found["counts-listops"].result


def test_differences_of_arms_are_those_of_the_comparison(record: Scorecard) -> None:
    """Its planned looks and its several questions widen the interval; runs that diverged leave a claim open."""
    claim = next(claim for claim in record.claims if claim.id == "abstract-lean")
    part = next(part for part in claim.parts if part.name == "compare-digits-decided")
    own = Comparison.read(ROOT / "results" / "compare-digits-decided" / "comparison.json").verdict.lean["shallow"]
    assert own.difference.t is not None
    assert (part.low, part.high) == (own.difference.t.low, own.difference.t.high)
    assert part.status == "cannot tell"


def test_designs_are_not_judged_by_their_luckier_runs(tmp_path: Path) -> None:
    def statuses(diverged: bool) -> list[str]:
        found = Sweep.read(tmp_path / "paper" / "grid-fashion-mnist" / "sweep.json")
        cells = [
            cell.model_copy(
                update={"diverged": ["seed 3: not finite"] if diverged and cell.values["heads"] == 8 else []}
            )
            for cell in found.cells
        ]
        found.changed(cells=cells).write(tmp_path / "paper" / "grid-fashion-mnist" / "sweep.json")
        claims = {claim.id: claim for claim in judged(Evidence(tmp_path))}
        return [claims[name].status for name in ("figure-3-all", "figure-3-deep", "figure-5-mlp")]

    grid_in(tmp_path, lambda depth, heads, mlp_dim: 80 + heads + 0.1 * depth)
    assert statuses(diverged=False) == ["holds", "holds", "holds"]
    assert statuses(diverged=True)[:2] == ["cannot tell", "cannot tell"]


def test_parts_are_marked_by_what_they_say_of_the_claim(tmp_path: Path) -> None:
    """A wider MLP that loses supports the claims that it gives little, and cannot make up for layers."""
    grid_in(tmp_path, lambda depth, heads, mlp_dim: 90 - mlp_dim / 64 + depth)
    claims = {claim.id: claim for claim in judged(Evidence(tmp_path))}
    for name in ("figure-4-compensation", "figure-5-mlp"):
        assert claims[name].status == "holds"
        assert {part.status for part in claims[name].parts} == {"holds"}
