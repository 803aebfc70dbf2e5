"""docs/how_to/own_task.md as a reader follows it: the file is saved, and the commands are run."""

import json
import re
from pathlib import Path

import pytest

from leanformer.foundation.registry import CODE_VARIABLE
from support.command import call

PAGE = (Path(__file__).parents[2] / "docs" / "how_to" / "own_task.md").read_text(encoding="utf-8")


@pytest.fixture(autouse=True)
def _folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv(CODE_VARIABLE, "")
    (code,) = re.findall(r"^```python\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL)
    Path("my_recipe.py").write_text(code, encoding="utf-8")


def test_the_files_recipe_is_compared_and_shown() -> None:
    assert "leanformer compare my_recipe.py:build --seeds 3" in PAGE
    small = ("--seeds", "1", "--jobs", "1", "--steps", "2", "--arms", "original,lean", "--json")
    shown = call("compare", "my_recipe.py:build", *small)
    assert shown.returncode == 0, shown.stderr
    assert json.loads(shown.stdout)["metric"]["name"] == "accuracy"
    assert "digits (TensorDataset): 1,400 training and 397 held-out samples" in shown.stderr
    listed = call("recipes", "show", "my_recipe.py:build").stdout
    assert "Digits of my own." in listed
    assert "training.lr" in listed
    refused = call("compare", "my_recipe.py:build", *small, "--data", ".")
    assert refused.returncode == 2
    assert "my_recipe.py:digits brings its own data set; it cannot read ." in refused.stderr


def test_a_printed_recipe_and_an_emitted_design_are_read() -> None:
    printed = call("recipes", "show", "my_recipe.py:build", "--yaml")
    Path("my.yaml").write_text(printed.stdout, encoding="utf-8")
    assert call("recipes", "show", "my.yaml").returncode == 0
    emitted = call("design", "vit_tiny_patch16_224", "--batch", "2", "--emit", "yaml")
    assert emitted.returncode == 0, emitted.stderr
    Path("lean.yaml").write_text(emitted.stdout, encoding="utf-8")
    again = call("design", "lean.yaml", "--batch", "2", "--depth", "3", "--emit", "yaml")
    assert again.returncode == 0, again.stderr
    assert "family: vit" in again.stdout
