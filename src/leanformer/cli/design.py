"""`leanformer design`: leaner candidates and what they cost."""

from pathlib import Path
from typing import Annotated, Literal

import typer

from leanformer.cli.shared import AsJson, Model, Out, app, numbers, output, show, working, writable
from leanformer.cli.sizes import size

# Values of options are listed here as well as in the library, so that help does not have to import PyTorch.
Device = Literal["a100", "h100", "v100", "a6000", "rtx4090", "l4", "t4"]


@app.command()
def design(
    model: Model,
    params: Annotated[str, typer.Option(help='At most these parameters: "50%" or "40M" [half the layers].')] = "",
    fit: Annotated[str, typer.Option(help='At most this training memory: "24GB" or "50%".')] = "",
    macs: Annotated[str, typer.Option(help='At most these MACs per sample: "50%" or "8G".')] = "",
    depth: Annotated[str, typer.Option(help='Only these depths, such as "7" or "6-8".')] = "",
    head_dim: Annotated[str, typer.Option(help='Other sizes of head to try too, such as "32,96".')] = "",
    regime: Annotated[
        Literal["fixed", "split", "both"], typer.Option(help="fixed keeps head_dim, split keeps the width.")
    ] = "both",
    batch: Annotated[int, typer.Option(min=1, help="Samples per device that memory is counted for.")] = 64,
    tokens: Annotated[int | None, typer.Option(min=1, help="Tokens per text [default: 128 or what fits].")] = None,
    precision: Annotated[
        Literal["float32", "bfloat16"], typer.Option(help="bfloat16 is mixed precision by CUDA's autocast.")
    ] = "float32",
    attention: Annotated[Literal["fused", "explicit"], typer.Option(help="How attention is computed.")] = "fused",
    checkpointing: Annotated[bool, typer.Option("--checkpointing", help="With gradient checkpointing.")] = False,
    optimizer: Annotated[Literal["adamw", "sgd", "none"], typer.Option(help="Whose state needs memory.")] = "adamw",
    samples: Annotated[str, typer.Option(help='Cost a whole run over this many samples, such as "384M".')] = "",
    device: Annotated[Device, typer.Option(help="The device of that run.")] = "a100",
    devices: Annotated[int, typer.Option(min=1, help="How many of them.")] = 8,
    utilisation: Annotated[float, typer.Option(min=0, max=1, help="Share of their peak that is reached.")] = 0.35,
    force: Annotated[bool, typer.Option("--force", help="Show designs too that the rank guard refuses.")] = False,
    emit: Annotated[
        Literal["timm", "hf", "yaml"] | None, typer.Option(help="Print only the recommended design, in this form.")
    ] = None,
    out: Out = None,
    as_json: AsJson = False,
) -> None:
    """Leaner candidates: parameters, memory, MACs, κ theory, guards, and a plan in plain words.

    Costs are exact and need no GPU. A run of ImageNet for 300 epochs is `--samples 384M`.
    """
    depths = numbers("--depth", depth) if depth else []
    head_dims = numbers("--head-dim", head_dim) if head_dim else []
    many = size("--samples", samples) if samples else None
    folder = _place(out, model, emit)

    from leanformer.costs.closed_forms import Setting, formula
    from leanformer.costs.runs import WholeRun
    from leanformer.designing import plan as planning
    from leanformer.designing.emit import emit as emitted
    from leanformer.models.names import architecture_of
    from leanformer.report import design as report
    from leanformer.report.figures.design import pareto

    setting = Setting(
        batch=batch,
        tokens=tokens,
        precision=precision,
        attention=attention,
        checkpointing=checkpointing,
        optimizer=optimizer,
    )
    run = None if many is None else WholeRun(samples=many, device=device, devices=devices, utilisation=utilisation)
    with working(f"designing {model}"):
        base = architecture_of(model)
        whole = formula(base, setting).cost(base, setting)
        limits = planning.Limits(
            params=size("--params", params, whole.params.total) if params else None,
            memory_bytes=size("--fit", fit, whole.memory_bytes, "B") if fit else None,
            macs=size("--macs", macs, whole.forward_macs / batch) if macs else None,
            depth=(min(depths), max(depths)) if depths else None,
        )
        plan = planning.design(
            base,
            limits=None if limits == planning.Limits() else limits,
            regimes=("fixed", "split") if regime == "both" else (regime,),
            head_dims=head_dims,
            setting=setting,
            force=force,
        )
    if emit:
        print(emitted(plan.recommended.architecture, emit), end="")
        return
    record = plan.record(run)
    show(record, report.table, pareto, folder / "design", as_json)
    if not as_json:
        for line in record.words:
            output.print(line, highlight=False, soft_wrap=True, markup=False)


def _place(out: Path | None, model: str, emit: str | None) -> Path:
    """Where the record goes; with `--emit`, nothing is written."""
    folder = out or Path("runs") / f"design-{Path(model).name}"
    return folder if emit else writable(folder)
