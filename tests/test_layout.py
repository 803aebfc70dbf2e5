"""The shape of the package: its layers, its size, and what belongs where."""

import ast
from pathlib import Path

import pytest

SOURCE = Path(__file__).parents[1] / "src" / "leanformer"
FILES = sorted(SOURCE.rglob("*.py"))
TESTS = sorted(Path(__file__).parent.rglob("*.py"))

LAYERS = (
    {"architecture", "registry", "machine"},
    {"records"},
    {"models"},
    {"data"},
    {"conditioning", "costs"},
    {"designing", "tasks"},
    {"training"},
    {"runners"},
    {"experiments", "paper"},
    {"report"},
    {"cli"},
)
"""From the ground up. A module imports its own package and the layers below it; `__init__` and `__main__` are free."""


def imports(path: Path) -> set[str]:
    found = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            found |= {f"{node.module}.{alias.name}" for alias in node.names}
    return found


@pytest.mark.parametrize(
    "path", [p for p in FILES if p.parent != SOURCE or p.stem[0] != "_"], ids=lambda p: str(p)[len(str(SOURCE)) + 1 :]
)
def test_imports_point_down(path: Path) -> None:
    home = path.relative_to(SOURCE).parts[0].removesuffix(".py")
    level = next(number for number, layer in enumerate(LAYERS) if home in layer)
    allowed = {home}.union(*LAYERS[:level])
    used = {name.split(".")[1] for name in imports(path) if name.startswith("leanformer.")} - {"__version__"}
    assert used <= allowed, f"{home} may not import {', '.join(sorted(used - allowed))}"
