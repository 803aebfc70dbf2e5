"""Code for fresh processes."""

ANY_TORCHVISION = """
try:
    import torchvision
except RuntimeError:  # the registry's torchvision beside another build of torch; leanformer has a cure, others have not
    import sys, torch
    for name in [name for name in sys.modules if name.startswith("torchvision")]:
        del sys.modules[name]
    library = torch.library.Library("torchvision", "DEF")
    for name in ("nms", "qnms"):
        library.define(f"{name}(Tensor dets, Tensor scores, float iou_threshold) -> Tensor")
"""
"""For processes without leanformer, whose cure of torchvision they lack."""
