"""Causal language models: Python's documentation and TinyStories, on a laptop and as the paper trains them.

Lean models keep head_dim; the arm `split` has the same heads split the width, so that both regimes are in the picture.

"""

from __future__ import annotations

from leanformer import models, tasks
from leanformer.architecture import Architecture
from leanformer.experiments.grid import Grid
from leanformer.experiments.recipe import Recipe
from leanformer.training.settings import Training


def small() -> Architecture:
    """The GPT-2 of the paper, at a quarter of its width and half its depth."""
    return models.architecture_of(
        "tinystories-gpt2",
        width=128,
        depth=6,
        heads=4,
        head_dim=32,
        mlp_dim=512,
        max_position_embeddings=64,
        dropout=0.1,
    )


def pydoc() -> Recipe:
    """The documentation that Python brings, 79 topics in 1,024 byte pairs: nothing to download.

    Command: leanformer compare pydoc
    Time: about 5 minutes on 2 cores, 4 arms × 3 seeds.
    """
    original = small()
    return Recipe(
        name="pydoc",
        task=tasks.NextToken(dataset="pydoc", tokenizer="bpe:1024", length=64),
        original=original,
        lean=original.resized(depth=3, heads=8, mlp_dim=256),
        training=Training(steps=400, batch=16, lr=2e-3, weight_decay=0.1, evaluations=4),
        margin=0.03,
        others={"split": original.resized(depth=3, heads=8, keep="width", mlp_dim=256)},
    )


def pycode() -> Recipe:
    """The source of Python's own standard library in 2,048 byte pairs, split by file: nothing to download.

    Command: leanformer compare pycode
    Time: about 20 minutes on 2 cores, 5 arms × 3 seeds of 1,000 steps.
    Score: 3.926 nats for the original, 3.870 for lean, 3.832 for shallow; see results/compare-pycode.
    """
    original = small()
    return Recipe(
        name="pycode",
        task=tasks.NextToken(dataset="pycode", tokenizer="bpe:2048", length=64),
        original=original,
        lean=original.resized(depth=2, heads=8),
        training=Training(steps=1000, batch=16, lr=2e-3, weight_decay=0.1, evaluations=4),
        margin=0.03,
        arms=("original", "lean", "shallow", "wide"),
        others={"split": original.resized(depth=2, heads=8, keep="width")},
    )


def tinystories() -> Recipe:
    """TinyStories in 2,048 byte pairs, the paper's design at a quarter of its width.

    Command: leanformer compare tinystories; leanformer sweep tinystories for heads at equal parameters
    Time: about 20 minutes on 2 cores, 5 arms × 3 seeds of 1,000 steps.
    Score: 3.290 nats for the original, 3.227 for lean, 3.222 for shallow; see results/compare-tinystories.
    """
    original = small()
    return Recipe(
        name="tinystories",
        task=tasks.NextToken(dataset="tinystories", tokenizer="bpe:2048", length=64),
        original=original,
        lean=original.resized(depth=2, heads=8),
        training=Training(steps=1000, batch=16, lr=2e-3, weight_decay=0.1, evaluations=4),
        margin=0.03,
        arms=("original", "lean", "shallow", "wide"),
        others={"split": original.resized(depth=2, heads=8, keep="width")},
        grid=Grid(
            axes={"heads": (1, 2, 4, 8, 16, 32), "regime": ("fixed", "split"), "depth": (2,)},
            equal_params=True,
        ),
    )


def tinystories_paper() -> Recipe:
    """The paper's Table 2: GPT-2 of 89 M parameters on TinyStories, with the control (4, 12) that it lacks.

    Command: leanformer compare tinystories-paper --data DIR
    Time: minutes a run on a GPU; hours on 2 cores.
    Score: the paper prints a validation loss of 2.47 for the original and 2.41 for the lean model.
    Settings: those of the cited Tiny-Stories-GPT script: the first 12,000 stories joined by newlines, the last tenth
    of their tokens held out, random windows of 64 tokens, AdamW as PyTorch has it, with its weight decay on every
    parameter.
    What differs, and why: the score is the loss over all held-out tokens, where the script averages random batches.
    """
    original = models.architecture_of("tinystories-gpt2")
    return Recipe(
        name="tinystories-paper",
        task=tasks.NextToken(dataset="tinystories", tokenizer="gpt2", length=64, stream=12_000, windows="random"),
        original=original,
        lean=original.resized(depth=4, heads=16, keep="width"),
        training=Training(
            steps=2000,
            batch=128,
            lr=3e-4,
            schedule="constant",
            warmup=0,
            weight_decay=0.01,
            decay="all",
            clip=None,
            evaluations=10,
        ),
        margin=0.03,
        others={"fixed": original.resized(depth=4, heads=16)},
    )
