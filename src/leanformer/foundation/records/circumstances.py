"""Where and how a record came about: the command, the commit, the versions and the machine."""

from __future__ import annotations

import platform
import shlex
import subprocess
import sys
from importlib.metadata import version
from pathlib import Path
from typing import Any

from leanformer.foundation import machine
from leanformer.foundation.records.base import Record, RecordPart, shortened

PACKAGES = ("leanformer", "torch", "timm", "transformers", "numpy")


class Machine(RecordPart):
    system: str
    processor: str
    threads: int
    """CPU threads of PyTorch."""
    capability: str | None = None
    """The vector instructions that PyTorch's kernels use, such as AVX512: the last digits of results depend on them."""


class Circumstances(RecordPart):
    """What is needed to do it again."""

    command: str
    commit: str | None
    versions: dict[str, str]
    python: str
    machine: Machine


class DatedRecord(Record, Circumstances):
    """A record that holds its circumstances beside its own fields."""

    def glance(self) -> str:
        """Without the circumstances, which are not what a reader looks for first."""
        own = [name for name in type(self).model_fields if name not in Circumstances.model_fields]
        return ", ".join(f"{name}={shortened(getattr(self, name))}" for name in own)


def circumstances() -> Circumstances:
    """Those of this process."""
    import torch

    return Circumstances(
        command=_command(),
        commit=_commit(),
        versions={name: version(name) for name in PACKAGES},
        python=platform.python_version(),
        machine=Machine(
            system=platform.system(),
            processor=machine.processor(),
            threads=torch.get_num_threads(),
            capability=torch.backends.cpu.get_cpu_capability(),
        ),
    )


def _command() -> str:
    """What was typed, without the folder of the program."""
    program, arguments = Path(sys.argv[0]).name, sys.argv[1:]
    if program in ("ipykernel_launcher.py", "ipykernel"):  # its arguments say how the kernel was started
        return "the notebook"
    if program == "__main__.py":
        program = "leanformer"
    return shlex.join([*(["python"] if program.endswith(".py") else []), program, *arguments])


def fields_of(found: Circumstances) -> dict[str, Any]:
    """The fields, to make a `DatedRecord` of."""
    return {name: getattr(found, name) for name in Circumstances.model_fields}


def _commit() -> str | None:
    """The commit of the source tree, if the package runs from its own."""
    here = Path(__file__).parents[2]
    git = ["git", "-C", str(here), "rev-parse", "--show-toplevel", "--short", "HEAD"]
    try:
        top, commit = subprocess.run(git, capture_output=True, text=True, check=True).stdout.split()  # noqa: S603
    except (OSError, ValueError, subprocess.CalledProcessError):
        return None
    return commit if (Path(top) / "src" / "leanformer").resolve() == here.resolve() else None
