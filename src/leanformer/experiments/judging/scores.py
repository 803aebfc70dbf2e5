"""Scores from anywhere: rows of arm, seed and score, checked one by one; nothing is dropped without a word."""

from __future__ import annotations

import math
import re
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from jaxtyping import Float
from numpy import ndarray

from leanformer.foundation.formats import counted

Seed = int | str
"""Seeds are paired by their label, which need not be a number."""
Row = tuple[str, Mapping[str, Any]]
"""Where a row stands, and its values by column."""
COLUMNS = ("arm", "seed", "score")
LONGEST_NAME = 100


@dataclass
class ScoreTable:
    """Scores by arm and seed, with what had to be decided about them."""

    source: str
    scores: dict[str, dict[Seed, float]] = field(default_factory=dict)
    failed: list[tuple[str, Seed]] = field(default_factory=list)
    """Runs whose score is missing, NaN or infinite."""
    outcomes: dict[str, dict[Seed, Float[ndarray, " samples"]]] = field(default_factory=dict)
    """Of every sample, where the rows name samples."""
    notes: list[str] = field(default_factory=list)

    @property
    def arms(self) -> list[str]:
        return list(self.scores)

    @property
    def seeds(self) -> list[Seed]:
        return sorted({seed for found in self.scores.values() for seed in found}, key=_order)


def table_of(rows: Iterable[Row], source: str, unit: str = "") -> ScoreTable:
    """Scores by arm and seed. Rows that name samples are averaged over them; % turns right answers into percentages."""
    found = ScoreTable(source)
    places: dict[tuple[str, Seed, str], str] = {}
    by_sample: dict[tuple[str, Seed], dict[str, float]] = defaultdict(dict)
    for place, row in rows:
        arm, seed, sample, score = _row(place, row)
        if (first := places.setdefault((arm, seed, sample), place)) != place:
            what = f"{arm}, seed {seed}" + (f", sample {sample}" if sample else "")
            raise ValueError(f"{place}: {what} stands in {first} already; keep one row for each")
        found.scores.setdefault(arm, {})
        by_sample[arm, seed][sample] = score
    if not found.scores:
        raise ValueError(f"{source} has no rows; needed are rows of {', '.join(COLUMNS)}")
    for (arm, seed), values in by_sample.items():
        if not all(map(math.isfinite, values.values())):
            found.failed.append((arm, seed))
        else:
            scale = 100 if unit == "%" and "" not in values else 1
            found.scores[arm][seed] = scale * math.fsum(values.values()) / len(values)
    if any("" not in values for values in by_sample.values()):
        _keep_outcomes(found, by_sample)
    return found


def _row(place: str, row: Mapping[str, Any]) -> tuple[str, Seed, str, float]:
    if missing := [column for column in COLUMNS if column not in row]:
        there = ", ".join(map(str, row))[:200]
        raise ValueError(f"{place} lacks the column {', '.join(missing)}; needed are {', '.join(COLUMNS)}, got {there}")
    arm = str(row["arm"]).strip()
    if not arm or len(arm) > LONGEST_NAME or not arm.isprintable():
        raise ValueError(f"{place}: an arm is a name of up to {LONGEST_NAME} printable characters, got {row['arm']!r}")
    sample = str(row["sample"]).strip() if row.get("sample") is not None else ""
    return arm, seed_of(row["seed"], place), sample, _score(row["score"], place)


def seed_of(value: Any, place: str) -> Seed:
    """A whole number, or a short name."""
    text = str(value).strip()
    if isinstance(value, float) and value.is_integer():
        text = str(int(value))
    if not text or len(text) > LONGEST_NAME or not text.isprintable() or text.lower() in ("nan", "none"):
        raise ValueError(f"{place}: a seed is a whole number or a short name, got {value!r}")
    return int(text) if re.fullmatch(r"-?\d{1,18}", text) else text


def _score(value: Any, place: str) -> float:
    """A number; what is missing or not finite becomes NaN."""
    if value is None or (isinstance(value, str) and value.strip().lower() in ("", "nan", "na", "none", "null")):
        return math.nan
    if isinstance(value, bool):
        return float(value)
    try:
        return float(value)
    except (TypeError, ValueError):
        raise ValueError(f"{place}: a score is a number, got {value!r}") from None


def _keep_outcomes(found: ScoreTable, by_sample: Mapping[tuple[str, Seed], Mapping[str, float]]) -> None:
    """Keep the outcomes of every sample, if all runs have the same ones; otherwise say that they have not."""
    common = {frozenset(values) for key, values in by_sample.items() if key not in found.failed}
    if len(common) != 1 or common == {frozenset({""})}:
        found.notes.append("runs have different samples, so that there is no interval for samples like these")
        return
    order = sorted(next(iter(common)), key=_order)
    for (arm, seed), values in by_sample.items():
        if (arm, seed) not in found.failed:
            found.outcomes.setdefault(arm, {})[seed] = np.asarray([values[sample] for sample in order])


def unpaired(found: ScoreTable, against: str) -> list[str]:
    """Notes on seeds that have no partner in the arm that is compared with."""
    partners = found.scores.get(against, {}).keys() | {seed for arm, seed in found.failed if arm == against}
    notes = []
    for arm, scores in found.scores.items():
        seeds = scores.keys() | {seed for other, seed in found.failed if other == arm}
        for ours, theirs, seeds_of in ((seeds, partners, arm), (partners, seeds, against)):
            lonely = sorted(ours - theirs, key=_order)
            if arm != against and lonely:
                other = against if seeds_of == arm else arm
                notes.append(
                    f"{counted(len(lonely), 'seed')} of {seeds_of} without a partner in {other} "
                    f"({_listed(lonely)}): not used in that pair"
                )
    return notes


def _listed(seeds: Sequence[Seed], most: int = 8) -> str:
    shown = ", ".join(map(str, seeds[:most]))
    return shown if len(seeds) <= most else f"{shown}, …"


def _order(label: Seed | str) -> tuple[bool, int, str]:
    """Numbers by their size, then names."""
    return (not isinstance(label, int), label if isinstance(label, int) else 0, str(label))
