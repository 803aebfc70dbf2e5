"""Speed of the closed forms against building each design with timm on the meta device and counting its parameters."""

import random
from typing import Any

import timm
import torch
from rich.table import Table

import leanformer as lf
from leanformer.architecture import Architecture
from leanformer.costs.closed_forms import Setting, formula
from leanformer.costs.timing import side_by_side


def designs(count: int) -> list[Architecture]:
    """Designs of ViT-B that timm's own constructor can build, so that both ways count the same models."""
    base, generator = lf.architecture_of("vit_base_patch16_224"), random.Random(0)
    return [
        base.resized(
            depth=generator.randint(1, 12),
            heads=generator.choice([1, 2, 3, 4, 6, 8, 12, 16, 24]),
            mlp_dim=768 * generator.randint(1, 4),
            keep="width",
        )
        for _ in range(count)
    ]


def build_and_count(design: Architecture) -> int:
    stage = design.stages[0]
    with torch.device("meta"):
        model = timm.create_model(
            design.name, depth=stage.depth, num_heads=stage.heads, mlp_ratio=stage.mlp_dim / stage.width
        )
    return sum(parameter.numel() for parameter in model.parameters())


def speed() -> dict[str, Any]:
    few, setting = designs(5), Setting()
    closed = formula(few[0], setting)
    assert [closed.parameters(design).total for design in few] == [build_and_count(design) for design in few]
    times = side_by_side(
        {
            "parameters": lambda: [closed.parameters(design) for design in few],
            "all costs": lambda: [closed.cost(design, setting) for design in few],
            "build on meta and count": lambda: [build_and_count(design) for design in few],
        }
    )
    each = {name: seconds / len(few) for name, seconds in times.items()}
    return {
        "seconds": each,
        "designs_per_second": {name: 1 / seconds for name, seconds in each.items()},
        "ratio": each["build on meta and count"] / each["parameters"],
    }


def table(record: dict[str, Any]) -> Table:
    shown = Table("way", "designs per second", title=f"Counting ViT-B designs: {record['ratio']:,.0f} times as fast")
    for name, rate in record["designs_per_second"].items():
        shown.add_row(name, f"{rate:,.0f}")
    return shown
