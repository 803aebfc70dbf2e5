"""Damage to every kind of file of trained folders: a command heals it to the true answer, or refuses in one line."""

from __future__ import annotations

import json
import os
import random
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

from fuzz import trained
from fuzz.outcome import HEALED, one_line
from support.permissions import permissions_hold

COUNT = 1_000

WEIRD: list[Any] = [
    None,
    True,
    0,
    -1,
    10**40,
    1e308,
    -1e308,
    1.5,
    "",
    "x",
    "../../x",
    "/etc/passwd",
    "[red]x[/]",
    "$x$",
]
WEIRD += [
    "<script>",
    "a\nb",
    "\x00",
    "é" * 3000,
    [],
    {},
    [[]],
    {"a": 1},
    "inf",
    "nan",
    "-inf",
    float("nan"),
    float("inf"),
]


def _json(change: Callable[[random.Random, Any], Any]) -> Callable[[random.Random, Path, Path], None]:
    """A change of the plain values of a JSON file, or of one line of a file of JSON lines."""

    def spoil(draw: random.Random, file: Path, place: Path) -> None:
        if file.suffix == ".jsonl":
            lines = file.read_text().splitlines()
            chosen = draw.randrange(len(lines))
            lines[chosen] = json.dumps(change(draw, json.loads(lines[chosen])))
            file.write_text("\n".join(lines) + "\n")
        else:
            file.write_text(json.dumps(change(draw, json.loads(file.read_text())), indent=1))

    return spoil


def _places(value: Any) -> list[tuple[Any, Any]]:
    """Every container with every key in it."""
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    return [place for key, item in items for place in [(value, key), *_places(item)]]


def _replace(draw: random.Random, value: Any) -> Any:
    if places := _places(value):
        container, key = draw.choice(places)
        container[key] = draw.choice(WEIRD)
    return value


def _nudge(draw: random.Random, value: Any) -> Any:
    """A number that is as plausible as the true one."""
    numbers = [(c, k) for c, k in _places(value) if isinstance(c[k], (int, float)) and not isinstance(c[k], bool)]
    if not numbers:
        return _replace(draw, value)
    container, key = draw.choice(numbers)
    container[key] += 1
    return value


def _forget(draw: random.Random, value: Any) -> Any:
    if places := _places(value):
        container, key = draw.choice(places)
        del container[key]
    return value


def _add(draw: random.Random, value: Any) -> Any:
    if isinstance(value, dict):
        value[draw.choice(["unknown", "../x", "[red]", "", "version", "kind"])] = draw.choice(WEIRD)
    return value


def _newer(draw: random.Random, value: Any) -> Any:
    return (
        {**value, "version": draw.choice([99, 10**30, 0, -1, "2", None, 1.5, True])} if isinstance(value, dict) else 3
    )


def _bytes(change: Callable[[random.Random, bytes], bytes]) -> Callable[[random.Random, Path, Path], None]:
    def spoil(draw: random.Random, file: Path, place: Path) -> None:
        file.write_bytes(change(draw, file.read_bytes()))

    return spoil


def _flip(draw: random.Random, content: bytes) -> bytes:
    changed = bytearray(content or b"x")
    for _ in range(draw.choice([1, 1, 1, 5, 50])):
        changed[draw.randrange(len(changed))] ^= 1 << draw.randrange(8)
    return bytes(changed)


def _other_seed(draw: random.Random, file: Path, place: Path) -> None:
    """The file of the same name of another seed, arm or step."""
    others = [path for path in place.rglob(file.name) if path != file and path.is_file()]
    if others:
        shutil.copyfile(draw.choice(others), file)
    else:
        file.unlink()


def _other_folder(draw: random.Random, file: Path, place: Path) -> None:
    """The whole folder of the file becomes a sibling's."""
    others = [path for path in place.rglob(file.parent.name) if path != file.parent and path.is_dir()]
    others += [path for path in file.parent.parent.iterdir() if path.is_dir() and path != file.parent]
    if others and file.parent != place:
        chosen = _copied(draw.choice(others), place)
        shutil.rmtree(file.parent)
        shutil.move(chosen, file.parent)
    else:
        file.unlink()


def _copied(folder: Path, place: Path) -> Path:
    return Path(shutil.copytree(folder, place.parent / "moved", dirs_exist_ok=True))


def _instead(make: Callable[[Path], None]) -> Callable[[random.Random, Path, Path], None]:
    def spoil(draw: random.Random, file: Path, place: Path) -> None:
        file.unlink()
        make(file)

    return spoil


def _without_permission(draw: random.Random, file: Path, place: Path) -> None:
    draw.choice([file, file.parent]).chmod(0)


DAMAGES: dict[str, Callable[[random.Random, Path, Path], None]] = {
    "cut": _bytes(lambda draw, content: content[: draw.randrange(len(content) + 1)]),
    "emptied": _bytes(lambda draw, content: b""),
    "flipped": _bytes(_flip),
    "zeroed": _bytes(lambda draw, content: bytes(len(content))),
    "prolonged": _bytes(lambda draw, content: content + draw.randbytes(20)),
    "in UTF-16": _bytes(lambda draw, content: content.decode("latin1").encode("utf-16")),
    "with a byte-order mark": _bytes(lambda draw, content: b"\xef\xbb\xbf" + content),
    "nested": _bytes(lambda draw, content: b"[" * 100_000),
    "another value": _json(_replace),
    "another number": _json(_nudge),
    "lacking": _json(_forget),
    "with more": _json(_add),
    "of another version": _json(_newer),
    "deleted": _instead(lambda file: None),
    "a folder": _instead(lambda file: file.mkdir()),
    "a pipe": _instead(os.mkfifo),
    "a loop": _instead(lambda file: file.symlink_to(file)),
    "a link to nothing": _instead(lambda file: file.symlink_to("/nowhere/else")),
    "a link to zeros": _instead(lambda file: file.symlink_to("/dev/zero")),
    "another seed's": _other_seed,
    "another folder": _other_folder,
    "without permission": _without_permission,
}
JSON_ONLY = {"another value", "another number", "lacking", "with more", "of another version"}


RELEVANT: dict[str, tuple[str, ...]] = {
    "report": ("plan.json", "*/seed-*/result.json", "*/seed-*/timing.jsonl"),
    "train": ("lean/seed-1/**/*",),
    "measure": ("lean/seed-1/run.json", "lean/seed-1/model/*"),
    "rank": ("original/seed-0/run.json", "original/seed-0/model/*"),
    "report sweep": (
        "*.json",
        "*/plan.json",
        "*/*/seed-*/result.json",
        "*/*/seed-*/timing.jsonl",
        "*/*/seed-*/model/*",
    ),
    "generate": ("run.json", "model/*"),
    "report record": ("comparison.json",),
    "report sweep record": ("sweep.json",),
}
"""The files that a command reads, where it does not read all."""


def _target(draw: random.Random, command: str, folder: Path) -> Path:
    """A file of the folder, each kind as often as any other; mostly one that the command reads."""
    patterns = RELEVANT.get(command, ("**/*",)) if draw.random() < 0.9 else ("**/*",)
    files = sorted({path for pattern in patterns for path in folder.glob(pattern) if path.is_file()})
    kind = draw.choice(sorted({path.name for path in files}))
    return draw.choice([path for path in files if path.name == kind])


def prepare() -> None:
    trained.template()


def trial(draw: random.Random) -> tuple[str, str]:
    command = draw.choice(list(trained.COMMANDS))
    trained.truth(command)
    with trained.copy() as place:
        folder = place / trained.FOLDERS.get(command, "comparison")
        if command in ("compare", "train", "sweep") and draw.random() < 0.6:
            _interrupt(draw, folder)
        file = _target(draw, command, folder)
        textual = file.suffix in (".json", ".jsonl")
        damage = draw.choice([name for name in DAMAGES if textual or name not in JSON_ONLY])
        if _is_whole(command, file, folder, damage):
            damage = "cut"
        what = f"{command}, {file.relative_to(place)} {damage}"
        DAMAGES[damage](draw, file, place)
        try:
            with permissions_hold():
                found = trained.answer(command, place)
        except ValueError as error:
            return one_line(error, str(place)), what
        except Exception as error:
            error.add_note(what)
            raise
        unfinished = command.startswith("report") and not file.exists() and file.name == "result.json"
        trained.compare_with_truth(command, found, what, unfinished)
    return HEALED, what


def _is_whole(command: str, file: Path, folder: Path, damage: str) -> bool:
    """Whether an exchange leaves a whole run or a whole record, of which nothing says that it should be another.

    A record that is named by itself is whole whatever it says. A run's folder is whole with all of its files, and so is
    the folder of a comparison or sweep.
    """
    if damage == "another seed's":
        return command.endswith("record") and file.parent == folder
    run = {"train": "lean/seed-1", "measure": "lean/seed-1", "rank": "original/seed-0"}.get(command)
    return damage == "another folder" and file.parent in (folder, folder / run if run else folder)


def _interrupt(draw: random.Random, folder: Path) -> None:
    """Some runs are not finished: their checkpoints are used."""
    for result in sorted(folder.rglob("result.json")):
        if draw.random() < 0.7:
            result.unlink()
            for model in (result.parent / "model").glob("*"):
                model.unlink()
            last = max(result.parent.glob("checkpoints/step-*"), default=None)
            if last is not None and draw.random() < 0.5:
                shutil.rmtree(last)
