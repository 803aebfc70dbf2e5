"""Leases: one owner at a time, dead owners are followed, and an owner that was followed notices it."""

import os
import subprocess
import sys
import threading
import time
from pathlib import Path

import filelock
import fsspec
import pytest

from leanformer.foundation.leases import VARIABLE, FolderShelf, Held, Lost, Owner, Shelf, leased, owner_in, silence
from leanformer.foundation.records.files import locked
from leanformer.foundation.storage import Storage

NAME = ".lease"


@pytest.fixture(autouse=True)
def short(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(VARIABLE, "0.6")


@pytest.fixture(params=["folder", "url"])
def shelf(request: pytest.FixtureRequest, tmp_path: Path) -> Shelf:
    if request.param == "folder":
        return FolderShelf(tmp_path)
    fsspec.filesystem("memory").rm("/leases", recursive=True) if fsspec.filesystem("memory").exists("/leases") else None
    return Storage("memory://leases")


def elsewhere(token: str = "x") -> Owner:
    return Owner("another-host", 7, 0.0, "1", token)


def test_a_living_owner_keeps_others_out(shelf: Shelf) -> None:
    with leased(shelf, NAME, "the study") as lease:
        assert owner_in(shelf, NAME) == lease.owner
        with pytest.raises(Held, match=rf"another process is working in the study \(\S+ {os.getpid()}\)"):
            leased(shelf, NAME, "the study").__enter__()
        lease.look()
    assert owner_in(shelf, NAME) is None
    with leased(shelf, NAME, "the study"):
        pass


def test_an_owner_elsewhere_lives_while_its_file_changes(shelf: Shelf) -> None:
    shelf.create(f"{NAME}-000004", elsewhere().content(0))
    done = threading.Event()

    def beat() -> None:
        count = 0
        while not done.wait(0.1):
            count += 1
            shelf.write(f"{NAME}-000004", elsewhere().content(count))

    thread = threading.Thread(target=beat)
    thread.start()
    try:
        with pytest.raises(Held, match="another-host 7"):
            leased(shelf, NAME, "the study").__enter__()
    finally:
        done.set()
        thread.join()


def test_a_silent_owner_is_followed_and_notices(shelf: Shelf) -> None:
    with leased(shelf, NAME, "the study") as old:
        old._done.set()  # it is alive, and hangs: its thread shows nothing any more
        shelf.write(old.file, elsewhere(old.owner.token).content(1))  # as another host sees it
        began = time.monotonic()
        with leased(shelf, NAME, "the study") as new:
            assert time.monotonic() - began >= silence()
            assert new.number == old.number + 1
            with pytest.raises(Lost, match="another process has taken over the work of"):
                old.look()
            with pytest.raises(Lost):
                old.check()
            new.look()
        assert owner_in(shelf, NAME) is None


def test_of_many_that_want_it_one_gets_it(shelf: Shelf) -> None:
    shelf.create(f"{NAME}-000001", elsewhere().content(0))  # dead: all see it at the same time
    got, refused = [], []

    def want() -> None:
        try:
            with leased(shelf, NAME, "the study"):
                got.append(1)
                time.sleep(0.5)
        except Held:
            refused.append(1)

    threads = [threading.Thread(target=want) for _ in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert (len(got), len(refused)) == (1, 5)


def test_a_killed_process_of_this_host_is_followed_at_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(VARIABLE, "600")
    code = f"""
import time
from pathlib import Path
from leanformer.foundation.leases import FolderShelf, leased
with leased(FolderShelf(Path({str(tmp_path)!r})), {NAME!r}, "x"):
    print("in", flush=True)
    time.sleep(60)
"""
    with subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        process.stdout.readline()
        process.kill()
        process.wait()
    with leased(FolderShelf(tmp_path), NAME, "x") as lease:
        assert lease.number == 2
    assert not list(tmp_path.iterdir())


def test_a_number_that_another_process_has_now_is_not_the_owner(tmp_path: Path) -> None:
    mine = Owner.this_process()
    assert mine.is_alive
    assert not Owner(mine.host, mine.process, mine.born - 100, mine.space).is_alive


@pytest.mark.parametrize("content", [b"", b"{", b"[]", b'{"host": 1}', b"\xff"])
def test_damaged_files_name_no_owner_and_do_not_last(content: bytes, tmp_path: Path) -> None:
    (tmp_path / f"{NAME}-000002").write_bytes(content)
    assert owner_in(FolderShelf(tmp_path), NAME) is None
    with leased(FolderShelf(tmp_path), NAME, "x") as lease:
        assert lease.number == 3


def test_the_variable_takes_seconds(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(VARIABLE, "soon")
    with pytest.raises(ValueError, match="LEANFORMER_LEASE must be a number of seconds, got 'soon'"):
        silence()


def test_an_owner_never_reads_half_of_its_own_file(shelf: Shelf, monkeypatch: pytest.MonkeyPatch) -> None:
    """A look at the files while the thread rewrites them must not tell that the lease is lost."""
    monkeypatch.setenv(VARIABLE, "0.5")
    with leased(shelf, "lease", "here") as lease:

        def rewrite() -> None:
            for beat in range(400):
                with lease._writing:
                    shelf.write(lease.file, lease.owner.content(beat))

        thread = threading.Thread(target=rewrite)
        thread.start()
        while thread.is_alive():
            lease.look()
    assert not shelf.names(), "nothing is left"


def test_a_file_system_without_locks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """There, the lease alone keeps others out."""

    def refuse(lock: filelock.FileLock) -> None:
        raise NotImplementedError("flock is not there")

    monkeypatch.setattr(filelock.FileLock, "acquire", refuse)
    with locked(tmp_path), pytest.raises(Held, match="another process"), locked(tmp_path):
        pass
    with locked(tmp_path):
        pass
