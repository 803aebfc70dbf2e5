"""One colour for each arm, the same in all figures."""

from __future__ import annotations

from collections.abc import Sequence

from leanformer.experiments.arms import LEAN, ORIGINAL, SHALLOW, WIDE
from leanformer.report.figures.style import FIXED, INK, SIMULATION, SPLIT, THEORY

COLOURS = {ORIGINAL: INK, LEAN: FIXED, SHALLOW: SPLIT, WIDE: SIMULATION}
MORE = (THEORY, "#b5838d", "#6b705c", "#e9a23b", "#7b2cbf", "#0096c7", "#8d5524", "#d00073")


def colour(arm: str, arms: Sequence[str]) -> str:
    others = [name for name in arms if name not in COLOURS]
    return COLOURS.get(arm) or MORE[others.index(arm) % len(MORE)]
