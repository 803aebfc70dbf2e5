"""Save and load any model of any family: safetensors beside a config that holds the architecture.

Language models use their own `save_pretrained`. Image models get a folder of the same form, which timm reads too.
"""

from __future__ import annotations

from collections.abc import Mapping, Set
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import load_file, save_file
from torch import Tensor, nn

from leanformer.architecture import Architecture
from leanformer.foundation.records.files import read_json, write_json
from leanformer.foundation.records.sums import check_seal, unseal
from leanformer.models import families
from leanformer.models.registration import SAVED, register

MOST_TENSORS = 6
"""How many tensors that do not fit an error names."""


PREPROCESSING = ("input_size", "mean", "std", "interpolation", "crop_pct", "crop_mode", "label_names")
"""What timm's `pretrained_cfg` says about the images that a model expects."""


def save_pretrained(model: nn.Module, folder: str | Path, preprocessing: Mapping[str, Any] | None = None) -> None:
    """Write config.json and model.safetensors, for `from_pretrained`, `load_weights`, timm and the Auto classes.

    Args:
        model: the model to save.
        folder: where to; it is made if it does not exist.
        preprocessing: for image models, how images must be prepared, in timm's words and on its scale of 0 to 1:
            input_size, mean, std, interpolation, crop_pct, crop_mode and label_names. What is left out is taken from
            the model. It is written into config.json, where timm's `resolve_model_data_config` finds it. Beside a model
            of transformers it is written into preprocessing.json.
    """
    folder, given = Path(folder), dict(preprocessing or {})
    if unknown := given.keys() - set(PREPROCESSING):
        raise ValueError(f"preprocessing has no {', '.join(sorted(unknown))}; it has {', '.join(PREPROCESSING)}")
    unseal(folder)
    if hasattr(model, "save_pretrained"):
        cast(Any, model).save_pretrained(folder)
        if given:  # transformers' config has no place for it
            write_json(folder / "preprocessing.json", given)
        return
    architecture = families.describe(model)
    folder.mkdir(parents=True, exist_ok=True)
    config = {
        "architecture": SAVED,
        "model_args": {"description": architecture.to_dict()},
        "num_classes": getattr(model, "num_classes", None),
        "pretrained_cfg": _preprocessing(model, architecture, given),
    }
    write_json(folder / "config.json", config)
    tensors = {name: tensor.contiguous() for name, tensor in model.state_dict().items()}
    # One entry only: safetensors writes several in any order, and equal models should give equal files.
    save_file(tensors, folder / "model.safetensors", metadata={"architecture": architecture.to_json()})


def _preprocessing(model: nn.Module, architecture: Architecture, given: Mapping[str, Any]) -> dict[str, Any]:
    """What is given, and else what the model says; the size of its images is known in any case."""
    stated = {key: (getattr(model, "pretrained_cfg", None) or {}).get(key) for key in PREPROCESSING}
    if (size := families.family(architecture.family).image_size(architecture)) is not None:
        stated["input_size"] = size
    stated = {key: list(value) if isinstance(value, tuple) else value for key, value in {**stated, **given}.items()}
    for key in ("mean", "std"):
        numbers, size = stated[key], stated["input_size"]
        if numbers and size and len(numbers) != size[0]:
            if key in given:
                raise ValueError(f"preprocessing: {key} needs one number per channel ({size[0]}), got {numbers}")
            stated[key] = None  # upstream's, of images in colour
    return {key: value for key, value in stated.items() if value is not None}


def set_preprocessing(model: nn.Module, stated: Mapping[str, Any]) -> None:
    """Let a model say what a saved folder says about its images, where timm looks for it."""
    found = {key: stated[key] for key in PREPROCESSING if stated.get(key) is not None}
    if found:
        usual = getattr(model, "pretrained_cfg", None) or {}
        for_tests = dict.fromkeys(("test_input_size", "test_crop_pct"))  # another size, which is upstream's
        cast(Any, model).pretrained_cfg = cast(Any, model).default_cfg = {**usual, **for_tests, **found}


def from_pretrained(folder: str | Path, device: torch.device | str = "cpu") -> nn.Module:
    """The model that `save_pretrained` wrote, in evaluation mode."""
    folder = saved_in(Path(folder))
    config = _read_config(folder)
    if "model_type" in config:
        from leanformer.models.huggingface.base import model_from_folder

        register()
        try:
            return model_from_folder(folder).to(device).eval()
        except (SafetensorError, OSError) as error:
            raise ValueError(f"the weights in {folder} cannot be read: {' '.join(str(error).split())}") from error
    model = families.build(read_folder(folder), device)
    load_weights(model, folder)
    set_preprocessing(model, config.get("pretrained_cfg") or {})
    return model.eval()


def read_folder(folder: Path) -> Architecture:
    """The architecture of a saved folder: ours, or Hugging Face's own of a family we know."""
    folder = saved_in(folder)
    config = _read_config(folder)
    if isinstance(config.get("architecture"), dict):
        return Architecture.from_dict(config["architecture"])
    if "description" in config.get("model_args", {}):
        return Architecture.from_dict(config["model_args"]["description"])
    if "model_type" in config:
        from leanformer.models.huggingface.base import empty_model_from_folder

        register()
        return families.describe(empty_model_from_folder(folder))
    raise ValueError(f"{folder / 'config.json'} describes no model that leanformer knows")


def load_weights(model: nn.Module, source: str | Path) -> None:
    """Load a checkpoint into a model, or raise a `ValueError` that says which stage does not fit.

    Args:
        model: the model to load into.
        source: a folder or a file; safetensors, or PyTorch's own format, which is read without running any code in it.
    """
    checkpoint = _read_checkpoint(Path(source))
    tied = set(getattr(model, "all_tied_weights_keys", {}))
    wanted = dict(model.state_dict())
    misfit = _Misfit.between(wanted, checkpoint.tensors, optional=tied)
    if misfit:
        raise ValueError(_explain(model, checkpoint, misfit))
    model.load_state_dict(checkpoint.tensors, strict=False)
    if hasattr(model, "tie_weights"):
        cast(Any, model).tie_weights()


def load_encoder(model: nn.Module, source: str | Path) -> None:
    """Load all of a model except its head from another model of the same layers, such as a pre-trained one."""
    checkpoint = _read_checkpoint(saved_in(Path(source)))
    prefix = f"{getattr(model, 'base_model_prefix', '')}."
    wanted = {name: tensor for name, tensor in model.state_dict().items() if name.startswith(prefix)}
    if prefix == "." or not wanted:
        raise ValueError(f"a {type(model).__name__} has no encoder that could be loaded apart from its head")
    tensors = {name: checkpoint.tensors[name] for name in wanted if name in checkpoint.tensors}
    if misfit := _Misfit.between(wanted, tensors):
        raise ValueError(_explain(model, checkpoint, misfit))
    model.load_state_dict(tensors, strict=False)


# What does not fit


@dataclass(frozen=True)
class _Checkpoint:
    source: Path
    tensors: dict[str, Tensor]
    architecture: Architecture | None
    """Of the model that was saved, where the checkpoint says it."""


@dataclass(frozen=True)
class _Misfit:
    """Tensors that keep a checkpoint out of a model, each with what is wrong with it."""

    tensors: dict[str, str]

    def __bool__(self) -> bool:
        return bool(self.tensors)

    @classmethod
    def between(cls, wanted: dict[str, Tensor], found: dict[str, Tensor], optional: Set[str] = frozenset()) -> _Misfit:
        """
        Args:
            wanted: the model's tensors.
            found: the checkpoint's.
            optional: names that the checkpoint need not have.
        """
        shapes = {
            name: f"{tuple(wanted[name].shape)} in the model, {tuple(found[name].shape)} in the checkpoint"
            for name in sorted(wanted.keys() & found.keys())
            if wanted[name].shape != found[name].shape
        }
        missing = dict.fromkeys(sorted(wanted.keys() - found.keys() - optional), "in the model only")
        unknown = dict.fromkeys(sorted(found.keys() - wanted.keys()), "in the checkpoint only")
        return cls({**shapes, **missing, **unknown})


def _explain(model: nn.Module, checkpoint: _Checkpoint, misfit: _Misfit) -> str:
    """Why a checkpoint does not fit: the stages that differ if both are known, else the first tensors that do."""
    head = f"{checkpoint.source} does not fit this model:"
    try:
        ours = families.describe(model)
    except ValueError:  # of no known family: there are only tensors to name
        return f"{head}\n  {len(misfit.tensors)} tensors differ, such as {', '.join([*misfit.tensors][:5])}"
    if checkpoint.architecture is not None:
        differences = ours.differences(checkpoint.architecture, "in the model", "in the checkpoint")
        if differences:
            return "\n  ".join([head, *differences])
    stages = {block.path.rpartition(".")[0]: block.stage + 1 for block in families.attention_blocks(model)}

    def place(name: str) -> str:
        stage = next((stage for prefix, stage in stages.items() if name.startswith(f"{prefix}.")), None)
        return f"stage {stage}, {name}" if stage else name

    shown = [f"{place(name)}: {reason}" for name, reason in [*misfit.tensors.items()][:MOST_TENSORS]]
    more = len(misfit.tensors) - len(shown)
    rest = [f"and {more} more tensors"] if more else []
    return "\n  ".join([head, *shown, *rest, f"the model is {ours}"])


# Reading


def _read_checkpoint(source: Path) -> _Checkpoint:
    if source.is_dir():
        files = sorted(source.glob("*.safetensors"))
        if not files:
            raise ValueError(f"{source} holds no .safetensors file")
        tensors = {name: tensor for file in files for name, tensor in _load(file).items()}
        return _Checkpoint(source, tensors, read_folder(source) if (source / "config.json").is_file() else None)
    if not source.is_file():
        raise ValueError(f"there is no checkpoint at {source}")
    if source.suffix == ".safetensors":
        tensors = _load(source)
        with safe_open(source, framework="pt") as file:
            described = (file.metadata() or {}).get("architecture")
        return _Checkpoint(source, tensors, Architecture.from_json(described) if described else None)
    return _Checkpoint(source, _load_pickled(source), None)


def _load(file: Path) -> dict[str, Tensor]:
    try:
        return load_file(file)
    except (SafetensorError, OSError) as error:
        raise ValueError(f"{file} is not a safetensors file: {error}") from error


def _load_pickled(source: Path) -> dict[str, Tensor]:
    try:
        state = torch.load(source, map_location="cpu", weights_only=True)
    except Exception as error:  # what the unpickler stumbles over first decides which of a dozen kinds it is
        reason = (str(error).splitlines() or [type(error).__name__])[0]
        raise ValueError(f"{source} is not a checkpoint that loads with weights_only: {reason}") from error
    for key in ("state_dict", "model", "model_state_dict"):
        if isinstance(state, dict) and isinstance(state.get(key), dict):
            state = state[key]
    if not isinstance(state, dict) or not all(isinstance(tensor, Tensor) for tensor in state.values()):
        raise ValueError(f"{source} holds no state dict of tensors")
    return {name.removeprefix("module."): tensor for name, tensor in state.items()}


def saved_in(folder: Path) -> Path:
    """The folder of the model itself: that of a training run holds it one level down."""
    return folder / "model" if (folder / "run.json").is_file() and (folder / "model").is_dir() else folder


def _read_config(folder: Path) -> dict[str, Any]:
    path = folder / "config.json"
    if not path.is_file():
        raise ValueError(f"{folder} is not a saved model: it holds no config.json")
    check_seal(folder)
    config = read_json(path)
    if not isinstance(config, dict):
        raise ValueError(f"{path} is damaged: it holds no JSON object")
    return config
