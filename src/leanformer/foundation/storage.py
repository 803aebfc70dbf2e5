"""Studies that live at a URL: a folder of this host mirrors them, is brought up to date from there, and is sent there.

Any URL that fsspec knows will do (s3://, gs://, az://, file://). A file arrives whole or not at all. Of a checkpoint,
the file of checksums is sent last, and a checkpoint without it is never fetched; what is fetched is checked against it
when it is opened. A result is sent after everything that it speaks of. Who works on what is said by leases.
"""

from __future__ import annotations

import contextlib
import functools
import hashlib
import os
import re
import shutil
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Any, TypeVar

from leanformer.foundation.machine import cache_folder
from leanformer.foundation.records.files import read_json, write_json
from leanformer.foundation.records.sums import SUMS

MARK = ".mirror.json"
"""In the mirror: the URL, and what each file was when it was last sent or fetched."""
CHECKPOINTS = "checkpoints"
LAST = ("result.json", "comparison.json", "sweep.json", "glue.json")
"""Files that say that others are complete."""
PAUSES = (0.5, 2.0, 5.0)
"""Seconds before each further attempt, where a storage does not answer."""
CLIENTS = ("botocore", "aiobotocore", "aiohttp", "google", "gcsfs", "azure", "adlfs", "asyncio", "requests", "urllib3")
"""Packages whose exceptions mean that a storage refused or did not answer."""

WRITTEN = "written to"
Answer = TypeVar("Answer")


def is_url(place: str | Path) -> bool:
    return isinstance(place, str) and re.match(r"[a-zA-Z][a-zA-Z0-9+.-]*://", place) is not None


# The storage


@dataclass(frozen=True)
class Storage:
    """Files below a URL. Whatever goes wrong there is an `OSError` of one line that names the URL."""

    url: str

    @functools.cached_property
    def _place(self) -> tuple[Any, str]:
        import fsspec

        try:
            files, root = fsspec.core.url_to_fs(self.url, use_listings_cache=False)
        except ImportError as error:
            kind = self.url.partition("://")[0]
            package = {"s3": "s3fs", "s3a": "s3fs", "gs": "gcsfs", "gcs": "gcsfs", "az": "adlfs", "abfs": "adlfs"}
            raise ValueError(f"{self.url} needs the package {package.get(kind, kind)}: pip install "
                             f"{package.get(kind, kind)}") from error  # fmt: skip
        except (ValueError, TypeError) as error:
            raise ValueError(f"{self.url} is not a URL that results can be kept at: {error}") from error
        return files, root.rstrip("/")

    def _ask(self, what: str, call: Callable[[Any, str], Answer]) -> Answer:
        """An answer, after further attempts if it takes them. What is missing or forbidden stays so."""
        files, root = self._place
        for pause in (*PAUSES, None):
            try:
                return call(files, root)
            except (FileExistsError, ValueError):
                raise
            except Exception as error:
                known = isinstance(error, OSError) or type(error).__module__.split(".")[0] in CLIENTS
                if not known or (isinstance(error, FileNotFoundError) and what != WRITTEN):
                    raise
                if pause is None or isinstance(error, (PermissionError, FileNotFoundError)):
                    reason = " ".join(str(error).split())[:300] or type(error).__name__
                    raise OSError(f"{self.url} could not be {what}: {reason}") from error
                time.sleep(pause)
        raise AssertionError

    def listed(self, place: str = "") -> dict[str, str]:
        """All files below a place: by name from there on, what tells one version of a file from another."""

        def find(files: Any, root: str) -> dict[str, str]:
            files.invalidate_cache()
            start = f"{root}/{place}".rstrip("/")
            found = files.find(start, detail=True)
            return {path.removeprefix(start).lstrip("/"): _version(info) for path, info in found.items()}

        try:
            return {name: version for name, version in self._ask("read", find).items() if is_safe(name)}
        except FileNotFoundError:
            return {}

    def fetch(self, name: str, path: Path) -> None:
        """Bring one file, whole or not at all. Raises `FileNotFoundError` if it is gone."""
        path.parent.mkdir(parents=True, exist_ok=True)
        aside = path.with_name(f".{path.name}.{os.getpid()}.part")
        try:
            self._ask("read", lambda files, root: files.get_file(f"{root}/{name}", str(aside)))
            os.replace(aside, path)
        finally:
            aside.unlink(missing_ok=True)

    def send(self, path: Path, name: str) -> None:
        def put(files: Any, root: str) -> None:
            files.makedirs(f"{root}/{name}".rpartition("/")[0], exist_ok=True)
            files.put_file(str(path), f"{root}/{name}")

        self._ask(WRITTEN, put)

    def remove(self, name: str) -> None:
        with contextlib.suppress(FileNotFoundError):
            self._ask("changed", lambda files, root: files.rm_file(f"{root}/{name}"))

    # A shelf, for leases

    def names(self) -> list[str]:
        return [name for name in self.listed() if "/" not in name]

    def read(self, name: str) -> bytes | None:
        try:
            return bytes(self._ask("read", lambda files, root: files.cat_file(f"{root}/{name}")))
        except FileNotFoundError:
            return None

    def create(self, name: str, content: bytes) -> bool:
        def make(files: Any, root: str) -> None:
            files.makedirs(root, exist_ok=True)
            if type(files).__name__ == "LocalFileSystem":  # its own way to create looks first and writes then
                with Path(f"{root}/{name}").open("xb") as file:
                    file.write(content)
            else:
                files.pipe_file(f"{root}/{name}", content, mode="create")

        try:
            self._ask(WRITTEN, make)
        except FileExistsError:
            return False
        return self.read(name) == content

    def write(self, name: str, content: bytes) -> None:
        self._ask(WRITTEN, lambda files, root: files.pipe_file(f"{root}/{name}", content))


def _version(info: Mapping[str, Any]) -> str:
    stamp = info.get("ETag") or info.get("etag") or info.get("md5Hash") or info.get("mtime") or info.get("created")
    return f"{info.get('size')} {stamp}"


def is_safe(name: str) -> bool:
    """Whether a name from a storage stays inside the folder that it is fetched to."""
    parts = PurePosixPath(name).parts
    return bool(parts) and not name.startswith("/") and ".." not in parts and "\\" not in name and "\0" not in name


# The mirror


@dataclass(frozen=True)
class Mirror:
    """A folder of this host that mirrors a study, or a part of one."""

    root: Path
    """The mirror of the whole study."""
    url: str
    """Of the whole study."""
    place: str = ""
    """Which part of it this is."""

    @classmethod
    def of(cls, url: str) -> Mirror:
        """The mirror of a study on this host; its folder is made if there is none."""
        url = url.rstrip("/")
        name = re.sub(r"[^A-Za-z0-9._-]+", "-", url.rpartition("/")[2])[:60] or "study"
        digest = hashlib.sha256(url.encode()).hexdigest()[:16]
        mirror = cls(cache_folder() / "studies" / f"{name}-{digest}", url)
        if not (mirror.root / MARK).is_file():
            write_json(mirror.root / MARK, {"url": url, "files": {}})
        return mirror

    def part(self, place: str) -> Mirror:
        return Mirror(self.root, self.url, place)

    @property
    def folder(self) -> Path:
        return self.root / self.place

    @property
    def storage(self) -> Storage:
        return Storage(f"{self.url}/{self.place}".rstrip("/"))

    def fetch(self, checkpoints: bool = False) -> None:
        """Bring what is new there, and remove what was removed there. Checkpoints only if asked for, if complete."""
        known, listed = self._known(), self.storage.listed()
        self._drop_removed(known, listed)
        for name in sorted(listed, key=_turn):
            version, path = listed[name], self.folder / name
            if any(part.startswith(".") for part in PurePosixPath(name).parts) or not self._is_wanted(
                name, listed, checkpoints
            ):
                continue
            if known.get(self._key(name)) == version and path.is_file():
                continue
            with contextlib.suppress(
                FileNotFoundError
            ):  # its owner has replaced it since: the next look finds the new one
                self.storage.fetch(name, path)
                known[self._key(name)] = version
        self._keep(known)

    def _drop_removed(self, known: dict[str, str], listed: Mapping[str, str]) -> None:
        """The storage is right: a file that was there once, and is no longer, is not wanted here either."""
        prefix = self._key("")
        for key in list(known):
            name = key.removeprefix("sent ").removeprefix(prefix)
            if name not in listed and f"{CHECKPOINTS}/" not in name:
                (self.folder / name).unlink(missing_ok=True)
                del known[key]

    @staticmethod
    def _is_wanted(name: str, listed: Mapping[str, str], checkpoints: bool) -> bool:
        found = re.match(rf"(.*/)?{CHECKPOINTS}/[^/]+/", name)
        return found is None or (checkpoints and f"{found[0]}{SUMS}" in listed)

    def send(self, checkpoints: bool = False) -> None:
        """Send what is new here, the files that speak of others last; then remove there what was removed here."""
        known, there = self._known(), self.storage.listed()
        here = {path.relative_to(self.folder).as_posix(): path for path in self._files(checkpoints)}
        for name in sorted(here, key=_turn):
            stamp = here[name].stat()
            mine = f"{stamp.st_size} {stamp.st_mtime_ns}"
            if known.get(f"sent {self._key(name)}") == mine and name in there:
                continue
            self.storage.send(here[name], name)
            known[f"sent {self._key(name)}"] = mine
            known.pop(self._key(name), None)
        if checkpoints:
            gone = [name for name in there if name not in here and f"{CHECKPOINTS}/" in name]
            for name in sorted(gone, key=lambda name: not name.endswith(SUMS)):
                self.storage.remove(name)
        self._keep(known)

    def _files(self, checkpoints: bool) -> Iterator[Path]:
        for path in sorted(self.folder.rglob("*")):
            parts = path.relative_to(self.folder).parts
            hidden = any(part.startswith(".") for part in parts)
            if path.is_file() and not path.is_symlink() and not hidden and (checkpoints or CHECKPOINTS not in parts):
                yield path

    def forget(self, name: str) -> None:
        """Remove a file there, as it was removed here."""
        self.storage.remove(name)

    def clear_checkpoints(self) -> None:
        """Before those of the storage are fetched: what this host has may be of another attempt."""
        shutil.rmtree(self.folder / CHECKPOINTS, ignore_errors=True)

    def _key(self, name: str) -> str:
        return f"{self.place}/{name}".lstrip("/")

    def _known(self) -> dict[str, str]:
        try:
            found = read_json(self.root / self.place / MARK).get("files", {})
        except (ValueError, AttributeError):
            return {}
        return dict(found) if isinstance(found, dict) else {}

    def _keep(self, known: Mapping[str, str]) -> None:
        write_json(self.folder / MARK, {"url": self.url, "place": self.place, "files": dict(known)}, indent=None)


def _turn(name: str) -> tuple[int, str]:
    last = PurePosixPath(name).name
    return (2 if last in LAST else 1 if last == SUMS else 0), name


def mirror_of(folder: Path) -> Mirror | None:
    """What a folder mirrors; None for a folder that is only here."""
    whole = folder.absolute()
    for above in (whole, *whole.parents):
        if (above / MARK).is_file():
            found = read_json(above / MARK)
            if not found.get("place"):
                return Mirror(above, str(found["url"]), whole.relative_to(above).as_posix().strip("."))
    return None


def local(place: str | Path) -> Path:
    """A folder of this host: the place itself, or the mirror of a URL, brought up to date."""
    if not is_url(place):
        return Path(place)
    mirror = Mirror.of(str(place))
    mirror.fetch()
    return mirror.folder


def shown(folder: Path) -> str:
    """What a person calls a folder: its URL, if it mirrors one."""
    mirror = mirror_of(folder)
    return str(folder) if mirror is None else mirror.storage.url


def send(folder: Path) -> None:
    """Send what is new in a folder to the storage that it mirrors, if it mirrors one. Runs send their checkpoints."""
    if mirror := mirror_of(folder):
        mirror.send()


def fetch(folder: Path) -> None:
    """Bring a folder up to date with the storage that it mirrors, if it mirrors one."""
    if mirror := mirror_of(folder):
        mirror.fetch()
