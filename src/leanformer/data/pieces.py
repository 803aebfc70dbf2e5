"""Encoding in bounded memory: long documents are encoded piece by piece, to the same tokens.

A tokenizer needs about 170 bytes per character of what it encodes in one call. So a call gets a limited number of
characters, and a longer document is cut where the tokenizer cuts anyway: before blank space. Each cut is tested.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

import numpy as np

from leanformer.data.checks import BadData

LONGEST = 1 << 20
"""Characters of a piece, and of all pieces that are encoded in one call."""
TOGETHER = 1000
"""Pieces that are encoded in one call."""
BESIDE = 64
"""Characters on each side of a cut that are encoded to test it."""

BOUNDARY = re.compile(r"(?<=\S)(?=[ \n\t\r])")


class _Piece(NamedTuple):
    text: str
    ends: bool
    """Whether it is the last piece of its document."""


def encoded(made: Any, documents: Iterable[str], source: str) -> Iterator[np.ndarray]:
    """The ids of each document, without special tokens."""
    waiting: list[np.ndarray] = []
    for group in _grouped(_piece for document in documents for _piece in _pieces(document, made, source)):
        found = made.encode_batch([piece.text for piece in group], add_special_tokens=False)
        for piece, ids in zip(group, found, strict=True):
            waiting.append(np.array(ids.ids, dtype=np.uint32))
            if piece.ends:
                yield waiting[0] if len(waiting) == 1 else np.concatenate(waiting)
                waiting = []


def cut(document: str, source: str, made: Any = None) -> Iterator[str]:
    """A document in pieces that have the same tokens as the whole.

    Args:
        document: of any length.
        source: where it came from, for the message.
        made: the tokenizer with which cuts are tested; None for one of ours that is being trained, and cannot be used.
    """
    start = 0
    while len(document) - start > LONGEST:
        end = _last_boundary(document, start, start + LONGEST)
        if end is None and made is not None and _is_bytes(made):
            end = start + LONGEST
        if end is None:
            begins = document[start : start + 20].strip()
            raise BadData(
                f'{source}: the word "{begins}…" has more than {LONGEST:,} characters, too many to be encoded; split '
                f"it up, or use the tokenizer bytes"
            )
        if made is not None:
            _test_cut(document, end, made, source)
        yield document[start:end]
        start = end
    yield document[start:]


def _pieces(document: str, made: Any, source: str) -> Iterator[_Piece]:
    if len(document) <= LONGEST:
        yield _Piece(document, True)
        return
    ahead = list(cut(document, source, made))
    yield from (_Piece(text, number == len(ahead)) for number, text in enumerate(ahead, start=1))


def _last_boundary(document: str, start: int, stop: int) -> int | None:
    """The last place in a range where a character is followed by blank space."""
    for low in itertools.chain(range(max(start, stop - 4096), start, -LONGEST), (start,)):
        places = [found.start() for found in BOUNDARY.finditer(document, low + 1, stop)]
        if places:
            return places[-1]
    return None


def _is_bytes(made: Any) -> bool:
    """Whether every byte is a token, so that a cut anywhere changes nothing."""
    return made.get_vocab_size(with_added_tokens=False) == 256 and type(made.model).__name__ == "BPE"


def _test_cut(document: str, place: int, made: Any, source: str) -> None:
    """Raise an error if the tokens beside a cut are not those of the uncut text."""
    before, after = document[max(0, place - BESIDE) : place], document[place : place + BESIDE]
    if not _is_bytes(made):  # begin with a whole word
        begins = BOUNDARY.search(before)
        before = before[begins.start() :] if begins is not None else before
    whole, left, right = (made.encode(text, add_special_tokens=False).ids for text in (before + after, before, after))
    if whole != left + right:
        raise BadData(
            f"{source}: a document has {len(document):,} characters, and the tokenizer cannot encode it in pieces of "
            f"{LONGEST:,}; split it up, or use another tokenizer"
        )


def _grouped(pieces: Iterable[_Piece]) -> Iterator[list[_Piece]]:
    group: list[_Piece] = []
    size = 0
    for piece in pieces:
        if group and (len(group) == TOGETHER or size + len(piece.text) > LONGEST):
            yield group
            group, size = [], 0
        group.append(piece)
        size += len(piece.text)
    if group:
        yield group
