"""What every record is: typed, versioned, readable for good, and described by a JSON Schema.

A record is a class with a `kind` and a `version`; its file holds both. `read` says what is wrong with a damaged file or
one of a newer version, and brings older ones up to date through `migrations`. Files of leanformer 0.1 hold no version
and count as version 1. A new kind of record is also listed in `leanformer.foundation.records.KINDS`.
"""

from __future__ import annotations

import hashlib
import json
import os
import reprlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Annotated, Any, ClassVar, Self

from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    PlainSerializer,
    ValidationError,
    WithJsonSchema,
    model_validator,
)

from leanformer.architecture import Architecture
from leanformer.foundation.records.described import Described
from leanformer.foundation.records.files import plain, read_json, write_json
from leanformer.foundation.records.views import Shown

Json = dict[str, Any]
"""A plain JSON object."""
Migration = Callable[[Json], Json]
"""Turns the JSON of one version into that of the next."""
PossiblyInfinite = Annotated[float, WithJsonSchema({"anyOf": [{"type": "number"}, {"const": "inf"}]})]
"""A number that may be infinite, which JSON writes as "inf"."""

LONGEST_REPR = 1000
"""Characters that a record shows of itself."""
_REPR = reprlib.Repr()
_REPR.maxlevel, _REPR.maxdict, _REPR.maxlist, _REPR.maxtuple, _REPR.maxstring, _REPR.maxother = 2, 4, 4, 4, 100, 100


def shortened(value: Any) -> str:
    """A value's `repr`, with no more of a long list or text than a line holds."""
    return _REPR.repr(value)


class RecordPart(BaseModel):
    """A part of a record: immutable, and without fields that nobody declared.

    Computed fields, such as sentences, are written for readers of the file. They are computed again when it is read.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    @model_validator(mode="before")
    @classmethod
    def _without_computed_fields(cls, given: Any) -> Any:
        if not isinstance(given, dict):
            return given
        return {name: value for name, value in given.items() if name not in cls.model_computed_fields}

    def glance(self) -> str:
        """What a reader should see first, in a line."""
        return ", ".join(f"{name}={shortened(getattr(self, name))}" for name in type(self).model_fields)

    def __repr__(self) -> str:
        text = f"{type(self).__name__}({self.glance()})"
        return text if len(text) <= LONGEST_REPR else f"{text[: LONGEST_REPR - 1]}…"

    def __str__(self) -> str:
        return repr(self)


class Record(RecordPart, Shown):
    """A whole file."""

    kind: ClassVar[str]
    version: ClassVar[int] = 1
    former_kind: ClassVar[str | None] = None
    """What version 1 called the kind, if it was another word."""
    checksummed: ClassVar[bool] = True
    """Whether files carry a checksum, so that a value that was changed is found. Those of version 1 have none."""
    migrations: ClassVar[Mapping[int, Migration]] = {}
    """By version: how to bring JSON of that version to the next; a version that is not listed needs no change."""

    @classmethod
    def read(cls, path: str | os.PathLike[str]) -> Self:
        """The record in a file, or a `ValueError` that names the file, the place in it and what is needed."""
        return cls.parse(read_json(Path(path)), str(path))

    @classmethod
    def parse(cls, written: Any, source: str) -> Self:
        """The record of plain JSON; `source` says in errors where it came from."""
        if not isinstance(written, dict):
            raise ValueError(f"{source} is not a record of kind {cls.kind}: it holds no JSON object")
        found = dict(written)
        kind, version = found.pop("kind", cls.kind), found.pop("version", 1)
        if kind != cls.kind and not (version == 1 and kind == cls.former_kind):
            raise ValueError(f"{source} is a record of kind {kind}; needed is the kind {cls.kind}")
        if not isinstance(version, int) or isinstance(version, bool) or version < 1:
            raise ValueError(f"{source} is damaged: version must be a whole number, got {version!r}")
        if version > cls.version:
            raise ValueError(
                f"{source} was written by a newer leanformer (version {version} of {cls.kind} records, this one reads "
                f"{cls.version}): pip install --upgrade leanformer"
            )
        wanted = _checksum({**found, "version": version}, without="checksum") if cls._has_checksum(version) else None
        intact = found.pop("checksum", None) == wanted
        try:
            for step in range(version, cls.version):
                found = cls.migrations[step](found) if step in cls.migrations else found
            record = cls.model_validate(found)
        except ValidationError as error:
            raise ValueError(f"{source} is damaged: {first_problem(error)}") from error
        except (KeyError, TypeError, AttributeError) as error:  # a migration met something else than it expects
            raise ValueError(
                f"{source} is damaged: it has not the form of version {version} of {cls.kind} records ({error!r})"
            ) from error
        if not intact:  # the last thing that is looked at: anything else says more
            raise ValueError(f"{source} is damaged: it does not match its checksum; restore it from a copy")
        return record

    def changed(self, **fields: Any) -> Self:
        """The same record with other fields, checked as if it had been read."""
        return type(self).model_validate({name: getattr(self, name) for name in type(self).model_fields} | fields)

    @classmethod
    def _has_checksum(cls, version: int) -> bool:
        return cls.checksummed and version > 1

    def to_dict(self) -> Json:
        """Plain JSON, with kind and version."""
        return self._with_checksum({"kind": self.kind, "version": self.version, **plain(self.model_dump(mode="json"))})

    def to_texts(self, changes: Iterable[Json], indent: int = 1) -> Iterator[str]:
        """What `write` writes of records that differ from this one in fields of plain values.

        What they have in common is made a text once. The values are not checked.
        """
        common = {key: value for key, value in self.to_dict().items() if key != "checksum"}
        texts = {key: _nested(value, indent) for key, value in common.items()}
        for change in changes:
            written = self._with_checksum({**common, **change})
            own = {key: _nested(written[key], indent) for key in written if key in change or key not in common}
            lines = (f'{" " * indent}"{key}": {text}' for key, text in {**texts, **own}.items())
            yield "{\n" + ",\n".join(lines) + "\n}\n"

    @classmethod
    def _with_checksum(cls, written: Json) -> Json:
        has_checksum = cls._has_checksum(cls.version)
        return {**written, "checksum": _checksum(written, without="kind")} if has_checksum else written

    def write(self, path: str | os.PathLike[str], indent: int = 1) -> None:
        write_json(Path(path), self.to_dict(), indent)

    def as_record(self) -> Record:
        return self

    @classmethod
    def schema_of_file(cls) -> Json:
        """The JSON Schema of the record's file."""
        schema = cls.model_json_schema(mode="serialization", schema_generator=Described)
        head: Json = {"kind": {"const": cls.kind}, "version": {"const": cls.version}}
        if cls._has_checksum(cls.version):
            head["checksum"] = {"type": "string"}
        return {
            "$schema": "https://json-schema.org/draft/2020-12/schema",
            **schema,
            "properties": {**head, **schema.get("properties", {})},
            "required": ["kind", "version", *schema.get("required", [])],
        }


def _checksum(written: Json, without: str) -> str:
    """Of a record's JSON without one key, whatever the order of the others."""
    counted = {key: value for key, value in written.items() if key != without}
    return hashlib.sha256(json.dumps(counted, sort_keys=True).encode()).hexdigest()


def _nested(value: Any, indent: int) -> str:
    """The text of a value inside of a JSON object."""
    return json.dumps(value, indent=indent, allow_nan=False).replace("\n", "\n" + " " * indent)


def first_problem(error: ValidationError) -> str:
    """The first thing that is wrong, in one line: where, what is needed, what came."""
    problem = error.errors(include_url=False)[0]
    place = ".".join(str(part) for part in problem["loc"]) or "the whole"
    reason = problem["msg"].removeprefix("Value error, ")
    came = repr(problem["input"])
    came = came if len(came) <= 60 else f"{came[:57]}…"
    more = f" (and {error.error_count() - 1} more)" if error.error_count() > 1 else ""
    return f"{place}: {reason[0].lower()}{reason[1:]}, got {came}{more}"


def _architecture(value: Any) -> Architecture:
    return value if isinstance(value, Architecture) else Architecture.from_dict(value)


PlainArchitecture = Annotated[
    Architecture,
    BeforeValidator(_architecture),
    PlainSerializer(Architecture.to_dict),
    WithJsonSchema(
        {
            "type": "object",
            "description": "An architecture in plain numbers.",
            "required": ["family", "name", "stages"],
            "properties": {
                "family": {"type": "string"},
                "name": {"type": "string"},
                "options": {"type": "object"},
                "stages": {
                    "type": "array",
                    "items": {
                        "type": "object",
                        "properties": {
                            size: {"type": "integer", "minimum": 1}
                            for size in ("width", "depth", "heads", "head_dim", "mlp_dim")
                        },
                    },
                },
            },
        }
    ),
]
"""An `Architecture` inside a record."""
