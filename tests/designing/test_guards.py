"""Guards: what each says, when it speaks, and when it is silent."""

from dataclasses import replace

import leanformer as lf
from leanformer.architecture import Stage
from leanformer.conditioning import gaussian
from leanformer.designing.guards import Guard, guards

VIT_B = Stage(width=768, depth=12, heads=12, head_dim=64, mlp_dim=3072)


def levels(found: list[Guard]) -> dict[str, str]:
    return {guard.name: guard.level for guard in found}


def test_the_papers_own_language_models_are_split() -> None:
    for name in ("tinystories-gpt2", "crammed-bert"):
        original = lf.architecture_of(name).stages[0]
        lean = lf.architecture_of(f"lean-{name}").stages[0]
        found = guards(original, lean, 128, "split")
        assert levels(found)["no predicted gain"] == "warn"
        assert "split leaves h·d at" in str(found[-1])


def test_split_is_compared_with_the_originals_heads() -> None:
    """An original may have heads that are wider or narrower than its tokens."""
    wide = Stage(width=1024, depth=4, heads=16, head_dim=128, mlp_dim=4096)
    (guard,) = guards(wide, wide.resized(heads=32, keep="split"), 64, "split")
    assert guard.figure == "split lowers h·d from 2048 to 1024, on which alone Theorem 3.2 depends"
    equal = replace(wide, head_dim=64)
    (guard,) = guards(equal, equal.resized(heads=32, keep="split"), 64, "split")
    assert guard.figure == "split leaves h·d at 1024, on which alone Theorem 3.2 depends"
    almost = replace(wide, head_dim=63)
    (guard,) = guards(almost, almost.resized(heads=32, keep="split"), 64, "split")
    assert guard.figure == "split leaves h·d at 1024 (was 1008), on which alone Theorem 3.2 depends"
    narrow = replace(wide, head_dim=32)
    assert not guards(narrow, narrow.resized(heads=32, keep="split"), 64, "split"), "h·d grows, so a gain is predicted"


def test_the_rank_guard_is_about_heads_that_became_smaller() -> None:
    found = guards(VIT_B, VIT_B.resized(heads=96, keep="split"), 197, "split")
    assert "heads of 8 (was 64) have 1 % of the rank of width 768, over 197 tokens. Measured: " in str(found[0])
    assert "keep head_dim instead of the width" in str(found[0])
    assert "rank" not in levels(guards(VIT_B, VIT_B.resized(heads=16), 197, "fixed"))
    assert "rank" not in levels(guards(VIT_B, VIT_B.resized(heads=24, keep="split"), 197, "split")), "32 is safe"
    small = replace(VIT_B, head_dim=8)
    assert "rank" not in levels(guards(small, small.resized(heads=16), 197, "fixed")), "they were small before"


def test_the_cliff_guard_names_heads_that_are_clear() -> None:
    found = guards(VIT_B, VIT_B.resized(heads=3), 197, "fixed")
    assert levels(found) == {"cliff": "warn"}
    assert "h·d = 192 is near the 197 tokens" in str(found[0])
    assert "or more heads of 64 are clear of it" in found[0].remedy
    assert not guards(VIT_B, VIT_B.resized(heads=gaussian.safe_heads(197, 64)), 197, "fixed")


def test_the_hardware_guard() -> None:
    odd = Stage(width=512, depth=4, heads=12, head_dim=42, mlp_dim=2048)
    assert "use head_dim 40 or 48" in str(guards(odd, odd, 64, "fixed")[0])
    wide = Stage(width=768, depth=4, heads=2, head_dim=384, mlp_dim=2048)
    assert levels(guards(wide, wide, 64, "fixed")) == {"hardware": "note"}
