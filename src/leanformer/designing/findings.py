"""What committed sweeps measured of heads that split the width, and the level of warning that follows from it.

docs/findings/heads_and_rank.md has the figures and how they were made. A test compares this data with the records in
results/.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import log2
from typing import Literal

Level = Literal["note", "warn", "refuse"]


@dataclass(frozen=True)
class Finding:
    """What a sweep measured for one size of head against the recipe's own, paired by seed."""

    task: str
    record: str
    """Folder of the sweep in results/."""
    width: int
    usual: int
    """The recipe's own head_dim."""
    head_dim: int
    difference: float
    """Positive is better, in the score's unit; `low` and `high` are its 95 % interval over seeds."""
    low: float
    high: float
    unit: str
    margin: float
    """The difference that would matter, as the recipe says."""

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
SAFE = max(finding.usual for finding in FINDINGS)
"""No task lost with heads of this size or larger."""
COUNTERPOINT = "a task that compares whole vectors fails at half the rank already"
"""From sweep-farthest: the part of the evidence that needs no margin."""


def level(head_dim: int) -> Level:
    """`refuse` if a task lost more than its margin at this size or a larger one, `warn` if one lost at all."""
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
