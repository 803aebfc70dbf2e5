"""Keep PyTorch alive on virtual machines that announce matrix instructions (AMX) and hide the size of their tiles.

oneDNN, with which PyTorch multiplies bfloat16 matrices on a CPU, asks the processor for the size of its tiles (CPUID,
leaf 0x1D). Some hypervisors announce AMX and answer that question with zeros. oneDNN then sets up tiles of size zero,
and the next instruction ends the process with SIGILL. It reads ONEDNN_MAX_CPU_ISA when it is used for the first time,
so the variable is set before PyTorch is imported, and only on such a machine.
"""

from __future__ import annotations

import ctypes
import mmap
import os
import platform
import sys
from pathlib import Path

VARIABLE, WITHOUT_AMX = "ONEDNN_MAX_CPU_ISA", "AVX512_CORE_BF16"
CPUINFO = Path("/proc/cpuinfo")
TILES = 0x1D
"""The leaf of CPUID that describes tiles. Its subleaf 0 gives the number of the last palette, 0 if there is none."""


def avoid_broken_amx() -> None:
    """Tell oneDNN not to use AMX if this machine announces it without saying how large its tiles are."""
    if VARIABLE not in os.environ and _is_announced() and _palettes() == 0:
        os.environ[VARIABLE] = WITHOUT_AMX


def _is_announced() -> bool:
    if sys.platform != "linux" or platform.machine() != "x86_64":
        return False
    try:
        lines = CPUINFO.read_text(encoding="utf-8").splitlines()
    except OSError:
        return False
    return "amx_tile" in next((line.split() for line in lines if line.startswith("flags")), [])


def _palettes() -> int | None:
    """How many kinds of tiles the processor describes; None if it cannot be asked."""
    try:
        return _cpuid(TILES) if _cpuid(0) >= TILES else 0
    except (OSError, ValueError):  # a system that forbids pages of code
        return None


def _cpuid(leaf: int) -> int:
    """Register EAX after CPUID, which Python cannot call: a function of five instructions does."""
    page = mmap.mmap(-1, mmap.PAGESIZE, prot=mmap.PROT_READ | mmap.PROT_WRITE | mmap.PROT_EXEC)
    page.write(
        b"\x53"  # push rbx, which CPUID overwrites
        b"\xb8" + leaf.to_bytes(4, "little") + b"\x31\xc9"  # mov eax, leaf; xor ecx, ecx
        b"\x0f\xa2\x5b\xc3"  # cpuid; pop rbx; ret
    )
    start = ctypes.addressof(ctypes.c_char.from_buffer(page))
    return int(ctypes.CFUNCTYPE(ctypes.c_uint32)(start)())
