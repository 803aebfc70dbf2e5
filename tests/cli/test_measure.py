"""`leanformer measure` and `leanformer theory` from the command line."""

import json
from pathlib import Path

import pytest
import torch

import leanformer as lf
from leanformer.models import families
from support.architectures import SMALL
from support.command import call, run


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A small saved ViT."""
    torch.manual_seed(0)
    lf.save_pretrained(families.build(SMALL["vit"]), tmp_path / "vit")
    return tmp_path / "vit"


def test_measure_as_a_user_runs_it(folder: Path, tmp_path: Path) -> None:
    shown = run("measure", str(folder), "--batch", "2", "--json", "--out", str(tmp_path / "out"))
    assert shown.returncode == 0, shown.stderr
    record = json.loads(shown.stdout)
    assert record["layers"][0]["matrices"] == 2
    assert json.loads((tmp_path / "out" / "kappa_by_layer.json").read_text()) == record
    assert (tmp_path / "out" / "kappa_by_layer.png").is_file()


def test_measure_as_a_table(folder: Path, tmp_path: Path) -> None:
    table = call("measure", str(folder), "--batch", "2", "--out", str(tmp_path / "out")).stdout
    assert "blocks.1.attn" in table
    assert "Gaussian" in table


def test_warnings_are_printed_as_notes(tmp_path: Path) -> None:
    table = call("measure", "vit_tiny_patch16_224", "--batch", "1", "--out", str(tmp_path)).stdout
    assert "\nNote: 192 columns and 197 tokens are near the square" in table


def test_ranks(tmp_path: Path) -> None:
    shown = call("measure", "vit_tiny_patch16_224", "--rank", "--out", str(tmp_path))
    assert shown.returncode == 0, shown.stderr
    assert "Effective rank of W_Q W_Kᵀ in vit_tiny_patch16_224" in shown.stdout
    assert {file.name for file in tmp_path.iterdir()} == {f"rank_by_layer.{kind}" for kind in ("json", "png", "svg")}


def test_heads(tmp_path: Path) -> None:
    arguments = ["--heads", "2,3", "--depth", "1", "--batch", "1", "--out", str(tmp_path)]
    shown = call("measure", "vit_tiny_patch16_224", *arguments)
    assert shown.returncode == 0, shown.stderr
    assert "vit_tiny_patch16_224 with 1 layer, initial, seed 0" in shown.stdout
    assert (tmp_path / "kappa_by_heads.json").is_file()


def test_theory_as_a_user_runs_it(tmp_path: Path) -> None:
    arguments = ["--tokens", "17", "--head-dim", "8", "--heads", "1-3", "--samples", "50", "--model", "none"]
    shown = call("theory", *arguments, "--out", str(tmp_path))
    assert shown.returncode == 0, shown.stderr
    assert "Theorem 3.2" in shown.stdout
    assert (tmp_path / "theory.svg").is_file()


def test_theory_beside_a_real_model(tmp_path: Path) -> None:
    arguments = ["--model", "vit_tiny_patch16_224", "--heads", "2", "--depth", "1", "--samples", "5"]
    shown = call("theory", *arguments, "--out", str(tmp_path))
    assert shown.returncode == 0, shown.stderr
    assert json.loads((tmp_path / "theory.json").read_text())["real"]["depth"] == 1
    assert (tmp_path / "kappa_by_heads.png").is_file()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["measure", "vit_bse_patch16_224"], "did you mean vit_base_patch16_224"),
        (
            ["measure", "gpt2", "--heads", "0,2"],
            '--heads takes whole numbers from 1 on, such as "2,4,8" or "2-18", got "0,2"',
        ),
        (["measure", "gpt2", "--depth", "2"], "--depth goes with --heads"),
        (["measure", "gpt2", "--rank", "--heads", "2"], "--rank reads the weights alone"),
        (["measure", "gpt2", "--heads", "2", "--projections", "x"], "--heads measures at initialisation"),
        (["measure", "nystromformer-retrieval"], "takes pairs of documents"),
        (["measure", "davit_tiny", "--heads", "2"], "models of one stage; davit_tiny has 4"),
        (["measure", "gpt2", "--batch", "0"], "--batch"),
        (["theory", "--tokens", "0", "--model", "none"], "--tokens"),
        (["theory", "--samples", "1", "--model", "none"], "--samples"),
    ],
)
def test_mistakes(arguments: list[str], message: str) -> None:
    shown = call(*arguments)
    assert shown.returncode == 2
    assert shown.stdout == ""
    assert message in shown.stderr
    assert len(shown.stderr.strip().splitlines()) == 1


def test_precision_and_empty_patterns(folder: Path, tmp_path: Path) -> None:
    table = call("measure", str(folder), "--batch", "1", "--dtype", "float64", "--out", str(tmp_path)).stdout
    assert "as saved, in float64" in " ".join(table.split())
    refused = call("measure", str(folder), "--projections", "", "--out", str(tmp_path))
    assert refused.returncode != 0
    assert "projections='' names no module" in refused.stderr
    assert (
        "takes no --checkpoint, --projections or --dtype"
        in call("measure", "gpt2", "--heads", "2", "--dtype", "float64").stderr
    )
