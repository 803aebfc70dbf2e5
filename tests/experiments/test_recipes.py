"""Every shipped recipe builds, says what to expect, and the paper's are as its Table 6 prints."""

import subprocess
import sys
from pathlib import Path

import pytest
import torch

import leanformer as lf
from leanformer.costs.closed_forms import Setting, formula
from leanformer.costs.runs import WholeRun, run_cost
from leanformer.data.glue import GLUE_TASKS
from leanformer.experiments import recipes
from leanformer.experiments.arms import USUAL
from leanformer.experiments.described import settings_of
from leanformer.experiments.recipe_files import recipe_text
from leanformer.experiments.recipes import imagenet
from leanformer.models import families
from leanformer.tasks.image_classes import ImageClasses
from support.amount import in_turn
from support.tiny_run import recipe as small


@pytest.mark.parametrize("name", recipes.names())
def test_every_arm_of_every_recipe_builds(name: str, tmp_path: Path) -> None:
    recipe = recipes.recipe(name)
    assert recipe.name == name
    (tmp_path / "recipe.yaml").write_text(recipe_text(recipe, recipes.description(name)), encoding="utf-8")
    assert recipes.recipe(str(tmp_path / "recipe.yaml")) == recipe, "the YAML of a recipe is the recipe"
    assert all(setting.explanation for setting in settings_of(recipe)), "every setting says what it is"
    for arm in [arm for key, arm in in_turn(recipes.names(), USUAL, each=2) if key == name]:
        design = recipe.architecture(arm)
        assert families.describe(families.build(design, "meta")) == design
    assert recipe.architecture("shallow").depth == recipe.lean.depth
    if not name.startswith("farthest"):  # where heads alone are the question
        assert recipe.lean.depth < recipe.original.depth
    text = recipes.description(name)
    assert f"leanformer compare {name}" in text or f"leanformer sweep {name}" in text or name == "digits"


@pytest.mark.parametrize("name", [name for name in recipes.names() if name.startswith("imagenet")])
def test_imagenet_is_trained_as_table_6_prints(name: str) -> None:
    recipe = recipes.recipe(name)
    training, task = recipe.training, recipe.task
    assert isinstance(task, ImageClasses)
    batch = 512 if "large" in name or "d4" in name else 1024
    epoch = 1_281_167 / batch
    assert training.batch == batch
    assert training.steps == pytest.approx(300 * epoch, abs=1)
    assert training.warmup_steps == pytest.approx(20 * epoch, abs=1)
    assert (training.lr, training.warmup_lr, training.weight_decay) == (3e-3, 1e-5, 0.3)
    assert (task.mixup, task.cutmix, task.label_smoothing, task.auto_augment) == (0.8, 1.0, 0.1, "rand-m9-mstd0.5")
    assert recipe.original.options["drop_path_rate"] == recipe.lean.options["drop_path_rate"] == 0.1


def test_the_paper_has_eleven_image_models_and_glue_eight_tasks() -> None:
    assert len([name for name in recipes.names() if name.startswith("imagenet")]) == 11
    assert [name.removeprefix("glue-") for name in recipes.names() if name.startswith("glue-")] == list(GLUE_TASKS)


@pytest.mark.parametrize("model", ["ViT-B", "XCiT-L"])
def test_the_hours_of_imagenet_are_those_of_the_cost_model(model: str) -> None:
    name = imagenet.recipe_name(model)
    recipe = recipes.recipe(name)
    for design, hours in zip((recipe.original, recipe.lean), imagenet.HOURS[model], strict=True):
        setting = Setting(batch=64)
        counted = run_cost(formula(design, setting).cost(design, setting), setting, WholeRun(samples=384_000_000))
        assert round(counted.device_hours) == pytest.approx(hours, abs=1)
    assert f"{imagenet.HOURS[model][0]} A100-hours" in recipes.description(name)


def test_listing_recipes_imports_neither_torch_nor_transformers() -> None:
    program = (
        "import sys, leanformer.experiments.recipes as r; [r.description(n) for n in r.names()];"
        "print([m for m in ('torch', 'timm', 'transformers', 'scipy', 'matplotlib') if m in sys.modules])"
    )
    shown = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert shown.stdout == "[]\n"


def test_a_recipe_in_a_file_is_found_by_reference(tmp_path: Path) -> None:
    file = tmp_path / "mine.py"
    file.write_text(
        "from dataclasses import replace\nfrom leanformer.experiments.recipes import recipe\n"
        "def build():\n    return replace(recipe('digits'), name='mine')\ndef wrong():\n    return 3\n"
    )
    assert recipes.recipe(f"{file}:build").name == "mine"
    with pytest.raises(ValueError, match="gives 3; needed is a function that returns a leanformer Recipe"):
        recipes.recipe(f"{file}:wrong")


def test_fashion_mnist_has_the_counts_of_the_first_looks() -> None:
    recipe = recipes.recipe("fashion-mnist")
    counts = {
        arm: sum(p.numel() for p in families.build(recipe.architecture(arm), "meta").parameters())
        for arm in ("original", "lean", "shallow")
    }
    assert counts == {"original": 404_874, "lean": 205_194, "shallow": 204_938}


def test_drop_path_drops() -> None:
    model = families.build(recipes.recipe("imagenet-vit-base").lean.resized(depth=2).with_options(img_size=32))
    rates = [module.drop_prob for module in model.modules() if type(module).__name__ == "DropPath"]
    assert rates == pytest.approx([0.1, 0.1])  # the first layer's is 0 and left out
    assert torch.isfinite(model(torch.randn(2, 3, 32, 32))).all()


@pytest.mark.parametrize("reference", ["os:system", "builtins:dict.get"])
def test_functions_that_need_arguments_are_no_recipes(reference: str) -> None:
    with pytest.raises(
        ValueError, match="cannot be called without arguments; needed is a function that returns a Recipe"
    ):
        recipes.recipe(reference)


def test_a_function_that_returns_a_recipe_is_compared(tmp_path: Path) -> None:
    record = lf.compare(small, seeds=1, steps=1, jobs=1, report=False, out=tmp_path / "out")
    assert record.name == "small"

    def fit(model: object, seed: int) -> float:
        return 0.0

    with pytest.raises(
        ValueError, match="needed is a function that returns a Recipe, or a function of model, seed and folder"
    ):
        lf.compare(fit)


def test_the_decoder_of_a_billion_costs_what_its_pages_say() -> None:
    """Every figure of the recipe's help and of docs/how_to/large_models.md, by the cost model."""
    recipe, text = recipes.recipe("decoder-1b"), " ".join(recipes.description("decoder-1b").split())
    training, runs, memory, rows = recipe.training, {}, {}, []
    for arm, design in recipe.architectures().items():
        for devices in (8, 64):
            setting = Setting(
                batch=training.batch // (training.accumulate * devices),
                tokens=2048,
                precision="bfloat16",
                checkpointing=training.checkpointing,
                shard=training.shard,
                devices=devices,
            )
            cost = formula(design, setting).cost(design, setting)
            run = WholeRun(samples=training.steps * training.batch, device="h100", devices=devices)
            runs[arm, devices], memory[arm, devices] = run_cost(cost, setting, run), f"{cost.memory_bytes / 1e9:.1f}"
        hours = [runs[arm, 8].device_hours, runs[arm, 8].wall_hours, runs[arm, 64].wall_hours]
        shown = (f"{hours[0]:.0f}", f"{hours[1]:.1f}", f"{hours[2]:.1f}", memory[arm, 8], memory[arm, 64])
        rows.append(f"| {arm} | {cost.params.total / 1e6:.1f} M | {' | '.join(shown)} |")
    whole = {arm: runs[arm, 8].device_hours for arm in recipe.arms}
    total = f"{recipe.seeds * sum(whole.values()):,.0f}"
    hours = f"{runs['original', 8].wall_hours:.1f} h on 8, {runs['original', 64].wall_hours:.1f} h on 64"
    assert f"{whole['original']:.0f} H100-hours for a run of the original at 35 % of peak ({hours})" in text
    assert f"{whole['lean']:.0f} for lean and {whole['shallow']:.0f} for shallow; {total} for all 9 runs" in text
    assert f"One device holds {memory['original', 8]} GB on 8 and {memory['original', 64]} GB on 64" in text
    assert f"of lean {memory['lean', 8]} and {memory['lean', 64]} GB" in text
    page = (Path(__file__).parents[2] / "docs" / "how_to" / "large_models.md").read_text(encoding="utf-8")
    assert "\n".join(rows) in page
    assert f"take {total} H100-hours" in page
    assert round(training.steps * training.batch * 2048 / 1e9) == 21
    same = dict(batch=16, tokens=2048, precision="bfloat16", checkpointing=True, shard="full", devices=8)
    assert lf.design(recipe.original, params="70%", **same).recommended.architecture == recipe.lean
