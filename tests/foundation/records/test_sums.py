"""Checksums of folders: a changed file is found and named."""

from pathlib import Path

import pytest

from leanformer.foundation.records.sums import SUMS, check_seal, seal, unseal


def test_a_file_that_changed_is_named(tmp_path: Path) -> None:
    check_seal(tmp_path)
    (tmp_path / "a").write_text("1")
    (tmp_path / "b").write_text("2")
    seal(tmp_path)
    check_seal(tmp_path)
    (tmp_path / "c").write_text("a file that came later")
    check_seal(tmp_path)
    (tmp_path / "b").write_text("3")
    with pytest.raises(ValueError, match=rf"{tmp_path / 'b'} does not match its checksum; .*delete {SUMS} if"):
        check_seal(tmp_path)
    (tmp_path / "b").unlink()
    with pytest.raises(ValueError, match=f"{tmp_path / 'b'} is missing"):
        check_seal(tmp_path)
    unseal(tmp_path)
    check_seal(tmp_path)


@pytest.mark.parametrize("content", [b"", b"x", b"\xff\n", b"0  a\n"])
def test_damaged_checksums_are_refused(content: bytes, tmp_path: Path) -> None:
    (tmp_path / SUMS).write_bytes(content)
    with pytest.raises(ValueError, match=f"{SUMS} is damaged; delete it"):
        check_seal(tmp_path)


def test_what_a_kill_left_half_written_is_removed_and_not_sealed(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text("{}")
    (tmp_path / ".config.json.123.part").write_text("{")
    unseal(tmp_path)
    assert list(seal(tmp_path)) == ["config.json"]
    assert sorted(path.name for path in tmp_path.iterdir()) == [SUMS, "config.json"]
