"""What decoding keeps of every token: the keys and values of all layers (the KV cache)."""

from __future__ import annotations

from leanformer.architecture import Architecture
from leanformer.models import families

KEYS_AND_VALUES = 2


def cached_values(architecture: Architecture) -> int:
    """Numbers that the KV cache holds per token; 0 for models that do not generate text.

    Heads that share a key (grouped-query attention) count once. Layers that look back over a window only hold no more
    than the window, however long the text is.
    """
    family = families.family(architecture.family)
    if not family.causal:
        return 0
    shared = family.head_unit(architecture)
    return KEYS_AND_VALUES * sum(
        stage.depth * (stage.heads // shared) * stage.head_dim for stage in architecture.stages
    )
