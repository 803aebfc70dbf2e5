"""What is tried, and which designs no other dominates."""

import leanformer as lf
from leanformer.designing.candidates import candidates, front
from leanformer.designing.plan import Limits, design


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


def test_the_front_is_what_none_dominates() -> None:
    plan = design("vit_base_patch16_224", limits=Limits(params=86_567_656 // 2))
    for member in plan.front:
        assert not any(other.dominates(member) for other in plan.found)
    for candidate in (candidate for candidate in plan.found if candidate not in plan.front):
        same = [member for member in plan.front if member.aims == candidate.aims]
        assert same or any(member.dominates(candidate) for member in plan.front)
    assert front([]) == []
