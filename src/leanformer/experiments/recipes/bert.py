"""Crammed BERT: pre-training on a fixed number of tokens, then GLUE.

The paper's budget is a day of wall clock, in which a shallower model sees more tokens; here every arm sees the same.
"""

from __future__ import annotations

from leanformer import models, tasks
from leanformer.experiments.recipe import Recipe
from leanformer.training.settings import Training


def crammed_bert() -> Recipe:
    """A Crammed BERT of a sixth of the width, pre-trained on TinyStories for a few minutes.

    Command: leanformer compare crammed-bert, then leanformer glue runs/compare-crammed-bert
    Time: about 25 minutes on 2 cores, 4 arms × 3 seeds.
    Score: 4.987 nats for the original, 4.990 for lean, 5.004 for shallow at 600 steps; see
    results/compare-crammed-bert and, for GLUE after it, results/glue.
    """
    original = models.architecture_of(
        "crammed-bert", width=128, depth=8, heads=4, head_dim=32, mlp_dim=512, max_position_embeddings=128
    )
    return Recipe(
        name="crammed-bert",
        task=tasks.MaskedToken(dataset="tinystories", tokenizer="wordpiece:4096", length=64),
        original=original,
        lean=original.resized(depth=5, heads=8, keep="width"),
        training=Training(
            steps=500, batch=32, lr=2e-3, schedule="triangle", warmup=0.25, weight_decay=0.01, clip=0.5, evaluations=4
        ),
        margin=0.05,
        others={"fixed": original.resized(depth=5, heads=8)},
    )


def crammed_bert_paper() -> Recipe:
    """The paper's Table 1: 16 layers of 12 heads against 10 of 24, with the control (10, 12) that it lacks.

    Command: torchrun --nproc-per-node 8 -m leanformer compare crammed-bert-paper, then leanformer glue
    Score: the paper prints a GLUE of 78.6 for both.
    Settings: those of the cited cramming repository, whose schedule budget-triangle2 starts at a quarter of lr, peaks
    at 75 % of the budget and falls to 0, and whose batch grows from 128 to 8,192 over 60 % of it.
    What differs, and why: the budget is samples (25 M windows, 3.2 billion tokens) and not a day of wall clock, in
    which a shallower model would see more text. The published code multiplies by the ramp's share where it means to
    divide, so that its batch ends at 60 % of 8,192; here it reaches 8,192. bfloat16 in place of float16 with a scaler.
    """
    original = models.architecture_of("crammed-bert")
    return Recipe(
        name="crammed-bert-paper",
        task=tasks.MaskedToken(dataset="pile", tokenizer="wordpiece:32768", length=128, most_tokens=10_000_000_000),
        original=original,
        lean=original.resized(depth=10, heads=24, keep="width"),
        training=Training(
            steps=10_000,
            batch=8192,
            accumulate=64,
            ramp=0.6,
            lr=1e-3,
            schedule="triangle",
            schedule_over="samples",
            warmup=0.75,
            warmup_lr=2.5e-4,
            betas=(0.9, 0.98),
            eps=1e-12,
            weight_decay=0.01,
            clip=0.5,
            precision="bfloat16",
            evaluations=20,
        ),
        margin=0.02,
    )
