"""Random designs of every family: the closed form counts what is built, the model describes what was asked for."""

from __future__ import annotations

import functools
import json
import random
import warnings
from typing import Any

import numpy as np

from fuzz.outcome import SILENT, WORKED, Wrong, one_line
from leanformer.architecture import Architecture
from leanformer.costs.closed_forms import formula
from leanformer.models import families
from leanformer.models.names import architecture_of

COUNT = 10_000
SECONDS = 60
"""The most time for one attempt: some have to fit the closed form of a family first."""

IMAGES = [{"img_size": 32, "num_classes": 10}, {"img_size": 64, "num_classes": 3}]
TEXTS = [{"vocab_size": 101}, {"vocab_size": 50}]
BASES: dict[str, list[dict[str, Any]]] = {
    "vit_tiny_patch16_224": [*IMAGES, {"img_size": 32, "class_token": False, "global_pool": "avg"}],
    "deit_tiny_distilled_patch16_224": IMAGES,
    "xcit_nano_12_p16_224": [{"img_size": 64, "num_classes": 10}, {"img_size": 64, "class_heads": 8}],
    "tnt_s_patch16_224": IMAGES,
    "volo_d1_224": [{"img_size": 64, "num_classes": 10}],
    "davit_tiny": [{"img_size": 64, "num_classes": 10}],
    "swin_tiny_patch4_window7_224": [{"img_size": 64, "num_classes": 10}],
    "crammed-bert": TEXTS,
    "tinystories-gpt2": TEXTS,
    "nystromformer-listops": [{}, {"landmarks": 16}],
    "nystromformer-retrieval": [{"landmarks": 16, "max_position_embeddings": 100, "conv_kernel": 5}],
    "gpt2": [{"vocab_size": 101, "n_positions": 64}],
    "bert-base-uncased": TEXTS,
    "roberta-base": TEXTS,
    "distilbert-base-uncased": TEXTS,
    "ModernBERT-base": TEXTS,
    "vit-base-patch16-224": [{"num_classes": 10}],
    "dinov2-base": [{"num_classes": 10}],
    "llama": TEXTS,
    "qwen3": [{"vocab_size": 101, "kv_groups": 2}, {"vocab_size": 101}],
    "mistral": [{"vocab_size": 101}],
    "gemma": [{"vocab_size": 101}],
    "gemma2": [{"vocab_size": 101}],
    "gemma3_text": [{"vocab_size": 101}],
    "helium": [{"vocab_size": 101}],
    "glm": [{"vocab_size": 101}],
    "arcee": [{"vocab_size": 101}],
    "seed_oss": [{"vocab_size": 101}],
    "farthest-point": [{}],
    "lean_vit_base_patch16_224": [{"num_classes": 10}],
}
"""Names with options; the closed form is fitted once for each, and for the first options at another width too."""
STAGES = {"volo_d1_224": 4, "davit_tiny": 4, "swin_tiny_patch4_window7_224": 4}
WIDTHS = (None, None, None, 48)
BAD_SIZES: list[Any] = [
    0,
    -1,
    1.5,
    float("nan"),
    float("inf"),
    "8",
    "",
    None,
    True,
    [],
    [0],
    [1, 2, 3, 4, 5],
    {},
    2**31,
]
BAD_SIZES += [10**18, 10**30, np.float64(4), b"4", (3,), "[red]", "$x$"]
BAD_OPTIONS: list[tuple[str, Any]] = [("nonsense", 1), ("[red]", 2), ("num_classes", -1), ("vocab_size", 0)]
BAD_OPTIONS += [("vocab_size", 1.5), ("img_size", -3), ("img_size", "x"), ("vocab_size", "many"), ("num_classes", None)]
BAD_OPTIONS += [("patch_size", 0), ("kv_groups", 3), ("kv_groups", 0), ("landmarks", 0), ("class_heads", 7)]


def prepare() -> None:
    """Every family must be attacked, also one that was added since."""
    attacked = {families.find(name).key for name in BASES if not name.startswith("lean_")}
    if missing := set(families.FAMILIES.names()) - attacked:
        raise ValueError(f"no name in BASES is of the family {', '.join(sorted(missing))}: add one")


def trial(draw: random.Random) -> tuple[str, str]:
    name = draw.choice(list(BASES))
    known = draw.choice(BASES[name])
    options = dict(known)
    sizes = _sizes(draw, STAGES.get(name, 1))
    if known is not BASES[name][0]:
        sizes.pop("width", None)
    if draw.random() < 0.15:
        sizes[draw.choice(["depth", "heads", "head_dim", "mlp_dim", "width", "keep"])] = draw.choice(BAD_SIZES)
    if draw.random() < 0.05:
        option, value = draw.choice(BAD_OPTIONS)
        options[option] = value
    what = f"create({name!r}, {', '.join(f'{key}={value!r}' for key, value in {**sizes, **options}.items())})"
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return _built(name, sizes, options, what), what
    except ValueError as error:
        return one_line(error), what
    except Wrong:
        raise
    except Exception as error:
        error.add_note(what)
        raise


def _sizes(draw: random.Random, stages: int) -> dict[str, Any]:
    sizes: dict[str, Any] = {}

    def several(choices: list[int]) -> Any:
        if stages == 1 or draw.random() < 0.5:
            return draw.choice(choices)
        return [draw.choice(choices) for _ in range(stages)]

    if draw.random() < 0.97:
        sizes["depth"] = draw.randint(1, 4) if stages == 1 else [draw.randint(1, 2) for _ in range(stages)]
    if draw.random() < 0.7:
        sizes["heads"] = several([1, 2, 3, 4, 6, 8, 12, 16, 31])
        if stages == 1 and draw.random() < 0.15:  # a schedule
            sizes["heads"] = [draw.choice([2, 4, 8]) for _ in range(draw.randint(2, 4))]
            sizes.pop("depth", None)
    if draw.random() < 0.5:
        sizes["head_dim"] = several([1, 2, 4, 7, 8, 16, 64, 128, 10**5, 10**6])
    if draw.random() < 0.5:
        sizes["mlp_dim"] = several([1, 2, 8, 9, 64, 1000, 10**7])
    if (width := draw.choice(WIDTHS)) is not None:
        sizes["width"] = width
    if draw.random() < 0.3:
        sizes["keep"] = draw.choice(["head_dim", "width", "fixed", "split"])
    if draw.random() < 0.1:
        sizes = {key: np.int64(value) if isinstance(value, int) else value for key, value in sizes.items()}
    return sizes


def _built(name: str, sizes: dict[str, Any], options: dict[str, Any], what: str) -> str:
    asked = families.family((base := _read(name, json.dumps(options))).family).canonical(base.resized(**sizes))
    model = families.build(asked, device="meta")
    found = families.describe(model)
    if found != families.family(asked.family).canonical(asked):
        raise Wrong(SILENT, f"{what} describes itself otherwise: {'; '.join(asked.differences(found))}")
    _check_asked(asked, sizes, what)
    built = sum(parameter.numel() for parameter in model.parameters())
    counted = formula(asked).parameters(asked).total
    if built != counted:
        raise Wrong(SILENT, f"{what} has {built:,} parameters, the closed form gives {counted:,}")
    return WORKED


@functools.cache
def _read(name: str, options: str) -> Architecture:
    """What `create` begins with. Upstream's models are large, so each is read once."""
    return architecture_of(name, **json.loads(options))


def _check_asked(asked: Architecture, sizes: dict[str, Any], what: str) -> None:
    """Each size that was given must be in the description."""
    layers = asked.layers
    for word in ("heads", "head_dim", "mlp_dim", "width"):
        value = sizes.get(word)
        if value is None:
            continue
        got = [getattr(layer, word) for layer in layers]
        if not isinstance(value, (list, tuple)):
            fits = all(number == value for number in got)
        elif len(value) == 1:  # one stage, which a schedule of another size has cut into several
            fits = all(number == value[0] for number in got)
        elif len(value) == len(layers):
            fits = got == list(value)
        else:
            fits = [getattr(stage, word) for stage in asked.stages] == list(value)
        if not fits:
            raise Wrong(SILENT, f"{what} has {word} {got}")
