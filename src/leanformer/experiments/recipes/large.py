"""A language model of more than a billion parameters, divided among many devices."""

from __future__ import annotations

from leanformer import models, tasks
from leanformer.experiments.recipe import Recipe
from leanformer.training.settings import Training


def decoder_1b() -> Recipe:
    """A decoder of 1.1 B parameters, of the sizes of TinyLlama, on 21 B tokens of the Pile or of your own texts.

    Command: torchrun --nproc-per-node 8 -m leanformer compare decoder-1b --data DIR
    On 8 machines, on each of them: torchrun --nnodes 8 --nproc-per-node 8 --rdzv-backend c10d
    --rdzv-endpoint HOST:29500 -m leanformer compare decoder-1b --data DIR --out SHARED_FOLDER
    Cost, by the cost model: 164 H100-hours for a run of the original at 35 % of peak (20.5 h on 8, 2.6 h on 64), 130
    for lean and 129 for shallow; 1,269 for all 9 runs. One device holds 22.4 GB on 8 and 4.2 GB on 64; of lean 20.5
    and 3.9 GB.
    Your own texts have a held-out part of 0.1 by default, which is far too much here: give --held-out 0.001.
    Lean is what `leanformer design` recommends for 70 % of the parameters. docs/how_to/large_models.md says more.
    """
    original = models.architecture_of(
        "llama", width=2048, depth=22, heads=32, head_dim=64, mlp_dim=5632, kv_groups=8, vocab_size=32_000
    )
    return Recipe(
        name="decoder-1b",
        task=tasks.NextToken(dataset="pile", tokenizer="bpe:32000", length=2048, most_tokens=22_000_000_000),
        original=original,
        lean=original.resized(depth=17, heads=64, mlp_dim=2816),
        training=Training(
            steps=20_000,
            batch=512,
            accumulate=4,
            lr=4e-4,
            min_lr=4e-5,
            warmup=1000,
            betas=(0.9, 0.95),
            weight_decay=0.1,
            precision="bfloat16",
            shard="full",
            checkpointing=True,
            evaluations=10,
            save_every=500,
        ),
        margin=0.02,
    )
