"""Recipes in YAML: read back exactly, run by compare and sweep, refused with the line, and never running code."""

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import leanformer as lf
from leanformer.experiments import overrides, recipes
from leanformer.experiments.described import settings_of
from leanformer.experiments.recipe_files import read_recipe, recipe_text
from leanformer.foundation.registry import CODE_VARIABLE
from support import tiny_run
from support.command import call

WHOLE = tiny_run.recipe(
    others={"narrow": tiny_run.architecture().resized(heads=1)},
    grid=lf.Grid(axes={"heads": (1, 2), "task.shift": (0, 1)}, equal_params=True),
    budget="time=10m",
    seeds=2,
)


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "mine.yaml"
    path.write_text(recipe_text(WHOLE, "First line.\n\nSecond line."), encoding="utf-8")
    return path


def test_a_recipe_is_read_back_exactly(file: Path) -> None:
    found = recipes.recipe(str(file))
    assert found == WHOLE
    assert found.grid is not None
    assert list(found.grid.axes) == ["heads", "task.shift"], "their order decides the figure"
    assert recipe_text(found, "First line.\n\nSecond line.") == file.read_text(encoding="utf-8")
    assert recipes.as_recipe(file) == WHOLE


def test_every_setting_is_explained_in_its_line(file: Path) -> None:
    lines = file.read_text(encoding="utf-8").splitlines()
    assert lines[:3] == ["# First line.", "#", "# Second line."]
    assert "  lr: 0.004  # Peak learning rate of AdamW." in lines
    assert "  shift: 1  # Largest random shift, in pixels." in lines
    for setting in settings_of(WHOLE):
        assert setting.explanation, setting.name


def test_what_may_be_left_out_has_its_default(file: Path) -> None:
    kept = ("name", "margin", "task", "training", "original", "lean")
    text, keep = "", False
    for line in file.read_text(encoding="utf-8").splitlines(keepends=True):
        keep = line.startswith(kept) if line[0] not in " #" else keep
        text += line if keep else ""
    file.write_text(text)
    assert read_recipe(file) == replace(WHOLE, others={}, grid=None, budget="steps", seeds=3)


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("margin: 5.0", "margn: 5.0", "a recipe has no margn: did you mean margin"),
        ("margin: 5.0", "margin: much", "margin must be a number of at least 0, got 'much'"),
        ("margin: 5.0", "margin: true", "margin must be a number of at least 0, got True"),
        ("seeds: 2", "seeds: 0", "seeds must be a whole number of at least 1, got 0"),
        ("name: small", "name: ../../x", r"name must be up to 100 letters, .* names a folder, got '\.\./\.\./x'"),
        ("arms: [original", "arms: [orignal", 'there is no arm "orignal": the arms are original, lean, shallow'),
        ("budget: time=10m", "budget: money", "budget must be steps, epochs, tokens, flops or time"),
        ("  lr: 0.004", "  lrr: 0.004", "training has no setting lrr; it has steps, batch, lr"),
        ("  lr: 0.004", "  lr: fast", "lr must be a number of at least 0, got 'fast'"),
        ("  shift: 1", "  shift: much", "shift must be a whole number of at least 0, got 'much'"),
        ("  shift: 1", "  shft: 1", "the task image-classes has no setting shft; it has dataset"),
        ("kind: image-classes", "kind: sounds", 'there is no task "sounds": '),
        ("kind: image-classes", "kind: os:abort", 'a record names a function, "os:abort"; if you trust it, set'),
        ("    heads: [1, 2]", "    heads: 3", "the axis heads must be a list of values, got 3"),
        ("equal_params: true", "equal_params: 1", "equal_params must be true or false, got 1"),
        ("equal_params: true", "equal_param: true", r"a grid has no equal_param: did you mean equal_params\?"),
        ("  narrow:", "  ../narrow:", "an arm's name is up to 100 letters"),
        ("head_dim: 8", "head_dim: -8", "head_dim must be at least 1, got -8"),
    ],
)
def test_what_is_wrong_is_said_with_its_line(old: str, new: str, message: str, file: Path) -> None:
    text = file.read_text(encoding="utf-8")
    assert old in text
    text = text.replace(old, new, 1)
    line = next(number for number, found in enumerate(text.splitlines(), start=1) if new in found)
    file.write_text(text, encoding="utf-8")
    with pytest.raises(ValueError, match=rf"^{file}, line {line}: ({message})") as raised:
        recipes.recipe(str(file))
    assert len(str(raised.value).splitlines()) == 1


def test_what_is_missing_is_said(file: Path) -> None:
    text = file.read_text(encoding="utf-8")
    file.write_text(text.replace("margin: 5.0", "#"), encoding="utf-8")
    with pytest.raises(ValueError, match=r"line 1: a recipe needs margin$"):
        recipes.recipe(str(file))
    file.write_text(text.replace("  steps: 6", "#"), encoding="utf-8")
    line = text.splitlines().index("training:") + 1
    with pytest.raises(ValueError, match=rf"line {line}: training lacks the setting steps$"):
        recipes.recipe(str(file))
    file.write_text(text.replace("    heads: [1, 2]", "    hats: [1, 2]"), encoding="utf-8")
    with pytest.raises(ValueError, match=r'line \d+: there is no axis "hats"; there are depth, heads'):
        recipes.recipe(str(file))


def test_code_in_a_file_is_not_run_unless_it_is_trusted(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(CODE_VARIABLE, "")
    code = file.with_name("task.py")
    code.write_text(
        f"open({str(file.with_name('ran'))!r}, 'w').close()\nfrom leanformer.tasks import ImageClasses as Mine\n"
    )
    text = file.read_text(encoding="utf-8").replace("kind: image-classes", f"kind: {code}:Mine")
    file.write_text(text, encoding="utf-8")
    line = next(number for number, found in enumerate(text.splitlines(), start=1) if ":Mine" in found)
    with pytest.raises(ValueError, match=rf"line {line}: a record names code in a file, .* set {CODE_VARIABLE}="):
        recipes.recipe(str(file))
    assert not file.with_name("ran").exists()
    monkeypatch.setenv(CODE_VARIABLE, str(code))
    assert recipes.recipe(str(file)).task == WHOLE.task


def test_a_design_is_no_recipe(file: Path) -> None:
    file.write_text("family: vit\nname: vit_tiny_patch16_224\nstages: []\n")
    with pytest.raises(ValueError, match="line 1: this is a design; needed is a recipe, which has a task"):
        recipes.recipe(str(file))


def test_a_task_of_this_process_is_not_written(monkeypatch: pytest.MonkeyPatch) -> None:
    task = lf.task(train=[(1.0, 1)], held_out=[(1.0, 1)], loss="mse", metric="mae")
    with pytest.raises(ValueError, match=r"the task this-process:\S+ exists in this process only, so that no file can"):
        recipe_text(replace(WHOLE, task=task))


# From the command line


def test_recipes_shows_every_setting_that_set_takes(file: Path) -> None:
    shown = call("recipes", "show", str(file), "--json")
    assert shown.returncode == 0, shown.stderr
    listed = {setting["name"]: setting for setting in json.loads(shown.stdout)["settings"]}
    assert listed["training.clip"] == {
        "name": "training.clip",
        "value": 1.0,
        "type": "a number or null",
        "explanation": "Largest norm of the gradient; None for no clipping.",
    }
    for name, setting in listed.items():
        changed = overrides.with_settings(WHOLE, {name: setting["value"]}, {})
        assert changed == WHOLE, name
    table = call("recipes", "show", str(file)).stdout
    assert all(name in table for name in listed)
    assert "lean: vit_tiny_patch16_224: 1 layer of 4 heads × 8" in table


def test_a_recipe_is_printed_edited_and_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("tiny.yaml").write_text(recipe_text(WHOLE), encoding="utf-8")
    printed = call("recipes", "show", "tiny.yaml", "--yaml").stdout
    edited = printed.replace("name: small", "name: edited").replace("steps: 6", "steps: 2").replace("time=10m", "steps")
    Path("mine.yaml").write_text(edited, encoding="utf-8")
    shown = call("train", "mine.yaml", "--out", "run", "--json")
    assert shown.returncode == 0, shown.stderr
    assert json.loads(shown.stdout)["training"]["steps"] == 2
    quiet: dict[str, Any] = dict(seeds=1, jobs=1, report=False, progress=False)
    assert lf.compare("mine.yaml", arms=["lean"], **quiet).name == "edited"
    assert Path("runs/compare-edited/lean/seed-0/result.json").is_file()
    swept = lf.sweep("mine.yaml", vary={"heads": [1, 2]}, **quiet)
    assert (swept.name, len(swept.cells)) == ("edited", 2)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["show"], "show needs the name of a recipe; `leanformer recipes` lists them"),
        (["show", "digitz"], 'there is no recipe "digitz": did you mean digits'),
        (["digits", "pydoc"], 'recipes takes "show" and one recipe, got "digits" and "pydoc"'),
        (["--yaml"], "--yaml needs one recipe: leanformer recipes show RECIPE --yaml"),
        (["show", "digits", "--yaml", "--json"], "--yaml and --json exclude each other"),
        (["show", "nowhere.yaml"], "there is no file nowhere.yaml"),
    ],
)
def test_mistakes_are_one_line(arguments: list[str], message: str) -> None:
    shown = call("recipes", *arguments)
    assert (shown.returncode, shown.stdout) == (2, "")
    assert message in shown.stderr
    assert len(shown.stderr.splitlines()) == 1


# Designs in the place of sizes


@pytest.fixture
def emitted(tmp_path: Path) -> Callable[[lf.Architecture], str]:
    def write(design: lf.Architecture) -> str:
        from leanformer.designing.emit import emit

        (tmp_path / "design.yaml").write_text(emit(design, "yaml"))
        return str(tmp_path / "design.yaml")

    return write


def test_an_emitted_design_is_taken_for_sizes(emitted: Callable[[lf.Architecture], str]) -> None:
    recipe = tiny_run.recipe()
    lean = replace(recipe.original.resized(depth=1, heads=1), options={"patch_size": 4})
    found = overrides.adjusted(recipe, lean=emitted(lean), arm=[f"other:{emitted(lean)}"])
    assert found.lean == found.others["other"] == recipe.original.resized(depth=1, heads=1)
    assert found.original == recipe.original
    found = overrides.adjusted(recipe, original=emitted(recipe.original.resized(heads=4)), lean="depth=1")
    assert found.original.stages[0].heads == found.lean.stages[0].heads == 4
    found = overrides.adjusted(recipe, model=emitted(replace(recipe.original, options={"patch_size": 4})), lean=lean)
    assert found.original.options == {"patch_size": 4, "num_classes": 10, "in_chans": 1, "img_size": 8}
    with pytest.raises(ValueError, match=r"there is no file nowhere\.yaml"):
        overrides.adjusted(recipe, lean="nowhere.yaml")
