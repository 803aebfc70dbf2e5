"""GLUE's tasks, one recipe for each: fine-tuning after a pre-training by `leanformer compare crammed-bert`."""

from __future__ import annotations

from collections.abc import Callable

from leanformer import tasks
from leanformer.experiments.recipe import Recipe
from leanformer.experiments.recipes import RECIPES
from leanformer.experiments.recipes.bert import crammed_bert
from leanformer.training.settings import Training

TITLES = {
    "mnli": "MNLI, matched; mismatched beside it",
    "sst2": "SST-2",
    "stsb": "STS-B, Pearson correlation",
    "rte": "RTE",
    "qnli": "QNLI",
    "qqp": "QQP, F1",
    "mrpc": "MRPC, F1",
    "cola": "CoLA, Matthews correlation",
}


def fine_tuning(task: str) -> Recipe:
    """5 epochs, batch 16, lr 4e-5, cosine, dropout on: the fine-tuning of the cited cramming repository, GLUE_sane."""
    base = crammed_bert()
    original = base.original.with_options(hidden_dropout=0.1, attention_dropout=0.1)
    return Recipe(
        name=f"glue-{task}",
        task=tasks.SentenceClasses(name=task, two_ends=True),
        original=original,
        lean=original.resized(depth=base.lean.depth, heads=8, keep="width"),
        training=Training(
            steps=1000,
            batch=16,
            lr=4e-5,
            warmup=0.1,
            weight_decay=0.0,
            clip=None,
            betas=(0.9, 0.98),
            eps=1e-6,
            evaluations=1,
            probe=0,
        ),
        margin=1.0,
        budget="epochs=5",
    )


def _recipe(task: str) -> Callable[[], Recipe]:
    def made() -> Recipe:
        return fine_tuning(task)

    made.__qualname__ = made.__name__ = f"glue_{task}"
    made.__doc__ = f"GLUE's {TITLES[task]}. Command: leanformer compare glue-{task} --start PRETRAINED"
    return made


for _task in TITLES:
    RECIPES.register(f"glue-{_task}")(_recipe(_task))
