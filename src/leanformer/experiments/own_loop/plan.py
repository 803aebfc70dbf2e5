"""The plan of a comparison around a loop of one's own: made, joined with what a folder holds already, written down."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from leanformer.experiments.judging.stopping_rules import Rule
from leanformer.experiments.own_loop.records import PLAN, OwnPlan, PlannedArm
from leanformer.experiments.own_loop.result import is_finished
from leanformer.experiments.plan import PLAN as PLAN_OF_A_RECIPE
from leanformer.experiments.plan import folder_of
from leanformer.experiments.registration import Amendment, amendments, first_plan, later_plan, seeds_of_next_look
from leanformer.foundation.records.circumstances import circumstances
from leanformer.tasks.base import Metric
from leanformer.training.run import differences

USUAL_SEEDS = 3
NO_MARGIN = "no margin was given: lean holds only if it is not worse at all"


@dataclass(frozen=True, kw_only=True)
class Asked:
    """What is asked for now."""

    name: str
    trained_by: str
    command: Sequence[str]
    score_from: str
    metric: Metric
    margin: float | None
    arms: Mapping[str, PlannedArm]
    seeds: Sequence[int] | None
    first_seed: int
    """Where only the number of seeds is known."""
    wanted: Rule | None
    """Planned looks, if the comparison is to run until its verdict is decided."""
    notes: Sequence[str]

    def settled(self, arms: Sequence[str]) -> dict[str, Any]:
        return _settled(self.metric, self.command, self.score_from, {arm: self.arms[arm] for arm in arms})


def make_plan(asked: Asked, out: Path) -> OwnPlan:
    """The plan, joined with the one that the folder holds already."""
    if (out / PLAN_OF_A_RECIPE).is_file():
        raise ValueError(f"{out} holds the comparison of a recipe: choose another folder")
    there = OwnPlan.read(out / PLAN) if (out / PLAN).is_file() else None
    seeds, rule = first_plan(asked.seeds, asked.wanted, USUAL_SEEDS, first=asked.first_seed)
    margin, notes, changed = asked.margin, list(asked.notes), list[Amendment]()
    arms = dict(asked.arms)
    if there is not None:
        _check_same(there, asked, out)
        margin = there.margin if margin is None else margin
        arms = {**asked.arms, **there.arms}  # what was counted before stays
        results = sum(is_finished(folder_of(out, arm, seed)) for arm, seed in there.runs())
        if results:
            seeds, rule = later_plan(there.rule, there.seeds, asked.seeds, asked.wanted, str(out))
        changes = {
            "margin": (there.margin, margin),
            "number of seeds": (len(there.seeds), len(seeds)),
            "arms": (", ".join(there.arms), ", ".join(dict.fromkeys((*there.arms, *arms)))),
        }
        changed = [*there.amendments, *amendments(changes, results)]
        notes = list(dict.fromkeys((*there.notes, *notes)))
    if asked.margin is None and (there is None or NO_MARGIN in there.notes):
        notes = [*(note for note in notes if note != NO_MARGIN), NO_MARGIN]
    else:
        notes = [note for note in notes if note != NO_MARGIN]
    plan = OwnPlan(
        name=asked.name,
        trained_by=asked.trained_by,
        command=list(asked.command),
        score_from=asked.score_from,
        metric=asked.metric,
        margin=margin or 0.0,
        arms=arms,
        seeds=seeds,
        rule=rule,
        amendments=changed,
        notes=notes,
        circumstances=there.circumstances if there is not None else circumstances(),
    )
    plan.write(out / PLAN)
    return plan


def to_next_look(plan: OwnPlan, out: Path) -> OwnPlan | None:
    """The plan with the seeds of the next planned look, written down; None if there is none."""
    seeds = seeds_of_next_look(plan.rule, plan.seeds)
    if seeds is None:
        return None
    extended = plan.changed(seeds=seeds)
    extended.write(out / PLAN)
    return extended


def _check_same(there: OwnPlan, asked: Asked, out: Path) -> None:
    """What was planned before must be what is asked for now, except for seeds, further arms and the margin."""
    common = [arm for arm in asked.arms if arm in there.arms]
    planned = _settled(there.metric, there.command, there.score_from, {arm: there.arms[arm] for arm in common})
    if planned != (now := asked.settled(common)):
        raise ValueError(f"{out} holds another comparison: {differences(planned, now)}; choose another folder")


def _settled(metric: Metric, command: Sequence[str], score_from: str, arms: Mapping[str, PlannedArm]) -> dict[str, Any]:
    """What of a plan cannot change once it is begun. Costs may: they depend on the example."""
    return {
        "metric": {"name": metric.name, "higher_is_better": metric.higher_is_better},
        "command": list(command),
        "score_from": score_from,
        "arms": {
            name: {
                "sizes": arm.sizes,
                "parameters": arm.params,
                "tensors": arm.shapes,
                "architecture": arm.architecture.to_dict() if arm.architecture else None,
            }
            for name, arm in arms.items()
        },
    }
