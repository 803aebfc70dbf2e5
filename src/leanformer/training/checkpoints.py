"""Checkpoints that survive a power cut: written aside, checksummed, then moved into place whole.

A checkpoint is a folder of safetensors files and a state.json, with a SHA256SUMS that `sha256sum -c` reads. Damage is
found when a checkpoint is opened; the one before it is used then.
"""

from __future__ import annotations

import errno
import json
import os
import re
import shutil
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file

from leanformer.foundation.records.files import flush, read_json, read_text, with_usual_mode
from leanformer.foundation.records.sums import SUMS, seal, sha256

STATE = "state.json"
Tensors = Mapping[str, torch.Tensor]
Say = Callable[[str], None]


@dataclass(frozen=True)
class Checkpoint:
    """What was saved: tensors by file, and the rest."""

    step: int
    tensors: Mapping[str, Tensors]
    state: Mapping[str, Any]


class Checkpoints:
    """The checkpoints of one run: the last few and the best."""

    def __init__(self, folder: Path, keep: int = 2) -> None:
        if keep < 1:
            raise ValueError(f"keep must be at least 1 checkpoint, got {keep}")
        self.folder, self.keep = folder, keep

    def steps(self) -> list[int]:
        """Steps that were saved, oldest first, good or not."""
        found = (re.fullmatch(r"step-(\d{8,})", path.name) for path in self.folder.glob("step-*"))
        return sorted(int(match[1]) for match in found if match)

    def path(self, step: int) -> Path:
        return self.folder / f"step-{step:08d}"

    def save(self, step: int, tensors: Mapping[str, Tensors], state: Mapping[str, Any], best: int | None) -> None:
        """Write aside, flush to the disk, move into place; then delete what is neither recent nor the best.

        Those of later steps are damaged: the run has resumed from one before them.
        """
        aside = self.folder / f".step-{step:08d}.part"
        try:
            self._room_for(sum(tensor.nbytes for group in tensors.values() for tensor in group.values()))
            _discard(aside)
            aside.mkdir(parents=True)
            _write(aside, tensors, state)
            _discard(self.path(step))
            os.replace(aside, self.path(step))
            flush(self.folder)
        except (OSError, SafetensorError) as error:
            _discard(aside)
            raise OSError(self._not_saved(step, error)) from error
        recent = [saved for saved in self.steps() if saved <= step][-self.keep :]
        for old in self.steps():
            if old not in recent and old != best:
                self._remove(old)

    def _remove(self, step: int) -> None:
        """Take a checkpoint out of sight in one move, so that a kill leaves no half of it."""
        aside = self.folder / f".step-{step:08d}.part"
        _discard(aside)
        os.replace(self.path(step), aside)
        _discard(aside)

    def keep_only(self, step: int) -> None:
        """Remove all checkpoints but one, if that one is there."""
        if step in self.steps():
            for other in self.steps():
                if other != step:
                    self._remove(other)

    def tidy(self) -> None:
        """Remove what a kill left behind: half-written and half-removed checkpoints."""
        for left in self.folder.glob(".step-*.part"):
            _discard(left)

    def _room_for(self, size: int) -> None:
        self.folder.mkdir(parents=True, exist_ok=True)
        if size > (free := shutil.disk_usage(self.folder).free):
            raise OSError(errno.ENOSPC, f"the disk has {free / 1e6:,.0f} MB free, {size / 1e6:,.0f} MB are needed")

    def _not_saved(self, step: int, error: Exception) -> str:
        reason = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
        kept = f"the checkpoint of step {self.steps()[-1]} is intact" if self.steps() else "nothing was saved before"
        return (
            f"step {step} could not be saved in {self.folder}: {reason}. {kept[0].upper()}{kept[1:]}; "
            f"free some space, then repeat the command: it resumes from there"
        )

    def latest(
        self, say: Say = lambda message: None, check: Callable[[Checkpoint], None] = lambda checkpoint: None
    ) -> Checkpoint | None:
        """The newest good checkpoint.

        Args:
            say: receives a message about every damaged one.
            check: raises a `ValueError` if a whole checkpoint does not belong to the run.
        """
        steps = self.steps()
        for step in reversed(steps):
            try:
                found = _read(self.path(step), step)
                check(found)
                return found
            except (ValueError, OSError, SafetensorError) as error:
                instead = (
                    "using the checkpoint before it"
                    if step != steps[0]
                    else "there is none before it, so the run starts again"
                )
                say(f"{self.path(step)} is damaged ({error}): {instead}")
        return None


def _discard(path: Path) -> None:
    """Remove a checkpoint, or whatever lies in its place."""
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path, ignore_errors=True)
    else:
        path.unlink(missing_ok=True)


def _write(folder: Path, tensors: Mapping[str, Tensors], state: Mapping[str, Any]) -> None:
    aliases: dict[str, dict[str, str]] = {}
    for name, group in tensors.items():
        own, aliases[name] = _unshared(group)
        save_file(own, folder / f"{name}.safetensors")
        with_usual_mode(folder / f"{name}.safetensors")
    text = json.dumps({"aliases": aliases, **state}, allow_nan=False)
    (folder / STATE).write_text(text, encoding="utf-8")
    files = sorted(folder.iterdir())
    seal(folder)
    for path in (*files, folder / SUMS, folder):
        flush(path)


def _read(folder: Path, step: int) -> Checkpoint:
    try:
        text = read_text(folder / SUMS)
    except ValueError as error:  # also where it is not UTF-8
        raise ValueError(f"{SUMS} cannot be read") from error
    sums = {name: digest for digest, _, name in (line.partition("  ") for line in text.splitlines())}
    if STATE not in sums or not text.endswith("\n"):
        raise ValueError(f"{SUMS} is cut off")
    for name, digest in sums.items():
        if not (folder / name).is_file():
            raise ValueError(f"{name} is missing")
        if sha256(folder / name) != digest:
            raise ValueError(f"{name} does not match its checksum")
    state = read_json(folder / STATE)
    tensors = {}
    try:
        for name, aliases in state.pop("aliases").items():
            group = load_file(folder / f"{name}.safetensors")
            tensors[name] = group | {alias: group[source] for alias, source in aliases.items()}
    except (KeyError, AttributeError, TypeError) as error:
        raise ValueError(f"{STATE} has not the form of a checkpoint ({error!r})") from error
    return Checkpoint(step, tensors, state)


def _unshared(tensors: Tensors) -> tuple[dict[str, torch.Tensor], dict[str, str]]:
    """Each tensor once, and the other names of those that have several."""
    own: dict[str, torch.Tensor] = {}
    aliases: dict[str, str] = {}
    first: dict[tuple[Any, ...], str] = {}
    for name, tensor in tensors.items():
        place = (tensor.data_ptr(), tensor.shape, tensor.stride(), tensor.dtype)
        source = first.setdefault(place, name) if tensor.numel() else name
        if source == name:
            own[name] = tensor.detach().contiguous()
        else:
            aliases[name] = source
    return own, aliases
