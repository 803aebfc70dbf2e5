"""Classifiers of texts of every family: built by `num_labels`, read back, saved, and blind to padding."""

from pathlib import Path

import pytest
import torch
from transformers import BertConfig, BertForMaskedLM, BertForSequenceClassification

from leanformer.models import families
from leanformer.models.weights import from_pretrained, save_pretrained
from support.architectures import SMALL

TEXT = [key for key, design in SMALL.items() if "vocab_size" in design.options] + ["nystromformer"]
assert {"bert", "gpt2", "llama", "crammed-bert", "story-gpt"} <= set(TEXT)


@pytest.mark.parametrize("key", TEXT)
def test_num_labels_makes_a_classifier(key: str, tmp_path: Path) -> None:
    for classes in (2, 3):
        design = SMALL[key].with_options(num_labels=classes, pad_token_id=0)
        model = families.build(design).eval()
        assert families.describe(model) == design
    torch.manual_seed(0)
    ids = torch.randint(1, 30, (2, 9))
    mask = torch.ones_like(ids)
    ids[1, 5:], mask[1, 5:] = 0, 0
    labels = torch.tensor([2, 0])
    with torch.no_grad():
        out = model(input_ids=ids, attention_mask=mask, labels=labels)
        alone = model(input_ids=ids[1:, :5], attention_mask=mask[1:, :5]).logits
    assert out.logits.shape == (2, 3)
    assert torch.allclose(out.logits[1:], alone, atol=1e-5), "padding changes nothing"
    assert out.loss.item() == pytest.approx(torch.nn.functional.cross_entropy(out.logits, labels).item(), rel=1e-5)
    save_pretrained(model, tmp_path, {"label_names": ["bad", "fair", "good"]})
    again = from_pretrained(tmp_path)
    assert type(again) is type(model)
    assert again.config.id2label == {0: "bad", 1: "fair", 2: "good"}
    with torch.no_grad():
        assert torch.equal(again(input_ids=ids, attention_mask=mask).logits, out.logits)


@pytest.mark.parametrize("classes", [2, 5])
def test_upstreams_classifier_is_described_as_one(classes: int) -> None:
    sizes = dict(hidden_size=32, num_hidden_layers=2, num_attention_heads=4, intermediate_size=64, vocab_size=101)
    upstream = BertForSequenceClassification(BertConfig(**sizes, num_labels=classes))
    design = families.describe(upstream)
    assert design.options["num_labels"] == classes
    mine = families.build(design)
    mine.load_state_dict(upstream.state_dict())
    language = families.describe(BertForMaskedLM(BertConfig(**sizes, num_labels=classes)))
    assert "num_labels" not in language.options, "a language model has no classes, whatever its config says"


def test_a_decoder_without_a_classifier_is_refused() -> None:
    design = families.read("gemma", vocab_size=101).resized(width=32, depth=1, heads=2, head_dim=8, mlp_dim=32)
    assert type(families.build(design.with_options(num_labels=2))).__name__ == "GemmaForSequenceClassification"
    with pytest.raises(ValueError, match="transformers has no classifier of texts for cwm"):
        families.build(families.read("cwm", vocab_size=101, num_labels=2), "meta")
