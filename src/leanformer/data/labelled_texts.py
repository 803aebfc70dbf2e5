"""Texts with labels, one by one or in pairs: IMDb, AAN, or parquet and tsv files of one's own."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from leanformer.data import hub
from leanformer.data.corpora import is_held_out
from leanformer.data.locations import files_in, find_folder, needed, shown

TextRow = tuple[str, int]
"""A text and its label."""
PairRow = tuple[str, str, int]
"""Two texts and their label."""

HUB = {"imdb": "stanfordnlp/imdb"}
"""Sets known by name, and where the hub has them."""
PAIRS = ("aan",)
"""Sets of pairs known by name. The hub has none of them."""
ENDINGS = (".parquet", ".tsv")

PAIR_COLUMNS = ("label", "first", "second", "first_text", "second_text")
"""Of AAN's files, which have no header: a label, two papers' names, two texts."""
PAIR_FILES = {"train": "train", "validation": "eval", "test": "test"}
"""new_aan_pairs.train.tsv, .eval.tsv and .test.tsv."""


@dataclass(frozen=True)
class LabelledTexts:
    """Texts for training, for curves and for the score."""

    train: list[TextRow]
    validation: list[TextRow]
    """Taken from the training texts: each text's content decides, so that copies are never on both sides."""
    test: list[TextRow]
    classes: int
    source: str


@dataclass(frozen=True)
class LabelledPairs:
    """Pairs of texts for training, for curves and for the score."""

    train: list[PairRow]
    validation: list[PairRow]
    test: list[PairRow]
    source: str


def find(dataset: str, root: str | None = None) -> LabelledTexts:
    """The texts of that name or in that folder; `root` is the data folder [default: LEANFORMER_DATA]."""
    folder = find_folder(dataset, root)
    if folder is None and (Path(dataset).exists() or dataset.startswith(("/", ".", "~"))):
        raise ValueError(f"{dataset} is not a folder; needed is a folder with train and test files (.parquet or .tsv)")
    if folder is None:
        rows, source = _from_hub(dataset, root)
    else:
        rows = {split: list(_read_split(folder, split)) for split in ("train", "test")}
        source = f"{dataset} in {shown(folder)}"
    if not rows["train"]:
        raise ValueError(f"{source}: there are no training texts")
    classes = 1 + max(label for _, label in rows["train"])
    for split, listed in rows.items():
        if wrong := next(((n, label) for n, (_, label) in enumerate(listed) if not 0 <= label < classes), None):
            raise ValueError(f"{source}: {split} row {wrong[0]} has label {wrong[1]}; training has 0 to {classes - 1}")
    validation = [row for row in rows["train"] if is_held_out(row[0])]
    train = [row for row in rows["train"] if not is_held_out(row[0])]
    if not train or not validation or not rows["test"]:
        raise ValueError(f"{source}: {len(rows['train'])} training and {len(rows['test'])} test texts are too few")
    return LabelledTexts(train, validation, rows["test"], classes, source)


def find_pairs(dataset: str, root: str | None = None) -> LabelledPairs:
    """The pairs of that name or in that folder."""
    folder = find_folder(dataset, root)
    if folder is None:
        raise hub.NotAvailable(
            f"{dataset} is not on this machine, and the hub does not have it. Needed is {needed(dataset, root)} with "
            f"the Long-Range Arena's new_aan_pairs.train.tsv, .eval.tsv and .test.tsv"
        )
    train, validation, test = (_read_pairs(folder, word) for word in PAIR_FILES.values())
    return LabelledPairs(train, validation, test, f"pairs of documents in {shown(folder)}")


def holds_texts(path: Path) -> bool:
    """Whether a folder is a set of labelled texts by itself."""
    return any(file.name.startswith("train") and file.suffix in ENDINGS for file in files_in(path))


def holds_pairs(path: Path) -> bool:
    """Whether a folder is a set of labelled pairs by itself."""
    return any("train" in file.name and file.suffix == ".tsv" for file in files_in(path))


# Splits


def _files(folder: Path, split: str) -> list[Path]:
    return sorted(file for file in folder.rglob(f"{split}*") if file.suffix in ENDINGS)


def _read_split(folder: Path, split: str) -> Iterator[TextRow]:
    """Texts and labels of a split's parquet or tsv files."""
    files = _files(folder, split)
    if not files:
        raise ValueError(f"{folder} holds no {split} file (.parquet or .tsv)")
    for file in files:
        if file.suffix == ".tsv":
            for line, row in read_tsv(file, ("text", "label")):
                yield row["text"], whole_number(row["label"], file, line)
        else:
            rows = read_parquet(file, ("text", "label"))
            for number, (text, label) in enumerate(zip(rows["text"], rows["label"], strict=True)):
                if not isinstance(text, str) or not isinstance(label, int):
                    raise ValueError(
                        f"{file}, row {number}: needed are a text and a whole number, got {text!r:.40} and {label!r}"
                    )
                yield text, label


def _read_pairs(folder: Path, word: str) -> list[PairRow]:
    files = sorted(folder.rglob(f"*{word}*.tsv"))
    if not files:
        raise ValueError(f"{folder} holds no {word} file (*.{word}.tsv)")
    rows = []
    for file in files:
        for line, row in read_tsv(file, PAIR_COLUMNS, header=False):
            label = whole_number(row["label"], file, line)
            if label not in (0, 1):
                raise ValueError(f"{file}, line {line}: a label is 0 or 1, got {label}")
            rows.append((row["first_text"], row["second_text"], label))
    if not rows:
        raise ValueError(f"{files[0]} is empty")
    return rows


def _from_hub(name: str, root: str | None) -> tuple[dict[str, list[TextRow]], str]:
    repository = HUB.get(name, name)
    wanted = f"{needed(name, root)} with train and test files (.parquet or .tsv)"
    loaded = hub.load_dataset(repository, what=name, needed=wanted)
    rows = {split: list(zip(loaded[split]["text"], loaded[split]["label"], strict=True)) for split in ("train", "test")}
    return rows, f"{repository} from the hub"


# Tables


def read_parquet(file: Path, columns: tuple[str, ...]) -> dict[str, list[object]]:
    """Columns of a parquet file."""
    import pyarrow.parquet as pq

    names = pq.read_schema(file).names
    if missing := set(columns) - set(names):
        raise ValueError(f"{file} lacks the column {', '.join(sorted(missing))}; it has {', '.join(names)}")
    table = pq.read_table(file, columns=list(columns))
    return {column: table[column].to_pylist() for column in columns}


def read_tsv(file: Path, columns: tuple[str, ...], header: bool = True) -> Iterator[tuple[int, dict[str, str]]]:
    """Rows of a tab-separated file with their line numbers. A row with another number of columns is an error."""
    try:
        with file.open(encoding="utf-8") as opened:
            rows = (line.rstrip("\n").split("\t") for line in opened)  # csv limits fields, for the whole process
            names = next(rows, None) if header else list(columns)
            if names is None:
                raise ValueError(f"{file} is empty")
            if missing := [column for column in columns if column not in names]:
                raise ValueError(f"{file} lacks the column {', '.join(missing)}; its first line has {', '.join(names)}")
            for line, row in enumerate(rows, start=2 if header else 1):
                if len(row) != len(names):
                    raise ValueError(
                        f"{file}, line {line}: {len(row)} columns instead of {len(names)} ({', '.join(names)})"
                    )
                yield line, dict(zip(names, row, strict=True))
    except UnicodeDecodeError as error:
        found = error.object[error.start]
        raise ValueError(f"{file} is not UTF-8: byte {found:#04x}; convert it first") from error


def whole_number(text: str, file: Path, line: int) -> int:
    try:
        return int(float(text))
    except ValueError:
        raise ValueError(f'{file}, line {line}: a label must be a number, got "{text}"') from None
