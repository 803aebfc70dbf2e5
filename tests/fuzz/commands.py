"""Command lines made of every command and option that the app itself has, with good and bad values."""

from __future__ import annotations

import functools
import os
import random
import shutil
import types
import typing
from pathlib import Path
from typing import Any
from unittest import mock

import typer

from fuzz import trained
from fuzz.isolation import home
from fuzz.outcome import SILENT, WORKED, Wrong, one_line
from support.command import call
from support.permissions import permissions_hold

COUNT = 600

TEXTS = [
    "",
    " ",
    "nan",
    "inf",
    "-1",
    "0",
    "1e400",
    "x",
    "é€😀",
    "[red]bold[/]",
    "[/]",
    "$x$",
    "<script>alert(1)</script>",
]
TEXTS += [
    "a" * 5000,
    "../../x",
    "/nowhere",
    "~nobody/x",
    "a\nb",
    "\\",
    "%s",
    "{}",
    "=",
    ":",
    ",",
    "--",
    "-",
    "1-",
    "-1-2",
]
TEXTS += [
    "5-1",
    "1-99999999999",
    "9" * 400,
    "0x10",
    "1_000",
    "٣",
    "1.5",
    "true",
    "null",
    "a=b",
    "heads=0",
    "heads=x",
    "1e-400",
]
TEXTS += [
    "heads=1e400",
    "depth=[1,2",
    "training.lr=nan",
    "training.steps=1e9999",
    "task.flip=7",
    "training.x=1",
    "NaN%",
    "1e400%",
]
TEXTS += [
    "training.lr=true",
    "training.batch=[1]",
    "task.dataset=5",
    "training.betas=[1]",
    "training.steps=null",
    "inf%",
    "1e308G",
]
TEXTS += [
    "regime=split",
    "heads=1,1",
    "task.shift=1,-1",
    "width=0,1",
    "x:heads=3",
    "../x:heads=2",
    "[red]:heads=2",
    "flops=1e400",
]
TEXTS += [
    "epochs=0",
    "time=0.0001s",
    "tokens=1",
    "steps=",
    "\x1b[31m",
    "!!python/object:os.system x",
    "&a [*a]",
    "{a: b}",
    "os:system",
]
NOT_NUMBERS = ["", "nan", "x", "1e400", "١x", "[red]", "$x$", "--", "1,2", "inf", "-inf", "9" * 400, "0x10", "é"]
NOT_WHOLE = [*NOT_NUMBERS, "1.5", "1e3", "-0.5", "1e400"]

SMALL: dict[str, list[str]] = {
    "compare": ["{file}:small", "--steps", "2", "--seeds", "1", "--jobs", "1", "--out", "{out}"],
    "sweep": ["{file}:small", "--vary", "heads=1,2", "--steps", "2", "--seeds", "1", "--jobs", "1", "--out", "{out}"],
    "train": ["{file}:small", "--steps", "2", "--out", "{out}"],
    "design": ["vit_tiny_patch16_224", "--batch", "2", "--out", "{out}"],
    "measure": ["{home}/comparison/lean/seed-0", "--batch", "2", "--out", "{out}"],
    "theory": [
        "--tokens",
        "8",
        "--head-dim",
        "2",
        "--heads",
        "1,2",
        "--samples",
        "2",
        "--model",
        "none",
        "--out",
        "{out}",
    ],
    "bench": [
        *("{home}/comparison/original/seed-0", "--against", "heads=1", "--batch", "2"),
        *("--seconds", "0.01", "--out", "{out}"),
    ],
    "inherit": ["{home}/comparison/original/seed-0", "--heads", "4", "--batch", "2", "--out", "{out}"],
    "status": ["{home}/comparison"],
    "jobs": ["{home}/comparison"],
    "glue": ["{home}/comparison", "--jobs", "1", "--out", "{out}"],
    "generate": ["{home}/stories", "hello", "--tokens", "3"],
    "report": ["{home}/comparison", "--out", "{out}"],
    "judge": ["{scores}", "--margin", "1", "--sequences", "20", "--out", "{out}"],
    "export": ["{home}/comparison/lean/seed-0", "--format", "pt2", "--out", "{out}.pt2"],
    "paper": ["--table", "Tab. 2", "--no-memory"],
    "recipes": [],
    "models": [],
    "schema": [],
}
"""A form of each command that takes little time; the attack changes it."""
SERVING = {"explore"}
"""Commands that run until they are stopped; tests/app attacks their server."""
GOOD: dict[str, list[str]] = {
    "--lr": ["0.01", "1e-3"],
    "--margin": ["0", "0.5"],
    "--budget": ["steps=2", "epochs=0.01", "flops", "tokens=500"],
    "--arms": ["lean", "original,lean", "original,shallow,wide"],
    "--arm": ["narrow:heads=1", "lean", "original"],
    "--lean": ["depth=1", "heads=4,regime=split"],
    "--original": ["depth=1", "heads=1"],
    "--set": ["training.clip=0.5", "task.shift=2", "training.ema=0.9"],
    "--vary": ["mlp_dim=8,16", "regime=fixed,split"],
    "--seed": ["3"],
    "--precision": ["float32", "bfloat16"],
    "--depth": ["1", "1-2"],
    "--params": ["50%", "3M"],
    "--fit": ["1GB", "90%"],
    "--macs": ["1G"],
    "--head-dim": ["8"],
    "--emit": ["timm", "yaml"],
    "--samples": ["10"],
    "--tokens": ["3"],
    "--temperature": ["0", "1"],
    "--top-k": ["1", "5"],
    "--heads": ["1,2"],
    "--projections": ["*.attn.proj"],
    "--table": ["Tab. 2"],
    "--tasks": ["sst2"],
    "--layers": ["first", "greedy", "0"],
    "--mlp-dim": ["8", "64"],
}
LONG = {
    "--sequences",
    "--max-seeds",
    "--steps",
    "--seeds",
    "--samples",
    "--batch",
    "--tokens",
    "--jobs",
    "--devices",
    "--seconds",
    "--decode",
    "--depth",
    "--head-dim",
}
"""Options for which a large number is a long job, not a mistake."""
ENVIRONMENTS: list[dict[str, str]] = [
    {"RANK": "x"},
    {"RANK": "-1"},
    {"RANK": "7"},
    {"RANK": "1", "WORLD_SIZE": "1"},
    {"WORLD_SIZE": "0"},
    {"WORLD_SIZE": "many"},
    {"WORLD_SIZE": "9" * 30},
    {"WORLD_SIZE": "2"},
    {"WORLD_SIZE": "2", "RANK": "2"},
    {"RANK": "²"},
    {"LEANFORMER_DATA": "/nowhere"},
    {"LEANFORMER_CACHE": "/proc/nothing"},
    {"COLUMNS": "0"},
    {"COLUMNS": "x"},
    {"NO_COLOR": "1"},
]


@functools.cache
def grammar() -> dict[str, list[Any]]:
    from leanformer.cli import app

    commands = typing.cast(Any, typer.main.get_command(app)).commands
    assert set(commands) - SERVING == set(SMALL), "a new command needs a small form here"
    return {name: list(command.params) for name, command in commands.items() if name in SMALL}


def _kinds(parameter: Any) -> set[Any]:
    """The types that a parameter takes."""
    annotation = parameter.type_descriptor.annotation
    if typing.get_origin(annotation) in (typing.Union, types.UnionType):
        return set(typing.get_args(annotation))
    return {annotation}


def prepare() -> None:
    trained.template()
    rows = [f"{arm},{seed},{80 + seed + len(arm) / 10}" for arm in ("original", "lean") for seed in range(4)]
    (home() / "scores.csv").write_text("\n".join(["arm,seed,score", *rows]) + "\n")


def trial(draw: random.Random) -> tuple[str, str]:
    command = draw.choice(["compare", "sweep", "train", "design", "measure", *SMALL])
    out = home() / "out"
    trained.remove(out)
    trained.remove(home() / "given")
    shutil.copytree(trained.template(), home() / "given")  # a command may write into the folders that it is given
    places = dict(home=home() / "given", file=home() / "tiny.py", scores=home() / "scores.csv", out=out)
    words = [word.format(**places) for word in SMALL[command]]
    refused: dict[str, bool] = {}
    for _ in range(draw.choice([0, 1, 1, 1, 2, 3])):
        parameter = draw.choice(grammar()[command])
        words, refused[parameter.name] = _changed(draw, words, parameter)
    if draw.random() < 0.05:
        words.append(draw.choice(["--nonsense", "-x", "extra", "--json=1", "--out", "--help"]))
    environment = draw.choice(ENVIRONMENTS) if draw.random() < 0.15 else {}
    return _called([command, *words], environment, any(refused.values()))


def _changed(draw: random.Random, words: list[str], parameter: Any) -> tuple[list[str], bool]:
    """The words with another value for a parameter, and whether that must be refused."""
    if not parameter.opts[0].startswith("-"):
        value = draw.choice([*TEXTS, "digits", "vit_tiny_patch16_224", "schema", "plan"])
        return ([value, *words[1:]] if words and not words[0].startswith("-") else [value, *words]), False
    option = parameter.opts[0]
    if parameter.is_flag:
        return [*words, draw.choice([*parameter.opts, *parameter.secondary_opts])], False
    kinds, must_refuse = _kinds(parameter), False
    if option in GOOD and draw.random() < 0.3:
        value = draw.choice(GOOD[option])
    elif int in kinds:
        least = parameter.min
        value = draw.choice([*NOT_WHOLE, *([str(least - 1), "-7"] if least is not None else [])])
        must_refuse = True
    elif float in kinds:
        value, must_refuse = draw.choice([*NOT_NUMBERS, "-1"]), True
    elif Path in kinds:
        value = draw.choice(_paths())
    else:
        value = draw.choice([text for text in TEXTS if option not in LONG or text != "1-99999999999"])
    if option in words and not parameter.multiple:
        at = words.index(option)
        return [*words[:at], option, value, *words[at + 2 :]], must_refuse
    return [*words, option, value], must_refuse


def _paths() -> list[str]:
    """Places that are not what is needed, and some that cannot be written to."""
    place = home() / "given"
    file = home() / "corpus.txt"
    pipe, closed = home() / "pipe.png", home() / "closed"
    if not pipe.exists():
        os.mkfifo(pipe)
        (closed / "inside").mkdir(parents=True)
        (home() / "closed.csv").write_text("arm,seed,score\n")
        for path in (home() / "closed.csv", closed):
            path.chmod(0)
    return [
        "",
        "/nowhere/x",
        "/proc/nothing",
        "/dev/null",
        "/dev/null/x",
        str(file),
        f"{file}/x",
        str(pipe),
        str(closed),
        str(closed / "inside"),
        str(home() / "closed.csv"),
        "a" * 300,
        *("\x00", "é€", "[red]", "$x$", "~nobody/x", str(place), str(place / "comparison"), str(place / "stories")),
        str(place / "comparison" / "lean" / "seed-0" / "result.json"),
    ]


def _called(words: list[str], environment: dict[str, str], must_refuse: bool) -> tuple[str, str]:
    what = f"{' '.join(f'{key}={value}' for key, value in environment.items())} leanformer {words}"[:600]
    home_work = home() / "work"
    os.chdir(home_work)
    try:
        with mock.patch.dict(os.environ, environment), trained.without_figures(), permissions_hold():
            shown = call(*words)
            trained.check(shown, what)
    except ValueError as error:
        return one_line(error), what
    except Wrong:
        raise
    except Exception as error:
        error.add_note(what)
        raise
    if must_refuse and "--help" not in words:
        raise Wrong(SILENT, f"accepted: {what}")
    if not shown.stdout.strip() and words[0] != "report":
        raise Wrong(SILENT, f"nothing was printed: {what}")
    return WORKED, what
