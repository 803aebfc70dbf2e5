"""Save and load any model of any family: safetensors beside a config that holds the architecture.

Language models use their own `save_pretrained`. Image models get a folder of the same form, which timm reads too.
"""

from __future__ import annotations

import contextlib
import warnings
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal, cast

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import load_file, save_file
from torch import Tensor, nn

from leanformer.architecture import Architecture
from leanformer.foundation.records.files import read_json, with_usual_mode, write_json
from leanformer.foundation.records.sums import check_seal, sha256, unseal
from leanformer.models import families
from leanformer.models import preprocessing as preparing
from leanformer.models.cards import write_card
from leanformer.models.loading import Checkpoint, Loaded, fill
from leanformer.models.old_configs import with_type
from leanformer.models.preprocessing import CLASSES, class_fields
from leanformer.models.registration import SAVED, register
from leanformer.models.standalone import write_code


def save_pretrained(
    model: nn.Module, folder: str | Path, preprocessing: Mapping[str, Any] | None = None, *, code: bool = False
) -> None:
    """Write config.json and model.safetensors, for `from_pretrained`, `load_weights`, timm and the Auto classes.

    A README.md beside them says how to load the model; one that is there already stays.

    Args:
        model: the model to save.
        folder: where to; it is made if it does not exist.
        preprocessing: how inputs must be prepared, and the names of the classes, in timm's words and on its scale of 0
            to 1: input_size, mean, std, interpolation, crop_pct, crop_mode and label_names. What is left out is taken
            from the model. For image models it is written into config.json, where timm's `resolve_model_data_config`
            finds it. In a config of transformers, the names are `id2label`; the rest is written into
            preprocessing.json beside it.
        code: also write the model's code, so that the Auto classes of transformers read the folder without leanformer,
            with `trust_remote_code=True`.
    """
    folder, given = Path(folder), preparing.checked(model, preprocessing or {})
    try:
        folder.mkdir(parents=True, exist_ok=True)
        unseal(folder)
    except (OSError, ValueError) as error:  # ValueError: the name holds a null character
        raise ValueError(f"{folder} cannot be written to: {getattr(error, 'strerror', None) or error}") from error
    auto_map = write_code(model, folder) if code else {}
    if hasattr(model, "save_pretrained"):
        _save_for_transformers(model, folder, given, auto_map)
    else:
        _save_for_timm(model, folder, given)
    for file in folder.glob("model*.safetensors"):
        with_usual_mode(file)
    write_card(model, folder, with_code=bool(auto_map))


def _save_for_transformers(
    model: nn.Module, folder: Path, given: Mapping[str, Any], auto_map: Mapping[str, str]
) -> None:
    cast(Any, model).save_pretrained(folder)
    config = read_json(folder / "config.json")
    config.pop("auto_map", None)  # of a folder with code, from which this model was read
    if CLASSES in given:
        config |= class_fields(given[CLASSES])
    write_json(folder / "config.json", config | ({"auto_map": dict(auto_map)} if auto_map else {}))
    if rest := {key: value for key, value in given.items() if key != CLASSES}:  # the config has no place for it
        write_json(folder / "preprocessing.json", rest)


def _save_for_timm(model: nn.Module, folder: Path, given: Mapping[str, Any]) -> None:
    architecture = families.describe(model)
    _check_rebuilt(model, architecture)
    config = {
        "architecture": SAVED,
        "model_args": {"description": architecture.to_dict()},
        "num_classes": getattr(model, "num_classes", None),
        "pretrained_cfg": preparing.for_timm(model, architecture, given),
    }
    write_json(folder / "config.json", config)
    tensors = {name: tensor.contiguous() for name, tensor in model.state_dict().items()}
    # One entry only: safetensors writes several in any order, and equal models should give equal files.
    save_file(tensors, folder / "model.safetensors", metadata={"architecture": architecture.to_json()})


def _check_rebuilt(model: nn.Module, architecture: Architecture) -> None:
    """A model that timm made does not say all of its options: one that its description does not give is refused."""
    again = {name: tensor.shape for name, tensor in families.build(architecture, device="meta").state_dict().items()}
    here = {name: tensor.shape for name, tensor in model.state_dict().items()}
    if different := [name for name in here | again if here.get(name) != again.get(name)]:
        raise ValueError(
            f"this {type(model).__name__} cannot be saved: it has options that it does not state, by which "
            f"{', '.join(different[:3])} differ; make it by lf.create, which remembers options, and load its weights"
        )


def from_pretrained(folder: str | Path, device: torch.device | str = "cpu") -> nn.Module:
    """The model that `save_pretrained` wrote, or transformers or llama.cpp (a .gguf file), in evaluation mode."""
    folder = saved_in(Path(folder))
    config = _read_config(folder)
    if "model_type" in config:
        from leanformer.models.huggingface.folders import model_from

        register()
        try:
            return model_from(folder).to(device).eval()
        except (SafetensorError, OSError) as error:
            raise ValueError(f"the weights in {folder} cannot be read: {' '.join(str(error).split())}") from error
    model = families.build(read_folder(folder), device)
    load_whole(model, folder)
    preparing.set_preprocessing(model, config.get("pretrained_cfg") or {})
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
        from leanformer.models.huggingface.folders import empty_model_from

        register()
        return families.describe(empty_model_from(folder))
    raise ValueError(f"{folder / 'config.json'} describes no model that leanformer knows")


def load_weights(model: nn.Module, source: str | Path) -> Loaded:
    """Load a checkpoint into a model, whatever its head; or raise a `ValueError` that says which part does not fit.

    >>> lf.load_weights(classifier, "bert-base-uncased.safetensors")
    bert-base-uncased.safetensors: 199 tensors loaded; left out: cls.predictions; newly drawn: classifier

    Names may lack or carry the prefix of a base model (`bert.`, `transformer.`, `model.`) and those of wrappers
    (`module.`, `_orig_mod.`). All layers and embeddings must fit. The head is loaded if it fits; otherwise the
    model keeps its newly initialised head, and a warning says so.

    Args:
        model: the model to load into.
        source: a folder or a file; safetensors, or PyTorch's own format, which is read without running any code in it.
    """
    loaded = fill(model, _read_checkpoint(saved_in(Path(source))), heads="optional")
    if loaded.new:
        warnings.warn(str(loaded), stacklevel=2)
    return loaded


def load_whole(model: nn.Module, source: str | Path) -> Loaded:
    """Load a checkpoint that must fit in everything, the head included."""
    return fill(model, _read_checkpoint(Path(source)), heads="required")


def load_start(model: nn.Module, source: str | Path, part: Literal["encoder", "all"]) -> Loaded:
    """Load what a training begins with: all of another model of the same layers but its head, or its head too."""
    path = saved_in(Path(source))
    read = _read_gguf(path) if path.suffix == ".gguf" else _read_checkpoint(path)
    return fill(model, read, heads="ignored" if part == "encoder" else "optional")


def load_adapted(model: nn.Module, source: str | Path, saved: Architecture) -> Loaded:
    """Load the checkpoint of a saved image model into one for other images; see `TimmFamily.adapted`."""
    checkpoint, family = _read_checkpoint(Path(source)), cast(Any, families.of(model))
    adapted = replace(checkpoint, tensors=family.adapted(model, saved, checkpoint.tensors))
    return fill(model, adapted, heads="required")


# Reading


def _read_checkpoint(source: Path) -> Checkpoint:
    if source.is_dir():
        files = sorted(source.glob("*.safetensors")) or sorted(source.glob("pytorch_model*.bin"))
        if not files:
            raise ValueError(f"{source} holds no .safetensors file")
        read = {".safetensors": _load, ".bin": _load_pickled}
        tensors = {name: tensor for file in files for name, tensor in read[file.suffix](file).items()}
        return Checkpoint(source, tensors, _described(source))
    if not source.is_file():
        raise ValueError(f"there is no checkpoint at {source}")
    if source.suffix == ".safetensors":
        tensors = _load(source)
        with safe_open(source, framework="pt") as file:
            described = (file.metadata() or {}).get("architecture")
        return Checkpoint(source, tensors, Architecture.from_json(described) if described else None)
    return Checkpoint(source, _load_pickled(source), None)


def _read_gguf(path: Path) -> Checkpoint:
    model = from_pretrained(path)
    return Checkpoint(path, dict(model.state_dict()), families.describe(model))


def _described(folder: Path) -> Architecture | None:
    """The architecture that a folder states; None if it states none, or that of a model that no family knows."""
    if not (folder / "config.json").is_file():
        return None
    _read_config(folder)  # what is damaged is refused
    with contextlib.suppress(ValueError):
        return read_folder(folder)
    return None


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
    return state


def is_saved(name: str | Path) -> bool:
    """Whether a name is the path of a saved model: a folder, or a file of llama.cpp's."""
    path = Path(name)
    return path.is_dir() or (path.suffix == ".gguf" and path.is_file())


def has_tokenizer(saved: Path) -> bool:
    """Whether a saved model brings its tokenizer."""
    files = ("tokenizer.json", "vocab.txt", "vocab.json")
    return saved.suffix == ".gguf" or any((saved / name).is_file() for name in files)


def saved_in(folder: Path) -> Path:
    """The model itself: a training run holds it one level down, and some folders hold a .gguf file and no more."""
    if (folder / "run.json").is_file() and (folder / "model").is_dir():
        return folder / "model"
    files = [] if (folder / "config.json").is_file() else sorted(folder.glob("*.gguf"))
    return files[0] if len(files) == 1 else folder


def _models_inside(folder: Path) -> str:
    """Where the models of a comparison are, for a message."""
    first = next(iter(sorted(folder.glob("*/seed-*/model/config.json"))), None)
    return "" if first is None else f"; its runs have models, such as {first.parent.parent}"


def _read_config(folder: Path) -> dict[str, Any]:
    if folder.suffix == ".gguf" and folder.is_file():
        return {"model_type": "gguf"}  # the file says the rest
    path = folder / "config.json"
    if not path.is_file():
        raise ValueError(f"{folder} is not a saved model: it holds no config.json{_models_inside(folder)}")
    _check_sums(folder)
    config = read_json(path)
    if not isinstance(config, dict):
        raise ValueError(f"{path} is damaged: it holds no JSON object")
    return with_type(config) if "architecture" not in config else config


def _check_sums(folder: Path) -> None:
    """The files are what they were when they were saved; beside the result of a run, they are that run's."""
    sums, result = check_seal(folder), folder.parent / "result.json"
    for name, digest in _stated_in(result).items() if folder.name == "model" else ():
        path = folder / Path(name).name
        if not path.is_file() or (sums.get(name) or sha256(path)) != digest:
            raise ValueError(
                f"{path} is not what {result} says it was: put that run's model back, or delete {result.name} and "
                f"train {folder.parent} again, which makes both from the last checkpoint"
            )


def _stated_in(result: Path) -> dict[str, str]:
    """The checksums of its model that a run's result states; none if it is of 0.1 or damaged."""
    try:
        stated = read_json(result).get("model_sums") if result.is_file() else None
    except (ValueError, AttributeError):
        return {}
    return stated if isinstance(stated, dict) else {}
