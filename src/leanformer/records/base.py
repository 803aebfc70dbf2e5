"""What results are written as: plain JSON, with where and how they came about. Standard library and torch only."""

import json
import platform
import shlex
import subprocess
import sys
from collections.abc import Mapping, Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Any

import torch


def plain(value: Any) -> Any:
    """The value with infinities as the string "inf", which strict JSON can hold."""
    if isinstance(value, Mapping):
        return {str(key): plain(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [plain(item) for item in value]
    return "inf" if isinstance(value, float) and value == float("inf") else value


def number(value: Any) -> float:
    """A number back from its plain form."""
    return float(value)


def quantiles(values: Sequence[float] | torch.Tensor, shares: Sequence[float]) -> list[float]:
    """Quantiles between values, or of values where some are infinite and there is no between."""
    numbers = torch.as_tensor(values, dtype=torch.float64)
    method = "nearest" if numbers.isinf().any() else "linear"
    return torch.quantile(numbers, torch.tensor(shares, dtype=torch.float64), interpolation=method).tolist()


def write_json(path: Path, record: Any) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(plain(record), indent=2, allow_nan=False) + "\n", encoding="utf-8")


def circumstances() -> dict[str, Any]:
    """The command, the commit, the versions and the machine behind a record."""
    program = Path(sys.argv[0]).name
    command = shlex.join(["leanformer" if program == "__main__.py" else program, *sys.argv[1:]])
    return {
        "command": command,
        "commit": _commit(),
        "versions": {name: version(name) for name in ("leanformer", "torch", "timm", "transformers", "numpy")},
        "python": platform.python_version(),
        "machine": {"system": platform.system(), "processor": _processor(), "threads": torch.get_num_threads()},
    }


def _commit() -> str | None:
    """The commit of the source tree, if the package runs from its own."""
    here = Path(__file__).parent
    git = ["git", "-C", str(here), "rev-parse", "--show-toplevel", "--short", "HEAD"]
    try:
        top, commit = subprocess.run(git, capture_output=True, text=True, check=True).stdout.split()  # noqa: S603
    except (OSError, ValueError, subprocess.CalledProcessError):
        return None
    return commit if (Path(top) / "src" / "leanformer").resolve() == here.resolve() else None


def _processor() -> str:
    path = Path("/proc/cpuinfo")
    lines = path.read_text(encoding="utf-8").splitlines() if path.is_file() else []
    return next((line.partition(": ")[2] for line in lines if line.startswith("model name")), platform.processor())
