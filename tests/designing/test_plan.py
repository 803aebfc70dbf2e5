"""Candidates, limits, guards, the plan in words, what is emitted, and `leanformer design` from the command line."""

import json
import math
from pathlib import Path

import pytest
import timm
import yaml

import leanformer as lf
from leanformer.architecture import Architecture, Stage
from leanformer.costs.closed_forms import Setting, formula, peak_memory
from leanformer.designing import plan as designs
from leanformer.designing.plan import Limits, candidates, design, emit, front, run_cost, scaled
from support.command import run

VIT_B = Stage(width=768, depth=12, heads=12, head_dim=64, mlp_dim=3072)


@pytest.fixture(scope="module")
def plan() -> designs.Plan:
    return design("vit_base_patch16_224", limits=Limits(params=86_567_656 // 2))


def test_half_a_vit_b_proposes_the_papers_design(plan: designs.Plan) -> None:
    stage = plan.recommended.architecture.stages[0]
    assert (stage.depth, stage.heads, stage.head_dim, stage.mlp_dim) == (7, 16, 64, 1536)
    assert plan.recommended.cost.params.total == 40_112_872
    assert plan.words()[0] == (  # one sentence
        "Train 7 layers (was 12) with 16 (was 12) heads of 64 and MLPs of 1536 (was 3072): "
        "40.1 M parameters, 54 % fewer."
    )


def test_every_candidate_is_within_the_limits_and_counted_exactly(plan: designs.Plan) -> None:
    assert len(plan.found) > 100
    for candidate in plan.found:
        assert candidate.cost.params.total <= 86_567_656 // 2
    for candidate in plan.front[::12]:
        built = lf.build(candidate.architecture, device="meta")
        assert sum(p.numel() for p in built.parameters()) == candidate.cost.params.total


def test_the_front_is_what_none_dominates(plan: designs.Plan) -> None:
    for member in plan.front:
        assert not any(other.dominates(member) for other in plan.found)
    outside = [c for c in plan.found if c not in plan.front]
    for candidate in outside:
        same = [c for c in plan.front if c._aims() == candidate._aims()]
        assert same or any(member.dominates(candidate) for member in plan.front)
    assert front([]) == []


@pytest.mark.parametrize("name", ["vit_base_patch16_224", "gpt2", "volo_d1_224", "llama"])
def test_the_sweeps_memory_agrees_with_the_trace(name: str) -> None:
    found = design(name, setting=Setting(batch=32))
    exact = peak_memory(found.recommended.architecture, Setting(batch=32))
    assert found.peak_bytes == exact
    assert found.recommended.cost.memory_bytes == pytest.approx(exact, rel=0.1)


@pytest.mark.parametrize("name", ["xcit_nano_12_p16_224", "tnt_s_patch16_224", "davit_tiny", "crammed-bert", "qwen3"])
def test_every_family_can_be_designed(name: str) -> None:
    found = design(name)
    assert found.recommended.cost.params.total < found.original.cost.params.total
    lf.build(found.recommended.architecture, device="meta")


def test_limits() -> None:
    half = design("gpt2", limits=Limits(depth=(6, 8), macs=int(12e9)))
    assert {c.architecture.depth for c in half.found} <= {6, 7, 8}
    assert all(c.cost.forward_macs <= 12e9 * 64 for c in half.found)
    small = design("gpt2", limits=Limits(memory_bytes=int(6e9)))
    assert all(c.cost.memory_bytes <= 6e9 for c in small.found)
    with pytest.raises(
        ValueError, match=r"the smallest considered has .* M parameters, .* GB, .* layers; raise --params"
    ):
        design("gpt2", limits=Limits(params=1000))


def test_candidates_change_what_they_may() -> None:
    base = lf.architecture_of("vit_base_patch16_224")
    made = list(candidates(base, ["head_dim", "width"]))
    assert base not in [architecture for architecture, _ in made]
    assert len({architecture for architecture, _ in made}) == len(made)
    assert any(len(architecture.stages) == 2 for architecture, _ in made)  # schedules
    other = [a.stages[0].head_dim for a, keep in candidates(base, ["head_dim", "width"], [96]) if keep == "head_dim"]
    assert set(other) == {64, 96}
    for architecture, keep in made:
        stage = architecture.stages[0]
        assert stage.heads >= 12
        assert architecture.depth <= 12
        assert stage.mlp_dim <= 3072
        assert (stage.head_dim == 64) if keep == "head_dim" else (stage.inner_width == 768 and stage.heads > 12)


# What is emitted


def test_emitted_code_builds_the_design(plan: designs.Plan) -> None:
    code = emit(plan.recommended, "timm")
    scope: dict = {}
    exec(code.replace("lf.create(", "lf.create(device='meta', name="), scope)
    assert lf.describe(scope["model"]).stages == plan.recommended.architecture.stages
    assert Architecture.from_dict(yaml.safe_load(emit(plan.recommended, "yaml"))) == plan.recommended.architecture


def test_a_schedule_is_emitted_layer_by_layer() -> None:
    plan = design("vit_tiny_patch16_224", regimes=["head_dim"])
    schedule = next(c for c in plan.found if len(c.architecture.stages) == 2)
    scope: dict = {}
    exec(emit(schedule, "timm"), scope)
    assert lf.describe(scope["model"]) == schedule.architecture


def test_timms_own_call_where_it_can_say_it() -> None:
    split = next(
        c for c in design("vit_tiny_patch16_224", regimes=["width"]).found if c.architecture.stages[0].heads == 6
    )
    code = emit(split, "timm")
    assert code.startswith("import timm\n")
    scope: dict = {}
    exec(code, scope)
    assert lf.describe(scope["model"]).stages == split.architecture.stages
    assert isinstance(scope["model"], timm.models.VisionTransformer)


def test_emitted_config_builds_the_design() -> None:
    found = design("gpt2").recommended
    config = json.loads(emit(found, "hf"))
    assert config["architecture"]["stages"][0]["heads"] == found.architecture.stages[0].heads


def test_wrong_forms(plan: designs.Plan) -> None:
    with pytest.raises(ValueError, match="--emit hf is for language models"):
        emit(plan.recommended, "hf")
    with pytest.raises(ValueError, match="--emit timm is for image models"):
        emit(design("gpt2").recommended, "timm")
    with pytest.raises(ValueError, match="--emit takes timm, hf or yaml, got 'xml'"):
        emit(plan.recommended, "xml")


# Runs and sizes


def test_a_whole_run() -> None:
    """ImageNet at 300 epochs: 384 M images of ViT-B, three passes of 17.56 G multiplications each."""
    base, setting = lf.architecture_of("vit_base_patch16_224"), Setting(batch=128)
    cost = formula(base, setting).cost(base, setting)
    run_ = run_cost(cost, setting, 384e6, "a100", 8, 0.35)
    assert run_.flops == pytest.approx(6 * 17.56e9 * 384e6, rel=1e-3)
    assert run_.device_hours == pytest.approx(run_.flops / (156e12 * 0.35) / 3600)
    assert run_.wall_hours == pytest.approx(run_.device_hours / 8)
    assert run_.energy_kwh == pytest.approx(run_.device_hours * 0.4)
    with pytest.raises(ValueError, match="device must be one of a100, h100"):
        run_cost(cost, setting, 1, "abacus")
    with pytest.raises(ValueError, match="utilisation must be between 0 and 1"):
        run_cost(cost, setting, 1, utilisation=2)


@pytest.mark.parametrize(
    ("text", "word", "value"),
    [
        ("50%", "--params", 500),
        ("40M", "--params", 40_000_000),
        ("24GB", "--fit", 24_000_000_000),
        ("8g", "--macs", 8e9),
    ],
)
def test_sizes(text: str, word: str, value: float) -> None:
    assert scaled(text, 1000, word) == value


@pytest.mark.parametrize("text", ["", "x", "-5%", "0", "5Q"])
def test_wrong_sizes(text: str) -> None:
    with pytest.raises(ValueError, match="takes a share or a size"):
        scaled(text, 1000, "--params")


# The command


def test_design_from_the_command_line(tmp_path: Path) -> None:
    shown = run("design", "vit_base_patch16_224", "--params", "50%", "--samples", "384M", "--out", str(tmp_path))
    assert shown.returncode == 0, shown.stderr
    assert "try first" in shown.stdout
    assert "40.1 M" in shown.stdout
    assert "device-hours" in shown.stdout
    record = json.loads((tmp_path / "design.json").read_text())
    assert record["recommended"]["params"] == 40_112_872
    assert math.isclose(record["original"]["run"]["wall_hours"], record["original"]["run"]["device_hours"] / 8)
    assert (tmp_path / "design.png").stat().st_size > 10_000


def test_emit_prints_only_the_design() -> None:
    shown = run("design", "vit_base_patch16_224", "--params", "50%", "--emit", "timm")
    expected = "lf.create('vit_base_patch16_224', depth=7, heads=16, head_dim=64, mlp_dim=1536)"
    assert shown.stdout == f"import leanformer as lf\n\nmodel = {expected}\n"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["vit_bse_patch16_224"], "did you mean vit_base_patch16_224"),
        (["gpt2", "--params", "0.001%"], "no design within these limits"),
        (["gpt2", "--params", "lots"], '--params takes a share or a size, such as "50%", "40M" or "24GB", got "lots"'),
        (["gpt2", "--depth", "0"], "--depth takes whole numbers from 1 on"),
        (["gpt2", "--regime", "both-ways"], "--regime takes fixed, split, both, got 'both-ways'"),
        (["gpt2", "--batch", "0"], "batch must be at least 1, got 0"),
    ],
)
def test_mistakes(arguments: list[str], message: str) -> None:
    shown = run("design", *arguments)
    assert shown.returncode == 2
    assert message in " ".join(shown.stderr.split())
