"""The remark of Section 3.2: is attention faster with more heads than with larger heads, at equal columns?

One attention layer of ViT-B's width and number of tokens. Its columns grow from 4 × 64 either by heads at head_dim 64,
or by head_dim at 4 heads. Forward alone and forward with backward, with the fused kernel and with explicit attention.
"""

from functools import partial
from typing import Any

import torch
from rich.table import Table
from torch import Tensor, nn

from leanformer.costs.speed import waiting
from leanformer.costs.timing import paired_ratio

WIDTH, TOKENS, BATCH = 768, 197, 2
HEADS, HEAD_DIM = 4, 64
FACTORS = (2, 4, 8)
KERNELS = ("fused", "explicit")


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


def _step(layer: nn.Module, x: Tensor) -> None:
    layer(x).sum().backward()


def speed() -> dict[str, Any]:
    torch.manual_seed(0)
    device = torch.accelerator.current_accelerator(check_available=True) or torch.device("cpu")
    x, wait = torch.randn(BATCH, TOKENS, WIDTH, device=device), waiting(device)
    rows = []
    for kernel in KERNELS:
        for factor in FACTORS:
            sizes = ((factor * HEADS, HEAD_DIM), (HEADS, factor * HEAD_DIM))
            layers = [Attention(*size, kernel).to(device) for size in sizes]
            step = paired_ratio(*(partial(_step, layer, x) for layer in layers), wait=wait)
            with torch.no_grad():
                forward = paired_ratio(*(partial(layer, x) for layer in layers), wait=wait)
            found = {**step, **{f"forward_{name}": value for name, value in forward.items()}}
            rows.append({"kernel": kernel, "columns": factor * HEADS * HEAD_DIM, **found})
    return {"device": device.type, "threads": torch.get_num_threads(), "rows": rows}


def table(found: dict[str, Any]) -> Table:
    sizes = f"{TOKENS} tokens, width {WIDTH}: heads of {HEAD_DIM}, or {HEADS} heads"
    title = f"Attention of {sizes}; {found['device']}, {found['threads']} threads"
    head = ("kernel", "columns", "more heads, ms", "larger heads, ms", "ratio of steps", "ratio of forwards")
    shown = Table(*head, title=title)
    for row in found["rows"]:
        parts = [[row[f"{part}{name}"] for name in ("ratio", "low", "high")] for part in ("", "forward_")]
        ratios = [f"{ratio:.2f} [{low:.2f}, {high:.2f}]" for ratio, low, high in parts]
        times = (f"{1000 * row[name]:.1f}" for name in ("ours_s", "theirs_s"))
        shown.add_row(row["kernel"], f"{row['columns']:,}", *times, *ratios)
    return shown
