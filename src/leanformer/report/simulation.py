"""Error rates of verdicts as a table."""

from __future__ import annotations

from rich.table import Table

from leanformer.experiments.judging.simulation import EFFECTS, Simulation
from leanformer.experiments.judging.stopping_rules import ERROR
from leanformer.report import tables


def headings() -> list[str]:
    decided = [f"at {effect:g} sd" for effect in EFFECTS]
    return ["way to stop", "scores", "wrong holds", "wrong loses", *decided]


def rows(record: Simulation) -> list[list[str]]:
    return [
        [
            row.way,
            row.scores,
            f"{100 * row.wrong_holds:.2f} %",
            f"{100 * row.wrong_loses:.2f} %",
            *(f"{100 * row.decided[str(effect)]:.0f} % / {row.seeds[str(effect)]:.1f}" for effect in EFFECTS),
        ]
        for row in record.rows
    ]


def table(record: Simulation) -> Table:
    title = f"Errors of verdicts where the model is exactly a margin worse ({record.sequences:,} comparisons per row)"
    return tables.terminal(title, headings(), rows(record), left=2)


def markdown(record: Simulation) -> str:
    return tables.markdown(headings(), rows(record), left=2)


def note(record: Simulation) -> str:
    corrected, plain = (100 * record.better_by_chance[key] for key in ("corrected", "not corrected"))
    kept = "All promised rates are" if record.within_bounds() else "NOT all promised rates are"
    return (
        f"{kept} at most {100 * ERROR:g} % within the simulation's error. The last rows show what a plain t interval "
        f"does when it is looked at after every seed. The columns at the right show how many comparisons are decided, "
        f"and at how many seeds on average, where the truth is so many standard deviations (sd) of the paired "
        f"differences away from the margin. With four arms and no difference, one is called better in "
        f"{corrected:.1f} % of comparisons ({plain:.1f} % without Holm's correction)."
    )
