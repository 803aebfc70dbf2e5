"""Leases: which process of which host works in a folder, where locks of the file system cannot be relied on.

A lease is a numbered file that its owner creates only if it does not exist, and then rewrites every few seconds.
Whoever wants the folder looks at the file with the highest number. If its owner is a process of this host that ended,
or if the file did not change for `silence()` seconds, the owner is dead, and the next number is free. No clocks of
different hosts are compared. An owner that finds a higher number, or does not find its own file, has lost the folder,
and stops.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import socket
import threading
import time
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

VARIABLE = "LEANFORMER_LEASE"
"""Environment variable: seconds of silence after which an owner counts as dead."""
SILENCE = 60.0
BEATS = 6
"""How often a lease is rewritten within that time."""


def silence() -> float:
    try:
        return max(0.5, float(os.environ.get(VARIABLE, SILENCE)))
    except ValueError:
        raise ValueError(f"{VARIABLE} must be a number of seconds, got {os.environ[VARIABLE]!r:.40}") from None


class Held(ValueError):  # noqa: N818
    """Another process works in the folder."""


class Lost(OSError):  # noqa: N818
    """This process has not shown itself for so long that another one has taken the folder."""


class Shelf(Protocol):
    """A place with a few small files."""

    def names(self) -> list[str]: ...

    def read(self, name: str) -> bytes | None:
        """A file's content; None if there is no such file."""

    def create(self, name: str, content: bytes) -> bool:
        """Write a file if there is none; whether this process did."""

    def write(self, name: str, content: bytes) -> None: ...

    def remove(self, name: str) -> None:
        """Remove a file, if it is there."""


@dataclass(frozen=True)
class FolderShelf:
    """A folder, which hosts may share."""

    folder: Path

    def names(self) -> list[str]:
        return [entry.name for entry in self.folder.iterdir()] if self.folder.is_dir() else []

    def read(self, name: str) -> bytes | None:
        try:
            return (self.folder / name).read_bytes()
        except FileNotFoundError:
            return None

    def create(self, name: str, content: bytes) -> bool:
        try:
            with (self.folder / name).open("xb") as file:
                file.write(content)
        except FileExistsError:
            return False
        return True

    def write(self, name: str, content: bytes) -> None:
        """At once, so that nobody reads half of it: an owner who did would believe that the lease is lost."""
        aside = self.folder / f".{name}.part"
        aside.write_bytes(content)
        aside.replace(self.folder / name)

    def remove(self, name: str) -> None:
        for file in (self.folder / name, self.folder / f".{name}.part"):
            file.unlink(missing_ok=True)


@dataclass(frozen=True)
class Owner:
    """Who holds a lease."""

    host: str
    process: int
    born: float
    """When the process began, by its own host; another process may have got its number since."""
    space: str
    """The numbering of processes that the number belongs to; containers of one host have their own."""
    token: str = ""
    beat: int = 0

    @classmethod
    def this_process(cls) -> Owner:
        import psutil

        born = psutil.Process().create_time()
        return cls(socket.gethostname(), os.getpid(), born, _space(), uuid.uuid4().hex)

    @classmethod
    def parse(cls, content: bytes) -> Owner | None:
        """None if the content is damaged, or only half written."""
        try:
            found = json.loads(content)
            return cls(
                str(found["host"])[:200],
                int(found["process"]),
                float(found["born"]),
                str(found["space"]),
                str(found["token"]),
                int(found["beat"]),
            )
        except (ValueError, TypeError, KeyError):
            return None

    def content(self, beat: int) -> bytes:
        return json.dumps({**vars(self), "beat": beat}).encode()

    @property
    def is_of_this_host(self) -> bool:
        return self.host == socket.gethostname() and self.space == _space()

    @property
    def is_alive(self) -> bool:
        """Whether the process still runs; for processes of this host only."""
        import psutil

        try:
            process = psutil.Process(self.process)
            return abs(process.create_time() - self.born) < 2 and process.status() != psutil.STATUS_ZOMBIE
        except (psutil.Error, ValueError):
            return False

    def __str__(self) -> str:
        return f"{self.host} {self.process}"


def _space() -> str:
    try:
        return str(os.stat("/proc/self/ns/pid").st_ino)
    except OSError:  # no Linux
        return ""


@dataclass
class Lease:
    """The right to work in a folder, kept by a thread."""

    shelf: Shelf
    name: str
    number: int
    owner: Owner
    _lost: str = ""
    _seen: float = field(default_factory=time.monotonic)
    _done: threading.Event = field(default_factory=threading.Event)
    _writing: threading.Lock = field(default_factory=threading.Lock)

    @property
    def file(self) -> str:
        return f"{self.name}-{self.number:06d}"

    @property
    def is_lost(self) -> bool:
        return bool(self._lost)

    def check(self) -> None:
        """Raise `Lost` if the folder is another process's by now."""
        if self._lost:
            raise Lost(self._lost)

    def look(self) -> None:
        """Raise `Lost` if the folder is another process's, by a look at the files."""
        found = Owner.parse(self.shelf.read(self.file) or b"")
        if found is None or found.token != self.owner.token or _last(self.shelf, self.name)[0] > self.number:
            self._lost = f"another process has taken over the work of {self.owner}, which was silent for too long"
        self.check()

    def keep(self) -> None:
        """Show that this process lives, until the lease is given back. For a thread."""
        beat = 0
        while not self._done.wait(silence() / BEATS):
            beat += 1
            try:
                with self._writing:
                    if self._done.is_set():
                        return  # a file that is written after it was removed would stay
                    self.look()
                    self.shelf.write(self.file, self.owner.content(beat))
                self._seen = time.monotonic()
            except Lost:
                return
            except OSError as error:  # the storage does not answer: others cannot tell this process from a dead one
                if time.monotonic() - self._seen > silence():
                    self._lost = f"the storage has not answered for {silence():.0f} s: {error}"
                    return

    def give_back(self) -> None:
        self._done.set()
        with contextlib.suppress(OSError), self._writing:
            if not self._lost:
                self.shelf.remove(self.file)


@contextmanager
def leased(shelf: Shelf, name: str, what: str) -> Iterator[Lease]:
    """Hold a lease; a `Held` error says who has it, if a living process does.

    Args:
        shelf: where its files are.
        name: what they are called, without the number.
        what: how an error calls the place.
    """
    lease = _acquired(shelf, name, what)
    thread = threading.Thread(target=lease.keep, daemon=True)
    thread.start()
    try:
        yield lease
    finally:
        lease.give_back()


def _acquired(shelf: Shelf, name: str, what: str) -> Lease:
    owner = Owner.this_process()
    content, since = b"", time.monotonic()
    while True:
        number, file = _last(shelf, name)
        if number:
            found = shelf.read(file)
            if found is None:
                continue
            first_look = not content
            if found != content:
                if not first_look:
                    raise _held(found, what)  # it changed while this process looked: its owner lives
                content, since = found, time.monotonic()
            there = Owner.parse(found)
            if there is not None and there.is_of_this_host and there.is_alive:
                raise _held(found, what)
            gone = there is not None and there.is_of_this_host
            if not gone and time.monotonic() - since < silence():
                time.sleep(min(1.0, silence() / BEATS / 2))
                continue
        if shelf.create(f"{name}-{number + 1:06d}", owner.content(0)):
            for older in _all(shelf, name):
                if older[0] <= number:
                    shelf.remove(older[1])
            return Lease(shelf, name, number + 1, owner)


def _held(content: bytes, what: str) -> Held:
    owner = Owner.parse(content)
    return Held(
        f"another process is working in {what}{f' ({owner})' if owner else ''}: wait for it, or choose another folder"
    )


def owner_in(shelf: Shelf, name: str) -> Owner | None:
    """Who holds the lease, as far as one look can tell: None if nobody does, or a process of this host that is dead."""
    number, file = _last(shelf, name)
    owner = Owner.parse(shelf.read(file) or b"") if number else None
    return None if owner is None or (owner.is_of_this_host and not owner.is_alive) else owner


def _last(shelf: Shelf, name: str) -> tuple[int, str]:
    return max(_all(shelf, name), default=(0, ""))


def _all(shelf: Shelf, name: str) -> list[tuple[int, str]]:
    found = ((re.fullmatch(re.escape(name) + r"-(\d{6})", file), file) for file in shelf.names())
    return [(int(match[1]), file) for match, file in found if match]
