"""Checkpoints of other people: other heads, other prefixes; and what is said of those that do not fit."""

import warnings
from collections.abc import Callable
from pathlib import Path

import pytest
import timm
import torch
import transformers
from safetensors.torch import save_file
from torch import Tensor, nn

import leanformer as lf
from leanformer.models import families
from leanformer.models.weights import load_start
from support.architectures import SMALL

BERT = transformers.BertConfig(
    hidden_size=32, num_hidden_layers=2, num_attention_heads=4, intermediate_size=64, vocab_size=101
)


def classifier(key: str = "bert", classes: int = 3) -> nn.Module:
    """A classifier of the family, with weights that no checkpoint of these tests has."""
    torch.manual_seed(7)
    config = families.family(SMALL[key].family).config(SMALL[key].with_options(num_labels=classes))
    return transformers.AutoModelForSequenceClassification.from_config(config)


def written(model: nn.Module, path: Path, rename: Callable[[str], str] = lambda name: name) -> Path:
    tensors = {rename(name): tensor.clone() for name, tensor in model.state_dict().items()}
    save_file(tensors, path) if path.suffix == ".safetensors" else torch.save(tensors, path)
    return path


def quietly(model: nn.Module, source: Path) -> lf.Loaded:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return lf.load_weights(model, source)


def inner(model: nn.Module) -> dict[str, Tensor]:
    """The tensors of the base model, by their names in it."""
    return {name: tensor for name, tensor in model.base_model.state_dict().items() if "pooler" not in name}


def same(one: dict[str, Tensor], other: dict[str, Tensor]) -> bool:
    return one.keys() == other.keys() and all(torch.equal(tensor, other[name]) for name, tensor in one.items())


@pytest.mark.parametrize(
    ("upstream", "left_out", "new"),
    [
        (transformers.BertModel, set(), {"classifier"}),
        (transformers.BertForMaskedLM, {"cls"}, {"classifier", "bert.pooler.dense"}),
        (transformers.BertForPreTraining, {"cls"}, {"classifier"}),
        (transformers.BertForTokenClassification, {"classifier"}, {"classifier", "bert.pooler.dense"}),
    ],
    ids=lambda value: getattr(value, "__name__", ""),
)
def test_bert_of_any_head_goes_into_a_classifier(upstream: type, left_out: set, new: set, tmp_path: Path) -> None:
    checkpoint, model = upstream(BERT), classifier()
    head = {name: tensor.clone() for name, tensor in model.classifier.state_dict().items()}
    path = written(checkpoint, tmp_path / "bert.safetensors")
    with pytest.warns(UserWarning, match=r"tensors loaded; .*newly drawn: .*classifier"):
        loaded = lf.load_weights(model, path)
    assert same(inner(model), inner(checkpoint))
    assert same(model.classifier.state_dict(), head), "the head stays as it was drawn"
    assert {name.split(".")[0] for name in loaded.left_out} == left_out
    assert {name.rpartition(".")[0] for name in loaded.new} == new
    if hasattr(checkpoint.base_model, "pooler") and checkpoint.base_model.pooler is not None:
        assert same(model.bert.pooler.state_dict(), checkpoint.base_model.pooler.state_dict())


RENAMINGS: dict[str, Callable[[str], str]] = {
    "of a base model": lambda name: name.removeprefix("bert."),
    "in data-parallel": lambda name: f"module.{name}",
    "compiled": lambda name: f"_orig_mod.{name}",
    "compiled in data-parallel": lambda name: f"module._orig_mod.{name}",
    "in Lightning": lambda name: f"model.{name}",
    "in a larger model": lambda name: f"model.encoder.{name.removeprefix('bert.')}",
    "of the first BERT": lambda name: name.replace("LayerNorm.weight", "LayerNorm.gamma").replace(
        "LayerNorm.bias", "LayerNorm.beta"
    ),
}


@pytest.mark.parametrize("rename", RENAMINGS.values(), ids=RENAMINGS)
@pytest.mark.parametrize("suffix", [".safetensors", ".pt"])
def test_prefixes_do_not_matter(rename: Callable[[str], str], suffix: str, tmp_path: Path) -> None:
    checkpoint, model = transformers.BertForMaskedLM(BERT), classifier()
    loaded = quietly(model, written(checkpoint, tmp_path / f"bert{suffix}", rename))
    assert same(inner(model), inner(checkpoint))
    assert loaded.tensors == len(inner(model))


@pytest.mark.parametrize("key", ["gpt2", "llama", "crammed-bert", "bert"])
def test_a_language_model_goes_into_its_base_model_and_back(key: str, tmp_path: Path) -> None:
    whole = families.build(SMALL[key])
    base = type(whole.base_model)(whole.config)
    loaded = lf.load_weights(base, written(whole, tmp_path / "whole.pt")) if key != "bert" else None
    if loaded is not None:
        assert loaded.new == ()
        assert same(inner(base), inner(whole))
    again = families.build(SMALL[key])
    quietly(again, written(whole.base_model, tmp_path / "base.pt"))
    assert same(inner(again), inner(whole))
    if whole.all_tied_weights_keys:
        assert again.get_output_embeddings().weight is again.get_input_embeddings().weight


def test_upstreams_gpt2_with_its_old_masks(tmp_path: Path) -> None:
    config = transformers.GPT2Config(n_embd=32, n_layer=2, n_head=4, n_inner=64, vocab_size=101, n_positions=64)
    upstream, model = transformers.GPT2LMHeadModel(config), families.build(SMALL["gpt2"])
    masks = {f"transformer.h.{n}.attn.{name}": torch.ones(1) for n in (0, 1) for name in ("bias", "masked_bias")}
    torch.save({**upstream.state_dict(), **masks}, tmp_path / "gpt2.bin")
    loaded = lf.load_weights(model, tmp_path / "gpt2.bin")
    assert (loaded.left_out, loaded.new) == ((), ())
    assert same(inner(model), inner(upstream))


def test_a_folder_of_pytorch_files_is_read(tmp_path: Path) -> None:
    checkpoint, model = transformers.BertModel(BERT), classifier()
    checkpoint.config.save_pretrained(tmp_path)
    written(checkpoint, tmp_path / "pytorch_model.bin")
    quietly(model, tmp_path)
    assert same(inner(model), inner(checkpoint))


@pytest.mark.parametrize("key", ["vit", "deit", "volo", "davit", "story-gpt", "nystromformer"])
def test_a_head_of_another_size_is_left_out(key: str, tmp_path: Path) -> None:
    option = {"story-gpt": {}, "nystromformer": {"num_labels": 4}}.get(key, {"num_classes": 4})
    checkpoint, model = families.build(SMALL[key]), families.build(SMALL[key].with_options(**option))
    if key == "story-gpt":
        checkpoint.lm_head = nn.Linear(32, 7)
    loaded = quietly(model, written(checkpoint, tmp_path / "model.pt"))
    assert loaded.new
    assert all("head" in name for name in (*loaded.left_out, *loaded.new))
    ours, theirs = model.state_dict(), checkpoint.state_dict()
    assert all(torch.equal(ours[name], theirs[name]) for name in ours if name not in loaded.new)


def test_a_pretraining_run_goes_on_without_its_head(tmp_path: Path) -> None:
    checkpoint, model = families.build(SMALL["bert"]), classifier(classes=2)
    loaded = load_start(model, written(checkpoint, tmp_path / "model.pt"), "encoder")
    assert same(inner(model), inner(checkpoint))
    assert {name.rpartition(".")[0] for name in loaded.new} == {"bert.pooler.dense", "classifier"}
    again = classifier(classes=2)
    assert load_start(again, written(model, tmp_path / "tuned.pt"), "encoder").new == (
        "classifier.weight",
        "classifier.bias",
    )


# What does not fit


def test_nothing_in_common_is_one_line(tmp_path: Path) -> None:
    path = written(families.build(SMALL["vit"]), tmp_path / "vit.pt")
    with pytest.raises(
        ValueError, match=r"nothing in common with this LeanBert\w+: it holds cls_token, .*, …, the model"
    ) as e:
        lf.load_weights(classifier(), path)
    assert "\n" not in str(e.value)
    torch.save({}, tmp_path / "empty.pt")
    with pytest.raises(ValueError, match="it holds no tensors, the model bert"):
        lf.load_weights(classifier(), tmp_path / "empty.pt")


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        (
            dict(vocab_size=90),
            r"bert\.embeddings\.word_embeddings\.weight: \(101, 32\) in the model, \(90, 32\) in the",
        ),
        (
            dict(num_hidden_layers=3),
            r"stage 1, bert\.encoder\.layer\.2\.|encoder\.layer\.2\..*: in the checkpoint only",
        ),
        (dict(num_hidden_layers=1), r"stage 1, bert\.encoder\.layer\.1\.attention\S+: in the model only"),
        (dict(intermediate_size=48), r"stage 1, bert\.encoder\.layer\.0\.intermediate\S+: \(64,\) in the model"),
    ],
)
def test_what_does_not_fit_is_named(changes: dict, message: str, tmp_path: Path) -> None:
    config = transformers.BertConfig(**{**BERT.to_dict(), **changes})
    path = written(transformers.BertModel(config), tmp_path / "bert.pt")
    model = classifier()
    before = {name: tensor.clone() for name, tensor in model.state_dict().items()}
    with pytest.raises(ValueError, match=message) as raised:
        lf.load_weights(model, path)
    assert "\n" not in str(raised.value)
    assert same(model.state_dict(), before), "a model that is refused is left as it was"


def test_a_long_list_of_tensors_is_cut(tmp_path: Path) -> None:
    torch.save({"state_dict": families.build(SMALL["vit"]).state_dict()}, tmp_path / "model.pt")
    with pytest.raises(ValueError, match="does not fit this model: ") as raised:
        lf.load_weights(families.build(SMALL["vit"].resized(depth=4)), tmp_path / "model.pt")
    parts = str(raised.value).split(": ", 1)[1].split("; ")
    assert len(parts) == 6 + 1 + 1
    assert parts[0] == "stage 1, blocks.2.attn.proj.bias: in the model only"
    assert parts[6] == "and 18 more tensors"
    assert parts[7].startswith("the model is vit_tiny_patch16_224: 4 layers of 4 heads × 12")


def test_a_model_of_no_family_is_loaded_by_names(tmp_path: Path) -> None:
    known, other = (timm.create_model("resnet10t", num_classes=classes) for classes in (5, 9))
    loaded = quietly(other, written(known, tmp_path / "known.pt"))
    assert loaded.new == ("fc.weight", "fc.bias")
    deeper = timm.create_model("resnet14t")
    with pytest.raises(ValueError, match=r"known.pt does not fit this model: layer1\.0\.\S+: "):
        lf.load_weights(deeper, tmp_path / "known.pt")


def test_what_was_loaded_is_said_in_one_line(tmp_path: Path) -> None:
    model = classifier()
    loaded = quietly(model, written(transformers.BertForMaskedLM(BERT), tmp_path / "bert.pt"))
    assert str(loaded) == (
        f"{tmp_path / 'bert.pt'}: 37 tensors loaded; left out: cls.predictions, cls.predictions.decoder, "
        "cls.predictions.transform.LayerNorm, cls.predictions.transform.dense; "
        "newly drawn: bert.pooler.dense, classifier"
    )
