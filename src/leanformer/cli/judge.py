"""`leanformer judge`: the verdict on scores from anywhere."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from leanformer.cli.compare import show_comparison
from leanformer.cli.shared import AsJson, app, messages, output, print_json
from leanformer.foundation.arguments import writable

if TYPE_CHECKING:
    from leanformer.experiments.judging.simulation import Simulation


@app.command()
def judge(
    scores: Annotated[
        Path | None,
        typer.Argument(help="A .csv, .tsv, .jsonl or .json file with arm, seed and score; or a folder of runs."),
    ] = None,
    margin: Annotated[float | None, typer.Option(help="By how much an arm may be worse and still hold.")] = None,
    against: Annotated[
        str | None, typer.Option(help='The arm that others are compared with [default: "original", or the first].')
    ] = None,
    metric: Annotated[str, typer.Option(help="Name of the score.")] = "score",
    unit: Annotated[str, typer.Option(help='Unit of the score; with "%", differences are in points.')] = "",
    lower_is_better: Annotated[bool, typer.Option("--lower-is-better", help="For losses and errors.")] = False,
    resolution: Annotated[
        float, typer.Option(help="Smallest step between two scores: 100/N for accuracies in % of N samples.")
    ] = 0.0,
    until: Annotated[
        str | None, typer.Option(help='"decided": seeds are added at planned looks until the verdict is decided.')
    ] = None,
    max_seeds: Annotated[int | None, typer.Option(help="Upper limit of seeds with --until [default: 30].")] = None,
    unplanned: Annotated[
        bool, typer.Option("--unplanned", help="Seeds were added after looking at results: use a wider interval.")
    ] = False,
    key: Annotated[
        str, typer.Option(help="In folders of runs: the column of summary.csv, or the key of the log history.")
    ] = "",
    name: Annotated[str, typer.Option(help="Name of the comparison in the report [default: the file's].")] = "",
    simulate: Annotated[
        bool, typer.Option("--simulate", help="Measure how often verdicts are wrong, on simulated scores.")
    ] = False,
    sequences: Annotated[int, typer.Option(min=100, help="Simulated comparisons per row.")] = 20_000,
    seed: Annotated[int, typer.Option(min=0, help="Seed of the simulation.")] = 0,
    out: Annotated[
        Path | None, typer.Option(help="Folder for the record, page and figures [default: runs/judge-NAME].")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Judge scores that were trained anywhere: the same verdict, intervals, figures and page as `compare`.

    A table needs the columns arm, seed and score. With a column sample, each row
    is the outcome of one held-out sample; the report then has a second interval, for other samples like these. Folders
    of runs are those of timm's script (summary.csv) and of transformers' Trainer (trainer_state.json), with names such
    as lean/seed-0.

        leanformer judge scores.csv --margin 0.5 --unit %

        leanformer judge runs --margin 0.5 --unit % --key eval_top1 --against baseline

        leanformer judge --simulate
    """
    if simulate:
        _simulate(sequences, seed, out, as_json)
        return
    if scores is None:
        raise ValueError("judge needs a file or a folder of scores; `leanformer judge --help` shows their form")
    if margin is None:
        raise ValueError("judge needs --margin: by how much an arm may be worse and still hold, in the score's units")

    from leanformer.experiments.judged_scores import judge as run
    from leanformer.experiments.summary import RECORD

    folder = writable(out or Path("runs") / f"judge-{scores.stem}")
    record = run(
        scores,
        margin=margin,
        against=against,
        metric=metric,
        unit=unit,
        higher_is_better=not lower_is_better,
        resolution=resolution,
        until=until,
        max_seeds=max_seeds,
        unplanned=unplanned,
        key=key,
        name=name or scores.stem,
    )
    record.write(folder / RECORD)
    show_comparison(record, folder, as_json)


def _simulate(sequences: int, seed: int, out: Path | None, as_json: bool) -> None:
    from leanformer.experiments.judging.simulation import simulate
    from leanformer.report import simulation

    if out is not None:
        writable(out)
    with messages.status("simulating"):
        record: Simulation = simulate(sequences, seed)
    if out is not None:
        record.write(out / "simulation.json")
    if as_json:
        print_json(record.to_dict())
    else:
        output.print(simulation.table(record))
        output.print(simulation.note(record), highlight=False, soft_wrap=True, markup=False)
    if not record.within_bounds():
        raise typer.Exit(1)
