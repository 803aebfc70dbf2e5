"""A machine that announces AMX and hides its tiles must not end a process that multiplies bfloat16 matrices."""

import os
import platform
import subprocess
import sys
from pathlib import Path

import pytest

from leanformer.foundation import amx

ON_X86 = sys.platform == "linux" and platform.machine() == "x86_64"


@pytest.mark.parametrize(
    ("flags", "last_leaf", "palettes", "expected"),
    [
        ("amx_tile amx_bf16", 0x1C, 0, amx.WITHOUT_AMX),
        ("amx_tile amx_bf16", 0x20, 0, amx.WITHOUT_AMX),
        ("amx_tile amx_bf16", 0x20, 1, None),
        ("avx512f", 0x1C, 0, None),
    ],
    ids=["leaf is missing", "leaf is empty", "tiles are described", "not announced"],
)
def test_only_hidden_tiles_turn_amx_off(
    flags: str,
    last_leaf: int,
    palettes: int,
    expected: str | None,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    cpuinfo = tmp_path / "cpuinfo"
    cpuinfo.write_text(f"processor\t: 0\nflags\t\t: fpu {flags} sse\n")
    monkeypatch.setattr(amx, "CPUINFO", cpuinfo)
    monkeypatch.setattr(amx, "_cpuid", {0: last_leaf, amx.TILES: palettes}.__getitem__)
    monkeypatch.setattr(sys, "platform", "linux")
    monkeypatch.setattr(platform, "machine", lambda: "x86_64")
    monkeypatch.delenv(amx.VARIABLE, raising=False)
    amx.avoid_broken_amx()
    assert os.environ.get(amx.VARIABLE) == expected
    monkeypatch.setenv(amx.VARIABLE, "AVX2")
    amx.avoid_broken_amx()
    assert os.environ[amx.VARIABLE] == "AVX2"  # a user's own choice


def test_a_system_that_forbids_pages_of_code_is_left_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(leaf: int) -> int:
        raise PermissionError(f"no page for leaf {leaf}")

    monkeypatch.setattr(amx, "_is_announced", lambda: True)
    monkeypatch.setattr(amx, "_cpuid", refuse)
    monkeypatch.delenv(amx.VARIABLE, raising=False)
    amx.avoid_broken_amx()
    assert amx.VARIABLE not in os.environ


def test_the_processor_answers() -> None:
    """CPUID is an instruction of x86 processors; others are not asked."""
    if ON_X86:
        assert 1 <= amx._cpuid(0) < 0x100  # its last leaf
    else:
        assert not amx._is_announced()


def test_bfloat16_matrices_are_multiplied_after_the_import() -> None:
    """On the machine at hand, whichever it is: without the guard, this process ended by SIGILL on some."""
    environment = {key: value for key, value in os.environ.items() if key != amx.VARIABLE}
    code = "import leanformer, torch; a = torch.ones(64, 64, dtype=torch.bfloat16); print((a @ a)[0, 0].item())"
    done = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout.strip()) == (0, "64.0"), done.stderr
