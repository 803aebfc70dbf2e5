"""Measure how well conditioned a transformer's attention is, redesign it leaner, prove whether the leaner model holds.

The names below are the public interface; each is imported when it is first used. Importing the package also arranges
that timm's registry gets the paper's lean models, and the Auto classes of transformers our language models, as soon as
these libraries are imported.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from leanformer.models import registration

__version__ = "0.1.0"

_HOMES = {
    "Architecture": "architecture",
    "Stage": "architecture",
    "architecture_of": "models.names",
    "attention_blocks": "models.registry",
    "build": "models.registry",
    "compare": "experiments.comparison",
    "create": "models.names",
    "describe": "models.registry",
    "design": "designing.plan",
    "from_pretrained": "models.weights",
    "lightning_callback": "conditioning.callbacks",
    "load_weights": "models.weights",
    "measure": "conditioning.probing",
    "probe": "conditioning.probing",
    "query_key_ranks": "conditioning.query_key",
    "register": "models.registration",
    "save_pretrained": "models.weights",
    "sweep": "experiments.sweep",
    "track": "conditioning.tracking",
    "train": "training.loop",
    "trainer_callback": "conditioning.callbacks",
}
__all__ = ["__version__", *_HOMES]  # noqa: PLE0604

if TYPE_CHECKING:
    from leanformer.architecture import Architecture as Architecture
    from leanformer.architecture import Stage as Stage
    from leanformer.conditioning.callbacks import lightning_callback as lightning_callback
    from leanformer.conditioning.callbacks import trainer_callback as trainer_callback
    from leanformer.conditioning.probing import measure as measure
    from leanformer.conditioning.probing import probe as probe
    from leanformer.conditioning.query_key import query_key_ranks as query_key_ranks
    from leanformer.conditioning.tracking import track as track
    from leanformer.designing.plan import design as design
    from leanformer.experiments.comparison import compare as compare
    from leanformer.experiments.sweep import sweep as sweep
    from leanformer.models.names import architecture_of as architecture_of
    from leanformer.models.names import create as create
    from leanformer.models.registration import register as register
    from leanformer.models.registry import attention_blocks as attention_blocks
    from leanformer.models.registry import build as build
    from leanformer.models.registry import describe as describe
    from leanformer.models.weights import from_pretrained as from_pretrained
    from leanformer.models.weights import load_weights as load_weights
    from leanformer.models.weights import save_pretrained as save_pretrained
    from leanformer.training.loop import train as train


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'leanformer' has no attribute {name!r}")
    return getattr(import_module(f"leanformer.{_HOMES[name]}"), name)


def __dir__() -> list[str]:
    return sorted(__all__)


registration.arrange()
