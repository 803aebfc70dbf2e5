"""YAML files that people write and edit: plain values only, and errors that name the line.

Nothing in a file can make an object or run code: only texts, numbers, booleans, null, lists and mappings are read.
"""

from __future__ import annotations

import itertools
import math
import re
from collections.abc import Hashable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from leanformer.foundation.records.files import read_text

ENDINGS = (".yaml", ".yml")
MOST_BYTES = 1 << 20
"""The largest file that is read: recipes and designs have a few kilobytes."""
DEEPEST = 50
"""The most brackets inside one another."""

Place = tuple[Hashable, ...]
"""The keys and positions that lead to a value."""


class _Loader(yaml.SafeLoader):
    """YAML's safe loader, which also reads 1e-3 as a number, as people mean it."""


class _Dumper(yaml.SafeDumper):
    """YAML's safe dumper, which writes a value out each time it occurs."""

    def ignore_aliases(self, data: Any) -> bool:
        return True


for _either in (_Loader, _Dumper):  # the dumper quotes texts that would be read as numbers
    _either.add_implicit_resolver(
        "tag:yaml.org,2002:float", re.compile(r"[-+]?[0-9]+(\.[0-9]*)?[eE][-+]?[0-9]+"), list("-+0123456789")
    )


@dataclass(frozen=True)
class YamlFile:
    """What a file holds, and in which line each value begins."""

    path: Path
    value: Any
    lines: Mapping[Place, int]

    def wrong(self, message: str, *place: Hashable) -> ValueError:
        """An error about a value, or about the nearest value around it that is in the file."""
        while place and place not in self.lines:
            place = place[:-1]
        return ValueError(f"{self.path}, line {self.lines.get(place, 1)}: {message}")

    def wrong_setting(self, error: ValueError, *place: Hashable, usual: str = "") -> ValueError:
        """An error about a section, located at the setting that it begins with or names as unknown; else at another."""
        keys = [found[-1] for found in self.lines if found and found[:-1] == place]
        named = (key for key in keys if re.match(rf"(.* has no setting )?{re.escape(str(key))}\b", str(error)))
        return self.wrong(str(error), *place, next(named, usual))


def is_yaml(name: str | Path) -> bool:
    """Whether a name is that of a YAML file, by its ending."""
    return str(name).endswith(ENDINGS)


def read_yaml(path: str | Path) -> YamlFile:
    """The mapping that a file holds; a `ValueError` names the file and the line if it cannot be read."""
    path = Path(path)
    try:
        text = read_text(path)
        if len(text) > MOST_BYTES:
            raise ValueError(f"{path} is too large: {len(text):,} characters, at most {MOST_BYTES:,} are read")
        if _depth(text) > DEEPEST:
            raise RecursionError
        node = yaml.compose(text, Loader=_Loader)
        lines = dict(_walk(node, (), 1, path, set())) if node is not None else {}
        value = yaml.load(text, Loader=_Loader)  # noqa: S506  a subclass of the safe loader
    except UnicodeDecodeError as error:
        raise ValueError(f"{path} is not UTF-8: byte {error.start}") from error
    except RecursionError as error:
        raise ValueError(f"{path} is nested too deeply") from error
    except yaml.MarkedYAMLError as error:
        line = f", line {error.problem_mark.line + 1}" if error.problem_mark is not None else ""
        raise ValueError(f"{path}{line}: {error.problem or 'it is not YAML'}") from error
    except yaml.YAMLError as error:
        raise ValueError(f"{path} is not YAML: {str(error).splitlines()[0]}") from error
    if not isinstance(value, dict):
        raise ValueError(f"{path} must hold settings by name, got {type(value).__name__}")
    return YamlFile(path, value, lines)


def _depth(text: str) -> int:
    """How deeply brackets are nested: YAML's parser is slow with many."""
    steps = (1 if bracket in "[{" else -1 for bracket in re.findall(r"[][{}]", text))
    return max(itertools.accumulate(steps), default=0)


def _walk(node: yaml.Node, place: Place, line: int, path: Path, seen: set[int]) -> Iterator[tuple[Place, int]]:
    """Every value with its line. Aliases are refused, and keys that occur twice, of which YAML keeps the last."""
    if id(node) in seen:
        raise ValueError(f"{path}, line {line}: aliases are not read; write the value out where it is needed")
    seen.add(id(node))
    yield place, line
    if isinstance(node, yaml.SequenceNode):
        for index, item in enumerate(node.value):
            yield from _walk(item, (*place, index), item.start_mark.line + 1, path, seen)
    elif isinstance(node, yaml.MappingNode):
        keys: set[str] = set()
        for key, item in node.value:
            at = key.start_mark.line + 1
            if not isinstance(key, yaml.ScalarNode) or key.tag == "tag:yaml.org,2002:merge":
                raise ValueError(f"{path}, line {at}: the name of a setting must be a text")
            if key.value in keys:
                raise ValueError(f"{path}, line {at}: {key.value} is given twice")
            keys.add(key.value)
            yield from _walk(item, (*place, key.value), at, path, seen)


def as_yaml(value: Any) -> str:
    """A value in one line, as `read_yaml` reads it back."""
    return (
        yaml.dump(value, Dumper=_Dumper, default_flow_style=True, sort_keys=False, width=math.inf, allow_unicode=True)
        .removesuffix("...\n")
        .strip()
    )
