"""What was said before the first result, and what was changed afterwards.

A margin, a number of seeds or an arm that is chosen after the results are known proves less. The plan of a comparison
therefore keeps every such change, and every report shows it.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any

from leanformer.experiments.judging.stopping_rules import ALWAYS, Rule, fixed, planned_looks
from leanformer.foundation.formats import counted
from leanformer.foundation.records.base import RecordPart

UNTIL = ("decided",)
"""What a comparison may run until, beside its number of seeds."""
MOST_SEEDS = 30
"""The limit of seeds where none is given."""


class Amendment(RecordPart):
    """Something that was changed when results were there already."""

    what: str
    before: str
    after: str
    results: int
    """Runs that were finished at that time."""

    @property
    def words(self) -> str:
        return (
            f"changed after {counted(self.results, 'result')}: the {self.what}, from {self.before} to {self.after}; "
            f"a choice made after the results are known proves less"
        )


def wanted_rule(seeds: Sequence[int] | None, until: str | None, most: int | None) -> Rule | None:
    """Planned looks, where a comparison is to run until its verdict is decided; None for a fixed number of seeds."""
    if until is None:
        if most is not None:
            raise ValueError(f"max_seeds={most} needs until='decided'; without it, seeds is the number that is run")
        return None
    if until not in UNTIL:
        raise ValueError(f"until must be 'decided', got {until!r}")
    if seeds is not None:
        raise ValueError("until='decided' chooses the number of seeds: give max_seeds, not seeds")
    return planned_looks(MOST_SEEDS if most is None else most)


def first_plan(
    seeds: Sequence[int] | None, wanted: Rule | None, usual: int, usual_most: int | None = None, first: int = 0
) -> tuple[list[int], Rule]:
    """Seeds and rule of a comparison without results.

    Args:
        seeds: those that are asked for.
        wanted: planned looks, if these are asked for.
        usual: the number of seeds where nothing is asked for.
        usual_most: if given, looks are then planned up to so many seeds.
        first: the first seed, where only their number is known.
    """
    if seeds is None and wanted is None and usual_most is not None:
        wanted = planned_looks(usual_most)
    if wanted is not None:
        return list(range(first, first + wanted.looks[0])), wanted
    chosen = list(range(first, first + usual)) if seeds is None else list(seeds)
    return chosen, fixed(len(chosen))


def later_plan(
    there: Rule, planned: Sequence[int], seeds: Sequence[int] | None, wanted: Rule | None, out: str
) -> tuple[list[int], Rule]:
    """Seeds and rule of a comparison that has results: as planned, or with seeds that no plan foresaw."""
    if wanted is not None and wanted != there:
        had = f"looks at {', '.join(map(str, there.looks))} seeds" if there.kind == "looks" else "no planned looks"
        raise ValueError(
            f"{out} has results, and {had}: when to stop must be planned before the first result. Choose another "
            f"folder, or give a number of seeds, which then counts as added without a plan"
        )
    chosen = sorted({*planned, *(seeds or ())})
    return chosen, there if chosen == list(planned) else ALWAYS


def seeds_of_next_look(rule: Rule, seeds: Sequence[int]) -> list[int] | None:
    """The seeds of a comparison up to its next planned look; None if there is none."""
    following = next((look for look in rule.looks if look > len(seeds)), None)
    if rule.kind != "looks" or following is None:
        return None
    unused = (seed for seed in itertools.count(min(seeds)) if seed not in seeds)
    return sorted([*seeds, *itertools.islice(unused, following - len(seeds))])


def amendments(changes: dict[str, tuple[Any, Any]], results: int) -> list[Amendment]:
    """Those of the changes (by what, before and after) that count: none as long as there are no results."""
    if not results:
        return []
    return [
        Amendment(what=what, before=str(before), after=str(after), results=results)
        for what, (before, after) in changes.items()
        if before != after
    ]
