"""The remark of Section 3.2: is attention faster with more heads than with larger heads, at equal columns?

One attention layer of ViT-B's width and number of tokens. Its columns grow from 4 × 64 either by heads at head_dim 64,
or by head_dim at 4 heads. Forward alone and forward with backward, with the fused kernel and with explicit attention.
"""

from typing import Any

import torch
from rich.table import Table
from torch import Tensor, nn

from benchmarks.timing import side_by_side

WIDTH, TOKENS, BATCH = 768, 197, 2
HEADS, HEAD_DIM = 4, 64
FACTORS = (2, 4, 8)
KERNELS = ("fused", "explicit")
WAYS = ("more_heads", "larger_heads")


class Attention(nn.Module):
    def __init__(self, heads: int, head_dim: int, kernel: str) -> None:
        super().__init__()
        self.heads, self.head_dim, self.kernel = heads, head_dim, kernel
        self.qkv, self.proj = nn.Linear(WIDTH, 3 * heads * head_dim), nn.Linear(heads * head_dim, WIDTH)

    def forward(self, x: Tensor) -> Tensor:
        shape = (*x.shape[:2], 3, self.heads, self.head_dim)
        query, key, value = self.qkv(x).view(shape).permute(2, 0, 3, 1, 4).unbind(0)
        if self.kernel == "fused":
            found = nn.functional.scaled_dot_product_attention(query, key, value)
        else:
            found = (query @ key.transpose(-2, -1) * self.head_dim**-0.5).softmax(dim=-1) @ value
        return self.proj(found.transpose(1, 2).flatten(2))


def speed() -> list[dict[str, Any]]:
    torch.manual_seed(0)
    x = torch.randn(BATCH, TOKENS, WIDTH)
    rows = []
    for kernel in KERNELS:
        for factor in FACTORS:
            layers = {
                "more_heads": Attention(factor * HEADS, HEAD_DIM, kernel),
                "larger_heads": Attention(HEADS, factor * HEAD_DIM, kernel),
            }
            steps = side_by_side(
                {way: (lambda layer=layer: layer(x).sum().backward()) for way, layer in layers.items()}
            )
            with torch.no_grad():
                forwards = side_by_side({way: (lambda layer=layer: layer(x)) for way, layer in layers.items()})
            row: dict[str, Any] = {"kernel": kernel, "columns": factor * HEADS * HEAD_DIM}
            row |= {f"{way}_s": steps[way] for way in WAYS} | {f"{way}_forward_s": forwards[way] for way in WAYS}
            rows.append(row)
    return rows


def table(rows: list[dict[str, Any]]) -> Table:
    title = f"Attention of {TOKENS} tokens, width {WIDTH}: heads of {HEAD_DIM}, or {HEADS} heads"
    shown = Table("kernel", "columns", "more heads, ms", "larger heads, ms", "ratio", "ratio, forward", title=title)
    for row in rows:
        mine, theirs = 1000 * row["more_heads_s"], 1000 * row["larger_heads_s"]
        forward = row["more_heads_forward_s"] / row["larger_heads_forward_s"]
        cells = (f"{mine:.1f}", f"{theirs:.1f}", f"{mine / theirs:.2f}", f"{forward:.2f}")
        shown.add_row(row["kernel"], f"{row['columns']:,}", *cells)
    return shown
