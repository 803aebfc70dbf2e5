"""Commands about models: paper, models, measure, theory, design."""

import json
from pathlib import Path
from typing import Annotated, Any

import typer

from leanformer.cli.shared import AsJson, Model, Out, Seed, app, messages, numbers, output, show, working


@app.command()
def paper(
    as_json: AsJson = False,
    as_markdown: Annotated[bool, typer.Option("--markdown", help="Print a Markdown table.")] = False,
    table: Annotated[str, typer.Option(help='Only rows of this table, such as "Tab. 4" or "Fig. 3".')] = "",
    memory: Annotated[bool, typer.Option(help="Count the training memory of Tables 4 and 5 too.")] = True,
) -> None:
    """The scorecard: each printed figure of the paper beside a recount from built models.

    Builds every model of Tables 1 to 5 and the Long-Range Arena grid without weights, counts its parameters and, for
    image models, the memory that training takes: about 40 seconds.
    """
    from leanformer.models.published import ROWS
    from leanformer.paper.memory import memory as count_memory
    from leanformer.paper.scorecard import scorecard
    from leanformer.report.scorecard import markdown, memory_summary, summary, terminal_table

    if as_json and as_markdown:
        raise ValueError("--json and --markdown exclude each other")
    rows = [row for row in ROWS if row.table == table] if table else ROWS
    if not rows:
        known = ", ".join(dict.fromkeys(f'"{row.table}"' for row in ROWS))
        raise ValueError(f'--table "{table}" names no table; there are {known}')
    with messages.status("counting") as status:
        recounts = scorecard(rows, progress=lambda row: status.update(f"counting {row.model}"))
        found = count_memory(recounts, lambda row: status.update(f"memory of {row.model}")) if memory else {}
    if as_json:
        listed = [r.to_dict() | ({"memory": found[r.row].to_dict()} if r.row in found else {}) for r in recounts]
        print(json.dumps({"summary": summary(recounts), "rows": listed}, indent=2))
    elif as_markdown:
        print(markdown(recounts, found))
    else:
        output.print(terminal_table(recounts, found))
        output.print(summary(recounts))
        if found:
            output.print(memory_summary(found))


@app.command()
def models(
    containing: Annotated[str, typer.Argument(help="Only names that contain this.")] = "",
    as_json: AsJson = False,
) -> None:
    """The model names that every other command and `leanformer.create` take."""
    from leanformer.models import registry as families
    from leanformer.models.published import LEAN_MODELS

    listed = {**families.names(), "lean": list(LEAN_MODELS)}
    listed = {key: [name for name in names if containing in name] for key, names in listed.items()}
    if not any(listed.values()):
        raise ValueError(f"no model name contains {containing!r}; `leanformer models` lists all")
    if as_json:
        print(json.dumps(listed, indent=2))
        return
    for key, names in listed.items():
        if names:
            output.print(f"[bold]{key}[/]  {'  '.join(names)}")


@app.command()
def measure(
    model: Model,
    checkpoint: Annotated[Path | None, typer.Option(help="Weights to load: a folder, .safetensors or .pt.")] = None,
    images: Annotated[Path | None, typer.Option(help="Measure on the images in this folder.")] = None,
    text: Annotated[Path | None, typer.Option(help="Measure on passages of this text file.")] = None,
    random: Annotated[bool, typer.Option("--random", help="Measure on random images or tokens.")] = False,
    batch: Annotated[int, typer.Option(help="Images or passages.")] = 8,
    tokens: Annotated[
        int | None, typer.Option(help="Tokens a passage [default: 128, or what the model takes].")
    ] = None,
    heads: Annotated[str, typer.Option(help='Sweep heads at initialisation, such as "2,4,8" or "2-18".')] = "",
    depth: Annotated[int | None, typer.Option(help="Layers to build in a sweep of heads [default: all].")] = None,
    rank: Annotated[bool, typer.Option("--rank", help="The rank of W_Q W_Kᵀ of every head instead of κ.")] = False,
    projections: Annotated[str | None, typer.Option(help='Name pattern of output projections, "*.attn.out".')] = None,
    seed: Seed = 0,
    out: Out = None,
    as_json: AsJson = False,
) -> None:
    """κ of the attention, layer by layer: at initialisation, of a checkpoint, or of a pretrained model.

    The condition number is of the concatenated heads before the output projection, one matrix per sample; the table
    shows its median and quartiles, and what a Gaussian matrix of that size would have. With `--heads`, κ against the
    number of heads in both regimes. With `--rank`, how many directions each head can ask for, and how many of them
    its weights use.
    """
    from leanformer.conditioning.measurement import measure_heads, measure_named, measure_ranks
    from leanformer.report import figures, measurement
    from leanformer.training.run import held_out_inputs, is_run

    choice: dict[str, Any] = dict(images=images, text=text, random=random, batch=batch, tokens=tokens, seed=seed)
    no_inputs_given = images is None and text is None and not random and tokens is None
    folder = out or Path("runs") / f"measure-{Path(model).name}"
    if rank:
        if heads or depth or tokens or projections is not None or images is not None or text is not None or random:
            raise ValueError("--rank reads the weights alone: it takes no --heads, --depth, --projections or inputs")
        with working(f"reading {model}"):
            record = measure_ranks(model, checkpoint, seed)
        show(record, measurement.ranks, figures.rank_by_layer, folder / "rank_by_layer", as_json)
    elif heads:
        if checkpoint is not None or projections is not None:
            raise ValueError("--heads measures at initialisation: it takes no --checkpoint and no --projections")
        with working("measuring") as progress:
            record = measure_heads(model, numbers("--heads", heads), depth=depth, progress=progress, **choice)
        show(record, measurement.heads, figures.kappa_by_heads, folder / "kappa_by_heads", as_json)
    else:
        if depth is not None:
            raise ValueError("--depth goes with --heads")
        with working(f"measuring {model}"):
            own = held_out_inputs(Path(model), batch) if no_inputs_given and is_run(Path(model)) else None
            record = measure_named(model, checkpoint, projections=projections, inputs=own, **choice)
        show(record, measurement.layers, figures.kappa_by_layer, folder / "kappa_by_layer", as_json)


@app.command()
def theory(
    tokens: Annotated[int, typer.Option(help="Tokens N: rows of a block.")] = 197,
    head_dim: Annotated[int, typer.Option(help="Columns of one head, d.")] = 64,
    heads: Annotated[str, typer.Option(help='Heads to add up, such as "1,2,4" or "1-18".')] = "1-6,8,12,16,24,32,64",
    samples: Annotated[int, typer.Option(help="Sampled matrices per size.")] = 1000,
    model: Annotated[str, typer.Option(help='Real model to put beside it; "none" for none.')] = "vit_base_patch16_224",
    depth: Annotated[int, typer.Option(help="Layers of that model to build.")] = 2,
    seed: Seed = 0,
    out: Out = None,
    as_json: AsJson = False,
) -> None:
    """Theorem 3.2 against simulation and against a real model: κ as heads are added, through the cliff at h·d = N.

    The theorem speaks of Gaussian blocks. Its formula is compared with exact sampling; a real model's attention at
    initialisation stands beside both, in both head regimes.
    """
    from leanformer.conditioning.measurement import measure_heads, theory_record
    from leanformer.report import figures, measurement

    counts, folder = numbers("--heads", heads), out or Path("runs/theory")
    with working("sampling") as progress:
        record = theory_record(tokens, head_dim, counts, samples, seed, progress)
        if model != "none":
            record["real"] = measure_heads(model, counts, depth=depth, seed=seed, batch=4, progress=progress)
    show(record, measurement.theory, figures.theory_against_simulation, folder / "theory", as_json)
    if model != "none" and not as_json:
        show(record["real"], measurement.heads, figures.kappa_by_heads, folder / "kappa_by_heads", as_json)


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
    from leanformer.report.figures import pareto

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
