"""What may go wrong with a design, each with the number behind it and a remedy. Guards never change a design."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from math import log
from typing import Literal

from leanformer.architecture import Regime, Stage
from leanformer.conditioning import gaussian
from leanformer.designing import findings
from leanformer.designing.findings import Level


@dataclass(frozen=True)
class Guard:
    """One concern about a design."""

    __pydantic_config__ = {"extra": "forbid"}

    name: Literal["rank", "cliff", "no predicted gain", "hardware"]
    level: Level
    figure: str
    """What was found, with its number."""
    remedy: str

    def __str__(self) -> str:
        return f"{self.name}: {self.figure}; {self.remedy}"


def guards(original: Stage, stage: Stage, tokens: int, regime: Regime) -> list[Guard]:
    """Every concern about one stage of a design that started from `original`."""
    found: list[Guard] = []
    found += _rank(original, stage, tokens, regime)
    found += _cliff(stage, tokens)
    found += _no_predicted_gain(original, stage, tokens, regime)
    found += _hardware(stage)
    return found


def _rank(original: Stage, stage: Stage, tokens: int, regime: Regime) -> Iterator[Guard]:
    if stage.head_dim >= min(original.head_dim, stage.width, tokens, findings.SAFE):
        return
    share = 100 * stage.head_dim / stage.width
    figure = (
        f"heads of {stage.head_dim} (was {original.head_dim}) have {share:.0f} % of the rank of width "
        f"{stage.width}, over {tokens} tokens. Measured: {findings.evidence(stage.head_dim)}; {findings.COUNTERPOINT} "
        "(docs/concepts/guards.md)"
    )
    remedy = "keep head_dim instead of the width" if regime == "split" else f"use heads of {original.head_dim}"
    yield Guard("rank", findings.level(stage.head_dim), figure, remedy)


def _cliff(stage: Stage, tokens: int) -> Iterator[Guard]:
    if not gaussian.near_cliff(tokens, stage.inner_width):
        return
    factor = gaussian.cliff_factor(tokens, stage.inner_width)
    figure = (
        f"h·d = {stage.inner_width} is near the {tokens} tokens, where a Gaussian block is {factor:.0f} times "
        "worse conditioned than one twice as wide"
    )
    more = gaussian.safe_heads(tokens, stage.head_dim)
    clear = (heads for heads in range(1, stage.heads) if not gaussian.near_cliff(tokens, heads * stage.head_dim))
    fewer = max(clear, default=0)
    below = f"{fewer} or fewer, or " if fewer else ""
    yield Guard("cliff", "warn", figure, f"{below}{more} or more heads of {stage.head_dim} are clear of it")


GAIN = 1.05
"""Theory predicts a gain if a Gaussian block's κ falls by more than this factor."""


def _no_predicted_gain(original: Stage, stage: Stage, tokens: int, regime: Regime) -> Iterator[Guard]:
    before, after = original.inner_width, stage.inner_width
    if regime != "split" or stage.heads <= original.heads:
        return
    if gaussian.expected_log_kappa(tokens, before) - gaussian.expected_log_kappa(tokens, after) > log(GAIN):
        return
    if after < before:
        change = f"lowers h·d from {before} to {after}"
    else:
        change = f"leaves h·d at {after}" + ("" if after == before else f" (was {before})")
    figure = f"split {change}, on which alone Theorem 3.2 depends"
    yield Guard("no predicted gain", "warn", figure, "keep head_dim if conditioning is the aim")


def _hardware(stage: Stage) -> Iterator[Guard]:
    if stage.head_dim % 8:
        near = sorted({max(8, stage.head_dim // 8 * 8), -(-stage.head_dim // 8) * 8})
        figure = f"head_dim {stage.head_dim} is not a multiple of 8, so fused kernels pad it or cannot be used"
        yield Guard("hardware", "note", figure, f"use head_dim {' or '.join(map(str, near))}")
    elif stage.head_dim > 256:
        figure = f"head_dim {stage.head_dim} is more than the 256 that fused kernels take"
        yield Guard("hardware", "note", figure, "use more heads of at most 256")
