"""Models: from an architecture in plain numbers to an `nn.Module` and back.

`families` finds the family that knows a name or a module, `names` creates models by name, `weights` saves and loads
them, `published` holds the paper's designs, `registration` makes our models known to timm and transformers. The
families are in `timm`, `huggingface` and `own`. Importing this package imports none of it: each name below is imported
when it is first used.
"""

from typing import TYPE_CHECKING

from leanformer.foundation.registry import lazily

if TYPE_CHECKING:
    from leanformer.models.base import AttentionBlock as AttentionBlock
    from leanformer.models.base import AttentionPart as AttentionPart
    from leanformer.models.base import Family as Family
    from leanformer.models.families import FAMILIES as FAMILIES
    from leanformer.models.families import attention_blocks as attention_blocks
    from leanformer.models.families import build as build
    from leanformer.models.families import describe as describe
    from leanformer.models.families import example_inputs as example_inputs
    from leanformer.models.families import family as family
    from leanformer.models.families import find as find
    from leanformer.models.families import known_names as known_names
    from leanformer.models.families import read as read
    from leanformer.models.generation import generate as generate
    from leanformer.models.names import architecture_of as architecture_of
    from leanformer.models.names import create as create
    from leanformer.models.published import LEAN_MODELS as LEAN_MODELS
    from leanformer.models.registration import register as register
    from leanformer.models.weights import from_pretrained as from_pretrained
    from leanformer.models.weights import load_start as load_start
    from leanformer.models.weights import load_weights as load_weights
    from leanformer.models.weights import save_pretrained as save_pretrained

_HOMES = {
    "AttentionBlock": "base",
    "AttentionPart": "base",
    "FAMILIES": "families",
    "Family": "base",
    "LEAN_MODELS": "published",
    "architecture_of": "names",
    "attention_blocks": "families",
    "build": "families",
    "create": "names",
    "describe": "families",
    "example_inputs": "families",
    "family": "families",
    "find": "families",
    "from_pretrained": "weights",
    "generate": "generation",
    "known_names": "families",
    "load_start": "weights",
    "load_weights": "weights",
    "read": "families",
    "register": "registration",
    "save_pretrained": "weights",
}
__all__ = list(_HOMES)
__getattr__, __dir__ = lazily(__name__, _HOMES)
