"""Names that stand for code: open registries, references, and packages that import their parts on first use.

Families, tasks and recipes are each found through one `Registry`, which knows four sources:

- the package's own entries, listed as references beside the registry;
- installed packages, through an entry-point group such as `leanformer.tasks`;
- code that is already running, through the decorator `register`;
- a reference given in place of a name: `package.module:Name` or `file.py:name`.

Nothing is imported before it is asked for, and `names` imports nothing at all. Standard library only.
"""

from __future__ import annotations

import difflib
import functools
import hashlib
import importlib
import importlib.util
import os
import sys
from collections.abc import Callable, Mapping
from importlib.metadata import EntryPoint, entry_points
from pathlib import Path
from types import ModuleType
from typing import Any, Generic, TypeVar

Entry = TypeVar("Entry")

CODE_VARIABLE = "LEANFORMER_CODE"
"""Environment variable: files of code that records may name, separated as in PATH. Workers inherit it."""


class Registry(Generic[Entry]):
    """Entries of one kind by name."""

    def __init__(
        self, word: str, *, group: str, own: Mapping[str, str], renamed: Mapping[str, str] | None = None
    ) -> None:
        """
        Args:
            word: what an entry is called in messages, such as "task".
            group: the entry-point group through which installed packages add entries.
            own: this package's entries, each a reference `package.module:Name`, or `package.module` where importing the
                module registers the name.
            renamed: names that earlier versions used, and what each is called now.
        """
        self.word, self.group = word, group
        self._own, self._renamed = dict(own), dict(renamed or {})
        self._registered: dict[str, Entry] = {}

    def register(self, name: str) -> Callable[[Entry], Entry]:
        """A decorator that adds what it decorates; the same name twice is an error.

        >>> @TASKS.register("my-task")
        ... class MyTask(Task): ...
        """

        def add(entry: Entry) -> Entry:
            taken, declared = self._registered.get(name), self._own.get(name, "")
            elsewhere = bool(declared) and declared not in (entry.__module__, reference_to(entry))
            if elsewhere or (taken is not None and reference_to(taken) != reference_to(entry)):
                raise ValueError(f'the {self.word} "{name}" is registered already; choose another name')
            self._registered[name] = entry
            return entry

        return add

    def names(self) -> list[str]:
        """Every name, own ones first."""
        return list(dict.fromkeys((*self._own, *self._installed(), *self._registered)))

    def current_name(self, name: str) -> str:
        """What an entry is called now, by a name that an earlier version may have used."""
        return self._renamed.get(name, name)

    def get(self, name: str, *, from_record: bool = False) -> Entry:
        """The entry of that name, or that a reference names.

        Args:
            name: a name, `package.module:Name` or `file.py:name`.
            from_record: whether the name was read from a file; see `resolve`.
        """
        name = self.current_name(name)
        if name in self._registered:
            return self._registered[name]
        if name in self._own:
            return self._of_own(self._own[name], name)
        if name in (installed := self._installed()):
            return self._load(name, installed[name])
        if ":" in name:
            return resolve(name, from_record=from_record)
        raise ValueError(self._unknown(name))

    def reference(self, name: str) -> str:
        """Where the entry of that name is, without importing it."""
        if name in self._registered:
            return reference_to(self._registered[name])
        return self._own.get(name) or self._installed()[name].value

    def name_of(self, entry: Entry) -> str:
        """The name under which `get` finds an entry again, in this process or another."""
        for name, registered in self._registered.items():
            if registered is entry:
                return name
        reference = reference_to(entry)
        installed = {name: point.value for name, point in self._installed().items()}
        return next((name for name, at in {**self._own, **installed}.items() if at == reference), reference)

    @functools.cache  # noqa: B019  registries live as long as the process, and so do its installed packages
    def _installed(self) -> dict[str, EntryPoint]:
        found: dict[str, EntryPoint] = {}
        for point in entry_points(group=self.group):
            other = found.setdefault(point.name, point)
            if other.value != point.value:
                raise ValueError(
                    f'two installed packages provide the {self.word} "{point.name}": {_package(other)} and '
                    f"{_package(point)}; uninstall one of them"
                )
        return {name: point for name, point in found.items() if name not in self._own}

    def _of_own(self, reference: str, name: str) -> Entry:
        if ":" in reference:
            return resolve(reference)
        importlib.import_module(reference)
        return self._registered[name]

    def _load(self, name: str, point: EntryPoint) -> Entry:
        try:
            loaded = point.load()
            return self._registered[name] if isinstance(loaded, ModuleType) else loaded
        except KeyError:
            raise ValueError(
                f'the module {point.value} of the package {_package(point)} does not register the {self.word} "{name}"'
            ) from None
        except (ImportError, AttributeError) as error:
            raise ValueError(
                f'the {self.word} "{name}" of the package {_package(point)} cannot be loaded: {error}'
            ) from error

    def _unknown(self, name: str) -> str:
        near = difflib.get_close_matches(name, self.names(), n=3, cutoff=0.5)
        hint = f"did you mean {' or '.join(near)}" if near else f"there are {', '.join(self.names())}"
        return f'there is no {self.word} "{name}": {hint}; code of your own is named as package.module:Name'


def _package(point: EntryPoint) -> str:
    return point.dist.name if point.dist is not None else point.value


# References


def resolve(reference: str, *, from_record: bool = False) -> Any:
    """What `package.module:Name` or `file.py:name` names.

    A reference that was read from a record may name installed packages. It may name a file only if that file was loaded
    by this process already, or is listed in LEANFORMER_CODE: opening somebody's folder must not run code in it.
    """
    place, _, path = reference.rpartition(":")
    if not path or not (place.endswith(".py") or all(part.isidentifier() for part in place.split("."))):
        raise ValueError(f'"{reference}" names no code: write package.module:Name or file.py:name')
    if place.endswith(".py"):
        module = _module_of_file(Path(place), reference, from_record)
    else:
        try:
            module = importlib.import_module(place)
        except ImportError as error:
            raise ValueError(f'"{reference}" cannot be imported: {error}') from error
    found: Any = module
    for part in path.split("."):
        if not hasattr(found, part):
            raise ValueError(f'"{reference}": {place} has no {path}')
        found = getattr(found, part)
    return found


def reference_to(entry: Any) -> str:
    """The reference by which another process finds a class or function."""
    module = sys.modules.get(entry.__module__)
    file = getattr(module, "__file__", None)
    if file is not None and (entry.__module__ == "__main__" or entry.__module__ == _name_of_file(Path(file))):
        return f"{Path(file).resolve()}:{entry.__qualname__}"
    return f"{entry.__module__}:{entry.__qualname__}"


def _name_of_file(file: Path) -> str:
    """A module name of its own for every file: two files may be called alike."""
    return f"leanformer_code_{hashlib.sha256(str(file.resolve()).encode()).hexdigest()[:12]}_{file.stem}"


def _module_of_file(file: Path, reference: str, from_record: bool) -> ModuleType:
    name = _name_of_file(file)
    if name in sys.modules:
        return sys.modules[name]
    allowed = {Path(path).resolve() for path in os.environ.get(CODE_VARIABLE, "").split(os.pathsep) if path}
    if from_record and file.resolve() not in allowed:
        raise ValueError(
            f'a record names code in a file, "{reference}"; if you trust it, set {CODE_VARIABLE}={file} and try again'
        )
    if not file.is_file():
        raise ValueError(f'"{reference}": there is no file {file}')
    spec = importlib.util.spec_from_file_location(name, file)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    try:
        spec.loader.exec_module(module)
    except BaseException:
        del sys.modules[name]
        raise
    os.environ[CODE_VARIABLE] = os.pathsep.join(sorted({*map(str, allowed), str(file.resolve())}))
    return module


# Packages that import their parts on first use


def lazily(package: str, homes: Mapping[str, str]) -> tuple[Callable[[str], Any], Callable[[], list[str]]]:
    """`__getattr__` and `__dir__` of a package whose names live in the given modules of it.

    >>> __getattr__, __dir__ = lazily(__name__, {"create": "names", "build": "building"})
    """

    def find(name: str) -> Any:
        if name not in homes:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        return getattr(importlib.import_module(f"{package}.{homes[name]}"), name)

    return find, lambda: sorted(homes)
