"""Names that stand for code: open registries, references, and packages that import their parts on first use.

Families, tasks and recipes are each found through one `Registry`, which knows four sources:

- the package's own entries, listed as references beside the registry;
- installed packages, through an entry-point group such as `leanformer.tasks`;
- code that is already running, through the decorator `register`;
- a reference given in place of a name: `package.module:Name` or `file.py:name`.

Nothing is imported before it is asked for, and `names` imports nothing at all. Standard library only.
"""

from __future__ import annotations

import contextlib
import difflib
import functools
import hashlib
import importlib
import importlib.util
import itertools
import os
import re
import sys
import traceback
import weakref
from collections.abc import Callable, Mapping
from importlib.metadata import EntryPoint, entry_points
from pathlib import Path
from types import ModuleType
from typing import Any, Generic, TypeVar, cast

Entry = TypeVar("Entry")

CODE_VARIABLE = "LEANFORMER_CODE"
"""Environment variable: files and modules of code that records may name, separated as in PATH. Workers inherit it."""
FILE_MODULE = "leanformer_code_"
"""How the names of modules begin that were loaded from files."""
HERE = "this-process"
"""The place of what only this process can find."""
_KEPT: weakref.WeakValueDictionary[str, Any] = weakref.WeakValueDictionary()
"""What only this process can find, by reference, as long as somebody holds it."""


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
            elsewhere = bool(declared) and declared not in (entry.__module__, address(entry))
            if elsewhere or (taken is not None and address(taken) != address(entry)):
                raise ValueError(f'the {self.word} "{name}" is registered already; choose another name')
            self._registered[name] = entry
            trust(entry)
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
        _load_trusted()  # a worker has not loaded what its parent had registered
        if name in self._registered:
            return self._registered[name]
        raise ValueError(self._unknown(name))

    def reference(self, name: str) -> str:
        """Where the entry of that name is, without importing it."""
        if name in self._registered:
            return address(self._registered[name])
        return self._own.get(name) or self._installed()[name].value

    def name_of(self, entry: Entry) -> str:
        """The name under which `get` finds an entry again, in this process or another."""
        written = address(entry)
        installed = {name: point.value for name, point in self._installed().items()}
        listed = {**self._own, **installed}
        registered = (name for name, found in self._registered.items() if found is entry)
        name = next((name for name, at in listed.items() if at == written), None) or next(registered, None)
        return name if name is not None else reference_to(entry)

    def only_here(self, name: str) -> bool:
        """Whether other processes cannot find the entry of that name; see `only_here`."""
        entry = self._registered.get(name)
        if entry is None or name in self._own or name in self._installed():
            return only_here(name)
        return only_here(reference_to(entry))

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
        own = "package.module:name or file.py:name"
        if name.endswith(".py"):
            return f'"{name}" does not say which {self.word} of the file is meant: name it as in {name}:build'
        return f'there is no {self.word} "{name}": {hint}; code of your own is named as {own}'


def _package(point: EntryPoint) -> str:
    return point.dist.name if point.dist is not None else point.value


# References


def resolve(reference: str, *, from_record: bool = False) -> Any:
    """What `package.module:Name` or `file.py:name` names.

    A reference that was read from a record may name installed packages. It may name a file only if that file was loaded
    by this process already, or is listed in LEANFORMER_CODE: opening somebody's folder must not run code in it. A
    reference that a person typed may also name a module in the working directory.
    """
    place, _, path = reference.rpartition(":")
    if place in (HERE, "__main__"):
        return _in_this_process(reference, path)
    if not path or not (place.endswith(".py") or all(part.isidentifier() for part in place.split("."))):
        raise ValueError(f'"{reference}" names no code: write package.module:Name or file.py:name')
    if place.endswith(".py"):
        module = _module_of_file(Path(place), reference, from_record)
    else:
        if not from_record and (here := os.getcwd()) not in sys.path:
            sys.path.append(here)
        module = _imported(place, reference)
    found = _attribute(module, path)
    if found is None:
        where = module.__file__ if place.endswith(".py") else place
        raise ValueError(f'"{reference}": {where} has no {path}')
    return found


def is_reference(text: Any) -> bool:
    """Whether a text is written as `package.module:Name` or `file.py:name`."""
    return isinstance(text, str) and re.fullmatch(r"(?:.+\.py|[^\W\d][\w.]*):[^\W\d][\w.]*", text) is not None


def modules_of_files() -> list[ModuleType]:
    """Modules that were loaded from files by references; other processes cannot import them by name."""
    return [module for name, module in sys.modules.items() if name.startswith(FILE_MODULE)]


def absolute(reference: str) -> str:
    """A reference as a record keeps it: a file by its whole path, which is where it is now."""
    place, _, path = reference.rpartition(":")
    if not place.endswith(".py"):
        return reference
    file = Path(place)
    return f"{(file if file.is_file() else _moved(file)).resolve()}:{path}"


def without_folder(reference: str) -> str:
    """A reference that stays the same when a file of code is moved."""
    place, colon, path = reference.rpartition(":")
    return f"{Path(place).name}{colon}{path}" if place.endswith(".py") else reference


def address(entry: Any) -> str:
    """Where a class or function was written, whether or not it can be found there."""
    return f"{_place_of(entry.__module__ or '')}:{entry.__qualname__}"


def reference_to(entry: Any, module: str = "", path: str = "") -> str:
    """The reference by which another process finds a class, a function, or an object that a module holds.

    What no other process can find gets a reference for this one: `__main__:Name` for what a notebook or a script
    defines, `this-process:name` for what was made inside a function. `only_here` recognises both.

    Args:
        entry: what is to be found again.
        module, path: where; by default where the class or function was written.
    """
    module, path = module or entry.__module__ or "", path or entry.__qualname__  # code of exec() has no module
    if _attribute(sys.modules.get(module), path) is not entry:
        return _kept(entry, path)
    place = _place_of(module)
    if module == "__main__" and place != module:
        _trust(place)  # the user runs it, so workers may load it
    return f"{place}:{path}"


def only_here(reference: str) -> bool:
    """Whether a reference leads to code in the process that wrote it, and in no other."""
    return reference.startswith((f"{HERE}:", "__main__:"))


def _attribute(module: Any, path: str) -> Any:
    """What a module holds at a dotted path; None if it holds nothing there."""
    for part in path.split("."):
        module = getattr(module, part, None)
    return module


def _place_of(module: str) -> str:
    """A module as references name it: by its file if it was loaded from one, else by its name.

    A script is named by its file if another process can load it without running it: if what it does is under
    `if __name__ == "__main__":`. It is `__main__` otherwise.
    """
    loaded = sys.modules.get(module)
    file = getattr(loaded, "__file__", None)
    if file is None:
        return module
    if module == "__main__":
        spec = getattr(loaded, "__spec__", None)
        return (spec.name if spec is not None else str(Path(file).resolve())) if _is_guarded(Path(file)) else module
    return str(Path(file).resolve()) if module == _name_of_file(Path(file)) else module


def _is_guarded(script: Path) -> bool:
    try:
        return bool(re.search(r"^if __name__ == .__main__.:", script.read_text(encoding="utf-8"), re.MULTILINE))
    except (OSError, UnicodeDecodeError):
        return False


def _kept(entry: Any, path: str) -> str:
    """A name for this process, the same whenever it is asked for. Two things that are alive never share one."""
    for reference, kept in _KEPT.items():
        if kept is entry:
            return reference
    name = path.replace(".<locals>", "").replace(".<lambda>", "").replace("<lambda>", "lambda")
    numbered = (f"{HERE}:{name}" + (f"-{number}" if number > 1 else "") for number in itertools.count(1))
    reference = next(candidate for candidate in numbered if candidate not in _KEPT)
    _KEPT[reference] = entry
    return reference


def _in_this_process(reference: str, path: str) -> Any:
    found = _KEPT.get(reference) if reference.startswith(HERE) else _attribute(sys.modules["__main__"], path)
    if found is None:
        raise ValueError(
            f'"{reference}" existed only in the process that wrote this: run that script or notebook again to resume; '
            "code at the top level of a module or file is found by every process"
        )
    return found


def _name_of_file(file: Path) -> str:
    """A module name of its own for every file: two files may be called alike."""
    return f"{FILE_MODULE}{hashlib.sha256(str(file.resolve()).encode()).hexdigest()[:12]}_{file.stem}"


def _imported(place: str, reference: str) -> ModuleType:
    main = sys.modules.get("__main__")
    if getattr(getattr(main, "__spec__", None), "name", None) == place:
        return cast(ModuleType, main)  # python -m place
    try:
        return importlib.import_module(place)
    except ModuleNotFoundError as error:
        raise ValueError(
            f'"{reference}" cannot be imported: {error}; install it, or set PYTHONPATH to the folder that holds it'
        ) from error
    except Exception as error:
        raise ValueError(f'"{reference}" cannot be imported: {in_one_line(error)}') from error


def _module_of_file(file: Path, reference: str, from_record: bool) -> ModuleType:
    file = _moved(file) if from_record and not file.is_file() else file
    name, main = _name_of_file(file), sys.modules.get("__main__")
    if name in sys.modules:
        return sys.modules[name]
    if getattr(main, "__file__", None) and Path(cast(str, main.__file__)).resolve() == file.resolve():  # type: ignore[union-attr]
        return cast(ModuleType, main)
    if not file.is_file():
        moved = f"; if it was moved, set {CODE_VARIABLE} to its new place" if from_record else ""
        raise ValueError(f'"{reference}": there is no file {file}{moved}')
    if from_record and str(file.resolve()) not in _trusted():
        raise ValueError(
            f'a record names code in a file, "{reference}"; if you trust it, set {CODE_VARIABLE}={file} and try again'
        )
    spec = importlib.util.spec_from_file_location(name, file)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    try:
        spec.loader.exec_module(module)
    except BaseException as error:
        del sys.modules[name]
        if isinstance(error, SystemExit):
            raise ValueError(
                f'"{reference}" cannot be loaded: it ends the process when it is loaded: put what it runs below '
                'if __name__ == "__main__":'
            ) from error
        if not isinstance(error, Exception):
            raise
        raise ValueError(f'"{reference}" cannot be loaded: {in_one_line(error, file)}') from error
    _trust(str(file.resolve()))
    return module


def in_one_line(error: Exception, file: Path | None = None) -> str:
    """An error of a user's code: what it is, and the line of the user's file that it came from."""
    said = (str(error).strip().splitlines() or [""])[0]
    kind = "" if isinstance(error, ValueError) else type(error).__name__ + ": " * bool(said)
    if isinstance(error, SyntaxError):
        return f"{kind}{error.msg} ({Path(error.filename or '').name}, line {error.lineno})"
    frames = traceback.extract_tb(error.__traceback__)
    own = [frame for frame in frames if file is not None and Path(frame.filename).resolve() == file.resolve()]
    last = own[-1:] or ([] if isinstance(error, ValueError) else list(frames)[-1:])
    return f"{kind}{said}" + "".join(f" ({Path(frame.filename).name}, line {frame.lineno})" for frame in last)


# Trust: which code a record may name


def trust(entry: Any) -> None:
    """Let records name the module of a class or function that the user gave, here and in this process's workers."""
    place = _place_of(entry.__module__ or "")
    if place not in ("", "__main__") and not place.startswith("leanformer."):
        _trust(place)


def may_call(function: Any) -> bool:
    """Whether a record may have a function called: only if the user named its module, or its package declares it."""
    place = _place_of(getattr(function, "__module__", None) or "")
    declared = (
        point.value for group in ("leanformer.tasks", "leanformer.recipes") for point in entry_points(group=group)
    )
    return place in ("__main__", *_trusted()) or address(function) in declared


def _trusted() -> list[str]:
    """Files, as absolute paths, and modules by name."""
    listed = [entry for entry in os.environ.get(CODE_VARIABLE, "").split(os.pathsep) if entry]
    return [str(Path(entry).resolve()) if entry.endswith(".py") else entry for entry in listed]


def _load_trusted() -> None:
    """Load what the user named, so that decorators in it register; what cannot be loaded registers nothing."""
    for place in _trusted():
        with contextlib.suppress(ValueError):
            _module_of_file(Path(place), place, from_record=True) if place.endswith(".py") else _imported(place, place)


def _trust(place: str) -> None:
    os.environ[CODE_VARIABLE] = os.pathsep.join(sorted({*_trusted(), place}))


def _moved(file: Path) -> Path:
    """Where the user says that a file is now; the file itself if they do not, or name several."""
    named = [Path(place) for place in _trusted() if place.endswith(".py") and Path(place).name == file.name]
    found = [place for place in named if place.is_file()]
    return found[0] if len(found) == 1 else file


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
