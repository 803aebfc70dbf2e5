"""Checkpoints that survive a power cut: written aside, checksummed, then moved into place whole.

A checkpoint is a folder of safetensors files and a state.json, with a SHA256SUMS that `sha256sum -c` reads. Damage is
found when a checkpoint is opened; the one before it is used then. There is one file for each group of tensors or, where
a model is divided among processes, one for each process: see `pieces.py`.
"""

from __future__ import annotations

import errno
import json
import os
import re
import shutil
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import load_file, save_file

from leanformer.foundation.records.files import flush, read_json, read_text, with_usual_mode
from leanformer.foundation.records.sums import SUMS, seal, sha256

STATE = "state.json"
Tensors = Mapping[str, torch.Tensor]
Say = Callable[[str], None]
Found = TypeVar("Found")


@dataclass(frozen=True)
class Checkpoint:
    """What was saved: tensors by group, and the rest."""

    step: int
    folder: Path
    state: Mapping[str, Any]
    shapes: Mapping[str, Mapping[str, torch.Size]]
    """Of all tensors, by group and name."""
    tensors: Mapping[str, Tensors]
    """Empty if the checkpoint was opened without them."""
    aliases: Mapping[str, Mapping[str, str]]
    """By group: names of tensors that are saved under another name, and that one."""


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
        with self.saving(step):
            aside = self.begin(step, sum(tensor.nbytes for group in tensors.values() for tensor in group.values()))
            aliases: dict[str, dict[str, str]] = {}
            for name, group in tensors.items():
                own, aliases[name] = unshared(group)
                save_file(own, aside / f"{name}.safetensors")
                with_usual_mode(aside / f"{name}.safetensors")
                flush(aside / f"{name}.safetensors")
            write_state(aside, {"aliases": aliases, **state})
            seal(aside)
            self.complete(step)
        self.prune(step, best)

    # The same in its parts, which several processes take together

    @contextmanager
    def saving(self, step: int) -> Iterator[None]:
        """Whatever keeps a checkpoint from being written is one clear error, and leaves nothing behind."""
        try:
            yield
        except (OSError, SafetensorError) as error:
            _discard(self._aside(step))
            raise OSError(self._not_saved(step, error)) from error

    def begin(self, step: int, size: int) -> Path:
        """A new folder aside, if the disk has room for so many bytes."""
        self._room_for(size)
        _discard(self._aside(step))
        self._aside(step).mkdir(parents=True)
        return self._aside(step)

    def complete(self, step: int) -> None:
        """Move a checkpoint into place, which has its checksums."""
        aside = self._aside(step)
        flush(aside / SUMS)
        flush(aside)
        _discard(self.path(step))
        os.replace(aside, self.path(step))
        flush(self.folder)

    def prune(self, step: int, best: int | None) -> None:
        """Delete what is neither recent nor the best."""
        recent = [saved for saved in self.steps() if saved <= step][-self.keep :]
        for old in self.steps():
            if old not in recent and old != best:
                self._remove(old)

    def _aside(self, step: int) -> Path:
        return self.folder / f".step-{step:08d}.part"

    def _remove(self, step: int) -> None:
        """Take a checkpoint out of sight in one move, so that a kill leaves no half of it."""
        aside = self._aside(step)
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

    def opened(self, step: int, *, whole: bool) -> Checkpoint:
        """A checkpoint whose checksums are right, with or without its tensors."""
        folder = self.path(step)
        state = read_json(folder / STATE)
        try:
            aliases, groups = state.pop("aliases"), state.pop("groups", None)
            names = {group: f"{group}.safetensors" for group in aliases}
            tensors: Mapping[str, Tensors] = {}
            if groups is not None:
                from leanformer.training import pieces  # PyTorch's modules for it take a second to import

                tensors, shapes = pieces.read(folder, groups, whole=whole)
            elif whole:
                tensors = {group: load_file(folder / name) for group, name in names.items()}
                shapes = {group: {key: one.shape for key, one in found.items()} for group, found in tensors.items()}
            else:
                shapes = {group: _shapes(folder / name) for group, name in names.items()}
            return Checkpoint(
                step,
                folder,
                state,
                {group: _with_aliases(found, aliases[group]) for group, found in shapes.items()},
                {group: _with_aliases(found, aliases[group]) for group, found in tensors.items()},
                aliases,
            )
        except (KeyError, AttributeError, TypeError) as error:
            raise ValueError(f"{STATE} has not the form of a checkpoint ({error!r})") from error

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
        self,
        say: Say = lambda message: None,
        check: Callable[[Checkpoint], None] = lambda checkpoint: None,
        *,
        whole: bool = True,
    ) -> Checkpoint | None:
        """The newest good checkpoint.

        Args:
            say: receives a message about every damaged one.
            check: raises a `ValueError` if a whole checkpoint does not belong to the run.
            whole: whether to read its tensors. Without them it takes no memory, and `pieces.load` reads parts of them.
        """
        steps = self.steps()
        for step in reversed(steps):
            try:
                _check_sums(self.path(step))
                found = self.opened(step, whole=whole)
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


def write_state(folder: Path, state: Mapping[str, Any]) -> None:
    (folder / STATE).write_text(json.dumps(state, allow_nan=False), encoding="utf-8")
    flush(folder / STATE)


def _check_sums(folder: Path) -> None:
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


def _shapes(file: Path) -> dict[str, torch.Size]:
    with safe_open(file, framework="pt") as found:
        names = list(found.keys())
        return {name: torch.Size(found.get_slice(name).get_shape()) for name in names}


def _with_aliases(group: Mapping[str, Found], aliases: Mapping[str, str]) -> dict[str, Found]:
    return {**group, **{alias: group[source] for alias, source in aliases.items()}}


def _address(tensor: torch.Tensor) -> Any:
    return tensor.data_ptr(), tensor.shape, tensor.stride(), tensor.dtype


def unshared(
    tensors: Tensors, place: Callable[[torch.Tensor], Any] = _address
) -> tuple[dict[str, torch.Tensor], dict[str, str]]:
    """Each tensor once, and the other names of those that have several, by which `place` is the same."""
    own: dict[str, torch.Tensor] = {}
    aliases: dict[str, str] = {}
    first: dict[Any, str] = {}
    for name, tensor in tensors.items():
        source = first.setdefault(place(tensor), name) if tensor.numel() else name
        if source == name:
            own[name] = tensor.detach().contiguous()
        else:
            aliases[name] = source
    return own, aliases
