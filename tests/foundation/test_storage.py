"""Folders that mirror a URL: whole files only, complete checkpoints only, nothing outside the folder, clear errors."""

import os
from pathlib import Path

import pytest

from leanformer.foundation.storage import MARK, Mirror, Storage, is_safe, is_url, local, mirror_of, shown
from support.s3 import s3_endpoint


@pytest.fixture
def mirror(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Mirror:
    monkeypatch.setenv("LEANFORMER_CACHE", str(tmp_path / "cache"))
    return Mirror.of(f"file://{tmp_path}/remote/study")


def write(folder: Path, **files: str) -> None:
    for name, text in files.items():
        path = folder / name.replace("__", "/")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)


def remote(tmp_path: Path) -> dict[str, str]:
    root = tmp_path / "remote" / "study"
    return {str(path.relative_to(root)): path.read_text() for path in root.rglob("*") if path.is_file()}


def test_what_is_sent_is_fetched_elsewhere(mirror: Mirror, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write(
        mirror.folder, plan="1", lean__run="2", lean__checkpoints__step__SHA256SUMS="3", lean__checkpoints__step__x="4"
    )
    mirror.send()
    assert remote(tmp_path) == {"plan": "1", "lean/run": "2"}, "checkpoints are their runs' own to send"
    mirror.part("lean").send(checkpoints=True)
    assert set(remote(tmp_path)) == {"plan", "lean/run", "lean/checkpoints/step/SHA256SUMS", "lean/checkpoints/step/x"}
    monkeypatch.setenv("LEANFORMER_CACHE", str(tmp_path / "another-host"))
    there = local(mirror.url)
    assert there.is_relative_to(tmp_path / "another-host")
    assert not (there / "lean" / "checkpoints").exists()
    assert (there / "plan").read_text() == "1"
    Mirror.of(mirror.url).part("lean").fetch(checkpoints=True)
    assert (there / "lean" / "checkpoints" / "step" / "x").read_text() == "4"
    write(mirror.folder, plan="5")
    mirror.send()
    assert (local(mirror.url) / "plan").read_text() == "5"
    assert shown(there / "lean") == f"{mirror.url}/lean"
    assert shown(tmp_path) == str(tmp_path)


def test_a_checkpoint_without_its_sums_is_not_fetched(mirror: Mirror, tmp_path: Path) -> None:
    write(tmp_path / "remote" / "study" / "checkpoints", one__x="half", two__x="whole", two__SHA256SUMS="sums")
    mirror.fetch(checkpoints=True)
    assert {path.name for path in (mirror.folder / "checkpoints").iterdir()} == {"two"}


def test_the_sums_and_the_result_are_sent_last(mirror: Mirror, monkeypatch: pytest.MonkeyPatch) -> None:
    write(mirror.folder, zoo="0", checkpoints__s__SHA256SUMS="1", checkpoints__s__z="2")
    (mirror.folder / "result.json").write_text("{}")
    sent: list[str] = []
    monkeypatch.setattr(Storage, "send", lambda self, path, name: sent.append(name))
    mirror.send(checkpoints=True)
    assert sent == ["checkpoints/s/z", "zoo", "checkpoints/s/SHA256SUMS", "result.json"]
    mirror.send(checkpoints=True)
    assert len(sent) == 8, "what did not arrive is sent again"


def test_old_checkpoints_are_removed_there_with_their_sums_first(
    mirror: Mirror, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(tmp_path / "remote" / "study" / "checkpoints" / "old", SHA256SUMS="1", a="2", z="3")
    write(mirror.folder / "checkpoints" / "new", SHA256SUMS="1", a="2")
    removed: list[str] = []
    remove = Storage.remove
    monkeypatch.setattr(Storage, "remove", lambda self, name: (removed.append(name), remove(self, name)))
    mirror.send(checkpoints=True)
    assert removed == [f"checkpoints/old/{name}" for name in ("SHA256SUMS", "a", "z")]
    assert set(remote(tmp_path)) == {"checkpoints/new/SHA256SUMS", "checkpoints/new/a"}


def test_what_was_removed_there_is_removed_here(mirror: Mirror, tmp_path: Path) -> None:
    write(mirror.folder, plan="1", lean__result="2")
    mirror.send()
    (tmp_path / "remote" / "study" / "lean" / "result").unlink()
    write(mirror.folder, new="3")  # not sent yet: it stays
    mirror.fetch()
    assert {path.name for path in mirror.folder.rglob("*") if path.is_file()} == {"plan", "new", MARK}


@pytest.mark.parametrize("name", ["../up", "a/../../up", "/etc/passwd", "a\\b", "", "a/\0"])
def test_names_that_lead_elsewhere_are_not_fetched(name: str) -> None:
    assert not is_safe(name)
    assert is_safe("lean/seed-0/run.json")


def test_urls_and_folders_are_told_apart(tmp_path: Path) -> None:
    assert is_url("s3://bucket/study")
    assert not any(map(is_url, ("runs/study", "C:\\runs", "/abs", "s3:/x", Path("s3://bucket"))))
    assert mirror_of(tmp_path) is None


@pytest.mark.parametrize(
    ("url", "message"),
    [
        ("nothing://x", "nothing://x is not a URL that results can be kept at: Protocol not known"),
        ("gs://bucket/x", "gs://bucket/x needs the package gcsfs: pip install gcsfs"),
    ],
)
def test_urls_that_nothing_here_can_reach(url: str, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        Storage(url).listed()


def test_s3(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The same on S3: creation is exclusive, a missing bucket and an endpoint that is gone are one line each."""
    monkeypatch.setenv("LEANFORMER_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr("leanformer.foundation.storage.PAUSES", (0.01,))
    with s3_endpoint(monkeypatch) as url:
        storage = Storage(f"{url}/study")
        assert storage.create("lease-000001", b"mine")
        assert not storage.create("lease-000001", b"yours")
        assert storage.read("lease-000001") == b"mine"
        storage.write("lease-000001", b"changed")
        assert (storage.names(), storage.read("lease-000001"), storage.read("none")) == (
            ["lease-000001"],
            b"changed",
            None,
        )
        storage.remove("lease-000001")
        storage.remove("lease-000001")
        mirror = Mirror.of(f"{url}/study")
        write(mirror.folder, plan="1", lean__run="2")
        mirror.send()
        monkeypatch.setenv("LEANFORMER_CACHE", str(tmp_path / "another-host"))
        assert (local(f"{url}/study") / "lean" / "run").read_text() == "2"
        with pytest.raises(OSError, match="s3://missing/study could not be written to: "):
            Storage("s3://missing/study").write("x", b"1")
    monkeypatch.setenv("AWS_MAX_ATTEMPTS", "1")
    with pytest.raises(OSError, match="could not be read: "):
        Storage(f"{url}/other").listed()
    assert os.environ["AWS_ENDPOINT_URL"]
