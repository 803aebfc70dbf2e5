"""Which designs the paper's figures show: at laptop scale, and in the paper."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from leanformer.experiments import recipes
from leanformer.models.published import FIGURE_3, LONG_RANGE_ARENA, VISION, Row

Axes = Mapping[str, tuple[Any, ...]]
SIZES = ("heads", "depth", "mlp_dim")
"""Axes of a recipe's grid, whose designs its figures share."""


@dataclass(frozen=True, kw_only=True)
class Study:
    """A figure that shows trained models: what is varied here, and what the paper varied."""

    title: str
    recipe: str
    axes: Axes
    """The first is drawn along the x axis; each value of the second has a panel, each of the third a line."""
    original: Mapping[str, Any]
    """The cell that is the original model."""
    paper_recipe: str
    paper_axes: Axes
    device: str
    data: str
    printed: tuple[str, ...]

    @property
    def grid(self) -> Axes:
        """What is trained: a value for every size, the original's where the figure does not vary it."""
        own = sizes_of(self.recipe)
        return {name: self.axes.get(name, (own[name],)) for name in SIZES}

    def on(self, recipe: str) -> Study:
        """The same figure of another recipe: its sizes are to its original as here."""
        here, there = sizes_of(self.recipe), sizes_of(recipe)

        def scaled(name: str, value: int) -> int:
            return max(1, round(value * there[name] / here[name]))

        return replace(
            self,
            recipe=recipe,
            axes={
                name: tuple(dict.fromkeys(scaled(name, value) for value in values))
                for name, values in self.axes.items()
            },
            original={name: there[name] for name in self.original},
        )


def sizes_of(recipe: str) -> dict[str, int]:
    """The sizes of a recipe's original."""
    original = recipes.recipe(recipe).original
    if len(original.stages) > 1:
        raise ValueError(f"figures take recipes whose model has one stage; {recipe} has {len(original.stages)}")
    return {name: getattr(original.stages[0], name) for name in SIZES}


def _arena(task: str) -> tuple[str, ...]:
    rows = [row for row in LONG_RANGE_ARENA if row.model == f"Nyströmformer, {task}" and row.results]
    return tuple(f"({row.depth}, {row.heads}) {row.results['accuracy']} %" for row in rows)


VIT_B: Row = VISION[0]
PRINTED_VIT = (
    f"original ({VIT_B.depth}, {VIT_B.heads}) {VIT_B.results['top1']} % with {VIT_B.params}",
    *(f"8 layers, {row.heads} heads {row.params}" for row in FIGURE_3),
)
IMAGENET: dict[str, Any] = dict(paper_recipe="imagenet-vit-base", device="a100", data="ImageNet-1k")
ARENA: dict[str, Any] = dict(
    axes={"heads": (2, 4, 6, 8), "depth": (2, 1)}, original={"heads": 2, "depth": 2}, device="a6000"
)
STUDIES: dict[int, Study] = {
    2: Study(
        title="κ of the attention against heads, through training",
        recipe="fashion-mnist",
        axes={"heads": (1, 2, 4, 8, 12)},
        original={"heads": 4},
        paper_axes={"heads": tuple(range(2, 20, 2))},
        printed=("κ decreases markedly as heads increase; values are drawn, not printed",),
        **IMAGENET,
    ),
    3: Study(
        title="accuracy against heads, at the original's depth and at fewer layers",
        recipe="fashion-mnist",
        axes={"heads": (1, 2, 4, 6, 8), "depth": (8, 5)},
        original={"heads": 4, "depth": 8},
        paper_axes={"heads": tuple(range(2, 20, 2)), "depth": (12, 8)},
        printed=PRINTED_VIT,
        **IMAGENET,
    ),
    4: Study(
        title="accuracy against the MLP's width, at the original's depth and at fewer layers",
        recipe="fashion-mnist",
        axes={"mlp_dim": (64, 128, 256, 384, 512), "depth": (8, 5)},
        original={"mlp_dim": 256, "depth": 8},
        paper_axes={"mlp_dim": tuple(768 * ratio for ratio in (1, 2, 4, 6, 8)), "depth": (12, 8)},
        printed=PRINTED_VIT[:1],
        **IMAGENET,
    ),
    5: Study(
        title="accuracy of further depths, heads and MLPs",
        recipe="fashion-mnist",
        axes={"heads": (4, 6, 8), "depth": (8, 5, 4), "mlp_dim": (256, 512)},
        original={"heads": 4, "depth": 8, "mlp_dim": 256},
        paper_axes={"heads": (12, 14, 16, 18), "depth": (8, 7, 6), "mlp_dim": (1536, 3072)},
        printed=PRINTED_VIT[:1],
        **IMAGENET,
    ),
    8: Study(
        title="accuracy on ListOps against heads, at two layers and one",
        recipe="listops-short",
        paper_recipe="listops-paper",
        paper_axes={"heads": (2, 4, 6, 8), "depth": (2, 1)},
        data="ListOps, drawn here",
        printed=_arena("ListOps"),
        **ARENA,
    ),
    9: Study(
        title="accuracy on IMDb's bytes against heads, at two layers and one",
        recipe="text-short",
        paper_recipe="text-paper",
        paper_axes={"heads": (2, 4, 6, 8), "depth": (2, 1)},
        data="IMDb",
        printed=_arena("text"),
        **ARENA,
    ),
}
