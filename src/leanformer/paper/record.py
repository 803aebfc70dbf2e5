"""The scorecard as a record: every row of the paper's tables beside what its model really counts."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from typing import Annotated, ClassVar, Literal, get_args

from pydantic import ConfigDict, PlainSerializer

from leanformer.foundation.records.base import PlainArchitecture, RecordPart
from leanformer.foundation.records.circumstances import DatedRecord
from leanformer.paper.drawn import PaperFigure

Numbers = int | tuple[int, ...]
"""One number, or one per stage."""
Status = Literal["matches", "matches under another reading than printed", "unexplained", "not printed"]
MemoryStatus = Literal["within 10 %", "more than 10 % off"]
Gigabytes = Annotated[float, PlainSerializer(lambda value: round(value, 1), return_type=float)]
Ratio = Annotated[float, PlainSerializer(lambda value: round(value, 3), return_type=float)]


class Printed(RecordPart):
    """A row as the paper prints it, with its other figures: top-1 and top-5 in percent, memory in GB, GLUE, …"""

    model_config = ConfigDict(frozen=True, extra="allow")
    __pydantic_extra__: dict[str, float]

    depth: Numbers
    heads: Numbers
    mlp_dim: Numbers | None = None
    params: str | None = None
    """With its unit, in the printed digits, such as "86.6 M"."""

    @property
    def memory_gb(self) -> float:
        return self.__pydantic_extra__["memory_gb"]


class Memory(RecordPart):
    """A printed memory figure beside the counted one."""

    printed_gb: float
    counted_gb: Gigabytes
    """By the reading of `leanformer.paper.memory`, the fitted constant included."""
    constant_gb: Gigabytes
    """That constant, for all devices together."""
    ratio: Ratio
    """Counted over printed."""
    status: MemoryStatus


class TrainingCost(RecordPart):
    """What one training run of a row takes at the paper's scale, by the cost model."""

    recipe: str
    device: str
    hours: Annotated[float, PlainSerializer(lambda value: round(value, 1), return_type=float)]
    """Of one device, at the usual share of its peak."""
    memory_gb: Gigabytes
    """Counted: saved activations and 16 bytes per parameter, at the recipe's batch on one device, in float32."""


class ScorecardRow(RecordPart):
    """One row of a table of the paper."""

    table: str
    model: str
    variant: Literal["original", "lean", "control"]
    base: str
    """The upstream model that it starts from."""
    printed: Printed
    params: int
    """Parameters by the reading that explains the row best, counted on the built model."""
    params_as_printed: int
    """Parameters of the shape exactly as printed."""
    reading: str
    """That reading in words."""
    status: Status
    """Of the printed count."""
    architecture: PlainArchitecture
    """By that reading."""
    memory: Memory | None = None
    """Of image models, if it was counted."""
    training: TrainingCost | None = None
    """At the paper's scale, if it was counted."""


class CitedSetting(RecordPart):
    """One setting that a source states, and what our recipes have."""

    source: str
    recipes: str
    setting: str
    cited: str
    same: bool
    """Whether every recipe that follows the source has this value."""


ClaimStatus = Literal["holds", "holds under another reading", "does not hold here", "cannot tell", "not testable here"]
Spread = Literal["95 % interval", "range"]
CLAIM_STATUSES: tuple[ClaimStatus, ...] = get_args(ClaimStatus)
LEANER, QUALITY = "Leaner Transformers", "Quality over Quantity"


class Limit(RecordPart):
    """What a number is compared with: where a claim holds, the number and its interval are not beyond it."""

    side: Literal["at least", "at most"]
    value: float

    def met_by(self, number: float) -> bool:
        return number >= self.value if self.side == "at least" else number <= self.value

    def __str__(self) -> str:
        return f"{self.side} {self.value:.4g}"


class ClaimPart(RecordPart):
    """One of the numbers that a claim was judged by, such as one design against the original."""

    name: str
    value: float
    low: float | None = None
    high: float | None = None
    limit: Limit | None = None
    """What the number is compared with."""
    status: ClaimStatus
    """What this number alone says."""

    @property
    def ends(self) -> tuple[float, float]:
        """The interval; the number itself if it has none."""
        return self.value if self.low is None else self.low, self.value if self.high is None else self.high


class Claim(RecordPart):
    """One quantitative or directional claim of a paper, and what the records say about it."""

    id: str
    paper: Literal["Leaner Transformers", "Quality over Quantity"]
    where: str
    """Where it is printed: figure, table or section."""
    statement: str
    """In plain words."""
    printed: tuple[str, ...]
    """The values as printed, if it has some."""
    rule: str
    """When it holds, and when it does not."""
    scale: str
    """What it was tested on."""
    status: ClaimStatus
    result: str
    """What was found, with its interval."""
    value: float | None = None
    """The number that was judged."""
    limit: Limit | None = None
    """What that number is compared with. A rule may ask for more than this."""
    interval: tuple[float, float] | None = None
    spread: Spread | None = None
    """What the interval is: the 95 % interval over seeds, or the range over seeds, models or designs."""
    parts: tuple[ClaimPart, ...] = ()
    """The numbers behind the status, if there are several."""
    extension: bool = False
    """Whether it goes beyond the paper's text: another corpus, a remark of ours, a study in the authors' code only."""
    records: tuple[str, ...] = ()
    """Files under the folder of results that the status was computed from."""
    test: str
    """The command that tests it, or tests it again."""
    at_scale: str | None = None
    """What a test at the paper's scale takes: device, hours and data."""

    @property
    def places(self) -> set[str]:
        """The figures and tables of its paper that it is about, such as "Figure 6" and "Figure 7"."""
        named = re.findall(r"(Figure|Table)s? (\d+(?:(?:, | and )\d+)*)", self.where)
        return {f"{kind} {number}" for kind, numbers in named for number in re.findall(r"\d+", numbers)}

    @property
    def rests_on_trainings(self) -> bool:
        """Whether its records are those of trained models, not only counts, printed figures or initial weights."""
        return any(name.endswith(TRAINED_RECORDS) for name in self.records)

    @property
    def judged(self) -> tuple[ClaimPart, ...]:
        """The numbers that were judged: its parts, or its own."""
        if self.parts or self.value is None:
            return self.parts
        low, high = self.interval or (None, None)
        return (ClaimPart(name="", value=self.value, low=low, high=high, limit=self.limit, status=self.status),)


TRAINED_RECORDS = ("comparison.json", "sweep.json", "glue.json", "figure.json", "positions.json", "perfect.json")
"""Files of trained models, by the end of their names."""


class Scorecard(DatedRecord):
    """The whole scorecard."""

    kind: ClassVar[str] = "scorecard"
    version: ClassVar[int] = 5

    summary: str
    rows: tuple[ScorecardRow, ...]
    settings: tuple[CitedSetting, ...] = ()
    claims: tuple[Claim, ...] = ()
    figures: tuple[PaperFigure, ...] = ()
    """The paper's figures, drawn from the records; claims about a figure rest on the same runs."""

    def glance(self) -> str:
        return self.claims_summary if self.claims else self.summary

    @property
    def claims_summary(self) -> str:
        """How many claims of each paper hold, a sentence for each; the papers contradict each other in part."""
        printed, others = ([claim for claim in self.claims if claim.extension is own] for own in (False, True))
        papers = [
            _of_paper(paper, [claim for claim in printed if claim.paper == paper])
            for paper in dict.fromkeys(claim.paper for claim in printed)
        ]
        beyond = [f"{len(others)} more rows go beyond the papers' text: {_tally(others)}."] if others else []
        return " ".join([*papers, *beyond])


def _of_paper(paper: str, claims: Sequence[Claim]) -> str:
    trained = sum(claim.rests_on_trainings for claim in claims if claim.status == "holds")
    rest = f"; {trained} of those that hold were tested by training models" if trained else ""
    return f"{paper}: of {len(claims)} claims {_tally(claims)}{rest}."


def _tally(claims: Sequence[Claim]) -> str:
    counts = Counter(claim.status for claim in claims)
    return ", ".join(
        f"{counts[status]} {WORDS[status][counts[status] > 1]}" for status in CLAIM_STATUSES if counts[status]
    )


WORDS: dict[ClaimStatus, tuple[str, str]] = {
    "holds": ("holds", "hold"),
    "holds under another reading": (
        "holds under another reading than printed",
        "hold under another reading than printed",
    ),
    "does not hold here": ("does not hold here", "do not hold here"),
    "cannot tell": ("cannot be decided from the records", "cannot be decided from the records"),
    "not testable here": ("is not testable here", "are not testable here"),
}
"""Of one claim, and of several."""


def summary_of(rows: Sequence[ScorecardRow]) -> str:
    """How many printed counts hold, in a sentence; nothing where no count is printed."""
    if not rows:
        return ""
    counts = Counter(row.status for row in rows)
    printed = len(rows) - counts["not printed"]
    return (
        f"{counts['matches']} of {printed} printed counts match as printed, "
        f"{counts['matches under another reading than printed']} under another reading, "
        f"{counts['unexplained']} stay unexplained."
    )
