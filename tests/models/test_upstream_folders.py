"""Folders that transformers wrote: read, described, rebuilt with the same outputs, and designed from."""

from pathlib import Path

import pytest
import torch
import transformers

import leanformer as lf
from leanformer.models import families

SIZES = dict(hidden_size=32, num_hidden_layers=3, num_attention_heads=4)
TEXT = dict(**SIZES, intermediate_size=48, vocab_size=97)
IMAGE = dict(**SIZES, image_size=32, patch_size=8, num_labels=5)
DISTILBERT = dict(dim=32, n_layers=3, n_heads=4, hidden_dim=48, vocab_size=97, sinusoidal_pos_embds=True)

UPSTREAM = {
    "bert": lambda: transformers.BertForMaskedLM(transformers.BertConfig(**TEXT, hidden_act="relu")),
    "roberta": lambda: transformers.RobertaForMaskedLM(transformers.RobertaConfig(**TEXT)),
    "distilbert": lambda: transformers.DistilBertForMaskedLM(transformers.DistilBertConfig(**DISTILBERT)),
    "modernbert": lambda: transformers.ModernBertForMaskedLM(
        transformers.ModernBertConfig(**TEXT, local_attention=8, global_attn_every_n_layers=2, pad_token_id=0)
    ),
    "hf-vit": lambda: transformers.ViTForImageClassification(
        transformers.ViTConfig(**IMAGE, intermediate_size=48, num_channels=1)
    ),
    "dinov2": lambda: transformers.Dinov2ForImageClassification(
        transformers.Dinov2Config(**IMAGE, mlp_ratio=2, layerscale_value=0.5)
    ),
}


@pytest.mark.parametrize("key", UPSTREAM)
def test_upstreams_model_is_described_rebuilt_and_redesigned(key: str, tmp_path: Path) -> None:
    torch.manual_seed(0)
    theirs = UPSTREAM[key]().eval()
    theirs.save_pretrained(tmp_path)
    described = lf.architecture_of(str(tmp_path))
    assert described.family == key
    assert (described.depth, described.stages[0].heads, described.stages[0].head_dim) == (3, 4, 8)
    ours = lf.build(described).eval()
    lf.load_weights(ours, tmp_path)
    inputs = families.example_inputs(described, batch=2)
    with torch.no_grad():
        assert torch.equal(ours(**inputs).logits, theirs(**inputs).logits)
        assert torch.equal(lf.from_pretrained(tmp_path)(**inputs).logits, theirs(**inputs).logits)
    leaner = lf.architecture_of(str(tmp_path), depth=2, heads=6)
    assert lf.describe(lf.build(leaner)) == leaner
    again = tmp_path / "lean"
    lf.save_pretrained(lf.build(leaner), again)
    assert lf.describe(lf.from_pretrained(again)) == leaner


def test_a_folder_with_a_config_alone_is_enough_to_design(tmp_path: Path) -> None:
    config = transformers.Qwen3Config(
        hidden_size=64, num_hidden_layers=4, num_attention_heads=4, num_key_value_heads=2, head_dim=32,
        intermediate_size=96, vocab_size=101,
    )  # fmt: skip
    config.save_pretrained(tmp_path)
    described = lf.architecture_of(str(tmp_path))
    assert str(described) == "qwen3: 4 layers of 4 heads × 32, width 64, MLP 96"
    assert described.options["kv_groups"] == 2
    plan = lf.design(str(tmp_path))
    assert plan.original.architecture == described
    assert plan.recommended.architecture.depth < 4
    with pytest.raises(ValueError, match="holds no weights: it is a configuration") as raised:
        lf.from_pretrained(tmp_path)
    assert "lf.build(lf.architecture_of(" in str(raised.value)
