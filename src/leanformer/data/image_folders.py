"""Folders of classes: DIR/train/CLASS/* with DIR/val/CLASS/*, or DIR/CLASS/*, of which a share is held out here."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path

import torch

from leanformer.data import checks
from leanformer.data.checks import BadData
from leanformer.data.image_files import SHOWN, Files, is_image, is_litter, is_unread_image
from leanformer.data.labelled_images import ImageSet, LabelledImages, Reading, split_off
from leanformer.data.locations import HELD_OUT, TRAIN, shown
from leanformer.foundation.formats import counted


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


def holds_splits(folder: Path) -> bool:
    """Whether a folder has a training split with folders in it."""
    return any(path.name.lower() in TRAIN and checks.folders_in(path) for path in checks.folders_in(folder))


def holds_classes(folder: Path, below: bool = False) -> bool:
    """Whether a folder has splits, or folders with images right in them; with `below`, or with any folders in them."""
    if not folder.is_dir():
        return False
    folders = [path for path in checks.folders_in(folder) if _is_class(path)]
    if below and folders:
        return True
    return any(path.name.lower() in TRAIN for path in folders) or any(
        is_image(path) for place in folders for path in checks.entries(place)
    )


def read(folder: Path, reading: Reading) -> ImageSet:
    """The labelled images of a folder that has the splits, or the classes."""
    parts, source = Parts.of(folder), f"the folder {shown(folder)}"
    listing = Listing(parts.train, reading.skip_bad)
    names = listing.classes()
    train = listing.labelled(parts.train, names)
    if parts.held_out is None:
        return split_off(train, len(names), source, names, tuple(listing.notes()), reading.held_out)
    found = listing.labelled(parts.held_out, names)
    unused = [f"{place.name}/ is not used: {parts.held_out.name}/ is held out" for place in parts.unused]
    return ImageSet(train, found, len(names), source, names, (*listing.notes(), *unused))


@dataclass
class Listing:
    """Collects the images of every class, and what else there is."""

    root: Path
    """The training split, whose folders are the classes."""
    skip_bad: bool
    others: Counter[str] = field(default_factory=Counter)
    """Files that are not images, by ending."""
    unread: Counter[str] = field(default_factory=Counter)
    """Images of kinds that are not read, by class; left out if bad ones may be."""
    empty: list[str] = field(default_factory=list)
    """Classes that are left out."""
    listed: dict[Path, list[Path]] = field(default_factory=dict)
    """The files of every class."""

    def classes(self) -> tuple[str, ...]:
        """The classes that have images."""
        folders = [path for path in checks.folders_in(self.root) if _is_class(path)]
        if not folders:
            raise BadData(
                f"{self.root} holds no folders of images; each class needs one, such as {self.root / 'cat'} with "
                f"its images ({SHOWN})"
            )
        self.empty = [path.name for path in folders if not any(is_image(file) for file in self.files(path))]
        if self.empty and (not self.skip_bad or len(self.empty) == len(folders)):
            self._refuse_empty(folders)
        names = tuple(path.name for path in folders if path.name not in self.empty)
        if len(names) == 1 and Parts.of(folders[0]).train != folders[0]:
            raise BadData(f"{self.root} holds one folder, {names[0]}, which has the splits: give {folders[0]}")
        return names

    def _refuse_empty(self, folders: list[Path]) -> None:
        lacking = [path for path in folders if path.name in self.empty]
        if unread := [file for path in lacking for file in self.files(path) if is_unread_image(file)]:
            self._refuse_unread(unread)
        more = f", and so do {len(self.empty) - 1} more folders" if len(self.empty) > 1 else ""
        raise BadData(
            f"{self.root / self.empty[0]} holds no images ({SHOWN}){more}; add some, or remove the class, or set "
            f"skip_bad to train without it"
        )

    def labelled(self, split: Path, names: tuple[str, ...]) -> LabelledImages:
        """The images of a split, class by class."""
        listed = checks.entries(split)
        known = {*names, *self.empty}
        if unknown := sorted(
            path.name for path in listed if path.is_dir() and _is_class(path) and path.name not in known
        ):
            raise BadData(f"{split / unknown[0]} is a class that {self.root} lacks")
        if outside := [path for path in listed if is_image(path) and not path.is_dir()]:
            raise BadData(f"{outside[0]} is an image outside the folders of classes; move it into one of them")
        found: list[tuple[Path, int]] = []
        for label, name in enumerate(names):
            files = self.files(split / name)
            found += [(checks.regular(file), label) for file in files if is_image(file)]
            self._note(name, [file for file in files if not is_image(file)])
        labels = torch.tensor([label for _, label in found], dtype=torch.int64)
        return LabelledImages(Files([file for file, _ in found]), labels)

    def files(self, folder: Path) -> list[Path]:
        """The files of a class, at any depth, without what systems leave behind."""
        if folder not in self.listed:
            found = checks.files_below(folder, lambda file: True, regular_only=False) if folder.is_dir() else []
            self.listed[folder] = [
                file for file in found if not any(is_litter(Path(part)) for part in file.relative_to(folder).parts)
            ]
        return self.listed[folder]

    def _note(self, name: str, others: list[Path]) -> None:
        unread = [file for file in others if is_unread_image(file)]
        if unread and not self.skip_bad:
            self._refuse_unread(unread)
        self.unread[name] += len(unread)
        self.others.update(file.suffix.lower() or "no ending" for file in others if not is_unread_image(file))

    def _refuse_unread(self, unread: list[Path]) -> None:
        more = f", as are {len(unread) - 1} more" if len(unread) > 1 else ""
        raise BadData(
            f"{unread[0]} is an image of a kind that is not read ({SHOWN} are){more}; convert or remove it, or set "
            f"skip_bad to train without such images"
        )

    def notes(self) -> list[str]:
        """What was left out, in words."""
        found = []
        if self.empty:
            found.append(f"left out: the class {', '.join(self.empty)}, which has no images")
        if unread := +self.unread:
            words = counted(unread.total(), "image")
            found.append(f"left out: {words} of kinds that are not read ({checks.by_class(unread)})")
        if others := +self.others:
            words = counted(others.total(), "file")
            found.append(f"left out: {words} not known as images ({checks.by_class(others)})")
        return found


def _is_class(path: Path) -> bool:
    return not is_litter(path) and path.name != "__MACOSX"
