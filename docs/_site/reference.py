"""Makes the reference from the package itself: every command by its --help, every public name, every kind of record."""

import json
import re
from collections.abc import Iterator
from typing import Any

import typer
from mkdocs.structure.files import File, Files

import leanformer
from leanformer.cli import app
from leanformer.foundation.records import KINDS, record_class

GROUPS = {
    "The main jobs": "compare sweep glue judge design bench measure inherit train status explore",
    "Models": "create build describe architecture_of from_pretrained save_pretrained load_weights export generate "
    "attention_blocks register",
    "Measuring while a model runs": "probe track query_key_ranks trainer_callback lightning_callback",
    "What you define": "task Task Data Metric Recipe Training Grid Setting Limits Family FAMILIES TASKS RECIPES",
}
"""Public names by what they are for; the others are results."""


def on_files(files: Files, config: Any) -> Files:
    pages = {"commands": commands(), "python": python(), "records": records()}
    for name, text in pages.items():
        files.append(File.generated(config, f"reference/{name}.md", content=text))
    for kind in KINDS:
        schema = json.dumps(record_class(kind).schema_of_file(), indent=2, ensure_ascii=False)
        files.append(File.generated(config, f"reference/schemas/{kind}.json", content=schema))
    return files


def escaped(text: str) -> str:
    """Text as Markdown shows it: only `code` is markup, and it stays in its cell of a table."""
    parts = re.split(r"(`[^`]+`)", " ".join(text.split()))
    plain = [re.sub(r"([\\`*_{}\[\]<>|#])", r"\\\1", part) for part in parts[::2]]
    code = [part.replace("|", "\\|") for part in parts[1::2]]
    return "".join(text for pair in zip(plain, [*code, ""], strict=True) for text in pair)


def commands() -> str:
    lines = ["# Commands", "", "What `leanformer COMMAND --help` says. `leanformer --help` lists the commands.", ""]
    root = typer.main.get_command(app)
    for path, command in walk(root, ["leanformer"]):
        lines += [f"## {' '.join(path)}", ""]
        lines += [escaped(paragraph) + "\n" for paragraph in (command.help or "").split("\n\n")]
        lines += parameters(command)
    return "\n".join(lines)


def walk(command: Any, path: list[str]) -> Iterator[tuple[list[str], Any]]:
    children = getattr(command, "commands", {})
    if len(path) > 1:
        yield path, command
    for name, child in children.items():
        yield from walk(child, [*path, name])


def parameters(command: Any) -> list[str]:
    shown = [parameter for parameter in command.params if not getattr(parameter, "hidden", False)]
    if not shown:
        return []
    lines = ["| | value | meaning |", "|---|---|---|"]
    for parameter in shown:
        is_option = parameter.param_type_name == "option"
        names = [*parameter.opts, *parameter.secondary_opts] if is_option else [parameter.metavar or parameter.name]
        is_flag = getattr(parameter, "is_flag", False)
        value = "" if is_flag else parameter.metavar or parameter.display_type(typer.Context(command))
        spelled = " ".join(f"`{name}`" for name in names)
        lines.append(f"| {spelled} | {escaped(value)} | {escaped(getattr(parameter, 'help', '') or '')} |")
    return [*lines, ""]


def python() -> str:
    lines = ["# Python", "", "`import leanformer as lf` has these names. Each is imported when it is first used.", ""]
    grouped = {name for names in GROUPS.values() for name in names.split()}
    rest = [name for name in leanformer.__all__ if name not in grouped and name != "__version__"]
    for title, names in {**GROUPS, "Results: typed records": " ".join(rest)}.items():
        lines += [f"## {title}", ""]
        for name in names.split():
            lines += [f"::: leanformer.{leanformer._HOMES[name]}.{name}", ""]
    return "\n".join(lines)


def records() -> str:
    lines = [
        "# Records",
        "",
        "Everything that leanformer writes as JSON is a typed, versioned record. Later versions read what earlier ones "
        "wrote. `leanformer schema KIND` prints the JSON Schema of a kind.",
        "",
    ]
    for kind in KINDS:
        record = record_class(kind)
        schema = record.schema_of_file()
        summary = (record.__doc__ or "").split("\n\n")[0]
        lines += [f"## {kind}", "", f"{escaped(summary)} [JSON Schema](schemas/{kind}.json)", ""]
        lines += ["| field | meaning |", "|---|---|"]
        for name, field in schema["properties"].items():
            lines.append(f"| `{name}` | {escaped(field.get('description', ''))} |")
        lines.append("")
    return "\n".join(lines)
