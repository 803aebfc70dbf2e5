"""`leanformer paper`: the scorecard, and the paper's figures and tables as commands."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from leanformer.cli.shared import (
    OUTPUT,
    App,
    AsJson,
    Group,
    Jobs,
    On,
    Out,
    Seeds,
    Steps,
    UserData,
    app,
    given,
    messages,
    output,
    print_json,
    show,
)

if TYPE_CHECKING:
    from leanformer.foundation.records.base import Record

scorecard_app = App(
    name="paper",
    cls=Group,
    invoke_without_command=True,
    rich_markup_mode="markdown",
    pretty_exceptions_enable=False,
)
app.add_typer(scorecard_app)

ScaleOption = Annotated[
    str, typer.Option("--scale", metavar="SCALE", help="laptop (trains) or paper (only counts the cost).")
]
Results = Annotated[
    Path | None,
    typer.Option(metavar="FOLDER", help="Folder of records [default: results/ here, or those of the package]."),
]

Dims = Annotated[str, typer.Option(metavar="NUMBERS", help="Dimensions of the points, as in 8,16,32.")]
HeadCounts = Annotated[str, typer.Option(metavar="NUMBERS", help="Numbers of heads, as in 1,16,256.")]
DrawnSeeds = Annotated[int, typer.Option(metavar="N", min=1, help="How many seeds.")]
PointDim = Annotated[int, typer.Option(metavar="N", min=2, help="Dimension of the points, even.")]
Points = Annotated[int, typer.Option(metavar="N", min=2, help="Points of a sample.")]
ShortSteps = Annotated[int, typer.Option(metavar="N", min=1, help="Optimizer steps of every run.")]


@scorecard_app.callback()
def paper(
    context: typer.Context,
    as_json: AsJson = False,
    as_markdown: Annotated[
        bool,
        typer.Option("--markdown", help="Print Markdown: every column of claims and recount.", rich_help_panel=OUTPUT),
    ] = False,
    table: Annotated[
        str, typer.Option(metavar="PLACE", help='Only this table or figure, such as "Tab. 4" or "Fig. 8".')
    ] = "",
    without_memory: Annotated[
        bool, typer.Option("--no-memory", help="Leave out the training memory of Tables 4 and 5.")
    ] = False,
    recount: Annotated[
        bool, typer.Option("--recount", help="Build and count every model again; takes about a minute.")
    ] = False,
    results: Results = None,
    out: Annotated[
        Path | None,
        typer.Option(
            metavar="FOLDER",
            help="Write scorecard.json, scorecard.md and scorecard.html there.",
            file_okay=False,
            rich_help_panel=OUTPUT,
        ),
    ] = None,
) -> None:
    """The scorecard: every claim of the two papers, and whether the committed records support it.

    Each claim has a rule, a status computed from records under results/, and the command that tests it. Every model of
    Tables 1 to 5 and the Long-Range Arena grid is recounted beside what is printed. Nothing is trained. `paper figure`
    and `paper table` run an experiment and draw it in the paper's own form.
    """
    if context.invoked_subcommand is not None:
        return
    if as_json and as_markdown:
        raise ValueError("--json and --markdown exclude each other")
    from leanformer.paper.scorecard import paper as run
    from leanformer.report import claims, scorecard

    with messages.status("reading") as status:
        record = run(
            results=results, table=table, recount=recount, memory=not without_memory, out=out, progress=status.update
        )
    if as_json:
        print_json(record.to_dict())
    elif as_markdown:
        print(claims.markdown(record))
    else:
        output.print(claims.terminal_table(record))
        if record.rows:
            output.print(scorecard.terminal_table(record))
        for sentence in scorecard.sentences(record):
            output.print(sentence)


@scorecard_app.command()
def parts(
    model: Annotated[
        str, typer.Argument(metavar="MODEL", help="A model whose layers are alike.")
    ] = "vit_base_patch16_224",
    batch: Annotated[int, typer.Option(metavar="N", min=1, help="Random samples.")] = 2,
    seed: Annotated[int, typer.Option(metavar="N", min=0, help="Seed of weights and samples.")] = 0,
    out: Out = None,
    as_json: AsJson = False,
) -> None:
    """κ of one head alone, of all heads side by side, and of the MLP's weights (Sections 3.2 and 3.3)."""
    _run("leanformer.paper.parts", "parts", given(locals()), out, as_json)


@scorecard_app.command()
def ntk(
    recipe: Annotated[
        str, typer.Option(metavar="RECIPE", help="A recipe of images, whose model is varied.")
    ] = "digits",
    heads: HeadCounts = "1,2,4,8,16",
    samples: Annotated[
        int, typer.Option(metavar="N", min=2, help="Samples; each has a row in the kernel for every output.")
    ] = 64,
    seeds: DrawnSeeds = 3,
    out: Out = None,
    as_json: AsJson = False,
) -> None:
    """κ of tangent kernels (NTK) at initialisation: MLPs by width and depth, transformers by heads (Sections 2 and 3).

    Heads are added in three ways: each keeps its size, so at equal parameters (with a narrower MLP), and as shares of
    the width. Every transformer is measured twice: with its weights as timm draws them, and with weights that amplify
    as much as in ViT-B.
    """
    _run("leanformer.paper.ntk", "ntk", given(locals()), out, as_json)


@scorecard_app.command()
def counts(
    tasks: Annotated[
        str, typer.Option(metavar="NAMES", help="Of listops, text, retrieval, image and pathfinder.")
    ] = "listops,text,image,pathfinder",
    data: UserData = None,
    out: Out = None,
    as_json: AsJson = False,
) -> None:
    """What a linear model of token counts scores on the tasks of Table 3, beside the printed accuracies.

    Lengths and samples are the paper's. The linear model sees how often each token occurs and which one is first; it
    has no attention. Retrieval needs its data set, with --data.
    """
    _run("leanformer.paper.counts", "counts", given(locals()), out, as_json)


@scorecard_app.command()
def construction(
    dim: Annotated[int, typer.Option(metavar="N", min=2, help="Dimension of the points: the rank of the head.")] = 64,
    samples: Annotated[int, typer.Option(metavar="N", min=1, help="Samples of each number of points.")] = 64,
    seed: Annotated[int, typer.Option(metavar="N", min=0, help="Seed of the samples.")] = 0,
    out: Out = None,
    as_json: AsJson = False,
) -> None:
    """One constructed head of full rank finds the farthest point, for any number of points."""
    _run("leanformer.paper.construction", "construction", given(locals()), out, as_json)


@scorecard_app.command()
def bound(
    dims: Dims = "8,16,32,64",
    heads: HeadCounts = "1,16,256,4096,65536",
    out: Out = None,
    as_json: AsJson = False,
) -> None:
    """A lower bound on the error of one layer of low-rank heads that choose between two points.

    An error of 1 is the origin's, 0.5 needs no attention at all. The bound is our own derivation in closed form, with
    all its constants; the paper's are not in the text at hand. Also printed: how many heads an error takes at least.
    """
    _run("leanformer.paper.two_points.bound", "bound", given(locals()), out, as_json)


@scorecard_app.command()
def features(
    dims: Dims = "4,8,16,32",
    heads: HeadCounts = "1,4,16,64,256,1024",
    samples: Annotated[
        int, typer.Option(metavar="N", min=1, help="Samples to fit on, and as many others to score.")
    ] = 16384,
    seeds: DrawnSeeds = 3,
    out: Out = None,
    as_json: AsJson = False,
) -> None:
    """Random heads of rank 1 and of half rank, combined by least squares, beside the lower bound."""
    _run("leanformer.paper.two_points.features", "features", given(locals()), out, as_json)


@scorecard_app.command()
def voting(
    dims: Dims = "8,16,32,64",
    heads: HeadCounts = "15,63,255,1023,4095",
    samples: Annotated[int, typer.Option(metavar="N", min=1, help="Samples of each dimension.")] = 4096,
    seeds: DrawnSeeds = 3,
    out: Out = None,
    as_json: AsJson = False,
) -> None:
    """Two constructed layers of rank-1 heads: the first votes for one of two points, the second reads the winner.

    Nothing is trained. Beside their error are that of the first layer alone, and the bound for any single layer.
    """
    _run("leanformer.paper.two_points.voting", "voting", given(locals()), out, as_json)


@scorecard_app.command()
def perfect(
    dim: PointDim = 16,
    points: Points = 16,
    steps: ShortSteps = 1500,
    seeds: DrawnSeeds = 3,
    out: Out = None,
    as_json: AsJson = False,
) -> None:
    """Train from the constructed head and from drawn weights, at full and at half rank: does it stay, is it stuck?"""
    _run("leanformer.paper.trained_points", "perfect", given(locals()), out, as_json)


@scorecard_app.command()
def positions(
    dim: PointDim = 16,
    points: Points = 16,
    steps: ShortSteps = 1500,
    seeds: DrawnSeeds = 3,
    out: Out = None,
    as_json: AsJson = False,
) -> None:
    """Train full and half rank without positions, with learned ones added to the points, and appended to them."""
    _run("leanformer.paper.trained_points", "positions", given(locals()), out, as_json)


@scorecard_app.command()
def figure(
    number: Annotated[int, typer.Argument(metavar="NUMBER", help="2 to 9.")],
    scale: ScaleOption = "laptop",
    recipe: Annotated[
        str | None,
        typer.Option(metavar="RECIPE", help="Another recipe than the figure's own, such as cifar10-small."),
    ] = None,
    seeds: Seeds = None,
    steps: Steps = None,
    data: UserData = None,
    on: On = None,
    jobs: Jobs = None,
    out: Out = None,
    as_json: AsJson = False,
) -> None:
    """A figure of "Leaner Transformers", trained at laptop scale and drawn as the paper draws it.

    First the best learning rate of every depth is searched, on other seeds and samples. The figures of a recipe share
    that search and their trained designs, which lie beside the folder of the figure. The same command resumes what was
    stopped. `--scale paper` trains nothing: it counts the designs and device-hours of the paper's
    own grid, and prints the command that runs it. Figures 6 and 7 show pairs of Tables 4 and 5, and train nothing.
    """
    arguments = given(locals())
    from leanformer.paper.figures import figure as run

    show(run(**arguments, progress=True), as_json)


@scorecard_app.command()
def table(
    number: Annotated[int, typer.Argument(metavar="NUMBER", help="1 to 6.")],
    scale: ScaleOption = "laptop",
    recipes: Annotated[
        str | None, typer.Option(metavar="NAMES", help="Which of its laptop recipes, as in listops,text.")
    ] = None,
    seeds: Seeds = None,
    steps: Steps = None,
    data: UserData = None,
    jobs: Jobs = None,
    out: Out = None,
    as_json: AsJson = False,
) -> None:
    """A table of "Leaner Transformers": printed, recounted, and trained at laptop scale (Tables 1 to 3).

    The same command resumes it. `--scale paper` trains nothing, and says what the paper's own trainings would take.
    """
    arguments = given(locals())
    from leanformer.paper.tables import table as run

    show(run(**arguments, progress=True), as_json)


def _run(module: str, name: str, arguments: dict[str, Any], out: Path | None, as_json: bool) -> None:
    """Call the function that a command is named after."""
    from importlib import import_module
    from inspect import signature

    run = getattr(import_module(module), name)
    arguments = {key: value for key, value in arguments.items() if key != "out"}
    with messages.status(name) as status:
        if "progress" in signature(run).parameters:
            arguments["progress"] = status.update
        record = run(**arguments)
    _show(record, out, name, as_json)


def _show(record: "Record", out: Path | None, name: str, as_json: bool) -> None:
    """Print a small record; write it and its figure if a folder is given."""
    if out is not None:
        from leanformer.foundation.progress import RunsProgress
        from leanformer.foundation.records.keeping import publish

        publish(record, out / f"{name}.json", say=RunsProgress(True).say)
    show(record, as_json)
