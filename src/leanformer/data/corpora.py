"""Corpora of texts without labels: Python's own documentation, text files, tables, or the hub.

Where the source has no held-out part, a hash of its content decides whether a document is held out, so that copies of
one text are never on both sides. Documents are read one at a time: a corpus need not fit into memory.
"""

from __future__ import annotations

import codecs
import functools
import hashlib
import itertools
import os
import sysconfig
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from leanformer.data import checks, hub, tables
from leanformer.data.checks import BadData, reading
from leanformer.data.file_sets import TABLES, TEXTS, file_set, holds
from leanformer.data.locations import HELD_OUT, HUB, in_root, needed
from leanformer.foundation.formats import percent

END = "<|endoftext|>"
"""What separates documents in a text file, as in the files of TinyStories."""
KINDS = (*TABLES, TEXTS)
CONTENTS = f"texts ({', '.join(TEXTS)}, .jsonl, .csv, .tsv or .parquet)"
"""In words, what a folder of texts consists of."""
COLUMNS = (
    *("text", "content", "document", "sentence", "body", "story", "article", "review", "message", "comment"),
    *("abstract", "tweet", "utterance", "question", "description"),
)
"""Usual names of the column of texts."""
CHUNK = 1 << 22
"""Characters of a text file that are read at once."""
SHARE = 0.1
"""Which share of the documents is held out, where the source has no held-out part."""
OWN_PART = "a held-out part"
MANY_FILES = 10
"""Files of a folder that are a document each; the documents of fewer files are separated by blank lines."""
FEWEST, ENOUGH = 10, 1000
"""Documents that are split one by one: not fewer than the first; more than the second need not be counted."""
NOT_LIBRARY = {"site-packages", "dist-packages", "test", "tests", "idle_test", "lib2to3", "__pycache__"}
"""Folders below the standard library's that are no part of it, or are its tests."""
HASHED = 1 << 28
"""Bytes of files that are known by their content; larger ones are known by their names, sizes and times."""


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
"""Corpora known by name, besides those that come with Python (`OWN`). Any other name is a path."""


@dataclass(frozen=True)
class Corpus:
    """Documents for training and held-out documents. Each call reads them again."""

    train: Callable[[], Iterator[str]]
    held_out: Callable[[], Iterator[str]]
    source: str
    identity: str
    """Changes when the documents change; part of the key of cached tokens."""
    notes: Callable[[], tuple[str, ...]] = tuple
    """What a person should know: how it was split, which column was read, what was left out. May read the documents."""
    own_part: bool = False
    """Whether the source brings its held-out documents, so that no share of the others is held out."""


@dataclass(frozen=True)
class Reading:
    """How texts of one's own are read."""

    text_column: str = ""
    """Of tables; by default one of the usual names."""
    held_out: float = SHARE
    """Which share is held out. If there is a held-out part, another share than the usual one is refused."""

    def check_own_part(self, source: str) -> None:
        """The source brings its held-out texts."""
        if self.held_out != SHARE:
            raise checks.own_part(source, OWN_PART)


def find(name: str, root: str | None = None, reading: Reading | None = None) -> Corpus:
    """The documents of that name; `root` is the folder with local data sets [default: LEANFORMER_DATA]."""
    how = reading or Reading()
    if not name:
        raise ValueError(
            f"no texts are named: give a file or a folder with {CONTENTS}, or {', '.join((*OWN, *CORPORA))}"
        )
    if name in OWN:
        read, source = OWN[name]
        if how.text_column:
            raise BadData(f"{source} has no columns", ": leave out {text_column}")
        return _split(read, source, _identity_of(name, read()), how)
    known = CORPORA.get(name)
    if known is None and HUB.fullmatch(name) and not os.path.lexists(name):
        known = KnownCorpus((name.rpartition("/")[2],), name)
    if known is None:
        return _from_path(Path(name).expanduser(), how)
    folder = in_root(known.folders, root)
    return _from_path(folder, how) if folder is not None else _from_hub(name, known, root, how)


def holds_texts(path: Path) -> bool:
    """Whether a path is a corpus by itself: a file, or a folder that holds texts."""
    return holds(path, KINDS)


def pydoc() -> Iterator[str]:
    """Python's own documentation, topic by topic. Every installation has it."""
    from pydoc_data.topics import topics

    for topic in sorted(topics):
        yield topics[topic]


def pycode() -> Iterator[str]:
    """The source of Python's own standard library, file by file, without its tests. Every installation has it."""
    root = Path(sysconfig.get_path("stdlib"))
    for file in sorted(root.rglob("*.py")):
        if not NOT_LIBRARY & set(file.relative_to(root).parts[:-1]):
            try:
                text = file.read_text(encoding="utf-8")
            except (OSError, UnicodeDecodeError):  # a file in another encoding, or that may not be read
                continue
            if text.strip():
                yield text


OWN: dict[str, tuple[Callable[[], Iterator[str]], str]] = {
    "pydoc": (pydoc, "Python's own documentation"),
    "pycode": (pycode, "the source of Python's standard library"),
}
"""Corpora that every installation of Python has."""


# Files


def _from_path(path: Path, how: Reading) -> Corpus:
    if not os.path.lexists(path):
        known = ", ".join((*OWN, *CORPORA))
        raise BadData(f"{path} is neither a file nor a folder, and no corpus of that name is known ({known})")
    files = file_set(path, KINDS, CONTENTS)
    whole, column = len(files.train) >= MANY_FILES, ""
    if files.is_of_tables:
        column = tables.column(files.train[0], how.text_column, COLUMNS, "text")
        note = f"the texts are in the column {column}"
    elif how.text_column:
        raise BadData(
            f"{files.source}: a text file has no columns, so that {how.text_column} names nothing",
            ": leave out {text_column}",
        )
    else:
        note = f"a document is {'a file' if whole else 'what blank lines separate'}, or what {END} separates"
    notes = (*files.notes, note)

    def chained(chosen: Iterable[Path]) -> Iterator[str]:
        return itertools.chain.from_iterable(_documents(file, column, whole) for file in chosen)

    identity = _identity([*files.train, *files.held_out], [len(files.train), column, whole, how.held_out])
    if not files.held_out:
        return _split(lambda: chained(files.train), files.source, identity, how, notes)
    how.check_own_part(files.source)
    parts = (lambda: chained(files.train), lambda: chained(files.held_out))
    return Corpus(*parts, files.source, identity, lambda: notes, own_part=True)


def _documents(file: Path, column: str, whole: bool) -> Iterator[str]:
    return _from_table(file, column) if column else _from_text(file, None if whole else "\n\n")


def _from_text(file: Path, separator: str | None = "\n\n") -> Iterator[str]:
    """Documents of a text file: separated by END if it occurs, else by the separator. The file is read in chunks."""
    with reading(file, "text file"):
        if any(END in f"{before}{chunk}" for before, chunk in _overlapping(file)):
            separator = END
        rest = ""
        for chunk in _chunks(file):
            *whole, rest = f"{rest}{chunk}".split(separator) if separator else [f"{rest}{chunk}"]
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
        with file.open(encoding="utf-8-sig") as opened:
            yield from iter(lambda: opened.read(CHUNK), "")
    except UnicodeDecodeError as error:
        raise tables.not_utf8(file, *_not_utf8(file)) from error


def _overlapping(file: Path) -> Iterator[tuple[str, str]]:
    """Each chunk with the end of the one before, so that no word is missed where two meet."""
    before = ""
    for chunk in _chunks(file):
        yield before, chunk
        before = f"{before}{chunk}"[-len(END) :]


def _not_utf8(file: Path) -> tuple[int, int]:
    """The line and the value of the first byte that is not UTF-8."""
    line, rest = 1, b""
    with file.open("rb") as opened:
        for chunk in iter(lambda: opened.read(CHUNK), b""):
            rest += chunk
            try:
                used = codecs.utf_8_decode(rest, "strict", False)[1]
            except UnicodeDecodeError as error:
                return line + rest[: error.start].count(b"\n"), rest[error.start]
            line, rest = line + rest[:used].count(b"\n"), rest[used:]
    return line, rest[0]


def _from_table(file: Path, column: str) -> Iterator[str]:
    for row in tables.rows_of(file, [column]):
        if row.problem:
            raise BadData(f"{row.place}: {row.problem}")
        if isinstance(row.values[0], (int, float)):
            raise BadData(
                f"{row.place}: the column {column} holds {checks.shortened(row.values[0])}; needed are texts",
                ": name their column by {text_column}",
            )
        if row.values[0] is not None and checks.text(row.values[0], row.place).strip():
            yield row.values[0]


def _from_hub(name: str, known: KnownCorpus, root: str | None, how: Reading) -> Corpus:
    loaded = hub.load_dataset(known.hub, what=name, needed=needed(known.folders[0], root), streaming=known.streamed)
    source = f"{known.hub} from the hub"
    held_out = next((part for part in HELD_OUT if part in loaded), None)
    column = how.text_column or "text"

    def read(split: str) -> Iterator[str]:
        if split not in loaded:
            raise BadData(f"{source} has no split named {split}, only {', '.join(loaded)}")
        return (checks.text(row.get(column), f"{source}, {split}, row {n}") for n, row in enumerate(loaded[split]))

    if held_out is None:
        return _split(lambda: read("train"), source, f"{known.hub} {column} {how.held_out}", how)
    how.check_own_part(source)
    parts = (lambda: read("train"), lambda: read(held_out))
    return Corpus(*parts, source, f"{known.hub} {column}", own_part=True)


# Splits


def _split(
    read: Callable[[], Iterator[str]], source: str, identity: str, how: Reading, notes: tuple[str, ...] = ()
) -> Corpus:
    """A share of the documents is held out, by their content; of few documents, the last part of each."""
    share = how.held_out

    @functools.cache
    def chooses() -> Callable[[str], bool] | None:
        return _chooser(read(), share)

    def chosen(held_out: bool) -> Iterator[str]:
        if (is_chosen := chooses()) is not None:
            return (text for text in read() if is_chosen(text) == held_out)
        return (part for part in (_cut(text, share)[held_out].strip() for text in read()) if part)

    def said() -> tuple[str, ...]:
        words = (
            f"{percent(share)} of the documents are held out, by a hash of each"
            if chooses() is not None
            else f"too few documents to hold out some of them: the last {percent(share)} of each are held out"
        )
        return (*notes, f"{words} (held_out={share:g})")

    return Corpus(lambda: chosen(False), lambda: chosen(True), source, identity, said)


def _chooser(documents: Iterable[str], share: float) -> Callable[[str], bool] | None:
    """What says whether a document is held out; None if whole documents cannot give about the share of the text.

    Each document's hash decides by itself. Where that gives far too much or too little, as it can with few documents,
    those with the smallest hashes are held out, until they have the share.
    """
    sizes, held_out, count = {}, 0, 0
    for text in documents:
        count += 1
        sizes[_digest(text)] = len(text)
        held_out += is_held_out(text, share)
        if count >= ENOUGH and 0 < held_out < count:
            return lambda text: is_held_out(text, share)
    whole, most = sum(sizes.values()), (1 + 2 * share) / 3
    alone = sum(size for digest, size in sizes.items() if _is_held_out(digest, share))
    if count >= FEWEST and share / 3 <= alone / whole <= most:
        return lambda text: is_held_out(text, share)
    taken: dict[bytes, int] = {}
    for digest in sorted(sizes):
        if sum(taken.values()) < share * whole:
            taken[digest] = sizes[digest]
    enough = count >= FEWEST and sum(taken.values()) <= most * whole
    return (lambda text: _digest(text) in taken) if enough else None


def _cut(text: str, share: float) -> tuple[str, str]:
    """A text in two parts, cut before blank space."""
    place = round(len(text) * (1 - share))
    while 0 < place < len(text) and not text[place].isspace():
        place -= 1
    place = place or round(len(text) * (1 - share))
    return text[:place], text[place:]


def is_held_out(text: str, share: float = SHARE) -> bool:
    """Whether a text is held out, by a hash of its content. Blank space around it does not count."""
    return _is_held_out(_digest(text), share)


def _is_held_out(digest: bytes, share: float) -> bool:
    return digest[0] % 10 == 0 if share == SHARE else int.from_bytes(digest[:8]) < share * 2**64


def _digest(text: str) -> bytes:
    return hashlib.sha256(text.strip().encode()).digest()


def _identity_of(name: str, documents: Iterable[str]) -> str:
    """What Python brings differs between its versions."""
    digest = hashlib.sha256()
    for document in documents:
        digest.update(document.encode() + b"\0")
    return f"{name} {digest.hexdigest()}"


def _identity(files: Sequence[Path], how: Sequence[object]) -> str:
    """A digest of the files' content and of how they are read."""
    digest = hashlib.sha256(repr(how).encode())
    if sum(file.stat().st_size for file in files) > HASHED:
        return f"{digest.hexdigest()} {checks.identity(files)}"
    for path in files:
        with reading(path, "file"), path.open("rb") as file:
            digest.update(hashlib.file_digest(file, "sha256").digest())
    return digest.hexdigest()
