"""`leanformer design` from the command line."""

import json
import math
from pathlib import Path
from typing import get_args

import pytest

from leanformer.cli.design import Device
from leanformer.costs.runs import DEVICES
from support.command import call, run


def test_design_as_a_user_runs_it(tmp_path: Path) -> None:
    shown = run("design", "vit_base_patch16_224", "--params", "50%", "--samples", "384M", "--out", str(tmp_path))
    assert shown.returncode == 0, shown.stderr
    assert "try first" in shown.stdout
    assert "40.1 M" in shown.stdout
    assert "device-hours" in shown.stdout
    record = json.loads((tmp_path / "design.json").read_text())
    assert record["recommended"]["params"] == 40_112_872
    assert math.isclose(record["original"]["run"]["wall_hours"], record["original"]["run"]["device_hours"] / 8)
    assert (tmp_path / "design.png").stat().st_size > 10_000


def test_emit_prints_only_the_design() -> None:
    shown = call("design", "vit_base_patch16_224", "--params", "50%", "--emit", "timm")
    expected = "lf.create('vit_base_patch16_224', depth=7, heads=16, head_dim=64, mlp_dim=1536)"
    assert shown.stdout == f"import leanformer as lf\n\nmodel = {expected}\n"


def test_as_json(tmp_path: Path) -> None:
    shown = call("design", "gpt2", "--regime", "split", "--json", "--out", str(tmp_path))
    assert json.loads(shown.stdout) == json.loads((tmp_path / "design.json").read_text())
    assert {row["regime"] for row in json.loads(shown.stdout)["front"]} == {"split"}


def test_the_devices_are_the_librarys() -> None:
    assert get_args(Device) == tuple(DEVICES)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["vit_bse_patch16_224"], "did you mean vit_base_patch16_224"),
        (["gpt2", "--params", "0.001%"], "no design within these limits"),
        (["gpt2", "--params", "lots"], '--params takes a share or a size, such as "50%", "40M", got "lots"'),
        (["gpt2", "--fit", "24X"], '--fit takes a share or a size, such as "50%", "24GB", got "24X"'),
        (["gpt2", "--depth", "0"], "--depth takes whole numbers from 1 on"),
        (["gpt2", "--samples", "1M", "--utilisation", "0"], "utilisation must be above 0 and at most 1, got 0.0"),
        (["gpt2", "--regime", "both-ways"], "--regime"),
        (["gpt2", "--device", "abacus"], "--device"),
        (["gpt2", "--batch", "0"], "--batch"),
        (["gpt2", "--emit", "xml"], "--emit"),
    ],
)
def test_mistakes(arguments: list[str], message: str) -> None:
    shown = call("design", *arguments)
    assert shown.returncode == 2
    assert shown.stdout == ""
    assert message in shown.stderr
    assert len(shown.stderr.strip().splitlines()) == 1
