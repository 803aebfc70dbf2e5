"""Models in Hugging Face's form on disk: folders with a config.json, and files of llama.cpp (.gguf).

Code that a folder brings along is never run, and pickled weights are read without running any code in them.
"""

from __future__ import annotations

import contextlib
import importlib.util
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import transformers
from transformers import (
    AutoConfig,
    AutoModel,
    AutoModelForCausalLM,
    AutoModelForImageClassification,
    AutoModelForMaskedLM,
    AutoModelForSequenceClassification,
    AutoTokenizer,
    PreTrainedConfig,
    PreTrainedModel,
    modeling_gguf_pytorch_utils,
)
from transformers.utils import logging

from leanformer.foundation.records.files import read_json
from leanformer.models.building import built_on
from leanformer.models.old_configs import with_type


def model_from(source: Path) -> PreTrainedModel:
    """A folder's or a file's model with its weights."""
    if source.suffix == ".gguf":
        config = config_of(source)
        with _without_progress_bars():
            return AutoModelForCausalLM.from_pretrained(
                source.parent, gguf_file=source.name, config=config, trust_remote_code=False
            )
    if not any(path.suffix in (".safetensors", ".bin") for path in source.iterdir()):
        raise ValueError(
            f"{source} holds no weights: it is a configuration, of which "
            f"lf.build(lf.architecture_of({str(source)!r})) makes a fresh model"
        )
    config = config_of(source)
    with _without_progress_bars():
        return _auto_class(config).from_pretrained(source, config=config, trust_remote_code=False)


@contextlib.contextmanager
def _without_progress_bars() -> Iterator[None]:
    """transformers draws a bar for every model that it reads, also into files; that of llama.cpp's has no setting."""
    enabled, drawn = logging.is_progress_bar_enabled(), modeling_gguf_pytorch_utils.tqdm
    logging.disable_progress_bar()
    modeling_gguf_pytorch_utils.tqdm = lambda items, **_: items
    try:
        yield
    finally:
        modeling_gguf_pytorch_utils.tqdm = drawn
        if enabled:
            logging.enable_progress_bar()


def empty_model_from(source: Path) -> PreTrainedModel:
    """The model on the meta device: shapes without weights."""
    config = config_of(source)
    auto_class = AutoModelForCausalLM if source.suffix == ".gguf" else _auto_class(config)
    with built_on("meta"):
        return auto_class.from_config(config, trust_remote_code=False)


def config_of(source: Path) -> PreTrainedConfig:
    """The configuration in a folder or a file."""
    if source.suffix == ".gguf":
        return _config_in_gguf(source)
    written = read_json(source / "config.json")
    if "model_type" not in written:
        return AutoConfig.for_model(**with_type(written))
    return AutoConfig.from_pretrained(source, trust_remote_code=False)


def tokenizer_of(source: Path) -> Any:
    """The tokenizer in a folder or a file."""
    if source.suffix == ".gguf":
        _need_gguf(source)
        return AutoTokenizer.from_pretrained(source.parent, gguf_file=source.name, trust_remote_code=False)
    return AutoTokenizer.from_pretrained(source, config=config_of(source), trust_remote_code=False)


def _config_in_gguf(source: Path) -> PreTrainedConfig:
    _need_gguf(source)
    try:
        found = modeling_gguf_pytorch_utils.load_gguf_checkpoint(source, return_tensors=False)["config"]
    except (ValueError, KeyError, OSError, IndexError) as error:
        reason = " ".join(str(error).split())
        raise ValueError(f"{source} is not a model in llama.cpp's form that transformers reads: {reason}") from error
    return AutoConfig.for_model(**found)


def _need_gguf(source: Path) -> None:
    if importlib.util.find_spec("gguf") is None:
        raise ValueError(f'{source} is in llama.cpp\'s form: pip install "leanformer[gguf]" to read it')


class _WithConfig:
    """A model class of transformers' own, called as an Auto class is."""

    def __init__(self, model_class: type[PreTrainedModel]) -> None:
        self.model_class = model_class
        self.from_pretrained = model_class.from_pretrained

    def from_config(self, config: PreTrainedConfig, trust_remote_code: bool) -> PreTrainedModel:
        """The class is transformers' own: there is no remote code to trust."""
        return self.model_class(config)


def _auto_class(config: PreTrainedConfig) -> Any:
    """The Auto class for the kind of model that a config was saved with."""
    saved = (config.architectures or [""])[0]
    if type(config).__module__.startswith("transformers.") and hasattr(transformers, saved):
        return _WithConfig(getattr(transformers, saved))
    for ending, auto_class in (
        ("ForSequenceClassification", AutoModelForSequenceClassification),
        ("ForImageClassification", AutoModelForImageClassification),
        ("ForMaskedLM", AutoModelForMaskedLM),
        ("ForCausalLM", AutoModelForCausalLM),
        ("LMHeadModel", AutoModelForCausalLM),
    ):
        if saved.endswith(ending):
            return auto_class
    return AutoModel
