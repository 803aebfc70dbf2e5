"""Let torchvision import where torch is the CPU build and torchvision is the registry's.

torchvision's registry wheel carries operators that are compiled against the CUDA build of torch. Beside a CPU build its
library does not load, and `import torchvision` stops at "operator torchvision::nms does not exist". timm and
transformers then fail with it. The import needs no more than the schemas of two operators, which are declared here
without an implementation (nothing here calls them), and only when the import fails for that reason.
"""

from __future__ import annotations

import sys
from importlib.abc import Loader
from types import ModuleType
from typing import Any

_DECLARED: list[Any] = []
"""Keeps the declaration alive."""


def execute(loader: Loader, module: ModuleType) -> None:
    """Run torchvision's code; where its operators are missing, declare them and run it again."""
    clean = dict(vars(module))
    try:
        loader.exec_module(module)
    except RuntimeError as error:
        if "torchvision::nms does not exist" not in str(error):
            raise
        for name in [name for name in sys.modules if name.startswith("torchvision.")]:
            del sys.modules[name]
        vars(module).clear()
        vars(module).update(clean)
        _declare()
        loader.exec_module(module)


def _declare() -> None:
    import torch

    library = torch.library.Library("torchvision", "DEF")
    for operator in ("nms", "qnms"):
        library.define(f"{operator}(Tensor dets, Tensor scores, float iou_threshold) -> Tensor")
    _DECLARED.append(library)
