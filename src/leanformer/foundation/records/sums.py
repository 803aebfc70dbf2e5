"""Checksums of a folder's files, in a SHA256SUMS that `sha256sum -c` reads: damage is found before a file is used."""

from __future__ import annotations

import hashlib
from pathlib import Path

from leanformer.foundation.records.files import HALF_WRITTEN, read_text, write_text

SUMS = "SHA256SUMS"
CARD = "README.md"
"""For people, who may change it."""


def seal(folder: Path) -> dict[str, str]:
    """Write down the checksums of all files in a folder but its card; returns them by name."""
    files = sorted(path for path in folder.iterdir() if path.is_file() and path.name not in (SUMS, CARD))
    sums = {path.name: sha256(path) for path in files}
    write_text(folder / SUMS, "".join(f"{digest}  {name}\n" for name, digest in sums.items()))
    return sums


def unseal(folder: Path) -> None:
    """Forget the checksums, because the files are about to change, and remove what a kill left half-written."""
    (folder / SUMS).unlink(missing_ok=True)
    for left in folder.glob(HALF_WRITTEN):
        left.unlink(missing_ok=True)


def check_seal(folder: Path) -> dict[str, str]:
    """A `ValueError` that names the file if one is not what it was when the folder was sealed; else the checksums.

    They are empty if the folder is not sealed.
    """
    if not (folder / SUMS).exists():
        return {}
    try:
        text = read_text(folder / SUMS)
    except UnicodeDecodeError:
        text = ""
    lines = [line.partition("  ") for line in text.splitlines()]
    if not lines or not text.endswith("\n") or not all(len(digest) == 64 and name for digest, _, name in lines):
        raise ValueError(f"{folder / SUMS} is damaged; delete it if you trust the files beside it")
    for digest, _, name in lines:
        path = folder / Path(name).name
        if not path.is_file():
            raise ValueError(f"{path} is missing; restore it from a copy")
        if sha256(path) != digest:
            raise ValueError(
                f"{path} does not match its checksum; restore it from a copy, or delete {SUMS} if the change was meant"
            )
    return {name: digest for digest, _, name in lines}


def sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
