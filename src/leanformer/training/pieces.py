"""Tensors that are divided among processes, in files: every process writes its own piece, any number of them reads.

This is PyTorch's distributed checkpoint (DCP) with its safetensors storage: one file for each process, whose header
says which part of every tensor it holds. DCP's usual storage is not used, since its index is a pickle, which could run
code when a checkpoint of somebody else is opened.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, cast

import torch
from safetensors import SafetensorError
from torch import Tensor
from torch.distributed.checkpoint import state_dict_loader, state_dict_saver
from torch.distributed.checkpoint.api import CheckpointException
from torch.distributed.checkpoint.hf_storage import HuggingFaceStorageReader, HuggingFaceStorageWriter
from torch.distributed.checkpoint.metadata import TensorStorageMetadata

from leanformer.foundation.records.files import flush, with_usual_mode
from leanformer.foundation.records.sums import sha256

Groups = Mapping[str, Mapping[str, Tensor]]
PIECE = "shard-{:05d}-"
"""What the file of a process begins with; DCP counts from 1."""


def write(folder: Path, tensors: Mapping[str, Tensor]) -> None:
    """Write this process's piece. All processes must take part; an error of one is an `OSError` on all of them."""
    _collectively(
        lambda: state_dict_saver.save(
            dict(tensors), storage_writer=HuggingFaceStorageWriter(str(folder), save_distributed=True)
        )
    )


def sums_of(folder: Path, index: int) -> dict[str, str]:
    """Put a process's file onto the disk; returns its checksum by name."""
    files = sorted(folder.glob(f"{PIECE.format(index + 1)}*.safetensors"))
    for file in files:
        with_usual_mode(file)
        flush(file)
    return {file.name: sha256(file) for file in files}


def load(folder: Path, into: Mapping[str, Tensor]) -> None:
    """Fill tensors, each process its part of them, from a checkpoint of any number of processes."""
    _collectively(lambda: state_dict_loader.load(dict(into), storage_reader=HuggingFaceStorageReader(str(folder))))


def read(
    folder: Path, groups: Mapping[str, Any], *, whole: bool
) -> tuple[Groups, Mapping[str, Mapping[str, torch.Size]]]:
    """The tensors of a divided checkpoint, put together, and their shapes; by group, whose names are given."""
    found = cast(
        dict[str, TensorStorageMetadata], HuggingFaceStorageReader(str(folder)).read_metadata().state_dict_metadata
    )
    for name, described in found.items():
        if sum(chunk.sizes.numel() for chunk in described.chunks) != described.size.numel():
            raise ValueError(f"its pieces do not make up {name}")
    shapes = {group: {name: found[name].size for name in names} for group, names in groups.items()}
    if not whole:
        return {}, shapes
    into = {name: torch.empty(described.size, dtype=described.properties.dtype) for name, described in found.items()}
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="torch.distributed is disabled")
        reader = HuggingFaceStorageReader(str(folder))
        _collectively(lambda: state_dict_loader.load(dict(into), storage_reader=reader, no_dist=True))
    return {group: {name: into[name] for name in names} for group, names in groups.items()}, shapes


def _collectively(act: Callable[[], object]) -> None:
    """Do something with DCP, whose errors are no `Exception` and hold a traceback of every process."""
    try:
        act()
    except CheckpointException as error:
        reason = next(iter(error.failures.values()))[0]
        if isinstance(reason, (OSError, SafetensorError)):
            raise OSError(getattr(reason, "strerror", None) or str(reason)) from error
        raise ValueError(f"{type(reason).__name__}: {reason}") from error
