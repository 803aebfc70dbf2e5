"""Corpora of texts without labels: Python's own documentation, text files, parquet files, or the hub.

A hash of its content decides whether a document is held out, so that copies of one text are never on both sides.
Documents are read one at a time: a corpus need not fit into memory.
"""

from __future__ import annotations

import codecs
import hashlib
import itertools
import os
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from leanformer.data import checks, hub, tables
from leanformer.data.checks import BadData, files_below, reading, regular
from leanformer.data.locations import files_in, in_root, needed, shown

END = "<|endoftext|>"
"""What separates documents in a text file, as in the files of TinyStories."""
ENDINGS = (".txt", ".md", ".rst", ".text")
HELD_OUT = ("validation", "valid", "val", "test")
CONTENTS = f"texts ({', '.join(ENDINGS)} or .parquet)"
"""In words, what a folder of texts consists of."""
CHUNK = 1 << 22
"""Characters of a text file that are read at once."""
SHARE = 10
"""One document in so many is held out, where the source has no held-out part."""


@dataclass(frozen=True)
class KnownCorpus:
    """A public corpus."""

    folders: tuple[str, ...]
    """Names of its folder in the data folder."""
    hub: str
    """Its name on the hub."""
    streamed: bool = False
    """Too large to be downloaded whole."""


CORPORA = {
    "tinystories": KnownCorpus(("TinyStories", "tinystories"), "roneneldan/TinyStories"),
    "pile": KnownCorpus(("pile", "the_pile"), "monology/pile-uncopyrighted", streamed=True),
}
"""Corpora known by name, besides `pydoc`, the documentation that comes with Python. Any other name is a path."""


@dataclass(frozen=True)
class Corpus:
    """Documents for training and held-out documents. Each call reads them again."""

    train: Callable[[], Iterator[str]]
    held_out: Callable[[], Iterator[str]]
    source: str
    identity: str
    """Changes when the documents change; part of the key of cached tokens."""


def find(name: str, root: str | None = None) -> Corpus:
    """The documents of that name; `root` is the folder with local data sets [default: LEANFORMER_DATA]."""
    if name == "pydoc":
        return _split(pydoc, "Python's own documentation", _identity_of_pydoc())
    known = CORPORA.get(name)
    if known is None:
        return _from_path(Path(name).expanduser())
    folder = in_root(known.folders, root)
    return _from_path(folder) if folder is not None else _from_hub(name, known, root)


def holds_texts(path: Path) -> bool:
    """Whether a path is a corpus by itself: a file, or a folder that holds texts."""
    return os.path.isfile(path) or any(file.suffix.lower() in (*ENDINGS, ".parquet") for file in files_in(path))


def pydoc() -> Iterator[str]:
    """Python's own documentation, topic by topic. Every installation has it."""
    from pydoc_data.topics import topics

    for topic in sorted(topics):
        yield topics[topic]


def _from_path(path: Path) -> Corpus:
    if os.path.isdir(path):
        return _from_folder(path)
    if not os.path.lexists(path):
        raise BadData(
            f"{path} is neither a file nor a folder, and no corpus of that name is known (pydoc, {', '.join(CORPORA)})"
        )
    regular(path)
    if path.suffix.lower() == ".parquet":
        return _of_parts([path], [], _from_parquet, shown(path))
    return _from_files([path], shown(path))


def _from_folder(path: Path) -> Corpus:
    listed = files_below(path, lambda file: file.suffix.lower() == ".parquet")
    if listed:
        held_out = [table for table in listed if table.name.split("-")[0].removesuffix(".parquet") in HELD_OUT]
        train = [table for table in listed if table not in held_out]
        return _of_parts(train, held_out, _from_parquet, f"parquet files in {shown(path)}")
    files = files_below(path, lambda file: file.suffix.lower() in ENDINGS)
    if not files:
        raise BadData(f"{path} holds no {CONTENTS}")
    return _from_files(files, f"{len(files)} files in {shown(path)}")


def _from_files(files: list[Path], source: str) -> Corpus:
    held_out = [file for file in files if any(word in file.stem.lower().split("-") for word in HELD_OUT)]
    return _of_parts([file for file in files if file not in held_out], held_out, _from_text, source)


def _of_parts(train: list[Path], held_out: list[Path], read: Any, source: str) -> Corpus:
    if not train:
        raise BadData(f"{source}: there is nothing to train on, only {', '.join(file.name for file in held_out)}")
    identity = _identity([*train, *held_out])
    if not held_out:
        return _split(lambda: _chained(train, read), source, identity)
    return Corpus(lambda: _chained(train, read), lambda: _chained(held_out, read), source, identity)


def _chained(files: Iterable[Path], read: Callable[[Path], Iterator[str]]) -> Iterator[str]:
    return itertools.chain.from_iterable(map(read, files))


def _from_text(file: Path) -> Iterator[str]:
    """Documents of a text file: separated by END if it occurs, else by blank lines. The file is read in chunks."""
    with reading(file, "text file"):
        separator = END if any(END in f"{before}{chunk}" for before, chunk in _overlapping(file)) else "\n\n"
        rest = ""
        for chunk in _chunks(file):
            *whole, rest = f"{rest}{chunk}".split(separator)
            yield from (piece.strip() for piece in whole if piece.strip())
            if len(rest) > checks.LONGEST_TEXT:
                raise BadData(
                    f"{file} has a document of more than {checks.LONGEST_TEXT:,} characters; separate documents by "
                    f"blank lines or by {END}"
                )
        if rest.strip():
            yield rest.strip()


def _chunks(file: Path) -> Iterator[str]:
    try:
        with file.open(encoding="utf-8") as opened:
            yield from iter(lambda: opened.read(CHUNK), "")
    except UnicodeDecodeError as error:
        place, found = _not_utf8(file)
        raise BadData(f"{file} is not UTF-8: byte {place:,} is {found:#04x}; convert it first") from error


def _overlapping(file: Path) -> Iterator[tuple[str, str]]:
    """Each chunk with the end of the one before, so that no word is missed where two meet."""
    before = ""
    for chunk in _chunks(file):
        yield before, chunk
        before = f"{before}{chunk}"[-len(END) :]


def _not_utf8(file: Path) -> tuple[int, int]:
    """The place and the value of the first byte that is not UTF-8."""
    place, rest = 0, b""
    with file.open("rb") as opened:
        for chunk in iter(lambda: opened.read(CHUNK), b""):
            rest += chunk
            try:
                used = codecs.utf_8_decode(rest, "strict", False)[1]
            except UnicodeDecodeError as error:
                return place + error.start, rest[error.start]
            place, rest = place + used, rest[used:]
    return place, rest[0]


def _from_parquet(file: Path) -> Iterator[str]:
    for number, group in enumerate(tables.parquet_rows(file, ["text"])):
        for row, (text,) in enumerate(group, start=number * tables.TOGETHER):
            if text is not None and checks.text(text, f"{file}, row {row}").strip():
                yield text


def _from_hub(name: str, known: KnownCorpus, root: str | None) -> Corpus:
    loaded = hub.load_dataset(known.hub, what=name, needed=needed(known.folders[0], root), streaming=known.streamed)
    source = f"{known.hub} from the hub"
    held_out = next((part for part in HELD_OUT if part in loaded), None)

    def read(split: str) -> Iterator[str]:
        if split not in loaded:
            raise BadData(f"{source} has no split named {split}, only {', '.join(loaded)}")
        return (checks.text(row.get("text"), f"{source}, {split}, row {n}") for n, row in enumerate(loaded[split]))

    if held_out is None:
        return _split(lambda: read("train"), source, known.hub)
    return Corpus(lambda: read("train"), lambda: read(held_out), source, known.hub)


def _split(read: Callable[[], Iterator[str]], source: str, identity: str) -> Corpus:
    """One document in ten is held out, by its content."""

    def chosen(held_out: bool) -> Iterator[str]:
        return (text for text in read() if is_held_out(text) == held_out)

    return Corpus(lambda: chosen(False), lambda: chosen(True), source, identity)


def is_held_out(text: str) -> bool:
    """Whether a text is held out, by a hash of its content. Blank space around it does not count."""
    return hashlib.sha256(text.strip().encode()).digest()[0] % SHARE == 0


def _identity_of_pydoc() -> str:
    """The documentation differs between versions of Python."""
    digest = hashlib.sha256()
    for document in pydoc():
        digest.update(document.encode() + b"\0")
    return f"pydoc {digest.hexdigest()}"


def _identity(files: Iterable[Path]) -> str:
    """A digest of the files' names, sizes and times."""
    digest = hashlib.sha256()
    for file in files:
        about = file.stat()
        digest.update(f"{file.resolve()} {about.st_size} {about.st_mtime_ns}\n".encode())
    return digest.hexdigest()
