"""A user's training function and model by name: `leanformer compare fit.py:fit --model fit.py:Model`."""

import pickle
import sys
from pathlib import Path

import pytest

import leanformer as lf
from leanformer.foundation.registry import is_reference, resolve
from leanformer.runners.children import carried
from support.command import call

CODE = """
from torch import nn

OFFSET = 10

class Model(nn.Module):
    def __init__(self, depth=2, heads=2):
        super().__init__()
        self.layers = nn.ModuleList(nn.Linear(heads, heads) for _ in range(depth))

def fit(model, seed, folder):
    return float(OFFSET + seed + len(model.layers))
"""
SIZES = ("--original", "depth=2,heads=2", "--lean", "depth=1,heads=4", "--seeds", "2", "--margin", "3")


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("fit.py").write_text(CODE)


def test_the_command_takes_a_training_function() -> None:
    done = call("compare", "fit.py:fit", "--model", "fit.py:Model", *SIZES, "--out", "out")
    assert done.returncode == 0, done.stderr
    record = lf.Comparison.read(Path("out/comparison.json"))
    assert record.name == "fit"
    scores = {arm: list(result.scores.values()) for arm, result in record.arms.items()}
    assert scores == {"original": [12.0, 13.0], "lean": [11.0, 12.0], "shallow": [11.0, 12.0]}
    again = lf.compare(
        train="fit.py:fit", model="fit.py:Model", original="depth=2", lean="depth=1", seeds=1, margin=3, report=False
    )
    assert again.arms["lean"].scores == {"0": 11.0}
    swept = lf.sweep("fit.py:fit", model="fit.py:Model", depth=[1, 3], seeds=1, report=False)
    assert [cell.scores["0"] for cell in swept.cells] == [11.0, 13.0]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("fit.py:other",), "fit.py has no other"),
        (("fit.py:fit",), "original must be given"),
        (("fit.py:fit", *SIZES, "--steps", "3"), "--steps does not go with train or --command"),
        (("nowhere.py:fit",), "there is no file nowhere.py"),
    ],
)
def test_mistakes_are_one_line(arguments: tuple[str, ...], message: str) -> None:
    done = call("compare", *arguments)
    assert done.returncode == 2
    assert message in done.stderr
    assert len(done.stderr.strip().splitlines()) == 1


def test_functions_of_files_are_carried_with_their_code() -> None:
    """Another process, or another host, need not have the file."""
    fit = resolve("fit.py:fit")
    content = carried(fit, "train")
    module = sys.modules.pop(fit.__module__)
    Path("fit.py").unlink()
    model = module.Model(depth=3)
    assert pickle.loads(content)(model, 1, Path()) == 14.0


@pytest.mark.parametrize("text", ["fit.py:fit", "a/b.py:C.d", "package.module:Name"])
def test_references(text: str) -> None:
    assert is_reference(text)


@pytest.mark.parametrize("text", ["local-dir:/models/x", "hf-hub:timm/vit", "vit_base", "s3://b/x", "", None, 3])
def test_other_names(text: object) -> None:
    assert not is_reference(text)
