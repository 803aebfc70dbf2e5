"""Designs in YAML files, as `leanformer design` emits them: read back exactly, with errors that name the line."""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import fields
from pathlib import Path
from typing import Any

from leanformer.architecture import Architecture, Stage
from leanformer.foundation.yaml_files import YamlFile, as_yaml, read_yaml
from leanformer.models import families

WORDS = ("family", "name", "stages", "options")
SIZES = tuple(item.name for item in fields(Stage))


def design_text(architecture: Architecture, indent: str = "") -> str:
    """A design in YAML, one line per stage."""
    plain = architecture.to_dict()
    stages = "".join(f"{indent}- {as_yaml(stage)}\n" for stage in plain["stages"])
    name = "".join(f"{indent}{word}: {as_yaml(plain[word])}\n" for word in ("family", "name"))
    return f"{name}{indent}stages:\n{stages}{indent}options: {as_yaml(plain['options'])}\n"


def read_design(path: str | Path) -> Architecture:
    """The design in a YAML file."""
    file = read_yaml(path)
    if "task" in file.value:
        raise file.wrong("this is a recipe; needed is a design with family, name and stages")
    return design_at(file)


def design_at(file: YamlFile, *place: Hashable) -> Architecture:
    """The design at a place of a file, checked."""
    plain: Any = file.value
    for key in place:
        plain = plain[key]
    word = f"{place[-1]} is not a design" if place else "this is not a design"
    if not isinstance(plain, dict):
        raise file.wrong(f"{word}: needed are {', '.join(WORDS)}, got {plain!r}", *place)
    for key in plain:
        if key not in WORDS:
            raise file.wrong(f"{word}: it has an unknown {key}; needed are {', '.join(WORDS)}", *place, key)
    if missing := [key for key in WORDS[:3] if key not in plain]:
        raise file.wrong(f"{word}: it lacks {', '.join(missing)}", *place)
    _check_forms(file, plain, place)
    try:
        found = Architecture.from_dict(plain)
        families.family(found.family).canonical(found)
    except ValueError as error:
        raise file.wrong(str(error), *place) from error
    return found


def _check_forms(file: YamlFile, plain: dict[str, Any], place: tuple[Hashable, ...]) -> None:
    for key in ("family", "name"):
        if not isinstance(plain[key], str):
            raise file.wrong(f"{key} must be a text, got {plain[key]!r}", *place, key)
    if not isinstance(plain.get("options") or {}, dict):
        raise file.wrong(f"options must be values by name, got {plain['options']!r}", *place, "options")
    if not isinstance(plain["stages"], list):
        raise file.wrong(f"stages must be a list, got {plain['stages']!r}", *place, "stages")
    for index, stage in enumerate(plain["stages"]):
        if not isinstance(stage, dict) or stage.keys() != set(SIZES):
            raise file.wrong(f"a stage has exactly {', '.join(SIZES)}; got {stage!r}", *place, "stages", index)
        try:
            Stage(**stage)
        except ValueError as error:
            raise file.wrong_setting(error, *place, "stages", index) from error
