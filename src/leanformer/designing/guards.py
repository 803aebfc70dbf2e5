"""What may go wrong with a design, each with the figure behind it and a remedy. Guards never change a design.

May import architecture and theory.
"""

from dataclasses import dataclass
from math import log2
from typing import Literal

from leanformer.architecture import REGIMES, Keep, Stage
from leanformer.conditioning import gaussian as theory

Level = Literal["note", "warn", "refuse"]


@dataclass(frozen=True)
class Finding:
    """What a sweep measured of heads that split the width: one size against the recipe's own, paired by seed."""

    task: str
    record: str
    """Folder of the sweep in results/."""
    width: int
    usual: int
    head_dim: int
    difference: float
    """Where more is better, in the score's unit; with its 95 % interval over seeds."""
    low: float
    high: float
    unit: str
    margin: float
    """What difference would matter, as the recipe says."""

    def __str__(self) -> str:
        places = 2 if self.unit == "points" else 3
        interval = f"[{self.low:+.{places}f}, {self.high:+.{places}f}]"
        return (
            f"{self.task}, width {self.width}: {self.difference:+.{places}f} {interval} {self.unit} with heads of "
            f"{self.head_dim} instead of {self.usual}"
        )


VIT = ("Fashion-MNIST", "sweep-fashion-mnist", 64, 16)
GPT = ("TinyStories", "sweep-tinystories", 128, 32)
FINDINGS = (
    Finding(*VIT, 8, 0.15, -0.17, 0.47, "points", 0.5),
    Finding(*VIT, 4, 0.47, 0.08, 0.86, "points", 0.5),
    Finding(*GPT, 16, -0.022, -0.035, -0.008, "nats", 0.03),
    Finding(*GPT, 8, -0.037, -0.039, -0.034, "nats", 0.03),
    Finding(*GPT, 4, -0.043, -0.059, -0.028, "nats", 0.03),
)
"""docs/guards.md has the figures and how they were made; a test holds these equal to the records."""
SAFE = max(finding.usual for finding in FINDINGS)
"""No task was seen to lose with heads of this size or larger."""
COUNTERPOINT = "a task that compares whole vectors fails at half the rank already"
"""sweep-farthest: the part of the evidence that no margin is needed for."""


def level(head_dim: int) -> Level:
    """Refused where a task lost more than its margin at this size or a larger one, warned of where one lost at all."""
    lost = [finding for finding in FINDINGS if finding.head_dim >= head_dim and finding.high < 0]
    if any(finding.high < -finding.margin for finding in lost):
        return "refuse"
    return "warn" if lost else "note"


def evidence(head_dim: int) -> str:
    """The findings of every task at the size nearest to this one."""
    nearest: dict[str, Finding] = {}
    for finding in FINDINGS:
        best = nearest.get(finding.task)
        if best is None or abs(log2(finding.head_dim / head_dim)) < abs(log2(best.head_dim / head_dim)):
            nearest[finding.task] = finding
    return "; ".join(map(str, nearest.values()))


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
    if stage.head_dim < min(original.head_dim, stage.width, tokens, SAFE):
        share = 100 * stage.head_dim / stage.width
        figure = (
            f"heads of {stage.head_dim} (was {original.head_dim}) have {share:.0f} % of the rank of width "
            f"{stage.width}, over {tokens} tokens. Measured: {evidence(stage.head_dim)}; {COUNTERPOINT} "
            "(docs/guards.md)"
        )
        remedy = "keep head_dim instead of the width" if keep == "width" else f"use heads of {original.head_dim}"
        found.append(Guard("rank", level(stage.head_dim), figure, remedy))
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
