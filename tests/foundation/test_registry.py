"""Registries: own entries, decorators, entry points, references; what is wrong is one clear line."""

import os
import subprocess
import sys
import textwrap
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from leanformer.foundation.registry import CODE_VARIABLE, Registry, lazily, reference_to, resolve


@pytest.fixture
def registry() -> Registry[Callable[..., object]]:
    return Registry(
        "shape", group="leanformer.tests", own={"path": "pathlib:Path", "join": "os.path:join"}, renamed={"way": "path"}
    )


def test_own_entries_are_found_by_present_and_former_names(registry: Registry[Callable[..., object]]) -> None:
    assert registry.names() == ["path", "join"]
    assert registry.get("path") is Path
    assert registry.get("way") is Path
    assert registry.get("join") is os.path.join
    assert registry.current_name("way") == "path"


def test_a_decorator_adds_an_entry_once(registry: Registry[Callable[..., object]]) -> None:
    @registry.register("square")
    def square() -> None: ...

    assert registry.get("square") is square
    assert registry.name_of(square) == "square"
    assert registry.names() == ["path", "join", "square"]
    with pytest.raises(ValueError, match='the shape "square" is registered already; choose another name'):
        registry.register("square")(print)
    with pytest.raises(ValueError, match='the shape "path" is registered already'):
        registry.register("path")(print)


def test_unknown_names_are_refused_with_what_is_near(registry: Registry[Callable[..., object]]) -> None:
    with pytest.raises(ValueError, match=r'there is no shape "paths": did you mean path; code of your own is named as'):
        registry.get("paths")
    with pytest.raises(ValueError, match=r'there is no shape "zzz": there are path, join'):
        registry.get("zzz")
    with pytest.raises(ValueError, match=r'"mine.py" does not say which shape of the file is meant: .* mine.py:build'):
        registry.get("mine.py")


@pytest.mark.parametrize(
    ("reference", "message"),
    [
        ("nowhere.at_all:Name", '"nowhere.at_all:Name" cannot be imported: No module named'),
        ("pathlib:Nothing", '"pathlib:Nothing": pathlib has no Nothing'),
        ("no/file.py:name", "there is no file no/file.py"),
        (":name", '":name" names no code: write package.module:Name or file.py:name'),
    ],
)
def test_references_that_lead_nowhere_are_refused(reference: str, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        resolve(reference)


def test_code_in_a_file_is_found_again_by_another_process(tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text("class Outer:\n    class Inner: ...\n")
    found = resolve(f"{tmp_path}/mine.py:Outer.Inner")
    reference = reference_to(found)
    assert reference == f"{tmp_path.resolve()}/mine.py:Outer.Inner"
    assert resolve(reference) is found
    program = (
        f"from leanformer.foundation.registry import resolve; print(resolve({reference!r}, from_record=True).__name__)"
    )
    shown = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert shown.stdout == "Inner\n", "a worker inherits what its parent trusts"


def test_a_record_does_not_run_code_in_a_file_that_nobody_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv(CODE_VARIABLE, raising=False)
    (tmp_path / "stranger.py").write_text("raise SystemExit('executed')")
    with pytest.raises(ValueError, match=f"a record names code in a file, .* if you trust it, set {CODE_VARIABLE}="):
        resolve(f"{tmp_path}/stranger.py:task", from_record=True)
    monkeypatch.setenv(CODE_VARIABLE, str(tmp_path / "stranger.py"))
    with pytest.raises(ValueError, match="it ends the process when it is loaded"):
        resolve(f"{tmp_path}/stranger.py:task", from_record=True)


def test_a_name_is_imported_when_it_is_first_used() -> None:
    find, listed = lazily("os", {"join": "path"})
    assert find("join") is os.path.join
    assert listed() == ["join"]
    with pytest.raises(AttributeError, match="module 'os' has no attribute 'other'"):
        find("other")


# An installed package

PACKAGE = """
    from dataclasses import dataclass, replace

    import torch

    import leanformer as lf
    from leanformer.experiments.recipes import recipe
    from leanformer.models.timm.vit import ViT
    from leanformer.tasks.image_classes import ImageClasses


    @dataclass(frozen=True, kw_only=True)
    class Upside(ImageClasses):
        \"\"\"Digits that stand on their heads.\"\"\"

        def load(self):
            data = super().load()
            data.source = "digits, upside down"
            data.images, data.held_out = data.images.flip(-2), data.held_out.flip(-2)
            return data


    class Plain(ViT):
        key = "plain"

        def names(self):
            return ["plain-vit"]

        def known(self, name):
            return name == "plain-vit"

        def read(self, name, **options):
            options = dict(num_classes=10, img_size=8, patch_size=4, in_chans=1) | options
            found = ViT().read("vit_tiny_patch16_224", **options)
            return replace(found, family="plain").resized(width=8, depth=2, heads=2, head_dim=4, mlp_dim=8)

        def owns(self, model):
            return super().owns(model) and getattr(getattr(model, "architecture", None), "family", "") == "plain"


    def upside():
        \"\"\"Digits upside down. Command: leanformer compare upside\"\"\"
        original = lf.architecture_of("plain-vit")
        return replace(
            recipe("digits"),
            name="upside",
            task=Upside(dataset="digits"),
            original=original,
            lean=original.resized(depth=1, heads=4),
            training=lf.Training(steps=4, batch=8, evaluations=1, probe=0, save_every=2),
        )
"""
ENTRY_POINTS = """
    [leanformer.families]
    plain = outside:Plain
    broken = outside_nowhere:Nothing

    [leanformer.tasks]
    upside-down = outside:Upside

    [leanformer.recipes]
    upside = outside:upside
"""


@pytest.fixture
def outside(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, str]:
    """An environment in which a package with a family, a task and a recipe is installed."""
    site = tmp_path / "site"
    about = site / "outside-1.0.dist-info"
    about.mkdir(parents=True)
    (site / "outside.py").write_text(textwrap.dedent(PACKAGE))
    (about / "METADATA").write_text("Metadata-Version: 2.1\nName: outside\nVersion: 1.0\n")
    (about / "entry_points.txt").write_text(textwrap.dedent(ENTRY_POINTS))
    paths = os.pathsep.join([str(site), *filter(None, [os.environ.get("PYTHONPATH")])])
    return {**os.environ, "PYTHONPATH": paths, "OMP_NUM_THREADS": "1"}


def test_an_installed_package_adds_a_family_a_task_and_a_recipe(outside: dict[str, str], tmp_path: Path) -> None:
    """They are found, compared, and after a kill resumed with workers to the same results."""
    program = """
        import sys
        import leanformer as lf
        from leanformer.experiments.recipes import names
        from leanformer import tasks
        assert "upside" in names() and "upside-down" in tasks.TASKS.names() and "plain" in lf.FAMILIES.names()
        model = lf.create("plain-vit", heads=4)
        assert lf.describe(model).family == "plain", lf.describe(model)
        settings = ["training.save_every=10"]
        record = lf.compare(
            "upside", arms=["original", "lean"], seeds=1, steps=300, settings=settings, out=sys.argv[1], jobs=1
        )
        assert record.source == "digits, upside down"
        assert record.task["kind"] == "upside-down"
        try:
            lf.FAMILIES.get("broken")
        except ValueError as error:
            print(error)
    """
    whole, killed = tmp_path / "whole", tmp_path / "killed"
    command = [sys.executable, "-c", textwrap.dedent(program), str(whole)]
    shown = subprocess.run(command, env=outside, capture_output=True, text=True, check=False, timeout=300)
    assert shown.returncode == 0, shown.stderr[-3000:]
    assert shown.stdout == (
        "the family \"broken\" of the package outside cannot be loaded: No module named 'outside_nowhere'\n"
    )
    assert (whole / "report.html").is_file()
    _kill_when_both_runs_have_checkpoints(killed, outside)
    shown_again, said = (process := _compared(killed, outside)).communicate(timeout=300)
    assert process.returncode == 0, said[-3000:]
    assert said.count("resuming from step") == 2
    assert "Lean against original: " in shown_again
    for arm in ("original", "lean"):
        first, second = (out / arm / "seed-0" / "result.json" for out in (killed, whole))
        assert first.read_bytes() == second.read_bytes()


def test_a_run_without_the_package_of_its_task_is_one_line(outside: dict[str, str], tmp_path: Path) -> None:
    """With the package, it is trained in a process of its own; without it, one line says what is missing."""
    program = """
        import sys
        from leanformer.experiments.recipes import recipe
        from leanformer.training.run import Run, write_run
        made = recipe("upside")
        write_run(Run(name="run", architecture=made.lean, task=made.task, training=made.training), sys.argv[1])
    """
    folder = tmp_path / "run"
    command = [sys.executable, "-c", textwrap.dedent(program), str(folder)]
    subprocess.run(command, env=outside, capture_output=True, text=True, check=True, timeout=300)
    leanformer = str(Path(sys.executable).with_name("leanformer"))
    without = {**outside, "PYTHONPATH": os.environ.get("PYTHONPATH", "")}
    shown = subprocess.run([leanformer, "train", str(folder)], env=without, capture_output=True, text=True, check=False)
    assert shown.returncode == 2
    assert 'there is no task "upside-down"' in shown.stderr
    assert len(shown.stderr.strip().splitlines()) == 1
    trained = subprocess.run(
        [leanformer, "train", str(folder)], env=outside, capture_output=True, text=True, check=False
    )
    assert trained.returncode == 0, trained.stderr[-3000:]
    assert (folder / "result.json").is_file()


def _compared(out: Path, environment: dict[str, str]) -> "subprocess.Popen[str]":
    choices = ["--arms", "original,lean", "--seeds", "1", "--steps", "300", "--set", "training.save_every=10"]
    leanformer = str(Path(sys.executable).with_name("leanformer"))
    command = [leanformer, "compare", "upside", *choices, "--jobs", "2", "--out", str(out)]
    return subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def _kill_when_both_runs_have_checkpoints(out: Path, environment: dict[str, str]) -> None:
    process, folders = _compared(out, environment), [out / arm / "seed-0" for arm in ("original", "lean")]
    deadline = time.monotonic() + 120
    while not all(any((folder / "checkpoints").glob("*")) for folder in folders):
        assert process.poll() is None, process.stderr and process.stderr.read()[-3000:]
        assert time.monotonic() < deadline, "waited too long"
        time.sleep(0.02)
    process.kill()
    process.communicate()
    time.sleep(1.0)  # workers end with their parent
    assert not any((folder / "result.json").is_file() for folder in folders)


@pytest.mark.parametrize("reference", ["../x:heads", ".x:y", "a b:c", ":c", "a:", "x\0:y", "a..b:c", "[red]:x"])
def test_what_cannot_be_a_reference_is_refused(reference: str) -> None:
    with pytest.raises(ValueError, match=r"names no code: write package\.module:Name or file\.py:name"):
        resolve(reference)
