"""The code of a model in one file, so that transformers' Auto classes can read a saved folder without leanformer.

The file is put together from the source of this package: the model's classes, and every definition that they use, in
an order that Python accepts. Imports of other packages stay imports. Type annotations of functions are left out: they
speak of packages that the file does not need.
"""

from __future__ import annotations

import ast
import builtins
import functools
import importlib
import symtable
import sys
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, cast

from torch import nn

from leanformer import __version__
from leanformer.models import families

MODULE = "modeling_leanformer"
"""The file's name, which `auto_map` in config.json points to."""
REFUSED = "the code of this model cannot be one file"
HEADER = f'''"""Code of the model in this folder, written by leanformer {__version__}; it needs torch and transformers:

    AutoModel.from_pretrained(FOLDER, trust_remote_code=True)
"""

from __future__ import annotations
'''


def auto_map(model: nn.Module) -> dict[str, str]:
    """For config.json: which class of the file each Auto class takes. Empty where transformers needs no code."""
    family = cast(Any, families.of(model))
    if not hasattr(family, "auto_classes"):
        raise ValueError(
            f"code=True is for models of transformers: timm runs no code of a folder, so a {type(model).__name__} "
            "needs leanformer there. lf.export writes a file that does not"
        )
    if type(model).__module__.startswith("transformers."):
        return {}
    named = {auto.__name__: f"{MODULE}.{cls.__name__}" for auto, cls in family.auto_classes.items()}
    return {"AutoConfig": f"{MODULE}.{family.config_class.__name__}", **named}


def write_code(model: nn.Module, folder: Path) -> dict[str, str]:
    """Write the file into a folder; returns the `auto_map` for its config.json."""
    mapped = auto_map(model)
    if mapped:
        family = cast(Any, families.of(model))
        (folder / f"{MODULE}.py").write_text(
            source([family.config_class, *family.auto_classes.values()]), encoding="utf-8"
        )
    return mapped


def source(classes: Iterable[type]) -> str:
    """The code of classes with everything they use."""
    collected = _Collected()
    for cls in classes:
        collected.add(cls.__module__, cls.__name__)
    imports = "\n".join(sorted(set(collected.imports.values())))
    definitions = "\n\n\n".join(collected.definitions.values())
    return f"{HEADER}\n{imports}\n\n\n{definitions}\n"


@dataclass
class _Collected:
    imports: dict[str, str] = field(default_factory=dict)
    """Statements by the name that they import."""
    definitions: dict[str, str] = field(default_factory=dict)
    """By name in the file, each after those that it needs when it is executed."""
    names: dict[tuple[str, str], str] = field(default_factory=dict)
    """By module and name there: the name in the file, which differs where two modules use one name."""

    def add(self, module: str, name: str) -> str:
        """Put a definition into the file, after what it needs; returns its name there."""
        if (module, name) in self.names:
            return self.names[module, name]
        parsed = _parsed(module)
        if name not in parsed.definitions:
            raise ValueError(f"{REFUSED}: {module} does not define {name} by itself")
        taken = name in self.names.values() or name in self.imports
        ours = self.names[module, name] = f"{name}_of_{module.rpartition('.')[2]}" if taken else name
        text = parsed.definitions[name]
        table = symtable.symtable(text, module, "exec")
        at_once, all_used = (dict.fromkeys(_globals(table, at_once=when)) for when in (True, False))
        known = {used: self._resolve(parsed, used) for used in at_once}
        self.definitions[ours] = ""  # its place in the file
        known |= {used: self._resolve(parsed, used) for used in all_used if used not in known}
        self.definitions[ours] = _renamed(text, table, {**known, name: ours})
        return ours

    def _resolve(self, parsed: _Module, used: str) -> str:
        """The name in the file of a name that a module uses."""
        if used in parsed.definitions:
            return self.add(parsed.name, used)
        if used not in parsed.imports:
            if used in vars(builtins):
                return used
            raise ValueError(f"{REFUSED}: {parsed.name} does not say what {used} is")
        home, name, statement = parsed.imports[used]
        if name and home.split(".")[0] in ("leanformer", parsed.name.split(".")[0]):
            return self.add(home, name)
        if self.imports.setdefault(used, statement) != statement or used in self.definitions:
            raise ValueError(f"{REFUSED}: {used} is not the same everywhere in it")
        return used


def _renamed(text: str, table: symtable.SymbolTable, names: Mapping[str, str]) -> str:
    """A definition with other names for what it uses of the module."""
    others = {used: ours for used, ours in names.items() if used != ours}
    if not others:
        return text
    if shadowed := others.keys() & _locals(table):
        raise ValueError(f"{REFUSED}: {', '.join(sorted(shadowed))} has two meanings in one definition")
    tree = ast.parse(text)
    for node in ast.walk(tree):
        if isinstance(node, ast.Name):
            node.id = others.get(node.id, node.id)
        elif node in tree.body and isinstance(node, (ast.ClassDef, ast.FunctionDef)):
            node.name = others.get(node.name, node.name)
    return ast.unparse(tree)


def _locals(table: symtable.SymbolTable) -> set[str]:
    mine = {s.get_name() for s in table.get_symbols() if s.is_local()} if table.get_type() != "module" else set()
    return mine.union(*(_locals(child) for child in table.get_children()))


def _globals(table: symtable.SymbolTable, at_once: bool) -> list[str]:
    """Names of the module that a definition uses: only when it is executed, or also when what it defines is called."""
    later = table.get_type() == "function" and not table.get_name().endswith(("comp", "genexpr"))
    if at_once and later:
        return []
    top = table.get_type() == "module"
    mine = [s.get_name() for s in table.get_symbols() if s.is_referenced() and (top or s.is_global())]
    return [*mine, *(name for child in table.get_children() for name in _globals(child, at_once))]


# Reading modules


@dataclass(frozen=True)
class _Module:
    name: str
    definitions: Mapping[str, str]
    """Source of the classes, functions and constants at the top level."""
    imports: Mapping[str, tuple[str, str, str]]
    """By the name that is imported: its module, its name there (none for a whole module), and the statement."""


@functools.cache
def _parsed(name: str) -> _Module:
    file = getattr(sys.modules[name] if name in sys.modules else importlib.import_module(name), "__file__", None)
    if not file or not Path(file).is_file():
        raise ValueError(f"{REFUSED}: {name} was not read from a file")
    definitions: dict[str, str] = {}
    imports: dict[str, tuple[str, str, str]] = {}
    for node in _Untyped().visit(ast.parse(Path(file).read_text(encoding="utf-8"))).body:
        if isinstance(node, (ast.ClassDef, ast.FunctionDef)):
            definitions[node.name] = ast.unparse(node)
        elif isinstance(node, (ast.Assign, ast.AnnAssign)):
            for target in node.targets if isinstance(node, ast.Assign) else [node.target]:
                if isinstance(target, ast.Name):
                    definitions[target.id] = ast.unparse(node)
        elif isinstance(node, ast.Import):
            for alias in node.names:
                bound = alias.asname or alias.name.split(".")[0]
                imports[bound] = (alias.name, "", ast.unparse(ast.Import([alias])))
        elif isinstance(node, ast.ImportFrom) and node.module:
            for alias in node.names:
                statement = ast.unparse(ast.ImportFrom(node.module, [alias], node.level))
                imports[alias.asname or alias.name] = (node.module, alias.name, statement)
    return _Module(name, definitions, imports)


class _Untyped(ast.NodeTransformer):
    """Functions without annotations. Those of a class stay: transformers reads the types of a config's fields."""

    def visit_FunctionDef(self, node: ast.FunctionDef) -> ast.AST:
        node.returns = None
        for part in ast.walk(node):
            if isinstance(part, ast.arg):
                part.annotation = None
        return _Assigned().visit(node)


class _Assigned(ast.NodeTransformer):
    def visit_AnnAssign(self, node: ast.AnnAssign) -> ast.AST:
        plain = ast.Assign([node.target], node.value) if node.value is not None else ast.Pass()
        return ast.fix_missing_locations(ast.copy_location(plain, node))
