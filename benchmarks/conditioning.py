"""Speed of κ against torch.linalg.cond, torch.linalg.svdvals and numpy.linalg.cond, and the cost of tracking."""

from typing import Any

import numpy as np
import torch
from rich.table import Table

import leanformer as lf
from leanformer.conditioning.probing import probe
from leanformer.conditioning.spectra import condition_number
from leanformer.costs.timing import side_by_side

SHAPES = [
    # batch, tokens, columns
    (32 * 12, 197, 768),  # ViT-B: 12 layers, batch 32
    (32 * 4, 197, 1024),
    (256, 65, 192),
    (1024, 17, 64),
    (1024, 16, 64),
    (64, 1024, 64),
    (128, 197, 64),
    (256, 49, 512),
    (64, 128, 128),
    (32, 197, 197),
    (8, 512, 512),
    (256, 32, 32),
    (1024, 8, 8),
    (1, 197, 768),
    (1, 65, 192),
    # mostly calling overhead
    (1, 64, 64),
    (1, 17, 64),
    (512, 1, 64),
    (1024, 2, 2),
]


def speed() -> dict[str, Any]:
    rows = []
    for batch, tokens, columns in SHAPES:
        torch.manual_seed(0)
        # singular values decay as in real attention: κ is a few thousand
        matrices = torch.randn(batch, tokens, columns) * torch.logspace(0, -2, columns)
        arrays = matrices.numpy()
        times = side_by_side(
            {
                "leanformer": lambda m=matrices: condition_number(m),
                "torch.linalg.cond": lambda m=matrices: torch.linalg.cond(m),
                "torch.linalg.svdvals": lambda m=matrices: torch.linalg.svdvals(m),
                "numpy.linalg.cond": lambda a=arrays: np.linalg.cond(a),
            },
            rounds=3 if batch * tokens * columns > 1e7 else 7,
        )
        exact = np.linalg.cond(arrays.astype(np.float64))
        rows.append(
            {
                "batch": batch,
                "tokens": tokens,
                "columns": columns,
                "seconds": times,
                "ratio": {name: time / times["leanformer"] for name, time in times.items()},
                "error": {
                    "leanformer": _error(condition_number(matrices).numpy(), exact),
                    "torch.linalg.cond": _error(torch.linalg.cond(matrices).numpy(), exact),
                },
            }
        )
    return {"threads": torch.get_num_threads(), "rows": rows}


def _error(got: np.ndarray, exact: np.ndarray) -> float:
    return float(np.abs(got / exact - 1).max())


def tracking() -> dict[str, Any]:
    """The time of one tracked measurement of a ViT-S on 8 images, as a share of one training step on 32 images."""
    torch.manual_seed(0)
    model = lf.create("vit_small_patch16_224")
    images, few = torch.randn(32, 3, 224, 224), torch.randn(8, 3, 224, 224)
    optimizer = torch.optim.AdamW(model.parameters())

    def step() -> None:
        optimizer.zero_grad()
        model(images).square().mean().backward()
        optimizer.step()

    @torch.no_grad()
    def forward() -> None:
        model(few)

    @torch.no_grad()
    def probed() -> None:
        with probe(model):
            model(few)

    times = side_by_side({"step": step, "forward": forward, "probed": probed}, rounds=3)
    share = times["probed"] / times["step"]
    return {"seconds": times, "share_of_a_step": share, "share_every_100_steps": share / 100}


def tables(speeds: dict[str, Any], tracked: dict[str, Any]) -> list[Table]:
    table = Table("matrices", "leanformer ms", "torch cond", "torch svdvals", "numpy cond", "error", "torch's error")
    table.title = f"κ of a batch: how many times longer the others take ({speeds['threads']} threads)"
    for row in speeds["rows"]:
        ratio, error = row["ratio"], row["error"]
        table.add_row(
            f"{row['batch']} of {row['tokens']} × {row['columns']}",
            f"{1000 * row['seconds']['leanformer']:.3g}",
            *(f"{ratio[name]:.1f} ×" for name in ("torch.linalg.cond", "torch.linalg.svdvals", "numpy.linalg.cond")),
            f"{error['leanformer']:.0e}",
            f"{error['torch.linalg.cond']:.0e}",
        )
    cost = Table("a measurement on 8 images", "share of a training step on 32", "tracked every 100 steps")
    cost.add_row(
        f"{tracked['seconds']['probed']:.2f} s",
        f"{100 * tracked['share_of_a_step']:.0f} %",
        f"{100 * tracked['share_every_100_steps']:.2f} %",
    )
    cost.title = "What tracking costs: ViT-S, 12 layers"
    return [table, cost]
