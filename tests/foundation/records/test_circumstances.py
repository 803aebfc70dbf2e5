"""The command that a record states."""

import sys

import pytest

from leanformer.foundation.records.circumstances import circumstances


@pytest.mark.parametrize(
    ("typed", "stated"),
    [
        (["/opt/bin/leanformer", "compare", "a b"], "leanformer compare 'a b'"),
        (["/opt/leanformer/__main__.py", "compare"], "leanformer compare"),
        (["/home/me/train.py", "--seeds", "3"], "python train.py --seeds 3"),
        (["/opt/ipykernel_launcher.py", "-f", "/home/me/kernel.json"], "the notebook"),
    ],
)
def test_it_is_what_was_typed(typed: list[str], stated: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "argv", typed)
    assert circumstances().command == stated
