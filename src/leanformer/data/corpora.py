"""Where texts come from: Python's own documentation, files, folders, parquet or the hub.

A document belongs to the held-out part if its own content says so (a hash), so that copies of one text are never on
both sides. Documents are read one at a time: nothing needs to fit into memory. May import datasets, late.
"""

from __future__ import annotations

import hashlib
import itertools
import os
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from leanformer.data.locations import shown

END = "<|endoftext|>"
"""What separates documents in a text file, as in the files of TinyStories."""
ENDINGS = (".txt", ".md", ".rst", ".text")
HELD_OUT = ("validation", "valid", "val", "test")
SHARE = 10
"""One document in so many is held out where the source has no such part."""


@dataclass(frozen=True)
class KnownCorpus:
    """A public corpus."""

    folders: tuple[str, ...]
    hub: str
    streamed: bool = False
    """Too large to be downloaded whole."""


CORPORA = {
    "tinystories": KnownCorpus(("TinyStories", "tinystories"), "roneneldan/TinyStories"),
    "pile": KnownCorpus(("pile", "the_pile"), "monology/pile-uncopyrighted", streamed=True),
}
"""Corpora known by name, beside `pydoc`, the documentation that Python brings. Any other name is a file or a folder."""


@dataclass(frozen=True)
class Corpus:
    """Documents for training and held out from it, each read anew at every call."""

    train: Callable[[], Iterator[str]]
    held_out: Callable[[], Iterator[str]]
    source: str
    identity: str
    """Changes when the documents do: names cached tokens."""


def find(name: str, root: str | None = None) -> Corpus:
    """The documents of that name; `root` is the folder with local data sets [default: LEANFORMER_DATA]."""
    if name == "pydoc":
        return _split(pydoc, "Python's own documentation", "pydoc")
    known = CORPORA.get(name)
    if known is None:
        return _from_path(Path(name).expanduser())
    root = root or os.environ.get("LEANFORMER_DATA")
    if root is not None and not Path(root).is_dir():
        raise ValueError(f"the data folder {root} does not exist (--data or LEANFORMER_DATA)")
    for folder in known.folders:
        if root is not None and (Path(root) / folder).is_dir():
            return _from_path(Path(root) / folder)
    return _from_hub(name, known, root)


def pydoc() -> Iterator[str]:
    """The language's own documentation, topic by topic: English that every Python carries."""
    from pydoc_data.topics import topics  # type: ignore[import-not-found]

    for topic in sorted(topics):
        yield topics[topic]


def _from_path(path: Path) -> Corpus:
    if path.is_file():
        return _from_files([path], shown(path))
    if not path.is_dir():
        raise ValueError(
            f"{path} is neither a file nor a folder, and no corpus of that name is known (pydoc, {', '.join(CORPORA)})"
        )
    tables = sorted(path.rglob("*.parquet"))
    if tables:
        held_out = [table for table in tables if table.name.split("-")[0].removesuffix(".parquet") in HELD_OUT]
        train = [table for table in tables if table not in held_out]
        return _of_parts(train, held_out, _from_parquet, f"parquet files in {shown(path)}")
    files = sorted(file for file in path.rglob("*") if file.suffix.lower() in ENDINGS)
    if not files:
        raise ValueError(f"{path} holds no texts ({', '.join(ENDINGS)} or .parquet)")
    return _from_files(files, f"{len(files)} files in {shown(path)}")


def _from_files(files: list[Path], source: str) -> Corpus:
    held_out = [file for file in files if any(word in file.stem.lower().split("-") for word in HELD_OUT)]
    return _of_parts([file for file in files if file not in held_out], held_out, _from_text, source)


def _of_parts(train: list[Path], held_out: list[Path], read: Any, source: str) -> Corpus:
    if not train:
        raise ValueError(f"{source}: there is nothing to train on, only {', '.join(file.name for file in held_out)}")
    identity = _identity([*train, *held_out])
    if not held_out:
        return _split(lambda: _chained(train, read), source, identity)
    return Corpus(lambda: _chained(train, read), lambda: _chained(held_out, read), source, identity)


def _chained(files: Iterable[Path], read: Callable[[Path], Iterator[str]]) -> Iterator[str]:
    return itertools.chain.from_iterable(map(read, files))


def _from_text(file: Path) -> Iterator[str]:
    """Documents of a text file: between marks of an end where there are any, else paragraphs."""
    try:
        text = file.read_text(encoding="utf-8")
    except UnicodeDecodeError as error:
        found = error.object[error.start]
        raise ValueError(f"{file} is not UTF-8: byte {error.start} is {found:#04x}; convert it first") from error
    pieces = text.split(END) if END in text else text.split("\n\n")
    yield from (piece.strip() for piece in pieces if piece.strip())


def _from_parquet(file: Path) -> Iterator[str]:
    import pyarrow.parquet as pq

    table = pq.ParquetFile(file)
    if "text" not in table.schema_arrow.names:
        raise ValueError(f"{file} has the columns {', '.join(table.schema_arrow.names)}; needed is one named text")
    for batch in table.iter_batches(columns=["text"]):
        yield from (text for text in batch.column(0).to_pylist() if text and text.strip())


def _from_hub(name: str, known: KnownCorpus, root: str | None) -> Corpus:
    import datasets

    try:
        loaded = datasets.load_dataset(known.hub, streaming=known.streamed)
    except Exception as error:
        reason = str(error).splitlines()[0] if str(error) else type(error).__name__
        place = (
            f"a folder {known.folders[0]} in {root}"
            if root
            else f"LEANFORMER_DATA naming a folder with {known.folders[0]}"
        )
        raise ValueError(
            f"{name} is not on this machine and the hub did not give {known.hub}: {reason}. "
            f"Needed is {place}, or a network"
        ) from error
    source = f"{known.hub} from the hub"
    held_out = next((part for part in HELD_OUT if part in loaded), None)
    if held_out is None:
        return _split(lambda: (row["text"] for row in loaded["train"]), source, known.hub)
    return Corpus(
        lambda: (row["text"] for row in loaded["train"]),
        lambda: (row["text"] for row in loaded[held_out]),
        source,
        known.hub,
    )


def _split(read: Callable[[], Iterator[str]], source: str, identity: str) -> Corpus:
    """One document in ten is held out, as its content decides."""

    def chosen(held_out: bool) -> Iterator[str]:
        return (text for text in read() if is_held_out(text) == held_out)

    return Corpus(lambda: chosen(False), lambda: chosen(True), source, identity)


def is_held_out(text: str) -> bool:
    """Whether a text's own content puts it into the held-out part; blank around it does not count."""
    return hashlib.sha256(text.strip().encode()).digest()[0] % SHARE == 0


def _identity(files: Iterable[Path]) -> str:
    """Of files: their names, sizes and times."""
    digest = hashlib.sha256()
    for file in files:
        about = file.stat()
        digest.update(f"{file.resolve()} {about.st_size} {about.st_mtime_ns}\n".encode())
    return digest.hexdigest()
