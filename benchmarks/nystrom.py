"""Nyström attention against transformers': time of one step of an attention block, and memory kept for backward."""

from typing import Any

import torch
from rich.table import Table
from torch import nn
from transformers.models.nystromformer.modeling_nystromformer import NystromformerConfig, NystromformerSelfAttention

from leanformer.architecture import Stage
from leanformer.costs.timing import side_by_side
from leanformer.models.own import nystromformer

TOKENS = (1024, 4096, 8192)
BATCH, HEADS, HEAD_DIM = 2, 2, 32


class Upstream(nn.Module):
    """transformers' attention, followed by an output projection as in ours."""

    def __init__(self, tokens: int) -> None:
        super().__init__()
        config = NystromformerConfig(
            hidden_size=HEADS * HEAD_DIM,
            num_attention_heads=HEADS,
            num_landmarks=64,
            segment_means_seq_len=tokens,
            attention_probs_dropout_prob=0.0,
        )
        config.__dict__["conv_kernel_size"] = None  # the config refuses None, the attention accepts it
        self.attention, self.proj = NystromformerSelfAttention(config), nn.Linear(HEADS * HEAD_DIM, HEADS * HEAD_DIM)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.proj(self.attention(x)[0])


def ours() -> nn.Module:
    stage = Stage(width=HEADS * HEAD_DIM, depth=1, heads=HEADS, head_dim=HEAD_DIM, mlp_dim=128)
    return nystromformer.NystromAttention(nystromformer.NystromformerConfig(), stage)


def kept_bytes(model: nn.Module, x: torch.Tensor) -> int:
    """Bytes that the forward pass keeps for the backward pass; each storage counts once, parameters do not count."""
    own = {parameter.untyped_storage().data_ptr() for parameter in model.parameters()}
    seen: dict[int, int] = {}

    def pack(tensor: torch.Tensor) -> torch.Tensor:
        storage = tensor.untyped_storage()
        if storage.data_ptr() not in own:
            seen[storage.data_ptr()] = storage.nbytes()
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(pack, lambda tensor: tensor):
        output = model(x)
    found = sum(seen.values())
    output.sum().backward()
    return found


def speed() -> list[dict[str, Any]]:
    torch.manual_seed(0)
    rows = []
    for tokens in TOKENS:
        x = torch.randn(BATCH, tokens, HEADS * HEAD_DIM)
        models = {"leanformer": ours(), "transformers": Upstream(tokens)}

        def step(model: nn.Module, x: torch.Tensor = x) -> None:
            model(x).sum().backward()

        seconds = side_by_side({name: (lambda model=model: step(model)) for name, model in models.items()})
        kept = {name: kept_bytes(model, x) for name, model in models.items()}
        rows.append({"tokens": tokens, "seconds": seconds, "kept_bytes": kept})
    return rows


def table(rows: list[dict[str, Any]]) -> Table:
    shown = Table(
        "tokens",
        "ours, ms",
        "transformers, ms",
        "ratio",
        "ours keeps, MB",
        "transformers, MB",
        title="One step of Nyström attention",
    )
    for row in rows:
        mine, theirs = (1000 * row["seconds"][name] for name in ("leanformer", "transformers"))
        kept = [f"{row['kept_bytes'][name] / 1e6:.1f}" for name in ("leanformer", "transformers")]
        shown.add_row(f"{row['tokens']:,}", f"{mine:.1f}", f"{theirs:.1f}", f"{theirs / mine:.2f}", *kept)
    return shown
