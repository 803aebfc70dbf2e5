"""A command that trains one run: its placeholders, and its score in a JSON file.

No shell is involved: the command is split into words once, as a shell would split it, and placeholders are filled in
word by word. So a value with spaces or quotes in it stays one word.
"""

from __future__ import annotations

import contextlib
import json
import re
import shlex
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from leanformer import models
from leanformer.architecture import Architecture
from leanformer.experiments.own_loop.arm import OwnArm
from leanformer.experiments.own_loop.function import failed
from leanformer.experiments.own_loop.result import OwnResult
from leanformer.experiments.own_loop.returned import SCORE, BadScore, checked_score
from leanformer.foundation.arguments import ArgumentError
from leanformer.foundation.formats import duration
from leanformer.foundation.records.files import read_json
from leanformer.runners.base import Event
from leanformer.runners.children import STDERR, Ending
from leanformer.tasks.base import Metric
from leanformer.training.randomness import process_state_kept
from leanformer.training.result import RESULT, Evaluation

PLACEHOLDER = re.compile(r"\{(\{?)([A-Za-z_]\w*)\}(\}?)")
"""A name in braces; in double braces, it stands for itself in single ones."""
MODEL, SEED, FOLDER, ARM = "model", "seed", "folder", "arm"
INITIAL = "initial"
"""The folder with the fresh model, inside the run's."""
SCORE_FILE = "metrics.json"
STAGE_SIZES = ("depth", "heads", "head_dim", "mlp_dim", "width")


@dataclass(frozen=True)
class Command:
    """A command that trains one model with one seed and writes its score into a JSON file.

    >>> Command("python train.py --model {model} --seed {seed} --out {folder}", score_key="eval.accuracy")

    Placeholders are {model} (a folder with a fresh model, as `lf.save_pretrained` writes it), {seed}, {folder} (the
    run's own folder), {arm}, and the sizes of the arm: {depth}, {heads}, {head_dim}, {mlp_dim}, {width}, or whatever
    sizes the arms were given. {{word}} stands for {word} itself.
    """

    line: str | Sequence[str]
    """One text, which is split as a shell would, or the words. No shell runs it."""
    score_file: str = SCORE_FILE
    """A JSON file in the run's folder, or a path with placeholders."""
    score_key: str = SCORE
    """The score's key; "eval.accuracy" is the accuracy inside eval."""

    def __post_init__(self) -> None:
        if not self.words:
            raise ArgumentError("{command} is empty: give what trains one run")
        if not self.score_file or not self.score_key:
            raise ArgumentError("{score_file} and {score_key} must not be empty")

    @property
    def words(self) -> list[str]:
        if not isinstance(self.line, str):
            return list(map(str, self.line))
        try:
            return shlex.split(self.line)
        except ValueError as error:
            raise ArgumentError("{command} cannot be split into words: {why}", why=str(error).lower()) from error

    @property
    def name(self) -> str:
        """Of the program, for the comparison's folder."""
        scripts = [Path(word).stem for word in self.words if word.endswith((".py", ".sh"))]
        return scripts[0] if scripts else Path(self.words[0]).name

    @property
    def used(self) -> set[str]:
        """The placeholders of the command and of the score's file."""
        texts = [*self.words, self.score_file]
        return {name for text in texts for left, name, right in PLACEHOLDER.findall(text) if not (left and right)}

    def check(self, arms: Mapping[str, OwnArm]) -> None:
        """Refuse a command that could not tell runs apart, or that asks for what is not there."""
        for arm in arms.values():
            known = [MODEL] * (arm.make is not None) + [SEED, FOLDER, ARM, *sizes_of_arm(arm)]
            if unknown := sorted(self.used - set(known)):
                why = "; {model} needs a model's name or design as original" if unknown == [MODEL] else ""
                raise ValueError(
                    f"the arm {arm.name} has nothing for {{{unknown[0]}}}: a command may use "
                    f"{', '.join(f'{{{name}}}' for name in known)}{why}"
                )
        if SEED not in self.used:
            raise ArgumentError("{command} lacks {given}: every seed would train the same run", given="{seed}")
        if not PLACEHOLDER.search(self.score_file) and Path(self.score_file).is_absolute():
            raise ArgumentError(
                "{score_file} is one file for all runs ({given}): name a file in the run's folder, or use placeholders",
                given=self.score_file,
            )
        if FOLDER not in self.used and not PLACEHOLDER.search(self.score_file):
            raise ArgumentError(
                "{command} lacks {given}: the runs would write their scores into one file", given="{folder}"
            )
        if len(arms) > 1 and not self.used - {SEED, FOLDER}:
            raise ArgumentError(
                "{command} does not say which arm it trains: use {given}",
                given="{model}, {arm}, or a size such as {depth}",
            )
        program = self.words[0]
        if not PLACEHOLDER.search(program) and shutil.which(program) is None:
            raise ArgumentError("the program {program} of {command} is not found", program=program)

    def filled(self, arm: OwnArm, seed: int, folder: Path) -> tuple[list[str], Path]:
        """The words of one run's command, and the file of its score."""
        folder = folder.resolve()
        values = {
            **sizes_of_arm(arm),
            MODEL: str(folder / INITIAL),
            SEED: str(seed),
            FOLDER: str(folder),
            ARM: arm.name,
        }
        score = Path(_filled(self.score_file, values))
        own = folder if not PLACEHOLDER.search(self.score_file) else Path.cwd()
        return [_filled(word, values) for word in self.words], own / score


def _filled(text: str, values: Mapping[str, str]) -> str:
    def replaced(match: re.Match[str]) -> str:
        left, name, right = match.groups()
        if left and right:
            return f"{{{name}}}"
        return f"{left}{values[name]}{right}"

    return PLACEHOLDER.sub(replaced, text)


def sizes_of_arm(arm: OwnArm) -> dict[str, str]:
    """What stands for {depth}, {heads} and so on. A model of several stages has one number for each."""
    if arm.architecture is None:
        return {name: _text(value) for name, value in arm.sizes.items()}
    return {name: _text(_by_stage(arm.architecture, name)) for name in STAGE_SIZES}


def _by_stage(architecture: Architecture, name: str) -> Any:
    values = [getattr(stage, name) for stage in architecture.stages]
    if name == "depth":
        return values
    return values[0] if len(set(values)) == 1 else values


def _text(value: Any) -> str:
    return ",".join(map(str, value)) if isinstance(value, (list, tuple)) else str(value)


# One run


@dataclass(frozen=True)
class CommandRuns:
    """Everything that the runs of a command have in common."""

    command: Command
    arms: Mapping[str, OwnArm]
    metric: Metric
    time_limit: float | None = None
    former: dict[Path, int] = field(default_factory=dict)
    """Score files outside of the runs' folders that were there before a run, and when they were written."""

    def prepare(self, arm: str, seed: int, folder: Path) -> list[str]:
        """The words to start; the fresh model is in the run's folder, and no former score is."""
        words, score = self.command.filled(self.arms[arm], seed, folder)
        if score.is_relative_to(folder.resolve()):
            score.unlink(missing_ok=True)
        elif score.is_file():
            self.former[score] = score.stat().st_mtime_ns
        if MODEL in self.command.used:
            with process_state_kept():
                models.save_pretrained(self.arms[arm].build(seed), folder / INITIAL)
        return words

    def finish(self, arm: str, seed: int, folder: Path, ending: Ending) -> Event:
        """Read the score of a run that has ended; its result, or why there is none, is in its folder afterwards."""
        try:
            score = self._score(arm, seed, folder, ending)
        except BadScore as error:
            return failed(folder, arm, seed, str(error))
        OwnResult(
            name=arm,
            seed=seed,
            metric=self.metric.name,
            final={self.metric.name: score},
            evaluations=[Evaluation.model_validate({"step": 0, self.metric.name: score})],
            seconds=ending.seconds,
        ).write(folder / RESULT)
        shutil.rmtree(folder / INITIAL, ignore_errors=True)  # the seed makes it again
        return {"event": "done"}

    def _score(self, arm: str, seed: int, folder: Path, ending: Ending) -> float:
        if ending.timed_out:
            raise BadScore(f"took longer than {duration(self.time_limit)}{_printed(folder)}")
        if ending.code:
            raise BadScore(f"{ending}{_printed(folder)}")
        _, file = self.command.filled(self.arms[arm], seed, folder)
        if not file.is_file() or file.stat().st_mtime_ns == self.former.get(file):
            raise BadScore(f"wrote no {_near(file, folder)}{_printed(folder)}")
        try:
            written = read_json(file)
        except ValueError as error:
            raise BadScore(str(error)) from error
        return checked_score(_at(written, self.command.score_key, _near(file, folder)), _near(file, folder) + " holds")


def _printed(folder: Path) -> str:
    """The last line that a command printed to stderr, and where the rest is."""
    lines: list[str] = []
    with contextlib.suppress(OSError):
        lines = (folder / STDERR).read_text(encoding="utf-8", errors="replace").splitlines()
    last = next((line.strip() for line in reversed(lines) if line.strip()), "")
    return (f": {last[:200]}" if last else "") + f" ({folder.parent.name}/{folder.name}/{STDERR})"


def _near(file: Path, folder: Path) -> str:
    """A file as seen from the comparison's folder, if it is inside."""
    top = folder.resolve().parents[1]
    return str(file.relative_to(top)) if file.is_relative_to(top) else str(file)


def _at(written: Any, key: str, file: str) -> Any:
    """The value at a key; the parts of "eval.accuracy" lead one after the other, unless the whole is a key."""
    if isinstance(written, Mapping) and key in written:
        return written[key]
    found = written
    for part in key.split("."):
        if isinstance(found, Mapping) and part in found:
            found = found[part]
        elif isinstance(found, list) and re.fullmatch(r"-?\d{1,9}", part) and -len(found) <= int(part) < len(found):
            found = found[int(part)]
        else:
            has = ", ".join(map(str, list(found)[:8])) if isinstance(found, Mapping) else json.dumps(found)[:60]
            raise BadScore(f"{file} has no {key!r}: there is {has or 'nothing'}")
    return found
