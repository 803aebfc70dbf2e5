"""Labelled images in tables: parquet files, and data sets of the hub."""

from __future__ import annotations

import glob
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch

from leanformer.data import checks, hub, labels
from leanformer.data.checks import BadData
from leanformer.data.image_files import Rows
from leanformer.data.labelled_images import ImageSet, LabelledImages, Reading, split_off
from leanformer.data.locations import HELD_OUT, TRAIN, shown, split_of
from leanformer.data.tables import parquet_columns, read_parquet

LABELS = ("label", "labels", "fine_label", "class", "category", "target")
"""Usual names of the column of labels."""


def read(place: Path, listed: Sequence[Path], reading: Reading, classes: int | None) -> ImageSet:
    """Parquet files: train-*, validation-*, …; or, if none is named after a split, all of them together.

    Args:
        place: the file or the folder that was named.
        listed: the files.
        reading: how they are read.
        classes: how many a public set has; None if the data say it.
    """
    import datasets

    files: dict[str, list[Path]] = {}
    for path in listed:
        files.setdefault(split_of(path), []).append(path)
    if not files.keys() & {*TRAIN, *HELD_OUT}:
        files = {TRAIN[0]: list(listed)}
    elif not files.keys() & set(TRAIN):
        raise BadData(f"{place} holds no train-*.parquet, only {', '.join(sorted(name for name in files if name))}")
    files = {split: paths for split, paths in files.items() if split}
    places = {
        split: checks.Places(paths, [_labels_in(path, reading) for path in paths]) for split, paths in files.items()
    }
    try:
        with hub.without_progress_bars(), hub.without_messages():
            named = {split: [glob.escape(str(path)) for path in paths] for split, paths in files.items()}
            loaded = datasets.load_dataset("parquet", data_files=named)
    except Exception as error:  # the library wraps what it meets in errors of many kinds
        cause = checks.first_line(error.__cause__ or error)
        raise BadData(f"the parquet files in {place} cannot be read as one data set: {cause}") from error
    source = f"parquet files in {shown(place)}" if place.is_dir() else shown(place)
    return from_datasets(loaded, source, reading, classes, places)


def _labels_in(file: Path, reading: Reading) -> int:
    """How many labels a parquet file has. They are checked here: the library would convert what it can."""
    columns = parquet_columns(file)
    label = _label_column(columns, reading, str(file))
    values = read_parquet(file, [label])[label]
    if not values:
        raise BadData(f"{file} has no rows; remove it")
    if not labels.are_words(values):
        checks.whole_labels(values, lambda row: f"{file}, row {row}")
    return len(values)


def _label_column(columns: Sequence[str], reading: Reading, source: str) -> str:
    wanted = [reading.label_column] if reading.label_column else LABELS
    found = next((name for name in wanted if name in columns), None)
    if found is None:
        named = f" named {reading.label_column}" if reading.label_column else ""
        raise BadData(
            f"{source}: needed are a column of images and one of labels{named}, got {', '.join(columns)[:200]}"
        )
    return found


def from_datasets(
    loaded: Any,
    source: str,
    reading: Reading,
    classes: int | None,
    places: Mapping[str, checks.Where] | None = None,
) -> ImageSet:
    """A Hugging Face data set with one column of images and one of labels, which are numbers or words."""
    train = next((name for name in TRAIN if name in loaded), None)
    if train is None:
        raise BadData(f"{source} has no split named train, only {', '.join(loaded)}")
    table = _Table(loaded, source, reading, places or {}, train)
    found = table.split(train, None)
    classes = classes or len(table.names) or checks.counted_classes(found.labels.numpy(), found.place(source), source)
    names = table.names if len(table.names) == classes else ()
    held_out = [name for name in HELD_OUT if name in loaded]
    if not held_out:
        return split_off(found, classes, source, names, share=reading.held_out)
    notes = tuple(f"the split {name} is not used: {held_out[0]} is held out" for name in held_out[1:])
    return ImageSet(found, table.split(held_out[0], names), classes, source, names, notes)


class _Table:
    """A data set's columns of images and labels."""

    def __init__(
        self, loaded: Any, source: str, reading: Reading, places: Mapping[str, checks.Where], train: str
    ) -> None:
        self.loaded, self.source, self.places = loaded, source, places
        self.features = loaded[train].features
        self.label = _label_column(list(self.features), reading, source)
        image = next((key for key, kind in self.features.items() if _is_image_column(kind)), None)
        if image is None:
            raise BadData(f"{source}: needed are a column of images and one of labels, got {', '.join(self.features)}")
        self.image = image
        self.names = tuple(getattr(self.features[self.label], "names", None) or ())

    def split(self, name: str, names: Sequence[str] | None) -> LabelledImages:
        """A split; `names` are the classes of the training split, None for that itself."""
        import datasets

        split = self.loaded[name]
        if missing := [column for column in (self.image, self.label) if column not in split.features]:
            raise BadData(f"{self.source}: the split {name} lacks the column {missing[0]}, which train has")
        where = self.places.get(name) or (lambda row: f"row {row} of {name} of {self.source}")
        numbers = self._numbers(split[self.label][:], where, names)
        if isinstance(self.features[self.image], datasets.Image):
            split = split.cast_column(self.image, datasets.Image(decode=False))
        return LabelledImages(Rows(split.select_columns([self.image]), self.image, where), torch.from_numpy(numbers))

    def _numbers(self, values: Sequence[Any], where: checks.Where, names: Sequence[str] | None) -> np.ndarray:
        if not labels.are_words(values):
            return checks.whole_labels(values, where)
        if names is None:
            self.names = labels.class_names(values)
        return labels.numbered(values, self.names, where)


def _is_image_column(kind: Any) -> bool:
    """The hub's image type, or a struct with the file's bytes, which is how a file without that type stores it."""
    return type(kind).__name__ == "Image" or (isinstance(kind, dict) and "bytes" in kind)
