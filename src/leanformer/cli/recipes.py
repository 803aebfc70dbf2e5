"""`leanformer recipes`: what can be compared, and every setting of it."""

from typing import Annotated

import typer
from rich.markup import escape

from leanformer.cli.shared import AsJson, app, output, print_json


@app.command()
def recipes(
    what: Annotated[str, typer.Argument(metavar="[show]", help="`show` lists every setting of one recipe.")] = "",
    name: Annotated[
        str, typer.Argument(metavar="RECIPE", help="A name, package.module:name, file.py:name or a YAML file.")
    ] = "",
    as_yaml: Annotated[
        bool, typer.Option("--yaml", help="Print the whole recipe as YAML, to edit and to run: `compare FILE.yaml`.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """The recipes that `compare`, `sweep` and `train` take, each with its command, its time and what to expect.

    `leanformer recipes show RECIPE` lists every setting that `--set` takes, with its value, type and meaning.
    """
    from leanformer.experiments import recipes as known

    if what and what != "show":
        if name:
            raise ValueError(f'recipes takes "show" and one recipe, got "{what}" and "{name}"')
        what, name = "show", what
    if what:
        if not name:
            raise ValueError("show needs the name of a recipe; `leanformer recipes` lists them")
        _show(name, as_yaml, as_json)
        return
    if as_yaml:
        raise ValueError("--yaml needs one recipe: leanformer recipes show RECIPE --yaml")
    described = {key: known.description(key) for key in known.names()}
    if as_json:
        print_json(described)
        return
    for key, text in described.items():
        output.print(f"[bold]{escape(key)}[/]  ", end="")
        output.print((text.splitlines() or [""])[0], highlight=False, markup=False)


def _show(name: str, as_yaml: bool, as_json: bool) -> None:
    if as_yaml and as_json:
        raise ValueError("--yaml and --json exclude each other")

    from leanformer.experiments import recipes as known
    from leanformer.experiments.recipe_files import recipe_text
    from leanformer.report import recipe as report

    recipe, text = known.recipe(name), known.description(name)
    if as_yaml:
        print(recipe_text(recipe, text), end="")
    elif as_json:
        print_json(report.plain(recipe, text))
    else:
        for line in (f"{recipe.name}  {text}", *report.lines(recipe)):
            output.print(line, highlight=False, markup=False, soft_wrap=True)
        output.print(report.table(recipe))
