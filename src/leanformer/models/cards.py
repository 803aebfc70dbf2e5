"""The README.md of a saved model: what it is, and how to load it, for a reader who has only the folder."""

from __future__ import annotations

from pathlib import Path
from typing import Any, cast

from torch import nn

from leanformer import __version__
from leanformer.foundation.records.files import write_text
from leanformer.foundation.records.sums import CARD
from leanformer.models import families

MARK = f"<!-- written by leanformer {__version__}; a card without this line is not overwritten -->"


def write_card(model: nn.Module, folder: Path, with_code: bool) -> None:
    """Write the card, unless the folder has one of somebody else."""
    path = folder / CARD
    if path.exists() and MARK.partition(";")[0].rpartition(" ")[0] not in path.read_text("utf-8", errors="replace"):
        return
    write_text(path, card(model, with_code))


def card(model: nn.Module, with_code: bool = False) -> str:
    """The text of a model's card; `FOLDER` in it stands for wherever the folder is."""
    kind = type(model)
    params = sum(parameter.numel() for parameter in model.parameters())
    try:
        architecture = families.describe(model)
        title, what = architecture.name, f"A `{kind.__name__}`, {architecture},"
    except ValueError:  # a model of transformers that no family knows
        title, what = kind.__name__, f"A `{kind.__name__}`"
    own = kind.__module__.startswith("transformers.")
    body = _of_timm() if not hasattr(model, "save_pretrained") else _of_transformers(model, own, with_code)
    tags = f"---\nlibrary_name: {'transformers' if own else 'leanformer'}\ntags: [leanformer]\n---\n"
    return "\n".join([tags + MARK, "", f"# {title}", "", f"{what} of {params:,} parameters.", "", *body, ""])


def _of_timm() -> list[str]:
    return [
        "It needs `pip install leanformer`:",
        "",
        *_python(
            "import leanformer as lf",
            "",
            'model = lf.from_pretrained("FOLDER")',
        ),
        "",
        "or, through timm, with the images prepared as in training and, if wanted, another head (`num_classes=7`):",
        "",
        *_python(
            "import leanformer  # makes the model known to timm",
            "import timm",
            "",
            'model = timm.create_model("local-dir:FOLDER", pretrained=True).eval()',
            "transform = timm.data.create_transform(**timm.data.resolve_model_data_config(model))",
        ),
        "",
        *_elsewhere(),
    ]


def _of_transformers(model: nn.Module, own: bool, with_code: bool) -> list[str]:
    auto = type(model).__name__ if own else _auto_class(model)
    load = f'model = {auto}.from_pretrained("FOLDER")'
    if own:
        return ["It is a model of transformers, which reads it alone:", "", *_reading(auto, load), "", *_elsewhere()]
    known = ["import leanformer  # makes the model known to transformers"]
    lines = ["It needs `pip install leanformer`:", "", *_reading(auto, load, known)]
    if with_code:
        trusting = load.replace(")", ", trust_remote_code=True)")
        lines += [
            "",
            "or, without leanformer, the code in this folder, if you trust it:",
            "",
            *_reading(auto, trusting),
        ]
    return [*lines, "", *_elsewhere()]


def _auto_class(model: nn.Module) -> str:
    """The Auto class that reads a model."""
    listed = cast(Any, families.of(model)).auto_classes
    return next((auto.__name__ for auto, cls in listed.items() if cls is type(model)), "AutoModel")


def _reading(name: str, load: str, before: list[str] | None = None) -> list[str]:
    return _python(*(before or []), f"from transformers import {name}", "", load)


def _elsewhere() -> list[str]:
    return [
        "`leanformer export FOLDER --out model.onnx` writes a file for ONNX Runtime,",
        "`--out model.pt2` one for `torch.export.load`.",
    ]


def _python(*lines: str) -> list[str]:
    return ["```python", *lines, "```"]
