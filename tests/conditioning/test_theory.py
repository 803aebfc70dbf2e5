"""The theorem against sampling, as a record."""

import math
from pathlib import Path

from leanformer.conditioning.heads import measure_heads
from leanformer.conditioning.theory import Theory, sampled_theory
from leanformer.report.figures import measurement as figures
from leanformer.report.figures import style


def test_the_record_and_its_figure(tmp_path: Path) -> None:
    record = sampled_theory(17, 8, [1, 2, 4], samples=50)
    assert [row.columns for row in record.rows] == [8, 16, 32]
    assert all(row.smallest_sigma > 0 for row in record.rows)
    assert max(record.curve.edge) == math.inf  # at 17 columns, the square
    record.write(tmp_path / "a.json")
    assert Theory.read(tmp_path / "a.json") == record
    drawn = figures.theory_against_simulation(record)
    png, svg = style.save(drawn, tmp_path / "theory")
    assert png.stat().st_size > 10_000
    assert b"</svg>" in svg.read_bytes()
    assert drawn.axes[0].get_yscale() == "log"


def test_a_real_model_beside_it(tmp_path: Path) -> None:
    real = measure_heads("vit_tiny_patch16_224", [2], depth=1, batch=1)
    record = sampled_theory(197, 64, [2], samples=5, real=real)
    record.write(tmp_path / "a.json")
    assert record.to_dict()["real"]["kind"] == "heads"
    assert Theory.read(tmp_path / "a.json").real == real
