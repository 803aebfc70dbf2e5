"""The shape of the package: its layers, its size, its words, and what belongs where."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
SOURCE = ROOT / "src" / "leanformer"
FILES = sorted(SOURCE.rglob("*.py"))
TESTS = sorted(Path(__file__).parent.rglob("*.py"))

LAYERS = (
    {"architecture"},
    {"foundation"},
    {"models"},
    {"data"},
    {"conditioning", "costs"},
    {"designing", "tasks"},
    {"training"},
    {"inheriting"},
    {"runners"},
    {"experiments"},
    {"paper"},
    {"report"},
    {"app"},
    {"cli"},
)
"""From the ground up. A module imports its own package and the layers below it; `__init__` and `__main__` are free."""


def name_of(path: Path) -> str:
    return str(path.relative_to(ROOT))


def imports(path: Path) -> set[str]:
    found = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            found |= {f"{node.module}.{alias.name}" for alias in node.names}
    return found


@pytest.mark.parametrize("path", [p for p in FILES if p.parent != SOURCE or p.stem[0] != "_"], ids=name_of)
def test_imports_point_down(path: Path) -> None:
    home = path.relative_to(SOURCE).parts[0].removesuffix(".py")
    level = next(number for number, layer in enumerate(LAYERS) if home in layer)
    allowed = {home}.union(*LAYERS[:level])
    used = {name.split(".")[1] for name in imports(path) if name.startswith("leanformer.")} - {"__version__"}
    assert used <= allowed, f"{home} may not import {', '.join(sorted(used - allowed))}"


def test_the_top_level_is_short_and_every_part_has_a_layer() -> None:
    entries = {path.name for path in SOURCE.iterdir() if path.name != "__pycache__"}
    assert len(entries) <= 18, sorted(entries)
    assert {entry.removesuffix(".py") for entry in entries if entry[0] != "_"} - {"py.typed"} == set().union(*LAYERS)


def test_upstreams_models_are_imported_by_the_models_alone() -> None:
    allowed = {"models", "data", "tasks", "conditioning"}  # transforms, tokenizers and callbacks
    for path in FILES:
        heavy = {name for name in imports(path) if name.split(".")[0] in ("timm", "transformers")}
        assert not heavy or path.relative_to(SOURCE).parts[0] in allowed, path


def test_architecture_needs_the_standard_library_only() -> None:
    third_party = {"torch", "numpy", "scipy", "yaml", "pydantic"}
    assert not {name.split(".")[0] for name in imports(SOURCE / "architecture.py")} & third_party


def test_tests_share_code_through_support_only() -> None:
    for path in TESTS:
        assert not [name for name in imports(path) if name.split(".")[0].startswith("test_")], path
        if path.name.startswith("test_") and path.parent not in (Path(__file__).parent, Path(__file__).parent / "fuzz"):
            assert (SOURCE / path.parent.relative_to(Path(__file__).parent)).is_dir(), f"{path} mirrors no package"


# Size


def test_files_stay_small() -> None:
    assert not {path.name for path in FILES if len(path.read_text(encoding="utf-8").splitlines()) > 500}


def functions(path: Path) -> Iterator[ast.FunctionDef]:
    tree = ast.parse(path.read_text(encoding="utf-8"))
    return (node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef))


BRANCHES = (ast.If, ast.For, ast.While, ast.ExceptHandler, ast.IfExp, ast.comprehension, ast.With)


@pytest.mark.parametrize("path", FILES, ids=name_of)
def test_functions_stay_small(path: Path) -> None:
    """Signature and docstring do not count: a command or a public function has many of both."""
    for function in functions(path):
        body = function.body[1:] if ast.get_docstring(function) else function.body
        length = body[-1].end_lineno - body[0].lineno + 1 if body else 0
        assert length <= 60, f"{function.name} has {length} lines"
        branches = sum(isinstance(node, BRANCHES) for node in ast.walk(function))
        assert branches <= 14, f"{function.name} has {branches} branches"


# Words


def test_every_module_says_what_it_is() -> None:
    for path in FILES:
        assert ast.get_docstring(ast.parse(path.read_text(encoding="utf-8"))), path


STUMBLES = re.compile(
    r"\b(is|are) no (run|comparison|folder|value|record|readable|sweep|number)\b|not to be had|\bgoes on\b|"
    r"going on from|not told from|\bare told\b|\bis told\b|May import|\brooms\b|\bwhat room\b|to the same bits|"
    r"\bmultiplications\b|starting anew|made anew"
)
"""Words of version 0.1 that readers stumbled on."""


@pytest.mark.parametrize(
    "path", [*FILES, *TESTS, *sorted(ROOT.glob("*.md")), *sorted((ROOT / "docs").rglob("*.md"))], ids=name_of
)
def test_the_english_is_plain(path: Path) -> None:
    if path.name in ("CHANGELOG.md", Path(__file__).name):  # which have these words as such
        return
    found = [line.strip() for line in path.read_text(encoding="utf-8").splitlines() if STUMBLES.search(line)]
    assert not found, found[:5]


@pytest.mark.parametrize("path", [p for p in FILES if "cli" not in p.parts], ids=name_of)
def test_the_library_speaks_of_arguments_not_of_options(path: Path) -> None:
    """Docstrings may name a command; what is raised or said may not name an option of it."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, (ast.Raise, ast.Call)):
            for part in ast.walk(node):
                text = part.value if isinstance(part, ast.Constant) and isinstance(part.value, str) else ""
                allowed = text.replace("--upgrade", "").replace("--show-toplevel", "").replace("--short", "")
                assert not re.search(r"(^|[\s\"'(])--[a-z]", allowed), f"line {part.lineno}: {text}"
