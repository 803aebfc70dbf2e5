"""Models as ONNX and as exported programs: equal to the model, for any batch, in a process without leanformer."""

import json
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import onnxruntime
import pytest
import torch
from torch import nn

import leanformer as lf
from leanformer.models import exporting, families
from support.amount import COMPLETE
from support.architectures import SMALL
from support.command import call

KEYS = list(SMALL) if COMPLETE else ["vit", "gpt2"]
"""ONNX takes seconds per family: by default an image model and a language model."""
LEAN = {key: made.resized(heads=[2 * stage.heads for stage in made.stages]) for key, made in SMALL.items()}
"""Heads whose sum is twice the width: what upstream's constructors cannot build."""


def eager(model: nn.Module, inputs: dict[str, torch.Tensor]) -> torch.Tensor:
    with torch.no_grad():
        output = model.eval()(**inputs)
    return getattr(output, "logits", output)


def samples(key: str, model: nn.Module, batch: int, tokens: int | None) -> dict[str, torch.Tensor]:
    inputs = families.example_inputs(LEAN[key], batch, tokens)
    if "input_ids" in inputs and "attention_mask" in exporting._arguments(model):
        inputs["attention_mask"] = torch.ones_like(inputs["input_ids"])
        inputs["attention_mask"][0, 5:] = 0
    return inputs


def lengths(exported: lf.Exported) -> tuple[int | None, ...]:
    """Lengths of texts to try; images have none, and the Nyströmformer takes one only."""
    if any("tokens" in shape for shape in exported.inputs.values()):
        return 20, 33
    return (exported.inputs["input_ids"][-1],) if "input_ids" in exported.inputs else (None,)


@pytest.mark.parametrize("key", KEYS)
def test_onnx_runtime_computes_what_the_model_computes(key: str, tmp_path: Path) -> None:
    torch.manual_seed(0)
    model = families.build(LEAN[key])
    exported = lf.export(model, tmp_path / "model.onnx")
    assert exported.format == "onnx"
    assert exported.difference < 1e-5
    assert model.training, "the model is left as it was"
    session = onnxruntime.InferenceSession(tmp_path / "model.onnx")
    assert {value.name: tuple(value.shape) for value in session.get_inputs()} == {
        name: tuple(str(size) if isinstance(size, str) else size for size in shape)
        for name, shape in exported.inputs.items()
    }
    for batch, tokens in zip((1, 5), lengths(exported) * 2, strict=False):
        inputs = samples(key, model, batch, tokens)
        (found,) = session.run(None, {name: tensor.numpy() for name, tensor in inputs.items()})
        wanted = eager(model, inputs).numpy()
        if found.ndim == 3 and "attention_mask" in inputs:  # of padding, nothing is asked
            real = inputs["attention_mask"].numpy().astype(bool)
            found, wanted = found[real], wanted[real]
        np.testing.assert_allclose(found, wanted, rtol=1e-4, atol=1e-5)
    about = session.get_modelmeta().custom_metadata_map
    assert lf.Architecture.from_dict(json.loads(about["architecture"])) == lf.describe(model)


@pytest.mark.parametrize("key", KEYS[1:])
def test_an_exported_program_computes_what_the_model_computes(key: str, tmp_path: Path) -> None:
    torch.manual_seed(0)
    model = families.build(LEAN[key])
    exported = lf.export(model, tmp_path / "model.pt2")
    program = torch.export.load(tmp_path / "model.pt2").module()
    for batch, tokens in zip((1, 5), lengths(exported) * 2, strict=False):
        inputs = samples(key, model, batch, tokens)
        torch.testing.assert_close(program(**inputs)[0], eager(model, inputs), rtol=1e-5, atol=1e-6)


def test_a_run_is_exported_by_the_command_and_runs_without_leanformer(tmp_path: Path) -> None:
    model = families.build(LEAN["vit"]).eval()
    names = [f"class {label}" for label in range(10)]
    lf.save_pretrained(model, tmp_path / "saved", preprocessing={"mean": [0.1] * 3, "label_names": names})
    shown = call("export", str(tmp_path / "saved"), "--out", str(tmp_path / "new" / "model.pt2"))
    assert shown.returncode == 0, shown.stderr
    assert "takes x (batch, 3, 32, 32) and gives output" in shown.stdout
    inputs = families.example_inputs(LEAN["vit"], batch=3)
    torch.save((inputs["x"], eager(model, inputs)), tmp_path / "expected.pt")
    program = (
        "import json, sys, torch; sys.modules.update(dict.fromkeys(('leanformer', 'timm', 'transformers')));"
        "about = {'leanformer.json': ''}; program = torch.export.load(sys.argv[1], extra_files=about).module();"
        "x, wanted = torch.load(sys.argv[2], weights_only=True);"
        "torch.testing.assert_close(program(x=x)[0], wanted, rtol=1e-5, atol=1e-6);"
        "print(json.loads(about['leanformer.json'])['preprocessing']['label_names'][9])"
    )
    arguments = [sys.executable, "-c", program, tmp_path / "new" / "model.pt2", tmp_path / "expected.pt"]
    ran = subprocess.run(arguments, capture_output=True, text=True, check=False)
    assert ran.stdout == "class 9\n", ran.stderr


def test_any_model_is_exported_with_an_example(tmp_path: Path) -> None:
    model = nn.Sequential(nn.Linear(4, 3), nn.Tanh())
    with pytest.raises(
        ValueError, match=r"Sequential belongs to no known family .*; give example=, inputs by the names"
    ):
        lf.export(model, tmp_path / "model.pt2")
    exported = lf.export(model, tmp_path / "model.pt2", example={"input": torch.randn(2, 4)})
    assert exported.inputs == {"input": ("batch", 4)}
    assert str(exported).startswith(f"{tmp_path / 'model.pt2'} takes input (batch, 4) and gives output; it differs")


class Fixed(nn.Module):
    """Takes two samples and no other number."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x.reshape(2, -1).cumsum(1) if x.shape[0] == 2 else x


def test_a_batch_that_the_code_fixes_is_fixed_in_the_file(tmp_path: Path) -> None:
    assert lf.export(Fixed(), tmp_path / "model.pt2", example={"x": torch.randn(2, 3)}).inputs == {"x": (2, 3)}


class Sorted(nn.Module):
    """Takes another way for texts of few tokens: what is traced is right for the others only."""

    def forward(self, input_ids: torch.Tensor) -> torch.Tensor:
        x = input_ids.float()
        return x.cumsum(1) if x.shape[1] > 4 else -x


def test_a_length_that_the_code_asks_for_is_fixed_in_the_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    free = {"input_ids": {0: "batch", 1: "tokens"}}
    monkeypatch.setattr(exporting, "_of_family", lambda model: exporting._Given({}, free))
    example = {"input_ids": torch.ones(2, 6, dtype=torch.int64)}
    exported = lf.export(Sorted(), tmp_path / "model.pt2", example=example)
    assert exported.inputs == {"input_ids": ("batch", 6)}


class Untraceable(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x if x.sum().item() > 0 else -x


def test_what_cannot_be_exported_is_one_line_and_leaves_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    two = {"x": torch.ones(2, 3)}
    (tmp_path / "file").write_text("")
    cases: list[tuple[str, nn.Module, Path, dict]] = [
        ("Untraceable cannot be exported: .*", Untraceable(), tmp_path / "a.pt2", {"example": two}),
        ("format must be onnx or pt2, got 'bin'; give one, or a path that ends", Fixed(), tmp_path / "a.bin", {}),
        ("format must be onnx or pt2, got 'tf'", Fixed(), tmp_path / "a.onnx", {"format": "tf"}),
        ("this model has no weights", families.build(LEAN["vit"], "meta"), tmp_path / "a.pt2", {}),
        ("Fixed has no argument y", Fixed(), tmp_path / "a.pt2", {"example": {"y": two["x"]}}),
        ("x needs at least 2 samples", Fixed(), tmp_path / "a.pt2", {"example": {"x": torch.ones(1, 3)}}),
        ("example must be tensors by the names", Fixed(), tmp_path / "a.pt2", {"example": {}}),
        ("cannot be written to: it is a folder", Fixed(), tmp_path, {"format": "pt2", "example": two}),
        ("a.pt2 cannot be written to: File exists", Fixed(), tmp_path / "file" / "a.pt2", {"example": two}),
        ("nothing.pt2 cannot be written to", Fixed(), Path("/proc/nothing.pt2"), {"example": two}),
    ]
    for message, model, path, choices in cases:
        with pytest.raises(ValueError, match=message) as refused:
            lf.export(model, path, **choices)
        assert "\n" not in str(refused.value)
    other = SimpleNamespace(module=lambda: lambda x: [x + 1])
    monkeypatch.setattr(torch.export, "load", lambda file: other)
    with pytest.raises(ValueError, match=r"a\.pt2 is not written: as pt2, the model's outputs differ by"):
        lf.export(Fixed(), tmp_path / "a.pt2", example=two)
    monkeypatch.setattr(exporting, "PACKAGES", ("onnx", "onnx_of_nobody"))
    with pytest.raises(ValueError, match=r'ONNX needs onnx_of_nobody: pip install "leanformer\[export\]"'):
        lf.export(Fixed(), tmp_path / "a.onnx", example=two)
    assert [path.name for path in tmp_path.iterdir()] == ["file"]


def test_a_folder_is_exported_as_its_model_is(tmp_path: Path) -> None:
    run = tmp_path / "runs" / "lean" / "seed-0"
    lf.save_pretrained(families.build(LEAN["vit"]), run / "model")
    assert lf.export(run / "model", tmp_path / "model.pt2").path.is_file()
    with pytest.raises(ValueError, match=r"holds no config.json; its runs have models, such as .*runs/lean/seed-0$"):
        lf.export(str(tmp_path / "runs"), tmp_path / "other.pt2")


def test_the_command_refuses_in_one_line(tmp_path: Path) -> None:
    lf.save_pretrained(families.build(LEAN["vit"]), tmp_path / "saved")
    for arguments, message in (
        ((str(tmp_path),), "is not a saved model: it holds no config.json"),
        ((str(tmp_path / "none"),), "is not a saved model"),
        ((str(tmp_path / "saved"), "--out", "/proc/nothing/a.onnx"), "/proc/nothing/a.onnx cannot be written to"),
        ((str(tmp_path / "saved"), "--out", "a.txt"), "got 'txt'"),
    ):
        shown = call("export", *arguments)
        assert (shown.returncode, shown.stdout) == (2, "")
        assert message in shown.stderr
        assert len(shown.stderr.splitlines()) == 1, shown.stderr
