"""Attention of models that nobody described: each block equals one computed by hand, head by head, in float64."""

import math
from collections.abc import Callable

import pytest
import timm
import torch
import torch.nn.functional as F
import transformers
from torch import Tensor, nn

import leanformer as lf
from leanformer.conditioning.attention_calls import AttentionCalls
from leanformer.conditioning.layouts import Block
from leanformer.models import families
from support.architectures import SMALL

BATCH, TOKENS, WIDTH, HEADS, SIZE = 2, 7, 12, 4, 5
INNER = HEADS * SIZE


def blocks_of(model: nn.Module, *inputs: Tensor, **named: Tensor) -> dict[str, tuple[bool, Block]]:
    """By name: whether it is cross-attention, and the block."""
    found: dict[str, tuple[bool, Block]] = {}
    names = {module: name or "model" for name, module in model.named_modules()}
    with (
        torch.no_grad(),
        AttentionCalls(names, set(), lambda name, call, block: found.setdefault(name, (call.cross, block))),
    ):
        model(*inputs, **named)
    return found


def by_hand(queries: Tensor, keys: Tensor, values: Tensor, kept: Tensor | None = None) -> Tensor:
    """Head by head: (tokens, h·d) projections of one sample; fewer key heads serve neighbouring query heads."""
    heads, kv_heads = queries.shape[-1] // SIZE, keys.shape[-1] // SIZE
    columns = []
    for head in range(heads):
        mine = slice(head * SIZE, head * SIZE + SIZE)
        shared = head // (heads // kv_heads)
        theirs = slice(shared * SIZE, shared * SIZE + SIZE)
        scores = queries[:, mine] @ keys[:, theirs].T / math.sqrt(SIZE)
        if kept is not None:
            scores = scores.masked_fill(~kept, -math.inf)
        weights = scores.exp() / scores.exp().sum(1, keepdim=True)
        columns.append(weights @ values[:, theirs])
    return torch.cat(columns, dim=1)


def split(x: Tensor, size: int = SIZE) -> Tensor:
    return x.unflatten(-1, (-1, size)).transpose(1, 2)


def joined(heads: Tensor) -> Tensor:
    return heads.transpose(1, 2).flatten(2)


class Attention(nn.Module):
    """Projections for any attention; subclasses attend."""

    kv_heads = HEADS

    def __init__(self) -> None:
        super().__init__()
        self.q = nn.Linear(WIDTH, INNER)
        self.k, self.v = (nn.Linear(WIDTH, self.kv_heads * SIZE) for _ in range(2))
        self.out = nn.Linear(INNER, WIDTH)

    def forward(self, x: Tensor, context: Tensor | None = None) -> Tensor:
        context = x if context is None else context
        return self.attend(self.q(x), self.k(context), self.v(context))

    def reference(self, x: Tensor, context: Tensor | None = None, kept: Tensor | None = None) -> Tensor:
        context = x if context is None else context
        samples = zip(self.q(x), self.k(context), self.v(context), strict=True)
        return torch.stack([by_hand(*sample, kept) for sample in samples])


class Fused(Attention):
    def attend(self, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        return self.out(joined(F.scaled_dot_product_attention(split(q), split(k), split(v), dropout_p=0.0)))


class Grouped(Attention):
    kv_heads = 2

    def attend(self, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        heads = F.scaled_dot_product_attention(split(q), split(k), split(v), enable_gqa=True)
        return self.out(joined(heads))


class Repeated(Attention):
    """Keys and values are repeated, as Llama does it."""

    kv_heads = 2

    def attend(self, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        k, v = (split(x).repeat_interleave(2, dim=1) for x in (k, v))
        return self.out(joined(F.scaled_dot_product_attention(query=split(q), key=k, value=v)))


class Expanded(Attention):
    """Query heads that share a key head are an axis of their own."""

    kv_heads = 2

    def attend(self, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        q = split(q).unflatten(1, (2, 2))
        heads = F.scaled_dot_product_attention(q, *(split(x)[:, :, None].expand(-1, -1, 2, -1, -1) for x in (k, v)))
        return self.out(joined(heads.flatten(1, 2)))


class OneKey(Grouped):
    kv_heads = 1


class Folded(Attention):
    """Heads are part of the batch, inside it."""

    def attend(self, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        q, k, v = (split(x).flatten(0, 1) for x in (q, k, v))
        scores = torch.baddbmm(torch.zeros(1, 1, 1, dtype=q.dtype), q, k.transpose(1, 2), alpha=SIZE**-0.5)
        heads = torch.bmm(F.dropout(scores.softmax(-1), 0.0), v)
        return self.out(
            heads.view(-1, HEADS, *heads.shape[1:]).permute(0, 2, 1, 3).reshape(len(heads) // HEADS, -1, INNER)
        )


class FoldedOutside(Attention):
    """Heads are part of the batch, outside it."""

    def attend(self, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        q, k, v = (split(x).transpose(0, 1).flatten(0, 1) for x in (q, k, v))
        heads = F.scaled_dot_product_attention(q, k, v).unflatten(0, (HEADS, -1))
        return self.out(heads.permute(1, 2, 0, 3).flatten(2))


class SequenceFirst(Attention):
    """The projection takes rows of all samples, token by token, as `nn.MultiheadAttention` has them."""

    def attend(self, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        heads = F.scaled_dot_product_attention(split(q), split(k), split(v))
        rows = heads.permute(2, 0, 1, 3).contiguous().view(-1, INNER)
        return torch.addmm(self.out.bias, rows, self.out.weight.t()).view(TOKENS, -1, WIDTH).transpose(0, 1)


class Explicit(Attention):
    def __init__(self) -> None:
        super().__init__()
        self.softmax, self.dropout = nn.Softmax(dim=-1), nn.Dropout(0.5)

    def attend(self, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        scores = split(q) @ split(k).mT / math.sqrt(SIZE)
        return self.out(joined(self.dropout(self.softmax(scores)) @ split(v)))


class Einsum(Attention):
    """Heads are never moved: einsum takes them where they are."""

    def attend(self, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        q, k, v = (x.unflatten(-1, (HEADS, SIZE)) for x in (q, k, v))
        weights = torch.softmax(torch.einsum("bihd, bjhd -> bhij", q, k) * SIZE**-0.5, dim=-1)
        heads = torch.einsum("bhij,bjhd->bihd", weights, v)
        return torch.einsum("bihd,ohd->bio", heads, self.out.weight.unflatten(1, (HEADS, SIZE)))


class ValuesFirst(Attention):
    """The values come first and the weights are transposed, as in diffusion models."""

    def attend(self, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        q, k, v = (split(x).transpose(2, 3) for x in (q, k, v))
        weights = (q.transpose(2, 3) @ k * SIZE**-0.5).softmax(dim=-1)
        heads = (v @ weights.transpose(2, 3)).flatten(1, 2)
        return F.conv1d(heads, self.out.weight[..., None], self.out.bias).transpose(1, 2)


class Packed(Attention):
    def attend(self, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        packed = torch.stack([q, k, v], dim=2).unflatten(-1, (HEADS, SIZE)).permute(2, 0, 3, 1, 4)
        return self.out(joined(F.scaled_dot_product_attention(*packed.unbind(0))))


class OneHead(nn.Module):
    def forward(self, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        return F.softmax(q @ k.transpose(-2, -1) * SIZE**-0.5, dim=-1) @ v


class ModulePerHead(Attention):
    def __init__(self) -> None:
        super().__init__()
        self.heads = nn.ModuleList(OneHead() for _ in range(HEADS))

    def attend(self, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        parts = zip(self.heads, *(x.split(SIZE, dim=-1) for x in (q, k, v)), strict=True)
        return self.out(torch.cat([head(*mine) for head, *mine in parts], dim=-1))


class Unprojected(Attention):
    """No output projection: the heads are added to the residual stream."""

    def forward(self, x: Tensor, context: Tensor | None = None) -> Tensor:
        heads = joined(F.scaled_dot_product_attention(split(self.q(x)), split(self.k(x)), split(self.v(x))))
        stream = F.linear(x, torch.ones(INNER, WIDTH, dtype=x.dtype)) + heads
        return self.out(F.layer_norm(stream, (INNER,)))


class Chunked(Attention):
    """Queries attend in pieces."""

    def attend(self, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        q, k, v = split(q), split(k), split(v)
        pieces = [F.scaled_dot_product_attention(piece, k, v) for piece in (q[:, :, :4], q[:, :, 4:8])]
        return self.out(joined(torch.cat(pieces, dim=2)))


KINDS = (
    *(Fused, Packed, Grouped, Repeated, Expanded, OneKey, Folded, FoldedOutside, SequenceFirst),
    *(Explicit, Einsum, ValuesFirst, ModulePerHead, Unprojected),
)


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)
def test_each_way_of_attending_gives_the_block_computed_by_hand(kind: type[Attention]) -> None:
    torch.manual_seed(0)
    model = nn.Sequential(kind(), kind()).double().eval()
    x = torch.randn(BATCH, TOKENS, WIDTH, dtype=torch.float64)
    seen = blocks_of(model, x)
    assert list(seen) == ["0", "1"]
    for layer, (cross, block) in zip(model, seen.values(), strict=True):
        assert not cross
        assert (block.heads, block.head_dim, block.channels) == (HEADS, SIZE, False)
        torch.testing.assert_close(block.matrices, layer.reference(x), rtol=1e-12, atol=1e-12)
        x = layer(x)


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)
def test_measuring_sees_it_and_changes_no_output(kind: type[Attention]) -> None:
    torch.manual_seed(0)
    model = nn.Sequential(kind(), kind()).eval()
    x = torch.randn(BATCH, TOKENS, WIDTH)
    with torch.no_grad():
        expected = model(x)
        with lf.probe(model) as seen:
            got = model(x)
        assert torch.equal(model(x), expected)
    assert torch.equal(got, expected)
    assert [(layer.name, layer.target.kind, layer.target.heads) for layer in seen.layers] == [
        ("0", "self", HEADS),
        ("1", "self", HEADS),
    ]
    assert not any(module._forward_hooks or module._forward_pre_hooks for module in model.modules())
    reference = torch.linalg.cond(model[0].reference(x).double())
    torch.testing.assert_close(seen.layers[0].values.kappa, reference, rtol=1e-3, atol=0)


@pytest.mark.parametrize("kind", [Fused, Folded, Explicit, Einsum, ValuesFirst, ModulePerHead])
@pytest.mark.parametrize("length", [TOKENS, 3])
def test_cross_attention_is_told_by_where_queries_and_keys_come_from(kind: type[Attention], length: int) -> None:
    """Also where both inputs have the same length."""
    torch.manual_seed(0)
    model = kind().double().eval()
    x = torch.randn(BATCH, TOKENS, WIDTH, dtype=torch.float64)
    context = torch.randn(BATCH, length, WIDTH, dtype=torch.float64)
    ((cross, block),) = blocks_of(model, x, context).values()
    assert cross
    torch.testing.assert_close(block.matrices, model.reference(x, context), rtol=1e-12, atol=1e-12)
    ((cross, _),) = blocks_of(model, x, context=x).values()
    assert not cross
    layer = lf.measure(model, (x, context)).layers[0]
    assert (layer.target.kind, layer.name) == ("cross", kind.__name__)


class Rotary(Attention):
    """A nanoGPT-like block: causal, rotary positions, normalised queries, an output gate."""

    def forward(self, x: Tensor, context: Tensor | None = None) -> Tensor:
        heads = F.scaled_dot_product_attention(
            *self.rotated(x), is_causal=True, dropout_p=0.3 if self.training else 0.0
        )
        return self.out(joined(heads) * torch.sigmoid(self.q(x)))

    def rotated(self, x: Tensor) -> list[Tensor]:
        q, k, v = (split(part(x)) for part in (self.q, self.k, self.v))
        angle = torch.arange(x.shape[1], dtype=x.dtype)[:, None]
        turn = lambda part: part * angle.cos() + part.flip(-1) * angle.sin()  # noqa: E731
        return [F.rms_norm(turn(q), (SIZE,)), F.rms_norm(turn(k), (SIZE,)), v]

    def reference(self, x: Tensor, context: Tensor | None = None, kept: Tensor | None = None) -> Tensor:
        q, k, v = (joined(part) for part in self.rotated(x))
        kept = torch.ones(x.shape[1], x.shape[1]).tril().bool()
        heads = torch.stack([by_hand(*sample, kept) for sample in zip(q, k, v, strict=True)])
        return heads * torch.sigmoid(self.q(x))


def test_rotary_causal_and_gated_heads_are_those_that_the_projection_takes() -> None:
    torch.manual_seed(0)
    model = Rotary().double().eval()
    x = torch.randn(BATCH, TOKENS, WIDTH, dtype=torch.float64)
    ((cross, block),) = blocks_of(model, x).values()
    assert not cross
    torch.testing.assert_close(block.matrices, model.reference(x), rtol=1e-12, atol=1e-12)
    model.train()  # dropout inside the kernel changes the block, and leaves it a block
    ((_, dropped),) = blocks_of(model, x).values()
    assert dropped.matrices.shape == block.matrices.shape
    assert not torch.allclose(dropped.matrices, block.matrices)


def test_queries_in_pieces_are_one_block() -> None:
    torch.manual_seed(0)
    model = Chunked().double().eval()
    x = torch.randn(BATCH, 8, WIDTH, dtype=torch.float64)
    ((_, block),) = blocks_of(model, x).values()
    torch.testing.assert_close(block.matrices, model.reference(x), rtol=1e-12, atol=1e-12)


class Joint(nn.Module):
    """Two streams attend together, and each has its own projection."""

    def __init__(self) -> None:
        super().__init__()
        self.one, self.other = Fused(), Fused()

    def forward(self, x: Tensor, y: Tensor) -> Tensor:
        q, k, v = (
            torch.cat([split(getattr(self.one, word)(x)), split(getattr(self.other, word)(y))], dim=2) for word in "qkv"
        )
        heads = joined(F.scaled_dot_product_attention(q, k, v))
        return self.one.out(heads[:, : x.shape[1]]).sum() + self.other.out(heads[:, x.shape[1] :]).sum()


class Differential(nn.Module):
    """The difference of two attentions, normalised, then projected."""

    def __init__(self) -> None:
        super().__init__()
        self.one, self.other = Fused(), Fused()

    def forward(self, x: Tensor) -> Tensor:
        heads = [
            F.scaled_dot_product_attention(*(split(getattr(a, word)(x)) for word in "qkv"))
            for a in (self.one, self.other)
        ]
        return self.one.out(joined(F.layer_norm(heads[0] - 0.5 * heads[1], (SIZE,))))


def test_several_attentions_in_one_module() -> None:
    torch.manual_seed(0)
    x, y = torch.randn(BATCH, TOKENS, WIDTH), torch.randn(BATCH, 4, WIDTH)
    shapes = {name: tuple(block.matrices.shape) for name, (_, block) in blocks_of(Joint(), x, y).items()}
    assert shapes == {"model": (BATCH, TOKENS, INNER), "model:2": (BATCH, 4, INNER)}
    model, taken = Differential(), []
    model.one.out.register_forward_pre_hook(lambda _, args: taken.append(args[0]))
    ((_, block),) = blocks_of(model, x).values()
    assert torch.equal(block.matrices, taken[0])


def test_masks_leave_rows_of_padding_out() -> None:
    torch.manual_seed(0)

    class Masked(Attention):
        def forward(self, x: Tensor, kept: Tensor) -> Tensor:
            heads = F.scaled_dot_product_attention(
                *(split(part(x)) for part in (self.q, self.k, self.v)), attn_mask=kept[:, None, None]
            )
            return self.out(joined(heads))

    model, x = Masked(), torch.randn(BATCH, TOKENS, WIDTH)
    kept = torch.arange(TOKENS) < torch.tensor([[TOKENS], [4]])
    seen = lf.measure(model, (x, kept), mask=kept)
    alone = lf.measure(model, (x[1:, :4], kept[1:, :4]))
    torch.testing.assert_close(seen.layers[0].values.kappa[1], alone.layers[0].values.kappa[0], rtol=1e-4, atol=0)


class NoAttention(nn.Module):
    """Products and softmaxes that are not attention."""

    def __init__(self) -> None:
        super().__init__()
        self.inside, self.out = nn.Linear(WIDTH, 3), nn.Linear(WIDTH, WIDTH)

    def forward(self, x: Tensor) -> Tensor:
        routed = self.inside(x).softmax(-1) @ torch.ones(3, WIDTH)  # a router: no product of activations
        pooled = (x.mean(1, keepdim=True) @ x.mT).softmax(-1) @ x  # one row: κ is 1
        covariance = (x.mT @ x).sigmoid()
        return self.out(routed + pooled) @ covariance


def test_other_products_are_no_attention() -> None:
    with pytest.raises(ValueError, match=r"no attention was seen in NoAttention: .*projections=\"\*\.attention\.out\""):
        lf.measure(NoAttention(), torch.randn(BATCH, TOKENS, WIDTH))


# Families and upstream models, which the probe also sees through their modules


@pytest.mark.parametrize("key", SMALL)
def test_every_family_is_seen_alike_through_its_calls(key: str) -> None:
    """Bit for bit what the family's own projections take, but for VOLO's outlook attention, which has no keys."""
    torch.manual_seed(0)
    architecture = SMALL[key].resized(heads=[2 * stage.heads for stage in SMALL[key].stages])
    model, inputs = families.build(architecture).eval(), families.example_inputs(architecture)
    inputs.pop("lengths", None)
    caught: dict[str, Tensor] = {}
    blocks = [block for block in families.attention_blocks(model) if block.kind != "outlook"]
    for block in blocks:
        model.get_submodule(block.projection).register_forward_pre_hook(
            lambda _, args, path=block.path: caught.setdefault(path, args[0].detach().clone())
        )
    seen = blocks_of(model, **inputs)
    assert len(seen) == len(blocks)
    for (name, (cross, got)), block in zip(seen.items(), blocks, strict=True):
        assert name.startswith(block.path)
        assert not cross
        assert (got.heads, got.head_dim) == (block.heads, block.head_dim)
        assert got.channels == (block.kind in ("channel", "cross-covariance"))
        taken = caught[block.path]
        assert torch.equal(got.matrices, taken.flatten(1, 2) if taken.ndim == 4 else taken), name


def gpt2_with_cross_attention() -> tuple[nn.Module, dict[str, Tensor]]:
    config = transformers.GPT2Config(n_embd=32, n_layer=1, n_head=4, vocab_size=50, add_cross_attention=True)
    return transformers.GPT2LMHeadModel(config), {"input_ids": IDS, "encoder_hidden_states": torch.randn(2, 9, 32)}


def t5() -> tuple[nn.Module, dict[str, Tensor]]:
    config = transformers.T5Config(d_model=32, d_kv=8, d_ff=32, num_layers=1, num_heads=4, vocab_size=50)
    return transformers.T5Model(config), {"input_ids": IDS, "decoder_input_ids": IDS}


def bart() -> tuple[nn.Module, dict[str, Tensor]]:
    sizes = {f"{side}_{word}": number for side in ("encoder", "decoder") for word, number in BART.items()}
    return transformers.BartModel(transformers.BartConfig(d_model=32, vocab_size=50, **sizes)), {"input_ids": IDS}


BART = {"layers": 1, "attention_heads": 4, "ffn_dim": 32}
IDS = torch.arange(2, 26).reshape(2, 12)


def gptj() -> tuple[nn.Module, dict[str, Tensor]]:
    config = transformers.GPTJConfig(n_embd=32, n_layer=1, n_head=4, vocab_size=50, rotary_dim=4)
    return transformers.GPTJModel(config), {"input_ids": IDS}


def bloom() -> tuple[nn.Module, dict[str, Tensor]]:
    return transformers.BloomModel(transformers.BloomConfig(vocab_size=50, n_layer=1, n_head=4, hidden_size=32)), {
        "input_ids": IDS
    }


def xlnet() -> tuple[nn.Module, dict[str, Tensor]]:
    return transformers.XLNetModel(
        transformers.XLNetConfig(vocab_size=50, d_model=32, n_layer=1, n_head=4, d_inner=32)
    ), {"input_ids": IDS}


def longformer() -> tuple[nn.Module, dict[str, Tensor]]:
    config = transformers.LongformerConfig(
        attention_window=4,
        hidden_size=32,
        num_hidden_layers=1,
        num_attention_heads=4,
        intermediate_size=32,
        vocab_size=50,
    )
    return transformers.LongformerModel(config), {"input_ids": IDS}


def decoder_layer() -> tuple[nn.Module, tuple[Tensor, Tensor]]:
    return nn.TransformerDecoderLayer(32, 4, 32, batch_first=True), (torch.randn(2, 12, 32), torch.randn(2, 12, 32))


UPSTREAM = {
    gpt2_with_cross_attention: [("h.0.attn", "self", 4), ("h.0.crossattention", "cross", 4)],
    t5: [("encoder.0.0", "self", 4), ("decoder.0.0", "self", 4), ("decoder.0.1", "cross", 4)],
    bart: [("encoder", "self", 4), ("decoder.self_attn", "self", 4), ("encoder_attn", "cross", 4)],
    gptj: [("h.0.attn", "self", 4)],
    bloom: [("h.0.self_attention", "self", 4)],
    xlnet: [("layer.0.rel_attn", "self", 4)],
    longformer: [("encoder.layer.0.attention.self", "self", 4)],
    decoder_layer: [("self_attn", "self", 4), ("multihead_attn", "cross", 4)],
}


@pytest.mark.parametrize("make", UPSTREAM, ids=lambda make: make.__name__)
def test_upstream_models_and_their_cross_attention(make: Callable[[], tuple[nn.Module, dict[str, Tensor]]]) -> None:
    torch.manual_seed(0)
    model, inputs = make()
    layers = lf.measure(model, inputs).layers
    assert [(layer.target.kind, layer.target.heads, layer.tokens) for layer in layers] == [
        (kind, heads, 12) for _, kind, heads in UPSTREAM[make]
    ], [layer.name for layer in layers]


def test_timm_models_without_a_module_that_is_known() -> None:
    """Attention that timm computes by itself, with other names than its usual modules have."""
    model = timm.create_model("visformer_tiny", depth=(0, 1, 1), embed_dim=48, img_size=64)
    layers = lf.measure(model, torch.randn(2, 3, 64, 64)).layers
    assert [(layer.tokens, layer.columns, layer.target.heads) for layer in layers] == [(16, 48, 3), (4, 96, 3)]
