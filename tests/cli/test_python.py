"""Python equals the shell: every option of the main commands is an argument of the function of that name."""

import ast
import inspect
from pathlib import Path

import pytest
import typer
from typer.core import TyperOption

import leanformer as lf
from leanformer.cli.shared import app
from support.command import call

COMMANDS = typer.main.get_command(app).commands
PAIRS = {
    "compare": lf.compare,
    "sweep": lf.sweep,
    "measure": lf.measure,
    "design": lf.design,
    "glue": lf.glue,
    "inherit": lf.inherit,
    "explore": lf.explore,
}
NO_ARGUMENT = {
    "as_json": "it says how a result is printed: record.to_dict() is the same",
    "emit": "plan.emit(form) is the same",
    "no_browser": "browser=False is the same",
}
"""Options without an argument, and why."""
OTHER_WORD = {
    "--json": "as_json",
    "--set": "settings",
    "--regime": ("regimes", "keep"),
    "--head-dim": "head_dims",
    "--model": ("model", "models"),
    "--heads-divisible-by": "heads_multiple",
}
"""Options that are called otherwise than their argument."""


@pytest.mark.parametrize("name", PAIRS)
def test_every_option_is_an_argument(name: str) -> None:
    accepted = inspect.signature(PAIRS[name]).parameters
    options = {param.name for param in COMMANDS[name].params} - NO_ARGUMENT.keys()
    assert options <= accepted.keys(), f"lf.{name} lacks {', '.join(sorted(options - accepted.keys()))}"


@pytest.mark.parametrize("name", PAIRS)
def test_options_are_called_as_arguments_are(name: str) -> None:
    for param in COMMANDS[name].params:
        if isinstance(param, TyperOption):
            spelled = param.opts[0]
            words = OTHER_WORD.get(spelled, spelled.removeprefix("--").replace("-", "_"))
            assert param.name in ((words,) if isinstance(words, str) else words)


@pytest.mark.parametrize("name", PAIRS)
def test_the_command_calls_the_function_with_its_own_arguments(name: str) -> None:
    """There is no second way from options to results."""
    source = (Path(lf.__file__).parent / "cli" / f"{name}.py").read_text()
    (command,) = [node for node in ast.parse(source).body if isinstance(node, ast.FunctionDef) and node.name == name]
    calls = [node for node in ast.walk(command) if isinstance(node, ast.Call) and ast.unparse(node.func) == "run"]
    assert [ast.unparse(found) for found in calls] == ["run(**arguments, progress=True)"]


@pytest.mark.parametrize("name", ["compare", "sweep", "design", "measure", "inherit"])
def test_defaults_are_the_same(name: str) -> None:
    """None and nothing given mean the same: the recipe's, the weights' or the library's own choice."""
    accepted = inspect.signature(PAIRS[name]).parameters
    for param in COMMANDS[name].params:
        if param.name in accepted and param.name not in NO_ARGUMENT and not param.required:
            ours, theirs = param.default, accepted[param.name].default
            if ours not in (None, [], "") and theirs is not None:
                assert ours == theirs, param.name


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["measure", "gpt2", "--depth", "2"], "--depth goes with --heads"),
        (["design", "gpt2", "--head-dim", "x"], "--head-dim takes whole numbers from 1 on"),
        (["compare", "--out", "/proc/nothing"], "/proc/nothing cannot be written to: No such file or directory; name "),
    ],
)
def test_the_command_names_options_where_the_function_names_arguments(arguments: list[str], message: str) -> None:
    shown = call(*arguments)
    assert shown.returncode == 2
    assert shown.stderr.startswith(f"leanformer: {message}")
    assert shown.stderr.count("\n") == 1
