"""Folders of classes, for images and for texts: DIR/CLASS/*, or DIR/train/CLASS/* with or without DIR/val/CLASS/*."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from leanformer.data import checks
from leanformer.data.checks import BadData
from leanformer.data.locations import HELD_OUT, TRAIN
from leanformer.foundation.formats import counted

LITTER = frozenset({"thumbs.db", "desktop.ini", "__macosx"})
"""What systems leave in folders, beside files and folders whose names begin with a dot."""


def is_litter(path: Path) -> bool:
    return path.name.startswith(".") or path.name.lower() in LITTER


@dataclass(frozen=True)
class Kind:
    """What the folders of classes hold."""

    sample: str
    """One of it, in words: image, text."""
    endings: str
    """The endings that are read, in words."""
    is_read: Callable[[Path], bool]
    is_unread: Callable[[Path], bool] = lambda file: False
    """Whether a file is such a sample of a kind that is not read."""


@dataclass(frozen=True)
class Parts:
    """The folders of a set's splits."""

    train: Path
    held_out: Path | None
    unused: tuple[Path, ...] = ()
    """Further held-out splits."""

    @classmethod
    def of(cls, folder: Path) -> Parts:
        """By their names, in capitals or not; a folder without them holds the classes itself."""
        named = {path.name.lower(): path for path in checks.folders_in(folder)}
        train = next((named[name] for name in TRAIN if name in named), None)
        held_out = [named[name] for name in HELD_OUT if name in named]
        if train is None and held_out:
            raise BadData(f"{folder} has the folder {held_out[0].name} but no folder {TRAIN[0]}; add it, or rename one")
        return cls(train or folder, held_out[0] if held_out else None, tuple(held_out[1:]))

    def notes(self) -> list[str]:
        named = self.held_out.name if self.held_out is not None else ""
        return [f"{place.name}/ is not used: {named}/ is held out" for place in self.unused]


def holds_splits(folder: Path) -> bool:
    """Whether a folder has a training split with folders in it."""
    return any(path.name.lower() in TRAIN and checks.folders_in(path) for path in checks.folders_in(folder))


def holds_classes(folder: Path, kind: Kind) -> bool:
    """Whether a folder has a training split, or folders with samples right in them."""
    if not folder.is_dir():
        return False
    folders = folders_of_classes(folder)
    return any(path.name.lower() in TRAIN for path in folders) or any(
        kind.is_read(path) for place in folders for path in checks.entries(place)
    )


def folders_of_classes(folder: Path) -> list[Path]:
    return [path for path in checks.folders_in(folder) if not is_litter(path)]


@dataclass
class Listing:
    """Collects the samples of every class, and what else there is."""

    kind: Kind
    root: Path
    """The training split, whose folders are the classes."""
    skip_bad: bool
    """Whether unread samples, and classes without samples, are left out; if not, they are errors."""
    others: Counter[str] = field(default_factory=Counter)
    """Other files, by ending."""
    unread: Counter[str] = field(default_factory=Counter)
    """Samples of kinds that are not read, by class."""
    empty: list[str] = field(default_factory=list)
    """Classes that are left out."""
    listed: dict[Path, list[Path]] = field(default_factory=dict)
    """The files of every class."""

    def classes(self) -> tuple[str, ...]:
        """The classes that have samples."""
        folders, sample = folders_of_classes(self.root), self.kind.sample
        if not folders:
            raise BadData(
                f"{self.root} holds no folders of {sample}s; each class needs one, such as {self.root / 'cat'} with "
                f"its {sample}s ({self.kind.endings})"
            )
        self.empty = [path.name for path in folders if not any(map(self.kind.is_read, self.files(path)))]
        if self.empty and (not self.skip_bad or len(self.empty) == len(folders)):
            self._refuse_empty(folders)
        names = tuple(path.name for path in folders if path.name not in self.empty)
        if len(names) == 1 and Parts.of(folders[0]).train != folders[0]:
            raise BadData(f"{self.root} holds one folder, {names[0]}, which has the splits: give {folders[0]}")
        return names

    def _refuse_empty(self, folders: list[Path]) -> None:
        lacking = [path for path in folders if path.name in self.empty]
        if unread := [file for path in lacking for file in self.files(path) if self.kind.is_unread(file)]:
            self._refuse_unread(unread)
        more = f", nor do {len(self.empty) - 1} more folders" if len(self.empty) > 1 else ""
        raise BadData(
            f"{self.root / self.empty[0]} holds no {self.kind.sample}s ({self.kind.endings}){more}",
            "; add some, or remove the class, or set {skip_bad} to train without it",
        )

    def files(self, folder: Path) -> list[Path]:
        """The files of a class, at any depth, without what systems leave behind."""
        if folder not in self.listed:
            found = checks.files_below(folder, lambda file: True, regular_only=False) if folder.is_dir() else []
            self.listed[folder] = [
                file for file in found if not any(is_litter(Path(part)) for part in file.relative_to(folder).parts)
            ]
        return self.listed[folder]

    def labelled(self, split: Path, names: tuple[str, ...]) -> list[tuple[Path, int]]:
        """The samples of a split with their labels, class by class."""
        known = {*names, *self.empty}
        if unknown := [path for path in folders_of_classes(split) if path.name not in known]:
            raise BadData(f"{unknown[0]} is a class that {self.root} lacks")
        if outside := [path for path in checks.entries(split) if self.kind.is_read(path) and not path.is_dir()]:
            article = "an" if self.kind.sample[0] in "aeiou" else "a"
            raise BadData(
                f"{outside[0]} is {article} {self.kind.sample} outside the folders of classes; move it into one of them"
            )
        found: list[tuple[Path, int]] = []
        for label, name in enumerate(names):
            files = self.files(split / name)
            found += [(checks.regular(file), label) for file in files if self.kind.is_read(file)]
            self._note(name, [file for file in files if not self.kind.is_read(file)])
        return found

    def _note(self, name: str, others: list[Path]) -> None:
        unread = [file for file in others if self.kind.is_unread(file)]
        if unread and not self.skip_bad:
            self._refuse_unread(unread)
        self.unread[name] += len(unread)
        self.others.update(file.suffix.lower() or "no ending" for file in others if not self.kind.is_unread(file))

    def _refuse_unread(self, unread: list[Path]) -> None:
        more = f", as are {len(unread) - 1} more" if len(unread) > 1 else ""
        raise BadData(
            f"{unread[0]} is an {self.kind.sample} of a kind that is not read ({self.kind.endings} are){more}",
            f"; convert or remove it, or set {{skip_bad}} to train without such {self.kind.sample}s",
        )

    def notes(self) -> list[str]:
        """What was left out, in words."""
        sample, found = self.kind.sample, []
        if self.empty:
            found.append(f"left out: the class {', '.join(self.empty)}, which has no {sample}s")
        if unread := +self.unread:
            words = counted(unread.total(), sample)
            found.append(f"left out: {words} of kinds that are not read ({checks.by_class(unread)})")
        if others := +self.others:
            words = counted(others.total(), "file")
            found.append(f"left out: {words} not known as {sample}s ({checks.by_class(others)})")
        return found
