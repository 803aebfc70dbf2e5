"""Hugging Face's Trainer, compared: does a leaner GPT-2 hold on Python's own documentation, byte by byte?

`fine_tune` is an ordinary Trainer. `lf.trainer_callback` puts κ into the Trainer's log, beside its losses.

    python examples/hf_trainer.py
    python examples/hf_trainer.py --steps 500 --seeds 5

The page with figures is runs/hf-trainer/report.html.
"""

import argparse
from pathlib import Path
from pydoc_data.topics import topics
from typing import Any

import leanformer as lf
import torch
from torch import Tensor, nn
from transformers import Trainer, TrainingArguments

parser = argparse.ArgumentParser(description="Compare two GPT-2s around the Hugging Face Trainer.")
parser.add_argument("--steps", type=int, default=60, help="optimizer steps of a run")
parser.add_argument("--seeds", type=int, default=2, help="runs of each model")
parser.add_argument("--out", default="runs/hf-trainer", help="folder of the comparison")
options = parser.parse_args()

torch.set_num_threads(1)  # so small a model is fastest on one core
TOKENS = 64
text = torch.tensor(list("\n".join(topics.values()).encode()))
blocks = text[: len(text) // TOKENS * TOKENS].reshape(-1, TOKENS)


def samples(chosen: Tensor) -> list[dict[str, Tensor]]:
    return [{"input_ids": block, "labels": block} for block in chosen]


train_set, held_out = samples(blocks[:-64]), samples(blocks[-64:])


def fine_tune(model: nn.Module, seed: int, folder: Path) -> dict[str, Any]:
    every = max(1, options.steps // 3)
    kappa = lf.trainer_callback({"input_ids": blocks[:8]}, every=every)
    arguments = TrainingArguments(
        str(folder),
        seed=seed,
        max_steps=options.steps,
        per_device_train_batch_size=16,
        learning_rate=3e-3,
        eval_strategy="steps",
        eval_steps=every,
        logging_steps=every,
        save_strategy="no",
        report_to="none",
        disable_tqdm=True,
        use_cpu=True,
    )
    trainer = Trainer(model, arguments, train_dataset=train_set, eval_dataset=held_out, callbacks=[kappa])
    trainer.train()
    print(folder, *(f"step {line['step']}: κ {line['mean_over_layers']:,.0f}" for line in kappa.tracker.records))
    return {**trainer.evaluate(), "curve": trainer.state.log_history}


original = lf.architecture_of(
    "gpt2", vocab_size=256, n_positions=TOKENS, width=64, depth=4, heads=2, head_dim=32, mlp_dim=256
)
record = lf.compare(
    train=fine_tune,
    original=original,
    lean="depth=2,heads=4,mlp_dim=128",
    arms="original,lean",
    metric=lf.Metric("eval_loss", "nats", higher_is_better=False),
    margin=0.05,
    seeds=options.seeds,
    out=options.out,
)
print(record.to_frame()[["arm", "params", "score", "kappa"]])
print(record.verdict.words)
