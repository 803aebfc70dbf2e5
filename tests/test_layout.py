"""The shape of the package itself: who may import whom, and that no file outgrows its room."""

import ast
from pathlib import Path

import pytest

SOURCE = Path(__file__).parents[1] / "src" / "leanformer"
FILES = sorted(SOURCE.rglob("*.py"))

ALLOWED: dict[str, set[str]] = {
    # room: the leanformer rooms it may import
    "architecture": set(),
    "_torchvision": set(),
    "families": {"architecture", "families", "_torchvision"},
    "paper.ledger": {"architecture"},
    "paper.scorecard": {"architecture", "families", "paper.ledger"},
    "conditioning": set(),
    "theory": {"architecture"},
    "probing": {"conditioning", "families", "records"},
    "records": set(),
    "tracing": set(),
    "cost": {"architecture", "families", "tracing"},
    "guards": {"architecture", "theory"},
    "designs": {"architecture", "cost", "families", "guards", "records", "theory", "zoo"},
    "tracking": {"probing", "records"},
    "inputs": {"families", "tasks"},
    "measurement": {
        *("architecture", "families", "inputs", "probing", "ranks", "records", "runs", "theory", "weights", "zoo"),
    },
    "callbacks": {"probing", "tracking"},
    "paper.memory": {"cost", "paper.ledger", "paper.scorecard"},
    "weights": {"architecture", "families"},
    "zoo": {"architecture", "families", "paper.ledger", "weights"},
    "checkpoint": set(),
    "tasks": {"tasks"},
    "runs": {"architecture", "checkpoint", "tasks"},
    "training": {"checkpoint", "families", "records", "runs", "tasks", "tracking", "weights"},
    "generation": {"weights"},
    "glue": {"checkpoint", "comparison", "recipes", "records", "statistics", "tasks"},
    "statistics": set(),
    "budgets": {"architecture", "cost", "families", "runs", "tasks", "training"},
    "processes": set(),
    "jobs": {"checkpoint", "processes", "runs", "tasks", "training"},
    "recipe": {"architecture", "runs", "tasks"},
    "recipes": {
        "architecture",
        "designs",
        "families",
        "jobs",
        "paper.ledger",
        "recipe",
        "recipes",
        "runs",
        "tasks",
        "zoo",
    },
    "comparison": {
        *("architecture", "budgets", "checkpoint", "cost", "families", "jobs", "processes", "recipe", "recipes"),
        *("records", "runs", "statistics", "training"),
    },
    "ranks": {"conditioning", "probing"},
    "sweeping": {
        *("architecture", "checkpoint", "comparison", "cost", "families", "jobs", "processes", "ranks", "recipe"),
        *("recipes", "records", "runs", "statistics", "tasks", "weights"),
    },
    "report": {"paper.ledger", "paper.memory", "paper.scorecard", "processes", "records", "report"},
}
ANYTHING = {"__init__", "__main__", "cli", "paper.__init__"}


def room_of(path: Path) -> str:
    parts = path.relative_to(SOURCE).with_suffix("").parts
    return parts[0] if parts[0] in ("cli", "families", "recipes", "report", "tasks") else ".".join(parts)


def imports(path: Path) -> set[str]:
    found = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            found |= {f"{node.module}.{alias.name}" for alias in node.names}
    return found


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(SOURCE)))
def test_imports_point_one_way(path: Path) -> None:
    room = room_of(path)
    if room in ANYTHING:
        return
    assert room in ALLOWED, f"{room} is a new room: say in this test what it may import"
    for name in imports(path):
        if name.startswith("leanformer."):
            target = name.removeprefix("leanformer.")
            assert any(target == allowed or target.startswith(f"{allowed}.") for allowed in ALLOWED[room]), name


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(SOURCE)))
def test_timm_and_transformers_stay_in_their_rooms(path: Path) -> None:
    heavy = {name for name in imports(path) if name.split(".")[0] in ("timm", "transformers")}
    assert room_of(path) in ("families", "callbacks", "inputs", "tasks") or not heavy


def test_architecture_needs_the_standard_library_only() -> None:
    third_party = {"torch", "numpy", "scipy", "yaml", "pydantic"}
    assert not {name.split(".")[0] for name in imports(SOURCE / "architecture.py")} & third_party


def test_files_stay_small() -> None:
    long = {path.name: count for path in FILES if (count := len(path.read_text(encoding="utf-8").splitlines())) > 500}
    assert not long


def test_every_module_says_what_room_it_is() -> None:
    for path in FILES:
        assert ast.get_docstring(ast.parse(path.read_text(encoding="utf-8"))), path
