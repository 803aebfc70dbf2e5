"""What a claim was judged by, as a small drawing: every number with its interval, and the limit it is compared with."""

from __future__ import annotations

import math
from collections.abc import Sequence

from markupsafe import Markup, escape

from leanformer.paper.record import Claim, ClaimPart, ClaimStatus
from leanformer.report.figures.style import GREY

MARKS: dict[ClaimStatus, tuple[str, str, str]] = {
    "holds": ("✓", "green", "#3a7d44"),
    "holds under another reading": ("≈", "yellow", "#7a8a2a"),
    "does not hold here": ("✗", "red", "#b3261e"),
    "cannot tell": ("?", "cyan", "#c98a00"),
    "not testable here": ("·", "dim", GREY),
}
"""Sign, colour in a terminal, and colour in drawings and on the page."""
WIDTH, MARGIN = 220, 10
TOP = 12
ROW = 16
"""Height of a number's row, and of the labels below them."""
CHARACTER = 6.2
"""How wide one is in a label, at most."""


def draw(claim: Claim) -> Markup:
    """One row for each number, in the colour of what it alone says; below them the ends of the scale and the limit."""
    rows = [row for row in claim.judged if all(map(math.isfinite, (row.value, *row.ends)))]
    if not rows:
        shade = MARKS[claim.status][2]
        body = f'<circle cx="{WIDTH / 2:g}" cy="{TOP}" r="5" fill="none" stroke="{shade}" stroke-width="2"/>'
        return _svg(body, 2 * TOP, "no number")
    limits = [row.limit.value for row in rows if row.limit]
    ends = [end for row in rows for end in (row.value, *row.ends, *limits)]
    left, reach = min(ends), (max(ends) - min(ends)) or 1.0

    def place(value: float) -> float:
        return MARGIN + (WIDTH - 2 * MARGIN) * (value - left) / reach

    body = ""
    for number, row in enumerate(rows):
        middle, shade = TOP + ROW * number, MARKS[row.status][2]
        low, high = row.ends
        if row.limit:
            x = place(row.limit.value)
            body += (
                f'<line x1="{x:.1f}" x2="{x:.1f}" y1="{middle - ROW / 2:g}" y2="{middle + ROW / 2:g}" stroke="{GREY}"/>'
            )
        body += (
            f'<g><title>{escape(_words(row))}</title><line x1="{place(low):.1f}" x2="{place(high):.1f}" '
            f'y1="{middle:g}" y2="{middle:g}" stroke="{shade}" stroke-width="3"/>'
            f'<circle cx="{place(row.value):.1f}" cy="{middle:g}" r="4" fill="{shade}"/></g>'
        )
    alike = {str(row.limit) for row in rows}
    wanted = [(place(limits[0]), alike.pop())] if limits and len(alike) == 1 else []
    labels = [*wanted, *((place(end), f"{end:.3g}") for end in (min(ends), max(ends)))]
    return _svg(body + _labels(labels, TOP + ROW * len(rows)), TOP + ROW * len(rows) + 6, "; ".join(map(_words, rows)))


def _labels(labels: Sequence[tuple[float, str]], y: float) -> str:
    """Those that have a place; an earlier one takes it from a later one."""
    body = ""
    taken: list[tuple[float, float]] = []
    for x, words in labels:
        width = CHARACTER * len(words)
        start = min(max(x - width / 2, 0), WIDTH - width)
        if all(start > end or start + width < other for other, end in taken):
            taken.append((start - CHARACTER, start + width + CHARACTER))
            body += f'<text x="{start + width / 2:.1f}" y="{y:g}">{escape(words)}</text>'
    return f'<g font-size="10" fill="#566070" text-anchor="middle">{body}</g>'


def _words(part: ClaimPart) -> str:
    low, high = part.ends
    span = f" from {low:.4g} to {high:.4g}" if low < high else ""
    wanted = f"; asked for is {part.limit}" if part.limit else ""
    return f"{f'{part.name}: ' if part.name else ''}{part.value:.4g}{span}{wanted}"


def _svg(body: str, height: float, title: str) -> Markup:
    """A drawing of numbers and colours of ours; the names in it are escaped."""
    size = f'width="{WIDTH}" height="{height:g}" viewBox="0 0 {WIDTH} {height:g}"'
    return Markup(f'<svg {size} role="img"><title>{escape(title)}</title>{body}</svg>')  # noqa: S704
