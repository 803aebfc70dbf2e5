"""Short trainings of the counterpoint's encoder: the constructed start, positions, and the committed studies."""

from pathlib import Path

import pytest
import torch

from leanformer.models import families
from leanformer.paper.trained_points import (
    PerfectStart,
    PositionsStudy,
    construct,
    encoder,
    length_alone,
    perfect,
    positions,
)
from leanformer.tasks.farthest_point import FarthestPoint

RESULTS = Path(__file__).parents[2] / "results" / "paper"


def _error(rank: int, kind: str = "none", sharpness: float = 4096.0, gain: float = 1e4) -> float:
    points, wanted = (torch.from_numpy(array) for array in FarthestPoint(dim=8, points=6).draw(64, 1, 0, 0))
    model = families.build(encoder(8, rank, kind, 6))  # type: ignore[arg-type]
    construct(model, 8, sharpness, gain)
    with torch.no_grad():
        return float((model(points=points).logits - wanted).square().sum(-1).mean())


def test_the_constructed_encoder_finds_the_farthest_point_and_its_halves_do_not() -> None:
    errors = [_error(8, sharpness=sharpness) for sharpness in (1.0, 64.0, 4096.0)]
    assert errors == sorted(errors, reverse=True)
    assert errors[-1] < 0.01
    assert _error(4) > 0.3
    assert _error(8, gain=1.0) > 0.3, "the residual must be outweighed"


def test_appended_positions_leave_the_construction_alone_and_added_ones_do_not() -> None:
    assert _error(8, "append") < 0.01
    torch.manual_seed(0)
    assert _error(8, "add") > 0.1


def test_the_best_length_of_answers_of_length_1() -> None:
    wanted, given = (torch.nn.functional.normalize(torch.randn(9, 5, dtype=torch.float64), dim=1) for _ in range(2))
    error = float((given - wanted).square().sum(1).mean())
    lengths = torch.linspace(-1, 1, 20_001, dtype=torch.float64)[:, None, None]
    best = float((lengths * given - wanted).square().sum(2).mean(1).min())
    assert length_alone(error) == pytest.approx(best, abs=1e-6)


def test_heads_of_a_rank_fill_the_width() -> None:
    shapes = {kind: encoder(8, 4, kind, 6).stages[0] for kind in ("none", "add", "append")}  # type: ignore[arg-type]
    assert {kind: (stage.width, stage.heads) for kind, stage in shapes.items()} == {
        "none": (8, 2),
        "add": (8, 2),
        "append": (16, 4),
    }


def test_a_short_study() -> None:
    record = perfect(dim=4, points=3, steps=2, seeds=1)
    assert [(row.rank, row.start) for row in record.rows] == [
        (4, "drawn"),
        (4, "constructed"),
        (2, "drawn"),
        (2, "constructed"),
    ]
    full = record.row(4, "constructed")
    assert full is not None
    assert full.before[0] < 0.05
    with pytest.raises(ValueError, match="dim must be even and at least 2, got 5"):
        positions(dim=5)
    with pytest.raises(ValueError, match="steps must be at least 1, got 0"):
        perfect(steps=0)


def test_committed_studies_have_every_design_and_start_where_the_code_does() -> None:
    study, places = PerfectStart.read(RESULTS / "perfect.json"), PositionsStudy.read(RESULTS / "positions.json")
    assert len(study.rows) == 4
    assert {(row.positions, row.rank) for row in places.rows} == {
        (kind, rank) for kind in ("none", "add", "append") for rank in (16, 8)
    }
    again = perfect(dim=study.dim, points=study.points, steps=1, seeds=1)
    for row in again.rows:
        old = study.row(row.rank, row.start)
        assert old is not None
        assert row.before[0] == pytest.approx(old.before[0], rel=1e-3)
    first, second = study.row(16), places.row(16)
    assert first is not None
    assert second is not None
    assert first.after == pytest.approx(second.after, rel=1e-3), "the same design and seeds in both records"
