"""Small files in the form of GLUE, and a corpus to pre-train on."""

from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from leanformer.data.glue import GLUE_TASKS


def write_glue(root: Path, name: str, rows: int = 40, splits: tuple[str, ...] = ("train", "validation")) -> None:
    known, draw = GLUE_TASKS[name], np.random.default_rng(1)
    for split in splits:
        columns = {
            column: [f"ban {column} {' dor' * int(draw.integers(1, 9))}" for _ in range(rows)]
            for column in known.columns
        }
        labels = draw.random(rows) * 5 if known.classes == 1 else draw.integers(0, known.classes, rows)
        folder = root / "glue" / name
        folder.mkdir(parents=True, exist_ok=True)
        pq.write_table(pa.table({**columns, "label": labels}), folder / f"{split}-0.parquet")


def write_corpus(file: Path) -> Path:
    """300 texts of 30 made-up words."""
    draw = np.random.default_rng(0)
    words = [f"{a}{b}" for a in "bcdfghklm" for b in ("an", "or", "el", "um", "ip")]
    file.write_text("\n\n".join(" ".join(draw.choice(words, 30)) for _ in range(300)))
    return file
