"""Commands that train say where the models are, and what they say works."""

import re
from pathlib import Path

import leanformer as lf
from support.command import call


def loaded(stderr: str) -> lf.Architecture:
    """What the printed call gives."""
    found = re.search(r"lf\.from_pretrained\('(.+)'\) loads (it|one)$", " ".join(stderr.split()))
    assert found, stderr
    return lf.describe(lf.from_pretrained(found[1]))


def test_train_and_compare_say_how_to_load_their_models(tmp_path: Path) -> None:
    shown = call("train", "digits", "--steps", "2", "--out", str(tmp_path / "one"))
    assert shown.returncode == 0, shown.stderr
    assert f"the model is in {tmp_path}/one/model: " in " ".join(shown.stderr.split())
    lean = loaded(shown.stderr)
    choices = ("--steps", "2", "--seeds", "1", "--arms", "original,lean", "--jobs", "1")
    shown = call("compare", "digits", *choices, "--out", str(tmp_path / "several"))
    assert shown.returncode == 0, shown.stderr
    assert f"models are in {tmp_path}/several/ARM/seed-N/model: " in " ".join(shown.stderr.split())
    assert loaded(shown.stderr) == lean
