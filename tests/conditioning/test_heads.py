"""κ against heads, in both regimes."""

from pathlib import Path

import pytest

from leanformer.conditioning.heads import HeadsMeasurement, measure_heads
from leanformer.report.figures import measurement as figures


@pytest.fixture(scope="module")
def record() -> HeadsMeasurement:
    return measure_heads("vit_tiny_patch16_224", [2, 3, 5, 8], depth=1, batch=1)


def test_heads_in_both_regimes(record: HeadsMeasurement) -> None:
    assert [(row.regime, row.heads, row.head_dim) for row in record.rows] == [
        ("fixed", 2, 64),
        ("fixed", 3, 64),
        ("fixed", 5, 64),
        ("fixed", 8, 64),
        ("split", 2, 96),
        ("split", 3, 64),
        ("split", 8, 24),
    ]
    kappas = {row.heads: row.kappa for row in record.rows if row.regime == "fixed"}
    assert max(kappas, key=kappas.__getitem__) == 3  # the cliff: 192 columns, 197 tokens


def test_the_record_is_read_back_and_drawn(record: HeadsMeasurement, tmp_path: Path) -> None:
    record.write(tmp_path / "a.json")
    assert HeadsMeasurement.read(tmp_path / "a.json") == record
    axes = figures.kappa_by_heads(record).axes[0]
    assert axes.get_yscale() == "log"
    assert "1 layer (initial, seed 0)" in axes.get_title(loc="left")


def test_what_cannot_be_measured() -> None:
    with pytest.raises(ValueError, match="models of one stage; davit_tiny has 4"):
        measure_heads("davit_tiny", [2])
    with pytest.raises(ValueError, match=r"none of \[5, 7\] heads divides the width 192 of vit_tiny_patch16_224"):
        measure_heads("vit_tiny_patch16_224", [5, 7], regimes=["split"])
