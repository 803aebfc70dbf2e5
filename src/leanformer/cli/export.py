"""`leanformer export`: a trained model as one file that runs without leanformer."""

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from leanformer.cli.shared import AsJson, app, output, print_json, working


class Format(StrEnum):
    """The kinds of file."""

    onnx = "onnx"
    pt2 = "pt2"


@app.command()
def export(
    folder: Annotated[Path, typer.Argument(metavar="FOLDER", help="A run, or a saved model's folder.")],
    format: Annotated[
        Format | None,
        typer.Option(help="onnx for ONNX Runtime, or pt2 for torch.export.load [default: as --out ends]."),
    ] = None,
    out: Annotated[Path | None, typer.Option(help="The file to write [default: FOLDER/model.onnx].")] = None,
    as_json: AsJson = False,
) -> None:
    """Write a trained model as ONNX or as an exported program. The file is compared with the model before it is kept.

    ONNX needs `pip install "leanformer[export]"`.
    """
    from leanformer.models.exporting import export as write

    path = out or folder / f"model.{format.value if format is not None else 'onnx'}"
    with working(f"exporting {folder}"):
        exported = write(folder, path, format.value if format is not None else None)
    if as_json:
        print_json(
            {
                "path": str(exported.path),
                "format": exported.format,
                "inputs": exported.inputs,
                "outputs": exported.outputs,
                "difference": exported.difference,
            }
        )
    else:
        output.print(str(exported), highlight=False, markup=False, soft_wrap=True)
