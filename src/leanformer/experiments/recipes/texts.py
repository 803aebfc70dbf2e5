"""Your own texts: language models, causal and masked, and classifiers, small enough for a laptop."""

from __future__ import annotations

from dataclasses import replace

from leanformer import tasks
from leanformer.architecture import Architecture
from leanformer.experiments.recipe import Recipe
from leanformer.experiments.recipes import bert, language
from leanformer.training.settings import Training

LENGTH = 128
"""Tokens that a model sees at once."""


def texts() -> Recipe:
    """Your own texts, next token by next token: a .txt, .jsonl, .csv, .tsv or .parquet file, or a folder of them.

    Command: leanformer compare texts --data FILE, with --text-column NAME for tables
    With --model (gpt2, llama, …), the lean design is what `leanformer design` recommends, or what --lean says; without,
    a GPT of 6 layers is compared with one of 3. Each part, for training and held out, needs 129 tokens.
    """
    original = language.small().with_options(max_position_embeddings=LENGTH)
    return Recipe(
        name="texts",
        task=tasks.NextToken(dataset="", tokenizer="bpe", length=LENGTH),
        original=original,
        lean=original.resized(depth=3, heads=8, mlp_dim=256),
        training=Training(steps=600, batch=16, lr=2e-3, weight_decay=0.1, evaluations=4),
        margin=0.03,
    )


def texts_masked() -> Recipe:
    """Your own texts with a quarter of the tokens hidden, for encoders; files as for `texts`.

    Command: leanformer compare texts-masked --data FILE, with --text-column NAME for tables
    With --model (crammed-bert, bert-base-uncased, …), the lean design is what `leanformer design` recommends, or what
    --lean says; without, a Crammed BERT of 8 layers is compared with one of 5.
    """
    base = bert.crammed_bert()
    return replace(
        base,
        name="texts-masked",
        task=tasks.MaskedToken(dataset="", tokenizer="wordpiece", length=64),
        others={},
    )


def classify() -> Recipe:
    """Your own texts with labels, in words or numbers: a .csv, .tsv, .jsonl or .parquet file, or DIR/CLASS/*.txt.

    Command: leanformer compare classify --data FILE, with --text-column NAME and --label-column NAME
    With --model (bert-base-uncased, crammed-bert, nystromformer-text, gpt2, …), the lean design is what `leanformer
    design` recommends, or what --lean says; without, a Crammed BERT of 8 layers is compared with one of 5. All models
    are trained from scratch, or from a comparison of `texts-masked` with --start.
    """
    base = bert.crammed_bert()

    def classifier(design: Architecture) -> Architecture:
        return design.with_options(hidden_dropout=0.1)

    return Recipe(
        name="classify",
        task=tasks.TextClasses(length=LENGTH),
        original=classifier(base.original),
        lean=classifier(base.lean),
        training=Training(steps=1000, batch=32, lr=5e-4, warmup=0.06, weight_decay=0.01, clip=0.5, evaluations=4),
        margin=1.0,
    )
