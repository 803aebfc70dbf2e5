"""What to say of a model name that no family knows: that a library knows it, what it may have meant, or what to do."""

from __future__ import annotations

import difflib
from collections.abc import Collection, Iterable

from torch import nn

ORGANISATIONS = ("openai-community", "google-bert", "google", "FacebookAI", "facebook", "distilbert", "answerdotai")
"""Who published the models that are known by name, on the Hugging Face hub."""
HEADS = ("num_attention_heads", "num_heads", "n_head", "n_heads", "encoder_attention_heads")
"""What configs call the number of heads."""


def without_organisation(name: str) -> str:
    """The name of a model on the hub without its publisher's, where we know the publisher's models."""
    publisher, _, rest = name.rpartition("/")
    return rest if publisher in ORGANISATIONS else name


def why_unknown(name: str, known: Iterable[str], families: Collection[str]) -> str:
    """One line about a name that no family knows.

    Args:
        name: as it was typed.
        known: the names that can be built.
        families: their families.
    """
    known = list(known)
    plain, _, tag = name.partition(".")
    if tag and plain in known:
        return (
            f"{name} names pretrained weights, and models are built with fresh ones: give {plain}, and then "
            "lf.load_weights(model, checkpoint)"
        )
    if reason := _why_upstream_only(name):
        return f"{reason} (families: {', '.join(families)})"
    if near := near_names(name, known):
        hint = f"did you mean {' or '.join(near)}?"
    elif "/" in name:
        hint = (
            "there is no such folder, and nothing is downloaded from the hub; "
            "save the model's config.json in a folder and give the folder"
        )
    else:
        hint = "`leanformer models` lists the names, and a folder with a config.json is taken too"
    return f"unknown model {name!r}: {hint}"


def near_names(name: str, known: Collection[str], count: int = 3) -> list[str]:
    """The names that look most like one that was typed, whatever its capitals, dashes and publisher."""
    typed = name.rpartition("/")[2]
    spelt: dict[str, list[str]] = {}
    for one in sorted(known, key=lambda one: ("_" in one) != ("_" in typed)):  # timm's names have _, the hub's -
        spelt.setdefault(_spelling(one), []).append(one)
    near = difflib.get_close_matches(_spelling(typed), spelt, n=count, cutoff=0.5 if "/" not in name else 0.75)
    longer = [one for one in spelt if len(typed) > 2 and one.startswith(_spelling(typed))]
    return [one for spelling in dict.fromkeys([*sorted(longer, key=len), *near]) for one in spelt[spelling]][:count]


def _spelling(name: str) -> str:
    return name.lower().replace("-", "_")


def _why_upstream_only(name: str) -> str:
    """Why a model that timm or transformers has cannot be redesigned, and what can be done; empty if neither has it."""
    from leanformer.models.huggingface.base import upstream_has as transformers_has
    from leanformer.models.timm.base import upstream_has as timm_has

    if timm_has(name):
        library, attends = "timm", _attends(name)
        measured = f"`leanformer measure {name}` shows its κ"
    elif transformers_has(name):
        library, attends = "transformers", _config_has_heads(name)
        measured = "`leanformer measure FOLDER` shows the κ of a saved one"
    else:
        return ""
    reason = f"no family here is made of its layers; {measured}" if attends else "it has no attention"
    return f"{name} is known to {library} but cannot be redesigned: {reason}"


def _attends(name: str) -> bool:
    from leanformer.models.timm.base import upstream

    modules = upstream(name).modules()
    return any(isinstance(m, nn.MultiheadAttention) or isinstance(getattr(m, "num_heads", None), int) for m in modules)


def _config_has_heads(name: str) -> bool:
    from leanformer.models.huggingface.decoder import UNSUITABLE, default_config

    try:
        config = default_config(name)
        return any(hasattr(part, word) for part in (config, config.get_text_config()) for word in HEADS)
    except UNSUITABLE:  # a config that needs others: it is made of several models
        return True
