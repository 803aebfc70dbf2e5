"""References to a user's own code: found by other processes, found here only, moved, broken, or not trusted."""

import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType

import pytest

from leanformer.foundation import registry
from leanformer.foundation.registry import CODE_VARIABLE, Registry, may_call, only_here, reference_to, resolve, trust


@pytest.fixture(autouse=True)
def _own_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(CODE_VARIABLE, "")


@pytest.fixture
def module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[ModuleType]:
    """A module on the path, with a function at its top level."""
    (tmp_path / "mine_on_the_path.py").write_text("def build(): return 3\nnothing = None\n")
    monkeypatch.syspath_prepend(tmp_path)
    import mine_on_the_path  # type: ignore[import-not-found]

    yield mine_on_the_path
    del sys.modules["mine_on_the_path"]


# Code that only this process can find


def test_what_was_made_inside_a_function_is_found_in_this_process_only() -> None:
    def one() -> None: ...
    def two() -> None: ...

    two.__qualname__ = one.__qualname__
    first, second = reference_to(one), reference_to(two)
    assert first.startswith("this-process:test_what_was_made")
    assert second == f"{first}-2"
    assert first == reference_to(one)
    assert resolve(first, from_record=True) is one
    assert resolve(second) is two
    assert only_here(first)
    assert "<" not in first
    del one
    with pytest.raises(
        ValueError, match=r"existed only in the process that wrote this: run that script or notebook ag"
    ):
        resolve(first)


def test_an_object_is_found_where_a_module_holds_it(module: ModuleType) -> None:
    module.thing = object()  # type: ignore[attr-defined]
    assert reference_to(module.thing, "mine_on_the_path", "thing") == "mine_on_the_path:thing"
    assert resolve("mine_on_the_path:thing") is module.thing
    assert not only_here("mine_on_the_path:thing")
    with pytest.raises(ValueError, match='"mine_on_the_path:nothing": mine_on_the_path has no nothing'):
        resolve("mine_on_the_path:nothing")


SCRIPT = """
from leanformer.foundation.registry import only_here, reference_to, resolve
class Mine: ...
{guard}
    reference = reference_to(Mine)
    assert resolve(reference, from_record=True) is Mine
    print(reference, only_here(reference))
"""


@pytest.mark.parametrize(("guard", "found"), [('if __name__ == "__main__":', True), ("if True:", False)])
def test_a_script_is_loaded_elsewhere_only_if_that_does_not_run_it(guard: str, found: bool, tmp_path: Path) -> None:
    script = tmp_path / "script.py"
    script.write_text(SCRIPT.format(guard=guard))
    shown = subprocess.run([sys.executable, script], capture_output=True, text=True, check=True).stdout
    assert shown == (f"{script}:Mine False\n" if found else "__main__:Mine True\n")
    started = subprocess.run([sys.executable, "-m", "script"], cwd=tmp_path, capture_output=True, text=True, check=True)
    assert started.stdout == ("script:Mine False\n" if found else "__main__:Mine True\n")


def test_a_name_that_a_decorator_gave_is_found_by_workers_or_known_to_be_here_only(tmp_path: Path) -> None:
    shapes: Registry[Callable[..., object]] = Registry("shape", group="leanformer.tests", own={"path": "pathlib:Path"})

    @shapes.register("square")
    def square() -> None: ...

    assert shapes.only_here("square")
    assert not shapes.only_here("path")
    (tmp_path / "shapes.py").write_text("from leanformer import TASKS\n@TASKS.register('mine')\nclass Mine: ...\n")
    worker = "from leanformer import TASKS; print(TASKS.get('mine').__name__)"
    parent = f"""
import subprocess, sys
from leanformer.foundation.registry import resolve
resolve("{tmp_path}/shapes.py:Mine")  # which a worker of this process then may load
subprocess.run([sys.executable, "-c", {worker!r}], check=True)
"""
    shown = subprocess.run([sys.executable, "-c", parent], capture_output=True, text=True, check=True)
    assert shown.stdout == "Mine\n"


# Code that a person names


def test_a_person_may_name_a_module_of_the_working_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "beside_me.py").write_text("def build(): return 3\n")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [entry for entry in sys.path if entry])
    with pytest.raises(ValueError, match=r"No module named 'beside_me'; install it, or set PYTHONPATH to the folder t"):
        resolve("beside_me:build", from_record=True)
    assert resolve("beside_me:build")() == 3


@pytest.mark.parametrize(
    ("code", "message"),
    [
        ("x = 1\ny = z\n", r"NameError: name 'z' is not defined \(broken\.py, line 2\)"),
        ("def f(:\n", r"SyntaxError: .* \(broken\.py, line 1\)"),
        ("import nowhere_at_all\n", r"ModuleNotFoundError: No module named 'nowhere_at_all' \(broken\.py, line 1\)"),
        ("\nimport leanformer as lf\nlf.Training(steps=0)\n", r"loaded: steps must be .* got 0 \(broken\.py, line 3\)"),
        ("import sys\nsys.exit(3)\n", r"it ends the process when it is loaded: put what it runs below if __name__ == "),
        ("raise KeyError\n", r"cannot be loaded: KeyError \(broken\.py, line 1\)"),
    ],
)
def test_an_error_in_a_file_is_one_line_that_names_its_place(code: str, message: str, tmp_path: Path) -> None:
    (tmp_path / "broken.py").write_text(code)
    with pytest.raises(ValueError, match=message) as raised:
        resolve(f"{tmp_path}/broken.py:build")
    assert len(str(raised.value).splitlines()) == 1


# Code that a record names


def test_a_moved_file_is_found_where_the_user_says_it_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    old, new = f"{tmp_path}/old/mine.py", tmp_path / "new" / "mine.py"
    with pytest.raises(
        ValueError, match=rf"there is no file {old}; if it was moved, set {CODE_VARIABLE} to its new pl"
    ):
        resolve(f"{old}:build", from_record=True)
    new.parent.mkdir()
    new.write_text("def build(): return 3\n")
    monkeypatch.setenv(CODE_VARIABLE, str(new))
    assert resolve(f"{old}:build", from_record=True)() == 3
    with pytest.raises(ValueError, match=f"there is no file {old}$"):
        resolve(f"{old}:build")


def test_a_record_has_no_function_called_that_the_user_did_not_name(module: ModuleType) -> None:
    assert not may_call(module.build)
    trust(module.build)
    assert may_call(module.build)
    import os

    assert not may_call(os.abort)
    assert not may_call(sys.exit)


def test_an_entry_point_of_a_package_may_be_called(module: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    point = registry.EntryPoint("mine", "mine_on_the_path:build", "leanformer.recipes")
    monkeypatch.setattr(registry, "entry_points", lambda group: [point] if group == point.group else [])
    assert may_call(module.build)
