"""`leanformer design`: leaner candidates and what they cost."""

from pathlib import Path
from typing import Annotated, Any

import typer

from leanformer.cli.shared import AsJson, Model, Out, app, numbers, output, show, working


@app.command()
def design(
    model: Model,
    params: Annotated[str, typer.Option(help='At most these parameters: "50%" or "40M" [half the layers].')] = "",
    fit: Annotated[str, typer.Option(help='At most this training memory: "24GB" or "50%".')] = "",
    macs: Annotated[str, typer.Option(help='At most these multiplications a sample: "50%" or "8G".')] = "",
    depth: Annotated[str, typer.Option(help='Only these depths, such as "7" or "6-8".')] = "",
    head_dim: Annotated[str, typer.Option(help='Other sizes of head to try too, such as "32,96".')] = "",
    regime: Annotated[str, typer.Option(help="fixed (keep head_dim), split (keep width) or both.")] = "both",
    batch: Annotated[int, typer.Option(help="Samples per device that memory is counted for.")] = 64,
    tokens: Annotated[int | None, typer.Option(help="Length of a text [default: 128 or what fits].")] = None,
    precision: Annotated[str, typer.Option(help="float32 or bfloat16 (CUDA autocast).")] = "float32",
    attention: Annotated[str, typer.Option(help="fused or explicit.")] = "fused",
    checkpointing: Annotated[bool, typer.Option("--checkpointing", help="With gradient checkpointing.")] = False,
    optimizer: Annotated[str, typer.Option(help="adamw, sgd or none.")] = "adamw",
    samples: Annotated[str, typer.Option(help='Cost a whole run over this many samples, such as "384M".')] = "",
    device: Annotated[str, typer.Option(help="Its accelerator: a100, h100, v100, a6000, rtx4090, l4, t4.")] = "a100",
    devices: Annotated[int, typer.Option(min=1, help="How many of them.")] = 8,
    utilisation: Annotated[float, typer.Option(help="Share of their peak that training reaches.")] = 0.35,
    force: Annotated[bool, typer.Option("--force", help="Show designs too that the rank guard refuses.")] = False,
    emit: Annotated[str, typer.Option(help="Print only the recommended design, as timm, hf or yaml.")] = "",
    out: Out = None,
    as_json: AsJson = False,
) -> None:
    """Leaner candidates: parameters, memory, multiplications, κ theory, guards, and a plan in plain words.

    Costs are exact and need no GPU. A run of ImageNet for 300 epochs is `--samples 384M`.
    """
    from leanformer.architecture import KEEPS
    from leanformer.costs.closed_forms import Setting, formula
    from leanformer.designing import plan as designs
    from leanformer.models import names as zoo
    from leanformer.report import design as report
    from leanformer.report.figures.design import pareto

    for option, value, words in (
        ("--regime", regime, ("fixed", "split", "both")),
        ("--precision", precision, ("float32", "bfloat16")),
        ("--attention", attention, ("fused", "explicit")),
    ):
        if value not in words:
            raise ValueError(f"{option} takes {', '.join(words)}, got {value!r}")
    setting: Any = Setting(
        batch=batch,
        tokens=tokens,
        precision=precision,  # type: ignore[arg-type]
        attention=attention,  # type: ignore[arg-type]
        checkpointing=checkpointing,
        optimizer=optimizer,  # type: ignore[arg-type]
    )
    with working(f"designing {model}"):
        base = zoo.architecture_of(model)
        whole = formula(base, setting).cost(base, setting)
        limits = designs.Limits(
            params=designs.scaled(params, whole.params.total, "--params") if params else None,
            memory_bytes=designs.scaled(fit, whole.memory_bytes, "--fit") if fit else None,
            macs=designs.scaled(macs, whole.forward_macs / batch, "--macs") if macs else None,
            depth=(min(numbers("--depth", depth)), max(numbers("--depth", depth))) if depth else None,
        )
        regimes = list(KEEPS.values()) if regime == "both" else [KEEPS[regime]]
        open_ended = limits == designs.Limits()
        plan = designs.design(
            base,
            limits=None if open_ended else limits,
            regimes=regimes,
            head_dims=numbers("--head-dim", head_dim) if head_dim else (),
            setting=setting,
            force=force,
        )
    if emit:
        print(designs.emit(plan.recommended, emit), end="")
        return
    record = plan.to_dict()
    if samples:
        number = designs.scaled(samples, 1, "--samples")
        for key, candidate in (("original", plan.original), ("recommended", plan.recommended)):
            run = designs.run_cost(candidate.cost, setting, number, device, devices, utilisation)
            record[key]["run"] = vars(run)
            record["words"].append(
                f"A run of {samples} samples on {devices} {device} at {100 * utilisation:.0f} % of peak, {key}: "
                f"{run.flops:.2g} FLOPs, {run.device_hours:,.0f} device-hours ({run.wall_hours:,.1f} h), "
                f"{run.energy_kwh:,.0f} kWh."
            )
    show(record, report.table, pareto, (out or Path("runs") / f"design-{Path(model).name}") / "design", as_json)
    if not as_json:
        for line in record["words"]:
            output.print(line, highlight=False, soft_wrap=True)
