"""What is tried, and which designs no other dominates."""

import math

import pytest

import leanformer as lf
from leanformer.designing.candidates import candidates, divisor, front
from leanformer.designing.plan import Limits, design
from support.architectures import SMALL


def test_candidates_change_what_they_may() -> None:
    base = lf.architecture_of("vit_base_patch16_224")
    made = list(candidates(base, ["fixed", "split"]))
    assert base not in [architecture for architecture, _ in made]
    assert len({architecture for architecture, _ in made}) == len(made)
    assert any(len(architecture.stages) == 2 for architecture, _ in made)  # schedules
    tried = candidates(base, ["fixed", "split"], [96])
    assert {architecture.stages[0].head_dim for architecture, regime in tried if regime == "fixed"} == {64, 96}
    for architecture, regime in made:
        stage = architecture.stages[0]
        assert stage.heads >= 12
        assert architecture.depth <= 12
        assert stage.mlp_dim <= 3072
        assert (stage.head_dim == 64) if regime == "fixed" else (stage.inner_width == 768 and stage.heads > 12)


@pytest.mark.parametrize(
    ("key", "heads", "given", "multiple"),
    [
        ("vit", 12, None, 4),
        ("vit", 6, None, 2),
        ("vit", 3, None, 1),
        ("vit", 32, None, 8),
        ("vit", 12, 8, 8),
        ("qwen3", 8, None, 4),  # 4 key heads, each shared by 2
        ("qwen3", 8, 1, 1),
        ("davit", [2, 4, 8, 16], None, 2),
        ("davit", [3, 6, 12, 24], 4, 4),
    ],
)
def test_heads_divide_among_devices_as_the_originals_do(
    key: str, heads: int | list[int], given: int | None, multiple: int
) -> None:
    base = SMALL[key].resized(heads=heads)
    shared = 2 if key == "qwen3" else 1
    made = [design for design, _ in candidates(base, ["fixed"], heads_multiple=given)]
    counts = {stage.heads for design in made for stage in design.stages}
    assert math.gcd(*(count // shared for count in counts)) == multiple
    assert max(counts) > max(stage.heads for stage in base.stages)
    if given is None:
        assert divisor(base) == math.gcd(8, *(stage.heads // shared for stage in base.stages)) == multiple
        assert {stage.heads for stage in base.stages} <= counts


def test_the_front_is_what_none_dominates() -> None:
    plan = design("vit_base_patch16_224", limits=Limits(params=86_567_656 // 2))
    for member in plan.front:
        assert not any(other.dominates(member) for other in plan.found)
    for candidate in (candidate for candidate in plan.found if candidate not in plan.front):
        same = [member for member in plan.front if member.aims == candidate.aims]
        assert same or any(member.dominates(candidate) for member in plan.front)
    assert front([]) == []
