"""A plain training loop for the tracking tests, also as one process of two."""

import json
import os
from pathlib import Path

import torch
from torch import nn

import leanformer as lf
from leanformer.models import families
from support.architectures import SMALL


def train(key: str, steps: int = 6, tracked: bool = False, wrap=lambda model: model, autocast=False, **options):
    """A few steps with dropout on, so that a disturbed random state would show."""
    torch.manual_seed(0)
    architecture = SMALL[key]
    model = families.build(architecture).train()
    for module in model.modules():
        if isinstance(module, nn.Dropout):
            module.p = 0.2
    batches = [families.example_inputs(architecture, batch=4) for _ in range(steps)]
    running = wrap(model)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)

    def loop() -> None:
        for inputs in batches:
            optimizer.zero_grad()
            with torch.autocast("cpu", dtype=torch.bfloat16, enabled=autocast):
                out = running(**inputs)
                out = getattr(out, "logits", out)
                loss = (out[0] if isinstance(out, tuple) else out).float().square().mean()
            loss.backward()
            optimizer.step()

    if not tracked:
        loop()
        return model, None
    with lf.track(running, every=2, **options) as tracker:
        loop()
    return model, tracker


def train_distributed(rank: int, port: int, folder: str) -> None:
    os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT=str(port))
    torch.distributed.init_process_group("gloo", rank=rank, world_size=2)
    torch.set_num_threads(1)
    model, tracker = train("vit", tracked=True, wrap=nn.parallel.DistributedDataParallel)
    (Path(folder) / f"{rank}.json").write_text(json.dumps([len(tracker.records), model.head.bias.sum().item()]))
    torch.distributed.destroy_process_group()
