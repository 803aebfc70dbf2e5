"""Where scores of other programs are found: CSV, JSON lines, and the folders of timm's script and of transformers.

A folder of runs has one folder for each run, and the arm and the seed in their names: `lean/seed-3/summary.csv`,
`lean-seed3/trainer_state.json` or `lean/3/summary.csv`.
"""

from __future__ import annotations

import csv
import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

import yaml

from leanformer.data import checks
from leanformer.data.checks import BadData
from leanformer.experiments.judging.scores import COLUMNS, Row, ScoreTable, table_of
from leanformer.foundation.records.files import read_json

TIMM, TRANSFORMERS = "summary.csv", "trainer_state.json"
LARGEST = 1 << 30
"""Bytes of a file of scores."""


def read_scores(given: Any, *, key: str = "", unit: str = "") -> ScoreTable:
    """Scores of a file, a folder, a data frame, a list of rows, or a dictionary of arms.

    Args:
        given: a path to .csv, .tsv, .jsonl or .json; a folder of runs; a pandas data frame; rows as dictionaries; or
            {arm: {seed: score}} or {arm: [score of seed 0, …]}.
        key: which number is the score, in the folders of other programs, such as eval_top1 or eval_accuracy.
        unit: of the score. With %, samples that are right (1) or wrong (0) become percentages.
    """
    if isinstance(given, str | Path):
        path = Path(given)
        if path.is_dir():
            return table_of(_runs_below(path, key), str(path), unit)
        if key:
            raise BadData(f"key={key!r} is for folders of runs; {path} has its scores in the column score")
        return table_of(_rows_of_file(path), str(path), unit)
    if isinstance(given, Mapping):
        return table_of(_rows_of_arms(given), "the scores", unit)
    if hasattr(given, "to_dict") and hasattr(given, "columns"):
        given = given.to_dict("records")
    if not isinstance(given, Iterable):
        raise BadData(f"scores are a file, a folder, a data frame, rows or a dictionary; got {given!r}")
    return table_of(((f"row {place}", _as_row(row, place)) for place, row in enumerate(given)), "the scores", unit)


def _as_row(row: Any, place: int) -> Mapping[str, Any]:
    if not isinstance(row, Mapping):
        raise BadData(f"row {place} is not a dictionary with {', '.join(COLUMNS)}; got {row!r}")
    return row


def _rows_of_arms(arms: Mapping[Any, Any]) -> Iterator[Row]:
    for arm, scores in arms.items():
        if not isinstance(scores, Mapping | list | tuple):
            raise BadData(f"{arm} needs its scores by seed, or as a list; got {scores!r}")
        items = scores.items() if isinstance(scores, Mapping) else enumerate(scores)
        for seed, score in items:
            yield f"{arm}, seed {seed}", {"arm": arm, "seed": seed, "score": score}


# Files


def _rows_of_file(path: Path) -> Iterator[Row]:
    if not path.exists():
        raise BadData(f"there is no file {path}")
    checks.regular(path)
    if path.stat().st_size > LARGEST:
        raise BadData(f"{path} has {path.stat().st_size:,} bytes; at most {LARGEST:,} are read as scores")
    readers: dict[str, Callable[[Path], Iterator[Row]]] = {
        ".csv": _rows_of_csv,
        ".tsv": _rows_of_csv,
        ".jsonl": _rows_of_json_lines,
        ".json": _rows_of_json,
    }
    if path.suffix.lower() not in readers:
        raise BadData(f"{path}: scores are read from {', '.join(readers)}, and from folders of runs")
    return readers[path.suffix.lower()](path)


def _rows_of_csv(path: Path) -> Iterator[Row]:
    with checks.reading(path, "table of scores"), path.open(encoding="utf-8-sig", newline="") as opened:
        lines = csv.DictReader(opened, delimiter="\t" if path.suffix.lower() == ".tsv" else ",", strict=True)
        names = [name.strip() for name in lines.fieldnames or []]
        if missing := [column for column in COLUMNS if column not in names]:
            raise BadData(
                f"{path} lacks the column {', '.join(missing)}; needed are {', '.join(COLUMNS)} (and sample, if scores "
                f"are those of samples); its first line has {', '.join(names)[:200] or 'nothing'}"
            )
        lines.fieldnames = names
        for row in lines:
            place = f"{path}, line {lines.line_num}"
            if None in row or None in row.values():
                raise BadData(f"{place}: another number of columns than the first line's {len(names)}")
            yield place, row


def _rows_of_json_lines(path: Path) -> Iterator[Row]:
    with checks.reading(path, "file of JSON lines"), path.open(encoding="utf-8-sig") as opened:
        for number, line in enumerate(opened, start=1):
            if line.strip():
                yield _json_row(f"{path}, line {number}", line)


def _json_row(place: str, line: str) -> Row:
    try:
        row = json.loads(line)
    except (json.JSONDecodeError, RecursionError) as error:
        raise BadData(f"{place} is not JSON: {checks.first_line(error)}") from None
    if not isinstance(row, dict):
        raise BadData(f"{place} is not a JSON object with {', '.join(COLUMNS)}")
    return place, row


def _rows_of_json(path: Path) -> Iterator[Row]:
    found = read_json(path)
    if isinstance(found, dict):
        yield from ((f"{path}, {place}", row) for place, row in _rows_of_arms(found))
        return
    if not isinstance(found, list):
        raise BadData(f"{path} holds neither rows of {', '.join(COLUMNS)} nor arms with their scores by seed")
    for place, row in enumerate(found):
        yield f"{path}, row {place}", _as_row(row, place)


# Folders of runs


def _runs_below(folder: Path, key: str) -> Iterator[Row]:
    files = checks.files_below(folder, lambda file: file.name in (TIMM, TRANSFORMERS))
    files = [file for file in files if not file.parent.name.startswith("checkpoint-")]
    if not files:
        raise BadData(
            f"{folder} has neither {TIMM} (timm) nor {TRANSFORMERS} (transformers) in folders of runs such as "
            f"lean/seed-0; leanformer's own comparisons are read by `leanformer report`"
        )
    for file in files:
        read = _last_of_timm if file.name == TIMM else _last_of_transformers
        arm, seed = _arm_and_seed(file.parent, folder)
        yield str(file), {"arm": arm, "seed": seed, "score": read(file, key)}


def _arm_and_seed(run: Path, root: Path) -> tuple[str, Any]:
    """By the name of a run's folder, or by the seed that timm's script has written beside the results."""
    name = "/".join(run.relative_to(root).parts)
    match = re.fullmatch(r"(?P<arm>.+?)[/_.-]*(?:seed|s)?[=_-]?(?P<seed>\d+)", name)
    written = _seed_of_timm(run / "args.yaml")
    if match is None and written is None:
        raise BadData(f"{run}: the seed is not in its name; name the folder of a run like lean/seed-0")
    if match is None or (written is not None and int(match["seed"]) != written):
        return name, written
    return match["arm"], match["seed"]


def _seed_of_timm(file: Path) -> int | None:
    if not file.is_file():
        return None
    try:
        settings = yaml.safe_load(file.read_text(encoding="utf-8"))
    except (yaml.YAMLError, UnicodeDecodeError, OSError):
        return None
    seed = settings.get("seed") if isinstance(settings, dict) else None
    return seed if isinstance(seed, int) else None


def _last_of_timm(file: Path, key: str) -> Any:
    """The last epoch's value."""
    with checks.reading(file, "summary of timm"), file.open(encoding="utf-8", newline="") as opened:
        rows = list(csv.DictReader(opened))
    if not rows:
        raise BadData(f"{file} has no epochs")
    wanted = key or "eval_top1"
    if wanted not in rows[-1]:
        raise BadData(f"{file} has no column {wanted}; it has {', '.join(map(str, rows[-1]))[:200]}")
    return rows[-1][wanted]


def _last_of_transformers(file: Path, key: str) -> Any:
    """The last evaluation's value."""
    state = read_json(file)
    history = state.get("log_history") if isinstance(state, dict) else None
    rows = [row for row in history if isinstance(row, dict)] if isinstance(history, list) else []
    wanted = key or "eval_accuracy"
    found = [row[wanted] for row in rows if wanted in row]
    if not found:
        known = sorted({name for row in rows for name in row if str(name).startswith("eval_")})
        raise BadData(f"{file} has no {wanted} in its log_history; it has {', '.join(known) or 'no evaluations'}")
    return found[-1]
