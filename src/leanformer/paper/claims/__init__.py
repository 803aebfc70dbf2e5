"""Every quantitative or directional claim of both papers, as data, and what the records say about each."""

from __future__ import annotations

from leanformer.paper.claims import (
    counterpoint,
    counterpoint_theory,
    kappa,
    language,
    optimisation,
    theory,
    trained_images,
    vision,
)
from leanformer.paper.evidence import Evidence
from leanformer.paper.record import LEANER, QUALITY, Claim
from leanformer.paper.rules import Stated

STATED: dict[str, tuple[Stated, ...]] = {
    LEANER: (
        *theory.CLAIMS,
        *kappa.CLAIMS,
        *optimisation.CLAIMS,
        *trained_images.CLAIMS,
        *vision.CLAIMS,
        *language.CLAIMS,
    ),
    QUALITY: (*counterpoint.CLAIMS, *counterpoint_theory.CLAIMS),
}
"""By paper, in the order in which it is read."""


def judged(evidence: Evidence) -> tuple[Claim, ...]:
    """All claims, each with the status that the records give it."""
    return tuple(_claim(paper, stated, evidence) for paper, claims in STATED.items() for stated in claims)


def _claim(paper: str, stated: Stated, evidence: Evidence) -> Claim:
    found = stated.judge(evidence)
    return Claim(
        id=stated.id,
        paper=paper,  # type: ignore[arg-type]
        where=stated.where,
        statement=stated.statement,
        printed=stated.printed,
        rule=stated.rule,
        scale=stated.scale,
        status=found.status,
        result=found.result,
        value=found.value,
        limit=found.limit,
        interval=found.interval,
        spread=found.spread if found.interval else None,
        parts=found.parts if len(found.parts) > 1 else (),
        extension=stated.extension,
        records=found.records,
        test=stated.test,
        at_scale=stated.at_scale(evidence),
    )
