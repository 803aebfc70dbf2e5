"""Guards: what they say, and that the rank guard's levels are what the committed sweeps measured."""

import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import leanformer as lf
from leanformer.architecture import Stage
from leanformer.conditioning import gaussian as theory
from leanformer.designing import plan as designs
from leanformer.designing.guards import FINDINGS, SAFE, Finding, evidence, guards, level
from leanformer.experiments import recipes
from leanformer.experiments import sweep as sweeping

VIT_B = Stage(width=768, depth=12, heads=12, head_dim=64, mlp_dim=3072)
RESULTS = Path(__file__).parents[2] / "results"


def names(found: list) -> dict[str, str]:
    return {guard.name: guard.level for guard in found}


def test_the_papers_own_language_models_are_split() -> None:
    for name in ("tinystories-gpt2", "crammed-bert"):
        original = lf.architecture_of(name).stages[0]
        lean = lf.architecture_of(f"lean-{name}").stages[0]
        found = guards(original, lean, 128, "width")
        assert names(found)["no predicted gain"] == "warn"
        assert "split leaves h·d at" in str(found[-1])


def test_the_rank_guard_speaks_of_heads_that_became_smaller() -> None:
    found = guards(VIT_B, VIT_B.resized(heads=96, keep="width"), 197, "width")
    assert "heads of 8 (was 64) have 1 % of the rank of width 768, over 197 tokens. Measured: " in str(found[0])
    assert "keep head_dim instead of the width" in str(found[0])
    assert "rank" not in names(guards(VIT_B, VIT_B.resized(heads=16), 197, "head_dim"))
    assert "rank" not in names(guards(VIT_B, VIT_B.resized(heads=24, keep="width"), 197, "width")), "32 is safe"
    small = replace(VIT_B, head_dim=8)
    assert "rank" not in names(guards(small, small.resized(heads=16), 197, "head_dim")), "they were small before"


def records() -> dict[str, dict[str, Any]]:
    found = {finding.record for finding in FINDINGS}
    return {name: sweeping.read_record(RESULTS / name) for name in found}


def test_findings_are_what_the_committed_sweeps_measured() -> None:
    """Every split head smaller than the recipe's, to the digits shown; nothing left out and nothing rounded away."""
    measured = set()
    for name, record in records().items():
        usual, width = (record["original"]["stages"][0][key] for key in ("head_dim", "width"))
        places = 2 if record["metric"]["unit"] == "%" else 3
        for cell in record["cells"]:
            (stage,) = cell["architecture"]["stages"]
            if cell["values"]["regime"] == "split" and stage["head_dim"] < usual:
                figures = [cell["difference"]["mean"], *(cell["difference"]["t"][end] for end in ("low", "high"))]
                measured.add((name, width, usual, stage["head_dim"], *(round(figure, places) for figure in figures)))
        assert recipes.recipe(record["name"]).margin == next(f.margin for f in FINDINGS if f.record == name)
        assert len(record["seeds"]) >= 3
    listed = {(f.record, f.width, f.usual, f.head_dim, f.difference, f.low, f.high) for f in FINDINGS}
    assert listed == measured


def test_heads_of_the_safe_size_and_above_lost_in_no_sweep() -> None:
    for record in records().values():
        for cell in record["cells"]:
            if cell["values"]["regime"] == "split" and cell["architecture"]["stages"][0]["head_dim"] >= SAFE:
                assert cell["difference"] is None or cell["values"]["heads"] < 4 or not cell["difference"]["told"]


@pytest.mark.parametrize("head_dim", [1, 2, 3, 4, 6, 8, 12, 16, 24, 31])
def test_levels_follow_from_the_findings(head_dim: int) -> None:
    lost = [finding for finding in FINDINGS if finding.head_dim >= head_dim and finding.high < 0]
    expected = "note" if not lost else "refuse" if any(f.high < -f.margin for f in lost) else "warn"
    assert level(head_dim) == expected
    assert all(f"heads of {size}" in evidence(head_dim) for size in nearest(head_dim))


def nearest(head_dim: int) -> list[int]:
    tasks = {finding.task for finding in FINDINGS}
    sizes = {task: [f.head_dim for f in FINDINGS if f.task == task] for task in tasks}
    return [min(found, key=lambda size: abs(math.log2(size / head_dim))) for found in sizes.values()]


def test_smaller_heads_are_never_judged_more_mildly() -> None:
    order = ["note", "warn", "refuse"]
    levels = [order.index(level(head_dim)) for head_dim in range(1, SAFE)]
    assert levels == sorted(levels, reverse=True)


def test_refused_designs_are_shown_by_force_only(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever the findings say now: with one that lost by more than its margin at 32, such heads are left out."""
    lost = Finding("a task", "nowhere", 64, 64, 32, -2.0, -3.0, -1.0, "points", 0.5)
    monkeypatch.setattr("leanformer.guards.FINDINGS", (lost,))
    monkeypatch.setattr("leanformer.guards.SAFE", 64)
    limits = designs.Limits(depth=(6, 6))
    plan = designs.design("vit_base_patch16_224", limits=limits, regimes=["width"])
    assert plan.refused
    assert all(stage.head_dim > 32 for candidate in plan.found for stage in candidate.architecture.stages)
    assert "a task, width 64: -2.00 [-3.00, -1.00] points with heads of 32 instead of 64" in plan.words()[-1]
    assert "designs are left out, --force shows them" in plan.words()[-1]
    forced = designs.design("vit_base_patch16_224", limits=limits, regimes=["width"], force=True)
    assert len(forced.found) == len(plan.found) + len(plan.refused)
    assert not forced.refused
    only = lf.architecture_of("vit_base_patch16_224").resized(heads=6, keep="width")
    monkeypatch.setattr("leanformer.designs._wanted_heads", lambda base, keep: [[24]])
    with pytest.raises(ValueError, match=r"every design within these limits is refused: .* --force shows them"):
        designs.design(only, limits=limits, regimes=["width"])


def test_the_cliff_guard_names_heads_that_are_clear() -> None:
    found = guards(VIT_B, VIT_B.resized(heads=3), 197, "head_dim")
    assert names(found) == {"cliff": "warn"}
    assert "h·d = 192 is near the 197 tokens" in str(found[0])
    assert "or more heads of 64 are clear of it" in found[0].remedy
    assert not guards(VIT_B, VIT_B.resized(heads=theory.safe_heads(197, 64)), 197, "head_dim")


def test_the_hardware_guard() -> None:
    odd = Stage(width=512, depth=4, heads=12, head_dim=42, mlp_dim=2048)
    assert "use head_dim 40 or 48" in str(guards(odd, odd, 64, "head_dim")[0])
    wide = Stage(width=768, depth=4, heads=2, head_dim=384, mlp_dim=2048)
    assert names(guards(wide, wide, 64, "head_dim")) == {"hardware": "note"}
