"""The rank of W_Q W_Kᵀ: by a plain SVD of the full product, in every kind of attention module."""

import numpy as np
import pytest
import torch
import transformers
from torch import nn

import leanformer as lf
from leanformer.conditioning.query_key import query_key
from leanformer.models import families
from support.architectures import SMALL


def effective_rank(matrix: torch.Tensor) -> float:
    values = np.linalg.svd(matrix.detach().double().numpy(), compute_uv=False)
    share = values[values > 1e-12 * values[0]] / values.sum()
    return float(np.exp(-(share * np.log(share)).sum()))


def test_the_ranks_are_those_of_the_full_product() -> None:
    torch.manual_seed(0)
    model = families.build(SMALL["vit"])
    (first, _) = lf.query_key_ranks(model)
    query, key, _ = model.blocks[0].attn.qkv.weight.double().view(3, 4, 12, 48)  # type: ignore[union-attr, index]
    expected = [effective_rank(query[head].T @ key[head]) for head in range(4)]
    assert first.effective_rank == pytest.approx(expected, rel=1e-6)
    assert (first.name, first.heads, first.head_dim, first.width) == ("blocks.0.attn", 4, 12, 48)
    squares = np.linalg.svd((query[0].T @ key[0]).detach().double().numpy(), compute_uv=False) ** 2
    assert first.stable_rank[0] == pytest.approx(squares.sum() / squares[0], rel=1e-6)


def test_a_head_that_asks_one_question_has_rank_one() -> None:
    attention = nn.MultiheadAttention(8, 2)
    attention.in_proj_weight.data[:8] = torch.ones(8, 1) @ torch.randn(1, 8)
    (found,) = lf.query_key_ranks(attention)
    assert found.effective_rank == pytest.approx([1, 1], abs=1e-5)


@pytest.mark.parametrize("key", [key for key in SMALL if key != "xcit"])
def test_every_family_shows_the_sizes_of_its_queries(key: str) -> None:
    model = families.build(SMALL[key])
    known = {
        block.path: (block.heads, block.head_dim)
        for block in families.attention_blocks(model)
        if block.kind in ("self", "window", "inner")
    }
    found = {layer.name: (layer.heads, layer.head_dim) for layer in lf.query_key_ranks(model)}
    for path, sizes in known.items():
        names = [name for name in found if name == path or name.startswith(f"{path}.")]
        assert [found[name] for name in names] == [sizes], path


@pytest.mark.parametrize("key", ["vit", "deit", "crammed-bert", "story-gpt", "gpt2", "bert", "point-encoder"])
def test_queries_and_keys_are_those_that_meet_in_attention(key: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """What reaches the fused kernel is x W_Qᵀ and x W_Kᵀ; differences between tokens leave biases out."""
    torch.manual_seed(0)
    model = families.build(SMALL[key]).eval()
    name = lf.query_key_ranks(model)[0].name
    seen: dict[str, torch.Tensor] = {}
    attend = torch.nn.functional.scaled_dot_product_attention

    def spy(query: torch.Tensor, keys: torch.Tensor, *args: object, **kwargs: object) -> torch.Tensor:
        seen.setdefault("query", query)
        seen.setdefault("key", keys)
        return attend(query, keys, *args, **kwargs)  # type: ignore[arg-type]

    monkeypatch.setattr(torch.nn.functional, "scaled_dot_product_attention", spy)
    module = model.get_submodule(name)

    def note(_: nn.Module, args: tuple, kwargs: dict) -> None:
        seen["x"] = args[0] if args else kwargs["hidden_states"]

    module.register_forward_pre_hook(note, with_kwargs=True)
    with torch.no_grad():
        model(**families.example_inputs(SMALL[key]))
    x = seen["x"] - seen["x"][:, :1]
    for word, weight in zip(("query", "key"), query_key(module) or (), strict=True):
        expected = torch.einsum("bnw,hdw->bhnd", x, weight)
        torch.testing.assert_close(seen[word] - seen[word][:, :, :1], expected, rtol=1e-3, atol=1e-4)


def test_attention_in_another_order_is_left_alone() -> None:
    """Some of timm's keep query, key and value of a head together; GPT-2's cross-attention has keys and values only."""
    import timm

    assert not lf.query_key_ranks(timm.create_model("maxvit_tiny_rw_224", img_size=64, pretrained=False))
    crossed = transformers.GPT2Config(n_embd=48, n_head=4, n_layer=1, vocab_size=50, add_cross_attention=True)
    names = [layer.name for layer in lf.query_key_ranks(transformers.GPT2Model(crossed))]
    assert names == ["h.0.attn"]


def test_keys_that_several_heads_share_are_shared() -> None:
    model = families.build(SMALL["qwen3"])
    attention = next(module for module in model.modules() if hasattr(module, "k_proj"))
    query, key = query_key(attention) or (None, None)
    assert query is not None
    assert key is not None
    assert query.shape == key.shape == (4, 8, 32)
    assert torch.equal(key[0], key[1])
    assert not torch.equal(key[1], key[2])


def test_upstreams_own_models_are_read() -> None:
    config = transformers.DistilBertConfig(dim=32, n_heads=4, n_layers=1, hidden_dim=64, vocab_size=50)
    (layer,) = lf.query_key_ranks(transformers.DistilBertModel(config))
    assert (layer.heads, layer.head_dim) == (4, 8)
    conv = transformers.GPT2Model(transformers.GPT2Config(n_embd=32, n_head=2, n_layer=1, vocab_size=50))
    (layer,) = lf.query_key_ranks(conv)
    query, key, _ = conv.h[0].attn.c_attn.weight.T.double().view(3, 2, 16, 32)
    assert layer.effective_rank[1] == pytest.approx(effective_rank(query[1].T @ key[1]), rel=1e-6)


def test_channels_that_attend_to_channels_are_left_out() -> None:
    names = [layer.name for layer in lf.query_key_ranks(families.build(SMALL["xcit"]))]
    assert names
    assert all("cls_attn" in name for name in names)
