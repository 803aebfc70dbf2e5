"""A small architecture of every family, in its original form: a forward pass in milliseconds."""

from leanformer.architecture import Architecture
from leanformer.models import families

IMAGE = {"num_classes": 10}


def _small(name: str, options: dict, *, width, depth, heads, head_dim, mlp_dim) -> Architecture:
    sizes = dict(width=width, depth=depth, heads=heads, head_dim=head_dim, mlp_dim=mlp_dim)
    return families.read(name, **options).resized(**sizes)


SMALL: dict[str, Architecture] = {
    "vit": _small(
        "vit_tiny_patch16_224",
        {**IMAGE, "img_size": 32, "patch_size": 8},
        width=48,
        depth=2,
        heads=4,
        head_dim=12,
        mlp_dim=96,
    ),
    "deit": _small(
        "deit_tiny_distilled_patch16_224",
        {**IMAGE, "img_size": 32, "patch_size": 8},
        width=48,
        depth=2,
        heads=4,
        head_dim=12,
        mlp_dim=96,
    ),
    "xcit": _small(
        "xcit_nano_12_p16_224",
        {**IMAGE, "img_size": 64, "class_heads": 4},
        width=32,
        depth=2,
        heads=4,
        head_dim=8,
        mlp_dim=64,
    ),
    "tnt": _small(
        "tnt_s_patch16_224",
        {**IMAGE, "img_size": 32, "inner_dim": 8, "num_heads_inner": 2},
        width=48,
        depth=2,
        heads=4,
        head_dim=12,
        mlp_dim=96,
    ),
    "volo": _small(
        "volo_d1_224",
        {**IMAGE, "img_size": 64, "class_heads": 4},
        width=[16, 32, 32, 32],
        depth=[1, 1, 2, 1],
        heads=[2, 4, 4, 4],
        head_dim=8,
        mlp_dim=[48, 96, 96, 96],
    ),
    "davit": _small(
        "davit_tiny",
        {**IMAGE, "img_size": 64},
        width=[8, 16, 32, 64],
        depth=[1, 1, 2, 1],
        heads=[1, 2, 4, 8],
        head_dim=8,
        mlp_dim=[32, 64, 128, 256],
    ),
    "swin": _small(
        "swin_tiny_patch4_window7_224",
        {**IMAGE, "img_size": 64, "window_size": 4},
        width=[8, 16, 32, 64],
        depth=[2, 1, 2, 1],
        heads=[1, 2, 4, 8],
        head_dim=8,
        mlp_dim=[32, 64, 128, 256],
    ),
    "hf-vit": _small(
        "vit-base-patch16-224",
        {**IMAGE, "img_size": 32, "patch_size": 8},
        width=48,
        depth=2,
        heads=4,
        head_dim=12,
        mlp_dim=96,
    ),
    "dinov2": _small(
        "dinov2-small", {**IMAGE, "img_size": 28, "patch_size": 7}, width=48, depth=2, heads=4, head_dim=12, mlp_dim=96
    ),
    "crammed-bert": _small("crammed-bert", {"vocab_size": 101}, width=32, depth=2, heads=4, head_dim=8, mlp_dim=64),
    "story-gpt": _small("tinystories-gpt2", {"vocab_size": 101}, width=32, depth=2, heads=4, head_dim=8, mlp_dim=64),
    "nystromformer": _small(
        "nystromformer-listops", {"landmarks": 16}, width=32, depth=2, heads=4, head_dim=8, mlp_dim=64
    ),
    "nystromformer-retrieval": _small(
        "nystromformer-retrieval",
        {"landmarks": 16, "max_position_embeddings": 100, "conv_kernel": 5},
        width=32,
        depth=2,
        heads=4,
        head_dim=8,
        mlp_dim=64,
    ),
    "gpt2": _small("gpt2", {"vocab_size": 101, "n_positions": 64}, width=32, depth=2, heads=4, head_dim=8, mlp_dim=64),
    "bert": _small("bert-base-uncased", {"vocab_size": 101}, width=32, depth=2, heads=4, head_dim=8, mlp_dim=64),
    "roberta": _small("roberta-base", {"vocab_size": 101}, width=32, depth=2, heads=4, head_dim=8, mlp_dim=64),
    "distilbert": _small(
        "distilbert-base-uncased", {"vocab_size": 101}, width=32, depth=2, heads=4, head_dim=8, mlp_dim=64
    ),
    "modernbert": _small(
        "ModernBERT-base",
        {"vocab_size": 101, "local_attention": 16},
        width=32,
        depth=2,
        heads=4,
        head_dim=8,
        mlp_dim=64,
    ),
    "llama": _small("llama", {"vocab_size": 101}, width=32, depth=2, heads=4, head_dim=8, mlp_dim=64),
    "qwen3": _small("qwen3", {"vocab_size": 101, "kv_groups": 2}, width=32, depth=2, heads=4, head_dim=8, mlp_dim=64),
    "point-encoder": _small("farthest-point", {}, width=32, depth=2, heads=4, head_dim=8, mlp_dim=64),
}
"""The heads split the width; tests change them from here."""

TIMM = ("vit", "deit", "xcit", "tnt", "volo", "davit", "swin")
SIMILAR = ("swin", "hf-vit", "dinov2", "roberta", "distilbert", "modernbert")
"""Families whose layers are much like another's: the slowest tests take some of them."""
