"""JSON Schemas that say what each field means: the text beneath the field in the source of its class."""

from __future__ import annotations

import ast
import inspect
import sys
from functools import cache
from typing import Any

from pydantic.json_schema import GenerateJsonSchema, JsonSchemaValue


class Described(GenerateJsonSchema):
    """Pydantic's generator, with descriptions of fields."""

    def model_schema(self, schema: Any) -> JsonSchemaValue:
        return _described(super().model_schema(schema), schema["cls"])

    def dataclass_schema(self, schema: Any) -> JsonSchemaValue:
        return _described(super().dataclass_schema(schema), schema["cls"])


def _described(schema: JsonSchemaValue, record: type) -> JsonSchemaValue:
    for base in reversed(record.__mro__):
        for name, text in _field_texts(base.__module__).get(base.__name__, {}).items():
            field = schema.get("properties", {}).get(name)
            if field is not None:
                field["description"] = text
    return schema


@cache
def _field_texts(module: str) -> dict[str, dict[str, str]]:
    """For every class of a module, the texts beneath its fields."""
    try:
        tree = ast.parse(inspect.getsource(sys.modules[module]))
    except (OSError, TypeError, KeyError):  # a builtin, or a module without its source
        return {}
    return {node.name: _texts(node) for node in ast.walk(tree) if isinstance(node, ast.ClassDef)}


def _texts(node: ast.ClassDef) -> dict[str, str]:
    found: dict[str, str] = {}
    fields: list[str] = []
    for statement in node.body:
        if isinstance(statement, ast.AnnAssign) and isinstance(statement.target, ast.Name):
            fields.append(statement.target.id)
            continue
        if fields and isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant):
            found[fields[-1]] = " ".join(str(statement.value.value).split())
        fields = []
    return found
