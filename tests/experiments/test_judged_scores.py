"""`lf.judge`: the record of a comparison from scores alone."""

import numpy as np
import pytest

import leanformer as lf

DRAW = np.random.default_rng(0)
BASE = {seed: 90 + DRAW.normal(0, 0.3) for seed in range(6)}
LEAN = {seed: score + DRAW.normal(0.1, 0.05) for seed, score in BASE.items()}
SHALLOW = {seed: score - 2 + DRAW.normal(0, 0.05) for seed, score in BASE.items()}


def test_the_usual_arms_are_judged_as_compare_does() -> None:
    found = lf.judge({"original": BASE, "lean": LEAN, "shallow": SHALLOW}, margin=0.5, unit="%")
    assert found.verdict.outcome == "holds"
    assert list(found.verdict.lean) == ["original", "shallow"]
    assert found.verdict.lean["shallow"].better
    assert found.verdict.effects.depth.mean == pytest.approx(-2, abs=0.1)
    assert len(repr(found)) < 2000


def test_any_names_are_judged_against_the_first_or_a_given_one() -> None:
    scores = {"vit b": BASE, "vit <b> lean": LEAN, "vit b/2": SHALLOW}
    found = lf.judge(scores, margin=0.5)
    assert [(verdict.arm, verdict.against) for verdict in found.verdict.verdicts] == [
        ("vit <b> lean", "vit b"),
        ("vit b/2", "vit b"),
    ]
    assert [verdict.outcome for verdict in found.verdict.verdicts] == ["holds", "loses"]
    assert lf.judge(scores, margin=0.5, against="vit b/2").verdict.outcome == "holds"
    with pytest.raises(ValueError, match="has no arm 'x'; it has vit b, vit <b> lean, vit b/2"):
        lf.judge(scores, margin=0.5, against="x")
    with pytest.raises(ValueError, match="has one arm, a; a verdict needs at least two"):
        lf.judge({"a": BASE}, margin=0.5)


def test_missing_pairs_failed_runs_and_single_seeds_are_stated() -> None:
    found = lf.judge({"original": BASE, "lean": {**{s: v for s, v in LEAN.items() if s != 3}, 9: 90.0}}, margin=0.5)
    assert found.notes == [
        "1 seed of lean without a partner in original (9): not used in that pair",
        "1 seed of original without a partner in lean (3): not used in that pair",
    ]
    failed = lf.judge({"original": BASE, "lean": {**LEAN, 2: float("nan")}}, margin=0.5)
    assert failed.verdict.outcome == "cannot tell"
    assert failed.verdict.words.startswith("cannot tell: runs failed (1 of lean); of the others, lean holds")
    assert list(failed.failures) == ["lean, seed 2"]
    one = lf.judge({"original": [1.0], "lean": [2.0]}, margin=0.5)
    assert one.verdict.words.startswith("cannot tell: at least 2 more seeds needed")


def test_the_rule_is_the_callers() -> None:
    scores = {"original": BASE, "lean": LEAN}
    halves = {
        name: lf.judge(scores, margin=0.5, **kind).verdict.main.difference.t.half
        for name, kind in {"once": {}, "looks": {"until": "decided"}, "added": {"unplanned": True}}.items()
    }
    assert halves["once"] < halves["looks"] < halves["added"]
    with pytest.raises(ValueError, match=r"by a plan .* or without one .*, not both"):
        lf.judge(scores, margin=0.5, until="decided", unplanned=True)
    with pytest.raises(ValueError, match="until must be 'decided', got 'tired'"):
        lf.judge(scores, margin=0.5, until="tired")
    with pytest.raises(ValueError, match="max_seeds=9 needs until='decided'"):
        lf.judge(scores, margin=0.5, max_seeds=9)


def test_outcomes_of_samples_give_the_second_interval_and_flips() -> None:
    right = DRAW.random((3, 200)) < 0.8
    better = right | (np.arange(200) < 30)  # the same samples are gained in every seed
    rows = [
        {"arm": arm, "seed": seed, "sample": sample, "score": int(answers[seed, sample])}
        for arm, answers in (("original", right), ("lean", better))
        for seed in range(3)
        for sample in range(200)
    ]
    main = lf.judge(rows, margin=1, unit="%").verdict.main
    assert main.samples.lost == 0
    assert main.samples.gained == pytest.approx((better & ~right).sum() / 3)
    assert main.samples.interval.half > main.difference.t.half
    assert main.difference.mean == pytest.approx(100 * (better.mean() - right.mean()))
