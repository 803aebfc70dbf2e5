"""Measure how well conditioned a transformer's attention is, redesign it leaner, prove whether the leaner model holds.

The names below are the public interface. Importing the package also puts the paper's lean models into timm's registry
and our language models into the Auto classes of transformers.
"""

import sys
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"

_HOMES = {
    "Architecture": "architecture",
    "Stage": "architecture",
    "architecture_of": "zoo",
    "attention_blocks": "families",
    "build": "families",
    "compare": "comparison",
    "create": "zoo",
    "describe": "families",
    "design": "designs",
    "from_pretrained": "weights",
    "lightning_callback": "callbacks",
    "load_weights": "weights",
    "measure": "probing",
    "probe": "probing",
    "query_key_ranks": "ranks",
    "save_pretrained": "weights",
    "sweep": "sweeping",
    "track": "tracking",
    "train": "training",
    "trainer_callback": "callbacks",
}
__all__ = ["__version__", *_HOMES]  # noqa: PLE0604

if TYPE_CHECKING:
    from leanformer.architecture import Architecture as Architecture
    from leanformer.architecture import Stage as Stage
    from leanformer.callbacks import lightning_callback as lightning_callback
    from leanformer.callbacks import trainer_callback as trainer_callback
    from leanformer.comparison import compare as compare
    from leanformer.designs import design as design
    from leanformer.families import attention_blocks as attention_blocks
    from leanformer.families import build as build
    from leanformer.families import describe as describe
    from leanformer.probing import measure as measure
    from leanformer.probing import probe as probe
    from leanformer.ranks import query_key_ranks as query_key_ranks
    from leanformer.sweeping import sweep as sweep
    from leanformer.tracking import track as track
    from leanformer.training import train as train
    from leanformer.weights import from_pretrained as from_pretrained
    from leanformer.weights import load_weights as load_weights
    from leanformer.weights import save_pretrained as save_pretrained
    from leanformer.zoo import architecture_of as architecture_of
    from leanformer.zoo import create as create


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'leanformer' has no attribute {name!r}")
    return getattr(import_module(f"leanformer.{_HOMES[name]}"), name)


def __dir__() -> list[str]:
    return sorted(__all__)


# The command loads what its subcommand needs: --help should not wait for PyTorch. "-m" is all that Python says of the
# program while it looks for a module to run.
if Path(sys.argv[0] if sys.argv else "").name not in ("leanformer", "-m"):
    import_module("leanformer.zoo").register()
