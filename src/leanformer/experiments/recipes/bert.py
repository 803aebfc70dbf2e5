"""Crammed BERT: pre-training on a fixed number of tokens, then GLUE. May import recipe, runs, tasks and zoo.

The paper's budget is a day of wall clock, in which a shallower model sees more tokens; here every arm sees the same.
"""

from leanformer.experiments.recipe import Recipe
from leanformer.models import names as zoo
from leanformer.tasks.masked_token import MaskedToken
from leanformer.tasks.sentence_classes import SentenceClasses
from leanformer.training.run import Training


def crammed_bert() -> Recipe:
    """A Crammed BERT of a sixth of the width, pre-trained on TinyStories for a few minutes.

    Command: leanformer compare crammed-bert, then leanformer glue runs/compare-crammed-bert
    Time: about 25 minutes on 2 cores, 4 arms × 3 seeds.
    Score: 4.987 nats for the original, 4.990 for lean, 5.004 for shallow at 600 steps; see
    results/compare-crammed-bert and, for GLUE after it, results/glue.
    """
    original = zoo.architecture_of(
        "crammed-bert", width=128, depth=8, heads=4, head_dim=32, mlp_dim=512, max_position_embeddings=128
    )
    return Recipe(
        name="crammed-bert",
        task=MaskedToken(dataset="tinystories", tokenizer="wordpiece:4096", length=64),
        original=original,
        lean=original.with_depth(5).with_heads(8, keep="width"),
        training=Training(
            steps=500, batch=32, lr=2e-3, schedule="triangle", warmup=0.25, weight_decay=0.01, clip=0.5, evaluations=4
        ),
        margin=0.05,
        others={"fixed": original.with_depth(5).with_heads(8)},
    )


def crammed_bert_paper() -> Recipe:
    """The paper's Table 1: 16 layers of 12 heads against 10 of 24, with the control (10, 12) that it lacks.

    Command: torchrun --nproc-per-node 8 -m leanformer compare crammed-bert-paper, then leanformer glue
    Score: the paper prints a GLUE of 78.6 for both.
    """
    original = zoo.architecture_of("crammed-bert")
    return Recipe(
        name="crammed-bert-paper",
        task=MaskedToken(dataset="pile", tokenizer="wordpiece:32768", length=128, most_tokens=10_000_000_000),
        original=original,
        lean=original.with_depth(10).with_heads(24, keep="width"),
        training=Training(
            steps=10_000,
            batch=8192,
            accumulate=32,
            ramp=0.6,
            lr=1e-3,
            schedule="triangle",
            warmup=0.5,
            betas=(0.9, 0.98),
            eps=1e-12,
            weight_decay=0.01,
            clip=0.5,
            precision="bfloat16",
            evaluations=20,
        ),
        margin=0.02,
    )


def _glue(name: str) -> Recipe:
    """Fine-tuning: 5 epochs, batch 16, lr 4e-5, cosine, dropout on (the paper's settings)."""
    base = crammed_bert()
    original = base.original.with_options(hidden_dropout=0.1)
    return Recipe(
        name=f"glue-{name}",
        task=SentenceClasses(name=name),
        original=original,
        lean=original.with_depth(base.lean.depth).with_heads(8, keep="width"),
        training=Training(
            steps=1000, batch=16, lr=4e-5, warmup=0.06, weight_decay=0.01, clip=0.5, evaluations=1, probe=0
        ),
        margin=1.0,
        budget="epochs=5",
    )


def glue_mnli() -> Recipe:
    """GLUE's MNLI, matched; mismatched beside it. Command: leanformer compare glue-mnli --start PRETRAINED"""
    return _glue("mnli")


def glue_sst2() -> Recipe:
    """GLUE's SST-2. Command: leanformer compare glue-sst2 --start PRETRAINED"""
    return _glue("sst2")


def glue_stsb() -> Recipe:
    """GLUE's STS-B, Pearson. Command: leanformer compare glue-stsb --start PRETRAINED"""
    return _glue("stsb")


def glue_rte() -> Recipe:
    """GLUE's RTE. Command: leanformer compare glue-rte --start PRETRAINED"""
    return _glue("rte")


def glue_qnli() -> Recipe:
    """GLUE's QNLI. Command: leanformer compare glue-qnli --start PRETRAINED"""
    return _glue("qnli")


def glue_qqp() -> Recipe:
    """GLUE's QQP, F1. Command: leanformer compare glue-qqp --start PRETRAINED"""
    return _glue("qqp")


def glue_mrpc() -> Recipe:
    """GLUE's MRPC, F1. Command: leanformer compare glue-mrpc --start PRETRAINED"""
    return _glue("mrpc")


def glue_cola() -> Recipe:
    """GLUE's CoLA, Matthews' correlation. Command: leanformer compare glue-cola --start PRETRAINED"""
    return _glue("cola")
