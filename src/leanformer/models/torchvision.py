"""Let timm import where torch is the CPU build and torchvision is the registry's.

torchvision's registry wheel carries operators compiled against the CUDA build of torch. Beside a CPU build its library
does not load, and `import torchvision` stops at "operator torchvision::nms does not exist", which takes timm down with
it. Declaring the two operators' schemas (without an implementation: nothing here calls them) is all that the import
needs. `ensure_importable` does so only when the import fails for that reason, and every module of this package that
imports timm calls it first.
"""

import functools
import sys

import torch


@functools.cache
def ensure_importable() -> torch.library.Library | None:
    """Import torchvision, declaring its missing operators if need be; the cached return value keeps the declaration
    alive.
    """
    try:
        import torchvision
    except ImportError:
        return None  # not installed: timm says so better than we can
    except RuntimeError as error:
        if "torchvision::nms does not exist" not in str(error):
            raise
        for name in [name for name in sys.modules if name.partition(".")[0] == "torchvision"]:
            del sys.modules[name]
        library = torch.library.Library("torchvision", "DEF")
        for operator in ("nms", "qnms"):
            library.define(f"{operator}(Tensor dets, Tensor scores, float iou_threshold) -> Tensor")
        import torchvision  # noqa: F401

        return library
    return None
