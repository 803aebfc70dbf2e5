"""Records: what is written is read; damage, newer versions and other kinds are refused in one clear line."""

import json
import math
from pathlib import Path
from typing import Any, ClassVar

import jsonschema
import pytest
from hypothesis import given
from hypothesis import strategies as st

from leanformer.architecture import Architecture, Stage
from leanformer.foundation import records
from leanformer.foundation.records.base import PlainArchitecture, Record, RecordPart
from leanformer.foundation.records.files import append_line, read_json, read_lines, write_json, write_text

DESIGN = Architecture(
    family="vit",
    name="vit_tiny_patch16_224",
    stages=(Stage(width=8, depth=2, heads=2, head_dim=4, mlp_dim=16),),
    options={"img_size": 32},
)


class Inner(RecordPart):
    value: float


class Example(Record):
    kind: ClassVar[str] = "example"
    version: ClassVar[int] = 3
    former_kind: ClassVar[str | None] = "sample"
    migrations: ClassVar[Any] = {1: lambda written: {"count": int(written.pop("number")), **written}}

    count: int
    inner: Inner
    design: PlainArchitecture
    note: str = ""


@given(
    count=st.integers(-(10**9), 10**9),
    value=st.floats(allow_nan=False),
    note=st.text(),
)
def test_what_is_written_is_read(tmp_path_factory: pytest.TempPathFactory, count: int, value: float, note: str) -> None:
    path = tmp_path_factory.mktemp("record") / "example.json"
    record = Example(count=count, inner=Inner(value=value), design=DESIGN, note=note)
    record.write(path)
    other = Example(count=0, inner=Inner(value=value), design=DESIGN)
    assert list(other.to_texts([{}, {"count": count, "note": note}]))[1] == path.read_text()
    assert Example.read(path) == record
    assert json.loads(path.read_text())["version"] == 3


def written(**changes: Any) -> dict[str, Any]:
    record = {**Example(count=1, inner=Inner(value=0.5), design=DESIGN).to_dict(), "checksum": ...}
    return {key: value for key, value in {**record, **changes}.items() if value is not ...}


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        (dict(kind="sweep"), "is a record of kind sweep; needed is the kind example"),
        (
            dict(version=4),
            r"newer leanformer \(version 4 of example records, this one reads 3\): pip install",
        ),
        (dict(version="x"), "is damaged: version must be a whole number, got 'x'"),
        (dict(count="many"), "is damaged: count: input should be a valid integer.*, got 'many'"),
        (dict(inner={"value": None}), "is damaged: inner.value: input should be a valid number, got None"),
        (dict(inner=..., count=...), r"is damaged: count: field required.* \(and 1 more\)"),
        (dict(extra=1), "is damaged: extra: extra inputs are not permitted, got 1"),
        (dict(design={"family": "vit"}), "is damaged: design: .*lacks 'name', lacks 'stages'"),
        (dict(version=1), "it has not the form of version 1 of example records"),
    ],
)
def test_damage_is_one_line_that_names_the_file_and_the_place(
    changes: dict[str, Any], message: str, tmp_path: Path
) -> None:
    path = tmp_path / "example.json"
    write_json(path, written(**changes))
    with pytest.raises(ValueError, match=message) as refused:
        Example.read(path)
    assert str(path) in str(refused.value)
    assert "\n" not in str(refused.value)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"{", "is damaged: Expecting property name .* in line 1, column 2"),
        (b'{"a": "\xff"}', "is damaged: byte 7 is not UTF-8"),
        (b"[1, 2]", "is not a record of kind example: it holds no JSON object"),
        (b"[" * 100_000, "is damaged: it is nested too deeply"),
    ],
)
def test_files_that_are_no_json_are_refused(content: bytes, message: str, tmp_path: Path) -> None:
    path = tmp_path / "example.json"
    path.write_bytes(content)
    with pytest.raises(ValueError, match=message):
        Example.read(path)
    with pytest.raises(ValueError, match="there is no file"):
        Example.read(tmp_path / "nothing.json")


@pytest.mark.parametrize(
    "change", [dict(count=2), dict(note="x"), dict(version=2), dict(version=1), dict(checksum="0")]
)
def test_a_value_that_was_changed_is_found(change: dict[str, Any], tmp_path: Path) -> None:
    record = Example(count=1, inner=Inner(value=0.5), design=DESIGN)
    record.write(tmp_path / "a.json")
    found = read_json(tmp_path / "a.json")
    (tmp_path / "a.json").write_text(json.dumps(dict(reversed(found.items()))))
    assert Example.read(tmp_path / "a.json") == record, "another layout is no change"
    write_json(tmp_path / "a.json", {**found, "number": 1, **change} if change == dict(version=1) else found | change)
    with pytest.raises(ValueError, match=r"a\.json is damaged: "):
        Example.read(tmp_path / "a.json")


def test_older_versions_are_brought_up_to_date() -> None:
    old = written(version=..., kind="sample", count=...)
    assert Example.parse({**old, "number": "7"}, "here").count == 7
    with pytest.raises(ValueError, match="is a record of kind sample"):
        Example.parse({**old, "version": 2, "count": 7}, "here")


def test_infinities_are_kept_and_nan_is_refused(tmp_path: Path) -> None:
    write_json(tmp_path / "a.json", {"x": [math.inf, -math.inf]})
    assert read_json(tmp_path / "a.json") == {"x": ["inf", "-inf"]}
    with pytest.raises(ValueError, match="not JSON compliant"):
        write_json(tmp_path / "a.json", {"x": math.nan})
    assert read_json(tmp_path / "a.json") == {"x": ["inf", "-inf"]}, "a failed write leaves the old file"


def test_lines_survive_a_cut(tmp_path: Path) -> None:
    path = tmp_path / "lines.jsonl"
    append_line(path, {"a": 1})
    append_line(path, {"a": 2})
    path.write_text(path.read_text()[:-4])
    assert list(read_lines(path)) == [{"a": 1}]
    assert list(read_lines(tmp_path / "nothing.jsonl")) == []


def test_nothing_is_left_beside_a_file_that_could_not_be_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fails(*_: Any) -> None:
        raise OSError("no space left on device")

    monkeypatch.setattr("os.replace", fails)
    with pytest.raises(OSError, match="no space left"):
        write_text(tmp_path / "a.txt", "text")
    assert list(tmp_path.iterdir()) == []


# Schemas


@pytest.mark.parametrize("kind", records.KINDS)
def test_every_kind_has_a_valid_schema(kind: str) -> None:
    found = records.record_class(kind)
    assert found.kind == kind
    schema = found.schema_of_file()
    jsonschema.Draft202012Validator.check_schema(schema)
    assert schema["properties"]["kind"] == {"const": kind}


def test_unknown_kinds_are_refused() -> None:
    with pytest.raises(ValueError, match='there is no kind of record "page"; there are measurement, heads'):
        records.record_class("page")


@given(st.floats(allow_nan=False, allow_infinity=False))
def test_files_agree_with_the_schema(value: float) -> None:
    record = Example(count=2, inner=Inner(value=value), design=DESIGN)
    jsonschema.validate(record.to_dict(), Example.schema_of_file())
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate({**record.to_dict(), "count": "two"}, Example.schema_of_file())
