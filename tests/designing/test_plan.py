"""The plan: limits, regimes, refusals and the recommendation."""

from pathlib import Path
from typing import Any

import pytest

import leanformer as lf
from leanformer.costs.closed_forms import Setting
from leanformer.costs.runs import WholeRun
from leanformer.costs.steps import peak_memory
from leanformer.designing import findings
from leanformer.designing.findings import Finding
from leanformer.designing.plan import DesignPlan, Limits, design
from leanformer.designing.record import DesignRecord
from leanformer.models import families
from leanformer.report.design import HELD, table
from support.architectures import SMALL


@pytest.fixture(scope="module")
def plan() -> DesignPlan:
    return design("vit_base_patch16_224", limits=Limits(params=86_567_656 // 2))


def test_half_a_vit_b_proposes_the_papers_design(plan: DesignPlan) -> None:
    stage = plan.recommended.architecture.stages[0]
    assert (stage.depth, stage.heads, stage.head_dim, stage.mlp_dim) == (7, 16, 64, 1536)
    assert plan.recommended.cost.params.total == 40_112_872
    assert plan.recommended.regime == "fixed"
    assert plan.words()[0] == (  # one sentence
        "Train 7 layers (was 12) with 16 (was 12) heads of 64 and MLPs of 1536 (was 3072): "
        "40.1 M parameters, 54 % fewer."
    )


def test_a_plan_prints_in_a_few_lines(plan: DesignPlan) -> None:
    assert len(repr(plan)) < 500
    assert "7 layers of 16 heads × 64" in repr(plan)
    assert "224 found, 37 on the front, 0 refused" in repr(plan)


def test_arguments_are_what_the_command_takes(tmp_path: Path) -> None:
    small = SMALL["vit"]
    given = dict(batch=2, precision="bfloat16", samples="384M", device="h100", devices=2)
    by_text = design(small, params="95%", depth="1", head_dims="24", regimes="fixed", out=tmp_path, **given)
    whole = by_text.original.cost.params.total
    setting = Setting(batch=2, precision="bfloat16")
    limits = Limits(params=int(0.95 * whole), depth=(1, 1))
    by_object = design(families.build(small), limits=limits, setting=setting, head_dims=[24], regimes=["fixed"])
    assert [candidate.cost for candidate in by_text.found] == [candidate.cost for candidate in by_object.found]
    assert {candidate.architecture.depth for candidate in by_text.found} == {1}
    assert {candidate.architecture.stages[0].head_dim for candidate in by_text.found} == {12, 24}
    assert by_text.run == WholeRun(samples=384_000_000, device="h100", devices=2)
    assert DesignRecord.read(tmp_path / "design.json").run == by_text.run
    assert {file.name for file in tmp_path.iterdir()} == {"design.json", "design.png", "design.svg"}
    assert by_text.emit("timm").startswith(
        "import leanformer as lf\n\nmodel = lf.create('vit_tiny_patch16_224', depth=1"
    )


def test_heads_in_multiples_are_said_and_names_that_mean_a_default_too() -> None:
    words = design("llama", setting=Setting(batch=1)).words()
    assert words[0] == (
        "llama: transformers' default configuration, 32 layers of 32 heads × 128, width 4096, MLP 11008. "
        "For another, give a folder with its config.json."
    )
    assert "Its heads divide evenly among 2, 4 or 8 devices, as tensor parallelism needs it." in words
    other = SMALL["llama"].resized(heads=2)
    assert not any("default configuration" in line for line in design(other, params="99%").words())
    by_three = design(SMALL["vit"], heads_multiple=3, params="99%")
    assert {stage.heads % 3 for found in by_three.found for stage in found.architecture.stages} == {0}
    with pytest.raises(ValueError, match="no leaner design in the regime fixed or split with heads in multiples of 64"):
        design(SMALL["vit"], heads_multiple=64)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (dict(heads_multiple=0), r'^heads_multiple takes whole numbers from 1 on, such as .*, got "0"$'),
        (dict(params="lots"), r'^params takes a share or a size, such as "50%", "40M", got "lots"$'),
        (dict(fit="24X"), r'^fit takes a share or a size, such as "50%", "24GB", got "24X"$'),
        (dict(depth=0), r'^depth takes whole numbers from 1 on, such as .*, got "0"$'),
        (dict(head_dims="x"), r'^head_dims takes whole numbers from 1 on, such as .*, got "x"$'),
        (dict(limits=Limits(params=1), params=1, depth=2), "^limits and params, depth exclude each other$"),
        (dict(setting=Setting(), batch=2), "^setting and batch exclude each other$"),
        (dict(batch=0), "^batch must be at least 1, got 0$"),
        (dict(precision="int8"), "^precision must be one of float32, bfloat16, got 'int8'$"),
        (dict(samples="1M", device="abacus"), "^device must be one of a100, .*, got 'abacus'$"),
        (dict(out="/proc/nothing"), "^/proc/nothing cannot be written to: .*; name another folder by out$"),
    ],
)
def test_errors_name_the_argument(arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        design(SMALL["vit"], **arguments)


def test_a_plan_is_shown_as_its_record_is(plan: DesignPlan) -> None:
    frame = plan.to_frame()
    assert list(frame["design"][:2]) == ["original", "recommended"]
    assert frame["params"][1] == 40_112_872
    assert "try first" in (plan._repr_html_() or "")
    assert plan.plot().axes[0].get_xlabel() == "parameters, millions"


def test_every_candidate_is_within_the_limits_and_counted_exactly(plan: DesignPlan) -> None:
    assert len(plan.found) > 100
    for candidate in plan.found:
        assert candidate.cost.params.total <= 86_567_656 // 2
    for candidate in plan.front[::12]:
        built = lf.build(candidate.architecture, device="meta")
        assert sum(p.numel() for p in built.parameters()) == candidate.cost.params.total


@pytest.mark.parametrize("name", ["vit_base_patch16_224", "gpt2", "volo_d1_224", "llama"])
def test_the_estimated_memory_agrees_with_the_trace(name: str) -> None:
    found = design(name, setting=Setting(batch=32))
    exact = peak_memory(found.recommended.architecture, Setting(batch=32))
    assert found.peak_bytes == exact
    assert found.recommended.cost.memory_bytes == pytest.approx(exact, rel=0.1)


@pytest.mark.parametrize("name", ["xcit_nano_12_p16_224", "tnt_s_patch16_224", "davit_tiny", "crammed-bert", "qwen3"])
def test_every_family_can_be_designed(name: str) -> None:
    found = design(name)
    assert found.recommended.cost.params.total < found.original.cost.params.total
    assert len(repr(found)) < 2000
    lf.build(found.recommended.architecture, device="meta")


def test_limits() -> None:
    half = design("gpt2", limits=Limits(depth=(6, 8), macs=int(12e9)))
    assert {c.architecture.depth for c in half.found} <= {6, 7, 8}
    assert all(c.cost.forward_macs <= 12e9 * 64 for c in half.found)
    small = design("gpt2", limits=Limits(memory_bytes=int(8e9)))
    assert all(c.cost.memory_bytes <= 8e9 for c in small.found)
    message = (
        r"the smallest considered has .* M parameters, .* GB, .* G MACs per sample and \d+ layers; raise the limit"
    )
    with pytest.raises(ValueError, match=message):
        design("gpt2", limits=Limits(params=1000))


@pytest.mark.parametrize("words", [["fixed"], "fixed", ["head_dim"], ("fixed", "head_dim")])
def test_regimes_by_their_words_and_by_what_they_keep(words: list[str]) -> None:
    found = design("gpt2", regimes=words)  # type: ignore[arg-type]
    assert {candidate.regime for candidate in found.found} == {"fixed"}


@pytest.mark.parametrize("words", [[], "", ["fixed", "spilt"], [None]])
def test_wrong_regimes(words: list[str]) -> None:
    with pytest.raises(
        ValueError, match=r'regimes must be "fixed" \(keep head_dim\), "split" \(keep the width\) or both'
    ):
        design("gpt2", regimes=words)  # type: ignore[arg-type]


def test_a_model_without_a_leaner_design() -> None:
    """59 is prime, so 2, 3 or 4 heads cannot split it."""
    base = lf.architecture_of("vit_tiny_patch16_224").resized(width=59, heads=1, head_dim=59)
    with pytest.raises(
        ValueError, match="vit_tiny_patch16_224 has no leaner design in the regime split: allow the other"
    ):
        design(base, regimes=["split"])


def test_refused_designs_are_shown_by_force_only(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever the findings say now: with one that lost by more than its margin at 32, such heads are left out."""
    lost = Finding("a task", "nowhere", 64, 64, 32, -2.0, -3.0, -1.0, "points", 0.5)
    monkeypatch.setattr(findings, "FINDINGS", (lost,))
    monkeypatch.setattr(findings, "SAFE", 64)
    limits = Limits(depth=(6, 6))
    plan = design("vit_base_patch16_224", limits=limits, regimes=["split"])
    assert plan.refused
    assert all(stage.head_dim > 32 for candidate in plan.found for stage in candidate.architecture.stages)
    assert "a task, width 64: -2.00 [-3.00, -1.00] points with heads of 32 instead of 64" in plan.words()[-1]
    assert f"{len(plan.refused)} designs left out because a guard refuses (force shows all designs)" in plan.words()[-1]
    forced = design("vit_base_patch16_224", limits=limits, regimes=["split"], force=True)
    assert len(forced.found) == len(plan.found) + len(plan.refused)
    assert not forced.refused
    only = lf.architecture_of("vit_base_patch16_224").resized(heads=6, keep="split")
    monkeypatch.setattr("leanformer.designing.candidates._wanted_heads", lambda *_: [[24]])
    with pytest.raises(ValueError, match=r"every design within these limits is refused: .*; force shows them"):
        design(only, limits=limits, regimes=["split"])


def test_a_divided_model_is_planned_by_what_one_device_holds() -> None:
    setting = dict(batch=4, precision="bfloat16", checkpointing=True)
    whole = design("gpt2", fit="1.2GB", **setting)
    divided = design("gpt2", fit="1.2GB", shard="full", devices=8, **setting)
    assert max(candidate.cost.memory_bytes for candidate in divided.found) <= 1.2e9
    assert len(divided.found) > len(whole.found), "more designs fit"
    record = DesignRecord.parse(divided.record().to_dict(), "a plan")
    held = record.recommended.held
    assert held is not None
    assert held.parameters == pytest.approx(4 * record.recommended.params / 8, abs=1)
    assert record.recommended.memory_bytes == record.recommended_peak_bytes == held.peak
    text = " ".join(record.words)
    assert "on each of 8 devices" in text
    assert "each device holds 1/8: parameters" in text
    columns = {str(column.header): list(column.cells) for column in table(record).columns}
    assert columns[HELD][1].startswith(f"{held.parameters / 1e9:.1f}+{held.gradients / 1e9:.1f}+")
    assert HELD not in [column.header for column in table(whole.record()).columns]
    with pytest.raises(ValueError, match="shard must be one of none, full, got 'half'"):
        design("gpt2", shard="half")  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="devices must be at least 1, got 0"):
        design("gpt2", shard="full", devices=0)
