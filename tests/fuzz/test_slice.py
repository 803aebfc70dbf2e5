"""A slice of the attacks, the same ones at every run; `make fuzz` does all of them."""

import importlib
from pathlib import Path

import pytest

from fuzz import designs
from fuzz.isolation import isolated
from fuzz.outcome import Tally, run

SLICE = {"designs": 15, "corruptions": 12, "commands": 16, "datasets": 40, "matrices": 200}
"""Attempts of each attacker: a few seconds each."""
FITTED = ("vit_tiny_patch16_224", "crammed-bert", "qwen3")


def test_every_family_is_attacked() -> None:
    designs.prepare()


@pytest.mark.parametrize("name", SLICE)
def test_nothing_is_silent_and_nothing_ends_in_a_traceback(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    attacker = importlib.import_module(f"fuzz.{name}")
    if name == "designs":  # to fit a closed form takes a second
        monkeypatch.setattr(attacker, "BASES", {key: attacker.BASES[key][:1] for key in FITTED})
        monkeypatch.setattr(attacker, "WIDTHS", (None,))
        monkeypatch.setattr(attacker, "prepare", lambda: None)
    with isolated(tmp_path):
        try:
            tally = run(Tally(name, seed=1), SLICE[name], attacker, minutes=2)
        finally:
            for cached in ("template", "truth"):
                getattr(importlib.import_module("fuzz.trained"), cached).cache_clear()
    assert not tally.findings, "\n".join(tally.findings.values())
    assert tally.tried == SLICE[name]
