"""Where local data sets are: the data folder, and how a path from the user becomes a task's settings."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from leanformer.data.checks import printable

VARIABLE = "LEANFORMER_DATA"
"""Environment variable that names the data folder, for calls without `root`."""
TRAIN = ("train", "training")
HELD_OUT = ("val", "validation", "valid", "dev", "test", "testing")
"""Names of the splits, in files and in folders; of the held-out ones, the first that exists is taken."""
HUB = re.compile(r"[\w.-]+/[\w.-]+")
"""The name of a data set on the hub."""


def data_root(root: str | None = None) -> Path | None:
    """The folder with local data sets: `root`, else LEANFORMER_DATA; None where neither is given."""
    given = root or os.environ.get(VARIABLE)
    if not given:
        return None
    folder = Path(given).expanduser()
    if not folder.is_dir():
        raise ValueError(f"the data folder {given} does not exist; it was given as {'root' if root else VARIABLE}")
    return folder


def in_root(names: Sequence[str], root: str | None = None) -> Path | None:
    """The first of these folders that the data folder contains."""
    folder = data_root(root)
    return next((folder / name for name in names if (folder / name).is_dir()), None) if folder is not None else None


def find_folder(dataset: str, root: str | None = None) -> Path | None:
    """A data set's folder on this machine: its own path, or the folder of that name in the data folder."""
    path = Path(dataset).expanduser()
    return path if path.is_dir() else in_root((dataset,), root)


def needed(folder: str, root: str | None = None) -> str:
    """In words, where a data set's folder is looked for."""
    place = data_root(root)
    return f"the folder {folder} in {place if place is not None else f'a data folder (root or {VARIABLE})'}"


def shown(path: Path) -> str:
    """A path as records name it: below the data folder, by that folder's variable."""
    root = os.environ.get(VARIABLE)
    if root and path.resolve().is_relative_to(Path(root).resolve()):
        return printable(str(Path(f"${VARIABLE}") / path.resolve().relative_to(Path(root).resolve())))
    return printable(str(path))


def settings_for(
    path: str | Path, names: Sequence[str], holds: Callable[[Path], bool] | None, contents: str = ""
) -> dict[str, Any]:
    """The settings, `root` or `dataset`, by which a task reads the data at a user's path. The path is made absolute.

    Args:
        path: a file or a folder; or, if there is none, the name of a data set on the hub.
        names: folders of the public data set that the task reads now; none if its data are embedded or the user's own.
        holds: whether a path that does not contain the public set is a data set by itself; None if the task reads
            nothing but its public set.
        contents: in words, what a data set of one's own consists of.
    """
    place = Path(path).expanduser().resolve()
    if not place.exists():
        if holds is not None and HUB.fullmatch(str(path)) and not str(path).startswith("."):
            return {"dataset": str(path)}
        raise ValueError(f"there is no file or folder {path}")
    if any((place / name).is_dir() for name in names):
        return {"root": str(place)}
    if place.name in names and place.is_dir():
        return {"root": str(place.parent)}
    if holds is not None and (not names or holds(place)):  # whether data of one's own are whole, reading them says
        return {"dataset": str(place)}
    own = f", or {contents}" if holds is not None else ""
    raise ValueError(f"{path} does not contain the data: needed is the folder {names[0]}{own}")


def files_in(folder: Path) -> list[Path]:
    """What a data set's folder contains, with the folder below it where the hub's copies have their files."""
    return [file for place in (folder, folder / "data", folder / "plain_text") for file in sorted(place.glob("*"))]


def split_of(file: Path, below: Path | None = None) -> str:
    """The split that a file belongs to by its name, such as train-0.csv or x_val.txt, or by a folder's; else "".

    Args:
        file: its name begins or ends with the split's name.
        below: folders between this one and the file count too, if they are named after a split.
    """
    if below is not None:
        for folder in file.relative_to(below).parts[:-1]:
            if folder.lower() in (*TRAIN, *HELD_OUT):
                return folder.lower()
    words = re.split(r"[-_. ]", file.name.lower())[:-1] or [file.name.lower()]
    return next((word for word in (words[0], words[-1]) if word in (*TRAIN, *HELD_OUT)), "")
