"""A plain PyTorch loop, compared: does a ViT with half the layers and twice the heads hold on 8 × 8 digits?

Nothing in `fit` knows of leanformer. It gets a fresh model, the seed and a folder, and returns a score.

    python examples/own_loop.py
    python examples/own_loop.py --steps 400 --seeds 5

The page with figures is runs/own-loop/report.html. Stop it with Ctrl-C and run it again: finished runs are kept.
"""

import argparse
from pathlib import Path
from typing import Any

import leanformer as lf
import torch
import torch.nn.functional as F
from sklearn.datasets import load_digits
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

parser = argparse.ArgumentParser(description="Compare two ViTs around a loop of one's own.")
parser.add_argument("--steps", type=int, default=150, help="optimizer steps of a run")
parser.add_argument("--seeds", type=int, default=3, help="runs of each model")
parser.add_argument("--out", default="runs/own-loop", help="folder of the comparison")
options = parser.parse_args()

torch.set_num_threads(1)  # so small a model is fastest on one core
digits = load_digits()
images = torch.tensor(digits.images, dtype=torch.float32)[:, None] / 8 - 1
labels = torch.tensor(digits.target)
held_out_images, held_out_labels = images[1400:], labels[1400:]


def fit(model: nn.Module, seed: int, folder: Path) -> dict[str, Any]:
    """Train the model; the loader shuffles by torch's generator, which is seeded alike for every arm."""
    loader = DataLoader(TensorDataset(images[:1400], labels[:1400]), batch_size=32, shuffle=True, drop_last=True)
    optimizer = torch.optim.AdamW(model.parameters(), lr=5e-3, weight_decay=0.05)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, 5e-3, total_steps=options.steps)
    step, losses, curve = 0, [], []
    while step < options.steps:
        for batch, target in loader:
            loss = F.cross_entropy(model(batch), target)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            schedule.step()
            step += 1
            losses.append((step, loss.item()))
            if step % 50 == 0 or step == options.steps:
                curve.append((step, accuracy(model)))
            if step == options.steps:
                break
    torch.save(model.state_dict(), folder / "weights.pt")  # whatever you want to keep
    return {"accuracy": curve[-1][1], "curve": curve, "losses": losses}


@torch.no_grad()
def accuracy(model: nn.Module) -> float:
    model.eval()
    right = (model(held_out_images).argmax(1) == held_out_labels).float().mean().item()
    model.train()
    return 100 * right


original = lf.architecture_of(
    "vit_tiny_patch16_224",
    img_size=8,
    patch_size=4,
    in_chans=1,
    num_classes=10,
    width=32,
    depth=4,
    heads=2,
    head_dim=16,
    mlp_dim=64,
)
record = lf.compare(
    train=fit,
    original=original,
    lean=dict(depth=2, heads=4, mlp_dim=32),
    metric=lf.Metric("accuracy", "%"),
    margin=2.0,
    seeds=options.seeds,
    example=images[:8],
    out=options.out,
)
print(record.to_frame()[["arm", "params", "score", "kappa"]])
print(record.verdict.words)
