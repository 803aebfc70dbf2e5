"""A task of one's own: which shapes are in a picture? Any number of labels per sample, on generated pictures.

A data set, a loss and a metric are a task (`lf.task`). A task, two designs and a training are a recipe. As the file has
both at its top level, commands, worker processes and resumed runs find them:

    python examples/own_task.py
    leanformer compare examples/own_task.py:build --seeds 5
    leanformer sweep examples/own_task.py:build --vary heads=1,2,4
    leanformer recipes show examples/own_task.py:build
"""

import argparse
from typing import Any

import leanformer as lf
import torch
from torch import Tensor
from torch.utils.data import Dataset

SHAPES = {
    "cross": [[0, 1, 0], [1, 1, 1], [0, 1, 0]],
    "ring": [[1, 1, 1], [1, 0, 1], [1, 1, 1]],
    "bar": [[0, 0, 0], [1, 1, 1], [0, 0, 0]],
    "diagonal": [[1, 0, 0], [0, 1, 0], [0, 0, 1]],
}


class Pictures(Dataset[tuple[Tensor, Tensor]]):
    """Noisy pictures of 12 × 12 with some of four shapes at random places; the target has a 0 or 1 for every shape."""

    def __init__(self, count: int, seed: int) -> None:
        draw = torch.Generator().manual_seed(seed)
        self.targets = torch.randint(0, 2, (count, len(SHAPES)), generator=draw).float()
        self.pictures = torch.rand(count, 1, 12, 12, generator=draw) * 0.3
        corners = torch.randint(0, 4, (count, len(SHAPES), 2), generator=draw)
        for number, target in enumerate(self.targets):
            for kind, shape in enumerate(SHAPES.values()):
                if target[kind]:  # each shape has a quarter of the picture to itself
                    row, column = (corners[number, kind] + torch.tensor([kind // 2, kind % 2]) * 6).tolist()
                    self.pictures[number, 0, row : row + 3, column : column + 3] += torch.tensor(shape)

    def __len__(self) -> int:
        return len(self.targets)

    def __getitem__(self, number: int) -> tuple[Tensor, Tensor]:
        return self.pictures[number], self.targets[number]


FITTING: dict[str, Any] = {
    "num_classes": len(SHAPES),
    "img_size": 12,
    "in_chans": 1,
}  # options of models that fit the data

shapes = lf.task(
    train=Pictures(2000, seed=0),
    held_out=Pictures(500, seed=1),
    loss="bce",
    metric="f1",
    options=FITTING,
)


def build() -> lf.Recipe:
    """Which shapes are in a picture. Command: leanformer compare examples/own_task.py:build"""
    original = lf.architecture_of(
        "vit_tiny_patch16_224",
        patch_size=6,
        width=32,
        depth=4,
        heads=2,
        head_dim=16,
        mlp_dim=64,
        **FITTING,
    )
    return lf.Recipe(
        name="shapes",
        task=shapes,
        original=original,
        lean=original.resized(depth=2, heads=4, mlp_dim=32),
        training=lf.Training(steps=150, batch=32, lr=4e-3, evaluations=3),
        arms=("original", "lean"),
        margin=2.0,
        seeds=2,
    )


if __name__ == "__main__":  # worker processes import this file too
    parser = argparse.ArgumentParser(description="Compare two ViTs on a task of one's own.")
    parser.add_argument("--steps", type=int, help="optimizer steps of a run")
    parser.add_argument("--seeds", type=int, help="runs of each model")
    parser.add_argument("--jobs", type=int, help="runs at a time")
    parser.add_argument("--out", default="runs/own-task", help="folder of the comparison")
    record = lf.compare(build(), **vars(parser.parse_args()))
    print(record.to_frame()[["arm", "params", "score", "kappa"]])
    print(record.verdict.words)
