"""What testing a claim at the paper's scale takes, from the recounted rows."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from leanformer.paper.evidence import Evidence


def hours(models: Sequence[str], data: str) -> Callable[[Evidence], str | None]:
    """Device-hours of originals and lean models, and the data; None where they were not counted."""

    def words(evidence: Evidence) -> str | None:
        rows = [evidence.row(model, variant) for model in models for variant in ("original", "lean")]
        costs = [row.training for row in rows if row is not None and row.training is not None]
        if not costs:
            return None
        together = sum(cost.hours for cost in costs)
        shown = f"{together:,.0f}" if together >= 10 else f"{together:.1f}" if together >= 0.1 else "less than 0.1"
        return f"{shown} {costs[0].device.upper()}-hours per seed, original and lean, by the cost model; {data}"

    return words
