"""A model of one's own: see its attention, measure κ, and compare designs of it.

The model is an ordinary nn.Module that calls `scaled_dot_product_attention`; leanformer knows nothing about it. Its
task: sort eight digits.

    python examples/own_model.py
    python examples/own_model.py --steps 1000 --seeds 5
"""

import argparse
from pathlib import Path

import leanformer as lf
import torch
import torch.nn.functional as F
from torch import Tensor, nn

parser = argparse.ArgumentParser(description="Measure and compare a model of one's own.")
parser.add_argument("--steps", type=int, default=200, help="optimizer steps of a run")
parser.add_argument("--seeds", type=int, default=2, help="runs of each model")
parser.add_argument("--out", default="runs/own-model", help="folder of the comparison")
options = parser.parse_args()
torch.set_num_threads(1)  # so small a model is fastest on one core


class Block(nn.Module):
    def __init__(self, width: int, heads: int, head_dim: int) -> None:
        super().__init__()
        self.heads = heads
        self.norms = nn.ModuleList([nn.LayerNorm(width), nn.LayerNorm(width)])
        self.qkv = nn.Linear(width, 3 * heads * head_dim)
        self.out = nn.Linear(heads * head_dim, width)
        self.mlp = nn.Sequential(nn.Linear(width, 2 * width), nn.GELU(), nn.Linear(2 * width, width))

    def forward(self, x: Tensor) -> Tensor:
        query, key, value = self.qkv(self.norms[0](x)).unflatten(-1, (3, self.heads, -1)).permute(2, 0, 3, 1, 4)
        attended = F.scaled_dot_product_attention(query, key, value)
        x = x + self.out(attended.transpose(1, 2).flatten(2))
        return x + self.mlp(self.norms[1](x))


class Sorter(nn.Module):
    """Digits in, the same digits in order out: (batch, 8) to (batch, 8, 10)."""

    def __init__(self, depth: int, heads: int, head_dim: int = 16, width: int = 32) -> None:
        super().__init__()
        self.digits, self.places = nn.Embedding(10, width), nn.Parameter(torch.randn(8, width) * 0.02)
        self.blocks = nn.ModuleList(Block(width, heads, head_dim) for _ in range(depth))
        self.head = nn.Linear(width, 10)

    def forward(self, digits: Tensor) -> Tensor:
        x = self.digits(digits) + self.places
        for block in self.blocks:
            x = block(x)
        return self.head(x)


def fit(model: nn.Module, seed: int, folder: Path) -> float:
    """Returns the share of digits that are in their right places."""
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3)
    for _ in range(options.steps):
        digits = torch.randint(0, 10, (64, 8))
        loss = F.cross_entropy(model(digits).flatten(0, 1), digits.sort(1).values.flatten())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    held_out = torch.randint(0, 10, (500, 8), generator=torch.Generator().manual_seed(0))
    return 100 * (model(held_out).argmax(-1) == held_out.sort(1).values).float().mean().item()


example = torch.randint(0, 10, (16, 8))

# κ while the model runs, of every attention that it calls
model = Sorter(depth=4, heads=2)
with lf.probe(model) as probe:
    model(example)
for layer in probe.summaries():
    print(f"{layer.name}: {layer.heads} heads of {layer.head_dim}, κ {layer.kappa.median:,.0f}")

# The same in one call, here for another design
print(lf.measure(Sorter(depth=2, heads=4), example))

# Designs of it: `shallow` follows from the sizes of the other two
record = lf.compare(
    train=fit,
    model=Sorter,
    original=dict(depth=4, heads=2),
    lean=dict(depth=2, heads=4),
    metric=lf.Metric("right places", "%"),
    margin=2.0,
    seeds=options.seeds,
    example=example,
    out=options.out,
)
print(record.to_frame()[["arm", "params", "forward_macs", "score", "kappa"]])
print(record.verdict.words)
