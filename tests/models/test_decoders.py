"""Every decoder that transformers knows: built with other sizes and read back, or refused with the reason."""

import pytest
import torch
from transformers.models.auto.modeling_auto import MODEL_FOR_CAUSAL_LM_MAPPING_NAMES

import leanformer as lf
from leanformer.costs.closed_forms import formula
from leanformer.models import families
from leanformer.models.huggingface.base import without_packing
from leanformer.models.huggingface.decoder import WELL_KNOWN, Decoder
from support.amount import some

UNLISTED = sorted(
    name for name in MODEL_FOR_CAUSAL_LM_MAPPING_NAMES if name not in WELL_KNOWN and Decoder().known(name)
)
REFUSAL = "is known to transformers but cannot be redesigned: .*(built and read back|built and trained|other parts)"


def check(name: str) -> None:
    """Other heads, depth and MLP: what is built is what was asked for, it runs, and the closed form counts it."""
    unit = families.family("decoder").head_unit(families.read(name))
    design = lf.architecture_of(name, depth=2, heads=2 * unit, mlp_dim=96)
    model = lf.build(design, device="meta")
    assert lf.describe(model) == design
    inputs = {key: tensor.to("meta") for key, tensor in families.example_inputs(design, tokens=8).items()}
    with without_packing(), torch.no_grad():
        assert model(**inputs, use_cache=False).logits.shape[:2] == (2, 8)
    assert formula(design).parameters(design).total == sum(parameter.numel() for parameter in model.parameters())


@pytest.mark.parametrize("name", some(WELL_KNOWN, 2))
def test_every_listed_decoder_can_be_resized(name: str) -> None:
    check(name)


@pytest.mark.parametrize("name", some(UNLISTED, 8))
def test_every_other_decoder_can_be_resized_or_says_why_not(name: str) -> None:
    try:
        lf.architecture_of(name)
    except ValueError as error:
        assert error.args[0].startswith(f"{name} is known to transformers but cannot be redesigned: ")
        assert "\n" not in str(error)
    else:
        check(name)


def test_gemma_2_without_fused_attention_is_designed() -> None:
    check("gemma2")


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("helium", "heads: the queries of HeliumAttention have .* columns, its output projection takes 2560"),
        ("afmoe", "AfmoeSparseMoeBlock is not a plain decoder layer"),
        ("diffllama", "cannot be built and trained"),
        ("longcat_flash", "has no layers that are made of self_attn and mlp"),
    ],
)
def test_decoders_that_change_with_their_sizes_are_refused(name: str, reason: str) -> None:
    with pytest.raises(ValueError, match=f"{name} {REFUSAL}.*") as raised:
        lf.create(name, heads=2)
    raised.match(reason)


def test_a_model_that_is_not_what_was_asked_for_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever the family does wrong: the built model is read back."""
    assemble = Decoder.assemble
    monkeypatch.setattr(Decoder, "assemble", lambda self, asked: assemble(self, asked.resized(mlp_dim=64, depth=3)))
    with pytest.raises(
        ValueError,
        match="llama cannot have these sizes: stage 1: depth 2 asked for, 3 built; mlp_dim 32 asked for, 64 built",
    ):
        lf.create("llama", width=32, depth=2, heads=2, head_dim=8, mlp_dim=32, vocab_size=11)


def test_the_kinds_of_layers_are_described_where_they_are_not_the_usual() -> None:
    sizes = dict(width=32, depth=2, heads=2, head_dim=8, mlp_dim=32, vocab_size=11, kv_groups=1)
    usual = lf.create("gemma2", **sizes)
    assert "layer_types" not in lf.describe(usual).options
    chosen = lf.create("gemma2", **sizes, layer_types=["full_attention", "full_attention"])
    assert lf.describe(chosen).options["layer_types"] == ["full_attention"] * 2
    assert lf.describe(lf.build(lf.describe(chosen))) == lf.describe(chosen)
