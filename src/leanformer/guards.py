"""What may go wrong with a design, each with the figure behind it and a remedy. Guards never change a design.

May import architecture and theory.
"""

from dataclasses import dataclass
from typing import Literal

from leanformer import theory
from leanformer.architecture import REGIMES, Keep, Stage

Level = Literal["note", "warn", "refuse"]

SMALL_HEAD, TINY_HEAD = 32, 16
"""head_dim below which a head's rank is noted, and warned of. Until measured levels exist these are conventions: common
models use 64, and in "Quality over Quantity" (Fig. 1, one layer, width 64) heads of rank 32 already leave an error of
0.31 to 0.69 where rank 64 leaves 0.002 to 0.015."""


@dataclass(frozen=True)
class Guard:
    """One concern about a design."""

    name: Literal["rank", "cliff", "no predicted gain", "hardware"]
    level: Level
    figure: str
    remedy: str

    def __str__(self) -> str:
        return f"{self.name}: {self.figure}; {self.remedy}"


def guards(original: Stage, stage: Stage, tokens: int, keep: Keep) -> list[Guard]:
    """Every concern about one stage of a design that started from `original`."""
    found = []
    if stage.head_dim < SMALL_HEAD and stage.head_dim < min(stage.width, tokens):
        share = 100 * stage.head_dim / stage.width
        level: Level = "warn" if stage.head_dim < TINY_HEAD else "note"
        figure = (
            f"heads of {stage.head_dim} have {share:.0f} % of the rank of width {stage.width}, over {tokens} tokens"
        )
        remedy = "keep head_dim instead of the width" if keep == "width" else f"use heads of {SMALL_HEAD} or more"
        found.append(Guard("rank", level, figure, remedy))
    if theory.near_cliff(tokens, stage.inner_width):
        factor = theory.cliff_factor(tokens, stage.inner_width)
        figure = (
            f"h·d = {stage.inner_width} is near the {tokens} tokens, where a Gaussian block is {factor:.0f} times "
            "worse conditioned than one twice as wide"
        )
        heads = theory.safe_heads(tokens, stage.head_dim)
        fewer = max((h for h in range(1, stage.heads) if not theory.near_cliff(tokens, h * stage.head_dim)), default=0)
        below = f"{fewer} or fewer, or " if fewer else ""
        found.append(
            Guard("cliff", "warn", figure, f"{below}{heads} or more heads of {stage.head_dim} are clear of it")
        )
    if keep == "width" and stage.heads > original.heads:
        figure = f"{REGIMES[keep]} leaves h·d at {stage.inner_width}, on which alone Theorem 3.2 depends"
        found.append(Guard("no predicted gain", "warn", figure, "keep head_dim if conditioning is the aim"))
    if stage.head_dim % 8:
        near = sorted({max(8, stage.head_dim // 8 * 8), -(-stage.head_dim // 8) * 8})
        figure = f"head_dim {stage.head_dim} is no multiple of 8, so fused kernels pad it or are lost"
        found.append(Guard("hardware", "note", figure, f"use head_dim {' or '.join(map(str, near))}"))
    elif stage.head_dim > 256:
        figure = f"head_dim {stage.head_dim} is more than the 256 that fused kernels take"
        found.append(Guard("hardware", "note", figure, "use more heads of at most 256"))
    return found
