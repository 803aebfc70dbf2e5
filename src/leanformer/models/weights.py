"""Save and load any model of any family: safetensors beside a config that says the architecture.

Language models use their own `save_pretrained`; image models get a folder of the same form that timm reads too. May
import families.
"""

import json
import pickle
from collections.abc import Mapping
from pathlib import Path
from typing import Any, cast

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import load_file, save_file
from torch import nn

from leanformer.architecture import Architecture
from leanformer.models import registry as families

TIMM_NAME = "lean_saved"
"""The entry point in timm's registry that reads such a folder back."""


def save_pretrained(model: nn.Module, folder: str | Path) -> None:
    """Write config.json and model.safetensors; read them with `from_pretrained`, `load_weights`, timm or the Auto
    classes.
    """
    folder = Path(folder)
    if hasattr(model, "save_pretrained"):
        cast(Any, model).save_pretrained(folder)
        return
    architecture = families.describe(model)
    folder.mkdir(parents=True, exist_ok=True)
    config = {
        "architecture": TIMM_NAME,
        "model_args": {"description": architecture.to_dict()},
        "num_classes": getattr(model, "num_classes", None),
        "pretrained_cfg": {
            key: _plain(model, key) for key in ("input_size", "mean", "std", "interpolation", "crop_pct")
        },
    }
    (folder / "config.json").write_text(json.dumps(config, indent=2) + "\n", encoding="utf-8")
    tensors = {name: tensor.contiguous() for name, tensor in model.state_dict().items()}
    # One entry only: safetensors writes several in any order, and equal models should give equal files.
    save_file(tensors, folder / "model.safetensors", metadata={"architecture": architecture.to_json()})


def _plain(model: nn.Module, key: str) -> Any:
    return getattr(model, "pretrained_cfg", {}).get(key)  # type: ignore[union-attr]


def from_pretrained(folder: str | Path, device: torch.device | str = "cpu") -> nn.Module:
    """The model that `save_pretrained` wrote, in evaluation mode."""
    folder = saved_in(Path(folder))
    config = _read_config(folder)
    if "model_type" in config:
        from leanformer.models.huggingface.base import model_from_folder

        families.register()
        return model_from_folder(folder).to(device).eval()
    model = families.build(read_folder(folder), device)
    load_weights(model, folder)
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

        families.register()
        return families.describe(empty_model_from_folder(folder))
    raise ValueError(f"{folder / 'config.json'} describes no model that leanformer knows")


def load_weights(model: nn.Module, source: str | Path) -> None:
    """Load a checkpoint into a model, or raise a `ValueError` that says which stage does not fit.

    source: a folder or a file; safetensors, or PyTorch's own format read without running any code in it.
    """
    source = Path(source)
    tensors, saved = _read_tensors(source)
    wanted = model.state_dict()
    tied = set(getattr(model, "all_tied_weights_keys", {}))
    wrong = [name for name in wanted.keys() & tensors.keys() if wanted[name].shape != tensors[name].shape]
    missing = [name for name in wanted.keys() - tensors.keys() if name not in tied]
    unknown = list(tensors.keys() - wanted.keys())
    if wrong or missing or unknown:
        raise ValueError(_explain(model, source, saved, tensors, sorted(wrong), sorted(missing), sorted(unknown)))
    model.load_state_dict(tensors, strict=False)
    if hasattr(model, "tie_weights"):
        cast(Any, model).tie_weights()


def load_encoder(model: nn.Module, source: str | Path) -> None:
    """Load all of a model but its head from another of the same layers, such as a pre-trained one."""
    place = saved_in(Path(source))
    tensors, saved = _read_tensors(place)
    prefix = f"{getattr(model, 'base_model_prefix', '')}."
    wanted = {name: tensor for name, tensor in model.state_dict().items() if name.startswith(prefix)}
    if prefix == "." or not wanted:
        raise ValueError(f"a {type(model).__name__} has no encoder that could be loaded apart from its head")
    wrong = [name for name in wanted if name in tensors and tensors[name].shape != wanted[name].shape]
    missing = [name for name in wanted if name not in tensors]
    if wrong or missing:
        raise ValueError(_explain(model, place, saved, tensors, sorted(wrong), sorted(missing), []))
    model.load_state_dict({name: tensors[name] for name in wanted}, strict=False)


def _explain(
    model: nn.Module,
    source: Path,
    saved: Architecture | None,
    tensors: Mapping[str, torch.Tensor],
    wrong: list[str],
    missing: list[str],
    unknown: list[str],
) -> str:
    lines = [f"{source} does not fit this model:"]
    try:
        ours = families.describe(model)
    except ValueError:  # of no known family: the tensors must speak for themselves
        tensors_off = [*wrong, *missing, *unknown]
        return "\n".join([*lines, f"  {len(tensors_off)} tensors differ, such as {', '.join(tensors_off[:5])}"])
    if saved is not None and (differences := ours.differences(saved)):
        lines += [
            f"  {difference}".replace(" here", " in the model").replace(" there", " in the checkpoint")
            for difference in differences
        ]
        return "\n".join(lines)
    stage_of = {block.path.rpartition(".")[0]: block.stage + 1 for block in families.attention_blocks(model)}
    wanted = model.state_dict()

    def where(name: str) -> str:
        stage = next((stage for prefix, stage in stage_of.items() if name.startswith(f"{prefix}.")), None)
        return f"stage {stage}, {name}" if stage else name

    for name in wrong[:3]:
        lines.append(
            f"  {where(name)}: {tuple(wanted[name].shape)} in the model, {tuple(tensors[name].shape)} in the checkpoint"
        )
    for name in missing[:3]:
        lines.append(f"  {where(name)}: in the model only")
    for name in unknown[:3]:
        lines.append(f"  {where(name)}: in the checkpoint only")
    if (more := len(wrong) + len(missing) + len(unknown) - len(lines) + 1) > 0:
        lines.append(f"  and {more} more tensors")
    return "\n".join([*lines, f"  the model is {ours}"])


def _read_tensors(source: Path) -> tuple[dict[str, torch.Tensor], Architecture | None]:
    if source.is_dir():
        files = sorted(source.glob("*.safetensors"))
        if not files:
            raise ValueError(f"{source} holds no .safetensors file")
        tensors = {name: tensor for file in files for name, tensor in load_file(file).items()}
        return tensors, read_folder(source) if (source / "config.json").is_file() else None
    if not source.is_file():
        raise ValueError(f"there is no checkpoint at {source}")
    if source.suffix == ".safetensors":
        try:
            with safe_open(source, framework="pt") as file:
                described = (file.metadata() or {}).get("architecture")
            return load_file(source), Architecture.from_json(described) if described else None
        except SafetensorError as error:
            raise ValueError(f"{source} is no safetensors file: {error}") from error
    try:
        state = torch.load(source, map_location="cpu", weights_only=True)
    except (pickle.UnpicklingError, KeyError, EOFError, RuntimeError) as error:
        reason = str(error).splitlines()[0]
        raise ValueError(f"{source} is no checkpoint that loads with weights_only: {reason}") from error
    for key in ("state_dict", "model", "model_state_dict"):
        if isinstance(state, dict) and isinstance(state.get(key), dict):
            state = state[key]
    if not isinstance(state, dict) or not all(isinstance(tensor, torch.Tensor) for tensor in state.values()):
        raise ValueError(f"{source} holds no state dict of tensors")
    return {name.removeprefix("module."): tensor for name, tensor in state.items()}, None


def saved_in(folder: Path) -> Path:
    """The folder of the model itself: that of a training run holds it one level down."""
    return folder / "model" if (folder / "run.json").is_file() and (folder / "model").is_dir() else folder


def _read_config(folder: Path) -> dict[str, Any]:
    path = folder / "config.json"
    if not path.is_file():
        raise ValueError(f"{folder} is no saved model: it holds no config.json")
    return json.loads(path.read_text(encoding="utf-8"))
