"""A recipe with other models, data or settings, as a command line or a notebook asks for them.

This is where texts such as "depth=4,heads=8" and "training.lr=1e-3" become values.
"""

from __future__ import annotations

import contextlib
import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeGuard

import yaml

from leanformer import models, tasks
from leanformer.architecture import KEEPS, Architecture
from leanformer.data import tokenizers
from leanformer.data.checks import own_part
from leanformer.data.corpora import OWN_PART
from leanformer.designing.plan import design
from leanformer.experiments.arms import LEAN, ORIGINAL, RANDOM, SHALLOW, USUAL, Arm
from leanformer.experiments.plan import ComparisonPlan
from leanformer.experiments.recipe import Recipe
from leanformer.foundation.arguments import ArgumentError, check_types, texts
from leanformer.foundation.yaml_files import is_yaml
from leanformer.models.design_files import read_design
from leanformer.models.weights import is_saved
from leanformer.tasks.base import Data
from leanformer.training.settings import Training

NAMES_OF_DATA = ("dataset", "root")
"""Settings of a task that say which data it reads."""
WAYS = ("layers", "new_heads")
"""How an arm is made of a trained model."""
SIZES = ("depth", "heads", "head_dim", "mlp_dim", "width", "keep", "regime")

Sizes = str | Path | Mapping[str, Any] | Architecture
"""Changes to a model, "depth=4,heads=8" or {"depth": 4, "heads": 8}; or a whole architecture in its place, which may be
in a YAML file, as `leanformer design` emits it."""
Settings = str | Sequence[str] | Mapping[str, Any]
"""["training.clip=0.5"], {"training.clip": 0.5} or {"training": {"clip": 0.5}}."""
Arms = str | Sequence[str] | Mapping[str, Sizes]
"""Further arms: ["narrow:heads=2"] or {"narrow": {"heads": 2}}."""


def check_choices(arguments: Mapping[str, Any]) -> None:
    """Refuse choices of a wrong type, before a recipe is read."""

    def are_sizes(value: Any) -> bool:
        return isinstance(value, (str, Path, Mapping, Architecture))

    sizes = (are_sizes, 'sizes, such as {"depth": 4, "heads": 8} or "depth=4,heads=8", or an architecture')
    check_types(
        arguments,
        original=sizes,
        lean=sizes,
        model=(lambda value: isinstance(value, (str, Path, Architecture)), "a name, a folder or an architecture"),
        recipe=(
            lambda value: isinstance(value, (str, Path, Recipe)) or callable(value),
            "a recipe, the name of one, or a function that returns one",
        ),
    )


def adjusted(
    recipe: Recipe,
    *,
    data: str | Path | None = None,
    model: str | Architecture | None = None,
    original: Sizes | None = None,
    lean: Sizes | None = None,
    arm: Arms = (),
    settings: Settings = (),
    start: str | Path | None = None,
    pretrained: str | Path | None = None,
    layers: str | None = None,
    new_heads: str | None = None,
    text_column: str | None = None,
    label_column: str | None = None,
    held_out: float | None = None,
    skip_bad: bool | None = None,
    **training: Any,
) -> Recipe:
    """The recipe with what was asked for changed.

    Args:
        data: the user's data; the recipe's task says whether that is a data set or a folder that holds some.
        model: another original, by name or as an architecture. The lean design is then what `lf.design` recommends.
        original, lean: changes to these two, such as "depth=4,heads=8,mlp_dim=128,regime=split", or architectures,
            also in YAML files. If the original is one, the lean design is what `lf.design` recommends, unless it is
            given.
        arm: further arms, each a name with changes to the original.
        settings: "training.lr=1e-3", "task.flip=true", …
        start: a comparison whose trained models these begin with. Models and tokenizer are then its own.
        pretrained: a trained model that arms begin with. The original and the tokenizer are then its own.
        layers, new_heads: how shallower arms and arms with more heads are made of it.
        text_column, label_column, held_out, skip_bad: how the data are read: settings of the task under their names.
        training: changes to the training, by name, such as steps; None leaves a setting as it is.
    """
    reading = {"text_column": text_column, "label_column": label_column, "held_out": held_out, "skip_bad": skip_bad}
    recipe = with_settings(_read_by(recipe, reading), settings, training)
    if data is not None:
        if named := [key for where, key, _ in _read_settings(settings) if where == "task" and key in NAMES_OF_DATA]:
            raise ArgumentError(f"{{data}} and the setting task.{named[0]} both say which data: give one of them")
        recipe = _refitted(replace(recipe, task=recipe.task.with_data(data)))
    if held_out is not None or any((where, key) == ("task", "held_out") for where, key, _ in _read_settings(settings)):
        _check_held_out(tasks.load(recipe.task))
    if start:
        recipe = started(recipe, str(start))
    recipe = _of_a_trained_model(recipe, pretrained, layers, new_heads)
    if model is not None and recipe.pretrained:
        raise ArgumentError("{model} and {pretrained} both say which model is the original: give one of them")
    if model is not None:
        recipe = replace(recipe, original=_for_task(model, recipe))
    if original:
        recipe = replace(recipe, original=redesigned(recipe.original, original))
    if lean:
        recipe = with_lean(recipe, redesigned(recipe.original, lean))
    elif model is not None or isinstance(original, Architecture) or _is_file(original):
        recipe = replace(recipe, lean=_recommended(_for_task(recipe.original, recipe)))
    return with_arms(recipe, arm)


def _check_held_out(data: Data) -> None:
    """A share that was asked for is used, also if it is the usual one."""
    if data.own_held_out:
        raise own_part(data.contents().source, OWN_PART)


def _read_by(recipe: Recipe, reading: Mapping[str, Any]) -> Recipe:
    """With other settings of how the data are read. One that the task does not have is refused."""
    asked, plain = {name: value for name, value in reading.items() if value is not None}, recipe.task.to_dict()
    for name in asked:
        if name not in plain:
            known = [other for other in reading if other in plain]
            words = f"it takes {', '.join(f'{{{other}}}' for other in known)}" if known else "its data are its own"
            raise ArgumentError(f"{{{name}}} does not go with the task {plain['kind']} of {recipe.name}: {words}")
    return replace(recipe, task=tasks.read({**plain, **asked})) if asked else recipe


def with_settings(recipe: Recipe, settings: Settings, training: Mapping[str, Any]) -> Recipe:
    """With other settings of the training and of the task; those of `settings` win."""
    changes: dict[str, dict[str, Any]] = {
        "training": {key: value for key, value in training.items() if value is not None},
        "task": {},
    }
    for where, key, value in _read_settings(settings):
        changes[where][key] = value
    return replace(
        recipe,
        training=Training.from_dict({**recipe.training.to_dict(), **changes["training"]}),
        task=tasks.read({**recipe.task.to_dict(), **changes["task"]}) if changes["task"] else recipe.task,
    )


def _for_task(model: str | Architecture, recipe: Recipe) -> Architecture:
    """A model with the options that the recipe's data need, such as classes."""
    data = tasks.load(recipe.task)
    _check_kind(models.architecture_of(model) if isinstance(model, str) else model, data, recipe.name)
    if isinstance(model, Architecture):
        model = model.with_options(**{key: value for key, value in data.options.items() if key not in model.options})
    else:
        model = models.architecture_of(model, **data.options)
    data.check_model(model)
    return model


def _check_kind(design: Architecture, data: Data, recipe: str) -> None:
    """Models of images learn images, language models learn texts."""
    of_images = models.family(design.family).image_size(design) is not None
    if "img_size" in data.options and not of_images:
        raise ValueError(
            f"{design.name} does not take images, which {recipe} needs: name an image model, such as "
            "vit_tiny_patch16_224"
        )
    if "vocab_size" in data.options and of_images:
        raise ValueError(
            f"{design.name} takes images, and {recipe} needs a language model, such as gpt2 or bert-base-uncased"
        )


def _refitted(recipe: Recipe) -> Recipe:
    """With models for the user's data: options that the models give, such as classes, become what the data need."""
    options = tasks.load(recipe.task).options

    def refit(design: Architecture) -> Architecture:
        return design.with_options(**{key: value for key, value in options.items() if key in design.options})

    others = {arm: refit(design) for arm, design in recipe.others.items()}
    return replace(recipe, original=refit(recipe.original), lean=refit(recipe.lean), others=others)


def with_lean(recipe: Recipe, lean: Architecture) -> Recipe:
    """With another lean design, which the arm `random` shares."""
    shared = RANDOM if recipe.pretrained else ""
    others = {arm: lean if arm == shared else design for arm, design in recipe.others.items()}
    return replace(recipe, lean=lean, others=others)


def _of_a_trained_model(
    recipe: Recipe, pretrained: str | Path | None, layers: str | None, new_heads: str | None
) -> Recipe:
    """With the design and the tokenizer of a trained model; lean has half its depth and twice its heads."""
    folder = str(Path(pretrained).resolve()) if pretrained else recipe.pretrained
    if not folder:
        if layers is not None or new_heads is not None:
            raise ArgumentError("{layers} and {new_heads} need {pretrained}, which names the trained model")
        return recipe
    recipe = replace(recipe, pretrained=folder, layers=layers or recipe.layers, new_heads=new_heads or recipe.new_heads)
    if pretrained is None:
        return recipe
    if recipe.start:
        raise ArgumentError("{start} and {pretrained} both say what models begin with: give one of them")
    if not is_saved(folder):
        raise ArgumentError(
            "{pretrained} must be a saved model's folder or a .gguf file, got {given}", given=pretrained
        )
    if "tokenizer" in (plain := recipe.task.to_dict()):
        recipe = replace(recipe, task=tasks.read({**plain, "tokenizer": tokenizers.folder_of(Path(folder))}))
    original = _with_whole_vocabulary(_for_task(folder, recipe), models.architecture_of(folder))
    half = [max(1, stage.depth // 2) for stage in original.stages]
    lean = original.resized(
        depth=half if len(half) > 1 else half[0], heads=[2 * stage.heads for stage in original.stages]
    )
    arms = (ORIGINAL, LEAN, SHALLOW)
    return replace(recipe, original=original, lean=lean, arms=arms, others={RANDOM: lean}, start="")


def _with_whole_vocabulary(design: Architecture, trained: Architecture) -> Architecture:
    """As many tokens as the trained model has, which may be more than its tokenizer knows."""
    wanted = design.options.get("vocab_size")
    if wanted is None:
        return design
    config: Any = getattr(models.family(trained.family), "config", lambda _: None)(trained)
    return design.with_options(vocab_size=max(wanted, getattr(config, "vocab_size", 0)))


def with_arms(recipe: Recipe, arms: Arms) -> Recipe:
    """With further arms, each a new name with changes to the original."""
    others, inheriting = dict(recipe.others), dict(recipe.inheriting)
    for name, given in _read_arms(arms).items():
        sizes, ways = _without_ways(given)
        if ways and not recipe.pretrained:
            raise ArgumentError("{arm}: layers and new_heads say what is taken of a trained model; give {pretrained}")
        others[name] = Arm(name, redesigned(recipe.original, sizes)).architecture
        inheriting |= {name: ways} if ways else {}
    return replace(recipe, others=others, inheriting=inheriting)


def _without_ways(given: Sizes) -> tuple[Sizes, dict[str, str]]:
    """The sizes of an arm, and how it is made of a trained model where that is said with them."""
    if isinstance(given, (Path, Architecture)) or _is_file(given):
        return given, {}
    sizes = dict(sizes_of(given, (*SIZES, *WAYS)) if isinstance(given, str) else given)
    ways = {name: sizes.pop(name) for name in WAYS if name in sizes}
    return sizes, {name: _as_text(value) for name, value in ways.items()}


def _as_text(value: Any) -> str:
    """A rule, or the numbers of layers, as "0,2,4"."""
    return ",".join(map(str, value)) if isinstance(value, (list, tuple)) else str(value)


def started(recipe: Recipe, start: str) -> Recipe:
    """A recipe whose models begin with those of a comparison: its arms, with the recipe's own options."""
    path = Path(start) / "plan.json"
    if not path.is_file():
        raise ValueError(f"{start} is not the folder of a comparison: it has no plan.json")
    plan = ComparisonPlan.read(path)
    written = sorted(Path(start).glob("*/seed-*/model/tokenizer.json"))
    if not written:
        raise ValueError(f"{start} has no finished run with a tokenizer")
    options = {key: value for key, value in recipe.original.options.items() if key != "vocab_size"}
    designs = {arm: design.with_options(**options) for arm, design in plan.architectures.items()}
    if missing := {ORIGINAL, LEAN} - designs.keys():
        raise ValueError(f"{start} lacks the arm {', '.join(sorted(missing))}")
    return replace(
        recipe,
        original=designs[ORIGINAL],
        lean=designs[LEAN],
        others={arm: design for arm, design in designs.items() if arm not in USUAL},
        arms=tuple(arm for arm in plan.arms if arm in USUAL),
        task=tasks.read({**recipe.task.to_dict(), "tokenizer": str(written[0].parent)}),
        start=start,
    )


def _recommended(original: Architecture) -> Architecture:
    """The design that `lf.design` would recommend. A model that cannot take the data is reported here."""
    try:
        return design(original, progress=False).recommended.architecture
    except (RuntimeError, AssertionError) as error:
        options = ", ".join(f"{key}={value}" for key, value in original.options.items())
        reason = str(error).splitlines()[0]
        raise ValueError(
            f"{original.name} cannot be built for these data ({options}): {reason}; the task's img_size scales images"
        ) from error


# Texts and mappings


def redesigned(base: Architecture, sizes: Sizes) -> Architecture:
    """An architecture with other sizes: "depth=4,heads=8", "depth=[4,4,8,2]" or {"depth": 4}. A whole one is itself.

    One in a YAML file gets what it does not say of its options, such as classes, from the base if it is of that family.
    """
    if isinstance(sizes, Architecture):
        return sizes
    if isinstance(sizes, Path) or _is_file(sizes):
        found = read_design(sizes)
        return found.with_options(**{**base.options, **found.options}) if found.family == base.family else found
    return resized(base, sizes_of(sizes, SIZES) if isinstance(sizes, str) else sizes)


def _is_file(sizes: Any) -> TypeGuard[str | Path]:
    """Whether a YAML file is given in place of sizes."""
    return isinstance(sizes, (str, Path)) and is_yaml(sizes)


def sizes_of(text: str, known: Sequence[str] = ()) -> dict[str, Any]:
    """The values that a text gives to names, "depth=4,heads=8"; any names, unless they have to be known ones."""
    found: dict[str, Any] = {}
    for item in re.split(r",(?![^\[]*\])", text):
        key, equals, value = item.strip().partition("=")
        if not equals or not key.isidentifier() or (known and key not in known):
            listed = f" ({', '.join(known)})" if known else ""
            raise ValueError(f'sizes are given as in "depth=4,heads=8,mlp_dim=128"{listed}, got "{item}"')
        found[key] = _plain(_value(value, text))
    return found


def resized(base: Architecture, given: Mapping[str, Any]) -> Architecture:
    """An architecture with other sizes, by name; "regime" and "keep" say what stays when heads change."""
    sizes = dict(given)
    if unknown := sizes.keys() - set(SIZES):
        raise ValueError(f"a model has no size {', '.join(sorted(unknown))}; it has {', '.join(SIZES)}")
    regime = sizes.pop("regime", None)
    if regime is not None:
        if regime not in KEEPS:
            raise ValueError(f"regime must be fixed or split, got {regime!r}")
        sizes["keep"] = KEEPS[regime]
    return base.resized(**sizes)


def _read_arms(arms: Arms) -> dict[str, Sizes]:
    """Further arms by name."""
    found: dict[str, Sizes] = {}
    for item in arms.items() if isinstance(arms, Mapping) else texts(arms):
        name, colon, sizes = item.partition(":") if isinstance(item, str) else (item[0], ":", item[1])
        if not colon or name in USUAL:
            raise ValueError(f'an arm is given by a new name and sizes, "narrow:heads=2,mlp_dim=64", got "{item}"')
        found[name] = sizes
    return found


def arm_names(arms: Arms) -> list[str]:
    """The names of further arms."""
    return list(_read_arms(arms))


def axes(given: str | Sequence[str] | Mapping[str, Sequence[Any]]) -> dict[str, tuple[Any, ...]]:
    """The axes of a grid: "heads=1,2,4,8", "regime=fixed,split", "task.points=16,64", "task.dim+width=8,16"."""
    if isinstance(given, Mapping):
        return {name: tuple(values) for name, values in given.items()}
    found: dict[str, tuple[Any, ...]] = {}
    for text in texts(given):
        names, equals, values = text.partition("=")
        if not equals or not values.strip():
            raise ValueError(f'an axis is given with its values, as in "heads=1,2,4", got "{text}"')
        if names in found:
            raise ValueError(f"the axis {names} is given twice: give all its values at once")
        found[names] = tuple(_plain(_value(value.strip(), text)) for value in values.split(","))
    return found


def _read_settings(settings: Settings) -> list[tuple[str, str, Any]]:
    """Where each setting belongs, its name and its value."""
    if not isinstance(settings, Mapping):
        return [_setting(text) for text in texts(settings)]
    found = []
    for name, value in settings.items():
        inside = value.items() if name in ("training", "task") and isinstance(value, Mapping) else None
        for full, chosen in [(name, value)] if inside is None else [(f"{name}.{key}", item) for key, item in inside]:
            where, dot, key = full.partition(".")
            if where not in ("training", "task") or not dot or not key:
                raise ValueError(
                    f'settings are named "training.NAME" or "task.NAME", as in {{"training.clip": 0.5}}, got "{full}"'
                )
            found.append((where, key, chosen))
    return found


def _setting(text: str) -> tuple[str, str, Any]:
    match = re.fullmatch(r"(training|task)\.(\w+)=(.*)", text)
    if match is None:
        raise ValueError(f'a setting is given as "training.NAME=VALUE" or "task.NAME=VALUE", got "{text}"')
    return match[1], match[2], _plain(_value(match[3], text))


def _plain(value: Any) -> Any:
    if isinstance(value, str):  # YAML reads 1e-3 as text
        with contextlib.suppress(ValueError):
            value = float(value)
    return value


def _value(text: str, whole: str) -> Any:
    try:
        return yaml.safe_load(text)
    except yaml.YAMLError as error:
        raise ValueError(f'"{whole}": {text!r} is not a value ({str(error).splitlines()[0]})') from error
