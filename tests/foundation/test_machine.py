"""Cores and processes, as this machine and torchrun give them."""

from pathlib import Path

import pytest

from leanformer.foundation import machine


def test_cores_are_bounded_by_the_quota(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "cpu.max"
    for text, cores in (("150000 100000", 2), ("max 100000", 1 << 20), ("nonsense", 1 << 20)):
        file.write_text(text)
        assert machine._quota(file) == cores
    monkeypatch.setattr(machine, "_quota", lambda: 1)
    assert machine.cores() == 1


def test_the_first_process_is_the_one_of_rank_0(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("RANK", raising=False)
    assert machine.is_first_process()
    monkeypatch.setenv("RANK", "1")
    assert not machine.is_first_process()
    monkeypatch.setenv("RANK", "")
    assert machine.is_first_process()


@pytest.mark.parametrize(
    ("name", "value"), [("RANK", "first"), ("RANK", "-1"), ("WORLD_SIZE", "0"), ("WORLD_SIZE", "1.5")]
)
def test_odd_environments_are_refused(name: str, value: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(name, value)
    with pytest.raises(
        ValueError, match=f"the environment variable {name} must be a whole number from [01] on, got '{value}'"
    ):
        machine.is_first_process() if name == "RANK" else machine.process_count()


def test_one_process_makes_what_it_needs_itself() -> None:
    assert machine.from_first_process(lambda: 3) == 3
